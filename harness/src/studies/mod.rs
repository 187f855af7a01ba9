//! Studies: measurements whose cells are not rounds of one suite, but runs to a target.

pub mod depth_against_work;
pub mod exponents;
