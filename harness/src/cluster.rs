//! The ranks that a command runs on: starting them, agreeing on what went wrong, and ending together.
//!
//! A command is a sequence of steps that every rank takes. At the end of a step in which one rank alone may fail (reading
//! a file, writing a checkpoint) all say how it went ([`Cluster::agree`]), so all of them stop, and rank 0 says why, naming
//! the rank. A failure anywhere else (a panic) ends all ranks at once; a rank that is killed is named by `mpirun` or `srun`,
//! which end the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rounds_algorithms::oracle::Engine;
use rounds_algorithms::oracle::ranks::{Ranks, gather_messages};
use rounds_algorithms::problem::{Dataset, Domain, Problem};
use rounds_kernels::loss::Loss;
use zeroize::Zeroizing;

use crate::commands::{UsageError, with_causes};
use crate::data::DataError;
use crate::data::part::{self, Part, PartError, Witness};
use crate::launcher;
use crate::machine::Build;

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
            EngineKind::Threads => {
                launcher::warn_of_lone_processes();
                return Ok(Self::alone());
            }
            EngineKind::Mpi => Self {
                ranks: Some(Arc::new(TimedRanks::over(start_mpi()?))),
            },
        };
        let result = cluster.same_build(&Build::current().identity(), &Build::current().isa);
        cluster.ended(result)?;
        Ok(cluster)
    }

    /// Checks that all ranks run the same executable, on kernels of the same instructions.
    fn same_build(&self, identity: &str, isa: &str) -> anyhow::Result<()> {
        let way_out = "every rank needs the same executable on the same kind of processor";
        self.same("build", identity)
            .and_then(|()| self.same("instruction set", isa))
            .map_err(|error| explained(error, way_out))
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

    /// What this rank said to others so far.
    pub fn traffic(&self) -> Traffic {
        self.ranks().map_or_else(Traffic::default, TimedRanks::traffic)
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
                bytes.extend_from_slice(with_causes(error).as_bytes());
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
        let Some([other, first]) = differing(ranks, value.as_bytes()) else {
            return Ok(());
        };
        let texts = [&other, &first].map(|said| String::from_utf8_lossy(&said.value).into_owned());
        // Of values of several lines, the first that differs.
        let lines = |text: usize| texts[text].lines().map(Some).chain(std::iter::repeat(None));
        let differing = lines(0)
            .zip(lines(1))
            .take(1 + texts[0].len() + texts[1].len())
            .find(|(own, first)| own != first);
        let (own, shared) = differing.unwrap_or((None, None));
        Err(Agreed {
            message: format!(
                "{other} has another {what} than {first}: {} and {}",
                own.unwrap_or("nothing"),
                shared.unwrap_or("nothing")
            ),
            code: 2,
            reports: ranks.rank() == 0,
        }
        .into())
    }

    /// Rank 0's `bytes`, whose number it decides, on every rank.
    pub fn of_first(&self, mut bytes: Vec<u8>) -> Vec<u8> {
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

    /// [`of_first`](Self::of_first) of bytes that hold a key: no copy is left in this process, but for those that MPI makes.
    pub fn secret_of_first(&self, mut bytes: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.of_first(std::mem::take(&mut *bytes)))
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

    /// Loads this rank's part of the data, encoded into `domain`, and compares what the ranks saw. `explain` turns an error of
    /// the data into the one that is reported.
    ///
    /// # Errors
    /// Data that a rank cannot read, fewer rows than ranks, ranks that see different data; [`Agreed`].
    pub fn load(
        &self,
        name_or_path: &str,
        data_dir: Option<&std::path::Path>,
        domain: Option<&Arc<Domain>>,
        explain: &dyn Fn(DataError) -> anyhow::Error,
    ) -> anyhow::Result<Part> {
        let Some(ranks) = self.ranks() else {
            let whole = crate::data::load_declared(name_or_path, data_dir, domain.cloned()).map_err(explain)?;
            return Ok(Part {
                train: whole.train,
                test: whole.test,
                witness: Witness::default(),
            });
        };
        let found = part::load(name_or_path, data_dir, domain, ranks.rank(), ranks.count());
        let part = self.agree(found.map_err(|error| match error {
            PartError::MoreRanksThanRows { .. } => UsageError::of(error),
            PartError::Data(error) => explain(error),
        }))?;
        same_rows(ranks, &part.witness)?;
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
        Problem::sharded(part, loss, true, regularization, ranks, |result| {
            self.agree(result.map_err(Into::into))
        })
    }

    /// SHA-256 of the rows of all ranks, of which `part` is this rank's; before [`problem`](Self::problem) takes them.
    pub fn digest(&self, part: &Dataset) -> [u8; 32] {
        self.ranks()
            .map_or_else(|| part.digest(), |ranks| part.digest_over(ranks))
    }

    /// What the ranks' link takes, measured outside of rounds with messages of `values` numbers, for 2, 4, 8, … ranks.
    pub fn link(&self, values: usize) -> Option<Link> {
        let ranks = self.ranks()?;
        let count = ranks.count();
        if !count.is_power_of_two() || count == 1 {
            return None;
        }
        // On a slow link fewer swaps do; rank 0 decides how many.
        let first = swap_nanoseconds(ranks, values, 1);
        let affordable = (LINK_NANOSECONDS / first.max(1)).clamp(2, LINK_SAMPLES);
        let samples = self.of_first(affordable.to_le_bytes().to_vec());
        let samples = u64::from_le_bytes(samples.try_into().expect("rank 0 sends eight bytes"));
        let message = swap_nanoseconds(ranks, values, samples);
        let large = swap_nanoseconds(ranks, LARGE_MESSAGE * values, samples);
        let more_bytes = 8 * (LARGE_MESSAGE - 1) * values;
        Some(Link {
            message_ns: message,
            bytes_per_s: more_bytes as f64 * 1e9 / large.saturating_sub(message).max(1) as f64,
        })
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
            eprintln!("rounds: {}: {}", self.name(ranks.rank()), with_causes(error));
            abort(code_of(error).into())
        };
        if agreed.reports {
            eprintln!("rounds: {}", with_causes(error));
        }
        gather_messages(ranks, &[]);
        result
    }
}

