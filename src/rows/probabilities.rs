//! How are rows of probabilities read as logits, and what is checked of them?

use super::buffer::RowBuffer;
use super::source::{Rows, lend};
use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::math::ln;

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

    fn lend<'a>(
        &'a self,
        first: usize,
        count: usize,
        buffer: &'a mut RowBuffer<F>,
        lent: &mut [&'a [F]; TILE],
    ) -> Result<(), Error> {
        let mut own = std::mem::take(&mut buffer.made);
        own.clear();
        let mut probabilities: [&[F]; TILE] = [&[]; TILE];
        self.0.lend(first, count, buffer, &mut probabilities)?;
        for row in &probabilities[..count] {
            own.extend_from_slice(row);
        }
        // Rows without labels have no chunks.
        for (i, row) in own.chunks_exact_mut(self.n_labels().max(1)).enumerate() {
            log_probabilities(row, self.position(first + i))?;
        }
        buffer.made = own;
        lend(&buffer.made, self.n_labels(), lent);
        Ok(())
    }

    fn position(&self, index: usize) -> usize {
        self.0.position(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Matrix;

    #[test]
    fn probabilities_are_checked() {
        let read = |data: &[f64]| {
            let rows = LogProbabilities(Matrix::new(data, data.len()).unwrap());
            let mut buffer = RowBuffer::default();
            let mut lent: [&[f64]; TILE] = [&[]; TILE];
            rows.lend(0, 1, &mut buffer, &mut lent)?;
            Ok(lent[0].to_vec())
        };
        assert_eq!(read(&[1.0, 0.0]).unwrap(), vec![0.0, f64::NEG_INFINITY]);
        assert!(matches!(read(&[1.5, -0.5]), Err(Error::Probability { column: 0, .. })));
        assert!(matches!(read(&[f64::NAN, 1.0]), Err(Error::Probability { column: 0, .. })));
        assert!(matches!(read(&[0.5, 0.2]), Err(Error::ProbabilitySum { .. })));
    }
}
