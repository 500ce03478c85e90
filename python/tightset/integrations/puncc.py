"""Score and set functions for puncc: its `SplitConformalPredictor` takes them.

``SplitConformalPredictor(predictor=..., nonconf_score_func=functions.score, pred_set_func=functions.sets)``

>>> from tightset.integrations.puncc import Functions
>>> functions = Functions("aps", reweight="entropy")
>>> functions.score([[0.7, 0.2, 0.1]], [0]).shape
(1,)
>>> functions.sets([[0.7, 0.2, 0.1]], float("inf"))
([[0, 1, 2]],)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike
from tightset.integrations.score_rule import ScoreRule
from tightset.scores import ReweightLike, ScoreLike

__all__ = ["Functions"]


class Functions:
    """The two functions that a calibrator of puncc needs, of one score.

    Parameters
    ----------
    score, reweight, temperature
        As in `tightset.Scoring`.
    randomized
        Whether U comes from the row and the seed; if not it is 1, and a set holds exactly the labels
        whose score is at most the quantile.
    seed
        Seed of U.
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
        self.rule = ScoreRule(score, reweight, temperature, randomized=randomized, seed=seed)

    def score(self, Y_pred: ArrayLike, y_true: ArrayLike) -> NDArray[np.float64]:
        """Return the ranked score of each row's label: a ``nonconf_score_func``."""
        return self.rule.of_labels(Y_pred, y_true)

    def sets(self, Y_pred: ArrayLike, scores_quantile: Any) -> tuple[list[list[int]]]:
        """Return lists of labels by falling probability: a ``pred_set_func``."""
        threshold = float(np.asarray(scores_quantile).reshape(()))
        return ([labels.tolist() for labels in self.rule.sets(Y_pred, threshold)],)
