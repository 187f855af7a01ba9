//! EpochSGD as a ball oracle of one query round [002 Algorithm 1, Proposition 3].
//!
//! ```text
//! η_1 = 1/(4λ), T_1 = 16, T = ⌈48L²/(λφ)⌉;   per epoch k with ΣT_j ≤ T:
//! v^1     = Π_r(v_k^0/(1 + η_kλ))
//! v^{t+1} = Π_r((v^t − η_k·w(v^t, ξ_i)·g_i)/(1 + η_kλ)),   i = Σ_{j<k}T_j + t, t = 1 … T_k − 1
//! v_{k+1}^0 = (1/T_k)·Σ_t v^t,  T_{k+1} = 2T_k,  η_{k+1} = η_k/2
//! ```
//!
//! The listing draws 2T samples; indices never pass the last complete epoch's end, so exactly those are fetched. For
//! T < 16 one epoch is run all the same: the centre itself is no φ-solution.

use super::Result;
use super::ball::{BallSolver, Plan, Subproblem, sample_size};
use super::geometry::{add, project_offset, widen};
use super::pool::GradientPool;

/// First epoch's length T_1.
const FIRST_EPOCH: usize = 16;

/// The solver; `sample_constant` is the 48 of T (the theory's; smaller ones are practical choices and give up its bound).
#[derive(Clone, Debug)]
pub(super) struct EpochSgd {
    sample_constant: f64,
    iterate: Vec<f32>,
    gradient: Vec<f32>,
    sum: Vec<f64>,
}

impl EpochSgd {
    /// With T = ⌈constant·L²/(λφ)⌉.
    pub(super) fn new(sample_constant: f64) -> Result<Self> {
        super::positive("sample constant", sample_constant)?;
        Ok(Self { sample_constant, iterate: Vec::new(), gradient: Vec::new(), sum: Vec::new() })
    }

    /// Epochs that fit into T: T_1(2^k − 1) ≤ T, at least one.
    fn epochs(&self, subproblem: &Subproblem, lipschitz: f64) -> Result<u32> {
        let steps = sample_size(
            self.sample_constant * lipschitz * lipschitz / (subproblem.regularization * subproblem.accuracy),
        )?;
        Ok(((steps / FIRST_EPOCH + 1) as f64).log2().floor().max(1.0) as u32)
    }
}

impl BallSolver for EpochSgd {
    fn plan(&self, subproblem: &Subproblem, lipschitz: f64, _smoothing: f64) -> Result<Plan> {
        let samples = FIRST_EPOCH * ((1 << self.epochs(subproblem, lipschitz)?) - 1);
        Ok(Plan { samples, depth: samples as u64 })
    }

    fn solve(
        &mut self,
        pool: &mut dyn GradientPool,
        first: usize,
        subproblem: &Subproblem,
        _smoothing: f64,
        solution: &mut [f32],
    ) -> Result<()> {
        let epochs = self.epochs(subproblem, pool.lipschitz())?;
        let Subproblem { regularization, radius, .. } = *subproblem;
        let dimension = pool.dimension();
        let Self { iterate, gradient, sum, .. } = self;
        iterate.resize(dimension, 0.0);
        gradient.resize(dimension, 0.0);
        sum.resize(dimension, 0.0);
        solution.fill(0.0);
        let (mut length, mut step, mut sample) = (FIRST_EPOCH, 0.25 / regularization, first);
        for _ in 0..epochs {
            let shrink = (1.0 / (1.0 + step * regularization)) as f32;
            iterate.iter_mut().zip(&*solution).for_each(|(v, &start)| *v = start * shrink);
            project_offset(iterate, radius);
            widen(sum, iterate);
            for t in 1..length {
                pool.reweighted_mean(sample + t - 1..sample + t, iterate, gradient)?;
                for (v, &g) in iterate.iter_mut().zip(&*gradient) {
                    *v = (*v - step as f32 * g) * shrink;
                }
                project_offset(iterate, radius);
                add(sum, 1.0, iterate);
            }
            for (solution, &sum) in solution.iter_mut().zip(&*sum) {
                *solution = (sum / length as f64) as f32;
            }
            sample += length;
            length *= 2;
            step *= 0.5;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::ResqueError;
    use crate::resque::black_box::{BlackBox, BlackBoxOracle};
    use crate::resque::functions::LinearLoss;
    use rounds_kernels::features::Rows;
    use rounds_kernels::loss::Loss;
    use rounds_kernels::random::StreamKey;

    #[test]
    fn the_mean_gap_of_two_hundred_solves_is_at_most_phi() {
        // f = |x_1 − 0.1| in d = 3: the subproblem separates; its optimum by bisection on the closed-form slope.
        let (row, targets) = ([1.0f32, 0.0, 0.0], [0.1f32]);
        let function = LinearLoss::new(Rows::f32(&row, 3), &targets, Loss::Absolute).unwrap();
        let radius = 0.2;
        let subproblem = Subproblem::new(2.0, radius, 0.01).unwrap();
        let objective = |v: &[f32]| {
            let convolved = Loss::Absolute.convolved(f64::from(v[0]), 0.1f32.into(), radius);
            convolved.unwrap().0 + crate::resque::geometry::squared_norm(v)
        };
        let (mut low, mut high) = (0.0, radius);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            let slope = Loss::Absolute.convolved(middle, 0.1f32.into(), radius).unwrap().1 + 2.0 * middle;
            if slope > 0.0 { high = middle } else { low = middle }
        }
        let best = objective(&[low as f32, 0.0, 0.0]);
        let mut solver = EpochSgd::new(48.0).unwrap();
        let mut oracle = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(5));
        let plan = solver.plan(&subproblem, function.lipschitz(), radius).unwrap();
        assert_eq!(plan.samples, 16 * 127, "T = 2400 holds seven epochs");
        let mut total = 0.0;
        for _ in 0..200 {
            oracle.fetch(&[0.0; 3], radius, plan.samples).unwrap();
            let mut v = [0.0; 3];
            solver.solve(&mut oracle, 0, &subproblem, radius, &mut v).unwrap();
            total += objective(&v) - best;
        }
        let mean = total / 200.0;
        assert!(mean <= subproblem.accuracy && total > -1e-6, "{mean}");
        assert_eq!(oracle.ledger().rounds, 200);
    }

    #[test]
    fn constants_that_are_not_positive_and_rounds_beyond_memory_are_refused() {
        let zero = |quantity| ResqueError::NotPositive { quantity, value: 0.0 };
        assert_eq!(EpochSgd::new(0.0).err(), Some(zero("sample constant")));
        let too_many = ResqueError::TooManyQueries { needed: 48.0 / (1e-9 * 1e-9), limit: f64::from(1 << 27) };
        let expected = zero("regularisation λ (the solvers of a ball divide by it)");
        assert_eq!(Subproblem::new(0.0, 1.0, 1.0), Err(expected));
        let tiny = Subproblem::new(1e-9, 1.0, 1e-9).unwrap();
        let refused = EpochSgd::new(48.0).unwrap().plan(&tiny, 1.0, 1.0);
        assert_eq!(refused, Err(too_many));
    }
}
