//! Tables for people: as HTML of a page, as Markdown and for the terminal.

use comfy_table::{ColumnConstraint, Width};
use maud::{Markup, html};

use super::chart::Chart;
use crate::format::{minus, of_limit, percent, time};
use crate::output;

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Caption; its letters and digits are the id on a page.
    pub title: String,
    /// Headings.
    pub columns: Vec<Column>,
    /// As many entries as columns in each.
    pub rows: Vec<Vec<Entry>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    /// Numbers are aligned to the right and sorted by value.
    pub numeric: bool,
}

/// A cell of a table: the text that people read and the number that sorting and CSV use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// Text.
    pub text: String,
    /// Number behind the text.
    pub value: Option<f64>,
    /// Form on a page.
    pub look: Look,
}

/// Form of an entry on a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Look {
    #[default]
    Plain,
    /// A small bar of the value, a share, before the text.
    Meter,
    /// Coloured shares; the text is their description.
    Shares(Vec<f64>),
    /// Green in a terminal.
    Better,
    /// Red in a terminal.
    Worse,
}

impl Look {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl Entry {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number with its text; empty for a missing or infinite one.
    pub fn number(value: impl Into<Option<f64>>, show: impl Fn(f64) -> String) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        let text = value.map_or_else(String::new, |value| minus(&show(value)));
        Self { value, ..Self::text(text) }
    }

    /// A whole number.
    pub fn count(value: usize) -> Self {
        Self::number(value as f64, crate::format::count)
    }

    /// A text that sorts by a number.
    pub fn sorted(text: impl Into<String>, value: f64) -> Self {
        let value = Some(value).filter(|value| value.is_finite());
        Self { value, ..Self::text(minus(&text.into())) }
    }

    /// An interval of times; sorted by its low end.
    pub fn times(low: f64, high: f64) -> Self {
        Self::sorted(format!("{} – {}", time(low), time(high)), low.round())
    }

    /// A share of a limit with a small bar. One decimal always, so that the bars are aligned.
    pub fn meter(share: Option<f64>) -> Self {
        let shown = |share: f64| format!("{:.1} %", 100.0 * share);
        let entry = Self::number(share, |share| if share > 1.0 { of_limit(share) } else { shown(share) });
        let look = entry.value.map_or(Look::Plain, |_| Look::Meter);
        entry.look(look)
    }

    /// The same entry in another form.
    #[must_use]
    pub fn look(mut self, look: Look) -> Self {
        self.look = look;
        self
    }

    fn html(&self, column: &Column) -> Markup {
        let words = !column.numeric && self.look.is_plain() && self.text.chars().count() > UNBROKEN;
        // Seven digits sort and save as well as seventeen.
        let short = |value: f64| format!("{value:.6e}").parse::<f64>().unwrap_or(value).to_string();
        let value = self.value.map(short);
        let value = value.or_else(|| column.numeric.then(String::new));
        let class = words.then_some("words");
        html! {
            td class=[class] data-value=[value] {
                @match &self.look {
                    Look::Plain | Look::Better | Look::Worse => (self.text),
                    Look::Meter => {
                        @let width = (100.0 * self.value.unwrap_or(0.0)).clamp(0.0, 100.0);
                        span.meter aria-hidden="true" { i style=(format!("width:{width:.0}%")) {} }
                        (self.text)
                    },
                    Look::Shares(shares) => span.phases role="img" aria-label=(self.text) title=(self.text) {
                        @for (part, share) in shares.iter().enumerate() {
                            i class={ "s" (part) } style=(format!("width:{:.1}%", 100.0 * share)) {}
                        }
                    },
                }
            }
        }
    }
}

/// Tables with more rows have a filter.
const UNFILTERED: usize = 12;
/// Rows of an excerpt.
pub(crate) const EXCERPT_ROWS: usize = 10;
/// Texts with more letters are broken into lines.
const UNBROKEN: usize = 48;

