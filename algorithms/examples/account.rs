//! Noise for a budget, and the ε of given noise, by several accountants.
//!
//! `cargo run --release -p rounds-algorithms --example account`

use std::error::Error;

use rounds_algorithms::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    // 1,000 rounds of Poisson batches of 1 % of the rows.
    let mechanism = |noise_multiplier| Mechanism::SubsampledGaussian {
        noise_multiplier,
        sampling: Sampling::Poisson { rate: 0.01 },
        steps: 1_000,
    };
    let (relation, delta) = (Adjacency::ZeroOut, 1e-5);
    for accountant in [Accountant::Pld, Accountant::Rdp] {
        let noise_multiplier = calibrate(accountant, relation, 1.0, delta, mechanism)?;
        println!("{accountant}: noise multiplier {noise_multiplier:.4} for epsilon = 1");
        let epsilon = accountant.epsilon(&mechanism(1.0), relation, delta)?;
        println!("{accountant}: epsilon = {epsilon:.4} for noise multiplier 1");
    }
    Ok(())
}
