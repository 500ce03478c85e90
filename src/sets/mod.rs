//! Which labels are in the set of a row?
//!
//! Those whose score is at most a threshold: a run of the first labels by rank. Few of them are scored. In
//! reading order:
//!
//! | file | question |
//! |---|---|
//! | [`bounds`] | which labels are clearly in or clearly out? |
//! | [`ranked_labels`], [`ranked_masses`] | what are the first labels of a row by rank, and their masses? |
//! | [`row_cut`] | where does the set of one row end? |
//! | [`tile_order`] | what are the first labels by rank of each row of a tile? |
//! | [`tile_cut`] | where do the sets of a tile of rows end? |
//! | [`result`] | what comes out? |
//! | [`predict`] | what is the call on a matrix? |

mod bounds;
mod predict;
mod ranked_labels;
mod ranked_masses;
mod result;
mod row_cut;
#[cfg(test)]
mod testing;
mod tile_cut;
mod tile_order;

pub(crate) use bounds::Bounds;
pub use predict::predict_sets;
pub(crate) use result::SetBlock;
pub use result::Sets;
pub(crate) use row_cut::{RowCutter, Standing};
pub(crate) use tile_cut::{Ends, TileCut};
pub(crate) use tile_order::TileOrder;
