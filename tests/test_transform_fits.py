"""What each transform of logits fits: gradients, minima, and what other libraries fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import tightset as ts
from conftest import synthetic
from tightset import transforms
from tightset.transforms import entropy_spline, one_vs_rest, temperature, vector_scaling
from tightset.transforms.descent import minimise

INF = float("inf")


@pytest.fixture
def rows(rng):
    return synthetic(rng, 400, 5, strength=1.5)


def numeric(function, x, step=1e-6):
    """Gradient by central differences."""
    moves = step * np.eye(len(x))
    return np.array([(function(x + move) - function(x - move)) / (2 * step) for move in moves])


class TestGradients:
    @pytest.mark.parametrize("log_t", [-1.0, 0.2, 1.5])
    def test_conformal_loss(self, rows, log_t):
        logits, labels = rows
        found = temperature.conformal_loss(logits, labels, np.exp(log_t), 0.1)[1]
        (expected,) = numeric(
            lambda x: temperature.conformal_loss(logits, labels, np.exp(x[0]), 0.1)[0], np.array([log_t])
        )
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-10)

    @pytest.mark.parametrize("score", ["thr", "aps"])
    @pytest.mark.parametrize("alpha", [0.3, 0.05])
    def test_soft_size(self, rng, rows, score, alpha):
        logits, labels = rows
        logits = np.where(rng.random(logits.shape) < 0.05, -INF, logits)
        logits[np.arange(400), labels] = rows[0][np.arange(400), labels]
        u = entropy_spline.log_entropy(logits)
        basis = entropy_spline.natural_basis(u, tuple(np.quantile(u, [0.05, 0.3, 0.6, 0.95])))
        size = entropy_spline.SoftSize(logits, labels, basis, alpha, score)
        theta = 0.3 * rng.normal(size=4)
        expected = numeric(lambda x: size(x, 0.3)[0], theta)
        np.testing.assert_allclose(size(theta, 0.3)[1], expected, rtol=1e-6, atol=1e-8)

    def test_likelihood(self, rng, rows):
        logits, labels = rows
        logits = logits.copy()
        logits[::7, 0] = np.where(labels[::7] == 0, logits[::7, 0], -INF)
        objective = vector_scaling.Likelihood(logits, labels, ridge=3.0)
        x = rng.normal(size=10)
        expected = numeric(lambda point: objective(point)[0], x)
        np.testing.assert_allclose(objective(x)[1], expected, rtol=1e-6, atol=1e-8)


def test_minimiser_on_a_hard_valley():
    """Rosenbrock's function, whose minimum is 1 everywhere."""
    found = minimise(
        lambda x: (optimize.rosen(x), optimize.rosen_der(x)), np.array([-1.2, 1.0, -0.5, 2.0]), max_steps=500
    )
    np.testing.assert_allclose(found, 1.0, atol=1e-5)


def test_minimiser_where_rounding_spoils_what_it_has_learnt():
    """A quadratic with curvatures from 1e-4 to 1e8: directions of no descent are given up."""
    scales = np.array([87789916.08512785, 0.00010409523604048602, 0.5281470762021747])
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]

    def objective(x):
        z = turned @ x
        return float((scales * z**2).sum()), turned.T @ (2 * scales * z)

    start = np.array([-0.65, 0.34, 0.09])
    found = minimise(objective, start, max_steps=200, tolerance=0.0)
    assert objective(found)[0] < 1e-9 * objective(start)[0]


class TestTemperatureNLL:
    def test_it_is_the_minimum(self, rows):
        logits, labels = rows

        def loss(log_t):
            return -special.log_softmax(logits / np.exp(log_t), axis=1)[np.arange(400), labels].mean()

        best = optimize.minimize_scalar(loss, bounds=(-3, 5), method="bounded", options={"xatol": 1e-9})
        found = transforms.TemperatureNLL().fit(logits, labels).temperature
        assert np.log(found) == pytest.approx(best.x, abs=1e-5)

    def test_labels_that_are_all_right_or_all_wrong_end_at_the_bounds(self):
        logits = np.array([[1.0, 0.0], [0.0, 1.0]])
        assert transforms.TemperatureNLL().fit(logits, [0, 1]).temperature == pytest.approx(1e-4)
        assert transforms.TemperatureNLL().fit(logits, [1, 0]).temperature == pytest.approx(1e4)


