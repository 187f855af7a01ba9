//! The `rounds` command: parses, runs one command, prints one error.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use rounds::cluster::exit_code;
use rounds::commands::{
    Output, account, audit, compare, completions, evaluate, factorize, features, keygen, ledger, list, machine, manual,
    output, predict, report, run, schema, simulate, train, tune, verdicts, with_causes,
};
use rounds::launcher;
use rounds::machine::check_processor;
use rounds::usage::is_usage;
use rounds_kernels::instructions::{self, InstructionSet, LimitError, UnknownInstructionSet};

/// Trains and measures private convex optimisers: what an adaptive round costs, and what it buys.
#[derive(Parser)]
#[command(name = "rounds", version, about, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON document (or JSON lines) on stdout
    #[arg(long, global = true)]
    json: bool,
    /// Greatest instruction set of the kernels: scalar, v3 (AVX2), v4 (AVX-512), vnni or amx [default: the best here]
    #[arg(long, global = true, env = "ROUNDS_ISA", value_name = "SET", value_parser = ceiling)]
    isa: Option<Ceiling>,
}

/// The greatest set that may be used; none of an empty variable.
type Ceiling = Option<InstructionSet>;

fn ceiling(text: &str) -> Result<Ceiling, UnknownInstructionSet> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

/// Limits the kernels to `set`. The float kernels are those that the build was compiled with, which a warning says.
fn limit(set: InstructionSet) -> Result<(), LimitError> {
    instructions::limit(set)?;
    if cfg!(target_feature = "avx512f") && set <= InstructionSet::Avx2 {
        output::warn(format_args!(
            "--isa {set}: kernels in floating point stay those of this build, for AVX-512; a package of `make dist` also holds a \
             build for v3"
        ));
    }
    Ok(())
}

#[derive(Subcommand)]
enum Command {
    /// Measures suites: the cost of a round, and its effect.
    Run(run::RunArguments),
    /// Trains one private model and states its guarantee.
    Train(Box<train::TrainArguments>),
    /// Trains the best of a random number of models, whose settings are drawn from a grid, at one price for all of them.
    Tune(Box<tune::TuneArguments>),
    /// Predicts the label of every row with a model that `train --model` wrote.
    Predict(predict::PredictArguments),
    /// Evaluates a model on labelled rows.
    Evaluate(evaluate::EvaluateArguments),
    /// Accounts for privacy: ε from noise, or the smallest noise for ε.
    Account(account::AccountArguments),
    /// Makes a pair of keys that signs and verifies privacy statements.
    Keygen(keygen::KeygenArguments),
    /// Keeps the budget of a data set that several releases share.
    Ledger(ledger::LedgerArguments),
    /// Drafts the schema of a data file, for a person to check.
    Schema(schema::SchemaArguments),
    /// Writes features of a data set as arrays: scattering coefficients of images, random Fourier features.
    Features(features::FeaturesArguments),
    /// Prints the error of a factorisation of a workload.
    Factorize(factorize::FactorizeArguments),
    /// Bounds an algorithm's privacy loss from below by experiment, beside its claim.
    Audit(audit::AuditArguments),
    /// Prints the properties and the measured limits of this machine.
    Machine(machine::MachineArguments),
    /// Writes the report of a run: one HTML page with figures and tables.
    Report(report::ReportArguments),
    /// Predicts times that were not measured: of a method to its target on P workers with a latency, or of a run's rounds on more threads.
    Simulate(simulate::SimulateArguments),
    /// Judges published numbers and claims by the committed runs.
    Verdicts(verdicts::VerdictsArguments),
    /// Compares the times of two runs.
    Compare(compare::CompareArguments),
    /// Lists algorithms, suites or data sets.
    List(list::ListArguments),
    /// Prints a script that completes command lines in a shell.
    Completions(completions::CompletionsArguments),
    /// Writes manual pages.
    Manual(manual::ManualArguments),
}

/// The arguments, with a negative number joined to the option before it (`--epsilon -1`): clap would take it for options of one
/// letter.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut are_options = true;
    for argument in std::env::args_os() {
        are_options &= argument != "--";
        let is_negative = |text: &str| text.starts_with('-') && text.trim_end_matches('%').parse::<f64>().is_ok();
        let is_open = |option: &&mut OsString| {
            let option = option.to_string_lossy();
            option.starts_with("--") && !option.contains('=')
        };
        match arguments.last_mut().filter(is_open) {
            Some(option) if are_options && argument.to_str().is_some_and(is_negative) => {
                option.push("=");
                option.push(argument);
            }
            _ => arguments.push(argument),
        }
    }
    arguments
}

fn main() -> ExitCode {
    output::end_on_failed_prints();
    if let Err(error) = check_processor() {
        output::fail(error);
        return ExitCode::FAILURE;
    }
    let line = match CommandLine::try_parse_from(arguments()) {
        Ok(line) => line,
        Err(error) => return launcher::exit_unparsed(&error),
    };
    if let Some((set, error)) = line.isa.flatten().and_then(|set| Some((set, limit(set).err()?))) {
        output::fail(format_args!("--isa {set}: {error}"));
        return ExitCode::from(2);
    }
    let output = if line.json { Output::Json } else { Output::Text };
    let result = match &line.command {
        Command::Run(arguments) => run::run(arguments, output),
        Command::Train(arguments) => train::run(arguments, output),
        Command::Tune(arguments) => tune::run(arguments, output),
        Command::Predict(arguments) => predict::run(arguments, output),
        Command::Evaluate(arguments) => evaluate::run(arguments, output),
        Command::Account(arguments) => account::run(arguments, output),
        Command::Keygen(arguments) => keygen::run(arguments, output),
        Command::Ledger(arguments) => ledger::run(arguments, output),
        Command::Schema(arguments) => schema::run(arguments, output),
        Command::Features(arguments) => features::run(arguments, output),
        Command::Factorize(arguments) => factorize::run(arguments, output),
        Command::Audit(arguments) => audit::run(arguments, output),
        Command::Machine(arguments) => machine::run(arguments, output),
        Command::Report(arguments) => report::run(arguments, output),
        Command::Simulate(arguments) => simulate::run(arguments, output),
        Command::Verdicts(arguments) => verdicts::run(arguments, output),
        Command::Compare(arguments) => compare::run(arguments, output),
        Command::List(arguments) => list::run(arguments, output),
        Command::Completions(arguments) => completions::run(arguments, CommandLine::command(), output),
        Command::Manual(arguments) => manual::run(arguments, CommandLine::command(), output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Rank 0 has printed it.
            if let Some(shared) = error.downcast_ref() {
                return ExitCode::from(exit_code(shared));
            }
            output::fail(with_causes(&error));
            ExitCode::from(if is_usage(&error) { 2 } else { 1 })
        }
    }
}
