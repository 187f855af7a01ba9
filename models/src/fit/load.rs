//! The second step of a run: its rows, and what is released of them before the plan.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::Settings;
use rounds_algorithms::privacy::PrivacyStatement;
use rounds_algorithms::problem::{Dataset, DatasetError, Domain, Problem, ProblemError, PublicProblem, Relation};
use rounds_kernels::loss::Loss;
use sha2::{Digest as _, Sha256};

use super::booking::Booking;
use super::error::FitError;
use super::observer::Execution;
use super::settings::{DataSettings, Training};
use super::setup::{Setup, check_rows, of_schema, public_problem};
use crate::data::part::{Digests, Part};
use crate::data::{self, DataError, TrainTest};
use crate::factorization_cache;
use crate::features::moments::Released;
use crate::features::{self, Mapper};
use crate::keyed::derived;
use crate::model_file::{self, Given, TrainedOn, scaled_and_clipped};

/// A run with its rows, before its plan.
pub(super) struct Loaded {
    pub(super) setup: Setup,
    pub(super) problem: Problem,
    pub(super) test: Option<Problem>,
    /// The run in its ledger.
    pub(super) booking: Option<Booking>,
    /// The training rows' columns and label, for the model's file.
    pub(super) trained_on: TrainedOn,
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

impl Loaded {
    /// The rounds are about to begin: the room of their model is taken on the disk, until what is returned is dropped, and then the run in the
    /// ledger begins ([`Booking::begin`]).
    pub(super) fn begin(&mut self, stated: &PrivacyStatement) -> Result<Option<File>, FitError> {
        let held = self.setup.room.take();
        let Setup { training, execution: Execution { group, .. }, .. } = &self.setup;
        let place = training.model.as_deref().filter(|_| group.is_root());
        let weights = self.problem.parameters() + self.released.as_ref().map_or(0, |released| released.matrix.len());
        let room = group.all_ok(place.map(|path| model_file::reserve(path, weights, held)).transpose())?;
        if let Some(booking) = &mut self.booking {
            booking.begin(stated, self.problem.public())?;
        }
        Ok(room.flatten())
    }
}

/// Reads and treats the rows of a run that is set up, and booked if it has a ledger. An error drops the setup first, and with it the room
/// reserved for the model: a booking is given back by a line in the ledger, which needs disk space, too.
pub(super) fn load(mut booking: Option<Booking>, mut setup: Setup) -> Result<Loaded, FitError> {
    let (training, group) = (&setup.training, &setup.execution.group);
    let (data, optimizer) = (&training.data, &training.optimizer);
    let mut counted = None;
    if let (Some(domain), Some(epsilon)) = (setup.domain.clone(), data.declaration.private_bounds()) {
        let decided = setup.decided();
        let key = |counts: &[u8; 32]| {
            booking.iter_mut().for_each(|booking| booking.has_begun = true);
            derived(&setup.source, "bounds", &[&counts[..], &decided].concat())
        };
        let bounded = data::bound_privately(&data.data, &domain, epsilon, key);
        let (bounded, counts) = group.all_ok(bounded.map_err(|error| of_schema(training, error)))?;
        (setup.domain, counted) = (Some(Arc::new(bounded)), Some(counts));
    }
    let planned = planned(&setup);
    let mut part = setup.all_read(rows(&setup))?;
    group.check_same_rows(&part.digests)?;
    let map = data.features.as_ref().map(|map| map.on(part.train.columns())).transpose();
    let map = map.and_then(|map| {
        // Under add/remove the number of rows is private; of units that of all rows, which are as many as the units or more.
        let rows = |domain: &Arc<Domain>| domain.relation.public_rows(part.train.records());
        let rows = part.train.domain().map_or(part.train.len(), rows);
        map.as_ref().map_or(Ok(()), |map| map.check_memory(rows)).map(|()| map)
    });
    let map = group.all_ok(map.map_err(FitError::features))?;
    let mut trained_on = TrainedOn {
        private_bounds: data.declaration.private_bounds(),
        test_split: training.split(),
        ..TrainedOn::of(&part.train, map.as_ref(), data.scale_features, data.clip_features)
    };
    let mut released = None;
    let map = match map {
        Some(map) if map.map().moments().is_some() => {
            let (moments, sums);
            (part, moments, sums) = release(&setup, booking.as_mut(), (&map, part, trained_on.given), counted)?;
            counted = Some(Sha256::digest([sums, counted.unwrap_or_default()].concat()).into());
            trained_on.features_sha256 = Some(model_file::digest(&moments.matrix));
            let map = map.with_released(Some(&moments.matrix)).map_err(FitError::features)?;
            released = Some(moments);
            Some(map)
        }
        map => map,
    };
    let treat = |rows| treated(training, map.as_ref(), rows);
    let (train, loss) = setup.all_read(treat(part.train))?;
    let test = setup.all_read(part.test.map(treat).transpose())?;
    let test = group.all_ok(test.map(|(test, loss)| optimizer.problem(test, loss)).transpose())?;
    drop(map);
    if train.domain().is_none() {
        setup.warnings.extend(data::doubts(&train, data.declaration.columns.task));
    }
    if !training.privacy.secure {
        setup.warnings.extend(data::unit_doubts(&train));
    }
    // A process alone digests its rows beside its plan.
    let digest = group.ranks().filter(|_| setup.is_bound).map(|ranks| train.digest_over(ranks));
    let problem = match group.ranks() {
        None => optimizer.problem(train, loss)?,
        Some(ranks) => {
            let regularization = optimizer.regularization;
            let shared = Problem::sharded(train, loss, true, regularization, ranks, |result| group.all_ok(result))?;
            let network = optimizer.model_kind.as_ref();
            network.map_or(Ok(()), |_| Err(ProblemError::NetworkRows("rows that ranks share out")))?;
            shared
        }
    };
    let problem = placed(problem, &setup);
    group.all_ok(check_memory(&problem, &setup.execution))?;
    check_units(&problem)?;
    if let Some(Ok((public, settings))) = planned.map(JoinHandle::join)
        && public == *problem.public()
    {
        setup.settings = settings;
    }
    Ok(Loaded { setup, problem, test, booking, trained_on, counted, released, digest })
}

/// Releases the moments that a map follows from, over rows as they were given and loaded: the rows prepared for the map, what follows, and the
/// digest of the sums.
///
/// **Privacy.** The noise is that of a plan from public facts alone, and the plan of the run must state the same ([`super::plan`]). Its key
/// follows from the sums, so that no other sums meet the same noise.
fn release(
    setup: &Setup,
    booking: Option<&mut Booking>,
    (map, part, given): (&Mapper, Part, Option<Given>),
    counted: Option<[u8; 32]>,
) -> Result<(Part, ReleasedMoments, [u8; 32]), FitError> {
    let training = &setup.training;
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
    training.privacy.check_release(&problem, &planned)?;
    check_rows(part.train.records(), &problem)?;
    let prepared = |rows| setup.all_read(map.prepared(rows));
    let part = Part { train: prepared(part.train)?, test: part.test.map(prepared).transpose()?, ..part };
    let sums = map.sums(&part.train).map_err(FitError::features)?;
    // Another step, sensitivity or multiplier would scale the same noise otherwise.
    let digest: [u8; 32] = Sha256::digest([&sums.digest()[..], &noise.to_le_bytes()].concat()).into();
    let of_noise = |problem: &str| argument(problem.to_owned());
    sums.deviation(noise).map_err(of_noise)?;
    if let Some(booking) = booking {
        booking.begin(&planned, &problem)?;
    }
    let decided = [&digest[..], &counted.unwrap_or_default(), &setup.decided()].concat();
    let moments = sums.released(noise, &derived(&setup.source, "moments", &decided)).map_err(of_noise)?;
    let matrix = map.following(&moments).map_err(FitError::features)?;
    Ok((part, ReleasedMoments { noise, matrix }, digest))
}

/// Refuses rows of one unit, whose number is public but under add-remove.
fn check_units(problem: &Problem) -> Result<(), FitError> {
    let is_public = !matches!(problem.relation(), Relation::AddRemove { .. });
    match problem.public().unit() {
        Some(unit) if is_public && problem.rows() == 1 => {
            let unit = unit.column.as_ref().map_or_else(|| "unit-ids".to_owned(), |column| format!("unit {column}"));
            let problem =
                "all rows are of one unit, and a model of it would be a model of one: name what tells people apart";
            Err(FitError::argument(unit, problem))
        }
        _ => Ok(()),
    }
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

/// A plan made while rows are read, where a file's header promises their number: calibrations and factorisations take as long as rows
/// take to unpack. The settings remember them; the plan itself, and its error, are left to the next step.
///
/// **Privacy.** It reads the settings, the declared domain and the number of rows, which is public under zero-out and replace-one and not
/// read under add/remove. What it remembers is used where the loaded problem has the same public part, and follows from that alone.
fn planned(setup: &Setup) -> Option<JoinHandle<(PublicProblem, Settings)>> {
    let data = &setup.training.data;
    if setup.execution.group.ranks().is_some()
        || data.rows.is_some()
        || data.features.is_some()
        || setup.factorization_used.is_some()
    {
        return None;
    }
    let domain = setup.domain.as_ref().filter(|domain| domain.unit.is_none())?;
    let (name, rows) = data::promised_rows(&data.data, data.data_dir.as_deref())?;
    let public = public_problem(&setup.training, (&name, None), domain, rows).ok()?;
    let algorithm = setup.algorithm;
    let strategies = StrategyMemory::filled_from(factorization_cache::source());
    let settings = Settings { strategies, ..setup.settings.clone() };
    Some(thread::spawn(move || {
        drop(algorithm.prepare(&public, &settings));
        (public, settings)
    }))
}

/// This rank's training rows and the test rows.
fn rows(setup: &Setup) -> Result<Part, DataError> {
    let Setup { training, execution, domain, .. } = setup;
    let (data, request) = (&training.data, training.request(domain.as_ref()));
    let Some(rows) = &data.rows else {
        return execution.group.read_part(&data.data, data.data_dir.as_deref(), request);
    };
    let rows = match request.split {
        None => TrainTest::clone(rows),
        Some(split) => rows.split(Path::new(&data.data), split)?,
    };
    // What the run declares of its test rows.
    let of_run = |rows: Dataset| match domain {
        None => Ok(rows),
        Some(domain) => rows.in_domain(Arc::clone(domain)),
    };
    Ok(Part { train: of_run(rows.train)?, test: rows.test.map(of_run).transpose()?, digests: Digests::default() })
}

/// Rows, which are prepared for the map of their features, with treated features and the targets of their loss, and the loss.
fn treated(training: &Training, map: Option<&Mapper>, rows: Dataset) -> Result<(Dataset, Loss), DatasetError> {
    let DataSettings { scale_features, clip_features, .. } = training.data;
    let rows = match map {
        Some(map) => map.finished(rows)?,
        None => rows,
    };
    scaled_and_clipped(rows, scale_features, clip_features)?.for_loss(training.optimizer.loss)
}

/// The problem with what the run needs of its rows.
pub(super) fn placed(problem: Problem, setup: &Setup) -> Problem {
    let mut problem = problem.placed_for(&setup.execution.engine);
    // A run without a claim may read constants off the rows.
    if !setup.algorithm.private || problem.unclaimable().is_some() {
        problem = problem.with_longest_row();
    }
    let smoothness = setup.settings.parameters.get("smoothness");
    if smoothness.is_some_and(|value| value == "estimate") && setup.execution.group.count().is_none() {
        problem = problem.with_second_moment();
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::super::setup::{of_system, set_up};
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
            let setup = set_up(&training, &Execution::default(), of_system).unwrap();
            let loaded = load(None, setup).unwrap();
            let early = loaded.setup.settings.strategies.digest();
            loaded.setup.algorithm.prepare(&loaded.problem, &loaded.setup.settings).unwrap();
            (early, loaded.setup.settings.strategies.digest().unwrap())
        };
        let (early, used) = coefficients(&|_| ());
        assert_eq!(early, Some(used));
        let (early, used) = coefficients(&|training| training.data.scale_features = Some(0.5));
        assert_eq!(early, Some(used), "of treated rows, too");
        // A run that claims nothing reads the longest row, so that its problem is another one than that of the header.
        let schema = folder.path().join("schema.toml");
        let classes = (0..10).map(|class| format!("\"{class}\"")).collect::<Vec<_>>().join(", ");
        let columns = "[columns]\ncount = 784\nbounds = [0, 255]\n";
        let text = format!("drafted = true\n[rows]\nstorage = \"bytes\"\n{columns}[label]\nclasses = [{classes}]\n");
        std::fs::write(&schema, text).unwrap();
        assert_eq!(coefficients(&|training| training.data.declaration.schema = Some(schema.clone())).0, None);
    }
}
