//! `rounds train`: one training run from data to model file and privacy statement.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rounds_algorithms::executor::Executor;
use rounds_algorithms::factorization::FactorizationSource;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{Algorithm, Budget, NoiseKind, Prepared, SamplingKind, Settings};
use rounds_algorithms::oracle::{self, Engine};
use rounds_algorithms::privacy::{Accountant, Adjacency, Claim, PrivacyStatement, PrivacyWarning};
use rounds_algorithms::problem::{self, Dataset, Domain, Problem, PublicProblem, Relation};
use rounds_algorithms::{catalog, hexadecimal};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{UsageError, threads};
use crate::checkpoint::{self, Checkpoint, CheckpointError, KeyedDigest};
use crate::cluster::{Cluster, EngineKind};
use crate::data::{self, DataError, Declaration};
use crate::factorization_cache;
use crate::factorization_file::FactorizationFile;
use crate::machine::{Build, PinPolicy, vector_extension};
use crate::measure;

/// What `rounds train` takes.
#[derive(clap::Args)]
pub struct TrainArguments {
    /// Algorithm, one of `rounds list algorithms`.
    #[arg(long, default_value = "dp-sgd")]
    algorithm: String,
    /// Data set, one of `rounds list datasets`, or the path of a file or folder.
    #[arg(long, default_value = "synthetic-mnist", value_name = "NAME|PATH")]
    data: String,
    /// Where data sets lie that are named, not given by their path.
    #[arg(long, env = "ROUNDS_DATA")]
    data_dir: Option<PathBuf>,
    /// Privacy budget ε.
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// Privacy budget δ.
    #[arg(long, default_value_t = 1e-5, value_name = "D")]
    delta: f64,
    /// Noise multiplier (noise standard deviation over clip norm) instead of a target ε.
    #[arg(long, conflicts_with = "epsilon", value_name = "S")]
    noise_multiplier: Option<f64>,
    /// Schema of the data: columns, label, relation (TOML) [default: schema.toml beside the data, or the built-in one]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Label column by its name in the header
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Class names in order, separated by commas
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    classes: Option<Vec<String>>,
    /// Public bounds of the values: LO,HI for all columns, or NAME=LO:HI,… by column
    #[arg(long, value_name = "BOUNDS", allow_hyphen_values = true)]
    bounds: Option<String>,
    /// Number of columns, for files without a header
    #[arg(long, value_name = "D")]
    dimension: Option<usize>,
    /// Public number of rows N for add-remove, chosen without looking at the rows
    #[arg(long, value_name = "N")]
    public_rows: Option<usize>,
    /// Passes over the data.
    #[arg(long, value_name = "K")]
    epochs: Option<f64>,
    /// Batch size B (the expected one for Poisson sampling).
    #[arg(long, value_name = "B")]
    batch_size: Option<usize>,
    /// Step size.
    #[arg(long, value_name = "LR")]
    learning_rate: Option<f64>,
    /// Clip norm C of per-example gradients.
    #[arg(long, value_name = "C")]
    clip_norm: Option<f64>,
    /// Momentum β.
    #[arg(long, value_name = "BETA")]
    momentum: Option<f64>,
    /// Loss: softmax, logistic, squared, huber=h, hinge or absolute. Default: softmax for classes, squared for reals.
    #[arg(long)]
    loss: Option<String>,
    /// λ of the regulariser (λ/2)‖x‖².
    #[arg(long, default_value_t = 0.0, value_name = "LAMBDA")]
    regularization: f64,
    /// Multiplies every feature by this public constant.
    #[arg(long, value_name = "FACTOR")]
    scale_features: Option<f32>,
    /// Clips every row to a public norm bound: l2=BOUND or l1=BOUND.
    #[arg(long, value_name = "NORM=BOUND", value_parser = norm_bound)]
    clip_features: Option<(Norm, f64)>,
    /// Noise mechanism: independent, tree, honaker-online, honaker-full, optimal, banded=b, blt=m, toeplitz,
    /// anti-correlated or laplace.
    #[arg(long, value_name = "MECH")]
    noise: Option<NoiseKind>,
    /// Correlated noise through the C of this file (NPY with C, or NPZ with C, B, sensitivity), checked against the run's
    /// rounds, workload and participation.
    #[arg(long, value_name = "F.npy|F.npz", conflicts_with = "noise")]
    factorization: Option<PathBuf>,
    /// Neighbouring relation: zero-out, add-remove or replace-one.
    #[arg(long)]
    adjacency: Option<Adjacency>,
    /// Sampling: poisson, fixed, shuffled, reshuffled or without-replacement.
    #[arg(long)]
    sampling: Option<SamplingKind>,
    /// Accountant: gdp, zcdp, rdp, pld or pure.
    #[arg(long)]
    accountant: Option<Accountant>,
    /// A parameter of the algorithm (see `rounds list algorithms`); may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    parameters: Vec<(String, String)>,
    /// Threads; default: all that there are.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How threads are bound to cores: side by side, far apart, one a core, or not.
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    pin: PinPolicy,
    /// Who executes: the threads of this process, or the ranks that mpirun or srun started (each with --threads threads).
    #[arg(long, value_enum, default_value_t, value_name = "ENGINE")]
    engine: EngineKind,
    /// Seed of all noise and sampling (simulation: reproducible, and no release).
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Noise and sampling from a 256-bit key of the operating system: a release.
    #[arg(long, conflicts_with = "seed")]
    secure: bool,
    /// Print statistics of the rows that the guarantee does not cover: losses, clipped fraction, realised counts, times
    #[arg(long)]
    diagnostics: bool,
    /// Allow a release with δ ≥ 1/n or ε > 10
    #[arg(long)]
    allow_weak_privacy: bool,
    /// Where to keep a checkpoint while the run lasts (mode 0600; removed at the end).
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Rounds between two checkpoints.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// Go on from this checkpoint; everything else must be as it was.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Where to write the model: NPY f32 [K, d + 1], bias last.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

/// Splits `KEY=VALUE`.
fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("'{text}' is not of the form KEY=VALUE"))
}

