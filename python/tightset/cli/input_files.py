"""What commands read: files that exist, and standard input for one of them at most."""

from __future__ import annotations

from pathlib import Path

from tightset.cli.standard_streams import STANDARD


def check_is_file(path: str | Path) -> None:
    """Refuse a path that is not a file."""
    if not Path(path).is_file():
        message = f"{path} does not exist" if not Path(path).exists() else f"{path} is not a file"
        raise FileNotFoundError(message)


def check_one_is_standard(paths: dict[str, str | None]) -> None:
    """Refuse standard input in two places, before the first of them has read all of it."""
    names = [name for name, path in paths.items() if path == STANDARD]
    if len(names) > 1:
        message = f"{names[0]} and {names[1]} cannot both be standard input"
        raise ValueError(message)
