"""What a whole process costs: its import, and its memory at the peak."""

from __future__ import annotations

import subprocess
import sys

import pytest

import footprint

TIMED_IMPORT = "from time import perf_counter as t; s = t(); import {}; print(t() - s)"


def seconds(module):
    run = [sys.executable, "-c", TIMED_IMPORT.format(module)]
    return float(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def imports():
    """Times of both imports, taken in turns: the machine's mood is the same for both."""
    turns = [{name: seconds(name) for name in ("numpy", "tightset")} for _ in range(15)]
    return {name: min(turn[name] for turn in turns) for name in ("numpy", "tightset")}


@pytest.mark.parametrize("name", ["numpy", "tightset"])
def test_import(measured, imports, name):
    measured("import", name, lambda: imports[name])


@pytest.mark.parametrize("layout", footprint.LAYOUTS)
def test_memory(measured, layout):
    call = lambda: footprint.peak_beyond("label_scores", layout, 1 << 30) / 2**20  # noqa: E731
    measured("peak memory beyond input and output, 1 GB", f"tightset, {layout}", call)
