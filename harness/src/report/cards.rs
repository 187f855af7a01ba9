//! A card for every algorithm of the catalogue: source, promise, the privacy statement of the measured runs, and the cost of
//! a round.

use std::collections::BTreeSet;

use maud::{Markup, html};
use rounds_algorithms::catalog::ALGORITHMS;
use rounds_algorithms::optimizers::Algorithm;
use serde_json::Value;

use super::cells::of_algorithm;
use super::figures::algorithms;
use super::labels::{anchor, phases, symbol};
use crate::format::{rounded, three_digits};
use crate::grouping::distinct;
use crate::results::{Phases, Pooled};

/// The fields of a privacy statement in the order of the card.
const STATEMENT: &str = "claim epsilon delta adjacency unit accountant sampling mechanism noise_multiplier clip_norm noise_source \
                         arithmetic reason notes";

/// The cards as the inside of a section: measured algorithms and the others of the catalogue.
pub(super) fn cards(cells: &[Pooled]) -> Markup {
    let of = |id: &str| -> Vec<&Pooled> {
        let own = |cell: &&Pooled| cell.configuration().algorithm == id;
        cells.iter().filter(own).collect()
    };
    let measured = ALGORITHMS.iter().filter(|algorithm| !of(algorithm.id).is_empty()).count();
    // Results may have algorithms of another version's catalogue.
    let known: BTreeSet<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.id).collect();
    html! {
        p.lead {
            "Every algorithm of the catalogue: its source, its promise, the guarantee of the measured runs, and the cost of a \
            round. " (measured) " of " (ALGORITHMS.len()) " are measured here."
        }
        @if measured > 0 {
            p.circumstances {
                "Phases:"
                @for (part, (name, _)) in phases(&Phases::default()).iter().enumerate() {
                    @if part > 0 { "," } " " i class={ "key s" (part) } {} (name)
                }
            }
        }
        div.cards {
            @for algorithm in ALGORITHMS { (card(algorithm, &of(algorithm.id))) }
            @for id in algorithms(cells).difference(&known) {
                details.card id=(anchor(id)) {
                    summary { h3 { (id) } }
                    p.promise { "The catalogue of this program does not contain it." }
                    (of_algorithm(id, &of(id)).html(&format!("cost-{id}"), false))
                }
            }
        }
    }
}

fn card(algorithm: &Algorithm, cells: &[&Pooled]) -> Markup {
    let id = algorithm.id;
    html! {
        details.card id=(anchor(id)) {
            summary { h3 { (algorithm.name) " " code { (id) } } }
            p.promise { (rounded(algorithm.promise)) }
            dl {
                @for (name, value) in std::iter::once(("source".to_owned(), algorithm.source.to_owned())).chain(statement(cells)) {
                    div.long[value.chars().count() > LONG] { dt { (name) } dd { (value) } }
                }
            }
            @if cells.is_empty() {
                p.quiet { "Not measured in this run: " code { "rounds run --algorithms " (id) } }
            } @else {
                (of_algorithm(id, cells).html(&format!("cost-{id}"), false))
                details {
                    summary { "Parameters" }
                    dl {
                        @for parameter in algorithm.parameters() {
                            div { dt { (parameter.name) } dd { (parameter.help()) } }
                        }
                    }
                }
            }
        }
    }
}

/// Longer values have a row of their own.
const LONG: usize = 44;
/// Number of different texts that are listed; of more, the number is given.
const LISTED: usize = 2;

/// The privacy statement of several runs: shared values, ranges of different numbers, lists of different texts.
fn statement(cells: &[&Pooled]) -> Vec<(String, String)> {
    let is_given = |value: &&Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
    let row = |field: &str| {
        let values = cells.iter().filter_map(|cell| cell.cell.privacy.get(field));
        let values: Vec<&Value> = values.filter(is_given).collect();
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
        let text = if let Some(numbers) = numbers {
            let low = number(numbers.iter().copied().reduce(f64::min)?);
            let high = number(numbers.iter().copied().reduce(f64::max)?);
            if low == high { low } else { format!("{low} to {high}") }
        } else {
            let mut words = distinct(values.iter().flat_map(|value| texts(value)));
            let more = match words.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!("; and {more} like it"),
            };
            words.truncate(LISTED);
            words.join("; ") + &more
        };
        Some((symbol(field), text))
    };
    STATEMENT.split(' ').filter_map(row).collect()
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::String(text) => vec![rounded(text)],
        other => vec![other.to_string()],
    }
}

fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:e}") } else { three_digits(value) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{pool, tests::cell};

    #[test]
    fn every_algorithm_has_one_card_and_measured_ones_have_their_cost() {
        let cells = pool(&[cell("dp-sgd", 64, 1, 0), cell("dp-sgd", 500, 2, 0), cell("sgd", 64, 1, 0)]);
        let html = cards(&cells).into_string();
        for algorithm in ALGORITHMS {
            let id = format!("id=\"{}\"", anchor(algorithm.id));
            assert_eq!(html.matches(&id).count(), 1, "{id}");
        }
        assert!(html.contains("id=\"cost-dp-sgd\"") && !html.contains("id=\"cost-dp-ftrl\""));
        assert!(html.contains("rounds run --algorithms dp-ftrl"));
        let card = html.split("<details class=\"card\"").find(|card| card.contains("algorithm-dp-sgd\""));
        let words = "claim|simulation|adjacency|95 % interval|queries per round|of roofline|gradient 87.4 %";
        for text in words.split('|') {
            assert!(card.unwrap().contains(text), "{text} in {card:?}");
        }
    }

    #[test]
    fn different_values_are_a_range_or_a_list() {
        let mut cells = vec![cell("dp-sgd", 64, 1, 0), cell("dp-sgd", 500, 1, 0)];
        cells[0].privacy = serde_json::json!({"noise_multiplier": 0.5, "mechanism": "a", "delta": 1e-5, "notes": []});
        cells[1].privacy = serde_json::json!({"noise_multiplier": 2.0, "mechanism": "b", "delta": 1e-5});
        let pooled = pool(&cells);
        let rows: BTreeMap<_, _> = statement(&pooled.iter().collect::<Vec<_>>()).into_iter().collect();
        assert_eq!(rows["noise multiplier"], "0.5 to 2");
        assert_eq!(rows["mechanism"], "a; b");
        assert_eq!(rounded("rate 2.34567890; of"), "rate 2.35; of");
        assert_eq!(rows["δ"], "1e-5");
        assert!(!rows.contains_key("notes"));
    }
}
