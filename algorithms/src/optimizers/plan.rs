//! The plan that every mini-batch method shares: batches, rounds, sampling, the relation of the claim, and the noise of the run.

use rounds_kernels::features::Norm;

use super::algorithm::{PrepareError, Prepared, Run};
use super::parameters::Range;
use super::schedule::LearningRateSchedule;
use super::settings::{SamplingKind, SettingsError};
use crate::factorization::WorkloadSpecification;
use crate::noise::{NoiseKind, NoisePlan, PlannedNoise, PrivateNoise};
use crate::privacy::{Adjacency, Sampling};
use crate::problem::PublicProblem;
use crate::sampling::Sampler;

/// Size, number and law of the batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BatchPlan {
    /// Nominal batch size B: sums are divided by it.
    pub(super) batch_size: usize,
    /// Rounds T.
    pub(super) rounds: usize,
    /// Rounds of one pass over the data, ⌈n/B⌉.
    pub(super) rounds_per_epoch: usize,
    /// The sampler's description, as the accountant reads it.
    pub(super) sampling: Sampling,
    /// Neighbouring relation of the guarantee.
    pub(super) adjacency: Adjacency,
}

/// Defaults of an algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchDefaults {
    /// Batch size, cut to n.
    pub(super) batch_size: usize,
    /// Passes over the data.
    pub(super) epochs: f64,
    /// Sampling scheme.
    pub(super) sampling: SamplingKind,
}

/// The size of the run whose batches are to be described.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) batch_size: usize,
    pub(super) rows: usize,
    pub(super) rounds: usize,
}

/// Batches of 4,000 rows, of a fifth of fewer than 20,000, but not below 20: a short run of long steps is unstable where rows lie far
/// from 0. 150 rounds, of [wide and short](are_wide_and_short) rows 300, in at least 10 epochs and at most 30.
pub(super) fn private_batches(problem: &PublicProblem) -> BatchDefaults {
    let rows = problem.rows();
    let batch_size = rows.div_ceil(5).clamp(20, 4_000);
    let rounds = if are_wide_and_short(problem) { 300.0 } else { 150.0 };
    BatchDefaults {
        batch_size,
        epochs: (rounds * batch_size as f64 / rows.max(1) as f64).clamp(10.0, 30.0),
        sampling: SamplingKind::Poisson,
    }
}

/// The default momentum of DP-SGD.
pub(super) const PRIVATE_MOMENTUM: f64 = 0.9;

impl BatchPlan {
    /// `prepared` with the batches that it was prepared for.
    pub(super) fn told(&self, prepared: Prepared) -> Prepared {
        let prepared = Prepared { batch_size: Some(self.batch_size), ..prepared };
        prepared.with("batch-size", self.batch_size).with("sampling", self.sampling)
    }

    /// The plan for `problem`, under the relation that the settings ask for or the domain declares.
    ///
    /// # Errors
    /// Zero epochs, batches that the data cannot give, add/remove without a public number of rows.
    pub(super) fn new(run: &Run<'_>, defaults: BatchDefaults) -> Result<Self, PrepareError> {
        Self::described(run, defaults, |_, _| Ok(None))
    }

    /// The same; `described` has the samplers that a method of independent batches takes, too.
    ///
    /// # Errors
    /// As [`new`](Self::new); groups that the rounds or the rows cannot give.
    pub(super) fn described(
        run: &Run<'_>,
        defaults: BatchDefaults,
        described: impl FnOnce(SamplingKind, Extent) -> Result<Option<Sampling>, PrepareError>,
    ) -> Result<Self, PrepareError> {
        let (rows, common) = (run.problem.rows(), &run.common);
        let batch_size = batch_size(run, defaults.batch_size)?;
        let epochs = common.epochs.unwrap_or(defaults.epochs);
        let rounds = match common.rounds {
            Some(rounds) => rounds,
            None => rounds_of(epochs, rows, batch_size)?,
        };
        let kind = common.sampling.unwrap_or(defaults.sampling);
        let size = Extent { batch_size, rows, rounds };
        let described = described(kind, size)?;
        let sampling = match kind {
            _ if described.is_some() => described.expect("a description"),
            SamplingKind::CyclicPoisson
            | SamplingKind::RandomAllocation
            | SamplingKind::CyclicAllocation
            | SamplingKind::TruncatedPoisson => {
                let reason = "draws no such batches; dp-sgd does";
                return Err(SettingsError::unsupported("sampling", kind, run.id, reason).into());
            }
            SamplingKind::Poisson => Sampling::Poisson { rate: batch_size as f64 / rows as f64 },
            SamplingKind::WithoutReplacement => Sampling::WithoutReplacement { batch: batch_size, population: rows },
            _ if batch_size == rows => Sampling::FullBatch,
            SamplingKind::Fixed => Sampling::FixedOrder,
            SamplingKind::Shuffled => Sampling::ShuffledOnce,
            SamplingKind::Reshuffled => Sampling::ReshuffledEachEpoch,
        };
        let adjacency = adjacency(run)?;
        Ok(Self { batch_size, rounds, rounds_per_epoch: rows.div_ceil(batch_size), sampling, adjacency })
    }

