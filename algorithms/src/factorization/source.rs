//! Where a run's factorisations come from: computed here, kept from before, or given by a person.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Factorization, FactorizationError, FactorizationKey, FactorizationRequest};

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

    /// The same source, asked once for requests that repeat: what many runs of one plan need.
    #[must_use]
    pub fn remembering(self) -> Self {
        let last: Mutex<Option<(FactorizationKey, Factorization)>> = Mutex::new(None);
        Self::new(move |request| {
            let key = request.key();
            // A value is stored whole or not at all: a poisoned lock holds a sound one.
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            match &*last {
                Some((known, factorization)) if *known == key => Ok(factorization.clone()),
                _ => {
                    let factorization = self.factorize(request)?;
                    *last = Some((key, factorization.clone()));
                    Ok(factorization)
                }
            }
        })
    }

    /// The factorisation of `request`.
    ///
    /// # Errors
    /// Those of [`FactorizationRequest::factorize`], and what a source of its own refuses.
    pub fn factorize(&self, request: FactorizationRequest) -> Result<Factorization, FactorizationError> {
        (self.0)(request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::{Method, Participation, Workload, WorkloadSpecification};
    use super::*;

    #[test]
    fn a_remembering_source_asks_once_for_equal_requests_and_again_for_others() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let source = FactorizationSource::new(move |request| {
            counter.fetch_add(1, Ordering::Relaxed);
            request.factorize()
        })
        .remembering();
        let request = |rounds| {
            let workload = Workload::new(rounds, WorkloadSpecification::prefix()).unwrap();
            FactorizationRequest::new(workload, Participation::Single, Method::Optimal)
        };
        let first = source.factorize(request(5)).unwrap();
        let again = source.factorize(request(5)).unwrap();
        assert_eq!(
            (asked.load(Ordering::Relaxed), first.frobenius()),
            (1, again.frobenius())
        );
        assert_eq!(source.factorize(request(6)).unwrap().rounds(), 6);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