/// What a link between ranks takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Nanoseconds from one rank to the other of a message with a sum, by the median.
    pub message_ns: u64,
    /// Bytes a second that a longer message travels with.
    pub bytes_per_s: f64,
}

/// What a rank said to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Nanoseconds in calls to other ranks, waiting for them included.
    pub nanoseconds: u64,
    /// Messages that wait for each other: a swap is one, an exchange in which anything travels is one, a collective of P ranks
    /// ⌈log₂ P⌉.
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

/// Swaps of which the link's time is the median, at most.
const LINK_SAMPLES: u64 = 25;

/// Time that measuring a link may take, about.
const LINK_NANOSECONDS: u64 = 300_000_000;

/// How many times as long a large message is.
const LARGE_MESSAGE: usize = 8;

/// How long ranks compute between the swaps that measure the link, as they do between rounds: whoever carries messages has
/// gone to sleep by then.
const LINK_PAUSE: std::time::Duration = std::time::Duration::from_micros(300);

/// Median time of `samples` swaps of `values` numbers with one partner after the other, after a first one that is not
/// counted.
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

/// One rank's value, and where the rank runs.
struct Said {
    rank: usize,
    host: String,
    value: Vec<u8>,
}

impl std::fmt::Display for Said {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "rank {} (on {})", self.rank, self.host)
    }
}

