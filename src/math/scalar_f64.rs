//! The operations of f64: see [`Scalar`].

use super::exp2::{exp2_f64, exp2_in_lanes_f64};
use super::scalar::{
    ANCHOR, COARSE_LOW_ANCHOR, Grain, LOW_ANCHOR, LOW_BITS, QUANTUM_HIGH, Scalar, WIDE_COARSE_BITS,
};

impl Scalar for f64 {
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
    const COARSE_BITS: u32 = WIDE_COARSE_BITS;
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
        exp2_f64(depth, scale)
    }

    #[inline(always)]
    fn exp2_in_lanes(depth: Self, scale: Self) -> Self {
        exp2_in_lanes_f64(depth, scale)
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
    fn quanta(term: Self, grain: Grain) -> i128 {
        let anchored = term + ANCHOR;
        let rest = term - (anchored - ANCHOR);
        let (anchor, bits) = match grain {
            Grain::Fine => (LOW_ANCHOR, 0),
            Grain::Coarse => (COARSE_LOW_ANCHOR, WIDE_COARSE_BITS),
        };
        let high = anchored.to_bits().wrapping_sub(ANCHOR.to_bits());
        let low = (rest + anchor).to_bits().wrapping_sub(anchor.to_bits()) << bits;
        (i128::from(high) << LOW_BITS) + i128::from(low as i64)
    }

    #[inline(always)]
    fn sum_to_f64(quanta: i128) -> f64 {
        // Two words and one rounding each: the library's conversion of 128 bits is a call.
        let (high, low) = ((quanta >> 64) as i64, quanta as u64);
        (high as f64).mul_add(18_446_744_073_709_551_616.0, low as f64) * Self::QUANTUM
    }
}
