//! Presentations of rounds on ranks: time against the latency between them, measured and predicted, and ranks compared with
//! threads.

use super::ranks::{LatencyRow, ScalingRow};
use crate::format::{plural, time};
use crate::report::{
    Axis, Chart, Column, Entry, Figure, Format, Panel, Part, Point, Presentation, Scale, Series, Style, Table,
};

/// Points of a predicted line. It is straight in the delay, so it is curved on logarithmic axes.
const LINE_POINTS: usize = 17;

/// Seconds for an axis or a text.
fn seconds(value: f64) -> String {
    Format::Seconds.show(value)
}

/// `500`, `60,000`.
fn thousands(size: usize) -> String {
    if size < 1000 {
        size.to_string()
    } else {
        format!("{},{:03}", thousands(size / 1000), size % 1000)
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The error of a prediction.
fn error(value: f64) -> String {
    format!("{}{:.1} %", if value < 0.0 { "−" } else { "+" }, 100.0 * value.abs())
}

fn missing() -> Entry {
    Entry::text("–")
}

/// Rows of each method (suite, algorithm, batch size, ranks) by their delay.
fn by_method(rows: &[LatencyRow]) -> Vec<Vec<&LatencyRow>> {
    let method = |row: &LatencyRow| (row.suite.clone(), row.algorithm.clone(), row.batch_size, row.workers);
    let mut sorted: Vec<&LatencyRow> = rows.iter().collect();
    sorted.sort_by(|a, b| method(a).cmp(&method(b)).then(a.latency_s.total_cmp(&b.latency_s)));
    sorted
        .chunk_by(|a, b| method(a) == method(b))
        .map(<[_]>::to_vec)
        .collect()
}

fn name(row: &LatencyRow) -> String {
    let (algorithm, size, rounds, suite) = (&row.algorithm, thousands(row.batch_size), row.rounds, &row.suite);
    format!("{algorithm}, B = {size}, {rounds} rounds ({suite})")
}

/// Time of a run against the latency of its messages: markers are measured, lines predicted.
fn latency_chart(rows: &[LatencyRow]) -> Chart {
    let mut series = Vec::new();
    for (colour, own) in by_method(rows).into_iter().enumerate() {
        let measured = own.iter().map(|row| {
            let [delay, measured, predicted] =
                [row.latency_s, row.times.seconds, row.times.predicted_seconds].map(seconds);
            let size = thousands(row.batch_size);
            let note = format!(
                "{}, B = {size}, delay {delay}: {measured}, predicted {predicted}",
                row.algorithm
            );
            Point::new(row.link.link_s + row.latency_s, row.times.seconds, note)
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
            let x = ends[0] * (ends[1] / ends[0]).powf(part);
            let way = (x - ends[0]) / (ends[1] - ends[0]).max(f64::MIN_POSITIVE);
            let [from, to] = [first, last].map(|row| row.times.predicted_seconds);
            Point::new(x, from + way * (to - from), "")
        });
        let kinds = [
            (Style::Points, measured.collect::<Vec<_>>(), "measured"),
            (Style::Reference, predicted.collect(), "predicted"),
        ];
        series.extend(kinds.map(|(style, points, kind)| {
            Series::new(format!("{}: {kind}", name(first)), style, colour, points).keys(name(first), kind)
        }));
    }
    let axis = |label: &str| Axis::new(label, Scale::Logarithmic, Format::Seconds);
    let subtitle = format!(
        "{} ranks of one thread, delays by {}; lines are predicted from the ranks without delay",
        rows.first().map_or(0, |row| row.workers),
        rows.first().map_or("", |row| row.link.link.as_str())
    );
    let x = axis("latency of a message: the link's own and the delay of a direction");
    let title = "Time of a run against the delay between its ranks";
    Chart::new(title, subtitle, x, axis("time of all rounds"), series)
}

/// The presentation of measured and predicted times at each delay.
pub fn latency(rows: &[LatencyRow]) -> Presentation {
    let about = "Rounds on ranks with a delay between them, measured, and predicted from the ranks without delay.";
    let mut presentation = Presentation::new("Latency between ranks", "Ranks", about, "");
    if rows.iter().any(|row| row.latency_s > 0.0) {
        let panel = Panel::chart("latency", "latency", latency_chart(rows));
        presentation.parts.push(Part::Figure(Figure::new(
            "Latency between ranks",
            "Content",
            vec![panel],
        )));
    }
    let mut delays: Vec<f64> = rows.iter().map(|row| row.latency_s).collect();
    delays.sort_by(f64::total_cmp);
    delays.dedup();
    let mut table = |title: &str, cell: &dyn Fn(&LatencyRow) -> String| {
        let mut table = Table::new(title, &["method"]);
        table.columns.extend(
            delays
                .iter()
                .map(|delay| Column::new(&format!("#delay {}", seconds(*delay)))),
        );
        for own in by_method(rows) {
            let at = |delay: &f64| own.iter().find(|row| row.latency_s.total_cmp(delay).is_eq());
            let cells = delays
                .iter()
                .map(|delay| at(delay).map_or_else(missing, |row| Entry::parsed(&cell(row))));
            table.row([Entry::text(name(own[0]))].into_iter().chain(cells));
        }
        presentation
            .parts
            .extend([Part::Heading(title.to_owned()), Part::Table(table)]);
    };
    let measured = |measured: f64, predicted: f64, off: f64| {
        format!("{}; {} ({})", seconds(measured), seconds(predicted), error(off))
    };
    table(
        "A round, measured; predicted from the ranks without delay (error)",
        &|row| {
            measured(
                row.times.measured_round_s,
                row.times.predicted_round_s,
                row.times.round_error,
            )
        },
    );
    table("All rounds of a run, measured; predicted (error)", &|row| {
        measured(row.times.seconds, row.times.predicted_seconds, row.times.error)
    });
    table(
        "Error of a round predicted from one process and the link alone",
        &|row| error(row.times.round_error_from_one),
    );
    table("Share of the time in calls to other ranks, waiting included", &|row| {
        percent(row.link.communication)
    });
    let overtakings = rows
        .iter()
        .flat_map(|row| row.overtakes.iter().map(move |other| (row, other)));
    let mut lines: Vec<String> = overtakings
        .map(|(row, other)| {
            let when = match other.latency_s {
                latency if latency > 0.0 => format!("from a delay of {} on", seconds(latency)),
                _ => "at any delay".to_owned(),
            };
            format!("{}: by prediction faster than {} {when}", name(row), other.against)
        })
        .collect();
    lines.sort();
    lines.dedup();
    presentation
        .parts
        .extend((!lines.is_empty()).then_some(Part::List(lines)));
    presentation
}

/// `2 ranks × 1 thread`, `2 threads`.
fn workers(row: &ScalingRow) -> String {
    let crowded = if row.oversubscribed { ", oversubscribed" } else { "" };
    let ranks = row
        .ranks
        .map_or_else(String::new, |ranks| format!("{} × ", plural(ranks, "rank")));
    format!("{ranks}{}{crowded}", plural(row.threads, "thread"))
}

/// The presentation of rounds on threads and on ranks: time and speed-up, waiting, ranks over as many threads, weak scaling.
pub fn ranks(rows: &[ScalingRow]) -> Presentation {
    let mut presentation = Presentation::new(
        "Ranks and threads",
        "Ranks",
        "Rounds on ranks compared with threads.",
        "",
    );
    let kind = |row: &ScalingRow| (row.dataset.clone(), row.algorithm.clone());
    for own in rows.chunk_by(|a, b| kind(a) == kind(b)) {
        let (dataset, algorithm) = kind(&own[0]);
        let mut columns: Vec<&ScalingRow> = own.iter().collect();
        columns.sort_by_key(|row| (row.ranks.unwrap_or(1) * row.threads, row.ranks, row.threads));
        columns.dedup_by_key(|row| (row.ranks, row.threads));
        let mut sizes: Vec<usize> = own.iter().map(|row| row.batch_size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let find = |size: usize, ranks: Option<usize>, threads: usize| {
            own.iter()
                .find(|row| (row.batch_size, row.ranks, row.threads) == (size, ranks, threads))
        };
        let alike = |size: usize, column: &ScalingRow| find(size, column.ranks, column.threads);
        let total = |column: &ScalingRow| column.ranks.unwrap_or(1) * column.threads;
        let ranked: Vec<&ScalingRow> = columns
            .iter()
            .copied()
            .filter(|column| column.ranks.is_some_and(|ranks| ranks > 1))
            .collect();
        let has_threads = |column: &&&ScalingRow| {
            own.iter()
                .any(|row| row.ranks.is_none() && row.threads == total(column))
        };
        let compared: Vec<&ScalingRow> = ranked.iter().filter(has_threads).copied().collect();
        let title = format!("{algorithm} on {dataset}, a round (speed-up over one thread)");
        let heads = columns.iter().map(|column| workers(column));
        let heads = heads.chain(ranked.iter().map(|column| format!("waiting, {}", workers(column))));
        let heads = heads.chain(
            compared
                .iter()
                .map(|column| format!("{} over {} threads", workers(column), total(column))),
        );
        let entry = |text: Option<String>| text.map_or_else(missing, |text| Entry::parsed(&text));
        let mut table = Table::new(&title, &["#B"]);
        table.columns.extend(heads.map(|head| Column::new(&format!("#{head}"))));
        for &size in &sizes {
            let time_of = |row: &ScalingRow| format!("{} ({:.2})", time(1e9 * row.round_s), row.speedup);
            let times = columns.iter().map(|column| entry(alike(size, column).map(time_of)));
            let waits =
                |column: &&ScalingRow| entry(alike(size, column).and_then(|row| row.communication).map(percent));
            let ratio = |column: &&ScalingRow| {
                let pair = alike(size, column).zip(find(size, None, total(column)));
                entry(pair.map(|(ranks, threads)| format!("{:.2}", ranks.round_s / threads.round_s)))
            };
            let cells = times.chain(ranked.iter().map(waits)).chain(compared.iter().map(ratio));
            table.row([Entry::parsed(&thousands(size))].into_iter().chain(cells));
        }
        presentation.parts.extend([Part::Heading(title), Part::Table(table)]);
        let weak = |row: &&ScalingRow| row.weak_efficiency.is_some() && total(row) > 1;
        if own.iter().any(|row| weak(&row)) {
            let parallel: Vec<&&ScalingRow> = columns.iter().filter(|column| total(column) > 1).collect();
            let title = "Weak scaling: the time of one thread on its share of B over that of all on B";
            let mut table = Table::new(title, &["#B"]);
            table.columns.extend(
                parallel
                    .iter()
                    .map(|column| Column::new(&format!("#{}", workers(column)))),
            );
            for &size in sizes
                .iter()
                .filter(|&&size| own.iter().any(|row| row.batch_size == size && weak(&row)))
            {
                let efficiency =
                    |column: &&&ScalingRow| entry(alike(size, column).and_then(|row| row.weak_efficiency).map(percent));
                table.row(
                    [Entry::parsed(&thousands(size))]
                        .into_iter()
                        .chain(parallel.iter().map(efficiency)),
                );
            }
            presentation
                .parts
                .extend([Part::Heading(title.to_owned()), Part::Table(table)]);
        }
    }
    presentation
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
    fn the_predicted_line_is_curved_on_logarithmic_axes() {
        let chart = latency_chart(&[row(0.0, 8000), row(0.01, 8000), row(0.1, 8000), row(0.0, 500)]);
        let line = chart
            .series
            .iter()
            .find(|series| series.points.len() == LINE_POINTS)
            .unwrap();
        let logarithms = |place: usize| line.points[place].y.ln();
        // The middle lies below the straight line between the ends.
        assert!(logarithms(LINE_POINTS / 2) < f64::midpoint(logarithms(0), logarithms(LINE_POINTS - 1)) - 0.5);
        let svg = chart.svg();
        assert_eq!(
            (svg.matches(">measured<").count(), svg.matches(">predicted<").count()),
            (1, 1)
        );
        assert!(svg.contains(" tinted\""), "the line has the colour of its method");
    }

    #[test]
    fn tables_have_a_row_for_each_method_and_a_column_for_each_delay() {
        let text = latency(&[row(0.0, 8000), row(0.1, 8000), row(0.0, 500)]).markdown();
        for line in [
            "| dp-sgd, B = 8,000, 12 rounds (latency) | 1.25 ms; 1 ms (−20.0 %) | 126 ms; 101 ms (−20.0 %) |",
            "| dp-sgd, B = 500, 12 rounds (latency) | 1.25 ms; 1 ms (−20.0 %) | – |",
            "faster than dp-sgd B=500 from a delay of 2 ms on",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn ranks_are_compared_with_as_many_threads_and_oversubscribed_ones_are_named() {
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
        let text = ranks(&[
            row(None, 1, 2e-3, Some(1.0)),
            row(None, 2, 1e-3, None),
            row(Some(2), 1, 1.1e-3, Some(0.9)),
            row(Some(4), 1, 2e-3, None),
        ])
        .markdown();
        for line in [
            "| B | 1 thread | 2 threads | 2 ranks × 1 thread | 4 ranks × 1 thread, oversubscribed | waiting, 2 ranks × 1 \
             thread | waiting, 4 ranks × 1 thread, oversubscribed | 2 ranks × 1 thread over 2 threads |",
            "| 8,000 | 2 ms (1.00) | 1 ms (2.00) | 1.1 ms (1.82) | 2 ms (1.00) | 25 % | 25 % | 1.10 |",
            "| 8,000 | – | 90 % | – |",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
