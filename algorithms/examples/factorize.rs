//! The error of factorisations of a workload: prefix sums with momentum over four epochs.
//!
//! `cargo run --release -p rounds-algorithms --example factorize`

use std::error::Error;

use rounds_algorithms::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = 256;
    let methods =
        [Method::Identity, Method::Toeplitz, Method::Banded { bands: 16 }, Method::Blt { buffers: 3 }, Method::Optimal];
    for method in methods {
        let workload = Workload::new(rounds, WorkloadSpecification::prefix().with_momentum(0.9))?;
        let factorization = FactorizationRequest::new(workload, Participation::epochs(4), method).factorize()?;
        println!("{method:?}: root mean squared error {:.3} at sensitivity 1", factorization.rms_error());
    }
    Ok(())
}
