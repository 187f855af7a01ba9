//! Query depth against total work: every runnable method of paper 002's Table I to a gap of ε, with fitted exponents.
//!
//! From the cells `rounds simulate` predicts other machines ([`rounds_algorithms::theory::parallel_time`]).

use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::Labels;
use rounds_algorithms::resque::ResqueError;
use rounds_algorithms::resque::black_box::{BlackBox as _, BlackBoxOracle};
use rounds_algorithms::resque::functions::{LinearLoss, PlantedRegression};
use rounds_algorithms::resque::pool::PoolMethod as _;
use rounds_algorithms::resque::randomized_smoothing::{RandomizedSmoothing, SmoothingParameters};
use rounds_algorithms::theory::parallel::Method;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::depth_cell::{Cell, Cells, Found, Kind};
use crate::experiment::cache::Memo;
use crate::experiment::{
    self, Configuration, Context, Definition, Execution, Experiment, Outcome, Presentation, Results, Run, Sample,
    lines, page,
};

mod measurement;

use measurement::{hard_function, measure};

/// The study. A problem is `max-of-linear`, `l1-regression` or a data set with hinge loss. Runs share the least known values of hinge
/// losses.
pub(super) type DepthAgainstWork = Experiment<Options, Memo<f64>>;

/// Keys of the study. No limit is one of time: counts must not depend on the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Options {
    /// Queries after which a run is given up.
    most_queries: u64,
    /// Runs of more queries are not made again on more threads, which give the same counts.
    most_queries_again: u64,
}

impl experiment::Study for DepthAgainstWork {
    const KIND: experiment::Kind = experiment::Kind::new::<Self>("depth-against-work", Execution::InOrder);
    type Options = Options;
    type Outcome = Found;

    fn check(definition: &Definition, _: &Options) -> anyhow::Result<()> {
        for method in definition.all_methods() {
            method.algorithm.parse::<Method>().map_err(|error| definition.invalid(error))?;
        }
        Ok(())
    }

    fn measure(&self, run: &Run<'_, Found>, context: &Context<'_>) -> anyhow::Result<Outcome<Found>> {
        let configuration = &run.cell.configuration;
        if let Some(reason) = self.pointless(run)? {
            return Ok(Outcome::Skipped(reason));
        }
        let seed = self.definition.seed + run.trial.repeat as u64;
        Ok(Outcome::Measured(self.found(configuration, seed, context)?))
    }

    /// Of each run also the exponents (of 1/ε, of d) of Table I of paper 002, and whether the counts of its cell are
    /// typical.
    fn lines(&self, results: &Results<Found>) -> anyhow::Result<Vec<Value>> {
        let cells = cells_of(results).cells;
        lines(self, results, &|_, run, line| {
            let Some(own) = cell_of(&run.configuration, run.outcome.clone()) else { return };
            let cell = cells.iter().find(|other| other.setting() == own.setting());
            line["typical"] = cell.is_some_and(Cell::is_typical).into();
            if let Ok(method) = own.algorithm.parse::<Method>() {
                let [depth, computational, queries] =
                    [method.depth_exponents(), method.computational_exponents(), method.query_exponents()];
                // Depth = ε^{−p} and queries = ε^{−q}, so depth = queries^{p/q}.
                line["theory"] = json!({ "depth": depth.1, "computational": computational.1, "queries": queries.1,
                    "depth_of_dimension": depth.0, "computational_of_dimension": computational.0,
                    "queries_of_dimension": queries.0, "depth_of_queries": depth.1 / queries.1 });
            }
        })
    }

    fn present(&self, results: &Results<Found>, context: &Context<'_>) -> anyhow::Result<Presentation> {
        let mut presentation = page(self, results, context)?;
        presentation.files.push((format!("{}.json", Self::KIND.name), cells_of(results).document()?));
        Ok(presentation)
    }
}

fn cells_of(results: &Results<Found>) -> Cells {
    let cell = |sample: &Sample<Found>| cell_of(&sample.configuration, sample.outcome.clone());
    Cells::of(&results.samples.iter().filter_map(cell).collect::<Vec<_>>())
}

fn kind_of(dataset: &str) -> Kind {
    match dataset {
        "max-of-linear" => Kind::MaxOfLinear,
        "l1-regression" => Kind::L1Regression,
        _ => Kind::Hinge,
    }
}

/// The cell of a configuration; none for one without a target.
fn cell_of(configuration: &Configuration, found: Found) -> Option<Cell> {
    Some(Cell {
        family: kind_of(&configuration.dataset),
        algorithm: configuration.algorithm.clone(),
        accuracy: configuration.optional("accuracy").ok()??,
        threads: configuration.threads,
        found,
    })
}

