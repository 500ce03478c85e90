"""Calibration rows, and what selections read off them: scores, thresholds, set sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.progress import Progress
from tightset.recipes import Selection
from tightset.scores import Scoring

# Elements (rows times labels times candidates) of one call while a progress bar is shown: about a second.
_ELEMENTS_A_CALL = 2 * 10**9


class SetCounts(NamedTuple):
    """Counts over rows, one entry for each candidate and level."""

    pairs_at_lo: NDArray[np.int64]
    pairs: NDArray[np.int64]
    singletons: NDArray[np.int64]
    empty: NDArray[np.int64]


class Rows(Protocol):
    """What selections ask of calibration rows; a part of them is whatever `parts` returned, None for all."""

    @property
    def n_labels(self) -> int:
        """K."""

    def __len__(self) -> int: ...

    def parts(self, selection: Selection) -> tuple[Any, Any, Any]:
        """Return the rows for thresholds, sizes and calibration."""

    def order_statistics(
        self, candidates: Sequence[Scoring], rows: Any, ranks: Sequence[int]
    ) -> NDArray[np.float64]:
        """Order statistics of each candidate's scores, shape (candidates, ranks)."""

    def set_counts(
        self, candidates: Sequence[Scoring], rows: Any, lo: NDArray[np.float64], hi: NDArray[np.float64]
    ) -> SetCounts:
        """Count the sets between two thresholds each, both of shape (candidates, levels)."""

    def scores_between(
        self, candidates: Sequence[Scoring], lo: NDArray[np.float64], hi: NDArray[np.float64]
    ) -> list[NDArray[np.float64]]:
        """For each candidate, the sorted scores above lo and up to hi of all pairs of row and label."""

    def score_groups(
        self, candidates: Sequence[Scoring], rows: Any
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield label scores of some candidates at a time."""

    def entropies(self) -> NDArray[np.float64]:
        """Entropy of each row."""


class Parting:
    """Labels in cells, and the calibration rows that their labels put there.

    Attributes
    ----------
    cell_of
        The cell of each label; `n_cells` for labels that are in none.
    row_counts, label_counts
        Rows and labels of each cell.
    most_ranks
        The largest rank with a finite score, for each label; None for no limit.
    """

    def __init__(
        self,
        cell_of: NDArray[np.uint32],
        n_cells: int,
        rows: CalibrationRows,
        most_ranks: NDArray[np.uint32] | None = None,
    ) -> None:
        self.cell_of, self.n_cells, self.most_ranks = cell_of, n_cells, most_ranks
        of_rows = cell_of[rows.labels]
        self._order = np.argsort(of_rows, kind="stable")
        self.row_counts = np.bincount(of_rows, minlength=n_cells)[:n_cells]
        self.label_counts = np.bincount(cell_of, minlength=n_cells)[:n_cells]
        self._ends = np.cumsum(self.row_counts)
        self._beyond = None if most_ranks is None else rows.label_ranks() > most_ranks[rows.labels]

    def split(self, scores: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield each cell and the label scores of its rows, one run for each candidate."""
        if self._beyond is not None:
            scores = np.where(self._beyond, np.inf, scores)
        ordered = scores[:, self._order]
        for cell, end in enumerate(self._ends):
            start = end - self.row_counts[cell]
            yield cell, np.ascontiguousarray(ordered[:, start:end])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CalibrationRows:
    """Calibration rows, and how they are read.

    `positions` says where in `logits` they are, for those that are only some of its rows.
    """

    logits: NDArray[np.generic]
    labels: NDArray[np.int64]
    row_ids: NDArray[np.uint64] | None
    seed: int
    probabilities: bool
    n_threads: int | None
    max_memory: int
    positions: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_labels(self) -> int:
        """K."""
        return int(self.logits.shape[1])

    def parts(
        self, selection: Selection
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        """Return the rows for thresholds, sizes and calibration.

        A row's part depends on the seed, the number of rows and its position alone.
        """
        n = len(self)
        order = _core.permutation(self.seed, n)
        if selection == "held-out":
            quarter = n // 4
            # Reading in order of position keeps memory access sequential; the parts are sets.
            held_out, rest = np.sort(order[:quarter]), np.sort(order[quarter:])
            return held_out, held_out, rest
        half = (n + 1) // 2
        first, second = np.sort(order[:half]), np.sort(order[half:])
        return first, second, first if selection == "released" else None

    def some(self, rows: NDArray[np.int64]) -> CalibrationRows:
        """Return some of the rows, as rows of their own."""
        return replace(
            self, labels=self.labels[rows], row_ids=self._row_ids(rows), positions=self._positions(rows)
        )

    def label_scores(
        self, candidates: Sequence[Scoring], rows: NDArray[np.int64] | None, *, ranked: bool = True
    ) -> NDArray[np.float64]:
        """Scores of the labels, one run of rows for each candidate."""
        return _core.label_scores(
            self.logits,
            self.labels if rows is None else self.labels[rows],
            [c.core for c in candidates],
            ranked=ranked,
            seed=self.seed,
            row_ids=self._row_ids(rows),
            rows=self._positions(rows),
            probabilities=self.probabilities,
            n_threads=self.n_threads,
        )

    def score_groups(
        self, candidates: Sequence[Scoring], rows: NDArray[np.int64] | None
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the label scores of as many candidates at a time as `max_memory` holds."""
        n = len(self) if rows is None else len(rows)
        for part in self._groups(len(candidates), n, self.max_memory // max(1, 8 * n), "scores"):
            yield part, self.label_scores(candidates[part], rows)

    def order_statistics(
        self, candidates: Sequence[Scoring], rows: NDArray[np.int64] | None, ranks: Sequence[int]
    ) -> NDArray[np.float64]:
        """Order statistics of each candidate's scores, shape (candidates, ranks)."""
        found = np.empty((len(candidates), len(ranks)))
        for part, scores in self.score_groups(candidates, rows):
            found[part] = _core.order_statistics(scores, ranks, n_threads=self.n_threads)
            del scores  # or it would stay while the next is made, and memory be twice what was allowed
        return found

    def set_counts(
        self,
        candidates: Sequence[Scoring],
        rows: NDArray[np.int64] | None,
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
    ) -> SetCounts:
        """Count the sets between two thresholds each, both of shape (candidates, levels)."""
        n = len(self) if rows is None else len(rows)
        counts = np.empty((*hi.shape, 4), dtype=np.int64)
        for part in self._groups(len(candidates), n, len(candidates), "set sizes"):
            found, _ = self._count(candidates[part], rows, lo[part], hi[part], keep=False)
            counts[part] = found.reshape(-1, hi.shape[1], 4)
        return SetCounts(*np.moveaxis(counts, 2, 0))

    def scores_between(
        self, candidates: Sequence[Scoring], lo: NDArray[np.float64], hi: NDArray[np.float64]
    ) -> list[NDArray[np.float64]]:
        """For each candidate, the sorted scores above lo and up to hi of all pairs of row and label."""
        return self._count(candidates, None, lo, hi, keep=True)[1]

    def cell_counts(
        self,
        candidates: Sequence[Scoring],
        parting: Parting,
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        *,
        keep: bool,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], list[NDArray[np.float64]]]:
        """Pairs of any row and a label of each cell up to lo and hi, both of shape (candidates, cells).

        With `keep`, also the sorted scores between, for each candidate and cell.
        """
        counts, between = _core.count_cell_pairs(
            self.logits,
            [c.core for c in candidates],
            parting.cell_of,
            parting.n_cells,
            np.ascontiguousarray(lo).reshape(-1),
            np.ascontiguousarray(hi).reshape(-1),
            keep=keep,
            most_ranks=parting.most_ranks,
            seed=self.seed,
            row_ids=self.row_ids,
            rows=self.positions,
            probabilities=self.probabilities,
            n_threads=self.n_threads,
        )
        at_lo, at_hi = counts.astype(np.int64).T.reshape(2, *lo.shape)
        return at_lo, at_hi, between

    def label_ranks(self) -> NDArray[np.int64]:
        """Rank of each row's label, where these are some of the rows, as with limits of rank they are."""
        ends = np.cumsum([len(part) for part in self._blocks()])
        parts = zip(self._blocks(), np.split(self.labels, ends[:-1]), strict=True)
        return np.concatenate([self._ranks(self.logits[part], labels) for part, labels in parts])

    def _ranks(self, logits: NDArray[np.generic], labels: NDArray[np.int64]) -> NDArray[np.int64]:
        return _core.ranks(logits, labels, probabilities=self.probabilities, n_threads=self.n_threads)

    def entropies(self) -> NDArray[np.float64]:
        """Entropy of each row."""
        if self.positions is not None:
            return np.concatenate([self._entropies(self.logits[part]) for part in self._blocks()])
        return self._entropies(self.logits)

    def _entropies(self, logits: NDArray[np.generic]) -> NDArray[np.float64]:
        return _core.uncertainty(
            logits, "entropy", probabilities=self.probabilities, n_threads=self.n_threads
        )

    def _blocks(self) -> Iterator[NDArray[np.int64]]:
        """Yield positions of rows that take about 64 MB when they are gathered."""
        assert self.positions is not None, "only some rows are gathered"
        size = max(1, 2**26 // (self.n_labels * self.logits.itemsize))
        for start in range(0, len(self), size):
            yield self.positions[start : start + size]

    def _count(
        self,
        candidates: Sequence[Scoring],
        rows: NDArray[np.int64] | None,
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        *,
        keep: bool,
    ) -> tuple[NDArray[np.uint64], list[NDArray[np.float64]]]:
        return _core.count_pairs(
            self.logits,
            [c.core for c in candidates],
            np.ascontiguousarray(lo).reshape(-1),
            np.ascontiguousarray(hi).reshape(-1),
            keep=keep,
            seed=self.seed,
            row_ids=self._row_ids(rows),
            rows=self._positions(rows),
            probabilities=self.probabilities,
            n_threads=self.n_threads,
        )

    def _groups(self, m: int, n: int, most: int, what: str) -> Iterator[slice]:
        """Yield consecutive slices of m candidates, in fewer at a time where someone watches."""
        size = max(1, min(m, most))
        with Progress(m, f"tightset: {what} of {m} candidates") as progress:
            if progress.is_shown:
                size = max(1, min(size, _ELEMENTS_A_CALL // max(1, n * self.n_labels)))
            for start in range(0, m, size):
                yield slice(start, start + size)
                progress.advance(min(size, m - start))

    def _positions(self, rows: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        if self.positions is None or rows is None:
            return rows if self.positions is None else self.positions
        return self.positions[rows]

    def _row_ids(self, rows: NDArray[np.int64] | None) -> NDArray[np.uint64] | None:
        return self.row_ids if rows is None or self.row_ids is None else self.row_ids[rows]
