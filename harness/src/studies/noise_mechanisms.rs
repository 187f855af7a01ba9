//! Noise mechanisms: the error of each factorisation against the number of rounds, and time and memory of a round of noise.

use std::time::Instant;

use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::noise::{NoiseMechanism as _, NoisePlan};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::parallel::Engine;
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    Configuration, Context, Definition, Execution, Experiment, Kind, NoOptions, Outcome, Run, Study, definition,
};
use crate::statistics::median;

/// The study. A problem is `prefix-sums`, whose methods are those of `rounds factorize`, or `noise-stream`, whose methods are
/// noise mechanisms.
pub(super) type NoiseMechanisms = Experiment<NoOptions>;

const ERRORS: &str = "prefix-sums";
const COSTS: &str = "noise-stream";

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Mechanism {
    Error(Errors),
    Cost(Cost),
}

/// Error of a factorisation, at sensitivity 1 and one participation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Errors {
    /// Root mean square over rounds.
    rms_error: f64,
    /// Largest over rounds.
    max_error: f64,
    /// Certified gap of the squared error, for optima.
    relative_gap: Option<f64>,
    factorization_seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Nanoseconds of a round, all rounds of a run timed together.
    round_ns: f64,
    /// Nanoseconds of a vector of fresh Gaussians, just before.
    gaussian_vector_ns: f64,
    /// Vectors kept between rounds.
    resident_vectors: usize,
}

impl Study for NoiseMechanisms {
    const KIND: Kind = Kind { threads: |_| vec![1], ..Kind::new::<Self>("noise-mechanisms", Execution::Interleaved) };
    type Options = NoOptions;
    type Outcome = Mechanism;

    fn check(definition: &Definition, _: &NoOptions) -> anyhow::Result<()> {
        for problem in &definition.problems {
            definition::known("problem", &problem.dataset, &[ERRORS, COSTS])?;
        }
        Ok(())
    }

    fn measure(&self, run: &Run<'_, Mechanism>, context: &Context<'_>) -> anyhow::Result<Outcome<Mechanism>> {
        let configuration = &run.cell.configuration;
        Ok(Outcome::Measured(if configuration.dataset == ERRORS {
            error(configuration)?
        } else {
            cost(configuration, self.definition.seed, context)?
        }))
    }
}

fn rounds(cell: &Configuration) -> anyhow::Result<usize> {
    Ok(cell.number("rounds")? as usize)
}

/// The error of one method, computed anew so that its time is its own.
fn error(cell: &Configuration) -> anyhow::Result<Mechanism> {
    let rounds = rounds(cell)?;
    let workload = Workload::new(rounds, WorkloadSpecification::prefix())?;
    let method = match cell.algorithm.parse()? {
        // No more bands than rounds.
        Method::Banded { bands } => Method::Banded { bands: bands.min(rounds) },
        other => other,
    };
    let request = FactorizationRequest {
        gap: cell.optional("gap")?.unwrap_or(1e-6),
        ..FactorizationRequest::new(workload, Participation::Single, method)
    };
    let started = Instant::now();
    let factorization = request.factorize()?;
    Ok(Mechanism::Error(Errors {
        rms_error: factorization.rms_error(),
        max_error: factorization.max_error(),
        relative_gap: factorization.relative_gap(),
        factorization_seconds: started.elapsed().as_secs_f64(),
    }))
}

/// Time of a round on one thread, and that of a vector of Gaussians.
fn cost(cell: &Configuration, seed: u64, context: &Context<'_>) -> anyhow::Result<Mechanism> {
    let (dimension, rounds) = (cell.number("dimension")? as usize, rounds(cell)?);
    let key = StreamKey::Simulation(seed);
    let mut draws = vec![0f32; dimension];
    let gaussian = |repeat: u64| {
        let started = Instant::now();
        for round in 0..16 {
            fill_gaussian(&key, Purpose(1), 16 * repeat + round, 1.0, &mut draws);
            std::hint::black_box(&draws);
        }
        started.elapsed().as_nanos() as f64 / 16.0
    };
    let gaussian: Vec<f64> = (0..64).map(gaussian).collect();
    let plan = NoisePlan { rounds, rounds_per_epoch: rounds, workload: WorkloadSpecification::prefix(), dimension };
    let mut sum = vec![0.0; dimension];
    let kind = cell.algorithm.parse::<NoiseKind>()?;
    let mut stream = kind.prepare(&plan, &context.strategies)?.unaccounted(key.clone(), 1.0);
    let started = Instant::now();
    for round in 0..rounds as u64 {
        stream.add_increment(round, &mut sum, None, &Engine::Sequential)?;
    }
    std::hint::black_box(&sum);
    Ok(Mechanism::Cost(Cost {
        round_ns: started.elapsed().as_nanos() as f64 / rounds as f64,
        gaussian_vector_ns: median(&gaussian),
        resident_vectors: stream.resident_vectors(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Results, Trial, testing};

    #[test]
    fn every_method_and_mechanism_is_measured_and_no_error_is_below_the_optimum() {
        let text = definition::find(NoiseMechanisms::KIND.name).unwrap().text;
        let text = text.replace("banded=16", "banded=8").replace("banded=32", "banded=8");
        let study = NoiseMechanisms::parse("small", &text).unwrap();
        let context = testing::context(1);
        let mut optimum = 0.0;
        for mut cell in study.cells(&testing::selection(1)).unwrap() {
            if cell.configuration.number("rounds").unwrap() > 64.0 {
                continue;
            }
            cell.configuration.parameters.insert("rounds".to_owned(), 8.into());
            let run = Run { cell: &cell, trial: Trial::default(), earlier: &Results::default() };
            match study.measure(&run, &context).unwrap() {
                Outcome::Measured(Mechanism::Error(Errors { rms_error, .. })) => {
                    if cell.configuration.algorithm == "optimal" {
                        optimum = rms_error;
                    }
                    assert!(rms_error >= optimum * (1.0 - 1e-6), "{}", cell.configuration.key());
                }
                Outcome::Measured(Mechanism::Cost(Cost { round_ns, .. })) => assert!(round_ns > 0.0),
                other => panic!("{other:?}"),
            }
        }
        // ‖B‖_F² = 17.866177 at T = 8 (specification 3.3).
        assert!((optimum.powi(2) * 8.0 - 17.866_177_332_774).abs() < 1e-4);
    }
}
