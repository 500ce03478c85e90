//! Where do rows come from, and what is read off them first?
//!
//! A source ([`Rows`]) lends up to a tile of rows at a time, as they lie or from a [`RowBuffer`]. A [`Tile`]
//! scans them, and transposes them where labels are few. A [`Scan`] is what is read off one row.

mod buffer;
mod matrix;
mod probabilities;
mod scan;
mod source;
mod tile;

pub use buffer::RowBuffer;
#[allow(unused_imports, reason = "arrays of Python alone have columns")]
pub(crate) use buffer::held_stride;
pub use matrix::Matrix;
pub use probabilities::LogProbabilities;
pub(crate) use probabilities::log_probabilities;
pub(crate) use scan::{Scan, entropy, gini, margin};
pub use source::Rows;
#[allow(unused_imports, reason = "arrays of Python alone have columns")]
pub(crate) use source::lend_apart;
pub(crate) use source::{MOST_LABELS, lend};
pub(crate) use tile::{Tile, TileBuffers, rows_of_tile};
