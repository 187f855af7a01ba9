//! Sections of a page: a heading, what it shows, and figures. Each figure has its legend, its command, and its numbers as
//! a table; a reader may switch, sort, filter and save.

use std::fmt::Write as _;

use super::bars::Bars;
use super::chart::{Chart, NARROW, WIDE};
use super::format::escape;
use super::legend::Legend;
use super::tables;

/// A figure of one or several panels, of which a reader sees one at a time.
pub(super) struct Section {
    /// Unique on its page.
    pub(super) id: String,
    /// Its name in the navigation.
    pub(super) link: String,
    pub(super) about: String,
    /// What the panels differ in: `Data set`.
    pub(super) panels_by: &'static str,
    pub(super) panels: Vec<(String, Picture)>,
    /// The command that measured it.
    pub(super) command: String,
}

/// What a figure shows.
pub(super) enum Picture {
    /// Drawn here.
    Chart(Chart, Legend),
    /// Drawn here.
    Bars(Bars),
    /// Drawn by whoever measured it: a whole SVG document, with its title.
    Drawn {
        /// What it shows.
        title: String,
        /// The document.
        svg: String,
    },
}

impl Picture {
    /// A chart with an entry of the legend for each series.
    pub(super) fn of_chart(chart: Chart) -> Self {
        let legend = Legend::of_series(&chart);
        Self::Chart(chart, legend)
    }

    pub(super) fn title(&self) -> &str {
        match self {
            Self::Chart(chart, _) => &chart.title,
            Self::Bars(bars) => &bars.title,
            Self::Drawn { title, .. } => title,
        }
    }
}

impl Section {
    /// Id, link and HTML.
    pub(super) fn rendered(&self) -> (String, String, String) {
        let title = self.panels.first().map_or("", |(_, picture)| picture.title());
        let mut html = format!(
            "<h2>{}</h2><p class=\"lead\">{}</p>",
            escape(title),
            escape(&self.about)
        );
        self.figure(title, &mut html);
        (self.id.clone(), self.link.clone(), html)
    }

    /// The figure alone.
    pub(super) fn figure(&self, title: &str, page: &mut String) {
        let _ = write!(
            page,
            "<figure id=\"figure-{}\" data-title=\"{}\">",
            self.id,
            escape(title)
        );
        if self.panels.len() > 1 {
            let _ = write!(page, "<fieldset class=\"panels\"><legend>{}</legend>", self.panels_by);
            for (number, (name, _)) in self.panels.iter().enumerate() {
                let checked = if number == 0 { " checked" } else { "" };
                let _ = write!(
                    page,
                    "<label><input type=\"radio\" name=\"{}-panel\"{checked}><span>{}</span></label>",
                    self.id,
                    escape(name)
                );
            }
            page.push_str("</fieldset>");
        }
        for (name, picture) in &self.panels {
            self.panel(name, picture, page);
        }
        page.push_str("</figure>");
    }

    fn panel(&self, name: &str, picture: &Picture, page: &mut String) {
        let _ = write!(page, "<div class=\"panel\" data-title=\"{}\">", escape(picture.title()));
        let (body, table, subtitle) = match picture {
            Picture::Chart(chart, legend) => (
                drawn(
                    legend,
                    &chart.inline_svg(WIDE, legend),
                    &chart.inline_svg(NARROW, legend),
                ),
                Some(tables::of_chart(chart)),
                chart.subtitle.as_str(),
            ),
            Picture::Bars(bars) => (
                drawn(&Legend::of_bars(bars), &bars.inline_svg(WIDE), &bars.inline_svg(NARROW)),
                Some(tables::of_bars(bars)),
                bars.subtitle.as_str(),
            ),
            Picture::Drawn { title, svg } => (
                format!(
                    "<div class=\"drawn\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><img alt=\"{0}\" src=\"{1}\"></div>",
                    escape(title),
                    data_address(svg)
                ),
                None,
                "",
            ),
        };
        page.push_str(&body);
        if !subtitle.is_empty() {
            let _ = write!(page, "<p class=\"circumstances\">{}</p>", escape(subtitle));
        }
        page.push_str("<div class=\"tools\">");
        if table.is_some() {
            page.push_str("<button type=\"button\" data-save=\"csv\">CSV</button>");
        }
        let _ = write!(
            page,
            "<button type=\"button\" data-save=\"svg\">SVG</button><button type=\"button\" data-save=\"png\">PNG</button>\
             <code>{}</code></div>",
            escape(&self.command)
        );
        if let Some(table) = table {
            let _ = write!(
                page,
                "<details><summary>Data of this figure{}</summary>{}</details>",
                if name.is_empty() {
                    String::new()
                } else {
                    format!(": {}", escape(name))
                },
                table.html(None, "Data of this figure", true)
            );
        }
        page.push_str("</div>");
    }
}

/// Legend and both sizes of a picture. The pictures take the keyboard: arrows go from mark to mark.
fn drawn(legend: &Legend, wide: &str, narrow: &str) -> String {
    let with_class =
        |svg: &str, class: &str| svg.replacen("class=\"chart\"", &format!("class=\"chart {class}\" tabindex=\"0\""), 1);
    format!(
        "{}{}{}",
        legend.html(),
        with_class(wide, "wide"),
        with_class(narrow, "narrow")
    )
}

/// An SVG document as an address that an image takes. As an image it can run nothing and load nothing.
fn data_address(svg: &str) -> String {
    let mut address = String::with_capacity(svg.len() + svg.len() / 4);
    address.push_str("data:image/svg+xml;charset=utf-8,");
    for byte in svg.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => address.push(char::from(byte)),
            b' ' | b'-' | b'_' | b'.' | b'=' | b'/' | b':' | b';' | b',' | b'(' | b')' | b'!' | b'*' | b'?' | b'+'
            | b'@' => {
                address.push(char::from(byte));
            }
            _ => {
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_picture_is_an_image_and_nothing_else() {
        let section = Section {
            id: "x".into(),
            link: "X".into(),
            about: String::new(),
            panels_by: "Figure",
            panels: vec![(
                "one".into(),
                Picture::Drawn {
                    title: "a \"title\"".into(),
                    svg: "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script>é#</svg>".into(),
                },
            )],
            command: "rounds run x".into(),
        };
        let (_, _, html) = section.rendered();
        assert!(!html.contains("<script>") && html.contains("%3Cscript%3E") && html.contains("%C3%A9%23"));
        assert!(html.contains("data-save=\"png\"") && html.contains("rounds run x"));
        assert!(!html.contains("data-save=\"csv\""), "it brings no numbers");
    }
}
