//! Stacked bars: where the time of a round goes, one bar a configuration, all bars as long as the whole.

use std::fmt::Write as _;

use super::chart::{SERIES_COLOURS, Size};
use super::format::{escape, percent};

const ROW: f64 = 22.0;
const GROUP: f64 = 30.0;
const AXIS: f64 = 26.0;

/// Bars in groups.
#[derive(Debug, Clone)]
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) subtitle: String,
    /// Names of the parts; part k has the colour k.
    pub(super) parts: Vec<&'static str>,
    pub(super) groups: Vec<Group>,
}

/// Bars that belong together, under a heading.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// One bar.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) label: String,
    /// One value for each part.
    pub(super) values: Vec<f64>,
    /// What stands at its end.
    pub(super) end: String,
}

impl Bars {
    /// The bars for a page that brings style, title and legend of its own; only the width of `size` counts.
    pub(super) fn inline_svg(&self, size: Size) -> String {
        let rows: usize = self.groups.iter().map(|group| group.rows.len()).sum();
        // Where every group is one bar and there is room, its name stands beside it.
        let beside = size.width > 600.0 && self.groups.iter().all(|group| group.rows.len() == 1);
        let heading = if beside { 0.0 } else { GROUP };
        let height = AXIS + heading * self.groups.len() as f64 + ROW * rows as f64;
        let (left, right) = (if beside { 205.0 } else { 76.0 }, size.width - 70.0);
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{}\" \
             xmlns=\"http://www.w3.org/2000/svg\">",
            size.width,
            escape(&format!("{}. {}", self.title, self.subtitle)),
        );
        for quarter in 0..=4 {
            let share = f64::from(quarter) / 4.0;
            let x = left + share * (right - left);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {AXIS}V{height}\"/>\
                 <text x=\"{x:.1}\" y=\"16\" text-anchor=\"middle\">{}</text>",
                percent(share)
            );
        }
        let mut y = AXIS;
        for group in &self.groups {
            let (x, base, anchor) = if beside {
                (left - 8.0, y + 14.0, " text-anchor=\"end\"")
            } else {
                (0.0, y + 20.0, "")
            };
            let _ = write!(
                svg,
                "<text class=\"group\" x=\"{x:.1}\" y=\"{base:.1}\"{anchor}>{}</text>",
                escape(&group.name)
            );
            y += heading;
            for row in &group.rows {
                if !beside {
                    let (x, base) = (left - 8.0, y + 14.0);
                    let label = escape(&row.label);
                    let _ = write!(
                        svg,
                        "<text x=\"{x:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{label}</text>"
                    );
                }
                self.draw(&group.name, row, y, left, right, &mut svg);
                y += ROW;
            }
        }
        svg.push_str("</svg>");
        svg
    }

    fn draw(&self, group: &str, row: &Row, y: f64, left: f64, right: f64, svg: &mut String) {
        let total: f64 = row.values.iter().sum();
        let base = y + 14.0;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
            right + 8.0,
            escape(&row.end)
        );
        let mut x = left;
        for (part, value) in row.values.iter().enumerate() {
            let share = if total > 0.0 { value / total } else { 0.0 };
            let width = share * (right - left);
            if width > 0.05 {
                let note = escape(&format!(
                    "{group}, batch size {}, {}\n{}: {}",
                    row.label,
                    row.end,
                    self.parts[part],
                    percent(share)
                ));
                let _ = write!(
                    svg,
                    "<g class=\"series s{}\" data-keys=\"{part}\"><g class=\"point\" data-note=\"{note}\">\
                     <title>{note}</title><rect class=\"bar\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                     </g></g>",
                    part % SERIES_COLOURS,
                    y + 2.0,
                    (width - 1.0).max(0.5),
                    ROW - 5.0
                );
            }
            x += width;
        }
    }

    /// A patch of a part's colour, as the legend shows it.
    pub(super) fn sample(part: usize) -> String {
        format!(
            "<g class=\"s{}\"><rect class=\"bar\" x=\"6\" y=\"-6\" width=\"16\" height=\"12\" rx=\"2\"/></g>",
            part % SERIES_COLOURS
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::WIDE;

    #[test]
    fn the_parts_of_a_bar_fill_it() {
        let row = Row {
            label: "64".into(),
            values: vec![1.0, 2.0, 0.0, 1.0],
            end: "4 ns".into(),
        };
        let bars = Bars {
            title: "Phases".into(),
            subtitle: String::new(),
            parts: vec!["a", "b", "c", "d"],
            groups: vec![Group {
                name: "dp-sgd".into(),
                rows: vec![row],
            }],
        };
        let svg = bars.inline_svg(WIDE);
        let widths: Vec<f64> = svg
            .split("class=\"bar\"")
            .skip(1)
            .map(|bar| {
                bar.split("width=\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert_eq!(widths.len(), 3, "an empty part is not drawn");
        let whole = WIDE.width - 70.0 - 205.0;
        assert!((widths.iter().sum::<f64>() + 3.0 - whole).abs() < 0.5);
        assert!((widths[1] + 1.0 - whole / 2.0).abs() < 0.2);
    }
}
