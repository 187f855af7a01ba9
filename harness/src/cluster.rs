//! The ranks that a command runs on: starting them, agreeing on what went wrong, and ending together.
//!
//! A command is a sequence of steps that every rank takes. At the end of a step in which one rank alone may fail (reading
//! a file, writing a checkpoint) all say how it went ([`Cluster::agree`]), so all of them stop, and rank 0 says why, naming
//! the rank. A failure anywhere else (a panic) ends all ranks at once; a rank that is killed is named by `mpirun` or `srun`,
//! which end the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use rounds_algorithms::oracle::Engine;
use rounds_algorithms::oracle::ranks::{Ranks, gather_messages};
use rounds_algorithms::problem::{Dataset, Problem};
use rounds_kernels::loss::Loss;

use crate::commands::UsageError;
use crate::data::part::{self, Part, PartError, Witness};
use crate::machine::{Build, hexadecimal};

/// Who executes the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineKind {
    /// The threads of this process.
    #[default]
    Threads,
    /// The processes that mpirun or srun started, each with threads of its own.
    Mpi,
}

/// A failure that all ranks know of: rank 0 reports it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Agreed {
    message: String,
    /// Exit code: 2 for bad usage.
    code: u8,
    /// Whether this rank reports it.
    reports: bool,
}

