//! The page of noise mechanisms: error against rounds, time and memory of a round, accuracy on real data.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series};
use super::format::{escape, three_digits};
use super::section::{Picture, Section};
use super::shell::Page;
use super::tables::{Entry, Table};
use crate::machine::Environment;
use crate::studies::noise_mechanisms::{Study, accuracies};

/// The page.
pub fn mechanisms_html(study: &Study, environment: &Environment) -> String {
    let html = mechanisms_section(study, &environment.command);
    Page::of_study("noise mechanisms", "study", "Noise mechanisms", html, environment).html()
}

/// The study as the inside of a section.
pub(super) fn mechanisms_section(study: &Study, command: &str) -> String {
    let mut page = "<h2>Noise mechanisms</h2><p class=\"lead\">Errors are those of prefix sums per unit of noise at \
                    sensitivity 1, one participation. Times are medians of whole runs on one thread.</p>"
        .to_owned();
    let charts = [
        chart(
            "Root mean square error over the rounds",
            "prefix sums, sensitivity 1",
            "error",
            study
                .errors
                .iter()
                .map(|cell| (&*cell.method, cell.rounds, cell.rms_error)),
        ),
        chart(
            "Largest error of a round",
            "prefix sums, sensitivity 1",
            "error",
            study
                .errors
                .iter()
                .map(|cell| (&*cell.method, cell.rounds, cell.max_error)),
        ),
        chart(
            "Time of a round",
            "in vectors of fresh Gaussians",
            "vectors of Gaussians",
            study
                .costs
                .iter()
                .map(|cell| (&*cell.mechanism, cell.rounds, cell.gaussian_vectors)),
        ),
        chart(
            "Memory between rounds",
            "vectors of the model's length; mechanisms that keep none are left out",
            "vectors",
            study
                .costs
                .iter()
                .filter(|cell| cell.resident_vectors > 0)
                .map(|cell| (&*cell.mechanism, cell.rounds, cell.resident_vectors as f64)),
        ),
    ];
    let section = Section {
        id: "mechanisms".to_owned(),
        link: String::new(),
        about: String::new(),
        panels_by: "What is shown",
        panels: charts
            .into_iter()
            .map(|chart| (chart.title.clone(), Picture::of_chart(chart)))
            .collect(),
        command: command.to_owned(),
    };
    section.figure("Noise mechanisms", &mut page);
    let gap = |gap: Option<f64>| gap.map_or_else(|| "–".to_owned(), |gap| format!("{gap:.1e}"));
    table(
        &mut page,
        "Errors",
        &["method", "T", "rms error", "max error", "certified gap", "seconds"],
        study.errors.iter().map(|cell| {
            vec![
                cell.method.clone(),
                cell.rounds.to_string(),
                format!("{:.6}", cell.rms_error),
                format!("{:.6}", cell.max_error),
                gap(cell.relative_gap),
                format!("{:.4}", cell.seconds),
            ]
        }),
    );
    table(
        &mut page,
        "Cost of a round",
        &[
            "mechanism",
            "T",
            "p",
            "µs a round",
            "vectors of Gaussians",
            "vectors kept",
        ],
        study.costs.iter().map(|cell| {
            vec![
                cell.mechanism.clone(),
                cell.rounds.to_string(),
                cell.dimension.to_string(),
                format!("{:.1}", cell.round_ns * 1e-3),
                format!("{:.2}", cell.gaussian_vectors),
                cell.resident_vectors.to_string(),
            ]
        }),
    );
    if !study.training.is_empty() {
        table(
            &mut page,
            "Accuracy",
            &["setting", "runs", "mean test accuracy", "standard error"],
            accuracies(&study.training).into_iter().map(|accuracy| {
                vec![
                    accuracy.label,
                    accuracy.runs.to_string(),
                    format!("{:.2} %", 100.0 * accuracy.mean),
                    format!("{:.2} %", 100.0 * accuracy.standard_error),
                ]
            }),
        );
    }
    page
}

/// Lines of a quantity against T, one a name.
fn chart<'a>(title: &str, subtitle: &str, quantity: &str, cells: impl Iterator<Item = (&'a str, usize, f64)>) -> Chart {
    let logarithmic = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        format: three_digits,
        ticks: Vec::new(),
        include: Vec::new(),
    };
    let mut series: Vec<Series> = Vec::new();
    for (name, rounds, value) in cells {
        let point = Point {
            x: rounds as f64,
            y: value,
            whisker: None,
            note: format!("{name}, T = {rounds}: {}", three_digits(value)),
        };
        match series.iter_mut().find(|series| series.name == name) {
            Some(known) => known.points.push(point),
            None => series.push(Series {
                name: name.to_owned(),
                drawing: Drawing::Line,
                colour: series.len(),
                variant: 0,
                points: vec![point],
            }),
        }
    }
    Chart {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x: logarithmic("rounds T"),
        y: logarithmic(quantity),
        series,
    }
}

fn table(page: &mut String, title: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let columns = header.iter().enumerate().map(|(place, &name)| (name, place > 0));
    let mut table = Table::new(columns.collect());
    for row in rows {
        table.row(row.iter().map(|value| Entry::foreign(value)).collect());
    }
    let id = format!("mechanisms-{}", title.to_lowercase().replace(' ', "-"));
    let _ = write!(
        page,
        "<h3 class=\"study\">{}</h3>{}",
        escape(title),
        table.html(Some(&id), title, true)
    );
}
