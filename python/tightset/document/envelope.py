"""Documents as text: with their hash on the way out, bounded and checked on the way in."""

from __future__ import annotations

import os
from typing import IO, Any

from tightset._inputs import as_integer
from tightset.document.canonical import digest, parse
from tightset.document.fields import check_digest, check_version

MOST_BYTES = 2**26
"""A file with a score table of four million scores."""

_CHUNK = 2**20


def written_out(document: dict[str, Any]) -> str:
    """Return a document as the text of a file."""
    import json  # here, or `import tightset` would pay for it

    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def sealed(document: dict[str, Any]) -> str:
    """Return a document as text, with the hash of its contents."""
    return written_out({**document, "sha256": digest(document)})


def opened(text: str | bytes, kind: str, version: int) -> dict[str, Any]:
    """Return the document of a text whose format, version and hash are right; ValueError otherwise."""
    document = parse(text)
    if not isinstance(document, dict) or document.get("format") != kind:
        message = f"its format is not {kind!r}"
        raise ValueError(message)
    check_version(document, version)
    check_digest(document)
    return document


def read_bounded(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """Return what a file holds, unless that is more than `max_bytes`."""
    from pathlib import Path

    most = as_integer(max_bytes, "max_bytes", 1)
    with Path(path).open("rb") as file:
        return read_up_to(most, file, str(path))


def read_up_to(most: int, file: IO[bytes], name: str) -> bytes:
    """Return what comes from a file that is open, unless that is more than so many bytes."""
    raw = bytearray()
    # What is read is counted, not what the system says of the file: it may be growing, or no file at all.
    while chunk := file.read(_CHUNK):
        raw += chunk
        if len(raw) > most:
            message = f"{name} is too large for a predictor: more than max_bytes={most}"
            raise ValueError(message)
    return bytes(raw)
