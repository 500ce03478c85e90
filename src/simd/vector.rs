//! The float32 sums of [`crate::sum`], and the counting of ranks, over explicit vectors: the algorithm
//! once, for any instruction set.
//!
//! The compiler turns the plain loops of `sum.rs` into vector code, but carries each group of terms through
//! memory between the exponential, in float32, and the sums, in 64-bit integers, and counts ranks partly
//! lane by lane. Written out, everything stays in registers: scores of 20,000 x 1000 labels took 26.6 ms
//! instead of 30.4 with AVX-512, and 34.3 instead of 40.1 with AVX2. Every operation is the one that the
//! plain form names, on the same values, and the sums are exact, so the bits are the same.
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use crate::float::{EXP2_F32, Float};

/// A vector of float32, with the operations that the sums need and no more.
///
/// # Safety
/// The methods use the instruction set of the implementation: it must be available. They are inlined into
/// functions compiled for it.
pub(super) trait Vector: Copy {
    /// A choice for each lane.
    type Mask: Copy;
    /// Integer sums, several to a register.
    type Sums: Copy;
    const LANES: usize;

    unsafe fn splat(value: f32) -> Self;
    /// Reads `LANES` values, which must be readable; no alignment is asked for.
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * factor + term`, fused.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// [`Float::larger`]: the second of the two when either is NaN.
    unsafe fn larger(self, other: Self) -> Self;
    /// [`Float::smaller`].
    unsafe fn smaller(self, other: Self) -> Self;
    unsafe fn greater(self, other: Self) -> Self::Mask;
    unsafe fn greater_or_equal(self, other: Self) -> Self::Mask;
    /// `yes` where the mask is set, `no` elsewhere.
    unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Lanes in which the mask is set.
    unsafe fn count(mask: Self::Mask) -> u32;
    /// The largest lane, none of which is NaN.
    unsafe fn largest(self) -> f32;
    /// The bits of `self` plus the bits of `shifted` moved to the exponent.
    unsafe fn scale_by(self, shifted: Self) -> Self;
    unsafe fn no_sums() -> Self::Sums;
    /// [`Float::accumulate`] in every lane.
    unsafe fn accumulate(self, sums: Self::Sums) -> Self::Sums;
    /// The sum of the words of all lanes, each of which took `taken` values.
    unsafe fn total(sums: Self::Sums, taken: usize) -> i128;
}

/// Terms that a lane takes before its sum must be emptied; see [`crate::sum`].
const TERMS_PER_LANE: usize = 4096;

/// [`Float::exp2`].
#[inline(always)]
unsafe fn exp2<V: Vector>(t: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let round = V::splat(12_582_912.0);
        let shifted = t.add(round);
        let f = t.sub(shifted.sub(round));
        let [first, rest @ ..] = EXP2_F32;
        let mut p = V::splat(first);
        for c in rest {
            p = p.mul_add(f, V::splat(c));
        }
        p.scale_by(shifted)
    }
}

/// [`crate::sum::exponent`].
#[inline(always)]
unsafe fn exponent<V: Vector>(z: V, shift: V, scale: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let t = z.sub(shift).mul(scale);
        t.larger(V::splat(f32::EXPONENT_FLOOR)).smaller(V::splat(0.0))
    }
}

/// A row in vectors, the last filled up with `-inf`.
struct Vectors<'a> {
    row: &'a [f32],
    last: [f32; 16],
}

impl<'a> Vectors<'a> {
    #[inline(always)]
    fn of<V: Vector>(row: &'a [f32]) -> Self {
        let rest = row.len() % V::LANES;
        let mut last = [f32::NEG_INFINITY; 16];
        last[..rest].copy_from_slice(&row[row.len() - rest..]);
        Self { row, last }
    }

    /// Vector i.
    #[inline(always)]
    unsafe fn get<V: Vector>(&self, i: usize) -> V {
        let start = i * V::LANES;
        let whole = start + V::LANES <= self.row.len();
        // SAFETY: a whole vector lies inside the row; the last one, of at most 16 lanes, is `last`. The
        // caller vouches for the instruction set.
        unsafe { V::load(if whole { self.row.as_ptr().add(start) } else { self.last.as_ptr() }) }
    }
}

/// `sum_terms`.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum_terms<V: Vector>(row: &[f32], shift: f32, scale: f32) -> i128 {
    let mut total = 0;
    for block in row.chunks(V::LANES * TERMS_PER_LANE) {
        let vectors = Vectors::of::<V>(block);
        let count = block.len().div_ceil(V::LANES);
        // SAFETY: as the caller vouches.
        unsafe {
            let (shift, scale) = (V::splat(shift), V::splat(scale));
            let mut sums = V::no_sums();
            for i in 0..count {
                let e = exp2(exponent(vectors.get::<V>(i), shift, scale));
                sums = e.accumulate(sums);
            }
            total += V::total(sums, count);
        }
    }
    total
}

/// `split_terms`.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn split_terms<V: Vector, const LEFT: bool>(
    part: &[f32],
    y: f32,
    max: f32,
    shift: f32,
    scale: f32,
) -> (i128, i128) {
    let (mut upper, mut lower) = (0, 0);
    for block in part.chunks(V::LANES * TERMS_PER_LANE) {
        let vectors = Vectors::of::<V>(block);
        let count = block.len().div_ceil(V::LANES);
        // SAFETY: as the caller vouches.
        unsafe {
            let (y, zero) = (V::splat(y), V::splat(0.0));
            let (max, shift, scale) = (V::splat(max), V::splat(shift), V::splat(scale));
            let (mut uppers, mut lowers) = (V::no_sums(), V::no_sums());
            for i in 0..count {
                let z = vectors.get::<V>(i);
                let above = if LEFT { z.greater_or_equal(y) } else { z.greater(y) };
                let e = exp2(exponent(z, V::select(above, max, shift), scale));
                uppers = V::select(above, e, zero).accumulate(uppers);
                lowers = V::select(above, zero, e).accumulate(lowers);
            }
            upper += V::total(uppers, count);
            lower += V::total(lowers, count);
        }
    }
    (upper, lower)
}

/// The sums of exponentials and of their products with the exponents, for `unit_sums`.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn unit_sums<V: Vector>(row: &[f32], shift: f32) -> (i128, i128) {
    let (mut exponentials, mut weighted) = (0, 0);
    for block in row.chunks(V::LANES * TERMS_PER_LANE) {
        let vectors = Vectors::of::<V>(block);
        let count = block.len().div_ceil(V::LANES);
        // SAFETY: as the caller vouches.
        unsafe {
            let (shift, scale, zero) = (V::splat(shift), V::splat(f32::LOG2_E), V::splat(0.0));
            let (mut sums, mut products) = (V::no_sums(), V::no_sums());
            for i in 0..count {
                let t = exponent(vectors.get::<V>(i), shift, scale);
                let e = exp2(t);
                sums = e.accumulate(sums);
                products = e.mul(zero.sub(t)).accumulate(products);
            }
            exponentials += V::total(sums, count);
            weighted += V::total(products, count);
        }
    }
    (exponentials, weighted)
}

/// `count_and_next`.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn count_and_next<V: Vector, const LEFT: bool>(part: &[f32], y: f32) -> (usize, f32) {
    let vectors = Vectors::of::<V>(part);
    let n = part.len().div_ceil(V::LANES);
    // SAFETY: as the caller vouches.
    let (count, next) = unsafe {
        let (wanted, none) = (V::splat(y), V::splat(f32::NEG_INFINITY));
        let (mut count, mut next) = (0_usize, none);
        for i in 0..n {
            let z = vectors.get::<V>(i);
            let before = if LEFT { z.greater_or_equal(wanted) } else { z.greater(wanted) };
            count += V::count(before) as usize;
            next = next.larger(V::select(before, none, z));
        }
        (count, next.largest())
    };
    // The filling of the last vector ranks before no label but one that is -inf itself.
    let filling = if LEFT && y == f32::NEG_INFINITY { n * V::LANES - part.len() } else { 0 };
    (count - filling, next)
}
