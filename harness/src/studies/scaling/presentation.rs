//! The presentation of thread scaling: speed-up and efficiency against threads, with the limits of the machine.

use super::{Curve, Estimate, Found, Kind, limits};
use crate::format::time;
use crate::report::{Axis, Chart, Entry, Figure, Panel, Part, Point, Presentation, Series, Style, Table};

/// The presentation of the study.
pub fn present(study: &Found) -> Presentation {
    let about = format!(
        "Medians over {} repeats, each of which measured all thread counts of a curve in turn; 95 % bootstrap intervals over \
         the repeats. Pinning of threads: {}. Dotted: one per thread, and the machine's own limits from registers and from \
         memory.",
        study.repeats,
        study.environment.pinning_policy()
    );
    let mut presentation = Presentation::new("Thread scaling", "Thread scaling", &about, "rounds run scaling");
    if !study.warnings.is_empty() {
        presentation.parts.push(Part::Heading("Disturbances".to_owned()));
        presentation
            .parts
            .push(Part::List(study.warnings.iter().map(ToString::to_string).collect()));
    }
    let mut panels = Vec::new();
    for (kind, file, title, subtitle) in [
        (
            Kind::Strong,
            "strong-speedup",
            "Strong scaling: speed-up of a round",
            "the batch size is constant, threads are added",
        ),
        (
            Kind::Weak,
            "weak-speedup",
            "Weak scaling: scaled speed-up of a round",
            "the rows per thread are constant, batch size and threads grow together",
        ),
    ] {
        let curves: Vec<&Curve> = study.curves.iter().filter(|curve| curve.kind == kind).collect();
        if !curves.is_empty() {
            panels.push(panel(
                file,
                Chart::new(
                    title,
                    subtitle,
                    threads(study),
                    y("speed-up", [1.0]),
                    speedups(study, &curves),
                ),
            ));
        }
    }
    let efficiencies = series(study.curves.iter().map(|curve| (curve.label(), curve)), |point| {
        point.efficiency
    });
    let subtitle = "speed-up over the number of threads, strong and weak";
    let efficiency = Chart::new(
        "Efficiency of threads",
        subtitle,
        threads(study),
        y("efficiency", [0.5, 1.0]),
        efficiencies,
    );
    panels.push(panel("efficiency", efficiency));
    presentation
        .parts
        .push(Part::Figure(Figure::new("Thread scaling", "Content", panels)));
    presentation.parts.push(Part::Heading("All curves".to_owned()));
    presentation.parts.push(Part::Table(table(study)));
    presentation
}

fn panel(file: &str, chart: Chart) -> Panel {
    Panel::chart(&file.replace('-', " "), file, chart)
}

fn threads(study: &Found) -> Axis {
    Axis::linear("threads").ticks(study.threads.iter().map(|&threads| threads as f64))
}

fn y<const N: usize>(label: &str, include: [f64; N]) -> Axis {
    Axis::linear(label).including(include)
}

/// A series for each named curve.
fn series<'a>(
    curves: impl Iterator<Item = (String, &'a Curve)>,
    value: impl Fn(&super::Point) -> Estimate,
) -> Vec<Series> {
    let one = |(colour, (name, curve)): (usize, (String, &Curve))| {
        let points = curve.points.iter().map(|own| {
            let estimate = value(own);
            Point::new(
                own.threads as f64,
                estimate.value,
                format!("{name}, {} threads: {estimate}", own.threads),
            )
            .interval(estimate.low, estimate.high)
        });
        Series::new(name.clone(), Style::Line, colour, points.collect())
    };
    curves.enumerate().map(one).collect()
}

fn speedups(study: &Found, curves: &[&Curve]) -> Vec<Series> {
    let name = |curve: &Curve| match curve.serial_fraction {
        Some(fraction) => format!("{}: serial {:.3}", curve.label(), fraction.value),
        None => curve.label(),
    };
    let mut all = series(curves.iter().map(|curve| (name(curve), *curve)), |point| point.speedup);
    let linear = study.threads.iter().map(|&threads| (threads as f64, threads as f64));
    all.push(Series::reference("one per thread", linear));
    all.extend((1..).zip(limits(study)).map(|(variant, (name, limit))| {
        let points = limit.into_iter().map(|(threads, speedup)| (threads as f64, speedup));
        Series::reference(name, points).variant(variant)
    }));
    all
}

fn table(study: &Found) -> Table {
    let columns = [
        "curve",
        "#threads",
        "#batch",
        "#round",
        "#speed-up",
        "#efficiency",
        "#serial fraction",
    ];
    let mut table = Table::new("All curves", &columns);
    let estimated = |estimate: Estimate| Entry::sorted(estimate.to_string(), estimate.value);
    for curve in &study.curves {
        for point in &curve.points {
            let key = (&curve.method, curve.kind, curve.size, point.threads);
            let mut cells = study.cells.iter();
            let cell = cells.find(|cell| (&cell.method, cell.kind, cell.size, cell.threads) == key);
            let fraction = curve.serial_fraction.filter(|_| point.threads > 1);
            let fraction = fraction.map_or_else(Entry::default, |own| {
                Entry::sorted(
                    format!("{:.3} ({:.3} – {:.3})", own.value, own.low, own.high),
                    own.value,
                )
            });
            table.row([
                Entry::text(curve.label()),
                Entry::count(point.threads),
                Entry::count(point.batch_size),
                Entry::number(cell.map(|cell| cell.round_ns.value), time),
                estimated(point.speedup),
                estimated(point.efficiency),
                fraction,
            ]);
        }
    }
    for (name, values) in limits(study) {
        for (threads, speedup) in values.into_iter().filter(|(threads, _)| *threads > 1) {
            let two = |value: f64| Entry::number(value, |value| format!("{value:.2}"));
            let [name, none] = [Entry::text(format!("limit: {name}")), Entry::default()];
            let shares = [two(speedup), two(speedup / threads as f64)];
            table.row(
                [name, Entry::count(threads), none.clone(), none.clone()]
                    .into_iter()
                    .chain(shares)
                    .chain([none]),
            );
        }
    }
    table
}
