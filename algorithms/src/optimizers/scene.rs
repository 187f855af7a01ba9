//! The conditions under which an algorithm is audited: data sizes and settings of the smallest run that shows its
//! guarantee. The audit itself is in [`crate::audit`].

/// Norm of the canary's gradient before clipping, in units of the clip norm.
pub const RAW_GRADIENT: f64 = 10.0;

/// A row of the audit's data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row {
    /// Without a gradient, and no null row.
    Zero,
    /// The audited example.
    Canary,
    /// The canary's gradient times −1.
    Opposite,
    /// The null row of the domain.
    Null,
}

/// Data sizes and settings of one audit of an algorithm.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The sampling and noise, in words.
    pub name: &'static str,
    /// Rows of the data.
    pub rows: usize,
    /// Batch size; `None` reads all rows.
    pub batch_size: Option<usize>,
    /// Rows of a batch at most, where it is cut.
    pub max_batch: Option<usize>,
    /// Other parameters.
    pub parameters: &'static [(&'static str, &'static str)],
    /// Parameters in units of the clip norm.
    pub scaled: &'static [(&'static str, f64)],
    /// ε of the claim; without one, that of μ = 2.
    pub epsilon: Option<f64>,
    /// The other rows under replace-one.
    pub others: Row,
    /// Norm of the canary's gradient before clipping: the longest one.
    pub raw: f64,
    /// The place of the second copy of the example when a participation is ignored.
    pub second: usize,
    /// Number of rows with that second copy.
    pub rows_with_second: usize,
    /// The share of the claimed ε that the audit's lower bound reaches, at least, with 4,000 runs: above 0, so that a scene shows
    /// something.
    pub power: f64,
    /// True if the scene sets constants (a smoothness, radii) that hold for the squared loss on f32 rows only.
    pub needs_f32: bool,
    /// True if the scene is of units of several rows alone.
    pub needs_units: bool,
}

impl Scene {
    /// Fixed batches of 2 rows, two epochs of 4 rounds. A shuffled order is covered by the same claim, and hides the
    /// canary's place.
    pub const FIXED: Self = Self {
        name: "fixed order",
        rows: 8,
        batch_size: Some(2),
        max_batch: None,
        parameters: &[("rounds", "8"), ("sampling", "fixed")],
        scaled: &[],
        epsilon: None,
        others: Row::Zero,
        raw: RAW_GRADIENT,
        // One epoch of 16 rows in place of two of 8: the claim counts one participation, and the example has two.
        second: 8,
        rows_with_second: 16,
        power: 0.25,
        needs_f32: false,
        needs_units: false,
    };

    /// One pass of fixed batches.
    pub const SINGLE_PASS: Self = Self { rows: 16, second: 2, ..Self::FIXED };

    /// Poisson batches, of methods whose step is called `learning-rate`.
    pub const POISSON: Self = Self {
        name: "Poisson",
        rows: 16,
        batch_size: Some(8),
        // A step of its own: the default one grows with the batch size, and would hide a wrong divisor.
        parameters: &[("rounds", "4"), ("sampling", "poisson"), ("learning-rate", "4")],
        epsilon: Some(4.0),
        second: 1,
        ..Self::FIXED
    };
}
