//! Pools on a [`Problem`](crate::problem::Problem): the projected estimator, in which a query draws the K shifts of its
//! margins instead of ξ ∈ R^p.
//!
//! A query chooses a row uniformly with replacement, so `E g ∈ ∂F`. Its answer is K residuals; the pool keeps them with
//! the K shifts: O(N·K) scalars. Each sample must be used at one point only for the law to be the materialised one
//! (specification 7.1): the solvers do so, the bisection-free variant's gradient at the solution reuses a pool and is only
//! unbiased conditionally on the point.

use std::ops::Range;

use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::BLOCK_ROWS;
use rounds_kernels::linear::recorded::{ByOutput, RecordedBlock, Remainder, Reweighting, Shifts};
use rounds_kernels::random::{
    BLOCK_COORDINATES, Purpose, StreamKey, UniformStream, fill_gaussian, fill_gaussian_blocks,
};

use super::geometry::{narrow, squared_norm};
use super::pool::{GradientPool, check_round, check_samples};
use super::{ResqueError, Result};
use crate::choices::choices;
use crate::oracle::{Ledger, Oracle};
use crate::problem::PublicProblem;

/// Streams of the rows that a round queries.
const ROWS: Purpose = Purpose(0x524f_5753);
/// Streams of the shifts.
const SHIFTS: Purpose = Purpose(0x5348_4946);
/// Streams of the part of ⟨v, ξ⟩ that the shifts do not determine.
const REST: Purpose = Purpose(0x5245_5354);
/// Rows that one stream chooses.
const ROWS_A_STREAM: usize = 4_096;

choices! {
    /// The draw of weights.
    pub enum Weights {
        /// Given the shifts alone (Rao–Blackwell): equal in mean to the materialised estimator, smaller variance.
        Conditional = "conditional",
        /// From the shifts and one more normal: equal in law to the materialised estimator.
        Full = "full",
    }
}

/// The state of a pool between rounds; see [`ProjectedPool::on`].
pub struct ProjectedPool {
    key: StreamKey,
    weights: Weights,
    lipschitz: f64,
    /// Rounds fetched: with the key, the address of the next one.
    pub(crate) round: u64,
    radius: f64,
    centre: Vec<f32>,
    rows: Vec<u32>,
    answers: Answers,
    rest: Vec<f32>,
    sum: Vec<f64>,
    draws: u64,
}

/// The part of its queries that a round keeps, output by output.
#[derive(Default)]
struct Answers {
    /// Of the shifts: standard normals.
    normals: Vec<f32>,
    residuals: Vec<f32>,
}

/// Refuses a problem whose units are not its rows.
///
/// # Errors
/// A declared unit.
pub fn check_units(problem: &PublicProblem) -> Result<()> {
    problem.unit().map_or(Ok(()), |_| Err(ResqueError::Units))
}

/// L of a problem: the largest slope times the longest row where it was measured, else times the public bound on rows.
///
/// # Errors
/// The squared loss, whose slope is unbounded; rows without a bound; a declared unit.
pub fn lipschitz(problem: &PublicProblem) -> Result<f64> {
    check_units(problem)?;
    let slope = problem.model().loss.lipschitz(Norm::L2).unwrap_or(f64::INFINITY);
    let with_bias = |bound: f64| if problem.model().bias { bound.hypot(1.0) } else { bound };
    let longest = problem.measured().longest_row;
    let longest = longest.or_else(|| problem.row_bound(Norm::L2).map(with_bias));
    let quantity = "L (the largest slope of the loss times a bound on the rows)";
    super::positive(quantity, slope * longest.unwrap_or(f64::INFINITY))
}

