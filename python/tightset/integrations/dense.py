"""Sets for every pixel or token: logits and labels with more axes than two, read where they are.

Logits have shape (n, ..., K), or (n, K, ...) with ``channels="first"`` as convolutional networks of torch
give them; labels have the shape without K. Neither layout is copied, whatever strides the axes have:
calibration reads rows by their position in memory, prediction takes the array axis by axis as far as its
memory asks for. (An axis with a negative stride is the exception: such an array is copied.)

The guarantee is that of rows: it is exact for exchangeable pixels. Pixels of one image depend on each
other, so coverage varies more between calibration draws than the number of pixels suggests.

>>> import numpy as np
>>> from tightset.integrations import dense
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(5, size=(8, 16, 16))
>>> logits = rng.normal(size=(8, 5, 16, 16)) + 3 * np.moveaxis(np.eye(5)[labels], -1, 1)
>>> labels[:, :2] = 255
>>> predictor = dense.calibrate(logits[:4], labels[:4], 0.1, "aps", channels="first", ignore_index=255)
>>> predictor.n_calibration
896
>>> sets = dense.predict_set(predictor, logits[4:], channels="first")
>>> sets.sizes.reshape(labels[4:].shape).shape
(4, 16, 16)
>>> known = labels[4:].ravel() != 255
>>> 0.85 < sets[known].coverage(labels[4:].ravel()[known]) < 0.95
True
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tightset._foreign_arrays import RAW_BFLOAT16, as_array, is_torch
from tightset._inputs import (
    ArrayLike,
    as_alphas,
    as_flag,
    as_integer,
    as_labels,
    as_real_array,
    as_seed,
    as_thread_count,
    warn_if_probabilities,
)
from tightset.calibration import marginal_predictors, recipe_for
from tightset.calibration_rows import CalibrationRows
from tightset.objectives import Objective
from tightset.predictor import Predictor
from tightset.recipes import Recipe
from tightset.sets import PredictionSets, joined

__all__ = ["calibrate", "predict_set"]

Channels = Literal["first", "last"]


def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: float | None = None,
    recipe: str | Recipe = "er-aps",
    *,
    channels: Channels = "last",
    ignore_index: int | None = None,
    confidence_level: float | None = None,
    objective: Objective = "size",
    seed: int = 0,
    n_threads: int | None = None,
    probabilities: bool = False,
    max_memory: int = 2**30,
) -> Predictor:
    """Calibrate on every pixel or token whose label is not ignored.

    Parameters
    ----------
    logits
        Array of shape (n, ..., K), or (n, K, ...) with ``channels="first"``.
    labels
        Integers of the shape without K.
    channels
        Where K is: the last axis, or the second.
    ignore_index
        A label to leave out, such as 255 or -100.
    alpha, recipe, confidence_level, objective, seed, n_threads, probabilities, max_memory
        As in `tightset.calibrate`.

    Returns
    -------
    The `Predictor` that `tightset.calibrate` gives for the kept rows in one matrix, to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from tightset.integrations import dense
    >>> rng = np.random.default_rng(0)
    >>> tokens = rng.integers(20, size=(10, 30))
    >>> logits = rng.normal(size=(10, 30, 20)) + 4 * np.eye(20)[tokens]
    >>> tokens[3:, 25:] = -100
    >>> dense.calibrate(logits, tokens, alpha=0.1, recipe="aps", ignore_index=-100).n_calibration
    265
    """
    array = _labels_last(as_real_array(logits), channels)
    truth = as_array(labels, "labels")
    if truth.shape != array.shape[:-1]:
        message = f"labels must have shape {array.shape[:-1]}, that of logits without K, got {truth.shape}"
        raise ValueError(message)
    flat = as_labels(truth.reshape(-1), truth.size)
    kept = None
    if ignore_index is not None:
        kept = np.flatnonzero(flat != as_integer(ignore_index, "ignore_index", -(2**63)))
        flat = flat[kept]
    if not len(flat):
        message = f"labels must hold one that is not ignored, got {truth.size} of ignore_index={ignore_index}"
        raise ValueError(message)
    matrix, positions = _matrix(array)
    if kept is not None:
        positions = kept if positions is None else positions[kept]
    rows = CalibrationRows(
        logits=matrix,
        labels=flat,
        row_ids=None,
        seed=as_seed(seed),
        probabilities=as_flag(probabilities, "probabilities"),
        n_threads=as_thread_count(n_threads),
        max_memory=as_integer(max_memory, "max_memory", 1),
        positions=positions,
    )
    if not rows.probabilities:
        warn_if_probabilities(matrix if positions is None else matrix[positions[:64]], stacklevel=2)
    alphas, is_sequence = as_alphas(alpha, confidence_level)
    if is_sequence:
        message = f"alpha must be one number, got {alphas}"
        raise TypeError(message)
    used = recipe_for(recipe, objective)
    return marginal_predictors(used, rows, alphas, objective)[0]


def predict_set(
    predictor: Predictor,
    logits: ArrayLike,
    *,
    channels: Channels = "last",
    allow_empty: bool = True,
    n_threads: int | None = None,
) -> PredictionSets:
    """Return the set of every pixel or token, in the order of the labels raveled.

    Parameters
    ----------
    predictor
        From `calibrate`, here or in `tightset`.
    logits, channels
        As in `calibrate`.
    allow_empty, n_threads
        As in `Predictor.predict_set`.

    Returns
    -------
    Sets of all n x ... rows: ``sets.sizes.reshape(labels.shape)`` is a map of sizes.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> from tightset.integrations import dense
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=500)
    >>> predictor = ts.calibrate(rng.normal(size=(500, 3)) + 2 * np.eye(3)[labels], labels, recipe="thr")
    >>> len(dense.predict_set(predictor, rng.normal(size=(2, 3, 4, 5)), channels="first"))
    40
    """
    array = _labels_last(as_array(logits, "logits"), channels)
    found = [
        predictor.predict_set(_typed(part, logits), allow_empty=allow_empty, n_threads=n_threads)
        for part in _parts(array)
    ]
    return found[0] if len(found) == 1 else joined(found, array.shape[-1])


def _labels_last(array: NDArray[Any], channels: Channels) -> NDArray[Any]:
    """Return a view with K as the last axis."""
    if channels not in ("first", "last"):
        message = f"channels must be 'first' or 'last', got {channels!r}"
        raise ValueError(message)
    if array.ndim < 2 or 0 in array.shape:
        message = f"logits must have K and at least one other axis, none of length 0, got shape {array.shape}"
        raise ValueError(message)
    view = np.moveaxis(array, 1, -1) if channels == "first" else array
    return np.ascontiguousarray(view) if min(view.strides) < 0 else view


def _typed(part: NDArray[Any], logits: ArrayLike) -> Any:
    """Return the part as a tensor again where NumPy has lost its type, that of bfloat16."""
    if part.dtype != RAW_BFLOAT16 or not is_torch(logits):
        return part
    import torch

    return torch.from_numpy(part.view(np.int16)).view(logits.dtype)


def _matrix(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Return a matrix over the memory of an array, and where in it the array's rows are; None: all, in order.

    Rows of the matrix start at each multiple of a step that all axes share, and so overlap in general: of
    an array (n, K, H, W) they start at every element, and those of image i at ``i K H W``.
    """
    whole = _collapsed(array)
    if whole is not None:
        return whole, None
    steps = array.strides[:-1]
    step = int(np.gcd.reduce(steps))
    position = np.zeros(array.shape[:-1], dtype=np.int64)
    for axis, stride in enumerate(steps):
        along = np.arange(array.shape[axis], dtype=np.int64) * (stride // step)
        position += along.reshape(-1, *(1,) * (array.ndim - 2 - axis))
    positions = position.reshape(-1)
    shape = (int(positions.max()) + 1, array.shape[-1])
    return as_strided(array, shape, (step, array.strides[-1]), writeable=False), positions


def _parts(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield matrices that hold the rows in order, as few as views allow."""
    whole = _collapsed(array)
    if whole is not None:
        yield whole
        return
    for part in array:
        yield from _parts(part)


def _collapsed(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return the array as one matrix of evenly spaced rows, if its memory is so."""
    axes = [
        (length, step)
        for length, step in zip(array.shape[:-1], array.strides[:-1], strict=True)
        if length > 1
    ]
    for (_, outer), (length, inner) in pairwise(axes):
        if outer != length * inner:
            return None
    n = int(np.prod(array.shape[:-1]))
    step = axes[-1][1] if axes else array.strides[-1]
    return as_strided(array, (n, array.shape[-1]), (step, array.strides[-1]), writeable=array.flags.writeable)
