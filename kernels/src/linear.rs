//! Fused gradients of linear models: margins, residuals, closed-form per-example norms, clip factors and the sum of
//! clipped gradients in one pass over a block of rows.
//!
//! A per-example gradient of a linear model is of rank one, `g_i = r_i ⊗ a_i`, so `‖g_i‖ = ‖r_i‖·‖a_i‖` for the L2 and
//! the L1 norm alike, and clipping needs no materialised per-example gradient.
//!
//! | file | contents |
//! | --- | --- |
//! | `model.rs` | models, batches, clips, tallies |
//! | `query.rs` | a sum to compute |
//! | `selection.rs` | every kernel, and the one place that selects among them |
//! | `driver.rs` | sums of gradients, evaluations, and the block loop |
//! | `dense.rs`, `sparse.rs`, `integer.rs` | kernels of dense rows, of sparse rows, and of bytes and fixed-point numbers in integers |
//! | `unit_rows.rs`, `units.rs`, `local_steps.rs` | the rows of units; sums with a clip for each unit; units that take steps of their own |
//! | `lattice.rs` | the lattice of exact sums, clips in integers, exact sums of all formats |
//! | `narrow.rs`, `stripes.rs`, `few_features.rs` | kernel of short dense rows and one output; a copy of such rows for batches of all of them |
//! | `residuals.rs`, `clipping.rs` | from margins to clipped coefficients |
//! | [`recorded`] | queries whose answers are kept |
//! | `tests/reference.rs` | the scalar reference of all of them |

mod clipping;
mod dense;
mod driver;
mod few_features;
mod integer;
mod lattice;
mod local_steps;
mod model;
mod narrow;
mod packing;
mod peak;
mod query;
pub mod recorded;
mod residuals;
mod selection;
mod source;
mod sparse;
mod stripes;
#[cfg(test)]
mod tests;
mod unit_rows;
mod units;
mod workspace;

pub use clipping::{MAXIMUM_CLIP_NORM, MINIMUM_CLIP_NORM, row_norms};
pub use driver::{
    accumulate_differences, accumulate_gradients, accumulate_on_lattice, accumulate_packed, evaluate, pack,
};
pub use integer::{PackedQuery, Planes, SUMMED_ROWS, are_integers_for, has_integer_kernels_for};
pub use lattice::{FeatureGrid, Precision, SumLattice};
pub use local_steps::{LocalSteps, accumulate_local_steps};
pub use model::{Batch, Clip, Evaluation, LinearModel, NonFiniteGradient, Point, RowNorms, Tally};
pub use peak::{integer_operations, integer_peak_loop};
pub use stripes::Stripes;
pub use unit_rows::{Reduction, RowProducts, UnitRows};
pub use workspace::Workspace;

pub use crate::features::BLOCK_ROWS;
pub use crate::instructions::has_integer_kernels;
