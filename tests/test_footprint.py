"""What the package costs beyond the work it does: memory at the peak, and modules at import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import footprint

MEGABYTE = 2**20
BAR = 16 * MEGABYTE


@pytest.mark.parametrize("layout", footprint.LAYOUTS)
def test_memory_beyond_input_and_output(layout):
    assert footprint.peak_beyond("label_scores", layout, 128 * MEGABYTE) < BAR


@pytest.mark.slow
@pytest.mark.parametrize("call", ["label_scores", "entropy"])
@pytest.mark.parametrize("layout", footprint.LAYOUTS)
def test_memory_beyond_a_gigabyte(call, layout):
    assert footprint.peak_beyond(call, layout, 1024 * MEGABYTE) < BAR


def test_a_copy_would_be_seen():
    assert footprint.peak_beyond("copy", "float32", 128 * MEGABYTE) > 120 * MEGABYTE


def modules_after(module):
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_import_brings_little_beyond_numpy():
    """A time cannot be asserted; what is imported can. `make bench` measures the time."""
    beyond = modules_after("tightset") - modules_after("numpy")
    foreign = {name for name in beyond if name.split(".")[0] not in ("tightset", "numpy")}
    # Less than 5 ms together.
    cheap = {"__future__", "_json", "base64", "binascii", "copy", "dataclasses"}
    cheap |= {"json", "json.decoder", "json.encoder", "json.scanner"}
    assert foreign <= cheap, f"import tightset also loads {sorted(foreign - cheap)}"
    assert "tightset.calibration" in beyond