class TestConfTS:
    def test_loss_is_its_formula(self, rows):
        logits, labels = rows
        for t in (0.3, 1.0, 4.0):
            scores = ts.label_scores(logits, labels, "aps", reweight=None, u=1.0, temperature=t)
            tau = ts.conformal_threshold(scores[:200], 0.1)
            expected = np.mean((tau - scores[200:]) ** 2)
            assert temperature.conformal_loss(logits, labels, t, 0.1)[0] == pytest.approx(expected, rel=1e-12)

    def test_descent_ends_lower_and_where_steps_are_small(self, rows):
        logits, labels = rows
        start = temperature.conformal_loss(logits, labels, 1.5, 0.1)[0]
        found = transforms.ConfTS(0.1).fit(logits, labels)
        loss, slope = temperature.conformal_loss(logits, labels, found.temperature, 0.1)
        assert loss < start
        assert abs(0.8 * slope) < 0.002
        once = transforms.ConfTS(0.1, max_steps=1).fit(logits, labels)
        slope = temperature.conformal_loss(logits, labels, 1.5, 0.1)[1]
        assert np.log(once.temperature) == pytest.approx(np.log(1.5) - 0.8 * slope, rel=1e-12)


class TestVectorScaling:
    def test_it_is_the_minimum(self, rows):
        logits, labels = rows
        objective = vector_scaling.Likelihood(logits, labels, ridge=1.0)
        found = transforms.VectorScaling().fit(logits, labels)
        best = optimize.minimize(objective, np.r_[np.ones(5), np.zeros(5)], jac=True, tol=1e-12)
        np.testing.assert_allclose([*found.factors, *found.offsets], best.x, atol=1e-4)

    def test_it_undoes_a_bias(self, rng):
        logits = rng.normal(size=(20_000, 3))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        found = transforms.VectorScaling().fit(logits * [2, 1, 0.5] + [1, 0, -1], labels)
        restored = found.apply(logits * [2, 1, 0.5] + [1, 0, -1])
        shift = (restored - logits).mean(axis=1, keepdims=True)
        assert np.abs(restored - logits - shift).mean() < 0.05


class TestIsotonic:
    def test_it_is_scikit_learns(self, rows):
        logits, labels = rows
        p = special.softmax(logits, axis=1)
        found = np.exp(transforms.Isotonic().fit(logits, labels).apply(logits))
        for k in range(5):
            model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p[:, k], labels == k)
            expected = (400 * model.predict(p[:, k]) + p[:, k]) / 401
            np.testing.assert_allclose(found[:, k], expected, rtol=1e-9, atol=1e-12)

    def test_order_within_a_label_is_kept(self, rows):
        logits, labels = rows
        new = transforms.Isotonic().fit(logits, labels).apply(logits)
        for k in range(5):
            p = special.log_softmax(logits, axis=1)[:, k]
            assert (np.diff(new[np.argsort(p), k]) > 0).all()


class TestSpline:
    def test_it_is_scikit_learns(self, rows, rng):
        logits, labels = rows
        new = 3 * rng.normal(size=(200, 5))  # beyond the knots too
        found = transforms.Spline().fit(logits, labels).apply(new)
        for k in range(5):
            odds = np.log(np.expm1(-special.log_softmax(logits, axis=1)[:, k]))
            new_odds = np.log(np.expm1(-special.log_softmax(new, axis=1)[:, k]))
            knots = np.quantile(-odds, np.linspace(0, 1, 5))[:, np.newaxis]
            model = make_pipeline(
                SplineTransformer(3, knots=knots, include_bias=False, extrapolation="linear"),
                LogisticRegression(C=1.0, solver="newton-cholesky"),
            ).fit(-odds[:, np.newaxis], labels == k)
            expected = model.predict_log_proba(-new_odds[:, np.newaxis])[:, 1]
            np.testing.assert_allclose(found[:, k], expected, rtol=1e-6, atol=1e-9)

    def test_a_label_that_was_not_seen_keeps_its_odds(self, rows):
        logits, labels = rows
        kept = labels != 3
        found = transforms.Spline().fit(logits[kept], labels[kept]).apply(logits)
        np.testing.assert_allclose(found[:, 3], special.log_softmax(logits, axis=1)[:, 3], rtol=1e-9)

    def test_fitting_without_scikit_learn_says_what_to_install(self, rows, monkeypatch):
        logits, labels = rows
        done = transforms.Spline().fit(logits, labels)

        def missing(name):
            raise ImportError(name)

        monkeypatch.setattr(one_vs_rest, "import_module", missing)
        for kind in (transforms.Spline, transforms.Isotonic):
            with pytest.raises(ImportError, match=r"pip install 'tightset\[sklearn\]'"):
                kind().fit(logits, labels)
        done.apply(logits)


