//! What was a predictor made by? Read and written, never run: selection is done before.

use crate::score::{Reweight, Score, Scoring};

/// How one of several candidates is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Modsel,
    HeldOut,
    Paper,
    Released,
}

impl Selection {
    pub(crate) const ALL: [Self; 4] = [Self::Modsel, Self::HeldOut, Self::Paper, Self::Released];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Modsel => "modsel",
            Self::HeldOut => "held-out",
            Self::Paper => "paper",
            Self::Released => "released",
        }
    }
}

/// Some of a recipe's candidates: every combination of what is listed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) scores: Vec<Score>,
    pub(crate) reweights: Vec<Option<Reweight>>,
    /// None for the fixed grid.
    pub(crate) temperatures: Option<Vec<f64>>,
    /// A preference for other parts.
    pub(crate) handicap: f64,
}

impl Part {
    pub(crate) fn holds(&self, scoring: &Scoring, reweight: Option<Reweight>) -> bool {
        let is_listed = self.temperatures.as_ref().is_none_or(|list| list.contains(&scoring.temperature));
        is_listed && self.scores.contains(&scoring.score) && self.reweights.contains(&reweight)
    }
}

/// What a predictor was made by; kept to be written again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    pub(crate) selection: Option<Selection>,
    pub(crate) parts: Vec<Part>,
}
