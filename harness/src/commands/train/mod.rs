//! `rounds train`: one training run from data to model file and privacy statement.

mod arguments;
mod outcome;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
pub use arguments::TrainArguments;
use outcome::{Diagnostics, Outcome, PrivateFacts, Quality, Shown, Times};
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::factorization::FactorizationSource;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{Algorithm, NoiseKind, Prepared, Settings};
use rounds_algorithms::oracle::{self, Engine};
use rounds_algorithms::privacy::{Claim, PrivacyStatement, PrivacyWarning};
use rounds_algorithms::problem::{
    self, Column, ColumnKind, Columns, Domain, DomainSource, Problem, PublicProblem, Relation,
};
use rounds_kernels::loss::TargetKind;
use rounds_kernels::random::StreamKey;
use zeroize::Zeroizing;

use super::evaluate::regression;
use super::run::stop_on_interrupt;
use super::{Output, UsageError, output, threads};
use crate::cluster::Cluster;
use crate::format::three_digits;
use crate::machine::{build, vector_extension};
use crate::usage::command_again;
use rounds_models::checkpoint::{self, Checkpoint, CheckpointError, KeyedDigest};
use rounds_models::data::{self, DataError, SchemaError, Split};
use rounds_models::factorization_file::FactorizationFile;
use rounds_models::files;
use rounds_models::model_file::{Header, Model, TrainedOn, digest, is_npy, outputs};

/// Loads, calibrates, fits and publishes.
///
/// # Errors
/// Anything that the arguments, the data or the algorithm refuse, with the remedy.
pub fn run(arguments: &TrainArguments, output: Output) -> anyhow::Result<()> {
    let cluster = Cluster::start(arguments.execution.engine)?;
    cluster.finish(train(&Context { arguments, cluster: &cluster, output, shown: Shown::of(&arguments.privacy) }))
}

/// [`run`] on every rank; rank 0 alone prints and writes.
fn train(context: &Context<'_>) -> anyhow::Result<()> {
    let loaded = load(context)?;
    let (prepared, calibrated) = context.cluster.all_ok(calibrate(context, &loaded))?;
    let fitted = fit(context, &loaded, prepared)?;
    publish(context, &loaded, calibrated, fitted)
}

struct Context<'a> {
    arguments: &'a TrainArguments,
    cluster: &'a Cluster,
    output: Output,
    shown: Shown,
}

impl Context<'_> {
    fn secure(&self) -> bool {
        self.arguments.privacy.secure
    }
}

/// A run before its data: all that the command line decides.
struct Setup {
    algorithm: &'static Algorithm,
    threads: usize,
    engine: Engine,
    domain: Option<Arc<Domain>>,
    /// Warnings about a drafted domain.
    warnings: Vec<String>,
    settings: Settings,
    /// Set when the algorithm takes the factorisation of --factorization.
    factorization_used: Option<Arc<AtomicBool>>,
}

struct Loaded {
    setup: Setup,
    dataset: String,
    problem: Problem,
    test: Option<Problem>,
    resumed: Option<Checkpoint>,
    /// The training rows' columns and label, for the model's file.
    trained_on: TrainedOn,
    /// Every argument that decides the model, as name and value.
    parameters: Vec<(String, String)>,
    /// The binding of checkpoints, if the run has any.
    binding: Option<checkpoint::Binding>,
    seconds: f64,
}

/// The plan of a run: what it claims, and what there is to say of it.
struct Calibrated {
    privacy: PrivacyStatement,
    parameters: BTreeMap<&'static str, String>,
    /// Gradient queries of all rounds: their exact number if it is public, else the expected one.
    expected_queries: u64,
    warnings: Vec<String>,
    seconds: f64,
}

/// A run after its last round.
struct Fitted<'p> {
    executor: Executor<'p>,
    seconds: f64,
    communication_seconds: f64,
}

