//! Source of a run's factorisations: computed, cached, or given.

use std::sync::Arc;

use super::{Factorization, FactorizationError, FactorizationRequest};

/// Answers a [`FactorizationRequest`]. The answer must be a factorisation of the request's workload, with its sensitivity
/// under the request's participation: noise plans read the sensitivity from it and calibrate to that.
#[derive(Clone)]
pub struct FactorizationSource(Arc<Answer>);

type Answer = dyn Fn(FactorizationRequest) -> Result<Factorization, FactorizationError> + Send + Sync;

impl Default for FactorizationSource {
    /// Computes every factorisation.
    fn default() -> Self {
        Self::new(FactorizationRequest::factorize)
    }
}

impl FactorizationSource {
    /// A source of its own, such as a cache or a file.
    pub fn new(
        answer: impl Fn(FactorizationRequest) -> Result<Factorization, FactorizationError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(answer))
    }

    /// The factorisation of `request`.
    ///
    /// # Errors
    /// Those of [`FactorizationRequest::factorize`], and what a source of its own refuses.
    pub fn factorize(&self, request: FactorizationRequest) -> Result<Factorization, FactorizationError> {
        (self.0)(request)
    }
}
