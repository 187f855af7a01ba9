//! Studies of private training: a table beside the published numbers, and a figure for every panel with an axis.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::{count, escape, three_digits};
use super::tables::{Entry, Table};
use crate::studies::private_training::{Metric, Outcome, Panel, Study};

/// The study as Markdown: every method of every panel, the best setting of a grid.
pub fn training_table(study: &Study) -> String {
    let mut text = format!("## {}\n\n", study.title);
    let _ = writeln!(
        text,
        "Means over runs with their {} % intervals{}.\n",
        three_digits(100.0 * study.level),
        if study.source.is_empty() {
            String::new()
        } else {
            format!("; published numbers: {}", study.source)
        }
    );
    for panel in &study.panels {
        let _ = writeln!(text, "### {}\n", panel.label);
        if let Some(target) = panel.target {
            let _ = writeln!(text, "Target: {}.\n", three_digits(target));
        }
        let axis = panel.vary.as_deref();
        let (header, published) = header(panel);
        let _ = writeln!(text, "| {} |", header.join(" | "));
        let _ = writeln!(text, "|{}", " --- |".repeat(header.len()));
        for outcome in panel.outcomes.iter().filter(|outcome| outcome.best) {
            let _ = writeln!(text, "| {} |", row(panel, outcome, published).join(" | "));
        }
        for reason in &panel.left_out {
            let _ = writeln!(text, "\nLeft out: {reason}");
        }
        text.push('\n');
        if axis == Some("rows") {
            text.push_str(&growth(panel));
        }
    }
    text
}

/// The heads of a panel's columns, and whether published numbers are among them.
fn header(panel: &Panel) -> (Vec<String>, bool) {
    let value = match panel.metric {
        Metric::TestAccuracy => "test accuracy (%)",
        Metric::ExcessRisk => "excess population risk",
    };
    let published = panel.outcomes.iter().any(|outcome| outcome.published.is_some());
    let mut header = vec!["method"];
    header.extend(panel.vary.as_deref());
    header.extend([value, "runs"]);
    if published {
        header.extend(["published", "difference"]);
    }
    if panel.target.is_some() {
        header.extend(["rounds to target", "queries to target"]);
    }
    header.extend([
        "rounds",
        "queries",
        "epochs",
        "clipped",
        "s a run",
        "ε",
        "noise multiplier",
        "chosen",
    ]);
    (header.into_iter().map(str::to_owned).collect(), published)
}

/// How rounds, queries and risk grow with n: slopes of least squares on both logarithms.
fn growth(panel: &Panel) -> String {
    let mut text = "| method | rounds ~ n^ | queries ~ n^ | excess risk ~ n^ |\n| --- | --- | --- | --- |\n".to_owned();
    let mut methods: Vec<&str> = Vec::new();
    for outcome in &panel.outcomes {
        if !methods.contains(&outcome.method.as_str()) {
            methods.push(&outcome.method);
        }
    }
    for method in methods {
        let own: Vec<&Outcome> = panel
            .outcomes
            .iter()
            .filter(|outcome| outcome.best && outcome.method == method)
            .collect();
        let slope = |value: &dyn Fn(&Outcome) -> f64| {
            let points: Vec<(f64, f64)> = own
                .iter()
                .filter_map(|outcome| Some((outcome.x?.ln(), value(outcome).ln())))
                .collect();
            let count = points.len() as f64;
            let (mean_x, mean_y) = points
                .iter()
                .fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
            let moments = points.iter().fold((0.0, 0.0), |(xy, xx), (x, y)| {
                (xy + (x - mean_x) * (y - mean_y), xx + (x - mean_x).powi(2))
            });
            moments.0 / moments.1
        };
        let _ = writeln!(
            text,
            "| {method} | {:.2} | {:.2} | {:.2} |",
            slope(&|outcome| outcome.rounds),
            slope(&|outcome| outcome.gradient_queries),
            slope(&|outcome| outcome.mean)
        );
    }
    text.push('\n');
    text
}

