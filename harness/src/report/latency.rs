//! What a round costs on ranks with a latency between them, measured and predicted, and on ranks beside threads.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::time;
use super::legend::Legend;
use crate::prediction::ranks::{LatencyRow, ScalingRow};

/// Points of a predicted line. It is straight in the delay, so it is bent on logarithmic axes.
const LINE_POINTS: usize = 17;

/// Seconds for an axis or a text.
fn seconds(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else {
        time(value * 1e9)
    }
}

/// `500`, `60,000`.
fn thousands(size: usize) -> String {
    if size < 1000 {
        size.to_string()
    } else {
        format!("{},{:03}", thousands(size / 1000), size % 1000)
    }
}

/// What is measured: suite, algorithm, batch size, ranks.
type Method<'a> = (&'a str, &'a str, usize, usize);

fn method(row: &LatencyRow) -> Method<'_> {
    (&row.suite, &row.algorithm, row.batch_size, row.workers)
}

/// Rows by method, each by its delay.
fn by_method(rows: &[LatencyRow]) -> Vec<Vec<&LatencyRow>> {
    let mut methods: Vec<Method<'_>> = rows.iter().map(method).collect();
    methods.sort_unstable();
    methods.dedup();
    methods
        .into_iter()
        .map(|wanted| {
            let mut own: Vec<_> = rows.iter().filter(|row| method(row) == wanted).collect();
            own.sort_by(|a, b| a.latency_s.total_cmp(&b.latency_s));
            own
        })
        .collect()
}

fn name(row: &LatencyRow) -> String {
    format!(
        "{}, B = {}, {} rounds ({})",
        row.algorithm,
        thousands(row.batch_size),
        row.rounds,
        row.suite
    )
}

/// Time of a run against the latency of its rounds: marks are measured, lines predicted.
pub fn latency_svg(rows: &[LatencyRow]) -> String {
    let mut series = Vec::new();
    let mut apart = Vec::new();
    for (colour, own) in by_method(rows).into_iter().enumerate() {
        let point = |row: &LatencyRow, delay: f64, seconds: f64, note: String| Point {
            x: row.link.link_s + delay,
            y: seconds,
            whisker: None,
            note,
        };
        let measured = own.iter().map(|row| {
            let note = format!(
                "{}, B = {}, delay {}: {}, predicted {}",
                row.algorithm,
                thousands(row.batch_size),
                seconds(row.latency_s),
                seconds(row.times.seconds),
                seconds(row.times.predicted_seconds)
            );
            point(row, row.latency_s, row.times.seconds, note)
        });
        let (first, last) = (own[0], own[own.len() - 1]);
        let steps = if last.latency_s > first.latency_s {
            LINE_POINTS
        } else {
            1
        };
        let ends = [first, last].map(|row| row.link.link_s + row.latency_s);
        let predicted = (0..steps).map(|step| {
            // Equal steps on a logarithmic axis.
            let part = step as f64 / (steps - 1).max(1) as f64;
            let delay = ends[0] * (ends[1] / ends[0]).powf(part) - first.link.link_s;
            let way = (delay - first.latency_s) / (last.latency_s - first.latency_s).max(f64::MIN_POSITIVE);
            let value =
                first.times.predicted_seconds + way * (last.times.predicted_seconds - first.times.predicted_seconds);
            point(first, delay, value, String::new())
        });
        for (drawing, points, kind) in [
            (Drawing::Points, measured.collect(), "measured"),
            (Drawing::Reference, predicted.collect::<Vec<_>>(), "predicted"),
        ] {
            apart.push((name(first), kind.to_owned()));
            series.push(Series {
                name: format!("{}: {kind}", name(first)),
                drawing,
                colour,
                variant: 0,
                points,
            });
        }
    }
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        format: seconds,
        ticks: Vec::new(),
        include: Vec::new(),
    };
    let chart = Chart {
        title: "Time of a run against the delay between its ranks".to_owned(),
        subtitle: format!(
            "{} ranks of one thread, delays by {}; lines are predicted from the ranks without delay",
            rows.first().map_or(0, |row| row.workers),
            rows.first().map_or("", |row| row.link.link.as_str())
        ),
        x: axis("latency of a message: the link's own and the delay of a direction"),
        y: axis("time of all rounds"),
        series,
    };
    let legend = Legend::of_pairs(&chart, &apart);
    chart.standalone_svg_with(WIDE, &legend)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// An error of a prediction.
