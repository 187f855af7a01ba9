//! Training runs, each with what came of it: its quality, its counts and its claim.

pub(crate) mod convergence;
pub(crate) mod training;
