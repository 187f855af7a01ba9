//! The presentation of noise mechanisms: error against rounds, time and memory of a round, accuracy on data.

use super::{NAME, Study, accuracies};
use crate::format::three_digits;
use crate::report::{Axis, Chart, Entry, Figure, Panel, Part, Point, Presentation, Style, Table, grouped};

/// The presentation of the study.
pub fn present(study: &Study) -> Presentation {
    let about = "Errors are those of prefix sums per unit of noise at sensitivity 1, with one participation. Times are medians \
                 of whole runs on one thread.";
    let mut presentation = Presentation::new(
        "Noise mechanisms",
        "Noise mechanisms",
        about,
        &format!("rounds run {NAME}"),
    );
    let errors = || study.errors.iter();
    let costs = || study.costs.iter();
    let sums = "prefix sums, sensitivity 1";
    let charts = [
        chart(
            "Root mean square error over the rounds",
            sums,
            "error",
            errors().map(|cell| (&*cell.method, cell.rounds, cell.rms_error)),
        ),
        chart(
            "Largest error of a round",
            sums,
            "error",
            errors().map(|cell| (&*cell.method, cell.rounds, cell.max_error)),
        ),
        chart(
            "Time of a round",
            "in vectors of fresh Gaussians",
            "vectors of Gaussians",
            costs().map(|cell| (&*cell.mechanism, cell.rounds, cell.gaussian_vectors)),
        ),
        chart(
            "Memory between rounds",
            "vectors of the model's length; mechanisms without any are left out",
            "vectors",
            costs()
                .filter(|cell| cell.resident_vectors > 0)
                .map(|cell| (&*cell.mechanism, cell.rounds, cell.resident_vectors as f64)),
        ),
    ];
    let panels = charts
        .into_iter()
        .map(|chart| Panel::chart(&chart.title.clone(), "", chart));
    presentation.parts.push(Part::Figure(Figure::new(
        "Noise mechanisms",
        "Content",
        panels.collect(),
    )));
    presentation.parts.extend(
        tables(study)
            .into_iter()
            .flat_map(|table| [Part::Heading(table.title.clone()), Part::Table(table)]),
    );
    presentation.parts.push(Part::Text(format!(
        "On one thread: {:.2} µs for a vector of Gaussians, {:.2} µs for a vector read from memory, {:.0} GFLOP/s in a matrix \
         product.",
        study.references.gaussian_vector_ns * 1e-3,
        study.references.memory_vector_ns * 1e-3,
        study.references.product_gflops
    )));
    presentation
}

/// Errors, costs and accuracies.
fn tables(study: &Study) -> Vec<Table> {
    let columns = ["method", "#T", "#rms error", "#max error", "#certified gap", "#seconds"];
    let mut errors = Table::new("Errors", &columns);
    for cell in &study.errors {
        errors.row([
            Entry::text(&cell.method),
            Entry::count(cell.rounds as usize),
            Entry::number(cell.rms_error, |value| format!("{value:.6}")),
            Entry::number(cell.max_error, |value| format!("{value:.6}")),
            Entry::number(cell.relative_gap, |value| format!("{value:.1e}")),
            Entry::number(cell.seconds, |value| format!("{value:.4}")),
        ]);
    }
    let columns = [
        "mechanism",
        "#T",
        "#p",
        "#µs a round",
        "#vectors of Gaussians",
        "#vectors kept",
    ];
    let mut costs = Table::new("Cost of a round", &columns);
    for cell in &study.costs {
        costs.row([
            Entry::text(&cell.mechanism),
            Entry::count(cell.rounds as usize),
            Entry::count(cell.dimension as usize),
            Entry::number(cell.round_ns * 1e-3, |value| format!("{value:.1}")),
            Entry::number(cell.gaussian_vectors, |value| format!("{value:.2}")),
            Entry::count(cell.resident_vectors as usize),
        ]);
    }
    let columns = ["setting", "#runs", "#mean test accuracy", "#standard error"];
    let mut accuracy = Table::new("Accuracy", &columns);
    let percent = |value: f64| format!("{:.2} %", 100.0 * value);
    for own in accuracies(&study.training) {
        accuracy.row([
            Entry::text(own.label),
            Entry::count(own.runs as usize),
            Entry::number(own.mean, percent),
            Entry::number(own.standard_error, percent),
        ]);
    }
    [errors, costs, accuracy]
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

/// Lines of a quantity against T, one for each name.
fn chart<'a>(title: &str, subtitle: &str, quantity: &str, cells: impl Iterator<Item = (&'a str, usize, f64)>) -> Chart {
    let points = cells.map(|(name, rounds, value)| {
        let note = format!("{name}, T = {rounds}: {}", three_digits(value));
        (name.to_owned(), Point::new(rounds as f64, value, note))
    });
    let (x, y) = (Axis::logarithmic("rounds T"), Axis::logarithmic(quantity));
    Chart::new(title, subtitle, x, y, grouped(Style::Line, points))
}
