//! Execution engines for the independent tasks of a round: the calling thread, a team of threads on one or several memory
//! nodes, or the ranks of a cluster, each with threads of its own.
//!
//! Parallelism is an argument, never a global. An engine runs tasks; it never decides how work is split (that depends
//! on the size of a batch alone, see [`super::partition`]), so results do not depend on it.
//!
//! Over several memory nodes each node's threads take a contiguous share of the tasks, in proportion to their number: the leaves
//! of a batch, and so the rows of one that is read in order, are then always read from the same node
//! ([`crate::problem::Problem::placed_for`] puts them there).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use rounds_kernels::arithmetic::use_default_mode;
use rounds_kernels::team::Team;

use super::lock::lock;
use super::ranks::Ranks;

/// An execution engine.
#[derive(Clone, Default)]
pub enum Engine {
    /// The calling thread.
    #[default]
    Sequential,
    /// A team of threads. Fastest when the whole loop of rounds runs inside [`Engine::install`].
    Threads(Arc<Threads>),
    /// Ranks that share the rows and the leaves of a batch; see [`super::ranks`].
    Ranks(Arc<RankedEngine>),
}

/// The threads of one or several memory nodes.
pub struct Threads {
    team: Team,
    /// A pool for each memory node, and the number of its first worker.
    pools: Vec<(rayon::ThreadPool, usize)>,
    /// Held while the team works.
    session: Mutex<()>,
}

impl Threads {
    /// The calling thread among all workers, if it is one.
    fn worker(&self) -> Option<usize> {
        let place = |(pool, first): &(rayon::ThreadPool, usize)| Some(first + pool.current_thread_index()?);
        self.pools.iter().find_map(place)
    }

    /// Runs `work` on worker 0 while all others serve it. Runs it on the calling thread if that is a worker, or if the team
    /// works for another thread.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        if self.worker().is_some() {
            return work();
        }
        let session = self.session.try_lock();
        if matches!(session, Err(TryLockError::WouldBlock)) {
            return work();
        }
        self.team.assemble();
        let (work, result) = (Mutex::new(Some(work)), Mutex::new(None));
        self.gather(&self.pools, &|| {
            let work = lock(&work).take();
            *lock(&result) = work.map(|work| self.team.lead(work));
        });
        let result = lock(&result).take();
        result.expect("worker 0 has run the work")
    }

    /// Runs `leader` on the first worker of the first pool, and lets all others serve.
    fn gather(&self, pools: &[(rayon::ThreadPool, usize)], leader: &(impl Fn() + Sync)) {
        let [others @ .., (pool, first)] = pools else { return };
        pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, worker| match first + worker.index() {
                0 => leader(),
                worker => self.team.serve(worker),
            });
            self.gather(others, leader);
        });
    }
}

/// This rank's end of an engine over ranks.
pub struct RankedEngine {
    ranks: Arc<dyn Ranks>,
    /// The engine of this rank's tasks.
    local: Engine,
    /// The rank at whose rows a round failed; as many as there are ranks if none did.
    failed: AtomicUsize,
}

impl RankedEngine {
    /// The ranks.
    pub fn ranks(&self) -> &dyn Ranks {
        &*self.ranks
    }

    /// The ranks, for another owner.
    pub fn shared(&self) -> Arc<dyn Ranks> {
        Arc::clone(&self.ranks)
    }

    /// The engine of this rank's tasks.
    pub fn local(&self) -> &Engine {
        &self.local
    }

    /// The rank at whose rows a round failed.
    pub fn failed(&self) -> Option<usize> {
        Some(self.failed.load(Ordering::Relaxed)).filter(|&rank| rank < self.ranks.count())
    }

    pub(crate) fn fail(&self, rank: usize) {
        self.failed.store(rank, Ordering::Relaxed);
    }
}

/// The pool could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Zero threads.
    #[error("0 threads were asked for: at least 1 is needed")]
    NoThreads,
    /// The operating system refused.
    #[error("a pool of {threads} threads could not be started: {source}")]
    Pool {
        /// The number of threads.
        threads: usize,
        /// The system's error.
        source: rayon::ThreadPoolBuildError,
    },
}

impl Engine {
    /// The engine for `threads` threads: sequential for 1, else a rayon pool of its own.
    ///
    /// # Errors
    /// Zero threads, or a pool that the operating system refuses.
    pub fn with_threads(threads: usize) -> Result<Self, EngineError> {
        match threads {
            0 => Err(EngineError::NoThreads),
            1 => Ok(Self::Sequential),
            _ => Self::with_start(&[threads], |_| ()),
        }
    }

