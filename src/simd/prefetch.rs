//! What will be read after the rows at hand, and when is it asked for?
//!
//! The processor foresees neither many rows read side by side nor the next row while it computes. A source of
//! rows says which memory follows ([`Ahead`]); kernels ask for a line of it now and then between their
//! operations ([`Lines`]): many at once would hold up what is read meanwhile. Addresses are never read, so
//! any address will do.

/// Bytes of a line of the cache.
pub(crate) const LINE: usize = 64;

/// Asks for the line of the cache that an address lies in, which may be any address at all.
#[inline(always)]
#[allow(unsafe_code, reason = "an instruction without effect on anything but speed")]
fn fetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every machine of the architecture has it, and it neither reads nor faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// [`fetch`] for a line that is read later, after more than the nearest cache holds.
#[inline(always)]
#[allow(unsafe_code, reason = "an instruction without effect on anything but speed")]
fn fetch_far(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every machine of the architecture has it, and it neither reads nor faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Whether lines from many places are better asked for by [`fetch_far`] than by [`fetch`].
///
/// On Intel's processors (Emerald Rapids was measured) the nearest cache awaits 16 lines at a time, and
/// computing waits with it; the one after it awaits 48. On AMD's (Zen 4) many of the lines that are asked for
/// by `fetch_far` are not fetched at all when others are awaited.
#[inline]
#[allow(dead_code, reason = "arrays of Python alone have columns")]
fn awaits_more_afar() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::sync::OnceLock;
        static IS_INTEL: OnceLock<bool> = OnceLock::new();
        *IS_INTEL.get_or_init(|| {
            let vendor = std::arch::x86_64::__cpuid(0);
            [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
        })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// The memory that will be read after the rows at hand.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Ahead {
    /// Nothing is known of it.
    Unknown,
    /// So many bytes from an address on: rows one after the other.
    Rows(*const u8, usize),
    /// Pieces of columns.
    Columns(ColumnsAhead),
}

impl Ahead {
    /// The address of what follows so many bytes later, if it is known.
    #[inline(always)]
    pub(crate) fn after(self, bytes: usize) -> Option<*const u8> {
        match self {
            Self::Rows(start, length) if bytes < length => Some(start.wrapping_add(bytes)),
            _ => None,
        }
    }
}

/// Pieces of the columns of a column-major matrix: the rows that will be read after the next.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ColumnsAhead {
    start: *const u8,
    stride: isize,
    /// Lines of a piece, as a power of two.
    lines_log2: u32,
    n_columns: usize,
    is_near: bool,
}

#[allow(dead_code, reason = "arrays of Python alone have columns")]
impl ColumnsAhead {
    /// Pieces of so many lines, a power of two, of which the first begins at `start`.
    #[inline(always)]
    pub(crate) fn new(start: *const u8, stride: isize, lines: usize, n_columns: usize) -> Self {
        Self { start, stride, lines_log2: lines.trailing_zeros(), n_columns, is_near: !awaits_more_afar() }
    }

    /// The lines that are asked for in one of so many steps, one for each `2^spacing_log2` lines that the
    /// kernel reads.
    #[inline(always)]
    pub(crate) fn step(self, step: usize, steps: usize, spacing_log2: u32) -> ColumnLines {
        let lines = self.n_columns << self.lines_log2;
        let (next, end) = (lines * step / steps, lines * (step + 1) / steps);
        ColumnLines { columns: self, next, end, spacing_log2 }
    }
}

/// Lines that a kernel asks for on its way through a row.
pub(crate) trait Lines: Copy {
    /// Asks for what belongs to line i of the row.
    fn fetch(self, i: usize);

    /// Asks for all that was not asked for, from line i on.
    #[inline(always)]
    fn fetch_rest(self, _i: usize) {}

    /// Asks for what belongs to lines from `from` on to the end of a row of so many bytes, which may end
    /// anywhere.
    #[inline(always)]
    fn fetch_end(self, from: usize, bytes: usize) {
        for line in from..=bytes / LINE {
            self.fetch(line);
        }
    }
}

/// No lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoLines;

