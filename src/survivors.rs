//! The candidates that a selection leaves, among which each label of a new row selects (see [`crate::selected`]).

use std::ops::Deref;

use crate::candidates::{Candidates, sharing_order};
use crate::cut::Cut;
use crate::error::Error;
use crate::scoring::Scoring;

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
    pub(crate) fn weighted(&self, pairs: u64) -> u64 {
        pairs.saturating_mul(u64::from(self.weight))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_sorted = self.between.is_sorted();
        let inside = self.between.iter().all(|&s| self.lo < s && s <= self.hi);
        if self.lo <= self.hi && is_sorted && inside && self.weight > 0 {
            return Ok(());
        }
        Err(Error::argument(
            "survivors",
            "sorted scores between lo and hi, and a weight",
            format!("{self:?}"),
        ))
    }
}

/// The candidates of a selection, checked and made ready once for any number of calls: a call of one row takes
/// less time than looking through the scores between the thresholds.
#[derive(Clone, Debug)]
pub struct Survivors {
    each: Vec<Survivor>,
    scorings: Vec<Scoring>,
    order: Vec<usize>,
    /// [`Cut::bounds`] of each.
    bounds: Vec<(f64, f64)>,
}

impl Survivors {
    /// Candidates in the order by which ties among them are broken.
    ///
    /// # Errors
    /// When there are none, or one is not what a selection leaves.
    pub fn new(each: Vec<Survivor>) -> Result<Self, Error> {
        if each.is_empty() {
            return Err(Error::argument("survivors", "at least one", 0));
        }
        each.iter().try_for_each(Survivor::check)?;
        let scorings: Vec<Scoring> = each.iter().map(|s| s.scoring).collect();
        let mut order = Vec::new();
        sharing_order(&scorings, &mut order);
        let bounds = each.iter().map(|s| Cut::new(&s.scoring, s.lo, s.hi, 0).bounds).collect();
        Ok(Self { each, scorings, order, bounds })
    }

    /// What rows are viewed for.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates::ordered(&self.scorings, &self.order)
    }

    /// Their order, those that share their sums side by side.
    #[inline(always)]
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The cut of one of them in rows of so many labels.
    #[inline(always)]
    pub(crate) fn cut(&self, m: usize, n_labels: usize) -> Cut<'_> {
        let Survivor { scoring, lo, hi, .. } = &self.each[m];
        Cut { scoring, lo: *lo, hi: *hi, n_labels, bounds: self.bounds[m] }
    }
}

impl Deref for Survivors {
    type Target = [Survivor];

    fn deref(&self) -> &[Survivor] {
        &self.each
    }
}

/// All else is made of the candidates; bounds may be NaN.
impl PartialEq for Survivors {
    fn eq(&self, other: &Self) -> bool {
        self.each == other.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::{Reweight, Score};

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
    fn cuts_are_those_of_the_candidates() {
        let list = vec![survivor(0.25, 2.75, &[], 1), survivor(f64::NEG_INFINITY, f64::INFINITY, &[], 1)];
        let survivors = Survivors::new(list.clone()).unwrap();
        for (m, Survivor { scoring, lo, hi, .. }) in list.iter().enumerate() {
            let (found, expected) = (survivors.cut(m, 9), Cut::new(scoring, *lo, *hi, 9));
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
        // Equal, though the second has no bounds that are numbers.
        assert_eq!(survivors, Survivors::new(list).unwrap());
    }
}
