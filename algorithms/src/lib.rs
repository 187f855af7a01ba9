//! Private and parallel stochastic convex optimisation: problems, the counting oracle, sampling, noise mechanisms,
//! factorisations, accountants, optimisers, the catalogue of all of them, and their audit.
//!
//! Nothing here reads a clock or a file; execution engines and observers are arguments.

pub mod audit;
pub mod catalog;
pub mod choices;
pub mod executor;
pub mod factorization;
mod hexadecimal;
pub mod moments;
pub mod noise;
mod normal;
pub mod optimizers;
pub mod oracle;
pub mod parallel;
mod plural;
pub mod prelude;
pub mod privacy;
pub mod problem;
pub mod resque;
pub mod sampling;
pub mod selection;
pub mod state;
pub mod theory;
mod vectors;

pub use hexadecimal::hexadecimal;
pub use plural::plural;
