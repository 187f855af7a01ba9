//! Charts as data: axes and series of points. [`super::svg`] draws them; the module knows no colours.

use serde::{Deserialize, Serialize};

use crate::format::{count, number, percent, seconds, time};

/// Number of colours. They differ in lightness, and markers differ in shape.
pub(crate) const COLOURS: usize = 8;

/// Mapping of values to positions along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths.
    Logarithmic,
}

/// Text form of the values of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Three significant digits; large whole numbers in full.
    #[default]
    Number,
    /// Whole numbers.
    Count,
    /// Nanoseconds with a suitable unit.
    Time,
    /// Seconds with a suitable unit.
    Seconds,
    Percent,
}

impl Format {
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Number => number(value),
            Self::Count => count(value),
            Self::Time => time(value),
            Self::Seconds => seconds(value),
            Self::Percent => percent(value),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    pub scale: Scale,
    /// Text form of ticks and table entries.
    pub format: Format,
    /// Values to label; empty: chosen by the chart.
    pub ticks: Vec<f64>,
    /// Values that the range must contain.
    pub include: Vec<f64>,
}

impl Axis {
    /// An axis with ticks chosen by the chart.
    pub fn new(label: &str, scale: Scale, format: Format) -> Self {
        Self { label: label.to_owned(), scale, format, ticks: Vec::new(), include: Vec::new() }
    }

    pub fn linear(label: &str) -> Self {
        Self::new(label, Scale::Linear, Format::Number)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// Ends of the error bar.
    pub interval: Option<(f64, f64)>,
    /// Tooltip.
    pub note: String,
}

impl Point {
    /// A point with a tooltip.
    pub fn new(x: f64, y: f64, note: impl Into<String>) -> Self {
        Self { x, y, interval: None, note: note.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Markers joined by a line, with error bars.
    Line,
    /// A line without markers; intervals form a band.
    Curve,
    /// Markers alone, with error bars.
    Points,
    /// A dotted line without markers: a limit or a level.
    Reference,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the data table, and in the legend without [`Series::keys`].
    pub name: String,
    pub style: Style,
    /// Number of the colour and of the marker.
    pub colour: usize,
    /// Number of the dash and of the fill: 0 is solid and filled.
    pub variant: usize,
    /// Legend entries: the first names the colour, the second the dash. A series is drawn while all its entries are on.
    pub keys: Option<(String, String)>,
    /// In the order of the line.
    pub points: Vec<Point>,
}

impl Series {
    pub fn new(name: impl Into<String>, style: Style, colour: usize, points: Vec<Point>) -> Self {
        Self { name: name.into(), style, colour, variant: 0, keys: None, points }
    }

    /// The same series with another dash and fill.
    #[must_use]
    pub fn variant(mut self, variant: usize) -> Self {
        self.variant = variant;
        self
    }

    /// The same series with these legend entries; either may be empty.
    #[must_use]
    pub fn keys(mut self, colour: impl Into<String>, dash: impl Into<String>) -> Self {
        self.keys = Some((colour.into(), dash.into()));
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    /// Conditions of the measurement.
    pub subtitle: String,
    pub x: Axis,
    pub y: Axis,
    /// References are drawn below the other series.
    pub series: Vec<Series>,
    /// Legend entries that are off at first.
    pub hidden: Vec<String>,
}

impl Chart {
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), subtitle: subtitle.into(), x, y, series, hidden: Vec::new() }
    }
}

/// The least and the greatest of the values; infinite ones the wrong way round without any.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}
