"""The definitions in slow, readable NumPy float64: one formula a function, with its source.

Everything here works on one row. Nothing is shared with the package.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

INF = float("inf")


def per(a, b):
    """a / b with 0 / 0 = 0: the limits in which equal logits stay equal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(a) == 0, 0.0, np.divide(a, b))


def softmax(z, beta=1.0):
    """Softmax of beta z, max-shifted."""
    with np.errstate(invalid="ignore"):
        e = np.exp(beta * (z - z.max()))
    return e / e.sum()


def entropy(z):
    """H = log1p(sum' exp(-d)) + sum f d, every term >= 0; f d is 0 where f is 0."""
    d = z.max() - z
    others = np.delete(d, np.argmax(z))
    f = softmax(z)
    return math.log1p(np.exp(-others).sum()) + sum(p * x for p, x in zip(f, d, strict=True) if p > 0)


def margin(z):
    """f_(1) - f_(2), 1 for a single label."""
    f = np.sort(softmax(z))[::-1]
    return 1.0 if len(f) == 1 else f[0] - f[1]


def gini(z):
    """sum f (1 - f)."""
    f = softmax(z)
    return (f * (1 - f)).sum()


def order(z):
    """Labels by falling logit, equal logits by lower label first."""
    return sorted(range(len(z)), key=lambda k: (-z[k], k))


def rank(z, y):
    """1-based rank of label y."""
    return order(z).index(y) + 1


def weight(z, gamma, power):
    """w = (gamma + H)^power (Luo & Colombo 2024 for gamma = 0, power = 1)."""
    return 1.0 if power == 0 else (gamma + entropy(z)) ** power


def reweighted(z, gamma, power, temperature):
    """Softmax of z / (w T), with its limits: w T = 0 is uniform over the largest logits."""
    if temperature == INF:
        f = np.isfinite(z).astype(float)
    else:
        f = np.exp(per(z - z.max(), weight(z, gamma, power) * temperature))
    return f / f.sum()


def conventional(
    z, y, score, u, *, gamma=0.0, power=0.0, temperature=1.0, penalty=0.1, k_reg=2, saps=0.2, mixed=0.5
):
    """Scores as the papers print them."""
    if z[y] == -INF:
        return INF
    f = reweighted(z, gamma, power, temperature)
    by_rank = f[order(z)]
    r = rank(z, y)
    if score == "thr":  # Sadinle et al. 2019
        return 1 - f[y]
    aps = by_rank[: r - 1].sum() + u * f[y]  # Romano et al. 2020
    if score == "aps":
        return aps
    if score == "raps":  # Angelopoulos et al. 2021, as in their code
        return aps + penalty * max(0, r - k_reg)
    if score == "saps":  # Huang et al. 2024
        return u * by_rank[0] if r == 1 else by_rank[0] + saps * (r - 2 + u)
    if score == "rank":  # Luo & Zhou 2024
        return (r - f[y]) / len(z)
    if score == "mixed":
        settings = {"gamma": gamma, "power": power, "temperature": temperature, "mixed": mixed}
        return ranked(z, y, score, u, **settings)
    raise ValueError(score)


def log_sum_exp(x):
    """log(sum(exp(x))), -inf for nothing."""
    x = np.asarray(x, dtype=float)
    if not len(x) or x.max() == -INF:
        return -INF
    return x.max() + math.log(np.exp(x - x.max()).sum())


def ranked(
    z, y, score, u, *, gamma=0.0, power=0.0, temperature=1.0, penalty=0.1, k_reg=2, saps=0.2, mixed=0.5
):
    """The same orders with full relative precision at both ends; closed limits at T = 0 and inf."""
    if z[y] == -INF:
        return INF
    w, r, m = weight(z, gamma, power), rank(z, y), z.max()
    d, ties = m - z[y], int((z == m).sum())
    possible = z[np.isfinite(z)]
    if temperature == 0:
        if score == "aps":
            return float(per(d, w)) if d > 0 else -(1 - u + ties - r) / ties
        lead = np.delete(z, y).max(initial=-INF) - z[y]
        return float(per(lead, w))
    if temperature == INF:
        if score == "aps":
            return (r - 1 + u) / len(possible)
        lead = possible.mean() - z[y]
        return float(per(lead, w))
    g = log_sum_exp(per(np.delete(z, y) - z[y], w * temperature))
    log_f = per(z - m, w * temperature)
    log_f -= log_sum_exp(log_f)
    by_rank = log_f[order(z)]
    if score == "thr":
        return g
    if score == "mixed":
        return float(np.logaddexp(0, g)) + mixed * math.log(r)
    if score == "rank":
        return r + g / (2 * (1 + abs(g))) if math.isfinite(g) else r + math.copysign(0.5, g)
    if score == "saps":
        not_top = math.exp(log_sum_exp(by_rank[1:]))
        return -((1 - u) + u * not_top) if r == 1 else saps * (r - 2 + u) - not_top
    counted = np.exp(by_rank[: r - 1]).sum() + u * math.exp(log_f[y])
    if counted < 0.5:
        s = -math.log1p(-counted)
    else:
        own = log_f[y] + (math.log1p(-u) if u < 1 else -INF)
        s = -log_sum_exp([own, log_sum_exp(by_rank[r:])])
    if score == "aps":
        return s
    if score == "raps":
        p = penalty * max(0, r - k_reg)
        return p - math.exp(-s) + 2.0**-30 * (s / (1 + s) if math.isfinite(s) else 1.0)
    raise ValueError(score)


def conformal_rank(n, alpha):
    """k = ceil((n + 1)(1 - alpha)) with alpha as an exact decimal."""
    return math.ceil((n + 1) * (1 - Fraction(str(alpha))))


def threshold(scores, alpha):
    """The k-th smallest score, +inf if there are fewer."""
    k = conformal_rank(len(scores), alpha)
    return INF if k > len(scores) else np.sort(scores)[k - 1]


def algorithm_1(all_scores, labels, first, second, alpha):
    """Algorithm 1 of Luo & Colombo 2024, sets by <= (the paper prints >= by mistake).

    `all_scores[m]` holds the scores (n, K) of temperature m. Thresholds come from the rows `first`,
    sizes from the rows `second`, the final threshold from both. Returns the chosen m, its threshold.
    """
    sizes = []
    for scores in all_scores:
        q = threshold(scores[first, labels[first]], alpha)
        sizes.append((scores[second] <= q).sum(axis=1).mean())
    best = int(np.argmin(sizes))
    both = np.concatenate([first, second])
    return best, threshold(all_scores[best][both, labels[both]], alpha)
