//! Who executes the independent tasks of a round: the calling thread, an explicit rayon pool, or the ranks of a cluster,
//! each with threads of its own.
//!
//! Parallelism is an argument, never a global. An engine runs tasks; it never decides how work is split (that depends
//! on the size of a batch alone, see [`super::partition`]), so results do not depend on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ranks::Ranks;

/// An execution engine.
#[derive(Clone, Default)]
pub enum Engine {
    /// The calling thread.
    #[default]
    Sequential,
    /// A rayon pool. Fastest when the whole loop of rounds runs inside [`Engine::install`].
    Pool(Arc<rayon::ThreadPool>),
    /// Ranks that share the rows and the leaves of a batch; see [`super::ranks`].
    Ranks(Arc<RankedEngine>),
}

/// This rank's end of an engine over ranks.
pub struct RankedEngine {
    ranks: Arc<dyn Ranks>,
    /// Who runs this rank's tasks.
    local: Engine,
    /// The rank at whose rows a round failed; as many as there are ranks if none did.
    failed: AtomicUsize,
}

impl RankedEngine {
    /// The ranks.
    pub fn ranks(&self) -> &dyn Ranks {
        &*self.ranks
    }

    /// Who runs this rank's tasks.
    pub fn local(&self) -> &Engine {
        &self.local
    }

    /// The rank at whose rows a round failed.
    pub fn failed(&self) -> Option<usize> {
        Some(self.failed.load(Ordering::Relaxed)).filter(|&rank| rank < self.ranks.count())
    }

    pub(super) fn fail(&self, rank: usize) {
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
        /// How many.
        threads: usize,
        /// Why.
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
            _ => rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|index| format!("rounds-{index}"))
                .build()
                .map(|pool| Self::Pool(Arc::new(pool)))
                .map_err(|source| EngineError::Pool { threads, source }),
        }
    }

    /// The engine of this rank over `ranks`, with `threads` threads on each.
    ///
    /// # Errors
    /// As [`Self::with_threads`].
    pub fn over_ranks(ranks: Arc<dyn Ranks>, threads: usize) -> Result<Self, EngineError> {
        let failed = AtomicUsize::new(ranks.count());
        Ok(Self::Ranks(Arc::new(RankedEngine {
            ranks,
            local: Self::with_threads(threads)?,
            failed,
        })))
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

    /// Threads that may run tasks at the same time on this rank.
    pub fn threads(&self) -> usize {
        match self.local() {
            Self::Sequential | Self::Ranks(_) => 1,
            Self::Pool(pool) => pool.current_num_threads(),
        }
    }

    /// Runs `work` where tasks are cheapest to start: on a thread of the pool.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self.local() {
            Self::Sequential | Self::Ranks(_) => work(),
            Self::Pool(pool) => pool.install(work),
        }
    }

    /// Runs `task(item, worker)` once for every item; `worker < threads()` is exclusive to one running task at a time.
    /// Items are handed out in halves, so a single item never leaves the calling thread.
    pub fn for_each<T: Send>(&self, items: &mut [T], task: &(impl Fn(&mut T, usize) + Sync)) {
        match self.local() {
            Self::Pool(pool) if items.len() > 1 => {
                if pool.current_thread_index().is_some() {
                    halve(items, task);
                } else {
                    pool.install(|| halve(items, task));
                }
            }
            _ => {
                let worker = self.worker();
                for item in items {
                    task(item, worker);
                }
            }
        }
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
        match self.local() {
            Self::Pool(pool) if values.len() > chunk => {
                if pool.current_thread_index().is_some() {
                    halve_chunks(values, 0, chunk, task);
                } else {
                    pool.install(|| halve_chunks(values, 0, chunk, task));
                }
            }
            _ => {
                let worker = self.worker();
                for (index, part) in values.chunks_mut(chunk).enumerate() {
                    task(index * chunk, part, worker);
                }
            }
        }
    }

    /// Index of the calling thread among the engine's workers, 0 outside the pool.
    fn worker(&self) -> usize {
        match self.local() {
            Self::Sequential | Self::Ranks(_) => 0,
            Self::Pool(pool) => pool.current_thread_index().unwrap_or(0),
        }
    }
}

/// Divides the items between two branches that rayon may run at the same time, down to single items.
fn halve<T: Send>(items: &mut [T], task: &(impl Fn(&mut T, usize) + Sync)) {
    match items {
        [] => {}
        [item] => task(item, rayon::current_thread_index().unwrap_or(0)),
        _ => {
            let (left, right) = items.split_at_mut(items.len() / 2);
            rayon::join(|| halve(left, task), || halve(right, task));
        }
    }
}

/// [`halve`] for parts of a slice: splits at a multiple of `chunk`.
fn halve_chunks<T: Send>(
    values: &mut [T],
    offset: usize,
    chunk: usize,
    task: &(impl Fn(usize, &mut [T], usize) + Sync),
) {
    let chunks = values.len().div_ceil(chunk);
    if chunks <= 1 {
        if !values.is_empty() {
            task(offset, values, rayon::current_thread_index().unwrap_or(0));
        }
        return;
    }
    let middle = chunks / 2 * chunk;
    let (left, right) = values.split_at_mut(middle);
    rayon::join(
        || halve_chunks(left, offset, chunk, task),
        || halve_chunks(right, offset + middle, chunk, task),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_runs_once_on_any_number_of_threads() {
        for threads in [1, 2, 3] {
            let engine = Engine::with_threads(threads).unwrap();
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
        for threads in [1, 2] {
            let engine = Engine::with_threads(threads).unwrap();
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
    fn zero_threads_are_refused() {
        assert!(matches!(Engine::with_threads(0), Err(EngineError::NoThreads)));
    }
}
