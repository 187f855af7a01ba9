//! Mechanisms whose C comes from a factorisation of the workload, and the memory of those made before: the runs of a
//! study differ in their seeds and step sizes, and share C.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rounds_kernels::random::StreamKey;
use sha2::{Digest as _, Sha256};

use super::banded::Banded;
use super::buffered_toeplitz::BufferedToeplitz;
use super::dense::Dense;
use super::lattice::covers;
use super::plan::{NoisePlan, NoisePlanError, PlannedNoise};
use super::recursion::{Planned, Recursive};
use super::stream::NoiseMechanism;
use crate::factorization::{
    FactorizationError, FactorizationKey, FactorizationRequest, FactorizationSource, Method, Strategy, Workload,
};
use crate::parallel::lock;
use crate::privacy::Mechanism;

/// Relative gap of the squared error that an optimal factorisation is certified to: half of it in the error itself.
const OPTIMAL_GAP: f64 = 1e-4;

/// Noise through the C of a factorisation of the plan's workload.
pub(super) fn prepare(
    plan: &NoisePlan,
    memory: &StrategyMemory,
    method: Method,
) -> Result<PlannedNoise, NoisePlanError> {
    let (rounds, participations) = (plan.rounds, plan.epochs());
    if !covers(rounds, participations) {
        return Err(NoisePlanError::TooLong { rounds, participations });
    }
    let workload = Workload::new(rounds, plan.workload.clone())?;
    let strategy = memory.strategy(FactorizationRequest {
        gap: OPTIMAL_GAP,
        ..FactorizationRequest::new(workload, plan.participation(), method)
    })?;
    let (sensitivity, dimension) = (strategy.sensitivity, plan.dimension);
    Ok(PlannedNoise::new(
        move |noise_multiplier, sampling| Mechanism::Factorized { noise_multiplier, sampling, sensitivity },
        move |key, sigma| strategy.inverse.stream(key, sigma, dimension),
    ))
}

/// C⁻¹, in the form of its streams.
enum Inverse {
    /// Its rows up to the diagonal.
    Dense(Arc<Vec<Vec<f64>>>),
    /// That of a C with few bands.
    Banded(Arc<Planned<Banded>>),
    /// That of a buffered linear Toeplitz C.
    Blt(Arc<Planned<BufferedToeplitz>>),
}

impl Inverse {
    /// The inverse, and the factor by which the sensitivity of what it inverts may exceed that of C.
    ///
    /// The stored coefficients of a banded or buffered C are those of the recursion. Where the inverse X is stored, the real
    /// noise is that of the strategy `X⁻¹ = (I + E)⁻¹C`, `E = CX − I`, whose sensitivity is at most `1/(1 − ‖E‖_F)` times C's.
    fn of(strategy: &Strategy) -> Result<(Self, f64), FactorizationError> {
        let rounds = strategy.rounds() as u64;
        let mut factor = 1.0;
        let inverse = match strategy {
            Strategy::Banded(banded) => {
                let rows = banded.coefficients.chunks(banded.bands).map(<[f64]>::to_vec).collect();
                Self::Banded(Arc::new(Planned::new(Banded::new(rows), rounds)))
            }
            Strategy::Blt { omega, theta, .. } => {
                Self::Blt(Arc::new(Planned::new(BufferedToeplitz::new(omega, theta), rounds)))
            }
            other => {
                let inverse = other.inverse_matrix()?;
                let size = inverse.nrows();
                let columns = if matches!(other, Strategy::Toeplitz { .. }) { 1 } else { size };
                factor = 1.0 / (1.0 - other.inverse_error(inverse.subcols(0, columns)));
                if !(factor >= 1.0 && factor.is_finite()) {
                    let routine = "the inversion of C";
                    return Err(FactorizationError::Numerical { routine, size });
                }
                let row = |t: usize| (0..=t).map(|s| inverse[(t, s)]).collect();
                Self::Dense(Arc::new((0..size).map(row).collect()))
            }
        };
        Ok((inverse, factor))
    }

    fn stream(&self, key: StreamKey, sigma: f64, dimension: usize) -> Box<dyn NoiseMechanism> {
        match self {
            Self::Dense(rows) => Box::new(Dense::new(key, sigma, Arc::clone(rows), dimension)),
            Self::Banded(planned) => Box::new(Recursive::new(key, sigma, Arc::clone(planned), dimension)),
            Self::Blt(planned) => Box::new(Recursive::new(key, sigma, Arc::clone(planned), dimension)),
        }
    }
}