impl Agreed {
    /// Exit code of every rank; [`Cluster::ended`] has reported the failure.
    pub fn code(&self) -> u8 {
        self.code
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

    /// Ranks as asked for. Under MPI they compare their builds first.
    ///
    /// # Errors
    /// MPI in a build without it, or in a process that mpirun or srun did not start; ranks of different builds.
    pub fn start(kind: EngineKind) -> anyhow::Result<Self> {
        let cluster = match kind {
            EngineKind::Threads => return Ok(Self::alone()),
            EngineKind::Mpi => Self {
                ranks: Some(Arc::new(TimedRanks::over(start_mpi()?))),
            },
        };
        let result = cluster
            .same(
                "build",
                &format!("{} ({})", Build::current().identity(), Build::current().isa),
            )
            .context("every rank needs the same executable");
        cluster.ended(result)?;
        Ok(cluster)
    }

    /// Over ranks that are there.
    pub fn over(ranks: Arc<dyn Ranks>) -> Self {
        Self {
            ranks: Some(Arc::new(TimedRanks::over(ranks))),
        }
    }

    fn ranks(&self) -> Option<&TimedRanks> {
        self.ranks.as_deref()
    }

    /// How many ranks there are, if they are more than this process alone.
    pub fn count(&self) -> Option<usize> {
        self.ranks().map(Ranks::count)
    }

    /// Whether this process prints and writes.
    pub fn is_first(&self) -> bool {
        self.ranks().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// Time spent in calls to other ranks so far, waiting for them included.
    pub fn communication(&self) -> u64 {
        self.ranks()
            .map_or(0, |ranks| ranks.nanoseconds.load(Ordering::Relaxed))
    }

    /// The engine of these ranks, with `threads` threads on each.
    ///
    /// # Errors
    /// As [`Engine::with_threads`].
    pub fn engine(&self, threads: usize) -> anyhow::Result<Engine> {
        let engine = match &self.ranks {
            None => Engine::with_threads(threads),
            Some(ranks) => {
                let ranks: Arc<dyn Ranks> = Arc::clone(ranks) as Arc<dyn Ranks>;
                Engine::over_ranks(ranks, threads)
            }
        };
        engine.map_err(|error| UsageError::new(format!("--threads: {error}")).into())
    }

    /// All ranks go on, or none does: the failure of the lowest rank that failed, named unless all failed alike.
    ///
    /// # Errors
    /// [`Agreed`], if any rank failed.
    pub fn agree<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        let Some(ranks) = self.ranks() else { return result };
        let message = match &result {
            Ok(_) => Vec::new(),
            Err(error) => {
                let code = code_of(error);
                let mut bytes = vec![code];
                bytes.extend_from_slice(format!("{error:#}").as_bytes());
                bytes
            }
        };
        let mut all = gather_messages(ranks, &message);
        let Some(first) = all.iter().position(|message| !message.is_empty()) else {
            return result;
        };
        let everywhere = all.iter().all(|message| *message == all[first]);
        let failure = all.swap_remove(first);
        let text = String::from_utf8_lossy(&failure[1..]).into_owned();
        Err(Agreed {
            message: if everywhere {
                text
            } else {
                format!("{}: {text}", self.name(first))
            },
            code: failure[0],
            reports: ranks.rank() == 0,
        }
        .into())
    }

    /// The rank in words.
    fn name(&self, rank: usize) -> String {
        format!("rank {rank} of {}", self.count().unwrap_or(1))
    }

    /// Checks that `value`, which all ranks should have alike, is. Of several lines the first that differs is named.
    ///
    /// # Errors
    /// The first rank that differs from rank 0, as [`Agreed`] bad usage.
    pub fn same(&self, what: &str, value: &str) -> anyhow::Result<()> {
        let Some(ranks) = self.ranks() else { return Ok(()) };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let all = gather_messages(ranks, format!("{}\0{value}", host.trim()).as_bytes());
        let all: Vec<_> = all
            .iter()
            .map(|message| {
                let text = String::from_utf8_lossy(message).into_owned();
                let (host, value) = text.split_once('\0').map_or(("", ""), |pair| pair);
                (host.to_owned(), value.to_owned())
            })
            .collect();
        let Some(other) = all.iter().position(|(_, value)| *value != all[0].1) else {
            return Ok(());
        };
        // Of values of several lines, the first that differs.
        let lines = |rank: usize| all[rank].1.lines().map(Some).chain(std::iter::repeat(None));
        let differing = lines(other)
            .zip(lines(0))
            .take(1 + all[other].1.len() + all[0].1.len())
            .find(|(own, first)| own != first);
        let (own, first) = differing.unwrap_or((None, None));
        Err(Agreed {
            message: format!(
                "rank {other} (on {}) has another {what} than rank 0 (on {}): {} and {}",
                all[other].0,
                all[0].0,
                own.unwrap_or("nothing"),
                first.unwrap_or("nothing")
            ),
            code: 2,
            reports: ranks.rank() == 0,
        }
        .into())
    }

    /// Rank 0's `bytes`, whose number it decides, on every rank.
    pub fn of_first(&self, bytes: Vec<u8>) -> Vec<u8> {
        match self.ranks() {
            None => bytes,
            Some(ranks) => {
                let own = if ranks.rank() == 0 { bytes } else { Vec::new() };
                gather_messages(ranks, &own).swap_remove(0)
            }
        }
    }

    /// Loads this rank's part of the data and compares what the ranks saw.
    ///
    /// # Errors
    /// Data that a rank cannot read, fewer rows than ranks, ranks that see different data; [`Agreed`].
    pub fn load(&self, name_or_path: &str, data_dir: Option<&std::path::Path>) -> anyhow::Result<Part> {
        let Some(ranks) = self.ranks() else {
            let whole = crate::data::load(name_or_path, data_dir)?;
            return Ok(Part {
                train: whole.train,
                test: whole.test,
                witness: Witness::default(),
            });
        };
        let found = part::load(name_or_path, data_dir, ranks.rank(), ranks.count());
        let part = self.agree(found.map_err(|error| match error {
            PartError::MoreRanksThanRows { .. } => UsageError::new(error.to_string()).into(),
            error => anyhow::Error::from(error),
        }))?;
        let way_out = "ranks see different data: give every rank the same files";
        self.same("data digest", &hexadecimal(&part.witness.common))
            .map_err(|error| explained(error, way_out))?;
        let own = part.witness;
        let all = gather_messages(ranks, [own.own, own.next].as_flattened());
        let count = ranks.count();
        if let Some(rank) = (0..count).find(|&rank| all[rank][32..] != all[(rank + 1) % count][..32]) {
            let next = (rank + 1) % count;
            return Err(Agreed {
                message: format!(
                    "{way_out}: rank {rank} and rank {next} have other digests of rank {next}'s rows ({} and {})",
                    hexadecimal(&all[rank][32..]),
                    hexadecimal(&all[next][..32])
                ),
                code: 2,
                reports: ranks.rank() == 0,
            }
            .into());
        }
        Ok(part)
    }

    /// `part` in the format that the parts of all ranks have: clipping turns bytes into floats where a row is clipped, and
    /// then all ranks keep floats, as one process would.
    ///
    /// # Errors
    /// Floats that a rank cannot hold.
    pub fn in_one_format(&self, part: Dataset) -> anyhow::Result<Dataset> {
        let Some(ranks) = self.ranks() else { return Ok(part) };
        let bytes = part::is_bytes(&part);
        let all = gather_messages(ranks, &[u8::from(bytes)]);
        let floats = bytes && all.iter().any(|message| message[0] == 0);
        self.agree(if floats {
            part.to_f32().map_err(Into::into)
        } else {
            Ok(part)
        })
    }

    /// The problem of this rank's `part`, or of all rows.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn problem(&self, part: Dataset, loss: Loss, regularization: f64) -> anyhow::Result<Problem> {
        let Some(ranks) = self.ranks() else {
            return Ok(Problem::new(Arc::new(part), loss, true, regularization)?);
        };
        Problem::sharded(part, loss, true, regularization, ranks, |result| {
            self.agree(result.map_err(Into::into))
        })
    }

