//! Suites and thread scaling: the time of a round, by phases, with the work it did and the model that came out.
//!
//! Every repeat of a cell runs the same number of rounds on the same seed, so that all of them end with the same model. A
//! run whose result fails verification is not kept.
//!
//! Thread scaling has the batch fixed (strong) or the rows a thread (weak). With T(p, B) the time of a round of B rows on p threads, each
//! repeat yields from medians that it measured side by side
//!
//! - strong: the speed-up S(p) = T(1, B) / T(p, B) and the serial fraction s = (1/S − 1/p) / (1 − 1/p) of Amdahl's law;
//! - weak: S(p) = p·T(1, B) / T(p, p·B) and the serial share s = (p − S) / (p − 1) of Gustafson's law.
//!
//! A serial fraction below 0 says that more threads did better than their number, as caches that add up do.

use std::collections::BTreeSet;

use rounds_algorithms::catalog;
use rounds_algorithms::oracle;
use rounds_algorithms::problem::Problem;
use serde::Deserialize;
use serde_json::Value;

use crate::experiment::cache::{Loaded, check};
use crate::experiment::{
    Cell, Configuration, Context, Execution, Measure, Outcome, Presentation, Run, Sample, Selection, Study,
};
use crate::grouping::by_key;
use crate::machine::{PinPolicy, Roofline};
use crate::measure::{TimedRounds, phase_times, time_rounds};
use crate::report::{summary, time_per_round_svg};
use crate::results::{self, Phases, Quality, Rates, RoundCost, RoundTimes, RunWork, Shape};
use crate::statistics;
use crate::usage::with_causes;

/// Number of rounds of a run: the same in every repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RoundBudget {
    examples: u64,
    at_least: u64,
    at_most: u64,
    /// Rounds before the first timed one.
    #[serde(default)]
    warm_up: u64,
}

impl RoundBudget {
    /// examples / batch size, between the bounds.
    fn timed_rounds(&self, batch_size: usize) -> u64 {
        (self.examples / (batch_size as u64).max(1)).clamp(self.at_least, self.at_most)
    }

    /// Refuses bounds in the wrong order.
    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.at_least > 0 && self.at_least <= self.at_most,
            "rounds: at-least must be at least 1 and no more than at-most"
        );
        Ok(())
    }
}

/// The measure of suites. Option: `rounds` of a run.
pub(super) const ROUND: Measure = Measure {
    is_suite: true,
    threads: |cores| vec![1, cores],
    cells,
    present: |_, results, context| {
        let samples = results.samples.iter().map(Sample::typed).collect::<Result<Vec<_>, _>>()?;
        let picture = time_per_round_svg(&samples, &context.environment);
        let files = vec![("time-per-round.svg".to_owned(), picture)];
        Ok(Presentation { text: summary(&samples, &context.environment), files, ..Presentation::default() })
    },
    is_default: true,
    ..Measure::new("round", Execution::Interleaved, &["rounds"], run)
};

/// The measure of thread scaling. The cells of a curve are measured side by side.
pub(super) const SCALING: Measure = Measure {
    pin: PinPolicy::Core,
    threads: thread_counts,
    like: "scaling",
    cells: |study, selection| {
        // Speed-ups are those over one thread.
        let threads = [selection.threads_or(&study.definition.threads), &[1]].concat();
        cells(study, &Selection { threads, ..selection.clone() })
    },
    group: |cell| curve(cell).key(),
    derive,
    ..Measure::new("scaling", Execution::Interleaved, &["rounds"], run)
};

/// Parameter of weak scaling, instead of the batch size.
const ROWS_PER_THREAD: &str = "rows-per-thread";

/// Thread counts that show a curve: all up to 4, then three for each doubling, and all cores.
fn thread_counts(cores: usize) -> Vec<usize> {
    let steps =
        (0..).flat_map(|power: u32| [4 << power, 5 << power, 6 << power, 7 << power].map(|count| count as usize));
    let counts = (1..4).chain(steps.take_while(|&count| count < cores));
    let counts = counts.filter(|&count| count <= cores && (count < 8 || count.is_multiple_of(2)));
    counts.chain([cores.max(1)]).collect::<BTreeSet<usize>>().into_iter().collect()
}

