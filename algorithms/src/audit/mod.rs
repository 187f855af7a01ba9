//! Empirical lower bounds on the privacy loss of any algorithm of the catalogue, to stand beside its claim.
//!
//! An audit runs the algorithm itself, constructor and optimiser as they are, many times without and with one example (the
//! canary), reads the iterates after every round, and looks for the test that tells the two apart best: the likelihood ratio
//! of the canary on the whitened transcript, and of another scale of the noise elsewhere. The test's statistic and threshold are
//! fixed on one half of the runs; its errors are counted on the other half, and their Clopper–Pearson limits contradict
//! every mechanism that is too private for them. A bound above the claim disproves the claim at the
//! stated confidence; a bound below it is no proof of anything, but close to it says that there is little slack.
//!
//! | runs | canary | used for |
//! | --- | --- | --- |
//! | N/4 + N/4, the same keys | without, with | whitening, the canary's shift, the threshold |
//! | N/4 | without | false alarms |
//! | N/4 | with | misses |

use std::ops::ControlFlow;

mod bound;
mod canary;
mod guesses;
mod likelihood;
mod moments;
mod one_run;
mod selection;

pub use bound::TestErrors;
use bound::{ClaimedFamily, Seen};
use canary::{COLUMNS, Noise};
pub use canary::{CanaryRows, Sabotage};
pub use guesses::Guesses;
use likelihood::{Density, LikelihoodRatio, Moments, NoiseLaw};
pub use moments::{POWER as MOMENTS_POWER, audit_moments};
pub use one_run::{CANARIES, GUESS_ERROR};
use rounds_kernels::random::StreamKey;
use sha2::{Digest, Sha256};

use crate::catalog;
use crate::choices::choices;
use crate::executor::Executor;
use crate::moments::Form;
use crate::noise::StrategyMemory;
pub use crate::optimizers::Scene;
use crate::optimizers::{Algorithm, Budget, PrepareError, RoundError, Settings};
use crate::oracle::Oracle;
use crate::parallel::Engine;
use crate::privacy::{Accountant, Adjacency, Claim, Mechanism, PrivacyError, Sampling};
use crate::problem::Problem;

/// Probability that a bound exceeds the truth.
pub const ERROR: f64 = 1e-4;
/// The name of the release of moments, given in place of an algorithm's.
pub const MOMENTS: &str = "moments";
/// Fewest runs of an audit.
pub const FEWEST_RUNS: u64 = 400;
/// Runs of one task.
const RUNS_A_TASK: u64 = 32;

choices! {
    /// The kind of key of the runs.
    #[derive(Default)]
    pub enum AuditKey {
        /// The fast generator from a seed.
        #[default]
        Simulation = "simulation",
        /// ChaCha20 under a 256-bit key of its own a run, each row's contribution rounded on its own: as a release is run.
        /// The keys derive from the audit's seed.
        Secure = "secure",
    }
}

/// Claim, runs and rows of an audit.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Runs N in all.
    pub runs: u64,
    /// Seed of all runs.
    pub seed: u64,
    /// ε of the claim; without one, that of μ = 2 for Gaussian mechanisms, 4 with subsampling, 2 for Laplace.
    pub epsilon: Option<f64>,
    /// δ of the claim.
    pub delta: f64,
    /// The relation of the claim; without one, zero-out, or the one that the sabotage breaks.
    pub adjacency: Option<Adjacency>,
    /// The kind of key.
    pub key: AuditKey,
    /// The deliberate fault.
    pub sabotage: Option<Sabotage>,
    /// The format of the rows.
    pub rows: CanaryRows,
    /// The canary is a unit of several rows.
    pub units: bool,
    /// The best of a random number of runs is audited, in place of one.
    pub selection: bool,
    /// So many canaries in one run, instead of many runs with one.
    pub one_run: Option<usize>,
    /// Audits in one run that are judged together.
    pub judged: usize,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            runs: 20_000,
            seed: 1,
            epsilon: None,
            delta: 1e-5,
            adjacency: None,
            key: AuditKey::Simulation,
            sabotage: None,
            rows: CanaryRows::F32,
            units: false,
            selection: false,
            one_run: None,
            judged: 1,
        }
    }
}

