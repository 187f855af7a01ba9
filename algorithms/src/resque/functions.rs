//! Convex functions to query: the maximum of linear functions (the hard family of parallel methods) and mean losses of
//! linear models, with their exact values and, where it is known, the optimum.

use rounds_kernels::features::{F32Rows, Norm, Rows};
use rounds_kernels::loss::{Loss, Target, TargetKind};

use super::black_box::BlackBox;
use super::{ResqueError, Result, not_positive, positive};

/// `f(x) = L·max_{i < m} |x_i − x*_i|` on R^d with `x*_i = −R/√m`: the maximum of 2m linear functions with orthonormal
/// gradients, of which a query reveals one; such families make the lower bounds on query depth ([Nemirovski 1994],
/// [002 §I-C]). Its minimum is 0, at distance R from the start 0, where all pieces tie at `f(0) = LR/√m`.
///
/// Any orthonormal pieces give the same run up to a rotation, since noise and balls are rotation invariant; coordinates
/// make a query cost m comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxOfLinear {
    dimension: usize,
    coordinates: usize,
    lipschitz: f64,
    shift: f64,
}

impl MaxOfLinear {
    /// m = `coordinates` of the `dimension` compete; the optimum has norm `radius`.
    ///
    /// # Errors
    /// No coordinates, more of them than dimensions, L or R not above 0.
    pub fn new(dimension: usize, coordinates: usize, lipschitz: f64, radius: f64) -> Result<Self> {
        if coordinates == 0 || coordinates > dimension {
            return not_positive("coordinates (at least 1, at most the dimension)", coordinates as f64);
        }
        let shift = positive("R", radius)? / (coordinates as f64).sqrt();
        Ok(Self { dimension, coordinates, lipschitz: positive("L", lipschitz)?, shift })
    }
}

impl BlackBox for MaxOfLinear {
    /// 1 + the index of the active coordinate, negative where the piece is −x_i.
    type Answer = i32;

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn lipschitz(&self) -> f64 {
        self.lipschitz
    }

    fn query(&self, point: &[f32], _choice: u64) -> i32 {
        let (point, shift) = (&point[..self.coordinates], self.shift as f32);
        let largest = point.iter().map(|x| (x + shift).abs()).fold(0f32, f32::max);
        let index = point.iter().position(|x| (x + shift).abs() >= largest).unwrap_or(0);
        if point[index] + shift < 0.0 { -1 - index as i32 } else { 1 + index as i32 }
    }

    fn add(&self, answer: &i32, weight: f32, sum: &mut [f32]) -> bool {
        let slope = weight * self.lipschitz as f32;
        sum[answer.unsigned_abs() as usize - 1] += if *answer < 0 { -slope } else { slope };
        slope.is_finite()
    }

    fn value(&self, point: &[f64]) -> f64 {
        let distances = point[..self.coordinates].iter().map(|x| (x + self.shift).abs());
        self.lipschitz * distances.fold(0.0, f64::max)
    }
}

/// `f(x) = (1/n)·Σ_i φ(⟨a_i, x⟩; y_i)`; a query chooses a row uniformly.
#[derive(Clone, Debug)]
pub struct LinearLoss<'a> {
    rows: Rows<'a>,
    targets: &'a [f32],
    loss: Loss,
    lipschitz: f64,
}

impl<'a> LinearLoss<'a> {
    /// The mean loss over all rows, with L = sup|φ′|·max‖a_i‖ (√ of the second moment is no larger).
    ///
    /// # Errors
    /// No rows, rows and targets that differ in number, a loss whose slope is unbounded (squared) or that needs several
    /// margins (softmax), rows that are all zero or not finite.
    pub fn new(rows: Rows<'a>, targets: &'a [f32], loss: Loss) -> Result<Self> {
        if rows.is_empty() || rows.len() != targets.len() {
            return not_positive("rows (as many as targets)", rows.len() as f64);
        }
        if loss.targets() == TargetKind::Classes {
            return Err(ResqueError::SeveralMargins);
        }
        let slope = loss.lipschitz(Norm::L2).unwrap_or(f64::INFINITY);
        let mut function = Self { rows, targets, loss, lipschitz: 0.0 };
        let squares = (0..rows.len()).map(|row| function.squared_row_norm(row));
        let longest = squares.fold(0.0, f64::max).sqrt();
        let quantity = "L (the largest slope of the loss times the longest row)";
        function.lipschitz = positive(quantity, slope * longest)?;
        Ok(function)
    }

    /// ‖a_i‖².
    fn squared_row_norm(&self, row: usize) -> f64 {
        self.fold(row, 0.0, |sum, _, a| sum + f64::from(a) * f64::from(a))
    }