/// The cell as the algorithm knows it.
fn plain(cell: &Cell) -> Cell {
    let mut plain = cell.clone();
    plain.configuration.parameters.remove(ROWS_PER_THREAD);
    plain
}

/// The cell without what changes along a curve: threads, and the batch that grows with them.
fn curve(cell: &Configuration) -> Configuration {
    let batch_size = if cell.parameters.contains_key(ROWS_PER_THREAD) { 0 } else { cell.batch_size };
    Configuration { threads: 1, batch_size, ..cell.clone() }
}

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    study.option::<RoundBudget>("rounds")?.check()?;
    let mut cells = study.definition.cells(selection)?;
    for cell in cells.iter_mut().map(|cell| &mut cell.configuration) {
        if let Some(rows) = cell.whole(ROWS_PER_THREAD)? {
            cell.batch_size = rows * cell.threads;
        }
        anyhow::ensure!(cell.batch_size > 0, "{}: batch-size or {ROWS_PER_THREAD} must be given", cell.key());
    }
    check(&cells.iter().map(plain).collect::<Vec<_>>())?;
    Ok(cells)
}

fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let cell = &plain(run.cell).configuration;
    let rounds: RoundBudget = run.study.option("rounds")?;
    let engine = context.engine(cell.threads)?;
    let loaded = match context.problem(cell, run.trial.draw, &engine) {
        Ok(loaded) => loaded,
        // One data set that cannot be had is no reason to lose the others. Ranks have agreed to end.
        Err(error) if context.cluster.count().is_none() => return Ok(Outcome::Skipped(with_causes(&error))),
        Err(error) => return Err(error),
    };
    let problem = &loaded.train;
    if cell.batch_size > problem.rows() {
        return Ok(Outcome::Skipped(format!("the data set has {} rows", problem.rows())));
    }
    let (algorithm, mut settings) =
        (catalog::find(&cell.algorithm)?, context.settings(cell, run.study.definition.seed)?);
    settings.offer(algorithm, "rounds", rounds.warm_up + rounds.timed_rounds(cell.batch_size));
    let prepared = match algorithm.prepare(problem, &settings) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(Outcome::Skipped(refusal.to_string())),
    };
    let link = context.cluster.link(problem.parameters());
    let privacy = serde_json::to_value(&prepared.privacy)?;
    let planned = (prepared.rounds, prepared.queries);
    let traffic = || context.cluster.traffic();
    let operations = problem.integer_operations(prepared.precision.into());
    let measurement = time_rounds(problem, &engine, prepared, rounds.warm_up, &traffic)?;
    let again = algorithm.prepare(problem, &settings)?;
    let median = |samples: Vec<u64>| RoundTimes::new(samples).median;
    let [sample, gradient, noise, update] = phase_times(problem, &engine, again, rounds.warm_up)?.map(median);
    context.cluster.check_same("model", &measurement.model_sha256)?;
    let (computing, timed) = (context.cluster.largest(&measurement.computing), measurement.round.len().max(1));
    let quality = quality(&loaded, &engine, &measurement.parameters)?;
    let own = curve(&run.cell.configuration);
    let alike = |other: &Configuration| {
        (&other.algorithm, other.batch_size) == (&cell.algorithm, cell.batch_size) && curve(other) == own
    };
    let mut earlier = run.earlier.samples.iter().filter(|other| alike(&other.configuration));
    let earlier = earlier.find(|sample| sample.trial.draw == run.trial.draw);
    let earlier = earlier.and_then(|sample| sample.outcome.get("model_sha256")?.as_str());
    if let Some(reason) = rejects(&measurement, planned, quality.train_loss, earlier) {
        return Ok(Outcome::Rejected(reason));
    }
    let cost = RoundCost {
        shape: Shape {
            n: problem.rows(),
            dimension: problem.model().features,
            classes: problem.dataset().classes().unwrap_or(1),
        },
        work: RunWork {
            rounds: measurement.ledger.rounds,
            gradient_queries: measurement.ledger.gradient_queries,
            timed_queries: measurement.work.iter().map(|work| work.queries).sum(),
        },
        pinning: context.pinning.policy(),
        phases_ns: Phases { sample, gradient, noise, update },
        rates: rates(&measurement, context.environment.roofline(cell.threads), (problem, operations)),
        quality,
        warnings: statistics::examine(&statistics::as_numbers(&measurement.round)),
        round_ns: RoundTimes::new(measurement.round),
        model_sha256: measurement.model_sha256,
        privacy,
    };
    let mut values = serde_json::to_value(cost)?;
    if context.cluster.count().is_some() {
        // Means over the rounds: time in calls to other ranks, waiting for them included, messages that wait for each other, and bytes of rows
        // that rank 0 sends. The longest time that a rank spent outside of calls is a median.
        let said = measurement.traffic;
        values["communication_ns"] = (said.nanoseconds / timed as u64).into();
        values["computing_ns"] = median(computing).into();
        values["messages"] = (said.messages as f64 / timed as f64).into();
        values["row_bytes"] = (said.row_bytes as f64 / timed as f64).into();
    }
    if let Some(link) = link {
        // A message with a sum between two ranks outside of rounds, and longer ones.
        values["link_ns"] = link.message_ns.into();
        values["link_bytes_per_s"] = link.bytes_per_s.into();
    }
    Ok(Outcome::Measured(serde_json::from_value(values)?))
}

