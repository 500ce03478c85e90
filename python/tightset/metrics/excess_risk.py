"""Excess risk of the target coverage (ERT): how well coverage can be predicted from where a row is.

Braun, Holzmüller, Jordan & Bach, "Conditional coverage diagnostics for conformal prediction" (2025). If
coverage is 1 - alpha wherever a row is, no classifier of "covered or not" beats the constant 1 - alpha. What
one does gain over it, on rows that it was not fitted on, is in expectation a lower bound of how far
conditional coverage is from 1 - alpha; the better the classifier, the nearer.

Their package `covmetrics` needs torch and pandas; this is the same number, with scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import ArrayLike, as_alpha, as_features, as_integer, as_seed
from tightset.extras import missing
from tightset.metrics.marginal import covers
from tightset.sets import PredictionSets


@dataclass(frozen=True, slots=True)
class ExcessRisk:
    """What a classifier of coverage gains over the constant 1 - alpha; 0 or below if it finds nothing.

    Attributes
    ----------
    l1
        Bounds the mean of ``|c(x) - (1 - alpha)|``, c(x) the coverage given x, from below.
    under, over
        Its parts from rows where the classifier sees too little and too much coverage.
    l2, kl
        The same bound of the mean of ``(c(x) - (1 - alpha))**2`` (from the Brier score) and of the
        Kullback-Leibler divergence (from the logarithmic loss).
    l1_error
        Standard error of `l1` for fitted classifiers: what redrawing the rows to measure on would change.
    folds
        How many classifiers were fitted.
    conditional_coverage
        What each row's coverage was predicted to be, by the classifier that had not seen it, shape (n,).
    """

    l1: float
    under: float
    over: float
    l2: float
    kl: float
    l1_error: float
    folds: int
    conditional_coverage: NDArray[np.float64] = field(repr=False, compare=False)


def excess_risk(
    sets: PredictionSets,
    labels: ArrayLike,
    features: ArrayLike,
    alpha: float,
    *,
    classifier: Any = None,
    folds: int = 5,
    seed: int = 0,
) -> ExcessRisk:
    """Return the excess risk of the target coverage (ERT), by a cross-fitted classifier.

    Parameters
    ----------
    sets, labels
        As in `coverage`.
    features
        Where rows are, shape (n, d): inputs, an embedding, or the logits.
    alpha
        Miscoverage that was asked for.
    classifier
        A classifier of scikit-learn with `predict_proba`, cloned for each fold. By default gradient
        boosting, ``HistGradientBoostingClassifier(early_stopping=True)`` with a fixed random state.
    folds
        Parts of the rows; each is predicted by a classifier fitted on the others.
    seed
        Seed of the folds.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))
    >>> labels = rng.integers(2, size=4000)
    >>> kept = rng.uniform(size=4000) < 1 / (1 + np.exp(-2.5 - 2 * x[:, 0]))
    >>> sets = ts.PredictionSets(np.arange(4001), np.where(kept, labels, 1 - labels).astype(np.int32), 2)
    >>> found = ts.metrics.excess_risk(sets, labels, x, alpha=0.1, classifier=LogisticRegression())
    >>> round(found.l1, 2), round(found.under, 2), round(found.over, 2)
    (0.15, 0.11, 0.03)
    """
    covered = covers(sets, labels).astype(np.float64)
    where = as_features(features, len(sets))
    aim = 1.0 - as_alpha(alpha)
    n_folds = as_integer(folds, "folds", 2, len(sets)) if len(sets) > 1 else 0
    if not n_folds:
        message = f"sets must have at least two rows, got {len(sets)}"
        raise ValueError(message)
    model = _default_classifier() if classifier is None else classifier
    guess = _cross_fitted(model, where, covered, n_folds, as_seed(seed))
    under, over = (guess < aim) * (aim - covered), (guess > aim) * (covered - aim)
    gain = under + over
    # The clip keeps a certain and wrong guess from costing infinitely much, as in covmetrics.
    sure = guess.clip(1e-6, 1.0 - 1e-6)
    logs = covered * np.log(sure / aim) + (1.0 - covered) * np.log((1.0 - sure) / (1.0 - aim))
    guess.setflags(write=False)
    return ExcessRisk(
        l1=float(gain.mean()),
        under=float(under.mean()),
        over=float(over.mean()),
        l2=float(((aim - covered) ** 2 - (guess - covered) ** 2).mean()),
        kl=float(logs.mean()),
        l1_error=float(gain.std() / np.sqrt(len(gain))),
        folds=n_folds,
        conditional_coverage=guess,
    )


def _cross_fitted(
    model: Any, where: NDArray[np.float64], covered: NDArray[np.float64], folds: int, seed: int
) -> NDArray[np.float64]:
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits  # a dependency of scikit-learn

    order = _core.permutation(seed, len(where))
    guess = np.empty(len(where))
    for fold in range(folds):
        held = order[fold::folds]
        rest = np.setdiff1d(order, held)
        kinds = covered[rest].astype(np.int64)
        if kinds.min() == kinds.max():
            guess[held] = kinds[0]  # nothing to tell apart
            continue
        # Small trees are fitted faster by one thread, and on a busy machine by far.
        with threadpool_limits(limits=1, user_api="openmp"):
            fitted = clone(model).fit(where[rest], kinds)
            guess[held] = fitted.predict_proba(where[held])[:, 1]
    return guess


def _default_classifier() -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError as error:
        message = missing("excess_risk needs", "scikit-learn", "sklearn")
        raise ImportError(message) from error
    return HistGradientBoostingClassifier(early_stopping=True, random_state=0)
