//! The float32 kernels along a row over explicit vectors: the algorithm once, for any instruction set.
//!
//! The compiler turns the plain loops of `sum.rs` into vector code, but carries each group of terms through
//! memory between the exponential, in float32, and the sums, in 64-bit integers, takes exponentials apart
//! lane by lane and counts ranks partly so. Written out, everything stays in registers. Every operation is
//! the one that the plain form names, on the same values, so the bits are the same.
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use super::double::Double;
use crate::exp2::{OFFSET_F32, PARABOLA_F32, ROUND_F32};
use crate::ranked_masses::FEW_TERMS;
use crate::sum::deepest;

/// A vector of float32, with the operations that the kernels need and no more.
///
/// # Safety
/// The methods use the instruction set of the implementation: it must be available. They are inlined into
/// functions compiled for it. Pointers must be good for `LANES` values; no alignment is asked for.
pub(super) trait Vector: Copy {
    /// The vector of float64 of the same instruction set.
    type Double: Double;
    /// A choice for each lane.
    type Mask: Copy;
    /// Exact sums in 64-bit integers, one for each lane.
    type Sums: Copy;
    /// The same in 32-bit parts; see [`sum_block`].
    type Parts: Copy;
    /// Sums in float64, one for each lane.
    type Wide: Copy;
    /// Sums of 32-bit integers, one for each lane.
    type Counts: Copy;
    /// Such sums in 64 bits.
    type LongCounts: Copy;
    const LANES: usize;
    /// What terms are multiplied by before `accumulate`, a power of two.
    const UNIT: f32;

    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// The first `count` values, fewer than `LANES`, and `-inf` in the other lanes.
    unsafe fn load_part(from: *const f32, count: usize) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * factor + term`, fused.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// `term - self * factor`, fused.
    unsafe fn neg_mul_add(self, factor: Self, term: Self) -> Self;
    /// [`crate::Float::larger`]: the second of the two when either is NaN.
    unsafe fn larger(self, other: Self) -> Self;
    /// [`crate::Float::smaller`].
    unsafe fn smaller(self, other: Self) -> Self;
    /// The smaller of the patterns as unsigned integers.
    unsafe fn smaller_pattern(self, other: Self) -> Self;
    unsafe fn greater(self, other: Self) -> Self::Mask;
    unsafe fn greater_or_equal(self, other: Self) -> Self::Mask;
    /// `yes` where the mask is set, `no` elsewhere.
    unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// The first `count` lanes, and 0 in the others.
    unsafe fn keep(self, count: usize) -> Self;
    /// Writes the lanes in which the mask is set side by side. As many values as lanes may be written.
    unsafe fn compress(self, mask: Self::Mask, to: *mut f32);
    /// The same of labels: lane i has label `start + i`.
    unsafe fn compress_labels(mask: Self::Mask, start: u32, to: *mut u32);
    /// A bit for each lane, the first lowest.
    unsafe fn bits(mask: Self::Mask) -> u32;
    /// Lanes in which the mask is set.
    #[inline(always)]
    unsafe fn count(mask: Self::Mask) -> u32 {
        // SAFETY: as the caller vouches.
        unsafe { Self::bits(mask).count_ones() }
    }
    /// The lanes with halves of `2 STEP` lanes swapped, for a STEP of 1, 2, 4 or 8, below `LANES`.
    unsafe fn swapped<const STEP: usize>(self) -> Self;
    /// The first lane.
    unsafe fn first(self) -> f32;
    /// Two to the sixteenths that a sum with [`ROUND_F32`] has in its low bits, in `unit`s, a power of two.
    unsafe fn power(shifted: Self, unit: f32) -> Self;
    unsafe fn no_sums() -> Self::Sums;
    /// Adds terms, in units of `UNIT`, as [`crate::Float::accumulate`] does.
    unsafe fn accumulate(self, sums: Self::Sums) -> Self::Sums;
    /// The sum of the words of all lanes, each of which took `taken` values.
    unsafe fn total(sums: Self::Sums, taken: usize) -> i128;
    /// The words of each lane, each of which took `taken` values.
    unsafe fn store_sums(sums: Self::Sums, taken: usize, to: *mut u64);
    unsafe fn no_parts() -> Self::Parts;
    /// Adds terms in quanta to the parts.
    unsafe fn add_parts(self, parts: Self::Parts) -> Self::Parts;
    /// Empties the lower parts into wider ones.
    unsafe fn settle(parts: Self::Parts) -> Self::Parts;
    /// The sum of all lanes, settled, each of which took `taken` values, fewer than [`TERMS_PER_PART`].
    unsafe fn total_of_parts(parts: Self::Parts, taken: usize) -> i128;
    unsafe fn no_wide() -> Self::Wide;
    unsafe fn widen(self, sums: Self::Wide) -> Self::Wide;
    unsafe fn store_wide(sums: Self::Wide, to: *mut f64);
    unsafe fn no_counts() -> Self::Counts;
    /// Adds the bits of each lane, wrapping.
    unsafe fn add_bits(self, sums: Self::Counts) -> Self::Counts;
    /// Adds 1 where the mask is set.
    unsafe fn add_mask(mask: Self::Mask, counts: Self::Counts) -> Self::Counts;
    unsafe fn store_counts(counts: Self::Counts, to: *mut u32);
    /// Adds the lanes rounded to whole numbers, to even ones at ties.
    unsafe fn add_rounded(self, counts: Self::Counts) -> Self::Counts;
    /// The same where the mask is set.
    unsafe fn add_rounded_where(self, mask: Self::Mask, counts: Self::Counts) -> Self::Counts;
    unsafe fn no_long_counts() -> Self::LongCounts;
    unsafe fn lengthen(counts: Self::Counts, sums: Self::LongCounts) -> Self::LongCounts;
    unsafe fn total_count(sums: Self::LongCounts) -> u64;
    unsafe fn store_long_counts(sums: Self::LongCounts, to: *mut u64);
    /// The sums less others.
    unsafe fn minus(sums: Self::LongCounts, others: Self::LongCounts) -> Self::LongCounts;
    /// Four columns of as many rows as there are lanes, from label `first` on; each row must have so many.
    unsafe fn four_columns(rows: &[&[f32]], first: usize) -> [Self; 4];
    /// Turns the first `LANES` vectors, as rows of a square, into its columns.
    unsafe fn transpose(rows: [Self; 16]) -> [Self; 16];
}

/// Terms that a lane takes before its sum must be emptied; see [`crate::sum`].
const TERMS_PER_LANE: usize = 4096;

/// Where the deepest terms are less than this below the shift, most labels of a long row have nothing to add,
/// and vectors of such are passed over.
const SHALLOW: f32 = 10.0;

/// [`crate::sum::Depths::of`], with a shift that is not `-0.0`: the difference is then not `-0.0` either.
#[inline(always)]
pub(super) unsafe fn depth<V: Vector>(z: V, shift: V, bottom: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { shift.sub(z).smaller_pattern(bottom) }
}

/// [`crate::Float::exp2`], in `unit`s.
#[inline(always)]
pub(super) unsafe fn exp2<V: Vector>(depth: V, scale: V, unit: f32) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let round = V::splat(ROUND_F32);
        let shifted = depth.neg_mul_add(scale, round);
        let g = depth.neg_mul_add(scale, V::splat(OFFSET_F32).sub(shifted));
        V::power(shifted, unit).mul(g.mul_add(g, V::splat(PARABOLA_F32)))
    }
}

/// [`exp2`] of a term that is rounded next: a subtraction less, as conversions compete with those, and a multiply-add more.
/// `one` comes from [`hidden_one`].
#[inline(always)]
pub(super) unsafe fn exp2_to_round<V: Vector>(depth: V, scale: V, unit: f32, one: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let shifted = depth.neg_mul_add(scale, V::splat(ROUND_F32));
        let g = depth.neg_mul_add(scale, shifted.neg_mul_add(one, V::splat(OFFSET_F32)));
        V::power(shifted, unit).mul(g.mul_add(g, V::splat(PARABOLA_F32)))
    }
}

/// 1, which the compiler does not know: a multiply-add with it stays one, where a processor has more room for those than for
/// additions.
#[inline(always)]
pub(super) unsafe fn hidden_one<V: Vector>() -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { V::splat(std::hint::black_box(1.0)) }
}

/// A row in vectors, the last filled up with `-inf`.
pub(super) struct Vectors<'a> {
    pub(super) row: &'a [f32],
}

impl Vectors<'_> {
    pub(super) fn count<V: Vector>(&self) -> usize {
        self.row.len().div_ceil(V::LANES)
    }

    /// Vector i.
    #[inline(always)]
    pub(super) unsafe fn get<V: Vector>(&self, i: usize) -> V {
        let start = i * V::LANES;
        // SAFETY: as many values as are left lie inside the row. The caller vouches for the instruction set.
        unsafe {
            let from = self.row.as_ptr().add(start);
            if start + V::LANES <= self.row.len() {
                V::load(from)
            } else {
                V::load_part(from, self.row.len() - start)
            }
        }
    }
}

/// The unit of terms that are summed in parts: the quantum.
pub(super) const QUANTA: f32 = (1_u64 << 51) as f32;
/// Quanta in a unit of the upper parts.
pub(super) const UPPER_BITS: u32 = 28;
/// Terms of which an upper part, of at most 2^23 each, holds fewer.
pub(super) const TERMS_PER_PART: usize = 512;
/// Vectors whose terms are found together, while those of the vectors before are added up: a term takes long
/// to find, and the processor does not look far enough ahead to fill the time by itself.
const TOGETHER: usize = 4;
/// Vectors after which lower parts are emptied; with [`TOGETHER`] a divisor, and at most 15.
const SETTLED: usize = 12;

/// `sum_terms`.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum_terms<V: Vector>(row: &[f32], shift: f32, scale: f32) -> i128 {
    let mut total = 0;
    for block in row.chunks(V::LANES * (TERMS_PER_PART - 2 * TOGETHER)) {
        // SAFETY: as the caller vouches.
        total += unsafe {
            if deepest(scale) < SHALLOW {
                sum_shallow::<V>(block, shift, scale)
            } else {
                sum_block::<V>(block, shift, scale)
            }
        };
    }
    total
}

/// The sum over so few labels that no part overflows.
///
/// A term of e quanta, up to 2^51, is rounded to a multiple of 2^28 by adding 2^51 to it, which leaves the
/// multiple in the low bits of the sum's pattern, and what that leaves, at most 2^27 and a float32 again, is
/// rounded to whole quanta. That is e rounded to whole quanta, since the multiple is even. Both parts are
/// added up as integers of 32 bits: more operations than to convert e to 64 bits, but each on whole vectors,
/// and none of them moves lanes. With terms found together that is 11 cycles for 16 labels on Zen 4, not 13.
#[inline(always)]
unsafe fn sum_block<V: Vector>(block: &[f32], shift: f32, scale: f32) -> i128 {
    let vectors = Vectors { row: block };
    let (count, runs) = (vectors.count::<V>(), block.len() / V::LANES / SETTLED);
    // SAFETY: as the caller vouches; whole vectors lie inside the row.
    unsafe {
        let (shift, bottom, scale) = (V::splat(shift + 0.0), V::splat(deepest(scale)), V::splat(scale));
        let (mut parts, mut terms) = (V::no_parts(), [V::splat(0.0); TOGETHER]);
        for run in 0..runs {
            let from = block.as_ptr().add(run * SETTLED * V::LANES);
            for step in 0..SETTLED / TOGETHER {
                for term in terms {
                    parts = term.add_parts(parts);
                }
                for (i, term) in terms.iter_mut().enumerate() {
                    let z = V::load(from.add((step * TOGETHER + i) * V::LANES));
                    *term = exp2(depth(z, shift, bottom), scale, QUANTA);
                }
            }
            parts = V::settle(parts);
        }
        for term in terms {
            parts = term.add_parts(parts);
        }
        parts = V::settle(parts);
        for i in runs * SETTLED..count {
            parts = exp2(depth(vectors.get::<V>(i), shift, bottom), scale, QUANTA).add_parts(parts);
        }
        // The first terms of all, 0, were added too.
        V::total_of_parts(V::settle(parts), count + TOGETHER)
    }
}

/// The same where most vectors have nothing to add, and are passed over.
#[inline(always)]
unsafe fn sum_shallow<V: Vector>(block: &[f32], shift: f32, scale: f32) -> i128 {
    let vectors = Vectors { row: block };
    let count = vectors.count::<V>();
    // SAFETY: as the caller vouches.
    unsafe {
        let (shift, bottom, scale) = (V::splat(shift + 0.0), V::splat(deepest(scale)), V::splat(scale));
        let (mut parts, mut taken) = (V::no_parts(), 0);
        for start in (0..count).step_by(SETTLED) {
            for i in start..count.min(start + SETTLED) {
                let d = depth(vectors.get::<V>(i), shift, bottom);
                if V::count(bottom.greater(d)) > 0 {
                    parts = exp2(d, scale, QUANTA).add_parts(parts);
                    taken += 1;
                }
            }
            parts = V::settle(parts);
        }
        V::total_of_parts(parts, taken)
    }
}

/// The terms of a row of few labels, and their sum in quanta.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn few_terms<V: Vector>(row: &[f32], shift: f32, scale: f32) -> ([f32; FEW_TERMS], i128) {
    assert!(row.len() <= FEW_TERMS, "few labels");
    let vectors = Vectors { row };
    let count = vectors.count::<V>();
    let mut terms = [0.0; FEW_TERMS];
    // SAFETY: FEW_TERMS is a whole number of vectors, none of them beyond the last of the row; the caller
    // vouches for the instruction set.
    unsafe {
        let (shift, bottom, scale) = (V::splat(shift + 0.0), V::splat(deepest(scale)), V::splat(scale));
        let (one, zero) = (V::splat(1.0 / V::UNIT), V::splat(0.0));
        let mut sums = V::no_sums();
        for i in 0..count {
            let e = exp2(depth(vectors.get::<V>(i), shift, bottom), scale, V::UNIT);
            sums = e.accumulate(sums);
            // By a power of two, hence exactly.
            e.mul_add(one, zero).store(terms.as_mut_ptr().add(i * V::LANES));
        }
        (terms, V::total(sums, count))
    }
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
        let vectors = Vectors { row: block };
        let count = vectors.count::<V>();
        // SAFETY: as the caller vouches.
        unsafe {
            let (y, zero, bottom) = (V::splat(y), V::splat(0.0), V::splat(deepest(scale)));
            let (max, shift, scale) = (V::splat(max + 0.0), V::splat(shift + 0.0), V::splat(scale));
            let (mut uppers, mut all) = (V::no_sums(), V::no_sums());
            let mut with_upper = 0;
            for i in 0..count {
                let z = vectors.get::<V>(i);
                let above = if LEFT { z.greater_or_equal(y) } else { z.greater(y) };
                let e = exp2(depth(z, V::select(above, max, shift), bottom), scale, V::UNIT);
                all = e.accumulate(all);
                // Few labels rank before one that is worth scoring.
                if V::count(above) > 0 {
                    uppers = V::select(above, e, zero).accumulate(uppers);
                    with_upper += 1;
                }
            }
            let above = V::total(uppers, with_upper);
            upper += above;
            lower += V::total(all, count) - above;
        }
    }
    (upper, lower)
}
