//! `rounds simulate --from-run`: what measured rounds of one process would take on ranks with a latency between them, and
//! how far that is from what they took.
//!
//! ```text
//! round(P, ℓ) = compute(P) + messages·(link + ℓ) + rows/bandwidth
//! ```
//!
//! *compute* is what a round of the ranks without delay took outside of calls to other ranks, on the rank that took longest
//! and that the others waited for; the median over rounds. *messages* are those of a round that wait for each other: the
//! all-reduce of its sum is recursive doubling, log₂P of them (a reduction and a broadcast along a tree would be 2·log₂P), and
//! rows that travel are one more. They and the bytes of these rows are counted, not timed. *link* is the median time of a
//! message with a sum and *bandwidth* that of longer messages, both measured by the ranks without delay and outside of any
//! round; ℓ is the delay of a direction. No time of a round with a delay enters its prediction. A second prediction takes
//! *compute* from one process with one thread, `(round − gradient) + gradient·s(P)`, s(P) being the largest share of a batch's
//! rows that a rank sums.
//!
//! What a round took is the median over *pairs* of rounds: ranks that begin a round δ apart wait ℓ + δ and ℓ − δ for each
//! other and begin the next one as far apart the other way round, so that a rank's rounds are long and short in turns.

use std::path::PathBuf;

use anyhow::Context as _;
use rounds_algorithms::oracle::partition;
use rounds_kernels::linear::{LinearModel, has_integer_tiles_for};
use rounds_kernels::loss::Loss;
use serde::Serialize;

use super::UsageError;
use crate::machine::Topology;
use crate::report::{latency_svg, latency_table, scaling_table};
use crate::results::{Cell, RoundTimes, pool, read_run};

/// A folder of results that was measured with a delay.
#[derive(Clone, Debug)]
pub struct Measured {
    delay: f64,
    folder: PathBuf,
}

/// Reads `SECONDS=DIR`.
pub(super) fn measured(text: &str) -> Result<Measured, String> {
    text.split_once('=')
        .and_then(|(delay, folder)| {
            let delay = delay
                .parse()
                .ok()
                .filter(|&delay: &f64| delay >= 0.0 && delay.is_finite())?;
            Some(Measured {
                delay,
                folder: folder.into(),
            })
        })
        .ok_or_else(|| format!("'{text}' is not of the form SECONDS=DIR, such as 0.01=results/10ms"))
}

/// One method at one delay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyRow {
    /// The algorithm with its parameters.
    pub algorithm: String,
    /// Suite: one of its runs overtakes another's.
    pub suite: String,
    /// Examples a round.
    pub batch_size: usize,
    /// Ranks.
    pub workers: usize,
    /// What delays: `netem`, or a relay in user space.
    pub link: String,
    /// Delay of a direction in seconds.
    pub latency_s: f64,
    /// Seconds of a message with a sum without delay, outside of rounds.
    pub link_s: f64,
    /// Messages of a round that wait for each other, in the mean.
    pub messages: f64,
    /// Bytes of rows that a rank sends in a round, in the mean.
    pub row_bytes: f64,
    /// Part of the measured time that rank 0 spent in calls to other ranks, waiting for them included.
    pub communication: f64,
    /// Timed rounds.
    pub rounds: usize,
    /// Predicted time of a round.
    pub predicted_round_s: f64,
    /// Measured time of a round: the median over pairs of rounds.
    pub measured_round_s: f64,
    /// Predicted over measured, less 1.
    pub round_error: f64,
    /// The same error with the compute that one process lets expect.
    pub round_error_from_one: f64,
    /// Predicted time of all timed rounds.
    pub predicted_seconds: f64,
    /// Measured time of all timed rounds.
    pub seconds: f64,
    /// Predicted over measured time, less 1.
    pub error: f64,
    /// Accuracy at the end.
    pub test_accuracy: Option<f64>,
    /// Delay above which this method's run is the faster one, by prediction, against methods of more rounds.
    pub overtakes: Vec<Overtaking>,
}

/// The delay above which a run is faster than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overtaking {
    /// The other method.
    pub against: String,
    /// Seconds a direction.
    pub latency_s: f64,
}

