//! From settings to the plan of the six methods of paper 003: public constants, step sizes by stage, number of rounds,
//! and the division of the budget among them.
//!
//! **Constants.** μ is the regularisation. L follows from the loss and a public bound A on the features' L2 norm
//! (specification 1): `A²/4 + λ` for the logistic loss. A comes from the data set where it was enforced
//! (`clip_features`), or is declared; a wrong declaration costs accuracy, not privacy, since gradients are clipped in any
//! case. With `smoothness=estimate` L is estimated from the data, and nothing is claimed.

use rounds_kernels::features::Norm;
use rounds_kernels::random::StreamKey;

use super::algorithm::{PrepareError, Prepared, Run};
use super::momentum::{Acceleration, NoisyMomentum, Step};
use super::noisy_sums::{Descent, NoisySums};
use super::parameters::{ParameterValue, Parameters as _, Range, parameters};
use super::plan;
use super::settings::{SamplingKind, Settings, SettingsError};
use crate::choices::{Choice, choices};
use crate::noise::{Calibration, NoiseKind, NoiseSchedule};
use crate::privacy::{
    self, Accountant, Adjacency, Budget, Mechanism, PrivacyError, PrivacyStatement, Sampling, gaussian, zcdp,
};
use crate::problem::PublicProblem;
use crate::sampling::Sampler;
use crate::theory::multistage::Schedule;
use crate::theory::{Curvature, allocation};

/// The methods of paper 003.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// DP-GD.
    GradientDescent,
    /// DP-HB (DP-SHB on batches).
    HeavyBall,
    /// DP-NAG, with an optimised budget DP-NAG-opt.
    Nesterov {
        /// True for optimised rounds and budget.
        optimized: bool,
    },
    /// DP-MASG, with an optimised budget DP-MASG-opt.
    Multistage {
        /// True for optimised rounds and budget.
        optimized: bool,
    },
}

impl Method {
    /// All six, in the order of the paper's figures.
    pub const ALL: [Self; 6] = [
        Self::GradientDescent,
        Self::Nesterov { optimized: false },
        Self::Multistage { optimized: false },
        Self::HeavyBall,
        Self::Nesterov { optimized: true },
        Self::Multistage { optimized: true },
    ];

    /// The id of the catalogue.
    pub const fn id(self) -> &'static str {
        match self {
            Self::GradientDescent => "dp-gd",
            Self::HeavyBall => "dp-hb",
            Self::Nesterov { optimized: false } => "dp-nag",
            Self::Nesterov { optimized: true } => "dp-nag-opt",
            Self::Multistage { optimized: false } => "dp-masg",
            Self::Multistage { optimized: true } => "dp-masg-opt",
        }
    }

    /// All rows, or batches without replacement.
    fn sampling(self, kind: Option<SamplingKind>, batch: usize, population: usize) -> Result<Sampling, SettingsError> {
        let reason = "draws its batches without replacement [003 (3.3)]; leave sampling out";
        match kind {
            _ if batch == population => Ok(Sampling::FullBatch),
            None | Some(SamplingKind::WithoutReplacement) => Ok(Sampling::WithoutReplacement { batch, population }),
            Some(kind) => Err(SettingsError::unsupported("sampling", kind, self.id(), reason)),
        }
    }

    /// True for Gaussian noise, false for Laplace noise.
    fn is_gaussian(self, noise: Option<NoiseKind>) -> Result<bool, SettingsError> {
        let reason = "adds independent noise; it takes laplace or independent";
        match noise {
            None | Some(NoiseKind::Laplace) => Ok(false),
            Some(NoiseKind::Independent) => Ok(true),
            Some(noise) => Err(SettingsError::unsupported("noise", noise, self.id(), reason)),
        }
    }

    fn optimized(self) -> bool {
        matches!(self, Self::Nesterov { optimized: true } | Self::Multistage { optimized: true })
    }
}

/// A number, or a word of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NumberOr<W> {
    Number(f64),
    Word(W),
}

impl<W: Choice> ParameterValue for NumberOr<W> {
    const EXPECTED: &'static str = W::NAMES;

