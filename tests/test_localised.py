"""Localised prediction: its law of coverage, a plain definition, and draws that belong to rows."""

from __future__ import annotations

import copy
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import stats

import tightset as ts
from conftest import synthetic
from tightset import localised
from tightset.localised import predictor as predictor_module
from tightset.localised import row_draws
from tightset.localised.bandwidth import auto_bandwidth

N, M = 40, 50  # rows that calibrate, and test rows a draw


def draw(rng, rows):
    """Rows whose difficulty depends on where they are."""
    where = rng.uniform(-1, 1, size=(rows, 2))
    labels = rng.integers(4, size=rows)
    logits = rng.normal(size=(rows, 4)) * np.exp(1.5 * where[:, :1]) + 3 * np.eye(4)[labels]
    return logits, labels, where


def coverages(kernel, draws, seed=3):
    """Coverage and shares of smoothed p-values up to 0.1 and 0.5, one line for each draw of all rows."""
    rng, lines = np.random.default_rng(seed), []
    bandwidth = 0.3 if kernel == "gaussian" else 0.7
    for _ in range(draws):
        logits, labels, where = draw(rng, N + M)
        predictor = localised.calibrate(
            logits[:N], labels[:N], 0.1, features=where[:N], kernel=kernel, bandwidth=bandwidth
        )
        covered = predictor.predict_set(logits[N:], where[N:]).covers(labels[N:])
        p = predictor.predict_p(logits[N:], where[N:], smoothed=True)[np.arange(M), labels[N:]]
        lines.append([covered.mean(), (p <= 0.1).mean(), (p <= 0.5).mean()])
    return np.array(lines)


def z_scores(lines, expected):
    """Draws are independent, rows within one are not: the error is that of the draws' means."""
    return (lines.mean(axis=0) - expected) / (lines.std(axis=0) / np.sqrt(len(lines)))


def without_own_weight(monkeypatch):
    plain = localised.LocalisedPredictor._weights

    def weights(self, *arguments):
        found, total = plain(self, *arguments)
        return found, total if self.kernel == "box" else found.sum(axis=1)

    monkeypatch.setattr(localised.LocalisedPredictor, "_weights", weights)
    # A box counts rows, and the new row's own is in the rank.
    monkeypatch.setattr(
        predictor_module, "conformal_rank", lambda n, alpha: max(1, math.ceil(n * (1 - alpha)))
    )


def check_the_law(kernel, draws):
    covered, *small = z_scores(coverages(kernel, draws), [0.9, 0.1, 0.5])
    assert covered > -4
    assert np.abs(small).max() < 4, "smoothed p-values are exactly uniform"


def check_the_power(kernel, draws, monkeypatch):
    without_own_weight(monkeypatch)
    assert z_scores(coverages(kernel, draws), [0.9, 0.1, 0.5])[0] < -4, "a missing own weight must be noticed"


@pytest.mark.parametrize("kernel", ["gaussian", "box"])
def test_marginal_coverage(kernel):
    check_the_law(kernel, 300)


