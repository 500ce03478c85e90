//! What are `exp`, `ln`, `ln_1p` and powers in float64?
//!
//! They are our own, so that the bits are the same everywhere. The standard library calls the platform's
//! libm, and glibc, musl and macOS differ in the last place; a label whose score equals the threshold would
//! flip between machines. Each function is within two units in the last place. A label's score takes a few of
//! them; sums over labels take [`Scalar::exp2`](super::Scalar::exp2) instead. The functions select and do not
//! branch, so the compiler turns loops over several rows into vector code.

const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
/// Adding `1.5 * 2^52` rounds to a whole number and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `e^x`: 0 below the smallest subnormal, infinity above the largest finite value.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    // Taylor's series to degree 13 on |r| <= ln(2)/2 has a remainder below 5e-18. It is 1 + r q(r), with
    // the even and the odd powers of q side by side: in one chain each would wait for the last.
    const EVEN: [f64; 6] = [1.0 / 39_916_800.0, 1.0 / 362_880.0, 1.0 / 5_040.0, 1.0 / 120.0, 1.0 / 6.0, 1.0];
    const ODD: [f64; 6] =
        [1.0 / 479_001_600.0, 1.0 / 3_628_800.0, 1.0 / 40_320.0, 1.0 / 720.0, 1.0 / 24.0, 0.5];
    let x = x.clamp(-800.0, 800.0);
    let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let r = whole.mul_add(-LN2_HIGH, x);
    let r = whole.mul_add(-LN2_LOW, r);
    let square = r * r;
    let (mut even, mut odd) = (1.0_f64 / 6_227_020_800.0, 0.0_f64);
    for i in 0..6 {
        even = even.mul_add(square, EVEN[i]);
        odd = odd.mul_add(square, ODD[i]);
    }
    let p = odd.mul_add(r, even).mul_add(r, 1.0);
    // Two factors, so that results near either end of the range are not cut short.
    let half = whole.mul_add(0.5, ROUND);
    let other = (whole - (half - ROUND)) + ROUND;
    p * power_of_two(half) * power_of_two(other)
}

/// `2^n` from `n + ROUND`, whose low bits hold n.
#[inline(always)]
fn power_of_two(shifted: f64) -> f64 {
    f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0_f64.to_bits()))
}

/// Natural logarithm for `x >= 0`: `ln(0) = -inf`, `ln(inf) = inf`.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    // Integers below 2^52 turn into floats when or-ed into the mantissa of 2^52.
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    // Subnormals are scaled into the normal range first.
    let small = x < f64::MIN_POSITIVE;
    let normal = if small { x * (1_u64 << 54) as f64 } else { x };
    let offset = if small { -1024.0 - 54.0 } else { -1024.0 };
    // x = 2^e * m with m in [sqrt(1/2), sqrt(2)): subtracting the pattern of sqrt(1/2) borrows from the
    // exponent exactly when m would be too small. e is held with a bias of 1024.
    let bits = normal.to_bits();
    let biased = bits.wrapping_sub(SQRT_HALF).wrapping_add(1024 << 52) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(biased.wrapping_sub(1024) << 52));
    let e = (f64::from_bits(TWO_52.to_bits() | biased) - TWO_52) + offset;
    let f = m - 1.0;
    // ln(m) = 2 atanh(s) = 2 s + 2 s (s^2/3 + s^4/5 + ...), s = f / (2 + f), |s| <= 0.172.
    let s = f / (2.0 + f);
    let q = s * s;
    // Even and odd powers of q side by side, as in `exp`.
    let square = q * q;
    let (mut even, mut odd) = (1.0_f64 / 23.0, 1.0_f64 / 21.0);
    for (of_even, of_odd) in [(19.0, 17.0), (15.0, 13.0), (11.0, 9.0), (7.0, 5.0)] {
        even = even.mul_add(square, 1.0 / of_even);
        odd = odd.mul_add(square, 1.0 / of_odd);
    }
    let p = even.mul_add(square, 1.0 / 3.0);
    let p = odd.mul_add(q, p);
    // 2 s = f - s f, which keeps f, exact, as the leading term.
    let tail = s.mul_add(-f, 2.0 * s * q * p);
    let value = e.mul_add(LN2_HIGH, f + (tail + e * LN2_LOW));
    // Infinity and NaN stay as they are.
    let value = if x < f64::INFINITY { value } else { x };
    if x == 0.0 { f64::NEG_INFINITY } else { value }
}

