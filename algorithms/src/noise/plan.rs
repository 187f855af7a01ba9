//! From a noise mechanism's name to the mechanism itself, with its sensitivity under the run's participation: the one
//! place where the two meet, so that they cannot disagree.

use std::sync::Arc;

use rounds_kernels::random::StreamKey;

use super::memory::{FactorizedStrategy, StrategyMemory};
use super::scalar::NoiseScalar;
use super::{AntiCorrelated, Banded, BufferedToeplitz, Dense, HonakerTree, IndependentGaussian, NoiseMechanism, Tree};
use crate::factorization::{
    FactorizationError, FactorizationRequest, Method, NoiseRecursion, Participation, TreeVariant, Workload,
    WorkloadSpecification,
};
use crate::optimizers::NoiseKind;
use crate::privacy::{Mechanism, Sampling};

/// Relative gap of the squared error that an optimal factorisation is certified to: half of it in the error itself.
const OPTIMAL_GAP: f64 = 1e-4;

/// What a mechanism is made for.
#[derive(Clone, Debug)]
pub struct NoisePlan {
    /// Which mechanism.
    pub kind: NoiseKind,
    /// Rounds T.
    pub rounds: usize,
    /// Rounds of one epoch, b: an example that takes part in round j does so again in j + b, j + 2b, …
    pub rounds_per_epoch: usize,
    /// What the run computes of its gradients: what the factorisation is best for.
    pub workload: WorkloadSpecification,
    /// Parameters p.
    pub dimension: usize,
}

/// A mechanism whose noise is still to be scaled.
pub struct PlannedNoise {
    plan: NoisePlan,
    strategy: Strategy,
}

/// C, as far as the stream needs it.
enum Strategy {
    Independent,
    Tree,
    HonakerOnline,
    AntiCorrelated { sensitivity: f64 },
    Factorized(Arc<FactorizedStrategy>),
}

/// A mechanism that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoisePlanError {
    /// The factorisation refuses.
    #[error(transparent)]
    Factorization(#[from] FactorizationError),
    /// Laplace noise does not belong to this family.
    #[error(
        "--noise laplace: this algorithm accounts for its noise as one Gaussian mechanism; take dp-gd, dp-hb or dp-nag"
    )]
    Laplace,
}

impl NoisePlan {
    /// Epochs k = ⌈T/b⌉: participations of one example, at most.
    pub fn epochs(&self) -> usize {
        self.rounds.div_ceil(self.rounds_per_epoch)
    }

    /// The participation of one example: whole epochs, or rounds at least b apart where the last epoch is not whole.
    fn participation(&self) -> Participation {
        let epochs = self.epochs();
        if epochs * self.rounds_per_epoch == self.rounds || epochs == 1 {
            Participation::epochs(epochs)
        } else {
            Participation::MinimumSeparation {
                participations: epochs,
                separation: self.rounds_per_epoch,
            }
        }
    }

    /// C and its sensitivity, computed or out of `memory`.
    ///
    /// # Errors
    /// A workload or participation that the factorisation refuses.
    pub fn prepare(self, memory: &StrategyMemory) -> Result<PlannedNoise, NoisePlanError> {
        let method = match self.kind {
            NoiseKind::Independent => {
                return Ok(PlannedNoise {
                    plan: self,
                    strategy: Strategy::Independent,
                });
            }
            NoiseKind::Tree => {
                return Ok(PlannedNoise {
                    plan: self,
                    strategy: Strategy::Tree,
                });
            }
            NoiseKind::HonakerOnline => {
                return Ok(PlannedNoise {
                    plan: self,
                    strategy: Strategy::HonakerOnline,
                });
            }
            NoiseKind::AntiCorrelated => return Ok(self.prepare_anti_correlated()),
            NoiseKind::Laplace => return Err(NoisePlanError::Laplace),
            NoiseKind::HonakerFull => Method::Tree(TreeVariant::HonakerFull),
            NoiseKind::Optimal => Method::Optimal,
            NoiseKind::Banded(bands) => Method::Banded { bands },
            NoiseKind::Blt(buffers) => Method::Blt { buffers },
            NoiseKind::Toeplitz => Method::Toeplitz,
        };
        let workload = Workload::new(self.rounds, self.workload.clone())?;
        let request = FactorizationRequest::new(workload, self.participation(), method);
        let strategy = Strategy::Factorized(memory.strategy(FactorizationRequest {
            gap: OPTIMAL_GAP,
            ..request
        })?);
        Ok(PlannedNoise { plan: self, strategy })
    }

