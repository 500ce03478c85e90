"""Each label's probability calibrated by itself, through scikit-learn; its result is kept as plain numbers.

Probabilities of one label against the rest need not sum to 1. They are not divided by their sum either: a
row's logits are read up to a constant, so their logarithms say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import as_integer, as_number
from tightset.extras import missing
from tightset.scores import THR, Scoring
from tightset.transforms.transform import Transform

_TINY = np.finfo(np.float64).tiny
_MOST_ODDS = 1e300
"""For labels that have no rivals, whose log-odds are infinite."""

_THR = Scoring(THR()).core


@dataclass(frozen=True, slots=True)
class Isotonic(Transform):
    """A rising step function of each label's probability (Zadrozny & Elkan 2002), by scikit-learn.

    Steps tie many rows, and their ends are 0 and 1, which no finite number of rows can tell. So a share of
    ``1 / (n + 1)`` of the probability itself is mixed in, n the rows of the fit: what differed still does.
    Fitting needs the extra ``sklearn``; applying does not.
    """

    kind: ClassVar[str] = "isotonic"
    fitted: ClassVar[tuple[str, ...]] = ("places", "levels", "share")

    places: tuple[tuple[float, ...], ...] | None = None
    levels: tuple[tuple[float, ...], ...] | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if self.places is None and self.levels is None and self.share is None:
            return
        share = as_number(self.share, "share")
        if not 0.0 < share < 1.0:
            message = f"share must be between 0 and 1, got {share}"
            raise ValueError(message)
        _check_curves(self.places, self.levels, "places", "levels")
        assert self.levels is not None, "curves were checked"
        if not all(0.0 <= v <= 1.0 for level in self.levels for v in level):
            message = "levels must be between 0 and 1"
            raise ValueError(message)

    def _fit(self, logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Self:
        regression = _sklearn("isotonic").IsotonicRegression
        p = _softmax(logits)
        places, levels = [], []
        for k in range(p.shape[1]):
            model = regression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(p[:, k], labels == k)
            places.append(tuple(model.X_thresholds_.astype(np.float64).tolist()))
            levels.append(tuple(model.y_thresholds_.astype(np.float64).tolist()))
        share = 1.0 / (len(labels) + 1)
        return replace(self, places=tuple(places), levels=tuple(levels), share=share)

    def _apply(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        assert self.places is not None, "apply asks for a fitted one"
        assert self.levels is not None, "apply asks for a fitted one"
        assert self.share is not None, "apply asks for a fitted one"
        p = _softmax(logits)
        found = np.empty_like(p)
        for k, (x, y) in enumerate(zip(self.places, self.levels, strict=True)):
            mixed = (1.0 - self.share) * np.interp(p[:, k], x, y) + self.share * p[:, k]
            found[:, k] = np.log(np.maximum(mixed, _TINY))
        return found

    @property
    def n_labels(self) -> int | None:
        """Labels of the fit."""
        return None if self.places is None else len(self.places)


@dataclass(frozen=True, slots=True)
class Spline(Transform):
    """A smooth function of each label's log-odds (Lucena 2018), by scikit-learn.

    Logistic regression of "is it label k" on a cubic spline of ``log(f_k / (1 - f_k))``, continued as a line
    beyond the knots, which are at quantiles. Fitting needs the extra ``sklearn``; applying does not.

    Parameters
    ----------
    n_knots
        Knots.
    penalty
        Strength of the ridge on the spline's coefficients, ``1 / C`` in scikit-learn.
    """

    kind: ClassVar[str] = "spline"
    fitted: ClassVar[tuple[str, ...]] = ("places", "cubics")

    n_knots: int = 5
    penalty: float = 1.0
    places: tuple[tuple[float, ...], ...] | None = None
    cubics: tuple[tuple[float, ...], ...] | None = None
    """For each label, four coefficients by falling power for each interval between places."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_knots", as_integer(self.n_knots, "n_knots", 2, 50))
        object.__setattr__(self, "penalty", as_number(self.penalty, "penalty"))
        if not 1e-9 <= self.penalty <= 1e9:
            message = f"penalty must be between 1e-9 and 1e9, got {self.penalty}"
            raise ValueError(message)
        if self.places is None and self.cubics is None:
            return
        for x, c in zip(self.places or (), self.cubics or (), strict=True):
            if any(a >= b for a, b in pairwise(x)) or len(c) != 4 * max(len(x) - 1, 1):
                message = "places must rise, with four coefficients for each interval"
                raise ValueError(message)
            if not np.isfinite([*x, *c]).all():
                message = "places and coefficients must be finite"
                raise ValueError(message)

    def _fit(self, logits: NDArray[np.float64], labels: NDArray[np.int64]) -> Self:
        odds = log_odds(logits)
        places, cubics = [], []
        for k in range(odds.shape[1]):
            x, c = self._fit_label(odds[:, k], labels == k)
            places.append(x)
            cubics.append(c)
        return replace(self, places=tuple(places), cubics=tuple(cubics))

    def _fit_label(
        self, odds: NDArray[np.float64], is_label: NDArray[np.bool_]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        usable = np.abs(odds) < _MOST_ODDS
        shares = np.linspace(0.0, 1.0, self.n_knots if usable.any() else 0)
        knots: NDArray[np.float64] = np.unique(np.quantile(odds[usable], shares)) if usable.any() else shares
        if len(knots) < 2 or len(np.unique(is_label[usable])) < 2:
            # Nothing to learn from: the label keeps its log-odds, the cubic of one interval that is a line.
            return (0.0,), (0.0, 0.0, 1.0, 0.0)
        from scipy.interpolate import BSpline, PPoly  # scikit-learn brings it

        spline = _sklearn("preprocessing").SplineTransformer(
            degree=3, knots=knots[:, np.newaxis], include_bias=False, extrapolation="linear"
        )
        features = spline.fit_transform(odds[usable, np.newaxis])
        model = _sklearn("linear_model").LogisticRegression(C=1.0 / self.penalty, solver="newton-cholesky")
        model.fit(features, is_label[usable])
        # The last basis function is the one left out.
        weights = np.append(model.coef_[0], 0.0)
        basis = spline.bsplines_[0]
        curve = PPoly.from_spline(BSpline(basis.t, weights, basis.k))
        inner = (curve.x >= knots[0]) & (curve.x < knots[-1])
        starts = np.flatnonzero(inner & (np.diff(curve.x, append=np.inf) > 0))
        coefficients = curve.c[:, starts].copy()
        coefficients[3] += model.intercept_[0]
        return tuple(knots.tolist()), tuple(coefficients.T.ravel().tolist())

    def _apply(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        assert self.places is not None, "apply asks for a fitted one"
        assert self.cubics is not None, "apply asks for a fitted one"
        odds = log_odds(logits)
        found: NDArray[np.float64] = np.empty(odds.shape)
        for k, (x, c) in enumerate(zip(self.places, self.cubics, strict=True)):
            value = cubic_with_lines(odds[:, k], np.array(x), np.array(c).reshape(-1, 4))
            found[:, k] = -np.logaddexp(0.0, -value)
        return found

    @property
    def n_labels(self) -> int | None:
        """Labels of the fit."""
        return None if self.places is None else len(self.places)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = _core.softmax(logits, gamma=0.0, power=0.0, temperature=1.0)
    return found


def log_odds(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(f / (1 - f)) of every label: the ranked THR score of the core, with its sign changed."""
    return np.clip(-_core.all_scores(logits, _THR, ranked=True, seed=0), -_MOST_ODDS, _MOST_ODDS)


def cubic_with_lines(
    u: NDArray[np.float64], places: NDArray[np.float64], cubics: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return piecewise cubics at u, continued by their tangents beyond the first and last place."""
    inside = u if len(places) < 2 else np.clip(u, places[0], places[-1])
    piece = np.clip(np.searchsorted(places, inside, side="right") - 1, 0, len(cubics) - 1)
    a, b, c, d = cubics[piece].T
    x = inside - places[piece]
    value = ((a * x + b) * x + c) * x + d
    slope = (3.0 * a * x + 2.0 * b) * x + c
    found: NDArray[np.float64] = value + slope * (u - inside)
    return found


def _check_curves(
    places: tuple[tuple[float, ...], ...] | None,
    levels: tuple[tuple[float, ...], ...] | None,
    *names: str,
) -> None:
    for x, y in zip(places or (), levels or (), strict=True):
        rises = all(a < b for a, b in pairwise(x)) and all(a <= b for a, b in pairwise(y))
        if not x or len(x) != len(y) or not rises:
            message = f"{' and '.join(names)} must rise together, one for one"
            raise ValueError(message)


def _sklearn(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        message = missing("fitting this transform needs", "scikit-learn", "sklearn")
        raise ImportError(message) from error
