//! What is the p-value of a label, given its score and those of calibration?

use crate::error::Error;
use crate::kernels::Float;
use crate::math::Randomness;
use crate::rows::Rows;
use crate::run::Plan;
use crate::score::{Scale, Scoring, all_labels};

/// Plain p-value `(1 + #{S_i >= s}) / (n + 1)`; `P(p <= alpha) <= alpha` for every alpha.
#[inline]
#[must_use]
pub fn p_value(sorted: &[f64], score: f64) -> f64 {
    let below = sorted.partition_point(|&s| s < score);
    (1 + sorted.len() - below) as f64 / (sorted.len() + 1) as f64
}

/// Smoothed p-value `(#{S_i > s} + v (1 + #{S_i = s})) / (n + 1)`, exactly uniform for v uniform.
#[inline]
#[must_use]
pub fn smoothed_p_value(sorted: &[f64], score: f64, v: f64) -> f64 {
    let below = sorted.partition_point(|&s| s < score);
    let upto = sorted.partition_point(|&s| s <= score);
    let ties = (1 + upto - below) as f64;
    v.mul_add(ties, (sorted.len() - upto) as f64) / (sorted.len() + 1) as f64
}

/// Conformal p-values of all labels against sorted ranked calibration scores, `out` as rows of K.
///
/// # Errors
/// For a row that is not one of logits, or U outside `[0, 1]`.
pub fn p_values<F: Float, R: Rows<F>>(
    rows: &R,
    scoring: &Scoring,
    sorted: &[f64],
    smoothed: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    all_labels(rows, scoring, Scale::Ranked, randomness, plan, out, &|i, words, score| {
        if smoothed {
            smoothed_p_value(sorted, score, randomness.p_value_uniform(i, words))
        } else {
            p_value(sorted, score)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Matrix;
    use crate::score::{Reweight, Score};

    #[test]
    fn by_counting() {
        let sorted = [-1.0, 0.0, 0.0, 2.0, f64::INFINITY];
        for score in [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, f64::INFINITY] {
            let at_least = sorted.iter().filter(|&&s| s >= score).count();
            let above = sorted.iter().filter(|&&s| s > score).count() as f64;
            let ties = sorted.iter().filter(|&&s| s == score).count() as f64;
            assert_eq!(p_value(&sorted, score), (1 + at_least) as f64 / 6.0);
            let smoothed = smoothed_p_value(&sorted, score, 0.25);
            assert!((smoothed - (above + 0.25 * (1.0 + ties)) / 6.0).abs() < 1e-15);
        }
        assert_eq!(p_value(&[], 0.0), 1.0);
    }

    #[test]
    fn a_row_has_the_p_values_that_it_has_alone() {
        let scoring = Scoring::new(Score::Aps, Reweight::NONE, 1.0).unwrap();
        let (randomness, plan) = (Randomness::default(), Plan::default());
        let sorted = [-1.0, 0.2, 0.2, 0.7, 1.5, 3.0];
        for k in [3, 30] {
            let data: Vec<f32> = (0..40 * k as u16).map(|i| f32::from(i * 7 % 11) - 4.0).collect();
            let rows = Matrix::new(&data, k).unwrap();
            for smoothed in [false, true] {
                let mut all = vec![0.0; 40 * k];
                p_values(&rows, &scoring, &sorted, smoothed, &randomness, &plan, &mut all).unwrap();
                for (row, expected) in data.chunks_exact(k).zip(all.chunks_exact(k)) {
                    let (row, mut found) = (Matrix::new(row, k).unwrap(), vec![0.0; k]);
                    p_values(&row, &scoring, &sorted, smoothed, &randomness, &plan, &mut found).unwrap();
                    assert_eq!(found, expected);
                }
            }
        }
    }
}
