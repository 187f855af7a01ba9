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
use super::matrix_factorization::calibrated;
use super::noisy_sums::NoisySums;
use super::parameters::{BATCHES, NOISE, PRIVACY, Range, parameters};
use super::plan;
use super::scene::Scene;
use super::sgd::project_onto_ball;
use super::{Algorithm, AssumptionWarning, NoiseKind, Optimizer, PrepareError, Prepared, Settings, StepError};
use crate::factorization::WorkloadSpecification;
use crate::oracle::Oracle;
use crate::problem::PublicProblem;
use crate::sampling::Sampler;
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
    groups: &[BATCHES, PRIVACY, NOISE, Steps::ALL, Weights::ALL],
    scenes: &[Scene::SINGLE_PASS],
    constructor,
};

fn constructor(problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
    let plan = single_pass(settings, problem, UNACCELERATED_DP_SRG.id)?;
    let own = Steps::read(settings)?;
    let smoothness = own.smoothness.unwrap_or_else(|| default_smoothness(problem));
    let power = Weights::read(settings)?.power;
    let clip_norm = plan::clip_norm(settings, default_clip_norm(problem))?;
    let noise = (NoiseKind::Tree, WorkloadSpecification::prefix());
    let (noise, stream) = calibrated(problem, settings, &plan, noise, clip_norm)?;
    // The step at which M/10 keeps plain descent stable and √V/R balances its noise: on MNIST and on planted logistic data, for
    // ε = 0.1 and 1 and B from 10 to 2,000, the best β of a grid lies within a factor of 2 of it.
    let distance = own.radius.unwrap_or(PRACTICAL_DISTANCE);
    let variance = recursion_variance(&plan, &noise, problem.parameters());
    let beta = own.beta.unwrap_or(0.1 * smoothness + variance.sqrt() / distance);
    let sums = NoisySums::new(problem, settings, &plan, Some((clip_norm, stream)))?;
    let dimension = problem.parameters();
    let optimizer = UnacceleratedSrg {
        beta,
        power,
        radius: own.radius,
        sums,
        iterate: vec![0.0; dimension],
        previous: vec![0.0; dimension],
        recursion: vec![0.0; dimension],
    };
    let prepared = Prepared {
        queries: plan.difference_queries(&optimizer.sums.sampler, true),
        warnings: own.radius.is_none().then_some(AssumptionWarning::NoProjection).into_iter().collect(),
        ..Prepared::new(optimizer, plan.rounds as u64, Some(noise.mechanism), noise.statement)
    };
    Ok(plan.told(prepared).with("beta", beta))
}

/// The iteration above.
struct UnacceleratedSrg {
    beta: f64,
    power: f64,
    radius: Option<f64>,
    sums: NoisySums,
    iterate: Vec<f32>,
    previous: Vec<f32>,
    /// Σ_{s ≤ t} D_s, noise included, times B.
    recursion: Vec<f64>,
}

impl Optimizer for UnacceleratedSrg {
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        // w_t.
        let weight = (round as f64 + 1.0).powf(self.power);
        let point = |coefficient: f64, parameters| Point { coefficient: coefficient as f32, parameters };
        let previous = (round > 0).then(|| point((round as f64).powf(self.power), &self.previous));
        self.sums.release(round, oracle, point(weight, &self.iterate), previous)?;
        let per_row = 1.0 / (weight * self.sums.sampler.batch_size() as f64);
        let regularization = oracle.problem().regularization() as f32;
        let step = (1.0 / self.beta) as f32;
        let state = self.iterate.iter_mut().zip(&mut self.previous).zip(&mut self.recursion);
        for (((x, previous), total), &sum) in state.zip(&self.sums.sum) {
            *total += sum;
            *previous = *x;
            *x -= step * ((*total * per_row) as f32 + regularization * *x);
        }
        if let Some(radius) = self.radius {
            project_onto_ball(&mut self.iterate, radius);
        }
        Ok(())
    }

    fn batches(&self) -> Option<&Sampler> {
        Some(&self.sums.sampler)
    }

    fn solution(&mut self) -> &[f32] {
        &self.iterate
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("previous", &mut self.previous);
        visitor.f64s("recursion", &mut self.recursion);
        self.sums.visit_state(visitor);
    }
}
