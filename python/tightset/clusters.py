"""Labels that score alike, calibrated together (Ding, Angelopoulos, Bates, Jordan & Tibshirani 2023)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightset import _core

QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9)
"""A label is described by these quantiles of its scores."""

_STARTS = 10
_MOST_STEPS = 300


def clusters_of(
    scores: NDArray[np.float64],
    labels: NDArray[np.int64],
    n_labels: int,
    alpha: float,
    seed: int,
    n_clusters: int | None = None,
) -> NDArray[np.int64]:
    """Return the cluster of each label, -1 for labels with too few rows to be described.

    Too few means that their own conformal threshold would be infinite. By default there is one cluster for
    every two rows of the least frequent label that is not rare.

    Parameters
    ----------
    scores, labels
        Label scores on the conventional scale and labels, of rows that do not calibrate.
    n_labels
        K.
    alpha
        Miscoverage.
    seed
        Seed of the starting points.
    n_clusters
        Number of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from tightset.clusters import clusters_of
    >>> labels = np.repeat([0, 1, 2, 3], [20, 20, 20, 2])
    >>> scores = np.where(labels == 1, 5.0, 1.0) + np.linspace(0, 0.1, 62)
    >>> clusters_of(scores, labels, 4, alpha=0.1, seed=0, n_clusters=2).tolist()
    [0, 1, 0, -1]
    """
    counts = np.bincount(labels, minlength=n_labels)
    is_rare = np.array([_core.conformal_rank(int(n), alpha) > n for n in counts])
    frequent = np.flatnonzero(~is_rare)
    found = np.full(n_labels, -1, dtype=np.int64)
    if not len(frequent):
        return found
    if n_clusters is None:
        n_clusters = int(counts[frequent].min()) // 2
    n_clusters = min(max(n_clusters, 1), len(frequent))
    points = np.stack([_described(scores[labels == label]) for label in frequent])
    assigned = k_means(points, np.sqrt(counts[frequent]), n_clusters, seed)
    # Numbered by their first label; empty ones are left out.
    _, first = np.unique(assigned, return_index=True)
    number = {assigned[i]: place for place, i in enumerate(np.sort(first))}
    found[frequent] = [number[cluster] for cluster in assigned]
    return found


def _described(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    ordered = np.sort(scores)
    ranks = [int(np.ceil(len(ordered) * q)) for q in QUANTILES]
    return ordered[[max(rank, 1) - 1 for rank in ranks]]


def k_means(
    points: NDArray[np.float64], weights: NDArray[np.float64], n_clusters: int, seed: int
) -> NDArray[np.int64]:
    """Return the cluster of each point: the best of ten runs of Lloyd's algorithm from k-means++ starts.

    The same for the same seed, on every machine that adds in the same order.
    """
    rng = np.random.default_rng(seed)
    best: tuple[float, NDArray[np.int64]] | None = None
    for _ in range(_STARTS):
        centres = _starts(points, weights, n_clusters, rng)
        assigned = np.zeros(len(points), dtype=np.int64)
        for step in range(_MOST_STEPS):
            distances = _squared_distances(points, centres)
            nearest = distances.argmin(axis=1)
            if step and (nearest == assigned).all():
                break
            assigned = nearest
            for cluster in range(n_clusters):
                members = assigned == cluster
                if members.any():
                    centres[cluster] = np.average(points[members], axis=0, weights=weights[members])
        cost = float((weights * _squared_distances(points, centres).min(axis=1)).sum())
        if best is None or cost < best[0]:
            best = cost, assigned
    assert best is not None, "there is at least one run"
    return best[1]


def _starts(
    points: NDArray[np.float64], weights: NDArray[np.float64], n_clusters: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return centres far from each other: each is drawn by weight times squared distance to the others."""
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    while len(chosen) < n_clusters:
        chance = weights * _squared_distances(points, points[chosen]).min(axis=1)
        total = chance.sum()
        # Fewer distinct points than clusters: any of them will do.
        p = chance / total if total > 0 else weights / weights.sum()
        chosen.append(int(rng.choice(len(points), p=p)))
    return points[chosen].copy()


def _squared_distances(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = ((points[:, np.newaxis, :] - centres) ** 2).sum(axis=2)
    return found
