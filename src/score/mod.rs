//! What is the score of a label?
//!
//! In reading order:
//!
//! | file | question |
//! |---|---|
//! | [`scoring`] | what are the parameters of a score? |
//! | [`formula`] | how is a score defined, and which sums does it read? |
//! | [`limits`] | what are scores at temperatures 0 and infinity? |
//! | [`place`] | where does a label rank in its row? |
//! | [`masses`] | what are the sums of one label, in one row or in each row of a tile? |
//! | [`sorted`] | what are the sums of all labels of a row? |
//! | [`candidates`] | what do several candidates need of a row, and which share their sums? |
//! | [`row`], [`tile`] | what are the scores of one row, and of a tile of rows? |
//! | [`batch`], [`all_labels`] | which calls on a matrix are there? |

mod all_labels;
mod batch;
mod candidates;
mod formula;
mod limits;
mod masses;
mod place;
mod row;
mod scoring;
mod sorted;
#[cfg(test)]
pub(crate) mod testing;
mod tile;

pub(crate) use all_labels::all_labels;
pub use all_labels::all_scores;
pub(crate) use batch::check_length;
pub use batch::{Measure, label_scores, ranks, softmax, uncertainty};
pub(crate) use candidates::{Candidates, sharing_order};
pub(crate) use formula::{Masses, Sums};
pub(crate) use masses::{Sharpness, masses, masses_of_other};
pub(crate) use row::RowView;
pub use scoring::{Reweight, Scale, Score, Scoring};
pub(crate) use sorted::SortedRow;
pub(crate) use tile::TileView;