/// An audit that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Too few runs for any bound.
    #[error("{0} runs: at least {FEWEST_RUNS} are needed, and a bound close to the claim takes 20000 or more")]
    TooFewRuns(u64),
    /// Too few canaries for any bound, or too many for the memory of a few rows each.
    #[error(
        "{given} canaries in one run: {} to {} are taken; with few of them a bound shows next to nothing, and every row has a column for each",
        CANARIES.0, CANARIES.1
    )]
    Canaries {
        /// Their number.
        given: usize,
    },
    /// A sabotage that one run does not show.
    #[error(
        "sabotage {0}: one run does not show it: a canary moves the number of rows by one of all, and the noise of no coordinate by more \
         than that part; many runs show it, without `one-run`"
    )]
    Counts(&'static str),
    /// An audit that is not made on such rows.
    #[error("{0}: its audit is not set up for such rows; take `rows f32`")]
    Rows(&'static str),
    /// A sabotage of drawn batches, of a scene that draws none.
    #[error(
        "sabotage fixed-order: it breaks claims about batches that are drawn, and {algorithm} ({scene}) reads its rows in their order"
    )]
    Order {
        /// The algorithm.
        algorithm: &'static str,
        /// Its scene.
        scene: &'static str,
    },
    /// A sabotage of other audits.
    #[error("sabotage {0}: {1}")]
    Sabotage(&'static str, &'static str),
    /// A sabotage of another relation.
    #[error("sabotage {sabotage}: it breaks claims under {needed} alone; audit the relation {needed}")]
    Relation {
        /// The sabotage.
        sabotage: &'static str,
        /// The relation that it breaks.
        needed: Adjacency,
    },
    /// An audit of moments that is not made.
    #[error("the release of moments: {0}")]
    Moments(&'static str),
    /// The algorithm refused the audit's settings.
    #[error("{algorithm}: {source}")]
    Prepare {
        /// Its identifier.
        algorithm: &'static str,
        /// The cause.
        source: PrepareError,
    },
    /// A run failed.
    #[error("{algorithm}: {source}")]
    Round {
        /// Its identifier.
        algorithm: &'static str,
        /// The cause.
        source: RoundError,
    },
    /// The claim cannot be turned into numbers.
    #[error(transparent)]
    Privacy(#[from] PrivacyError),
}

/// The result of an audit.
#[derive(Clone, Debug)]
pub struct AuditReport {
    /// The algorithm.
    pub algorithm: &'static str,
    /// Its sampling and noise.
    pub scene: &'static str,
    /// The kind of key.
    pub key: AuditKey,
    /// The relation.
    pub adjacency: Adjacency,
    /// The deliberate fault.
    pub sabotage: Option<Sabotage>,
    /// The format of the rows.
    pub rows: CanaryRows,
    /// The canary is a unit of several rows.
    pub units: bool,
    /// The best of a random number of runs was audited.
    pub selection: bool,
    /// The claim and the bound; or why nothing is claimed.
    pub finding: Result<Finding, String>,
}

/// A claim beside its lower bound: the keys of a finding in results, hence more fields than elsewhere.
#[derive(Clone, Debug)]
pub struct Finding {
    /// True where the rows were summed as integers.
    pub integers: bool,
    /// The mechanism, for people.
    pub mechanism: String,
    /// δ of the claim; 0 for a pure one.
    pub delta: f64,
    /// Claimed μ, where the run is one Gaussian mechanism.
    pub claimed_mu: Option<f64>,
    /// Claimed ε.
    pub claimed_epsilon: f64,
    /// μ is at least this.
    pub lower_bound_mu: Option<f64>,
    /// ε is at least this.
    pub lower_bound_epsilon: f64,
    /// ‖δ‖ of the canary on the whitened transcript.
    pub shift: f64,
    /// Variance of the noise with the canary over that without.
    pub scale: f64,
    /// Runs in all.
    pub runs: u64,
    /// Adaptive rounds of one run.
    pub rounds: u64,
    /// Runs of each kind whose errors were counted.
    pub trials: u64,
    /// Alarms without the canary.
    pub false_alarms: u64,
    /// No alarm with it.
    pub misses: u64,
    /// The bounds hold with this probability.
    pub confidence: f64,
    /// The guesses of an audit in one run; its trials, alarms and misses are these.
    pub guesses: Option<Guesses>,
}

impl Finding {
    /// True if the bound disproves the claim.
    pub fn disproves(&self) -> bool {
        self.lower_bound_epsilon > self.claimed_epsilon
            || self.lower_bound_mu.zip(self.claimed_mu).is_some_and(|(bound, claim)| bound > claim)
    }
}

/// Refuses settings that no audit has; the relation of one.
fn checked(settings: &AuditSettings) -> Result<Adjacency, AuditError> {
    if let Some(canaries) = settings.one_run.filter(|canaries| !(CANARIES.0..=CANARIES.1).contains(canaries)) {
        return Err(AuditError::Canaries { given: canaries });
    }
    if let Some(sabotage) = settings.sabotage.filter(|sabotage| settings.one_run.is_some() && sabotage.is_of_counts()) {
        return Err(AuditError::Counts(sabotage.name()));
    }
    if settings.one_run.is_none() && settings.runs < FEWEST_RUNS {
        return Err(AuditError::TooFewRuns(settings.runs));
    }
    let broken = settings.sabotage.and_then(Sabotage::breaks);
    let adjacency = settings.adjacency.or(broken).unwrap_or(Adjacency::ZeroOut);
    if let (Some(sabotage), Some(needed)) = (settings.sabotage, broken.filter(|needed| *needed != adjacency)) {
        let sabotage = sabotage.name();
        return Err(AuditError::Relation { sabotage, needed });
    }
    if let Some(sabotage) = settings.sabotage {
        let is_elsewhere = match () {
            () if sabotage.is_of_units() && !settings.units => {
                Some("it breaks claims about units of several rows alone; audit `units`")
            }
            () if sabotage.is_of_networks() && settings.rows != CanaryRows::Network => {
                Some("it breaks networks alone; audit `rows network`")
            }
            () if sabotage.is_of_selections() == settings.selection => None,
            () if settings.selection => Some("of a selection report-the-score and deterministic-count are audited"),
            () => Some("it breaks claims about selections alone; audit `selection`, which takes many runs"),
        };
        if let Some(problem) = is_elsewhere {
            return Err(AuditError::Sabotage(sabotage.name(), problem));
        }
    }
    Ok(adjacency)
}

/// The subject of an audit: an algorithm in a scene, or the release of moments.
#[derive(Clone, Copy)]
pub enum Subject {
    /// An algorithm in one of its scenes.
    Run(&'static Algorithm, &'static Scene),
    /// The release of moments.
    Moments(Form),
}

impl Subject {
    /// The scenes of an algorithm, or both forms of [`MOMENTS`].
    ///
    /// # Errors
    /// An unknown algorithm.
    pub fn of(name: &str) -> Result<Vec<Self>, catalog::UnknownAlgorithm> {
        if name == MOMENTS {
            return Ok(vec![Self::Moments(Form::Full), Self::Moments(Form::Diagonal)]);
        }
        let algorithm = catalog::find(name)?;
        Ok(algorithm.scenes.iter().map(|scene| Self::Run(algorithm, scene)).collect())
    }

    /// The algorithm and its scene, in words.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Run(algorithm, scene) => (algorithm.id, scene.name),
            Self::Moments(Form::Full) => (MOMENTS, "all entries"),
            Self::Moments(Form::Diagonal) => (MOMENTS, "means and squares"),
        }
    }

    /// True if it can be audited with rows of this format, which are units or not.
    pub fn takes(self, rows: CanaryRows, units: bool) -> bool {
        match self {
            Self::Run(algorithm, scene) => scene.takes(rows, algorithm) && (units || !scene.needs_units),
            Self::Moments(_) => true,
        }
    }

    /// [`audit()`], or [`audit_moments`].
    ///
    /// # Errors
    /// Those of the two.
    pub fn audit(
        self,
        settings: &AuditSettings,
        engine: &Engine,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<AuditReport, AuditError> {
        match self {
            Self::Run(algorithm, scene) => audit(algorithm, scene, settings, engine, progress),
            Self::Moments(form) => audit_moments(form, settings, engine, progress),
        }
    }
}

