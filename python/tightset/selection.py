"""How one of several candidates is selected, and on which rows it is calibrated.

For a candidate m, ``q_m(D)`` is its conformal threshold on rows D and ``size_m(D, q)`` the mean size
of its sets on D. Each selection answers three questions: which rows give the thresholds, which give
the sizes, and which calibrate the winner.

| selection | thresholds | sizes | calibration | coverage |
|---|---|---|---|---|
| paper | first half | second half | all rows | approximate |
| released | first half | second half | first half | approximate |
| held-out | a quarter | the same quarter | the other rows | exact |
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset.recipes import Recipe, Selection
from tightset.scores import Scoring


class SmallCalibrationWarning(UserWarning):
    """There are too few rows for the level: sets hold all labels, or nothing could be selected."""


@dataclass(frozen=True, slots=True)
class Data:
    """Calibration rows, and how they are read."""

    logits: NDArray[np.generic]
    labels: NDArray[np.int64]
    row_ids: NDArray[np.uint64] | None
    seed: int
    probabilities: bool
    n_threads: int | None
    max_memory: int

    def label_scores(
        self, candidates: Sequence[Scoring], rows: NDArray[np.int64] | None
    ) -> NDArray[np.float64]:
        """Ranked scores of the labels, one run of rows for each candidate."""
        return _core.label_scores(
            self.logits,
            self.labels if rows is None else self.labels[rows],
            [c.core for c in candidates],
            ranked=True,
            seed=self.seed,
            row_ids=self._row_ids(rows),
            rows=rows,
            probabilities=self.probabilities,
            n_threads=self.n_threads,
        )

    def thresholds(
        self, candidates: Sequence[Scoring], rows: NDArray[np.int64], ranks: Sequence[int]
    ) -> NDArray[np.float64]:
        """Order statistics of each candidate's scores, shape (candidates, ranks).

        Scores of as many candidates as `max_memory` holds are kept at a time.
        """
        found = np.empty((len(candidates), len(ranks)))
        group = max(1, self.max_memory // max(1, 8 * len(rows)))
        for start in range(0, len(candidates), group):
            scores = self.label_scores(candidates[start : start + group], rows)
            for i, run in enumerate(scores, start):
                found[i] = [_core.kth_smallest(run, rank) for rank in ranks]
        return found

    def mean_sizes(
        self, candidates: Sequence[Scoring], rows: NDArray[np.int64], thresholds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Mean set sizes for thresholds of shape (candidates, levels)."""
        pairs = _core.count_pairs(
            self.logits,
            [c.core for c in candidates],
            thresholds,
            seed=self.seed,
            row_ids=self._row_ids(rows),
            rows=rows,
            probabilities=self.probabilities,
            n_threads=self.n_threads,
        )
        return pairs / len(rows)

    def _row_ids(self, rows: NDArray[np.int64] | None) -> NDArray[np.uint64] | None:
        return self.row_ids if rows is None or self.row_ids is None else self.row_ids[rows]


@dataclass(frozen=True, eq=False, repr=False)
class SelectionCurve:
    """What a selection saw: one entry for each candidate.

    Attributes
    ----------
    candidates
        The candidates, in the order of the recipe.
    sizes
        Mean set size of each on the rows kept for that.
    thresholds
        The threshold that gave the size.
    chosen
        Index of the smallest, the first of equals.
    at_edge
        Whether the chosen temperature is the first or the last of its finite grid, so that a wider
        grid might do better. The limits 0 and infinity have nothing beyond them.
    """

    candidates: tuple[Scoring, ...]
    sizes: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    chosen: int

    def __repr__(self) -> str:
        winner = f"{self.candidates[self.chosen]}, mean size {self.sizes[self.chosen]:.3f}"
        return f"SelectionCurve({len(self.candidates)} candidates, chosen: {winner})"

    @property
    def at_edge(self) -> bool:
        """Whether the chosen temperature is at the edge of its grid."""
        winner = self.candidates[self.chosen]
        same = (c for c in self.candidates if (c.score, c.reweight) == (winner.score, winner.reweight))
        finite = [c.temperature for c in same if 0.0 < c.temperature < float("inf")]
        return len(finite) > 1 and winner.temperature in (min(finite), max(finite))


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate and the rows that calibrate it; None stands for all rows."""

    scoring: Scoring
    rows: NDArray[np.int64] | None
    curve: SelectionCurve | None


def choose(recipe: Recipe, data: Data, alphas: Sequence[float]) -> list[Choice]:
    """Return a choice for each level; all levels share the readings of the data."""
    candidates = recipe.candidates
    selection = recipe.selection
    if len(candidates) == 1 and selection != "released":
        return [Choice(candidates[0], None, None) for _ in alphas]
    assert selection is not None, "Recipe asks for a selection among several candidates"
    fitting, sizing, calibrating = _parts(selection, data)
    ranks = [_core.conformal_rank(len(fitting), alpha) for alpha in alphas]
    feasible = [i for i, rank in enumerate(ranks) if rank <= len(fitting) and len(sizing)]
    choices = [Choice(candidates[0], calibrating, None) for _ in alphas]
    if len(feasible) < len(alphas):
        infeasible = [alpha for i, alpha in enumerate(alphas) if i not in feasible]
        message = (
            f"{len(fitting)} of {len(data.labels)} rows, the part for selection, are too few to select a "
            f"candidate at alpha={min(infeasible)}: the first one is used ({candidates[0]}); a recipe with "
            "one candidate needs no selection"
        )
        warnings.warn(message, SmallCalibrationWarning, stacklevel=3)
    if feasible:
        thresholds = data.thresholds(candidates, fitting, [ranks[i] for i in feasible])
        sizes = data.mean_sizes(candidates, sizing, thresholds)
        for column, i in enumerate(feasible):
            chosen = int(sizes[:, column].argmin())
            curve = SelectionCurve(candidates, sizes[:, column], thresholds[:, column], chosen)
            choices[i] = Choice(candidates[chosen], calibrating, curve)
    return choices


def _parts(
    selection: Selection, data: Data
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the rows for thresholds, sizes and calibration.

    A row's part depends on the seed, the number of rows and its position alone.
    """
    n = len(data.labels)
    order = _core.permutation(data.seed, n)
    if selection == "held-out":
        quarter = n // 4
        # Reading in order of position keeps memory access sequential; the parts are sets.
        held_out, rest = np.sort(order[:quarter]), np.sort(order[quarter:])
        return held_out, held_out, rest
    half = (n + 1) // 2
    first, second = np.sort(order[:half]), np.sort(order[half:])
    return first, second, first if selection == "released" else None
