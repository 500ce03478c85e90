//! Which functions do selections call? Counts, order statistics, and sets among several candidates.
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray2, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arguments::{
    Compressed, Counts, PyScoring, Rows, Scores2, U, brackets, compressed, contiguous, copied, counted,
    entered, filled_matrix, in_computing_type, matrix, randomness, row_major, scorings, table,
};
use super::enter::enter;
use crate::conformal::{Slot, Survivor, Survivors};
use crate::error::Error;
use crate::run::{Plan, zeroed};

/// A candidate that rows may select: its scoring, lo, hi, pairs up to lo, the scores between, its weight.
type PySurvivor<'py> = (PyRef<'py, PyScoring>, f64, f64, u64, PyReadonlyArray1<'py, f64>, u32);

/// Candidates that rows may select, read once and used for many predictions.
#[pyclass(frozen, module = "tightset._core", name = "Survivors")]
#[derive(Debug)]
pub(super) struct PySurvivors(pub(super) Survivors);

#[pymethods]
impl PySurvivors {
    #[new]
    fn new(survivors: Vec<PySurvivor<'_>>) -> PyResult<Self> {
        let each = survivors.iter().map(|(scoring, lo, hi, at_lo, between, weight)| {
            let between = copied(contiguous("between", between)?)?;
            Ok(Survivor { scoring: scoring.0, lo: *lo, hi: *hi, at_lo: *at_lo, between, weight: *weight })
        });
        Ok(Self(Survivors::new(each.collect::<PyResult<_>>()?)?))
    }

    /// Immutable, so its copies are itself.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (_memo, /))]
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

/// Prediction sets of rows whose labels select among candidates: offsets and labels.
#[pyfunction]
#[pyo3(signature = (logits, survivors, *, allow_empty, seed, u=None, row_ids=None, rows=None, probabilities=false, n_threads=None))]
pub(super) fn predict_selected_sets<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    survivors: &PySurvivors,
    allow_empty: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    rows: Rows<'py>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Compressed<'py>> {
    let table = table(logits, &rows, probabilities)?;
    let survivors = &survivors.0;
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let sets = entered(py, (&table, survivors.len()), n_threads, |plan| {
        in_computing_type!(table, F => {
            crate::predict_selected_sets::<F, _>(&table, survivors, allow_empty, &randomness, plan)
        })
    })?;
    Ok(compressed(py, sets))
}

/// Conformal p-values of all labels, each by the candidate that it selects.
#[pyfunction]
#[pyo3(signature = (logits, survivors, sorted_scores, *, seed, row_ids=None, rows=None, probabilities=false, n_threads=None))]
pub(super) fn selected_p_values<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    survivors: &PySurvivors,
    sorted_scores: Vec<PyReadonlyArray1<'py, f64>>,
    seed: u64,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    rows: Rows<'py>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &rows, probabilities)?;
    let survivors = &survivors.0;
    let randomness = randomness(seed, None, row_ids.as_ref())?;
    let sorted = sorted_scores.iter().map(|s| contiguous("sorted_scores", s));
    let sorted = &sorted.collect::<PyResult<Vec<_>>>()?;
    filled_matrix(py, (&table, survivors.len()), n_threads, |plan, out| {
        in_computing_type!(table, F => {
            crate::selected_p_values::<F, _, _>(&table, survivors, sorted, &randomness, plan, out)
        })
    })
}

/// For each candidate and bracket, a row of four counts: pairs up to lo, pairs up to hi, rows with one
/// label, rows with none; and, with `keep`, the sorted scores between.
#[pyfunction]
#[pyo3(signature = (logits, candidates, lo, hi, *, keep=false, seed, row_ids=None, rows=None, probabilities=false, n_threads=None))]
pub(super) fn count_pairs<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    candidates: Vec<PyRef<'py, PyScoring>>,
    lo: PyReadonlyArray1<'py, f64>,
    hi: PyReadonlyArray1<'py, f64>,
    keep: bool,
    seed: u64,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    rows: Rows<'py>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Counts<'py>> {
    let table = table(logits, &rows, probabilities)?;
    let candidates = &scorings(&candidates);
    let randomness = randomness(seed, None, row_ids.as_ref())?;
    let brackets = &brackets(&lo, &hi)?;
    let counts = entered(py, (&table, candidates.len()), n_threads, |plan| {
        in_computing_type!(table, F => {
            crate::count_pairs::<F, _>(&table, candidates, brackets, keep, &randomness, plan)
        })
    })?;
    counted(
        py,
        keep,
        counts.into_iter().map(|c| ([c.at_lo, c.at_hi, c.singletons, c.empty], c.between)).collect(),
    )
}

