//! Private empirical risk minimisation [002 Theorem 3]: ball acceleration whose oracles are the private solvers of
//! [`super::private_ball`].
//!
//! ```text
//! ε_opt = C·LR(1/√n + √(d·ln(1/δ))·ln^{1.5}(n/δ)·ln n/(nε_dp)),  κ = LR/ε_opt,  ρ = ε_opt/(L√d),  K = (R/r)^{2/3}
//! T_1 = κ√d/(√K·β·ln²κ) + κ²/(K·ln³κ·ln(n/δ))        line search, one run of Algorithm 5 for the 20·ln(1/ζ) of Algorithm 7
//! T_2 = κ√d/(√K·β·√ln κ) + κ²/(K·ln κ)               ball optimisation, Algorithm 5
//! T_3 = κ√d/(√K·β) + κ²/K                            proximal estimate, Algorithm 6
//! ```
//!
//! A plan takes the user's constants and carries no claim: those of the proof need more examples than exist
//! ([`crate::theory::ball_acceleration::first_feasible_examples`]).

use rounds_kernels::random::StreamKey;

use super::acceleration::{BallAcceleration, ProximalOracle};
use super::geometry::{squared_norm, widen};
use super::pool::{GradientPool, PoolMethod};
use super::private_ball::{Call, PrivateBall, PrivateBudget, PrivateSolver, levels_of_call};
use super::{ResqueError, Result, not_positive, positive};
use crate::choices::choices;
use crate::state::StateVisitor;
use crate::theory::ball_acceleration::{AccelerationParameters, Setting, call_steps, optimal_error};