impl Table {
    /// An empty table. `columns` are their names, separated by bars; those that begin with `#` are numeric.
    pub fn new(title: &str, columns: &str) -> Self {
        let names = columns.split('|').filter(|name| !name.is_empty());
        Self { title: title.to_owned(), columns: names.map(Column::new).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.rows.push(entries.into_iter().collect());
        debug_assert_eq!(self.rows.last().map(Vec::len), Some(self.columns.len()));
    }

    /// The table without columns that have no text in any row.
    #[must_use]
    pub fn without_empty_columns(mut self) -> Self {
        let used = |place: usize| self.rows.iter().any(|row| !row[place].text.is_empty());
        let used: Vec<bool> = (0..self.columns.len()).map(used).collect();
        let mut keep = used.iter();
        self.columns.retain(|_| keep.next() == Some(&true));
        for row in &mut self.rows {
            let mut keep = used.iter();
            row.retain(|_| keep.next() == Some(&true));
        }
        self
    }

    /// The table without those of the columns `candidates` that are the same in all rows that have them, and these as
    /// `name value`.
    #[must_use]
    pub fn without_shared_columns(mut self, candidates: &[&str]) -> (Self, Vec<String>) {
        let mut shared = Vec::new();
        for name in candidates {
            let place = self.columns.iter().position(|column| column.name == *name);
            let Some(place) = place.filter(|_| !self.rows.is_empty()) else {
                continue;
            };
            let mut texts = self.rows.iter().map(|row| &row[place].text).filter(|text| !text.is_empty());
            let Some(first) = texts.next() else { continue };
            if texts.all(|text| text == first) {
                shared.push(format!("{name} {first}"));
                self.columns.remove(place);
                self.rows.iter_mut().for_each(|row| drop(row.remove(place)));
            }
        }
        (self, shared)
    }

    /// The table on a page. A `tall` one scrolls in a box of its own.
    pub(crate) fn html(&self, id: &str, tall: bool) -> Markup {
        html! {
            div.table {
                @if self.rows.len() > UNFILTERED {
                    div.filter {
                        input type="search" aria-label={ "Filter: " (self.title) } placeholder="filter by words";
                        output {}
                        span.tools {
                            button type="button" data-save="table" data-name=(if id.is_empty() { "table" } else { id }) { "CSV" }
                        }
                    }
                }
                div.scroll.tall[tall] tabindex="0" role="region" aria-label=(self.title) {
                    table.sortable id=[(!id.is_empty()).then_some(id)] {
                        thead { tr {
                            @for column in &self.columns {
                                th.number[column.numeric] scope="col" { button type="button" { (column.name) } }
                            }
                        } }
                        tbody {
                            @for row in &self.rows {
                                tr { @for (entry, column) in row.iter().zip(&self.columns) { (entry.html(column)) } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let escaped = |cell: &str| cell.replace('|', "\\|").replace('\n', " ");
            format!("|{}\n", cells.map(|cell| format!(" {} |", escaped(cell))).collect::<String>())
        };
        let rule = self.columns.iter().map(|column| if column.numeric { "---:" } else { "---" });
        let mut text = line(&mut self.columns.iter().map(|column| column.name.as_str()));
        text += &line(&mut rule.into_iter());
        for row in &self.rows {
            text += &line(&mut row.iter().map(|entry| entry.text.as_str()));
        }
        text
    }

    /// The whole table for a terminal, without broken words.
    pub fn terminal(&self) -> String {
        let table = output::fitted(self.drawn(self.rows.len(), self.columns.len()));
        self.within(table.width().unwrap_or(80), table)
    }

    /// The drawn table in `width` columns, or a block for each row where it is too wide for its longest words.
    fn within(&self, width: u16, mut table: comfy_table::Table) -> String {
        let letters = |text: &str| text.chars().count() as u16;
        let word = |text: &str| text.split([' ', '\n']).map(letters).max().unwrap_or(0);
        let least = |(place, column): (usize, &Column)| {
            let entries = self.rows.iter().map(|row| &*row[place].text);
            let longest = entries.map(|text| if column.numeric { letters(text) } else { word(text) }).max();
            // A space stands on both sides of a cell.
            2 + longest.unwrap_or(0).max(word(&column.name))
        };
        let least: Vec<u16> = self.columns.iter().enumerate().map(least).collect();
        if least.iter().sum::<u16>() > width {
            return self.rows.iter().map(|row| self.block(row)).collect::<Vec<_>>().join("\n");
        }
        for (column, least) in table.column_iter_mut().zip(least) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
        table.set_width(width).trim_fmt()
    }

    /// The first entry of a row, and below it a line for each of the others that has a text.
    fn block(&self, row: &[Entry]) -> String {
        let others = self.columns.iter().zip(row).skip(1).filter(|(_, entry)| !entry.text.is_empty());
        let lines = others.map(|(column, entry)| format!("{}: {}", column.name, entry.text.replace('\n', ", ")));
        row[0].text.clone() + "\n" + &output::wrapped(&lines.collect::<Vec<_>>().join("\n"), 4)
    }

    /// The first `most` rows for a terminal of 80 columns, and the columns that fit; numbers of rows and columns that
    /// are left out.
    pub(crate) fn excerpt(&self, most: usize) -> (String, [usize; 2]) {
        let rows = self.rows.len().min(most);
        let width = |place: usize| {
            let texts = self.rows[..rows].iter().map(|row| &*row[place].text);
            let lengths = texts.chain([&*self.columns[place].name]).map(|text| text.chars().count());
            // A space stands on both sides of a cell.
            2 + lengths.max().unwrap_or(0)
        };
        let ends = (0..self.columns.len()).scan(0, |end, place| {
            *end += width(place);
            Some(*end)
        });
        let columns = ends.take_while(|&end| end <= 80).count().max(1).min(self.columns.len());
        let left_out = [self.rows.len() - rows, self.columns.len() - columns];
        (self.drawn(rows, columns).trim_fmt(), left_out)
    }

    fn drawn(&self, rows: usize, columns: usize) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(self.columns[..columns].iter().map(|column| &column.name));
        let cell = |entry: &Entry| {
            let cell = comfy_table::Cell::new(&entry.text);
            match entry.look {
                Look::Better => cell.fg(comfy_table::Color::Green),
                Look::Worse => cell.fg(comfy_table::Color::Red),
                _ => cell,
            }
        };
        table.add_rows(self.rows[..rows].iter().map(|row| row[..columns].iter().map(cell)));
        for (place, column) in self.columns[..columns].iter().enumerate() {
            output::align_right(&mut table, column.numeric.then_some(place));
        }
        table
    }

    /// The points of a chart, series by series.
    pub(crate) fn of_chart(chart: &Chart) -> Self {
        let mut table = Self::new("Data of this figure", "series|#x|#y|#from|#to");
        let y = |value: Option<f64>| Entry::number(value, |value| chart.y.format.show(value));
        for series in &chart.series {
            for point in &series.points {
                table.row([
                    Entry::text(&series.name),
                    Entry::number(point.x, |x| chart.x.format.show(x)),
                    y(Some(point.y)),
                    y(point.interval.map(|ends| ends.0)),
                    y(point.interval.map(|ends| ends.1)),
                ]);
            }
        }
        table
    }
}

impl Column {
    /// A column; numeric if the name begins with `#`, which is removed.
    pub fn new(name: &str) -> Self {
        Self { name: name.trim_start_matches('#').to_owned(), numeric: name.starts_with('#') }
    }
}

/// Shares of a total with their names: the form and its description in words.
pub(crate) fn shares(parts: &[(&str, u64)]) -> Entry {
    let total: u64 = parts.iter().map(|(_, value)| value).sum();
    if total == 0 {
        return Entry::default();
    }
    let share = |value: u64| value as f64 / total as f64;
    let word = |&(name, value): &(&str, u64)| format!("{name} {} ({})", percent(share(value)), time(value as f64));
    let words = parts.iter().map(word).collect::<Vec<_>>().join(", ");
    Entry::sorted(words, share(parts.get(1).map_or(0, |part| part.1)))
        .look(Look::Shares(parts.iter().map(|&(_, value)| share(value)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::three_digits;

    #[test]
    fn missing_numbers_are_empty_and_text_is_escaped() {
        let mut table = Table::new("a \"table\"", "name|#value");
        table.row([Entry::text("<script>"), Entry::number(f64::NAN, three_digits)]);
        table.row([Entry::text("b"), Entry::number(1500.0, time)]);
        let html = table.html("t", true).into_string();
        assert!(html.contains("&lt;script&gt;") && !html.contains("<script>") && html.contains("a &quot;table&quot;"));
        assert!(html.contains("data-value=\"\"></td>") && html.contains("data-value=\"1500\">1.5 µs</td>"));
        assert_eq!(table.markdown(), "| name | value |\n| --- | ---: |\n| <script> |  |\n| b | 1.5 µs |\n");
        let bar = Table { rows: vec![vec![Entry::text("a | b"), Entry::count(1)]], ..table.clone() };
        assert!(bar.markdown().ends_with("| a \\| b | 1 |\n"));
        assert!(table.terminal().contains("1.5 µs"));
    }

    #[test]
    fn a_narrow_terminal_breaks_no_words_and_a_narrower_one_gets_a_block_for_each_row() {
        let mut table = Table::new("", "algorithm|#time to target|verdict");
        table.row([Entry::text("randomized-smoothing"), Entry::number(1.5e6, time), Entry::text("below the claim")]);
        let within = |width| table.within(width, output::fitted(table.drawn(1, 3)));
        for width in [80, 50, 39] {
            let text = within(width);
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            assert!("randomized-smoothing|1.5 ms|below|target".split('|').all(|word| text.contains(word)), "{text}");
        }
        assert_eq!(within(38), "randomized-smoothing\n    time to target: 1.5 ms\n    verdict: below the claim");
    }

    #[test]
    fn an_excerpt_keeps_within_eighty_columns_and_counts_the_rest() {
        let mut table = Table::new("", "method|#first|second|third");
        for row in 0..20 {
            table.row([
                Entry::text("m".repeat(30)),
                Entry::number(f64::from(row), three_digits),
                Entry::text("s".repeat(20)),
                Entry::text("t".repeat(20)),
            ]);
        }
        let (text, left_out) = table.excerpt(EXCERPT_ROWS);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!((text.lines().count(), left_out), (1 + EXCERPT_ROWS, [10, 1]));
        assert!(text.contains("ssss") && !text.contains("tttt"));
    }

    #[test]
    fn empty_and_shared_columns_are_left_out() {
        let mut table = Table::new("", "a|#b|c|d");
        for (name, shared) in [("x", "z"), ("y", "")] {
            table.row([name, "", shared, "w"].map(Entry::text));
        }
        let (table, shared) = table.without_empty_columns().without_shared_columns(&["a", "c"]);
        assert_eq!((table.columns.len(), shared), (2, vec!["c z".to_owned()]));
        assert_eq!(table.rows[1][1].text, "w");
    }
}
