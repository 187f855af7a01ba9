//! The repeats of a configuration, pooled: one row a configuration, for tables, figures and comparison.

use super::{Cell, RoundTimes};
use crate::experiment::Configuration;
use crate::statistics::{Interval, SampleWarning, as_numbers, bootstrap_median, examine_all, median};

/// Resamples of an interval: its ends move by less than a tenth of its width between seeds.
const RESAMPLES: usize = 1000;

/// All repeats of a configuration.
#[derive(Debug, Clone)]
pub struct Pooled {
    /// A cell with the samples of all repeats in order, and everything else as in the first repeat, rates and
    /// phases as medians over the repeats.
    pub cell: Cell,
    /// Median time of a round in each repeat, in nanoseconds, by repeat.
    pub repeat_medians: Vec<f64>,
    /// 95 % bootstrap interval of the median over all samples, in nanoseconds.
    pub interval: Interval,
    /// Warnings about the samples of any repeat, each kind once.
    pub warnings: Vec<SampleWarning>,
}

impl Pooled {
    /// The configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.cell.configuration
    }

    /// Median time of a round, in nanoseconds.
    pub fn median(&self) -> f64 {
        self.cell.round_ns.median as f64
    }

    /// Mean queries of the timed rounds, where that is a tenth or more below the nominal batch size: batches of such methods
    /// shrink as a run goes on.
    pub fn shrunk_batch(&self) -> Option<f64> {
        let cell = &self.cell;
        let mean = cell.work.timed_queries as f64 / cell.round_ns.samples.len() as f64;
        (mean > 0.0 && mean < 0.9 * self.configuration().batch_size as f64).then_some(mean)
    }

    /// Time of one pass over the data, in seconds: n / batch size rounds of the median time; where batches shrink, n / mean
    /// size rounds of the mean time.
    pub fn epoch_seconds(&self) -> f64 {
        let samples = &self.cell.round_ns.samples;
        let (size, round) = match self.shrunk_batch() {
            Some(size) => (size, samples.iter().sum::<u64>() as f64 / samples.len() as f64),
            None => (self.configuration().batch_size as f64, self.median()),
        };
        round * 1e-9 * self.cell.shape.n as f64 / size
    }

    /// The limit that is the nearer one: that of arithmetic or that of reads.
    pub fn nearer_limit(&self) -> Option<String> {
        let rates = &self.cell.rates;
        Some(rates.limit?.nearer(rates.gflops?, rates.gbytes_per_s?))
    }

    /// Time of a round at the roofline, in nanoseconds.
    pub fn roofline_ns(&self) -> Option<f64> {
        Some(self.median() * self.cell.rates.roofline_fraction.filter(|fraction| *fraction > 0.0)?)
    }
}

/// Pools the repeats of each configuration. The order does not depend on that of the run: by data set, algorithm,
/// batch size and threads.
pub fn pool(cells: &[Cell]) -> Vec<Pooled> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for cell in cells {
        let place = *places.entry(cell.configuration.key()).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(cell);
    }
    let mut pooled: Vec<Pooled> = groups.into_iter().map(|group| pool_group(&group)).collect();
    pooled.sort_by_cached_key(|pooled| {
        let configuration = pooled.configuration();
        let data = (configuration.dataset.clone(), configuration.features.clone());
        (data, configuration.label(), configuration.batch_size, configuration.threads, configuration.suite.clone())
    });
    pooled
}

fn pool_group(group: &[&Cell]) -> Pooled {
    let mut group = group.to_vec();
    group.sort_by_key(|cell| cell.trial.repeat);
    let repeats: Vec<Vec<f64>> = group.iter().map(|cell| as_numbers(&cell.round_ns.samples)).collect();
    let numbers = repeats.concat();
    let warnings = examine_all(&repeats);
    let middle = |value: &dyn Fn(&Cell) -> Option<f64>| {
        let values: Vec<f64> = group.iter().filter_map(|cell| value(cell)).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let phase = |value: &dyn Fn(&Cell) -> u64| middle(&|cell| Some(value(cell) as f64)).map_or(0, |value| value as u64);
    let mut cell = group[0].clone();
    cell.round_ns = RoundTimes::new(group.iter().flat_map(|cell| cell.round_ns.samples.clone()).collect());
    cell.work.timed_queries = group.iter().map(|cell| cell.work.timed_queries).sum();
    cell.rates.gflops = middle(&|cell| cell.rates.gflops);
    cell.rates.gbytes_per_s = middle(&|cell| cell.rates.gbytes_per_s);
    cell.rates.roofline_fraction = middle(&|cell| cell.rates.roofline_fraction);
    cell.phases_ns.sample = phase(&|cell| cell.phases_ns.sample);
    cell.phases_ns.gradient = phase(&|cell| cell.phases_ns.gradient);
    cell.phases_ns.noise = phase(&|cell| cell.phases_ns.noise);
    cell.phases_ns.update = phase(&|cell| cell.phases_ns.update);
    cell.warnings.clone_from(&warnings);
    Pooled {
        repeat_medians: repeats.iter().map(|samples| median(samples)).collect(),
        interval: bootstrap_median(&numbers, 0.95, RESAMPLES, numbers.len() as u64),
        warnings,
        cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::cell;

    #[test]
    fn repeats_are_pooled_and_configurations_kept_apart() {
        let cells = [cell("dp-sgd", 64, 1, 1), cell("sgd", 64, 1, 0), cell("dp-sgd", 64, 1, 0)];
        let pooled = pool(&cells);
        assert_eq!(pooled.len(), 2);
        assert_eq!(pooled[0].repeat_medians.len(), 2);
        assert_eq!(pooled[0].cell.trial.repeat, 0);
        let samples = &pooled[0].cell.round_ns.samples;
        assert_eq!(samples.len(), cells[0].round_ns.samples.len() * 2);
        assert_eq!(samples[..cells[2].round_ns.samples.len()], cells[2].round_ns.samples[..]);
        assert!(pooled[0].interval.contains(pooled[0].median()));
    }

    #[test]
    fn an_epoch_is_n_over_batch_size_rounds() {
        let pooled = pool(&[cell("dp-sgd", 600, 1, 0)]);
        let expected = pooled[0].median() * 1e-9 * 100.0;
        assert!((pooled[0].epoch_seconds() - expected).abs() < 1e-12 * expected);
    }

    #[test]
    fn an_epoch_of_halving_batches_is_that_of_their_mean() {
        // The first round is the warm-up's.
        let repeat = |repeat| {
            let mut halving = cell("phased-sgd", 600, 1, repeat);
            halving.round_ns = RoundTimes::new(vec![3_000, 1_500, 750]);
            halving.work.rounds = 4;
            halving.work.gradient_queries = 600 + 300 + 150 + 75;
            halving.work.timed_queries = 300 + 150 + 75;
            halving
        };
        let pooled = &pool(&[repeat(0), repeat(1)])[0];
        let (epoch, rows) = (pooled.epoch_seconds(), pooled.cell.shape.n as f64);
        assert!((epoch - rows * 1e-8).abs() < 1e-9 * epoch, "10 ns a row: {epoch}");
        assert!(pool(&[cell("dp-sgd", 600, 1, 0)])[0].shrunk_batch().is_none());
    }
}
