//! How do the columns of a column-major matrix become rows?
#![allow(unsafe_code, reason = "vector loads and instructions of features that were detected")]

use std::marker::PhantomData;

use crate::math::Scalar;
#[cfg(target_arch = "x86_64")]
use crate::math::WIDTH;
use crate::simd::ColumnLines;
#[cfg(target_arch = "x86_64")]
use crate::simd::Vector;

use super::{Column, TILE};

/// Some rows of some columns of a column-major matrix: values side by side in each column, and columns `stride` bytes
/// apart.
#[derive(Clone, Copy, Debug)]
pub struct Square<'a, F> {
    pub(crate) start: *const F,
    pub(crate) stride: isize,
    pub(crate) n_columns: usize,
    pub(crate) n_rows: usize,
    values: PhantomData<&'a [F]>,
}

#[allow(dead_code, reason = "arrays of Python alone have columns")]
impl<'a, F: Scalar> Square<'a, F> {
    /// # Safety
    /// Each of the columns must be good to read `n_rows` values from, as long as `'a`.
    #[allow(unsafe_code, reason = "what its fields say is taken for granted")]
    #[inline(always)]
    pub(crate) unsafe fn new(start: *const F, stride: isize, n_columns: usize, n_rows: usize) -> Self {
        Self { start, stride, n_columns, n_rows, values: PhantomData }
    }

    /// The first rows of columns that were written side by side.
    #[allow(unsafe_code, reason = "its fields are made of a slice")]
    #[inline(always)]
    pub(crate) fn of(columns: &'a [Column<F>], n_rows: usize) -> Self {
        let stride = size_of::<Column<F>>() as isize;
        // SAFETY: a column holds TILE values, and they follow each other.
        unsafe { Self::new(columns.as_ptr().cast(), stride, columns.len(), n_rows.min(TILE)) }
    }

    /// One column.
    #[allow(unsafe_code, reason = "a part of what is good to read")]
    #[inline(always)]
    fn column(&self, i: usize) -> &'a [F] {
        assert!(i < self.n_columns, "column {i} of {}", self.n_columns);
        // SAFETY: the column is one of those that are good to read.
        unsafe { std::slice::from_raw_parts(self.start.byte_offset(i as isize * self.stride), self.n_rows) }
    }
}

/// Writes a square into rows that begin `stride` apart, one for each of its rows, from label `first` on. `lines` are asked
/// for meanwhile.
#[inline(always)]
pub(super) fn portable<F: Scalar>(
    square: &Square<'_, F>,
    first: usize,
    stride: usize,
    lines: ColumnLines,
    rows: &mut [F],
) {
    for column in 0..square.n_columns {
        lines.fetch_in_step(column, square.n_columns);
        for (row, &value) in rows.chunks_exact_mut(stride).zip(square.column(column)) {
            row[first + column] = value;
        }
    }
}

/// [`portable`] over vectors.
///
/// # Safety
/// The instruction set of V must be available.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn vectors<V: Vector>(
    square: &Square<'_, f32>,
    first: usize,
    stride: usize,
    lines: ColumnLines,
    rows: &mut [f32],
) {
    let Square { n_columns, n_rows, .. } = *square;
    assert!(first + n_columns <= stride && n_rows * stride <= rows.len(), "a row for each of the square's");
    let (mut done, tiles) = (0, n_columns.div_ceil(V::LANES) * n_rows.div_ceil(V::LANES));
    for left in (0..n_columns).step_by(V::LANES) {
        let width = V::LANES.min(n_columns - left);
        for top in (0..n_rows).step_by(V::LANES) {
            lines.fetch_in_step(done, tiles);
            done += 1;
            let held = V::LANES.min(n_rows - top);
            // SAFETY: `held` values from `top` on are good to read of each of `width` columns from `left` on, as they
            // are all of the square, and each of as many rows has places for them. The caller vouches for the
            // instruction set.
            unsafe {
                let from = |i: usize| square.start.byte_offset((left + i) as isize * square.stride).add(top);
                let to = rows.as_mut_ptr().add(top * stride + first + left);
                // Whole tiles in loops of known length, so that they stay in registers.
                if width == V::LANES && held == V::LANES {
                    let mut tile = [V::splat(0.0); WIDTH];
                    for i in 0..V::LANES {
                        tile[i] = V::load(from(i));
                    }
                    let tile = V::transpose(tile);
                    for i in 0..V::LANES {
                        tile[i].store(to.add(i * stride));
                    }
                    continue;
                }
                let mut tile = [V::splat(0.0); WIDTH];
                for (i, values) in tile[..width].iter_mut().enumerate() {
                    *values = if held == V::LANES { V::load(from(i)) } else { V::load_part(from(i), held) };
                }
                let tile = V::transpose(tile);
                for i in 0..held {
                    let mut part = [0.0; WIDTH];
                    tile[i].store(part.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(part.as_ptr(), to.add(i * stride), width);
                }
            }
        }
    }
}