/// Of each run also its speed-up over the run on one thread in the same repeat, its serial fraction, and the speed-up of the machine's
/// own limits.
fn derive(_: &Study, mut lines: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let runs: Vec<results::Cell> =
        lines.iter().map(|line| serde_json::from_value(line.clone())).collect::<Result<_, _>>()?;
    let ones = runs.iter().filter(|run| run.configuration.threads == 1);
    let ones = by_key(ones.map(|run| ((curve(&run.configuration), run.trial), run)));
    for (run, line) in runs.iter().zip(&mut lines) {
        let own = (curve(&run.configuration), run.trial);
        let Some(one) = ones.iter().find(|(key, _)| *key == own).map(|(_, runs)| runs[0]) else { continue };
        let (weak, threads) = (own.0.batch_size == 0, run.configuration.threads as f64);
        let speedup = if weak { threads } else { 1.0 } * one.round_ns.median as f64 / run.round_ns.median as f64;
        line["speedup"] = speedup.into();
        line["kind"] = if weak { "weak" } else { "strong" }.into();
        let amdahl = (1.0 / speedup - 1.0 / threads) / (1.0 - 1.0 / threads);
        line["serial"] = if weak { (threads - speedup) / (threads - 1.0) } else { amdahl }.into();
        if let (Some(one), Some(own)) = (one.rates.limit, run.rates.limit) {
            line["peak"] = (own.gflops / one.gflops).into();
            line["bandwidth"] = (own.gbytes_per_s / one.gbytes_per_s).into();
        }
    }
    Ok(lines)
}

/// Of rounds that ask for so many `operations` on integers a query of a row.
fn rates(
    measurement: &TimedRounds,
    roofline: Option<&Roofline>,
    (problem, operations): (&Problem, Option<f64>),
) -> Rates {
    let typical = |rate: &dyn Fn(f64, f64, f64) -> f64| measurement.typical(rate);
    let operations_per_flop = operations.map(|operations| operations / problem.flops_per_row());
    let data = problem.bytes_per_row() * problem.rows() as f64;
    let limit = roofline.map(|roofline| roofline.limit(operations_per_flop, data));
    Rates {
        gflops: Some(typical(&|flops, _, seconds| flops / seconds * 1e-9)),
        gbytes_per_s: Some(typical(&|_, bytes, seconds| bytes / seconds * 1e-9)),
        roofline_fraction: limit.map(|limit| typical(&|flops, bytes, seconds| limit.fraction(flops, bytes, seconds))),
        limit,
    }
}

fn quality(
    loaded: &Loaded,
    engine: &rounds_algorithms::parallel::Engine,
    parameters: &[f32],
) -> anyhow::Result<Quality> {
    let training = oracle::evaluate(&loaded.train, engine, parameters)?;
    let test = loaded.test.as_ref();
    let test = test.map(|test| oracle::evaluate(test, engine.local(), parameters)).transpose()?;
    let train_loss = training.loss / training.rows.max(1) as f64;
    Ok(Quality {
        train_loss: Some(train_loss),
        test_accuracy: test.map(|test| test.correct as f64 / test.rows.max(1) as f64),
    })
}

