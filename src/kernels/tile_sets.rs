//! What are sets of a tile of rows cut by? Their first labels, and their terms in float64.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

#[cfg(target_arch = "x86_64")]
use crate::math::deepest;
use crate::math::{Depths, Scalar, each_lane};
#[cfg(target_arch = "x86_64")]
use crate::simd::Vector;

#[cfg(target_arch = "x86_64")]
use super::terms::{depth, exp2};
use super::{Column, Each, TILE, TileScan};

/// Labels of each row: the first with its largest logit, and the first and the second of those whose logits are at least
/// the second largest.
#[inline(always)]
pub(super) fn first_labels_portable<F: Scalar>(columns: &[Column<F>], scan: &TileScan<F>) -> [Each<u32>; 3] {
    let [mut top, mut first, mut next] = [[0; TILE]; 3];
    // From the last label on, so that the first ones stay.
    for (k, column) in (0..columns.len() as u32).zip(columns).rev() {
        for lane in 0..TILE {
            let z = column.0[lane];
            top[lane] = if z >= scan.max[lane] { k } else { top[lane] };
            let is_high = z >= scan.second[lane];
            next[lane] = if is_high { first[lane] } else { next[lane] };
            first[lane] = if is_high { k } else { first[lane] };
        }
    }
    [top, first, next]
}

/// The sums over all columns of the terms relative to `max`, in float64, label by label. The form of the exponential is the
/// one that turns into vector code: a sum and a single term have the same bits within a form, not across forms.
#[inline(always)]
pub(super) fn total_terms_portable<F: Scalar>(
    columns: &[Column<F>],
    max: &Each<F>,
    scale: &Each<F>,
    totals: &mut Each<f64>,
) {
    let depths = each_lane!([Depths::new(F::LOG2_E); TILE], |i| Depths::new(scale[i]));
    let mut sums = [0.0; TILE];
    for column in columns {
        for lane in 0..TILE {
            sums[lane] += depths[lane].term_in_lanes(column.0[lane], max[lane]).to_f64();
        }
    }
    *totals = sums;
}

/// [`first_labels_portable`] over vectors, which hold labels as bits.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn first_labels_vectors<V: Vector>(
    columns: &[Column<f32>],
    scan: &TileScan<f32>,
) -> [Each<u32>; 3] {
    let mut found = [[0.0_f32; TILE]; 3];
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: `lane + V::LANES` is at most TILE, which each array has. The caller vouches for the instruction set.
        unsafe {
            let max = V::load(scan.max.as_ptr().add(lane));
            let second = V::load(scan.second.as_ptr().add(lane));
            let none = V::splat(0.0);
            let (mut top, mut first, mut next) = (none, none, none);
            // From the last label on, so that the first ones stay.
            for (k, column) in columns.iter().enumerate().rev() {
                let (z, label) = (V::load(column.0.as_ptr().add(lane)), V::splat(f32::from_bits(k as u32)));
                top = V::select(z.greater_or_equal(max), label, top);
                let is_high = z.greater_or_equal(second);
                next = V::select(is_high, first, next);
                first = V::select(is_high, label, first);
            }
            for (labels, found) in [top, first, next].into_iter().zip(&mut found) {
                labels.store(found.as_mut_ptr().add(lane));
            }
        }
    }
    let [top, first, next] = found;
    [top, first, next].map(|bits| each_lane!([0; TILE], |i| bits[i].to_bits()))
}

/// [`total_terms_portable`] over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn total_terms_vectors<V: Vector>(
    columns: &[Column<f32>],
    max: &Each<f32>,
    scale: &Each<f32>,
    totals: &mut Each<f64>,
) {
    let mut bottom = [0.0; TILE];
    for i in 0..TILE {
        bottom[i] = deepest(scale[i]);
    }
    for lane in (0..TILE).step_by(V::LANES) {
        // SAFETY: as above.
        unsafe {
            let max = V::load(max.as_ptr().add(lane)).add(V::splat(0.0));
            let (scale, bottom) = (V::load(scale.as_ptr().add(lane)), V::load(bottom.as_ptr().add(lane)));
            let mut sums = V::no_wide();
            for column in columns {
                let d = depth(V::load(column.0.as_ptr().add(lane)), max, bottom);
                sums = exp2(d, scale, 1.0).widen(sums);
            }
            V::store_wide(sums, totals.as_mut_ptr().add(lane));
        }
    }
}
