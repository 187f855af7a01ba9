//! The page of the study of query depth against work: figures with the theory's slopes, and the table of exponents.

use std::fmt::Write as _;

use super::chart::{Axis, CHART_STYLE, Chart, DARK_VARIABLES, Drawing, NARROW, Point, Scale, Series, VARIABLES, WIDE};
use super::format::{escape, three_digits};
use crate::machine::Environment;
use crate::studies::depth_against_work::{Cell, FittedExponent, Kind, Method, Study, modelled_seconds};

/// Workers of the figure of time against latency.
const WORKERS: u64 = 1_024;

/// The page.
pub fn study_html(study: &Study, environment: &Environment) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>rounds: query depth against work</title><style>:root{{{VARIABLES}}}\
         @media (prefers-color-scheme:dark){{:root{{{DARK_VARIABLES}}}}}\
         body{{font:16px/1.5 system-ui,sans-serif;max-width:820px;margin:0 auto;padding:16px;background:var(--page,#fff);\
         color:var(--ink)}}table{{border-collapse:collapse;font-variant-numeric:tabular-nums}}\
         td,th{{padding:2px 10px;text-align:right;border-bottom:1px solid}}td:first-child,th:first-child{{text-align:left}}\
         .narrow{{display:none}}@media(max-width:640px){{.wide{{display:none}}.narrow{{display:block}}}}\
         {CHART_STYLE}</style></head><body><h1>Query depth against total work</h1>\
         <p>Every method runs until its point has a gap of at most ε, with L = R = 1; black-box queries, practical \
         constants for the ReSQue methods. Dotted lines are the slopes of Table I of paper 002, through each method's first \
         point. Machine {machine}, {day}.</p>",
        machine = escape(&environment.machine.id),
        day = environment.day(),
    );
    for (family, name) in [
        (Kind::MaxOfLinear, "Maximum of linear functions"),
        (Kind::L1Regression, "ℓ1 regression"),
        (Kind::Hinge, "Hinge loss"),
    ] {
        let cells: Vec<&Cell> = study
            .cells
            .iter()
            .filter(|cell| cell.family == family && cell.reached && cell.threads == 1)
            .collect();
        let Some(dimension) = shown_dimension(&cells) else {
            continue;
        };
        let cells: Vec<&Cell> = cells.into_iter().filter(|cell| cell.dimension == dimension).collect();
        let _ = write!(page, "<h2>{name}, d = {dimension}</h2>");
        for chart in [
            against_accuracy(
                &cells,
                "Adaptive rounds to a gap of ε",
                "rounds",
                |cell| cell.rounds as f64,
                |method| method.theory().depth_exponents().1,
            ),
            against_accuracy(
                &cells,
                "Gradient queries to a gap of ε",
                "queries",
                |cell| cell.gradient_queries as f64,
                |method| method.theory().query_exponents().1,
            ),
            depth_against_queries(&cells),
            time_against_latency(&cells),
        ] {
            let _ = write!(
                page,
                "<figure><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>",
                chart.inline_svg(WIDE),
                chart.inline_svg(NARROW)
            );
        }
    }
    exponents(&study.exponents, &mut page);
    page.push_str("</body></html>");
    page
}

/// The dimension with most cells, the larger one of two.
fn shown_dimension(cells: &[&Cell]) -> Option<usize> {
    let count = |dimension: usize| cells.iter().filter(|cell| cell.dimension == dimension).count();
    cells
        .iter()
        .map(|cell| cell.dimension)
        .max_by_key(|&dimension| (count(dimension), dimension))
}

fn logarithmic(label: &str) -> Axis {
    Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        format: three_digits,
        ticks: Vec::new(),
        include: Vec::new(),
    }
}

fn of_method(cells: &[&Cell], method: Method) -> Vec<Cell> {
    cells
        .iter()
        .filter(|cell| cell.algorithm == method.id())
        .map(|&cell| cell.clone())
        .collect()
}

fn point(x: f64, y: f64, note: String) -> Point {
    Point {
        x,
        y,
        whisker: None,
        note,
    }
}