/// Reads `l2=BOUND` or `l1=BOUND`.
fn norm_bound(text: &str) -> Result<(Norm, f64), String> {
    let parsed = text.split_once('=').and_then(|(norm, bound)| {
        let norm = match norm {
            "l1" => Norm::L1,
            "l2" => Norm::L2,
            _ => return None,
        };
        let bound = bound
            .parse::<f64>()
            .ok()
            .filter(|bound| *bound > 0.0 && bound.is_finite())?;
        Some((norm, bound))
    });
    parsed.ok_or_else(|| format!("'{text}' is not of the form l2=BOUND or l1=BOUND with a bound above 0"))
}

/// What a run came to, in the order of the `--json` document.
#[derive(Serialize)]
struct Outcome {
    algorithm: &'static str,
    dataset: String,
    /// The number of rows, where it is public.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<usize>,
    dimension: usize,
    classes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<usize>,
    threads: usize,
    #[serde(skip_serializing_if = "PinPolicy::is_none")]
    pinning: PinPolicy,
    rounds: u64,
    /// Gradient queries: of a release the expected number.
    gradient_queries: u64,
    /// Absent from a release.
    #[serde(flatten)]
    times: Option<Times>,
    /// Accuracy on test rows, of a release only where these are declared public.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_accuracy: Option<f64>,
    /// Statistics of the rows, outside the guarantee; of a release only where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<serde_json::Value>,
    /// Flags that the algorithm does not read, and assumptions of its theorem that the run leaves; utility, never privacy,
    /// rests on them.
    warnings: Vec<String>,
    model_sha256: String,
    privacy: serde_json::Value,
}

/// How long a run took.
#[derive(Clone, Copy, Serialize)]
struct Times {
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    communication_seconds: Option<f64>,
    load_seconds: f64,
    calibration_seconds: f64,
}

/// Loads, calibrates, trains, evaluates, writes the model, reports.
///
/// # Errors
/// Anything that the arguments, the data or the algorithm refuse, with the way out.
pub fn run(arguments: &TrainArguments, json: bool) -> anyhow::Result<()> {
    let cluster = Cluster::start(arguments.engine)?;
    let result = train(arguments, json, &cluster);
    cluster.ended(result)
}

