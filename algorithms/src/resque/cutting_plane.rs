//! Cutting planes: the ellipsoid method and an analytic-centre method [002 Table I; specification 7.6].
//!
//! ```text
//! ellipsoid: ĝ = g/√(gᵀPg),  c ← c − Pĝ/(d+1),  P ← d²/(d²−1)·(P − 2/(d+1)·Pĝ(Pĝ)ᵀ);  ‖c‖ > R cuts with c
//! analytic centre: x = argmin −Σ_i ln(⟨g_i, c_i − x⟩ + s_i) − ln(R² − ‖x‖²)
//! ```
//!
//! One step is one round of m queries at the centre (an infeasible ellipsoid centre costs none). The method's point is the
//! centre after the last cut; who knows function values keeps the best centre that was queried. Its bound with exact
//! gradients: `gap ≤ 2LR·(volume factor)^{rounds/d}` with factor e^{−1/(2(d+1))} for the ellipsoid.

use rounds_numerics::dense::{ellipsoid_cut, solve_positive};

use super::geometry::{norm, project};
use super::pool::{GradientPool, PoolMethod};
use super::{ResqueError, Result, positive};
use crate::choices::choices;
use crate::state::StateVisitor;
use crate::vectors::{add_scaled, dot, map2};

/// Largest dimension of the matrix methods.
pub const MOST_DIMENSIONS: usize = 1_024;

/// Newton's steps to an analytic centre, at most.
const NEWTON_STEPS: usize = 60;
/// Hessians of a round, as counted on a9a and phishing: one of the start, and three Newton steps.
const HESSIANS: f64 = 4.0;

choices! {
    /// The centre that is queried.
    pub enum Centre {
        /// The ellipsoid's: 2d(d+1)·ln κ rounds, O(d²) work a round.
        Ellipsoid = "ellipsoid",
        /// The analytic centre of all cuts: O(d·ln²) rounds, Newton steps of O(d³) a round.
        Analytic = "analytic",
    }
}

/// The method's state.
#[derive(Clone, Debug)]
pub struct CuttingPlane {
    kind: Centre,
    domain_radius: f64,
    /// ε.
    accuracy: f64,
    batch: usize,
    rounds: u64,
    centre: Vec<f64>,
    /// d × d, row-major: the ellipsoid's P.
    shape: Vec<f64>,
    /// Normals (of norm 1) and offsets b of the cuts ⟨a, x⟩ ≤ b.
    cuts: Vec<(Vec<f64>, f64)>,
    /// The centre of the last query.
    queried: Vec<f64>,
    gradient: Vec<f32>,
}

impl CuttingPlane {
    /// A run for accuracy ε of an L-Lipschitz function on the ball of radius R, `batch` queries a round.
    ///
    /// # Errors
    /// A quantity not above 0, dimensions 0 or above [`MOST_DIMENSIONS`].
    pub fn for_accuracy(
        kind: Centre,
        dimension: usize,
        lipschitz: f64,
        domain_radius: f64,
        accuracy: f64,
        batch: usize,
    ) -> Result<Self> {
        if dimension == 0 || dimension > MOST_DIMENSIONS {
            return Err(ResqueError::TooManyQueries { needed: dimension as f64, limit: MOST_DIMENSIONS as f64 });
        }
        let d = dimension as f64;
        let condition =
            (2.0 * positive("L", lipschitz)? * positive("R", domain_radius)? / positive("ε", accuracy)?).max(2.0);
        let rounds = match kind {
            Centre::Ellipsoid => 2.0 * d * (d + 1.0) * condition.ln(),
            Centre::Analytic => 3.0 * d * condition.ln() + 8.0,
        };
        let mut shape = Vec::new();
        if kind == Centre::Ellipsoid {
            shape = vec![0.0; dimension * dimension];
            for j in 0..dimension {
                shape[j * dimension + j] = domain_radius * domain_radius;
            }
        }
        Ok(Self {
            kind,
            domain_radius,
            accuracy,
            batch: batch.max(1),
            rounds: rounds.ceil() as u64,
            centre: vec![0.0; dimension],
            shape,
            cuts: Vec::new(),
            queried: vec![0.0; dimension],
            gradient: vec![0.0; dimension],
        })
    }