    fn parsed(text: &str) -> Option<Self> {
        let word = || text.parse().ok().map(Self::Word);
        text.parse().ok().map(Self::Number).or_else(word)
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Word(_) => None,
        }
    }

    fn text(&self) -> Option<String> {
        Some(match self {
            Self::Number(number) => number.to_string(),
            Self::Word(word) => word.to_string(),
        })
    }
}

choices! {
    /// A smoothness that is no number.
    pub enum Measured {
        /// Estimated from the data.
        Estimate = "estimate",
    }
}

choices! {
    /// A number of rounds that is not optimised.
    pub enum Kept {
        /// All of T.
        Fixed = "fixed",
    }
}

choices! {
    /// The shares of the budget on batches.
    pub enum Shares {
        /// The exact ones.
        Exact = "exact",
        /// Those of a full batch.
        Guide = "guide",
    }
}

parameters! {
    /// Parameters of every method.
    pub(super) struct MethodParameters {
        /// c of the step size c/L; learning-rate gives the step size itself
        step_scale: f64 [Range::SHARE] = 1.0,
        /// L, a public constant; estimated from the data it claims nothing (default: from the loss and the feature bound)
        smoothness: Option<NumberOr<Measured>> [Range::new("a number above 0, or estimate,", Range::POSITIVE.holds)],
        /// Public bound A of the features' L2 norm, without a bias (default: the one enforced on the data)
        feature_bound: Option<f64> [Range::POSITIVE],
        /// Strong convexity μ (default: the regularisation)
        strong_convexity: Option<f64> [Range::NOT_NEGATIVE],
        /// Value of every coordinate of x_0
        start: f64 [Range::FINITE] = 0.0,
    }
}

parameters! {
    /// Parameters of the stages.
    pub(super) struct Stages {
        /// Rounds n_1 of the first stage (default: ⌈√κ·ln κ⌉)
        first_stage: Option<usize> [Range::COUNT],
        /// p of the stage lengths 2^k·⌈√κ·ln 2^{p+2}⌉
        stage_exponent: usize [Range::new("a whole number from 1 to 30", |p| (1.0..=30.0).contains(&p))] = 1,
    }
}

choices! {
    /// The weights of the noise in the bound that T′ minimises.
    pub enum RoundsRule {
        /// Those of (4.3), `α(1 + αL)`: right for Laplace noise of scale b, whose variance is 2b².
        Bound = "bound",
        /// Half of them, as in the authors' code: right for the noise that this code draws, whose variance is b².
        PublishedCode = "published-code",
    }
}

parameters! {
    /// Parameters of an optimised budget.
    pub(super) struct Division {
        /// Shares of the budget on batches smaller than the data: exact, or those of a full batch
        allocation: Shares = Shares::Exact,
        /// Public guess of F(x_0) − F*, for the number of rounds T′ ≤ T; fixed keeps T
        initial_gap: NumberOr<Kept> [Range::new("a number above 0, or fixed,", Range::POSITIVE.holds)]
            = NumberOr::Number(10.0),
        /// Bound that T′ minimises: the proven one, or that of the authors' code, with half of the noise
        rounds_rule: RoundsRule = RoundsRule::Bound,
    }
}

/// Everything a run of one of the methods needs.
#[derive(Clone, Debug)]
pub struct AcceleratedPlan {
    /// The place of momentum in a step.
    pub acceleration: Acceleration,
    /// One a round.
    pub steps: Vec<Step>,
    /// μ and L, where the method reads both.
    pub curvature: Option<Curvature>,
    /// Batch size m.
    pub batch: usize,
    /// The sampler of the batches.
    pub sampling: Sampling,
    /// The noise on the sum of every round, and what it guarantees.
    pub noise: Option<NoiseSchedule>,
    /// Every coordinate of x_0.
    pub start: f32,
}

impl AcceleratedPlan {
    /// The plan of `method` on `problem`.
    ///
    /// # Errors
    /// Settings out of range, constants that no theorem covers, a budget that some round would get nothing of.
    pub fn new(method: Method, problem: &PublicProblem, settings: &Settings) -> Result<Self, PrepareError> {
        let own = MethodParameters::read(settings)?;
        let more = (Stages::read(settings)?, Division::read(settings)?);
        Self::of(&Run::of(method.id(), problem, settings)?, method, &own, &more)
    }

