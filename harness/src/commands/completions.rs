//! `rounds completions SHELL`: the script with which a shell completes the command line.

use std::fmt::{self, Display, Formatter};

use clap_complete::Shell;
use serde::Serialize;

use super::Output;

/// Arguments of `rounds completions`.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// Shell of the script, which goes to stdout
    #[arg(value_enum)]
    shell: Shell,
}

/// A script.
#[derive(Serialize)]
struct Script {
    script: String,
}

impl Display for Script {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.script.trim_end())
    }
}

/// Prints the script for `command`.
///
/// # Errors
/// A script that JSON cannot represent.
pub fn run(arguments: &CompletionsArguments, mut command: clap::Command, output: Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "rounds", &mut script);
    let script = String::from_utf8(script)?;
    output.print(&Script { script })
}
