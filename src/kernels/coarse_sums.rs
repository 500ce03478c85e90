//! How are the terms of a float32 row summed in coarse quanta?
//!
//! A term fits 32 bits, and a lane of 32 bits holds the sum of seven: terms are added in two operations, which the
//! exponential's multiply-adds leave room for, and the lanes are emptied into 64 bits after every seventh.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

use super::terms::{Vectors, depth, exp2, exp2_to_round, hidden_one};
use crate::math::{COARSE, COARSE_BITS, Scalar, WIDTH};
use crate::simd::{ColumnLines, Lines, Vector};

/// Terms of which a 32-bit lane holds so many, each at most [`COARSE`], or a rounding above it.
pub(super) const COARSE_RUN: usize = 7;

/// [`sums::portable`](super::sums::portable) in coarse quanta.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum<V: Vector>(row: &[f32], shift: f32, scale: f32) -> u64 {
    // SAFETY: as the caller vouches.
    unsafe { sum_fetching::<V>(row, shift, scale, None) }
}

/// [`sum`], with columns to ask for.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sum_fetching<V: Vector>(
    row: &[f32],
    shift: f32,
    scale: f32,
    lines: Option<ColumnLines>,
) -> u64 {
    // One for about every other line of the row, as it is while rows are scanned.
    let lines_of_run = (COARSE_RUN * V::LANES).div_ceil(2 * WIDTH);
    let vectors = Vectors { row };
    let (count, runs) = (vectors.count::<V>(), row.len() / V::LANES / COARSE_RUN);
    // SAFETY: as the caller vouches; whole vectors lie inside the row.
    unsafe {
        let (shift, bottom) = (V::splat(shift + 0.0), V::splat(f32::DEEPEST_COARSE / scale));
        let scale = V::splat(scale);
        let one = hidden_one::<V>();
        let mut sums = V::no_long_counts();
        let first = row.as_ptr();
        if runs >= SAMPLED && is_shallow(first, shift, bottom) {
            if let Some(lines) = lines {
                lines.fetch_from(0);
            }
            // Most vectors have nothing to add, and are passed over.
            for start in (0..count).step_by(COARSE_RUN) {
                let mut counts = V::no_counts();
                for i in start..count.min(start + COARSE_RUN) {
                    let d = depth(vectors.get::<V>(i), shift, bottom);
                    if V::count(bottom.greater(d)) > 0 {
                        counts = exp2(d, scale, COARSE).add_rounded(counts);
                    }
                }
                sums = V::lengthen(counts, sums);
            }
            return V::total_count(sums);
        }
        for run in 0..runs {
            let from = first.add(run * COARSE_RUN * V::LANES);
            if let Some(lines) = lines {
                for line in run * lines_of_run..(run + 1) * lines_of_run {
                    Lines::fetch(lines, line);
                }
            }
            let mut counts = V::no_counts();
            for i in 0..COARSE_RUN {
                let z = V::load(from.add(i * V::LANES));
                counts = exp2_to_round(depth(z, shift, bottom), scale, COARSE, one).add_rounded(counts);
            }
            sums = V::lengthen(counts, sums);
        }
        if let Some(lines) = lines {
            lines.fetch_from(runs * lines_of_run);
        }
        let mut counts = V::no_counts();
        for i in runs * COARSE_RUN..count {
            let d = depth(vectors.get::<V>(i), shift, bottom);
            counts = exp2_to_round(d, scale, COARSE, one).add_rounded(counts);
        }
        V::total_count(V::lengthen(counts, sums))
    }
}

/// Rows of fewer runs are not worth a sample.
const SAMPLED: usize = 3;

/// Whether at most one vector of the first run has anything to add: the others will be like it.
#[inline(always)]
unsafe fn is_shallow<V: Vector>(first: *const f32, shift: V, bottom: V) -> bool {
    let mut deep = 0;
    // Of most rows the first two vectors tell.
    for part in [0..2, 2..COARSE_RUN] {
        for i in part {
            // SAFETY: a run is readable, as the caller vouches.
            let d = unsafe { depth(V::load(first.add(i * V::LANES)), shift, bottom) };
            // SAFETY: as above.
            deep += u32::from(unsafe { V::bits(bottom.greater(d)) } != 0);
        }
        if deep > 1 {
            return false;
        }
    }
    true
}

/// The sums of a few logits in coarse quanta, relative to each of two shifts, in words.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn sums_of_few<V: Vector>(
    few: &[f32; WIDTH],
    shifts: [f32; 2],
    scale: f32,
) -> [(u64, u64); 2] {
    // SAFETY: as the caller vouches.
    unsafe {
        let (bottom, scale) = (V::splat(f32::DEEPEST_COARSE / scale), V::splat(scale));
        shifts.map(|shift| {
            let (shift, mut counts) = (V::splat(shift + 0.0), V::no_counts());
            for start in (0..WIDTH).step_by(V::LANES) {
                let d = depth(V::load(few.as_ptr().add(start)), shift, bottom);
                counts = exp2(d, scale, COARSE).add_rounded(counts);
            }
            (V::total_count(V::lengthen(counts, V::no_long_counts())) << COARSE_BITS, 0)
        })
    }
}

/// [`sums::split_portable`](super::sums::split_portable) in coarse quanta.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn split<V: Vector, const LOWER: bool>(
    part: &[f32],
    y: f32,
    [max, shift]: [f32; 2],
    scale: f32,
) -> (i128, i128) {
    let vectors = Vectors { row: part };
    let count = vectors.count::<V>();
    // SAFETY: as the caller vouches.
    unsafe {
        let (y, bottom) = (V::splat(y), V::splat(f32::DEEPEST_COARSE / scale));
        let (max, shift, scale) = (V::splat(max + 0.0), V::splat(shift + 0.0), V::splat(scale));
        let (mut uppers, mut all) = (V::no_long_counts(), V::no_long_counts());
        for start in (0..count).step_by(COARSE_RUN) {
            let (mut upper_run, mut run) = (V::no_counts(), V::no_counts());
            for i in start..count.min(start + COARSE_RUN) {
                let z = vectors.get::<V>(i);
                let above = if LOWER { z.greater_or_equal(y) } else { z.greater(y) };
                let e = exp2(depth(z, V::select(above, max, shift), bottom), scale, COARSE);
                run = e.add_rounded(run);
                upper_run = e.add_rounded_where(above, upper_run);
            }
            all = V::lengthen(run, all);
            uppers = V::lengthen(upper_run, uppers);
        }
        let upper = V::total_count(uppers);
        let lower = V::total_count(all).wrapping_sub(upper);
        (i128::from(upper) << COARSE_BITS, i128::from(lower) << COARSE_BITS)
    }
}
