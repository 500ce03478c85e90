"""Selection that keeps the guarantee, and selection that does not: mean coverage over calibration draws.

The law of `modsel`. Take the n calibration rows and a test row with its true label. The score of the label
clipped to [lo, hi] is the k-th smallest of the n + 1 scores, and the pairs counted are those of all n + 1
rows, so the candidate m that the true label chooses is a symmetric function of n + 1 exchangeable rows.
Given the rows without their order m is fixed, and the label is covered when its score is among the k
smallest under m. Hence:

- at least k / (n + 1): of n + 1 scores in random order, the last is at most the k-th smallest with at least
  this probability, ties or not;
- at most k / (n + 1) plus what ties at the k-th smallest add. Scores here are continuous: they depend on
  normal logits, or on U where a label's score depends on little else. Ties have probability 0.

So the mean is k / (n + 1), as for one fixed candidate, and so it is tested from both sides. The spread of
coverage over draws is not that of the Beta law, since m differs among the rows of a draw: standard errors
are those of the draws. In `held-out` selection m is fixed before the other rows are read, and n is theirs.

Naive selection takes the candidate whose sets are smallest on the calibration rows, with the threshold
from the same rows. Candidates here are about equally good, so it takes the one whose threshold happens to
be too low.
"""

from __future__ import annotations

import numpy as np
import pytest

import tightset as ts

N, NEW, K, ALPHA = 100, 200, 4, 0.1
SCORES = ("thr", "aps", "raps", "saps", "rank")
PARTS = (SCORES, (None, ts.Entropy(1.0)), (0.25, 1.0, 4.0, 16.0))
CANDIDATES = ts.Recipe(*PARTS, "held-out").candidates


def draw(rng, rows):
    """Labels that are hard to tell; the scale of the logits varies from row to row and says nothing."""
    labels = rng.integers(K, size=rows)
    logits = rng.normal(size=(rows, K)) + 0.5 * np.eye(K)[labels]
    return logits * np.exp(1.5 * rng.normal(size=(rows, 1))), labels


def selected(selection, logits, labels, seed):
    """Coverage of one draw through calibrate and predict_set, and the rows that set the threshold."""
    recipe = ts.Recipe(*PARTS, selection)
    predictor = ts.calibrate(logits[:N], labels[:N], ALPHA, recipe, seed=seed)
    return predictor.predict_set(logits[N:]).coverage(labels[N:]), predictor.n_calibration


def naive(_, logits, labels, seed):
    """The same for the candidate of smallest sets on the calibration rows."""
    best = None
    for candidate in CANDIDATES:
        options = {"reweight": candidate.reweight, "temperature": candidate.temperature}
        scores = ts.all_scores(logits, candidate.score, seed=seed, ranked=True, **options)
        of_labels = scores[np.arange(N + NEW), labels]
        threshold = ts.conformal_threshold(of_labels[:N], ALPHA)
        size = (scores[:N] <= threshold).sum()
        if best is None or size < best[0]:
            best = size, (of_labels[N:] <= threshold).mean()
    return best[1], N


def standard_errors_off(method, selection, draws, seed):
    """How far the mean coverage is from k / (n + 1), in standard errors."""
    rng = np.random.default_rng(seed)
    coverage, rows = [], set()
    for i in range(draws):
        covered, n = method(selection, *draw(rng, N + NEW), seed=i)
        coverage.append(covered)
        rows.add(n)
    (n,) = rows
    assert n == {"held-out": 75}.get(selection, 100)
    law = ts.conformal_rank(n, ALPHA) / (n + 1)
    return (np.mean(coverage) - law) / (np.std(coverage, ddof=1) / np.sqrt(draws))


def test_there_are_forty_candidates():
    assert len(set(CANDIDATES)) == 40


@pytest.mark.parametrize("selection", ["modsel", "held-out"])
def test_mean_coverage(selection):
    assert abs(standard_errors_off(selected, selection, 300, seed=1)) < 4


def test_naive_selection_is_noticed():
    assert standard_errors_off(naive, None, 300, seed=1) < -4


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("selection", ["modsel", "held-out"])
def test_mean_coverage_over_many_draws(selection):
    assert abs(standard_errors_off(selected, selection, 2000, seed=3)) < 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_naive_selection_is_noticed_over_many_draws(seed):
    assert standard_errors_off(naive, None, 2000, seed) < -4
