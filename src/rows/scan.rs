//! What is read off one row before any score: its largest logits, its fingerprint, its entropy?
//!
//! With `m` the largest and `s` the second largest logit, every sum is taken relative to `s` and brought back
//! by `E = exp(s - m)` with the exponents of float64, so entropy keeps the relative precision of the row's
//! type down to the smallest float64 (see [`crate::math`]). Cost: one pass of comparisons, one of
//! exponentials.

use crate::error::Error;
use crate::kernels::{self, Float, Scanned};
use crate::math::{EntropySums, entropies, exp, one_minus_exp_neg};
use crate::simd::{NoLines, Simd};

/// What the first pass over a row finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<F> {
    /// Largest logit, always finite.
    pub(crate) max: F,
    /// Second largest, equal to `max` when two labels share it, `-inf` when no other is possible.
    pub(crate) second: F,
    /// Wrapping sum of the logits' bit patterns.
    pub(crate) bits: u32,
}

impl<F: Float> Scan<F> {
    /// Reads the row once and refuses NaN, +inf and rows without a possible label.
    #[inline(always)]
    pub(crate) fn of<S: Simd>(s: S, row: &[F], index: usize) -> Result<Self, Error> {
        let Scanned { max, second, bits, is_poisoned } = kernels::scan(s, row);
        if is_poisoned {
            check_row(row, index)?;
        }
        if max == F::NEG_INFINITY {
            return Err(Error::NoPossibleLabel { row: index });
        }
        Ok(Self { max, second, bits })
    }

    /// The words that the row's random numbers are made of.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u64; 2] {
        [self.max.wide_pattern(), u64::from(self.bits)]
    }

    /// The gap between the two largest logits.
    #[inline(always)]
    fn gap(&self) -> f64 {
        self.max.to_f64() - self.second.to_f64()
    }

    /// The sums behind entropy.
    #[inline(always)]
    fn entropy_sums<S: Simd>(&self, s: S, row: &[F]) -> EntropySums<1> {
        let (exponentials, weighted) = kernels::entropy_sums(s, row, self.second, NoLines);
        EntropySums::new(&[exponentials], &[weighted], &[self.gap()])
    }

    /// Whether only one label is possible.
    #[inline(always)]
    fn is_certain(&self) -> bool {
        self.second == F::NEG_INFINITY
    }
}

/// Refuses NaN and +inf; -inf is a label that cannot occur.
#[cold]
pub(super) fn check_row<F: Float>(row: &[F], index: usize) -> Result<(), Error> {
    let invalid = row.iter().position(|z| z.to_f64().is_nan() || *z == F::INFINITY);
    invalid.map_or(Ok(()), |column| Err(Error::Logit { row: index, column, value: row[column].to_f64() }))
}

/// Entropy in nats, `H = log1p(sum' exp(-d_k)) + sum f_k d_k`, the first sum over all but the top label.
#[inline(always)]
pub(crate) fn entropy<S: Simd, F: Float>(s: S, row: &[F], scan: &Scan<F>) -> f64 {
    if scan.is_certain() {
        return 0.0;
    }
    let [entropy] = entropies::<F, 1>(&[scan.gap()], &scan.entropy_sums(s, row));
    entropy
}

/// Margin `f_(1) - f_(2)`; 1 when no second label is possible.
#[inline(always)]
pub(crate) fn margin<S: Simd, F: Float>(s: S, row: &[F], scan: &Scan<F>) -> f64 {
    if scan.is_certain() {
        return 1.0;
    }
    let EntropySums { exponentials: [exponentials], .. } = scan.entropy_sums(s, row);
    let gap = scan.gap();
    one_minus_exp_neg(gap) / exp(-gap).mul_add(exponentials, 1.0)
}

/// Gini impurity `sum f (1 - f)`, the top label's term from the others' mass.
#[inline(always)]
pub(crate) fn gini<S: Simd, F: Float>(s: S, row: &[F], scan: &Scan<F>) -> f64 {
    if scan.is_certain() {
        return 0.0;
    }
    let EntropySums { exponentials: [exponentials], .. } = scan.entropy_sums(s, row);
    let e = exp(-scan.gap());
    let others = e * exponentials;
    let total = 1.0 + others;
    let squares = kernels::squares(s, row, scan.second) - if scan.gap() == 0.0 { 1.0 } else { 0.0 };
    others / (total * total) + (others - e * e * squares / total) / total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::baseline;

    #[test]
    fn scan_reads_the_row() {
        fn largest<F: Float>(row: &[F]) -> (F, F) {
            let scan = Scan::of(baseline(), row, 0).unwrap();
            (scan.max, scan.second)
        }
        assert_eq!(largest(&[1.0_f32, 5.0, -2.0, 5.0]), (5.0, 5.0));
        assert_eq!(largest(&[1.0, f64::NEG_INFINITY]), (1.0, f64::NEG_INFINITY));
        let long: Vec<f32> = (0..1000).map(|i| ((i * 37) % 1000) as f32).collect();
        assert_eq!(largest(&long), (999.0, 998.0));
    }

    #[test]
    fn negative_zero_is_zero() {
        let words = |row: &[f32]| Scan::of(baseline(), row, 0).unwrap().words();
        assert_eq!(words(&[0.0, 1.0]), words(&[-0.0, 1.0]));
    }

    #[test]
    fn refuses_what_is_not_a_row() {
        let nan = Scan::of(baseline(), &[0.0, f64::NAN], 3).unwrap_err();
        assert!(matches!(nan, Error::Logit { row: 3, column: 1, .. }));
        let inf = Scan::of(baseline(), &[f32::INFINITY, 0.0], 0).unwrap_err();
        assert_eq!(inf, Error::Logit { row: 0, column: 0, value: f64::INFINITY });
        let none = Scan::of(baseline(), &[f64::NEG_INFINITY; 20], 1).unwrap_err();
        assert_eq!(none, Error::NoPossibleLabel { row: 1 });
        assert_eq!(Scan::<f64>::of(baseline(), &[], 1).unwrap_err(), Error::NoPossibleLabel { row: 1 });
    }

    /// Entropy, margin and Gini impurity.
    fn measures<F: Float>(row: &[F]) -> (f64, f64, f64) {
        let scan = Scan::of(baseline(), row, 0).unwrap();
        (entropy(baseline(), row, &scan), margin(baseline(), row, &scan), gini(baseline(), row, &scan))
    }

    #[test]
    fn measures_of_known_rows() {
        let (entropy, margin, gini) = measures(&[2.0_f64; 8]);
        assert!((entropy - 8.0_f64.ln()).abs() < 1e-15);
        assert!((gini - 0.875).abs() < 1e-15);
        assert_eq!(margin, 0.0);
        assert_eq!(measures(&[3.0_f32]), (0.0, 1.0, 0.0));
        assert_eq!(measures(&[5.0, f64::MIN, f64::MIN]), (0.0, 1.0, 0.0));
        // H = log1p(e^-d) + d e^-d / (1 + e^-d), far below the smallest float32.
        let expected = 691.0 * (-690.0_f64).exp();
        assert!((measures(&[690.0, 0.0]).0 / expected - 1.0).abs() < 1e-12);
        assert!((measures(&[690.0_f32, 0.0]).0 / expected - 1.0).abs() < 3e-7);
    }
}
