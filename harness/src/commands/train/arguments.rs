//! Arguments of `rounds train`, and the settings and declarations that they give.

use std::fmt::{Debug, Display};
use std::path::PathBuf;
use std::sync::Arc;

use rounds_algorithms::hexadecimal;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::parameters::Common;
use rounds_algorithms::optimizers::{Algorithm, Budget, NoiseKind, SamplingKind, Settings};
use rounds_algorithms::privacy::{Accountant, Adjacency};
use rounds_algorithms::problem::{Dataset, Domain};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::cluster::EngineKind;
use crate::commands::UsageError;
use crate::commands::declaration::DeclarationArguments;
use crate::experiment::definition::{counts, most_threads};
use crate::experiment::text;
use crate::machine::PinPolicy;
use rounds_models::data::{Declaration, Request, Split};
use rounds_models::factorization_cache;
use rounds_models::model_file::treat_features;

/// Arguments of `rounds train`.
#[derive(clap::Args)]
pub struct TrainArguments {
    /// Algorithm, one of `rounds list algorithms`
    #[arg(long, default_value = "dp-sgd", value_name = "ID")]
    pub(super) algorithm: String,
    /// Parameter of the algorithm (see `rounds list algorithms ID`); may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) parameters: Vec<(String, String)>,
    /// Output file of the model, which `rounds predict` reads; NAME.npy holds the weights alone: f32 [K, d + 1], bias last
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Data")]
    pub(super) data: DataArguments,
    #[command(flatten, next_help_heading = "Privacy")]
    pub(super) privacy: PrivacyArguments,
    #[command(flatten, next_help_heading = "Optimiser")]
    pub(super) optimizer: OptimizerArguments,
    #[command(flatten, next_help_heading = "Execution")]
    pub(super) execution: ExecutionArguments,
    #[command(flatten, next_help_heading = "Checkpoint")]
    pub(super) checkpoint: CheckpointArguments,
}

/// The data and their declared domain.
#[derive(clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct DataArguments {
    /// Data set, one of `rounds list datasets`, or the path of a file or folder
    #[arg(long, default_value = "synthetic-mnist", value_name = "NAME|PATH")]
    pub(super) data: String,
    /// Folder of the named data sets
    #[arg(long, env = "ROUNDS_DATA", value_name = "FOLDER")]
    #[serde(skip)]
    pub(super) data_dir: Option<PathBuf>,
    /// File of test rows; columns that have names are matched by them [default: DATA.t beside the data]
    #[arg(long, value_name = "FILE", conflicts_with = "test_split")]
    #[serde(skip)]
    pub(super) test: Option<PathBuf>,
    /// Part of the rows that is kept for testing, drawn by position from --seed
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    pub(super) test_split: Option<f64>,
    /// First index of LIBSVM files, 0 or 1 [default: 1]
    #[arg(long, value_name = "INDEX", value_parser = clap::value_parser!(u64).range(..=1))]
    first_index: Option<u64>,
    #[command(flatten)]
    #[serde(skip)]
    declared: DeclarationArguments,
    /// Public constant that multiplies every feature
    #[arg(long, value_name = "FACTOR")]
    pub(super) scale_features: Option<f32>,
    /// Public norm bound that every row is clipped to: l2=BOUND or l1=BOUND
    #[arg(long, value_name = "NORM=BOUND", value_parser = norm_bound)]
    #[serde(serialize_with = "debug")]
    pub(super) clip_features: Option<(Norm, f64)>,
}

