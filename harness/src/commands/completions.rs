//! `rounds completions SHELL`: the script with which a shell completes the command line.

use clap_complete::Shell;
use serde_json::json;

use super::Output;

/// Arguments of `rounds completions`.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// Shell of the script, which goes to stdout
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`.
///
/// # Errors
/// A script that JSON cannot represent.
pub fn run(arguments: &CompletionsArguments, mut command: clap::Command, output: Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "rounds", &mut script);
    let script = String::from_utf8(script)?;
    output.print(&json!({"script": script}), script.trim_end())
}
