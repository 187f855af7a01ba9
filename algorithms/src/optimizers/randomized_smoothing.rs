//! Accelerated randomised smoothing on a problem: [`crate::resque::randomized_smoothing`] with projected queries.
//!
//! A query of a linear model at x + ξ needs only the K shifts of its margins, so a round of m queries costs what a
//! mini-batch round of m does. Rows are drawn uniformly with replacement.

use super::settings::positive;
use super::{Algorithm, PrepareError, Prepared, Settings, pooled};
use crate::problem::PublicProblem;
use crate::resque::projected::{self, Weights};
use crate::resque::randomized_smoothing::{RandomizedSmoothing, SmoothingParameters};

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
    let run = RandomizedSmoothing::new(problem.parameters(), parameters)?;
    pooled::prepared(problem, settings, run, Weights::Conditional, lipschitz, rounds as u64)
}