/// Audits `algorithm` in one of its scenes with runs spread over `engine`; `progress` is told how many more runs are done.
///
/// # Errors
/// Too few runs, settings or a relation that the algorithm refuses, a run that fails.
pub fn audit(
    algorithm: &'static Algorithm,
    scene: &Scene,
    settings: &AuditSettings,
    engine: &Engine,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<AuditReport, AuditError> {
    let adjacency = checked(settings)?;
    if let Some(sabotage) = settings.sabotage.filter(|sabotage| *sabotage == Sabotage::TwoTriangles) {
        let problem = "it breaks the release of moments alone; audit `algorithm moments`";
        return Err(AuditError::Sabotage(sabotage.name(), problem));
    }
    let report = |finding| AuditReport {
        algorithm: algorithm.id,
        scene: scene.name,
        key: settings.key,
        adjacency,
        sabotage: settings.sabotage,
        rows: settings.rows,
        units: settings.units,
        selection: settings.selection,
        finding,
    };
    if !algorithm.private {
        return Ok(report(Err("the algorithm adds no noise and claims nothing".to_owned())));
    }
    let is_many = settings.units || settings.one_run.is_some();
    if !scene.takes(settings.rows, algorithm) || (settings.rows == CanaryRows::Network && is_many) {
        return Err(AuditError::Rows(algorithm.id));
    }
    if let Some(sabotage) = settings.sabotage.filter(|sabotage| sabotage.is_of_batches() && scene.is_drawn()) {
        let problem = "it is shown where batches are read in their order, as those of dp-mf are";
        return Err(AuditError::Sabotage(sabotage.name(), problem));
    }
    if settings.selection {
        return selection::audit(algorithm, scene, settings, (engine, progress), report, adjacency);
    }
    let scene = scene.sabotaged(settings.sabotage);
    let layout = (settings.rows, settings.units);
    let scene = settings.one_run.map_or(scene.clone(), |canaries| scene.with_canaries(canaries, settings.sabotage));
    let (problems, honest) = match settings.one_run {
        None => {
            let [_, honest] = scene.problems(adjacency, None, layout);
            (Some(scene.problems(adjacency, settings.sabotage, layout)), honest)
        }
        Some(canaries) => (None, scene.of_coins(adjacency, None, layout, &vec![true; canaries])),
    };
    let claim = match Claimed::of(algorithm, &scene, settings, adjacency, &honest)? {
        Ok(claim) => claim,
        Err(reason) => return Ok(report(Err(reason))),
    };
    let steps = claim.family.mechanism.steps();
    let is_drawn = steps.iter().any(|step| step.sampling().is_some_and(Sampling::amplifies));
    if settings.sabotage == Some(Sabotage::FixedOrder) && !is_drawn {
        return Err(AuditError::Order { algorithm: algorithm.id, scene: scene.name });
    }
    let runs = Runs {
        algorithm,
        settings: &claim.run_settings(algorithm, &scene, settings, &honest)?,
        problems: problems.as_ref(),
        audit: settings,
        rounds: claim.rounds,
        progress,
    };
    if let Some(canaries) = settings.one_run {
        let in_one = |coins: &[bool]| scene.of_coins(adjacency, settings.sabotage, layout, coins);
        return Ok(report(Ok(one_run::audited(&claim, &runs, settings, in_one, canaries)?)));
    }
    let quarter = settings.runs / 4;
    let family = &claim.family;

    let iterates = runs.learn(quarter, engine)?;
    let noise = [0, 1].map(|index: usize| runs.moments(&iterates[index]));
    let means = [0, 1].map(|index: usize| runs.mean(&iterates[index]));
    let law = noise_law(&family.mechanism, settings.sabotage);
    let ratio = LikelihoodRatio::new(law, [&noise[0], &noise[1]], [&means[0], &means[1]]);
    let [without, with] = iterates.map(|iterates| -> Vec<f64> {
        let runs = iterates.chunks_exact(runs.rounds * COLUMNS);
        runs.map(|iterates| ratio.log_ratio(iterates, COLUMNS)).collect()
    });
    let threshold = best_threshold(family, &without, &with)?;

    let false_alarms = runs.count(&ratio, threshold, false, quarter, engine)?;
    let misses = quarter - runs.count(&ratio, threshold, true, quarter, engine)?;
    let errors = TestErrors::from_counts(false_alarms, misses, quarter, ERROR);
    let bound = family.lower_bound(Seen::Errors(errors))?;
    Ok(report(Ok(Finding {
        integers: problems.iter().flatten().all(|problem| problem.is_in_integers()),
        mechanism: family.mechanism.to_string(),
        delta: family.delta,
        claimed_mu: family.mu(),
        claimed_epsilon: claim.epsilon,
        lower_bound_mu: bound.mu,
        lower_bound_epsilon: bound.epsilon,
        shift: ratio.shift(),
        scale: ratio.scale(),
        runs: 4 * quarter,
        rounds: runs.rounds as u64,
        trials: quarter,
        false_alarms,
        misses,
        confidence: 1.0 - ERROR,
        guesses: None,
    })))
}

/// The claim of the algorithm in a scene.
struct Claimed {
    family: ClaimedFamily,
    epsilon: f64,
    /// Adaptive rounds of one run.
    rounds: usize,
    /// The settings that the claim belongs to.
    settings: Settings,
}

impl Claimed {
    /// The claim on the problem with the canary, which has as many rows as the domain declares: the honest one in every
    /// copy. The reason, where nothing is claimed.
    fn of(
        algorithm: &'static Algorithm,
        scene: &Scene,
        audit: &AuditSettings,
        adjacency: Adjacency,
        problem: &Problem,
    ) -> Result<Result<Self, String>, AuditError> {
        let epsilon = audit.epsilon.unwrap_or_else(|| scene.epsilon(audit.delta));
        let key = run_key(audit, Part::Claim, 0);
        let budget = Budget::Target { epsilon, delta: audit.delta };
        let settings = scene.settings(budget, 1.0, key, (algorithm, audit.rows));
        let prepared = algorithm.prepare(problem, &settings);
        let prepared = prepared.map_err(|source| AuditError::Prepare { algorithm: algorithm.id, source })?;
        let statement = prepared.privacy;
        let (Some(mechanism), Some(epsilon), Some(accountant)) =
            (prepared.mechanism, statement.epsilon.filter(|_| statement.claim != Claim::None), statement.accountant)
        else {
            let reason = statement.reason;
            return Ok(Err(reason.unwrap_or_else(|| "nothing is claimed".to_owned())));
        };
        let delta = if accountant == Accountant::Pure { 0.0 } else { audit.delta };
        let family = ClaimedFamily { mechanism, accountant, adjacency, delta };
        Ok(Ok(Self { family, epsilon, rounds: prepared.rounds as usize, settings }))
    }

    /// The settings that are run: the noise that the claim came to, so that its accountant is not asked again for every run.
    /// Without sabotage what is run must be what is claimed, Gaussian noise to the bit; else the claim's own are run.
    fn run_settings(
        &self,
        algorithm: &'static Algorithm,
        scene: &Scene,
        audit: &AuditSettings,
        problem: &Problem,
    ) -> Result<Settings, PrivacyError> {
        let ClaimedFamily { mechanism, accountant, adjacency, .. } = &self.family;
        let noise = match mechanism.noise_multiplier() {
            Some(noise_multiplier) => Noise::Multiplier(noise_multiplier),
            None => Noise::PureEpsilon(Accountant::Pure.epsilon(mechanism, *adjacency, 0.0)?),
        };
        let key = self.settings.key.clone();
        let mut run = Settings {
            strategies: StrategyMemory::default(),
            ..scene.run(audit.sabotage, noise, audit.delta, key, (algorithm, audit.rows))
        };
        // Batches in their order have none of the claim's accountants.
        if audit.sabotage == Some(Sabotage::FixedOrder) {
            run.set("accountant", Accountant::Gdp);
        } else if *accountant == Accountant::Pld && !run.parameters.contains_key("accountant") {
            run.set("accountant", Accountant::Rdp);
        }
        let same = || {
            algorithm.prepare(problem, &run).is_ok_and(|prepared| {
                let run = prepared.mechanism;
                run.as_ref() == Some(mechanism) || run.is_some_and(|run| is_same_laplace(&run, mechanism))
            })
        };
        if audit.sabotage.is_some() || same() {
            return Ok(run);
        }
        Ok(Settings { strategies: run.strategies, ..self.settings.clone() })
    }
}

/// True if two Laplace mechanisms differ by rounding alone.
fn is_same_laplace(left: &Mechanism, right: &Mechanism) -> bool {
    let (left, right) = (left.steps(), right.steps());
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| match (left, right) {
            (Mechanism::Laplace { scale: left, .. }, Mechanism::Laplace { scale: right, .. }) => {
                (left / right - 1.0).abs() < 1e-9
            }
            _ => false,
        })
}

