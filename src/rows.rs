//! Where rows come from. Kernels ask for up to [`GROUP`] rows at a time; a source that holds them as they
//! are needed lends them, any other writes them into the caller's scratch, so no matrix is ever
//! converted whole.

#[cfg(any(feature = "python", test))]
use std::marker::PhantomData;
use std::ops::Range;

use crate::ahead::ColumnsAhead;
#[cfg(any(feature = "python", test))]
use crate::ahead::{LINE, LinesOfColumns};
use crate::elementary::ln;
use crate::error::Error;
use crate::float::Float;
use crate::spare::bytes;

/// Rows that kernels work on together. Two registers of each kind, where one would spend half its time
/// waiting for the last operation on it.
pub const GROUP: usize = 32;

/// One value for each row of a group, where vectors lie whole in lines of the cache.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Column<F>(pub [F; GROUP]);

/// Labels are 32-bit integers in prediction sets.
pub(crate) const MOST_LABELS: usize = i32::MAX as usize;

/// Where a source writes rows that it cannot lend.
#[derive(Debug)]
pub struct RowBuffer<F> {
    values: Vec<F>,
    /// What a source makes of rows that another one lends.
    made: Vec<F>,
    /// The rows that it holds, by index.
    held: Range<usize>,
    /// Where they begin.
    #[cfg(any(feature = "python", test))]
    start: usize,
    /// Whether who has it fetches [`Rows::columns_ahead`].
    #[cfg(feature = "python")]
    pub(crate) is_fetching: bool,
}

impl<F> Default for RowBuffer<F> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            made: Vec::new(),
            held: 0..0,
            #[cfg(any(feature = "python", test))]
            start: 0,
            #[cfg(feature = "python")]
            is_fetching: false,
        }
    }
}

impl<F: Float> RowBuffer<F> {
    /// Forgets what it held, for the rows of another source, and a caller that fetches [`Rows::columns_ahead`] in the
    /// course of its work, or does not.
    #[cfg_attr(not(feature = "python"), allow(unused_variables, reason = "there are no columns to fetch"))]
    pub(crate) fn begin(&mut self, is_fetching: bool) {
        self.held = 0..0;
        #[cfg(feature = "python")]
        {
            self.is_fetching = is_fetching;
        }
    }

    /// Bytes that it has room for.
    pub(crate) fn bytes(&self) -> usize {
        bytes(&self.values) + bytes(&self.made)
    }

    /// The values, none: a source writes its rows here, one after the other, and lends them from here.
    pub fn emptied(&mut self) -> &mut Vec<F> {
        self.held = 0..0;
        self.values.clear();
        &mut self.values
    }

    /// Rows that were written before, [`held_stride`] apart, if all of these are among them.
    #[inline(always)]
    #[cfg(any(feature = "python", test))]
    pub(crate) fn held(&self, rows: &Range<usize>, n_labels: usize) -> Option<&[F]> {
        let (is_held, stride) =
            (self.held.start <= rows.start && rows.end <= self.held.end, held_stride::<F>(n_labels));
        let start = self.start.wrapping_add(rows.start.wrapping_sub(self.held.start).wrapping_mul(stride));
        is_held.then(|| &self.values[start..][..rows.len() * stride])
    }

    /// Room for these rows, [`held_stride`] apart, which are remembered.
    #[cfg(any(feature = "python", test))]
    pub(crate) fn hold(&mut self, rows: Range<usize>, n_labels: usize) -> &mut [F] {
        let (length, line) = (rows.len() * held_stride::<F>(n_labels), LINE / size_of::<F>());
        self.values.resize(length + line, F::ZERO);
        self.start = self.values.as_ptr().align_offset(LINE).min(line);
        self.held = rows;
        &mut self.values[self.start..][..length]
    }
}

/// How far apart the rows are that a buffer holds: whole lines, so that vectors are written to one line each, and an odd
/// number of them, so that not all rows fall into the same few places of the cache.
#[inline(always)]
#[cfg(any(feature = "python", test))]
pub(crate) fn held_stride<F>(n_labels: usize) -> usize {
    ((n_labels * size_of::<F>()).div_ceil(LINE) | 1) * LINE / size_of::<F>()
}

/// A matrix of logits, a few rows at a time.
pub trait Rows<F: Float>: Sync {
    /// Number of rows.
    fn n_rows(&self) -> usize;

    /// Number of labels, K.
    fn n_labels(&self) -> usize;

