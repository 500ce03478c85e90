"""Selection with exact coverage from all the data (Liang, Zhu & Barber 2024).

Choosing the candidate with the smallest sets on the rows that also calibrate it favours thresholds that
came out low by chance, and coverage falls below the level. Here the new row takes part in the choice, for
each label it might have, so that it and the calibration rows are on equal terms;
``src/conformal/modsel.rs`` has the rule. Calibration leaves, for each candidate that some new row may
choose, what the rule needs: the two scores around its rank and how many pairs of a row and a label score
below and between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.calibration_rows import CalibrationRows, Parting, Rows
from tightset.scores import Scoring


class Bracketed(NamedTuple):
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


class Selected(NamedTuple):
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
        weights = weights_of(handicaps, n, alphas[i])
        _check_sums(counts.pairs[:, column], rows.n_labels, weights)
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


def _check_sums(pairs: NDArray[np.int64], n_labels: int, weights: NDArray[np.int64]) -> None:
    largest = (int(pairs.max()) + n_labels) * int(weights.max())
    if largest >= 2**63:
        message = f"handicaps make sums of set sizes too large to compare: {largest} is beyond 64 bits"
        raise ValueError(message)


_ONE = 2**16


def weights_of(handicaps: NDArray[np.float64], n: int, alpha: float) -> NDArray[np.int64]:
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


class SelectedInCell(NamedTuple):
    """The outcome for one cell of labels; brackets are left out where one candidate survives."""

    survivors: tuple[int, ...]
    brackets: tuple[Bracketed, ...]


def select_in_cells(
    candidates: Sequence[Scoring],
    handicaps: NDArray[np.float64],
    rows: CalibrationRows,
    parting: Parting,
    alpha: float,
    ranks: Sequence[int],
    *,
    exactly: bool,
) -> list[SelectedInCell | None]:
    """Return, for each cell of labels, the candidates that some new row may choose.

    The rule is that of `select_exactly` with the rows of the cell for lo, hi and the rank, and in the counts
    the pairs of any row and a label of the cell. Given the rows of other cells it is symmetric in those of
    the cell and the new one, so coverage within the cell is exact. None where the threshold is infinite
    whatever is chosen. Not `exactly`: the one candidate with the fewest pairs at its threshold.
    """
    n_cells = parting.n_cells
    feasible = np.array([rank <= n for rank, n in zip(ranks, parting.row_counts, strict=True)])
    outcome: list[SelectedInCell | None] = [None] * n_cells
    if not feasible.any():
        return outcome
    # Cells without a threshold count nothing.
    edges = np.full((2, len(candidates), n_cells), -np.inf)
    for group, scores in rows.score_groups(candidates, None):
        for cell, of_cell in parting.split(scores):
            if feasible[cell]:
                around = [ranks[cell] - 1, ranks[cell]]
                found = _core.order_statistics(of_cell, around, n_threads=rows.n_threads)
                edges[:, group, cell] = found.T
    lo, hi = edges
    at_lo, at_hi, _ = rows.cell_counts(candidates, parting, lo, hi, keep=False)
    weights = np.ones((len(candidates), n_cells), dtype=np.int64)
    survives = np.zeros((len(candidates), n_cells), dtype=bool)
    for cell in np.flatnonzero(feasible & ~np.isinf(hi).all(axis=0)).tolist():
        weights[:, cell] = weights_of(handicaps, int(parting.row_counts[cell]), alpha)
        _check_sums(at_hi[:, cell], rows.n_labels, weights[:, cell])
        most = (at_hi[:, cell] + parting.label_counts[cell]) * weights[:, cell]
        if exactly:
            survives[:, cell] = at_lo[:, cell] * weights[:, cell] <= most.min()
        else:
            survives[(at_hi[:, cell] * weights[:, cell]).argmin(), cell] = True
    used = np.flatnonzero(survives.any(axis=1)).tolist()
    several = survives.sum(axis=0) > 1
    # Nothing lies between lo and hi where they are equal: scores are kept for survivors alone.
    starts = np.where(survives & several, lo, hi)[used]
    between: list[NDArray[np.float64]] = []
    if several.any():
        _, _, between = rows.cell_counts([candidates[m] for m in used], parting, starts, hi[used], keep=True)
    for cell in np.flatnonzero(survives.any(axis=0)).tolist():
        chosen = np.flatnonzero(survives[:, cell]).tolist()
        brackets = []
        for m in chosen if several[cell] else ():
            scores = between[used.index(m) * n_cells + cell]
            bracket = Bracketed(
                float(lo[m, cell]), int(at_lo[m, cell]), tuple(scores.tolist()), int(weights[m, cell])
            )
            brackets.append(bracket)
        outcome[cell] = SelectedInCell(tuple(chosen), tuple(brackets))
    return outcome
