//! The kernels of float64: over vectors along a row, where there are any; portable across rows.

use super::{Float, Scanned, entropy_sums, in_vectors, rows_f64, scan, sums};
use crate::math::Grain;
use crate::simd::{Lines, Simd};

impl Float for f64 {
    #[inline(always)]
    fn scan<S: Simd>(s: S, row: &[f64]) -> Scanned<f64> {
        in_vectors!(s, rows_f64::scan::<S::Vectors>(row));
        scan::portable(row)
    }

    #[inline(always)]
    fn sum<S: Simd>(s: S, row: &[f64], shift: f64, scale: f64, grain: Grain) -> i128 {
        if grain == Grain::Coarse {
            in_vectors!(s, rows_f64::sum::<S::Vectors, true>(row, shift, scale));
        } else {
            in_vectors!(s, rows_f64::sum::<S::Vectors, false>(row, shift, scale));
        }
        sums::portable(row, shift, scale, grain)
    }

    #[inline(always)]
    fn entropy_sums<S: Simd>(s: S, row: &[f64], shift: f64, lines: impl Lines) -> (f64, f64) {
        if row.len() > entropy_sums::MOST_SIDE_BY_SIDE {
            in_vectors!(s, rows_f64::entropy_sums::<S::Vectors>(row, shift, lines));
        }
        s.vectorize(
            #[inline(always)]
            move || entropy_sums::portable(row, shift),
        )
    }
}
