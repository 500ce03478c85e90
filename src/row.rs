//! What is read off one row before any score: its largest logits, its fingerprint, its entropy.
//!
//! With `m` the largest and `s` the second largest logit, every sum is taken relative to `s` and
//! brought back by `E = exp(s - m)` with the exponents of float64, so entropy keeps the relative precision of the
//! row's type down to the smallest float64 (see [`crate::entropy`]). Cost: one pass of comparisons, one of
//! exponentials.

use crate::ahead::Ahead;
use crate::elementary::{exp, one_minus_exp_neg};
use crate::entropy::entropies_of_sums;
use crate::error::Error;
use crate::float::Float;
use crate::simd::instances;
use crate::sum::LANES;
use crate::unit_sums::{UnitSums, unit_squares, unit_sums};

/// The first pass over a row.
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
    pub(crate) fn of(row: &[F], index: usize) -> Result<Self, Error> {
        let (scan, poisoned) = read(row);
        if poisoned {
            check_row(row, index)?;
        }
        if scan.max == F::NEG_INFINITY {
            return Err(Error::NoPossibleLabel { row: index });
        }
        Ok(scan)
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
    fn unit_sums(&self, row: &[F]) -> UnitSums<1> {
        let (exponentials, weighted) = unit_sums(row, self.second, Ahead::NOTHING);
        UnitSums::new(&[exponentials], &[weighted], &[self.gap()])
    }

    /// Whether one label alone is possible.
    #[inline(always)]
    fn is_certain(&self) -> bool {
        self.second == F::NEG_INFINITY
    }
}

/// One pass over a row, and whether a value in it is not finite.
#[inline(always)]
fn read<F: Float>(row: &[F]) -> (Scan<F>, bool) {
    #[cfg(target_arch = "x86_64")]
    if let Some(narrow) = F::as_f32(row)
        && let Some((max, second, bits, poisoned)) = crate::simd::x86_64::scan(narrow)
    {
        return (Scan { max: F::from_f32(max), second: F::from_f32(second), bits }, poisoned);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(wide) = F::as_f64(row)
        && let Some((max, second, bits, poisoned)) = crate::simd::x86_64::scan_double(wide)
    {
        return (Scan { max: F::from_f64(max), second: F::from_f64(second), bits }, poisoned);
    }
    read_plain(row)
}

instances! {
    pub(crate) fn read_plain<F: Float>(row: &[F]) -> (Scan<F>, bool) = read_body::<F>;
}

#[inline(always)]
fn read_body<F: Float>(row: &[F]) -> (Scan<F>, bool) {
    let mut max = [F::NEG_INFINITY; LANES];
    let mut second = [F::NEG_INFINITY; LANES];
    let mut bits = [0_u32; LANES];
    let mut poison = [F::ZERO; LANES];
    // A macro, not a closure: it must be inlined into the instance of its instruction set.
    macro_rules! take {
        ($lane:ident, $z:expr) => {
            let z = $z;
            poison[$lane] = poison[$lane] + z * F::ZERO; // NaN from NaN and infinities on
            second[$lane] = second[$lane].larger(max[$lane].smaller(z));
            max[$lane] = max[$lane].larger(z);
            bits[$lane] = bits[$lane].wrapping_add(z.pattern());
        };
    }
    let (groups, rest) = row.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            take!(lane, group[lane]);
        }
    }
    for (lane, &z) in rest.iter().enumerate() {
        take!(lane, z);
    }
    let (mut top, mut runner_up) = (max[0], second[0]);
    for lane in 1..LANES {
        runner_up = runner_up.larger(second[lane]).larger(top.smaller(max[lane]));
        top = top.larger(max[lane]);
    }
    let poisoned = poison.iter().any(|p| *p != F::ZERO);
    let bits = bits.iter().fold(0_u32, |sum, &lane| sum.wrapping_add(lane));
    (Scan { max: top, second: runner_up, bits }, poisoned)
}

/// Refuses NaN and +inf; -inf is a label that cannot occur.
#[cold]
pub(crate) fn check_row<F: Float>(row: &[F], index: usize) -> Result<(), Error> {
    let invalid = row.iter().position(|z| z.to_f64().is_nan() || *z == F::INFINITY);
    invalid.map_or(Ok(()), |column| Err(Error::Logit { row: index, column, value: row[column].to_f64() }))
}