    /// SHA-256 of the rows of all ranks, of which `part` is this rank's; before [`problem`](Self::problem) takes them.
    pub fn digest(&self, part: &Dataset) -> [u8; 32] {
        self.ranks()
            .map_or_else(|| part.digest(), |ranks| part.digest_over(ranks))
    }

    /// Nanoseconds in which all ranks hand a sum of `values` values around once, by their median.
    pub fn link(&self, values: usize) -> Option<u64> {
        let ranks = self.ranks()?;
        let count = ranks.count();
        if !count.is_power_of_two() {
            return None;
        }
        let (own, mut received) = (vec![1.0; values], vec![0.0; values]);
        let mut times: Vec<u64> = (0..LINK_SAMPLES + 2)
            .map(|_| {
                let started = Instant::now();
                for step in 0..count.ilog2() {
                    ranks.swap(ranks.rank() ^ (1 << step), &own, &mut received);
                }
                started.elapsed().as_nanos() as u64
            })
            .skip(2)
            .collect();
        times.sort_unstable();
        Some(times[times.len() / 2])
    }

    /// What a command came to. A failure that all ranks know of is reported by rank 0 before any rank ends, since a launcher
    /// kills the others when the first ends with a failure; one that the others do not know of ends them here.
    ///
    /// # Errors
    /// The failure, where all ranks know of it.
    pub fn ended<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        let (Some(ranks), Err(error)) = (self.ranks(), &result) else {
            return result;
        };
        let Some(agreed) = error.downcast_ref::<Agreed>() else {
            eprintln!("rounds: {}: {error:#}", self.name(ranks.rank()));
            abort(code_of(error).into())
        };
        if agreed.reports {
            eprintln!("rounds: {error:#}");
        }
        gather_messages(ranks, &[]);
        result
    }
}

/// Swaps of which the link's time is the median.
const LINK_SAMPLES: usize = 15;

fn explained(error: anyhow::Error, way_out: &str) -> anyhow::Error {
    match error.downcast::<Agreed>() {
        Ok(agreed) => Agreed {
            message: format!("{way_out}: {}", agreed.message),
            ..agreed
        }
        .into(),
        Err(error) => error,
    }
}

/// Exit code of a failure.
fn code_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Agreed>() {
        Some(agreed) => agreed.code,
        None if error.is::<UsageError>() => 2,
        None => 1,
    }
}

/// Ranks whose calls are timed.
struct TimedRanks {
    ranks: Arc<dyn Ranks>,
    nanoseconds: AtomicU64,
}

impl TimedRanks {
    fn over(ranks: Arc<dyn Ranks>) -> Self {
        Self {
            ranks,
            nanoseconds: AtomicU64::new(0),
        }
    }

    fn timed<R>(&self, call: impl FnOnce(&dyn Ranks) -> R) -> R {
        let started = Instant::now();
        let answer = call(&*self.ranks);
        let elapsed = started.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(elapsed, Ordering::Relaxed);
        answer
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
        self.timed(|ranks| ranks.swap(partner, values, received));
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) {
        self.timed(|ranks| ranks.all_gather(own, lengths, all));
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        self.timed(|ranks| ranks.broadcast(from, bytes));
    }

