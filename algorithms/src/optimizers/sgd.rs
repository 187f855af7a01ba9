//! (DP-)SGD: projected mini-batch gradient descent with clipped gradients and Gaussian noise ([000 §2.3], [004 §2.1],
//! [001 (3)], specification 4.4), and its non-private twin.
//!
//! ```text
//! g_t     = (Σ_{i ∈ B_t} clip(∇f(x_t; d_i), C) + C·σ·z_t) / B + λ·x_t,     z_t ~ N(0, I)
//! v_t     = β·v_{t−1} + g_t
//! x_{t+1} = Π_R(x_t − η_t·v_t)
//! ```
//!
//! Over units of several rows ∇f(x; d_i) is the mean, or the sum, of the gradients of a unit's rows. With local steps it is x_t − x_i, x_i
//! after E passes of gradient steps over the unit's own rows: DP-FedAvg (McMahan, Ramage, Talwar and Zhang 2018), with η the rate of the
//! server.
//!
//! **Privacy.** Adding or removing one example (or replacing its gradient by 0) changes one summand of each batch that
//! holds it, by at most C in the L2 norm since every summand is clipped; replacing one changes it by at most 2C. B is
//! the public nominal batch size, never the realised one, so dividing by it is post-processing; so are momentum, the
//! regulariser (independent of the data), the step sizes η_t (public, [`LearningRateSchedule`]), the projection and averaging. An empty Poisson batch is a round like any
//! other: its release is noise alone. Hence one round is a Gaussian mechanism of noise multiplier σ, Poisson- or
//! fixed-size-subsampled where the sampler is, and the run is the adaptive composition of its rounds.

use rounds_kernels::linear::{LocalSteps, Point};
use rounds_kernels::loss::Loss;
use rounds_kernels::vector;

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::noisy_sums::{Iteration, NoisySums, Release};
use super::parameters::{BATCHES, Range, STEPS, parameters};
use super::plan::{self, BatchDefaults, BatchPlan};
use super::scene::Scene;
use super::schedule::LearningRateSchedule;
use super::settings::{Averaging, SamplingKind, SettingsError};
use crate::noise::PrivateNoise;
use crate::problem::PublicProblem;
use crate::state::StateVisitor;

parameters! {
    /// Parameters of the returned iterate.
    pub(super) struct Iterates {
        /// Iterate that is returned (default: suffix without privacy, else last)
        averaging: Option<Averaging>,
        /// Radius of the ball around 0 that iterates are projected on (default: none)
        radius: Option<f64> [Range::POSITIVE],
        /// Passes E of local steps over a unit's rows: its contribution is the difference of the models (default: none, the gradient)
        local_steps: Option<usize> [Range::COUNT],
        /// Step size of local steps (default: 0.1)
        local_step_size: Option<f64> [Range::new("a number above 0 and at most 10^6", |value| value > 0.0 && value <= 1e6)],
        /// Rows of a local step (default: 10)
        local_batch: Option<usize> [Range::COUNT],
    }
}

impl Iterates {
    /// The local steps, which a unit of several rows takes.
    fn local(&self, run: &Run<'_>) -> Result<Option<LocalSteps>, SettingsError> {
        let Some(passes) = self.local_steps else {
            let alone = "takes it for local steps alone: give local-steps, too";
            let given =
                |name, value: Option<String>| value.map(|value| SettingsError::unsupported(name, value, run.id, alone));
            let of_size = given("local-step-size", self.local_step_size.map(|size| size.to_string()));
            let error = of_size.or_else(|| given("local-batch", self.local_batch.map(|batch| batch.to_string())));
            return error.map_or(Ok(None), Err);
        };
        if run.problem.unit().is_none() {
            let reason = "takes local steps on the rows of a unit, and none is declared: name the column of the units, or leave \
                          them out";
            return Err(SettingsError::unsupported("local-steps", passes, run.id, reason));
        }
        let (step_size, batch) = (self.local_step_size.unwrap_or(0.1) as f32, self.local_batch.unwrap_or(10));
        Ok(Some(LocalSteps { passes, step_size, batch, most_weight: f32::INFINITY }))
    }
}

pub(crate) static SGD: Algorithm = Algorithm {
    id: "sgd",
    name: "stochastic gradient descent",
    source: "[000 §2.3] without clipping and noise",
    promise: "no privacy; excess risk LR/√T with averaging",
    private: false,
    release: false,
    common: &[BATCHES, STEPS],
    scenes: &[Scene::FIXED],
    constructor: &Reads(sgd),
};

