//! The privacy loss distribution of a mechanism.

use super::{Accountant, Adjacency, Mechanism, PrivacyError};

/// The privacy loss of a whole mechanism.
#[derive(Debug)]
pub struct PrivacyLoss {}

impl PrivacyLoss {
    /// The privacy loss of `mechanism`.
    ///
    /// # Errors
    /// Refuses everything until the accountant is added.
    pub fn new(mechanism: &Mechanism, adjacency: Adjacency) -> Result<Self, PrivacyError> {
        mechanism.check(adjacency)?;
        Err(PrivacyError::RefusedAccountant {
            accountant: Accountant::Pld,
            mechanism: mechanism.name(),
            reason: "use rdp",
        })
    }
    /// ε at δ.
    ///
    /// # Errors
    /// Never.
    pub fn epsilon(&self, _delta: f64) -> Result<f64, PrivacyError> {
        Ok(f64::INFINITY)
    }
    /// δ at ε.
    ///
    /// # Errors
    /// Never.
    pub fn delta(&self, _epsilon: f64) -> Result<f64, PrivacyError> {
        Ok(1.0)
    }
}