    /// Puts `count` rows from `first` on, at most [`GROUP`], into `lent`: from where they lie, or written into
    /// `scratch`. The unused places repeat the first row. They are not the result, which would be copied.
    ///
    /// # Errors
    /// When a row cannot be turned into logits.
    fn group<'a>(
        &'a self,
        first: usize,
        count: usize,
        scratch: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; GROUP],
    ) -> Result<(), Error>;

    /// The memory that rows from `first` on, up to twice [`GROUP`] of them, will be lent from; empty where there is
    /// no such thing.
    fn ahead(&self, _first: usize) -> &[F] {
        &[]
    }

    /// The same of a column-major matrix, for which `ahead` is empty: rows that are worth fetching while those from
    /// `first` on are worked on.
    #[doc(hidden)]
    fn columns_ahead(&self, _first: usize) -> Option<ColumnsAhead> {
        None
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
    fn group<'a>(
        &'a self,
        first: usize,
        count: usize,
        scratch: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; GROUP],
    ) -> Result<(), Error> {
        (**self).group(first, count, scratch, lent)
    }

    fn ahead(&self, first: usize) -> &[F] {
        (**self).ahead(first)
    }

    fn columns_ahead(&self, first: usize) -> Option<ColumnsAhead> {
        (**self).columns_ahead(first)
    }

    fn position(&self, index: usize) -> usize {
        (**self).position(index)
    }
}

/// Rows of `n_labels` side by side in `data`, as a group.
#[inline(always)]
pub(crate) fn lend<'a, F>(data: &'a [F], n_labels: usize, lent: &mut [&'a [F]; GROUP]) {
    lend_apart(data, n_labels, n_labels, lent);
}

/// The same of rows that begin `stride` apart.
#[inline(always)]
pub(crate) fn lend_apart<'a, F>(data: &'a [F], n_labels: usize, stride: usize, lent: &mut [&'a [F]; GROUP]) {
    let (first, mut rest) = (&data[..stride], data);
    for place in lent {
        // Not by `chunks_exact`, which divides.
        let (row, after) = rest.split_at_checked(stride).unwrap_or((first, &[]));
        (*place, rest) = (&row[..n_labels], after);
    }
}

/// Some rows of some columns of a column-major matrix: values side by side in each column, and columns `stride` bytes
/// apart.
#[cfg(any(feature = "python", test))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Square<'a, F> {
    pub(crate) start: *const F,
    pub(crate) stride: isize,
    pub(crate) n_columns: usize,
    pub(crate) n_rows: usize,
    values: PhantomData<&'a [F]>,
}

#[cfg(any(feature = "python", test))]
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
        // SAFETY: a column holds GROUP values, and they follow each other.
        unsafe { Self::new(columns.as_ptr().cast(), stride, columns.len(), n_rows.min(GROUP)) }
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

/// Writes a square into rows that begin `stride` apart, one for each of its rows, from label `first` on. `ahead` is fetched
/// meanwhile.
#[inline(always)]
#[cfg(any(feature = "python", test))]
pub(crate) fn write_rows<F: Float>(
    square: &Square<'_, F>,
    first: usize,
    stride: usize,
    ahead: LinesOfColumns,
    rows: &mut [F],
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(rows) = F::as_f32_mut(rows) {
        let Square { start, stride: apart, n_columns, n_rows, .. } = *square;
        let narrow = Square { start: start.cast(), stride: apart, n_columns, n_rows, values: PhantomData };
        if crate::simd::x86_64::write_rows(&narrow, first, stride, ahead, rows).is_some() {
            return;
        }
    }
    for column in 0..square.n_columns {
        ahead.fetch_in_step(column, square.n_columns);
        for (row, &value) in rows.chunks_exact_mut(stride).zip(square.column(column)) {
            row[first + column] = value;
        }
    }
}

/// A dense row-major matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, F> {
    data: &'a [F],
    n_labels: usize,
}

impl<'a, F: Float> Matrix<'a, F> {
    /// Views `data` as rows of `n_labels`.
    ///
    /// # Errors
    /// When `n_labels` is 0, above 2^31 - 1, or does not divide the length of `data`.
    pub fn new(data: &'a [F], n_labels: usize) -> Result<Self, Error> {
        if !(1..=MOST_LABELS).contains(&n_labels) {
            return Err(Error::argument("n_labels", "at least 1 and below 2^31", n_labels));
        }
        if !data.len().is_multiple_of(n_labels) {
            return Err(Error::argument("data", "a whole number of rows", data.len()));
        }
        Ok(Self { data, n_labels })
    }
}

impl<F: Float> Rows<F> for Matrix<'_, F> {
    fn n_rows(&self) -> usize {
        self.data.len() / self.n_labels
    }

    fn n_labels(&self) -> usize {
        self.n_labels
    }

    #[inline(always)]
    fn group<'a>(
        &'a self,
        first: usize,
        count: usize,
        _scratch: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; GROUP],
    ) -> Result<(), Error> {
        lend(&self.data[first * self.n_labels..][..count * self.n_labels], self.n_labels, lent);
        Ok(())
    }

    #[inline(always)]
    fn ahead(&self, first: usize) -> &[F] {
        let end = self.data.len().min((first + 2 * GROUP) * self.n_labels);
        self.data.get(first * self.n_labels..end).unwrap_or_default()
    }
}

