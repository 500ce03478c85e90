//! Which functions does conditional coverage call, where labels have thresholds of their own?
#![allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "signatures are those of Python"
)]

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyUntypedArray};
use pyo3::prelude::*;

use super::arguments::{
    Compressed, PyScoring, Rows, Scores2, U, compressed, contiguous, copied, in_computing_type, matrix,
    optional, plan, randomness, scorings, table,
};
use super::enter::enter;
use super::selecting::PySurvivors;
use crate::conformal::{Bracket, Cell, Parting, Partition};
use crate::error::Error;
use crate::run::zeroed;

/// Cells of labels, read once and used for many predictions.
#[pyclass(frozen, module = "tightset._core", name = "Cells")]
#[derive(Debug)]
pub(super) struct PyCells {
    cells: Vec<Cell>,
    partition: Partition,
}

/// A cell: its candidates, whether they count all labels, and their sorted scores, if they were kept.
type PyCell<'py> = (Py<PySurvivors>, bool, Vec<PyReadonlyArray1<'py, f64>>);

#[pymethods]
impl PyCells {
    #[new]
    #[pyo3(signature = (cells, cell_of, most_ranks=None))]
    fn new(
        cells: Vec<PyCell<'_>>,
        cell_of: PyReadonlyArray1<'_, u32>,
        most_ranks: Option<PyReadonlyArray1<'_, u32>>,
    ) -> PyResult<Self> {
        let cells = cells.iter().map(|(candidates, counts_all, scores)| {
            let scores = scores.iter().map(|s| copied(contiguous("scores", s)?));
            let scores = scores.collect::<PyResult<_>>()?;
            Ok(Cell { candidates: candidates.get().0.clone(), counts_all: *counts_all, scores })
        });
        let cells: Vec<Cell> = cells.collect::<PyResult<_>>()?;
        let most_ranks = optional("most_ranks", most_ranks.as_ref())?.map(copied).transpose()?;
        let partition = Partition::new(&cells, copied(contiguous("cell_of", &cell_of)?)?, most_ranks)?;
        Ok(Self { cells, partition })
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

/// Prediction sets by the cells of labels: offsets and labels.
#[pyfunction]
#[pyo3(signature = (logits, cells, *, allow_empty, seed, u=None, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn predict_cell_sets<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    cells: Py<PyCells>,
    allow_empty: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Compressed<'py>> {
    let table = table(logits, &None, probabilities)?;
    let PyCells { cells, partition } = cells.get();
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let sets = enter(py, table.elements().saturating_mul(8), |interrupt| {
        let plan = plan(n_threads, interrupt);
        in_computing_type!(table, F => {
            crate::predict_cell_sets::<F, _>(&table, cells, partition, allow_empty, &randomness, &plan)
        })
    })?;
    Ok(compressed(py, sets))
}

/// Conformal p-values of all labels within their cells.
#[pyfunction]
#[pyo3(signature = (logits, cells, *, smoothed, seed, row_ids=None, probabilities=false, n_threads=None))]
pub(super) fn cell_p_values<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    cells: Py<PyCells>,
    smoothed: bool,
    seed: u64,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &None, probabilities)?;
    let PyCells { cells, partition } = cells.get();
    let randomness = randomness(seed, None, row_ids.as_ref())?;
    let out = enter(py, table.elements().saturating_mul(8), |interrupt| {
        let plan = plan(n_threads, interrupt);
        let mut out = zeroed(table.len(), table.shape().1)?;
        in_computing_type!(table, F => {
            crate::cell_p_values::<F, _>(&table, cells, partition, smoothed, &randomness, &plan, &mut out)
        })?;
        Ok(out)
    })?;
    matrix(py, out, table.shape())
}

type Counts<'py> = (Bound<'py, PyArray2<u64>>, Vec<Bound<'py, PyArray1<f64>>>);

/// For each candidate, cell and level, the pairs of any row and a label of the cell up to lo and up to hi;
/// and, with `keep`, the sorted scores between.
#[pyfunction]
#[pyo3(signature = (logits, candidates, cell_of, n_cells, lo, hi, *, keep=false, most_ranks=None, seed, row_ids=None, rows=None, probabilities=false, n_threads=None))]
pub(super) fn count_cell_pairs<'py>(
    py: Python<'py>,
    logits: &Bound<'py, PyUntypedArray>,
    candidates: Vec<PyRef<'py, PyScoring>>,
    cell_of: PyReadonlyArray1<'py, u32>,
    n_cells: usize,
    lo: PyReadonlyArray1<'py, f64>,
    hi: PyReadonlyArray1<'py, f64>,
    keep: bool,
    most_ranks: Option<PyReadonlyArray1<'py, u32>>,
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
    let parting = &Parting {
        cell_of: contiguous("cell_of", &cell_of)?,
        n_cells,
        most_ranks: optional("most_ranks", most_ranks.as_ref())?,
    };
    let counts = enter(py, table.elements().saturating_mul(candidates.len()), |interrupt| {
        let plan = plan(n_threads, interrupt);
        in_computing_type!(table, F => {
            crate::count_cell_pairs::<F, _>(&table, candidates, parting, brackets, keep, &randomness, &plan)
        })
    })?;
    let numbers = counts.iter().flat_map(|c| [c.at_lo, c.at_hi]).collect();
    let numbers = matrix(py, numbers, (brackets.len(), 2))?;
    let between = counts.into_iter().filter(|_| keep).map(|c| c.between.into_pyarray(py)).collect();
    Ok((numbers, between))
}
