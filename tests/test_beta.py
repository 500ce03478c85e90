"""The beta laws against SciPy, against exact fractions, and against each other."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from tightset.beta import beta_binomial_cdf, beta_binomial_quantile, beta_cdf, beta_quantile

# Half of them whole, as ranks are; evenly spread over the magnitudes.
parameters = st.floats(0.0, 7.0).map(lambda e: 10.0**e) | st.floats(0.0, 7.0).map(lambda e: round(10.0**e))
probabilities = st.floats(1e-12, 1.0 - 1e-12) | st.floats(-12.0, -0.01).map(lambda e: 10.0**e)


# SciPy is off by up to 4e-10 itself, against forty digits, above the mean of such as Beta(20, 1e7).
SCIPY = 1e-9


@given(parameters, parameters, probabilities)
def test_as_scipy(a, b, p):
    x = float(stats.beta.ppf(p, a, b))
    assert beta_quantile(p, a, b) == pytest.approx(x, rel=SCIPY, abs=0)
    if 0.0 < x < 1.0:
        assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=SCIPY, abs=0)


def in_forty_digits(x, a, b):
    """The hypergeometric series of positive terms, in x or in 1 - x; good to 1e-10 above 1e-30."""
    with mpmath.workdps(40):
        a, b, x = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
        is_lower = x <= 0.5
        if not is_lower:
            a, b, x = b, a, 1 - x
        term = total = mpmath.mpf(1)
        n = 0
        while term > total * mpmath.mpf(10) ** -40:
            term *= (a + b + n) / (a + 1 + n) * x
            total += term
            n += 1
        log_beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
        value = mpmath.exp(a * mpmath.log(x) + b * mpmath.log1p(-x) - mpmath.log(a) - log_beta) * total
        return float(value if is_lower else 1 - value)


@pytest.mark.parametrize("large", [1, 1.5, 20, 1e3, 1e5, 1e7])
@pytest.mark.parametrize("small", [1, 2.5, 30, 1e3, 1e4])
def test_as_forty_digits(large, small):
    for a, b in ((large, small), (small, large)):
        centre, spread = a / (a + b), math.sqrt(a * b / (a + b + 1)) / (a + b)
        for x in centre + spread * np.array([-7, -0.1, 0.1, 7]):
            if 0.0 < x < 1.0:
                assert beta_cdf(x, a, b) == pytest.approx(in_forty_digits(x, a, b), rel=1e-10, abs=0)
        for p in (1e-9, 0.05, 0.95):
            x = beta_quantile(p, a, b)
            # As far as x, a float, can say.
            assert in_forty_digits(x * (1 - 1e-14), a, b) <= p
            assert in_forty_digits(x * (1 + 1e-14), a, b) >= p


def test_both_parameters_large():
    assert beta_cdf(0.4997, 1e7, 1e7) == pytest.approx(in_forty_digits(0.4997, 1e7, 1e7), rel=1e-10, abs=0)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 63))
def test_whole_parameters_are_binomial_sums(a, b, sixty_fourths):
    x, n = Fraction(sixty_fourths, 64), a + b - 1
    exact = sum(math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1))
    assert beta_cdf(float(x), a, b) == pytest.approx(float(exact), rel=1e-13, abs=0)


@given(parameters, parameters, probabilities)
def test_the_quantile_inverts(a, b, p):
    x = beta_quantile(p, a, b)
    # As far as x, a float, can say: its neighbours' probabilities enclose p.
    below, above = x * (1 - 1e-11), min(x * (1 + 1e-11), 1.0)
    assert beta_cdf(below, a, b) * (1 - 1e-10) <= p <= beta_cdf(above, a, b) * (1 + 1e-10)


def test_ends():
    assert [beta_cdf(x, 3, 4) for x in (0, 1)] == [0.0, 1.0]
    assert [beta_quantile(p, 3, 4) for p in (0, 1)] == [0.0, 1.0]
    assert beta_quantile(1e-300, 1, 1) == pytest.approx(1e-300)
    assert 0.0 < beta_quantile(5e-324, 1, 1e7) < 1e-300
    assert beta_cdf(0.5, 1e10, 1e10) == pytest.approx(0.5, rel=1e-10)


def exact_beta_binomial(count, n, a, b):
    def rising(start, length):
        return math.prod(range(start, start + length))

    terms = (math.comb(n, j) * rising(a, j) * rising(b, n - j) for j in range(count + 1))
    return Fraction(sum(terms), rising(a + b, n))


@given(st.data())
def test_beta_binomial_is_exact(data):
    n, a, b = (data.draw(st.integers(1, 40)) for _ in range(3))
    cumulative = [exact_beta_binomial(j, n, a, b) for j in range(n + 1)]
    for j, expected in enumerate(cumulative):
        assert beta_binomial_cdf(j, n, a, b) == pytest.approx(float(expected), rel=1e-12, abs=0)
    p = data.draw(st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100))
    smallest = next(j for j, c in enumerate(cumulative) if c >= p)
    assert beta_binomial_quantile(float(p), n, a, b) == smallest


@pytest.mark.parametrize(
    ("n", "a", "b"),
    [(100, 901, 100), (2000, 90, 10), (10_000, 4951, 50), (50, 1, 3000), (50, 3000, 1), (1000, 1.5, 2.5)],
)
def test_beta_binomial_as_scipy(n, a, b):
    law = stats.betabinom(n, a, b)
    for p in (0.005, 0.05, 0.5, 0.95, 0.995):
        count = beta_binomial_quantile(p, n, a, b)
        assert count == law.ppf(p)
        assert beta_binomial_cdf(count, n, a, b) == pytest.approx(law.cdf(count), rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(901, 100), (1, 1), (1, 50), (50, 1), (900_001, 100_000)])
def test_many_trials_show_the_beta_law(a, b):
    n = 3_000_000
    for p in (0.05, 0.95):
        count = beta_binomial_quantile(p, n, a, b)
        x = beta_quantile(p, a, b)
        # A count spreads by sqrt(n x (1 - x)) about its chance.
        assert abs(count - n * x) <= 2 * math.sqrt(n * x * (1 - x)) + 1


@pytest.mark.parametrize("n", [19, 49, 99, 123, 999])
def test_a_probability_that_is_met_is_enough(n):
    for count in range(n):
        exact = Fraction((count + 1) * (count + 2), (n + 1) * (n + 2))
        assert beta_binomial_quantile(float(exact), n, 2, 1) == count


@pytest.mark.parametrize("count", [0, 5000, 400_000, 999_999])
def test_long_tails_are_summed_to_their_end(count):
    n = 1_000_000
    exact = math.prod(Fraction(count + i, n + i) for i in range(1, 6))
    assert beta_binomial_cdf(count, n, 5, 1) == pytest.approx(float(exact), rel=1e-9, abs=0)


def test_counts_too_rare_to_add_up():
    assert beta_binomial_cdf(0, 100_000, 9001, 1000) == 0.0
    assert beta_binomial_cdf(99_999, 100_000, 9001, 1000) == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: beta_cdf(1.5, 2, 2), ValueError, "x must be between 0 and 1, got 1.5"),
        (lambda: beta_cdf(math.nan, 2, 2), ValueError, "x must be between 0 and 1, got nan"),
        (lambda: beta_cdf(0.5, 0.5, 2), ValueError, "a must be between 1 and 1e+10, got 0.5"),
        (lambda: beta_cdf(0.5, 2, math.inf), ValueError, "b must be between 1 and 1e+10, got inf"),
        (lambda: beta_quantile(-0.1, 2, 2), ValueError, "p must be between 0 and 1, got -0.1"),
        (lambda: beta_quantile("half", 2, 2), TypeError, "p must be a number, got 'half'"),
        (
            lambda: beta_binomial_quantile(0, 5, 2, 2),
            ValueError,
            "p must be strictly between 0 and 1, got 0.0",
        ),
        (lambda: beta_binomial_quantile(0.5, 0, 2, 2), ValueError, "n must be at least 1, got 0"),
        (lambda: beta_binomial_quantile(0.5, 10**9, 2, 2), ValueError, "n must be between 1 and 100000000"),
        (lambda: beta_binomial_cdf(6, 5, 2, 2), ValueError, "count must be between 0 and 5, got 6"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