/// Reads the arguments, the checkpoint and the data.
fn load(context: &Context<'_>) -> anyhow::Result<Loaded> {
    let Context { arguments, cluster, .. } = *context;
    let (mut setup, parameters) = cluster.all_ok(set_up(context))?;
    let checkpoints = &arguments.checkpoint;
    let every = checkpoints.checkpoint.is_some().then_some(checkpoints.checkpoint_every);
    let lines = parameters.iter().map(|(name, value)| format!("{name} {value}\n"));
    let lines = lines.collect::<String>() + &format!("checkpoint every {every:?}");
    cluster.check_same("command line", &lines)?;
    let resumed = resumed(context)?;
    setup.settings.key = key(context, resumed.as_ref())?;

    let started = Instant::now();
    let mut counted = None;
    if let (Some(domain), Some(epsilon)) = (&mut setup.domain, arguments.declaration().private_bounds()) {
        let bounded = data::bound_privately(&arguments.data.data, domain, epsilon, &setup.settings.key);
        let bounded = bounded.map_err(|error| match error {
            SchemaError::Data(error) => explained(context, error),
            error => UsageError::of(error),
        });
        let (bounded, counts) = cluster.all_ok(bounded)?;
        (*domain, counted) = (Arc::new(bounded), Some(counts));
    }
    let data_dir = arguments.data.data_dir.as_deref();
    let explain = |error| explained(context, error);
    let data = cluster.load(
        &arguments.data.data,
        data_dir,
        arguments.request(&arguments.declaration(), setup.domain.as_ref()),
        &explain,
    )?;
    let dataset = data.train.name().to_owned();
    let treatment = (arguments.data.scale_features, arguments.data.clip_features);
    let trained_on = TrainedOn::of(&data.train, treatment.0, treatment.1);
    let treated = arguments.treat(data.train).and_then(|(train, loss)| {
        let test = data.test.map(|test| arguments.treat(test)).transpose()?;
        let test = test.map(|(test, loss)| Problem::new(Arc::new(test), loss, true, 0.0));
        Ok((train, loss, test.transpose()?))
    });
    let (train, loss, test) = cluster.all_ok(treated)?;
    if train.domain().is_none() {
        setup.warnings.extend(data::doubts(&train, arguments.declaration().columns.task));
    }
    let keeps_state = checkpoints.checkpoint.is_some() || checkpoints.resume.is_some();
    let binding = keeps_state.then(|| checkpoint::Binding {
        // Rows that differ may be encoded alike in bounds that differ.
        data: KeyedDigest::new(
            &setup.settings.key,
            &[&cluster.digest(&train)[..], counted.as_ref().map_or(&[], |counts| &counts[..])].concat(),
        ),
        build: build().identity(),
        isa: vector_extension().to_owned(),
        parameters: parameters.clone(),
    });
    let problem = cluster.problem(train, loss, arguments.optimizer.regularization)?;
    let problem = placed(problem, &setup, cluster);
    let seconds = started.elapsed().as_secs_f64();
    Ok(Loaded { setup, dataset, problem, test, resumed, trained_on, parameters, binding, seconds })
}

/// The problem with what the run needs of its rows.
fn placed(problem: Problem, setup: &Setup, cluster: &Cluster) -> Problem {
    let mut problem = problem.placed_for(&setup.engine);
    // A run without a claim may read constants off the rows.
    if !setup.algorithm.private || problem.unclaimable().is_some() {
        problem = problem.with_longest_row();
    }
    let smoothness = setup.settings.parameters.get("smoothness");
    if smoothness.is_some_and(|value| value == "estimate") && cluster.count().is_none() {
        problem = problem.with_second_moment();
    }
    problem
}

