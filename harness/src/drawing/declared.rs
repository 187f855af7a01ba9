//! Figures and tables that a definition declares: the one grammar by which raw runs become charts and tables.
//!
//! Fields are those of [`lines`](crate::lines); `reference.a` is a field of the run that a run is paired with. Titles, labels and headings
//! hold fields of the first run in braces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chart::{self, COLOURS, Chart, Format, Point, Scale, Series, Style, ends};
use super::presentation::{self, Panel, Part, slug};
use super::table::{self, Entry};
use crate::experiment::cell::text;
use crate::format::{count, number as short, percent, seconds, three_digits};
use crate::grouping::{by_key, distinct};
use crate::lines::{exponent, field, number};
use crate::statistics::{Estimate, Interval, bootstrap_median, mean, median, of_draws, of_mean, percentile_interval};

/// The table `[show]` of a definition: its page. It is no part of what is run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Show {
    /// Heading; without it the definition's name.
    pub title: String,
    /// Section of the report; without it that of the study.
    pub group: String,
    /// Subject and conditions; without it those of the definition.
    pub about: String,
    /// The definition whose figures and tables are shown; without it and own ones that of the study.
    pub like: String,
    /// Confidence level of the intervals of means; without it 0.95.
    pub level: Option<f64>,
    /// Why runs of the definition may be missing: the page then names those that nobody made.
    pub unfinished: String,
    /// Panels in a row of `figure.svg`; without it each figure has a file of its own.
    pub columns: Option<usize>,
    /// Panels of one picture.
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
    /// Below the picture.
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
}

/// The runs that a figure or table shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Runs {
    /// Fields with the values that a run must have; of a list one.
    only: BTreeMap<String, Value>,
    /// Fields in which runs are alike; of the cells of those that are, the runs of the one with the least mean of `least` remain.
    among: Vec<String>,
    least: String,
    /// Fields with the values of another run, alike in all other fields of `among`: each run is paired with it.
    against: BTreeMap<String, Value>,
}

/// The statistic that makes one value of those of several runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Statistic {
    /// The value of the first run.
    #[default]
    First,
    /// The mean with its interval: over the means of draws where there are several.
    Mean,
    /// The mean alone.
    BareMean,
    /// The geometric mean with the 95 % interval of the logarithms; none unless each run has a value.
    Geometric,
    Median,
    /// The median with its 95 % bootstrap interval.
    MedianInterval,
    /// The median with the quartiles; in a table the quartiles.
    Quartiles,
    /// The upper median; a text, such as `not reached`, is above every number.
    UpperMedian,
    Most,
    /// The number of values.
    Count,
    /// Each value with its number of runs.
    Tally,
    /// The exponent of the means in the first of the fields `along`, beside the others that vary.
    Exponent,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Axis {
    of: String,
    label: String,
    linear: bool,
    format: Format,
    /// Values below it are drawn at it.
    least: Option<f64>,
    /// The values of points are the ticks where they are few.
    ticks: bool,
    /// Points above it are left out.
    most: Option<f64>,
    /// Values that the range must contain.
    include: Vec<f64>,
    /// Of y: panels with other values of these fields have another range, as data sets that are not compared.
    ranges: Vec<String>,
    /// Fields with the ends of the interval of a single run.
    interval: Option<[String; 2]>,
}

/// A dotted line: the values of a field over x, or its levels where x is a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference {
    name: String,
    of: String,
    /// One line for each series, through its first point.
    #[serde(default)]
    scaled: bool,
}

/// Charts of one quantity against another: a panel for each value of `facet`, a series for each of `group`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    #[serde(default)]
    title: String,
    #[serde(default)]
    subtitle: String,
    /// File of the picture without extension, in figures of several files.
    #[serde(default)]
    file: String,
    #[serde(default)]
    runs: Runs,
    x: Axis,
    /// A number; a list, against that of `x` or its index; or named curves of points.
    y: Axis,
    #[serde(default)]
    group: Vec<String>,
    /// A dash for each value, with a legend entry of its own.
    #[serde(default)]
    dash: Vec<String>,
    #[serde(default)]
    facet: Vec<String>,
    #[serde(default)]
    statistic: Statistic,
    /// Lists are curves where others are points.
    #[serde(default = "line")]
    style: Style,
    #[serde(default)]
    references: Vec<Reference>,
}

fn line() -> Style {
    Style::Line
}

