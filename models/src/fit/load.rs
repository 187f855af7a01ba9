//! The first step of a run: settings, checkpoint, key and rows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rounds_algorithms::catalog;
use rounds_algorithms::factorization::FactorizationSource;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{Algorithm, NoiseKind, Settings};
use rounds_algorithms::problem::{Dataset, Domain, Problem, ProblemError, PublicProblem};
use rounds_kernels::instructions;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::booking::{Booking, Stated, book};
use super::error::FitError;
use super::key;
use super::observer::{Execution, Observer, Stage};
use super::release::{check_release, check_units, declared, explained, of_schema};
use super::settings::{DataSettings, Training};
use super::setup::{Setup, public_problem};
use crate::checkpoint::Checkpoint;
use crate::data::part::{Digests, Part};
use crate::data::{self, DataError, TrainTest};
use crate::factorization_file::{FactorizationFile, FactorizationFileError};
use crate::features::moments::Released;
use crate::features::{self, Mapper};
use crate::keyed;
use crate::model_file::{self, Given, TrainedOn, scaled_and_clipped};
use crate::signature::SecretKey;

/// A run before its plan.
pub(super) struct Loaded {
    pub(super) setup: Setup,
    pub(super) problem: Problem,
    pub(super) test: Option<Problem>,
    pub(super) resumed: Option<Checkpoint>,
    /// The run in its ledger.
    pub(super) booking: Option<Booking>,
    /// The training rows' columns and label, for the model's file.
    pub(super) trained_on: TrainedOn,
    /// The source of the run's key.
    pub(super) source: StreamKey,
    /// The run has a [`Binding`](crate::checkpoint::Binding): it is a release or has checkpoints.
    pub(super) is_bound: bool,
    /// SHA-256 of the counts of private bounds, or of the sums of moments. Rows that differ may be encoded alike in bounds that differ.
    pub(super) counted: Option<[u8; 32]>,
    /// The moments of the rows, as the features have them.
    pub(super) released: Option<ReleasedMoments>,
    /// SHA-256 of the rows of all ranks, where there are ranks.
    pub(super) digest: Option<[u8; 32]>,
}

/// What was released of moments.
pub(super) struct ReleasedMoments {
    /// Its noise multiplier.
    pub(super) noise: f64,
    /// What follows for the features.
    pub(super) matrix: Released,
}

