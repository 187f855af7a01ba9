//! A sum to compute.

use super::lattice::SumLattice;
use super::model::{Clip, Point};

/// A sum to compute: `Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`.
pub(super) struct Query<'a> {
    pub(super) current: Point<'a>,
    pub(super) previous: Option<Point<'a>>,
    pub(super) clip: Clip,
    /// The lattice of the sum, if it is to be exact.
    pub(super) lattice: Option<SumLattice>,
}

impl<'a> Query<'a> {
    /// A sum that is not exact. With a coefficient of 0 the second point is not read.
    pub(super) fn new((current, previous): (Point<'a>, Option<Point<'a>>), clip: Clip) -> Self {
        Query { current, previous: previous.filter(|point| point.coefficient != 0.0), clip, lattice: None }
    }

    /// a, and b if the second point is read.
    pub(super) fn coefficients(&self) -> (f32, Option<f32>) {
        (self.current.coefficient, self.previous.map(|point| point.coefficient))
    }

    /// |a| + |b|.
    pub(super) fn weight(&self) -> f32 {
        let (a, b) = self.coefficients();
        a.abs() + b.map_or(0.0, f32::abs)
    }
}
