"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file to write to, which takes the place of `path` at the end, unless something goes wrong.

    It is written beside its destination and moved there in one step, so that an interrupt or a full disk
    leaves what was there before.
    """
    from pathlib import Path  # here, or `import tightset` would pay for it

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


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose folder does not exist, before work is spent on it."""
    from pathlib import Path

    target = Path(path)
    if not target.parent.is_dir():
        message = f"the folder of {target} does not exist"
        raise FileNotFoundError(message)
    if target.is_dir():
        message = f"{target} is a folder, not a file"
        raise IsADirectoryError(message)
