//! Legends: what a reader may switch, and which of it each series of a chart needs.
//!
//! A series is drawn while all its entries are on. So one entry for each algorithm and one for each thread count switch
//! all their combinations, and a legend is as long as their sum, not their product.

use std::fmt::Write as _;

use super::bars::Bars;
use super::chart::{Chart, Drawing, Series};
use super::format::escape;

/// An entry of a legend.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    /// A short piece of the series as SVG: 28 by 12 pixels around (14, 0).
    pub(super) sample: String,
    /// Whether it is on at first.
    pub(super) shown: bool,
    /// Entries with the same number stand together.
    pub(super) group: usize,
}

/// The entries, and for each series those that it needs.
#[derive(Debug, Clone, Default)]
pub(super) struct Legend {
    pub(super) entries: Vec<Entry>,
    pub(super) keys: Vec<Vec<usize>>,
}

impl Legend {
    /// One entry a series.
    pub(super) fn of_series(chart: &Chart) -> Self {
        let mut legend = Self::default();
        for series in &chart.series {
            let key = legend.key(&series.name, 0, || series.sample());
            legend.keys.push(vec![key]);
        }
        legend
    }

    /// One entry a part of the bars.
    pub(super) fn of_bars(bars: &Bars) -> Self {
        let mut legend = Self::default();
        for (part, name) in bars.parts.iter().enumerate() {
            let key = legend.key(name, 0, || Bars::sample(part));
            legend.keys.push(vec![key]);
        }
        legend
    }

    /// One entry for each of the two things that tell the series of a chart apart: `apart` names the first (a colour)
    /// and the second (a dash) of a series; either may be empty.
    pub(super) fn of_pairs(chart: &Chart, apart: &[(String, String)]) -> Self {
        let mut legend = Self::default();
        for (series, (first, second)) in chart.series.iter().zip(apart) {
            let mut keys = Vec::new();
            if !first.is_empty() {
                let solid = Series {
                    variant: if series.drawing == Drawing::Reference {
                        series.variant
                    } else {
                        0
                    },
                    ..series.clone()
                };
                keys.push(legend.key(first, 0, || solid.sample()));
            }
            if !second.is_empty() {
                keys.push(legend.key(second, 1, || series.dash_sample()));
            }
            legend.keys.push(keys);
        }
        // What is the same for all series tells nothing apart; the title says it.
        for group in [1, 0] {
            let of_group: Vec<usize> = (0..legend.entries.len())
                .filter(|&entry| legend.entries[entry].group == group)
                .collect();
            if let [only] = of_group[..]
                && legend.entries.len() > 1
                && legend.keys.iter().all(|keys| keys.contains(&only))
            {
                legend.remove(only);
            }
        }
        legend
    }

    fn remove(&mut self, entry: usize) {
        self.entries.remove(entry);
        for keys in &mut self.keys {
            keys.retain(|&key| key != entry);
            for key in keys {
                *key -= usize::from(*key > entry);
            }
        }
    }

    fn key(&mut self, name: &str, group: usize, sample: impl FnOnce() -> String) -> usize {
        let known = self
            .entries
            .iter()
            .position(|entry| entry.name == name && entry.group == group);
        known.unwrap_or_else(|| {
            self.entries.push(Entry {
                name: name.to_owned(),
                sample: sample(),
                shown: true,
                group,
            });
            self.entries.len() - 1
        })
    }

    /// Turns entries of a group off at first, all but those that `keep` names.
    pub(super) fn show_only(&mut self, group: usize, keep: impl Fn(&str) -> bool) {
        for entry in self.entries.iter_mut().filter(|entry| entry.group == group) {
            entry.shown = keep(&entry.name);
        }
    }

    /// Whether a series is drawn at first.
    pub(super) fn shows(&self, series: usize) -> bool {
        self.keys[series].iter().all(|&key| self.entries[key].shown)
    }

    /// Whether some measured series has an entry of a reference: the reference then has its colour.
    pub(super) fn is_tinted(&self, chart: &Chart, series: usize) -> bool {
        self.keys[series].iter().any(|key| {
            self.entries[*key].group == 0
                && chart
                    .series
                    .iter()
                    .zip(&self.keys)
                    .any(|(other, keys)| other.drawing != Drawing::Reference && keys.contains(key))
        })
    }

    /// The buttons of a page.
    pub(super) fn html(&self) -> String {
        let mut html = String::new();
        let groups = self
            .entries
            .iter()
            .map(|entry| entry.group)
            .max()
            .map_or(0, |last| last + 1);
        for group in 0..groups {
            html.push_str("<div class=\"legend\" role=\"group\" aria-label=\"Switch series\">");
            let of_group = || {
                self.entries
                    .iter()
                    .enumerate()
                    .filter(|(_, entry)| entry.group == group)
            };
            for (key, entry) in of_group() {
                let _ = write!(
                    html,
                    "<button type=\"button\" aria-pressed=\"{}\" data-key=\"{key}\"><svg class=\"chart\" \
                     viewBox=\"0 -6 28 12\" aria-hidden=\"true\">{}</svg>{}</button>",
                    entry.shown,
                    entry.sample,
                    escape(&entry.name)
                );
            }
            if of_group().count() > 4 {
                html.push_str(
                    "<span class=\"switches\"><button type=\"button\" class=\"every\" data-all=\"true\">all</button>\
                     <button type=\"button\" class=\"every\" data-all=\"false\">none</button></span>",
                );
            }
            html.push_str("</div>");
        }
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{Axis, Scale};

    fn chart(series: &[(&str, usize)]) -> Chart {
        let axis = || Axis {
            label: String::new(),
            scale: Scale::Linear,
            format: |value| value.to_string(),
            ticks: Vec::new(),
            include: Vec::new(),
        };
        Chart {
            title: String::new(),
            subtitle: String::new(),
            x: axis(),
            y: axis(),
            series: series
                .iter()
                .map(|&(name, variant)| Series {
                    name: name.into(),
                    drawing: Drawing::Line,
                    colour: 0,
                    variant,
                    points: Vec::new(),
                })
                .collect(),
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(a, b)| (a.into(), b.into())).collect()
    }

    #[test]
    fn a_legend_is_as_long_as_the_sum_of_what_tells_series_apart() {
        let chart = chart(&[("a1", 0), ("a2", 1), ("b1", 0), ("b2", 1)]);
        let mut legend = Legend::of_pairs(&chart, &pairs(&[("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]));
        let names: Vec<&str> = legend.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "1", "2", "b"]);
        legend.show_only(1, |name| name == "2");
        assert_eq!(
            [0, 1, 2, 3].map(|series| legend.shows(series)),
            [false, true, false, true]
        );
        assert_eq!(legend.html().matches("aria-pressed=\"false\"").count(), 1);
    }

    #[test]
    fn what_all_series_share_is_no_entry() {
        let chart = chart(&[("a1", 0), ("b1", 0)]);
        let legend = Legend::of_pairs(&chart, &pairs(&[("a", "1 thread"), ("b", "1 thread")]));
        let names: Vec<&str> = legend.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(legend.keys, [[0], [1]]);
    }
}