/// The run that the command line gives, and the parameters that bind its checkpoints.
fn set_up(context: &Context<'_>) -> anyhow::Result<(Setup, Vec<(String, String)>)> {
    let arguments = context.arguments;
    let algorithm = catalog::find(&arguments.algorithm).map_err(UsageError::of)?;
    let regularization = arguments.optimizer.regularization;
    if !(regularization >= 0.0 && regularization.is_finite()) {
        let message = format!("--regularization {regularization}: a finite number of at least 0 is needed");
        return Err(UsageError::of(message));
    }
    let threads = threads::count(arguments.execution.threads)?;
    let pinning = threads::pinning(arguments.execution.pin, context.cluster)?;
    let engine = context.cluster.engine(&pinning, threads)?;
    if let Some(path) = arguments.model.as_ref().filter(|_| context.cluster.is_root()) {
        // Before the work rather than after it.
        files::check_replaceable(path)
            .with_context(|| format!("--model {}: the file cannot be written", path.display()))?;
        if arguments.privacy.secure && is_npy(path) && path.is_file() {
            return Err(UsageError::of(format!(
                "--model {}: it is there already and may hold a release, whose ε is spent; name another file, or move this one away \
                 (--resume then writes it again, if this run did)",
                path.display()
            )));
        }
        let held = Model::read(path).ok().map(|model| model.header.privacy);
        if let Some(release) = held.filter(|privacy| privacy.claim == Claim::Release) {
            return Err(UsageError::of(format!(
                "--model {}: it holds a release, whose ε = {} is spent; name another file, or move this one away",
                path.display(),
                release.epsilon.unwrap_or_default()
            )));
        }
    }
    let (domain, drafted) = declared(arguments)?;
    let parameters = arguments.bound_parameters(domain.as_deref())?;
    let mut settings = arguments.settings(algorithm)?;
    let given = arguments.privacy.factorization.as_deref().map(given_factorization).transpose()?;
    let factorization_used = given.map(|(source, used)| {
        if algorithm.reads("noise") {
            settings.set("noise", NoiseKind::Optimal);
        }
        settings.strategies = StrategyMemory::filled_from(source);
        used
    });
    let setup = Setup { algorithm, threads, engine, domain, warnings: drafted, settings, factorization_used };
    Ok((setup, parameters))
}

/// Prepares the optimiser and its statement, and refuses a release that must not be.
fn calibrate(context: &Context<'_>, loaded: &Loaded) -> anyhow::Result<(Prepared, Calibrated)> {
    let arguments = context.arguments;
    let Loaded { setup, problem, .. } = loaded;
    let Setup { algorithm, settings, .. } = setup;
    let started = Instant::now();
    let prepared = algorithm.prepare(problem, settings).map_err(UsageError::of)?;
    let mut privacy = prepared.privacy.clone();
    let bounds_epsilon = arguments.declaration().private_bounds();
    if let Some(epsilon) = bounds_epsilon {
        let relation = problem.public().relation();
        let drawn_for = relation.adjacency();
        if let Some(stated) = privacy.adjacency.filter(|&stated| stated != drawn_for) {
            return Err(UsageError::of(format!(
                "--bounds private:{epsilon}: the noise of the bounds is drawn for {drawn_for}, the relation of the domain, and the \
                 run would state {stated}; give the relation by --adjacency or in the schema"
            )));
        }
        let columns = setup.domain.as_ref().map_or(0, |domain| domain.numbers());
        let note = format!(
            "bounds of numbers: one Laplace release of the counts of {columns} columns in public bins, {epsilon}-DP under {drawn_for} for \
             all of them together (rounded Laplace noise of scale {}); the SHA-256 of the domain is that of the domain with these bounds",
            three_digits(problem::noise_scale(columns, relation, epsilon))
        );
        privacy = privacy.after_private_bounds(epsilon).with_note(note);
    }
    check_release(arguments, problem, &privacy)?;
    let drafted = DomainSource::Draft(arguments.data.data.clone());
    if problem.domain().is_some_and(|domain| domain.source == drafted)
        && privacy.reason.as_deref() == problem.unclaimable()
    {
        let command = arguments.declaration().columns.draft_command(&arguments.data.data);
        privacy.reason = privacy.reason.map(|reason| format!("{reason} (`{command}` writes it)"));
    }
    if problem.rows() > problem.most_rows() {
        return Err(UsageError::of(format!(
            "--public-rows: the data have more than {} times as many rows, and are no data set of the declared domain",
            problem::MOST_ROWS_PER_PUBLIC_ROW
        )));
    }
    let used = setup.factorization_used.as_ref();
    if used.is_some_and(|used| !used.load(Ordering::Relaxed)) {
        return Err(UsageError::of(format!(
            "--factorization: algorithm '{}' adds no correlated noise; take dp-mf, dp-memf, dp-ftrl or another of its family",
            algorithm.id
        )));
    }
    let given = &arguments.privacy;
    let budget = !algorithm.private && (given.epsilon.is_some() || given.noise_multiplier.is_some());
    let unread = budget.then(|| {
        let id = algorithm.id;
        format!("--epsilon and --noise-multiplier: algorithm '{id}' does not read them, they change nothing")
    });
    let assumptions = prepared.warnings.iter().map(ToString::to_string);
    let of_data = setup.warnings.iter().cloned();
    let warnings: Vec<String> = of_data.chain(unread).chain(assumptions).collect();
    if let Some((norm, bound)) = arguments.data.clip_features {
        let note = format!("every row of features is clipped to {norm:?} norm {bound}, a public constant");
        privacy = privacy.with_note(note);
    }
    if let Some(factor) = arguments.data.scale_features {
        privacy = privacy.with_note(format!("features are multiplied by {factor}, a public constant"));
    }
    if let Some(fraction) = arguments.data.test_split {
        let seed = arguments.execution.seed;
        privacy = privacy.with_note(format!(
            "a part of {fraction} of the rows is kept for testing and enters no sum{}; their positions follow from the number of \
             rows and the seed {seed}, both public",
            if bounds_epsilon.is_some() { " but the counts of the private bounds" } else { "" }
        ));
    }
    if context.cluster.is_root() {
        warnings.iter().for_each(output::warn);
    }
    let calibrated = Calibrated {
        privacy,
        parameters: prepared.parameters.clone(),
        expected_queries: expected_queries(&prepared, problem.public()),
        warnings,
        seconds: started.elapsed().as_secs_f64(),
    };
    Ok((prepared, calibrated))
}

