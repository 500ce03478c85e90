"""The beta and beta-binomial laws that coverage follows, without SciPy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tightset._inputs import as_integer, as_number

MOST_PARAMETER = 10**10
"""Largest parameter: the continued fraction may take its square root in steps."""

MOST_TRIALS = 10**8
"""Most trials of a beta-binomial: the weights of all likely counts are in memory at once."""


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return P(B <= x) for B of law Beta(a, b): the regularised incomplete beta function.

    The relative error is below 1e-10 for parameters up to 1e7, in the lower tail too.

    Parameters
    ----------
    x
        Between 0 and 1.
    a, b
        Parameters, from 1 to 1e10.

    Examples
    --------
    >>> from tightset.beta import beta_cdf
    >>> round(beta_cdf(0.9, 901, 100), 6)
    0.484582
    """
    a, b = _parameter(a, "a"), _parameter(b, "b")
    x = _probability(x, "x")
    return x if x in (0.0, 1.0) else math.exp(_log_cdf(x, 1.0 - x, a, b))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with ``beta_cdf(x, a, b) = p``.

    Parameters
    ----------
    p
        Probability, between 0 and 1.
    a, b
        As in `beta_cdf`.

    Examples
    --------
    >>> from tightset.beta import beta_quantile
    >>> round(beta_quantile(0.05, 901, 100), 6)
    0.884075
    """
    a, b = _parameter(a, "a"), _parameter(b, "b")
    p = _probability(p, "p")
    if p in (0.0, 1.0):
        return p
    if p > 0.5:
        return _logistic(-_logit_quantile(1.0 - p, b, a))
    return _logistic(_logit_quantile(p, a, b))


def beta_binomial_cdf(count: int, n: int, a: float, b: float) -> float:
    """Return the probability of at most `count` successes among n, their chance of law Beta(a, b).

    Parameters
    ----------
    count
        From 0 to n.
    n
        Trials, from 1 to 1e8.
    a, b
        As in `beta_cdf`.

    Examples
    --------
    >>> from tightset.beta import beta_binomial_cdf
    >>> round(beta_binomial_cdf(90, 100, 901, 100), 6)
    0.54184
    """
    n = as_integer(n, "n", 1, MOST_TRIALS)
    first, cumulative = _beta_binomial(n, _parameter(a, "a"), _parameter(b, "b"))
    place = as_integer(count, "count", 0, n) - first
    return 0.0 if place < 0 else float(cumulative[min(place, len(cumulative) - 1)])


def beta_binomial_quantile(p: float, n: int, a: float, b: float) -> int:
    """Return the smallest count with ``beta_binomial_cdf(count, n, a, b) >= p``.

    A cumulative probability that misses p by rounding alone counts as p.

    Parameters
    ----------
    p
        Probability, strictly between 0 and 1.
    n, a, b
        As in `beta_binomial_cdf`.

    Examples
    --------
    >>> from tightset.beta import beta_binomial_quantile
    >>> beta_binomial_quantile(0.05, 100, 901, 100)
    85
    """
    n = as_integer(n, "n", 1, MOST_TRIALS)
    first, cumulative = _beta_binomial(n, _parameter(a, "a"), _parameter(b, "b"))
    p = as_number(p, "p")
    if not 0.0 < p < 1.0:
        message = f"p must be strictly between 0 and 1, got {p}"
        raise ValueError(message)
    return first + int(np.searchsorted(cumulative, p * (1.0 - 1e-12)))


def beta_binomial_probabilities(n: int, a: float, b: float) -> tuple[int, NDArray[np.float64]]:
    """Return the probabilities of consecutive counts, and the first of these; the others are negligible.

    Parameters are those of `beta_binomial_cdf`.

    Examples
    --------
    >>> from tightset.beta import beta_binomial_probabilities
    >>> first, found = beta_binomial_probabilities(4, 1, 1)
    >>> first, found.round(3)
    (0, array([0.2, 0.2, 0.2, 0.2, 0.2]))
    """
    trials = as_integer(n, "n", 1, MOST_TRIALS)
    first, weights = _weights(trials, _parameter(a, "a"), _parameter(b, "b"))
    return first, weights / weights.sum()


def _parameter(value: object, name: str) -> float:
    number = as_number(value, name)
    if not 1.0 <= number <= MOST_PARAMETER:
        message = f"{name} must be between 1 and {MOST_PARAMETER:g}, got {number}"
        raise ValueError(message)
    return number


def _probability(value: object, name: str) -> float:
    number = as_number(value, name)
    if not 0.0 <= number <= 1.0:
        message = f"{name} must be between 0 and 1, got {number}"
        raise ValueError(message)
    return number


def _log_cdf(x: float, y: float, a: float, b: float) -> float:
    """Logarithm of P(B <= x), with y = 1 - x; below the mean by the fraction, above by its complement."""
    if a * y >= b * x:
        return _log_power(x, y, a, b) - math.log(_fraction(x, y, a, b))
    return math.log1p(-math.exp(_log_cdf(y, x, b, a)))


def _log_power(x: float, y: float, a: float, b: float) -> float:
    """Logarithm of ``x^a y^b / B(a, b)``.

    Written around the mean, where x^a y^b peaks: the logarithms of the factors themselves reach 1e8 for
    large parameters, and their difference would keep eight digits.
    """
    away = a * y - b * x  # a - (a + b) x
    n = a + b
    stirling = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    return (
        stirling
        + 0.5 * math.log(a * (b / (2.0 * math.pi * n)))
        + a * _log_ratio(-away / a, x * (n / a))
        + b * _log_ratio(away / b, y * (n / b))
    )


def _log_ratio(less_one: float, ratio: float) -> float:
    return math.log1p(less_one) if abs(less_one) < 0.5 else math.log(ratio)


def _stirling_error(z: float) -> float:
    """``log Gamma(z + 1)`` less Stirling's formula for it."""
    if z < 16.0:
        return math.lgamma(z + 1.0) - (z + 0.5) * math.log(z) + z - 0.5 * math.log(2.0 * math.pi)
    w = 1.0 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / z


