//! The page and pictures of thread scaling: speed-up and efficiency against threads, and the table.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::{count, escape, three_digits, time};
use super::section::{Picture, Section};
use super::shell::Page;
use super::tables::{Entry, Table};
use crate::studies::scaling::{Curve, Estimate, Kind, Study, limits};

/// The page.
pub fn scaling_html(study: &Study) -> String {
    let environment = &study.environment;
    let html = scaling_section(study, &environment.command);
    Page::of_study("thread scaling", "scaling", "Thread scaling", html, environment).html()
}

/// The study as the inside of a section.
pub(super) fn scaling_section(study: &Study, command: &str) -> String {
    let mut html = format!(
        "<h2>Thread scaling</h2><p class=\"lead\">Medians over {repeats} repeats, each of which measured all thread counts of \
         a curve side by side; 95 % bootstrap intervals over the repeats. Threads bound: {pinning}. Dotted: one per thread, \
         and what the machine itself reaches from registers and from memory.</p>",
        repeats = study.repeats,
        pinning = escape(study.environment.pinning_policy()),
    );
    if !study.warnings.is_empty() {
        html.push_str("<h3>What disturbed it</h3><ul>");
        for warning in &study.warnings {
            let _ = write!(html, "<li>{}</li>", escape(warning));
        }
        html.push_str("</ul>");
    }
    let section = Section {
        id: "scaling-figure".to_owned(),
        link: String::new(),
        about: String::new(),
        panels_by: "What is shown",
        panels: charts(study)
            .into_iter()
            .map(|(name, chart)| (name.replace('-', " "), Picture::of_chart(chart)))
            .collect(),
        command: command.to_owned(),
    };
    section.figure("Thread scaling", &mut html);
    table(study, &mut html);
    html
}

/// Pictures that stand alone: file name without extension, SVG.
pub fn scaling_svgs(study: &Study) -> Vec<(&'static str, String)> {
    charts(study)
        .into_iter()
        .map(|(name, chart)| (name, chart.standalone_svg(WIDE)))
        .collect()
}

fn charts(study: &Study) -> Vec<(&'static str, Chart)> {
    let mut charts = Vec::new();
    for (kind, name, title, subtitle) in [
        (
            Kind::Strong,
            "strong-speedup",
            "Strong scaling: speed-up of a round",
            "the batch stays, threads are added",
        ),
        (
            Kind::Weak,
            "weak-speedup",
            "Weak scaling: scaled speed-up of a round",
            "the rows a thread stay, batch and threads grow together",
        ),
    ] {
        if study.curves.iter().any(|curve| curve.kind == kind) {
            charts.push((name, speedups(study, kind, title, subtitle)));
        }
    }
    charts.push(("efficiency", efficiencies(study)));
    charts
}

fn threads_axis(study: &Study) -> Axis {
    Axis {
        label: "threads".to_owned(),
        scale: Scale::Linear,
        format: three_digits,
        ticks: study.threads.iter().map(|&threads| threads as f64).collect(),
        include: Vec::new(),
    }
}

fn point(threads: usize, name: &str, estimate: Estimate) -> Point {
    Point {
        x: threads as f64,
        y: estimate.value,
        whisker: Some((estimate.low, estimate.high)),
        note: format!("{name}, {threads} threads: {estimate}"),
    }
}

fn series(curves: impl Iterator<Item = (usize, String, Vec<Point>)>) -> Vec<Series> {
    curves
        .map(|(place, name, points)| Series {
            name,
            drawing: Drawing::Line,
            colour: place,
            variant: 0,
            points,
        })
        .collect()
}

fn reference(name: &str, variant: usize, points: impl Iterator<Item = (f64, f64)>) -> Series {
    Series {
        name: name.to_owned(),
        drawing: Drawing::Reference,
        colour: 0,
        variant,
        points: points
            .map(|(x, y)| Point {
                x,
                y,
                whisker: None,
                note: format!("{name}, {x} threads: {}", three_digits(y)),
            })
            .collect(),
    }
}

fn speedups(study: &Study, kind: Kind, title: &str, subtitle: &str) -> Chart {
    let of_kind = |curve: &&Curve| curve.kind == kind;
    let mut all = series(study.curves.iter().filter(of_kind).enumerate().map(|(place, curve)| {
        let name = match curve.serial_fraction {
            Some(fraction) => format!("{}: serial {:.3}", curve.label(), fraction.value),
            None => curve.label(),
        };
        let points = curve.points.iter();
        (
            place,
            name.clone(),
            points.map(|own| point(own.threads, &name, own.speedup)).collect(),
        )
    }));
    let counts = || study.threads.iter().map(|&threads| threads as f64);
    all.push(reference("one per thread", 0, counts().map(|count| (count, count))));
    for (variant, (name, limit)) in (1..).zip(limits(study)) {
        let points = limit.into_iter().map(|(threads, speedup)| (threads as f64, speedup));
        all.push(reference(name, variant, points));
    }
    Chart {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x: threads_axis(study),
        y: Axis {
            label: "speed-up".to_owned(),
            scale: Scale::Linear,
            format: three_digits,
            ticks: Vec::new(),
            include: vec![1.0],
        },
        series: all,
    }
}

fn efficiencies(study: &Study) -> Chart {
    let all = series(study.curves.iter().enumerate().map(|(place, curve)| {
        let name = curve.label();
        let points = curve.points.iter();
        (
            place,
            name.clone(),
            points.map(|own| point(own.threads, &name, own.efficiency)).collect(),
        )
    }));
    Chart {
        title: "Efficiency of threads".to_owned(),
        subtitle: "speed-up over the number of threads, strong and weak".to_owned(),
        x: threads_axis(study),
        y: Axis {
            label: "efficiency".to_owned(),
            scale: Scale::Linear,
            format: three_digits,
            ticks: Vec::new(),
            include: vec![0.5, 1.0],
        },
        series: all,
    }
}

fn table(study: &Study, page: &mut String) {
    let mut table = Table::new(vec![
        ("curve", false),
        ("threads", true),
        ("batch", true),
        ("round", true),
        ("speed-up", true),
        ("efficiency", true),
        ("serial fraction", true),
    ]);
    let estimated = |estimate: Estimate| Entry::html(escape(&estimate.to_string()), Some(estimate.value));
    for curve in &study.curves {
        for point in &curve.points {
            let key = (&curve.method, curve.kind, curve.size, point.threads);
            let mut cells = study.cells.iter();
            let median = cells
                .find(|cell| (&cell.method, cell.kind, cell.size, cell.threads) == key)
                .map_or(f64::NAN, |cell| cell.round_ns.value);
            let fraction = curve.serial_fraction.filter(|_| point.threads > 1);
            table.row(vec![
                Entry::text(&curve.label()),
                Entry::number(Some(point.threads as f64), count),
                Entry::number(Some(point.batch_size as f64), count),
                Entry::number(Some(median), time),
                estimated(point.speedup),
                estimated(point.efficiency),
                Entry::number(fraction.map(|fraction| fraction.value), |value| {
                    let interval = fraction.map_or_else(String::new, |fraction| {
                        format!(" ({:.3} – {:.3})", fraction.low, fraction.high)
                    });
                    format!("{value:.3}{interval}")
                }),
            ]);
        }
    }
    let title = "All curves";
    let _ = write!(
        page,
        "<h3 class=\"study\">{title}</h3>{}",
        table.html(Some("scaling-curves"), title, true)
    );
}
