//! Samplers of the rows of a round. A sampler executes exactly what its [`Sampling`] describes; accountants read the same
//! description, so sampling and accounting cannot disagree.
//!
//! Every draw is addressed by (key, round): a replayed round reads the same rows.

use std::ops::Range;

use rounds_kernels::features::Selection;
use rounds_kernels::random::exact::ExactGaps;
use rounds_kernels::random::{Purpose, StreamKey, UniformStream};

use crate::privacy::Sampling;

/// Streams of the sampling decisions.
const BATCH: Purpose = Purpose(0x5341_4d50);
/// Streams of the permutations of shuffled orders.
const ORDER: Purpose = Purpose(0x4f52_4445);

/// A batch size or rate that the data cannot give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// No rows, or more than there are.
    #[error("a batch of {batch} rows: choose a batch size between 1 and {rows}, the rows of the data set")]
    BatchSize {
        /// The batch size.
        batch: usize,
        /// Rows of the data set.
        rows: usize,
    },
    /// A description made for other data.
    #[error("the sampling was described for {described} rows, and the data set has {rows}")]
    OtherData {
        /// Rows described.
        described: usize,
        /// Rows of the data set.
        rows: usize,
    },
}

/// Draws the batches of a run.
pub struct Sampler {
    sampling: Sampling,
    rows: usize,
    batch: usize,
    key: StreamKey,
    /// A permutation of all rows for shuffled sampling; empty otherwise.
    order: Vec<u32>,
    /// The epoch that `order` belongs to, for reshuffled sampling.
    epoch: u64,
    /// Gaps of a rare Poisson sampling; absent where every row's decision is drawn.
    gaps: Option<ExactGaps>,
    chosen: Vec<u32>,
    /// Room for a bit a row, for sampling without replacement.
    members: Vec<u64>,
}

/// Poisson rates below which drawing the gaps between rows is cheaper than deciding about every row. Both are exact, the gaps
/// for the rate rounded down to a multiple of 2⁻⁶⁴.
const RARE: f64 = 1.0 / 8.0;

/// Standard deviations within which the rows of a random batch are expected: outside with a probability of 6·10⁻⁷.
const DEVIATIONS: f64 = 5.0;

impl Sampler {
    /// A sampler of batches of `batch` rows (expected size for Poisson sampling) from `rows` rows.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// let mut sampler = Sampler::new(Sampling::FixedOrder, 10, 4, StreamKey::Simulation(1))?;
    /// assert_eq!(sampler.draw(0, 10).len(), 4);
    /// assert_eq!(sampler.rounds_per_epoch(), 3);
    /// # Ok::<(), rounds_algorithms::sampling::SamplingError>(())
    /// ```
    ///
    /// # Errors
    /// An empty batch, one larger than the data, a description of other data.
    pub fn new(sampling: Sampling, rows: usize, batch: usize, key: StreamKey) -> Result<Self, SamplingError> {
        if batch == 0 || batch > rows {
            return Err(SamplingError::BatchSize { batch, rows });
        }
        if let Sampling::WithoutReplacement { population, .. } = sampling
            && population != rows
        {
            return Err(SamplingError::OtherData { described: population, rows });
        }
        let mut sampler = Self {
            sampling,
            rows,
            batch,
            key,
            order: Vec::new(),
            epoch: 0,
            gaps: None,
            chosen: Vec::new(),
            members: Vec::new(),
        };
        match sampling {
            Sampling::FullBatch | Sampling::FixedOrder => {}
            Sampling::ShuffledOnce | Sampling::ReshuffledEachEpoch => sampler.shuffle(0),
            Sampling::WithoutReplacement { .. } => {
                // What is written at once beyond the last row: 64.
                sampler.chosen = Vec::with_capacity(batch + 64);
                sampler.members = Vec::with_capacity(rows.div_ceil(64));
            }
            Sampling::Poisson { rate } => {
                sampler.gaps = (rate < RARE).then(|| ExactGaps::new(rate));
                // Eight standard deviations above the mean, and 64 that are written at once: no allocation in a round.
                let mean = rate * rows as f64;
                sampler.chosen = Vec::with_capacity(rows.min((mean + 8.0 * mean.sqrt() + 64.0) as usize) + 64);
            }
        }
        Ok(sampler)
    }

    /// The description that accountants read.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Nominal batch size B: the public constant that sums are divided by, never the realised size.
    pub fn batch_size(&self) -> usize {
        self.batch
    }

