//! The figures of a run, each drawn from the pooled cells of one data set.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::{Axis, Bar, Bars, Chart, Format, Point, Scale, Series, Style, ends, grouped};
use super::labels::{self, Labels};
use super::legend::Legend;
use crate::format::{count, of_limit, percent, plural, three_digits, time};
use crate::grouping::distinct;
use crate::kernel_rates::KernelRate;
use crate::machine::{Environment, Limit};
use crate::results::{Cell, Configuration, Phases, Pooled, pool};

/// With more algorithms a figure shows [`SHOWN_FIRST`] at first, and a reader switches the others on.
const READABLE: usize = 8;

/// One algorithm of each family. They have the first colours, which differ most.
const SHOWN_FIRST: &[&str] =
    &["sgd", "dp-sgd", "dp-ftrl", "dp-srg-memf", "accelerated-dp-srg", "dp-nag", "phased-sgd", "resque-private-erm"];

/// True for the name of an algorithm that is shown first, with or without parameters.
pub(super) fn is_shown_first(name: &str) -> bool {
    SHOWN_FIRST.iter().any(|id| name.split([' ', ',']).next() == Some(id))
}

/// Beginning of the names of limits.
const ROOFLINE: &str = "roofline";

/// Time per round against batch size on logarithmic axes, with the roofline of each thread count: a picture of its own for
/// light and dark pages.
///
/// Of several data sets it shows the one with most cells. Of many algorithms it shows one of each family on the most
/// threads; the subtitle says so.
pub fn time_per_round_svg(cells: &[Cell], environment: &Environment) -> String {
    let pooled = pool(cells);
    // The first one of those with most cells.
    let drawn = by_dataset(&pooled).into_values().rev().max_by_key(Vec::len).unwrap_or_default();
    let mut chart = time_per_round(&drawn, environment);
    let legend = Legend::of(&chart);
    let of_group = |group| legend.entries.iter().filter(move |entry| entry.group == group);
    let algorithms: Vec<_> = of_group(0).filter(|entry| !entry.name.starts_with(ROOFLINE)).collect();
    let (shown, all) = (algorithms.iter().filter(|entry| entry.shown).count(), algorithms.len());
    if shown < all {
        let places: Vec<&str> = of_group(1).filter(|entry| entry.shown).map(|entry| &*entry.name).collect();
        let on = if places.is_empty() { "" } else { " on " };
        let places = places.join(", ");
        chart.subtitle = format!(
            "{shown} of {all} algorithms{on}{places}, one of each family (all: rounds report); {}",
            chart.subtitle
        );
    }
    chart.svg()
}

/// The cells of an algorithm on a number of threads, by batch size: a series of a figure.
struct Group<'a> {
    /// The algorithm, with distinguishing parameters, and its data set where there are several.
    algorithm: String,
    /// Threads, and ranks where there are any.
    place: String,
    colour: usize,
    /// 0 for the most threads.
    variant: usize,
    cells: Vec<&'a Pooled>,
}

