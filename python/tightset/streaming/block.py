"""What one block of rows adds to a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.scores import Scoring
from tightset.streaming.ledger import Wanted, WantedBetween, WantedCounts
from tightset.streaming.ranks import RankSearch
from tightset.streaming.split import Part
from tightset.streaming.tally import Tally

# Scores that are computed before they are counted.
_BYTES_OF_SCORES = 2**25


@dataclass(frozen=True, slots=True)
class Block:
    """Rows, which of them are in the first part (None where rows are not split), and how they are read."""

    logits: NDArray[Any]
    labels: NDArray[np.int64]
    row_ids: NDArray[np.uint64] | None
    is_first: NDArray[np.bool_] | None
    seed: int
    probabilities: bool
    n_threads: int | None

    def __len__(self) -> int:
        return len(self.labels)

    def rows_by_part(self) -> NDArray[np.int64]:
        """Return the number of rows in the first and the second part."""
        first = 0 if self.is_first is None else int(self.is_first.sum())
        return np.array([first, len(self) - first])

    def slices(self, size: int) -> Iterator[Block]:
        """Yield consecutive runs of at most `size` rows."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield replace(
                self,
                logits=self.logits[part],
                labels=self.labels[part],
                row_ids=None if self.row_ids is None else self.row_ids[part],
                is_first=None if self.is_first is None else self.is_first[part],
            )

    def label_scores(self, candidates: Sequence[Scoring], part: Part) -> NDArray[np.float64]:
        """Ranked scores of the labels of one part of the rows, one run for each candidate."""
        rows, settings = self._reading(part)
        labels = self.labels if rows is None else self.labels[rows]
        cores = [c.core for c in candidates]
        return _core.label_scores(self.logits, labels, cores, ranked=True, **settings)

    def count_pairs(
        self,
        candidates: Sequence[Scoring],
        part: Part,
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        *,
        keep: bool,
    ) -> tuple[NDArray[np.uint64], list[NDArray[np.float64]]]:
        """Count, and keep if asked for, the pairs between two thresholds."""
        _, settings = self._reading(part)
        return _core.count_pairs(self.logits, [c.core for c in candidates], lo, hi, keep=keep, **settings)

    def _reading(self, part: Part) -> tuple[NDArray[np.int64] | None, dict[str, Any]]:
        rows = None
        if part != "all":
            assert self.is_first is not None, "rows are split where parts are asked for"
            rows = np.flatnonzero(self.is_first == (part == "first"))
        ids = self.row_ids if rows is None or self.row_ids is None else self.row_ids[rows]
        settings = {
            "seed": self.seed,
            "row_ids": ids,
            "rows": rows,
            "probabilities": self.probabilities,
            "n_threads": self.n_threads,
        }
        return rows, settings


@dataclass(slots=True)
class KeptScores:
    """Label scores of the first pass, kept while they fit: later passes over them need not read the rows.

    Attributes
    ----------
    room
        Bytes for them.
    tables
        Scores of all candidates, one table for each run of rows; None once they did not fit.
    rows
        Rows in the first and the second part.
    """

    room: int
    tables: list[NDArray[np.float64]] | None = field(default_factory=list)
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    size: int = 0

    def add(self, table: NDArray[np.float64]) -> None:
        """Keep a table, or nothing from here on."""
        self.size += table.nbytes
        if self.size > self.room:
            self.tables = None
        elif self.tables is not None:
            self.tables.append(table)


def tally_of(
    block: Block,
    candidates: Sequence[Scoring],
    wanted: Wanted | None,
    search: RankSearch | None,
    kept: KeptScores | None,
    empty: Tally,
) -> Tally:
    """Return what the block adds to a pass, in a fresh tally of no rows."""
    if not len(block):
        return empty
    rows = block.rows_by_part()
    if search is not None:
        used = sorted({slot.candidate for slot in search.slots})
        chosen = [candidates[m] for m in used]
        size = max(1, _BYTES_OF_SCORES // (8 * len(used)))
        tally = empty
        for part in block.slices(size):
            table = part.label_scores(chosen, search.part)
            tally = add_scores(tally, search, used, table, block.n_threads)
            if kept is not None:
                kept.add(table)
        if kept is not None:
            kept.rows = kept.rows + rows
        return replace(tally, rows=rows)
    if isinstance(wanted, WantedCounts):
        lo, hi = (np.ascontiguousarray(edge).reshape(-1) for edge in (wanted.lo, wanted.hi))
        counts, _ = block.count_pairs(candidates, wanted.part, lo, hi, keep=False)
        return replace(empty, rows=rows, counts=counts.astype(np.int64))
    assert isinstance(wanted, WantedBetween), "a pass looks for something"
    scorings = [candidates[m] for m, _, _ in wanted.brackets]
    lo, hi = (np.array([bracket[i] for bracket in wanted.brackets]) for i in (1, 2))
    _, between = block.count_pairs(scorings, "all", lo, hi, keep=True)
    return replace(empty, rows=rows, between=tuple(between))


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