fn row(panel: &Panel, outcome: &Outcome, published: bool) -> Vec<String> {
    let decimals = |value: f64| match panel.metric {
        Metric::TestAccuracy => format!("{value:.2}"),
        Metric::ExcessRisk => three_digits(value),
    };
    let mut cells = vec![outcome.method.clone()];
    cells.extend(outcome.x.map(number));
    cells.push(format!(
        "{} ± {}",
        decimals(outcome.mean),
        decimals(0.5 * (outcome.high - outcome.low))
    ));
    cells.push(outcome.runs.to_string());
    if published {
        let interval = outcome
            .published_interval
            .map_or_else(String::new, |half| format!(" ± {half:.2}"));
        cells.push(
            outcome
                .published
                .map_or_else(String::new, |value| format!("{value:.2}{interval}")),
        );
        cells.push(
            outcome
                .published
                .map_or_else(String::new, |value| format!("{:+.2}", outcome.mean - value)),
        );
    }
    if panel.target.is_some() {
        let reached = |value: Option<u64>| value.map_or_else(|| "not reached".to_owned(), |value| count(value as f64));
        cells.push(reached(outcome.to_target.map(|(rounds, _)| rounds)));
        cells.push(reached(outcome.to_target.map(|(_, queries)| queries)));
    }
    let chosen: Vec<String> = outcome
        .parameters
        .iter()
        .filter(|(key, _)| ["learning-rate", "clip-norm", "beta", "tau", "workload"].contains(&key.as_str()))
        .map(|(key, value)| format!("{key} {}", value.as_f64().map_or_else(|| value.to_string(), number)))
        .collect();
    cells.extend([
        count(outcome.rounds),
        count(outcome.gradient_queries),
        format!("{:.2}", outcome.epochs),
        format!("{:.0} %", 100.0 * outcome.clipped),
        three_digits(outcome.seconds),
        outcome.epsilon.map_or_else(|| "∞".to_owned(), three_digits),
        outcome.noise_multiplier.map_or_else(String::new, three_digits),
        chosen.join(", ").replace('"', ""),
    ]);
    cells
}

/// A number of an axis or a parameter, as short as it is exact enough.
fn number(value: f64) -> String {
    if value.abs() >= 1e4 && value.fract() == 0.0 {
        count(value)
    } else {
        three_digits(value)
    }
}

/// The charts of every panel with a horizontal axis, by the panel's label: accuracy or risk, and for risks the seconds and
/// rounds too.
pub(super) fn training_charts(study: &Study) -> Vec<(String, Chart)> {
    let mut pictures = Vec::new();
    for panel in &study.panels {
        for (suffix, _, mut chart) in charts(study, panel) {
            let label = format!("{}{}", panel.label, suffix.replace('-', ", "));
            chart.title.clone_from(&label);
            pictures.push((label, chart));
        }
    }
    pictures
}

/// The tables of a study, panel by panel.
pub(super) fn training_html(study: &Study) -> String {
    let mut html = String::new();
    for panel in &study.panels {
        let _ = write!(html, "<h4>{}</h4>", escape(&panel.label));
        let (header, published) = header(panel);
        // All but names and chosen constants are numbers.
        let words = ["method", "chosen"];
        let columns = header.into_iter().map(|name| {
            let number = !words.contains(&name.as_str());
            (name, number)
        });
        let mut table = Table::new(columns.collect());
        for outcome in panel.outcomes.iter().filter(|outcome| outcome.best) {
            table.row(
                row(panel, outcome, published)
                    .iter()
                    .map(|cell| Entry::foreign(cell))
                    .collect(),
            );
        }
        html.push_str(&table.html(None, &panel.label, true));
        for reason in &panel.left_out {
            let _ = write!(html, "<p class=\"quiet\">Left out: {}</p>", escape(reason));
        }
    }
    html
}

/// A picture for every panel with a horizontal axis, by file name: the metric, and for excess risks the seconds too.
pub fn training_svgs(study: &Study) -> Vec<(String, String)> {
    let mut pictures = Vec::new();
    for (index, panel) in study.panels.iter().enumerate() {
        for (suffix, title, mut chart) in charts(study, panel) {
            chart.title = title;
            pictures.push((format!("panel-{}{suffix}.svg", index + 1), chart.standalone_svg(WIDE)));
        }
    }
    pictures
}

