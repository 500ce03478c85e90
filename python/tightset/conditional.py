"""Coverage that holds within each label, cluster of labels or group of rows, not on average alone.

A threshold from the rows of one cell covers new rows of that cell with probability 1 - alpha (Vovk 2012).
Whatever shapes the cells or selects among candidates is read off other rows (a quarter, held out), or, for
``"modsel"`` within a label or a group, treats the new row as one of the cell's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightset.calibration_rows import CalibrationRows, Parting
from tightset.cells import Candidate, Cell, Condition, Kind, Scarce
from tightset.clusters import clusters_of
from tightset.modsel import SelectedInCell, select_in_cells
from tightset.objectives import Objective
from tightset.pac import rank_for
from tightset.recipes import Recipe
from tightset.scores import Scoring
from tightset.selection import Choice, choose
from tightset.selection_curve import SelectionCurve
from tightset.thresholds import calibrated, candidates_in_use, warn_of_infinite_labels, warn_of_scarce

Groups: TypeAlias = tuple[list[int] | list[str], NDArray[np.int64]]


class Conditional(NamedTuple):
    """The outcome for one level: rows that calibrate, shares of delta, and what the selection saw."""

    condition: Condition
    n_calibration: int
    shares: int
    curve: SelectionCurve | None = None


class Plan(NamedTuple):
    """What is asked of every cell alike."""

    recipe: Recipe
    rows: CalibrationRows
    alphas: Sequence[float]
    objective: Objective
    scarce: Scarce
    delta: float | None

    @property
    def is_pooled(self) -> bool:
        """Whether there is a cell of all rows."""
        return self.scarce == "pooled"


def by_groups(plan: Plan, groups: Groups, *, stacklevel: int) -> list[Conditional]:
    """Calibrate each group of rows by itself."""
    names, index = groups
    shares = len(names) + plan.is_pooled
    order = np.argsort(index, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(index, minlength=len(names)))[:-1])
    cells: list[list[Cell]] = []
    union = 1
    for name, part in zip(names, parts, strict=True):
        rows = plan.rows.some(np.sort(part))
        choices = choose(
            plan.recipe,
            rows,
            plan.alphas,
            plan.objective,
            delta=plan.delta,
            shares=shares,
            of=f" of group {name!r}",
            stacklevel=stacklevel + 1,
        )
        union = choices[0].union
        found = calibrated(rows, plan.alphas, choices, delta=plan.delta, shares=shares)
        cells.append([cell for cell, _ in found])
    pooled = _pooled(plan, plan.rows, shares) if plan.is_pooled else None
    outcome = []
    for i, alpha in enumerate(plan.alphas):
        own = [of_group[i] for of_group in cells]
        scarce = [g for g, cell in enumerate(own) if cell.rank > cell.n_calibration]
        warn_of_scarce(
            "groups",
            {names[g]: own[g].n_calibration for g in scarce},
            len(names),
            alpha,
            pooled=plan.is_pooled,
            stacklevel=stacklevel + 1,
        )
        kept, cell_of, place = _placed(own, range(len(own)), scarce, None if pooled is None else pooled[i])
        condition = Condition("groups", plan.scarce, kept, cell_of, groups=tuple(names), pooled=place)
        n = sum(cell.n_calibration for cell in own)
        outcome.append(Conditional(condition, n, shares * union if plan.delta is not None else 1))
    return outcome


def by_labels(plan: Plan, kind: Kind, *, stacklevel: int) -> list[Conditional]:
    """Calibrate each label, or each cluster of labels, by the rows that have it."""
    recipe, rows = plan.recipe, plan.rows
    is_exact = recipe.selection == "modsel" and len(recipe.candidates) > 1
    held_out: NDArray[np.int64] | None = None
    choices = [Choice(recipe.candidates, None) for _ in plan.alphas]
    if kind != "label" or not (is_exact or len(recipe.candidates) == 1):
        held_out, _, rest = rows.parts("held-out")
        if len(recipe.candidates) > 1:
            choices = choose(recipe, rows, plan.alphas, plan.objective, stacklevel=stacklevel + 1)
        calibrating = rows.some(np.asarray(rest))
    else:
        calibrating = rows
    outcome = []
    for alpha, choice in zip(plan.alphas, choices, strict=True):
        union = len(recipe.candidates) if is_exact and plan.delta is not None else 1
        level = _Level(plan, kind, alpha, union, calibrating)
        parting = level.parting(held_out, choice.scorings[0])
        shares, ranks = level.shares(parting.n_cells), level.ranks(parting.row_counts)
        own = level.cells(choice.scorings, parting, ranks)
        scarce = [label for label in range(rows.n_labels) if _is_short(parting.cell_of[label], own)]
        counts = np.bincount(calibrating.labels, minlength=rows.n_labels)
        warn_of_scarce(
            "labels",
            {label: int(counts[label]) for label in scarce},
            rows.n_labels,
            alpha,
            pooled=plan.is_pooled,
            stacklevel=stacklevel + 1,
        )
        warn_of_infinite_labels(
            [label for label in range(rows.n_labels) if _is_unbounded(parting.cell_of[label], own)],
            alpha,
            stacklevel=stacklevel + 1,
        )
        pooled = None
        if plan.is_pooled:
            # What was chosen on held-out rows stays; otherwise all rows choose again.
            at_level = plan._replace(alphas=[alpha])
            chosen = None if held_out is None else [Choice(choice.scorings, None)]
            (pooled,) = _pooled(at_level, calibrating, parting.n_cells + 1, chosen)
        elif (parting.cell_of == parting.n_cells).any():
            # Labels that no cluster took.
            own.append(_unbounded(choice.scorings[0], 0, 1))
        kept, cell_of, place = _placed(own, parting.cell_of.tolist(), scarce, pooled)
        most = level.most_ranks(parting, scarce)
        condition = Condition(kind, plan.scarce, kept, cell_of, pooled=place, most_ranks=most)
        outcome.append(Conditional(condition, len(calibrating), shares, choice.curve))
    return outcome


class _Level:
    """One level of a calibration by labels."""

    def __init__(self, plan: Plan, kind: Kind, alpha: float, union: int, rows: CalibrationRows) -> None:
        self.plan, self.kind, self.alpha, self.union, self.rows = plan, kind, alpha, union, rows

    def shares(self, n_cells: int) -> int:
        """Return the number of thresholds that delta is divided among."""
        return 1 if self.plan.delta is None else (n_cells + self.plan.is_pooled) * self.union

    def ranks(self, row_counts: NDArray[np.int64]) -> list[int]:
        """Return the rank of each cell's threshold."""
        shares = self.shares(len(row_counts))
        return [rank_for(int(n), self.alpha, self.plan.delta, shares) for n in row_counts]

    def parting(self, held_out: NDArray[np.int64] | None, scoring: Scoring) -> Parting:
        n_labels = self.rows.n_labels
        each = np.arange(n_labels, dtype=np.uint32)
        if held_out is None or self.kind == "label":
            return Parting(each, n_labels, self.rows)
        shaping = self.plan.rows.some(held_out)
        if self.kind == "rc3p":
            counts = np.bincount(self.rows.labels, minlength=n_labels)
            beyond = 1 - np.array(self.ranks(counts)) / np.maximum(counts, 1)
            return Parting(each, n_labels, self.rows, rank_limits(shaping, np.maximum(beyond, 0) / 2))
        (scores,) = shaping.label_scores([scoring], None, ranked=False)
        found = clusters_of(scores, shaping.labels, n_labels, self.alpha, self.rows.seed)
        n_cells = int(found.max()) + 1
        return Parting(np.where(found < 0, n_cells, found).astype(np.uint32), n_cells, self.rows)

    def cells(self, scorings: Sequence[Scoring], parting: Parting, ranks: Sequence[int]) -> list[Cell]:
        """Return the cell of each part, those with too few rows among them."""
        chosen: list[SelectedInCell | None]
        if len(scorings) == 1:
            chosen = [SelectedInCell((0,), ())] * parting.n_cells
        else:
            chosen = select_in_cells(
                scorings,
                np.array(self.plan.recipe.handicaps),
                self.rows,
                parting,
                self.alpha,
                ranks,
                exactly=self.plan.delta is None,
            )
        used = sorted({0}.union(*(found.survivors for found in chosen if found is not None)))
        place = {m: i for i, m in enumerate(used)}
        table = self.rows.label_scores([scorings[m] for m in used], None)
        cells = []
        for cell, scores in parting.split(table):
            found = chosen[cell] or SelectedInCell((0,), ())
            n, rank = scores.shape[1], ranks[cell]
            of_cell = np.sort(scores[[place[m] for m in found.survivors]], axis=1)
            of_cell.setflags(write=False)
            thresholds = of_cell[:, rank - 1].tolist() if rank <= n else [float("inf")]
            survivors = tuple(scorings[m] for m in found.survivors)
            choice = Choice(survivors, None, brackets=found.brackets)
            cells.append(Cell(n, rank, candidates_in_use(choice, thresholds), of_cell))
        return cells

    def most_ranks(self, parting: Parting, scarce: Sequence[int]) -> tuple[int, ...] | None:
        if parting.most_ranks is None:
            return None
        most = parting.most_ranks.tolist()
        for label in scarce:
            most[label] = self.rows.n_labels
        return tuple(most)


