//! The first step of a run: all that its settings decide, before a row is read.
//!
//! Whatever a run must not do stands here, where no row is needed to know it: once, for every face and for the verifier. Only a run that is
//! no release reads rows so early, to draft the domain of a table that nothing declares.

use std::fmt::Display;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rounds_algorithms::catalog;
use rounds_algorithms::factorization::FactorizationSource;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{Algorithm, NoiseKind, Settings};
use rounds_algorithms::problem::{
    BYTE_SCALE, Claims, Dataset, DatasetError, Domain, DomainSource, Features, Labels, MOST_ROWS_PER_PUBLIC_ROW,
    NoClaim, PublicProblem, Relation, SparseMatrix, Storage, UnitIds,
};
use rounds_kernels::instructions;
use rounds_kernels::random::StreamKey;
use zeroize::Zeroizing;

use super::error::FitError;
use super::observer::Execution;
use super::settings::{DataSettings, Training};
use crate::checkpoint::{self, Checkpoint};
use crate::data::{self, DataError, Declaration, SchemaError, schema};
use crate::factorization_file::{FactorizationFile, FactorizationFileError};
use crate::features::Mapper;
use crate::files::identity;
use crate::group::Group;
use crate::keyed;
use crate::model_file::{self, Given, NormBound, scaled_and_clipped};
use crate::signature::SecretKey;
use crate::text::quoted;

/// A run before its rows: its settings, and all that they decide.
pub(super) struct Setup {
    pub(super) training: Training,
    pub(super) execution: Execution,
    pub(super) algorithm: &'static Algorithm,
    pub(super) settings: Settings,
    pub(super) domain: Option<Arc<Domain>>,
    /// Warnings about a drafted domain, then about rows without one.
    pub(super) warnings: Vec<String>,
    /// Set when the algorithm takes the factorisation of a file.
    pub(super) factorization_used: Option<Arc<AtomicBool>>,
    /// Every setting that decides the model, as name and value.
    pub(super) parameters: Vec<(String, String)>,
    /// The signer of the statement, on rank 0.
    pub(super) signer: Option<SecretKey>,
    pub(super) resumed: Option<Checkpoint>,
    /// The source of the run's key.
    pub(super) source: StreamKey,
    /// The run has a [`Binding`](crate::checkpoint::Binding): it is a release or has checkpoints.
    pub(super) is_bound: bool,
    /// Disk space reserved for the model, until the rounds begin.
    pub(super) room: Option<File>,
}

impl Setup {
    /// What every rank has read, or the error of the first that failed; a release's error tells nothing of the rows.
    pub(super) fn all_read<T, E: Into<DataError>>(&self, read: Result<T, E>) -> Result<T, FitError> {
        self.execution.group.all_ok(read.map_err(|error| explained(&self.training, error)))
    }

    /// Settings, build and vector extension as bytes, for the keys of noise that is drawn before the plan is known: of private bounds and moments.
    pub(super) fn decided(&self) -> Vec<u8> {
        let decided = (&self.parameters, (self.execution.build)().identity(), instructions::vector_extension());
        serde_json::to_vec(&decided).expect("names and values")
    }
}

/// The first step: reads the settings and the checkpoint, and draws the run's source of randomness; `draw` is the system's generator.
pub(super) fn set_up(
    training: &Training,
    execution: &Execution,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
) -> Result<Setup, FitError> {
    let group = &execution.group;
    let decided = || {
        let algorithm = catalog::find(&training.algorithm)?;
        let signer = check_places(training, group.is_root())?;
        let (domain, warnings) = declared(training)?;
        check_moments(training, algorithm, domain.as_deref())?;
        let room = domain.as_ref().map(|domain| room(training, domain, group.is_root())).transpose()?;
        let settings = with_factorization(training, algorithm)?;
        Ok::<_, FitError>((algorithm, signer, domain, warnings, room.flatten(), settings))
    };
    let (algorithm, signer, domain, warnings, room, (mut settings, factorization_used)) = group.all_ok(decided())?;
    let parameters = training.bound_parameters(domain.as_deref());
    check_ranks(training, execution, domain.as_ref(), &parameters)?;
    let kept = &training.checkpoint;
    let is_bound = training.privacy.secure || kept.file.is_some() || kept.resume.is_some();
    if is_bound {
        // The executable is digested while rows are read.
        let build = execution.build;
        thread::spawn(build);
    }
    let resumed = resumed(training, group)?;
    let source = source(training, group, resumed.as_ref(), draw)?;
    settings.calibrations = execution.calibrations.clone();
    settings.key = keyed::unused(&source);
    Ok(Setup {
        training: training.clone(),
        execution: execution.clone(),
        algorithm,
        settings,
        domain,
        warnings,
        factorization_used,
        parameters,
        signer,
        resumed,
        source,
        is_bound,
        room,
    })
}

