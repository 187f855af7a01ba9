//! Anti-correlated noise, B = I and C = S ([001 Example 3.2], Anti-PGD): increments `z_t − z_{t−1}`, so that every prefix
//! carries one fresh draw.

use rounds_kernels::random::StreamKey;

use super::addressed::Addressed;
use super::plan::{NoisePlan, PlannedNoise};
use super::stream::NoiseMechanism;
use crate::privacy::Mechanism;

/// The registry's entry. The sensitivity is the norm of S's worst participation, at most
/// `√(Σ_t (participations up to t)²)`, attained by the first example of each epoch; √T for one participation.
pub(super) fn planned(plan: &NoisePlan) -> PlannedNoise {
    let squared: f64 = (0..plan.rounds).map(|t| ((t / plan.rounds_per_epoch + 1) as f64).powi(2)).sum();
    let (sensitivity, rounds) = (squared.sqrt(), plan.rounds as u64);
    PlannedNoise::new(
        move |noise_multiplier, sampling| Mechanism::Factorized { noise_multiplier, sampling, sensitivity },
        move |key, sigma| Box::new(stream(key, sigma, rounds)),
    )
}

/// `σ·(z_t − z_{t−1})`, z_{−1} = 0, for `rounds` rounds. The previous draw is made again from its address rather than kept.
pub(super) fn stream(key: StreamKey, sigma: f64, rounds: u64) -> impl NoiseMechanism {
    Addressed::new(key, sigma, rounds, 2, |round: u64, add: &mut dyn FnMut(u64, f64)| {
        add(round, 1.0);
        if round > 0 {
            add(round - 1, -1.0);
        }
    })
}
