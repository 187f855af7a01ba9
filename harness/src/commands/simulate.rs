//! `rounds simulate`: what a method would cost on P workers with round latency ℓ, from measured costs.
//!
//! The model, [`study::modelled_seconds`], has the measured one-thread seconds of rounds of queries, of reweighted
//! mini-batches and of the rest. No more workers help than a round has queries, or a mini-batch samples. Bandwidth is not
//! modelled: a worker is sent a centre of d numbers a round, and what it answers is as small as a query's answer. The
//! model is held against the measured two-thread times ([`study::modelled_seconds_of_two_threads`]).

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;

pub use super::simulate_ranks::{LatencyRow, Measured, Overtaking, ScalingRow};
use super::{UsageError, simulate_ranks};
use crate::studies::depth_against_work::{self as study, Cell, Kind, Limits, Method, PLACES, Place, Study, crossover};

/// What `rounds simulate` takes.
#[derive(clap::Args)]
pub struct SimulateArguments {
    /// Methods; default: all that can be run.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "IDS")]
    algorithms: Vec<Method>,
    /// Workers; default: a machine, a rack, a continent and phones, with their latencies.
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..), requires = "latency")]
    workers: Option<u64>,
    /// Latency of a round in seconds, e.g. 0.03.
    #[arg(long, value_name = "SECONDS", value_parser = latency, requires = "workers")]
    latency: Option<f64>,
    /// Dimension of the function that costs are measured on: the maximum of linear functions.
    #[arg(long, default_value_t = 256, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    dimension: u32,
    /// Target gap ε with L = R = 1.
    #[arg(long, default_value_t = 0.05, value_name = "EPSILON", value_parser = accuracy)]
    accuracy: f64,
    /// Costs from a measured study (`depth-against-work.json`) instead of measuring them now.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Instead: rounds that `rounds run` measured in one process, to be predicted on ranks.
    #[arg(long, value_name = "DIR", requires = "measured", conflicts_with_all = ["from", "workers"])]
    from_run: Option<PathBuf>,
    /// The same suite on ranks with a delay of so many seconds a direction; may be repeated.
    #[arg(long, value_name = "SECONDS=DIR", value_parser = simulate_ranks::measured, requires = "from_run")]
    measured: Vec<Measured>,
    /// What made the delays, for the record.
    #[arg(long, value_name = "WORD", default_value = "netem", requires = "from_run")]
    link: String,
    /// Where to write rows, tables and picture: latency.json, .md and .svg, scaling.json and .md.
    #[arg(long, value_name = "DIR", requires = "from_run")]
    out: Option<PathBuf>,
    /// Seed of the measured runs.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

fn latency(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| *seconds >= 0.0 && seconds.is_finite())
        .ok_or_else(|| format!("'{text}' is not a number of seconds of at least 0, such as 0.03"))
}

fn accuracy(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|epsilon| *epsilon > 0.0 && *epsilon < 1.0)
        .ok_or_else(|| format!("'{text}' is not an accuracy between 0 and 1 (L = R = 1), such as 0.05"))
}

/// The latency above which an algorithm is faster than another, on the same workers.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Crossover {
    /// The other one.
    against: String,
    /// Seconds; 0 where it is faster at every latency.
    latency_s: f64,
}

/// One algorithm in one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    algorithm: String,
    place: String,
    workers: u64,
    latency_s: f64,
    /// Modelled time to the target.
    seconds: f64,
    rounds: u64,
    gradient_queries: u64,
    dimension: usize,
    accuracy: f64,
    /// Measured one-thread time, and the model's error against the measured two-thread time where there is one.
    measured_seconds: f64,
    two_thread_model_error: Option<f64>,
    /// Where it overtakes methods that need more rounds.
    crossovers: Vec<Crossover>,
}

