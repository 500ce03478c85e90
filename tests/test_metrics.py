"""Metrics against examples worked out by hand, plain definitions, and simulation of the law they state."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tightset as ts
from conftest import synthetic
from tightset import metrics


def sets_of(rows, n_labels):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return ts.PredictionSets(indptr, np.array([y for row in rows for y in row], np.int32), n_labels)


# Six rows of three labels: covered are the first, the second, the fourth and the last.
SETS = sets_of([[0], [1, 0], [2], [0, 1, 2], [], [1]], 3)
LABELS = np.array([0, 0, 1, 2, 1, 1])
# Entropy falls with the gap: rows by rising entropy are 5, 0, 2, 4, 1, 3.
LOGITS = np.array([[8.0, 0, 0], [0, 1, 0], [0, 0, 6.0], [0.1, 0, 0], [3.0, 0, 0], [0, 9.0, 0]])


def test_marginal_by_hand():
    assert metrics.coverage(SETS, LABELS) == 4 / 6
    found = metrics.size_summary(SETS, LABELS)
    assert dataclasses.asdict(found) == {
        "mean": 8 / 6,
        "median": 1.0,
        "empty_rate": 1 / 6,
        "mean_nonempty": 8 / 5,
        "coverage_nonempty": 4 / 5,
        "singleton_rate": 3 / 6,
        "singleton_hit_rate": 2 / 6,
        "coverage_singleton": 2 / 3,
    }


def test_by_entropy_by_hand():
    found = metrics.coverage_by_entropy(SETS, LABELS, LOGITS, bins=[0.5, 0.9])
    assert [(s.name, s.rows, s.coverage, s.mean_size, s.empty_rate) for s in found] == [
        ("0-50 %", 3, 2 / 3, 1.0, 0.0),
        ("50-90 %", 2, 1 / 2, 1.0, 1 / 2),
        ("90-100 %", 1, 1.0, 3.0, 0.0),
    ]


def test_by_scenario_by_hand():
    found = metrics.coverage_by_scenario(SETS, LABELS, LOGITS)
    # Wrong are row 2 (low entropy), and 1, 3 and 4 (high).
    assert [(s.name, s.rows, s.coverage, s.mean_size, s.empty_rate) for s in found] == [
        ("right, low entropy", 2, 1.0, 1.0, 0.0),
        ("right, high entropy", 0, None, None, None),
        ("wrong, low entropy", 1, 0.0, 1.0, 0.0),
        ("wrong, high entropy", 3, 2 / 3, 5 / 3, 1 / 3),
    ]


def test_by_size_by_hand():
    found = metrics.coverage_by_size(SETS, LABELS, 0.1, bins=[0, 1, 2], min_rows=1)
    assert [(s.name, s.rows, s.coverage) for s in found.strata] == [
        ("0", 1, 0.0),
        ("1", 3, 2 / 3),
        ("2", 1, 1.0),
        ("3+", 1, 1.0),
    ]
    assert found.sscv == pytest.approx(0.9)
    found = metrics.coverage_by_size(SETS, LABELS, 0.1, bins=[1, 3], min_rows=3)
    assert [(s.name, s.rows, s.coverage) for s in found.strata] == [("0-1", 4, 0.5)]
    assert [(s.name, s.rows) for s in found.left_out] == [("2-3", 2)]
    assert found.sscv == pytest.approx(0.4)


def test_small_bins_are_left_out_of_sscv():
    rows = [[0]] * 20 + [[0, 1]] * 19
    labels = [0] * 20 + [2] * 19
    found = metrics.coverage_by_size(sets_of(rows, 3), labels, 0.2)
    assert [s.name for s in found.left_out] == ["2-3"]
    assert found.sscv == pytest.approx(0.2)
    found = metrics.coverage_by_size(sets_of([*rows, [0, 2]], 3), [*labels, 1], 0.2)
    assert found.left_out == ()
    assert found.sscv == pytest.approx(0.8)
    nothing = metrics.coverage_by_size(SETS, LABELS, 0.1)
    assert nothing.strata == ()
    assert nothing.sscv is None


def test_by_class_by_hand():
    found = metrics.coverage_by_class(SETS, LABELS, 0.1, label_names=("cat", "dog", "owl"), worst=2)
    np.testing.assert_array_equal(found.rows, [2, 3, 1])
    np.testing.assert_array_equal(found.coverage, [1.0, 1 / 3, 1.0])
    np.testing.assert_array_equal(found.mean_size, [1.5, 2 / 3, 3.0])
    assert found.cov_gap == pytest.approx(100 * (0.1 + (0.9 - 1 / 3) + 0.1) / 3)
    # Of equals, the class with more rows comes first.
    assert [(s.name, s.rows) for s in found.worst] == [("dog", 3), ("cat", 2)]
    assert found.worst[0].empty_rate == 1 / 3


def test_classes_that_do_not_occur_do_not_count():
    found = metrics.coverage_by_class(sets_of([[0], [0]], 4), [0, 2], 0.2)
    assert found.n_classes == 2
    assert found.cov_gap == pytest.approx(50.0)
    assert [s.name for s in found.worst] == ["2", "0"]
    np.testing.assert_array_equal(np.isnan(found.coverage), [False, True, False, True])


@given(st.data())
def test_as_plainly_defined(data):
    n, k = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    # Few different logits, so that entropies tie.
    logits = rng.integers(0, 3, size=(n, k)).astype(float)
    labels = rng.integers(k, size=n)
    mask = rng.random((n, k)) < 0.4
    sets = sets_of([np.flatnonzero(row).tolist() for row in mask], k)
    alpha = data.draw(st.sampled_from([0.01, 0.1, 0.5]))
    covered = [bool(mask[i, labels[i]]) for i in range(n)]
    sizes = [int(mask[i].sum()) for i in range(n)]

    def expected(rows):
        if not rows:
            return 0, None, None, None
        return (
            len(rows),
            pytest.approx(sum(covered[i] for i in rows) / len(rows)),
            pytest.approx(sum(sizes[i] for i in rows) / len(rows)),
            pytest.approx(sum(sizes[i] == 0 for i in rows) / len(rows)),
        )

    def found(stratum):
        return stratum.rows, stratum.coverage, stratum.mean_size, stratum.empty_rate

    h = ts.entropy(logits)
    cuts = sorted(set(data.draw(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.8]), max_size=4))))
    edges = [-np.inf, *(np.quantile(h, c) for c in cuts), np.inf]
    strata = metrics.coverage_by_entropy(sets, labels, logits, bins=cuts)
    assert len(strata) == len(cuts) + 1
    for stratum, low, high in zip(strata, edges[:-1], edges[1:], strict=True):
        assert found(stratum) == expected([i for i in range(n) if low < h[i] <= high])

    right = [int(np.argmax(logits[i])) == labels[i] for i in range(n)]
    low = [h[i] <= np.median(h) for i in range(n)]
    scenarios = metrics.coverage_by_scenario(sets, labels, logits)
    for stratum, (r, quiet) in zip(
        scenarios, [(True, True), (True, False), (False, True), (False, False)], strict=True
    ):
        assert found(stratum) == expected([i for i in range(n) if right[i] == r and low[i] == quiet])

    bins = [(0, 1), (2, 3), (4, 10)]
    rows_of = {f"{a}-{b}": [i for i in range(n) if a <= sizes[i] <= b] for a, b in bins}
    by_size = metrics.coverage_by_size(sets, labels, alpha)
    assert {s.name: found(s) for s in by_size.strata} == {
        name: expected(rows) for name, rows in rows_of.items() if len(rows) >= 20
    }
    assert {s.name: found(s) for s in by_size.left_out} == {
        name: expected(rows) for name, rows in rows_of.items() if 0 < len(rows) < 20
    }
    gaps = [
        abs(np.mean([covered[i] for i in rows]) - (1 - alpha)) for rows in rows_of.values() if len(rows) >= 20
    ]
    assert by_size.sscv == (pytest.approx(max(gaps)) if gaps else None)

    classes = {y: [i for i in range(n) if labels[i] == y] for y in range(k)}
    by_class = metrics.coverage_by_class(sets, labels, alpha, worst=k)
    gaps = [abs(np.mean([covered[i] for i in rows]) - (1 - alpha)) for rows in classes.values() if rows]
    assert by_class.cov_gap == pytest.approx(100 * np.mean(gaps))
    assert {int(s.name): found(s) for s in by_class.worst} == {
        y: expected(rows) for y, rows in classes.items() if rows
    }
    worst = [s.coverage for s in by_class.worst]
    assert worst == sorted(worst)


def test_equal_shares_of_entropy(rng):
    logits, labels = synthetic(rng, 1000, 4)
    sets = sets_of([[0]] * 1000, 4)
    assert [s.rows for s in metrics.coverage_by_entropy(sets, labels, logits, bins=4)] == [250] * 4
    assert [s.rows for s in metrics.coverage_by_entropy(sets, labels, logits, bins=1)] == [1000]


def test_probabilities_have_the_strata_of_their_logits(rng):
    logits, labels = synthetic(rng, 300, 4)
    predictor = ts.calibrate(logits, labels, 0.1, "aps")
    sets, p = predictor.predict_set(logits), ts.softmax(logits)
    assert metrics.report(sets, labels, p, probabilities=True) == metrics.report(sets, labels, logits)
    for call in (metrics.report, metrics.coverage_by_entropy, metrics.coverage_by_scenario):
        with pytest.warns(ts.ProbabilitiesWarning) as caught:
            call(sets, labels, p)
        assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(("n", "alpha"), [(1000, 0.01), (99, 0.1), (5000, 0.05), (1, 0.5)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_band_as_scipy(n, alpha, level):
    k, tails = ts.conformal_rank(n, alpha), [(1 - level) / 2, (1 + level) / 2]
    expected = stats.beta.ppf(tails, k, n + 1 - k)
    assert metrics.coverage_band(n, alpha, level=level) == pytest.approx(expected, rel=1e-9)
    expected = stats.betabinom.ppf(tails, 777, k, n + 1 - k) / 777
    assert metrics.coverage_band(n, alpha, 777, level) == pytest.approx(expected)


def test_too_few_rows_cover_everything():
    assert ts.conformal_rank(8, 0.1) > 8
    assert metrics.coverage_band(8, 0.1) == (1.0, 1.0)
    assert metrics.coverage_band(8, 0.1, n_test=5) == (1.0, 1.0)


def test_bands_hold_what_they_promise(rng):
    """Calibrate and test many times: nine in ten observed coverages are inside, and not many more."""
    n, n_test, draws, alpha = 150, 80, 2000, 0.1
    scores = rng.random((draws, n + n_test))
    thresholds = np.sort(scores[:, :n], axis=1)[:, ts.conformal_rank(n, alpha) - 1]
    observed = (scores[:, n:] <= thresholds[:, np.newaxis]).mean(axis=1)
    for found, true_law in (
        (thresholds, metrics.coverage_band(n, alpha)),  # of uniform scores, a threshold is its coverage
        (observed, metrics.coverage_band(n, alpha, n_test)),
    ):
        inside = (found >= true_law.lower) & (found <= true_law.upper)
        strictly = (found > true_law.lower) & (found < true_law.upper)
        noise = 4 * np.sqrt(0.9 * 0.1 / draws)
        assert inside.mean() >= 0.9 - noise
        assert strictly.mean() <= 0.9 + noise


def test_metrics_are_imported_on_use():
    code = """
