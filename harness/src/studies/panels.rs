//! Panels of curves, one for each setting of an experiment.

use serde_json::Value;

use crate::experiment::{Configuration, Measured, Sample};
use crate::grouping::{by_key, distinct};
use crate::report::{Axis, Chart, Panel, Point, Series, Style};

pub(super) type Curves = Vec<(String, Vec<Point>)>;

/// A panel for the cells that differ in the parameter `varied` alone. Each of its values has a colour, each curve of a cell a
/// dash.
pub(super) fn by_setting<T>(
    measured: &[Measured<'_, T>],
    varied: &dyn Fn(&Configuration) -> &'static str,
    axes: &dyn Fn(&Configuration) -> (Axis, Axis),
    curves: &dyn Fn(&[&Sample<T>]) -> Curves,
) -> Vec<Panel> {
    let cells = measured.iter().map(|(cell, runs)| {
        let varied = varied(&cell.configuration);
        let mut common = cell.configuration.clone();
        let value = common.parameters.remove(varied);
        (common, (varied, value, runs))
    });
    let cells: Vec<_> = cells.collect();
    // A value has one colour in all panels, also in those that lack others.
    let values = distinct(cells.iter().map(|(_, (_, value, _))| value.clone()));
    let panel = |(common, cells): (Configuration, Vec<(&str, Option<Value>, &Vec<&Sample<T>>)>)| {
        let mut series = Vec::new();
        for (varied, value, runs) in cells {
            let colour = values.iter().position(|known| *known == value).unwrap_or(0);
            let own = value.map_or_else(String::new, |value| format!("{varied} = {value}"));
            for (variant, (name, points)) in curves(runs).into_iter().enumerate() {
                let curve = Series::new(format!("{own} {name}"), Style::Curve, colour, points).variant(variant);
                series.push(curve.keys(own.clone(), name));
            }
        }
        let ((x, y), title) = (axes(&common), title(&common, measured));
        Panel::chart(&title, "", Chart::new(&*title, "", x, y, series))
    };
    by_key(cells).into_iter().map(panel).collect()
}

/// The method with those parameters that differ among its cells.
fn title<T>(common: &Configuration, measured: &[Measured<'_, T>]) -> String {
    let label = |cell: &Configuration| {
        let names = [&cell.method, &cell.problem, &cell.algorithm];
        names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
    };
    let own = label(common);
    let differs = |name: &str| {
        let cells = measured.iter().map(|(cell, _)| &cell.configuration);
        let mut values = cells.filter(|cell| label(cell) == own).filter_map(|cell| cell.parameters.get(name));
        values.any(|value| Some(value) != common.parameters.get(name))
    };
    let swept = common.parameters.iter().filter(|(name, _)| differs(name));
    let swept = swept.map(|(name, value)| format!(", {name} = {}", crate::experiment::text(value)));
    format!("{own}{}", swept.collect::<String>())
}
