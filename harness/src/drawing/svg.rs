//! Drawing of charts as SVG. Series have the classes `s0` to `s7`, and a style sheet gives each class a colour for light
//! and for dark pages. This and legends that switch series are not offered by plotting libraries.

use maud::{Markup, PreEscaped, html};

use super::chart::{Axis, COLOURS, Chart, Format, Point, Scale, Series, Style, ends};
use super::legend::{Legend, Sample};
use crate::format::{minus, three_digits, wrapped};

/// Colours of a light page.
pub(crate) const LIGHT: &str = "\
--ink:#1d2430;--quiet:#5a6473;--line:#d9dee6;--faint:#eceff4;--paper:#ffffff;--reference:#6b7686;\
--s0:#1667b0;--s1:#c4500c;--s2:#0f7d5c;--s3:#9a3f86;--s4:#8a6a00;--s5:#2f8fc4;--s6:#6a4cc0;--s7:#4d5966;";
/// Colours of a dark page.
pub(crate) const DARK: &str = "\
--ink:#e8ecf2;--quiet:#a3adbb;--line:#3a4250;--faint:#272e39;--paper:#171b22;--reference:#8f9bab;\
--s0:#62aef0;--s1:#ff9a57;--s2:#45c79b;--s3:#e28fce;--s4:#dcb94a;--s5:#96d4f5;--s6:#b6a0f8;--s7:#b4bfcb;";
pub(crate) const STYLE: &str = "\
.chart{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;font-size:12px}\
.chart text{fill:var(--quiet)}.chart .title{fill:var(--ink);font-size:15px;font-weight:600}\
.chart .group{fill:var(--ink);font-weight:600;font-size:13px}\
.chart .subtitle{font-size:12px}.chart .axis-label{fill:var(--quiet)}\
.chart .grid{stroke:var(--faint);stroke-width:1;fill:none}.chart .axis{stroke:var(--line);stroke-width:1;fill:none}\
.chart .mark{stroke:var(--c);fill:var(--c);stroke-width:1.6}.chart .hollow .mark{fill:var(--paper)}\
.chart .path{stroke:var(--c);stroke-width:1.8;fill:none;stroke-linejoin:round}.chart .band{fill:var(--c);opacity:.18}\
.chart .whisker{stroke:var(--c);stroke-width:1.2;opacity:.55}\
.chart .name{fill:var(--c);font-weight:600}.chart .reference .path{stroke-width:1.4;stroke-linecap:round}\
.chart .s0{--c:var(--s0)}.chart .s1{--c:var(--s1)}.chart .s2{--c:var(--s2)}.chart .s3{--c:var(--s3)}\
.chart .s4{--c:var(--s4)}.chart .s5{--c:var(--s5)}.chart .s6{--c:var(--s6)}.chart .s7{--c:var(--s7)}\
.chart .reference:not(.tinted){--c:var(--reference)}.chart .background{fill:var(--paper)}";

/// Width and height of a plot with its labels, in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    width: f64,
    height: f64,
    /// Class of pictures of this size on a page.
    class: &'static str,
}

/// For wide windows.
pub(crate) const WIDE: Size = Size { width: 1180.0, height: 460.0, class: "wide" };
/// For a picture of its own.
const ALONE: Size = Size { width: 860.0, height: 430.0, class: "" };
/// For phones.
pub(crate) const NARROW: Size = Size { width: 360.0, height: 330.0, class: "narrow" };
/// A panel of a grid.
const PANEL: Size = Size { width: 360.0, height: 260.0, class: "" };
/// Most panels in a row of a grid: with more it would be wider than a page.
const COLUMNS: usize = 3;
const TITLE_LETTERS: usize = 38;

const LEFT: f64 = 76.0;
const RIGHT: f64 = 18.0;
/// Least distance of two names.
const NAME_ROW: f64 = 15.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 50.0;
const LEGEND_ROW: f64 = 22.0;
const TITLE: f64 = 52.0;

