"""Coverage within labels, groups and clusters follows its law over calibration draws.

Given the labels, the rows of label y are n_y draws from one distribution, so the coverage of new rows with
that label has the law Beta(k_y, n_y + 1 - k_y), as marginal coverage has for all rows; so it is with groups,
and with clusters and rank limits that other rows gave. The numbers of rows are fixed here, so that there is
one law a label. Each test would fail with a threshold one rank lower.

With `modsel` within a label the mean is k_y / (n_y + 1): the argument of test_selection_law.py, with the
label's rows for all rows, holds given the other ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tightset as ts

K, ALPHA, M = 3, 0.2, 60  # M new rows of each label
COUNTS = (14, 24, 39)  # calibration rows of each label
PARTS = (("thr", "aps", "raps", "saps"), (None, ts.Entropy(1.0)), (0.25, 1.0, 4.0))
SELECTED = ts.Recipe(*PARTS, "modsel")


def draw(rng, counts):
    """Rows of each label, in random order; the scale of the logits varies and says nothing."""
    labels = rng.permutation(np.repeat(np.arange(K), counts))
    logits = rng.normal(size=(len(labels), K)) + (0.5 + 0.7 * labels[:, None]) * np.eye(K)[labels]
    return logits * np.exp(rng.normal(size=(len(labels), 1))), labels


def z_of_counts(covered, n, m=M):
    """How far the mean of covered counts is from its law, in standard errors, with n calibration rows."""
    k = ts.conformal_rank(n, ALPHA)
    law = stats.betabinom(m, k, n + 1 - k)
    return (np.mean(covered) - law.mean()) / (law.std() / np.sqrt(len(covered)))


@pytest.mark.parametrize("recipe", ["aps", "thr"])
def test_each_label_follows_its_law(recipe):
    rng = np.random.default_rng(1)
    exact, one_lower = [], []
    for i in range(400):
        logits, labels = draw(rng, COUNTS)
        new, truth = draw(rng, (M, M, M))
        predictor = ts.calibrate(logits, labels, ALPHA, recipe, condition="label", seed=i)
        covers = predictor.predict_set(new).covers(truth)
        exact.append([covers[truth == y].sum() for y in range(K)])
        lower = np.array([cell.calibration_scores[0, cell.rank - 2] for cell in predictor.condition.cells])
        covers = predictor.scores(new, truth) <= lower[truth]
        one_lower.append([covers[truth == y].sum() for y in range(K)])
    for y, n in enumerate(COUNTS):
        assert abs(z_of_counts(np.array(exact)[:, y], n)) < 4.9  # p > 1e-6
        assert z_of_counts(np.array(one_lower)[:, y], n) < -4.9, "one rank lower must be noticed"


@pytest.mark.parametrize("recipe", ["aps", "selected"])
def test_each_group_follows_its_law(recipe):
    """Groups that the classifier knows unequally well: marginal thresholds would not do for either."""
    rng = np.random.default_rng(2)
    sizes, covered, marginal = {"a": 19, "b": 39}, [], []
    used = SELECTED if recipe == "selected" else recipe
    for i in range(300):
        groups = rng.permutation(np.repeat(list(sizes), list(sizes.values())))
        of_new = np.repeat(list(sizes), M)
        logits, labels = draw(rng, (20, 20, 18))
        new, truth = draw(rng, (40, 40, 40))
        logits[groups == "b"] += 2 * np.eye(K)[labels[groups == "b"]]
        new[of_new == "b"] += 2 * np.eye(K)[truth[of_new == "b"]]
        predictor = ts.calibrate(logits, labels, ALPHA, used, condition=groups, seed=i)
        covers = predictor.predict_set(new, groups=of_new).covers(truth)
        covered.append([covers[of_new == g].sum() for g in sizes])
        if recipe == "aps":
            covers = ts.calibrate(logits, labels, ALPHA, used, seed=i).predict_set(new).covers(truth)
            marginal.append([covers[of_new == g].mean() for g in sizes])
    for column, n in enumerate(sizes.values()):
        found = np.array(covered)[:, column]
        if recipe == "aps":
            assert abs(z_of_counts(found, n)) < 4.9
        else:
            mean = ts.conformal_rank(n, ALPHA) / (n + 1)
            assert abs(found.mean() / M - mean) < 4.9 * found.std(ddof=1) / M / np.sqrt(300)
    if recipe == "aps":
        assert np.mean(marginal, axis=0)[0] < 0.785, "the hard group is what the condition is for"


def standard_errors_off(method, draws, seed):
    """For each label, how far the mean coverage is from k_y / (n_y + 1), in standard errors."""
    rng = np.random.default_rng(seed)
    coverage = []
    for i in range(draws):
        logits, labels = draw(rng, COUNTS)
        new, truth = draw(rng, (M, M, M))
        covers = method(logits, labels, new, truth, i)
        coverage.append([covers[truth == y].mean() for y in range(K)])
    law = np.array([ts.conformal_rank(n, ALPHA) / (n + 1) for n in COUNTS])
    found = np.array(coverage)
    return (found.mean(axis=0) - law) / (found.std(axis=0, ddof=1) / np.sqrt(draws))


def selected(logits, labels, new, truth, seed):
    predictor = ts.calibrate(logits, labels, ALPHA, SELECTED, condition="label", seed=seed)
    return predictor.predict_set(new).covers(truth)


def naive(logits, labels, new, truth, seed):
    """For each label, the candidate that puts it into the fewest sets of calibration rows."""
    covers = np.zeros(len(truth), dtype=bool)
    best = [None] * K
    for candidate in SELECTED.candidates:
        options = {"reweight": candidate.reweight, "temperature": candidate.temperature}
        options |= {"ranked": True, "seed": seed}
        scores = ts.all_scores(logits, candidate.score, **options)
        of_new = ts.label_scores(new, truth, candidate.score, **options)
        for y in range(K):
            q = ts.conformal_threshold(scores[labels == y, y], ALPHA)
            size = (scores[:, y] <= q).sum()
            if best[y] is None or size < best[y]:
                best[y] = size
                covers[truth == y] = of_new[truth == y] <= q
    return covers


def test_selection_within_labels_is_exact():
    assert np.abs(standard_errors_off(selected, 300, seed=3)).max() < 4


def test_naive_selection_within_labels_is_noticed():
    assert standard_errors_off(naive, 300, seed=3).min() < -4


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_selection_within_labels_is_exact_over_many_draws():
    assert np.abs(standard_errors_off(selected, 2000, seed=5)).max() < 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_naive_selection_within_labels_is_noticed_over_many_draws():
    assert standard_errors_off(naive, 2000, seed=5).max() < -4


def rest_counts(predictor, labels, n):
    """Calibrating rows of each label when a quarter was held out."""
    from tightset import _core

    order = np.asarray(_core.permutation(predictor.seed, n))
    return np.bincount(labels[order[n // 4 :]], minlength=K)


@pytest.mark.parametrize("condition", ["label", "rc3p"])
@pytest.mark.filterwarnings("ignore:too many rows of labels:tightset.SmallCalibrationWarning")
def test_held_out_parts_leave_labels_exact(condition):
    """Selection and rank limits from a quarter of the rows; what calibrates varies from draw to draw.

    Scores beyond a limit of rank tie at infinity. A threshold there, of a limit that a small part set too
    low, covers all: coverage is at least that of the law.
    """
    rng = np.random.default_rng(6)
    recipe = SELECTED.with_selection("held-out") if condition == "label" else "thr"
    misses = []
    for i in range(300):
        logits, labels = draw(rng, (40, 60, 100))
        new, truth = draw(rng, (M, M, M))
        predictor = ts.calibrate(logits, labels, ALPHA, recipe, condition=condition, seed=i)
        covers = predictor.predict_set(new).covers(truth)
        counts = rest_counts(predictor, labels, 200)
        law = [ts.conformal_rank(int(n), ALPHA) / (n + 1) for n in counts]
        misses.append([covers[truth == y].mean() - law[y] for y in range(K)])
    found = np.array(misses)
    z = found.mean(axis=0) / (found.std(axis=0, ddof=1) / np.sqrt(len(found)))
    assert z.min() > -4
    if condition == "label":
        assert z.max() < 4


def test_clusters_follow_their_law():
    """Coverage of the rows of each cluster, whatever the clusters are; and of all rows together."""
    rng = np.random.default_rng(7)
    k, misses, clusters = 6, [], set()
    for i in range(300):
        labels, truth = rng.integers(k, size=400), rng.integers(k, size=300)
        sharpness = np.where(np.arange(k) < 3, 1.0, 4.0)
        logits = rng.normal(size=(400, k)) + sharpness[labels][:, None] * np.eye(k)[labels]
        new = rng.normal(size=(300, k)) + sharpness[truth][:, None] * np.eye(k)[truth]
        predictor = ts.calibrate(logits, labels, ALPHA, "thr", condition="cluster", seed=i)
        condition = predictor.condition
        covers = predictor.predict_set(new).covers(truth)
        of_new = np.array(condition.cell_of)[truth]
        for c, cell in enumerate(condition.cells):
            if (of_new == c).any():
                law = cell.rank / (cell.n_calibration + 1)
                misses.append(covers[of_new == c].mean() - law)
        clusters.add(condition.n_cells)
    assert max(clusters) > 1
    found = np.array(misses)
    # Cells of one draw are calibrated on different rows: their errors are independent.
    assert abs(found.mean()) < 4 * found.std(ddof=1) / np.sqrt(len(found))