    /// ⟨a_i, x⟩ in f64.
    fn margin(&self, row: usize, point: &[f64]) -> f64 {
        self.fold(row, 0.0, |sum, column, a| sum + f64::from(a) * point[column])
    }

    /// Folds over the stored entries of a row.
    fn fold<T>(&self, row: usize, start: T, mut step: impl FnMut(T, usize, f32) -> T) -> T {
        let mut state = start;
        match self.rows {
            Rows::F32(rows) => {
                for (column, &a) in values_of(&rows, row).iter().enumerate() {
                    state = step(state, column, a);
                }
            }
            Rows::U8(rows) => {
                for (column, &a) in rows.row(row).iter().enumerate() {
                    state = step(state, column, f32::from(a) * rows.scale);
                }
            }
            Rows::Sparse(rows) => {
                for entry in rows.offsets[row]..rows.offsets[row + 1] {
                    state = step(state, rows.indices[entry] as usize, rows.values[entry]);
                }
            }
        }
        state
    }
}

/// The features of a row.
fn values_of<'a>(rows: &F32Rows<'a>, row: usize) -> &'a [f32] {
    &rows.values[row * rows.columns..][..rows.columns]
}

/// A row and the residual of its margin: the gradient `residual · a_row`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowResidual {
    /// The row.
    pub row: u32,
    /// φ′(⟨a, x⟩; y).
    pub residual: f32,
}

impl BlackBox for LinearLoss<'_> {
    type Answer = RowResidual;

    fn dimension(&self) -> usize {
        self.rows.columns()
    }

    fn lipschitz(&self) -> f64 {
        self.lipschitz
    }

    fn query(&self, point: &[f32], choice: u64) -> RowResidual {
        let row = ((u128::from(choice) * self.targets.len() as u128) >> 64) as usize;
        let margin = match self.rows {
            Rows::F32(rows) => super::geometry::dot(values_of(&rows, row), point),
            _ => self.fold(row, 0.0, |sum, column, a| sum + f64::from(a) * f64::from(point[column])),
        };
        let mut residual = [margin];
        self.loss.residual(&mut residual, Target::Value(self.targets[row].into()));
        RowResidual { row: row as u32, residual: residual[0] as f32 }
    }

    fn add(&self, answer: &RowResidual, weight: f32, sum: &mut [f32]) -> bool {
        let factor = weight * answer.residual;
        if factor == 0.0 {
            return true;
        }
        let row = answer.row as usize;
        if let Rows::F32(rows) = self.rows {
            sum.iter_mut().zip(values_of(&rows, row)).for_each(|(sum, &a)| *sum = factor.mul_add(a, *sum));
        } else {
            self.fold(row, (), |(), column, a| sum[column] += factor * a);
        }
        factor.is_finite()
    }

    fn value(&self, point: &[f64]) -> f64 {
        let loss =
            |(row, &target): (usize, &f32)| self.loss.value(&[self.margin(row, point)], Target::Value(target.into()));
        let total: f64 = self.targets.iter().enumerate().map(loss).sum();
        total / self.targets.len() as f64
    }
}

/// ℓ1 regression with a known minimum: rows come in pairs `(a, ⟨a, x*⟩ ± e)`, so each pair's loss is at least 2e, with
/// equality at x*. Hence `min f = f(x*)` = the mean of e over all of R^d.
#[derive(Clone, Debug)]
pub struct PlantedRegression {
    /// `2m × d` features, row-major, rows of norm 1.
    pub features: Vec<f32>,
    /// 2m targets.
    pub targets: Vec<f32>,
    /// x*, of norm R/2.
    pub optimum: Vec<f64>,
    /// f(x*).
    pub minimum: f64,
}

