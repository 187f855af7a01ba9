//! Accelerated randomised smoothing on a problem: [`crate::resque::randomized_smoothing`] with projected queries.
//!
//! A query of a linear model at x + ξ needs only the K shifts of its margins, so a round of m queries costs what a
//! mini-batch round of m does. Rows are drawn uniformly with replacement.

use super::settings::positive;
use super::{Algorithm, Optimizer, PrepareError, Prepared, Settings, StepError};
use crate::oracle::{Oracle, Phase};
use crate::privacy::PrivacyStatement;
use crate::problem::PublicProblem;
use crate::resque::estimator::OracleMode;
use crate::resque::projected::{self, ProjectedPool, Weights};
use crate::resque::randomized_smoothing::{RandomizedSmoothing, SmoothingParameters};
use crate::state::StateVisitor;

/// The catalogue's entry.
pub static RANDOMIZED_SMOOTHING: Algorithm = Algorithm {
    id: "randomized-smoothing",
    name: "accelerated randomised smoothing",
    source: "Duchi, Bartlett and Wainwright 2012; [002 Table I]",
    promise: "no privacy; query depth d^{1/4}LR/ε on non-smooth losses",
    private: false,
    parameters: &[
        ("radius", "radius R of the domain around 0 (default 10)"),
        ("smoothing", "smoothing radius ρ (default 2R/T)"),
    ],
    constructor: prepare,
};

fn prepare(problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
    let lipschitz = projected::lipschitz(problem)?;
    let batch = settings.batch_size.unwrap_or(500.min(problem.rows())).max(1);
    let epochs = positive("--epochs", settings.epochs.unwrap_or(5.0))?;
    let rounds = (epochs * problem.rows() as f64 / batch as f64).ceil().max(1.0);
    let above_zero = |value: f64| value > 0.0 && value.is_finite();
    let radius = settings.number("radius", 10.0, "a radius above 0 is needed", above_zero)?;
    let smoothing = settings.number(
        "smoothing",
        2.0 * radius / rounds,
        "a radius above 0 is needed",
        above_zero,
    )?;
    let parameters = SmoothingParameters {
        domain_radius: radius,
        lipschitz,
        smoothing,
        rounds: rounds as u64,
        batch,
    };
    let pool = ProjectedPool::new(
        problem,
        OracleMode::Projected,
        Weights::Conditional,
        lipschitz,
        settings.key.clone(),
    )?;
    let run = RandomizedSmoothing::new(problem.parameters(), parameters)?;
    let optimizer = ProjectedSmoothing {
        run,
        pool,
        solution: vec![0.0; problem.parameters()],
    };
    let statement = PrivacyStatement::none("no noise is added to gradients");
    Ok(Prepared::new(optimizer, rounds as u64, None, statement))
}

struct ProjectedSmoothing {
    run: RandomizedSmoothing,
    pool: ProjectedPool,
    solution: Vec<f32>,
}

impl Optimizer for ProjectedSmoothing {
    fn step(&mut self, _: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        oracle.enter(Phase::Gradient);
        self.run.advance(&mut self.pool.on(oracle))?;
        oracle.enter(Phase::Update);
        Ok(())
    }

    fn solution(&mut self) -> &[f32] {
        self.solution
            .iter_mut()
            .zip(self.run.iterate())
            .for_each(|(to, &from)| *to = from as f32);
        &self.solution
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("pool_round", self.pool.round_mut());
        self.run.visit_state(visitor);
    }
}
