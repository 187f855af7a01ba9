//! Samplers whose randomness is accounted for over several rounds: groups of units in turn, random allocation, batches that are cut. What
//! they leave room for is correlated noise of few bands.
//!
//! Unit i belongs to group i mod b, a public rule, and round r reads group r mod b alone. Two participations of a unit are at least b rounds
//! apart, so that under a C with b bands each reaches rows of C·G of its own: the run is what it would be with fresh noise of the norm of C's
//! column, on the ⌈T/b⌉ rounds of a group (Choquette-Choo et al. 2023, 2306.08153, Theorem 5). Fewer groups amplify more, more bands cost less
//! noise in the sums: [`Samplers::groups`] weighs them.

use super::accelerated_plan::NumberOr;
use super::algorithm::{PrepareError, Run};
use super::parameters::{ParameterValue as _, Range, parameters};
use super::plan::{self, BatchPlan, Extent};
use super::schedule::LearningRateSchedule;
use super::settings::{SamplingKind, SettingsError};
use crate::choices::choices;
use crate::factorization::{Workload, WorkloadSpecification, toeplitz_banded_error};
use crate::noise::{NoiseKind, NoisePlan, NoisePlanError, PrivateNoise};
use crate::privacy::{Budget, Mechanism, PrivacyError, Sampling};

choices! {
    /// A number that the plan chooses.
    pub(super) enum Chosen {
        /// The one with the least error.
        Auto = "auto",
    }
}

parameters! {
    /// Parameters of samplers beyond the batch size.
    pub(super) struct Samplers {
        /// Groups b of a cyclic sampler, and bands of its noise where none is given: auto is the number with the least error of the sums
        /// (default: auto for a target ε)
        bands: Option<NumberOr<Chosen>> [Range::new("a whole number of at least 1, or auto,", |value| value >= 1.0 && value.fract() == 0.0)],
        /// Rows of a truncated Poisson batch, at most (default: five standard deviations above the batch size)
        max_batch: Option<usize> [Range::COUNT],
    }
}

/// Refuses a value that is given and not read.
fn unused(
    algorithm: &'static str,
    parameter: &'static str,
    given: Option<String>,
    reason: &'static str,
) -> Result<(), SettingsError> {
    given.map_or(Ok(()), |value| Err(SettingsError::unsupported(parameter, value, algorithm, reason)))
}

impl Samplers {
    /// Refuses parameters of samplers where none of them is taken.
    pub(super) fn none_given(&self, id: &'static str) -> Result<(), SettingsError> {
        let reason = "takes it for samplers of its own, and none of them with the accountant last-iterate";
        unused(id, "bands", self.bands.text(), reason)?;
        unused(id, "max-batch", self.max_batch.text(), reason)
    }

    /// The description of batches of this kind; nothing for one that other methods take, too.
    pub(super) fn sampling(
        &self,
        run: &Run<'_>,
        schedule: &LearningRateSchedule,
        (kind, size): (SamplingKind, Extent),
    ) -> Result<Option<Sampling>, PrepareError> {
        let is_cyclic = matches!(kind, SamplingKind::CyclicPoisson | SamplingKind::CyclicAllocation);
        let bands = self.bands.text().filter(|_| !is_cyclic);
        unused(run.id, "bands", bands, "takes it for sampling cyclic-poisson and cyclic-allocation")?;
        let most = self.max_batch.text().filter(|_| kind != SamplingKind::TruncatedPoisson);
        unused(run.id, "max-batch", most, "takes it for sampling truncated-poisson")?;
        let Extent { batch_size, rows, .. } = size;
        let slots = |groups: usize| rows.div_ceil(batch_size.saturating_mul(groups));
        Ok(Some(match kind {
            SamplingKind::CyclicPoisson => cyclic(self.groups(run, schedule, size)?, size),
            SamplingKind::CyclicAllocation => {
                // Before Poisson batches stand for these, by their own name.
                Sampling::RandomAllocation { groups: 2, slots: 1 }.check(plan::adjacency(run)?)?;
                let groups = self.groups(run, schedule, size)?;
                Sampling::RandomAllocation { groups, slots: slots(groups) }
            }
            SamplingKind::RandomAllocation => Sampling::RandomAllocation { groups: 1, slots: slots(1) },
            SamplingKind::TruncatedPoisson => {
                let usual = batch_size as f64 + 5.0 * (batch_size as f64).sqrt();
                let most = self.max_batch.unwrap_or(usual.ceil() as usize).min(rows);
                Sampling::TruncatedPoisson { rate: batch_size as f64 / rows as f64, most, population: rows }
            }
            _ => return Ok(None),
        }))
    }

