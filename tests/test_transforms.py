"""What holds for every transform of logits: bits, coverage, files, refusals."""

from __future__ import annotations

import json
import pickle

import ml_dtypes
import numpy as np
import pytest
from scipy import special, stats

import conftest
import tightset as ts
from conftest import synthetic
from tightset import transforms
from tightset.document.canonical import digest
from tightset.transforms import transform
from tightset.transforms.files import KINDS

INF = float("inf")


def fitted(name, logits, labels):
    return KINDS[name]().fit(logits, labels)


@pytest.fixture
def rows(rng):
    return synthetic(rng, 400, 5, strength=1.5)


@pytest.mark.parametrize("name", KINDS)
class TestEvery:
    def test_impossible_labels_stay_so(self, name, rows):
        logits, labels = rows
        logits = logits.copy()
        logits[::3, 2] = -INF
        found = fitted(name, logits, labels)  # a third of the rows of label 2 are left out
        new = found.apply(logits)
        np.testing.assert_array_equal(np.isneginf(new), np.isneginf(logits))
        assert not np.isnan(new).any()
        assert not np.isposinf(new).any()

    def test_alone_in_blocks_and_in_any_layout(self, name, rng, monkeypatch):
        logits, labels = synthetic(rng, 300, 37, strength=4.0)
        found = fitted(name, logits, labels)
        whole = found.apply(logits)
        np.testing.assert_array_equal(found.apply(np.asfortranarray(logits)), whole)
        for i in range(0, 300, 23):
            np.testing.assert_array_equal(found.apply(logits[i])[0], whole[i])
        monkeypatch.setattr(transform, "_BLOCK_CELLS", 37 * 11)
        np.testing.assert_array_equal(found.apply(logits), whole)
        narrow = logits.astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(found.apply(narrow), found.apply(narrow.astype(np.float64)))

    def test_fit_returns_a_copy_and_is_repeatable(self, name, rows):
        logits, labels = rows
        blank = KINDS[name]()
        found = blank.fit(logits, labels)
        assert not blank.is_fitted
        assert found.is_fitted
        assert found.fit(logits, labels) == found
        with pytest.raises(ValueError, match="is not fitted"):
            blank.apply(logits)
        with pytest.raises(ValueError, match="is not fitted"):
            blank.save("x.json")
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(found, found.fitted[0], None)

    def test_probabilities(self, name, rows):
        logits, labels = rows
        p = special.softmax(logits, axis=1)
        with np.errstate(divide="ignore"):
            log_p = np.log(p)
        found = KINDS[name]().fit(p, labels, probabilities=True)
        assert found == KINDS[name]().fit(log_p, labels)
        np.testing.assert_array_equal(found.apply(p, probabilities=True), found.apply(log_p))

    def test_files(self, name, rows, tmp_path):
        logits, labels = rows
        found = fitted(name, logits, labels)
        found.save(tmp_path / "t.json")
        same = transforms.load(tmp_path / "t.json")
        assert same == found
        np.testing.assert_array_equal(same.apply(logits), found.apply(logits))
        assert pickle.loads(pickle.dumps(found)) == found
        document = json.loads((tmp_path / "t.json").read_text())
        for change, message in (
            (lambda d: d.update(format="x"), "its format is not 'tightset-transform'"),
            (lambda d: d["transforms"][0].update(kind="x"), "a transform must be one of"),
            (lambda d: d["transforms"][0].update(extra=1), "unknown field 'extra'"),
            (lambda d: d["transforms"][0].update({KINDS[name].fitted[0]: None}), "not a valid transform"),
            (lambda d: d["transforms"][0].update({KINDS[name].fitted[0]: "x"}), "not a valid transform"),
            (lambda d: d["transforms"].append(d["transforms"][0]), "not a valid transform"),
        ):
            wrong = json.loads(json.dumps(document))
            change(wrong)
            wrong["sha256"] = digest(wrong)
            (tmp_path / "w.json").write_text(json.dumps(wrong))
            with pytest.raises(ValueError, match=message):
                transforms.load(tmp_path / "w.json")

    def test_predictor(self, name, rng, tmp_path, monkeypatch):
        logits, labels = synthetic(rng, 700, 5, strength=1.5, dtype=np.float32)
        monkeypatch.setattr(transform, "_BLOCK_CELLS", 5 * 64)
        predictor = transforms.calibrate(logits[:500], labels[:500], 0.1, "aps", transform=name, seed=4)
        assert (predictor.n_tuning, predictor.n_calibration) == (125, 375)
        new, truth = logits[500:], labels[500:]
        sets = predictor.predict_set(new)
        inner = predictor.chain[0].apply(new)
        assert sets == predictor.predictor.predict_set(inner)
        scores = predictor.scores(new)
        np.testing.assert_array_equal(sets.mask, scores <= predictor.predictor.threshold)
        np.testing.assert_array_equal(predictor.scores(new, truth), scores[np.arange(200), truth])
        np.testing.assert_array_equal(predictor.predict_p(new), predictor.predictor.predict_p(inner))
        np.testing.assert_array_equal(predictor.predict_set(new[3])[0], sets[3])
        predictor.save(tmp_path / "p.json", score_table=True)
        same = transforms.load_predictor(tmp_path / "p.json")
        assert same == predictor == pickle.loads(pickle.dumps(predictor))
        assert same.predict_set(new) == sets
        np.testing.assert_array_equal(same.predict_p(new), predictor.predict_p(new))


