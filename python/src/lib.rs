//! The Python module `rounds._rounds`: arrays, columns and settings in, models and documents out.
//!
//! No privacy policy is here: runs and their refusals are `rounds-models`' own, and what is documented stands in the package
//! `rounds`, which calls these functions. Every call that works long releases the interpreter's lock.

#![allow(clippy::needless_pass_by_value, reason = "arguments come from Python as values")]

mod engine;
mod model;
mod noise;
mod questions;
mod rows;
mod training;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rounds_models::text;

/// Refuses a process that was forked from one that has worked: its threads are not there.
fn check_process() -> PyResult<()> {
    static WORKER: OnceLock<u32> = OnceLock::new();
    if *WORKER.get_or_init(std::process::id) == std::process::id() {
        return Ok(());
    }
    let problem = "this process was forked from one in which rounds has worked, and has none of its threads; start processes by \
                   multiprocessing.get_context(\"spawn\"), or fork before the first call";
    Err(PyRuntimeError::new_err(problem))
}

/// Runs `work` without the interpreter's lock. A fault of this library is an exception that shows where it is and no value.
///
/// # Errors
/// A forked process; a fault.
fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    check_process()?;
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|_| fault())
}

fn fault() -> PyErr {
    let place = PLACE_OF_FAULT.lock().map_or_else(|_| String::new(), |place| place.clone());
    PyRuntimeError::new_err(format!("a fault of rounds{place}; please report it with the call that led to it"))
}

/// The place of the last fault, for its message.
static PLACE_OF_FAULT: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

/// An argument that cannot be.
fn refused(error: &(dyn Error + 'static)) -> PyErr {
    PyValueError::new_err(as_python(&text::with_causes(error)))
}

/// A file that cannot be read or written.
fn of_file(error: &(dyn Error + 'static)) -> PyErr {
    PyOSError::new_err(as_python(&text::with_causes(error)))
}

/// A message with the names of arguments as Python has them: `` `test-split 0.2` `` becomes `` `test_split` 0.2``.
fn as_python(message: &str) -> String {
    let parts = message.split('`').enumerate().map(|(place, part)| {
        let name = part.split(' ').next().unwrap_or_default();
        if place % 2 == 1 && text::ARGUMENTS.split(' ').any(|argument| argument == name) {
            part.replacen(name, &name.replace('-', "_"), 1)
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[pymodule(gil_used = false)]
mod _rounds {
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::noise::Noise;
    #[pymodule_export]
    use super::questions::{account, audit, compose, draft, factorize, instruction_set, ledger, verify};
    #[pymodule_export]
    use super::rows::{Domain, Rows, clipped_sum};
    #[pymodule_export]
    use super::training::train;

    #[pymodule_init]
    #[expect(clippy::unnecessary_wraps, reason = "the signature of an initialiser")]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        // A message of a fault may hold a value of a row, and goes nowhere.
        std::panic::set_hook(Box::new(|fault| {
            if let Ok(mut place) = super::PLACE_OF_FAULT.lock() {
                *place = fault.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
            }
        }));
        Ok(())
    }
}
