"""A temperature for each row, a smooth function of its entropy, fitted for small sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import as_alpha, as_integer, as_number
from tightset.transforms.descent import minimise
from tightset.transforms.transform import Transform, log_softmax, mean_over

_TINY = np.finfo(np.float64).tiny
_GOLDEN = 0.6180339887498949
_WIDEST = 30.0
"""Largest log T, up and down, that the fit looks at."""


@dataclass(frozen=True, slots=True)
class EntropySpline(Transform):
    """``z / T(x)`` with ``T(x) = exp(s(log H(x)))``, s a natural cubic spline of the row's entropy.

    Entropy reweighting ``z / (H T)`` is the line ``s(u) = u + log T``, plain temperature scaling a constant.
    The spline is fitted by the mean size of sets with a soft edge, ``sum_y sigmoid((q - S_y) / t)``: q is
    the conformal threshold of the same rows, a mean over neighbouring ranks, and t is `softness` times the
    median distance of a label's score from q. Beyond the outermost knots s is constant.

    Parameters
    ----------
    alpha
        Level of the sets that it is fitted for.
    score
        S: ``"thr"``, -log f, or ``"aps"``, -log(1 - APS). Use a recipe of the same score after it.
    n_knots
        Knots, at quantiles of log H.
    softness
        Width of the soft edge.
    smoothness
        Weight of the mean squares of s and of its bend, which keep it from following the noise.
    max_steps
        Steps of the minimiser, in each of its rounds.
    """

    kind: ClassVar[str] = "entropy-spline"
    fitted: ClassVar[tuple[str, ...]] = ("knots", "coefficients")

    alpha: float = 0.1
    score: Literal["thr", "aps"] = "thr"
    n_knots: int = 5
    softness: float = 0.2
    smoothness: float = 0.01
    max_steps: int = 50
    knots: tuple[float, ...] | None = None
    coefficients: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        assign = object.__setattr__
        assign(self, "alpha", as_alpha(self.alpha))
        if self.score not in ("thr", "aps"):
            message = f"score must be 'thr' or 'aps', got {self.score!r}"
            raise ValueError(message)
        assign(self, "n_knots", as_integer(self.n_knots, "n_knots", 2, 50))
        assign(self, "max_steps", as_integer(self.max_steps, "max_steps", 1, 10**6))
        for name, least in (("softness", 1e-6), ("smoothness", 0.0)):
            number = as_number(getattr(self, name), name)
            assign(self, name, number)
            if not least <= number <= 1e6:
                message = f"{name} must be between {least:g} and 1e6, got {number}"
                raise ValueError(message)
        if self.knots is None and self.coefficients is None:
            return
        knots, coefficients = self.knots or (), self.coefficients or ()
        if any(a >= b for a, b in pairwise(knots)) or len(coefficients) != max(len(knots), 1):
            message = f"coefficients must belong to rising knots, got {len(coefficients)} and {len(knots)}"
            raise ValueError(message)
        if not np.isfinite([*knots, *coefficients]).all():
            message = "knots and coefficients must be finite"
            raise ValueError(message)

    def _fit(self, logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Self:
        n = len(labels)
        if _core.conformal_rank(n, self.alpha) > n:
            message = f"logits must have more rows for alpha={self.alpha}, got {n}"
            raise ValueError(message)
        u = log_entropy(logits)
        edges = np.quantile(u, np.linspace(0.02, 0.98, self.n_knots))
        knots = tuple(np.unique(edges).tolist())
        knots = () if len(knots) < 2 else knots
        basis = natural_basis(u, knots)
        penalty = self.smoothness * (_mean_squared_bend(knots) + 2.0 * basis.T @ basis / n)
        size = SoftSize(logits, labels, basis, self.alpha, self.score)
        theta = np.zeros(basis.shape[1])
        # The edge's width follows the spread of the scores, which follows T: a few rounds agree on both.
        for _ in range(4):
            width = self.softness * size.spread(theta)

            def objective(x: NDArray[np.float64], width: float = width) -> tuple[float, NDArray[np.float64]]:
                value, gradient = size(x, width)
                pull = penalty @ x
                return value + 0.5 * float(x @ pull), gradient + pull

            theta = minimise(objective, theta, max_steps=self.max_steps, tolerance=1e-6)
        return replace(self, knots=knots, coefficients=tuple(theta.tolist()))

    def log_temperature(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return s(log H) of each row."""
        assert self.knots is not None, "apply asks for a fitted one"
        assert self.coefficients is not None, "apply asks for a fitted one"
        basis = natural_basis(log_entropy(logits), self.knots)
        # Column by column: a product of matrices may add in another order for another number of rows.
        total = np.zeros(len(basis))
        for column, coefficient in zip(basis.T, self.coefficients, strict=True):
            total = total + coefficient * column
        return total

    def _apply(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        return logits / np.exp(self.log_temperature(logits))[:, np.newaxis]


def log_entropy(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log H of each row; that of the smallest float where H is 0."""
    return np.log(np.maximum(_core.uncertainty(logits, "entropy"), _TINY))


def natural_basis(u: NDArray[np.float64], knots: Sequence[float]) -> NDArray[np.float64]:
    """Return a basis of natural cubic splines at u, held constant beyond the outermost knots.

    One column for each knot: 1, u, and for each knot but the last two the truncated cubics of Hastie et al.
    (The Elements of Statistical Learning, section 5.2.1), u scaled so that the knots reach from 0 to 1.
    """
    if not knots:
        return np.ones((len(u), 1))
    first, last = knots[0], knots[-1]
    x = (np.clip(u, first, last) - first) / (last - first)
    places = [(knot - first) / (last - first) for knot in knots]

    def truncated(k: int) -> NDArray[np.float64]:
        # The last knot's own cubic is 0 wherever x is.
        above = np.maximum(x - places[k], 0.0)
        cubic: NDArray[np.float64] = above * above * above / (1.0 - places[k])
        return cubic

    columns = [np.ones(len(x)), x]
    columns += [truncated(k) - truncated(len(knots) - 2) for k in range(len(knots) - 2)]
    return np.stack(columns, axis=1)


def _mean_squared_bend(knots: Sequence[float]) -> NDArray[np.float64]:
    """Return the matrix whose quadratic form is the mean square of s'' between the outermost knots, twice."""
    n = max(len(knots), 1)
    if n < 3:
        return np.zeros((n, n))
    grid = np.linspace(knots[0], knots[-1], 401)
    bends = np.diff(natural_basis(grid, knots), n=2, axis=0) * 400.0**2
    return 2.0 * bends.T @ bends / len(bends)


class SoftSize:
    """Mean size of sets with a soft edge, and its gradient in the spline's coefficients."""

    def __init__(
        self,
        logits: NDArray[np.float64],
        labels: NDArray[np.int64],
        basis: NDArray[np.float64],
        alpha: float,
        score: str,
    ) -> None:
        order = np.argsort(-logits, axis=1, kind="stable")
        ordered = np.take_along_axis(logits, order, axis=1)
        self._gaps = ordered[:, :1] - ordered
        self._own = (np.arange(len(labels)), np.argmax(order == labels[:, np.newaxis], axis=1))
        self._basis = basis
        self._score = score
        n = len(labels)
        # U of APS, spread evenly over the rows: one number for all would tie the top labels of sure rows.
        self._share = np.log1p(-((np.arange(1, n + 1) * _GOLDEN) % 1.0))
        rank = _core.conformal_rank(n, alpha)
        # The threshold is a mean of neighbouring ranks: the rank itself would tie it to one row.
        reach = min(int(np.sqrt(n) / 4), rank - 1, n - rank)
        self._ranks = slice(rank - 1 - reach, rank + reach)

    def __call__(self, theta: NDArray[np.float64], width: float) -> tuple[float, NDArray[np.float64]]:
        """Return the mean soft size and its gradient, for a width of the edge."""
        if np.abs(self._basis @ theta).max() > _WIDEST:
            return float("inf"), np.zeros(len(theta))  # a step too far, which the minimiser halves
        scores, slopes = self._scores(theta)
        q, rows = self._threshold(scores)
        with np.errstate(over="ignore"):
            inside = 1.0 / (1.0 + np.exp(-(q - scores) / width))
        weights = inside * (1.0 - inside) / width
        own_slopes = slopes[self._own]
        # By the chain rule: q moves with the rows that make it, each score with its own row.
        q_gradient = (own_slopes[rows, np.newaxis] * self._basis[rows]).mean(axis=0)
        gradient = weights.sum() * q_gradient - mean_over(weights, slopes) @ self._basis
        n = len(scores)
        return float(inside.sum()) / n, gradient / n

    def spread(self, theta: NDArray[np.float64]) -> float:
        """Return the median distance of a label's score from the threshold."""
        scores, _ = self._scores(theta)
        q, _ = self._threshold(scores)
        found = float(np.median(np.abs(scores[self._own] - q)))
        return max(found, 1e-6)

    def _threshold(self, scores: NDArray[np.float64]) -> tuple[float, NDArray[np.int64]]:
        own = scores[self._own]
        rows = np.argsort(own, kind="stable")[self._ranks]
        return float(own[rows].mean()), rows

    def _scores(self, theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores of all labels by rank, and their derivatives in log T of the row."""
        beta = np.exp(-(self._basis @ theta))[:, np.newaxis]
        scaled = self._gaps * beta
        log_f = log_softmax(-scaled)
        # d log f_y / d log T = scaled gap of y less its mean.
        expected = mean_over(np.exp(log_f), scaled)[:, np.newaxis]
        if self._score == "thr":
            return -log_f, expected - scaled
        tail, tail_mean = _tails(log_f, scaled, self._share)
        return -tail, expected - tail_mean


def _tails(
    log_f: NDArray[np.float64], scaled: NDArray[np.float64], share: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return log((1 - U) f_r + sum of f after r), and the mean scaled gap under those weights, for each rank.

    `share` is log(1 - U). In logarithms, which gaps have since none is below 0: nothing underflows.
    """
    possible = ~np.isneginf(log_f)
    with np.errstate(divide="ignore"):
        log_moment = np.where(possible, log_f + np.log(np.where(possible, scaled, 1.0)), -np.inf)
    tail = np.logaddexp(log_f + share[:, np.newaxis], _after(log_f))
    moment = np.logaddexp(log_moment + share[:, np.newaxis], _after(log_moment))
    return tail, np.exp(np.where(np.isneginf(tail), -np.inf, moment) - np.where(np.isneginf(tail), 0.0, tail))


def _after(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the sum of what stands after each place of its row."""
    found = np.full(logs.shape, -np.inf)
    found[:, :-1] = np.logaddexp.accumulate(logs[:, :0:-1], axis=1)[:, ::-1]
    return found
