//! A card for every algorithm of the catalogue: where it comes from, what it promises, the privacy statement of the runs
//! that were measured, and what a round of it cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rounds_algorithms::catalog::ALGORITHMS;
use rounds_algorithms::optimizers::Algorithm;
use serde_json::Value;

use super::format::{count, escape, percent, some, three_digits, time};
use super::labels::parameters;
use super::tables::{Entry, Table, about_roofline, spread};
use crate::machine::Environment;
use crate::results::{Phases, Pooled};

/// The anchor of an algorithm's card.
pub(super) fn anchor(algorithm: &str) -> String {
    format!("algorithm-{algorithm}")
}

/// The fields of a privacy statement in the order in which they are read, with what they are called.
const STATEMENT: &[(&str, &str)] = &[
    ("claim", "claim"),
    ("epsilon", "ε"),
    ("delta", "δ"),
    ("adjacency", "adjacency"),
    ("unit", "unit"),
    ("accountant", "accountant"),
    ("sampling", "sampling"),
    ("mechanism", "mechanism"),
    ("noise_multiplier", "noise multiplier"),
    ("clip_norm", "clip norm"),
    ("noise_source", "noise source"),
    ("arithmetic", "arithmetic"),
    ("reason", "reason"),
    ("notes", "notes"),
];

/// The cards as the inside of a section: measured algorithms and those of the catalogue that this run left out.
pub(super) fn cards(cells: &[Pooled], environment: &Environment) -> String {
    let of = |id: &str| -> Vec<&Pooled> {
        cells
            .iter()
            .filter(|cell| cell.configuration().algorithm == id)
            .collect()
    };
    let measured = ALGORITHMS
        .iter()
        .filter(|algorithm| !of(algorithm.id).is_empty())
        .count();
    let mut html = format!(
        "<h2>Algorithms</h2><p class=\"lead\">Every algorithm of the catalogue: its source, its promise, what the measured \
         runs guarantee, and what a round cost. {measured} of {} are measured here.{}</p>",
        ALGORITHMS.len(),
        about_roofline(cells, environment)
    );
    if measured > 0 {
        html.push_str("<p class=\"circumstances\">Phases:");
        for (part, (name, _)) in parts(&Phases::default()).iter().enumerate() {
            let comma = if part == 0 { "" } else { "," };
            let _ = write!(html, "{comma} <i class=\"key s{part}\"></i>{name}");
        }
        html.push_str("</p>");
    }
    html.push_str("<div class=\"cards\">");
    for algorithm in ALGORITHMS {
        card(algorithm, &of(algorithm.id), &mut html);
    }
    // Results may hold algorithms of another version's catalogue.
    let known: BTreeSet<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.id).collect();
    let others: BTreeSet<&str> = cells
        .iter()
        .map(|cell| cell.configuration().algorithm.as_str())
        .filter(|id| !known.contains(id))
        .collect();
    for id in others {
        let _ = write!(
            html,
            "<article class=\"card\" id=\"{}\"><h3>{}</h3><p class=\"promise\">This program's catalogue does not have it.</p>",
            escape(&anchor(id)),
            escape(id)
        );
        measurements(id, &of(id), &mut html);
        html.push_str("</article>");
    }
    html.push_str("</div>");
    html
}

fn card(algorithm: &Algorithm, cells: &[&Pooled], html: &mut String) {
    let _ = write!(
        html,
        "<article class=\"card\" id=\"{}\"><h3>{} <code>{}</code></h3><p class=\"promise\">{}</p><dl>",
        anchor(algorithm.id),
        escape(algorithm.name),
        algorithm.id,
        escape(algorithm.promise)
    );
    let mut row = |name: &str, value: &str| {
        let long = if value.chars().count() > LONG {
            " class=\"long\""
        } else {
            ""
        };
        let _ = write!(
            html,
            "<div{long}><dt>{}</dt><dd>{}</dd></div>",
            escape(name),
            escape(value)
        );
    };
    row("source", algorithm.source);
    if cells.is_empty() {
        html.push_str("</dl>");
        let _ = write!(
            html,
            "<p class=\"quiet\">Not measured in this run: <code>rounds run --algorithms {}</code></p></article>",
            algorithm.id
        );
        return;
    }
    for (name, value) in statement(cells) {
        row(name, &value);
    }
    html.push_str("</dl>");
    measurements(algorithm.id, cells, html);
    if !algorithm.parameters.is_empty() {
        html.push_str("<details><summary>Its own parameters</summary><dl>");
        for (key, about) in algorithm.parameters {
            let _ = write!(
                html,
                "<div><dt>--set {}=</dt><dd>{}</dd></div>",
                escape(key),
                escape(about)
            );
        }
        html.push_str("</dl></details>");
    }
    html.push_str("</article>");
}

