//! An entry of the catalogue, and the way from a person's settings to its optimiser: texts are read once, here.

use std::collections::BTreeMap;
use std::fmt::Display;

use rounds_kernels::network::Network;
use rounds_kernels::random::StreamKey;

use super::optimizer::{AssumptionWarning, Optimizer};
use super::parameters::{Common, Parameter, Parameters, Range};
use super::scene::Scene;
use super::settings::{Bits, Settings, SettingsError};
use crate::noise::{Calibration, NoiseError, NoiseMechanism as _, NoisePlanError, StrategyMemory};
use crate::oracle::{QueryError, unit_of_sums};
use crate::privacy::{Accountant, Adjacency, Arithmetic, Budget, Claim, Mechanism, PrivacyError, PrivacyStatement};
use crate::problem::PublicProblem;
use crate::resque::ResqueError;
use crate::sampling::SamplingError;
use crate::theory::TheoryError;

/// An optimiser ready for its first round, calibrated, with what it guarantees.
pub struct Prepared {
    /// The optimiser.
    pub optimizer: Box<dyn Optimizer>,
    /// Rounds planned: what the privacy statement covers.
    pub rounds: u64,
    /// Rows of a round, expected, where all rounds ask for as many.
    pub batch_size: Option<usize>,
    /// Gradient queries of all rounds, where sampling does not make their number random.
    pub queries: Option<u64>,
    /// Mechanism of the whole run, read by accountants; `None` without noise.
    pub mechanism: Option<Mechanism>,
    /// Values of the parameters by name, given, chosen or constant, with the number of rounds; functions of the settings and public numbers.
    pub parameters: BTreeMap<&'static str, String>,
    /// Assumptions of its theorem that the run leaves.
    pub warnings: Vec<AssumptionWarning>,
    /// The guarantee of the whole run.
    pub privacy: PrivacyStatement,
    /// Of weights and row coefficients where rows are multiplied as integers.
    pub precision: Bits,
}

impl Prepared {
    /// An optimiser whose run states the noise that it adds, and without noise claims nothing.
    pub fn new(optimizer: impl Optimizer + 'static, rounds: u64) -> Self {
        let noise = optimizer.noise();
        let mechanism = noise.map(|noise| noise.mechanism().clone());
        let none = || PrivacyStatement::none("no noise is added");
        let privacy = noise.map_or_else(none, |noise| noise.statement().clone());
        Self {
            optimizer: Box::new(optimizer),
            rounds,
            batch_size: None,
            queries: None,
            mechanism,
            parameters: BTreeMap::from([("rounds", rounds.to_string())]),
            warnings: Vec::new(),
            privacy,
            precision: Bits::TwentyFour,
        }
    }

    /// The same run without a claim.
    pub(super) fn revoked(mut self, reason: &'static str) -> Self {
        self.privacy = self.privacy.revoked(reason);
        self
    }

    /// The same run with a note to its claim.
    pub(super) fn with_note(mut self, note: &'static str) -> Self {
        self.privacy = self.privacy.with_note(note);
        self
    }

    /// The same run, telling a value that the algorithm chose.
    pub(crate) fn with(mut self, parameter: &'static str, value: impl Display) -> Self {
        self.parameters.insert(parameter, value.to_string());
        self
    }
}

/// Most outputs for which integers of 16 bits are the default.
const MOST_SHORT_OUTPUTS: usize = 16;
/// Greatest norm of a row for which they are: the coefficient of a clipped row, C over its norm, has 256 steps and more.
const MOST_SHORT_NORM: f64 = 64.0;
/// Greatest share of a round's noise that the rounding of a coordinate may deviate by with them.
const MOST_SHORT_SHARE: f64 = 1.0 / 8.0;

