//! Noise mechanisms: the error of each factorisation against the number of rounds, and time and memory of a round of noise.

use std::path::Path;
use std::time::Instant;

use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::noise::{NoiseMechanism as _, NoisePlan};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::parallel::Engine;
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    Configuration, Context, Definition, Execution, Experiment, Kind, Measured, NoOptions, Outcome, Presentation,
    Results, Run, Sample, Study, definition,
};
use crate::format::three_digits;
use crate::report::{self, Chart, Entry, Figure, Panel, Part, Point, Style, Table};
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

impl Cost {
    fn gaussian_vectors(&self) -> f64 {
        self.round_ns / self.gaussian_vector_ns
    }
}

impl Study for NoiseMechanisms {
    const KIND: Kind = Kind { threads: |_| vec![1], ..Kind::new::<Self>("noise-mechanisms", Execution::Interleaved) };
    type Options = NoOptions;
    type Outcome = Mechanism;

    fn check(definition: &Definition<NoOptions>) -> anyhow::Result<()> {
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

    fn present(&self, results: &Results<Mechanism>, _: &Path, _: &Context<'_>) -> anyhow::Result<Presentation> {
        let about = "Errors are those of prefix sums per unit of noise at sensitivity 1, one participation. Times are medians of \
                     whole runs on one thread.";
        let measured = self.measured(results)?;
        let (errors, costs) = (errors(&measured), costs(&measured));
        let log = |title: &str, subtitle: &str, quantity: &str, points: Vec<(String, Point)>| {
            let series = report::grouped(Style::Line, points);
            let chart = Chart::logarithmic(title, subtitle, "rounds T", quantity, series);
            Panel::chart(title, &title.to_lowercase().replace(' ', "-"), chart)
        };
        let conditions = "prefix sums, sensitivity 1";
        let kept = "vectors of the model's length; mechanisms that keep none are left out";
        let panels = vec![
            log("Root mean square error", conditions, "error", points(&errors, |row| row.rms_error)),
            log("Largest error of a round", conditions, "error", points(&errors, |row| row.max_error)),
            log(
                "Time of a round",
                "in vectors of fresh Gaussians",
                "vectors of Gaussians",
                points(&costs, Cost::gaussian_vectors),
            ),
            log("Memory between rounds", kept, "vectors", points(&costs, |row| row.resident_vectors as f64)),
        ];
        let parts = vec![
            Part::Figure(Figure::new("Noise mechanisms", "What is shown", panels)),
            Part::Table(table_of_errors(&errors)),
            Part::Table(table_of_costs(&costs)),
        ];
        Ok(Presentation::of_parts(("Noise mechanisms", "Noise mechanisms", about), parts))
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

/// Results of one kind with the method and T of each.
type Rows<Row> = Vec<(String, usize, Row)>;

/// A row for each cell of which `row` makes one.
fn rows<Row>(measured: &[Measured<'_, Mechanism>], row: impl Fn(&[&Sample<Mechanism>]) -> Option<Row>) -> Rows<Row> {
    let rows = measured.iter().filter_map(|(cell, runs)| {
        let configuration = &cell.configuration;
        Some((configuration.algorithm.clone(), rounds(configuration).ok()?, row(runs)?))
    });
    rows.collect()
}

fn points<Row>(rows: &Rows<Row>, value: impl Fn(&Row) -> f64) -> Vec<(String, Point)> {
    let points = rows.iter().map(|(method, rounds, row)| (method, *rounds, value(row)));
    let drawn = points.filter(|(_, _, value)| *value > 0.0);
    drawn
        .map(|(method, rounds, value)| {
            let note = format!("{method}, T = {rounds}: {}", three_digits(value));
            (method.clone(), Point::new(rounds as f64, value, note))
        })
        .collect()
}

fn errors(measured: &[Measured<'_, Mechanism>]) -> Rows<Errors> {
    rows(measured, |runs| match runs.first()?.outcome {
        Mechanism::Error(errors) => Some(errors),
        Mechanism::Cost(_) => None,
    })
}

fn table_of_errors(errors: &Rows<Errors>) -> Table {
    let mut table = Table::new("Errors", "method|#T|#rms error|#max error|#certified gap|#seconds");
    for (method, rounds, row) in errors {
        let six = |value: f64| format!("{value:.6}");
        table.row([
            Entry::text(method),
            Entry::count(*rounds),
            Entry::number(row.rms_error, six),
            Entry::number(row.max_error, six),
            Entry::number(row.relative_gap, |gap| format!("{gap:.1e}")),
            Entry::number(row.factorization_seconds, |seconds| format!("{seconds:.4}")),
        ]);
    }
    table
}

/// Costs with the medians of times over the runs.
fn costs(measured: &[Measured<'_, Mechanism>]) -> Rows<Cost> {
    rows(measured, |runs| {
        let runs = runs.iter().filter_map(|sample| match sample.outcome {
            Mechanism::Cost(cost) => Some(cost),
            Mechanism::Error(_) => None,
        });
        let runs: Vec<Cost> = runs.collect();
        let median_of = |value: fn(&Cost) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
        Some(Cost {
            round_ns: median_of(|run| run.round_ns),
            gaussian_vector_ns: median_of(|run| run.gaussian_vector_ns),
            ..*runs.first()?
        })
    })
}

fn table_of_costs(costs: &Rows<Cost>) -> Table {
    let mut table = Table::new("Cost of a round", "mechanism|#T|#µs a round|#in vectors of Gaussians|#vectors kept");
    for (mechanism, rounds, row) in costs {
        table.row([
            Entry::text(mechanism),
            Entry::count(*rounds),
            Entry::number(row.round_ns * 1e-3, |time| format!("{time:.1}")),
            Entry::number(row.gaussian_vectors(), |count| format!("{count:.2}")),
            Entry::count(row.resident_vectors),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Trial, testing};

    #[test]
    fn every_method_and_mechanism_is_measured_and_no_error_is_below_the_optimum() {
        let text = definition::find(NoiseMechanisms::KIND.name).unwrap().text;
        let text = text.replace("banded=16", "banded=8").replace("banded=32", "banded=8");
        let study = NoiseMechanisms::new(Definition::parse("small", &text).unwrap()).unwrap();
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