/// [`run`] on every rank; rank 0 alone prints and writes.
fn train(arguments: &TrainArguments, json: bool, cluster: &Cluster) -> anyhow::Result<()> {
    let first = cluster.is_first();
    let model = arguments.model.as_ref().filter(|_| first);
    let (algorithm, threads, engine) = cluster.agree(prepared_engine(arguments, cluster, model))?;
    let checkpoint = arguments.checkpoint.is_some().then_some(arguments.checkpoint_every);
    let own = [("checkpoint every".to_owned(), format!("{checkpoint:?}"))];
    let domain = cluster.agree(declared(arguments))?;
    let bound = bound_parameters(arguments, domain.as_deref());
    let line: Vec<String> = bound
        .iter()
        .cloned()
        .chain(own)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    cluster.same("command line", &line.join("\n"))?;

    let resumed = resumed(arguments, cluster)?;
    let key = key(arguments, resumed.as_ref(), cluster)?;
    let mut settings = cluster.agree(settings(arguments, algorithm, key))?;
    let started = Instant::now();
    let explain = |error| explained(arguments, error);
    let data = cluster.load(
        &arguments.data,
        arguments.data_dir.as_deref(),
        domain.as_ref(),
        &explain,
    )?;
    let name = data.train.name().to_owned();
    let treated = cluster.agree(treated(arguments, data.train, data.test))?;
    let train = treated.train;
    let keeps = arguments.checkpoint.is_some() || arguments.resume.is_some();
    let digest = keeps.then(|| cluster.digest(&train));
    let mut problem = cluster
        .problem(train, treated.loss, arguments.regularization)?
        .placed_for(&engine);
    // What claims nothing may read constants off the rows.
    if !algorithm.private || problem.unclaimable().is_some() {
        problem = problem.with_longest_row();
    }
    if settings
        .parameters
        .get("smoothness")
        .is_some_and(|value| value == "estimate")
        && cluster.count().is_none()
    {
        problem = problem.with_second_moment();
    }
    let test = treated
        .test
        .map(|(test, loss)| Problem::new(Arc::new(test), loss, true, 0.0))
        .transpose();
    let test = cluster.agree(test.map_err(Into::into))?;
    let load = started.elapsed();

    let given = arguments.factorization.as_deref().map(given_factorization).transpose();
    let given = cluster.agree(given)?;
    if let Some((source, _)) = &given {
        settings.noise = Some(NoiseKind::Optimal);
        settings.strategies = StrategyMemory::filled_from(source.clone());
    }
    let started = Instant::now();
    let unread = cluster.agree(algorithm.unread(&settings).map_err(UsageError::of))?;
    let mut prepared = cluster.agree(algorithm.prepare(&problem, &settings).map_err(UsageError::of))?;
    cluster.agree(check_release(arguments, &problem, &prepared.privacy))?;
    if problem.rows() > problem.most_rows() {
        let message = format!(
            "--public-rows: the data have more than {} times as many rows, and are no data set of the declared domain",
            problem::MOST_ROWS_PER_PUBLIC_ROW
        );
        return cluster.agree(Err(UsageError::of(message)));
    }
    if given.is_some_and(|(_, asked)| !asked.load(Ordering::Relaxed)) {
        return cluster.agree(Err(UsageError::new(format!(
            "--factorization: algorithm '{}' adds no correlated noise; take dp-mf, dp-memf, dp-ftrl or another of its family",
            algorithm.id
        ))
        .into()));
    }
    let calibration = started.elapsed();
    let not_private = !algorithm.private && (arguments.epsilon.is_some() || arguments.noise_multiplier.is_some());
    let unread = unread
        .into_iter()
        .chain(not_private.then_some("--epsilon and --noise-multiplier"))
        .map(|flag| {
            format!(
                "{flag}: algorithm '{}' does not read it, it changes nothing",
                algorithm.id
            )
        });
    let assumptions = prepared.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = unread.chain(assumptions).collect();
    for warning in &warnings {
        eprintln!("rounds: {warning}");
    }
    if let Some((norm, bound)) = arguments.clip_features {
        let note = format!("every row of features is clipped to {norm:?} norm {bound}, a public constant");
        prepared.privacy = prepared.privacy.with_note(note);
    }
    if let Some(factor) = arguments.scale_features {
        prepared.privacy = prepared
            .privacy
            .with_note(format!("features are multiplied by {factor}, a public constant"));
    }
    let binding = digest.map(|digest| binding(bound, &settings.key, &digest));

    let queries = expected_queries(&prepared, problem.public());
    let privacy = prepared.privacy.clone();
    let progress = progress_bar(prepared.rounds, json || !first);
    let mut executor = Executor::new(&problem, engine.clone(), prepared);
    if let (Some(checkpoint), Some(path), Some(binding)) = (&resumed, &arguments.resume, &binding) {
        let restored = checkpoint.restore(path, binding, |visitor| executor.visit_state(visitor));
        cluster.agree(restored.map_err(Into::into))?;
        executor.set_ledger(checkpoint.ledger());
    }
    // Rows are placed before the timed rounds.
    executor.place();
    let before = cluster.traffic();
    let started = Instant::now();
    let mut show = |executor: &mut Executor<'_>| {
        if executor.round() % 16 == 1 {
            progress.set_position(executor.round());
        }
        Ok(ControlFlow::Continue(()))
    };
    let mut keep = |executor: &mut Executor<'_>| {
        if let (Some(path), Some(binding)) = (&arguments.checkpoint, &binding)
            && executor.round() % arguments.checkpoint_every == 0
            && !executor.is_finished()
        {
            let written = if first {
                Checkpoint::take(binding.clone(), executor.ledger(), &settings.key, |visitor| {
                    executor.visit_state(visitor);
                })
                .write(path)
            } else {
                Ok(())
            };
            cluster.agree(written.map_err(CheckpointError::reported))?;
        }
        anyhow::Ok(ControlFlow::Continue(()))
    };
    let trained = executor.run_observed(&mut [&mut show, &mut keep]);
    cluster.agree(trained)?;
    let seconds = started.elapsed();
    let communication = (cluster.traffic() - before).nanoseconds;
    progress.finish_and_clear();

    let ledger = executor.ledger();
    let parameters = executor.solution();
    // A release prints statistics of its rows, and can fail over them, only with --diagnostics.
    let diagnosed = !arguments.secure || arguments.diagnostics;
    let training = if diagnosed {
        let training = oracle::evaluate(&problem, &engine, parameters);
        match training {
            // A statistic that cannot be had decides over no release.
            Err(_) if arguments.secure => None,
            training => Some(cluster.agree(training.map_err(Into::into))?),
        }
    } else {
        None
    };
    let model_sha256 = measure::digest(parameters);
    cluster.same("model", &model_sha256)?;
    let written = if first {
        finish(arguments, &problem, parameters)
    } else {
        Ok(())
    };
    cluster.agree(written)?;
    if !first {
        return Ok(());
    }
    let test_is_public = domain.as_ref().is_some_and(|domain| domain.test_is_public);
    let test_accuracy = match test
        .as_ref()
        .filter(|_| test_is_public || !arguments.secure || arguments.diagnostics)
    {
        Some(test) => match oracle::evaluate(test, engine.local(), parameters) {
            Err(_) if arguments.secure => None,
            evaluation => evaluation.map(|evaluation| Some(evaluation.correct as f64 / evaluation.rows as f64))?,
        },
        None => None,
    };
    let times = diagnosed.then(|| Times {
        seconds: seconds.as_secs_f64(),
        communication_seconds: cluster.count().map(|_| communication as f64 * 1e-9),
        load_seconds: load.as_secs_f64(),
        calibration_seconds: calibration.as_secs_f64(),
    });
    let diagnostics = training.map(|training| {
        let mut diagnostics = json!({
            "train_loss": training.loss / training.rows as f64,
            "train_accuracy": training.correct as f64 / training.rows as f64,
            "clipped_fraction": ledger.clipped_fraction(),
            "note": "statistics of the data, outside the privacy guarantee",
        });
        if let (true, Some(times)) = (arguments.secure, times) {
            diagnostics["times"] = json!(times);
            diagnostics["gradient_queries"] = json!(ledger.gradient_queries);
            diagnostics["n"] = json!(problem.rows());
            diagnostics["test_accuracy"] = json!(test_accuracy);
        }
        diagnostics
    });
    let public_size = !matches!(problem.relation(), Relation::AddRemove { .. }) || !arguments.secure;
    let outcome = Outcome {
        algorithm: algorithm.id,
        dataset: name,
        n: public_size.then(|| problem.rows()),
        dimension: problem.model().features,
        classes: problem.dataset().classes().unwrap_or(1),
        ranks: cluster.count(),
        threads,
        pinning: arguments.pin,
        rounds: ledger.rounds,
        gradient_queries: if arguments.secure {
            queries
        } else {
            ledger.gradient_queries
        },
        times: times.filter(|_| !arguments.secure),
        test_accuracy: test_accuracy.filter(|_| test_is_public || !arguments.secure),
        warnings,
        diagnostics,
        model_sha256,
        privacy: serde_json::to_value(&privacy)?,
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&outcome)?);
    } else {
        print_outcome(&outcome, &privacy);
    }
    Ok(())
}

