//! Data, engines, factorisations and calibrations of an experiment, each made once.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use rounds_algorithms::catalog;
use rounds_algorithms::hexadecimal;
use rounds_algorithms::noise::StrategyMemory;
use rounds_algorithms::optimizers::Settings;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::CalibrationMemory;
use rounds_algorithms::problem::planted::PlantedLogistic;
use rounds_algorithms::problem::synthetic::{Quadratic, synthetic_logistic, synthetic_mnist};
use rounds_algorithms::problem::{Dataset, Problem, ProblemError};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;

use super::cell::{Cell, Configuration, PLANTED_LOGISTIC, PROBLEM_PARAMETERS};
use super::{definition, settings};
use crate::cluster::Cluster;
use crate::machine::{Environment, Pinning};
use rounds_models::features::FeatureMap;
use rounds_models::{data, factorization_cache};

/// Environment of the runs: ranks, threads, data and values that are made once.
pub struct Context<'a> {
    /// Ranks, or this process alone.
    pub cluster: &'a Cluster,
    /// Binding of threads to cores.
    pub pinning: Pinning,
    /// The experiment sheet.
    pub environment: Environment,
    /// Folder of data files.
    pub data_dir: Option<PathBuf>,
    /// Number of threads of the experiment.
    pub threads: usize,
    /// Those of each of the runs that are made at the same time: several where there are fewer runs than threads.
    pub threads_of_run: usize,
    /// Disturbances of the machine, each with its remedy; known when results are presented.
    pub disturbances: Vec<String>,
    /// Factorisations.
    pub strategies: StrategyMemory,
    engines: Memo<Engine>,
    problems: Memo<Arc<Loaded>>,
    calibrations: CalibrationMemory,
    digests: Mutex<BTreeMap<String, String>>,
}

/// A problem with its test rows.
pub struct Loaded {
    /// The problem.
    pub train: Problem,
    /// Test rows, without the regulariser.
    pub test: Option<Problem>,
    /// The population, if it is known.
    pub planted: Option<PlantedLogistic>,
}

/// Values by key, each made once even where several threads want it.
pub struct Memo<T>(Mutex<HashMap<String, Arc<Mutex<Option<T>>>>>);

impl<T: Clone> Default for Memo<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Memo<T> {
    /// The value of `key`, made by `make` where it is missing.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    pub fn get(&self, key: &str, make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let place = Arc::clone(lock(&self.0).entry(key.to_owned()).or_default());
        let mut value = lock(&place);
        if let Some(value) = &*value {
            return Ok(value.clone());
        }
        let made = make()?;
        *value = Some(made.clone());
        Ok(made)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Context<'a> {
    /// An experiment of `threads` threads on the machine of `environment`.
    pub fn new(
        cluster: &'a Cluster,
        pinning: Pinning,
        environment: Environment,
        data_dir: Option<PathBuf>,
        threads: usize,
    ) -> Self {
        Self {
            cluster,
            pinning,
            environment,
            data_dir,
            threads,
            threads_of_run: 1,
            disturbances: Vec::new(),
            strategies: StrategyMemory::filled_from(factorization_cache::source()),
            engines: Memo::default(),
            problems: Memo::default(),
            calibrations: CalibrationMemory::default(),
            digests: Mutex::default(),
        }
    }

    /// An engine of `threads` threads: of the ranks, or of this process and bound.
    ///
    /// # Errors
    /// No threads; threads that the system does not start or bind.
    pub fn engine(&self, threads: usize) -> anyhow::Result<Engine> {
        self.engines.get(&threads.to_string(), || self.cluster.engine(&self.pinning, threads))
    }

    /// An engine of a run's own, of [`Self::threads_of_run`].
    ///
    /// # Errors
    /// Threads that the system does not start.
    pub fn engine_of_run(&self) -> anyhow::Result<Engine> {
        Ok(Engine::with_threads(self.threads_of_run)?)
    }

    /// The problem of a cell on draw `draw` of its data. Its rows are placed for `engine`.
    ///
    /// # Errors
    /// Data that are not there or do not fit the cell's parameters.
    pub fn problem(&self, cell: &Configuration, draw: usize, engine: &Engine) -> anyhow::Result<Arc<Loaded>> {
        let nodes = Some(engine.threads_by_node()).filter(|nodes| nodes.len() > 1);
        let key = format!("{} {} {nodes:?}", data_key(&cell.on_problem(), draw), cell.features);
        self.problems.get(&key, || Ok(Arc::new(self.load(cell, draw, engine)?)))
    }

