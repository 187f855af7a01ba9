//! Optimisation problems: data sets that are owned and checked ([`dataset`]), and generators of synthetic ones
//! ([`synthetic`]; [`planted`] and [`population`] with a known optimum). Rows of a finite [`law`] need no memory.
//!
//! Nothing here reads a file; readers belong to the harness, which hands finished [`dataset::Dataset`]s over.

pub mod adjacency;
pub mod dataset;
pub mod domain;
pub mod encoding;
pub mod features;
pub mod law;
pub mod objective;
mod outputs;
pub mod planted;
pub mod population;
mod private_bounds;
pub mod public;
mod second_moment;
pub(crate) mod shard;
pub mod synthetic;
mod units;
mod withheld;

pub use adjacency::Adjacency;
pub use dataset::{Dataset, Treatment};
pub use domain::{
    Bounds, Column, ColumnKind, Columns, Domain, DomainError, DomainSource, Format, Label, Other, Relation, Storage,
};
pub use encoding::{BYTE_SCALE, Encoder};
pub use features::{Buffer, ByteRows, DatasetError, Features, Labels, SparseMatrix};
pub use objective::Problem;
pub use outputs::{outputs, outputs_of_network};
pub use private_bounds::{BinCounts, noise_scale, private_bounds};
pub use public::{MOST_ROWS_PER_PUBLIC_ROW, Measured, ProblemError, PublicProblem};
pub use second_moment::largest_second_moment;
pub use units::{UnitDeclaration, UnitIds, Units};
pub use withheld::{Claims, NoClaim, Withheld};
