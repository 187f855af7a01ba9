//! Addressed random streams and the samplers that fill slices from them.
//!
//! A stream is addressed by (key, purpose, round, block). The noise of a round is cut into blocks of
//! [`BLOCK_COORDINATES`] coordinates, each with a stream of its own, so any thread can produce any block and a replay
//! gives the same bits. Simulation keys drive sixteen lanes of xoshiro256++ and f32 arithmetic; release keys drive
//! ChaCha20 and f64 arithmetic. No seed and no key is made here, and none is printed.
//!
//! | law | whole round | some blocks of it |
//! | --- | --- | --- |
//! | `sum += σ·N(0, 1)`, f64 | [`add_gaussian`] | [`add_gaussian_blocks`] |
//! | `out = σ·N(0, 1)`, f32 | [`fill_gaussian`] | [`fill_gaussian_blocks`] |
//! | `sum += Laplace(scale)`, f64 | | [`add_laplace_blocks`] |
//! | uniform words, Bernoulli, permutations | [`UniformStream`] | |
//!
//! [`exact`] draws the same laws rounded to integers, exactly.

mod blocks;
mod elementary;
pub mod exact;
mod gaussian;
mod laplace;
#[cfg(test)]
mod laws_tests;
mod stream;
mod uniform;
mod xoshiro;

pub use gaussian::{add_gaussian, add_gaussian_blocks, fill_gaussian, fill_gaussian_blocks};
pub use laplace::add_laplace_blocks;
pub use stream::{BLOCK_COORDINATES, Purpose, StreamKey};
pub use uniform::UniformStream;
