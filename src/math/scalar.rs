//! What is a number here? One of the two computing types, `f32` and `f64`: their constants and operations.
//!
//! What they do with whole rows stands in [`crate::kernels`].

use std::fmt::Debug;
use std::ops::{Add, Mul, Sub};

/// A computing type: `f32` or `f64`.
#[doc(hidden)]
pub trait Scalar:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// Zero.
    const ZERO: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity: the logit of a label that cannot occur.
    const NEG_INFINITY: Self;
    /// Largest finite value.
    const MAX: Self;
    /// `log2(e)`, the scale of a plain exponential.
    const LOG2_E: Self;
    /// Terms of `2^-DEEPEST` and less add nothing to a sum (see [`Grain`](super::Grain)).
    const DEEPEST: Self;
    /// `DEEPEST` over a scale below this would be near the largest number or beyond it. The smallest beta
    /// that is used (see `score::masses::Sharpness`).
    const SMALLEST_SCALE: Self;
    /// Powers of two up to this one and their inverses are normal.
    const LARGEST_EXPONENT: i32;
    /// From this magnitude on every value is a whole number.
    const INTEGRAL_FROM: Self;
    /// [`Self::DEEPEST`] for coarse quanta (see [`Grain`](super::Grain)).
    const DEEPEST_COARSE: Self;

    /// Nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// Nearest value of this type; exact.
    fn from_f32(value: f32) -> Self;
    /// Exact widening.
    fn to_f64(self) -> f64;
    /// 32 bits that tell values apart: those of the float32 where the value is one, so that the float32
    /// and the float64 form of a row agree; `-0.0` counts as `0.0`.
    fn pattern(self) -> u32;
    /// 64 bits that tell values apart without loss, alike for both types as [`Self::pattern`].
    fn wide_pattern(self) -> u64;
    /// An unsigned key that orders as the values do; `-0.0` and `0.0` share one.
    fn order_key(self) -> u64;
    /// Orders labels by falling logit, then by rising label.
    type Key: Copy + Debug + Default + Ord + Send;
    /// The key of a label.
    fn key(logit: Self, label: u32) -> Self::Key;
    /// The label of a key and its logit, with `-0.0` as `0.0`.
    fn from_key(key: Self::Key) -> (u32, Self);
    /// Relative error that approximations of sums stay well below (see `sets::bounds`).
    const MARGIN: f64;
    /// `2^-(depth scale)` for a depth from 0 to `DEEPEST / scale`.
    fn exp2(depth: Self, scale: Self) -> Self;
    /// `2^-(depth scale)` in a form that the compiler turns into vector code, with other bits.
    fn exp2_in_lanes(depth: Self, scale: Self) -> Self;
    /// `self * factor + term`, fused.
    #[must_use]
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The quotient.
    #[must_use]
    fn over(self, divisor: Self) -> Self;
    /// Smallest whole number not below the value.
    #[must_use]
    fn ceil(self) -> Self;
    /// `2^exponent`, with the exponent clamped to normal values.
    fn power_of_two(exponent: i32) -> Self;
    /// What a term in `[0, 1]` adds to an exact sum, in units of [`Self::QUANTUM`].
    fn quanta(term: Self, grain: Grain) -> i128;
    /// Quanta in a coarse one, as a power of two.
    const COARSE_BITS: u32;
    /// The unit of exact sums.
    const QUANTUM: f64;
    /// An exact sum as a float: a fixed function of the integer, within one unit in the last place.
    fn sum_to_f64(quanta: i128) -> f64;

    /// The larger; the second when either is NaN.
    #[inline(always)]
    #[must_use]
    fn larger(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

    /// The smaller; the second when either is NaN.
    #[inline(always)]
    #[must_use]
    fn smaller(self, other: Self) -> Self {
        if self < other { self } else { other }
    }
}

/// What the terms of a score's sums are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Quanta.
    Fine,
    /// Multiples of 2^-29 in float32 and of 2^-56 in float64, for rows of at most [`MOST_COARSE`] labels:
    /// terms fit 32-bit integers, and those of float64 one word of 64 bits, which halves the cost of adding
    /// them up. Each sum has a term of 1/e or more, as shifts are at most one unit of `1 / beta` above the
    /// largest logit then (see `score::masses::Sharpness`), so roundings are off by at most 1024 * 2^-30 * e
    /// = 2.6e-6 of a sum when all go one way, and by 1e-7 when they go as they come; terms themselves are off
    /// by as much. In float64 that is 1.9e-14 and 1e-15.
    Coarse,
}

