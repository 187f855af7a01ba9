//! An algorithm of one's own: normalised gradient descent, a state machine of one round per step.
//!
//! `cargo run --release -p rounds-algorithms --example own_algorithm`

use std::error::Error;
use std::sync::Arc;

use rounds_algorithms::prelude::*;
use rounds_algorithms::problem::planted::PlantedLogistic;

/// x⁺ = x − η·g/‖g‖ with the mean gradient g of a batch.
struct NormalisedDescent {
    sampler: Sampler,
    step_size: f32,
    iterate: Vec<f32>,
    sum: Vec<f64>,
}

impl Optimizer for NormalisedDescent {
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        let batch = self.sampler.draw(round, oracle.problem().rows());
        oracle.enter(Phase::Gradient);
        oracle.gradient_sum(&batch, &self.iterate, Clip::Unbounded, &mut self.sum)?;
        oracle.enter(Phase::Update);
        let squares: f64 = self.sum.iter().map(|value| value * value).sum();
        let norm = squares.sqrt().max(f64::MIN_POSITIVE);
        for (x, sum) in self.iterate.iter_mut().zip(&self.sum) {
            *x -= self.step_size * (sum / norm) as f32;
        }
        Ok(())
    }

    fn solution(&mut self) -> &[f32] {
        &self.iterate
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dataset = PlantedLogistic::new(10, 3.0, 1).dataset(8_192, 1);
    let problem = Problem::new(Arc::new(dataset), Loss::Logistic, false, 0.0)?;
    let sampler = Sampler::new(Sampling::ReshuffledEachEpoch, problem.rows(), 256, StreamKey::Simulation(1))?;
    let optimizer = NormalisedDescent {
        sampler,
        step_size: 0.1,
        iterate: vec![0.0; problem.parameters()],
        sum: vec![0.0; problem.parameters()],
    };
    let prepared = Prepared::new(optimizer, 100);
    let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
    // An observer runs after every round.
    let mut progress = |executor: &mut Executor<'_>| {
        if executor.round().is_multiple_of(25) {
            println!("round {:3}, {:6} gradient queries", executor.round(), executor.ledger().gradient_queries);
        }
        Ok::<_, RoundError>(ControlFlow::Continue(()))
    };
    executor.run_observed(&mut [&mut progress])?;
    println!("loss {:.4}", evaluate(&problem, &Engine::Sequential, executor.solution())?.loss);
    Ok(())
}
