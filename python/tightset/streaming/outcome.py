"""From what the passes found to predictors, or to what is still missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tightset import _core
from tightset.objectives import Objective
from tightset.predictor import Predictor
from tightset.recipes import Recipe
from tightset.scores import Scoring
from tightset.selection import Choice, choose
from tightset.streaming.ledger import LedgerRows, MissingError, PartOfRows, WantedRanks
from tightset.thresholds import candidates_in_use, warn_if_unbounded


@dataclass(frozen=True, slots=True)
class Asked:
    """What a calibration was asked for: a recipe with its candidates, levels, and how rows are read."""

    recipe: Recipe
    candidates: tuple[Scoring, ...]
    alphas: tuple[float, ...]
    objective: Objective
    seed: int
    probabilities: bool


def predictors_of(asked: Asked, rows: LedgerRows, *, uses_row_ids: bool) -> tuple[Predictor, ...]:
    """Return a predictor for each level; MissingError says what a pass must find first."""
    choices = choose(asked.recipe, rows, asked.alphas, asked.objective)
    rows.ask_for_between()
    part: PartOfRows = rows.part("all") if choices[0].rows is None else choices[0].rows
    n = len(part)
    ranks = [_core.conformal_rank(n, alpha) for alpha in asked.alphas]
    thresholds = _thresholds(rows, part, choices, ranks)
    predictors = []
    for alpha, choice, rank, found in zip(asked.alphas, choices, ranks, thresholds, strict=True):
        warn_if_unbounded(alpha, rank, n, found[0], spent=len(rows) - n, stacklevel=6)
        curve = choice.curve
        predictors.append(
            Predictor(
                alpha=alpha,
                recipe=asked.recipe,
                n_labels=rows.n_labels,
                n_calibration=n,
                rank=rank,
                candidates=candidates_in_use(choice, found),
                seed=asked.seed,
                probabilities=asked.probabilities,
                uses_row_ids=uses_row_ids,
                selection_curve=None if curve is None else replace(curve, level=1 - alpha),
            )
        )
    return tuple(predictors)


def _thresholds(
    rows: LedgerRows, part: PartOfRows, choices: Sequence[Choice], ranks: Sequence[int]
) -> list[list[float]]:
    """Return the thresholds of each level's candidates; what is missing is asked for together."""
    found, missing = [], []
    for choice, rank in zip(choices, ranks, strict=True):
        try:
            found.append(rows.order_statistics(choice.scorings, part, [rank])[:, 0].tolist())
        except MissingError as error:
            wanted = error.wanted
            assert isinstance(wanted, WantedRanks), "order statistics were asked for"
            missing += wanted.ranks
    if missing:
        raise MissingError(WantedRanks(part.name, list(dict.fromkeys(missing))))
    return found