    /// The plan of `method` for a run.
    pub(super) fn of(
        run: &Run<'_>,
        method: Method,
        own: &MethodParameters,
        (stages, division): &(Stages, Division),
    ) -> Result<Self, PrepareError> {
        let (problem, common, rows) = (run.problem, &run.common, run.problem.rows());
        let batch = plan::batch_size(run, rows)?;
        let sampling = method.sampling(common.sampling, batch, rows)?;
        let adjacency = plan::adjacency(run)?;
        let constants = Constants::new(method, run, own)?;
        let by_epochs = common.epochs.map(|epochs| plan::rounds_of(epochs, rows, batch));
        let rounds = common.rounds.or(by_epochs.transpose()?).unwrap_or(100);
        let gaussian = method.is_gaussian(common.noise)?;
        let norm = if gaussian { Norm::L2 } else { Norm::L1 };
        let clip_norm = clip_norm(problem, run.budget(), common.clip_norm, norm)?;
        let budget = match run.budget() {
            Budget::NonPrivate => None,
            _ => Some(BudgetOf {
                calibration: run.calibration(adjacency, clip_norm)?,
                id: run.id,
                division: *division,
                sampling,
                batch,
                sensitivity: f64::from(clip_norm) * sampling.row_change_factor(adjacency),
            }),
        };
        let schedule = constants.schedule(method, stages, rounds)?;
        let rounds = match (&schedule, &budget) {
            (Some(schedule), Some(budget)) if method.optimized() => budget.best_rounds(schedule, gaussian)?,
            _ => rounds,
        };
        let schedule = schedule.map(|schedule| schedule.truncated(rounds));
        let steps = constants.steps(method, schedule.as_ref(), rounds);
        let weights = if method.optimized() { schedule.as_ref().map(Schedule::log_weights) } else { None };
        let noise = match budget {
            None => None,
            Some(budget) => {
                let (accountant, delta, mechanism) = if gaussian {
                    budget.gaussian(weights.as_deref(), rounds)?
                } else {
                    budget.laplace(weights.as_deref(), rounds)?
                };
                Some(budget.calibration.schedule(mechanism, accountant, delta, norm)?)
            }
        };
        let acceleration = match method {
            Method::GradientDescent | Method::HeavyBall => Acceleration::HeavyBall,
            Method::Nesterov { .. } | Method::Multistage { .. } => Acceleration::Nesterov,
        };
        let curvature = constants.curvature;
        Ok(Self { acceleration, steps, curvature, batch, sampling, noise, start: own.start as f32 })
    }

    /// The plan with noise `factor` times as large; see [`NoiseSchedule::scaled`].
    #[must_use]
    pub fn with_noise_scaled(self, factor: f64) -> Self {
        Self { noise: self.noise.map(|noise| noise.scaled(factor)), ..self }
    }

    /// The guarantee.
    pub fn statement(&self) -> PrivacyStatement {
        let none = || PrivacyStatement::none("no noise is added");
        self.noise.as_ref().map_or_else(none, |noise| noise.statement().clone())
    }

    /// ε of the mechanism under replace-one, by its default accountant at δ = 0: what Laplace noise truly gives.
    ///
    /// # Errors
    /// No noise, or Gaussian noise, which gives no pure guarantee.
    pub fn pure_epsilon(&self) -> Result<f64, PrivacyError> {
        let noise = self.noise.as_ref().ok_or(PrivacyError::EmptyComposition)?;
        privacy::laplace::pure_epsilon(noise.mechanism(), Adjacency::ReplaceOne)
    }

    /// The run on `problem`, with noise and batches from `key`; it claims nothing if the plan was made for a key of the other kind.
    ///
    /// # Errors
    /// Batches that the data cannot give.
    pub fn prepared(&self, problem: &PublicProblem, key: &StreamKey) -> Result<Prepared, PrepareError> {
        let sampler = Sampler::new(self.sampling, problem.rows(), self.batch, key.clone())?;
        let noise = self.noise.as_ref().map(|noise| noise.with_key(key));
        let start = vec![self.start; problem.parameters()];
        let iteration = NoisyMomentum::new(self.acceleration, self.steps.clone(), start);
        let optimizer = Descent::new(NoisySums::of(sampler, noise, problem.parameters()), iteration);
        let prepared = Prepared::new(optimizer, self.steps.len() as u64).with("batch-size", self.batch);
        Ok(match self.steps.first() {
            Some(first) => prepared.with("learning-rate", first.step_size).with("momentum", first.momentum),
            None => prepared,
        })
    }
}