/// True if integers of 16 bits are fast enough for problems of this shape and fine enough for these batches and this noise: a public
/// fact.
///
/// h is at most min(C, 1)·2⁻¹⁴ with a bias, and rounding moves a coordinate of the sum of B rows that differ by a deviation of √(B/6)·h times
/// the greatest feature, which is to be at most an eighth of the noise multiplier times C. Rows that agree in norm and in all residuals, as rows
/// of categories alone do in the first round, may move it by up to h each. A unit counts the most rows that it may have; where that is not
/// declared, integers have 24 bits.
fn suits_short_integers(problem: &PublicProblem, prepared: &Prepared) -> bool {
    let model = problem.model();
    let greatest = problem.feature_grid().map_or(f64::INFINITY, |grid| f64::from(grid.step) * f64::from(grid.greatest));
    let norm = (1.0 + model.features as f64 * greatest * greatest).sqrt();
    let PrivacyStatement { noise_multiplier: Some(multiplier), clip_norm: Some(clip_norm), .. } = prepared.privacy
    else {
        return false;
    };
    let deviation = |size| (size as f64 / 6.0).sqrt() * clip_norm.min(1.0) * greatest.max(1.0) / f64::from(1 << 14);
    let most_rows = problem.unit().map_or(Some(1), |unit| unit.most_rows);
    let rows = prepared.batch_size.zip(most_rows).map(|(size, most)| size.saturating_mul(most));
    let is_fine = rows.is_some_and(|rows| deviation(rows) <= MOST_SHORT_SHARE * multiplier * clip_norm);
    let is_short = model.bias && model.outputs <= MOST_SHORT_OUTPUTS && norm <= MOST_SHORT_NORM;
    problem.suits_integers() && is_short && is_fine
}

/// A run that cannot be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// A setting out of range or unknown.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A batch that the data cannot give.
    #[error("batch-size: {0}")]
    Sampling(#[from] SamplingError),
    /// A noise mechanism that cannot be made.
    #[error(transparent)]
    Noise(#[from] NoisePlanError),
    /// A method of reweighted queries that cannot run so.
    #[error(transparent)]
    Resque(#[from] ResqueError),
    /// A guarantee that cannot be given.
    #[error(transparent)]
    Privacy(#[from] PrivacyError),
    /// Sums that no lattice holds exactly.
    #[error(transparent)]
    Sums(#[from] QueryError),
    /// Noise that no exact sum of the run can take.
    #[error("`epsilon`: {0}; take a larger one, or a smaller `noise-multiplier`")]
    Lattice(#[from] NoiseError),
    /// Constants that no theorem covers, or a budget that cannot be divided.
    #[error(transparent)]
    Theory(#[from] TheoryError),
}

/// A run to prepare: the public part of its problem, and its settings as values.
pub(crate) struct Run<'a> {
    pub(super) problem: &'a PublicProblem,
    /// The algorithm's id.
    pub(super) id: &'static str,
    /// The parameters that many algorithms share; those that this one does not list are not given.
    pub(super) common: Common,
    settings: &'a Settings,
}

impl<'a> Run<'a> {
    /// A run whose parameters are read without a list of those that the algorithm takes.
    ///
    /// # Errors
    /// A value of a common parameter out of its range.
    pub(super) fn of(
        id: &'static str,
        problem: &'a PublicProblem,
        settings: &'a Settings,
    ) -> Result<Self, SettingsError> {
        Ok(Self { problem, id, common: Common::read(settings)?, settings })
    }

    pub(super) fn key(&self) -> &'a StreamKey {
        &self.settings.key
    }

    pub(super) fn budget(&self) -> Budget {
        self.settings.budget
    }

    /// True if noise and sampling come from the operating system's key.
    pub(super) fn is_release(&self) -> bool {
        self.settings.is_release()
    }

    /// The seed of a network's initial weights: public, and of a simulation that of its noise unless it is given.
    fn initialization(&self) -> u64 {
        let of_run = if let StreamKey::Simulation(seed) = self.key() { *seed } else { 0 };
        self.common.initialization.map_or(of_run, |seed| seed as u64)
    }

    /// The first iterate: 0, or of a network its initial weights by a public seed.
    ///
    /// # Errors
    /// A seed for a linear model.
    pub(super) fn initial(&self) -> Result<Vec<f32>, SettingsError> {
        match (self.problem.network(), self.common.initialization) {
            (Some(network), _) => Ok(network.initial(self.initialization())),
            (None, None) => Ok(vec![0.0; self.problem.parameters()]),
            (None, Some(seed)) => {
                let reason =
                    "begins with weights of 0 on a linear model: leave it out, or take a network (`model-kind`)";
                Err(SettingsError::unsupported("initialization", seed, self.id, reason))
            }
        }
    }

    pub(super) fn strategies(&self) -> &'a StrategyMemory {
        &self.settings.strategies
    }

    /// The calibration of noise to the budget of the run, which must be one.
    ///
    /// # Errors
    /// No budget, or a noise multiplier that is not above 0.
    pub(super) fn calibration(&self, adjacency: Adjacency, clip_norm: f32) -> Result<Calibration<'a>, SettingsError> {
        match self.settings.budget {
            Budget::NonPrivate => {
                let expected = "a budget, an ε above 0 or a noise multiplier,";
                return Err(SettingsError::out_of_range("epsilon", "none", expected));
            }
            Budget::NoiseMultiplier { noise_multiplier, .. } => {
                Range::POSITIVE.check("noise-multiplier", noise_multiplier)?;
            }
            Budget::Target { .. } => {}
        }
        Ok(Calibration {
            problem: self.problem,
            key: &self.settings.key,
            memory: &self.settings.calibrations,
            budget: self.settings.budget,
            moments: self.settings.moments,
            accountant: self.common.accountant,
            adjacency,
            clip_norm,
        })
    }
}

/// The constructor of an entry, whatever parameters it reads.
pub(crate) trait Constructor: Sync {
    /// The groups of its own parameters.
    fn parameters(&self) -> Vec<&'static [Parameter]>;

    /// The constructor with the values of its own parameters.
    ///
    /// # Errors
    /// A value out of its range.
    fn read(&self, settings: &Settings) -> Result<Box<Construct<'_>>, SettingsError>;
}

/// A constructor that has its parameters.
type Construct<'a> = dyn FnOnce(&Run<'_>) -> Result<Prepared, PrepareError> + 'a;

/// A constructor with the type of the parameters that it reads.
pub(super) struct Reads<P>(pub(super) fn(&Run<'_>, P) -> Result<Prepared, PrepareError>);

impl<P: Parameters> Constructor for Reads<P> {
    fn parameters(&self) -> Vec<&'static [Parameter]> {
        P::groups()
    }

    fn read(&self, settings: &Settings) -> Result<Box<Construct<'_>>, SettingsError> {
        let own = P::read(settings)?;
        Ok(Box::new(move |run| (self.0)(run, own)))
    }
}

/// An entry of the catalogue.
pub struct Algorithm {
    /// The id of the command line, e.g. `dp-sgd`.
    pub id: &'static str,
    /// The name in the literature.
    pub name: &'static str,
    /// The publication.
    pub source: &'static str,
    /// The guarantee of its defaults, in a line. Where it depends on the parameters, a run tells its own as `promise`.
    pub promise: &'static str,
    /// True if it adds noise and states a guarantee.
    pub private: bool,
    /// True if all that it releases are exact sums with exactly rounded noise ([`Arithmetic::Exact`]): only then it may claim a
    /// release.
    pub release: bool,
    /// The parameters of [`Common`] that it reads, by groups.
    pub(crate) common: &'static [&'static [Parameter]],
    /// The conditions of its audits.
    pub scenes: &'static [Scene],
    /// Its constructor with the parameters of its own that it [`Reads`], called by [`Algorithm::prepare`].
    pub(crate) constructor: &'static dyn Constructor,
}