/// The charts of a panel: the ends of their files' names, their whole titles, and the charts.
fn charts(study: &Study, panel: &Panel) -> Vec<(&'static str, String, Chart)> {
    let Some(axis) = &panel.vary else {
        return Vec::new();
    };
    let subtitle = format!(
        "means with {} % intervals; grids show their best setting",
        three_digits(100.0 * study.level)
    );
    let chart = |label: &str, scale, value: &dyn Fn(&Outcome) -> (f64, Option<(f64, f64)>)| Chart {
        title: panel.label.clone(),
        subtitle: subtitle.clone(),
        x: axis_of(axis, Scale::Logarithmic),
        y: axis_of(label, scale),
        series: series(panel, value),
    };
    let (label, scale) = match panel.metric {
        Metric::TestAccuracy => ("test accuracy (%)", Scale::Linear),
        Metric::ExcessRisk => ("excess population risk", Scale::Logarithmic),
    };
    let metric = chart(label, scale, &|outcome| {
        // An interval of few runs may end where no accuracy can be.
        let (low, high) = match panel.metric {
            Metric::TestAccuracy => (outcome.low.max(0.0), outcome.high.min(100.0)),
            Metric::ExcessRisk => (outcome.low, outcome.high),
        };
        (outcome.mean, Some((low, high)))
    });
    let mut charts = vec![("", metric)];
    if panel.metric == Metric::ExcessRisk {
        let seconds = |outcome: &Outcome| (outcome.seconds, None);
        let rounds = |outcome: &Outcome| (outcome.rounds, None);
        let logarithmic = Scale::Logarithmic;
        charts.push(("-seconds", chart("seconds of a run, one thread", logarithmic, &seconds)));
        charts.push(("-rounds", chart("adaptive rounds", logarithmic, &rounds)));
    }
    let title = format!("{}: {}", study.title, panel.label);
    charts
        .into_iter()
        .map(|(suffix, chart)| (suffix, title.clone(), chart))
        .collect()
}

fn axis_of(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
        format: number,
        ticks: Vec::new(),
        include: Vec::new(),
    }
}

/// A series a method, in the order of the definition.
fn series(panel: &Panel, value: &dyn Fn(&Outcome) -> (f64, Option<(f64, f64)>)) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for outcome in panel.outcomes.iter().filter(|outcome| outcome.best) {
        let Some(x) = outcome.x else { continue };
        let (y, whisker) = value(outcome);
        let point = Point {
            x,
            y,
            whisker,
            note: format!("{} at {}: {}", outcome.method, number(x), three_digits(y)),
        };
        if let Some(series) = series.iter_mut().find(|series| series.name == outcome.method) {
            series.points.push(point);
        } else {
            let place = series.len();
            series.push(Series {
                name: outcome.method.clone(),
                drawing: Drawing::Line,
                colour: place,
                variant: place / super::chart::SERIES_COLOURS,
                points: vec![point],
            });
        }
    }
    series
}

/// A curve of points (x, y, ends of a whisker).
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64, Option<(f64, f64)>)>,
}

/// Curves over a common axis, the vertical one logarithmic.
pub fn curves_svg(
    title: &str,
    subtitle: &str,
    x_label: &str,
    x_logarithmic: bool,
    y_label: &str,
    curves: Vec<Curve>,
) -> String {
    let x_scale = if x_logarithmic {
        Scale::Logarithmic
    } else {
        Scale::Linear
    };
    let series = curves
        .into_iter()
        .enumerate()
        .map(|(place, curve)| Series {
            drawing: Drawing::Line,
            colour: place,
            variant: place / super::chart::SERIES_COLOURS,
            points: curve
                .points
                .into_iter()
                .map(|(x, y, whisker)| Point {
                    x,
                    y,
                    whisker,
                    note: format!("{} at {}: {}", curve.name, number(x), three_digits(y)),
                })
                .collect(),
            name: curve.name,
        })
        .collect();
    Chart {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x: axis_of(x_label, x_scale),
        y: axis_of(y_label, Scale::Logarithmic),
        series,
    }
    .standalone_svg(WIDE)
}
