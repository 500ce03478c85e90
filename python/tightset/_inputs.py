"""What users pass, turned into what the core reads: the only place that looks at foreign objects.

Logits are never copied here, whatever their dtype and layout; the core converts them row by row.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ArrayLike: TypeAlias = Any
"""NumPy arrays, lists, tensors, data frames: whatever offers ``__array__`` or DLPack."""

_RAW_BFLOAT16 = np.dtype("V2")
_LARGEST_SEED = 2**64 - 1


def as_logits(logits: ArrayLike, *, n_labels: int | None = None, one_row: bool = False) -> NDArray[Any]:
    """Return a two-dimensional view of real numbers; one row (1-D) only where `one_row` says so."""
    array = logits if type(logits) is np.ndarray else _as_array(logits, "logits")
    dtype = array.dtype
    if dtype.name == "bfloat16":
        array = array.view(_RAW_BFLOAT16)
    elif dtype.kind == "f" and dtype.itemsize > 8:
        # longdouble differs from platform to platform; nothing else is converted as a whole.
        array = array.astype(np.float64)
    elif dtype.kind not in "fiu" and not (dtype == _RAW_BFLOAT16 and array is not logits):
        message = f"logits must be real numbers, got dtype {dtype}"
        raise TypeError(message)
    if array.ndim == 1 and one_row:
        array = array[np.newaxis, :]
    if array.ndim != 2:
        shape = "(n, K), or one row of K" if one_row else "(n, K)"
        message = f"logits must have shape {shape}, got {array.shape}"
        raise ValueError(message)
    if array.shape[1] == 0:
        message = f"logits must have at least one label, got shape {array.shape}"
        raise ValueError(message)
    if n_labels is not None and array.shape[1] != n_labels:
        message = f"logits must have {n_labels} labels as in calibration, got {array.shape[1]}"
        raise ValueError(message)
    return array


def as_labels(labels: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return one integer a row; the core checks their range as it reads them."""
    array = _as_array(labels, "labels")
    if array.dtype.kind not in "iu":
        hint = "; convert them with .astype(int) if they are whole" if array.dtype.kind == "f" else ""
        message = f"labels must be integers, got dtype {array.dtype}{hint}"
        raise TypeError(message)
    if array.ndim != 1 or len(array) != n_rows:
        message = f"labels must have one value for each of the {n_rows} rows, got shape {array.shape}"
        raise ValueError(message)
    if array.dtype == np.uint64 and n_rows and array.max() > np.iinfo(np.int64).max:
        row = int(array.argmax())
        message = f"labels must be below the number of labels: found {array[row]} at row {row}"
        raise ValueError(message)
    return np.ascontiguousarray(array, dtype=np.int64)


def as_uniforms(u: ArrayLike | None, n_rows: int) -> float | NDArray[np.float64] | None:
    """Return U as nothing, one number, or one for each row; the core checks the range."""
    if u is None:
        return None
    array = _as_array(u, "u")
    if array.dtype.kind not in "fiu":
        message = f"u must be real numbers between 0 and 1, got dtype {array.dtype}"
        raise TypeError(message)
    if array.ndim == 0:
        return float(array)
    if array.shape != (n_rows,):
        message = f"u must be one number or one for each of the {n_rows} rows, got shape {array.shape}"
        raise ValueError(message)
    return np.ascontiguousarray(array, dtype=np.float64)


def as_row_ids(row_ids: ArrayLike | None, n_rows: int) -> NDArray[np.uint64] | None:
    """Return one unsigned integer a row; negative ones wrap, which keeps them distinct."""
    if row_ids is None:
        return None
    array = _as_array(row_ids, "row_ids")
    if array.dtype.kind not in "iu":
        message = f"row_ids must be integers, got dtype {array.dtype}"
        raise TypeError(message)
    if array.shape != (n_rows,):
        message = f"row_ids must have one value for each of the {n_rows} rows, got shape {array.shape}"
        raise ValueError(message)
    return np.ascontiguousarray(array).astype(np.uint64)


