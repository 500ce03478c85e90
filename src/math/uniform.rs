//! Where does U come from, the randomisation of a row? From the row and the seed, nothing else.
//!
//! The same row gets the same U alone or in any batch, in any order, on any machine, in calibration
//! and in prediction. Scores are then a fixed function of (x, y) for a given seed, so
//! exchangeability, and with it coverage, holds for that seed, and a service needs no row numbers.
//! (A generator that numbers rows gives every one-row request the same U.)
//!
//! A row is what is computed with: float32 and float64 forms of it count as two.
//!
//! What is hashed: the largest logit and the wrapping sum of all logits' bit patterns. Both are free
//! of order and tell rows apart, also rows whose logits always sum to 0.

use crate::error::Error;

/// Names the function from (seed, row) to U. Saved predictors carry it.
pub const GENERATOR: &str = "row-bits-splitmix64-v1";

/// Keeps the randomisation of smoothed p-values apart from that of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Score = 0x5363_6f72,
    PValue = 0x5056_616c,
}

/// Where U comes from.
#[derive(Clone, Copy, Debug)]
pub enum Uniforms<'a> {
    /// From the row and the seed.
    FromRow,
    /// One number for every row.
    Fixed(f64),
    /// One number for each row.
    Each(&'a [f64]),
}

/// The randomisation of a call.
#[derive(Clone, Copy, Debug)]
pub struct Randomness<'a> {
    /// The seed; scores are a fixed function of (x, y) for a given one.
    pub seed: u64,
    /// Where U comes from.
    pub uniforms: Uniforms<'a>,
    /// An id for each row, mixed into U: for data with many identical rows.
    pub row_ids: Option<&'a [u64]>,
}

impl Default for Randomness<'_> {
    fn default() -> Self {
        Self { seed: 0, uniforms: Uniforms::FromRow, row_ids: None }
    }
}

impl Randomness<'_> {
    /// Checks the lengths against the number of rows, and each U: before any row is read, so that which of
    /// several errors is told does not depend on how rows are read.
    pub(crate) fn check(&self, n_rows: usize) -> Result<(), Error> {
        if let Uniforms::Each(u) = self.uniforms
            && u.len() != n_rows
        {
            return Err(Error::Length { name: "u", found: u.len(), expected: n_rows });
        }
        if let Some(ids) = self.row_ids
            && ids.len() != n_rows
        {
            return Err(Error::Length { name: "row_ids", found: ids.len(), expected: n_rows });
        }
        let given = match &self.uniforms {
            Uniforms::Fixed(value) if n_rows > 0 => std::slice::from_ref(value),
            Uniforms::Each(values) => values,
            Uniforms::Fixed(_) | Uniforms::FromRow => &[],
        };
        match given.iter().position(|u| !(0.0..=1.0).contains(u)) {
            Some(row) => Err(Error::Uniform { row, value: given[row] }),
            None => Ok(()),
        }
    }

    /// U of row `index` with the given words, for its scores.
    #[inline(always)]
    pub(crate) fn score_uniform(&self, index: usize, words: [u64; 2]) -> Result<f64, Error> {
        let value = match self.uniforms {
            Uniforms::FromRow => return Ok(self.own(Stream::Score, index, words)),
            Uniforms::Fixed(value) => value,
            Uniforms::Each(values) => values[index],
        };
        if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(Error::Uniform { row: index, value }) }
    }

    /// Puts [`Self::score_uniform`] of `count` rows from `first` on, whose words stand side by side, into
    /// `u`.
    #[inline(always)]
    pub(crate) fn score_uniforms<const N: usize>(
        &self,
        first: usize,
        count: usize,
        words: &[[u64; N]; 2],
        u: &mut [f64; N],
    ) -> Result<(), Error> {
        let [tops, sums] = words;
        if let (Uniforms::FromRow, None) = (self.uniforms, self.row_ids) {
            for i in 0..N {
                u[i] = uniform(self.seed, Stream::Score, [tops[i], sums[i]], None);
            }
            return Ok(());
        }
        for i in 0..count {
            u[i] = self.score_uniform(first + i, [tops[i], sums[i]])?;
        }
        Ok(())
    }

    /// The number that smooths the p-values of row `index`.
    #[inline(always)]
    pub(crate) fn p_value_uniform(&self, index: usize, words: [u64; 2]) -> f64 {
        self.own(Stream::PValue, index, words)
    }

    #[inline(always)]
    fn own(&self, stream: Stream, index: usize, words: [u64; 2]) -> f64 {
        uniform(self.seed, stream, words, self.row_ids.map(|ids| ids[index]))
    }
}

/// The finaliser of `SplitMix64` (Steele, Lea & Flood 2014): a bijection that spreads every bit.
#[inline(always)]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hash of a seed and a list of words, by chained mixing. A loop, not a fold: see
/// [`each_lane`](super::each_lane).
#[inline(always)]
fn hash<const N: usize>(seed: u64, words: [u64; N]) -> u64 {
    let mut state = mix(seed);
    for word in words {
        state = mix(state ^ word).wrapping_add(state.rotate_left(23));
    }
    state
}

/// A number in `[0, 1)` on the grid of 2^-53 from 64 random bits.
#[inline(always)]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// U of a row, from two words taken of it (see `rows::Scan::words`) and an optional row id.
#[inline(always)]
fn uniform(seed: u64, stream: Stream, row: [u64; 2], row_id: Option<u64>) -> f64 {
    let bits = match row_id {
        None => hash(seed, [stream as u64, row[0], row[1]]),
        Some(id) => hash(seed, [stream as u64 ^ (1 << 32), row[0], row[1], id]),
    };
    unit(mix(bits))
}

/// A permutation of `0..n` that depends on `(seed, n)` alone: positions in order of their hash.
///
/// # Errors
/// When there is no memory for it.
pub fn permutation(seed: u64, n: usize) -> Result<Vec<usize>, Error> {
    let short = |_| Error::Memory { elements: n, size: size_of::<(u64, usize)>() };
    let (mut keyed, mut order) = (Vec::<(u64, usize)>::new(), Vec::new());
    keyed.try_reserve_exact(n).map_err(short)?;
    order.try_reserve_exact(n).map_err(short)?;
    keyed.extend((0..n).map(|i| (hash(seed, [n as u64, i as u64]), i)));
    keyed.sort_unstable();
    order.extend(keyed.into_iter().map(|(_, i)| i));
    Ok(order)
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
        let p = permutation(5, 1000).unwrap();
        let mut sorted = p.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &j)| i == j));
        assert_ne!(p, sorted);
        assert_ne!(p, permutation(6, 1000).unwrap());
    }
}
