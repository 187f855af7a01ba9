//! Which figures there are: each takes the pooled cells of one data set and says what is on its axes.

use std::collections::{BTreeMap, BTreeSet};

use super::bars::{self, Bars, Row};
use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::{count, percent, three_digits, time};
use super::labels::Labels;
use super::legend::Legend;
use crate::kernel_rates::KernelRate;
use crate::machine::{Environment, Roofline, beyond_rooflines};
use crate::results::{Cell, Pooled, pool};

/// A chart with its legend.
pub(super) type Drawn = (Chart, Legend);

/// Above this many algorithms a figure starts with [`SHOWN_FIRST`], and a reader switches the others on.
const READABLE: usize = 8;

/// One algorithm of each family.
const SHOWN_FIRST: &[&str] = &[
    "sgd",
    "dp-sgd",
    "dp-ftrl",
    "dp-srg-memf",
    "accelerated-dp-srg",
    "dp-nag",
    "phased-sgd",
    "resque-private-erm",
];

/// Time per round against batch size on logarithmic axes, with the roofline of each thread count drawn in: a picture
/// that stands alone, for light and dark pages.
///
/// Of several data sets that with most cells is drawn. Of many algorithms one of each family is drawn, on the most
/// threads; the subtitle says so.
pub fn time_per_round_svg(cells: &[Cell], environment: &Environment) -> String {
    let pooled = pool(cells);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for cell in &pooled {
        *counts.entry(dataset_name(cell)).or_default() += 1;
    }
    let most = counts.values().copied().max();
    let chosen = counts
        .iter()
        .find(|(_, count)| Some(**count) == most)
        .map(|(name, _)| name.clone());
    let drawn: Vec<&Pooled> = pooled
        .iter()
        .filter(|cell| Some(dataset_name(cell)) == chosen)
        .collect();
    let (mut chart, legend) = time_per_round(&drawn, environment);
    let of_group = |group| legend.entries.iter().filter(move |entry| entry.group == group);
    let algorithms = of_group(0).filter(|entry| !entry.name.starts_with(ROOFLINE));
    let (shown, all) = algorithms.fold((0, 0), |(shown, all), entry| {
        (shown + usize::from(entry.shown), all + 1)
    });
    if shown < all {
        let places: Vec<&str> = of_group(1)
            .filter(|entry| entry.shown)
            .map(|entry| entry.name.as_str())
            .collect();
        let places = if places.is_empty() {
            String::new()
        } else {
            format!(" on {}", places.join(", "))
        };
        chart.subtitle = format!(
            "{shown} of {all} algorithms{places} (all: rounds report); {}",
            chart.subtitle
        );
    }
    chart.standalone_svg_with(WIDE, &legend)
}

/// What all cells of a figure have in common, and what tells its series apart.
struct Grouping<'a> {
    /// Series in the order of the legend.
    series: Vec<Group<'a>>,
}

/// The cells of an algorithm on a number of threads, by batch size.
struct Group<'a> {
    /// Algorithm and threads.
    name: String,
    /// The algorithm, with what tells it from itself and its data set where there are several.
    algorithm: String,
    /// Threads, and ranks where there are any.
    place: String,
    colour: usize,
    variant: usize,
    cells: Vec<&'a Pooled>,
}

