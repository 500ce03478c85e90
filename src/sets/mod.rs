//! Which labels are in the set of a row?
//!
//! [`bounds`] says which labels are clearly in or clearly out; [`row_cut`] cuts one row by them, with labels by rank from
//! [`ranked_labels`] and masses by rank from [`ranked_masses`]; [`tile_cut`] cuts a tile of rows, with labels by rank from
//! [`tile_order`]. [`result`] is what comes out, [`predict`] the call on a matrix.

mod bounds;
mod predict;
mod ranked_labels;
mod ranked_masses;
mod result;
mod row_cut;
mod tile_cut;
mod tile_order;

pub(crate) use bounds::Bounds;
pub use predict::predict_sets;
pub(crate) use result::SetBlock;
pub use result::Sets;
pub(crate) use row_cut::{RowCutter, Standing};
pub(crate) use tile_cut::{Ends, TileCut};
pub(crate) use tile_order::TileOrder;
