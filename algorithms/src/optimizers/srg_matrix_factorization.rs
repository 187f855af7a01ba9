//! DP-SRG-MEMF ([000 Algorithm 3]): stochastic recursive gradients with a multi-epoch factorisation.
//!
//! ```text
//! D_t = (Σ_{i ∈ B_t} clip(∇f(x_t; d_i) − c_t·∇f(x_{t−1}; d_i), C) + (C_s⁻¹ Z)_t) / B,     c_1 = 0
//! g_t = c_t·g_{t−1} + D_t
//! v_t = β·v_{t−1} + g_t,     x_{t+1} = x_t − η_t·v_t
//! ```
//!
//! Line 7 of the listing adds the noise a second time to g_t; D_t is the private release and g_t post-processing of it,
//! so g_t itself is used. `paper-line-7=true` steps as printed, by g_t + (C_s⁻¹Z)_t/B: 3.8 times the energy of the noise at
//! c = e^{−5/2}.
//! c_t < 1 weighs the *past* down: c_t = η_{t−1}/η_t for growing η_t, η_t = c^{−t} where it is constant.
//!
//! **Privacy.** As in [`super::matrix_factorization`], of the rows D_t: an example takes part in one difference a round
//! of its batch, and the difference is clipped as one, so zeroing the example changes that row by at most C whatever
//! the loss, convex or not. Workload: S (`ones`), or S·diag(η)·M·L with the step sizes, the momentum
//! and the decays of the run (`true`).
//!
//! As printed, the steps are those of L·(D + (I + L⁻¹)·C_s⁻¹Z), a Gaussian mechanism with the strategy
//! C_s·(I + L⁻¹)⁻¹ = ½·Σ_k (c/2)^k·C_s·P^k, P the shift by a round. C_s·P^k has the columns of C_s k rounds later, those of one
//! pattern again, so its sensitivity is at most sens(C_s), and that of the sum sens(C_s)/(2 − c): the stated guarantee holds. In
//! integers it does not, where doubled noise is even and shows the parity of D: with a release key nothing is claimed.

use rounds_kernels::linear::Point;

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::dp_sgd::PrivateSteps;
use super::matrix_factorization::{WorkloadKind, tenth, whole_epochs};
use super::noisy_sums::{Iteration, NoisySums, Release};
use super::parameters::{BATCHES, NOISE, PRIVACY, STEPS, parameters};
use super::plan;
use super::scene::Scene;
use super::schedule::{Decay, LearningRateSchedule};
use super::settings::SettingsError;
use super::sgd::Iterates;
use crate::factorization::WorkloadSpecification;
use crate::noise::NoiseKind;
use crate::state::StateVisitor;

parameters! {
    /// Parameters of the recursion.
    struct Recursion: Clone {
        /// c_t of g_t = c_t·g_{t−1} + D_t: a constant, η_{t−1}/η_t of the learning-rate schedule, or a value a round
        decay: Decay = Decay::Constant((-2.5_f64).exp()),
        /// Workload of the factorisation: S·diag(η)·M·L with step sizes, momentum and decay, or prefix sums S
        workload: WorkloadKind = WorkloadKind::True,
        /// Steps with the noise added a second time, as line 7 of the paper's listing prints it
        paper_line_7: bool = false,
    }
}

pub(super) static DP_SRG_MEMF: Algorithm = Algorithm {
    id: "dp-srg-memf",
    name: "DP-SRG-MEMF",
    source: "[000 Algorithm 3]",
    promise: "(ε, δ)-DP without sampling assumptions, by correlated noise on clipped gradient differences",
    private: true,
    release: true,
    common: &[BATCHES, STEPS, PRIVACY, NOISE],
    scenes: &[Scene::FIXED],
    constructor: &Reads(prepare),
};