def as_number(value: object, name: str) -> float:
    """Return a real number, which a bool or a string is not."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        message = f"{name} must be a number, got {value!r}"
        raise TypeError(message)
    return float(value)


def as_alpha(value: object, name: str = "alpha") -> float:
    """Return a miscoverage level strictly between 0 and 1."""
    alpha = as_number(value, name)
    if not 0.0 < alpha < 1.0:
        message = f"{name} must be strictly between 0 and 1, got {alpha}"
        raise ValueError(message)
    return alpha


def as_alphas(alpha: object, confidence_level: object) -> tuple[list[float], bool]:
    """Return the levels asked for, and whether they were asked for as a sequence."""
    if alpha is not None and confidence_level is not None:
        message = "give alpha or confidence_level, not both"
        raise TypeError(message)
    name, value = ("alpha", alpha) if confidence_level is None else ("confidence_level", confidence_level)
    if value is None:
        value = 0.1
    is_sequence = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    values: list[object] = list(value) if is_sequence else [value]  # type: ignore[call-overload]
    if not values:
        message = f"{name} must not be empty"
        raise ValueError(message)
    levels = [as_alpha(v, name) for v in values]
    if name == "confidence_level":
        # In decimal, so that 0.9 asks for 0.1 and not for 0.09999999999999998.
        levels = [float(1 - Decimal(repr(level))) for level in levels]
    return levels, is_sequence


def as_seed(seed: object) -> int:
    """Return an integer of 64 bits."""
    value = _as_integer(seed, "seed")
    if not 0 <= value <= _LARGEST_SEED:
        message = f"seed must be between 0 and 2**64 - 1, got {value}"
        raise ValueError(message)
    return value


def as_thread_count(n_threads: object) -> int | None:
    """Return a positive number of threads, or None for as many as the machine allows."""
    if n_threads is None:
        return None
    value = _as_integer(n_threads, "n_threads")
    if value < 1:
        message = f"n_threads must be at least 1, got {value}"
        raise ValueError(message)
    return value


def _as_integer(value: object, name: str) -> int:
    if isinstance(value, (bool, np.bool_)):
        message = f"{name} must be an integer, got {value!r}"
        raise TypeError(message)
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        message = f"{name} must be an integer, got {value!r}"
        raise TypeError(message) from None


def _as_array(value: ArrayLike, name: str) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            message = f"{name} must not be masked: {int(np.ma.getmaskarray(value).sum())} entries are"
            raise TypeError(message)
        return np.asarray(value.data)
    module = type(value).__module__.partition(".")[0]
    if module == "torch":
        return _from_torch(value, name)
    if module == "scipy" and hasattr(value, "toarray"):
        message = f"{name} must be dense, got a sparse {type(value).__name__}"
        raise TypeError(message)
    if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    try:
        return np.asarray(value)
    except ValueError as error:
        message = f"{name} cannot be read as an array: {error}"
        raise ValueError(message) from error


def _from_torch(tensor: Any, name: str) -> NDArray[Any]:
    if tensor.device.type != "cpu":
        message = f"{name} must be on the CPU, got a tensor on {tensor.device}: pass {name}.cpu()"
        raise TypeError(message)
    if tensor.layout != _torch().strided:
        message = f"{name} must be dense, got a tensor of layout {tensor.layout}"
        raise TypeError(message)
    tensor = tensor.detach()
    if tensor.dtype == _torch().bfloat16:
        # NumPy has no bfloat16: the same bytes as integers, then as raw two-byte elements.
        raw: NDArray[Any] = tensor.view(_torch().int16).numpy()
        return raw.view(_RAW_BFLOAT16)
    array: NDArray[Any] = tensor.numpy()
    return array


def _torch() -> Any:
    import torch

    return torch
