//! Queries of raw runs: the grammar of `bench/verdicts.toml`, and their answers.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use super::derived::{self, Derived};
use super::records::{self, Best, Fields, NoRun, Records};
use crate::estimates::{Estimated, LEAST_RUNS, Sample, difference, of_mean, pairs};
use crate::format::minus;
use crate::lines::exponent;
use crate::statistics::{mean, median};

/// Fewest points of an exponent that a verdict rests on.
const LEAST_POINTS: usize = 6;
/// The number of runs that nobody made.
const NOTHING: Estimated = Estimated { value: f64::NAN, error: 0.0, freedom: 1.0, count: 0 };

/// A quantity of raw runs and, in a row, what is said of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Query {
    #[serde(default)]
    study: String,
    #[serde(default)]
    r#where: Fields,
    /// The number of a run.
    #[serde(default = "value")]
    field: String,
    #[serde(default)]
    statistic: Statistic,
    /// The best setting by the mean of `by`, without it of `field`, if several are selected.
    choose: Option<Choose>,
    by: Option<String>,
    /// Less the same with these fields (`study` names another study).
    against: Option<Fields>,
    /// Less that difference with these fields.
    over: Option<Fields>,
    /// Of the least risk: less that of the runs with these fields, at the same place or their only one.
    less: Option<Fields>,
    /// Of an exponent: the fields of its places, the first of which it is in.
    #[serde(default)]
    along: Vec<String>,
    /// The field whose exponent in the same cells is the bound.
    theory: Option<String>,
    /// Of the fewest rounds: within this factor of the least risk.
    #[serde(default = "within")]
    within: f64,
    /// One answer for each value of a field.
    #[serde(default)]
    each: BTreeMap<String, Vec<Value>>,
    /// One answer for each pair of neighbours: the later less the earlier, of the quantity or of its difference.
    #[serde(default)]
    chain: BTreeMap<String, Vec<Value>>,
    /// True where runs may be missing: what lacks them, or has few seeds, is open.
    #[serde(default)]
    unfinished: bool,
    #[serde(default)]
    pub(super) said: Said,
}

fn value() -> String {
    "value".to_owned()
}

fn within() -> f64 {
    1.5
}

/// The statistic of a quantity.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Statistic {
    #[default]
    Mean,
    /// The mean of logarithms; a table has its exponential.
    Logarithm,
    /// The least and the largest number of all runs.
    Range,
    /// Exponents of a study of rates in `field`; without a field the rounds at one place.
    FewestRounds,
    LeastRisk,
    /// The exponent of `field` over seeds; its misfit is that of their geometric means.
    Exponent,
    /// The same with the misfit of their medians.
    ExponentOfMedians,
}

/// The best setting.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Choose {
    Least,
    Most,
}

/// The published side of a row: a count, a mean with its 96 % interval over 100 runs, or bounds.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Said {
    published: Option<f64>,
    interval: Option<f64>,
    at_most: Option<f64>,
    above: Option<f64>,
}

/// The answer to a query.
pub(super) struct Answer {
    pub(super) label: String,
    pub(super) found: Estimated,
    /// A rule that leaves it open.
    pub(super) open: Option<&'static str>,
    /// The exponent of a formula in the same cells.
    theory: Option<f64>,
    /// True where the number is the smallest that was measured.
    is_end: bool,
}

impl Query {
    /// The answers at all places; `None` at one that has too few runs for its statistic.
    pub(super) fn answers(&self, records: &mut Records) -> anyhow::Result<Vec<Option<Answer>>> {
        let places = self.places().into_iter();
        places.map(|(label, fields, chain)| self.answer(label, &fields, chain.as_ref(), records)).collect()
    }

    /// The entry of a table; a star where a rule would leave it open.
    pub(super) fn entry(&self, records: &mut Records) -> anyhow::Result<String> {
        if self.statistic == Statistic::Range {
            let mut values = Vec::new();
            for run in records.select(&self.study, &self.r#where)? {
                values.extend(run.numbers(&self.field)?);
            }
            values.sort_by(f64::total_cmp);
            let ends = [values.first(), values.last()].map(|end| end.map_or_else(|| "–".to_owned(), |end| rough(*end)));
            return Ok(if ends[0] == ends[1] { ends[0].clone() } else { ends.join(" – ") });
        }
        let answers = self.answers(records)?;
        let [Some(answer)] = &answers[..] else { return Ok("–".to_owned()) };
        if answer.found.value.is_nan() {
            return Ok("–".to_owned());
        }
        let text = if self.statistic == Statistic::Logarithm { answer.found.ratio() } else { answer.found.text() };
        Ok(format!("{}{text}{}", if answer.is_end { "≤ " } else { "" }, if answer.open.is_some() { "*" } else { "" }))
    }

