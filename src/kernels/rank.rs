//! Where does a label stand in its row, without a sort?
//!
//! ```text
//! rank(y) = 1 + (labels with a larger logit) + (lower labels with the same logit)
//! next(y) = the largest logit of the labels that rank after y
//! ```
//!
//! Most labels that are scored have few labels before them: one pass counts and collects those.
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

use crate::math::{Chunks, Scalar, WIDTH, is_before};
#[cfg(target_arch = "x86_64")]
use crate::simd::Vector;

#[cfg(target_arch = "x86_64")]
use super::terms::Vectors;
use super::{Each, lanes_of};

/// Labels before a label that are collected at most: a vector of them.
pub(crate) const FEW_BEFORE: usize = WIDTH;

/// Where the ranks of a tile's labels go, the logits ranked next, and those before.
#[derive(Debug)]
pub struct RanksFound<'a, F> {
    pub(crate) rank: &'a mut Each<usize>,
    pub(crate) next: &'a mut Each<F>,
    pub(crate) before: &'a mut [[F; FEW_BEFORE]],
}

/// How many logits rank before a label with logit `y`, and the largest of the others.
#[inline(always)]
pub(super) fn count_portable<const LOWER: bool, F: Scalar>(part: &[F], y: F) -> (usize, F) {
    let mut count = [0_u32; WIDTH];
    let mut next = [F::NEG_INFINITY; WIDTH];
    let chunks = Chunks::of(part);
    for i in 0..chunks.count {
        let chunk = chunks.get(i);
        for lane in 0..WIDTH {
            count[lane] += u32::from(is_before::<LOWER, F>(chunk[lane], y));
        }
        for lane in 0..WIDTH {
            let z = if is_before::<LOWER, F>(chunk[lane], y) { next[lane] } else { chunk[lane] };
            next[lane] = next[lane].larger(z);
        }
    }
    let total: usize = count.iter().map(|&c| c as usize).sum();
    // The filling of the last chunk ranks before no label but one that is -inf itself.
    let filling =
        if is_before::<LOWER, F>(F::NEG_INFINITY, y) { chunks.count * WIDTH - part.len() } else { 0 };
    (total - filling, next.into_iter().fold(F::NEG_INFINITY, Scalar::larger))
}

/// How many labels rank before a label, and the largest logit of those after it; the logits before it are put into `found`,
/// with `-inf` in the other places. `None` when there are more of them than there is room for, or another label has the same
/// logit.
#[inline(always)]
fn rank_one_portable<F: Scalar>(row: &[F], label: usize, found: &mut [F; FEW_BEFORE]) -> Option<(usize, F)> {
    let (y, mut count, mut at_least) = (row[label], 0, 0);
    let mut next = [F::NEG_INFINITY; WIDTH];
    let mut before = [F::NEG_INFINITY; FEW_BEFORE];
    let chunks = Chunks::of(row);
    for i in 0..chunks.count {
        let chunk = chunks.get(i);
        let mut any = false;
        for lane in 0..WIDTH {
            let is_at_least = chunk[lane] >= y;
            any |= is_at_least;
            next[lane] = next[lane].larger(if is_at_least { F::NEG_INFINITY } else { chunk[lane] });
        }
        // Few chunks have one.
        if any {
            for &z in chunk {
                at_least += usize::from(z >= y);
                if z > y {
                    *before.get_mut(count)? = z;
                    count += 1;
                }
            }
        }
    }
    if at_least != count + 1 {
        return None;
    }
    *found = before;
    Some((count, next.into_iter().fold(F::NEG_INFINITY, Scalar::larger)))
}

/// Ranks the labels of the rows with a bit in `wanted`, as [`rank_one_portable`] does; a bit for each row of which that is
/// `None`.
#[inline(always)]
pub(super) fn rank_few_portable<F: Scalar>(
    rows: &Each<&[F]>,
    labels: &Each<usize>,
    wanted: u32,
    found: RanksFound<'_, F>,
) -> u32 {
    let RanksFound { rank, next, before } = found;
    let mut left = 0;
    for i in lanes_of(wanted) {
        match rank_one_portable(rows[i], labels[i], &mut before[i]) {
            Some((count, logit)) => (rank[i], next[i]) = (1 + count, logit),
            None => left |= 1 << i,
        }
    }
    left
}

/// [`count_portable`] over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn count_vectors<V: Vector, const LOWER: bool>(part: &[f32], y: f32) -> (usize, f32) {
    let vectors = Vectors { row: part };
    let n = vectors.count::<V>();
    // SAFETY: as the caller vouches.
    let (count, next) = unsafe {
        let (wanted, none) = (V::splat(y), V::splat(f32::NEG_INFINITY));
        let (mut count, mut next) = (0_usize, none);
        for i in 0..n {
            let z = vectors.get::<V>(i);
            let before = if LOWER { z.greater_or_equal(wanted) } else { z.greater(wanted) };
            count += V::count(before) as usize;
            next = next.larger(V::select(before, none, z));
        }
        (count, largest(next))
    };
    // The filling of the last vector ranks before no label but one that is -inf itself.
    let filling = if LOWER && y == f32::NEG_INFINITY { n * V::LANES - part.len() } else { 0 };
    (count - filling, next)
}

/// [`rank_one_portable`] over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn rank_one_vectors<V: Vector>(
    row: &[f32],
    label: usize,
    found: &mut [f32; FEW_BEFORE],
) -> Option<(usize, f32)> {
    let (vectors, whole) = (Vectors { row }, row.len() / V::LANES);
    // Room for a vector from the last place on: each is written whole, wherever it may end.
    let mut before = [f32::NEG_INFINITY; FEW_BEFORE + WIDTH];
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

/// [`rank_few_portable`] over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn rank_few_vectors<V: Vector>(
    rows: &Each<&[f32]>,
    labels: &Each<usize>,
    wanted: u32,
    found: RanksFound<'_, f32>,
) -> u32 {
    let RanksFound { rank, next, before } = found;
    let mut left = 0;
    for i in lanes_of(wanted) {
        // SAFETY: as the caller vouches.
        match unsafe { rank_one_vectors::<V>(rows[i], labels[i], &mut before[i]) } {
            Some((count, logit)) => (rank[i], next[i]) = (1 + count, logit),
            None => left |= 1 << i,
        }
    }
    left
}

/// Most vectors of a row in which nothing depends on where its larger logits are.
#[cfg(target_arch = "x86_64")]
const MOST_UNFORESEEN: usize = 16;

/// The largest lane.
#[cfg(target_arch = "x86_64")]
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
