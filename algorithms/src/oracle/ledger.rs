//! The queries of a run to its data: counted by the oracle, so no optimiser can miscount itself.

/// Counters of one run (specification 0.1; [002 §III-A], [004 §1]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ledger {
    /// Adaptive rounds (query depth): batches of queries whose points were fixed before any answer was seen.
    pub rounds: u64,
    /// Per-example gradient queries: one evaluation at one point for one example. A difference costs two.
    pub gradient_queries: u64,
    /// Bytes of features read.
    pub bytes: u64,
    /// Floating-point operations of margins and gradients (4 a parameter and query; 6 a parameter for a difference).
    pub flops: u64,
    /// Rows whose gradient was clipped: a statistic of the data, for diagnostics only.
    pub clipped: u64,
    /// Rows whose gradient could have been clipped.
    pub clippable: u64,
}

impl Ledger {
    /// Fraction of the per-example gradients that were clipped (diagnostics; not covered by any privacy guarantee).
    pub fn clipped_fraction(&self) -> f64 {
        if self.clippable == 0 { 0.0 } else { self.clipped as f64 / self.clippable as f64 }
    }
}
