//! The answer of a build without MPI to `--engine mpi`.
#![cfg(not(feature = "mpi"))]

use crate::support::{rounds, stderr};

#[test]
fn the_engine_over_mpi_is_refused_with_one_message_that_holds_the_remedy() {
    for line in ["train --data synthetic-logistic --epsilon 1", "run ranks"] {
        let output = rounds(&format!("{line} --engine mpi"));
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(output.stdout.is_empty());
        assert!(message.lines().count() == 1 && message.starts_with("error: "), "{message}");
        assert!(message.contains("--features mpi") && message.contains("--engine threads"), "{message}");
    }
}
