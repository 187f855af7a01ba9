//! The summary of a run for the terminal: one line for each algorithm at the key batch sizes, then warnings, in 80 columns
//! and fewer than 60 lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::figures::{dataset_name, of_most_threads};
use super::labels::Labels;
use super::warnings;
use crate::format::{count, percent, plural, three_digits, time, wrapped};
use crate::machine::Environment;
use crate::results::{Cell, Pooled, beyond_roofline, pool};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Batch sizes that are shown: as many columns of times.
const SIZES: usize = 3;
/// Lines of algorithms, over all data sets.
const LINES: usize = 34;
/// Lines of warnings.
const WARNINGS: usize = 12;

/// The summary of finished cells, with pooled repeats: times of a round on the most threads.
pub fn summary(cells: &[Cell], environment: &Environment) -> String {
    let pooled = pool(cells);
    let shown = of_most_threads(&pooled);
    let threads = shown.first().map_or(1, |cell| cell.configuration().threads);
    let mut datasets: BTreeMap<String, Vec<&Pooled>> = BTreeMap::new();
    for cell in shown {
        datasets.entry(dataset_name(cell)).or_default().push(cell);
    }
    let mut text = String::new();
    let lines = LINES / datasets.len().max(1);
    for (dataset, cells) in &datasets {
        let _ = writeln!(text, "{dataset}, {}: median time of a round", plural(threads, "thread"));
        text.push_str(&dataset_lines(cells, lines.max(4)));
    }
    let mut warned = warnings::lines(&pooled, environment, threads);
    warned.extend(beyond_roofline(&pooled, environment));
    let lines = warned
        .iter()
        .flat_map(|warning| wrapped(&format!("warning: {warning}"), WIDTH));
    for line in lines.take(WARNINGS) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The lines of one data set: a heading, and one line for each algorithm.
fn dataset_lines(cells: &[&Pooled], lines: usize) -> String {
    let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
    let sizes = key_sizes(cells);
    let mut algorithms: BTreeMap<String, Vec<&Pooled>> = BTreeMap::new();
    for cell in cells {
        algorithms
            .entry(labels.name(cell.configuration()))
            .or_default()
            .push(cell);
    }
    let mut text = format!("{:<30}", "algorithm");
    for size in &sizes {
        let _ = write!(text, "{:>11}", format!("B = {}", count(*size as f64)));
    }
    let _ = writeln!(text, "{:>9}{:>7}", "accuracy", "ε");
    for (name, cells) in algorithms.iter().take(lines) {
        let _ = write!(text, "{:<30}", cut(name, 29));
        for size in &sizes {
            let cell = cells.iter().find(|cell| cell.configuration().batch_size == *size);
            let median = cell.map_or_else(|| "–".to_owned(), |cell| time(cell.median()));
            let _ = write!(text, "{median:>11}");
        }
        let accuracies = cells.iter().filter_map(|cell| cell.cell.quality.test_accuracy);
        let best = accuracies.reduce(f64::max);
        let epsilon = cells.iter().find_map(|cell| cell.cell.privacy_number("epsilon"));
        let epsilon = epsilon.map_or_else(|| "∞".to_owned(), three_digits);
        let _ = writeln!(text, "{:>9}{epsilon:>7}", best.map_or_else(String::new, percent));
    }
    if algorithms.len() > lines {
        let _ = writeln!(text, "and {} more: rounds report", algorithms.len() - lines);
    }
    text
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

/// At most `letters` letters of a text.
fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::cell;

    #[test]
    fn the_summary_of_many_cells_has_fewer_than_sixty_lines_of_eighty_columns() {
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
        assert!(text.lines().count() < 55, "{} lines", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("dp-sgd") && text.contains("B = 60"));
    }
}
