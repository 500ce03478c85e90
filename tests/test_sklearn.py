"""`ConformalClassifier` keeps scikit-learn's contract and the package's guarantee."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightset as ts
from tightset.integrations.sklearn import ConformalClassifier, coverage, negative_mean_size

NAMES = np.array(["setosa", "versicolor", "virginica"])


@parametrize_with_checks(
    [
        ConformalClassifier(LogisticRegression()),
        ConformalClassifier(GaussianNB(), recipe="thr", cv=3),
    ]
)
@pytest.mark.filterwarnings("ignore::tightset.SmallCalibrationWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], NAMES[y[order]]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    return X[order] / 16, y[order]


def test_a_share_is_held_out_and_the_rest_trains(digits):
    X, y = digits
    model = ConformalClassifier(LogisticRegression(max_iter=300), alpha=0.1, recipe="aps", cv=0.5).fit(
        X[:1000], y[:1000]
    )
    assert model.predictor_.n_calibration == 500
    assert 0.86 < coverage(model, X[1000:], y[1000:]) < 0.95
    trained = model.estimator_
    # By hand: the rows that were held out are those of the seeded permutation.
    held_out = np.sort(np.random.default_rng(0).permutation(1000)[:500])
    rest = np.setdiff1d(np.arange(1000), held_out)
    by_hand = LogisticRegression(max_iter=300).fit(X[rest], y[rest])
    np.testing.assert_array_equal(by_hand.coef_, trained.coef_)
    predictor = ts.calibrate(by_hand.decision_function(X[held_out]), y[held_out], 0.1, "aps")
    assert predictor.predict_set(by_hand.decision_function(X[1000:])) == model.predict_set(X[1000:])


def test_conformalize_replaces_the_calibration(digits):
    X, y = digits
    model = ConformalClassifier(LogisticRegression(max_iter=300), recipe="thr", cv=None).fit(X[:600], y[:600])
    with pytest.raises(NotFittedError):
        model.predict_set(X[:3])
    assert model.predict(X[:3]).shape == (3,)
    model.conformalize(X[600:1200], y[600:1200])
    prefit = ConformalClassifier(model.estimator_, recipe="thr", cv="prefit").fit(X[600:1200], y[600:1200])
    assert prefit.predictor_.n_calibration == 600
    assert prefit.estimator_ is model.estimator_
    assert prefit.predict_set(X[1200:]) == model.predict_set(X[1200:])


def test_an_estimator_that_is_not_fitted_cannot_be_conformalized(iris):
    with pytest.raises(NotFittedError):
        ConformalClassifier(LogisticRegression(), cv="prefit").fit(*iris)


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (LogisticRegression(max_iter=500), "decision_function"),
        (HistGradientBoostingClassifier(max_iter=5), "decision_function"),
        (LinearDiscriminantAnalysis(), "decision_function"),
        (LinearSVC(), "decision_function"),
        (RidgeClassifier(), "decision_function"),
        (SVC(), "decision_function"),
        (GaussianNB(), "predict_log_proba"),
        (RandomForestClassifier(20, random_state=0), "predict_log_proba"),
        (KNeighborsClassifier(), "predict_proba"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "decision_function"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_rule_for_logits(estimator, method, n_classes):
    X, y = make_classification(
        600, 8, n_informative=6, n_classes=n_classes, class_sep=0.7, random_state=0, n_clusters_per_class=1
    )
    names = np.array(["b", "a", "c"])[y]
    model = ConformalClassifier(estimator, recipe="thr", alpha=0.2, cv=0.4).fit(X[:400], names[:400])
    assert model.method_ == method
    sets = model.predict_set(X[400:])
    assert sets.mask.shape == (200, n_classes)
    assert 0.7 < coverage(model, X[400:], names[400:]) <= 0.95
    assert model.predict_p(X[400:]).shape == (200, n_classes)


def test_binary_logits_are_those_of_the_probabilities():
    X, y = make_classification(400, random_state=1)
    fitted = LogisticRegression().fit(X[:200], y[:200])
    by_method = [
        ConformalClassifier(fitted, recipe="aps", cv="prefit", method=method).fit(X[200:], y[200:])
        for method in ("decision_function", "predict_log_proba", "predict_proba")
    ]
    thresholds = [
        ts.conformal_threshold(ts.label_scores(m._logits(X[200:]), y[200:], "aps", reweight=None, u=0.5), 0.1)
        for m in by_method
    ]
    np.testing.assert_allclose(thresholds, thresholds[0], rtol=1e-10)


def test_votes_by_pairs_are_no_logits(iris):
    X, y = iris
    model = ConformalClassifier(SVC(decision_function_shape="ovo"), recipe="thr")
    with pytest.raises(TypeError, match="estimator must have one of"):
        model.fit(X, y)
    by_pairs = clone(model).set_params(method="decision_function")
    four_classes = make_classification(200, 8, n_informative=6, n_classes=4, random_state=0)
    with pytest.raises(
        ValueError, match="decision_function of SVC must have a column for each of the 4 classes"
    ):
        by_pairs.fit(*four_classes)


def test_unknown_methods_and_shares_are_refused(iris):
    with pytest.raises(ValueError, match=r"method must be 'auto' or one of .*, got 'predict'"):
        ConformalClassifier(GaussianNB(), method="predict").fit(*iris)
    with pytest.raises(TypeError, match="method='decision_function': KNeighborsClassifier does not have it"):
        ConformalClassifier(KNeighborsClassifier(), method="decision_function").fit(*iris)
    with pytest.raises(ValueError, match="cv must be a share, 'prefit', None or a splitter, got 'fit'"):
        ConformalClassifier(GaussianNB(), cv="fit").fit(*iris)
    for share in (0.0, 1.0, -0.5):
        with pytest.raises(
            ValueError, match=f"cv must be a share between 0 and 1.*got {share} of n_samples=150"
        ):
            ConformalClassifier(GaussianNB(), cv=share).fit(*iris)


def test_a_random_state_of_scikit_learn_seeds_the_rest(iris):
    X, y = iris

    def fitted(state):
        model = ConformalClassifier(GaussianNB(), alpha=0.2, recipe="aps", cv=0.5, random_state=state)
        return model.fit(X, y).predictor_

    first = fitted(np.random.RandomState(3))
    assert first == fitted(np.random.RandomState(3))
    assert first.seed != fitted(np.random.RandomState(4)).seed


def test_splitters(digits):
    X, y = digits
    one = ConformalClassifier(
        GaussianNB(), recipe="thr", cv=ShuffleSplit(1, test_size=300, random_state=3)
    ).fit(X[:900], y[:900])
    assert one.predictor_.n_calibration == 300
    many = ConformalClassifier(GaussianNB(), recipe="thr", cv=KFold(5)).fit(X[:900], y[:900])
    assert many.predictor_.n_calibration == 900
    np.testing.assert_array_equal(many.estimator_.theta_, GaussianNB().fit(X[:900], y[:900]).theta_)
    assert 0.86 < coverage(many, X[900:], y[900:]) < 0.95


def test_a_class_that_training_did_not_see_cannot_occur():
    """A random split may leave a rare class out of training; its label then has an infinite score."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] > 0, "right", "left").astype(object)
    y[np.random.default_rng(0).permutation(200)[:3]] = "rare"  # in the held-out part for seed 0
    model = ConformalClassifier(LogisticRegression(), recipe="thr").fit(X, y.astype(str))
    assert model.classes_.tolist() == ["left", "rare", "right"]
    assert model.estimator_.classes_.tolist() == ["left", "right"]
    assert not model.predict_set(X).mask[:, 1].any()
    assert (model.predict_proba(X)[:, 1] == 0).all()
    assert np.isposinf(model.predictor_.calibration_scores).sum() == 3


