//! A chart as SVG: axes, lines with markers and whiskers, references, and a legend below the plot.
//!
//! Colours are not written into the picture: series carry the classes `s0` to `s7`, text and lines theirs, and a style
//! sheet gives each its colour for light and dark. That, and groups that a legend can switch, is why this is not a
//! plotting library's output.

use std::fmt::Write as _;

use super::format::escape;
use super::legend::Legend;

/// Colours that eight series share, by class: told apart by colour-blind readers through lightness, and by everybody
/// through the shape of their markers.
pub(super) const SERIES_COLOURS: usize = 8;

/// The style of a chart, for light and dark, in a picture that stands alone. The page's style sheet starts with the
/// same variables.
pub(super) const VARIABLES: &str = "\
--ink:#1d2430;--quiet:#5a6473;--line:#d9dee6;--faint:#eceff4;--paper:#ffffff;--reference:#6b7686;\
--s0:#1667b0;--s1:#c4500c;--s2:#0f7d5c;--s3:#9a3f86;--s4:#8a6a00;--s5:#2f8fc4;--s6:#6a4cc0;--s7:#4d5966;";
pub(super) const DARK_VARIABLES: &str = "\
--ink:#e8ecf2;--quiet:#a3adbb;--line:#3a4250;--faint:#272e39;--paper:#171b22;--reference:#8f9bab;\
--s0:#62aef0;--s1:#ff9a57;--s2:#45c79b;--s3:#e28fce;--s4:#dcb94a;--s5:#96d4f5;--s6:#b6a0f8;--s7:#b4bfcb;";
pub(super) const CHART_STYLE: &str = "\
.chart{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;font-size:12px}\
.chart text{fill:var(--quiet)}.chart .title{fill:var(--ink);font-size:15px;font-weight:600}\
.chart .subtitle{font-size:12px}.chart .axis-label{fill:var(--quiet)}\
.chart .grid{stroke:var(--faint);stroke-width:1;fill:none}.chart .axis{stroke:var(--line);stroke-width:1;fill:none}\
.chart .mark{stroke:var(--c);fill:var(--c);stroke-width:1.6}.chart .hollow .mark{fill:var(--paper)}\
.chart .path{stroke:var(--c);stroke-width:1.8;fill:none;stroke-linejoin:round}\
.chart .whisker{stroke:var(--c);stroke-width:1.2;opacity:.55}.chart .bar{fill:var(--c)}\
.chart .reference .path{stroke-width:1.4;stroke-linecap:round}\
.chart .s0{--c:var(--s0)}.chart .s1{--c:var(--s1)}.chart .s2{--c:var(--s2)}.chart .s3{--c:var(--s3)}\
.chart .s4{--c:var(--s4)}.chart .s5{--c:var(--s5)}.chart .s6{--c:var(--s6)}.chart .s7{--c:var(--s7)}\
.chart .reference:not(.tinted){--c:var(--reference)}.chart .background{fill:var(--paper)}";

/// How an axis maps values to places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Equal steps are equal distances.
    Linear,
    /// Equal ratios are equal distances.
    Logarithmic,
}

/// An axis.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    pub(super) format: fn(f64) -> String,
    /// Places to label; none lets the chart choose.
    pub(super) ticks: Vec<f64>,
    /// Range to show at least.
    pub(super) include: Vec<f64>,
}

/// A point of a series.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Ends of a whisker.
    pub(super) whisker: Option<(f64, f64)>,
    /// What a reader sees who points at it.
    pub(super) note: String,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drawing {
    /// Markers joined by a line.
    Line,
    /// Markers alone.
    Points,
    /// A dotted line without markers: a limit, a level.
    Reference,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) drawing: Drawing,
    /// Which colour and marker.
    pub(super) colour: usize,
    /// Which dash and fill: 0 is solid and filled.
    pub(super) variant: usize,
    pub(super) points: Vec<Point>,
}

