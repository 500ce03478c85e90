"""Rows that were checked, as floats for what is computed in NumPy; the core reads them as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset._foreign_arrays import RAW_BFLOAT16


def as_floats(rows: NDArray[Any]) -> NDArray[Any]:
    """Return what `as_logits` let pass in the dtype that the core computes in: a copy, so for blocks."""
    if rows.dtype == RAW_BFLOAT16:
        bits = np.ascontiguousarray(rows).view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32)
    is_narrow = rows.dtype.kind == "f" and rows.dtype.itemsize <= 4
    return rows.astype(np.float32 if is_narrow else np.float64, order="C")


def as_log_values(rows: NDArray[Any], *, probabilities: bool) -> NDArray[np.float64]:
    """Return rows that were checked as logits in float64; those of probabilities are their logarithms."""
    values = as_floats(rows).astype(np.float64)
    if not probabilities:
        return values
    with np.errstate(divide="ignore"):
        return np.log(values)
