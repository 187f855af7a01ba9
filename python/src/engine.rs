//! The threads of a query.

use pyo3::prelude::*;
use rounds_algorithms::parallel::Engine;

use crate::refused;

/// The engine of so many threads, by default all cores.
pub(crate) fn engine(threads: Option<usize>) -> PyResult<Engine> {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    Engine::with_threads(threads.filter(|&threads| threads > 0).unwrap_or_else(all)).map_err(|error| refused(&error))
}
