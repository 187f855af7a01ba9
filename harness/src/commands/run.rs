//! `rounds run`: measures the cells of suites, keeps every finished one, and shows what a round costs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rounds_algorithms::catalog;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::{Budget, Settings};
use rounds_algorithms::oracle::{self, Engine};
use rounds_algorithms::problem::Problem;
use rounds_kernels::random::StreamKey;

use super::{UsageError, threads, with_causes};
use crate::cluster::{Cluster, EngineKind};
use crate::data;
use crate::definitions::{self, CellSpecification, Selection, Suite};
use crate::kernel_rates;
use crate::machine::{Environment, PinPolicy, Pinning, Topology};
use crate::measure::{self, Measurement};
use crate::report::{summary, time_per_round_svg};
use crate::results::{Binding, Cell, Configuration, Mode, Phases, Record, RoundTimes, Store, results_directory};
use crate::settings;
use crate::statistics;
use crate::studies;
use crate::studies::scaling;
use rounds_algorithms::hexadecimal;

/// What `rounds run` takes.
#[derive(clap::Args)]
pub struct RunArguments {
    /// Suites, by name (see `rounds list suites`) or as TOML files.
    #[arg(default_values = ["quick", studies::QUICK_TRAINING], value_name = "SUITE")]
    pub(super) suites: Vec<String>,
    /// Folder of the results; default: `results/<day>/<machine>`.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Thread counts; default: 1 and the number of cores.
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Vec<u16>,
    /// Only these algorithms.
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    pub(super) algorithms: Vec<String>,
    /// Batch sizes instead of the suite's.
    #[arg(long, value_delimiter = ',', value_name = "SIZES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) batch_sizes: Vec<u32>,
    /// Repeats instead of the suite's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) repeats: Option<u16>,
    /// Where data sets lie that are named.
    #[arg(long, env = "ROUNDS_DATA")]
    pub(super) data_dir: Option<PathBuf>,
    /// How threads are bound to cores: side by side, far apart, one a core, or not; default: not, but one a core for the study
    /// `scaling`.
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(super) pin: Option<PinPolicy>,
    /// Who executes: the threads of this process, or the ranks that mpirun or srun started (each with --threads threads).
    #[arg(long, value_enum, default_value_t, value_name = "ENGINE")]
    pub(super) engine: EngineKind,
    /// Do only what is missing in the newest (or the named) folder.
    #[arg(long)]
    pub(super) resume: bool,
    /// Show the cells and measure nothing.
    #[arg(long)]
    pub(super) list: bool,
}

/// Measures.
///
/// # Errors
/// Unknown suites, algorithms or data sets; results that cannot be written or resumed. Finished cells are kept.
pub fn run(arguments: &RunArguments, json: bool) -> anyhow::Result<()> {
    let cluster = Cluster::start(arguments.engine)?;
    let result = measure_suites(arguments, json, &cluster);
    cluster.finish(result)
}

