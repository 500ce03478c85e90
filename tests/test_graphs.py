"""DAPS and SNAPS: exact coverage over random calibration nodes of a real graph, and plain definitions.

The graph joins each of scikit-learn's digits, images that come with the library, with those most like it.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import tightset as ts
from tightset import graphs
from tightset.graphs import adjacency, node_sets

N_CALIBRATION = 49


@pytest.fixture(scope="module")
def digits():
    """Logits of all nodes by a classifier that saw 60 of them, a kNN graph, and the nodes it did not see."""
    images, labels = load_digits(return_X_y=True)
    seen = np.random.default_rng(0).permutation(len(labels))[:60]
    classifier = LogisticRegression(max_iter=2000).fit(images[seen] / 16, labels[seen])
    logits = classifier.decision_function(images / 16)
    similar = graphs.similarity_graph(images, k=5)
    either = similar + similar.T
    either.data[:] = 1.0
    return logits, labels, images, either, np.setdiff1d(np.arange(len(labels)), seen)


def method(name, digits):
    logits, _, images, graph, _ = digits
    if name == "daps":
        return lambda *arguments, **options: graphs.daps(logits, graph, *arguments, **options)
    similar = graphs.similarity_graph(images, k=20)
    return lambda *arguments, **options: graphs.snaps(logits, graph, similar, *arguments, **options)


def covered_counts(predict, digits, draws, seed=1):
    """Covered nodes, of those that do not calibrate, for random choices of those that do."""
    _, labels, _, _, unseen = digits
    rng, counts = np.random.default_rng(seed), []
    for _ in range(draws):
        order = rng.permutation(unseen)
        calibration, rest = order[:N_CALIBRATION], order[N_CALIBRATION:]
        found = predict(calibration, labels[calibration], 0.1, nodes=rest)
        counts.append(found.sets.covers(labels[found.nodes]).sum())
    return np.array(counts)


def z_score(counts, digits):
    """Over random choices among fixed nodes the count is beta-binomial, for any scores without ties."""
    k = ts.conformal_rank(N_CALIBRATION, 0.1)
    law = stats.betabinom(len(digits[4]) - N_CALIBRATION, k, N_CALIBRATION + 1 - k)
    return (counts.mean() - law.mean()) / (law.std() / np.sqrt(len(counts)))


def check_the_law(name, digits, draws, monkeypatch):
    predict = method(name, digits)
    assert abs(z_score(covered_counts(predict, digits, draws), digits)) < 4
    with monkeypatch.context() as patch:
        patch.setattr(node_sets, "conformal_rank", lambda n, alpha: ts.conformal_rank(n, alpha) - 1)
        lower = z_score(covered_counts(predict, digits, draws), digits)
    assert lower < -4, "one rank lower must be noticed"


@pytest.mark.parametrize("name", ["daps", "snaps"])
def test_marginal_coverage(name, digits, monkeypatch):
    check_the_law(name, digits, 200, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["daps", "snaps"])
def test_marginal_coverage_over_many_draws(name, digits, monkeypatch):
    check_the_law(name, digits, 2000, monkeypatch)


def test_scores_that_know_who_calibrates_do_not_cover(digits):
    """What breaks the guarantee is noticed: calibration nodes that keep their own scores."""
    logits, _, _, graph, _ = digits

    def predict(calibration, truth, alpha, nodes):
        known = graph.tolil()
        known[calibration] = 0
        return graphs.daps(logits, known.tocsr(), calibration, truth, alpha, nodes=nodes)

    assert abs(z_score(covered_counts(predict, digits, 100), digits)) > 4


def test_neighbours_make_sets_smaller(digits):
    logits, labels, _, _, unseen = digits
    calibration = np.random.default_rng(5).permutation(unseen)[:500]
    alone = graphs.daps(logits, sparse.csr_array((1797, 1797)), calibration, labels[calibration])
    for name in ("daps", "snaps"):
        found = method(name, digits)(calibration, labels[calibration])
        assert found.sets.sizes.mean() < 0.8 * alone.sets.sizes.mean()


def plain_mixture(scores, parts):
    """The formula with dense arrays: own share and means over neighbours, own scores where there are none."""
    mixed = (1 - sum(share for share, _ in parts)) * scores
    for share, weights in parts:
        for node, row in enumerate(weights):
            mean = row @ scores / row.sum() if row.sum() else scores[node]
            mixed[node] += share * mean
    return mixed


@pytest.mark.parametrize("score", ["thr", "aps", "raps", "saps"])
def test_sets_are_those_of_the_definition(score):
    rng = np.random.default_rng(3)
    n, k = 80, 5
    logits, features = rng.normal(size=(n, k)), rng.normal(size=(n, 3))
    weights = rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.05)
    weights[:3] = 0
    calibration, labels = rng.permutation(n)[:40], rng.integers(k, size=40)
    rest = np.setdiff1d(np.arange(n), calibration)
    scores = ts.all_scores(logits, score, reweight=None, seed=4)

    def expected(mixed):
        threshold = ts.conformal_threshold(mixed[calibration, labels], 0.2)
        return mixed[rest] <= threshold

    found = graphs.daps(
        logits, sparse.coo_array(weights), calibration, labels, 0.2, score, diffusion=0.3, seed=4
    )
    assert np.array_equal(found.nodes, rest)
    assert np.array_equal(found.sets.mask, expected(plain_mixture(scores, [(0.3, weights)])))

    units = features / np.linalg.norm(features, axis=1, keepdims=True)
    similar = units @ units.T
    np.fill_diagonal(similar, -np.inf)
    similar = np.where(similar >= np.sort(similar, axis=1)[:, -4][:, np.newaxis], similar.clip(0), 0)
    found = graphs.snaps(
        logits,
        sparse.csr_matrix(weights),
        features,
        calibration,
        labels,
        0.2,
        score,
        similar=0.5,
        adjacent=0.2,
        k=4,
        seed=4,
    )
    assert np.array_equal(found.sets.mask, expected(plain_mixture(scores, [(0.5, similar), (0.2, weights)])))


def test_no_diffusion_is_the_split_predictor(digits):
    logits, labels, _, graph, unseen = digits
    calibration = unseen[:200]
    predictor = ts.calibrate(logits[calibration], labels[calibration], 0.1, "aps")
    expected = predictor.predict_set(logits[unseen[200:]])
    for where in (graph, sparse.csr_array(graph.shape)):
        share = 0.0 if where is graph else 0.7
        found = graphs.daps(
            logits, where, calibration, labels[calibration], 0.1, diffusion=share, nodes=unseen[200:]
        )
        assert found.sets == expected, "labels by falling probability, too"
        assert found.n_calibration == 200


def test_ties_of_averages_go_by_the_ranked_score():
    """Saturated rows tie at 1.0 on the conventional scale; sets must not fill up for that."""
    rng = np.random.default_rng(0)
    n, k = 400, 10
    labels = rng.integers(k, size=n)
    logits = 400 * rng.normal(size=(n, k)) + 800 * np.eye(k)[labels]
    plain = ts.all_scores(logits, "aps", reweight=None)
    assert (plain == 1.0).mean() > 0.5
    edges = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    found = graphs.daps(logits, edges, np.arange(200), labels[:200], 0.02, diffusion=0.05)
    assert found.threshold[0] == 1.0
    mixed = 0.95 * plain + 0.05 * graphs.neighbour_means(plain, edges)
    assert (mixed[200:] <= 1.0).all(), "by averages alone every set would hold all labels"
    assert found.sets.sizes.mean() < 6
    assert found.sets.coverage(labels[200:]) > 0.94


def test_edges_and_sparse_arrays_are_the_same_graph(digits):
    logits, labels, _, graph, unseen = digits
    calibration = unseen[:200]
    edges = np.stack(graph.nonzero())
    forms = [graph, graph.tocoo(), graph.tocsc(), sparse.csr_matrix(graph), edges, edges.tolist(), graph > 0]
    mask = np.zeros(len(labels), bool)
    mask[calibration] = True
    first = graphs.daps(logits, graph, calibration, labels[calibration])
    for form in forms:
        found = graphs.daps(logits, form, mask, labels[calibration])
        assert found.sets == first.sets
    shuffled = np.random.default_rng(0).permutation(calibration)
    assert graphs.daps(logits, graph, shuffled, labels[shuffled]).sets == first.sets


def test_means_by_hand():
    values = np.array([[1.0, 10.0], [2.0, 20.0], [6.0, 0.0], [5.0, 5.0]])
    # Node 0 has neighbours 1 (twice) and 2; node 1 has itself; 2 and 3 have none.
    edges = [[0, 0, 0, 1], [1, 1, 2, 1]]
    assert graphs.neighbour_means(values, edges).tolist() == [[10 / 3, 40 / 3], [2, 20], [6, 0], [5, 5]]
    assert graphs.neighbour_means(values, np.empty((2, 0))).tolist() == values.tolist()
    explicit_zero = sparse.csr_array(([0.0], ([2], [3])), shape=(4, 4))
    assert graphs.neighbour_means(values, explicit_zero).tolist() == values.tolist()


def test_impossible_labels_spread_but_make_no_nan(digits):
    _, labels, _, graph, unseen = digits
    logits = digits[0].copy()
    logits[3, 7] = -np.inf
    found = graphs.daps(logits, graph, unseen[:200], labels[unseen[:200]], nodes=unseen[200:])
    assert found.sets.coverage(labels[unseen[200:]]) > 0.8
    silent = graphs.daps(logits, graph, unseen[:200], labels[unseen[:200]], nodes=unseen[200:], diffusion=0.0)
    assert silent.sets.coverage(labels[unseen[200:]]) > 0.8


def test_similarity_in_blocks(monkeypatch):
    features = np.random.default_rng(0).normal(size=(50, 4))
    features[7] = 0.0
    whole = graphs.similarity_graph(features, k=6)
    assert whole[[7]].nnz == 0
    assert whole.diagonal().max() == 0.0
    assert (np.diff(whole.indptr)[np.arange(50) != 7] == 6).all()
    monkeypatch.setattr(adjacency, "_BLOCK", 7 * 50)
    assert np.allclose(graphs.similarity_graph(features, k=6).toarray(), whole.toarray(), rtol=1e-12)
    assert graphs.similarity_graph([[1.0]], k=1).nnz == 0


def test_too_few_nodes_warn(digits):
    logits, labels, _, graph, unseen = digits
    with pytest.warns(ts.SmallCalibrationWarning, match="5 rows are too few for alpha=0.1"):
        found = graphs.daps(logits, graph, unseen[:5], labels[unseen[:5]])
    assert (found.sets.sizes == 10).all()
    assert found.threshold == (np.inf, np.inf)


def test_without_scipy_only_graphs_are_missing():
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "import tightset as ts\n"
        "try:\n    ts.graphs.daps([[1.0, 2.0]], [[0], [0]], [0], [0])\n"
        "except ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.startswith("tightset.graphs needs SciPy, of the extra graphs: pip install 'tightset[graphs]'")


LOGITS = np.random.default_rng(1).normal(size=(20, 3))
EDGES = np.stack([np.arange(19), np.arange(1, 20)])
REFUSED = [
    (
        {"graph": EDGES.T},
        ValueError,
        r"graph must be a sparse array or edges of shape \(2, m\), got shape \(19, 2\)",
    ),
    ({"graph": EDGES + 1}, ValueError, r"graph must join nodes from 0 to 19: edge 18 is \[19, 20\]"),
    ({"graph": EDGES / 2}, TypeError, "graph must be edges between numbered nodes, got dtype float64"),
    ({"graph": sparse.eye_array(19)}, ValueError, r"graph must have shape \(20, 20\), a row for each node"),
    ({"graph": -sparse.eye_array(20)}, ValueError, r"finite and not negative, found -1.0"),
    ({"graph": sparse.eye_array(20) * np.nan}, ValueError, r"finite and not negative, found nan"),
    ({"graph": sparse.eye_array(20) * 1j}, TypeError, "graph must have real weights, got dtype complex128"),
    ({"calibration": [0, 20]}, ValueError, "calibration must be between 0 and 19: found 20 at place 1"),
    ({"calibration": [3, 3]}, ValueError, "calibration must name each node once: 3 is there 2 times"),
    ({"calibration": []}, TypeError, "calibration must be integers, or a mask"),
    ({"calibration": np.zeros(20, bool)}, ValueError, "calibration must be one or more nodes"),
    ({"calibration": [0.5, 1.0]}, TypeError, "calibration must be integers, or a mask"),
    ({"labels": [0]}, ValueError, "labels must have one value for each of the 10 rows"),
    ({"labels": [3] * 10}, ValueError, "labels must be between 0 and 2, .*: found 3 at row 0"),
    ({"nodes": [9, 12]}, ValueError, "nodes must not be among the calibration nodes: node 9 is"),
    ({"diffusion": 1.5}, ValueError, "diffusion must be between 0 and 1, got 1.5"),
    ({"diffusion": "half"}, TypeError, "diffusion must be a number, got 'half'"),
    ({"alpha": 0}, ValueError, "alpha must be strictly between 0 and 1, got 0"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED)
def test_daps_refuses(changes, kind, message):
    given = {"logits": LOGITS, "graph": EDGES, "calibration": np.arange(10), "labels": [0] * 10, **changes}
    with pytest.raises(kind, match=message):
        graphs.daps(**given)


def test_snaps_takes_a_ready_graph_and_refuses():
    given = (LOGITS, EDGES, LOGITS, np.arange(10), [0] * 10)
    ready = graphs.similarity_graph(LOGITS, k=5)
    assert graphs.snaps(LOGITS, EDGES, ready, *given[3:]).sets == graphs.snaps(*given, k=5).sets
    with pytest.raises(ValueError, match=r"similar and adjacent must be at most 1 together, got 0.6 and 0.5"):
        graphs.snaps(*given, similar=0.6, adjacent=0.5)
    with pytest.raises(ValueError, match="k must be between 1 and 19, got 20"):
        graphs.snaps(*given, k=20)
    with pytest.raises(ValueError, match=r"features must have shape \(20, d\)"):
        graphs.snaps(LOGITS, EDGES, LOGITS[:3], np.arange(10), [0] * 10)
    with pytest.raises(ValueError, match=r"values must be real numbers of shape \(n, K\)"):
        graphs.neighbour_means([1.0, 2.0], EDGES)


def test_probabilities_are_their_logarithms():
    p = ts.softmax(LOGITS)
    rest = (EDGES, np.arange(10), [0, 1] * 5, 0.3)
    assert graphs.daps(p, *rest, probabilities=True).sets == graphs.daps(np.log(p), *rest).sets