/// A length with one decimal.
fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// The interval of values that an axis spans.
struct Range {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Range {
    /// The range of the values and of what the axis includes, with a margin of a twentieth.
    fn of(values: impl Iterator<Item = f64>, axis: &Axis) -> Self {
        let scale = axis.scale;
        let usable = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) = ends(values.chain(axis.include.iter().copied()).filter(usable));
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if scale == Scale::Logarithmic {
            let margin = (0.05 * (high.ln() - low.ln())).exp().max(1.1);
            // Diverged runs come near the ends of what a number can be.
            (low, high) = ((low / margin).max(f64::MIN_POSITIVE), (high * margin).min(f64::MAX));
        } else {
            let margin = ((high - low) * 0.05).max(1e-9 * high.abs().max(1e-9));
            // Zero is a floor without a margin below it.
            low = if low >= 0.0 && low - margin < 0.0 { low.min(0.0) } else { low - margin };
            high += margin;
        }
        Self { low, high, scale }
    }

    /// 0 at the low end, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        }
    }

    /// Round values inside, about `wanted` of them.
    fn ticks(&self, wanted: usize) -> Vec<f64> {
        let ticks = if self.scale == Scale::Linear { Vec::new() } else { self.logarithmic_ticks(wanted) };
        // A short piece of a logarithmic axis may hold one of its round values, or none.
        if ticks.len() > 1 { ticks } else { self.linear_ticks(wanted) }
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let raw = (self.high - self.low) / wanted.max(1) as f64;
        let power = 10_f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| *step >= raw).unwrap_or(raw);
        // The tolerance keeps a tick at the very end.
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|place| place as f64 * step).collect()
    }

    fn logarithmic_ticks(&self, wanted: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within = |factors: &[f64]| -> Vec<f64> {
            (first..=last)
                .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
                .filter(|value| (self.low..=self.high).contains(value))
                .collect()
        };
        let decades = within(&[1.0]);
        if decades.len() > wanted {
            let every = decades.len().div_ceil(wanted);
            return decades.into_iter().step_by(every).collect();
        }
        // Factors between 1, 2 and 5 only where these are fewer than three ticks.
        let fine = within(&[1.0, 2.0, 5.0]);
        let finer: [&[f64]; 2] = [&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
        let finer = finer.into_iter().map(within);
        let mut finer = finer.filter(|_| fine.len() < 3).chain([fine.clone(), within(&[1.0, 3.0])]);
        finer.find(|ticks| ticks.len() <= wanted).unwrap_or(decades)
    }
}

struct Frame<'a> {
    chart: &'a Chart,
    size: Size,
    /// Space at the right.
    margin: f64,
    x: Range,
    y: Range,
}

impl<'a> Frame<'a> {
    fn of(chart: &'a Chart, size: Size) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let x = Range::of(points().map(|point| point.x), &chart.x);
        // On a linear axis error bars extend the range by at most the range of the points, and are cut there.
        let (least, most) = ends(points().map(|point| point.y));
        let reach = match chart.y.scale {
            Scale::Linear => (most - least).max(0.05 * most.abs()),
            Scale::Logarithmic => f64::INFINITY,
        };
        let y_values = points().flat_map(|point| {
            let (low, high) = bar(point, chart.y.scale).unwrap_or((point.y, point.y));
            [point.y, low.max(least - reach), high.min(most + reach)]
        });
        let y = Range::of(y_values, &chart.y);
        let margin = RIGHT;
        Self { chart, size, margin, x, y }
    }

    /// The same frame with space for the names of series at the right, if there are several.
    fn with_names(self, legend: &Legend) -> Self {
        let names = self.names(legend);
        let widest = names.iter().map(|(_, name, _)| 1.1 * text_width(name)).fold(0.0, f64::max);
        // Long names leave no space for the lines; the legend has them too.
        let fits = names.len() > 1 && widest < 0.3 * self.size.width;
        let margin = if fits { RIGHT + 10.0 + widest } else { RIGHT };
        Self { margin, ..self }
    }

    fn right(&self) -> f64 {
        self.size.width - self.margin
    }

    /// The names of the series that are drawn at first, with their heights at the right: those of their last points, moved apart.
    fn names(&self, legend: &Legend) -> Vec<(usize, &str, f64)> {
        let mut names: Vec<(usize, &str, f64)> = Vec::new();
        let series = self.chart.series.iter().enumerate();
        let is_named = |series: &Series| matches!(series.style, Style::Line | Style::Curve);
        for (number, series) in series.filter(|(number, series)| is_named(series) && legend.shows(*number)) {
            let name = series.keys.as_ref().map_or(&*series.name, |(first, _)| first);
            if let Some(last) = series.points.last().filter(|last| last.y.is_finite())
                && !name.is_empty()
                && names.iter().all(|(_, known, _)| *known != name)
            {
                names.push((number, name, self.up(last.y)));
            }
        }
        names.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut free = TOP;
        for (_, _, height) in &mut names {
            *height = height.max(free);
            free = *height + NAME_ROW;
        }
        let mut free = self.bottom();
        for (_, _, height) in names.iter_mut().rev() {
            *height = height.min(free);
            free = *height - NAME_ROW;
        }
        names
    }

