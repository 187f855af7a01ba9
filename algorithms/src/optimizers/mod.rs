//! Optimisers: state machines whose `step` is exactly one adaptive round. One file a variant.
//!
//! An optimiser never touches data, threads or a clock: it asks the [`Oracle`], which counts. What it guarantees it
//! states as data (a [`Mechanism`]); accountants read that and nothing else.

mod accelerated_methods;
pub mod accelerated_plan;
mod accelerated_srg;
mod cutting_plane;
mod matrix_factorization;
pub mod momentum;
mod noisy_sums;
pub mod parameters;
mod phased_erm;
mod phased_sgd;
pub mod plan;
mod pooled;
mod randomized_smoothing;
mod resque_parallel;
mod resque_private;
pub mod scene;
pub mod settings;
pub(crate) mod sgd;
mod srg_matrix_factorization;
mod unaccelerated_srg;

/// All algorithms, in the order in which they are listed. A new one is a file, its `mod` line above and a line here.
pub static ALGORITHMS: &[&Algorithm] = &[
    &sgd::SGD,
    &sgd::DP_SGD,
    &matrix_factorization::DP_FTRL,
    &matrix_factorization::DP_MEMF,
    &srg_matrix_factorization::DP_SRG_MEMF,
    &accelerated_srg::ACCELERATED_DP_SRG,
    &unaccelerated_srg::UNACCELERATED_DP_SRG,
    &accelerated_srg::ACCELERATED_INDEPENDENT,
    &matrix_factorization::PGD,
    &matrix_factorization::ANTI_PGD,
    &matrix_factorization::DP_MF,
    &matrix_factorization::DP_MF_PLUS,
    &phased_sgd::PHASED_SGD,
    &phased_erm::PHASED_ERM,
    &phased_erm::LOCALIZED_ACCELERATED,
    &resque_parallel::RESQUE_EPOCH_SGD,
    &resque_parallel::RESQUE_AC_SA,
    &resque_private::RESQUE_PRIVATE_ERM,
    &resque_private::RESQUE_PRIVATE_SCO,
    &randomized_smoothing::RANDOMIZED_SMOOTHING,
    &cutting_plane::CUTTING_PLANE,
    &accelerated_methods::DP_GD,
    &accelerated_methods::DP_HB,
    &accelerated_methods::DP_NAG,
    &accelerated_methods::DP_NAG_OPT,
    &accelerated_methods::DP_MASG,
    &accelerated_methods::DP_MASG_OPT,
];

pub use parameters::Parameter;
pub use scene::Scene;
pub use settings::{Averaging, Budget, SamplingKind, Settings, SettingsError};

pub use crate::noise::NoiseKind;

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::noise::{NoiseError, NoisePlanError};
use crate::oracle::{Oracle, QueryError};
use crate::privacy::{Arithmetic, Claim, Mechanism, PrivacyError, PrivacyStatement};
use crate::problem::PublicProblem;
use crate::resque::ResqueError;
use crate::sampling::{Sampler, SamplingError};
use crate::state::StateVisitor;
use crate::theory::TheoryError;

/// A step that could not be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// A query without an answer.
    #[error(transparent)]
    Gradient(#[from] QueryError),
    /// The noise mechanism refused.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// A pool of reweighted queries refused.
    #[error(transparent)]
    Resque(#[from] ResqueError),
}

/// A round that could not be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// The optimiser's step failed.
    #[error("round {round}: {source}")]
    Step {
        /// The round, 0-based.
        round: u64,
        /// The reason.
        source: StepError,
    },
    /// More rounds than planned (and accounted for).
    #[error("all {rounds} planned rounds are done: another one would not be covered by the privacy statement")]
    Finished {
        /// Rounds planned.
        rounds: u64,
    },
}

/// A constant outside what a theorem assumes, where `constants = practical` goes on: utility is then not proven. Privacy
/// never rests on these, since clipping is always on.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AssumptionWarning {
    /// β < 2MT.
    #[error(
        "beta = {beta} is below 2·M·T = {needed}: differences are not bounded by [000 Claim 4.2], and more of them are \
         clipped; constants=theory refuses this"
    )]
    SmallBeta {
        /// β.
        beta: f64,
        /// 2MT.
        needed: f64,
    },
    /// ζ > 1/2.
    #[error("zeta = {zeta} is above 1/2: the step as printed, outside the proof; zeta=0.5 is inside")]
    LargeZeta {
        /// ζ.
        zeta: f64,
    },
    /// B > √n in the constrained regime.
    #[error("batches of {batch_size} rows are above √n = {root:.0}: the constrained regime is proven up to there")]
    LargeBatch {
        /// B.
        batch_size: usize,
        /// √n.
        root: f64,
    },
    /// Iterates are not projected.
    #[error(
        "iterates are not projected, which the proof needs: give a public bound R on the norm of the minimiser, radius=R; \
         without one, noise may carry iterates anywhere"
    )]
    NoProjection,
}

/// A first-order method as a state machine. An [`Executor`](crate::executor::Executor) counts its rounds.
pub trait Optimizer: Send {
    /// Adaptive round `round` (0-based): one batch of gradient queries, its noise, one update. The phase
    /// [`Sample`](crate::oracle::Phase::Sample) has begun.
    ///
    /// # Errors
    /// A gradient that is not finite, noise that is used up. The state is then unusable.
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError>;

