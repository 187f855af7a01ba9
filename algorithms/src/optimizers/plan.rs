//! From a person's settings to the plan that every mini-batch method shares: batches, rounds, sampling, calibrated noise.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rounds_kernels::features::Norm;
use sha2::{Digest as _, Sha256};

use super::parameters::{Common, Range};
use super::settings::SamplingKind;
use super::{Budget, NoiseKind, PrepareError, Settings, SettingsError};
use crate::hexadecimal;
use crate::parallel::lock;
use crate::privacy::{
    self, Accountant, Adjacency, Arithmetic, Mechanism, NoiseSource, PrivacyError, PrivacyStatement, PrivateRun,
    Sampling,
};
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

impl BatchPlan {
    /// `prepared` with the batches that it was prepared for.
    pub(super) fn told(&self, prepared: super::Prepared) -> super::Prepared {
        prepared.with("batch-size", self.batch_size).with("sampling", self.sampling)
    }

    /// The plan for `problem`, under the relation that the settings ask for or the domain declares.
    ///
    /// # Errors
    /// Zero epochs, batches that the data cannot give, add/remove without a public number of rows.
    pub(super) fn new(
        settings: &Settings,
        problem: &PublicProblem,
        defaults: BatchDefaults,
    ) -> Result<Self, PrepareError> {
        let (rows, common) = (problem.rows(), settings.common()?);
        let batch_size = batch_size(&common, rows, defaults.batch_size)?;
        let epochs = common.epochs.unwrap_or(defaults.epochs);
        let rounds = match common.rounds {
            Some(rounds) => rounds,
            None => rounds_of(epochs, rows, batch_size)?,
        };
        let sampling = match common.sampling.unwrap_or(defaults.sampling) {
            SamplingKind::Poisson => Sampling::Poisson { rate: batch_size as f64 / rows as f64 },
            SamplingKind::WithoutReplacement => Sampling::WithoutReplacement { batch: batch_size, population: rows },
            _ if batch_size == rows => Sampling::FullBatch,
            SamplingKind::Fixed => Sampling::FixedOrder,
            SamplingKind::Shuffled => Sampling::ShuffledOnce,
            SamplingKind::Reshuffled => Sampling::ReshuffledEachEpoch,
        };
        let adjacency = adjacency(problem, &common)?;
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

/// Rounds of batches of B that make `epochs` passes over n rows: ⌈epochs·n/B⌉. Refuses more than a run could ever end.
pub(super) fn rounds_of(epochs: f64, rows: usize, batch_size: usize) -> Result<usize, SettingsError> {
    let rounds = (epochs * rows as f64 / batch_size as f64).ceil().max(1.0);
    Range::ROUNDS.check("rounds (epochs × rows / batch size)", rounds)?;
    Ok(rounds as usize)
}

/// The batch size that is set, or `default` cut to the number of rows.
pub(super) fn batch_size(common: &Common, rows: usize, default: usize) -> Result<usize, SettingsError> {
    let batch_size = common.batch_size.unwrap_or(default.min(rows));
    if batch_size == 0 || batch_size > rows {
        return Err(SettingsError::out_of_range("batch-size", batch_size, "a number from 1 to the number of rows"));
    }
    Ok(batch_size)
}

/// The relation of a claim: the one that is set, else that of the domain.
///
/// # Errors
/// Add/remove where the domain declares no public number of rows.
pub(super) fn adjacency(problem: &PublicProblem, common: &Common) -> Result<Adjacency, SettingsError> {
    let declared = problem.relation().adjacency();
    let adjacency = common.adjacency.unwrap_or(declared);
    let expected = match [declared, adjacency].map(|relation| relation == Adjacency::AddRemove) {
        [true, false] => "add-remove, as the domain declares: its number of rows is private; declare another relation",
        [false, true] => "add-remove keeps the number of rows private: a domain with a public one (public-rows)",
        _ => return Ok(adjacency),
    };
    Err(SettingsError::out_of_range("adjacency", adjacency, expected))
}

/// Refuses noise other than a fresh Gaussian a round, for an algorithm that adds that alone.
pub(super) fn independent_noise_only(common: &Common, algorithm: &'static str) -> Result<(), SettingsError> {
    let reason = "adds a fresh Gaussian a round and takes no other noise; for correlated noise take dp-ftrl, dp-mf or \
                  dp-memf, for Laplace noise dp-gd";
    match common.noise {
        None | Some(NoiseKind::Independent) => Ok(()),
        Some(noise) => Err(SettingsError::unsupported("noise", noise, algorithm, reason)),
    }
}

/// Noise that fits a budget, and the statement about it.
pub(super) struct CalibratedNoise {
    /// Clip norm C > 0. An f32, so that what is clipped to and what is accounted for are the same number.
    pub(super) clip_norm: f32,
    /// Noise standard deviation over clip norm.
    pub(super) noise_multiplier: f64,
    /// The target ε, or that of the given noise multiplier.
    pub(super) epsilon: f64,
    /// δ of the budget.
    pub(super) delta: f64,
    /// Standard deviation of the noise on a sum whose summands are clipped to C, a coordinate.
    pub(super) standard_deviation: f64,
    /// The releases of the run, for accountants.
    pub(super) mechanism: Mechanism,
    /// The guarantee.
    pub(super) statement: PrivacyStatement,
}

/// The clip norm as the f32 that the kernels clip to: what is clipped to and what is accounted for are one number.
pub(super) fn clip_norm(settings: &Settings, default: f64) -> Result<f32, SettingsError> {
    let given = settings.common()?.clip_norm.unwrap_or(default);
    single_clip_norm(given as f32)
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

/// A public bound on `‖a‖²` of all rows, and 1 more with a bias; none where the rows have none.
pub(super) fn squared_row(problem: &PublicProblem) -> Option<f64> {
    let bias = if problem.model().bias { 1.0 } else { 0.0 };
    problem.row_bound(Norm::L2).map(|bound| bound * bound + bias)
}

/// The generator that the key stands for.
pub(super) fn noise_source(settings: &Settings) -> NoiseSource {
    if settings.is_release() { NoiseSource::Chacha20 } else { NoiseSource::Xoshiro }
}

/// The arithmetic of the run's sums and noise. Releases in a declared domain are exact. Simulations measure: their noise comes from the fast
/// sampler, whose floating point no claim needs.
pub(super) fn arithmetic(settings: &Settings, problem: &PublicProblem) -> Arithmetic {
    if settings.is_release() && problem.feature_grid().is_some() { Arithmetic::Exact } else { Arithmetic::Idealised }
}

/// Noise that was calibrated before, by all the inputs of its calibration; clones share it. The runs of a cell differ in
/// their seeds and share the noise, and every one of them is prepared from the target ε itself.
#[derive(Clone, Debug, Default)]
pub struct CalibrationMemory(Arc<Mutex<HashMap<String, f64>>>);

impl CalibrationMemory {
    /// [`privacy::calibrate`], made once. `mechanism` at 1 stands for the whole family: its argument scales the noise. Nothing
    /// is kept of a calibration that fails.
    pub(super) fn calibrate(
        &self,
        accountant: Accountant,
        adjacency: Adjacency,
        epsilon: f64,
        delta: f64,
        mechanism: impl Fn(f64) -> Mechanism,
    ) -> Result<f64, PrivacyError> {
        let inputs = format!("{accountant:?} {adjacency:?} {epsilon:?} {delta:?} {:?}", mechanism(1.0));
        // A schedule has as many numbers as rounds.
        let key = hexadecimal(&Sha256::digest(inputs));
        if let Some(&noise) = lock(&self.0).get(&key) {
            return Ok(noise);
        }
        let noise = privacy::calibrate(accountant, adjacency, epsilon, delta, mechanism)?;
        lock(&self.0).insert(key, noise);
        Ok(noise)
    }
}

/// Calibrates `mechanism` (a function of the noise multiplier) to the budget of `settings`, which must be one.
pub(super) fn calibrate(
    settings: &Settings,
    clip_norm: f32,
    adjacency: Adjacency,
    problem: &PublicProblem,
    mechanism: impl Fn(f64) -> Mechanism,
) -> Result<CalibratedNoise, PrepareError> {
    let accountant = settings.common()?.accountant.unwrap_or_else(|| Accountant::default_for(&mechanism(1.0)));
    // The statement turns an error of the accountant into no claim. A run with a budget ends with the error instead.
    let stated = |noise_multiplier, delta| accountant.epsilon(&mechanism(noise_multiplier), adjacency, delta);
    let (noise_multiplier, epsilon, delta) = match settings.budget {
        Budget::NonPrivate => {
            let expected = "a budget, an ε above 0 or a noise multiplier,";
            return Err(SettingsError::out_of_range("epsilon", "none", expected).into());
        }
        Budget::Target { epsilon, delta } => {
            let known = &settings.calibrations;
            let mut noise_multiplier = known.calibrate(accountant, adjacency, epsilon, delta, &mechanism)?;
            // ε on a grid is not exactly monotone: what is stated must hold.
            while stated(noise_multiplier, delta)? > epsilon {
                noise_multiplier *= 1.0 + 1e-10;
            }
            (noise_multiplier, epsilon, delta)
        }
        Budget::NoiseMultiplier { noise_multiplier, delta } => {
            let noise_multiplier = Range::POSITIVE.check("noise-multiplier", noise_multiplier)?;
            (noise_multiplier, stated(noise_multiplier, delta)?, delta)
        }
    };
    let mechanism = mechanism(noise_multiplier);
    let statement = PrivacyStatement::new(&PrivateRun {
        mechanism: &mechanism,
        accountant,
        adjacency,
        delta,
        clip_norm: f64::from(clip_norm),
        norm: Norm::L2,
        problem,
        noise_source: noise_source(settings),
        arithmetic: arithmetic(settings, problem),
    });
    let standard_deviation = noise_multiplier * f64::from(clip_norm);
    Ok(CalibratedNoise { clip_norm, noise_multiplier, epsilon, delta, standard_deviation, mechanism, statement })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn clones_of_a_memory_calibrate_once_and_another_input_anew() {
        let memory = CalibrationMemory::default();
        let asked = Cell::new(0);
        let find = |memory: &CalibrationMemory, epsilon, participations| {
            asked.set(0);
            let noise = memory.calibrate(Accountant::Gdp, Adjacency::ZeroOut, epsilon, 1e-5, |noise_multiplier| {
                asked.set(asked.get() + 1);
                Mechanism::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations }
            });
            (noise.unwrap(), asked.get())
        };
        let (first, searched) = find(&memory, 1.0, 1);
        assert!(searched > 2);
        assert_eq!(find(&memory.clone(), 1.0, 1), (first, 1));
        for (epsilon, participations) in [(1.0 + f64::EPSILON, 1), (1.0, 2)] {
            assert!(find(&memory, epsilon, participations).1 > 2);
        }
    }
}
