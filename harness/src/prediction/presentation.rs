//! Presentations of rounds on ranks: time against the latency between them, measured and predicted, and ranks compared with
//! threads.

use std::collections::BTreeSet;

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
    if size < 1000 { size.to_string() } else { format!("{},{:03}", thousands(size / 1000), size % 1000) }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn error(value: f64) -> String {
    format!("{}{:.1} %", if value < 0.0 { "−" } else { "+" }, 100.0 * value.abs())
}

/// A column: its heading, and the text of a row, if there is any.
type Heading<'a, R> = (String, Box<dyn Fn(&R) -> Option<String> + 'a>);

/// A table below its title, with a row for each of `rows` and a dash where a column has no text.
fn grid<R>(title: &str, corner: &str, rows: &[(String, R)], columns: &[Heading<'_, R>]) -> [Part; 2] {
    let mut table = Table::new(title, corner);
    let heads = columns.iter().map(|(head, _)| Column::new(&format!("#{head}")));
    table.columns.extend(heads);
    for (head, row) in rows {
        let entry =
            |(_, text): &Heading<'_, R>| text(row).map_or_else(|| Entry::text("–"), |text| Entry::parsed(&text));
        let head = if corner.starts_with('#') { Entry::parsed(head) } else { Entry::text(head) };
        table.row([head].into_iter().chain(columns.iter().map(entry)));
    }
    [Part::Heading(title.to_owned()), Part::Table(table)]
}

/// Rows of each method (suite, algorithm, batch size, ranks) by their delay.
fn by_method(rows: &[LatencyRow]) -> Vec<Vec<&LatencyRow>> {
    let method = |row: &LatencyRow| (row.suite.clone(), row.algorithm.clone(), row.batch_size, row.workers);
    let mut sorted: Vec<&LatencyRow> = rows.iter().collect();
    sorted.sort_by(|a, b| method(a).cmp(&method(b)).then(a.latency_s.total_cmp(&b.latency_s)));
    sorted.chunk_by(|a, b| method(a) == method(b)).map(<[_]>::to_vec).collect()
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
            let [delay, measured, predicted] = [row.latency_s, row.seconds, row.predicted_seconds].map(seconds);
            let size = thousands(row.batch_size);
            let note = format!("{}, B = {size}, delay {delay}: {measured}, predicted {predicted}", row.algorithm);
            Point::new(row.link_s + row.latency_s, row.seconds, note)
        });
        let (first, last) = (own[0], own[own.len() - 1]);
        let steps = if last.latency_s > first.latency_s { LINE_POINTS } else { 1 };
        let ends = [first, last].map(|row| row.link_s + row.latency_s);
        let predicted = (0..steps).map(|step| {
            // Equal steps on a logarithmic axis.
            let part = step as f64 / (steps - 1).max(1) as f64;
            let x = ends[0] * (ends[1] / ends[0]).powf(part);
            let way = (x - ends[0]) / (ends[1] - ends[0]).max(f64::MIN_POSITIVE);
            let [from, to] = [first, last].map(|row| row.predicted_seconds);
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
        rows.first().map_or("", |row| row.link.as_str())
    );
    let x = axis("latency of a message: the link's own and the delay of a direction");
    let title = "Time of a run against the delay between its ranks";
    Chart::new(title, subtitle, x, axis("time of all rounds"), series)
}

