//! Why was a call refused? Users read the text of the error: it names the argument, the place and the value.

use std::fmt;

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// A logit is NaN or +inf.
    Logit {
        /// Row of the first such logit.
        row: usize,
        /// Its column.
        column: usize,
        /// Its value.
        value: f64,
    },
    /// Every label of a row is impossible.
    NoPossibleLabel {
        /// The row.
        row: usize,
    },
    /// A probability is NaN, negative or above 1.
    Probability {
        /// Row of the first such value.
        row: usize,
        /// Its column.
        column: usize,
        /// Its value.
        value: f64,
    },
    /// The probabilities of a row do not sum to 1.
    ProbabilitySum {
        /// The row.
        row: usize,
        /// Its sum.
        sum: f64,
    },
    /// A label is not one of `0..n_labels`.
    Label {
        /// Row of the first such label.
        row: usize,
        /// Its value.
        value: i64,
        /// Number of labels.
        n_labels: usize,
    },
    /// A value of U is outside `[0, 1]`.
    Uniform {
        /// Its row.
        row: usize,
        /// Its value.
        value: f64,
    },
    /// A score is NaN, where scores were given by the caller.
    Score {
        /// Its position.
        index: usize,
    },
    /// An argument has a value outside its domain.
    Argument {
        /// Name of the argument.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it was.
        found: String,
    },
    /// An argument has another length than the rows.
    Length {
        /// Name of the argument.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length it must have.
        expected: usize,
    },
    /// Rows have another number of labels than those of the calibration.
    Labels {
        /// Labels of the rows.
        found: usize,
        /// Labels in calibration.
        expected: usize,
    },
    /// A text is not the document of a predictor.
    Document(String),
    /// A result does not fit into memory.
    Memory {
        /// Elements asked for.
        elements: usize,
        /// Bytes of one.
        size: usize,
    },
    /// The caller stopped the work.
    Interrupted,
    /// A defect in this library, caught at the boundary.
    Internal(String),
}

impl Error {
    /// An argument outside its domain.
    pub(crate) fn argument(name: &'static str, expected: &'static str, found: impl fmt::Display) -> Self {
        let found = found.to_string();
        Self::Argument { name, expected, found: if found == "NaN" { "nan".to_owned() } else { found } }
    }

    /// Names the row by its position in the call instead of its place in a tile.
    pub(crate) fn at_row(mut self, position: impl Fn(usize) -> usize) -> Self {
        if let Self::Logit { row, .. } | Self::NoPossibleLabel { row } | Self::Label { row, .. } = &mut self {
            *row = position(*row);
        }
        self
    }
}

/// Floats as users write them: `nan`, `inf`, `-inf`.
fn shown(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { value.to_string() }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Logit { row, column, value } => write!(
                f,
                "logits must not contain NaN or +inf: found {} at row {row}, column {column}",
                shown(*value)
            ),
            Self::NoPossibleLabel { row } => {
                write!(f, "logits must leave at least one label possible: row {row} is -inf throughout")
            }
            Self::Probability { row, column, value } => write!(
                f,
                "probabilities must be between 0 and 1: found {} at row {row}, column {column}",
                shown(*value)
            ),
            Self::ProbabilitySum { row, sum } => write!(
                f,
                "probabilities must sum to 1 in every row: row {row} sums to {}; pass logits with probabilities=False",
                shown(*sum)
            ),
            Self::Label { row, value, n_labels } => write!(
                f,
                "labels must be between 0 and {}, the last column: found {value} at row {row}",
                n_labels.saturating_sub(1)
            ),
            Self::Uniform { row, value } => {
                write!(f, "u must be between 0 and 1: found {} at row {row}", shown(*value))
            }
            Self::Score { index } => write!(f, "scores must not contain NaN: found nan at position {index}"),
            Self::Argument { name, expected, found } => write!(f, "{name} must be {expected}, got {found}"),
            Self::Length { name, found, expected } => {
                write!(f, "{name} must have one value for each of the {expected} rows, got {found}")
            }
            Self::Labels { found, expected } => {
                write!(f, "logits must have {expected} labels as in calibration, got {found}")
            }
            Self::Document(why) => write!(f, "not a valid predictor: {why}"),
            Self::Memory { elements, size } => {
                write!(f, "a result of {elements} elements of {size} bytes does not fit into memory")
            }
            Self::Interrupted => write!(f, "interrupted"),
            Self::Internal(what) => write!(f, "internal error, please report it: {what}"),
        }
    }
}

impl std::error::Error for Error {}
