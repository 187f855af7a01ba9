//! The counting oracle of general convex functions: every query has a point of its own, x̄ + ξ_i.
//!
//! A round runs on the [`Engine`] over tiles of samples. A tile's perturbations come from one addressed stream and are
//! never kept: reweighting regenerates them, so memory is O(d) a worker plus one answer a query. Tiles and leaves depend
//! on sizes alone and leaves are added in order, hence the same bits for any number of threads.

use std::ops::Range;
use std::sync::Mutex;

use rounds_kernels::random::{BLOCK_COORDINATES, Purpose, StreamKey, UniformStream, fill_gaussian_blocks};

use super::estimator::{log_weight, weight};
use super::geometry::{dot, narrow, squared_norm};
use super::pool::{GradientPool, check_round, check_samples};
use super::{ResqueError, Result};
use crate::oracle::Ledger;
use crate::parallel::{Engine, lock, partition};
use crate::vectors::add_scaled;

/// Streams of the perturbations ξ.
const PERTURBATION: Purpose = Purpose(0x5045_5254);
/// Streams that choose the random function of a query.
const CHOICE: Purpose = Purpose(0x4348_4f49);
/// Samples whose weighted gradients are summed in f32 before the sum moves to f64.
const BLOCK_SAMPLES: usize = 128;
/// Least samples of a leaf: its own sum costs as much as one or two samples.
const LEAF_SAMPLES: usize = 16;
/// Cycles of work under which a leaf is not worth a fork.
const LEAF_CYCLES: usize = 10_000;

/// A convex function known through stochastic subgradients: `E g(x; choice) ∈ ∂f(x)` and `E‖g‖² ≤ L²` [002 Problem 1].
pub trait BlackBox: Sync {
    /// The answer of a query: as compact as the function allows (a row and a residual for a linear model), since a round
    /// keeps one a query.
    type Answer: Clone + Default + Send + Sync;

    /// Number of parameters d.
    fn dimension(&self) -> usize;

    /// L.
    fn lipschitz(&self) -> f64;

    /// A stochastic subgradient at `point`; `choice` are 64 uniform bits that choose the random function.
    fn query(&self, point: &[f32], choice: u64) -> Self::Answer;

    /// `sum += weight · answer`; false if the answer is not finite.
    fn add(&self, answer: &Self::Answer, weight: f32, sum: &mut [f32]) -> bool;

    /// f(x): for reports, never for a method.
    fn value(&self, point: &[f64]) -> f64;
}

/// Perturbations of one tile of samples, the last one generated.
struct Tile {
    /// (round, tile) of what `coordinates` holds.
    address: Option<(u64, u64)>,
    coordinates: Vec<f32>,
    point: Vec<f32>,
}

/// A partial sum of reweighted gradients.
struct Leaf {
    samples: Range<usize>,
    sum: Vec<f64>,
    block: Vec<f32>,
    outcome: Result<()>,
}

/// Executes and counts queries of one function.
pub struct BlackBoxOracle<'f, F: BlackBox> {
    function: &'f F,
    engine: Engine,
    key: StreamKey,
    ledger: Ledger,
    round: u64,
    radius: f64,
    centre: Vec<f32>,
    answers: Vec<F::Answer>,
    /// One per worker, exclusive to one task at a time: never contended.
    tiles: Vec<Mutex<Tile>>,
    leaves: Vec<Leaf>,
}

impl<'f, F: BlackBox> BlackBoxOracle<'f, F> {
    /// An oracle for `function` on `engine`; `key` addresses all its randomness.
    pub fn new(function: &'f F, engine: Engine, key: StreamKey) -> Self {
        let dimension = function.dimension();
        let tile = || Mutex::new(Tile { address: None, coordinates: Vec::new(), point: vec![0.0; dimension] });
        Self {
            function,
            key,
            ledger: Ledger::default(),
            round: 0,
            radius: 0.0,
            centre: vec![0.0; dimension],
            answers: Vec::new(),
            tiles: (0..engine.threads()).map(|_| tile()).collect(),
            leaves: Vec::new(),
            engine,
        }
    }

