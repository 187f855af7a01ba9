//! Noise of a run in one value with what the run states about it: the mechanism, its guarantee, and the clip norm that both are
//! scaled to.
//!
//! Streams are made here and in the mechanisms' files alone, at the standard deviation that the stated mechanism says. An optimiser is
//! given a [`PrivateNoise`] and can add it to sums; it has no way to another stream, and [`Prepared`](crate::optimizers::Prepared)
//! states what this value states. The value does not see what the sums are: which rows they hold and how often is what the optimiser
//! says by its plan (correlated noise and schedules end with their rounds, and a run with its own), and the smoke audits of
//! `make test` find an optimiser that says otherwise.
//!
//! ```
//! use rounds_algorithms::noise::PrivateNoise;
//! use rounds_algorithms::privacy::Mechanism;
//!
//! /// What the noise states can be read,
//! fn stated(noise: &PrivateNoise) -> &Mechanism {
//!     noise.mechanism()
//! }
//! ```
//!
//! ```compile_fail,E0616
//! use rounds_algorithms::noise::PrivateNoise;
//! use rounds_algorithms::privacy::Mechanism;
//!
//! /// and not changed beside the stream.
//! fn restated(noise: &mut PrivateNoise, mechanism: Mechanism) {
//!     noise.mechanism = mechanism;
//! }
//! ```

use rounds_kernels::features::Norm;
use rounds_kernels::linear::Clip;
use rounds_kernels::random::StreamKey;

use super::plan::PlannedNoise;
use super::scheduled::{NoiseLevels, NoiseSchedule, ScheduledNoise};
use super::stream::{NoiseMechanism, Result};
use crate::parallel::Engine;
use crate::privacy::{
    Accountant, Adjacency, Arithmetic, Budget, CalibrationMemory, Claim, Mechanism, NoiseSource, PrivacyError,
    PrivacyStatement, PrivateRun, Sampling, gaussian,
};
use crate::problem::PublicProblem;
use crate::state::StateVisitor;
use crate::vectors::add_scaled;

/// A noise stream with the mechanism that it draws, the guarantee of that, and the clip norm of the sums that it is for.
pub struct PrivateNoise {
    stream: Box<dyn NoiseMechanism>,
    /// The scale of the stream's draws: σ of the mechanism, or 1 where noise is added to means alone.
    drawn: Drawn,
    clip: Clip,
    mechanism: Mechanism,
    statement: PrivacyStatement,
    budget: (f64, f64),
}

#[derive(Clone, Copy, PartialEq)]
enum Drawn {
    AsStated,
    Standard,
}

impl PrivateNoise {
    /// Noise of one's own that `run` describes. Its description is the caller's word, so it never claims a release.
    pub fn own(run: &PrivateRun<'_>, stream: Box<dyn NoiseMechanism>) -> Self {
        // Terms are clipped in f32, to the norm that is stated then.
        let clip_norm = f64::from(run.clip_norm as f32);
        let run = PrivateRun { arithmetic: Arithmetic::Idealised, clip_norm, ..run.clone() };
        let mut statement = PrivacyStatement::new(&run);
        if statement.claim == Claim::Release {
            statement = statement.revoked("the rounding of this noise is not covered");
        }
        let clip = Clip::Bounded { norm: run.norm, clip_norm: run.clip_norm as f32 };
        let budget = (statement.epsilon.unwrap_or(f64::INFINITY), run.delta);
        Self { stream, drawn: Drawn::AsStated, clip, mechanism: run.mechanism.clone(), statement, budget }
    }

    fn unaccounted(stream: Box<dyn NoiseMechanism>, mechanism: Mechanism) -> Self {
        let statement = PrivacyStatement::none("the noise is drawn alone, and no release is accounted for");
        Self { stream, drawn: Drawn::AsStated, clip: Clip::l2(1.0), mechanism, statement, budget: (f64::INFINITY, 1.0) }
    }

