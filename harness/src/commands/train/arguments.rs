//! Arguments of `rounds train`, and the run that they ask for.

use std::path::PathBuf;

use rounds_algorithms::optimizers::{NoiseKind, SamplingKind};
use rounds_algorithms::privacy::{Accountant, Adjacency};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_models::features::FeatureMap;
use rounds_models::fit::{CheckpointSettings, DataSettings, OptimizerSettings, PrivacySettings, Training};

use crate::cluster::EngineKind;
use crate::commands::declaration::DeclarationArguments;
use crate::commands::values::{finite, fraction, key_value, norm_bound};
use crate::experiment::definition::{counts, most_threads};
use crate::machine::PinPolicy;

/// Arguments of `rounds train`.
#[derive(clap::Args)]
pub struct TrainArguments {
    /// Algorithm, one of `rounds list algorithms`
    #[arg(long, default_value = "dp-sgd", value_name = "ID")]
    algorithm: String,
    /// Parameter of the algorithm (see `rounds list algorithms ID`); may be repeated; KEY=@FILE takes the lines of a file as a list
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    parameters: Vec<(String, String)>,
    /// Output file of the model, which `rounds predict` reads; NAME.npy holds the weights alone: f32 [K, d + 1], bias last
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Data")]
    data: DataArguments,
    #[command(flatten, next_help_heading = "Privacy")]
    privacy: PrivacyArguments,
    #[command(flatten, next_help_heading = "Optimiser")]
    optimizer: OptimizerArguments,
    #[command(flatten, next_help_heading = "Execution")]
    pub(super) execution: ExecutionArguments,
    #[command(flatten, next_help_heading = "Checkpoint")]
    checkpoint: CheckpointArguments,
}

/// The data and their declared domain.
#[derive(clap::Args)]
struct DataArguments {
    /// Data set, one of `rounds list datasets`, or the path of a file or folder
    #[arg(long, default_value = "synthetic-mnist", value_name = "NAME|PATH")]
    data: String,
    /// Folder of the named data sets
    #[arg(long, env = "ROUNDS_DATA", value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// File of test rows; columns that have names are matched by them [default: DATA.t beside the data]
    #[arg(long, value_name = "FILE", conflicts_with = "test_split")]
    test: Option<PathBuf>,
    /// Part of the rows that is kept for testing, drawn by position from --seed
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    test_split: Option<f64>,
    /// First index of LIBSVM files, 0 or 1 [default: 1]
    #[arg(long, value_name = "INDEX", value_parser = clap::value_parser!(u64).range(..=1))]
    first_index: Option<u64>,
    #[command(flatten)]
    declared: DeclarationArguments,
    /// Features of each row instead of its own: scattering of images, fourier, or by a share of the budget whiten, pca or normalize, as
    /// NAME:KEY=VALUE,… (docs/FORMAT.md)
    #[arg(long, value_name = "MAP")]
    features: Option<FeatureMap>,
    /// Public constant that multiplies every feature
    #[arg(long, value_name = "FACTOR")]
    scale_features: Option<f32>,
    /// Public norm bound that every row is clipped to: l2=BOUND or l1=BOUND
    #[arg(long, value_name = "NORM=BOUND", value_parser = norm_bound)]
    clip_features: Option<(Norm, f64)>,
}

