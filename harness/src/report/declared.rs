//! Figures and tables that a definition declares: the one grammar by which raw runs become charts and tables.
//!
//! A field is a path into a run's line of `measurements.jsonl`: `rms_error`, `parameters.rounds`, `gap_mean.-1` (the last entry of a
//! list). Each line has the fields `method`, `problem`, `draw`, `repeat`, `axis` and `published` besides. `a / b` is a quotient of
//! fields or numbers of one run, and `reference.a` is a field of the run that it is paired with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chart::{self, COLOURS, Chart, Format, Point, Scale, Series, Style, ends};
use super::presentation::{self, Panel, Part, slug};
use super::table::{self, Entry};
use crate::format::{count, number as short, three_digits};
use crate::grouping::{by_key, distinct};
use crate::statistics::{mean, median, of_mean, percentile_interval};

/// The table `[show]` of a definition: its page. It is no part of what is run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Show {
    /// Heading; without it the definition's name.
    pub title: String,
    /// Section of the report; without it `Papers`.
    pub group: String,
    /// Subject and conditions; without it those of the definition.
    pub about: String,
    /// The definition whose figures and tables are shown.
    pub like: String,
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
    /// Fields with the values that a run must have.
    only: BTreeMap<String, Value>,
    /// Fields in which runs are alike; of those that are, the one with the least value of `least` remains.
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
    /// The mean with its 95 % interval.
    Mean,
    /// The mean alone.
    BareMean,
    Median,
    /// The median with the quartiles; in a table the quartiles.
    Quartiles,
    Most,
    /// The number of values.
    Count,
    /// Each value with its number of runs.
    Tally,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Axis {
    of: String,
    label: String,
    linear: bool,
    /// Values below it are drawn at it.
    least: Option<f64>,
    /// Points above it are left out.
    most: Option<f64>,
    /// Values that the range must contain.
    include: Vec<f64>,
    /// Fields with the ends of the interval of a single run.
    interval: Option<[String; 2]>,
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
    #[serde(default)]
    facet: Vec<String>,
    #[serde(default)]
    statistic: Statistic,
    #[serde(default = "line")]
    style: Style,
    /// A field that is drawn as a level, and its name.
    level: Option<String>,
}

fn line() -> Style {
    Style::Line
}

/// A row for each combination of the fields `rows`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
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
    /// `.4` or `e1` for as many decimals, `count`, `%`, or `3` for as many digits, as without it; fields of a run are shown as they are.
    #[serde(default)]
    format: String,
}

fn field<'v>(run: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(run, |value, name| match value {
        Value::Array(values) => {
            let place: isize = name.parse().ok()?;
            values.get(if place < 0 { values.len().checked_add_signed(place)? } else { place.cast_unsigned() })
        }
        value => value.get(name),
    })
}

/// A field, or the quotient of several, as a number; NaN without one.
fn number(run: &Value, of: &str) -> f64 {
    let one = |part: &str| part.parse().ok().or_else(|| field(run, part)?.as_f64()).unwrap_or(f64::NAN);
    let mut parts = of.split(" / ").map(one);
    let first = parts.next().unwrap_or(f64::NAN);
    parts.fold(first, |value, divisor| value / divisor)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
            let cost = |run: &&Value| number(run, &self.least);
            let alike = by_key(runs.iter().map(|run| (key(run), run))).into_iter();
            let least = alike.filter_map(|(_, runs)| runs.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))));
            chosen = least.collect();
        }
        let has = |run: &Value, values: &BTreeMap<String, Value>| {
            values.iter().all(|(path, value)| field(run, path).is_some_and(|own| text(own) == text(value)))
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
    /// The value and, where it has one, its interval.
    fn of(self, values: &[f64]) -> (f64, Option<(f64, f64)>) {
        match self {
            Self::First | Self::Tally => (values[0], None),
            Self::Mean => {
                let estimate = of_mean(values, 0.95);
                (estimate.value, estimate.ends())
            }
            Self::BareMean => (mean(values), None),
            Self::Median => (median(values), None),
            Self::Quartiles => {
                let quartiles = percentile_interval(&mut values.to_vec(), 0.5);
                (median(values), Some((quartiles.low, quartiles.high)))
            }
            Self::Most => (ends(values.iter().copied()).1, None),
            Self::Count => (values.len() as f64, None),
        }
    }
}

impl Axis {
    fn chart(&self) -> chart::Axis {
        let scale = if self.linear { Scale::Linear } else { Scale::Logarithmic };
        chart::Axis::new(&self.label, scale, Format::Number).including(self.include.iter().copied())
    }

    /// The value where the axis can show it.
    fn shown(&self, value: f64) -> Option<f64> {
        let value = self.least.map_or(value, |least| value.max(least));
        (value.is_finite() && self.most.is_none_or(|most| value < most) && (self.linear || value > 0.0))
            .then_some(value)
    }
}

/// A curve of a run: its name, and its points with an interval where there is one.
type Curve = (String, Vec<(f64, f64, Option<(f64, f64)>)>);

