//! What do Python's arguments become before a call enters the core, and what are results made of?
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arrays::Table;
use super::enter::enter;
use crate::conformal::Bracket;
use crate::error::Error;
use crate::math::{Randomness, Uniforms};
use crate::run::{Plan, Zero, reserve, zeroed};
use crate::score::{Reweight, Scale, Score, Scoring};
use crate::sets::Sets;

pub(super) type Scores2<'py> = Bound<'py, PyArray2<f64>>;
pub(super) type Compressed<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i32>>);
pub(super) type Counts<'py> = (Bound<'py, PyArray2<u64>>, Vec<Bound<'py, PyArray1<f64>>>);
pub(super) type Rows<'py> = Option<PyReadonlyArray1<'py, i64>>;

/// A candidate: its score, reweighting and temperature, checked together.
#[pyclass(frozen, module = "tightset._core", name = "Scoring")]
#[derive(Clone, Copy, Debug)]
pub(super) struct PyScoring(pub(super) Scoring);

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

pub(super) fn contiguous<'a, T: numpy::Element>(
    name: &str,
    array: &'a PyReadonlyArray1<'_, T>,
) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| PyValueError::new_err(format!("{name} must be contiguous")))
}

/// The values of a matrix, row after row. A column-major matrix is refused.
pub(super) fn row_major<'a>(name: &str, array: &'a PyReadonlyArray2<'_, f64>) -> PyResult<&'a [f64]> {
    let values = array.as_array().to_slice();
    values.ok_or_else(|| PyValueError::new_err(format!("{name} must be contiguous, in C order")))
}

pub(super) fn optional<'a, T: numpy::Element>(
    name: &str,
    array: Option<&'a PyReadonlyArray1<'_, T>>,
) -> PyResult<Option<&'a [T]>> {
    array.map(|array| contiguous(name, array)).transpose()
}

pub(super) fn table(
    array: &Bound<'_, PyUntypedArray>,
    rows: &Rows<'_>,
    probabilities: bool,
) -> PyResult<Table> {
    Table::new(array, optional("rows", rows.as_ref())?, probabilities)
}

pub(super) fn randomness<'a>(
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

pub(super) fn scorings(candidates: &[PyRef<'_, PyScoring>]) -> Vec<Scoring> {
    candidates.iter().map(|candidate| candidate.0).collect()
}

pub(super) fn scale(ranked: bool) -> Scale {
    if ranked { Scale::Ranked } else { Scale::Conventional }
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
pub(super) use in_computing_type;

/// A result of `rows` times `columns` that `work` fills. The call reads the table about `passes` times.
pub(super) fn filled<T: Zero + Send>(
    py: Python<'_>,
    (table, passes): (&Table, usize),
    (rows, columns): (usize, usize),
    n_threads: Option<usize>,
    work: impl FnOnce(&Plan<'_>, &mut [T]) -> Result<(), Error> + Send,
) -> PyResult<Vec<T>> {
    enter(py, table.elements().saturating_mul(passes), |interrupt| {
        let mut out = zeroed(rows, columns)?;
        work(&Plan { n_threads, interrupt }, &mut out)?;
        Ok(out)
    })
}

/// A result for each row and label.
pub(super) fn filled_matrix<'py, T: Zero + Send + numpy::Element>(
    py: Python<'py>,
    (table, passes): (&Table, usize),
    n_threads: Option<usize>,
    work: impl FnOnce(&Plan<'_>, &mut [T]) -> Result<(), Error> + Send,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    matrix(py, filled(py, (table, passes), table.shape(), n_threads, work)?, table.shape())
}

/// The result of `work`. The call reads the table about `passes` times.
pub(super) fn entered<T: Send>(
    py: Python<'_>,
    (table, passes): (&Table, usize),
    n_threads: Option<usize>,
    work: impl FnOnce(&Plan<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    enter(py, table.elements().saturating_mul(passes), |interrupt| work(&Plan { n_threads, interrupt }))
}

/// Sets as two arrays: offsets and labels.
pub(super) fn compressed(py: Python<'_>, sets: Sets) -> Compressed<'_> {
    (sets.offsets.into_pyarray(py), sets.labels.into_pyarray(py))
}

pub(super) fn brackets(
    lo: &PyReadonlyArray1<'_, f64>,
    hi: &PyReadonlyArray1<'_, f64>,
) -> PyResult<Vec<Bracket>> {
    let (lo, hi) = (contiguous("lo", lo)?, contiguous("hi", hi)?);
    if lo.len() != hi.len() {
        return Err(Error::Length { name: "lo", found: lo.len(), expected: hi.len() }.into());
    }
    Ok(lo.iter().zip(hi).map(|(&lo, &hi)| Bracket { lo, hi }).collect())
}

/// A row of numbers for each bracket; and the scores between, if they were kept.
pub(super) fn counted<const N: usize>(
    py: Python<'_>,
    keep: bool,
    counts: Vec<([u64; N], Vec<f64>)>,
) -> PyResult<Counts<'_>> {
    let (numbers, between): (Vec<_>, Vec<_>) = counts.into_iter().unzip();
    let shape = (numbers.len(), N);
    let between = between.into_iter().filter(|_| keep).map(|scores| scores.into_pyarray(py)).collect();
    Ok((matrix(py, numbers.concat(), shape)?, between))
}

/// A list of numbers, copied.
pub(super) fn copied<T: Copy>(values: &[T]) -> PyResult<Vec<T>> {
    let mut copy = Vec::new();
    reserve(&mut copy, values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}

/// A vector as a matrix.
pub(super) fn matrix<T: numpy::Element>(
    py: Python<'_>,
    data: Vec<T>,
    shape: (usize, usize),
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let array = Array2::from_shape_vec(shape, data);
    Ok(array.map_err(|e| Error::Internal(e.to_string()))?.into_pyarray(py))
}