    /// Samples that share a stream block, at least one.
    fn tile_samples(&self) -> usize {
        (BLOCK_COORDINATES / self.function.dimension()).max(1)
    }

    /// Leaves of a mean over `count` samples: no shorter than a tile. Regenerating and a dot product take about two cycles a
    /// coordinate.
    fn leaves(&self, count: usize) -> usize {
        let work = 2 * count * self.function.dimension();
        let most = (count / LEAF_SAMPLES.max(self.tile_samples())).min(work / LEAF_CYCLES);
        most.clamp(1, partition::MOST_LEAVES)
    }

    /// The sample at which a leaf ends that would end `position` samples into `samples`: a tile's end, so that no tile is
    /// generated twice.
    fn tile_end(&self, samples: &Range<usize>, position: usize) -> usize {
        if position == 0 {
            return samples.start;
        }
        let end = (samples.start + position).next_multiple_of(self.tile_samples());
        end.min(samples.end)
    }

    /// The perturbations of the tile `index` of the current round, in `tile.coordinates`.
    fn perturb(&self, tile: &mut Tile, index: u64) {
        if tile.address == Some((self.round, index)) {
            return;
        }
        let coordinates = self.tile_samples() * self.function.dimension();
        let blocks = coordinates.div_ceil(BLOCK_COORDINATES) as u64;
        tile.coordinates.resize(coordinates, 0.0);
        let (first, radius, coordinates) = (index * blocks, self.radius as f32, &mut tile.coordinates);
        fill_gaussian_blocks(&self.key, PERTURBATION, self.round, first, radius, coordinates);
        tile.address = Some((self.round, index));
    }

    /// w of a sample.
    fn weight(&self, sample: usize, offset: &[f32], squared_offset: f64, tile: &mut Tile) -> Result<f64> {
        if squared_offset == 0.0 {
            return Ok(1.0);
        }
        let (dimension, per_tile) = (self.function.dimension(), self.tile_samples());
        self.perturb(tile, (sample / per_tile) as u64);
        let start = sample % per_tile * dimension;
        let inner = dot(offset, &tile.coordinates[start..start + dimension]);
        weight(log_weight(inner, squared_offset, self.radius))
    }

    /// `sum += Σ_{i ∈ samples} w_i·g_i` in f64.
    fn accumulate(&self, samples: Range<usize>, offset: &[f32], leaf: &mut Leaf, tile: &mut Tile) -> Result<()> {
        let squared_offset = squared_norm(offset);
        leaf.sum.fill(0.0);
        let mut pending = 0;
        leaf.block.fill(0.0);
        for sample in samples.clone() {
            let weight = self.weight(sample, offset, squared_offset, tile)?;
            if !self.function.add(&self.answers[sample], weight as f32, &mut leaf.block) {
                return Err(ResqueError::NotFinite);
            }
            pending += 1;
            if pending == BLOCK_SAMPLES || sample + 1 == samples.end {
                for (sum, block) in leaf.sum.iter_mut().zip(&mut leaf.block) {
                    *sum += f64::from(*block);
                    *block = 0.0;
                }
                pending = 0;
            }
        }
        Ok(())
    }

    /// One sample's reweighted gradient: the step of the sequential solvers.
    fn single(&self, sample: usize, offset: &[f32], squared_offset: f64, mean: &mut [f32]) -> Result<()> {
        let weight = self.weight(sample, offset, squared_offset, &mut lock(&self.tiles[0]))?;
        mean.fill(0.0);
        if self.function.add(&self.answers[sample], weight as f32, mean) { Ok(()) } else { Err(ResqueError::NotFinite) }
    }
}

