"""Rows that are scored a block at a time, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._float_rows import as_floats, as_log_values
from tightset._inputs import (
    ArrayLike,
    as_flag,
    as_row_ids,
    as_seed,
    as_thread_count,
    warn_if_probabilities,
)
from tightset.scores import Scoring

if TYPE_CHECKING:
    from tightset.family.rules import Rule

_BLOCK_CELLS = 2**18
"""Scores of a block: 2 MiB in float64, small beside a cache's worth of temporaries."""


@dataclass(slots=True)
class Block:
    """Some consecutive rows, and what the core says of them.

    Attributes
    ----------
    rows
        Logits or probabilities as they were passed, shape (b, K).
    given
        What was given beside the logits, one entry a row, or None.
    """

    rows: NDArray[Any]
    row_ids: NDArray[np.uint64] | None
    given: NDArray[Any] | None
    seed: int
    probabilities: bool
    n_threads: int | None
    _kept: dict[Hashable, NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def once(self, key: Hashable, make: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return what `make` returns, made once for the block: candidates share it."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def scores(self, scoring: Scoring, *, ranked: bool) -> NDArray[np.float64]:
        """Return the scores of all labels, shape (b, K), as `all_scores` does."""
        return self.once(
            (scoring, ranked),
            lambda: _core.all_scores(
                self.rows,
                scoring.core,
                ranked=ranked,
                seed=self.seed,
                row_ids=self.row_ids,
                probabilities=self.probabilities,
                n_threads=self.n_threads,
            ),
        )

    def label_scores(self, scoring: Scoring, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the ranked score of one label a row, shape (b,): the same bits as among those of all."""
        return _core.label_scores(
            self.rows,
            labels,
            [scoring.core],
            ranked=True,
            seed=self.seed,
            row_ids=self.row_ids,
            probabilities=self.probabilities,
            n_threads=self.n_threads,
        ).reshape(-1)

    def entropy(self) -> NDArray[np.float64]:
        """Return the entropy of each row."""
        return _core.uncertainty(
            self.rows, "entropy", probabilities=self.probabilities, n_threads=self.n_threads
        )

    def logits(self) -> NDArray[np.float64]:
        """Return the logits in float64; those of probabilities are their logarithms."""
        return as_log_values(self.rows, probabilities=self.probabilities)

    def in_order(self, members: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the labels of each row's set by falling probability, ties by lower label, joined."""
        rows, labels = np.nonzero(members)
        values = as_floats(self.rows)[rows, labels]
        return labels[np.lexsort((labels, -values, rows))].astype(np.int32)

    def top_labels(self) -> NDArray[np.int64]:
        """Return each row's most probable label, ties by lower label."""
        return np.asarray(as_floats(self.rows).argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Checked rows of logits with what belongs to them; `read` makes them.

    `given` is an array with one entry a row, or None, already checked.
    """

    logits: NDArray[Any]
    row_ids: NDArray[np.uint64] | None
    given: NDArray[Any] | None
    seed: int
    probabilities: bool
    n_threads: int | None

    @staticmethod
    def read(
        array: NDArray[Any],
        *,
        row_ids: ArrayLike | None,
        given: NDArray[Any] | None,
        seed: int,
        probabilities: bool,
        n_threads: int | None,
        stacklevel: int,
    ) -> BlockRows:
        """Return rows that every later step may rely on, of logits that `as_logits` let pass.

        All rows are looked at here, so that an error names the row by its place among all and not in a block.
        """
        found = BlockRows(
            logits=array,
            row_ids=as_row_ids(row_ids, len(array)),
            given=given,
            seed=as_seed(seed),
            probabilities=as_flag(probabilities, "probabilities"),
            n_threads=as_thread_count(n_threads),
        )
        if len(array) > 1 and not found.probabilities:
            warn_if_probabilities(array, stacklevel=stacklevel + 1)
        found.entropies()
        return found

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def n_labels(self) -> int:
        """K."""
        return int(self.logits.shape[1])

    def entropies(self) -> NDArray[np.float64]:
        """Return the entropy of each row; what the core refuses is refused here."""
        return _core.uncertainty(
            self.logits, "entropy", probabilities=self.probabilities, n_threads=self.n_threads
        )

    def checked_labels(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels, refusing those that are not columns, by the core's own check."""
        _core.ranks(self.logits, labels, probabilities=self.probabilities, n_threads=self.n_threads)
        return labels

    def split(self, n_first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of a random part of that many rows, and of the others, each in order.

        By the permutation that `tightset.calibrate` splits by: the seed and the number of rows determine it.
        """
        order = _core.permutation(self.seed, len(self))
        return np.sort(order[:n_first]), np.sort(order[n_first:])

    def label_scores(
        self, rules: Sequence[Rule], labels: NDArray[np.int64], positions: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return each rule's scores of the labels, shape (rules, rows), from the scores of all labels.

        That costs K scores a row instead of one; in return calibration and prediction have one definition.
        """
        truth = labels if positions is None else labels[positions]
        found = np.empty((len(rules), len(truth)))
        for place, block in self.blocks(positions):
            rows, columns = np.arange(len(block)), truth[place]
            for m, rule in enumerate(rules):
                found[m, place] = rule.scores(block)[rows, columns]
        return found

    def blocks(self, positions: NDArray[np.int64] | None = None) -> Iterator[tuple[slice, Block]]:
        """Yield the rows, or those at some positions, with the place of each block among them."""
        n = len(self) if positions is None else len(positions)
        step = max(1, _BLOCK_CELLS // self.n_labels)
        for start in range(0, n, step):
            place = slice(start, min(start + step, n))
            chosen = place if positions is None else positions[place]
            yield (
                place,
                Block(
                    rows=self.logits[chosen],
                    row_ids=None if self.row_ids is None else self.row_ids[chosen],
                    given=None if self.given is None else self.given[chosen],
                    seed=self.seed,
                    probabilities=self.probabilities,
                    n_threads=self.n_threads,
                ),
            )
