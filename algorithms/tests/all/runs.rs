//! Settings and executors of the tests' runs.

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Algorithm, Budget, Prepared, Settings};
use rounds_algorithms::oracle::Engine;
use rounds_algorithms::problem::Problem;
use rounds_kernels::random::StreamKey;

/// A noise multiplier at δ = 1e-5.
pub(crate) fn noisy(noise_multiplier: f64, seed: u64) -> Settings {
    let delta = 1e-5;
    let budget = Budget::NoiseMultiplier { noise_multiplier, delta };
    Settings::new(budget, StreamKey::Simulation(seed))
}

/// ε = 5 at δ = 1e-5 where the algorithm is private.
pub(crate) fn budget(algorithm: &Algorithm) -> Budget {
    let (epsilon, delta) = (5.0, 1e-5);
    if algorithm.private { Budget::Target { epsilon, delta } } else { Budget::NonPrivate }
}

/// The algorithm with this id, ready for its first round.
pub(crate) fn prepared(problem: &Problem, id: &str, settings: &Settings) -> Prepared {
    let prepared = catalog::find(id).expect("in the catalogue").prepare(problem, settings);
    prepared.unwrap_or_else(|error| panic!("{id}: {error}"))
}

/// Its run.
pub(crate) fn executor<'p>(problem: &'p Problem, id: &str, settings: &Settings, engine: &Engine) -> Executor<'p> {
    Executor::new(problem, engine.clone(), prepared(problem, id, settings))
}