fn sgd(run: &Run<'_>, own: Iterates) -> Result<Prepared, PrepareError> {
    let defaults = BatchDefaults { batch_size: 500, epochs: 20.0, sampling: SamplingKind::Reshuffled };
    let plan = BatchPlan::new(run, defaults)?;
    let momentum = run.common.momentum.unwrap_or(0.9);
    let rate = rate(run.problem, momentum);
    Sgd::prepared(run, own, &plan, (rate, LearningRateSchedule::Constant, momentum), None)
}

/// The default step size for networks, times 1 − β: no theorem gives one.
pub(super) const NETWORK_RATE: f64 = 0.5;

/// The default step size without privacy, `3(1 + β)/(m·R² + 3λ)`, and half of it for squared loss: m the curvature of the loss at margins of 0,
/// R the bound on a row's norm, β the momentum. Heavy ball is stable below `2(1 + β)/(λ_max + λ)`: with the factor 3 where the
/// largest eigenvalue λ_max of m times the mean outer product of the rows is below 2m·R²/3 + λ. Squared loss has the same curvature everywhere, so a run whose
/// rows lie close together would diverge.
fn rate(problem: &PublicProblem, momentum: f64) -> f64 {
    if problem.network().is_some() {
        return NETWORK_RATE * (1.0 - momentum);
    }
    let rate = longest_rate(problem, momentum);
    match problem.model().loss {
        Loss::Squared => 0.5 * rate,
        _ => rate,
    }
}

/// `3(1 + β)/(m·R² + 3λ)`.
pub(super) fn longest_rate(problem: &PublicProblem, momentum: f64) -> f64 {
    let curvature = problem.model().loss.curvature_at_zero(problem.model().outputs);
    3.0 * (1.0 + momentum) / (curvature.unwrap_or(1.0) * squared_row(problem) + 3.0 * problem.regularization())
}

/// R², the bound on a row's square norm, the bias included; 1 if there is none.
pub(super) fn squared_row(problem: &PublicProblem) -> f64 {
    plan::squared_row(problem).unwrap_or(1.0).max(f64::MIN_POSITIVE)
}

/// The iteration above.
pub(super) struct Sgd {
    /// η > 0.
    learning_rate: f64,
    schedule: LearningRateSchedule,
    /// β ∈ [0, 1).
    momentum: f64,
    /// R, if there is one.
    radius: Option<f64>,
    averaging: Averaging,
    /// T.
    rounds: u64,
    iterate: Vec<f32>,
    velocity: Vec<f32>,
    /// Iterates that the average covers so far.
    averaged: u64,
    /// Their sum.
    iterates: Vec<f64>,
    average: Vec<f32>,
}

impl Sgd {
    /// The iteration from 0 on the batches of `plan`, with the variant's default learning rate, at most (1 + β)/λ, schedule and momentum.
    pub(super) fn prepared(
        run: &Run<'_>,
        own: Iterates,
        plan: &BatchPlan,
        (learning_rate, schedule, momentum): (f64, LearningRateSchedule, f64),
        noise: Option<PrivateNoise>,
    ) -> Result<Prepared, PrepareError> {
        let averaging = if noise.is_some() { Averaging::Last } else { Averaging::Suffix };
        let averaging = own.averaging.unwrap_or(averaging);
        let momentum = run.common.momentum.unwrap_or(momentum);
        // Half of the step up to which the regulariser alone is stable. 1/L of the last iterate's accountant is shorter.
        let learning_rate = learning_rate.min((1.0 + momentum) / run.problem.regularization());
        let learning_rate = run.common.learning_rate.unwrap_or(learning_rate);
        let dimension = run.problem.parameters();
        let schedule = run.common.learning_rate_schedule.clone().unwrap_or(schedule);
        schedule.check(plan.rounds)?;
        let averages = if averaging == Averaging::Last { 0 } else { dimension };
        let iteration = Self {
            learning_rate,
            schedule,
            momentum,
            radius: own.radius,
            averaging,
            rounds: plan.rounds as u64,
            averaged: 0,
            iterate: run.initial()?,
            velocity: vec![0.0; if momentum > 0.0 { dimension } else { 0 }],
            iterates: vec![0.0; averages],
            average: vec![0.0; averages],
        };
        let local = own.local(run)?;
        let falls = run.common.learning_rate_schedule.is_none() && iteration.schedule == LearningRateSchedule::Linear;
        let sums = NoisySums::new(run, plan, noise)?.with_local_steps(local);
        let mut prepared = sums.prepared(plan, iteration, false);
        if falls {
            prepared = prepared.with("learning-rate-schedule", "linear");
        }
        if let Some(local) = local {
            prepared = prepared.with("local-step-size", local.step_size).with("local-batch", local.batch);
        }
        let prepared = prepared.with("learning-rate", learning_rate);
        Ok(prepared.with("momentum", momentum).with("averaging", averaging))
    }