/// Rows of probabilities, read as the logits `log p`: the softmax does not see the difference.
#[derive(Clone, Copy, Debug)]
pub struct LogProbabilities<R>(pub R);

/// How far a row of probabilities may be from summing to 1. Float16 softmax over 1000 labels is off
/// by up to 5e-4; logits or percentages passed by mistake are off by far more.
const SUM_TOLERANCE: f64 = 1e-2;

/// Turns a row of probabilities into the logits `log p`, in place.
pub(crate) fn log_probabilities<F: Float>(row: &mut [F], position: usize) -> Result<(), Error> {
    let mut sum = 0.0;
    for (column, p) in row.iter_mut().enumerate() {
        let value = p.to_f64();
        if !(0.0..=1.0 + SUM_TOLERANCE).contains(&value) {
            return Err(Error::Probability { row: position, column, value });
        }
        sum += value;
        *p = F::from_f64(ln(value));
    }
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(Error::ProbabilitySum { row: position, sum });
    }
    Ok(())
}

impl<F: Float, R: Rows<F>> Rows<F> for LogProbabilities<R> {
    fn n_rows(&self) -> usize {
        self.0.n_rows()
    }

    fn n_labels(&self) -> usize {
        self.0.n_labels()
    }

    fn group<'a>(
        &'a self,
        first: usize,
        count: usize,
        scratch: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; GROUP],
    ) -> Result<(), Error> {
        let mut own = std::mem::take(&mut scratch.made);
        own.clear();
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        self.0.group(first, count, scratch, &mut group)?;
        for row in &group[..count] {
            own.extend_from_slice(row);
        }
        for (i, row) in own.chunks_exact_mut(self.n_labels()).enumerate() {
            log_probabilities(row, self.position(first + i))?;
        }
        scratch.made = own;
        lend(&scratch.made, self.n_labels(), lent);
        Ok(())
    }

    fn position(&self, index: usize) -> usize {
        self.0.position(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_held_whole_or_not_at_all() {
        let mut buffer = RowBuffer::<f32>::default();
        assert_eq!(buffer.held(&(0..1), 2), None);
        let stride = held_stride::<f32>(2);
        let room = buffer.hold(4..7, 2);
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

    #[test]
    fn shapes_are_checked() {
        assert!(Matrix::new(&[0.0_f32; 6], 3).is_ok());
        assert!(Matrix::new(&[0.0_f32; 6], 4).is_err());
        assert!(Matrix::new(&[0.0_f32; 6], 0).is_err());
        assert!(Matrix::<f32>::new(&[], 1 << 31).is_err());
    }

    fn columns_become_rows_in<F: Float>() {
        let (n, k) = (19, 37);
        let value = |row: usize, label: usize| F::from_f64((row * 100 + label) as f64);
        let columns: Vec<Column<F>> =
            (0..k).map(|label| Column(std::array::from_fn(|row| value(row, label)))).collect();
        let mut rows = vec![F::ZERO; n * k];
        for first in (0..k).step_by(GROUP) {
            let square = Square::of(&columns[first..k.min(first + GROUP)], n);
            write_rows(&square, first, k, LinesOfColumns::none(), &mut rows);
        }
        assert!((0..n * k).all(|i| rows[i] == value(i / k, i % k)));
    }

    #[test]
    fn columns_become_rows() {
        columns_become_rows_in::<f32>();
        columns_become_rows_in::<f64>();
    }

    #[test]
    fn groups_are_consecutive_rows() {
        let data: Vec<f64> = (0..60).map(f64::from).collect();
        let rows = Matrix::new(&data, 3).unwrap();
        let mut scratch = RowBuffer::default();
        let mut group: [&[f64]; GROUP] = [&[]; GROUP];
        rows.group(15, 5, &mut scratch, &mut group).unwrap();
        assert_eq!(group[4], &[57.0, 58.0, 59.0]);
        assert_eq!(group[5], group[0]);
    }

    #[test]
    fn probabilities_are_checked() {
        let read = |data: &[f64]| {
            let rows = LogProbabilities(Matrix::new(data, data.len()).unwrap());
            let mut scratch = RowBuffer::default();
            let mut group: [&[f64]; GROUP] = [&[]; GROUP];
            rows.group(0, 1, &mut scratch, &mut group)?;
            Ok(group[0].to_vec())
        };
        assert_eq!(read(&[1.0, 0.0]).unwrap(), vec![0.0, f64::NEG_INFINITY]);
        assert!(matches!(read(&[1.5, -0.5]), Err(Error::Probability { column: 0, .. })));
        assert!(matches!(read(&[f64::NAN, 1.0]), Err(Error::Probability { column: 0, .. })));
        assert!(matches!(read(&[0.5, 0.2]), Err(Error::ProbabilitySum { .. })));
    }
}
