"""The ranked scale where the textbook one has run out of numbers, against arbitrary precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

import exact
import reference
import tightset as ts
from conftest import SCORES

LARGEST = float(np.finfo(np.float64).max)
REWEIGHTS = (None, ts.Entropy(0.0), ts.Entropy(1.0))

# Gaps that give entropies down to 1e-300, and logits of +-1e4.
ROWS = [
    [0.0, -690.0],
    [0.0, -690.0, -691.5, -2000.0],
    [1e4, -1e4, 0.0],
    [1e4, 1e4 - 300.0, -1e4],
    [30.0, 0.0, -1.0, -30.0, -300.0],
    [5.0, 5.0, -80.0, -80.0],
    [0.25, 0.0, -0.5, -1.0],
    [3.0, -np.inf, -400.0],
    [100.0, 99.5, 12.0, -690.0],
]
TEMPERATURES = (1e-6, 1e-3, 1.0, 1e3, 1e6)


def agrees(found, expected, tolerance, *, relative):
    """Near the exact value, or infinite where it passes float64."""
    if abs(expected) > mpf(LARGEST):
        return found == np.copysign(np.inf, float(np.sign(expected)))
    return abs(mpf(float(found)) - expected) <= tolerance * max(
        abs(expected), mpf(1) if expected < 1e-3 else 0
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", SCORES)
def test_against_arbitrary_precision(score, dtype):
    tolerance = mpf(3e-5 if dtype is np.float32 else 1e-12)
    for row in ROWS:
        z = np.array(row, dtype=dtype)
        for reweight in REWEIGHTS:
            settings = {"gamma": reweight.gamma, "power": 1.0} if reweight else {}
            for t in TEMPERATURES:
                for u in (0.0, 0.3, 1.0):
                    found = ts.all_scores(
                        z[np.newaxis], score, reweight=reweight, temperature=t, u=u, ranked=True
                    )[0]
                    for y in range(len(z)):
                        expected = exact.ranked(z, y, score, u, temperature=t, **settings)
                        assert agrees(found[y], expected, tolerance, relative=score == "aps"), (
                            row,
                            reweight,
                            t,
                            u,
                            y,
                            found[y],
                            expected,
                        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    gaps=st.lists(st.one_of(st.floats(0.5, 300, width=32), st.just(0.0)), min_size=1, max_size=6),
    log_t=st.floats(-6, 6),
    u=st.integers(0, 2**20).map(lambda i: i / 2**20),
    reweight=st.sampled_from(REWEIGHTS),
)
def test_random_saturated_rows(dtype, gaps, log_t, u, reweight):
    tolerance = mpf(3e-5 if dtype is np.float32 else 1e-12)
    z = np.cumsum([0.0, *(-g for g in gaps), -np.inf]).astype(dtype)
    t = float(10**log_t)
    settings = {"gamma": reweight.gamma, "power": 1.0} if reweight else {}
    for score in SCORES:
        found = ts.all_scores(z[np.newaxis], score, reweight=reweight, temperature=t, u=u, ranked=True)[0]
        for y in range(len(z)):
            expected = exact.ranked(z, y, score, u, temperature=t, **settings)
            assert agrees(found[y], expected, tolerance, relative=score == "aps"), (
                score,
                y,
                found[y],
                expected,
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_that_tie_in_the_textbook_stay_apart(dtype, rng):
    z = (40 + 5 * rng.normal(size=(200, 10))).astype(dtype)
    z[:, 0] += 60
    textbook = np.array(
        [
            [
                reference.conventional(row.astype(float), y, "aps", 0.5, gamma=0.0, power=1.0)
                for y in range(10)
            ]
            for row in z
        ]
    )
    assert (textbook[:, 1:] == 1.0).all(), "the rows are meant to be saturated"
    for score in ("aps", "thr", "rank"):
        ranked = ts.all_scores(z, score, reweight="entropy", u=0.5, ranked=True)
        assert np.isfinite(ranked).all()
        assert all(len(set(row)) == 10 for row in ranked), score
        order = np.argsort(ranked, axis=1)
        assert (order == np.argsort(-z, axis=1, kind="stable")).all()
    # The confident end of thr: the top labels of different rows.
    top = ts.label_scores(z, np.zeros(200, int), "thr", reweight="entropy", ranked=True)
    assert np.isfinite(top).all()
    assert len(set(top)) == 200


def test_penalty_does_not_hide_the_tail():
    # RAPS adds a penalty of order 1 to tails of order e^-60: the last term keeps the order.
    z = np.array([[60.0, 0.0, -1.0, -2.0]])
    ranked = ts.all_scores(z, ts.RAPS(0.0, 0), reweight=None, u=0.5, ranked=True)[0]
    assert len(set(ranked)) == 4
    assert (np.diff(ranked) > 0).all()


EXTREME = [
    [5.0, np.finfo(np.float64).min, np.finfo(np.float64).min],
    [1e308, -1e308],
    [1e308, -1e308, -1.7e308, 0.0],
    [1e30, 0.0, -1e30],
    [3e38, -3e38, 0.0],
    [5e-324, 0.0, -5e-324],
    [1e-310, 1e-310, 0.0],
    [0.0],
    [1e4, 1e4],
]


@pytest.mark.parametrize("row", EXTREME)
def test_extreme_logits_are_never_nan(row):
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore", under="ignore"):
            z = (
                np.clip(np.array([row]), -1.5e38, 1.5e38).astype(dtype)
                if dtype is np.float32
                else np.array([row])
            )
        arrays = [ts.entropy(z), ts.margin(z), ts.gini(z)]
        for reweight in (None, ts.Entropy(0.0), ts.Entropy(1.0)):
            for t in (0.0, 1e-300, 1e-3, 1.0, 1e5, 1e300, np.inf):
                arrays.append(ts.softmax(z, reweight, t))
                np.testing.assert_allclose(arrays[-1].sum(), 1.0, rtol=1e-6)
                for score in ("thr", "aps") if t in (0.0, np.inf) else SCORES:
                    for u in (0.0, 0.3, 1.0):
                        options = {"reweight": reweight, "temperature": t, "u": u}
                        ranked = ts.all_scores(z, score, ranked=True, **options)[0]
                        arrays += [ranked, ts.all_scores(z, score, **options)]
                        # Scores rise with rank, whatever the row.
                        by_rank = ranked[np.argsort(-z[0], kind="stable")]
                        assert (by_rank[1:] >= by_rank[:-1]).all(), (score, reweight, t, u, by_rank)
        assert not any(np.isnan(a).any() for a in arrays)


def test_tied_labels_far_below_the_top():
    # The gap to the shift must not be formed from two rounded distances: beta is 1e17 here.
    rows = [[45.04077408007501, 0.011965, 0.011965], [52.3, 1.25e-3, 1.25e-3, 1.24e-3]]
    for row in rows:
        for score in ("aps", "raps"):
            ranked = ts.all_scores([row], score, u=0.3, ranked=True)[0]
            for y in range(len(row)):
                expected = exact.ranked(row, y, score, 0.3, gamma=0.0, power=1.0)
                assert agrees(ranked[y], expected, mpf(1e-12), relative=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1.0, 2.0**18])
def test_thr_is_monotone_and_ties_are_ties(rng, dtype, temperature):
    z = (3 * rng.normal(size=(200, 1000))).astype(dtype)
    z[:, 7] = z[:, 3]
    for reweight in (None, ts.Entropy(1.0)):
        scores = ts.all_scores(z, "thr", reweight=reweight, temperature=temperature, ranked=True)
        order = np.argsort(-z, axis=1, kind="stable")
        by_rank = np.take_along_axis(scores, order, 1)
        assert (np.diff(by_rank, axis=1) >= 0).all()
        not_top = z[:, 3] < z.max(axis=1)
        assert (scores[not_top, 7] == scores[not_top, 3]).all()