/// The law of a mechanism's noise as the likelihood ratio needs it.
fn noise_law(mechanism: &Mechanism, sabotage: Option<Sabotage>) -> NoiseLaw {
    let step = mechanism.steps()[0];
    let drawn = step.sampling().and_then(Sampling::rate_in_turn);
    NoiseLaw {
        density: match step {
            Mechanism::Laplace { .. } => Density::Laplace,
            _ => Density::Gaussian,
        },
        // Who breaks the claim knows the order.
        rate: drawn.filter(|_| sabotage != Some(Sabotage::FixedOrder)).unwrap_or(1.0),
    }
}

/// The threshold whose errors on these statistics, with the limits that as many new runs would have, have the greatest score.
fn threshold(mut without: Vec<f64>, mut with: Vec<f64>, score: &dyn Fn(TestErrors) -> f64) -> f64 {
    without.sort_by(f64::total_cmp);
    with.sort_by(f64::total_cmp);
    let trials = without.len() as u64;
    let errors = |threshold: f64| {
        let false_alarms = trials - without.partition_point(|&value| value < threshold) as u64;
        let misses = with.partition_point(|&value| value < threshold) as u64;
        TestErrors::from_counts(false_alarms, misses, trials, ERROR)
    };
    let mut candidates: Vec<f64> = without.iter().chain(&with).copied().collect();
    candidates.sort_by(f64::total_cmp);
    let stride = (candidates.len() / 512).max(1);
    let candidates: Vec<f64> = candidates.iter().copied().step_by(stride).collect();
    let scored = candidates.iter().map(|&threshold| (score(errors(threshold)), threshold));
    scored.max_by(|left, right| left.0.total_cmp(&right.0)).map_or(0.0, |(_, threshold)| threshold)
}