/// A picture.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// Width and height of the plot with its labels, in pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// On a desk.
pub(super) const WIDE: Size = Size {
    width: 860.0,
    height: 430.0,
};
/// On a phone.
pub(super) const NARROW: Size = Size {
    width: 360.0,
    height: 330.0,
};

const LEFT: f64 = 76.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 50.0;
const LEGEND_ROW: f64 = 22.0;
const TITLE: f64 = 52.0;

/// The line an axis spans, in values.
struct Range {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Range {
    /// The range of values and what must be included, with a margin of a twentieth.
    fn of(values: impl Iterator<Item = f64>, axis: &Axis) -> Self {
        let usable = |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) = values
            .chain(axis.include.iter().copied())
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match axis.scale {
            Scale::Logarithmic => {
                let margin = (high / low).powf(0.05).max(1.1);
                Self {
                    low: low / margin,
                    high: high * margin,
                    scale: axis.scale,
                }
            }
            Scale::Linear => {
                let margin = ((high - low) * 0.05).max(1e-9 * high.abs().max(1e-9));
                // Zero is a floor, not a value to leave room below.
                let floor = if low >= 0.0 && low - margin < 0.0 {
                    low.min(0.0)
                } else {
                    low - margin
                };
                Self {
                    low: floor,
                    high: high + margin,
                    scale: axis.scale,
                }
            }
        }
    }

    /// 0 at the low end, 1 at the high one.
    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// Round values within, about `wanted` of them.
    fn ticks(&self, wanted: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let raw = (self.high - self.low) / wanted.max(1) as f64;
                let power = 10_f64.powf(raw.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .map(|factor| factor * power)
                    .into_iter()
                    .find(|step| *step >= raw);
                let step = step.unwrap_or(raw);
                // A tick at the very end is within, whatever division makes of it.
                let first = (self.low / step - 1e-9).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|place| place as f64 * step).collect()
            }
            Scale::Logarithmic => {
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let within = |factors: &[f64], every: usize| -> Vec<f64> {
                    (first..=last)
                        .step_by(every)
                        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
                        .filter(|value| (self.low..=self.high).contains(value))
                        .collect()
                };
                let decades = within(&[1.0], 1);
                if decades.len() > wanted {
                    return within(&[1.0], decades.len().div_ceil(wanted));
                }
                let finer: [&[f64]; 4] = [
                    &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
                    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
                    &[1.0, 2.0, 5.0],
                    &[1.0, 3.0],
                ];
                finer
                    .into_iter()
                    .map(|factors| within(factors, 1))
                    .find(|ticks| ticks.len() <= wanted)
                    .unwrap_or(decades)
            }
        }
    }
}

impl Chart {
    /// The plot for a page that brings style, title and legend of its own. Series are groups whose `data-keys` name the
    /// entries of the legend that they need.
    pub(super) fn inline_svg(&self, size: Size, legend: &Legend) -> String {
        let label = format!("{}. {}", self.title, self.subtitle);
        format!(
            "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" \
             xmlns=\"http://www.w3.org/2000/svg\">{}</svg>",
            size.width,
            size.height,
            escape(&label),
            self.plot(size, legend)
        )
    }

    /// The whole picture, which stands alone, with an entry of the legend for each series.
    pub(super) fn standalone_svg(&self, size: Size) -> String {
        self.standalone_svg_with(size, &Legend::of_series(self))
    }

