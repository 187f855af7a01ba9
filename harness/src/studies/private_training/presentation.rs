//! The presentation of studies of private training: a table of every panel with the published numbers, and charts of the
//! panels with an axis.

use super::{Metric, Outcome, Panel, Study};
use crate::format::{count, number, three_digits};
use crate::report::{
    Axis, Chart, Entry, Figure, Panel as Picture, Part, Point, Presentation, Scale, Style, Table, grouped,
};

/// Parameters that the tables list.
const LISTED: [&str; 5] = ["learning-rate", "clip-norm", "beta", "tau", "workload"];

/// The presentation of the study `name`. Grids show their best setting.
pub fn present(study: &Study, name: &str) -> Presentation {
    let level = format!("{} %", three_digits(100.0 * study.level));
    let source = if study.source.is_empty() {
        String::new()
    } else {
        format!("; published numbers: {}", study.source)
    };
    let about = format!("Means over runs with their {level} intervals{source}. Grids show their best setting.");
    let command = format!("rounds run {name}");
    let mut presentation = Presentation::new(&study.title, "Private training", &about, &command);
    let subtitle = format!("means with {level} intervals; grids show their best setting");
    let pictures = (1..)
        .zip(&study.panels)
        .flat_map(|(number, panel)| charts(panel, number, &subtitle));
    let pictures: Vec<Picture> = pictures.collect();
    if !pictures.is_empty() {
        presentation
            .parts
            .push(Part::Figure(Figure::new(&study.title, "Panel", pictures)));
    }
    for panel in &study.panels {
        presentation.parts.push(Part::Heading(panel.label.clone()));
        presentation.parts.extend(
            panel
                .target
                .map(|target| Part::Text(format!("Target: {}.", three_digits(target)))),
        );
        presentation.parts.push(Part::Table(table(panel)));
        let left_out: Vec<String> = panel
            .left_out
            .iter()
            .map(|reason| format!("Left out: {reason}"))
            .collect();
        presentation
            .parts
            .extend((!left_out.is_empty()).then_some(Part::List(left_out)));
        if panel.vary.as_deref() == Some("rows") {
            presentation.parts.push(Part::Table(growth(panel)));
        }
    }
    presentation
}

fn best(panel: &Panel) -> impl Iterator<Item = &Outcome> {
    panel.outcomes.iter().filter(|outcome| outcome.best)
}

/// A row for each method and place on the axis.
fn table(panel: &Panel) -> Table {
    let metric = match panel.metric {
        Metric::TestAccuracy => "#test accuracy (%)",
        Metric::ExcessRisk => "#excess population risk",
    };
    let axis = format!("#{}", panel.vary.as_deref().unwrap_or_default());
    let columns = [
        "method",
        &axis,
        metric,
        "#runs",
        "#published",
        "#difference",
        "#rounds to target",
        "#queries to target",
        "#rounds",
        "#queries",
        "#epochs",
        "#clipped",
        "#s a run",
        "#ε",
        "#noise multiplier",
        "chosen",
    ];
    let mut table = Table::new(&panel.label, &columns);
    let decimals = |value: f64| match panel.metric {
        Metric::TestAccuracy => format!("{value:.2}"),
        Metric::ExcessRisk => three_digits(value),
    };
    let published = panel.outcomes.iter().any(|outcome| outcome.published.is_some());
    for outcome in best(panel) {
        let half = decimals(0.5 * (outcome.high - outcome.low));
        let of_paper = |value: f64| {
            let half = outcome
                .published_interval
                .map_or_else(String::new, |half| format!(" ± {half:.2}"));
            format!("{value:.2}{half}")
        };
        let to_target = |value: Option<u64>| match (panel.target, value) {
            (None, _) => Entry::default(),
            (_, None) => Entry::text("not reached"),
            (_, Some(value)) => Entry::number(value as f64, count),
        };
        let listed = outcome
            .parameters
            .iter()
            .filter(|(key, _)| LISTED.contains(&key.as_str()));
        let chosen = listed.map(|(key, value)| {
            let value = value.as_f64().map_or_else(|| value.to_string(), number);
            format!("{key} {value}").replace('"', "")
        });
        table.row([
            Entry::text(&outcome.method),
            Entry::number(outcome.x, number),
            Entry::sorted(format!("{} ± {half}", decimals(outcome.mean)), outcome.mean),
            Entry::count(outcome.runs as usize),
            Entry::number(outcome.published, of_paper),
            Entry::number(outcome.published.map(|value| outcome.mean - value), |value| {
                format!("{value:+.2}")
            }),
            to_target(outcome.to_target.map(|(rounds, _)| rounds)),
            to_target(outcome.to_target.map(|(_, queries)| queries)),
            Entry::number(outcome.rounds, count),
            Entry::number(outcome.gradient_queries, count),
            Entry::number(outcome.epochs, |value| format!("{value:.2}")),
            Entry::number(outcome.clipped, |share| format!("{:.0} %", 100.0 * share)),
            Entry::number(outcome.seconds, three_digits),
            outcome
                .epsilon
                .map_or_else(|| Entry::text("∞"), |epsilon| Entry::number(epsilon, three_digits)),
            Entry::number(outcome.noise_multiplier, three_digits),
            Entry::text(chosen.collect::<Vec<_>>().join(", ")),
        ]);
    }
    debug_assert!(published || table.rows.iter().all(|row| row[4].text.is_empty()));
    table.without_empty_columns()
}

