//! What does Python call? This file lists the exports of the extension module `tightset._core`.

#![allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    clippy::trivially_copy_pass_by_ref,
    reason = "signatures are those of Python"
)]

mod arguments;
mod arrays;
mod calls;
mod cells;
mod enter;
mod selecting;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::arguments::PyScoring;
    #[pymodule_export]
    use super::calls::{
        all_scores, conformal_rank, default_threads, kth_smallest, label_scores, mask, p_values,
        panic_for_tests, permutation, predict_sets, ranks, row_maxima, set_default_threads, simd_level,
        softmax, uncertainty,
    };
    #[pymodule_export]
    use super::cells::{PyCells, cell_p_values, count_cell_pairs, predict_cell_sets};
    #[pymodule_export]
    use super::enter::InternalError;
    #[pymodule_export]
    use super::selecting::{
        PySurvivors, count_digits, count_pairs, keys_within, order_statistics, predict_selected_sets,
        selected_p_values,
    };

    /// Loads NumPy's C interface now. If a first call loaded it, a signal that arrives meanwhile would turn
    /// into a panic.
    #[pymodule_init]
    #[allow(clippy::unnecessary_wraps, reason = "the signature of an initialiser")]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        numpy::PyArray1::<f64>::zeros(module.py(), 0, false);
        Ok(())
    }

    #[pymodule_export]
    const GENERATOR: &str = crate::GENERATOR;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
