//! Panels of curves, one for each setting of an experiment.

use crate::experiment::{Configuration, Measured, Sample};
use crate::report::{Axis, Chart, Panel, Point, Series, Style};

/// Curves of a cell, by name.
pub(super) type Curves = Vec<(String, Vec<Point>)>;

/// A panel for the cells that differ in the parameter `varied` alone. Each of its values has a colour, each curve of a cell a
/// dash.
pub(super) fn by_setting<T>(
    measured: &[Measured<'_, T>],
    varied: &dyn Fn(&Configuration) -> &'static str,
    axes: &dyn Fn(&Configuration) -> (Axis, Axis),
    curves: &dyn Fn(&[&Sample<T>]) -> Curves,
) -> Vec<Panel> {
    let mut panels: Vec<(Configuration, Chart)> = Vec::new();
    // A value has one colour in all panels, also in those that lack others.
    let mut values = Vec::new();
    for (cell, runs) in measured {
        let (varied, curves) = (varied(&cell.configuration), curves(runs));
        let mut common = cell.configuration.clone();
        let value = common.parameters.remove(varied);
        let place = panels.iter().position(|(known, _)| *known == common);
        let place = place.unwrap_or_else(|| {
            let (x, y) = axes(&common);
            panels.push((common.clone(), Chart::new(title(&common, measured), "", x, y, Vec::new())));
            panels.len() - 1
        });
        let chart = &mut panels[place].1;
        let known = values.iter().position(|known| *known == value);
        let colour = known.unwrap_or(values.len());
        if known.is_none() {
            values.push(value.clone());
        }
        let own = value.map_or_else(String::new, |value| format!("{varied} = {value}"));
        for (variant, (name, points)) in curves.into_iter().enumerate() {
            let series = Series::new(format!("{own} {name}"), Style::Curve, colour, points).variant(variant);
            chart.series.push(series.keys(own.clone(), name));
        }
    }
    let panel = |(_, chart): (Configuration, Chart)| Panel::chart(&chart.title.clone(), "", chart);
    panels.into_iter().map(panel).collect()
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
