"""Coverage and size over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_alpha, as_integer
from tightset.beta import MOST_PARAMETER, MOST_TRIALS, beta_binomial_quantile, beta_quantile
from tightset.quantile import conformal_rank
from tightset.sets import PredictionSets


class Band(NamedTuple):
    """Bounds that coverage lies between, ends included, with the probability that was asked for."""

    lower: float
    upper: float


def coverage(sets: PredictionSets, labels: ArrayLike) -> float:
    """Return the share of rows whose set contains the label.

    Parameters
    ----------
    sets
        As `predict_set` returns them.
    labels
        The true label of each row.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 2, 3, 3]), np.array([1, 0, 2], np.int32), n_labels=3)
    >>> ts.metrics.coverage(sets, [0, 2, 1])
    0.6666666666666666
    """
    return float(covers(sets, labels).mean())


def covers(sets: PredictionSets, labels: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each row's set contains its label, for one row or more."""
    if not isinstance(sets, PredictionSets):
        message = f"sets must be PredictionSets, as predict_set returns them, got {type(sets).__name__}"
        raise TypeError(message)
    if not len(sets):
        message = "sets must have at least one row, got 0"
        raise ValueError(message)
    return sets.covers(labels)


def coverage_band(n_calibration: int, alpha: float, n_test: int | None = None, level: float = 0.9) -> Band:
    """Return the band that coverage falls into with probability `level`, over draws of the data.

    With k = ``conformal_rank(n_calibration, alpha)``, the true coverage of a calibrated predictor has
    the law Beta(k, n + 1 - k), and the number of covered test rows the beta-binomial law that follows
    from it: exactly for a score without ties that was not selected on the calibration rows. Ties,
    ``allow_empty=False``, ``guarantee="pac"`` and too few rows for the rank (k > n: every set holds all
    labels, coverage is 1) only add coverage.

    Parameters
    ----------
    n_calibration
        Rows that set the threshold (``predictor.n_calibration``).
    alpha
        Miscoverage that was asked for.
    n_test
        Rows that coverage is measured on. Without it the band is that of the true coverage, which
        endlessly many rows would show.
    level
        Probability of the band: (1 - level) / 2 is left on either side (at most, with `n_test`).

    Examples
    --------
    >>> import tightset as ts
    >>> [round(end, 4) for end in ts.metrics.coverage_band(1000, 0.1)]
    [0.8841, 0.9152]
    >>> ts.metrics.coverage_band(1000, 0.1, n_test=500)
    Band(lower=0.872, upper=0.926)
    """
    n = as_integer(n_calibration, "n_calibration", 1, MOST_PARAMETER)
    return rank_band(n, conformal_rank(n, alpha), n_test, level)


def rank_band(n: int, k: int, n_test: int | None, level: float) -> Band:
    """Return what `coverage_band` does, of a threshold that is the k-th smallest of n scores, whatever k."""
    rows = None if n_test is None else as_integer(n_test, "n_test", 1, MOST_TRIALS)
    outside = (1.0 - as_alpha(level, "level")) / 2.0
    if k > n:
        return Band(1.0, 1.0)
    if rows is None:
        return Band(beta_quantile(outside, k, n + 1 - k), beta_quantile(1.0 - outside, k, n + 1 - k))
    counts = (beta_binomial_quantile(p, rows, k, n + 1 - k) for p in (outside, 1.0 - outside))
    return Band(*(count / rows for count in counts))


@dataclass(frozen=True, slots=True)
class SizeSummary:
    """Sizes of prediction sets; a share or mean over no rows is None.

    Attributes
    ----------
    mean, median
        Over all rows, an empty set counting 0.
    empty_rate
        Share of rows with an empty set.
    mean_nonempty, coverage_nonempty
        Mean size and coverage over the other rows.
    singleton_rate
        Share of rows with one label.
    singleton_hit_rate
        Share of rows with one label, the true one.
    coverage_singleton
        Coverage over the rows with one label.
    """

    mean: float
    median: float
    empty_rate: float
    mean_nonempty: float | None
    coverage_nonempty: float | None
    singleton_rate: float
    singleton_hit_rate: float
    coverage_singleton: float | None


def size_summary(sets: PredictionSets, labels: ArrayLike) -> SizeSummary:
    """Return mean and median size, the rates of empty sets and singletons, and coverage without empties.

    Parameters are those of `coverage`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 2, 3, 3]), np.array([1, 0, 2], np.int32), n_labels=3)
    >>> summary = ts.metrics.size_summary(sets, [0, 2, 1])
    >>> summary.mean, summary.mean_nonempty, summary.coverage_nonempty
    (1.0, 1.5, 1.0)
    """
    covered, sizes = covers(sets, labels), sets.sizes
    full, single = sizes > 0, sizes == 1
    return SizeSummary(
        mean=float(sizes.mean()),
        median=float(np.median(sizes)),
        empty_rate=float((~full).mean()),
        mean_nonempty=mean_or_none(sizes[full]),
        coverage_nonempty=mean_or_none(covered[full]),
        singleton_rate=float(single.mean()),
        singleton_hit_rate=float((single & covered).mean()),
        coverage_singleton=mean_or_none(covered[single]),
    )


def mean_or_none(values: NDArray[np.bool_] | NDArray[np.int64]) -> float | None:
    """Return the mean, or None of nothing."""
    return float(values.mean()) if len(values) else None
