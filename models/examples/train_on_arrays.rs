//! A private model of arrays in memory, and its quality on others.
//!
//! `cargo run --release -p rounds-models --example train_on_arrays`

use std::error::Error;
use std::sync::Arc;

use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::{Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Storage};
use rounds_models::data::{ModelRows, TrainTest};
use rounds_models::fit::{Execution, Training, fit};
use rounds_models::predictions::Assessment;

const COLUMNS: usize = 4;

/// Rows of numbers in [−1, 1] whose class is the sign of their sum, in the declared `domain`.
fn rows(count: usize, seed: usize, domain: &Arc<Domain>) -> Result<Dataset, Box<dyn Error>> {
    let number = |place: usize| ((place * 7_919 + place * place * 31 + seed) % 2_001) as f32 / 1_000.0 - 1.0;
    let features: Vec<f32> = (0..count * COLUMNS).map(number).collect();
    let classes = features.chunks(COLUMNS).map(|row| u32::from(row.iter().sum::<f32>() > 0.0)).collect();
    let rows = Dataset::new("arrays", Features::f32(features, COLUMNS), Labels::numbered(classes, 2))?;
    Ok(rows.in_domain(domain.clone())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Declared, not read from the rows: without a domain no run claims privacy.
    let domain = Arc::new(Domain::new(
        Columns::Matrix { count: COLUMNS, bounds: Bounds::new(-1.0, 1.0)? },
        Storage::Dense,
        Label::Classes(vec!["below".into(), "above".into()]),
        DomainSource::Arguments,
    ));
    let train = rows(10_000, 0, &domain)?;
    let mut training = Training::on_rows(TrainTest { train, test: None }).private(1.0, 1e-6);
    training.optimizer.epochs = Some(10.0);
    // One seed gives one model, on any number of threads.
    let fitted = fit(&training, &Execution::on(Engine::with_threads(2)?), &mut ())?;
    println!("{} rounds, model {}", fitted.outcome.header.rounds, fitted.outcome.header.model_sha256);

    let found = fitted.model.evaluate(ModelRows { dataset: rows(1_000, 5, &domain)?, are_test_rows: true })?;
    if let Assessment::Classification(quality) = found.quality {
        println!("accuracy {:.3}, AUC {:.3}", quality.accuracy, quality.auc.unwrap_or(f64::NAN));
    }
    Ok(())
}
