"""How many of many scores are below, or up to, each of many others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**16
"""Questions at a time: what is formed of them stays in the cache."""


class SortedCounts:
    """Counts over given scores, by a table of equal steps and binary search where a step holds a score.

    A question's step is a monotone function of its value, so that scores in lower steps are below it
    whatever the rounding. With a dozen steps a score, few questions fall into a step that has one.

    Parameters
    ----------
    scores
        Shape (n,), without NaN.
    """

    def __init__(self, scores: NDArray[Any]) -> None:
        self._sorted = np.sort(scores)
        self._table: NDArray[np.int32] | None = None
        finite = self._sorted[np.isfinite(self._sorted)] if scores.dtype.kind == "f" else scores[:0]
        if not 64 <= len(finite) <= 2**26:
            return
        n_steps = 1 << (12 * len(finite)).bit_length()
        self._low, high = float(finite[0]), float(finite[-1])
        with np.errstate(over="ignore", divide="ignore"):
            self._scale = float(np.float64(n_steps - 4) / (np.float64(high) - self._low))
        if not 0.0 < self._scale < np.inf:
            return
        self._last = n_steps - 1
        steps = self._steps(self._sorted.astype(np.float64, copy=False))
        held = np.bincount(steps, minlength=n_steps)
        below = np.cumsum(held) - held
        self._table = np.where(held == 0, below, -1).astype(np.int32)
        self._table[0] = -1  # where NaN goes

    def _steps(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return 0 for what is below all finite scores, and for NaN."""
        with np.errstate(over="ignore"):
            steps = (values - self._low) * self._scale
        steps += 1.0
        np.fmax(steps, 0.0, out=steps)
        np.fmin(steps, self._last, out=steps)
        return steps.astype(np.int32)

    def __call__(self, questions: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many scores are below each question, and up to it; all of them for NaN."""
        flat = questions.reshape(-1)
        if self._table is None or flat.dtype not in (np.float32, np.float64):
            below, up_to = (np.searchsorted(self._sorted, flat, side) for side in ("left", "right"))
        else:
            below, up_to = np.empty(flat.size, np.int64), np.empty(flat.size, np.int64)
            for start in range(0, flat.size, _BLOCK):
                part = slice(start, start + _BLOCK)
                below[part], up_to[part] = self._by_table(flat[part].astype(np.float64, copy=False))
        return below.reshape(questions.shape), up_to.reshape(questions.shape)

    def _by_table(self, questions: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        assert self._table is not None, "the caller has seen to it"
        below = self._table[self._steps(questions)]
        near = np.flatnonzero(below < 0)
        up_to = below.copy()
        below[near] = np.searchsorted(self._sorted, questions[near], "left")
        up_to[near] = np.searchsorted(self._sorted, questions[near], "right")
        return below, up_to
