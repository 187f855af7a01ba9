//! The newest raw runs of a study, flattened; selection by fields; samples by draw and seed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

use crate::experiment;
use crate::experiment::store::{self, Stored};

/// Fields that select runs: a value, a list of values, a text with one `*`, alone for any value or none, or a bound such as `<= 0.15` or
/// `> 0.15`.
pub(crate) type Fields = BTreeMap<String, Value>;

/// A number of each run, by what it shares with others: the draw of the data and the seed.
pub(crate) type Sample = BTreeMap<(u64, u64), f64>;

/// One run: its fields with those of its parameters.
#[derive(Debug)]
pub(crate) struct Run {
    fields: Map<String, Value>,
    parameters: Map<String, Value>,
}

/// The raw runs of a results folder, read once a study.
pub(crate) struct Records {
    root: PathBuf,
    studies: BTreeMap<String, Vec<Rc<Run>>>,
}

impl Records {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), studies: BTreeMap::new() }
    }

    /// The runs of the newest `<day>/<machine>/STUDY` that fit `fields`.
    pub(crate) fn select(&mut self, study: &str, fields: &Fields) -> anyhow::Result<Vec<Rc<Run>>> {
        if !self.studies.contains_key(study) {
            let runs = read(&newest(&self.root, study)?)?;
            self.studies.insert(study.to_owned(), runs);
        }
        let found: Vec<Rc<Run>> = self.studies[study].iter().filter(|run| run.fits(fields)).cloned().collect();
        if found.is_empty() {
            bail!("{study} has no run with {}", serde_json::to_string(fields)?);
        }
        Ok(found)
    }
}

fn newest(root: &Path, study: &str) -> anyhow::Result<PathBuf> {
    let mut found = Vec::new();
    for day in fs::read_dir(root).with_context(|| root.display().to_string())? {
        let Ok(machines) = fs::read_dir(day?.path()) else { continue };
        for machine in machines {
            found.push(machine?.path().join(study));
        }
    }
    found.retain(|folder| store::holds_results(folder));
    found.sort();
    found.pop().with_context(|| format!("no {}/<day>/<machine>/{study} holds results", root.display()))
}

fn read(folder: &Path) -> anyhow::Result<Vec<Rc<Run>>> {
    let stored: Stored<Value> = store::read(folder)?;
    let run = |sample: &experiment::Sample<Value>| {
        let fields: Map<String, Value> = serde_json::from_value(serde_json::to_value(sample)?)?;
        let parameters = fields.get("parameters").and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(Rc::new(Run { fields, parameters }))
    };
    stored.results.samples.iter().map(run).collect()
}

impl Run {
    fn field(&self, name: &str) -> Option<&Value> {
        if let Some((name, inner)) = name.split_once('.') {
            return self.field(name)?.get(inner);
        }
        self.fields.get(name).or_else(|| self.parameters.get(name))
    }

    fn fits(&self, fields: &Fields) -> bool {
        let first = Value::from(0);
        fields.iter().all(|(name, wanted)| {
            // A record of the first draw names none.
            let value = self.field(name).or_else(|| (name == "draw").then_some(&first));
            match wanted {
                Value::Array(any) => any.iter().any(|wanted| is_one(value, wanted)),
                wanted => is_one(value, wanted),
            }
        })
    }

    /// True if a field is `value`.
    pub(crate) fn is(&self, name: &str, value: &Value) -> bool {
        is_one(self.field(name), value)
    }

    /// A number of the run: `NAME`, one inside another (`A.B`), the last of a list (`NAME.last`), or one over another (`A/B`).
    pub(crate) fn number(&self, name: &str) -> anyhow::Result<f64> {
        if let Some((one, other)) = name.split_once('/') {
            return Ok(self.number(one)? / self.number(other)?);
        }
        let (name, is_last) = name.strip_suffix(".last").map_or((name, false), |name| (name, true));
        let value = match self.field(name) {
            Some(Value::Array(list)) if is_last => list.last(),
            value => value,
        };
        value.and_then(Value::as_f64).with_context(|| format!("a run has no number '{name}'"))
    }

    /// A number of the run by draw: of a list, one each.
    pub(crate) fn sample(&self, name: &str) -> anyhow::Result<Sample> {
        if let Some(Value::Array(list)) = self.field(name) {
            return Ok((0..).zip(list).filter_map(|(draw, value)| Some(((draw, 0), value.as_f64()?))).collect());
        }
        Ok(Sample::from([(self.place(), self.number(name)?)]))
    }

    /// The numbers of a range: of a curve its values, or that at `curve@X`.
    pub(crate) fn numbers(&self, name: &str) -> anyhow::Result<Vec<f64>> {
        let Some(at) = name.strip_prefix("curve") else { return Ok(vec![self.number(name)?]) };
        let at: Option<f64> = at.strip_prefix('@').map(str::parse).transpose()?;
        let curve =
            self.fields.get("curves").and_then(|curves| curves[0][1].as_array()).context("a run has no curve")?;
        let point = |point: &Value| Some((point[0].as_f64()?, point[1].as_f64()?));
        Ok(curve.iter().filter_map(point).filter(|(x, _)| at.is_none_or(|at| *x == at)).map(|(_, y)| y).collect())
    }