/// A row for each combination of the fields `rows`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    #[serde(default)]
    title: String,
    #[serde(default)]
    runs: Runs,
    /// A table for each value.
    #[serde(default)]
    facet: Vec<String>,
    rows: Vec<Column>,
    columns: Vec<Column>,
    /// Names of columns that stand below the table where all rows have the same.
    #[serde(default)]
    shared: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    /// Heading; numeric if it begins with `#`.
    name: String,
    of: String,
    #[serde(default)]
    statistic: Statistic,
    /// `.4`, `e1`, `+2` or `%0` for as many decimals, `count`, `seconds`, `number`, `%`, or `3` for three digits, as without it; fields of a run
    /// are shown as they are.
    #[serde(default)]
    format: String,
    /// Fields of an exponent.
    #[serde(default)]
    along: Vec<String>,
    /// A field, such as `repeat`: the exponent is the mean of those of each value, with the wider interval of chance and misfit.
    #[serde(default)]
    over: String,
}

/// A text with the fields of a run for their names in braces.
fn filled(template: &str, run: &Value) -> String {
    let mut parts = template.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, rest) = part.split_once('}').unwrap_or(("", part));
        let value = field(run, path).filter(|value| !value.is_null());
        filled.extend([
            &*value.map_or_else(String::new, |value| value.as_f64().map_or_else(|| text(value), short)),
            rest,
        ]);
    }
    filled
}

/// The values of fields, parameters with their names.
fn label(run: &Value, paths: &[String]) -> String {
    let one = |path: &String| {
        let value = text(field(run, path)?);
        Some(path.strip_prefix("parameters.").map_or_else(|| value.clone(), |name| format!("{name} = {value}")))
    };
    let names: Vec<String> = paths.iter().filter_map(one).filter(|name| !name.is_empty()).collect();
    names.join(", ")
}

impl Runs {
    fn of(&self, runs: &[Value]) -> Vec<Value> {
        let mut chosen: Vec<&Value> = runs.iter().collect();
        if !self.least.is_empty() {
            let key = |run| self.among.iter().map(|path| field(run, path)).collect::<Vec<_>>();
            let cell = |run| ["method", "batch_size", "parameters"].map(|path| field(run, path));
            let cost = |runs: &Vec<&Value>| mean(&runs.iter().map(|run| number(run, &self.least)).collect::<Vec<_>>());
            let alike = by_key(runs.iter().map(|run| (key(run), (cell(run), run)))).into_iter();
            let cells = alike.map(|(_, runs)| by_key(runs).into_iter().map(|(_, runs)| runs));
            let least = cells.filter_map(|cells| cells.min_by(|a, b| cost(a).total_cmp(&cost(b))));
            chosen = least.flatten().collect();
        }
        let has = |run: &Value, values: &BTreeMap<String, Value>| {
            values.iter().all(|(path, value)| {
                let own = field(run, path).map(text);
                let any =
                    value.as_array().map_or_else(|| vec![text(value)], |values| values.iter().map(text).collect());
                own.is_some_and(|own| any.contains(&own))
            })
        };
        let paired = |run: &&Value| {
            let mut own = Value::clone(run);
            if !self.against.is_empty() {
                let fields = || self.among.iter().filter(|path| !self.against.contains_key(*path));
                let alike = |other: &&&Value| fields().all(|path| field(run, path) == field(other, path));
                let other = chosen.iter().filter(|other| has(other, &self.against)).find(alike)?;
                own["reference"] = Value::clone(other);
            }
            Some(own)
        };
        chosen.iter().filter(|run| has(run, &self.only)).filter_map(paired).collect()
    }
}

impl Statistic {
    /// The value of several by draw and, where it has one, its interval; means with intervals at `level`.
    fn of(self, values: &[(usize, f64)], level: f64) -> (f64, Option<(f64, f64)>) {
        let mut numbers: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        match self {
            Self::First | Self::Tally | Self::Exponent => (numbers[0], None),
            Self::Mean => {
                let estimate = of_draws(values, level);
                (estimate.value, estimate.ends())
            }
            Self::BareMean => (mean(&numbers), None),
            Self::Geometric => {
                let Estimate { value, low, high } = of_mean(&numbers.iter().map(|x| x.ln()).collect::<Vec<_>>(), 0.95);
                (value.exp(), Some((low.exp(), high.exp())))
            }
            Self::Median => (median(&numbers), None),
            Self::MedianInterval => {
                let Interval { low, high } = bootstrap_median(&numbers, 0.95, RESAMPLES, 1);
                (median(&numbers), Some((low, high)))
            }
            Self::Quartiles => {
                let quartiles = percentile_interval(&mut numbers, 0.5);
                (median(&numbers), Some((quartiles.low, quartiles.high)))
            }
            Self::UpperMedian => {
                numbers.sort_unstable_by(f64::total_cmp);
                (numbers[numbers.len() / 2], None)
            }
            Self::Most => (ends(numbers.iter().copied()).1, None),
            Self::Count => (numbers.len() as f64, None),
        }
    }
}

