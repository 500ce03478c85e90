"""What the passes have found, offered to the selections as if the rows were at hand.

Selections are written for rows that can be asked at any time. Here they run from their beginning after each
pass, on the answers so far; the first answer that is missing says what the next pass reads. So there is one
definition of each selection, for arrays and for streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tightset.calibration_rows import SetCounts
from tightset.recipes import Selection
from tightset.scores import Scoring
from tightset.streaming.split import Part, parts_of

NOT_KEPT = "objective 'adaptive' needs the entropies of all rows at hand: use calibrate with arrays"

Bracket = tuple[int, float, float]
"""A candidate and two thresholds."""


@dataclass(frozen=True, slots=True)
class PartOfRows:
    """A part of the rows, and how many there are."""

    name: Part
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows


@dataclass(frozen=True, slots=True)
class WantedRanks:
    """Ranks, each with its candidate, on a part of the rows."""

    part: Part
    ranks: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class WantedCounts:
    """Pair counts of all candidates between thresholds of shape (candidates, levels)."""

    part: Part
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WantedBetween:
    """The scores of pairs in brackets."""

    brackets: list[Bracket]


Wanted = WantedRanks | WantedCounts | WantedBetween


class MissingError(Exception):
    """The selection cannot go on without an answer."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__("an answer is missing")
        self.wanted = wanted


@dataclass(slots=True)
class Ledger:
    """Answers so far: rows in either part, scores by part, candidate and rank, counts, scores between."""

    rows: tuple[int, int] = (0, 0)
    statistics: dict[tuple[Part, int, int], float] = field(default_factory=dict)
    counts: NDArray[np.int64] | None = None
    between: list[NDArray[np.float64]] | None = None


class LedgerRows:
    """The rows as a selection sees them, with the answers of a ledger."""

    def __init__(self, ledger: Ledger, candidates: Sequence[Scoring], n_labels: int) -> None:
        self._ledger, self._n_labels = ledger, n_labels
        self._numbers = {candidate: m for m, candidate in reversed(list(enumerate(candidates)))}
        self._brackets: list[Bracket] = []

    @property
    def n_labels(self) -> int:
        """K."""
        return self._n_labels

    def __len__(self) -> int:
        return sum(self._ledger.rows)

    def part(self, name: Part) -> PartOfRows:
        """Return a part by its name."""
        first, second = self._ledger.rows
        return PartOfRows(name, {"all": first + second, "first": first, "second": second}[name])

    def parts(self, selection: Selection) -> tuple[PartOfRows, PartOfRows, PartOfRows]:
        """Return the parts for thresholds, sizes and calibration."""
        fitting, sizing, calibrating = parts_of(selection)
        return self.part(fitting), self.part(sizing), self.part(calibrating)

    def order_statistics(
        self, candidates: Sequence[Scoring], rows: PartOfRows | None, ranks: Sequence[int]
    ) -> NDArray[np.float64]:
        """Return what passes found, or ask for it."""
        part = self.part("all") if rows is None else rows
        found = np.empty((len(candidates), len(ranks)))
        missing = []
        for i, candidate in enumerate(candidates):
            m = self._numbers[candidate]
            for j, rank in enumerate(ranks):
                if rank == 0 or rank > len(part):
                    found[i, j] = np.inf if rank else -np.inf
                elif (part.name, m, rank) in self._ledger.statistics:
                    found[i, j] = self._ledger.statistics[part.name, m, rank]
                else:
                    missing.append((m, rank))
        if missing:
            raise MissingError(WantedRanks(part.name, list(dict.fromkeys(missing))))
        return found

    def set_counts(
        self,
        candidates: Sequence[Scoring],
        rows: PartOfRows | None,
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
    ) -> SetCounts:
        """Return what a pass counted, or ask for it; a selection asks once, for all candidates."""
        if self._ledger.counts is None:
            raise MissingError(WantedCounts("all" if rows is None else rows.name, lo, hi))
        return SetCounts(*np.moveaxis(self._ledger.counts.reshape(*hi.shape, 4), 2, 0))

    def scores_between(
        self, candidates: Sequence[Scoring], lo: NDArray[np.float64], hi: NDArray[np.float64]
    ) -> list[NDArray[np.float64]]:
        """Return what a pass kept; before it, nothing, so that all levels ask for one pass together."""
        start = len(self._brackets)
        self._brackets += [
            (self._numbers[c], float(a), float(b)) for c, a, b in zip(candidates, lo, hi, strict=True)
        ]
        if self._ledger.between is None:
            return [np.empty(0) for _ in candidates]
        return self._ledger.between[start : len(self._brackets)]

    def ask_for_between(self) -> None:
        """Ask for the scores that were answered with nothing."""
        if self._brackets and self._ledger.between is None:
            raise MissingError(WantedBetween(self._brackets))

    def score_groups(
        self, candidates: Sequence[Scoring], rows: PartOfRows
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Refuse: scores of single rows are not kept."""
        raise ValueError(NOT_KEPT)

    def entropies(self) -> NDArray[np.float64]:
        """Refuse: entropies of single rows are not kept."""
        raise ValueError(NOT_KEPT)