/// A cell with the rounds of its repeats.
struct Repeated {
    cell: Cell,
    repeats: usize,
}

impl Repeated {
    /// Timed rounds of one repeat.
    fn rounds(&self) -> usize {
        self.cell.round_ns.samples.len() / self.repeats
    }
}

/// Seconds of a round: the median over pairs of neighbouring rounds.
fn seconds_of_round(cell: &Cell) -> f64 {
    let samples = &cell.round_ns.samples;
    let pairs: Vec<u64> = samples.windows(2).map(|pair| u64::midpoint(pair[0], pair[1])).collect();
    let times = RoundTimes::new(if pairs.is_empty() { samples.clone() } else { pairs });
    times.median as f64 * 1e-9
}

/// The part of a cell's time that rank 0 spent in calls to other ranks, waiting for them included.
fn waiting(cell: &Cell) -> f64 {
    let samples = &cell.round_ns.samples;
    let mean = samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64;
    (cell.communication_ns.unwrap_or(0) as f64 / mean.max(1.0)).min(1.0)
}

/// What a prediction rests on, in seconds, messages a round and bytes a round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Costs {
    compute: f64,
    /// Compute as one process lets expect it.
    compute_from_one: f64,
    link: f64,
    messages: f64,
    rows: f64,
}

impl Costs {
    /// Costs of `alone`, a cell of one process, on the ranks of `undelayed`, the same cell on ranks without delay.
    fn new(alone: &Cell, undelayed: &Cell) -> Self {
        let ranks = undelayed.configuration.ranks.unwrap_or(1);
        let (round, gradient) = (alone.round_ns.median as f64, alone.phases_ns.gradient as f64);
        let gradient = gradient.min(round);
        let bandwidth = undelayed.link_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            compute: match undelayed.computing_ns {
                Some(computing) => computing as f64 * 1e-9,
                // Results without it.
                None => seconds_of_round(undelayed) * (1.0 - waiting(undelayed)),
            },
            compute_from_one: (gradient * largest_share(alone, ranks) + (round - gradient)) * 1e-9,
            link: undelayed.link_ns.unwrap_or(0) as f64 * 1e-9,
            messages: undelayed
                .messages
                .unwrap_or_else(|| f64::from(ranks.next_power_of_two().ilog2())),
            rows: undelayed.row_bytes.unwrap_or(0.0) / bandwidth,
        }
    }

    /// `round(P, ℓ)` in seconds.
    fn round(&self, delay: f64) -> f64 {
        self.compute + self.messages * (self.link + delay) + self.rows
    }

    /// The same from one process.
    fn round_from_one(&self, delay: f64) -> f64 {
        self.round(delay) - self.compute + self.compute_from_one
    }
}

/// The largest part of a batch that one of `ranks` ranks sums.
fn largest_share(cell: &Cell, ranks: usize) -> f64 {
    let value_bytes = match cell.configuration.features.as_str() {
        "u8" => 1.0,
        "f32" => 4.0,
        // How many leaves batches of sparse rows have, their cell does not tell.
        _ => return 1.0 / ranks as f64,
    };
    let columns = cell.dimension as f64;
    let outputs = if cell.classes > 2 { cell.classes as f64 } else { 1.0 };
    let row_cycles = partition::row_cycles(4.0 * outputs * (columns + 1.0), value_bytes * columns);
    let rows = cell.configuration.batch_size;
    let on_tiles = cell.configuration.features == "u8"
        && has_integer_tiles_for(&LinearModel {
            features: cell.dimension,
            outputs: outputs as usize,
            bias: true,
            loss: Loss::Softmax,
        });
    let leaf_rows = if on_tiles {
        partition::LEAF_ROWS_ON_TILES
    } else {
        partition::LEAF_ROWS
    };
    let leaves = partition::leaves(rows, row_cycles, leaf_rows);
    let most = (0..ranks)
        .map(|rank| partition::rank_positions(rows, leaves, ranks, rank).len())
        .max();
    most.unwrap_or(rows) as f64 / rows as f64
}

