//! U, the randomisation of a row: a function of the row and the seed, nothing else.
//!
//! The same row gets the same U alone or in any batch, in any order, on any machine, in calibration
//! and in prediction. Scores are then a fixed function of (x, y) for a given seed, so
//! exchangeability, and with it coverage, holds for that seed, and a service needs no row numbers.
//! (A generator that numbers rows gives every one-row request the same U.)
//!
//! What is hashed: the largest logit and the wrapping sum of all logits' bit patterns. Both are free
//! of order and tell rows apart, also rows whose logits always sum to 0.

/// Names the function from (seed, row) to U. Saved predictors carry it.
pub const GENERATOR: &str = "row-bits-splitmix64-v1";

/// Keeps the randomisation of smoothed p-values apart from that of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Score = 0x5363_6f72,
    PValue = 0x5056_616c,
}

/// The finaliser of `SplitMix64` (Steele, Lea & Flood 2014): a bijection that spreads every bit.
#[inline(always)]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hash of a seed and a list of words, by chained mixing.
#[inline(always)]
fn hash(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(mix(seed), |state, &word| mix(state ^ word).wrapping_add(state.rotate_left(23)))
}

/// A number in `[0, 1)` on the grid of 2^-53 from 64 random bits.
#[inline(always)]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// U of a row, from the two words that [`crate::row::Scan`] took of it and an optional row id.
#[inline(always)]
pub(crate) fn uniform(seed: u64, stream: Stream, row: [u64; 2], row_id: Option<u64>) -> f64 {
    let bits = match row_id {
        None => hash(seed, &[stream as u64, row[0], row[1]]),
        Some(id) => hash(seed, &[stream as u64 ^ (1 << 32), row[0], row[1], id]),
    };
    unit(mix(bits))
}

/// A permutation of `0..n` that depends on `(seed, n)` alone: positions in order of their hash.
#[must_use]
pub fn permutation(seed: u64, n: usize) -> Vec<usize> {
    let mut keyed: Vec<(u64, usize)> = (0..n).map(|i| (hash(seed, &[n as u64, i as u64]), i)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, i)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_over_rows_and_over_seeds() {
        // Chi-square over 64 cells; the 1 - 1e-9 quantile for 63 degrees of freedom is about 151.
        for vary_seed in [false, true] {
            let n = 64_000;
            let mut cells = [0_u32; 64];
            for i in 0..n {
                let (seed, row) = if vary_seed { (i, 7) } else { (7, i) };
                let u = uniform(seed, Stream::Score, [row, 3], None);
                assert!((0.0..1.0).contains(&u));
                cells[(u * 64.0) as usize] += 1;
            }
            let expected = f64::from(n as u32) / 64.0;
            let chi2: f64 = cells.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
            assert!(chi2 < 151.0, "chi2 = {chi2}");
        }
    }

    #[test]
    fn streams_and_ids_differ() {
        let base = uniform(1, Stream::Score, [2, 3], None);
        assert_ne!(base, uniform(1, Stream::PValue, [2, 3], None));
        assert_ne!(base, uniform(1, Stream::Score, [2, 3], Some(0)));
        assert_ne!(base, uniform(1, Stream::Score, [3, 2], None));
        assert_eq!(base, uniform(1, Stream::Score, [2, 3], None));
    }

    #[test]
    fn permutations_are_permutations() {
        let p = permutation(5, 1000);
        let mut sorted = p.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &j)| i == j));
        assert_ne!(p, sorted);
        assert_ne!(p, permutation(6, 1000));
    }
}
