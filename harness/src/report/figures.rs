//! The figures of a run: its pooled cells as lines, which `suite.toml` draws.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::labels::{self, Labels};
use crate::drawing::chart::{Chart, Style, ends};
use crate::drawing::declared::Figure;
use crate::drawing::presentation::Panel;
use crate::format::{count, percent, plural, three_digits};
use crate::grouping::distinct;
use crate::machine::{Environment, Limit};
use crate::results::{Cell, Configuration, Pooled, pool};

/// With more algorithms a figure shows [`SHOWN_FIRST`] at first, and a reader switches the others on.
const READABLE: usize = 8;

/// One algorithm of each family. They have the first colours, which differ most.
const SHOWN_FIRST: &[&str] =
    &["sgd", "dp-sgd", "dp-ftrl", "dp-srg-memf", "accelerated-dp-srg", "dp-nag", "phased-sgd", "resque-private-erm"];

/// The place of the name of an algorithm, with or without parameters, among those that are shown first.
fn place_of(name: &str) -> usize {
    let id = name.split([' ', ',']).next();
    SHOWN_FIRST.iter().position(|known| Some(*known) == id).unwrap_or(SHOWN_FIRST.len())
}

/// True for the name of an algorithm that is shown first.
pub(super) fn is_shown_first(name: &str) -> bool {
    place_of(name) < SHOWN_FIRST.len()
}

/// A section of the page of a run.
#[derive(Deserialize)]
pub(super) struct Drawn {
    pub(super) id: String,
    pub(super) link: String,
    pub(super) title: String,
    pub(super) about: String,
    pub(super) figure: Figure,
}

/// The sections of `suite.toml`; the first is that of times.
pub(super) fn drawn() -> Vec<Drawn> {
    #[derive(Deserialize)]
    struct Suite {
        section: Vec<Drawn>,
    }
    toml::from_str::<Suite>(include_str!("suite.toml")).expect("a test draws it").section
}

impl Drawn {
    /// A panel for each data set. Of many algorithms one of each family is on at first, on the most threads.
    pub(super) fn panels(&self, lines: &[Value]) -> Vec<Panel> {
        let mut panels = self.figure.panels(lines, 0.95);
        for chart in panels.iter_mut().map(|panel| &mut panel.chart) {
            chart.title = format!("{}: {}", self.title, chart.title);
            let (names, places) = keys(chart);
            if names.len() > READABLE {
                let others = names.iter().filter(|name| !is_shown_first(name));
                chart.hidden.extend(others.filter(|_| names.iter().any(|name| is_shown_first(name))).cloned());
                chart.hidden.extend(places.into_iter().skip(1));
            }
        }
        panels
    }
}

/// The algorithms and places of a chart.
fn keys(chart: &Chart) -> (Vec<String>, Vec<String>) {
    let measured = chart.series.iter().filter(|series| series.style != Style::Reference);
    let (names, places): (Vec<_>, Vec<_>) = measured.filter_map(|series| series.keys.clone()).unzip();
    (distinct(names), distinct(places))
}

/// Time per round against batch size on logarithmic axes, with the roofline of each thread count: a picture of its own for
/// light and dark pages.
///
/// Of several data sets it shows the one with most cells. Of many algorithms it shows one of each family on the most
/// threads; the subtitle says so.
pub fn time_per_round_svg(cells: &[Cell], environment: &Environment) -> String {
    let panels = drawn().first().map_or_else(Vec::new, |drawn| drawn.panels(&lines(&pool(cells), environment)));
    let Some(Panel { mut chart, .. }) = panels.into_iter().next() else { return String::new() };
    let (names, places) = keys(&chart);
    let shown = |all: &[String]| all.iter().filter(|name| !chart.hidden.contains(name)).cloned().collect::<Vec<_>>();
    let (shown, places) = (shown(&names).len(), shown(&places).join(", "));
    if shown < names.len() {
        chart.subtitle = format!(
            "{shown} of {} algorithms on {places}, one of each family (all: rounds report); {}",
            names.len(),
            chart.subtitle
        );
    }
    chart.svg()
}

/// A line for each pooled cell, the data set with most cells first, and three for the ceilings of each limit.
pub(super) fn lines(cells: &[Pooled], environment: &Environment) -> Vec<Value> {
    let mut datasets: Vec<_> = by_dataset(cells).into_iter().collect();
    datasets.sort_by_key(|(_, cells)| Reverse(cells.len()));
    datasets.iter().flat_map(|(dataset, cells)| of_dataset(dataset, cells, environment)).collect()
}

