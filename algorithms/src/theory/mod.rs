//! Bounds and complexities of the papers as functions, to draw beside what was measured.

pub mod parallel;
pub mod private_sco;
