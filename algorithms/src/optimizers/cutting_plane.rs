//! Cutting planes on a problem: [`crate::resque::cutting_plane`] with gradients of all rows, or of a sampled batch.
//!
//! The result is the centre after the last cut: choosing the best visited centre would need function values, which this
//! oracle does not answer.

use super::{Algorithm, PrepareError, Prepared, Settings, SettingsError, pooled};
use crate::problem::PublicProblem;
use crate::resque::cutting_plane::{Centre, CuttingPlane, MOST_DIMENSIONS};
use crate::resque::projected::{self, Weights};

/// The catalogue's entry.
pub static CUTTING_PLANE: Algorithm = Algorithm {
    id: "cutting-plane",
    name: "cutting planes",
    source: "[002 Table I], after Kozlov, Tarasov and Èrlich 1988",
    promise: "no privacy; query depth d·ln(LR/ε), for up to 1,024 parameters",
    private: false,
    parameters: &[
        (
            "centre",
            "analytic (default; d·ln κ rounds, d³ work each) or ellipsoid (2d²·ln κ rounds)",
        ),
        ("radius", "radius R of the domain around 0 (default 10)"),
        ("accuracy", "target gap ε, which sets the rounds (default LR/1000)"),
    ],
    constructor: prepare,
};

fn prepare(problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
    let dimension = problem.parameters();
    if dimension > MOST_DIMENSIONS {
        return Err(SettingsError::OutOfRange {
            flag: "--algorithm",
            value: format!("cutting-plane with {dimension} parameters"),
            expected: "at most 1024 parameters: its rounds cost d³ operations and their number grows with d",
        }
        .into());
    }
    let lipschitz = projected::lipschitz(problem)?;
    let above_zero = |value: f64| value > 0.0 && value.is_finite();
    let radius = settings.number("radius", 10.0, "a radius above 0 is needed", above_zero)?;
    let default = lipschitz * radius / 1_000.0;
    let accuracy = settings.number("accuracy", default, "an accuracy above 0 is needed", above_zero)?;
    let kind = settings.named("centre", Centre::Analytic)?;
    let batch = settings.batch_size.unwrap_or(problem.rows());
    let run = CuttingPlane::for_accuracy(kind, dimension, lipschitz, radius, accuracy, batch)?;
    let rounds = run.rounds();
    pooled::prepared(problem, settings, run, Weights::Conditional, lipschitz, rounds)
}
