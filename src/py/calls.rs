//! The functions Python calls: each names its arguments, enters once and returns arrays.
#![allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "signatures are those of Python"
)]

use numpy::ndarray::{Array1, Array2};
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray2, PyUntypedArray,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arrays::Table;
use super::enter::{Interrupt, enter};
use crate::batch::{self, Measure};
use crate::counts::Bracket;
use crate::error::Error;
use crate::radix::{self, Slot};
use crate::reading;
use crate::scoring::{Reweight, Scale, Score, Scoring};
use crate::selected::Survivor;
use crate::sets;
use crate::threads::Plan;
use crate::uniform::{Randomness, Uniforms};

type Scores1<'py> = Bound<'py, PyArray1<f64>>;
type Scores2<'py> = Bound<'py, PyArray2<f64>>;
type Compressed<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i32>>);
type Rows<'py> = Option<PyReadonlyArray1<'py, i64>>;

/// A candidate: score, reweighting and temperature, checked together.
#[pyclass(frozen, module = "tightset._core", name = "Scoring")]
#[derive(Clone, Copy, Debug)]
pub(super) struct PyScoring(Scoring);

#[pymethods]
impl PyScoring {
    #[new]
    #[pyo3(signature = (score, *, penalty=0.0, k_reg=0, weight=0.0, gamma=0.0, power=0.0, temperature=1.0))]
    fn new(
        score: &str,
        penalty: f64,
        k_reg: u32,
        weight: f64,
        gamma: f64,
        power: f64,
        temperature: f64,
    ) -> PyResult<Self> {
        let score = match score {
            "thr" => Score::Thr,
            "aps" => Score::Aps,
            "raps" => Score::Raps { penalty, k_reg },
            "saps" => Score::Saps { weight },
            "rank" => Score::Rank,
            "mixed" => Score::Mixed { weight },
            _ => {
                let expected = "one of 'thr', 'aps', 'raps', 'saps', 'rank', 'mixed'";
                return Err(Error::argument("score", expected, format!("{score:?}")).into());
            }
        };
        Ok(Self(Scoring::new(score, Reweight::new(gamma, power)?, temperature)?))
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

/// `u` as Python gives it: nothing, one number, or one for each row.
#[derive(FromPyObject)]
pub(super) enum U<'py> {
    Fixed(f64),
    Each(PyReadonlyArray1<'py, f64>),
}

fn contiguous<'a, T: numpy::Element>(name: &str, array: &'a PyReadonlyArray1<'_, T>) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| PyValueError::new_err(format!("{name} must be contiguous")))
}

fn optional<'a, T: numpy::Element>(
    name: &str,
    array: Option<&'a PyReadonlyArray1<'_, T>>,
) -> PyResult<Option<&'a [T]>> {
    array.map(|array| contiguous(name, array)).transpose()
}

fn table(array: &Bound<'_, PyUntypedArray>, rows: &Rows<'_>, probabilities: bool) -> PyResult<Table> {
    Table::new(array, optional("rows", rows.as_ref())?, probabilities)
}

fn randomness<'a>(
    seed: u64,
    u: Option<&'a U<'_>>,
    row_ids: Option<&'a PyReadonlyArray1<'_, u64>>,
) -> PyResult<Randomness<'a>> {
    let uniforms = match u {
        None => Uniforms::FromRow,
        Some(U::Fixed(value)) => Uniforms::Fixed(*value),
        Some(U::Each(values)) => Uniforms::Each(contiguous("u", values)?),
    };
    Ok(Randomness { seed, uniforms, row_ids: optional("row_ids", row_ids)? })
}

