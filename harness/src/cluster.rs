//! The ranks of a command: their start, the errors that they share, and their end.
//!
//! A command takes the same steps on every rank. A step that may fail on one rank alone ends with [`Cluster::all_ok`], so
//! that all ranks stop, and rank 0 prints the error with the rank's name. Any other failure aborts all ranks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rounds_algorithms::oracle::Engine;
use rounds_algorithms::oracle::ranks::{Ranks, gather_messages};
use rounds_algorithms::problem::{Dataset, Problem};
use rounds_kernels::loss::Loss;
use zeroize::Zeroizing;

use crate::launcher;
use crate::machine::{PinPolicy, Pinning, build};
use crate::output;
use crate::usage::{UsageError, with_causes};
use rounds_models::data::part::{self, Digests, Part};
use rounds_models::data::{DataError, Request};

/// Execution engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineKind {
    /// The threads of this process.
    #[default]
    Threads,
    /// The processes that mpirun or srun started, each with its own threads.
    Mpi,
}

/// An error that all ranks have; rank 0 prints it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SharedError {
    message: String,
    /// Exit code: 2 for bad usage.
    code: u8,
}

impl SharedError {
    /// Exit code of every rank.
    pub fn code(&self) -> u8 {
        self.code
    }

    fn usage(message: String) -> anyhow::Error {
        Self { message, code: 2 }.into()
    }
}

/// The ranks of a command: one, or those of MPI.
pub struct Cluster {
    ranks: Option<Arc<TimedRanks>>,
}

impl Cluster {
    /// This process alone.
    pub fn alone() -> Self {
        Self { ranks: None }
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
            .map_err(|error| SharedError::usage(format!("{remedy}: {error}")))
    }

    /// The ranks given.
    pub fn over(ranks: Arc<dyn Ranks>) -> Self {
        Self { ranks: Some(Arc::new(TimedRanks { ranks, counters: Default::default() })) }
    }

    fn ranks(&self) -> Option<&TimedRanks> {
        self.ranks.as_deref()
    }

    /// Number of ranks; `None` for [`alone`](Self::alone).
    pub fn count(&self) -> Option<usize> {
        self.ranks().map(Ranks::count)
    }

