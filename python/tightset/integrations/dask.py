"""Calibration and prediction on Dask arrays, to the bit what one machine gives.

Every block of rows becomes a task that returns its counts as bytes; the counts are added in a tree. Tasks
change nothing they are given, so a task that is run again after a worker has died counts its rows once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask as _dask
import numpy as np

from tightset.objectives import Objective
from tightset.predictor import Predictor
from tightset.recipes import Recipe
from tightset.sets import PredictionSets
from tightset.streaming.calibration import STATE_BYTES, Calibration

__all__ = ["calibrate", "predict_set"]

dask: Any = _dask  # it says little about its types

_MERGED_TOGETHER = 8


def calibrate(
    logits: Any,
    labels: Any,
    alpha: float | Sequence[float] | None = None,
    recipe: str | Recipe = "er-aps",
    *,
    confidence_level: float | Sequence[float] | None = None,
    objective: Objective = "size",
    seed: int = 0,
    row_ids: Any = None,
    n_threads: int | None = 1,
    probabilities: bool = False,
    state_bytes: int = STATE_BYTES,
) -> Predictor | tuple[Predictor, ...]:
    """Calibrate on a Dask array of logits and a Dask array of labels, with whatever scheduler is active.

    The predictor is the one that `tightset.calibrate` gives for recipes with one candidate and ``"modsel"``
    selection, and the one that `tightset.calibrate_stream` gives for all.

    Parameters
    ----------
    logits
        Dask array of shape (n, K). It is computed once in each pass, from 3 to about 8 times: persist it
        if it is expensive and fits the memory of the cluster. Chunks of unknown size are fine if labels
        have as many.
    labels, row_ids
        Dask arrays of shape (n,); cut like the logits if they are not.
    alpha, recipe, confidence_level, objective, seed, probabilities
        As in `tightset.calibrate`.
    n_threads
        Threads of a task; 1 by default, as Dask runs several tasks at a time.
    state_bytes
        Bytes for the counts of a pass, which is what a task returns at most.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import tightset as ts
    >>> from tightset.integrations import dask as on_dask
    >>> rng = np.random.default_rng(1)
    >>> labels = rng.integers(4, size=2000)
    >>> logits = 3 * rng.normal(size=(2000, 4)) + 6 * np.eye(4)[labels]
    >>> parts = da.from_array(logits, chunks=(300, 4)), da.from_array(labels, chunks=300)
    >>> on_dask.calibrate(*parts, alpha=0.1) == ts.calibrate(logits, labels, alpha=0.1)
    True
    """
    state = Calibration(
        recipe,
        alpha,
        confidence_level=confidence_level,
        objective=objective,
        seed=seed,
        probabilities=probabilities,
        n_threads=n_threads,
        state_bytes=state_bytes,
    )
    rows = _blocks(logits, "logits")
    truth = _beside(labels, logits, "labels")
    ids = [None] * len(rows) if row_ids is None else _beside(row_ids, logits, "row_ids")
    starts = _starts(logits, rows) if state.splits_rows and row_ids is None else [None] * len(rows)
    while not state.is_complete:
        state.begin_pass()
        plan = dask.delayed(state.worker().to_bytes())
        parts = [
            _count(plan, number, *block)
            for number, block in enumerate(zip(rows, truth, ids, starts, strict=True))
        ]
        while len(parts) > 1:
            groups = range(0, len(parts), _MERGED_TOGETHER)
            parts = [_merged(parts[i : i + _MERGED_TOGETHER]) for i in groups]
        (found,) = dask.compute(*parts)
        state.merge(Calibration.from_bytes(found))
        state.end_pass()
    return state.finish()


def predict_set(
    predictor: Predictor,
    logits: Any,
    *,
    row_ids: Any = None,
    allow_empty: bool = True,
    n_threads: int | None = 1,
) -> list[Any]:
    """Return a delayed `PredictionSets` for each block of rows of a Dask array, in order.

    ``dask.compute(*blocks)`` gives them all; or hand them on, to be written by the workers.

    Parameters
    ----------
    predictor
        The predictor.
    logits
        Dask array of shape (n, K).
    row_ids
        Dask array of shape (n,), exactly when calibration had them.
    allow_empty, n_threads
        As in `Predictor.predict_set`.
    """
    rows = _blocks(logits, "logits")
    ids = [None] * len(rows) if row_ids is None else _beside(row_ids, logits, "row_ids")
    return [
        _predict(predictor, z, i, allow_empty=allow_empty, n_threads=n_threads)
        for z, i in zip(rows, ids, strict=True)
    ]


@dask.delayed(pure=True)  # type: ignore[untyped-decorator]
def _count(plan: bytes, number: int, logits: Any, labels: Any, row_ids: Any, start: int | None) -> bytes:
    state = Calibration.from_bytes(plan)
    state.update(logits, labels, row_ids, start=start, block=number)
    return state.to_bytes()


@dask.delayed(pure=True)  # type: ignore[untyped-decorator]
def _merged(parts: list[bytes]) -> bytes:
    state = Calibration.from_bytes(parts[0])
    for part in parts[1:]:
        state.merge(Calibration.from_bytes(part))
    return state.to_bytes()


@dask.delayed(pure=True)  # type: ignore[untyped-decorator]
def _predict(
    predictor: Predictor, logits: Any, row_ids: Any, *, allow_empty: bool, n_threads: int | None
) -> PredictionSets:
    return predictor.predict_set(logits, row_ids=row_ids, allow_empty=allow_empty, n_threads=n_threads)


@dask.delayed(pure=True)  # type: ignore[untyped-decorator]
def _length(block: Any) -> int:
    return len(block)


def _blocks(array: Any, name: str) -> list[Any]:
    """Return the blocks of rows as delayed arrays."""
    if not hasattr(array, "to_delayed") or not hasattr(array, "chunks"):
        message = f"{name} must be a Dask array, got {type(array).__name__}"
        raise TypeError(message)
    expected = 2 if name == "logits" else 1
    if array.ndim != expected:
        shape = "(n, K)" if expected == 2 else "(n,)"
        message = f"{name} must have shape {shape}, got {array.ndim} dimensions"
        raise ValueError(message)
    if array.ndim == 2 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    return list(array.to_delayed().ravel())


def _beside(array: Any, logits: Any, name: str) -> list[Any]:
    """Return the blocks of an array that has one entry for each row of the logits, cut like them."""
    blocks = _blocks(array, name)
    ours, theirs = logits.chunks[0], array.chunks[0]
    if _is_unknown(ours) or _is_unknown(theirs):
        if len(ours) != len(theirs):
            message = (
                f"{name} must have as many chunks as logits where chunk sizes are unknown: got {len(theirs)} "
                f"and {len(ours)}; call compute_chunk_sizes() on both"
            )
            raise ValueError(message)
        return blocks  # blocks of different lengths are refused where they are read
    if sum(ours) != sum(theirs):
        message = f"{name} must have one value for each of the {sum(ours)} rows, got {sum(theirs)}"
        raise ValueError(message)
    return blocks if ours == theirs else _blocks(array.rechunk((ours,)), name)


def _starts(logits: Any, blocks: list[Any]) -> list[int]:
    """Return the number of each block's first row; where sizes are unknown, they are counted first."""
    sizes = logits.chunks[0]
    if _is_unknown(sizes):
        sizes = dask.compute(*[_length(block) for block in blocks])
    return [int(start) for start in np.cumsum([0, *sizes[:-1]])]


def _is_unknown(sizes: Sequence[float]) -> bool:
    return any(math.isnan(size) for size in sizes)