def test_the_split_is_that_of_held_out_selection(rows):
    logits, labels = rows
    predictor = transforms.calibrate(logits, labels, 0.1, "thr", transform="temperature-nll", seed=9)
    order = ts._core.permutation(9, 400)
    held, rest = np.sort(order[:100]), np.sort(order[100:])
    expected = transforms.TemperatureNLL().fit(logits[held], labels[held])
    assert predictor.chain == (expected,)
    assert predictor.predictor == ts.calibrate(expected.apply(logits[rest]), labels[rest], 0.1, "thr", seed=9)


def test_a_chain_fits_each_on_what_those_before_it_return(rows):
    logits, labels = rows
    chain = ["vector-scaling", transforms.EntropySpline(0.2), "confts"]
    predictor = transforms.calibrate(logits, labels, 0.1, "er-aps", transform=chain)
    held = np.sort(ts._core.permutation(0, 400)[:100])
    first = transforms.VectorScaling().fit(logits[held], labels[held])
    second = transforms.EntropySpline(0.2).fit(first.apply(logits[held]), labels[held])
    third = transforms.ConfTS(0.1).fit(second.apply(first.apply(logits[held])), labels[held])
    assert predictor.chain == (first, second, third)
    assert predictor.predict_set(logits) == predictor.predictor.predict_set(
        third.apply(second.apply(first.apply(logits)))
    )


def test_probabilities_calibrate_as_their_logarithms(rows):
    logits, labels = rows
    p = ts.softmax(logits)
    options = {"recipe": "thr", "transform": "vector-scaling", "tuning": 0.5}
    found = transforms.calibrate(p, labels, 0.2, probabilities=True, **options)
    assert (found.alpha, found.n_labels) == (0.2, logits.shape[1])
    assert found.predict_set(p) == transforms.calibrate(np.log(p), labels, 0.2, **options).predict_set(
        np.log(p)
    )


def test_fitted_elsewhere_takes_no_tuning(rows):
    logits, labels = rows
    found = transforms.TemperatureNLL().fit(logits[:100], labels[:100])
    ids = np.arange(300)
    predictor = transforms.calibrate(
        logits[100:], labels[100:], 0.1, "aps", transform=found, tuning=0, row_ids=ids
    )
    assert (predictor.n_tuning, predictor.n_calibration, predictor.chain) == (0, 300, (found,))
    assert len(predictor.predict_set(logits[100:], row_ids=ids)) == 300


N, M = 160, 200


def draw(rng):
    labels = rng.integers(4, size=N + M)
    logits = rng.normal(size=(N + M, 4)) * rng.gamma(2.0, size=(N + M, 1)) + 1.5 * np.eye(4)[labels]
    return logits, labels


def standard_errors_off(calibrated, draws, n_calibration):
    """How far the mean number of covered rows is from its law, Beta(k, n + 1 - k) and then binomial."""
    rng, counts = np.random.default_rng(8), []
    for i in range(draws):
        logits, labels = draw(rng)
        sets = calibrated(logits[:N], labels[:N], i).predict_set(logits[N:])
        counts.append(sets.covers(labels[N:]).sum())
    k = ts.conformal_rank(n_calibration, 0.1)
    law = stats.betabinom(M, k, n_calibration + 1 - k)
    return (np.mean(counts) - law.mean()) / (law.std() / np.sqrt(draws))


def apart(name):
    return lambda logits, labels, seed: transforms.calibrate(
        logits, labels, 0.1, "thr", transform=name, seed=seed
    )


class TestCoverage:
    @pytest.mark.parametrize("name", KINDS)
    def test_law(self, name):
        assert abs(standard_errors_off(apart(name), 60, 120)) < 4.5

    @pytest.mark.slow
    @pytest.mark.timeout(1800)
    @pytest.mark.parametrize("name", KINDS)
    def test_law_long(self, name):
        assert abs(standard_errors_off(apart(name), 600, 120)) < 4.5

    def test_fitting_on_the_rows_that_calibrate_breaks_it(self):
        """What the split is for, and that the test above can fail."""

        def together(logits, labels, seed):
            found = transforms.Isotonic().fit(logits, labels)
            return transforms.calibrate(logits, labels, 0.1, "thr", transform=found, tuning=0, seed=seed)

        assert standard_errors_off(together, 60, N) < -6


