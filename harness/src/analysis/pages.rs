//! The pages of the results: their tables and the numbers of their prose, put between markers.
//!
//! `<!-- rounds:verdicts -->` and `<!-- rounds:table NAME -->` begin a line, and `<!-- /rounds:… -->` ends what they hold. A number stands
//! in a line: `<!-- rounds:number NAME -->0.33 ± 0.25<!-- / -->`. Markers of other names are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use toml::{Table, Value};

use super::{Declarations, Judged, Query, Records, judge, markdown, merged};

/// A table: an entry for each row and column, whose query is `query` with what the two say in its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grid {
    head: String,
    #[serde(default)]
    query: Table,
    rows: Places,
    columns: Places,
}

/// The rows or columns of a table: the values of a field, or all pairs of several, or parts of a query with their `name`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Places {
    Values(BTreeMap<String, Vec<Value>>),
    Parts(Vec<Table>),
}

impl Places {
    fn all(&self) -> Vec<(String, Table)> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut all = Vec::new();
        match self {
            Self::Values(fields) => {
                all.push((String::new(), Table::new()));
                for (field, values) in fields {
                    let with = |(name, part): &(String, Table), value: &Value| {
                        let own = Table::from_iter([(field.clone(), value.clone())]);
                        let gap = if name.is_empty() { "" } else { ", " };
                        let own = Table::from_iter([("where".to_owned(), own.into())]);
                        (format!("{name}{gap}{}", text(value).replace('*', "")), merged(part, &own))
                    };
                    all = all.iter().flat_map(|one| values.iter().map(move |value| with(one, value))).collect();
                }
            }
            Self::Parts(parts) => {
                for part in parts {
                    let mut part = part.clone();
                    let name = part.remove("name").as_ref().map(text).unwrap_or_default();
                    all.push((name, part));
                }
            }
        }
        all
    }
}

impl Grid {
    fn markdown(&self, records: &mut Records) -> anyhow::Result<String> {
        let columns = self.columns.all();
        let names: Vec<&str> = columns.iter().map(|(name, _)| &**name).collect();
        let heads = 1 + self.head.matches('|').count();
        let mut text = format!("| {} | {} |\n|", self.head, names.join(" | "));
        text.extend([" --- |".repeat(heads), " ---: |".repeat(names.len())]);
        for (name, row) in self.rows.all() {
            let _ = write!(text, "\n| {name} |");
            let row = merged(&self.query, &row);
            for (column, part) in &columns {
                let query: Query = merged(&row, part).try_into().with_context(|| format!("{name}, {column}"))?;
                let entry = query.entry(records).with_context(|| format!("{name}, {column}"))?;
                let _ = write!(text, " {entry} |");
            }
        }
        Ok(text)
    }
}

/// The declarations with all rows judged.
pub(crate) struct Pages {
    declared: Declarations,
    records: Records,
    pub(crate) rows: Vec<Judged>,
    /// Places that were filled.
    placed: BTreeSet<String>,
}

impl Pages {
    /// # Errors
    /// Declarations that are not valid or that no run fits.
    pub(crate) fn new(declarations: &Path, results: &Path) -> anyhow::Result<Self> {
        let declared = Declarations::read(declarations)?;
        let mut records = Records::new(results);
        let rows = judge(&declared.row, &mut records)?;
        Ok(Self { declared, records, rows, placed: BTreeSet::new() })
    }

    /// A page with what the raw runs say between its markers.
    ///
    /// # Errors
    /// A marker without an end or of an unknown table or number, and a number with its interval outside of markers.
    pub(crate) fn filled(&mut self, page: &str) -> anyhow::Result<String> {
        const OPEN: &str = "<!-- rounds:";
        let mut parts = page.split(OPEN);
        let mut text = parts.next().unwrap_or_default().to_owned();
        without_interval(&text)?;
        for part in parts {
            let (name, rest) = part.split_once(" -->").context("a marker has no end")?;
            let _ = write!(text, "{OPEN}{name} -->");
            let Some(content) = self.place(name)? else {
                without_interval(rest)?;
                text += rest;
                continue;
            };
            let ends = if name.starts_with("number ") {
                ["", "<!-- / -->"].map(str::to_owned)
            } else {
                ["\n".to_owned(), format!("\n<!-- /rounds:{name} -->")]
            };
            let (_, after) =
                rest.split_once(&*ends[1]).with_context(|| format!("'{name}' has no {}", ends[1].trim()))?;
            without_interval(after)?;
            text.extend([&ends[0], &content, &ends[1], after]);
        }
        Ok(text)
    }

