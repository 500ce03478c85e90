"""Nonconformity scores and fast p-values for crepes.

>>> from sklearn.datasets import load_iris
>>> from sklearn.naive_bayes import GaussianNB
>>> from tightset.integrations.crepes import Nonconformity, WrapClassifier
>>> X, y = load_iris(return_X_y=True)
>>> model = WrapClassifier(GaussianNB())
>>> model.fit(X[::2], y[::2])
>>> _ = model.calibrate(X[1::4], y[1::4], nc=Nonconformity("aps", reweight="entropy"))
>>> model.predict_p(X[3::4], smoothing=False).shape
(37, 3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import crepes
import numpy as np
from numpy.typing import NDArray

from tightset._inputs import ArrayLike
from tightset.integrations.class_numbers import class_numbers
from tightset.integrations.score_rule import ScoreRule
from tightset.integrations.sorted_counts import SortedCounts
from tightset.scores import ReweightLike, ScoreLike

__all__ = ["ConformalClassifier", "Nonconformity", "WrapClassifier", "p_values"]


class Nonconformity:
    """Any score of tightset as a function ``nc`` of crepes.

    Scores are on the ranked scale: p-values depend on their order alone.

    Parameters
    ----------
    score, reweight, temperature
        As in `tightset.Scoring`.
    randomized
        Whether U comes from the row and the seed; if not it is 1.
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

    def __call__(
        self,
        X_prob: ArrayLike,
        classes: ArrayLike | None = None,
        y: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Return scores of the classes `y`, shape (n,), or of all classes, shape (n, K)."""
        if y is None:
            return self.rule.of_all(X_prob)
        truth = np.asarray(y)
        numbers, unknown = class_numbers(np.asarray(classes), truth)
        if unknown.any():
            row = int(unknown.argmax())
            message = f"y must hold values of classes: found {truth[row]!r} at row {row}"
            raise ValueError(message)
        return self.rule.of_labels(X_prob, numbers)


def p_values(
    alphas_cal: ArrayLike,
    alphas_test: ArrayLike,
    bins_cal: ArrayLike | None = None,
    bins_test: ArrayLike | None = None,
    *,
    smoothing: bool = True,
    seed: int | None = None,
) -> NDArray[np.float64]:
    """Return what `crepes.base.p_values_batch` returns, to the bit, by one sort and a table.

    Parameters
    ----------
    alphas_cal
        Calibration scores of shape (n,), without NaN.
    alphas_test
        Scores of shape (m,) or (m, K).
    bins_cal, bins_test
        Mondrian categories of shapes (n,) and (m,), or None.
    smoothing
        Whether ties are broken by random numbers, drawn as crepes draws them.
    seed
        Seed of NumPy's global generator, whose state is kept; None draws from it as it stands.

    Examples
    --------
    >>> from tightset.integrations.crepes import p_values
    >>> p_values([0.1, 0.4, 0.8], [[0.4, 0.9]], smoothing=False)
    array([[0.75, 0.25]])
    """
    calibration, test = np.asarray(alphas_cal), np.asarray(alphas_test)
    if np.isnan(calibration).any():
        message = f"alphas_cal must not be NaN: found one at row {int(np.isnan(calibration).argmax())}"
        raise ValueError(message)
    # crepes draws from the global generator, and equal values need the same draws.
    draw = np.random.rand if seed is None else np.random.RandomState(seed).rand
    if bins_cal is None:
        return _p_values(calibration, test, draw if smoothing else None)
    found = np.zeros(test.shape)
    _, numbers = np.unique(np.hstack((np.asarray(bins_cal), np.asarray(bins_test))), return_inverse=True)
    of_calibration, of_test = numbers[: len(calibration)], numbers[len(calibration) :]
    for number in np.unique(of_test):
        mine = of_test == number
        found[mine] = _p_values(
            calibration[of_calibration == number], test[mine], draw if smoothing else None
        )
    return found


def _p_values(
    calibration: NDArray[Any], test: NDArray[Any], draw: Callable[..., Any] | None
) -> NDArray[np.float64]:
    n = len(calibration)
    below, up_to = SortedCounts(calibration)(test)
    if draw is None:
        return (n - below + 1) / (n + 1)
    found: NDArray[np.float64] = ((n - up_to) + draw(*test.shape) * (up_to - below + 1)) / (n + 1)
    return found


class ConformalClassifier(crepes.ConformalClassifier):  # type: ignore[misc]
    """`crepes.ConformalClassifier` with the same p-values and sets, by `p_values`.

    Its online forms are as they were.
    """

    def predict_p(
        self,
        alphas: ArrayLike,
        bins: ArrayLike | None = None,
        all_classes: bool = True,  # noqa: FBT001, FBT002 - the arguments of crepes, in its order
        classes: ArrayLike | None = None,
        y: ArrayLike | None = None,
        smoothing: bool = True,  # noqa: FBT001, FBT002
        seed: int | None = None,
    ) -> NDArray[np.float64]:
        """Return p-values, as `crepes.ConformalClassifier.predict_p` does."""
        found = p_values(
            self.alphas,
            alphas,
            self.bins,
            bins,
            smoothing=smoothing,
            seed=self.seed if seed is None else seed,
        )
        if all_classes:
            return found
        numbers, _ = class_numbers(np.asarray(classes), np.asarray(y))
        return found[np.arange(len(numbers)), numbers]

    def predict_set(
        self,
        alphas: ArrayLike,
        bins: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        confidence: float = 0.95,
        smoothing: bool = True,  # noqa: FBT001, FBT002
        seed: int | None = None,
    ) -> Any:
        """Return sets, as `crepes.ConformalClassifier.predict_set` does."""
        found = self.predict_p(alphas, bins, smoothing=smoothing, seed=seed)
        mask = found >= 1 - confidence
        if labels is None:
            return mask.astype(int)
        names = np.asarray(labels)
        return [list(names[row]) for row in mask]


class WrapClassifier(crepes.WrapClassifier):  # type: ignore[misc]
    """`crepes.WrapClassifier` on the fast `ConformalClassifier`."""

    def calibrate(self, *args: Any, **kwargs: Any) -> WrapClassifier:
        """Calibrate, as `crepes.WrapClassifier.calibrate` does."""
        super().calibrate(*args, **kwargs)
        slow: crepes.ConformalClassifier = self.cc  # type: ignore[has-type]
        self.cc = ConformalClassifier().fit(slow.alphas, slow.bins, slow.seed)
        return self
