"""What a calibration is to find, what its passes have found so far, and what the next one looks for."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tightset.objectives import Objective
from tightset.predictor import Predictor
from tightset.recipes import Recipe
from tightset.scores import Scoring
from tightset.streaming.ledger import Ledger, LedgerRows, MissingError, Wanted, WantedCounts, WantedRanks
from tightset.streaming.outcome import Asked, predictors_of
from tightset.streaming.ranks import RankSearch
from tightset.streaming.split import Part, parts_of
from tightset.streaming.tally import Tally

# Handicaps multiply counts by up to 2^17, and the products are integers of 64 bits.
MOST_WEIGHTED_PAIRS = 2**46


@dataclass(frozen=True, slots=True)
class Seen:
    """What the rows themselves have shown: the number of labels, and whether rows have ids."""

    n_labels: int
    uses_row_ids: bool


@dataclass(slots=True)
class Plan:
    """All that readers of one pass share; it changes between passes only.

    Attributes
    ----------
    asked
        What was asked for.
    has_several_alphas
        Whether levels came as a sequence.
    state_bytes
        Bytes for the counts of a pass.
    pass_number
        The pass that is under way or comes next, from 1.
    ledger
        What passes have found.
    wanted
        What the pass looks for, None when nothing is missing.
    search
        Where it looks, if that is ranks.
    """

    asked: Asked
    has_several_alphas: bool
    state_bytes: int
    pass_number: int = 1
    ledger: Ledger = field(default_factory=Ledger)
    wanted: Wanted | None = None
    search: RankSearch | None = None

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        alphas: Sequence[float],
        objective: Objective,
        *,
        seed: int,
        probabilities: bool,
        has_several_alphas: bool,
        state_bytes: int,
    ) -> Plan:
        """Return the plan of the first pass: ranks of all candidates."""
        asked = Asked(recipe, recipe.candidates, tuple(alphas), objective, seed, probabilities)
        plan = cls(asked, has_several_alphas, state_bytes)
        plan.wanted = WantedRanks(plan.fitting_part, [])
        plan.search = RankSearch.over(plan.fitting_part, list(range(len(plan.candidates))), state_bytes)
        return plan

    @property
    def candidates(self) -> tuple[Scoring, ...]:
        """Those of the recipe."""
        return self.asked.candidates

    @property
    def splits_rows(self) -> bool:
        """Whether a row's id or number decides what it is used for."""
        recipe = self.asked.recipe
        is_single = len(self.candidates) == 1 and recipe.selection != "released"
        return recipe.selection not in (None, "modsel") and not is_single

    @property
    def fitting_part(self) -> Part:
        """The rows whose scores the first pass ranks."""
        if not self.splits_rows:
            return "all"
        assert self.asked.recipe.selection is not None, "rows are split for a selection"
        return parts_of(self.asked.recipe.selection)[0]

    def no_rows(self) -> Tally:
        """Return the tally of no rows."""
        return Tally.empty(self.wanted, self.search)

    def copy(self) -> Plan:
        """Return a plan that shares nothing that changes with this one."""
        return replace(self, ledger=copy.deepcopy(self.ledger), search=copy.deepcopy(self.search))

    def end_pass(self, tally: Tally, seen: Seen | None) -> None:
        """Take what a pass over all rows has counted and decide what the next one looks for.

        When it cannot be right, nothing changes.
        """
        rows = (int(tally.rows[0]), int(tally.rows[1]))
        if seen is None or not sum(rows):
            message = f"pass {self.pass_number} must have at least one row, got 0"
            raise ValueError(message)
        if self.pass_number == 1:
            self.ledger.rows = rows
        elif rows != self.ledger.rows:
            message = (
                f"pass {self.pass_number} was given {sum(rows)} rows, {rows[0]} of them in the first part, "
                f"pass 1 {sum(self.ledger.rows)} and {self.ledger.rows[0]}: every pass must be given the "
                "same rows"
            )
            raise ValueError(message)
        if self.search is not None:
            self._end_search(copy.deepcopy(self.search), tally, seen)
        elif isinstance(self.wanted, WantedCounts):
            self._check_weighted(int(tally.counts.max()))
            self.ledger.counts = tally.counts
            self._next(seen)
        else:
            self.ledger.between = [_sorted(scores) for scores in tally.between]
            self._next(seen)
        self.pass_number += 1

    def predictors(self, seen: Seen) -> tuple[Predictor, ...]:
        """Return a predictor for each level; MissingError says what a pass must find first."""
        rows = LedgerRows(self.ledger, self.candidates, seen.n_labels)
        return predictors_of(self.asked, rows, uses_row_ids=seen.uses_row_ids)

    def _check_weighted(self, most: int) -> None:
        if any(self.asked.recipe.handicaps) and most > MOST_WEIGHTED_PAIRS:
            message = (
                f"recipes with handicaps compare sums of set sizes up to {MOST_WEIGHTED_PAIRS}, got "
                f"{most}: use fewer rows or a recipe without handicaps"
            )
            raise ValueError(message)

    def _end_search(self, search: RankSearch, tally: Tally, seen: Seen) -> None:
        if search.targets is None:
            wanted = self._missing(seen)
            if not isinstance(wanted, WantedRanks) or wanted.part != search.part:
                self.search = None
                self._next(seen)
                return
            search.aim(wanted.ranks)
        search.narrow(tally.digits, list(tally.keys), self.state_bytes)
        if search.slots:
            self.search = search
            return
        self.ledger.statistics |= {(search.part, m, rank): s for (m, rank), s in search.found.items()}
        self.search = None
        self._next(seen)

    def _next(self, seen: Seen) -> None:
        self.wanted = self._missing(seen)
        if isinstance(self.wanted, WantedRanks):
            candidates = sorted({m for m, _ in self.wanted.ranks})
            self.search = RankSearch.over(self.wanted.part, candidates, self.state_bytes)
            self.search.aim(self.wanted.ranks)

    def _missing(self, seen: Seen) -> Wanted | None:
        """Return what the next pass must find, None if there is nothing more."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said once, by finish
                self.predictors(seen)
        except MissingError as missing:
            return missing.wanted
        return None


def _sorted(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    # By value and then by sign, as the core sorts: -0.0 before 0.0.
    return scores[np.lexsort((~np.signbit(scores), scores))]
