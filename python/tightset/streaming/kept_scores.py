"""Label scores of the first pass, kept while they fit: what can be read off them needs no other reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tightset.objectives import entropy_strata
from tightset.predictor import Predictor
from tightset.scores import Scoring
from tightset.streaming.plan import Plan
from tightset.streaming.split import parts_of
from tightset.streaming.tally import Tally, add_scores


@dataclass(slots=True)
class KeptScores:
    """Scores of all candidates, and entropies where a selection looks at all rows.

    Attributes
    ----------
    room
        Bytes for them.
    wants_entropies
        Whether entropies are kept too.
    tables
        One table of scores for each run of rows; None once they did not fit.
    entropies
        Entropies of the same rows.
    rows
        Rows in the first and the second part.
    size
        Bytes that were to be kept.
    """

    room: int
    wants_entropies: bool
    tables: list[NDArray[np.float64]] | None = field(default_factory=list)
    entropies: list[NDArray[np.float64]] = field(default_factory=list)
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    size: int = 0

    @classmethod
    def for_plan(cls, plan: Plan, room: int) -> KeptScores:
        """Return room for the scores of the plan's first pass."""
        return cls(room, wants_entropies=len(plan.candidates) > 1 and not plan.splits_rows)

    def add(self, table: NDArray[np.float64], entropies: Callable[[], NDArray[np.float64]]) -> None:
        """Keep a table, or nothing from here on."""
        self.size += table.nbytes + (8 * table.shape[1] if self.wants_entropies else 0)
        if self.size > self.room:
            self.tables, self.entropies = None, []
            return
        assert self.tables is not None, "what fits now has fitted before"
        self.tables.append(table)
        if self.wants_entropies:
            self.entropies.append(entropies())

    def serve(self, plan: Plan) -> bool:
        """Whether the plan's pass can be made on them: they are those of the first pass's part."""
        if self.tables is None or plan.pass_number == 1 or plan.search is None:
            return False
        return plan.search.part == plan.fitting_part

    def tally(self, plan: Plan, n_threads: int | None) -> Tally:
        """Return what the plan's pass would count."""
        assert plan.search is not None, "only searches for ranks read scores"
        assert self.tables is not None, "all scores were kept"
        used = list(range(len(plan.candidates)))
        tally = plan.no_rows()
        for table in self.tables:
            tally = add_scores(tally, plan.search, used, table, n_threads)
        return replace(tally, rows=self.rows)

    def given_to(self, predictors: tuple[Predictor, ...], plan: Plan) -> tuple[Predictor, ...]:
        """Return the predictors with the scores that set their thresholds, if those were kept."""
        selection = plan.asked.recipe.selection
        calibrating = "all" if selection is None or not plan.splits_rows else parts_of(selection)[2]
        if self.tables is None or calibrating != plan.fitting_part:
            return predictors
        numbers = {candidate: m for m, candidate in reversed(list(enumerate(plan.candidates)))}
        scorings = dict.fromkeys(c.scoring for predictor in predictors for c in predictor.candidates)
        unsorted = {s: np.concatenate([table[numbers[s]] for table in self.tables]) for s in scorings}
        strata = entropy_strata(np.concatenate(self.entropies)) if self.wants_entropies else []
        return tuple(_with_scores(predictor, unsorted, strata) for predictor in predictors)


def _with_scores(
    predictor: Predictor, unsorted: dict[Scoring, NDArray[np.float64]], strata: list[NDArray[np.int64]]
) -> Predictor:
    scores = np.sort([unsorted[c.scoring] for c in predictor.candidates], axis=1)
    scores.setflags(write=False)
    curve = predictor.selection_curve
    if curve is not None and len(strata) > 1:
        winner = curve.candidates[curve.chosen]
        place = [c.scoring for c in predictor.candidates].index(winner)
        threshold = scores[place, min(predictor.rank, predictor.n_calibration) - 1]
        covered = unsorted[winner] <= threshold
        curve = replace(curve, coverage_by_entropy=tuple(float(covered[part].mean()) for part in strata))
    return replace(predictor, calibration_scores=scores, selection_curve=curve)
