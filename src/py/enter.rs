//! How does a call enter and leave Rust? Here it releases the GIL, checks signals, catches panics and maps
//! errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use pyo3::create_exception;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::error::Error;

create_exception!(
    tightset,
    InternalError,
    PyRuntimeError,
    "A defect in tightset itself, caught at the boundary; please report it."
);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Internal(_) => InternalError::new_err(text),
            Error::Memory { .. } => PyMemoryError::new_err(text),
            _ => PyValueError::new_err(text),
        }
    }
}

/// Calls of this many matrix elements release the GIL. Smaller calls take tens of microseconds at most, less
/// than a call may wait to get the GIL back when other threads want it.
const DETACH_FROM: usize = 1 << 12;

/// Called between slices of the work.
pub(super) type Interrupt<'a> = &'a (dyn Fn() -> Result<(), Error> + Sync);

/// Runs the `work` of a call of the given size. A panic becomes [`InternalError`], which `except Exception`
/// catches. If a signal handler raises, its exception ends the work.
pub(super) fn enter<T: Send>(
    py: Python<'_>,
    elements: usize,
    work: impl FnOnce(Interrupt<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    if elements < DETACH_FROM {
        return guarded(|| work(&|| Ok(()))).map_err(PyErr::from);
    }
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let interrupt = || {
        #[allow(clippy::redundant_closure_for_method_calls, reason = "the path is not general enough")]
        Python::attach(|py| py.check_signals()).map_err(|error| {
            *raised.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
            Error::Interrupted
        })
    };
    let result = py.detach(|| guarded(|| work(&interrupt)));
    let raised = raised.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    result.map_err(|error| raised.unwrap_or_else(|| error.into()))
}

fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // Nothing that the work changes outlives a panic: results are dropped.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Internal(text.unwrap_or_else(|| "panic".to_owned())))
    })
}
