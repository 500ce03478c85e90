//! How are the terms of a row summed exactly?
//!
//! ```text
//! sum:    for each logit z:  sum += quanta(z, shift)
//! split:  for each logit z:  if z ranks before y { above += quanta(z, max) } else { below += quanta(z, shift) }
//! ```
//!
//! [`crate::math::Grain`] says what quanta are. Over vectors, sums in coarse quanta stand in `coarse_sums.rs`.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

use crate::math::{BLOCK, Chunks, Depths, Grain, Scalar, WIDTH, WordSums, each_lane, is_before, term, words};
#[cfg(target_arch = "x86_64")]
use crate::math::{TERMS_PER_LANE, deepest};
#[cfg(target_arch = "x86_64")]
use crate::simd::{QUANTA, TERMS_PER_PART, Vector};

#[cfg(target_arch = "x86_64")]
use super::terms::{Vectors, depth, exp2};

/// Up to this many labels, the terms of all are kept from the pass that sums them: whole vectors of them.
pub(crate) const FEW_TERMS: usize = 64;

/// The sum of the terms of all logits, in quanta.
#[inline(always)]
pub(super) fn portable<F: Scalar>(row: &[F], shift: F, scale: F, grain: Grain) -> i128 {
    match grain {
        Grain::Fine => fine_portable(row, shift, scale),
        Grain::Coarse => coarse_portable(row, shift, scale),
    }
}

/// The sums of a few logits relative to each of two shifts, in words.
#[inline(always)]
pub(super) fn few_portable<F: Scalar>(
    few: &[F; WIDTH],
    shifts: [F; 2],
    scale: F,
    grain: Grain,
) -> [(u64, u64); 2] {
    let (depths, mut sums) = (Depths::new(scale), WordSums::<2>::EMPTY);
    for (lane, shift) in shifts.into_iter().enumerate() {
        for &z in few {
            sums.add_words(lane, words(depths.term(z, shift), grain), true);
        }
    }
    [0, 1].map(|lane| (sums.high[lane], sums.low[lane]))
}

/// The terms of a row of few labels, added to `terms`, and their sum in fine quanta.
#[inline(always)]
pub(super) fn few_terms_portable<F: Scalar>(row: &[F], shift: F, scale: F, terms: &mut Vec<F>) -> i128 {
    let mut lanes = WordSums::<WIDTH>::EMPTY;
    let chunks = Chunks::of(row);
    for i in 0..chunks.count {
        let chunk = chunks.get(i);
        let of_chunk = each_lane!([F::ZERO; WIDTH], |lane| term(chunk[lane], shift, scale));
        for lane in 0..WIDTH {
            lanes.add(lane, of_chunk[lane]);
        }
        terms.extend_from_slice(&of_chunk);
    }
    lanes.total::<F>(chunks.count)
}

#[inline(always)]
fn fine_portable<F: Scalar>(row: &[F], shift: F, scale: F) -> i128 {
    let depths = Depths::new(scale);
    let mut sum = 0;
    for block in row.chunks(BLOCK) {
        let mut lanes = WordSums::<WIDTH>::EMPTY;
        let chunks = Chunks::of(block);
        for i in 0..chunks.count {
            let chunk = chunks.get(i);
            // In two loops: the compiler then keeps the whole chunk in registers.
            let mut terms = [F::ZERO; WIDTH];
            for lane in 0..WIDTH {
                terms[lane] = depths.term(chunk[lane], shift);
            }
            for lane in 0..WIDTH {
                lanes.add(lane, terms[lane]);
            }
        }
        sum += lanes.total::<F>(chunks.count);
    }
    sum
}

/// The sum over at most [`MOST_COARSE`] labels in coarse quanta.
#[inline(always)]
fn coarse_portable<F: Scalar>(row: &[F], shift: F, scale: F) -> i128 {
    let depths = Depths::new(scale);
    let mut lanes = WordSums::<WIDTH>::EMPTY;
    let chunks = Chunks::of(row);
    for i in 0..chunks.count {
        let chunk = chunks.get(i);
        let mut terms = [F::ZERO; WIDTH];
        for lane in 0..WIDTH {
            terms[lane] = depths.term(chunk[lane], shift);
        }
        for lane in 0..WIDTH {
            lanes.add_words(lane, F::coarse_words(terms[lane]), true);
        }
    }
    lanes.total::<F>(0)
}

