//! The `rounds` command: parses, runs one command, prints one error.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rounds::commands::UsageError;
use rounds::commands::compare::CompareArguments;
use rounds::commands::machine::MachineArguments;
use rounds::commands::report::ReportArguments;

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
enum Command {
    Compare(CompareArguments),
    Machine(MachineArguments),
    Report(ReportArguments),
}

fn main() -> ExitCode {
    // First of all: what follows may use instructions that this processor lacks.
    if let Err(error) = rounds::machine::check_processor() {
        eprintln!("rounds: {error}");
        return ExitCode::FAILURE;
    }
    let line = CommandLine::parse();
    let result = match &line.command {
        Command::Compare(arguments) => rounds::commands::compare::run(arguments, line.json),
        Command::Machine(arguments) => rounds::commands::machine::run(arguments, line.json),
        Command::Report(arguments) => rounds::commands::report::run(arguments, line.json),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rounds: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}
