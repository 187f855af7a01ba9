//! Private solvers of a ball subproblem: [002 Algorithms 3–6] on pools of single-example reweighted gradients.
//!
//! ```text
//! T̂ = 2^⌊log2 T⌋, k = log2 T̂, η = (r′/L)·min(1/√T, β/√d);   phase i = 1 … k: T_i = 2^{−i}T̂, η_i = 4^{−i}η
//! y_j = Π_r((y_{j−1} + η_iμ·c − η_i·w·g_z(x̄ + ξ))/(1 + η_iμ)),   z ~ unif[n] with replacement, j = 1 … T_i
//! x_i = Π_r(ȳ + N(0, (Lη_i/β)²I))
//! ```
//!
//! with `(μ/2)‖v − c‖²` the regulariser: μ = 0 is Algorithm 3, c = 0 Algorithm 4.
//!
//! **Privacy** (replace-one; [002 Lemmas 5–7, Corollary 2], constants of specification 7.4). Two neighbouring data sets give
//! the same z and ξ; the runs part only where z picks the changed example. One step on the changed example moves y by at
//! most 2wη_iL, and every other step is, for ‖v‖ ≤ r ≪ ρ, nearly a contraction: the reweighted gradient of one convex
//! function differs between two points by a factor of order ‖y − y′‖/ρ with all moments bounded [Lemma 2], and composite
//! steps and projections do not expand. So ‖ȳ − ȳ′‖ = O(η_iL·ln(1/δ)) with probability 1 − δ, and the noise (Lη_i/β)
//! makes a phase a Gaussian mechanism with μ_G = O(β·ln(1/δ)), amplified by the rate T/n at which the example is drawn
//! at all: (α, 13s²τ_0α, δ)-RDP for α < 3/τ_0 with s = 1.2T/n and τ_0 = 6000β²ln²(2/δ), if ρ/r ≥ 1728·ln²(ln T/δ),
//! T/n ≤ 1/60 and τ_0 ≤ 1/3. [`crate::theory::ball_acceleration`] says from which n on these can hold; no run here has them, so none claims.
//! Projecting x_i is post-processing (the listing omits it, E19). Calls use samples of their own: composition needs
//! their randomness to be independent.

use rounds_kernels::random::{Purpose, StreamKey, UniformStream, add_gaussian};

use super::ball::check_regularization;
use super::geometry::{add, narrow, project_offset};
use super::multilevel::Levels;
use super::pool::GradientPool;
use super::{Result, not_positive, positive};

/// Streams of the noise on phase averages.
const RELEASE: Purpose = Purpose(0x5250_484e);

/// C of the expected gap `C·L·r′·(√d/(βT) + 1/√T)` [002 Corollary 2]; its proof gives 16, 1 is what runs show.
const GAP_CONSTANT: f64 = 1.0;

/// The parts of a call that do not change between its sub-calls.
#[derive(Clone, Debug)]
pub(super) struct PrivateBall {
    /// r: the ball that iterates stay in.
    pub(super) radius: f64,
    /// μ ≥ 0 of the regulariser (μ/2)‖v − c‖².
    pub(super) regularization: f64,
    /// c, an offset.
    pub(super) anchor: Vec<f32>,
    /// L.
    pub(super) lipschitz: f64,
}

/// A call: its pool, its ball, and the first sample that none of its sub-calls has read.
pub(super) struct Call<'c> {
    /// The pool.
    pub(super) pool: &'c mut dyn GradientPool,
    /// The ball.
    pub(super) ball: &'c PrivateBall,
    /// The sample.
    pub(super) next: usize,
}

/// Budget of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PrivateBudget {
    /// β > 0: noise is Lη/β; infinite for none.
    pub(super) beta: f64,
    /// T ≥ 2: at most T gradients.
    pub(super) steps: usize,
}

/// Runs the algorithms; owns the noise stream and the scratch memory.
pub(super) struct PrivateSolver {
    key: StreamKey,
    /// Noisy phase averages released so far: the address of the next one.
    pub(super) releases: u64,
    iterate: Vec<f32>,
    gradient: Vec<f32>,
    sum: Vec<f64>,
}

impl PrivateSolver {
    /// A solver whose noise comes from `key`.
    pub(super) fn new(key: StreamKey) -> Self {
        Self { key, releases: 0, iterate: Vec::new(), gradient: Vec::new(), sum: Vec::new() }
    }

    /// Samples that a call of at most T steps reads: T̂ − 1.
    pub(super) fn samples(steps: usize) -> usize {
        (1 << steps.max(2).ilog2()) - 1
    }

