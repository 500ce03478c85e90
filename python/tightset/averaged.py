"""Averages of several scores, with weights selected so that coverage stays exact (Luo & Zhou 2025)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tightset._inputs import ArrayLike, as_integer
from tightset.family.rule_calibration import calibrate_rules
from tightset.family.rule_predictor import RulePredictor, RuleSelection
from tightset.family.rules import Averaged
from tightset.scores import Score, ScoreLike, as_score

__all__ = ["calibrate", "simplex_grid"]

_MOST_RULES = 2**12
"""Weights to select from: each has its own scores of all labels."""


def calibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.1,
    scores: Sequence[ScoreLike] = ("thr", "aps", "rank"),
    *,
    weights: Sequence[Sequence[float]] | None = None,
    steps: int = 10,
    selection: RuleSelection = "modsel",
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    probabilities: bool = False,
    n_threads: int | None = None,
) -> RulePredictor:
    """Calibrate a predictor with the score ``sum_l w_l A_l``, the weights selected for small sets.

    For a new row exchangeable with these, the set contains its label with probability at least 1 - alpha,
    exactly: each average is a fixed function of the row and the label, the weights to select from are fixed
    before the data are seen, and the selection is one that keeps coverage. (The paper averages ranks of
    scores among calibration and test rows.)

    Scores are averaged on their conventional scale, where thr, aps and rank are between 0 and 1, so that a
    weight means the same for each; raps and saps are on that scale up to their penalties.

    Parameters
    ----------
    logits
        Array of shape (n, K), as in `tightset.calibrate`.
    labels
        Integers of shape (n,).
    alpha
        Miscoverage, strictly between 0 and 1.
    scores
        The scores A_l, or their names.
    weights
        Weights to select from, each with one for every score, at least 0 and of sum 1; by default
        `simplex_grid`, all multiples of ``1 / steps``.
    steps
        Fineness of the grid: 66 weights of three scores with 10. Calibration holds 8 bytes for each row and
        weight.
    selection
        ``"modsel"`` selects on all rows, ``"held-out"`` on a quarter of them.
    seed, row_ids, probabilities, n_threads
        As in `tightset.calibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(1)
    >>> labels = rng.integers(4, size=2000)
    >>> logits = 3 * rng.normal(size=(2000, 4)) + 6 * np.eye(4)[labels]
    >>> predictor = ts.averaged.calibrate(logits[:1000], labels[:1000], 0.1, selection="held-out")
    >>> 0.85 < predictor.predict_set(logits[1000:]).coverage(labels[1000:]) < 0.95
    True
    """
    if isinstance(scores, str) or not len(scores):
        message = f"scores must be a sequence of at least one score, got {scores!r}"
        raise TypeError(message)
    parts: tuple[Score, ...] = tuple(as_score(score) for score in scores)
    if weights is None:
        weights = list(simplex_grid(len(parts), steps))
    if not len(weights) or len(weights) > _MOST_RULES:
        message = f"weights must be between 1 and {_MOST_RULES}, got {len(weights)}"
        raise ValueError(message)
    return calibrate_rules(
        [Averaged(parts, tuple(row)) for row in weights],
        logits,
        labels,
        alpha,
        selection=selection,
        seed=seed,
        row_ids=row_ids,
        probabilities=probabilities,
        n_threads=n_threads,
    )


def simplex_grid(n_scores: int, steps: int) -> Iterator[tuple[float, ...]]:
    """Yield all weights that are multiples of ``1 / steps`` and sum to 1, those of single scores among them.

    Examples
    --------
    >>> from tightset.averaged import simplex_grid
    >>> list(simplex_grid(2, 2))
    [(0.0, 1.0), (0.5, 0.5), (1.0, 0.0)]
    """
    parts, total = as_integer(n_scores, "n_scores", 1), as_integer(steps, "steps", 1)
    if math.comb(total + parts - 1, parts - 1) > _MOST_RULES:
        message = f"steps must leave at most {_MOST_RULES} weights of {parts} scores, got {steps}"
        raise ValueError(message)
    return (tuple(count / total for count in counts) for counts in _counts(parts, total))


def _counts(parts: int, total: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a total as a sum of so many counts."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _counts(parts - 1, total - first):
            yield (first, *rest)
