//! `rounds simulate`: modelled time of parallel methods on P workers with the latency ℓ, from a study of query depth; or of rounds on
//! more threads, from a run.

use std::path::{Path, PathBuf};

use rounds_algorithms::theory::parallel_time::Work;
use serde::Serialize;
use serde_json::Value;

use super::{Output, UsageError, output};
use crate::drawing::{Entry, Table};
use crate::experiment::Sample;
use crate::experiment::store::{self, Stored};
use crate::format::{count, three_digits, time};
use crate::grouping::{by_key, distinct};
use crate::results::read_run;
use crate::statistics::median;
use crate::thread_scaling::{Prediction, errors, predictions};

/// Arguments of `rounds simulate`.
#[derive(clap::Args)]
pub struct SimulateArguments {
    /// Folder of a study of query depth; or that of a run, whose rounds are predicted for 4, 16 and 64 threads.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Number of workers [default: 1024].
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..))]
    workers: Option<u64>,
    /// Latency of a round in seconds [default: 0.05].
    #[arg(long, value_name = "SECONDS", value_parser = latency)]
    latency: Option<f64>,
    /// Dimension of the measured function, the maximum of linear functions [default: 256].
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    dimension: Option<u32>,
    /// Target gap ε with L = R = 1 [default: 0.05].
    #[arg(long, value_name = "EPSILON", value_parser = accuracy)]
    accuracy: Option<f64>,
}

/// A finite number that is `valid`; else what is `expected`.
fn number(text: &str, valid: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|&value: &f64| value.is_finite() && valid(value));
    number.ok_or_else(|| format!("'{text}' is not {expected}"))
}

fn latency(text: &str) -> Result<f64, String> {
    number(text, |seconds| seconds >= 0.0, "a number of seconds of at least 0, such as 0.03")
}

fn accuracy(text: &str) -> Result<f64, String> {
    let expected = "an accuracy between 0 and 1 (L = R = 1), such as 0.04";
    number(text, |epsilon| epsilon > 0.0 && epsilon < 1.0, expected)
}

/// A method on these workers.
#[derive(Serialize)]
struct Row {
    algorithm: String,
    workers: u64,
    latency_s: f64,
    seconds: f64,
    rounds: u64,
    gradient_queries: u64,
    dimension: u32,
    accuracy: f64,
}

/// The runs of a cell on one thread, all of which reached their target, with its dimension and accuracy.
fn reached<'r>(runs: &[&'r Sample]) -> Option<((f64, f64), Vec<&'r Sample>)> {
    let is_one = |run: &&Sample| {
        let Sample { configuration, outcome, .. } = run;
        outcome.get("reached") == Some(&true.into())
            && configuration.threads == 1
            && configuration.dataset == "max-of-linear"
    };
    let place = runs[0].configuration.optional("dimension").ok()??;
    let place = (place, runs[0].configuration.optional("accuracy").ok()??);
    runs.iter().all(is_one).then(|| (place, runs.to_vec()))
}

/// The work of the medians of a cell's runs, one a seed.
fn work(runs: &[&Sample]) -> Work {
    let number = |name: &str| {
        let values = runs.iter().filter_map(|run| run.outcome.get(name).and_then(Value::as_f64));
        median(&values.collect::<Vec<_>>())
    };
    let count = |name: &str| number(name).round() as u64;
    let (query_seconds, reweight_seconds) = (number("query_seconds"), number("reweight_seconds"));
    Work {
        rounds: count("rounds"),
        queries: count("gradient_queries"),
        query_seconds,
        mini_batches: count("reweightings"),
        samples: count("reweighted"),
        reweight_seconds,
        rest_seconds: (number("seconds") - query_seconds - reweight_seconds).max(0.0),
    }
}

