//! The `rounds` command: parses, runs one command, prints one error.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rounds::commands::UsageError;

/// Measures what an adaptive round of private convex optimisation costs, and what it buys.
#[derive(Parser)]
#[command(name = "rounds", version, about, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// One JSON document (or JSON lines) on stdout, nothing else.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let result: anyhow::Result<()> = match line.command {};
    #[expect(unreachable_code, reason = "until the first command is added")]
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rounds: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}