/// How the time of a round follows the number of ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScalingRow {
    /// The algorithm.
    pub algorithm: String,
    /// The data set.
    pub dataset: String,
    /// Examples a round.
    pub batch_size: usize,
    /// Ranks; none for the threads of one process.
    pub ranks: Option<usize>,
    /// Threads of each.
    pub threads: usize,
    /// More threads than cores.
    pub oversubscribed: bool,
    /// Median of a round in seconds.
    pub round_s: f64,
    /// Part of it in calls to other ranks, waiting for them included.
    pub communication: Option<f64>,
    /// Strong scaling: the round of one thread over this one.
    pub speedup: f64,
    /// Weak scaling: the round of one thread on its share of this batch, B/P, over this one; where that was measured.
    pub weak_efficiency: Option<f64>,
}

/// Rows of every cell of one process and of ranks without delay.
fn scaling(one_process: &[Cell], undelayed: &[Cell], cores: usize) -> Vec<ScalingRow> {
    let kind = |cell: &Cell| {
        let configuration = &cell.configuration;
        (
            configuration.algorithm.clone(),
            configuration.dataset.clone(),
            format!("{:?}", configuration.parameters),
        )
    };
    let alone = |cell: &Cell, batch_size: usize| {
        one_process.iter().find(|other| {
            let configuration = &other.configuration;
            configuration.threads == 1 && configuration.batch_size == batch_size && kind(other) == kind(cell)
        })
    };
    let mut rows: Vec<ScalingRow> = one_process
        .iter()
        .chain(undelayed)
        .filter_map(|cell| {
            let configuration = &cell.configuration;
            let workers = configuration.ranks.unwrap_or(1) * configuration.threads;
            let round = cell.round_ns.median.max(1) as f64;
            let share = configuration.batch_size / workers;
            let whole = configuration.batch_size.is_multiple_of(workers);
            Some(ScalingRow {
                algorithm: configuration.algorithm.clone(),
                dataset: configuration.dataset.clone(),
                batch_size: configuration.batch_size,
                ranks: configuration.ranks,
                threads: configuration.threads,
                oversubscribed: workers > cores,
                round_s: round * 1e-9,
                communication: cell.communication_ns.map(|_| waiting(cell)),
                speedup: alone(cell, configuration.batch_size)?.round_ns.median as f64 / round,
                weak_efficiency: alone(cell, share)
                    .filter(|_| whole)
                    .map(|own| own.round_ns.median as f64 / round),
            })
        })
        .collect();
    rows.sort_by_key(|row| {
        let workers = row.ranks.unwrap_or(1) * row.threads;
        (
            row.dataset.clone(),
            row.algorithm.clone(),
            row.batch_size,
            workers,
            row.ranks,
        )
    });
    rows
}

