//! Root mean square error of the prefix sums of private gradients, in units of the clip norm, by sampler: the table of docs/PRIVACY.md.
//!
//! `cargo run --release --example amplified_bands [ROUNDS]` with 60,000 examples, batches of 500 and δ = 1e-6.

use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::privacy::{Accountant, Adjacency, Mechanism, PrivacyError, Sampling, calibrate};

const ROWS: usize = 60_000;
const BATCH: usize = 500;
const DELTA: f64 = 1e-6;

/// The noise of columns of norm 1 on batches of this sampler.
fn noise(epsilon: f64, sampling: Sampling, steps: usize) -> Result<f64, PrivacyError> {
    let mechanism = |noise_multiplier| Mechanism::SubsampledGaussian { noise_multiplier, sampling, steps };
    let accountant = Accountant::default_for(&mechanism(1.0));
    calibrate(accountant, Adjacency::ZeroOut, epsilon, DELTA, mechanism)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(120), |rounds| rounds.parse())?;
    let workload = Workload::new(rounds, WorkloadSpecification::prefix())?;
    let candidates: &[usize] = if rounds > 500 { &[1, 2, 4, 8, 15, 30] } else { &[1, 2, 4, 6, 8, 10, 12, 120] };
    let mut errors = Vec::new();
    for &bands in candidates.iter().filter(|&&bands| bands <= rounds) {
        let method = if bands == 1 { Method::Identity } else { Method::Banded { bands } };
        let request = FactorizationRequest::new(workload.clone(), Participation::Single, method);
        errors.push((bands, request.factorize()?.rms_error()));
    }
    println!(
        "| ε | Poisson | cyclic Poisson | bands | with allocation | bands |\n| --- | --- | --- | --- | --- | --- |"
    );
    for epsilon in [0.5, 1.0, 2.0, 4.0, 8.0] {
        let poisson = noise(epsilon, Sampling::Poisson { rate: BATCH as f64 / ROWS as f64 }, rounds)? * errors[0].1;
        let best = |sampling: &dyn Fn(usize) -> Sampling| -> Result<(f64, usize), PrivacyError> {
            let mut best = (f64::INFINITY, 0);
            for &(bands, error) in &errors {
                let found = noise(epsilon, sampling(bands), rounds)? * error;
                best = if found < best.0 { (found, bands) } else { best };
            }
            Ok(best)
        };
        let rate = |groups: usize| (BATCH * groups) as f64 / ROWS as f64;
        let cyclic = best(&|groups| Sampling::CyclicPoisson { groups, rate: rate(groups) })?;
        let slots = |groups: usize| ROWS.div_ceil(BATCH * groups);
        let allocated = best(&|groups| Sampling::RandomAllocation { groups, slots: slots(groups) })?;
        println!(
            "| {epsilon} | {poisson:.2} | {:.2} | {} | {:.2} | {} |",
            cyclic.0, cyclic.1, allocated.0, allocated.1
        );
    }
    Ok(())
}
