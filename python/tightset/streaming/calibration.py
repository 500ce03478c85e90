"""A calibration as a state that blocks of rows are added to, pass by pass."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import (
    ArrayLike,
    as_alphas,
    as_flag,
    as_integer,
    as_labels,
    as_logits,
    as_number,
    as_row_ids,
    as_seed,
    as_thread_count,
    warn_if_probabilities,
)
from tightset.calibration import recipe_for
from tightset.objectives import Objective
from tightset.predictor import Predictor
from tightset.recipes import Recipe
from tightset.streaming.block import Block, KeptScores, add_scores, tally_of
from tightset.streaming.ledger import (
    NOT_KEPT,
    Ledger,
    LedgerRows,
    MissingError,
    Wanted,
    WantedCounts,
    WantedRanks,
)
from tightset.streaming.outcome import predictors_of
from tightset.streaming.ranks import RankSearch
from tightset.streaming.split import Part, first_part, parts_of
from tightset.streaming.tally import Tally

STATE_BYTES = 2**22

# Handicaps multiply counts by up to 2^17, and the products are integers of 64 bits.
MOST_WEIGHTED_PAIRS = 2**46


class Calibration:
    """A calibration over several passes, whose rows may come in blocks, in any order, on several machines.

    Every pass is given all the rows. The coordinator begins a pass and hands a `worker` copy of its state to
    each reader; they `update` it with their rows; the coordinator merges what comes back and ends the pass,
    until `is_complete`. Thresholds are exact order statistics: counts of the scores' bits are added, so
    nothing depends on blocks, order or machines, and a state has a few MB however many rows there are.

    Recipes with one candidate and those selected by ``"modsel"`` give the predictor that `calibrate` gives.
    The other selections split rows by a hash of the seed and the row's id, or its number if there is
    none, instead of by position; their predictors do not depend on blocks or order either.

    Parameters
    ----------
    recipe, alpha, confidence_level, objective, seed, probabilities, n_threads
        As in `calibrate`; the objective ``"adaptive"`` needs all rows at hand.
    state_bytes
        Bytes for the counts of a pass; with fewer there are more passes.

    Attributes
    ----------
    candidates
        Those of the recipe.
    pass_number
        The pass that is under way or comes next, from 1.
    is_complete
        Whether `finish` has all it needs.
    n_rows
        Rows of the first pass, once it has ended.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(1)
    >>> labels = rng.integers(4, size=2000)
    >>> logits = 3 * rng.normal(size=(2000, 4)) + 6 * np.eye(4)[labels]
    >>> state = ts.Calibration("er-aps", alpha=0.1)
    >>> while not state.is_complete:
    ...     number = state.begin_pass()
    ...     for rows in (slice(0, 700), slice(700, 2000)):
    ...         reader = ts.Calibration.from_bytes(state.worker().to_bytes())  # anywhere
    ...         counted = reader.update(logits[rows], labels[rows])
    ...         state.merge(reader)
    ...     state.end_pass()
    >>> state.finish() == ts.calibrate(logits, labels, alpha=0.1)
    True
    """

    def __init__(
        self,
        recipe: str | Recipe = "er-aps",
        alpha: float | Sequence[float] | None = None,
        *,
        confidence_level: float | Sequence[float] | None = None,
        objective: Objective = "size",
        seed: int = 0,
        probabilities: bool = False,
        n_threads: int | None = None,
        state_bytes: int = STATE_BYTES,
    ) -> None:
        self.recipe = recipe_for(recipe, objective)
        self.candidates = self.recipe.candidates
        if objective == "adaptive":
            raise ValueError(NOT_KEPT)
        self.objective: Objective = objective
        self.alphas, self.has_several_alphas = as_alphas(alpha, confidence_level)
        self.seed = as_seed(seed)
        self.probabilities = as_flag(probabilities, "probabilities")
        self.n_threads = as_thread_count(n_threads)
        self.state_bytes = as_integer(state_bytes, "state_bytes", 1)
        self.n_labels: int | None = None
        self.uses_row_ids: bool | None = None
        self.pass_number = 1
        self.is_in_pass = False
        self._ledger = Ledger()
        fitting = self._fitting_part()
        self._wanted: Wanted | None = WantedRanks(fitting, [])
        self._search: RankSearch | None = self._new_search(fitting, range(len(self.candidates)))
        self._tally = self._no_rows()

    @property
    def is_complete(self) -> bool:
        """Whether `finish` has all it needs."""
        return self._wanted is None

    @property
    def n_rows(self) -> int | None:
        """Rows of the first pass, None before its end."""
        return sum(self._ledger.rows) if self.pass_number > 1 else None

    @property
    def rows_in_pass(self) -> int:
        """Rows that this pass has seen."""
        return int(self._tally.rows.sum())

    @property
    def splits_rows(self) -> bool:
        """Whether a row's id or number decides what it is used for."""
        return self.recipe.selection not in (None, "modsel") and not self._is_single()

    def begin_pass(self) -> int:
        """Begin a pass over all rows and return its number."""
        if self.is_complete:
            message = "the calibration is complete: call finish"
            raise ValueError(message)
        if self.is_in_pass:
            message = f"pass {self.pass_number} has begun already: call end_pass first"
            raise ValueError(message)
        self.is_in_pass = True
        self._tally = self._no_rows()
        return self.pass_number

    def update(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        row_ids: ArrayLike | None = None,
        *,
        start: int | None = None,
        block: int | None = None,
    ) -> bool:
        """Add rows to the pass, all of them or, when something is wrong, none.

        Parameters
        ----------
        logits, labels
            As in `calibrate`; no rows at all are fine.
        row_ids
            As in `calibrate`, in every update or in none.
        start
            The number of the first row among all rows, for the selections that split rows by it where
            there are no ids.
        block
            A number for these rows. A block that this pass has counted already is left out, so a reader
            that is not sure may give it again.

        Returns
        -------
        Whether the rows were added.
        """
        return self._update(logits, labels, row_ids, start, block, None)

    def _update(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        row_ids: ArrayLike | None,
        start: int | None,
        block: int | None,
        kept: KeptScores | None,
    ) -> bool:
        self._check_in_pass("update")
        number = None if block is None else as_integer(block, "block", 0)
        if number is not None and number in self._tally.blocks:
            return False
        array = as_logits(logits, n_labels=self.n_labels)
        n = len(array)
        truth, ids = as_labels(labels, n), as_row_ids(row_ids, n)
        if n and self.uses_row_ids not in (None, ids is not None):
            had = "with" if self.uses_row_ids else "without"
            message = f"row_ids must be given in every update or in none: earlier ones were {had} row_ids"
            raise ValueError(message)
        if self.pass_number == 1 and not self.probabilities:
            warn_if_probabilities(array, stacklevel=3)
        first = None
        if self.splits_rows and n:
            assert self.recipe.selection is not None
            first = first_part(self.seed, self._split_ids(ids, n, start), self.recipe.selection)
        rows = Block(array, truth, ids, first, self.seed, self.probabilities, self.n_threads)
        added = tally_of(rows, self.candidates, self._wanted, self._search, kept, self._no_rows())
        # One assignment: an interrupt before it leaves the state without these rows, as if never given.
        blocks = frozenset() if number is None else frozenset((number,))
        tally = self._tally.plus(added, blocks)
        if n:
            self.n_labels, self.uses_row_ids = array.shape[1], ids is not None
        self._tally = tally
        return True

    def merge(self, other: Calibration) -> None:
        """Add what another reader of this pass has counted.

        A reader whose numbered blocks are all here already is left out; one that shares only some of
        them is refused.
        """
        self._check_in_pass("merge")
        if not isinstance(other, Calibration):
            message = f"other must be a Calibration, got {other!r}"
            raise TypeError(message)
        if self._plan_document() != other._plan_document():
            message = (
                f"other must be a reader of the same pass: it is at pass {other.pass_number}, this one at "
                f"{self.pass_number}, or it was made with other arguments"
            )
            raise ValueError(message)
        for name in ("n_labels", "uses_row_ids"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if None not in (ours, theirs) and ours != theirs:
                message = f"other must agree in {name}: {theirs} there, {ours} here"
                raise ValueError(message)
        twice = self._tally.blocks & other._tally.blocks
        if twice and twice == other._tally.blocks:
            return
        if twice:
            message = f"other must not share blocks with this state: both have counted block {min(twice)}"
            raise ValueError(message)
        tally = self._tally.plus(other._tally, other._tally.blocks)
        if other.n_labels is not None:
            self.n_labels, self.uses_row_ids = other.n_labels, other.uses_row_ids
        self._tally = tally

    def worker(self) -> Calibration:
        """Return a copy for a reader of this pass, with no rows yet."""
        self._check_in_pass("worker")
        twin = copy.copy(self)
        twin._ledger, twin._search = copy.deepcopy(self._ledger), copy.deepcopy(self._search)
        twin._tally = self._no_rows()
        return twin

    def __copy__(self) -> Calibration:
        twin = object.__new__(Calibration)
        twin.__dict__.update(self.__dict__)
        return twin

    def end_pass(self) -> None:
        """End the pass and decide what the next one reads, if there is one."""
        self._check_in_pass("end_pass")
        tally = self._tally
        rows = (int(tally.rows[0]), int(tally.rows[1]))
        if not sum(rows):
            message = f"pass {self.pass_number} must have at least one row, got 0"
            raise ValueError(message)
        if self.pass_number == 1:
            self._ledger.rows = rows
        elif rows != self._ledger.rows:
            message = (
                f"pass {self.pass_number} was given {sum(rows)} rows, {rows[0]} of them in the first part, "
                f"pass 1 {sum(self._ledger.rows)} and {self._ledger.rows[0]}: every pass must be given the "
                "same rows"
            )
            raise ValueError(message)
        if self._search is not None:
            self._end_search(copy.deepcopy(self._search), tally)
        elif isinstance(self._wanted, WantedCounts):
            if any(self.recipe.handicaps) and int(tally.counts.max()) > MOST_WEIGHTED_PAIRS:
                message = (
                    f"recipes with handicaps compare sums of set sizes up to {MOST_WEIGHTED_PAIRS}, got "
                    f"{int(tally.counts.max())}: use fewer rows or a recipe without handicaps"
                )
                raise ValueError(message)
            self._ledger.counts = tally.counts
            self._next()
        else:
            self._ledger.between = [_sorted(scores) for scores in tally.between]
            self._next()
        self.is_in_pass = False
        self.pass_number += 1
        self._tally = self._no_rows()

    def finish(self, alpha: float | None = None) -> Predictor | tuple[Predictor, ...]:
        """Return the predictor of one of the levels, or all that were asked for at the beginning.

        Their `selection_curve` has no coverage by entropy, and there are no calibration scores: `predict_p`
        needs `calibrate` with arrays.
        """
        if not self.is_complete:
            message = f"the calibration is not complete: pass {self.pass_number} comes next"
            raise ValueError(message)
        predictors = predictors_of(self, self._rows())
        if alpha is not None:
            level = as_number(alpha, "alpha")
            if level not in self.alphas:
                message = f"alpha must be one of those asked for, {self.alphas}, got {alpha!r}"
                raise ValueError(message)
            return predictors[self.alphas.index(level)]
        return predictors if self.has_several_alphas else predictors[0]

    def to_bytes(self) -> bytes:
        """Return the state as bytes; they hold numbers and names, no code."""
        from tightset.streaming.wire import to_bytes

        return to_bytes(self)

    @staticmethod
    def from_bytes(data: bytes) -> Calibration:
        """Return the state that `to_bytes` wrote."""
        from tightset.streaming.wire import from_bytes

        return from_bytes(data)

    def __reduce__(self) -> tuple[object, ...]:
        return Calibration.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        where = "complete" if self.is_complete else f"pass {self.pass_number}, {self.rows_in_pass} rows"
        return f"Calibration({len(self.candidates)} candidates, alpha {self.alphas}, {where})"

    def _is_single(self) -> bool:
        return len(self.candidates) == 1 and self.recipe.selection != "released"

    def _pass_over(self, kept: KeptScores) -> None:
        """Make this pass on scores that an earlier one kept."""
        assert self._search is not None, "only searches for ranks read scores"
        assert kept.tables is not None, "all scores were kept"
        used = list(range(len(self.candidates)))
        tally = self._no_rows()
        for table in kept.tables:
            tally = add_scores(tally, self._search, used, table, self.n_threads)
        self._tally = replace(tally, rows=kept.rows)

    def _can_use(self, kept: KeptScores | None) -> bool:
        """Whether this pass can be made on kept scores, which are those of the first pass's part."""
        if kept is None or kept.tables is None or self.pass_number == 1 or self._search is None:
            return False
        return self._search.part == self._fitting_part()

    def _fitting_part(self) -> Part:
        if not self.splits_rows:
            return "all"
        assert self.recipe.selection is not None
        return parts_of(self.recipe.selection)[0]

    def _new_search(self, part: Part, candidates: Sequence[int]) -> RankSearch:
        return RankSearch.over(part, list(candidates), self.state_bytes)

    def _no_rows(self) -> Tally:
        return Tally.empty(self._wanted, self._search)

    def _split_ids(self, ids: NDArray[np.uint64] | None, n: int, start: int | None) -> NDArray[np.uint64]:
        if ids is not None:
            return ids
        if start is None:
            message = (
                f"start must be given without row_ids: selection={self.recipe.selection!r} splits rows by "
                "their numbers"
            )
            raise ValueError(message)
        return np.arange(n, dtype=np.uint64) + np.uint64(as_integer(start, "start", 0))

    def _check_in_pass(self, method: str) -> None:
        if not self.is_in_pass:
            message = f"{method} needs a pass: call begin_pass first"
            raise ValueError(message)

    def _end_search(self, search: RankSearch, tally: Tally) -> None:
        if search.targets is None:
            wanted = self._missing()
            if not isinstance(wanted, WantedRanks) or wanted.part != search.part:
                self._search = None
                self._next()
                return
            search.aim(wanted.ranks)
        search.narrow(tally.digits, list(tally.keys), self.state_bytes)
        if search.slots:
            self._search = search
            return
        self._ledger.statistics |= {(search.part, m, rank): s for (m, rank), s in search.found.items()}
        self._search = None
        self._next()

    def _next(self) -> None:
        self._wanted = self._missing()
        if isinstance(self._wanted, WantedRanks):
            candidates = sorted({m for m, _ in self._wanted.ranks})
            self._search = self._new_search(self._wanted.part, candidates)
            self._search.aim(self._wanted.ranks)

    def _missing(self) -> Wanted | None:
        """Return what the next pass must find, None if there is nothing more."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said once, by finish
                predictors_of(self, self._rows())
        except MissingError as missing:
            return missing.wanted
        return None

    def _rows(self) -> LedgerRows:
        assert self.n_labels is not None, "a pass has had rows"
        return LedgerRows(self._ledger, self.candidates, self.n_labels)

    def _plan_document(self) -> dict[str, object]:
        from tightset.streaming.wire import plan_document

        return plan_document(self)


def _sorted(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    # By value and then by sign, as the core sorts: -0.0 before 0.0.
    return scores[np.lexsort((~np.signbit(scores), scores))]
