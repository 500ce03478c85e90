//! How are terms added up exactly, in vectors? In integers of quanta: [`crate::math::Grain`] says which.
//!
//! | sum | a term becomes | where it is added |
//! |---|---|---|
//! | float32, coarse | a 32-bit integer | 32-bit lanes, emptied into 64 bits after seven |
//! | float32, fine | a multiple of 2^28 quanta, and the rest | two 32-bit lanes, the second emptied after fourteen |
//! | float64, coarse | a 64-bit integer | 64-bit lanes |
//! | float64, fine | a multiple of 2^48 quanta, and the rest | two 64-bit lanes |
//!
//! A fine float32 term of e quanta, up to 2^51, is rounded to a multiple of 2^28 by adding 2^51 to it, which
//! leaves the multiple in the low bits of the sum's pattern. What that leaves, at most 2^27 and a float32
//! again, is rounded to whole quanta. Together that is e rounded to whole quanta, since the multiple is even.
//! It takes more operations than converting e to 64 bits, but each is on whole vectors, and none moves lanes:
//! 11 cycles for 16 labels on Zen 4, not 13.

use fearless_simd::{f64x8, i32x16, prelude::*, u32x16, u64x8};

use super::{Float, V};
use crate::math::{ANCHOR, COARSE, COARSE_BITS, LOW_ANCHOR, LOW_BITS, Scalar, WIDE_COARSE_BITS, WIDTH};
use crate::simd::{Lanes, Simd};

/// An exact sum in each of sixteen lanes.
pub trait Sum<F: Float, S: Simd>: Copy {
    /// What a term is multiplied by before it is added: a power of two.
    const UNIT: F;
    /// Vectors that a sum may take.
    const MOST: usize;

    /// Nothing.
    fn new(s: S) -> Self;
    /// Adds terms; at most [`RUN`] between two calls of `settle`.
    fn add(&mut self, term: V<F, S>);
    /// Adds the terms where the mask is set.
    fn add_where(&mut self, term: V<F, S>, mask: <V<F, S> as Lanes<S>>::Mask);
    /// Empties narrow lanes into wide ones before they are full.
    fn settle(&mut self);
    /// The sum of each lane, in quanta.
    fn lanes(self) -> [i128; WIDTH];
    /// The sum of all lanes, in quanta.
    fn total(self) -> i128;
}

/// A sum in coarse quanta, of at most 128 terms in a lane, or [`MOST_COARSE`](crate::math::MOST_COARSE) in
/// all.
pub trait CoarseSum<F: Float, S: Simd>: Sum<F, S> {
    /// The sum of each lane, in coarse quanta.
    fn words(self) -> [u64x8<S>; 2];
    /// Such sums in float64, as [`Scalar::sum_to_f64`](crate::math::Scalar::sum_to_f64) gives them.
    fn to_f64(words: [u64x8<S>; 2]) -> [f64x8<S>; 2];
}

/// Vectors that narrow lanes hold: of seven coarse terms, each at most [`COARSE`] or a rounding above it, 32
/// bits hold the sum.
pub(super) const RUN: usize = 7;

/// The unit of fine float32 terms: the quantum.
const QUANTA: f32 = (1_u64 << 51) as f32;
/// Quanta in a unit of the upper parts, as a power of two.
const UPPER_BITS: u32 = 28;

/// Coarse sums of float32.
#[derive(Clone, Copy, Debug)]
pub struct CoarseF32<S: Simd> {
    run: u32x16<S>,
    /// The sums of even lanes, with those of odd lanes on top of them, and the sums of odd lanes.
    even: u64x8<S>,
    odd: u64x8<S>,
}

impl<S: Simd> CoarseF32<S> {
    #[inline(always)]
    fn even(&self) -> u64x8<S> {
        self.even - (self.odd << 32)
    }
}

impl<S: Simd> Sum<f32, S> for CoarseF32<S> {
    const UNIT: f32 = COARSE;
    const MOST: usize = usize::MAX / WIDTH;

    #[inline(always)]
    fn new(s: S) -> Self {
        Self { run: u32x16::splat(s, 0), even: u64x8::splat(s, 0), odd: u64x8::splat(s, 0) }
    }

    #[inline(always)]
    fn add(&mut self, term: V<f32, S>) {
        self.run += term.token().round_u32(term);
    }

    #[inline(always)]
    fn add_where(&mut self, term: V<f32, S>, mask: <V<f32, S> as Lanes<S>>::Mask) {
        self.run += V::<f32, S>::keep(mask, term.token().round_u32(term));
    }