@pytest.mark.parametrize("kernel", ["gaussian", "box"])
def test_marginal_coverage_needs_the_rows_own_weight(kernel, monkeypatch):
    check_the_power(kernel, 300, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kernel", ["gaussian", "box"])
def test_marginal_coverage_over_many_draws(kernel, monkeypatch):
    check_the_law(kernel, 2000)
    check_the_power(kernel, 2000, monkeypatch)


def test_coverage_is_more_even_than_that_of_one_threshold(rng):
    logits, labels, where = draw(rng, 6000)
    plain = ts.calibrate(logits[:3000], labels[:3000], 0.1, "thr").predict_set(logits[3000:])
    predictor = localised.calibrate(
        logits[:3000], labels[:3000], 0.1, "thr", features=where[:3000], bandwidth=0.1
    )
    local = predictor.predict_set(logits[3000:], where[3000:])
    hard = where[3000:, 0] > 0.5
    assert plain.covers(labels[3000:])[hard].mean() < 0.8
    assert local.covers(labels[3000:])[hard].mean() > 0.86


def brute_force(predictor, scores, where, logits, features):
    """Sets by the formula of the paper, row by row, with the shifts of the package."""
    n_columns = where.shape[1]
    masks = []
    for row, x in zip(logits, features, strict=True):
        key = row_draws.row_keys(x[np.newaxis], predictor.seed, None)
        p = np.zeros(predictor.n_labels)
        for times in range(predictor.draws):
            if predictor.kernel == "gaussian":
                point = x + predictor.bandwidth * row_draws.normals(key, n_columns, times)[0]
                squares = ((np.vstack([where, x]) - point) ** 2).sum(axis=1)
                weights = np.exp(-squares / (2 * predictor.bandwidth**2))
            else:
                point = x + predictor.bandwidth * row_draws.in_unit_ball(key, n_columns, times)[0]
                weights = (np.linalg.norm(where - point, axis=1) <= predictor.bandwidth).astype(float)
                weights = np.append(weights, 1.0)
            weights /= weights.sum()
            own = ts.all_scores(
                row[np.newaxis], predictor.scoring.score, reweight=predictor.scoring.reweight, ranked=True
            )[0]
            for y in range(predictor.n_labels):
                p[y] += (weights[:-1] @ (scores >= own[y]) + weights[-1]) / predictor.draws
        masks.append(p > predictor.alpha)
    return np.array(masks)


@pytest.mark.parametrize("kernel", ["gaussian", "box"])
@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("score", ["aps", "raps", ts.MIXED(0.3)])
def test_sets_are_those_of_the_definition(rng, kernel, draws, score):
    logits, labels, where = draw(rng, 260)
    predictor = localised.calibrate(
        logits[:200],
        labels[:200],
        0.13,
        score,
        reweight="entropy",
        features=where[:200],
        kernel=kernel,
        bandwidth=0.4,
        draws=draws,
    )
    scores = ts.label_scores(logits[:200], labels[:200], score, ranked=True)
    expected = brute_force(predictor, scores, where[:200], logits[200:], where[200:])
    found = predictor.predict_set(logits[200:], where[200:])
    assert np.array_equal(found.mask, expected)
    assert np.array_equal(predictor.predict_p(logits[200:], where[200:]) > 0.13, expected)


def test_a_wide_kernel_is_the_split_predictor(rng):
    logits, labels = synthetic(rng, 500, 5)
    predictor = localised.calibrate(logits[:300], labels[:300], 0.1, bandwidth=1e6)
    plain = ts.calibrate(logits[:300], labels[:300], 0.1, "aps")
    assert predictor.predict_set(logits[300:]) == plain.predict_set(logits[300:])
    box = localised.calibrate(logits[:300], labels[:300], 0.1, kernel="box", bandwidth=1e6)
    assert np.array_equal(box.thresholds(logits[300:]), np.full(200, plain.threshold))
    assert np.array_equal(box.predict_p(logits[300:]), plain.predict_p(logits[300:]))


def test_rank_of_a_box_is_exact():
    """99 equal rows at alpha 0.1 take the 90th score, however alpha is written."""
    logits = np.random.default_rng(0).normal(size=(99, 3))
    labels = np.zeros(99, np.int64)
    scores = np.sort(ts.label_scores(logits, labels, "thr", reweight=None, ranked=True))
    for alpha in (0.1, 1 - 0.9):
        predictor = localised.calibrate(
            logits, labels, alpha, "thr", features=np.zeros((99, 1)), kernel="box", bandwidth=1.0
        )
        assert predictor.thresholds(logits[:1], np.zeros((1, 1))) == scores[89]


def test_a_row_alone_gets_all_labels(rng):
    logits, labels, where = draw(rng, 300)
    for kernel in ("gaussian", "box"):
        predictor = localised.calibrate(logits, labels, 0.1, features=where, kernel=kernel, bandwidth=0.5)
        far = predictor.predict_set(logits[:1], [[1e8, -1e8]])
        assert far.sizes.tolist() == [4]
        assert np.isposinf(predictor.thresholds(logits[0], [1e8, -1e8])).all()


def test_a_row_has_the_same_set_in_any_batch(rng, monkeypatch):
    logits, labels = synthetic(rng, 700, 5)
    predictor = localised.calibrate(logits[:400], labels[:400], 0.1, bandwidth=0.2, draws=2)
    whole = predictor.predict_set(logits[400:])
    assert all(np.array_equal(predictor.predict_set(row)[0], whole[i]) for i, row in enumerate(logits[400:]))
    order = rng.permutation(300)
    assert predictor.predict_set(logits[400:][order]) == whole[order]
    monkeypatch.setattr(predictor_module, "_BLOCK", 3 * 400)
    assert predictor.predict_set(logits[400:]) == whole
    assert predictor.predict_set(logits[400:400]).mask.shape == (0, 5)


def test_memory_does_not_grow_with_the_rows(rng, monkeypatch):
    logits, labels = synthetic(rng, 2000, 20)
    predictor = localised.calibrate(logits[:1000], labels[:1000], 0.1, bandwidth=0.3)
    monkeypatch.setattr(predictor_module, "_BLOCK", 100 * 1000)
    peaks = []
    for times in (1, 8):
        new = np.tile(logits[1000:], (times, 1))
        tracemalloc.start()
        predictor.thresholds(new)
        peaks.append(tracemalloc.get_traced_memory()[1] - 8 * len(new))
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 8 * 100 * 1000 * 4


def test_seed_and_ids_change_draws(rng):
    rows = rng.normal(size=(500, 3))
    keys = row_draws.row_keys(rows, 0, None)
    assert len(np.unique(keys)) == 500
    assert np.array_equal(keys[7:8], row_draws.row_keys(rows[7:8], 0, None))
    assert not (keys == row_draws.row_keys(rows, 1, None)).any()
    ids = np.arange(500, dtype=np.uint64)
    assert not (keys == row_draws.row_keys(rows, 0, ids)).any()
    assert len(np.unique(row_draws.row_keys(np.zeros((500, 3)), 0, ids))) == 500
    assert not (keys == row_draws.row_keys(rows[:, ::-1].copy(), 0, None)).any()
    signs = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert len(np.unique(row_draws.row_keys(signs, 0, None))) == 1


@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_draws_have_their_law(n_columns):
    rows = np.random.default_rng(1).normal(size=(20_000, 3))
    keys = row_draws.row_keys(rows, 5, None)
    found = row_draws.normals(keys, n_columns)
    assert found.shape == (20_000, n_columns)
    for column in found.T:
        assert stats.kstest(column, "norm").pvalue > 1e-4
    together = np.column_stack([found, row_draws.normals(keys, n_columns, 1), rows])
    correlation = np.corrcoef(together.T)
    assert np.abs(correlation - np.eye(len(correlation))).max() < 5 / np.sqrt(20_000)
    ball = row_draws.in_unit_ball(keys, n_columns)
    assert stats.kstest(np.linalg.norm(ball, axis=1) ** n_columns, "uniform").pvalue > 1e-4
    assert np.abs(ball.mean(axis=0)).max() < 5 / np.sqrt(20_000)
    assert stats.kstest(row_draws.uniforms(keys), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("kernel", ["gaussian", "box"])
def test_auto_bandwidth_spends_rows_and_leaves_few_alone(rng, kernel):
    logits, labels, where = draw(rng, 3000)
    predictor = localised.calibrate(logits[:2000], labels[:2000], 0.1, features=where[:2000], kernel=kernel)
    assert predictor.n_calibration == 1500
    infinite = np.isinf(predictor.thresholds(logits[2000:], where[2000:])).mean()
    assert infinite < 0.1
    finer = localised.calibrate(
        logits[:2000],
        labels[:2000],
        0.1,
        features=where[:2000],
        kernel=kernel,
        bandwidth=predictor.bandwidth / 8,
    )
    assert np.isinf(finer.thresholds(logits[2000:], where[2000:])).mean() > 0.5


def test_auto_bandwidth_follows_the_scale(rng):
    where = rng.normal(size=(300, 2))
    for kernel in ("gaussian", "box"):
        # The draws are other ones, as the rows are.
        one, thousand = (auto_bandwidth(where * c, kernel, 0.1, 1000, 0) for c in (1.0, 1000.0))
        assert thousand / one == pytest.approx(1000, rel=0.25)
    assert auto_bandwidth(np.ones((50, 2)), "gaussian", 0.1, 150, 0) == 1.0


def test_options_reach_the_scores(rng):
    logits, labels, where = draw(rng, 400)
    ids = rng.integers(2**40, size=400)
    given = {"features": where[:300], "row_ids": ids[:300], "seed": 9, "bandwidth": 0.5}
    predictor = localised.calibrate(logits[:300], labels[:300], 0.1, "aps", temperature=2.0, **given)
    scores = ts.label_scores(
        logits[:300],
        labels[:300],
        "aps",
        reweight=None,
        temperature=2.0,
        seed=9,
        row_ids=ids[:300],
        ranked=True,
    )
    assert np.array_equal(predictor.calibration_scores, np.sort(scores))
    sets = predictor.predict_set(logits[300:], where[300:], row_ids=ids[300:])
    own = ts.all_scores(
        logits[300:], "aps", reweight=None, temperature=2.0, seed=9, row_ids=ids[300:], ranked=True
    )
    cut = predictor.thresholds(logits[300:], where[300:], row_ids=ids[300:])
    assert np.array_equal(sets.mask, own <= cut[:, np.newaxis])
    probabilities = ts.softmax(logits)
    as_given = localised.calibrate(probabilities[:300], labels[:300], 0.1, probabilities=True, bandwidth=0.3)
    assert as_given.predict_set(probabilities[300:]).coverage(labels[300:]) > 0.7


def test_no_empty_sets_on_request(rng):
    logits, labels = synthetic(rng, 1000, 5, strength=6.0)
    predictor = localised.calibrate(logits[:500], labels[:500], 0.3, bandwidth=0.5)
    plain, filled = (predictor.predict_set(logits[500:], allow_empty=allowed) for allowed in (True, False))
    empty = plain.sizes == 0
    assert empty.any()
    assert (filled.sizes[empty] == 1).all()
    assert np.array_equal(filled.indices[filled.indptr[:-1][empty]], logits[500:][empty].argmax(axis=1))


def test_predictor_can_be_copied_and_pickled(rng):
    logits, labels = synthetic(rng, 300, 5)
    predictor = localised.calibrate(logits[:200], labels[:200], 0.1, bandwidth=0.4)
    for other in (pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor)):
        assert other.predict_set(logits[200:]) == predictor.predict_set(logits[200:])
    with pytest.raises(ValueError, match="read-only"):
        predictor.calibration_features[0] = 0


def test_small_calibration_warns(rng):
    logits, labels = synthetic(rng, 8, 3)
    with pytest.warns(ts.SmallCalibrationWarning, match="8 rows are too few for alpha=0.1"):
        predictor = localised.calibrate(logits, labels, 0.1, bandwidth=1.0)
    assert np.isinf(predictor.thresholds(logits)).mean() > 0.5
    with pytest.warns(ts.ProbabilitiesWarning):
        localised.calibrate(np.full((20, 2), 0.5), np.zeros(20, int), bandwidth=1.0)


LOGITS, LABELS, WHERE = draw(np.random.default_rng(0), 40)
REFUSED = [
    ({"kernel": "flat"}, ValueError, "kernel must be one of 'gaussian', 'box', got 'flat'"),
    ({"bandwidth": "best"}, ValueError, "bandwidth must be a number or 'auto', got 'best'"),
    ({"bandwidth": 0.0}, ValueError, "bandwidth must be positive and finite, got 0.0"),
    ({"bandwidth": float("nan")}, ValueError, "bandwidth must be positive and finite, got nan"),
    ({"bandwidth": True}, TypeError, "bandwidth must be a number, got True"),
    ({"draws": 0}, ValueError, "draws must be at least 1, got 0"),
    ({"alpha": 1.0}, ValueError, "alpha must be strictly between 0 and 1, got 1.0"),
    ({"score": "best"}, ValueError, "score must be one of"),
    (
        {"features": WHERE[:39]},
        ValueError,
        r"features must have shape \(40, d\) with d at least 1, got \(39, 2\)",
    ),
    (
        {"features": np.where(WHERE > 0, WHERE, np.nan)},
        ValueError,
        "features must be finite: found nan at row",
    ),
    ({"features": WHERE > 0}, TypeError, "features must be real numbers, got dtype bool"),
    ({"labels": np.full(40, 4)}, ValueError, "found 4 at row 0"),
    ({"row_ids": [1]}, ValueError, "row_ids must have one value for each of the 40 rows"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED)
def test_calibrate_refuses(changes, kind, message):
    given = {"logits": LOGITS, "labels": LABELS, "alpha": 0.1, "bandwidth": 1.0, **changes}
    with pytest.raises(kind, match=message):
        localised.calibrate(**given)


def test_predict_refuses():
    predictor = localised.calibrate(LOGITS, LABELS, 0.1, features=WHERE, bandwidth=1.0)
    with pytest.raises(
        ValueError, match="features must be given exactly when calibration had them: it was with"
    ):
        predictor.predict_set(LOGITS)
    with pytest.raises(ValueError, match="row_ids must be given exactly when"):
        predictor.predict_set(LOGITS, WHERE, row_ids=np.arange(40))
    with pytest.raises(ValueError, match="features must have 2 columns as in calibration, got 1"):
        predictor.predict_set(LOGITS, WHERE[:, :1])
    with pytest.raises(ValueError, match="logits must have 4 labels as in calibration, got 3"):
        predictor.thresholds(LOGITS[:, :3], WHERE)
    spoilt = LOGITS.copy()
    spoilt[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        predictor.predict_set(spoilt, WHERE)
    with pytest.raises(ValueError, match="logits must have at least one row"):
        localised.calibrate(LOGITS[:0], LABELS[:0])
    with pytest.raises(ValueError, match="bandwidth='auto' needs at least 8 rows"):
        localised.calibrate(LOGITS[:7], LABELS[:7])
