//! Gradient descent with correlated noise over fixed batches: DP-FTRL, DP-MEMF, DP-MF, DP-MF⁺, PGD and Anti-PGD.
//!
//! ```text
//! g_t = (Σ_{i ∈ B_t} clip(∇f(x_t; d_i), C) + (C_s⁻¹ Z)_t) / B,     Z iid N(0, σ²)
//! ```
//! then momentum and step as in [`super::sgd`]; all six differ in the strategy C_s and the workload it is made for.
//!
//! | id | strategy C_s | source |
//! | --- | --- | --- |
//! | `dp-ftrl` | binary tree, online Honaker estimator, a new tree each epoch | [000 §2.4], [001 Example 3.3] |
//! | `dp-memf` | best for momentum and k epochs | [000 Algorithm 2], with the noise scaled by C/B that line 4 omits |
//! | `dp-mf` | best for prefix sums | [001 §3] |
//! | `dp-mf-plus` | best for Λ_τ-weighted prefix sums | [001 §5] |
//! | `pgd` | identity (B = S) | [001 §3] |
//! | `anti-pgd` | prefix sums (B = I) | [001 Example 3.2] |
//!
//! **Privacy.** Batches are fixed (or shuffled once): batch j of every epoch holds the same rows, so an example takes
//! part in rounds j, j + b, … only. Zeroing its gradient changes these rows of the gradient matrix by at most C each
//! (2C for replace-one). The sensitivity of C_s is taken for exactly that pattern, hence the run is one Gaussian
//! mechanism with μ = sens(C_s)·C/σ, also when the points x_t depend on what was released ([001 §2.1]).

use super::parameters::{BATCHES, NOISE, PRIVACY, Parameter, Range, STEPS, parameters};
use super::plan::{self, BatchDefaults, BatchPlan, CalibratedNoise};
use super::scene::Scene;
use super::sgd::{Iterates, Sgd};
use super::{Algorithm, NoiseKind, PrepareError, Prepared, SamplingKind, Settings, SettingsError};
use crate::choices::choices;
use crate::factorization::WorkloadSpecification;
use crate::noise::{NoiseMechanism, NoisePlan};
use crate::privacy::Sampling;
use crate::problem::PublicProblem;

/// A variant with its defaults.
#[derive(Clone, Copy)]
struct Variant {
    id: &'static str,
    noise: NoiseKind,
    /// True if the factorisation is made for the momentum of the run, false for plain prefix sums.
    weighs_momentum: bool,
    /// True where it minimises the Λ_τ-weighted error.
    weighs_periods: bool,
    momentum: f64,
    epochs: f64,
}

const MF: Variant = Variant {
    id: "dp-mf",
    noise: NoiseKind::Optimal,
    weighs_momentum: false,
    weighs_periods: false,
    momentum: 0.0,
    epochs: 5.0,
};

macro_rules! entry {
    ($name:ident, $title:literal, $source:literal, $how:literal, $groups:expr, $variant:expr) => {
        pub(super) static $name: Algorithm = Algorithm {
            id: $variant.id,
            name: $title,
            source: $source,
            promise: concat!("(ε, δ)-DP without sampling assumptions, by ", $how),
            private: true,
            release: true,
            groups: $groups,
            scenes: &[Scene::FIXED],
            constructor: |problem, settings| prepare(problem, settings, $variant),
        };
    };
}

choices! {
    /// The workload that a factorisation is made for.
    pub(super) enum WorkloadKind {
        /// Prefix sums.
        Ones = "ones",
        /// The sums that the run takes, with its momentum.
        True = "true",
    }
}

parameters! {
    /// Parameters of the factorisation.
    struct Factorized {
        /// Workload of the factorisation: prefix sums, or with the momentum of the run (default: by algorithm)
        workload: Option<WorkloadKind>,
    }
}

parameters! {
    /// Parameters of DP-MF⁺.
    struct Weighted {
        /// Period τ (default: all rounds)
        tau: Option<usize> [Range::COUNT],
    }
}

const GROUPS: &[&[Parameter]] = &[BATCHES, STEPS, PRIVACY, NOISE, Iterates::ALL, Factorized::ALL];
const PLUS_GROUPS: &[&[Parameter]] = &[BATCHES, STEPS, PRIVACY, NOISE, Iterates::ALL, Factorized::ALL, Weighted::ALL];

