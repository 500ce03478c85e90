//! How does a dense row-major matrix in memory lend its rows?

use super::buffer::RowBuffer;
use super::source::{MOST_LABELS, Rows, lend};
use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::simd::Ahead;

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
    fn lend<'a>(
        &'a self,
        first: usize,
        count: usize,
        _buffer: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; TILE],
    ) -> Result<(), Error> {
        lend(&self.data[first * self.n_labels..][..count * self.n_labels], self.n_labels, lent);
        Ok(())
    }

    #[inline(always)]
    fn ahead(&self, first: usize, count: usize) -> Ahead {
        let start = (first + count) * self.n_labels;
        let end = self.data.len().min(start + 2 * TILE * self.n_labels);
        self.data
            .get(start..end)
            .map_or(Ahead::Unknown, |rows| Ahead::Rows(rows.as_ptr().cast(), size_of_val(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_checked() {
        assert!(Matrix::new(&[0.0_f32; 6], 3).is_ok());
        assert!(Matrix::new(&[0.0_f32; 6], 4).is_err());
        assert!(Matrix::new(&[0.0_f32; 6], 0).is_err());
        assert!(Matrix::<f32>::new(&[], 1 << 31).is_err());
    }

    #[test]
    fn tiles_are_consecutive_rows() {
        let data: Vec<f64> = (0..60).map(f64::from).collect();
        let rows = Matrix::new(&data, 3).unwrap();
        let mut buffer = RowBuffer::default();
        let mut lent: [&[f64]; TILE] = [&[]; TILE];
        rows.lend(15, 5, &mut buffer, &mut lent).unwrap();
        assert_eq!(lent[4], &[57.0, 58.0, 59.0]);
        assert_eq!(lent[5], lent[0]);
    }
}
