//! The two computing types, `f32` and `f64`: nowhere else is a scalar type chosen.

use std::fmt::Debug;
use std::ops::{Add, Mul, Sub};

use crate::exp2;
use crate::rows::{Column, GROUP};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A computing type: `f32` or `f64`. Sealed; its methods are the kernels' own.
#[doc(hidden)]
pub trait Float:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Send
    + Sync
    + sealed::Sealed
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
    /// Terms of `2^-DEEPEST` and less add nothing to a sum (see [`crate::sum`]).
    const DEEPEST: Self;
    /// `DEEPEST` over a scale below this would be near the largest number or beyond it. The smallest beta that is
    /// used (see [`crate::masses::Sharpness`]).
    const SMALLEST_SCALE: Self;
    /// Powers of two up to this one and their inverses are normal.
    const LARGEST_EXPONENT: i32;
    /// From this magnitude on every value is a whole number.
    const INTEGRAL_FROM: Self;
    /// [`Self::DEEPEST`] for coarse quanta (see [`crate::sum::Grain`]).
    const DEEPEST_COARSE: Self;

    /// Nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// Nearest value of this type; exact.
    fn from_f32(value: f32) -> Self;
    /// The row as float64, if that is the type.
    fn as_f64(row: &[Self]) -> Option<&[f64]>;
    /// The row as float32, if that is the type.
    fn as_f32(row: &[Self]) -> Option<&[f32]>;
    /// The same of the rows of a group.
    fn group_as_f32<'a, 'b>(rows: &'b [&'a [Self]; GROUP]) -> Option<&'b [&'a [f32]; GROUP]>;
    /// The same of rows that are written.
    fn as_f32_mut(rows: &mut [Self]) -> Option<&mut [f32]>;
    /// The same of columns, a value for each row of a group.
    fn columns_as_f32(columns: &[Column<Self>]) -> Option<&[Column<f32>]>;
    /// The same of columns that are written.
    fn columns_as_f32_mut(columns: &mut [Column<Self>]) -> Option<&mut [Column<f32>]>;
    /// Exact widening.
    fn to_f64(self) -> f64;
    /// 32 bits that tell values apart: those of the float32 where the value is one, so that the float32
    /// and the float64 form of a row agree; `-0.0` counts as `0.0`.
    fn pattern(self) -> u32;
    /// The same in 64 bits, without loss.
    fn wide_pattern(self) -> u64;
    /// An unsigned key that orders as the values do; `-0.0` and `0.0` share one.
    fn order_key(self) -> u64;
    /// Orders labels by falling logit, then by rising label.
    type Key: Copy + Debug + Default + Ord + Send;
    /// The key of a label.
    fn key(logit: Self, label: u32) -> Self::Key;
    /// The label of a key and its logit, with `-0.0` as `0.0`.
    fn from_key(key: Self::Key) -> (u32, Self);
    /// Relative error that approximations of sums stay well below (see [`crate::judge`]).
    const MARGIN: f64;
    /// `2^-(depth scale)` for a depth from 0 to `DEEPEST / scale`.
    fn exp2(depth: Self, scale: Self) -> Self;
    /// The same in a form that the compiler turns into vector code, with other bits.
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
    /// Adds `value`, in `[0, 1]`, to one lane of an exact sum.
    fn accumulate(value: Self, high: &mut u64, low: &mut u64);
    /// The words that `value` adds to a lane, free of anchors.
    fn words(value: Self) -> (u64, u64);
    /// The same of `value` in coarse quanta (see [`crate::sum::Grain`]).
    fn coarse_words(value: Self) -> (u64, u64);
    /// The words of a lane that took `count` values, free of their anchors.
    fn without_anchors(high: u64, low: u64, count: u64) -> (u64, u64);
    /// The integer sum of words, in units of [`Self::QUANTUM`].
    fn collect(words: (u64, u64)) -> i128;
    /// The unit of exact sums.
    const QUANTUM: f64;
    /// An exact sum as a float: a fixed function of the integer, within one unit in the last place.
    fn sum_to_f64(quanta: i128) -> f64;
    /// The same for a sum of words; in float32 it must be below 2^13, as sums of that many labels are.
    fn words_to_f64(words: (u64, u64)) -> f64;

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