def test_labels_that_a_fitted_estimator_does_not_know(iris):
    X, y = iris
    fitted = GaussianNB().fit(X, y)
    truth = y.copy()
    truth[4] = "zebra"
    with pytest.raises(ValueError, match=r"y must hold classes of the estimator: found .*zebra.* at row 4"):
        ConformalClassifier(fitted, cv="prefit").fit(X, truth)


def test_classes_in_an_order_of_their_own(iris):
    """Classifiers of one's own need not sort their classes."""
    X, y = iris

    class Backwards(GaussianNB):
        def predict_log_proba(self, X):
            return super().predict_log_proba(X)[:, ::-1]

    straight, backwards = GaussianNB().fit(X[:50], y[:50]), Backwards().fit(X[:50], y[:50])
    backwards.classes_ = straight.classes_[::-1]
    models = [
        ConformalClassifier(m, recipe="thr", cv="prefit").fit(X[50:], y[50:]) for m in (straight, backwards)
    ]
    first, second = (model.predict_set(X, as_frame=True) for model in models)
    assert list(second.columns) == NAMES[::-1].tolist()
    pd.testing.assert_frame_equal(first, second[first.columns])


def test_frames_in_and_out(iris):
    X, y = iris
    columns = ["a", "b", "c", "d"]
    model = ConformalClassifier(make_pipeline(StandardScaler(), LogisticRegression()), recipe="thr", cv=0.4)
    plain = clone(model).fit(X, y)
    frame = pd.DataFrame(X, columns=columns, index=np.arange(150) + 1000)
    model.fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == columns
    wide = model.predict_set(frame, as_frame=True)
    assert list(wide.columns) == NAMES.tolist()
    assert wide.index.equals(frame.index)
    np.testing.assert_array_equal(wide.to_numpy(), plain.predict_set(X).mask)
    p = model.predict_p(frame, as_frame=True)
    assert p.index.equals(frame.index)
    np.testing.assert_array_equal(p.to_numpy(), plain.predict_p(X))

    frame = pl.DataFrame(X, schema=columns)
    model = clone(model).fit(frame, pl.Series(y))
    wide = model.predict_set(frame, as_frame=True)
    assert isinstance(wide, pl.DataFrame)
    assert wide.columns == NAMES.tolist()
    np.testing.assert_array_equal(wide.to_numpy(), plain.predict_set(X).mask)
    p = model.predict_p(frame, as_frame=True)
    assert p.columns == NAMES.tolist()
    np.testing.assert_array_equal(p.to_numpy(), plain.predict_p(X))
    assert isinstance(plain.predict_set(X, as_frame=True), pd.DataFrame)