/// The declared domain of the data, from a schema or flags; a release needs one that a person has confirmed.
fn declared(arguments: &TrainArguments) -> anyhow::Result<Option<Arc<Domain>>> {
    let declaration = Declaration {
        schema: arguments.schema.clone(),
        label: arguments.label.clone(),
        classes: arguments.classes.clone(),
        bounds: arguments.bounds.clone(),
        dimension: arguments.dimension,
        public_rows: arguments.public_rows,
        relation: arguments.adjacency,
    };
    let domain = data::declare(&arguments.data, arguments.data_dir.as_deref(), &declaration).map_err(UsageError::of)?;
    let draft = domain.as_ref().map(|domain| domain.is_draft());
    match draft {
        Some(false) => Ok(domain),
        _ if !arguments.secure => Ok(domain),
        Some(true) => Err(UsageError::of(
            "--secure: the schema is a draft that was read from the rows. Check every line of it, then set drafted = false",
        )),
        None => Err(UsageError::of(format!(
            "--secure: a release needs the declared domain of its data: columns, bounds and classes that are known without \
             the rows. `rounds schema {}` drafts a schema to check; for a uniform table --bounds LO,HI --classes A,B are enough",
            arguments.data
        ))),
    }
}

/// Refuses a release that claims nothing, or a claim that protects next to nothing.
fn check_release(
    arguments: &TrainArguments,
    problem: &PublicProblem,
    privacy: &PrivacyStatement,
) -> anyhow::Result<()> {
    if !arguments.secure {
        return Ok(());
    }
    let (Some(epsilon), Some(delta)) = (privacy.epsilon, privacy.delta) else {
        let reason = privacy.reason.as_deref().unwrap_or("nothing is claimed");
        return Err(UsageError::of(format!(
            "--secure: this run would claim nothing: {reason}. Without --secure it runs and says so"
        )));
    };
    if arguments.allow_weak_privacy {
        return Ok(());
    }
    if let Some(warning) = PrivacyWarning::for_delta(delta, problem.rows()) {
        return Err(UsageError::of(format!("{warning}, or give --allow-weak-privacy")));
    }
    if epsilon > MOST_EPSILON {
        return Err(UsageError::of(format!(
            "ε = {epsilon}: above {MOST_EPSILON} a release protects next to nothing; lower --epsilon or raise \
             --noise-multiplier, or give --allow-weak-privacy"
        )));
    }
    Ok(())
}

