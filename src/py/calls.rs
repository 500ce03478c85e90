//! Which functions does Python call? Each names its arguments, enters once and returns arrays.
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyUntypedArray};
use pyo3::prelude::*;

use super::arguments::{
    Compressed, PyScoring, Rows, Scores2, U, compressed, contiguous, entered, filled, filled_matrix,
    in_computing_type, matrix, randomness, scale, scorings, table,
};
use super::enter::enter;
use crate::error::Error;
use crate::run::{Plan, Size, fill, zeroed};
use crate::score::{Measure, Reweight};
use crate::{probe, score};

/// Uncertainty of each row: entropy, margin or gini.
#[pyfunction]
#[pyo3(signature = (logits, measure, *, probabilities=false, n_threads=None))]
pub(super) fn uncertainty<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    measure: &str,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let measure = match measure {
        "entropy" => Measure::Entropy,
        "margin" => Measure::Margin,
        "gini" => Measure::Gini,
        _ => return Err(Error::argument("measure", "'entropy', 'margin' or 'gini'", measure).into()),
    };
    let table = table(logits, &None, probabilities)?;
    let out = filled(py, (&table, 1), (table.len(), 1), n_threads, |plan, out| {
        in_computing_type!(table, F => {
            score::uncertainty::<F, _>(&table, measure, plan, out)
        })
    })?;
    Ok(out.into_pyarray(py))
}

/// Reweighted, tempered softmax, in the computing type of the logits.
#[pyfunction]
#[pyo3(signature = (logits, *, gamma, power, temperature, probabilities=false, n_threads=None))]
pub(super) fn softmax<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    gamma: f64,
    power: f64,
    temperature: f64,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let table = table(logits, &None, probabilities)?;
    let reweight = Reweight::new(gamma, power)?;
    in_computing_type!(table, F => {
        let out = filled_matrix(py, (&table, 1), n_threads, |plan, out| {
            score::softmax::<F, _>(&table, reweight, temperature, plan, out)
        })?;
        Ok(out.into_any())
    })
}

/// Rank of each row's label.
#[pyfunction]
#[pyo3(signature = (logits, labels, *, probabilities=false, n_threads=None))]
pub(super) fn ranks<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    labels: PyReadonlyArray1<'py, i64>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let table = table(logits, &None, probabilities)?;
    let labels = contiguous("labels", &labels)?;
    let out = filled(
        py,
        (&table, 1),
        (table.len(), 1),
        n_threads,
        |plan, out| in_computing_type!(table, F => score::ranks::<F, _>(&table, labels, plan, out)),
    )?;
    Ok(out.into_pyarray(py))
}

/// Scores of each row's label, one run of rows for each candidate.
#[pyfunction]
#[pyo3(signature = (logits, labels, candidates, *, ranked, seed, u=None, row_ids=None, rows=None, probabilities=false, n_threads=None))]
pub(super) fn label_scores<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    labels: PyReadonlyArray1<'py, i64>,
    candidates: Vec<PyRef<'py, PyScoring>>,
    ranked: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    rows: Rows<'py>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &rows, probabilities)?;
    let labels = contiguous("labels", &labels)?;
    let candidates = &scorings(&candidates);
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let scale = scale(ranked);
    let out =
        filled(py, (&table, candidates.len()), (candidates.len(), table.len()), n_threads, |plan, out| {
            in_computing_type!(table, F => {
                score::label_scores::<F, _>(&table, labels, candidates, scale, &randomness, plan, out)
            })
        })?;
    matrix(py, out, (candidates.len(), table.len()))
}

/// Scores of all labels.
#[pyfunction]
#[pyo3(signature = (logits, scoring, *, ranked, seed, u=None, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn all_scores<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    scoring: &PyScoring,
    ranked: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &None, probabilities)?;
    let scale = scale(ranked);
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    filled_matrix(py, (&table, 1), n_threads, |plan, out| {
        in_computing_type!(table, F => {
            crate::all_scores::<F, _>(&table, &scoring.0, scale, &randomness, plan, out)
        })
    })
}

/// Conformal p-values of all labels against sorted calibration scores.
#[pyfunction]
#[pyo3(signature = (logits, scoring, sorted_scores, *, smoothed, seed, row_ids=None, rows=None, probabilities=false, n_threads=None))]
pub(super) fn p_values<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    scoring: &PyScoring,
    sorted_scores: PyReadonlyArray1<'py, f64>,
    smoothed: bool,
    seed: u64,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    rows: Rows<'py>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &rows, probabilities)?;
    let randomness = randomness(seed, None, row_ids.as_ref())?;
    let sorted = contiguous("sorted_scores", &sorted_scores)?;
    filled_matrix(py, (&table, 1), n_threads, |plan, out| {
        in_computing_type!(table, F => {
            crate::p_values::<F, _>(&table, &scoring.0, sorted, smoothed, &randomness, plan, out)
        })
    })
}