/// Refuses features that do not fit the domain, and reserves the model's disk space where private bounds or moments are released: their
/// budget is spent before the rounds, which reserve it otherwise ([`super::load::Loaded::begin`]).
///
/// **Privacy.** It reads the settings and the declared domain, and no row; the size has no number of rows.
fn room(training: &Training, domain: &Arc<Domain>, is_root: bool) -> Result<Option<File>, FitError> {
    let map = training.data.features.as_ref().map(|map| map.on(domain.features())).transpose();
    let matrix = map.map_err(FitError::features)?.map_or(0, |map| map.numbers());
    let is_early = matrix > 0 || training.data.declaration.private_bounds().is_some();
    let Some(path) = training.model.as_ref().filter(|_| is_root && is_early) else { return Ok(None) };
    // Without a public part the next steps have the error.
    let public = public_problem(training, (&training.data.data, None), domain, 1);
    Ok(model_file::reserve(path, public.map_or(0, |public| public.parameters()) + matrix, None)?)
}

/// Refuses a regularizer, and files, that no run has, before the work rather than after it; the signer.
fn check_places(training: &Training, is_root: bool) -> Result<Option<SecretKey>, FitError> {
    let (kept, model) = (&training.checkpoint, &training.model);
    let regularization = training.optimizer.regularization;
    if !(regularization >= 0.0 && regularization.is_finite()) {
        let argument = format!("regularization {regularization}");
        return Err(FitError::argument(argument, "a finite number of at least 0 is needed"));
    }
    if kept.every == Some(0) {
        return Err(FitError::argument("checkpoint-every", "at least 1 round is needed"));
    }
    if let Some(path) = model.as_ref().filter(|_| is_root) {
        model_file::check_place(path, training.privacy.secure)?;
    }
    if let Some(path) = kept.file.as_ref().filter(|_| is_root) {
        checkpoint::check_free(path, kept.resume.as_deref())?;
    }
    if let Some(path) = model
        && [&kept.file, &kept.resume].contains(&model)
    {
        let problem = format!("{} is the checkpoint; name another file for the model", path.display());
        return Err(FitError::argument("model", problem));
    }
    if training.sign.is_some() && !training.privacy.secure {
        return Err(FitError::argument("sign", "only a release is signed; give `secure`"));
    }
    let is_device = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.file_type().is_char_device());
    if let Some(path) =
        model.as_ref().filter(|path| training.privacy.secure && training.ledger.is_some() && is_device(path))
    {
        let problem = format!("{} is a device and stores no model; a release in a ledger needs a file", path.display());
        return Err(FitError::argument("model", problem));
    }
    Ok(training.sign.as_ref().filter(|_| is_root).map(|path| SecretKey::read(path)).transpose()?)
}

/// Refuses runs that ranks do not share, and ranks that would run another one.
fn check_ranks(
    training: &Training,
    execution: &Execution,
    domain: Option<&Arc<Domain>>,
    parameters: &[(String, String)],
) -> Result<(), FitError> {
    let (group, data) = (&execution.group, &training.data);
    if group.ranks().is_some() && training.request(domain).unit.is_some() {
        return group.all_ok(Err(FitError::argument("unit", data::UNITS_OVER_RANKS)));
    }
    if let Some(map) = data.features.as_ref().filter(|map| group.ranks().is_some() && map.moments().is_some()) {
        let problem = "moments are summed in one process; leave out ranks";
        return group.all_ok(Err(FitError::argument(format!("features {map}"), problem)));
    }
    if group.ranks().is_some() && data.rows.is_some() {
        let problem = "ranks read their rows from files; rows in memory are for one process";
        return group.all_ok(Err(FitError::argument("data", problem)));
    }
    let kept = &training.checkpoint;
    let every = kept.file.is_some().then(|| kept.interval());
    let lines = parameters.iter().map(|(name, value)| format!("`{name}` {value}\n"));
    group.check_same("command line", &(lines.collect::<String>() + &format!("checkpoint every {every:?}")))?;
    if group.count().is_some() {
        // Rounds over ranks of other kernels would not add up to one run.
        group.check_same("build", &(execution.build)().identity())?;
        group.check_same("instruction set", instructions::vector_extension())?;
    }
    Ok(())
}