/// The budget and the mechanism that spends it.
#[derive(clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct PrivacyArguments {
    /// Privacy budget ε
    #[arg(long, value_name = "E")]
    pub(super) epsilon: Option<f64>,
    /// Privacy budget δ
    #[arg(long, default_value_t = 1e-5, value_name = "D")]
    pub(super) delta: f64,
    /// Noise multiplier (noise standard deviation over clip norm) instead of a target ε
    #[arg(long, conflicts_with = "epsilon", value_name = "S")]
    pub(super) noise_multiplier: Option<f64>,
    #[arg(long, value_name = "MECH", help = format!("Noise mechanism: {}", NoiseKind::names()))]
    #[serde(serialize_with = "display")]
    noise: Option<NoiseKind>,
    /// File with the factorisation of correlated noise (NPY with C, or NPZ with C, B, sensitivity), checked against the run's
    /// rounds, workload and participation
    #[arg(long, value_name = "F.npy|F.npz", conflicts_with = "noise")]
    #[serde(serialize_with = "content")]
    pub(super) factorization: Option<PathBuf>,
    /// Neighbouring relation: zero-out, add-remove or replace-one
    #[arg(long, value_name = "RELATION")]
    adjacency: Option<Adjacency>,
    /// Accountant: gdp, zcdp, rdp, pld or pure
    #[arg(long)]
    accountant: Option<Accountant>,
    /// Release: draw noise and sampling from a 256-bit key of the operating system
    #[arg(long, conflicts_with = "seed")]
    pub(super) secure: bool,
    /// Print statistics of the rows that the guarantee does not cover: losses, clipped fraction, realised counts, times
    #[arg(long)]
    #[serde(skip)]
    pub(super) diagnostics: bool,
    /// Allow a release with δ ≥ 1/n or ε > 10
    #[arg(long)]
    #[serde(skip)]
    pub(super) allow_weak_privacy: bool,
}

/// The objective and the steps.
#[derive(clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct OptimizerArguments {
    /// Passes over the data
    #[arg(long, value_name = "K", value_parser = finite)]
    epochs: Option<f64>,
    /// Batch size B (the expected one for Poisson sampling)
    #[arg(long, value_name = "B")]
    batch_size: Option<usize>,
    /// Sampling: poisson, fixed, shuffled, reshuffled or without-replacement
    #[arg(long)]
    #[serde(serialize_with = "display")]
    sampling: Option<SamplingKind>,
    /// Step size
    #[arg(long, value_name = "LR", value_parser = finite)]
    learning_rate: Option<f64>,
    /// Momentum β
    #[arg(long, value_name = "BETA", value_parser = finite)]
    momentum: Option<f64>,
    /// Clip norm C of per-example gradients
    #[arg(long, value_name = "C", value_parser = finite)]
    clip_norm: Option<f64>,
    #[arg(long, help = format!("Loss: {} [default: softmax for classes, squared for reals]", Loss::names()))]
    #[serde(serialize_with = "debug")]
    pub(super) loss: Option<Loss>,
    /// λ of the regulariser (λ/2)‖x‖²
    #[arg(long, default_value_t = 0.0, value_name = "LAMBDA", value_parser = finite)]
    pub(super) regularization: f64,
}

/// Threads, ranks and random numbers.
#[derive(clap::Args)]
pub(super) struct ExecutionArguments {
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = counts(most_threads() as u64))]
    pub(super) threads: Option<usize>,
    /// Binding of threads to cores
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    pub(super) pin: PinPolicy,
    /// Execution engine: the threads of this process, or the ranks of mpirun or srun with --threads threads each
    #[arg(long, value_enum, default_value_t, value_name = "ENGINE")]
    pub(super) engine: EngineKind,
    /// Seed of all noise and sampling of a simulation (reproducible, no release)
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) seed: u64,
}

/// Checkpoints.
#[derive(clap::Args)]
pub(super) struct CheckpointArguments {
    /// File of the checkpoint (mode 0600; removed at the end)
    #[arg(long, value_name = "FILE")]
    pub(super) checkpoint: Option<PathBuf>,
    /// Rounds between two checkpoints
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) checkpoint_every: u64,
    /// Resume from a checkpoint; all other arguments must match
    #[arg(long, value_name = "FILE")]
    pub(super) resume: Option<PathBuf>,
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

/// Splits `KEY=VALUE`.
fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("'{text}' is not of the form KEY=VALUE"))
}

/// A positive finite number.
fn positive<T: std::str::FromStr + Into<f64> + Copy>(text: &str) -> Option<T> {
    text.parse().ok().filter(|&number: &T| number.into() > 0.0 && number.into().is_finite())
}

/// A finite number: others would be lost among the arguments that are left out.
fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("'{text}' is not a finite number"))
}

/// A number between 0 and 1.
fn fraction(text: &str) -> Result<f64, String> {
    let number = positive(text).filter(|&number: &f64| number < 1.0);
    number.ok_or_else(|| format!("'{text}' is not between 0 and 1"))
}