Z, Y = np.tile(conftest.Z, (10, 1)), np.tile(conftest.Y, 10)
BAD = np.where(np.arange(120).reshape(40, 3) == 7, np.nan, Z)
DONE = transforms.VectorScaling().fit(Z, Y)


def calibrate(logits=Z, labels=Y, transform="temperature-nll", **options):
    return transforms.calibrate(logits, labels, 0.4, "aps", transform=transform, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: calibrate(BAD), ValueError, "found nan at row 2, column 1"),
        (lambda: transforms.TemperatureNLL().fit(BAD, Y), ValueError, "found nan at row 2, column 1"),
        (lambda: DONE.apply(BAD), ValueError, "found nan at row 2, column 1"),
        (lambda: calibrate().predict_set(BAD), ValueError, "found nan at row 2, column 1"),
        (lambda: calibrate(labels=np.where(Y == 2, 3, Y)), ValueError, "found 3 at row 2"),
        (lambda: DONE.fit(Z, np.where(Y == 2, 3, Y)), ValueError, "found 3 at row 2"),
        (lambda: DONE.fit(Z[:1], Y[:1]), ValueError, "at least 2 rows whose label is possible, got 1"),
        (lambda: DONE.apply(Z[:, :2]), ValueError, "must have 3 labels as in fit, got 2"),
        (lambda: calibrate().predict_set(Z[:, :2]), ValueError, "must have 3 labels as in calibration"),
        (lambda: calibrate().predict_set(Z, row_ids=Y), ValueError, "it was without row_ids"),
        (lambda: calibrate().scores(Z, Y + 2), ValueError, "found 3 at row 1"),
        (lambda: calibrate(tuning=1.0), ValueError, "tuning must be at least 0 and below 1, got 1.0"),
        (lambda: calibrate(tuning=0.01), ValueError, "at least 2 rows whose label is possible, got 0"),
        (lambda: calibrate(tuning=0), ValueError, "must be fitted where tuning is 0"),
        (lambda: calibrate(transform="platt"), ValueError, "transform must be one of .* got 'platt'"),
        (lambda: calibrate(transform=[]), TypeError, "transform must be a transform"),
        (lambda: calibrate(transform=[3]), TypeError, "or a transform, got 3"),
        (lambda: calibrate(transform=None), TypeError, "got None"),
        (lambda: transforms.TemperatureNLL(0.0), ValueError, "temperature must be positive and finite"),
        (lambda: transforms.ConfTS(0.0), ValueError, "alpha must be strictly between"),
        (lambda: transforms.ConfTS(rate=-1), ValueError, "rate must be positive and finite, got -1.0"),
        (
            lambda: transforms.ConfTS(0.01).fit(Z, Y),
            ValueError,
            "alpha=0.01: a half of them is 20",
        ),
        (lambda: transforms.EntropySpline(0.01).fit(Z, Y), ValueError, "more rows for alpha=0.01, got 40"),
        (lambda: transforms.EntropySpline(score="raps"), ValueError, "score must be 'thr' or 'aps'"),
        (lambda: transforms.EntropySpline(n_knots=1), ValueError, "n_knots must be at least 2, got 1"),
        (lambda: transforms.EntropySpline(softness=0), ValueError, "softness must be between"),
        (lambda: transforms.EntropySpline(knots=(1.0, 1.0), coefficients=(0.0, 0.0)), ValueError, "rising"),
        (
            lambda: transforms.EntropySpline(knots=(0.0, np.inf), coefficients=(0.0, 0.0)),
            ValueError,
            "knots and coefficients must be finite",
        ),
        (
            lambda: transforms.Isotonic(places=((0.0, 1.0),), levels=((0.0, 1.5),), share=0.5),
            ValueError,
            "levels must be between 0 and 1",
        ),
        (
            lambda: transforms.Spline(places=((0.0, np.inf),), cubics=((0.0,) * 4,)),
            ValueError,
            "places and coefficients must be finite",
        ),
        (lambda: transforms.VectorScaling(ridge=-1), ValueError, "ridge must be between 0 and 1e9, got -1.0"),
        (lambda: transforms.VectorScaling(factors=(1.0,)), ValueError, "one each for every label"),
        (lambda: transforms.Spline(penalty=0), ValueError, "penalty must be between"),
        (
            lambda: transforms.TemperatureNLL(1e-4).apply([[1e306, 0.0]]),
            ValueError,
            "too large for temperature",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
