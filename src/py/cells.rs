//! Which functions does conditional coverage call, where labels have thresholds of their own?
use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::prelude::*;

use super::arguments::{
    Compressed, Counts, PyScoring, Rows, Scores2, U, brackets, compressed, contiguous, copied, counted,
    entered, filled_matrix, in_computing_type, optional, randomness, scorings, table,
};
use super::selecting::PySurvivors;
use crate::conformal::{Cell, Parting, Partition};

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
    cells: &PyCells,
    allow_empty: bool,
    seed: u64,
    u: Option<U<'py>>,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Compressed<'py>> {
    let table = table(logits, &None, probabilities)?;
    let PyCells { cells, partition } = cells;
    let randomness = randomness(seed, u.as_ref(), row_ids.as_ref())?;
    let sets = entered(py, (&table, 8), n_threads, |plan| {
        in_computing_type!(table, F => {
            crate::predict_cell_sets::<F, _>(&table, cells, partition, allow_empty, &randomness, plan)
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
    cells: &PyCells,
    smoothed: bool,
    seed: u64,
    row_ids: Option<PyReadonlyArray1<'py, u64>>,
    probabilities: bool,
    n_threads: Option<usize>,
) -> PyResult<Scores2<'py>> {
    let table = table(logits, &None, probabilities)?;
    let PyCells { cells, partition } = cells;
    let randomness = randomness(seed, None, row_ids.as_ref())?;
    filled_matrix(py, (&table, 8), n_threads, |plan, out| {
        in_computing_type!(table, F => {
            crate::cell_p_values::<F, _>(&table, cells, partition, smoothed, &randomness, plan, out)
        })
    })
}

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
    let brackets = &brackets(&lo, &hi)?;
    let parting = &Parting {
        cell_of: contiguous("cell_of", &cell_of)?,
        n_cells,
        most_ranks: optional("most_ranks", most_ranks.as_ref())?,
    };
    let counts = entered(py, (&table, candidates.len()), n_threads, |plan| {
        in_computing_type!(table, F => {
            crate::count_cell_pairs::<F, _>(&table, candidates, parting, brackets, keep, &randomness, plan)
        })
    })?;
    counted(py, keep, counts.into_iter().map(|c| ([c.at_lo, c.at_hi], c.between)).collect())
}
