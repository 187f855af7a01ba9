//! Studies: measurements that are more than timed cells, runs to a target or a paper's figure. Each takes its definition,
//! keeps what it finished, and returns plain data with a drawing. No algorithm is written here.

pub mod accelerated_figures;
pub mod depth_against_work;
pub mod exponents;
pub mod intervals;
pub mod private_training;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rounds_algorithms::oracle::Engine;

use crate::machine::Environment;
use crate::report::training_table;

/// Studies by the name that `rounds run` takes, and what each shows.
pub const NAMES: &[(&str, &str)] = &[
    (
        "paper/accelerated-figure-1",
        "paper 003, Figure 1: convergence rate and noise of DP heavy ball on quadratics",
    ),
    (
        "paper/accelerated-figure-2",
        "paper 003, Figure 2: the optimised allocation of the privacy budget",
    ),
    (
        "paper/accelerated-figure-3",
        "paper 003, Figure 3: six Laplace methods, log suboptimality, n = 100,000 (minutes)",
    ),
    (
        "paper/accelerated-figure-4",
        "paper 003, Figure 4: the same with the other step size (minutes)",
    ),
    (
        "paper/srg-figure-1",
        "paper 000, Figure 1: DP-MEMF and DP-SRG-MEMF on MNIST and CIFAR-10, 100 runs each (minutes)",
    ),
    (
        "paper/srg-figure-1-sweep",
        "the learning rates and clip norms that paper/srg-figure-1 uses, tried (minutes)",
    ),
    (
        depth_against_work::NAME,
        "query depth against total work of paper 002's methods, with fitted exponents (minutes)",
    ),
];

/// The figures of paper 003 by name.
const FIGURES: &[(&str, &str)] = &[
    (
        "paper/accelerated-figure-1",
        include_str!("../../../bench/definitions/paper/accelerated-figure-1.toml"),
    ),
    (
        "paper/accelerated-figure-2",
        include_str!("../../../bench/definitions/paper/accelerated-figure-2.toml"),
    ),
    (
        "paper/accelerated-figure-3",
        include_str!("../../../bench/definitions/paper/accelerated-figure-3.toml"),
    ),
    (
        "paper/accelerated-figure-4",
        include_str!("../../../bench/definitions/paper/accelerated-figure-4.toml"),
    ),
];

/// The studies of private training by name.
const TRAININGS: &[(&str, &str)] = &[
    (
        "paper/srg-figure-1",
        include_str!("../../../bench/definitions/paper/srg-figure-1.toml"),
    ),
    (
        "paper/srg-figure-1-sweep",
        include_str!("../../../bench/definitions/paper/srg-figure-1-sweep.toml"),
    ),
];

/// Whether `name` is a study that [`run_figure`] runs.
pub fn is_figure(name: &str) -> bool {
    FIGURES.iter().chain(TRAININGS).any(|(figure, _)| *figure == name) || own_training(name).is_some()
}

/// The text of a study of private training in a file of its own: one with panels, where a suite has problems.
fn own_training(path: &str) -> Option<String> {
    let path = Path::new(path);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    text.lines().any(|line| line.trim() == "[[panel]]").then_some(text)
}

/// What a person may change of a study.
#[derive(Clone, Copy, Debug, Default)]
pub struct StudyOptions<'a> {
    /// Where files of data sets lie.
    pub data_dir: Option<&'a Path>,
    /// Threads.
    pub threads: usize,
    /// Runs of a setting, instead of the definition's.
    pub runs: Option<usize>,
}

/// Runs the figure `name` into a folder of its own below `folder` and returns the files to look at. Every finished
/// setting is kept, and a figure that is run into the same folder again goes on from there.
///
/// # Errors
/// A name that is no figure, a run that fails, a folder that cannot be written.
pub fn run_figure(
    name: &str,
    folder: &Path,
    environment: &Environment,
    options: StudyOptions<'_>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<PathBuf>> {
    let own = own_training(name);
    let named = || {
        let mut known = FIGURES.iter().chain(TRAININGS);
        known.find(|(figure, _)| *figure == name).map(|(_, text)| *text)
    };
    let definition = own
        .as_deref()
        .or_else(named)
        .with_context(|| format!("there is no figure '{name}'"))?;
    let folder = match (&own, Path::new(name).file_stem()) {
        (Some(_), Some(stem)) => folder.join(stem),
        _ => folder.join(name),
    };
    fs::create_dir_all(&folder).with_context(|| format!("{}: the folder cannot be made", folder.display()))?;
    let sheet = folder.join("environment.json");
    fs::write(&sheet, serde_json::to_string_pretty(environment)?)
        .with_context(|| format!("{} cannot be written", sheet.display()))?;
    if own.is_some() || TRAININGS.iter().any(|(training, _)| *training == name) {
        let StudyOptions {
            data_dir,
            threads,
            runs,
        } = options;
        let study = private_training::run(definition, &folder, data_dir, threads, runs, progress)?;
        progress(&format!("{} runs in {:.1} s", study.runs_made, study.seconds));
        progress(&training_table(&study));
        return Ok(vec![folder.join("table.md"), folder.join("study.json")]);
    }
    let engine = Engine::with_threads(options.threads)?;
    accelerated_figures::run(definition, &folder, &engine, progress)?;
    Ok(vec![folder.join("figure.svg"), folder.join("figure.json")])
}
