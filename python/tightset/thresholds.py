"""From what was chosen, on which rows, to thresholds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tightset.calibration_rows import CalibrationRows
from tightset.cells import Candidate, Cell
from tightset.objectives import entropy_strata
from tightset.pac import rank_for
from tightset.selection import Choice
from tightset.selection_curve import SelectionCurve
from tightset.warning_kinds import SmallCalibrationWarning

_MOST_NAMED = 20
"""Labels or groups that a warning lists."""


def calibrated(
    rows: CalibrationRows,
    alphas: Sequence[float],
    choices: Sequence[Choice],
    *,
    delta: float | None = None,
    shares: int = 1,
) -> list[tuple[Cell, SelectionCurve | None]]:
    """Return, for each level, the thresholds of what was chosen and what the selection saw.

    With `delta`, thresholds that fall short in at most that share of calibrations, divided among the
    candidates that were chosen from and among `shares` such thresholds.
    """
    # Levels that chose the same candidates share their scores; all are computed in one reading.
    distinct = list(dict.fromkeys(scoring for choice in choices for scoring in choice.scorings))
    calibrating = choices[0].rows
    table = rows.label_scores(distinct, calibrating)
    strata = _strata(rows, calibrating) if any(choice.curve for choice in choices) else None
    sorted_table = np.sort(table, axis=1)
    place = {scoring: i for i, scoring in enumerate(distinct)}
    n = table.shape[1]
    found = []
    for alpha, choice in zip(alphas, choices, strict=True):
        scores = sorted_table[[place[scoring] for scoring in choice.scorings]]
        scores.setflags(write=False)
        rank = rank_for(n, alpha, delta, choice.union * shares)
        thresholds = scores[:, rank - 1].tolist() if rank <= n else [float("inf")]
        curve = choice.curve
        if curve is not None:
            winner = place[curve.candidates[curve.chosen]]
            chosen = table[winner] <= sorted_table[winner, min(rank, n) - 1]
            by_entropy = None if strata is None else tuple(float(chosen[part].mean()) for part in strata)
            curve = replace(curve, coverage_by_entropy=by_entropy, level=1 - alpha)
        found.append((Cell(n, rank, candidates_in_use(choice, thresholds), scores), curve))
    return found


def candidates_in_use(choice: Choice, thresholds: Sequence[float]) -> tuple[Candidate, ...]:
    """Return the choice with its thresholds, as a predictor holds it."""
    if not choice.brackets:
        return (Candidate(choice.scorings[0], thresholds[0]),)
    return tuple(
        Candidate(scoring, threshold, bracket.lo, bracket.pairs_at_lo, bracket.between, bracket.weight)
        for scoring, threshold, bracket in zip(choice.scorings, thresholds, choice.brackets, strict=True)
    )


def _strata(rows: CalibrationRows, calibrating: NDArray[np.int64] | None) -> list[NDArray[np.int64]] | None:
    entropies = rows.entropies()
    strata = entropy_strata(entropies if calibrating is None else entropies[calibrating])
    return strata if len(strata) > 1 else None


def warn_if_unbounded(
    alpha: float,
    rank: int,
    n: int,
    threshold: float,
    *,
    spent: int,
    stacklevel: int,
    impossible: int | None = None,
    delta: float | None = None,
) -> None:
    """Warn when every set holds all labels, and say why."""
    if rank > n:
        after = f" after {spent} were spent on selection" if spent else ""
        asked = f"alpha={alpha}" if delta is None else f"alpha={alpha} with guarantee='pac', delta={delta}"
        message = (
            f"{n} rows{after} are too few for {asked}, which needs rank {rank}: the threshold is "
            "infinite and every set holds all labels"
        )
    elif threshold == float("inf"):
        many = "too many" if impossible is None else impossible
        message = (
            f"{many} of {n} true labels are marked impossible (-inf): at alpha={alpha} the "
            "threshold is infinite and every set holds all labels"
        )
    else:
        return
    warnings.warn(message, SmallCalibrationWarning, stacklevel=stacklevel)


def warn_of_infinite_labels(labels: Sequence[int], alpha: float, *, stacklevel: int) -> None:
    """Warn that labels are in every set though they have rows enough."""
    if labels:
        listed = _listed([str(label) for label in labels])
        message = (
            f"too many rows of labels {listed} have an infinite score, being marked impossible (-inf) or "
            f"beyond a limit of rank: at alpha={alpha} their threshold is infinite"
        )
        warnings.warn(message, SmallCalibrationWarning, stacklevel=stacklevel)


def warn_of_scarce(
    what: str, counts: dict[int | str, int], of: int, alpha: float, *, pooled: bool, stacklevel: int
) -> None:
    """Warn that some labels or groups have too few rows for a threshold of their own."""
    if not counts:
        return
    named = [f"{name!r} ({n} rows)" if n != 1 else f"{name!r} (1 row)" for name, n in counts.items()]
    given = "they get the threshold of all rows (scarce='pooled')"
    if not pooled:
        given = "their threshold is infinite (scarce='all')"
    message = (
        f"{len(counts)} of {of} {what} have too few calibration rows for alpha={alpha}: {_listed(named)}; "
        f"{given}"
    )
    warnings.warn(message, SmallCalibrationWarning, stacklevel=stacklevel)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
