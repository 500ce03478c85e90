//! What is the k-th smallest of scores that are never together? It is found by counts of their leading bits.
//!
//! ```text
//! slot = all keys (a score's key is a 64-bit integer; keys have the order of the scores)
//! while the slot holds more than one key:
//!     each reader counts the scores in the slot by the next few bits of their keys
//!     add the counts of all readers; the bin that holds the rank is the next slot
//! ```
//!
//! Sums do not depend on their order, so neither does the result depend on how the scores were spread.

use crate::error::Error;
use crate::run::{Plan, Size, fill, map_blocks, reserve};

/// Keys `base .. base + 2^width` of one run of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which run of scores.
    pub run: usize,
    /// The first key, a multiple of `2^width`.
    pub base: u64,
    /// Logarithm of the number of keys, at most 64.
    pub width: u32,
}

impl Slot {
    /// The key counted from the slot's first, if it is in the slot.
    #[inline(always)]
    pub(super) fn offset(self, key: u64) -> Option<u64> {
        let offset = key.wrapping_sub(self.base);
        (self.width >= 64 || offset >> self.width == 0).then_some(offset)
    }

    /// The bin that holds a rank, as a slot of `width`, and the rank within it. `counts` has the number of
    /// scores in each bin.
    pub(super) fn narrowed(self, counts: &[u64], width: u32, mut rank: u64) -> (Self, u64) {
        let mut bin = 0;
        while rank > counts[bin] {
            rank -= counts[bin];
            bin += 1;
        }
        (Self { base: self.base + ((bin as u64) << width), width, ..self }, rank)
    }
}

/// The key of a score: keys are in the order of the scores, and the zeros share one.
#[must_use]
#[inline(always)]
pub fn key_of(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    // Negative numbers grow with falling bits; the sign bit puts the others after them.
    bits ^ (((bits as i64 >> 63) as u64) | 1 << 63)
}

/// The score that has a key.
#[must_use]
pub fn score_of(key: u64) -> f64 {
    f64::from_bits(key ^ ((!(key as i64) >> 63) as u64 | 1 << 63))
}

/// Keys for which room is made at a time.
const RESERVED: usize = 1 << 12;

fn check(scores: &[f64], n: usize, slots: &[Slot]) -> Result<(), Error> {
    if let Some(index) = scores.iter().position(|s| s.is_nan()) {
        return Err(Error::Score { index });
    }
    let runs = scores.len().checked_div(n).unwrap_or(usize::MAX);
    if runs < usize::MAX && runs * n != scores.len() {
        return Err(Error::Length { name: "scores", found: scores.len(), expected: runs * n });
    }
    if let Some(bad) = slots.iter().find(|s| s.run >= runs || s.width > 64) {
        return Err(Error::argument("slots", "runs of the scores and widths up to 64", format!("{bad:?}")));
    }
    Ok(())
}

/// Counts the scores in each slot by the next `bits` bits of their keys (or by all the slot's bits, if these
/// are fewer), and adds them to `counts`, which has one row of `2^bits` for each slot. Runs have `n` scores
/// each.
///
/// # Errors
/// When a score is NaN, or a slot or a length does not fit.
pub fn count_digits(
    scores: &[f64],
    n: usize,
    slots: &[Slot],
    bits: u32,
    plan: &Plan<'_>,
    counts: &mut [u64],
) -> Result<(), Error> {
    if !(1..=24).contains(&bits) {
        return Err(Error::argument("bits", "between 1 and 24", bits));
    }
    let expected = slots.len() << bits;
    if counts.len() != expected {
        return Err(Error::Length { name: "counts", found: counts.len(), expected });
    }
    check(scores, n, slots)?;
    if n == 0 {
        return Ok(());
    }
    fill(counts, 1 << bits, Size::new(slots.len(), n, 1), plan, |range, parts| {
        for (slot, counts) in slots[range].iter().zip(parts.only().chunks_exact_mut(1 << bits)) {
            let shift = slot.width.saturating_sub(bits);
            for &score in &scores[slot.run * n..][..n] {
                if let Some(offset) = slot.offset(key_of(score)) {
                    counts[(offset >> shift) as usize] += 1;
                }
            }
        }
        Ok(())
    })
}

