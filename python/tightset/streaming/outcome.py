"""From what the passes found to predictors, or to what is still missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tightset import _core
from tightset.predictor import Predictor
from tightset.selection import Choice, choose
from tightset.streaming.ledger import LedgerRows, MissingError, PartOfRows, WantedRanks
from tightset.thresholds import candidates_in_use, warn_if_unbounded

if TYPE_CHECKING:
    from tightset.streaming.calibration import Calibration


def predictors_of(state: Calibration, rows: LedgerRows) -> tuple[Predictor, ...]:
    """Return a predictor for each level; MissingError says what a pass must find first."""
    choices = choose(state.recipe, rows, state.alphas, state.objective)
    rows.ask_for_between()
    part: PartOfRows = rows.part("all") if choices[0].rows is None else choices[0].rows
    n = len(part)
    ranks = [_core.conformal_rank(n, alpha) for alpha in state.alphas]
    thresholds = _thresholds(rows, part, choices, ranks)
    predictors = []
    for alpha, choice, rank, found in zip(state.alphas, choices, ranks, thresholds, strict=True):
        warn_if_unbounded(alpha, rank, n, found[0], spent=len(rows) - n, stacklevel=4)
        predictors.append(
            Predictor(
                alpha=alpha,
                recipe=state.recipe,
                n_labels=rows.n_labels,
                n_calibration=n,
                rank=rank,
                candidates=candidates_in_use(choice, found),
                seed=state.seed,
                probabilities=state.probabilities,
                uses_row_ids=bool(state.uses_row_ids),
                selection_curve=choice.curve,
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
            if isinstance(error.wanted, WantedRanks):
                missing += error.wanted.ranks
    if missing:
        raise MissingError(WantedRanks(part.name, list(dict.fromkeys(missing))))
    return found
