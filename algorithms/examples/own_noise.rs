//! A noise mechanism of one's own: independent Gaussians, each used in two rounds with opposite signs, with what it states.
//!
//! `cargo run --release -p rounds-algorithms --example own_noise`

use std::error::Error;
use std::sync::Arc;

use rounds_algorithms::prelude::*;
use rounds_algorithms::privacy::Arithmetic;
use rounds_algorithms::problem::planted::PlantedLogistic;
use rounds_kernels::random::{Purpose, add_gaussian};

/// Round t adds z_t − z_{t−1}/2, row t of C⁻¹·Z for the lower bidiagonal C⁻¹ with 1 and −½. C has the entries ½^{t−s}, so that
/// its sensitivity to one row in one round is (Σ_s ¼^s)^{1/2} ≤ √(4/3).
struct HalfReturned {
    key: StreamKey,
    standard_deviation: f64,
    last: Vec<f64>,
}

impl NoiseMechanism for HalfReturned {
    /// `sum += z_t − z_{t−1}/2` in floating point. Exact noise would make both draws from their addresses.
    fn add_increment(&mut self, round: u64, sum: &mut [f64], unit: Option<f64>, _: &Engine) -> Result<(), NoiseError> {
        assert!(unit.is_none(), "this noise is idealised");
        let mut fresh = vec![0.0; sum.len()];
        add_gaussian(&self.key, Purpose(0), round, self.standard_deviation, &mut fresh);
        for ((sum, fresh), last) in sum.iter_mut().zip(&fresh).zip(&self.last) {
            *sum += fresh - 0.5 * last;
        }
        self.last = fresh;
        Ok(())
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f64s("last", &mut self.last);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (rounds, dimension) = (400, 16);
    let (noise_multiplier, clip_norm) = (4.0, 1.0);
    let dataset = PlantedLogistic::new(dimension, 3.0, 1).dataset(8_192, 1);
    let problem = Problem::new(Arc::new(dataset), Loss::Logistic, false, 0.0)?;
    let sensitivity = (4.0_f64 / 3.0).sqrt();
    let mechanism = Mechanism::Factorized { noise_multiplier, sampling: Sampling::FixedOrder, sensitivity };
    let stream = HalfReturned {
        key: StreamKey::Simulation(1),
        standard_deviation: noise_multiplier * clip_norm,
        last: vec![0.0; dimension],
    };
    // An optimiser that holds this value in `Optimizer::noise` states it.
    let described = PrivateRun {
        mechanism: &mechanism,
        moments_noise: None,
        accountant: Accountant::Gdp,
        adjacency: Adjacency::ZeroOut,
        delta: 1e-5,
        clip_norm,
        norm: Norm::L2,
        problem: &problem,
        noise_source: NoiseSource::Xoshiro,
        arithmetic: Arithmetic::Idealised,
    };
    let mut noise = PrivateNoise::own(&described, Box::new(stream));
    let mut prefix = vec![0.0; dimension];
    for round in 0..rounds {
        noise.add_increment(round, &mut prefix, None, &Engine::Sequential)?;
    }
    let squares = prefix.iter().map(|value| (value / noise_multiplier).powi(2));
    let variance = squares.sum::<f64>() / dimension as f64;
    println!("variance of the sum of {rounds} rounds, in σ²: {variance:.0}, {rounds} with fresh noise");
    println!("after the price of its sensitivity: {:.0}", variance * 4.0 / 3.0);
    match noise.statement().epsilon {
        Some(epsilon) => println!("one pass over the rows: ε = {epsilon:.2} at δ = 1e-5"),
        None => println!("{}", noise.statement().reason.clone().unwrap_or_default()),
    }
    Ok(())
}