/// The first rank whose `value` differs from rank 0's, and rank 0.
fn differing(ranks: &dyn Ranks, value: &[u8]) -> Option<[Said; 2]> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let message = [host.trim().as_bytes(), b"\0", value].concat();
    let mut all = gather_messages(ranks, &message)
        .into_iter()
        .enumerate()
        .map(|(rank, message)| {
            let host = message.split(|&byte| byte == 0).next().unwrap_or_default();
            Said {
                rank,
                host: String::from_utf8_lossy(host).into_owned(),
                value: message[host.len() + 1..].to_vec(),
            }
        });
    let first = all.next()?;
    all.find(|other| other.value != first.value).map(|other| [other, first])
}

/// Checks that all ranks see the same rows. The error names ranks and prints no digest: without a key, a digest tells
/// whoever guesses the rows that they are right.
fn same_rows(ranks: &dyn Ranks, witness: &Witness) -> anyhow::Result<()> {
    let refuse = |who: String| {
        let agreed = Agreed {
            message: format!("ranks see different data: give every rank the same files: {who}"),
            code: 2,
            reports: ranks.rank() == 0,
        };
        Err(agreed.into())
    };
    if let Some([other, first]) = differing(ranks, &witness.common) {
        return refuse(format!("{other} has other data than {first}"));
    }
    let all = gather_messages(ranks, [witness.own, witness.next].as_flattened());
    let count = ranks.count();
    match (0..count).find(|&rank| all[rank][32..] != all[(rank + 1) % count][..32]) {
        Some(rank) => {
            let next = (rank + 1) % count;
            refuse(format!("rank {rank} and rank {next} read other rows of rank {next}'s"))
        }
        None => Ok(()),
    }
}

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

/// Ranks whose calls are timed and counted.
struct TimedRanks {
    ranks: Arc<dyn Ranks>,
    nanoseconds: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
    row_bytes: AtomicU64,
}

impl TimedRanks {
    fn over(ranks: Arc<dyn Ranks>) -> Self {
        Self {
            ranks,
            nanoseconds: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            row_bytes: AtomicU64::new(0),
        }
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            row_bytes: self.row_bytes.load(Ordering::Relaxed),
        }
    }

    fn timed<R>(&self, messages: u32, bytes: usize, call: impl FnOnce(&dyn Ranks) -> R) -> R {
        let started = Instant::now();
        let answer = call(&*self.ranks);
        let elapsed = started.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(elapsed, Ordering::Relaxed);
        self.messages.fetch_add(messages.into(), Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
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
        self.timed(1, size_of_val(values), |ranks| ranks.swap(partner, values, received));
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) {
        self.timed(self.steps(), own.len(), |ranks| ranks.all_gather(own, lengths, all));
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        self.timed(self.steps(), bytes.len(), |ranks| ranks.broadcast(from, bytes));
    }

    fn exchange(&self, outgoing: &[Vec<u8>], incoming: &mut [Vec<u8>]) {
        let sent = outgoing.iter().map(Vec::len).sum();
        let received: usize = incoming.iter().map(Vec::len).sum();
        let travels = sent + received > 0;
        self.row_bytes.fetch_add(sent as u64, Ordering::Relaxed);
        self.timed(u32::from(travels), sent, |ranks| ranks.exchange(outgoing, incoming));
    }
}