impl Algorithm {
    /// The parameters that it reads.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        let own = self.constructor.parameters();
        self.common.iter().copied().chain(own).flatten()
    }

    /// True if it reads the parameter of this name.
    pub fn reads(&self, parameter: &str) -> bool {
        self.parameters().any(|own| own.name == parameter)
    }

    /// The algorithm with the parameters of `settings` as values: their texts end here.
    ///
    /// # Errors
    /// A parameter that the algorithm does not read, or whose value is not allowed.
    pub fn check<'a>(&'a self, settings: &'a Settings) -> Result<Checked<'a>, SettingsError> {
        Ok(Checked { common: self.common(settings)?, own: self.constructor.read(settings)?, algorithm: self, settings })
    }

    /// The parameters of [`Common`], once all names are known.
    fn common(&self, settings: &Settings) -> Result<Common, SettingsError> {
        let known = |name: &str| self.parameters().find(|own| own.name == name);
        if let Some(name) = settings.parameters.keys().find(|name| known(name).is_none()) {
            let all: Vec<_> = self.parameters().map(|parameter| parameter.name).collect();
            return Err(SettingsError::UnknownParameter {
                parameter: name.clone(),
                algorithm: self.id,
                known: all.join(", "),
            });
        }
        Common::read(settings).map_err(|error| match error {
            // The values that this algorithm lists.
            SettingsError::OutOfRange { parameter, value, expected } => {
                let expected = known(parameter).map_or(expected, |own| own.expected);
                SettingsError::OutOfRange { parameter, value, expected }
            }
            other => other,
        })
    }

    /// Refuses a network where its theorem or its first step needs a convex loss, or its parameters a linear model.
    fn check_network(&self, run: &Run<'_>, network: &Network) -> Result<(), SettingsError> {
        let refuse =
            |parameter, value: &dyn Display, reason| Err(SettingsError::unsupported(parameter, value, self.id, reason));
        if !self.reads("initialization") {
            let reason = "is one for convex losses, or begins with weights of 0, at which a network has no gradient: take sgd, dp-sgd, \
                          dp-ftrl, dp-mf, dp-mf-plus or another that `initialization` belongs to, or leave it out";
            return refuse("model-kind", &network.text(), reason);
        }
        if let Some(bits) = run.common.precision {
            let reason = "rounds a network's gradients to steps of their own: leave it out";
            return refuse("precision", &bits, reason);
        }
        if run.common.accountant == Some(Accountant::LastIterate) {
            let reason = "needs steps that contract for the accountant last-iterate, which those of a network do not: take another accountant";
            return refuse("accountant", &Accountant::LastIterate, reason);
        }
        Ok(())
    }

    /// The optimiser for `problem`, calibrated to the budget of `settings`.
    ///
    /// # Errors
    /// Parameters out of range or not read by the algorithm, guarantees that no theorem covers.
    pub fn prepare(&self, problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
        self.check(settings)?.prepare(problem)
    }
}