    fn bottom(&self) -> f64 {
        self.size.height - BOTTOM
    }

    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (self.right() - LEFT)
    }

    fn up(&self, value: f64) -> f64 {
        self.bottom() - self.y.place(value).max(0.0).min(1.0) * (self.bottom() - TOP)
    }

    fn drawn(&self, legend: &Legend) -> Markup {
        let order = |reference: bool| {
            let series = self.chart.series.iter().enumerate();
            series.filter(move |(_, series)| (series.style == Style::Reference) == reference)
        };
        let names = if self.margin > RIGHT { self.names(legend) } else { Vec::new() };
        html! {
            (self.axes())
            @for (number, series) in order(true).chain(order(false)) {
                @let keys: Vec<String> = legend.keys[number].iter().map(ToString::to_string).collect();
                @let tinted = series.style == Style::Reference && legend.is_tinted(&self.chart.series, number);
                g class={ "series " (classes(series.style, Some(series.colour), series.variant))
                    @if tinted { " tinted" } @if !legend.shows(number) { " off" } } data-keys=(keys.join(" ")) {
                    (self.series(series))
                    @if let Some((_, name, height)) = names.iter().find(|(named, ..)| *named == number) {
                        text.name x=(px(self.right() + 10.0)) y=(px(height + 4.0)) { (name) }
                    }
                }
            }
        }
    }

    fn axes(&self) -> Markup {
        let (chart, right, bottom) = (self.chart, self.right(), self.bottom());
        let ticks = |axis: &Axis, range: &Range, wanted: f64| match axis.ticks[..] {
            [] => range.ticks((wanted as usize).max(2)),
            _ => axis.ticks.clone(),
        };
        let widest = text_width(&chart.x.format.show(self.x.high)).max(48.0);
        let (across, up) = (
            ticks(&chart.x, &self.x, (right - LEFT) / (widest + 12.0)),
            ticks(&chart.y, &self.y, self.size.height / 55.0),
        );
        // The name of the axis stands left of them.
        let short = |tick: f64, text: String| {
            let is_long = text_width(&text) > LEFT - 24.0 || tick.abs() >= 1e16;
            let is_plain = matches!(chart.y.format, Format::Number | Format::Count);
            let tick = format!("{tick:.3e}").parse().unwrap_or(tick);
            if is_long && is_plain { format!("{tick:e}") } else { text }
        };
        // Labels that would overlap are left out.
        let mut free = f64::NEG_INFINITY;
        let mut label = |value: f64, text: &str| {
            let place = self.across(value);
            let half = text_width(text) / 2.0;
            (place - half > free).then(|| {
                free = place + half + 6.0;
                let inside = place.min(self.size.width - half);
                html! { text x=(px(inside)) y=(px(bottom + 18.0)) text-anchor="middle" { (text) } }
            })
        };
        html! {
            @for (&tick, text) in up.iter().zip(texts(&chart.y, &up)) {
                @let place = self.up(tick);
                path.grid d={ "M" (LEFT) " " (px(place)) "H" (right) } {}
                text x=(px(LEFT - 8.0)) y=(px(place + 4.0)) text-anchor="end" { (short(tick, text)) }
            }
            @for (&tick, text) in across.iter().zip(texts(&chart.x, &across)) {
                path.grid d={ "M" (px(self.across(tick))) " " (TOP) "V" (bottom) } {}
                @if let Some(label) = label(tick, &text) { (label) }
            }
            path.axis d={ "M" (LEFT) " " (TOP) "V" (bottom) "H" (right) } {}
            text.axis-label x=(px(f64::midpoint(LEFT, right))) y=(px(self.size.height - 10.0)) text-anchor="middle" {
                (chart.x.label)
            }
            text.axis-label transform={ "translate(12 " (px(f64::midpoint(TOP, bottom))) ") rotate(-90)" }
                text-anchor="middle" { (chart.y.label) }
        }
    }

    fn series(&self, series: &Series) -> Markup {
        let finite = || series.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite());
        let line = |points: &mut dyn Iterator<Item = (f64, f64)>| {
            let points = points.map(|(x, y)| format!("{:.1} {:.1}", self.across(x), self.up(y)));
            format!("M{}", points.collect::<Vec<_>>().join("L"))
        };
        let ends = || finite().filter_map(|point| Some((point.x, bar(point, self.y.scale)?)));
        let band = series.style == Style::Curve && ends().count() > 1;
        let marks = matches!(series.style, Style::Line | Style::Points);
        html! {
            @if band {
                @let mut outline = ends().map(|(x, ends)| (x, ends.1)).chain(ends().map(|(x, ends)| (x, ends.0)).rev());
                path.band d={ (line(&mut outline)) "Z" } {}
            }
            @if series.style != Style::Points && series.points.len() > 1 {
                @let path = line(&mut finite().map(|point| (point.x, point.y)));
                path.path d=(path) stroke-dasharray=[dashes(series.style, series.variant)] {}
            }
            @if marks {
                @for point in finite() { (self.mark(series.colour, point)) }
            }
        }
    }

    fn mark(&self, colour: usize, point: &Point) -> Markup {
        let (x, y) = (self.across(point.x), self.up(point.y));
        html! {
            @if let Some((low, high)) = bar(point, self.y.scale) {
                path.whisker d={ "M" (px(x)) " " (px(self.up(low))) "V" (px(self.up(high))) } {}
            }
            (pointed(&point.note, &marker(colour, x, y)))
        }
    }
}