impl Axis {
    fn chart(&self, run: &Value) -> chart::Axis {
        let scale = if self.linear { Scale::Linear } else { Scale::Logarithmic };
        chart::Axis { include: self.include.clone(), ..chart::Axis::new(&filled(&self.label, run), scale, self.format) }
    }

    /// The value where the axis can show it.
    fn shown(&self, value: f64) -> Option<f64> {
        let value = self.least.map_or(value, |least| value.max(least));
        (value.is_finite() && self.most.is_none_or(|most| value < most) && (self.linear || value > 0.0))
            .then_some(value)
    }
}

/// A point of a run's curve.
#[derive(Debug, Clone, Copy)]
struct Mark {
    x: f64,
    y: f64,
    interval: Option<(f64, f64)>,
    draw: usize,
}

const RESAMPLES: usize = 4_000;

const MOST_TICKS: usize = 8;

/// Points of a curve by its index, at most.
const POINTS: usize = 250;

impl Figure {
    /// The curves of a run by name.
    fn curves(&self, run: &Value) -> Vec<(String, Vec<Mark>)> {
        let draw = number(run, "draw") as usize;
        let mark = |x: f64, y: f64| Mark { x, y, interval: None, draw };
        let at = |x: &Value, y: &Value| mark(x.as_f64().unwrap_or(f64::NAN), y.as_f64().unwrap_or(f64::NAN));
        match (field(run, &self.x.of), field(run, &self.y.of)) {
            (Some(Value::Array(x)), Some(Value::Array(y))) => {
                vec![(String::new(), x.iter().zip(y).map(|(x, y)| at(x, y)).collect())]
            }
            (_, Some(Value::Array(values))) if values.iter().all(Value::is_number) => {
                let values = values.iter().enumerate().step_by(1 + values.len() / POINTS);
                vec![(String::new(), values.map(|(place, y)| at(&place.into(), y)).collect())]
            }
            (_, Some(Value::Array(curves))) => {
                let named = curves.iter().filter_map(|curve| {
                    let points = curve.get(1)?.as_array()?.iter();
                    Some((text(curve.get(0)?), points.map(|point| at(&point[0], &point[1])).collect()))
                });
                named.collect()
            }
            _ => {
                let interval = self.y.interval.as_ref().map(|[low, high]| (number(run, low), number(run, high)));
                let mark = mark(number(run, &self.x.of), number(run, &self.y.of));
                vec![(String::new(), vec![Mark { interval, ..mark }])]
            }
        }
    }

