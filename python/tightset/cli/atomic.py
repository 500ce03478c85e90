"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

STANDARD = "-"
"""The name that stands for standard input or output."""


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file to write to, which takes the place of `path` at the end, unless something goes wrong.

    ``-`` is standard output.
    """
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    check_folder(target)
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_folder(path: Path) -> None:
    """Refuse a file whose folder does not exist, before work is spent on it."""
    if not path.parent.is_dir():
        message = f"the folder of {path} does not exist"
        raise FileNotFoundError(message)
    if path.is_dir():
        message = f"{path} is a folder, not a file"
        raise IsADirectoryError(message)
