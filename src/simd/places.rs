//! Where a label stands in a float32 row, over explicit vectors: the fast twins of [`crate::place`].
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use super::vector::{Vector, Vectors};
use crate::group::rows_of;
use crate::place::FEW_BEFORE;
use crate::rows::GROUP;

/// `count_and_next`.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn count_and_next<V: Vector, const LEFT: bool>(part: &[f32], y: f32) -> (usize, f32) {
    let vectors = Vectors { row: part };
    let n = vectors.count::<V>();
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
        (count, largest(next))
    };
    // The filling of the last vector ranks before no label but one that is -inf itself.
    let filling = if LEFT && y == f32::NEG_INFINITY { n * V::LANES - part.len() } else { 0 };
    (count - filling, next)
}

/// How many labels rank before a label, and the largest logit of those after it; the logits before it are put into
/// `found`, with `-inf` in the other places. `None` when there are more of them than there is room for, or another
/// label has the same logit.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn place_few<V: Vector>(
    row: &[f32],
    label: usize,
    found: &mut [f32; FEW_BEFORE],
) -> Option<(usize, f32)> {
    let (vectors, whole) = (Vectors { row }, row.len() / V::LANES);
    // Room for a vector from the last place on: each is written whole, wherever it may end.
    let mut before = [f32::NEG_INFINITY; FEW_BEFORE + 16];
    // SAFETY: as the caller vouches; whole vectors lie inside the row.
    unsafe {
        let (y, none) = (V::splat(row[label]), V::splat(f32::NEG_INFINITY));
        let (mut count, mut at_least, mut next) = (0, 0, none);
        // Which vectors hold one cannot be foreseen, so in a row of few vectors nothing depends on it; of many vectors
        // most hold none, and are passed over.
        let is_long = whole > MOST_UNFORESEEN;
        macro_rules! take {
            ($z:expr) => {
                let z = $z;
                let is_at_least = z.greater_or_equal(y);
                next = next.larger(V::select(is_at_least, none, z));
                if !is_long || V::bits(is_at_least) != 0 {
                    let is_before = z.greater(y);
                    z.compress(is_before, before.as_mut_ptr().add(FEW_BEFORE.min(count)));
                    count += V::count(is_before) as usize;
                    at_least += V::count(is_at_least) as usize;
                }
            };
        }
        for i in 0..whole {
            take!(V::load(row.as_ptr().add(i * V::LANES)));
        }
        if whole < vectors.count::<V>() {
            take!(vectors.get::<V>(whole));
        }
        if count > FEW_BEFORE || at_least != count + 1 {
            return None;
        }
        for i in 0..FEW_BEFORE {
            found[i] = if i < count { before[i] } else { f32::NEG_INFINITY };
        }
        Some((count, largest(next)))
    }
}

/// [`place_few`] of the labels of several rows, those with a bit in `wanted`: their ranks, the next logits and those
/// before. A bit for each row of which that is `None`.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn place_rows<V: Vector>(
    rows: &[&[f32]; GROUP],
    labels: &[usize; GROUP],
    wanted: u32,
    rank: &mut [usize; GROUP],
    next: &mut [f32; GROUP],
    before: &mut [[f32; FEW_BEFORE]],
) -> u32 {
    let mut left = 0;
    for i in rows_of(wanted) {
        // SAFETY: as the caller vouches.
        match unsafe { place_few::<V>(rows[i], labels[i], &mut before[i]) } {
            Some((count, logit)) => (rank[i], next[i]) = (1 + count, logit),
            None => left |= 1 << i,
        }
    }
    left
}

/// Vectors of a row of few.
const MOST_UNFORESEEN: usize = 16;

/// The largest lane.
#[inline(always)]
unsafe fn largest<V: Vector>(mut lanes: V) -> f32 {
    // SAFETY: as the caller vouches.
    unsafe {
        if V::LANES > 8 {
            lanes = lanes.larger(lanes.swapped::<8>());
        }
        lanes = lanes.larger(lanes.swapped::<4>());
        lanes = lanes.larger(lanes.swapped::<2>());
        lanes.larger(lanes.swapped::<1>()).first()
    }
}