/// Starts MPI where a launcher started this process.
#[cfg(feature = "mpi")]
fn start_mpi() -> anyhow::Result<Arc<dyn Ranks>> {
    use rounds_algorithms::oracle::mpi::MpiRanks;
    let Some((launcher, announced)) = launcher::announced() else {
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
    launcher::let_the_first_speak();
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
    fn ranks_that_see_other_rows_are_named_and_no_digest_is_printed() {
        // Of every rank the witness, and what the error names.
        let shared = Witness {
            common: [1; 32],
            own: [2; 32],
            next: [2; 32],
        };
        let others = [
            (
                Witness {
                    common: [9; 32],
                    ..shared
                },
                ["rank 1 (on ", "rank 0 (on "],
            ),
            (Witness { own: [9; 32], ..shared }, ["rank 0 and rank 1", "rank 1's"]),
            (
                Witness {
                    next: [9; 32],
                    ..shared
                },
                ["rank 1 and rank 2", "rank 2's"],
            ),
        ];
        for (other, named) in others {
            let outcomes = on_ranks(3, |rank, cluster| {
                let witness = if rank == 1 { other } else { shared };
                let error = same_rows(cluster.ranks().unwrap(), &witness).unwrap_err();
                (code_of(&error), error.to_string())
            });
            for (code, text) in outcomes {
                assert!(code == 2 && text.starts_with("ranks see different data"), "{text}");
                assert!(named.iter().all(|name| text.contains(name)), "{text}");
                for byte in ["01", "02", "09"] {
                    assert!(!text.contains(&byte.repeat(4)), "{text}");
                }
            }
        }
        let alike = on_ranks(3, |_, cluster| same_rows(cluster.ranks().unwrap(), &shared).is_ok());
        assert_eq!(alike, [true; 3]);
    }

    #[test]
    fn what_rank_0_has_arrives_in_its_length() {
        for length in [0, 1, 100] {
            let outcomes = on_ranks(3, |rank, cluster| {
                let own = vec![rank as u8 + 1; length * (rank + 1)];
                cluster.secret_of_first(Zeroizing::new(own)).to_vec()
            });
            assert_eq!(outcomes, vec![vec![1; length]; 3]);
        }
    }

    #[test]
    fn ranks_whose_kernels_run_on_other_instructions_are_refused_though_their_builds_are_the_same() {
        let outcomes = on_ranks(2, |rank, cluster| {
            let isa = if rank == 1 { "avx2" } else { "avx512" };
            let error = cluster.same_build("an identity", isa).unwrap_err();
            (code_of(&error), error.to_string())
        });
        for (code, text) in outcomes {
            assert!(
                code == 2
                    && text.contains("rank 1 (on ")
                    && text.contains("instruction set")
                    && text.contains("avx2 and avx512"),
                "{text}"
            );
            assert!(text.contains("the same executable"), "{text}");
        }
        assert!(
            on_ranks(3, |_, cluster| cluster.same_build("an identity", "avx512").is_ok())
                .iter()
                .all(|&same| same)
        );
    }

    #[test]
    fn messages_and_bytes_are_counted_and_a_link_is_measured() {
        let outcomes = on_ranks(4, |_, cluster| {
            let link = cluster.link(1_000).unwrap();
            let before = cluster.traffic();
            let ranks = cluster.ranks().unwrap();
            ranks.swap(ranks.rank() ^ 1, &[1.0; 5], &mut [0.0; 5]);
            ranks.exchange(&[const { Vec::new() }; 4], &mut [const { Vec::new() }; 4]);
            let mut outgoing = [const { Vec::new() }; 4];
            outgoing[(ranks.rank() + 1) % 4] = vec![7; 3];
            let mut incoming = [const { Vec::new() }; 4];
            incoming[(ranks.rank() + 3) % 4] = vec![0; 3];
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

    /// The default build answers `--engine mpi` with what to do.
    #[cfg(not(feature = "mpi"))]
    #[test]
    fn a_build_without_mpi_says_so_and_how_to_get_it() {
        let error = Cluster::start(EngineKind::Mpi).err().expect("no MPI in this build");
        assert_eq!(code_of(&error), 2);
        let text = error.to_string();
        assert!(
            text.contains("--features mpi") && text.contains("--engine threads"),
            "{text}"
        );
    }

    #[test]
    fn more_ranks_than_rows_are_bad_usage() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("few.csv");
        std::fs::write(&file, "a,b,label\n1,2,0\n3,4,1\n").unwrap();
        let outcomes = on_ranks(3, |_, cluster| {
            let error = cluster
                .load(file.to_str().unwrap(), None, None, &anyhow::Error::from)
                .err()
                .unwrap();
            (code_of(&error), error.to_string())
        });
        assert!(
            outcomes
                .iter()
                .all(|(code, text)| *code == 2 && text.contains("fewer rows than there are ranks, 3")),
            "{outcomes:?}"
        );
    }
}
