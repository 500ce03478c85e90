"""Rows that are scored a block at a time, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_flag,
    as_floats,
    as_logits,
    as_row_ids,
    as_seed,
    as_thread_count,
    warn_if_probabilities,
)
from tightset.scores import Scoring

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
    _scores: dict[tuple[Scoring, bool], NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self, scoring: Scoring, *, ranked: bool) -> NDArray[np.float64]:
        """Return the scores of all labels, shape (b, K), as `all_scores` does; computed once."""
        key = scoring, ranked
        if key not in self._scores:
            self._scores[key] = _core.all_scores(
                self.rows,
                scoring.core,
                ranked=ranked,
                seed=self.seed,
                row_ids=self.row_ids,
                probabilities=self.probabilities,
                n_threads=self.n_threads,
            )
        return self._scores[key]

    def entropy(self) -> NDArray[np.float64]:
        """Return the entropy of each row."""
        return _core.uncertainty(
            self.rows, "entropy", probabilities=self.probabilities, n_threads=self.n_threads
        )

    def logits(self) -> NDArray[np.float64]:
        """Return the logits in float64; those of probabilities are their logarithms."""
        values = as_floats(self.rows).astype(np.float64)
        if not self.probabilities:
            return values
        with np.errstate(divide="ignore"):
            return np.log(values)

    def in_order(self, members: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the labels of each row's set by falling probability, ties by lower label, joined."""
        rows, labels = np.nonzero(members)
        values = as_floats(self.rows)[rows, labels]
        return labels[np.lexsort((labels, -values, rows))].astype(np.int32)

    def top_labels(self) -> NDArray[np.int64]:
        """Return each row's most probable label, ties by lower label."""
        return as_floats(self.rows).argmax(axis=1)


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
        logits: ArrayLike,
        *,
        n_labels: int | None = None,
        row_ids: ArrayLike | None,
        seed: int,
        probabilities: bool,
        n_threads: int | None,
        stacklevel: int,
        given: NDArray[Any] | None = None,
    ) -> BlockRows:
        """Return rows that every later step may rely on.

        One row (1-D) is accepted where `n_labels` is known, in prediction. All rows are looked at here, so
        that an error names the row by its place among all and not in a block.
        """
        array = as_logits(logits, n_labels=n_labels, one_row=n_labels is not None)
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
        return self.logits.shape[1]

    def entropies(self) -> NDArray[np.float64]:
        """Return the entropy of each row; what the core refuses is refused here."""
        return _core.uncertainty(
            self.logits, "entropy", probabilities=self.probabilities, n_threads=self.n_threads
        )

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