    #[inline(always)]
    fn settle(&mut self) {
        let wide: u64x8<S> = self.run.bitcast();
        self.even += wide;
        self.odd += wide >> 32;
        self.run = u32x16::splat(wide.token(), 0);
    }

    #[inline(always)]
    fn lanes(self) -> [i128; WIDTH] {
        lanes(self.words(), |word| i128::from(word) << COARSE_BITS)
    }

    #[inline(always)]
    fn total(self) -> i128 {
        i128::from((self.even() + self.odd).reduce_sum()) << COARSE_BITS
    }
}

impl<S: Simd> CoarseSum<f32, S> for CoarseF32<S> {
    #[inline(always)]
    fn words(self) -> [u64x8<S>; 2] {
        let even = self.even();
        [even.zip_low(self.odd), even.zip_high(self.odd)]
    }

    #[inline(always)]
    fn to_f64([low, high]: [u64x8<S>; 2]) -> [f64x8<S>; 2] {
        let per_quantum = 1.0 / f64::from(COARSE);
        [low.to_float::<f64x8<S>>() * per_quantum, high.to_float::<f64x8<S>>() * per_quantum]
    }
}

/// Fine sums of float32.
#[derive(Clone, Copy, Debug)]
pub struct FineF32<S: Simd> {
    upper: u32x16<S>,
    lower: u32x16<S>,
    wide: [u64x8<S>; 2],
    taken: u32,
    /// Terms in the lower parts.
    waiting: usize,
}

impl<S: Simd> FineF32<S> {
    /// Empties the lower parts.
    #[inline(always)]
    fn empty(&mut self) {
        let (low, high) = self.lower.bitcast::<i32x16<S>>().widen();
        self.wide = [self.wide[0] + low.bitcast::<u64x8<S>>(), self.wide[1] + high.bitcast::<u64x8<S>>()];
        self.lower = u32x16::splat(low.token(), 0);
        self.waiting = 0;
    }

    /// The sum of each lane, in quanta.
    #[inline(always)]
    fn words(mut self) -> [u64x8<S>; 2] {
        self.empty();
        let (low, high) = (self.upper - QUANTA.to_bits().wrapping_mul(self.taken)).widen();
        [(low << UPPER_BITS) + self.wide[0], (high << UPPER_BITS) + self.wide[1]]
    }
}

impl<S: Simd> Sum<f32, S> for FineF32<S> {
    const UNIT: f32 = QUANTA;
    // An upper part of at most 2^23 each, in 32 bits; and the sum of all lanes in 64.
    const MOST: usize = 72 * RUN;

    #[inline(always)]
    fn new(s: S) -> Self {
        let none = u32x16::splat(s, 0);
        Self { upper: none, lower: none, wide: [u64x8::splat(s, 0); 2], taken: 0, waiting: 0 }
    }

    #[inline(always)]
    fn add(&mut self, term: V<f32, S>) {
        let anchored = term + QUANTA;
        let rest = term - (anchored - QUANTA);
        self.upper += anchored.to_bits();
        self.lower += term.token().round_u32(rest);
        self.taken += 1;
        self.waiting += 1;
    }

    #[inline(always)]
    fn add_where(&mut self, term: V<f32, S>, mask: <V<f32, S> as Lanes<S>>::Mask) {
        self.add(<V<f32, S> as Lanes<S>>::select(mask, term, SimdBase::splat(term.token(), 0.0)));
    }

    #[inline(always)]
    fn settle(&mut self) {
        // At most 2^27 each, of either sign: 31 bits hold fifteen.
        if self.waiting > RUN {
            self.empty();
        }
    }

    #[inline(always)]
    fn lanes(self) -> [i128; WIDTH] {
        lanes(self.words(), i128::from)
    }

    #[inline(always)]
    fn total(self) -> i128 {
        let [low, high] = self.words();
        i128::from((low + high).reduce_sum())
    }
}

/// Coarse sums of float64.
#[derive(Clone, Copy, Debug)]
pub struct CoarseF64<S: Simd>([u64x8<S>; 2]);

impl<S: Simd> Sum<f64, S> for CoarseF64<S> {
    const UNIT: f64 = (1_u64 << 56) as f64;
    const MOST: usize = 128;

    #[inline(always)]
    fn new(s: S) -> Self {
        Self([u64x8::splat(s, 0); 2])
    }

    #[inline(always)]
    fn add(&mut self, term: V<f64, S>) {
        let [low, high] = term.widen();
        let s = low.token();
        self.0 = [self.0[0] + s.round_u64(low), self.0[1] + s.round_u64(high)];
    }