/// Reads `l2=BOUND` or `l1=BOUND`.
fn norm_bound(text: &str) -> Result<(Norm, f64), String> {
    match text.split_once('=').map(|(norm, bound)| (norm, positive(bound))) {
        Some(("l1", Some(bound))) => Ok((Norm::L1, bound)),
        Some(("l2", Some(bound))) => Ok((Norm::L2, bound)),
        _ => Err(format!("'{text}' is not of the form l2=BOUND or l1=BOUND with a bound above 0")),
    }
}

impl TrainArguments {
    /// The declared domain, as the flags give it.
    pub(super) fn declaration(&self) -> Declaration {
        self.data.declared.declaration(self.privacy.adjacency)
    }

    /// The rows that the run asks for.
    pub(super) fn request<'a>(&'a self, declaration: &'a Declaration, domain: Option<&'a Arc<Domain>>) -> Request<'a> {
        let data = &self.data;
        let seed = self.execution.seed;
        Request {
            domain,
            task: declaration.columns.task,
            label: declaration.columns.label.as_deref(),
            columns: declaration.dimension,
            first_index: data.first_index,
            test: data.test.as_deref(),
            split: data.test_split.map(|fraction| Split { fraction, seed }),
            ..Request::default()
        }
    }

    /// Every argument that decides the model, and the declared domain, as name and value. The execution engine does not
    /// decide the model.
    pub(super) fn bound_parameters(&self, domain: Option<&Domain>) -> anyhow::Result<Vec<(String, String)>> {
        let groups = [
            serde_json::to_value(&self.data)?,
            serde_json::to_value(&self.privacy)?,
            serde_json::to_value(&self.optimizer)?,
        ];
        let given = groups.iter().flat_map(|group| group.as_object().into_iter().flatten());
        let given = given.filter(|(_, value)| !value.is_null());
        let mut bound = vec![("--algorithm".to_owned(), self.algorithm.clone())];
        bound.extend(given.map(|(name, value)| (format!("--{name}"), text(value))));
        bound.extend((!self.privacy.secure).then(|| ("--seed".to_owned(), self.execution.seed.to_string())));
        let private = self.declaration().private_bounds();
        bound.extend(private.map(|epsilon| ("--bounds".to_owned(), format!("private:{epsilon}"))));
        bound.extend(domain.map(|domain| ("schema".to_owned(), hexadecimal(&domain.digest()))));
        bound.extend(self.parameters.iter().map(|(key, value)| (format!("--set {key}"), value.clone())));
        Ok(bound)
    }

    /// The settings of the run, with the key of a simulation.
    pub(super) fn settings(&self, algorithm: &Algorithm) -> anyhow::Result<Settings> {
        let (privacy, optimizer) = (&self.privacy, &self.optimizer);
        let delta = privacy.delta;
        let budget = match (privacy.epsilon, privacy.noise_multiplier) {
            _ if !algorithm.private => Budget::NonPrivate,
            (Some(epsilon), _) => Budget::Target { epsilon, delta },
            (None, Some(noise_multiplier)) => Budget::NoiseMultiplier { noise_multiplier, delta },
            (None, None) => {
                return Err(UsageError::of(format!(
                    "algorithm '{}' is private and needs a budget: give --epsilon E (with --delta D), or --noise-multiplier S",
                    algorithm.id
                )));
            }
        };
        let mut settings = Settings::new(budget, StreamKey::Simulation(self.execution.seed));
        settings.strategies = StrategyMemory::filled_from(factorization_cache::source());
        let groups = [serde_json::to_value(privacy)?, serde_json::to_value(optimizer)?];
        for parameter in Common::ALL {
            let given = groups.iter().find_map(|group| group.get(parameter.name));
            if let Some(value) = given.filter(|value| !value.is_null()) {
                settings.set(parameter.name, text(value));
            }
        }
        for (name, value) in &self.parameters {
            if settings.parameters.insert(name.clone(), value.clone()).is_some() {
                return Err(UsageError::of(format!("parameter '{name}' is given twice")));
            }
        }
        Ok(settings)
    }

    /// The data set with treated features and the targets of its loss, and the loss.
    pub(super) fn treat(&self, dataset: Dataset) -> anyhow::Result<(Dataset, Loss)> {
        let (factor, clip) = (self.data.scale_features, self.data.clip_features);
        let dataset = treat_features(dataset, factor, clip).map_err(UsageError::of)?;
        dataset.for_loss(self.optimizer.loss).map_err(UsageError::of)
    }
}
