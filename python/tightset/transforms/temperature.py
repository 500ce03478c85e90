"""One temperature for all rows: by likelihood, or by the conformal loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import as_alpha, as_integer, as_positive
from tightset.transforms.transform import Transform, log_softmax, mean_over

_WIDEST = math.log(1e4)
"""Temperatures are looked for between 1e-4 and 1e4: beyond, all labels but the first, or none, are alike."""


def _checked_temperature(value: float | None) -> float | None:
    return None if value is None else as_positive(value, "temperature")


@dataclass(frozen=True, slots=True)
class TemperatureNLL(Transform):
    """``z / T``, with the T of largest likelihood of the labels (Guo et al. 2017).

    It makes the softmax honest on average, which does not make sets small: with APS they often grow.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(4000, 3))
    >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> round(ts.transforms.TemperatureNLL().fit(4 * logits, labels).temperature, 1)  # four times too sure
    4.0
    """

    kind: ClassVar[str] = "temperature-nll"
    fitted: ClassVar[tuple[str, ...]] = ("temperature",)

    temperature: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", _checked_temperature(self.temperature))

    def _fit(self, logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Self:
        gaps = logits.max(axis=1, keepdims=True) - logits
        mean_gap = gaps[np.arange(len(labels)), labels].mean()
        # In beta = 1 / T the loss is convex: its slope, mean gap of the labels less that expected under the
        # softmax, changes sign once.
        low, high = -_WIDEST, _WIDEST
        for _ in range(80):
            middle = (low + high) / 2.0
            f = np.exp(log_softmax(-gaps * math.exp(middle)))
            if mean_gap > mean_over(f, gaps).mean():
                high = middle
            else:
                low = middle
        return replace(self, temperature=math.exp(-low))

    def _apply(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        assert self.temperature is not None, "apply asks for a fitted one"
        return logits / self.temperature


@dataclass(frozen=True, slots=True)
class ConfTS(Transform):
    """``z / T``, with T by the conformal loss of Xi et al. (2025).

    The rows are halved. tau(T) is the conformal threshold of APS (u = 1) on the first half, and the loss is
    the mean of ``(tau - S)^2`` over the second, S the scores of its labels: how far they are from tau.
    Gradient descent in log T from `start` ends when a step is below `tolerance`.

    The loss falls to 0 as T does, since every score then tends to 1, so where the descent ends is a matter of
    the tolerance: 0.05 in the authors' code, with which it stops at once if the loss is small to begin with.

    Parameters
    ----------
    alpha
        Level of tau.
    start
        First temperature.
    rate
        Factor of the gradient in a step.
    tolerance
        Step in log T to stop at.
    max_steps
        Steps at most.
    """

    kind: ClassVar[str] = "confts"
    fitted: ClassVar[tuple[str, ...]] = ("temperature",)

    alpha: float = 0.1
    start: float = 1.5
    rate: float = 0.8
    tolerance: float = 0.001
    max_steps: int = 1000
    temperature: float | None = None

    def __post_init__(self) -> None:
        assign = object.__setattr__
        assign(self, "alpha", as_alpha(self.alpha))
        assign(self, "max_steps", as_integer(self.max_steps, "max_steps", 1, 10**6))
        assign(self, "temperature", _checked_temperature(self.temperature))
        for name in ("start", "rate", "tolerance"):
            assign(self, name, as_positive(getattr(self, name), name))

    def _fit(self, logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Self:
        half = len(labels) // 2
        if _core.conformal_rank(half, self.alpha) > half:
            message = f"logits must have more rows for alpha={self.alpha}: a half of them is {half}"
            raise ValueError(message)
        log_t = math.log(self.start)
        for _ in range(self.max_steps):
            step = self.rate * conformal_loss(logits, labels, math.exp(log_t), self.alpha)[1]
            log_t = min(max(log_t - step, -_WIDEST), _WIDEST)
            if abs(step) < self.tolerance:
                break
        return replace(self, temperature=math.exp(log_t))

    def _apply(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        assert self.temperature is not None, "apply asks for a fitted one"
        return logits / self.temperature


def conformal_loss(
    logits: NDArray[np.float64], labels: NDArray[np.int64], temperature: float, alpha: float
) -> tuple[float, float]:
    """Return the loss of ConfTS and its derivative in log T, that of tau included."""
    gaps = logits.max(axis=1, keepdims=True) - logits
    own = gaps[np.arange(len(labels)), labels][:, np.newaxis]
    before = (gaps < own) | ((gaps == own) & (np.arange(gaps.shape[1]) <= labels[:, np.newaxis]))
    f = np.exp(log_softmax(-gaps / temperature))
    scores = np.where(before, f, 0.0).sum(axis=1)
    # f_k changes by f_k (gap_k - mean gap) / T for each unit of log T.
    expected = mean_over(f, gaps)
    slopes = (mean_over(np.where(before, f, 0.0), gaps) - scores * expected) / temperature
    half = len(labels) // 2
    place = np.argsort(scores[:half], kind="stable")[_core.conformal_rank(half, alpha) - 1]
    distance = scores[place] - scores[half:]
    loss = float(np.mean(distance**2))
    return loss, float(np.mean(2.0 * distance * (slopes[place] - slopes[half:])))