/// `ln(1 + x)` for `x >= -1`, with full relative precision near 0.
#[inline(always)]
pub(crate) fn ln_1p(x: f64) -> f64 {
    let u = 1.0 + x;
    // The rounding of 1 + x, brought back to first order.
    let lost = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let value = ln(u) + lost / u;
    if u == 0.0 || u == f64::INFINITY { ln(u) } else { value }
}

/// `1 - e^-x` for `x >= 0`, with full relative precision near 0.
#[inline(always)]
pub(crate) fn one_minus_exp_neg(x: f64) -> f64 {
    let u = exp(-x);
    let kept = 1.0 - u;
    if kept == 0.0 {
        x
    } else if u < 0.5 {
        kept
    } else {
        // kept / x has the same error as -ln(u) / x, so their ratio cancels it (Kahan).
        kept * (x / -ln(u))
    }
}

/// `e^x - 1` for any x, with full relative precision near 0.
#[inline(always)]
pub(crate) fn exp_m1(x: f64) -> f64 {
    if x < 0.0 { -one_minus_exp_neg(-x) } else { one_minus_exp_neg(x) * exp(x) }
}

/// `log(1 + e^x)` without overflow, with full relative precision where it is small.
#[inline(always)]
pub(crate) fn softplus(x: f64) -> f64 {
    ln_1p(exp(-x.abs())) + x.max(0.0)
}

/// `x^p` for `x >= 0`. The powers in common use are exact operations.
#[inline(always)]
pub(crate) fn power(x: f64, p: f64) -> f64 {
    if p == 1.0 {
        x
    } else if p == 0.0 {
        1.0
    } else if p == 0.5 {
        x.sqrt()
    } else {
        exp(p * ln(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative_error(found: f64, expected: f64) -> f64 {
        if found == expected { 0.0 } else { ((found - expected) / expected).abs() }
    }

    #[test]
    fn close_to_the_library() {
        for i in -70_000..=70_000 {
            let x = f64::from(i) / 100.0 + 1e-3 * f64::from(i % 7);
            assert!(relative_error(exp(x), x.exp()) < 5e-16, "exp({x})");
            let y = x.exp();
            assert!(relative_error(ln(y), y.ln()) < 5e-16, "ln({y})");
            let small = (x / 20.0).exp();
            assert!(relative_error(ln_1p(small), small.ln_1p()) < 5e-16, "ln_1p({small})");
            if small < 1.0 {
                assert!(relative_error(ln_1p(-small), (-small).ln_1p()) < 1e-15, "ln_1p({})", -small);
            }
            let expected = -(-small).exp_m1();
            assert!(relative_error(one_minus_exp_neg(small), expected) < 1e-15, "1 - e^-{small}");
            for x in [small.min(700.0), -small] {
                assert!(relative_error(exp_m1(x), x.exp_m1()) < 2e-15, "e^{x} - 1");
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp(f64::INFINITY), f64::INFINITY);
        assert_eq!(exp(-760.0), 0.0);
        assert!(exp(-740.0) > 0.0);
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(f64::INFINITY), f64::INFINITY);
        assert!(ln(f64::NAN).is_nan());
        assert!(relative_error(ln(5e-324), 5e-324_f64.ln()) < 1e-15);
        assert_eq!(ln_1p(-1.0), f64::NEG_INFINITY);
        assert_eq!(ln_1p(1e-300), 1e-300);
        assert_eq!(one_minus_exp_neg(1e-300), 1e-300);
        assert_eq!(power(0.0, 0.0), 1.0);
        assert_eq!(power(4.0, 0.5), 2.0);
        assert!(relative_error(power(3.0, -0.1), 3.0_f64.powf(-0.1)) < 1e-15);
    }
}