/// The ends of a point's error bar. A logarithmic axis has no place for an end below 0: it is drawn a decade below the point.
fn bar(point: &Point, scale: Scale) -> Option<(f64, f64)> {
    let (low, high) = point.interval?;
    let has_place = scale == Scale::Linear || low > 0.0;
    Some((if has_place { low } else { 0.1 * point.y }, high))
}

/// The texts of ticks; with as many decimals as their distance has, where three digits would move a tick.
fn texts(axis: &Axis, ticks: &[f64]) -> Vec<String> {
    let (factor, unit) = if axis.format == Format::Percent { (100.0, " %") } else { (1.0, "") };
    let step = ticks.windows(2).map(|pair| factor * (pair[1] - pair[0])).fold(f64::INFINITY, f64::min);
    let is_moved = |tick: &f64| {
        let value = factor * tick;
        let shown = three_digits(value).parse().unwrap_or(value);
        (value - shown).abs() > (0.1 * step).max(1e-9 * value.abs())
    };
    let has_decimals = matches!(axis.format, Format::Number | Format::Percent) && ticks.iter().any(is_moved);
    let decimals = (-step.log10() - 1e-6).ceil().max(0.0) as usize;
    let text = |&tick: &f64| {
        if has_decimals { minus(&format!("{:.decimals$}{unit}", factor * tick)) } else { axis.format.show(tick) }
    };
    ticks.iter().map(text).collect()
}

/// A mark with its tooltip.
fn pointed(note: &str, mark: &Markup) -> Markup {
    html! { g.point { title { (note) } (mark) } }
}

/// Colour and fill as classes.
fn classes(style: Style, colour: Option<usize>, variant: usize) -> String {
    let reference = style == Style::Reference || colour.is_none();
    let reference = if reference { "reference " } else { "" };
    let colour = colour.map_or_else(String::new, |colour| format!("s{}", colour % COLOURS));
    let hollow = if variant == 0 { "" } else { " hollow" };
    format!("{reference}{colour}{hollow}")
}

fn dashes(style: Style, variant: usize) -> Option<&'static str> {
    match (style, variant) {
        (Style::Reference, 1) => Some("1 7"),
        (Style::Reference, 2) => Some("9 4 1 4"),
        (Style::Reference, _) => Some("2 4"),
        (_, 0) => None,
        (_, 1) => Some("6 4"),
        (_, 2) => Some("2 3"),
        _ => Some("8 3 2 3"),
    }
}

/// The sample before a legend entry, 28 by 12 pixels around (14, 0).
pub(crate) fn sample(Sample { style, colour, variant }: Sample) -> Markup {
    html! {
        g class=(classes(style, colour, variant)) {
            @if style != Style::Points { path.path d="M0 0H28" stroke-dasharray=[dashes(style, variant)] {} }
            @if matches!(style, Style::Line | Style::Points) { (marker(colour.unwrap_or(0), 14.0, 0.0)) }
        }
    }
}