    /// The number of groups: the one that is given, or the one whose noise makes the least error of the sums of all rounds, found among
    /// numbers a quarter apart for Poisson batches. All of it follows from public numbers.
    fn groups(&self, run: &Run<'_>, schedule: &LearningRateSchedule, size: Extent) -> Result<usize, PrepareError> {
        let most = size.rounds.min(size.rows / size.batch_size);
        let refused = |value: f64| {
            let expected =
                "at most one group a round, and at most rows / batch size: a whole number within these, or auto,";
            SettingsError::out_of_range("bands", value, expected)
        };
        if let Some(NumberOr::Number(bands)) = self.bands {
            return if bands <= most as f64 { Ok(bands as usize) } else { Err(refused(bands).into()) };
        }
        let Budget::Target { epsilon, delta } = run.budget() else {
            let expected = "a target ε, at which auto weighs noise against bands, or a number of groups";
            return Err(SettingsError::out_of_range("bands", "auto", expected).into());
        };
        let calibration = run.calibration(plan::adjacency(run)?, 1.0)?;
        let sums = workload(run, schedule, size.rounds)?;
        let inputs = format!("error of bands, {} rounds, {sums:?}", size.rounds);
        let workload = Workload::new(size.rounds, sums).map_err(NoisePlanError::from)?;
        let error = |bands: usize| -> Result<f64, PrepareError> {
            let error = || toeplitz_banded_error(&workload, bands).map_err(NoisePlanError::from);
            let error = calibration.memory.remembered(&format!("{bands} {inputs}"), error)?;
            let mechanism = |noise_multiplier| {
                let (sampling, steps) = (cyclic(bands, size), size.rounds);
                Mechanism::SubsampledGaussian { noise_multiplier, sampling, steps }
            };
            Ok(error * calibration.noise_multiplier((epsilon, delta), mechanism)?)
        };
        least(most, error)
    }

    /// The noise of a run with such batches: that of the settings, by default of as many bands as there are groups.
    pub(super) fn noise(
        run: &Run<'_>,
        schedule: &LearningRateSchedule,
        plan: &BatchPlan,
        clip_norm: f32,
    ) -> Result<PrivateNoise, PrepareError> {
        let groups = plan.sampling.separation();
        let default = if groups == 1 { NoiseKind::Independent } else { NoiseKind::Banded(groups) };
        let kind = run.common.noise.unwrap_or(default);
        let takes_bands = matches!(plan.sampling, Sampling::CyclicPoisson { .. } | Sampling::RandomAllocation { .. });
        if kind == NoiseKind::Independent || !takes_bands {
            return plan.independent_noise(run, clip_norm);
        }
        let noise_plan = NoisePlan {
            rounds: plan.rounds,
            // A column alone: no two that one unit uses meet.
            rounds_per_epoch: plan.rounds,
            workload: workload(run, schedule, plan.rounds)?,
            dimension: run.problem.parameters(),
        };
        let bands = kind.bands(plan.rounds);
        if bands > groups {
            let sampling = plan.sampling.name();
            return Err(PrivacyError::BandsBeyondSeparation { bands, separation: groups, sampling }.into());
        }
        let planned = kind.prepare(&noise_plan, run.strategies())?.on_random_batches(bands, plan.rounds);
        let reason = "takes noise of a square C with as many bands as groups at most on such batches: independent, banded=b, or of all \
                      rounds optimal, toeplitz, fourier and blt where there are as many groups";
        plan.calibrate(
            run,
            clip_norm,
            planned.ok_or_else(|| SettingsError::unsupported("noise", kind, run.id, reason))?,
        )
    }
}

