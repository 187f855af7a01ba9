//! The one analysis of raw runs: published numbers and claims (`bench/published.toml`) beside what runs here have, with verdicts.
//!
//! Declarations are data; what they may ask for is here. Nothing is measured.

mod derived;
mod estimates;
mod records;
mod verdicts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::estimates::{Estimated, difference, of_mean};
use self::records::{Fields, Records, Sample};
use self::verdicts::{Verdict, all, decide, holm};
use crate::format::minus;

/// Fewest points of an exponent, and fewest runs of a mean, that a verdict rests on.
const LEAST_POINTS: usize = 6;
const LEAST_RUNS: usize = 10;

/// The file of declarations.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declarations {
    row: Vec<Declared>,
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
    test: Vec<Test>,
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

/// A quantity of raw runs and what is said of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Test {
    #[serde(default)]
    study: String,
    #[serde(default)]
    r#where: Fields,
    /// The number of a run.
    #[serde(default = "value")]
    field: String,
    #[serde(default)]
    statistic: Statistic,
    /// The best setting by the mean, if several are selected.
    choose: Option<Choose>,
    /// Less the same with these fields (`study` names another study).
    against: Option<Fields>,
    /// Less that difference with these fields.
    over: Option<Fields>,
    /// One test for each value of a field.
    #[serde(default)]
    each: BTreeMap<String, Vec<Value>>,
    /// One test for each pair of neighbours: the later less the earlier, of the quantity or of its difference.
    #[serde(default)]
    chain: BTreeMap<String, Vec<Value>>,
    said: Said,
}

fn value() -> String {
    "value".to_owned()
}

/// The statistic of a quantity.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Statistic {
    #[default]
    Mean,
    /// The mean of logarithms.
    Logarithm,
    /// Exponents of the rate study in `field`.
    FewestRounds,
    LeastRisk,
    /// Exponents of a count, `COUNT in accuracy` or `COUNT in dimension`.
    Depth,
    /// The exponent of needed queries in `field`, beside Theorem 4's.
    Needs,
}

/// The best setting.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Choose {
    Least,
    Most,
}

/// The published side of a row: a mean with its 96 % interval over 100 runs, one published draw, or bounds.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Said {
    published: Option<f64>,
    interval: Option<f64>,
    /// Published from a single draw.
    #[serde(default)]
    single: bool,
    /// Differences up to it are agreement; the published interval where there is one.
    margin: Option<f64>,
    at_most: Option<f64>,
    above: Option<f64>,
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

struct Tested {
    label: String,
    found: Estimated,
    bounds: [f64; 2],
    open: Option<&'static str>,
}

