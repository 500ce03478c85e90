"""The ranked scores in arbitrary precision (mpmath), from the definitions and without any care."""

from __future__ import annotations

from mpmath import mp, mpf

mp.dps = 60


def entropy(z):
    """-sum f log f at a precision at which nothing cancels."""
    m = max(z)
    # Entropies down to 1e-300 are differences at the scale of 1.
    with mp.workdps(700):
        e = [mp.exp(x - m) if x != -mp.inf else mpf(0) for x in z]
        total = mp.fsum(e)
        return mp.fsum(-(p / total) * mp.log(p / total) for p in e if p > 0)


def ranked(
    z, y, score, u, *, gamma=0.0, power=0.0, temperature=1.0, penalty=0.1, k_reg=2, saps=0.2, mixed=0.5
):
    """The ranked score of label y, an mpf that may be far outside float64."""
    z, u = [mpf(float(x)) for x in z], mpf(u)
    if z[y] == -mp.inf:
        return mp.inf
    w = (mpf(gamma) + entropy(z)) ** mpf(power) if power else mpf(1)
    beta = 1 / (w * mpf(temperature))
    labels = sorted(range(len(z)), key=lambda k: (-z[k], k))
    r = labels.index(y) + 1
    m = max(z)
    term = [mp.exp(beta * (x - m)) if x != -mp.inf else mpf(0) for x in z]
    total = mp.fsum(term)
    others = mp.fsum(t for k, t in enumerate(term) if k != y)
    g = mp.log(others / term[y]) if others > 0 else -mp.inf
    not_top = mp.fsum(term[k] for k in labels[1:]) / total
    left = (1 - u) * term[y] + mp.fsum(term[k] for k in labels[r:])
    if score == "thr":
        return g
    if score == "mixed":
        return mp.log1p(others / term[y]) + mpf(mixed) * mp.log(r)
    if score == "rank":
        return r + (g / (2 * (1 + abs(g))) if g != -mp.inf else mpf(-1) / 2)
    if score == "saps":
        if r == 1:
            return -((1 - u) + u * not_top)
        return mpf(saps) * (r - 2 + u) - not_top
    if left / total > mpf(1) / 2:
        counted = mp.fsum(term[k] for k in labels[: r - 1]) + u * term[y]
        s = -mp.log1p(-counted / total)
    else:
        s = -mp.log(left / total) if left > 0 else mp.inf
    if score == "aps":
        return s
    p = mpf(penalty) * max(0, r - k_reg)
    return p - left / total + mpf(2) ** -30 * (s / (1 + s) if s != mp.inf else 1)
