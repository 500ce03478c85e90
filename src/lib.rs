//! Tight, valid prediction sets from any classifier's logits, at memory speed.
//!
//! Conformal prediction turns logits into sets of labels that contain the truth with a chosen
//! probability. This crate scores labels under entropy-reweighted logits (Luo & Colombo, COPA 2024),
//! takes exact conformal quantiles and builds the sets. The Python package `tightset` is a thin layer
//! over it.
//!
//! The way of a row: `rows` lends it, `row` scans it, `entropy` takes its entropy, `place` finds the label's rank,
//! `masses` sums the exponentials on either side of it, `score` turns those sums into a score, `quantile` picks
//! the threshold, `batch` does this for a matrix over `threads`.
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
//! let threshold = tightset::kth_smallest(&mut scores, rank)?;
//!
//! let new = Matrix::new(&[1.0_f32, 3.0, 0.5], 3)?;
//! let sets = tightset::predict_sets(&new, &scoring, threshold, true, &randomness, &plan)?;
//! assert_eq!(sets.labels[0], 1); // the most probable label comes first
//! # Ok::<(), tightset::Error>(())
//! ```

mod ahead;
mod all_labels;
mod batch;
mod candidates;
mod cell_counts;
mod cells;
mod condition;
mod counts;
mod cut;
mod document;
mod elementary;
mod entropy;
mod error;
mod exp2;
mod float;
mod group;
mod group_masses;
mod group_scans;
mod json;
mod judge;
mod kernel;
mod lane_cut;
mod lane_order;
mod masses;
mod nucleus;
mod order;
mod place;
mod planes;
mod predictor;
mod predictor_batch;
#[doc(hidden)]
pub mod probe;
mod pvalue;
mod quantile;
mod radix;
mod ranked_masses;
mod reading;
mod recipe;
mod results;
mod row;
mod rows;
mod score;
mod scoring;
mod selected;
mod sets;
mod simd;
mod spare;
mod sum;
mod survivors;
mod thread_count;
mod threads;
mod top_labels;
mod uniform;
mod unit_sums;

#[cfg(feature = "python")]
mod py;

pub use all_labels::{all_scores, p_values};
pub use batch::{Measure, label_scores, ranks, softmax, uncertainty};
pub use cell_counts::{CellCounts, Parting, count_cell_pairs};
pub use cells::{Cell, Partition, cell_p_values, predict_cell_sets};
pub use condition::GroupKey;
pub use counts::{Bracket, PairCounts, count_pairs};
pub use error::Error;
pub use float::Float;
pub use predictor::{Options, Predictor, Scratch};
pub use pvalue::{p_value, smoothed_p_value};
pub use quantile::{conformal_rank, kth_smallest, order_statistics};
pub use radix::{Slot, count_digits, key_of, keys_within, score_of};
pub use rows::{GROUP, LogProbabilities, Matrix, RowBuffer, Rows};
pub use scoring::{Reweight, Scale, Score, Scoring};
pub use selected::{predict_selected_sets, selected_p_values};
pub use sets::{Sets, predict_sets};
pub use simd::{Level, level};
pub use survivors::{Survivor, Survivors};
pub use thread_count::{available_threads, default_threads, set_default_threads};
pub use threads::Plan;
pub use uniform::{GENERATOR, Randomness, Uniforms, permutation};

/// Compiles the Rust of the page.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
pub struct Embedding;
