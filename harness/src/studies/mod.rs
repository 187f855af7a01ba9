//! Studies: measurements that are more than timed cells, runs to a target or a paper's figure. Each takes its definition,
//! keeps what it finished, and returns plain data with a drawing. No algorithm is written here.

pub mod accelerated_figures;
pub mod depth_against_work;
pub mod exponents;