/// Message of the first Ctrl-C of a run with a checkpoint.
const AFTER_THIS_ROUND: &str =
    "stopping after the current round, with a checkpoint; press Ctrl-C again to stop at once";

/// Runs all rounds, from the checkpoint's if one is resumed.
fn fit<'p>(context: &Context<'_>, loaded: &'p Loaded, prepared: Prepared) -> anyhow::Result<Fitted<'p>> {
    let Context { arguments, cluster, .. } = *context;
    let Loaded { setup, problem, .. } = loaded;
    let checkpoints = &arguments.checkpoint;
    let template = "training {bar:20.green} {pos}/{len} rounds, {left}";
    let progress = context.output.progress(prepared.rounds, template);
    if cluster.is_root() {
        progress.enable_steady_tick(Duration::from_millis(250));
    }
    let mut executor = Executor::new(problem, setup.engine.clone(), prepared);
    if let (Some(checkpoint), Some(path), Some(binding)) = (&loaded.resumed, &checkpoints.resume, &loaded.binding) {
        let restored = checkpoint.restore(path, binding, |visitor| executor.visit_state(visitor));
        cluster.all_ok(restored.map_err(Into::into))?;
        executor.set_ledger(checkpoint.ledger());
    }
    // Rows are placed before the timed rounds.
    executor.place();
    let before = cluster.traffic();
    let started = Instant::now();
    // Ranks are ended by their launcher.
    let stopped = if checkpoints.checkpoint.is_some() && cluster.count().is_none() {
        stop_on_interrupt(AFTER_THIS_ROUND)?
    } else {
        Arc::default()
    };
    let mut show = |executor: &mut Executor<'_>| {
        if executor.round() % 16 == 1 {
            progress.set_position(executor.round());
        }
        Ok(ControlFlow::Continue(()))
    };
    let mut save = |executor: &mut Executor<'_>| {
        let stopped = stopped.load(Ordering::Relaxed);
        if let (Some(path), Some(binding)) = (&checkpoints.checkpoint, &loaded.binding)
            && (stopped || executor.round() % checkpoints.checkpoint_every == 0)
            && !executor.is_finished()
        {
            cluster.root_only(|| {
                let (ledger, key) = (executor.ledger(), &setup.settings.key);
                Checkpoint::take(binding.clone(), ledger, key, |visitor| executor.visit_state(visitor))
                    .write(path)
                    .map_err(checkpoint_error)
            })?;
            anyhow::ensure!(
                !stopped,
                "stopped after round {} of {}; to go on:\n  {}",
                executor.round(),
                executor.rounds(),
                command_again(&[("--resume", Some(path))])
            );
        }
        anyhow::Ok(ControlFlow::Continue(()))
    };
    cluster.all_ok(executor.run_observed(&mut [&mut show, &mut save]))?;
    progress.finish_and_clear();
    Ok(Fitted {
        executor,
        seconds: started.elapsed().as_secs_f64(),
        communication_seconds: (cluster.traffic() - before).nanoseconds as f64 * 1e-9,
    })
}

