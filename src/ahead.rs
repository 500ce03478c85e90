//! What will be read after the rows at hand, to be fetched to the cache while they are worked on.
//!
//! The processor foresees neither many rows read side by side nor the next row while it computes. Kernels ask for a line
//! now and then between their operations: many at once would hold up what is read meanwhile.

use crate::float::Float;
use crate::simd::{fetch, fetch_far};

/// Bytes of a line of the cache.
pub(crate) const LINE: usize = 64;

/// What is fetched while a row is summed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ahead<'a, F> {
    /// What will be read next, and after that.
    Rows([&'a [F]; 2]),
    /// Lines of columns.
    Columns(LinesOfColumns),
}

/// The rows of a column-major matrix that will be read after the next, as pieces of its columns.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ColumnsAhead {
    start: *const u8,
    stride: isize,
    /// Lines of a piece, as a power of two.
    lines_log2: u32,
    n_columns: usize,
}

impl ColumnsAhead {
    /// Pieces of so many lines, a power of two, of which the first begins at `start`. They are never read: any address
    /// will do.
    #[cfg(any(feature = "python", test))]
    pub(crate) fn new(start: *const u8, stride: isize, lines: usize, n_columns: usize) -> Self {
        Self { start, stride, lines_log2: lines.trailing_zeros(), n_columns }
    }

    /// The lines that are fetched while row `i` of `count` is worked on.
    #[inline(always)]
    pub(crate) fn part(self, i: usize, count: usize) -> LinesOfColumns {
        let lines = self.n_columns << self.lines_log2;
        LinesOfColumns { columns: self, next: lines * i / count, end: lines * (i + 1) / count }
    }
}

/// Some of the lines of [`ColumnsAhead`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinesOfColumns {
    columns: ColumnsAhead,
    next: usize,
    end: usize,
}

impl LinesOfColumns {
    /// Fetches line i, if there are so many: to the nearest cache, though it will be gone from there when it is read.
    /// What is asked for a less near one is often not fetched at all, when many lines are awaited.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        if self.next + i < self.end {
            fetch(self.address(i));
        }
    }

    /// Fetches all of them, as far as that holds up nothing.
    #[inline(always)]
    pub(crate) fn fetch_all(&self) {
        for i in 0..self.end - self.next {
            fetch_far(self.address(i));
        }
    }

    #[inline(always)]
    fn address(&self, i: usize) -> *const u8 {
        let ColumnsAhead { start, stride, lines_log2, .. } = self.columns;
        let line = self.next + i;
        let (column, within) = (line >> lines_log2, line & ((1 << lines_log2) - 1));
        start.wrapping_offset(column as isize * stride).wrapping_add(LINE * within)
    }
}

impl<F: Float> Ahead<'_, F> {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self::Rows([&[]; 2]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_group_fetch_each_line_once() {
        let memory = [0_u8; 64];
        for (n_columns, lines, count) in [(1000, 4, 32), (130, 1, 32), (200, 8, 5)] {
            let columns = ColumnsAhead::new(memory.as_ptr(), 10_000, lines, n_columns);
            let mut found = Vec::new();
            for i in 0..count {
                let part = columns.part(i, count);
                found.extend(
                    (0..part.end - part.next).map(|line| part.address(line).addr() - memory.as_ptr().addr()),
                );
            }
            let expected: Vec<usize> = (0..n_columns)
                .flat_map(|column| (0..lines).map(move |line| column * 10_000 + line * LINE))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
