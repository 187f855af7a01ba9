//! Noise mechanisms: the error of each factorisation against the number of rounds, and time and memory of a round of noise.

use std::path::Path;
use std::time::Instant;

use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::noise::NoisePlan;
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::oracle::Engine;
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    Configuration, Context, Definition, Execution, Measured, NoOptions, Outcome, Presentation, Results, Run, Sample,
    Study, definition,
};
use crate::report;
use crate::report::{Axis, Chart, Entry, Figure, Panel, Part, Point, Style, Table};
use crate::statistics::median;

/// The study. A problem is `prefix-sums`, whose methods are those of `rounds factorize`, or `noise-stream`, whose methods are
/// noise mechanisms.
pub struct NoiseMechanisms {
    definition: Definition<NoOptions>,
}

const ERRORS: &str = "prefix-sums";
const COSTS: &str = "noise-stream";

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Mechanism {
    /// Error of a factorisation, at sensitivity 1 and one participation.
    Error {
        /// Root mean square over rounds.
        rms_error: f64,
        /// Largest over rounds.
        max_error: f64,
        /// Certified gap of the squared error, for optima.
        relative_gap: Option<f64>,
        /// Seconds of the factorisation.
        factorization_seconds: f64,
    },
    /// Cost of a round on one thread.
    Cost {
        /// Nanoseconds of a round, all rounds of a run timed together.
        round_ns: f64,
        /// Nanoseconds of a vector of fresh Gaussians, just before.
        gaussian_vector_ns: f64,
        /// Vectors kept between rounds.
        resident_vectors: usize,
    },
}

impl Study for NoiseMechanisms {
    const NAME: &'static str = "noise-mechanisms";
    const EXECUTION: Execution = Execution::Interleaved;
    type Options = NoOptions;
    type Outcome = Mechanism;

    fn new(definition: Definition<NoOptions>) -> anyhow::Result<Self> {
        for problem in &definition.problems {
            definition::known("problem", &problem.dataset, &[ERRORS, COSTS])?;
        }
        Ok(Self { definition })
    }

    fn definition(&self) -> &Definition<NoOptions> {
        &self.definition
    }

    fn threads(_: usize) -> Vec<usize> {
        vec![1]
    }

    fn measure(&self, run: &Run<'_, Mechanism>, context: &Context<'_>) -> anyhow::Result<Outcome<Mechanism>> {
        let configuration = &run.cell.configuration;
        Ok(Outcome::Measured(if configuration.dataset == ERRORS {
            error(configuration)?
        } else {
            cost(configuration, self.definition.seed, context)?
        }))
    }

    fn present(&self, results: &Results<Mechanism>, _: &Path, context: &Context<'_>) -> anyhow::Result<Presentation> {
        let about = "Errors are those of prefix sums per unit of noise at sensitivity 1, one participation. Times are medians of \
                     whole runs on one thread.";
        let command = &context.environment.command;
        let mut page = report::Presentation::new("Noise mechanisms", "Noise mechanisms", about, command);
        let measured = self.measured(results)?;
        let (errors, costs) = (Errors::of(&measured), Costs::of(&measured));
        let log = |title: &str, subtitle: &str, quantity: &str, points: Vec<(String, Point)>| {
            let (x, y) = (Axis::logarithmic("rounds T"), Axis::logarithmic(quantity));
            let chart = Chart::new(title, subtitle, x, y, report::grouped(Style::Line, points));
            Panel::chart(title, &title.to_lowercase().replace(' ', "-"), chart)
        };
        let conditions = "prefix sums, sensitivity 1";
        let kept = "vectors of the model's length; mechanisms that keep none are left out";
        let panels = vec![
            log(
                "Root mean square error",
                conditions,
                "error",
                errors.points(|row| row.rms_error),
            ),
            log(
                "Largest error of a round",
                conditions,
                "error",
                errors.points(|row| row.max_error),
            ),
            log(
                "Time of a round",
                "in vectors of fresh Gaussians",
                "vectors of Gaussians",
                costs.points(|row| row.gaussian_vectors),
            ),
            log(
                "Memory between rounds",
                kept,
                "vectors",
                costs.points(|row| row.resident_vectors as f64),
            ),
        ];
        page.parts = vec![
            Part::Figure(Figure::new("Noise mechanisms", "What is shown", panels)),
            Part::Table(errors.table()),
            Part::Table(costs.table()),
        ];
        Presentation::of(&page, context)
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
        Method::Banded { bands } => Method::Banded {
            bands: bands.min(rounds),
        },
        other => other,
    };
    let request = FactorizationRequest {
        gap: cell.optional("gap")?.unwrap_or(1e-6),
        ..FactorizationRequest::new(workload, Participation::Single, method)
    };
    let started = Instant::now();
    let factorization = request.factorize()?;
    Ok(Mechanism::Error {
        rms_error: factorization.rms_error(),
        max_error: factorization.max_error(),
        relative_gap: factorization.relative_gap(),
        factorization_seconds: started.elapsed().as_secs_f64(),
    })
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
    let plan = NoisePlan {
        kind: cell.algorithm.parse::<NoiseKind>()?,
        rounds,
        rounds_per_epoch: rounds,
        workload: WorkloadSpecification::prefix(),
        dimension,
    };
    let mut sum = vec![0.0; dimension];
    let mut stream = plan.prepare(&context.strategies)?.stream(key.clone(), 1.0);
    let started = Instant::now();
    for round in 0..rounds as u64 {
        stream.add_increment(round, &mut sum, &Engine::Sequential)?;
    }
    std::hint::black_box(&sum);
    Ok(Mechanism::Cost {
        round_ns: started.elapsed().as_nanos() as f64 / rounds as f64,
        gaussian_vector_ns: median(&gaussian),
        resident_vectors: stream.resident_vectors(),
    })
}

