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

use rounds_kernels::features::Norm;

use super::algorithm::{PrepareError, Prepared, Run};
use super::plan::{self, BatchDefaults, BatchPlan};
use super::schedule::LearningRateSchedule;
use super::settings::{Averaging, SamplingKind, SettingsError};
use super::sgd::{Iterates, Sgd, private_batches};
use crate::noise::PlannedNoise;
use crate::privacy::{Adjacency, Sampling};

/// The run, where it meets every condition of the theorem.
///
/// # Errors
/// The condition that it does not meet.
pub(super) fn prepare(run: &Run<'_>, own: Iterates) -> Result<Prepared, PrepareError> {
    let (common, problem) = (&run.common, run.problem);
    let refuse = |parameter, value: String, reason| Err(SettingsError::unsupported(parameter, value, run.id, reason));
    if let Some(momentum) = common.momentum.filter(|&momentum| momentum > 0.0) {
        refuse(
            "momentum",
            momentum.to_string(),
            "takes none with the accountant last-iterate: a step with momentum is no contraction",
        )?;
    }
    if let Some(averaging) = own.averaging.filter(|&averaging| averaging != Averaging::Last) {
        refuse(
            "averaging",
            averaging.to_string(),
            "publishes the last iterate with the accountant last-iterate, and no average of others",
        )?;
    }
    plan::rows_alone(run)?;
    plan::independent_noise_only(run)?;
    let model = problem.model();
    let (Some(lipschitz), Some(curvature)) = (model.loss.lipschitz(Norm::L2), model.loss.curvature()) else {
        return Err(refuse(
            "loss",
            model.loss.to_string(),
            "takes one with bounded slope and curvature with the accountant last-iterate, such as logistic, softmax or huber",
        )
        .unwrap_err()
        .into());
    };
    let Some(squared_row) = plan::squared_row(problem) else {
        let reason = "bounds gradients by the declared domain with the accountant last-iterate, and this one has no bound: declare \
                      bounds, or clip-features";
        return Err(SettingsError::unsupported("accountant", "last-iterate", run.id, reason).into());
    };
    // A hair above the longest gradient, which rounding does not reach.
    let longest = lipschitz * squared_row.sqrt() * (1.0 + 1e-5);
    if let Some(clip_norm) = common.clip_norm.filter(|&clip_norm| clip_norm < longest) {
        refuse(
            "clip-norm",
            clip_norm.to_string(),
            "clips no gradient with the accountant last-iterate: leave it out, and scale the rows",
        )?;
    }
    let defaults = BatchDefaults { sampling: SamplingKind::Fixed, ..private_batches(problem.rows()) };
    let plan = BatchPlan::new(run, defaults)?;
    if !matches!(plan.sampling, Sampling::FixedOrder | Sampling::ShuffledOnce | Sampling::FullBatch) {
        refuse(
            "sampling",
            plan.sampling.to_string(),
            "reads the same batches in every pass with the accountant last-iterate: take fixed or shuffled",
        )?;
    }
    if plan.adjacency == Adjacency::AddRemove {
        refuse(
            "adjacency",
            plan.adjacency.to_string(),
            "knows the number of rows with the accountant last-iterate: take zero-out or replace-one",
        )?;
    }
    if common.learning_rate_schedule.as_ref().is_some_and(|schedule| schedule.factors(plan.rounds).is_some()) {
        refuse(
            "learning-rate-schedule",
            "given".to_owned(),
            "takes steps of one size with the accountant last-iterate",
        )?;
    }
    let (strong, smooth) = (problem.regularization(), curvature * squared_row + problem.regularization());
    let step = common.learning_rate.unwrap_or(1.0 / smooth);
    if step > 2.0 / smooth {
        let expected =
            "at most 2/L with the accountant last-iterate, L the smoothness by the bound of the rows: a smaller step";
        return Err(SettingsError::out_of_range("learning-rate", step, expected).into());
    }
    // Rounded up.
    let contraction = f64::max((1.0 - step * strong).abs(), (1.0 - step * smooth).abs()).next_up().min(1.0);
    let clip_norm = plan::single_clip_norm((common.clip_norm.unwrap_or(longest) as f32).next_up())?;
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
