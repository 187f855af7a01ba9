//! An empirical lower bound on the privacy loss of DP-SGD, beside its claim, and of a copy that is broken on purpose.
//!
//! `cargo run --release -p rounds-algorithms --example audit`

use std::error::Error;

use rounds_algorithms::audit::{AuditSettings, Sabotage, audit};
use rounds_algorithms::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let algorithm = catalog::find("dp-sgd")?;
    for sabotage in [None, Some(Sabotage::HalvedNoise)] {
        let settings = AuditSettings { runs: 4_000, sabotage, ..AuditSettings::default() };
        let report = audit(algorithm, &algorithm.scenes[0], &settings, &Engine::with_threads(2)?, &|_| ())?;
        let name = sabotage.map_or("as it is", Sabotage::name);
        match report.finding {
            Ok(finding) => println!(
                "{name}: claimed epsilon {:.2}, measured at least {:.2}{}",
                finding.claimed_epsilon,
                finding.lower_bound_epsilon,
                if finding.disproves() { ": the claim is false" } else { "" }
            ),
            Err(reason) => println!("{name}: nothing is claimed: {reason}"),
        }
    }
    Ok(())
}
