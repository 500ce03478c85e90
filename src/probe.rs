//! What do benchmarks and fuzzing need from inside the crate? This is no part of the interface.

use crate::error::Error;
use crate::kernels::{self, Float};
use crate::math::{Grain, term};
use crate::predictor::Json;
use crate::rows::{Rows, Tile};
use crate::run::{Plan, Planes, Reads, TileWork, fill_tiles};
use crate::score::check_length;
use crate::simd::{NoLines, Simd, dispatch};

/// Writes the largest logit of each row to `out`. Benchmarks compare other passes with this one, which only
/// reads. Values are not checked: NaN may be passed over or not.
///
/// # Errors
/// When the plan asks for no thread, or `out` has another length than there are rows.
pub fn row_maxima<F: Float, R: Rows<F>>(rows: &R, plan: &Plan<'_>, out: &mut [F]) -> Result<(), Error> {
    check_length("out", out.len(), rows.n_rows())?;
    fill_tiles::<F, F, _>(rows, &Maxima, 1, 1, plan, out)
}

struct Maxima;

impl<F: Float> TileWork<F> for Maxima {
    type Scratch = ();
    type Out<'a> = Planes<'a, F>;

    fn reads(&self) -> Option<Reads> {
        None
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        _s: S,
        tile: &mut Tile<'_, F>,
        (): &mut (),
        out: &mut Planes<'_, F>,
    ) -> Result<(), Error> {
        for (i, max) in out.only()[tile.at..][..tile.count].iter_mut().enumerate() {
            *max = largest(tile.rows[i]);
        }
        Ok(())
    }
}

/// The exact sum of `2^(scale (z - shift))` over the row, in quanta.
#[must_use]
pub fn exact_sum(row: &[f32], shift: f32, scale: f32) -> i128 {
    dispatch!(s => kernels::sum(s, row, shift, scale, Grain::of(row.len()), NoLines))
}

/// [`exact_sum`] added up in float64, in order: a benchmark measures what exactness costs against this.
#[must_use]
pub fn plain_sum(row: &[f32], shift: f32, scale: f32) -> f64 {
    dispatch!(_s => {
        let mut sum = 0.0;
        for &z in row {
            sum += f64::from(term(z, shift, scale));
        }
        sum
    })
}

/// The text of a JSON object with the right hash, which fuzzing needs to get past the hash.
#[must_use]
pub fn sealed(text: &str) -> Option<String> {
    let document = Json::parse(text).ok().filter(|document| matches!(document, Json::Object(_)))?;
    Some(document.sealed().pretty())
}

/// Several registers of maxima, so that no comparison waits for another.
const LANES: usize = 64;
/// Lanes for what is left of a row after chunks of [`LANES`]: most of a short row.
const FEW: usize = 8;

/// Takes the maximum of each lane over the chunks.
#[inline(always)]
fn fold<const N: usize, F: Float>(lanes: &mut [F; N], chunks: &[[F; N]]) {
    for chunk in chunks {
        for lane in 0..N {
            lanes[lane] = chunk[lane].larger(lanes[lane]);
        }
    }
}

/// The largest value of a row. Lanes are folded in halves: in a chain each comparison would wait for another,
/// which takes longer than reading a short row.
#[inline(always)]
fn largest<F: Float>(row: &[F]) -> F {
    let (whole, rest) = row.as_chunks::<LANES>();
    let (few, rest) = rest.as_chunks::<FEW>();
    let mut lanes = [F::NEG_INFINITY; FEW];
    if !whole.is_empty() {
        let mut wide = [F::NEG_INFINITY; LANES];
        fold(&mut wide, whole);
        fold(&mut lanes, wide.as_chunks().0);
    }
    fold(&mut lanes, few);
    let (mut half, mut top) = ([F::NEG_INFINITY; FEW / 2], [F::NEG_INFINITY]);
    for lane in 0..FEW / 2 {
        half[lane] = lanes[lane].larger(lanes[lane + FEW / 2]);
    }
    fold(&mut top, rest.as_chunks().0);
    let (even, odd) = (half[0].larger(half[2]), half[1].larger(half[3]));
    top[0].larger(even.larger(odd))
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
