//! How is a calibrated predictor read, shared and asked?
//!
//! [`contents`] is what a predictor holds, [`document`] how it is written and read, as [`json`]; [`one_row`] predicts a row,
//! [`batch`] many, where [`condition`] says which cells rows and labels belong to. [`recipe`] is what it was made by.

mod batch;
mod condition;
mod contents;
mod document;
mod json;
mod one_row;
mod recipe;

pub use condition::GroupKey;
pub(crate) use json::Json;
pub use one_row::{Options, Predictor, Scratch};
