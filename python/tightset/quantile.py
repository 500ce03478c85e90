"""The conformal quantile: an exact rank and the score that has it."""

from __future__ import annotations

from tightset import _core
from tightset._inputs import ArrayLike, as_alpha, as_integer, as_scores


def conformal_rank(n: int, alpha: float) -> int:
    """Return ``ceil((n + 1) (1 - alpha))``, computed in integers.

    Alpha is rounded to 12 significant digits and then taken as an exact decimal. The `rank`-th
    smallest of n calibration scores covers a new exchangeable score with probability at least
    1 - alpha; a rank above n means that no finite threshold does.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.conformal_rank(99, 0.1), ts.conformal_rank(99, 1 - 0.9)
    (90, 90)
    """
    return _core.conformal_rank(as_integer(n, "n", 0), as_alpha(alpha))


def as_understood(alpha: float) -> float:
    """Return alpha rounded to twelve digits, as `conformal_rank` reads it: 1 - 0.9 is 0.1."""
    return float(f"{alpha:.12g}")


def conformal_threshold(scores: ArrayLike, alpha: float) -> float:
    """Return the `conformal_rank`-th smallest score, or infinity when there are too few.

    For exchangeable scores, the next one is at most this threshold with probability at least
    1 - alpha.

    Parameters
    ----------
    scores
        Calibration scores of shape (n,), without NaN.
    alpha
        Miscoverage, strictly between 0 and 1.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.conformal_threshold([0.1, 0.5, 0.3, 0.9], 0.4)
    0.5
    """
    array = as_scores(scores)
    return _core.kth_smallest(array, conformal_rank(len(array), alpha))