/// Step size, momentum, μ and L.
struct Constants {
    step_size: f64,
    curvature: Option<Curvature>,
    smoothness: f64,
    momentum: Option<f64>,
}

impl Constants {
    fn new(method: Method, run: &Run<'_>, own: &MethodParameters) -> Result<Self, PrepareError> {
        let (problem, common) = (run.problem, &run.common);
        let smoothness = match own.smoothness {
            Some(NumberOr::Number(smoothness)) => smoothness,
            Some(NumberOr::Word(Measured::Estimate)) => {
                let expected =
                    "a number, where the rows were not measured before (no rank can measure shared rows alone)";
                let unmeasured = || SettingsError::out_of_range("smoothness", "estimate", expected);
                let moment = problem.measured().second_moment.ok_or_else(unmeasured)?;
                curvature_of_loss(method, problem)? * moment + problem.regularization()
            }
            None => public_smoothness(method, problem, own.feature_bound)?,
        };
        let mu = own.strong_convexity.unwrap_or_else(|| problem.regularization());
        let momentum = common.momentum;
        let needs_convexity = match method {
            Method::GradientDescent => false,
            Method::HeavyBall => momentum.is_none(),
            Method::Nesterov { .. } | Method::Multistage { .. } => true,
        };
        let curvature = if needs_convexity || mu > 0.0 { Some(Curvature::new(mu, smoothness)?) } else { None };
        let step_size = common.learning_rate.unwrap_or(own.step_scale / smoothness);
        // μ plays no part in the limit 1/L.
        Curvature::new(smoothness, smoothness)?.step_size(step_size)?;
        Ok(Self { step_size, curvature, smoothness, momentum })
    }

    /// The step sizes of the methods whose bound is known by stage.
    fn schedule(&self, method: Method, stages: &Stages, rounds: usize) -> Result<Option<Schedule>, PrepareError> {
        let Some(curvature) = self.curvature else {
            return Ok(None);
        };
        Ok(match method {
            Method::GradientDescent | Method::HeavyBall => None,
            Method::Nesterov { .. } => Some(Schedule::constant(curvature, self.step_size, rounds)?),
            Method::Multistage { .. } => Some(Schedule::multistage(
                curvature,
                self.step_size * self.smoothness,
                stages.stage_exponent as u32,
                stages.first_stage,
                rounds,
            )?),
        })
    }

    fn steps(&self, method: Method, schedule: Option<&Schedule>, rounds: usize) -> Vec<Step> {
        let step_size = self.step_size;
        let constant = |momentum| vec![Step { step_size, momentum, restart: false }; rounds];
        match (method, schedule, self.curvature) {
            (Method::HeavyBall, _, curvature) => constant(
                self.momentum.unwrap_or_else(|| curvature.map_or(0.0, |curvature| curvature.momentum(step_size))),
            ),
            (_, Some(schedule), Some(curvature)) => (0..rounds)
                .map(|round| {
                    let step_size = schedule.step_size(round);
                    Step { step_size, momentum: curvature.momentum(step_size), restart: schedule.starts_stage(round) }
                })
                .collect(),
            _ => constant(0.0),
        }
    }
}

/// sup φ″.
fn curvature_of_loss(method: Method, problem: &PublicProblem) -> Result<f64, SettingsError> {
    let loss = problem.model().loss;
    let reason = "needs a smooth loss, such as logistic, softmax or huber";
    loss.curvature().ok_or_else(|| SettingsError::unsupported("loss", loss, method.id(), reason))
}

/// A public bound on the norm of a row, its bias included.
fn public_norm(problem: &PublicProblem, bound: f64, norm: Norm) -> f64 {
    match (problem.model().bias, norm) {
        (false, _) => bound,
        (true, Norm::L1) => bound + 1.0,
        (true, Norm::L2) => bound.hypot(1.0),
    }
}

