//! Unaccelerated DP-SRG ([000 §4.3], [004 §4.3]): the recursion of Accelerated-DP-SRGD with plain projected steps.
//!
//! ```text
//! D_t     = (Σ_{i ∈ B_t} clip(w_t·∇f(x_t; d_i) − w_{t−1}·∇f(x_{t−1}; d_i), S) + (C⁻¹Z)_t) / B,    w_t = (t + 1)^k, w_{−1} = 0
//! g_t     = (Σ_{s ≤ t} D_s) / w_t
//! x_{t+1} = Π(x_t − g_t/β)
//! ```
//!
//! **Privacy.** As in [`super::accelerated_srg`]: one pass, one clipped difference an example.

use rounds_kernels::linear::Point;

use super::accelerated_srg::{
    PRACTICAL_DISTANCE, Steps, default_clip_norm, default_smoothness, recursion_variance, single_pass,
};
use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::matrix_factorization::tenth;
use super::noisy_sums::{Iteration, NoisySums, Release};
use super::optimizer::AssumptionWarning;
use super::parameters::{BATCHES, NOISE, PRIVACY, Range, parameters};
use super::plan;
use super::scene::Scene;
use super::settings::SettingsError;
use super::sgd::project_onto_ball;
use crate::factorization::WorkloadSpecification;
use crate::noise::NoiseKind;
use crate::oracle::MOST_COEFFICIENT;
use crate::state::StateVisitor;

parameters! {
    /// Parameters of the recursion.
    struct Weights {
        /// k of the weights w_t = (t + 1)^k; 0 gives the SARAH/SPIDER recursion
        power: f64 [Range::NOT_NEGATIVE] = 1.0,
    }
}

pub(super) static UNACCELERATED_DP_SRG: Algorithm = Algorithm {
    id: "unaccelerated-dp-srg",
    name: "unaccelerated DP-SRG",
    source: "[000 §4.3], [004 §4.3]",
    promise: "(ε, δ)-DP in one pass, by correlated noise on clipped gradient differences",
    private: true,
    release: true,
    common: &[BATCHES, PRIVACY, NOISE],
    scenes: &[Scene::SINGLE_PASS],
    constructor: &Reads(prepare),
};

fn prepare(run: &Run<'_>, (steps, weights): (Steps, Weights)) -> Result<Prepared, PrepareError> {
    let plan = single_pass(run, tenth(run))?;
    // w_{T−1} + w_{T−2}, the greatest weight of a sum: one that is too great would end the run in a late round, with its budget spent.
    let weight = |round: usize| (round as f64).powf(weights.power);
    if weight(plan.rounds) + weight(plan.rounds.saturating_sub(1)) > f64::from(MOST_COEFFICIENT) {
        let reason = "would weigh the gradients of the last round by more than 2^50: lower it, or plan fewer rounds";
        return Err(SettingsError::unsupported("power", weights.power, run.id, reason).into());
    }
    let smoothness = steps.smoothness.unwrap_or_else(|| default_smoothness(run.problem));
    let clip_norm = plan::clip_norm(run, default_clip_norm(run.problem))?;
    let noise = plan.correlated_noise(run, (NoiseKind::Tree, WorkloadSpecification::prefix()), clip_norm)?;
    // The step at which M/10 keeps plain descent stable and √V/R balances its noise: on MNIST and on planted logistic data, for
    // ε = 0.1 and 1 and B from 10 to 2,000, the best β of a grid lies within a factor of 2 of it.
    let distance = steps.radius.unwrap_or(PRACTICAL_DISTANCE);
    let dimension = run.problem.parameters();
    let variance = recursion_variance(&plan, &noise, dimension);
    let beta = steps.beta.unwrap_or(0.1 * smoothness + variance.sqrt() / distance);
    let iteration = UnacceleratedSrg {
        beta,
        power: weights.power,
        radius: steps.radius,
        iterate: vec![0.0; dimension],
        previous: vec![0.0; dimension],
        recursion: vec![0.0; dimension],
    };
    let mut prepared = NoisySums::new(run, &plan, Some(noise))?.prepared(&plan, iteration, true);
    prepared.warnings.extend(steps.radius.is_none().then_some(AssumptionWarning::NoProjection));
    Ok(prepared.with("beta", beta))
}

/// The iteration above.
struct UnacceleratedSrg {
    beta: f64,
    power: f64,
    radius: Option<f64>,
    iterate: Vec<f32>,
    previous: Vec<f32>,
    /// Σ_{s ≤ t} D_s, noise included, times B.
    recursion: Vec<f64>,
}

impl UnacceleratedSrg {
    /// w_t.
    fn weight(&self, round: u64) -> f64 {
        (round as f64 + 1.0).powf(self.power)
    }
}

impl Iteration for UnacceleratedSrg {
    fn query(&mut self, round: u64) -> (Point<'_>, Option<Point<'_>>) {
        let point = |coefficient: f64, parameters| Point { coefficient: coefficient as f32, parameters };
        let previous = (round > 0).then(|| point(self.weight(round - 1), &self.previous));
        (point(self.weight(round), &self.iterate), previous)
    }

    fn update(&mut self, release: &Release<'_>) {
        let per_row = 1.0 / (self.weight(release.round) * release.batch_size);
        let regularization = release.regularization as f32;
        let step = (1.0 / self.beta) as f32;
        let state = self.iterate.iter_mut().zip(&mut self.previous).zip(&mut self.recursion);
        for (((x, previous), total), &sum) in state.zip(release.sum) {
            *total += sum;
            *previous = *x;
            *x -= step * ((*total * per_row) as f32 + regularization * *x);
        }
        project_onto_ball(&mut self.iterate, self.radius);
    }

    fn solution(&mut self) -> &[f32] {
        &self.iterate
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("previous", &mut self.previous);
        visitor.f64s("recursion", &mut self.recursion);
    }
}
