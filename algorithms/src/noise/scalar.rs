//! The number type of a mechanism's vectors: f32 for idealised noise of simulations, f64 otherwise.
//!
//! A release must not round its noise to a coarser grid than the sum it is added to: the low bits of the sum would stand
//! bare. So mechanisms that keep vectors are generic, and take f64 where the key is a release key or the noise is
//! rounded to a lattice.

use rounds_kernels::gemm::{Shape, multiply_add_f32, multiply_add_f64};
use rounds_kernels::random::exact::{NormalBounds, fill_enclosed_normals};
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian_blocks};

use crate::state::StateVisitor;

/// f32 or f64.
pub(super) trait NoiseScalar: Copy + Send + Sync + Default + Into<f64> + 'static {
    /// Vectors of this type are enclosures, whose errors are bounded.
    const ENCLOSED: bool;

    /// Rounds from f64.
    fn from_f64(value: f64) -> Self;

    /// `self + factor·value`, rounded once.
    #[must_use]
    fn add_product(self, factor: Self, value: Self) -> Self;

    /// `self/divisor`; in f64 rounded once.
    #[must_use]
    fn over(self, divisor: f64) -> Self;

    /// Fills `out`, the first coordinates of a block of the round, with N(0, 1), and bounds the errors of enclosed ones.
    fn fill_gaussian(key: &StreamKey, purpose: Purpose, round: u64, block: u64, out: &mut [Self]) -> NormalBounds;

    /// `C ← A·B + C`.
    fn multiply_add(shape: Shape, a: &[Self], b: &[Self], c: &mut [Self]);

    /// Visits a vector for a checkpoint.
    fn visit(visitor: &mut dyn StateVisitor, name: &str, values: &mut [Self]);
}

impl NoiseScalar for f32 {
    const ENCLOSED: bool = false;

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn add_product(self, factor: Self, value: Self) -> Self {
        factor.mul_add(value, self)
    }

    fn over(self, divisor: f64) -> Self {
        self * (1.0 / divisor) as f32
    }

    fn fill_gaussian(key: &StreamKey, purpose: Purpose, round: u64, block: u64, out: &mut [Self]) -> NormalBounds {
        fill_gaussian_blocks(key, purpose, round, block, 1.0, out);
        NormalBounds::default()
    }

    fn multiply_add(shape: Shape, a: &[Self], b: &[Self], c: &mut [Self]) {
        multiply_add_f32(shape, a, b, c);
    }

    fn visit(visitor: &mut dyn StateVisitor, name: &str, values: &mut [Self]) {
        visitor.f32s(name, values);
    }
}

impl NoiseScalar for f64 {
    const ENCLOSED: bool = true;

    fn from_f64(value: f64) -> Self {
        value
    }

    fn add_product(self, factor: Self, value: Self) -> Self {
        factor.mul_add(value, self)
    }

    fn over(self, divisor: f64) -> Self {
        self / divisor
    }

    fn fill_gaussian(key: &StreamKey, purpose: Purpose, round: u64, block: u64, out: &mut [Self]) -> NormalBounds {
        fill_enclosed_normals(key, purpose, round, block, out)
    }

    fn multiply_add(shape: Shape, a: &[Self], b: &[Self], c: &mut [Self]) {
        multiply_add_f64(shape, a, b, c);
    }

    fn visit(visitor: &mut dyn StateVisitor, name: &str, values: &mut [Self]) {
        visitor.f64s(name, values);
    }
}