fn of_dataset(dataset: &str, cells: &[&Pooled], environment: &Environment) -> Vec<Value> {
    let labels = Labels::of(cells.iter().map(|cell| cell.configuration()));
    let subtitle = circumstances(cells, environment);
    let mut cells = cells.to_vec();
    cells.sort_by_cached_key(|cell| {
        let cell = cell.configuration();
        (place_of(&labels.name(cell)), labels.name(cell), Reverse((cell.ranks, cell.threads)), cell.batch_size)
    });
    let alone = |cell: &Pooled| {
        let key = Configuration { threads: 1, ..cell.configuration().clone() }.key();
        cells.iter().find(|other| other.configuration().key() == key).map(|one| one.median() / cell.median())
    };
    let most = of_most_threads(cells.iter().copied());
    let accuracy = |cell: &Pooled| cell.cell.quality.test_accuracy;
    let epsilon = |cell: &Pooled| cell.cell.privacy_number("epsilon").filter(|epsilon| *epsilon > 0.0);
    let (least, greatest) = ends(most.iter().filter(|cell| accuracy(cell).is_some()).filter_map(|cell| epsilon(cell)));
    let public = most.iter().filter(|cell| cell.cell.privacy.get("claim").is_some_and(|claim| claim == "none"));
    let public = public.filter_map(|cell| Some((accuracy(cell)?, &cell.configuration().algorithm)));
    let public = public.max_by(|a, b| a.0.total_cmp(&b.0));
    let line = |cell: &&Pooled| {
        let (configuration, times, rates) = (cell.configuration(), &cell.cell.round_ns, &cell.cell.rates);
        let gflops = rates.gflops.filter(|gflops| *gflops > 0.0);
        let bytes = rates.gbytes_per_s.filter(|bytes| *bytes > 0.0);
        let mut line = json!({
            "dataset": dataset, "name": labels.name(configuration), "place": place_name(configuration),
            "circumstances": subtitle, "batch_size": configuration.batch_size, "time": cell.median(), "p10": times.p10,
            "p90": times.p90, "epoch": 1e9 * cell.epoch_seconds(), "gflops": gflops,
            "intensity": gflops.zip(bytes).map(|(flops, bytes)| flops / bytes),
            // Batches that shrink have other limits.
            "roofline": cell.roofline_ns().filter(|_| cell.shrunk_batch().is_none()),
        });
        if configuration.threads > 1 {
            line["speedup"] = alone(cell).into();
            line["ideal"] = alone(cell).map(|_| configuration.threads).into();
        }
        // The thread count does not change the model.
        if greatest > 1.001 * least && most.iter().any(|other| std::ptr::eq(*other, *cell)) {
            line["epsilon"] = epsilon(cell).into();
            line["accuracy"] = accuracy(cell).into();
            line["guarantee"] = labels::epsilon(most.iter().map(|cell| &cell.cell.privacy)).into();
            line["public"] = public.map(|(best, _)| best).into();
            line["not_private"] = public.map(|(best, id)| format!("{id}, not private: {}", percent(best))).into();
        }
        line
    };
    let mut lines: Vec<Value> = cells.iter().map(line).collect();
    let limits = cells.iter().filter_map(|cell| Some((place_name(cell.configuration()), cell.cell.rates.limit?)));
    let ceilings = ceilings(dataset, limits.collect(), &lines);
    lines.extend(ceilings);
    lines
}

/// The ceilings over the intensities of lines, min(intensity · bandwidth, peak): three lines for each place and limit.
fn ceilings(dataset: &str, limits: Vec<(String, Limit)>, lines: &[Value]) -> Vec<Value> {
    let ridge = |limit: &Limit| limit.gflops / limit.gbytes_per_s;
    let intensities = lines.iter().filter_map(|line| line["intensity"].as_f64());
    let (low, high) = ends(intensities.chain(limits.iter().map(|(_, limit)| ridge(limit))));
    let named = limits.into_iter().map(|(place, limit)| {
        let (peak, rate) = (three_digits(limit.gflops), three_digits(limit.gbytes_per_s));
        let name = format!("{} {peak} GFLOP/s and {} {rate} GB/s", limit.peak_name(), limit.source_name());
        ((place, name), limit)
    });
    let named: BTreeMap<(String, String), Limit> = named.collect();
    let of_limit = |((place, name), limit): (&(String, String), &Limit)| {
        [low / 3.0, ridge(limit), 3.0 * high].map(|x| {
            let ceiling = (x * limit.gbytes_per_s).min(limit.gflops);
            json!({ "dataset": dataset, "place": place, "limit": name, "intensity": x, "ceiling": ceiling })
        })
    };
    named.iter().flat_map(of_limit).collect()
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

pub(super) fn of_most_threads<'a>(cells: impl IntoIterator<Item = &'a Pooled, IntoIter: Clone>) -> Vec<&'a Pooled> {
    let cells = cells.into_iter();
    let most = cells.clone().map(|cell| cell.configuration().threads).max();
    cells.filter(|cell| Some(cell.configuration().threads) == most).collect()
}
