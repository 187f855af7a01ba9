//! `rounds account`: the ε of a mechanism, or the smallest noise for an ε, by any accountant.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgGroup, Args, Subcommand};
use comfy_table::Table;
use rounds_algorithms::privacy::pld::PrivacyLoss;
use rounds_algorithms::privacy::rdp::RenyiCurve;
use rounds_algorithms::privacy::{
    Accountant, Adjacency, Composed, Mechanism, PrivacyError, PrivacyWarning, Sampling, calibrate, gdp, laplace, zcdp,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::statement::privacy_rows;
use super::{Output, UsageError, output};
use crate::experiment::text;
use crate::format::{plural, scientific};
use crate::usage::{flags, reported};
use rounds_models::signature::PublicKey;
use rounds_models::statement::{ComposedRun, Verified, Verifier};

/// Arguments of `rounds account`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AccountArguments {
    /// Verify the privacy statement of a release, a model of `rounds train --model` or a document of `rounds train --json`: all of
    /// it is computed again from its parameters and domain
    #[arg(long, value_name = "FILE")]
    statement: Option<PathBuf>,
    /// Verify the statements of several releases from the same rows, and compute the ε of all of them together: of runs whose settings were
    /// fixed beforehand. Runs that were chosen by earlier results are added up by a ledger (`rounds ledger`)
    #[arg(long, value_name = "FILES", num_args = 2.., conflicts_with = "statement")]
    compose: Vec<PathBuf>,
    /// δ of the composition [default: the sum of the runs']
    #[arg(long, value_name = "D", requires = "compose", conflicts_with = "statement", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Ask for the signature of this public key, a file of `rounds keygen`
    #[arg(long, value_name = "PUBLIC")]
    verify: Option<PathBuf>,
    /// The file of the factorisation that the run's noise was drawn through, if it was given one
    #[arg(long, value_name = "FILE")]
    factorization: Option<PathBuf>,
    #[command(subcommand)]
    mechanism: Option<MechanismArguments>,
}

#[derive(Debug, Clone, Subcommand)]
enum MechanismArguments {
    /// Gaussian noise on a sum of clipped terms; a given example is read in every step.
    #[command(
        override_usage = "rounds account gaussian [OPTIONS] --delta <D>\n       <--noise-multiplier <S>|--epsilon <E>>"
    )]
    Gaussian(GaussianArguments),
    /// Gaussian noise on randomly drawn batches: Poisson, cyclic or truncated, by random allocation, or without replacement; with noise of as
    /// many bands as there are groups, too, whose columns have norm 1.
    #[command(
        override_usage = "rounds account subsampled-gaussian [OPTIONS] --delta <D>\n       <--noise-multiplier <S>|--epsilon <E>>\n       <--sampling-rate <Q>|--m <M>|--slots <T>>"
    )]
    SubsampledGaussian(SubsampledArguments),
    /// The last of the iterates of contracting steps on the same batches in every pass, all others unseen; no gradient is clipped.
    #[command(
        override_usage = "rounds account last-iterate [OPTIONS] --delta <D> --contraction <C>\n       <--noise-multiplier <S>|--epsilon <E>>"
    )]
    LastIterate(LastIterateArguments),
    /// Laplace noise on every coordinate of a mean, with or without subsampling.
    #[command(
        override_usage = "rounds account laplace [OPTIONS] --l1-sensitivity <S>\n       <--scale <B>|--epsilon <E>>"
    )]
    Laplace(LaplaceArguments),
    /// Binary-tree aggregation, each example in one leaf of every tree.
    #[command(
        override_usage = "rounds account tree [OPTIONS] --delta <D>\n       <--noise-multiplier <S>|--epsilon <E>>"
    )]
    Tree(TreeArguments),
    /// Conversion between ρ-zCDP and (ε, δ).
    #[command(
        override_usage = "rounds account zcdp [OPTIONS] --delta <D>\n       <--rho <R>|--epsilon <E>|--noise-multiplier <S>>"
    )]
    Zcdp(ZcdpArguments),
}