/// Writes the model, removes the checkpoints and prints the outcome.
fn publish(
    context: &Context<'_>,
    loaded: &Loaded,
    mut calibrated: Calibrated,
    mut fitted: Fitted<'_>,
) -> anyhow::Result<()> {
    let Context { arguments, cluster, shown, .. } = *context;
    let Loaded { setup, problem, .. } = loaded;
    let ledger = fitted.executor.ledger();
    let parameters = fitted.executor.solution();
    let evaluate = || oracle::evaluate(problem, &setup.engine, parameters);
    let evaluated = shown.has_statistics().then(evaluate);
    let training = match evaluated {
        // A statistic that cannot be computed decides over no release.
        Some(Err(_)) if context.secure() => None,
        evaluated => cluster.all_ok(evaluated.transpose().map_err(Into::into))?,
    };
    let model_sha256 = digest(parameters);
    cluster.check_same("model", &model_sha256)?;
    cluster.root_only(|| finish(arguments, loaded, &calibrated.privacy, parameters))?;
    if !cluster.is_root() {
        return Ok(());
    }
    let test_is_public = setup.domain.as_ref().is_some_and(|domain| domain.test_is_public);
    let test = loaded.test.as_ref().filter(|_| test_is_public || shown.has_statistics());
    let evaluated = test.map(|test| quality(loaded, test, parameters));
    let test = match evaluated {
        Some(Err(_)) if context.secure() => None,
        evaluated => evaluated.transpose()?.flatten(),
    };
    let null_rows = training.filter(|_| shown == Shown::All).map(|of| problem.rows() - of.rows);
    if let Some(null_rows) = null_rows.filter(|null_rows| 2 * null_rows > problem.rows()) {
        let warning = format!(
            "{null_rows} of {} training rows are null rows, from which the model learns nothing: a column taken for numbers holds \
             words or nothing in them, a category or the label a value that is not declared. `{}` drafts a schema",
            problem.rows(),
            arguments.declaration().columns.draft_command(&arguments.data.data)
        );
        output::warn(&warning);
        calibrated.warnings.push(warning);
    }
    let has_classes = problem.model().loss.targets() != TargetKind::Reals;
    let times = Times {
        seconds: fitted.seconds,
        communication_seconds: cluster.count().map(|_| fitted.communication_seconds),
        load_seconds: loaded.seconds,
        calibration_seconds: calibrated.seconds,
    };
    let diagnostics = training.map(|training| Diagnostics {
        train_loss: training.loss / training.rows as f64,
        train_accuracy: has_classes.then(|| training.correct as f64 / training.rows as f64),
        clipped_fraction: ledger.clipped_fraction(),
        null_rows,
        note: "statistics of the data, outside the privacy guarantee",
        private: shown.in_diagnostics(PrivateFacts {
            times,
            gradient_queries: ledger.gradient_queries,
            n: problem.rows(),
            test,
        }),
    });
    let place = Path::new(&arguments.data.data);
    let size_is_public = !matches!(problem.relation(), Relation::AddRemove { .. });
    let queries = shown.beside_claim(false, Some(ledger.gradient_queries));
    let outcome = Outcome {
        algorithm: setup.algorithm.id,
        dataset: loaded.dataset.clone(),
        n: shown.beside_claim(size_is_public, Some(problem.rows())),
        dimension: problem.model().features,
        classes: problem.dataset().classes().unwrap_or(1),
        numbers: setup.domain.as_deref().map_or_else(BTreeMap::new, numbers),
        ranks: cluster.count(),
        threads: setup.threads,
        pinning: arguments.execution.pin,
        rounds: ledger.rounds,
        gradient_queries: queries.unwrap_or(calibrated.expected_queries),
        times: shown.beside_claim(false, Some(times)),
        test: shown.beside_claim(test_is_public, test),
        test_rows: shown.beside_claim(test_is_public, loaded.test.as_ref().map(Problem::rows)),
        test_file: data::test_file(place, arguments.request(&arguments.declaration(), None))
            .filter(|_| loaded.test.is_some() && place.is_file()),
        held_out: held_out(context, loaded),
        diagnostics,
        parameters: calibrated.parameters,
        seed: (!context.secure()).then_some(arguments.execution.seed),
        warnings: calibrated.warnings,
        model: arguments.model.clone(),
        model_sha256,
        privacy: calibrated.privacy,
    };
    context.output.print(&outcome, outcome.table())
}

