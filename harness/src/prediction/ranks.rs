//! Time of a round on ranks with a latency between them, predicted from measured rounds and compared with measurements.
//!
//! ```text
//! round(P, ℓ) = compute(P) + messages·(link + ℓ) + rows/bandwidth
//! ```
//!
//! - *compute* is the time of a round of the ranks without delay outside of calls to other ranks, on the slowest rank; the
//!   median over rounds. A second prediction takes it from one process with one thread: `(round − gradient) + gradient·s(P)`,
//!   s(P) being the largest share of a batch's rows that a rank sums.
//! - *messages* are those of a round that wait for each other: log₂P for the all-reduce of its sum, which is recursive
//!   doubling, and one more where rows are sent. Messages and bytes of rows are counted, not timed.
//! - *link* is the median time of a message with a sum, *bandwidth* that of longer messages, both measured by the ranks without
//!   delay and outside of rounds. ℓ is the delay of a direction. No time of a round with a delay enters its prediction.
//!
//! The measured time of a round is the median over *pairs* of rounds: ranks that begin a round δ apart wait ℓ + δ and ℓ − δ for
//! each other and begin the next round as far apart the other way round, so that rounds are long and short in turns.

use rounds_algorithms::parallel::partition;
use rounds_kernels::linear::{LinearModel, has_integer_kernels_for};
use rounds_kernels::loss::Loss;
use serde::Serialize;

use super::{Overtaking, crossing};
use crate::results::{Cell, Configuration, Pooled, RoundTimes};

/// One method at one delay. An error is the predicted over the measured time, less 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LatencyRow {
    /// The algorithm with its parameters.
    pub(crate) algorithm: String,
    /// Suite; runs of one suite are runs to the same end.
    pub(crate) suite: String,
    /// Examples a round.
    pub(crate) batch_size: usize,
    /// Ranks.
    pub(crate) workers: usize,
    /// Delay of a direction in seconds.
    pub(crate) latency_s: f64,
    /// Timed rounds.
    pub(crate) rounds: usize,
    /// Source of the delay: `netem`, or a relay in user space.
    pub(crate) link: String,
    /// Seconds of a message with a sum without delay, outside of rounds.
    pub(crate) link_s: f64,
    /// Mean number of messages of a round that wait for each other.
    pub(crate) messages: f64,
    /// Mean number of bytes of rows that a rank sends in a round.
    pub(crate) row_bytes: f64,
    /// Share of the measured time that rank 0 spent in calls to other ranks, waiting included.
    pub(crate) communication: f64,
    pub(crate) predicted_round_s: f64,
    /// Measured seconds of a round: the median over pairs of rounds.
    pub(crate) measured_round_s: f64,
    pub(crate) round_error: f64,
    /// Error of the prediction with the compute of one process.
    pub(crate) round_error_from_one: f64,
    pub(crate) predicted_seconds: f64,
    /// Measured seconds of all timed rounds.
    pub(crate) seconds: f64,
    /// Error of the run's prediction.
    pub(crate) error: f64,
    pub(crate) test_accuracy: Option<f64>,
    /// Methods of more rounds that this one overtakes, by prediction.
    pub(crate) overtakes: Vec<Overtaking>,
}

fn repeats(pooled: &Pooled) -> usize {
    pooled.repeat_medians.len().max(1)
}

fn rounds(pooled: &Pooled) -> usize {
    pooled.cell.round_ns.samples.len() / repeats(pooled)
}

/// Seconds of a round: the median over pairs of neighbouring rounds.
fn seconds_of_round(cell: &Cell) -> f64 {
    let samples = &cell.round_ns.samples;
    let pairs: Vec<u64> = samples.windows(2).map(|pair| u64::midpoint(pair[0], pair[1])).collect();
    let times = RoundTimes::new(if pairs.is_empty() { samples.clone() } else { pairs });
    times.median as f64 * 1e-9
}

/// Share of a cell's time that rank 0 spent in calls to other ranks, waiting included.
fn communication(cell: &Cell) -> f64 {
    let samples = &cell.round_ns.samples;
    let mean = samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64;
    (cell.exchange.communication_ns.unwrap_or(0) as f64 / mean.max(1.0)).min(1.0)
}