/// Exactly one of these arguments is given.
fn one_of<const N: usize>(arguments: [&'static str; N]) -> ArgGroup {
    ArgGroup::new("one-of").args(arguments).required(true)
}

/// Either the noise or the ε, and the accounting.
#[derive(Debug, Clone, Args)]
#[group(skip)]
#[command(group = one_of(["noise_multiplier", "epsilon"]))]
struct Question {
    /// Noise standard deviation over clip norm: gives ε at δ.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    noise_multiplier: Option<f64>,
    /// Target ε: gives the smallest noise, rounded up
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// δ, well below 1/n.
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
    #[command(flatten)]
    method: Method,
}

#[derive(Debug, Clone, Args)]
#[group(skip)]
struct Method {
    /// Accountant: gdp, zcdp, zcdp-simple, rdp, pld, last-iterate or pure [default: the tightest that covers the mechanism]
    #[arg(long)]
    accountant: Option<Accountant>,
    /// Neighbouring relation: zero-out, add-remove or replace-one, under which a sum of clipped terms moves by two clip norms [default:
    /// replace-one for laplace and --m, zero-out for tree, last-iterate, --groups and --max-batch, else add-remove]
    #[arg(long)]
    adjacency: Option<Adjacency>,
    /// Number of examples: warns if δ ≥ 1/n.
    #[arg(long = "n", value_name = "N")]
    examples: Option<usize>,
}

#[derive(Debug, Clone, Args)]
struct GaussianArguments {
    #[command(flatten)]
    question: Question,
    /// Steps that read a given example
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
}

#[derive(Debug, Clone, Args)]
#[command(group = one_of(["sampling_rate", "m", "slots"]).id("sampling"))]
struct SubsampledArguments {
    #[command(flatten)]
    question: Question,
    /// Probability with which a Poisson batch holds a given example: batch size / n.
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_rate: Option<f64>,
    /// Batches of exactly m of --n examples without replacement, instead of Poisson ones (replace-one adjacency).
    #[arg(long, value_name = "M", requires = "examples")]
    m: Option<usize>,
    /// Random allocation: every example is in one of so many rounds of its group in an epoch, thrown independently of all others.
    #[arg(long, value_name = "T")]
    slots: Option<usize>,
    /// Groups that take turns, a round reading one: the rate, or the rounds of an epoch, is that of the group.
    #[arg(long, value_name = "B", default_value_t = 1, conflicts_with = "m")]
    groups: usize,
    /// Poisson batches of --n examples, cut to so many at most.
    #[arg(long, value_name = "M", requires = "examples", conflicts_with_all = ["m", "slots", "groups"])]
    max_batch: Option<usize>,
    /// Steps in all.
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
    /// Spacing of the pld accountant's grid of losses [default: for a relative accuracy of 1e-5]
    #[arg(long, value_name = "L", allow_negative_numbers = true, conflicts_with = "epsilon")]
    discretization: Option<f64>,
}

#[derive(Debug, Clone, Args)]
struct LastIterateArguments {
    #[command(flatten)]
    question: Question,
    /// c = max(|1 − ηλ|, |1 − ηL|), by which a step of size η ≤ 2/L contracts.
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    contraction: f64,
    /// Batches of a pass
    #[arg(long, value_name = "L", default_value_t = 1)]
    batches: usize,
    /// Steps in all.
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
}

#[derive(Debug, Clone, Args)]
#[command(group = one_of(["scale", "epsilon"]))]
struct LaplaceArguments {
    /// Laplace scale b (variance 2b²) of the noise on the mean: gives ε.
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    scale: Option<f64>,
    /// Target ε of all steps together: gives the smallest scale, rounded up.
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// L1 norm of the largest change of one example's term, of the difference of two terms under replace-one.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    l1_sensitivity: f64,
    /// Examples of a step; fewer than --n are drawn without replacement [default: all]
    #[arg(long, value_name = "M")]
    m: Option<usize>,
    /// Steps in all.
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
    /// δ; 0 is pure differential privacy
    #[arg(long, value_name = "D", default_value_t = 0.0, allow_negative_numbers = true)]
    delta: f64,
    #[command(flatten)]
    method: Method,
}

#[derive(Debug, Clone, Args)]
struct TreeArguments {
    #[command(flatten)]
    question: Question,
    /// Steps of one tree: its leaves.
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
    /// Trees, one after the other (one an epoch), every example in all of them.
    #[arg(long, value_name = "K", default_value_t = 1)]
    restarts: usize,
}

#[derive(Debug, Clone, Args)]
#[command(group = one_of(["rho", "epsilon", "noise_multiplier"]))]
struct ZcdpArguments {
    /// ρ: gives ε at δ.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    rho: Option<f64>,
    /// Target ε: gives the largest ρ.
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// Noise standard deviation over clip norm of one Gaussian mechanism: gives ε at δ.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    noise_multiplier: Option<f64>,
    /// δ, well below 1/n.
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    delta: f64,
    /// Neighbouring relation that ρ is stated for: zero-out, add-remove or replace-one.
    #[arg(long, default_value = "add-remove")]
    adjacency: Adjacency,
    /// Number of examples: warns if δ ≥ 1/n.
    #[arg(long = "n", value_name = "N")]
    examples: Option<usize>,
}

/// Answers one question.
///
/// # Errors
/// [`UsageError`] for parameters out of range and for what no theorem covers.
pub fn run(arguments: &AccountArguments, output: Output) -> Result<()> {
    match (&arguments.mechanism, &arguments.statement) {
        (Some(mechanism), _) => {
            let answer = answer(mechanism).map_err(UsageError::of)?;
            answer.warnings.iter().for_each(output::warn);
            output.print(&answer, answer.table())
        }
        (None, None) if arguments.compose.is_empty() => {
            let known = MechanismArguments::augment_subcommands(clap::Command::new("account"));
            let names: Vec<&str> = known.get_subcommands().map(clap::Command::get_name).collect();
            Err(UsageError::of(format!(
                "name a mechanism ({}), or verify releases by --statement FILE or --compose FILE FILE …; `rounds account --help` \
                 shows all",
                names.join(", ")
            )))
        }
        (None, statement) => {
            let signer = arguments.verify.as_deref().map(PublicKey::read).transpose();
            let mut verifier = Verifier::default();
            verifier.signer = signer.map_err(|error| reported(true, error))?;
            verifier.factorization.clone_from(&arguments.factorization);
            let Some(path) = statement else {
                let all = verifier.compose(&arguments.compose, arguments.delta);
                let (composed, runs) = all.map_err(|error| reported(true, error))?;
                let fewest = runs.iter().filter_map(|run| run.n).min();
                let warning = fewest.and_then(|fewest| PrivacyWarning::for_delta(composed.delta, fewest));
                warning.iter().for_each(output::warn);
                return output.print(&Composition { composed: &composed, runs: &runs }, together(&composed, &runs));
            };
            let found = verifier.verify(path).map_err(|error| reported(true, error))?;
            output.print(&found, verified(&found))?;
            anyhow::ensure!(
                found.holds,
                "{}: the statement does not hold, in {}:\n  {}",
                path.display(),
                plural(found.differences.len(), "field"),
                flags(
                    &found.differences.iter().map(|one| one.replace('\n', "\u{fffd}")).collect::<Vec<_>>().join("\n  ")
                )
            );
            Ok(())
        }
    }
}

/// Several runs as a document.
#[derive(Serialize)]
struct Composition<'a> {
    #[serde(flatten)]
    composed: &'a Composed,
    runs: &'a [ComposedRun],
}

