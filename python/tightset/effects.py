"""Two effects that set an implementation of the paper apart from its print, measured on a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset.calibration import calibrate
from tightset.quantile import conformal_threshold
from tightset.recipes import Recipe, Selection
from tightset.scores import Entropy
from tightset.scoring import all_scores, label_scores
from tightset.selection_curve import covered_by_chosen

__all__ = ["Saturation", "SelectionEffect", "saturation", "selection_effect"]

_REWEIGHTINGS = (None, Entropy(0.0), Entropy(0.1), Entropy(1.0))
# More rows would not show more: what varies is the calibration.
_MOST_TEST_ROWS = 1000
_SELECTIONS: tuple[Selection, ...] = ("paper", "held-out", "modsel")


@dataclass(frozen=True, slots=True, eq=False)
class Saturation:
    """Mean set size of entropy-reweighted APS at T = 1, at each level.

    Attributes
    ----------
    levels
        Coverages asked for.
    textbook
        By the textbook form of the score in double precision, in which labels tie at 1.0.
    ranked
        By the ranked form, which keeps them apart.
    """

    levels: tuple[float, ...]
    textbook: NDArray[np.float64]
    ranked: NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "levels": list(self.levels),
            "textbook": self.textbook.tolist(),
            "ranked": self.ranked.tolist(),
        }


def saturation(
    logits: NDArray[np.floating], labels: NDArray[np.int64], levels: Sequence[float]
) -> Saturation:
    """Measure what tied scores do to set sizes; one half of the rows calibrates.

    Examples
    --------
    >>> import tightset as ts
    >>> from tightset.effects import saturation
    >>> data = ts.datasets.load("fashion-mnist")
    >>> found = saturation(data.logits, data.labels, [0.9, 0.99])
    >>> bool(found.textbook[1] > found.ranked[1])
    True
    """
    half = len(labels) // 2
    # Double precision, so that the effect is not that of a short float.
    wide = np.asarray(logits, dtype=np.float64)
    sizes = {}
    for ranked in (False, True):
        calibrating = label_scores(wide[:half], labels[:half], "aps", ranked=ranked)
        scores = all_scores(wide[half:], "aps", ranked=ranked)
        thresholds = [conformal_threshold(calibrating, round(1.0 - level, 12)) for level in levels]
        sizes[ranked] = np.array([(scores <= t).sum(axis=1).mean() for t in thresholds])
    return Saturation(tuple(levels), sizes[False], sizes[True])


@dataclass(frozen=True, slots=True, eq=False)
class SelectionEffect:
    """Coverage after selection by mean size from a small calibration set.

    Attributes
    ----------
    levels, n_calibration, n_candidates
        Coverages asked for, rows that calibrate, candidates to select from.
    coverage
        For each way of selecting, shape (levels, splits). ``"naive"`` calibrates the candidate with the
        smallest sets on the rows that chose it.
    """

    levels: tuple[float, ...]
    n_calibration: int
    n_candidates: int
    coverage: dict[str, NDArray[np.float64]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "levels": list(self.levels),
            "n_calibration": self.n_calibration,
            "n_candidates": self.n_candidates,
            "coverage": {name: values.tolist() for name, values in self.coverage.items()},
        }


def selection_effect(
    logits: NDArray[np.floating],
    labels: NDArray[np.int64],
    levels: Sequence[float],
    *,
    n_calibration: int = 199,
    n_splits: int = 100,
    seed: int = 0,
    advance: Callable[[int], None] = lambda steps: None,
) -> SelectionEffect:
    """Measure coverage under each way of selecting, over random splits.

    Few rows calibrate, where selection does most harm. With 199 of them the exact coverage of a fixed
    score is the level itself, if the level has two decimals.

    Examples
    --------
    >>> import tightset as ts
    >>> from tightset.effects import selection_effect
    >>> data = ts.datasets.load("carer")
    >>> found = selection_effect(data.logits, data.labels, [0.9], n_splits=3)
    >>> list(found.coverage), found.coverage["modsel"].shape
    (['naive', 'paper', 'held-out', 'modsel'], (1, 3))
    """
    alphas = [round(1.0 - level, 12) for level in levels]
    recipes = {s: Recipe("aps", _REWEIGHTINGS, "auto", s) for s in _SELECTIONS}
    coverage = {name: np.empty((len(alphas), n_splits)) for name in ("naive", *_SELECTIONS)}
    rng = np.random.default_rng(seed)
    for split in range(n_splits):
        order = rng.permutation(len(labels))
        rest, test = order[:n_calibration], order[n_calibration : n_calibration + _MOST_TEST_ROWS]
        test_logits, test_labels = logits[test], labels[test]
        for selection, recipe in recipes.items():
            predictors = calibrate(logits[rest], labels[rest], alphas, recipe, seed=seed + split)
            for i, predictor in enumerate(predictors):
                covered = predictor.predict_set(test_logits).covers(test_labels)
                coverage[selection][i, split] = covered.mean()
                if selection == "modsel":
                    curve = predictor.selection_curve
                    assert curve is not None, "there is something to select"
                    alone = covered_by_chosen(
                        curve, test_logits, test_labels, seed=predictor.seed, probabilities=False
                    )
                    coverage["naive"][i, split] = alone.mean()
        advance(1)
    return SelectionEffect(tuple(levels), n_calibration, len(recipes["modsel"].candidates), coverage)