/// Reads the settings, the checkpoint and the data; `draw` is the system's generator, and `stated` what a ledger books.
pub(super) fn load(
    training: &Training,
    execution: &Execution,
    observer: &mut dyn Observer,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
    stated: Stated<'_>,
) -> Result<Loaded, FitError> {
    let group = &execution.group;
    let mut setup = group.all_ok(set_up(training, group.is_root()))?;
    setup.settings.calibrations = execution.calibrations.clone();
    if group.ranks().is_some() && training.request(setup.domain.as_ref()).unit.is_some() {
        return group.all_ok(Err(FitError::argument("unit", data::UNITS_OVER_RANKS)));
    }
    if let Some(map) = training.data.features.as_ref().filter(|map| group.ranks().is_some() && map.moments().is_some())
    {
        let problem = "moments are summed in one process; leave out ranks";
        return group.all_ok(Err(FitError::argument(format!("features {map}"), problem)));
    }
    let kept = &training.checkpoint;
    let every = kept.file.is_some().then(|| kept.interval());
    let lines = setup.parameters.iter().map(|(name, value)| format!("`{name}` {value}\n"));
    group.check_same("command line", &(lines.collect::<String>() + &format!("checkpoint every {every:?}")))?;
    if group.count().is_some() {
        // Rounds over ranks of other kernels would not add up to one run.
        group.check_same("build", &(execution.build)().identity())?;
        group.check_same("instruction set", instructions::level())?;
    }
    let is_bound = training.privacy.secure || kept.file.is_some() || kept.resume.is_some();
    if is_bound {
        // The executable is digested while rows are read.
        let build = execution.build;
        thread::spawn(build);
    }
    let resumed = resumed(training, execution)?;
    let source = key::source(training, execution, resumed.as_ref(), draw)?;
    setup.settings.key = keyed::unused(&source);

    let mut booking = group.all_ok(book(training, execution, &setup, resumed.as_ref(), stated))?;
    observer.enter(Stage::Loading);
    let mut counted = None;
    if let (Some(domain), Some(epsilon)) = (&mut setup.domain, training.data.declaration.private_bounds()) {
        let decided = serde_json::to_vec(&(&setup.parameters, (execution.build)().identity(), instructions::level()));
        let decided = decided.expect("names and values");
        let key = |counts: &[u8; 32]| {
            booking.iter_mut().for_each(|booking| booking.has_begun = true);
            keyed::derived(&source, "bounds", &[&counts[..], &decided].concat())
        };
        let bounded = data::bound_privately(&training.data.data, domain, epsilon, key);
        let (bounded, counts) = group.all_ok(bounded.map_err(|error| of_schema(training, error)))?;
        (*domain, counted) = (Arc::new(bounded), Some(counts));
    }
    let planned = planned(training, execution, &setup);
    let mut part = rows(training, execution, setup.domain.as_ref())?;
    let map = training.data.features.as_ref().map(|map| map.on(part.train.columns())).transpose();
    let map = map.and_then(|map| {
        // Under add/remove the number of rows is private.
        let rows = |domain: &Arc<Domain>| domain.relation.public_rows(part.train.len());
        let rows = part.train.domain().map_or(part.train.len(), rows);
        map.as_ref().map_or(Ok(()), |map| map.check_memory(rows)).map(|()| map)
    });
    let map = group.all_ok(map.map_err(FitError::features))?;
    let mut trained_on = TrainedOn {
        private_bounds: training.data.declaration.private_bounds(),
        test_split: training.split(),
        ..TrainedOn::of(&part.train, map.as_ref(), training.data.scale_features, training.data.clip_features)
    };
    let mut released = None;
    let map = match map {
        Some(map) if map.map().moments().is_some() => {
            let decided =
                serde_json::to_vec(&(&setup.parameters, (execution.build)().identity(), instructions::level()));
            let decided = [&counted.unwrap_or_default()[..], &decided.expect("names and values")].concat();
            let key = |sums: &[u8; 32]| keyed::derived(&source, "moments", &[&sums[..], &decided].concat());
            let (moments, sums);
            (part, moments, sums) = release(training, &setup, booking.as_mut(), (&map, part, trained_on.given), key)?;
            counted = Some(Sha256::digest([sums, counted.unwrap_or_default()].concat()).into());
            trained_on.features_sha256 = Some(model_file::digest(&moments.matrix));
            let map = map.with_released(Some(&moments.matrix)).map_err(FitError::features)?;
            released = Some(moments);
            Some(map)
        }
        map => map,
    };
    let (train, loss, test) = group.all_ok(treated(training, map.as_ref(), part))?;
    drop(map);
    if train.domain().is_none() {
        setup.warnings.extend(data::doubts(&train, training.data.declaration.columns.task));
    }
    if !training.privacy.secure {
        setup.warnings.extend(data::unit_doubts(&train));
    }
    // A process alone digests its rows beside its plan.
    let digest = group.ranks().filter(|_| is_bound).map(|ranks| train.digest_over(ranks));
    let regularization = training.optimizer.regularization;
    let problem = match group.ranks() {
        None => training.optimizer.problem(train, loss)?,
        Some(ranks) => {
            let shared = Problem::sharded(train, loss, true, regularization, ranks, |result| group.all_ok(result))?;
            let network = training.optimizer.model_kind.as_ref();
            network.map_or(Ok(()), |_| Err(ProblemError::NetworkRows("rows that ranks share out")))?;
            shared
        }
    };
    let problem = placed(problem, &setup, execution);
    group.all_ok(check_memory(&problem, execution))?;
    check_units(&problem)?;
    if let Some(Ok((public, settings))) = planned.map(JoinHandle::join)
        && public == *problem.public()
    {
        setup.settings = settings;
    }
    Ok(Loaded { setup, problem, test, resumed, booking, trained_on, source, is_bound, counted, released, digest })
}

/// Refuses a run whose features follow from moments where these are not released.
pub(crate) fn check_moments(
    training: &Training,
    algorithm: &Algorithm,
    domain: Option<&Domain>,
) -> Result<(), FitError> {
    let Some(map) = training.data.features.as_ref().filter(|map| map.moments().is_some()) else { return Ok(()) };
    let refused = |problem: &str| Err(FitError::argument(format!("features {map}"), problem));
    if !algorithm.private {
        return refused(
            "the moments that it follows from are released with noise, and this algorithm adds none: take dp-sgd",
        );
    }
    if training.privacy.noise_multiplier.is_some() {
        return refused("its moments take a share of ε, which `noise-multiplier` does not name: give `epsilon`");
    }
    if domain.is_some_and(|domain| domain.unit.is_some()) {
        return refused(
            "a unit moves moments by all of its rows, and what they come to is not bounded: leave it out, or declare no unit",
        );
    }
    if training.model.as_deref().is_some_and(model_file::is_npy) {
        return refused(
            "a file called .npy holds weights alone, and would lose the matrix of the features: name the model .safetensors",
        );
    }
    Ok(())
}

