//! Settings of a run: all that a person decides of it.

use std::fmt::{Debug, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rounds_algorithms::hexadecimal;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::parameters::Common;
use rounds_algorithms::optimizers::{Algorithm, Budget, NoiseKind, SamplingKind, Settings};
use rounds_algorithms::privacy::{Accountant, Adjacency, PrivacyStatement, PrivacyWarning};
use rounds_algorithms::problem::{Dataset, Domain, Problem, ProblemError, PublicProblem};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::error::FitError;
use crate::data::{self, Declaration, Request, Split, TrainTest, UNIT_OF_FILE};
use crate::factorization_cache;
use crate::features::FeatureMap;
use crate::text::rounded_up;

/// Largest ε of a release without `allow-weak-privacy`.
const MOST_EPSILON: f64 = 10.0;

/// A training run: all that decides its model, and the files that it keeps.
///
/// The default is a simulation of DP-SGD from seed 1; it needs data and a budget.
#[derive(Clone, Debug)]
pub struct Training {
    /// The algorithm's id.
    pub algorithm: String,
    /// Parameters of the algorithm beyond those below, as name and value.
    pub parameters: Vec<(String, String)>,
    /// The data and their declared domain.
    pub data: DataSettings,
    /// The budget and the mechanism that spends it.
    pub privacy: PrivacySettings,
    /// The objective and the steps.
    pub optimizer: OptimizerSettings,
    /// Seed of all noise and sampling of a simulation, and of the positions of a split.
    pub seed: u64,
    /// The file that the model is written to at the end. A file that holds a release is not replaced.
    pub model: Option<PathBuf>,
    /// File of the secret key that signs the statement of a release.
    pub sign: Option<PathBuf>,
    /// The checkpoint of the run.
    pub checkpoint: CheckpointSettings,
    /// The ledger that a release is booked in.
    pub ledger: Option<PathBuf>,
    /// A simulation without test rows runs a second time, on four fifths of its rows, and tells its quality on the others.
    pub holds_out: bool,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            algorithm: "dp-sgd".to_owned(),
            parameters: Vec::new(),
            data: DataSettings::default(),
            privacy: PrivacySettings::default(),
            optimizer: OptimizerSettings::default(),
            seed: 1,
            model: None,
            sign: None,
            checkpoint: CheckpointSettings::default(),
            ledger: None,
            holds_out: true,
        }
    }
}

/// The data of a run and their declared domain.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DataSettings {
    /// A named data set, or the path of a file or folder.
    pub data: String,
    /// Rows in memory, instead of those at `data`, which is then their name. They carry their domain.
    #[serde(skip)]
    pub rows: Option<Arc<TrainTest>>,
    /// Folder of the named data sets.
    #[serde(skip)]
    pub data_dir: Option<PathBuf>,
    /// File of test rows.
    #[serde(skip)]
    pub test: Option<PathBuf>,
    /// Part of the rows that is kept for testing, drawn by position from the seed.
    pub test_split: Option<f64>,
    /// First index of LIBSVM files.
    pub first_index: Option<u64>,
    /// Declarations that override a schema.
    #[serde(skip)]
    pub declaration: Declaration,
    /// Map of each row's features to others.
    pub features: Option<FeatureMap>,
    /// Public constant that multiplies every feature.
    pub scale_features: Option<f32>,
    /// Public norm bound that every row is clipped to.
    #[serde(serialize_with = "debug")]
    pub clip_features: Option<(Norm, f64)>,
}

/// The budget of a run and the mechanism that spends it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PrivacySettings {
    /// ε.
    pub epsilon: Option<f64>,
    /// δ.
    pub delta: f64,
    /// Noise standard deviation over clip norm, instead of a target ε.
    pub noise_multiplier: Option<f64>,
    /// The noise mechanism.
    #[serde(serialize_with = "display")]
    pub noise: Option<NoiseKind>,
    /// File with the factorisation of correlated noise.
    #[serde(serialize_with = "content")]
    pub factorization: Option<PathBuf>,
    /// The neighbouring relation.
    pub adjacency: Option<Adjacency>,
    /// The accountant.
    pub accountant: Option<Accountant>,
    /// A release: noise and sampling from a 256-bit key of the operating system, and no statistic of the rows told.
    pub secure: bool,
    /// Statistics of the rows that the guarantee does not cover are told beside a release.
    #[serde(skip)]
    pub diagnostics: bool,
    /// A release with δ ≥ 1/n or ε > 10 is allowed.
    #[serde(skip)]
    pub allow_weak_privacy: bool,
}