fn error(value: f64) -> String {
    format!("{}{:.1} %", if value < 0.0 { "−" } else { "+" }, 100.0 * value.abs())
}

fn header(first: &str, columns: impl Iterator<Item = String>) -> String {
    let columns: Vec<String> = columns.collect();
    format!(
        "| {first} | {} |\n| --- |{}\n",
        columns.join(" | "),
        " ---: |".repeat(columns.len())
    )
}

/// Tables of what was measured and predicted at each delay, as Markdown.
pub fn latency_table(rows: &[LatencyRow]) -> String {
    let mut delays: Vec<f64> = rows.iter().map(|row| row.latency_s).collect();
    delays.sort_by(f64::total_cmp);
    delays.dedup();
    let mut text = String::new();
    let mut table = |title: &str, cell: &dyn Fn(&LatencyRow) -> String| {
        let heads = delays.iter().map(|delay| format!("delay {}", seconds(*delay)));
        let _ = write!(text, "{title}\n\n{}", header("method", heads));
        for own in by_method(rows) {
            let _ = write!(text, "| {} |", name(own[0]));
            for delay in &delays {
                let row = own.iter().find(|row| row.latency_s.total_cmp(delay).is_eq());
                let _ = write!(text, " {} |", row.map_or_else(|| "–".to_owned(), |row| cell(row)));
            }
            text.push('\n');
        }
        text.push('\n');
    };
    table(
        "A round, measured; predicted from the ranks without delay (error):",
        &|row| {
            format!(
                "{}; {} ({})",
                seconds(row.times.measured_round_s),
                seconds(row.times.predicted_round_s),
                error(row.times.round_error)
            )
        },
    );
    table("All rounds of a run, measured; predicted (error):", &|row| {
        format!(
            "{}; {} ({})",
            seconds(row.times.seconds),
            seconds(row.times.predicted_seconds),
            error(row.times.error)
        )
    });
    table(
        "Error of a round predicted from one process and the link alone:",
        &|row| error(row.times.round_error_from_one),
    );
    table(
        "Part of the time in calls to the other ranks, waiting included:",
        &|row| percent(row.link.communication),
    );
    let mut crossings: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            row.overtakes.iter().map(|other| {
                let when = if other.latency_s > 0.0 {
                    format!("from a delay of {} on", seconds(other.latency_s))
                } else {
                    "at any delay".to_owned()
                };
                format!("- {}: by prediction faster than {} {when}", name(row), other.against)
            })
        })
        .collect();
    crossings.sort();
    crossings.dedup();
    for line in crossings {
        let _ = writeln!(text, "{line}");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// `2 ranks × 1 thread`, `2 threads`.
fn workers(row: &ScalingRow) -> String {
    let plural = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let threads = plural(row.threads, "thread");
    let crowded = if row.oversubscribed { ", oversubscribed" } else { "" };
    match row.ranks {
        None => format!("{threads}{crowded}"),
        Some(ranks) => format!("{} × {threads}{crowded}", plural(ranks, "rank")),
    }
}

/// Tables of rounds on threads and on ranks, as Markdown: time and speed-up, waiting, ranks over as many threads, and weak
/// scaling.
pub fn scaling_table(rows: &[ScalingRow]) -> String {
    let mut kinds: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row.dataset.as_str(), row.algorithm.as_str()))
        .collect();
    kinds.dedup();
    let mut text = String::new();
    for (dataset, algorithm) in kinds {
        let own = || {
            rows.iter()
                .filter(move |row| row.dataset == dataset && row.algorithm == algorithm)
        };
        let mut columns: Vec<&ScalingRow> = Vec::new();
        for row in own() {
            let known = |column: &&ScalingRow| (column.ranks, column.threads) == (row.ranks, row.threads);
            if !columns.iter().any(known) {
                columns.push(row);
            }
        }
        columns.sort_by_key(|row| (row.ranks.unwrap_or(1) * row.threads, row.ranks));
        let mut sizes: Vec<usize> = own().map(|row| row.batch_size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let find = |size: usize, ranks: Option<usize>, threads: usize| {
            own().find(|row| (row.batch_size, row.ranks, row.threads) == (size, ranks, threads))
        };
        let ranked = || {
            columns
                .iter()
                .filter(|column| column.ranks.is_some_and(|ranks| ranks > 1))
        };
        let heads = columns
            .iter()
            .map(|column| workers(column))
            .chain(ranked().map(|column| format!("waiting, {}", workers(column))))
            .chain(ranked().filter_map(|column| {
                let threads = column.ranks? * column.threads;
                let beside = own().any(|row| row.ranks.is_none() && row.threads == threads);
                beside.then(|| format!("{} over {threads} threads", workers(column)))
            }));
        let _ = write!(
            text,
            "`{algorithm}` on `{dataset}`, a round (speed-up over one thread):\n\n{}",
            header("B", heads)
        );
        for &size in &sizes {
            let _ = write!(text, "| {} |", thousands(size));
            for column in &columns {
                let cell = find(size, column.ranks, column.threads).map_or_else(
                    || "–".to_owned(),
                    |row| format!("{} ({:.2})", seconds(row.round_s), row.speedup),
                );
                let _ = write!(text, " {cell} |");
            }
            for column in ranked() {
                let waits = find(size, column.ranks, column.threads).and_then(|row| row.communication);
                let _ = write!(text, " {} |", waits.map_or_else(|| "–".to_owned(), percent));
            }
            for column in ranked() {
                let threads = column.ranks.unwrap_or(1) * column.threads;
                if own().any(|row| row.ranks.is_none() && row.threads == threads) {
                    let ratio = find(size, column.ranks, column.threads)
                        .zip(find(size, None, threads))
                        .map(|(ranks, threads)| format!("{:.2}", ranks.round_s / threads.round_s));
                    let _ = write!(text, " {} |", ratio.unwrap_or_else(|| "–".to_owned()));
                }
            }
            text.push('\n');
        }
        let weak: Vec<&ScalingRow> = own()
            .filter(|row| row.weak_efficiency.is_some() && row.ranks.unwrap_or(1) * row.threads > 1)
            .collect();
        if !weak.is_empty() {
            let heads = columns
                .iter()
                .filter(|column| column.ranks.unwrap_or(1) * column.threads > 1);
            let _ = write!(
                text,
                "\nWeak scaling: the time of one thread on its share of B over that of all on B:\n\n{}",
                header("B", heads.clone().map(|column| workers(column)))
            );
            for &size in sizes
                .iter()
                .filter(|&&size| weak.iter().any(|row| row.batch_size == size))
            {
                let _ = write!(text, "| {} |", thousands(size));
                for column in heads.clone() {
                    let efficiency =
                        find(size, column.ranks, column.threads).and_then(|row| row.weak_efficiency.map(percent));
                    let _ = write!(text, " {} |", efficiency.unwrap_or_else(|| "–".to_owned()));
                }
                text.push('\n');
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::Overtaking;
    use crate::prediction::ranks::{Link, Times};

    fn row(delay: f64, batch_size: usize) -> LatencyRow {
        let predicted = 12.0 * (1e-3 + delay);
        LatencyRow {
            algorithm: "dp-sgd".into(),
            suite: "latency".into(),
            batch_size,
            workers: 2,
            latency_s: delay,
            rounds: 12,
            link: Link {
                link: "netem".into(),
                link_s: 5e-5,
                messages: 1.0,
                row_bytes: 0.0,
                communication: 0.5,
            },
            times: Times {
                predicted_round_s: predicted / 12.0,
                measured_round_s: predicted / 12.0 * 1.25,
                round_error: -0.2,
                round_error_from_one: -0.1,
                predicted_seconds: predicted,
                seconds: predicted * 1.25,
                error: -0.2,
            },
            test_accuracy: None,
            overtakes: vec![Overtaking {
                against: "dp-sgd B=500".into(),
                latency_s: 2e-3,
            }],
        }
    }

    #[test]
    fn the_predicted_line_is_bent_on_logarithmic_axes_and_has_its_methods_colour() {
        let svg = latency_svg(&[row(0.0, 8000), row(0.01, 8000), row(0.1, 8000), row(0.0, 500)]);
        let tinted = svg.split(" tinted\"").skip(1).find(|group| group.contains('L'));
        let line = tinted.expect("a predicted line in the method's colour");
        let path = line.split(" d=\"M").nth(1).unwrap().split('"').next().unwrap();
        let points: Vec<(f64, f64)> = path
            .split('L')
            .map(|point| {
                let (x, y) = point.split_once(' ').unwrap();
                (x.parse().unwrap(), y.parse().unwrap())
            })
            .collect();
        assert_eq!(points.len(), LINE_POINTS);
        let (first, last) = (points[0], points[LINE_POINTS - 1]);
        let middle = points[LINE_POINTS / 2];
        // y grows downwards: the middle lies below the straight line between the ends.
        assert!(middle.1 - f64::midpoint(first.1, last.1) > 30.0, "{points:?}");
        // One entry for the method, and one each for what is measured and what is predicted.
        assert_eq!(svg.matches(">measured<").count(), 1);
        assert_eq!(svg.matches(">predicted<").count(), 1);
    }

    #[test]
    fn tables_have_a_row_for_each_method_and_a_column_for_each_delay() {
        let rows = [row(0.0, 8000), row(0.1, 8000), row(0.0, 500)];
        let text = latency_table(&rows);
        assert!(
            text.contains(
                "| dp-sgd, B = 8,000, 12 rounds (latency) | 1.25 ms; 1 ms (−20.0 %) | 126 ms; 101 ms (−20.0 %) |"
            ),
            "{text}"
        );
        assert!(
            text.contains("| dp-sgd, B = 500, 12 rounds (latency) | 1.25 ms; 1 ms (−20.0 %) | – |"),
            "{text}"
        );
        assert!(
            text.contains("faster than dp-sgd B=500 from a delay of 2 ms on"),
            "{text}"
        );
    }

    #[test]
    fn ranks_stand_beside_as_many_threads_and_crowded_ones_are_named() {
        let row = |ranks, threads, round_s: f64, weak_efficiency| ScalingRow {
            algorithm: "dp-sgd".into(),
            dataset: "mnist".into(),
            batch_size: 8000,
            ranks,
            threads,
            oversubscribed: ranks == Some(4),
            round_s,
            communication: ranks.map(|_| 0.25),
            speedup: 2e-3 / round_s,
            weak_efficiency,
        };
        let text = scaling_table(&[
            row(None, 1, 2e-3, Some(1.0)),
            row(None, 2, 1e-3, None),
            row(Some(2), 1, 1.1e-3, Some(0.9)),
            row(Some(4), 1, 2e-3, None),
        ]);
        assert!(
            text.contains(
                "| B | 1 thread | 2 threads | 2 ranks × 1 thread | 4 ranks × 1 thread, oversubscribed | \
                 waiting, 2 ranks × 1 thread | waiting, 4 ranks × 1 thread, oversubscribed | \
                 2 ranks × 1 thread over 2 threads |"
            ),
            "{text}"
        );
        assert!(
            text.contains("| 8,000 | 2 ms (1.00) | 1 ms (2.00) | 1.1 ms (1.82) | 2 ms (1.00) | 25 % | 25 % | 1.10 |"),
            "{text}"
        );
        assert!(text.contains("| 8,000 | – | 90 % | – |"), "{text}");
    }
}
