"""Class-conditional, clustered and rank-limited prediction beside TorchCP 1.2.1: equal, or different as said.

docs/differences.md has the reasons. Run by `make test-peers`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tightset as ts
from tightset import clusters

K, N, ALPHA = 8, 1600, 0.1

# Deprecations inside the peers are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def torch_computes_in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def ours():
    # Importing TorchCP warns: not while tests are collected.
    from tightset.integrations import torchcp

    return torchcp


@pytest.fixture
def batch():
    """Labels of two kinds, easy and hard."""
    rng = np.random.default_rng(3)
    labels = rng.integers(K, size=2 * N)
    margin = np.where(labels < K // 2, 1.0, 6.0)
    return rng.normal(size=(2 * N, K)) + margin[:, None] * np.eye(K)[labels], labels


def tensors(batch):
    return (torch.from_numpy(part[:N]) for part in batch), torch.from_numpy(batch[0][N:])


@pytest.mark.parametrize("name", ["thr", "aps", "raps"])
def test_class_conditional_sets_are_equal(batch, ours, name):
    from torchcp.classification.predictor import ClassConditionalPredictor

    score = {
        "thr": ours.THR(),
        "aps": ours.APS(randomized=False),
        "raps": ours.RAPS(penalty=0.1, kreg=2, randomized=False),
    }[name]
    predictor = ClassConditionalPredictor(score_function=score)
    (logits, labels), new = tensors(batch)
    predictor.calculate_threshold(logits, labels, ALPHA)
    theirs = predictor.predict_with_logits(new).bool().numpy()
    mine = ts.calibrate(batch[0][:N], batch[1][:N], ALPHA, name, condition="label")
    if name == "thr":
        np.testing.assert_array_equal(mine.predict_set(batch[0][N:]).mask, theirs)
    else:
        # Without randomisation U is 1 in calibration and in prediction, so the same is asked of ours.
        given = {"reweight": None, "u": 1.0}
        scorer = ts.APS() if name == "aps" else ts.RAPS(penalty=0.1, k_reg=2)
        scores = ts.all_scores(batch[0][N:], scorer, **given)
        of_labels = ts.label_scores(batch[0][:N], batch[1][:N], scorer, **given)
        own = [ts.conformal_threshold(of_labels[batch[1][:N] == y], ALPHA) for y in range(K)]
        np.testing.assert_array_equal(scores <= np.array(own), theirs)


def test_clusters_and_their_thresholds_are_equal(batch, ours):
    """With the same rows for both steps, which TorchCP calls doubledip, and the same number of clusters."""
    from torchcp.classification.predictor import ClusteredPredictor

    (logits, labels), _ = tensors(batch)
    predictor = ClusteredPredictor(ours.THR(), num_clusters=2, ratio_clustering=0.5, split="doubledip")
    predictor.calculate_threshold(logits, labels, ALPHA)
    theirs = predictor.cluster_assignments.numpy()
    scores = ts.label_scores(batch[0][:N], batch[1][:N], "thr", reweight=None)
    mine = clusters.clusters_of(scores, batch[1][:N], K, ALPHA, seed=0, n_clusters=2)
    assert set(zip(mine.tolist(), theirs.tolist(), strict=True)) in (
        {(0, 0), (1, 1)},
        {(0, 1), (1, 0)},
    )
    of_rows = mine[batch[1][:N]]
    own = np.array([ts.conformal_threshold(scores[of_rows == c], ALPHA) for c in range(2)])
    np.testing.assert_allclose(own[mine], predictor.q_hat.numpy(), rtol=1e-12)


def test_rank_limits_of_the_same_rows_give_sets_that_are_never_larger(batch, ours):
    """Theirs: limit and threshold from the same rows, the limit's error taken from alpha.

    Ours counts rows beyond the limit as infinite scores: of n rows with e beyond it the k-th smallest score
    of the others is at most the (k + e)-th smallest of all, and theirs is that or a larger one.
    """
    from torchcp.classification.predictor import RC3PPredictor

    (logits, labels), new = tensors(batch)
    predictor = RC3PPredictor(ours.THR(), alpha=ALPHA)
    predictor.num_classes = K  # calculate_threshold of 1.2.1 fails without it
    predictor.calculate_threshold(logits, labels, ALPHA)
    limits = predictor.class_rank_limits.numpy()
    theirs = predictor.predict_with_logits(new).bool().numpy()
    scores = ts.label_scores(batch[0][:N], batch[1][:N], "thr", reweight=None)
    ranks = ts.ranks(batch[0][:N], batch[1][:N])
    capped = np.where(ranks > limits[batch[1][:N]], np.inf, scores)
    own = np.array([ts.conformal_threshold(capped[batch[1][:N] == y], ALPHA) for y in range(K)])
    assert np.isfinite(own).all()
    assert (own <= predictor.class_thresholds.numpy()).all()
    order = np.argsort(-batch[0][N:], axis=1, kind="stable")
    every = np.empty_like(order)
    np.put_along_axis(every, order, np.arange(1, K + 1)[None, :], axis=1)
    within = every <= limits
    mine = (ts.all_scores(batch[0][N:], "thr", reweight=None) <= own) & within
    assert (mine <= theirs).all()
    assert mine.sum() < theirs.sum()


def test_limits_of_other_rows_keep_the_level(ours):
    """Over small calibrations: ours covers at least 1 - alpha, theirs more than that, at the cost of size."""
    from torchcp.classification.predictor import RC3PPredictor

    rng = np.random.default_rng(0)
    covered = []
    for i in range(150):
        labels = rng.integers(3, size=4 * 60)
        logits = rng.normal(size=(len(labels), 3)) + np.eye(3)[labels]
        half = len(labels) // 2
        predictor = RC3PPredictor(ours.THR(), alpha=0.3)
        predictor.num_classes = 3
        predictor.calculate_threshold(torch.from_numpy(logits[:half]), torch.from_numpy(labels[:half]), 0.3)
        theirs = predictor.predict_with_logits(torch.from_numpy(logits[half:])).bool().numpy()
        mine = ts.calibrate(logits[:half], labels[:half], 0.3, "thr", condition="rc3p", seed=i)
        rest = np.arange(half)
        covered.append(
            [theirs[rest, labels[half:]].mean(), mine.predict_set(logits[half:]).coverage(labels[half:])]
        )
    mean, error = np.mean(covered, axis=0), np.std(covered, axis=0, ddof=1) / np.sqrt(150)
    assert mean[1] > 0.7 - 4 * error[1]
    assert mean[0] > mean[1] + 4 * error.max()
