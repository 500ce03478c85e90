"""Counts by a table are those of binary search, whatever the scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightset.integrations.sorted_counts import SortedCounts

VALUES = st.one_of(
    st.floats(allow_nan=False),
    st.integers(-3, 3).map(float),
    st.floats(0.0, 1.0),
    st.sampled_from([np.inf, -np.inf, 0.0, -0.0, 1.0, np.nextafter(1.0, 2.0), 1e308, -1e308, 5e-324]),
)


@given(
    st.lists(VALUES, min_size=1, max_size=300),
    st.lists(st.one_of(VALUES, st.just(np.nan)), max_size=40),
    st.sampled_from([np.float64, np.float32]),
    st.integers(1, 80),
)
def test_counts_are_those_of_a_search(scores, questions, dtype, repeats):
    with np.errstate(over="ignore"):
        scores = np.tile(np.array(scores).astype(dtype), repeats)
        questions = np.concatenate([np.array(questions, dtype=dtype), scores[:50]])
    check(scores, questions)


def check(scores, questions):
    below, up_to = SortedCounts(scores)(questions)
    ordered = np.sort(scores)
    np.testing.assert_array_equal(below, np.searchsorted(ordered, questions, "left"))
    np.testing.assert_array_equal(up_to, np.searchsorted(ordered, questions, "right"))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.random(n),
        lambda rng, n: rng.random(n).round(2),
        lambda rng, n: np.exp(20 * rng.normal(size=n)),
        lambda rng, n: np.where(rng.random(n) < 0.2, np.inf, rng.normal(size=n)),
        lambda rng, n: 1 - 1e-15 * rng.integers(20, size=n),
        lambda rng, n: np.full(n, 3.0),
    ],
    ids=["uniform", "tied", "skewed", "infinite", "near one", "constant"],
)
@pytest.mark.parametrize("n", [1, 63, 64, 5000])
def test_many(draw, n):
    rng = np.random.default_rng(0)
    scores = draw(rng, n)
    questions = np.concatenate(
        [draw(rng, 100_000), scores, np.nextafter(scores, np.inf), np.nextafter(scores, -np.inf)]
    )
    check(scores, questions)
    below, _ = SortedCounts(scores)(questions[:100].reshape(20, 5))
    assert below.shape == (20, 5)


def test_integers():
    check(np.arange(500) + 2**60, np.arange(400) + 2**60 + 7)
