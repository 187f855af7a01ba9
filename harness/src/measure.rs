//! The clock of a round: an observer of the executor times it whole; marks that the optimiser sets split it into phases.

use std::ops::ControlFlow;
use std::time::Instant;

use rounds_algorithms::executor::{Executor, Observer};
use rounds_algorithms::optimizers::{Prepared, RoundError};
use rounds_algorithms::oracle::{Ledger, Oracle, Phase, PhaseObserver};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::Problem;
use rounds_models::model_file::digest;

use crate::cluster::Traffic;
use crate::statistics::median;

/// The order in which phases are stored.
const PHASES: [Phase; 4] = [Phase::Sample, Phase::Gradient, Phase::Noise, Phase::Update];

/// Rounds that were timed as a whole, all but those of the warm-up.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimedRounds {
    /// Raw integer nanoseconds of each round.
    pub(crate) round: Vec<u64>,
    /// Work of the same rounds: not all methods ask as much in each.
    pub(crate) work: Vec<Work>,
    /// Nanoseconds of them that this rank spent outside of calls to others.
    pub(crate) computing: Vec<u64>,
    /// Traffic between ranks in these rounds.
    pub(crate) traffic: Traffic,
    /// Counts of all rounds, warm-up included.
    pub(crate) ledger: Ledger,
    pub(crate) parameters: Vec<f32>,
    /// SHA-256 of their little-endian bytes.
    pub(crate) model_sha256: String,
}

/// What a round asked of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) queries: u64,
    pub(crate) flops: u64,
    pub(crate) bytes: u64,
}

impl TimedRounds {
    /// Median over the timed rounds of `rate(flops, bytes, seconds)`, each round's work over its own time: batches that
    /// halve from phase to phase have no round that stands for all. NaN without rounds.
    pub(crate) fn typical(&self, rate: &dyn Fn(f64, f64, f64) -> f64) -> f64 {
        let rounds = self.round.iter().zip(&self.work);
        let rates: Vec<f64> = rounds
            .map(|(&nanoseconds, work)| rate(work.flops as f64, work.bytes as f64, nanoseconds.max(1) as f64 * 1e-9))
            .collect();
        median(&rates)
    }
}

/// The marks of a run: which phase began when.
struct PhaseLog {
    marks: Vec<(Phase, Instant)>,
}

impl PhaseObserver for PhaseLog {
    fn enter(&mut self, phase: Phase) {
        self.marks.push((phase, Instant::now()));
    }
}

/// Clock of whole rounds, without those of the warm-up.
struct Clock<'a> {
    warm_up: u64,
    traffic: &'a (dyn Fn() -> Traffic + Sync),
    /// At the begin of the first timed round.
    first: Traffic,
    /// At the begin of this round.
    before: (Ledger, Traffic),
    started: Instant,
    rounds: TimedRounds,
}

