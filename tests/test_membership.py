"""One definition of the score serves calibration and prediction.

A label is in the set exactly when its ranked score is at most the threshold, to the bit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightset as ts
from conftest import SCORES, synthetic
from tightset.recipes import recipe_names

INF = float("inf")


def assert_sets_are_scores_below_threshold(predictor, logits):
    """With several candidates in use (test_modsel.py), for each of them as if it were the only one."""
    n, k = logits.shape
    for candidate in predictor.candidates:
        only = replace(predictor, candidates=(candidate,))
        one_by_one = np.column_stack([only.scores(logits, np.full(n, y)) for y in range(k)])
        assert only.scores(logits).tobytes() == one_by_one.tobytes()
        np.testing.assert_array_equal(only.predict_set(logits).mask, one_by_one <= candidate.threshold)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("recipe", recipe_names)
def test_every_recipe(rng, recipe, dtype):
    logits, labels = synthetic(rng, 900, 12, dtype=dtype)
    logits[::50, 3] = -INF
    labels[labels == 3] = 0
    logits[::7, 5] = logits[::7, 6]  # ties
    for predictor in ts.calibrate(logits[:500], labels[:500], [0.02, 0.1, 0.4], recipe):
        assert_sets_are_scores_below_threshold(predictor, logits)
        # Calibration rows predicted again: those that count towards the rank are covered.
        if predictor.n_calibration == 500 and len(predictor.candidates) == 1:
            assert predictor.predict_set(logits[:500]).covers(labels[:500]).sum() == predictor.rank


@pytest.mark.parametrize("score", SCORES)
@given(
    seed=st.integers(0, 2**32),
    k=st.integers(1, 40),
    scale=st.sampled_from([0.1, 1.0, 20.0, 500.0]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int8]),
    gamma=st.sampled_from([None, 0.0, 1.0]),
    log_t=st.floats(-12, 12),
)
def test_thresholds_that_are_scores(score, seed, k, scale, dtype, gamma, log_t):
    """The threshold is one of the scores, so a different rounding anywhere would flip a label."""
    rng = np.random.default_rng(seed)
    logits = np.clip(scale * rng.normal(size=(60, k)), -120, 120).astype(dtype)
    labels = rng.integers(k, size=60)
    reweight = None if gamma is None else ts.Entropy(gamma)
    recipe = ts.Recipe(score, reweight, 2.0**log_t)
    predictor = ts.calibrate(logits, labels, 0.3, recipe)
    assert_sets_are_scores_below_threshold(predictor, logits)
    assert predictor.predict_set(logits).covers(labels).sum() >= predictor.rank


def test_infinite_threshold_takes_every_label():
    logits = np.array([[0.0, -INF, 1.0], [2.0, 1.0, 0.0]])
    with pytest.warns(ts.SmallCalibrationWarning):
        predictor = ts.calibrate(logits, [0, 1], 0.1, "aps")
    assert predictor.threshold == INF
    assert predictor.predict_set(logits).mask.all()


def test_impossible_labels_are_never_in_a_finite_set(rng):
    logits, labels = synthetic(rng, 400, 6)
    logits[:, 2] = -INF
    labels[labels == 2] = 1
    for recipe in recipe_names:
        predictor = ts.calibrate(logits, labels, 0.05, recipe)
        assert all(np.isfinite(c.threshold) for c in predictor.candidates)
        assert not predictor.predict_set(logits).mask[:, 2].any()


def test_labels_come_by_falling_probability(rng):
    logits, labels = synthetic(rng, 300, 9)
    for row, found in zip(logits, ts.calibrate(logits, labels, 0.05, "aps").predict_set(logits), strict=True):
        assert (np.diff(row[found]) <= 0).all()


def test_empty_sets_can_be_forbidden(rng):
    logits, labels = synthetic(rng, 2000, 4, strength=8.0)
    predictor = ts.calibrate(logits[:1000], labels[:1000], 0.3, "thr")
    allowed = predictor.predict_set(logits[1000:])
    filled = predictor.predict_set(logits[1000:], allow_empty=False)
    empty = allowed.sizes == 0
    assert empty.any()
    assert (filled.sizes[empty] == 1).all()
    assert (filled.mask.argmax(axis=1) == logits[1000:].argmax(axis=1))[empty].all()
    np.testing.assert_array_equal(filled.mask[~empty], allowed.mask[~empty])