/// Costs of a round in seconds, and its messages.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Costs {
    compute: f64,
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
        let bandwidth = undelayed.exchange.link_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            compute: undelayed.exchange.computing_ns.unwrap_or(0) as f64 * 1e-9,
            compute_from_one: (gradient * largest_share(alone, ranks) + (round - gradient)) * 1e-9,
            link: undelayed.exchange.link_ns.unwrap_or(0) as f64 * 1e-9,
            messages: undelayed.exchange.messages.unwrap_or_else(|| f64::from(ranks.next_power_of_two().ilog2())),
            rows: undelayed.exchange.row_bytes.unwrap_or(0.0) / bandwidth,
        }
    }

    /// `round(P, ℓ)` in seconds.
    fn round(&self, delay: f64) -> f64 {
        self.compute + self.messages * (self.link + delay) + self.rows
    }

    /// The same with the compute of one process.
    fn round_from_one(&self, delay: f64) -> f64 {
        self.round(delay) - self.compute + self.compute_from_one
    }
}

/// The largest share of a batch that one of `ranks` ranks sums.
fn largest_share(cell: &Cell, ranks: usize) -> f64 {
    let columns = cell.shape.dimension as f64;
    let outputs = if cell.shape.classes > 2 { cell.shape.classes as f64 } else { 1.0 };
    let in_integers = has_integer_kernels_for(&LinearModel {
        features: cell.shape.dimension,
        outputs: outputs as usize,
        bias: true,
        loss: Loss::Softmax,
    });
    let value_bytes = match cell.configuration.features.as_str() {
        "u8" => 1.0,
        // Cells are of data sets with a declared domain.
        "f32" if in_integers => 2.0,
        "f32" => 4.0,
        // The cell does not tell how many leaves batches of sparse rows have.
        _ => return 1.0 / ranks as f64,
    };
    let row_cycles = partition::row_cycles(4.0 * outputs * (columns + 1.0), value_bytes * columns);
    let rows = cell.configuration.batch_size;
    let leaf_rows = if in_integers { partition::LEAF_ROWS_OF_INTEGERS } else { partition::LEAF_ROWS };
    let leaves = partition::leaves(rows, row_cycles, leaf_rows);
    let most = (0..ranks).map(|rank| partition::rank_positions(rows, leaves, ranks, rank).len()).max();
    most.unwrap_or(rows) as f64 / rows as f64
}

/// Measured rounds: of one process, and of ranks at each delay.
pub(crate) struct Measurements {
    pub(crate) one_process: Vec<Cell>,
    /// Delay of a direction in seconds, and the cells of the ranks.
    pub(crate) ranks: Vec<(f64, Vec<Pooled>)>,
}

/// A cell that one side lacks.
#[derive(Debug, thiserror::Error)]
#[error("{0} was not measured everywhere: measure the same suite")]
pub(crate) struct MissingCell(String);

impl Measurements {
    pub(crate) fn undelayed(&self) -> impl Iterator<Item = &Cell> {
        let undelayed = self.ranks.iter().filter(|(delay, _)| *delay == 0.0);
        undelayed.flat_map(|(_, cells)| cells.iter().map(|pooled| &pooled.cell))
    }

    /// Costs of `cell`, from one thread of one process and from the same number of ranks without delay.
    fn costs(&self, cell: &Cell) -> Result<Costs, MissingCell> {
        let same = |other: &&Cell| {
            let (a, b) = (&other.configuration, &cell.configuration);
            (&a.suite, &a.algorithm, &a.dataset, a.batch_size, &a.parameters)
                == (&b.suite, &b.algorithm, &b.dataset, b.batch_size, &b.parameters)
        };
        let mut alone = self.one_process.iter().filter(|other| other.configuration.threads == 1);
        let mut undelayed = self.undelayed().filter(|other| other.configuration.ranks == cell.configuration.ranks);
        match (alone.find(same), undelayed.find(same)) {
            (Some(alone), Some(undelayed)) => Ok(Costs::new(alone, undelayed)),
            _ => Err(MissingCell(cell.configuration.key())),
        }
    }

    /// Every cell of the ranks, predicted and measured; `link` names the source of the delays.
    ///
    /// # Errors
    /// A cell that was not measured in one process or without delay.
    pub(crate) fn latency_rows(&self, link: &str) -> Result<Vec<LatencyRow>, MissingCell> {
        let mut rows = Vec::new();
        for (delay, cells) in &self.ranks {
            for pooled in cells {
                rows.push(self.latency_row(link, *delay, pooled, cells)?);
            }
        }
        Ok(rows)
    }