/// All rows of a file of declarations, judged by the runs below `results`.
pub(crate) fn judge(declarations: &Path, results: &Path) -> anyhow::Result<Vec<Judged>> {
    let text = std::fs::read_to_string(declarations).with_context(|| declarations.display().to_string())?;
    let declared: Declarations = toml::from_str(&text).with_context(|| declarations.display().to_string())?;
    let mut records = Records::new(results);
    let mut rows = Vec::new();
    for row in &declared.row {
        let name = || format!("{}, {}: {}", row.paper, row.at, row.says);
        rows.push(judged(row, &mut records).with_context(name)?);
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
        for (label, fields, chain) in places(test) {
            tested.push(one(test, label, &fields, chain.as_ref(), records)?);
        }
    }
    let verdict =
        |test: &Tested| if test.open.is_some() { (Verdict::Open, 1.0) } else { decide(&test.found, test.bounds) };
    let decided: Vec<_> = tested.iter().map(verdict).collect();
    let (mut found, mut alone) = all(&decided);
    let mut why = None;
    let hidden = (row.hides_logarithms && found == Verdict::Fails).then(|| HIDES_LOGARITHMS.to_owned());
    if hidden.is_some() || row.open.is_some() {
        (found, alone) = (Verdict::Open, 1.0);
    }
    // Of several the one that decides, or the one nearest to refuting.
    let score = |test: &Tested| {
        let inside = (test.found.value - test.bounds[0]).min(test.bounds[1] - test.found.value);
        inside / test.found.error.max(1e-300)
    };
    let order = |a: &usize, b: &usize| {
        decided[*a].0.cmp(&decided[*b].0).then(score(&tested[*a]).total_cmp(&score(&tested[*b])))
    };
    let worst = (0..tested.len()).min_by(order).context("no test")?;
    if found == Verdict::Open && !row.input {
        why = row.open.clone().or(hidden).or_else(|| tested[worst].open.map(str::to_owned));
    }
    let shown = &tested[worst];
    let label = if tested.len() > 1 { format!("least of {}: ", tested.len()) } else { String::new() };
    let ours =
        format!("{label}{}{}{}", shown.found.text(), if shown.label.is_empty() { "" } else { ", " }, shown.label);
    let first = row.test[0].said;
    let reason = [why, row.reason.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Ok(Judged {
        paper: row.paper.clone(),
        says: format!("{}: {}", row.at, row.says),
        said: first.text(shown.bounds),
        ours,
        verdict: (!row.input).then_some(found),
        alone,
        corrected: alone,
        reason: Some(reason).filter(|reason| !reason.is_empty()),
    })
}

/// The places of a test: a label, the fields that differ, and the earlier neighbour of a chain.
fn places(test: &Test) -> Vec<(String, Fields, Option<Fields>)> {
    let mut places = vec![(Vec::<String>::new(), Fields::new(), None)];
    let show = |name: &str, value: &Value| match value {
        Value::String(text) => text.clone(),
        value => format!("{} = {value}", name.replace('_', " ")),
    };
    for (name, values) in &test.each {
        let with = |(label, fields, chain): &(Vec<String>, Fields, Option<Fields>)| {
            let (label, fields, chain) = (label.clone(), fields.clone(), chain.clone());
            values.iter().map(move |value| {
                let (mut label, mut fields) = (label.clone(), fields.clone());
                label.push(show(name, value));
                fields.insert(name.clone(), value.clone());
                (label, fields, chain.clone())
            })
        };
        places = places.iter().flat_map(with).collect();
    }
    for (name, values) in &test.chain {
        let with = |pair: &[Value]| {
            let of = |value: &Value| Fields::from([(name.clone(), value.clone())]);
            (vec![format!("from {}", show(name, &pair[0]))], of(&pair[1]), Some(of(&pair[0])))
        };
        places = values.windows(2).map(with).collect();
    }
    places.into_iter().map(|(label, fields, chain)| (label.join(", "), fields, chain)).collect()
}

fn one(
    test: &Test,
    label: String,
    fields: &Fields,
    chain: Option<&Fields>,
    records: &mut Records,
) -> anyhow::Result<Tested> {
    let mut base = test.r#where.clone();
    base.extend(fields.clone());
    let with = |more: &Fields| {
        let mut fields = base.clone();
        fields.extend(more.clone());
        fields
    };
    let mut open = None;
    let mut theory = None;
    let mut found = if matches!(test.statistic, Statistic::Mean | Statistic::Logarithm) {
        let mut sample = |fields: &Fields| -> anyhow::Result<Sample> {
            let (sample, at_end) = selected(test, fields, records)?;
            if at_end {
                open = Some("The best lies at an end of its grid.");
            }
            Ok(sample)
        };
        let mut compared = |fields: &Fields| -> anyhow::Result<(Sample, Option<Sample>)> {
            let other = test.against.as_ref().map(|against| {
                let mut other = fields.clone();
                other.extend(against.clone());
                other
            });
            Ok((sample(fields)?, other.map(|other| sample(&other)).transpose()?))
        };
        let of = |(one, other): &(Sample, Option<Sample>)| match other {
            Some(other) if one.keys().eq(other.keys()) => {
                Ok(one.iter().map(|(place, value)| (*place, value - other[place])).collect::<Sample>())
            }
            Some(_) => Err(()),
            None => Ok(one.clone()),
        };
        let first = compared(&base)?;
        let second = test.over.as_ref().or(chain).map(|over| compared(&with(over))).transpose()?;
        match (of(&first), second) {
            (Ok(one), None) if !test.said.single => of_mean(&one),
            (Ok(one), None) => {
                let found = of_mean(&one);
                Estimated { error: found.error * (1.0 + one.len() as f64).sqrt(), ..found }
            }
            (Err(()), None) => difference(&first.0, first.1.as_ref().context("a pair")?),
            (one, Some(second)) => {
                let both = one.ok().zip(of(&second).ok());
                let (one, other) = both.context("a difference of differences needs the same draws and seeds")?;
                difference(&one, &other)
            }
        }
    } else {
        let mut exponent = |fields: &Fields| {
            let exponent = match test.statistic {
                Statistic::FewestRounds => derived::of_rates(records, fields, &test.field, true),
                Statistic::LeastRisk => derived::of_rates(records, fields, &test.field, false),
                Statistic::Needs => derived::of_needs(records, fields, &test.field),
                _ => {
                    let (count, axis) = test.field.split_once(" in ").context("a count and its axis")?;
                    derived::of_depth(records, fields, count, axis)
                }
            }?;
            if exponent.points < LEAST_POINTS {
                open = Some("Fewer than six points.");
            }
            theory = exponent.theory;
            anyhow::Ok(exponent.found)
        };
        let found = exponent(&base)?;
        match &test.against {
            Some(against) => found.minus(&exponent(&with(against))?),
            None => found,
        }
    };
    let said = Said { at_most: theory.or(test.said.at_most), ..test.said };
    if found.error > 0.0 && found.count < LEAST_RUNS && open.is_none() {
        open = Some("Too few runs.");
    }
    let bounds = match (said.published, said.at_most, said.above) {
        (Some(published), ..) => {
            let margin = said.margin.or(said.interval).unwrap_or(0.0);
            if let Some(interval) = said.interval {
                let theirs = Estimated { value: 0.0, error: 1.0, freedom: 99.0, count: 100 };
                let error = interval / theirs.half(0.96);
                found = Estimated { value: found.value, ..found.minus(&Estimated { error, ..theirs }) };
            }
            [published - margin, published + margin]
        }
        (None, at_most, above) => [above.unwrap_or(f64::NEG_INFINITY), at_most.unwrap_or(f64::INFINITY)],
    };
    Ok(Tested { label, found, bounds, open })
}

/// The sample of a selection, and true if its best setting lies at an end of a grid.
fn selected(test: &Test, fields: &Fields, records: &mut Records) -> anyhow::Result<(Sample, bool)> {
    let mut fields = fields.clone();
    let study = fields.remove("study").and_then(|name| name.as_str().map(str::to_owned));
    let runs = records.select(study.as_deref().unwrap_or(&test.study), &fields)?;
    let (mut sample, at_end) = match test.choose {
        Some(choose) => records::best(&runs, &test.field, matches!(choose, Choose::Least))?,
        None => (records::sample(&runs, &test.field)?, false),
    };
    if matches!(test.statistic, Statistic::Logarithm) {
        sample.values_mut().for_each(|value| *value = value.ln());
    }
    Ok((sample, at_end))
}

/// A number to four digits behind the point, without zeros at the end.
fn short(value: f64) -> String {
    minus(format!("{value:.4}").trim_end_matches('0').trim_end_matches('.'))
}

impl Estimated {
    /// The value with half of its 95 % interval, to two digits of the latter.
    fn text(&self) -> String {
        let half = self.half(0.95);
        if half == 0.0 {
            return short(self.value);
        }
        if half < 1e-3 {
            return minus(&format!("{:.2e} ± {half:.1e}", self.value));
        }
        let digits = (1.0 - half.log10().floor()).max(0.0) as usize;
        minus(&format!("{:.digits$} ± {half:.digits$}", self.value))
    }
}

impl Said {
    fn text(&self, [low, high]: [f64; 2]) -> String {
        match self.published {
            Some(published) => {
                format!("{} (± {})", short(published), short(high - published))
            }
            None if low.is_finite() && high.is_finite() => format!("{} to {}", short(low), short(high)),
            None if low.is_finite() => format!("> {}", short(low)),
            None => format!("≤ {}", short(high)),
        }
    }
}

/// The table of a page, with reasons below.
pub(crate) fn markdown(rows: &[Judged]) -> String {
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
