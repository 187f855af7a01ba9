//! The ranks of a command: their start, the errors that they share, and their end.
//!
//! A command takes the same steps on every rank. A step that may fail on one rank alone ends with [`Cluster::all_ok`], so
//! that all ranks stop, and rank 0 prints the error with the rank's name. Any other failure aborts all ranks.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::parallel::ranks::{Ranks, gather_messages};
use rounds_algorithms::problem::{Dataset, Problem};
use rounds_kernels::loss::Loss;

use crate::launcher;
use crate::machine::{PinPolicy, Pinning, build};
use crate::output;
use crate::usage::{UsageError, is_usage, with_causes};
use rounds_models::data::part::{self, Part};
use rounds_models::data::{DataError, Request};
use rounds_models::group::{Group, SharedError};

/// Execution engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineKind {
    /// The threads of this process.
    #[default]
    Threads,
    /// The processes that mpirun or srun started, each with its own threads.
    Mpi,
}

/// The ranks of a command, one or those of MPI: a [`Group`] whose messages are timed.
pub struct Cluster {
    group: Group,
    timed: Option<Arc<TimedRanks>>,
}

/// The group's own steps.
impl Deref for Cluster {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

impl Cluster {
    /// This process alone.
    pub fn alone() -> Self {
        Self { group: Group::alone(), timed: None }
    }

    /// The ranks of an execution engine. Under MPI they compare their builds.
    ///
    /// # Errors
    /// MPI in a build without it, or in a process that mpirun or srun did not start; ranks of different builds.
    pub fn start(kind: EngineKind) -> anyhow::Result<Self> {
        if kind == EngineKind::Threads {
            launcher::warn_of_separate_processes();
            return Ok(Self::alone());
        }
        let cluster = Self::over(start_mpi()?);
        cluster.finish(cluster.check_same_build(&build().identity(), &build().isa))?;
        Ok(cluster)
    }

    /// Checks that all ranks run the same executable, on kernels of the same instructions.
    fn check_same_build(&self, identity: &str, isa: &str) -> anyhow::Result<()> {
        let remedy = "every rank needs the same executable on the same kind of processor";
        self.check_same("build", identity)
            .and_then(|()| self.check_same("instruction set", isa))
            .map_err(|error| SharedError { message: format!("{remedy}: {error}"), is_usage: true }.into())
    }

    /// The ranks given.
    pub fn over(ranks: Arc<dyn Ranks>) -> Self {
        let timed = Arc::new(TimedRanks { ranks, counters: Default::default() });
        Self { group: Group::over(timed.clone()), timed: Some(timed) }
    }

    fn timed(&self) -> Option<&TimedRanks> {
        self.timed.as_deref()
    }

    /// Messages of this rank so far.
    pub fn traffic(&self) -> Traffic {
        self.timed().map_or_else(Traffic::default, TimedRanks::traffic)
    }

    /// The policy of `--pin` on this machine.
    ///
    /// # Errors
    /// Ranks, which their launcher binds; a machine that hwloc does not know.
    pub fn pinning(&self, policy: PinPolicy) -> anyhow::Result<Pinning> {
        if policy != PinPolicy::None && self.count().is_some() {
            return Err(UsageError::of(format!(
                "--pin {policy}: ranks are bound by their launcher (mpirun --bind-to core, srun --cpu-bind=cores); leave --pin out"
            )));
        }
        Pinning::new(policy).map_err(UsageError::of)
    }

    /// An engine of `threads` threads: on each of the ranks, which their launcher binds, or of this process and bound.
    ///
    /// # Errors
    /// No threads; threads that the system does not start or bind.
    pub fn engine(&self, pinning: &Pinning, threads: usize) -> anyhow::Result<Engine> {
        let engine = match self.timed.clone() {
            None if pinning.policy() == PinPolicy::None => Engine::with_threads(threads),
            None => return Ok(pinning.engine(threads)?),
            Some(ranks) => Engine::over_ranks(ranks, threads),
        };
        engine.map_err(|error| UsageError::of(format!("--threads: {error}")))
    }

    /// The result of this rank if every rank succeeded. Otherwise the error of the lowest rank that failed, with the rank's
    /// name unless all failed alike.
    ///
    /// # Errors
    /// [`SharedError`], if any rank failed.
    pub fn all_ok<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        let own = result.as_ref().err();
        let own = own.map(|error| SharedError { message: with_causes(error), is_usage: code_of(error) == 2 });
        self.group.agree(own)?;
        result
    }

