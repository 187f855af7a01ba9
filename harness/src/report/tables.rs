//! Tables of the report. A cell's `data-value` is what sorting and CSV use, its text is what people read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::bars::Bars;
use super::chart::Chart;
use super::format::{count, escape, percent, some, three_digits, time};
use super::labels::{self, Labels};
use crate::machine::Environment;
use crate::results::{Pooled, beyond_roofline};
use crate::statistics::SampleWarning;

/// A table with headings that sort.
pub(super) struct Table {
    columns: Vec<(String, bool)>,
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

    /// Words that lead to an anchor of the page.
    pub(super) fn link(text: &str, anchor: &str) -> Self {
        Self {
            html: format!("<a href=\"#{}\">{}</a>", escape(anchor), escape(text)),
            value: Some(escape(text)),
        }
    }

    /// Words, as a number where they are one: for tables that somebody else wrote.
    pub(super) fn foreign(text: &str) -> Self {
        let plain = text.trim().replace(['`', '*'], "");
        let mut words = plain.split([' ', '%', '\u{202f}']);
        let first = words.next().unwrap_or_default().replace(',', "").replace('−', "-");
        // Times of all units in one column sort as times.
        let scale = match words.next().map(|unit| unit.trim_end_matches([';', ','])) {
            Some("ns") => 1e-9,
            Some("µs") => 1e-6,
            Some("ms") => 1e-3,
            _ => 1.0,
        };
        let missing = ["", "–", "—", "-", "∞", "not reached"].contains(&plain.trim());
        Self {
            html: escape(&plain),
            value: if missing {
                Some(String::new())
            } else {
                first
                    .parse::<f64>()
                    .ok()
                    .filter(|value| value.is_finite())
                    .map(|value| (value * scale).to_string())
            },
        }
    }

    /// HTML that is safe already, and what it sorts by.
    pub(super) fn html(html: String, value: Option<f64>) -> Self {
        Self {
            html,
            value: value.map(|value| {
                if value.is_finite() {
                    value.to_string()
                } else {
                    String::new()
                }
            }),
        }
    }