/// Measures (or reads) costs, and prints the model's times.
///
/// # Errors
/// A study that cannot be read or has no finished cell at this dimension and accuracy; a method that cannot run.
pub fn run(arguments: &SimulateArguments, json: bool) -> anyhow::Result<()> {
    if let Some(alone) = &arguments.from_run {
        let out = arguments.out.as_deref();
        return simulate_ranks::run(alone, &arguments.measured, &arguments.link, out, json);
    }
    let methods = if arguments.algorithms.is_empty() {
        Method::ALL.to_vec()
    } else {
        arguments.algorithms.clone()
    };
    let costs = match &arguments.from {
        Some(path) => from_study(path, arguments, &methods)?,
        None => measured(arguments, &methods)?,
    };
    let places = match (arguments.workers, arguments.latency) {
        (Some(workers), Some(latency)) => vec![Place {
            name: "asked",
            workers,
            latency,
        }],
        _ => PLACES.to_vec(),
    };
    let rows = simulate(&costs, &places);
    if json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        print_rows(&rows);
    }
    Ok(())
}

/// What the model is given.
struct Costs {
    /// One-thread and two-thread cells of each method that reached the target.
    cells: Vec<(Cell, Option<Cell>)>,
    /// What a round costs two threads beside its work.
    exchange_seconds: f64,
}

/// Measures cells now.
fn measured(arguments: &SimulateArguments, methods: &[Method]) -> anyhow::Result<Costs> {
    let function = study::hard_function(arguments.dimension as usize, arguments.accuracy)?;
    let limits = Limits {
        most_queries: 50_000_000,
        most_seconds: 20.0,
    };
    let mut cells = Vec::new();
    for &method in methods {
        // Newton's method on the barrier: cubic work a round.
        if method == Method::CuttingPlane && arguments.dimension > 64 && arguments.algorithms.is_empty() {
            continue;
        }
        let measure = |threads| {
            study::measure(
                &function,
                Kind::MaxOfLinear,
                method,
                arguments.accuracy,
                threads,
                arguments.seed,
                limits,
            )
        };
        let one = measure(1)?;
        if one.reached {
            let two = measure(2)?;
            cells.push((one, Some(two).filter(|two| two.reached)));
        } else {
            eprintln!(
                "rounds: {}: a gap of {} was not reached within {} queries; it is left out",
                method.id(),
                arguments.accuracy,
                one.gradient_queries
            );
        }
    }
    anyhow::ensure!(
        !cells.is_empty(),
        "no method reached a gap of {}: raise --accuracy",
        arguments.accuracy
    );
    Ok(Costs {
        cells,
        exchange_seconds: study::exchange_seconds(2)?,
    })
}

/// The same from a study's file.
fn from_study(path: &std::path::Path, arguments: &SimulateArguments, methods: &[Method]) -> anyhow::Result<Costs> {
    let text = fs::read_to_string(path).with_context(|| format!("--from {}", path.display()))?;
    let study: Study =
        serde_json::from_str(&text).with_context(|| format!("--from {}: not a study", path.display()))?;
    let find = |method: &Method, threads: usize| {
        study
            .cells
            .iter()
            .find(|cell| {
                cell.family == Kind::MaxOfLinear
                    && cell.algorithm == method.id()
                    && cell.dimension == arguments.dimension as usize
                    && cell.accuracy == arguments.accuracy
                    && cell.threads == threads
                    && cell.reached
            })
            .cloned()
    };
    let cells: Vec<_> = methods
        .iter()
        .filter_map(|method| find(method, 1).map(|one| (one, find(method, 2))))
        .collect();
    if cells.is_empty() {
        let mut known: Vec<_> = study
            .cells
            .iter()
            .filter(|cell| cell.family == Kind::MaxOfLinear && cell.reached)
            .map(|cell| format!("--dimension {} --accuracy {}", cell.dimension, cell.accuracy))
            .collect();
        known.dedup();
        return Err(UsageError::new(format!(
            "{} holds no finished cell with --dimension {} --accuracy {}; it holds: {}",
            path.display(),
            arguments.dimension,
            arguments.accuracy,
            known.join(", ")
        ))
        .into());
    }
    Ok(Costs {
        cells,
        exchange_seconds: study.exchange_seconds,
    })
}

