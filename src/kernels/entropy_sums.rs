//! What are the sums behind the entropy of a row?
//!
//! ```text
//! e = exp(z - shift),  d = shift - z      (nothing for a logit above the shift, the second largest logit)
//! exponentials = sum of e,  weighted = sum of e d
//! ```
//!
//! A row has one entropy, taken along its labels as they come. A fixed order is enough for equal bits, and costs half as
//! much as exact sums: label i belongs to lane `i % 16`, or to one lane where labels are few; a lane adds its terms in runs
//! of sixteen, the runs in float64; the lanes are added in halves.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

#[cfg(target_arch = "x86_64")]
use crate::math::deepest;
use crate::math::{BLOCK, Chunks, Depths, Scalar, WIDTH, WordSums, each_lane, term};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Lines, Vector};
use crate::simd::{Simd, vectorize};

#[cfg(target_arch = "x86_64")]
use super::terms::{depth, exp2};

/// Up to this many labels the sums behind entropy have one lane. Rows are then summed side by side (see
/// `tile.rs`), where a row has one lane by nature. Another number would change the bits of results.
pub(crate) const MOST_SIDE_BY_SIDE: usize = 128;
/// Terms that a lane adds in the computing type before it widens the sum: widening each would take a third of the time.
/// Fifteen roundings of float32 are at most 9e-7 of a sum, when all go one way; a term of its own is off by 1.04e-6.
pub(super) const RUN: usize = 16;

/// The sum of lanes, in halves.
#[inline(always)]
pub(crate) fn in_halves(lanes: [f64; WIDTH]) -> f64 {
    // Each in an array of its own: in one loop over the halves the compiler would add lane by lane.
    let lanes = each_lane!([0.0; 8], |i| lanes[i] + lanes[i + 8]);
    let lanes = each_lane!([0.0; 4], |i| lanes[i] + lanes[i + 4]);
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
}

/// The two sums, by plain loops.
#[inline(always)]
pub(super) fn portable<F: Scalar>(row: &[F], shift: F) -> (f64, f64) {
    if row.len() <= MOST_SIDE_BY_SIDE { few_portable(row, shift) } else { many_portable(row, shift) }
}

/// Sum of the squares of the exponentials, for Gini impurity; what lies above the shift counts as nothing.
#[inline(always)]
pub(crate) fn squares<S: Simd, F: Scalar>(s: S, row: &[F], shift: F) -> f64 {
    vectorize!(s, squares_portable(row, shift))
}

#[inline(always)]
fn many_portable<F: Scalar>(row: &[F], shift: F) -> (f64, f64) {
    let depths = Depths::new(F::LOG2_E);
    let (mut exponentials, mut weighted) = ([0.0; WIDTH], [0.0; WIDTH]);
    for run in row.chunks(WIDTH * RUN) {
        let (mut e_run, mut d_run) = ([F::ZERO; WIDTH], [F::ZERO; WIDTH]);
        let (whole, rest) = run.as_chunks::<WIDTH>();
        for chunk in whole {
            for lane in 0..WIDTH {
                let d = depths.of(chunk[lane], shift);
                let e = F::exp2(d, F::LOG2_E);
                e_run[lane] = e_run[lane] + e;
                d_run[lane] = e.mul_add(d, d_run[lane]);
            }
        }
        for (lane, &z) in rest.iter().enumerate() {
            let d = depths.of(z, shift);
            let e = F::exp2(d, F::LOG2_E);
            e_run[lane] = e_run[lane] + e;
            d_run[lane] = e.mul_add(d, d_run[lane]);
        }
        for lane in 0..WIDTH {
            exponentials[lane] += e_run[lane].to_f64();
            weighted[lane] += d_run[lane].to_f64();
        }
    }
    (in_halves(exponentials), in_halves(weighted))
}

#[inline(always)]
pub(super) fn few_portable<F: Scalar>(row: &[F], shift: F) -> (f64, f64) {
    let depths = Depths::new(F::LOG2_E);
    let (mut exponentials, mut weighted) = (0.0, 0.0);
    for run in row.chunks(RUN) {
        let (mut below, mut terms) = ([F::ZERO; RUN], [F::ZERO; RUN]);
        for (i, &z) in run.iter().enumerate() {
            below[i] = depths.of(z, shift);
            terms[i] = F::exp2(below[i], F::LOG2_E);
        }
        let (mut e_run, mut d_run) = (F::ZERO, F::ZERO);
        for i in 0..RUN {
            e_run = e_run + terms[i];
            d_run = terms[i].mul_add(below[i], d_run);
        }
        exponentials += e_run.to_f64();
        weighted += d_run.to_f64();
    }
    (exponentials, weighted)
}

#[inline(always)]
fn squares_portable<F: Scalar>(row: &[F], shift: F) -> f64 {
    let mut squares = 0;
    for block in row.chunks(BLOCK) {
        let mut lanes = WordSums::<WIDTH>::EMPTY;
        let chunks = Chunks::of(block);
        for i in 0..chunks.count {
            let chunk = chunks.get(i);
            for lane in 0..WIDTH {
                let e = term(chunk[lane], shift, F::LOG2_E);
                lanes.add(lane, e * e);
            }
        }
        squares += lanes.total::<F>(chunks.count);
    }
    F::sum_to_f64(squares)
}

/// [`portable`] over vectors; `lines` are asked for meanwhile.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn vectors<V: Vector>(row: &[f32], shift: f32, lines: impl Lines) -> (f64, f64) {
    if row.len() <= MOST_SIDE_BY_SIDE {
        return few_portable(row, shift);
    }
    let parts = WIDTH / V::LANES;
    let (mut exponentials, mut weighted) = ([0.0; WIDTH], [0.0; WIDTH]);
    // SAFETY: as the caller vouches.
    unsafe {
        let (shift, scale) = (V::splat(shift + 0.0), V::splat(f32::LOG2_E));
        let bottom = V::splat(deepest(f32::LOG2_E));
        for part in 0..parts {
            let (mut e_sums, mut d_sums) = (V::no_wide(), V::no_wide());
            for first in (0..row.len()).step_by(WIDTH * RUN) {
                let end = row.len().min(first + WIDTH * RUN);
                let (mut e_run, mut d_run) = (V::splat(0.0), V::splat(0.0));
                let mut start = first + part * V::LANES;
                while start + V::LANES <= end {
                    if part == 0 {
                        lines.fetch(start / WIDTH);
                    }
                    let d = depth(V::load(row.as_ptr().add(start)), shift, bottom);
                    let e = exp2(d, scale, 1.0);
                    e_run = e_run.add(e);
                    d_run = e.mul_add(d, d_run);
                    start += WIDTH;
                }
                if part == 0 && end == row.len() {
                    lines.fetch_end(row.len() / WIDTH, size_of_val(row));
                }
                if start < end {
                    let d = depth(V::load_part(row.as_ptr().add(start), end - start), shift, bottom);
                    let e = exp2(d, scale, 1.0).keep(end - start);
                    e_run = e_run.add(e);
                    d_run = e.mul_add(d, d_run);
                }
                e_sums = e_run.widen(e_sums);
                d_sums = d_run.widen(d_sums);
            }
            V::store_wide(e_sums, exponentials.as_mut_ptr().add(part * V::LANES));
            V::store_wide(d_sums, weighted.as_mut_ptr().add(part * V::LANES));
        }
    }
    (in_halves(exponentials), in_halves(weighted))
}