impl Lines for NoLines {
    #[inline(always)]
    fn fetch(self, _i: usize) {}
}

/// The lines of the row that is read next, and of one that is read later. From memory to the nearest cache
/// there are too few places for lines that are awaited, so the later one goes to a cache that is less near.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLines {
    pub(crate) next: *const u8,
    pub(crate) later: *const u8,
}

impl Lines for RowLines {
    #[inline(always)]
    fn fetch(self, i: usize) {
        fetch(self.next.wrapping_add(i * LINE));
        fetch_far(self.later.wrapping_add(i * LINE));
    }

    #[inline(always)]
    fn fetch_end(self, from: usize, bytes: usize) {
        for line in from..=bytes / LINE {
            self.fetch(line);
        }
        let last = bytes.saturating_sub(1);
        fetch(self.next.wrapping_add(last));
        fetch_far(self.later.wrapping_add(last));
    }
}

impl RowLines {
    /// Asks for line i of the next row alone.
    #[inline(always)]
    pub(crate) fn fetch_next(self, i: usize) {
        fetch(self.next.wrapping_add(i * LINE));
    }

    /// Asks for line i of the later row alone.
    #[inline(always)]
    pub(crate) fn fetch_later(self, i: usize) {
        fetch_far(self.later.wrapping_add(i * LINE));
    }

    /// The lines from so many bytes on.
    #[inline(always)]
    pub(crate) fn skip(self, bytes: usize) -> Self {
        Self { next: self.next.wrapping_add(bytes), later: self.later.wrapping_add(bytes) }
    }
}

/// Some of the lines of [`ColumnsAhead`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnLines {
    columns: ColumnsAhead,
    next: usize,
    end: usize,
    /// Lines of the row at hand for each that is asked for, as a power of two.
    spacing_log2: u32,
}

impl Lines for ColumnLines {
    #[inline(always)]
    fn fetch(self, i: usize) {
        let line = i >> self.spacing_log2;
        if line << self.spacing_log2 == i && self.next + line < self.end {
            self.fetch_line(line);
        }
    }

    #[inline(always)]
    fn fetch_rest(self, i: usize) {
        for line in i..self.end - self.next {
            self.fetch_line(line);
        }
    }
}

impl ColumnLines {
    /// To whichever cache awaits more lines at a time: from the nearest it will be gone when it is read.
    #[inline(always)]
    fn fetch_line(self, line: usize) {
        let address = self.address(line);
        if self.columns.is_near {
            fetch(address);
        } else {
            fetch_far(address);
        }
    }

    /// Asks for what belongs to one of so many steps.
    #[inline(always)]
    pub(crate) fn fetch_in_step(self, step: usize, steps: usize) {
        let each = (self.end - self.next).div_ceil(steps);
        for line in step * each..(step + 1) * each {
            self.fetch(line);
        }
    }

    /// Asks for all of them, as far as that holds up nothing.
    #[inline(always)]
    pub(crate) fn fetch_all(self) {
        for i in 0..self.end - self.next {
            fetch_far(self.address(i));
        }
    }

    #[inline(always)]
    fn address(self, i: usize) -> *const u8 {
        let ColumnsAhead { start, stride, lines_log2, .. } = self.columns;
        let line = self.next + i;
        let (column, within) = (line >> lines_log2, line & ((1 << lines_log2) - 1));
        start.wrapping_offset(column as isize * stride).wrapping_add(LINE * within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_ask_for_each_line_once() {
        let memory = [0_u8; 64];
        let base = memory.as_ptr().addr();
        for (n_columns, lines, steps) in [(1000, 4, 32), (1000, 4, 64), (130, 1, 32), (200, 8, 5)] {
            let columns = ColumnsAhead::new(memory.as_ptr(), 10_000, lines, n_columns);
            let offsets = |part: ColumnLines| {
                (0..part.end - part.next).map(move |line| part.address(line).addr() - base)
            };
            let found: Vec<usize> =
                (0..steps).flat_map(|step| offsets(columns.step(step, steps, 0))).collect();
            let expected: Vec<usize> = (0..n_columns)
                .flat_map(|column| (0..lines).map(move |line| column * 10_000 + line * LINE))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
