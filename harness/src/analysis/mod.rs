//! The one analysis of raw runs: published numbers and claims beside what runs here have, with verdicts, and the tables and numbers of
//! the pages, all declared in `bench/verdicts.toml`.
//!
//! Declarations are data; what they may ask for is here. Nothing is measured.

mod derived;
mod pages;
mod query;
mod records;
mod verdicts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(crate) use self::pages::Pages;
use self::query::{Answer, Query};
use self::records::Records;
use self::verdicts::{Verdict, all, decide, holm};

/// The file of declarations.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declarations {
    row: Vec<Table>,
    table: BTreeMap<String, pages::Grid>,
    number: BTreeMap<String, Query>,
}

/// A published number or claim.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Declared {
    /// The paper and the place in it.
    paper: String,
    at: String,
    says: String,
    /// The claim holds where all of these do.
    test: Vec<Query>,
    /// Why ours differs.
    reason: Option<String>,
    /// A rule that leaves it open, whatever the numbers.
    open: Option<String>,
    /// True where a bound is stated without its logarithms: an exponent above its power leaves it open.
    #[serde(default)]
    hides_logarithms: bool,
    /// True where the number was given to the runs: no verdict.
    #[serde(default)]
    input: bool,
}

const HIDES_LOGARITHMS: &str =
    "The bound hides logarithms, which these cells cannot tell from powers: a larger exponent leaves it open.";

/// The rows of a declaration: those of its list `rows`, each with what they share.
fn expanded(row: &Table) -> Vec<Table> {
    let mut shared = row.clone();
    let own = match shared.remove("rows") {
        Some(Value::Array(own)) => own,
        _ => vec![Value::Table(Table::new())],
    };
    let whole = |own: &Table| {
        let mut row = merged(&shared, own);
        if let Some(test @ Value::Table(_)) = row.get("test").cloned() {
            row.insert("test".to_owned(), vec![test].into());
        }
        row
    };
    own.iter().filter_map(Value::as_table).map(whole).collect()
}

/// `more` over `base`, table by table.
fn merged(base: &Table, more: &Table) -> Table {
    let mut all = base.clone();
    for (name, value) in more {
        let value = match (base.get(name), value) {
            (Some(Value::Table(own)), Value::Table(other)) => merged(own, other).into(),
            _ => value.clone(),
        };
        all.insert(name.clone(), value);
    }
    all
}

/// A row with its verdict.
#[derive(Serialize)]
pub(crate) struct Judged {
    paper: String,
    says: String,
    said: String,
    ours: String,
    /// None for an input.
    verdict: Option<Verdict>,
    /// The least α at which the verdict stands, alone and with Holm's correction within the paper.
    alone: f64,
    corrected: f64,
    reason: Option<String>,
}

impl Declarations {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }
}

/// All rows, judged by the runs.
fn judge(declared: &[Table], records: &mut Records) -> anyhow::Result<Vec<Judged>> {
    let mut rows = Vec::new();
    for row in declared.iter().flat_map(expanded) {
        let name = || ["paper", "at", "says"].map(|name| row.get(name).map(Value::to_string).unwrap_or_default());
        let declared = row.clone().try_into::<Declared>().map_err(anyhow::Error::from);
        let found = declared.and_then(|row| judged(&row, records));
        rows.push(found.with_context(|| name().join(" "))?);
    }
    for paper in rows.iter().map(|row| row.paper.clone()).collect::<std::collections::BTreeSet<_>>() {
        let own = |row: &Judged| row.paper == paper && row.verdict.is_some();
        let levels: Vec<f64> = rows.iter().filter(|row| own(row)).map(|row| row.alone).collect();
        for (row, level) in rows.iter_mut().filter(|row| own(row)).zip(holm(&levels)) {
            row.corrected = level;
        }
    }
    Ok(rows)
}