    /// The content of a place; `None` for one that is not of this file.
    fn place(&mut self, name: &str) -> anyhow::Result<Option<String>> {
        let Self { declared, records, rows, placed } = self;
        let (kind, own) = name.split_once(' ').unwrap_or((name, ""));
        let content = match kind {
            "verdicts" => Ok(markdown(rows)),
            "table" => declared.table.get(own).with_context(|| format!("no [table.{own}]"))?.markdown(records),
            "number" => declared.number.get(own).with_context(|| format!("no [number.{own}]"))?.entry(records),
            _ => return Ok(None),
        };
        placed.insert(name.to_owned());
        content.with_context(|| name.to_owned()).map(Some)
    }

    /// # Errors
    /// A table or number that no page has, or the verdicts.
    pub(crate) fn all_placed(&self) -> anyhow::Result<()> {
        let tables = self.declared.table.keys().map(|name| format!("table {name}"));
        let numbers = self.declared.number.keys().map(|name| format!("number {name}"));
        match tables.chain(numbers).chain(["verdicts".to_owned()]).find(|name| !self.placed.contains(name)) {
            Some(name) => bail!("no page has <!-- rounds:{name} -->"),
            None => Ok(()),
        }
    }
}

/// Refuses a mean with its interval in prose.
fn without_interval(text: &str) -> anyhow::Result<()> {
    let digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
    for (place, _) in text.match_indices(" ± ") {
        let is_number = digit(text[..place].chars().next_back()) && digit(text[place + " ± ".len()..].chars().next());
        let near: String = text[..place].chars().rev().take(60).collect();
        ensure!(
            !is_number,
            "a number with its interval has no [number.…]: {} ±",
            near.chars().rev().collect::<String>()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_markers_stay_and_what_is_not_declared_ended_or_placed_is_named() {
        let text = "row = []\n[number]\nx = { study = \"s\" }\n[table.t]\nhead = \"a\"\nrows = { b = [1] }\ncolumns = { c = [] }";
        let mut pages = Pages {
            declared: toml::from_str(text).unwrap(),
            records: Records::new(Path::new("")),
            rows: Vec::new(),
            placed: BTreeSet::new(),
        };
        let page = |name: &str| format!("± is half\n<!-- rounds:{name} -->\nold\n<!-- /rounds:{name} -->\nend");
        assert_eq!(pages.filled(&page("peers")).unwrap(), page("peers"));
        assert_eq!(pages.filled(&page("table t")).unwrap(), page("table t").replace("old", "| a |  |\n| --- |\n| 1 |"));
        let refused = |pages: &mut Pages, page: &str| format!("{:#}", pages.filled(page).unwrap_err());
        assert_eq!(refused(&mut pages, &page("table u")), "no [table.u]");
        assert!(refused(&mut pages, "<!-- rounds:table t -->\n").contains("no <!-- /rounds:table t -->"));
        assert!(refused(&mut pages, &page("peers").replace("end", "it has 1.5 ± 0.2")).contains("it has 1.5 ±"));
        assert_eq!(pages.all_placed().unwrap_err().to_string(), "no page has <!-- rounds:number x -->");
    }

    #[test]
    fn rows_are_values_of_fields_or_named_parts() {
        let all = |text: &str| toml::from_str::<BTreeMap<String, Places>>(text).unwrap()["rows"].all();
        let names = |text: &str| all(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("rows = { a = [1, 2], b = [\"x*\", \"y\"] }"), ["1, x", "1, y", "2, x", "2, y"]);
        let (name, part) = &all("rows = [{ name = \"F*\", where = { a = 1 } }]")[0];
        assert_eq!((&**name, part.len(), part["where"]["a"].as_integer()), ("F*", 1, Some(1)));
    }
}