    /// Algorithms 3 and 4 from `solution` (whose distance to the optimum is at most `distance` > 0 in mean square), which
    /// they overwrite.
    pub(super) fn convex(
        &mut self,
        call: &mut Call<'_>,
        budget: PrivateBudget,
        distance: f64,
        solution: &mut [f32],
    ) -> Result<()> {
        let Call { pool, ball, next } = call;
        positive("distance r′", distance)?;
        positive("ball radius r", ball.radius)?;
        if budget.beta.is_nan() || budget.beta <= 0.0 {
            return not_positive("privacy parameter β", budget.beta);
        }
        let dimension = pool.dimension();
        let Self { key, releases, iterate, gradient, sum } = self;
        iterate.resize(dimension, 0.0);
        gradient.resize(dimension, 0.0);
        sum.resize(dimension, 0.0);
        let phases = budget.steps.max(2).ilog2();
        let step = distance / ball.lipschitz
            * (1.0 / (budget.steps as f64).sqrt()).min(budget.beta / (dimension as f64).sqrt());
        for phase in 1..=phases {
            let length = 1usize << (phases - phase);
            let step = step * f64::powi(0.25, phase as i32);
            let deviation = ball.lipschitz * step / budget.beta;
            let pull = step * ball.regularization;
            let shrink = (1.0 / (1.0 + pull)) as f32;
            iterate.copy_from_slice(solution);
            sum.fill(0.0);
            for _ in 0..length {
                pool.reweighted_mean(*next..*next + 1, iterate, gradient)?;
                *next += 1;
                for ((v, &g), &anchor) in iterate.iter_mut().zip(&*gradient).zip(&ball.anchor) {
                    *v = (*v - step as f32 * g + pull as f32 * anchor) * shrink;
                }
                project_offset(iterate, ball.radius);
                add(sum, 1.0, iterate);
            }
            for sum in sum.iter_mut() {
                *sum /= length as f64;
            }
            if deviation > 0.0 {
                add_gaussian(key, RELEASE, *releases, deviation, sum);
                *releases += 1;
            }
            narrow(solution, sum);
            project_offset(solution, ball.radius);
        }
        Ok(())
    }

    /// Sub-calls of Algorithm 5: k = ⌈log2 log2 T⌉ of them with β_{i−1} = 2^{(k−i+1)/2}β and T_{i−1} = 2^{i−1−k}T.
    pub(super) fn strongly_convex_budgets(budget: PrivateBudget) -> Vec<PrivateBudget> {
        let calls = (budget.steps.max(4) as f64).log2().log2().ceil().max(1.0) as i32;
        (1..=calls)
            .map(|i| PrivateBudget {
                beta: f64::powf(2.0, 0.5 * f64::from(calls - i + 1)) * budget.beta,
                steps: (budget.steps as f64 * f64::powi(2.0, i - 1 - calls)).max(2.0) as usize,
            })
            .collect()
    }

    /// Samples that Algorithm 5 reads.
    pub(super) fn strongly_convex_samples(budget: PrivateBudget) -> usize {
        let budgets = Self::strongly_convex_budgets(budget);
        budgets.iter().map(|budget| Self::samples(budget.steps)).sum()
    }

    /// Algorithm 5 from the projection of the anchor (Lemma 9), μ > 0: expected gap O((L²/μ)(d/(β²T²) + 1/T)).
    pub(super) fn strongly_convex(
        &mut self,
        call: &mut Call<'_>,
        budget: PrivateBudget,
        solution: &mut [f32],
    ) -> Result<()> {
        let ball = call.ball;
        check_regularization(ball.regularization)?;
        solution.copy_from_slice(&ball.anchor);
        project_offset(solution, ball.radius);
        let budgets = Self::strongly_convex_budgets(budget);
        let dimension = call.pool.dimension() as f64;
        let scale = ball.lipschitz * ball.lipschitz / ball.regularization;
        // E_i and D_i = 4E_i((2L²/μ)/(4E_0))^{1/2^i}, the 2^i-th root (printed as a square root, E20).
        let error = |budget: &PrivateBudget| {
            let steps = budget.steps as f64;
            let rate = dimension.sqrt() / (budget.beta * steps) + 1.0 / steps.sqrt();
            2.0 * GAP_CONSTANT * GAP_CONSTANT * scale * rate * rate
        };
        let ratio = 2.0 * scale / (4.0 * error(&budgets[0]));
        for (i, &budget) in budgets.iter().enumerate() {
            let gap = 4.0 * error(&budget) * ratio.powf(f64::powi(0.5, i as i32));
            let distance = (2.0 * ball.radius).min((2.0 * gap / ball.regularization).sqrt());
            self.convex(call, budget, distance, solution)?;
        }
        Ok(())
    }

