"""The workloads, and the same computations in NumPy."""

from __future__ import annotations

import numpy as np

SHAPES = {"A": (50_000, 1000), "B": (1_000_000, 10), "C": (200_000, 100)}


def logits_and_labels(n, k, seed=0):
    """A few strong labels and a long tail, float32: about 95 % of the labels are the top one."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n, k), dtype=np.float32)
    labels = rng.integers(k, size=n)
    strong = rng.integers(k, size=(n, 3))
    strong[:, 0] = labels
    gains = 6 + 6 * rng.random((n, 3), dtype=np.float32)
    gains[:, 1:] -= 3
    np.put_along_axis(logits, strong, np.take_along_axis(logits, strong, 1) + gains, 1)
    return logits, labels


def textbook(logits, labels):
    """Entropy-reweighted APS score of the label with softmax, argsort and cumsum."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    h = -(p * np.log(np.maximum(p, 1e-38))).sum(axis=1, keepdims=True)
    z = logits / np.maximum(h, 1e-30)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    order = np.argsort(-p, axis=1)
    cumulated = np.cumsum(np.take_along_axis(p, order, 1), axis=1)
    rank = (order == labels[:, np.newaxis]).argmax(axis=1)
    rows = np.arange(len(labels))
    return cumulated[rows, rank] - 0.5 * p[rows, labels]


def best_numpy(logits, labels):
    """The same without a sort: in place, float32, one masked sum."""
    rows = np.arange(len(labels))
    e = logits - logits.max(axis=1, keepdims=True)
    d = e.copy()
    np.exp(e, out=e)
    total = e.sum(axis=1)
    h = np.log(total) - np.einsum("ij,ij->i", e, d) / total
    d *= (1 / np.maximum(h, 1e-30))[:, np.newaxis]
    np.exp(d, out=d)
    own = d[rows, labels].copy()
    above = np.einsum("ij,ij->i", d, d > own[:, np.newaxis])
    return (above + 0.5 * own) / d.sum(axis=1)


def textbook_sets(logits, threshold):
    """Sizes of plain APS sets with softmax, argsort and cumsum."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    ordered = -np.sort(-p, axis=1)
    return (np.cumsum(ordered, axis=1) - 0.5 * ordered <= threshold).sum(axis=1)