impl Default for PrivacySettings {
    fn default() -> Self {
        Self {
            epsilon: None,
            delta: 1e-5,
            noise_multiplier: None,
            noise: None,
            factorization: None,
            adjacency: None,
            accountant: None,
            secure: false,
            diagnostics: false,
            allow_weak_privacy: false,
        }
    }
}

impl PrivacySettings {
    /// Refuses a release that claims nothing, or a claim that protects next to nothing.
    pub(crate) fn check_release(&self, problem: &PublicProblem, stated: &PrivacyStatement) -> Result<(), FitError> {
        if !self.secure {
            return Ok(());
        }
        let (Some(epsilon), Some(delta)) = (stated.epsilon, stated.delta) else {
            let reason = stated.reason.as_deref().unwrap_or("nothing is claimed");
            let problem = format!("this run would claim nothing: {reason}. Without `secure` it runs and says so");
            return Err(FitError::argument("secure", problem));
        };
        if self.allow_weak_privacy {
            return Ok(());
        }
        if let Some(warning) = PrivacyWarning::for_delta(delta, problem.rows()) {
            return Err(FitError::argument("delta", format!("{warning}, or give `allow-weak-privacy`")));
        }
        if epsilon > MOST_EPSILON {
            return Err(FitError::argument(
                "epsilon",
                format!(
                    "ε = {}: above {MOST_EPSILON} a release protects next to nothing; lower `epsilon` or raise \
                     `noise-multiplier`, or give `allow-weak-privacy`",
                    rounded_up(epsilon, 6)
                ),
            ));
        }
        Ok(())
    }
}

/// The objective of a run and its steps; absent values have the algorithm's default.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OptimizerSettings {
    /// Passes over the data.
    pub epochs: Option<f64>,
    /// Batch size, expected one of Poisson sampling.
    pub batch_size: Option<usize>,
    /// The sampler.
    #[serde(serialize_with = "display")]
    pub sampling: Option<SamplingKind>,
    /// Step size.
    pub learning_rate: Option<f64>,
    /// Momentum β.
    pub momentum: Option<f64>,
    /// Clip norm of per-example gradients.
    pub clip_norm: Option<f64>,
    /// The loss.
    #[serde(serialize_with = "display")]
    pub loss: Option<Loss>,
    /// λ of the regulariser (λ/2)‖x‖².
    pub regularization: f64,
    /// The network that is trained, by its name or its layers ([`rounds_kernels::network::Network::new`]); a linear model by default.
    pub model_kind: Option<String>,
}

impl OptimizerSettings {
    /// The objective on rows whose targets are those of `loss`.
    ///
    /// # Errors
    /// Rows that do not suit the loss or the network.
    pub(crate) fn problem(&self, rows: Dataset, loss: Loss) -> Result<Problem, ProblemError> {
        let problem = Problem::new(Arc::new(rows), loss, true, self.regularization)?;
        match &self.model_kind {
            Some(network) => problem.with_network(network),
            None => Ok(problem),
        }
    }
}

/// The checkpoint of a run.
#[derive(Clone, Debug, Default)]
pub struct CheckpointSettings {
    /// Its file (mode 0600; removed at the end).
    pub file: Option<PathBuf>,
    /// Rounds between two checkpoints, at least 1 [default: 100].
    pub every: Option<u64>,
    /// A checkpoint to go on from; all other settings must match.
    pub resume: Option<PathBuf>,
}

impl CheckpointSettings {
    /// Rounds between two checkpoints.
    pub(crate) fn interval(&self) -> u64 {
        self.every.unwrap_or(100)
    }
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn display<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(T::to_string).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn debug<T: Debug, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(|value| format!("{value:?}")).serialize(serializer)
}