/// Releases the moments that a map follows from, over rows as they were given and loaded: the rows prepared for the map, what follows, and the
/// digest of the sums.
///
/// **Privacy.** The noise is that of a plan from public facts alone, and the plan of the run must state the same ([`super::plan`]). Its key
/// follows from the sums, so that no other sums meet the same noise.
fn release(
    training: &Training,
    setup: &Setup,
    booking: Option<&mut Booking>,
    (map, part, given): (&Mapper, Part, Option<Given>),
    key: impl FnOnce(&[u8; 32]) -> StreamKey,
) -> Result<(Part, ReleasedMoments, [u8; 32]), FitError> {
    let argument = |problem: String| FitError::argument(format!("features {}", map.map()), problem);
    let domain = part.train.domain().cloned();
    let domain = domain
        .ok_or_else(|| argument("a declared domain bounds the norm of rows: give a schema, or bounds".to_owned()))?;
    let problem =
        public_problem(training, (part.train.name(), given), &domain, part.train.records()).map_err(argument)?;
    let planned = setup.algorithm.prepare(&problem, &setup.settings)?.privacy;
    let noise = planned.moments_noise.ok_or_else(|| {
        let id = setup.algorithm.id;
        argument(format!(
            "algorithm '{id}' divides its budget by itself, and leaves moments none: take dp-sgd, dp-mf or dp-ftrl"
        ))
    })?;
    check_release(training, &problem, &planned)?;
    if let Some(booking) = booking {
        booking.begin(&planned, &problem)?;
    }
    let prepared = |rows| map.prepared(rows).map_err(|error| explained(training, error));
    let part = Part { train: prepared(part.train)?, test: part.test.map(prepared).transpose()?, ..part };
    let sums = map.sums(&part.train).map_err(FitError::features)?;
    // Another step, sensitivity or multiplier would scale the same noise otherwise.
    let digest = Sha256::digest([&sums.digest()[..], &noise.to_le_bytes()].concat()).into();
    let moments = sums.released(noise, &key(&digest)).map_err(|problem| argument(problem.to_owned()))?;
    let matrix = map.following(&moments).map_err(FitError::features)?;
    Ok((part, ReleasedMoments { noise, matrix }, digest))
}

/// Refuses a network whose sums, gradients and weights exceed the memory of the machine, by public numbers.
fn check_memory(problem: &Problem, execution: &Execution) -> Result<(), FitError> {
    let Some(network) = problem.network() else { return Ok(()) };
    let (sums, threads) = (problem.leaves(problem.public().rows()), execution.engine.threads());
    // Sums in f64, on a thread a gradient and its sums in 4 bytes each, and weights, padded, in rows and columns and with their state.
    let bytes = network.parameters() as f64 * (8 * (sums + 1) + 8 * threads + 32) as f64;
    let taken = || format!("{} parameters, in {sums} sums and on {threads} threads, take", network.parameters());
    features::check_memory(bytes, taken)
        .map_err(|problem| FitError::argument("model-kind", problem + "; take smaller layers"))
}