    /// For each place the largest of all ranks' `values`, of which every rank has as many.
    pub fn largest(&self, values: &[u64]) -> Vec<u64> {
        let mut largest = values.to_vec();
        if let Some(ranks) = self.timed() {
            let own: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            for message in gather_messages(ranks, &own) {
                for (largest, value) in largest.iter_mut().zip(message.as_chunks::<8>().0) {
                    *largest = (*largest).max(u64::from_le_bytes(*value));
                }
            }
        }
        largest
    }

    /// Loads this rank's part of the requested data, and checks that all ranks read the same files.
    ///
    /// # Errors
    /// Data that a rank cannot read, fewer rows than ranks, ranks that see different data; of ranks as [`SharedError`].
    pub fn load(
        &self,
        name_or_path: &str,
        data_dir: Option<&std::path::Path>,
        request: Request<'_>,
    ) -> anyhow::Result<Part> {
        let (rank, ranks) = self.group.place();
        let found = part::load(name_or_path, data_dir, request, rank, ranks);
        let part = self.all_ok(found.map_err(|error| match error.withheld() {
            DataError::MoreRanksThanRows { .. } => UsageError::of(error),
            _ => error.into(),
        }))?;
        self.group.check_same_rows(&part.digests)?;
        Ok(part)
    }

    /// The problem of this rank's `part`, or of all rows.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn problem(&self, part: Dataset, loss: Loss, regularization: f64) -> anyhow::Result<Problem> {
        let Some(ranks) = self.timed() else {
            return Ok(Problem::new(Arc::new(part), loss, true, regularization)?);
        };
        Problem::sharded(part, loss, true, regularization, ranks, |result| self.all_ok(result.map_err(Into::into)))
    }

    /// The link between the ranks, measured outside of rounds with messages of `values` numbers; for 2, 4, 8, … ranks.
    pub fn link(&self, values: usize) -> Option<Link> {
        let ranks = self.timed()?;
        let count = ranks.count();
        if !count.is_power_of_two() || count == 1 {
            return None;
        }
        // On a slow link fewer swaps do; rank 0 decides how many.
        let first = swap_nanoseconds(ranks, values, 1);
        let affordable = (LINK_NANOSECONDS / first.max(1)).clamp(2, LINK_SAMPLES);
        let samples = self.broadcast(affordable.to_le_bytes().to_vec());
        let samples = u64::from_le_bytes(samples.try_into().expect("rank 0 sends eight bytes"));
        let message = swap_nanoseconds(ranks, values, samples);
        let large = swap_nanoseconds(ranks, LARGE_MESSAGE * values, samples);
        let more_bytes = 8 * (LARGE_MESSAGE - 1) * values;
        Some(Link {
            message_ns: message,
            bytes_per_s: more_bytes as f64 * 1e9 / large.saturating_sub(message).max(1) as f64,
        })
    }

    /// The end of a command. Rank 0 prints a [`SharedError`] before any rank ends, since a launcher kills the others when the
    /// first one fails. Any other error aborts all ranks.
    ///
    /// # Errors
    /// The error given, if it is a [`SharedError`].
    pub fn finish<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        let (Some(ranks), Err(error)) = (self.timed(), &result) else {
            return result;
        };
        if !error.is::<SharedError>() {
            output::fail(format_args!("{}: {}", self.group.name(ranks.rank()), with_causes(error)));
            abort(code_of(error).into())
        }
        if self.is_root() {
            output::fail(with_causes(error));
        }
        gather_messages(ranks, &[]);
        result
    }
}

/// The number of threads of `--threads`, by default that of all cores.
///
/// # Errors
/// A system that does not tell its number of processors.
pub fn threads(threads: Option<usize>) -> anyhow::Result<usize> {
    let all = || std::thread::available_parallelism().map(usize::from);
    threads.map_or_else(all, Ok).context("the number of processors is unknown: give --threads")
}

/// Latency and bandwidth of the link between ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Median nanoseconds of a message with a sum.
    pub message_ns: u64,
    /// Bandwidth of longer messages, in bytes a second.
    pub bytes_per_s: f64,
}

/// Messages of a rank to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Nanoseconds in calls to other ranks, waiting included.
    pub nanoseconds: u64,
    /// Sequential messages: 1 for a swap, 1 for an exchange that is not empty, ⌈log₂ P⌉ for a collective of P ranks.
    pub messages: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Bytes of rows among them.
    pub row_bytes: u64,
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            nanoseconds: self.nanoseconds - earlier.nanoseconds,
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
            row_bytes: self.row_bytes - earlier.row_bytes,
        }
    }
}

/// Largest number of swaps that a link is measured with.
const LINK_SAMPLES: u64 = 25;

/// Approximate time for measuring a link.
const LINK_NANOSECONDS: u64 = 300_000_000;