fn scorings(candidates: &[PyRef<'_, PyScoring>]) -> Vec<Scoring> {
    candidates.iter().map(|candidate| candidate.0).collect()
}

fn scale(ranked: bool) -> Scale {
    if ranked { Scale::Ranked } else { Scale::Conventional }
}

fn plan(n_threads: Option<usize>, interrupt: Interrupt<'_>) -> Plan<'_> {
    Plan { n_threads, interrupt }
}

/// A result of `rows` times `columns` elements; an error, not an abort, when there is no room for it.
fn room<T: Clone + Default>(rows: usize, columns: usize) -> Result<Vec<T>, Error> {
    let size = size_of::<T>();
    let elements = rows.checked_mul(columns).filter(|n| n.checked_mul(size).is_some());
    let elements = elements.ok_or(Error::Memory { elements: usize::MAX, size })?;
    let mut out = Vec::new();
    out.try_reserve_exact(elements).map_err(|_| Error::Memory { elements, size })?;
    out.resize(elements, T::default());
    Ok(out)
}

/// Evaluates `$call` with `$float` standing for the computing type of `$table`.
macro_rules! in_computing_type {
    ($table:expr, $float:ident => $call:expr) => {
        if $table.computes_in_f32() {
            type $float = f32;
            $call
        } else {
            type $float = f64;
            $call
        }
    };
}

/// Uncertainty of each row: entropy, margin or gini.
#[pyfunction]
#[pyo3(signature = (logits, measure, *, probabilities=false, n_threads=None))]
pub(super) fn uncertainty<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    measure: &str,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores1<'py>> {
    let measure = match measure {
        "entropy" => Measure::Entropy,
        "margin" => Measure::Margin,
        "gini" => Measure::Gini,
        _ => return Err(Error::argument("measure", "'entropy', 'margin' or 'gini'", measure).into()),
    };
    let table = table(logits, &None, probabilities)?;
    let out = enter(py, table.elements(), |interrupt| {
        let plan = plan(n_threads, interrupt);
        let mut out = room(table.len(), 1)?;
        in_computing_type!(table, F => batch::uncertainty::<F, _>(&table, measure, &plan, &mut out))?;
        Ok(out)
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
        let out = enter(py, table.elements(), |interrupt| {
            let mut out = room::<F>(table.len(), table.shape().1)?;
            batch::softmax::<F, _>(&table, reweight, temperature, &plan(n_threads, interrupt), &mut out)?;
            Ok(out)
        })?;
        Ok(matrix(py, out, table.shape())?.into_any())
    })
}

/// A vector as a matrix.
fn matrix<T: numpy::Element>(
    py: Python<'_>,
    data: Vec<T>,
    shape: (usize, usize),
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let array = Array2::from_shape_vec(shape, data);
    Ok(array.map_err(|e| Error::Internal(e.to_string()))?.into_pyarray(py))
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
    let out = enter(py, table.elements(), |interrupt| {
        let plan = plan(n_threads, interrupt);
        let mut out = room(table.len(), 1)?;
        in_computing_type!(table, F => batch::ranks::<F, _>(&table, labels, &plan, &mut out))?;
        Ok(out)
    })?;
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
    let out = enter(py, table.elements().saturating_mul(candidates.len()), |interrupt| {
        let plan = plan(n_threads, interrupt);
        let mut out = room(candidates.len(), table.len())?;
        in_computing_type!(table, F => {
            batch::label_scores::<F, _>(&table, labels, candidates, scale, &randomness, &plan, &mut out)
        })?;
        Ok(out)
    })?;
    matrix(py, out, (candidates.len(), table.len()))
}

/// Scores of all labels.
#[pyfunction]
#[pyo3(signature = (logits, scoring, *, ranked, seed, u=None, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn all_scores<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    scoring: PyRef<'py, PyScoring>,
    ranked: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &None, probabilities)?;
    let (scoring, scale) = (scoring.0, scale(ranked));
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let out = enter(py, table.elements(), |interrupt| {
        let plan = plan(n_threads, interrupt);
        let mut out = room(table.len(), table.shape().1)?;
        in_computing_type!(table, F => batch::all_scores::<F, _>(&table, &scoring, scale, &randomness, &plan, &mut out))?;
        Ok(out)
    })?;
    matrix(py, out, table.shape())
}

/// Conformal p-values of all labels against sorted calibration scores.
#[pyfunction]
#[pyo3(signature = (logits, scoring, sorted_scores, *, smoothed, seed, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn p_values<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    scoring: PyRef<'py, PyScoring>,
    sorted_scores: PyReadonlyArray1<'py, f64>,
    smoothed: bool,
    seed: u64,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &None, probabilities)?;
    let scoring = scoring.0;
    let randomness = randomness(seed, None, row_ids.as_ref())?;
    let sorted = contiguous("sorted_scores", &sorted_scores)?;
    let out = enter(py, table.elements(), |interrupt| {
        let plan = plan(n_threads, interrupt);
        let mut out = room(table.len(), table.shape().1)?;
        in_computing_type!(table, F => {
            batch::p_values::<F, _>(&table, &scoring, sorted, smoothed, &randomness, &plan, &mut out)
        })?;
        Ok(out)
    })?;
    matrix(py, out, table.shape())
}

