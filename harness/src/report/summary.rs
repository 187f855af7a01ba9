//! The summary of a run for the terminal: one line for each algorithm at the key batch sizes, then warnings, in 80 columns
//! and at most [`LINES`] lines.

use std::collections::BTreeMap;

use super::figures::{by_dataset, is_shown_first, of_most_threads};
use super::labels::{Labels, epsilon};
use super::warnings;
use crate::drawing::table::{Entry, Table};
use crate::format::{count, percent, plural, three_digits, time, wrapped};
use crate::machine::Environment;
use crate::results::{Cell, Pooled, pool};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Batch sizes that are shown: as many columns of times.
const SIZES: usize = 3;
/// Lines in all.
pub(crate) const LINES: usize = 32;
const WARNINGS: usize = 12;

/// The summary of finished cells, with pooled repeats: times of a round on the most threads.
pub(crate) fn summary(cells: &[Cell], environment: &Environment) -> String {
    let pooled = pool(cells);
    let shown = of_most_threads(&pooled);
    let epsilon = epsilon(shown.iter().map(|cell| &cell.cell.privacy));
    let threads = shown.first().map_or(1, |cell| cell.configuration().threads);
    let warned = warnings::lines(&pooled, environment, threads);
    let warned = warned.iter().flat_map(|warning| wrapped(&format!("warning: {warning}"), WIDTH));
    let warned: Vec<String> = warned.take(WARNINGS).collect();
    let datasets = by_dataset(shown);
    // A heading, and a line that counts what is left out.
    let rows = ((LINES - 1 - warned.len()) / datasets.len().max(1)).saturating_sub(2).max(1);
    let tables = datasets.iter().map(|(dataset, cells)| {
        let table = table(dataset, cells);
        let more = table.rows.len().saturating_sub(rows);
        let more = if more > 0 { format!("\nand {more} more: rounds report") } else { String::new() };
        table.excerpt(rows).0 + &more
    });
    let title = format!("Median time of a round on {}; {epsilon}", plural(threads, "thread"));
    [title].into_iter().chain(tables).chain(warned).collect::<Vec<_>>().join("\n")
}

/// A row for each algorithm on a data set: first one of each family, then the others.
fn table(dataset: &str, cells: &[&Pooled]) -> Table {
    let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
    let sizes = key_sizes(cells);
    let mut algorithms: BTreeMap<(bool, String), Vec<&Pooled>> = BTreeMap::new();
    for cell in cells {
        let name = labels.name(cell.configuration());
        algorithms.entry((!is_shown_first(&name), name)).or_default().push(cell);
    }
    let times: String = sizes.iter().map(|size| format!("|#B = {}", count(*size as f64))).collect();
    let mut table = Table::new(dataset, &format!("{dataset}{times}|#accuracy|#ε"));
    for ((_, name), cells) in algorithms {
        let median = |size: &usize| {
            let cell = cells.iter().find(|cell| cell.configuration().batch_size == *size);
            cell.map_or_else(|| Entry::text("–"), |cell| Entry::number(cell.median(), time))
        };
        let accuracies = cells.iter().filter_map(|cell| cell.cell.quality.test_accuracy);
        let epsilon = cells.iter().find_map(|cell| cell.cell.privacy_number("epsilon"));
        let epsilon = epsilon.map_or_else(|| Entry::text("∞"), |epsilon| Entry::number(epsilon, three_digits));
        let name = std::iter::once(Entry::text(name));
        table.row(
            name.chain(sizes.iter().map(median)).chain([Entry::number(accuracies.reduce(f64::max), percent), epsilon]),
        );
    }
    table
}

/// The least, a middle and the greatest of the batch sizes that most cells have.
fn key_sizes(cells: &[&Pooled]) -> Vec<usize> {
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    for cell in cells {
        *numbers.entry(cell.configuration().batch_size).or_default() += 1;
    }
    let most = numbers.values().copied().max().unwrap_or(0);
    let often = numbers.into_iter().filter(|(_, number)| 2 * number >= most);
    let sizes: Vec<usize> = often.map(|(size, _)| size).collect();
    if sizes.len() <= SIZES {
        return sizes;
    }
    vec![sizes[0], sizes[sizes.len() / 2], sizes[sizes.len() - 1]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::cell;

    #[test]
    fn the_summary_of_many_cells_keeps_within_its_lines_and_eighty_columns() {
        let mut cells = Vec::new();
        for (place, algorithm) in rounds_algorithms::catalog::ALGORITHMS.iter().enumerate() {
            for size in [64, 500, 2000, 8000, 60_000] {
                for dataset in ["mnist", "synthetic-mnist"] {
                    let mut one = cell(algorithm.id, size, 2, 0);
                    one.configuration.dataset = dataset.into();
                    one.round_ns.samples = (0..90).map(|round| 100_000 + 300 * round * place as u64).collect();
                    cells.push(one);
                }
            }
        }
        let text = summary(&cells, &Environment::capture(&[]));
        assert!((LINES - 3..=LINES).contains(&text.lines().count()), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("2 threads; ε (add-remove, δ = 1e-5)"), "{text}");
        assert!(text.contains("\n sgd ") && text.contains("\n dp-sgd ") && text.contains("B = 60"));
        assert_eq!(text.matches(" more: rounds report").count(), 2);
    }
}
