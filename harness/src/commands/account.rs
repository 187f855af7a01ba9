//! `rounds account`: the ε of a mechanism, or the smallest noise for an ε, by any accountant.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use rounds_algorithms::privacy::pld::PrivacyLoss;
use rounds_algorithms::privacy::rdp::RenyiCurve;
use rounds_algorithms::privacy::{
    Accountant, Adjacency, Mechanism, PrivacyError, PrivacyStatement, PrivacyWarning, Sampling, calibrate, gdp,
    laplace, zcdp,
};
use serde_json::{Map, Value, json};

use super::UsageError;

/// Arguments of `rounds account`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AccountArguments {
    /// Recompute ε from the mechanisms of a privacy statement: a document of `rounds train --json`, or its `privacy`
    #[arg(long, value_name = "FILE", required = true)]
    statement: Option<PathBuf>,
    #[command(subcommand)]
    mechanism: Option<MechanismArguments>,
}

#[derive(Debug, Clone, Subcommand)]
enum MechanismArguments {
    /// Gaussian noise on a sum of clipped terms; a given example is read in every step.
    Gaussian(GaussianArguments),
    /// Gaussian noise on randomly drawn batches: Poisson, or without replacement.
    SubsampledGaussian(SubsampledArguments),
    /// Laplace noise on every coordinate of a mean, with or without subsampling.
    Laplace(LaplaceArguments),
    /// Binary-tree aggregation, each example in one leaf of every tree.
    Tree(TreeArguments),
    /// Conversion between ρ-zCDP and (ε, δ).
    Zcdp(ZcdpArguments),
}

/// Either the noise or the ε, and how to account.
#[derive(Debug, Clone, Args)]
#[group(skip)]
struct Question {
    /// Noise standard deviation over clip norm: gives ε at δ.
    #[arg(
        long,
        value_name = "S",
        allow_negative_numbers = true,
        required_unless_present = "epsilon",
        conflicts_with = "epsilon"
    )]
    noise_multiplier: Option<f64>,
    /// Target ε: gives the smallest noise, rounded up.
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
    /// Accountant: gdp, zcdp, rdp, pld or pure. Default: the tightest that covers the mechanism.
    #[arg(long)]
    accountant: Option<Accountant>,
    /// Neighbouring relation: zero-out, add-remove or replace-one. Under replace-one an example's term moves by two clip norms.
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
    /// Steps that read a given example.
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
}

#[derive(Debug, Clone, Args)]
struct SubsampledArguments {
    #[command(flatten)]
    question: Question,
    /// Probability with which a Poisson batch holds a given example: batch size / n.
    #[arg(
        long,
        value_name = "Q",
        allow_negative_numbers = true,
        required_unless_present = "m",
        conflicts_with = "m"
    )]
    sampling_rate: Option<f64>,
    /// Batches of exactly m of --n examples without replacement, instead of Poisson ones (replace-one adjacency).
    #[arg(long, value_name = "M", requires = "examples")]
    m: Option<usize>,
    /// Steps in all.
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
    /// Spacing of the pld accountant's grid of losses. Default: for a relative accuracy of 1e-5.
    #[arg(long, value_name = "L", allow_negative_numbers = true, conflicts_with = "epsilon")]
    discretization: Option<f64>,
}

#[derive(Debug, Clone, Args)]
struct LaplaceArguments {
    /// Laplace scale b (variance 2b²) of the noise on the mean: gives ε.
    #[arg(
        long,
        value_name = "B",
        allow_negative_numbers = true,
        required_unless_present = "epsilon",
        conflicts_with = "epsilon"
    )]
    scale: Option<f64>,
    /// Target ε of all steps together: gives the smallest scale, rounded up.
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// L1 norm of the largest change of one example's term (under replace-one: of the difference of two terms).
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    l1_sensitivity: f64,
    /// Examples of a step; fewer than --n are drawn without replacement. Default: all.
    #[arg(long, value_name = "M")]
    m: Option<usize>,
    /// Steps in all.
    #[arg(long, value_name = "T", default_value_t = 1)]
    steps: usize,
    /// δ; 0, pure differential privacy, by default.
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
#[group(id = "size", required = true, multiple = false)]
struct ZcdpSize {
    /// ρ: gives ε at δ.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    rho: Option<f64>,
    /// Target ε: gives the largest ρ.
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// Noise standard deviation over clip norm of one Gaussian mechanism: gives ε at δ.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    noise_multiplier: Option<f64>,
}