/// Points of a curve by its index, at most.
const POINTS: usize = 250;

impl Figure {
    fn curves(&self, run: &Value) -> Vec<Curve> {
        let at = |x: &Value, y: &Value| (x.as_f64().unwrap_or(f64::NAN), y.as_f64().unwrap_or(f64::NAN), None);
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
                vec![(String::new(), vec![(number(run, &self.x.of), number(run, &self.y.of), interval)])]
            }
        }
    }

    /// The points of the curves of several runs, x by x: a statistic needs a value of each run.
    fn points(&self, name: &str, curves: &[Vec<(f64, f64, Option<(f64, f64)>)>]) -> Vec<Point> {
        let of_curve = |curve: &'_ Vec<(f64, f64, Option<(f64, f64)>)>| {
            // A curve may be vertical.
            let before = |place: usize| curve[..place].iter().filter(|before| before.0 == curve[place].0).count();
            (0..curve.len()).map(|place| ((curve[place].0.to_bits(), before(place)), curve[place])).collect::<Vec<_>>()
        };
        let by_x = by_key(curves.iter().flat_map(of_curve)).into_iter();
        let mut points: Vec<Point> = by_x
            .filter_map(|((x, _), own)| {
                let values: Vec<f64> = own.iter().map(|point| point.1).collect();
                let (y, interval) = self.statistic.of(&values);
                let (x, y) = (
                    self.x.shown(f64::from_bits(x))?,
                    self.y.shown(y).filter(|_| values.iter().all(|y| y.is_finite()))?,
                );
                // A logarithmic axis has no place for an end below 0.
                let end = |low: f64| if self.y.linear || low > 0.0 { low } else { 0.1 * y };
                let interval = own[0]
                    .2
                    .or(interval)
                    .map(|(low, high)| (self.y.least.map_or(end(low), |least| end(low).max(least)), high));
                let note = format!("{name} at {}: {}", short(x), three_digits(y));
                Some(Point { interval, ..Point::new(x, y, note.trim_start()) })
            })
            .collect();
        if self.style == Style::Line {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        points
    }

    /// A panel for each facet; all panels have the same range of y.
    fn panels(&self, runs: &[Value]) -> Vec<Panel> {
        let runs = self.runs.of(runs);
        let groups = distinct(runs.iter().map(|run| label(run, &self.group)));
        let facets: Vec<_> = by_key(runs.iter().map(|run| (label(run, &self.facet), run)))
            .into_iter()
            .map(|(facet, runs)| (facet, self.series(&runs, &groups)))
            .filter(|(_, series)| !series.is_empty())
            .collect();
        let all = facets.iter().flat_map(|(_, series)| series).flat_map(|series| &series.points);
        let (low, high) = ends(all.map(|point| point.y));
        let several = facets.len() > 1;
        let panel = |(facet, series): (String, Vec<Series>)| {
            let names: Vec<&str> = [&*self.title, &*facet].into_iter().filter(|name| !name.is_empty()).collect();
            let title = names.join(": ");
            let file = if several && !self.file.is_empty() {
                slug(&format!("{} {facet}", self.file))
            } else {
                self.file.clone()
            };
            let mut y = self.y.chart();
            y.include.extend([low, high]);
            Panel::chart(&title, &file, Chart::new(&*title, &*self.subtitle, self.x.chart(), y, series))
        };
        facets.into_iter().map(panel).collect()
    }

    fn series(&self, runs: &[&Value], groups: &[String]) -> Vec<Series> {
        let mut all = Vec::new();
        for (group, runs) in by_key(runs.iter().map(|run| (label(run, &self.group), *run))) {
            let colour = groups.iter().position(|known| *known == group).unwrap_or(0);
            let curves = by_key(runs.iter().flat_map(|run| self.curves(run)));
            let mut named: Vec<(String, Vec<Point>)> =
                curves.into_iter().map(|(name, curves)| (name, self.points(&group, &curves))).collect();
            if let Some(level) = &self.level {
                let (low, high) = ends(named.iter().flat_map(|(_, points)| points).map(|point| point.x));
                let value = self.y.shown(number(runs[0], level));
                named.extend(value.map(|y| (level.clone(), [low, high].map(|x| Point::new(x, y, &**level)).to_vec())));
            }
            let several = named.iter().any(|(name, _)| !name.is_empty());
            for (dash, (name, points)) in named.into_iter().enumerate().filter(|(_, (_, points))| !points.is_empty()) {
                let whole = format!("{group} {name}").trim().to_owned();
                let series = Series::new(whole, self.style, colour, points);
                let series = if several { series.keys(&*group, name) } else { series };
                all.push(series.variant(if several { dash } else { colour / COLOURS }));
            }
        }
        all
    }
}

impl Column {
    fn show(&self, value: f64) -> String {
        let decimals = || self.format[1..].parse().unwrap_or(0);
        match self.format.as_bytes().first() {
            Some(b'.') => format!("{value:.*}", decimals()),
            Some(b'e') => format!("{value:.*e}", decimals()),
            Some(b'%') => format!("{:.2} %", 100.0 * value),
            Some(b'c') => count(value),
            _ => three_digits(value),
        }
    }

