//! What is a fused multiply-add where the machine has none?
//!
//! ```text
//! in float64:  sum = a b + c             (the product is exact, the sum is rounded to 53 bits)
//! result:      sum rounded to float32    (right, unless sum lies just between two float32)
//! ```
//!
//! Rounding twice differs from rounding once only where the first rounding ends on a tie of the second. Such
//! ties are looked for, and all sixteen are then computed one by one, by the standard library. Results below
//! the normal numbers have ties elsewhere; they count as suspects too.
//!
//! The crate's own form, a hundred instructions each, took more than twice as long.

use fearless_simd::{f32x16, f64x8, prelude::*, u32x16};

use crate::math::WIDTH;

/// What float64 has below the last bit of float32, and what it is at a tie.
const LOW_BITS: u64 = (1 << 29) - 1;
const TIE: u64 = 1 << 28;

/// `a b + c`, rounded once.
#[cfg_attr(debug_assertions, inline(never))] // or tests take minutes longer to compile
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn fma_f32<S: Simd>(s: S, a: f32x16<S>, b: f32x16<S>, c: f32x16<S>) -> f32x16<S> {
    let ((a0, a1), (b0, b1), (c0, c1)) = (a.widen(), b.widen(), c.widen());
    let (low, high) = (a0 * b0 + c0, a1 * b1 + c1);
    let sum = low.narrow(high);
    if is_suspect(s, low, high) { one_by_one(s, a, b, c) } else { sum }
}

/// Whether any sum, rounded to float32, may be rounded wrongly.
#[inline(always)]
fn is_suspect<S: Simd>(s: S, low: f64x8<S>, high: f64x8<S>) -> bool {
    // Words of 32 bits: half of them are those that may be a tie; no other one is like it, as its bits are
    // masked out.
    let odd = |x: f64x8<S>| -> u32x16<S> { (x.to_bits() & LOW_BITS).bitcast() };
    let tie = u32x16::splat(s, TIE as u32);
    let at_tie = odd(low).simd_eq(tie) | odd(high).simd_eq(tie);
    // Not subnormal, nor near it: the exponent is far up, or the number is zero.
    let small = |x: f64x8<S>| {
        let size = x.abs();
        size.simd_lt(f64::from(f32::MIN_POSITIVE)) & size.simd_gt(0.0)
    };
    at_tie.any_true() | (small(low) | small(high)).any_true()
}

#[cold]
#[inline(never)]
fn one_by_one<S: Simd>(s: S, a: f32x16<S>, b: f32x16<S>, c: f32x16<S>) -> f32x16<S> {
    let (a, b, c) = (a.to_array(), b.to_array(), c.to_array());
    let mut sums = [0.0; WIDTH];
    for i in 0..WIDTH {
        sums[i] = a[i].mul_add(b[i], c[i]);
    }
    f32x16::load_array(s, sums)
}

/// `a b + c`, rounded once: one by one, by the standard library.
#[cfg_attr(debug_assertions, inline(never))] // or tests take minutes longer to compile
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn fma_f64<S: Simd>(s: S, a: f64x8<S>, b: f64x8<S>, c: f64x8<S>) -> f64x8<S> {
    let (a, b, c) = (a.to_array(), b.to_array(), c.to_array());
    let mut sums = [0.0; 8];
    for i in 0..8 {
        sums[i] = f64::mul_add(a[i], b[i], c[i]);
    }
    f64x8::load_array(s, sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn products_and_sums_are_rounded_once(
            a in prop::collection::vec(any::<u32>(), WIDTH),
            b in prop::collection::vec(any::<u32>(), WIDTH),
            c in prop::collection::vec(any::<u32>(), WIDTH),
            is_near in any::<bool>(),
        ) {
            let s = crate::simd::baseline();
            // Any numbers, and numbers of a like size.
            let float = |bits: &u32| f32::from_bits(if is_near { bits & 0x83ff_ffff | 0x3e00_0000 } else { *bits });
            let [a, b, c]: [[f32; WIDTH]; 3] = [a, b, c].map(|bits| std::array::from_fn(|i| float(&bits[i])));
            let [va, vb, vc] = [a, b, c].map(|x| f32x16::load_array(s, x));
            let found = fma_f32(s, va, vb, vc).to_array();
            for i in 0..WIDTH {
                let expected = a[i].mul_add(b[i], c[i]);
                assert!(found[i].to_bits() == expected.to_bits() || (found[i].is_nan() && expected.is_nan()));
            }
        }

        /// Sums that lie just beside the middle of two float32.
        #[test]
        fn ties_that_rounding_makes_are_found(mantissa in 0_u32..1 << 22, tiny in 1_u32..1 << 10, up in any::<bool>()) {
            let s = crate::simd::baseline();
            // c is odd in its last bit, a b half of that bit and a little.
            let c = 1.0 + mantissa as f32 / (1 << 23) as f32;
            let a = (1.0 + f32::EPSILON * tiny as f32) / (1 << 12) as f32;
            let b = (if up { 1.0 } else { 1.0 - f32::EPSILON / 2.0 }) / (1 << 12) as f32;
            let [va, vb, vc] = [a, b, c].map(|x| f32x16::splat(s, x));
            assert_eq!(fma_f32(s, va, vb, vc).to_array(), [a.mul_add(b, c); WIDTH]);
        }
    }
}
