//! Studies: measurements that are more than timed cells, runs to a target or a paper's figure. Each takes its definition,
//! keeps what it finished, and returns plain data with a drawing. No algorithm is written here.

pub mod accelerated_figures;
pub mod accelerated_misspecified;
pub mod accelerated_real_data;
pub mod depth_against_work;
pub mod exponents;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rounds_algorithms::oracle::Engine;

use crate::machine::Environment;

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
        "paper/accelerated-misspecified",
        "the methods of paper 003 with a wrong L or μ, without and with noise (not private)",
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
    (
        "paper/accelerated-misspecified",
        include_str!("../../../bench/definitions/paper/accelerated-misspecified.toml"),
    ),
];

/// Whether `name` is that of a study.
pub fn is_study(name: &str) -> bool {
    NAMES.iter().any(|(study, _)| *study == name)
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
    threads: usize,
    data_dir: Option<&Path>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<PathBuf>> {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).with_context(|| format!("{}: the folder cannot be made", folder.display()))?;
    let sheet = folder.join("environment.json");
    fs::write(&sheet, serde_json::to_string_pretty(environment)?)
        .with_context(|| format!("{} cannot be written", sheet.display()))?;
    let engine = Engine::with_threads(threads)?;
    let tables = [
        (accelerated_real_data::NAME, accelerated_real_data::DEFINITION),
        accelerated_real_data::PRIVATE_SCO,
    ];
    if let Some((_, definition)) = tables.into_iter().find(|(table, _)| *table == name) {
        accelerated_real_data::run(definition, &folder, data_dir, &engine, progress)?;
        return Ok(vec![folder.join("table.md"), folder.join("rows.json")]);
    }
    let (_, definition) = FIGURES
        .iter()
        .find(|(figure, _)| *figure == name)
        .with_context(|| format!("there is no figure '{name}'"))?;
    accelerated_figures::run(definition, &folder, &engine, progress)?;
    Ok(vec![folder.join("figure.svg"), folder.join("figure.json")])
}
