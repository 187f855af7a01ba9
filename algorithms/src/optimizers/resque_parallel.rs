//! Parallel ReSQue on a problem, in the schemes of [002 Theorems 1 and 2]: [`crate::resque::parallel`] with projected queries.
//!
//! One `advance` is one oracle call of ball acceleration: all its queries are fixed by the centre, so it is one adaptive
//! round, however many solves read the pool. The rounds are planned in advance; a run that reaches its accuracy earlier
//! goes on improving.

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::parameters::{Common, Range, parameters};
use super::pooled;
use super::scene::Scene;
use crate::resque::parallel::{Outer, PRACTICAL_SAMPLES, ParallelParameters, ParallelResque, Solver, THEOREM_SAMPLES};
use crate::resque::projected::{self, Weights};

parameters! {
    /// Parameters of both variants.
    struct ParallelSettings {
        /// Target gap ε (default: LR/100)
        accuracy: Option<f64> [Range::POSITIVE],
        /// Radius R of the domain around 0
        radius: f64 [Range::POSITIVE] = 10.0,
        /// Search for λ in outer steps
        outer: Outer = Outer::BisectionFree,
        /// Constant of the sample sizes; 48 in Algorithms 1 and 2, whose bounds smaller ones give up
        samples: f64 [Range::POSITIVE] = PRACTICAL_SAMPLES,
        /// Smoothing radius ρ and ball radius r (default: ε/(2L), for losses of a linear model)
        smoothing: Option<f64> [Range::new("a radius above 0, at least 1e-30 (offsets are f32),", |radius| radius >= 1e-30 && radius.is_finite())],
        /// Draw of weights: given the margins' shifts alone, or not
        weights: Weights = Weights::Conditional,
    }
}

/// The promise of the defaults.
const PRACTICAL: &str = "no privacy, and no bound: a search for λ without bisection and few samples, judged by its gap";

/// The promise of a run: the theorem's with its line search and sample sizes alone.
fn promise(own: &ParallelSettings, solver: Solver) -> &'static str {
    match solver {
        _ if own.outer != Outer::LineSearch || own.samples < THEOREM_SAMPLES => PRACTICAL,
        Solver::EpochSgd => {
            "no privacy; query depth d^{1/3}κ^{2/3} and κ² queries by Theorem 1, up to the constants of balls and estimates that it does \
             not name"
        }
        Solver::AcceleratedSa => {
            "no privacy; query depth d^{1/3}κ^{2/3}, κ² queries and computational depth d^{1/4}κ by Theorem 2, up to the constants of \
             balls and estimates that it does not name"
        }
    }
}

/// The scheme of Theorem 1.
pub(super) static RESQUE_EPOCH_SGD: Algorithm = Algorithm {
    id: "resque-epoch-sgd",
    name: "parallel ReSQue with EpochSGD",
    source: "[002 Algorithm 1], in the scheme of [002 Theorem 1]",
    promise: PRACTICAL,
    private: false,
    release: false,
    common: &[&[Common::rounds()]],
    scenes: &[Scene::FIXED],
    constructor: &Reads(|run, own| prepare(run, own, Solver::EpochSgd)),
};

/// The scheme of Theorem 2.
pub(super) static RESQUE_AC_SA: Algorithm = Algorithm {
    id: "resque-ac-sa",
    name: "parallel ReSQue with AC-SA",
    source: "[002 Algorithm 2], in the scheme of [002 Theorem 2]",
    promise: PRACTICAL,
    private: false,
    release: false,
    common: &[&[Common::rounds()]],
    scenes: &[Scene::FIXED],
    constructor: &Reads(|run, own| prepare(run, own, Solver::AcceleratedSa)),
};

fn prepare(run: &Run<'_>, own: ParallelSettings, solver: Solver) -> Result<Prepared, PrepareError> {
    let lipschitz = projected::lipschitz(run.problem)?;
    let accuracy = own.accuracy.unwrap_or(lipschitz * own.radius / 100.0);
    let rounds = run.common.rounds.unwrap_or(100);
    let smoothing = own.smoothing.unwrap_or(0.5 * accuracy / lipschitz);
    let parameters = ParallelParameters {
        domain_radius: own.radius,
        accuracy,
        lipschitz,
        smoothing: Some(smoothing),
        solver,
        outer: own.outer,
        samples: own.samples,
    };
    let promise = promise(&own, solver);
    let resque = ParallelResque::new(parameters, vec![0.0; run.problem.parameters()], run.key().clone())?;
    Ok(pooled::prepared(run, resque, (own.weights, lipschitz), rounds as u64)?.with("promise", promise))
}
