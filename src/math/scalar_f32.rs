//! The operations of f32: see [`Scalar`].

use super::exp2::{exp2_f32, exp2_in_lanes_f32};
use super::scalar::{ANCHOR, COARSE_ANCHOR, COARSE_BITS, Grain, QUANTUM_HIGH, Scalar};

impl Scalar for f32 {
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
    const COARSE_BITS: u32 = COARSE_BITS;
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
        exp2_f32(depth, scale)
    }

    #[inline(always)]
    fn exp2_in_lanes(depth: Self, scale: Self) -> Self {
        exp2_in_lanes_f32(depth, scale)
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
    fn quanta(term: Self, grain: Grain) -> i128 {
        let (anchor, bits) = match grain {
            Grain::Fine => (ANCHOR, 0),
            Grain::Coarse => (COARSE_ANCHOR, COARSE_BITS),
        };
        i128::from((f64::from(term) + anchor).to_bits().wrapping_sub(anchor.to_bits())) << bits
    }

    #[inline(always)]
    fn sum_to_f64(quanta: i128) -> f64 {
        // Below 2^13 labels the sum always fits 64 bits, whose conversion is one instruction.
        if quanta >> 64 == 0 { quanta as u64 as f64 * Self::QUANTUM } else { large_sum(quanta) }
    }
}

/// Out of line, or the compiler takes the call for every sum.
#[cold]
#[inline(never)]
fn large_sum(quanta: i128) -> f64 {
    quanta as f64 * f32::QUANTUM
}