/// Reads the study and prints the modelled times, the fastest method first.
///
/// # Errors
/// A folder without results, or without the cell.
pub fn run(arguments: &SimulateArguments, output: Output) -> anyhow::Result<()> {
    let SimulateArguments { ref folder, workers, latency, dimension, accuracy } = *arguments;
    let (path, stored): (_, Stored) = (folder.display(), store::read(folder)?);
    if stored.results.samples.iter().all(|run| !run.contains_key("computational_depth")) {
        let given = [workers.is_some(), latency.is_some(), dimension.is_some(), accuracy.is_some()];
        let named = ["--workers", "--latency", "--dimension", "--accuracy"];
        if let Some((name, _)) = named.iter().zip(given).find(|(_, given)| *given) {
            return Err(UsageError::of(format!(
                "{path}: a folder of a run is predicted for 4, 16 and 64 threads, without {name}; that is an option of the folder \
                 of a study of query depth",
            )));
        }
        let is_of_rounds = |run: &Sample| run.contains_key("round_ns") || run.contains_key("phases_ns");
        if !stored.results.samples.is_empty() && !stored.results.samples.iter().any(is_of_rounds) {
            return Err(UsageError::of(format!(
                "{path}: its runs are neither of a suite nor of a study of query depth"
            )));
        }
        return threads(folder, output);
    }
    let (workers, latency) = (workers.unwrap_or(1_024), latency.unwrap_or(0.05));
    let (dimension, accuracy) = (dimension.unwrap_or(256), accuracy.unwrap_or(0.04));
    let cells = by_key(stored.results.samples.iter().map(|run| (run.configuration.key(), run)));
    let cells: Vec<_> = cells.iter().filter_map(|(_, runs)| reached(runs)).collect();
    let row = |runs: &[&Sample]| {
        let work = work(runs);
        Row {
            algorithm: runs[0].configuration.algorithm.clone(),
            workers,
            latency_s: latency,
            seconds: work.time_to_target(workers, latency),
            rounds: work.rounds,
            gradient_queries: work.queries,
            dimension,
            accuracy,
        }
    };
    let wanted = cells.iter().filter(|(place, _)| *place == (f64::from(dimension), accuracy));
    let mut rows: Vec<Row> = wanted.map(|(_, runs)| row(runs)).collect();
    if rows.is_empty() {
        let known =
            cells.iter().map(|((dimension, accuracy), _)| format!("--dimension {dimension} --accuracy {accuracy}"));
        return Err(UsageError::of(format!(
            "{path} holds no finished cell with --dimension {dimension} --accuracy {accuracy}; it holds: {}",
            distinct(known).join(", ")
        )));
    }
    rows.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    for row in &rows {
        output.json_line(row)?;
    }
    if output == Output::Text {
        let mut table = Table::new("Time to a target", "algorithm|#time to target|#rounds|#queries");
        for row in &rows {
            table.row([
                Entry::text(&row.algorithm),
                Entry::number(1e9 * row.seconds, time),
                Entry::count(row.rounds as usize),
                Entry::count(row.gradient_queries as usize),
            ]);
        }
        let (workers, latency) = (count(workers as f64), time(1e9 * latency));
        let end = "Modelled from one-thread times on the maximum of linear functions; bandwidth is not modelled.";
        println!("workers: {workers}, latency: {latency}\n{}\n{}", table.terminal(), output::wrapped(end, 0));
    }
    Ok(())
}

/// Prints the predicted rounds of a run on more threads.
fn threads(folder: &Path, output: Output) -> anyhow::Result<()> {
    let predictions = predictions(&read_run(folder)?.results.samples, None);
    let missing = "it holds no rounds of one batch of a named data set on one thread; run it with `--threads 1,2`";
    anyhow::ensure!(!predictions.is_empty(), "{}: {missing}", folder.display());
    for prediction in &predictions {
        output.json_line(prediction)?;
    }
    if output == Output::Text {
        let batch =
            |one: &Prediction| format!("{} {}, B = {}", one.dataset, one.features, count(one.batch_size as f64));
        let by_batch = by_key(predictions.iter().map(|one| (batch(one), one)));
        for (batch, alike) in by_batch {
            let columns = "algorithm|#1 thread|#2|#% off|#4|#16|#64|binds at 64";
            let mut table = Table::new("Rounds on more threads", columns);
            for one in &alike {
                let speedup = |time: f64| Entry::number(one.one_ns / time, three_digits);
                let [four, sixteen, most] = one.predicted_ns.map(speedup);
                let alone = alike.iter().filter(|other| other.algorithm == one.algorithm).count() == 1;
                table.row([
                    Entry::text(if alone { &one.algorithm } else { &one.method }),
                    Entry::number(one.one_ns, time),
                    one.two_ns.map_or_else(Entry::default, speedup),
                    Entry::number(one.error_at_two, |error| format!("{:.0}", 100.0 * error)),
                    four,
                    sixteen,
                    most,
                    Entry::text(&one.binds[2]),
                ]);
            }
            println!("{batch}: time on one thread, and speed-ups\n{}\n", table.without_empty_columns().terminal());
        }
        let measured = if predictions.iter().any(|one| one.two_ns.is_some()) { "1 and 2 threads" } else { "1 thread" };
        let end = format!(
            "{measured} measured, more predicted, for rounds of one batch; memory bandwidth and the clock of many busy cores are not \
             modelled."
        );
        println!("{}", output::wrapped(&end, 0));
        if let Some([median, most]) = errors(&predictions).map(|error| error.map(|error| 100.0 * error)) {
            let errors = format!(
                "% off: two threads by the phases of one, against the measurement. Half of them are within {median:.0} %, nine of ten \
                 within {most:.0} %."
            );
            println!("{}", output::wrapped(&errors, 0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_numbers_are_refused_with_an_example() {
        assert!(latency("-1").is_err() && latency("x").unwrap_err().contains("0.03"));
        assert!(accuracy("1.5").is_err() && accuracy("0").is_err() && accuracy("0.1").is_ok());
    }
}