/// The threshold that gives the best bound for a family.
fn best_threshold(family: &ClaimedFamily, without: &[f64], with: &[f64]) -> Result<f64, PrivacyError> {
    let trials = without.len() as u64;
    let errors = |threshold: f64| {
        let alarms = |told: &[f64]| told.iter().filter(|&&value| value >= threshold).count() as u64;
        TestErrors::from_counts(alarms(without), trials - alarms(with), trials, ERROR)
    };
    let best = |score: &dyn Fn(TestErrors) -> f64| self::threshold(without.to_vec(), with.to_vec(), score);
    let by_mu = best(&TestErrors::gaussian_mu);
    if family.mu().is_some() {
        return Ok(by_mu);
    }
    // Which of the two reads the curve of another mechanism better is seen by asking.
    let by_ratio = best(&|errors| errors.log_ratio(0.0));
    let bound = |threshold| Ok::<_, PrivacyError>(family.lower_bound(Seen::Errors(errors(threshold)))?.epsilon);
    Ok(if bound(by_mu)? >= bound(by_ratio)? { by_mu } else { by_ratio })
}

/// Runs of one algorithm with one setting.
struct Runs<'a> {
    algorithm: &'static Algorithm,
    settings: &'a Settings,
    /// Without and with the canary, of many runs.
    problems: Option<&'a [Problem; 2]>,
    audit: &'a AuditSettings,
    rounds: usize,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// The runs that a key belongs to: no two parts share one.