    /// The whole picture, which stands alone: style, title, plot and legend, with those series that the legend shows.
    pub(super) fn standalone_svg_with(&self, size: Size, legend: &Legend) -> String {
        let shown: Vec<usize> = (0..self.series.len()).filter(|&series| legend.shows(series)).collect();
        let chart = Self {
            series: shown.iter().map(|&series| self.series[series].clone()).collect(),
            ..self.clone()
        };
        let visible = Legend {
            entries: legend.entries.clone(),
            keys: shown.iter().map(|&series| legend.keys[series].clone()).collect(),
        };
        let plot = chart.plot(size, &visible);
        let (legend, rows) = legend_rows(&visible, size.width);
        let subtitle = wrapped(&self.subtitle, (size.width - 2.0 * RIGHT) / 6.2);
        let top = TITLE + 16.0 * (subtitle.len().saturating_sub(1)) as f64;
        let height = top + size.height + LEGEND_ROW * rows as f64 + 12.0;
        let mut lines = String::new();
        for (place, line) in subtitle.iter().enumerate() {
            let y = 42 + 16 * place;
            let _ = write!(
                lines,
                "<text class=\"subtitle\" x=\"{RIGHT}\" y=\"{y}\">{}</text>",
                escape(line)
            );
        }
        format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" \
             width=\"{width}\" height=\"{height:.0}\" role=\"img\" aria-labelledby=\"t\">\
             <title id=\"t\">{title}</title><style>svg{{{VARIABLES}}}\
             @media (prefers-color-scheme:dark){{svg{{{DARK_VARIABLES}}}}}{CHART_STYLE}</style>\
             <rect class=\"background\" width=\"{width}\" height=\"{height:.0}\"/>\
             <text class=\"title\" x=\"{RIGHT}\" y=\"24\">{title}</text>{lines}\
             <g transform=\"translate(0 {top})\">{plot}</g>\
             <g transform=\"translate(0 {below})\">{legend}</g></svg>\n",
            width = size.width,
            title = escape(&self.title),
            below = top + size.height,
        )
    }

    fn plot(&self, size: Size, legend: &Legend) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Range::of(points().map(|point| point.x), &self.x);
        // On a linear axis a whisker may not make the marks small: it reaches as far as they span, and is cut there.
        let (least, most) = points().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), point| {
            (least.min(point.y), most.max(point.y))
        });
        let reach = match self.y.scale {
            Scale::Linear => (most - least).max(0.05 * most.abs()),
            Scale::Logarithmic => f64::INFINITY,
        };
        let y_values = points().flat_map(|point| {
            let (low, high) = point.whisker.unwrap_or((point.y, point.y));
            [point.y, low.max(least - reach), high.min(most + reach)]
        });
        let y = Range::of(y_values, &self.y);
        let (right, bottom) = (size.width - RIGHT, size.height - BOTTOM);
        let across = |value: f64| LEFT + x.place(value) * (right - LEFT);
        let up = |value: f64| bottom - y.place(value).max(0.0).min(1.0) * (bottom - TOP);
        let mut svg = String::new();

        for tick in ticks(&self.y, &y, (size.height / 55.0) as usize) {
            let (place, text) = (up(tick), escape(&(self.y.format)(tick)));
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {place:.1}H{right}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 8.0,
                place + 4.0
            );
        }
        let mut free = f64::NEG_INFINITY;
        for tick in ticks(&self.x, &x, (size.width / 90.0) as usize) {
            let (place, text) = (across(tick), (self.x.format)(tick));
            let _ = write!(svg, "<path class=\"grid\" d=\"M{place:.1} {TOP}V{bottom}\"/>");
            let half = text_width(&text) / 2.0;
            if place - half > free {
                free = place + half + 6.0;
                let text = escape(&text);
                let _ = write!(
                    svg,
                    "<text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                    bottom + 18.0
                );
            }
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
             <text class=\"axis-label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"axis-label\" transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            size.height - 10.0,
            escape(&self.x.label),
            f64::midpoint(TOP, bottom),
            escape(&self.y.label),
        );
        // References lie under the measured.
        let references_first = |reference: bool| {
            self.series
                .iter()
                .enumerate()
                .filter(move |(_, series)| (series.drawing == Drawing::Reference) == reference)
        };
        for (number, series) in references_first(true).chain(references_first(false)) {
            let keys = legend.keys[number]
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ");
            let mut classes = series.classes();
            if series.drawing == Drawing::Reference && legend.is_tinted(self, number) {
                classes.push_str(" tinted");
            }
            if !legend.shows(number) {
                classes.push_str(" off");
            }
            let _ = write!(svg, "<g class=\"series {classes}\" data-keys=\"{keys}\">");
            series.draw(&across, &up, &mut svg);
            svg.push_str("</g>");
        }
        svg
    }
}

