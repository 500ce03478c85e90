//! What must a source of rows be able to do?
//!
//! It lends up to [`TILE`] rows at a time: as they lie, or converted into the caller's buffer. No matrix is
//! ever converted whole.

use super::buffer::RowBuffer;
use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::simd::Ahead;

/// Labels are 32-bit integers in prediction sets.
pub(crate) const MOST_LABELS: usize = i32::MAX as usize;

/// A matrix of logits, a few rows at a time.
pub trait Rows<F: Float>: Sync {
    /// Number of rows.
    fn n_rows(&self) -> usize;

    /// Number of labels, K.
    fn n_labels(&self) -> usize;

    /// Puts `count` rows from `first` on, at most [`TILE`], into `lent`: as they lie, or written into
    /// `buffer`. Unused places repeat the first row. `lent` is an argument because a result would be copied.
    ///
    /// # Errors
    /// When a row cannot be turned into logits.
    fn lend<'a>(
        &'a self,
        first: usize,
        count: usize,
        buffer: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; TILE],
    ) -> Result<(), Error>;

    /// The memory that is worth fetching while these rows are worked on.
    #[doc(hidden)]
    fn ahead(&self, _first: usize, _count: usize) -> Ahead {
        Ahead::Unknown
    }

    /// The number by which errors name row `index`.
    fn position(&self, index: usize) -> usize {
        index
    }
}

impl<F: Float, R: Rows<F>> Rows<F> for &R {
    fn n_rows(&self) -> usize {
        (**self).n_rows()
    }

    fn n_labels(&self) -> usize {
        (**self).n_labels()
    }

    #[inline(always)]
    fn lend<'a>(
        &'a self,
        first: usize,
        count: usize,
        buffer: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; TILE],
    ) -> Result<(), Error> {
        (**self).lend(first, count, buffer, lent)
    }

    fn ahead(&self, first: usize, count: usize) -> Ahead {
        (**self).ahead(first, count)
    }

    fn position(&self, index: usize) -> usize {
        (**self).position(index)
    }
}

/// Lends rows of `n_labels` that lie side by side in `data`.
#[inline(always)]
pub(crate) fn lend<'a, F>(data: &'a [F], n_labels: usize, lent: &mut [&'a [F]; TILE]) {
    lend_apart(data, n_labels, n_labels, lent);
}

/// Lends rows of `n_labels` that begin `stride` apart in `data`.
#[inline(always)]
pub(crate) fn lend_apart<'a, F>(data: &'a [F], n_labels: usize, stride: usize, lent: &mut [&'a [F]; TILE]) {
    let (first, mut rest) = (&data[..stride], data);
    for place in lent {
        // Not by `chunks_exact`, which divides.
        let (row, after) = rest.split_at_checked(stride).unwrap_or((first, &[]));
        (*place, rest) = (&row[..n_labels], after);
    }
}
