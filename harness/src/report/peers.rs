//! The comparison with other libraries: `peers.json` of `bench/peers/run.py` as a presentation.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::drawing::declared::Show;
use crate::drawing::presentation::{Part, Presentation};
use crate::format::{count, plural, three_digits};
use crate::results::SCHEMA;

pub(super) const FILE: &str = "peers.json";

/// Peers by id, with their names, in the order of series and rows.
const NAMES: &[(&str, &str)] = &[
    ("rounds", "rounds"),
    ("jax-closed-form", "JAX, closed form"),
    ("jax-vmap", "JAX, vmap of grad"),
    ("numpy-whole", "NumPy, whole batch"),
    ("numpy-blocked", "NumPy, blocks on threads"),
    ("torch-closed-form", "torch, closed form"),
    ("opacus-hooks", "Opacus, hooks"),
    ("opacus-ghost", "Opacus, ghost clipping"),
    ("jax-privacy", "jax-privacy, defaults"),
    ("jax-privacy-micro-batched", "jax-privacy, micro-batched"),
];

/// Kinds of round by id, with their names.
const KINDS: &[(&str, &str)] = &[("kernel", "given batch"), ("end-to-end", "end to end")];

/// The fields of `peers.json` that the report shows.
#[derive(Deserialize)]
struct Document {
    schema: u32,
    date: String,
    command: String,
    threads: usize,
    packages: BTreeMap<String, Option<String>>,
    rows: Vec<Value>,
    #[serde(default)]
    skipped: Vec<Skipped>,
}

/// A configuration that was left out, with the reason.
#[derive(Deserialize)]
struct Skipped {
    peer: String,
    kind: Option<String>,
    batch_size: Option<usize>,
    reason: String,
}

/// The presentation of a comparison.
///
/// # Errors
/// A damaged file, or one of another schema.
pub(super) fn presentation(text: &str) -> Result<Presentation, String> {
    let document: Document = serde_json::from_str(text)
        .map_err(|error| format!("{FILE} is damaged ({error}); measure again with `make peers`"))?;
    if document.schema != SCHEMA {
        let found = document.schema;
        let problem = format!("has schema {found}, this program reads {SCHEMA}; measure again with `make peers`");
        return Err(format!("{FILE} {problem}"));
    }
    let version = |(name, version): (&String, &Option<String>)| Some(format!("{name} {}", version.as_ref()?));
    let packages: Vec<String> = document.packages.iter().filter_map(version).collect();
    let about = format!(
        "The same DP-SGD round here and in other libraries: softmax with d = 784 and K = 10, clip norm 1, noise drawn in each \
         round, on the same threads in one run ({}) of {}. End to end includes each library's own Poisson sampler and loader. \
         Error bars are bootstrap intervals of the median. The last columns say how many rounds of this program take as long, \
         on rows of bytes and of f32.",
        packages.join(", "),
        document.command
    );
    let title = "DP-SGD compared with other libraries";
    let mut presentation = Presentation::new(title, "Other libraries", &about);
    "make peers".clone_into(&mut presentation.command);
    let show: Show = toml::from_str(include_str!("peers.toml")).expect("a test draws it");
    presentation.parts = show.parts(title, &document.lines());
    if !document.skipped.is_empty() {
        let lines = document.skipped.iter().map(Skipped::line).collect();
        presentation.parts.extend([Part::Heading("Left out".to_owned()), Part::List(lines)]);
    }
    Ok(presentation)
}

impl Document {
    /// The rows by kind, batch size and peer, with names; times in nanoseconds, and ratios to `rounds` as texts.
    fn lines(&self) -> Vec<Value> {
        let word = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let place = |row: &Value| NAMES.iter().position(|(id, _)| *id == word(row, "peer")).unwrap_or(NAMES.len());
        let number = |row: &Value, field: &str| row[field].as_u64();
        let mut rows = self.rows.clone();
        rows.sort_by_key(|row| {
            let kind = word(row, "kind") != KINDS[0].0;
            (kind, number(row, "batch_size"), place(row), number(row, "threads"))
        });
        let ratio = |ratio: &Value| {
            let [value, low, high] = ["ratio", "low", "high"].map(|name| ratio[name].as_f64().map(three_digits));
            Some(format!("{} ({} – {})", value?, low?, high?))
        };
        for row in &mut rows {
            let (peer, features) = (word(row, "peer"), word(row, "features"));
            let name = named(NAMES, &peer).to_owned();
            row["series"] = if peer == "rounds" { format!("{name}, {features}") } else { name.clone() }.into();
            row["name"] = name.into();
            row["round"] = named(KINDS, &word(row, "kind")).into();
            row["shown"] = (number(row, "threads") == Some(self.threads as u64)).into();
            row["u8"] = ratio(&row["ratio_u8"]).into();
            row["f32"] = ratio(&row["ratio_f32"]).into();
            row["circumstances"] = format!(
                "softmax, d = 784, K = 10, {}; {} ({})",
                plural(self.threads, "thread"),
                self.command,
                self.date
            )
            .into();
        }
        rows
    }
}

