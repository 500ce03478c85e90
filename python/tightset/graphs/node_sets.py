"""DAPS and SNAPS: scores averaged over neighbours, then the split conformal threshold.

Scores are averaged on the conventional scale, as the papers have them. The ranked scale, which tells apart
labels that tie at saturation, has no upper end: there, one saturated neighbour would outweigh all others.
Instead a tie of averages is broken by the node's own ranked score, which is as fixed a function of the node
and the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightset import _core
from tightset._inputs import (
    ArrayLike,
    as_alpha,
    as_features,
    as_flag,
    as_labels,
    as_logits,
    as_nodes,
    as_number,
    as_row_ids,
    as_seed,
    as_uniforms,
    check_columns,
    warn_if_probabilities,
)
from tightset.graphs.adjacency import as_adjacency, is_sparse, means_over, similarity_graph
from tightset.quantile import conformal_rank
from tightset.scores import ReweightLike, ScoreLike, Scoring
from tightset.sets import PredictionSets
from tightset.thresholds import warn_if_unbounded

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True, eq=False)
class NodeSets:
    """The sets of some nodes.

    Attributes
    ----------
    nodes
        Which nodes, rising.
    sets
        A set for each.
    alpha, n_calibration
        As given, and how many nodes had labels.
    threshold
        A label is in a set when its averaged score is below the first number, or equal to it while its
        own ranked score is at most the second.
    """

    nodes: NDArray[np.int64]
    sets: PredictionSets
    alpha: float
    n_calibration: int
    threshold: tuple[float, float]


def daps(
    logits: ArrayLike,
    graph: Any,
    calibration: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.1,
    score: ScoreLike = "aps",
    *,
    diffusion: float = 0.5,
    nodes: ArrayLike | None = None,
    reweight: ReweightLike = None,
    temperature: float = 1.0,
    u: ArrayLike | None = None,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    probabilities: bool = False,
) -> NodeSets:
    """Return sets by diffused scores (DAPS): (1 - diffusion) s + diffusion (mean of s over the neighbours).

    If the calibration nodes are a random choice among themselves and `nodes`, the set of a node contains its
    label with probability at least 1 - alpha; the classifier may have seen the graph and all features, but no
    label of these nodes.

    Parameters
    ----------
    logits
        Of all nodes, shape (n, K).
    graph
        Sparse array of SciPy, shape (n, n), whose row i has the weights, none negative, of node i's
        neighbours; or their edges, shape (2, m), from each node in the first row to a neighbour in the
        second. An undirected edge stands in both directions. A node without neighbours keeps its scores.
    calibration
        Nodes with known labels: their numbers, or a mask of all nodes.
    labels
        Their labels, in the same order.
    alpha
        Miscoverage, strictly between 0 and 1.
    score, reweight, temperature, u, seed, row_ids
        As in `tightset.label_scores`, for all nodes, without reweighting by default.
    diffusion
        Share of the neighbours, from 0 to 1.
    nodes
        Whose sets to return, by default those of all nodes but the calibrating. Leave out nodes that the
        classifier was trained on.
    probabilities
        Whether `logits` holds probabilities instead.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=1000)
    >>> logits = 2 * rng.normal(size=(1000, 3)) + 2 * np.eye(3)[labels]
    >>> pairs = rng.integers(1000, size=(2, 20_000))
    >>> pairs = pairs[:, labels[pairs[0]] == labels[pairs[1]]]  # like nodes are neighbours
    >>> edges = np.concatenate([pairs, pairs[::-1]], axis=1)
    >>> found = ts.graphs.daps(logits, edges, np.arange(300), labels[:300], alpha=0.1)
    >>> found.sets
    PredictionSets(700 rows, 3 labels, mean size 1.343)
    >>> round(found.sets.coverage(labels[found.nodes]), 3)
    0.904
    """
    share = _share(diffusion, "diffusion")
    rows = _Nodes(logits, calibration, labels, nodes, probabilities)
    mixture = [(share, as_adjacency(graph, len(rows.logits)))]
    scoring = Scoring(score, reweight, temperature)  # type: ignore[arg-type]
    return rows.sets(mixture, as_alpha(alpha), scoring, u, seed, row_ids)


def snaps(
    logits: ArrayLike,
    graph: Any,
    features: Any,
    calibration: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.1,
    score: ScoreLike = "aps",
    *,
    similar: float = 1 / 3,
    adjacent: float = 1 / 3,
    k: int = 20,
    nodes: ArrayLike | None = None,
    reweight: ReweightLike = None,
    temperature: float = 1.0,
    u: ArrayLike | None = None,
    seed: int = 0,
    row_ids: ArrayLike | None = None,
    probabilities: bool = False,
) -> NodeSets:
    """Return sets by scores mixed with those of neighbours and of nodes with similar features (SNAPS).

    The scores are (1 - similar - adjacent) s + similar (mean over the k most similar nodes, by
    similarity) + adjacent (mean over the neighbours). The sets cover as those of `daps` do, under
    the same condition.

    Parameters
    ----------
    features
        Of all nodes, shape (n, d), for `similarity_graph`; or what that returned, a sparse array (n, n).
    similar, adjacent
        Shares of similar nodes and of neighbours, from 0 to 1 together. TorchCP names them xi and mu.
    k
        How many similar nodes.
    logits, graph, calibration, labels, alpha, score, nodes
        As in `daps`.
    reweight, temperature, u, seed, row_ids, probabilities
        As in `daps`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=1000)
    >>> logits = 2 * rng.normal(size=(1000, 3)) + 2 * np.eye(3)[labels]
    >>> features = np.eye(3)[labels] + 0.2 * rng.normal(size=(1000, 3))
    >>> chain = np.stack([np.arange(999), np.arange(1, 1000)])
    >>> found = ts.graphs.snaps(
    ...     logits, chain, features, np.arange(300), labels[:300], alpha=0.1, adjacent=0.0, similar=0.5
    ... )
    >>> found.sets
    PredictionSets(700 rows, 3 labels, mean size 1.346)
    """
    shares = _share(similar, "similar"), _share(adjacent, "adjacent")
    if sum(shares) > 1.0:
        message = f"similar and adjacent must be at most 1 together, got {shares[0]} and {shares[1]}"
        raise ValueError(message)
    rows = _Nodes(logits, calibration, labels, nodes, probabilities)
    n = len(rows.logits)
    mixture = [
        (shares[0], _similar_nodes(features, n, k)),
        (shares[1], as_adjacency(graph, n)),
    ]
    scoring = Scoring(score, reweight, temperature)  # type: ignore[arg-type]
    return rows.sets(mixture, as_alpha(alpha), scoring, u, seed, row_ids)


def _similar_nodes(features: Any, n_nodes: int, k: int) -> csr_array:
    if is_sparse(features):
        return as_adjacency(features, n_nodes, "features")
    return similarity_graph(as_features(features, n_nodes), k)


class _Nodes:
    """The nodes of a call: logits of all, labels of some, and those whose sets are asked for."""

    def __init__(
        self,
        logits: ArrayLike,
        calibration: ArrayLike,
        labels: ArrayLike,
        nodes: ArrayLike | None,
        probabilities: object,
    ) -> None:
        self.logits = as_logits(logits)
        n, n_labels = self.logits.shape
        self.calibration = as_nodes(calibration, n, "calibration")
        self.labels = as_labels(labels, len(self.calibration))
        check_columns(self.labels, n_labels)
        self.probabilities = as_flag(probabilities, "probabilities")
        if not self.probabilities:
            warn_if_probabilities(self.logits, stacklevel=3)
        if nodes is None:
            self.asked = np.setdiff1d(np.arange(n), self.calibration)
        else:
            self.asked = np.sort(as_nodes(nodes, n, "nodes"))
            both = np.intersect1d(self.asked, self.calibration)
            if len(both):
                message = f"nodes must not be among the calibration nodes: node {both[0]} is"
                raise ValueError(message)

    def sets(
        self,
        mixture: list[tuple[float, csr_array]],
        alpha: float,
        scoring: Scoring,
        u: ArrayLike | None,
        seed: int,
        row_ids: ArrayLike | None,
    ) -> NodeSets:
        n = len(self.logits)
        settings: dict[str, Any] = {
            "seed": as_seed(seed),
            "u": as_uniforms(u, n),
            "row_ids": as_row_ids(row_ids, n),
            "probabilities": self.probabilities,
        }
        scores = _core.all_scores(self.logits, scoring.core, ranked=False, **settings)
        own = 1.0 - sum(share for share, _ in mixture)
        mixed = own * scores if own > 0.0 else np.zeros_like(scores)
        for share, graph in mixture:
            if share > 0.0:
                mixed += share * means_over(scores, graph)
        ranked = _core.all_scores(self.logits, scoring.core, ranked=True, **settings)
        first, second = (table[self.calibration, self.labels] for table in (mixed, ranked))
        rank = conformal_rank(len(first), alpha)
        threshold = (np.inf, np.inf)
        if rank <= len(first):
            place = np.lexsort((second, first))[rank - 1]
            threshold = (float(first[place]), float(second[place]))
        impossible = int(np.isposinf(first).sum())
        warn_if_unbounded(alpha, rank, len(first), threshold[0], impossible=impossible, spent=0, stacklevel=4)
        return NodeSets(
            nodes=self.asked,
            sets=self._below(mixed[self.asked], ranked[self.asked], threshold),
            alpha=alpha,
            n_calibration=len(first),
            threshold=threshold,
        )

    def _below(
        self, mixed: NDArray[np.float64], ranked: NDArray[np.float64], threshold: tuple[float, float]
    ) -> PredictionSets:
        inside = (mixed < threshold[0]) | ((mixed == threshold[0]) & (ranked <= threshold[1]))
        rows, labels = np.nonzero(inside)
        # This score rises with the rank, whatever type the logits are of.
        by_rank = Scoring("rank")  # type: ignore[arg-type]
        order_of = _core.all_scores(
            self.logits[self.asked], by_rank.core, ranked=True, seed=0, probabilities=self.probabilities
        )
        order = np.lexsort((labels, order_of[rows, labels], rows))
        indptr = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        return PredictionSets(indptr, labels[order].astype(np.int32), self.logits.shape[1])


def _share(value: object, name: str) -> float:
    share = as_number(value, name)
    if not 0.0 <= share <= 1.0:
        message = f"{name} must be between 0 and 1, got {share}"
        raise ValueError(message)
    return share
