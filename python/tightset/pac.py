"""A guarantee over calibration draws: coverage is at least 1 - alpha for all but a share delta of them.

Given n calibration scores without ties, the coverage of the k-th smallest has the law Beta(k, n + 1 - k), and
ties only add coverage. The smallest k with P(Beta(k, n + 1 - k) <= 1 - alpha) <= delta is the threshold that
falls short with probability at most delta (Vovk 2012). With M thresholds, each at delta / M, all of them
hold together, whichever is used afterwards.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from tightset import _core
from tightset.beta import beta_cdf
from tightset.quantile import as_understood

Guarantee: TypeAlias = Literal["marginal", "pac"]
GUARANTEES: tuple[Guarantee, ...] = ("marginal", "pac")


def pac_rank(n: int, alpha: float, delta: float) -> int:
    """Return the smallest rank whose score covers 1 - alpha in all but a share delta of calibrations.

    n + 1 if there is none: no finite threshold does.

    Examples
    --------
    >>> from tightset.pac import pac_rank
    >>> pac_rank(1000, 0.1, 0.1), pac_rank(20, 0.1, 0.1)
    (913, 21)
    """
    level = 1.0 - as_understood(alpha)
    if n < 1 or beta_cdf(level, n, 1) > delta:
        return n + 1
    # The probability falls as the rank rises.
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        if beta_cdf(level, middle, n + 1 - middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def rank_for(n: int, alpha: float, delta: float | None, shares: int) -> int:
    """Return the rank of the threshold among n scores; `delta` is None for the marginal guarantee."""
    return _core.conformal_rank(n, alpha) if delta is None else pac_rank(n, alpha, delta / shares)
