//! Studies: measurements that are more than timed cells, runs to a target or a paper's figure. Each takes its definition,
//! keeps what it finished, and returns plain data with a drawing. No algorithm is written here.

pub mod accelerated_real_data;
pub mod convergence;
pub mod correlated_noise;
pub mod depth_against_work;
pub mod exponents;
pub mod formulas;
pub mod intervals;
mod logistic;
pub mod noise_mechanisms;
pub mod private_training;
pub mod round_time;
pub mod scaling;
pub mod wrong_constants;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rounds_algorithms::oracle::Engine;

use crate::experiment::Kind;
use crate::machine::Environment;

/// The kinds of experiments. Adding one is one file and one line.
pub const KINDS: &[Kind] = &[
    Kind::of::<convergence::Convergence>(),
    Kind::of::<correlated_noise::CorrelatedNoise>(),
    Kind::of::<depth_against_work::DepthAgainstWork>(),
    Kind::of::<formulas::Formulas>(),
    Kind::of::<noise_mechanisms::NoiseMechanisms>(),
    Kind::of::<round_time::RoundTime>(),
    Kind::of::<wrong_constants::WrongConstants>(),
];

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Studies by the name that `rounds run` takes, and what each shows.
pub const NAMES: &[(&str, &str)] = &[
    (
        QUICK_TRAINING,
        "accuracy against epsilon, rounds and queries to a target risk; part of the default run",
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
        "paper/srg-table-1",
        "paper 004, Table 1: rounds, queries and epochs against n, measured",
    ),
    (
        "paper/srg-batch-size",
        "papers 000 and 004: excess risk, rounds and time against the batch size in one epoch (minutes)",
    ),
    (
        "paper/correlated-noise-figure-3",
        "paper 001, Figure 3: DP-MF, DP-MF+ and DP-SGD on MNIST, accuracy against epsilon (minutes)",
    ),
    (
        accelerated_real_data::NAME,
        "paper 003's methods with Gaussian noise on a9a, ijcnn1, covtype and MNIST, beside DP-SGD and DP-FTRL (data files)",
    ),
    (
        accelerated_real_data::PRIVATE_SCO.0,
        "excess risk of private ReSQue and Phased-SGD beside SGD without privacy, on a problem with known optimum",
    ),
    (
        scaling::NAME,
        "speed-up, efficiency and serial fraction against threads, one to every core, strong and weak (minutes)",
    ),
];

/// The studies of private training by name.
const TRAININGS: &[(&str, &str)] = &[
    (
        QUICK_TRAINING,
        include_str!("../../../bench/studies/quick-training.toml"),
    ),
    (
        "paper/srg-figure-1",
        include_str!("../../../bench/definitions/paper/srg-figure-1.toml"),
    ),
    (
        "paper/srg-figure-1-sweep",
        include_str!("../../../bench/definitions/paper/srg-figure-1-sweep.toml"),
    ),
    (
        "paper/srg-table-1",
        include_str!("../../../bench/definitions/paper/srg-table-1.toml"),
    ),
    (
        "paper/srg-batch-size",
        include_str!("../../../bench/definitions/paper/srg-batch-size.toml"),
    ),
    (
        "paper/correlated-noise-figure-3",
        include_str!("../../../bench/definitions/paper/correlated-noise-figure-3.toml"),
    ),
];

/// The study that belongs to the default suite.
pub const QUICK_TRAINING: &str = "quick-training";

/// Whether `name` is that of a study, or of a file that defines one.
pub fn is_study(name: &str) -> bool {
    name == QUICK_TRAINING || NAMES.iter().any(|(study, _)| *study == name) || own_training(name).is_some()
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
    let tables = [
        (accelerated_real_data::NAME, accelerated_real_data::DEFINITION),
        accelerated_real_data::PRIVATE_SCO,
    ];
    let named = || {
        let mut known = TRAININGS.iter().chain(&tables);
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
        let presentation = private_training::presentation::present(&study, name);
        presentation.write(&folder, "study", environment)?;
        progress(&presentation.terminal());
        return Ok(vec![folder.join("table.md"), folder.join("study.json")]);
    }
    let engine = Engine::with_threads(options.threads)?;
    accelerated_real_data::run(definition, &folder, options.data_dir, &engine, progress)?;
    Ok(vec![folder.join("table.md"), folder.join("rows.json")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Selection, definition};

    #[test]
    fn every_definition_has_the_name_of_its_file_and_cells_that_can_be_run() {
        for source in definition::all().unwrap() {
            let Some(kind) = kind(&source.head.study).filter(|_| !source.head.about.is_empty()) else {
                continue;
            };
            assert_eq!(source.head.name, source.name);
            let selection = Selection {
                files: true,
                default_threads: (kind.threads)(2),
                ..Selection::default()
            };
            let plan = (kind.plan)(&[source], &selection).unwrap();
            assert!(!plan.cells().is_empty());
        }
    }
}