/// [`run`] on every rank; rank 0 alone prints, and keeps what was measured.
fn measure_suites(arguments: &RunArguments, json: bool, cluster: &Cluster) -> anyhow::Result<()> {
    let output = if json { super::Output::Json } else { super::Output::Text };
    let known = |name: &String| {
        let source = crate::experiment::definition::find(name).ok()?;
        studies::kind(&source.head.study).map(|_| source)
    };
    let sources: Vec<_> = arguments.suites.iter().filter_map(known).collect();
    if !sources.is_empty() {
        let result = super::experiments::run_definitions(arguments, output, cluster, sources);
        return cluster.all_ok(result);
    }
    let first = cluster.is_root();
    let threads: Vec<usize> = if arguments.threads.is_empty() && cluster.count().is_some() {
        vec![1]
    } else if arguments.threads.is_empty() {
        let cores = Topology::detect().cores.max(1);
        if cores > 1 { vec![1, cores] } else { vec![1] }
    } else {
        arguments.threads.iter().map(|&count| usize::from(count)).collect()
    };
    let selection = Selection {
        threads: threads.clone(),
        algorithms: arguments.algorithms.clone(),
        batch_sizes: arguments.batch_sizes.iter().map(|&size| size as usize).collect(),
        repeats: arguments.repeats.map(usize::from),
        files: arguments.data_dir.is_some(),
        ranks: cluster.count(),
    };
    let (mut studies, suites): (Vec<_>, Vec<_>) = arguments
        .suites
        .iter()
        .cloned()
        .partition(|name| studies::is_study(name));
    if cluster.count().is_some() {
        if let Some(study) = studies.iter().find(|study| *study != studies::QUICK_TRAINING) {
            return cluster.all_ok(Err(UsageError::new(format!(
                "--engine mpi: '{study}' is a study, which runs in one process; suites run on ranks"
            ))
            .into()));
        }
        studies.clear();
    }
    let (suites, cells) = cluster.all_ok(planned(&suites, &selection))?;
    let with_training = !suites.is_empty() && studies.iter().any(|study| study == studies::QUICK_TRAINING);
    let all_cells = !json && arguments.algorithms.is_empty() && arguments.batch_sizes.is_empty();
    if with_training {
        // It belongs to the cells: it runs after them, into their folder. Who asks for rows of cells, or for some of them,
        // gets these alone.
        studies.retain(|study| study != studies::QUICK_TRAINING);
    }
    if arguments.list {
        studies
            .iter()
            .for_each(|study| println!("{study}: a study, run as a whole"));
        return if first { list(&cells, json) } else { Ok(()) };
    }
    let keys: Vec<String> = cells.iter().map(|cell| cell.configuration.key()).collect();
    cluster.check_same("list of cells", &keys.join("\n"))?;
    let pinning = cluster.all_ok(threads::pinning(arguments.pin.unwrap_or_default(), cluster))?;
    let most_threads = threads.iter().copied().max().unwrap_or(1);
    let environment = Environment::capture_pinned(&[], &pinning).with_places(&pinning, most_threads);
    for study in &studies {
        if study == scaling::NAME {
            run_scaling(arguments, json)?;
            continue;
        }
        if arguments.pin.is_some_and(|policy| policy != PinPolicy::None) {
            eprintln!("rounds: --pin binds the threads of cells and of the study scaling; '{study}' runs unbound");
        }
        run_figure(arguments, study, None, &environment, most_threads, json)?;
    }
    if suites.is_empty() {
        return Ok(());
    }
    let mode = if arguments.resume { Mode::Resume } else { Mode::New };
    // Only what rank 0 writes is kept.
    let scratch = if first { None } else { Some(tempfile::tempdir()?) };
    let folder = match (&scratch, &arguments.out) {
        (Some(scratch), _) => scratch.path().to_owned(),
        (None, Some(out)) => out.clone(),
        (None, None) => results_directory(Path::new("results"), &environment, mode),
    };
    let binding = Binding::new(
        &environment,
        suites.iter().map(|suite| (suite.name.clone(), suite.digest())),
    );
    let mut store = cluster.all_ok(Store::open(&folder, environment, binding, mode).map_err(Into::into))?;
    for message in store.messages() {
        eprintln!("rounds: {message}");
    }
    let stopped = stop_on_interrupt()?;
    let mut bench = Bench {
        cluster,
        pinning: pinning.clone(),
        data_dir: arguments.data_dir.clone(),
        problems: HashMap::new(),
        strategies: StrategyMemory::default(),
        multipliers: HashMap::new(),
    };
    // Rank 0 knows what is finished.
    let finished = |cell: &CellSpecification| u8::from(store.is_finished(&cell.configuration, cell.repeat));
    let finished = cluster.broadcast(cells.iter().map(finished).collect());
    let missing: Vec<_> = cells
        .iter()
        .zip(finished)
        .filter_map(|(cell, finished)| (finished == 0).then_some(cell))
        .collect();
    // Peaks are those of a machine at rest: ranks that wait for each other are none.
    if !missing.is_empty() && cluster.count().is_none() {
        store.measure_rooflines(&threads, &pinning)?;
        let path = folder.join(kernel_rates::FILE);
        if !path.exists() {
            let rates = serde_json::to_string_pretty(&kernel_rates::measure())?;
            std::fs::write(&path, rates).with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    let progress = progress_bar(missing.len() as u64, json || !first);
    let mut done = 0;
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for configuration in suites.iter().flat_map(|suite| suite.without_files(&selection)) {
        let reason = "it needs data files: give --data-dir or set ROUNDS_DATA";
        *left_out
            .entry(format!("{}: {reason}", configuration.dataset))
            .or_default() += 1;
        let reason = reason.to_owned();
        store.append(Record::Skipped { configuration, reason })?;
    }
    for cell in &missing {
        if cluster.broadcast(vec![u8::from(stopped.load(Ordering::Relaxed))]) != [0] {
            break;
        }
        progress.set_message(format!(
            "{} on {}, batches of {}, {} threads",
            cell.configuration.label(),
            cell.configuration.dataset,
            cell.configuration.batch_size,
            cell.configuration.threads
        ));
        let record = bench.measure(cell, &mut store)?;
        if json
            && first
            && let Record::Cell(cell) = &record
        {
            println!("{}", serde_json::to_string(cell)?);
        } else if let Record::Rejected {
            configuration, reason, ..
        }
        | Record::Skipped { configuration, reason } = &record
        {
            *left_out
                .entry(format!("{}: {reason}", configuration.algorithm))
                .or_default() += 1;
        }
        store.append(record)?;
        done += 1;
        progress.inc(1);
    }
    progress.finish_and_clear();
    if !first {
        return Ok(());
    }
    for (reason, cells) in &left_out {
        eprintln!("rounds: {cells} not measured, {reason}");
    }
    store.write_table()?;
    let picture = folder.join("time-per-round.svg");
    std::fs::write(&picture, time_per_round_svg(store.cells(), store.environment()))
        .with_context(|| format!("{} cannot be written", picture.display()))?;
    if !json {
        print!("{}", summary(store.cells(), store.environment()));
    }
    let resume = format!(
        "rounds run {} --out {} --resume",
        arguments.suites.join(" "),
        folder.display()
    );
    anyhow::ensure!(
        done == missing.len(),
        "stopped after {done} of {} cells; all of them are kept in {}. Continue with: {resume}",
        missing.len(),
        folder.display()
    );
    if with_training && all_cells {
        let environment = store.environment();
        run_figure(
            arguments,
            studies::QUICK_TRAINING,
            Some(&folder),
            environment,
            most_threads,
            json,
        )?;
    }
    if !json {
        println!("results: {}", folder.display());
        println!("picture: {}", picture.display());
        println!("report:  rounds report {}", folder.display());
    }
    Ok(())
}

/// The study of thread scaling.
fn run_scaling(arguments: &RunArguments, json: bool) -> anyhow::Result<()> {
    let definition = scaling::definition()?;
    let pinning = match arguments.pin {
        Some(policy) => threads::pinning(policy, &Cluster::alone())?,
        None => Pinning::new(PinPolicy::Core).unwrap_or_else(|_| Pinning::none()),
    };
    let options = scaling::Options {
        data_dir: arguments.data_dir.as_deref(),
        threads: arguments.threads.iter().map(|&count| usize::from(count)).collect(),
        repeats: arguments.repeats.map(usize::from),
        algorithms: arguments.algorithms.clone(),
        pinning,
    };
    let study = scaling::run(&definition, &options, &mut |line| {
        if !json {
            eprintln!("{line}");
        }
    })?;
    let default = || {
        let day = Path::new("results").join(study.environment.day());
        day.join(&study.environment.machine.id)
    };
    let folder = arguments.out.clone().unwrap_or_else(default).join(scaling::NAME);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write("study.json", serde_json::to_string(&study)?)?;
    let presentation = scaling::presentation::present(&study);
    presentation.write(&folder, scaling::NAME, &study.environment)?;
    if json {
        println!("{}", serde_json::to_string(&study)?);
    } else {
        println!("{}", presentation.terminal());
        println!("results: {}", folder.display());
    }
    for warning in &study.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(())
}

/// Runs a paper's figure into the results' folder and says where its files are.
fn run_figure(
    arguments: &RunArguments,
    name: &str,
    folder: Option<&Path>,
    environment: &Environment,
    threads: usize,
    json: bool,
) -> anyhow::Result<()> {
    let default = || {
        Path::new("results")
            .join(environment.day())
            .join(&environment.machine.id)
    };
    let folder = folder
        .map(Path::to_path_buf)
        .or_else(|| arguments.out.clone())
        .unwrap_or_else(default);
    let mut say = |line: &str| {
        if !json {
            eprintln!("{line}");
        }
    };
    let options = studies::StudyOptions {
        data_dir: arguments.data_dir.as_deref(),
        threads,
        runs: arguments.repeats.map(usize::from),
    };
    let files = studies::run_figure(name, &folder, environment, options, &mut say)?;
    for file in files {
        if json {
            println!("{}", serde_json::json!({ "study": name, "file": file }));
        } else {
            println!("{}", file.display());
        }
    }
    Ok(())
}

/// The suites and their cells, checked against the catalogue and the data sets there are.
fn planned(names: &[String], selection: &Selection) -> anyhow::Result<(Vec<Suite>, Vec<CellSpecification>)> {
    let algorithms: Vec<_> = catalog::ALGORITHMS.iter().map(|algorithm| algorithm.id).collect();
    let datasets: Vec<_> = data::NAMES.iter().map(|name| name.name).collect();
    let mut suites = Vec::new();
    let mut cells = Vec::new();
    for name in names {
        let usage = |error: definitions::DefinitionError| UsageError::new(error.to_string());
        let suite = definitions::find(name).map_err(usage)?;
        suite.check_names(&algorithms, &datasets).map_err(usage)?;
        cells.extend(suite.cells(selection).map_err(usage)?);
        suites.push(suite);
    }
    // A value that does not fit its flag is found before anything is measured.
    let mut seen = HashSet::new();
    for cell in &cells {
        let parameters = &cell.configuration.parameters;
        if seen.insert(serde_json::to_string(parameters)?) {
            settings::from_parameters(parameters, StreamKey::Simulation(cell.seed))
                .and_then(|_| settings::regularization(parameters))
                .map_err(|error| UsageError::new(format!("{}: {error}", cell.configuration.key())))?;
        }
    }
    Ok((suites, cells))
}

/// The dry run.
fn list(cells: &[CellSpecification], json: bool) -> anyhow::Result<()> {
    for cell in cells {
        if json {
            println!("{}", serde_json::to_string(&cell.configuration)?);
        } else {
            println!("{} repeat {}", cell.configuration.key(), cell.repeat);
        }
    }
    if !json {
        println!("{} cells", cells.len());
    }
    Ok(())
}

/// A flag that the first Ctrl-C raises: the run stops after the cell in flight.
pub(super) fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("\nstopping after this cell; press Ctrl-C again to stop at once (the cell is then lost)");
    })
    .context("Ctrl-C cannot be handled")?;
    Ok(stopped)
}