/// Longer values have a row for themselves.
const LONG: usize = 44;

/// The privacy statement of all these runs: a value that they share as it is, numbers that differ as a range, words that
/// differ side by side.
fn statement(cells: &[&Pooled]) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for (field, name) in STATEMENT {
        let values: Vec<&Value> = cells
            .iter()
            .filter_map(|cell| cell.cell.privacy.get(field))
            .filter(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
            .collect();
        if values.is_empty() {
            continue;
        }
        let value = if let Some(numbers) = values.iter().map(|value| value.as_f64()).collect::<Option<Vec<_>>>() {
            let (low, high) = numbers
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &number| {
                    (low.min(number), high.max(number))
                });
            let (low, high) = (number(low), number(high));
            if low == high { low } else { format!("{low} to {high}") }
        } else {
            let mut words: Vec<String> = Vec::new();
            for text in values.iter().flat_map(|value| texts(value)) {
                // The number of rounds is in the table below.
                if !words.contains(&text) {
                    words.push(text);
                }
            }
            let more = words.len().saturating_sub(SIDE_BY_SIDE);
            words.truncate(SIDE_BY_SIDE);
            let more = if more > 0 {
                format!("; and {more} like it")
            } else {
                String::new()
            };
            format!("{}{more}", words.join("; "))
        };
        rows.push((*name, value));
    }
    rows
}

/// More different words than these are counted instead.
const SIDE_BY_SIDE: usize = 2;

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::String(text) => vec![text.split(' ').map(rounded).collect::<Vec<_>>().join(" ")],
        other => vec![other.to_string()],
    }
}

/// A word of a statement; numbers with many decimals are cut to three digits, as everywhere on the page.
fn rounded(word: &str) -> String {
    let number = word.trim_end_matches([',', ';', ')', '.']);
    match number.split_once('.') {
        Some((_, decimals)) if decimals.len() > 4 => match number.parse::<f64>() {
            Ok(value) => format!("{}{}", three_digits(value), &word[number.len()..]),
            Err(_) => word.to_owned(),
        },
        _ => word.to_owned(),
    }
}

fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        format!("{value:e}")
    } else {
        three_digits(value)
    }
}

