//! `--isa` and ROUNDS_ISA: a limit of the instruction set, which changes no model of byte rows or of f32 rows with bounds.

use std::fmt::Write as _;
use std::process::{Command, Output};

use rounds_kernels::instructions::InstructionSet;

use crate::support::document;

const BYTES: [&str; 2] = ["--data", "synthetic-mnist"];

/// A short run on rows of bytes.
fn train(isa: Option<&str>, variable: Option<&str>) -> Output {
    train_on(&BYTES, isa, variable)
}

/// A short run on the rows that `data` names.
fn train_on(data: &[&str], isa: Option<&str>, variable: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rounds"));
    command.args(["train", "--json", "--epsilon", "1", "--set", "rounds=3", "--batch-size", "100"]).args(data);
    command.env_remove("ROUNDS_ISA");
    command.args(isa.iter().flat_map(|isa| ["--isa", isa]));
    command.envs(variable.map(|variable| ("ROUNDS_ISA", variable)));
    command.output().unwrap()
}

fn hash(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    document["model_sha256"].as_str().unwrap().to_owned()
}

#[test]
fn a_model_of_bytes_or_bounded_floats_is_the_same_below_every_limit_that_this_processor_has() {
    assert_eq!(hash(&train(None, Some(""))), hash(&train(None, None)), "an empty variable is none");
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.csv");
    // 70 columns and a label, 500 rows: from 64 columns on rows are summed as integers.
    let rows = (0..500).fold(String::new(), |mut text, row: u32| {
        (0..70).for_each(|column| write!(text, "{:.4},", f64::from(row * 37 + column * 101).sin()).unwrap());
        writeln!(text, "{}", row % 2).unwrap();
        text
    });
    std::fs::write(&table, rows).unwrap();
    let floats = ["--data", table.to_str().unwrap(), "--dimension", "70", "--classes", "0,1", "--bounds=-1,1"];
    for data in [&BYTES[..], &floats] {
        let best = hash(&train_on(data, None, None));
        for set in InstructionSet::ALL {
            let name = set.to_string();
            let output = train_on(data, Some(&name), None);
            if set.is_available() {
                assert_eq!(hash(&output), best, "{name} {data:?}");
            } else {
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.code() == Some(2) && error.contains(&format!("lacks {name}")), "{error}");
            }
        }
    }
}

#[test]
fn an_unknown_set_is_bad_usage_by_option_and_by_variable() {
    for output in [train(Some("avx9"), None), train(None, Some("avx9"))] {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("scalar, v3, v4, vnni or amx"), "{error}");
    }
}

#[test]
fn batches_that_are_large_for_their_noise_take_integers_of_24_bits() {
    for (batch_size, noise_multiplier, bits) in [(2_516, 0.01, "16"), (2_517, 0.01, "24"), (2_517, 0.011, "16")] {
        let line = format!(
            "train --algorithm dp-sgd --data synthetic-mnist --set rounds=1 --batch-size {batch_size} \
             --noise-multiplier {noise_multiplier} --delta 1e-5 --clip-norm 1"
        );
        assert_eq!(document(&line)["plan"]["precision"], bits, "{line}");
    }
}