/// Columns that a domain declares as numbers, by what a field that is no number does.
fn numbers(domain: &Domain) -> BTreeMap<&'static str, Vec<String>> {
    let mut numbers: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let Columns::Named(columns) = &domain.columns else {
        return numbers;
    };
    for Column { name, kind } in columns {
        let does = match kind {
            ColumnKind::Number { missing: None, .. } => "makes its row the null row, which adds nothing",
            ColumnKind::Number { .. } => "takes the missing value of its column",
            ColumnKind::Category { .. } => continue,
        };
        numbers.entry(does).or_default().push(name.clone());
    }
    numbers
}

/// The quality of weights on test rows; `None` if all of these are null rows.
fn quality(loaded: &Loaded, test: &Problem, weights: &[f32]) -> anyhow::Result<Option<Quality>> {
    let rows = test.dataset();
    if (0..rows.len()).all(|row| rows.is_null(row)) {
        return Ok(None);
    }
    if test.model().loss.targets() == TargetKind::Reals {
        let outputs = outputs(weights, rows.rows());
        let errors = regression(rows, &loaded.trained_on.target, &outputs);
        return Ok(Some(Quality::Errors(errors)));
    }
    let found = oracle::evaluate(test, loaded.setup.engine.local(), weights)?;
    Ok(Some(Quality::Accuracy(found.correct as f64 / found.rows as f64)))
}

/// Of a simulation without test rows, the quality of the same run on four fifths of the rows, on the others. `None` of long runs,
/// which have checkpoints or ranks, and where so few rows allow no such run.
fn held_out(context: &Context<'_>, loaded: &Loaded) -> Option<Quality> {
    let Context { arguments, cluster, .. } = *context;
    let Loaded { setup, problem, .. } = loaded;
    if context.secure() || loaded.test.is_some() || loaded.binding.is_some() || cluster.count().is_some() {
        return None;
    }
    let split = Split { fraction: 0.2, seed: arguments.execution.seed };
    let (train, test) = split.apart(problem.dataset())?;
    let regularization = arguments.optimizer.regularization;
    let of = |rows| Problem::new(Arc::new(rows), problem.model().loss, true, regularization).ok();
    let train = placed(of(train)?, setup, cluster);
    let prepared = setup.algorithm.prepare(&train, &setup.settings).ok()?;
    let mut executor = Executor::new(&train, setup.engine.clone(), prepared);
    executor.run().ok()?;
    quality(loaded, &of(test)?, executor.solution()).ok()?
}

