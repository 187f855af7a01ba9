//! `rounds` beside the libraries that people use: what `bench/peers/run.py` left in `peers/peers.json` of a results
//! folder, as a chart and a table of the report.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series};
use super::format::{count, escape, three_digits, time};
use super::section::{Picture, Section};
use super::tables::{Entry, Table};
use crate::results::SCHEMA;

/// Where the comparison lies below a run's folder.
const FILE: &str = "peers/peers.json";

/// Peers by id, with the name that people know; the order of series and rows.
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

/// Kinds of round by id, with a title.
const KINDS: [(&str, &str); 2] = [("kernel", "given batch"), ("end-to-end", "end to end")];

/// `peers.json`, as far as the report shows it.
#[derive(Debug, Clone, Deserialize)]
struct Document {
    schema: u32,
    date: String,
    command: String,
    threads: usize,
    packages: std::collections::BTreeMap<String, Option<String>>,
    rows: Vec<Row>,
    #[serde(default)]
    skipped: Vec<Skipped>,
}

/// A configuration of a peer.
#[derive(Debug, Clone, Deserialize)]
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
#[derive(Debug, Clone, Copy, Deserialize)]
struct Ratio {
    #[serde(rename = "ratio")]
    times: f64,
    low: f64,
    high: f64,
}

/// What was left out, and why.
#[derive(Debug, Clone, Deserialize)]
struct Skipped {
    peer: String,
    kind: Option<String>,
    batch_size: Option<usize>,
    reason: String,
}

/// A comparison, or why there is none to show.
#[derive(Debug, Clone)]
pub(super) struct Peers(Result<Document, String>);

impl Peers {
    /// The comparison that lies beside a run, if there is one. A damaged file is a message of the page, not its end.
    pub(super) fn beside(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(FILE)).ok()?;
        let document = serde_json::from_str::<Document>(&text)
            .map_err(|error| format!("{FILE} is damaged ({error}); measure again with `make peers`"))
            .and_then(|document| match document.schema {
                SCHEMA => Ok(document),
                found => Err(format!(
                    "{FILE} has schema {found}, this program reads {SCHEMA}; measure again with `make peers`"
                )),
            });
        Some(Self(document))
    }

    /// Time of a round against the batch size, one chart for each kind of round.
    pub(super) fn charts(&self) -> Vec<(String, Chart)> {
        let Ok(document) = &self.0 else { return Vec::new() };
        KINDS
            .iter()
            .filter_map(|(kind, title)| Some(((*title).to_owned(), document.chart(kind, title)?)))
            .collect()
    }

    /// The section: figure, table of every row, and what was left out.
    pub(super) fn section(&self) -> (String, String, String) {
        let (id, link) = ("peers".to_owned(), "Other libraries".to_owned());
        let mut html =
            "<h2>DP-SGD beside other libraries</h2><p class=\"lead\">A DP-SGD round here and in the libraries that \
                        people use, the same work on the same threads in one run of bench/peers/run.py; whiskers are \
                        bootstrap intervals of the median.</p>"
                .to_owned();
        let charts = self.charts();
        if !charts.is_empty() {
            let section = Section {
                id: id.clone(),
                link: link.clone(),
                about: String::new(),
                panels_by: "Kind of round",
                panels: charts
                    .into_iter()
                    .map(|(label, chart)| (label, Picture::of_chart(chart)))
                    .collect(),
                command: "make peers".to_owned(),
            };
            section.figure("DP-SGD beside other libraries", &mut html);
        }
        match &self.0 {
            Ok(document) => document.table(&mut html),
            Err(message) => {
                let _ = write!(html, "<p class=\"notes\">{}</p>", escape(message));
            }
        }
        (id, link, html)
    }
}

impl Document {
    /// Rows of a kind in the order of [`NAMES`], `rounds` by its rows' format.
    fn chart(&self, kind: &str, title: &str) -> Option<Chart> {
        let mut series: Vec<Series> = Vec::new();
        for (id, name) in NAMES {
            for features in ["u8", "f32"] {
                let mut rows: Vec<&Row> = self
                    .rows
                    .iter()
                    .filter(|row| {
                        row.peer == *id
                            && row.features == features
                            && row.kind == kind
                            && row.threads == self.threads
                            && row.median_ms > 0.0
                    })
                    .collect();
                if rows.is_empty() {
                    continue;
                }
                rows.sort_by_key(|row| row.batch_size);
                let name = if *id == "rounds" {
                    format!("{name}, {features}")
                } else {
                    (*name).to_owned()
                };
                series.push(Series {
                    points: rows.iter().map(|row| row.point(&name)).collect(),
                    name,
                    drawing: Drawing::Line,
                    colour: series.len(),
                    variant: usize::from(series.len() >= super::chart::SERIES_COLOURS),
                });
            }
        }
        let axis = |label: &str, format: fn(f64) -> String, ticks: Vec<f64>| Axis {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
            format,
            ticks,
            include: Vec::new(),
        };
        let mut sizes: Vec<usize> = self
            .rows
            .iter()
            .filter(|row| row.kind == kind)
            .map(|row| row.batch_size)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes = sizes.into_iter().map(|size| size as f64).collect();
        (!series.is_empty()).then(|| Chart {
            title: "DP-SGD beside other libraries".to_owned(),
            subtitle: format!(
                "softmax, d = 784, K = 10, {}, {title}; {} ({})",
                super::figures::threads_name(self.threads),
                self.command,
                self.date
            ),
            x: axis("batch size B", count, sizes),
            y: axis("time of a round", time, Vec::new()),
            series,
        })
    }