    /// Rounds before the first iterate that the average covers.
    fn average_from(&self) -> u64 {
        match self.averaging {
            Averaging::Last => u64::MAX,
            Averaging::Uniform => 0,
            Averaging::Suffix => self.rounds / 2,
        }
    }
}

/// `x ← x · min(1, R/‖x‖)`, the projection on the ball of radius R around 0, if there is one.
pub(super) fn project_onto_ball(x: &mut [f32], radius: Option<f64>) {
    let Some(radius) = radius else { return };
    let norm = x.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if norm > radius {
        let factor = (radius / norm) as f32;
        x.iter_mut().for_each(|value| *value *= factor);
    }
}

impl Iteration for Sgd {
    fn query(&mut self, _: u64) -> (Point<'_>, Option<Point<'_>>) {
        (Point::at(&self.iterate), None)
    }

    /// `v ← β·v + g`, `x ← Π_R(x − η_t·v)`, with `g = sum/B + λ·x`.
    fn update(&mut self, release: &Release<'_>) {
        let (per_row, decay) = ((1.0 / release.batch_size) as f32, release.regularization as f32);
        let rate = (self.learning_rate * self.schedule.factor(release.round, self.rounds)) as f32;
        let momentum = self.momentum as f32;
        if self.velocity.is_empty() {
            for (x, &sum) in self.iterate.iter_mut().zip(release.sum) {
                *x -= rate * (sum as f32 * per_row + decay * *x);
            }
        } else {
            let coefficients = [momentum, rate, per_row, decay];
            vector::descend(coefficients, release.sum, &mut self.velocity, &mut self.iterate);
        }
        project_onto_ball(&mut self.iterate, self.radius);
        if release.round >= self.average_from() {
            self.averaged += 1;
            for (total, &x) in self.iterates.iter_mut().zip(&self.iterate) {
                *total += f64::from(x);
            }
        }
    }

    fn solution(&mut self) -> &[f32] {
        if self.averaged == 0 {
            return &self.iterate;
        }
        for (average, &total) in self.average.iter_mut().zip(&self.iterates) {
            *average = (total / self.averaged as f64) as f32;
        }
        &self.average
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("velocity", &mut self.velocity);
        visitor.u64("averaged", &mut self.averaged);
        visitor.f64s("iterates", &mut self.iterates);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rounds_kernels::features::Norm;
    use rounds_kernels::random::StreamKey;

    use super::*;
    use crate::executor::Executor;
    use crate::optimizers::settings::Settings;
    use crate::parallel::Engine;
    use crate::privacy::Budget;
    use crate::problem::{Dataset, Features, Labels, Problem};

    #[test]
    fn the_default_step_on_squared_loss_is_stable_where_all_rows_lie_close_together() {
        let rows = 2_000;
        let near = |row: usize, column: usize| 1.0 + 0.02 * ((row * (7 + 4 * column)) % 13) as f32;
        let values: Vec<f32> = (0..rows).flat_map(|row| (0..4).map(move |column| near(row, column))).collect();
        let targets = values.chunks(4).map(|row| 2.0 * row[0] - row[1] + 1.0).collect();
        let data = Dataset::new("close", Features::f32(values, 4), Labels::Values(targets)).unwrap();
        let data = data.clip_features(Norm::L2, 1.0).unwrap();
        let problem = Problem::new(Arc::new(data), Loss::Squared, true, 0.0).unwrap();
        // The mean loss after 20 epochs; infinite where iterates are too large for a query.
        let loss = |learning_rate: Option<f64>| {
            let settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(1));
            let settings = match learning_rate {
                Some(rate) => settings.with("learning-rate", rate),
                None => settings,
            };
            let mut executor = Executor::new(&problem, Engine::default(), SGD.prepare(&problem, &settings).unwrap());
            if executor.run().is_err() {
                return f64::INFINITY;
            }
            let found = crate::oracle::evaluate(&problem, &Engine::default(), executor.solution());
            found.map_or(f64::INFINITY, |found| found.loss / rows as f64)
        };
        assert!(loss(None) < 0.01, "{}", loss(None));
        // R² = 2 with the bias.
        assert!(loss(Some(3.0 * 1.9 / 2.0)) > 1e3);
    }
}
