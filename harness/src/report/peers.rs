//! The comparison with other libraries: `peers.json` of `bench/peers/run.py` as a presentation.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::chart::{Axis, COLOURS, Chart, Format, Point, Scale, Series, Style};
use super::presentation::{Figure, Panel, Part, Presentation};
use super::table::{Entry, Table};
use crate::format::{count, plural, three_digits, time};
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
    rows: Vec<Row>,
    #[serde(default)]
    skipped: Vec<Skipped>,
}

#[derive(Deserialize)]
struct Row {
    peer: String,
    features: String,
    kind: String,
    batch_size: usize,
    threads: usize,
    median_ms: f64,
    low_ms: f64,
    high_ms: f64,
    ratio_u8: Option<Ratio>,
    ratio_f32: Option<Ratio>,
}

/// A peer's time over that of `rounds`, with its bootstrap interval.
#[derive(Clone, Copy, Deserialize)]
struct Ratio {
    #[serde(rename = "ratio")]
    value: f64,
    low: f64,
    high: f64,
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
    let panel = |(kind, name): &(&str, &str)| Some(Panel::chart(name, "", document.chart(kind, name)?));
    let panels: Vec<Panel> = KINDS.iter().filter_map(panel).collect();
    let figure = (!panels.is_empty()).then(|| Part::Figure(Figure::new(title, "Kind of round", panels)));
    presentation.parts.extend(figure);
    presentation.parts.push(Part::Table(document.table(title)));
    if !document.skipped.is_empty() {
        let lines = document.skipped.iter().map(Skipped::line).collect();
        presentation.parts.extend([Part::Heading("Left out".to_owned()), Part::List(lines)]);
    }
    Ok(presentation)
}

impl Document {
    /// Time of a round against the batch size; one series a peer, two of `rounds` by the format of its rows.
    fn chart(&self, kind: &str, kind_name: &str) -> Option<Chart> {
        let of_kind = || self.rows.iter().filter(|row| row.kind == kind);
        let mut series: Vec<Series> = Vec::new();
        for (id, name) in NAMES {
            for features in ["u8", "f32"] {
                let shown = |row: &&Row| row.peer == *id && row.features == features && row.threads == self.threads;
                let mut rows: Vec<&Row> = of_kind().filter(shown).filter(|row| row.median_ms > 0.0).collect();
                rows.sort_by_key(|row| row.batch_size);
                let name = match *id {
                    "rounds" => format!("{name}, {features}"),
                    _ => (*name).to_owned(),
                };
                let points: Vec<Point> = rows.iter().map(|row| row.point(&name)).collect();
                let place = series.len();
                let own = Series::new(name, Style::Line, place, points).variant(usize::from(place >= COLOURS));
                series.extend((!rows.is_empty()).then_some(own));
            }
        }
        let sizes: BTreeSet<usize> = of_kind().map(|row| row.batch_size).collect();
        let threads = plural(self.threads, "thread");
        let (command, date) = (&self.command, &self.date);
        let subtitle = format!("softmax, d = 784, K = 10, {threads}, {kind_name}; {command} ({date})");
        let sizes = sizes.iter().map(|&size| size as f64);
        let x = Axis::new("batch size B", Scale::Logarithmic, Format::Count).ticks(sizes);
        let y = Axis::new("time of a round", Scale::Logarithmic, Format::Time);
        (!series.is_empty()).then(|| Chart::new("DP-SGD compared with other libraries", subtitle, x, y, series))
    }

    fn table(&self, title: &str) -> Table {
        let columns = "peer|round|rows|#batch|#threads|#time per round|#from|#to|#× rounds u8|#× rounds f32";
        let mut table = Table::new(title, columns);
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let place = |row: &Row| NAMES.iter().position(|(id, _)| *id == row.peer).unwrap_or(NAMES.len());
        rows.sort_by_key(|row| (row.kind != KINDS[0].0, row.batch_size, place(row), row.threads));
        let milliseconds = |value: f64| Entry::number(value * 1e6, time);
        let ratio = |ratio: Option<Ratio>| {
            ratio.map_or_else(Entry::default, |Ratio { value, low, high }| {
                let [text, low, high] = [value, low, high].map(three_digits);
                Entry::sorted(format!("{text} ({low} – {high})"), value)
            })
        };
        for row in rows {
            table.row([
                Entry::text(named(NAMES, &row.peer)),
                Entry::text(named(KINDS, &row.kind)),
                Entry::text(&row.features),
                Entry::count(row.batch_size),
                Entry::count(row.threads),
                milliseconds(row.median_ms),
                milliseconds(row.low_ms),
                milliseconds(row.high_ms),
                ratio(row.ratio_u8),
                ratio(row.ratio_f32),
            ]);
        }
        table
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

impl Row {
    fn point(&self, name: &str) -> Point {
        let ratio = self.ratio_u8.map_or_else(String::new, |own| format!("\n{} × rounds u8", three_digits(own.value)));
        let (size, median) = (self.batch_size as f64, self.median_ms * 1e6);
        let note = format!("{name}\nB = {}: {}{ratio}", count(size), time(median));
        Point::new(size, median, note).interval(self.low_ms * 1e6, self.high_ms * 1e6)
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
    use crate::report::presentation::Picture;

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
        let [Part::Figure(figure), Part::Table(table), Part::Heading(_), Part::List(left_out)] =
            &presentation.parts[..]
        else {
            panic!("a figure, a table and a list");
        };
        assert_eq!(figure.panels.len(), 1, "without end-to-end rows there is no chart of them");
        let Picture::Chart(chart) = &figure.panels[0].picture else { panic!("a chart") };
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