/// The runs of a composition and their guarantee together.
fn together(composed: &Composed, runs: &[ComposedRun]) -> Table {
    let accountant = composed.accountant.map_or_else(|| "basic composition".to_owned(), |one| one.to_string());
    let claim = |epsilon: f64, delta: f64| format!("ε = {} at δ = {}", rounded_up(epsilon), scientific(delta));
    let files: Vec<String> = runs.iter().map(|run| run.file.display().to_string()).collect();
    let own = |run: &ComposedRun| {
        let [epsilon, delta] = [run.statement.epsilon, run.statement.delta].map(|number| number.unwrap_or(f64::NAN));
        claim(epsilon, delta)
    };
    let public = "the number of runs, their noise, sampling and rounds, which must not follow from what was released";
    let all = [
        ("together", claim(composed.epsilon, composed.delta)),
        ("plain sums", claim(composed.basic.0, composed.basic.1)),
        ("adjacency", format!("{}, of one {}", composed.adjacency, composed.unit)),
        ("accountant", accountant),
        ("public", public.to_owned()),
    ];
    output::pairs(files.iter().map(String::as_str).zip(runs.iter().map(own)).chain(all))
}

/// The statement that follows, and what shows it.
fn verified(found: &Verified) -> Table {
    let mut table = output::pairs(privacy_rows(&found.statement));
    let weights = if found.weights { "those of the statement" } else { "not in this file" };
    let signer = found.signer.as_deref().map_or_else(|| "nobody".to_owned(), output::in_halves);
    table.add_rows([["weights", weights], ["signed by", &signer], ["not shown", &found.unshown]]);
    table
}

