//! Presentations: text, figures and tables of a study as data. A study builds one; from it come its page, its pictures, its
//! Markdown, and its section in the report of a run.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::chart::Chart;
use super::legend::{Entry, Legend};
use super::shell::{Section, page};
use super::svg::{NARROW, WIDE, grid_svg, sample};
use super::table::{EXCERPT_ROWS, Table};
use crate::format::rounded;
use crate::machine::Environment;

/// A study for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Presentation {
    /// Heading.
    pub title: String,
    /// Section of the report; presentations of one group share it.
    pub group: String,
    /// Subject and conditions, in one paragraph.
    pub about: String,
    /// Command that measured it.
    pub command: String,
    /// In the order of the page.
    pub parts: Vec<Part>,
}

/// A part of a presentation.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Heading of the parts that follow.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Bullet points.
    List(Vec<String>),
    /// Pictures, of which a page shows one at a time.
    Figure(Figure),
    /// A table.
    Table(Table),
}

/// A figure of one or several panels.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Title of `figure.svg`.
    pub title: String,
    /// Panels in a row of `figure.svg`; without it each panel has a file of its own.
    pub columns: Option<usize>,
    pub panels: Vec<Panel>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Label of its button.
    pub name: String,
    /// File of the picture without extension; empty: none.
    pub file: String,
    pub chart: Chart,
}

impl Figure {
    pub fn new(title: &str, panels: Vec<Panel>) -> Self {
        Self { title: title.to_owned(), columns: None, panels }
    }

    /// The figure on a page, with legends, tools and the data of each panel.
    pub(crate) fn html(&self, id: &str, command: &str) -> Markup {
        html! {
            figure id={ "figure-" (id) } {
                @if self.panels.len() > 1 {
                    fieldset.panels {
                        legend { "What is shown" }
                        @for (number, panel) in self.panels.iter().enumerate() {
                            label {
                                input type="radio" name={ (id) "-panel" } checked[number == 0];
                                span { (panel.name) }
                            }
                        }
                    }
                }
                @for (number, panel) in self.panels.iter().enumerate() {
                    @let number = if self.panels.len() > 1 { format!("{} ", number + 1) } else { String::new() };
                    (panel.html(&slug(&format!("{id} {number}{}", panel.name)), command))
                }
            }
        }
    }
}

impl Panel {
    /// `file` is the name of what a page saves of it, without extension.
    fn html(&self, file: &str, command: &str) -> Markup {
        let (chart, legend) = (&self.chart, Legend::of(&self.chart));
        html! {
            div.panel data-title=(chart.title) data-file=(file) {
                (legend_html(&legend)) (chart.inline_svg(WIDE, &legend)) (chart.inline_svg(NARROW, &legend))
                @if !chart.subtitle.is_empty() { p.circumstances { (chart.subtitle) } }
                div.tools {
                    button type="button" data-save="csv" { "CSV" }
                    button type="button" data-save="svg" { "SVG" }
                    button type="button" data-save="png" { "PNG" }
                    code { (command) }
                }
                details {
                    summary { "Data of this figure" @if !self.name.is_empty() { ": " (self.name) } }
                    (Table::of_chart(chart).html("", true))
                }
            }
        }
    }
}

/// The buttons of a legend, group by group; those of series that are off at first are folded.
fn legend_html(legend: &Legend) -> Markup {
    let button = |&(key, entry): &(usize, &Entry)| {
        html! {
            button type="button" aria-pressed=(entry.shown) data-key=(key) {
                svg.chart viewBox="0 -6 28 12" aria-hidden="true" { (sample(entry.sample)) }
                (entry.name)
            }
        }
    };
    html! {
        @for group in [0, 1] {
            @let own = legend.entries.iter().enumerate().filter(|(_, entry)| entry.group == group);
            @let (shown, hidden): (Vec<_>, Vec<_>) = own.partition(|(_, entry)| entry.shown);
            @if !shown.is_empty() || !hidden.is_empty() {
                div.legend role="group" aria-label="Switch series" {
                    @for entry in &shown { (button(entry)) }
                    @if shown.len() + hidden.len() > 4 {
                        span.switches {
                            button.every type="button" data-all="true" { "all" }
                            button.every type="button" data-all="false" { "none" }
                        }
                    }
                    @if hidden.len() > 2 {
                        details { summary { (hidden.len()) " more" } div.legend { @for entry in &hidden { (button(entry)) } } }
                    } @else {
                        @for entry in &hidden { (button(entry)) }
                    }
                }
            }
        }
    }
}

