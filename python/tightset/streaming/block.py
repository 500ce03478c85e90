"""What one block of rows adds to a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.scores import Scoring
from tightset.streaming.kept_scores import KeptScores
from tightset.streaming.ledger import WantedBetween, WantedCounts
from tightset.streaming.plan import Plan
from tightset.streaming.split import Part
from tightset.streaming.tally import Tally, add_scores

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

    def entropies(self) -> NDArray[np.float64]:
        """Entropy of each row."""
        return _core.uncertainty(
            self.logits, "entropy", probabilities=self.probabilities, n_threads=self.n_threads
        )

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


def tally_of(block: Block, plan: Plan, kept: KeptScores | None) -> Tally:
    """Return what the block adds to a pass, in a fresh tally."""
    empty = plan.no_rows()
    if not len(block):
        return empty
    rows = block.rows_by_part()
    wanted, search, candidates = plan.wanted, plan.search, plan.candidates
    if search is not None:
        used = sorted({slot.candidate for slot in search.slots})
        chosen = [candidates[m] for m in used]
        size = max(1, _BYTES_OF_SCORES // (8 * len(used)))
        tally = empty
        for part in block.slices(size):
            table = part.label_scores(chosen, search.part)
            tally = add_scores(tally, search, used, table, block.n_threads)
            if kept is not None:
                kept.add(table, part.entropies)
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