/// The answer to a question: the keys of every mechanism, and those of this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Answer {
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    accountant: Accountant,
    adjacency: Adjacency,
    unit: &'static str,
    statement: String,
    #[serde(flatten)]
    details: Map<String, Value>,
    warnings: Vec<String>,
}

impl Answer {
    /// An answer in the keys of every mechanism; `examples` is the number that δ is compared with.
    fn new(accountant: Accountant, adjacency: Adjacency, delta: f64, examples: Option<usize>) -> Self {
        let warning = examples.and_then(|examples| PrivacyWarning::for_delta(delta, examples));
        Self {
            epsilon: f64::NAN,
            delta,
            noise_multiplier: f64::NAN,
            accountant,
            adjacency,
            unit: "example",
            statement: String::new(),
            details: Map::new(),
            warnings: warning.iter().map(ToString::to_string).collect(),
        }
    }

    fn with<'a>(mut self, details: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        self.details.extend(details.into_iter().map(|(key, value)| (key.to_owned(), value)));
        self
    }

    fn table(&self) -> Table {
        let mut table = output::pairs([
            ("ε", rounded_up(self.epsilon)),
            ("δ", scientific(self.delta)),
            ("noise multiplier", rounded_up(self.noise_multiplier)),
            ("mechanism", self.statement.clone()),
            ("adjacency", self.adjacency.to_string()),
            ("accountant", self.accountant.to_string()),
        ]);
        for (key, value) in self.details.iter().filter(|(key, _)| *key != "mechanism") {
            let shown = match value.as_f64().filter(|_| value.is_f64()) {
                // A lower bound is rounded down.
                Some(number) if key == "epsilon_lower" => rounded_up(-number).replacen('-', "", 1),
                Some(number) => rounded_up(number),
                None => text(value),
            };
            table.add_row([key.replace('_', " "), shown]);
        }
        table
    }
}

fn answer(mechanism: &MechanismArguments) -> Result<Answer, PrivacyError> {
    match mechanism {
        MechanismArguments::Gaussian(arguments) => {
            let mechanism = |noise_multiplier| Mechanism::Gaussian {
                noise_multiplier,
                sampling: Sampling::FullBatch,
                participations: arguments.steps,
            };
            let answer = arguments.question.solve(Adjacency::AddRemove, None, &mechanism)?;
            Ok(answer.with([("steps", json!(arguments.steps))]))
        }
        MechanismArguments::SubsampledGaussian(arguments) => subsampled_answer(arguments),
        MechanismArguments::LastIterate(arguments) => {
            let mechanism = |noise_multiplier| Mechanism::LastIterate {
                noise_multiplier,
                sampling: Sampling::FixedOrder,
                contraction: arguments.contraction,
                batches: arguments.batches,
                rounds: arguments.steps,
            };
            let answer = arguments.question.solve(Adjacency::ZeroOut, None, &mechanism)?;
            let LastIterateArguments { contraction, batches, steps, .. } = arguments;
            Ok(answer.with([("contraction", json!(contraction)), ("batches", json!(batches)), ("steps", json!(steps))]))
        }
        MechanismArguments::Laplace(arguments) => laplace_answer(arguments),
        MechanismArguments::Tree(arguments) => {
            let mechanism = |noise_multiplier| Mechanism::Tree {
                noise_multiplier,
                sampling: Sampling::ShuffledOnce,
                rounds: arguments.steps,
                trees: arguments.restarts,
            };
            let answer = arguments.question.solve(Adjacency::ZeroOut, None, &mechanism)?;
            Ok(answer.with([("steps", json!(arguments.steps)), ("trees", json!(arguments.restarts))]))
        }
        MechanismArguments::Zcdp(arguments) => zcdp_answer(arguments),
    }
}

