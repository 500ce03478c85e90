"""Adaptive conformal inference: a level that follows the errors (Gibbs & Candes 2021)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tightset._inputs import ArrayLike, as_integer, as_number
from tightset.cells import Candidate
from tightset.monitor.state import VERSION, check_state, fingerprint, require_scores
from tightset.predictor import Predictor
from tightset.quantile import conformal_rank
from tightset.sets import PredictionSets

FORMAT = "tightset-adaptive-alpha"
_FIELDS = ("rate", "n", "covered", "alpha")


class AdaptiveAlpha:
    """Sets whose coverage returns to its level in the long run, whatever the data do.

    After each label, ``alpha += rate * (predictor.alpha - error)``, where error is 1 if the set at the
    present alpha misses the label and 0 if it holds it. Where alpha leaves (0, 1), at 0 or below sets hold
    all labels and at 1 or above none, which turns it back. Hence after T labels, for any rows and labels at
    all, the share of errors is within ``(max(a, 1 - a) + rate) / (rate T)`` of ``a = predictor.alpha``. That
    is a statement on the long run, not on the next row; rows need not be exchangeable.

    Parameters
    ----------
    predictor
        With its calibration scores, from which the threshold of every alpha is taken. Of several candidates,
        the one with the smallest sets on the calibration rows is used.
    rate
        Step, positive and at most 1: larger ones follow faster and waver more.

    Attributes
    ----------
    alpha
        The present level, between -rate and 1 + rate.
    n
        Labels seen.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(5, size=9000)
    >>> logits = 2 * rng.normal(size=(9000, 5)) + 4 * np.eye(5)[labels]
    >>> predictor = ts.calibrate(logits[:1000], labels[:1000], alpha=0.1, recipe="aps")
    >>> noisy = logits[1000:] + rng.normal(size=(8000, 5))
    >>> predictor.predict_set(noisy).coverage(labels[1000:])
    0.8245
    >>> adaptive = ts.monitor.AdaptiveAlpha(predictor, rate=0.005).update(noisy, labels[1000:])
    >>> adaptive
    AdaptiveAlpha(n=8000, coverage=0.8985, alpha=0.04)
    >>> adaptive.predict_set(noisy[:3]).sizes
    array([3, 2, 2])
    """

    def __init__(self, predictor: Predictor, rate: float = 0.005) -> None:
        require_scores(predictor, "AdaptiveAlpha")
        self.predictor = predictor
        self.rate = as_number(rate, "rate")
        if not 0.0 < self.rate <= 1.0:
            message = f"rate must be positive and at most 1, got {self.rate}"
            raise ValueError(message)
        self.alpha = predictor.alpha
        self.n = 0
        self._covered = 0
        self._fingerprint = fingerprint(predictor)
        place = min(range(len(predictor.candidates)), key=lambda i: _size(predictor.candidates[i]))
        assert predictor.calibration_scores is not None, "require_scores was called"
        self._place = place
        self._scores = predictor.calibration_scores[place]

    @property
    def coverage(self) -> float | None:
        """Share of the labels seen that the sets of their time held, or None before the first."""
        return self._covered / self.n if self.n else None

    @property
    def threshold(self) -> float | None:
        """The present threshold of the ranked score; None where every set is empty."""
        n = len(self._scores)
        if self.alpha >= 1.0:
            return None
        rank = n + 1 if self.alpha <= 0.0 else conformal_rank(n, self.alpha)
        return math.inf if rank > n else float(self._scores[rank - 1])

    def __repr__(self) -> str:
        coverage = "None" if self.coverage is None else f"{self.coverage:.4g}"
        return f"AdaptiveAlpha(n={self.n}, coverage={coverage}, alpha={self.alpha:.4g})"

    def update(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> AdaptiveAlpha:
        """Take in rows and their true labels, in the order in which they came; return the same object.

        Each row is judged by the set that the alpha before it gives. Rows that are refused change nothing.
        Calls must not overlap: with several threads, hold a lock.

        Parameters
        ----------
        logits, labels
            Shapes (n, K) and (n,), or one row of shape (K,) and its label.
        row_ids, n_threads
            As in `Predictor.predict_set`.
        """
        scores = self._at(0.0).label_scores(logits, labels, row_ids=row_ids, n_threads=n_threads)
        for score in scores[0].tolist():
            threshold = self.threshold
            covered = threshold is not None and score <= threshold
            self.alpha += self.rate * (self.predictor.alpha - (not covered))
            self._covered += covered
            self.n += 1
        return self

    def predict_set(
        self,
        logits: ArrayLike,
        *,
        row_ids: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> PredictionSets:
        """Return the set of each row at the present alpha; parameters as in `Predictor.predict_set`."""
        threshold = self.threshold
        sets = self._at(-math.inf if threshold is None else threshold).predict_set(
            logits, row_ids=row_ids, n_threads=n_threads
        )
        if threshold is None:  # a score can be -inf too
            return PredictionSets(np.zeros_like(sets.indptr), sets.indices[:0], sets.n_labels)
        return sets

    def _at(self, threshold: float) -> Predictor:
        """Return a predictor with the one candidate and this threshold."""
        candidate = Candidate(self.predictor.candidates[self._place].scoring, threshold)
        return replace(self.predictor, candidates=(candidate,))

    def state(self) -> dict[str, Any]:
        """Return everything that `from_state` needs beside the predictor, as a dict for JSON."""
        return {
            "format": FORMAT,
            "format_version": VERSION,
            "predictor": self._fingerprint,
            "rate": self.rate,
            "n": self.n,
            "covered": self._covered,
            "alpha": self.alpha,
        }

    @classmethod
    def from_state(cls, predictor: Predictor, state: dict[str, Any]) -> AdaptiveAlpha:
        """Return the object of a state; ValueError if it belongs to another predictor."""
        require_scores(predictor, "AdaptiveAlpha")
        check_state(state, FORMAT, fingerprint(predictor), _FIELDS)
        found = cls(predictor, state["rate"])
        found.n = as_integer(state["n"], "n", 0)
        found._covered = as_integer(state["covered"], "covered", 0, found.n)
        found.alpha = as_number(state["alpha"], "alpha")
        if not -found.rate <= found.alpha <= 1.0 + found.rate:
            message = f"state: alpha must be between {-found.rate} and {1.0 + found.rate}, got {found.alpha}"
            raise ValueError(message)
        return found


def _size(candidate: Candidate) -> int:
    """Return the calibration pairs of row and label up to the threshold, weighted as in selection."""
    return candidate.weight * ((candidate.pairs_at_lo or 0) + len(candidate.between))