#[derive(Debug, Clone, Args)]
struct ZcdpArguments {
    #[command(flatten)]
    size: ZcdpSize,
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

/// What is printed: the keys every answer has, and those of its mechanism.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    accountant: Accountant,
    adjacency: Adjacency,
    statement: String,
    details: Map<String, Value>,
    warning: Option<String>,
}

/// Answers one question.
///
/// # Errors
/// [`UsageError`] for parameters out of range and for what no theorem covers.
pub fn run(arguments: &AccountArguments, json: bool) -> Result<()> {
    let answer = match (&arguments.mechanism, &arguments.statement) {
        (Some(mechanism), _) => answer(mechanism).map_err(|error| UsageError::new(error.to_string()))?,
        (None, Some(path)) => return recompute(path, json),
        (None, None) => unreachable!("clap asks for a mechanism or a statement"),
    };
    if json {
        println!("{}", document(&answer));
    } else {
        print_for_people(&answer);
    }
    Ok(())
}

/// Relative difference up to which a recomputed ε is the stated one: that of printing and reading decimal numbers.
const RECOMPUTED: f64 = 1e-9;

/// Recomputes ε from the mechanisms that a statement lists, and fails where it is above the stated one.
fn recompute(path: &Path, json: bool) -> Result<()> {
    let refuse = |reason: String| UsageError::new(format!("--statement {}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(format!("it cannot be read: {error}")))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| refuse(format!("it is no JSON: {error}")))?;
    let privacy = document.get("privacy").unwrap_or(&document);
    let statement: PrivacyStatement = serde_json::from_value(privacy.clone()).map_err(|error| {
        refuse(format!(
            "it holds no privacy statement ({error}); give the document of `rounds train --json`"
        ))
    })?;
    let Some(stated) = statement.epsilon else {
        let reason = statement.reason.as_deref().unwrap_or("no reason is given");
        return Err(refuse(format!("it claims nothing: {reason}")).into());
    };
    let recomputed = statement
        .recomputed_epsilon()
        .map_err(|error| refuse(format!("its mechanisms cannot be accounted: {error}")))?;
    let holds = recomputed <= stated * (1.0 + RECOMPUTED);
    if json {
        println!(
            "{:#}",
            json!({
                "epsilon": recomputed,
                "stated_epsilon": stated,
                "delta": statement.delta,
                "adjacency": statement.adjacency,
                "accountant": statement.accountant,
                "mechanisms": statement.mechanisms,
                "sensitivity_factor": statement.sensitivity_factor,
                "holds": holds,
            })
        );
    } else {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.add_row(["ε, recomputed", &rounded_up(recomputed)]);
        table.add_row(["ε, stated", &rounded_up(stated)]);
        table.add_row(["δ", &format!("{:e}", statement.delta.unwrap_or_default())]);
        table.add_row([
            "adjacency",
            &statement.adjacency.map_or_else(String::new, |name| name.to_string()),
        ]);
        table.add_row([
            "accountant",
            &statement.accountant.map_or_else(String::new, |name| name.to_string()),
        ]);
        table.add_row(["mechanisms", &statement.mechanisms.len().to_string()]);
        println!("{table}");
    }
    if holds {
        Ok(())
    } else {
        anyhow::bail!(
            "the mechanisms give ε = {recomputed}, more than the stated {stated}: the statement does not hold"
        )
    }
}

fn answer(mechanism: &MechanismArguments) -> Result<Answer, PrivacyError> {
    match mechanism {
        MechanismArguments::Gaussian(arguments) => gaussian_answer(arguments),
        MechanismArguments::SubsampledGaussian(arguments) => subsampled_answer(arguments),
        MechanismArguments::Laplace(arguments) => laplace_answer(arguments),
        MechanismArguments::Tree(arguments) => tree_answer(arguments),
        MechanismArguments::Zcdp(arguments) => zcdp_answer(arguments),
    }
}

fn gaussian_answer(arguments: &GaussianArguments) -> Result<Answer, PrivacyError> {
    let mechanism = |noise_multiplier| Mechanism::Gaussian {
        noise_multiplier,
        sampling: Sampling::FullBatch,
        participations: arguments.steps,
    };
    let mut answer = solve(&arguments.question, Adjacency::AddRemove, None, mechanism)?;
    answer.details.insert("steps".into(), json!(arguments.steps));
    Ok(answer)
}

fn subsampled_answer(arguments: &SubsampledArguments) -> Result<Answer, PrivacyError> {
    let (sampling, adjacency) = match (arguments.m, arguments.question.method.examples) {
        (Some(batch), Some(population)) => (
            Sampling::WithoutReplacement { batch, population },
            Adjacency::ReplaceOne,
        ),
        _ => (
            Sampling::Poisson {
                rate: arguments.sampling_rate.unwrap_or(f64::NAN),
            },
            Adjacency::AddRemove,
        ),
    };
    let mechanism = |noise_multiplier| Mechanism::SubsampledGaussian {
        noise_multiplier,
        sampling,
        steps: arguments.steps,
    };
    let mut answer = solve(&arguments.question, adjacency, arguments.discretization, mechanism)?;
    answer.details.insert("sampling".into(), json!(sampling.name()));
    answer.details.insert("sampling_rate".into(), json!(sampling.rate()));
    answer.details.insert("steps".into(), json!(arguments.steps));
    Ok(answer)
}

fn tree_answer(arguments: &TreeArguments) -> Result<Answer, PrivacyError> {
    let mechanism = |noise_multiplier| Mechanism::Tree {
        noise_multiplier,
        sampling: Sampling::ShuffledOnce,
        rounds: arguments.steps,
        trees: arguments.restarts,
    };
    let mut answer = solve(&arguments.question, Adjacency::ZeroOut, None, mechanism)?;
    answer.details.insert("steps".into(), json!(arguments.steps));
    answer.details.insert("trees".into(), json!(arguments.restarts));
    Ok(answer)
}

fn laplace_answer(arguments: &LaplaceArguments) -> Result<Answer, PrivacyError> {
    let adjacency = arguments.method.adjacency.unwrap_or(Adjacency::ReplaceOne);
    let population = arguments.method.examples.or(arguments.m).unwrap_or(1);
    let batch = arguments.m.unwrap_or(population);
    // Without replacement a neighbour's batch may hold another row in place of the null row: the difference of two terms.
    let sampled_factor = if batch < population && adjacency == Adjacency::ZeroOut {
        2.0
    } else {
        1.0
    };
    let l1_sensitivity = sampled_factor * arguments.l1_sensitivity;
    let mechanism = |scale| laplace::mean_mechanism(scale, l1_sensitivity, batch, population, arguments.steps);
    let accountant = arguments.method.accountant.unwrap_or(if arguments.delta == 0.0 {
        Accountant::Pure
    } else {
        Accountant::Pld
    });
    let scale = match (arguments.scale, arguments.epsilon) {
        (Some(scale), _) => scale,
        (None, target) => calibrate(
            accountant,
            adjacency,
            target.unwrap_or(f64::NAN),
            arguments.delta,
            mechanism,
        )?,
    };
    let epsilon = accountant.epsilon(&mechanism(scale), adjacency, arguments.delta)?;
    let details = [
        ("mechanism", json!("laplace")),
        ("scale", json!(scale)),
        ("l1_sensitivity", json!(arguments.l1_sensitivity)),
        ("n", json!(population)),
        ("m", json!(batch)),
        ("steps", json!(arguments.steps)),
    ];
    Ok(Answer {
        epsilon,
        delta: arguments.delta,
        // Standard deviation √2·b over the sensitivity S/m of the mean.
        noise_multiplier: std::f64::consts::SQRT_2 * scale * batch as f64 / arguments.l1_sensitivity,
        accountant,
        adjacency,
        statement: mechanism(scale).to_string(),
        details: details
            .map(|(key, value)| (key.to_string(), value))
            .into_iter()
            .collect(),
        warning: warning(arguments.delta, arguments.method.examples),
    })
}

fn zcdp_answer(arguments: &ZcdpArguments) -> Result<Answer, PrivacyError> {
    let (delta, adjacency) = (arguments.delta, arguments.adjacency);
    let factor = adjacency.row_change_factor();
    let rho = match &arguments.size {
        ZcdpSize { rho: Some(rho), .. } => *rho,
        ZcdpSize {
            epsilon: Some(epsilon), ..
        } => zcdp::rho(*epsilon, delta)?,
        ZcdpSize { noise_multiplier, .. } => {
            let noise_multiplier = noise_multiplier.unwrap_or(f64::NAN);
            let mechanism = Mechanism::Gaussian {
                noise_multiplier,
                sampling: Sampling::FullBatch,
                participations: 1,
            };
            zcdp::rho_of(&mechanism, adjacency)?
        }
    };
    let epsilon = zcdp::epsilon(delta, rho)?;
    let details = [
        ("mechanism", json!("zcdp")),
        ("rho", json!(rho)),
        ("simple_epsilon", json!(zcdp::simple_epsilon(delta, rho)?)),
    ];
    Ok(Answer {
        epsilon,
        delta,
        noise_multiplier: factor / (2.0 * rho).sqrt(),
        accountant: Accountant::Zcdp,
        adjacency,
        statement: format!("{rho}-zCDP, that of Gaussian noise with the multiplier below"),
        details: details
            .map(|(key, value)| (key.to_string(), value))
            .into_iter()
            .collect(),
        warning: warning(delta, arguments.examples),
    })
}

/// ε at the noise, or the noise for the ε and the ε it really gives.
fn solve(
    question: &Question,
    adjacency: Adjacency,
    discretization: Option<f64>,
    mechanism_at: impl Fn(f64) -> Mechanism,
) -> Result<Answer, PrivacyError> {
    let adjacency = question.method.adjacency.unwrap_or(adjacency);
    let accountant = question
        .method
        .accountant
        .unwrap_or_else(|| Accountant::default_for(&mechanism_at(1.0)));
    let delta = question.delta;
    let noise_multiplier = match (question.noise_multiplier, question.epsilon) {
        (Some(noise_multiplier), _) => noise_multiplier,
        (None, target) => calibrate(accountant, adjacency, target.unwrap_or(f64::NAN), delta, &mechanism_at)?,
    };
    let mechanism = mechanism_at(noise_multiplier);
    let mut details = Map::new();
    details.insert("mechanism".into(), json!(mechanism.name()));
    let epsilon = match (accountant, discretization) {
        (Accountant::Pld, _) => {
            let mut loss = PrivacyLoss::new(&mechanism, adjacency)?;
            if let Some(interval) = discretization {
                loss = loss.with_interval(interval)?;
            }
            let bounds = loss.epsilon_bounds(delta)?;
            details.insert("epsilon_lower".into(), json!(bounds.lower));
            bounds.upper
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
            details.insert("order".into(), json!(order));
            epsilon
        }
        _ => accountant.epsilon(&mechanism, adjacency, delta)?,
    };
    if let Ok(mu) = gdp::mu(&mechanism, adjacency) {
        details.insert("mu".into(), json!(mu));
        details.insert("rho".into(), json!(0.5 * mu * mu));
    }
    Ok(Answer {
        epsilon,
        delta,
        noise_multiplier,
        accountant,
        adjacency,
        statement: mechanism.to_string(),
        details,
        warning: warning(delta, question.method.examples),
    })
}

fn warning(delta: f64, examples: Option<usize>) -> Option<String> {
    PrivacyWarning::for_delta(delta, examples?).map(|warning| warning.to_string())
}

fn document(answer: &Answer) -> Value {
    let mut document = json!({
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "noise_multiplier": answer.noise_multiplier,
        "accountant": answer.accountant,
        "adjacency": answer.adjacency,
        "unit": "example",
        "statement": answer.statement,
    });
    if let Value::Object(keys) = &mut document {
        keys.extend(answer.details.clone());
        keys.insert("warnings".into(), json!(answer.warning.iter().collect::<Vec<_>>()));
    }
    document
}

fn print_for_people(answer: &Answer) {
    if let Some(warning) = &answer.warning {
        eprintln!("warning: {warning}");
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.add_row(["ε", &rounded_up(answer.epsilon)]);
    table.add_row(["δ", &format!("{:e}", answer.delta)]);
    table.add_row(["noise multiplier", &rounded_up(answer.noise_multiplier)]);
    table.add_row(["mechanism", &answer.statement]);
    table.add_row(["adjacency", answer.adjacency.name()]);
    table.add_row(["accountant", answer.accountant.name()]);
    for (key, value) in &answer.details {
        if key != "mechanism" {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            table.add_row([key.replace('_', " "), text]);
        }
    }
    println!("{table}");
}

/// Six significant digits, never below the value: neither an ε nor a noise multiplier may look better than it is.
fn rounded_up(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let decimals = (5 - value.abs().log10().floor() as i32).clamp(0, 300);
    let scale = 10f64.powi(decimals);
    // The tolerance keeps a value that is a round number up to its last bits from gaining a digit.
    let digits = (value * scale * (1.0 - 1e-13)).ceil();
    let text = format!("{:.*}", decimals as usize, digits / scale);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
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
            .map(|answer| document(&answer))
            .map_err(|error| error.to_string())
    }

    fn number(line: &str, key: &str) -> f64 {
        ask(line).unwrap()[key].as_f64().unwrap()
    }

    #[test]
    fn every_mechanism_answers_with_the_designed_keys() {
        for line in [
            "gaussian --noise-multiplier 2 --delta 1e-5",
            "subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.01 --steps 100 --delta 1e-5",
            "subsampled-gaussian --noise-multiplier 2 --n 60000 --m 600 --steps 500 --delta 1e-6",
            "laplace --scale 0.1 --l1-sensitivity 2 --n 1000 --m 100 --steps 10",
            "laplace --scale 0.1 --l1-sensitivity 2 --n 1000 --m 100 --steps 10 --delta 1e-6",
            "tree --noise-multiplier 2 --steps 400 --restarts 4 --delta 1e-6",
            "zcdp --rho 0.1 --delta 1e-6",
        ] {
            let document = ask(line).unwrap();
            for key in ["epsilon", "delta", "noise_multiplier"] {
                assert!(document[key].as_f64().is_some_and(f64::is_finite), "{line}: {key}");
            }
            for key in ["accountant", "adjacency"] {
                assert!(document[key].is_string(), "{line}: {key}");
            }
        }
    }

    #[test]
    fn golden_values_come_out() {
        for (line, expected, tolerance) in [
            (
                "gaussian --noise-multiplier 2 --delta 1e-5",
                1.993_091_404_415_12,
                1e-12,
            ),
            (
                "gaussian --noise-multiplier 2 --steps 4 --delta 1e-5",
                4.377_178_095_681_14,
                1e-12,
            ),
            (
                "gaussian --noise-multiplier 4 --adjacency replace-one --delta 1e-5",
                1.993_091_404_415_12,
                1e-12,
            ),
            (
                "tree --noise-multiplier 2 --steps 400 --restarts 4 --delta 1e-6",
                18.163_445_76,
                1e-9,
            ),
            ("zcdp --rho 0.15 --delta 1e-10", 3.573_775_031, 1e-6),
            (
                "subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.01 --steps 1000 --delta 1e-5",
                1.828_236_737,
                3e-5,
            ),
            (
                "subsampled-gaussian --noise-multiplier 2 --n 60000 --m 600 --steps 500 --delta 1e-5",
                2.538_897_891,
                5e-3,
            ),
        ] {
            let found = number(line, "epsilon");
            assert!(
                (found / expected - 1.0).abs() < tolerance,
                "{line}: {found} against {expected}"
            );
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

    #[test]
    fn nonsense_is_refused_with_the_flag_named() {
        for (line, word) in [
            ("gaussian --epsilon 0 --delta 1e-5", "--epsilon"),
            ("gaussian --epsilon -1 --delta 1e-5", "--epsilon"),
            ("gaussian --epsilon NaN --delta 1e-5", "--epsilon"),
            ("gaussian --epsilon inf --delta 1e-5", "--epsilon"),
            ("gaussian --noise-multiplier 0 --delta 1e-5", "--noise-multiplier"),
            ("gaussian --noise-multiplier 1 --delta 0", "--delta"),
            ("gaussian --noise-multiplier 1 --delta 1", "--delta"),
            ("gaussian --noise-multiplier 1 --delta NaN", "--delta"),
            ("gaussian --noise-multiplier 1", "--delta"),
            ("gaussian --delta 1e-5", "--noise-multiplier"),
            ("gaussian --noise-multiplier 1 --epsilon 1 --delta 1e-5", "--epsilon"),
            (
                "gaussian --noise-multiplier 1 --delta 1e-5 --accountant moments",
                "gdp, zcdp, rdp, pld, pure",
            ),
            ("gaussian --noise-multiplier 1 --delta 1e-5 --accountant pure", "pure"),
            (
                "subsampled-gaussian --noise-multiplier 1 --sampling-rate 1.5 --delta 1e-5",
                "--sampling-rate",
            ),
            (
                "subsampled-gaussian --noise-multiplier 1 --delta 1e-5",
                "--sampling-rate",
            ),
            (
                "subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.1 --steps 0 --delta 1e-5",
                "--steps",
            ),
            ("subsampled-gaussian --noise-multiplier 1 --m 10 --delta 1e-5", "--n"),
            (
                "subsampled-gaussian --noise-multiplier 1 --m 10 --n 5 --delta 1e-5",
                "batch size",
            ),
            (
                "subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.1 --delta 1e-5 --adjacency replace-one",
                "replace-one",
            ),
            (
                "subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.1 --delta 1e-5 --discretization 1e-12",
                "choose one of at least",
            ),
            ("laplace --scale 0 --l1-sensitivity 1", "--scale"),
            ("laplace --scale 1 --l1-sensitivity -1", "--l1-sensitivity"),
            (
                "tree --noise-multiplier 1 --steps 8 --restarts 0 --delta 1e-5",
                "--restarts",
            ),
            ("zcdp --rho NaN --delta 1e-5", "--rho"),
            ("zcdp --delta 1e-5", "--rho"),
        ] {
            let message = ask(line).expect_err(line);
            assert!(message.contains(word), "{line}: {message}");
        }
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
    }
}