    /// The draw and the seed.
    pub(crate) fn place(&self) -> (u64, u64) {
        let part = |name: &str| self.fields.get(name).and_then(Value::as_u64).unwrap_or(0);
        (part("draw"), part("repeat"))
    }

    /// The setting of a run: all that was given but draw and seed.
    fn setting(&self) -> String {
        let given = ["problem", "method", "algorithm", "dataset", "batch_size", "parameters"];
        given.map(|name| self.fields.get(name).map(Value::to_string).unwrap_or_default()).join("|")
    }
}

fn is_one(value: Option<&Value>, wanted: &Value) -> bool {
    match (value, wanted) {
        (_, Value::String(any)) if any == "*" => true,
        (Some(Value::Number(value)), Value::Number(wanted)) => value.as_f64() == wanted.as_f64(),
        (Some(Value::Number(value)), Value::String(bound)) => {
            let limit = |sign: &str| bound.strip_prefix(sign).and_then(|limit| limit.trim().parse::<f64>().ok());
            let value = value.as_f64().unwrap_or(f64::NAN);
            limit("<=").is_some_and(|limit| value <= limit) || limit(">").is_some_and(|limit| value > limit)
        }
        (Some(Value::String(value)), Value::String(wanted)) => match wanted.split_once('*') {
            Some((head, tail)) => {
                value.len() >= head.len() + tail.len() && value.starts_with(head) && value.ends_with(tail)
            }
            None => value == wanted,
        },
        (value, wanted) => value == Some(wanted),
    }
}

/// Runs by their settings.
pub(crate) fn settings(runs: &[Rc<Run>]) -> Vec<Vec<Rc<Run>>> {
    let mut groups: BTreeMap<String, Vec<Rc<Run>>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.setting()).or_default().push(run.clone());
    }
    groups.into_values().collect()
}

/// A number of each run; the same number twice is one.
pub(crate) fn sample(runs: &[Rc<Run>], field: &str) -> anyhow::Result<Sample> {
    let mut sample = Sample::new();
    for run in runs {
        for (place, value) in run.sample(field)? {
            if sample.insert(place, value).is_some_and(|known| known != value) {
                bail!("two runs of one draw and seed: the fields select more than one setting");
            }
        }
    }
    Ok(sample)
}

/// The best setting's sample with the choice inside the analysis: the value of a draw and seed is that of the setting with the
/// best mean of `by` over all others. True if the best of all lies at an end of a grid that was given.
pub(crate) fn best(runs: &[Rc<Run>], field: &str, by: &str, is_least: bool) -> anyhow::Result<(Sample, bool)> {
    let groups = settings(runs);
    let samples: Vec<Sample> = groups.iter().map(|group| sample(group, by)).collect::<Result<_, _>>()?;
    let shown: Vec<Sample> = groups.iter().map(|group| sample(group, field)).collect::<Result<_, _>>()?;
    let score = |sample: &Sample, left_out: Option<&(u64, u64)>| {
        let kept: Vec<f64> =
            sample.iter().filter(|(place, _)| Some(*place) != left_out).map(|(_, value)| *value).collect();
        let mean = crate::statistics::mean(&kept);
        if is_least { mean } else { -mean }
    };
    let whole: Vec<usize> = {
        let most = samples.iter().map(Sample::len).max().unwrap_or(0);
        (0..samples.len()).filter(|&index| samples[index].len() == most).collect()
    };
    let winner = |left_out: Option<&(u64, u64)>| {
        let by = |a: &&usize, b: &&usize| score(&samples[**a], left_out).total_cmp(&score(&samples[**b], left_out));
        *whole.iter().min_by(by).expect("runs were selected")
    };
    let chosen = winner(None);
    let places: Vec<(u64, u64)> = samples[chosen].keys().copied().collect();
    let nested = places.iter().filter_map(|place| Some((*place, *shown[winner(Some(place))].get(place)?))).collect();
    // Only settings of the winner's method are its grid.
    let own = |group: &&Vec<Rc<Run>>| group[0].field("algorithm") == groups[chosen][0].field("algorithm");
    let at_end = groups[chosen][0].parameters.iter().any(|(name, value)| {
        let of = |group: &Vec<Rc<Run>>| group[0].parameters.get(name).and_then(Value::as_f64);
        let grid: Vec<f64> = groups.iter().filter(own).filter_map(of).collect();
        let (least, most) = grid.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x)));
        least < most && value.as_f64().is_some_and(|value| value == least || value == most)
    });
    Ok((nested, at_end))
}

#[cfg(test)]
impl Records {
    /// Runs of one study, by their fields.
    pub(super) fn of(study: &str, runs: Vec<Value>) -> Self {
        let run = |fields: Value| {
            let fields = fields.as_object().expect("fields").clone();
            Rc::new(Run { fields, parameters: Map::new() })
        };
        let runs = runs.into_iter().map(run).collect();
        Self { root: PathBuf::new(), studies: BTreeMap::from([(study.to_owned(), runs)]) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_without_a_draw_is_of_the_first() {
        let mut records = Records::of("s", vec![json!({ "x": 1 }), json!({ "x": 1, "draw": 1 })]);
        let mut of = |draw: u64| records.select("s", &Fields::from([("draw".to_owned(), draw.into())])).unwrap();
        assert_eq!([0, 1].map(|draw| (of(draw).len(), of(draw)[0].place())), [(1, (0, 0)), (1, (1, 0))]);
    }
}