/// `L = sup φ″·A² + λ` from the declared or enforced feature bound A.
fn public_smoothness(method: Method, problem: &PublicProblem, declared: Option<f64>) -> Result<f64, PrepareError> {
    let factor = curvature_of_loss(method, problem)?;
    let Some(bound) = declared.or_else(|| problem.row_bound(Norm::L2)).filter(|&bound| bound > 0.0) else {
        let expected = "a public constant for the step size (features clipped to a norm, their L2 bound feature-bound=A or \
                        the smoothness smoothness=L)";
        return Err(SettingsError::out_of_range("feature-bound", "none", expected).into());
    };
    let norm = public_norm(problem, bound, Norm::L2);
    Ok(factor * norm * norm + problem.regularization())
}

/// The clip norm that is set, else the bound that features and loss imply (then nothing is ever clipped).
fn clip_norm(problem: &PublicProblem, budget: Budget, given: Option<f64>, norm: Norm) -> Result<f32, SettingsError> {
    let implied = problem
        .row_bound(norm)
        .zip(problem.model().loss.lipschitz(norm))
        .map(|(bound, residual)| public_norm(problem, bound, norm) * residual);
    let expected = "a norm to clip gradients to (the data imply no public bound of them)";
    match (given, implied) {
        (Some(given), _) => plan::single_clip_norm(given as f32),
        (None, Some(implied)) => plan::single_clip_norm((implied as f32).next_up()),
        (None, None) if budget == Budget::NonPrivate => Ok(1.0),
        (None, None) => Err(SettingsError::out_of_range("clip-norm", "none", expected)),
    }
}

/// The budget and what it is spent on.
struct BudgetOf<'a> {
    calibration: Calibration<'a>,
    id: &'static str,
    division: Division,
    sampling: Sampling,
    batch: usize,
    /// Of the sum.
    sensitivity: f64,
}

/// Accountant, δ and mechanism.
type Spent = (Accountant, f64, Mechanism);