class TestEntropySpline:
    def test_basis_is_natural_and_spans_lines(self):
        knots = (-3.0, -1.0, 0.5, 2.0)
        u = np.linspace(-3, 2, 5001)
        basis = entropy_spline.natural_basis(u, knots)
        assert np.linalg.matrix_rank(basis) == 4
        bends = np.diff(basis, n=2, axis=0) / (u[1] - u[0]) ** 2
        np.testing.assert_allclose(bends[[0, -1]], 0.0, atol=5e-3)
        third = np.diff(bends, axis=0) / (u[1] - u[0])
        inner = ~(np.abs(u[1:-2, np.newaxis] - np.array(knots)) < 0.01).any(axis=1)
        assert np.abs(np.diff(third[inner], axis=0)).max() < 1.0  # a cubic on each interval, up to rounding
        line = np.linalg.lstsq(basis, 2 * u - 1, rcond=None)[0]
        np.testing.assert_allclose(basis @ line, 2 * u - 1, atol=1e-9)
        beyond = entropy_spline.natural_basis(np.array([-800.0, 90.0]), knots)
        np.testing.assert_array_equal(beyond, basis[[0, -1]])

    @pytest.mark.parametrize("score", ["thr", "aps"])
    def test_it_learns_that_unsure_rows_need_another_temperature(self, score):
        """Half of the rows are ten times too sure: sets are smaller once they are told apart by entropy."""
        rng = np.random.default_rng(4)
        true = rng.normal(size=(6000, 4)) * 1.5
        labels = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
        logits = np.where(np.arange(6000)[:, np.newaxis] % 2, 10 * true + 1e-3, true)
        tuned = transforms.calibrate(
            logits[:3000], labels[:3000], 0.1, score, transform=transforms.EntropySpline(0.1, score)
        )
        plain = ts.calibrate(logits[:3000], labels[:3000], 0.1, score)
        sizes = [p.predict_set(logits[3000:]).sizes.mean() for p in (tuned, plain)]
        assert sizes[0] < sizes[1] - 0.05

    def test_soft_size_nears_the_size(self, rows):
        logits, labels = rows
        size = entropy_spline.SoftSize(logits, labels, np.ones((400, 1)), 0.1, "thr")
        scores = -special.log_softmax(logits / np.exp(0.4), axis=1)
        own = np.sort(scores[np.arange(400), labels])
        rank = ts.conformal_rank(400, 0.1)
        q = own[rank - 6 : rank + 5].mean()
        assert size(np.array([0.4]), 1e-6)[0] == pytest.approx((scores <= q).sum() / 400, abs=0.01)

    def test_rows_that_are_all_the_same_have_one_temperature(self):
        logits, labels = np.tile([[2.0, 1.0, 0.0]], (40, 1)), np.arange(40) % 3
        found = transforms.EntropySpline(0.2).fit(logits, labels)
        assert found.knots == ()
        assert len(found.coefficients) == 1
        assert np.isfinite(found.apply(logits)).all()

    def test_rows_without_entropy(self, rows):
        logits, labels = rows
        found = transforms.EntropySpline(0.2).fit(logits, labels)
        assert np.isfinite(found.apply([[0.0, -5000.0, -5000.0, -5000.0, -5000.0]])).all()
