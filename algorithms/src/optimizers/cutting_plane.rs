//! Cutting planes on a problem: [`crate::resque::cutting_plane`] with gradients of all rows, or of a sampled batch.
//!
//! The result is the centre after the last cut: choosing the best visited centre would need function values, which this
//! oracle does not answer.

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::optimizer::AssumptionWarning;
use super::parameters::{Common, Range, parameters};
use super::pooled;
use super::scene::Scene;
use super::settings::SettingsError;
use crate::resque::cutting_plane::{Centre, CuttingPlane, MOST_DIMENSIONS};
use crate::resque::projected::{self, Weights};

parameters! {
    /// Parameters of the cuts.
    struct Cuts {
        /// Queried centre: analytic takes d·ln κ rounds of d³ work each, ellipsoid 2d²·ln κ rounds
        centre: Centre = Centre::Analytic,
        /// Radius R of the domain around 0
        radius: f64 [Range::POSITIVE] = 10.0,
        /// Target gap ε, which sets the rounds (default: LR/1000)
        accuracy: Option<f64> [Range::POSITIVE],
    }
}

pub(super) static CUTTING_PLANE: Algorithm = Algorithm {
    id: "cutting-plane",
    name: "cutting planes",
    source: "[002 Table I] after Khachiyan, Tarasov and Erlikh 1988 (inscribed ellipsoids), here with analytic centres",
    promise: "no privacy; query depth d·ln(LR/ε), for up to 1,024 parameters",
    private: false,
    release: false,
    common: &[&[Common::batch_size()]],
    scenes: &[Scene::FIXED],
    constructor: &Reads(prepare),
};

/// Multiplications of which a run warns: a minute of a core at 4·10⁹ a second.
const MINUTE: f64 = 240e9;

fn prepare(run: &Run<'_>, own: Cuts) -> Result<Prepared, PrepareError> {
    let dimension = run.problem.parameters();
    if dimension > MOST_DIMENSIONS {
        let expected = "a model of at most 1024 parameters (rounds cost d³ operations and their number grows with d)";
        let value = format!("cutting-plane with {dimension} parameters");
        return Err(SettingsError::out_of_range("algorithm", value, expected).into());
    }
    let lipschitz = projected::lipschitz(run.problem)?;
    let accuracy = own.accuracy.unwrap_or(lipschitz * own.radius / 1_000.0);
    let batch = run.common.batch_size.unwrap_or(run.problem.rows());
    let cuts = CuttingPlane::for_accuracy(own.centre, dimension, lipschitz, own.radius, accuracy, batch)?;
    let (rounds, multiplications) = (cuts.rounds(), cuts.multiplications());
    let mut prepared = pooled::prepared(run, cuts, (Weights::Conditional, lipschitz), rounds)?;
    if multiplications > MINUTE {
        prepared.warnings.push(AssumptionWarning::Work { multiplications, rounds });
    }
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_names_the_papers_reference_and_the_centres_in_use() {
        let centres = format!("{:?} centres", Centre::Analytic).to_lowercase();
        assert!(CUTTING_PLANE.source.contains("Khachiyan, Tarasov and Erlikh 1988"));
        assert!(CUTTING_PLANE.source.contains(&centres), "{}", CUTTING_PLANE.source);
    }
}
