//! Noise mechanisms: streams that yield the noise of round t for a p-vector.
//!
//! Every mechanism adds row t of `C⁻¹Z` of a factorisation `A = B·C` to the sum of round t, scaled by σ, the standard
//! deviation of Z's entries; the noise of the t-th prefix is the sum of the first t rows, row t of `S·C⁻¹·Z`. Streams
//! are addressed, so a restarted run replays the same noise: two different draws released for one gradient would break
//! the guarantee.
//!
//! **Privacy** ([001 §2.1], Denisov et al. 2022): releasing `C·G + Z` for clipped G is one Gaussian mechanism, also when
//! G is chosen adaptively, since C is lower triangular; `G + C⁻¹Z` is post-processing of it. μ = sens(C)·Δ/σ, where one
//! example changes the rows of G in which it takes part by at most Δ each. Every mechanism here names its C.
//!
//! | mechanism | C | fresh normals a round | vectors kept |
//! | --- | --- | --- | --- |
//! | [`IndependentGaussian`] | I | 1 | 0 |
//! | [`AntiCorrelated`] | S (prefix sums), so that B = I | 2 | 0 |
//! | [`Tree`] | the binary tree of nodes | < 2 | 0 |
//! | [`HonakerTree`] | the full tree, online estimator | 2 | log₂T + 1 |
//! | [`Banded`] | b bands | 1 | b − 1 |
//! | [`BufferedToeplitz`] | Toeplitz, m exponentials | 1 | m |
//! | [`Dense`] | any lower triangular | about 1 + T/(2·block) | one block of rounds |

mod anti_correlated;
mod banded;
mod buffered_toeplitz;
mod dense;
mod honaker;
mod independent;
mod memory;
mod plan;
mod scalar;
mod scheduled;
mod tree;

pub use anti_correlated::AntiCorrelated;
pub use banded::Banded;
pub use buffered_toeplitz::BufferedToeplitz;
pub use dense::Dense;
pub use honaker::HonakerTree;
pub use independent::IndependentGaussian;
pub use memory::StrategyMemory;
pub use plan::{NoisePlan, NoisePlanError, PlannedNoise};
use rounds_kernels::random::{BLOCK_COORDINATES, Purpose};
pub use scalar::NoiseScalar;
pub use scheduled::{NoiseLevels, ScheduledNoise};
pub use tree::Tree;

use crate::oracle::Engine;
use crate::state::StateVisitor;

/// Streams of the noise of optimisers.
pub const NOISE: Purpose = Purpose(0x4e4f_4953);

/// Coordinates whose noise one task makes: whole blocks of the streams, enough to be worth a fork.
const PARALLEL_CHUNK: usize = 4 * BLOCK_COORDINATES;

/// Streams of the inner nodes of trees, by level.
const TREE_LEVELS: u32 = 0x5452_0000;

/// Noise asked for out of order or past the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// Rounds must be taken one after the other.
    #[error("noise of round {asked} was asked for, and round {next} is next: rounds are taken in order, each once")]
    OutOfOrder {
        /// Asked for.
        asked: u64,
        /// Next.
        next: u64,
    },
    /// The mechanism was made for fewer rounds.
    #[error("the noise mechanism was made for {rounds} rounds and is used up: plan for more rounds")]
    Exhausted {
        /// What it was made for.
        rounds: u64,
    },
}

/// A stream of correlated noise.
pub trait NoiseMechanism: Send {
    /// `sum += σ·(C⁻¹Z)_round`, the noise of this round's release; rounds are 0-based and taken in order. The same bits
    /// for any engine.
    ///
    /// # Errors
    /// A round out of order, or past the last round that the mechanism was made for.
    fn add_increment(&mut self, round: u64, sum: &mut [f64], engine: &Engine) -> Result<(), NoiseError>;

    /// Vectors of length p that the mechanism keeps.
    fn resident_vectors(&self) -> usize;

    /// Fresh standard normals (or Laplace variables) a coordinate and round, on average.
    fn fresh_per_round(&self) -> f64;

    /// Visits what a checkpoint must hold.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}

/// Which round is next, and how many there are: what every mechanism checks before it draws.
#[derive(Clone, Copy, Debug)]
struct Progress {
    next: u64,
    rounds: u64,
}

impl Progress {
    /// `rounds` rounds, none taken.
    fn new(rounds: u64) -> Self {
        Self { next: 0, rounds }
    }

    /// Takes `round`.
    fn take(&mut self, round: u64) -> Result<(), NoiseError> {
        if round >= self.rounds {
            return Err(NoiseError::Exhausted { rounds: self.rounds });
        }
        if round != self.next {
            return Err(NoiseError::OutOfOrder {
                asked: round,
                next: self.next,
            });
        }
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod laws;
