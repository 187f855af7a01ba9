//! Fused gradients of linear models: margins, residuals, closed-form per-example norms, clip factors and the sum of
//! clipped gradients in one pass over a block of rows.
//!
//! A per-example gradient of a linear model is of rank one, `g_i = r_i ⊗ a_i`, so `‖g_i‖ = ‖r_i‖·‖a_i‖` for the L2 and
//! the L1 norm alike, and clipping needs no materialised per-example gradient.
//!
//! | file | contents |
//! | --- | --- |
//! | this one | types, and sums of gradients |
//! | `driver.rs` | the block loop, evaluations, packed sums, and `Kernel::select`, the one place that selects kernels |
//! | `dense.rs`, `sparse.rs`, `integer.rs` | kernels of dense rows, of sparse rows, and of bytes and fixed-point numbers in integers |
//! | `lattice.rs` | the lattice of exact sums, clips in integers, exact sums of all formats |
//! | `products.rs` | products of bytes and digits on every instruction set |
//! | `narrow.rs`, `stripes.rs` | kernel of short dense rows and one output; a copy of such rows for batches of all of them |
//! | `residuals.rs`, `clipping.rs` | from margins to clipped coefficients |
//! | [`recorded`], [`replicas`] | queries whose answers are kept; many parameter vectors at the same rows |
//! | [`reference`] | the scalar reference of all of them |

mod clipping;
mod dense;
mod driver;
mod integer;
mod lattice;
mod narrow;
mod packing;
mod peak;
mod products;
pub mod recorded;
pub mod reference;
pub mod replicas;
mod residuals;
mod source;
mod sparse;
mod stripes;
mod workspace;

use crate::features::{Norm, Rows, Selection, Targets};
use crate::loss::{Loss, TargetKind};

pub use clipping::{MAXIMUM_CLIP_NORM, MINIMUM_CLIP_NORM, row_norms};
pub use driver::{accumulate_packed, evaluate};
pub use integer::{PackedQuery, Planes};
pub use lattice::{FeatureGrid, SumLattice};
pub use peak::{integer_operations, integer_peak_loop};
pub use products::Instructions;
pub use stripes::Stripes;
pub use workspace::Workspace;

/// Rows whose contributions are summed in f32 before the sum moves to f64.
pub const BLOCK_ROWS: usize = 128;

/// Shape and loss of a linear model. Parameters are row-major `[outputs, features + bias]`, bias last in each row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearModel {
    /// Features a row, without the bias.
    pub features: usize,
    /// Outputs K: the number of classes for softmax, 1 for all other losses.
    pub outputs: usize,
    /// True if a constant feature 1 is appended to every row.
    pub bias: bool,
    /// The loss.
    pub loss: Loss,
}

impl LinearModel {
    /// Number of parameters, `K·(features + bias)`.
    pub fn parameters(&self) -> usize {
        self.outputs * self.width()
    }

    /// Parameters an output.
    fn width(&self) -> usize {
        self.features + usize::from(self.bias)
    }
}

/// The clipping of per-example gradients (or differences) before they are summed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// Not at all.
    Unbounded,
    /// `g · min(1, C/‖g‖)` in the given norm, C > 0.
    Bounded {
        /// The norm.
        norm: Norm,
        /// The clip norm C.
        clip_norm: f32,
    },
}

impl Clip {
    /// A bound of the L2 norm.
    pub const fn l2(clip_norm: f32) -> Self {
        Clip::Bounded { norm: Norm::L2, clip_norm }
    }

    /// A bound of the L1 norm.
    pub const fn l1(clip_norm: f32) -> Self {
        Clip::Bounded { norm: Norm::L1, clip_norm }
    }
}

/// Norms of rows, bias included, rounded up: what clipping multiplies with the residual's norm.
#[derive(Clone, Debug)]
pub struct RowNorms {
    /// The norm.
    pub norm: Norm,
    /// One value a row of the whole matrix.
    pub values: Vec<f32>,
}

