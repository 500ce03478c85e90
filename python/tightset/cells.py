"""What prediction uses: candidates with thresholds, and the cells of a conditional calibration."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import ArrayLike, as_groups
from tightset.scores import Scoring

Kind: TypeAlias = Literal["label", "groups", "cluster", "rc3p"]
OF_LABELS: tuple[Kind, ...] = ("label", "cluster", "rc3p")
"""Conditions that have a name; the other is an array with the group of each row."""
KINDS: tuple[Kind, ...] = (*OF_LABELS, "groups")
Scarce: TypeAlias = Literal["all", "pooled"]
SCARCE: tuple[Scarce, ...] = ("all", "pooled")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scoring and its conformal threshold on the ranked scale.

    Attributes
    ----------
    scoring, threshold
        A label is in this candidate's set when its ranked score is at most the threshold.
    lo, pairs_at_lo, between, weight
        With several candidates in use, what a label needs to choose one of them: the calibration score
        before the threshold, the number of pairs of a calibration row and a label with scores up to it,
        the sorted scores of the pairs above it and up to the threshold, and what counts are multiplied
        by before they are compared.
    """

    scoring: Scoring
    threshold: float
    lo: float | None = None
    pairs_at_lo: int | None = None
    between: tuple[float, ...] = ()
    weight: int = 1


def survivors(candidates: tuple[Candidate, ...]) -> _core.Survivors:
    """Return candidates as the core takes them."""
    return _core.Survivors(
        [
            (
                c.scoring.core,
                c.threshold if c.lo is None else c.lo,
                c.threshold,
                c.pairs_at_lo or 0,
                np.array(c.between, dtype=np.float64),
                c.weight,
            )
            for c in candidates
        ]
    )


def several(candidates: tuple[Candidate, ...]) -> _core.Survivors | None:
    """Return the same if they are several: made once, as that takes longer than predicting a row."""
    return survivors(candidates) if len(candidates) > 1 else None


@dataclass(frozen=True, slots=True)
class Cell:
    """Calibration rows that are calibrated together, and what came of it.

    Attributes
    ----------
    n_calibration, rank
        Rows that set the threshold, and which of their scores it is; above `n_calibration` it is infinite.
    candidates
        One, or those among which each label chooses.
    calibration_scores
        The scores that the thresholds were taken from, one sorted row for each candidate; None if it was
        saved without them.
    """

    n_calibration: int
    rank: int
    candidates: tuple[Candidate, ...]
    calibration_scores: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    core: _core.Survivors | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "core", several(self.candidates))

    def __reduce__(self) -> tuple[Any, ...]:
        return Cell, (self.n_calibration, self.rank, self.candidates, self.calibration_scores)


@dataclass(frozen=True, slots=True)
class Condition:
    """What coverage is conditional on, and the cells that this makes of rows or labels.

    Attributes
    ----------
    kind
        ``"label"``: each label has its own threshold, from the rows that have it. ``"cluster"``: labels
        are calibrated together with those that score alike. ``"rc3p"``: as ``"label"``, and labels of too
        low a rank are left out. ``"groups"``: each group of rows has its own threshold.
    scarce
        What labels or groups with too few rows get: ``"all"``, an infinite threshold, or ``"pooled"``, the
        one of all rows.
    cells
        What was calibrated.
    cell_of
        Index of the cell of each label, or of each group in `groups`.
    groups
        The groups, for ``"groups"``.
    pooled
        Index of the cell of all rows, if it is in use; groups that were not seen get it too.
    most_ranks
        For ``"rc3p"``, the largest rank of each label in a set.
    """

    kind: Kind
    scarce: Scarce
    cells: tuple[Cell, ...]
    cell_of: tuple[int, ...]
    groups: tuple[int | str, ...] = ()
    pooled: int | None = None
    most_ranks: tuple[int, ...] | None = None
    core: _core.Cells | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Read once: converting the cells of many labels takes longer than predicting a row.
        core = None if self.kind == "groups" else self._core()
        object.__setattr__(self, "core", core)

    def __reduce__(self) -> tuple[Any, ...]:
        return Condition, tuple(getattr(self, part.name) for part in fields(self) if part.init)

    def _core(self) -> _core.Cells:
        cells = [
            (
                cell.core or survivors(cell.candidates),
                i == self.pooled,
                [] if cell.calibration_scores is None else list(cell.calibration_scores),
            )
            for i, cell in enumerate(self.cells)
        ]
        most = None if self.most_ranks is None else np.array(self.most_ranks, dtype=np.uint32)
        return _core.Cells(cells, np.array(self.cell_of, dtype=np.uint32), most)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.cells)

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The threshold of each label, or of each group in `groups`.

        A ValueError where labels choose among several candidates.
        """
        several = next((cell for cell in self.cells if len(cell.candidates) > 1), None)
        if several is not None:
            message = f"{len(several.candidates)} candidates are in use in a cell: see .cells"
            raise ValueError(message)
        of_cells = np.array([cell.candidates[0].threshold for cell in self.cells])
        found: NDArray[np.float64] = of_cells[list(self.cell_of)]
        return found

    def cells_of(self, groups: ArrayLike, n_rows: int) -> NDArray[np.int64]:
        """Return the index of each row's cell; an unknown group is refused, unless there is a pooled one."""
        names, index = as_groups(groups, n_rows, "groups", may_be_one=True)
        known = dict(zip(self.groups, self.cell_of, strict=True))
        unknown = [i for i, name in enumerate(names) if name not in known]
        if unknown and self.pooled is None:
            row = int(np.flatnonzero(index == unknown[0])[0])
            message = (
                f"groups must be among the {len(known)} of the calibration: found {names[unknown[0]]!r} at "
                f"row {row}; scarce='pooled' in calibrate gives such rows the threshold of all rows"
            )
            raise ValueError(message)
        cells: NDArray[np.int64] = np.array([known.get(name, self.pooled) for name in names], dtype=np.int64)
        return cells[index]


def one_scoring(cells: tuple[Cell, ...]) -> Scoring | None:
    """Return the scoring of all cells, None if they differ."""
    found: set[Any] = {candidate.scoring for cell in cells for candidate in cell.candidates}
    return found.pop() if len(found) == 1 else None