/// The algorithm, its settings and the domain; refusals that need no row.
fn set_up(training: &Training, is_root: bool) -> Result<Setup, FitError> {
    let algorithm = catalog::find(&training.algorithm)?;
    let regularization = training.optimizer.regularization;
    if !(regularization >= 0.0 && regularization.is_finite()) {
        let argument = format!("regularization {regularization}");
        return Err(FitError::argument(argument, "a finite number of at least 0 is needed"));
    }
    if training.checkpoint.every == Some(0) {
        return Err(FitError::argument("checkpoint-every", "at least 1 round is needed"));
    }
    if let Some(path) = training.model.as_ref().filter(|_| is_root) {
        // Before the work rather than after it.
        model_file::check_place(path, training.privacy.secure)?;
    }
    let kept = [&training.checkpoint.file, &training.checkpoint.resume];
    if let Some(path) = kept.into_iter().flatten().find(|&path| training.model.as_ref() == Some(path)) {
        let problem = format!("{} is the checkpoint; name another file for the model", path.display());
        return Err(FitError::argument("model", problem));
    }
    if training.sign.is_some() && !training.privacy.secure {
        return Err(FitError::argument("sign", "only a release is signed; give `secure`"));
    }
    let signer = training.sign.as_ref().filter(|_| is_root).map(|path| SecretKey::read(path)).transpose()?;
    let (domain, warnings) = declared(training)?;
    check_moments(training, algorithm, domain.as_deref())?;
    if let (Some(map), Some(domain)) = (&training.data.features, &domain) {
        // Before rows are read.
        map.on(domain.features()).map_err(FitError::features)?;
    }
    let parameters = training.bound_parameters(domain.as_deref());
    let (settings, factorization_used) = with_factorization(training, algorithm)?;
    Ok(Setup { algorithm, settings, domain, warnings, factorization_used, parameters, signer })
}

/// The settings of the algorithm, with the factorisation that is given, and a flag that is set when it is used.
pub(crate) fn with_factorization(
    training: &Training,
    algorithm: &Algorithm,
) -> Result<(Settings, Option<Arc<AtomicBool>>), FitError> {
    let mut settings = training.settings(algorithm)?;
    let given = training.privacy.factorization.as_deref().map(given_factorization).transpose()?;
    let factorization_used = given.map(|(source, used)| {
        if algorithm.reads("noise") {
            settings.set("noise", NoiseKind::Optimal);
        }
        settings.strategies = StrategyMemory::filled_from(source);
        used
    });
    Ok((settings, factorization_used))
}