/// SHA-256 of a file. One that cannot be read fails before the first round.
#[expect(clippy::ref_option, reason = "serde's signature")]
fn content<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    // A pipe would wait for its writer.
    let digest = |path: &PathBuf| hexadecimal(&Sha256::digest(std::fs::read(path).unwrap_or_default()));
    path.as_ref().filter(|path| path.is_file()).map(digest).serialize(serializer)
}

/// A value without quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Training {
    /// A run of this algorithm on the file, folder or named data set.
    pub fn on(data: impl Into<String>) -> Self {
        Self { data: DataSettings { data: data.into(), ..DataSettings::default() }, ..Self::default() }
    }

    /// A run on rows in memory.
    pub fn on_rows(rows: TrainTest) -> Self {
        let mut training = Self::on(rows.train.name());
        training.data.rows = Some(Arc::new(rows));
        training
    }

    /// The same run for a budget (ε, δ).
    #[must_use]
    pub fn private(mut self, epsilon: f64, delta: f64) -> Self {
        (self.privacy.epsilon, self.privacy.delta) = (Some(epsilon), delta);
        self
    }

    /// The part of the rows that is kept for testing.
    pub(crate) fn split(&self) -> Option<Split> {
        self.data.test_split.map(|fraction| Split { fraction, seed: self.seed })
    }

    /// The rows that the run asks for.
    pub(super) fn request<'a>(&'a self, domain: Option<&'a Arc<Domain>>) -> Request<'a> {
        let data = &self.data;
        let unit_ids = data.declaration.unit_ids.as_deref();
        Request {
            unit: domain.map_or(unit_ids.map(|_| &UNIT_OF_FILE), |domain| domain.unit.as_ref()),
            unit_ids,
            domain,
            task: data.declaration.columns.task,
            label: data.declaration.columns.label.as_deref(),
            columns: data.declaration.dimension,
            first_index: data.first_index,
            test: data.test.as_deref(),
            split: self.split(),
            ..Request::default()
        }
    }

    /// The file of test rows, which the settings name or which lies beside the data.
    pub(super) fn test_file(&self) -> Option<PathBuf> {
        data::test_file(Path::new(&self.data.data), self.request(None))
    }

    /// Every setting that decides the model, and the declared domain, as name and value. The execution engine does not decide the
    /// model.
    pub(crate) fn bound_parameters(&self, domain: Option<&Domain>) -> Vec<(String, String)> {
        let given = self.groups().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let mut bound = vec![("algorithm".to_owned(), self.algorithm.clone())];
        bound.extend(given.map(|(name, value)| (name, text(&value))));
        bound.extend((!self.privacy.secure).then(|| ("seed".to_owned(), self.seed.to_string())));
        let private = self.data.declaration.private_bounds();
        bound.extend(private.map(|epsilon| ("bounds".to_owned(), format!("private:{epsilon}"))));
        bound.extend(domain.map(|domain| ("schema".to_owned(), hexadecimal(&domain.digest()))));
        bound.extend(self.parameters.iter().map(|(key, value)| (format!("set {key}"), value.clone())));
        bound
    }

    /// The settings of a release by the names and values of [`Training::bound_parameters`]; names that no run has are left to whoever
    /// compares.
    ///
    /// # Errors
    /// A value that cannot be read.
    pub(crate) fn of_bound(algorithm: &str, parameters: &Map<String, Value>) -> Result<Self, String> {
        fn read<T: FromStr>(parameters: &Map<String, Value>, name: &str) -> Result<Option<T>, String> {
            let read = |value: &Value| {
                let parsed = value.as_str().and_then(|text| text.parse().ok());
                parsed.ok_or_else(|| format!("its parameter {name} is {value}"))
            };
            parameters.get(name).map(read).transpose()
        }
        let mut training = Self { algorithm: algorithm.to_owned(), ..Self::default() };
        let Self { data, privacy, optimizer, .. } = &mut training;
        data.test_split = read(parameters, "test-split")?;
        data.first_index = read(parameters, "first-index")?;
        data.features = read(parameters, "features")?;
        data.scale_features = read(parameters, "scale-features")?;
        data.declaration.bounds = read(parameters, "bounds")?;
        privacy.epsilon = read(parameters, "epsilon")?;
        privacy.delta = read(parameters, "delta")?.unwrap_or(privacy.delta);
        privacy.noise_multiplier = read(parameters, "noise-multiplier")?;
        privacy.noise = read(parameters, "noise")?;
        privacy.adjacency = read(parameters, "adjacency")?;
        privacy.accountant = read(parameters, "accountant")?;
        (privacy.secure, privacy.allow_weak_privacy) = (true, true);
        optimizer.epochs = read(parameters, "epochs")?;
        optimizer.batch_size = read(parameters, "batch-size")?;
        optimizer.sampling = read(parameters, "sampling")?;
        optimizer.learning_rate = read(parameters, "learning-rate")?;
        optimizer.momentum = read(parameters, "momentum")?;
        optimizer.clip_norm = read(parameters, "clip-norm")?;
        optimizer.loss = read(parameters, "loss")?;
        optimizer.regularization = read(parameters, "regularization")?.unwrap_or(0.0);
        optimizer.model_kind = read(parameters, "model-kind")?;
        for (name, value) in parameters.iter().filter_map(|(name, value)| Some((name.strip_prefix("set ")?, value))) {
            let value = value.as_str().ok_or_else(|| format!("its parameter {name} is {value}"))?;
            training.parameters.push((name.to_owned(), value.to_owned()));
        }
        Ok(training)
    }

    /// The settings that decide the model, by their names.
    fn groups(&self) -> [Map<String, Value>; 3] {
        let groups = [
            serde_json::to_value(&self.data),
            serde_json::to_value(&self.privacy),
            serde_json::to_value(&self.optimizer),
        ];
        groups.map(|group| match group {
            Ok(Value::Object(group)) => group,
            _ => unreachable!("settings are names with values"),
        })
    }

    /// The settings of the algorithm, with the key of a simulation.
    pub(crate) fn settings(&self, algorithm: &Algorithm) -> Result<Settings, FitError> {
        let privacy = &self.privacy;
        let delta = privacy.delta;
        let budget = match (privacy.epsilon, privacy.noise_multiplier) {
            _ if !algorithm.private => Budget::NonPrivate,
            (Some(_), Some(_)) => {
                return Err(FitError::argument("noise-multiplier", "`epsilon` is given too; leave one of them out"));
            }
            (Some(epsilon), None) => Budget::Target { epsilon, delta },
            (None, Some(noise_multiplier)) => Budget::NoiseMultiplier { noise_multiplier, delta },
            (None, None) => {
                let problem = format!(
                    "algorithm '{}' is private and needs a budget: give `epsilon E` (with `delta D`), or `noise-multiplier S`",
                    algorithm.id
                );
                return Err(FitError::argument("epsilon", problem));
            }
        };
        let optimizer = &self.optimizer;
        let numbers = [
            ("epochs", optimizer.epochs),
            ("learning-rate", optimizer.learning_rate),
            ("momentum", optimizer.momentum),
            ("clip-norm", optimizer.clip_norm),
        ];
        // JSON has no others: they would be lost among the settings that are left out.
        if let Some((name, _)) = numbers.iter().find(|(_, value)| value.is_some_and(|value| !value.is_finite())) {
            return Err(FitError::argument(*name, "a finite number is needed"));
        }
        if privacy.factorization.is_some() && privacy.noise.is_some() {
            return Err(FitError::argument("factorization", "`noise` is given too; leave one of them out"));
        }
        let mut settings = Settings::new(budget, StreamKey::Simulation(self.seed));
        settings.strategies = StrategyMemory::filled_from(factorization_cache::source());
        settings.moments = self.data.features.as_ref().and_then(FeatureMap::moments).map(|map| map.share);
        let groups = self.groups();
        for parameter in Common::ALL {
            let given = groups[1..].iter().find_map(|group| group.get(parameter.name));
            if let Some(value) = given.filter(|value| !value.is_null()) {
                settings.set(parameter.name, text(value));
            }
        }
        for (name, value) in &self.parameters {
            if settings.parameters.insert(name.clone(), value.clone()).is_some() {
                return Err(FitError::argument("set", format!("parameter '{name}' is given twice")));
            }
        }
        Ok(settings)
    }
}
