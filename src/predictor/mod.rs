//! How is a calibrated predictor read, shared and asked?
//!
//! [`contents`] is what a predictor holds; [`document`] is how that is written and read, as [`json`].
//! [`one_row`] predicts a row, [`batch`] many; where rows are in groups, the rows of each cell are
//! [`picked`].

mod batch;
mod contents;
mod document;
mod json;
mod one_row;
mod picked;

pub use contents::GroupKey;
pub(crate) use json::Json;
pub use one_row::{Options, Predictor, Scratch};
