//! Tables of the report. A cell's `data-value` is what sorting and CSV use, its text is what people read.

use std::fmt::Write as _;

use super::bars::Bars;
use super::chart::Chart;
use super::format::{count, escape, percent, three_digits, time};
use crate::results::Pooled;
use crate::statistics::SampleWarning;

/// A table with headings that sort.
pub(super) struct Table {
    columns: Vec<(&'static str, bool)>,
    rows: Vec<Vec<Entry>>,
}

/// A cell of a table.
pub(super) struct Entry {
    /// HTML, safe already.
    html: String,
    value: Option<String>,
}

impl Entry {
    /// Words.
    pub(super) fn text(text: &str) -> Self {
        Self {
            html: escape(text),
            value: None,
        }
    }

    /// A number with the text that shows it; nothing for a missing or infinite one.
    pub(super) fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Self {
                html: escape(&show(value)),
                value: Some(value.to_string()),
            },
            None => Self {
                html: String::new(),
                value: Some(String::new()),
            },
        }
    }

    /// A share with a small bar.
    fn meter(share: Option<f64>) -> Self {
        // One digit always, so that the bars stand in line.
        let mut entry = Self::number(share, |share| format!("{:.1} %", 100.0 * share));
        if let Some(share) = share.filter(|share| share.is_finite()) {
            let width = (100.0 * share).clamp(0.0, 100.0);
            entry.html = format!(
                "<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:{width:.0}%\"></i></span>{}",
                entry.html
            );
        }
        entry
    }
}

