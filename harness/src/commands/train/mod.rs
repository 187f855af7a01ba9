//! `rounds train`: one training run from data to model file and privacy statement.

mod arguments;
mod outcome;

use std::path::Path;

pub use arguments::TrainArguments;
pub(super) use outcome::table;
use rounds_models::fit::{Execution, FitError, Training, fit};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, geteuid, getrlimit, set_dumpable_behavior, setrlimit};

use super::terminal::Terminal;
use super::{Output, output};
use crate::cluster::{Cluster, threads};
use crate::machine::{PinPolicy, build};
use crate::usage::{UsageError, command_again, flags, reported};

/// Trains one model: the run that the arguments ask for, its execution, the fit, and what is printed of it.
///
/// # Errors
/// Anything that the arguments, the data or the algorithm refuse, with the remedy.
pub fn run(arguments: &TrainArguments, output: Output) -> anyhow::Result<()> {
    let cluster = Cluster::start(arguments.engine())?;
    cluster.finish(train(arguments, output, &cluster))
}

/// [`run`] on every rank; rank 0 alone prints and writes.
fn train(arguments: &TrainArguments, output: Output, cluster: &Cluster) -> anyhow::Result<()> {
    let (training, execution) = begin(arguments, cluster)?;
    let mut terminal = Terminal::new(output, cluster, &training);
    let fitted = fit(&training, &execution, &mut terminal).map_err(|error| match error {
        FitError::Stopped { round, rounds, checkpoint: Some(path) } => {
            stopped(&path, &format!(" after round {round} of {rounds}"))
        }
        FitError::Interrupted { checkpoint: Some(path) } => stopped(&path, ""),
        error => reported(error.is_usage(), error),
    })?;
    if !cluster.is_root() {
        return Ok(());
    }
    let mut outcome = fitted.outcome.with_times(terminal.times());
    outcome.warnings.iter_mut().for_each(|warning| *warning = flags(warning));
    output.print(&outcome, table(&outcome))
}

/// The end of a run or a selection that was stopped, with the way to go on.
pub(super) fn stopped(checkpoint: &Path, place: &str) -> anyhow::Error {
    anyhow::anyhow!("stopped{place}; to go on:\n  {}", command_again(&[("--resume", Some(checkpoint))]))
}

/// The run that the arguments ask for and its execution, with the memory of a release kept private.
pub(super) fn begin(arguments: &TrainArguments, cluster: &Cluster) -> anyhow::Result<(Training, Execution)> {
    let training = arguments.training();
    if training.privacy.secure {
        match (&training.model, &training.ledger) {
            (None, Some(_)) => {
                let problem = "the run would be booked, and its model kept nowhere; give --model FILE";
                return Err(UsageError::of(format!("--ledger: {problem}")));
            }
            (None, None) if cluster.is_root() => {
                output::warn("the model of this release is kept nowhere; --model FILE writes it");
            }
            _ => {}
        }
        output::withhold_panics();
        keep_memory_private();
    }
    Ok((training, cluster.all_ok(execution(arguments, cluster))?))
}

/// The memory of a release holds its key and rows: no core file, no reading by other processes of the user, and where the limit
/// of locked memory allows it no page in swap.
fn keep_memory_private() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let limited = setrlimit(Resource::Core, none);
    if let Err(error) = limited.and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable)) {
        output::warn(format_args!(
            "this system lets other processes read the memory of this one, which holds the key: {error}"
        ));
    }
    // A limit that is reached later would end the run. A user may raise its own up to the maximum.
    let maximum = getrlimit(Resource::Memlock).maximum;
    let raised = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum }).is_ok();
    let is_unlimited = (raised && maximum.is_none()) || geteuid().is_root();
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let is_locked = is_unlimited && mlockall(flags).is_ok();
    // A line of titles, and one a swap device.
    let has_swap = std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1);
    if has_swap && !is_locked {
        output::warn(
            "the limit of locked memory lets the key get into swap: encrypt it, or run under `ulimit -l unlimited`",
        );
    }
}

/// Threads and ranks, bound as the arguments say.
fn execution(arguments: &TrainArguments, cluster: &Cluster) -> anyhow::Result<Execution> {
    let policy = arguments.execution.pin;
    let threads = threads(arguments.execution.threads)?;
    let engine = cluster.engine(&cluster.pinning(policy)?, threads)?;
    let mut execution = Execution::on(engine);
    execution.pinning = (policy != PinPolicy::None).then(|| policy.to_string());
    execution.build = build;
    Ok(execution)
}
