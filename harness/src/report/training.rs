//! Studies of private training: a table beside the published numbers, and a figure for every panel with an axis.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::{count, three_digits};
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
        let value = match panel.metric {
            Metric::TestAccuracy => "test accuracy (%)",
            Metric::ExcessRisk => "excess population risk",
        };
        let axis = panel.vary.as_deref();
        let published = panel.outcomes.iter().any(|outcome| outcome.published.is_some());
        let mut header = vec!["method"];
        header.extend(axis);
        header.extend([value, "runs"]);
        if published {
            header.extend(["published", "difference"]);
        }
        header.extend(["rounds", "queries", "epochs", "clipped", "s a run", "ε", "noise multiplier", "chosen"]);
        let _ = writeln!(text, "| {} |", header.join(" | "));
        let _ = writeln!(text, "|{}", " --- |".repeat(header.len()));
        for outcome in panel.outcomes.iter().filter(|outcome| outcome.best) {
            let _ = writeln!(text, "| {} |", row(panel, outcome, published).join(" | "));
        }
        text.push('\n');
    }
    text
}

fn row(panel: &Panel, outcome: &Outcome, published: bool) -> Vec<String> {
    let decimals = |value: f64| match panel.metric {
        Metric::TestAccuracy => format!("{value:.2}"),
        Metric::ExcessRisk => three_digits(value),
    };
    let mut cells = vec![outcome.method.clone()];
    cells.extend(outcome.x.map(|x| number(x)));
    cells.push(format!(
        "{} ± {}",
        decimals(outcome.mean),
        decimals(0.5 * (outcome.high - outcome.low))
    ));
    cells.push(outcome.runs.to_string());
    if published {
        let interval = outcome.published_interval.map_or_else(String::new, |half| format!(" ± {half:.2}"));
        cells.push(outcome.published.map_or_else(String::new, |value| format!("{value:.2}{interval}")));
        cells.push(outcome.published.map_or_else(String::new, |value| format!("{:+.2}", outcome.mean - value)));
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

/// A picture for every panel with a horizontal axis, by file name: the metric, and for excess risks the seconds too.
pub fn training_svgs(study: &Study) -> Vec<(String, String)> {
    let mut pictures = Vec::new();
    for (index, panel) in study.panels.iter().enumerate() {
        let Some(axis) = &panel.vary else { continue };
        let title = format!("{}: {}", study.title, panel.label);
        let subtitle = format!(
            "means with {} % intervals; grids show their best setting",
            three_digits(100.0 * study.level)
        );
        let (label, scale) = match panel.metric {
            Metric::TestAccuracy => ("test accuracy (%)", Scale::Linear),
            Metric::ExcessRisk => ("excess population risk", Scale::Logarithmic),
        };
        let chart = |label: &str, scale, value: &dyn Fn(&Outcome) -> (f64, Option<(f64, f64)>)| {
            Chart {
                title: title.clone(),
                subtitle: subtitle.clone(),
                x: axis_of(axis, Scale::Logarithmic),
                y: axis_of(label, scale),
                series: series(panel, value),
            }
            .standalone_svg(WIDE)
        };
        let metric = chart(label, scale, &|outcome| (outcome.mean, Some((outcome.low, outcome.high))));
        pictures.push((format!("panel-{}.svg", index + 1), metric));
        if panel.metric == Metric::ExcessRisk {
            let seconds = chart("seconds of a run, one thread", Scale::Logarithmic, &|outcome| {
                (outcome.seconds, None)
            });
            let rounds = chart("adaptive rounds", Scale::Logarithmic, &|outcome| (outcome.rounds, None));
            pictures.push((format!("panel-{}-seconds.svg", index + 1), seconds));
            pictures.push((format!("panel-{}-rounds.svg", index + 1), rounds));
        }
    }
    pictures
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
        match series.iter_mut().find(|series| series.name == outcome.method) {
            Some(series) => series.points.push(point),
            None => {
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
    }
    series
}
