//! A packed release, unpacked in the folder that ROUNDS_DIST names (`make dist` sets it); without it these tests do nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the unpacked release, or a word on why nothing is tested.
fn release() -> Option<PathBuf> {
    let folder = std::env::var_os("ROUNDS_DIST").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: ROUNDS_DIST is not set (`make dist` sets it)");
    }
    folder
}

/// Runs the front on a small private model of byte rows, or of f32 rows without a domain.
fn train(folder: &Path, data: &str, isa: Option<&str>) -> Output {
    let mut command = Command::new(folder.join("rounds"));
    command.args(["train", "--json", "--data", data, "--epsilon", "1", "--set", "rounds=5", "--batch-size", "500"]);
    command.env_remove("ROUNDS_ISA").env_remove("ROUNDS_DATA");
    if let Some(isa) = isa {
        command.args(["--isa", isa]);
    }
    command.output().expect("the front starts")
}

/// The SHA-256 of the model that a run printed; `None` where the processor lacks the set.
fn hash(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("lacks") && output.status.code() == Some(2), "{error}");
        return None;
    }
    let (_, rest) = text.split_once("\"model_sha256\":").expect("a model");
    Some(rest.split('"').nth(1).expect("a text").to_owned())
}

#[test]
fn a_model_of_byte_rows_has_one_hash_on_every_instruction_set_of_both_builds() {
    let Some(folder) = release() else { return };
    let best = hash(&train(&folder, "synthetic-mnist", None)).expect("a model");
    for isa in ["scalar", "v3", "v4", "vnni", "amx"] {
        match hash(&train(&folder, "synthetic-mnist", Some(isa))) {
            Some(found) => assert_eq!(found, best, "{isa}"),
            None => eprintln!("skipped: this processor lacks {isa}"),
        }
    }
}

#[test]
fn a_missing_build_and_an_unknown_set_have_one_message_each() {
    let Some(folder) = release() else { return };
    let unknown = train(&folder, "synthetic-mnist", Some("avx9"));
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.status.code() == Some(2) && error.contains("scalar, v3, v4, vnni or amx"), "{error}");

    let copy = std::env::temp_dir().join(format!("rounds-front-{}", std::process::id()));
    std::fs::create_dir_all(copy.join("libexec")).unwrap();
    std::fs::copy(folder.join("rounds"), copy.join("rounds")).unwrap();
    let empty = train(&copy, "synthetic-mnist", None);
    let error = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert!(empty.status.code() == Some(1) && error.contains("is missing beside this program"), "{error}");
    std::fs::copy(folder.join("libexec/rounds-v3"), copy.join("libexec/rounds-v3")).unwrap();
    let other = train(&copy, "synthetic-mnist", None);
    assert!(other.status.success(), "{}", String::from_utf8_lossy(&other.stderr));
    std::fs::remove_dir_all(copy).unwrap();
}