/// Labels of rows that are summed in coarse quanta, at most.
pub(crate) const MOST_COARSE: usize = 1024;
/// Coarse quanta of float32 in 1.
pub(crate) const COARSE: f32 = (1_u32 << 29) as f32;

impl Grain {
    #[inline(always)]
    pub(crate) fn of(n_labels: usize) -> Self {
        if n_labels <= MOST_COARSE { Self::Coarse } else { Self::Fine }
    }

    /// Terms of 2 to the power of less this add nothing.
    #[inline(always)]
    pub(crate) fn deepest<F: Scalar>(self) -> F {
        if self == Self::Coarse { F::DEEPEST_COARSE } else { F::DEEPEST }
    }
}

// Adding a value in [0, 1] to 3.0 rounds it to a multiple of 2^-51 and leaves the multiple in the
// low bits of the sum's bit pattern: integer sums of patterns are exact sums of multiples.
pub(crate) const ANCHOR: f64 = 3.0;
// What the first rounding leaves, at most 2^-52, is rounded to a multiple of 2^-99 the same way.
pub(crate) const LOW_ANCHOR: f64 = 1.5 / (1_u64 << 47) as f64;
// Coarse quanta, 2^-29 in float32 and 2^-56 in float64, have anchors of their own.
pub(crate) const COARSE_ANCHOR: f64 = 3.0 * (1_u32 << 22) as f64;
pub(crate) const COARSE_LOW_ANCHOR: f64 = 1.5 / 16.0;
/// Quanta in a coarse one, as a power of two.
pub(crate) const COARSE_BITS: u32 = 22;
/// Quanta of float64 in a coarse one, as a power of two.
pub(crate) const WIDE_COARSE_BITS: u32 = 43;
pub(crate) const QUANTUM_HIGH: f64 = 1.0 / (1_u64 << 51) as f64;
pub(crate) const LOW_BITS: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deepest_adds_nothing() {
        fn check<F: Scalar>(scale: F) {
            assert_eq!(F::quanta(F::exp2(F::DEEPEST.over(scale), scale), Grain::Fine), 0);
            assert_eq!(F::quanta(F::exp2(F::DEEPEST_COARSE.over(scale), scale), Grain::Coarse), 0);
        }
        for scale in [f32::SMALLEST_SCALE, 1e-3, 1.0, 1e9, f32::MAX] {
            check(scale);
        }
        for scale in [f64::SMALLEST_SCALE, 1e-3, 1.0, 1e9, f64::MAX] {
            check(scale);
        }
    }

    #[test]
    fn keys_order_as_values() {
        let values = [f64::NEG_INFINITY, -2.5, -1e-310, 0.0, 1e-310, 3.0, f64::INFINITY];
        for pair in values.windows(2) {
            assert!(pair[0].order_key() < pair[1].order_key());
            assert!((pair[0] as f32).order_key() <= (pair[1] as f32).order_key());
        }
        for pair in values.windows(2) {
            assert!(f64::key(pair[1], 9) < f64::key(pair[0], 1));
            assert!(f64::key(pair[0], 1) < f64::key(pair[0], 2));
            assert_eq!(f64::from_key(f64::key(pair[0], 7)), (7, pair[0]));
            assert_eq!(f32::from_key(f32::key(pair[0] as f32, 7)), (7, pair[0] as f32));
        }
        assert_eq!((-0.0_f64).order_key(), 0.0_f64.order_key());
        assert_eq!((-0.0_f32).pattern(), 0.0_f32.pattern());
        assert_eq!((-0.0_f64).pattern(), 0.0_f64.pattern());
        assert_eq!(0.1_f32.pattern(), f64::from(0.1_f32).pattern());
        assert_eq!(0.1_f32.wide_pattern(), f64::from(0.1_f32).wide_pattern());
        assert_ne!(0.1_f64.pattern(), 0.1_f32.pattern());
    }
}