/// The presentation of measured and predicted times at each delay.
pub(crate) fn latency(rows: &[LatencyRow]) -> Presentation {
    let about = "Rounds on ranks with a delay between them, measured, and predicted from the ranks without delay.";
    let mut presentation = Presentation::new("Latency between ranks", "Ranks", about);
    if rows.iter().any(|row| row.latency_s > 0.0) {
        let panel = Panel::chart("latency", "latency", latency_chart(rows));
        let figure = Figure::new("Latency between ranks", "Content", vec![panel]);
        presentation.parts.push(Part::Figure(figure));
    }
    let mut delays: Vec<f64> = rows.iter().map(|row| row.latency_s).collect();
    delays.sort_by(f64::total_cmp);
    delays.dedup();
    let methods: Vec<(String, Vec<&LatencyRow>)> = by_method(rows).into_iter().map(|own| (name(own[0]), own)).collect();
    let mut table = |title: &str, text: &dyn Fn(&LatencyRow) -> String| {
        let column = |delay: &f64| -> Heading<'_, Vec<&LatencyRow>> {
            let delay = *delay;
            let at = move |own: &Vec<&LatencyRow>| {
                let row = own.iter().find(|row| row.latency_s.total_cmp(&delay).is_eq());
                row.map(|row| text(row))
            };
            (format!("delay {}", seconds(delay)), Box::new(at))
        };
        let columns: Vec<_> = delays.iter().map(column).collect();
        presentation.parts.extend(grid(title, "method", &methods, &columns));
    };
    let measured = |measured: f64, predicted: f64, off: f64| {
        format!("{}; {} ({})", seconds(measured), seconds(predicted), error(off))
    };
    let title = "A round, measured; predicted from the ranks without delay (error)";
    table(title, &|row| measured(row.measured_round_s, row.predicted_round_s, row.round_error));
    let title = "All rounds of a run, measured; predicted (error)";
    table(title, &|row| measured(row.seconds, row.predicted_seconds, row.error));
    let title = "Error of a round predicted from one process and the link alone";
    table(title, &|row| error(row.round_error_from_one));
    let title = "Share of the time in calls to other ranks, waiting included";
    table(title, &|row| percent(row.communication));
    let overtakings = rows.iter().flat_map(|row| row.overtakes.iter().map(move |other| (row, other)));
    let lines: BTreeSet<String> = overtakings
        .map(|(row, other)| {
            let when = match other.latency_s {
                latency if latency > 0.0 => format!("from a delay of {} on", seconds(latency)),
                _ => "at any delay".to_owned(),
            };
            format!("{}: by prediction faster than {} {when}", name(row), other.against)
        })
        .collect();
    presentation.parts.extend((!lines.is_empty()).then(|| Part::List(lines.into_iter().collect())));
    presentation
}

/// `2 ranks × 1 thread`, `2 threads`.
fn workers(row: &ScalingRow) -> String {
    let crowded = if row.oversubscribed { ", oversubscribed" } else { "" };
    let ranks = row.ranks.map_or_else(String::new, |ranks| format!("{} × ", plural(ranks, "rank")));
    format!("{ranks}{}{crowded}", plural(row.threads, "thread"))
}

