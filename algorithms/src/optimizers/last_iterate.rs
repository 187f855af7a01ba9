//! DP-SGD that is accounted for as its last iterate alone (shifted interpolation: Bok, Su and Altschuler 2024, 2403.00278).
//!
//! ```text
//! x_{t+1} = φ_t(x_t) + (η·C/B)·σ·z_t,      φ_t(x) = x − η·((Σ_{i ∈ B_t} ∇f(x; d_i))/B + λ·x)
//! ```
//!
//! Every f is convex and β-smooth, so that φ_t is a contraction by c = max(|1 − ηλ|, |1 − ηL|), L = β + λ, where η ≤ 2/L, as long as *no
//! gradient is clipped*: C is the longest one that the declared domain and the loss allow, hence clipping never acts. What an example did to an
//! early iterate is then forgotten: [`Mechanism::LastIterate`](crate::privacy::Mechanism::LastIterate) has the μ. Momentum, averages and changing
//! steps have no such theorem here, batches are the same in every pass, and nothing but the last iterate is covered: whoever sees another one
//! has more.
//!
//! Gradients and iterates that are rounded are no contraction to the last bit. That is not bounded here, so that a release claims nothing.

use std::fmt::Display;

use rounds_kernels::features::Norm;

use super::algorithm::{PrepareError, Prepared, Run};
use super::plan::{self, BatchDefaults, BatchPlan};
use super::schedule::LearningRateSchedule;
use super::settings::{Averaging, SamplingKind, SettingsError};
use super::sgd::{Iterates, Sgd};
use crate::noise::PlannedNoise;
use crate::privacy::{Adjacency, Sampling};

