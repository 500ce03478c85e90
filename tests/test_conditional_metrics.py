"""Worst slab, excess risk, coverage by rank and p-value criteria against plain definitions."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import tightset as ts
from conftest import synthetic
from tightset import metrics
from tightset.metrics import slabs


def sets_that_cover(covered, labels, n_labels=2):
    """One label a set: the true one where covered says so."""
    chosen = np.where(covered, labels, (labels + 1) % n_labels).astype(np.int32)
    return ts.PredictionSets(np.arange(len(labels) + 1), chosen, n_labels)


def brute_force(where, covered, directions, delta):
    """The least coverage of all slabs between two projections that have enough rows."""
    best = covered.mean()
    for direction in directions:
        projected = where @ direction
        for low in projected:
            for high in projected:
                inside = (projected >= low) & (projected <= high)
                if inside.sum() >= math.ceil(delta * len(where)):
                    best = min(best, covered[inside].mean())
    return best


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 24),
    delta=st.sampled_from([0.05, 0.2, 0.5, 0.9]),
    tied=st.booleans(),
    block=st.sampled_from([1, 60, 2**21]),
)
def test_worst_slab_is_that_of_the_definition(seed, n, delta, tied, block):
    rng = np.random.default_rng(seed)
    where = rng.integers(-2, 3, size=(n, 2)).astype(float) if tied else rng.normal(size=(n, 2))
    covered = rng.uniform(size=n) < 0.7
    directions = np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8]]) if tied else rng.normal(size=(4, 2))
    plain = slabs._BLOCK
    try:
        slabs._BLOCK = block
        count, rows, which, lower, upper = slabs._worst(where, covered, directions, delta)
    finally:
        slabs._BLOCK = plain
    assert count / rows == brute_force(where, covered, directions, delta)
    projected = where @ directions[which]
    inside = (projected >= lower) & (projected <= upper)
    assert (int(covered[inside].sum()), int(inside.sum())) == (count, rows)
    assert rows >= math.ceil(delta * n)


def test_worst_slab_is_found_and_measured_on_other_rows(rng):
    x = rng.normal(size=(6000, 4))
    labels = rng.integers(2, size=6000)
    along = x @ np.array([0.6, -0.8, 0, 0])
    bad = (along > 0.5) & (along < 1.5)
    sets = sets_that_cover(rng.uniform(size=6000) < np.where(bad, 0.6, 0.97), labels)
    found = metrics.worst_slab_coverage(sets, labels, x)
    assert abs(found.direction @ [0.6, -0.8, 0, 0]) > 0.9
    assert found.searched_coverage < found.coverage < 0.75
    projected = x @ found.direction
    inside = (projected >= found.lower) & (projected <= found.upper)
    assert found.rows + found.searched_rows == inside.sum()
    assert found.searched_rows >= 150
    covered = sets.covers(labels)[inside].sum()
    assert covered == pytest.approx(
        found.rows * found.coverage + found.searched_rows * found.searched_coverage
    )
    assert found == metrics.worst_slab_coverage(sets, labels, x)
    assert found != metrics.worst_slab_coverage(sets, labels, x, seed=1)


def test_worst_slab_of_even_coverage_has_no_bias(rng):
    """Where coverage is the same everywhere, the search sees less and the other rows do not."""
    searched, rest = [], []
    labels = rng.integers(2, size=400)
    for seed in range(60):
        sets = sets_that_cover(rng.uniform(size=400) < 0.9, labels)
        found = metrics.worst_slab_coverage(
            sets, labels, rng.normal(size=(400, 3)), n_directions=50, seed=seed
        )
        searched.append(found.searched_coverage)
        rest.append(found.coverage)
    assert np.mean(searched) < 0.75
    assert abs(np.mean(rest) - 0.9) < 4 * np.std(rest) / np.sqrt(60)


def test_worst_slab_on_a_line_and_of_one_place(rng):
    labels = np.zeros(40, np.int64)
    sets = sets_that_cover(np.arange(40) % 4 != 0, labels)
    same = metrics.worst_slab_coverage(sets, labels, np.ones((40, 3)))
    assert (same.rows, same.searched_rows) == (30, 10)
    line = metrics.worst_slab_coverage(sets, labels, rng.normal(size=(40, 1)))
    assert abs(line.direction).tolist() == [1.0]


def logistic(x):
    return 1 / (1 + np.exp(-x))


def test_excess_risk_is_that_of_its_definition(rng):
    """With the true conditional coverage in place of a classifier, in expectation and row by row."""
    x = rng.normal(size=(20_000, 1))
    c = logistic(2.5 + 2 * x[:, 0])
    labels = rng.integers(2, size=20_000)
    covered = rng.uniform(size=20_000) < c
    sets = sets_that_cover(covered, labels)
    found = metrics.excess_risk(sets, labels, x, 0.1, classifier=LogisticRegression(C=1e6))
    guess = found.conditional_coverage
    assert np.abs(guess - c).mean() < 0.01
    y = covered.astype(float)
    assert found.l1 == pytest.approx((np.sign(guess - 0.9) * (y - 0.9)).mean())
    assert found.under + found.over == pytest.approx(found.l1)
    assert found.l2 == pytest.approx(((0.9 - y) ** 2 - (guess - y) ** 2).mean())
    loss = [-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean() for p in (0.9, guess)]
    assert found.kl == pytest.approx(loss[0] - loss[1])
    # What they bound, which a good classifier comes near to.
    assert found.l1 == pytest.approx(np.abs(c - 0.9).mean(), abs=4 * found.l1_error)
    assert found.l2 == pytest.approx(((c - 0.9) ** 2).mean(), rel=0.1)
    divergence = c * np.log(c / 0.9) + (1 - c) * np.log((1 - c) / 0.1)
    assert found.kl == pytest.approx(divergence.mean(), rel=0.1)


def test_excess_risk_of_even_coverage_is_near_nothing(rng):
    x, labels = rng.normal(size=(3000, 3)), rng.integers(2, size=3000)
    sets = sets_that_cover(rng.uniform(size=3000) < 0.9, labels)
    found = metrics.excess_risk(sets, labels, x, 0.1)
    assert found.l1 < 4 * found.l1_error
    assert found.l2 < 0.01
    uneven = sets_that_cover(rng.uniform(size=3000) < np.where(x[:, 1] > 0, 0.98, 0.82), labels)
    assert metrics.excess_risk(uneven, labels, x, 0.1).l1 > 0.04


def test_excess_risk_predicts_rows_that_were_not_fitted(rng):
    """A classifier that remembers its rows gains nothing on others."""
    from sklearn.neighbors import KNeighborsClassifier

    x, labels = rng.normal(size=(500, 5)), rng.integers(2, size=500)
    sets = sets_that_cover(rng.uniform(size=500) < 0.9, labels)
    found = metrics.excess_risk(sets, labels, x, 0.1, classifier=KNeighborsClassifier(1), folds=10)
    assert found.l2 < 0.0
    assert found.folds == 10


def test_excess_risk_of_sets_that_always_cover():
    labels = np.zeros(30, np.int64)
    found = metrics.excess_risk(sets_that_cover(np.ones(30, bool), labels), labels, np.ones((30, 1)), 0.1)
    assert (found.l1, found.under, found.over) == (pytest.approx(0.1), 0.0, pytest.approx(0.1))
    constant = metrics.excess_risk(
        sets_that_cover(np.arange(30) % 3 > 0, labels),
        labels,
        np.ones((30, 1)),
        0.1,
        classifier=DummyClassifier(strategy="constant", constant=1),
    )
    assert np.isfinite(dataclasses.astuple(constant)[:6]).all()


def test_coverage_by_rank(rng):
    logits, labels = synthetic(rng, 900, 12, strength=1.0)
    sets = ts.calibrate(logits[:400], labels[:400], 0.1, "aps").predict_set(logits[400:])
    new, truth = logits[400:], labels[400:]
    of_truth = 1 + (new > new[np.arange(500), truth][:, np.newaxis]).sum(axis=1)
    found = metrics.coverage_by_rank(sets, truth, new, 0.1, min_rows=30)
    expected = {}
    for name, low, high in (("1", 1, 1), ("2-3", 2, 3), ("4-6", 4, 6), ("7-10", 7, 10), ("11-100", 11, 100)):
        part = (of_truth >= low) & (of_truth <= high)
        if part.sum():
            expected[name] = (
                int(part.sum()),
                sets.covers(truth)[part].mean(),
                sets.sizes[part].mean(),
                (sets.sizes[part] == 0).mean(),
            )
    assert {s.name: dataclasses.astuple(s)[1:] for s in (*found.strata, *found.left_out)} == expected
    assert all(s.rows >= 30 for s in found.strata)
    assert found.violation == max(abs(s.coverage - 0.9) for s in found.strata)
    assert metrics.coverage_by_rank(sets, truth, new).violation is None
    as_given = metrics.coverage_by_rank(sets, truth, ts.softmax(new), 0.1, min_rows=30, probabilities=True)
    assert as_given == found


def plain_criteria(p, labels, alpha):
    """The definitions of Vovk et al. (2016), row by row."""
    lines = []
    for row, y in zip(p, labels, strict=True):
        ordered = sorted(row, reverse=True)
        wrong = [value for label, value in enumerate(row) if label != y]
        inside = [label for label, value in enumerate(row) if value > alpha]
        lines.append(
            {
                "s": sum(row),
                "u": ordered[1] if len(row) > 1 else 0.0,
                "f": sum(ordered[1:]),
                "n": len(inside),
                "m": len(inside) > 1,
                "e": max(len(inside) - 1, 0),
                "ou": max(wrong, default=0.0),
                "of": sum(wrong),
                "om": any(label != y for label in inside),
                "oe": sum(label != y for label in inside),
            }
        )
    return {name: np.mean([line[name] for line in lines]) for name in lines[0]}


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), k=st.integers(1, 5))
def test_p_value_criteria_are_those_of_the_definitions(seed, n, k):
    rng = np.random.default_rng(seed)
    p, labels = rng.integers(0, 21, size=(n, k)) / 20, rng.integers(k, size=n)
    found = metrics.p_value_criteria(p, labels, 0.1)
    assert dataclasses.asdict(found) == pytest.approx(plain_criteria(p, labels, 0.1))
    assert found == metrics.p_value_criteria(p, labels, 1 - 0.9)
    alone = metrics.p_value_criteria(p)
    assert (alone.s, alone.u, alone.f) == (found.s, found.u, found.f)
    assert dataclasses.astuple(alone)[3:] == (None,) * 7


def test_p_value_criteria_agree_with_the_sets(rng):
    logits, labels = synthetic(rng, 600, 5)
    predictor = ts.calibrate(logits[:99], labels[:99], 0.1, "thr")
    sets = predictor.predict_set(logits[99:])
    found = metrics.p_value_criteria(predictor.predict_p(logits[99:]), labels[99:], 0.1)
    assert found.n == sets.sizes.mean()
    assert found.oe == pytest.approx((sets.sizes - sets.covers(labels[99:])).mean())


def test_report_shows_them(rng):
    logits, labels = synthetic(rng, 900, 4)
    predictor = ts.calibrate(logits[:400], labels[:400], 0.1, "aps")
    new, truth = logits[400:], labels[400:]
    sets, p = predictor.predict_set(new), predictor.predict_p(new)
    found = metrics.report(sets, truth, new, 0.1, features=new, p_values=p)
    assert found.by_rank == metrics.coverage_by_rank(sets, truth, new, 0.1)
    assert found.worst_slab == metrics.worst_slab_coverage(sets, truth, new)
    assert found.excess_risk == metrics.excess_risk(sets, truth, new, 0.1)
    assert found.p_value_criteria == metrics.p_value_criteria(p, truth, 0.1)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain == found.to_dict()
    assert plain["worst_slab"]["coverage"] == found.worst_slab.coverage
    assert plain["excess_risk"]["l1"] == found.excess_risk.l1
    assert plain["p_value_criteria"]["of"] == found.p_value_criteria.of
    assert plain["by_rank"]["violation"] == found.by_rank.violation
    shown = str(found)
    for line in (
        f"  DiffViolation {found.by_rank.violation:.4f}",
        f"  other rows there{found.worst_slab.rows:>25}{found.worst_slab.coverage:>11.4f}",
        f"  L1{found.excess_risk.l1:>+39.4f}   ± {found.excess_risk.l1_error:.4f}",
        f"  S, sum{found.p_value_criteria.s:>35.4f}",
    ):
        assert line in shown.splitlines(), line
    assert "worst slab of the features" in found._repr_html_()
    assert set(found.to_frame()["by"]) == {"all", "entropy", "scenario", "size", "rank", "class"}
    bare = metrics.report(sets, truth)
    assert [getattr(bare, f) for f in ("by_rank", "worst_slab", "excess_risk", "p_value_criteria")] == [
        None
    ] * 4
    assert metrics.report(sets, truth, features=new).excess_risk is None
    partial = str(metrics.report(sets, truth, p_values=p))
    assert "OF, sum of wrong labels" in partial
    assert "N, labels above alpha" not in partial


def test_report_without_scikit_learn_leaves_the_excess_risk_out():
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import importlib.util as util; plain = util.find_spec\n"
        "import numpy as np; import tightset as ts\n"
        "from tightset.metrics import reporting\n"
        "reporting.find_spec = lambda name: None if name == 'sklearn' else plain(name)\n"
        "sets = ts.PredictionSets(np.arange(41), np.zeros(40, np.int32), 2)\n"
        "x, y = np.arange(40.0)[:, None], np.arange(40) % 2\n"
        "found = ts.metrics.report(sets, y, alpha=0.1, features=x)\n"
        "print(found.excess_risk, found.worst_slab is not None)\n"
        "try:\n    ts.metrics.excess_risk(sets, y, x, 0.1)\n"
        "except ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.startswith("None True\nexcess_risk needs scikit-learn, of the extra sklearn: pip install ")


X = np.arange(12.0)[:, np.newaxis]
Y = np.zeros(12, np.int64)
SETS = sets_that_cover(np.arange(12) % 2 == 0, Y)


def slab(sets=SETS, labels=Y, features=X, **options):
    return lambda: metrics.worst_slab_coverage(sets, labels, features, **options)


def risk(sets=SETS, labels=Y, features=X, alpha=0.1, **options):
    return lambda: metrics.excess_risk(sets, labels, features, alpha, **options)


def by_rank(logits, **options):
    return lambda: metrics.coverage_by_rank(SETS, Y, logits, **options)


def criteria(*given):
    return lambda: metrics.p_value_criteria(*given)


REFUSED = [
    (slab(features=X[:3]), ValueError, r"features must have shape \(12, d\)"),
    (slab(delta=0), ValueError, "delta must be strictly between 0 and 1"),
    (slab(n_directions=0), ValueError, "n_directions must be at least 1"),
    (slab(search_share=1.0), ValueError, "search_share must be strictly"),
    (slab(SETS[:1], Y[:1], X[:1]), ValueError, "a row more than the search takes, got 1"),
    (risk(folds=1), ValueError, "folds must be at least 2, got 1"),
    (risk(folds=13), ValueError, "folds must be between 2 and 12, got 13"),
    (risk(SETS[:1], Y[:1], X[:1]), ValueError, "sets must have at least two rows, got 1"),
    (risk(alpha=2.0), ValueError, "alpha must be strictly between 0 and 1"),
    (by_rank(X), ValueError, r"logits must have shape \(12, 2\) as the sets do"),
    (by_rank(np.ones((12, 2)), bins=[0]), ValueError, "bins must be at least 1, got 0"),
    (criteria([0.1, 0.2]), ValueError, r"p_values must have shape \(n, K\)"),
    (criteria([[0.1, 1.2]]), ValueError, r"p_values must be between 0 and 1: found 1\.2 at row 0, label 1"),
    (criteria([[np.nan]]), ValueError, "p_values must be between 0 and 1: found nan"),
    (criteria([["a"]]), TypeError, "p_values must be real numbers"),
    (criteria([[0.1, 0.2]], [2]), ValueError, "labels must be between 0 and 1, .*: found 2 at row 0"),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
