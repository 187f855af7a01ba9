//! Accelerated randomised smoothing on a problem: [`crate::resque::randomized_smoothing`] with projected queries.
//!
//! A query of a linear model at x + ξ needs only the K shifts of its margins, so a round of m queries costs what a
//! mini-batch round of m does. Rows are drawn uniformly with replacement.

use super::parameters::{Common, Range, parameters};
use super::scene::Scene;
use super::{Algorithm, PrepareError, Prepared, Settings, pooled};
use crate::problem::PublicProblem;
use crate::resque::projected::{self, Weights};
use crate::resque::randomized_smoothing::{RandomizedSmoothing, SmoothingParameters};

parameters! {
    /// Parameters of the method.
    struct SmoothingSettings {
        /// Radius R of the domain around 0
        radius: f64 [Range::POSITIVE] = 10.0,
        /// Smoothing radius ρ (default: 2R/T)
        smoothing: Option<f64> [Range::POSITIVE],
    }
}

pub(super) static RANDOMIZED_SMOOTHING: Algorithm = Algorithm {
    id: "randomized-smoothing",
    name: "accelerated randomised smoothing",
    source: "Duchi, Bartlett and Wainwright 2012; [002 Table I]",
    promise: "no privacy; query depth d^{1/4}LR/ε on non-smooth losses",
    private: false,
    release: false,
    groups: &[&[Common::epochs(), Common::batch_size()], SmoothingSettings::ALL],
    scenes: &[Scene::FIXED],
    constructor: prepare,
};

fn prepare(problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
    let lipschitz = projected::lipschitz(problem)?;
    let (common, own) = (settings.common()?, SmoothingSettings::read(settings)?);
    let batch = common.batch_size.unwrap_or(500.min(problem.rows())).max(1);
    let epochs = common.epochs.unwrap_or(5.0);
    let rounds = (epochs * problem.rows() as f64 / batch as f64).ceil().max(1.0);
    let parameters = SmoothingParameters {
        domain_radius: own.radius,
        lipschitz,
        smoothing: own.smoothing.unwrap_or(2.0 * own.radius / rounds),
        rounds: rounds as u64,
        batch,
    };
    let run = RandomizedSmoothing::new(problem.parameters(), parameters)?;
    pooled::prepared(problem, settings, run, Weights::Conditional, lipschitz, rounds as u64)
}
