//! A private model of a table with a schema, from the file to predictions.
//!
//! `cargo run --release -p rounds-models --example train_on_csv`

use std::error::Error;
use std::fmt::Write as _;
use std::fs;

use rounds_models::data::LabelUse;
use rounds_models::fit::{Execution, Training, fit};
use rounds_models::model_file::Model;
use rounds_models::statement;

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

/// A table of made-up customers: those of the full plan stay, and so do older ones.
fn table(rows: u64) -> String {
    let mut table = "age,plan,stays\n".to_owned();
    for row in 0..rows {
        let (age, plan) = (18 + row * 7_919 % 70, ["basic", "full"][(row * 31 % 17 % 2) as usize]);
        let stays = if age + if plan == "full" { 30 } else { 0 } > 65 { "yes" } else { "no" };
        let _ = writeln!(table, "{age},{plan},{stays}");
    }
    table
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (rows, new, file) =
        (folder.path().join("rows.csv"), folder.path().join("new.csv"), folder.path().join("model"));
    fs::write(&rows, table(20_000))?;
    fs::write(folder.path().join("schema.toml"), SCHEMA)?;

    // The schema beside the data is found by itself. `training.privacy.secure = true` makes the run a release.
    let mut training = Training::on(rows.to_string_lossy()).private(1.0, 1e-6);
    training.model = Some(file.clone());
    let fitted = fit(&training, &Execution::default(), &mut ())?;
    let privacy = &fitted.outcome.header.privacy;
    println!("claim {:?}: epsilon {:.3} per {}", privacy.claim, privacy.epsilon.unwrap_or(f64::INFINITY), privacy.unit);

    // A verifier computes the statement of a release again from the model's file, and refuses that of a simulation.
    println!("{}", statement::verify(&file, None).unwrap_err());

    // New rows have the training rows' columns; a label is not needed.
    fs::write(&new, "age,plan\n25,basic\n80,full\n")?;
    let model = Model::read(&file)?;
    let new = model.load(&new.to_string_lossy(), None, LabelUse::Ignored)?;
    println!("{:?}", model.predict(&new.dataset, false).predictions);
    Ok(())
}
