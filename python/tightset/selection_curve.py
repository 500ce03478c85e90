"""What a selection saw, for people who want to know why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightset.objectives import Objective
from tightset.scores import Scoring
from tightset.scoring import label_scores


@dataclass(frozen=True, eq=False, repr=False)
class SelectionCurve:
    """What a selection saw: one entry for each candidate. Printing it explains the choice.

    Attributes
    ----------
    candidates
        The candidates, in the order of the recipe.
    sizes
        Mean set size of each on the rows kept for that.
    thresholds
        The threshold that gave the size.
    chosen
        Index of the best by the objective, the first of equals.
    survivors
        Indices of the candidates in use: the chosen one, or with ``"modsel"`` those that some new row may
        choose.
    objective
        What was looked for.
    coverage_by_entropy
        Coverage of the chosen candidate on the calibrating rows, in equal parts by rising entropy; None
        if there are too few rows.
    level
        The coverage asked for, ``1 - alpha``; None if unknown.
    at_edge
        Whether the chosen temperature is the first or the last of its finite grid, so that a wider
        grid might do better. The limits 0 and infinity have nothing beyond them.
    """

    candidates: tuple[Scoring, ...]
    sizes: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    chosen: int
    survivors: tuple[int, ...] = ()
    objective: Objective = "size"
    coverage_by_entropy: tuple[float, ...] | None = None
    level: float | None = None

    def __repr__(self) -> str:
        winner = f"{self.candidates[self.chosen]}, mean size {self.sizes[self.chosen]:.3f}"
        return f"SelectionCurve({len(self.candidates)} candidates, chosen: {winner})"

    def __str__(self) -> str:
        lines = [f"{len(self.candidates)} candidates, objective {self.objective!r}"]
        smallest = np.argsort(self.sizes, kind="stable")[:5].tolist()
        for m in dict.fromkeys((*smallest, self.chosen)):
            mark = "*" if m == self.chosen else " "
            lines.append(f"{mark} {self.sizes[m]:9.3f}  {self.candidates[m]}")
        if len(self.survivors) > 1:
            lines.append(f"{len(self.survivors)} candidates are in use: each label of a new row chooses")
        if self.at_edge:
            lines.append("the temperature is at the edge of its grid: a wider one might do better")
        if self.coverage_by_entropy is not None:
            shown = " ".join(f"{c:.3f}" for c in self.coverage_by_entropy)
            lines.append(f"coverage by rising entropy: {shown}")
            lines.extend(self._unevenness())
        return "\n".join(lines)

    def _unevenness(self) -> list[str]:
        assert self.coverage_by_entropy is not None
        if self.level is None or self.objective == "adaptive":
            return []
        worst = min(self.coverage_by_entropy)
        # Twice the miscoverage that was asked for is what a user should hear of.
        if worst >= 1 - 2 * (1 - self.level):
            return []
        return [
            f"some rows are covered less than the level {self.level:g}: objective='adaptive' evens this out "
            "at the cost of larger sets"
        ]

    @property
    def at_edge(self) -> bool:
        """Whether the chosen temperature is at the edge of its grid."""
        winner = self.candidates[self.chosen]
        same = (c for c in self.candidates if (c.score, c.reweight) == (winner.score, winner.reweight))
        finite = [c.temperature for c in same if 0.0 < c.temperature < float("inf")]
        return len(finite) > 1 and winner.temperature in (min(finite), max(finite))


def covered_by_chosen(
    curve: SelectionCurve,
    logits: NDArray[np.generic],
    labels: NDArray[np.int64],
    *,
    seed: int,
    probabilities: bool,
) -> NDArray[np.bool_]:
    """Return whether the chosen candidate covers each row by itself, at the threshold that the curve has."""
    chosen = curve.candidates[curve.chosen]
    scores = label_scores(
        logits,
        labels,
        chosen.score,
        reweight=chosen.reweight,
        temperature=chosen.temperature,
        seed=seed,
        ranked=True,
        probabilities=probabilities,
    )
    covered: NDArray[np.bool_] = scores <= curve.thresholds[curve.chosen]
    return covered
