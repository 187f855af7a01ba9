//! `--isa` and ROUNDS_ISA: a limit of the instruction set, which changes no model of byte rows.

use std::process::{Command, Output};

use rounds_kernels::instructions::InstructionSet;

/// A short run on rows of bytes.
fn train(isa: Option<&str>, variable: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rounds"));
    command.args(["train", "--json", "--data", "synthetic-mnist", "--epsilon", "1", "--set", "rounds=3"]);
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
fn a_model_of_byte_rows_is_the_same_below_every_limit_that_this_processor_has() {
    let best = hash(&train(None, None));
    assert_eq!(hash(&train(None, Some(""))), best, "an empty variable is none");
    for set in InstructionSet::ALL {
        let name = set.to_string();
        let output = train(Some(&name), None);
        if set.is_available() {
            assert_eq!(hash(&output), best, "{name}");
        } else {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(2) && error.contains(&format!("lacks {name}")), "{error}");
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