    /// The points of the curves of several runs, x by x: a statistic needs a value of each run.
    fn points(&self, name: &str, curves: &[Vec<Mark>], level: f64) -> Vec<Point> {
        // Points without a statistic are those of single runs.
        let is_apart = self.style == Style::Points && self.statistic == Statistic::First;
        let of_curve = |(number, curve): (usize, &Vec<Mark>)| {
            // A curve may be vertical.
            let before = |place: usize| curve[..place].iter().filter(|before| before.x == curve[place].x).count();
            let key = |place: usize| (curve[place].x.to_bits(), before(place), if is_apart { number } else { 0 });
            (0..curve.len()).map(|place| (key(place), curve[place])).collect::<Vec<_>>()
        };
        let by_x = by_key(curves.iter().enumerate().flat_map(of_curve)).into_iter();
        let mut points: Vec<Point> = by_x
            .filter_map(|((x, ..), own)| {
                let values: Vec<(usize, f64)> = own.iter().map(|mark| (mark.draw, mark.y)).collect();
                let (y, interval) = self.statistic.of(&values, level);
                let (x, y) = (
                    self.x.shown(f64::from_bits(x))?,
                    self.y.shown(y).filter(|_| values.iter().all(|(_, y)| y.is_finite()))?,
                );
                let (least, most) = (self.y.least.unwrap_or(f64::NEG_INFINITY), self.y.most.unwrap_or(f64::INFINITY));
                let within = |end: f64| end.max(least).min(most);
                // An end below 0 stays what it is; the drawing has a place for it.
                let is_kept = |low: f64| low <= 0.0 && !self.y.linear && y > least;
                let low = |low: f64| if is_kept(low) { low } else { within(low) };
                let interval = own[0].interval.or(interval).map(|(from, to)| (low(from), within(to)));
                let note = format!("{name} at {}: {}", self.x.format.show(x), self.y.format.show(y));
                Some(Point { interval, ..Point::new(x, y, note.trim_start()) })
            })
            .collect();
        if self.style == Style::Line {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        points
    }

    /// A panel for each facet; those with the same values of the axis's `ranges` have the same range of y.
    pub(crate) fn panels(&self, runs: &[Value], level: f64) -> Vec<Panel> {
        let runs = self.runs.of(runs);
        let groups = distinct(runs.iter().map(|run| label(run, &self.group)));
        let facets: Vec<_> = by_key(runs.iter().map(|run| (label(run, &self.facet), run)))
            .into_iter()
            .map(|(facet, runs)| (facet, runs[0], self.series(&runs, &groups, level)))
            .filter(|(_, _, series)| series.iter().any(|series| series.style != Style::Reference))
            .collect();
        let ranges = by_key(facets.iter().map(|(_, run, series)| (label(run, &self.y.ranges), series)));
        let ranges = ranges.into_iter().map(|(key, series)| {
            let points = series.into_iter().flatten().flat_map(|series| &series.points);
            (key, ends(points.map(|point| point.y)))
        });
        let ranges: BTreeMap<String, (f64, f64)> = ranges.collect();
        let several = facets.len() > 1;
        let panel = |(facet, run, series): (String, &Value, Vec<Series>)| {
            let titles = [filled(&self.title, run), facet.clone()];
            let title = titles.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(": ");
            let is_apart = several && !self.file.is_empty() && !self.file.contains('{');
            let file = if is_apart { format!("{} {facet}", self.file) } else { filled(&self.file, run) };
            let mut y = self.y.chart(run);
            let (low, high) = ranges[&label(run, &self.y.ranges)];
            y.include.extend([low, high]);
            let mut x = self.x.chart(run);
            let mut ticks: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
            ticks.sort_by(f64::total_cmp);
            ticks.dedup();
            if self.x.ticks && ticks.len() <= MOST_TICKS {
                x.ticks = ticks;
            }
            let chart = Chart::new(&*title, filled(&self.subtitle, run), x, y, series);
            Panel { name: title, file: slug(&file), chart }
        };
        facets.into_iter().map(panel).collect()
    }

    fn series(&self, runs: &[&Value], groups: &[String], level: f64) -> Vec<Series> {
        let dashes = distinct(runs.iter().map(|run| label(run, &self.dash)));
        let dashed = |dash: &String| dashes.iter().position(|known| known == dash).unwrap_or(0);
        let of = |run: &&&'_ Value| (label(run, &self.group), label(run, &self.dash));
        let mut all = Vec::new();
        for ((group, dash), runs) in by_key(runs.iter().map(|run| (of(&run), *run))) {
            let colour = groups.iter().position(|known| *known == group).unwrap_or(0);
            let own = [&*group, &*dash].into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
            let curves = by_key(runs.iter().flat_map(|run| self.curves(run)));
            let is_list = curves.iter().any(|(_, curves)| curves.iter().any(|curve| curve.len() > 1));
            let style = if is_list && self.style == Style::Points { Style::Curve } else { self.style };
            let mut named: Vec<(Style, String, Vec<Point>)> = curves
                .into_iter()
                .map(|(name, curves)| (style, name, self.points(&own, &curves, level)))
                .filter(|(_, _, points)| !points.is_empty())
                .collect();
            let Some((_, _, shown)) = named.first() else { continue };
            let (low, high) = ends(named.iter().flat_map(|(_, _, points)| points).map(|point| point.x));
            let first = shown[0].clone();
            for reference in self.references.iter().filter(|reference| is_list || reference.scaled) {
                let points = if is_list {
                    let value = self.y.shown(number(runs[0], &reference.of));
                    value.map_or_else(Vec::new, |y| [low, high].map(|x| Point::new(x, y, &*reference.name)).into())
                } else {
                    self.reference(reference, &runs, Some(&first))
                };
                let style = if reference.scaled { Style::Reference } else { style };
                named.extend((points.len() > 1).then_some((style, reference.name.clone(), points)));
            }
            let several = named.iter().any(|(_, name, _)| !name.is_empty());
            for (place, (style, name, points)) in named.into_iter().enumerate() {
                let series = Series::new(format!("{own} {name}").trim(), style, colour, points);
                all.push(if several {
                    series.keys(&*group, name).variant(place)
                } else if self.dash.is_empty() && style == Style::Curve {
                    // Without markers dashes tell curves apart, as shapes of markers tell lines apart.
                    series.variant((colour + colour / COLOURS) % 4)
                } else if self.dash.is_empty() {
                    series.variant(colour / COLOURS)
                } else {
                    series.keys(&*group, &*dash).variant(dashed(&dash))
                });
            }
        }
        for (place, reference) in self.references.iter().filter(|reference| !reference.scaled).enumerate() {
            let of = |run: &&Value| (filled(&reference.name, run), label(run, &self.dash));
            let usable = runs.iter().filter(|run| number(run, &reference.of).is_finite());
            for ((name, dash), runs) in by_key(usable.map(|run| (of(run), *run))) {
                let points = self.reference(reference, &runs, None);
                let series = if dash.is_empty() {
                    Series::new(name, Style::Reference, 0, points).variant(place)
                } else {
                    let name = format!("{name}, {dash}");
                    let series = Series::new(&*name, Style::Reference, 0, points).keys(name, &*dash);
                    series.variant(usize::from(dashed(&dash) > 0))
                };
                all.extend((series.points.len() > 1).then_some(series));
            }
        }
        all
    }

    /// The least values of a reference over x, times what takes it through a point.
    fn reference(&self, reference: &Reference, runs: &[&Value], through: Option<&Point>) -> Vec<Point> {
        let values = runs.iter().map(|run| (number(run, &self.x.of), number(run, &reference.of)));
        let mut values: Vec<(f64, f64)> = values.filter(|(x, y)| x.is_finite() && *y > 0.0).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        values.dedup_by_key(|value| value.0);
        let own = through.and_then(|point| Some(point.y / values.iter().find(|value| value.0 == point.x)?.1));
        let note = runs.first().map_or_else(String::new, |run| filled(&reference.name, run));
        values.iter().map(|(x, y)| Point::new(*x, own.unwrap_or(1.0) * y, &*note)).collect()
    }
}

impl Column {
    fn show(&self, value: f64) -> String {
        let decimals = self.format.get(1..).and_then(|decimals| decimals.parse().ok());
        match (self.format.as_bytes().first(), decimals) {
            // Of a diverged run.
            (Some(b'.' | b'+'), Some(_)) if value.abs() >= 1e16 => three_digits(value),
            (Some(b'.'), Some(decimals)) => format!("{value:.decimals$}"),
            (Some(b'+'), Some(decimals)) => format!("{value:+.decimals$}"),
            (Some(b'e'), Some(decimals)) => format!("{value:.decimals$e}"),
            (Some(b'%'), Some(decimals)) => format!("{:.decimals$} %", 100.0 * value),
            (Some(b'%'), None) => percent(value),
            (Some(b'c'), _) => count(value),
            (Some(b's'), _) => seconds(value),
            (Some(b'n'), _) => short(value),
            _ => three_digits(value),
        }
    }

