"""A scikit-learn classifier with prediction sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, indexable

import tightset as ts
from tightset.integrations.class_numbers import class_numbers
from tightset.integrations.estimator_logits import METHODS, logits_of, method_for

__all__ = ["ConformalClassifier", "coverage", "negative_mean_size"]


def _offered(method: str) -> Callable[[ConformalClassifier], bool]:
    return lambda model: hasattr(getattr(model, "estimator_", model.estimator), method)


class ConformalClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier of scikit-learn, with prediction sets and p-values.

    For a new row exchangeable with the calibration rows, the predicted set contains its label with
    probability at least 1 - alpha, over the draw of both. Which rows calibrate, `cv` says.

    Parameters
    ----------
    estimator
        A classifier or a pipeline that ends in one; fitted if `cv` is ``"prefit"``.
    alpha
        Miscoverage, strictly between 0 and 1.
    recipe
        As in `tightset.calibrate`.
    cv
        A share (float): `fit` sets it aside at random for calibration and trains on the other rows.
        None: `fit` trains on all rows, and `conformalize` gets others. ``"prefit"``: `fit` calibrates the
        estimator as it is. A splitter, pairs of (train, test) positions or a number of folds: one split
        is used as it stands; with more, each row is scored by the model that did not see it, a last
        model is trained on all rows, and coverage is approximate.
    method
        Where logits come from: ``"decision_function"``, ``"predict_log_proba"``, ``"predict_proba"``,
        or ``"auto"`` for the first of these that the estimator has. Of two classes, one column d stands
        for the logits (0, d). A decision function with a column for each pair of classes is passed over.
    random_state
        Seed of the split and of the randomised scores.
    n_threads
        Threads of tightset at most; those of the estimator are its own.

    Attributes
    ----------
    estimator_
        The fitted estimator.
    classes_
        Class labels, in the order of the columns of `predict_p` and of the numbers in the sets.
    predictor_
        The `tightset.Predictor`.
    method_
        The method that gives the logits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from tightset.integrations.sklearn import ConformalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ConformalClassifier(LogisticRegression(max_iter=1000), alpha=0.1, recipe="aps", cv=0.4)
    >>> sets = model.fit(X, y).predict_set(X[:2])
    >>> len(sets), model.predict_p(X[:2]).shape
    (2, (2, 3))
    """

    def __init__(
        self,
        estimator: Any,
        alpha: float = 0.1,
        recipe: str | ts.Recipe = "er-aps",
        *,
        cv: Any = 0.25,
        method: str = "auto",
        random_state: Any = 0,
        n_threads: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.recipe = recipe
        self.cv = cv
        self.method = method
        self.random_state = random_state
        self.n_threads = n_threads

    def fit(self, X: Any, y: Any) -> Self:
        """Train the estimator and calibrate, as `cv` says."""
        if self.method not in ("auto", *METHODS):
            message = f"method must be 'auto' or one of {', '.join(METHODS)}, got {self.method!r}"
            raise ValueError(message)
        for name in ("estimator_", "predictor_", "classes_", "method_"):
            self.__dict__.pop(name, None)
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                message = f"cv must be a share, 'prefit', None or a splitter, got {self.cv!r}"
                raise ValueError(message)
            return self.conformalize(X, y)
        if y is None:
            message = f"{type(self).__name__} requires y to be passed, but the target y is None"
            raise ValueError(message)
        X, y = indexable(X, y)
        labels = _class_labels(y)
        classes = np.unique(labels)
        seed = self._seed()
        if self.cv is None:
            self._adopt(clone(self.estimator).fit(X, y), classes)
            return self
        if isinstance(self.cv, (float, np.floating)):
            splits = [_random_split(len(labels), float(self.cv), seed)]
        else:
            splits = list(check_cv(self.cv, labels, classifier=True).split(X, labels))
        models = [clone(self.estimator).fit(_rows(X, train), _rows(y, train)) for train, _ in splits]
        self._adopt(models[0] if len(models) == 1 else clone(self.estimator).fit(X, y), classes)
        tests = [test for _, test in splits]
        logits = [
            logits_of(model, self.method_, _rows(X, test), classes)
            for model, test in zip(models, tests, strict=True)
        ]
        self._calibrate(np.concatenate(logits), labels[np.concatenate(tests)], seed)
        return self

    def conformalize(self, X: Any, y: Any) -> Self:
        """Calibrate on rows that the fitted estimator was not trained on, in place of earlier ones."""
        if not hasattr(self, "estimator_"):
            check_is_fitted(self.estimator)
            self._adopt(self.estimator, np.asarray(self.estimator.classes_))
        X, y = indexable(X, y)
        logits = logits_of(self.estimator_, self.method_, X, self.classes_)
        self._calibrate(logits, _class_labels(y), self._seed())
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label that the estimator predicts for each row."""
        check_is_fitted(self, "estimator_")
        found: NDArray[Any] = self.estimator_.predict(X)
        return found

    @available_if(_offered("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the estimator, a column for each of `classes_`."""
        check_is_fitted(self, "estimator_")
        found: NDArray[Any] = np.asarray(self.estimator_.predict_proba(X))
        if np.array_equal(self.estimator_.classes_, self.classes_):
            return found
        wide = np.zeros((len(found), len(self.classes_)), dtype=found.dtype)
        wide[:, class_numbers(self.classes_, self.estimator_.classes_)[0]] = found
        return wide

    def predict_set(self, X: Any, *, allow_empty: bool = True, as_frame: bool = False) -> Any:
        """Return the prediction set of each row.

        Parameters
        ----------
        X
            Rows as the estimator takes them.
        allow_empty
            As in `Predictor.predict_set`.
        as_frame
            Whether to return a frame with a boolean column for each class: of polars if `X` is one,
            else of pandas, with the index of `X`. Otherwise, `PredictionSets` with the classes as names.
        """
        sets = self._predictor().predict_set(
            self._logits(X), allow_empty=allow_empty, n_threads=self.n_threads
        )
        sets = sets.with_names(self.classes_)
        if not as_frame:
            return sets
        return sets.to_polars(wide=True) if _is_polars(X) else sets.to_pandas(wide=True, index=_index(X))

    def predict_p(self, X: Any, *, smoothed: bool = False, as_frame: bool = False) -> Any:
        """Return the p-value of each class, as `Predictor.predict_p`; `as_frame` as in `predict_set`."""
        p = self._predictor().predict_p(self._logits(X), smoothed=smoothed, n_threads=self.n_threads)
        if not as_frame:
            return p
        if _is_polars(X):
            import polars as pl

            return pl.DataFrame(p, schema=[str(name) for name in self.classes_])
        import pandas as pd

        return pd.DataFrame(p, columns=self.classes_, index=_index(X))

    @property
    def n_features_in_(self) -> int:
        """Number of features that the estimator was trained on."""
        if not hasattr(self, "estimator_"):
            message = f"{type(self).__name__} has no n_features_in_ before fit"
            raise AttributeError(message)
        return int(self.estimator_.n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        return tags

    def _adopt(self, estimator: Any, classes: NDArray[Any]) -> None:
        self.estimator_ = estimator
        self.classes_ = classes
        self.method_ = method_for(estimator, self.method)
        if hasattr(estimator, "feature_names_in_"):
            self.feature_names_in_ = estimator.feature_names_in_

    def _calibrate(self, logits: NDArray[Any], labels: NDArray[Any], seed: int) -> None:
        numbers, unknown = class_numbers(self.classes_, labels)
        if unknown.any():
            row = int(unknown.argmax())
            message = f"y must hold classes of the estimator: found {labels[row]!r} at row {row}"
            raise ValueError(message)
        self.predictor_ = ts.calibrate(
            logits, numbers, self.alpha, self.recipe, seed=seed, n_threads=self.n_threads
        )

    def _logits(self, X: Any) -> NDArray[Any]:
        return logits_of(self.estimator_, self.method_, X, self.classes_)

    def _predictor(self) -> ts.Predictor:
        check_is_fitted(self, "predictor_")
        predictor: ts.Predictor = self.predictor_
        return predictor

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def negative_mean_size(model: ConformalClassifier, X: Any, y: Any) -> float:
    """Return minus the mean set size: ``scoring=negative_mean_size`` of a search prefers small sets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from tightset.integrations.sklearn import ConformalClassifier, negative_mean_size
    >>> model = ConformalClassifier(KNeighborsClassifier(), recipe="thr", cv=0.4)
    >>> search = GridSearchCV(model, {"estimator__n_neighbors": [1, 15]}, scoring=negative_mean_size)
    >>> search.fit(*load_iris(return_X_y=True)).best_params_
    {'estimator__n_neighbors': 15}
    """
    return -float(model.predict_set(X).sizes.mean())


def coverage(model: ConformalClassifier, X: Any, y: Any) -> float:
    """Return the share of rows whose set contains the label; usable as ``scoring=coverage``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from tightset.integrations.sklearn import ConformalClassifier, coverage
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ConformalClassifier(GaussianNB(), recipe="aps", cv=None).fit(X[::2], y[::2])
    >>> 0.8 < coverage(model.conformalize(X[1::4], y[1::4]), X[3::4], y[3::4]) <= 1
    True
    """
    numbers, unknown = class_numbers(model.classes_, _class_labels(y))
    covered = model.predict_set(X).covers(numbers) & ~unknown
    return float(covered.mean())


def _class_labels(y: Any) -> NDArray[Any]:
    labels: NDArray[Any] = column_or_1d(_plain(y), warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def _plain(y: Any) -> Any:
    return y.to_numpy() if hasattr(y, "to_numpy") else y


def _random_split(n: int, share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions to train on and to calibrate on: drawn without a look at the labels, for exactness."""
    held_out = math.ceil(n * share)
    if not 0.0 < share < 1.0 or held_out == n:
        message = (
            f"cv must be a share between 0 and 1 that leaves rows to train on, got {share} of n_samples={n}"
        )
        raise ValueError(message)
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def _rows(X: Any, positions: NDArray[np.int64]) -> Any:
    return _safe_indexing(X, positions)


def _is_polars(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "polars"


def _index(X: Any) -> Any:
    return X.index if type(X).__module__.partition(".")[0] == "pandas" else None