/// C⁻¹ and the sensitivity of what it inverts.
struct FactorizedStrategy {
    inverse: Inverse,
    sensitivity: f64,
    /// SHA-256 of the factorisation.
    digest: [u8; 32],
}

/// Strategies by all the inputs of their factorisation, shared by the clones of a handle.
#[derive(Clone, Default)]
pub struct StrategyMemory {
    known: Arc<Mutex<HashMap<FactorizationKey, Arc<FactorizedStrategy>>>>,
    source: FactorizationSource,
}

impl StrategyMemory {
    /// An empty memory whose missing factorisations come from `source`.
    pub fn filled_from(source: FactorizationSource) -> Self {
        Self { source, ..Self::default() }
    }

    /// SHA-256 of the coefficients of all strategies so far; none of a run without any. They may come from a file or a cache, and
    /// are public.
    pub fn digest(&self) -> Option<[u8; 32]> {
        let mut digests: Vec<[u8; 32]> = lock(&self.known).values().map(|strategy| strategy.digest).collect();
        digests.sort_unstable();
        (!digests.is_empty()).then(|| Sha256::digest(digests.as_flattened()).into())
    }

    /// The strategy of `request`, made once. Two threads may make it at the same time; both get the one that is kept.
    fn strategy(&self, request: FactorizationRequest) -> Result<Arc<FactorizedStrategy>, FactorizationError> {
        let key = request.key();
        if let Some(strategy) = lock(&self.known).get(&key) {
            return Ok(Arc::clone(strategy));
        }
        let factorization = self.source.factorize(request)?;
        let (inverse, factor) = Inverse::of(factorization.strategy())?;
        let (sensitivity, digest) = (factor * factorization.sensitivity().value, factorization.digest(key));
        let strategy = Arc::new(FactorizedStrategy { inverse, sensitivity, digest });
        Ok(Arc::clone(lock(&self.known).entry(key).or_insert(strategy)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factorization::{Participation, WorkloadSpecification};

    #[test]
    fn the_sensitivity_is_that_of_the_stored_inverse() {
        let workload = Workload::new(30, WorkloadSpecification::prefix()).unwrap();
        for (method, is_larger) in
            [(Method::Optimal, true), (Method::Toeplitz, true), (Method::Banded { bands: 4 }, false)]
        {
            let request = FactorizationRequest::new(workload.clone(), Participation::Single, method);
            let factorization = request.factorize().unwrap();
            let (_, factor) = Inverse::of(factorization.strategy()).unwrap();
            assert!((1.0..1.0 + 1e-11).contains(&factor) && (factor > 1.0) == is_larger, "{method}: {factor}");
        }
    }

    #[test]
    fn rounds_beyond_the_proof_of_the_excess_are_refused() {
        assert!(covers(1 << 16, 2_000) && !covers(1 << 16, 2_100));
        let workload = WorkloadSpecification::prefix();
        let plan = NoisePlan { rounds: 12_000, rounds_per_epoch: 1, workload, dimension: 3 };
        let refused = prepare(&plan, &StrategyMemory::default(), Method::Banded { bands: 2 });
        assert!(matches!(refused, Err(NoisePlanError::TooLong { rounds: 12_000, participations: 12_000 })));
    }

    #[test]
    fn the_error_of_an_inverse_is_bounded() {
        for strategy in
            [Strategy::Identity { rounds: 9 }, Strategy::Toeplitz { coefficients: vec![1.0, 0.5, 0.25, 0.1] }]
        {
            let mut inverse = strategy.inverse_matrix().unwrap();
            let rounds = inverse.nrows();
            assert!(strategy.inverse_error(inverse.as_ref()) < 1e-13);
            // CX − I is C's first column times the change.
            inverse[(0, 0)] += 1e-3;
            let change = 1e-3 * strategy.matrix().col(0).norm_l2();
            let found = strategy.inverse_error(inverse.as_ref());
            assert!(found >= change && found < 1.01 * change, "{found} {change}");
            let toeplitz = strategy.inverse_error(inverse.subcols(0, 1));
            assert!((toeplitz / found / (rounds as f64).sqrt() - 1.0).abs() < 1e-6, "{toeplitz}");
        }
    }
}
