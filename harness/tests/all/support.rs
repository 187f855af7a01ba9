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

/// The text on stdout.
pub(crate) fn stdout(line: &str) -> String {
    String::from_utf8(rounds(line).stdout).expect("text")
}

/// Checks that a run ends with this exit code and with `parts`, separated by bars, on stderr; what it says there.
#[track_caller]
pub(crate) fn assert_ends(line: &str, code: i32, parts: &str) -> String {
    let output = rounds(line);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{line}: {message}");
    let said = message.to_lowercase();
    for part in parts.split('|') {
        assert!(said.contains(&part.to_lowercase()), "{line}: no '{part}' in {message}");
    }
    message
}

/// Checks that a run is refused as bad usage, with `reason` in the message.
#[track_caller]
pub(crate) fn assert_refused(line: &str, reason: &str) {
    assert_ends(line, 2, reason);
}

/// Checks that a run succeeds; what it says on stderr.
#[track_caller]
pub(crate) fn assert_succeeds(line: &str) -> String {
    assert_ends(line, 0, "")
}

/// The JSON document of a run that succeeds.
pub(crate) fn document(line: &str) -> Value {
    let output = rounds(&format!("{line} --json"));
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}