/// The marker of a colour: circle, square, triangle or diamond. Colours repeat with another marker, so 32 series differ.
fn marker(colour: usize, x: f64, y: f64) -> Markup {
    html! {
        @match (colour + colour / COLOURS) % 4 {
            0 => circle.mark cx=(px(x)) cy=(px(y)) r="3.6" {},
            1 => rect.mark x=(px(x - 3.3)) y=(px(y - 3.3)) width="6.6" height="6.6" {},
            2 => path.mark d={ "M" (px(x)) " " (px(y - 4.6)) "l4.2 7.4h-8.4z" } {},
            _ => path.mark d={ "M" (px(x)) " " (px(y - 4.6)) "l4.4 4.6l-4.4 4.6l-4.4 -4.6z" } {},
        }
    }
}

/// Approximate width of a text of 12 pixels, at least the true one.
fn text_width(text: &str) -> f64 {
    6.6 * text.chars().count() as f64
}

/// The legend in rows of the given width, and the number of rows. Each group starts a row.
fn legend_rows(legend: &Legend, width: f64) -> (Markup, usize) {
    let used = |entry: usize| legend.keys.iter().any(|keys| keys.contains(&entry));
    let entries = legend.entries.iter().enumerate();
    let mut entries: Vec<_> = entries.filter(|(key, entry)| entry.shown && used(*key)).collect();
    // A single entry of the second group distinguishes nothing.
    let alone = entries.iter().filter(|(_, entry)| entry.group == 1).count() == 1;
    entries.retain(|(_, entry)| entry.group == 0 || !alone);
    entries.sort_by_key(|(_, entry)| entry.group);
    let (mut row, mut x, mut group) = (0_u32, RIGHT, 0);
    let mut placed = Vec::new();
    for (_, entry) in entries {
        let needed = 38.0 + text_width(&entry.name) + 18.0;
        if x > RIGHT && (x + needed > width - RIGHT || entry.group != group) {
            (row, x) = (row + 1, RIGHT);
        }
        group = entry.group;
        let place = format!("translate({x:.1} {:.1})", 12.0 + LEGEND_ROW * f64::from(row));
        placed.push((place, entry));
        x += needed;
    }
    let rows = if placed.is_empty() { 0 } else { row as usize + 1 };
    let svg = html! {
        @for (place, entry) in placed {
            g transform=(place) { (sample(entry.sample)) text x="36" y="4" { (entry.name) } }
        }
    };
    (svg, rows)
}

/// A document of its own: style, title, subtitle, plot and legend.
fn document(title: &str, subtitle: &str, (width, height): (f64, f64), plot: &Markup, legend: &Legend) -> String {
    let (legend, rows) = legend_rows(legend, width);
    let subtitle = wrapped(subtitle, ((width - 2.0 * RIGHT) / 6.2) as usize);
    let top = TITLE + 16.0 * (subtitle.len().saturating_sub(1)) as f64;
    let whole = format!("{:.0}", top + height + LEGEND_ROW * rows as f64 + 12.0);
    let style = format!("svg{{{LIGHT}}}@media (prefers-color-scheme:dark){{svg{{{DARK}}}}}{STYLE}");
    let svg = html! {
        svg.chart xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (whole) } width=(width) height=(whole)
            role="img" aria-labelledby="t" {
            title id="t" { (title) }
            style { (PreEscaped(style)) }
            rect.background width=(width) height=(whole) {}
            text.title x=(RIGHT) y="24" { (title) }
            @for (place, line) in subtitle.iter().enumerate() {
                text.subtitle x=(RIGHT) y=(42 + 16 * place) { (line) }
            }
            g transform={ "translate(0 " (top) ")" } { (plot) }
            g transform={ "translate(0 " (top + height) ")" } { (legend) }
        }
    };
    format!("{}\n", svg.into_string())
}

/// An SVG element of a page. It is focusable: arrow keys select marks.
fn inline(title: &str, subtitle: &str, (width, height, class): (f64, f64, &str), content: &Markup) -> Markup {
    html! {
        svg class={ "chart " (class) } tabindex="0" viewBox={ "0 0 " (width) " " (height) } role="img"
            aria-label={ (title) ". " (subtitle) } xmlns="http://www.w3.org/2000/svg" { (content) }
    }
}