/// What a round cost, by data, batch size and threads.
fn measurements(id: &str, cells: &[&Pooled], html: &mut String) {
    // A method that reads no batch size asks as many queries as it needs; the suite's number says nothing of it.
    let chooses = ALGORITHMS
        .iter()
        .any(|algorithm| algorithm.id == id && !algorithm.reads("--batch-size"));
    let data: BTreeSet<String> = cells.iter().map(|cell| super::figures::dataset_name(cell)).collect();
    let sets: BTreeSet<String> = cells.iter().map(|cell| parameters(cell.configuration())).collect();
    let shown = |differ: bool, column: (&'static str, bool)| differ.then_some(column);
    let columns = [
        shown(data.len() > 1, ("data", false)),
        shown(sets.len() > 1, ("parameters", false)),
        Some(("B", true)),
        Some(("threads", true)),
        Some(("time per round", true)),
        Some(("95 % interval", true)),
        Some(("phases", true)),
        Some(("queries per round", true)),
        Some(("rounds per epoch", true)),
        Some(("of roofline", true)),
    ];
    let mut table = Table::new(columns.into_iter().flatten().collect());
    let mut sorted: BTreeMap<(String, String, usize, usize), &Pooled> = BTreeMap::new();
    for cell in cells {
        let configuration = cell.configuration();
        let key = (
            super::figures::dataset_name(cell),
            configuration.key(),
            configuration.batch_size,
            configuration.threads,
        );
        sorted.insert(key, cell);
    }
    let mut sorted: Vec<&Pooled> = sorted.into_values().collect();
    sorted.sort_by_key(|cell| {
        let configuration = cell.configuration();
        (
            super::figures::dataset_name(cell),
            parameters(configuration),
            configuration.batch_size,
            configuration.threads,
        )
    });
    for pooled in sorted {
        let (cell, configuration) = (&pooled.cell, pooled.configuration());
        let queries = cell.gradient_queries as f64 / cell.rounds.max(1) as f64;
        let entries = [
            (data.len() > 1).then(|| Entry::text(&super::figures::dataset_name(pooled))),
            (sets.len() > 1).then(|| Entry::text(&parameters(configuration))),
            Some(if chooses {
                Entry::text("its own")
            } else {
                Entry::number(Some(configuration.batch_size as f64), count)
            }),
            Some(Entry::text(
                &super::figures::place_name(configuration)
                    .replace(" threads", "")
                    .replace(" thread", ""),
            )),
            Some(Entry::number(Some(pooled.median()), time)),
            Some(spread(pooled.interval.low, pooled.interval.high)),
            Some(phases(&cell.phases_ns)),
            Some(Entry::number(Some(queries), some)),
            Some(Entry::number(
                Some(cell.n as f64 / configuration.batch_size.max(1) as f64),
                three_digits,
            )),
            Some(Entry::meter(cell.roofline_fraction)),
        ];
        table.row(entries.into_iter().flatten().collect());
    }
    html.push_str(&table.html(
        Some(&format!("cost-{id}")),
        &format!("What a round of {id} cost"),
        false,
    ));
}

/// The phases of a round by name, in the order and the colours of their figure.
fn parts(phases: &Phases) -> [(&'static str, u64); 4] {
    [
        ("sampling", phases.sample),
        ("gradient", phases.gradient),
        ("noise", phases.noise),
        ("update", phases.update),
    ]
}

/// The phases of a round as a small bar and, for those who point at it or cannot see it, in words.
fn phases(phases: &Phases) -> Entry {
    let values = parts(phases);
    let total: u64 = values.iter().map(|(_, value)| value).sum();
    if total == 0 {
        return Entry::text("");
    }
    let share = |value: u64| value as f64 / total as f64;
    let words: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name} {} ({})", percent(share(*value)), time(*value as f64)))
        .collect();
    let words = words.join(", ");
    let bars = values
        .iter()
        .enumerate()
        .fold(String::new(), |mut html, (part, (_, value))| {
            let _ = write!(
                html,
                "<i class=\"s{part}\" style=\"width:{:.1}%\"></i>",
                100.0 * share(*value)
            );
            html
        });
    Entry::html(
        format!("<span class=\"phases\" role=\"img\" aria-label=\"{words}\" title=\"{words}\">{bars}</span>"),
        Some(share(phases.gradient)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{pool, store_tests::cell};

    #[test]
    fn every_algorithm_of_the_catalogue_has_one_card_and_measured_ones_their_cost() {
        let cells = pool(&[
            cell("dp-sgd", 64, 1, 0),
            cell("dp-sgd", 500, 2, 0),
            cell("sgd", 64, 1, 0),
        ]);
        let html = cards(&cells, &Environment::capture(&[]));
        for algorithm in ALGORITHMS {
            let id = format!("id=\"{}\"", anchor(algorithm.id));
            assert_eq!(html.matches(&id).count(), 1, "{id}");
        }
        assert!(html.contains("id=\"cost-dp-sgd\"") && !html.contains("id=\"cost-dp-ftrl\""));
        assert!(html.contains("rounds run --algorithms dp-ftrl"));
        let card = html
            .split("<article")
            .find(|card| card.contains("algorithm-dp-sgd\""))
            .unwrap();
        for text in [
            "claim",
            "simulation",
            "adjacency",
            "95 % interval",
            "queries per round",
            "of roofline",
            "gradient 87.4 %",
        ] {
            assert!(card.contains(text), "{text} in {card}");
        }
    }

    #[test]
    fn what_differs_between_runs_is_a_range_or_stands_side_by_side() {
        let mut cells = vec![cell("dp-sgd", 64, 1, 0), cell("dp-sgd", 500, 1, 0)];
        cells[0].privacy = serde_json::json!({"noise_multiplier": 0.5, "mechanism": "a", "delta": 1e-5, "notes": []});
        cells[1].privacy = serde_json::json!({"noise_multiplier": 2.0, "mechanism": "b", "delta": 1e-5});
        let pooled = pool(&cells);
        let rows: BTreeMap<_, _> = statement(&pooled.iter().collect::<Vec<_>>()).into_iter().collect();
        assert_eq!(rows["noise multiplier"], "0.5 to 2");
        assert_eq!(rows["mechanism"], "a; b");
        assert_eq!(rounded("2.34567890;"), "2.35;");
        assert_eq!(rows["δ"], "1e-5");
        assert!(!rows.contains_key("notes"));
    }
}