/// The reason for which a result may not be kept: rounds or queries that were not planned, a model or loss that is not finite, or
/// another model than `earlier`, that of an equal run. `planned` holds rounds and queries.
fn rejects(
    measurement: &TimedRounds,
    planned: (u64, Option<u64>),
    train_loss: Option<f64>,
    earlier: Option<&str>,
) -> Option<String> {
    let (ledger, model) = (&measurement.ledger, &measurement.model_sha256);
    let counts = [("rounds", ledger.rounds, Some(planned.0)), ("gradient queries", ledger.gradient_queries, planned.1)];
    for (what, counted, planned) in counts {
        if let Some(planned) = planned.filter(|planned| counted != *planned) {
            return Some(format!("{counted} {what} were counted, {planned} were planned"));
        }
    }
    if !train_loss.is_none_or(f64::is_finite) || !measurement.parameters.iter().all(|x| x.is_finite()) {
        return Some("the model or its loss is not finite".to_owned());
    }
    let other = earlier.filter(|earlier| earlier != model);
    other.map(|earlier| format!("the model is {model}, an equal cell gave {earlier}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{definition::find, testing};

    #[test]
    fn thread_counts_grow_to_all_cores() {
        for (cores, expected) in [
            (1, &[1][..]),
            (2, &[1, 2]),
            (4, &[1, 2, 3, 4]),
            (6, &[1, 2, 3, 4, 5, 6]),
            (16, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]),
            (22, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 22]),
        ] {
            assert_eq!(thread_counts(cores), expected);
        }
    }

    #[test]
    fn a_small_study_of_scaling_has_the_speed_ups_and_serial_fractions_of_both_laws() {
        let text = r#"
            repeats = 2
            threads = [2]
            [options.rounds]
            examples = 1
            at-least = 2
            at-most = 2
            [[problem]]
            dataset = "synthetic-mnist"
            features = "u8"
            [[method]]
            label = "SGD"
            algorithm = "sgd"
            parameters = { batch-size = [64, 128] }
            [[method]]
            label = "SGD"
            algorithm = "sgd"
            parameters = { rows-per-thread = 64 }
        "#;
        let (scaling, mut results) = testing::small(&SCALING, text, 1).unwrap();
        assert_eq!(results.samples.len(), 2 * 2 * 3);
        for run in &mut results.samples {
            let (threads, weak) =
                (run.configuration.threads, run.configuration.parameters.contains_key(ROWS_PER_THREAD));
            assert!(!weak || run.configuration.batch_size == 64 * threads);
            // A tenth is serial by Amdahl's law, a fifth by Gustafson's, on a machine that slows down.
            let time = if weak { 2.0 / 1.8 } else { 0.55 };
            let drift = 1.0 + run.trial.repeat as f64;
            run["round_ns"]["median"] = ((1e9 * drift * if threads == 2 { time } else { 1.0 }) as u64).into();
        }
        let lines = scaling.lines(&results).unwrap();
        let of = |line: &Value, name: &str| line[name].as_f64().unwrap();
        for line in lines.iter().filter(|line| line["threads"] == 2) {
            let (speedup, serial) = if line["kind"] == "weak" { (1.8, 0.2) } else { (1.0 / 0.55, 0.1) };
            assert!(
                (of(line, "speedup") - speedup).abs() < 1e-6 && (of(line, "serial") - serial).abs() < 1e-6,
                "{line}"
            );
        }
        let page = (SCALING.present)(&scaling, &results, &testing::context(2)).unwrap().page.unwrap();
        assert!(page.markdown().contains("| SGD | 128 |"), "{}", page.markdown());
    }

    #[test]
    fn methods_of_one_pass_fit_the_rows() {
        for name in ["quick", "full"] {
            let source = find(name).unwrap();
            let study = testing::parse(&ROUND, &source.text).unwrap();
            let rounds: RoundBudget = study.option("rounds").unwrap();
            for cell in study.cells(&Selection::default()).unwrap() {
                let cell = &cell.configuration;
                let rows = (rounds.warm_up + rounds.timed_rounds(cell.batch_size)) as usize * cell.batch_size;
                assert!(
                    rows <= 60_000 || !cell.algorithm.trim_start_matches("un").starts_with("accelerated"),
                    "{}",
                    cell.key()
                );
            }
        }
    }
}