/// Poisson batches of `groups` groups.
fn cyclic(groups: usize, size: Extent) -> Sampling {
    let rate = size.batch_size as f64 * groups as f64 / size.rows as f64;
    Sampling::CyclicPoisson { groups, rate: rate.min(1.0) }
}

/// The sums that the run takes, with its momentum and step sizes, by default those of `schedule`.
fn workload(
    run: &Run<'_>,
    schedule: &LearningRateSchedule,
    rounds: usize,
) -> Result<WorkloadSpecification, SettingsError> {
    let momentum = run.common.momentum.unwrap_or(plan::PRIVATE_MOMENTUM);
    let workload = WorkloadSpecification::prefix();
    let workload = if momentum > 0.0 { workload.with_momentum(momentum) } else { workload };
    plan::scheduled(run, schedule, rounds, workload)
}

/// The argument from 1 to `most` of the least `error`, which falls and then rises: numbers a quarter apart, until three in a row are worse.
fn least(most: usize, error: impl Fn(usize) -> Result<f64, PrepareError>) -> Result<usize, PrepareError> {
    let (mut best, mut worse, mut bands) = ((f64::INFINITY, 1), 0, 1);
    while bands <= most && worse < 3 {
        let found = error(bands)?;
        if found < best.0 {
            (best, worse) = ((found, bands), 0);
        } else {
            worse += 1;
        }
        bands = if bands == most { most + 1 } else { (bands + bands.div_ceil(4)).min(most) };
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rounds_kernels::loss::Loss;
    use rounds_kernels::random::StreamKey;

    use super::*;
    use crate::optimizers::Settings;
    use crate::optimizers::algorithm::Prepared;
    use crate::privacy::{Accountant, Adjacency};
    use crate::problem::{Dataset, Features, Labels, Problem};

    fn problem(loss: Loss) -> Problem {
        let labels = Labels::Values(vec![1.0; 1_000]);
        let data = Dataset::new("rows", Features::f32(vec![0.5; 3_000], 3), labels).unwrap();
        Problem::new(Arc::new(data), loss, true, 0.0).unwrap()
    }

    fn prepared(epsilon: f64, settings: &str) -> Result<Prepared, PrepareError> {
        prepared_for(Loss::Squared, epsilon, settings)
    }

    fn prepared_for(loss: Loss, epsilon: f64, settings: &str) -> Result<Prepared, PrepareError> {
        let problem = problem(loss);
        let budget = Budget::Target { epsilon, delta: 1e-6 };
        let pairs = settings.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        let settings = pairs.fold(Settings::new(budget, StreamKey::Simulation(1)), |settings, (name, value)| {
            settings.with(name, value)
        });
        super::super::dp_sgd::DP_SGD.prepare(&problem, &settings)
    }

    #[test]
    fn every_sampler_states_its_law() {
        for (settings, expected) in [
            ("sampling=cyclic-poisson bands=5", Sampling::CyclicPoisson { groups: 5, rate: 0.1 }),
            ("sampling=random-allocation", Sampling::RandomAllocation { groups: 1, slots: 50 }),
            ("sampling=cyclic-allocation bands=4", Sampling::RandomAllocation { groups: 4, slots: 13 }),
            (
                "sampling=truncated-poisson max-batch=30",
                Sampling::TruncatedPoisson { rate: 0.02, most: 30, population: 1_000 },
            ),
        ] {
            let run = prepared(2.0, &format!("batch-size=20 rounds=100 {settings}")).unwrap();
            let mechanism = run.mechanism.unwrap();
            assert_eq!((mechanism.sampling(), mechanism.rounds()), (Some(expected), 100), "{settings}");
            let banded =
                matches!(mechanism, Mechanism::SubsampledBanded { bands, .. } if bands == expected.separation());
            assert_eq!(banded, expected.separation() > 1);
            let epsilon = Accountant::Pld.epsilon(&mechanism, Adjacency::ZeroOut, 1e-6).unwrap();
            assert!(epsilon <= 2.0 && epsilon > 1.999, "{settings}: {epsilon}");
        }
    }

    #[test]
    fn what_no_theorem_covers_is_refused_by_name() {
        for (settings, reason) in [
            ("sampling=cyclic-poisson bands=4 noise=banded=5", "at most 4 bands"),
            ("sampling=cyclic-poisson bands=4 noise=optimal", "at most 4 bands"),
            ("sampling=random-allocation noise=banded=2", "1 round apart"),
            ("sampling=cyclic-poisson bands=100 noise=tree", "noise of a square C"),
            ("sampling=cyclic-poisson bands=101", "at most one group a round"),
            ("sampling=cyclic-poisson bands=50 batch-size=21", "at most rows / batch size"),
            ("sampling=cyclic-poisson bands=4 adjacency=replace-one", "replace-one"),
            ("sampling=truncated-poisson adjacency=replace-one", "replace-one"),
            ("sampling=poisson bands=4", "bands 4: algorithm 'dp-sgd' takes it for sampling cyclic-poisson"),
            ("sampling=cyclic-poisson bands=4 max-batch=30", "truncated-poisson"),
            ("sampling=poisson noise=banded=4", "takes no other noise"),
            ("sampling=truncated-poisson noise=banded=4", "takes no other noise"),
            ("sampling=cyclic-poisson bands=4 accountant=gdp", "gdp"),
        ] {
            let refused =
                prepared(2.0, &format!("batch-size=10 rounds=100 {settings}")).err().expect(settings).to_string();
            assert!(refused.contains(reason), "{settings}: {refused}");
        }
        let problem = problem(Loss::Squared);
        let budget = Budget::Target { epsilon: 1.0, delta: 1e-6 };
        let settings = Settings::new(budget, StreamKey::Simulation(1)).with("sampling", "random-allocation");
        let refused =
            super::super::matrix_factorization::DP_MEMF.prepare(&problem, &settings).err().unwrap().to_string();
        assert!(refused.contains("dp-sgd does"), "{refused}");
    }

    /// As many bands as groups, and all of the rounds: one participation at most, at the rate of the group.
    #[test]
    fn dense_noise_is_taken_where_there_are_as_many_groups_as_rounds() {
        let run = prepared(2.0, "batch-size=10 rounds=40 sampling=cyclic-poisson bands=40 noise=optimal").unwrap();
        let mechanism = run.mechanism.unwrap();
        assert!(matches!(mechanism, Mechanism::SubsampledBanded { bands: 40, steps: 40, .. }), "{mechanism:?}");
    }

    #[test]
    fn the_noise_is_planned_for_the_steps_that_are_taken() {
        let settings = "batch-size=10 rounds=100 momentum=0 sampling=cyclic-poisson bands=4";
        let of = |loss, more: &str| prepared_for(loss, 2.0, &format!("{settings} {more}")).unwrap().mechanism.unwrap();
        // Real targets have constant steps by default, classes linear ones.
        let [constant, linear] = ["constant", "linear"].map(|name| format!("learning-rate-schedule={name}"));
        assert_eq!(of(Loss::Squared, ""), of(Loss::Squared, &constant));
        assert_eq!(of(Loss::Logistic, ""), of(Loss::Logistic, &linear));
        assert_ne!(of(Loss::Logistic, &constant), of(Loss::Logistic, &linear));
    }

    #[test]
    fn more_budget_takes_more_bands() {
        let bands = |epsilon| {
            let settings = "batch-size=10 rounds=100 momentum=0 sampling=cyclic-poisson";
            prepared(epsilon, settings).unwrap().mechanism.unwrap().sampling().unwrap().separation()
        };
        let [few, more, most] = [0.3, 2.0, 20.0].map(bands);
        assert!(few < more && more < most && most == 100, "{few} {more} {most}");
    }
}
