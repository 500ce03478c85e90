//! What does a predictor hold? All that its document has: what prediction needs, and what it was made by.

use crate::conformal::{Cell, Partition};
use crate::error::Error;
use crate::score::{Reweight, Score, Scoring};

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

impl Contents {
    /// The cells of labels, if labels have cells of their own.
    pub(crate) fn partition(&self) -> Option<&Partition> {
        match &self.condition.as_ref()?.parted {
            Parted::Labels(partition) => Some(partition),
            Parted::Groups { .. } => None,
        }
    }

    /// Whether rows need groups.
    pub(crate) fn uses_groups(&self) -> bool {
        self.condition.as_ref().is_some_and(|condition| condition.kind == Kind::Groups)
    }
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

/// What coverage is conditional on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) kind: Kind,
    /// The cell of all rows, for labels and groups with too few rows of their own.
    pub(crate) pooled: Option<u32>,
    pub(crate) parted: Parted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Label,
    Groups,
    Cluster,
    Rc3p,
}

impl Kind {
    pub(crate) const NAMES: [(&'static str, Self); 4] =
        [("label", Self::Label), ("groups", Self::Groups), ("cluster", Self::Cluster), ("rc3p", Self::Rc3p)];
}

/// The name of a value in a table of all of them.
pub(crate) fn name_of<T: Copy + PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

/// How rows find their cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parted {
    /// By the label that a row might have.
    Labels(Partition),
    /// By the row's group.
    Groups { names: Vec<GroupName>, cell_of: Vec<u32> },
}

/// The group of a row, for predictors that were calibrated with groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey<'a> {
    /// An integer.
    Number(i64),
    /// A string.
    Name(&'a str),
}

/// A group as a predictor keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupName {
    Number(i64),
    Name(String),
}

impl GroupName {
    pub(crate) fn key(&self) -> GroupKey<'_> {
        match self {
            Self::Number(number) => GroupKey::Number(*number),
            Self::Name(name) => GroupKey::Name(name),
        }
    }
}

impl Condition {
    /// The cell of rows in a group.
    pub(crate) fn cell_of(&self, group: GroupKey<'_>) -> Result<usize, Error> {
        let known = match &self.parted {
            Parted::Groups { names, cell_of } => {
                names.iter().position(|n| n.key() == group).map(|i| cell_of[i])
            }
            Parted::Labels(_) => None,
        };
        let cell = known.or(self.pooled).map(|cell| cell as usize);
        cell.ok_or_else(|| Error::argument("groups", "one of the calibration", format!("{group:?}")))
    }
}

/// What a predictor was made by. It is kept to be written again, and never run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    pub(crate) selection: Option<Selection>,
    pub(crate) parts: Vec<Part>,
}

/// How one of several candidates was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Modsel,
    HeldOut,
    Paper,
    Released,
}

impl Selection {
    pub(crate) const NAMES: [(&'static str, Self); 4] = [
        ("modsel", Self::Modsel),
        ("held-out", Self::HeldOut),
        ("paper", Self::Paper),
        ("released", Self::Released),
    ];
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