/// The legend in rows that fit the width, and how many there are. Each group starts a row.
fn legend_rows(legend: &Legend, width: f64) -> (String, usize) {
    let (mut svg, mut row, mut x) = (String::new(), 0_u32, RIGHT);
    let mut group = 0;
    let needed = |entry: usize| legend.keys.iter().any(|keys| keys.contains(&entry));
    let mut entries: Vec<_> = legend
        .entries
        .iter()
        .enumerate()
        .filter(|(key, entry)| entry.shown && needed(*key))
        .collect();
    // A thread count that stands alone tells nothing apart.
    let alone = entries.iter().filter(|(_, entry)| entry.group == 1).count() == 1;
    entries.retain(|(_, entry)| entry.group == 0 || !alone);
    entries.sort_by_key(|(_, entry)| entry.group);
    for (_, entry) in &entries {
        let needed = 38.0 + text_width(&entry.name) + 18.0;
        if x > RIGHT && (x + needed > width - RIGHT || entry.group != group) {
            row += 1;
            x = RIGHT;
        }
        group = entry.group;
        let y = 12.0 + LEGEND_ROW * f64::from(row);
        let _ = write!(
            svg,
            "<g transform=\"translate({x:.1} {y:.1})\">{}<text x=\"36\" y=\"4\">{}</text></g>",
            entry.sample,
            escape(&entry.name)
        );
        x += needed;
    }
    (svg, if entries.is_empty() { 0 } else { row as usize + 1 })
}

impl Series {
    /// The classes that colour it.
    fn classes(&self) -> String {
        let colour = if self.drawing == Drawing::Reference {
            // A page may let a reference share its series' colour; by itself it has the colour of references.
            format!("reference s{}", self.colour % SERIES_COLOURS)
        } else {
            format!("s{}", self.colour % SERIES_COLOURS)
        };
        if self.variant == 0 {
            colour
        } else {
            format!("{colour} hollow")
        }
    }

    /// Dashes of a line, by variant; references are dotted by their class.
    fn dashes(&self) -> &'static str {
        match (self.drawing, self.variant) {
            (Drawing::Reference, 1) => " stroke-dasharray=\"1 7\"",
            (Drawing::Reference, 2) => " stroke-dasharray=\"9 4 1 4\"",
            (Drawing::Reference, _) => " stroke-dasharray=\"2 4\"",
            (_, 0) => "",
            (_, 1) => " stroke-dasharray=\"6 4\"",
            (_, 2) => " stroke-dasharray=\"2 3\"",
            _ => " stroke-dasharray=\"8 3 2 3\"",
        }
    }

    /// A short piece of it, as a legend shows it: 28 by 12 pixels around (14, 0).
    pub(super) fn sample(&self) -> String {
        let path = if self.drawing == Drawing::Points {
            String::new()
        } else {
            format!("<path class=\"path\" d=\"M0 0H28\"{}/>", self.dashes())
        };
        let mark = if self.drawing == Drawing::Reference {
            String::new()
        } else {
            marker(self.colour, 14.0, 0.0)
        };
        format!("<g class=\"{}\">{path}{mark}</g>", self.classes())
    }

    /// Its dash and fill without its colour: what stands for one of several variants of all series.
    pub(super) fn dash_sample(&self) -> String {
        if self.drawing == Drawing::Reference {
            return self.sample();
        }
        let hollow = if self.variant == 0 { "" } else { " hollow" };
        let path = match self.drawing {
            Drawing::Points => String::new(),
            _ => format!("<path class=\"path\" d=\"M0 0H28\"{}/>", self.dashes()),
        };
        format!("<g class=\"reference{hollow}\">{path}{}</g>", marker(0, 14.0, 0.0))
    }

    fn draw(&self, across: &dyn Fn(f64) -> f64, up: &dyn Fn(f64) -> f64, svg: &mut String) {
        if self.drawing != Drawing::Points && self.points.len() > 1 {
            let mut path = String::new();
            for point in &self.points {
                let command = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{command}{:.1} {:.1}", across(point.x), up(point.y));
            }
            let _ = write!(svg, "<path class=\"path\" d=\"{path}\"{}/>", self.dashes());
        }
        if self.drawing != Drawing::Reference {
            for point in &self.points {
                let (x, y) = (across(point.x), up(point.y));
                if let Some((low, high)) = point.whisker {
                    let _ = write!(
                        svg,
                        "<path class=\"whisker\" d=\"M{x:.1} {:.1}V{:.1}\"/>",
                        up(low),
                        up(high)
                    );
                }
                let note = escape(&point.note);
                let _ = write!(
                    svg,
                    "<g class=\"point\" data-note=\"{note}\"><title>{note}</title>{}</g>",
                    marker(self.colour, x, y)
                );
            }
        }
    }
}