    /// Budgets of level j of Algorithm 6: β_j = 2^{−j/2}β, T_j = 2^jT.
    pub(super) fn at_level(budget: PrivateBudget, level: u32) -> PrivateBudget {
        PrivateBudget { beta: budget.beta * f64::powf(2.0, -0.5 * f64::from(level)), steps: budget.steps << level }
    }

    /// j_max = ⌊log2(n/T)⌋ of Algorithm 6 with C_priv = 1; 0 where not even one level fits.
    pub(super) fn most_levels(examples: f64, steps: f64) -> u32 {
        // The cast of a negative logarithm is 0.
        (examples.floor() / steps).log2().floor() as u32
    }

    /// Samples that Algorithm 6 reads at these levels.
    pub(super) fn bias_reduced_samples(budget: PrivateBudget, levels: &Levels) -> usize {
        let at = |level| Self::strongly_convex_samples(Self::at_level(budget, level));
        let of_estimate = |&level: &u32| at(0) + if level > 0 { at(level) + at(level - 1) } else { 0 };
        levels.drawn.iter().map(of_estimate).sum()
    }

    /// Algorithm 6: the mean over the levels of `x_0 + 2^J(x_J − x_{J−1})`, every solve on samples of its own.
    pub(super) fn bias_reduced(
        &mut self,
        call: &mut Call<'_>,
        budget: PrivateBudget,
        levels: &Levels,
        estimate: &mut [f64],
    ) -> Result<()> {
        levels
            .combine(estimate, |_, level, solution| self.strongly_convex(call, Self::at_level(budget, level), solution))
    }
}