impl Chart {
    /// The plot for a page with its own style, title and legend. The `data-keys` of a series are its legend entries.
    pub(crate) fn inline_svg(&self, size: Size, legend: &Legend) -> Markup {
        let frame = Frame::of(self, size);
        let is_wide = size.class == WIDE.class;
        let plot = if is_wide { frame.with_names(legend) } else { frame }.drawn(legend);
        inline(&self.title, &self.subtitle, (size.width, size.height, size.class), &plot)
    }

    /// The picture as a document of its own, with the series that are on at first. More lines than colours are named at their ends,
    /// without a legend.
    pub fn svg(&self) -> String {
        let (chart, mut legend) = self.visible();
        let mut frame = Frame::of(&chart, ALONE);
        let is_line = |series: &Series| series.style == Style::Line && series.keys.is_none();
        let named = chart.series.len() > COLOURS && chart.series.iter().all(is_line);
        if named {
            frame = frame.with_names(&legend);
        }
        let plot = frame.drawn(&legend);
        if named {
            legend.entries.clear();
            legend.keys.clear();
        }
        document(&self.title, &self.subtitle, (ALONE.width, ALONE.height), &plot, &legend)
    }

    /// The chart and its legend without the series that are off at first.
    fn visible(&self) -> (Self, Legend) {
        let mut legend = Legend::of(self);
        let shown: Vec<usize> = (0..self.series.len()).filter(|&series| legend.shows(series)).collect();
        let series = shown.iter().map(|&series| self.series[series].clone()).collect();
        legend.keys = shown.iter().map(|&series| legend.keys[series].clone()).collect();
        (Self { series, ..self.clone() }, legend)
    }
}