fn progress_bar(cells: u64, json: bool) -> ProgressBar {
    let target = if json {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(5)
    };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} cells, {eta} left  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(cells), target).with_style(style)
}

/// A training problem with its test problem and the digest of its data.
struct Loaded {
    train: Problem,
    test: Option<Problem>,
    digest: String,
    /// Mean loss of the optimum of generated data: over the test rows, or the training rows where there are none.
    optimal_loss: Option<f64>,
}

/// Loaded problems and calibrated noise, shared by the cells of a run.
struct Bench<'c> {
    cluster: &'c Cluster,
    data_dir: Option<PathBuf>,
    /// How threads are bound.
    pinning: Pinning,
    /// By data set, format, λ and memory nodes.
    problems: HashMap<(String, String, (Option<String>, u64), Vec<usize>), Arc<Loaded>>,
    /// Strategies of noise, made once.
    strategies: StrategyMemory,
    /// Noise multipliers that were calibrated, by configuration without threads.
    multipliers: HashMap<String, f64>,
}

impl Bench<'_> {
    /// Measures one cell: the record of it, or of why it is not kept.
    fn measure(&mut self, cell: &CellSpecification, store: &mut Store) -> anyhow::Result<Record> {
        let configuration = &cell.configuration;
        let skipped = |reason: String| Record::Skipped {
            configuration: configuration.clone(),
            reason,
        };
        let engine = threads::engine(self.cluster, &self.pinning, configuration.threads)?;
        let problem = match self.problem(configuration, &engine) {
            Ok(problem) => problem,
            // One data set that cannot be had is no reason to lose the others. Ranks have agreed to end.
            Err(error) if self.cluster.count().is_none() => return Ok(skipped(with_causes(&error))),
            Err(error) => return Err(error),
        };
        store.bind_data(&configuration.dataset, &problem.digest)?;
        if configuration.batch_size > problem.train.rows() {
            return Ok(skipped(format!("the data set has {} rows", problem.train.rows())));
        }
        let algorithm = catalog::find(&configuration.algorithm)?;
        let mut settings = settings::from_parameters(&configuration.parameters, StreamKey::Simulation(cell.seed))?;
        match algorithm.unread(&settings) {
            Ok(unread) if unread.is_empty() => {}
            Ok(unread) => {
                let flags = unread.join(", ");
                return Ok(skipped(format!(
                    "the algorithm does not read {flags}: leave it out of the suite"
                )));
            }
            Err(error) => return Ok(skipped(error.to_string())),
        }
        settings.batch_size = Some(configuration.batch_size);
        settings.rounds = Some(cell.warm_up_rounds + cell.timed_rounds);
        settings.strategies = self.strategies.clone();
        self.reuse_calibration(configuration, &mut settings);
        let prepared = match algorithm.prepare(&problem.train, &settings) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(skipped(error.to_string())),
        };
        if let Some(noise_multiplier) = prepared.privacy.noise_multiplier {
            self.multipliers
                .insert(calibration_key(configuration), noise_multiplier);
            self.reuse_calibration(configuration, &mut settings);
        }
        let link = self.cluster.link(problem.train.parameters());
        let privacy = prepared.privacy.clone();
        let (planned_rounds, planned_queries) = (prepared.rounds, prepared.queries);
        let again = || Ok(algorithm.prepare(&problem.train, &settings)?);
        let measurement = measure::measure(&problem.train, &engine, prepared, &again, cell.warm_up_rounds, &|| {
            self.cluster.traffic()
        })?;
        self.cluster.check_same("model", &measurement.model_sha256)?;
        let computing = self.cluster.largest(&measurement.computing);
        let timed_rounds = measurement.samples.round.len().max(1);
        let traffic = self.cluster.count().map(|_| measurement.traffic);
        let a_round = |total: u64| total as f64 / timed_rounds as f64;
        let training = oracle::evaluate(&problem.train, &engine, &measurement.parameters)?;
        let test = problem
            .test
            .as_ref()
            .map(|test| oracle::evaluate(test, engine.local(), &measurement.parameters))
            .transpose()?;
        let train_loss = training.loss / training.rows.max(1) as f64;
        // On the rows that the optimum was measured on; test losses of a model and of the optimum share their labels' noise.
        let loss = test
            .as_ref()
            .map_or(train_loss, |test| test.loss / test.rows.max(1) as f64);
        let excess_risk = problem.optimal_loss.map(|optimal| loss - optimal);
        let verdict = Verdict {
            planned_rounds,
            planned_queries,
            train_loss,
            earlier: store.model_sha256(configuration),
        };
        if let Some(reason) = verdict.rejects(cell, &measurement) {
            return Ok(Record::Rejected {
                configuration: configuration.clone(),
                repeat: cell.repeat,
                reason,
            });
        }
        let typical = |rate: &dyn Fn(f64, f64, f64) -> f64| measurement.typical(rate);
        let gflops = typical(&|flops, _, seconds| flops / seconds * 1e-9);
        let gbytes_per_s = typical(&|_, bytes, seconds| bytes / seconds * 1e-9);
        let roofline_fraction = store
            .environment()
            .roofline(configuration.threads)
            .map(|roofline| typical(&|flops, bytes, seconds| roofline.fraction(flops, bytes, seconds)));
        let times = RoundTimes::new(measurement.samples.round);
        let median = |samples: &[u64]| RoundTimes::new(samples.to_vec()).median;
        let [sample, gradient, noise, update] = measurement.samples.phases;
        Ok(Record::Cell(Box::new(Cell {
            configuration: configuration.clone(),
            repeat: cell.repeat,
            n: problem.train.rows(),
            dimension: problem.train.model().features,
            classes: problem.train.dataset().classes().unwrap_or(1),
            rounds: measurement.ledger.rounds,
            gradient_queries: measurement.ledger.gradient_queries,
            timed_queries: Some(measurement.work.iter().map(|work| work.queries).sum()),
            pinning: self.pinning.policy(),
            phases_ns: Phases {
                sample: median(&sample),
                gradient: median(&gradient),
                noise: median(&noise),
                update: median(&update),
            },
            communication_ns: traffic.map(|traffic| traffic.nanoseconds / timed_rounds as u64),
            computing_ns: traffic.map(|_| median(&computing)),
            messages: traffic.map(|traffic| a_round(traffic.messages)),
            row_bytes: traffic.map(|traffic| a_round(traffic.row_bytes)),
            link_ns: link.map(|link| link.message_ns),
            link_bytes_per_s: link.map(|link| link.bytes_per_s),
            gflops: Some(gflops),
            gbytes_per_s: Some(gbytes_per_s),
            roofline_fraction,
            train_loss: Some(train_loss),
            test_accuracy: test.map(|test| test.correct as f64 / test.rows.max(1) as f64),
            excess_risk,
            model_sha256: measurement.model_sha256,
            privacy: serde_json::to_value(&privacy)?,
            warnings: statistics::examine(&times.samples.iter().map(|&sample| sample as f64).collect::<Vec<_>>()),
            round_ns: times,
            date: jiff::Timestamp::now(),
        })))
    }

    /// The problem of a configuration, loaded once, and where rows lie by memory node, once for each way of the engines to
    /// share them out.
    fn problem(&mut self, configuration: &Configuration, engine: &Engine) -> anyhow::Result<Arc<Loaded>> {
        let regularization = settings::regularization(&configuration.parameters)?;
        let loss = settings::loss(&configuration.parameters)?;
        let nodes = Some(engine.threads_by_node()).filter(|nodes| nodes.len() > 1);
        let key = (
            configuration.dataset.clone(),
            configuration.features.clone(),
            (loss.map(|loss| loss.to_string()), regularization.to_bits()),
            nodes.unwrap_or_default(),
        );
        if let Some(loaded) = self.problems.get(&key) {
            return Ok(Arc::clone(loaded));
        }
        let domain = data::built_in(&configuration.dataset, self.data_dir.as_deref());
        let data = self.cluster.load(
            &configuration.dataset,
            self.data_dir.as_deref(),
            domain.as_ref(),
            &anyhow::Error::from,
        )?;
        let digest = hexadecimal(&self.cluster.digest(&data.train));
        let as_stored = |dataset: rounds_algorithms::problem::Dataset| {
            let (dataset, loss) = dataset.for_loss(loss)?;
            match configuration.features.as_str() {
                "f32" => Ok((dataset.to_f32()?, loss)),
                _ => Ok((dataset, loss)),
            }
        };
        let (train, train_loss) = self.cluster.all_ok(as_stored(data.train))?;
        let test = data.test.map(|dataset| {
            let (dataset, loss) = as_stored(dataset)?;
            anyhow::Ok(Problem::new(Arc::new(dataset), loss, true, 0.0)?)
        });
        let test = self.cluster.all_ok(test.transpose())?;
        let train = self
            .cluster
            .problem(train, train_loss, regularization)?
            .placed_for(engine);
        // Rows of the test set are whole on every rank, those of the training set in one process only.
        let whole = test.as_ref().or(self.cluster.count().is_none().then_some(&train));
        // Of the usual loss alone: another loss or a regulariser has another optimum.
        let optimal_loss = data::optimum(&configuration.dataset)
            .filter(|_| regularization == 0.0 && loss.is_none())
            .zip(whole)
            .map(|(optimum, problem)| oracle::evaluate(problem, &oracle::Engine::Sequential, &optimum))
            .transpose()?
            .map(|optimum| optimum.loss / optimum.rows as f64);
        let loaded = Arc::new(Loaded {
            train,
            test,
            digest,
            optimal_loss,
        });
        self.problems.insert(key, Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Replaces a target ε by the noise multiplier that was calibrated for it before: the same numbers, without the
    /// search.
    fn reuse_calibration(&self, configuration: &Configuration, settings: &mut Settings) {
        if let Budget::Target { delta, .. } = settings.budget
            && let Some(&noise_multiplier) = self.multipliers.get(&calibration_key(configuration))
        {
            settings.budget = Budget::NoiseMultiplier {
                noise_multiplier,
                delta,
            };
        }
    }
}

/// What a calibration depends on: everything but threads.
fn calibration_key(configuration: &Configuration) -> String {
    Configuration {
        threads: 1,
        ranks: None,
        ..configuration.clone()
    }
    .key()
}

/// What an answer is held against.
struct Verdict<'a> {
    planned_rounds: u64,
    planned_queries: Option<u64>,
    train_loss: f64,
    /// The model of an equal cell measured before.
    earlier: Option<&'a str>,
}

impl Verdict<'_> {
    /// Why a measurement may not be kept, if it may not.
    fn rejects(&self, cell: &CellSpecification, measurement: &Measurement) -> Option<String> {
        let ledger = &measurement.ledger;
        if cell.verify.rounds && ledger.rounds != self.planned_rounds {
            return Some(format!(
                "{} rounds were counted, {} were planned",
                ledger.rounds, self.planned_rounds
            ));
        }
        if cell.verify.queries
            && let Some(planned) = self.planned_queries
            && ledger.gradient_queries != planned
        {
            return Some(format!(
                "{} gradient queries were counted, {planned} were planned",
                ledger.gradient_queries
            ));
        }
        if cell.verify.finite && !(self.train_loss.is_finite() && measurement.parameters.iter().all(|x| x.is_finite()))
        {
            return Some("the model or its loss is not finite".to_owned());
        }
        match self.earlier {
            Some(earlier) if cell.verify.model && earlier != measurement.model_sha256 => Some(format!(
                "the model is {}, an equal cell gave {earlier}",
                measurement.model_sha256
            )),
            _ => None,
        }
    }
}
