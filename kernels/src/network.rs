//! Gradients of networks row by row: forward and backward as matrix products, each row's gradient whole in memory, clipped and added.
//!
//! | file | contents |
//! | --- | --- |
//! | `layers.rs` | the list of layers, shapes, the layout of parameters, initial weights |
//! | `product.rs` | the matrix product that convolutions and dense layers are |
//! | `elementwise.rs` | tanh, ReLU, pools, group norms |
//! | `row.rs` | one row forward and backward |
//! | `contribution.rs` | clips, the lattice of exact sums, sums, evaluations |

mod contribution;
mod elementwise;
mod layers;
mod product;
mod row;
#[cfg(test)]
mod tests;

pub use contribution::{GradientLattice, Workspace, accumulate, evaluate, outputs};
pub use layers::{Image, Network, NetworkError};
pub use row::PackedParameters;