/// For each run of scores, its order statistics of the given ranks: infinity where there are fewer scores,
/// minus infinity for rank 0.
#[pyfunction]
#[pyo3(signature = (scores, ranks, *, n_threads=None))]
pub(super) fn order_statistics<'py>(
    py: Python<'py>,
    scores: PyReadonlyArray2<'py, f64>,
    ranks: Vec<usize>,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = row_major("scores", &scores)?;
    let (runs, n) = (scores.as_array().nrows(), scores.as_array().ncols());
    let out = enter(py, table.len(), |interrupt| {
        let mut out = zeroed(runs, ranks.len())?;
        crate::order_statistics(table, n, &ranks, &Plan { n_threads, interrupt }, &mut out)?;
        Ok(out)
    })?;
    matrix(py, out, (runs, ranks.len()))
}

fn slots(runs: Vec<usize>, bases: &[u64], widths: &[u32]) -> PyResult<Vec<Slot>> {
    if runs.len() != bases.len() || runs.len() != widths.len() {
        return Err(PyValueError::new_err("runs, bases and widths must have one entry for each slot"));
    }
    let parts = runs.into_iter().zip(bases).zip(widths);
    Ok(parts.map(|((run, &base), &width)| Slot { run, base, width }).collect())
}

/// Adds to `counts`, one row for each slot, how many scores of its run have each value of its next bits.
#[pyfunction]
#[pyo3(signature = (scores, runs, bases, widths, counts, *, n_threads=None))]
pub(super) fn count_digits(
    py: Python<'_>,
    scores: PyReadonlyArray2<'_, f64>,
    runs: Vec<usize>,
    bases: PyReadonlyArray1<'_, u64>,
    widths: PyReadonlyArray1<'_, u32>,
    mut counts: PyReadwriteArray2<'_, u64>,
    n_threads: Option<usize>,
) -> PyResult<()> {
    let table = row_major("scores", &scores)?;
    let slots = slots(runs, contiguous("bases", &bases)?, contiguous("widths", &widths)?)?;
    let (n, bins) = (scores.as_array().ncols(), counts.as_array().ncols());
    if !bins.is_power_of_two() {
        return Err(Error::argument("counts", "rows of a power of two", bins).into());
    }
    let out = counts.as_array_mut().into_slice();
    let out = out.ok_or_else(|| PyValueError::new_err("counts must be contiguous, in C order"))?;
    enter(py, n.saturating_mul(slots.len()), |interrupt| {
        crate::count_digits(table, n, &slots, bins.trailing_zeros(), &Plan { n_threads, interrupt }, out)
    })
}

/// For each slot, the keys of its run's scores that lie in it.
#[pyfunction]
#[pyo3(signature = (scores, runs, bases, widths, *, n_threads=None))]
pub(super) fn keys_within<'py>(
    py: Python<'py>,
    scores: PyReadonlyArray2<'py, f64>,
    runs: Vec<usize>,
    bases: PyReadonlyArray1<'py, u64>,
    widths: PyReadonlyArray1<'py, u32>,
    n_threads: Option<usize>,
) -> PyResult<Vec<Bound<'py, PyArray1<u64>>>> {
    let table = row_major("scores", &scores)?;
    let slots = slots(runs, contiguous("bases", &bases)?, contiguous("widths", &widths)?)?;
    let n = scores.as_array().ncols();
    let found = enter(py, n.saturating_mul(slots.len()), |interrupt| {
        crate::keys_within(table, n, &slots, &Plan { n_threads, interrupt })
    })?;
    Ok(found.into_iter().map(|keys| keys.into_pyarray(py)).collect())
}