/// One row a line, numbers with six digits.
fn rows_of_json<Row: Serialize>(rows: &[Row]) -> anyhow::Result<String> {
    fn rounded(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Number(number) if number.is_f64() => {
                let short = number
                    .as_f64()
                    .and_then(|number| format!("{number:.5e}").parse::<f64>().ok());
                *value = short.map_or(serde_json::Value::Null, Into::into);
            }
            serde_json::Value::Array(values) => values.iter_mut().for_each(rounded),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(rounded),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    for row in rows {
        let mut value = serde_json::to_value(row)?;
        rounded(&mut value);
        lines.push(value.to_string());
    }
    Ok(format!("[\n{}\n]\n", lines.join(",\n")))
}

/// Predicts, compares, and writes rows (`latency.json`, `scaling.json`), their tables (`latency.md`, `scaling.md`) and, where
/// there is more than one delay, the picture (`latency.svg`) into `out`.
///
/// # Errors
/// Results that cannot be read, cells that are missing on one side, files that cannot be written.
pub(super) fn run(
    alone: &std::path::Path,
    measured: &[Measured],
    link: &str,
    out: Option<&std::path::Path>,
    json: bool,
) -> anyhow::Result<()> {
    let cells = |folder: &std::path::Path| -> anyhow::Result<Vec<Cell>> {
        Ok(pool(&read_run(folder)?.cells)
            .into_iter()
            .map(|pooled| pooled.cell)
            .collect())
    };
    let one_process: Vec<Cell> = cells(alone)?
        .into_iter()
        .filter(|cell| cell.configuration.ranks.is_none())
        .collect();
    let alone: Vec<Cell> = one_process
        .iter()
        .filter(|cell| cell.configuration.threads == 1)
        .cloned()
        .collect();
    let mut runs = Vec::new();
    for run in measured {
        let cells: Vec<Repeated> = pool(&read_run(&run.folder)?.cells)
            .into_iter()
            .map(|pooled| Repeated {
                repeats: pooled.repeat_medians.len().max(1),
                cell: pooled.cell,
            })
            .collect();
        runs.push((run.delay, cells));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let undelayed: Vec<Cell> = runs
        .iter()
        .filter(|(delay, _)| *delay == 0.0)
        .flat_map(|(_, cells)| cells.iter().map(|repeated| repeated.cell.clone()))
        .collect();
    if undelayed.is_empty() {
        return Err(UsageError::new(
            "--measured: one of the folders must be without delay (0=DIR): the link's own time comes from it",
        )
        .into());
    }
    let rows = rows(&alone, &undelayed, &runs, link)?;
    let scaling = scaling(&one_process, &undelayed, Topology::detect().cores);
    if let Some(out) = out {
        let write = |name: &str, text: String| {
            let path = out.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write("latency.json", rows_of_json(&rows)?)?;
        write("latency.md", latency_table(&rows))?;
        if rows.iter().any(|row| row.latency_s > 0.0) {
            write("latency.svg", latency_svg(&rows))?;
        }
        write("scaling.json", rows_of_json(&scaling)?)?;
        write("scaling.md", scaling_table(&scaling))?;
    }
    if json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        print_rows(&rows);
        print_scaling(&scaling);
    }
    Ok(())
}

fn name(cell: &Cell) -> String {
    format!("{} B={}", cell.configuration.algorithm, cell.configuration.batch_size)
}

fn rows(
    alone: &[Cell],
    undelayed: &[Cell],
    runs: &[(f64, Vec<Repeated>)],
    link: &str,
) -> Result<Vec<LatencyRow>, UsageError> {
    let same = |a: &Cell, b: &Cell| {
        let (a, b) = (&a.configuration, &b.configuration);
        (&a.suite, &a.algorithm, &a.dataset, a.batch_size, &a.parameters)
            == (&b.suite, &b.algorithm, &b.dataset, b.batch_size, &b.parameters)
    };
    let find = |cells: &[Cell], cell: &Cell| {
        cells.iter().find(|other| same(other, cell)).cloned().ok_or_else(|| {
            UsageError::new(format!(
                "{} was not measured everywhere: measure the same suite",
                cell.configuration.key()
            ))
        })
    };
    let mut rows = Vec::new();
    for (delay, cells) in runs {
        for repeated in cells {
            let cell = &repeated.cell;
            let ranks = cell.configuration.ranks.unwrap_or(1);
            let on_as_many: Vec<Cell> = undelayed
                .iter()
                .filter(|other| other.configuration.ranks == cell.configuration.ranks)
                .cloned()
                .collect();
            let costs = |cell: &Cell| Ok(Costs::new(&find(alone, cell)?, &find(&on_as_many, cell)?));
            let own = costs(cell)?;
            let count = repeated.rounds();
            let round = own.round(*delay);
            let measured = seconds_of_round(cell);
            let seconds = cell.round_ns.samples.iter().sum::<u64>() as f64 * 1e-9 / repeated.repeats as f64;
            let mut overtakes = Vec::new();
            // Runs of one suite are runs to the same end.
            let comparable = |other: &&Repeated| {
                let (theirs, ours) = (&other.cell.configuration, &cell.configuration);
                theirs.suite == ours.suite && theirs.dataset == ours.dataset && other.rounds() > count
            };
            for other in cells.iter().filter(comparable) {
                let (others, other_costs) = (other.rounds() as f64, costs(&other.cell)?);
                let start = count as f64 * own.round(0.0) - others * other_costs.round(0.0);
                let slope = others * other_costs.messages - count as f64 * own.messages;
                if slope > 0.0 {
                    overtakes.push(Overtaking {
                        against: name(&other.cell),
                        latency_s: (start / slope).max(0.0),
                    });
                }
            }
            rows.push(LatencyRow {
                algorithm: cell.configuration.algorithm.clone(),
                suite: cell.configuration.suite.clone(),
                batch_size: cell.configuration.batch_size,
                workers: ranks,
                link: link.to_owned(),
                latency_s: *delay,
                link_s: own.link,
                messages: own.messages,
                row_bytes: cell.row_bytes.unwrap_or(0.0),
                communication: waiting(cell),
                rounds: count,
                predicted_round_s: round,
                measured_round_s: measured,
                round_error: round / measured - 1.0,
                round_error_from_one: own.round_from_one(*delay) / measured - 1.0,
                predicted_seconds: round * count as f64,
                seconds,
                error: round * count as f64 / seconds - 1.0,
                test_accuracy: cell.test_accuracy,
                overtakes,
            });
        }
    }
    Ok(rows)
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.3} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

fn signed_percent(value: f64) -> String {
    format!("{:+.1} %", 100.0 * value)
}

fn print_scaling(rows: &[ScalingRow]) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "data",
        "algorithm",
        "batch",
        "ranks",
        "threads",
        "round",
        "communication",
        "speed-up",
        "weak efficiency",
        "",
    ]);
    for row in rows {
        let optional = |value: Option<f64>| value.map_or_else(String::new, percent);
        table.add_row([
            row.dataset.clone(),
            row.algorithm.clone(),
            row.batch_size.to_string(),
            row.ranks.map_or_else(|| "-".to_owned(), |ranks| ranks.to_string()),
            row.threads.to_string(),
            time(row.round_s),
            optional(row.communication),
            format!("{:.2}", row.speedup),
            optional(row.weak_efficiency),
            if row.oversubscribed { "oversubscribed" } else { "" }.to_owned(),
        ]);
    }
    println!("{table}");
}