def test_names_stay_with_the_sets(iris):
    X, y = iris
    sets = ConformalClassifier(GaussianNB(), recipe="thr").fit(X, y).predict_set(X, allow_empty=False)
    tall = sets.to_pandas()
    assert all(set(labels) <= set(NAMES) for labels in tall["labels"])
    assert tall["size"].min() == 1


def test_pipeline_search_and_clone(digits):
    X, y = digits
    inside = make_pipeline(StandardScaler(), ConformalClassifier(GaussianNB(), recipe="thr"))
    inside.fit(X[:800], y[:800])
    assert inside.score(X[800:], y[800:]) == np.mean(inside.predict(X[800:]) == y[800:])
    assert inside[-1].predict_set(inside[0].transform(X[800:])).coverage(y[800:]) > 0.85

    model = ConformalClassifier(KNeighborsClassifier(), recipe="thr", cv=0.5)
    search = GridSearchCV(
        model,
        {"estimator__n_neighbors": [5, 25], "alpha": [0.05, 0.3]},
        scoring={"size": negative_mean_size, "coverage": coverage},
        refit="size",
        cv=3,
    ).fit(X[:900], y[:900])
    assert search.best_params_["alpha"] == 0.3
    assert search.best_estimator_.predict_set(X[900:]).coverage(y[900:]) > 0.65
    assert cross_val_score(model, X[:600], y[:600], cv=3).mean() > 0.8
    copied = clone(search.best_estimator_)
    assert not hasattr(copied, "predictor_")
    assert copied.get_params()["estimator__n_neighbors"] == search.best_params_["estimator__n_neighbors"]


def test_estimators_without_probabilities_offer_none(iris):
    model = ConformalClassifier(LinearSVC(), recipe="thr").fit(*iris)
    assert not hasattr(model, "predict_proba")


def test_coverage_holds_over_splits():
    """Mean coverage over many draws is rank / (n + 1), within four standard errors."""
    rng = np.random.default_rng(5)
    X, y = make_classification(
        120_000,
        6,
        n_informative=5,
        n_redundant=0,
        n_classes=4,
        class_sep=0.6,
        n_clusters_per_class=1,
        random_state=2,
    )
    fitted = GaussianNB().fit(X[:500], y[:500])
    rest = np.arange(500, len(y))
    found = []
    n = 99
    for seed in range(200):
        rows = rng.choice(rest, 600, replace=False)
        model = ConformalClassifier(fitted, 0.2, "aps", cv="prefit", random_state=seed)
        model.fit(X[rows[:n]], y[rows[:n]])
        found.append(coverage(model, X[rows[n:]], y[rows[n:]]))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - 80 / 100) < 4 * error