/// The run, where it meets every condition of the theorem.
///
/// # Errors
/// The condition that it does not meet.
pub(super) fn prepare(run: &Run<'_>, own: Iterates) -> Result<Prepared, PrepareError> {
    let (common, problem) = (&run.common, run.problem);
    let unless = |holds: bool, parameter, value: &dyn Display, reason| {
        let refused = || SettingsError::unsupported(parameter, value, run.id, reason);
        if holds { Ok(()) } else { Err(refused()) }
    };
    let momentum = common.momentum.unwrap_or(0.0);
    let reason = "takes none with the accountant last-iterate: a step with momentum is no contraction";
    unless(momentum == 0.0, "momentum", &momentum, reason)?;
    let averaging = own.averaging.unwrap_or(Averaging::Last);
    let reason = "publishes the last iterate with the accountant last-iterate, and no average of others";
    unless(averaging == Averaging::Last, "averaging", &averaging, reason)?;
    plan::rows_alone(run)?;
    plan::independent_noise_only(run)?;
    let loss = problem.model().loss;
    let reason = "takes one with bounded slope and curvature with the accountant last-iterate, such as logistic, softmax or huber";
    unless(loss.lipschitz(Norm::L2).is_some() && loss.curvature().is_some(), "loss", &loss, reason)?;
    let reason = "bounds gradients by the declared domain with the accountant last-iterate, and this one has no bound: declare bounds, or \
                  clip-features";
    unless(plan::squared_row(problem).is_some(), "accountant", &"last-iterate", reason)?;
    let bounded = |value: Option<f64>| value.expect("a bound that was found");
    let [lipschitz, curvature, squared_row] =
        [loss.lipschitz(Norm::L2), loss.curvature(), plan::squared_row(problem)].map(bounded);
    // A hair above the longest gradient, which rounding does not reach.
    let longest = lipschitz * squared_row.sqrt() * (1.0 + 1e-5);
    let clip_norm = common.clip_norm.unwrap_or(longest);
    let reason = "clips no gradient with the accountant last-iterate: leave it out, and scale the rows";
    unless(clip_norm >= longest, "clip-norm", &clip_norm, reason)?;
    let defaults = BatchDefaults { sampling: SamplingKind::Fixed, ..plan::private_batches(problem) };
    let plan = BatchPlan::new(run, defaults)?;
    let is_fixed = matches!(plan.sampling, Sampling::FixedOrder | Sampling::ShuffledOnce | Sampling::FullBatch);
    let reason = "reads the same batches in every pass with the accountant last-iterate: take fixed or shuffled";
    unless(is_fixed, "sampling", &plan.sampling, reason)?;
    let reason = "knows the number of rows with the accountant last-iterate: take zero-out or replace-one";
    unless(plan.adjacency != Adjacency::AddRemove, "adjacency", &plan.adjacency, reason)?;
    let schedule = common.learning_rate_schedule.as_ref();
    let is_constant = schedule.is_none_or(|schedule| schedule.factors(plan.rounds).is_none());
    let reason = "takes steps of one size with the accountant last-iterate";
    unless(is_constant, "learning-rate-schedule", &"that changes", reason)?;
    let (strong, smooth) = (problem.regularization(), curvature * squared_row + problem.regularization());
    let step = common.learning_rate.unwrap_or(1.0 / smooth);
    if step > 2.0 / smooth {
        let expected =
            "at most 2/L with the accountant last-iterate, L the smoothness by the bound of the rows: a smaller step";
        return Err(SettingsError::out_of_range("learning-rate", step, expected).into());
    }
    // Rounded up.
    let contraction = f64::max((1.0 - step * strong).abs(), (1.0 - step * smooth).abs()).next_up().min(1.0);
    let clip_norm = plan::single_clip_norm((clip_norm as f32).next_up())?;
    let noise =
        plan.calibrate(run, clip_norm, PlannedNoise::last_iterate(contraction, plan.rounds_per_epoch, plan.rounds))?;
    let prepared = Sgd::prepared(run, own, &plan, (step, LearningRateSchedule::Constant, 0.0), Some(noise))?;
    let prepared = prepared
        .with("clip-norm", clip_norm)
        .with_note("of the last iterate alone: earlier ones, in checkpoints or reports, are not covered");
    let reason = "gradients and iterates that are rounded are no contraction to the last bit, which the accountant last-iterate needs; take \
                  another accountant";
    Ok(if run.is_release() { prepared.revoked(reason) } else { prepared })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rounds_kernels::loss::Loss;
    use rounds_kernels::random::StreamKey;

    use super::super::dp_sgd::DP_SGD;
    use super::*;
    use crate::optimizers::{Budget, Settings};
    use crate::privacy::Mechanism;
    use crate::problem::{Dataset, Features, Labels, Problem};

    fn prepared(loss: Loss, regularization: f64, settings: &str) -> Result<Prepared, PrepareError> {
        let data = Dataset::new("rows", Features::f32(vec![0.5; 3_000], 3), Labels::Values(vec![1.0; 1_000])).unwrap();
        let data = if settings.contains("unbounded") { data } else { data.clip_features(Norm::L2, 1.0).unwrap() };
        let problem = Problem::new(Arc::new(data), loss, true, regularization).unwrap();
        let pairs = settings.split_whitespace().filter_map(|pair| pair.split_once('='));
        let budget = Budget::Target { epsilon: 1.0, delta: 1e-6 };
        let settings = pairs.fold(Settings::new(budget, StreamKey::Simulation(1)), |settings, (name, value)| {
            settings.with(name, value)
        });
        DP_SGD.prepare(&problem, &settings.with("accountant", "last-iterate"))
    }

    const HUBER: Loss = Loss::Huber(1.0);

    #[test]
    fn the_contraction_is_that_of_the_step_and_no_gradient_can_be_clipped() {
        let run = prepared(HUBER, 0.1, "batch-size=250 rounds=40 learning-rate=0.5").unwrap();
        // Rows of norm 1 and a bias: L = 2 + λ.
        let Some(Mechanism::LastIterate { contraction, batches: 4, rounds: 40, .. }) = run.mechanism else {
            panic!("{:?}", run.mechanism);
        };
        assert!((contraction - 0.95).abs() < 1e-12, "{contraction}");
        let clip_norm: f64 = run.parameters["clip-norm"].parse().unwrap();
        assert!(clip_norm > f64::sqrt(2.0) && clip_norm < 1.4144, "{clip_norm}");
    }

    #[test]
    fn every_condition_is_checked_by_name() {
        for (loss, settings, name) in [
            (HUBER, "momentum=0.5", "momentum 0.5"),
            (HUBER, "averaging=suffix", "averaging suffix"),
            (HUBER, "clip-norm=1", "clip-norm 1"),
            (HUBER, "learning-rate=0.96", "learning-rate 0.96"),
            (HUBER, "learning-rate-schedule=linear", "learning-rate-schedule"),
            (HUBER, "sampling=poisson", "sampling poisson"),
            (HUBER, "sampling=reshuffled", "sampling reshuffled"),
            (HUBER, "noise=banded=4", "noise banded=4"),
            (HUBER, "unbounded", "has no bound"),
            (Loss::Squared, "", "loss squared"),
        ] {
            let refused = prepared(loss, 0.1, settings).err().expect(settings).to_string();
            assert!(refused.contains(name), "{settings}: {refused}");
        }
    }
}