#[derive(Clone, Copy)]
enum Part {
    Learning = 0,
    FalseAlarms = 1,
    Misses = 2,
    Claim = 3,
}

/// A key for every (audit, part, run): the finaliser of SplitMix64 on distinct arguments, or their SHA-256.
fn run_key(settings: &AuditSettings, part: Part, run: u64) -> StreamKey {
    if settings.key == AuditKey::Secure {
        let mut hash = Sha256::new_with_prefix(b"rounds audit key");
        for word in [settings.seed, part as u64, run] {
            hash.update(word.to_le_bytes());
        }
        return StreamKey::Release(hash.finalize().into());
    }
    let mut value = settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((part as u64) << 56 | run);
    for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        value = (value ^ (value >> 30)).wrapping_mul(multiplier);
    }
    StreamKey::Simulation(value ^ (value >> 31))
}

impl Runs<'_> {
    fn problem(&self, present: bool) -> &Problem {
        &self.problems.expect("of many runs")[usize::from(present)]
    }

    fn oracle(&self, present: bool) -> Oracle<'_> {
        Oracle::new(self.problem(present), Engine::Sequential)
    }

    /// One run: all coordinates of the iterates, round by round, after what `iterates` holds.
    fn transcript<'p>(
        &self,
        part: (Part, u64),
        present: bool,
        oracle: Oracle<'p>,
        iterates: &mut Vec<f32>,
    ) -> Result<Oracle<'p>, AuditError> {
        self.transcript_of(part, self.problem(present), oracle, (COLUMNS, iterates))
    }

    /// [`transcript`](Self::transcript) of so many coordinates on a problem.
    fn transcript_of<'p>(
        &self,
        (part, run): (Part, u64),
        problem: &Problem,
        oracle: Oracle<'p>,
        (coordinates, iterates): (usize, &mut Vec<f32>),
    ) -> Result<Oracle<'p>, AuditError> {
        let settings = Settings { key: run_key(self.audit, part, run), ..self.settings.clone() };
        let prepared = self
            .algorithm
            .prepare(problem, &settings)
            .map_err(|source| AuditError::Prepare { algorithm: self.algorithm.id, source })?;
        let mut executor = Executor::on(oracle, prepared).limited_to(self.rounds as u64);
        let mut trace = |executor: &mut Executor<'_>| {
            iterates.extend(self.audit.rows.coordinates(executor.solution(), coordinates));
            Ok(ControlFlow::Continue(()))
        };
        executor
            .run_observed(&mut [&mut trace])
            .map_err(|source| AuditError::Round { algorithm: self.algorithm.id, source })?;
        Ok(executor.into_oracle())
    }

    /// Runs `work(first, end)` on tasks that depend on `runs` alone, so that results do not depend on the engine.
    fn spread<T: Send + Default>(
        runs: u64,
        engine: &Engine,
        work: &(impl Fn(u64, u64) -> Result<T, AuditError> + Sync),
    ) -> Result<Vec<T>, AuditError> {
        let firsts = (0..runs).step_by(RUNS_A_TASK as usize);
        let mut tasks: Vec<_> = firsts.map(|first| (first, Ok(T::default()))).collect();
        engine.for_each(&mut tasks, &|(first, outcome), _| *outcome = work(*first, (*first + RUNS_A_TASK).min(runs)));
        tasks.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// The iterates of all runs, without and with the canary under the same keys.
    fn learn(&self, runs: u64, engine: &Engine) -> Result<[Vec<f32>; 2], AuditError> {
        let parts = Self::spread(runs, engine, &|first, last| {
            let mut iterates = [Vec::new(), Vec::new()];
            for (present, iterates) in [false, true].into_iter().zip(&mut iterates) {
                let mut oracle = self.oracle(present);
                for run in first..last {
                    oracle = self.transcript((Part::Learning, run), present, oracle, iterates)?;
                }
            }
            (self.progress)(2 * (last - first));
            Ok(iterates)
        })?;
        let (without, with): (Vec<_>, Vec<_>) = parts.into_iter().map(|[without, with]| (without, with)).unzip();
        Ok([without.concat(), with.concat()])
    }

    /// One coordinate of one run's iterates.
    fn coordinate(iterates: &[f32], column: usize) -> impl Iterator<Item = f64> + Clone + '_ {
        iterates[column..].iter().step_by(COLUMNS).map(|&x| f64::from(x))
    }

    /// Moments of the coordinates that the canary does not reach.
    fn moments(&self, iterates: &[f32]) -> Moments {
        let mut moments = Moments::new(self.rounds);
        for run in iterates.chunks_exact(self.rounds * COLUMNS) {
            for column in 1..COLUMNS {
                moments.add(&Self::coordinate(run, column));
            }
        }
        moments
    }

    /// Mean of the canary's coordinate, round by round.
    fn mean(&self, iterates: &[f32]) -> Vec<f64> {
        let values = self.rounds * COLUMNS;
        let mut mean = vec![0.0; self.rounds];
        for run in iterates.chunks_exact(values) {
            mean.iter_mut().zip(Self::coordinate(run, 0)).for_each(|(sum, value)| *sum += value);
        }
        let count = (iterates.len() / values).max(1) as f64;
        mean.iter_mut().for_each(|sum| *sum /= count);
        mean
    }

    /// Alarms in runs without or with the canary.
    fn count(
        &self,
        ratio: &LikelihoodRatio,
        threshold: f64,
        present: bool,
        runs: u64,
        engine: &Engine,
    ) -> Result<u64, AuditError> {
        let part = if present { Part::Misses } else { Part::FalseAlarms };
        let alarms = Self::spread(runs, engine, &|first, last| {
            let mut oracle = self.oracle(present);
            let mut iterates = Vec::new();
            let mut alarms = 0;
            for run in first..last {
                iterates.clear();
                oracle = self.transcript((part, run), present, oracle, &mut iterates)?;
                alarms += u64::from(ratio.log_ratio(&iterates, COLUMNS) >= threshold);
            }
            (self.progress)(last - first);
            Ok(alarms)
        })?;
        Ok(alarms.iter().sum())
    }
}