/// Entropy in nats, `H = log1p(sum' exp(-d_k)) + sum f_k d_k`, the first sum over all but the top label.
#[inline(always)]
pub(crate) fn entropy<F: Float>(row: &[F], scan: &Scan<F>) -> f64 {
    if scan.is_certain() {
        return 0.0;
    }
    let [entropy] = entropies_of_sums::<F, 1>(&[scan.gap()], &scan.unit_sums(row));
    entropy
}

/// Margin `f_(1) - f_(2)`; 1 when no second label is possible.
#[inline(always)]
pub(crate) fn margin<F: Float>(row: &[F], scan: &Scan<F>) -> f64 {
    if scan.is_certain() {
        return 1.0;
    }
    let UnitSums { exponentials: [exponentials], .. } = scan.unit_sums(row);
    let gap = scan.gap();
    one_minus_exp_neg(gap) / exp(-gap).mul_add(exponentials, 1.0)
}

/// Gini impurity `sum f (1 - f)`, the top label's term from the others' mass.
#[inline(always)]
pub(crate) fn gini<F: Float>(row: &[F], scan: &Scan<F>) -> f64 {
    if scan.is_certain() {
        return 0.0;
    }
    let UnitSums { exponentials: [exponentials], .. } = scan.unit_sums(row);
    let e = exp(-scan.gap());
    let others = e * exponentials;
    let total = 1.0 + others;
    let squares = unit_squares(row, scan.second) - if scan.gap() == 0.0 { 1.0 } else { 0.0 };
    others / (total * total) + (others - e * e * squares / total) / total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_reads_the_row() {
        let scan = Scan::of(&[1.0_f32, 5.0, -2.0, 5.0], 0).unwrap();
        assert_eq!((scan.max, scan.second), (5.0, 5.0));
        let scan = Scan::of(&[1.0_f64, f64::NEG_INFINITY], 0).unwrap();
        assert_eq!((scan.max, scan.second), (1.0, f64::NEG_INFINITY));
        let long: Vec<f32> = (0..1000).map(|i| ((i * 37) % 1000) as f32).collect();
        let scan = Scan::of(&long, 0).unwrap();
        assert_eq!((scan.max, scan.second), (999.0, 998.0));
    }

    #[test]
    fn negative_zero_is_zero() {
        let a = Scan::of(&[0.0_f32, 1.0], 0).unwrap();
        let b = Scan::of(&[-0.0_f32, 1.0], 0).unwrap();
        assert_eq!(a.words(), b.words());
    }

    #[test]
    fn refuses_what_is_not_a_row() {
        let nan = Scan::of(&[0.0, f64::NAN], 3).unwrap_err();
        assert!(matches!(nan, Error::Logit { row: 3, column: 1, .. }));
        let inf = Scan::of(&[f32::INFINITY, 0.0], 0).unwrap_err();
        assert_eq!(inf, Error::Logit { row: 0, column: 0, value: f64::INFINITY });
        let none = Scan::of(&[f64::NEG_INFINITY; 20], 1).unwrap_err();
        assert_eq!(none, Error::NoPossibleLabel { row: 1 });
        assert_eq!(Scan::<f64>::of(&[], 1).unwrap_err(), Error::NoPossibleLabel { row: 1 });
    }

    #[test]
    fn measures_of_known_rows() {
        let uniform = [2.0_f64; 8];
        let scan = Scan::of(&uniform, 0).unwrap();
        assert!((entropy(&uniform, &scan) - 8.0_f64.ln()).abs() < 1e-15);
        assert!((gini(&uniform, &scan) - 0.875).abs() < 1e-15);
        assert_eq!(margin(&uniform, &scan), 0.0);
        let certain = [3.0_f32];
        let scan = Scan::of(&certain, 0).unwrap();
        assert_eq!(
            (entropy(&certain, &scan), margin(&certain, &scan), gini(&certain, &scan)),
            (0.0, 1.0, 0.0)
        );
        // H = log1p(e^-d) + d e^-d / (1 + e^-d), far below the smallest float32.
        let masked = [5.0, f64::MIN, f64::MIN];
        let scan = Scan::of(&masked, 0).unwrap();
        assert_eq!((entropy(&masked, &scan), margin(&masked, &scan), gini(&masked, &scan)), (0.0, 1.0, 0.0));
        let sure = [690.0, 0.0];
        let scan = Scan::of(&sure, 0).unwrap();
        let expected = 691.0 * (-690.0_f64).exp();
        assert!((entropy(&sure, &scan) / expected - 1.0).abs() < 1e-12);
        let narrow = [690.0_f32, 0.0];
        let scan = Scan::of(&narrow, 0).unwrap();
        assert!((entropy(&narrow, &scan) / expected - 1.0).abs() < 3e-7);
    }
}
