"""Prints what `make bench` is for: one table of ratios."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    session = getattr(config, "_benchmarksession", None)
    if session is None or not session.benchmarks:
        return
    groups = {}
    for bench in session.benchmarks:
        if "what" in bench.extra_info:
            seconds = bench.stats.min / bench.extra_info["rows"]
            groups.setdefault(bench.group, {})[bench.extra_info["what"]] = seconds
    write = terminalreporter.write_line
    write("")
    write(f"{'work':32}{'what':26}{'best time':>12}{'against tightset':>18}")
    for group, times in groups.items():
        own = times.get("tightset")
        for what, seconds in times.items():
            ratio = f"{seconds / own:.1f} x" if own else ""
            write(f"{group:32}{what:26}{_shown(seconds):>12}{ratio:>18}")


def _shown(seconds):
    return f"{seconds * 1e3:.1f} ms" if seconds > 1e-3 else f"{seconds * 1e6:.1f} us"
