//! Which figures there are: each takes the pooled cells of one data set and says what is on its axes.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::{count, time};
use crate::machine::Environment;
use crate::results::{Cell, Pooled, pool};

/// Time per round against batch size on logarithmic axes, with the roofline of each thread count drawn in: a picture
/// that stands alone, for light and dark pages.
///
/// All data sets of the cells are drawn; where there are several, each series names its own.
pub fn time_per_round_svg(cells: &[Cell], environment: &Environment) -> String {
    let pooled = pool(cells);
    time_per_round(&pooled.iter().collect::<Vec<_>>(), environment).standalone_svg(WIDE)
}

/// What all cells of a figure have in common, and what tells its series apart.
struct Grouping<'a> {
    /// Series in the order of the legend: name, colour, variant, cells by batch size.
    series: Vec<(String, usize, usize, Vec<&'a Pooled>)>,
}

impl<'a> Grouping<'a> {
    /// A series for each algorithm (colour) and thread count (dash), solid for the most threads.
    fn by_algorithm_and_threads(cells: &[&'a Pooled]) -> Self {
        let datasets: BTreeSet<String> = cells.iter().map(|cell| dataset_name(cell)).collect();
        let threads: BTreeSet<usize> = cells.iter().map(|cell| cell.configuration().threads).collect();
        let variants: BTreeMap<usize, usize> = threads
            .iter()
            .rev()
            .enumerate()
            .map(|(variant, &threads)| (threads, variant))
            .collect();
        let mut colours: Vec<String> = Vec::new();
        let mut groups: BTreeMap<(usize, usize), (String, Vec<&Pooled>)> = BTreeMap::new();
        for cell in cells {
            let mut name = cell.configuration().label();
            if datasets.len() > 1 {
                name = format!("{name}, {}", dataset_name(cell));
            }
            let colour = colours.iter().position(|known| *known == name).unwrap_or_else(|| {
                colours.push(name.clone());
                colours.len() - 1
            });
            let variant = variants[&cell.configuration().threads];
            let name = format!("{name}, {}", threads_name(cell.configuration().threads));
            groups
                .entry((colour, variant))
                .or_insert_with(|| (name, Vec::new()))
                .1
                .push(cell);
        }
        let series = groups
            .into_iter()
            .map(|((colour, variant), (name, mut cells))| {
                cells.sort_by_key(|cell| cell.configuration().batch_size);
                (name, colour, variant, cells)
            })
            .collect();
        Self { series }
    }
}

pub(super) fn threads_name(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

pub(super) fn dataset_name(cell: &Pooled) -> String {
    format!("{} ({})", cell.configuration().dataset, cell.configuration().features)
}

/// The line below a title: data, machine, build.
pub(super) fn circumstances(cells: &[&Pooled], environment: &Environment) -> String {
    let datasets: BTreeSet<String> = cells
        .iter()
        .map(|cell| {
            let cell = &cell.cell;
            let (features, classes) = (count(cell.dimension as f64), count(cell.classes as f64));
            format!(
                "{}: n = {}, {features} features, {classes} classes",
                cell.configuration.dataset,
                count(cell.n as f64)
            )
        })
        .collect();
    let build = &environment.build;
    let processor = environment.machine.topology.processor.to_string();
    format!(
        "{}; {processor}, {} cores, {}, governor {}; revision {}",
        datasets.into_iter().collect::<Vec<_>>().join("; "),
        environment.machine.topology.cores,
        build.isa,
        environment.state.governor,
        build.short_revision(),
    )
}

/// The batch sizes of cells as an axis; each is a tick while there are few.
fn batch_axis(cells: &[&Pooled]) -> Axis {
    let sizes: BTreeSet<usize> = cells.iter().map(|cell| cell.configuration().batch_size).collect();
    let ticks = if sizes.len() <= 8 {
        sizes.into_iter().map(|size| size as f64).collect()
    } else {
        Vec::new()
    };
    Axis {
        label: "batch size".into(),
        scale: Scale::Logarithmic,
        format: count,
        ticks,
        include: Vec::new(),
    }
}

/// Time per round against batch size, and the roofline of each thread count.
pub(super) fn time_per_round(cells: &[&Pooled], environment: &Environment) -> Chart {
    let mut series: Vec<Series> = Grouping::by_algorithm_and_threads(cells)
        .series
        .into_iter()
        .map(|(name, colour, variant, cells)| Series {
            points: cells
                .iter()
                .map(|cell| {
                    let times = &cell.cell.round_ns;
                    let batch_size = cell.configuration().batch_size;
                    Point {
                        x: batch_size as f64,
                        y: cell.median(),
                        whisker: Some((times.p10 as f64, times.p90 as f64)),
                        note: format!(
                            "{name}\nbatch size {}: {} (10 % to 90 %: {} to {})",
                            count(batch_size as f64),
                            time(cell.median()),
                            time(times.p10 as f64),
                            time(times.p90 as f64)
                        ),
                    }
                })
                .collect(),
            name,
            drawing: Drawing::Line,
            colour,
            variant,
        })
        .collect();
    series.extend(rooflines(cells));
    Chart {
        title: "Time per round against batch size".into(),
        subtitle: circumstances(cells, environment),
        x: batch_axis(cells),
        y: Axis {
            label: "median time per round".into(),
            scale: Scale::Logarithmic,
            format: time,
            ticks: Vec::new(),
            include: Vec::new(),
        },
        series,
    }
}

/// For each thread count (and data set, where there are several) the least time that any round of each batch size
/// could take. Algorithms that read alike have the same limit; where they differ, the lowest is drawn.
fn rooflines(cells: &[&Pooled]) -> Vec<Series> {
    let several = cells
        .iter()
        .map(|cell| dataset_name(cell))
        .collect::<BTreeSet<_>>()
        .len()
        > 1;
    let mut limits: BTreeMap<(usize, String), BTreeMap<usize, f64>> = BTreeMap::new();
    for cell in cells {
        let Some(limit) = cell.roofline_ns() else { continue };
        let dataset = if several {
            format!(", {}", dataset_name(cell))
        } else {
            String::new()
        };
        limits
            .entry((cell.configuration().threads, dataset))
            .or_default()
            .entry(cell.configuration().batch_size)
            .and_modify(|least| *least = least.min(limit))
            .or_insert(limit);
    }
    let most = limits.keys().map(|(threads, _)| *threads).max();
    limits
        .into_iter()
        .map(|((threads, dataset), limits)| {
            let name = format!("roofline, {}{dataset}", threads_name(threads));
            Series {
                points: limits
                    .into_iter()
                    .map(|(batch_size, limit)| Point {
                        x: batch_size as f64,
                        y: limit,
                        whisker: None,
                        note: name.clone(),
                    })
                    .collect(),
                name,
                drawing: Drawing::Reference,
                colour: 0,
                variant: usize::from(Some(threads) != most),
            }
        })
        .collect()
}