/// The budget and the mechanism that spends it.
#[derive(clap::Args)]
struct PrivacyArguments {
    /// Privacy budget ε
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// Privacy budget δ
    #[arg(long, default_value_t = 1e-5, value_name = "D")]
    delta: f64,
    /// Noise multiplier (noise standard deviation over clip norm) instead of a target ε
    #[arg(long, conflicts_with = "epsilon", value_name = "S")]
    noise_multiplier: Option<f64>,
    #[arg(long, value_name = "MECH", help = format!("Noise mechanism: {}", NoiseKind::names()))]
    noise: Option<NoiseKind>,
    /// File with the factorisation of correlated noise (NPY with C), checked against the run's rounds
    #[arg(long, value_name = "F.npy", conflicts_with = "noise")]
    factorization: Option<PathBuf>,
    /// Neighbouring relation: zero-out, add-remove or replace-one
    #[arg(long, value_name = "RELATION")]
    adjacency: Option<Adjacency>,
    /// Accountant: gdp, zcdp, zcdp-simple, rdp, pld, pure or last-iterate
    #[arg(long)]
    accountant: Option<Accountant>,
    /// Release: draw noise and sampling from a 256-bit key of the operating system
    #[arg(long, conflicts_with = "seed")]
    secure: bool,
    /// Print statistics of the rows that the guarantee does not cover: losses, clipped fraction, realised counts, times
    #[arg(long)]
    diagnostics: bool,
    /// Allow a release with δ ≥ 1/n or ε > 10
    #[arg(long)]
    allow_weak_privacy: bool,
    /// Sign the statement of a release with this secret key, a file of `rounds keygen`
    #[arg(long, value_name = "KEYFILE")]
    sign: Option<PathBuf>,
    /// Book the release in this ledger of `rounds ledger new` before a row is read: a run that would exceed its budget is refused
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// The objective and the steps.
#[derive(clap::Args)]
struct OptimizerArguments {
    /// Passes over the data
    #[arg(long, value_name = "K", value_parser = finite)]
    epochs: Option<f64>,
    /// Batch size B (the expected one for Poisson sampling)
    #[arg(long, value_name = "B")]
    batch_size: Option<usize>,
    /// Sampling: poisson, fixed, shuffled, reshuffled or without-replacement; of dp-sgd cyclic-poisson, random-allocation, cyclic-allocation
    /// or truncated-poisson, too
    #[arg(long)]
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
    loss: Option<Loss>,
    /// λ of the regulariser (λ/2)‖x‖²
    #[arg(long, default_value_t = 0.0, value_name = "LAMBDA", value_parser = finite)]
    regularization: f64,
    /// Network in place of a linear model: cnn-550k, or a list such as "conv 16, tanh, pool, dense 32, tanh", after "image HxWxC" where
    /// rows are neither 28x28x1 nor 32x32x3; for sgd, dp-sgd, dp-mf and their family
    #[arg(long, value_name = "LAYERS")]
    model_kind: Option<String>,
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
    seed: u64,
}

/// Checkpoints.
#[derive(clap::Args)]
struct CheckpointArguments {
    /// File of the checkpoint (mode 0600; removed at the end)
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Rounds between two checkpoints [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// Resume from a checkpoint; all other arguments must match
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

impl TrainArguments {
    /// The execution engine.
    pub(in crate::commands) fn engine(&self) -> EngineKind {
        self.execution.engine
    }

    /// The run that the flags ask for.
    pub(super) fn training(&self) -> Training {
        let (data, privacy, optimizer) = (&self.data, &self.privacy, &self.optimizer);
        Training {
            algorithm: self.algorithm.clone(),
            parameters: self.parameters.clone(),
            data: DataSettings {
                data: data.data.clone(),
                rows: None,
                data_dir: data.data_dir.clone(),
                test: data.test.clone(),
                test_split: data.test_split,
                first_index: data.first_index,
                declaration: data.declared.declaration(),
                features: data.features.clone(),
                scale_features: data.scale_features,
                clip_features: data.clip_features,
            },
            privacy: PrivacySettings {
                epsilon: privacy.epsilon,
                delta: privacy.delta,
                noise_multiplier: privacy.noise_multiplier,
                noise: privacy.noise,
                factorization: privacy.factorization.clone(),
                adjacency: privacy.adjacency,
                accountant: privacy.accountant,
                secure: privacy.secure,
                diagnostics: privacy.diagnostics,
                allow_weak_privacy: privacy.allow_weak_privacy,
            },
            optimizer: OptimizerSettings {
                epochs: optimizer.epochs,
                batch_size: optimizer.batch_size,
                sampling: optimizer.sampling,
                learning_rate: optimizer.learning_rate,
                momentum: optimizer.momentum,
                clip_norm: optimizer.clip_norm,
                loss: optimizer.loss,
                regularization: optimizer.regularization,
                model_kind: optimizer.model_kind.clone(),
            },
            seed: self.execution.seed,
            model: self.model.clone(),
            sign: privacy.sign.clone(),
            ledger: privacy.ledger.clone(),
            checkpoint: CheckpointSettings {
                file: self.checkpoint.checkpoint.clone(),
                every: self.checkpoint.checkpoint_every,
                resume: self.checkpoint.resume.clone(),
            },
            holds_out: true,
        }
    }
}
