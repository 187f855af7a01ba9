//! Parallelism as an argument: threads, ranks, and the parts that work is split into. No row and no query lives here.
//!
//! | file | contents |
//! | --- | --- |
//! | `engine.rs` | [`Engine`]: the calling thread, threads of memory nodes, or ranks |
//! | [`partition`] | the leaves of a batch, by sizes alone |
//! | [`ranks`], `mpi.rs` | processes that share rows and leaves |
//! | `lock.rs` | locks that a panic may poison |
//!
//! An engine's threads are those of a rayon pool a memory node, which starts them, names them and tells a thread whether it is a
//! worker; between rounds they sleep there. While a run is installed, they serve a
//! [`Team`](rounds_kernels::team::Team), whose jobs begin in less than a microsecond: what rounds of a few hundred rows live from. The
//! team alone starts no threads, and the pool alone takes longer than such a round's leaves.

mod engine;
mod lock;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod partition;
pub mod ranks;

pub use engine::{Engine, EngineError, RankedEngine, Threads};
pub(crate) use lock::lock;
