"""Fitted transforms, one or a chain, as JSON documents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tightset import _core
from tightset.document.envelope import MOST_BYTES, opened, read_bounded, sealed
from tightset.document.fields import as_list, check_fields, shown
from tightset.transforms.entropy_spline import EntropySpline
from tightset.transforms.one_vs_rest import Isotonic, Spline
from tightset.transforms.temperature import ConfTS, TemperatureNLL
from tightset.transforms.transform import Transform
from tightset.transforms.vector_scaling import VectorScaling
from tightset.whole_files import written

FORMAT = "tightset-transform"
VERSION = 1

KINDS: dict[str, type[Transform]] = {
    kind.kind: kind for kind in (TemperatureNLL, ConfTS, VectorScaling, Isotonic, Spline, EntropySpline)
}


def chain_document(chain: Sequence[Transform]) -> list[dict[str, Any]]:
    """Return transforms as JSON holds them."""
    return [transform.to_document() for transform in chain]


def chain_from_document(document: Any) -> tuple[Transform, ...]:
    """Return the transforms that JSON holds."""
    found = []
    for part in as_list(document, "transforms"):
        kind = part.get("kind") if isinstance(part, dict) else None
        if kind not in KINDS:
            message = f"a transform must be one of {', '.join(KINDS)}, got {shown(kind)}"
            raise ValueError(message)
        found.append(KINDS[kind].from_document(part))
    return tuple(found)


def save(transform: Transform, path: str | os.PathLike[str]) -> None:
    """Write a fitted transform to a file, whole or not at all."""
    document = {
        "format": FORMAT,
        "format_version": VERSION,
        "tightset": _core.VERSION,
        "transforms": chain_document([transform]),
    }
    with written(path) as file:
        file.write(sealed(document).encode())


def load(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> Transform:
    """Return the transform that `Transform.save` wrote.

    Raises ValueError when the file is not one, was changed since, or holds a value outside its domain. No
    code from the file is run.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> fitted = ts.transforms.TemperatureNLL().fit(rng.normal(size=(50, 3)), rng.integers(3, size=50))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fitted.save(f"{folder}/transform.json")
    ...     ts.transforms.load(f"{folder}/transform.json") == fitted
    True
    """
    try:
        document = opened(read_bounded(path, max_bytes), FORMAT, VERSION)
        fields = ("format", "format_version", "tightset", "transforms", "sha256")
        check_fields(document, "the document", fields)
        (found,) = chain_from_document(document["transforms"])
    except (TypeError, ValueError, RecursionError) as error:
        message = f"{path} is not a valid transform: {error}"
        raise ValueError(message) from error
    return found
