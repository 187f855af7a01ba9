//! Private empirical risk minimisation [002 Theorem 3]: ball acceleration whose oracles are the private solvers of
//! [`super::private_ball`].
//!
//! ```text
//! ε_opt = C·LR(1/√n + √(d·ln(1/δ))·ln^{1.5}(n/δ)·ln n/(nε_dp)),  κ = LR/ε_opt,  ρ = ε_opt/(L√d),  K = (R/r)^{2/3}
//! T_1 = κ√d/(√K·β·ln²κ) + κ²/(K·ln³κ·ln(n/δ))        line search, Algorithm 7
//! T_2 = κ√d/(√K·β·√ln κ) + κ²/(K·ln κ)               ball optimisation, Algorithm 5
//! T_3 = κ√d/(√K·β) + κ²/K                            proximal estimate, Algorithm 6
//! ```
//!
//! **Honesty.** The proof's constants ask for ρ/r in the hundreds of thousands and for T/n ≤ 1/60 in every one of
//! thousands of calls, the deepest level of a proximal estimate included. [`Plan::faithful`] computes with the explicit
//! constants and refuses what they do not allow; [`first_feasible_examples`] says from which n on they do.
//! [`Plan::scaled`] takes the user's constants and carries no claim.

use rounds_kernels::random::StreamKey;

use super::acceleration::{AccelerationParameters, BallAcceleration, ProximalOracle};
use super::geometry::{squared_norm, widen};
use super::pool::{GradientPool, PoolMethod};
use super::private_ball::{Call, PrivateBall, PrivateBudget, PrivateSolver, levels_of_call};
use super::{ResqueError, Result, not_positive, positive};
use crate::choices::choices;
use crate::state::StateVisitor;

choices! {
    /// The treatment of the theory's constants.
    pub(crate) enum Mode {
        /// Every precondition checked; refused otherwise.
        Faithful = "faithful",
        /// Own constants and no privacy claim.
        Scaled = "scaled",
        /// Clipped, noised and accounted inner steps: a claim that rests on the accountant alone.
        DpPractical = "dp-practical",
    }
}

/// The problem a plan is made for; all of it public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    /// n.
    pub(crate) examples: f64,
    /// d.
    pub(crate) dimension: f64,
    /// L.
    pub(crate) lipschitz: f64,
    /// R.
    pub(crate) domain_radius: f64,
    /// ε_dp ∈ (0, 1).
    pub(crate) epsilon: f64,
    /// δ ∈ (0, 1/6).
    pub(crate) delta: f64,
}

/// A precondition of the proof that does not hold.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Infeasible {
    /// ε_dp or δ outside the theorem.
    #[error("the theorem needs ε in (0, 1) and δ in (0, 1/6), found ε = {epsilon} and δ = {delta}")]
    Budget {
        /// ε_dp.
        epsilon: f64,
        /// δ.
        delta: f64,
    },
    /// The error bound is no better than the start's.
    #[error("the error bound is {condition:.3} times below LR at n = {examples:.3e}: vacuous, it must be at least e")]
    Vacuous {
        /// κ.
        condition: f64,
        /// n.
        examples: f64,
    },
    /// Some call would read more than n/60 examples.
    #[error("a call would need {steps:.3e} gradients, and the subsampling proof allows n/60 = {limit:.3e}")]
    TooFewExamples {
        /// T_3.
        steps: f64,
        /// n/60.
        limit: f64,
    },
}

/// C_priv of a faithful plan: subsampling amplifies in the proof where T/n ≤ 1/60 [002 Lemma 6].
const FAITHFUL_SHARE: f64 = 60.0;

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
    /// C_priv: no solve of any level takes more than n/C_priv steps.
    pub(crate) privacy_constant: f64,
    /// Runs that the line search aggregates.
    pub(crate) runs: f64,
    /// ε that the composition proves; nothing for a scaled plan.
    pub(crate) epsilon: Option<f64>,
}

/// ε_opt of [002 (30)].
fn optimal_error(setting: &Setting, constant: f64) -> f64 {
    let (n, d, delta) = (setting.examples, setting.dimension, setting.delta);
    let privacy = (d * (1.0 / delta).ln()).sqrt() * (n / delta).ln().powf(1.5) * n.ln() / (n * setting.epsilon);
    constant * setting.lipschitz * setting.domain_radius * (1.0 / n.sqrt() + privacy)
}