impl BudgetOf<'_> {
    /// T′ ≤ T of the smallest bound [003 Remark 4.1]; all of T with `initial-gap=fixed`.
    fn best_rounds(&self, schedule: &Schedule, gaussian: bool) -> Result<usize, PrepareError> {
        let gap = match self.division.initial_gap {
            NumberOr::Word(Kept::Fixed) => return Ok(schedule.rounds()),
            NumberOr::Number(gap) => gap,
        };
        // Per example: the sum over m rows changes by the sensitivity, the mean over n by sensitivity/n
        // [003 Remark 4.2 for m < n].
        let per_mean = self.sensitivity / self.calibration.problem.rows() as f64;
        let dimension = self.calibration.problem.parameters() as f64;
        let noise = if gaussian {
            let rho = match self.calibration.budget {
                Budget::Target { epsilon, delta } if self.calibration.accountant == Some(Accountant::Zcdp) => {
                    zcdp::rho(epsilon, delta)?
                }
                Budget::Target { epsilon, delta } if self.calibration.accountant == Some(Accountant::ZcdpSimple) => {
                    zcdp::simple_rho(epsilon, delta)?
                }
                Budget::Target { epsilon, delta } => gaussian::mu(epsilon, delta)?.powi(2) / 2.0,
                Budget::NoiseMultiplier { noise_multiplier, .. } => {
                    let per_round = self.sensitivity / (f64::from(self.calibration.clip_norm) * noise_multiplier);
                    schedule.rounds() as f64 * per_round * per_round / 2.0
                }
                Budget::NonPrivate => return Ok(schedule.rounds()),
            };
            dimension * per_mean * per_mean / (4.0 * rho)
        } else {
            let Budget::Target { epsilon, .. } = self.calibration.budget else {
                return Ok(schedule.rounds());
            };
            dimension * (per_mean / Range::POSITIVE.check("epsilon", epsilon)?).powi(2)
        };
        let noise = match self.division.rounds_rule {
            RoundsRule::Bound => noise,
            RoundsRule::PublishedCode => 0.5 * noise,
        };
        Ok(schedule.best_rounds(gap, noise, if gaussian { 2 } else { 3 }).0)
    }

    fn laplace(&self, log_weights: Option<&[f64]>, rounds: usize) -> Result<Spent, PrepareError> {
        let Budget::Target { epsilon, delta } = self.calibration.budget else {
            let reason = "sets Laplace scales from a budget; give an ε, or take noise=independent";
            return Err(SettingsError::unsupported("noise-multiplier", "any", self.id, reason).into());
        };
        let shares = |total: f64| -> Result<Vec<f64>, PrepareError> {
            Ok(match log_weights {
                None => allocation::uniform(total, rounds)?,
                Some(weights) if self.division.allocation == Shares::Exact => {
                    allocation::laplace_subsampled(weights, total, self.batch, self.calibration.problem.rows())?
                }
                Some(weights) => allocation::laplace(weights, total)?,
            })
        };
        let rate = self.sampling.rate().unwrap_or(1.0);
        let scales = |total: f64| -> Result<Vec<f64>, PrepareError> {
            let scale = |&share: &f64| self.sensitivity / privacy::laplace::unamplified_epsilon(share, rate);
            Ok(shares(total)?.iter().map(scale).collect())
        };
        let l1_sensitivity = self.sensitivity;
        let mechanism = |scales: &[f64]| -> Mechanism {
            if log_weights.is_some() {
                return Mechanism::laplace_schedule(scales, l1_sensitivity, self.sampling);
            }
            Mechanism::Laplace { scale: scales[0], l1_sensitivity, sampling: self.sampling, steps: scales.len() }
        };
        let accountant = self.calibration.accountant.unwrap_or(Accountant::Pure);
        if accountant == Accountant::Pure {
            // A hair less than ε, so that the accountant's own rounding cannot lift the sum above it.
            let scales = scales(Range::POSITIVE.check("epsilon", epsilon)? * (1.0 - 1e-12))?;
            return Ok((accountant, 0.0, mechanism(&scales)));
        }
        let shape = scales(epsilon)?;
        let times = |factor: f64| -> Vec<f64> { shape.iter().map(|scale| scale * factor).collect() };
        let family = |factor: f64| mechanism(&times(factor));
        let Calibration { memory, adjacency, .. } = self.calibration;
        let factor = memory.calibrate(accountant, adjacency, epsilon, delta, family)?;
        Ok((accountant, delta, family(factor.next_up())))
    }

    fn gaussian(&self, log_weights: Option<&[f64]>, rounds: usize) -> Result<Spent, PrepareError> {
        let shape = match log_weights {
            None => vec![1.0; rounds],
            Some(_) if self.sampling != Sampling::FullBatch => {
                let reason = "divides a Gaussian budget for full batches only; leave batch-size out, take \
                              noise=laplace, or the variant without -opt";
                return Err(SettingsError::unsupported("batch-size", self.batch, self.id, reason).into());
            }
            // ρ_t·T/ρ = 1 for equal shares; σ_t ∝ ρ_t^{−1/2}.
            Some(weights) => {
                allocation::gaussian(weights, 1.0)?.iter().map(|share| (share * rounds as f64).powf(-0.5)).collect()
            }
        };
        let mechanism = |noise_multiplier: f64| -> Mechanism {
            let sampling = self.sampling;
            if sampling != Sampling::FullBatch {
                Mechanism::SubsampledGaussian { noise_multiplier, sampling, steps: rounds }
            } else if log_weights.is_none() {
                Mechanism::Gaussian { noise_multiplier, sampling, participations: rounds }
            } else {
                let step = |factor: &f64| {
                    let noise_multiplier = noise_multiplier * factor;
                    Mechanism::Gaussian { noise_multiplier, sampling, participations: 1 }
                };
                Mechanism::Composition(shape.iter().map(step).collect())
            }
        };
        let accountant = self.calibration.accountant.unwrap_or_else(|| Accountant::default_for(&mechanism(1.0)));
        let (noise_multiplier, delta) = match self.calibration.budget {
            Budget::Target { epsilon, delta } => {
                let Calibration { memory, adjacency, .. } = self.calibration;
                (memory.calibrate(accountant, adjacency, epsilon, delta, mechanism)?.next_up(), delta)
            }
            Budget::NoiseMultiplier { noise_multiplier, delta } => (noise_multiplier, delta),
            Budget::NonPrivate => return Err(PrivacyError::EmptyComposition.into()),
        };
        Ok((accountant, delta, mechanism(noise_multiplier)))
    }
}
