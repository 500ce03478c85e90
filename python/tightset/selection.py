"""How one of several candidates is selected, and on which rows it is calibrated.

For a candidate m, ``q_m(D)`` is its conformal threshold on rows D and ``size_m(D, q)`` the mean size
of its sets on D. Each selection answers three questions: which rows give the thresholds, which give
the sizes, and which calibrate the winner.

| selection | thresholds | sizes | calibration | coverage |
|---|---|---|---|---|
| modsel | all rows and the new one | the same | all rows | exact |
| held-out | a quarter | the same quarter | the other rows | exact |
| paper | first half | second half | all rows | approximate |
| released | first half | second half | first half | approximate |

With ``guarantee="pac"``, modsel gives way to the smallest size on all rows, at thresholds that hold together
for all candidates; the rows are the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tightset import _core
from tightset.calibration_rows import Rows
from tightset.modsel import Bracketed, select_exactly, weights_of
from tightset.objectives import Objective, best
from tightset.pac import rank_for
from tightset.recipes import Recipe
from tightset.scores import Scoring
from tightset.selection_curve import SelectionCurve
from tightset.warning_kinds import SmallCalibrationWarning


class Choice(NamedTuple):
    """What calibrates: the candidates in use, on which rows (None for all), and what the selection saw.

    Several candidates come with their brackets; see `tightset.modsel`. `union` is the number of candidates
    that one was chosen from with the help of rows that calibrate it: their thresholds must hold together.
    """

    scorings: tuple[Scoring, ...]
    rows: Any
    curve: SelectionCurve | None = None
    brackets: tuple[Bracketed, ...] = ()
    union: int = 1


def choose(
    recipe: Recipe,
    rows: Rows,
    alphas: Sequence[float],
    objective: Objective,
    *,
    delta: float | None = None,
    shares: int = 1,
    of: str = "",
    stacklevel: int = 3,
) -> list[Choice]:
    """Return a choice for each level; all levels share the readings of the data.

    With `delta`, ``"modsel"`` is the smallest mean size on all rows, at thresholds that hold together for
    all candidates (see `tightset.pac`); `shares` is what delta is divided among besides. `of` names the
    rows in a warning.
    """
    candidates, selection = recipe.candidates, recipe.selection
    if len(candidates) == 1 and selection != "released":
        return [Choice(candidates, None) for _ in alphas]
    assert selection is not None, "Recipe asks for a selection among several candidates"
    if selection == "modsel":
        if delta is not None:
            return _by_union(recipe, rows, alphas, delta, shares)
        return _by_modsel(recipe, rows, alphas)
    union = 1 if selection == "held-out" else len(candidates)
    fitting, sizing, calibrating = rows.parts(selection)
    ranks = [_core.conformal_rank(len(fitting), alpha) for alpha in alphas]
    feasible = [i for i, rank in enumerate(ranks) if rank <= len(fitting) and len(sizing)]
    choices = [Choice(candidates[:1], calibrating, union=union) for _ in alphas]
    if len(feasible) < len(alphas):
        infeasible = [alpha for i, alpha in enumerate(alphas) if i not in feasible]
        message = (
            f"{len(fitting)} of {len(rows)} rows{of}, the part for selection, are too few to select a "
            f"candidate at alpha={min(infeasible)}: the first one is used ({candidates[0]}); a recipe with "
            "one candidate needs no selection"
        )
        warnings.warn(message, SmallCalibrationWarning, stacklevel=stacklevel)
    if feasible:
        thresholds = rows.order_statistics(candidates, fitting, [ranks[i] for i in feasible])
        counts = rows.set_counts(candidates, sizing, thresholds, thresholds)
        levels = [alphas[i] for i in feasible]
        chosen = best(objective, rows, candidates, sizing, thresholds, counts, levels)
        for column, i in enumerate(feasible):
            curve = SelectionCurve(
                candidates=candidates,
                sizes=counts.pairs[:, column] / len(sizing),
                thresholds=thresholds[:, column],
                chosen=chosen[column],
                survivors=(chosen[column],),
                objective=objective,
            )
            choices[i] = Choice((candidates[chosen[column]],), calibrating, curve, union=union)
    return choices


def _by_modsel(recipe: Recipe, rows: Rows, alphas: Sequence[float]) -> list[Choice]:
    candidates, choices = recipe.candidates, []
    for found in select_exactly(candidates, np.array(recipe.handicaps), rows, alphas):
        if found is None:
            choices.append(Choice(candidates[:1], None))
            continue
        curve = SelectionCurve(
            candidates=candidates,
            sizes=found.sizes,
            thresholds=found.thresholds,
            chosen=found.chosen,
            survivors=found.survivors,
            objective="size",
        )
        scorings = tuple(candidates[m] for m in found.survivors)
        choices.append(Choice(scorings, None, curve, found.brackets))
    return choices


def _by_union(recipe: Recipe, rows: Rows, alphas: Sequence[float], delta: float, shares: int) -> list[Choice]:
    candidates, n = recipe.candidates, len(rows)
    union = len(candidates)
    ranks = [rank_for(n, alpha, delta, union * shares) for alpha in alphas]
    choices = [Choice(candidates[:1], None, union=union) for _ in alphas]
    feasible = [i for i, rank in enumerate(ranks) if rank <= n]
    if not feasible:
        return choices
    thresholds = rows.order_statistics(candidates, None, [ranks[i] for i in feasible])
    counts = rows.set_counts(candidates, None, thresholds, thresholds)
    for column, i in enumerate(feasible):
        pairs = counts.pairs[:, column]
        chosen = int((pairs * weights_of(np.array(recipe.handicaps), n, alphas[i])).argmin())
        curve = SelectionCurve(
            candidates=candidates,
            sizes=pairs / n,
            thresholds=thresholds[:, column],
            chosen=chosen,
            survivors=(chosen,),
            objective="size",
        )
        choices[i] = Choice((candidates[chosen],), None, curve, union=union)
    return choices