/// For each slot, the keys of its run that lie in it, in the order of the scores.
///
/// # Errors
/// When a score is NaN or a slot does not fit.
pub fn keys_within(
    scores: &[f64],
    n: usize,
    slots: &[Slot],
    plan: &Plan<'_>,
) -> Result<Vec<Vec<u64>>, Error> {
    check(scores, n, slots)?;
    if n == 0 {
        return Ok(vec![Vec::new(); slots.len()]);
    }
    let blocks = map_blocks(Size::new(slots.len(), n, 1), plan, |range| {
        let within = |slot: &Slot| {
            let mut found = Vec::new();
            for part in scores[slot.run * n..][..n].chunks(RESERVED) {
                reserve(&mut found, part.len())?;
                let keys = part.iter().map(|&score| key_of(score));
                found.extend(keys.filter(|&key| slot.offset(key).is_some()));
            }
            Ok(found)
        };
        slots[range].iter().map(within).collect::<Result<Vec<_>, Error>>()
    })?;
    Ok(blocks.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: [f64; 10] =
        [f64::NEG_INFINITY, -1e300, -2.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1e300, f64::INFINITY];

    #[test]
    fn keys_are_in_the_order_of_scores() {
        for pair in SCORES.windows(2) {
            assert_eq!(key_of(pair[0]) < key_of(pair[1]), pair[0] < pair[1], "{pair:?}");
        }
        for score in SCORES {
            assert_eq!(score_of(key_of(score)).to_bits(), (score + 0.0).to_bits());
        }
    }

    /// The k-th smallest by narrowing a slot.
    fn by_digits(scores: &[f64], k: usize, bits: u32) -> f64 {
        let mut slot = Slot { run: 0, base: 0, width: 64 };
        let mut rank = k as u64;
        while slot.width > 0 {
            let mut counts = vec![0; 1 << bits];
            count_digits(scores, scores.len(), &[slot], bits, &Plan::default(), &mut counts).unwrap();
            let (next, rank_within) = slot.narrowed(&counts, slot.width.saturating_sub(bits), rank);
            let kept = keys_within(scores, scores.len(), &[next], &Plan::default()).unwrap();
            assert_eq!(kept[0].len() as u64, counts[((next.base - slot.base) >> next.width) as usize]);
            (slot, rank) = (next, rank_within);
        }
        score_of(slot.base)
    }

    #[test]
    fn narrowing_ends_at_the_order_statistic() {
        let mut scores: Vec<f64> = (0..500).map(|i| f64::from((i * 7919) % 211) / 7.0 - 10.0).collect();
        scores.extend(SCORES);
        let mut sorted = scores.clone();
        sorted.sort_by(f64::total_cmp);
        for k in (1..=scores.len()).step_by(17) {
            for bits in [1, 5, 11, 16] {
                assert_eq!(by_digits(&scores, k, bits), sorted[k - 1], "rank {k}, {bits} bits");
            }
        }
    }

    #[test]
    fn bad_arguments_are_refused() {
        let (plan, slot) = (Plan::default(), Slot { run: 0, base: 0, width: 64 });
        assert!(count_digits(&[f64::NAN], 1, &[slot], 1, &plan, &mut [0; 2]).is_err());
        assert!(count_digits(&[1.0], 1, &[slot], 0, &plan, &mut [0; 1]).is_err());
        assert!(count_digits(&[1.0], 1, &[slot], 1, &plan, &mut [0; 3]).is_err());
        assert!(count_digits(&[1.0], 1, &[Slot { run: 1, ..slot }], 1, &plan, &mut [0; 2]).is_err());
        assert!(keys_within(&[1.0], 1, &[Slot { width: 65, ..slot }], &plan).is_err());
        assert!(keys_within(&[1.0, 2.0, 3.0], 2, &[slot], &plan).is_err());
        assert_eq!(keys_within(&[], 0, &[slot], &plan).unwrap(), vec![Vec::<u64>::new()]);
    }
}