    /// Anti-correlated noise, C = S ([001 Example 3.2]): the sensitivity is the norm of S's worst participation, at
    /// most `√(Σ_t (participations up to t)²)`, attained by the first example of each epoch.
    fn prepare_anti_correlated(self) -> PlannedNoise {
        let squared: f64 = (0..self.rounds)
            .map(|t| ((t / self.rounds_per_epoch + 1) as f64).powi(2))
            .sum();
        PlannedNoise {
            strategy: Strategy::AntiCorrelated {
                sensitivity: squared.sqrt(),
            },
            plan: self,
        }
    }
}

impl PlannedNoise {
    /// What the run releases with noise of this multiplier (standard deviation of Z's entries over clip norm).
    pub fn mechanism(&self, noise_multiplier: f64, sampling: Sampling) -> Mechanism {
        match self.strategy {
            Strategy::Independent => Mechanism::Gaussian {
                noise_multiplier,
                sampling,
                participations: self.plan.epochs(),
            },
            Strategy::Tree | Strategy::HonakerOnline => Mechanism::Tree {
                noise_multiplier,
                sampling,
                rounds: self.plan.rounds_per_epoch.min(self.plan.rounds),
                trees: self.plan.epochs(),
            },
            Strategy::AntiCorrelated { sensitivity } => Mechanism::Factorized {
                noise_multiplier,
                sampling,
                sensitivity,
            },
            Strategy::Factorized(ref strategy) => Mechanism::Factorized {
                noise_multiplier,
                sampling,
                sensitivity: strategy.sensitivity,
            },
        }
    }

    /// The stream, with Z's entries of this standard deviation. Its vectors are f64 where the key is a release key.
    pub fn stream(self, key: StreamKey, standard_deviation: f64) -> Box<dyn NoiseMechanism> {
        let release = matches!(key, StreamKey::Release(_));
        let NoisePlan {
            rounds,
            rounds_per_epoch,
            dimension,
            ..
        } = self.plan;
        let (rounds, per_epoch) = (rounds as u64, rounds_per_epoch as u64);
        match self.strategy {
            Strategy::Independent => Box::new(IndependentGaussian::new(key, standard_deviation)),
            Strategy::Tree => Box::new(Tree::new(key, standard_deviation, rounds, per_epoch)),
            Strategy::HonakerOnline if release => Box::new(HonakerTree::<f64>::new(
                key,
                standard_deviation,
                rounds,
                per_epoch,
                dimension,
            )),
            Strategy::HonakerOnline => Box::new(HonakerTree::<f32>::new(
                key,
                standard_deviation,
                rounds,
                per_epoch,
                dimension,
            )),
            Strategy::AntiCorrelated { .. } => Box::new(AntiCorrelated::new(key, standard_deviation, rounds)),
            Strategy::Factorized(strategy) if release => {
                factorized::<f64>(&strategy.recursion, key, standard_deviation, rounds, dimension)
            }
            Strategy::Factorized(strategy) => {
                factorized::<f32>(&strategy.recursion, key, standard_deviation, rounds, dimension)
            }
        }
    }
}

/// The stream of a recursion.
fn factorized<F: NoiseScalar>(
    recursion: &NoiseRecursion,
    key: StreamKey,
    sigma: f64,
    rounds: u64,
    dimension: usize,
) -> Box<dyn NoiseMechanism> {
    let lower = |entry: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
        (0..rounds as usize)
            .map(|t| (0..=t).map(|s| entry(t, s)).collect())
            .collect()
    };
    match recursion {
        NoiseRecursion::Identity => Box::new(IndependentGaussian::new(key, sigma)),
        NoiseRecursion::Dense { inverse } => {
            Box::new(Dense::<F>::new(key, sigma, &lower(&|t, s| inverse[(t, s)]), dimension))
        }
        NoiseRecursion::Toeplitz { inverse } => {
            Box::new(Dense::<F>::new(key, sigma, &lower(&|t, s| inverse[t - s]), dimension))
        }
        NoiseRecursion::Banded(banded) => {
            let rows = banded.coefficients.chunks(banded.bands).map(<[f64]>::to_vec).collect();
            Box::new(Banded::<F>::from_rows(key, sigma, rows, dimension))
        }
        NoiseRecursion::Blt { omega, theta } => {
            Box::new(BufferedToeplitz::<F>::new(key, sigma, rounds, omega, theta, dimension))
        }
        NoiseRecursion::Tree {
            variant: TreeVariant::Plain,
        } => Box::new(Tree::new(key, sigma, rounds, rounds.max(1))),
        NoiseRecursion::Tree { .. } => Box::new(HonakerTree::<F>::new(key, sigma, rounds, rounds.max(1), dimension)),
    }
}
