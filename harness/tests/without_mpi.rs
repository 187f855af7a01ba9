//! What a build without MPI answers to `--engine mpi`.
#![cfg(not(feature = "mpi"))]

use std::process::Command;

#[test]
fn the_engine_over_mpi_is_refused_with_one_message_that_says_how_to_get_it() {
    let train = ["train", "--data", "synthetic-logistic", "--epsilon", "1"];
    for arguments in [&train[..], &["run", "ranks"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_rounds"))
            .args(arguments)
            .args(["--engine", "mpi"])
            .output()
            .expect("rounds starts");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty());
        assert!(
            said.lines().count() == 1 && said.starts_with("rounds: ") && said.contains("--features mpi"),
            "{said}"
        );
    }
}