def _fraction(x: float, y: float, a: float, b: float) -> float:
    """``x^a y^b / B(a, b)`` over P(B <= x), by the continued fraction of Didonato and Morris (1992).

    Its terms are positive below the mean, until they no longer count. Evaluated from the front, after
    Lentz.
    """
    away = a * y - b * x + 1.0
    value = c = a * away / (a + 1.0)
    d = 0.0
    # Three roots and a hundred steps were enough in every case tried, a million of them; where rounding alone
    # keeps the last two values apart, more would not help.
    steps = 1000 + 10 * math.isqrt(int(min(a, b)))
    for m in range(1, steps):  # pragma: no branch - no case is known that needs them all
        odd = a + 2.0 * m - 1.0
        shrunk = m * (b - m) * x / odd
        above = (a + m - 1.0) * (a + b + m - 1.0) / odd * shrunk * x
        below = m + shrunk + (a + m) * (away + m * (2.0 - x)) / (odd + 2.0)
        d = 1.0 / (below + above * d)
        c = below + above / c
        value *= c * d
        if abs(c * d - 1.0) < 4e-16:
            break
    return value


def _logit_quantile(p: float, a: float, b: float) -> float:
    """Logit of the p-quantile, p at most one half.

    In the logit t of x the density is log-concave, and so is the cumulative probability: Newton's
    method on its logarithm reaches the root from anywhere, from the left after at most one step.
    """
    t, target = math.log(a / b), math.log(p)
    while True:
        x, y = _logistic(t), _logistic(-t)
        log_cdf = _log_cdf(x, y, a, b)
        step = (target - log_cdf) * math.exp(log_cdf - _log_power(x, y, a, b))
        t = max(t + step, -700.0)  # e^t stays a normal number
        # Convergence is quadratic: what is left after such a step is below rounding.
        if abs(step) < 1e-9 or t == -700.0:
            return t


def _logistic(t: float) -> float:
    return 1.0 / (1.0 + math.exp(-t)) if t >= 0.0 else math.exp(t) / (1.0 + math.exp(t))


def _beta_binomial(n: int, a: float, b: float) -> tuple[int, NDArray[np.float64]]:
    """Cumulative probabilities of the counts that matter, and the first of these counts."""
    first, weights = _weights(n, a, b)
    cumulative = np.cumsum(weights)
    return first, cumulative / cumulative[-1]


def _weights(n: int, a: float, b: float) -> tuple[int, NDArray[np.float64]]:
    """Probabilities of the counts that matter, but for their scale, and the first of these counts.

    Probabilities relative to the mode's are products of ratios of neighbours, all positive: no term
    is lost to cancellation, and the sum of all gives their scale.
    """
    slope = a + b - 2.0
    mode = 0 if slope == 0.0 else min(max(math.ceil((n * (a - 1.0) - (b - 1.0)) / slope), 0), n)
    # Seen from above, successes are failures.
    up, down = _tail(n, mode, a, b), _tail(n, n - mode, b, a)
    return mode - len(down), np.concatenate([down[::-1], [1.0], up])


def _tail(n: int, mode: int, a: float, b: float) -> NDArray[np.float64]:
    """Probabilities of the counts above the mode, relative to its own, until they are negligible."""
    parts: list[NDArray[np.float64]] = []
    last, start = 1.0, mode
    while start < n and last > 1e-30:
        j = np.arange(start, min(start + 2**16, n), dtype=np.float64)
        # In pairs that are near 1, so that no product overflows on the way.
        ratios = ((n - j) / (n - j - 1.0 + b)) * ((j + a) / (j + 1.0))
        part = np.cumprod(ratios, dtype=np.float64)
        part *= last
        parts.append(part)
        last, start = float(part[-1]), start + len(j)
    return np.concatenate(parts) if parts else np.empty(0)