    /// Rounds that read every row once, ⌈n/B⌉; the last batch of an epoch may be smaller.
    pub fn rounds_per_epoch(&self) -> usize {
        self.rows.div_ceil(self.batch)
    }

    /// Rows of the first `rounds` batches together, unless they are random.
    pub fn planned_rows(&self, rounds: u64) -> Option<u64> {
        let (rows, batch) = (self.rows as u64, self.batch as u64);
        match self.sampling {
            Sampling::Poisson { .. } => None,
            Sampling::FullBatch => Some(rounds * rows),
            Sampling::WithoutReplacement { .. } => Some(rounds * batch),
            Sampling::FixedOrder | Sampling::ShuffledOnce | Sampling::ReshuffledEachEpoch => {
                let per_epoch = self.rounds_per_epoch() as u64;
                Some(rounds / per_epoch * rows + rounds % per_epoch * batch)
            }
        }
    }

    /// The rows that stand at the positions `share(b)` of the run's first `rounds` batches, b being the length of a batch,
    /// as far as that is known before the first round: exactly for an order that stays, in the order in which they are
    /// read; all that a round asks for with a probability of 1 − 10⁻⁶ for batches that are drawn in the order of the rows;
    /// `None` where the order is going to change.
    ///
    /// A drawn batch has its fraction f at row `n·f`, give or take the standard deviation `n·√(f(1 − f)(1 − q)/B)`: what
    /// lies before it has `f·N₁ − (1 − f)·N₂` rows too many, of two independent counts at rate q = B/n. Sizes that are not
    /// random deviate less.
    pub fn expected_rows(&self, rounds: u64, share: &dyn Fn(usize) -> Range<usize>) -> Option<Vec<u32>> {
        let in_order = || {
            (0..self.rounds_per_epoch().min(rounds as usize)).map(|round| {
                let start = round * self.batch;
                let positions = share(self.batch.min(self.rows - start));
                start + positions.start..start + positions.end
            })
        };
        Some(match self.sampling {
            Sampling::FullBatch => share(self.rows).map(|row| row as u32).collect(),
            Sampling::FixedOrder => in_order().flatten().map(|row| row as u32).collect(),
            Sampling::ReshuffledEachEpoch if self.epoch > 0 || rounds > self.rounds_per_epoch() as u64 => return None,
            Sampling::ShuffledOnce | Sampling::ReshuffledEachEpoch => {
                in_order().flat_map(|range| &self.order[range]).copied().collect()
            }
            Sampling::Poisson { .. } | Sampling::WithoutReplacement { .. } => {
                let (rows, batch) = (self.rows as f64, self.batch as f64);
                let deviation =
                    |fraction: f64| rows * (fraction * (1.0 - fraction) * (1.0 - batch / rows).max(0.0) / batch).sqrt();
                let spread =
                    if matches!(self.sampling, Sampling::Poisson { .. }) { DEVIATIONS * batch.sqrt() } else { 0.0 };
                // Lengths at which a batch may have another number of leaves.
                let lengths = [batch - spread, batch, batch + spread];
                let (mut first, mut last) = (rows, 0.0_f64);
                for length in lengths.map(|length| length.round().clamp(1.0, rows)) {
                    let positions = share(length as usize);
                    if positions.is_empty() {
                        continue;
                    }
                    let [from, to] = [positions.start, positions.end].map(|position| position as f64 / length);
                    first = first.min(rows * from - DEVIATIONS * deviation(from));
                    last = last.max(rows * to + DEVIATIONS * deviation(to));
                }
                let last = last.ceil().clamp(0.0, rows) as u32;
                (first.floor().max(0.0) as u32..last).collect()
            }
        })
    }