    /// The released mechanism.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// The guarantee.
    pub fn statement(&self) -> &PrivacyStatement {
        &self.statement
    }

    /// The clipping of the terms of the sums.
    pub fn clip(&self) -> Clip {
        self.clip
    }

    /// The target (ε, δ), or that of the given noise multiplier.
    pub(crate) fn budget(&self) -> (f64, f64) {
        self.budget
    }

    /// The clip norm C.
    pub(crate) fn clip_norm(&self) -> f64 {
        match self.clip {
            Clip::Bounded { clip_norm, .. } => f64::from(clip_norm),
            Clip::Unbounded => f64::INFINITY,
        }
    }

    /// Standard deviation of the noise over C.
    ///
    /// # Panics
    /// Noise that has no multiplier of its own: Laplace noise, or a schedule of unequal levels.
    pub(crate) fn noise_multiplier(&self) -> f64 {
        stated_multiplier(&self.mechanism)
    }

    /// Standard deviation of the noise on a sum, a coordinate.
    ///
    /// # Panics
    /// As [`noise_multiplier`](Self::noise_multiplier).
    pub(crate) fn standard_deviation(&self) -> f64 {
        self.noise_multiplier() * self.clip_norm()
    }

    /// Adds the noise of a release to `values`, which one example moves by `share` times as much as it moves a sum.
    ///
    /// # Errors
    /// As [`NoiseMechanism::add_increment`].
    pub(crate) fn add_share(&mut self, round: u64, values: &mut [f64], share: f64, engine: &Engine) -> Result<()> {
        let mut noise = vec![0.0; values.len()];
        self.add_increment(round, &mut noise, None, engine)?;
        add_scaled(values, share, &noise);
        Ok(())
    }

    /// Makes the mean of `sums` over `count`, and adds the noise of a release: one example moves this mean by `factor/divisor` times
    /// as much as it moves a sum. For noise [on means](Calibration::for_means).
    ///
    /// # Errors
    /// As [`NoiseMechanism::add_increment`].
    pub(crate) fn release_mean(
        &mut self,
        round: u64,
        (sums, count): (&mut [f64], u64),
        (factor, divisor): (f64, f64),
        engine: &Engine,
    ) -> Result<()> {
        assert!(self.drawn == Drawn::Standard, "noise that was made for means");
        // The stream draws N(0, 1): the mean enters divided by the deviation, and leaves multiplied.
        let scale = self.standard_deviation() / divisor * factor;
        let share = 1.0 / (count as f64 * scale);
        sums.iter_mut().for_each(|sum| *sum *= share);
        self.stream.add_increment(round, sums, None, engine)?;
        sums.iter_mut().for_each(|sum| *sum *= scale);
        Ok(())
    }
}

impl NoiseMechanism for PrivateNoise {
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()> {
        assert!(self.drawn == Drawn::AsStated, "noise that was made for sums");
        self.stream.add_increment(round, sum, unit, engine)
    }

    fn check_unit(&self, unit: f64) -> Result<()> {
        self.stream.check_unit(unit)
    }

    fn resident_vectors(&self) -> usize {
        self.stream.resident_vectors()
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        self.stream.visit_state(visitor);
    }
}

impl PlannedNoise {
    /// The noise at a standard deviation σ, drawn alone: for measurements of streams. It guarantees nothing.
    pub fn unaccounted(self, key: StreamKey, standard_deviation: f64) -> PrivateNoise {
        let mechanism = self.mechanism(standard_deviation, Sampling::FixedOrder);
        PrivateNoise::unaccounted(self.stream(key, standard_deviation), mechanism)
    }
}

impl NoiseLevels {
    /// The noise, drawn alone: for measurements of streams. It guarantees nothing.
    pub fn unaccounted(self, key: StreamKey) -> PrivateNoise {
        PrivateNoise::unaccounted(Box::new(ScheduledNoise::new(key, self)), Mechanism::Composition(Vec::new()))
    }
}

