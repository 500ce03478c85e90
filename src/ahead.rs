//! What will be read after the rows at hand, to be fetched to the cache while they are worked on.
//!
//! The processor foresees neither many rows read side by side nor the next row while it computes. Kernels ask for a line
//! now and then between their operations: many at once would hold up what is read meanwhile.

use crate::float::Float;
#[cfg(any(feature = "python", test))]
use crate::simd::awaits_more_afar;
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
    /// Whether to the nearest cache.
    is_near: bool,
}

impl ColumnsAhead {
    /// Pieces of so many lines, a power of two, of which the first begins at `start`. They are never read: any address
    /// will do.
    #[cfg(any(feature = "python", test))]
    #[inline(always)]
    pub(crate) fn new(start: *const u8, stride: isize, lines: usize, n_columns: usize) -> Self {
        Self { start, stride, lines_log2: lines.trailing_zeros(), n_columns, is_near: !awaits_more_afar() }
    }

    /// The lines that are fetched while row `i` of `count` is read for the first time: all of them or, if the rows are
    /// summed after that, every other line of it one of the first half.
    #[inline(always)]
    pub(crate) fn while_scanned(self, i: usize, count: usize, is_summed: bool) -> LinesOfColumns {
        if is_summed { self.spaced(i, 2 * count, 1) } else { self.part(i, count) }
    }

    /// The lines of the other half that are fetched while row `i` is summed.
    #[inline(always)]
    pub(crate) fn while_summed(self, i: usize, count: usize) -> LinesOfColumns {
        self.part(count + i, 2 * count)
    }

    /// The lines that are fetched in one of so many steps.
    #[inline(always)]
    pub(crate) fn part(self, step: usize, steps: usize) -> LinesOfColumns {
        self.spaced(step, steps, 0)
    }

    #[inline(always)]
    fn spaced(self, step: usize, steps: usize, spacing_log2: u32) -> LinesOfColumns {
        let lines = self.n_columns << self.lines_log2;
        let (next, end) = (lines * step / steps, lines * (step + 1) / steps);
        LinesOfColumns { columns: self, next, end, spacing_log2 }
    }
}

/// Some of the lines of [`ColumnsAhead`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinesOfColumns {
    columns: ColumnsAhead,
    next: usize,
    end: usize,
    /// Lines of the row at hand for each that is fetched, as a power of two.
    spacing_log2: u32,
}

impl LinesOfColumns {
    /// No lines.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        ColumnsAhead::new(std::ptr::null(), 0, 1, 0).part(0, 1)
    }

    /// Fetches what there is to fetch while line i of the row is read.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        let line = i >> self.spacing_log2;
        if line << self.spacing_log2 == i && self.next + line < self.end {
            self.fetch_line(line);
        }
    }

    /// To whichever cache awaits more lines at a time: from the nearest it will be gone when it is read.
    #[inline(always)]
    fn fetch_line(&self, line: usize) {
        let address = self.address(line);
        if self.columns.is_near {
            fetch(address);
        } else {
            fetch_far(address);
        }
    }

    /// Fetches what belongs to one of so many steps.
    #[inline(always)]
    #[cfg(any(feature = "python", test))]
    pub(crate) fn fetch_in_step(&self, step: usize, steps: usize) {
        let each = (self.end - self.next).div_ceil(steps);
        for line in step * each..(step + 1) * each {
            self.fetch(line);
        }
    }

    /// Fetches all lines from line i on.
    #[inline(always)]
    pub(crate) fn fetch_from(&self, i: usize) {
        for line in i..self.end - self.next {
            self.fetch_line(line);
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
        let base = memory.as_ptr().addr();
        for (n_columns, lines, count) in [(1000, 4, 32), (130, 1, 32), (200, 8, 5)] {
            let columns = ColumnsAhead::new(memory.as_ptr(), 10_000, lines, n_columns);
            let offsets = |part: LinesOfColumns| {
                (0..part.end - part.next).map(move |line| part.address(line).addr() - base)
            };
            let found: Vec<usize> =
                (0..count).flat_map(|i| offsets(columns.while_scanned(i, count, false))).collect();
            // Half of them while rows are scanned, and the other half while they are summed.
            let scanned = (0..count).flat_map(|i| offsets(columns.while_scanned(i, count, true)));
            let in_two: Vec<usize> =
                scanned.chain((0..count).flat_map(|i| offsets(columns.while_summed(i, count)))).collect();
            let expected: Vec<usize> = (0..n_columns)
                .flat_map(|column| (0..lines).map(move |line| column * 10_000 + line * LINE))
                .collect();
            assert_eq!(found, expected);
            assert_eq!(in_two, expected);
        }
    }
}
