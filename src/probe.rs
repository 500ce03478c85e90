//! Parts by themselves, for the micro-benchmarks in `benches/` and for fuzzing. No part of the interface.

use crate::simd::instances;

pub use crate::reading::row_maxima;

/// The exact sum of `2^(scale (z - shift))` over the row, in quanta.
#[must_use]
pub fn exact_sum(row: &[f32], shift: f32, scale: f32) -> i128 {
    crate::sum::sum_terms(row, shift, scale, crate::sum::Grain::of(row.len()))
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

/// The text of a JSON object with the hash that belongs to it: what fuzzing needs to get past the hash.
#[must_use]
pub fn sealed(text: &str) -> Option<String> {
    use crate::json::Json;

    let Ok(Json::Object(mut fields)) = Json::parse(text) else { return None };
    fields.retain(|(name, _)| name != "sha256");
    let digest = Json::Object(fields.clone()).digest();
    fields.push(("sha256".into(), Json::Text(digest.into())));
    Some(Json::Object(fields).pretty())
}