impl NoiseSchedule {
    /// The noise, drawn from `key`; it claims nothing if the schedule was stated for a key of the other kind.
    pub fn with_key(&self, key: &StreamKey) -> PrivateNoise {
        let statement = if self.statement.noise_source == Some(noise_source(key)) {
            self.statement.clone()
        } else {
            self.statement.clone().revoked("the plan was made for a key of another kind")
        };
        PrivateNoise {
            stream: Box::new(ScheduledNoise::new(key.clone(), self.levels.clone())),
            drawn: Drawn::AsStated,
            clip: self.clip,
            mechanism: self.mechanism.clone(),
            budget: (statement.epsilon.unwrap_or(f64::INFINITY), statement.delta.unwrap_or(1.0)),
            statement,
        }
    }
}

fn stated_multiplier(mechanism: &Mechanism) -> f64 {
    mechanism.noise_multiplier().expect("Gaussian noise of one level")
}

/// The generator that a key stands for.
fn noise_source(key: &StreamKey) -> NoiseSource {
    if matches!(key, StreamKey::Release(_)) { NoiseSource::Chacha20 } else { NoiseSource::Xoshiro }
}

/// The inputs of a calibration: the budget, what it is spent on, and the key that the noise is drawn from.
#[derive(Clone, Copy)]
pub(crate) struct Calibration<'a> {
    pub(crate) problem: &'a PublicProblem,
    pub(crate) key: &'a StreamKey,
    pub(crate) memory: &'a CalibrationMemory,
    pub(crate) budget: Budget,
    /// The share of the budget's μ² that the moments of the rows take before the run.
    pub(crate) moments: Option<f64>,
    /// The accountant that is asked for; none for the best one.
    pub(crate) accountant: Option<Accountant>,
    pub(crate) adjacency: Adjacency,
    /// C > 0. An f32, so that what is clipped to and what is accounted for are the same number.
    pub(crate) clip_norm: f32,
}