impl ProjectedPool {
    /// A pool for `problem` with Lipschitz constant `lipschitz`.
    ///
    /// # Errors
    /// L not above 0.
    pub fn new(problem: &PublicProblem, weights: Weights, lipschitz: f64, key: StreamKey) -> Result<Self> {
        let dimension = problem.parameters();
        Ok(Self {
            key,
            weights,
            lipschitz: super::positive("L", lipschitz)?,
            round: 0,
            radius: 0.0,
            centre: vec![0.0; dimension],
            rows: Vec::new(),
            answers: Answers::default(),
            rest: Vec::new(),
            sum: vec![0.0; dimension],
            draws: 0,
        })
    }

    /// The pool's queries on an oracle, for the duration of a round.
    pub fn on<'p, 'o, 'a>(&'p mut self, oracle: &'o mut Oracle<'a>) -> ProjectedQueries<'p, 'o, 'a> {
        ProjectedQueries { pool: self, oracle }
    }
}

/// A [`ProjectedPool`] with the oracle that executes it.
pub struct ProjectedQueries<'p, 'o, 'a> {
    pool: &'p mut ProjectedPool,
    oracle: &'o mut Oracle<'a>,
}

impl GradientPool for ProjectedQueries<'_, '_, '_> {
    fn dimension(&self) -> usize {
        self.pool.centre.len()
    }

    fn lipschitz(&self) -> f64 {
        self.pool.lipschitz
    }

    fn fetch(&mut self, centre: &[f64], radius: f64, count: usize) -> Result<()> {
        check_round(radius, count)?;
        let Self { pool, oracle } = self;
        let problem = oracle.problem();
        let outputs = problem.model().outputs;
        pool.round += 1;
        pool.radius = radius;
        pool.draws = 0;
        narrow(&mut pool.centre, centre);
        let all = problem.rows() as u64;
        let (key, round, engine) = (&pool.key, pool.round, oracle.engine());
        pool.rows.resize(count, 0);
        engine.for_each_chunk(&mut pool.rows, ROWS_A_STREAM, &|first, rows| {
            let mut stream = UniformStream::new(key, ROWS, round, (first / ROWS_A_STREAM) as u64);
            for row in rows {
                *row = stream.below(all) as u32;
            }
        });
        pool.answers.residuals.resize(count * outputs, 0.0);
        if radius > 0.0 {
            pool.answers.normals.resize(count * outputs, 0.0);
            engine.for_each_chunk(&mut pool.answers.normals, BLOCK_COORDINATES, &|first, normals| {
                let block = (first / BLOCK_COORDINATES) as u64;
                fill_gaussian_blocks(key, SHIFTS, round, block, 1.0, normals);
            });
        }
        let shifts = (radius > 0.0)
            .then(|| Shifts { normals: ByOutput::new(&pool.answers.normals, outputs), radius: radius as f32 });
        let rows = Selection::Indices(&pool.rows);
        oracle.record(&rows, &pool.centre, shifts, &mut pool.answers.residuals)?;
        Ok(())
    }

    fn reweighted_mean(&mut self, samples: Range<usize>, offset: &[f32], mean: &mut [f32]) -> Result<()> {
        let Self { pool, oracle } = self;
        let squared_offset = squared_norm(offset);
        check_samples(&samples, pool.rows.len(), squared_offset, pool.radius)?;
        let outputs = oracle.problem().model().outputs;
        let rows = &pool.rows[samples.clone()];
        let full = pool.weights == Weights::Full && squared_offset > 0.0;
        if full {
            // One address a use: the same sample may be used at several points.
            pool.rest.resize(samples.len(), 0.0);
            pool.draws += 1;
            fill_gaussian(&pool.key, REST, (pool.round << 32) + pool.draws, 1.0, &mut pool.rest);
        }
        let remainder = full.then_some(Remainder {
            squared_offset: (squared_offset / pool.radius.powi(2)) as f32,
            normals: &pool.rest,
        });
        // At the centre itself all weights are 1.
        let shifts = (squared_offset > 0.0).then(|| Shifts {
            normals: ByOutput::new(&pool.answers.normals, outputs).from(samples.start),
            radius: pool.radius as f32,
        });
        let weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
            let Some(shifts) = shifts else {
                weights.fill(1.0);
                return Ok(());
            };
            block.likelihood_ratios(shifts, remainder, weights).map_err(|_: f32| ResqueError::WeightOverflow)
        };
        let reweighting = Reweighting {
            offset,
            residuals: ByOutput::new(&pool.answers.residuals, outputs).from(samples.start),
            lattice: None,
        };
        oracle.recorded_sum(&Selection::Indices(rows), reweighting, &weigh, &mut pool.sum)?;
        let scale = 1.0 / samples.len() as f64;
        let regularization = oracle.problem().regularization();
        for (((mean, &sum), &centre), &offset) in mean.iter_mut().zip(&pool.sum).zip(&pool.centre).zip(offset) {
            *mean = (sum * scale + regularization * (f64::from(centre) + f64::from(offset))) as f32;
        }
        Ok(())
    }

    fn ledger(&self) -> Ledger {
        self.oracle.ledger()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::problem::Problem;
    use crate::problem::{Dataset, Features, Labels};
    use crate::resque::black_box::{BlackBox, BlackBoxOracle};
    use crate::resque::estimator::log_weight;
    use crate::resque::functions::LinearLoss;
    use crate::resque::not_positive;
    use crate::resque::pool::tests::refuses_bad_rounds;
    use crate::vectors::{dot, map2, norm};
    use rounds_kernels::features::{Rows, Targets};
    use rounds_kernels::loss::{Loss, Target};
    use std::sync::Arc;

    /// D = sup|F₁ − F₂| of two samples of equal size; P(D > c·√(2/n)) ≤ 2e^{−2c²}, which is 1e-6 at c = 2.694.
    fn kolmogorov_smirnov(mut left: Vec<f64>, mut right: Vec<f64>) -> (f64, f64) {
        left.sort_by(f64::total_cmp);
        right.sort_by(f64::total_cmp);
        let (n, mut i, mut j, mut largest) = (left.len(), 0, 0, 0usize);
        while i < n && j < n {
            if left[i] <= right[j] {
                i += 1;
            } else {
                j += 1;
            }
            largest = largest.max(i.abs_diff(j));
        }
        (largest as f64 / n as f64, 2.694 * (2.0 / n as f64).sqrt())
    }

    fn problem(loss: Loss, rows: usize, columns: usize, bias: bool) -> Problem {
        let mut values = vec![0f32; rows * columns];
        let (key, deviation) = (StreamKey::Simulation(12), 1.0 / (columns as f32).sqrt());
        fill_gaussian(&key, Purpose(1), 0, deviation, &mut values);
        let labels = if loss == Loss::Softmax {
            Labels::numbered((0..rows).map(|i| (i % 3) as u32).collect(), 3)
        } else {
            Labels::Values((0..rows).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect())
        };
        let dataset = Dataset::new("test", Features::f32(values, columns), labels).unwrap();
        Problem::new(Arc::new(dataset), loss, bias, 0.0).unwrap().with_longest_row()
    }

    /// Queries of the only row of a problem, again and again, at one point of the ball around a centre.
    struct Queries<'a> {
        problem: &'a Problem,
        centre: &'a [f64],
        offset: &'a [f32],
        radius: f64,
        count: usize,
    }

    impl Queries<'_> {
        /// Everything of a query that a gradient is made of: `[r_1, w, w·r_1, w·r_K]`, r the residuals, w the weight. Of a
        /// pool, one query after the other.
        fn of_a_pool(&self) -> Law {
            let Self { problem, offset, .. } = *self;
            let mut oracle = Oracle::new(problem, Engine::default());
            let key = StreamKey::Simulation(31);
            let mut pool = ProjectedPool::new(problem, Weights::Full, 1.0, key).unwrap();
            let mut queries = pool.on(&mut oracle);
            queries.fetch(self.centre, self.radius, self.count).unwrap();
            let a = row_of(problem);
            let squared_norm: f32 = a.iter().map(|a| a * a).sum();
            let along = |gradient: &[f32]| a.iter().zip(gradient).map(|(a, g)| a * g).sum::<f32>() / squared_norm;
            let (centred, mut gradient) = (vec![0.0; offset.len()], vec![0.0; offset.len()]);
            let mut law = Law::default();
            for sample in 0..self.count {
                queries.reweighted_mean(sample..sample + 1, &centred, &mut gradient).unwrap();
                let residual = along(&gradient);
                queries.reweighted_mean(sample..sample + 1, offset, &mut gradient).unwrap();
                let first = along(&gradient);
                let last = along(&gradient[gradient.len() - a.len()..]);
                law.push([residual, first / residual, first, last].map(f64::from));
            }
            law
        }

        /// The same from ξ in all its dimensions.
        fn materialised(&self) -> Law {
            let Self { problem, centre, offset, radius, count } = *self;
            let a: Vec<f64> = row_of(problem).into_iter().map(f64::from).collect();
            let target = match problem.targets() {
                Targets::Values(values) => Target::Value(f64::from(values[0])),
                Targets::Classes(classes) => Target::Class(classes[0] as usize),
            };
            let (mut law, mut z) = (Law::default(), vec![0f32; centre.len()]);
            for sample in 0..count {
                fill_gaussian(&StreamKey::Simulation(32), Purpose(2), sample as u64, 1.0, &mut z);
                let xi: Vec<f64> = z.iter().map(|&z| radius * f64::from(z)).collect();
                let point = map2(centre, &xi, |x, xi| x + xi);
                let mut residuals: Vec<f64> = point.chunks_exact(a.len()).map(|weights| dot(&a, weights)).collect();
                problem.model().loss.residual(&mut residuals, target);
                let inner: f64 = offset.iter().zip(&xi).map(|(&v, xi)| f64::from(v) * xi).sum();
                let weight = log_weight(inner, squared_norm(offset), radius).exp();
                let (first, last) = (residuals[0], residuals[residuals.len() - 1]);
                law.push([first, weight, weight * first, weight * last]);
            }
            law
        }
    }

    #[derive(Default)]
    struct Law([Vec<f64>; 4]);

    impl Law {
        fn push(&mut self, values: [f64; 4]) {
            self.0.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
        }
    }

    /// Features, and 1 for the bias if there is one.
    fn row_of(problem: &Problem) -> Vec<f32> {
        let Rows::F32(rows) = problem.dataset().rows() else { unreachable!("the tests' rows are f32") };
        rows.values.iter().copied().chain(problem.model().bias.then_some(1.0)).collect()
    }

    #[test]
    fn a_query_of_a_pool_has_the_law_of_a_materialised_one() {
        // 16 two-sample tests at 1e-6 each. With 300,000 queries a scale that is off by 5 % moves a distribution function of
        // normals by 0.012, and the critical value is 0.007.
        let count = 300_000;
        for (loss, columns, bias, share) in [
            (Loss::Logistic, 1, false, 1.0),
            (Loss::Logistic, 12, true, 0.5),
            (Loss::Softmax, 3, true, 1.0),
            (Loss::Softmax, 8, false, 0.5),
        ] {
            let row = problem(loss, 6, columns, bias).dataset().select(4..5);
            let problem = Problem::new(Arc::new(row), loss, bias, 0.0).unwrap();
            let (radius, dimension) = (0.4, problem.parameters());
            let centre: Vec<f64> = (0..dimension).map(|j| 0.5 * (0.9 * j as f64).sin()).collect();
            // Half of the offset lies along the row, in every output's own measure.
            let a = row_of(&problem);
            let direction: Vec<f64> = (0..dimension)
                .map(|j| f64::from(a[j % a.len()]) * (1.0 - 0.4 * (j / a.len()) as f64) + 0.5 * (1.7 * j as f64).cos())
                .collect();
            let scale = share * radius / norm(&direction);
            let offset: Vec<f32> = direction.iter().map(|v| (v * scale) as f32).collect();
            let queries = Queries { problem: &problem, centre: &centre, offset: &offset, radius, count };
            let laws = queries.of_a_pool().0.into_iter().zip(queries.materialised().0);
            for (statistic, (left, right)) in laws.enumerate() {
                let (distance, critical) = kolmogorov_smirnov(left, right);
                let what = format!("{loss:?}, {columns} columns, bias {bias}, statistic {statistic}");
                assert!(distance < critical, "{what}: {distance}, critical {critical}");
            }
        }
    }

    #[test]
    fn every_loss_is_reweighted_without_bias_and_softmax_shifts_each_class_independently() {
        // The convolved gradient by plain sampling at x̄ + v, of a black box where the loss has one margin, against the
        // reweighted pool at x̄.
        for (loss, rows, columns, bias) in
            [(Loss::Hinge, 40, 6, false), (Loss::Absolute, 40, 6, false), (Loss::Softmax, 30, 4, true)]
        {
            let problem = problem(loss, rows, columns, bias);
            let (dimension, lipschitz) = (problem.parameters(), lipschitz(&problem).unwrap());
            let centre: Vec<f64> = (0..dimension).map(|j| (0.9 * j as f64).sin()).collect();
            let offset: Vec<f32> = (0..dimension).map(|j| 0.1 * (1.7 * j as f32).cos()).collect();
            let moved: Vec<f64> = centre.iter().zip(&offset).map(|(c, &v)| c + f64::from(v)).collect();
            let (radius, count) = (0.5, 200_000);
            let mean_at = |at: &[f64], offset: &[f32], weights: Weights, seed: u64| {
                let mut oracle = Oracle::new(&problem, Engine::with_threads(2).unwrap());
                let key = StreamKey::Simulation(seed);
                let mut pool = ProjectedPool::new(&problem, weights, lipschitz, key).unwrap();
                let mut queries = pool.on(&mut oracle);
                queries.fetch(at, radius, count).unwrap();
                let mut mean = vec![0.0; dimension];
                queries.reweighted_mean(0..count, offset, &mut mean).unwrap();
                assert_eq!(queries.ledger().rounds, 1);
                mean
            };
            let expected = match problem.dataset().labels() {
                Labels::Values(targets) => {
                    let function = LinearLoss::new(problem.dataset().rows(), targets, loss).unwrap();
                    assert!((function.lipschitz() - lipschitz).abs() < 1e-5);
                    let mut queries = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(5));
                    let mut mean = vec![0.0; dimension];
                    queries.fetch(&moved, radius, count).unwrap();
                    queries.reweighted_mean(0..count, &vec![0.0; dimension], &mut mean).unwrap();
                    mean
                }
                Labels::Classes { .. } => mean_at(&moved, &vec![0.0; dimension], Weights::Conditional, 1),
            };
            for weights in [Weights::Conditional, Weights::Full] {
                let found = mean_at(&centre, &offset, weights, 2);
                let distances = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
                let worst = distances.fold(0f32, f32::max);
                // Each coordinate of a query has second moment at most e·max a² ≤ 3: 5.5 standard errors of a difference.
                let tolerance = 5.5 * (2.0 * 3.0 / count as f32).sqrt();
                assert!(worst < tolerance, "{loss:?}, {weights:?}: {worst}");
            }
        }
    }

    #[test]
    fn what_cannot_be_reweighted_is_refused() {
        let softmax = problem(Loss::Softmax, 30, 4, true);
        let quantity = "L (the largest slope of the loss times a bound on the rows)";
        let squared = problem(Loss::Squared, 10, 2, false);
        assert_eq!(lipschitz(&squared), not_positive(quantity, f64::INFINITY));
        let mut oracle = Oracle::new(&softmax, Engine::default());
        let mut pool = ProjectedPool::new(&softmax, Weights::Full, 1.0, StreamKey::Simulation(1)).unwrap();
        refuses_bad_rounds(&mut pool.on(&mut oracle));
    }
}
