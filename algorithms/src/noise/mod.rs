//! Noise mechanisms: streams that yield the noise of round t for a p-vector.
//!
//! Every mechanism adds the row `(C⁻¹Z)_t` of a factorisation `A = B·C` to the sum of round t, scaled by its standard
//! deviation; the noise of the t-th prefix is the sum of the first t rows, `(B·Z)_t` for prefix sums. Streams are
//! addressed, so a restarted run replays the same noise: two different draws released for one gradient would break the
//! guarantee.

mod independent;
mod scheduled;

pub use independent::IndependentGaussian;
pub use scheduled::{NoiseLevels, ScheduledNoise};
use rounds_kernels::random::Purpose;

use crate::state::StateVisitor;

/// Streams of the noise of optimisers.
pub const NOISE: Purpose = Purpose(0x4e4f_4953);

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
    /// `sum += (C⁻¹Z)_round · σ`, the noise of this round's release; rounds are 0-based and taken in order.
    ///
    /// # Errors
    /// A round out of order, or past the last round that the mechanism was made for.
    fn add_increment(&mut self, round: u64, sum: &mut [f64]) -> Result<(), NoiseError>;

    /// Vectors of length p that the mechanism keeps.
    fn resident_vectors(&self) -> usize;

    /// Fresh standard normals (or Laplace variables) a coordinate and round, on average.
    fn fresh_per_round(&self) -> f64;

    /// Visits what a checkpoint must hold.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}