impl Calibration<'_> {
    /// The least noise multiplier of a family of mechanisms at (ε, δ).
    ///
    /// # Errors
    /// A guarantee that cannot be given.
    pub(crate) fn noise_multiplier(
        &self,
        (epsilon, delta): (f64, f64),
        family: impl Fn(f64) -> Mechanism,
    ) -> Result<f64, PrivacyError> {
        let accountant = self.accountant.unwrap_or_else(|| Accountant::default_for(&family(1.0)));
        self.memory.calibrate(accountant, self.adjacency, epsilon, delta, family)
    }

    /// `planned` at the least noise multiplier that the budget allows, on sums of terms clipped to C in L2.
    ///
    /// # Errors
    /// A guarantee that cannot be given; no budget.
    pub(crate) fn calibrate(&self, planned: PlannedNoise, sampling: Sampling) -> Result<PrivateNoise, PrivacyError> {
        self.drawn(planned, sampling, Drawn::AsStated)
    }

    /// As [`calibrate`](Self::calibrate), for [`PrivateNoise::release_mean`].
    pub(crate) fn for_means(&self, planned: PlannedNoise, sampling: Sampling) -> Result<PrivateNoise, PrivacyError> {
        self.drawn(planned, sampling, Drawn::Standard)
    }

    fn drawn(&self, planned: PlannedNoise, sampling: Sampling, drawn: Drawn) -> Result<PrivateNoise, PrivacyError> {
        let moments_noise = self.moments_noise()?;
        let own = |noise_multiplier| planned.mechanism(noise_multiplier, sampling);
        let family = |noise_multiplier| Mechanism::after_moments(moments_noise, own(noise_multiplier));
        let accountant = self.accountant.unwrap_or_else(|| Accountant::default_for(&family(1.0)));
        // The statement turns an error of the accountant into no claim. A run with a budget ends with the error instead.
        let stated =
            |noise_multiplier, delta| self.memory.epsilon(accountant, &family(noise_multiplier), self.adjacency, delta);
        let (noise_multiplier, epsilon, delta) = match self.budget {
            Budget::NonPrivate => return Err(PrivacyError::EmptyComposition),
            Budget::Target { epsilon, delta } => {
                let known = self.memory.calibrate(accountant, self.adjacency, epsilon, delta, family);
                let mut noise_multiplier = known?;
                // ε on a grid is not exactly monotone: what is stated must hold.
                while stated(noise_multiplier, delta)? > epsilon {
                    noise_multiplier *= 1.0 + 1e-10;
                }
                (noise_multiplier, epsilon, delta)
            }
            Budget::NoiseMultiplier { noise_multiplier, delta } => {
                (noise_multiplier, stated(noise_multiplier, delta)?, delta)
            }
        };
        let mechanism = own(noise_multiplier);
        let statement = self.statement((&mechanism, moments_noise), accountant, delta, Norm::L2);
        // Of the stated mechanism, not of the multiplier that was asked for.
        let deviation = match drawn {
            Drawn::AsStated => stated_multiplier(&mechanism) * f64::from(self.clip_norm),
            Drawn::Standard => 1.0,
        };
        Ok(PrivateNoise {
            stream: planned.stream(self.key.clone(), deviation),
            drawn,
            clip: Clip::l2(self.clip_norm),
            mechanism,
            statement,
            budget: (epsilon, delta),
        })
    }

    /// The fresh noise that `mechanism` states, on sums of terms clipped to C in `norm`.
    ///
    /// # Errors
    /// A guarantee that the accountant refuses.
    pub(crate) fn schedule(
        &self,
        mechanism: Mechanism,
        accountant: Accountant,
        delta: f64,
        norm: Norm,
    ) -> Result<NoiseSchedule, PrivacyError> {
        if self.moments.is_some() {
            let reason =
                "this algorithm divides its budget by itself, and leaves moments none: take dp-sgd, dp-mf or dp-ftrl";
            return Err(PrivacyError::Moments(reason));
        }
        // Computed before the statement, which fails closed: here the reason is an error.
        self.memory.epsilon(accountant, &mechanism, self.adjacency, delta)?;
        Ok(NoiseSchedule {
            levels: NoiseLevels::of(&mechanism, f64::from(self.clip_norm)),
            clip: Clip::Bounded { norm, clip_norm: self.clip_norm },
            statement: self.statement((&mechanism, None), accountant, delta, norm),
            mechanism,
        })
    }

    /// Noise multiplier of the moments: 1/μ of their share, under the relation of the run.
    fn moments_noise(&self) -> Result<Option<f64>, PrivacyError> {
        let Some(share) = self.moments else { return Ok(None) };
        let Budget::Target { epsilon, delta } = self.budget else {
            return Err(PrivacyError::Moments(
                "they take a share of ε, which a noise multiplier does not name: give epsilon",
            ));
        };
        Ok(Some(self.adjacency.row_change_factor() / (share.sqrt() * gaussian::mu(epsilon, delta)?)))
    }

    fn statement(
        &self,
        (mechanism, moments_noise): (&Mechanism, Option<f64>),
        accountant: Accountant,
        delta: f64,
        norm: Norm,
    ) -> PrivacyStatement {
        let noise_source = noise_source(self.key);
        // Releases in a declared domain are exact. Simulations measure: their noise comes from the fast sampler, whose floating
        // point no claim needs.
        let is_exact = noise_source == NoiseSource::Chacha20 && self.problem.feature_grid().is_some();
        let run = PrivateRun {
            mechanism,
            moments_noise,
            accountant,
            adjacency: self.adjacency,
            delta,
            clip_norm: f64::from(self.clip_norm),
            norm,
            problem: self.problem,
            noise_source,
            arithmetic: if is_exact { Arithmetic::Exact } else { Arithmetic::Idealised },
        };
        PrivacyStatement::remembered(&run, self.memory)
    }
}