    /// Queries of a run that asks one a row, or two in every round but the first where it takes `differences`.
    pub(super) fn difference_queries(&self, sampler: &Sampler, differences: bool) -> Option<u64> {
        let rows = sampler.planned_rows(self.rounds as u64)?;
        let again = if differences { rows - sampler.planned_rows(1)? } else { 0 };
        Some(rows + again)
    }

    /// Rounds in which one example takes part at most, for sampling that is not random.
    pub(super) fn participations(&self) -> usize {
        self.rounds.div_ceil(self.rounds_per_epoch)
    }
}

/// `workload` with the step sizes of the run, or those of `default`, as factors of its learning rate: a factor common to all rounds changes no
/// strategy.
pub(super) fn scheduled(
    run: &Run<'_>,
    default: &LearningRateSchedule,
    rounds: usize,
    workload: WorkloadSpecification,
) -> Result<WorkloadSpecification, SettingsError> {
    let schedule = run.common.learning_rate_schedule.as_ref().unwrap_or(default);
    schedule.check(rounds)?;
    Ok(match schedule.factors(rounds) {
        Some(factors) => workload.with_learning_rates(factors),
        None => workload,
    })
}

/// Rounds of batches of B that make `epochs` passes over n rows: ⌈epochs·n/B⌉. Refuses more than a run could ever end.
pub(super) fn rounds_of(epochs: f64, rows: usize, batch_size: usize) -> Result<usize, SettingsError> {
    let rounds = (epochs * rows as f64 / batch_size as f64).ceil().max(1.0);
    Range::ROUNDS.check("rounds (epochs × rows / batch size)", rounds)?;
    Ok(rounds as usize)
}

/// The batch size that is set, or `default` cut to the number of rows.
pub(super) fn batch_size(run: &Run<'_>, default: usize) -> Result<usize, SettingsError> {
    let rows = run.problem.rows();
    let batch_size = run.common.batch_size.unwrap_or(default.min(rows));
    if batch_size == 0 || batch_size > rows {
        return Err(SettingsError::out_of_range("batch-size", batch_size, "a number from 1 to the number of rows"));
    }
    Ok(batch_size)
}

/// The relation of a claim: the one that is set, else that of the domain.
///
/// # Errors
/// Add/remove where the domain declares no public number of rows.
pub(super) fn adjacency(run: &Run<'_>) -> Result<Adjacency, SettingsError> {
    let declared = run.problem.relation().adjacency();
    let adjacency = run.common.adjacency.unwrap_or(declared);
    let expected = match [declared, adjacency].map(|relation| relation == Adjacency::AddRemove) {
        [true, false] => "add-remove, as the domain declares: its number of rows is private; declare another relation",
        [false, true] => "add-remove keeps the number of rows private: a domain with a public one (public-rows)",
        _ => return Ok(adjacency),
    };
    Err(SettingsError::out_of_range("adjacency", adjacency, expected))
}