    /// True on the rank that prints and writes.
    pub fn is_root(&self) -> bool {
        self.ranks().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// Messages of this rank so far.
    pub fn traffic(&self) -> Traffic {
        self.ranks().map_or_else(Traffic::default, TimedRanks::traffic)
    }

    /// An engine of `threads` threads: on each of the ranks, which their launcher binds, or of this process and bound.
    ///
    /// # Errors
    /// No threads; threads that the system does not start or bind.
    pub fn engine(&self, pinning: &Pinning, threads: usize) -> anyhow::Result<Engine> {
        let engine = match self.ranks.clone() {
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
        let Some(ranks) = self.ranks() else { return result };
        let message = result
            .as_ref()
            .err()
            .map_or_else(Vec::new, |error| [&[code_of(error)], with_causes(error).as_bytes()].concat());
        let all = gather_messages(ranks, &message);
        let Some(failed) = all.iter().position(|message| !message.is_empty()) else {
            return result;
        };
        let mut message = String::from_utf8_lossy(&all[failed][1..]).into_owned();
        if all.iter().any(|message| *message != all[failed]) {
            message = format!("{}: {message}", self.name(failed));
        }
        let code = all[failed][0];
        Err(SharedError { message, code }.into())
    }

    /// Runs a step on rank 0 alone; its error is that of all ranks.
    ///
    /// # Errors
    /// [`SharedError`], if the step failed.
    pub fn root_only(&self, step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.all_ok(if self.is_root() { step() } else { Ok(()) })
    }

    /// Bytes that rank 0 alone makes, on every rank. No copy is left in this process, but for those that MPI makes.
    ///
    /// # Errors
    /// [`SharedError`], if rank 0 failed.
    pub fn broadcast_result(
        &self,
        make: impl FnOnce() -> anyhow::Result<Zeroizing<Vec<u8>>>,
    ) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let made = if self.is_root() { make() } else { Ok(Zeroizing::default()) };
        let mut bytes = self.all_ok(made)?;
        Ok(Zeroizing::new(self.broadcast(std::mem::take(&mut *bytes))))
    }

    /// The rank in words.
    fn name(&self, rank: usize) -> String {
        format!("rank {rank} of {}", self.count().unwrap_or(1))
    }

    /// Checks that all ranks have the same `value`. The error names the first line that differs.
    ///
    /// # Errors
    /// The first rank that differs from rank 0, as [`SharedError`] of bad usage.
    pub fn check_same(&self, what: &str, value: &str) -> anyhow::Result<()> {
        let Some([other, root]) = self.ranks().and_then(|ranks| differing(ranks, value.as_bytes())) else {
            return Ok(());
        };
        let texts = [&other, &root].map(|rank| String::from_utf8_lossy(&rank.1));
        let (other, root) = (&other.0, &root.0);
        let mut lines = texts.each_ref().map(|text| text.lines());
        let [differs, expected] = loop {
            let pair = lines.each_mut().map(Iterator::next);
            if pair[0] != pair[1] || pair == [None, None] {
                break pair.map(|line| line.unwrap_or("nothing"));
            }
        };
        Err(SharedError::usage(format!("{other} has another {what} than {root}: {differs} and {expected}")))
    }

    /// Rank 0's `bytes` on every rank; their number is rank 0's too.
    pub fn broadcast(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(ranks) = self.ranks() {
            let mut length = (bytes.len() as u64).to_le_bytes();
            ranks.broadcast(0, &mut length);
            if ranks.rank() != 0 {
                bytes = vec![0; u64::from_le_bytes(length) as usize];
            }
            ranks.broadcast(0, &mut bytes);
        }
        bytes
    }

    /// For each place the largest of all ranks' `values`, of which every rank has as many.
    pub fn largest(&self, values: &[u64]) -> Vec<u64> {
        let mut largest = values.to_vec();
        if let Some(ranks) = self.ranks() {
            let own: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            for message in gather_messages(ranks, &own) {
                for (largest, value) in largest.iter_mut().zip(message.as_chunks::<8>().0) {
                    *largest = (*largest).max(u64::from_le_bytes(*value));
                }
            }
        }
        largest
    }

    /// Loads this rank's part of the requested data, and checks that all ranks read the same files. `explain`
    /// makes the reported error of an error of the data.
    ///
    /// # Errors
    /// Data that a rank cannot read, fewer rows than ranks, ranks that see different data, all as [`SharedError`].
    pub fn load(
        &self,
        name_or_path: &str,
        data_dir: Option<&std::path::Path>,
        request: Request<'_>,
        explain: &dyn Fn(DataError) -> anyhow::Error,
    ) -> anyhow::Result<Part> {
        let Some(ranks) = self.ranks() else {
            let whole = rounds_models::data::load_requested(name_or_path, data_dir, request).map_err(explain)?;
            return Ok(Part { train: whole.train, test: whole.test, digests: Digests::default() });
        };
        let found = part::load(name_or_path, data_dir, request, ranks.rank(), ranks.count());
        let part = self.all_ok(found.map_err(|error| match error {
            DataError::MoreRanksThanRows { .. } => UsageError::of(error),
            error => explain(error),
        }))?;
        check_same_rows(ranks, &part.digests)?;
        Ok(part)
    }

    /// The problem of this rank's `part`, or of all rows.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn problem(&self, part: Dataset, loss: Loss, regularization: f64) -> anyhow::Result<Problem> {
        let Some(ranks) = self.ranks() else {
            return Ok(Problem::new(Arc::new(part), loss, true, regularization)?);
        };
        Problem::sharded(part, loss, true, regularization, ranks, |result| self.all_ok(result.map_err(Into::into)))
    }

    /// SHA-256 of the rows of all ranks, of which `part` is this rank's; before [`problem`](Self::problem) takes them.
    pub fn digest(&self, part: &Dataset) -> [u8; 32] {
        self.ranks().map_or_else(|| part.digest(), |ranks| part.digest_over(ranks))
    }

    /// The link between the ranks, measured outside of rounds with messages of `values` numbers; for 2, 4, 8, … ranks.
    pub fn link(&self, values: usize) -> Option<Link> {
        let ranks = self.ranks()?;
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
        let (Some(ranks), Err(error)) = (self.ranks(), &result) else {
            return result;
        };
        if !error.is::<SharedError>() {
            output::fail(format_args!("{}: {}", self.name(ranks.rank()), with_causes(error)));
            abort(code_of(error).into())
        }
        if self.is_root() {
            output::fail(with_causes(error));
        }
        gather_messages(ranks, &[]);
        result
    }
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

/// A rank in words, with its host, and its value.
type RankValue = (String, Vec<u8>);

/// The first rank whose `value` differs from rank 0's, and rank 0.
fn differing(ranks: &dyn Ranks, value: &[u8]) -> Option<[RankValue; 2]> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let message = [host.trim().as_bytes(), b"\0", value].concat();
    let mut all = gather_messages(ranks, &message).into_iter().enumerate().map(|(rank, message)| {
        let host = message.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = format!("rank {rank} (on {})", String::from_utf8_lossy(host));
        (name, message[host.len() + 1..].to_vec())
    });
    let root = all.next()?;
    all.find(|other| other.1 != root.1).map(|other| [other, root])
}

