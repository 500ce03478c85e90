//! How is a NumPy array read as rows, and which type is computed in? The one place that looks at a dtype.
//!
//! An array is held by address, shape and strides.
//!
//! ```text
//! rows that lie in memory as they are needed are lent
//! other rows are converted into the reading thread's buffer:
//!     float16, bfloat16, integers, big-endian, strided, Fortran, misaligned, probabilities
//!     along rows, or column by column if elements lie closer in columns
//! ```
//!
//! float16, bfloat16 and float32 compute in float32, everything else in float64.
//!
//! Why reading without the GIL is safe: a reference keeps the array alive. NumPy does not move the buffer of
//! a referenced array (unless told to with `resize(refcheck=False)`, which no reader can guard against).
//! Every address is inside the shape and strides that NumPy vouches for. If another thread writes to the
//! array during the call, this is a data race that Rust cannot rule out, as in every extension that reads
//! without a copy. Labels are read once and checked after that, and no kernel uses a logit as an index. So
//! such a race can make the numbers of those rows wrong, and nothing else.
#![allow(unsafe_code, reason = "reads foreign buffers of any dtype and layout")]

use std::ops::Range;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::Error;
use crate::kernels::{self, Column, Float, MOST_SIDE_BY_SIDE, Square, TILE};
use crate::math::each_lane;
use crate::rows::{
    MOST_LABELS, RowBuffer, Rows, held_stride, lend, lend_apart, log_probabilities, rows_of_tile,
};
use crate::run::reserve;
use crate::simd::{Ahead, ColumnsAhead, LINE, Simd, dispatch};

/// Rows of a column-major array that are read at a time. They are four cache lines of float32 of each column,
/// which take two thirds of the time of two lines, and 1000 labels of them fit the second-level cache.
const COLUMN_ROWS: usize = 2 * TILE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    F16,
    Bf16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl Element {
    /// bfloat16 has no NumPy dtype of its own: the Python layer passes it as raw two-byte elements.
    fn of(kind: u8, itemsize: usize) -> Option<Self> {
        Some(match (kind, itemsize) {
            (b'f', 2) => Self::F16,
            (b'V', 2) => Self::Bf16,
            (b'f', 4) => Self::F32,
            (b'f', 8) => Self::F64,
            (b'i', 1) => Self::I8,
            (b'i', 2) => Self::I16,
            (b'i', 4) => Self::I32,
            (b'i', 8) => Self::I64,
            (b'u', 1) => Self::U8,
            (b'u', 2) => Self::U16,
            (b'u', 4) => Self::U32,
            (b'u', 8) => Self::U64,
            _ => return None,
        })
    }

    fn computes_in_f32(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32)
    }
}

/// A 2-D array of logits or probabilities, or some of its rows.
#[derive(Debug)]
pub(super) struct Table {
    data: *const u8,
    n_rows: usize,
    n_labels: usize,
    row_stride: isize,
    column_stride: isize,
    element: Element,
    swapped: bool,
    /// The selected rows, in order; without it, all rows.
    selection: Option<Vec<usize>>,
    probabilities: bool,
    /// Keeps the buffer alive.
    _array: Py<PyUntypedArray>,
}

// SAFETY: the buffer is only read, outlives the table, and any value in it is acceptable.
unsafe impl Sync for Table {}
// SAFETY: as above; `Py` may be sent and dropped anywhere.
unsafe impl Send for Table {}

