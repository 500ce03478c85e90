from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import tightset as ts
from tightset import _core


def test_rank_is_exact_for_decimal_levels():
    """Every n up to 3000 and every alpha in steps of 0.001, against fractions."""
    for thousandths in range(1, 1000):
        alpha, kept = thousandths / 1000, 1 - Fraction(thousandths, 1000)
        found = [_core.conformal_rank(n, alpha) for n in range(3001)]
        assert found == [ceil((n + 1) * kept) for n in range(3001)], alpha


def test_levels_that_floats_get_wrong():
    assert ts.conformal_rank(9, 0.7) == 3
    assert ts.conformal_rank(99, 1 - 0.9) == 90
    assert ts.conformal_rank(19, 1 - 0.95) == 19
    assert ts.conformal_rank(10**15, 0.1) == 900000000000001


@given(st.integers(0, 10**12), st.integers(1, 10**12 - 1))
def test_rank_against_fractions(n, numerator):
    alpha = Fraction(numerator, 10**12)
    expected = n + 1 - ((n + 1) * alpha).__floor__()
    assert ts.conformal_rank(n, float(alpha)) == max(1, expected)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=60), st.integers(1, 99))
def test_threshold_is_the_order_statistic(scores, percent):
    assert ts.conformal_threshold(scores, percent / 100) == reference.threshold(
        np.array(scores), percent / 100
    )


def test_p_values_count(rng):
    logits = rng.normal(size=(300, 5))
    labels = rng.integers(5, size=300)
    predictor = ts.calibrate(logits[:200], labels[:200], 0.1, "thr")
    scores, calibration = predictor.scores(logits), predictor.scores(logits[:200], labels[:200])
    plain = predictor.predict_p(logits)
    at_least = (calibration >= scores[..., np.newaxis]).sum(axis=2)
    np.testing.assert_array_equal(plain, (1 + at_least) / 201)
    smoothed = predictor.predict_p(logits, smoothed=True)
    above = (calibration > scores[..., np.newaxis]).sum(axis=2)
    assert (smoothed >= above / 201).all()
    assert (smoothed <= (1 + at_least) / 201).all()
    # In the set exactly when p > alpha, compared in integers.
    np.testing.assert_array_equal(predictor.predict_set(logits).mask, 10 * (1 + at_least) > 201)


def test_smoothed_p_values_are_uniform():
    rng = np.random.default_rng(3)
    p = []
    for _ in range(200):
        # Few distinct values: only smoothing makes the p-values uniform.
        logits = rng.integers(3, size=(60, 3)).astype(float)
        labels = rng.integers(3, size=60)
        predictor = ts.calibrate(logits[:40], labels[:40], 0.1, "thr", row_ids=rng.integers(2**62, size=40))
        values = predictor.predict_p(logits[40:], smoothed=True, row_ids=rng.integers(2**62, size=20))
        p.extend(values[np.arange(20), labels[40:]])
    counts = np.histogram(p, bins=10, range=(0, 1))[0]
    chi2 = ((counts - 400) ** 2 / 400).sum()
    assert chi2 < 40, counts  # 9 degrees of freedom: 1 - 7e-6; draws share calibrations, hence the slack


@pytest.mark.parametrize("recipe", ["aps", "er-thr"])
def test_plain_p_values_are_valid(recipe, rng):
    logits = rng.normal(size=(4000, 4))
    labels = rng.integers(4, size=4000)
    predictor = ts.calibrate(logits[:2000], labels[:2000], 0.1, recipe)
    p = predictor.predict_p(logits[2000:])[np.arange(2000), labels[2000:]]
    for t in (0.05, 0.1, 0.5):
        assert (p <= t).mean() < t + 4 * np.sqrt(t * (1 - t) * (1 / 2000 + 1 / predictor.n_calibration))
