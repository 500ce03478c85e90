//! The extension module `tightset._core`: its exports, nothing else.

mod arrays;
mod calls;
mod enter;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::calls::{
        PyScoring, all_scores, available_threads, conformal_rank, count_pairs, kth_smallest, label_scores,
        mask, p_values, panic_for_tests, permutation, predict_sets, ranks, simd_level, softmax, uncertainty,
    };
    #[pymodule_export]
    use super::enter::InternalError;

    #[pymodule_export]
    const GENERATOR: &str = crate::GENERATOR;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
