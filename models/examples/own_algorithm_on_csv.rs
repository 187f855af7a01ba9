//! An algorithm of one's own on a CSV file: sign descent, beside SGD and DP-SGD of the catalogue.
//!
//! `cargo run --release -p rounds-models --example own_algorithm_on_csv -- FILE` reads any file of classes that `rounds train --data` reads; a file
//! called the same with `.t` holds test rows.

use std::error::Error;
use std::sync::Arc;

use rounds_algorithms::catalog;
use rounds_algorithms::prelude::*;

/// x⁺ = x − η_t·sign(g), η_t = 0.1/√(t + 1), with the gradient g of a batch.
struct SignDescent {
    sampler: Sampler,
    iterate: Vec<f32>,
    sum: Vec<f64>,
}

impl Optimizer for SignDescent {
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        let batch = self.sampler.draw(round, oracle.problem().rows());
        oracle.gradient_sum(&batch, &self.iterate, Clip::Unbounded, &mut self.sum)?;
        let step_size = 0.1 / ((round + 1) as f32).sqrt();
        for (x, sum) in self.iterate.iter_mut().zip(&self.sum) {
            *x -= step_size * sum.signum() as f32;
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
    let file = std::env::args().nth(1).ok_or("give the path of a CSV file")?;
    // The domain is drafted from the rows, which scales its columns: nothing is claimed.
    let drafted = rounds_models::data::drafted(&file, &Default::default())?;
    let data = rounds_models::data::load_declared(&file, None, drafted.as_ref().map(|(domain, _)| domain))?;
    let with_bias = |rows| Problem::new(Arc::new(rows), Loss::Softmax, true, 0.0);
    let test = data.test.map(with_bias).transpose()?;
    let problem = with_bias(data.train)?;
    let key = StreamKey::Simulation(1);
    let batch = 256.min(problem.rows());
    let sign = SignDescent {
        sampler: Sampler::new(Sampling::ReshuffledEachEpoch, problem.rows(), batch, key.clone())?,
        iterate: vec![0.0; problem.parameters()],
        sum: vec![0.0; problem.parameters()],
    };
    let own = Prepared::new(sign, 500);
    let sgd = catalog::find("sgd")?.prepare(&problem, &Settings::new(Budget::NonPrivate, key.clone()))?;
    let (epsilon, delta) = (3.0, 1e-5);
    let dp_sgd = catalog::find("dp-sgd")?.prepare(&problem, &Settings::new(Budget::Target { epsilon, delta }, key))?;
    for (name, prepared) in [("sign descent", own), ("sgd", sgd), ("dp-sgd", dp_sgd)] {
        let claim = prepared.privacy.claim;
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        executor.run()?;
        let on = test.as_ref().unwrap_or(&problem);
        let found = evaluate(on, &Engine::Sequential, executor.solution())?;
        let share = 100.0 * found.correct as f64 / found.rows as f64;
        let (rounds, rows) = (executor.round(), found.rows);
        println!("{name}: {rounds} rounds, {share:.2} % right of {rows} rows, claim {claim:?}");
    }
    Ok(())
}
