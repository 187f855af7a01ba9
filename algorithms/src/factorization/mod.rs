//! Factorisations.
mod banded_lower;
mod dense;
mod encoding;
mod error;
mod minimizer;
mod optimal;
mod participation;
mod quadrature;
mod shifted_inverse;
mod toeplitz;
mod tree;
mod workload;
pub use error::FactorizationError;
pub use participation::*;
pub use workload::*;
pub use tree::*; pub use toeplitz::*;