impl PlantedRegression {
    /// `pairs` pairs of rows in dimension `dimension`, from `seed`; the optimum has norm `radius`/2, deviations e are
    /// |N(0, noise²)|.
    pub fn new(dimension: usize, pairs: usize, radius: f64, noise: f64, seed: u64) -> Self {
        use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};
        let key = StreamKey::Simulation(seed);
        let draw = |round: u64, count: usize| {
            let mut z = vec![0f32; count];
            fill_gaussian(&key, Purpose(0x504c_414e), round, 1.0, &mut z);
            z
        };
        let direction = draw(0, dimension);
        let scale = 0.5 * radius / super::geometry::squared_norm(&direction).sqrt();
        let optimum: Vec<f64> = direction.iter().map(|&z| f64::from(z) * scale).collect();
        let mut features = Vec::with_capacity(2 * pairs * dimension);
        let mut targets = Vec::with_capacity(2 * pairs);
        let deviations = draw(1, pairs);
        for (row, deviation) in draw(2, pairs * dimension).chunks_exact(dimension).zip(deviations) {
            let length = super::geometry::squared_norm(row).sqrt() as f32;
            let a: Vec<f32> = row.iter().map(|z| z / length).collect();
            let margin: f64 = a.iter().zip(&optimum).map(|(&a, x)| f64::from(a) * x).sum();
            let e = f64::from(deviation.abs()) * noise;
            for sign in [1.0, -1.0] {
                features.extend_from_slice(&a);
                targets.push((margin + sign * e) as f32);
            }
        }
        let mut planted = Self { features, targets, optimum, minimum: 0.0 };
        planted.minimum = planted.function().value(&planted.optimum);
        planted
    }

    /// The mean absolute deviation.
    ///
    /// # Panics
    /// Never: the rows have norm 1 and match their targets.
    pub fn function(&self) -> LinearLoss<'_> {
        let rows = Rows::f32(&self.features, self.optimum.len());
        LinearLoss::new(rows, &self.targets, Loss::Absolute).expect("rows of norm 1 with their targets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_kernels::features::SparseRows;

    #[test]
    fn the_maximum_of_linear_functions_has_its_minimum_and_pieces() {
        let function = MaxOfLinear::new(10, 4, 2.0, 3.0).unwrap();
        let mut optimum = vec![0.0; 10];
        optimum[..4].fill(-1.5);
        assert_eq!(function.value(&optimum), 0.0);
        assert_eq!(function.value(&[0.0; 10]), 3.0);
        for (last, answer) in [(1.0, 2), (-8.0, -4)] {
            let point = [0.0, 3.0, 3.0, last, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0];
            assert_eq!(function.query(&point, 5), answer);
        }
        let mut sum = [0.0; 10];
        assert!(function.add(&-4, 0.5, &mut sum) && sum[3] == -1.0);
        assert!(MaxOfLinear::new(3, 4, 1.0, 1.0).is_err());
        assert!(MaxOfLinear::new(3, 0, 1.0, 1.0).is_err());
        assert!(MaxOfLinear::new(3, 3, 0.0, 1.0).is_err());
    }

    #[test]
    fn the_planted_regression_is_minimal_at_its_optimum() {
        let planted = PlantedRegression::new(12, 40, 2.0, 0.3, 5);
        let function = planted.function();
        assert!((crate::resque::geometry::norm(&planted.optimum) - 1.0).abs() < 1e-6);
        assert!((function.lipschitz() - 1.0).abs() < 1e-6);
        for coordinate in 0..12 {
            for step in [-0.01, 0.01] {
                let mut moved = planted.optimum.clone();
                moved[coordinate] += step;
                assert!(function.value(&moved) >= planted.minimum - 1e-7);
            }
        }
    }

    #[test]
    fn all_row_formats_give_the_same_gradient() {
        let bytes = [1u8, 0, 3, 0, 2, 0];
        let values: Vec<f32> = bytes.iter().map(|&b| 0.5 * f32::from(b)).collect();
        let targets = [1.0, -1.0];
        let dense = Rows::f32(&values, 3);
        let packed = Rows::bytes(&bytes, 3, 0.5);
        let sparse =
            Rows::Sparse(SparseRows { offsets: &[0, 2, 3], indices: &[0, 2, 1], values: &[0.5, 1.5, 1.0], columns: 3 });
        let point = [0.3f32, -0.7, 0.1];
        let gradients = [dense, packed, sparse].map(|rows| {
            let function = LinearLoss::new(rows, &targets, Loss::Logistic).unwrap();
            let mut sum = vec![0f32; 3];
            for choice in [0, u64::MAX] {
                assert!(function.add(&function.query(&point, choice), 2.0, &mut sum));
            }
            (sum, function.value(&[0.3, -0.7, 0.1]), function.lipschitz())
        });
        for other in &gradients[1..] {
            assert!(other.0.iter().zip(&gradients[0].0).all(|(a, b)| (a - b).abs() < 1e-6));
            assert!((other.1 - gradients[0].1).abs() < 1e-9 && other.2 == gradients[0].2);
        }
    }

    #[test]
    fn losses_without_a_lipschitz_constant_are_refused() {
        let rows = Rows::f32(&[1.0], 1);
        assert!(LinearLoss::new(rows, &[1.0], Loss::Squared).is_err());
        assert!(matches!(LinearLoss::new(rows, &[1.0], Loss::Softmax), Err(ResqueError::SeveralMargins)));
        assert!(LinearLoss::new(rows, &[], Loss::Hinge).is_err());
    }
}