impl Claims for Training {
    fn claims(&self) -> bool {
        self.privacy.secure
    }
}

/// The error of loading: of a release without anything of the rows.
pub(super) fn explained(training: &Training, error: impl Into<DataError>) -> FitError {
    let error = error.into();
    match NoClaim::of(training) {
        None => FitError::Data(error),
        Some(witness) => FitError::Explained(error.explained(witness)),
    }
}

/// The error of a declaration, as [`explained`].
pub(super) fn of_schema(training: &Training, error: SchemaError) -> FitError {
    match error {
        SchemaError::Data(error) => explained(training, error),
        error => FitError::Schema(error),
    }
}

/// The declared domain of the data, from a schema or declarations; a release needs one that a person has confirmed. For a run that is
/// no release the domain of a table that nothing declares is drafted from its rows; then there are warnings.
fn declared(training: &Training) -> Result<(Option<Arc<Domain>>, Vec<String>), FitError> {
    let secure = training.privacy.secure;
    let declaration = training.data.declaration.clone();
    let declaration = Declaration { relation: training.privacy.adjacency.or(declaration.relation), ..declaration };
    let (mut domain, mut warnings) = (domain(training, &declaration)?, Vec::new());
    if let Some(domain) = domain.as_ref().filter(|_| secure) {
        check_unit_flags(&declaration, domain)?;
    }
    let has_ids = declaration.unit_ids.is_some();
    if secure && training.data.rows.is_none() && !has_ids && data::deals_users(&training.data.data) {
        let problem = "its users are dealt out by the labels of all rows, for studies, so that no claim holds for one of them: a release \
                       needs the ids of its units (`unit-ids FILE`)";
        return Err(FitError::argument("data", problem));
    }
    match (&domain, draft_command(training)) {
        (Some(of), Some(draft)) if secure && !of.is_draft() && declaration.columns_are_guessed(of) => {
            let problem = format!(
                "`bounds` for all columns takes every column of the header for a number, and a word in one would be \
                 lost. Declare the columns by name: by a schema, which `{draft}` drafts for you to check (`bounds \
                 private:EPSILON` may stay), or by `bounds NAME=LO:HI,…` for each of them"
            );
            return Err(FitError::argument("bounds", problem));
        }
        (None, draft) if secure => {
            let remedy = draft.map_or_else(
                || "Rows in memory carry it, their `domain`".to_owned(),
                |draft| {
                    format!(
                        "`{draft}` drafts a schema to check; for rows of numbers without a header `bounds LO,HI` `dimension D` \
                         `classes A,B` are enough"
                    )
                },
            );
            let known = "columns, bounds and classes that are known without the rows";
            let problem = format!("a release needs the declared domain of its data: {known}. {remedy}");
            return Err(FitError::argument("secure", problem));
        }
        (None, Some(_)) => {
            let drafted = data::drafted(&training.data.data, &declaration);
            let drafted = drafted.map_err(|error| of_schema(training, error))?;
            (domain, warnings) = drafted.map_or_else(Default::default, |(domain, warnings)| (Some(domain), warnings));
        }
        _ => {}
    }
    if let Some(domain) = &domain {
        check_domain(training, domain)?;
    }
    // Rows of a split are of the private file, whatever the schema says of test rows. No file shows that test rows in memory are none of the
    // training rows, and a comparison of rows would tell of them; the model evaluates public rows after the run.
    let is_private = training.data.test_split.is_some() || (secure && training.data.rows.is_some());
    if let Some(domain) = domain.as_mut().filter(|_| is_private) {
        Arc::make_mut(domain).test_is_public = false;
    }
    Ok((domain, warnings))
}

/// The domain that rows in memory carry, or that the data at a place are declared in.
fn domain(training: &Training, declaration: &Declaration) -> Result<Option<Arc<Domain>>, FitError> {
    let Some(rows) = &training.data.rows else {
        let mut declaration = declaration.clone();
        if training.privacy.secure {
            // They declare nothing; they may repeat what the schema declares.
            (declaration.columns.unit, declaration.unit_ids) = (None, None);
        }
        let declared = data::declare(&training.data.data, training.data.data_dir.as_deref(), &declaration);
        let declared = declared.map_err(|error| of_schema(training, error))?;
        check_test_rows(training, declared.as_ref())?;
        return Ok(declared);
    };
    if training.data.declaration != Declaration::default() || training.data.test.is_some() {
        let problem = "rows in memory carry their domain and their test rows; leave out declarations and `test`";
        return Err(FitError::argument("data", problem));
    }
    let domain = rows.train.domain().cloned();
    if let Some(domain) = &domain {
        let kept = schema::keeps(domain).and_then(|()| match domain.source {
            DomainSource::PrivateBounds(_) => {
                Err("its bounds were read off rows; give `bounds private:EPSILON` to the run of a table".to_owned())
            }
            _ => Ok(()),
        });
        kept.map_err(|reason| {
            FitError::argument("data", format!("the domain of these rows enters no statement: {reason}"))
        })?;
    }
    // Else the number of rows would set batches and divisors of a claim that keeps it private.
    let drawn_for = domain.as_ref().map(|domain| domain.relation.adjacency());
    if let (Some(given), Some(declared)) = (training.privacy.adjacency, drawn_for)
        && given != declared
    {
        let problem = format!("{given} is not the relation of the rows' domain, {declared}; declare it there");
        return Err(FitError::argument("adjacency", problem));
    }
    Ok(domain)
}