/// A batch: the whole matrix, its targets and norms, and which rows to read.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// All rows.
    pub rows: Rows<'a>,
    /// All targets.
    pub targets: Targets<'a>,
    /// Norms of all rows in the norm of the clip; may be absent when the clip is unbounded.
    pub norms: Option<&'a RowNorms>,
    /// The rows to read.
    pub selection: Selection<'a>,
}

/// A coefficient and the parameters at which a gradient is taken: one side of `a·∇f(x) − b·∇f(x′)`.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The factor of the gradient.
    pub coefficient: f32,
    /// The parameters.
    pub parameters: &'a [f32],
}

impl<'a> Point<'a> {
    /// The parameters with coefficient 1.
    pub fn at(parameters: &'a [f32]) -> Self {
        Point { coefficient: 1.0, parameters }
    }
}

/// Counts of a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows read.
    pub rows: usize,
    /// Rows whose gradient was longer than the clip norm. A statistic of the data: diagnostics only.
    pub clipped: usize,
}

/// A gradient that is NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: the gradient is not finite (NaN or infinite features, or parameters that diverged)")]
pub struct NonFiniteGradient {
    /// The row of the matrix.
    pub row: usize,
}

/// Loss and accuracy of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Σ loss over the rows.
    pub loss: f64,
    /// Rows predicted correctly: arg max for softmax, sign for ±1 targets; 0 for regression losses.
    pub correct: usize,
    /// Rows read, without null ones.
    pub rows: usize,
}

/// True if rows of bytes, and f32 rows with [`Planes`], are summed as integers here for this model: several outputs, at most 2¹⁶,
/// and 64 to 2¹⁶ features, of which digits of 7 bits and a sign add up to less than 2³¹: `255·128·2¹⁶ < 2³¹`. So it is on every
/// processor with AVX2 or better, all with the same bits.
pub fn has_integer_kernels_for(model: &LinearModel) -> bool {
    (2..=1 << 16).contains(&model.outputs) && (64..=1 << 16).contains(&model.features) && has_integer_kernels()
}

/// True if this process sums rows of integers as such.
pub fn has_integer_kernels() -> bool {
    Instructions::fastest() != Instructions::Scalar
}

/// True if this process sums rows of integers on tiles. No bits depend on it.
pub fn has_integer_tiles() -> bool {
    Instructions::Amx.are_available()
}

/// `sum += Σ_i clip(∇f(x; d_i))`, f32 inside blocks of at most 128 rows, f64 across blocks. Null rows add exactly 0.
///
/// # Errors
/// A row whose gradient is not finite; `sum` is then unspecified.
///
/// # Panics
/// Shapes that do not fit the model, rows or classes out of range, a clip norm outside
/// [[`MINIMUM_CLIP_NORM`], [`MAXIMUM_CLIP_NORM`]], or a bounded clip without norms of its kind.
pub fn accumulate_gradients(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    accumulate_differences(model, batch, (Point::at(parameters), None), clip, sum, workspace)
}

/// `sum += Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, one clip of the difference, rows read once; without a second point, or with b = 0,
/// `Σ_i clip(a·∇f(x; d_i))`.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn accumulate_differences(
    model: &LinearModel,
    batch: &Batch<'_>,
    points: (Point<'_>, Option<Point<'_>>),
    clip: Clip,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    driver::accumulate(model, batch, &Query::new(points, clip), sum, workspace)
}

