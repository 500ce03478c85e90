"""Install each file of a folder in a clean environment and try it: ``python tests/release_check.py dist``.

A wheel is installed with its command line and plots. A source distribution is built without a network,
without an index and with an empty crate cache, so that only what is in it can be used; without the slow
optimisations of a release, for it is only tried.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import inlined

# Free-threaded builds take no abi3 wheels, and the others only those here.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
PROBE = Path(__file__).parent / "release_probe.py"


def run(*command: str | Path, **environment: str) -> None:
    """Run a command away from the repository; an error ends the check."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with tempfile.TemporaryDirectory() as elsewhere:
        subprocess.run(list(map(str, command)), check=True, cwd=elsewhere, env=clean | environment)


def environment(folder: Path) -> Path:
    """Make an environment; return its interpreter."""
    run(sys.executable, "-m", "venv", folder)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def try_wheel(wheel: Path, scratch: Path) -> None:
    """Check the tags of a wheel, install it and run the probe."""
    if "abi3" in wheel.name:
        run(sys.executable, "-m", "abi3audit", "--strict", wheel)
    if "linux" in wheel.name:
        shown = subprocess.run(
            [sys.executable, "-m", "auditwheel", "show", wheel], check=True, capture_output=True, text=True
        ).stdout
        tag = wheel.stem.rpartition("-")[2].split(".")[0]
        assert f'"{tag}"' in shown, f"{wheel.name} is not what its name says:\n{shown}"
    if "linux" in wheel.name and wheel.stem.endswith("x86_64") and inlined.OBJDUMP:
        with zipfile.ZipFile(wheel) as archive:
            (core,) = (name for name in archive.namelist() if re.fullmatch(r"tightset/_core\..*so", name))
            outlined = inlined.outlined_in(Path(archive.extract(core, scratch)))
        assert not outlined, "operations of vectors are functions:\n" + "\n".join(outlined)
    python = environment(scratch)
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli,plot]")
    run(python, PROBE, "--cli")


def try_sdist(sdist: Path, scratch: Path) -> None:
    """Build a source distribution from itself alone, and run the probe."""
    python = environment(scratch)
    run(python, "-m", "pip", "install", "--quiet", "maturin>=1.9.4,<2", "numpy")
    run(
        *(python, "-m", "pip", "install", "--no-build-isolation", "--no-index", "--no-deps", sdist),
        CARGO_HOME=str(scratch / "crates"),
        CARGO_NET_OFFLINE="true",
        CARGO_PROFILE_RELEASE_LTO="off",
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
        PATH=f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    )
    run(python, PROBE)


def main(folder: Path) -> None:
    """Try everything in the folder."""
    files = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    assert files, f"nothing in {folder}"
    for file in files:
        if file.suffix == ".whl" and ("abi3" in file.name) == FREE_THREADED:
            print(f"{file.name}: not tried, it is not for this Python")
            continue
        print(f"{file.name}:", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            (try_wheel if file.suffix == ".whl" else try_sdist)(file.resolve(), Path(scratch))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
