"""What a selection looks for among candidates that all cover alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightset.calibration_rows import Rows, SetCounts
from tightset.scores import Scoring

Objective: TypeAlias = Literal["size", "singletons", "adaptive"]
OBJECTIVES: tuple[Objective, ...] = ("size", "singletons", "adaptive")

MOST_STRATA = 5
LEAST_ROWS_A_STRATUM = 20


def best(
    objective: Objective,
    rows: Rows,
    candidates: Sequence[Scoring],
    part: Any,
    thresholds: NDArray[np.float64],
    counts: SetCounts,
    alphas: Sequence[float],
) -> list[int]:
    """Return, for each level, the index of the best candidate, the first of equals.

    ``"size"``: the smallest mean size. ``"singletons"``: the most sets of one label, then size.
    ``"adaptive"``: the smallest mean size among those whose coverage of the worst stratum of entropy is
    not below the level by more than two standard errors, or the highest such coverage if there is none.
    `part` are the rows that thresholds and counts were taken from.
    """
    if objective == "size":
        return [int(m) for m in counts.pairs.argmin(axis=0)]
    if objective == "singletons":
        return [
            int(np.lexsort((pairs, -ones))[0])
            for pairs, ones in zip(counts.pairs.T, counts.singletons.T, strict=True)
        ]
    strata = entropy_strata(rows.entropies()[part])
    worst = np.empty_like(thresholds)
    for group, scores in rows.score_groups(candidates, part):
        covered = scores[:, :, np.newaxis] <= thresholds[group, np.newaxis, :]
        worst[group] = np.min([covered[:, stratum].mean(axis=1) for stratum in strata], axis=0)
        del scores, covered  # before the next are made
    smallest = min(len(stratum) for stratum in strata)
    chosen = []
    for column, alpha in enumerate(alphas):
        floor = 1 - alpha - 2 * (alpha * (1 - alpha) / smallest) ** 0.5
        allowed = worst[:, column] >= min(floor, worst[:, column].max())
        pairs = np.where(allowed, counts.pairs[:, column], np.iinfo(np.int64).max)
        chosen.append(int(pairs.argmin()))
    return chosen


def entropy_strata(entropies: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return the rows in up to five equal parts by rising entropy, one part if rows are few."""
    order = np.argsort(entropies, kind="stable")
    n_strata = max(1, min(MOST_STRATA, len(order) // LEAST_ROWS_A_STRATUM))
    return [np.asarray(part) for part in np.array_split(order, n_strata)]
