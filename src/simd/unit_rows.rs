//! The sums behind entropy of a float32 row, over explicit vectors, and what is fetched meanwhile: the fast twin of
//! [`crate::unit_sums`].
#![allow(unsafe_code, reason = "vector loads and instructions of detected features")]

use super::vector::{Vector, depth, exp2};
use crate::ahead::LinesOfColumns;
use crate::float::Float;
use crate::sum::{LANES, deepest};
use crate::unit_sums::{RUN, in_halves};

/// What a row's kernel fetches on the way, a line of 64 bytes at a time.
pub(super) trait Lines: Copy {
    /// Fetches line `i`, or what there is to fetch while that of the row is read.
    fn fetch(self, i: usize);
    /// Fetches what a row of `n_labels` may end in beyond its whole lines: rows end anywhere.
    fn fetch_end(self, n_labels: usize);
}

impl Lines for [&[f32]; 2] {
    #[inline(always)]
    fn fetch(self, i: usize) {
        fetch(self, i);
    }

    #[inline(always)]
    fn fetch_end(self, n_labels: usize) {
        fetch(self, n_labels / LANES);
        fetch_value(self, n_labels - 1);
    }
}

impl Lines for LinesOfColumns {
    #[inline(always)]
    fn fetch(self, i: usize) {
        LinesOfColumns::fetch(&self, i);
    }

    #[inline(always)]
    fn fetch_end(self, n_labels: usize) {
        LinesOfColumns::fetch(&self, n_labels / LANES);
    }
}

/// Fetches line `i`, of 64 bytes, of what will be read next, and of what will be read after that to a cache that is
/// less near: from memory to the nearest cache there are too few places for lines that are awaited.
#[inline(always)]
fn fetch(ahead: [&[f32]; 2], i: usize) {
    fetch_value(ahead, i * LANES);
}

/// The same for the lines that values at `i` lie in.
#[inline(always)]
fn fetch_value([next, later]: [&[f32]; 2], i: usize) {
    if let Some(value) = next.get(i) {
        super::fetch(std::ptr::from_ref(value).cast());
    }
    if let Some(value) = later.get(i) {
        super::fetch_far(std::ptr::from_ref(value).cast());
    }
}

/// [`crate::unit_sums::unit_sums`] of a row of many labels.
///
/// # Safety
/// The instruction set of V must be available.
#[inline(always)]
pub(super) unsafe fn unit_sums<V: Vector>(row: &[f32], shift: f32, ahead: impl Lines) -> (f64, f64) {
    let parts = LANES / V::LANES;
    let (mut exponentials, mut weighted) = ([0.0; LANES], [0.0; LANES]);
    // SAFETY: as the caller vouches.
    unsafe {
        let (shift, scale) = (V::splat(shift + 0.0), V::splat(f32::LOG2_E));
        let bottom = V::splat(deepest(f32::LOG2_E));
        for part in 0..parts {
            let (mut e_sums, mut d_sums) = (V::no_wide(), V::no_wide());
            for first in (0..row.len()).step_by(LANES * RUN) {
                let end = row.len().min(first + LANES * RUN);
                let (mut e_run, mut d_run) = (V::splat(0.0), V::splat(0.0));
                let mut start = first + part * V::LANES;
                while start + V::LANES <= end {
                    if part == 0 {
                        ahead.fetch(start / LANES);
                    }
                    let d = depth(V::load(row.as_ptr().add(start)), shift, bottom);
                    let e = exp2(d, scale, 1.0);
                    e_run = e_run.add(e);
                    d_run = e.mul_add(d, d_run);
                    start += LANES;
                }
                if part == 0 && end == row.len() {
                    ahead.fetch_end(row.len());
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
