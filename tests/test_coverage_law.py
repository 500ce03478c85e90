"""Marginal coverage follows its exact law: Beta(k, n + 1 - k) over calibration draws.

Given a calibration draw, the covered among m test rows are binomial, so their number is
beta-binomial. Each test sums over many draws and would fail if the threshold were one rank lower.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tightset as ts
from conftest import SCORES
from tightset.recipes import as_recipe

M = 100  # test rows a draw, where it does not matter
# Draws and test rows a draw that tell one rank from the next at p < 1e-6.
DESIGN = {9: (4000, 100), 19: (4000, 100), 99: (4000, 100), 1000: (5000, 2000)}


def draw(rng, rows):
    labels = rng.integers(4, size=rows)
    logits = rng.standard_normal(size=(rows, 4), dtype=np.float32)
    logits *= rng.standard_gamma(2.0, size=(rows, 1), dtype=np.float32)
    logits[np.arange(rows), labels] += 1.5
    return logits, labels


def covered_counts(recipe, n, draws, m, rank_offsets, seed):
    """Test rows covered in each draw when the threshold is that many ranks off, for each offset."""
    rng = np.random.default_rng(seed)
    scoring = ts.Recipe(recipe).candidates[0]
    k = ts.conformal_rank(n, 0.1)
    counts = []
    for _ in range(10):  # in parts, to bound memory
        logits, labels = draw(rng, draws // 10 * (n + m))
        scores = ts.label_scores(logits, labels, scoring.score, reweight=None, ranked=True)
        calibration, test = np.split(scores.reshape(-1, n + m), [n], axis=1)
        ordered = np.sort(calibration, axis=1)
        thresholds = [ordered[:, k + offset - 1] for offset in rank_offsets]
        counts.append([(test <= q[:, np.newaxis]).sum(axis=1) for q in thresholds])
    return np.concatenate(counts, axis=1)


def p_value(covered, law):
    """Two-sided p-value of the mean count.

    Many independent draws of a bounded variable: the mean is normal to far better than 1e-6.
    """
    z = (covered.mean() - law.mean()) / (law.std() / np.sqrt(len(covered)))
    return 2 * stats.norm.sf(abs(z))


@pytest.mark.parametrize("recipe", SCORES)
@pytest.mark.parametrize("n", [9, 19, 99, 1000])
def test_coverage_is_beta_binomial(recipe, n):
    draws, m = DESIGN[n]
    k = ts.conformal_rank(n, 0.1)
    law = stats.betabinom(m, k, n + 1 - k)
    exact, one_lower = covered_counts(recipe, n, draws, m, (0, -1), seed=n)
    assert p_value(exact, law) > 1e-6
    assert p_value(one_lower, law) < 1e-6, "one rank lower must be noticed"


@pytest.mark.parametrize("n", [9, 99])
def test_whole_distribution(n):
    """Not the mean alone: the counts themselves, by chi-square."""
    (covered,) = covered_counts("aps", n, 4000, M, (0,), seed=7)
    k = ts.conformal_rank(n, 0.1)
    law = stats.betabinom(M, k, n + 1 - k)
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    # Cell j holds edges[j - 1] < x <= edges[j].
    observed = np.bincount(np.searchsorted(edges, covered), minlength=len(edges) + 1)
    expected = 4000 * np.diff(np.concatenate([[0], law.cdf(edges), [1]]))
    kept = expected > 0
    assert stats.chisquare(observed[kept], expected[kept]).pvalue > 1e-6


def test_predictors_follow_the_law():
    """The same through calibrate and predict_set, from one-row requests and from batches."""
    rng = np.random.default_rng(5)
    n, covered_batch, covered_single = 19, [], []
    for _ in range(600):
        logits, labels = draw(rng, n + M)
        predictor = ts.calibrate(logits[:n], labels[:n], 0.1, "aps")
        new, truth = logits[n:], labels[n:]
        batch = predictor.predict_set(new)
        covered_batch.append(batch.covers(truth).sum())
        single = [truth[i] in predictor.predict_set(new[i])[0] for i in range(M)]
        assert np.array_equal(single, batch.covers(truth))
        covered_single.append(sum(single))
    k = ts.conformal_rank(n, 0.1)
    law = stats.betabinom(M, k, n + 1 - k)
    z = (np.mean(covered_single) - law.mean()) / (law.std() / np.sqrt(600))
    assert abs(z) < 4.9  # p > 1e-6


@pytest.mark.parametrize("recipe", ["er-aps", "er-thr"])
def test_held_out_selection_is_exact(recipe):
    rng = np.random.default_rng(11)
    n, draws, covered = 80, 300, []
    for i in range(draws):
        logits, labels = draw(rng, n + M)
        selected = as_recipe(recipe).with_selection("held-out")
        predictor = ts.calibrate(logits[:n], labels[:n], 0.1, selected, seed=i)
        assert predictor.n_calibration == 60
        covered.append(predictor.predict_set(logits[n:]).covers(labels[n:]).sum())
    k = ts.conformal_rank(60, 0.1)
    law = stats.betabinom(M, k, 61 - k)
    z = (np.mean(covered) - law.mean()) / (law.std() / np.sqrt(draws))
    assert abs(z) < 4.9
