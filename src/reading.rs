//! A pass over the rows that does nothing but read them: what the benchmarks measure the others by.

use std::ops::Range;

use crate::batch::groups;
use crate::error::Error;
use crate::float::Float;
use crate::rows::{GROUP, RowBuffer, Rows};
use crate::simd::instances;
use crate::threads::{Plan, Size, fill};

/// Several registers of maxima, so that no comparison waits for the one before.
const LANES: usize = 64;
/// Rows shorter than [`LANES`] are mostly remainder, which is taken in this many lanes first.
const FEW: usize = 8;

/// Largest logit of each row, written to `out`. Values are not checked: NaN is passed over or not.
///
/// # Errors
/// When the plan asks for no thread, or `out` has another length than there are rows.
pub fn row_maxima<F: Float, R: Rows<F>>(rows: &R, plan: &Plan<'_>, out: &mut [F]) -> Result<(), Error> {
    let (found, expected) = (out.len(), rows.n_rows());
    if found != expected {
        return Err(Error::Length { name: "out", found, expected });
    }
    fill(out, 1, Size::new(expected, rows.n_labels(), 1), plan, |range, parts| {
        maxima_block::<F, R>(rows, range, parts.only())
    })
}

instances! {
    fn maxima_block<F: Float, R: Rows<F>>(rows: &R, range: Range<usize>, out: &mut [F]) -> Result<(), Error> = maxima_rows::<F, R>;
}

#[inline(always)]
fn maxima_rows<F: Float, R: Rows<F>>(rows: &R, range: Range<usize>, out: &mut [F]) -> Result<(), Error> {
    let start = range.start;
    let mut scratch = RowBuffer::default();
    for (first, count) in groups(rows, range) {
        let mut group: [&[F]; GROUP] = [&[]; GROUP];
        rows.group(first, count, &mut scratch, &mut group)?;
        for i in 0..count {
            out[first - start + i] = largest(group[i]);
        }
    }
    Ok(())
}

/// Lanes are folded in halves: in a chain each comparison would wait for the one before, which for short
/// rows takes longer than reading them.
#[inline(always)]
fn largest<F: Float>(row: &[F]) -> F {
    let (whole, rest) = row.as_chunks::<LANES>();
    let (few, rest) = rest.as_chunks::<FEW>();
    let mut lanes = [F::NEG_INFINITY; FEW];
    if !whole.is_empty() {
        let mut wide = [F::NEG_INFINITY; LANES];
        for chunk in whole {
            for lane in 0..LANES {
                wide[lane] = chunk[lane].larger(wide[lane]);
            }
        }
        for chunk in wide.as_chunks::<FEW>().0 {
            for lane in 0..FEW {
                lanes[lane] = chunk[lane].larger(lanes[lane]);
            }
        }
    }
    for chunk in few {
        for lane in 0..FEW {
            lanes[lane] = chunk[lane].larger(lanes[lane]);
        }
    }
    let mut top = F::NEG_INFINITY;
    for &z in rest {
        top = z.larger(top);
    }
    let mut half = [F::NEG_INFINITY; FEW / 2];
    for lane in 0..FEW / 2 {
        half[lane] = lanes[lane].larger(lanes[lane + FEW / 2]);
    }
    let (even, odd) = (half[0].larger(half[2]), half[1].larger(half[3]));
    top.larger(even.larger(odd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Matrix;

    #[test]
    fn finds_the_largest_wherever_it_is() {
        for k in [1, 7, 8, 10, 63, 64, 65, 200] {
            let n = k + 3;
            let mut data = vec![-5.0_f32; n * k];
            for i in 0..n {
                data[i * k + i % k] = i as f32;
            }
            let mut out = vec![0.0; n];
            row_maxima(&Matrix::new(&data, k).unwrap(), &Plan::default(), &mut out).unwrap();
            assert!(out.iter().enumerate().all(|(i, &max)| max == i as f32), "{k}: {out:?}");
        }
        assert!(row_maxima(&Matrix::new(&[0.0_f64; 6], 3).unwrap(), &Plan::default(), &mut [0.0]).is_err());
    }
}
