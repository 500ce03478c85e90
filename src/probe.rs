//! Kernels by themselves, for the micro-benchmarks in `benches/`. No part of the interface.

pub use crate::reading::row_maxima;

/// The exact sum of `2^(scale (z - shift))` over the row, in quanta.
#[must_use]
pub fn exact_sum(row: &[f32], shift: f32, scale: f32) -> i128 {
    crate::sum::sum_terms(row, shift, scale)
}

/// The same added up in float64 as it comes: what exactness is measured against.
#[must_use]
pub fn plain_sum(row: &[f32], shift: f32, scale: f32) -> f64 {
    row.iter().map(|&z| f64::from(crate::sum::term(z, shift, scale))).sum()
}