impl Table {
    pub(super) fn new(
        array: &Bound<'_, PyUntypedArray>,
        selection: Option<&[i64]>,
        probabilities: bool,
    ) -> PyResult<Self> {
        let (&[n_rows, n_labels], &[row_stride, column_stride]) = (array.shape(), array.strides()) else {
            let message = format!("logits must have 2 dimensions, got {}", array.ndim());
            return Err(PyValueError::new_err(message));
        };
        if n_labels == 0 {
            return Err(PyValueError::new_err("logits must have at least 1 label, got 0 columns"));
        }
        if n_labels > MOST_LABELS {
            return Err(PyValueError::new_err(format!(
                "logits must have fewer than 2^31 labels, got {n_labels}"
            )));
        }
        let dtype = array.dtype();
        let Some(element) = Element::of(dtype.kind(), dtype.itemsize()) else {
            let message = format!("logits must be real numbers, got dtype {dtype}");
            return Err(PyTypeError::new_err(message));
        };
        let selection = selection.map(|indices| selected(indices, n_rows)).transpose()?;
        Ok(Self {
            // SAFETY: the pointer comes from a live array object.
            data: unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>().cast_const() },
            n_rows,
            n_labels,
            row_stride,
            column_stride,
            element,
            swapped: dtype.byteorder() == if cfg!(target_endian = "little") { b'>' } else { b'<' },
            selection,
            probabilities,
            _array: array.clone().unbind(),
        })
    }

    pub(super) fn computes_in_f32(&self) -> bool {
        self.element.computes_in_f32()
    }

    /// Rows that a call goes over.
    pub(super) fn len(&self) -> usize {
        self.selection.as_ref().map_or(self.n_rows, Vec::len)
    }

    /// Rows that a call goes over, and labels.
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.len(), self.n_labels)
    }

    /// Elements that a call reads.
    pub(super) fn elements(&self) -> usize {
        self.len().saturating_mul(self.n_labels)
    }

    fn address(&self, row: usize) -> *const u8 {
        assert!(row < self.n_rows, "row {row} of {}", self.n_rows);
        // SAFETY: row < n_rows, and NumPy vouches for every address its shape and strides reach.
        unsafe { self.data.offset(row as isize * self.row_stride) }
    }

    fn source_row(&self, index: usize) -> usize {
        self.selection.as_ref().map_or(index, |rows| rows[index])
    }

    /// The row where it lies in memory, if its elements are native `T`, side by side.
    #[inline(always)]
    fn lent<T: Float>(&self, row: usize) -> Option<&[T]> {
        let element = if size_of::<T>() == 4 { Element::F32 } else { Element::F64 };
        let address = self.address(row).cast::<T>();
        let as_needed = self.element == element
            && !self.swapped
            && !self.probabilities
            && (self.column_stride == size_of::<T>() as isize || self.n_labels == 1)
            && address.is_aligned();
        // SAFETY: n_labels elements of type T, contiguous and aligned as just checked, inside an
        // array that `self` keeps alive; f32 and f64 have no invalid bit patterns.
        as_needed.then(|| unsafe { std::slice::from_raw_parts(address, self.n_labels) })
    }

    /// Rows where they lie in memory, if they follow each other without gaps.
    #[inline(always)]
    fn contiguous<T: Float>(&self, first: usize, count: usize) -> Option<&[T]> {
        let side_by_side = self.row_stride == (self.n_labels * size_of::<T>()) as isize;
        if self.selection.is_some() || count == 0 || !side_by_side {
            return None;
        }
        self.address(first + count - 1); // inside the array
        // SAFETY: `count` rows from `first` on, one after the other without gaps, each as the one lent.
        self.lent(first)
            .map(|row: &[T]| unsafe { std::slice::from_raw_parts(row.as_ptr(), count * self.n_labels) })
    }

    /// Reads rows of N-byte elements through `convert`, which gets bytes in the machine's order. The
    /// inner loop runs along the shorter stride: a column-major array is read a cache line at a time.
    #[inline(always)]
    fn read<const N: usize, S: Simd, F: Float>(
        &self,
        s: S,
        rows: &[usize],
        target: &mut [F],
        ahead: ColumnsAhead,
        convert: impl Fn([u8; N]) -> F,
    ) {
        let (k, stride) = (self.n_labels, held_stride::<F>(self.n_labels));
        let element = |start: *const u8, column: usize| {
            // SAFETY: column < n_labels and the element has N bytes; read_unaligned asks for no more.
            let bytes: [u8; N] = unsafe {
                start.offset(column as isize * self.column_stride).cast::<[u8; N]>().read_unaligned()
            };
            bytes
        };
        let native = |mut bytes: [u8; N]| {
            if self.swapped {
                bytes.reverse();
            }
            convert(bytes)
        };
        if self.column_stride == N as isize && !self.swapped {
            for (&row, target) in rows.iter().zip(target.chunks_exact_mut(stride)) {
                // SAFETY: n_labels elements of N bytes lie side by side from the row's address on; bytes
                // need no alignment.
                let row = unsafe { std::slice::from_raw_parts(self.address(row).cast::<[u8; N]>(), k) };
                for (value, &bytes) in target.iter_mut().zip(row) {
                    *value = convert(bytes);
                }
            }
        } else if !self.is_by_columns() {
            for (&row, target) in rows.iter().zip(target.chunks_exact_mut(stride)) {
                let start = self.address(row);
                for (column, value) in target[..k].iter_mut().enumerate() {
                    *value = native(element(start, column));
                }
            }
        } else if self.row_stride == N as isize && rows.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            if self.swapped {
                self.read_columns(s, rows[0], rows.len(), target, ahead, native);
            } else {
                self.read_columns(s, rows[0], rows.len(), target, ahead, convert);
            }
        } else {
            let mut starts = [std::ptr::null::<u8>(); TILE];
            for (rows, target) in rows.chunks(TILE).zip(target.chunks_mut(TILE * stride)) {
                for (start, &row) in starts.iter_mut().zip(rows) {
                    *start = self.address(row);
                }
                for column in 0..k {
                    for (i, &start) in starts[..rows.len()].iter().enumerate() {
                        target[i * stride + column] = native(element(start, column));
                    }
                }
            }
        }
    }

    /// Reads `count` rows from `first` on, whose elements lie side by side in each column. It goes square by
    /// square, so that both sides are read and written in whole cache lines.
    #[inline(always)]
    fn read_columns<const N: usize, S: Simd, F: Float>(
        &self,
        s: S,
        first: usize,
        count: usize,
        target: &mut [F],
        ahead: ColumnsAhead,
        native: impl Fn([u8; N]) -> F,
    ) {
        let (k, start) = (self.n_labels, self.address(first));
        let stride = held_stride::<F>(k);
        let is_lent = self.is_lent_by_columns::<F>() && start.cast::<F>().is_aligned();
        let column = |i: usize, part: usize, held: usize| {
            // SAFETY: the column is below n_labels, and the elements of all rows, N bytes each, lie one after
            // the other from there on; bytes need no alignment.
            unsafe {
                let address = start.offset(i as isize * self.column_stride).cast::<[u8; N]>();
                std::slice::from_raw_parts(address.add(part), held)
            }
        };
        let mut converted = [Column([F::ZERO; TILE]); TILE];
        let (mut done, steps) = (0, k.div_ceil(TILE) * count.div_ceil(TILE));
        for left in (0..k).step_by(TILE) {
            let width = TILE.min(k - left);
            if is_lent {
                let lines = ahead.step(left / TILE, k.div_ceil(TILE), 0);
                // SAFETY: the elements of these columns, which are of type F and aligned, as was asked.
                let square = unsafe {
                    Square::new(column(left, 0, count).as_ptr().cast(), self.column_stride, width, count)
                };
                kernels::write_rows(s, &square, left, stride, lines, target);
                continue;
            }
            for (part, target) in (0..count).step_by(TILE).zip(target.chunks_mut(TILE * stride)) {
                let held = TILE.min(count - part);
                for (i, values) in (left..).zip(&mut converted[..width]) {
                    if let Some(&whole) = column(i, part, held).first_chunk::<TILE>() {
                        // By value and of known length, so that whole vectors are stored: they are loaded
                        // again below, and pieces of them would have to reach the cache first.
                        values.0 = each_lane!([F::ZERO; TILE], |i| native(whole[i]));
                    } else {
                        for (value, &bytes) in values.0.iter_mut().zip(column(i, part, held)) {
                            *value = native(bytes);
                        }
                    }
                }
                let lines = ahead.step(done, steps, 0);
                done += 1;
                kernels::write_rows(s, &Square::of(&converted[..width], held), left, stride, lines, target);
            }
        }
    }

    /// Whether pieces of columns may be read where they lie: elements are native `F`, and if one is aligned,
    /// all are.
    #[inline(always)]
    fn is_lent_by_columns<F: Float>(&self) -> bool {
        let size = size_of::<F>();
        let element = if size == 4 { Element::F32 } else { Element::F64 };
        self.element == element && !self.swapped && self.column_stride.unsigned_abs().is_multiple_of(size)
    }

    /// Some columns of the rows from `first` on, to be prefetched.
    #[inline(always)]
    fn rows_of_columns(&self, first: usize, n_rows: usize, columns: Range<usize>) -> ColumnsAhead {
        // Without overflow: the stride of a single row may be any number.
        let bytes = n_rows.saturating_mul(self.row_stride.unsigned_abs());
        let start = self.data.wrapping_offset((first as isize).wrapping_mul(self.row_stride));
        let start = start.wrapping_offset(columns.start as isize * self.column_stride);
        // The address of the last byte of a line is fetched, as arrays rarely begin with a line: the first
        // bytes of a piece of a column came with the piece before it.
        let start = start.wrapping_add(bytes.clamp(1, LINE) - 1);
        ColumnsAhead::new(start, self.column_stride, bytes.div_ceil(LINE).next_power_of_two(), columns.len())
    }

    /// The columns of the rows that will be read next; each tile prefetches half of them, as two tiles are
    /// converted at once. Only where elements lie side by side in their columns, and tiles are whole.
    #[inline(always)]
    fn columns_ahead<F: Float>(&self, first: usize) -> Option<ColumnsAhead> {
        let is_plain = self.is_by_columns() && self.selection.is_none() && !self.probabilities;
        let is_whole = matches!(self.row_stride, 1 | 2 | 4 | 8) && rows_of_tile::<F>(self.n_labels) == TILE;
        if !is_plain || !is_whole || self.n_labels <= MOST_SIDE_BY_SIDE {
            return None;
        }
        let (half, n_columns) = (self.n_labels / 2, self.n_labels);
        let columns = if first % COLUMN_ROWS < TILE { 0..half } else { half..n_columns };
        Some(self.rows_of_columns((first + 1).next_multiple_of(COLUMN_ROWS), COLUMN_ROWS, columns))
    }

    /// Whether elements of a column lie closer than those of a row.
    #[inline(always)]
    fn is_by_columns(&self) -> bool {
        self.column_stride.unsigned_abs() > self.row_stride.unsigned_abs()
    }

    #[inline(always)]
    fn convert_rows<S: Simd, F: Float>(&self, s: S, rows: &[usize], target: &mut [F], ahead: ColumnsAhead) {
        macro_rules! read {
            ($number:ty, $convert:expr) => {
                self.read(s, rows, target, ahead, |bytes| $convert(<$number>::from_ne_bytes(bytes)))
            };
        }
        match self.element {
            Element::F16 => read!(u16, |bits| F::from_f32(widen(bits))),
            Element::Bf16 => read!(u16, |bits| F::from_f32(f32::from_bits(u32::from(bits) << 16))),
            Element::F32 => read!(f32, F::from_f32),
            Element::F64 => read!(f64, F::from_f64),
            Element::I8 => read!(i8, |value| F::from_f64(f64::from(value))),
            Element::I16 => read!(i16, |value| F::from_f64(f64::from(value))),
            Element::I32 => read!(i32, |value| F::from_f64(f64::from(value))),
            Element::I64 => read!(i64, |value| F::from_f64(value as f64)),
            Element::U8 => read!(u8, |value| F::from_f64(f64::from(value))),
            Element::U16 => read!(u16, |value| F::from_f64(f64::from(value))),
            Element::U32 => read!(u32, |value| F::from_f64(f64::from(value))),
            Element::U64 => read!(u64, |value| F::from_f64(value as f64)),
        }
    }
}

