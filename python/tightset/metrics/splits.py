"""The law of the mean coverage over random splits of one data set.

Take N rows, draw n of them to calibrate, and count how many of the other m rows are covered. The rows are
fixed; what is random is the split. With a score that is fixed before the split and has no ties, the count
depends on the order of the N scores alone: it is how many of the others fall below the k-th smallest of
the n drawn, whatever the scores are. That is the beta-binomial law of (m, k, n + 1 - k), given the rows.
So splits drawn independently of each other give counts that are independent and of this law, although
they share their rows, and the law of their mean is a plain convolution.

With held-out selection the same holds given the rows spent on selection: they are out of the draw.

Where one of M candidates is selected on the rows that calibrate it, the winner's coverage in a split lies
between the least and the largest of M coverages that each have the law above. Their joint law is unknown, but
for every t > 0

    E exp(t max) <= M E exp(t one of them),

so Chernoff's bound for the sum over splits holds with log M added for each split. This band is wider, and
proven.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import as_alpha, as_integer
from tightset.beta import MOST_PARAMETER, beta_binomial_probabilities
from tightset.metrics.marginal import Band
from tightset.quantile import conformal_rank

# All probabilities of the sum of the counts are held in memory.
_MOST_ROWS = 10**8


def mean_coverage_band(
    n_calibration: int,
    alpha: float,
    n_test: int,
    n_splits: int,
    level: float = 0.9,
    n_candidates: int = 1,
) -> Band:
    """Return the band of the mean coverage over random splits of one data set.

    Ends are included. Ties, ``allow_empty=False`` and a rank above `n_calibration` only add coverage.

    Parameters
    ----------
    n_calibration
        Rows of a split that set the threshold (``predictor.n_calibration``).
    alpha
        Miscoverage that was asked for.
    n_test
        Rows of a split that coverage is measured on.
    n_splits
        Splits, each drawn at random, independently of the others.
    level
        Probability of the band, at least: (1 - level) / 2 is left on either side, at most.
    n_candidates
        How many candidates the calibrating rows chose from: 1 for a fixed score and for ``"held-out"``
        selection, for which the law is exact; more for a valid band that is wider than need be.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.metrics.mean_coverage_band(1000, 0.1, n_test=500, n_splits=1)
    Band(lower=0.872, upper=0.926)
    >>> ts.metrics.mean_coverage_band(1000, 0.1, n_test=500, n_splits=10)
    Band(lower=0.8914, upper=0.9086)
    """
    n = as_integer(n_calibration, "n_calibration", 1, MOST_PARAMETER)
    rows = as_integer(n_test, "n_test", 1, _MOST_ROWS)
    splits = as_integer(n_splits, "n_splits", 1, _MOST_ROWS // rows)
    candidates = as_integer(n_candidates, "n_candidates", 1)
    outside = (1.0 - as_alpha(level, "level")) / 2.0
    k = conformal_rank(n, alpha)
    if k > n:
        return Band(1.0, 1.0)
    if candidates > 1:
        first, law = beta_binomial_probabilities(rows, k, n + 1 - k)
        coverage = (first + np.arange(len(law))) / rows
        allowed = math.log(candidates) - math.log(outside) / splits
        return Band(max(0.0, -_bound(-coverage, law, allowed)), min(1.0, _bound(coverage, law, allowed)))
    return band_of_parts({Part(n, k, rows): splits}, outside)


class Part(NamedTuple):
    """Test rows that one threshold decides on: the `rank`-th smallest of so many calibration scores."""

    n_calibration: int
    rank: int
    n_test: int


def band_of_parts(parts: Mapping[Part, int], outside: float) -> Band:
    """Return the band of the mean coverage of all test rows, when parts of them have their own thresholds.

    Parts are the splits of a data set, or the labels of each split: calibrated apart, they are independent
    given how many rows each has. `parts` says how often each occurs; `outside` is left on either side.
    """
    certain = sum(count * part.n_test for part, count in parts.items() if part.rank > part.n_calibration)
    laws = [
        (*beta_binomial_probabilities(part.n_test, part.rank, part.n_calibration + 1 - part.rank), count)
        for part, count in parts.items()
        if part.rank <= part.n_calibration and part.n_test
    ]
    rows = sum(count * part.n_test for part, count in parts.items())
    if not laws:
        return Band(1.0, 1.0)
    cumulative = np.cumsum(_sum_law([(law, count) for _, law, count in laws]))
    cumulative /= cumulative[-1]
    first = certain + sum(count * start for start, _, count in laws)
    ends = (int(np.searchsorted(cumulative, p)) for p in (outside, 1.0 - outside))
    return Band(*((first + end) / rows for end in ends))


def _sum_law(laws: Sequence[tuple[NDArray[np.float64], int]]) -> NDArray[np.float64]:
    """Return the law of the sum of independent counts; its absolute error is that of one rounding."""
    length = sum(count * (len(law) - 1) for law, count in laws) + 1
    if len(laws) == 1 and laws[0][1] == 1:
        return laws[0][0]
    padded = 1 << (length - 1).bit_length()
    spectrum = np.ones(padded // 2 + 1, dtype=np.complex128)
    for law, count in laws:
        spectrum *= np.fft.rfft(law, padded) ** count
    found: NDArray[np.float64] = np.fft.irfft(spectrum, padded)[:length]
    return found.clip(min=0.0)


def _bound(values: NDArray[np.float64], law: NDArray[np.float64], allowed: float) -> float:
    """Return Chernoff's upper bound of a mean: the least of (log E exp(t value) + allowed) / t.

    Any t gives a valid bound; a grid finds one that is nearly the best.
    """
    mean = float(law @ values)
    spread = math.sqrt(float(law @ (values - mean) ** 2))
    if spread == 0.0:
        return mean
    best = float(values.max())
    with np.errstate(divide="ignore"):  # probabilities below the smallest float
        log_law = np.log(law)
    for t in np.geomspace(0.1, 30.0, 200) / spread:
        exponents = log_law + t * (values - mean)
        top = float(exponents.max())
        log_mgf = top + math.log(float(np.exp(exponents - top).sum()))
        best = min(best, mean + (log_mgf + allowed) / float(t))
    return best
