"""Coverage and size by kind of row: entropy, class, and right or wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import (
    ArrayLike,
    as_alpha,
    as_flag,
    as_integer,
    as_labels,
    as_logits,
    as_number,
    warn_if_probabilities,
)
from tightset.metrics.marginal import covers, mean_or_none
from tightset.scoring import ranks
from tightset.sets import PredictionSets
from tightset.uncertainty import entropy

QUANTILES = (0.5, 0.75, 0.9)
"""Where entropy is parted by default: half of the rows are easy, a tenth is hardest."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Some rows and what their sets are like; what has no rows is None.

    Attributes
    ----------
    name
        Which rows.
    rows
        How many.
    coverage, mean_size, empty_rate
        Share of sets with the label, labels a set (an empty one counting 0), share of empty sets.
    """

    name: str
    rows: int
    coverage: float | None
    mean_size: float | None
    empty_rate: float | None


@dataclass(frozen=True, slots=True)
class ClassCoverage:
    """Coverage by true label.

    Attributes
    ----------
    worst
        Classes of the lowest coverage, worst first; of equals, the one with more rows.
    n_classes
        Classes that occur among the labels.
    cov_gap
        Mean distance of their coverage from 1 - alpha, in percentage points; None without alpha.
    rows, coverage, mean_size
        Of each class, shape (K,); NaN for those that do not occur.
    """

    worst: tuple[Stratum, ...]
    n_classes: int
    cov_gap: float | None
    rows: NDArray[np.int64] = field(repr=False, compare=False)
    coverage: NDArray[np.float64] = field(repr=False, compare=False)
    mean_size: NDArray[np.float64] = field(repr=False, compare=False)


def coverage_by_entropy(
    sets: PredictionSets,
    labels: ArrayLike,
    logits: ArrayLike,
    bins: int | Sequence[float] = QUANTILES,
    *,
    probabilities: bool = False,
) -> tuple[Stratum, ...]:
    """Return coverage and size by quantiles of the rows' entropy, easy rows first.

    Parameters
    ----------
    sets, labels
        As in `coverage`.
    logits
        What the sets were predicted from, shape (n, K).
    bins
        Quantiles that part the strata, rising, strictly between 0 and 1, or a number of strata of equal
        share. Rows of equal entropy stay together, below the quantile; a stratum may be left without
        rows for that.
    probabilities
        Whether `logits` holds probabilities instead.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 1, 2, 4]), np.array([1, 0, 1, 0], np.int32), n_labels=2)
    >>> for stratum in ts.metrics.coverage_by_entropy(sets, [1, 1, 1], [[0, 9], [5, 0], [0, 1]], bins=3):
    ...     print(stratum.name, stratum.rows, stratum.coverage, stratum.mean_size)
    0-33.3 % 1 1.0 1.0
    33.3-66.7 % 1 0.0 1.0
    66.7-100 % 1 1.0 2.0
    """
    covered = covers(sets, labels)
    cuts = _entropy_cuts(bins, len(sets))
    return by_entropy(sets, covered, entropy_of_rows(sets, logits, probabilities, stacklevel=2), cuts)


def coverage_by_scenario(
    sets: PredictionSets, labels: ArrayLike, logits: ArrayLike, *, probabilities: bool = False
) -> tuple[Stratum, ...]:
    """Return coverage and size of the four kinds of row: top label right or wrong, entropy low or high.

    Low is at most the median of all rows. Wrong at low entropy is where a classifier misleads: its
    sets show whether a method notices.

    Parameters are those of `coverage_by_entropy`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 1, 2, 4]), np.array([1, 0, 1, 0], np.int32), n_labels=2)
    >>> for stratum in ts.metrics.coverage_by_scenario(sets, [1, 1, 1], [[0, 9], [5, 0], [0, 1]]):
    ...     print(stratum.name, stratum.rows, stratum.coverage)
    right, low entropy 1 1.0
    right, high entropy 1 1.0
    wrong, low entropy 1 0.0
    wrong, high entropy 0 None
    """
    covered = covers(sets, labels)
    of_rows = entropy_of_rows(sets, logits, probabilities, stacklevel=2)
    return by_scenario(sets, covered, of_rows, ranks(logits, labels, probabilities=probabilities) == 1)


def coverage_by_class(
    sets: PredictionSets,
    labels: ArrayLike,
    alpha: float | None = None,
    label_names: Sequence[object] | None = None,
    worst: int = 5,
) -> ClassCoverage:
    """Return coverage by true label, its mean distance from 1 - alpha (CovGap), and the worst classes.

    Parameters
    ----------
    sets, labels
        As in `coverage`.
    alpha
        Miscoverage that was asked for; without it there is no CovGap.
    label_names
        A name for each of the K labels; their numbers by default.
    worst
        How many of the worst classes to name.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> sets = ts.PredictionSets(np.array([0, 1, 2, 4]), np.array([1, 0, 1, 0], np.int32), n_labels=2)
    >>> found = ts.metrics.coverage_by_class(sets, [1, 1, 0], alpha=0.1, label_names=["cat", "dog"])
    >>> found.coverage, round(found.cov_gap, 1), found.worst[0].name
    (array([1. , 0.5]), 25.0, 'dog')
    """
    covered = covers(sets, labels)
    aim = None if alpha is None else 1.0 - as_alpha(alpha)
    names = _label_names(label_names, sets.n_labels)
    n_worst = as_integer(worst, "worst", 0)
    truth = as_labels(labels, len(sets))
    rows = np.bincount(truth, minlength=sets.n_labels)
    seen = np.flatnonzero(rows)

    def mean(values: NDArray[Any]) -> NDArray[np.float64]:
        sums = np.bincount(truth, weights=values, minlength=sets.n_labels)
        out = np.full(sets.n_labels, np.nan)
        out[seen] = sums[seen] / rows[seen]
        return out

    of_class, sizes, empty = mean(covered), mean(sets.sizes), mean(sets.sizes == 0)
    order = seen[np.lexsort((-rows[seen], of_class[seen]))][:n_worst]
    for array in (rows, of_class, sizes):
        array.setflags(write=False)
    return ClassCoverage(
        worst=tuple(
            Stratum(
                names[label] if names else str(label),
                int(rows[label]),
                float(of_class[label]),
                float(sizes[label]),
                float(empty[label]),
            )
            for label in order
        ),
        n_classes=len(seen),
        cov_gap=None if aim is None else 100.0 * float(np.abs(of_class[seen] - aim).mean()),
        rows=rows,
        coverage=of_class,
        mean_size=sizes,
    )


def entropy_of_rows(
    sets: PredictionSets, logits: ArrayLike, probabilities: object, stacklevel: int
) -> NDArray[np.float64]:
    """Return the entropy of the rows that the sets belong to, and warn like `calibrate`."""
    array = as_logits(logits)
    check_shape(sets, array)
    given = as_flag(probabilities, "probabilities")
    if not given:
        warn_if_probabilities(array, stacklevel + 1)
    return entropy(array, probabilities=given)


def check_shape(sets: PredictionSets, logits: NDArray[Any]) -> None:
    """Refuse logits of other rows or labels than the sets'."""
    if logits.shape != (len(sets), sets.n_labels):
        message = f"logits must have shape {(len(sets), sets.n_labels)} as the sets do, got {logits.shape}"
        raise ValueError(message)