    fn load(&self, cell: &Configuration, draw: usize, engine: &Engine) -> anyhow::Result<Loaded> {
        let cell = &cell.on_problem();
        let generated = generate(cell, draw)?;
        let (train, test, planted) = if let Some(generated) = generated {
            generated
        } else {
            let domain = data::built_in(&cell.dataset, self.data_dir.as_deref());
            // The same rows are kept for testing in all runs of a draw.
            let split = cell.optional("test-split")?.map(|fraction| data::Split { fraction, seed: draw as u64 });
            let request = data::Request { split, ..data::Request::of(domain.as_ref()) };
            let part = self.cluster.load(&cell.dataset, self.data_dir.as_deref(), request)?;
            (part.train, part.test, None)
        };
        let digest = hexadecimal(&self.cluster.digest(&train));
        lock(&self.digests).insert(data_key(cell, draw), digest);
        let regularization = settings::regularization(&cell.parameters)?;
        let bias = planted.is_none() && cell.parameters.get("bias") != Some(&false.into());
        let (train, loss) = self.cluster.all_ok(treat(train, cell))?;
        let test = test.map(|test| {
            let (test, loss) = treat(test, cell)?;
            anyhow::Ok(of_kind(Problem::new(Arc::new(test), loss, bias, 0.0)?, cell)?)
        });
        let test = self.cluster.all_ok(test.transpose())?;
        let train = if bias {
            self.cluster.problem(train, loss, regularization)?
        } else {
            Problem::new(Arc::new(train), loss, bias, regularization)?
        };
        let train = of_kind(train, cell)?.placed_for(engine);
        Ok(Loaded { train, test, planted })
    }

    /// Digests of the data that were loaded, by name.
    pub fn digests(&self) -> BTreeMap<String, String> {
        lock(&self.digests).clone()
    }

    /// The settings that the parameters of a cell stand for. They share the factorisations and calibrations of the experiment.
    ///
    /// # Errors
    /// A parameter that does not fit.
    pub fn settings(&self, cell: &Configuration, seed: u64) -> anyhow::Result<Settings> {
        let mut settings = settings_of(cell, seed)?;
        settings.strategies = self.strategies.clone();
        settings.calibrations = self.calibrations.clone();
        Ok(settings)
    }
}

/// Checks the names and parameters of cells that run algorithms of the catalogue, before anything runs.
///
/// # Errors
/// The first unknown name, with the nearest, or value that does not fit.
pub fn check(cells: &[Cell]) -> anyhow::Result<()> {
    let algorithms: Vec<_> = catalog::ALGORITHMS.iter().map(|algorithm| algorithm.id).collect();
    let named = data::NAMES.iter().map(|name| name.name);
    let datasets: Vec<_> = named.chain([PLANTED_LOGISTIC]).collect();
    for cell in cells.iter().map(|cell| &cell.configuration) {
        definition::known("algorithm", &cell.algorithm, &algorithms)?;
        definition::known("data set", &cell.dataset, &datasets)?;
        let settings = settings_of(cell, 0).with_context(|| cell.key())?;
        let algorithm = catalog::find(&cell.algorithm)?;
        let own: Vec<&str> = algorithm.parameters().map(|own| own.name).chain(settings::BUDGET).collect();
        definition::known_parameters(&cell.of_algorithm(), &format!("algorithm '{}'", cell.algorithm), &own)?;
        let problem = cell.on_problem().parameters;
        definition::known_parameters(&problem, "a problem", PROBLEM_PARAMETERS)?;
        algorithm.check(&settings).with_context(|| cell.key())?;
        settings::regularization(&problem).with_context(|| cell.key())?;
        settings::loss(&problem).with_context(|| cell.key())?;
    }
    Ok(())
}

/// The settings that the parameters of a cell stand for, with the default factorisations.
///
/// # Errors
/// A parameter that does not fit.
pub fn settings_of(cell: &Configuration, seed: u64) -> anyhow::Result<Settings> {
    let mut settings = settings::from_parameters(&cell.of_algorithm(), StreamKey::Simulation(seed))?;
    if cell.batch_size > 0 {
        settings.offer(catalog::find(&cell.algorithm)?, "batch-size", cell.batch_size);
    }
    Ok(settings)
}

/// Names the rows of a cell: data set, generator's parameters and draw.
fn data_key(cell: &Configuration, draw: usize) -> String {
    let mut key = cell.dataset.clone();
    for name in PROBLEM_PARAMETERS {
        if let Some(value) = cell.text(name) {
            key.extend([" ", name, "=", &value]);
        }
    }
    if draw > 0 {
        key.extend([" draw=", &draw.to_string()]);
    }
    key
}

/// Training rows, test rows and population.
type Rows = (Dataset, Option<Dataset>, Option<PlantedLogistic>);