/// An algorithm with the values of all its parameters.
pub struct Checked<'a> {
    algorithm: &'a Algorithm,
    common: Common,
    own: Box<Construct<'a>>,
    settings: &'a Settings,
}

impl Checked<'_> {
    /// The optimiser for `problem`, calibrated to the budget of the settings.
    ///
    /// # Errors
    /// Values that the problem does not allow, guarantees that no theorem covers.
    pub fn prepare(self, problem: &PublicProblem) -> Result<Prepared, PrepareError> {
        let Self { algorithm, common, own, settings } = self;
        let run = Run { problem, id: algorithm.id, common, settings };
        if let Some(network) = problem.network() {
            algorithm.check_network(&run, network)?;
        }
        let mut prepared = own(&run)?;
        if problem.network().is_some() {
            prepared = prepared.with("initialization", run.initialization());
        }
        for parameter in algorithm.parameters() {
            let given = settings.parameters.get(parameter.name).cloned();
            if let Some(value) = given.or_else(parameter.default) {
                prepared.parameters.entry(parameter.name).or_insert(value);
            }
        }
        if !algorithm.release
            && let Some(arithmetic) = &mut prepared.privacy.arithmetic
        {
            *arithmetic = Arithmetic::Idealised;
        }
        if algorithm.reads("precision") && problem.network().is_none() {
            let precision = match run.common.precision {
                Some(bits) => bits,
                None if suits_short_integers(problem, &prepared) => Bits::Sixteen,
                None => Bits::TwentyFour,
            };
            prepared.precision = precision;
            prepared = prepared.with("precision", precision);
            if let (Bits::Sixteen, Some(arithmetic @ Arithmetic::Exact)) = (precision, &mut prepared.privacy.arithmetic)
            {
                *arithmetic = Arithmetic::Exact16;
            }
        }
        let is_exact = prepared.privacy.arithmetic.is_some_and(Arithmetic::is_exact);
        if prepared.privacy.claim == Claim::Release && !is_exact {
            let reason = format!("the rounding of {} is not covered by its noise: no release is claimed", algorithm.id);
            prepared.privacy = prepared.privacy.revoked(reason);
        }
        if let Some(noise) = prepared.optimizer.noise().filter(|_| is_exact)
            && let Some(unit) =
                unit_of_sums(problem, prepared.precision.into(), prepared.optimizer.greatest_weight(), noise.clip())?
        {
            noise.check_unit(unit)?;
        }
        Ok(prepared)
    }
}

impl Settings {
    /// Sets a parameter that `algorithm` reads and that has no value yet.
    pub fn offer(&mut self, algorithm: &Algorithm, parameter: &str, value: impl Display) {
        if algorithm.reads(parameter) && !self.parameters.contains_key(parameter) {
            self.set(parameter, value);
        }
    }
}
