//! What a round costs on ranks with a latency between them, measured and predicted.

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use crate::commands::simulate::LatencyRow;

/// Seconds for an axis: two digits.
fn seconds(value: f64) -> String {
    if value < 1e-3 {
        format!("{:.0} µs", value * 1e6)
    } else if value < 1.0 {
        format!("{:.0} ms", value * 1e3)
    } else {
        format!("{value:.0} s")
    }
}

/// Time of a run against the latency of its rounds: points are measured, lines predicted.
pub fn latency_svg(rows: &[LatencyRow]) -> String {
    let mut methods: Vec<(String, String, usize)> = rows
        .iter()
        .map(|row| (row.suite.clone(), row.algorithm.clone(), row.batch_size))
        .collect();
    methods.sort();
    methods.dedup();
    let mut series = Vec::new();
    for (colour, (suite, algorithm, batch)) in methods.iter().enumerate() {
        let own: Vec<&LatencyRow> = rows
            .iter()
            .filter(|row| row.suite == *suite && row.algorithm == *algorithm && row.batch_size == *batch)
            .collect();
        let points = |value: fn(&LatencyRow) -> f64| -> Vec<Point> {
            own.iter()
                .map(|row| Point {
                    x: row.link_s + row.latency_s,
                    y: value(row),
                    whisker: None,
                    note: format!(
                        "{algorithm}, B = {batch}, delay {}: {:.3} s",
                        seconds(row.latency_s),
                        value(row)
                    ),
                })
                .collect()
        };
        let name = format!("{suite}: {algorithm}, B = {batch}");
        series.push(Series {
            name: name.clone(),
            drawing: Drawing::Points,
            colour,
            variant: 0,
            points: points(|row| row.seconds),
        });
        series.push(Series {
            name: format!("{name}: predicted"),
            drawing: Drawing::Reference,
            colour,
            variant: 0,
            points: points(|row| row.predicted_seconds),
        });
    }
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        format: seconds,
        ticks: Vec::new(),
        include: Vec::new(),
    };
    let link = rows.first().map_or("", |row| row.link.as_str());
    Chart {
        title: "Runs on ranks with a delay between them".to_owned(),
        subtitle: format!(
            "{} ranks of one thread, joined by {link}; points measured, dotted lines predicted from the ranks without delay",
            rows.first().map_or(0, |row| row.workers)
        ),
        x: axis("latency of a round: link and delay"),
        y: axis("time of all rounds"),
        series,
    }
    .standalone_svg(WIDE)
}
