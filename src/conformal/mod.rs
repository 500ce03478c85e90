//! What makes a score a set with a guarantee? Thresholds, p-values, and the selection of a candidate.
//!
//! [`quantile`] takes the conformal threshold of scores; [`radix`] takes it of scores that are never
//! together. [`pvalue`] has p-values. [`modsel`] lets each label of a row select among candidates
//! ([`survivors`]) by the counts of [`pairs`]. [`cells`] does this within labels or clusters, by the counts
//! of [`cell_pairs`].

mod cell_pairs;
mod cells;
mod modsel;
mod pairs;
mod pvalue;
mod quantile;
mod radix;
mod survivors;

pub use cell_pairs::{CellCounts, Parting, count_cell_pairs};
pub(crate) use cells::CellVote;
pub use cells::{Cell, Partition, cell_p_values, predict_cell_sets};
pub(crate) use modsel::Vote;
pub use modsel::{predict_selected_sets, selected_p_values};
pub use pairs::{Bracket, PairCounts, count_pairs};
pub use pvalue::{p_value, p_values, smoothed_p_value};
pub use quantile::{conformal_rank, kth_smallest, order_statistics};
pub use radix::{Slot, count_digits, key_of, keys_within, score_of};
pub use survivors::{Survivor, Survivors};
