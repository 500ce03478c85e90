"""Try an installed tightset as a user would: run by another interpreter, away from the repository.

Needs nothing but the package; with the extra ``cli`` installed and ``--cli``, the commands too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import tightset as ts


def try_package() -> None:
    """Calibrate, predict, save and load on bundled logits."""
    files = {str(file) for file in distribution("tightset").files or ()}
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert any(file.endswith(f"licenses/{name}") for file in files), f"{name} is missing"
    assert "tightset/py.typed" in files, "the types are missing"
    assert "tightset/report/style.css" in files, "the report's style is missing"
    assert ts.__version__ == distribution("tightset").version, "two versions"
    for name in ("mnist", "fashion-mnist", "ag-news", "carer"):
        data = ts.datasets.load(name)
        half = len(data.labels) // 2
        predictor = ts.calibrate(data.logits[:half], data.labels[:half], alpha=0.1)
        sets = predictor.predict_set(data.logits[half:])
        coverage = sets.coverage(data.labels[half:])
        assert 0.86 < coverage < 0.94, f"{name}: coverage {coverage}"
        predictor.save("predictor.json")
        assert ts.load("predictor.json").predict_set(data.logits[half:]) == sets, f"{name}: loaded differs"
        print(f"{name}: {len(sets)} rows, coverage {coverage:.3f}, mean size {sets.sizes.mean():.3f}")


def try_commands() -> None:
    """Run the commands on files, up to an HTML report."""
    command = Path(sys.executable).parent / "tightset"
    data = ts.datasets.load("fashion-mnist")
    np.save("logits.npy", data.logits[:2000])
    np.save("labels.npy", data.labels[:2000])
    for arguments in (
        "calibrate logits.npy labels.npy -o shell.json",
        "predict shell.json logits.npy -o sets.npz",
        "inspect shell.json",
        "compare logits.npy labels.npy --report report.html",
    ):
        subprocess.run([command, *arguments.split()], check=True, stdout=subprocess.DEVNULL)
    assert "<html" in Path("report.html").read_text(encoding="utf-8"), "the report is no page"
    print("commands and report: as they should be")


if __name__ == "__main__":
    # Folders are left by name, for Windows does not remove the current one.
    import os

    home = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        try:
            try_package()
            if "--cli" in sys.argv:
                try_commands()
        finally:
            os.chdir(home)