import sys, tightset as ts
assert "metrics" in dir(ts)
assert "tightset.metrics" not in sys.modules
assert ts.metrics.coverage_band(8, 0.1) == (1.0, 1.0)
assert not {"scipy", "pandas"} & set(sys.modules)
try:
    ts.metric
except AttributeError as error:
    assert "'tightset' has no attribute 'metric'" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# (call, error, part of its message)
REFUSALS = [
    (lambda: metrics.coverage([[0]], [0]), TypeError, "sets must be PredictionSets, as predict_set returns"),
    (lambda: metrics.coverage(SETS[:0], []), ValueError, "sets must have at least one row, got 0"),
    (lambda: metrics.coverage(SETS, LABELS[:2]), ValueError, "labels must have one value for each of the 6"),
    (lambda: metrics.report(SETS, [0, 1, 2, 3, 0, 0]), ValueError, "found 3 at row 3"),
    (lambda: metrics.size_summary(SETS, LABELS / 2), TypeError, "labels must be integers, got dtype float64"),
    (lambda: metrics.coverage_band(0, 0.1), ValueError, "n_calibration must be at least 1, got 0"),
    (lambda: metrics.coverage_band(1e3, 0.1), TypeError, "n_calibration must be an integer, got 1000.0"),
    (
        lambda: metrics.coverage_band(10**11, 0.1),
        ValueError,
        "n_calibration must be between 1 and 10000000000",
    ),
    (lambda: metrics.coverage_band(10, 1.0), ValueError, "alpha must be strictly between 0 and 1, got 1.0"),
    (lambda: metrics.coverage_band(10, 0.1, -1), ValueError, "n_test must be at least 1, got -1"),
    (lambda: metrics.coverage_band(10, 0.1, 10**9), ValueError, "n_test must be between 1 and 100000000"),
    (
        lambda: metrics.coverage_band(1, 0.1, level=2),
        ValueError,
        "level must be strictly between 0 and 1, got 2",
    ),
    (
        lambda: metrics.coverage_by_entropy(SETS, LABELS, LOGITS[:5]),
        ValueError,
        "logits must have shape (6, 3) as the sets do, got (5, 3)",
    ),
    (
        lambda: metrics.coverage_by_scenario(SETS, LABELS, LOGITS[:, :2]),
        ValueError,
        "logits must have shape (6, 3) as the sets do, got (6, 2)",
    ),
    (lambda: metrics.report(SETS, LABELS, LOGITS * np.nan), ValueError, "found nan at row 0"),
    (
        lambda: metrics.report(SETS, LABELS, LOGITS, probabilities=1),
        TypeError,
        "probabilities must be True or",
    ),
    (
        lambda: metrics.coverage_by_entropy(SETS, LABELS, LOGITS, 0),
        ValueError,
        "bins must be at least 1, got 0",
    ),
    (
        lambda: metrics.coverage_by_entropy(SETS, LABELS, LOGITS, 7),
        ValueError,
        "bins must be between 1 and 6",
    ),
    (lambda: metrics.coverage_by_entropy(SETS, LABELS, LOGITS, "4"), TypeError, "bins must be an integer"),
    (
        lambda: metrics.coverage_by_entropy(SETS, LABELS, LOGITS, [0.5, 0.2]),
        ValueError,
        "bins must rise, got [0.5",
    ),
    (
        lambda: metrics.coverage_by_entropy(SETS, LABELS, LOGITS, [0.5, 1]),
        ValueError,
        "strictly between 0 and 1",
    ),
    (lambda: metrics.coverage_by_entropy(SETS, LABELS, LOGITS, [np.nan]), ValueError, "got [nan]"),
    (lambda: metrics.coverage_by_size(SETS, LABELS, bins=[3, 3]), ValueError, "bins must rise, got [3, 3]"),
    (
        lambda: metrics.coverage_by_size(SETS, LABELS, bins=[1.5]),
        TypeError,
        "bins must be an integer, got 1.5",
    ),
    (lambda: metrics.coverage_by_size(SETS, LABELS, bins=4), TypeError, "bins must be a sequence, got 4"),
    (lambda: metrics.coverage_by_size(SETS, LABELS, min_rows=0), ValueError, "min_rows must be at least 1"),
    (lambda: metrics.coverage_by_size(SETS, LABELS, 5), ValueError, "alpha must be strictly between 0 and 1"),
    (
        lambda: metrics.coverage_by_class(SETS, LABELS, worst=-1),
        ValueError,
        "worst must be at least 0, got -1",
    ),
    (
        lambda: metrics.report(SETS, LABELS, label_names=["a", "b"]),
        ValueError,
        "label_names must have one name for each of the 3 labels, got 2",
    ),
    (lambda: metrics.report(SETS, LABELS, label_names="abc"), TypeError, "label_names must be a sequence"),
    (lambda: metrics.report(SETS, LABELS, label_names={0: "a", 1: "b", 2: "c"}), TypeError, "a sequence"),
    (lambda: metrics.report(SETS, LABELS, n_calibration=10), TypeError, "n_calibration needs alpha"),
    (
        lambda: metrics.report(SETS, LABELS, predictor=10),
        TypeError,
        "predictor must be what calibrate returns",
    ),
    (
        lambda: metrics.report(SETS, LABELS, alpha=0.2, predictor=10),
        TypeError,
        "alpha must not be given beside predictor, which has its own, got 0.2",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS)
def test_refusals(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
