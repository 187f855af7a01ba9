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

impl Work {
    /// ```text
    /// seconds(P, ℓ) = queries/min(P, queries a round) + rounds·ℓ
    ///               + min(reweighting, reweighting/min(P, samples a mini-batch) + mini-batches·ℓ) + rest
    /// ```
    ///
    /// One worker reweights alone where an exchange for every mini-batch takes longer.
    pub fn time_to_target(&self, workers: u64, latency: f64) -> f64 {
        // Rounds that wait for each other, whose tasks the workers share.
        let shared = |seconds: f64, tasks: u64, rounds: u64| {
            let helpful = (tasks as f64 / rounds.max(1) as f64).clamp(1.0, workers as f64);
            seconds / helpful + rounds as f64 * latency
        };
        let reweighting = shared(self.reweight_seconds, self.samples, self.mini_batches).min(self.reweight_seconds);
        shared(self.query_seconds, self.queries, self.rounds) + reweighting + self.rest_seconds
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
    }
}
