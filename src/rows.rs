//! Where rows come from. Kernels ask for one row at a time; a source that holds it as it is needed
//! lends it, any other writes it into the caller's scratch, so no matrix is ever converted whole.

use crate::elementary::ln;
use crate::error::Error;
use crate::float::Float;

/// A matrix of logits, one row at a time.
pub trait Rows<F: Float>: Sync {
    /// Number of rows.
    fn n_rows(&self) -> usize;

    /// Number of labels, K.
    fn n_labels(&self) -> usize;

    /// Row `index`, lent or written into `scratch`.
    ///
    /// # Errors
    /// When the row cannot be turned into logits.
    fn row<'a>(&'a self, index: usize, scratch: &'a mut Vec<F>) -> Result<&'a [F], Error>;

    /// The number by which errors name row `index`.
    fn position(&self, index: usize) -> usize {
        index
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
    /// When `n_labels` is 0 or does not divide the length of `data`.
    pub fn new(data: &'a [F], n_labels: usize) -> Result<Self, Error> {
        if n_labels == 0 {
            return Err(Error::argument("n_labels", "at least 1", n_labels));
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

    fn row<'a>(&'a self, index: usize, _scratch: &'a mut Vec<F>) -> Result<&'a [F], Error> {
        Ok(&self.data[index * self.n_labels..][..self.n_labels])
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

    fn row<'a>(&'a self, index: usize, scratch: &'a mut Vec<F>) -> Result<&'a [F], Error> {
        let mut own = std::mem::take(scratch);
        let row = self.0.row(index, scratch)?;
        own.clear();
        own.extend_from_slice(row);
        *scratch = own;
        log_probabilities(scratch, self.position(index))?;
        Ok(scratch)
    }

    fn position(&self, index: usize) -> usize {
        self.0.position(index)
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
    }

    #[test]
    fn probabilities_are_checked() {
        let read = |data: &[f64]| {
            let rows = LogProbabilities(Matrix::new(data, data.len()).unwrap());
            let mut scratch = Vec::new();
            rows.row(0, &mut scratch).map(<[f64]>::to_vec)
        };
        assert_eq!(read(&[1.0, 0.0]).unwrap(), vec![0.0, f64::NEG_INFINITY]);
        assert!(matches!(read(&[1.5, -0.5]), Err(Error::Probability { column: 0, .. })));
        assert!(matches!(read(&[f64::NAN, 1.0]), Err(Error::Probability { column: 0, .. })));
        assert!(matches!(read(&[0.5, 0.2]), Err(Error::ProbabilitySum { .. })));
    }
}