fn prepare(run: &Run<'_>, own: Recursion) -> Result<Prepared, PrepareError> {
    let Recursion { decay, workload: kind, paper_line_7 } = own;
    let plan = whole_epochs(run, tenth(run), 5.0)?;
    let momentum = run.common.momentum.unwrap_or(0.9);
    let steps = match decay {
        Decay::StepRatio => PrivateSteps::constant(),
        _ => PrivateSteps::of_correlated(run, &Iterates::default(), NoiseKind::Blt(3)),
    };
    let schedule = run.common.learning_rate_schedule.clone().unwrap_or_else(|| steps.schedule.clone());
    schedule.check(plan.rounds)?;
    let decays = decay.sequence(&schedule, plan.rounds)?;
    if paper_line_7 && !matches!(decay, Decay::Constant(_)) {
        let reason = "steps as printed with a constant decay alone, for which the guarantee is shown";
        return Err(SettingsError::unsupported("paper-line-7", true, run.id, reason).into());
    }
    let mut workload = WorkloadSpecification::prefix();
    if kind == WorkloadKind::True {
        if momentum > 0.0 {
            workload = workload.with_momentum(momentum);
        }
        workload = match decay {
            Decay::Constant(0.0) => workload,
            Decay::Constant(decay) => workload.with_decay(decay),
            Decay::StepRatio | Decay::Sequence(_) => workload.with_decays(decays.clone()),
        };
        workload = plan::scheduled(run, &steps.schedule, plan.rounds, workload)?;
    }
    let noise = plan.correlated_noise(run, (NoiseKind::Blt(3), workload), plan::clip_norm(run, steps.clip_norm)?)?;
    let rate = steps.rate_of_correlated(run, &plan, momentum, &noise);
    let learning_rate = run.common.learning_rate.unwrap_or(rate);
    let mut sums = NoisySums::new(run, &plan, Some(noise))?;
    if paper_line_7 {
        sums = sums.telling_noise();
    }
    let dimension = run.problem.parameters();
    let iteration = SrgMatrixFactorization {
        decays: decays.iter().map(|&decay| decay as f32).collect(),
        momentum: momentum as f32,
        learning_rate,
        schedule,
        rounds: plan.rounds as u64,
        iterate: run.initial()?,
        previous: vec![0.0; dimension],
        recursive: vec![0.0; dimension],
        velocity: vec![0.0; dimension],
    };
    let differences = iteration.takes_differences();
    let falls = run.common.learning_rate_schedule.is_none() && iteration.schedule == LearningRateSchedule::Linear;
    let mut prepared = sums.prepared(&plan, iteration, differences);
    if falls {
        prepared = prepared.with("learning-rate-schedule", "linear");
    }
    if paper_line_7 && run.is_release() {
        prepared = prepared.revoked("paper-line-7 doubles noise of integers, which then shows whether a sum is even");
    }
    Ok(prepared.with("learning-rate", learning_rate).with("momentum", momentum))
}

/// The iteration above.
struct SrgMatrixFactorization {
    /// c_t, 0 in the first round.
    decays: Vec<f32>,
    momentum: f32,
    learning_rate: f64,
    schedule: LearningRateSchedule,
    /// T.
    rounds: u64,
    iterate: Vec<f32>,
    previous: Vec<f32>,
    /// g_t.
    recursive: Vec<f32>,
    velocity: Vec<f32>,
}

impl SrgMatrixFactorization {
    /// True if rounds after the first query the previous point too: all or none, so that the number of queries is planned.
    fn takes_differences(&self) -> bool {
        self.decays.iter().any(|&decay| decay != 0.0)
    }
}

impl Iteration for SrgMatrixFactorization {
    fn query(&mut self, round: u64) -> (Point<'_>, Option<Point<'_>>) {
        let previous = Point { coefficient: self.decays[round as usize], parameters: &self.previous };
        (Point::at(&self.iterate), (round > 0 && self.takes_differences()).then_some(previous))
    }

    fn update(&mut self, release: &Release<'_>) {
        let decay = self.decays[release.round as usize];
        let per_row = 1.0 / release.batch_size as f32;
        let regularization = release.regularization as f32;
        let rate = (self.learning_rate * self.schedule.factor(release.round, self.rounds)) as f32;
        let momentum = self.momentum;
        let state = self.iterate.iter_mut().zip(&mut self.previous).zip(&mut self.recursive).zip(&mut self.velocity);
        let mut added = release.noise_alone.iter();
        for ((((x, previous), g), v), &sum) in state.zip(release.sum) {
            *g = decay * *g + sum as f32 * per_row;
            let again = added.next().map_or(0.0, |&noise| noise as f32 * per_row);
            *v = momentum * *v + (*g + again + regularization * *x);
            *previous = *x;
            *x -= rate * *v;
        }
    }

    fn solution(&mut self) -> &[f32] {
        &self.iterate
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("previous", &mut self.previous);
        visitor.f32s("recursive", &mut self.recursive);
        visitor.f32s("velocity", &mut self.velocity);
    }
}
