"""What users pass, checked and turned into what the core reads.

NumPy arrays of logits are not copied here, whatever their dtype and layout (longdouble apart); the core
converts them row by row. `tightset._foreign_arrays` makes NumPy arrays of others.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable
from numbers import Real
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightset._foreign_arrays import RAW_BFLOAT16, as_array, is_torch, odd_entry
from tightset.warning_kinds import ProbabilitiesWarning

ArrayLike: TypeAlias = Any
"""NumPy arrays, lists, tensors, data frames: whatever offers ``__array__`` or DLPack."""

_Scalar = TypeVar("_Scalar", np.int64, np.uint64, np.float64)


def as_logits(logits: ArrayLike, *, n_labels: int | None = None, one_row: bool = False) -> NDArray[Any]:
    """Return a two-dimensional view of real numbers; one row (1-D) only where `one_row` says so."""
    array = as_real_array(logits)
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


def as_calibration_logits(logits: ArrayLike) -> NDArray[Any]:
    """Return at least one row of logits, two-dimensional."""
    array = as_logits(logits)
    if not len(array):
        message = "logits must have at least one row to calibrate on, got 0"
        raise ValueError(message)
    return array


def as_real_array(logits: ArrayLike) -> NDArray[Any]:
    """Return a view of real numbers, of any shape."""
    array = logits if type(logits) is np.ndarray else as_array(logits, "logits")
    dtype = array.dtype
    if dtype.kind == "f" and dtype.itemsize in (4, 8):
        return array  # at once: to name a dtype takes as long as to read a short row
    if dtype.name == "bfloat16":
        array = array.view(RAW_BFLOAT16)
    elif dtype.kind == "f" and dtype.itemsize > 8:
        # longdouble differs from platform to platform; nothing else is converted as a whole.
        with np.errstate(over="ignore"):
            array = array.astype(np.float64)
    elif dtype.kind not in "fiu" and not (dtype == RAW_BFLOAT16 and is_torch(logits)):
        message = f"logits must be real numbers, got dtype {dtype}{odd_entry(logits)}"
        raise TypeError(message)
    return array


def as_row_values(value: ArrayLike, name: str, n_rows: int) -> NDArray[np.float64]:
    """Return one finite number a row."""
    array = _plain(_reals(value, name), np.float64)
    _check_one_a_row(array, name, n_rows)
    if not np.isfinite(array).all():
        row = int(np.isfinite(array).argmin())
        message = f"{name} must be finite: found {array[row]} at row {row}"
        raise ValueError(message)
    return array


def warn_if_probabilities(logits: NDArray[Any], stacklevel: int) -> None:
    """Warn when the first rows read like probabilities: scores of them are valid, and worse."""
    rows = logits[:64]
    if rows.dtype.kind != "f" or rows.shape[1] < 2 or not len(rows):
        return
    if not rows[0].min() >= 0:  # as of nearly all logits: not worth a pass over the others
        return
    rows = rows.astype(np.float64)
    if (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1.0) < 1e-3).all():
        message = (
            "logits read like probabilities (no row is negative, each sums to 1): pass probabilities=True"
        )
        warnings.warn(message, ProbabilitiesWarning, stacklevel=stacklevel + 1)


def as_labels(labels: ArrayLike, n_rows: int, *, one_row: bool = False) -> NDArray[np.int64]:
    """Return one integer a row; the core checks their range as it reads them.

    A label by itself stands for one row only where `one_row` says so.
    """
    array = as_array(labels, "labels")
    hint = "the number of each label's column, counting from 0"
    array = _integers(array[np.newaxis] if one_row and array.ndim == 0 else array, "labels", n_rows, hint)
    if array.dtype == np.uint64 and n_rows and array.max() > np.iinfo(np.int64).max:
        row = int(array.argmax())
        message = f"labels must be below the number of labels: found {array[row]} at row {row}"
        raise ValueError(message)
    return _plain(array, np.int64)


def check_columns(labels: NDArray[np.int64], n_labels: int) -> None:
    """Refuse labels that are not columns, as the core does with those that it reads."""
    outside = (labels < 0) | (labels >= n_labels)
    if outside.any():
        row = int(outside.argmax())
        last = f"{n_labels - 1}, the last column"
        message = f"labels must be between 0 and {last}: found {labels[row]} at row {row}"
        raise ValueError(message)


def as_row_ids(row_ids: ArrayLike | None, n_rows: int) -> NDArray[np.uint64] | None:
    """Return one unsigned integer a row; negative ones wrap, which keeps them distinct."""
    if row_ids is None:
        return None
    array = _integers(as_array(row_ids, "row_ids"), "row_ids", n_rows, "an integer for each row")
    return _plain(array, np.uint64)


def check_as_in_calibration(value: object, name: str, *, had: bool) -> None:
    """Refuse what calibration had not, and its lack where it had: scores would be others than its."""
    if (value is not None) != had:
        was = "with" if had else "without"
        message = f"{name} must be given exactly when calibration had them: it was {was} {name}"
        raise ValueError(message)


def as_groups(
    groups: ArrayLike, n_rows: int, name: str, *, may_be_one: bool = False
) -> tuple[list[int] | list[str], NDArray[np.int64]]:
    """Return the distinct groups, sorted, and the index of each row's; groups are integers or strings.

    With `may_be_one` a single group may stand for all rows.
    """
    if may_be_one and isinstance(groups, (int, str, np.integer)) and not isinstance(groups, bool):
        one = [str(groups)] if isinstance(groups, str) else [int(groups)]
        return one, np.zeros(n_rows, dtype=np.int64)
    array = as_array(groups, name)
    if array.dtype.kind == "O" and all(type(value) is str for value in array.flat):
        array = array.astype(str)
    if array.dtype.kind not in "iuUT":
        found = f"dtype {array.dtype}"
        if array.dtype.kind == "O":
            odd = next(value for value in array.flat if type(value) is not str)
            found = f"a {type(odd).__name__}"
        message = f"{name} must be integers or strings, one for each row, got {found}"
        raise TypeError(message)
    _check_one_a_row(array, name, n_rows)
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64 and n_rows and array.max() > np.iinfo(np.int64).max:
            message = f"{name} must be below 2^63, got {array.max()}"
            raise ValueError(message)
        array = array.astype(np.int64)
    distinct, index = np.unique(array, return_inverse=True)
    names = distinct.tolist()
    if array.dtype.kind not in "iu":
        check_texts(names, name)
    return names, index.reshape(-1).astype(np.int64)


def check_texts(texts: Iterable[str], name: str) -> None:
    """Refuse a text that no file could hold."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            message = f"{name} must be text that UTF-8 can hold, got {text!r}"
            raise ValueError(message) from None


