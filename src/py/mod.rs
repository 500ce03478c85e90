//! The extension module `tightset._core`: its exports, nothing else.

mod arrays;
mod calls;
mod enter;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::calls::{
        PyScoring, all_scores, conformal_rank, count_digits, count_pairs, default_threads, keys_within,
        kth_smallest, label_scores, mask, order_statistics, p_values, panic_for_tests, permutation,
        predict_selected_sets, predict_sets, ranks, row_maxima, selected_p_values, set_default_threads,
        simd_level, softmax, uncertainty,
    };
    #[pymodule_export]
    use super::enter::InternalError;

    /// Loads NumPy's C interface now: a signal that arrives while it is loaded by a first call would
    /// turn into a panic there.
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