    fn interval(&self, value: f64, ends: Option<(f64, f64)>) -> Entry {
        let half = ends.map_or_else(String::new, |(low, high)| format!(" ± {}", self.show(0.5 * (high - low))));
        Entry::sorted(self.show(value) + &half, value)
    }

    fn entry(&self, runs: &[&Value], level: f64) -> Entry {
        let values = || runs.iter().map(|run| (number(run, "draw") as usize, number(run, &self.of)));
        let numbers: Vec<(usize, f64)> = values().filter(|(_, value)| value.is_finite()).collect();
        match (self.statistic, field(runs[0], &self.of)) {
            (Statistic::First, Some(Value::Array(estimate))) => {
                let at = |place: usize| estimate.get(place).and_then(Value::as_f64).unwrap_or(f64::NAN);
                self.interval(at(0), Some((at(1), at(2))))
            }
            (Statistic::First, Some(Value::Number(value))) if self.format.is_empty() => {
                Entry::sorted(value.to_string(), number(runs[0], &self.of))
            }
            (Statistic::First, Some(Value::String(text))) => {
                let number = text.split(' ').next().and_then(|word| word.parse().ok());
                Entry { value: number.filter(|_| self.name.starts_with('#')), ..Entry::text(text) }
            }
            (Statistic::Tally, _) => {
                let mut tally = by_key(runs.iter().filter_map(|run| Some((field(run, &self.of)?, ()))));
                tally
                    .sort_by(|(a, _), (b, _)| a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal));
                let each = tally.iter().map(|(value, runs)| format!("{} ({})", text(value), runs.len()));
                Entry::text(each.collect::<Vec<_>>().join(", "))
            }
            (Statistic::Exponent, _) => {
                let over = if self.over.is_empty() { "draw" } else { &*self.over };
                let found = exponent(runs, &self.of, &self.along, over, mean).map(|(found, _)| found);
                found.map_or_else(Entry::default, |found| Entry::sorted(found.to_string(), found.value))
            }
            (Statistic::UpperMedian, _) => {
                let missed =
                    runs.iter().filter_map(|run| field(run, &self.of)?.as_str()).map(|text| (f64::INFINITY, text));
                let text = missed.clone().next().map_or("", |(_, text)| text);
                let all: Vec<_> = numbers.iter().copied().chain(missed.map(|(value, _)| (0, value))).collect();
                let middle = (!all.is_empty()).then(|| self.statistic.of(&all, level).0);
                middle.map_or_else(Entry::default, |middle| {
                    if middle.is_finite() { Entry::number(middle, |value| self.show(value)) } else { Entry::text(text) }
                })
            }
            (Statistic::Geometric, _) if numbers.len() < runs.len() => Entry::default(),
            _ if numbers.is_empty() => Entry::default(),
            (Statistic::Count, _) => Entry::count(numbers.len()),
            (Statistic::Mean, _) => {
                let (value, ends) = self.statistic.of(&numbers, level);
                self.interval(value, ends)
            }
            (Statistic::Quartiles, _) => {
                let (value, ends) = self.statistic.of(&numbers, level);
                let between = ends.map(|(low, high)| format!("{} – {}", self.show(low), self.show(high)));
                Entry::sorted(between.unwrap_or_default(), value)
            }
            (Statistic::Geometric | Statistic::MedianInterval, _) => {
                let (value, ends) = self.statistic.of(&numbers, level);
                let (low, high) = ends.unwrap_or((value, value));
                Entry::sorted(format!("{} ({} – {})", self.show(value), self.show(low), self.show(high)), value)
            }
            (statistic, _) => Entry::number(statistic.of(&numbers, level).0, |value| self.show(value)),
        }
    }
}