entry!(
    DP_FTRL,
    "DP-FTRL",
    "[000 §2.4], [001 Example 3.3]",
    "tree-aggregated noise",
    GROUPS,
    Variant { id: "dp-ftrl", noise: NoiseKind::HonakerOnline, momentum: 0.9, ..MF }
);
entry!(
    DP_MEMF,
    "DP-MEMF",
    "[000 Algorithm 2]",
    "a factorisation for momentum and several epochs",
    GROUPS,
    Variant { id: "dp-memf", noise: NoiseKind::Blt(3), weighs_momentum: true, momentum: 0.9, ..MF }
);
entry!(DP_MF, "DP-MF", "[001 §3]", "a factorisation of prefix sums", GROUPS, MF);
entry!(
    DP_MF_PLUS,
    "DP-MF⁺",
    "[001 §5]",
    "a factorisation for the Λ_τ-weighted error",
    PLUS_GROUPS,
    Variant { id: "dp-mf-plus", weighs_periods: true, epochs: 1.0, ..MF }
);
entry!(
    PGD,
    "PGD",
    "[001 §3]",
    "a fresh Gaussian a round",
    GROUPS,
    Variant { id: "pgd", noise: NoiseKind::Independent, ..MF }
);
entry!(
    ANTI_PGD,
    "Anti-PGD",
    "[001 Example 3.2]",
    "anti-correlated noise",
    GROUPS,
    Variant { id: "anti-pgd", noise: NoiseKind::AntiCorrelated, epochs: 1.0, ..MF }
);

/// A plan whose rounds are whole epochs: correlated noise is made for a fixed number of participations.
pub(super) fn whole_epochs(
    settings: &Settings,
    problem: &PublicProblem,
    epochs: f64,
    algorithm: &'static str,
) -> Result<BatchPlan, PrepareError> {
    let defaults = BatchDefaults {
        batch_size: problem.rows().div_ceil(10).clamp(1, 500),
        epochs,
        sampling: SamplingKind::Shuffled,
    };
    let mut plan = BatchPlan::new(settings, problem, defaults)?;
    if !matches!(plan.sampling, Sampling::FixedOrder | Sampling::ShuffledOnce | Sampling::FullBatch) {
        let reason =
            "correlates its noise across rounds, which needs the same batches every epoch: take fixed or shuffled";
        return Err(SettingsError::unsupported("sampling", plan.sampling, algorithm, reason).into());
    }
    let common = settings.common()?;
    if common.rounds.is_none() {
        let wanted = common.epochs.unwrap_or(epochs);
        plan.rounds = (wanted * plan.rounds_per_epoch as f64).round().max(1.0) as usize;
    }
    Ok(plan)
}

fn prepare(problem: &PublicProblem, settings: &Settings, variant: Variant) -> Result<Prepared, PrepareError> {
    let plan = whole_epochs(settings, problem, variant.epochs, variant.id)?;
    let momentum = settings.common()?.momentum.unwrap_or(variant.momentum);
    let mut workload = WorkloadSpecification::prefix();
    let weighs_momentum =
        Factorized::read(settings)?.workload.map_or(variant.weighs_momentum, |workload| workload == WorkloadKind::True);
    if weighs_momentum && momentum > 0.0 {
        workload = workload.with_momentum(momentum);
    }
    if variant.weighs_periods {
        let tau = Weighted::read(settings)?.tau.unwrap_or(plan.rounds);
        workload = workload.with_lambda_tau(Some(tau.min(plan.rounds)));
    }
    let clip_norm = plan::clip_norm(settings, 1.0)?;
    let privacy = calibrated(problem, settings, &plan, (variant.noise, workload), clip_norm)?;
    Sgd::prepared(problem, settings, &plan, (0.5, variant.momentum), Some(privacy))
}

/// The noise of the settings, by default of kind `default`, for sums that the run adds up by `workload`, scaled to the budget,
/// and its stream.
pub(super) fn calibrated(
    problem: &PublicProblem,
    settings: &Settings,
    plan: &BatchPlan,
    (default, workload): (NoiseKind, WorkloadSpecification),
    clip_norm: f32,
) -> Result<(CalibratedNoise, Box<dyn NoiseMechanism>), PrepareError> {
    let noise = NoisePlan {
        kind: settings.common()?.noise.unwrap_or(default),
        rounds: plan.rounds,
        rounds_per_epoch: plan.rounds_per_epoch,
        workload,
        dimension: problem.parameters(),
    };
    let noise = noise.prepare(&settings.strategies)?;
    let calibrated = plan::calibrate(settings, clip_norm, plan.adjacency, problem, |noise_multiplier| {
        noise.mechanism(noise_multiplier, plan.sampling)
    })?;
    let stream = noise.stream(settings.key.clone(), calibrated.standard_deviation);
    Ok((calibrated, stream))
}