impl<'a> Group<'a> {
    /// Groups by algorithm (colour) and thread count (dash).
    fn all(cells: &[&'a Pooled]) -> Vec<Self> {
        let datasets = dataset_names(cells);
        let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
        let place = |cell: &Pooled| (cell.configuration().ranks.unwrap_or(1), cell.configuration().threads);
        let places: BTreeSet<(usize, usize)> = cells.iter().map(|cell| place(cell)).collect();
        let name = |cell: &Pooled| labels.name(cell.configuration()) + &apart(&datasets, cell);
        let is_first = |cell: &&&Pooled, id: &str| cell.configuration().algorithm == id;
        let first = SHOWN_FIRST.iter().flat_map(|id| cells.iter().filter(move |cell| is_first(cell, id)));
        let colours = distinct(first.chain(cells).map(|cell| name(cell)));
        let mut groups: BTreeMap<(usize, usize), Self> = BTreeMap::new();
        for cell in cells {
            let algorithm = name(cell);
            let colour = colours.iter().position(|known| *known == algorithm).unwrap_or(0);
            let variant = places.iter().rev().position(|known| *known == place(cell)).unwrap_or(0);
            let group = groups.entry((colour, variant)).or_insert_with(|| Self {
                algorithm,
                place: place_name(cell.configuration()),
                colour,
                variant,
                cells: Vec::new(),
            });
            group.cells.push(cell);
        }
        for group in groups.values_mut() {
            group.cells.sort_by_key(|cell| cell.configuration().batch_size);
        }
        groups.into_values().collect()
    }
}

/// The point of a cell, with the text behind the batch size in the tooltip.
type Place<'a> = &'a dyn Fn(&Pooled) -> Option<Point>;

/// A figure of the cells, with a series for each algorithm and thread count and with `references`.
struct Figure<'a> {
    title: &'a str,
    cells: &'a [&'a Pooled],
    environment: &'a Environment,
    x: Axis,
    y: Axis,
    style: Style,
}

impl Figure<'_> {
    fn chart(self, place: Place, references: Vec<Series>) -> Chart {
        let point = |cell: &Pooled, name: &str| {
            let point = place(cell).filter(|point| point.x.is_finite() && point.y.is_finite())?;
            let batch_size = count(cell.configuration().batch_size as f64);
            Some(Point { note: format!("{name}\nbatch size {batch_size}: {}", point.note), ..point })
        };
        let groups = Group::all(self.cells);
        let mut series: Vec<Series> = Vec::new();
        for group in &groups {
            let name = format!("{}, {}", group.algorithm, group.place);
            let points: Vec<Point> = group.cells.iter().filter_map(|cell| point(cell, &name)).collect();
            let own = Series::new(name, self.style, group.colour, points).variant(group.variant);
            series.extend((!own.points.is_empty()).then(|| own.keys(&group.algorithm, &group.place)));
        }
        let keys = |series: &[Series], pick: fn(&(String, String)) -> &String| -> BTreeSet<String> {
            let keys = series.iter().filter_map(|series| series.keys.as_ref());
            keys.map(|keys| pick(keys).clone()).collect()
        };
        let algorithms = keys(&series, |keys| &keys.0);
        series.extend(references);
        let mut hidden = Vec::new();
        if algorithms.len() > READABLE {
            if algorithms.iter().any(|name| is_shown_first(name)) {
                hidden.extend(algorithms.iter().filter(|name| !is_shown_first(name)).cloned());
            }
            let most = groups.iter().find(|group| group.variant == 0).map(|group| &group.place);
            let mut places = keys(&series, |keys| &keys.1);
            places.retain(|place| Some(place) != most);
            hidden.extend(places);
        }
        let subtitle = circumstances(self.cells, self.environment);
        Chart { hidden, ..Chart::new(self.title, subtitle, self.x, self.y, series) }
    }
}

/// Threads and ranks of a cell: `2 threads`, `4 ranks of 1 thread`.
pub(super) fn place_name(configuration: &Configuration) -> String {
    let threads = plural(configuration.threads, "thread");
    match configuration.ranks {
        Some(ranks) => format!("{ranks} ranks of {threads}"),
        None => threads,
    }
}

pub(super) fn dataset_name(cell: &Pooled) -> String {
    format!("{} ({})", cell.configuration().dataset, cell.configuration().features)
}

pub(super) fn by_dataset<'a>(cells: impl IntoIterator<Item = &'a Pooled>) -> BTreeMap<String, Vec<&'a Pooled>> {
    let mut datasets: BTreeMap<String, Vec<&Pooled>> = BTreeMap::new();
    for cell in cells {
        datasets.entry(dataset_name(cell)).or_default().push(cell);
    }
    datasets
}

pub(super) fn algorithms(cells: &[Pooled]) -> BTreeSet<&str> {
    let ids = cells.iter().map(|cell| cell.configuration().algorithm.as_str());
    ids.collect()
}