/// The declared domain of the data, from a schema or flags; a release needs one that a person has confirmed. For a run that is no
/// release the domain of a table that nothing declares is drafted from its rows; then there are warnings to print.
fn declared(arguments: &TrainArguments) -> anyhow::Result<(Option<Arc<Domain>>, Vec<String>)> {
    let (name, folder) = (&arguments.data.data, arguments.data.data_dir.as_deref());
    let test = data::test_file(Path::new(name), arguments.request(&arguments.declaration(), None))
        .filter(|_| arguments.privacy.secure);
    if let Some(test) =
        test.filter(|test| matches!((Path::new(name).canonicalize(), test.canonicalize()), (Ok(a), Ok(b)) if a == b))
    {
        let message = format!(
            "{}: these test rows are the training rows, which are private; name public ones with --test FILE",
            test.display()
        );
        return Err(UsageError::of(message));
    }
    let flags = arguments.declaration();
    let mut domain = data::declare(name, folder, &flags).map_err(|error| match error {
        // The first line of a file without a header is a row.
        SchemaError::Data(error) if arguments.privacy.secure => UsageError::of(error.without_rows()),
        error => UsageError::of(error),
    })?;
    let mut warnings = Vec::new();
    let draft = flags.columns.draft_command(name);
    match domain.as_ref().map(|domain| domain.is_draft()) {
        Some(_) if !arguments.privacy.secure => {}
        Some(false) if domain.as_ref().is_some_and(|domain| flags.columns_are_guessed(domain)) => {
            return Err(UsageError::of(format!(
                "--secure: --bounds for all columns takes every column of the header for a number, and a word in one would be \
                 lost. Declare the columns by name: by a schema, which `{draft}` drafts for you to check (--bounds \
                 private:EPSILON may stay), or by --bounds NAME=LO:HI,… for each of them"
            )));
        }
        Some(false) => {}
        Some(true) => {
            return Err(UsageError::of(
                "--secure: the schema is a draft that was read from the rows. Check every line of it, then set drafted = false",
            ));
        }
        None if arguments.privacy.secure => {
            return Err(UsageError::of(format!(
                "--secure: a release needs the declared domain of its data: columns, bounds and classes that are known without \
                 the rows. `{draft}` drafts a schema to check; for rows of numbers without a header --bounds LO,HI --dimension D \
                 --classes A,B are enough"
            )));
        }
        None => {
            let drafted = data::drafted(name, &flags).map_err(|error| match error {
                SchemaError::Data(error) => error.into(),
                error => UsageError::of(error),
            })?;
            (domain, warnings) = drafted.map_or_else(Default::default, |(domain, warnings)| (Some(domain), warnings));
        }
    }
    if let Some(domain) = domain.as_mut().filter(|_| arguments.data.test_split.is_some()) {
        if let Relation::AddRemove { .. } = domain.relation {
            return Err(UsageError::of(
                "--test-split: under add-remove the number of rows is private, and with it the positions of the split; put the \
                 test rows in a file of their own (--test FILE)",
            ));
        }
        // They are rows of the private file, whatever the schema says of test rows.
        Arc::make_mut(domain).test_is_public = false;
    }
    Ok((domain, warnings))
}