/// The largest ε of a release.
const MOST_EPSILON: f64 = 10.0;

/// An error of loading: a schema that contradicts the file is bad usage, and the messages of a release name no row.
fn explained(arguments: &TrainArguments, error: DataError) -> anyhow::Error {
    match error {
        DataError::Schema { .. } if arguments.secure => UsageError::of(error.without_rows()),
        DataError::Schema { .. } => UsageError::of(error),
        error if arguments.secure => anyhow::anyhow!(error.without_rows()),
        error => error.into(),
    }
}

/// Gradient queries of all rounds: their exact number where it is no secret, else the expected one.
fn expected_queries(prepared: &Prepared, problem: &PublicProblem) -> u64 {
    prepared.queries.unwrap_or_else(|| {
        let mechanism = prepared.mechanism.as_ref();
        let rate = mechanism.and_then(|mechanism| mechanism.sampling()?.rate());
        let steps = mechanism.map_or(0, |mechanism| mechanism.rounds());
        (rate.unwrap_or(1.0) * problem.rows() as f64 * steps as f64).round() as u64
    })
}

/// Answers every request with the factorisation in a file, checked against it; and whether there was a request.
fn given_factorization(path: &std::path::Path) -> anyhow::Result<(FactorizationSource, Arc<AtomicBool>)> {
    let file = FactorizationFile::read(path)?;
    let asked = Arc::new(AtomicBool::new(false));
    let answered = asked.clone();
    let source = FactorizationSource::new(move |request| {
        answered.store(true, Ordering::Relaxed);
        file.check(request.workload, request.participation)
    });
    Ok((source, asked))
}

/// The algorithm, threads and engine that are asked for, once the model's file is known to be writable.
fn prepared_engine(
    arguments: &TrainArguments,
    cluster: &Cluster,
    model: Option<&PathBuf>,
) -> anyhow::Result<(&'static Algorithm, usize, Engine)> {
    let algorithm = catalog::find(&arguments.algorithm).map_err(|error| UsageError::new(error.to_string()))?;
    if !(arguments.regularization >= 0.0 && arguments.regularization.is_finite()) {
        let message = format!(
            "--regularization {}: a finite number of at least 0 is needed",
            arguments.regularization
        );
        return Err(UsageError::of(message));
    }
    let threads = arguments.threads.map_or_else(available_threads, Ok)?;
    let pinning = threads::pinning(arguments.pin, cluster)?;
    let engine = threads::engine(cluster, &pinning, threads)?;
    if let Some(path) = model {
        check_writable(path)?;
    }
    Ok((algorithm, threads, engine))
}

/// Data with the features and targets that the run asks for.
struct Treated {
    train: Dataset,
    loss: Loss,
    test: Option<(Dataset, Loss)>,
}

