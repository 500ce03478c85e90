"""The level that follows the errors: its bound for any data, and its sets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import tightset as ts
from monitor_cases import calibrated, labelled, rows, zeros


def shifted_stream(rng, n=1000, labels=20_000):
    """A predictor and scores that it covers with 90 % at first, with 80 % after a quarter."""
    predictor = calibrated(rng.normal(size=n))
    scores = rng.normal(size=labels)
    scores[: labels // 4] += predictor.threshold - stats.norm.ppf(0.9)
    scores[labels // 4 :] += predictor.threshold - stats.norm.ppf(0.8)
    return predictor, scores


def test_adaptive_alpha_holds_its_level():
    rng = np.random.default_rng(6)
    for _ in range(10):
        predictor, scores = shifted_stream(rng)
        fixed = (scores <= predictor.threshold).mean()
        adaptive = ts.monitor.AdaptiveAlpha(predictor).update(rows(scores), zeros(scores))
        assert fixed < 0.84
        assert abs(adaptive.coverage - 0.9) < 0.01
        assert adaptive.alpha < 0.1


@pytest.mark.parametrize("truth", ["missed", "covered", "contrary"])
def test_adaptive_alpha_is_bounded_for_any_data(truth):
    """Labels chosen against it: all impossible, all certain, or always on the wrong side of the threshold."""
    rate, a = 0.05, 0.1
    adaptive = ts.monitor.AdaptiveAlpha(calibrated(np.arange(99.0)), rate)
    for t in range(1, 400):
        if truth == "contrary":
            score = 200.0 if adaptive.alpha > 0 else -1.0
        else:
            score = 200.0 if truth == "missed" else -1.0
        expected = adaptive.predict_set([0.0, score]).covers([0])[0]
        before = adaptive.coverage or 0.0
        adaptive.update([0.0, score], 0)
        assert round(adaptive.coverage * t) == round(before * (t - 1)) + expected
        assert -rate <= adaptive.alpha <= 1 + rate
        assert abs(1 - adaptive.coverage - a) <= (max(a, 1 - a) + rate) / (rate * t) + 1e-12


def test_adaptive_sets_at_the_ends():
    adaptive = ts.monitor.AdaptiveAlpha(calibrated(np.arange(99.0)), rate=1.0)
    adaptive.update([0.0, 500.0], 0)
    assert adaptive.alpha < 0
    assert adaptive.predict_set([[0.0, 500.0], [0.0, -np.inf]]).sizes.tolist() == [2, 2]
    for _ in range(20):
        adaptive.update([0.0, -5.0], 0)
        if adaptive.alpha >= 1:
            break
    assert adaptive.threshold is None
    sets = adaptive.predict_set([[0.0, -700.0], [0.0, 1.0]])
    assert sets.sizes.tolist() == [0, 0]
    with pytest.raises(ValueError, match="found nan at row 0"):
        adaptive.predict_set([[0.0, math.nan]])


def test_adaptive_threshold_is_that_of_a_calibration_at_its_alpha(rng):
    scores = rng.normal(size=500)
    adaptive = ts.monitor.AdaptiveAlpha(calibrated(scores))
    assert adaptive.threshold == adaptive.predictor.threshold
    adaptive.update(rows(rng.normal(size=15) + 3), np.zeros(15, dtype=int))
    assert 0 < adaptive.alpha < 0.1
    assert adaptive.threshold == calibrated(scores, adaptive.alpha).threshold


def test_adaptive_alpha_of_several_candidates(rng):
    logits, labels = labelled(rng, 6000)
    predictor = ts.calibrate(logits[:1000], labels[:1000], 0.1)
    assert len(predictor.candidates) > 1
    adaptive = ts.monitor.AdaptiveAlpha(predictor)
    sizes, chosen = adaptive.predict_set(logits[1000:]).sizes.mean(), predictor.predict_set(logits[1000:])
    assert abs(sizes - chosen.sizes.mean()) < 0.05
    noisy = logits[1000:] + rng.normal(size=(5000, 4))
    assert abs(adaptive.update(noisy, labels[1000:]).coverage - 0.9) < 0.02