    fn latency_row(&self, link: &str, delay: f64, pooled: &Pooled, all: &[Pooled]) -> Result<LatencyRow, MissingCell> {
        let (cell, count) = (&pooled.cell, rounds(pooled));
        let configuration = &cell.configuration;
        let own = self.costs(cell)?;
        let (round, measured) = (own.round(delay), seconds_of_round(cell));
        let predicted = round * count as f64;
        let seconds = cell.round_ns.samples.iter().sum::<u64>() as f64 * 1e-9 / repeats(pooled) as f64;
        let comparable = |other: &&Pooled| {
            let theirs = &other.cell.configuration;
            theirs.suite == configuration.suite && theirs.dataset == configuration.dataset && rounds(other) > count
        };
        let mut overtakes = Vec::new();
        for other in all.iter().filter(comparable) {
            let (others, costs) = (rounds(other) as f64, self.costs(&other.cell)?);
            let slope = others * costs.messages - count as f64 * own.messages;
            if slope > 0.0 {
                let behind = |delay| count as f64 * own.round(delay) - others * costs.round(delay);
                let theirs = &other.cell.configuration;
                overtakes.push(Overtaking {
                    against: format!("{} B={}", theirs.algorithm, theirs.batch_size),
                    latency_s: crossing(behind, &[0.0], slope),
                });
            }
        }
        Ok(LatencyRow {
            algorithm: configuration.algorithm.clone(),
            suite: configuration.suite.clone(),
            batch_size: configuration.batch_size,
            workers: configuration.ranks.unwrap_or(1),
            latency_s: delay,
            rounds: count,
            link: link.to_owned(),
            link_s: own.link,
            messages: own.messages,
            row_bytes: cell.exchange.row_bytes.unwrap_or(0.0),
            communication: communication(cell),
            predicted_round_s: round,
            measured_round_s: measured,
            round_error: round / measured - 1.0,
            round_error_from_one: own.round_from_one(delay) / measured - 1.0,
            predicted_seconds: predicted,
            seconds,
            error: predicted / seconds - 1.0,
            test_accuracy: cell.quality.test_accuracy,
            overtakes,
        })
    }

    /// Rows of every cell of one process and of ranks without delay, on a machine of `cores` cores.
    pub(crate) fn scaling_rows(&self, cores: usize) -> Vec<ScalingRow> {
        let kind = |cell: &Cell| {
            let Configuration { algorithm, dataset, parameters, .. } = &cell.configuration;
            (algorithm.clone(), dataset.clone(), parameters.clone())
        };
        let alone = |cell: &Cell, batch_size: usize| {
            self.one_process.iter().find(|other| {
                let configuration = &other.configuration;
                configuration.threads == 1 && configuration.batch_size == batch_size && kind(other) == kind(cell)
            })
        };
        let row = |cell: &Cell| {
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
                communication: cell.exchange.communication_ns.map(|_| communication(cell)),
                speedup: alone(cell, configuration.batch_size)?.round_ns.median as f64 / round,
                weak_efficiency: alone(cell, share).filter(|_| whole).map(|own| own.round_ns.median as f64 / round),
            })
        };
        let cells = self.one_process.iter().chain(self.undelayed());
        let mut rows: Vec<ScalingRow> = cells.filter_map(row).collect();
        rows.sort_by_key(|row| {
            let workers = row.ranks.unwrap_or(1) * row.threads;
            let names = (row.dataset.clone(), row.algorithm.clone());
            (names, row.batch_size, workers, row.ranks)
        });
        rows
    }
}

/// Time of a round on a number of threads or ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ScalingRow {
    pub(crate) algorithm: String,
    pub(crate) dataset: String,
    /// Examples a round.
    pub(crate) batch_size: usize,
    /// Ranks; none for the threads of one process.
    pub(crate) ranks: Option<usize>,
    /// Threads of each.
    pub(crate) threads: usize,
    pub(crate) oversubscribed: bool,
    /// Median of a round in seconds.
    pub(crate) round_s: f64,
    /// Share of it in calls to other ranks, waiting included.
    pub(crate) communication: Option<f64>,
    /// Strong scaling: the round of one thread over this one.
    pub(crate) speedup: f64,
    /// Weak scaling: the round of one thread on its share of this batch, B/P, over this one; where that was measured.
    pub(crate) weak_efficiency: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_its_compute_and_a_latency_for_every_message() {
        let costs = Costs { compute: 2e-3, compute_from_one: 3e-3, link: 1e-4, messages: 2.0, rows: 1e-3 };
        assert!((costs.round(0.0) - 3.2e-3).abs() < 1e-12);
        assert!((costs.round(0.1) - 0.2032).abs() < 1e-12);
        assert!((costs.round_from_one(0.1) - 0.2042).abs() < 1e-12);
    }
}
