//! Trains a private logistic regression on arrays and prints what it guarantees.
//!
//! `cargo run --release -p rounds-algorithms --example optimize`

use std::error::Error;
use std::sync::Arc;

use rounds_algorithms::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    // Two features in [−1, 1] and a class; the class is the sign of their sum.
    let (rows, columns) = (4_000, 2);
    let features: Vec<f32> = (0..rows * columns).map(|i| ((i * 7_919) % 2_001) as f32 / 1_000.0 - 1.0).collect();
    let classes = features.chunks(columns).map(|row| u32::from(row[0] + row[1] > 0.0)).collect();

    // The domain is declared, not read from the rows: without it no run claims privacy.
    let domain = Domain::new(
        Columns::Matrix { count: columns, bounds: Bounds::new(-1.0, 1.0)? },
        Storage::Dense,
        Label::Classes(vec!["below".into(), "above".into()]),
        DomainSource::Arguments,
    );
    let labels = Labels::numbered(classes, 2);
    let dataset = Dataset::new("arrays", Features::f32(features, columns), labels)?.in_domain(Arc::new(domain))?;
    let problem = Problem::new(Arc::new(dataset), Loss::Softmax, true, 0.0)?;

    let budget = Budget::Target { epsilon: 1.0, delta: 1e-5 };
    let settings = Settings::new(budget, StreamKey::Simulation(1)).with("batch-size", 400).with("epochs", 10);
    let prepared = catalog::find("dp-sgd")?.prepare(&problem, &settings)?;
    let privacy = &prepared.privacy;
    println!("claim: {:?}, epsilon = {:.4}", privacy.claim, privacy.epsilon.unwrap_or(f64::INFINITY));

    let mut executor = Executor::new(&problem, Engine::with_threads(2)?, prepared);
    executor.run()?;
    let evaluation = evaluate(&problem, &Engine::Sequential, executor.solution())?;
    println!(
        "{} rounds, {} gradient queries, training accuracy {:.1} %",
        executor.round(),
        executor.ledger().gradient_queries,
        100.0 * evaluation.correct as f64 / evaluation.rows as f64
    );
    Ok(())
}
