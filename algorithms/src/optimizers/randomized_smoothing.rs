//! Accelerated randomised smoothing on a problem: [`crate::resque::randomized_smoothing`] with projected queries.
//!
//! A query of a linear model at x + ξ needs only the K shifts of its margins, so a round of m queries costs what a
//! mini-batch round of m does. Rows are drawn uniformly with replacement.

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::parameters::{Common, Range, parameters};
use super::pooled;
use super::scene::Scene;
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
    common: &[&[Common::epochs(), Common::batch_size()]],
    scenes: &[Scene::FIXED],
    constructor: &Reads(prepare),
};

fn prepare(run: &Run<'_>, own: SmoothingSettings) -> Result<Prepared, PrepareError> {
    let (rows, lipschitz) = (run.problem.rows(), projected::lipschitz(run.problem)?);
    let batch = run.common.batch_size.unwrap_or(500.min(rows)).max(1);
    let epochs = run.common.epochs.unwrap_or(5.0);
    let rounds = (epochs * rows as f64 / batch as f64).ceil().max(1.0);
    let parameters = SmoothingParameters {
        domain_radius: own.radius,
        lipschitz,
        smoothing: own.smoothing.unwrap_or(2.0 * own.radius / rounds),
        rounds: rounds as u64,
        batch,
    };
    let smoothed = RandomizedSmoothing::new(run.problem.parameters(), parameters)?;
    pooled::prepared(run, smoothed, (Weights::Conditional, lipschitz), rounds as u64)
}