    fn table(&self, html: &mut String) {
        let packages: Vec<String> = self
            .packages
            .iter()
            .filter_map(|(name, version)| Some(format!("{name} {}", version.as_ref()?)))
            .collect();
        let _ = write!(
            html,
            "<p class=\"lead\">The same round, softmax with d = 784 and K = 10, clip norm 1, noise drawn in each round, on the \
             same threads in one run ({}), by <code>{}</code>; end to end includes each one's own Poisson sampler \
             and loader. The last columns say how many times a round of \
             <code>rounds</code> fits in, on rows of bytes and of f32, with bootstrap intervals.</p>",
            escape(&packages.join(", ")),
            escape(&self.command)
        );
        let mut table = Table::new(vec![
            ("peer", false),
            ("round", false),
            ("rows", false),
            ("batch", true),
            ("threads", true),
            ("time per round", true),
            ("from", true),
            ("to", true),
            ("× rounds u8", true),
            ("× rounds f32", true),
        ]);
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let place = |row: &Row| NAMES.iter().position(|(id, _)| *id == row.peer).unwrap_or(NAMES.len());
        rows.sort_by_key(|row| (row.kind != KINDS[0].0, row.batch_size, place(row), row.threads));
        let milliseconds = |value: f64| Entry::number(Some(value * 1e6), time);
        for row in rows {
            table.row(vec![
                Entry::text(named(&row.peer)),
                Entry::text(kind_named(&row.kind)),
                Entry::text(&row.features),
                Entry::number(Some(row.batch_size as f64), count),
                Entry::number(Some(row.threads as f64), count),
                milliseconds(row.median_ms),
                milliseconds(row.low_ms),
                milliseconds(row.high_ms),
                ratio(row.ratio_u8),
                ratio(row.ratio_f32),
            ]);
        }
        html.push_str(&table.html(Some("peers-rows"), "DP-SGD beside other libraries", true));
        if !self.skipped.is_empty() {
            html.push_str("<h3>Left out</h3><ul>");
            for skipped in &self.skipped {
                let of = match (&skipped.kind, skipped.batch_size) {
                    (Some(kind), Some(size)) => format!(", {}, batches of {}", kind_named(kind), count(size as f64)),
                    _ => String::new(),
                };
                let line = format!("{}{of}: {}", named(&skipped.peer), skipped.reason);
                let _ = write!(html, "<li>{}</li>", escape(&line));
            }
            html.push_str("</ul>");
        }
    }
}

impl Row {
    fn point(&self, name: &str) -> Point {
        let ratio = self.ratio_u8.map_or_else(String::new, |ratio| {
            format!("\n{} × rounds u8", three_digits(ratio.times))
        });
        Point {
            x: self.batch_size as f64,
            y: self.median_ms * 1e6,
            whisker: Some((self.low_ms * 1e6, self.high_ms * 1e6)),
            note: format!(
                "{name}\nB = {}: {}{ratio}",
                count(self.batch_size as f64),
                time(self.median_ms * 1e6)
            ),
        }
    }
}

/// A ratio with its interval.
fn ratio(ratio: Option<Ratio>) -> Entry {
    Entry::number(ratio.map(|ratio| ratio.times), |value| {
        let interval = ratio.map_or_else(String::new, |ratio| {
            format!(" ({} – {})", three_digits(ratio.low), three_digits(ratio.high))
        });
        format!("{}{interval}", three_digits(value))
    })
}

/// A peer's name; an unknown one keeps its id.
fn named(peer: &str) -> &str {
    NAMES.iter().find(|(id, _)| *id == peer).map_or(peer, |(_, name)| name)
}

fn kind_named(kind: &str) -> &str {
    KINDS
        .iter()
        .find(|(id, _)| *id == kind)
        .map_or(kind, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("peers")).unwrap();
        fs::write(folder.path().join(FILE), text).unwrap();
        folder
    }

    /// What the script writes, shortened.
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
    fn a_folder_without_a_comparison_has_none() {
        assert!(Peers::beside(tempfile::tempdir().unwrap().path()).is_none());
    }

    #[test]
    fn rows_become_series_of_the_most_threads_and_a_table_of_all() {
        let folder = folder(WRITTEN);
        let peers = Peers::beside(folder.path()).unwrap();
        let charts = peers.charts();
        assert_eq!(charts.len(), 1, "no end-to-end row, no chart of it");
        let names: Vec<&str> = charts[0].1.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["rounds, u8", "JAX, closed form"]);
        assert!((charts[0].1.series[0].points[0].y - 49_500.0).abs() < 1e-6);
        let html = peers.section().2;
        let (_, behind_the_figure) = html.split_once("</figure>").unwrap();
        assert_eq!(behind_the_figure.matches("<tr>").count(), 1 + 3);
        assert!(
            html.contains(">5.25 (5 – 5.5)</td>") && html.contains(">49.5 µs</td>"),
            "{html}"
        );
        assert!(html.contains("JAX, vmap of grad, given batch, batches of 60\u{202f}000: about 9 s a round"));
        assert!(html.contains("No module &amp; nothing") && html.contains("run.py &lt;b&gt;") && !html.contains("<b>"));
    }

    #[test]
    fn a_damaged_or_older_file_is_a_message() {
        for (text, expected) in [
            ("{\"schema\": 1, \"rows\": [", "peers/peers.json is damaged"),
            (&WRITTEN.replace("\"schema\": 1", "\"schema\": 0"), "has schema 0"),
        ] {
            let folder = folder(text);
            let peers = Peers::beside(folder.path()).unwrap();
            assert!(peers.charts().is_empty());
            assert!(peers.section().2.contains(expected), "{}", peers.section().2);
        }
    }
}
