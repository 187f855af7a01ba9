//! The summary of a run for the terminal: one line for each algorithm at the key batch sizes, then warnings, in 80 columns
//! and at most [`LINES`] lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::figures::{by_dataset, is_shown_first, of_most_threads};
use super::labels::{Labels, epsilon};
use super::warnings;
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
    let datasets = by_dataset(shown).into_iter();
    let mut datasets: Vec<(String, Vec<String>)> = datasets.map(|(name, cells)| table(&name, &cells)).collect();
    // What a short table leaves is that of the longer ones.
    let mut order: Vec<usize> = (0..datasets.len()).collect();
    order.sort_by_key(|&place| datasets[place].1.len());
    let mut free = LINES.saturating_sub(1 + warned.len() + datasets.len());
    for (done, &place) in order.iter().enumerate() {
        let lines = &mut datasets[place].1;
        let share = (free / (order.len() - done)).max(2);
        if lines.len() > share {
            let more = lines.len() + 1 - share;
            lines.truncate(share - 1);
            lines.push(format!("and {more} more: rounds report"));
        }
        free = free.saturating_sub(lines.len());
    }
    let tables = datasets.into_iter().flat_map(|(heading, lines)| [heading].into_iter().chain(lines));
    let title = format!("Median time of a round on {}; {epsilon}", plural(threads, "thread"));
    [title].into_iter().chain(tables).chain(warned).collect::<Vec<_>>().join("\n")
}

/// The heading of a data set, and one line for each algorithm: first one of each family, then the others.
fn table(dataset: &str, cells: &[&Pooled]) -> (String, Vec<String>) {
    let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
    let sizes = key_sizes(cells);
    let mut algorithms: BTreeMap<(bool, String), Vec<&Pooled>> = BTreeMap::new();
    for cell in cells {
        let name = labels.name(cell.configuration());
        let own = algorithms.entry((!is_shown_first(&name), name));
        own.or_default().push(cell);
    }
    let mut heading = format!("{:<30}", cut(dataset, 29));
    for size in &sizes {
        let _ = write!(heading, "{:>11}", format!("B = {}", count(*size as f64)));
    }
    let _ = write!(heading, "{:>9}{:>7}", "accuracy", "ε");
    let line = |((_, name), cells): ((bool, String), Vec<&Pooled>)| {
        let mut text = format!("{:<30}", cut(&name, 29));
        for size in &sizes {
            let cell = cells.iter().find(|cell| cell.configuration().batch_size == *size);
            let median = cell.map_or_else(|| "–".to_owned(), |cell| time(cell.median()));
            let _ = write!(text, "{median:>11}");
        }
        let accuracies = cells.iter().filter_map(|cell| cell.cell.quality.test_accuracy);
        let best = accuracies.reduce(f64::max);
        let epsilon = cells.iter().find_map(|cell| cell.cell.privacy_number("epsilon"));
        let epsilon = epsilon.map_or_else(|| "∞".to_owned(), three_digits);
        let _ = write!(text, "{:>9}{epsilon:>7}", best.map_or_else(String::new, percent));
        text
    };
    (heading, algorithms.into_iter().map(line).collect())
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
        assert_eq!(text.lines().count(), LINES, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("2 threads; ε (add-remove, δ = 1e-5)"), "{text}");
        assert!(text.contains("\nsgd ") && text.contains("\ndp-sgd ") && text.contains("B = 60"));
        assert_eq!(text.matches(" more: rounds report").count(), 2);
    }
}
