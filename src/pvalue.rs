//! Conformal p-values from the sorted calibration scores: O(log n) a label.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
