"""A calibration as a state that blocks of rows are added to, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence

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
from tightset.scores import Scoring
from tightset.streaming.block import Block, tally_of
from tightset.streaming.kept_scores import KeptScores
from tightset.streaming.ledger import NOT_KEPT
from tightset.streaming.plan import Plan, Seen
from tightset.streaming.split import first_part

STATE_BYTES = 2**22


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
        used = recipe_for(recipe, objective)
        if objective == "adaptive":
            raise ValueError(NOT_KEPT)
        alphas, has_several_alphas = as_alphas(alpha, confidence_level)
        self.n_threads = as_thread_count(n_threads)
        self.is_in_pass = False
        self._plan = Plan.of(
            used,
            alphas,
            objective,
            seed=as_seed(seed),
            probabilities=as_flag(probabilities, "probabilities"),
            has_several_alphas=has_several_alphas,
            state_bytes=as_integer(state_bytes, "state_bytes", 1),
        )
        self._seen: Seen | None = None
        self._tally = self._plan.no_rows()

    @property
    def candidates(self) -> tuple[Scoring, ...]:
        """Those of the recipe."""
        return self._plan.candidates

    @property
    def pass_number(self) -> int:
        """The pass that is under way or comes next, from 1."""
        return self._plan.pass_number

    @property
    def is_complete(self) -> bool:
        """Whether `finish` has all it needs."""
        return self._plan.wanted is None

    @property
    def n_rows(self) -> int | None:
        """Rows of the first pass, None before its end."""
        return sum(self._plan.ledger.rows) if self.pass_number > 1 else None

    @property
    def rows_in_pass(self) -> int:
        """Rows that this pass has seen."""
        return int(self._tally.rows.sum())

    @property
    def splits_rows(self) -> bool:
        """Whether a row's id or number decides what it is used for."""
        return self._plan.splits_rows

    def begin_pass(self) -> int:
        """Begin a pass over all rows and return its number."""
        if self.is_complete:
            message = "the calibration is complete: call finish"
            raise ValueError(message)
        if self.is_in_pass:
            message = f"pass {self.pass_number} has begun already: call end_pass first"
            raise ValueError(message)
        self.is_in_pass = True
        self._tally = self._plan.no_rows()
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
        seen, plan = self._seen, self._plan
        array = as_logits(logits, n_labels=None if seen is None else seen.n_labels)
        n = len(array)
        truth, ids = as_labels(labels, n), as_row_ids(row_ids, n)
        if n and seen is not None and seen.uses_row_ids != (ids is not None):
            had = "with" if seen.uses_row_ids else "without"
            message = f"row_ids must be given in every update or in none: earlier ones were {had} row_ids"
            raise ValueError(message)
        asked = plan.asked
        if self.pass_number == 1 and not asked.probabilities:
            warn_if_probabilities(array, stacklevel=3)
        first = None
        if self.splits_rows and n:
            assert asked.recipe.selection is not None, "rows are split for a selection"
            first = first_part(asked.seed, self._split_ids(ids, n, start), asked.recipe.selection)
        rows = Block(array, truth, ids, first, asked.seed, asked.probabilities, self.n_threads)
        added = tally_of(rows, plan, kept)
        # One assignment: an interrupt before it leaves the state without these rows, as if never given.
        blocks = frozenset() if number is None else frozenset((number,))
        tally = self._tally.plus(added, blocks)
        if n:
            self._seen = Seen(array.shape[1], ids is not None)
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
        if self._seen is not None and other._seen is not None:
            for name in ("n_labels", "uses_row_ids"):
                ours, theirs = getattr(self._seen, name), getattr(other._seen, name)
                if ours != theirs:
                    message = f"other must agree in {name}: {theirs} there, {ours} here"
                    raise ValueError(message)
        twice = self._tally.blocks & other._tally.blocks
        if twice and twice == other._tally.blocks:
            return
        if twice:
            message = f"other must not share blocks with this state: both have counted block {min(twice)}"
            raise ValueError(message)
        tally = self._tally.plus(other._tally, other._tally.blocks)
        if other._seen is not None:
            self._seen = other._seen
        self._tally = tally

    def worker(self) -> Calibration:
        """Return a copy for a reader of this pass, with no rows yet."""
        self._check_in_pass("worker")
        twin = self.__copy__()
        twin._plan = self._plan.copy()
        twin._tally = self._plan.no_rows()
        return twin

    def __copy__(self) -> Calibration:
        twin = object.__new__(Calibration)
        twin.__dict__.update(self.__dict__)
        return twin

    def end_pass(self) -> None:
        """End the pass and decide what the next one reads, if there is one."""
        self._check_in_pass("end_pass")
        self._plan.end_pass(self._tally, self._seen)
        self.is_in_pass = False
        self._tally = self._plan.no_rows()

    def finish(self, alpha: float | None = None) -> Predictor | tuple[Predictor, ...]:
        """Return the predictor of one of the levels, or all that were asked for at the beginning.

        Their `selection_curve` has no coverage by entropy, and there are no calibration scores: `predict_p`
        needs `calibrate` with arrays, or `calibrate_stream` with `max_memory` for the scores.
        """
        predictors = self._predictors()
        alphas = self._plan.asked.alphas
        if alpha is not None:
            level = as_number(alpha, "alpha")
            if level not in alphas:
                message = f"alpha must be one of those asked for, {list(alphas)}, got {alpha!r}"
                raise ValueError(message)
            return predictors[alphas.index(level)]
        return predictors if self._plan.has_several_alphas else predictors[0]

    def _predictors(self) -> tuple[Predictor, ...]:
        if not self.is_complete:
            message = f"the calibration is not complete: pass {self.pass_number} comes next"
            raise ValueError(message)
        assert self._seen is not None, "a pass has had rows"
        return self._plan.predictors(self._seen)

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
        alphas = list(self._plan.asked.alphas)
        return f"Calibration({len(self.candidates)} candidates, alpha {alphas}, {where})"

    def _pass_over(self, kept: KeptScores) -> None:
        """Make this pass on scores that the first one kept."""
        self._tally = kept.tally(self._plan, self.n_threads)

    def _split_ids(self, ids: NDArray[np.uint64] | None, n: int, start: int | None) -> NDArray[np.uint64]:
        if ids is not None:
            return ids
        if start is None:
            selection = self._plan.asked.recipe.selection
            message = (
                f"start must be given without row_ids: selection={selection!r} splits rows by their numbers"
            )
            raise ValueError(message)
        return np.arange(n, dtype=np.uint64) + np.uint64(as_integer(start, "start", 0))

    def _check_in_pass(self, method: str) -> None:
        if not self.is_in_pass:
            message = f"{method} needs a pass: call begin_pass first"
            raise ValueError(message)

    def _plan_document(self) -> dict[str, object]:
        from tightset.streaming.wire import plan_document

        return plan_document(self)