/// A source of the factorisation in a file, checked against every request, and a flag that the first request sets.
fn given_factorization(path: &Path) -> Result<(FactorizationSource, Arc<AtomicBool>), FactorizationFileError> {
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
fn resumed(training: &Training, execution: &Execution) -> Result<Option<Checkpoint>, FitError> {
    let Some(path) = &training.checkpoint.resume else {
        return Ok(None);
    };
    let group = &execution.group;
    let read = if group.is_root() { Checkpoint::bytes(path) } else { Ok(Zeroizing::default()) };
    let bytes = group.broadcast_secret(group.all_ok(read)?);
    group.all_ok(Checkpoint::parse(path, &bytes).map(Some))
}

/// A plan made while rows are read, where a file's header promises their number: calibrations and factorisations take as long as rows
/// take to unpack. The settings remember them; the plan itself, and its error, are left to the next step.
///
/// **Privacy.** It reads the settings, the declared domain and the number of rows, which is public under zero-out and replace-one and not
/// read under add/remove. What it remembers is used where the loaded problem has the same public part, and follows from that alone.
fn planned(training: &Training, execution: &Execution, setup: &Setup) -> Option<JoinHandle<(PublicProblem, Settings)>> {
    let (optimizer, data) = (&training.optimizer, &training.data);
    if execution.group.ranks().is_some()
        || data.rows.is_some()
        || data.features.is_some()
        || setup.factorization_used.is_some()
    {
        return None;
    }
    let domain = setup.domain.as_ref().filter(|domain| domain.unit.is_none())?;
    let (name, rows) = data::promised_rows(&data.data, data.data_dir.as_deref())?;
    let loss = optimizer.loss.unwrap_or(if domain.classes().is_some() { Loss::Softmax } else { Loss::Squared });
    let mut public = PublicProblem::of_domain(name, domain, rows, loss, optimizer.regularization).ok()?;
    if let Some(network) = &optimizer.model_kind {
        public = public.with_network(network).ok()?;
    }
    let algorithm = setup.algorithm;
    let Settings { key, calibrations, .. } = setup.settings.clone();
    let settings = Settings { key, calibrations, ..training.settings(algorithm).ok()? };
    Some(thread::spawn(move || {
        drop(algorithm.prepare(&public, &settings));
        (public, settings)
    }))
}

/// This rank's training rows and the test rows.
fn rows(training: &Training, execution: &Execution, domain: Option<&Arc<Domain>>) -> Result<Part, FitError> {
    let group = &execution.group;
    let request = training.request(domain);
    let part = match &training.data.rows {
        None => group.read_part(&training.data.data, training.data.data_dir.as_deref(), request),
        Some(_) if group.ranks().is_some() => group.all_ok(Err(FitError::argument(
            "data",
            "ranks read their rows from files; rows in memory are for one process",
        )))?,
        Some(rows) => {
            let rows = request
                .split
                .map_or_else(|| Ok(TrainTest::clone(rows)), |split| rows.split(Path::new(&training.data.data), split));
            rows.map(|rows| Part { train: rows.train, test: rows.test, digests: Digests::default() })
        }
    };
    let mut part = group.all_ok(part.map_err(|error: DataError| explained(training, error)))?;
    if let (Some(_), Some(domain)) = (&training.data.rows, domain) {
        // What the run declares of its test rows.
        let of_run = |rows: Dataset| rows.in_domain(Arc::clone(domain)).map_err(|error| explained(training, error));
        part = Part { train: of_run(part.train)?, test: part.test.map(of_run).transpose()?, ..part };
    }
    group.check_same_rows(&part.digests)?;
    Ok(part)
}

/// Rows, which are prepared for the map of their features, with treated features and the targets of their loss, and the loss.
fn treated(
    training: &Training,
    map: Option<&Mapper>,
    part: Part,
) -> Result<(Dataset, Loss, Option<Problem>), FitError> {
    let treat = |dataset: Dataset| {
        let DataSettings { scale_features, clip_features, .. } = training.data;
        let dataset = match map {
            Some(map) => map.finished(dataset),
            None => Ok(dataset),
        };
        let dataset = dataset.and_then(|dataset| scaled_and_clipped(dataset, scale_features, clip_features));
        let fitting = dataset.and_then(|dataset| dataset.for_loss(training.optimizer.loss));
        fitting.map_err(|error| explained(training, error))
    };
    let (train, loss) = treat(part.train)?;
    let test = part.test.map(treat).transpose()?;
    let test = test.map(|(test, loss)| training.optimizer.problem(test, loss));
    Ok((train, loss, test.transpose().map_err(|error: ProblemError| error)?))
}

/// The problem with what the run needs of its rows.
pub(super) fn placed(problem: Problem, setup: &Setup, execution: &Execution) -> Problem {
    let mut problem = problem.placed_for(&execution.engine);
    // A run without a claim may read constants off the rows.
    if !setup.algorithm.private || problem.unclaimable().is_some() {
        problem = problem.with_longest_row();
    }
    let smoothness = setup.settings.parameters.get("smoothness");
    if smoothness.is_some_and(|value| value == "estimate") && execution.group.count().is_none() {
        problem = problem.with_second_moment();
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MNIST's files with so many training rows.
    fn write_mnist(folder: &Path, rows: u32) {
        let file = |name: &str, shape: &[u32], payload: Vec<u8>| {
            let sizes: Vec<u8> = shape.iter().flat_map(|size| size.to_be_bytes()).collect();
            let header = [0, 0, 8, shape.len() as u8];
            std::fs::write(folder.join(name), [&header[..], &sizes, &payload].concat()).unwrap();
        };
        for (part, rows) in [("train", rows), ("t10k", 10)] {
            file(&format!("{part}-images-idx3-ubyte"), &[rows, 28, 28], vec![7; 784 * rows as usize]);
            file(&format!("{part}-labels-idx1-ubyte"), &[rows], (0..rows).map(|row| (row % 10) as u8).collect());
        }
    }

    #[test]
    fn a_plan_by_the_header_is_remembered_for_the_problem_that_is_loaded_alone() {
        let folder = tempfile::tempdir().unwrap();
        write_mnist(folder.path(), 120);
        let coefficients = |change: &dyn Fn(&mut Training)| {
            let mut training = Training::on("mnist").private(1.0, 1e-5);
            (training.algorithm, training.optimizer.batch_size) = ("dp-mf".to_owned(), Some(20));
            training.data.data_dir = Some(folder.path().to_owned());
            change(&mut training);
            let loaded =
                load(&training, &Execution::default(), &mut (), key::of_system, &crate::fit::booking::of_run).unwrap();
            let early = loaded.setup.settings.strategies.digest();
            loaded.setup.algorithm.prepare(&loaded.problem, &loaded.setup.settings).unwrap();
            (early, loaded.setup.settings.strategies.digest().unwrap())
        };
        let (early, used) = coefficients(&|_| ());
        assert_eq!(early, Some(used));
        // Rows that are treated are another problem than that of the header.
        assert_eq!(coefficients(&|training| training.data.scale_features = Some(0.5)).0, None);
    }
}
