//! The document around every page: head, style, navigation, script and footer. It is one file that loads nothing; its own
//! security policy forbids that.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::svg::{DARK, LIGHT, STYLE as CHART_STYLE};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Without the script all panels are shown, each with its title, and no button that does nothing.
const WITHOUT_SCRIPT: &str = ".panels,.filter,.tools button,.legend .switches{display:none}thead button::after{content:none!important}\
                              .panel::before{content:attr(data-title);display:block;font-weight:600;margin:24px 0 0}";

pub(crate) struct Section {
    pub(crate) id: String,
    /// Name in the navigation.
    pub(crate) link: String,
    pub(crate) html: Markup,
}

impl Section {
    pub(crate) fn new(id: &str, link: &str, html: Markup) -> Self {
        Self { id: id.to_owned(), link: link.to_owned(), html }
    }

    /// A section of which only the heading is seen at first.
    pub(crate) fn folded(id: &str, link: &str, heading: &str, html: &Markup) -> Self {
        let folded = html! { details.section { summary { h2 { (heading) } } (html) } };
        Self::new(id, link, folded)
    }
}

/// The document of sections, in the order of the navigation. `title` is the browser's.
pub(crate) fn page(title: &str, sections: &[Section], footer: &Markup) -> String {
    let style = format!(
        ":root{{{LIGHT}}}@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{DARK}}}}}\
         :root[data-theme=dark]{{{DARK}}}@media print{{:root:root:root{{{LIGHT}}}}}{STYLE}"
    );
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:";
    let first = sections.first().map_or("", |section| &section.id);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(style)) }
                style id="chart-style" { (PreEscaped(CHART_STYLE)) }
                noscript { style { (PreEscaped(WITHOUT_SCRIPT)) } }
            }
            body {
                a.skip href={ "#" (first) } { "To the results" }
                header.bar { div {
                    b { "rounds" }
                    nav aria-label="Sections" {
                        @for section in sections { a href={ "#" (section.id) } { (section.link) } }
                    }
                    button #theme type="button" hidden { "theme: auto" }
                } }
                main {
                    @for section in sections { section id=(section.id) { (section.html) } }
                    footer { (footer) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    typeset(&page.into_string())
}

/// Text with powers such as `n^(1/4)` as raised figures, which captions, labels of charts and tooltips can hold alike.
fn typeset(text: &str) -> String {
    let raised = |figure: char| match figure {
        '/' => Some('⁄'),
        _ => "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(figure.to_digit(10)? as usize),
    };
    let mut parts = text.split("^(");
    let mut typeset = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let power = part.split_once(')').filter(|_| typeset.ends_with(char::is_alphabetic));
        let power =
            power.and_then(|(power, rest)| Some((power.chars().map(raised).collect::<Option<String>>()?, rest)));
        match power {
            Some((power, rest)) => typeset.extend([&power, rest]),
            None => typeset.extend(["^(", part]),
        }
    }
    typeset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_page_is_light_and_one_without_its_script_has_no_buttons_of_it() {
        let page = page("Title", &[], &html! {});
        assert!(page.contains(&format!("@media print{{:root:root:root{{{LIGHT}}}}}")));
        assert!(page.contains(&format!("<noscript><style>{WITHOUT_SCRIPT}</style></noscript>")));
    }

    #[test]
    fn powers_are_raised_and_other_text_stays() {
        assert_eq!(typeset("T ~ n^(1/4), n^(12/35)"), "T ~ n¹⁄⁴, n¹²⁄³⁵");
        for text in ["", "/^(a|b)/", "n^(a)", "n^(1", "2^(1/4)", "n^2"] {
            assert_eq!(typeset(text), text);
        }
    }
}