/// Prediction sets as compressed rows: offsets and labels.
#[pyfunction]
#[pyo3(signature = (logits, scoring, threshold, *, allow_empty, seed, u=None, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn predict_sets<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    scoring: PyRef<'py, PyScoring>,
    threshold: f64,
    allow_empty: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Compressed<'py>> {
    let table = table(logits, &None, probabilities)?;
    let scoring = scoring.0;
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let sets = enter(py, table.elements(), |interrupt| {
        let plan = plan(n_threads, interrupt);
        in_computing_type!(table, F => {
            sets::predict_sets::<F, _>(&table, &scoring, threshold, allow_empty, &randomness, &plan)
        })
    })?;
    Ok((Array1::from_vec(sets.offsets).into_pyarray(py), Array1::from_vec(sets.labels).into_pyarray(py)))
}

/// A candidate that rows may select: its scoring, lo, hi, pairs up to lo, the scores between, its weight.
type PySurvivor<'py> = (PyRef<'py, PyScoring>, f64, f64, u64, PyReadonlyArray1<'py, f64>, u32);

fn survivors(found: &[PySurvivor<'_>]) -> PyResult<Vec<Survivor>> {
    let each = found.iter().map(|(scoring, lo, hi, at_lo, between, weight)| {
        let between = contiguous("between", between)?.to_vec();
        Ok(Survivor { scoring: scoring.0, lo: *lo, hi: *hi, at_lo: *at_lo, between, weight: *weight })
    });
    each.collect()
}

/// Prediction sets of rows whose labels select among candidates: offsets and labels.
#[pyfunction]
#[pyo3(signature = (logits, survivors, *, allow_empty, seed, u=None, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn predict_selected_sets<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    survivors: Vec<PySurvivor<'py>>,
    allow_empty: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Compressed<'py>> {
    let table = table(logits, &None, probabilities)?;
    let survivors = &self::survivors(&survivors)?;
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let sets = enter(py, table.elements().saturating_mul(survivors.len()), |interrupt| {
        let plan = plan(n_threads, interrupt);
        in_computing_type!(table, F => {
            crate::predict_selected_sets::<F, _>(&table, survivors, allow_empty, &randomness, &plan)
        })
    })?;
    Ok((Array1::from_vec(sets.offsets).into_pyarray(py), Array1::from_vec(sets.labels).into_pyarray(py)))
}

/// Conformal p-values of all labels, each by the candidate that it selects.
#[pyfunction]
#[pyo3(signature = (logits, survivors, sorted_scores, *, seed, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn selected_p_values<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    survivors: Vec<PySurvivor<'py>>,
    sorted_scores: Vec<PyReadonlyArray1<'py, f64>>,
    seed: u64,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &None, probabilities)?;
    let survivors = &self::survivors(&survivors)?;
    let randomness = randomness(seed, None, row_ids.as_ref())?;
    let sorted = sorted_scores.iter().map(|s| contiguous("sorted_scores", s));
    let sorted = &sorted.collect::<PyResult<Vec<_>>>()?;
    let out = enter(py, table.elements().saturating_mul(survivors.len()), |interrupt| {
        let plan = plan(n_threads, interrupt);
        let mut out = room(table.len(), table.shape().1)?;
        in_computing_type!(table, F => {
            crate::selected_p_values::<F, _>(&table, survivors, sorted, &randomness, &plan, &mut out)
        })?;
        Ok(out)
    })?;
    matrix(py, out, table.shape())
}

