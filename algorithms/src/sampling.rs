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
/// Streams of the rounds that units are thrown into.
const SLOTS: Purpose = Purpose(0x534c_4f54);
/// Streams of what is left of a batch that is cut.
const CUT: Purpose = Purpose(0x4355_5420);

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
    /// A permutation of all rows for shuffled sampling, and for random allocation by round; empty otherwise.
    order: Vec<u32>,
    /// The first place in `order` of each round of an epoch, and its end, for random allocation.
    starts: Vec<u32>,
    /// The epoch that `order` belongs to, for reshuffled sampling and random allocation.
    epoch: u64,
    /// Gaps of a rare Poisson sampling; absent where every row's decision is drawn.
    gaps: Option<ExactGaps>,
    chosen: Vec<u32>,
    /// Room for what is left of a batch that is cut.
    kept: Vec<u32>,
    /// Room for a bit a row, for sampling without replacement and for cuts.
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
        if let Sampling::WithoutReplacement { population, .. } | Sampling::TruncatedPoisson { population, .. } =
            sampling
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
            starts: Vec::new(),
            epoch: 0,
            gaps: None,
            chosen: Vec::new(),
            kept: Vec::new(),
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
            Sampling::RandomAllocation { .. } => {
                sampler.chosen = Vec::with_capacity(rows);
                sampler.allocate(0, rows);
            }
            Sampling::Poisson { rate }
            | Sampling::CyclicPoisson { rate, .. }
            | Sampling::TruncatedPoisson { rate, .. } => {
                sampler.gaps = (rate < RARE).then(|| ExactGaps::new(rate));
                // Eight standard deviations above the mean, and 64 that are written at once: no allocation in a round.
                let mean = rate * rows.div_ceil(sampling.separation()) as f64;
                sampler.chosen = Vec::with_capacity(rows.min((mean + 8.0 * mean.sqrt() + 64.0) as usize) + 64);
                if let Sampling::TruncatedPoisson { most, .. } = sampling {
                    sampler.kept = Vec::with_capacity(most + 64);
                    sampler.members = Vec::with_capacity(rows.div_ceil(64));
                }
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
            Sampling::Poisson { .. }
            | Sampling::CyclicPoisson { .. }
            | Sampling::RandomAllocation { .. }
            | Sampling::TruncatedPoisson { .. } => None,
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
            Sampling::CyclicPoisson { .. } | Sampling::RandomAllocation { .. } => return None,
            Sampling::Poisson { .. } | Sampling::WithoutReplacement { .. } | Sampling::TruncatedPoisson { .. } => {
                let (rows, batch) = (self.rows as f64, self.batch as f64);
                let deviation =
                    |fraction: f64| rows * (fraction * (1.0 - fraction) * (1.0 - batch / rows).max(0.0) / batch).sqrt();
                let is_fixed = matches!(self.sampling, Sampling::WithoutReplacement { .. });
                let spread = if is_fixed { 0.0 } else { DEVIATIONS * batch.sqrt() };
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
    /// made for, unless that is the public stand-in of a private number (add/remove): Poisson and full batches and random allocation
    /// then read all rows that there are, at the public rate.
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
                self.include(round, rate, population);
                Selection::Indices(&self.chosen)
            }
            Sampling::CyclicPoisson { groups, rate } => {
                let group = (round % groups as u64) as usize;
                self.include(round, rate, population.saturating_sub(group).div_ceil(groups));
                self.chosen.iter_mut().for_each(|row| *row = *row * groups as u32 + group as u32);
                Selection::Indices(&self.chosen)
            }
            Sampling::TruncatedPoisson { rate, most, .. } => {
                self.include(round, rate, population);
                if self.chosen.len() <= most {
                    return Selection::Indices(&self.chosen);
                }
                let drawn = self.chosen.len() as u32;
                UniformStream::new(&self.key, CUT, round, 0).subset(
                    most as u32,
                    drawn,
                    &mut self.members,
                    &mut self.kept,
                );
                self.kept.iter_mut().for_each(|place| *place = self.chosen[*place as usize]);
                Selection::Indices(&self.kept)
            }
            Sampling::RandomAllocation { .. } => {
                let all = self.starts.len() as u64 - 1;
                if self.epoch != round / all || self.order.len() != population {
                    self.allocate(round / all, population);
                }
                let [start, end] = [0, 1].map(|next| self.starts[(round % all) as usize + next] as usize);
                Selection::Indices(&self.order[start..end])
            }
            Sampling::WithoutReplacement { .. } => {
                stream().subset(self.batch as u32, self.rows as u32, &mut self.members, &mut self.chosen);
                Selection::Indices(&self.chosen)
            }
        }
    }

    /// Makes `chosen` a subset of `0..count` that holds each at `rate`, independently.
    fn include(&mut self, round: u64, rate: f64, count: usize) {
        match self.gaps {
            None => {
                UniformStream::new(&self.key, BATCH, round, 0).bernoulli_subset(rate, count as u32, &mut self.chosen);
            }
            Some(gaps) => gaps.subset(&self.key, BATCH, round, count as u32, &mut self.chosen),
        }
    }

    /// Throws each of `population` units into a round of `epoch`, independently: `order` has them by round.
    fn allocate(&mut self, epoch: u64, population: usize) {
        let Sampling::RandomAllocation { groups, slots } = self.sampling else { return };
        let mut stream = UniformStream::new(&self.key, SLOTS, epoch, 0);
        self.chosen.clear();
        self.chosen.extend(
            (0..population).map(|unit| stream.below(slots as u64) as u32 * groups as u32 + (unit % groups) as u32),
        );
        // Sorted by counting, which leaves the units of a round ascending.
        self.starts.clear();
        self.starts.resize(slots * groups + 1, 0);
        self.chosen.iter().for_each(|&round| self.starts[round as usize] += 1);
        let mut total = 0;
        for start in &mut self.starts {
            total += std::mem::replace(start, total);
        }
        self.order.clear();
        self.order.resize(population, 0);
        for (unit, &round) in (0..).zip(&self.chosen) {
            let place = &mut self.starts[round as usize];
            self.order[*place as usize] = unit;
            *place += 1;
        }
        // Every start has become the next one's.
        self.starts.rotate_right(1);
        self.starts[0] = 0;
        self.epoch = epoch;
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
    fn cyclic_samplers_read_their_group_alone_and_participations_are_as_far_apart_as_groups() {
        for sampling in
            [Sampling::CyclicPoisson { groups: 4, rate: 0.3 }, Sampling::RandomAllocation { groups: 4, slots: 5 }]
        {
            let mut sampler = sampler(sampling, 103, 8);
            for round in 0..200 {
                let rows = rows_of(&draw(&mut sampler, round));
                assert!(rows.iter().all(|row| u64::from(*row) % 4 == round % 4), "{sampling}");
                assert!(rows.windows(2).all(|pair| pair[0] < pair[1]) && rows.iter().all(|&row| row < 103));
            }
        }
    }

    #[test]
    fn every_unit_is_thrown_into_one_round_of_an_epoch_independently_of_the_others() {
        for (groups, slots) in [(1, 7), (3, 4), (1, 1)] {
            let sampling = Sampling::RandomAllocation { groups, slots };
            let epoch = (groups * slots) as u64;
            let mut sampler = sampler(sampling, 60, 9);
            // Rounds of two units of one group: all pairs are as likely.
            let mut together = vec![0_u32; slots * slots];
            for number in 0..3_000 {
                let mut seen = Vec::new();
                let mut places = [0; 2];
                for round in 0..epoch {
                    let rows = rows_of(&draw(&mut sampler, number * epoch + round));
                    for (place, unit) in places.iter_mut().zip([0, 3]) {
                        if rows.contains(&unit) {
                            *place = round as usize / groups;
                        }
                    }
                    seen.extend(rows);
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..60).collect::<Vec<_>>());
                together[places[0] * slots + places[1]] += 1;
            }
            let mean = 3_000.0 / (slots * slots) as f64;
            let chi_squared: f64 = together.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
            let freedom = (slots * slots - 1) as f64;
            assert!(chi_squared < freedom + 5.2 * (2.0 * freedom).sqrt() + 10.0, "{sampling}: {chi_squared}");
        }
        // A private number of rows: all are thrown.
        let mut sampler = sampler(Sampling::RandomAllocation { groups: 1, slots: 3 }, 60, 20);
        let all: usize = (0..3).map(|round| sampler.draw(round, 71).len()).sum();
        assert_eq!(all, 71);
        let again: usize = (0..3).map(|round| sampler.draw(round, 59).len()).sum();
        assert_eq!(again, 59);
    }

    #[test]
    fn a_truncated_batch_is_a_uniform_subset_of_a_poisson_one() {
        let (rows, most, rounds) = (200, 18, 20_000_u64);
        let mut poisson = sampler(Sampling::Poisson { rate: 0.1 }, rows, 20);
        let mut cut = sampler(Sampling::TruncatedPoisson { rate: 0.1, most, population: rows }, rows, 20);
        let mut counts = vec![0_u32; rows];
        let mut expected = 0;
        for round in 0..rounds {
            let (all, left) = (rows_of(&draw(&mut poisson, round)), rows_of(&draw(&mut cut, round)));
            assert_eq!(left.len(), all.len().min(most));
            assert!(left.iter().all(|row| all.contains(row)) && left.windows(2).all(|pair| pair[0] < pair[1]));
            left.iter().for_each(|&row| counts[row as usize] += 1);
            expected += left.len();
        }
        let mean = expected as f64 / rows as f64;
        let chi_squared: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
        assert!((chi_squared - rows as f64).abs() < 5.2 * (2.0 * rows as f64).sqrt(), "{chi_squared}");
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
        for sampling in [
            Sampling::Poisson { rate: 0.1 },
            without_replacement(100, 1_000),
            Sampling::CyclicPoisson { groups: 3, rate: 0.3 },
            Sampling::RandomAllocation { groups: 1, slots: 6 },
            Sampling::TruncatedPoisson { rate: 0.1, most: 100, population: 1_000 },
        ] {
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
        for sampling in [
            without_replacement(1_000, 1_000),
            Sampling::Poisson { rate: 1.0 },
            Sampling::Poisson { rate: 0.01 },
            Sampling::CyclicPoisson { groups: 3, rate: 0.2 },
            Sampling::RandomAllocation { groups: 2, slots: 6 },
            Sampling::TruncatedPoisson { rate: 0.1, most: 90, population: 1_000 },
        ] {
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
