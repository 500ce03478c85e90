"""Arrays of other libraries as arrays of NumPy: the only place that looks at foreign objects."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

RAW_BFLOAT16 = np.dtype("V2")
"""bfloat16 as the core takes it: NumPy has no such dtype."""


def as_array(value: Any, name: str) -> NDArray[Any]:
    """Return an array of whatever the value holds."""
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            message = f"{name} must not be masked: {int(np.ma.getmaskarray(value).sum())} entries are"
            raise TypeError(message)
        return np.asarray(value.data)
    if is_torch(value):
        return _from_torch(value, name)
    module = type(value).__module__.partition(".")[0]
    if module == "scipy" and hasattr(value, "toarray"):
        message = f"{name} must be dense, got a sparse {type(value).__name__}"
        raise TypeError(message)
    if module == "pyarrow" and hasattr(value, "type") and hasattr(value.type, "value_type"):
        return from_arrow_lists(value, name)
    if module == "polars" and hasattr(value, "collect"):
        message = f"{name} must be read before it is passed, got a {type(value).__name__}: call collect()"
        raise TypeError(message)
    if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if isinstance(value, (list, tuple)) and any(np.ma.is_masked(part) for part in value):
        message = f"{name} must not be masked: entries of a part of it are"
        raise TypeError(message)
    try:
        array = np.asarray(value)
        # Nullable columns of pandas come as objects; without nulls they are numbers.
        return np.asarray(array.tolist()) if module == "pandas" and array.dtype == object else array
    except ValueError as error:
        message = f"{name} cannot be read as an array: {error}"
        raise ValueError(message) from error


def from_arrow_lists(column: Any, name: str) -> NDArray[Any]:
    """Return the rows of an Arrow array of lists, all of one length; copied only where it has chunks."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if column.null_count:
        message = f"{name} must not have nulls, found {column.null_count}"
        raise ValueError(message)
    lengths = (
        {column.type.list_size}
        if hasattr(column.type, "list_size")
        else set(column.value_lengths().unique().to_pylist())
    )
    values = column.flatten()
    if len(lengths) > 1 or values.null_count:
        message = f"{name} must have lists of one length without nulls, got lengths {sorted(lengths)[:5]}"
        raise ValueError(message)
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), *lengths or {0})


def odd_entry(value: Any) -> str:
    """Return where the first entry of a list or frame is that is no real number, for an error; or nothing."""
    is_mixed = isinstance(value, np.ndarray) and value.dtype.kind == "O"
    if not (is_mixed or isinstance(value, (list, tuple)) or hasattr(value, "columns")):
        return ""  # all of one kind, which its dtype names
    entries = np.asarray(value, dtype=object)
    for place, entry in np.ndenumerate(entries) if entries.ndim in (1, 2) else ():
        if isinstance(entry, Real):
            continue
        found = f": found {entry!r:.40} at row {place[0]}"
        if len(place) == 1:
            return found
        names = getattr(value, "columns", None)
        name = place[1] if names is None else names[place[1]]
        return f"{found}, column {name!r}" if isinstance(name, (str, int)) else found
    return ""


def is_torch(value: object) -> bool:
    """Return whether a value is a tensor of torch."""
    return type(value).__module__.partition(".")[0] == "torch"


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
        return raw.view(RAW_BFLOAT16)
    array: NDArray[Any] = tensor.numpy()
    return array


def _torch() -> Any:
    import torch

    return torch