choices! {
    /// The guarantee of a run.
    pub(crate) enum Mode {
        /// Own constants and no privacy claim.
        Scaled = "scaled",
        /// Clipped, noised and accounted inner steps: a claim that rests on the accountant alone.
        DpPractical = "dp-practical",
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plan {
    /// R, r, ε_opt and L.
    pub(crate) acceleration: AccelerationParameters,
    /// ρ.
    pub(crate) smoothing: f64,
    /// β.
    pub(crate) beta: f64,
    /// T_1, T_2, T_3, whole numbers.
    pub(crate) steps: [f64; 3],
}

impl Plan {
    /// Refuses a T above n.
    pub(crate) fn check_steps(&self, examples: f64) -> Result<()> {
        let (steps, limit) = (self.steps.into_iter().fold(0.0, f64::max), examples);
        if steps <= limit { Ok(()) } else { Err(ResqueError::StepsBeyondData { steps, limit }) }
    }

    /// j_max of Algorithm 6, the deepest level and the number of repetitions: 0 where not even one level fits.
    pub(crate) fn most_levels(&self, examples: f64) -> u32 {
        PrivateSolver::most_levels(examples, self.steps[2])
    }

    /// The shape of the theorem with the user's constants: `accuracy_constant` for C of ε_opt, `radius_ratio` for ρ/r ≥ 1,
    /// `noise_constant` for β = ε_dp·constant and `steps_constant` for √C of the T_i. Carries no privacy claim.
    ///
    /// # Errors
    /// A constant not above 0, ρ/r below 1, r > R.
    pub(crate) fn scaled(setting: &Setting, constants: &ScaledConstants) -> Result<Self> {
        let accuracy = optimal_error(setting, positive("accuracy constant", constants.accuracy)?)
            .min(setting.lipschitz * setting.domain_radius / std::f64::consts::E);
        if constants.radius_ratio.is_nan() || constants.radius_ratio < 1.0 {
            return not_positive("ρ/r − 1", constants.radius_ratio - 1.0);
        }
        let smoothing = accuracy / (setting.lipschitz * setting.dimension.sqrt());
        let acceleration = AccelerationParameters {
            domain_radius: setting.domain_radius,
            ball_radius: smoothing / constants.radius_ratio,
            accuracy,
            lipschitz: setting.lipschitz,
        };
        acceleration.check()?;
        let beta = setting.epsilon * positive("noise constant", constants.noise)?;
        let (condition, balls) = (acceleration.condition(), acceleration.balls());
        let steps = positive("steps constant", constants.steps)?;
        let steps = call_steps(condition, balls, beta, setting, steps);
        Ok(Self { acceleration, smoothing, beta, steps })
    }
}

/// Constants of a scaled plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScaledConstants {
    /// C of ε_opt.
    pub(crate) accuracy: f64,
    /// ρ/r.
    pub(crate) radius_ratio: f64,
    /// β/ε_dp.
    pub(crate) noise: f64,
    /// √C of the T_i.
    pub(crate) steps: f64,
}

/// A run of a plan from a start; [`PrivateErm::advance`] is one adaptive round: all examples, points and levels of an
/// oracle call are drawn before its first query.
pub(crate) struct PrivateErm {
    acceleration: BallAcceleration,
    balls: PrivateBalls,
}

/// The ball solves of a run: its state but for the iterates.
struct PrivateBalls {
    plan: Plan,
    solver: PrivateSolver,
    key: StreamKey,
    calls: u64,
    examples: usize,
    /// Regulariser (λ/2)‖x − x_0‖² of localisation [002 Corollary 3], x_0 the start.
    regularizer: Option<(f64, Vec<f64>)>,
    offset: Vec<f32>,
}

impl PrivateErm {
    /// A run of `plan` from `start` on `examples` rows, with the λ of a regulariser around the start.
    pub(crate) fn new(
        plan: Plan,
        examples: usize,
        start: Vec<f64>,
        regularization: Option<f64>,
        key: StreamKey,
    ) -> Result<Self> {
        plan.check_steps(examples as f64)?;
        let balls = PrivateBalls {
            plan,
            solver: PrivateSolver::new(key.clone()),
            key,
            calls: 0,
            examples,
            regularizer: regularization.map(|regularization| (regularization, start.clone())),
            offset: vec![0.0; start.len()],
        };
        let acceleration = BallAcceleration::new(plan.acceleration, start)?;
        Ok(Self { acceleration, balls })
    }

    /// Moves all streams behind those of `index` earlier runs with the same key (a run draws far below 2³² of each).
    pub(crate) fn skip_streams(&mut self, index: u64) {
        self.balls.calls = index << 32;
        self.balls.solver.releases = index << 32;
    }
}

impl PoolMethod for PrivateErm {
    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<()> {
        let balls = &mut self.balls;
        self.acceleration.advance(&mut PrivateOracle { balls, pool })
    }

    fn iterate(&self) -> &[f64] {
        self.acceleration.iterate()
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("resque_calls", &mut self.balls.calls);
        visitor.u64("resque_releases", &mut self.balls.solver.releases);
        self.acceleration.visit_state(visitor);
        if let Some((_, anchor)) = &mut self.balls.regularizer {
            anchor.copy_from_slice(&self.acceleration.progress.start);
        }
    }
}

/// `(λ/2)‖v‖² + (λ′/2)‖x̄ + v − x′‖²` as `(μ/2)‖v − c‖²` up to a constant: μ = λ + λ′, c = λ′(x′ − x̄)/μ.
pub(crate) fn combine(regularizer: Option<&(f64, Vec<f64>)>, centre: &[f64], regularization: f64) -> (f64, Vec<f32>) {
    match regularizer {
        None => (regularization, vec![0.0; centre.len()]),
        Some((extra, anchor)) => {
            let share = extra / (extra + regularization);
            let offset = anchor.iter().zip(centre).map(|(to, from)| (share * (to - from)) as f32);
            (regularization + extra, offset.collect())
        }
    }
}

impl PrivateBalls {
    fn ball(&self, centre: &[f64], regularization: f64) -> PrivateBall {
        let (regularization, anchor) = combine(self.regularizer.as_ref(), centre, regularization);
        PrivateBall {
            radius: self.plan.acceleration.ball_radius,
            regularization,
            anchor,
            lipschitz: self.plan.acceleration.lipschitz,
        }
    }

    fn budget(&self, call: usize) -> Result<PrivateBudget> {
        let steps = super::ball::sample_size(self.plan.steps[call])?;
        Ok(PrivateBudget { beta: self.plan.beta, steps })
    }
}

struct PrivateOracle<'s, 'p> {
    balls: &'s mut PrivateBalls,
    pool: &'p mut dyn GradientPool,
}

impl ProximalOracle for PrivateOracle<'_, '_> {
    fn distance(&mut self, centre: &[f64], regularization: f64) -> Result<f64> {
        let Self { balls, pool } = self;
        let (ball, budget) = (balls.ball(centre, regularization), balls.budget(0)?);
        pool.fetch(centre, balls.plan.smoothing, PrivateSolver::strongly_convex_samples(budget))?;
        let mut call = Call { pool: *pool, ball: &ball, next: 0 };
        balls.solver.strongly_convex(&mut call, budget, &mut balls.offset)?;
        Ok(squared_norm(&balls.offset).sqrt())
    }

    fn step(&mut self, centre: &[f64], regularization: f64, solution: &mut [f64], proximal: &mut [f64]) -> Result<()> {
        let Self { balls, pool } = self;
        let ball = balls.ball(centre, regularization);
        let (step, estimate) = (balls.budget(1)?, balls.budget(2)?);
        let most = balls.plan.most_levels(balls.examples as f64);
        let levels = levels_of_call(&balls.key, balls.calls, most.max(1) as usize, most);
        balls.calls += 1;
        let of_step = PrivateSolver::strongly_convex_samples(step);
        let samples = of_step + PrivateSolver::bias_reduced_samples(estimate, &levels);
        pool.fetch(centre, balls.plan.smoothing, samples)?;
        let mut call = Call { pool: *pool, ball: &ball, next: 0 };
        balls.solver.strongly_convex(&mut call, step, &mut balls.offset)?;
        widen(solution, &balls.offset);
        balls.solver.bias_reduced(&mut call, estimate, &levels, proximal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::black_box::{BlackBox, BlackBoxOracle};
    use crate::resque::functions::PlantedRegression;

    #[test]
    fn a_scaled_run_makes_progress_and_its_rounds_are_its_calls() {
        let planted = PlantedRegression::new(5, 2_000, 1.0, 0.05, 7);
        let function = planted.function();
        let setting = Setting {
            examples: 4_000.0,
            dimension: 5.0,
            lipschitz: 1.0,
            domain_radius: 1.0,
            epsilon: 0.9,
            delta: 1e-6,
        };
        let constants = ScaledConstants { accuracy: 0.05, radius_ratio: 1.0, noise: 1.0, steps: 1.0 };
        let plan = Plan::scaled(&setting, &constants).unwrap();
        let key = StreamKey::Simulation(3);
        let mut pool = BlackBoxOracle::new(&function, Engine::default(), key.clone());
        let mut run = PrivateErm::new(plan, 4_000, vec![0.0; 5], None, key).unwrap();
        let start = function.value(run.iterate()) - planted.minimum;
        let mut rounds = 0;
        while !run.acceleration.progress.finished() && rounds < 400 {
            run.advance(&mut pool).unwrap();
            rounds += 1;
        }
        let gap = function.value(run.iterate()) - planted.minimum;
        assert!(gap < 0.9 * start, "{gap} from {start}, {plan:?}");
        assert_eq!(pool.ledger().rounds, rounds);
        for (radius_ratio, noise) in [(0.5, 1.0), (1.0, 0.0)] {
            let bad = ScaledConstants { radius_ratio, noise, ..constants };
            assert!(Plan::scaled(&setting, &bad).is_err());
        }
    }
}
