"""Selection with exact coverage from all the data (Liang, Zhu & Barber 2024).

Choosing the candidate with the smallest sets on the rows that also calibrate it favours thresholds that
came out low by chance, and coverage falls below the level. Here the new row takes part in the choice, for
each label it might have, so that it and the calibration rows are on equal terms; ``src/selected.rs`` has
the rule. Calibration leaves, for each candidate that some new row may choose, what the rule needs: the
two scores around its rank and how many pairs of a row and a label score below and between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.calibration_rows import Rows
from tightset.scores import Scoring


@dataclass(frozen=True, slots=True)
class Bracketed:
    """What prediction needs of one of several candidates.

    Attributes
    ----------
    lo
        The calibration score before the threshold, minus infinity if there is none.
    pairs_at_lo
        Pairs of a calibration row and a label with scores up to `lo`.
    between
        The scores of the pairs above `lo` and up to the threshold, sorted.
    weight
        What its counts are multiplied by before they are compared.
    """

    lo: float
    pairs_at_lo: int
    between: tuple[float, ...]
    weight: int


@dataclass(frozen=True, slots=True)
class Selected:
    """The outcome for one level; brackets are left out where one candidate survives."""

    sizes: NDArray[np.float64]
    chosen: int
    thresholds: NDArray[np.float64]
    survivors: tuple[int, ...]
    brackets: tuple[Bracketed, ...]


def select_exactly(
    candidates: Sequence[Scoring],
    handicaps: NDArray[np.float64],
    rows: Rows,
    alphas: Sequence[float],
) -> list[Selected | None]:
    """Return, for each level, the candidates that some new row may choose.

    None where every set holds all labels whatever is chosen: the rank is above the number of rows, or the
    thresholds are infinite.
    """
    n = len(rows)
    ranks = [_core.conformal_rank(n, alpha) for alpha in alphas]
    feasible = [i for i, rank in enumerate(ranks) if rank <= n]
    outcome: list[Selected | None] = [None] * len(alphas)
    if not feasible:
        return outcome
    around = [rank for i in feasible for rank in (ranks[i] - 1, ranks[i])]
    statistics = rows.order_statistics(candidates, None, around)
    lo, hi = statistics[:, 0::2], statistics[:, 1::2]
    counts = rows.set_counts(candidates, None, lo, hi)
    for column, i in enumerate(feasible):
        if np.isinf(hi[:, column]).all():
            continue
        weights = _weights(handicaps, n, alphas[i])
        largest = (int(counts.pairs[:, column].max()) + rows.n_labels) * int(weights.max())
        if largest >= 2**63:
            message = f"handicaps make sums of set sizes too large to compare: {largest} is beyond 64 bits"
            raise ValueError(message)
        # Adding a row adds at most K pairs: who has more up to lo than another up to hi never wins.
        most = (counts.pairs[:, column] + rows.n_labels) * weights
        at_lo = counts.pairs_at_lo[:, column]
        survivors = np.flatnonzero(at_lo * weights <= most.min())
        outcome[i] = Selected(
            sizes=counts.pairs[:, column] / n,
            chosen=int((counts.pairs[:, column] * weights).argmin()),
            thresholds=hi[:, column],
            survivors=tuple(survivors.tolist()),
            brackets=_brackets(candidates, rows, survivors, lo[:, column], hi[:, column], at_lo, weights),
        )
    return outcome


_ONE = 2**16


def _weights(handicaps: NDArray[np.float64], n: int, alpha: float) -> NDArray[np.int64]:
    """Return what counts are multiplied by, in integers so that comparisons are exact.

    About n alpha scores lie beyond a threshold: sizes are known up to a share of 1 / sqrt(n alpha), and
    those at neighbouring thresholds, between which a new row moves, differ by a share near 1 / (n alpha).
    The unit of a handicap is the first and four times the second. It depends on nothing else of the data, as
    exact coverage needs.
    """
    if not handicaps.any():
        return np.ones(len(handicaps), dtype=np.int64)
    beyond = n * alpha
    weights: NDArray[np.int64] = np.round(_ONE * (1 + handicaps * (beyond**-0.5 + 4 / beyond))).astype(
        np.int64
    )
    return weights


def _brackets(
    candidates: Sequence[Scoring],
    rows: Rows,
    survivors: NDArray[np.int64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    pairs_at_lo: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> tuple[Bracketed, ...]:
    if len(survivors) == 1:
        return ()
    between = rows.scores_between([candidates[m] for m in survivors], lo[survivors], hi[survivors])
    return tuple(
        Bracketed(float(lo[m]), int(pairs_at_lo[m]), tuple(scores.tolist()), int(weights[m]))
        for m, scores in zip(survivors, between, strict=True)
    )