/// The command that drafts the schema of these data, to the place where a run finds it. None for rows in memory.
pub(super) fn draft_command(training: &Training) -> Option<String> {
    if training.data.rows.is_some() {
        return None;
    }
    let (path, columns) = (&training.data.data, &training.data.declaration.columns);
    let mut command = format!("rounds schema {}", quoted(path));
    let mut add = |flag: &str, value: &str| command.extend([flag, &quoted(value)]);
    columns.label.iter().for_each(|label| add(" --label ", label));
    if !columns.drop.is_empty() {
        add(" --drop ", &columns.drop.join(","));
    }
    columns.task.iter().for_each(|task| add(" --task ", task.name()));
    columns.unit.iter().for_each(|unit| add(" --unit ", unit));
    add(" -o ", &data::schema_beside(Path::new(path)).to_string_lossy());
    Some(command)
}

/// Refuses flags of a release that name a unit which its schema does not declare.
fn check_unit_flags(flags: &Declaration, domain: &Domain) -> Result<(), FitError> {
    let declared = domain.unit.as_ref().map(|unit| &unit.column);
    let (argument, line) = match (&flags.columns.unit, &flags.unit_ids) {
        (Some(column), _) if declared != Some(&flags.columns.unit) => {
            (format!("unit {column}"), format!("unit = {column:?}"))
        }
        (None, Some(file)) if declared != Some(&None) => {
            (format!("unit-ids {}", file.display()), "unit = true".to_owned())
        }
        _ => return Ok(()),
    };
    let problem =
        format!("a release protects the unit that its schema declares: write {line} under [rows] of the schema");
    Err(FitError::argument(argument, problem))
}

/// Refuses test rows of a release that are its training rows, by where they lie alone.
fn check_test_rows(training: &Training, domain: Option<&Arc<Domain>>) -> Result<(), FitError> {
    if !training.privacy.secure {
        return Ok(());
    }
    let settings = &training.data;
    let [train, test] = data::files_of(&settings.data, settings.data_dir.as_deref(), training.request(domain));
    let train: Vec<_> = train.iter().filter_map(|file| identity(file)).collect();
    match test.into_iter().find(|test| identity(test).is_some_and(|test| train.contains(&test))) {
        None => Ok(()),
        Some(test) => Err(FitError::argument(
            "test",
            format!(
                "{}: these test rows are the training rows, which are private: give public ones, or none",
                test.display()
            ),
        )),
    }
}

/// Refuses data that are no data set of the domain's public number of rows or units.
pub(super) fn check_rows(rows: usize, problem: &PublicProblem) -> Result<(), FitError> {
    if rows <= problem.most_rows() {
        return Ok(());
    }
    let of = if problem.unit().is_some() { "units" } else { "rows" };
    let problem = format!(
        "the data have more than {MOST_ROWS_PER_PUBLIC_ROW} times as many {of}, and are no data set of the declared domain"
    );
    Err(FitError::argument("public-rows", problem))
}