/// Letters and digits of a name, joined by hyphens.
pub(crate) fn slug(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

impl Presentation {
    /// A presentation without parts.
    pub fn new(title: &str, group: &str, about: &str) -> Self {
        Self {
            title: rounded(title),
            group: group.to_owned(),
            about: rounded(about),
            command: String::new(),
            parts: Vec::new(),
        }
    }

    /// The paragraph and the parts on a page; `nested` below the heading of a group.
    pub(crate) fn body(&self, id: &str, nested: bool) -> Markup {
        let figures = self.parts.iter().any(|part| matches!(part, Part::Figure(_)));
        html! {
            @if !self.about.is_empty() { p.lead { (self.about) } }
            @for (number, part) in self.parts.iter().enumerate() {
                @match part {
                    Part::Heading(text) => @if nested { h4 { (text) } } @else { h3.study { (text) } },
                    Part::Text(text) => p.lead { (text) },
                    Part::List(lines) => ul { @for line in lines { li { (line) } } },
                    Part::Figure(figure) => (figure.html(&format!("{id}-{number}"), &self.command)),
                    Part::Table(table) => (table.html(&format!("{id}-{number}"), true)),
                }
            }
            @if !figures && !self.command.is_empty() { div.tools { code { (self.command) } } }
        }
    }

    /// A page of its own.
    pub fn page(&self, environment: &Environment) -> String {
        let html = html! { h1 { (self.title) } (self.body("study", false)) };
        let footer = html! {
            "Machine " (environment.machine.id) ", " (environment.day()) ", by " code { (environment.command) } "."
        };
        page(&format!("rounds: {}", self.title), &[Section::new("study", &self.group, html)], &footer)
    }

    /// The text and the tables as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n", self.title);
        let about = (!self.about.is_empty()).then(|| self.about.clone());
        let parts = self.parts.iter().filter_map(|part| match part {
            Part::Heading(heading) => Some(format!("### {heading}")),
            Part::Text(text) => Some(text.clone()),
            Part::List(lines) => Some(lines.iter().map(|line| format!("- {line}\n")).collect()),
            Part::Table(table) => Some(table.markdown()),
            Part::Figure(_) => None,
        });
        for part in about.into_iter().chain(parts) {
            let _ = write!(text, "\n{}\n", part.trim_end());
        }
        text
    }

    /// Pictures as SVG documents, by file name.
    pub fn pictures(&self) -> Vec<(String, String)> {
        let mut pictures: Vec<(String, String)> = Vec::new();
        for part in &self.parts {
            let Part::Figure(figure) = part else { continue };
            if let Some(columns) = figure.columns {
                let charts: Vec<&Chart> = figure.panels.iter().map(|panel| &panel.chart).collect();
                pictures.push(("figure.svg".to_owned(), grid_svg(&figure.title, columns, &charts)));
            } else {
                for panel in figure.panels.iter().filter(|panel| !panel.file.is_empty()) {
                    // Names that differ in other letters than those of files, such as `α` and `β`, would share one.
                    let numbered = (2..).map(|number| format!("{}-{number}.svg", panel.file));
                    let mut names = std::iter::once(format!("{}.svg", panel.file)).chain(numbered);
                    let free = names.find(|name| pictures.iter().all(|(known, _)| known != name));
                    pictures.extend(free.map(|name| (name, panel.chart.svg())));
                }
            }
        }
        pictures
    }

    /// Excerpts of the tables, and the text between them, for a terminal. The last line counts what the excerpts leave out of
    /// the tables that a study writes beside its results.
    pub fn terminal(&self) -> String {
        let (mut text, mut gap, mut left_out) = (String::new(), "", [0, 0]);
        for part in &self.parts {
            let shown = match part {
                Part::Heading(text) | Part::Text(text) => text.clone(),
                Part::List(lines) => lines.join("\n"),
                Part::Table(table) => {
                    let (excerpt, [rows, columns]) = table.excerpt(EXCERPT_ROWS);
                    left_out = [left_out[0] + rows, left_out[1] + columns];
                    excerpt
                }
                Part::Figure(_) => continue,
            };
            text.extend([gap, &shown]);
            gap = if matches!(part, Part::Heading(_)) { "\n" } else { "\n\n" };
        }
        let [rows, columns] = left_out;
        if rows + columns > 0 {
            let _ = write!(text, "\nIn table.md: {rows} more rows, {columns} more columns");
        }
        text
    }

    /// The files of a study: the page `<name>.html`, `table.md` if there are tables, and the pictures.
    pub fn files(&self, name: &str, environment: &Environment) -> Vec<(String, String)> {
        let mut files = self.pictures();
        files.push((format!("{name}.html"), self.page(environment)));
        if self.parts.iter().any(|part| matches!(part, Part::Table(_))) {
            files.push(("table.md".to_owned(), self.markdown()));
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_one_name_are_numbered() {
        use crate::drawing::chart::Axis;
        let panel = || Panel {
            name: String::new(),
            file: "risk".to_owned(),
            chart: Chart::new("", "", Axis::linear(""), Axis::linear(""), Vec::new()),
        };
        let mut presentation = Presentation::new("Title", "Group", "");
        presentation.parts = vec![Part::Figure(Figure::new("", vec![panel(), panel(), panel()]))];
        let names: Vec<String> = presentation.pictures().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["risk.svg", "risk-2.svg", "risk-3.svg"]);
    }

    #[test]
    fn a_presentation_becomes_markdown_and_files() {
        let mut presentation = Presentation::new("Title", "Group", "About.");
        let mut table = Table::new("t", "a|#b");
        table.row([crate::drawing::Entry::text("x"), crate::drawing::Entry::count(3)]);
        let list = Part::List(vec!["one".into()]);
        presentation.parts = vec![Part::Heading("Part".into()), Part::Table(table), list];
        assert_eq!(
            presentation.markdown(),
            "## Title\n\nAbout.\n\n### Part\n\n| a | b |\n| --- | ---: |\n| x | 3 |\n\n- one\n"
        );
        let files = presentation.files("x", &Environment::capture(&[]));
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x.html", "table.md"]);
    }
}