def check_choice(value: object, name: str, choices: tuple[str, ...], other: str | None = None) -> None:
    """Refuse a value that is not one of some names; `other` says what else it could have been."""
    if not isinstance(value, str) or value not in choices:
        names = ", ".join(repr(choice) for choice in choices)
        message = f"{name} must be one of {names}{f' or {other}' if other else ''}, got {value!r}"
        raise ValueError(message)


def as_uniforms(u: ArrayLike | None, n_rows: int) -> float | NDArray[np.float64] | None:
    """Return U as nothing, one number, or one for each row."""
    if u is None:
        return None
    array = _reals(u, "u")
    if array.ndim == 0:
        value = float(array)
        if not 0.0 <= value <= 1.0:
            message = f"u must be between 0 and 1, got {value}"
            raise ValueError(message)
        return value
    if array.shape != (n_rows,):
        message = f"u must be one number or one for each of the {n_rows} rows, got shape {array.shape}"
        raise ValueError(message)
    return _plain(array, np.float64)


def as_scores(scores: ArrayLike) -> NDArray[np.float64]:
    """Return at least one score in one dimension; the core refuses NaN."""
    array = _reals(scores, "scores")
    if array.ndim != 1 or not len(array):
        message = f"scores must have shape (n,) with n at least 1, got {array.shape}"
        raise ValueError(message)
    return _plain(array, np.float64)