fn against_accuracy(
    cells: &[&Cell],
    title: &str,
    quantity: &str,
    value: impl Fn(&Cell) -> f64,
    slope: impl Fn(Method) -> f64,
) -> Chart {
    let mut series = Vec::new();
    for (colour, method) in Method::ALL.into_iter().enumerate() {
        let mut own = of_method(cells, method);
        own.sort_by(|a, b| b.accuracy.total_cmp(&a.accuracy));
        let (Some(first), Some(last)) = (own.first(), own.last()) else {
            continue;
        };
        let points = own
            .iter()
            .map(|cell| {
                point(
                    1.0 / cell.accuracy,
                    value(cell),
                    format!("{}: {}", method.id(), value(cell)),
                )
            })
            .collect();
        let line = |cell: &Cell| {
            let y = value(first) * (first.accuracy / cell.accuracy).powf(slope(method));
            point(
                1.0 / cell.accuracy,
                y,
                format!("{}: slope {:.2}", method.id(), slope(method)),
            )
        };
        let theory = vec![line(first), line(last)];
        series.push(Series {
            name: method.id().to_owned(),
            drawing: Drawing::Line,
            colour,
            variant: 0,
            points,
        });
        series.push(Series {
            name: format!("{} theory", method.id()),
            drawing: Drawing::Reference,
            colour,
            variant: 1,
            points: theory,
        });
    }
    Chart {
        title: title.to_owned(),
        subtitle: "one thread; slopes of Table I dotted".to_owned(),
        x: logarithmic("1/ε"),
        y: logarithmic(quantity),
        series,
    }
}

fn depth_against_queries(cells: &[&Cell]) -> Chart {
    let series = Method::ALL
        .into_iter()
        .enumerate()
        .map(|(colour, method)| Series {
            name: method.id().to_owned(),
            drawing: Drawing::Points,
            colour,
            variant: 0,
            points: of_method(cells, method)
                .iter()
                .map(|cell| {
                    let note = format!("{} at ε = {}", method.id(), cell.accuracy);
                    point(cell.gradient_queries as f64, cell.rounds as f64, note)
                })
                .collect(),
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    Chart {
        title: "Query depth against total work".to_owned(),
        subtitle: "one point for each ε".to_owned(),
        x: logarithmic("gradient queries"),
        y: logarithmic("adaptive rounds"),
        series,
    }
}

fn time_against_latency(cells: &[&Cell]) -> Chart {
    // The smallest ε that every shown method reached, or else the smallest.
    let mut accuracies: Vec<f64> = cells.iter().map(|cell| cell.accuracy).collect();
    accuracies.sort_by(f64::total_cmp);
    accuracies.dedup();
    let count = |accuracy: f64| cells.iter().filter(|cell| cell.accuracy == accuracy).count();
    let most = accuracies.iter().map(|&accuracy| count(accuracy)).max().unwrap_or(0);
    let accuracy = accuracies
        .iter()
        .copied()
        .find(|&accuracy| count(accuracy) == most)
        .unwrap_or(0.1);
    let latencies: Vec<f64> = (-12..=4).map(|step| 10f64.powf(f64::from(step) / 2.0)).collect();
    let series = Method::ALL
        .into_iter()
        .enumerate()
        .filter_map(|(colour, method)| {
            let own = of_method(cells, method);
            let cell = own.iter().find(|cell| cell.accuracy == accuracy)?;
            let points = latencies
                .iter()
                .map(|&latency| {
                    let seconds = modelled_seconds(cell, WORKERS, latency);
                    point(
                        latency,
                        seconds,
                        format!("{}: {} s", method.id(), three_digits(seconds)),
                    )
                })
                .collect();
            Some(Series {
                name: method.id().to_owned(),
                drawing: Drawing::Line,
                colour,
                variant: 0,
                points,
            })
        })
        .collect();
    Chart {
        title: format!("Time to ε = {accuracy} on {WORKERS} workers"),
        subtitle: "modelled from measured one-thread costs; bandwidth is not modelled".to_owned(),
        x: logarithmic("latency of a round in seconds"),
        y: logarithmic("seconds"),
        series,
    }
}

fn exponents(fits: &[FittedExponent], page: &mut String) {
    page.push_str(
        "<h2>Exponents</h2><table><thead><tr><th>method</th><th>family</th><th>quantity</th><th>in</th><th>theory</th>\
         <th>measured</th><th>95 % interval</th><th>cells</th></tr></thead><tbody>",
    );
    for fit in fits {
        let family = serde_json::to_string(&fit.family).unwrap_or_default();
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>[{:.2}, {:.2}]</td><td>{}</td></tr>",
            escape(&fit.algorithm),
            escape(family.trim_matches('"')),
            escape(&fit.quantity),
            escape(&fit.variable),
            fit.theory,
            fit.exponent.measured,
            fit.exponent.low,
            fit.exponent.high,
            fit.cells
        );
    }
    page.push_str("</tbody></table>");
}