/// The presentation of rounds on threads and on ranks: time and speed-up, waiting, ranks over as many threads, weak scaling.
pub(crate) fn ranks(rows: &[ScalingRow]) -> Presentation {
    let mut presentation = Presentation::new("Ranks and threads", "Ranks", "Rounds on ranks compared with threads.");
    let kind = |row: &ScalingRow| (row.dataset.clone(), row.algorithm.clone());
    for own in rows.chunk_by(|a, b| kind(a) == kind(b)) {
        let (dataset, algorithm) = kind(&own[0]);
        let mut columns: Vec<&ScalingRow> = own.iter().collect();
        columns.sort_by_key(|row| (row.ranks.unwrap_or(1) * row.threads, row.ranks, row.threads));
        columns.dedup_by_key(|row| (row.ranks, row.threads));
        let sizes: BTreeSet<usize> = own.iter().map(|row| row.batch_size).collect();
        let find = |size: usize, ranks: Option<usize>, threads: usize| {
            own.iter().find(|row| (row.batch_size, row.ranks, row.threads) == (size, ranks, threads))
        };
        let alike = |size: usize, column: &ScalingRow| find(size, column.ranks, column.threads);
        let total = |column: &ScalingRow| column.ranks.unwrap_or(1) * column.threads;
        let is_ranked = |column: &&ScalingRow| column.ranks.is_some_and(|ranks| ranks > 1);
        let has_threads = |column: &&ScalingRow| {
            let mut rows = own.iter();
            rows.any(|row| row.ranks.is_none() && row.threads == total(column))
        };
        let title = format!("{algorithm} on {dataset}, a round (speed-up over one thread)");
        let mut heads: Vec<Heading<'_, usize>> = Vec::new();
        for &column in &columns {
            let time_of = |row: &ScalingRow| format!("{} ({:.2})", time(1e9 * row.round_s), row.speedup);
            let text = move |&size: &usize| alike(size, column).map(time_of);
            heads.push((workers(column), Box::new(text)));
        }
        let ranked: Vec<&ScalingRow> = columns.iter().copied().filter(is_ranked).collect();
        for &column in &ranked {
            let text = move |&size: &usize| alike(size, column)?.communication.map(percent);
            heads.push((format!("waiting, {}", workers(column)), Box::new(text)));
        }
        for column in ranked.into_iter().filter(has_threads) {
            let ratio = move |&size: &usize| {
                let (ranks, threads) = alike(size, column).zip(find(size, None, total(column)))?;
                Some(format!("{:.2}", ranks.round_s / threads.round_s))
            };
            let head = format!("{} over {} threads", workers(column), total(column));
            heads.push((head, Box::new(ratio)));
        }
        let mut sizes: Vec<(String, usize)> = sizes.into_iter().map(|size| (thousands(size), size)).collect();
        presentation.parts.extend(grid(&title, "#B", &sizes, &heads));
        let weak = |row: &ScalingRow| row.weak_efficiency.is_some() && total(row) > 1;
        sizes.retain(|(_, size)| own.iter().any(|row| row.batch_size == *size && weak(row)));
        if !sizes.is_empty() {
            let title = "Weak scaling: the time of one thread on its share of B over that of all on B";
            let mut heads: Vec<Heading<'_, usize>> = Vec::new();
            for &column in columns.iter().filter(|column| total(column) > 1) {
                let efficiency = move |&size: &usize| alike(size, column)?.weak_efficiency.map(percent);
                heads.push((workers(column), Box::new(efficiency)));
            }
            presentation.parts.extend(grid(title, "#B", &sizes, &heads));
        }
    }
    presentation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::Overtaking;

    fn row(delay: f64, batch_size: usize) -> LatencyRow {
        let predicted = 12.0 * (1e-3 + delay);
        LatencyRow {
            algorithm: "dp-sgd".into(),
            suite: "latency".into(),
            batch_size,
            workers: 2,
            latency_s: delay,
            rounds: 12,
            link: "netem".into(),
            link_s: 5e-5,
            messages: 1.0,
            row_bytes: 0.0,
            communication: 0.5,
            predicted_round_s: predicted / 12.0,
            measured_round_s: predicted / 12.0 * 1.25,
            round_error: -0.2,
            round_error_from_one: -0.1,
            predicted_seconds: predicted,
            seconds: predicted * 1.25,
            error: -0.2,
            test_accuracy: None,
            overtakes: vec![Overtaking { against: "dp-sgd B=500".into(), latency_s: 2e-3 }],
        }
    }

    #[test]
    fn the_predicted_line_is_curved_on_logarithmic_axes() {
        let chart = latency_chart(&[row(0.0, 8000), row(0.01, 8000), row(0.1, 8000), row(0.0, 500)]);
        let line = chart.series.iter().find(|series| series.points.len() == LINE_POINTS).unwrap();
        let logarithms = |place: usize| line.points[place].y.ln();
        // The middle lies below the straight line between the ends.
        assert!(logarithms(LINE_POINTS / 2) < f64::midpoint(logarithms(0), logarithms(LINE_POINTS - 1)) - 0.5);
        let svg = chart.svg();
        assert_eq!((svg.matches(">measured<").count(), svg.matches(">predicted<").count()), (1, 1));
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