/// The model on all cells and places.
fn simulate(costs: &Costs, places: &[Place]) -> Vec<Row> {
    let Costs {
        cells,
        exchange_seconds,
    } = costs;
    let mut rows = Vec::new();
    for place in places {
        for (cell, two) in cells {
            let crossovers = cells
                .iter()
                .filter(|(other, _)| other.algorithm != cell.algorithm)
                .filter_map(|(other, _)| {
                    crossover(cell, other, place.workers).map(|latency_s| Crossover {
                        against: other.algorithm.clone(),
                        latency_s,
                    })
                })
                .collect();
            rows.push(Row {
                algorithm: cell.algorithm.clone(),
                place: place.name.to_owned(),
                workers: place.workers,
                latency_s: place.latency,
                seconds: study::modelled_seconds(cell, place.workers, place.latency),
                rounds: cell.rounds,
                gradient_queries: cell.gradient_queries,
                dimension: cell.dimension,
                accuracy: cell.accuracy,
                measured_seconds: cell.seconds,
                two_thread_model_error: two
                    .as_ref()
                    .map(|two| study::modelled_seconds_of_two_threads(cell, *exchange_seconds) / two.seconds - 1.0),
                crossovers,
            });
        }
    }
    rows
}

fn print_rows(rows: &[Row]) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header([
        "place",
        "workers",
        "latency",
        "algorithm",
        "time to target",
        "rounds",
        "queries",
        "faster above",
    ]);
    let mut rows = rows.to_vec();
    // Places in their order, the fastest method first.
    rows.sort_by(|a, b| {
        a.latency_s
            .total_cmp(&b.latency_s)
            .then(a.seconds.total_cmp(&b.seconds))
    });
    for row in &rows {
        let crossovers: Vec<_> = row
            .crossovers
            .iter()
            .map(|crossover| format!("{} than {}", duration(crossover.latency_s), crossover.against))
            .collect();
        table.add_row([
            row.place.clone(),
            row.workers.to_string(),
            duration(row.latency_s),
            row.algorithm.clone(),
            duration(row.seconds),
            row.rounds.to_string(),
            row.gradient_queries.to_string(),
            crossovers.join("\n"),
        ]);
    }
    println!("{table}");
    for row in rows.iter().filter(|row| row.place == rows[0].place) {
        if let Some(error) = row.two_thread_model_error {
            println!(
                "{}: the model's two-thread time is {:+.0} % off the measured one",
                row.algorithm,
                100.0 * error
            );
        }
    }
    println!("Modelled from one-thread times on the maximum of linear functions; bandwidth is not modelled.");
}