impl Table {
    fn parts(&self, runs: &[Value], level: f64) -> Vec<Part> {
        let runs = self.runs.of(runs);
        let mut parts = Vec::new();
        for (facet, runs) in by_key(runs.iter().map(|run| (label(run, &self.facet), run))) {
            let title =
                [&*self.title, &*facet].into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(": ");
            let columns: Vec<&Column> = self.rows.iter().chain(&self.columns).collect();
            // A heading may hold a bar, or nothing.
            let mut table = table::Table::new(&title, "");
            let headings = columns.iter().map(|column| table::Column::new(&filled(&column.name, runs[0])));
            table.columns.extend(headings);
            let key = |run: &'_ &Value| self.rows.iter().map(|row| field(run, &row.of).map(text)).collect::<Vec<_>>();
            for (_, runs) in by_key(runs.iter().map(|run| (key(run), *run))) {
                let entries: Vec<Entry> = columns.iter().map(|column| column.entry(&runs, level)).collect();
                if entries[self.rows.len()..].iter().any(|entry| !entry.text.is_empty()) {
                    table.row(entries);
                }
            }
            let shared: Vec<&str> = self.shared.iter().map(String::as_str).collect();
            let (table, shared) = table.without_empty_columns().without_shared_columns(&shared);
            parts.extend([Part::Heading(title), Part::Table(table)]);
            parts.extend((!shared.is_empty()).then(|| Part::Text(format!("In all rows: {}.", shared.join(", ")))));
        }
        parts
    }
}

