//! What a run guarantees: mechanisms as data, accountants that turn them into (ε, δ), calibration of the noise, and the
//! privacy statement. Pure f64 computation: no I/O, no clock, no randomness, no state.
//!
//! * [`Adjacency`] and [`Sampling`] say what is compared and how batches are drawn; [`Sampling::check`] is the only place
//!   that decides which go together.
//! * [`Mechanism`] is what an optimiser states about itself; the accountants read that and nothing else.
//! * [`Accountant`] asks one question of any of them; [`calibrate`] turns it round. Behind it: [`gaussian`] (exact),
//!   [`gdp`], [`zcdp`], [`rdp`], [`pld`] and [`laplace`] (pure).
//! * [`PrivacyStatement`] is what stands in a result, and claims nothing that was not proven.
//!
//! Only upper bounds are called ε.

mod accountant;
mod adjacency;
mod error;
pub mod gaussian;
pub mod gdp;
pub mod laplace;
mod mechanism;
mod normal;
pub mod pld;
pub mod rdp;
mod sampling;
mod search;
mod statement;
pub mod tree;
pub mod zcdp;

pub use accountant::{Accountant, calibrate};
pub use adjacency::Adjacency;
pub use error::PrivacyError;
pub use mechanism::Mechanism;
pub use sampling::Sampling;
pub use statement::{Arithmetic, Claim, NoiseSource, PrivacyStatement, PrivacyWarning, PrivateRun};