type Counts<'py> = (Bound<'py, PyArray2<u64>>, Vec<Bound<'py, PyArray1<f64>>>);

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
    let (lo, hi) = (contiguous("lo", &lo)?, contiguous("hi", &hi)?);
    if lo.len() != hi.len() {
        return Err(Error::Length { name: "lo", found: lo.len(), expected: hi.len() }.into());
    }
    let brackets = &lo.iter().zip(hi).map(|(&lo, &hi)| Bracket { lo, hi }).collect::<Vec<_>>();
    let counts = enter(py, table.elements().saturating_mul(candidates.len()), |interrupt| {
        let plan = plan(n_threads, interrupt);
        in_computing_type!(table, F => {
            crate::count_pairs::<F, _>(&table, candidates, brackets, keep, &randomness, &plan)
        })
    })?;
    let numbers = counts.iter().flat_map(|c| [c.at_lo, c.at_hi, c.singletons, c.empty]).collect();
    let numbers = matrix(py, numbers, (brackets.len(), 4))?;
    let between = counts.into_iter().filter(|_| keep).map(|c| c.between.into_pyarray(py)).collect();
    Ok((numbers, between))
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
    let table = scores.as_slice().map_err(|_| PyValueError::new_err("scores must be contiguous"))?;
    let (runs, n) = (scores.as_array().nrows(), scores.as_array().ncols());
    let out = enter(py, table.len(), |interrupt| {
        let mut out = room(runs, ranks.len())?;
        crate::order_statistics(table, n, &ranks, &plan(n_threads, interrupt), &mut out)?;
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
    let table = scores.as_slice().map_err(|_| PyValueError::new_err("scores must be contiguous"))?;
    let slots = slots(runs, contiguous("bases", &bases)?, contiguous("widths", &widths)?)?;
    let (n, bins) = (scores.as_array().ncols(), counts.as_array().ncols());
    if !bins.is_power_of_two() {
        return Err(Error::argument("counts", "rows of a power of two", bins).into());
    }
    let out = counts.as_slice_mut().map_err(|_| PyValueError::new_err("counts must be contiguous"))?;
    enter(py, n.saturating_mul(slots.len()), |interrupt| {
        radix::count_digits(table, n, &slots, bins.trailing_zeros(), &plan(n_threads, interrupt), out)
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
    let table = scores.as_slice().map_err(|_| PyValueError::new_err("scores must be contiguous"))?;
    let slots = slots(runs, contiguous("bases", &bases)?, contiguous("widths", &widths)?)?;
    let n = scores.as_array().ncols();
    let found = enter(py, n.saturating_mul(slots.len()), |interrupt| {
        radix::keys_within(table, n, &slots, &plan(n_threads, interrupt))
    })?;
    Ok(found.into_iter().map(|keys| keys.into_pyarray(py)).collect())
}

/// The k-th smallest score, infinity when there are fewer.
#[pyfunction]
pub(super) fn kth_smallest(py: Python<'_>, scores: PyReadonlyArray1<'_, f64>, k: usize) -> PyResult<f64> {
    let mut scores = contiguous("scores", &scores)?.to_vec();
    enter(py, scores.len(), move |_| crate::kth_smallest(&mut scores, k))
}

/// `ceil((n + 1)(1 - alpha))` in integers.
#[pyfunction]
pub(super) fn conformal_rank(n: usize, alpha: f64) -> PyResult<usize> {
    Ok(crate::conformal_rank(n, alpha)?)
}

/// The permutation of `0..n` that splits use.
#[pyfunction]
pub(super) fn permutation(py: Python<'_>, seed: u64, n: usize) -> PyResult<Bound<'_, PyArray1<i64>>> {
    let order = enter(py, n, |_| Ok(crate::permutation(seed, n)))?;
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
    let mask = enter(py, n_rows.saturating_mul(n_labels), |_| {
        let mut mask = room(n_rows, n_labels)?;
        for (row, bounds) in mask.chunks_exact_mut(n_labels.max(1)).zip(offsets.windows(2)) {
            let range =
                usize::try_from(bounds[0]).unwrap_or(usize::MAX)..usize::try_from(bounds[1]).unwrap_or(0);
            let set = labels
                .get(range)
                .ok_or_else(|| Error::argument("indptr", "offsets into indices", bounds[1]))?;
            for &label in set {
                let cell = usize::try_from(label).ok().and_then(|label| row.get_mut(label));
                *cell.ok_or_else(|| Error::argument("indices", "labels below n_labels", label))? = true;
            }
        }
        Ok(mask)
    })?;
    matrix(py, mask, (n_rows, n_labels))
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

/// Largest logit of each row: a pass that only reads, which benchmarks measure the others by.
#[pyfunction]
#[pyo3(name = "_row_maxima", signature = (logits, *, n_threads=None))]
pub(super) fn row_maxima<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let table = table(logits, &None, false)?;
    in_computing_type!(table, F => {
        let out = enter(py, table.elements(), |interrupt| {
            let mut out = room::<F>(table.len(), 1)?;
            reading::row_maxima::<F, _>(&table, &plan(n_threads, interrupt), &mut out)?;
            Ok(out)
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