/// A time for people.
fn duration(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 3_600.0 => format!("{s:.1} s"),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::study::modelled_seconds as seconds;
    use super::*;
    use rounds_algorithms::resque::estimator::OracleMode;

    fn cell(algorithm: &str, rounds: u64, queries: u64, seconds: f64, parallel: f64) -> Cell {
        Cell {
            family: Kind::MaxOfLinear,
            algorithm: algorithm.to_owned(),
            dimension: 256,
            accuracy: 0.05,
            threads: 1,
            oracle_mode: OracleMode::BlackBox,
            reached: true,
            start_gap: 1.0,
            gap: 0.0,
            rounds,
            gradient_queries: queries,
            computational_depth: rounds,
            seconds,
            query_seconds: parallel,
            reweight_seconds: 0.0,
            reweightings: 0,
            reweighted: 0,
        }
    }

    #[test]
    fn no_more_workers_help_than_a_round_has_queries() {
        let cell = cell("a", 10, 40, 5.0, 4.0);
        assert_eq!(seconds(&cell, 1, 0.0), 5.0);
        assert_eq!(seconds(&cell, 2, 0.0), 3.0);
        assert_eq!(seconds(&cell, 4, 0.5), 7.0);
        assert_eq!(seconds(&cell, 1_000_000, 0.5), 7.0);
    }

    #[test]
    fn mini_batches_are_shared_out_while_their_exchanges_are_worth_it() {
        // 100 mini-batches of 8 samples: 3 s on one worker, 0.75 s and 100 exchanges on four.
        let cell = Cell {
            reweight_seconds: 3.0,
            reweightings: 100,
            reweighted: 800,
            ..cell("a", 10, 40, 5.0, 1.0)
        };
        assert_eq!(seconds(&cell, 4, 0.0), 1.0 + 0.25 + 0.75);
        assert_eq!(seconds(&cell, 4, 0.01), 0.1 + 1.0 + 0.25 + 0.75 + 1.0);
        assert_eq!(seconds(&cell, 4, 1.0), 10.0 + 1.0 + 0.25 + 3.0);
        assert_eq!(seconds(&cell, 1_000, 0.0), 1.0 + 0.25 + 3.0 / 8.0);
        // Against a method whose time is between those with and without sharing, the lines cross before the corner.
        for other in [2.5, 3.0, 4.5] {
            let other = super::tests::cell("b", 60, 60, other, 0.0);
            let latency = crossover(&cell, &other, 4).unwrap();
            if latency > 0.0 {
                assert!((seconds(&cell, 4, latency) - seconds(&other, 4, latency)).abs() < 1e-12);
            }
            for above in [1.01, 2.0, 1e3, 1e6] {
                let latency = above * latency.max(1e-9);
                assert!(seconds(&cell, 4, latency) < seconds(&other, 4, latency), "{latency}");
            }
        }
    }

    #[test]
    fn lines_cross_where_both_take_the_same_time() {
        let (shallow, deep) = (cell("shallow", 10, 1_000, 8.0, 0.0), cell("deep", 400, 400, 0.2, 0.0));
        let latency = crossover(&shallow, &deep, 4).unwrap();
        assert!((seconds(&shallow, 4, latency) - seconds(&deep, 4, latency)).abs() < 1e-12);
        assert!(seconds(&shallow, 4, 1.1 * latency) < seconds(&deep, 4, 1.1 * latency));
        assert!(crossover(&deep, &shallow, 4).is_none());
        let better = cell("better", 10, 10, 0.1, 0.0);
        assert_eq!(crossover(&better, &deep, 4), Some(0.0));
    }

    #[test]
    fn two_threads_share_what_is_worth_an_exchange() {
        use super::study::modelled_seconds_of_two_threads as on_two;
        let cell = cell("a", 10, 40, 5.0, 4.0);
        assert!((on_two(&cell, 0.0) - 3.0).abs() < 1e-12);
        assert!((on_two(&cell, 0.1) - 4.0).abs() < 1e-12);
        // Rounds that cost more than sharing saves stay on one thread.
        assert!((on_two(&cell, 0.3) - 5.0).abs() < 1e-12);
    }

    #[test]
    fn rows_hold_the_documented_keys() {
        let cells = vec![
            (cell("a", 10, 40, 5.0, 4.0), Some(cell("a", 10, 40, 3.3, 2.0))),
            (cell("b", 90, 90, 1.0, 0.0), None),
        ];
        let costs = Costs {
            cells,
            exchange_seconds: 0.01,
        };
        let rows = simulate(&costs, &PLACES);
        assert_eq!(rows.len(), 8);
        let value = serde_json::to_value(&rows[0]).unwrap();
        for key in [
            "algorithm",
            "workers",
            "latency_s",
            "seconds",
            "rounds",
            "gradient_queries",
        ] {
            assert!(value.get(key).is_some(), "{key}");
        }
        // 1 + 4/2 + 10·0.01 = 3.1 against 3.3.
        assert!((rows[0].two_thread_model_error.unwrap() + 0.0606).abs() < 1e-3);
        assert_eq!(rows[0].crossovers.len(), 1);
    }

    #[test]
    fn bad_numbers_are_refused_with_an_example() {
        assert!(latency("-1").is_err() && latency("x").unwrap_err().contains("0.03"));
        assert!(accuracy("1.5").is_err() && accuracy("0").is_err() && accuracy("0.1").is_ok());
    }
}