    /// The parameters to use: the last iterate, or an average where the method says so.
    fn solution(&mut self) -> &[f32];

    /// Visits what a checkpoint must hold beside the number of rounds done.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);

    /// The sampler that draws the batch of every round, where one does.
    fn batches(&self) -> Option<&Sampler> {
        None
    }
}

/// An optimiser ready for its first round, calibrated, with what it guarantees.
pub struct Prepared {
    /// The optimiser.
    pub optimizer: Box<dyn Optimizer>,
    /// Rounds planned: what the privacy statement covers.
    pub rounds: u64,
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
}

impl Prepared {
    /// An optimiser whose run releases `mechanism`.
    pub fn new(
        optimizer: impl Optimizer + 'static,
        rounds: u64,
        mechanism: Option<Mechanism>,
        privacy: PrivacyStatement,
    ) -> Self {
        Self {
            optimizer: Box::new(optimizer),
            rounds,
            queries: None,
            mechanism,
            parameters: BTreeMap::from([("rounds", rounds.to_string())]),
            warnings: Vec::new(),
            privacy,
        }
    }

    /// The same run, telling a value that the algorithm chose.
    pub(crate) fn with(mut self, parameter: &'static str, value: impl Display) -> Self {
        self.parameters.insert(parameter, value.to_string());
        self
    }
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
    /// Constants that no theorem covers, or a budget that cannot be divided.
    #[error(transparent)]
    Theory(#[from] TheoryError),
}

/// An entry of the catalogue.
pub struct Algorithm {
    /// The id of the command line, e.g. `dp-sgd`.
    pub id: &'static str,
    /// The name in the literature.
    pub name: &'static str,
    /// The publication.
    pub source: &'static str,
    /// The guarantee, in a line.
    pub promise: &'static str,
    /// True if it adds noise and states a guarantee.
    pub private: bool,
    /// True if all that it releases are exact sums with exactly rounded noise ([`Arithmetic::Exact`]): only then it may claim a
    /// release.
    pub release: bool,
    /// The parameters that it reads, by groups; see [`Algorithm::parameters`].
    pub groups: &'static [&'static [Parameter]],
    /// The conditions of its audits.
    pub scenes: &'static [Scene],
    /// Its constructor, called by [`Algorithm::prepare`].
    pub(crate) constructor: fn(&PublicProblem, &Settings) -> Result<Prepared, PrepareError>,
}

impl Algorithm {
    /// The parameters that it reads.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        self.groups.iter().copied().flatten()
    }

    /// True if it reads the parameter of this name.
    pub fn reads(&self, parameter: &str) -> bool {
        self.parameters().any(|own| own.name == parameter)
    }

    /// Checks the parameters of `settings`, one by one.
    ///
    /// # Errors
    /// A parameter that the algorithm does not read, or whose value is not allowed.
    pub fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        for (name, value) in &settings.parameters {
            let Some(parameter) = self.parameters().find(|own| own.name == name) else {
                let known: Vec<_> = self.parameters().map(|parameter| parameter.name).collect();
                return Err(SettingsError::UnknownParameter {
                    parameter: name.clone(),
                    algorithm: self.id,
                    known: known.join(", "),
                });
            };
            if !(parameter.accepts)(value) {
                return Err(SettingsError::out_of_range(parameter.name, value, parameter.expected));
            }
        }
        Ok(())
    }

    /// The optimiser for `problem`, calibrated to the budget of `settings`.
    ///
    /// # Errors
    /// Parameters out of range or not read by the algorithm, guarantees that no theorem covers.
    pub fn prepare(&self, problem: &PublicProblem, settings: &Settings) -> Result<Prepared, PrepareError> {
        self.check(settings)?;
        let mut prepared = (self.constructor)(problem, settings)?;
        for parameter in self.parameters() {
            let given = settings.parameters.get(parameter.name).cloned();
            if let Some(value) = given.or_else(parameter.default) {
                prepared.parameters.entry(parameter.name).or_insert(value);
            }
        }
        if !self.release
            && let Some(arithmetic) = &mut prepared.privacy.arithmetic
        {
            *arithmetic = Arithmetic::Idealised;
        }
        if prepared.privacy.claim == Claim::Release && prepared.privacy.arithmetic != Some(Arithmetic::Exact) {
            let reason = format!("the rounding of {} is not covered by its noise: no release is claimed", self.id);
            prepared.privacy = prepared.privacy.revoked(reason);
        }
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::Prepared;
    use crate::executor::Executor;
    use crate::oracle::{Ledger, evaluate};
    use crate::parallel::Engine;
    use crate::problem::Problem;

    /// The solution after all rounds, and their counts.
    pub(super) fn run(problem: &Problem, prepared: Prepared) -> (Vec<f32>, Ledger) {
        let mut executor = Executor::new(problem, Engine::default(), prepared);
        executor.run().unwrap();
        (executor.solution().to_vec(), executor.ledger())
    }

    /// The mean loss of a row, without the regulariser.
    pub(super) fn mean_loss(problem: &Problem, x: &[f32]) -> f64 {
        evaluate(problem, &Engine::default(), x).unwrap().loss / problem.rows() as f64
    }
}