    /// A share with a small bar.
    pub(super) fn meter(share: Option<f64>) -> Self {
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
    pub(super) fn new<N: Into<String>>(columns: Vec<(N, bool)>) -> Self {
        Self {
            columns: columns
                .into_iter()
                .map(|(name, number)| (name.into(), number))
                .collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, entries: Vec<Entry>) {
        debug_assert_eq!(entries.len(), self.columns.len());
        self.rows.push(entries);
    }

    /// The table; `tall` ones scroll within, and those of many rows filter by words.
    pub(super) fn html(&self, id: Option<&str>, caption: &str, tall: bool) -> String {
        let file = id.unwrap_or("table");
        let id = id.map_or_else(String::new, |id| format!(" id=\"{id}\""));
        let tall = if tall { " tall" } else { "" };
        let caption = escape(caption);
        let filter = if self.rows.len() > UNFILTERED {
            format!(
                "<div class=\"filter\"><input type=\"search\" aria-label=\"Filter: {caption}\" placeholder=\"filter by words\">\
                 <output></output><span class=\"tools\"><button type=\"button\" data-save=\"table\" data-name=\"{file}\">\
                 CSV</button></span></div>"
            )
        } else {
            String::new()
        };
        let mut html = format!(
            "<div class=\"table\">{filter}<div class=\"scroll{tall}\" tabindex=\"0\" role=\"region\" \
             aria-label=\"{caption}\"><table class=\"sortable\"{id}><thead><tr>"
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
                let class = if !number && letters(&entry.html) > UNBROKEN {
                    " class=\"words\""
                } else {
                    class(*number)
                };
                let _ = write!(html, "<td{class}{value}>{}</td>", entry.html);
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div></div>");
        html
    }
}

/// A table of more rows can be filtered.
const UNFILTERED: usize = 12;
/// Words of more letters than these are broken into lines; numbers never are.
const UNBROKEN: usize = 48;

/// How many letters of `html` a reader sees, tags aside.
fn letters(html: &str) -> usize {
    let mut inside = false;
    html.chars()
        .filter(|&letter| {
            let tag = inside || letter == '<';
            inside = (inside || letter == '<') && letter != '>';
            !tag
        })
        .count()
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
    columns.extend(bars.parts.iter().map(|&part| (part, true)));
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

/// Why some configurations exceed the roofline, as a sentence behind others; nothing where none does.
pub(super) fn about_roofline(cells: &[Pooled], environment: &Environment) -> String {
    beyond_roofline(cells, environment).map_or_else(String::new, |sentence| format!(" {}.", escape(&sentence)))
}

/// The entry of a cell's algorithm: it leads to the algorithm's card.
fn algorithm(labels: &Labels, cell: &Pooled) -> Entry {
    let configuration = cell.configuration();
    Entry::link(
        &labels.name(configuration),
        &super::cards::anchor(&configuration.algorithm),
    )
}

/// The time between two ends.
pub(super) fn spread(low: f64, high: f64) -> Entry {
    Entry::html(escape(&format!("{} – {}", time(low), time(high))), Some(low.round()))
}

/// Every configuration with everything that was measured.
pub(super) fn of_cells(cells: &[Pooled]) -> Table {
    let labels = Labels::of(cells.iter().map(Pooled::configuration));
    let mut table = Table::new(vec![
        ("algorithm", false),
        ("data", false),
        ("batch", true),
        ("threads", true),
        ("time per round", true),
        ("95 % interval", true),
        ("10 % to 90 %", true),
        ("sampling", true),
        ("gradient", true),
        ("noise", true),
        ("update", true),
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
        ("parameters", false),
    ]);
    for pooled in cells {
        let (cell, configuration) = (&pooled.cell, pooled.configuration());
        let times = &cell.round_ns;
        let phases = &cell.phases_ns;
        let phase = |nanoseconds: u64| Entry::number(Some(nanoseconds as f64), time);
        let remarks: Vec<&str> = pooled.warnings.iter().map(SampleWarning::name).collect();
        table.row(vec![
            algorithm(&labels, pooled),
            Entry::text(&super::figures::dataset_name(pooled)),
            Entry::number(Some(configuration.batch_size as f64), count),
            Entry::number(Some(configuration.threads as f64), count),
            Entry::number(Some(pooled.median()), time),
            spread(pooled.interval.low, pooled.interval.high),
            spread(times.p10 as f64, times.p90 as f64),
            phase(phases.sample),
            phase(phases.gradient),
            phase(phases.noise),
            phase(phases.update),
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
            Entry::text(&labels::parameters(configuration)),
        ]);
    }
    table
}

/// Each algorithm at one batch size and the most threads: what a round costs and what it guarantees.
pub(super) fn of_algorithms(cells: &[&Pooled]) -> Table {
    let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
    let data: BTreeSet<String> = cells.iter().map(|cell| super::figures::dataset_name(cell)).collect();
    let mut columns = vec![("algorithm", false)];
    if data.len() > 1 {
        columns.push(("data", false));
    }
    columns.extend([
        ("time per round", true),
        ("95 % interval", true),
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
    let mut table = Table::new(columns);
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
        let mut row = vec![algorithm(&labels, pooled)];
        if data.len() > 1 {
            row.push(Entry::text(&super::figures::dataset_name(pooled)));
        }
        row.extend([
            Entry::number(Some(pooled.median()), time),
            spread(pooled.interval.low, pooled.interval.high),
            Entry::meter(cell.roofline_fraction),
            Entry::number(Some(pooled.epoch_seconds() * 1e9), time),
            Entry::number(Some(cell.gradient_queries as f64 / cell.rounds.max(1) as f64), some),
            Entry::number(cell.test_accuracy, percent),
            Entry::number(cell.privacy_number("epsilon"), three_digits),
            Entry::number(cell.privacy_number("delta"), |delta| format!("{delta:e}")),
            word("claim"),
            word("adjacency"),
            word("accountant"),
        ]);
        table.row(row);
    }
    table
}

/// The tables of a Markdown document, with the text between them, in their order.
pub(super) fn of_markdown(text: &str, name: &str) -> String {
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut html = String::new();
    let mut lines = text.lines().peekable();
    let mut number = 0;
    while let Some(line) = lines.next() {
        let line = line.trim();
        if line.starts_with('|')
            && lines
                .peek()
                .is_some_and(|next| next.trim().starts_with("|-") || next.trim().starts_with("| -"))
        {
            lines.next();
            let header = cells(line);
            let mut rows = Vec::new();
            while let Some(row) = lines.next_if(|next| next.trim().starts_with('|')) {
                rows.push(cells(row));
            }
            let numbers = |column: usize| {
                let filled = || {
                    rows.iter()
                        .filter_map(|row| row.get(column))
                        .filter(|cell| !cell.is_empty())
                };
                filled().count() > 0 && filled().all(|cell| Entry::foreign(cell).value.is_some())
            };
            let columns = header
                .iter()
                .enumerate()
                .map(|(column, name)| (name.replace('`', ""), numbers(column)));
            let mut table = Table::new(columns.collect());
            for mut row in rows {
                row.resize(header.len(), String::new());
                table.row(row.iter().map(|cell| Entry::foreign(cell)).collect());
            }
            number += 1;
            html.push_str(&table.html(Some(&format!("{name}-{number}")), name, true));
        } else if let Some(heading) = line.strip_prefix('#') {
            let _ = write!(html, "<h4>{}</h4>", escape(heading.trim_start_matches('#').trim()));
        } else if !line.is_empty() && !line.starts_with("<!--") {
            let _ = write!(
                html,
                "<p class=\"quiet\">{}</p>",
                escape(&line.trim_start_matches("- ").replace(['`', '*'], ""))
            );
        }
    }
    html
}

/// An array of flat JSON objects as a table; what is neither number nor word is left out. `None` for anything else.
pub(super) fn of_rows(rows: &serde_json::Value) -> Option<Table> {
    let rows: Vec<_> = rows
        .as_array()?
        .iter()
        .map(serde_json::Value::as_object)
        .collect::<Option<_>>()?;
    let scalar =
        |value: &serde_json::Value| value.is_number() || value.is_string() || value.is_boolean() || value.is_null();
    let mut columns: Vec<(String, bool)> = Vec::new();
    for (name, value) in rows.iter().flat_map(|row| row.iter()) {
        if scalar(value) && !columns.iter().any(|(known, _)| known == name) {
            columns.push((name.clone(), value.is_number()));
        }
    }
    if columns.is_empty() {
        return None;
    }
    let mut table = Table::new(
        columns
            .iter()
            .map(|(name, number)| (name.replace('_', " "), *number))
            .collect(),
    );
    for row in rows {
        table.row(
            columns
                .iter()
                .map(|(name, _)| match row.get(name) {
                    Some(value) if value.is_number() => Entry::number(value.as_f64(), three_digits),
                    Some(serde_json::Value::String(text)) => Entry::text(text),
                    Some(serde_json::Value::Bool(truth)) => Entry::text(if *truth { "yes" } else { "no" }),
                    _ => Entry::number(None, three_digits),
                })
                .collect(),
        );
    }
    Some(table)
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

    #[test]
    fn tables_of_markdown_sort_by_their_numbers() {
        let text = "## A title\n\nWords with `code`.\n\n| method | rounds | note |\n| --- | ---: | --- |\n\
                    | `sgd` | 1,000 ± 3 | |\n| b | 64 % | x < y |\n\n| one |\n|---|\n| 1 |\n";
        let html = of_markdown(text, "t");
        assert_eq!(html.matches("<table").count(), 2);
        assert!(html.contains("data-value=\"1000\">1,000 ± 3") && html.contains("data-value=\"64\">64 %"));
        let sorts_by = |text: &str| Entry::foreign(text).value;
        assert_eq!(sorts_by("−6.6 %").as_deref(), Some("-6.6"));
        let seconds = |text: &str| sorts_by(text).unwrap().parse::<f64>().unwrap();
        assert!(seconds("750 µs; 733 µs (−2.2 %)") < seconds("1.77 ms") && seconds("102 ms") < seconds("1.2 s"));
        assert!(html.contains("x &lt; y") && html.contains("<h4>A title</h4>") && html.contains("Words with code."));
    }

    #[test]
    fn rows_of_json_become_columns_of_what_is_flat() {
        let rows =
            serde_json::json!([{"algorithm": "sgd", "workers": 2, "list": [1]}, {"algorithm": "b", "more": 0.5}]);
        let html = of_rows(&rows).unwrap().html(None, "t", false);
        assert!(html.contains(">algorithm<") && html.contains(">more<") && !html.contains(">list<"));
        assert!(of_rows(&serde_json::json!({"a": 1})).is_none() && of_rows(&serde_json::json!([])).is_none());
    }
}
