//! Measurement of a parallel method on a function: rounds, queries and time until its point has a gap of at most ε.
//!
//! Gaps are exact and taken outside the clock, at rounds that grow by 2 %. Times are those of the parts: rounds of queries,
//! reweighted mini-batches, and the rest.

use std::ops::Range;
use std::time::Instant;

use rounds_algorithms::oracle::Ledger;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::resque::ResqueError;
use rounds_algorithms::resque::black_box::{BlackBox, BlackBoxOracle};
use rounds_algorithms::resque::cutting_plane::{Centre, CuttingPlane};
use rounds_algorithms::resque::functions::MaxOfLinear;
use rounds_algorithms::resque::parallel::{Outer, PRACTICAL_SAMPLES, ParallelParameters, ParallelResque, Solver};
use rounds_algorithms::resque::pool::{GradientPool, PoolMethod};
use rounds_algorithms::resque::randomized_smoothing::{RandomizedSmoothing, SmoothingParameters};
use rounds_algorithms::resque::subgradient::Subgradient;
use rounds_algorithms::theory::parallel::Method;
use rounds_kernels::random::StreamKey;
use serde::Serialize;

/// A method that ran to a gap of ε.
#[derive(Debug, Default, Serialize)]
pub(super) struct Found {
    /// d.
    pub(super) dimension: usize,
    /// True if the gap reached ε; otherwise the counts are those at the end.
    pub(super) reached: bool,
    /// Gap of the start, 0.
    pub(super) start_gap: f64,
    pub(super) gap: f64,
    /// Adaptive rounds.
    pub(super) rounds: u64,
    /// Steps of the outer loop: rounds without the trials of a line search.
    pub(super) iterations: u64,
    /// Gradient queries.
    pub(super) gradient_queries: u64,
    /// Dependent vector operations.
    pub(super) computational_depth: u64,
    /// Seconds, without evaluations of the gap.
    pub(super) seconds: f64,
    /// Seconds of them in rounds of more than one query.
    pub(super) query_seconds: f64,
    /// Seconds of them in reweighted mini-batches of more than one sample.
    pub(super) reweight_seconds: f64,
    /// Number of such mini-batches.
    pub(super) reweightings: u64,
    /// Samples in them.
    pub(super) reweighted: u64,
}

/// A pool that times the parts of more than one task; more threads do not help with a single query or sample.
struct TimedPool<'p, 'c> {
    pool: &'p mut dyn GradientPool,
    found: &'c mut Found,
}

impl GradientPool for TimedPool<'_, '_> {
    fn dimension(&self) -> usize {
        self.pool.dimension()
    }

    fn lipschitz(&self) -> f64 {
        self.pool.lipschitz()
    }

    fn fetch(&mut self, centre: &[f64], radius: f64, count: usize) -> Result<(), ResqueError> {
        let started = Instant::now();
        let outcome = self.pool.fetch(centre, radius, count);
        if count > 1 {
            self.found.query_seconds += started.elapsed().as_secs_f64();
        }
        outcome
    }

    fn reweighted_mean(&mut self, samples: Range<usize>, offset: &[f32], mean: &mut [f32]) -> Result<(), ResqueError> {
        if samples.len() == 1 {
            return self.pool.reweighted_mean(samples, offset, mean);
        }
        self.found.reweightings += 1;
        self.found.reweighted += samples.len() as u64;
        let started = Instant::now();
        let outcome = self.pool.reweighted_mean(samples, offset, mean);
        self.found.reweight_seconds += started.elapsed().as_secs_f64();
        outcome
    }

    fn ledger(&self) -> Ledger {
        self.pool.ledger()
    }
}

/// A method at its start, and the rounds that it takes at most.
fn start(
    method: Method,
    (dimension, lipschitz): (usize, f64),
    accuracy: f64,
    key: StreamKey,
) -> Result<(Box<dyn PoolMethod>, u64), ResqueError> {
    let resque = |solver, outer| -> Result<(Box<dyn PoolMethod>, u64), ResqueError> {
        let parameters = ParallelParameters {
            domain_radius: 1.0,
            accuracy,
            lipschitz,
            smoothing: None,
            solver,
            outer,
            samples: PRACTICAL_SAMPLES,
        };
        let run = ParallelResque::new(parameters, vec![0.0; dimension], key)?;
        // Practical constants give up the proof that the potential's end is the target: go on until the gap says so.
        let rounds = run.most_rounds();
        Ok((Box::new(run), rounds))
    };
    Ok(match method {
        Method::Sgd => {
            let run = Subgradient::for_accuracy(dimension, lipschitz, 1.0, accuracy)?;
            let rounds = run.rounds();
            (Box::new(run), rounds)
        }
        Method::RandomizedSmoothing => {
            let parameters = SmoothingParameters::for_accuracy(dimension, lipschitz, 1.0, accuracy)?;
            (Box::new(RandomizedSmoothing::new(dimension, parameters)?), parameters.rounds)
        }
        Method::CuttingPlane => {
            // A stochastic gradient needs (LR/ε)² queries for its error to stay below ε/R.
            let batch = (lipschitz / accuracy).powi(2).ceil() as usize;
            let run = CuttingPlane::for_accuracy(Centre::Analytic, dimension, lipschitz, 1.0, accuracy, batch)?;
            let rounds = run.rounds();
            (Box::new(run), rounds)
        }
        Method::ResqueEpochSgd => resque(Solver::EpochSgd, Outer::LineSearch)?,
        Method::ResqueAcSa => resque(Solver::AcceleratedSa, Outer::LineSearch)?,
        Method::ResqueBisectionFree => resque(Solver::AcceleratedSa, Outer::BisectionFree)?,
    })
}

