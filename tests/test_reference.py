"""The core equals the slow NumPy definitions: every score, both scales, both computing types."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import tightset as ts
from conftest import SCORES, synthetic

INF = float("inf")
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-12}
REWEIGHTS = (None, ts.Entropy(0.0), ts.Entropy(1.0), ts.Entropy(0.1, 0.5), ts.Entropy(0.5, -0.1))

logit = st.one_of(
    st.floats(-30, 30, width=32),
    st.integers(-3, 3).map(float),  # ties
    st.just(-INF),
)


@st.composite
def rows(draw, max_labels=24):
    row = draw(st.lists(logit, min_size=1, max_size=max_labels))
    row[draw(st.integers(0, len(row) - 1))] = draw(st.floats(-5, 30, width=32))
    return np.array(row)


def settings_of(reweight):
    return (
        {"gamma": 0.0, "power": 0.0}
        if reweight is None
        else {"gamma": reweight.gamma, "power": reweight.power}
    )


def close(found, expected, tolerance):
    """Equal, infinite alike, or near: relative to the value where it is large."""
    with np.errstate(invalid="ignore"):
        near = np.abs(found - expected) <= tolerance * np.maximum(1.0, np.abs(expected))
    return np.all(near | (found == expected))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES)
@given(z=rows(), u=st.floats(0, 1), reweight=st.sampled_from(REWEIGHTS), log_t=st.floats(-3, 5))
def test_scores(score, dtype, z, u, reweight, log_t):
    # U on its own grid, and a temperature that float32 holds, so that both sides see the same.
    u, t = round(u * 2**20) / 2**20, float(np.float32(np.exp(log_t)))
    labels = np.arange(len(z))
    batch = np.repeat(z[np.newaxis].astype(dtype), len(z), axis=0)
    options = {"reweight": reweight, "temperature": t, "u": u}
    for ranked, define in ((False, reference.conventional), (True, reference.ranked)):
        found = ts.label_scores(batch, labels, score, ranked=ranked, **options)
        expected = [define(z, y, score, u, temperature=t, **settings_of(reweight)) for y in labels]
        assert close(found, np.array(expected), 20 * TOLERANCE[dtype]), (found, expected)
        every = ts.all_scores(batch[:1], score, ranked=ranked, **options)[0]
        assert every.tobytes() == found.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", ["thr", "aps"])
@pytest.mark.parametrize("temperature", [0.0, INF])
@given(z=rows(), u=st.floats(0, 1), reweight=st.sampled_from(REWEIGHTS))
def test_limits_in_temperature(score, dtype, temperature, z, u, reweight):
    labels = np.arange(len(z))
    batch = np.repeat(z[np.newaxis].astype(dtype), len(z), axis=0)
    options = {"reweight": reweight, "temperature": temperature, "u": u}
    for ranked, define in ((False, reference.conventional), (True, reference.ranked)):
        found = ts.label_scores(batch, labels, score, ranked=ranked, **options)
        expected = [define(z, y, score, u, temperature=temperature, **settings_of(reweight)) for y in labels]
        assert close(found, np.array(expected), 20 * TOLERANCE[dtype]), (found, expected)
        assert ts.all_scores(batch[:1], score, ranked=ranked, **options)[0].tobytes() == found.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(z=rows())
def test_uncertainty(dtype, z):
    batch = z[np.newaxis].astype(dtype)
    for function, define in (
        (ts.entropy, reference.entropy),
        (ts.margin, reference.margin),
        (ts.gini, reference.gini),
    ):
        found, expected = function(batch)[0], define(z)
        assert found >= 0
        assert abs(found - expected) <= TOLERANCE[dtype] * 5, function.__name__


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(z=rows(), reweight=st.sampled_from(REWEIGHTS), t=st.sampled_from([0.0, 0.1, 1.0, 7.0, 1e5, INF]))
def test_softmax(dtype, z, reweight, t):
    found = ts.softmax(z[np.newaxis].astype(dtype), reweight, t)
    expected = reference.reweighted(z, temperature=t, **settings_of(reweight))
    assert found.dtype == dtype
    assert close(found[0], expected, 20 * TOLERANCE[dtype]), (found, expected)


@given(z=rows())
def test_ranks(z):
    batch = np.repeat(z[np.newaxis], len(z), axis=0)
    expected = [reference.rank(z, y) for y in range(len(z))]
    assert ts.ranks(batch, np.arange(len(z))).tolist() == expected
    assert ts.ranks(batch.astype(np.float32), np.arange(len(z))).tolist() == expected


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_labels(rng, score, dtype):
    k = 100_000
    z = (3 * rng.normal(size=k)).astype(np.float32)
    z[rng.integers(k, size=50)] = z[0]  # ties
    z[1] = -INF
    labels = np.array([0, 1, int(z.argmax()), int(z.argmin()), 77, k - 1])
    batch = np.repeat(z[np.newaxis].astype(dtype), len(labels), axis=0)
    for ranked, define in ((False, reference.conventional), (True, reference.ranked)):
        found = ts.label_scores(batch, labels, score, reweight="entropy", u=0.25, ranked=ranked)
        expected = [define(z.astype(float), y, score, 0.25, gamma=0.0, power=1.0) for y in labels]
        assert close(found, np.array(expected), 10 * TOLERANCE[dtype]), (found, expected)
        every = ts.all_scores(batch[:1], score, reweight="entropy", u=0.25, ranked=ranked)[0]
        assert every[labels].tobytes() == found.tobytes()


@pytest.mark.parametrize("k", [1023, 1024, 1025])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_masses_too_small_to_count_alone(dtype, k):
    # After the label there is one mass, and a thousand that coarse sums round, all the same way.
    worst = 0.0
    for depth in np.arange(12.0, 27.0, 0.125):
        for gap in (0.25, 0.875, 1.0):
            z = np.full(k, -1 - gap - depth)
            z[:3] = 0.0, -1.0, -1 - gap
            found = ts.label_scores(
                z[np.newaxis].astype(dtype), [1], "aps", reweight=None, u=1.0, ranked=True
            )
            expected = reference.ranked(z, 1, "aps", 1.0, temperature=1.0, gamma=0.0, power=0.0)
            worst = max(worst, abs(found[0] - expected))
    # 2.6e-6, see Grain in src/sum.rs, and the terms' own error.
    assert worst <= (4e-6 if dtype is np.float32 else 1e-13), worst


def test_several_temperatures_in_one_reading(rng):
    z, y = synthetic(rng, 300, 7)
    ts_grid = [0.0, 0.5, 1.0, 2.0, INF]
    together = ts.label_scores(z, y, "aps", temperature=ts_grid, ranked=True)
    apart = [ts.label_scores(z, y, "aps", temperature=t, ranked=True) for t in ts_grid]
    assert together.shape == (5, 300)
    assert together.tobytes() == np.array(apart).tobytes()


def test_probabilities_are_logits(rng):
    z, y = synthetic(rng, 200, 6)
    p = np.array([reference.softmax(row) for row in z])
    for score in SCORES:
        from_logits = ts.label_scores(z, y, score, u=0.5)
        from_probabilities = ts.label_scores(p, y, score, u=0.5, probabilities=True)
        np.testing.assert_allclose(from_logits, from_probabilities, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ts.entropy(p, probabilities=True), ts.entropy(z), rtol=1e-9)
    assert ts.entropy([[1.0, 0.0]], probabilities=True)[0] == 0.0
