//! The kernels of linear models side by side, and the one place that picks among them.
//!
//! The instruction set of [`Kernel::Integers`] is that of its workspace, [`InstructionSet::fastest`] but in tests; the others are compiled
//! for one set.
//!
//! [`InstructionSet::fastest`]: crate::instructions::InstructionSet::fastest

use super::few_features;
use super::integer::IntegerRows;
use super::model::{Batch, LinearModel};
use crate::features::{Rows, SparseRows};
use crate::vector::lanes::LANES;

/// The kernels that read the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel<'a> {
    /// Rows of bytes or planes as integers, for which the weights were packed in digits (`integer.rs`).
    Integers(IntegerRows<'a>),
    /// Sparse rows, entry by entry (`sparse.rs`).
    Sparse(SparseRows<'a>),
    /// Dense rows of few features and one output, sixteen together (`narrow.rs`, `stripes.rs`). What it leaves is read as by
    /// [`Kernel::Dense`].
    Narrow,
    /// Dense rows in groups, for which the weights were packed in vectors (`dense.rs`).
    Dense,
    /// Dense rows one after the other: fewer than packing pays for (`dense.rs`).
    Few,
}

/// The uses of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A sum of gradients at one point.
    Gradients,
    /// A sum of differences or of gradients times a coefficient.
    Differences,
    /// A sum in integers of a lattice.
    ExactSum,
    /// Losses.
    Evaluation,
    /// Answers that are kept, or sums of them.
    Recorded,
    /// The same where what a row adds must not depend on the number of rows.
    ExactlyRecorded,
}

/// Fewer rows than this cost less without packing digits, where nothing but time depends on it.
const LEAST_ROWS_OF_INTEGERS: usize = 32;

/// Rows below which packing the weights for the kernels of blocks costs more than they save.
const LEAST_ROWS_OF_BLOCKS: usize = 16;

impl<'a> Kernel<'a> {
    /// The kernel of a batch. `pack` packs the weights in digits and returns false where there are no kernels in integers, or
    /// they do not take these weights.
    pub(super) fn select(
        model: &LinearModel,
        batch: &Batch<'a>,
        purpose: Purpose,
        pack: impl FnOnce(IntegerRows<'a>) -> bool,
    ) -> Self {
        let count = batch.selection.len();
        let integers = match purpose {
            Purpose::Gradients | Purpose::Differences => IntegerRows::of(batch.rows),
            Purpose::ExactSum => None,
            Purpose::Evaluation | Purpose::Recorded if count < LEAST_ROWS_OF_INTEGERS => None,
            Purpose::Evaluation | Purpose::Recorded | Purpose::ExactlyRecorded => IntegerRows::of_bytes(batch.rows),
        };
        match (integers, batch.rows) {
            (Some(rows), _) if pack(rows) => Kernel::Integers(rows),
            (_, Rows::Sparse(rows)) => Kernel::Sparse(rows),
            (_, Rows::F32(_))
                if purpose == Purpose::Gradients
                    && few_features::takes(model)
                    && count >= LANES
                    && batch.units.is_none() =>
            {
                Kernel::Narrow
            }
            _ if purpose == Purpose::Recorded && count < LEAST_ROWS_OF_BLOCKS => Kernel::Few,
            _ => Kernel::Dense,
        }
    }
}
