//! How do the columns of a column-major matrix become rows?

use std::marker::PhantomData;

use super::{Column, Float, TILE, V};
use crate::math::WIDTH;
use crate::simd::{ColumnLines, Lanes, Simd, vectorize};

/// Some rows of some columns of a column-major matrix: values side by side in each column, and columns
/// `stride` bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Square<'a, F> {
    start: *const F,
    stride: isize,
    n_columns: usize,
    n_rows: usize,
    values: PhantomData<&'a [F]>,
}

#[allow(dead_code, reason = "arrays of Python alone have columns")]
impl<'a, F: Float> Square<'a, F> {
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

/// Writes a square into rows that begin `stride` apart, one for each of its rows, from label `first` on.
/// `lines` are asked for meanwhile.
///
/// Sixteen columns at a time: four rows of them are the four columns of what lies in memory.
#[inline(always)]
#[allow(dead_code, reason = "arrays of Python alone have columns")]
pub(crate) fn write_rows<S: Simd, F: Float>(
    s: S,
    square: &Square<'_, F>,
    first: usize,
    stride: usize,
    lines: ColumnLines,
    rows: &mut [F],
) {
    vectorize!(s, {
        let Square { n_columns, n_rows, .. } = *square;
        assert!(
            first + n_columns <= stride && n_rows * stride <= rows.len(),
            "a row for each of the square's"
        );
        let steps = n_columns.div_ceil(WIDTH);
        for step in 0..steps {
            lines.fetch_in_step(step, steps);
            let (left, width) = (step * WIDTH, WIDTH.min(n_columns - step * WIDTH));
            let mut columns: [&[F]; WIDTH] = [&[]; WIDTH];
            // Of the last columns some may stand for others.
            for i in 0..WIDTH {
                columns[i] = square.column(left + i.min(width - 1));
            }
            for top in (0..n_rows / 4 * 4).step_by(4) {
                let of_rows = V::<F, S>::four_columns(s, &columns, top);
                for (i, values) in of_rows.into_iter().enumerate() {
                    let to = &mut rows[(top + i) * stride + first + left..][..width];
                    if let Ok(to) = to.try_into() {
                        let to: &mut [F; WIDTH] = to;
                        *to = values.to_array();
                    } else {
                        to.copy_from_slice(&values.to_array()[..width]);
                    }
                }
            }
            for row in n_rows / 4 * 4..n_rows {
                for i in 0..width {
                    rows[row * stride + first + left + i] = columns[i][row];
                }
            }
        }
    });
}