pub(super) fn dataset_names(cells: &[&Pooled]) -> BTreeSet<String> {
    cells.iter().map(|cell| dataset_name(cell)).collect()
}

/// The data set of a cell after a comma, where there are several.
fn apart(datasets: &BTreeSet<String>, cell: &Pooled) -> String {
    if datasets.len() > 1 { format!(", {}", dataset_name(cell)) } else { String::new() }
}

/// The subtitle of a figure: data, shared parameters, machine and build.
fn circumstances(cells: &[&Pooled], environment: &Environment) -> String {
    let dataset = |pooled: &&Pooled| {
        let (shape, name) = (pooled.cell.shape, &pooled.configuration().dataset);
        let [rows, features, classes] = [shape.n, shape.dimension, shape.classes].map(|value| count(value as f64));
        format!("{name}: n = {rows}, {features} features, {classes} classes")
    };
    let datasets: BTreeSet<String> = cells.iter().map(dataset).collect();
    let datasets = datasets.into_iter().collect::<Vec<_>>().join("; ");
    let shared = Labels::of(cells.iter().map(|cell| cell.configuration())).shared();
    let and = if shared.is_empty() { "" } else { "; " };
    let (topology, build) = (&environment.machine.topology, &environment.build);
    format!(
        "{datasets}{and}{shared}; {}, {} cores, {}, governor {}; revision {}",
        topology.processor,
        topology.cores,
        build.isa,
        environment.state.governor,
        build.short_revision(),
    )
}

/// A figure of lines against the batch size. Each size is a tick if they are few.
fn against_batch_size<'a>(
    title: &'a str,
    cells: &'a [&'a Pooled],
    environment: &'a Environment,
    y: Axis,
) -> Figure<'a> {
    let sizes: BTreeSet<usize> = cells.iter().map(|cell| cell.configuration().batch_size).collect();
    let ticks = sizes.iter().filter(|_| sizes.len() <= 8).map(|&size| size as f64);
    let x = Axis::new("batch size", Scale::Logarithmic, Format::Count).ticks(ticks);
    Figure { title, cells, environment, x, y, style: Style::Line }
}

/// Time per round against batch size, and the roofline of each thread count.
pub(super) fn time_per_round(cells: &[&Pooled], environment: &Environment) -> Chart {
    let y = Axis::new("median time per round", Scale::Logarithmic, Format::Time);
    let figure = against_batch_size("Time per round against batch size", cells, environment, y);
    let place = |cell: &Pooled| {
        let times = &cell.cell.round_ns;
        let text = format!(
            "{} (95 % interval {} to {}; 10 % to 90 % of rounds: {} to {})",
            time(cell.median()),
            time(cell.interval.low),
            time(cell.interval.high),
            time(times.p10 as f64),
            time(times.p90 as f64)
        );
        let point = Point::new(cell.configuration().batch_size as f64, cell.median(), text);
        Some(point.interval(times.p10 as f64, times.p90 as f64))
    };
    figure.chart(&place, rooflines(cells))
}

/// For each thread count, and data set where there are several, the least time of a round. Algorithms
/// with equal reads have the same limit; where limits differ, the lowest is drawn.
fn rooflines(cells: &[&Pooled]) -> Vec<Series> {
    let datasets = dataset_names(cells);
    let mut limits: BTreeMap<(usize, String), BTreeMap<usize, f64>> = BTreeMap::new();
    // Batches that shrink have other limits.
    for cell in cells.iter().filter(|cell| cell.shrunk_batch().is_none()) {
        let Some(limit) = cell.roofline_ns() else { continue };
        let dataset = apart(&datasets, cell);
        let of_place = limits.entry((cell.configuration().threads, dataset)).or_default();
        let least = of_place.entry(cell.configuration().batch_size).or_insert(limit);
        *least = least.min(limit);
    }
    let most = limits.keys().map(|(threads, _)| *threads).max();
    let series = limits.into_iter().map(|((threads, dataset), limits)| {
        let name = format!("{ROOFLINE}, {}{dataset}", plural(threads, "thread"));
        Series::reference(&name, limits.into_iter().map(|(size, limit)| (size as f64, limit)))
            .variant(usize::from(Some(threads) != most))
            .keys(&name, plural(threads, "thread"))
    });
    series.collect()
}

