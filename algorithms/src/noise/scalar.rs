//! The number type of a mechanism's vectors: f32 for simulation, f64 for release.
//!
//! A release must not round its noise to a coarser grid than the sum it is added to: the low bits of the sum would stand
//! bare. So mechanisms that keep vectors are generic, and whoever builds them takes f64 where the key is a release key.

use rounds_kernels::gemm::{Shape, multiply_add_f32, multiply_add_f64};
use rounds_kernels::random::{Purpose, StreamKey, add_gaussian_blocks, fill_gaussian_blocks};

use crate::state::StateVisitor;

/// f32 or f64.
pub(super) trait NoiseScalar: Copy + Send + Sync + Default + Into<f64> + 'static {
    /// Rounds from f64.
    fn from_f64(value: f64) -> Self;

    /// `self + factor·value`, rounded once.
    #[must_use]
    fn add_product(self, factor: Self, value: Self) -> Self;

    /// Fills `out` with N(0, 1), `out[0]` being the first coordinate of block `first_block` of the round.
    fn fill_gaussian(key: &StreamKey, purpose: Purpose, round: u64, first_block: u64, out: &mut [Self]);

    /// `C ← A·B + C`.
    fn multiply_add(shape: Shape, a: &[Self], b: &[Self], c: &mut [Self]);

    /// Visits a vector for a checkpoint.
    fn visit(visitor: &mut dyn StateVisitor, name: &str, values: &mut [Self]);
}

impl NoiseScalar for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn add_product(self, factor: Self, value: Self) -> Self {
        factor.mul_add(value, self)
    }

    fn fill_gaussian(key: &StreamKey, purpose: Purpose, round: u64, first_block: u64, out: &mut [Self]) {
        fill_gaussian_blocks(key, purpose, round, first_block, 1.0, out);
    }

    fn multiply_add(shape: Shape, a: &[Self], b: &[Self], c: &mut [Self]) {
        multiply_add_f32(shape, a, b, c);
    }

    fn visit(visitor: &mut dyn StateVisitor, name: &str, values: &mut [Self]) {
        visitor.f32s(name, values);
    }
}

impl NoiseScalar for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn add_product(self, factor: Self, value: Self) -> Self {
        factor.mul_add(value, self)
    }

    fn fill_gaussian(key: &StreamKey, purpose: Purpose, round: u64, first_block: u64, out: &mut [Self]) {
        out.fill(0.0);
        add_gaussian_blocks(key, purpose, round, first_block, 1.0, out);
    }

    fn multiply_add(shape: Shape, a: &[Self], b: &[Self], c: &mut [Self]) {
        multiply_add_f64(shape, a, b, c);
    }

    fn visit(visitor: &mut dyn StateVisitor, name: &str, values: &mut [Self]) {
        visitor.f64s(name, values);
    }
}
