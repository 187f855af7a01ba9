//! The layout of a row's features in vectors, and weights packed to match.

use super::model::LinearModel;
use crate::vector::lanes::{LANES, PARTS};
use wide::f32x16;

/// Outputs that one pass over a row holds in registers at most: four rows of them, in 24 registers of AVX-512 or 12 of AVX2.
pub(super) const TILE: usize = if PARTS == 1 { 6 } else { 3 };

/// The number of vectors of a row and the start of the last one.
///
/// Vector j < vectors − 1 starts at feature 16·j. The last one ends with the row: when the number of features is no
/// multiple of 16 it overlaps the one before, and its first `stale` lanes are lanes that were already read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) vectors: usize,
    pub(super) tail: usize,
    pub(super) stale: usize,
}

impl Layout {
    /// Rows read where they are; at least 16 features.
    pub(super) fn in_place(features: usize) -> Self {
        debug_assert!(features >= LANES);
        let vectors = features.div_ceil(LANES);
        Layout { vectors, tail: features - LANES, stale: vectors * LANES - features }
    }

    /// Rows copied to scratch memory and padded with zeros to whole vectors.
    pub(super) fn padded(features: usize) -> Self {
        let vectors = features.div_ceil(LANES);
        Layout { vectors, tail: vectors.saturating_sub(1) * LANES, stale: 0 }
    }
}

/// Splits outputs into runs of at most [`TILE`] that differ in length by at most one: `(first output, outputs)`.
pub(super) fn tiles(outputs: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    split(outputs, TILE)
}

/// Splits outputs into the runs whose gradients are summed together: up to six, or where there are more of them up to ten, so
/// that a row is read once for all of ten outputs, two vectors of features at a time.
pub(super) fn gradient_tiles(outputs: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    split(outputs, if outputs > 6 { 10 } else { 6 })
}

/// Splits `0..total` into the fewest runs of at most `greatest`, differing in length by at most one.
pub(super) fn split(total: usize, greatest: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    // Two divisions cost as much as a dozen multiply-adds.
    let runs = if total <= greatest { total.min(1) } else { total.div_ceil(greatest) };
    let (length, longer) = if runs > 1 { (total / runs, total % runs) } else { (total, 0) };
    (0..runs).map(move |run| (run * length + run.min(longer), length + usize::from(run < longer)))
}

/// Weights as the margin kernel reads them: for each tile of outputs, for each vector, one vector of weights an output.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedWeights {
    pub(super) vectors: Vec<f32x16>,
    pub(super) biases: Vec<f32>,
}

impl PackedWeights {
    pub(super) fn with_capacity(model: &LinearModel) -> Self {
        let vectors = model.features.div_ceil(LANES);
        PackedWeights { vectors: vec![f32x16::ZERO; model.outputs * vectors], biases: vec![0.0; model.outputs] }
    }

    /// Packs row-major `[outputs, features + bias]` parameters.
    pub(super) fn pack(&mut self, model: &LinearModel, layout: Layout, parameters: &[f32]) {
        let width = model.width();
        if model.bias {
            for (bias, weights) in self.biases.iter_mut().zip(parameters.chunks_exact(width)) {
                *bias = weights[model.features];
            }
        }
        if layout.vectors == 0 {
            return;
        }
        for (first, outputs) in tiles(model.outputs) {
            let tile = &mut self.vectors[first * layout.vectors..(first + outputs) * layout.vectors];
            for output in 0..outputs {
                let weights = &parameters[(first + output) * width..][..model.features];
                let (whole, rest) = weights.as_chunks::<LANES>();
                for (packed, &lanes) in tile[output..].iter_mut().step_by(outputs).zip(whole) {
                    *packed = f32x16::new(lanes);
                }
                if !rest.is_empty() {
                    let mut lanes = [0.0; LANES];
                    lanes[layout.stale..layout.stale + rest.len()].copy_from_slice(rest);
                    tile[(layout.vectors - 1) * outputs + output] = f32x16::new(lanes);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_outputs_once_in_order_and_evenly() {
        for outputs in 0..200 {
            let mut next = 0;
            let lengths: Vec<usize> = tiles(outputs)
                .map(|(first, length)| {
                    assert_eq!(first, next);
                    next += length;
                    length
                })
                .collect();
            assert_eq!(next, outputs);
            let (least, greatest) = (lengths.iter().min(), lengths.iter().max());
            assert!(greatest.copied().unwrap_or(1) <= TILE);
            assert!(greatest.copied().unwrap_or(0) - least.copied().unwrap_or(0) <= 1);
        }
    }
}