fn print_rows(rows: &[LatencyRow]) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "suite",
        "delay",
        "ranks",
        "algorithm",
        "batch",
        "rounds",
        "messages",
        "waiting",
        "round",
        "predicted",
        "error",
        "from one process",
        "run",
        "predicted",
        "error",
        "accuracy",
        "faster above",
    ]);
    for row in rows {
        let overtakes: Vec<_> = row
            .overtakes
            .iter()
            .map(|other| format!("{} than {}", time(other.latency_s), other.against))
            .collect();
        table.add_row([
            row.suite.clone(),
            time(row.latency_s),
            row.workers.to_string(),
            row.algorithm.clone(),
            row.batch_size.to_string(),
            row.rounds.to_string(),
            format!("{:.2}", row.messages),
            percent(row.communication),
            time(row.measured_round_s),
            time(row.predicted_round_s),
            signed_percent(row.round_error),
            signed_percent(row.round_error_from_one),
            time(row.seconds),
            time(row.predicted_seconds),
            signed_percent(row.error),
            row.test_accuracy
                .map_or_else(String::new, |accuracy| format!("{:.1} %", 100.0 * accuracy)),
            overtakes.join("\n"),
        ]);
    }
    println!("{table}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_its_compute_and_a_latency_for_every_message() {
        let costs = Costs {
            compute: 2e-3,
            compute_from_one: 3e-3,
            link: 1e-4,
            messages: 2.0,
            rows: 1e-3,
        };
        assert!((costs.round(0.0) - 3.2e-3).abs() < 1e-12);
        assert!((costs.round(0.1) - 0.2032).abs() < 1e-12);
        assert!((costs.round_from_one(0.1) - 0.2042).abs() < 1e-12);
    }

    #[test]
    fn rows_are_lines_whose_numbers_have_six_digits() {
        let text = rows_of_json(&[
            serde_json::json!({"a": 0.123_456_789, "b": [7, 1e-9]}),
            serde_json::json!(2.5),
        ])
        .unwrap();
        assert_eq!(text, "[\n{\"a\":0.123457,\"b\":[7,1e-9]},\n2.5\n]\n");
    }

    #[test]
    fn delays_are_read_with_their_folders() {
        let read = measured("0.01=results/x=y").unwrap();
        assert_eq!((read.delay, read.folder), (0.01, PathBuf::from("results/x=y")));
        assert!(measured("-1=x").is_err() && measured("x").unwrap_err().contains("0.01="));
    }
}