/// [002 (32)–(34)] with `constant` for √C, rounded up to whole numbers of at least 4: two phases of a solve.
fn call_steps(condition: f64, balls: f64, beta: f64, setting: &Setting, constant: f64) -> [f64; 3] {
    let log = condition.ln().max(1.0);
    let noise = condition * setting.dimension.sqrt() / (balls.sqrt() * beta);
    let statistics = condition * condition / balls;
    let ratio = (setting.examples / setting.delta).ln();
    [
        constant * (noise / (log * log) + statistics / (log.powi(3) * ratio)),
        constant * (noise / log.sqrt() + statistics / log),
        constant * (noise + statistics),
    ]
    .map(|steps| steps.ceil().max(4.0))
}

impl Plan {
    /// Refuses a T above n/C_priv.
    pub(crate) fn check_steps(&self, examples: f64) -> Result<()> {
        let (steps, limit) = (self.steps.into_iter().fold(0.0, f64::max), examples / self.privacy_constant);
        if steps <= limit { Ok(()) } else { Err(ResqueError::StepsBeyondData { steps, limit }) }
    }

    /// j_max of Algorithm 6, the deepest level and the number of repetitions: 0 where not even one level fits, which only a
    /// scaled plan allows.
    pub(crate) fn most_levels(&self, examples: f64) -> u32 {
        PrivateSolver::most_levels(examples, self.privacy_constant, self.steps[2]).unwrap_or(0)
    }

    /// The plan that the proof covers, with the explicit constants of specification 7.4: the largest β whose composed
    /// privacy is at most (ε, δ).
    ///
    /// The utility proof's constants are larger than the 1 used here, so a plan that is refused is infeasible for the
    /// theorem too.
    pub(crate) fn faithful(setting: &Setting) -> Result<Self, Infeasible> {
        let Setting { examples: n, dimension: d, lipschitz, domain_radius, epsilon, delta } = *setting;
        if !(epsilon > 0.0 && epsilon < 1.0 && delta > 0.0 && delta < 1.0 / 6.0) {
            return Err(Infeasible::Budget { epsilon, delta });
        }
        let accuracy = optimal_error(setting, 1.0);
        let condition = lipschitz * domain_radius / accuracy;
        if condition.is_nan() || condition < std::f64::consts::E {
            return Err(Infeasible::Vacuous { condition, examples: n });
        }
        let smoothing = accuracy / (lipschitz * d.sqrt());
        // δ of each of at most n³ sub-calls; the composed failure probability is counted below through the same number.
        let call_delta = delta / (2.0 * (1.0 + epsilon.exp()) * n.powi(3));
        let radius = smoothing / (1_728.0 * (n.ln() / call_delta).ln().powi(2));
        let acceleration = AccelerationParameters { domain_radius, ball_radius: radius, accuracy, lipschitz };
        let balls = acceleration.balls();
        let iterations = acceleration.most_iterations() as f64;
        let trials = (acceleration.largest_regularization() / acceleration.smallest_regularization()).log2().max(1.0);
        let runs = (20.0 * (condition * iterations).ln()).ceil();
        // Algorithm 5's first sub-call has the largest β, by √(2 log2 n) at most.
        let growth = 2.0 * n.log2();
        let log_squared = (2.0 / call_delta).ln().powi(2);
        let largest_beta = (1.0 / (3.0 * 6_000.0 * log_squared * growth)).sqrt();
        let most_levels = n.log2();
        let proven = |beta: f64| {
            let [line_search, ball, proximal] = call_steps(condition, balls, beta, setting, 1.0);
            let squares = iterations
                * (trials * runs * line_search.powi(2)
                    + ball.powi(2)
                    + most_levels * (1.0 + 1.5 * most_levels * (n / delta).ln()) * proximal.powi(2));
            let rate = 13.0 * 1.44 / (n * n) * 6_000.0 * beta * beta * log_squared * squares;
            let largest_order = 3.0 / (6_000.0 * beta * beta * growth * log_squared);
            let order = (1.0 + ((2.0 / delta).ln() / rate).sqrt()).min(largest_order);
            rate * order + (2.0 / delta).ln() / (order - 1.0)
        };
        // ε grows with β; the steps fall with it: take the largest β that the budget allows.
        let mut beta = largest_beta;
        while proven(beta) > epsilon && beta > 1e-30 {
            beta *= 0.97;
        }
        let steps = call_steps(condition, balls, beta, setting, 1.0);
        if proven(beta) > epsilon || 2.0 * steps[2] > (n / FAITHFUL_SHARE).floor() {
            return Err(Infeasible::TooFewExamples { steps: 2.0 * steps[2], limit: n / FAITHFUL_SHARE });
        }
        Ok(Self {
            acceleration,
            smoothing,
            beta,
            steps,
            privacy_constant: FAITHFUL_SHARE,
            runs,
            epsilon: Some(proven(beta)),
        })
    }