fn subsampled_answer(arguments: &SubsampledArguments) -> Result<Answer, PrivacyError> {
    let question = &arguments.question;
    let (groups, rate) = (arguments.groups, arguments.sampling_rate.unwrap_or(f64::NAN));
    let of_groups = if groups == 1 { Adjacency::AddRemove } else { Adjacency::ZeroOut };
    let population = question.method.examples.unwrap_or(0);
    let (sampling, adjacency) = match (arguments.m, arguments.slots, arguments.max_batch) {
        (Some(batch), ..) => (Sampling::WithoutReplacement { batch, population }, Adjacency::ReplaceOne),
        (_, Some(slots), _) => (Sampling::RandomAllocation { groups, slots }, of_groups),
        (.., Some(most)) => (Sampling::TruncatedPoisson { rate, most, population }, Adjacency::ZeroOut),
        _ if groups == 1 => (Sampling::Poisson { rate }, of_groups),
        _ => (Sampling::CyclicPoisson { groups, rate }, of_groups),
    };
    let answer = question.solve(adjacency, arguments.discretization, &|noise_multiplier| {
        Mechanism::SubsampledGaussian { noise_multiplier, sampling, steps: arguments.steps }
    })?;
    Ok(answer.with([
        ("sampling", json!(sampling.name())),
        ("sampling_rate", json!(sampling.rate())),
        ("steps", json!(arguments.steps)),
    ]))
}

fn laplace_answer(arguments: &LaplaceArguments) -> Result<Answer, PrivacyError> {
    let (delta, method) = (arguments.delta, &arguments.method);
    let adjacency = method.adjacency.unwrap_or(Adjacency::ReplaceOne);
    let population = method.examples.or(arguments.m).unwrap_or(1);
    let batch = arguments.m.unwrap_or(population);
    // Without replacement a neighbour's batch may hold another row in place of the null row: the difference of two terms.
    let terms = if batch < population && adjacency == Adjacency::ZeroOut { 2.0 } else { 1.0 };
    let l1_sensitivity = terms * arguments.l1_sensitivity;
    let mechanism = |scale| laplace::mean_mechanism(scale, l1_sensitivity, batch, population, arguments.steps);
    let pure = if delta == 0.0 { Accountant::Pure } else { Accountant::Pld };
    let accountant = method.accountant.unwrap_or(pure);
    let target = arguments.epsilon.unwrap_or(f64::NAN);
    let smallest = || calibrate(accountant, adjacency, target, delta, mechanism);
    let scale = arguments.scale.map_or_else(smallest, Ok)?;
    let answer = Answer {
        epsilon: accountant.epsilon(&mechanism(scale), adjacency, delta)?,
        // Standard deviation √2·b over the sensitivity S/m of the mean.
        noise_multiplier: std::f64::consts::SQRT_2 * scale * batch as f64 / arguments.l1_sensitivity,
        statement: mechanism(scale).to_string(),
        ..Answer::new(accountant, adjacency, delta, method.examples)
    };
    Ok(answer.with([
        ("mechanism", json!("laplace")),
        ("scale", json!(scale)),
        ("l1_sensitivity", json!(arguments.l1_sensitivity)),
        ("n", json!(population)),
        ("m", json!(batch)),
        ("steps", json!(arguments.steps)),
    ]))
}

fn zcdp_answer(arguments: &ZcdpArguments) -> Result<Answer, PrivacyError> {
    let (delta, adjacency) = (arguments.delta, arguments.adjacency);
    let rho = match (arguments.rho, arguments.epsilon) {
        (Some(rho), _) => rho,
        (None, Some(epsilon)) => zcdp::rho(epsilon, delta)?,
        (None, None) => {
            let gaussian = Mechanism::Gaussian {
                noise_multiplier: arguments.noise_multiplier.unwrap_or(f64::NAN),
                sampling: Sampling::FullBatch,
                participations: 1,
            };
            zcdp::rho_of(Accountant::Zcdp, &gaussian, adjacency)?
        }
    };
    let answer = Answer {
        epsilon: zcdp::epsilon(delta, rho)?,
        noise_multiplier: adjacency.row_change_factor() / (2.0 * rho).sqrt(),
        statement: format!("{rho}-zCDP, that of Gaussian noise with this noise multiplier"),
        ..Answer::new(Accountant::Zcdp, adjacency, delta, arguments.examples)
    };
    let simple = zcdp::simple_epsilon(delta, rho)?;
    Ok(answer.with([("mechanism", json!("zcdp")), ("rho", json!(rho)), ("simple_epsilon", json!(simple))]))
}