    /// Newton's method on the barrier. The last centre lies on the new cut, of a gradient of this length, so the start is a step inside of it.
    fn recentre(&mut self, gradient: f64) {
        let dimension = self.centre.len();
        let radius_squared = self.domain_radius * self.domain_radius;
        let slack = |cut: &(Vec<f64>, f64), x: &[f64]| cut.1 - dot(&cut.0, x);
        let value = |cuts: &[(Vec<f64>, f64)], x: &[f64]| {
            let ball = -(radius_squared - dot(x, x)).ln();
            let total = cuts.iter().fold(ball, |total, cut| total - slack(cut, x).ln());
            if total.is_nan() { f64::INFINITY } else { total }
        };
        // The Hessian of the old barrier says how far one may go against the new normal: Dikin's ellipsoid.
        let old = self.cuts.len() - 1;
        let hessian = |cuts: &[(Vec<f64>, f64)], x: &[f64]| {
            let room = radius_squared - dot(x, x);
            let mut matrix = vec![0.0; dimension * dimension];
            for i in 0..dimension {
                for j in 0..=i {
                    matrix[i * dimension + j] = 4.0 * x[i] * x[j] / (room * room);
                }
                matrix[i * dimension + i] += 2.0 / room;
            }
            // Four cuts in a pass over the matrix, in their order; of a cut that is missing the weight is 0.
            for block in cuts.chunks(4) {
                let weights: [f64; 4] = std::array::from_fn(|k| block.get(k).map_or(0.0, |cut| slack(cut, x).powi(-2)));
                let normals: [&[f64]; 4] = std::array::from_fn(|k| &*block.get(k).unwrap_or(&block[0]).0);
                for i in 0..dimension {
                    let scaled: [f64; 4] = std::array::from_fn(|k| weights[k] * normals[k][i]);
                    let [a, b, c, d] = normals.map(|normal| &normal[..=i]);
                    for (j, entry) in matrix[i * dimension..=i * dimension + i].iter_mut().enumerate() {
                        *entry = *entry + scaled[0] * a[j] + scaled[1] * b[j] + scaled[2] * c[j] + scaled[3] * d[j];
                    }
                }
            }
            matrix
        };
        let newest = self.cuts[old].0.clone();
        let step = solve_positive(hessian(&self.cuts[..old], &self.centre), dimension, &newest);
        let length = dot(&step, &newest).max(f64::MIN_POSITIVE).sqrt();
        // In the norm of the Hessian all points of the cuts, x* among them, are within ν + 2√ν of their centre, ν = t + 1
        // (Nesterov and Nemirovskii 1994): F(c) − F* ≤ ⟨g, c − x*⟩ is at most ε, and the centre stays.
        let parameter = (old + 1) as f64;
        if gradient * length * (parameter + 2.0 * parameter.sqrt()) <= self.accuracy {
            self.cuts.pop();
            return;
        }
        let mut x = map2(&self.centre, &step, |c, s| c - 0.7 * s / length);
        // The cuts leave no room that f64 resolves: the centre stays.
        if value(&self.cuts, &x) == f64::INFINITY {
            return;
        }
        let mut last = f64::INFINITY;
        for _ in 0..NEWTON_STEPS {
            let room = radius_squared - dot(&x, &x);
            let mut slope: Vec<f64> = x.iter().map(|x| 2.0 * x / room).collect();
            for cut in &self.cuts {
                add_scaled(&mut slope, 1.0 / slack(cut, &x), &cut.0);
            }
            let direction = solve_positive(hessian(&self.cuts, &x), dimension, &slope);
            let decrement = dot(&slope, &direction);
            // Within a hundredth of Dikin's ellipsoid of the centre, or as near as rounding allows: full steps square the decrement.
            if decrement < 1e-4 || (decrement < 0.25 && decrement >= last) {
                break;
            }
            last = decrement;
            let here = value(&self.cuts, &x);
            // Damped Newton: 1/(1 + √decrement) always decreases a self-concordant barrier.
            let before = x.clone();
            let mut size = if decrement < 0.25 { 1.0 } else { 1.0 / (1.0 + decrement.sqrt()) };
            loop {
                let next = map2(&x, &direction, |x, d| x - size * d);
                if value(&self.cuts, &next) <= here || size < 1e-12 {
                    x = next;
                    break;
                }
                size *= 0.5;
            }
            // Rounding of the barrier's value refused every step: the next ones would be the same.
            if x == before {
                break;
            }
        }
        if x.iter().all(|x| x.is_finite()) {
            self.centre = x;
            project(&mut self.centre, self.domain_radius);
        }
    }