/// Rows of one kind with the method and T of each.
struct Rows<Row>(Vec<(String, usize, Row)>);
type Errors = Rows<ErrorRow>;
type Costs = Rows<CostRow>;

struct ErrorRow {
    rms_error: f64,
    max_error: f64,
    relative_gap: Option<f64>,
    seconds: f64,
}

struct CostRow {
    round_ns: f64,
    gaussian_vectors: f64,
    resident_vectors: usize,
}

impl<Row> Rows<Row> {
    /// A row for each cell of which `row` makes one.
    fn collect(measured: &[Measured<'_, Mechanism>], row: impl Fn(&[&Sample<Mechanism>]) -> Option<Row>) -> Self {
        let rows = measured.iter().filter_map(|(cell, runs)| {
            let configuration = &cell.configuration;
            Some((configuration.algorithm.clone(), rounds(configuration).ok()?, row(runs)?))
        });
        Self(rows.collect())
    }

    fn points(&self, value: impl Fn(&Row) -> f64) -> Vec<(String, Point)> {
        let points = self.0.iter().map(|(method, rounds, row)| (method, *rounds, value(row)));
        let drawn = points.filter(|(_, _, value)| *value > 0.0);
        drawn
            .map(|(method, rounds, value)| {
                let note = format!("{method}, T = {rounds}: {}", crate::format::three_digits(value));
                (method.clone(), Point::new(rounds as f64, value, note))
            })
            .collect()
    }
}

impl Errors {
    fn of(measured: &[Measured<'_, Mechanism>]) -> Self {
        Self::collect(measured, |runs| match runs.first()?.outcome {
            Mechanism::Error {
                rms_error,
                max_error,
                relative_gap,
                factorization_seconds: seconds,
            } => Some(ErrorRow {
                rms_error,
                max_error,
                relative_gap,
                seconds,
            }),
            Mechanism::Cost { .. } => None,
        })
    }

    fn table(&self) -> Table {
        let columns = ["method", "#T", "#rms error", "#max error", "#certified gap", "#seconds"];
        let mut table = Table::new("Errors", &columns);
        for (method, rounds, row) in &self.0 {
            let six = |value: f64| format!("{value:.6}");
            table.row([
                Entry::text(method),
                Entry::count(*rounds),
                Entry::number(row.rms_error, six),
                Entry::number(row.max_error, six),
                Entry::number(row.relative_gap, |gap| format!("{gap:.1e}")),
                Entry::number(row.seconds, |seconds| format!("{seconds:.4}")),
            ]);
        }
        table
    }
}

impl Costs {
    fn of(measured: &[Measured<'_, Mechanism>]) -> Self {
        Self::collect(measured, |runs| {
            let runs = runs.iter().filter_map(|sample| match sample.outcome {
                Mechanism::Cost {
                    round_ns,
                    gaussian_vector_ns,
                    resident_vectors,
                } => Some((round_ns, gaussian_vector_ns, resident_vectors)),
                Mechanism::Error { .. } => None,
            });
            let runs: Vec<_> = runs.collect();
            let round_ns = median(&runs.iter().map(|run| run.0).collect::<Vec<_>>());
            let gaussian = median(&runs.iter().map(|run| run.1).collect::<Vec<_>>());
            Some(CostRow {
                round_ns,
                gaussian_vectors: round_ns / gaussian,
                resident_vectors: runs.first()?.2,
            })
        })
    }

    fn table(&self) -> Table {
        let columns = [
            "mechanism",
            "#T",
            "#µs a round",
            "#in vectors of Gaussians",
            "#vectors kept",
        ];
        let mut table = Table::new("Cost of a round", &columns);
        for (mechanism, rounds, row) in &self.0 {
            table.row([
                Entry::text(mechanism),
                Entry::count(*rounds),
                Entry::number(row.round_ns * 1e-3, |time| format!("{time:.1}")),
                Entry::number(row.gaussian_vectors, |count| format!("{count:.2}")),
                Entry::count(row.resident_vectors),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Trial, testing};

    #[test]
    fn every_method_and_mechanism_is_measured_and_no_error_is_below_the_optimum() {
        let text = definition::find(NoiseMechanisms::NAME).unwrap().text;
        let text = text.replace("banded=16", "banded=8").replace("banded=32", "banded=8");
        let study = NoiseMechanisms::new(Definition::parse("small", &text).unwrap()).unwrap();
        let context = testing::context(1);
        let mut optimum = 0.0;
        for mut cell in study.cells(&testing::selection(1)).unwrap() {
            if cell.configuration.number("rounds").unwrap() > 64.0 {
                continue;
            }
            cell.configuration.parameters.insert("rounds".to_owned(), 8.into());
            let run = Run {
                cell: &cell,
                trial: Trial::default(),
                earlier: &Results::default(),
            };
            match study.measure(&run, &context).unwrap() {
                Outcome::Measured(Mechanism::Error { rms_error, .. }) => {
                    if cell.configuration.algorithm == "optimal" {
                        optimum = rms_error;
                    }
                    assert!(rms_error >= optimum * (1.0 - 1e-6), "{}", cell.configuration.key());
                }
                Outcome::Measured(Mechanism::Cost { round_ns, .. }) => assert!(round_ns > 0.0),
                other => panic!("{other:?}"),
            }
        }
        // ‖B‖_F² = 17.866177 at T = 8 (specification 3.3).
        assert!((optimum.powi(2) * 8.0 - 17.866_177_332_774).abs() < 1e-4);
    }
}
