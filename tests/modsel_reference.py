"""Selection with exact coverage (Liang, Zhu & Barber 2024) in slow, plain NumPy: nothing is pruned.

Candidates are rows of arrays: `label_scores` (M, n) of the calibration labels, `calibration` (M, n, K) of
all labels of the calibration rows, `row` (M, K) of the row to predict. Scores are ranked ones, low means
conforming; `k` is the conformal rank of n rows. Only the scores themselves come from the package.
"""

from __future__ import annotations

import numpy as np

import tightset as ts

INF = float("inf")


def score_tables(candidates, logits, labels, new, *, seed=0, row_ids=None, new_ids=None):
    """Return `label_scores` (M, n), `calibration` (M, n, K) and the new rows' scores (M, rows, K)."""
    found = []
    for candidate in candidates:
        options = {"reweight": candidate.reweight, "temperature": candidate.temperature}
        options |= {"seed": seed, "ranked": True}
        found.append(
            (
                ts.label_scores(logits, labels, candidate.score, row_ids=row_ids, **options),
                ts.all_scores(logits, candidate.score, row_ids=row_ids, **options),
                ts.all_scores(new, candidate.score, row_ids=new_ids, **options),
            )
        )
    return tuple(np.stack(part) for part in zip(*found, strict=True))


def edges(label_scores, k):
    """lo and hi of each candidate: the (k-1)-th and k-th smallest score, -inf for the 0-th."""
    ordered = np.sort(label_scores, axis=1)
    lo = np.full(len(ordered), -INF) if k == 1 else ordered[:, k - 2]
    return lo, ordered[:, k - 1]


def clip(score, lo, hi):
    """The k-th smallest of the n calibration scores and this one."""
    return min(max(score, lo), hi)


def pairs_at_most(scores, q):
    """Number of pairs (row, label) whose score is at most q."""
    return int((scores <= q).sum())


def winners(label_scores, calibration, row, k, weights=None):
    """m_y for each label y: the candidate of smallest mean size if y were the label; ties by lowest index.

    Sizes are compared as numbers of pairs over the n + 1 rows, times the candidate's weight, so in integers.
    """
    weights = [1] * len(row) if weights is None else weights
    lo, hi = edges(label_scores, k)
    n_candidates, n_labels = row.shape
    chosen = []
    for y in range(n_labels):
        pairs = []
        for m in range(n_candidates):
            q = clip(row[m, y], lo[m], hi[m])
            pairs.append((pairs_at_most(calibration[m], q) + pairs_at_most(row[m], q)) * weights[m])
        chosen.append(pairs.index(min(pairs)))
    return np.array(chosen)


def prediction_set(label_scores, calibration, row, k, weights=None):
    """Mask (K,): y is in when its score under m_y is at most hi; all labels when k > n."""
    n_labels = row.shape[1]
    if k > label_scores.shape[1]:
        return np.ones(n_labels, dtype=bool)
    _, hi = edges(label_scores, k)
    chosen = winners(label_scores, calibration, row, k, weights)
    return np.array([row[m, y] <= hi[m] for y, m in enumerate(chosen)])


def p_values(label_scores, calibration, row, k):
    """Plain p-value (1 + #{i: S_i >= S(x, y)}) / (n + 1) of each label under its m_y, for k <= n."""
    chosen = winners(label_scores, calibration, row, k)
    n = label_scores.shape[1]
    return np.array([(1 + (label_scores[m] >= row[m, y]).sum()) / (n + 1) for y, m in enumerate(chosen)])


def count_tables(label_scores, calibration, k):
    """For each candidate, the pairs at most lo and, sorted, the scores of the pairs in (lo, hi].

    All that calibration rows contribute: for lo <= q <= hi the pairs at most q are the first number plus
    the entries of the second that are at most q.
    """
    lo, hi = edges(label_scores, k)
    return [
        (pairs_at_most(scores, a), np.sort(scores[(scores > a) & (scores <= b)]))
        for scores, a, b in zip(calibration, lo, hi, strict=True)
    ]


def kept(label_scores, calibration, k):
    """Indices of candidates that some row might choose.

    A row adds between 0 and K pairs to either side, so a candidate whose fewest calibration pairs exceed
    another's most by more than K never wins.
    """
    n_labels = calibration.shape[2]
    tables = count_tables(label_scores, calibration, k)
    best = min(below + len(inside) for below, inside in tables)
    return [m for m, (below, _) in enumerate(tables) if below <= best + n_labels]