/// Checks that all ranks see the same rows. The error names ranks and prints no digest: anybody can compare a digest without
/// a key with that of guessed rows.
fn check_same_rows(ranks: &dyn Ranks, digests: &Digests) -> anyhow::Result<()> {
    let remedy = "ranks see different data: give every rank the same files";
    let refused = |what: String| SharedError::usage(format!("{remedy}: {what}"));
    if let Some([other, root]) = differing(ranks, &digests.common) {
        return Err(refused(format!("{} has other data than {}", other.0, root.0)));
    }
    let all = gather_messages(ranks, [digests.own, digests.next].as_flattened());
    let count = ranks.count();
    let Some(rank) = (0..count).find(|&rank| all[rank][32..] != all[(rank + 1) % count][..32]) else {
        return Ok(());
    };
    let next = (rank + 1) % count;
    Err(refused(format!("rank {rank} and rank {next} read other rows of rank {next}'s")))
}

fn code_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<SharedError>() {
        Some(error) => error.code,
        None if error.is::<UsageError>() => 2,
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
    use rounds_algorithms::oracle::mpi::MpiRanks;
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
    rounds_algorithms::oracle::mpi::MpiRanks::abort(code);
    #[cfg(not(feature = "mpi"))]
    std::process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_algorithms::oracle::ranks::ThreadRanks;

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
    fn the_rank_that_failed_is_named_on_all_ranks() {
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
        for (code, text) in refusals(3, |rank, cluster| cluster.check_same("build", if rank == 1 { "b" } else { "a" }))
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
    fn ranks_that_see_other_rows_are_named_and_no_digest_is_printed() {
        // Of every rank the digests, and what the error names.
        let shared = Digests { common: [1; 32], own: [2; 32], next: [2; 32] };
        let (common, own, next) = ([9; 32], [9; 32], [9; 32]);
        let others = [
            (Digests { common, ..shared }, ["rank 1 (on ", "rank 0 (on "]),
            (Digests { own, ..shared }, ["rank 0 and rank 1", "rank 1's"]),
            (Digests { next, ..shared }, ["rank 1 and rank 2", "rank 2's"]),
        ];
        for (other, named) in others {
            let check = |rank, cluster: Cluster| {
                check_same_rows(cluster.ranks().unwrap(), if rank == 1 { &other } else { &shared })
            };
            for (code, text) in refusals(3, check) {
                assert!(code == 2 && text.starts_with("ranks see different data"), "{text}");
                assert!(named.iter().all(|name| text.contains(name)), "{text}");
                for byte in ["01", "02", "09"] {
                    assert!(!text.contains(&byte.repeat(4)), "{text}");
                }
            }
        }
        let alike = on_ranks(3, |_, cluster| check_same_rows(cluster.ranks().unwrap(), &shared).is_ok());
        assert_eq!(alike, [true; 3]);
    }

    #[test]
    fn steps_of_rank_0_give_their_bytes_or_their_error_to_all() {
        for length in [0, 1, 100] {
            let outcomes = on_ranks(3, |rank, cluster| {
                let own = vec![rank as u8 + 1; length * (rank + 1)];
                cluster.broadcast_result(|| Ok(Zeroizing::new(own))).unwrap().to_vec()
            });
            assert_eq!(outcomes, vec![vec![1; length]; 3]);
        }
        let failed = refusals(3, |rank, cluster| cluster.root_only(|| anyhow::bail!("rank {rank} failed")));
        assert_eq!(failed, vec![(1, "rank 0 of 3: rank 0 failed".to_owned()); 3]);
    }

    #[test]
    fn messages_and_bytes_are_counted_and_a_link_is_measured() {
        let outcomes = on_ranks(4, |rank, cluster| {
            let link = cluster.link(1_000).unwrap();
            let before = cluster.traffic();
            let ranks = cluster.ranks().unwrap();
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
        let load =
            |_, cluster: Cluster| cluster.load(file.to_str().unwrap(), None, Request::default(), &anyhow::Error::from);
        for (code, text) in refusals(3, load) {
            assert!(code == 2 && text.contains("fewer rows than there are ranks, 3"), "{text}");
        }
    }
}