impl<'a> Grouping<'a> {
    /// A series for each algorithm (colour) and thread count (dash), solid for the most threads.
    fn by_algorithm_and_threads(cells: &[&'a Pooled]) -> Self {
        let datasets: BTreeSet<String> = cells.iter().map(|cell| dataset_name(cell)).collect();
        let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
        let place = |cell: &Pooled| (cell.configuration().ranks.unwrap_or(1), cell.configuration().threads);
        let places: BTreeSet<(usize, usize)> = cells.iter().map(|cell| place(cell)).collect();
        let variants: BTreeMap<(usize, usize), usize> = places
            .iter()
            .rev()
            .enumerate()
            .map(|(variant, &place)| (place, variant))
            .collect();
        let name = |cell: &Pooled| {
            let name = labels.name(cell.configuration());
            if datasets.len() > 1 {
                format!("{name}, {}", dataset_name(cell))
            } else {
                name
            }
        };
        // Those that are shown first have the first colours, which differ most.
        let mut colours: Vec<String> = Vec::new();
        for id in SHOWN_FIRST {
            for cell in cells.iter().filter(|cell| cell.configuration().algorithm == *id) {
                let name = name(cell);
                if !colours.contains(&name) {
                    colours.push(name);
                }
            }
        }
        let mut groups: BTreeMap<(usize, usize), Group> = BTreeMap::new();
        for cell in cells {
            let algorithm = name(cell);
            let colour = colours.iter().position(|known| *known == algorithm).unwrap_or_else(|| {
                colours.push(algorithm.clone());
                colours.len() - 1
            });
            let variant = variants[&place(cell)];
            let group = groups.entry((colour, variant)).or_insert_with(|| {
                let place = place_name(cell.configuration());
                Group {
                    name: format!("{algorithm}, {place}"),
                    algorithm,
                    place,
                    colour,
                    variant,
                    cells: Vec::new(),
                }
            });
            group.cells.push(cell);
        }
        let mut series: Vec<Group> = groups.into_values().collect();
        for group in &mut series {
            group.cells.sort_by_key(|cell| cell.configuration().batch_size);
        }
        Self { series }
    }

    /// The chart of these groups, drawn by `draw`, with a legend that switches algorithms and thread counts; `others`
    /// are series with what switches them.
    fn chart(
        self,
        chart: Chart,
        draw: impl Fn(&Group) -> Option<Series>,
        others: Vec<(Series, String, String)>,
    ) -> Drawn {
        let mut chart = chart;
        let mut apart = Vec::new();
        let mut algorithms = BTreeSet::new();
        for group in &self.series {
            if let Some(series) = draw(group).filter(|series| !series.points.is_empty()) {
                chart.series.push(series);
                algorithms.insert(group.algorithm.clone());
                apart.push((group.algorithm.clone(), group.place.clone()));
            }
        }
        for (series, first, second) in others {
            chart.series.push(series);
            apart.push((first, second));
        }
        let mut legend = Legend::of_pairs(&chart, &apart);
        if algorithms.len() > READABLE {
            let first = |name: &str| SHOWN_FIRST.iter().any(|id| name.split([' ', ',']).next() == Some(id));
            if algorithms.iter().any(|name| first(name)) {
                legend.show_only(0, |name| !algorithms.contains(name) || first(name));
            }
            let most = self
                .series
                .iter()
                .find(|group| group.variant == 0)
                .map(|group| group.place.clone());
            legend.show_only(1, |name| most.as_deref() == Some(name));
        }
        (chart, legend)
    }
}

/// Where a cell ran: `2 threads`, `4 ranks of 1 thread`.
pub(super) fn place_name(configuration: &crate::results::Configuration) -> String {
    let threads = threads_name(configuration.threads);
    configuration
        .ranks
        .map_or_else(|| threads.clone(), |ranks| format!("{ranks} ranks of {threads}"))
}

/// What the names of limits begin with.
const ROOFLINE: &str = "f32 roofline";

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
    let shared = Labels::of(cells.iter().map(|cell| cell.configuration())).shared();
    let shared = if shared.is_empty() {
        shared
    } else {
        format!("; {shared}")
    };
    format!(
        "{}{shared}; {processor}, {} cores, {}, governor {}; revision {}",
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
pub(super) fn time_per_round(cells: &[&Pooled], environment: &Environment) -> Drawn {
    let chart = Chart {
        title: "Time per round against batch size".into(),
        subtitle: circumstances(cells, environment),
        x: batch_axis(cells),
        y: axis("median time per round", Scale::Logarithmic, time),
        series: Vec::new(),
    };
    let draw = |group: &Group| {
        let point = |cell: &Pooled| {
            let times = &cell.cell.round_ns;
            let batch_size = cell.configuration().batch_size;
            Point {
                x: batch_size as f64,
                y: cell.median(),
                whisker: Some((times.p10 as f64, times.p90 as f64)),
                note: format!(
                    "{}\nbatch size {}: {} (95 % interval {} to {}; 10 % to 90 % of rounds: {} to {})",
                    group.name,
                    count(batch_size as f64),
                    time(cell.median()),
                    time(cell.interval.low),
                    time(cell.interval.high),
                    time(times.p10 as f64),
                    time(times.p90 as f64)
                ),
            }
        };
        Some(group.series(group.cells.iter().map(|cell| point(cell)).collect(), Drawing::Line))
    };
    Grouping::by_algorithm_and_threads(cells).chart(chart, draw, rooflines(cells))
}

impl Group<'_> {
    fn series(&self, points: Vec<Point>, drawing: Drawing) -> Series {
        Series {
            points,
            name: self.name.clone(),
            drawing,
            colour: self.colour,
            variant: self.variant,
        }
    }
}

/// For each thread count (and data set, where there are several) the least time that any round of each batch size
/// could take with f32 arithmetic. Algorithms that read alike have the same limit; where they differ, the lowest is drawn.
fn rooflines(cells: &[&Pooled]) -> Vec<(Series, String, String)> {
    let several = cells
        .iter()
        .map(|cell| dataset_name(cell))
        .collect::<BTreeSet<_>>()
        .len()
        > 1;
    let mut limits: BTreeMap<(usize, String), BTreeMap<usize, f64>> = BTreeMap::new();
    // Smaller batches than the nominal ones have limits of their own.
    for cell in cells.iter().filter(|cell| cell.shrunk_batch().is_none()) {
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
            let name = format!("{ROOFLINE}, {}{dataset}", threads_name(threads));
            let series = Series {
                points: limits
                    .into_iter()
                    .map(|(batch_size, limit)| Point {
                        x: batch_size as f64,
                        y: limit,
                        whisker: None,
                        note: name.clone(),
                    })
                    .collect(),
                name: name.clone(),
                drawing: Drawing::Reference,
                colour: 0,
                variant: usize::from(Some(threads) != most),
            };
            (series, name, threads_name(threads))
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
    others: Vec<(Series, String, String)>,
) -> Drawn {
    let chart = Chart {
        title: title.into(),
        subtitle: circumstances(cells, environment),
        x: batch_axis(cells),
        y,
        series: Vec::new(),
    };
    let draw = |group: &Group| {
        let place = |cell: &Pooled| Some((cell.configuration().batch_size as f64, value(cell)?));
        Some(group.series(points(&group.name, &group.cells, &place, text), Drawing::Line))
    };
    Grouping::by_algorithm_and_threads(cells).chart(chart, draw, others)
}

/// Time of one pass over the data against batch size.
pub(super) fn time_per_epoch(cells: &[&Pooled], environment: &Environment) -> Drawn {
    let y = axis("time per epoch", Scale::Logarithmic, time);
    let nanoseconds = |cell: &Pooled| Some(cell.epoch_seconds() * 1e9);
    against_batch_size(
        "Time per epoch against batch size",
        cells,
        environment,
        y,
        &nanoseconds,
        &|_, value| time(value),
        Vec::new(),
    )
}

/// How many times faster each round is than the same one on one thread, against batch size.
///
/// `None` where the run has one thread count only, or none of them is one thread.
pub(super) fn speed_up(cells: &[&Pooled], environment: &Environment) -> Option<Drawn> {
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
    let sizes = || together.iter().map(|cell| cell.configuration().batch_size as f64);
    let ends = [sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max)];
    let ideal = |threads: usize| {
        let series = Series {
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
        };
        (series, "ideal".to_owned(), threads_name(threads))
    };
    let ideals: Vec<_> = threads.into_iter().map(ideal).collect();
    let count = ideals.len();
    let title = "Speed-up against batch size";
    let drawn = against_batch_size(title, &together, environment, y, &ratio, &text, ideals);
    (drawn.0.series.len() > count).then_some(drawn)
}

/// Flops a second against flops a byte, under the ceilings of each thread count: the slope is the bandwidth of memory,
/// the level the peak of f32 multiply-adds. Kernels on narrower numbers may lie above that level.
pub(super) fn roofline(cells: &[&Pooled], environment: &Environment) -> Option<Drawn> {
    let place = |cell: &Pooled| {
        let (gflops, gbytes) = (
            cell.cell.gflops.filter(|gflops| *gflops > 0.0)?,
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
    let intensities: Vec<f64> = cells.iter().filter_map(|cell| Some(place(cell)?.0)).collect();
    let threads: BTreeSet<usize> = cells.iter().map(|cell| cell.configuration().threads).collect();
    let limits: Vec<_> = environment
        .rooflines
        .iter()
        .filter(|limit| threads.contains(&limit.threads))
        .collect();
    if intensities.is_empty() || limits.is_empty() {
        return None;
    }
    let chart = Chart {
        title: "Rounds under the roofline".into(),
        subtitle: circumstances(cells, environment),
        x: axis("flops per byte of rows read", Scale::Logarithmic, three_digits),
        y: axis("GFLOP/s", Scale::Logarithmic, three_digits),
        series: Vec::new(),
    };
    let draw = |group: &Group| Some(group.series(points(&group.name, &group.cells, &place, &text), Drawing::Points));
    Some(Grouping::by_algorithm_and_threads(cells).chart(chart, draw, ceilings(&limits, &intensities)))
}

/// The kernels on one thread under the ceilings of one thread; a series for each kernel and kind of rows.
pub(super) fn kernels(rates: &[KernelRate], environment: &Environment) -> Option<Drawn> {
    let limit = environment.roofline(1)?;
    let rates: Vec<&KernelRate> = rates
        .iter()
        .filter(|rate| rate.flops > 0.0 && rate.bytes > 0.0 && rate.seconds > 0.0)
        .collect();
    let name = |rate: &KernelRate| match rate.shape.split_once(" rows of ") {
        Some((_, rest)) => format!("{}, {} rows", rate.kernel, rest.split(',').next().unwrap_or_default()),
        None => rate.kernel.clone(),
    };
    let mut series: Vec<Series> = Vec::new();
    for rate in &rates {
        let name = name(rate);
        let point = Point {
            x: rate.flops / rate.bytes,
            y: rate.gflops(),
            whisker: None,
            note: format!(
                "{}, {}: {} GFLOP/s, {} GB/s, {} of the roofline, {} a call",
                rate.kernel,
                rate.shape,
                three_digits(rate.gflops()),
                three_digits(rate.gbytes_per_s()),
                percent(rate.fraction(&limit)),
                time(rate.seconds * 1e9)
            ),
        };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series {
                name,
                drawing: Drawing::Points,
                colour: series.len(),
                variant: 0,
                points: vec![point],
            }),
        }
    }
    if series.is_empty() {
        return None;
    }
    let intensities: Vec<f64> = rates.iter().map(|rate| rate.flops / rate.bytes).collect();
    series.extend(ceilings(&[&limit], &intensities).into_iter().map(|(series, ..)| series));
    let reached = rates.iter().map(|rate| rate.beside(limit));
    let beyond = beyond_rooflines("kernels", reached, &environment.build.isa);
    let chart = Chart {
        title: "Kernels under the roofline".into(),
        subtitle: format!(
            "one thread, median calls; {}, {}, revision {}{}",
            environment.machine.topology.processor,
            environment.build.isa,
            environment.build.short_revision(),
            beyond.map_or_else(String::new, |sentence| format!("; {sentence}"))
        ),
        x: axis("flops per byte read and written", Scale::Logarithmic, three_digits),
        y: axis("GFLOP/s", Scale::Logarithmic, three_digits),
        series,
    };
    let legend = Legend::of_series(&chart);
    Some((chart, legend))
}

/// The roofs over these intensities: for each thread count min(intensity · bandwidth, peak), labelled by what they are.
pub(super) fn ceilings(limits: &[&Roofline], intensities: &[f64]) -> Vec<(Series, String, String)> {
    let most = limits.iter().map(|limit| limit.threads).max();
    let ridge = |limit: &Roofline| limit.peak_gflops / limit.bandwidth_gbytes_per_s;
    let reach = || {
        intensities
            .iter()
            .copied()
            .chain(limits.iter().map(|limit| ridge(limit)))
    };
    let low = reach().fold(f64::INFINITY, f64::min) / 3.0;
    let high = reach().fold(0.0, f64::max) * 3.0;
    limits
        .iter()
        .map(|limit| {
            let note = format!(
                "{}: f32 FMA peak {} GFLOP/s, memory {} GB/s",
                threads_name(limit.threads),
                three_digits(limit.peak_gflops),
                three_digits(limit.bandwidth_gbytes_per_s)
            );
            let point = |x: f64| Point {
                x,
                y: (x * limit.bandwidth_gbytes_per_s).min(limit.peak_gflops),
                whisker: None,
                note: note.clone(),
            };
            let name = format!(
                "f32 FMA peak {} GFLOP/s and memory {} GB/s, {}",
                three_digits(limit.peak_gflops),
                three_digits(limit.bandwidth_gbytes_per_s),
                threads_name(limit.threads)
            );
            let series = Series {
                name: name.clone(),
                drawing: Drawing::Reference,
                colour: 0,
                variant: usize::from(Some(limit.threads) != most),
                points: vec![point(low), point(ridge(limit)), point(high)],
            };
            (series, name, threads_name(limit.threads))
        })
        .collect()
}

/// Test accuracy against ε, and the best accuracy without privacy as a level. `None` where no cell has both.
///
/// The thread count does not change the model, so only the cells of the most threads are drawn.
pub(super) fn accuracy(cells: &[&Pooled], environment: &Environment) -> Option<Drawn> {
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
    let epsilons: Vec<f64> = cells.iter().filter_map(|cell| Some(place(cell)?.0)).collect();
    // With one ε for all it would be a column of points; the table has their accuracies.
    let (least, most) = epsilons
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), &epsilon| {
            (least.min(epsilon), most.max(epsilon))
        });
    if most <= 1.001 * least {
        return None;
    }
    let best = cells
        .iter()
        .filter(|cell| cell.cell.privacy.get("claim").and_then(|claim| claim.as_str()) == Some("none"))
        .filter_map(|cell| Some((cell.cell.test_accuracy?, &cell.configuration().algorithm)))
        .max_by(|first, second| first.0.total_cmp(&second.0));
    let mut level = Vec::new();
    if let Some((best, algorithm)) = best {
        let ends = [
            epsilons.iter().copied().fold(f64::INFINITY, f64::min),
            epsilons.iter().copied().fold(0.0, f64::max),
        ];
        let name = format!("{algorithm}, not private: {}", percent(best));
        let series = Series {
            name: name.clone(),
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
        };
        level.push((series, name, String::new()));
    }
    let chart = Chart {
        title: "Test accuracy against ε".into(),
        subtitle: circumstances(&cells, environment),
        x: axis("ε", Scale::Logarithmic, three_digits),
        y: axis("test accuracy", Scale::Linear, percent),
        series: Vec::new(),
    };
    let draw = |group: &Group| {
        let name = group.algorithm.clone();
        let points = points(&name, &group.cells, &place, &text);
        Some(Series {
            name,
            ..group.series(points, Drawing::Points)
        })
    };
    Some(Grouping::by_algorithm_and_threads(&cells).chart(chart, draw, level))
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
    let one_each = series.len() > FULL_PHASES;
    if one_each {
        for group in &mut series {
            // A typical minibatch.
            group
                .cells
                .sort_by_key(|cell| cell.configuration().batch_size.abs_diff(500));
            group.cells.truncate(1);
        }
    }
    let mut subtitle = circumstances(&cells, environment);
    if one_each {
        let sizes: BTreeSet<usize> = series
            .iter()
            .flat_map(|group| group.cells.iter().map(|cell| cell.configuration().batch_size))
            .collect();
        let sizes: Vec<String> = sizes.into_iter().map(|size| count(size as f64)).collect();
        subtitle = format!("batch size {}; {subtitle}", sizes.join(" or "));
    }
    let groups = series
        .into_iter()
        .map(|group| bars::Group {
            name: group.algorithm,
            rows: group
                .cells
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
        title: format!("Phases of a round on {}", threads_name(most)),
        subtitle,
        parts: vec!["sampling", "gradient", "noise", "update"],
        groups,
    })
}
