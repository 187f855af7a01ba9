//! The release of a round that most methods share: a batch, the sum of its clipped gradients or differences, and its noise; and
//! the optimiser of an iteration that reads nothing else.

use rounds_kernels::linear::{Clip, LocalSteps, Point};

use super::algorithm::{PrepareError, Prepared, Run};
use super::optimizer::{Optimizer, StepError};
use super::plan::BatchPlan;
use crate::noise::{NoiseMechanism as _, PrivateNoise};
use crate::oracle::{Oracle, Phase, in_real_numbers};
use crate::sampling::Sampler;
use crate::state::StateVisitor;

/// Batches, clipping and noise; without noise nothing is clipped.
pub(super) struct NoisySums {
    sampler: Sampler,
    noise: Option<PrivateNoise>,
    /// The last release, times the batch size.
    sum: Vec<f64>,
    /// Local steps of the units, where they take them.
    local: Option<LocalSteps>,
    /// The noise of the last release alone; empty for the methods that do not read it.
    noise_alone: Vec<f64>,
}

/// A noisy sum over a batch, with the numbers of its round.
pub(super) struct Release<'a> {
    pub(super) round: u64,
    /// Σ clip(…) + noise.
    pub(super) sum: &'a [f64],
    /// The noise in it, for the methods that read it.
    pub(super) noise_alone: &'a [f64],
    /// B, which sums are divided by.
    pub(super) batch_size: f64,
    /// λ of the problem.
    pub(super) regularization: f64,
}

/// A method whose rounds are noisy sums: the points of the gradients, and the update by the sum.
pub(super) trait Iteration: Send {
    /// The point of the round, and the one whose gradients are subtracted.
    fn query(&mut self, round: u64) -> (Point<'_>, Option<Point<'_>>);

    /// The step of the round.
    fn update(&mut self, release: &Release<'_>);

    /// As [`Optimizer::solution`].
    fn solution(&mut self) -> &[f32];

    /// As [`Optimizer::visit_state`]; the noise follows.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}

impl NoisySums {
    /// The batches of `plan`, sums of terms clipped as `noise` is scaled for, and that noise on them.
    pub(super) fn new(run: &Run<'_>, plan: &BatchPlan, noise: Option<PrivateNoise>) -> Result<Self, PrepareError> {
        let sampler = Sampler::new(plan.sampling, run.problem.rows(), plan.batch_size, run.key().clone())?;
        Ok(Self::of(sampler, noise, run.problem.parameters()))
    }

    /// Sums of `dimension` entries over the batches of `sampler`.
    ///
    /// # Panics
    /// Noise that is accounted for another sampling.
    pub(super) fn of(sampler: Sampler, noise: Option<PrivateNoise>, dimension: usize) -> Self {
        let accounted = noise.as_ref().and_then(|noise| noise.mechanism().sampling());
        assert!(
            accounted.is_none_or(|accounted| accounted == sampler.sampling()),
            "the noise is accounted for the batches that are drawn"
        );
        Self { sampler, noise, sum: vec![0.0; dimension], local: None, noise_alone: Vec::new() }
    }

    /// The same sums of differences of models after local steps, where there are any, in place of gradients.
    pub(super) fn with_local_steps(self, local: Option<LocalSteps>) -> Self {
        Self { local, ..self }
    }

    /// The same sums, which tell their noise alone.
    pub(super) fn telling_noise(mut self) -> Self {
        self.noise_alone = vec![0.0; self.sum.len()];
        self
    }

    /// The run of `iteration` on these sums; it queries two gradients a row after the first round where it takes `differences`.
    pub(super) fn prepared(self, plan: &BatchPlan, iteration: impl Iteration + 'static, differences: bool) -> Prepared {
        let queries = plan.difference_queries(&self.sampler, differences);
        let optimizer = Descent { sums: self, iteration };
        plan.told(Prepared { queries, ..Prepared::new(optimizer, plan.rounds as u64) })
    }

    /// `sum = Σ clip(∇f(x; d_i)) + noise`, or with a previous point `Σ clip(a·∇f(x; d_i) − b·∇f(x′; d_i)) + noise`. The
    /// phase [`Update`](Phase::Update) has then begun.
    fn release(
        &mut self,
        round: u64,
        oracle: &mut Oracle<'_>,
        points: (Point<'_>, Option<Point<'_>>),
    ) -> Result<Release<'_>, StepError> {
        let batch = self.sampler.draw(round, oracle.problem().rows());
        oracle.enter(Phase::Gradient);
        let clip = self.noise.as_ref().map_or(Clip::Unbounded, PrivateNoise::clip);
        let unit = match (&self.local, points) {
            (Some(local), (point, None)) => {
                oracle.local_sum_in_units(&batch, point.parameters, local, clip, &mut self.sum)?
            }
            _ => oracle.sum_in_units(&batch, points, clip, &mut self.sum)?,
        };
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
        Ok(Release {
            round,
            sum: &self.sum,
            noise_alone: &self.noise_alone,
            batch_size: self.sampler.batch_size() as f64,
            regularization: oracle.problem().regularization(),
        })
    }
}

/// An iteration with its sums.
pub(super) struct Descent<I> {
    sums: NoisySums,
    iteration: I,
}

impl<I> Descent<I> {
    /// `iteration` on `sums`.
    pub(super) fn new(sums: NoisySums, iteration: I) -> Self {
        Self { sums, iteration }
    }
}

impl<I: Iteration> Optimizer for Descent<I> {
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        let release = self.sums.release(round, oracle, self.iteration.query(round))?;
        self.iteration.update(&release);
        Ok(())
    }

    fn noise(&self) -> Option<&PrivateNoise> {
        self.sums.noise.as_ref()
    }

    fn batches(&self) -> Option<&Sampler> {
        Some(&self.sums.sampler)
    }

    fn solution(&mut self) -> &[f32] {
        self.iteration.solution()
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        self.iteration.visit_state(visitor);
        if let Some(noise) = &mut self.sums.noise {
            noise.visit_state(visitor);
        }
    }
}