// Adding a value in [0, 1] to 3.0 rounds it to a multiple of 2^-51 and leaves the multiple in the
// low bits of the sum's bit pattern: integer sums of patterns are exact sums of multiples.
pub(crate) const ANCHOR: f64 = 3.0;
// What the first rounding leaves, at most 2^-52, is rounded to a multiple of 2^-99 the same way.
pub(crate) const LOW_ANCHOR: f64 = 1.5 / (1_u64 << 47) as f64;
// The same for coarse quanta, of 2^-29 in float32 and 2^-56 in float64.
const COARSE_ANCHOR: f64 = 3.0 * (1_u32 << 22) as f64;
pub(crate) const COARSE_LOW_ANCHOR: f64 = 1.5 / 16.0;
/// Quanta in a coarse one, as a power of two.
pub(crate) const COARSE_BITS: u32 = 22;
/// The same in float64.
pub(crate) const WIDE_COARSE_BITS: u32 = 43;
const QUANTUM_HIGH: f64 = 1.0 / (1_u64 << 51) as f64;
const LOW_BITS: u32 = 48;

impl Float for f32 {
    const ZERO: Self = 0.0;
    const INFINITY: Self = f32::INFINITY;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;
    const MAX: Self = f32::MAX;
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const DEEPEST: Self = 60.0;
    const SMALLEST_SCALE: Self = 1.0 / (1_u128 << 122) as f32;
    const LARGEST_EXPONENT: i32 = 125;
    const INTEGRAL_FROM: Self = 8_388_608.0;
    const DEEPEST_COARSE: Self = 31.0;
    const QUANTUM: f64 = QUANTUM_HIGH;

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn as_f32(row: &[Self]) -> Option<&[f32]> {
        Some(row)
    }

    #[inline(always)]
    fn as_f64(_row: &[Self]) -> Option<&[f64]> {
        None
    }

    #[inline(always)]
    fn group_as_f32<'a, 'b>(rows: &'b [&'a [Self]; GROUP]) -> Option<&'b [&'a [f32]; GROUP]> {
        Some(rows)
    }

    #[inline(always)]
    fn as_f32_mut(rows: &mut [Self]) -> Option<&mut [f32]> {
        Some(rows)
    }

    #[inline(always)]
    fn columns_as_f32(columns: &[Column<Self>]) -> Option<&[Column<f32>]> {
        Some(columns)
    }

    #[inline(always)]
    fn columns_as_f32_mut(columns: &mut [Column<Self>]) -> Option<&mut [Column<f32>]> {
        Some(columns)
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn pattern(self) -> u32 {
        (self + 0.0).to_bits()
    }

    #[inline(always)]
    fn wide_pattern(self) -> u64 {
        u64::from(self.pattern())
    }

    #[inline(always)]
    fn order_key(self) -> u64 {
        let bits = (self + 0.0).to_bits();
        u64::from(if bits >> 31 == 0 { bits | (1 << 31) } else { !bits })
    }

    type Key = u64;
    const MARGIN: f64 = 1e-4;

    #[inline(always)]
    fn key(logit: Self, label: u32) -> u64 {
        (u64::from(!(logit.order_key() as u32)) << 32) | u64::from(label)
    }

    #[inline(always)]
    fn from_key(key: u64) -> (u32, Self) {
        let bits = !((key >> 32) as u32);
        (key as u32, f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits }))
    }

    #[inline(always)]
    fn exp2(depth: Self, scale: Self) -> Self {
        exp2::narrow(depth, scale)
    }

    #[inline(always)]
    fn exp2_in_lanes(depth: Self, scale: Self) -> Self {
        exp2::narrow_in_lanes(depth, scale)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        f32::mul_add(self, factor, term)
    }

    #[inline(always)]
    fn over(self, divisor: Self) -> Self {
        self / divisor
    }

    #[inline(always)]
    fn ceil(self) -> Self {
        f32::ceil(self)
    }

    #[inline(always)]
    fn power_of_two(exponent: i32) -> Self {
        f32::from_bits(((exponent.clamp(-126, 127) + 127) as u32) << 23)
    }

    #[inline(always)]
    fn accumulate(value: Self, high: &mut u64, _low: &mut u64) {
        *high = high.wrapping_add((f64::from(value) + ANCHOR).to_bits());
    }

    #[inline(always)]
    fn words(value: Self) -> (u64, u64) {
        ((f64::from(value) + ANCHOR).to_bits().wrapping_sub(ANCHOR.to_bits()), 0)
    }

    #[inline(always)]
    fn coarse_words(value: Self) -> (u64, u64) {
        let anchored = f64::from(value) + COARSE_ANCHOR;
        (anchored.to_bits().wrapping_sub(COARSE_ANCHOR.to_bits()) << COARSE_BITS, 0)
    }

    #[inline(always)]
    fn without_anchors(high: u64, _low: u64, count: u64) -> (u64, u64) {
        (high.wrapping_sub(count.wrapping_mul(ANCHOR.to_bits())), 0)
    }

    #[inline(always)]
    fn collect((high, _low): (u64, u64)) -> i128 {
        i128::from(high)
    }

    #[inline(always)]
    fn sum_to_f64(quanta: i128) -> f64 {
        // Below 2^13 labels the sum always fits 64 bits, whose conversion is one instruction.
        if quanta >> 64 == 0 { Self::words_to_f64((quanta as u64, 0)) } else { large_sum(quanta) }
    }

    #[inline(always)]
    fn words_to_f64((high, _low): (u64, u64)) -> f64 {
        high as f64 * Self::QUANTUM
    }
}

