//! Where does a source write rows that it cannot lend as they lie?

use std::ops::Range;

use crate::error::Error;
use crate::kernels::Float;
use crate::simd::LINE;

/// Where a source writes rows that it cannot lend as they lie.
#[derive(Debug)]
pub struct RowBuffer<F> {
    values: Vec<F>,
    /// What a source makes of rows that another source lends.
    pub(super) made: Vec<F>,
    /// The indices of the rows that it holds.
    held: Range<usize>,
    /// Where they begin.
    start: usize,
}

impl<F> Default for RowBuffer<F> {
    fn default() -> Self {
        Self { values: Vec::new(), made: Vec::new(), held: 0..0, start: 0 }
    }
}

impl<F: Float> RowBuffer<F> {
    /// Forgets what it held, for the rows of another source.
    pub(crate) fn begin(&mut self) {
        self.held = 0..0;
    }

    /// Bytes that it has allocated.
    pub(crate) fn bytes(&self) -> usize {
        (self.values.capacity() + self.made.capacity()) * size_of::<F>()
    }

    /// The values, emptied. A source writes its rows here, one after the other, and lends them.
    pub fn emptied(&mut self) -> &mut Vec<F> {
        self.held = 0..0;
        self.values.clear();
        &mut self.values
    }

    /// Rows that were written before, [`held_stride`] apart, if all of these are among them.
    #[inline(always)]
    #[must_use]
    #[doc(hidden)]
    pub fn held(&self, rows: &Range<usize>, n_labels: usize) -> Option<&[F]> {
        let (is_held, stride) =
            (self.held.start <= rows.start && rows.end <= self.held.end, held_stride::<F>(n_labels));
        let start = self.start.wrapping_add(rows.start.wrapping_sub(self.held.start).wrapping_mul(stride));
        is_held.then(|| &self.values[start..][..rows.len() * stride])
    }

    /// Room for these rows, [`held_stride`] apart. From now on it holds them.
    #[doc(hidden)]
    pub fn hold(&mut self, rows: Range<usize>, n_labels: usize) -> Result<&mut [F], Error> {
        let (length, line) = (rows.len() * held_stride::<F>(n_labels), LINE / size_of::<F>());
        let more = (length + line).saturating_sub(self.values.len());
        let short = |_| Error::Memory { elements: length, size: size_of::<F>() };
        self.values.try_reserve(more).map_err(short)?;
        self.values.resize(length + line, F::ZERO);
        self.start = self.values.as_ptr().align_offset(LINE).min(line);
        self.held = rows;
        Ok(&mut self.values[self.start..][..length])
    }
}

/// How far apart a buffer holds rows: by whole cache lines, so that each vector is written to one line, and
/// by an odd number of them, so that rows do not compete for a few sets of the cache.
#[inline(always)]
pub(crate) fn held_stride<F>(n_labels: usize) -> usize {
    ((n_labels * size_of::<F>()).div_ceil(LINE) | 1) * LINE / size_of::<F>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_held_whole_or_not_at_all() {
        let mut buffer = RowBuffer::<f32>::default();
        assert_eq!(buffer.held(&(0..1), 2), None);
        let stride = held_stride::<f32>(2);
        let room = buffer.hold(4..7, 2).unwrap();
        assert!(room.len() == 3 * stride && room.as_ptr().addr().is_multiple_of(64));
        room[stride] = 2.0;
        room[2 * stride + 1] = 5.0;
        let held = buffer.held(&(5..7), 2).unwrap();
        assert_eq!((held.len(), held[0], held[stride + 1]), (2 * stride, 2.0, 5.0));
        assert_eq!(buffer.held(&(3..5), 2), None);
        assert_eq!(buffer.held(&(6..8), 2), None);
        buffer.emptied().push(1.0);
        assert_eq!(buffer.held(&(4..5), 2), None);
    }
}