/// Refuses a domain that no run, or no release, with these settings has.
pub(crate) fn check_domain(training: &Training, domain: &Domain) -> Result<(), FitError> {
    if training.privacy.secure && domain.is_draft() {
        let problem =
            "the schema is a draft that was read from the rows. Check every line of it, then set drafted = false";
        return Err(FitError::argument("secure", problem));
    }
    match (training.data.test_split, domain.relation) {
        (Some(_), Relation::AddRemove { .. }) => Err(FitError::argument(
            "test-split",
            "under add-remove the number of rows is private, and with it the positions of the split; put the test rows in a \
             file of their own (`test FILE`)",
        )),
        _ => Ok(()),
    }
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
fn resumed(training: &Training, group: &Group) -> Result<Option<Checkpoint>, FitError> {
    let Some(path) = &training.checkpoint.resume else {
        return Ok(None);
    };
    let read = if group.is_root() { Checkpoint::bytes(path) } else { Ok(Zeroizing::default()) };
    let bytes = group.broadcast_secret(group.all_ok(read)?);
    group.all_ok(Checkpoint::parse(path, &bytes).map(Some))
}

/// The generator of the system.
pub(super) fn of_system(key: &mut [u8]) -> Result<(), FitError> {
    getrandom::fill(key).map_err(FitError::Key)
}

/// The source of all randomness of a run: the resumed checkpoint's, a simulation's seed, or for a release what `draw` gives on rank
/// 0. With one source all ranks draw the same noise, and no round sends any.
fn source(
    training: &Training,
    group: &Group,
    resumed: Option<&Checkpoint>,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
) -> Result<StreamKey, FitError> {
    if !training.privacy.secure {
        return Ok(StreamKey::Simulation(training.seed));
    }
    let kept = training.checkpoint.file.as_deref();
    group.root_only(|| kept.map_or(Ok(()), checkpoint::check_place))?;
    if let Some(key) = resumed.and_then(Checkpoint::key) {
        return Ok(key);
    }
    let mut key = Zeroizing::new(vec![0; if group.is_root() { 32 } else { 0 }]);
    group.root_only(|| draw(&mut key))?;
    let drawn = group.broadcast_secret(key);
    Ok(StreamKey::Release(drawn.as_slice().try_into().expect("32 bytes")))
}

/// The public problem of a run with these settings on so many rows of the domain, of data of a name that were given to it in a way, as a
/// verifier knows it: that of one row, which is treated as all are.
pub(crate) fn public_problem(
    training: &Training,
    data: (&str, Option<Given>),
    domain: &Arc<Domain>,
    rows: usize,
) -> Result<PublicProblem, String> {
    fn said(error: impl Display) -> String {
        error.to_string()
    }
    let DataSettings { features, scale_features, clip_features, .. } = &training.data;
    let treated = |row: Dataset| {
        let mapped = match features {
            // What is released of moments decides nothing here.
            Some(map) => map.on(row.columns()).map(Mapper::planned)?.apply(row).map_err(said)?,
            None => row,
        };
        scaled_and_clipped(mapped, *scale_features, *clip_features).map_err(said)
    };
    let row = row_of(data, domain).map_err(said)?;
    // Bytes that the run clips are dense rows in its domain.
    let bytes = data.1.and_then(|given| given.byte_scale).filter(|_| training.data.clip_features.is_some());
    let given = row.treatment().and_then(Given::of);
    if given.map(|given| Given { byte_scale: given.byte_scale.or(bytes), ..given }) != data.1 {
        return Err("no rows are given as it says".to_owned());
    }
    let (row, loss) = treated(row)?.for_loss(training.optimizer.loss).map_err(said)?;
    let problem = training.optimizer.problem(row, loss).map_err(said)?;
    let problem = problem.public().clone().with_rows(rows);
    if (1..=u32::MAX as usize).contains(&problem.rows()) {
        Ok(problem)
    } else {
        Err(format!("it has {} rows", problem.rows()))
    }
}

/// One row of the domain, as it was given to the run: a unit of its own.
fn row_of((name, given): (&str, Option<Given>), domain: &Arc<Domain>) -> Result<Dataset, DatasetError> {
    let columns = domain.features();
    let scale = given.and_then(|given| given.byte_scale).unwrap_or(BYTE_SCALE);
    let features = match domain.storage {
        Storage::Bytes => Features::bytes(&vec![0; columns], columns, scale),
        Storage::Dense => Features::f32(vec![0.0; columns], columns),
        Storage::Sparse => Features::Sparse(SparseMatrix { offsets: vec![0, 0], ..SparseMatrix::new(columns) }),
    };
    let labels = match domain.classes() {
        Some(classes) => Labels::Classes { values: vec![0], classes, names: None },
        // A target of every loss.
        None => Labels::Values(vec![1.0]),
    };
    let mut row = Dataset::new(name, features, labels)?.in_domain(Arc::clone(domain))?;
    if let Some(unit) = &domain.unit {
        row = row.by_unit(&UnitIds { of_rows: vec![0], count: 1 }, unit.clone())?;
    }
    if let Some(given) = given {
        row = row.in_units_of(given.unit)?;
        if let Some(NormBound { norm, bound }) = given.bound {
            row = row.clip_features(norm, bound)?;
        }
    }
    Ok(row)
}