/// The rows of a generator, where the cell names one with parameters of its own, or another draw than the first.
fn generate(cell: &Configuration, draw: usize) -> anyhow::Result<Option<Rows>> {
    let seed = cell.whole("data-seed")?.map_or(0, |seed| seed as u64) + draw as u64;
    let (rows, dimension) = (cell.whole("rows")?, cell.whole("dimension")?);
    let smoothness = cell.optional("smoothness")?;
    let own = rows.is_some() || dimension.is_some() || seed > 0;
    Ok(match cell.dataset.as_str() {
        PLANTED_LOGISTIC => {
            let (rows, dimension) =
                rows.zip(dimension).context("planted-logistic needs the parameters rows and dimension")?;
            // Another draw is another model and other rows.
            let planted = PlantedLogistic::new(dimension, cell.optional("norm")?.unwrap_or(5.0), 1 + seed);
            Some((planted.dataset(rows, 2 + seed), None, Some(planted)))
        }
        "synthetic-logistic" if own => {
            let rows = synthetic_logistic(rows.unwrap_or(100_000), dimension.unwrap_or(20), seed);
            Some((rows, None, None))
        }
        "synthetic-mnist" if seed > 0 => {
            let (train, test) = synthetic_mnist(seed);
            Some((train, Some(test), None))
        }
        "quadratic" if own || smoothness.is_some() => {
            let smoothness = smoothness.unwrap_or(10.0);
            let quadratic = Quadratic::random(dimension.unwrap_or(100), smoothness, seed);
            Some((quadratic.dataset(), None, None))
        }
        _ => None,
    })
}

/// The problem for the network that the cell names, if it names one.
fn of_kind(problem: Problem, cell: &Configuration) -> Result<Problem, ProblemError> {
    match cell.text("model-kind") {
        Some(network) => problem.with_network(&network),
        None => Ok(problem),
    }
}

/// Rows as a cell stores them, and their loss: one class against the others, clipped to a public norm, targets of the loss.
fn treat(dataset: Dataset, cell: &Configuration) -> anyhow::Result<(Dataset, Loss)> {
    let mut dataset = match cell.optional("class")? {
        Some(class) => dataset.one_against_rest(class as u32)?,
        None => dataset,
    };
    if cell.features == "f32" {
        dataset = dataset.to_f32()?;
    }
    if let Some(map) = cell.text("feature-map") {
        let map: FeatureMap = map.parse().map_err(anyhow::Error::msg)?;
        anyhow::ensure!(
            map.moments().is_none(),
            "feature-map {map}: this study releases no moments; measure \"training\" does, and `rounds train --features`"
        );
        let map = map.on(dataset.columns()).map_err(anyhow::Error::msg)?;
        map.check_memory(dataset.len()).map_err(anyhow::Error::msg)?;
        dataset = map.apply(dataset)?;
    }
    if let Some(bound) = cell.optional("feature-bound")? {
        dataset = dataset.clip_features(Norm::L2, bound)?;
    }
    let default = (cell.dataset == PLANTED_LOGISTIC).then_some(Loss::Logistic);
    Ok(dataset.for_loss(settings::loss(&cell.parameters)?.or(default))?)
}

#[cfg(test)]
mod tests {
    use super::super::cell::Trial;
    use super::*;

    #[test]
    fn the_smoothness_of_a_quadratic_alone_changes_its_rows() {
        let mut cell = Configuration { dataset: "quadratic".to_owned(), ..Configuration::default() };
        assert!(generate(&cell, 0).unwrap().is_none());
        cell.parameters.insert("smoothness".to_owned(), 20.0.into());
        // Of the method, it is no parameter of the rows.
        assert_eq!(data_key(&cell.on_problem(), 0), "quadratic");
        cell.of_problem.insert("smoothness".to_owned());
        assert_eq!(data_key(&cell.on_problem(), 0), "quadratic smoothness=20.0");
        let (rows, ..) = generate(&cell, 0).unwrap().unwrap();
        assert_eq!(rows.digest(), Quadratic::random(100, 20.0, 0).dataset().digest());
    }

    #[test]
    fn a_draw_is_another_model_other_rows_and_other_noise() {
        let mut cell = Configuration { dataset: PLANTED_LOGISTIC.to_owned(), ..Configuration::default() };
        let of_rows = [("rows", 50), ("dimension", 4)];
        cell.parameters.extend(of_rows.map(|(name, value)| (name.to_owned(), value.into())));
        let [(rows, _, model), (others, _, other)] = [0, 1].map(|draw| generate(&cell, draw).unwrap().unwrap());
        assert_ne!(model.unwrap().optimum(), other.unwrap().optimum());
        assert_ne!(rows.digest(), others.digest());
        let trials = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(repeat, draw)| Trial { repeat, draw }.seed(7));
        let seeds: std::collections::BTreeSet<_> = trials.into_iter().collect();
        assert!(seeds.len() == 4 && seeds.contains(&7));
    }
}
