"""What one reading of some rows adds up to. Tallies of different rows are added, in any order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.streaming.ledger import Wanted, WantedBetween, WantedCounts
from tightset.streaming.ranks import RankSearch

_Number = TypeVar("_Number", np.uint64, np.float64)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts and kept numbers of a pass; a state replaces its tally as a whole and never changes it.

    Attributes
    ----------
    rows
        Rows seen in the first and the second part, shape (2,).
    digits
        Counts of bits, one row for each slot that is counted.
    keys
        The keys of each slot that is kept.
    counts
        Pair counts, one row of four for each candidate and level.
    between
        Scores between two thresholds, for each of the brackets asked for.
    blocks
        Numbers of the blocks that went in, where they were given.
    """

    rows: NDArray[np.int64]
    digits: NDArray[np.uint64]
    keys: tuple[NDArray[np.uint64], ...]
    counts: NDArray[np.int64]
    between: tuple[NDArray[np.float64], ...]
    blocks: frozenset[int] = frozenset()

    @classmethod
    def empty(cls, wanted: Wanted | None, search: RankSearch | None) -> Tally:
        """Return the tally of no rows, shaped for what a pass looks for."""
        slots, kept, bins = 0, 0, 1
        if search is not None:
            slots, kept, bins = len(search.counted), len(search.kept), 2**search.bits
        pairs = wanted.hi.size if isinstance(wanted, WantedCounts) else 0
        brackets = len(wanted.brackets) if isinstance(wanted, WantedBetween) else 0
        return cls(
            rows=np.zeros(2, dtype=np.int64),
            digits=np.zeros((slots, bins), dtype=np.uint64),
            keys=(np.empty(0, dtype=np.uint64),) * kept,
            counts=np.zeros((pairs, 4), dtype=np.int64),
            between=(np.empty(0),) * brackets,
        )

    def plus(self, other: Tally, blocks: frozenset[int]) -> Tally:
        """Return the tally of the rows of both; `blocks` are the numbers of the other's blocks."""
        return Tally(
            rows=self.rows + other.rows,
            digits=self.digits + other.digits,
            keys=_joined(self.keys, other.keys),
            counts=self.counts + other.counts,
            between=_joined(self.between, other.between),
            blocks=self.blocks | blocks,
        )


def add_scores(
    tally: Tally, search: RankSearch, used: list[int], table: NDArray[np.float64], n_threads: int | None
) -> Tally:
    """Add the scores of `used` candidates to a tally that nobody else holds: its counts are changed."""

    def slots(indices: list[int]) -> tuple[list[int], NDArray[np.uint64], NDArray[np.uint32]]:
        chosen = [search.slots[i] for i in indices]
        return (
            [used.index(slot.candidate) for slot in chosen],
            np.array([slot.base for slot in chosen], dtype=np.uint64),
            np.array([slot.width for slot in chosen], dtype=np.uint32),
        )

    counted, kept = search.counted, search.kept
    if counted:
        _core.count_digits(table, *slots(counted), tally.digits, n_threads=n_threads)
    keys = tally.keys
    if kept:
        more = _core.keys_within(table, *slots(kept), n_threads=n_threads)
        keys = tuple(np.concatenate(pair) for pair in zip(keys, more, strict=True))
    return replace(tally, keys=keys)


def _joined(
    ours: tuple[NDArray[_Number], ...], theirs: tuple[NDArray[_Number], ...]
) -> tuple[NDArray[_Number], ...]:
    # Most additions are of a block that has nothing for most slots; those arrays are not copied.
    return tuple(
        a if not len(b) else b if not len(a) else np.concatenate((a, b))
        for a, b in zip(ours, theirs, strict=True)
    )
