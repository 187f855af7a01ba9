//! Populations of finitely many distinct rows, whose risk is a finite sum with a known minimiser over a ball: two on which the
//! rates of private convex optimisation bind, with L = 1 and M = 1 over the unit ball and no strong convexity, and the rows of a data set.
//!
//! In the former a row is `v·e_j` with one of two targets: its gradient is one of two opposite slopes, plus v²·x_j where the loss is curved. The
//! probabilities of the two differ by a bias too small to be seen in few rows, as in the lower bounds by Assouad's lemma.
//!
//! | population | coordinates | minimiser |
//! | --- | --- | --- |
//! | [`Population::slope`] | linear, `∇F = −κ·s/√d` with random signs s; with `stiff`, half of the rows are one curved coordinate | on the sphere: the constraint is active, and no curvature helps |
//! | [`Population::valleys`] | half of the rows are stiff; the others are spread evenly over curvatures `2^{−k}/24`, k = 0 … 11, and so is ‖x*‖² | of norm 1, and flat directions at every scale |

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rounds_kernels::features::{Norm, Rows, Targets};
use rounds_kernels::loss::{Loss, Target};
use rounds_kernels::random::StreamKey;

use super::dataset::Dataset;
use super::features::{Features, Labels, SparseMatrix};
use super::law::Law;
use super::objective::Problem;

/// Scales of the curvature of valleys.
const SCALES: usize = 12;
/// The share of the rows that are of the stiff coordinate.
const STIFF: f64 = 0.5;
/// The slope of a curved row at 0, and half of its gradient's bound.
const SLOPE: f64 = 0.5;
/// The target of a linear row: its residual is clamped on the whole ball.
const FAR: f64 = 3.0;

/// A population of finitely many distinct rows, with its minimiser over a ball.
pub struct Population {
    rows: Arc<Dataset>,
    loss: Loss,
    /// The probability of each distinct row.
    shares: Vec<f64>,
    optimum: Vec<f64>,
}

/// A coordinate: the share of its rows, their value v and target, and the minimiser's coordinate.
struct Coordinate {
    share: f64,
    value: f64,
    target: f64,
    optimum: f64,
    /// P(target > 0) − P(target < 0).
    bias: f64,
}

impl Coordinate {
    /// A coordinate of curvature `share·squared` around `optimum`.
    fn curved(share: f64, squared: f64, optimum: f64) -> Self {
        Self { share, value: squared.sqrt(), target: SLOPE / squared.sqrt(), optimum, bias: squared * optimum / SLOPE }
    }
}

impl Population {
    /// A linear risk of slope κ in d coordinates, one of which is stiff where `stiff` says so; none where a bias of its rows
    /// would reach 1.
    pub fn slope(dimension: usize, kappa: f64, stiff: bool, seed: u64) -> Option<Self> {
        let linear = dimension - usize::from(stiff);
        let (root, share) = ((linear as f64).sqrt(), if stiff { STIFF } else { 1.0 });
        let bias = kappa * root / share;
        let coordinate =
            |_| Coordinate { share: share / linear as f64, value: 1.0, target: FAR, optimum: 1.0 / root, bias };
        let first = stiff.then(|| Coordinate::curved(STIFF, 1.0, 0.0));
        let coordinates = first.into_iter().chain((0..linear).map(coordinate)).collect();
        (bias < 1.0).then(|| Self::new(coordinates, Loss::Huber(1.0), seed))
    }

    /// Valleys in d coordinates: one stiff one, the others shared out evenly over the scales, with at most 2^k at scale k.
    ///
    /// # Panics
    /// Fewer coordinates than scales, or more than they take.
    pub fn valleys(dimension: usize, seed: u64) -> Self {
        assert!(dimension > SCALES && dimension <= 1 << SCALES, "{dimension} coordinates");
        let mut widths = [0; SCALES];
        let mut left = dimension - 1;
        for scale in (0..SCALES).rev().cycle() {
            if left == 0 {
                break;
            }
            if widths[scale] < 1 << scale {
                widths[scale] += 1;
                left -= 1;
            }
        }
        let mut coordinates = vec![Coordinate::curved(STIFF, 1.0, 0.0)];
        for (scale, &width) in widths.iter().enumerate() {
            let share = (1.0 - STIFF) / (SCALES * width) as f64;
            // Curvature share·v² = 2^{−k}/24.
            let squared = 0.5_f64.powi(scale as i32) * width as f64;
            let optimum = (1.0 / (SCALES * width) as f64).sqrt();
            coordinates.extend((0..width).map(|_| Coordinate::curved(share, squared, optimum)));
        }
        Self::new(coordinates, Loss::Squared, seed)
    }

