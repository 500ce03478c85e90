"""The law of the mean coverage over random splits of one data set."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import tightset as ts
from tightset.metrics import mean_coverage_band


def test_the_law_of_one_split_by_counting_every_split():
    """Of 5 + 4 distinct scores, each way to choose 5: how many of the others are at most the k-th."""
    n, m, k = 5, 4, 3
    assert ts.conformal_rank(n, 0.5) == k
    counts = [
        sum(score < chosen[k - 1] for score in range(n + m) if score not in chosen)
        for chosen in combinations(range(n + m), n)
    ]
    seen = np.bincount(counts, minlength=m + 1) / len(counts)
    assert seen == pytest.approx(stats.betabinom(m, k, n + 1 - k).pmf(np.arange(m + 1)))


def test_one_split_is_the_band_of_one_sample():
    for level in (0.8, 0.9, 0.999):
        one = mean_coverage_band(300, 0.07, 200, 1, level)
        assert one == pytest.approx(ts.metrics.coverage_band(300, 0.07, 200, level))


@pytest.mark.parametrize("splits", [2, 3])
def test_sums_by_plain_convolution(splits):
    n, m, alpha, level = 60, 40, 0.15, 0.98
    k = ts.conformal_rank(n, alpha)
    one = stats.betabinom(m, k, n + 1 - k).pmf(np.arange(m + 1))
    law = one
    for _ in range(splits - 1):
        law = np.convolve(law, one)
    below = np.cumsum(law)
    lower, upper = mean_coverage_band(n, alpha, m, splits, level)
    low, high = round(lower * m * splits), round(upper * m * splits)
    assert below[low - 1] < 0.01 <= below[low]
    assert below[high - 1] < 0.99 <= below[high]


def coverage_of_splits(scores, n, k, splits, rng):
    found = []
    for _ in range(splits):
        order = rng.permutation(len(scores))
        threshold = np.sort(scores[order[:n]])[k - 1]
        found.append((scores[order[n:]] <= threshold).mean())
    return np.mean(found)


def test_splits_of_the_same_rows_follow_the_law():
    """The rows stay; only the splits are drawn. The band holds for them, and fails with rank k - 5."""
    rng = np.random.default_rng(0)
    n, m, splits = 150, 100, 5
    scores = np.exp(rng.normal(size=n + m))
    k = ts.conformal_rank(n, 0.2)
    band = mean_coverage_band(n, 0.2, m, splits, 0.9)
    means = np.array([coverage_of_splits(scores, n, k, splits, rng) for _ in range(2000)])
    inside = ((means >= band.lower - 1e-9) & (means <= band.upper + 1e-9)).sum()
    # At least 0.9 of them; discreteness adds little.
    assert 1800 - 4 * 14 < inside < 1900
    wrong = np.array([coverage_of_splits(scores, n, k - 5, splits, rng) for _ in range(500)])
    assert (wrong < band.lower - 1e-9).mean() > 0.3


def test_selection_among_candidates_is_in_the_wider_band():
    """The largest of many coverages leaves the band of one; the band for so many holds it."""
    rng = np.random.default_rng(1)
    n, m, splits, candidates = 150, 100, 5, 50
    tables = rng.normal(size=(candidates, n + m))
    k = ts.conformal_rank(n, 0.2)
    one = mean_coverage_band(n, 0.2, m, splits, 0.9)
    wide = mean_coverage_band(n, 0.2, m, splits, 0.9, candidates)
    assert wide.lower < one.lower
    assert one.upper < wide.upper < 1
    largest = []
    for _ in range(100):
        best = []
        for _ in range(splits):
            order = rng.permutation(n + m)
            thresholds = np.sort(tables[:, order[:n]], axis=1)[:, k - 1]
            best.append((tables[:, order[n:]] <= thresholds[:, np.newaxis]).mean(axis=1).max())
        largest.append(np.mean(best))
    assert np.mean(np.array(largest) > one.upper) > 0.9
    assert np.mean(np.array(largest) > wide.upper) <= 0.05


def test_too_few_rows_cover_everything():
    assert mean_coverage_band(5, 0.01, 10, 3) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_test": 0}, "n_test must be"),
        ({"n_splits": 0}, "n_splits must be"),
        ({"n_splits": 10**9}, "n_splits must be"),
        ({"n_candidates": 0}, "n_candidates must be"),
        ({"level": 1.0}, "level must be"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ValueError, match=message):
        mean_coverage_band(**{"n_calibration": 100, "alpha": 0.1, "n_test": 100, "n_splits": 2, **settings})
