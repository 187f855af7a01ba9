//! Parallel ReSQue on a problem [002 Theorems 1 and 2]: [`crate::resque::parallel`] with projected queries.
//!
//! One `advance` is one oracle call of ball acceleration: all its queries are fixed by the centre, so it is one adaptive
//! round, however many solves read the pool. The rounds are planned in advance; a run that reaches its accuracy earlier
//! goes on improving.

use super::{Algorithm, PrepareError, Prepared, Settings, pooled};
use crate::problem::PublicProblem;
use crate::resque::estimator::RadiusRule;
use crate::resque::parallel::{Constants, Outer, ParallelParameters, ParallelResque, Solver};
use crate::resque::projected::{self, Weights};

const PARAMETERS: &[(&str, &str)] = &[
    ("accuracy", "target gap ε (default LR/100)"),
    ("radius", "radius R of the domain around 0 (default 10)"),
    ("rounds", "adaptive rounds (default 100)"),
    ("outer", "bisection-free (default) or line-search"),
    (
        "samples",
        "constant of the sample sizes (default 2; the theory's is 48)",
    ),
    (
        "smoothing",
        "smoothing radius ρ and ball radius r (default: ε/(2L), for losses of a linear model)",
    ),
    (
        "weights",
        "conditional (default) or full: whether a weight is drawn given the margins' shifts alone",
    ),
];

/// Theorem 1.
pub static RESQUE_EPOCH_SGD: Algorithm = Algorithm {
    id: "resque-epoch-sgd",
    name: "parallel ReSQue with EpochSGD",
    source: "[002 Theorem 1, Algorithm 1]",
    promise: "no privacy; query depth d^{1/3}κ^{2/3}, κ² queries (projected oracle)",
    private: false,
    parameters: PARAMETERS,
    constructor: |problem, settings| prepare(problem, settings, Solver::EpochSgd),
};

/// Theorem 2.
pub static RESQUE_AC_SA: Algorithm = Algorithm {
    id: "resque-ac-sa",
    name: "parallel ReSQue with AC-SA",
    source: "[002 Theorem 2, Algorithm 2]",
    promise: "no privacy; query depth d^{1/3}κ^{2/3}, κ² queries, computational depth d^{1/4}κ (projected oracle)",
    private: false,
    parameters: PARAMETERS,
    constructor: |problem, settings| prepare(problem, settings, Solver::AcceleratedSa),
};

impl std::str::FromStr for Weights {
    type Err = super::SettingsError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "conditional" => Ok(Self::Conditional),
            "full" => Ok(Self::Full),
            _ => Err(super::SettingsError::UnknownName {
                flag: "--set weights",
                value: name.to_owned(),
                known: "conditional or full",
            }),
        }
    }
}

fn prepare(problem: &PublicProblem, settings: &Settings, solver: Solver) -> Result<Prepared, PrepareError> {
    let lipschitz = projected::lipschitz(problem)?;
    let above_zero = |value: f64| value > 0.0 && value.is_finite();
    let domain_radius = settings.number("radius", 10.0, "a radius above 0 is needed", above_zero)?;
    let default = lipschitz * domain_radius / 100.0;
    let accuracy = settings.number("accuracy", default, "an accuracy above 0 is needed", above_zero)?;
    let rounds = settings.number("rounds", 100.0, "a number of at least 1 is needed", |rounds| {
        rounds >= 1.0
    })?;
    let samples = settings.number("samples", 2.0, "a constant above 0 is needed", above_zero)?;
    let smoothing = settings.number(
        "smoothing",
        0.5 * accuracy / lipschitz,
        "a radius above 0 is needed, at least 1e-30: offsets are f32",
        |radius| radius >= 1e-30 && radius.is_finite(),
    )?;
    let parameters = ParallelParameters {
        domain_radius,
        accuracy,
        lipschitz,
        radius_rule: RadiusRule::Fixed(smoothing),
        solver,
        outer: settings.named("outer", Outer::BisectionFree)?,
        constants: Constants {
            samples,
            ..Constants::practical()
        },
    };
    let weights = settings.named("weights", Weights::Conditional)?;
    let run = ParallelResque::new(parameters, vec![0.0; problem.parameters()], settings.key.clone())?;
    pooled::prepared(problem, settings, run, weights, lipschitz, rounds as u64)
}
