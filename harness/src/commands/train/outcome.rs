//! The outcome of a training run, and the one rule of what may be printed of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use comfy_table::Table;
use rounds_algorithms::privacy::{Adjacency, Arithmetic, Claim, NoiseSource, PrivacyStatement};
use serde::Serialize;

use super::arguments::PrivacyArguments;
use crate::commands::evaluate::regression_text;
use crate::commands::output;
use crate::format::{plural, rounded, scientific, three_digits};
use crate::machine::PinPolicy;
use crate::usage::quoted;
use rounds_models::data::listing;
use rounds_models::evaluation::Regression;
use rounds_models::model_file::is_npy;

/// The part of an outcome that may be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// A simulation's: everything.
    All,
    /// A release's: functions of released values, and what is declared public.
    Release,
    /// A release's with --diagnostics: statistics of the rows too, under a key of their own.
    Diagnosed,
}

impl Shown {
    pub(super) fn of(privacy: &PrivacyArguments) -> Self {
        match (privacy.secure, privacy.diagnostics) {
            (false, _) => Self::All,
            (true, false) => Self::Release,
            (true, true) => Self::Diagnosed,
        }
    }

    /// True where statistics of the rows are computed.
    pub(super) fn has_statistics(self) -> bool {
        self != Self::Release
    }

    /// `value`, if it may stand beside the guarantee: always in a simulation, in a release only if it is `public`.
    pub(super) fn beside_claim<T>(self, public: bool, value: Option<T>) -> Option<T> {
        value.filter(|_| public || self == Self::All)
    }

    /// `value`, if it belongs to the diagnostics of a release.
    pub(super) fn in_diagnostics<T>(self, value: T) -> Option<T> {
        (self == Self::Diagnosed).then_some(value)
    }
}

/// The outcome of a run, in the order of the `--json` document.
#[derive(Serialize)]
pub(super) struct Outcome {
    pub(super) algorithm: &'static str,
    pub(super) dataset: String,
    /// The number of rows, if it is public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) n: Option<usize>,
    pub(super) dimension: usize,
    pub(super) classes: usize,
    /// Columns of numbers, by what a field that is no number does.
    pub(super) numbers: BTreeMap<&'static str, Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ranks: Option<usize>,
    pub(super) threads: usize,
    #[serde(skip_serializing_if = "PinPolicy::is_none")]
    pub(super) pinning: PinPolicy,
    pub(super) rounds: u64,
    /// Gradient queries; the expected number of a release.
    pub(super) gradient_queries: u64,
    /// Absent from a release.
    #[serde(flatten)]
    pub(super) times: Option<Times>,
    /// Quality on test rows; of a release only if these are declared public.
    #[serde(flatten)]
    pub(super) test: Option<Quality>,
    /// Number of test rows; of a release only if these are declared public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) test_rows: Option<usize>,
    /// Their file, if they have one of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) test_file: Option<PathBuf>,
    /// Quality of a model without test rows: that of the same run on four fifths of the rows, on the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_out: Option<Quality>,
    /// Statistics of the rows, outside the guarantee; of a release only with --diagnostics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) diagnostics: Option<Diagnostics>,
    /// Values of the algorithm's parameters, given or chosen.
    pub(super) parameters: BTreeMap<&'static str, String>,
    /// The seed of a simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
    /// Flags that the algorithm does not read, and assumptions of its theorem that do not hold; they concern utility, never
    /// privacy.
    pub(super) warnings: Vec<String>,
    #[serde(skip)]
    pub(super) model: Option<PathBuf>,
    pub(super) model_sha256: String,
    pub(super) privacy: PrivacyStatement,
}

/// Quality of a model on rows that it was not trained on.
#[derive(Clone, Copy, Serialize)]
pub(super) enum Quality {
    /// The share of rows whose class is predicted.
    #[serde(rename = "test_accuracy")]
    Accuracy(f64),
    /// Errors of numbers, in the units of the label.
    #[serde(rename = "test_errors")]
    Errors(Regression),
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Times {
    pub(super) seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) communication_seconds: Option<f64>,
    pub(super) load_seconds: f64,
    pub(super) calibration_seconds: f64,
}

