//! Which figures there are: each takes the pooled cells of one data set and says what is on its axes.

use std::collections::{BTreeMap, BTreeSet};

use super::bars::{Bars, Group, Row};
use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::{count, percent, three_digits, time};
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

/// Points of a series from cells; cells without a value are left out.
fn points(
    name: &str,
    cells: &[&Pooled],
    place: &dyn Fn(&Pooled) -> Option<(f64, f64)>,
    text: &dyn Fn(&Pooled, f64) -> String,
) -> Vec<Point> {
    cells
        .iter()
        .filter_map(|cell| {
            let (x, y) = place(cell).filter(|(x, y)| x.is_finite() && y.is_finite())?;
            let batch_size = count(cell.configuration().batch_size as f64);
            Some(Point {
                x,
                y,
                whisker: None,
                note: format!("{name}\nbatch size {batch_size}: {}", text(cell, y)),
            })
        })
        .collect()
}

fn axis(label: &str, scale: Scale, format: fn(f64) -> String) -> Axis {
    Axis {
        label: label.into(),
        scale,
        format,
        ticks: Vec::new(),
        include: Vec::new(),
    }
}

/// Lines of one value against batch size, a series for each algorithm and thread count.
fn against_batch_size(
    title: &str,
    cells: &[&Pooled],
    environment: &Environment,
    y: Axis,
    value: &dyn Fn(&Pooled) -> Option<f64>,
    text: &dyn Fn(&Pooled, f64) -> String,
) -> Chart {
    let series = Grouping::by_algorithm_and_threads(cells)
        .series
        .into_iter()
        .map(|(name, colour, variant, cells)| Series {
            points: points(
                &name,
                &cells,
                &|cell| Some((cell.configuration().batch_size as f64, value(cell)?)),
                text,
            ),
            name,
            drawing: Drawing::Line,
            colour,
            variant,
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    Chart {
        title: title.into(),
        subtitle: circumstances(cells, environment),
        x: batch_axis(cells),
        y,
        series,
    }
}

/// Time of one pass over the data against batch size.
pub(super) fn time_per_epoch(cells: &[&Pooled], environment: &Environment) -> Chart {
    let y = axis("time per epoch", Scale::Logarithmic, time);
    let nanoseconds = |cell: &Pooled| Some(cell.epoch_seconds() * 1e9);
    against_batch_size(
        "Time per epoch against batch size",
        cells,
        environment,
        y,
        &nanoseconds,
        &|_, value| time(value),
    )
}

/// How many times faster each round is than the same one on one thread, against batch size.
///
/// `None` where the run has one thread count only, or none of them is one thread.
pub(super) fn speed_up(cells: &[&Pooled], environment: &Environment) -> Option<Chart> {
    let key = |cell: &Pooled| {
        let mut configuration = cell.configuration().clone();
        configuration.threads = 1;
        configuration.key()
    };
    let alone: BTreeMap<String, f64> = cells
        .iter()
        .filter(|cell| cell.configuration().threads == 1)
        .map(|cell| (key(cell), cell.median()))
        .collect();
    let together: Vec<&Pooled> = cells
        .iter()
        .copied()
        .filter(|cell| cell.configuration().threads > 1)
        .collect();
    let mut y = axis("times faster than on one thread", Scale::Linear, three_digits);
    let threads: BTreeSet<usize> = together.iter().map(|cell| cell.configuration().threads).collect();
    y.include = threads.iter().map(|&threads| threads as f64).chain([1.0]).collect();
    let ratio = |cell: &Pooled| Some(alone.get(&key(cell))? / cell.median());
    let text = |cell: &Pooled, value: f64| {
        let efficiency = percent(value / cell.configuration().threads as f64);
        format!("{} times faster, efficiency {efficiency}", three_digits(value))
    };
    let mut chart = against_batch_size("Speed-up against batch size", &together, environment, y, &ratio, &text);
    if chart.series.is_empty() {
        return None;
    }
    let sizes = || together.iter().map(|cell| cell.configuration().batch_size as f64);
    let ends = [sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max)];
    chart.series.extend(threads.into_iter().map(|threads| {
        Series {
            name: format!("ideal, {}", threads_name(threads)),
            drawing: Drawing::Reference,
            colour: 0,
            variant: 0,
            points: ends
                .map(|x| Point {
                    x,
                    y: threads as f64,
                    whisker: None,
                    note: String::new(),
                })
                .to_vec(),
        }
    }));
    Some(chart)
}

/// Flops a second against flops a byte, under the roofline of each thread count.
pub(super) fn roofline(cells: &[&Pooled], environment: &Environment) -> Option<Chart> {
    let place = |cell: &Pooled| {
        let (gflops, gbytes) = (
            cell.cell.gflops?,
            cell.cell.gbytes_per_s.filter(|gbytes| *gbytes > 0.0)?,
        );
        Some((gflops / gbytes, gflops))
    };
    let text = |cell: &Pooled, value: f64| {
        let share = cell
            .cell
            .roofline_fraction
            .map_or_else(String::new, |share| format!(", {} of the roofline", percent(share)));
        format!("{} GFLOP/s{share}", three_digits(value))
    };
    let mut series: Vec<Series> = Grouping::by_algorithm_and_threads(cells)
        .series
        .into_iter()
        .map(|(name, colour, variant, cells)| Series {
            points: points(&name, &cells, &place, &text),
            name,
            drawing: Drawing::Points,
            colour,
            variant,
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let intensities: Vec<f64> = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.x)
        .collect();
    let threads: BTreeSet<usize> = cells.iter().map(|cell| cell.configuration().threads).collect();
    let limits: Vec<_> = environment
        .rooflines
        .iter()
        .filter(|limit| threads.contains(&limit.threads))
        .collect();
    let most = limits.iter().map(|limit| limit.threads).max();
    if intensities.is_empty() || limits.is_empty() {
        return None;
    }
    let ridges = limits
        .iter()
        .map(|limit| limit.peak_gflops / limit.bandwidth_gbytes_per_s);
    let low = intensities
        .iter()
        .copied()
        .chain(ridges.clone())
        .fold(f64::INFINITY, f64::min)
        / 3.0;
    let high = intensities.iter().copied().chain(ridges).fold(0.0, f64::max) * 3.0;
    for limit in limits {
        let ridge = limit.peak_gflops / limit.bandwidth_gbytes_per_s;
        let point = |x: f64| Point {
            x,
            y: (x * limit.bandwidth_gbytes_per_s).min(limit.peak_gflops),
            whisker: None,
            note: String::new(),
        };
        series.push(Series {
            name: format!("roofline, {}", threads_name(limit.threads)),
            drawing: Drawing::Reference,
            colour: 0,
            variant: usize::from(Some(limit.threads) != most),
            points: vec![point(low), point(ridge), point(high)],
        });
    }
    Some(Chart {
        title: "Rounds under the roofline".into(),
        subtitle: circumstances(cells, environment),
        x: axis("flops per byte of rows read", Scale::Logarithmic, three_digits),
        y: axis("GFLOP/s", Scale::Logarithmic, three_digits),
        series,
    })
}

/// Test accuracy against ε, and the best accuracy without privacy as a level. `None` where no cell has both.
///
/// The thread count does not change the model, so only the cells of the most threads are drawn.
pub(super) fn accuracy(cells: &[&Pooled], environment: &Environment) -> Option<Chart> {
    let most = cells.iter().map(|cell| cell.configuration().threads).max()?;
    let cells: Vec<&Pooled> = cells
        .iter()
        .copied()
        .filter(|cell| cell.configuration().threads == most)
        .collect();
    let place = |cell: &Pooled| {
        let epsilon = cell.cell.privacy_number("epsilon").filter(|epsilon| *epsilon > 0.0)?;
        Some((epsilon, cell.cell.test_accuracy?))
    };
    let text = |cell: &Pooled, value: f64| {
        let epsilon = cell
            .cell
            .privacy_number("epsilon")
            .map_or_else(String::new, three_digits);
        format!("{} at ε = {epsilon}", percent(value))
    };
    let mut series: Vec<Series> = Grouping::by_algorithm_and_threads(&cells)
        .series
        .into_iter()
        .map(|(name, colour, variant, cells)| Series {
            points: points(&name, &cells, &place, &text),
            name: name
                .rsplit_once(", ")
                .map_or(name.clone(), |(name, _)| name.to_string()),
            drawing: Drawing::Points,
            colour,
            variant,
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let epsilons: Vec<f64> = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.x)
        .collect();
    if epsilons.is_empty() {
        return None;
    }
    let best = cells
        .iter()
        .filter(|cell| cell.cell.privacy.get("claim").and_then(|claim| claim.as_str()) == Some("none"))
        .filter_map(|cell| Some((cell.cell.test_accuracy?, &cell.configuration().algorithm)))
        .max_by(|first, second| first.0.total_cmp(&second.0));
    if let Some((best, algorithm)) = best {
        let ends = [
            epsilons.iter().copied().fold(f64::INFINITY, f64::min),
            epsilons.iter().copied().fold(0.0, f64::max),
        ];
        series.push(Series {
            name: format!("{algorithm}, not private: {}", percent(best)),
            drawing: Drawing::Reference,
            colour: 0,
            variant: 0,
            points: [ends[0] / 1.5, ends[1] * 1.5]
                .map(|x| Point {
                    x,
                    y: best,
                    whisker: None,
                    note: String::new(),
                })
                .to_vec(),
        });
    }
    Some(Chart {
        title: "Test accuracy against ε".into(),
        subtitle: circumstances(&cells, environment),
        x: axis("ε", Scale::Logarithmic, three_digits),
        y: axis("test accuracy", Scale::Linear, percent),
        series,
    })
}

/// Above this many algorithms each is shown at one batch size.
const FULL_PHASES: usize = 6;

/// Where the time of a round goes, for the most threads.
pub(super) fn phases(cells: &[&Pooled], environment: &Environment) -> Option<Bars> {
    let most = cells.iter().map(|cell| cell.configuration().threads).max()?;
    let cells: Vec<&Pooled> = cells
        .iter()
        .copied()
        .filter(|cell| cell.configuration().threads == most)
        .collect();
    let mut series = Grouping::by_algorithm_and_threads(&cells).series;
    if series.len() > FULL_PHASES {
        for (.., cells) in &mut series {
            // A typical minibatch.
            cells.sort_by_key(|cell| cell.configuration().batch_size.abs_diff(500));
            cells.truncate(1);
        }
    }
    let groups = series
        .into_iter()
        .map(|(name, _, _, cells)| Group {
            name,
            rows: cells
                .iter()
                .map(|cell| {
                    let phases = &cell.cell.phases_ns;
                    Row {
                        label: count(cell.configuration().batch_size as f64),
                        values: [phases.sample, phases.gradient, phases.noise, phases.update]
                            .map(|value| value as f64)
                            .to_vec(),
                        end: time(cell.median()),
                    }
                })
                .collect(),
        })
        .collect();
    Some(Bars {
        title: "Phases of a round".into(),
        subtitle: circumstances(&cells, environment),
        parts: vec!["sampling", "gradient", "noise", "update"],
        groups,
    })
}