def as_p_values(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers from 0 to 1 of shape (n, K), n and K at least 1."""
    array = _plain(_reals(p_values, "p_values"), np.float64)
    if array.ndim != 2 or 0 in array.shape:
        message = f"p_values must have shape (n, K), n and K at least 1, got {array.shape}"
        raise ValueError(message)
    outside = ~((array >= 0.0) & (array <= 1.0))
    if outside.any():
        row, label = np.argwhere(outside)[0].tolist()
        message = f"p_values must be between 0 and 1: found {array[row, label]} at row {row}, label {label}"
        raise ValueError(message)
    return array


def as_features(
    features: ArrayLike, n_rows: int, *, n_columns: int | None = None, one_row: bool = False
) -> NDArray[np.float64]:
    """Return finite numbers of shape (n_rows, d), d at least 1; one row (1-D) where `one_row` says so."""
    array = _reals(features, "features")
    if array.ndim == 1 and one_row and n_rows == 1:
        array = array[np.newaxis, :]
    if array.ndim != 2 or len(array) != n_rows or not array.shape[1]:
        message = f"features must have shape ({n_rows}, d) with d at least 1, got {array.shape}"
        raise ValueError(message)
    if n_columns is not None and array.shape[1] != n_columns:
        message = f"features must have {n_columns} columns as in calibration, got {array.shape[1]}"
        raise ValueError(message)
    numbers = _plain(array, np.float64)
    finite = np.isfinite(numbers)
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        message = f"features must be finite: found {numbers[row, column]} at row {row}, column {column}"
        raise ValueError(message)
    return numbers


def as_nodes(nodes: ArrayLike, n_nodes: int, name: str) -> NDArray[np.int64]:
    """Return the numbers of distinct nodes, from numbers or from a mask of all nodes; at least one."""
    array = as_array(nodes, name)
    if array.dtype == np.bool_ and array.shape == (n_nodes,):
        array = np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        message = f"{name} must be integers, or a mask of shape ({n_nodes},), got dtype {array.dtype}"
        raise TypeError(message)
    if array.ndim != 1 or not len(array):
        message = f"{name} must be one or more nodes in one dimension, got shape {array.shape}"
        raise ValueError(message)
    outside = (array < 0) | (array >= n_nodes)
    if outside.any():
        place = int(outside.argmax())
        message = f"{name} must be between 0 and {n_nodes - 1}: found {array[place]} at place {place}"
        raise ValueError(message)
    found, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        message = f"{name} must name each node once: {found[counts.argmax()]} is there {counts.max()} times"
        raise ValueError(message)
    return _plain(array, np.int64)


def _integers(array: NDArray[Any], name: str, n_rows: int, wanted: str) -> NDArray[Any]:
    if array.shape == (0,) and n_rows == 0:
        return array.astype(np.int64)  # an empty list has no type of its own
    if array.dtype.kind not in "iu":
        hint, found = f"give {wanted}", odd_entry(array)
        if array.dtype.kind == "f" and array.ndim == 1:
            broken = np.flatnonzero(~np.isfinite(array) | (array != np.floor(array)))
            if len(broken):
                found = f": found {array[broken[0]]} at row {broken[0]}"
            else:
                hint = "convert them with .astype(int), they are whole"
        elif array.ndim == 2 and array.shape[1] > 1 and name == "labels":
            hint = "of one-hot rows, take .argmax(axis=1)"
        message = f"{name} must be integers, got dtype {array.dtype}{found}; {hint}"
        raise TypeError(message)
    _check_one_a_row(array, name, n_rows)
    return array


def _check_one_a_row(array: NDArray[Any], name: str, n_rows: int) -> None:
    if array.shape != (n_rows,):
        hint = ": pass .ravel() of it" if array.shape in ((n_rows, 1), (1, n_rows)) else ""
        message = f"{name} must have one value for each of the {n_rows} rows, got shape {array.shape}{hint}"
        raise ValueError(message)


def _reals(value: ArrayLike, name: str) -> NDArray[Any]:
    array = as_array(value, name)
    if array.dtype.kind not in "fiu":
        message = f"{name} must be real numbers, got dtype {array.dtype}"
        raise TypeError(message)
    return array


def _plain(array: NDArray[Any], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    """Contiguous, aligned and in the machine's byte order; a copy only if it has to be."""
    return np.require(array.astype(dtype, copy=False), requirements=["C", "A"])


def as_number(value: object, name: str) -> float:
    """Return a real number, which a bool or a string is not."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        message = f"{name} must be a number, got {value!r}"
        raise TypeError(message)
    try:
        return float(value)
    except OverflowError:
        message = f"{name} must be a number that a float can hold, got one that is too large"
        raise ValueError(message) from None


def as_positive(value: object, name: str) -> float:
    """Return a number above 0 that is not infinite."""
    number = as_number(value, name)
    if not 0.0 < number < math.inf:
        message = f"{name} must be positive and finite, got {number}"
        raise ValueError(message)
    return number


def as_integer(value: object, name: str, least: int, most: int = 2**63 - 1) -> int:
    """Return an integer between two bounds."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        message = f"{name} must be an integer, got {value!r}"
        raise TypeError(message)
    if not least <= number <= most:
        bounds = f"between {least} and {most}" if number > most else f"at least {least}"
        message = f"{name} must be {bounds}, got {number}"
        raise ValueError(message)
    return number


def as_flag(value: object, name: str) -> bool:
    """Return a bool; nothing else says yes or no clearly enough."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    message = f"{name} must be True or False, got {value!r}"
    raise TypeError(message)


def as_alpha(value: object, name: str = "alpha") -> float:
    """Return a miscoverage level strictly between 0 and 1."""
    alpha = as_number(value, name)
    if not 0.0 < alpha < 1.0:
        hint = "" if name != "alpha" else "; alpha=0.1 asks for sets that cover 90 %"
        message = f"{name} must be strictly between 0 and 1, got {alpha}{hint}"
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
    is_sequence = np.ndim(value) > 0 if isinstance(value, np.ndarray) else isinstance(value, (list, tuple))
    values: list[object] = list(value) if is_sequence else [value]  # type: ignore[call-overload]
    if not values:
        message = f"{name} must not be empty"
        raise ValueError(message)
    levels = [as_alpha(v, name) for v in values]
    if name == "confidence_level":
        from decimal import Decimal  # here, or `import tightset` would pay for it

        # In decimal, so that 0.9 asks for 0.1 and not for 0.09999999999999998.
        levels = [float(1 - Decimal(repr(level))) for level in levels]
        if 1.0 in levels:
            message = f"{name} must not be so near 0, got {values[levels.index(1.0)]}"
            raise ValueError(message)
    return levels, is_sequence


def as_seed(seed: object) -> int:
    """Return an integer of 64 bits."""
    return as_integer(seed, "seed", 0, 2**64 - 1)


def as_thread_count(n_threads: object) -> int | None:
    """Return a positive number of threads, or None for as many as the machine allows."""
    return None if n_threads is None else as_integer(n_threads, "n_threads", 1, 2**31)