/// Time of one pass over the data against batch size.
pub(super) fn time_per_epoch(cells: &[&Pooled], environment: &Environment) -> Chart {
    let y = Axis::new("time per epoch", Scale::Logarithmic, Format::Time);
    let figure = against_batch_size("Time per epoch against batch size", cells, environment, y);
    let place = |cell: &Pooled| {
        let epoch = cell.epoch_seconds() * 1e9;
        Some(Point::new(cell.configuration().batch_size as f64, epoch, time(epoch)))
    };
    figure.chart(&place, Vec::new())
}

/// The time of each round on one thread over its time on more threads, against batch size. `None` without rounds on both.
pub(super) fn speed_up(cells: &[&Pooled], environment: &Environment) -> Option<Chart> {
    let key = |cell: &Pooled| {
        let configuration = cell.configuration().clone();
        Configuration { threads: 1, ..configuration }.key()
    };
    let alone = cells.iter().filter(|cell| cell.configuration().threads == 1);
    let alone: BTreeMap<String, f64> = alone.map(|cell| (key(cell), cell.median())).collect();
    let parallel = cells.iter().copied().filter(|cell| cell.configuration().threads > 1);
    let parallel: Vec<&Pooled> = parallel.collect();
    let threads: BTreeSet<usize> = parallel.iter().map(|cell| cell.configuration().threads).collect();
    let y = Axis::linear("times faster than on one thread")
        .including(threads.iter().map(|&threads| threads as f64).chain([1.0]));
    let place = |cell: &Pooled| {
        let ratio = alone.get(&key(cell))? / cell.median();
        let efficiency = percent(ratio / cell.configuration().threads as f64);
        let text = format!("{} times faster, efficiency {efficiency}", three_digits(ratio));
        Some(Point::new(cell.configuration().batch_size as f64, ratio, text))
    };
    let (least, most) = ends(parallel.iter().map(|cell| cell.configuration().batch_size as f64));
    let ideal = |&threads: &usize| {
        let name = format!("ideal, {}", plural(threads, "thread"));
        let line = [least, most].map(|size| (size, threads as f64));
        Series::reference(&name, line).keys("ideal", plural(threads, "thread"))
    };
    let figure = against_batch_size("Speed-up against batch size", &parallel, environment, y);
    let chart = figure.chart(&place, threads.iter().map(ideal).collect());
    (chart.series.len() > threads.len()).then_some(chart)
}

/// Flops per second against flops per byte below the ceilings that apply: the slope is the bandwidth of the cache that holds the
/// data, or of memory, the level is the peak of the kernels' instructions.
pub(super) fn roofline(cells: &[&Pooled], environment: &Environment) -> Option<Chart> {
    let rates = |cell: &Pooled| {
        let gflops = cell.cell.rates.gflops.filter(|gflops| *gflops > 0.0)?;
        let gbytes = cell.cell.rates.gbytes_per_s.filter(|gbytes| *gbytes > 0.0)?;
        Some((gflops / gbytes, gflops))
    };
    let place = |cell: &Pooled| {
        let (intensity, gflops) = rates(cell)?;
        let share = cell.cell.rates.roofline_fraction;
        let share = share.map_or_else(String::new, |share| format!(", {} of the roofline", of_limit(share)));
        Some(Point::new(intensity, gflops, format!("{} GFLOP/s{share}", three_digits(gflops))))
    };
    let intensities: Vec<f64> = cells.iter().filter_map(|cell| Some(rates(cell)?.0)).collect();
    let limits = cells.iter();
    let limits: Vec<(usize, Limit)> =
        limits.filter_map(|cell| Some((cell.configuration().threads, cell.cell.rates.limit?))).collect();
    if intensities.is_empty() || limits.is_empty() {
        return None;
    }
    let figure = Figure {
        title: "Rounds under the roofline",
        cells,
        environment,
        x: Axis::logarithmic("flops per byte of rows read"),
        y: Axis::logarithmic("GFLOP/s"),
        style: Style::Points,
    };
    Some(figure.chart(&place, ceilings(&limits, &intensities)))
}