/// Out of line, or the compiler takes the call for every sum.
#[cold]
#[inline(never)]
fn large_sum(quanta: i128) -> f64 {
    quanta as f64 * f32::QUANTUM
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const INFINITY: Self = f64::INFINITY;
    const NEG_INFINITY: Self = f64::NEG_INFINITY;
    const MAX: Self = f64::MAX;
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const DEEPEST: Self = 110.0;
    const SMALLEST_SCALE: Self = f64::from_bits((1023 - 1015) << 52);
    const LARGEST_EXPONENT: i32 = 1021;
    const INTEGRAL_FROM: Self = 4_503_599_627_370_496.0;
    const DEEPEST_COARSE: Self = 58.0;
    const QUANTUM: f64 = QUANTUM_HIGH / (1_u64 << LOW_BITS) as f64;

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f64::from(value)
    }

    #[inline(always)]
    fn as_f32(_row: &[Self]) -> Option<&[f32]> {
        None
    }

    #[inline(always)]
    fn as_f64(row: &[Self]) -> Option<&[f64]> {
        Some(row)
    }

    #[inline(always)]
    fn group_as_f32<'a, 'b>(_rows: &'b [&'a [Self]; GROUP]) -> Option<&'b [&'a [f32]; GROUP]> {
        None
    }

    #[inline(always)]
    fn as_f32_mut(_rows: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    #[inline(always)]
    fn columns_as_f32(_columns: &[Column<Self>]) -> Option<&[Column<f32>]> {
        None
    }

    #[inline(always)]
    fn columns_as_f32_mut(_columns: &mut [Column<Self>]) -> Option<&mut [Column<f32>]> {
        None
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn pattern(self) -> u32 {
        let (narrow, bits) = ((self + 0.0) as f32, (self + 0.0).to_bits());
        let folded = (bits >> 32) as u32 ^ bits as u32;
        if f64::from(narrow) == self { narrow.to_bits() } else { folded }
    }

    #[inline(always)]
    fn wide_pattern(self) -> u64 {
        let narrow = (self + 0.0) as f32;
        if f64::from(narrow) == self { u64::from(narrow.to_bits()) } else { self.to_bits() }
    }

    #[inline(always)]
    fn order_key(self) -> u64 {
        let bits = (self + 0.0).to_bits();
        if bits >> 63 == 0 { bits | (1 << 63) } else { !bits }
    }

    type Key = u128;
    const MARGIN: f64 = 1e-11;

    #[inline(always)]
    fn key(logit: Self, label: u32) -> u128 {
        (u128::from(!logit.order_key()) << 32) | u128::from(label)
    }

    #[inline(always)]
    fn from_key(key: u128) -> (u32, Self) {
        let bits = !((key >> 32) as u64);
        (key as u32, f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }))
    }

    #[inline(always)]
    fn exp2(depth: Self, scale: Self) -> Self {
        exp2::wide(depth, scale)
    }

    #[inline(always)]
    fn exp2_in_lanes(depth: Self, scale: Self) -> Self {
        exp2::wide_in_lanes(depth, scale)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        f64::mul_add(self, factor, term)
    }

    #[inline(always)]
    fn over(self, divisor: Self) -> Self {
        self / divisor
    }

    #[inline(always)]
    fn ceil(self) -> Self {
        f64::ceil(self)
    }

    #[inline(always)]
    fn power_of_two(exponent: i32) -> Self {
        f64::from_bits(((exponent.clamp(-1022, 1023) + 1023) as u64) << 52)
    }

    #[inline(always)]
    fn accumulate(value: Self, high: &mut u64, low: &mut u64) {
        let anchored = value + ANCHOR;
        let rest = value - (anchored - ANCHOR);
        *high = high.wrapping_add(anchored.to_bits());
        *low = low.wrapping_add((rest + LOW_ANCHOR).to_bits());
    }

    #[inline(always)]
    fn words(value: Self) -> (u64, u64) {
        let anchored = value + ANCHOR;
        let rest = value - (anchored - ANCHOR);
        let low = (rest + LOW_ANCHOR).to_bits().wrapping_sub(LOW_ANCHOR.to_bits());
        (anchored.to_bits().wrapping_sub(ANCHOR.to_bits()), low)
    }

    #[inline(always)]
    fn coarse_words(value: Self) -> (u64, u64) {
        let anchored = value + ANCHOR;
        let rest = value - (anchored - ANCHOR);
        let low = (rest + COARSE_LOW_ANCHOR).to_bits().wrapping_sub(COARSE_LOW_ANCHOR.to_bits());
        (anchored.to_bits().wrapping_sub(ANCHOR.to_bits()), low << WIDE_COARSE_BITS)
    }

    #[inline(always)]
    fn without_anchors(high: u64, low: u64, count: u64) -> (u64, u64) {
        let high = high.wrapping_sub(count.wrapping_mul(ANCHOR.to_bits()));
        (high, low.wrapping_sub(count.wrapping_mul(LOW_ANCHOR.to_bits())))
    }

    #[inline(always)]
    fn collect((high, low): (u64, u64)) -> i128 {
        (i128::from(high) << LOW_BITS) + i128::from(low as i64)
    }

    #[inline(always)]
    fn sum_to_f64(quanta: i128) -> f64 {
        // Two words and one rounding each: the library's conversion of 128 bits is a call.
        let (high, low) = ((quanta >> 64) as i64, quanta as u64);
        (high as f64).mul_add(18_446_744_073_709_551_616.0, low as f64) * Self::QUANTUM
    }

    #[inline(always)]
    fn words_to_f64(words: (u64, u64)) -> f64 {
        Self::sum_to_f64(Self::collect(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deepest_adds_nothing() {
        fn check<F: Float>(scale: F) {
            let (mut high, mut low) = (0, 0);
            F::accumulate(F::exp2(F::DEEPEST.over(scale), scale), &mut high, &mut low);
            assert_eq!(F::without_anchors(high, low, 1), (0, 0));
            assert_eq!(F::coarse_words(F::exp2(F::DEEPEST_COARSE.over(scale), scale)), (0, 0));
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
