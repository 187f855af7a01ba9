//! Studies of the papers that are more than timed cells: each takes its definition, keeps what it finished, and returns
//! plain data with a drawing. No algorithm is written here.

pub mod accelerated_figures;