fn treated(arguments: &TrainArguments, train: Dataset, test: Option<Dataset>) -> anyhow::Result<Treated> {
    let (train, loss) = fit_targets(treat_features(arguments, train)?, arguments.loss.as_deref())?;
    let test = test
        .map(|test| fit_targets(treat_features(arguments, test)?, arguments.loss.as_deref()))
        .transpose()?;
    Ok(Treated { train, loss, test })
}

/// The checkpoint to go on from: rank 0 reads it for all.
fn resumed(arguments: &TrainArguments, cluster: &Cluster) -> anyhow::Result<Option<Checkpoint>> {
    let Some(path) = &arguments.resume else { return Ok(None) };
    let bytes = if cluster.is_first() {
        Checkpoint::bytes(path)
    } else {
        Ok(Zeroizing::default())
    };
    let bytes = cluster.secret_of_first(cluster.agree(bytes.map_err(CheckpointError::reported))?);
    let checkpoint = cluster.agree(Checkpoint::parse(path, &bytes).map_err(Into::into))?;
    Ok(Some(checkpoint))
}

/// Writes the model and removes the checkpoints of a run that is finished.
fn finish(arguments: &TrainArguments, problem: &Problem, parameters: &[f32]) -> anyhow::Result<()> {
    if let Some(path) = &arguments.model {
        write_model(path, parameters, problem.model().outputs)?;
        // On the disk before the state that could make it again is gone.
        std::fs::File::open(path)
            .and_then(|model| model.sync_all())
            .with_context(|| format!("--model {}: the model could not be written", path.display()))?;
    }
    for path in [&arguments.checkpoint, &arguments.resume].into_iter().flatten() {
        checkpoint::remove(path).map_err(CheckpointError::reported)?;
    }
    Ok(())
}

/// What a checkpoint of this run is bound to.
fn binding(parameters: Vec<(String, String)>, key: &StreamKey, digest: &[u8]) -> checkpoint::Binding {
    checkpoint::Binding {
        data: KeyedDigest::new(key, digest),
        build: Build::current().identity(),
        isa: vector_extension().to_owned(),
        parameters,
    }
}

/// Every argument that decides the model, with the declared domain; the execution engine does not.
fn bound_parameters(arguments: &TrainArguments, domain: Option<&Domain>) -> Vec<(String, String)> {
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    let named = |flag: &str, value: Option<String>| value.map(|value| (flag.to_owned(), value));
    let parameters = [
        named("--algorithm", Some(arguments.algorithm.clone())),
        named("--data", Some(arguments.data.clone())),
        named("--epsilon", number(arguments.epsilon)),
        named("--delta", number(Some(arguments.delta))),
        named("--noise-multiplier", number(arguments.noise_multiplier)),
        named("--epochs", number(arguments.epochs)),
        named("--batch-size", arguments.batch_size.map(|size| size.to_string())),
        named("--learning-rate", number(arguments.learning_rate)),
        named("--clip-norm", number(arguments.clip_norm)),
        named("--momentum", number(arguments.momentum)),
        named("--loss", arguments.loss.clone()),
        named("--regularization", number(Some(arguments.regularization))),
        named(
            "--scale-features",
            arguments.scale_features.map(|factor| factor.to_string()),
        ),
        named(
            "--clip-features",
            arguments.clip_features.map(|bound| format!("{bound:?}")),
        ),
        named("--noise", arguments.noise.map(|noise| format!("{noise:?}"))),
        named(
            "--factorization",
            // Its content, not its name; a file that cannot be read fails before the first round.
            arguments
                .factorization
                .as_ref()
                .map(|path| hexadecimal(&Sha256::digest(std::fs::read(path).unwrap_or_default()))),
        ),
        named("schema", domain.map(|domain| hexadecimal(&domain.digest()))),
        named(
            "--adjacency",
            arguments.adjacency.map(|adjacency| adjacency.to_string()),
        ),
        named("--sampling", arguments.sampling.map(|sampling| format!("{sampling:?}"))),
        named(
            "--accountant",
            arguments.accountant.map(|accountant| accountant.to_string()),
        ),
        named("--secure", Some(arguments.secure.to_string())),
        named("--seed", (!arguments.secure).then(|| arguments.seed.to_string())),
    ];
    let own = arguments
        .parameters
        .iter()
        .map(|(key, value)| (format!("--set {key}"), value.clone()));
    parameters.into_iter().flatten().chain(own).collect()
}