    /// The engine whose threads run `start(worker)` first, each its own: to be bound to a core, say. `nodes` has the number
    /// of threads near each memory node, and workers are counted node after node. Even a single thread is one of a pool,
    /// so that the caller's is left as it is.
    ///
    /// # Errors
    /// No threads, or a pool that the operating system refuses.
    pub fn with_start(nodes: &[usize], start: impl Fn(usize) + Send + Sync + 'static) -> Result<Self, EngineError> {
        let start: Arc<dyn Fn(usize) + Send + Sync> = Arc::new(start);
        let nodes: Vec<usize> = nodes.iter().copied().filter(|&threads| threads > 0).collect();
        let (mut pools, mut first) = (Vec::new(), 0);
        for &threads in &nodes {
            pools.push((pool(threads, first, Arc::clone(&start))?, first));
            first += threads;
        }
        if first == 0 {
            return Err(EngineError::NoThreads);
        }
        let (team, session) = (Team::new(&nodes), Mutex::new(()));
        Ok(Self::Threads(Arc::new(Threads { team, pools, session })))
    }

    /// The engine of this rank over `ranks`, with `threads` threads on each.
    ///
    /// # Errors
    /// As [`Self::with_threads`].
    pub fn over_ranks(ranks: Arc<dyn Ranks>, threads: usize) -> Result<Self, EngineError> {
        let failed = AtomicUsize::new(ranks.count());
        Ok(Self::Ranks(Arc::new(RankedEngine { ranks, local: Self::with_threads(threads)?, failed })))
    }

    /// The ranks that this engine is over.
    pub fn ranked(&self) -> Option<&Arc<RankedEngine>> {
        match self {
            Self::Ranks(ranked) => Some(ranked),
            _ => None,
        }
    }

    /// The engine of this rank alone.
    pub fn local(&self) -> &Self {
        match self {
            Self::Ranks(ranked) => &ranked.local,
            own => own,
        }
    }

    /// The threads of this rank, but for a single one that calls.
    fn team(&self) -> Option<&Threads> {
        match self.local() {
            Self::Threads(threads) => Some(threads),
            Self::Sequential | Self::Ranks(_) => None,
        }
    }

    /// Threads that may run tasks at the same time on this rank.
    pub fn threads(&self) -> usize {
        self.team().map_or(1, |threads| threads.team.members())
    }

    /// Threads near each memory node, where tasks are shared out by node; else all threads.
    pub fn threads_by_node(&self) -> Vec<usize> {
        let of_pools = |threads: &Threads| threads.pools.iter().map(|(pool, _)| pool.current_num_threads()).collect();
        self.team().map_or_else(|| vec![1], of_pools)
    }

    /// Runs `work` where tasks are cheapest to start: on a thread of the team, which stays together meanwhile.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self.team() {
            None => work(),
            Some(threads) => threads.install(work),
        }
    }

    /// Runs `task(item, worker)` once for every item; `worker < threads()` is exclusive to one running task of this call. Where
    /// the team works for another thread, the calling one does all of it.
    /// A single item never leaves the calling thread.
    pub fn for_each<T: Send>(&self, items: &mut [T], task: &(impl Fn(&mut T, usize) + Sync)) {
        self.for_each_chunk_with_worker(items, 1, &|_, part, worker| task(&mut part[0], worker));
    }

    /// Runs `task(offset, part)` over consecutive parts of `values`, each of `chunk` values but the last.
    pub fn for_each_chunk<T: Send>(&self, values: &mut [T], chunk: usize, task: &(impl Fn(usize, &mut [T]) + Sync)) {
        self.for_each_chunk_with_worker(values, chunk, &|offset, part, _| task(offset, part));
    }

    /// [`Self::for_each_chunk`] that also tells which worker runs: `task(offset, part, worker)`.
    pub fn for_each_chunk_with_worker<T: Send>(
        &self,
        values: &mut [T],
        chunk: usize,
        task: &(impl Fn(usize, &mut [T], usize) + Sync),
    ) {
        let alone = |values: &mut [T], worker| {
            for (index, part) in values.chunks_mut(chunk).enumerate() {
                task(index * chunk, part, worker);
            }
        };
        match self.team() {
            Some(threads) if values.len() > chunk => threads.install(|| match threads.worker() {
                Some(worker) => threads.team.for_each_chunk(worker, values, chunk, task),
                None => alone(values, 0),
            }),
            // Outside the pool the calling thread counts as its first worker.
            team => alone(values, team.and_then(Threads::worker).unwrap_or(0)),
        }
    }
}

