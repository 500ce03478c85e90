//! What is the score of a label?
//!
//! [`scoring`] has the parameters, [`formula`] the definitions, from sums that [`masses`] takes for one label and
//! [`sorted`] for all labels of a row; [`row`] and [`tile`] put them together for one row and for a tile of rows; [`batch`]
//! and [`all_labels`] are the calls on a matrix.

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