/// The kernels on one thread below the ceilings of one thread; a series for each kernel and format of rows.
pub(super) fn kernels(rates: &[KernelRate], environment: &Environment) -> Option<Chart> {
    let one = environment.roofline(1)?;
    let usable = |rate: &&KernelRate| rate.flops > 0.0 && rate.bytes > 0.0 && rate.seconds > 0.0;
    let rates: Vec<&KernelRate> = rates.iter().filter(usable).collect();
    let name = |rate: &KernelRate| match rate.shape.split_once(" rows of ") {
        Some((_, rest)) => format!("{}, {} rows", rate.kernel, rest.split(',').next().unwrap_or_default()),
        None => rate.kernel.clone(),
    };
    let point = |rate: &KernelRate| {
        let note = format!(
            "{}, {}: {} GFLOP/s, {} GB/s, {} of the roofline, {} a call",
            rate.kernel,
            rate.shape,
            three_digits(rate.gflops()),
            three_digits(rate.gbytes_per_s()),
            of_limit(rate.fraction(one)),
            time(rate.seconds * 1e9)
        );
        Point::new(rate.flops / rate.bytes, rate.gflops(), note)
    };
    let mut series = grouped(Style::Points, rates.iter().map(|rate| (name(rate), point(rate))));
    series.iter_mut().for_each(|series| series.variant = 0);
    if series.is_empty() {
        return None;
    }
    let intensities: Vec<f64> = rates.iter().map(|rate| rate.flops / rate.bytes).collect();
    let limits: Vec<(usize, Limit)> = rates.iter().map(|rate| (1, rate.limit(one))).collect();
    let limits = ceilings(&limits, &intensities).into_iter();
    series.extend(limits.map(|series| Series { keys: None, ..series }));
    let subtitle = format!(
        "one thread, median calls; {}, {}, revision {}",
        environment.machine.topology.processor,
        environment.build.isa,
        environment.build.short_revision()
    );
    let (title, x) = ("Kernels under the roofline", "flops per byte read and written");
    Some(Chart::logarithmic(title, &subtitle, x, "GFLOP/s", series))
}

/// The ceilings over these intensities, min(intensity · bandwidth, peak), for each thread count and limit.
fn ceilings(limits: &[(usize, Limit)], intensities: &[f64]) -> Vec<Series> {
    let most = limits.iter().map(|(threads, _)| *threads).max();
    let ridge = |limit: &Limit| limit.gflops / limit.gbytes_per_s;
    let ridges = limits.iter().map(|(_, limit)| ridge(limit));
    let (low, high) = ends(intensities.iter().copied().chain(ridges));
    let named = limits.iter().map(|(threads, limit)| {
        let (peak, rate) = (three_digits(limit.gflops), three_digits(limit.gbytes_per_s));
        let (kind, source, place) = (limit.peak_name(), limit.source_name(), plural(*threads, "thread"));
        let name = format!("{kind} {peak} GFLOP/s and {source} {rate} GB/s, {place}");
        ((*threads, name), limit)
    });
    let named: BTreeMap<(usize, String), &Limit> = named.collect();
    let series = named.into_iter().map(|((threads, name), limit)| {
        let line = [low / 3.0, ridge(limit), 3.0 * high];
        let line = line.map(|x| (x, (x * limit.gbytes_per_s).min(limit.gflops)));
        Series::reference(&name, line)
            .variant(usize::from(Some(threads) != most))
            .keys(&name, plural(threads, "thread"))
    });
    series.collect()
}