/// The key of all noise and sampling. A release key is drawn on rank 0 and handed to the others, so all ranks draw the same
/// noise and no noise has to travel in a round; a resumed secure run takes its key from the checkpoint.
fn key(arguments: &TrainArguments, resumed: Option<&Checkpoint>, cluster: &Cluster) -> anyhow::Result<StreamKey> {
    if !arguments.secure {
        return Ok(StreamKey::Simulation(arguments.seed));
    }
    let kept = arguments.checkpoint.as_ref().filter(|_| cluster.is_first());
    let place = kept.map_or(Ok(()), |path| checkpoint::check_place(path));
    cluster.agree(place.map_err(CheckpointError::reported))?;
    if let Some(key) = resumed.and_then(Checkpoint::key) {
        return Ok(key);
    }
    let mut own = Zeroizing::new(vec![0; 32]);
    let drawn = if cluster.is_first() {
        getrandom::fill(&mut own).context("no key could be had from the operating system's generator")
    } else {
        Ok(())
    };
    cluster.agree(drawn)?;
    let shared = cluster.secret_of_first(own);
    let key = shared.as_slice().try_into().expect("rank 0 sends 32 bytes");
    Ok(StreamKey::Release(key))
}

/// The run's settings from the command line.
fn settings(arguments: &TrainArguments, algorithm: &Algorithm, key: StreamKey) -> anyhow::Result<Settings> {
    let budget = match (arguments.epsilon, arguments.noise_multiplier) {
        _ if !algorithm.private => Budget::NonPrivate,
        (Some(epsilon), _) => Budget::Target {
            epsilon,
            delta: arguments.delta,
        },
        (None, Some(noise_multiplier)) => Budget::NoiseMultiplier {
            noise_multiplier,
            delta: arguments.delta,
        },
        (None, None) => {
            return Err(UsageError::new(format!(
                "algorithm '{}' is private and needs a budget: give --epsilon E (with --delta D), or --noise-multiplier S",
                algorithm.id
            ))
            .into());
        }
    };
    let mut parameters = std::collections::BTreeMap::new();
    for (name, value) in &arguments.parameters {
        if parameters.insert(name.clone(), value.clone()).is_some() {
            return Err(UsageError::new(format!("--set {name} is given twice")).into());
        }
    }
    Ok(Settings {
        epochs: arguments.epochs,
        batch_size: arguments.batch_size,
        learning_rate: arguments.learning_rate,
        momentum: arguments.momentum,
        clip_norm: arguments.clip_norm,
        adjacency: arguments.adjacency,
        sampling: arguments.sampling,
        accountant: arguments.accountant,
        noise: arguments.noise,
        strategies: StrategyMemory::filled_from(factorization_cache::source()),
        parameters,
        ..Settings::new(budget, key)
    })
}

/// Scales, then clips the features as asked.
fn treat_features(arguments: &TrainArguments, dataset: Dataset) -> anyhow::Result<Dataset> {
    let scaled = match arguments.scale_features {
        Some(factor) => dataset.scale_features(factor).map_err(UsageError::of)?,
        None => dataset,
    };
    Ok(match arguments.clip_features {
        Some((norm, bound)) => scaled.clip_features(norm, bound)?,
        None => scaled,
    })
}

/// The loss asked for (or the usual one), and the data set with the kind of target that it needs.
fn fit_targets(dataset: Dataset, loss: Option<&str>) -> anyhow::Result<(Dataset, Loss)> {
    let loss = match loss {
        Some(name) => parse_loss(name)?,
        None if dataset.classes().is_some() => Loss::Softmax,
        None => Loss::Squared,
    };
    if loss != Loss::Softmax && dataset.classes().is_some() {
        Ok((dataset.into_binary().map_err(UsageError::of)?, loss))
    } else {
        Ok((dataset, loss))
    }
}

/// A loss by its name.
fn parse_loss(name: &str) -> anyhow::Result<Loss> {
    let huber = |threshold: &str| {
        threshold
            .parse()
            .ok()
            .filter(|&h: &f32| h > 0.0 && h.is_finite())
            .map(Loss::Huber)
    };
    let loss = match name.split_once('=') {
        Some(("huber", threshold)) => huber(threshold),
        None => match name {
            "softmax" => Some(Loss::Softmax),
            "logistic" => Some(Loss::Logistic),
            "squared" => Some(Loss::Squared),
            "hinge" => Some(Loss::Hinge),
            "absolute" => Some(Loss::Absolute),
            _ => None,
        },
        Some(_) => None,
    };
    loss.ok_or_else(|| {
        UsageError::new(format!(
            "--loss '{name}' is not known; it takes softmax, logistic, squared, huber=h (h > 0), hinge or absolute"
        ))
        .into()
    })
}

/// All threads that this process may use.
fn available_threads() -> anyhow::Result<usize> {
    Ok(std::thread::available_parallelism()
        .context("the number of processors is unknown: give --threads")?
        .get())
}