impl Skipped {
    fn line(&self) -> String {
        let batch = match (&self.kind, self.batch_size) {
            (Some(kind), Some(size)) => format!(", {}, batches of {}", named(KINDS, kind), count(size as f64)),
            _ => String::new(),
        };
        format!("{}{batch}: {}", named(NAMES, &self.peer), self.reason)
    }
}

/// The name of an id; an unknown one stays.
fn named<'a>(names: &[(&str, &'a str)], wanted: &'a str) -> &'a str {
    let found = names.iter().find(|(id, _)| *id == wanted);
    found.map_or(wanted, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shortened file of the script.
    const WRITTEN: &str = r#"{"schema": 1, "date": "2026-01-31T12:00:00Z", "command": "bench/peers/run.py <b>", "threads": 2,
        "packages": {"jax": "0.12.0", "torch": null},
        "rows": [
            {"peer": "jax-closed-form", "features": "f32", "kind": "kernel", "batch_size": 500, "threads": 2,
             "median_ms": 0.26, "low_ms": 0.25, "high_ms": 0.28, "samples_ms": [0.26], "chosen": "rows",
             "ratio_u8": {"ratio": 5.25, "low": 5.0, "high": 5.5}},
            {"peer": "rounds", "features": "u8", "kind": "kernel", "batch_size": 500, "threads": 2,
             "median_ms": 0.0495, "low_ms": 0.049, "high_ms": 0.05, "samples_ms": [0.0495]},
            {"peer": "rounds", "features": "u8", "kind": "kernel", "batch_size": 500, "threads": 1,
             "median_ms": 0.099, "low_ms": 0.09, "high_ms": 0.1, "samples_ms": [0.099]}],
        "skipped": [{"peer": "jax-vmap", "kind": "kernel", "batch_size": 60000, "reason": "about 9 s a round"},
                    {"peer": "dp-accounting", "kind": null, "batch_size": null, "reason": "No module & nothing"}],
        "checks": [], "accounting": [], "samplers": []}"#;

    #[test]
    fn rows_become_series_of_the_most_threads_and_a_table_of_all() {
        let presentation = presentation(WRITTEN).unwrap();
        let [Part::Figure(figure), Part::Heading(_), Part::Table(table), Part::Heading(_), Part::List(left_out)] =
            &presentation.parts[..]
        else {
            panic!("a figure, a table and a list");
        };
        assert_eq!(figure.panels.len(), 1, "without end-to-end rows there is no chart of them");
        let chart = &figure.panels[0].chart;
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["rounds, u8", "JAX, closed form"]);
        assert!((chart.series[0].points[0].y - 49_500.0).abs() < 1e-6);
        assert_eq!(table.rows.len(), 3);
        let html = presentation.body("peers", false).into_string();
        assert!(html.contains(">5.25 (5 – 5.5)</td>") && html.contains(">49.5 µs</td>"), "{html}");
        let line = "JAX, vmap of grad, given batch, batches of 60\u{202f}000: about 9 s a round";
        assert_eq!(left_out[0], line);
        assert!(html.contains("No module &amp; nothing") && html.contains("run.py &lt;b&gt;") && !html.contains("<b>"));
    }

    #[test]
    fn a_damaged_or_older_file_is_refused() {
        let older = WRITTEN.replace("\"schema\": 1", "\"schema\": 0");
        for (text, expected) in [("{\"schema\": 1, \"rows\": [", "is damaged"), (&older, "has schema 0")] {
            assert!(presentation(text).unwrap_err().contains(expected));
        }
    }
}
