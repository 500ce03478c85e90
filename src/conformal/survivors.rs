//! Which candidates does a selection leave? Each label of a new row selects among these: see `modsel.rs`.

use std::ops::Deref;

use crate::error::Error;
use crate::score::{Candidates, Scoring, sharing_order};
use crate::sets::Bounds;
use crate::simd::with_subnormals;

/// More pairs than any calibration has: sums of such counts stay within 64 bits.
const MOST_PAIRS: u64 = 1 << 62;

/// A candidate that a row may select.
#[derive(Clone, Debug, PartialEq)]
pub struct Survivor {
    /// How it scores.
    pub scoring: Scoring,
    /// The calibration score before the threshold, `-inf` if there is none.
    pub lo: f64,
    /// The conformal threshold.
    pub hi: f64,
    /// Calibration pairs with scores up to `lo`.
    pub at_lo: u64,
    /// The scores of the pairs above `lo` and up to `hi`, sorted.
    pub between: Vec<f64>,
    /// What its counts are multiplied by when candidates are compared, at least 1: a preference fixed before
    /// the data are seen leaves coverage exact.
    pub weight: u32,
}

impl Survivor {
    /// Calibration pairs with scores up to `q`, for `lo <= q <= hi`.
    pub(crate) fn pairs(&self, q: f64) -> u64 {
        self.at_lo + self.between.partition_point(|&s| s <= q) as u64
    }

    /// A count as it is compared with those of others.
    pub(crate) fn weighted(&self, pairs: u64) -> u128 {
        u128::from(pairs) * u128::from(self.weight)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_sorted = self.between.is_sorted();
        let inside = self.between.iter().all(|&s| self.lo < s && s <= self.hi);
        if self.at_lo > MOST_PAIRS {
            return Err(Error::argument("survivors", "of at most 2^62 pairs", self.at_lo));
        }
        if self.lo <= self.hi && is_sorted && inside && self.weight > 0 {
            return Ok(());
        }
        let Self { lo, hi, weight, between, .. } = self;
        let found = format!("lo {lo}, hi {hi}, weight {weight} and {} scores", between.len());
        Err(Error::argument("survivors", "sorted scores between lo and hi, and a weight", found))
    }
}

/// The candidates that a selection leaves. They are checked and made ready once, for any number of calls:
/// looking through the scores between the thresholds takes longer than a call of one row.
#[derive(Clone, Debug)]
pub struct Survivors {
    each: Vec<Survivor>,
    scorings: Vec<Scoring>,
    order: Vec<usize>,
    bounds: Vec<Bounds>,
    /// The weighted calibration pairs up to `lo` and up to `hi` of each.
    weighted: Vec<(u128, u128)>,
}

impl Survivors {
    /// Makes candidates ready. Of equal counts, the first candidate is selected.
    ///
    /// # Errors
    /// When there are none, or a selection does not leave such a candidate.
    pub fn new(each: Vec<Survivor>) -> Result<Self, Error> {
        if each.is_empty() {
            return Err(Error::argument("survivors", "at least one", 0));
        }
        with_subnormals(|| each.iter().try_for_each(Survivor::check))?;
        let scorings: Vec<Scoring> = each.iter().map(|s| s.scoring).collect();
        let mut order = Vec::new();
        sharing_order(&scorings, &mut order);
        let bounds = with_subnormals(|| each.iter().map(|s| Bounds::new(&s.scoring, s.lo, s.hi)).collect());
        let both = |s: &Survivor| (s.weighted(s.at_lo), s.weighted(s.at_lo + s.between.len() as u64));
        let weighted = each.iter().map(both).collect();
        Ok(Self { each, scorings, order, bounds, weighted })
    }

    /// All their scorings: a row is read for these.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates::ordered(&self.scorings, &self.order)
    }

    /// Their indices; candidates that share their sums stand side by side.
    #[inline(always)]
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The pairs of candidate m up to `lo`, and `own` pairs of a row, weighted.
    #[inline(always)]
    pub(crate) fn weighted_at_lo(&self, m: usize, own: u32) -> u128 {
        self.weighted[m].0 + u128::from(u64::from(own) * u64::from(self.each[m].weight))
    }

    /// The pairs of candidate m up to `hi`, and `own` pairs of a row, weighted.
    #[inline(always)]
    pub(crate) fn weighted_at_hi(&self, m: usize, own: u32) -> u128 {
        self.weighted[m].1 + u128::from(u64::from(own) * u64::from(self.each[m].weight))
    }

    /// The bounds of one of them.
    #[inline(always)]
    pub(crate) fn bounds(&self, m: usize) -> &Bounds {
        &self.bounds[m]
    }
}

impl Deref for Survivors {
    type Target = [Survivor];

    fn deref(&self) -> &[Survivor] {
        &self.each
    }
}

/// Everything else is made of the candidates, and bounds may be NaN.
impl PartialEq for Survivors {
    fn eq(&self, other: &Self) -> bool {
        self.each == other.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::{Reweight, Score};

    fn survivor(lo: f64, hi: f64, between: &[f64], weight: u32) -> Survivor {
        let scoring = Scoring::new(Score::Rank, Reweight::NONE, 1.0).unwrap();
        Survivor { scoring, lo, hi, at_lo: 3, between: between.to_vec(), weight }
    }

    #[test]
    fn what_no_selection_leaves_is_refused() {
        assert!(Survivors::new(Vec::new()).is_err());
        assert!(Survivors::new(vec![survivor(0.0, 1.0, &[0.5, 1.0], 1)]).is_ok());
        for bad in [
            survivor(1.0, 0.0, &[], 1),
            survivor(0.0, 1.0, &[0.0], 1),
            survivor(0.0, 1.0, &[2.0], 1),
            survivor(0.0, 1.0, &[0.5, 0.25], 1),
            survivor(0.0, 1.0, &[], 0),
            survivor(f64::NAN, 1.0, &[], 1),
        ] {
            assert!(Survivors::new(vec![survivor(0.0, 1.0, &[], 1), bad]).is_err());
        }
    }

    #[test]
    fn counts_that_no_calibration_has_are_refused() {
        for (at_lo, is_taken) in [(MOST_PAIRS, true), (MOST_PAIRS + 1, false), (u64::MAX, false)] {
            let survivor = Survivor { at_lo, ..survivor(0.0, 1.0, &[0.5], u32::MAX) };
            assert_eq!(Survivors::new(vec![survivor]).is_ok(), is_taken);
        }
    }

    #[test]
    fn survivors_are_equal_though_a_bound_is_no_number() {
        let list = vec![survivor(0.25, 2.75, &[], 1), survivor(f64::NEG_INFINITY, f64::INFINITY, &[], 1)];
        assert_eq!(Survivors::new(list.clone()).unwrap(), Survivors::new(list).unwrap());
    }
}