/// Length of a large message over that of a small one.
const LARGE_MESSAGE: usize = 8;

/// Time between the swaps that measure the link. As between rounds, the threads that carry messages fall asleep meanwhile.
const LINK_PAUSE: std::time::Duration = std::time::Duration::from_micros(300);

/// Median time of `samples` swaps of `values` numbers with one partner after the other, after one for warming up.
fn swap_nanoseconds(ranks: &TimedRanks, values: usize, samples: u64) -> u64 {
    let (own, mut received) = (vec![1.0; values], vec![0.0; values]);
    let steps = ranks.count().ilog2();
    let mut times: Vec<u64> = (0..=samples)
        .map(|sample| {
            let step = (sample % u64::from(steps)) as u32;
            let pause = Instant::now();
            while pause.elapsed() < LINK_PAUSE {
                std::hint::spin_loop();
            }
            let started = Instant::now();
            ranks.swap(ranks.rank() ^ (1 << step), &own, &mut received);
            started.elapsed().as_nanos() as u64
        })
        .skip(1)
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Exit code of every rank: 2 for bad usage.
pub fn exit_code(error: &SharedError) -> u8 {
    if error.is_usage { 2 } else { 1 }
}

fn code_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<SharedError>() {
        Some(error) => exit_code(error),
        None if is_usage(error) => 2,
        None => 1,
    }
}

/// Ranks whose calls are timed and counted.
struct TimedRanks {
    ranks: Arc<dyn Ranks>,
    /// The fields of [`Traffic`] in their order.
    counters: [AtomicU64; 4],
}

impl TimedRanks {
    fn traffic(&self) -> Traffic {
        let counters = self.counters.each_ref().map(|counter| counter.load(Ordering::Relaxed));
        let [nanoseconds, messages, bytes, row_bytes] = counters;
        Traffic { nanoseconds, messages, bytes, row_bytes }
    }

    fn timed<R>(&self, messages: u32, bytes: [usize; 2], call: impl FnOnce(&dyn Ranks) -> R) -> R {
        let started = Instant::now();
        let answer = call(&*self.ranks);
        let elapsed = started.elapsed().as_nanos() as u64;
        let [bytes, row_bytes] = bytes.map(|bytes| bytes as u64);
        for (counter, more) in self.counters.iter().zip([elapsed, messages.into(), bytes, row_bytes]) {
            counter.fetch_add(more, Ordering::Relaxed);
        }
        answer
    }

    /// Messages of a collective: ⌈log₂ P⌉.
    fn steps(&self) -> u32 {
        self.count().next_power_of_two().ilog2()
    }
}

impl Ranks for TimedRanks {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn count(&self) -> usize {
        self.ranks.count()
    }

    fn swap(&self, partner: usize, values: &[f64], received: &mut [f64]) {
        self.timed(1, [size_of_val(values), 0], |ranks| {
            ranks.swap(partner, values, received);
        });
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) {
        self.timed(self.steps(), [own.len(), 0], |ranks| {
            ranks.all_gather(own, lengths, all);
        });
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        self.timed(self.steps(), [bytes.len(), 0], |ranks| ranks.broadcast(from, bytes));
    }

    fn exchange(&self, outgoing: &[Vec<u8>], incoming: &mut [Vec<u8>]) {
        let sent = outgoing.iter().map(Vec::len).sum();
        let received: usize = incoming.iter().map(Vec::len).sum();
        let any = sent + received > 0;
        self.timed(u32::from(any), [sent, sent], |ranks| ranks.exchange(outgoing, incoming));
    }
}

/// Starts MPI in a process that a launcher started.
#[cfg(feature = "mpi")]
fn start_mpi() -> anyhow::Result<Arc<dyn Ranks>> {
    use rounds_algorithms::parallel::mpi::MpiRanks;
    let Some((launcher, launched)) = launcher::launched() else {
        return Err(UsageError::of(
            "--engine mpi: no launcher started this process; start it as mpirun -n 4 rounds … --engine mpi (or with srun \
             --mpi=pmix), or use --engine threads",
        ));
    };
    let ranks = MpiRanks::start()?;
    if ranks.count() != launched {
        return Err(UsageError::of(format!(
            "--engine mpi: {launcher} names {launched} processes, but MPI finds {}: the launcher does not fit this MPI; use the \
             mpirun of the MPI that rounds was built with, or srun --mpi=pmix",
            ranks.count()
        )));
    }
    let rank = ranks.rank();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        output::fail(format_args!("rank {rank}: panicked; all ranks end"));
        MpiRanks::abort(1);
    }));
    Ok(Arc::new(ranks))
}