fn ticks(axis: &Axis, range: &Range, wanted: usize) -> Vec<f64> {
    if axis.ticks.is_empty() {
        range.ticks(wanted.max(2))
    } else {
        axis.ticks.clone()
    }
}

/// The marker of a colour: circle, square, triangle, diamond. The next eight series have the same colours with the next
/// marker each, so 32 series are told apart.
fn marker(colour: usize, x: f64, y: f64) -> String {
    match (colour + colour / SERIES_COLOURS) % 4 {
        0 => format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\"/>"),
        1 => format!(
            "<rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"6.6\" height=\"6.6\"/>",
            x - 3.3,
            y - 3.3
        ),
        2 => format!("<path class=\"mark\" d=\"M{:.1} {:.1}l4.2 7.4h-8.4z\"/>", x, y - 4.6),
        _ => format!(
            "<path class=\"mark\" d=\"M{:.1} {:.1}l4.4 4.6l-4.4 4.6l-4.4 -4.6z\"/>",
            x,
            y - 4.6
        ),
    }
}

/// About how wide a text is at 12 pixels, generously.
fn text_width(text: &str) -> f64 {
    6.6 * text.chars().count() as f64
}

/// Lines of at most `letters` letters, broken between words.
fn wrapped(text: &str, letters: f64) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && (line.chars().count() + 1 + word.chars().count()) as f64 > letters {
            lines.push(word.into());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis {
            label: "x".into(),
            scale,
            format: |value| value.to_string(),
            ticks: Vec::new(),
            include: Vec::new(),
        }
    }

    #[test]
    fn logarithmic_ticks_are_decades_and_get_finer_where_there_are_few() {
        let ticks = |low: f64, high: f64| {
            Range {
                low,
                high,
                scale: Scale::Logarithmic,
            }
            .ticks(6)
        };
        assert_eq!(ticks(8.0, 20_000.0), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(ticks(9.0, 90.0), [10.0, 15.0, 20.0, 30.0, 50.0, 70.0]);
        assert_eq!(ticks(9.0, 900.0), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(ticks(18.0, 85.0), [20.0, 30.0, 40.0, 50.0, 60.0, 80.0]);
        assert!(ticks(1.0, 1e30).len() <= 7);
    }

    #[test]
    fn linear_ticks_are_round_and_within() {
        let ticks = Range {
            low: 0.83,
            high: 0.94,
            scale: Scale::Linear,
        }
        .ticks(6);
        let expected = [0.84, 0.86, 0.88, 0.9, 0.92, 0.94];
        assert_eq!(ticks.len(), expected.len());
        assert!(
            ticks
                .iter()
                .zip(expected)
                .all(|(tick, expected)| (tick - expected).abs() < 1e-12)
        );
    }

    #[test]
    fn a_range_ignores_what_it_cannot_show() {
        let range = Range::of([f64::NAN, -1.0, 0.0, 2.0, 8.0].into_iter(), &axis(Scale::Logarithmic));
        assert!(range.low > 1.0 && range.high < 20.0);
        let empty = Range::of(std::iter::empty(), &axis(Scale::Linear));
        assert!(empty.low < empty.high);
        let single = Range::of([5.0].into_iter(), &axis(Scale::Linear));
        assert!(single.low < 5.0 && single.high > 5.0 && single.place(5.0).is_finite());
    }

    #[test]
    fn one_wide_interval_does_not_flatten_a_linear_chart() {
        let point = |y: f64, whisker| Point {
            x: y,
            y,
            whisker,
            note: String::new(),
        };
        let chart = Chart {
            title: String::new(),
            subtitle: String::new(),
            x: axis(Scale::Linear),
            y: axis(Scale::Linear),
            series: vec![Series {
                name: "a".into(),
                drawing: Drawing::Line,
                colour: 0,
                variant: 0,
                points: vec![point(60.0, Some((-90.0, 210.0))), point(90.0, None)],
            }],
        };
        let svg = chart.inline_svg(WIDE, &Legend::of_series(&chart));
        let places: Vec<f64> = svg
            .split("cy=\"")
            .skip(1)
            .map(|circle| circle.split('"').next().unwrap().parse().unwrap())
            .collect();
        let plot = WIDE.height - BOTTOM - TOP;
        assert!((places[0] - places[1]).abs() > 0.25 * plot, "{places:?}");
        let whisker = svg
            .split("class=\"whisker\" d=\"M")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        for end in whisker.split(['V', ' ']).skip(1) {
            let end: f64 = end.parse().unwrap();
            assert!((TOP..=WIDE.height - BOTTOM).contains(&end), "{whisker}");
        }
    }

    #[test]
    fn every_mark_lies_inside_the_plot() {
        let point = |x: f64, y: f64| Point {
            x,
            y,
            whisker: Some((y * 0.9, y * 1.2)),
            note: "a < b".into(),
        };
        let chart = Chart {
            title: "Title".into(),
            subtitle: "Subtitle".into(),
            x: axis(Scale::Logarithmic),
            y: axis(Scale::Logarithmic),
            series: vec![Series {
                name: "one & only".into(),
                drawing: Drawing::Line,
                colour: 0,
                variant: 1,
                points: vec![point(64.0, 1e4), point(60_000.0, 1e7)],
            }],
        };
        let svg = chart.standalone_svg(WIDE);
        assert!(svg.contains("one &amp; only") && svg.contains("a &lt; b"));
        let mut marks = 0;
        for circle in svg.split("cx=\"").skip(1) {
            let number = |text: &str| text.split('"').next().unwrap().parse::<f64>().unwrap();
            let (x, y) = (number(circle), number(circle.split("cy=\"").nth(1).unwrap()));
            marks += 1;
            // The last one is the legend's.
            if marks <= 2 {
                assert!(
                    (LEFT..=WIDE.width - RIGHT).contains(&x) && (TOP..=WIDE.height - BOTTOM).contains(&y),
                    "{x} {y}"
                );
            }
        }
        assert_eq!(marks, 3);
    }

    /// (L + 0.05) / (L′ + 0.05) of the lighter over the darker, L the relative luminance of WCAG 2.
    fn contrast(variables: &str, one: &str, other: &str) -> f64 {
        let luminance = |name: &str| {
            let colour = variables.split(&format!("--{name}:#")).nth(1).unwrap();
            let channel = |place: usize| {
                let value = f64::from(u8::from_str_radix(&colour[place..place + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_and_series_are_readable_on_light_and_dark_pages() {
        for variables in [VARIABLES, DARK_VARIABLES] {
            for text in ["ink", "quiet", "s0"] {
                for ground in ["paper", "faint"] {
                    assert!(
                        contrast(variables, text, ground) >= 4.5,
                        "{text} on {ground} of {variables}"
                    );
                }
            }
            for colour in 0..SERIES_COLOURS {
                assert!(
                    contrast(variables, &format!("s{colour}"), "paper") >= 3.0,
                    "s{colour} of {variables}"
                );
            }
            assert!(contrast(variables, "reference", "paper") >= 3.0);
        }
    }

    #[test]
    fn long_subtitles_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7.0), ["one two", "three"]);
        assert_eq!(wrapped("", 7.0), [""]);
    }
}
