//! Tight, valid prediction sets from any classifier's logits, at memory speed.
//!
//! Conformal prediction turns logits into sets of labels that contain the truth with a chosen
//! probability. This crate scores labels under entropy-reweighted logits (Luo & Colombo, COPA 2024),
//! takes exact conformal quantiles and builds the sets. The Python package `tightset` is a thin layer
//! over it.
//!
//! The way of a row. Rooms depend on those above them alone:
//!
//! | room | question |
//! |---|---|
//! | `error` | why was a call refused? |
//! | `math` | what are exp, log, a float, an exact sum, an entropy and U here? |
//! | `simd` | which instruction set runs, and what can its vectors do? |
//! | `kernels` | what is done with a whole row, or a tile of rows, in vectors? |
//! | `rows` | where do rows come from, and what is read off them first? |
//! | `run` | how does a call go over its rows: blocks, threads, tiles, working space? |
//! | `score` | what is the score of a label? |
//! | `sets` | which labels are in the set of a row? |
//! | `conformal` | what makes a score a set with a guarantee: thresholds, p-values, selection? |
//! | `predictor` | how is a calibrated predictor read, shared and asked? |
//! | `py` | what does Python call? |
//!
//! A call names its work (`run::TileWork`); `run` cuts the rows into blocks, one for each thread at a time,
//! and each block into tiles of up to 32 rows. For each tile the rows are lent by `rows`, the instruction set
//! is chosen by `simd`, the rows are scanned by `kernels`, and the work is done: by `score`, `sets` or
//! `conformal`.
//!
//! [`Predictor`] is what a service needs: it reads the document that the Python package saves and predicts
//! sets with the same bits, a row at a time without allocating, or many in the caller's rayon pool.
//! The feature `rayon`, on by default, can be left out; nothing here needs Python.
//!
//! # Examples
//! Predict with what Python calibrated and saved by `predictor.save("predictor.json")`:
//! ```
//! use tightset::{Predictor, Scratch};
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1");
//! # let path = format!("{folder}/aps.json");
//! let predictor = Predictor::from_json(&std::fs::read_to_string(path)?)?;
//! let mut scratch = Scratch::new(); // one for each thread, for all its rows
//! let labels: &[u32] = predictor.predict_row(&[0.1_f32, 3.5, -1.0, 2.0], &mut scratch)?;
//! assert_eq!(labels[0], 1); // the most probable label comes first
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Or calibrate on four rows and predict a fifth:
//! ```
//! use tightset::{Matrix, Plan, Randomness, Reweight, Scale, Score, Scoring};
//!
//! let logits = [2.0_f32, 0.1, 0.3, 0.2, 1.5, 0.1, 0.0, 0.4, 2.5, 1.0, 0.9, 0.2];
//! let labels = [0_i64, 1, 2, 0];
//! let scoring = Scoring::new(Score::Aps, Reweight::new(0.0, 1.0)?, 1.0)?;
//! let (randomness, plan) = (Randomness::default(), Plan::default());
//!
//! let mut scores = vec![0.0; 4];
//! let rows = Matrix::new(&logits, 3)?;
//! tightset::label_scores(&rows, &labels, &[scoring], Scale::Ranked, &randomness, &plan, &mut scores)?;
//! let rank = tightset::conformal_rank(scores.len(), 0.2)?;
//! let threshold = tightset::kth_smallest(&scores, rank, &plan)?;
//!
//! let new = Matrix::new(&[1.0_f32, 3.0, 0.5], 3)?;
//! let sets = tightset::predict_sets(&new, &scoring, threshold, true, &randomness, &plan)?;
//! assert_eq!(sets.labels[0], 1); // the most probable label comes first
//! # Ok::<(), tightset::Error>(())
//! ```

mod conformal;
mod error;
mod kernels;
mod math;
mod predictor;
#[doc(hidden)]
pub mod probe;
mod rows;
mod run;
mod score;
mod sets;
mod simd;
#[cfg(test)]
mod testing;

#[cfg(feature = "python")]
mod py;

pub use conformal::{
    Bracket, Cell, CellCounts, PairCounts, Parting, Partition, Slot, Survivor, Survivors, cell_p_values,
    conformal_rank, count_cell_pairs, count_digits, count_pairs, key_of, keys_within, kth_smallest,
    order_statistics, p_value, p_values, predict_cell_sets, predict_selected_sets, score_of,
    selected_p_values, smoothed_p_value,
};
pub use error::Error;
pub use kernels::{Float, TILE};
pub use math::{GENERATOR, Randomness, Uniforms, permutation};
pub use predictor::{GroupKey, Options, Predictor, Scratch};
pub use rows::{LogProbabilities, Matrix, RowBuffer, Rows};
pub use run::{Plan, available_threads, default_threads, set_default_threads};
pub use score::{
    Measure, Reweight, Scale, Score, Scoring, all_scores, label_scores, ranks, softmax, uncertainty,
};
pub use sets::{Sets, predict_sets};
pub use simd::{Level, level};

/// Compiles the Rust of the page.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
pub struct Embedding;
