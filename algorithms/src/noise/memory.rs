//! Strategies that were made before: the runs of a study differ in their seeds and step sizes, and share C.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::factorization::{
    FactorizationError, FactorizationKey, FactorizationRequest, FactorizationSource, NoiseRecursion,
};

/// The recursion of C⁻¹ and the sensitivity of C.
#[derive(Debug)]
pub(super) struct FactorizedStrategy {
    pub(super) recursion: NoiseRecursion,
    pub(super) sensitivity: f64,
}

/// Strategies by all the inputs of their factorisation, shared by the clones of a handle.
#[derive(Clone, Default)]
pub struct StrategyMemory {
    known: Arc<Mutex<HashMap<FactorizationKey, Arc<FactorizedStrategy>>>>,
    source: FactorizationSource,
}

impl StrategyMemory {
    /// An empty memory that asks `source` for what it does not hold.
    pub fn filled_from(source: FactorizationSource) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }

    /// The strategy of `request`, made at its first time. Two threads that ask at once may both make it; both get the
    /// one that is kept.
    pub(super) fn strategy(
        &self,
        request: FactorizationRequest,
    ) -> Result<Arc<FactorizedStrategy>, FactorizationError> {
        let key = request.key();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(strategy) = known().get(&key) {
            return Ok(Arc::clone(strategy));
        }
        let factorization = self.source.factorize(request)?;
        let strategy = Arc::new(FactorizedStrategy {
            recursion: factorization.strategy().noise_recursion()?,
            sensitivity: factorization.sensitivity().value,
        });
        Ok(Arc::clone(known().entry(key).or_insert(strategy)))
    }
}

impl fmt::Debug for StrategyMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).len();
        write!(formatter, "StrategyMemory({known} strategies)")
    }
}