/// Test accuracy against ε, and the best accuracy without privacy as a level. `None` without two different ε.
///
/// The thread count does not change the model, so only the cells of the most threads are drawn.
pub(super) fn accuracy(cells: &[&Pooled], environment: &Environment) -> Option<Chart> {
    let cells = &of_most_threads(cells.iter().copied());
    let epsilon = |cell: &Pooled| cell.cell.privacy_number("epsilon").filter(|epsilon| *epsilon > 0.0);
    let place = |cell: &Pooled| {
        let (epsilon, accuracy) = (epsilon(cell)?, cell.cell.quality.test_accuracy?);
        let text = format!("{} at ε = {}", percent(accuracy), three_digits(epsilon));
        Some(Point::new(epsilon, accuracy, text))
    };
    let (least, most) = ends(cells.iter().filter_map(|cell| Some(place(cell)?.x)));
    if most <= 1.001 * least {
        return None;
    }
    let is_public = |cell: &&&Pooled| cell.cell.privacy.get("claim").is_some_and(|claim| claim == "none");
    let public = cells.iter().filter(is_public);
    let best = public
        .filter_map(|cell| Some((cell.cell.quality.test_accuracy?, &cell.configuration().algorithm)))
        .max_by(|first, second| first.0.total_cmp(&second.0));
    let level = best.map(|(best, algorithm)| {
        let name = format!("{algorithm}, not private: {}", percent(best));
        Series::reference(&name, [(least / 1.5, best), (most * 1.5, best)])
    });
    let figure = Figure {
        title: "Test accuracy against ε",
        cells,
        environment,
        x: Axis::logarithmic(&labels::epsilon(cells.iter().map(|cell| &cell.cell.privacy))),
        y: Axis::new("test accuracy", Scale::Linear, Format::Percent),
        style: Style::Points,
    };
    Some(figure.chart(&place, level.into_iter().collect()))
}

pub(super) fn of_most_threads<'a>(cells: impl IntoIterator<Item = &'a Pooled, IntoIter: Clone>) -> Vec<&'a Pooled> {
    let cells = cells.into_iter();
    let most = cells.clone().map(|cell| cell.configuration().threads).max();
    cells.filter(|cell| Some(cell.configuration().threads) == most).collect()
}

/// With more algorithms each is shown at one batch size.
const FULL_PHASES: usize = 6;

/// Shares of the phases in the time of a round, on the most threads.
pub(super) fn phases(cells: &[&Pooled], environment: &Environment) -> Option<Bars> {
    let cells = of_most_threads(cells.iter().copied());
    let threads = plural(cells.first()?.configuration().threads, "thread");
    let mut groups = Group::all(&cells);
    let mut subtitle = circumstances(&cells, environment);
    if groups.len() > FULL_PHASES {
        for group in &mut groups {
            // A typical minibatch.
            group.cells.sort_by_key(|cell| cell.configuration().batch_size.abs_diff(500));
            group.cells.truncate(1);
        }
        let shown = groups.iter().flat_map(|group| &group.cells);
        let sizes: BTreeSet<usize> = shown.map(|cell| cell.configuration().batch_size).collect();
        let sizes: Vec<String> = sizes.into_iter().map(|size| count(size as f64)).collect();
        subtitle = format!("batch size {}; {subtitle}", sizes.join(" or "));
    }
    let bar = |group: &Group, cell: &Pooled| Bar {
        group: group.algorithm.clone(),
        label: count(cell.configuration().batch_size as f64),
        values: labels::phases(&cell.cell.phases_ns).map(|(_, value)| value as f64).to_vec(),
        end: time(cell.median()),
    };
    let bars = groups.iter().flat_map(|group| group.cells.iter().map(|cell| bar(group, cell)));
    Some(Bars {
        title: format!("Phases of a round on {threads}"),
        subtitle,
        parts: labels::phases(&Phases::default()).map(|(name, _)| name.to_owned()).to_vec(),
        bars: bars.collect(),
    })
}
