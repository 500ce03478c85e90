"""The same computations in NumPy: as textbooks have them, and as fast as we could write them.

U is one half throughout: its generation is not what is compared.
"""

from __future__ import annotations

import numpy as np

# Elements of a block: its three arrays stay in the second-level cache.
BLOCK = 1 << 17
# Up to this many labels NumPy is faster along columns, where its loops are long.
COLUMNS_UP_TO = 128


def softmax(z):
    """Probabilities, the textbook way."""
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def entropy(p):
    """Entropy of each row, as a column."""
    return -(p * np.log(np.maximum(p, 1e-38))).sum(axis=1, keepdims=True)


def textbook(logits, labels):
    """Entropy-reweighted APS score of the label with softmax, argsort and cumsum."""
    p = softmax(logits / np.maximum(entropy(softmax(logits)), 1e-30))
    return label_scores(p, labels)


def label_scores(p, labels):
    """APS score of the label from probabilities."""
    order = np.argsort(-p, axis=1)
    cumulated = np.cumsum(np.take_along_axis(p, order, 1), axis=1)
    rank = (order == labels[:, np.newaxis]).argmax(axis=1)
    rows = np.arange(len(labels))
    return cumulated[rows, rank] - 0.5 * p[rows, labels]


def all_scores(logits):
    """The same score of every label."""
    p = softmax(logits / np.maximum(entropy(softmax(logits)), 1e-30))
    order = np.argsort(-p, axis=1)
    ranked = np.take_along_axis(p, order, 1)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, np.cumsum(ranked, axis=1) - 0.5 * ranked, 1)
    return scores


def no_sort(logits, labels):
    """The same score without a sort: float32, in place where it can be, one masked sum."""
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


def in_blocks(logits, labels):
    """The same in blocks that stay in the cache, and along columns where rows are short."""
    n, k = logits.shape
    step = max(1, BLOCK // k)
    block = _along_columns if k <= COLUMNS_UP_TO else _along_rows
    shape = (k, step) if k <= COLUMNS_UP_TO else (step, k)
    rooms = [np.empty(shape, np.float32) for _ in range(3)]
    rows = np.arange(step)
    scores = np.empty(n, np.float32)
    for start in range(0, n, step):
        part = slice(start, min(n, start + step))
        scores[part] = block(logits[part], labels[part], rows[: part.stop - start], *rooms)
    return scores


def _along_rows(logits, labels, rows, e, d, m):
    e, d, m = e[: len(rows)], d[: len(rows)], m[: len(rows)]
    np.subtract(logits, logits.max(axis=1, keepdims=True), out=d)
    np.exp(d, out=e)
    total = e.sum(axis=1)
    h = np.log(total) - np.einsum("ij,ij->i", e, d) / total
    d *= (1 / np.maximum(h, 1e-30))[:, np.newaxis]
    np.exp(d, out=d)
    own = d[rows, labels]
    np.greater(d, own[:, np.newaxis], out=m)
    m *= d
    return (m.sum(axis=1) + 0.5 * own) / d.sum(axis=1)


def _along_columns(logits, labels, rows, e, d, m):
    e, d, m = e[:, : len(rows)], d[:, : len(rows)], m[:, : len(rows)]
    np.copyto(d, logits.T)
    d -= d.max(axis=0)
    np.exp(d, out=e)
    total = e.sum(axis=0)
    e *= d
    h = np.log(total) - e.sum(axis=0) / total
    d *= 1 / np.maximum(h, 1e-30)
    np.exp(d, out=d)
    own = d[labels, rows]
    np.greater(d, own, out=m)
    m *= d
    return (m.sum(axis=0) + 0.5 * own) / d.sum(axis=0)


def plain_sets(logits, threshold):
    """Plain APS sets as a mask, with softmax, argsort and cumsum."""
    p = softmax(logits)
    order = np.argsort(-p, axis=1)
    ordered = np.take_along_axis(p, order, 1)
    inside = np.cumsum(ordered, axis=1) - 0.5 * ordered <= threshold
    mask = np.empty_like(inside)
    np.put_along_axis(mask, order, inside, 1)
    return mask


def one_set(row, threshold):
    """The plain APS set of one row, most probable label first."""
    p = np.exp(row - row.max())
    p /= p.sum()
    order = np.argsort(-p)
    ordered = p[order]
    return order[np.cumsum(ordered) - 0.5 * ordered <= threshold]


def algorithm_1(logits, labels, temperatures, alpha, seed=0):
    """Calibrate as Luo & Colombo print it: sizes on one half, thresholds from the other.

    Returns the chosen temperature and the threshold from all rows.
    """
    n = len(labels)
    order = np.random.default_rng(seed).permutation(n)
    first, second = order[: (n + 1) // 2], order[(n + 1) // 2 :]
    weight = np.maximum(entropy(softmax(logits)), 1e-30)
    rank = int(np.ceil((len(first) + 1) * (1 - alpha)))
    sizes = []
    for t in temperatures:
        scores = label_scores(softmax(logits[first] / (weight[first] * t)), labels[first])
        threshold = np.sort(scores)[rank - 1]
        sizes.append(plain_sets(logits[second] / (weight[second] * t), threshold).sum(axis=1).mean())
    best = temperatures[int(np.argmin(sizes))]
    scores = np.sort(label_scores(softmax(logits / (weight * best)), labels))
    return best, scores[int(np.ceil((n + 1) * (1 - alpha))) - 1]