/// Fails before the work rather than after it when a file cannot be written.
fn check_writable(path: &std::path::Path) -> anyhow::Result<()> {
    let existed = path.exists();
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("--model {}: the file cannot be written", path.display()))?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// A progress bar on a terminal, nothing elsewhere.
fn progress_bar(rounds: u64, json: bool) -> ProgressBar {
    let target = if json {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(10)
    };
    let style = ProgressStyle::with_template("training {bar:40} {pos}/{len} rounds, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(rounds), target).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// Writes the model as NPY f32 `[outputs, d + 1]`, through a temporary file beside it.
fn write_model(path: &std::path::Path, parameters: &[f32], outputs: usize) -> anyhow::Result<()> {
    let matrix = ndarray::ArrayView2::from_shape((outputs, parameters.len() / outputs), parameters)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(std::path::Path::new("."));
    let context = || format!("--model {}: the model could not be written", path.display());
    let file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    ndarray_npy::WriteNpyExt::write_npy(&matrix, file.as_file()).with_context(context)?;
    file.persist(path).with_context(context)?;
    Ok(())
}

/// The privacy statement in rows.
fn privacy_rows(privacy: &PrivacyStatement) -> Vec<(&'static str, String)> {
    let Some((epsilon, delta)) = privacy.epsilon.zip(privacy.delta) else {
        return vec![(
            "privacy",
            format!("none: {}", privacy.reason.as_deref().unwrap_or("nothing is claimed")),
        )];
    };
    let name = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let claim = match privacy.claim {
        Claim::Release => "release",
        Claim::Simulation => "simulation (reproducible noise: for measurements, not for release)",
        Claim::None => "none",
    };
    let mut rows = vec![
        (
            "privacy",
            format!("ε = {epsilon:.6} at δ = {delta:e} per {}", privacy.unit),
        ),
        ("claim", claim.to_owned()),
        (
            "adjacency",
            name(privacy.adjacency.map(|adjacency| adjacency.to_string())),
        ),
        (
            "accountant",
            name(privacy.accountant.map(|accountant| accountant.to_string())),
        ),
        ("mechanism", name(privacy.mechanism.clone())),
        (
            "domain",
            name(
                privacy
                    .domain
                    .as_ref()
                    .map(|domain| format!("{}, sha256 {}…", domain.source, &domain.sha256[..16])),
            ),
        ),
    ];
    if let Some(replaced) = privacy
        .replace_one
        .filter(|_| privacy.adjacency != Some(Adjacency::ReplaceOne))
    {
        let text = format!(
            "ε = {:.6} at δ = {:.1e}, for another row in place of one",
            replaced.epsilon, replaced.delta
        );
        rows.push(("replacing a row", text));
    }
    rows.extend(privacy.public.iter().map(|fact| ("public", fact.clone())));
    rows.extend(privacy.notes.iter().map(|note| ("note", note.clone())));
    rows
}

/// The outcome for people.
fn print_outcome(outcome: &Outcome, privacy: &PrivacyStatement) {
    let percent = |fraction: f64| format!("{:.2} %", 100.0 * fraction);
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table
        .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
        .set_width(80);
    table.set_header(vec![outcome.algorithm.to_owned(), format!("on {}", outcome.dataset)]);
    let rows = outcome
        .n
        .map_or_else(|| "a private number of".to_owned(), |rows| rows.to_string());
    let shape = format!(
        "{rows} rows, {} features, {} classes",
        outcome.dimension, outcome.classes
    );
    table.add_row(vec!["data".to_owned(), shape]);
    if let Some(accuracy) = outcome.test_accuracy {
        table.add_row(vec!["test accuracy".to_owned(), percent(accuracy)]);
    }
    table.add_row(vec![
        "work".to_owned(),
        format!(
            "{} rounds, {} gradient queries",
            outcome.rounds, outcome.gradient_queries
        ),
    ]);
    if let Some(times) = outcome.times {
        table.add_row(vec![
            "time".to_owned(),
            format!(
                "{:.3} s training on {}{} thread{} ({:.3} s loading, {:.3} s calibration)",
                times.seconds,
                outcome
                    .ranks
                    .map_or_else(String::new, |ranks| format!("{ranks} ranks of ")),
                outcome.threads,
                if outcome.threads == 1 { "" } else { "s" },
                times.load_seconds,
                times.calibration_seconds
            ),
        ]);
    }
    for (what, value) in privacy_rows(privacy) {
        table.add_row(vec![what.to_owned(), value]);
    }
    table.add_row(vec!["model sha256".to_owned(), outcome.model_sha256.clone()]);
    println!("{table}");
}