    /// The batch of `round` (0-based) from the `population` rows that there are. It is the number of rows that the sampler was
    /// made for, unless that is the public stand-in of a private number (add/remove): Poisson and full batches then
    /// read all rows that there are, at the public rate.
    pub fn draw(&mut self, round: u64, population: usize) -> Selection<'_> {
        let per_epoch = self.rounds_per_epoch() as u64;
        let start = (round % per_epoch) as usize * self.batch;
        let range = start..(start + self.batch).min(self.rows);
        if self.sampling == Sampling::ReshuffledEachEpoch && self.epoch != round / per_epoch {
            self.shuffle(round / per_epoch);
        }
        let stream = || UniformStream::new(&self.key, BATCH, round, 0);
        match self.sampling {
            Sampling::FullBatch => Selection::Range(0..population),
            Sampling::FixedOrder => Selection::Range(range),
            Sampling::ShuffledOnce | Sampling::ReshuffledEachEpoch => Selection::Indices(&self.order[range]),
            Sampling::Poisson { rate } => {
                match self.gaps {
                    None => stream().bernoulli_subset(rate, population as u32, &mut self.chosen),
                    Some(gaps) => gaps.subset(&self.key, BATCH, round, population as u32, &mut self.chosen),
                }
                Selection::Indices(&self.chosen)
            }
            Sampling::WithoutReplacement { .. } => {
                stream().subset(self.batch as u32, self.rows as u32, &mut self.members, &mut self.chosen);
                Selection::Indices(&self.chosen)
            }
        }
    }

    /// Makes `order` the permutation of `epoch`.
    fn shuffle(&mut self, epoch: u64) {
        self.order.clear();
        self.order.extend(0..self.rows as u32);
        UniformStream::new(&self.key, ORDER, epoch, 0).shuffle(&mut self.order);
        self.epoch = epoch;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(selection: &Selection<'_>) -> Vec<u32> {
        match selection {
            Selection::Range(range) => range.clone().map(|row| row as u32).collect(),
            Selection::Indices(indices) => indices.to_vec(),
        }
    }

    fn draw(sampler: &mut Sampler, round: u64) -> Selection<'_> {
        let population = sampler.rows;
        sampler.draw(round, population)
    }

    fn sampler(sampling: Sampling, rows: usize, batch: usize) -> Sampler {
        Sampler::new(sampling, rows, batch, StreamKey::Simulation(7)).unwrap()
    }

    fn without_replacement(batch: usize, population: usize) -> Sampling {
        Sampling::WithoutReplacement { batch, population }
    }

    #[test]
    fn an_epoch_reads_every_row_once() {
        for sampling in [Sampling::FixedOrder, Sampling::ShuffledOnce, Sampling::ReshuffledEachEpoch] {
            let mut sampler = sampler(sampling, 103, 10);
            for epoch in 0..3 {
                let mut seen: Vec<u32> =
                    (0..11).flat_map(|round| rows_of(&draw(&mut sampler, epoch * 11 + round))).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..103).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_rows_at_a_share_of_the_batches_are_expected_where_they_can_be_known() {
        for parts in [2, 3, 4] {
            for part in 0..parts {
                let share = |length: usize| length * part / parts..length * (part + 1) / parts;
                for sampling in [Sampling::FullBatch, Sampling::FixedOrder, Sampling::ShuffledOnce] {
                    let batch = if sampling == Sampling::FullBatch { 1_003 } else { 100 };
                    let mut sampler = sampler(sampling, 1_003, batch);
                    let read: Vec<u32> = (0..sampler.rounds_per_epoch() as u64)
                        .flat_map(|round| {
                            let rows = rows_of(&draw(&mut sampler, round));
                            rows[share(rows.len())].to_vec()
                        })
                        .collect();
                    assert_eq!(sampler.expected_rows(1 << 40, &share), Some(read));
                }
                for sampling in [Sampling::Poisson { rate: 0.05 }, without_replacement(1_000, 20_000)] {
                    let mut sampler = sampler(sampling, 20_000, 1_000);
                    let expected = sampler.expected_rows(500, &share).unwrap();
                    // Little more than its share, and all that 500 rounds ask for.
                    assert!(expected.len() < 20_000 / parts + 2 * 5 * 320, "{} rows", expected.len());
                    for round in 0..500 {
                        let rows = rows_of(&draw(&mut sampler, round));
                        let rows = &rows[share(rows.len())];
                        assert!(expected.contains(&rows[0]) && expected.contains(&rows[rows.len() - 1]));
                    }
                }
                // Of an order that changes, the first epoch alone is known: as if it stayed.
                let reshuffled = sampler(Sampling::ReshuffledEachEpoch, 1_003, 100);
                let shuffled = sampler(Sampling::ShuffledOnce, 1_003, 100);
                assert_eq!(reshuffled.expected_rows(11, &share), shuffled.expected_rows(11, &share));
                assert_eq!(reshuffled.expected_rows(12, &share), None);
            }
        }
        // A run that ends before its first epoch places no row that it never reads.
        let short = sampler(Sampling::FixedOrder, 1_000, 100);
        assert_eq!(short.expected_rows(3, &|length| 0..length).unwrap().len(), 300);
    }

    #[test]
    fn shuffled_once_repeats_its_epoch_and_reshuffled_does_not() {
        let mut once = sampler(Sampling::ShuffledOnce, 1_000, 100);
        assert_eq!(rows_of(&draw(&mut once, 3)), rows_of(&draw(&mut once, 13)));
        let mut each = sampler(Sampling::ReshuffledEachEpoch, 1_000, 100);
        let first = rows_of(&draw(&mut each, 3));
        assert_ne!(first, rows_of(&draw(&mut each, 13)));
        assert_eq!(first, rows_of(&draw(&mut each, 3)));
    }

    #[test]
    fn a_replayed_round_reads_the_same_rows() {
        for sampling in [Sampling::Poisson { rate: 0.1 }, without_replacement(100, 1_000)] {
            let mut sampler = sampler(sampling, 1_000, 100);
            let first = rows_of(&draw(&mut sampler, 5));
            let other = rows_of(&draw(&mut sampler, 6));
            assert_ne!(first, other);
            assert_eq!(first, rows_of(&draw(&mut sampler, 5)));
            assert!(first.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn every_row_is_included_at_its_rate() {
        // Inclusion counts over R rounds are Binomial(R, q); the χ² statistic over rows is approximately normal.
        let poisson = |rate| (Sampling::Poisson { rate }, rate);
        let fixed_size = (without_replacement(20, 400), 0.05);
        for (sampling, rate) in [poisson(0.25), poisson(0.05), poisson(0.01), fixed_size] {
            let (rows, rounds) = (400, 8_000_u32);
            let mut sampler = sampler(sampling, rows, 20);
            let mut counts = vec![0_u32; rows];
            let mut sizes = Vec::new();
            for round in 0..u64::from(rounds) {
                let chosen = rows_of(&draw(&mut sampler, round));
                sizes.push(chosen.len() as f64);
                chosen.iter().for_each(|&row| counts[row as usize] += 1);
            }
            let mean = f64::from(rounds) * rate;
            let chi_squared: f64 =
                counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / (mean * (1.0 - rate))).sum();
            let deviations = (chi_squared - rows as f64) / (2.0 * rows as f64).sqrt();
            assert!(deviations.abs() < 5.2, "{sampling:?}: χ² is {deviations} deviations off");
            let average = sizes.iter().sum::<f64>() / f64::from(rounds);
            let variance = sizes.iter().map(|size| (size - average).powi(2)).sum::<f64>() / f64::from(rounds);
            if sampling == fixed_size.0 {
                assert!(variance == 0.0 && average == 20.0);
            } else {
                let ratio = variance / (400.0 * rate * (1.0 - rate));
                assert!((ratio - 1.0).abs() < 0.15, "{variance}");
            }
        }
    }

    #[test]
    fn extreme_rates_are_exact() {
        let mut all = sampler(Sampling::Poisson { rate: 1.0 }, 50, 50);
        assert_eq!(rows_of(&draw(&mut all, 0)).len(), 50);
        let mut rare = sampler(Sampling::Poisson { rate: 1e-12 }, 50, 1);
        assert!(rows_of(&draw(&mut rare, 0)).is_empty());
    }

    #[test]
    fn draws_stay_within_the_room_of_the_first() {
        for sampling in
            [without_replacement(1_000, 1_000), Sampling::Poisson { rate: 1.0 }, Sampling::Poisson { rate: 0.01 }]
        {
            let mut sampler = sampler(sampling, 1_000, 1_000);
            let room = |sampler: &Sampler| (sampler.chosen.capacity(), sampler.members.capacity());
            let before = room(&sampler);
            for round in 0..50 {
                draw(&mut sampler, round);
            }
            assert_eq!(room(&sampler), before, "{sampling:?}");
        }
    }

    #[test]
    fn impossible_batches_are_refused() {
        let key = || StreamKey::Simulation(0);
        for batch in [0, 11] {
            let refused = Sampler::new(Sampling::FixedOrder, 10, batch, key());
            assert!(matches!(refused, Err(SamplingError::BatchSize { .. })));
        }
        let refused = Sampler::new(without_replacement(2, 9), 10, 2, key());
        assert!(matches!(refused, Err(SamplingError::OtherData { .. })));
    }
}