impl Question {
    /// ε at the noise, or the noise for the ε and the ε that it gives. `interval` is the grid of the pld accountant.
    fn solve(
        &self,
        adjacency: Adjacency,
        interval: Option<f64>,
        mechanism_at: &dyn Fn(f64) -> Mechanism,
    ) -> Result<Answer, PrivacyError> {
        let (delta, method) = (self.delta, &self.method);
        let adjacency = method.adjacency.unwrap_or(adjacency);
        let accountant = method.accountant.unwrap_or_else(|| Accountant::default_for(&mechanism_at(1.0)));
        let target = self.epsilon.unwrap_or(f64::NAN);
        let smallest = || calibrate(accountant, adjacency, target, delta, mechanism_at);
        let noise_multiplier = self.noise_multiplier.map_or_else(smallest, Ok)?;
        let mechanism = mechanism_at(noise_multiplier);
        let answer = Answer {
            noise_multiplier,
            statement: mechanism.to_string(),
            ..Answer::new(accountant, adjacency, delta, method.examples)
        };
        let answer = answer.with([("mechanism", json!(mechanism.name()))]);
        let (epsilon, answer) = match (accountant, interval) {
            (Accountant::Pld, _) => {
                let mut loss = PrivacyLoss::new(&mechanism, adjacency)?;
                if let Some(interval) = interval {
                    loss = loss.with_interval(interval)?;
                }
                let bounds = loss.epsilon_bounds(delta)?;
                let lower = bounds.lower.map(|lower| ("epsilon_lower", json!(lower)));
                (bounds.upper, answer.with(lower))
            }
            (_, Some(_)) => {
                return Err(PrivacyError::RefusedAccountant {
                    accountant,
                    mechanism: mechanism.name(),
                    reason: "--discretization belongs to the pld accountant",
                });
            }
            (Accountant::Rdp, None) => {
                let (epsilon, order) = RenyiCurve::new(&mechanism, adjacency)?.epsilon(delta)?;
                (epsilon, answer.with([("order", json!(order))]))
            }
            _ => (accountant.epsilon(&mechanism, adjacency, delta)?, answer),
        };
        let answer = Answer { epsilon, ..answer };
        Ok(match gdp::mu(&mechanism, adjacency) {
            Ok(mu) => answer.with([("mu", json!(mu)), ("rho", json!(0.5 * mu * mu))]),
            Err(_) => answer,
        })
    }
}