    /// The population of these coordinates, each with a random sign.
    fn new(coordinates: Vec<Coordinate>, loss: Loss, seed: u64) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut features = SparseMatrix::new(coordinates.len());
        let (mut targets, mut shares, mut optimum) = (Vec::new(), Vec::new(), Vec::new());
        for (index, coordinate) in coordinates.into_iter().enumerate() {
            let sign = if generator.next_u64() >> 63 == 0 { 1.0 } else { -1.0 };
            for side in [sign, -sign] {
                features.push_row([(index as u32, coordinate.value as f32)]);
                targets.push((side * coordinate.target) as f32);
                shares.push(0.5 * coordinate.share * (1.0 + side * sign * coordinate.bias));
            }
            optimum.push(sign * coordinate.optimum);
        }
        let rows = Dataset::new("population", Features::Sparse(features), Labels::Values(targets))
            .and_then(|dataset| dataset.clip_features(Norm::L2, 1.0))
            .expect("coordinates make a data set");
        Self { rows: Arc::new(rows), loss, shares, optimum }
    }

    /// The rows of `problem`, all as likely: the population of which a bootstrap sample is drawn, with the minimiser of its risk.
    ///
    /// # Panics
    /// Rows that are not dense, with a bias or without real targets; a minimiser of another dimension.
    pub fn of_rows(problem: &Problem, optimum: Vec<f64>) -> Self {
        let dataset = problem.dataset();
        let (Features::F32 { values, columns }, labels @ Labels::Values(_)) = (dataset.features(), dataset.labels())
        else {
            panic!("dense rows with real targets are a population");
        };
        assert!(optimum.len() == *columns && !problem.model().bias, "a model without a bias");
        let mut features = SparseMatrix::new(*columns);
        for row in values.chunks_exact(*columns) {
            features.push_row((0..).zip(row.iter().copied()).filter(|(_, value)| *value != 0.0));
        }
        let rows =
            Dataset::new(dataset.name(), Features::Sparse(features), labels.clone()).expect("rows of a data set");
        Self {
            shares: vec![1.0 / rows.len() as f64; rows.len()],
            rows: Arc::new(rows),
            loss: problem.model().loss,
            optimum,
        }
    }

    /// `rows` independent rows of the population, whose batches are drawn from their exact law.
    pub fn drawn(&self, rows: usize, key: StreamKey) -> Problem {
        self.problem(Arc::clone(&self.rows)).drawn_from(Law::new(&self.shares, rows, key))
    }

    /// `rows` independent rows of the population, in memory.
    pub fn materialized(&self, rows: usize, key: StreamKey) -> Problem {
        let rows = Law::new(&self.shares, rows, key).draw();
        self.problem(Arc::new(self.rows.select(rows.into_iter())))
    }

    fn problem(&self, rows: Arc<Dataset>) -> Problem {
        Problem::new(rows, self.loss, false, 0.0).expect("losses of real targets, and finite rows")
    }

    /// Of every distinct row its probability, its first coordinate and the derivative of its loss along it; those of the worst case have no
    /// other.
    ///
    /// # Panics
    /// A model of another dimension.
    pub fn derivatives(&self, x: &[f32]) -> impl Iterator<Item = (f64, usize, f64)> {
        assert_eq!(x.len(), self.optimum.len(), "a model of another dimension");
        self.entries().map(move |(share, columns, values, target)| {
            let (j, value) = (columns[0] as usize, f64::from(values[0]));
            let mut residual = [value * f64::from(x[j])];
            self.loss.residual(&mut residual, target);
            (share, j, value * residual[0])
        })
    }

    /// Of every distinct row its probability, the columns and values of its entries, and its target.
    fn entries(&self) -> impl Iterator<Item = (f64, &[u32], &[f32], Target)> {
        let (Rows::Sparse(rows), Targets::Values(targets)) = (self.rows.rows(), self.rows.targets()) else {
            unreachable!("rows are sparse, and targets real");
        };
        let stored = rows.offsets.windows(2).map(|ends| ends[0]..ends[1]);
        stored.zip(targets).zip(&self.shares).map(move |((stored, &target), &share)| {
            (share, &rows.indices[stored.clone()], &rows.values[stored], Target::Value(f64::from(target)))
        })
    }

    /// `F(x) − F(x*)`, to rounding.
    ///
    /// # Panics
    /// A model of another dimension.
    pub fn excess_risk(&self, x: &[f32]) -> f64 {
        assert_eq!(x.len(), self.optimum.len(), "a model of another dimension");
        let excess = self.entries().map(|(share, columns, values, target)| {
            let loss = |at: &dyn Fn(usize) -> f64| {
                let products = columns.iter().zip(values).map(|(&j, &value)| f64::from(value) * at(j as usize));
                self.loss.value(&[products.sum()], target)
            };
            share * (loss(&|j| f64::from(x[j])) - loss(&|j| self.optimum[j]))
        });
        excess.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;
    use crate::parallel::Engine;
    use rounds_kernels::features::Selection;
    use rounds_kernels::linear::{Clip, Point};

    /// Two orthogonal rows of squared losses, which their targets make the minimiser's coordinates.
    fn real() -> Population {
        let rows = Features::f32(vec![0.6, 0.8, 0.8, -0.6], 2);
        let dataset = Dataset::new("rows", rows, Labels::Values(vec![0.6, 0.8])).unwrap();
        let problem = Problem::new(Arc::new(dataset), Loss::Squared, false, 0.0).unwrap();
        Population::of_rows(&problem, vec![1.0, 0.0])
    }

    fn populations() -> Vec<Population> {
        vec![
            real(),
            Population::slope(9, 0.05, false, 3).unwrap(),
            Population::slope(9, 0.05, true, 4).unwrap(),
            Population::valleys(40, 5),
        ]
    }

    #[test]
    fn no_point_of_the_ball_has_less_risk_than_the_optimum() {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(1);
        for population in populations() {
            let length = crate::vectors::norm(&population.optimum);
            assert!((length - 1.0).abs() < 1e-12, "{length}");
            let at = |shift: f64, generator: &mut Xoshiro256PlusPlus| {
                let mut x: Vec<f64> = population.optimum.clone();
                for value in &mut x {
                    *value += shift * (generator.next_u64() as f64 / f64::powi(2.0, 63) - 1.0);
                }
                let length = crate::vectors::norm(&x).max(1.0);
                let x: Vec<f32> = x.iter().map(|value| (value / length) as f32).collect();
                population.excess_risk(&x)
            };
            assert!(at(0.0, &mut generator).abs() < 1e-7);
            for shift in [1e-2, 0.1, 1.0] {
                for _ in 0..200 {
                    let excess = at(shift, &mut generator);
                    assert!(excess > -1e-8, "{excess}");
                }
            }
            assert!(population.excess_risk(&vec![0.0; population.optimum.len()]) > 1e-3);
        }
        assert!(Population::slope(400, 0.06, false, 1).is_none(), "a bias of 1.2");
        assert!(Population::slope(4, 0.5, false, 1).is_none(), "rows that never occur");
    }

    /// Residuals −0.6 and −0.8 at 0, 0.2 and −1.4 at (0, 1).
    #[test]
    fn the_risk_of_rows_is_the_mean_of_their_losses() {
        for (x, expected) in [([0.0, 0.0], 0.25), ([0.0, 1.0], 0.5), ([1.0, 0.0], 0.0)] {
            assert!((real().excess_risk(&x) - expected).abs() < 1e-6, "{x:?}: {}", real().excess_risk(&x));
        }
    }

    #[test]
    fn gradients_are_at_most_as_long_as_the_lipschitz_constant() {
        for population in populations() {
            for x in [-0.5, 0.0, 0.5] {
                let point = vec![x; population.optimum.len()];
                for (_, _, derivative) in population.derivatives(&point) {
                    assert!(derivative.abs() <= 1.0 + 1e-6, "{derivative}");
                }
            }
        }
    }

    #[test]
    fn sums_by_counts_are_the_sums_over_as_many_rows() {
        for population in populations() {
            let law = Law::new(&population.shares, 700, StreamKey::Simulation(8));
            let counts = law.counts(&(0..700)).into_iter().enumerate();
            let rows: Vec<usize> = counts.flat_map(|(row, count)| vec![row; count as usize]).collect();
            let held = population.problem(Arc::new(population.rows.select(rows.into_iter())));
            let drawn = population.drawn(700, StreamKey::Simulation(8));
            let dimension = held.parameters();
            let [now, before] = [0.3, -0.2].map(|scale| vec![scale / (dimension as f32).sqrt(); dimension]);
            let point = |coefficient, parameters| Point { coefficient, parameters };
            for clip in [Clip::Unbounded, Clip::l2(0.8), Clip::l1(0.4)] {
                for previous in [None, Some(point(2.0, &before))] {
                    let mut results = [&held, &drawn].map(|problem| {
                        let (mut oracle, mut sum) = (Oracle::new(problem, Engine::Sequential), vec![0.0; dimension]);
                        let points = (point(3.0, &now), previous);
                        oracle.sum_in_units(&Selection::Range(0..700), points, clip, &mut sum).unwrap();
                        let ledger = oracle.ledger();
                        (sum, (ledger.rounds, ledger.gradient_queries, ledger.clipped, ledger.clippable))
                    });
                    let [(held, counted), (drawn, also)] = &mut results;
                    assert_eq!(counted, also);
                    for (a, b) in held.iter().zip(drawn) {
                        assert!((*a - *b).abs() < 1e-3 + 1e-5 * b.abs(), "{a} {b} {clip:?}");
                    }
                }
            }
            let chosen = Selection::Indices(&[3, 1]);
            let refused = Oracle::new(&drawn, Engine::Sequential).gradient_sum(
                &chosen,
                &now,
                Clip::Unbounded,
                &mut vec![0.0; dimension],
            );
            assert!(refused.unwrap_err().to_string().contains("sampling=fixed"));
        }
    }
}
