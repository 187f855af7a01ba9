//! The budget of a run, and what was computed for it before: ε of mechanisms, and the noise of budgets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::accountant::Accountant;
use super::accounting::{Precision, calibrated};
use super::error::PrivacyError;
use super::mechanism::Mechanism;
use crate::hexadecimal;
use crate::problem::adjacency::Adjacency;

/// The privacy budget of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// No noise and no claim.
    NonPrivate,
    /// The smallest noise that satisfies (ε, δ).
    Target {
        /// ε > 0.
        epsilon: f64,
        /// δ ∈ (0, 1).
        delta: f64,
    },
    /// This noise multiplier, whatever ε it gives at δ.
    NoiseMultiplier {
        /// Noise standard deviation over clip norm.
        noise_multiplier: f64,
        /// δ ∈ (0, 1) at which ε is reported.
        delta: f64,
    },
}

/// Noise that was calibrated before, and ε, by all the inputs of their computation; clones share it. The runs of a cell differ in
/// their seeds and share the noise, and every one of them is prepared from the target ε itself.
#[derive(Clone, Debug, Default)]
pub struct CalibrationMemory {
    known: Arc<Mutex<HashMap<String, f64>>>,
    precision: Precision,
}

impl CalibrationMemory {
    /// An empty memory of numbers that a search begins with, quick and some thousandths too large: no run may have them.
    pub fn rough() -> Self {
        Self { precision: Precision::Rough, ..Self::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, f64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of `find` for these inputs, computed at the first call. Errors are not remembered.
    pub(crate) fn remembered<E>(&self, inputs: &str, find: impl FnOnce() -> Result<f64, E>) -> Result<f64, E> {
        // A schedule has as many numbers as rounds.
        let key = hexadecimal(&Sha256::digest(inputs));
        if let Some(&found) = self.known().get(&key) {
            return Ok(found);
        }
        let found = find()?;
        self.known().insert(key, found);
        Ok(found)
    }

    /// [`Accountant::epsilon`], computed once.
    pub(crate) fn epsilon(
        &self,
        accountant: Accountant,
        mechanism: &Mechanism,
        adjacency: Adjacency,
        delta: f64,
    ) -> Result<f64, PrivacyError> {
        let inputs = format!("{accountant:?} {adjacency:?} {delta:?} {mechanism:?}");
        self.remembered(&inputs, || accountant.epsilon_to(self.precision, mechanism, adjacency, delta))
    }

    /// [`calibrate`](super::calibrate), made once. `mechanism` at 1 stands for the whole family: its argument scales the noise.
    pub(crate) fn calibrate(
        &self,
        accountant: Accountant,
        adjacency: Adjacency,
        epsilon: f64,
        delta: f64,
        mechanism: impl Fn(f64) -> Mechanism,
    ) -> Result<f64, PrivacyError> {
        let inputs = format!("{accountant:?} {adjacency:?} {epsilon:?} {delta:?} {:?}", mechanism(1.0));
        self.remembered(&inputs, || calibrated(self.precision, accountant, adjacency, (epsilon, delta), mechanism))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::privacy::Sampling;

    #[test]
    fn clones_of_a_memory_calibrate_once_and_another_input_anew() {
        let memory = CalibrationMemory::default();
        let asked = Cell::new(0);
        let find = |memory: &CalibrationMemory, epsilon, participations| {
            asked.set(0);
            let noise = memory.calibrate(Accountant::Gdp, Adjacency::ZeroOut, epsilon, 1e-5, |noise_multiplier| {
                asked.set(asked.get() + 1);
                Mechanism::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations }
            });
            (noise.unwrap(), asked.get())
        };
        let (first, searched) = find(&memory, 1.0, 1);
        assert!(searched > 2);
        assert_eq!(find(&memory.clone(), 1.0, 1), (first, 1));
        for (epsilon, participations) in [(1.0 + f64::EPSILON, 1), (1.0, 2)] {
            assert!(find(&memory, epsilon, participations).1 > 2);
        }
    }
}