/// The rows that a caller selected, if the array has them all.
fn selected(indices: &[i64], n_rows: usize) -> PyResult<Vec<usize>> {
    let mut rows = Vec::new();
    reserve(&mut rows, indices.len())?;
    for &index in indices {
        match usize::try_from(index) {
            Ok(row) if row < n_rows => rows.push(row),
            _ => {
                let last = n_rows.saturating_sub(1);
                return Err(PyValueError::new_err(format!("rows must be between 0 and {last}, got {index}")));
            }
        }
    }
    Ok(rows)
}

/// float16 to float32 without branches, so that the compiler turns loops over it into vector code. The crate
/// `half` asks for the processor's features at every element.
#[inline(always)]
fn widen(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // The exponent moves from bias 15 to 127; a product does that for subnormals too.
    let scaled = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
    let special = if magnitude >= 0x7c00 << 13 { 0xff << 23 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | u32::from(bits & 0x8000) << 16)
}

impl<F: Float> Rows<F> for Table {
    fn n_rows(&self) -> usize {
        self.len()
    }

    fn n_labels(&self) -> usize {
        self.n_labels
    }

    #[inline(always)]
    fn lend<'a>(
        &'a self,
        first: usize,
        count: usize,
        buffer: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; TILE],
    ) -> Result<(), Error> {
        if let Some(rows) = self.contiguous(first, count) {
            lend(rows, self.n_labels, lent);
            return Ok(());
        }
        if let Some(head) = self.lent(self.source_row(first)) {
            *lent = [head; TILE];
            let mut all = true;
            for i in 1..count {
                match self.lent(self.source_row(first + i)) {
                    Some(row) => lent[i] = row,
                    None => all = false, // a row stride that is no multiple of the element
                }
            }
            if all {
                return Ok(());
            }
        }
        let (wanted, stride) = (first..first + count, held_stride::<F>(self.n_labels));
        if buffer.held(&wanted, self.n_labels).is_none() {
            // Columns are read for the next tile too. Not of probabilities: an error must name the first bad
            // row, and a row before it may yet be refused.
            let end = if count == TILE && self.is_by_columns() && !self.probabilities {
                self.len().min((first + 1).next_multiple_of(COLUMN_ROWS)).max(wanted.end)
            } else {
                wanted.end
            };
            let mut positions = [0; COLUMN_ROWS];
            for (position, index) in positions.iter_mut().zip(first..end) {
                *position = self.source_row(index);
            }
            let positions = &positions[..end - first];
            // The next columns are prefetched while these are read, unless the scan of the tile prefetches
            // them.
            let columns = 0..if self.columns_ahead::<F>(first).is_some() { 0 } else { self.n_labels };
            let ahead = self.rows_of_columns(end, positions.len(), columns);
            let target = buffer.hold(first..end, self.n_labels)?;
            dispatch!(s => self.convert_rows(s, positions, target, ahead));
            if self.probabilities {
                for (row, &position) in target.chunks_exact_mut(stride).zip(positions) {
                    log_probabilities(&mut row[..self.n_labels], position)?;
                }
            }
        }
        lend_apart(buffer.held(&wanted, self.n_labels).unwrap_or_default(), self.n_labels, stride, lent);
        Ok(())
    }

    #[inline(always)]
    fn ahead(&self, first: usize, count: usize) -> Ahead {
        if let Some(columns) = self.columns_ahead::<F>(first) {
            return Ahead::Columns(columns);
        }
        let next = first + count;
        let rows = self.contiguous::<F>(next, (2 * TILE).min(self.n_rows.saturating_sub(next)));
        rows.map_or(Ahead::Unknown, |rows| Ahead::Rows(rows.as_ptr().cast(), size_of_val(rows)))
    }

    fn position(&self, index: usize) -> usize {
        self.source_row(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float16_widens_exactly() {
        for bits in 0..=u16::MAX {
            let (sign, exponent, mantissa) = (bits >> 15, (bits >> 10) & 31, f64::from(bits & 1023));
            let magnitude = match exponent {
                0 => mantissa * 2.0_f64.powi(-24),
                31 if mantissa == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                e => (1.0 + mantissa / 1024.0) * 2.0_f64.powi(i32::from(e) - 15),
            };
            let expected = if sign == 1 { -magnitude } else { magnitude } as f32;
            let found = widen(bits);
            assert!(
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                "{bits:x}"
            );
        }
    }
}
