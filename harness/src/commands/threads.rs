//! The threads of `--threads` and `--pin`.

use anyhow::Context as _;

use super::UsageError;
use crate::cluster::Cluster;
use crate::machine::{PinPolicy, Pinning};

/// The number of threads of `--threads`, by default that of all cores.
///
/// # Errors
/// A system that does not tell its number of processors.
pub(super) fn count(threads: Option<usize>) -> anyhow::Result<usize> {
    let all = || std::thread::available_parallelism().map(usize::from);
    threads.map_or_else(all, Ok).context("the number of processors is unknown: give --threads")
}

/// The policy on this machine.
///
/// # Errors
/// Ranks, which their launcher binds; a machine that hwloc does not know.
pub(super) fn pinning(policy: PinPolicy, cluster: &Cluster) -> anyhow::Result<Pinning> {
    if policy != PinPolicy::None && cluster.count().is_some() {
        return Err(UsageError::of(format!(
            "--pin {policy}: ranks are bound by their launcher (mpirun --bind-to core, srun --cpu-bind=cores); leave --pin out"
        )));
    }
    Pinning::new(policy).map_err(UsageError::of)
}