    /// The same shape with the user's constants: `accuracy_constant` for C of ε_opt, `radius_ratio` for ρ/r ≥ 1,
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
        Ok(Self { acceleration, smoothing, beta, steps, privacy_constant: 1.0, runs: 1.0, epsilon: None })
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

/// The smallest n (to 1 %) from which on [`Plan::faithful`] finds a plan for the other values of `setting`; `None` if
/// none below 10³⁰ does.
pub(crate) fn first_feasible_examples(setting: &Setting) -> Option<f64> {
    let feasible = |examples: f64| Plan::faithful(&Setting { examples, ..*setting }).is_ok();
    let mut high = 1e3;
    while !feasible(high) {
        high *= 10.0;
        if high > 1e30 {
            return None;
        }
    }
    let mut low = high / 10.0;
    while high / low > 1.01 {
        let middle = (low * high).sqrt();
        if feasible(middle) { high = middle } else { low = middle }
    }
    Some(high)
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
        let runs = balls.plan.runs as usize;
        let samples = runs * PrivateSolver::strongly_convex_samples(budget);
        pool.fetch(centre, balls.plan.smoothing, samples)?;
        let mut call = Call { pool: *pool, ball: &ball, next: 0 };
        balls.solver.high_probability(&mut call, budget, runs, &mut balls.offset)?;
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

    const LAPTOP: Setting =
        Setting { examples: 6e4, dimension: 784.0, lipschitz: 1.0, domain_radius: 1.0, epsilon: 0.9, delta: 1e-6 };

    const SMALL: Setting = Setting { dimension: 20.0, ..LAPTOP };

    #[test]
    fn the_faithful_plan_is_refused_on_a_laptop_and_says_from_when_on_it_is_not() {
        assert!(Plan::faithful(&LAPTOP).is_err());
        let first = first_feasible_examples(&LAPTOP).unwrap();
        assert!(first > 1e9, "{first:e}");
        let examples = first;
        let plan = Plan::faithful(&Setting { examples, ..LAPTOP }).unwrap();
        assert!(plan.epsilon.unwrap() <= LAPTOP.epsilon);
        assert!(plan.smoothing / plan.acceleration.ball_radius > 1e5);
        // The deepest level of a proximal estimate keeps T/n ≤ 1/60, and one more would not.
        let deepest = plan.steps[2] * f64::powi(2.0, plan.most_levels(first) as i32);
        assert!(deepest <= first / 60.0 && 2.0 * deepest > first / 60.0, "{deepest:e} of {first:e}");
        assert!(plan.check_steps(first).is_ok() && plan.check_steps(50.0 * plan.steps[2]).is_err());
        assert!(plan.steps.iter().all(|steps| steps.fract() == 0.0));
        let smaller = first_feasible_examples(&SMALL).unwrap();
        assert!(smaller < first, "{smaller:e}");
    }

    #[test]
    fn each_precondition_names_itself() {
        let refused = |setting| Plan::faithful(&setting).unwrap_err();
        let (epsilon, delta) = (2.0, 0.2);
        for budget in [Setting { epsilon, ..LAPTOP }, Setting { delta, ..LAPTOP }] {
            assert!(matches!(refused(budget), Infeasible::Budget { .. }));
        }
        assert!(matches!(refused(LAPTOP), Infeasible::Vacuous { .. }));
        let more = Setting { examples: 1e8, ..SMALL };
        assert!(matches!(refused(more), Infeasible::TooFewExamples { .. }));
    }

    #[test]
    fn a_scaled_run_makes_progress_and_its_rounds_are_its_calls() {
        let planted = PlantedRegression::new(5, 2_000, 1.0, 0.05, 7);
        let function = planted.function();
        let setting = Setting { examples: 4_000.0, dimension: 5.0, epsilon: 0.9, ..LAPTOP };
        let constants = ScaledConstants { accuracy: 0.05, radius_ratio: 1.0, noise: 1.0, steps: 1.0 };
        let plan = Plan::scaled(&setting, &constants).unwrap();
        assert!(plan.epsilon.is_none());
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
