//! What every page is made in: head, style, navigation, script and foot. One file that needs nothing else; its own policy
//! forbids the browser to load anything.

use std::fmt::Write as _;

use super::chart::{CHART_STYLE, DARK_VARIABLES, VARIABLES};
use super::format::escape;
use crate::machine::Environment;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page with its sections as HTML, in the order of the navigation.
pub(super) struct Page {
    /// The browser's title.
    pub(super) title: String,
    /// Id, name in the navigation, and HTML of each section.
    pub(super) sections: Vec<(String, String, String)>,
    /// A line below everything, as HTML.
    pub(super) footer: String,
    /// All measurements as CSV, for the button that saves them; empty without.
    pub(super) measurements: String,
}

impl Page {
    /// The page of one study, its section as `html`.
    pub(super) fn of_study(title: &str, id: &str, name: &str, html: String, environment: &Environment) -> Self {
        Page {
            title: format!("rounds: {title}"),
            sections: vec![(id.to_owned(), name.to_owned(), html)],
            footer: format!(
                "Machine {}, {}, by <code>{}</code>.",
                escape(&environment.machine.id),
                environment.day(),
                escape(&environment.command)
            ),
            measurements: String::new(),
        }
    }

    /// The whole document.
    pub(super) fn html(&self) -> String {
        let navigation = self.sections.iter().fold(String::new(), |mut html, (id, name, _)| {
            let _ = write!(html, "<a href=\"#{id}\">{}</a>", escape(name));
            html
        });
        let first = self.sections.first().map_or("", |(id, ..)| id);
        let mut page = String::with_capacity(1 << 20);
        let _ = write!(
            page,
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; img-src data: blob:\">\
             <link rel=\"icon\" href=\"data:,\">\
             <title>{title}</title>\
             <style>:root{{{VARIABLES}}}@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{DARK_VARIABLES}}}}}\
             :root[data-theme=dark]{{{DARK_VARIABLES}}}{STYLE}</style><style id=\"chart-style\">{CHART_STYLE}\
             .chart .group{{fill:var(--ink);font-weight:600;font-size:13px}}</style></head><body>\
             <a class=\"skip\" href=\"#{first}\">To the results</a>\
             <header class=\"bar\"><div><b>rounds</b><nav aria-label=\"Sections\">{navigation}</nav>\
             <button id=\"theme\" type=\"button\" hidden>theme: auto</button></div></header><main>",
            title = escape(&self.title),
        );
        for (id, _, html) in &self.sections {
            let _ = write!(page, "<section id=\"{id}\">{html}</section>");
        }
        let _ = write!(page, "<footer>{}</footer></main>", self.footer);
        if !self.measurements.is_empty() {
            let _ = write!(
                page,
                "<pre id=\"measurements\" hidden>{}</pre>",
                escape(&self.measurements)
            );
        }
        let _ = write!(page, "<script>{SCRIPT}</script></body></html>");
        page
    }
}