fn judged(row: &Declared, records: &mut Records) -> anyhow::Result<Judged> {
    let mut tested = Vec::new();
    for test in &row.test {
        for answer in test.answers(records)? {
            let mut answer = answer.context("too few points for an exponent")?;
            let (bounds, found) = test.said.bounds(&answer);
            answer.found = found;
            tested.push((answer, bounds));
        }
    }
    let verdict = |(answer, bounds): &(Answer, [f64; 2])| {
        if answer.open.is_some() { (Verdict::Open, 1.0) } else { decide(&answer.found, *bounds) }
    };
    let decided: Vec<_> = tested.iter().map(verdict).collect();
    let (mut found, mut alone) = all(&decided);
    let mut why = None;
    let hidden = (row.hides_logarithms && found == Verdict::Fails).then(|| HIDES_LOGARITHMS.to_owned());
    if hidden.is_some() || row.open.is_some() {
        (found, alone) = (Verdict::Open, 1.0);
    }
    // Of several the one that decides, or the one nearest to refuting.
    let score = |(answer, [low, high]): &(Answer, [f64; 2])| {
        (answer.found.value - low).min(high - answer.found.value) / answer.found.error.max(1e-300)
    };
    let order = |a: &usize, b: &usize| {
        decided[*a].0.cmp(&decided[*b].0).then(score(&tested[*a]).total_cmp(&score(&tested[*b])))
    };
    let worst = (0..tested.len()).min_by(order).context("no test")?;
    let (shown, bounds) = &tested[worst];
    if found == Verdict::Open && !row.input {
        why = row.open.clone().or(hidden).or_else(|| shown.open.map(str::to_owned));
    }
    let label = if tested.len() > 1 { format!("least of {}: ", tested.len()) } else { String::new() };
    let ours =
        format!("{label}{}{}{}", shown.found.text(), if shown.label.is_empty() { "" } else { ", " }, shown.label);
    let first = row.test[0].said;
    let reason = [why, row.reason.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Ok(Judged {
        paper: row.paper.clone(),
        says: format!("{}: {}", row.at, row.says),
        said: first.text(*bounds),
        ours,
        verdict: (!row.input).then_some(found),
        alone,
        corrected: alone,
        reason: Some(reason).filter(|reason| !reason.is_empty()),
    })
}

/// The table of a page, with reasons below.
fn markdown(rows: &[Judged]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut text = String::from(
        "| paper | number or claim | said | ours | verdict | α, corrected |\n| --- | --- | ---: | ---: | --- | ---: |\n",
    );
    for row in rows {
        let mark = row.reason.as_deref().map_or(String::new(), |reason| {
            let place = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            format!(" [{}]", place + 1)
        });
        let Judged { paper, says, said, ours, .. } = row;
        let _ = writeln!(text, "| {paper} | {says} | {said} | {ours} | {}{mark} | {} |", row.name(), row.levels());
    }
    for (place, reason) in reasons.iter().enumerate() {
        let _ = write!(text, "\n- [{}] {reason}", place + 1);
    }
    text
}

impl Judged {
    /// The verdict; with Holm's correction where that leaves it open.
    fn name(&self) -> String {
        match self.verdict {
            None => "input".to_owned(),
            Some(Verdict::Open) => "open".to_owned(),
            Some(verdict) if self.corrected > 0.05 => format!("**{}**, corrected: open", verdict.name()),
            Some(verdict) => format!("**{}**", verdict.name()),
        }
    }

    fn levels(&self) -> String {
        let short = |level: f64| if level < 5e-4 { "< 0.001".to_owned() } else { format!("{level:.3}") };
        match self.verdict {
            Some(Verdict::Holds | Verdict::Fails) => format!("{}, {}", short(self.alone), short(self.corrected)),
            _ => "–".to_owned(),
        }
    }

    /// A row of the terminal's table.
    pub(crate) fn entries(&self) -> [String; 5] {
        [self.paper.clone(), self.says.clone(), self.said.clone(), self.ours.clone(), self.name().replace("**", "")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_declaration_share_what_they_do_not_say() {
        let row = "paper = \"000\"\ntest = { study = \"s\", where = { a = 1, b = 2 } }\n\
                   rows = [{ says = \"x\", test = { where = { b = 3 } } }, { paper = \"001\" }]";
        let rows = expanded(&toml::from_str(row).unwrap());
        let of = |row: &Table| (row["paper"].clone(), row["test"][0]["where"].clone());
        let fields = |b: i64| Value::from(Table::from_iter([("a".to_owned(), 1.into()), ("b".to_owned(), b.into())]));
        assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), [("000".into(), fields(3)), ("001".into(), fields(2))]);
        assert!(toml::from_str::<Query>("study = \"s\"\nfeild = \"value\"").is_err());
    }

    #[test]
    fn a_claim_about_runs_that_nobody_made_is_open() {
        let run = |method: &str, epsilon: u64, repeat: u64, value: f64| serde_json::json!({ "method": method, "epsilon": epsilon, "repeat": repeat, "value": value });
        let of = |unfinished: bool, runs: Vec<serde_json::Value>| {
            let row = format!(
                "paper = \"p\"\nat = \"f\"\nsays = \"x\"\ntest = {{ study = \"s\", where = {{ method = \"a\" }}, \
                 against = {{ method = \"b\" }}, each = {{ epsilon = [1, 2] }}, unfinished = {unfinished}, said = {{ above = 0.0 }} }}"
            );
            let mut rows = judge(&[toml::from_str(&row).unwrap()], &mut Records::of("s", runs))?;
            let row = rows.remove(0);
            anyhow::Ok((row.verdict.unwrap(), row.ours, row.reason.unwrap_or_default()))
        };
        let open = |ours: &str, reason: &str| (Verdict::Open, ours.to_owned(), reason.to_owned());
        let part = || vec![run("a", 1, 0, 3.0), run("b", 1, 0, 1.0), run("a", 2, 0, 3.0)];
        assert_eq!(of(true, part()).unwrap(), open("least of 2: 2, epsilon = 1", "Too few runs."));
        assert!(format!("{:#}", of(false, part()).unwrap_err()).contains("s has no run with"));
        let nothing = vec![run("b", 1, 0, 1.0)];
        assert_eq!(of(true, nothing).unwrap(), open("least of 2: –, epsilon = 1", "Not run."));
        // A name that no run has is misspelt where another one is near it.
        let misspelt = vec![serde_json::json!({ "method": "a", "parameters": { "epsilons": 1 }, "value": 3.0 })];
        let error = format!("{:#}", of(true, misspelt).unwrap_err());
        assert!(error.contains("no run with a field 'epsilon'; did you mean 'epsilons'?"), "{error}");
        // One run, that nothing is said of.
        let row = "paper = \"p\"\nat = \"f\"\nsays = \"x\"\ntest = { study = \"s\", where = { method = \"a\" }, said = { above = 0.0 } }";
        let one = judge(&[toml::from_str(row).unwrap()], &mut Records::of("s", vec![run("a", 1, 0, 3.0)])).unwrap();
        assert_eq!((one[0].verdict, one[0].reason.as_deref()), (Some(Verdict::Open), Some("One run.")));
        // Ten seeds of one place hold, and the other place still leaves it open.
        let ten = |epsilon: u64| {
            (0..10)
                .flat_map(move |seed| [run("a", epsilon, seed, 3.0 + 0.01 * seed as f64), run("b", epsilon, seed, 1.0)])
        };
        assert_eq!(of(true, ten(1).collect()).unwrap(), open("least of 2: –, epsilon = 2", "Not run."));
        assert_eq!(of(true, ten(1).chain(ten(2)).collect()).unwrap().0, Verdict::Holds);
    }
}
