//! Kernels by themselves, for the micro-benchmarks in `benches/`. No part of the interface.

use crate::simd::instances;

pub use crate::reading::row_maxima;

/// The exact sum of `2^(scale (z - shift))` over the row, in quanta.
#[must_use]
pub fn exact_sum(row: &[f32], shift: f32, scale: f32) -> i128 {
    crate::sum::sum_terms(row, shift, scale)
}

instances! {
    /// The same added up in float64 as it comes: what exactness costs is measured against it.
    #[must_use]
    pub fn plain_sum(row: &[f32], shift: f32, scale: f32) -> f64 = plain_sum_body;
}

#[inline(always)]
fn plain_sum_body(row: &[f32], shift: f32, scale: f32) -> f64 {
    let mut sum = 0.0;
    for &z in row {
        sum += f64::from(crate::sum::term(z, shift, scale));
    }
    sum
}
