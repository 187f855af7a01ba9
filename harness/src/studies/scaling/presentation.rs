//! The presentation of thread scaling: speed-up and efficiency against threads, with the limits of the machine.

use super::{Curve, Found, Kind, limits};
use crate::format::time;
use crate::report::{Axis, Chart, Entry, Figure, Panel, Part, Point, Presentation, Series, Style, Table};
use crate::statistics::Estimate;

pub(super) fn present(study: &Found) -> Presentation {
    let about = format!(
        "Medians over {} repeats, each of which measured all thread counts of a curve in turn; 95 % bootstrap intervals over \
         the repeats. Pinning of threads: {}. Dotted: one per thread, and the machine's own limits from registers and from \
         memory.",
        study.repeats, study.environment.pinning
    );
    let mut presentation = Presentation::new("Thread scaling", "Thread scaling", &about);
    if !study.warnings.is_empty() {
        presentation.parts.push(Part::Heading("Disturbances".to_owned()));
        presentation.parts.push(Part::List(study.warnings.iter().map(ToString::to_string).collect()));
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
        let curves: Vec<&Curve> = study.curves.iter().filter(|curve| curve.id.kind == kind).collect();
        if !curves.is_empty() {
            let series = speedups(study, &curves);
            let chart = Chart::new(title, subtitle, threads(study), y("speed-up", [1.0]), series);
            panels.push(panel(file, chart));
        }
    }
    let named = study.curves.iter().map(|curve| (curve.id.label(), curve));
    let efficiency = Chart::new(
        "Efficiency of threads",
        "speed-up over the number of threads, strong and weak",
        threads(study),
        y("efficiency", [0.5, 1.0]),
        series(named, |point| point.efficiency),
    );
    panels.push(panel("efficiency", efficiency));
    presentation.parts.push(Part::Figure(Figure::new("Thread scaling", "Content", panels)));
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

fn series<'a>(
    curves: impl Iterator<Item = (String, &'a Curve)>,
    value: impl Fn(&super::Point) -> Estimate,
) -> Vec<Series> {
    let one = |(colour, (name, curve)): (usize, (String, &Curve))| {
        let points = curve.points.iter().map(|own| {
            let estimate = value(own);
            let note = format!("{name}, {} threads: {estimate}", own.threads);
            Point::new(own.threads as f64, estimate.value, note).interval(estimate.low, estimate.high)
        });
        Series::new(name.clone(), Style::Line, colour, points.collect())
    };
    curves.enumerate().map(one).collect()
}

fn speedups(study: &Found, curves: &[&Curve]) -> Vec<Series> {
    let name = |curve: &Curve| match curve.serial_fraction {
        Some(fraction) => format!("{}: serial {:.3}", curve.id.label(), fraction.value),
        None => curve.id.label(),
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
    let mut table = Table::new("All curves", "curve|#threads|#batch|#round|#speed-up|#efficiency|#serial fraction");
    let estimated = |estimate: Estimate| Entry::sorted(estimate.to_string(), estimate.value);
    for curve in &study.curves {
        for point in &curve.points {
            let mut cells = study.cells.iter();
            let cell = cells.find(|cell| cell.curve == curve.id && cell.threads == point.threads);
            let fraction = curve.serial_fraction.filter(|_| point.threads > 1);
            let fraction = fraction.map_or_else(Entry::default, |own| {
                let text = format!("{:.3} ({:.3} – {:.3})", own.value, own.low, own.high);
                Entry::sorted(text, own.value)
            });
            table.row([
                Entry::text(curve.id.label()),
                Entry::count(point.threads),
                Entry::count(point.batch_size),
                Entry::number(cell.map(|cell| cell.round_ns), time),
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
            table
                .row([name, Entry::count(threads), none.clone(), none.clone()].into_iter().chain(shares).chain([none]));
        }
    }
    table
}
