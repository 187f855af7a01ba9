//! Unaccelerated DP-SRG ([000 §4.3], [004 §4.3]): the recursion of Accelerated-DP-SRGD with plain projected steps.
//!
//! ```text
//! D_t     = (Σ_{i ∈ B_t} clip(w_t·∇f(x_t; d_i) − w_{t−1}·∇f(x_{t−1}; d_i), S) + (C⁻¹Z)_t) / B,    w_t = (t + 1)^k, w_{−1} = 0
//! g_t     = (Σ_{s ≤ t} D_s) / w_t
//! x_{t+1} = Π(x_t − g_t/β)
//! ```
//!
//! **Privacy.** As in [`super::accelerated_srg`]: one pass, one clipped difference an example.

use rounds_kernels::features::Norm;
use rounds_kernels::linear::{Clip, Point};

use super::accelerated_srg::{PRACTICAL_DISTANCE, default_clip_norm, recursion_variance, single_pass, smoothness};
use super::matrix_factorization::calibrated;
use super::plan;
use super::sgd::project_onto_ball;
use super::{Algorithm, NoiseKind, Optimizer, PrepareError, Prepared, Settings, StepError};
use crate::factorization::WorkloadSpecification;
use crate::noise::{NoiseMechanism, NoisePlan};
use crate::oracle::{Oracle, Phase};
use crate::problem::PublicProblem;
use crate::sampling::Sampler;
use crate::state::StateVisitor;

/// The catalogue's entry.
pub static UNACCELERATED_DP_SRG: Algorithm = Algorithm {
    id: "unaccelerated-dp-srg",
    name: "unaccelerated DP-SRG",
    source: "[000 §4.3], [004 §4.3]",
    promise: "(ε, δ)-DP in one pass, by correlated noise on clipped gradient differences",
    private: true,
    parameters: &[
        (
            "beta",
            "β of the step 1/β (default: M/10 + √V/R with the variance V of the run's recursion and R = radius or 5)",
        ),
        (
            "smoothness",
            "smoothness M that steps are set for (default: as for accelerated-dp-srg)",
        ),
        (
            "radius",
            "radius R of the ball that iterates are projected on (default: none)",
        ),
        (
            "power",
            "k of the weights w_t = (t + 1)^k (default: 1; 0 gives the SARAH/SPIDER recursion)",
        ),
    ],
    constructor,
};

fn constructor(problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
    let plan = single_pass(settings, problem, UNACCELERATED_DP_SRG.id)?;
    let smoothness = smoothness(problem, settings)?;
    let power = settings.number("power", 1.0, "a number of at least 0 is needed", |k| {
        k >= 0.0 && k.is_finite()
    })?;
    let radius = settings.number("radius", f64::INFINITY, "a radius above 0 is needed", |radius| {
        radius > 0.0
    })?;
    let clip_norm = plan::clip_norm(settings, default_clip_norm(problem))?;
    let noise = NoisePlan {
        kind: settings.noise.unwrap_or(NoiseKind::Tree),
        rounds: plan.rounds,
        rounds_per_epoch: plan.rounds_per_epoch,
        workload: WorkloadSpecification::prefix(),
        dimension: problem.parameters(),
    };
    let (privacy, statement) = calibrated(
        problem,
        settings,
        &plan,
        noise.prepare(&settings.strategies)?,
        clip_norm,
    )?;
    // The step at which M/10 keeps plain descent stable and √V/R balances its noise: on MNIST and on planted logistic data, for
    // ε = 0.1 and 1 and B from 10 to 2,000, the best β of a grid lies within a factor of 2 of it.
    let distance = if radius.is_finite() { radius } else { PRACTICAL_DISTANCE };
    let variance = recursion_variance(&plan, clip_norm, privacy.noise_deviation, problem.parameters());
    let beta = settings.number(
        "beta",
        0.1 * smoothness + variance.sqrt() / distance,
        "a number above 0 is needed",
        |beta| beta > 0.0 && beta.is_finite(),
    )?;
    let sampler = Sampler::new(plan.sampling, problem.rows(), plan.batch_size, settings.key.clone())?;
    let dimension = problem.parameters();
    let optimizer = UnacceleratedSrg {
        beta,
        power,
        radius: radius.is_finite().then_some(radius),
        clip: Clip::Bounded {
            norm: Norm::L2,
            clip_norm,
        },
        sampler,
        noise: privacy.noise,
        iterate: vec![0.0; dimension],
        previous: vec![0.0; dimension],
        recursion: vec![0.0; dimension],
        sum: vec![0.0; dimension],
    };
    Ok(Prepared {
        queries: plan.difference_queries(&optimizer.sampler, true),
        ..Prepared::new(optimizer, plan.rounds as u64, Some(privacy.mechanism), statement)
    })
}

/// The iteration above.
struct UnacceleratedSrg {
    beta: f64,
    power: f64,
    radius: Option<f64>,
    clip: Clip,
    sampler: Sampler,
    noise: Box<dyn NoiseMechanism>,
    iterate: Vec<f32>,
    previous: Vec<f32>,
    /// Σ_{s ≤ t} D_s, noise included, times B.
    recursion: Vec<f64>,
    sum: Vec<f64>,
}

impl UnacceleratedSrg {
    /// w_t.
    fn weight(&self, round: u64) -> f64 {
        (round as f64 + 1.0).powf(self.power)
    }
}

impl Optimizer for UnacceleratedSrg {
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        let batch = self.sampler.draw(round, oracle.problem().rows());
        oracle.enter(Phase::Gradient);
        let weight = (round as f64 + 1.0).powf(self.power);
        let outcome = if round == 0 {
            oracle.gradient_sum(&batch, &self.iterate, self.clip, &mut self.sum)
        } else {
            let before = (round as f64).powf(self.power);
            let current = Point {
                coefficient: weight as f32,
                parameters: &self.iterate,
            };
            let previous = Point {
                coefficient: before as f32,
                parameters: &self.previous,
            };
            oracle.difference_sum(&batch, current, previous, self.clip, &mut self.sum)
        };
        outcome?;
        oracle.enter(Phase::Noise);
        self.noise.add_increment(round, &mut self.sum, oracle.engine())?;
        oracle.enter(Phase::Update);
        let per_row = 1.0 / (self.weight(round) * self.sampler.batch_size() as f64);
        let regularization = oracle.problem().regularization() as f32;
        let step = (1.0 / self.beta) as f32;
        let state = self.iterate.iter_mut().zip(&mut self.previous).zip(&mut self.recursion);
        for (((x, previous), total), &sum) in state.zip(&self.sum) {
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
        Some(&self.sampler)
    }

    fn solution(&mut self) -> &[f32] {
        &self.iterate
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("previous", &mut self.previous);
        visitor.f64s("recursion", &mut self.recursion);
        self.noise.visit_state(visitor);
    }
}