impl DepthAgainstWork {
    /// The reason for which a run is left out: too many dimensions, a target that was missed by another seed or at a larger ε,
    /// or many queries on fewer threads, where one seed is enough.
    fn pointless(&self, run: &Run<'_, Found>) -> anyhow::Result<Option<String>> {
        let own = &run.cell.configuration;
        let (accuracy, dimension) = (own.number("accuracy")?, own.optional("dimension")?.unwrap_or(f64::INFINITY));
        if let Some(most) = own.optional("most-dimensions")?.filter(|most| dimension > *most) {
            return Ok(Some(format!("it is measured up to {most} dimensions")));
        }
        for earlier in &run.earlier.samples {
            let other = &earlier.configuration;
            let of = |cell: &Configuration| {
                let names = (cell.algorithm.clone(), cell.dataset.clone());
                (names, cell.text("dimension"), cell.text("rows"))
            };
            if of(other) != of(own) {
                continue;
            }
            let larger = other.number("accuracy")?;
            if !earlier.reached && larger >= accuracy {
                return Ok(Some(format!("it missed a gap of {larger}")));
            }
            let most = self.options.most_queries_again;
            if larger == accuracy && other.threads < own.threads {
                if run.trial.repeat > 0 {
                    return Ok(Some("one seed on more threads is enough for a time".to_owned()));
                }
                if earlier.gradient_queries > most {
                    return Ok(Some(format!("it asked more than {most} queries on fewer threads")));
                }
            }
        }
        Ok(None)
    }

    /// A run; `seed` is that of its oracle, and of the rows where these are generated.
    fn found(&self, cell: &Configuration, seed: u64, context: &Context<'_>) -> anyhow::Result<Found> {
        let method = cell.algorithm.parse().map_err(anyhow::Error::msg)?;
        let limit = self.options.most_queries;
        let accuracy = cell.number("accuracy")?;
        let engine = Engine::with_threads(cell.threads)?;
        let dimension = || anyhow::Ok(cell.number("dimension")? as usize);
        Ok(match kind_of(&cell.dataset) {
            Kind::MaxOfLinear => {
                let function = hard_function(dimension()?, accuracy)?;
                measure((&function, 0.0), method, accuracy, &engine, seed, limit)?
            }
            Kind::L1Regression => {
                let pairs = cell.whole("pairs")?.unwrap_or(1_000);
                let deviation = cell.optional("deviation")?.unwrap_or(0.1);
                let planted = PlantedRegression::new(dimension()?, pairs, 2.0, deviation, seed);
                let function = (&planted.function(), planted.minimum);
                measure(function, method, accuracy, &engine, seed, limit)?
            }
            Kind::Hinge => {
                let loaded = context.problem(cell, 0, &engine)?;
                let data = loaded.train.dataset();
                let Labels::Values(targets) = data.labels() else {
                    anyhow::bail!("{}: hinge loss needs ±1 targets", cell.dataset);
                };
                let loss = LinearLoss::new(data.rows(), targets, Loss::Hinge)?;
                let reference = || Ok(reference_value(&loss, self.definition.seed)?);
                let minimum = self.shared.get(&cell.dataset, reference)?;
                measure((&loss, minimum), method, accuracy, &engine, seed, limit)?
            }
        })
    }
}

/// The least value that a long run of accelerated smoothing finds in the unit ball: an upper bound on the minimum, so
/// that reported gaps may be too small by the run's own error.
fn reference_value(loss: &LinearLoss<'_>, seed: u64) -> Result<f64, ResqueError> {
    let mut oracle = BlackBoxOracle::new(loss, Engine::default(), StreamKey::Simulation(seed ^ 0x5eed));
    let parameters = SmoothingParameters {
        domain_radius: 1.0,
        lipschitz: loss.lipschitz(),
        smoothing: 0.005,
        rounds: 600,
        batch: 20_000,
    };
    let mut run = RandomizedSmoothing::new(loss.dimension(), parameters)?;
    for _ in 0..parameters.rounds {
        run.advance(&mut oracle)?;
    }
    Ok(loss.value(run.iterate()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Study as _, testing};

    #[test]
    fn targets_below_a_missed_one_are_left_out() {
        let text = r#"
            threads = [1, 2]
            repeats = 2
            options = { most-queries = 200, most-queries-again = 9 }
            [[problem]]
            dataset = "max-of-linear"
            parameters = { dimension = 16, accuracy = [0.16, 0.02, 0.01] }
            [[method]]
            algorithm = "sgd"
            [[method]]
            algorithm = "cutting-plane"
            parameters = { most-dimensions = 8 }
        "#;
        let (study, results) = testing::small::<DepthAgainstWork>(text, 1).unwrap();
        let reached: Vec<_> = results.samples.iter().map(|sample| sample.reached).collect();
        // Two seeds reach 0.16 and need more than 9 queries; the first one misses 0.02, and the second one is not tried.
        assert_eq!((reached, results.skipped.len()), (vec![true, true, false], 10));
        // A cell that was missed is not typical; SGD has a depth of ε⁻².
        let lines = study.lines(&results).unwrap();
        let shown = lines.iter().map(|line| (line["typical"].as_bool(), line["theory"]["depth"].as_f64()));
        assert_eq!(shown.collect::<Vec<_>>(), [true, true, false].map(|typical| (Some(typical), Some(2.0))));
        assert_eq!(cells_of(&results).cells.iter().map(|cell| cell.reached).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_limit_in_seconds_is_refused() {
        let options = "options = { most-queries = 9, most-queries-again = 9, most-seconds = 12.0 }";
        let error = testing::small::<DepthAgainstWork>(options, 1).err().expect("refused");
        assert!(format!("{error:#}").contains("most-seconds"), "{error:#}");
    }
}
