//! Time of a parallel method on P workers whose rounds have the latency ℓ, from its counts and its seconds on one thread.
//!
//! Bandwidth is not modelled: a worker receives a centre of d numbers a round, and its answer is as small as a query's.

/// Counts of a run to its target, and its seconds on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Adaptive rounds.
    pub rounds: u64,
    /// Gradient queries.
    pub queries: u64,
    /// Seconds of the queries.
    pub query_seconds: f64,
    /// Reweighted mini-batches.
    pub mini_batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Seconds of the mini-batches.
    pub reweight_seconds: f64,
    /// Seconds of everything else.
    pub rest_seconds: f64,
}

/// `seconds/min(P, tasks/rounds) + rounds·ℓ`: the time of rounds that wait for each other, whose tasks P workers share.
pub fn rounds_seconds(seconds: f64, tasks: u64, rounds: u64, workers: u64, latency: f64) -> f64 {
    let helpful = (tasks as f64 / rounds.max(1) as f64).clamp(1.0, workers as f64);
    seconds / helpful + rounds as f64 * latency
}

impl Work {
    fn queries(&self, workers: u64, latency: f64) -> f64 {
        rounds_seconds(self.query_seconds, self.queries, self.rounds, workers, latency)
    }

    /// One worker reweights alone where an exchange for every mini-batch takes longer.
    fn reweighting(&self, workers: u64, latency: f64) -> f64 {
        let shared = rounds_seconds(self.reweight_seconds, self.samples, self.mini_batches, workers, latency);
        shared.min(self.reweight_seconds)
    }

    /// ```text
    /// seconds(P, ℓ) = queries/min(P, queries a round) + rounds·ℓ
    ///               + min(reweighting, reweighting/min(P, samples a mini-batch) + mini-batches·ℓ) + rest
    /// ```
    pub fn time_to_target(&self, workers: u64, latency: f64) -> f64 {
        self.queries(workers, latency) + self.reweighting(workers, latency) + self.rest_seconds
    }

    /// The time on two threads of one process, whose rounds cost `exchange` seconds beside their work: a round of queries, too,
    /// stays on one thread where sharing it takes longer.
    pub fn time_on_two_threads(&self, exchange: f64) -> f64 {
        self.queries(2, exchange).min(self.query_seconds) + self.reweighting(2, exchange) + self.rest_seconds
    }

    /// ℓ above which this method is faster than `other` on P workers, 0 if it always is; `None` if it needs at least as many
    /// rounds.
    pub fn overtakes_from(&self, other: &Self, workers: u64) -> Option<f64> {
        if self.rounds >= other.rounds {
            return None;
        }
        // Between the latencies from which on one worker reweights alone, both times are straight lines.
        let alone_from =
            |work: &Self| (work.reweight_seconds - work.reweighting(workers, 0.0)) / work.mini_batches.max(1) as f64;
        let mut corners = [0.0, alone_from(self), alone_from(other)];
        corners.sort_by(f64::total_cmp);
        let behind = |latency| self.time_to_target(workers, latency) - other.time_to_target(workers, latency);
        let last = corners[2];
        if behind(last) > 0.0 {
            return Some(last + behind(last) / (other.rounds - self.rounds) as f64);
        }
        let crossed = corners.windows(2).rev().find(|pair| behind(pair[0]) > 0.0);
        Some(
            crossed.map_or(0.0, |pair| {
                pair[0] + (pair[1] - pair[0]) * behind(pair[0]) / (behind(pair[0]) - behind(pair[1]))
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(rounds: u64, queries: u64, seconds: f64, parallel: f64) -> Work {
        Work { rounds, queries, query_seconds: parallel, rest_seconds: seconds - parallel, ..Work::default() }
    }

    #[test]
    fn no_more_workers_help_than_a_round_has_queries() {
        let work = work(10, 40, 5.0, 4.0);
        assert_eq!(work.time_to_target(1, 0.0), 5.0);
        assert_eq!(work.time_to_target(2, 0.0), 3.0);
        assert_eq!(work.time_to_target(4, 0.5), 7.0);
        assert_eq!(work.time_to_target(1_000_000, 0.5), 7.0);
    }

    #[test]
    fn mini_batches_are_shared_out_while_their_exchanges_are_worth_it() {
        // 100 mini-batches of 8 samples: 3 s on one worker, 0.75 s and 100 exchanges on four.
        let own = Work { reweight_seconds: 3.0, mini_batches: 100, samples: 800, ..work(10, 40, 2.0, 1.0) };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        near(own.time_to_target(4, 0.0), 1.0 + 0.25 + 0.75);
        near(own.time_to_target(4, 0.01), 0.1 + 1.0 + 0.25 + 0.75 + 1.0);
        near(own.time_to_target(4, 1.0), 10.0 + 1.0 + 0.25 + 3.0);
        near(own.time_to_target(1_000, 0.0), 1.0 + 0.25 + 3.0 / 8.0);
        // Against a method whose time is between those with and without sharing, the lines cross before the corner.
        for other in [2.5, 3.0, 4.5] {
            let other = work(60, 60, other, 0.0);
            let latency = own.overtakes_from(&other, 4).unwrap();
            if latency > 0.0 {
                near(own.time_to_target(4, latency), other.time_to_target(4, latency));
            }
            for above in [1.01, 2.0, 1e3, 1e6] {
                let latency = above * latency.max(1e-9);
                assert!(own.time_to_target(4, latency) < other.time_to_target(4, latency), "{latency}");
            }
        }
    }

    #[test]
    fn lines_cross_where_both_take_the_same_time() {
        let (shallow, deep) = (work(10, 1_000, 8.0, 0.0), work(400, 400, 0.2, 0.0));
        let latency = shallow.overtakes_from(&deep, 4).unwrap();
        assert!((shallow.time_to_target(4, latency) - deep.time_to_target(4, latency)).abs() < 1e-12);
        assert!(shallow.time_to_target(4, 1.1 * latency) < deep.time_to_target(4, 1.1 * latency));
        assert!(deep.overtakes_from(&shallow, 4).is_none());
        assert_eq!(work(10, 10, 0.1, 0.0).overtakes_from(&deep, 4), Some(0.0));
    }

    #[test]
    fn two_threads_share_what_is_worth_an_exchange() {
        let work = work(10, 40, 5.0, 4.0);
        // Rounds that cost more than sharing saves stay on one thread.
        for (exchange, expected) in [(0.0, 3.0), (0.1, 4.0), (0.3, 5.0)] {
            assert!((work.time_on_two_threads(exchange) - expected).abs() < 1e-12);
        }
    }
}
