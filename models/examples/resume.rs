//! A run that is stopped after some rounds and goes on from its checkpoint, to the same model.
//!
//! `cargo run --release -p rounds-models --example resume`

use std::error::Error;

use rounds_models::fit::{Execution, FitError, Observer, Stage, Training, fit};

/// Stops a run after `last` rounds, as a face does at Ctrl-C. A run that is killed goes on from its last checkpoint alike.
struct Stopping {
    last: u64,
    done: u64,
}

impl Observer for Stopping {
    fn enter(&mut self, stage: Stage) {
        println!("{stage:?}");
    }

    fn after_round(&mut self, round: u64) {
        self.done = round;
    }

    fn stops(&mut self) -> bool {
        self.done == self.last
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let checkpoint = folder.path().join("checkpoint");
    let execution = Execution::default();
    let training = Training::on("synthetic-logistic").private(2.0, 1e-6);
    let whole = fit(&training, &execution, &mut ())?;

    let mut kept = training.clone();
    kept.checkpoint.file = Some(checkpoint.clone());
    match fit(&kept, &execution, &mut Stopping { last: 20, done: 0 }) {
        Err(FitError::Stopped { round, rounds, .. }) => println!("stopped after round {round} of {rounds}"),
        Err(error) => return Err(error.into()),
        Ok(_) => println!("it had fewer rounds"),
    }
    // All settings that decide the model must be the same: else the same noise would meet other gradients.
    kept.checkpoint.resume = Some(checkpoint);
    let resumed = fit(&kept, &execution, &mut ())?;
    assert_eq!(resumed.outcome.header.model_sha256, whole.outcome.header.model_sha256);
    println!("the resumed run has the model of the whole one: {}", whole.outcome.header.model_sha256);
    Ok(())
}