    /// The places of a query: a label, the fields that differ, and the earlier neighbour of a chain.
    fn places(&self) -> Vec<(String, Fields, Option<Fields>)> {
        let mut places = vec![(Vec::<String>::new(), Fields::new(), None)];
        let show = |name: &str, value: &Value| match value {
            Value::String(text) => text.clone(),
            value => format!("{} = {value}", name.replace('_', " ")),
        };
        for (name, values) in &self.each {
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
        for (name, values) in &self.chain {
            let with = |(label, fields, _): &(Vec<String>, Fields, Option<Fields>)| {
                let (label, fields) = (label.clone(), fields.clone());
                values.windows(2).map(move |pair| {
                    let of = |value: &Value| Fields::from([(name.clone(), value.clone())]);
                    let label = label.iter().cloned().chain([format!("from {}", show(name, &pair[0]))]).collect();
                    (label, joined(&fields, &of(&pair[1])), Some(of(&pair[0])))
                })
            };
            places = places.iter().flat_map(with).collect();
        }
        places.into_iter().map(|(label, fields, chain)| (label.join(", "), fields, chain)).collect()
    }

    fn answer(
        &self,
        label: String,
        fields: &Fields,
        chain: Option<&Fields>,
        records: &mut Records,
    ) -> anyhow::Result<Option<Answer>> {
        let base = joined(&self.r#where, fields);
        let found = match self.statistic {
            Statistic::Mean | Statistic::Logarithm => Some(match self.compared(&base, chain, records) {
                Err(error) if self.unfinished && error.is::<NoRun>() => (NOTHING, Some("Not run."), None, false),
                found => found?,
            }),
            _ => self.derived(&base, records)?,
        };
        let answer = |(found, open, theory, is_end): (Estimated, Option<&'static str>, _, _)| {
            let few = (found.error > 0.0 || self.unfinished) && found.count < LEAST_RUNS;
            Answer { label, found, open: open.or(few.then_some("Too few runs.")), theory, is_end }
        };
        Ok(found.map(answer))
    }

    /// A mean, or its difference from that of other runs.
    fn compared(&self, base: &Fields, chain: Option<&Fields>, records: &mut Records) -> anyhow::Result<Found> {
        let (mut at_end, mut differs, mut is_one) = (false, false, false);
        let mut sample = |fields: &Fields| -> anyhow::Result<Sample> {
            let selected = self.selected(fields, records)?;
            at_end |= selected.at_end;
            differs |= selected.differs;
            is_one |= selected.sample.len() == 1;
            Ok(selected.sample)
        };
        let mut both = |fields: &Fields| -> anyhow::Result<(Sample, Option<Sample>)> {
            let other = self.against.as_ref().map(|against| sample(&joined(fields, against))).transpose()?;
            Ok((sample(fields)?, other))
        };
        let of = |(one, other): &(Sample, Option<Sample>)| match other {
            Some(other) => pairs(one, other),
            None => Some(one.clone()),
        };
        let first = both(base)?;
        let second = self.over.as_ref().or(chain).map(|over| both(&joined(base, over))).transpose()?;
        let found = match (of(&first), second) {
            (Some(one), None) => of_mean(&one),
            (None, None) => difference(&first.0, first.1.as_ref().context("a pair")?),
            (one, Some(second)) => {
                let both = one.zip(of(&second));
                let (one, other) = both.context("a difference of differences needs the same draws and seeds")?;
                difference(&one, &other)
            }
        };
        // Nothing says of one run that others would be the same.
        let one = (is_one && !self.unfinished).then_some("One run.");
        let open = at_end.then_some("The best lies at an end of its grid.").or(one);
        Ok((found.of_halves(differs), open, None, false))
    }

    /// A quantity that [`derived`] computes, or its difference from that of other runs.
    fn derived(&self, base: &Fields, records: &mut Records) -> anyhow::Result<Option<Found>> {
        let Self { study, field, .. } = self;
        let mut of = |fields: &Fields| match self.statistic {
            Statistic::FewestRounds => derived::of_rates(records, study, fields, None, field, Some(self.within)),
            Statistic::LeastRisk => {
                let less = self.less.as_ref().map(|less| joined(fields, less));
                derived::of_rates(records, study, fields, less.as_ref(), field, None)
            }
            _ => {
                let runs = records.select(study, fields)?;
                let runs: Vec<&Value> = runs.iter().map(|run| &run.0).collect();
                let geometric = |values: &[f64]| mean(&values.iter().map(|value| value.ln()).collect::<Vec<_>>()).exp();
                let middle = if self.statistic == Statistic::Exponent { geometric } else { median };
                let of = |field: &str| exponent(&runs, field, &self.along, "repeat", middle);
                let theory = self.theory.as_ref().and_then(|theory| Some(of(theory)?.0.value));
                Ok(of(field).map(|(found, points)| Derived { found, points, theory, is_end: false }))
            }
        };
        let Some(Derived { mut found, points, theory, is_end }) = of(base)? else { return Ok(None) };
        let mut is_few = points < LEAST_POINTS;
        if let Some(against) = &self.against {
            let Some(other) = of(&joined(base, against))? else { return Ok(None) };
            found = found.minus(&other.found);
            is_few |= other.points < LEAST_POINTS;
        }
        Ok(Some((found, is_few.then_some("Fewer than six points."), theory, is_end)))
    }

    /// The sample of a selection, or of its best setting.
    fn selected(&self, fields: &Fields, records: &mut Records) -> anyhow::Result<Best> {
        let mut fields = fields.clone();
        let study = fields.remove("study").and_then(|name| name.as_str().map(str::to_owned));
        let runs = records.select(study.as_deref().unwrap_or(&self.study), &fields)?;
        let mut best = match self.choose {
            Some(choose) => {
                let by = self.by.as_ref().unwrap_or(&self.field);
                records::best(&runs, &self.field, by, choose == Choose::Least)?
            }
            None => Best { sample: records::sample(&runs, &self.field)?, at_end: false, differs: false },
        };
        if self.statistic == Statistic::Logarithm {
            best.sample.values_mut().for_each(|value| *value = value.ln());
        }
        Ok(best)
    }
}

/// An estimate, a rule that leaves it open, a formula's exponent, and true for the smallest that was measured.
type Found = (Estimated, Option<&'static str>, Option<f64>, bool);

fn joined(fields: &Fields, more: &Fields) -> Fields {
    fields.iter().chain(more).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A number to four digits behind the point, without zeros at the end; a dash for none.
fn short(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    minus(format!("{value:.4}").trim_end_matches('0').trim_end_matches('.'))
}

/// A number to two or three digits.
fn rough(value: f64) -> String {
    let digits = (1.0 - value.abs().max(1e-12).log10().floor()).max(0.0) as usize;
    if value >= 1e4 { format!("{value:.0e}") } else { format!("{value:.digits$}") }
}

impl Estimated {
    /// The value with half of its 95 % interval, to two digits of the latter.
    pub(super) fn text(&self) -> String {
        let half = self.half(0.95);
        if half == 0.0 {
            return short(self.value);
        }
        if half < 1e-3 && self.value.abs() < 1e-2 {
            return minus(&format!("{:.2e} ± {half:.1e}", self.value));
        }
        let digits = digits(half);
        minus(&format!("{:.digits$} ± {half:.digits$}", self.value))
    }

    /// The exponential of the value with its 95 % interval.
    fn ratio(&self) -> String {
        let half = self.half(0.95);
        let [low, value, high] = [-half, 0.0, half].map(|by| (self.value + by).exp());
        let digits = if half == 0.0 { 0 } else { digits(value - low) };
        format!("{value:.digits$} [{low:.digits$}, {high:.digits$}]")
    }
}

/// Digits behind the point that show two of `half`.
fn digits(half: f64) -> usize {
    (1.0 - half.log10().floor()).max(0.0) as usize
}

impl Said {
    /// The ends of what is said, and ours with the error of the published number.
    pub(super) fn bounds(&self, answer: &Answer) -> ([f64; 2], Estimated) {
        let found = answer.found;
        let at_most = answer.theory.or(self.at_most).unwrap_or(f64::INFINITY);
        let Some(published) = self.published else {
            return ([self.above.unwrap_or(f64::NEG_INFINITY), at_most], found);
        };
        let margin = self.interval.unwrap_or(0.0);
        let both = self.interval.map(|interval| {
            let theirs = Estimated { value: 0.0, error: 1.0, freedom: 99.0, count: 100 };
            let error = interval / theirs.half(0.96);
            found.minus(&Estimated { error, ..theirs })
        });
        ([published - margin, published + margin], both.unwrap_or(found))
    }

    pub(super) fn text(&self, [low, high]: [f64; 2]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_digits_of_their_interval() {
        let text = |value: f64, half: f64| {
            let one = Estimated { value, error: 1.0, freedom: 9.0, count: 10 };
            let found = Estimated { error: half / one.half(0.95), ..one };
            (found.text(), found.ratio())
        };
        for (value, half, expected) in [
            (37.39, 0.1512, "37.39 ± 0.15"),
            (0.103_695, 7.2e-5, "0.103695 ± 0.000072"),
            (-1.05e-6, 1.4e-7, "−1.05e-6 ± 1.4e-7"),
            (2.0, 0.0, "2"),
        ] {
            assert_eq!(text(value, half).0, expected);
        }
        assert_eq!(text(0.5f64.ln(), 0.1).1, "0.500 [0.452, 0.553]");
        assert_eq!([2.001, 15.3, 4e5].map(rough), ["2.0", "15", "4e5"]);
    }
}