/// Refuses a release that claims nothing, or a claim that protects next to nothing.
fn check_release(
    arguments: &TrainArguments,
    problem: &PublicProblem,
    privacy: &PrivacyStatement,
) -> anyhow::Result<()> {
    if !arguments.privacy.secure {
        return Ok(());
    }
    let (Some(epsilon), Some(delta)) = (privacy.epsilon, privacy.delta) else {
        let reason = privacy.reason.as_deref().unwrap_or("nothing is claimed");
        return Err(UsageError::of(format!(
            "--secure: this run would claim nothing: {reason}. Without --secure it runs and says so"
        )));
    };
    if arguments.privacy.allow_weak_privacy {
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

const MOST_EPSILON: f64 = 10.0;

/// The reported error of loading. A schema that contradicts the file is bad usage; messages of a release name no row.
fn explained(context: &Context<'_>, error: DataError) -> anyhow::Error {
    match error {
        DataError::Schema { .. } if context.secure() => UsageError::of(error.without_rows()),
        DataError::Schema { .. } => UsageError::of(error),
        error if context.secure() => anyhow::anyhow!(error.without_rows()),
        error => error.into(),
    }
}

/// The exact number of gradient queries if it is public, else the expected one.
fn expected_queries(prepared: &Prepared, problem: &PublicProblem) -> u64 {
    prepared.queries.unwrap_or_else(|| {
        let mechanism = prepared.mechanism.as_ref();
        let rate = mechanism.and_then(|mechanism| mechanism.sampling()?.rate());
        let steps = mechanism.map_or(0, |mechanism| mechanism.rounds());
        (rate.unwrap_or(1.0) * problem.rows() as f64 * steps as f64).round() as u64
    })
}

/// A source of the factorisation in a file, checked against every request, and a flag that the first request sets.
fn given_factorization(path: &Path) -> anyhow::Result<(FactorizationSource, Arc<AtomicBool>)> {
    let file = FactorizationFile::read(path)?;
    let used = Arc::new(AtomicBool::new(false));
    let requested = used.clone();
    let source = FactorizationSource::new(move |request| {
        requested.store(true, Ordering::Relaxed);
        file.check(request.workload, request.participation)
    });
    Ok((source, used))
}

/// The checkpoint to resume from: rank 0 reads it for all.
fn resumed(context: &Context<'_>) -> anyhow::Result<Option<Checkpoint>> {
    let Some(path) = &context.arguments.checkpoint.resume else {
        return Ok(None);
    };
    let cluster = context.cluster;
    let bytes = cluster.broadcast_result(|| Checkpoint::bytes(path).map_err(checkpoint_error))?;
    cluster.all_ok(Checkpoint::parse(path, &bytes).map(Some).map_err(Into::into))
}

/// The key of all noise and sampling: a simulation's seed, the resumed checkpoint's, or a new one that rank 0 draws. With one
/// key all ranks draw the same noise, and no round sends any.
fn key(context: &Context<'_>, resumed: Option<&Checkpoint>) -> anyhow::Result<StreamKey> {
    let Context { arguments, cluster, .. } = *context;
    if !context.secure() {
        return Ok(StreamKey::Simulation(arguments.execution.seed));
    }
    let kept = arguments.checkpoint.checkpoint.as_deref();
    let checked = || kept.map_or(Ok(()), checkpoint::check_place);
    cluster.root_only(|| checked().map_err(checkpoint_error))?;
    if let Some(key) = resumed.and_then(Checkpoint::key) {
        return Ok(key);
    }
    let drawn = cluster.broadcast_result(|| {
        let mut key = Zeroizing::new(vec![0; 32]);
        getrandom::fill(&mut key).context("the generator of the operating system gives no key")?;
        Ok(key)
    })?;
    Ok(StreamKey::Release(drawn.as_slice().try_into().expect("32 bytes")))
}

/// The reported error of a checkpoint. A wrong place on the command line is bad usage.
fn checkpoint_error(error: CheckpointError) -> anyhow::Error {
    match error {
        CheckpointError::Place { .. } => UsageError::of(error),
        error => error.into(),
    }
}

/// Writes the model and removes the checkpoints of a run that is finished.
fn finish(
    arguments: &TrainArguments,
    loaded: &Loaded,
    privacy: &PrivacyStatement,
    weights: &[f32],
) -> anyhow::Result<()> {
    if let Some(path) = &arguments.model {
        // The model is on the disk before the state that could make it again is removed.
        write_model(path, loaded, privacy, weights)
            .with_context(|| format!("--model {}: the model could not be written", path.display()))?;
    }
    let checkpoints = &arguments.checkpoint;
    for path in [&checkpoints.checkpoint, &checkpoints.resume].into_iter().flatten() {
        checkpoint::remove(path).map_err(checkpoint_error)?;
    }
    Ok(())
}

/// Writes the model: a file called `.npy` as NPY f32 `[outputs, d + 1]`, any other one with its header. The header holds what the
/// command line decides and what the outcome prints: of a release nothing else.
fn write_model(path: &Path, loaded: &Loaded, privacy: &PrivacyStatement, weights: &[f32]) -> anyhow::Result<()> {
    let model = loaded.problem.model();
    if is_npy(path) {
        let matrix = ndarray::ArrayView2::from_shape((model.outputs, weights.len() / model.outputs), weights)?;
        let mut bytes = Vec::new();
        ndarray_npy::WriteNpyExt::write_npy(&matrix, &mut bytes)?;
        return Ok(files::replace(path, &bytes)?);
    }
    // Algorithm and data have keys of their own.
    let parameters = loaded.parameters.iter().filter_map(|(name, value)| {
        let name = name.trim_start_matches("--");
        (!["algorithm", "data", "schema"].contains(&name)).then(|| (name.to_owned(), value.as_str().into()))
    });
    let (algorithm, data) = (loaded.setup.algorithm.id, loaded.trained_on.clone());
    let header =
        Header::new(algorithm, model.loss, data, parameters.collect(), privacy.clone(), weights, build().clone());
    Ok(files::replace(path, &header.to_file(weights)?)?)
}
