//! What sets of a group of float32 rows are cut by, one lane a row, over explicit vectors: the fast twins of the plain loops
//! in [`crate::lane_order`] and [`crate::lane_cut`].
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use super::columns::Each;
use super::vector::{Vector, depth, exp2};
use crate::rows::{Column, GROUP};
use crate::sum::deepest;

/// Labels of each row, as bits: the first with its largest logit, and the first and the second of those whose logits are
/// at least the second largest.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn first_labels<V: Vector>(
    columns: &[Column<f32>],
    max: &Each<f32>,
    second: &Each<f32>,
    found: &mut [Each<f32>; 3],
) {
    for lane in (0..GROUP).step_by(V::LANES) {
        // SAFETY: `lane + V::LANES` is at most GROUP, which each array has. The caller vouches for the instruction set.
        unsafe {
            let max = V::load(max.as_ptr().add(lane));
            let second = V::load(second.as_ptr().add(lane));
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
            for (labels, found) in [top, first, next].into_iter().zip(&mut *found) {
                labels.store(found.as_mut_ptr().add(lane));
            }
        }
    }
}

/// The terms of a logit of each row relative to its largest one, widened.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn terms<V: Vector>(
    logits: &Each<f32>,
    max: &Each<f32>,
    scale: &Each<f32>,
    terms: &mut Each<f64>,
) {
    // SAFETY: as the caller vouches.
    unsafe { total_terms::<V>(&[Column(*logits)], max, scale, terms) }
}

/// The sums of these terms over all labels, in float64, label by label.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn total_terms<V: Vector>(
    columns: &[Column<f32>],
    max: &Each<f32>,
    scale: &Each<f32>,
    totals: &mut Each<f64>,
) {
    let mut bottom = [0.0; GROUP];
    for i in 0..GROUP {
        bottom[i] = deepest(scale[i]);
    }
    for lane in (0..GROUP).step_by(V::LANES) {
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
