"""Rows of logits from JSON and from bytes, refused when a number is not one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset.service.refusals import Refusal
from tightset.service.settings import Limits

_NUMBERS = frozenset({int, float})


def rows_of_lists(
    rows: Any, n_labels: int, limits: Limits, dtype: type[np.generic] = np.float64
) -> NDArray[Any]:
    """Return the array of a list of lists of numbers; a single list is one row."""
    if not isinstance(rows, list) or not rows:
        message = f"rows must be a list of at least one row, got {_named(rows)}"
        raise Refusal("invalid_rows", message)
    if not isinstance(rows[0], list):
        rows = [rows]
    n = len(rows)
    check_count(n, limits)
    for i, row in enumerate(rows):
        if not isinstance(row, list):
            message = f"rows must be lists of numbers, got {_named(row)} at row {i}"
            raise Refusal("invalid_rows", message, rows=n, row=i)
        if not _NUMBERS.issuperset(map(type, row)):
            # Strings that read like numbers, true and null would be taken for numbers by NumPy.
            j = next(j for j, value in enumerate(row) if type(value) not in _NUMBERS)
            message = f"rows must hold numbers, got {_named(row[j])} at row {i}, label {j}"
            raise Refusal("invalid_rows", message, rows=n, row=i, label=j)
        if len(row) != n_labels:
            message = f"rows must have {n_labels} labels as the model has, got {len(row)} at row {i}"
            raise Refusal("wrong_labels", message, rows=n, row=i)
    return _cast(rows, dtype)


def rows_of_flat(
    values: list[Any], shape: tuple[int, int], dtype: type[np.generic] = np.float64
) -> NDArray[Any]:
    """Return the array of a flat list of numbers in row-major order."""
    n, k = shape
    if not _NUMBERS.issuperset(map(type, values)):
        i = next(i for i, value in enumerate(values) if type(value) not in _NUMBERS)
        message = f"data must hold numbers, got {_named(values[i])} at {i}"
        raise Refusal("invalid_rows", message, rows=n, row=i // k, label=i % k)
    if len(values) != n * k:
        message = f"data must have {n * k} numbers for shape [{n}, {k}], got {len(values)}"
        raise Refusal("shape_mismatch", message, rows=n)
    return _cast(values, dtype).reshape(shape)


def rows_of_bytes(body: bytes | memoryview, shape: str, n_labels: int, limits: Limits) -> NDArray[Any]:
    """Return the view of little-endian float32 in row-major order, whose shape a header has."""
    parts = shape.split(",")
    # Digits alone, and few: `int` takes signs, underscores and other alphabets.
    sizes = [int(p) for part in parts if (p := part.strip()).isascii() and p.isdigit() and len(p) <= 12]
    if len(parts) != 2 or len(sizes) != 2:
        message = f"Tightset-Shape must be rows and labels as in 8,1000, got {shape[:80]!r}"
        raise Refusal("shape_mismatch", message)
    n, k = sizes
    if n == 0:
        message = "Tightset-Shape must have at least one row, got 0"
        raise Refusal("invalid_rows", message)
    check_count(n, limits)
    if k != n_labels:
        message = f"rows must have {n_labels} labels as the model has, got {k}"
        raise Refusal("wrong_labels", message, rows=n)
    if len(body) != 4 * n * k:
        message = f"the body must have {4 * n * k} bytes for {n} rows of {k} float32, got {len(body)}"
        raise Refusal("shape_mismatch", message, rows=n)
    return np.frombuffer(body, "<f4").reshape(n, k)


def check_count(n: int, limits: Limits) -> None:
    """Refuse too many rows."""
    if n > limits.rows:
        message = f"rows must be at most {limits.rows} in a request, got {n}"
        raise Refusal("too_many_rows", message, rows=n)


def not_finite(rows: NDArray[Any]) -> Refusal | None:
    """Return the refusal of the first NaN or infinity of either sign, if there is one.

    The library takes -inf for a label that cannot occur. In a service it is more likely the logarithm of
    a zero somewhere upstream.
    """
    wrong = ~np.isfinite(rows)
    if not wrong.any():
        return None
    i, j = divmod(int(wrong.argmax()), rows.shape[1])
    message = f"rows must be finite, got {rows[i, j]} at row {i}, label {j}"
    return Refusal("not_finite", message, rows=len(rows), row=i, label=j)


def row_ids_of(given: Any, n_rows: int, *, needed: bool) -> NDArray[np.uint64] | None:
    """Return one id for each row, which a model has or has not been calibrated with."""
    if (given is not None) != needed:
        asked = "needs row_ids: it was calibrated with them" if needed else "takes no row_ids"
        message = f"the model {asked}"
        raise Refusal("invalid_request", message, rows=n_rows)
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != n_rows:
        message = f"row_ids must be a list of {n_rows} integers, one for each row"
        raise Refusal("invalid_request", message, rows=n_rows)
    for i, value in enumerate(given):
        if type(value) is not int or not 0 <= value < 2**64:
            message = f"row_ids must be integers from 0 below 2^64, got {_named(value)} at row {i}"
            raise Refusal("invalid_request", message, rows=n_rows, row=i)
    return np.array(given, np.uint64)


def _cast(rows: list[Any], dtype: type[np.generic]) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # becomes an infinity, which is refused
        return np.array(rows, np.float64).astype(dtype, copy=False)


def _named(value: Any) -> str:
    if isinstance(value, list | dict):
        return "an empty list" if value == [] else "a list" if isinstance(value, list) else "an object"
    return "null" if value is None else repr(value)[:80]
