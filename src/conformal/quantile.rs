//! What is the conformal threshold? The score of an exact rank.

use std::sync::{Mutex, PoisonError};

use super::radix::{Slot, key_of, score_of};
use crate::error::Error;
use crate::run::{Plan, Size, fill, map_blocks, reserve};
use crate::simd::with_subnormals;

/// `k = ceil((n + 1)(1 - alpha))`. Alpha is rounded to 12 significant digits and then taken as an exact
/// decimal, so `1 - 0.9` asks for rank 90 of 99, as 0.1 does. The ceil of a float is off by one for some n
/// and alpha. If `k > n`, no finite threshold covers.
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
    let beyond = (n as u128 + 1) - with_subnormals(|| floor_of_multiple(n as u128 + 1, alpha))?;
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

/// The k-th smallest score, `+inf` when `k > n`. O(n).
///
/// # Errors
/// When `k` is 0 or a score is NaN.
pub fn kth_smallest(scores: &[f64], k: usize, plan: &Plan<'_>) -> Result<f64, Error> {
    if k == 0 {
        return Err(Error::argument("k", "at least 1", k));
    }
    let mut found = [f64::INFINITY];
    order_statistics(scores, scores.len(), &[k], plan, &mut found)?;
    Ok(found[0])
}

/// Longer runs are narrowed down, instead of copied and selected from: this answers an interrupt, uses all
/// threads and takes no memory.
const LONG_RUN: usize = 1 << 20;

/// The scores of the given ranks in each run of `n` scores. `out` has one row of ranks for each run; rank 0
/// gives `-inf`, ranks above n give `+inf`. O(n) a run for a few ranks.
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
    map_blocks(Size::new(scores.len(), 1, 1), plan, |range| {
        let start = range.start;
        match scores[range].iter().position(|s| s.is_nan()) {
            Some(i) => Err(Error::Score { index: start + i }),
            None => Ok(()),
        }
    })?;
    if n > LONG_RUN {
        for (run, out) in scores.chunks_exact(n).zip(out.chunks_exact_mut(ranks.len().max(1))) {
            for (&rank, out) in ranks.iter().zip(out) {
                *out = narrowed(run, rank, plan)?;
            }
        }
        return Ok(());
    }
    let mut falling: Vec<usize> = (0..ranks.len()).collect();
    falling.sort_by_key(|&i| std::cmp::Reverse(ranks[i]));
    fill(out, ranks.len(), Size::new(runs, n, 8), plan, |range, parts| {
        let mut run = Vec::new();
        reserve(&mut run, n)?;
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
                    // Not -0.0, which total_cmp puts before 0.0: as thresholds they are one.
                    k => *run[..end].select_nth_unstable_by(k - 1, f64::total_cmp).1 + 0.0,
                };
                end = end.min(k.max(1));
            }
        }
        Ok(())
    })
}

/// Bits of the keys by which one pass over a long run counts.
const DIGIT: u32 = 11;

/// The score of a rank in a long run. Each pass narrows the slot of keys that holds it by [`DIGIT`] bits: see
/// `radix.rs`.
fn narrowed(scores: &[f64], rank: usize, plan: &Plan<'_>) -> Result<f64, Error> {
    if rank == 0 || rank > scores.len() {
        return Ok(if rank == 0 { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let (mut slot, mut rank) = (Slot { run: 0, base: 0, width: 64 }, rank as u64);
    while slot.width > 0 {
        let shift = slot.width.saturating_sub(DIGIT);
        let totals = Mutex::new([0_u64; 1 << DIGIT]);
        map_blocks(Size::new(scores.len(), 1, 1), plan, |range| {
            let mut counts = [0_u32; 1 << DIGIT];
            for &score in &scores[range] {
                if let Some(offset) = slot.offset(key_of(score)) {
                    counts[(offset >> shift) as usize] += 1;
                }
            }
            let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
            totals.iter_mut().zip(counts).for_each(|(total, count)| *total += u64::from(count));
            Ok(())
        })?;
        let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
        (slot, rank) = slot.narrowed(&totals, shift, rank);
    }
    Ok(score_of(slot.base))
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

    /// What a rank names among scores that are sorted.
    fn named(sorted: &[f64], rank: usize) -> f64 {
        if rank == 0 { f64::NEG_INFINITY } else { *sorted.get(rank - 1).unwrap_or(&f64::INFINITY) }
    }

    #[test]
    fn order_statistics_are_those_of_the_sorted_runs() {
        let scores: Vec<f64> = (0..300).map(|i| f64::from((i * 7919) % 97) - 50.0).collect();
        let (plan, ranks) = (Plan::default(), [0, 1, 100, 50, 49, 50, 101]);
        let mut out = vec![0.0; 3 * ranks.len()];
        order_statistics(&scores, 100, &ranks, &plan, &mut out).unwrap();
        for (run, found) in scores.chunks_exact(100).zip(out.chunks_exact(ranks.len())) {
            let mut sorted = run.to_vec();
            sorted.sort_by(f64::total_cmp);
            assert_eq!(found, ranks.map(|rank| named(&sorted, rank)));
            for rank in 0..=101 {
                assert_eq!(narrowed(run, rank, &plan).unwrap(), named(&sorted, rank));
                let kth = kth_smallest(run, rank, &plan);
                assert_eq!(kth.ok(), if rank > 0 { Some(named(&sorted, rank)) } else { None });
            }
        }
        assert!(kth_smallest(&[1.0, f64::NAN], 1, &plan).is_err());
        assert!(order_statistics(&[f64::NAN], 1, &[1], &plan, &mut [0.0]).is_err());
        assert!(order_statistics(&[1.0], 1, &[1], &plan, &mut []).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes hours")]
    fn long_runs_are_narrowed_down() {
        let special = [f64::NEG_INFINITY, f64::INFINITY, -0.0, 0.0, 5e-324, -1e300];
        let n = LONG_RUN + 7;
        let scores: Vec<f64> = (0..n)
            .map(|i| if i % 1000 < 6 { special[i % 1000] } else { ((i * 7919) % 10_007) as f64 / 7.0 - 99.0 })
            .collect();
        let mut sorted: Vec<f64> = scores.iter().map(|&s| s + 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        let ranks = [0, 1, 2000, n / 2, n - 3000, n, n + 1];
        let mut out = [0.0; 7];
        order_statistics(&scores, n, &ranks, &Plan::default(), &mut out).unwrap();
        assert_eq!(out.map(f64::to_bits), ranks.map(|rank| named(&sorted, rank).to_bits()));
        let mut bad = scores;
        (bad[n / 2], bad[n - 1]) = (f64::NAN, f64::NAN);
        let found = order_statistics(&bad, n, &ranks, &Plan::default(), &mut out);
        assert_eq!(found, Err(Error::Score { index: n / 2 }));
    }
}