/// Streams of the levels of Algorithm 6.
pub(crate) fn levels_of_call(key: &StreamKey, call: u64, repetitions: usize, most: u32) -> Levels {
    let mut stream = UniformStream::new(key, Purpose(0x504c_4556), call, 0);
    Levels::draw(&mut stream, repetitions, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::ResqueError;
    use crate::resque::ball::Subproblem;
    use crate::resque::ball::tests::Quadratic;
    use crate::resque::black_box::BlackBoxOracle;
    use crate::resque::functions::LinearLoss;
    use crate::resque::geometry::squared_norm;
    use rounds_kernels::features::Rows;
    use rounds_kernels::loss::Loss;

    fn ball(regularization: f64, dimension: usize) -> PrivateBall {
        PrivateBall { radius: 0.2, regularization, anchor: vec![0.0; dimension], lipschitz: 1.0 }
    }

    fn call<'c>(pool: &'c mut dyn GradientPool, ball: &'c PrivateBall) -> Call<'c> {
        Call { pool, ball, next: 0 }
    }

    #[test]
    fn the_convex_gap_is_within_its_bound() {
        // One row (1, 0, …): f̂ depends on v_1 only. Gap ≤ L·r·(16√d/(βT) + 10.5/√T) in the mean [002 Lemma 4].
        for (dimension, beta, steps) in [(4usize, 0.5, 4_096usize), (30, 2.0, 1_024)] {
            let mut row = vec![0.0f32; dimension];
            row[0] = 1.0;
            let targets = [0.1f32];
            let rows = Rows::f32(&row, dimension);
            let function = LinearLoss::new(rows, &targets, Loss::Absolute).unwrap();
            let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(8));
            let mut solver = PrivateSolver::new(StreamKey::Simulation(9));
            let (ball, budget) = (ball(0.0, dimension), PrivateBudget { beta, steps });
            let smoothing = 0.2;
            let value = |v: f64| Loss::Absolute.convolved(v, 0.1f32.into(), smoothing).unwrap().0;
            let runs = 40;
            let mut gap = 0.0;
            for _ in 0..runs {
                let samples = PrivateSolver::samples(steps);
                pool.fetch(&vec![0.0; dimension], smoothing, samples).unwrap();
                let mut v = vec![0.0; dimension];
                let mut call = call(&mut pool, &ball);
                solver.convex(&mut call, budget, ball.radius, &mut v).unwrap();
                assert!(squared_norm(&v).sqrt() <= ball.radius * 1.000_01);
                gap += (value(f64::from(v[0])) - value(0.1)) / f64::from(runs);
            }
            let t = steps as f64;
            let bound = ball.radius * (16.0 * (dimension as f64).sqrt() / (beta * t) + 10.5 / t.sqrt());
            assert!(gap <= bound && gap > -1e-6, "{gap} for {bound}");
            assert_eq!(solver.releases, 40 * u64::from(steps.ilog2()));
        }
    }

    #[test]
    fn the_noise_of_a_phase_has_its_deviation() {
        // Zero gradients (curvature 0): the first phase's release is pure noise around 0. With two phases the release of
        // the second adds to the first's.
        let mut pool = Quadratic::new(vec![0.0; 20_000], 0.0);
        let mut solver = PrivateSolver::new(StreamKey::Simulation(4));
        let ball = PrivateBall { radius: 1e9, ..ball(0.0, 20_000) };
        let budget = PrivateBudget { beta: 0.01, steps: 4 };
        let mut v = vec![0.0; 20_000];
        solver.convex(&mut call(&mut pool, &ball), budget, 1.0, &mut v).unwrap();
        let step = (0.5f64).min(0.01 / 20_000f64.sqrt());
        let expected = (step / 0.01).powi(2) * (1.0 / 16.0 + 1.0 / 256.0);
        let variance = squared_norm(&v) / 20_000.0;
        assert!((variance / expected - 1.0).abs() < 0.05, "{variance} for {expected}");
    }

    #[test]
    fn without_noise_the_strongly_convex_solver_approaches_the_optimum() {
        let mut pool = Quadratic::new(vec![0.1, -0.05, 0.02], 1.0);
        let mut solver = PrivateSolver::new(StreamKey::Simulation(4));
        let mut ball = ball(0.5, 3);
        let (beta, steps) = (f64::INFINITY, 1 << 14);
        let budget = PrivateBudget { beta, steps };
        let mut v = vec![0.0; 3];
        solver.strongly_convex(&mut call(&mut pool, &ball), budget, &mut v).unwrap();
        let exact = pool.exact(&Subproblem::new(0.5, 0.2, 1.0).unwrap());
        let squares = exact.iter().zip(&v).map(|(a, &b)| (a - f64::from(b)).powi(2));
        assert!(squares.sum::<f64>().sqrt() < 0.01, "{v:?} for {exact:?}");
        assert_eq!(solver.releases, 0);
        // A regulariser around another point moves the optimum to (m·t + μ·c)/(m + μ).
        ball.anchor = vec![-0.1, 0.1, 0.0];
        let mut call = call(&mut pool, &ball);
        solver.strongly_convex(&mut call, budget, &mut v).unwrap();
        let expected = [(0.1 - 0.05) / 1.5, 0.0, 0.02 / 1.5];
        let near = |v: &[f32]| v.iter().zip(expected).all(|(&v, e)| (f64::from(v) - e).abs() < 0.01);
        assert!(near(&v), "{v:?}");
        let levels = levels_of_call(&StreamKey::Simulation(1), 0, 3, 2);
        let mut estimate = vec![0.0; 3];
        solver.bias_reduced(&mut call, budget, &levels, &mut estimate).unwrap();
        // Every solve read samples of its own.
        let solves = PrivateSolver::strongly_convex_samples(budget);
        assert_eq!(call.next, solves + PrivateSolver::bias_reduced_samples(budget, &levels));
        let near = estimate.iter().zip(expected).all(|(v, e)| (v - e).abs() < 0.03);
        assert!(near, "{estimate:?}");
    }

    #[test]
    fn budgets_double_their_privacy_cost_up_to_half_of_the_whole() {
        let (beta, steps) = (0.1, 1 << 16);
        let budget = PrivateBudget { beta, steps };
        let budgets = PrivateSolver::strongly_convex_budgets(budget);
        assert_eq!(budgets.len(), 4);
        let costs: Vec<f64> = budgets.iter().map(|b| (b.beta * b.steps as f64).powi(2)).collect();
        assert!(costs.windows(2).all(|pair| (pair[1] / pair[0] - 2.0).abs() < 1e-9));
        assert!((costs[3] / (0.1 * 65_536.0f64).powi(2) - 0.5).abs() < 1e-9);
        assert!(PrivateSolver::strongly_convex_samples(budget) <= budget.steps);
    }

    #[test]
    fn too_many_steps_and_missing_regularisation_are_refused() {
        let levels = |steps| PrivateSolver::most_levels(1_000.0, steps);
        assert_eq!([100.0, 501.0, 1_002.0].map(levels), [3, 0, 0]);
        let mut pool = Quadratic::new(vec![0.0], 1.0);
        let mut solver = PrivateSolver::new(StreamKey::Simulation(4));
        let budget = PrivateBudget { beta: 1.0, steps: 8 };
        let refused = solver.strongly_convex(&mut call(&mut pool, &ball(0.0, 1)), budget, &mut [0.0]);
        assert!(matches!(refused, Err(ResqueError::NotPositive { .. })));
        let none = PrivateBudget { beta: 0.0, steps: 8 };
        let refused = solver.convex(&mut call(&mut pool, &ball(1.0, 1)), none, 1.0, &mut [0.0]);
        assert_eq!(refused, not_positive("privacy parameter β", 0.0));
    }
}