/// Charts as panels of one picture, row by row, with one legend for all.
pub(crate) fn grid_svg(title: &str, columns: usize, charts: &[&Chart]) -> String {
    let columns = columns.clamp(1, charts.len().clamp(1, COLUMNS));
    let titles: Vec<Vec<String>> = charts.iter().map(|chart| wrapped(&chart.title, TITLE_LETTERS)).collect();
    let lines = titles.iter().map(Vec::len).max().unwrap_or(1);
    let above = 15.0 * lines as f64;
    let height = PANEL.height + above + 7.0;
    let series = charts.iter().flat_map(|chart| &chart.series).filter(|series| !series.name.is_empty()).cloned();
    let all = Chart::new("", "", Axis::linear(""), Axis::linear(""), series.collect());
    let panels = html! {
        @for (place, chart) in charts.iter().enumerate() {
            @let (row, column) = ((place / columns) as f64, (place % columns) as f64);
            g transform=(format!("translate({} {})", PANEL.width * column, height * row)) {
                @for (line, text) in titles[place].iter().enumerate() {
                    text.group x=(px(PANEL.width / 2.0 + 20.0)) y=(10 + 15 * line) text-anchor="middle" { (text) }
                }
                g transform={ "translate(0 " (above) ")" } { (Frame::of(chart, PANEL).drawn(&Legend::of(chart))) }
            }
        }
    };
    let size = (PANEL.width * columns as f64, height * charts.len().div_ceil(columns) as f64);
    document(title, "", size, &panels, &Legend::of(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        let start = format!(" {attribute}=\"");
        let values = svg.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap());
        values.map(|value| value.parse().unwrap()).collect()
    }

    fn logarithmic() -> Axis {
        Axis::new("", Scale::Logarithmic, Format::Number)
    }

    fn between(low: f64, high: f64, point: Point) -> Point {
        Point { interval: Some((low, high)), ..point }
    }

    fn linear(points: Vec<Point>) -> Chart {
        let series = vec![Series::new("a", Style::Line, 0, points)];
        Chart::new("", "", Axis::linear(""), Axis::linear(""), series)
    }

    #[test]
    fn logarithmic_ticks_are_decades_and_finer_where_those_are_few() {
        let scale = Scale::Logarithmic;
        let ticks = |low: f64, high: f64| Range { low, high, scale }.ticks(6);
        assert_eq!(ticks(8.0, 20_000.0), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(ticks(9.0, 90.0), [10.0, 20.0, 50.0]);
        assert_eq!(ticks(14_500.0, 70_400.0), [20_000.0, 30_000.0, 40_000.0, 50_000.0, 60_000.0]);
        assert_eq!(ticks(9.0, 900.0), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(ticks(18.0, 85.0), [20.0, 30.0, 40.0, 50.0, 60.0, 80.0]);
        assert!(ticks(1.0, 1e30).len() <= 7);
        // Where decades are left out, the first that the axis has stays.
        let few = Range { low: 0.005, high: 200.0, scale }.ticks(4);
        assert_eq!(few, [0.01, 1.0, 100.0]);
        // Between 6 and 8 no factor of a decade lies.
        let short = ticks(6.1, 6.9);
        assert!(
            short.len() == 4 && short.iter().zip([6.2, 6.4, 6.6, 6.8]).all(|(a, b)| (a - b).abs() < 1e-9),
            "{short:?}"
        );
    }

    #[test]
    fn values_near_the_ends_of_numbers_have_a_range_and_short_labels() {
        for (low, high) in [(1e-300, 1e308), (2.0, 1e80)] {
            let chart = linear([low, high].map(|value| Point::new(value, value, "")).to_vec());
            let chart = Chart::new("", "", logarithmic(), logarithmic(), chart.series);
            let svg = chart.inline_svg(WIDE, &Legend::of(&chart)).into_string();
            let labels: Vec<&str> = svg.split("text-anchor=\"end\">").skip(1).collect();
            let labels: Vec<&str> = labels.iter().map(|label| label.split('<').next().unwrap()).collect();
            assert!(labels.len() > 2 && labels.iter().all(|label| label.len() < 7), "{labels:?}");
        }
    }

    #[test]
    fn ticks_have_the_decimals_that_tell_them_apart() {
        let shown = |format, ticks: &[f64]| texts(&Axis::new("", Scale::Linear, format), ticks);
        assert_eq!(shown(Format::Number, &[84.75, 84.8, 84.85]), ["84.75", "84.80", "84.85"]);
        assert_eq!(shown(Format::Percent, &[0.9995, 1.0]), ["99.95 %", "100.00 %"]);
        assert_eq!(shown(Format::Number, &[-84.75, -84.7]), ["−84.75", "−84.70"]);
        assert_eq!(shown(Format::Number, &[0.03125, 0.5, 12_345.0]), ["0.0312", "0.5", "12\u{202f}345"]);
        assert_eq!(shown(Format::Number, &[1e-8, 1.0, 1e8]).len(), 3);
        assert_eq!(shown(Format::Number, &[84.756]), ["84.8"]);
    }

    #[test]
    fn an_error_bar_that_reaches_below_0_is_cut_on_a_logarithmic_axis_alone() {
        let point = between(-2.0, 3.0, Point::new(1.0, 1.0, ""));
        assert_eq!(bar(&point, Scale::Logarithmic), Some((0.1, 3.0)));
        assert_eq!(bar(&point, Scale::Linear), point.interval);
    }

    #[test]
    fn curves_are_named_at_their_ends() {
        let curve = |name: &str, y: f64| {
            Series::new(name, Style::Curve, 0, vec![Point::new(0.0, y, ""), Point::new(1.0, y, "")])
        };
        let series = vec![curve("first", 1.0), curve("second", 2.0)];
        let chart = Chart::new("", "", Axis::linear(""), Axis::linear(""), series);
        let svg = chart.inline_svg(WIDE, &Legend::of(&chart)).into_string();
        assert!(svg.contains(">first</text>") && svg.contains(">second</text>"), "{svg}");
    }

    #[test]
    fn every_tick_has_its_label_and_long_ones_are_short() {
        let chart = linear([1e3, 1e7].map(|x| Point::new(x, x, "")).to_vec());
        let chart = Chart::new("", "", logarithmic(), logarithmic(), chart.series);
        for size in [WIDE, NARROW] {
            let svg = chart.inline_svg(size, &Legend::of(&chart)).into_string();
            let lines = svg.matches("class=\"grid\"").count() - svg.matches("text-anchor=\"end\"").count();
            // Two are the names of the axes.
            assert_eq!(svg.matches("text-anchor=\"middle\"").count(), 2 + lines, "{svg}");
            assert!(lines > 1 && svg.contains(">1e7<"), "{svg}");
        }
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        let (low, high, scale) = (0.83, 0.94, Scale::Linear);
        let ticks = Range { low, high, scale }.ticks(6);
        let expected = [0.84, 0.86, 0.88, 0.9, 0.92, 0.94];
        assert_eq!(ticks.len(), expected.len());
        let mut pairs = ticks.iter().zip(expected);
        assert!(pairs.all(|(tick, expected)| (tick - expected).abs() < 1e-12));
    }

    #[test]
    fn a_range_ignores_values_without_a_place() {
        let range = Range::of([f64::NAN, -1.0, 0.0, 2.0, 8.0].into_iter(), &logarithmic());
        assert!(range.low > 1.0 && range.high < 20.0);
        let empty = Range::of(std::iter::empty(), &Axis::linear(""));
        assert!(empty.low < empty.high);
        let single = Range::of([5.0].into_iter(), &Axis::linear(""));
        assert!(single.low < 5.0 && single.high > 5.0 && single.place(5.0).is_finite());
    }

    #[test]
    fn one_wide_interval_does_not_flatten_a_linear_chart() {
        let chart = linear(vec![between(-90.0, 210.0, Point::new(60.0, 60.0, "")), Point::new(90.0, 90.0, "")]);
        let svg = chart.inline_svg(WIDE, &Legend::of(&chart)).into_string();
        let places = numbers(&svg, "cy");
        let bottom = WIDE.height - BOTTOM;
        assert!((places[0] - places[1]).abs() > 0.25 * (bottom - TOP), "{places:?}");
        let whisker = svg.split("class=\"whisker\" d=\"M").nth(1).unwrap();
        let whisker = whisker.split('"').next().unwrap();
        for end in whisker.split(['V', ' ']).skip(1) {
            assert!((TOP..=bottom).contains(&end.parse().unwrap()), "{whisker}");
        }
    }

    #[test]
    fn every_mark_lies_inside_the_plot_and_text_is_escaped() {
        let point = |x: f64, y: f64| between(y * 0.9, y * 1.2, Point::new(x, y, "a < b"));
        let points = vec![point(64.0, 1e4), point(60_000.0, 1e7), point(f64::NAN, 1.0)];
        let series = vec![Series::new("one & only", Style::Line, 0, points).variant(1)];
        let chart = Chart::new("Title", "Sub", logarithmic(), logarithmic(), series);
        let svg = chart.svg();
        assert!(svg.contains("one &amp; only") && svg.contains("a &lt; b") && !svg.contains("NaN"));
        // The last marker is the legend's.
        let (x, y) = (numbers(&svg, "cx"), numbers(&svg, "cy"));
        assert_eq!(x.len(), 3);
        for (x, y) in x.iter().zip(&y).take(2) {
            assert!((LEFT..=WIDE.width - RIGHT).contains(x), "{x}");
            assert!((TOP..=WIDE.height - BOTTOM).contains(y), "{y}");
        }
    }

    #[test]
    fn a_grid_has_a_panel_for_each_chart_and_one_legend() {
        let point = |x: f64| between(x, x + 2.0, Point::new(x, x + 1.0, ""));
        let points = vec![point(1.0), point(2.0)];
        let y = Axis::new("", Scale::Linear, Format::Percent);
        let series = vec![Series::new("a", Style::Curve, 0, points)];
        let title = format!("panel {}", "of a long title ".repeat(4));
        let chart = Chart::new(title, "", Axis::linear("x"), y, series);
        let svg = grid_svg("whole", 4, &[&chart; 4]);
        assert_eq!(svg.matches("class=\"group\"").count(), 8, "in two lines");
        assert!(svg.contains(" width=\"1080\""));
        let bands = svg.matches("class=\"band\"").count();
        assert_eq!((svg.matches(">a<").count(), bands), (1, 4));
    }

    /// (L + 0.05) / (L′ + 0.05) of the lighter over the darker, L the relative luminance of WCAG 2.
    fn contrast(variables: &str, one: &str, other: &str) -> f64 {
        let luminance = |name: &str| {
            let colour = variables.split(&format!("--{name}:#")).nth(1).unwrap();
            let channel = |place: usize| {
                let value = f64::from(u8::from_str_radix(&colour[place..place + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_and_series_are_readable_on_light_and_dark_pages() {
        for variables in [LIGHT, DARK] {
            let texts = ["ink", "quiet", "s0"].map(str::to_owned);
            let texts = texts.iter().flat_map(|text| [(text, "paper", 4.5), (text, "faint", 4.5)]);
            let colours: Vec<String> = (0..COLOURS).map(|colour| format!("s{colour}")).collect();
            for (one, ground, least) in texts.chain(colours.iter().map(|colour| (colour, "paper", 3.0))) {
                assert!(contrast(variables, one, ground) >= least, "{one} on {ground} of {variables}");
            }
            assert!(contrast(variables, "reference", "paper") >= 3.0);
        }
    }
}
