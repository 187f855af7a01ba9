//! The release of a round that most methods share: a batch, the sum of its clipped gradients or differences, and its noise.

use rounds_kernels::linear::{Clip, Point};

use super::plan::BatchPlan;
use super::{PrepareError, Settings, StepError};
use crate::noise::NoiseMechanism;
use crate::oracle::{Oracle, Phase, in_real_numbers};
use crate::problem::PublicProblem;
use crate::sampling::Sampler;
use crate::state::StateVisitor;

/// Batches, clipping and noise; without noise nothing is clipped.
pub(super) struct NoisySums {
    pub(super) sampler: Sampler,
    clip: Clip,
    noise: Option<Box<dyn NoiseMechanism>>,
    /// The last release, times the batch size.
    pub(super) sum: Vec<f64>,
    /// The noise of the last release alone; empty for the methods that do not read it.
    pub(super) noise_alone: Vec<f64>,
}

impl NoisySums {
    /// The batches of `plan`, sums of terms clipped to the norm (L2) of `privacy`, and its noise on them.
    pub(super) fn new(
        problem: &PublicProblem,
        settings: &Settings,
        plan: &BatchPlan,
        privacy: Option<(f32, Box<dyn NoiseMechanism>)>,
    ) -> Result<Self, PrepareError> {
        let clip = privacy.as_ref().map_or(Clip::Unbounded, |privacy| Clip::l2(privacy.0));
        Ok(Self {
            sampler: Sampler::new(plan.sampling, problem.rows(), plan.batch_size, settings.key.clone())?,
            clip,
            noise: privacy.map(|privacy| privacy.1),
            sum: vec![0.0; problem.parameters()],
            noise_alone: Vec::new(),
        })
    }

    /// `sum = Σ clip(∇f(x; d_i)) + noise`, or with a previous point `Σ clip(a·∇f(x; d_i) − b·∇f(x′; d_i)) + noise`. The
    /// phase [`Update`](Phase::Update) has then begun.
    pub(super) fn release(
        &mut self,
        round: u64,
        oracle: &mut Oracle<'_>,
        current: Point<'_>,
        previous: Option<Point<'_>>,
    ) -> Result<(), StepError> {
        let batch = self.sampler.draw(round, oracle.problem().rows());
        oracle.enter(Phase::Gradient);
        let unit = oracle.sum_in_units(&batch, (current, previous), self.clip, &mut self.sum)?;
        let alone = self.noise_alone.len();
        self.noise_alone.copy_from_slice(&self.sum[..alone]);
        if let Some(noise) = &mut self.noise {
            oracle.enter(Phase::Noise);
            noise.add_increment(round, &mut self.sum, unit, oracle.engine())?;
        }
        for (noise, sum) in self.noise_alone.iter_mut().zip(&self.sum) {
            *noise = sum - *noise;
        }
        in_real_numbers(&mut self.noise_alone, unit);
        in_real_numbers(&mut self.sum, unit);
        oracle.enter(Phase::Update);
        Ok(())
    }

    pub(super) fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        if let Some(noise) = &mut self.noise {
            noise.visit_state(visitor);
        }
    }
}