impl Observer for Clock<'_> {
    fn before_round(&mut self, executor: &Executor<'_>) {
        self.before = (executor.ledger(), (self.traffic)());
        if executor.round() == self.warm_up {
            self.first = self.before.1;
        }
        self.started = Instant::now();
    }

    fn after_round(&mut self, executor: &mut Executor<'_>) -> Result<ControlFlow<()>, RoundError> {
        let elapsed = self.started.elapsed().as_nanos() as u64;
        if executor.round() > self.warm_up {
            let ledger = executor.ledger();
            let (before, traffic) = (self.before.0, (self.traffic)());
            self.rounds.work.push(Work {
                queries: ledger.gradient_queries - before.gradient_queries,
                flops: ledger.flops - before.flops,
                bytes: ledger.bytes - before.bytes,
            });
            let communication = (traffic - self.before.1).nanoseconds;
            self.rounds.computing.push(elapsed.saturating_sub(communication));
            self.rounds.round.push(elapsed);
            self.rounds.traffic = traffic - self.first;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Runs every planned round of `prepared` and times all but the first `warm_up` (of at least one). `traffic` counts what this
/// rank said to others so far. Rows that ranks share out are placed before the first round.
pub(crate) fn time_rounds(
    problem: &Problem,
    engine: &Engine,
    prepared: Prepared,
    warm_up: u64,
    traffic: &(dyn Fn() -> Traffic + Sync),
) -> Result<TimedRounds, RoundError> {
    let planned = prepared.rounds as usize;
    let mut executor = Executor::new(problem, engine.clone(), prepared);
    let mut clock = Clock {
        warm_up: warm_up.min(executor.rounds().saturating_sub(1)),
        traffic,
        first: Traffic::default(),
        before: (Ledger::default(), Traffic::default()),
        started: Instant::now(),
        rounds: TimedRounds {
            round: Vec::with_capacity(planned),
            work: Vec::with_capacity(planned),
            computing: Vec::with_capacity(planned),
            ..TimedRounds::default()
        },
    };
    executor.run_observed(&mut [&mut clock])?;
    Ok(TimedRounds {
        ledger: executor.ledger(),
        parameters: executor.solution().to_vec(),
        model_sha256: digest(executor.solution()),
        ..clock.rounds
    })
}

const PHASE_ROUNDS: usize = 64;

/// Nanoseconds of rounds of `prepared` by phase, in the order of [`PHASES`]: the last 64 of at most 256 behind the first `warm_up`, since
/// a system may start all threads but one some milliseconds late. A round begins with its sampling.
///
/// Rounds are first timed whole, without marks ([`time_rounds`]); the phases come from this second pass over the rounds of an
/// equal run, so that the clock's own cost stands outside the round.
pub(crate) fn phase_times(
    problem: &Problem,
    engine: &Engine,
    prepared: Prepared,
    warm_up: u64,
) -> Result<[Vec<u64>; 4], RoundError> {
    let warm_up = warm_up.min(prepared.rounds.saturating_sub(1));
    let rounds = prepared.rounds.min(warm_up + 4 * PHASE_ROUNDS as u64);
    let mut log = PhaseLog { marks: Vec::with_capacity(PHASES.len() * rounds as usize + 1) };
    let oracle = Oracle::new(problem, engine.clone()).observed_by(&mut log);
    let mut executor = Executor::on(oracle, prepared).limited_to(rounds);
    executor.run()?;
    executor.into_oracle().enter(Phase::Sample);
    let mut phases: [Vec<u64>; 4] = Default::default();
    let mut round = 0;
    let mut totals = [0; 4];
    for pair in log.marks.windows(2) {
        let ((phase, begin), (next, end)) = (pair[0], pair[1]);
        if let Some(index) = PHASES.iter().position(|&candidate| candidate == phase) {
            totals[index] += end.duration_since(begin).as_nanos() as u64;
        }
        if next == Phase::Sample && phase != Phase::Sample {
            if round >= warm_up {
                for (samples, total) in phases.iter_mut().zip(totals) {
                    samples.push(total);
                }
            }
            totals = [0; 4];
            round += 1;
        }
    }
    for samples in &mut phases {
        samples.drain(..samples.len().saturating_sub(PHASE_ROUNDS));
    }
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_rounds_that_halve_is_that_of_each_of_them() {
        let measurement = TimedRounds {
            round: vec![16_000, 8_000, 4_000, 2_000, 1_000],
            work: (0..5)
                .map(|phase| Work { queries: 20 >> phase, flops: 48_000 >> phase, bytes: 16_000 >> phase })
                .collect(),
            ..TimedRounds::default()
        };
        let gflops = measurement.typical(&|flops, _, seconds| flops / seconds * 1e-9);
        let gbytes = measurement.typical(&|_, bytes, seconds| bytes / seconds * 1e-9);
        assert!((gflops - 3.0).abs() < 1e-9 && (gbytes - 1.0).abs() < 1e-9, "{gflops} {gbytes}");
    }
}
