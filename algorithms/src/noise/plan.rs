//! From a noise mechanism's name to the mechanism itself, with its sensitivity under the run's participation: the one
//! place where the two meet, so that they cannot disagree.

use rounds_kernels::random::StreamKey;

use super::{AntiCorrelated, Dense, HonakerTree, IndependentGaussian, NoiseMechanism, Tree};
use crate::factorization::{
    FactorizationError, Participation, Workload, WorkloadSpecification, inverse_square_root_coefficients,
    square_root_coefficients, toeplitz_sensitivity,
};
use crate::optimizers::NoiseKind;
use crate::privacy::{Mechanism, Sampling};

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
    Dense { inverse: Vec<Vec<f64>>, sensitivity: f64 },
}

/// A mechanism that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoisePlanError {
    /// The factorisation refuses.
    #[error(transparent)]
    Factorization(#[from] FactorizationError),
    /// The closed form needs a Toeplitz workload.
    #[error("--noise toeplitz: the workload is not Toeplitz; take --noise optimal or banded=b")]
    NotToeplitz,
    /// Laplace noise does not belong to this family.
    #[error("--noise laplace: this algorithm accounts for its noise as one Gaussian mechanism; take dp-gd, dp-hb or dp-nag")]
    Laplace,
}

impl NoisePlan {
    /// Epochs k = ⌈T/b⌉: participations of one example, at most.
    pub fn epochs(&self) -> usize {
        self.rounds.div_ceil(self.rounds_per_epoch)
    }

    /// The participation of one example.
    fn participation(&self) -> Participation {
        match self.epochs() {
            1 => Participation::Single,
            epochs => Participation::MinimumSeparation { participations: epochs, separation: self.rounds_per_epoch },
        }
    }

    /// Computes C and its sensitivity.
    ///
    /// # Errors
    /// A workload or participation that the factorisation refuses.
    pub fn prepare(self) -> Result<PlannedNoise, NoisePlanError> {
        let strategy = match self.kind {
            NoiseKind::Independent => Strategy::Independent,
            NoiseKind::Tree => Strategy::Tree,
            NoiseKind::HonakerOnline => Strategy::HonakerOnline,
            NoiseKind::Toeplitz => {
                let workload = Workload::new(self.rounds, self.workload.clone())?;
                let roots = workload.toeplitz_roots().ok_or(NoisePlanError::NotToeplitz)?;
                let coefficients = square_root_coefficients(self.rounds, &roots);
                let inverse = inverse_square_root_coefficients(self.rounds, &roots);
                let sensitivity = toeplitz_sensitivity(&coefficients, &self.participation())?.value;
                let rows = (0..self.rounds).map(|t| inverse[..=t].iter().rev().copied().collect()).collect();
                Strategy::Dense { inverse: rows, sensitivity }
            }
            NoiseKind::Laplace => return Err(NoisePlanError::Laplace),
            NoiseKind::HonakerFull | NoiseKind::Optimal | NoiseKind::Banded(_) | NoiseKind::Blt(_) => {
                return Err(NoisePlanError::NotToeplitz);
            }
        };
        Ok(PlannedNoise { plan: self, strategy })
    }

    /// Anti-correlated noise, C = S ([001 Example 3.2]): the sensitivity is the norm of S's worst participation, at
    /// most `√(Σ_t (participations up to t)²)`, attained by the first example of each epoch.
    pub fn prepare_anti_correlated(self) -> PlannedNoise {
        let squared: f64 = (0..self.rounds).map(|t| ((t / self.rounds_per_epoch + 1) as f64).powi(2)).sum();
        PlannedNoise { strategy: Strategy::AntiCorrelated { sensitivity: squared.sqrt() }, plan: self }
    }
}

impl PlannedNoise {
    /// What the run releases with noise of this multiplier (standard deviation of Z's entries over clip norm).
    pub fn mechanism(&self, noise_multiplier: f64, sampling: Sampling) -> Mechanism {
        match self.strategy {
            Strategy::Independent => {
                Mechanism::Gaussian { noise_multiplier, sampling, participations: self.plan.epochs() }
            }
            Strategy::Tree | Strategy::HonakerOnline => Mechanism::Tree {
                noise_multiplier,
                sampling,
                rounds: self.plan.rounds_per_epoch.min(self.plan.rounds),
                trees: self.plan.epochs(),
            },
            Strategy::AntiCorrelated { sensitivity } | Strategy::Dense { sensitivity, .. } => {
                Mechanism::Factorized { noise_multiplier, sampling, sensitivity }
            }
        }
    }

    /// The stream, with Z's entries of this standard deviation. Its vectors are f64 where the key is a release key.
    pub fn stream(self, key: StreamKey, standard_deviation: f64) -> Box<dyn NoiseMechanism> {
        let release = matches!(key, StreamKey::Release(_));
        let NoisePlan { rounds, rounds_per_epoch, dimension, .. } = self.plan;
        let (rounds, per_epoch) = (rounds as u64, rounds_per_epoch as u64);
        match self.strategy {
            Strategy::Independent => Box::new(IndependentGaussian::new(key, standard_deviation)),
            Strategy::Tree => Box::new(Tree::new(key, standard_deviation, rounds, per_epoch)),
            Strategy::HonakerOnline if release => {
                Box::new(HonakerTree::<f64>::new(key, standard_deviation, rounds, per_epoch, dimension))
            }
            Strategy::HonakerOnline => {
                Box::new(HonakerTree::<f32>::new(key, standard_deviation, rounds, per_epoch, dimension))
            }
            Strategy::AntiCorrelated { .. } => Box::new(AntiCorrelated::new(key, standard_deviation, rounds)),
            Strategy::Dense { inverse, .. } if release => {
                Box::new(Dense::<f64>::new(key, standard_deviation, &inverse, dimension))
            }
            Strategy::Dense { inverse, .. } => {
                Box::new(Dense::<f32>::new(key, standard_deviation, &inverse, dimension))
            }
        }
    }
}
