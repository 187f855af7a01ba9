//! A noise mechanism of one's own: independent Gaussians, each used in two rounds with opposite signs.
//!
//! `cargo run --release -p rounds-algorithms --example own_noise`

use std::error::Error;

use rounds_algorithms::prelude::*;

/// Round t adds z_t − z_{t−1}/2, row t of C⁻¹·Z for the lower bidiagonal C⁻¹ with 1 and −½. C has the entries ½^{t−s}, so that
/// its sensitivity to one row in one round is (Σ_s ¼^s)^{1/2} ≤ √(4/3), and σ must be the noise multiplier times √(4/3)·C.
struct HalfReturned {
    stream: IndependentGaussian,
    last: Vec<f64>,
}

impl NoiseMechanism for HalfReturned {
    /// `sum += z_t − z_{t−1}/2` in floating point. Exact noise would make both draws from their addresses.
    fn add_increment(
        &mut self,
        round: u64,
        sum: &mut [f64],
        unit: Option<f64>,
        engine: &Engine,
    ) -> Result<(), NoiseError> {
        assert!(unit.is_none(), "this noise is idealised");
        let mut fresh = vec![0.0; sum.len()];
        self.stream.add_increment(round, &mut fresh, None, engine)?;
        for ((sum, fresh), last) in sum.iter_mut().zip(&fresh).zip(&self.last) {
            *sum += fresh - 0.5 * last;
        }
        self.last = fresh;
        Ok(())
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        self.stream.visit_state(visitor);
        visitor.f64s("last", &mut self.last);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (rounds, dimension) = (400, 16);
    let mut noise =
        HalfReturned { stream: IndependentGaussian::new(StreamKey::Simulation(1), 1.0), last: vec![0.0; dimension] };
    let mut prefix = vec![0.0; dimension];
    for round in 0..rounds {
        noise.add_increment(round, &mut prefix, None, &Engine::Sequential)?;
    }
    let variance = prefix.iter().map(|value| value * value).sum::<f64>() / dimension as f64;
    println!("variance of the sum of {rounds} rounds: {variance:.0}, {rounds} with fresh noise");
    println!("after the price of its sensitivity: {:.0}", variance * 4.0 / 3.0);
    Ok(())
}