impl Table {
    /// Columns by heading and whether they are numbers.
    pub(super) fn new(columns: Vec<(&'static str, bool)>) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, entries: Vec<Entry>) {
        debug_assert_eq!(entries.len(), self.columns.len());
        self.rows.push(entries);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table; `tall` ones scroll within.
    pub(super) fn html(&self, id: Option<&str>, caption: &str, tall: bool) -> String {
        let id = id.map_or_else(String::new, |id| format!(" id=\"{id}\""));
        let tall = if tall { " tall" } else { "" };
        let caption = escape(caption);
        let mut html = format!(
            "<div class=\"scroll{tall}\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\
             <table class=\"sortable\"{id}><thead><tr>"
        );
        let class = |number: bool| if number { " class=\"number\"" } else { "" };
        for (name, number) in &self.columns {
            let _ = write!(
                html,
                "<th scope=\"col\"{}><button type=\"button\">{}</button></th>",
                class(*number),
                escape(name)
            );
        }
        html.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for (entry, (_, number)) in row.iter().zip(&self.columns) {
                let value = entry
                    .value
                    .as_ref()
                    .map_or_else(String::new, |value| format!(" data-value=\"{value}\""));
                let class = if entry.html.len() > 60 && !number {
                    " class=\"words\""
                } else {
                    class(*number)
                };
                let _ = write!(html, "<td{class}{value}>{}</td>", entry.html);
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
        html
    }
}

/// The numbers of a chart, series by series.
pub(super) fn of_chart(chart: &Chart) -> Table {
    let mut table = Table::new(vec![
        ("series", false),
        ("x", true),
        ("y", true),
        ("from", true),
        ("to", true),
    ]);
    for series in &chart.series {
        for point in &series.points {
            let y = |value: Option<f64>| Entry::number(value, chart.y.format);
            table.row(vec![
                Entry::text(&series.name),
                Entry::number(Some(point.x), chart.x.format),
                y(Some(point.y)),
                y(point.whisker.map(|whisker| whisker.0)),
                y(point.whisker.map(|whisker| whisker.1)),
            ]);
        }
    }
    table
}

/// The numbers of bars.
pub(super) fn of_bars(bars: &Bars) -> Table {
    let mut columns = vec![("series", false), ("batch size", true)];
    columns.extend(bars.parts.iter().map(|part| (*part, true)));
    let mut table = Table::new(columns);
    for group in &bars.groups {
        for row in &group.rows {
            let mut entries = vec![Entry::text(&group.name), Entry::text(&row.label)];
            entries.extend(row.values.iter().map(|&value| Entry::number(Some(value), time)));
            table.row(entries);
        }
    }
    table
}

/// Every configuration with everything that was measured.
pub(super) fn of_cells(cells: &[Pooled]) -> Table {
    let mut table = Table::new(vec![
        ("algorithm", false),
        ("data", false),
        ("batch", true),
        ("threads", true),
        ("time per round", true),
        ("95 % interval", true),
        ("10 % to 90 %", true),
        ("epoch", true),
        ("of roofline", true),
        ("GFLOP/s", true),
        ("GB/s", true),
        ("accuracy", true),
        ("ε", true),
        ("rounds", true),
        ("queries", true),
        ("repeats", true),
        ("remarks", false),
    ]);
    for pooled in cells {
        let (cell, configuration) = (&pooled.cell, pooled.configuration());
        let times = &cell.round_ns;
        let spread = |low: f64, high: f64| Entry {
            html: escape(&format!("{} – {}", time(low), time(high))),
            value: Some(format!("{low:.0}")),
        };
        let remarks: Vec<&str> = pooled.warnings.iter().map(SampleWarning::name).collect();
        table.row(vec![
            Entry::text(&configuration.label()),
            Entry::text(&super::figures::dataset_name(pooled)),
            Entry::number(Some(configuration.batch_size as f64), count),
            Entry::number(Some(configuration.threads as f64), count),
            Entry::number(Some(pooled.median()), time),
            spread(pooled.interval.low, pooled.interval.high),
            spread(times.p10 as f64, times.p90 as f64),
            Entry::number(Some(pooled.epoch_seconds() * 1e9), time),
            Entry::meter(cell.roofline_fraction),
            Entry::number(cell.gflops, three_digits),
            Entry::number(cell.gbytes_per_s, three_digits),
            Entry::number(cell.test_accuracy, percent),
            Entry::number(cell.privacy_number("epsilon"), three_digits),
            Entry::number(Some(cell.rounds as f64), count),
            Entry::number(Some(cell.gradient_queries as f64), count),
            Entry::number(Some(pooled.repeat_medians.len() as f64), count),
            Entry::text(&remarks.join(", ")),
        ]);
    }
    table
}

/// Each algorithm at one batch size and the most threads: what a round costs and what it guarantees.
pub(super) fn of_algorithms(cells: &[&Pooled]) -> Table {
    let mut table = Table::new(vec![
        ("algorithm", false),
        ("data", false),
        ("time per round", true),
        ("of roofline", true),
        ("epoch", true),
        ("queries per round", true),
        ("accuracy", true),
        ("ε", true),
        ("δ", true),
        ("claim", false),
        ("adjacency", false),
        ("accountant", false),
    ]);
    for pooled in cells {
        let cell = &pooled.cell;
        let word = |name: &str| {
            Entry::text(
                cell.privacy
                    .get(name)
                    .and_then(|value| value.as_str())
                    .unwrap_or_default(),
            )
        };
        table.row(vec![
            Entry::text(&pooled.configuration().label()),
            Entry::text(&super::figures::dataset_name(pooled)),
            Entry::number(Some(pooled.median()), time),
            Entry::meter(cell.roofline_fraction),
            Entry::number(Some(pooled.epoch_seconds() * 1e9), time),
            Entry::number(
                Some(cell.gradient_queries as f64 / cell.rounds.max(1) as f64),
                three_digits,
            ),
            Entry::number(cell.test_accuracy, percent),
            Entry::number(cell.privacy_number("epsilon"), three_digits),
            Entry::number(cell.privacy_number("delta"), |delta| format!("{delta:e}")),
            word("claim"),
            word("adjacency"),
            word("accountant"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_empty_and_what_is_written_is_safe() {
        let mut table = Table::new(vec![("name", false), ("value", true)]);
        table.row(vec![
            Entry::text("<script>"),
            Entry::number(Some(f64::NAN), three_digits),
        ]);
        table.row(vec![Entry::text("b"), Entry::number(Some(1500.0), time)]);
        let html = table.html(Some("t"), "a \"table\"", true);
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script>") && html.contains("a &quot;table&quot;"));
        assert!(html.contains("data-value=\"\"></td>") && html.contains("data-value=\"1500\">1.5 µs</td>"));
    }
}
