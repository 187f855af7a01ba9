//! Studies that do not go through the experiment engine yet.

use std::path::Path;

use anyhow::Context as _;

use super::run::RunArguments;
use super::threads;
use crate::cluster::Cluster;
use crate::machine::{Environment, PinPolicy, Pinning, Topology};
use crate::studies::{self, scaling};

/// Runs a study by its name.
pub(super) fn run(arguments: &RunArguments, study: &str, json: bool) -> anyhow::Result<()> {
    match study {
        scaling::NAME => run_scaling(arguments, json),
        _ => {
            let most = arguments.threads.iter().copied().max().map(usize::from);
            let most = most.unwrap_or_else(|| Topology::detect().cores.max(1));
            run_figure(arguments, study, None, &Environment::capture(&[]), most, json)
        }
    }
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
