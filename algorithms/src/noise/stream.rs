//! The stream of a mechanism: what adds its noise to the sum of every round, and what that refuses.

use rounds_kernels::random::{BLOCK_COORDINATES, Purpose};

use crate::parallel::Engine;
use crate::state::StateVisitor;

/// Streams of the noise of optimisers.
pub const NOISE: Purpose = Purpose(0x4e4f_4953);

/// Coordinates whose noise one task makes: whole blocks of the streams, enough to be worth a fork.
pub const PARALLEL_CHUNK: usize = 4 * BLOCK_COORDINATES;

/// Streams of the inner nodes of trees, by level.
pub(super) const TREE_LEVELS: u32 = 0x5452_0000;

/// A round out of order or past the end.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// Rounds must be taken one after the other.
    #[error("noise of round {asked} is requested, and round {next} is next: rounds are taken in order, each once")]
    OutOfOrder {
        /// Requested round.
        asked: u64,
        /// Next round.
        next: u64,
    },
    /// The mechanism was made for fewer rounds.
    #[error("the noise mechanism was made for {rounds} rounds and is used up: plan for more rounds")]
    Exhausted {
        /// Number of rounds.
        rounds: u64,
    },
    /// The lattice is too fine for noise of this size.
    #[error(
        "the noise is {coarser:.1} times too large for exact rounding to multiples of {unit:e}, the lattice of the sums"
    )]
    TooFine {
        /// Step γ of the lattice.
        unit: f64,
        /// Factor by which it is too fine.
        coarser: f64,
    },
}

pub(super) type Result<T, E = NoiseError> = std::result::Result<T, E>;

/// A stream of correlated noise.
pub trait NoiseMechanism: Send {
    /// `sum += σ·(C⁻¹Z)_round`, the noise of this round's release; rounds are 0-based and taken in order. The same bits
    /// for any engine.
    ///
    /// With `unit` γ, `sum` holds integers, the sum in units of γ, and what is added is `⌊W/γ + ½⌋`, W the real number
    /// above, exactly; its time depends on the noise. A run gives a unit in every round or in none.
    ///
    /// # Errors
    /// A round out of order, or past the last round that the mechanism was made for; noise too large for the lattice.
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, engine: &Engine) -> Result<()>;

    /// Refuses a unit γ whose lattice is too fine for this noise, before a round is drawn; by default, as of noise of one's own, none.
    ///
    /// # Errors
    /// As [`add_increment`](Self::add_increment) with this unit.
    fn check_unit(&self, _unit: f64) -> Result<()> {
        Ok(())
    }

    /// Vectors of length p that the mechanism keeps.
    fn resident_vectors(&self) -> usize {
        0
    }

    /// Visits the state of a checkpoint.
    fn visit_state(&mut self, visitor: &mut dyn StateVisitor);
}

/// The next round and the number of rounds, which every mechanism checks before it draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) next: u64,
    pub(super) rounds: u64,
}

impl Progress {
    /// `rounds` rounds, none taken.
    pub(super) fn new(rounds: u64) -> Self {
        Self { next: 0, rounds }
    }

    /// Takes `round`.
    pub(super) fn take(&mut self, round: u64) -> Result<()> {
        if round >= self.rounds {
            return Err(NoiseError::Exhausted { rounds: self.rounds });
        }
        if round != self.next {
            return Err(NoiseError::OutOfOrder { asked: round, next: self.next });
        }
        self.next += 1;
        Ok(())
    }
}
