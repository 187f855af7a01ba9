//! The program as a child process.

use std::process::{Command, Output};

use serde_json::Value;

/// The program with the words of `line` as its arguments, without a folder of data sets.
pub(crate) fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rounds"));
    command.args(line.split_whitespace()).env_remove("ROUNDS_DATA");
    command
}

/// One run of the program.
pub(crate) fn rounds(line: &str) -> Output {
    command(line).output().expect("the program starts")
}

/// The text on stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The exit code of a run, and its text on stderr.
pub(crate) fn exit(line: &str) -> (Option<i32>, String) {
    let output = rounds(line);
    (output.status.code(), stderr(&output))
}

/// Checks that a run is refused as bad usage, with `reason` in the message.
pub(crate) fn assert_refused(line: &str, reason: &str) {
    let (code, message) = exit(line);
    assert_eq!(code, Some(2), "{line}: {message}");
    assert!(
        message.to_lowercase().contains(&reason.to_lowercase()),
        "{line}: no '{reason}' in {message}"
    );
}

/// The JSON document of a run that succeeds.
pub(crate) fn document(line: &str) -> Value {
    let output = rounds(&format!("{line} --json"));
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}
