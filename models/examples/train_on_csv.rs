//! A private model of a table with a schema: a release, its statement verified, predictions and accuracy on new rows.
//!
//! `cargo run --release -p rounds-models --example train_on_csv`

use std::error::Error;
use std::fmt::Write as _;
use std::fs;

use rounds_models::prelude::*;

/// The declared domain: known without the rows. `rounds schema FILE` drafts one for a person to check.
const SCHEMA: &str = r#"
[columns.age]
kind = "number"
bounds = [0, 100]

[columns.plan]
kind = "category"
values = ["basic", "full"]

[label]
column = "stays"
classes = ["no", "yes"]
"#;

/// Made-up customers: those of the full plan stay, and so do older ones.
fn table(rows: std::ops::Range<u64>) -> String {
    let mut table = "age,plan,stays\n".to_owned();
    for row in rows {
        let (age, plan) = (18 + row * 7_919 % 70, ["basic", "full"][(row * 31 % 17 % 2) as usize]);
        let stays = if age + if plan == "full" { 30 } else { 0 } > 65 { "yes" } else { "no" };
        let _ = writeln!(table, "{age},{plan},{stays}");
    }
    table
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let [rows, new, file] = ["rows.csv", "new.csv", "model"].map(|name| folder.path().join(name));
    fs::write(&rows, table(0..20_000))?;
    fs::write(folder.path().join("schema.toml"), SCHEMA)?;

    // The schema beside the data is found by itself. Settings of other crates are words, too.
    let mut training = Training::on(rows.to_string_lossy()).private(1.0, 1e-6);
    training.optimizer.loss = Some("logistic".parse()?);
    training.model = Some(file.clone());
    // A release: noise and sampling from a key of the operating system. Without this a run is a reproducible simulation.
    training.privacy.secure = true;
    let fitted = fit(&training, &Execution::default(), &mut ())?;
    let privacy = &fitted.outcome.header.privacy;
    println!("claim {:?}: epsilon {:.3} per {}", privacy.claim, privacy.epsilon.unwrap_or(f64::INFINITY), privacy.unit);

    // The statement is computed again from the model's file.
    let verified = verify(&file, None)?;
    assert!(verified.holds, "{:?}", verified.differences);

    // Rows that the run never read have the columns of the training rows.
    fs::write(&new, table(30_000..31_000))?;
    let model = Model::read(&file)?;
    let new = model.load(&new.to_string_lossy(), None, LabelUse::Needed)?;
    println!("{:?}", &model.predict(&new.dataset, false).predictions[..5]);
    println!("{:#?}", model.evaluate(new)?);
    Ok(())
}