impl<F: BlackBox> GradientPool for BlackBoxOracle<'_, F> {
    fn dimension(&self) -> usize {
        self.function.dimension()
    }

    fn lipschitz(&self) -> f64 {
        self.function.lipschitz()
    }

    fn fetch(&mut self, centre: &[f64], radius: f64, count: usize) -> Result<()> {
        check_round(radius, count)?;
        self.round += 1;
        self.radius = radius;
        self.ledger.rounds += 1;
        self.ledger.gradient_queries += count as u64;
        narrow(&mut self.centre, centre);
        let mut answers = std::mem::take(&mut self.answers);
        answers.resize(count, F::Answer::default());
        let (dimension, per_tile) = (self.function.dimension(), self.tile_samples());
        let this = &*self;
        let mut tasks: Vec<_> = answers.chunks_mut(per_tile).enumerate().collect();
        let run = |(index, answers): &mut (usize, &mut [F::Answer]), worker: usize| {
            let mut tile = lock(&this.tiles[worker]);
            let mut choices = UniformStream::new(&this.key, CHOICE, this.round, *index as u64);
            if radius > 0.0 {
                this.perturb(&mut tile, *index as u64);
            }
            let Tile { coordinates, point, .. } = &mut *tile;
            for (position, answer) in answers.iter_mut().enumerate() {
                let at = if radius > 0.0 {
                    let perturbation = &coordinates[position * dimension..(position + 1) * dimension];
                    for ((point, &centre), &xi) in point.iter_mut().zip(&this.centre).zip(perturbation) {
                        *point = centre + xi;
                    }
                    &*point
                } else {
                    &this.centre
                };
                *answer = this.function.query(at, choices.next_u64());
            }
        };
        this.engine.for_each(&mut tasks, &run);
        self.answers = answers;
        Ok(())
    }

    fn reweighted_mean(&mut self, samples: Range<usize>, offset: &[f32], mean: &mut [f32]) -> Result<()> {
        let squared_offset = squared_norm(offset);
        check_samples(&samples, self.answers.len(), squared_offset, self.radius)?;
        if samples.len() == 1 {
            return self.single(samples.start, offset, squared_offset, mean);
        }
        let (count, dimension) = (samples.len(), self.dimension());
        let parts = self.leaves(count);
        let mut leaves = std::mem::take(&mut self.leaves);
        while leaves.len() < parts {
            leaves.push(Leaf {
                samples: 0..0,
                sum: vec![0.0; dimension],
                block: vec![0.0; dimension],
                outcome: Ok(()),
            });
        }
        for (index, leaf) in leaves[..parts].iter_mut().enumerate() {
            let range = partition::leaf_range(count, parts, index);
            leaf.samples = self.tile_end(&samples, range.start)..self.tile_end(&samples, range.end);
        }
        let this = &*self;
        this.engine.for_each(&mut leaves[..parts], &|leaf, worker| {
            leaf.outcome = this.accumulate(leaf.samples.clone(), offset, leaf, &mut lock(&this.tiles[worker]));
        });
        let scale = 1.0 / count as f64;
        let (first, rest) = leaves[..parts].split_first_mut().expect("at least one leaf");
        for leaf in rest.iter() {
            add_scaled(&mut first.sum, 1.0, &leaf.sum);
        }
        mean.iter_mut().zip(&first.sum).for_each(|(mean, total)| *mean = (total * scale) as f32);
        let outcome = leaves[..parts].iter().find_map(|leaf| leaf.outcome.clone().err());
        self.leaves = leaves;
        outcome.map_or(Ok(()), Err)
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resque::functions::{LinearLoss, MaxOfLinear};
    use crate::resque::geometry::{add, norm};
    use crate::resque::pool::tests::refuses_bad_rounds;
    use rounds_kernels::features::Rows;
    use rounds_kernels::loss::Loss;

    #[test]
    fn one_pool_is_unbiased_at_three_points() {
        // One pool at x̄, against the convolution in closed form, for a single row: the error of N queries is at most
        // 4.9 standard errors, σ² ≤ e·L².
        for (loss, target) in [(Loss::Absolute, 0.2), (Loss::Hinge, 1.0)] {
            for dimension in [2, 30, 5_000] {
                let row: Vec<f32> =
                    (0..dimension).map(|j| (0.7 * j as f32 + 0.3).sin() / (dimension as f32).sqrt()).collect();
                let targets = [target];
                let function = LinearLoss::new(Rows::f32(&row, dimension), &targets, loss).unwrap();
                let mut oracle = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(3));
                let centre: Vec<f64> = (0..dimension).map(|j| 0.5 * f64::from(row[j])).collect();
                let (radius, count) = (0.4, if dimension > 100 { 4_000 } else { 60_000 });
                oracle.fetch(&centre, radius, count).unwrap();
                for share in [0.0f32, 0.4, -0.9] {
                    let length = squared_norm(&row).sqrt() as f32;
                    let offset: Vec<f32> = row.iter().map(|a| share * radius as f32 * a / length).collect();
                    let mut mean = vec![0.0; dimension];
                    oracle.reweighted_mean(0..count, &offset, &mut mean).unwrap();
                    let a: Vec<f64> = row.iter().map(|&a| f64::from(a)).collect();
                    let margin: f64 = (0..dimension).map(|j| a[j] * (centre[j] + f64::from(offset[j]))).sum();
                    let convolved = loss.convolved(margin, f64::from(target), radius * norm(&a));
                    let (_, slope) = convolved.unwrap();
                    let found = dot(&mean, &row) / squared_norm(&row);
                    let close = (found - slope).abs() < 4.9 * (std::f64::consts::E / count as f64).sqrt();
                    assert!(close, "{loss:?} d {dimension} share {share}: {found} for {slope}");
                }
                assert_eq!(oracle.ledger().rounds, 1);
                assert_eq!(oracle.ledger().gradient_queries, count as u64);
            }
        }
    }

    #[test]
    fn sums_have_the_same_bits_for_any_number_of_threads() {
        let function = MaxOfLinear::new(300, 200, 1.0, 1.0).unwrap();
        let offset = vec![0.001f32; 300];
        let means = [1, 2, 3].map(|threads| {
            let engine = Engine::with_threads(threads).unwrap();
            let mut oracle = BlackBoxOracle::new(&function, engine, StreamKey::Simulation(9));
            oracle.fetch(&[0.0; 300], 0.1, 20_000).unwrap();
            let mut mean = vec![0.0; 300];
            oracle.reweighted_mean(17..19_973, &offset, &mut mean).unwrap();
            mean
        });
        assert!(means.iter().all(|mean| *mean == means[0]));
        assert!(means[0].iter().any(|&g| g != 0.0));
    }

    #[test]
    fn a_single_sample_is_the_sum_of_its_parts() {
        let function = MaxOfLinear::new(40, 40, 1.0, 1.0).unwrap();
        let mut oracle = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(9));
        oracle.fetch(&[0.0; 40], 0.1, 300).unwrap();
        let offset = vec![0.01f32; 40];
        let (mut total, mut one) = (vec![0.0f64; 40], vec![0.0; 40]);
        for sample in (0..300).rev() {
            oracle.reweighted_mean(sample..sample + 1, &offset, &mut one).unwrap();
            add(&mut total, 1.0 / 300.0, &one);
        }
        oracle.reweighted_mean(0..300, &offset, &mut one).unwrap();
        let mut parts = total.iter().zip(&one);
        assert!(parts.all(|(total, &one)| (total - f64::from(one)).abs() < 1e-6));
    }

    #[test]
    fn bad_rounds_are_refused() {
        let function = MaxOfLinear::new(4, 4, 1.0, 1.0).unwrap();
        let mut oracle = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(9));
        refuses_bad_rounds(&mut oracle);
    }
}