    fn exchange(&self, outgoing: &[Vec<u8>], incoming: &mut [Vec<u8>]) {
        self.timed(|ranks| ranks.exchange(outgoing, incoming));
    }
}

/// Variables in which launchers say how many processes they started.
#[cfg(feature = "mpi")]
const SIZES: [&str; 4] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
];

/// Starts MPI where a launcher started this process.
#[cfg(feature = "mpi")]
fn start_mpi() -> anyhow::Result<Arc<dyn Ranks>> {
    use rounds_algorithms::oracle::mpi::MpiRanks;
    let announced = |name: &&'static str| Some((*name, std::env::var(name).ok()?.parse::<usize>().ok()?));
    let Some((launcher, announced)) = SIZES.iter().find_map(announced) else {
        return Err(UsageError::new(
            "--engine mpi: no launcher started this process; start it as mpirun -n 4 rounds … --engine mpi (or with srun \
             --mpi=pmix), or use --engine threads",
        )
        .into());
    };
    let ranks = MpiRanks::start()?;
    if ranks.count() != announced {
        return Err(UsageError::new(format!(
            "--engine mpi: {launcher} says {announced} processes, and MPI sees {}: the launcher and this MPI do not speak \
             the same language; use the mpirun of the MPI that rounds was built with, or srun --mpi=pmix",
            ranks.count()
        ))
        .into());
    }
    let rank = ranks.rank();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        eprintln!("rounds: rank {rank}: it panicked; all ranks end");
        MpiRanks::abort(1);
    }));
    Ok(Arc::new(ranks))
}

/// This build has no MPI.
#[cfg(not(feature = "mpi"))]
fn start_mpi() -> anyhow::Result<Arc<dyn Ranks>> {
    Err(UsageError::new(
        "--engine mpi: this build has no MPI; build it with cargo build --release -p rounds --features mpi (make mpi \
         installs what that needs), or use --engine threads",
    )
    .into())
}

/// Ends all ranks.
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

    #[test]
    fn the_rank_that_failed_is_named_and_rank_0_reports() {
        let outcomes = on_ranks(3, |rank, cluster| {
            cluster
                .agree(if rank == 2 {
                    Err(anyhow::anyhow!("no such file"))
                } else {
                    Ok(rank)
                })
                .unwrap_err()
                .downcast::<Agreed>()
                .unwrap()
        });
        for (rank, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.to_string(), "rank 2 of 3: no such file");
            assert!(outcome.reports == (rank == 0) && outcome.code() == 1);
        }
        let outcomes = on_ranks(2, |_, cluster| {
            let error = cluster.agree::<()>(Err(UsageError::new("bad").into())).unwrap_err();
            (error.to_string(), code_of(&error))
        });
        assert_eq!(outcomes, [("bad".to_owned(), 2), ("bad".to_owned(), 2)]);
        assert_eq!(on_ranks(2, |rank, cluster| cluster.agree(Ok(rank)).unwrap()), [0, 1]);
    }

    #[test]
    fn ranks_that_differ_are_refused_by_name() {
        let outcomes = on_ranks(3, |rank, cluster| {
            let error = cluster.same("build", if rank == 1 { "b" } else { "a" }).unwrap_err();
            assert_eq!(code_of(&error), 2);
            error.to_string()
        });
        assert!(
            outcomes
                .iter()
                .all(|text| text.contains("rank 1 (on ") && text.ends_with("b and a")),
            "{outcomes:?}"
        );
        assert!(
            on_ranks(2, |_, cluster| cluster.same("build", "a").is_ok())
                .iter()
                .all(|&same| same)
        );
    }

    #[test]
    fn more_ranks_than_rows_are_bad_usage() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("few.csv");
        std::fs::write(&file, "a,b,label\n1,2,0\n3,4,1\n").unwrap();
        let outcomes = on_ranks(3, |_, cluster| {
            let error = cluster.load(file.to_str().unwrap(), None).err().unwrap();
            (code_of(&error), error.to_string())
        });
        assert!(
            outcomes
                .iter()
                .all(|(code, text)| *code == 2 && text.contains("3 ranks")),
            "{outcomes:?}"
        );
    }
}