/// `sum += Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, or without a second point `Σ_i clip(a·∇f(x; d_i))`, in units of `lattice` and with
/// its clip: integers, exact whatever the order and the split of a batch, as long as they are below 2⁵³.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// As [`accumulate_gradients`].
pub fn accumulate_on_lattice(
    model: &LinearModel,
    batch: &Batch<'_>,
    points: (Point<'_>, Option<Point<'_>>),
    lattice: &SumLattice,
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> Result<Tally, NonFiniteGradient> {
    let query = Query { lattice: Some(*lattice), ..Query::new(points, lattice.clip()) };
    driver::accumulate(model, batch, &query, sum, workspace)
}

/// Packs `a·∇f(x; d_i) − b·∇f(x′; d_i)`, or without a second point `a·∇f(x; d_i)`, for [`accumulate_packed`] on rows of bytes or
/// planes that are multiples of the lattice's step: once for all parts of a batch. Returns false, by the parameters alone, where these are too
/// large.
///
/// # Panics
/// A workspace of another model.
pub fn pack(
    model: &LinearModel,
    points: (Point<'_>, Option<Point<'_>>),
    lattice: &SumLattice,
    packed: &mut PackedQuery,
) -> bool {
    for point in std::iter::once(&points.0).chain(&points.1) {
        check_parameters(model, point.parameters);
    }
    packed.pack(model, &Query::new(points, lattice.clip()), *lattice)
}

/// A sum to compute: `Σ_i clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`.
struct Query<'a> {
    current: Point<'a>,
    previous: Option<Point<'a>>,
    clip: Clip,
    /// The lattice of the sum, if it is to be exact.
    lattice: Option<SumLattice>,
}

impl<'a> Query<'a> {
    /// A sum that is not exact. With a coefficient of 0 the second point is not read.
    fn new((current, previous): (Point<'a>, Option<Point<'a>>), clip: Clip) -> Self {
        Query { current, previous: previous.filter(|point| point.coefficient != 0.0), clip, lattice: None }
    }

    /// a, and b if the second point is read.
    fn coefficients(&self) -> (f32, Option<f32>) {
        (self.current.coefficient, self.previous.map(|point| point.coefficient))
    }

    /// |a| + |b|.
    fn weight(&self) -> f32 {
        let (a, b) = self.coefficients();
        a.abs() + b.map_or(0.0, f32::abs)
    }
}

fn check_parameters(model: &LinearModel, parameters: &[f32]) {
    assert_eq!(parameters.len(), model.parameters(), "parameters given (left) and of the model (right)");
}

fn check(model: &LinearModel, batch: &Batch<'_>, parameters: &[f32]) {
    check_parameters(model, parameters);
    check_batch(model, batch);
}

fn check_batch(model: &LinearModel, batch: &Batch<'_>) {
    let rows = batch.rows.len();
    assert_eq!(batch.rows.columns(), model.features, "columns of the rows (left) and features of the model (right)");
    assert_eq!(batch.targets.len(), rows, "targets (left) and rows (right)");
    let loss = model.loss;
    match (loss.targets(), batch.targets) {
        (TargetKind::Classes, Targets::Classes(_)) => assert!(model.outputs >= 2, "{loss} needs at least two outputs"),
        (TargetKind::Classes, Targets::Values(_)) => panic!("{loss} needs classes, found real targets"),
        (_, Targets::Classes(_)) => panic!("{loss} needs real targets, found classes"),
        (_, Targets::Values(_)) => assert_eq!(model.outputs, 1, "outputs of {loss} (left)"),
    }
    match &batch.selection {
        Selection::Range(range) => assert!(range.end <= rows, "rows {range:?} of a matrix with {rows}"),
        Selection::Indices(indices) => {
            let greatest = indices.iter().copied().max();
            assert!(greatest.is_none_or(|row| (row as usize) < rows), "row {greatest:?} of a matrix with {rows}");
        }
    }
}

/// The norms that clipping needs, checked.
fn norms_for<'a>(clip: Clip, batch: &Batch<'a>) -> Option<&'a [f32]> {
    let Clip::Bounded { norm, clip_norm } = clip else {
        return None;
    };
    assert!(
        (MINIMUM_CLIP_NORM..=MAXIMUM_CLIP_NORM).contains(&clip_norm),
        "clip norm {clip_norm}, expected one in [2^-64, 2^64]"
    );
    let norms = batch.norms.expect("a bounded clip needs the norms of the rows (linear::row_norms)");
    assert_eq!(norms.norm, norm, "norms of the rows (left) and of the clip (right)");
    assert_eq!(norms.values.len(), batch.rows.len(), "norms (left) and rows (right)");
    Some(&norms.values)
}