    /// Multiplications of a run, about: `m·d` for the queries of a round, d² for a cut of the ellipsoid; for an analytic centre after t cuts
    /// [`HESSIANS`] of `t·d²/2` and their solutions of `d³/6`, in the first third of the rounds: after it a centre was good enough on a9a and
    /// phishing. Where none is, nine times as many.
    pub fn multiplications(&self) -> f64 {
        let (d, rounds, batch) = (self.centre.len() as f64, self.rounds as f64, self.batch as f64);
        let cuts = rounds / 3.0;
        let centres = match self.kind {
            Centre::Ellipsoid => rounds * d * d,
            Centre::Analytic => cuts * HESSIANS * (0.25 * cuts * d * d + d * d * d / 6.0),
        };
        rounds * batch * d + centres
    }

    /// Planned rounds.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }
}

impl PoolMethod for CuttingPlane {
    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<()> {
        let offset = vec![0.0; self.centre.len()];
        pool.fetch(&self.centre, 0.0, self.batch)?;
        pool.reweighted_mean(0..self.batch, &offset, &mut self.gradient)?;
        self.queried.copy_from_slice(&self.centre);
        let normal: Vec<f64> = self.gradient.iter().map(|&g| f64::from(g)).collect();
        let length = norm(&normal);
        if 2.0 * self.domain_radius * length <= self.accuracy {
            // F(c) − F* ≤ ⟨g, c − x*⟩ ≤ 2R‖g‖: the centre is as good as asked, and it stays.
            return Ok(());
        }
        let normal: Vec<f64> = normal.iter().map(|g| g / length).collect();
        match self.kind {
            Centre::Ellipsoid => {
                ellipsoid_cut(&mut self.centre, &mut self.shape, &normal);
                while norm(&self.centre) > self.domain_radius {
                    let outwards = self.centre.clone();
                    ellipsoid_cut(&mut self.centre, &mut self.shape, &outwards);
                }
            }
            Centre::Analytic => {
                let bound = dot(&normal, &self.centre);
                self.cuts.push((normal, bound));
                self.recentre(length);
            }
        }
        Ok(())
    }

    fn iterate(&self) -> &[f64] {
        &self.centre
    }

