"""Platt scaling of each label's logit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import as_integer, as_number
from tightset.transforms.descent import minimise
from tightset.transforms.transform import Transform, log_softmax


@dataclass(frozen=True, slots=True)
class VectorScaling(Transform):
    """``a_k z_k + b_k`` for each label k, of largest likelihood (Platt 1999 for two labels; Guo et al. 2017).

    It corrects labels that the classifier favours or neglects, and needs many rows of each.

    Parameters
    ----------
    ridge
        Weight of ``sum (a_k - 1)^2 + b_k^2``, in rows: what pulls labels with few rows to no change.
    max_steps
        Steps of the minimiser.
    """

    kind: ClassVar[str] = "vector-scaling"
    fitted: ClassVar[tuple[str, ...]] = ("factors", "offsets")

    ridge: float = 1.0
    max_steps: int = 200
    factors: tuple[float, ...] | None = None
    offsets: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", as_number(self.ridge, "ridge"))
        object.__setattr__(self, "max_steps", as_integer(self.max_steps, "max_steps", 1, 10**6))
        if not 0.0 <= self.ridge <= 1e9:
            message = f"ridge must be between 0 and 1e9, got {self.ridge}"
            raise ValueError(message)
        found = (self.factors or ()), (self.offsets or ())
        if len(found[0]) != len(found[1]) or not np.isfinite([*found[0], *found[1]]).all():
            message = f"factors and offsets must be finite, one each for every label, got {found}"
            raise ValueError(message)

    def _fit(self, logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Self:
        objective = Likelihood(logits, labels, self.ridge)
        k = logits.shape[1]
        start = np.concatenate([np.ones(k), np.zeros(k)])
        found = minimise(objective, start, max_steps=self.max_steps)
        return replace(self, factors=tuple(found[:k].tolist()), offsets=tuple(found[k:].tolist()))

    def _apply(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        assert self.factors is not None, "apply asks for a fitted one"
        assert self.offsets is not None, "apply asks for a fitted one"
        found: NDArray[np.float64] = logits * np.array(self.factors) + np.array(self.offsets)
        return found

    @property
    def n_labels(self) -> int | None:
        """Labels of the fit."""
        return None if self.factors is None else len(self.factors)


class Likelihood:
    """Mean negative log-likelihood of ``a z + b`` with its ridge, and its gradient in (a, b)."""

    def __init__(self, logits: NDArray[np.float64], labels: NDArray[np.int64], ridge: float) -> None:
        self._impossible = np.isneginf(logits)
        self._logits = np.where(self._impossible, 0.0, logits)
        self._own = (np.arange(len(labels)), labels)
        self._ridge = ridge / len(labels)

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the objective and its gradient."""
        k = self._logits.shape[1]
        scaled = np.where(self._impossible, -np.inf, self._logits * x[:k] + x[k:])
        log_f = log_softmax(scaled)
        away = x - np.concatenate([np.ones(k), np.zeros(k)])
        value = -float(log_f[self._own].mean()) + self._ridge * float(away @ away)
        wrong = np.exp(log_f)
        wrong[self._own] -= 1.0
        gradient = np.concatenate([(wrong * self._logits).mean(axis=0), wrong.mean(axis=0)])
        return value, gradient + 2.0 * self._ridge * away