/// Statistics of the rows.
#[derive(Serialize)]
pub(super) struct Diagnostics {
    pub(super) train_loss: f64,
    /// Absent of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) train_accuracy: Option<f64>,
    pub(super) clipped_fraction: f64,
    /// Training rows that are null rows; absent of a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) null_rows: Option<usize>,
    pub(super) note: &'static str,
    #[serde(flatten)]
    pub(super) private: Option<PrivateFacts>,
}

/// Facts that a release does not print beside its claim.
#[derive(Serialize)]
pub(super) struct PrivateFacts {
    pub(super) times: Times,
    pub(super) gradient_queries: u64,
    pub(super) n: usize,
    #[serde(flatten)]
    pub(super) test: Option<Quality>,
}

/// ε with at least one digit that is not 0.
fn shown(epsilon: f64) -> String {
    if epsilon < 1e-3 {
        format!("{epsilon:.3e}")
    } else {
        // Never less than what is proven.
        format!("{:.6}", (epsilon * 1e6 * (1.0 - 1e-13)).ceil() / 1e6)
    }
}

/// Noise, sensitivity and their source in a line; `None` of compositions whose parts differ.
fn noise(privacy: &PrivacyStatement) -> Option<String> {
    let multiplier = privacy.noise_multiplier.map(|multiplier| {
        // Three digits, never more than was added.
        let unit = 10_f64.powi(multiplier.log10().floor() as i32 - 2);
        format!("noise multiplier {}", three_digits((multiplier / unit * (1.0 + 1e-13)).floor() * unit))
    });
    let clip_norm = privacy.clip_norm.map(|bound| {
        let norm = privacy.norm.as_deref().map(|norm| format!(" ({norm})"));
        format!("clip norm {}{}", three_digits(bound), norm.unwrap_or_default())
    });
    let source = privacy.noise_source.map(|source| match source {
        NoiseSource::Chacha20 => "from a secret ChaCha20 key".to_owned(),
        NoiseSource::Xoshiro => "from a seed".to_owned(),
    });
    let arithmetic = privacy.arithmetic.map(|arithmetic| match arithmetic {
        Arithmetic::Exact => "exact arithmetic".to_owned(),
        Arithmetic::Idealised => "idealised in floating point".to_owned(),
    });
    let parts: Vec<String> = [multiplier, clip_norm, source, arithmetic].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The privacy statement as names and values.
fn privacy_rows(privacy: &PrivacyStatement) -> Vec<(&'static str, String)> {
    let Some((epsilon, delta)) = privacy.epsilon.zip(privacy.delta) else {
        let reason = privacy.reason.as_deref().unwrap_or("nothing is claimed");
        return vec![("privacy", format!("none: {reason}"))];
    };
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let claim = match privacy.claim {
        Claim::Release => "release",
        Claim::Simulation => "simulation (reproducible noise: for measurements, not for release)",
        Claim::None => "none",
    };
    let domain = privacy.domain.as_ref();
    let domain = domain.map(|domain| format!("{}, sha256 {}…", domain.source, &domain.sha256[..16]));
    let mut rows = vec![
        ("privacy", format!("ε = {} at δ = {} per {}", shown(epsilon), scientific(delta), privacy.unit)),
        ("claim", claim.to_owned()),
        ("adjacency", known(privacy.adjacency.map(|adjacency| adjacency.to_string()))),
        ("accountant", known(privacy.accountant.map(|accountant| accountant.to_string()))),
        ("mechanism", known(privacy.mechanism.as_deref().map(rounded))),
        ("noise", known(noise(privacy))),
        ("domain", known(domain)),
    ];
    rows.extend(privacy.bounds_epsilon.map(|epsilon| {
        let text = format!("private ones of the columns of numbers, ε = {} of the above", shown(epsilon));
        ("bounds", text)
    }));
    let replaced = privacy.replace_one.filter(|_| privacy.adjacency != Some(Adjacency::ReplaceOne));
    rows.extend(replaced.map(|replaced| {
        let text = format!(
            "ε = {} at δ = {}, for another row in place of one",
            shown(replaced.epsilon),
            scientific(replaced.delta)
        );
        ("replacing a row", text)
    }));
    rows.extend(privacy.public.iter().map(|fact| ("public", fact.clone())));
    rows.extend(privacy.notes.iter().map(|note| ("note", note.clone())));
    rows
}

impl Outcome {
    pub(super) fn table(&self) -> Table {
        let percent = |fraction: f64| format!("{:.2} %", 100.0 * fraction);
        let rows = self.n.map_or_else(|| "a private number of".to_owned(), |rows| rows.to_string());
        let mut table = output::table([self.algorithm.to_owned(), format!("on {}", self.dataset)]);
        table.set_width(80);
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        let label = match self.classes {
            1 => "1 output".to_owned(),
            classes => format!("{classes} classes"),
        };
        row("data", format!("{rows} rows, {} features, {label}", self.dimension));
        for (becomes, names) in &self.numbers {
            let names = listing(names);
            row("numbers", format!("{names}: a field that is no number {becomes}"));
        }
        if let Some(rows) = self.test_rows {
            let file = self.test_file.as_ref().map(|file| format!(" of {}", file.display()));
            row("test rows", format!("{rows}{}", file.unwrap_or_default()));
        }
        let quality = |found| match found {
            Quality::Accuracy(accuracy) => ("accuracy", percent(accuracy)),
            Quality::Errors(errors) => ("errors", regression_text(&errors)),
        };
        if let Some((name, text)) = self.test.map(quality) {
            row(&format!("test {name}"), text);
        }
        if let Some((name, text)) = self.held_out.map(quality) {
            let how = "of a run on four fifths of the rows, on the others; --test-split keeps test rows";
            row(&format!("{name} held out"), format!("{text} ({how})"));
        }
        let queries = self.gradient_queries;
        row("work", format!("{} rounds, {queries} gradient queries", self.rounds));
        let parameters = self.parameters.iter().filter(|(name, _)| **name != "rounds");
        let parameters = parameters.map(|(name, value)| match value.parse() {
            Ok(number) => format!("{name} {}", three_digits(number)),
            Err(_) => format!("{name} {value}"),
        });
        row("parameters", parameters.collect::<Vec<_>>().join(", "));
        if let Some(times) = self.times {
            let ranks = self.ranks.map_or_else(String::new, |ranks| format!("{ranks} ranks of "));
            let place = ranks + &plural(self.threads, "thread");
            let Times { seconds, load_seconds, calibration_seconds, .. } = times;
            let preparation = format!("{load_seconds:.3} s loading, {calibration_seconds:.3} s calibration");
            row("time", format!("{seconds:.3} s training on {place} ({preparation})"));
        }
        if let Some(found) = &self.diagnostics {
            let accuracy = found.train_accuracy.map(|share| format!("train accuracy {}, ", percent(share)));
            let null_rows = found.null_rows.filter(|rows| *rows > 0);
            let null_rows = null_rows.map(|rows| format!(", {}", plural(rows, "null row")));
            let text = format!(
                "train loss {:.6}, {}{} of gradients clipped{} ({})",
                found.train_loss,
                accuracy.unwrap_or_default(),
                percent(found.clipped_fraction),
                null_rows.unwrap_or_default(),
                found.note
            );
            row("diagnostics", text);
        }
        for (name, value) in privacy_rows(&self.privacy) {
            row(name, value);
        }
        if let Some(path) = &self.model {
            row("model", path.display().to_string());
            if self.privacy.epsilon.is_some() && !is_npy(path) {
                let file = quoted(&path.to_string_lossy());
                row("", format!("`rounds account --statement {file}` computes ε again"));
            }
        }
        let (begin, end) = self.model_sha256.split_at(32);
        row("model sha256", format!("{begin}\n{end}"));
        table
    }
}