    #[inline(always)]
    fn add_where(&mut self, term: V<f64, S>, mask: <V<f64, S> as Lanes<S>>::Mask) {
        let [low, _] = term.widen();
        self.add(V::<f64, S>::select(mask, term, V::<f64, S>::splat(low.token(), 0.0)));
    }

    #[inline(always)]
    fn settle(&mut self) {}

    #[inline(always)]
    fn lanes(self) -> [i128; WIDTH] {
        lanes(self.0, |word| i128::from(word) << WIDE_COARSE_BITS)
    }

    #[inline(always)]
    fn total(self) -> i128 {
        // Two words: all lanes together may hold 2^66.
        let ([low, high], lowest) = (self.0, (1 << 32) - 1);
        let small = ((low & lowest) + (high & lowest)).reduce_sum();
        let large = ((low >> 32) + (high >> 32)).reduce_sum();
        (i128::from(small) + (i128::from(large) << 32)) << WIDE_COARSE_BITS
    }
}

impl<S: Simd> CoarseSum<f64, S> for CoarseF64<S> {
    #[inline(always)]
    fn words(self) -> [u64x8<S>; 2] {
        self.0
    }

    #[inline(always)]
    fn to_f64(words: [u64x8<S>; 2]) -> [f64x8<S>; 2] {
        // In two words of 64 bits of quanta, as for one sum.
        let mut sums = [f64x8::splat(words[0].token(), 0.0); 2];
        for i in 0..2 {
            let s = words[i].token();
            let high = (words[i] >> (64 - WIDE_COARSE_BITS)).to_float::<f64x8<S>>();
            let low = (words[i] << WIDE_COARSE_BITS).to_float::<f64x8<S>>();
            let of_high = f64x8::splat(s, 18_446_744_073_709_551_616.0);
            sums[i] = s.fma_f64(high, of_high, low) * f64::QUANTUM;
        }
        sums
    }
}

/// Fine sums of float64: high and low words, with anchors.
#[derive(Clone, Copy, Debug)]
pub struct FineF64<S: Simd> {
    high: [u64x8<S>; 2],
    low: [u64x8<S>; 2],
    taken: u64,
}

impl<S: Simd> Sum<f64, S> for FineF64<S> {
    const UNIT: f64 = 1.0;
    // A high word of at most 2^51 each, in 64 bits.
    const MOST: usize = 4096;

    #[inline(always)]
    fn new(s: S) -> Self {
        let none = [u64x8::splat(s, 0); 2];
        Self { high: none, low: none, taken: 0 }
    }

    #[inline(always)]
    fn add(&mut self, term: V<f64, S>) {
        let halves = term.widen();
        for i in 0..2 {
            let anchored = halves[i] + ANCHOR;
            let rest = halves[i] - (anchored - ANCHOR);
            self.high[i] += anchored.to_bits();
            self.low[i] += (rest + LOW_ANCHOR).to_bits();
        }
        self.taken += 1;
    }

    #[inline(always)]
    fn add_where(&mut self, term: V<f64, S>, mask: <V<f64, S> as Lanes<S>>::Mask) {
        let [low, _] = term.widen();
        self.add(V::<f64, S>::select(mask, term, V::<f64, S>::splat(low.token(), 0.0)));
    }

    #[inline(always)]
    fn settle(&mut self) {}

    #[inline(always)]
    fn lanes(self) -> [i128; WIDTH] {
        let anchors = [ANCHOR, LOW_ANCHOR].map(|anchor| anchor.to_bits().wrapping_mul(self.taken));
        let high = lanes(self.high, |word| i128::from(word.wrapping_sub(anchors[0])) << LOW_BITS);
        let low = lanes(self.low, |word| i128::from(word.wrapping_sub(anchors[1]) as i64));
        let mut sums = high;
        for i in 0..WIDTH {
            sums[i] += low[i];
        }
        sums
    }

    #[inline(always)]
    fn total(self) -> i128 {
        self.lanes().into_iter().sum()
    }
}

/// Sixteen words as sums.
#[inline(always)]
fn lanes<S: Simd>(words: [u64x8<S>; 2], sum: impl Fn(u64) -> i128) -> [i128; WIDTH] {
    let [low, high] = words.map(SimdBase::to_array);
    let mut sums = [0; WIDTH];
    for i in 0..8 {
        (sums[i], sums[8 + i]) = (sum(low[i]), sum(high[i]));
    }
    sums
}
