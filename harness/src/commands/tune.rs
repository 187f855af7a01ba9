//! `rounds tune`: the best of a random number of private runs, at one price for all of them.

use std::path::PathBuf;

use rounds_algorithms::privacy::TrialLaw;
use rounds_models::fit::{FitError, Grid, PublicRows, Tuning, tune};

use super::Output;
use super::terminal::Terminal;
use super::train::{self, TrainArguments};
use super::values::key_value;
use crate::cluster::Cluster;
use crate::format::three_digits;
use crate::usage::{flags, reported};

/// Arguments of `rounds tune`: a grid, and the run whose settings are drawn from it. `--epsilon` and `--delta` are those of all trials
/// together.
#[derive(clap::Args)]
#[command(
    mut_arg("epsilon", |own| own.help("ε of all trials together")),
    mut_arg("delta", |own| own.help("δ of all trials together")),
    mut_arg("noise_multiplier", |own| own.hide(true))
)]
pub struct TuneArguments {
    /// Values of a parameter that trials draw from (`learning-rate=0.5,1,2`); may be repeated
    #[arg(long, value_name = "KEY=V1,V2,…", value_parser = key_value, required = true)]
    grid: Vec<(String, String)>,
    /// Expected number of trials: their true number is random, and secret
    #[arg(long, default_value_t = 10.0, value_name = "K", value_parser = super::values::finite)]
    trials: f64,
    #[arg(long, default_value = "geometric", value_name = "LAW", help = format!("Law of the number of trials: {}", TrialLaw::NAMES))]
    law: TrialLaw,
    /// File of public rows to score on [default: the training rows, with noise that is paid for]
    #[arg(long, value_name = "FILE")]
    score_on: Option<PathBuf>,
    #[command(flatten)]
    train: TrainArguments,
}

/// Trains the best of a random number of models, and prints what may be told of it.
///
/// # Errors
/// Anything that the arguments, the data or the algorithm refuse, with the remedy; a selection without a winner.
pub fn run(arguments: &TuneArguments, output: Output) -> anyhow::Result<()> {
    let cluster = Cluster::start(arguments.train.engine())?;
    cluster.finish(tuned(arguments, output, &cluster))
}

fn tuned(arguments: &TuneArguments, output: Output, cluster: &Cluster) -> anyhow::Result<()> {
    let (training, execution) = train::begin(&arguments.train, cluster)?;
    let lists = arguments.grid.iter().map(|(name, values)| (name, values.split(',').collect::<Vec<_>>()));
    let tuning = Tuning {
        grid: Grid::new(lists).map_err(|error| reported(true, error))?,
        trials: arguments.trials,
        law: arguments.law,
        score_on: arguments
            .score_on
            .as_deref()
            .map(PublicRows::read)
            .transpose()
            .map_err(|error| reported(true, error))?,
        training,
    };
    let mut terminal = Terminal::new(output, cluster, &tuning.training);
    let mut tuned = tune(&tuning, &execution, &mut terminal).map_err(|error| match error {
        FitError::Interrupted { checkpoint: Some(path) } => train::stopped(&path, ""),
        error => reported(error.is_usage(), error),
    })?;
    tuned.outcome.warnings.iter_mut().for_each(|warning| *warning = flags(warning));
    let mut table = train::table(&tuned.outcome);
    for trial in tuned.trials.iter().flatten() {
        let settings: Vec<_> = trial.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let score = trial.score.map_or_else(|| "diverged".to_owned(), |score| format!("score {}", three_digits(score)));
        table.add_row(["trial".to_owned(), format!("{}: {score}", settings.join(", "))]);
    }
    output.print(&tuned, table)
}
