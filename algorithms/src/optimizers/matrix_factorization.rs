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

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::dp_sgd::PrivateSteps;
use super::parameters::{BATCHES, NOISE, PRECISION, PRIVACY, Range, STEPS, parameters};
use super::plan::{self, BatchDefaults, BatchPlan};
use super::scene::Scene;
use super::settings::{SamplingKind, SettingsError};
use super::sgd::{Iterates, Sgd};
use crate::choices::choices;
use crate::factorization::WorkloadSpecification;
use crate::noise::NoiseKind;
use crate::privacy::Sampling;

/// A variant with its defaults.
#[derive(Clone, Copy)]
struct Variant {
    id: &'static str,
    noise: NoiseKind,
    /// True if the factorisation is made for the momentum of the run, false for plain prefix sums.
    weighs_momentum: bool,
    momentum: f64,
    epochs: f64,
}

const MF: Variant =
    Variant { id: "dp-mf", noise: NoiseKind::Optimal, weighs_momentum: false, momentum: 0.0, epochs: 5.0 };

macro_rules! entry {
    ($name:ident, $title:literal, $source:literal, $how:literal, $variant:expr) => {
        entry!($name, $title, $source, $how, $variant, |run, own: (Iterates, Factorized)| {
            prepare(run, own, None, $variant)
        });
    };
    ($name:ident, $title:literal, $source:literal, $how:literal, $variant:expr, $prepare:expr) => {
        pub(super) static $name: Algorithm = Algorithm {
            id: $variant.id,
            name: $title,
            source: $source,
            promise: concat!("(ε, δ)-DP without sampling assumptions, by ", $how),
            private: true,
            release: true,
            common: &[BATCHES, STEPS, PRIVACY, PRECISION, NOISE],
            scenes: &[Scene::FIXED],
            constructor: &Reads($prepare),
        };
    };
}

choices! {
    /// The workload that a factorisation is made for.
    pub(super) enum WorkloadKind {
        /// Prefix sums.
        Ones = "ones",
        /// The sums that the run takes, with its momentum and step sizes.
        True = "true",
    }
}

parameters! {
    /// Parameters of the factorisation.
    struct Factorized {
        /// Workload of the factorisation: prefix sums, or those of the run with its momentum and step sizes (default: by algorithm, with the step sizes)
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

entry!(
    DP_FTRL,
    "DP-FTRL",
    "[000 §2.4], [001 Example 3.3]",
    "tree-aggregated noise",
    Variant { id: "dp-ftrl", noise: NoiseKind::HonakerOnline, momentum: 0.9, ..MF }
);
entry!(
    DP_MEMF,
    "DP-MEMF",
    "[000 Algorithm 2]",
    "a factorisation for momentum and several epochs",
    Variant { id: "dp-memf", noise: NoiseKind::Blt(3), weighs_momentum: true, momentum: 0.9, ..MF }
);
entry!(DP_MF, "DP-MF", "[001 §3]", "a factorisation of prefix sums", MF);
entry!(
    DP_MF_PLUS,
    "DP-MF⁺",
    "[001 §5]",
    "a factorisation for the Λ_τ-weighted error",
    Variant { id: "dp-mf-plus", epochs: 1.0, ..MF },
    |run, (own, weighted): ((Iterates, Factorized), Weighted)| {
        prepare(run, own, Some(weighted), Variant { epochs: 1.0, ..MF })
    }
);
entry!(PGD, "PGD", "[001 §3]", "a fresh Gaussian a round", Variant { id: "pgd", noise: NoiseKind::Independent, ..MF });
entry!(
    ANTI_PGD,
    "Anti-PGD",
    "[001 Example 3.2]",
    "anti-correlated noise",
    Variant { id: "anti-pgd", noise: NoiseKind::AntiCorrelated, epochs: 1.0, ..MF }
);

/// A plan whose rounds are whole epochs: correlated noise is made for a fixed number of participations.
pub(super) fn whole_epochs(run: &Run<'_>, batch_size: usize, epochs: f64) -> Result<BatchPlan, PrepareError> {
    let mut plan = BatchPlan::new(run, BatchDefaults { batch_size, epochs, sampling: SamplingKind::Shuffled })?;
    if !matches!(plan.sampling, Sampling::FixedOrder | Sampling::ShuffledOnce | Sampling::FullBatch) {
        let reason =
            "correlates its noise across rounds, which needs the same batches every epoch: take fixed or shuffled";
        return Err(SettingsError::unsupported("sampling", plan.sampling, run.id, reason).into());
    }
    if run.common.rounds.is_none() {
        let wanted = run.common.epochs.unwrap_or(epochs);
        plan.rounds = (wanted * plan.rounds_per_epoch as f64).round().max(1.0) as usize;
    }
    Ok(plan)
}

/// A tenth of the rows, at most 500.
pub(super) fn tenth(run: &Run<'_>) -> usize {
    run.problem.rows().div_ceil(10).clamp(1, 500)
}

/// The run; DP-MF⁺ minimises the Λ_τ-`weighted` error.
fn prepare(
    run: &Run<'_>,
    (iterates, own): (Iterates, Factorized),
    weighted: Option<Weighted>,
    variant: Variant,
) -> Result<Prepared, PrepareError> {
    let plan = whole_epochs(run, tenth(run), variant.epochs)?;
    let momentum = run.common.momentum.unwrap_or(variant.momentum);
    let steps = PrivateSteps::of_correlated(run, &iterates, variant.noise);
    let mut workload = WorkloadSpecification::prefix();
    let weighs_momentum = own.workload.map_or(variant.weighs_momentum, |workload| workload == WorkloadKind::True);
    if weighs_momentum && momentum > 0.0 {
        workload = workload.with_momentum(momentum);
    }
    if own.workload != Some(WorkloadKind::Ones) {
        workload = plan::scheduled(run, &steps.schedule, plan.rounds, workload)?;
    }
    if let Some(weighted) = weighted {
        workload = workload.with_lambda_tau(Some(weighted.tau.unwrap_or(plan.rounds).min(plan.rounds)));
    }
    let noise = plan.correlated_noise(run, (variant.noise, workload), plan::clip_norm(run, steps.clip_norm)?)?;
    let rate = steps.rate_of_correlated(run, &plan, momentum, &noise);
    Sgd::prepared(run, iterates, &plan, (rate, steps.schedule, variant.momentum), Some(noise))
}
