"""Conditional calibration in slow, plain NumPy: nothing is pruned, shared or stored.

Scores are ranked ones, low means conforming. `label_scores` (M, n) are those of the calibration labels,
`calibration` (M, n, K) those of all labels of the calibration rows, `new` (M, rows, K) those of the rows to
predict. Only the scores themselves come from the package.
"""

from __future__ import annotations

import numpy as np

import tightset as ts

INF = float("inf")


def threshold(scores, alpha):
    """The conformal threshold of some scores, infinite if they are too few."""
    k = ts.conformal_rank(len(scores), alpha)
    return np.sort(scores)[k - 1] if k <= len(scores) else INF


def by_label(label_scores, labels, n_labels, alpha):
    """The threshold of each label, for one candidate."""
    return np.array([threshold(label_scores[labels == y], alpha) for y in range(n_labels)])


def modsel_by_label(label_scores, calibration, labels, new, alpha):
    """Masks and p-values (rows, K): each label selects among all candidates, by its own rows.

    For label y: lo, hi and k are those of the rows that have it, and sizes are the numbers of rows, the new
    one among them, whose score of y is at most the threshold.
    """
    n_candidates, n_rows, n_labels = new.shape
    mask = np.zeros((n_rows, n_labels), dtype=bool)
    p = np.ones((n_rows, n_labels))
    for y in range(n_labels):
        own = label_scores[:, labels == y]
        n = own.shape[1]
        k = ts.conformal_rank(n, alpha)
        if k > n:
            mask[:, y] = True
            p[:, y] = [(1 + (own[0] >= new[0, row, y]).sum()) / (n + 1) for row in range(n_rows)]
            continue
        ordered = np.sort(own, axis=1)
        lo = np.full(n_candidates, -INF) if k == 1 else ordered[:, k - 2]
        hi = ordered[:, k - 1]
        for row in range(n_rows):
            sizes = []
            for m in range(n_candidates):
                score = new[m, row, y]
                q = min(max(score, lo[m]), hi[m])
                sizes.append(int((calibration[m, :, y] <= q).sum()) + int(score <= q))
            m = sizes.index(min(sizes))
            mask[row, y] = new[m, row, y] <= hi[m]
            p[row, y] = (1 + (own[m] >= new[m, row, y]).sum()) / (n + 1)
    return mask, p


def pac_rank(n, alpha, delta):
    """The smallest rank whose coverage is below 1 - alpha with probability at most delta; n + 1 for none."""
    from scipy import stats

    for k in range(1, n + 1):
        if stats.beta.cdf(1 - alpha, k, n + 1 - k) <= delta:
            return k
    return n + 1


def ranks_of(logits):
    """The rank of every label, equal logits by lower label first."""
    order = np.argsort(-logits, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, logits.shape[1] + 1)[None, :], axis=1)
    return ranks
