//! The page of noise mechanisms: error against rounds, time and memory of a round, accuracy on real data.

use std::fmt::Write as _;

use super::chart::{Axis, CHART_STYLE, Chart, DARK_VARIABLES, Drawing, Point, Scale, Series, VARIABLES};
use super::format::{escape, three_digits};
use super::study::figure;
use crate::machine::Environment;
use crate::studies::noise_mechanisms::{Study, accuracies};

/// The page.
pub fn mechanisms_html(study: &Study, environment: &Environment) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>rounds: noise mechanisms</title><style>:root{{{VARIABLES}}}\
         @media (prefers-color-scheme:dark){{:root{{{DARK_VARIABLES}}}}}\
         body{{font:16px/1.5 system-ui,sans-serif;max-width:900px;margin:0 auto;padding:16px;background:var(--paper);\
         color:var(--ink)}}.scroll{{overflow-x:auto}}table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}\
         td,th{{padding:2px 10px;text-align:right;border-bottom:1px solid var(--line)}}\
         td:first-child,th:first-child{{text-align:left}}figure{{margin:24px 0}}\
         .legend span{{display:inline-flex;align-items:center;gap:6px;margin-right:16px}}.legend svg{{width:28px;height:12px}}\
         .narrow{{display:none}}@media(max-width:640px){{.wide{{display:none}}.narrow{{display:block}}}}\
         {CHART_STYLE}</style></head><body><h1>Noise mechanisms</h1>\
         <p>Errors are those of prefix sums per unit of noise at sensitivity 1, one participation. Times are medians of whole \
         runs on one thread. Machine {machine}, {day}.</p>",
        machine = escape(&environment.machine.id),
        day = environment.day(),
    );
    for chart in [
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
    ] {
        figure(&chart, &mut page);
    }
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
    page.push_str("</body></html>");
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
    let _ = write!(
        page,
        "<h2>{}</h2><div class=\"scroll\"><table><thead><tr>",
        escape(title)
    );
    for name in header {
        let _ = write!(page, "<th>{}</th>", escape(name));
    }
    page.push_str("</tr></thead><tbody>");
    for row in rows {
        page.push_str("<tr>");
        for value in row {
            let _ = write!(page, "<td>{}</td>", escape(&value));
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
}