/// Refuses units of several rows, for an algorithm whose guarantee rests on the gradients of single rows: a clipped mean of several is no
/// gradient of a convex function, and a sum of them is longer than a row's.
pub(super) fn rows_alone(run: &Run<'_>) -> Result<(), SettingsError> {
    let reason = "bounds what the gradient of one row does to its iterates, which no theorem does for a unit of several: choose \
                  dp-sgd or another method of clipped sums, or declare no unit";
    run.problem.unit().map_or(Ok(()), |unit| Err(SettingsError::unsupported("unit", unit, run.id, reason)))
}

/// Refuses noise other than a fresh Gaussian a round, for an algorithm that adds that alone.
pub(super) fn independent_noise_only(run: &Run<'_>) -> Result<(), SettingsError> {
    let reason = "adds a fresh Gaussian a round and takes no other noise; for correlated noise take dp-ftrl, dp-mf or \
                  dp-memf, for Laplace noise dp-gd";
    match run.common.noise {
        None | Some(NoiseKind::Independent) => Ok(()),
        Some(noise) => Err(SettingsError::unsupported("noise", noise, run.id, reason)),
    }
}

/// The clip norm as the f32 that the kernels clip to: what is clipped to and what is accounted for are one number.
pub(super) fn clip_norm(run: &Run<'_>, default: f64) -> Result<f32, SettingsError> {
    single_clip_norm(run.common.clip_norm.unwrap_or(default) as f32)
}

/// `clip_norm` if the kernels can clip to it.
pub(super) fn single_clip_norm(clip_norm: f32) -> Result<f32, SettingsError> {
    Range::CLIPPABLE.check("clip-norm", f64::from(clip_norm)).map(|_| clip_norm)
}

/// `radius` if iterates within it cannot make margins overflow, or shift them so far, whatever a row of the domain holds.
pub(super) fn bounded_radius(problem: &PublicProblem, radius: f64) -> Result<f64, SettingsError> {
    if radius <= 0.5 * f64::from(problem.most_weight()) {
        return Ok(radius);
    }
    Err(SettingsError::out_of_range("radius", radius, "a smaller radius (margins could overflow)"))
}

/// True for 2,000 features and more of rows that are clipped to a norm of at most ¾ of what the bounds of features alone imply, as those of scattering and
/// Fourier features are.
pub(super) fn are_wide_and_short(problem: &PublicProblem) -> bool {
    problem.is_short() && problem.model().features >= 2_000
}

/// A public bound on `‖a‖²` of all rows, and 1 more with a bias; none where the rows have none.
pub(super) fn squared_row(problem: &PublicProblem) -> Option<f64> {
    let bias = if problem.model().bias { 1.0 } else { 0.0 };
    problem.row_bound(Norm::L2).map(|bound| bound * bound + bias)
}

impl BatchPlan {
    /// `planned` noise at the budget of the run, on sums of terms clipped to `clip_norm` over these batches.
    pub(super) fn calibrate(
        &self,
        run: &Run<'_>,
        clip_norm: f32,
        planned: PlannedNoise,
    ) -> Result<PrivateNoise, PrepareError> {
        Ok(run.calibration(self.adjacency, clip_norm)?.calibrate(planned, self.sampling)?)
    }

    /// The noise of the settings, by default of kind `default`, for sums that the run adds up by `workload`.
    pub(super) fn correlated_noise(
        &self,
        run: &Run<'_>,
        (default, workload): (NoiseKind, WorkloadSpecification),
        clip_norm: f32,
    ) -> Result<PrivateNoise, PrepareError> {
        let plan = NoisePlan {
            rounds: self.rounds,
            rounds_per_epoch: self.rounds_per_epoch,
            workload,
            dimension: run.problem.parameters(),
        };
        let planned = run.common.noise.unwrap_or(default).prepare(&plan, run.strategies())?;
        self.calibrate(run, clip_norm, planned)
    }

    /// Fresh Gaussian noise for every round: subsampled where the sampler amplifies, else one Gaussian mechanism.
    pub(super) fn independent_noise(&self, run: &Run<'_>, clip_norm: f32) -> Result<PrivateNoise, PrepareError> {
        independent_noise_only(run)?;
        let planned = if self.sampling.amplifies() {
            PlannedNoise::subsampled_gaussian(self.rounds)
        } else {
            PlannedNoise::gaussian(self.participations())
        };
        self.calibrate(run, clip_norm, planned)
    }
}
