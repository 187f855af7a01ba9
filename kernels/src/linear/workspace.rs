//! Scratch memory of the kernels.

use super::integer::{self, MarginSpace};
use super::model::LinearModel;
use super::packing::PackedWeights;
use super::residuals::BlockRows;
use super::source::BlockSizes;
use super::units;
use crate::features::BLOCK_ROWS;
use crate::instructions::InstructionSet;
use crate::vector::lanes::LANES;
use wide::f32x16;

/// Scratch memory of the kernels for one model. The owner of the loop makes it once; calls of the kernels allocate
/// nothing.
#[derive(Debug)]
pub struct Workspace {
    pub(super) current: PackedWeights,
    pub(super) previous: PackedWeights,
    /// `[output][128]` margins, then residuals, then coefficients.
    pub(super) residuals: Vec<f32>,
    pub(super) others: Vec<f32>,
    /// Rows that are not read in place, padded to whole vectors.
    pub(super) rows: Vec<f32x16>,
    /// A row as f32, for kernels that read a few rows one after the other.
    pub(super) row: Vec<f32>,
    /// A block's gradient, where it is summed in parts (one output only).
    pub(super) partial: Vec<f32x16>,
    pub(super) block_rows: Box<BlockRows>,
    pub(super) blocks: BlockSizes,
    pub(super) integer: Option<Box<integer::Scratch>>,
    /// Parameters of callers that pack them leaf by leaf.
    pub(super) packed: Option<integer::PackedQuery>,
    /// For sums over units.
    pub(super) units: Box<units::Scratch>,
}

/// See [`Workspace::integers`].
type Integers<'a> = (&'a mut integer::Scratch, &'a mut integer::PackedQuery, MarginSpace<'a>, &'a mut units::Scratch);

impl Workspace {
    /// Scratch for batches of `model`.
    pub fn new(model: &LinearModel) -> Self {
        let blocks = BlockSizes::of(model);
        let vectors = model.features.div_ceil(LANES);
        Workspace {
            current: PackedWeights::with_capacity(model),
            previous: PackedWeights::with_capacity(model),
            residuals: vec![0.0; model.outputs * BLOCK_ROWS],
            others: vec![0.0; model.outputs * BLOCK_ROWS],
            rows: vec![f32x16::ZERO; blocks.part * vectors],
            row: vec![0.0; model.features],
            partial: vec![f32x16::ZERO; vectors],
            block_rows: Box::new(BlockRows::new()),
            blocks,
            integer: integer::Scratch::new(model),
            packed: integer::PackedQuery::new(model),
            units: Box::default(),
        }
    }

    /// The parts of a sum in integers: scratch, a query of the caller's own parameters, space for margins, and scratch for units; none without
    /// integers.
    pub(super) fn integers(&mut self) -> Option<Integers<'_>> {
        let space =
            MarginSpace { margins: &mut self.residuals, others: &mut self.others, block_rows: &mut self.block_rows };
        Some((self.integer.as_deref_mut()?, self.packed.as_mut()?, space, &mut self.units))
    }

    /// The same scratch without integers: rows are multiplied in f32.
    #[must_use]
    pub fn without_integers(mut self) -> Self {
        self.integer = None;
        self
    }

    /// The same scratch on given instructions for rows that are summed as integers.
    ///
    /// # Panics
    /// Instructions that this processor does not have.
    #[must_use]
    pub fn on(mut self, model: &LinearModel, instructions: InstructionSet) -> Self {
        self.integer = self.integer.and_then(|_| integer::Scratch::on(model, instructions));
        self.packed = integer::PackedQuery::on(model, instructions);
        self
    }
}
