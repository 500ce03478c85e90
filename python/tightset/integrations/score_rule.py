"""One score of the rows and labels that another library passes, as all adapters need it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import ArrayLike, as_flag, as_labels, as_logits, as_seed, as_thread_count
from tightset.scores import ReweightLike, ScoreLike, Scoring
from tightset.sets import PredictionSets


class ScoreRule:
    """A scoring with its randomisation: the same function of a row and a label in both phases.

    Parameters
    ----------
    score, reweight, temperature
        As in `tightset.Scoring`.
    randomized
        Whether U comes from the row and the seed; if not it is 1, the inclusive deterministic form.
    seed
        Seed of U.
    ranked
        Whether scores are those that `tightset.Predictor` compares, as in `tightset.label_scores`.
    probabilities
        Whether rows hold probabilities instead of logits.
    n_threads
        Threads to use at most.
    """

    def __init__(
        self,
        score: ScoreLike = "aps",
        reweight: ReweightLike = None,
        temperature: float = 1.0,
        *,
        randomized: bool = True,
        seed: int = 0,
        ranked: bool = True,
        probabilities: bool = True,
        n_threads: int | None = None,
    ) -> None:
        self.scoring = Scoring(score, reweight, temperature)  # type: ignore[arg-type]
        self.ranked = as_flag(ranked, "ranked")
        self._settings: dict[str, Any] = {
            "seed": as_seed(seed),
            "u": None if as_flag(randomized, "randomized") else 1.0,
            "probabilities": as_flag(probabilities, "probabilities"),
            "n_threads": as_thread_count(n_threads),
        }

    def of_labels(self, rows: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
        """Return the score of each row's label, shape (n,)."""
        array = as_logits(rows)
        numbers = as_labels(labels, len(array))
        scores = _core.label_scores(array, numbers, [self.scoring.core], ranked=self.ranked, **self._settings)
        return scores.reshape(-1)

    def of_all(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Return the score of every label, shape (n, K)."""
        return _core.all_scores(as_logits(rows), self.scoring.core, ranked=self.ranked, **self._settings)

    def sets(self, rows: ArrayLike, threshold: float) -> PredictionSets:
        """Return the labels whose ranked score is at most the threshold."""
        if not self.ranked:
            message = "sets need a rule with ranked=True, got False"
            raise ValueError(message)
        array = as_logits(rows)
        indptr, indices = _core.predict_sets(
            array, self.scoring.core, float(threshold), allow_empty=True, **self._settings
        )
        return PredictionSets(indptr, indices, array.shape[1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.scoring})"
