//! The conformal quantile: an exact rank and the order statistic it names.

use crate::error::Error;
use crate::threads::{Plan, Size, fill};

/// `k = ceil((n + 1)(1 - alpha))`, with alpha rounded to 12 significant digits and then taken as an
/// exact decimal: `1 - 0.9` asks for rank 90 of 99, as 0.1 does. A float ceil is off by one in some
/// cells. `k > n` means that no finite threshold covers.
///
/// # Errors
/// When alpha is not strictly between 0 and 1.
///
/// # Examples
/// ```
/// assert_eq!(tightset::conformal_rank(99, 0.1).unwrap(), 90);
/// assert_eq!(tightset::conformal_rank(99, 1.0 - 0.9).unwrap(), 90);
/// assert_eq!(tightset::conformal_rank(5, 0.1).unwrap(), 6);
/// ```
pub fn conformal_rank(n: usize, alpha: f64) -> Result<usize, Error> {
    // k = (n + 1) - floor((n + 1) alpha); an alpha that rounds to 1 keeps the first rank.
    let beyond = (n as u128 + 1) - floor_of_multiple(n as u128 + 1, alpha)?;
    Ok(usize::try_from(beyond).unwrap_or(usize::MAX).max(1))
}

/// `floor(count * alpha)` in integers.
fn floor_of_multiple(count: u128, alpha: f64) -> Result<u128, Error> {
    if !(alpha > 0.0 && alpha < 1.0) {
        return Err(Error::argument("alpha", "strictly between 0 and 1", alpha));
    }
    // "d.ddddddddddde-x": twelve digits and a decimal exponent.
    let text = format!("{alpha:.11e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa: u128 =
        digits.bytes().filter(u8::is_ascii_digit).fold(0, |m, d| m * 10 + u128::from(d - b'0'));
    let shift = 11 - exponent.parse::<i32>().unwrap_or(0);
    // count < 2^65 and mantissa < 10^12, so the product fits; past 38 digits it is below the divisor.
    let divisor = u32::try_from(shift).ok().and_then(|s| 10_u128.checked_pow(s));
    Ok(divisor.map_or(0, |d| count * mantissa / d))
}

/// The k-th smallest score, `+inf` when `k > n`. Reorders `scores`; O(n).
///
/// # Errors
/// When `k` is 0 or a score is NaN.
pub fn kth_smallest(scores: &mut [f64], k: usize) -> Result<f64, Error> {
    if k == 0 {
        return Err(Error::argument("k", "at least 1", k));
    }
    if let Some(index) = scores.iter().position(|s| s.is_nan()) {
        return Err(Error::Score { index });
    }
    if k > scores.len() {
        return Ok(f64::INFINITY);
    }
    let (_, kth, _) = scores.select_nth_unstable_by(k - 1, f64::total_cmp);
    // total_cmp puts -0.0 before 0.0; as thresholds they are one.
    Ok(*kth + 0.0)
}

/// Order statistics of each run of `n` scores, `out` as one row of ranks for each run: `-inf` for rank 0 and
/// `+inf` for ranks above n. O(n) a run for a few ranks.
///
/// # Errors
/// When a score is NaN or a length does not fit.
pub fn order_statistics(
    scores: &[f64],
    n: usize,
    ranks: &[usize],
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    let runs = scores.len().checked_div(n).unwrap_or(out.len() / ranks.len().max(1));
    for (name, found, expected) in
        [("scores", scores.len(), runs * n), ("out", out.len(), runs * ranks.len())]
    {
        if found != expected {
            return Err(Error::Length { name, found, expected });
        }
    }
    if let Some(index) = scores.iter().position(|s| s.is_nan()) {
        return Err(Error::Score { index });
    }
    let mut falling: Vec<usize> = (0..ranks.len()).collect();
    falling.sort_by_key(|&i| std::cmp::Reverse(ranks[i]));
    fill(out, ranks.len(), Size::new(runs, n, 8), plan, |range, parts| {
        let mut run = Vec::with_capacity(n);
        for (row, out) in range.zip(parts.only().chunks_exact_mut(ranks.len())) {
            run.clear();
            run.extend_from_slice(&scores[row * n..][..n]);
            // Each selection leaves the smaller scores in front, where the next one looks.
            let mut end = n;
            for &i in &falling {
                let k = ranks[i];
                out[i] = match k {
                    0 => f64::NEG_INFINITY,
                    k if k > n => f64::INFINITY,
                    k => *run[..end].select_nth_unstable_by(k - 1, f64::total_cmp).1 + 0.0,
                };
                end = end.min(k.max(1));
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_decimal_alphas() {
        // In thousandths the rank is an integer computation.
        for n in 0_usize..=3000 {
            for thousandths in 1_usize..1000 {
                let exact = ((n + 1) * (1000 - thousandths)).div_ceil(1000);
                let alpha = thousandths as f64 / 1000.0;
                assert_eq!(conformal_rank(n, alpha).unwrap(), exact, "n = {n}, alpha = {alpha}");
            }
        }
    }

    #[test]
    fn edges() {
        assert_eq!(conformal_rank(99, 1.0 - 0.9).unwrap(), 90);
        assert_eq!(conformal_rank(10, 1e-300).unwrap(), 11);
        assert_eq!(conformal_rank(10, 1.0 - 1e-16).unwrap(), 1);
        assert_eq!(conformal_rank(usize::MAX, 0.5).unwrap(), usize::MAX / 2 + 1);
        for alpha in [0.0, 1.0, -0.1, 2.0, f64::NAN, f64::INFINITY] {
            assert!(conformal_rank(10, alpha).is_err());
        }
    }

    #[test]
    fn selection_is_the_sorted_value() {
        let scores: Vec<f64> = (0..500).map(|i| f64::from((i * 7919) % 211) - 100.0).collect();
        let mut sorted = scores.clone();
        sorted.sort_by(f64::total_cmp);
        for k in 1..=500 {
            assert_eq!(kth_smallest(&mut scores.clone(), k).unwrap(), sorted[k - 1]);
        }
        assert_eq!(kth_smallest(&mut scores.clone(), 501).unwrap(), f64::INFINITY);
        assert!(kth_smallest(&mut [1.0, f64::NAN], 1).is_err());
        assert!(kth_smallest(&mut [1.0], 0).is_err());
    }

    #[test]
    fn order_statistics_are_those_of_the_sorted_runs() {
        let scores: Vec<f64> = (0..300).map(|i| f64::from((i * 7919) % 97)).collect();
        let ranks = [0, 1, 100, 50, 49, 50, 101];
        let mut out = vec![0.0; 3 * ranks.len()];
        order_statistics(&scores, 100, &ranks, &Plan::default(), &mut out).unwrap();
        for (run, found) in scores.chunks_exact(100).zip(out.chunks_exact(ranks.len())) {
            let mut sorted = run.to_vec();
            sorted.sort_by(f64::total_cmp);
            for (&k, &value) in ranks.iter().zip(found) {
                let expected =
                    if k == 0 { f64::NEG_INFINITY } else { *sorted.get(k - 1).unwrap_or(&f64::INFINITY) };
                assert_eq!(value, expected);
            }
        }
        assert!(order_statistics(&[f64::NAN], 1, &[1], &Plan::default(), &mut [0.0]).is_err());
        assert!(order_statistics(&[1.0], 1, &[1], &Plan::default(), &mut []).is_err());
    }
}
