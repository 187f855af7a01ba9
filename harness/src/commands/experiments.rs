//! The experiments of `rounds run`.

use std::path::Path;
use std::sync::Arc;

use super::run::{RunArguments, stop_on_interrupt};
use super::{Output, UsageError, threads};
use crate::cluster::Cluster;
use crate::experiment::store::{Mode, results_directory};
use crate::experiment::{Cell, Kind, Selection, Session, Source, definition};
use crate::machine::{Environment, Topology};
use crate::studies;

/// Runs definitions, those of one folder together.
pub(super) fn run_definitions(
    arguments: &RunArguments,
    output: Output,
    cluster: &Cluster,
    sources: Vec<Source>,
) -> anyhow::Result<()> {
    let given = |list: &[u16]| -> Vec<usize> { list.iter().map(|&count| usize::from(count)).collect() };
    let mut groups: Vec<(&'static Kind, String, Vec<Source>)> = Vec::new();
    for source in sources {
        let names: Vec<&str> = studies::KINDS.iter().map(|kind| kind.name).collect();
        let kind = studies::kind(&source.head.study)
            .ok_or_else(|| definition::unknown_name("study", &source.head.study, &names))?;
        if cluster.count().is_some() && !kind.on_ranks {
            let name = &source.head.name;
            return Err(UsageError::new(format!(
                "--engine mpi: '{name}' runs in one process; leave --engine out"
            ))
            .into());
        }
        let below = if kind.at_root {
            String::new()
        } else {
            source.head.name.clone()
        };
        match groups.iter_mut().find(|(_, known, _)| *known == below) {
            Some((_, _, group)) => group.push(source),
            None => groups.push((kind, below, vec![source])),
        }
    }
    let mut plans = Vec::new();
    for (kind, below, sources) in groups {
        let default = match cluster.count() {
            Some(_) => vec![1],
            None => (kind.threads)(Topology::detect().cores.max(1)),
        };
        let selection = Selection {
            threads: given(&arguments.threads),
            algorithms: arguments.algorithms.clone(),
            batch_sizes: arguments.batch_sizes.iter().map(|&size| size as usize).collect(),
            repeats: arguments.repeats.map(usize::from),
            files: arguments.data_dir.is_some(),
            ranks: cluster.count(),
            default_threads: default,
        };
        let plan = (kind.plan)(&sources, &selection).map_err(|error| UsageError::new(format!("{error:#}")))?;
        plans.push((kind, below, selection, plan));
    }
    if arguments.list {
        let cells: Vec<&Cell> = plans.iter().flat_map(|(_, _, _, plan)| plan.cells()).collect();
        for cell in cells.iter().filter(|_| cluster.is_root()) {
            output.json_line(&cell.configuration)?;
            if output == Output::Text {
                println!("{} × {}", cell.configuration.key(), cell.repeats * cell.draws);
            }
        }
        return Ok(());
    }
    let mode = if arguments.resume { Mode::Resume } else { Mode::New };
    let root = arguments.out.clone();
    let root = root.unwrap_or_else(|| results_directory(Path::new("results"), &Environment::capture(&[]), mode));
    let stopped = stop_on_interrupt()?;
    for (kind, below, selection, plan) in plans {
        let session = Session {
            cluster,
            selection,
            data_dir: arguments.data_dir.clone(),
            mode,
            output,
            stopped: Arc::clone(&stopped),
        };
        let keys: Vec<String> = plan.cells().iter().map(|cell| cell.configuration.key()).collect();
        cluster.check_same("list of cells", &keys.join("\n"))?;
        let pinning = cluster.all_ok(threads::pinning(arguments.pin.unwrap_or(kind.pin), cluster))?;
        plan.run(&session, pinning, &root.join(below))?;
    }
    Ok(())
}
