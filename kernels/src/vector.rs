//! Operations on vectors of one block of memory, on sixteen lanes, each beside its plain scalar reference.

mod exponential;
pub(crate) mod lanes;

pub use exponential::{EXP_GREATEST, EXP_LEAST, exp};