impl Show {
    /// True if nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty() && self.tables.is_empty()
    }

    /// The fields of axes and columns that no run has, as misspelt ones. `index` is the place in a list or curve.
    pub fn missing(&self, runs: &[Value]) -> Vec<&str> {
        let axes = self.figures.iter().flat_map(|figure| [&figure.x.of, &figure.y.of]);
        let columns =
            self.tables.iter().flat_map(|table| table.rows.iter().chain(&table.columns).map(|column| &column.of));
        let fields = axes.chain(columns).flat_map(|of| of.split(' ').step_by(2));
        let is_missing = |name: &&str| {
            *name != "index" && name.parse::<f64>().is_err() && runs.iter().all(|run| field(run, name).is_none())
        };
        let mut missing: Vec<&str> = fields.filter(is_missing).collect();
        missing.sort_unstable();
        missing.dedup();
        if runs.is_empty() { Vec::new() } else { missing }
    }

    /// The figures, each a panel or several of one picture, and the tables.
    pub fn parts(&self, title: &str, runs: &[Value]) -> Vec<Part> {
        let level = self.level.unwrap_or(0.95);
        let panels: Vec<Panel> = self.figures.iter().flat_map(|figure| figure.panels(runs, level)).collect();
        let mut figure = presentation::Figure::new(title, panels);
        figure.columns = self.columns;
        let figure = (!figure.panels.is_empty()).then_some(Part::Figure(figure));
        figure.into_iter().chain(self.tables.iter().flat_map(|table| table.parts(runs, level))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_no_run_has_are_named() {
        let text = "[[figure]]\ntitle = 'x'\nx = { of = 'index' }\ny = { of = 'gap / 2' }\n\
                    [[table]]\nrows = [{ name = 'a', of = 'algorithm' }]\ncolumns = [{ name = 'b', of = 'algoritm' }]";
        let show: Show = toml::from_str(text).unwrap();
        assert_eq!(show.missing(&runs()), ["algoritm", "gap"]);
        assert!(show.missing(&[]).is_empty());
    }

    fn runs() -> Vec<Value> {
        let run = |algorithm: &str, rounds: u64, draw: u64, gap: f64| json!({ "algorithm": algorithm, "draw": draw, "parameters": { "rounds": rounds }, "gaps": [8.0, gap] });
        let of_draw = |draw: u64| {
            let shift = draw as f64;
            [run("a", 10, draw, 2.0 + shift), run("a", 20, draw, 3.0 - shift), run("b", 10, draw, 4.0)]
        };
        [0, 1].into_iter().flat_map(of_draw).collect()
    }

    fn charts(text: &str) -> Vec<Chart> {
        let figure: Figure = toml::from_str(text).unwrap();
        let panels = figure.panels(&runs(), 0.95).into_iter();
        panels.map(|panel| panel.chart).collect()
    }

    #[test]
    fn a_figure_has_a_panel_for_each_facet_and_a_statistic_for_each_x() {
        let text = "facet = ['algorithm']\nstatistic = 'quartiles'\nx = { of = 'parameters.rounds', label = 'T' }\n\
                    y = { of = 'gaps.-1', label = 'gap' }";
        let charts = charts(text);
        let points = |chart: &Chart| {
            let points = chart.series[0].points.iter();
            points.map(|point| (point.x, point.y, point.interval.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(charts.iter().map(|chart| &*chart.title).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(points(&charts[0]), [(10.0, 2.5, (2.25, 2.75)), (20.0, 2.5, (2.25, 2.75))]);
        assert_eq!(points(&charts[1]), [(10.0, 4.0, (4.0, 4.0))]);
        assert_eq!(charts[0].y.include, [2.5, 4.0]);
        let apart = self::charts(&text.replace("label = 'gap'", "ranges = ['algorithm']"));
        assert_eq!(apart.iter().map(|chart| &chart.y.include[..]).collect::<Vec<_>>(), [[2.5, 2.5], [4.0, 4.0]]);
    }

    #[test]
    fn a_point_needs_a_value_of_each_run() {
        let text =
            "statistic = 'mean'\nx = { of = 'parameters.rounds', label = 'T' }\ny = { of = 'gaps.1', label = 'gap' }";
        let figure: Figure = toml::from_str(text).unwrap();
        let mut runs = runs();
        let places = |runs: &[Value]| {
            let series = figure.series(&runs.iter().collect::<Vec<_>>(), &[], 0.95);
            series[0].points.iter().map(|point| point.x).collect::<Vec<_>>()
        };
        assert_eq!(places(&runs), [10.0, 20.0]);
        runs[4]["gaps"] = json!([8.0, null]);
        assert_eq!(places(&runs), [10.0]);
    }

    #[test]
    fn the_least_of_each_draw_is_paired_with_that_of_the_other_method() {
        let table: Table = toml::from_str(
            r##"
            title = "least"
            rows = [{ name = "method", of = "algorithm" }]
            columns = [
                { name = "#ratio", of = "gaps.-1 / reference.gaps.-1", statistic = "mean", format = ".3" },
                { name = "#most", of = "gaps.-1", statistic = "most" },
                { name = "T (draws)", of = "parameters.rounds", statistic = "tally" },
            ]
            runs = { least = "gaps.-1", among = ["algorithm", "draw"], only = { algorithm = "a" }, against = { algorithm = "b" } }
            "##,
        )
        .unwrap();
        let parts = table.parts(&runs(), 0.95);
        let [_, Part::Table(table)] = &parts[..] else { panic!("{parts:?}") };
        let texts: Vec<&str> = table.rows[0].iter().map(|entry| &*entry.text).collect();
        assert_eq!(texts, ["a", "0.500 ± 0.000", "2", "10 (1), 20 (1)"]);
    }

    fn rows(text: &str, runs: &[Value]) -> Vec<Vec<String>> {
        let table: Table = toml::from_str(text).unwrap();
        let parts = table.parts(runs, 0.95);
        let [_, Part::Table(table)] = &parts[..] else { panic!("{parts:?}") };
        let head = table.columns.iter().map(|column| column.name.clone()).collect();
        let rows = table.rows.iter().map(|row| row.iter().map(|entry| entry.text.clone()).collect());
        std::iter::once(head).chain(rows).collect()
    }

    #[test]
    fn exponents_are_those_of_finished_places_beside_what_varies_with_the_wider_interval() {
        let mut runs = Vec::new();
        for (n, d) in [(10.0_f64, 1.0_f64), (20.0, 2.0), (40.0, 2.0), (80.0, 1.0), (160.0, 4.0)] {
            for (seed, factor) in [(0, 1.0), (1, n.powf(0.2))] {
                runs.push(json!({ "n": n, "d": d, "repeat": seed, "cost": factor * n.powi(2) / d }));
            }
        }
        // One run of two, which would bend the curve.
        runs.push(json!({ "n": 320.0, "d": 1.0, "repeat": 0, "cost": 1.0 }));
        let column = "statistic = 'exponent', of = 'cost', along = ['n', 'd', 'constant']";
        let text = format!(
            "rows = [{{ name = 'all', of = 'none' }}]\ncolumns = [{{ name = '#n', {} , over = 'repeat' }}, {{ name = '#one', {column} }}]",
            column.replace(", 'constant'", "")
        );
        runs.iter_mut().for_each(|run| run["constant"] = 7.into());
        let rows = rows(&text, &runs);
        // Of exponents 2 and 2.2; the mean of two seeds with Student's 12.7 standard errors.
        assert_eq!(rows[1][0], "2.10 (0.83 – 3.37)");
        let whole: f64 = rows[1][1].split(' ').next().unwrap().parse().unwrap();
        assert!((whole - 2.1).abs() < 0.03, "{rows:?}");
        // Draws that bend the same way: the misfit is as it was, and the jackknife has 12.7 standard errors, too.
        for run in &mut runs {
            run["draw"] = run["repeat"].clone();
        }
        let draws = self::rows(&text, &runs);
        assert!(draws[1][0] == rows[1][0] && draws[1][1] != rows[1][1], "{draws:?}");
        assert!(draws[1][1].ends_with("(0.86 – 3.41)"), "{draws:?}");
    }

    #[test]
    fn what_was_missed_is_above_every_number_and_headings_hold_fields() {
        let run = |value: Value| json!({ "target": 85, "rounds": value });
        let text = "rows = [{ name = 'to {target}', of = 'target' }]\ncolumns = [{ name = '#T', of = 'rounds', statistic = 'upper-median' }]";
        let shown = |values: [Value; 3]| rows(text, &values.map(run));
        let missed = || json!("not reached");
        assert_eq!(shown([json!(3), json!(5), missed()]), [["to 85", "T"], ["85", "5"]]);
        assert_eq!(shown([json!(3), missed(), missed()])[1], ["85", "not reached"]);
    }

    #[test]
    fn a_heading_with_a_bar_or_without_a_text_stays_above_its_own_column() {
        let run = json!({ "target": 85, "risk": 1e80, "rounds": 3 });
        let text = "rows = [{ name = '{nothing}', of = 'target' }]\n\
                    columns = [{ name = '#|x| | y', of = 'risk', statistic = 'mean', format = '.4' }, { name = '#T', of = 'rounds' }]";
        assert_eq!(rows(text, &[run]), [["", "|x| | y", "T"], ["85", "1.00e80", "3"]]);
    }

    #[test]
    fn data_hold_the_true_ends_of_an_interval_and_curves_differ_in_dashes() {
        let text = "group = ['algorithm']\nstatistic = 'mean'\nx = { of = 'parameters.rounds', label = 'T' }\n\
                    y = { of = 'gaps.-1', label = 'gap' }";
        let low = charts(text)[0].series[0].points[0].interval.unwrap().0;
        assert!(low < 0.0, "{low}");
        let raised = charts(&text.replace("label = 'gap'", "label = 'gap', least = 20.0"));
        let point = &raised[0].series[0].points[0];
        assert_eq!((point.y, point.interval), (20.0, Some((20.0, 20.0))));
        let curves = charts(
            "group = ['algorithm']\nstyle = 'curve'\nx = { of = 'index', label = '' }\ny = { of = 'gaps', label = '' }",
        );
        assert_eq!(curves[0].series.iter().map(|series| series.variant).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn references_go_through_first_points_or_follow_dashes() {
        let run =
            |name: &str, threads: u64, x: f64, y: f64| json!({ "name": name, "threads": threads, "x": x, "y": y });
        let runs = [run("a", 2, 1.0, 5.0), run("a", 2, 4.0, 6.0), run("a", 1, 1.0, 9.0), run("a", 1, 4.0, 8.0)];
        let figure = |references: &str| -> Figure {
            let text =
                "group = ['name']\ndash = ['threads']\nx = { of = 'x', label = '' }\ny = { of = 'y', label = '' }";
            toml::from_str(&format!("{text}\nreferences = [{{ name = 'limit', {references} }}]")).unwrap()
        };
        let dotted = |references: &str| {
            let panels = figure(references).panels(&runs, 0.95);
            let series = panels[0].chart.series.clone().into_iter();
            series.filter(|series| series.style == Style::Reference).collect::<Vec<_>>()
        };
        let ys = |series: &Series| series.points.iter().map(|point| point.y).collect::<Vec<_>>();
        let scaled = dotted("of = 'x ^ 0.5', scaled = true");
        assert_eq!(scaled.iter().map(ys).collect::<Vec<_>>(), [[5.0, 10.0], [9.0, 18.0]]);
        let apart = dotted("of = 'x * threads'");
        assert_eq!(apart.iter().map(ys).collect::<Vec<_>>(), [[2.0, 8.0], [1.0, 4.0]]);
        assert_eq!(apart[0].keys, Some(("limit, 2".to_owned(), "2".to_owned())));
    }
}
