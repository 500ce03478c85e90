"""DAPS and SNAPS beside TorchCP's, with equal settings.

Run by `make test-peers`; docs/differences.md lists what differs.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import tightset as ts
from tightset import graphs

# Deprecations inside the peers are theirs.
with warnings.catch_warnings(action="ignore"):
    from torch_geometric.data import Data
    from torchcp.classification.score import APS, LAC, RAPS
    from torchcp.graph.predictor import SplitPredictor
    from torchcp.graph.score import DAPS, SNAPS
    from torchcp.graph.utils import compute_adj_knn
pytestmark = pytest.mark.filterwarnings("ignore")

ALPHA = 0.1
# What TorchCP scores with, and the same of ours; without U its APS includes the label's own mass.
SCORES = {
    "thr": (LAC(), "thr", None),
    "aps": (APS(randomized=False), "aps", 1.0),
    "raps": (RAPS(randomized=False, penalty=0.1, kreg=2), ts.RAPS(0.1, 2), 1.0),
}


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def digits():
    """Digits joined with the five most like them, and logits that know a little."""
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(len(labels), 10)) + 2 * np.eye(10)[labels]
    near = graphs.similarity_graph(images, k=5)
    edges = np.stack((near + near.T).nonzero())
    return logits, labels, images, edges, rng.permutation(len(labels))[:400]


def theirs(kind, digits, **options):
    """Sets of the other nodes by TorchCP."""
    logits, labels, images, edges, calibration = digits
    data = Data(x=torch.from_numpy(images), edge_index=torch.from_numpy(edges), y=torch.from_numpy(labels))
    predictor = SplitPredictor(data, kind(data, **options), alpha=ALPHA)
    mask = torch.nn.functional.one_hot(data.y).bool()
    predictor.calculate_threshold(torch.from_numpy(logits), calibration, mask, ALPHA)
    rest = np.setdiff1d(np.arange(len(labels)), calibration)
    return predictor.predict_with_logits(torch.from_numpy(logits), rest).bool().numpy()


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("diffusion", [0.0, 0.5, 1.0])
def test_daps_gives_the_same_sets(digits, name, diffusion):
    logits, labels, _, edges, calibration = digits
    base, score, u = SCORES[name]
    found = graphs.daps(
        logits, edges, calibration, labels[calibration], ALPHA, score, diffusion=diffusion, u=u
    )
    expected = theirs(DAPS, digits, base_score_function=base, neigh_coef=diffusion)
    assert np.array_equal(found.sets.mask, expected)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("similar", "adjacent"), [(1 / 3, 1 / 3), (0.7, 0.1)])
def test_snaps_gives_the_same_sets(digits, name, similar, adjacent):
    logits, labels, images, edges, calibration = digits
    base, score, u = SCORES[name]
    found = graphs.snaps(
        logits,
        edges,
        images,
        calibration,
        labels[calibration],
        ALPHA,
        score,
        similar=similar,
        adjacent=adjacent,
        k=20,
        u=u,
    )
    expected = theirs(
        SNAPS,
        digits,
        base_score_function=base,
        xi=similar,
        mu=adjacent,
        features=torch.from_numpy(images),
        k=20,
    )
    assert np.array_equal(found.sets.mask, expected)


def test_similar_nodes_are_the_same(digits):
    images = digits[2]
    edges, weights = compute_adj_knn(torch.from_numpy(images), 20)
    dense = np.zeros((len(images), len(images)))
    dense[tuple(edges.numpy())] = weights.numpy()
    assert np.allclose(graphs.similarity_graph(images, 20).toarray(), dense, rtol=1e-12, atol=0)


def test_a_node_without_neighbours_keeps_its_scores(digits):
    """TorchCP mixes such a node's scores with 0, which lowers all of them by the share of the neighbours."""
    logits, labels, images, edges, calibration = digits
    lonely = np.setdiff1d(np.arange(len(labels)), calibration)[:50]
    kept = edges[:, ~np.isin(edges, lonely).any(axis=0)]
    cut = (logits, labels, images, kept, calibration)
    found = graphs.daps(logits, kept, calibration, labels[calibration], ALPHA, "thr")
    expected = theirs(DAPS, cut, base_score_function=LAC(), neigh_coef=0.5)
    alone = np.isin(found.nodes, lonely)
    assert np.array_equal(found.sets.mask[~alone], expected[~alone])
    assert (expected[alone].sum(axis=1) == 10).all()
    assert (found.sets.sizes[alone] < 10).any()