/// Six significant digits, never below the value: neither an ε nor a noise multiplier may look better than it is.
fn rounded_up(value: f64) -> String {
    rounds_models::text::rounded_up(value, 6)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        account: AccountArguments,
    }

    fn ask(line: &str) -> Result<Value, String> {
        let words = std::iter::once("account").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        answer(&line.account.mechanism.expect("a mechanism"))
            .map(|answer| serde_json::to_value(answer).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn usage_fits_eighty_columns_and_names_what_clap_needs() {
        for mut own in MechanismArguments::augment_subcommands(clap::Command::new("account")).get_subcommands().cloned()
        {
            let usage = own.render_usage().to_string();
            assert!(usage.lines().all(|line| line.chars().count() <= 80), "{usage}");
            let of_group = |group: &ArgGroup| group.get_args().map(ToString::to_string).collect::<Vec<_>>();
            let groups =
                own.get_groups().filter(|group| group.is_required_set()).flat_map(of_group).collect::<Vec<_>>();
            for needed in
                own.get_arguments().filter(|one| one.is_required_set() || groups.contains(&one.get_id().to_string()))
            {
                let flag = format!("--{} <", needed.get_long().expect("a flag"));
                assert!(usage.contains(&flag), "{flag} in {usage}");
            }
        }
    }

    fn number(line: &str, key: &str) -> f64 {
        ask(line).unwrap()[key].as_f64().unwrap()
    }

    /// Lines, the ε that each gives, and its relative tolerance.
    const GOLDEN: &str = "\
gaussian --noise-multiplier 2 --delta 1e-5 = 1.99309140441512 1e-12
gaussian --noise-multiplier 2 --steps 4 --delta 1e-5 = 4.37717809568114 1e-12
gaussian --noise-multiplier 4 --adjacency replace-one --delta 1e-5 = 1.99309140441512 1e-12
tree --noise-multiplier 2 --steps 400 --restarts 4 --delta 1e-6 = 18.16344576 1e-9
zcdp --rho 0.15 --delta 1e-10 = 3.573775031 1e-6
gaussian --noise-multiplier 2.23606797749979 --delta 1e-6 --accountant zcdp-simple = 2.450788 1e-7
subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.01 --steps 1000 --delta 1e-5 = 1.828236737 3e-5
subsampled-gaussian --noise-multiplier 4 --sampling-rate 0.13333333333333333 --groups 8 --steps 600 --delta 1e-5 = 1.15612414 1e-4
subsampled-gaussian --noise-multiplier 2 --slots 120 --steps 120 --delta 1e-5 = 0.156643 1e-4
subsampled-gaussian --noise-multiplier 2 --slots 120 --groups 3 --steps 360 --delta 1e-5 = 0.156643 1e-4
subsampled-gaussian --noise-multiplier 2 --sampling-rate 0.0667 --n 60000 --max-batch 4200 --steps 150 --delta 1e-5 = 1.8731233333 1e-4
last-iterate --noise-multiplier 3 --contraction 0.9998 --batches 40 --steps 4000 --delta 1e-5 --adjacency replace-one = 5.5 1e-2
subsampled-gaussian --noise-multiplier 2 --n 60000 --m 600 --steps 500 --delta 1e-5 = 2.538897891 5e-3";

    #[test]
    fn golden_values_come_out() {
        for row in GOLDEN.lines() {
            let (line, numbers) = row.split_once(" = ").unwrap();
            let (expected, tolerance) = numbers.split_once(' ').unwrap();
            let [expected, tolerance]: [f64; 2] = [expected, tolerance].map(|text| text.parse().unwrap());
            let found = number(line, "epsilon");
            assert!((found / expected - 1.0).abs() < tolerance, "{line}: {found} against {expected}");
        }
        let noise = number("gaussian --epsilon 1 --delta 1e-5", "noise_multiplier");
        assert!((noise / 3.730_631_634_815_94 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_noise_for_an_epsilon_gives_back_at_most_that_epsilon() {
        for line in [
            "gaussian --delta 1e-5",
            "tree --steps 100 --delta 1e-5",
            "subsampled-gaussian --sampling-rate 0.01 --steps 50 --delta 1e-5 --accountant rdp",
            "zcdp --delta 1e-5",
            "laplace --l1-sensitivity 2 --n 1000 --m 10 --steps 7",
        ] {
            let document = ask(&format!("{line} --epsilon 1.5")).unwrap();
            let epsilon = document["epsilon"].as_f64().unwrap();
            assert!(epsilon <= 1.5 && epsilon > 1.5 * (1.0 - 1e-8), "{line}: {epsilon}");
        }
    }

    /// Lines that are refused, and a part of the message.
    const REFUSED: &str = "\
gaussian --epsilon 0 --delta 1e-5 | epsilon must be
gaussian --epsilon -1 --delta 1e-5 | epsilon must be
gaussian --epsilon NaN --delta 1e-5 | epsilon must be
gaussian --epsilon inf --delta 1e-5 | epsilon must be
gaussian --noise-multiplier 0 --delta 1e-5 | the noise multiplier must be
gaussian --noise-multiplier 1 --delta 0 | delta must be
gaussian --noise-multiplier 1 --delta 1 | delta must be
gaussian --noise-multiplier 1 --delta NaN | delta must be
gaussian --noise-multiplier 1 | --delta
gaussian --delta 1e-5 | --noise-multiplier
gaussian --noise-multiplier 1 --epsilon 1 --delta 1e-5 | --epsilon
gaussian --noise-multiplier 1 --delta 1e-5 --accountant moments | gdp, zcdp, zcdp-simple, rdp, pld, last-iterate, pure
gaussian --noise-multiplier 1 --delta 1e-5 --accountant pure | pure
subsampled-gaussian --noise-multiplier 1 --sampling-rate 1.5 --delta 1e-5 | the sampling rate must be
subsampled-gaussian --noise-multiplier 1 --slots 10 --groups 2 --delta 1e-5 --adjacency add-remove | another group
subsampled-gaussian --noise-multiplier 1 --slots 0 --delta 1e-5 | the rounds of an epoch must be
last-iterate --noise-multiplier 1 --contraction 1.5 --delta 1e-5 | the contraction must be
last-iterate --noise-multiplier 3 --contraction 0.99 --delta 1e-5 --batches 0 | the batches of a pass must be
last-iterate --noise-multiplier 3 --contraction 1e300 --delta 1e-5 | at most 1, found 1e300:
subsampled-gaussian --noise-multiplier 2 --sampling-rate 0.1 --n 600 --max-batch 0 --delta 1e-5 | the greatest batch must be
gaussian --noise-multiplier 1 --delta 1e-5 --accountant last-iterate | whose steps contract
subsampled-gaussian --noise-multiplier 1 --delta 1e-5 | --sampling-rate
subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.1 --steps 0 --delta 1e-5 | the number of steps must be
subsampled-gaussian --noise-multiplier 1 --m 10 --delta 1e-5 | --n
subsampled-gaussian --noise-multiplier 1 --m 10 --n 5 --delta 1e-5 | batch size
subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.1 --delta 1e-5 --adjacency replace-one | replace-one
subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.1 --delta 1e-5 --accountant zcdp-simple | the zcdp-simple accountant
subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.1 --delta 1e-5 --discretization 1e-12 | choose one of at least
subsampled-gaussian --noise-multiplier 0.05 --sampling-rate 1e-6 --delta 1e-14 --discretization 1e300 | at most 700, found 1e300:
laplace --scale 0 --l1-sensitivity 1 | the Laplace scale must be
laplace --scale 1 --l1-sensitivity -1 | the L1 sensitivity must be
tree --noise-multiplier 1 --steps 8 --restarts 0 --delta 1e-5 | the number of trees must be
zcdp --rho NaN --delta 1e-5 | rho must be
zcdp --delta 1e-5 | --rho";

    #[test]
    fn nonsense_is_refused_with_the_quantity_named() {
        for row in REFUSED.lines() {
            let (line, part) = row.split_once(" | ").unwrap();
            let message = ask(line).expect_err(line);
            assert!(message.contains(part), "{line}: {message}");
        }
    }

    #[test]
    fn a_lower_bound_that_is_not_computed_is_not_shown() {
        let line = "subsampled-gaussian --noise-multiplier 2 --steps 4 --delta 1e-5";
        let shows = |sampler: &str| ask(&format!("{line} {sampler}")).unwrap().get("epsilon_lower").is_some();
        assert!(shows("--sampling-rate 0.25 --accountant pld"));
        assert!(!shows("--slots 4"));
    }

    #[test]
    fn a_delta_of_one_over_n_warns() {
        let document = ask("gaussian --noise-multiplier 2 --delta 1e-5 --n 100000").unwrap();
        assert!(document["warnings"][0].as_str().unwrap().contains("1/n"));
        let quiet = ask("gaussian --noise-multiplier 2 --delta 1e-6 --n 100000").unwrap();
        assert_eq!(quiet["warnings"], json!([]));
    }

    #[test]
    fn printed_numbers_are_rounded_up() {
        for (value, text) in [
            (1.0, "1"),
            (3.730_631_634, "3.73064"),
            (1.000_000_1, "1.00001"),
            (123_456.7, "123457"),
            (1.2e9, "1200000000"),
            (0.000_123_456_71, "0.000123457"),
            (0.0, "0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(rounded_up(value), text, "{value}");
        }
        let words = "account subsampled-gaussian --epsilon 1 --delta 1e-5 --sampling-rate 0.01 --accountant pld";
        let line = Line::try_parse_from(words.split(' ')).unwrap();
        let text = answer(&line.account.mechanism.unwrap()).unwrap().table().to_string();
        assert!(text.split_whitespace().any(|field| field == "0.999972"), "{text}");
    }
}