/// A pool whose threads, which have default arithmetic, run `start(first + own number)` first.
fn pool(
    threads: usize,
    first: usize,
    start: Arc<dyn Fn(usize) + Send + Sync>,
) -> Result<rayon::ThreadPool, EngineError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |index| format!("rounds-{}", first + index))
        .start_handler(move |index| {
            use_default_mode();
            start(first + index);
        })
        .build()
        .map_err(|source| EngineError::Pool { threads, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Engines with 1 to 5 threads, on one to three memory nodes.
    fn engines() -> Vec<Engine> {
        let plain = [1, 2, 3].map(|threads| Engine::with_threads(threads).unwrap());
        let on_nodes = [&[1][..], &[2, 0], &[1, 1], &[2, 1], &[1, 0, 3, 1]]
            .map(|nodes| Engine::with_start(nodes, |_| ()).unwrap());
        plain.into_iter().chain(on_nodes).collect()
    }

    #[test]
    fn every_item_runs_once_on_any_number_of_threads() {
        for engine in engines() {
            let threads = engine.threads();
            for count in [0, 1, 2, 7, 64] {
                let mut items = vec![0_u32; count];
                engine.for_each(&mut items, &|item, worker| {
                    assert!(worker < threads);
                    *item += 1;
                });
                assert!(items.iter().all(|&runs| runs == 1));
                engine.install(|| engine.for_each(&mut items, &|item, _| *item += 1));
                assert!(items.iter().all(|&runs| runs == 2));
            }
        }
    }

    #[test]
    fn chunks_cover_a_slice_once_at_their_offsets() {
        for engine in engines() {
            for length in [0, 1, 7, 8, 9, 100] {
                let mut values = vec![0; length];
                engine.for_each_chunk(&mut values, 8, &|offset, part| {
                    assert!(offset % 8 == 0 && part.len() <= 8);
                    for (index, value) in part.iter_mut().enumerate() {
                        *value += offset + index + 1;
                    }
                });
                assert!(values.iter().enumerate().all(|(index, &value)| value == index + 1));
            }
        }
    }

    #[test]
    fn every_thread_starts_once_with_its_number() {
        let (sender, started) = std::sync::mpsc::channel();
        let engine = Engine::with_start(&[2, 0, 3], move |worker| sender.send(worker).unwrap()).unwrap();
        let mut workers: Vec<_> = (0..5).map(|_| started.recv().unwrap()).collect();
        workers.sort_unstable();
        assert_eq!(workers, [0, 1, 2, 3, 4]);
        assert_eq!((engine.threads(), engine.threads_by_node()), (5, vec![2, 3]));
    }

    #[test]
    fn each_node_has_its_own_contiguous_share_in_every_round() {
        // Two nodes with one and two threads: a third of the items is the first node's.
        let engine = Engine::with_start(&[1, 2], |_| ()).unwrap();
        for _ in 0..50 {
            let mut workers = vec![usize::MAX; 12];
            engine.install(|| {
                engine.for_each(&mut workers, &|item, worker| {
                    *item = worker;
                    // Long enough for others to steal what they may.
                    std::thread::yield_now();
                });
            });
            assert!(workers[..4].iter().all(|&worker| worker == 0), "{workers:?}");
            assert!(workers[4..].iter().all(|&worker| worker == 1 || worker == 2), "{workers:?}");
        }
    }

    #[test]
    fn threads_that_share_an_engine_all_finish() {
        let engine = Engine::with_threads(2).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let mut items = [0; 16];
                        engine.install(|| engine.for_each(&mut items, &|item, _| *item += 1));
                        assert_eq!(items, [1; 16]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_leaves_an_engine_usable_and_engines_nest() {
        let (engine, inner) = (Engine::with_threads(2).unwrap(), Engine::with_threads(2).unwrap());
        let fail = || engine.install(|| engine.for_each(&mut [0; 8], &|_, _| panic!("on purpose")));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fail)).is_err());
        let mut items = [0; 16];
        engine.install(|| inner.install(|| inner.for_each(&mut items, &|item, _| *item += 1)));
        engine.for_each(&mut items, &|item, _| *item += 1);
        assert_eq!(items, [2; 16]);
    }

    #[test]
    fn zero_threads_are_refused() {
        assert!(matches!(Engine::with_start(&[0], |_| ()), Err(EngineError::NoThreads)));
        assert!(matches!(Engine::with_threads(0), Err(EngineError::NoThreads)));
    }
}