#[cfg(not(feature = "mpi"))]
fn start_mpi() -> anyhow::Result<Arc<dyn Ranks>> {
    launcher::wait_for_root();
    Err(UsageError::of(
        "--engine mpi: this build has no MPI; build it with cargo build --release -p rounds --features mpi (make mpi \
         installs what that needs), or use --engine threads",
    ))
}

fn abort(code: i32) -> ! {
    #[cfg(feature = "mpi")]
    rounds_algorithms::parallel::mpi::MpiRanks::abort(code);
    #[cfg(not(feature = "mpi"))]
    std::process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_algorithms::parallel::ranks::ThreadRanks;

    fn on_ranks<R: Send>(count: usize, work: impl Fn(usize, Cluster) -> R + Sync) -> Vec<R> {
        let work = &work;
        std::thread::scope(|scope| {
            let running: Vec<_> = ThreadRanks::of(count)
                .into_iter()
                .map(|ranks| scope.spawn(move || work(ranks.rank(), Cluster::over(Arc::new(ranks)))))
                .collect();
            running.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    /// Exit code and message of what `work` refuses on each rank.
    fn refusals<T>(count: usize, work: impl Fn(usize, Cluster) -> anyhow::Result<T> + Sync) -> Vec<(u8, String)> {
        on_ranks(count, |rank, cluster| {
            let error = work(rank, cluster).err().expect("a refusal");
            (code_of(&error), error.to_string())
        })
    }

    #[test]
    fn the_error_of_a_rank_ends_all_with_its_exit_code() {
        let failed = refusals(3, |rank, cluster| {
            cluster.all_ok(if rank == 2 { Err(anyhow::anyhow!("no such file")) } else { Ok(rank) })
        });
        assert_eq!(failed, vec![(1, "rank 2 of 3: no such file".to_owned()); 3]);
        let failed = refusals(2, |_, cluster| cluster.all_ok::<()>(Err(UsageError::of("bad"))));
        assert_eq!(failed, vec![(2, "bad".to_owned()); 2]);
        assert_eq!(on_ranks(2, |rank, cluster| cluster.all_ok(Ok(rank)).unwrap()), [0, 1]);
    }

    #[test]
    fn ranks_that_differ_are_refused_by_name() {
        for (code, text) in
            refusals(3, |rank, cluster| Ok(cluster.check_same("build", if rank == 1 { "b" } else { "a" })?))
        {
            assert!(code == 2 && text.contains("rank 1 (on ") && text.ends_with("b and a"), "{text}");
        }
        // Kernels on other instructions in the same build.
        for (code, text) in refusals(2, |rank, cluster| {
            cluster.check_same_build("an identity", if rank == 1 { "avx2" } else { "avx512" })
        }) {
            assert_eq!(code, 2);
            for part in ["rank 1 (on ", "instruction set", "avx2 and avx512", "the same executable"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        let same = on_ranks(3, |_, cluster| cluster.check_same_build("an identity", "avx512").is_ok());
        assert_eq!(same, [true; 3]);
    }

    #[test]
    fn messages_and_bytes_are_counted_and_a_link_is_measured() {
        let outcomes = on_ranks(4, |rank, cluster| {
            let link = cluster.link(1_000).unwrap();
            let before = cluster.traffic();
            let ranks = cluster.timed().unwrap();
            ranks.swap(rank ^ 1, &[1.0; 5], &mut [0.0; 5]);
            let (mut outgoing, mut incoming) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
            ranks.exchange(&outgoing, &mut incoming);
            outgoing[(rank + 1) % 4] = vec![7; 3];
            incoming[(rank + 3) % 4] = vec![0; 3];
            ranks.exchange(&outgoing, &mut incoming);
            ranks.broadcast(0, &mut [0; 2]);
            (link, cluster.traffic() - before)
        });
        for (link, traffic) in outcomes {
            assert!(link.message_ns > 0 && link.bytes_per_s > 0.0);
            // A swap, an exchange with rows, two steps of a broadcast.
            assert_eq!((traffic.messages, traffic.bytes, traffic.row_bytes), (4, 40 + 3 + 2, 3));
        }
        assert_eq!(on_ranks(3, |_, cluster| cluster.link(10)), [None; 3]);
    }

    #[test]
    fn more_ranks_than_rows_are_bad_usage() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("few.csv");
        std::fs::write(&file, "a,b,label\n1,2,0\n3,4,1\n").unwrap();
        let load = |_, cluster: Cluster| cluster.load(file.to_str().unwrap(), None, Request::default());
        for (code, text) in refusals(3, load) {
            assert!(code == 2 && text.contains("fewer rows than there are ranks, 3"), "{text}");
        }
    }
}
