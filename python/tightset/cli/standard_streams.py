"""``-`` as a file name: standard input or output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tightset import whole_files

STANDARD = "-"
"""The name that stands for standard input or output."""


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file to write to, whole or not at all, or standard output."""
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_files.written(path) as file:
        yield file
