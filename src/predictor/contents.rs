//! What does a predictor hold?

use super::condition::{Condition, Parted};
use super::recipe::Recipe;
use crate::conformal::{Cell, Partition};
use crate::score::Reweight;

/// All that a predictor holds, as its document has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contents {
    pub(crate) alpha: f64,
    pub(crate) n_labels: usize,
    pub(crate) n_calibration: usize,
    pub(crate) rank: usize,
    pub(crate) seed: u64,
    pub(crate) probabilities: bool,
    pub(crate) uses_row_ids: bool,
    pub(crate) pac: Option<Pac>,
    pub(crate) label_names: Option<Vec<String>>,
    pub(crate) recipe: Recipe,
    /// One, or those of the condition.
    pub(crate) cells: Vec<Cell>,
    /// What else is known of each cell.
    pub(crate) details: Vec<Detail>,
    pub(crate) condition: Option<Condition>,
}

/// A guarantee over calibration draws: all but a share delta of them cover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pac {
    pub(crate) delta: f64,
    /// Thresholds that delta was divided among.
    pub(crate) shares: u64,
}

/// A cell's calibration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detail {
    pub(crate) n_calibration: usize,
    pub(crate) rank: usize,
    /// The candidates' reweightings as they were given: none and one of power 0 compute alike.
    pub(crate) reweights: Vec<Option<Reweight>>,
}

impl Contents {
    /// The cells of labels, if labels have cells of their own.
    pub(crate) fn partition(&self) -> Option<&Partition> {
        match self.condition.as_ref().map(|condition| &condition.parted) {
            Some(Parted::Labels(partition)) => Some(partition),
            _ => None,
        }
    }

    /// Whether rows need groups.
    pub(crate) fn uses_groups(&self) -> bool {
        self.condition.as_ref().is_some_and(Condition::has_groups)
    }
}
