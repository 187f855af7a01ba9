//! `rounds ledger`: makes the ledger of a data set, and shows what was spent of it.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::Table;
use rounds_algorithms::privacy::{Adjacency, FilterKind};
use rounds_models::data::{Declaration, NAMES, declare};
use rounds_models::ledger::{Account, BookedRun, Budget, Ledger, LedgerError, State};
use rounds_models::text::{percent_left, rounded_up};

use super::declaration::DeclarationArguments;
use super::{Output, UsageError, output};
use crate::format::{plural, scientific, three_digits};
use crate::usage::reported;

/// Arguments of `rounds ledger`.
#[derive(Args)]
pub struct LedgerArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Makes the ledger of a data set: a budget for all releases on it that name it by `train --ledger FILE`.
    New(Box<NewArguments>),
    /// Shows what was spent, by which runs, and what is left.
    Show {
        /// A ledger
        file: PathBuf,
    },
}

#[derive(Args)]
struct NewArguments {
    /// The ledger, a file that is not there yet
    file: PathBuf,
    /// ε of all runs together
    #[arg(long, value_name = "E")]
    epsilon: f64,
    /// δ of all runs together, well below 1/n
    #[arg(long, value_name = "D")]
    delta: f64,
    /// The data as runs will name them: a data set of `rounds list datasets`, or the path of a file or folder. Its schema is read, no row is
    #[arg(long, value_name = "NAME|PATH")]
    data: String,
    /// Number of rows, or of units, which is public and which plans follow from; under add-remove --public-rows stands for it
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Theorem by which runs are added up: gaussian (μ², the best for most), renyi (one order, for small batches with little noise) or
    /// basic (ε and δ themselves; the one for δ = 0)
    #[arg(long, default_value = "gaussian", value_name = "KIND")]
    filter: FilterKind,
    /// Neighbouring relation of all runs: zero-out, add-remove or replace-one [default: the schema's]
    #[arg(long, value_name = "RELATION")]
    adjacency: Option<Adjacency>,
    /// Folder of the named data sets
    #[arg(long, env = "ROUNDS_DATA", value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    declared: DeclarationArguments,
}

/// Makes or shows a ledger.
///
/// # Errors
/// A budget out of range, data that nothing declares, a file that is there already or cannot be read.
pub fn run(arguments: &LedgerArguments, output: Output) -> anyhow::Result<()> {
    let refused = |error: LedgerError| reported(error.is_usage(), error);
    let file = match &arguments.action {
        Action::Show { file } => file,
        Action::New(arguments) => {
            let budget = budget(arguments)?;
            if !Path::new(&arguments.data).exists() && !NAMES.iter().any(|named| named.name == arguments.data) {
                output::warn(format_args!(
                    "--data {}: nothing is called so here, and runs on data of another name are refused",
                    arguments.data
                ));
            }
            if let Some(warning) = budget.warning() {
                output::warn(warning);
            }
            Ledger::create(&arguments.file, &budget).map_err(refused)?;
            &arguments.file
        }
    };
    let account = Account::read(file).map_err(refused)?;
    let spent = account.spent().into_iter().fold(0.0, f64::max);
    let mut document = serde_json::to_value(&account)?;
    (document["spent"], document["left"]) = (spent.into(), (1.0 - spent).max(0.0).into());
    output.print(&document, table(&account, spent))
}

/// The budget that the arguments declare.
fn budget(arguments: &NewArguments) -> anyhow::Result<Budget> {
    let NewArguments { data, data_dir, rows, filter, epsilon, delta, .. } = arguments;
    let flags = Declaration { relation: arguments.adjacency, ..arguments.declared.declaration() };
    let read = [
        ("--unit", flags.columns.unit.is_some()),
        ("--unit-ids", flags.unit_ids.is_some()),
        ("--bounds private:E", flags.private_bounds().is_some()),
    ];
    if let Some((flag, _)) = read.into_iter().find(|(_, given)| *given) {
        let problem = "a ledger has the unit of the schema, and reads no row; give it to the runs";
        return Err(UsageError::of(format!("{flag}: {problem}")));
    }
    let domain = declare(data, data_dir.as_deref(), &flags).map_err(|error| reported(true, error))?;
    let Some(domain) = domain.filter(|domain| !domain.is_draft()) else {
        let problem = "no checked schema declares these data, and a ledger takes relation and unit from it";
        return Err(UsageError::of(format!(
            "--data {data}: {problem}; `rounds schema {data} -o schema.toml` drafts one"
        )));
    };
    Budget::new(data, &domain, *rows, (*filter, *epsilon, *delta)).map_err(|error| reported(true, error))
}

fn table(account: &Account, spent: f64) -> Table {
    let taken = |part: f64| format!("{} %", rounded_up(100.0 * part, 3));
    let Budget { data, rows, adjacency, unit, epsilon, delta, filter, .. } = &account.budget;
    let numbered: Vec<String> = (1..=account.runs.len()).map(|number| format!("run {number}")).collect();
    let told = |run: &BookedRun| {
        let [own_epsilon, own_delta] =
            [run.statement.epsilon, run.statement.delta].map(|number| number.unwrap_or(f64::NAN));
        let state = match run.state {
            State::Open => "open: its noise may have been seen; a checkpoint, if there is one, can be resumed",
            State::Done => "done",
            State::Void => "void: it ended before its noise was drawn, and spent nothing",
        };
        let share = taken(if run.state == State::Void { 0.0 } else { run.share.into_iter().fold(0.0, f64::max) });
        let sha256 = run.model_sha256.as_deref().and_then(|sha256| sha256.get(..16));
        let model = sha256.map(|sha256| format!(", model {sha256}…")).unwrap_or_default();
        format!("{share}, ε = {} at δ = {}, {state}{model}", three_digits(own_epsilon), scientific(own_delta))
    };
    let epsilon = if *epsilon < 1e16 { epsilon.to_string() } else { three_digits(*epsilon) };
    let head = [
        ("budget", format!("ε = {epsilon} at δ = {}, {filter} filter", scientific(*delta))),
        ("data", format!("{data}, {}", plural(*rows, if unit == "example" { "row" } else { "unit" }))),
        ("adjacency", format!("{adjacency}, of one {unit}")),
        ("spent", taken(spent)),
        ("left", format!("{} %{}", percent_left(1.0 - spent), account.room_in_words(*delta))),
    ];
    let runs = numbered.iter().map(String::as_str).zip(account.runs.iter().map(told));
    output::pairs(head.into_iter().chain(runs).chain([("last line", account.sha256.clone())]))
}