    fn interval(&self, value: f64, ends: Option<(f64, f64)>) -> Entry {
        let half = ends.map_or_else(String::new, |(low, high)| format!(" ± {}", self.show(0.5 * (high - low))));
        Entry::sorted(self.show(value) + &half, value)
    }

    fn entry(&self, runs: &[&Value]) -> Entry {
        let values = || runs.iter().map(|run| number(run, &self.of));
        let numbers: Vec<f64> = values().filter(|value| value.is_finite()).collect();
        match (self.statistic, field(runs[0], &self.of)) {
            (Statistic::First, Some(Value::Array(estimate))) => {
                let at = |place: usize| estimate.get(place).and_then(Value::as_f64).unwrap_or(f64::NAN);
                self.interval(at(0), Some((at(1), at(2))))
            }
            (Statistic::First, Some(Value::Number(value))) if self.format.is_empty() => {
                Entry::sorted(value.to_string(), number(runs[0], &self.of))
            }
            (Statistic::First, Some(Value::String(text))) => Entry::text(text),
            (Statistic::Tally, _) => {
                let mut tally = by_key(runs.iter().filter_map(|run| Some((field(run, &self.of)?, ()))));
                tally
                    .sort_by(|(a, _), (b, _)| a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal));
                let each = tally.iter().map(|(value, runs)| format!("{} ({})", text(value), runs.len()));
                Entry::text(each.collect::<Vec<_>>().join(", "))
            }
            _ if numbers.is_empty() => Entry::default(),
            (Statistic::Count, _) => Entry::count(numbers.len()),
            (Statistic::Mean, _) => {
                let (value, ends) = self.statistic.of(&numbers);
                self.interval(value, ends)
            }
            (Statistic::Quartiles, _) => {
                let (value, ends) = self.statistic.of(&numbers);
                let between = ends.map(|(low, high)| format!("{} – {}", self.show(low), self.show(high)));
                Entry::sorted(between.unwrap_or_default(), value)
            }
            (statistic, _) => Entry::number(statistic.of(&numbers).0, |value| self.show(value)),
        }
    }
}

impl Table {
    fn parts(&self, runs: &[Value]) -> Vec<Part> {
        let runs = self.runs.of(runs);
        let mut parts = Vec::new();
        for (facet, runs) in by_key(runs.iter().map(|run| (label(run, &self.facet), run))) {
            let title = if facet.is_empty() { self.title.clone() } else { format!("{}: {facet}", self.title) };
            let columns: Vec<&Column> = self.rows.iter().chain(&self.columns).collect();
            let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
            let mut table = table::Table::new(&title, &names.join("|"));
            let key = |run: &'_ &Value| self.rows.iter().map(|row| field(run, &row.of).map(text)).collect::<Vec<_>>();
            for (_, runs) in by_key(runs.iter().map(|run| (key(run), *run))) {
                table.row(columns.iter().map(|column| column.entry(&runs)));
            }
            let shared: Vec<&str> = self.shared.iter().map(String::as_str).collect();
            parts.push(Part::Heading(title));
            parts.extend(Part::table(table.without_empty_columns(), &shared));
        }
        parts
    }
}

impl Show {
    /// The figures, each a panel or several of one picture, and the tables.
    pub fn parts(&self, title: &str, runs: &[Value]) -> Vec<Part> {
        let panels: Vec<Panel> = self.figures.iter().flat_map(|figure| figure.panels(runs)).collect();
        let mut figure = presentation::Figure::new(title, "What is shown", panels);
        figure.columns = self.columns;
        let figure = (!figure.panels.is_empty()).then_some(Part::Figure(figure));
        figure.into_iter().chain(self.tables.iter().flat_map(|table| table.parts(runs))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::Picture;

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
        let panels = figure.panels(&runs()).into_iter();
        let chart = |panel: Panel| match panel.picture {
            Picture::Chart(chart) => chart,
            Picture::Bars(_) => unreachable!(),
        };
        panels.map(chart).collect()
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
    }

    #[test]
    fn a_point_needs_a_value_of_each_run() {
        let text =
            "statistic = 'mean'\nx = { of = 'parameters.rounds', label = 'T' }\ny = { of = 'gaps.1', label = 'gap' }";
        let figure: Figure = toml::from_str(text).unwrap();
        let mut runs = runs();
        let places = |runs: &[Value]| {
            let series = figure.series(&runs.iter().collect::<Vec<_>>(), &[]);
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
        let parts = table.parts(&runs());
        let [_, Part::Table(table)] = &parts[..] else { panic!("{parts:?}") };
        let texts: Vec<&str> = table.rows[0].iter().map(|entry| &*entry.text).collect();
        assert_eq!(texts, ["a", "0.500 ± 0.000", "2", "10 (1), 20 (1)"]);
    }
}
