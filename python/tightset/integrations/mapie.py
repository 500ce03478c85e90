"""A conformity score for MAPIE with an exact rank: `SplitConformalClassifier` takes it.

>>> from mapie.classification import SplitConformalClassifier
>>> from sklearn.datasets import load_iris
>>> from sklearn.naive_bayes import GaussianNB
>>> from tightset.integrations.mapie import ConformityScore
>>> X, y = load_iris(return_X_y=True)
>>> score = ConformityScore("aps", reweight="entropy")
>>> model = SplitConformalClassifier(GaussianNB().fit(X[::2], y[::2]), conformity_score=score)
>>> labels, sets = model.conformalize(X[1::4], y[1::4]).predict_set(X[3::4])
>>> sets.shape
(37, 3, 1)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mapie.conformity_scores.classification import BaseClassificationScore
from numpy.typing import NDArray

from tightset.integrations.score_rule import ScoreRule
from tightset.quantile import conformal_threshold
from tightset.scores import ReweightLike, ScoreLike

__all__ = ["ConformityScore"]


class ConformityScore(BaseClassificationScore):  # type: ignore[misc]
    """Any score of tightset, reweighted or not, for split conformal prediction with MAPIE.

    Thresholds are the ``ceil((n + 1) (1 - alpha))``-th smallest scores;
    a label is in a set exactly when its score is at most the threshold. ``include_last_label`` has no
    effect: scores of calibration and of prediction are the same.

    Parameters
    ----------
    score, reweight, temperature
        As in `tightset.Scoring`.
    randomized
        Whether U comes from the row and the seed; if not it is 1.
    seed
        Seed of U; MAPIE's ``random_state`` is not used.
    """

    def __init__(
        self,
        score: ScoreLike = "aps",
        reweight: ReweightLike = None,
        temperature: float = 1.0,
        *,
        randomized: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.rule = ScoreRule(score, reweight, temperature, randomized=randomized, seed=seed)

    def get_conformity_scores(
        self, y: Any, y_pred: NDArray[Any], y_enc: NDArray[Any] | None = None, **_: Any
    ) -> NDArray[np.float64]:
        """Return the ranked score of each row's label, shape (n, 1)."""
        return self.rule.of_labels(y_pred, y if y_enc is None else y_enc)[:, np.newaxis]

    def get_predictions(
        self,
        X: Any,
        alpha_np: NDArray[Any],
        y_pred_proba: NDArray[Any],
        cv: Any,
        **settings: Any,
    ) -> NDArray[Any]:
        """Return the probabilities once for each level, without a copy."""
        del X
        if cv != "prefit" and settings.get("agg_scores") == "crossval":
            message = "agg_scores must be 'mean' with this score, got 'crossval'"
            raise ValueError(message)
        return np.broadcast_to(y_pred_proba[:, :, np.newaxis], (*y_pred_proba.shape, len(alpha_np)))

    def get_conformity_score_quantiles(
        self, conformity_scores: NDArray[Any], alpha_np: NDArray[Any], cv: Any, **_: Any
    ) -> NDArray[np.float64]:
        """Return the threshold of each level, by exact rank."""
        del cv
        scores = np.ravel(conformity_scores)
        return np.array([conformal_threshold(scores, float(alpha)) for alpha in alpha_np])

    def get_prediction_sets(
        self,
        y_pred_proba: NDArray[Any],
        conformity_scores: NDArray[Any],
        alpha_np: NDArray[Any],
        cv: Any,
        **_: Any,
    ) -> NDArray[np.bool_]:
        """Return membership, shape (n, K, levels)."""
        del conformity_scores, alpha_np, cv
        masks = [
            self.rule.sets(y_pred_proba[:, :, level], threshold).mask
            for level, threshold in enumerate(self.quantiles_)
        ]
        return np.stack(masks, axis=2)