/// Runs `method` on `function`, whose least value is `minimum`, until the gap is at most `accuracy`, its planned rounds are done
/// or it has asked more than `most_queries`.
///
/// # Errors
/// A method that refuses its parameters.
pub(super) fn measure(
    (function, minimum): (&impl BlackBox, f64),
    method: Method,
    accuracy: f64,
    engine: &Engine,
    seed: u64,
    most_queries: u64,
) -> Result<Found, ResqueError> {
    let (dimension, lipschitz) = (function.dimension(), function.lipschitz());
    let mut oracle = BlackBoxOracle::new(function, engine.clone(), StreamKey::Simulation(seed));
    let (mut run, rounds) = start(method, (dimension, lipschitz), accuracy, StreamKey::Simulation(seed))?;
    // The best of its points is the one that the method would return.
    let keeps_best = method == Method::CuttingPlane;
    let gap = |point: &[f64]| function.value(point) - minimum;
    // JSON has no infinity: a run that ends in its first round has the gap of its start.
    let start_gap = gap(&vec![0.0; dimension]);
    let mut found = Found { dimension, start_gap, gap: start_gap, ..Found::default() };
    let mut least = f64::INFINITY;
    // Worker threads take tasks without leaving the pool; function values are taken outside the clock.
    engine.install(|| -> Result<(), ResqueError> {
        let mut next = 1;
        loop {
            let started = Instant::now();
            let outcome = run.advance(&mut TimedPool { pool: &mut oracle, found: &mut found });
            found.seconds += started.elapsed().as_secs_f64();
            match outcome {
                Err(ResqueError::TooManyQueries { .. }) => return Ok(()),
                other => other?,
            }
            let ledger = oracle.ledger();
            found.rounds = ledger.rounds;
            found.gradient_queries = ledger.gradient_queries;
            (found.iterations, found.computational_depth) = run.steps().unwrap_or((ledger.rounds, ledger.rounds));
            let last = ledger.rounds >= rounds || ledger.gradient_queries > most_queries;
            if ledger.rounds >= next || last || keeps_best {
                let here = gap(run.judged());
                least = least.min(here);
                found.gap = if keeps_best { least } else { here };
                found.reached = found.gap <= accuracy;
                next = ledger.rounds + 1 + ledger.rounds / 50;
            }
            if found.reached || last {
                return Ok(());
            }
        }
    })?;
    Ok(found)
}

/// The function of the hard family for a target: m = min(d, 1/(4ε)²), at least 1.
///
/// # Errors
/// A dimension of 0.
pub(super) fn hard_function(dimension: usize, accuracy: f64) -> Result<MaxOfLinear, ResqueError> {
    let coordinates = ((0.25 / accuracy).powi(2).ceil() as usize).clamp(1, dimension.max(1));
    MaxOfLinear::new(dimension, coordinates, 1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(dimension: usize, accuracy: f64, method: Method, threads: usize, most_queries: u64) -> Found {
        let function = hard_function(dimension, accuracy).unwrap();
        let engine = Engine::with_threads(threads).unwrap();
        measure((&function, 0.0), method, accuracy, &engine, 3, most_queries).unwrap()
    }

    fn line_search(method: Method) -> bool {
        matches!(method, Method::ResqueEpochSgd | Method::ResqueAcSa)
    }

    #[test]
    fn every_method_reaches_a_target_and_counts_do_not_depend_on_threads() {
        for &method in Method::ALL {
            let cells = [1, 2].map(|threads| measured(16, 0.1, method, threads, 5_000_000));
            for cell in &cells {
                assert!(cell.reached && cell.gap <= 0.1, "{cell:?}");
                assert!(cell.rounds > 0 && cell.gradient_queries >= cell.rounds);
                assert!(cell.computational_depth >= cell.rounds && cell.rounds >= cell.iterations);
                assert!(cell.iterations > 0 && (cell.iterations == cell.rounds) != line_search(method));
                assert!(cell.query_seconds + cell.reweight_seconds <= cell.seconds);
                assert!(cell.reweighted >= 2 * cell.reweightings);
            }
            let counts = |cell: &Found| {
                let gap = cell.gap.to_bits();
                (cell.rounds, cell.gradient_queries, cell.computational_depth, gap)
            };
            assert_eq!(counts(&cells[0]), counts(&cells[1]), "{method:?}");
        }
    }

    #[test]
    fn a_cell_that_is_given_up_says_so() {
        let cell = measured(64, 0.02, Method::Sgd, 1, 10);
        assert!(!cell.reached && cell.gradient_queries == 11);
    }
}