def rank_limits(rows: CalibrationRows, most_left_out: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return the rank beyond which each label is left out of sets.

    The smallest that leaves out at most the given share of the label's rows here. Labels that these rows lack
    have no limit.
    """
    ranks, n_labels = rows.label_ranks(), rows.n_labels
    limits = np.full(n_labels, n_labels, dtype=np.uint32)
    for label in np.unique(rows.labels):
        own = np.sort(ranks[rows.labels == label])
        limits[label] = own[len(own) - 1 - int(len(own) * most_left_out[label])]
    return limits


def _is_short(cell: int, cells: Sequence[Cell]) -> bool:
    return cell >= len(cells) or cells[cell].rank > cells[cell].n_calibration


def _is_unbounded(cell: int, cells: Sequence[Cell]) -> bool:
    """Whether a threshold is infinite though rows are many enough."""
    if _is_short(cell, cells):
        return False
    return all(candidate.threshold == float("inf") for candidate in cells[cell].candidates)


def _unbounded(scoring: Scoring, n: int, rank: int) -> Cell:
    scores = np.empty((1, 0))
    scores.setflags(write=False)
    return Cell(n, rank, (Candidate(scoring, float("inf")),), scores)


def _pooled(
    plan: Plan, rows: CalibrationRows, shares: int, choices: Sequence[Choice] | None = None
) -> list[Cell]:
    """Return the cell of all rows, for each level."""
    if choices is None:
        choices = choose(plan.recipe, rows, plan.alphas, plan.objective, delta=plan.delta, shares=shares)
    return [cell for cell, _ in calibrated(rows, plan.alphas, choices, delta=plan.delta, shares=shares)]


def _placed(
    own: Sequence[Cell], cell_of: Sequence[int], scarce: Sequence[int], pooled: Cell | None
) -> tuple[tuple[Cell, ...], tuple[int, ...], int | None]:
    """Return the cells in use, where each label or group finds its own, and where the pooled one is."""
    if pooled is None:
        return tuple(own), tuple(cell_of), None
    without = set(scarce)
    used = sorted({cell for name, cell in enumerate(cell_of) if name not in without})
    place = {cell: i for i, cell in enumerate(used)}
    found = tuple(len(used) if name in without else place[cell] for name, cell in enumerate(cell_of))
    return (*(own[cell] for cell in used), pooled), found, len(used)