/// Growth of rounds, queries and risk with n: slopes of least squares on both logarithms.
fn growth(panel: &Panel) -> Table {
    let columns = ["method", "#rounds ~ n^", "#queries ~ n^", "#excess risk ~ n^"];
    let mut table = Table::new("Growth with n", &columns);
    let mut methods: Vec<&str> = Vec::new();
    for outcome in &panel.outcomes {
        if !methods.contains(&outcome.method.as_str()) {
            methods.push(&outcome.method);
        }
    }
    for method in methods {
        let own: Vec<&Outcome> = best(panel).filter(|outcome| outcome.method == method).collect();
        let slope = |value: &dyn Fn(&Outcome) -> f64| {
            let points = own
                .iter()
                .filter_map(|outcome| Some((outcome.x?.ln(), value(outcome).ln())));
            let points: Vec<(f64, f64)> = points.collect();
            let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
            let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
            let slope = mean(&|point| (point.0 - x) * (point.1 - y)) / mean(&|point| (point.0 - x).powi(2));
            Entry::number(slope, |value| format!("{value:.2}"))
        };
        table.row([
            Entry::text(method),
            slope(&|outcome| outcome.rounds),
            slope(&|outcome| outcome.gradient_queries),
            slope(&|outcome| outcome.mean),
        ]);
    }
    table
}

/// The charts of a panel with an axis: accuracy, or risk with the seconds and rounds of a run.
fn charts(panel: &Panel, place: usize, subtitle: &str) -> Vec<Picture> {
    let Some(axis) = &panel.vary else { return Vec::new() };
    let chart = |suffix: &str, label: &str, scale, value: &dyn Fn(&Outcome) -> (f64, Option<(f64, f64)>)| {
        let points = best(panel).filter_map(|outcome| {
            let (x, (y, interval)) = (outcome.x?, value(outcome));
            let note = format!("{} at {}: {}", outcome.method, number(x), three_digits(y));
            Some((
                outcome.method.clone(),
                Point {
                    interval,
                    ..Point::new(x, y, note)
                },
            ))
        });
        let title = format!("{}{}", panel.label, suffix.replace('-', ", "));
        let y = Axis {
            scale,
            ..Axis::linear(label)
        };
        let chart = Chart::new(
            &title,
            subtitle,
            Axis::logarithmic(axis),
            y,
            grouped(Style::Line, points),
        );
        Picture::chart(&title, &format!("panel-{place}{suffix}"), chart)
    };
    match panel.metric {
        // An interval of few runs may end outside of 0 to 100 %.
        Metric::TestAccuracy => vec![chart("", "test accuracy (%)", Scale::Linear, &|outcome| {
            (outcome.mean, Some((outcome.low.max(0.0), outcome.high.min(100.0))))
        })],
        Metric::ExcessRisk => vec![
            chart("", "excess population risk", Scale::Logarithmic, &|outcome| {
                (outcome.mean, Some((outcome.low, outcome.high)))
            }),
            chart(
                "-seconds",
                "seconds of a run, one thread",
                Scale::Logarithmic,
                &|outcome| (outcome.seconds, None),
            ),
            chart("-rounds", "adaptive rounds", Scale::Logarithmic, &|outcome| {
                (outcome.rounds, None)
            }),
        ],
    }
}