/// Prediction sets as compressed rows: offsets and labels.
#[pyfunction]
#[pyo3(signature = (logits, scoring, threshold, *, allow_empty, seed, u=None, row_ids=None, rows=None, probabilities=false, n_threads=None))]
pub(super) fn predict_sets<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    scoring: &PyScoring,
    threshold: f64,
    allow_empty: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    rows: Rows<'py>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Compressed<'py>> {
    let table = table(logits, &rows, probabilities)?;
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let sets = entered(py, (&table, 1), n_threads, |plan| {
        in_computing_type!(table, F => {
            crate::predict_sets::<F, _>(&table, &scoring.0, threshold, allow_empty, &randomness, plan)
        })
    })?;
    Ok(compressed(py, sets))
}

/// The k-th smallest score, infinity when there are fewer.
#[pyfunction]
pub(super) fn kth_smallest(py: Python<'_>, scores: PyReadonlyArray1<'_, f64>, k: usize) -> PyResult<f64> {
    let scores = contiguous("scores", &scores)?;
    enter(py, scores.len(), |interrupt| crate::kth_smallest(scores, k, &Plan { n_threads: None, interrupt }))
}

/// `ceil((n + 1)(1 - alpha))` in integers.
#[pyfunction]
pub(super) fn conformal_rank(n: usize, alpha: f64) -> PyResult<usize> {
    Ok(crate::conformal_rank(n, alpha)?)
}

/// The permutation of `0..n` that splits use.
#[pyfunction]
pub(super) fn permutation(py: Python<'_>, seed: u64, n: usize) -> PyResult<Bound<'_, PyArray1<i64>>> {
    let order = enter(py, n, |_| crate::permutation(seed, n))?;
    Ok(order.into_iter().map(|i| i as i64).collect::<Vec<_>>().into_pyarray(py))
}

/// Compressed rows as a boolean matrix.
#[pyfunction]
pub(super) fn mask<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    labels: PyReadonlyArray1<'py, i32>,
    n_labels: usize,
) -> PyResult<Bound<'py, PyArray2<bool>>> {
    let (offsets, labels) = (contiguous("offsets", &offsets)?, contiguous("labels", &labels)?);
    let n_rows = offsets.len().saturating_sub(1);
    let mask = enter(py, n_rows.saturating_mul(n_labels), |interrupt| {
        let mut mask = zeroed(n_rows, n_labels)?;
        let size = Size::new(n_rows, n_labels, 1);
        fill(&mut mask, n_labels, size, &Plan { n_threads: None, interrupt }, |rows, parts| {
            let offsets = &offsets[rows.start..=rows.end];
            let rows = parts.only().chunks_exact_mut(n_labels.max(1));
            rows.zip(offsets.windows(2)).try_for_each(|(row, bounds)| mark(row, bounds, labels))
        })?;
        Ok(mask)
    })?;
    matrix(py, mask, (n_rows, n_labels))
}

/// Marks the labels of one row.
fn mark(row: &mut [bool], bounds: &[i64], labels: &[i32]) -> Result<(), Error> {
    let range = usize::try_from(bounds[0]).unwrap_or(usize::MAX)..usize::try_from(bounds[1]).unwrap_or(0);
    let set = labels.get(range);
    for &label in set.ok_or_else(|| Error::argument("indptr", "offsets into indices", bounds[1]))? {
        let cell = usize::try_from(label).ok().and_then(|label| row.get_mut(label));
        *cell.ok_or_else(|| Error::argument("indices", "labels below n_labels", label))? = true;
    }
    Ok(())
}

/// Threads that calls use unless they say otherwise.
#[pyfunction]
pub(super) fn default_threads() -> PyResult<usize> {
    Ok(crate::default_threads()?)
}

/// Sets them; None goes back to the environment and the machine.
#[pyfunction]
pub(super) fn set_default_threads(n_threads: Option<usize>) -> PyResult<()> {
    Ok(crate::set_default_threads(n_threads)?)
}

/// Name of the instruction set in use.
#[pyfunction]
pub(super) fn simd_level() -> &'static str {
    crate::level().name()
}

/// Largest logit of each row. Benchmarks compare other passes with this one, which only reads.
#[pyfunction]
#[pyo3(name = "_row_maxima", signature = (logits, *, n_threads=None))]
pub(super) fn row_maxima<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let table = table(logits, &None, false)?;
    in_computing_type!(table, F => {
        let out = filled(py, (&table, 1), (table.len(), 1), n_threads, |plan, out| {
            probe::row_maxima::<F, _>(&table, plan, out)
        })?;
        Ok(out.into_pyarray(py).into_any())
    })
}

/// Panics inside a call of the given size, to test that callers get an exception.
#[pyfunction]
#[pyo3(name = "_panic_for_tests")]
pub(super) fn panic_for_tests(py: Python<'_>, elements: usize) -> PyResult<()> {
    enter(py, elements, |_| -> Result<(), Error> { panic!("asked for by a test") })
}