    fn judged(&self) -> &[f64] {
        &self.queried
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f64s("cutting_plane_centre", &mut self.centre);
        visitor.f64s("cutting_plane_shape", &mut self.shape);
        visitor.f64s("cutting_plane_queried", &mut self.queried);
        let mut count = self.cuts.len() as u64;
        visitor.u64("cutting_plane_cuts", &mut count);
        self.cuts.resize(count as usize, (vec![0.0; self.centre.len()], 0.0));
        for (normal, bound) in &mut self.cuts {
            visitor.f64s("cutting_plane_normal", normal);
            visitor.f64s("cutting_plane_bound", std::slice::from_mut(bound));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::black_box::{BlackBox, BlackBoxOracle};
    use crate::resque::functions::MaxOfLinear;
    use rounds_kernels::random::StreamKey;

    #[test]
    fn both_centres_reach_the_accuracy_within_the_planned_rounds() {
        for kind in [Centre::Ellipsoid, Centre::Analytic] {
            for dimension in [1, 2, 10] {
                let function = MaxOfLinear::new(dimension, dimension, 1.0, 0.9).unwrap();
                let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(1));
                let accuracy = 1e-3;
                let mut run = CuttingPlane::for_accuracy(kind, dimension, 1.0, 1.0, accuracy, 1).unwrap();
                let mut gap = f64::INFINITY;
                for _ in 0..run.rounds() {
                    run.advance(&mut pool).unwrap();
                    gap = gap.min(function.value(run.judged()));
                }
                assert!(gap <= accuracy, "{kind:?} d = {dimension}: {gap}");
                assert_eq!(pool.ledger().rounds, run.rounds());
            }
        }
    }

    /// Once, where a gradient shows the accuracy, the centre is queried again and no cut is made: f(x) = ½‖x − (0.3, 0.3, 0.3)‖² with ε = 0.01, R = 1.
    #[test]
    fn a_centre_that_is_good_enough_stays() {
        struct Bowl;
        impl BlackBox for Bowl {
            type Answer = Vec<f32>;
            fn dimension(&self) -> usize {
                3
            }
            fn lipschitz(&self) -> f64 {
                2.0
            }
            fn query(&self, point: &[f32], _: u64) -> Vec<f32> {
                point.iter().map(|x| x - 0.3).collect()
            }
            fn add(&self, answer: &Vec<f32>, weight: f32, sum: &mut [f32]) -> bool {
                sum.iter_mut().zip(answer).for_each(|(sum, value)| *sum += weight * value);
                true
            }
            fn value(&self, point: &[f64]) -> f64 {
                0.5 * point.iter().map(|x| (x - 0.3).powi(2)).sum::<f64>()
            }
        }
        for kind in [Centre::Ellipsoid, Centre::Analytic] {
            let mut pool = BlackBoxOracle::new(&Bowl, Engine::default(), StreamKey::Simulation(1));
            let mut run = CuttingPlane::for_accuracy(kind, 3, 2.0, 1.0, 0.01, 1).unwrap();
            let mut moves = 0;
            for _ in 0..run.rounds() {
                let before = run.iterate().to_vec();
                run.advance(&mut pool).unwrap();
                moves += u64::from(before != run.iterate());
            }
            let gap = Bowl.value(run.iterate());
            assert!(gap <= 0.01 && 0 < moves && moves < run.rounds(), "{kind:?}: {gap} {moves} of {}", run.rounds());
            assert!((2.0 * gap).sqrt() <= 0.005, "the gradient shows it");
        }
    }

    #[test]
    fn in_one_dimension_the_ellipsoid_is_bisection() {
        let function = MaxOfLinear::new(1, 1, 1.0, 0.3).unwrap();
        let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(1));
        let mut run = CuttingPlane::for_accuracy(Centre::Ellipsoid, 1, 1.0, 1.0, 1e-3, 1).unwrap();
        let mut centres = Vec::new();
        for _ in 0..4 {
            centres.push(run.iterate()[0]);
            run.advance(&mut pool).unwrap();
        }
        assert_eq!(centres, [0.0, -0.5, -0.25, -0.375]);
    }

    #[test]
    fn the_solver_inverts() {
        let matrix = vec![4.0, 0.0, 0.0, 2.0, 5.0, 0.0, 1.0, 3.0, 6.0];
        let x = solve_positive(matrix, 3, &[1.0, -2.0, 0.5]);
        let full = [[4.0, 2.0, 1.0], [2.0, 5.0, 3.0], [1.0, 3.0, 6.0]];
        for (row, right) in full.iter().zip([1.0, -2.0, 0.5]) {
            assert!((dot(row, &x) - right).abs() < 1e-12);
        }
    }

    #[test]
    fn impossible_dimensions_are_refused() {
        for dimension in [0, MOST_DIMENSIONS + 1] {
            assert!(CuttingPlane::for_accuracy(Centre::Analytic, dimension, 1.0, 1.0, 0.1, 1).is_err());
        }
        assert!(CuttingPlane::for_accuracy(Centre::Analytic, 2, 1.0, 1.0, -0.1, 1).is_err());
    }
}
