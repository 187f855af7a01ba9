//! Legends: entries that switch series. A series is drawn while all its entries are on, so a legend of two properties is
//! as long as the sum of their values, not the product.

use super::chart::{Chart, Series, Style};

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The look that stands before the name.
    pub(crate) sample: Sample,
    pub(crate) shown: bool,
    /// 0: what colours distinguish; 1: what dashes distinguish.
    pub(crate) group: usize,
}

/// Look of a legend entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) style: Style,
    /// None: the entry stands for a dash in any colour.
    pub(crate) colour: Option<usize>,
    pub(crate) variant: usize,
}

/// The entries, and for each series the places of those that switch it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Legend {
    pub(crate) entries: Vec<Entry>,
    pub(crate) keys: Vec<Vec<usize>>,
}

impl Legend {
    /// The legend of a chart. An entry that all series of a chart share is left out.
    pub(crate) fn of(chart: &Chart) -> Self {
        let mut legend = Self::default();
        for series in &chart.series {
            let keys = series.keys.as_ref();
            let (first, second) = keys.map_or((&*series.name, ""), |(first, second)| (first, second));
            let reference = series.style == Style::Reference;
            let sample = |colour, variant| Sample { style: series.style, colour, variant };
            let mut keys = Vec::new();
            if !first.is_empty() {
                let own = second.is_empty() || reference;
                let solid = if own { series.variant } else { 0 };
                keys.push(legend.entry(first, 0, sample(Some(series.colour), solid)));
            }
            if !second.is_empty() {
                let colour = reference.then_some(series.colour);
                keys.push(legend.entry(second, 1, sample(colour, series.variant)));
            }
            legend.keys.push(keys);
        }
        legend.remove_shared();
        for entry in &mut legend.entries {
            entry.shown = !chart.hidden.contains(&entry.name);
        }
        legend
    }

    fn remove_shared(&mut self) {
        for group in [1, 0] {
            let is_of_group = |&entry: &usize| self.entries[entry].group == group;
            let of_group: Vec<usize> = (0..self.entries.len()).filter(is_of_group).collect();
            if let [only] = of_group[..]
                && self.entries.len() > 1
                && self.keys.iter().all(|keys| keys.contains(&only))
            {
                self.entries.remove(only);
                for keys in &mut self.keys {
                    keys.retain(|&key| key != only);
                    keys.iter_mut().for_each(|key| *key -= usize::from(*key > only));
                }
            }
        }
    }

    fn entry(&mut self, name: &str, group: usize, sample: Sample) -> usize {
        let is_known = |entry: &Entry| entry.name == name && entry.group == group;
        let known = self.entries.iter().position(is_known);
        known.unwrap_or_else(|| {
            self.entries.push(Entry { name: name.to_owned(), sample, shown: true, group });
            self.entries.len() - 1
        })
    }

    /// True if a series is drawn at first.
    pub(crate) fn shows(&self, series: usize) -> bool {
        self.keys[series].iter().all(|&key| self.entries[key].shown)
    }

    /// True if a reference shares a colour entry with a measured series; it then has that series' colour.
    pub(crate) fn is_tinted(&self, all: &[Series], series: usize) -> bool {
        let measured = |key: &usize| {
            let mut others = all.iter().zip(&self.keys);
            others.any(|(other, keys)| other.style != Style::Reference && keys.contains(key))
        };
        let mut keys = self.keys[series].iter();
        keys.any(|key| self.entries[*key].group == 0 && measured(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::chart::Axis;

    fn chart(series: &[(&str, &str)]) -> Chart {
        let series = series.iter().map(|&(first, second)| {
            let name = format!("{first}{second}");
            let series = Series::new(name, Style::Line, 0, Vec::new());
            series.variant(usize::from(second == "2")).keys(first, second)
        });
        Chart::new("", "", Axis::linear(""), Axis::linear(""), series.collect())
    }

    fn names(legend: &Legend) -> Vec<&str> {
        legend.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn a_legend_is_as_long_as_the_sum_of_its_properties() {
        let mut chart = chart(&[("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]);
        chart.hidden = vec!["1".into()];
        let legend = Legend::of(&chart);
        assert_eq!(names(&legend), ["a", "1", "2", "b"]);
        let shown = [0, 1, 2, 3].map(|series| legend.shows(series));
        assert_eq!(shown, [false, true, false, true]);
    }

    #[test]
    fn an_entry_that_all_series_share_is_left_out() {
        let legend = Legend::of(&chart(&[("a", "1 thread"), ("b", "1 thread")]));
        assert_eq!(names(&legend), ["a", "b"]);
        assert_eq!(legend.keys, [[0], [1]]);
    }
}