#[inline(always)]
pub(super) fn split_portable<const LOWER: bool, F: Scalar>(
    part: &[F],
    y: F,
    [max, shift]: [F; 2],
    scale: F,
    grain: Grain,
) -> (i128, i128) {
    let depths = Depths::new(scale);
    let (mut upper, mut all) = (0, 0);
    for block in part.chunks(BLOCK) {
        let (mut upper_lanes, mut all_lanes) = (WordSums::<WIDTH>::EMPTY, WordSums::<WIDTH>::EMPTY);
        let chunks = Chunks::of(block);
        for i in 0..chunks.count {
            let chunk = chunks.get(i);
            let mut terms = [F::ZERO; WIDTH];
            for lane in 0..WIDTH {
                let reference = if is_before::<LOWER, F>(chunk[lane], y) { max } else { shift };
                terms[lane] = depths.term(chunk[lane], reference);
            }
            for lane in 0..WIDTH {
                let words = words(terms[lane], grain);
                upper_lanes.add_words(lane, words, is_before::<LOWER, F>(chunk[lane], y));
                all_lanes.add_words(lane, words, true);
            }
        }
        upper += upper_lanes.total::<F>(0);
        all += all_lanes.total::<F>(0);
    }
    (upper, all - upper)
}

/// Where the deepest terms are less than this below the shift, most labels of a long row have nothing to add,
/// and vectors of such are passed over.
#[cfg(target_arch = "x86_64")]
const SHALLOW: f32 = 10.0;

/// Vectors whose terms are found together, while those of the vectors before are added up: a term takes long
/// to find, and the processor does not look far enough ahead to fill the time by itself.
#[cfg(target_arch = "x86_64")]
const TOGETHER: usize = 4;
/// Vectors after which lower parts are emptied; with [`TOGETHER`] a divisor, and at most 15.
#[cfg(target_arch = "x86_64")]
const SETTLED: usize = 12;

/// [`portable`] in fine quanta over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn vectors<V: Vector>(row: &[f32], shift: f32, scale: f32) -> i128 {
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
#[cfg(target_arch = "x86_64")]
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

/// [`sum_block`] where most vectors have nothing to add, and are passed over.
#[cfg(target_arch = "x86_64")]
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

/// [`few_terms_portable`] over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn few_terms_vectors<V: Vector>(
    row: &[f32],
    shift: f32,
    scale: f32,
    to: &mut Vec<f32>,
) -> i128 {
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
        to.extend_from_slice(&terms[..row.len()]);
        V::total(sums, count)
    }
}

/// [`split_portable`] in fine quanta over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn split_vectors<V: Vector, const LOWER: bool>(
    part: &[f32],
    y: f32,
    [max, shift]: [f32; 2],
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
                let above = if LOWER { z.greater_or_equal(y) } else { z.greater(y) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Float;
    use crate::math::quanta;
    use crate::simd::for_each_level;
    use proptest::prelude::*;

    /// The plain definition: one term after another.
    fn naive<F: Float>(row: &[F], shift: F, scale: F, grain: Grain) -> i128 {
        row.iter().map(|&z| quanta(z, shift, scale, grain)).sum()
    }

    fn check<S: crate::simd::Simd, F: Float>(s: S, row: &[F], scale: F, grain: Grain) {
        let max = row.iter().fold(F::NEG_INFINITY, |m, &z| m.larger(z));
        let all = F::sum(s, row, max, scale, grain);
        assert_eq!(all, naive(row, max, scale, grain));
        let mut reversed = row.to_vec();
        reversed.reverse();
        assert_eq!(all, F::sum(s, &reversed, max, scale, grain));
        let cut = row[row.len() / 2];
        let (high, low): (Vec<F>, Vec<F>) = row.iter().partition(|z| **z > cut);
        let split = F::split::<S, false>(s, row, cut, [max, cut], scale, grain);
        assert_eq!(split, (naive(&high, max, scale, grain), naive(&low, cut, scale, grain)));
        let float: f64 = row.iter().map(|z| ((*z - max) * scale).to_f64().exp2()).sum();
        assert!((F::sum_to_f64(all) / float - 1.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn order_does_not_exist(row in prop::collection::vec(-40.0_f64..40.0, 1..300), scale in 0.01_f64..30.0) {
            let narrow: Vec<f32> = row.iter().map(|&z| z as f32).collect();
            for grain in [Grain::Fine, Grain::Coarse] {
                for_each_level!(s => {
                    check(s, &row, scale, grain);
                    check(s, &narrow, scale as f32, grain);
                });
            }
        }
    }

    #[test]
    fn long_rows_do_not_overflow_a_lane() {
        let row = vec![1.5_f32; 3 * BLOCK + 7];
        assert_eq!(f32::sum_to_f64(portable(&row, 1.5, 1.0, Grain::Fine)), row.len() as f64);
        let row = vec![1.5_f64; 3 * BLOCK + 7];
        assert_eq!(f64::sum_to_f64(portable(&row, 1.5, 1.0, Grain::Fine)), row.len() as f64);
    }

    #[test]
    fn values_no_row_should_hold_do_no_harm() {
        let row = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];
        assert_eq!(f64::sum_to_f64(portable(&row, 0.0, 1.0, Grain::Fine)), 1.0);
        let narrow = row.map(|z| z as f32);
        assert_eq!(f32::sum_to_f64(portable(&narrow, 0.0, 1.0, Grain::Fine)), 1.0);
    }
}