def by_entropy(
    sets: PredictionSets, covered: NDArray[np.bool_], of_rows: NDArray[np.float64], cuts: Sequence[float]
) -> tuple[Stratum, ...]:
    """Return the strata that these quantiles of the entropy part."""
    place = np.searchsorted(np.quantile(of_rows, cuts), of_rows)
    return tuple(
        stratum_of(sets, covered, place == i, f"{100 * low:.3g}-{100 * high:.3g} %")
        for i, (low, high) in enumerate(pairwise([0.0, *cuts, 1.0]))
    )


def by_scenario(
    sets: PredictionSets,
    covered: NDArray[np.bool_],
    of_rows: NDArray[np.float64],
    right: NDArray[np.bool_],
) -> tuple[Stratum, ...]:
    """Return right and wrong rows of low and high entropy."""
    low = of_rows <= np.median(of_rows)
    return tuple(
        stratum_of(sets, covered, truth & level, f"{answer}, {doubt} entropy")
        for answer, truth in (("right", right), ("wrong", ~right))
        for doubt, level in (("low", low), ("high", ~low))
    )


def stratum_of(
    sets: PredictionSets, covered: NDArray[np.bool_], rows: NDArray[np.bool_], name: str
) -> Stratum:
    """Return what the sets of some rows are like."""
    sizes = sets.sizes[rows]
    return Stratum(
        name, len(sizes), mean_or_none(covered[rows]), mean_or_none(sizes), mean_or_none(sizes == 0)
    )


def _entropy_cuts(bins: int | Sequence[float], n_rows: int) -> list[float]:
    if isinstance(bins, (list, tuple)) or (isinstance(bins, np.ndarray) and bins.ndim):
        cuts = [as_number(cut, "bins") for cut in bins]
        check_rising(cuts, "bins")
        if not all(0.0 < cut < 1.0 for cut in cuts):
            message = f"bins must be strictly between 0 and 1, got {cuts}"
            raise ValueError(message)
        return cuts
    n = as_integer(bins, "bins", 1, n_rows)
    return [i / n for i in range(1, n)]


def check_rising(values: Sequence[float], name: str) -> None:
    """Refuse values that do not rise."""
    if not all(low < high for low, high in pairwise(values)):
        message = f"{name} must rise, got {list(values)}"
        raise ValueError(message)


def _label_names(label_names: Sequence[object] | None, n_labels: int) -> list[str] | None:
    if label_names is None:
        return None
    names = [str(name) for name in as_sequence(label_names, "label_names")]
    if len(names) != n_labels:
        message = f"label_names must have one name for each of the {n_labels} labels, got {len(names)}"
        raise ValueError(message)
    return names


def as_sequence(value: Any, name: str) -> list[Any]:
    """Return a list of something that has an order, which a set or a mapping has not."""
    ordered = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if not ordered or isinstance(value, (str, bytes, Mapping)):
        message = f"{name} must be a sequence, got {value!r}"
        raise TypeError(message)
    return list(value)
