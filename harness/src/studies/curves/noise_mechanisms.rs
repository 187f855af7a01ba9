//! Noise mechanisms: the error of each factorisation against the number of rounds, and time and memory of a round of noise.

use std::time::Instant;

use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::noise::{NoiseMechanism as _, NoisePlan};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::parallel::Engine;
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};
use serde_json::json;

use crate::experiment::{Cell, Configuration, Context, Execution, Measure, Outcome, Run, Selection, Study, definition};
use crate::statistics::median;

/// The measure. A problem is `prefix-sums`, whose methods are those of `rounds factorize`, or `noise-stream`, whose methods are
/// noise mechanisms.
pub(crate) const NOISE_MECHANISMS: Measure =
    Measure { threads: |_| vec![1], cells, ..Measure::new("noise-mechanisms", Execution::Interleaved, &[], run) };

const ERRORS: &str = "prefix-sums";
const COSTS: &str = "noise-stream";

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    for problem in &study.definition.problems {
        definition::known("problem", &problem.dataset, &[ERRORS, COSTS])?;
    }
    Ok(study.definition.cells(selection)?)
}

fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let configuration = &run.cell.configuration;
    if configuration.dataset == ERRORS {
        return error(configuration);
    }
    cost(configuration, run.study.definition.seed, context)
}

fn rounds(cell: &Configuration) -> anyhow::Result<usize> {
    Ok(cell.number("rounds")? as usize)
}

/// The error of one method at sensitivity 1 and one participation: root mean square and largest over rounds, for optima with the certified gap
/// of the squared error. Computed anew so that its time is its own.
fn error(cell: &Configuration) -> anyhow::Result<Outcome> {
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
    let mut values = json!({
        "rms_error": factorization.rms_error(),
        "max_error": factorization.max_error(),
        "factorization_seconds": started.elapsed().as_secs_f64(),
    });
    if let Some(gap) = factorization.relative_gap() {
        values["relative_gap"] = gap.into();
    }
    Ok(Outcome::of(values))
}

/// Nanoseconds of a round on one thread, all of a run timed together, those of a vector of fresh Gaussians just before, and the vectors kept
/// between rounds.
fn cost(cell: &Configuration, seed: u64, context: &Context<'_>) -> anyhow::Result<Outcome> {
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
    Ok(Outcome::of(json!({
        "round_ns": started.elapsed().as_nanos() as f64 / rounds as f64,
        "gaussian_vector_ns": median(&gaussian),
        "resident_vectors": stream.resident_vectors(),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Results, Trial, testing};

    #[test]
    fn every_method_and_mechanism_is_measured_and_no_error_is_below_the_optimum() {
        let text = definition::find("noise-mechanisms").unwrap().text;
        let text = text.replace("banded=16", "banded=8").replace("banded=32", "banded=8");
        let study = testing::parse(&NOISE_MECHANISMS, &text).unwrap();
        let context = testing::context(1);
        let mut optimum = 0.0;
        for mut cell in study.cells(&testing::selection(1)).unwrap() {
            if cell.configuration.number("rounds").unwrap() > 64.0 {
                continue;
            }
            cell.configuration.parameters.insert("rounds".to_owned(), 8.into());
            let one = Run { study: &study, cell: &cell, trial: Trial::default(), earlier: &Results::default() };
            let Outcome::Measured(values) = run(&one, &context).unwrap() else { panic!("measured") };
            let number = |name: &str| values.get(name).and_then(serde_json::Value::as_f64);
            if let Some(error) = number("rms_error") {
                if cell.configuration.algorithm == "optimal" {
                    optimum = error;
                    assert!(number("relative_gap").is_some());
                }
                assert!(error >= optimum * (1.0 - 1e-6), "{}", cell.configuration.key());
            } else {
                assert!(number("round_ns") > Some(0.0));
            }
        }
        // ‖B‖_F² = 17.866177 at T = 8 (specification 3.3).
        assert!((optimum.powi(2) * 8.0 - 17.866_177_332_774).abs() < 1e-4);
    }
}
