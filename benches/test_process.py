"""What a whole process costs: its import, and its memory at the peak."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import footprint

TIMED_IMPORT = "from time import perf_counter as t; s = t(); import {}; print(t() - s)"


def seconds(module, environment):
    run = [sys.executable, "-c", TIMED_IMPORT.format(module)]
    return float(subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout)


@pytest.fixture(scope="module")
def imports(tmp_path_factory):
    """Times of both imports, taken in turns: the machine's mood is the same for both.

    Both from bytecode, as packages that pip installed have it; here it may not be written beside the sources.
    """
    bytecode = str(tmp_path_factory.mktemp("bytecode"))
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
    turns = [{name: seconds(name, environment) for name in ("numpy", "tightset")} for _ in range(40)]
    return {name: min(turn[name] for turn in turns) for name in ("numpy", "tightset")}


@pytest.mark.parametrize("name", ["numpy", "tightset"])
def test_import(measured, imports, name):
    measured("import", name, lambda: imports[name])


@pytest.mark.parametrize("layout", footprint.LAYOUTS)
def test_memory(measured, layout):
    call = lambda: footprint.peak_beyond("label_scores", layout, 1 << 30) / 2**20  # noqa: E731
    measured("peak memory beyond input and output, 1 GB", f"tightset, {layout}", call)
