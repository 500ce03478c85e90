"""Coverage by whole numbers in bins: the size of the set, and the rank of the true label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike, as_alpha, as_integer, as_logits
from tightset.metrics.marginal import covers
from tightset.metrics.strata import Stratum, as_sequence, check_rising, check_shape, stratum_of
from tightset.scoring import ranks
from tightset.sets import PredictionSets

_RANKS = (1, 3, 6, 10, 100, 1000)


@dataclass(frozen=True, slots=True)
class SizeStrata:
    """Coverage by set size.

    Attributes
    ----------
    strata
        Bins with at least `min_rows` rows, by size.
    left_out
        Bins with fewer rows, but some.
    min_rows
        What tells them apart.
    sscv
        Size-stratified coverage violation: the largest distance of a bin's coverage from 1 - alpha.
        None without alpha or bins.
    """

    strata: tuple[Stratum, ...]
    left_out: tuple[Stratum, ...]
    min_rows: int
    sscv: float | None


@dataclass(frozen=True, slots=True)
class RankStrata:
    """Coverage by the rank of the true label, which is how hard a row is.

    Attributes
    ----------
    strata, left_out, min_rows
        As in `SizeStrata`.
    violation
        The largest distance of a bin's coverage from 1 - alpha (DiffViolation). None without alpha or
        bins. It cannot be small: a set that holds the label of rank 50 holds 50 labels or so.
    """

    strata: tuple[Stratum, ...]
    left_out: tuple[Stratum, ...]
    min_rows: int
    violation: float | None


def coverage_by_size(
    sets: PredictionSets,
    labels: ArrayLike,
    alpha: float | None = None,
    bins: Sequence[int] = (1, 3, 10, 100, 1000),
    min_rows: int = 20,
) -> SizeStrata:
    """Return coverage by set size, and the size-stratified coverage violation (SSCV).

    Parameters
    ----------
    sets, labels
        As in `coverage`.
    alpha
        Miscoverage that was asked for; without it there is no SSCV.
    bins
        The largest size of each bin, rising; larger sets make one more. The default has the bins 0 to 1
        (empty sets and singletons), 2 to 3, 4 to 10, 11 to 100, 101 to 1000 and above.
    min_rows
        A bin with fewer rows says little: it is named in `left_out`, and SSCV is without it.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 1, 2, 4]), np.array([1, 0, 1, 0], np.int32), n_labels=2)
    >>> found = ts.metrics.coverage_by_size(sets, [1, 1, 1], alpha=0.1, min_rows=2)
    >>> [(bin.name, bin.coverage) for bin in found.strata], [bin.name for bin in found.left_out]
    ([('0-1', 0.5)], ['2-3'])
    >>> round(found.sscv, 3)
    0.4
    """
    covered = covers(sets, labels)
    aim = None if alpha is None else 1.0 - as_alpha(alpha)
    least = as_integer(min_rows, "min_rows", 1)
    return SizeStrata(*_by_bins(sets, covered, sets.sizes, bins, 0, least, aim))


def coverage_by_rank(
    sets: PredictionSets,
    labels: ArrayLike,
    logits: ArrayLike,
    alpha: float | None = None,
    bins: Sequence[int] = _RANKS,
    min_rows: int = 20,
    *,
    probabilities: bool = False,
) -> RankStrata:
    """Return coverage and size by the rank of the true label (Angelopoulos et al. 2021, difficulty).

    Parameters
    ----------
    sets, labels, logits, probabilities
        As in `coverage_by_entropy`.
    alpha
        Miscoverage that was asked for; without it there is no violation.
    bins
        The largest rank of each bin, rising; larger ranks make one more. The default has the bins 1, 2 to
        3, 4 to 6, 7 to 10, 11 to 100, 101 to 1000 and above.
    min_rows
        As in `coverage_by_size`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 1, 2, 4]), np.array([1, 0, 1, 0], np.int32), n_labels=2)
    >>> found = ts.metrics.coverage_by_rank(sets, [1, 1, 0], [[0, 9], [5, 0], [0, 1]], 0.1, min_rows=1)
    >>> [(bin.name, bin.rows, bin.coverage) for bin in found.strata]
    [('1', 1, 1.0), ('2-3', 2, 0.5)]
    """
    covered = covers(sets, labels)
    check_shape(sets, as_logits(logits))
    return by_rank(sets, covered, ranks(logits, labels, probabilities=probabilities), alpha, bins, min_rows)


def by_rank(
    sets: PredictionSets,
    covered: NDArray[np.bool_],
    of_truth: NDArray[np.int64],
    alpha: float | None,
    bins: Sequence[int] = _RANKS,
    min_rows: int = 20,
) -> RankStrata:
    """Return the strata that these ranks of the true labels make."""
    aim = None if alpha is None else 1.0 - as_alpha(alpha)
    least = as_integer(min_rows, "min_rows", 1)
    return RankStrata(*_by_bins(sets, covered, of_truth, bins, 1, least, aim))


def _by_bins(
    sets: PredictionSets,
    covered: NDArray[np.bool_],
    values: NDArray[np.int64],
    bins: Sequence[int],
    first: int,
    min_rows: int,
    aim: float | None,
) -> tuple[tuple[Stratum, ...], tuple[Stratum, ...], int, float | None]:
    """Return strata of whole numbers up to the ends of bins, from `first` on, and those with few rows.

    Then what tells them apart, and the largest distance of the former's coverage from `aim`.
    """
    ends = [as_integer(end, "bins", first) for end in as_sequence(bins, "bins")]
    check_rising(ends, "bins")
    starts = [first, *(end + 1 for end in ends)]
    spans = zip(starts[:-1], ends, strict=True)
    names = [f"{low}-{high}" if low < high else f"{high}" for low, high in spans]
    names.append(f"{starts[-1]}+")
    place = np.searchsorted(ends, values)
    strata = [stratum_of(sets, covered, place == i, name) for i, name in enumerate(names)]
    kept = tuple(s for s in strata if s.rows >= min_rows)
    gaps = [abs(s.coverage - aim) for s in kept if aim is not None and s.coverage is not None]
    left_out = tuple(s for s in strata if 0 < s.rows < min_rows)
    return kept, left_out, min_rows, max(gaps, default=None)
