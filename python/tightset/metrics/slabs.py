"""Coverage in the worst slab of feature space: between two parallel planes, with enough rows (WSC)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import ArrayLike, as_alpha, as_features, as_integer, as_seed
from tightset.metrics.marginal import covers, mean_or_none
from tightset.sets import PredictionSets

_BLOCK = 2**21
"""Projections at a time: 16 MiB, and a few times that for their sums."""


@dataclass(frozen=True, slots=True)
class WorstSlab:
    """The slab of rows that was found worst, and coverage there: ``lower <= x @ direction <= upper``.

    Attributes
    ----------
    coverage
        Over the rows that the slab was not searched on; None if none of them is in it.
    rows
        How many of those are.
    searched_coverage, searched_rows
        The same of the rows it was searched on: the least, and so below the truth.
    direction, lower, upper
        Which slab.
    """

    coverage: float | None
    rows: int
    searched_coverage: float
    searched_rows: int
    direction: NDArray[np.float64] = field(repr=False, compare=False)
    lower: float
    upper: float


def worst_slab_coverage(
    sets: PredictionSets,
    labels: ArrayLike,
    features: ArrayLike,
    *,
    delta: float = 0.1,
    n_directions: int = 1000,
    search_share: float = 0.25,
    seed: int = 0,
) -> WorstSlab:
    """Return coverage in the worst slab with at least a share `delta` of the rows (Cauchois et al. 2021).

    The slab is searched on some rows, over random directions, and its coverage is measured on the others:
    an estimate without the bias of the search. Even sets whose coverage is the same everywhere show less
    than 1 - alpha on the rows of the search.

    Parameters
    ----------
    sets, labels
        As in `coverage`.
    features
        Where rows are, shape (n, d): inputs, an embedding, or the logits.
    delta
        Least share of the searched rows in a slab.
    n_directions
        Directions that are tried.
    search_share
        Share of the rows to search on, as in the reference code of Romano et al. (2020).
    seed
        Seed of the directions and of the split.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 3))
    >>> labels = rng.integers(2, size=4000)
    >>> kept = np.where(x[:, 0] > 1, rng.uniform(size=4000) < 0.5, True)
    >>> sets = ts.PredictionSets(np.arange(4001), np.where(kept, labels, 1 - labels).astype(np.int32), 2)
    >>> found = ts.metrics.worst_slab_coverage(sets, labels, x)
    >>> round(sets.coverage(labels), 2), round(found.coverage, 2), abs(found.direction).round(1)
    (0.92, 0.52, array([1., 0., 0.]))
    """
    covered = covers(sets, labels)
    where = as_features(features, len(sets))
    share, part = as_alpha(delta, "delta"), as_alpha(search_share, "search_share")
    n_tried = as_integer(n_directions, "n_directions", 1)
    rng = np.random.default_rng(as_seed(seed))
    n_searched = math.ceil(part * len(sets))
    if n_searched == len(sets):
        message = f"sets must have a row more than the search takes, got {len(sets)}"
        raise ValueError(message)
    order = _core.permutation(as_seed(seed), len(sets))
    searched, rest = order[:n_searched], order[n_searched:]
    if where.shape[1] == 1:
        n_tried = 1  # on a line there is one direction
    directions = rng.normal(size=(n_tried, where.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    count, size, which, lower, upper = _worst(where[searched], covered[searched], directions, share)
    direction = directions[which]
    projected = where[rest] @ direction
    inside = (projected >= lower) & (projected <= upper)
    direction.setflags(write=False)
    return WorstSlab(
        coverage=mean_or_none(covered[rest][inside]),
        rows=int(inside.sum()),
        searched_coverage=count / size,
        searched_rows=size,
        direction=direction,
        lower=lower,
        upper=upper,
    )


def _worst(
    where: NDArray[np.float64],
    covered: NDArray[np.bool_],
    directions: NDArray[np.float64],
    delta: float,
) -> tuple[int, int, int, float, float]:
    """Return covered rows, rows, direction and ends of the slab of least coverage.

    With P the prefix sums of coverage along a direction, a slab from cut i to cut j has less coverage than t
    exactly when Q_j < Q_i, Q = P - t * (0, 1, ..., n). Given the best t so far, a running maximum of Q finds
    the i for every j, and the worst pair gives a better t, until no direction has one (Dinkelbach's
    method): a few passes, where trying all pairs takes n^2 / 2 steps for each direction.
    """
    n = len(where)
    least = math.ceil(delta * n)
    best = (int(covered.sum()), n)
    place = (0, 0, n)  # direction and cuts
    for start in range(0, len(directions), max(1, _BLOCK // n)):
        part = directions[start : start + max(1, _BLOCK // n)]
        # One product a direction: rows of a matrix product may differ from it in the last bit.
        projected = np.stack([where @ direction for direction in part])
        order = np.argsort(projected, axis=1, kind="stable")
        ordered = np.take_along_axis(projected, order, axis=1)
        sums = np.zeros((len(part), n + 1), np.int64)
        np.cumsum(covered[order], axis=1, out=sums[:, 1:])
        # No cut between equal projections: a slab has both or none.
        apart = np.ones(sums.shape, np.bool_)
        apart[:, 1:-1] = ordered[:, 1:] > ordered[:, :-1]
        alive = np.arange(len(part))
        while True:
            gaps = sums[alive] - (best[0] / best[1]) * np.arange(n + 1)
            starts = np.where(apart[alive], gaps, -np.inf)[:, : n + 1 - least]
            highest = np.maximum.accumulate(starts, axis=1)
            falls = np.where(apart[alive], gaps, np.inf)[:, least:] - highest
            ends = falls.argmin(axis=1)
            rows = np.arange(len(alive))
            promising = falls[rows, ends] < 0.0
            found = False
            for row in np.flatnonzero(promising):
                last = int(ends[row]) + least
                first = int(starts[row, : last - least + 1].argmax())
                count = int(sums[alive[row], last] - sums[alive[row], first])
                # In integers: rounding of the gaps must not count as better.
                if count * best[1] < best[0] * (last - first):
                    best, found = (count, last - first), True
                    place = (start + int(alive[row]), first, last)
            if not found:
                break
            alive = alive[promising]
    direction, first, last = place
    ordered_row = np.sort(where @ directions[direction])
    return *best, direction, float(ordered_row[first]), float(ordered_row[last - 1])
