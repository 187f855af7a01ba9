//! The page of the study of query depth against work: figures with the theory's slopes, and the table of exponents.

use std::fmt::Write as _;

use super::beside::paired;
use super::chart::{Axis, Chart, Drawing, Point, Scale, Series, WIDE};
use super::format::{count, three_digits, time};
use super::section::{Picture, Section};
use super::shell::Page;
use super::tables::{Entry, Table};
use crate::machine::Environment;
use crate::prediction::queries::{PLACES, crossover, modelled_seconds, modelled_seconds_of_two_threads};
use crate::studies::depth_against_work::{Cell, FittedExponent, Kind, Method, Study};

/// What the series of a method are held against: how the names of those references end, and what a legend calls them.
const AGAINST: &[(&str, &str)] = &[
    (" theory", "slope of Table I"),
    (" waiting alone", "waiting for rounds alone"),
];

/// Workers of the figure of time against latency.
const WORKERS: u64 = 1_024;

/// The page.
pub fn study_html(study: &Study, environment: &Environment) -> String {
    let html = study_section(study, &environment.command);
    Page::of_study("query depth against work", "study", "Depth and work", html, environment).html()
}

/// The study as the inside of a section.
pub(super) fn study_section(study: &Study, command: &str) -> String {
    let mut html = "<h2>Query depth against total work</h2><p class=\"lead\">Every method runs until its point has a gap of at \
                    most ε, with L = R = 1; black-box queries, practical constants for the ReSQue methods. Dotted lines are \
                    the slopes of Table I of paper 002, through each method's first point.</p>"
        .to_owned();
    for (number, (family, dimension, charts)) in families(study).into_iter().enumerate() {
        let title = format!("{}, d = {dimension}", name_of(family));
        let _ = write!(html, "<h3 class=\"study\">{title}</h3>");
        let section = Section {
            id: format!("depth-{}", number + 1),
            link: String::new(),
            about: String::new(),
            panels_by: "What is shown",
            panels: charts
                .into_iter()
                .map(|(name, chart)| (name.replace('-', " "), paired(chart, AGAINST)))
                .collect(),
            command: command.to_owned(),
        };
        section.figure(&title, &mut html);
        places(study, family, dimension, &format!("places-{}", number + 1), &mut html);
    }
    exponents(&study.exponents, &mut html);
    validation(study, command, &mut html);
    html
}

/// Pictures that stand alone, of the family that the study is about: file name without extension, SVG.
pub fn study_pictures(study: &Study) -> Vec<(String, String)> {
    let pictures = families(study).into_iter().next().map(|(_, _, charts)| charts);
    pictures
        .into_iter()
        .flatten()
        .chain(predicted_against_measured(study).map(|chart| ("predicted-against-measured", chart)))
        .map(|(name, chart)| (name.to_owned(), chart.standalone_svg(WIDE)))
        .collect()
}

fn name_of(family: Kind) -> &'static str {
    match family {
        Kind::MaxOfLinear => "Maximum of linear functions",
        Kind::L1Regression => "ℓ1 regression",
        Kind::Hinge => "Hinge loss",
    }
}

/// Every family, the dimension it is shown at, and its figures by name.
fn families(study: &Study) -> Vec<(Kind, usize, Vec<(&'static str, Chart)>)> {
    let mut families = Vec::new();
    for family in [Kind::MaxOfLinear, Kind::L1Regression, Kind::Hinge] {
        let name = name_of(family);
        let of_family: Vec<&Cell> = study
            .cells
            .iter()
            .filter(|cell| cell.family == family && cell.tells() && cell.threads == 1)
            .collect();
        let Some(dimension) = shown_dimension(&of_family) else {
            continue;
        };
        let cells: Vec<&Cell> = of_family
            .iter()
            .copied()
            .filter(|cell| cell.dimension == dimension)
            .collect();
        let mut charts = vec![
            (
                "depth-against-accuracy",
                against_accuracy(
                    &cells,
                    &format!(
                        "Adaptive rounds to a gap of ε: {}, d = {dimension}",
                        name.to_lowercase()
                    ),
                    "adaptive rounds",
                    |cell| cell.rounds as f64,
                    |method| method.theory().depth_exponents().1,
                ),
            ),
            (
                "work-against-accuracy",
                against_accuracy(
                    &cells,
                    &format!(
                        "Gradient queries to a gap of ε: {}, d = {dimension}",
                        name.to_lowercase()
                    ),
                    "gradient queries",
                    |cell| cell.gradient_queries as f64,
                    |method| method.theory().query_exponents().1,
                ),
            ),
            ("depth-against-work", depth_against_queries(&cells, dimension)),
            ("time-against-latency", time_against_latency(&cells)),
            ("crossover-latency", crossover_latency(&cells, dimension)),
        ];
        if of_family.iter().any(|cell| cell.dimension != dimension) {
            charts.insert(1, ("depth-against-dimension", against_dimension(&of_family)));
        }
        families.push((family, dimension, charts));
    }
    families
}

/// How well the model of `rounds simulate` predicts two-thread times from one-thread ones.
fn validation(study: &Study, command: &str, page: &mut String) {
    let errors = model_errors(study);
    if errors.is_empty() {
        return;
    }
    let mut table = Table::new(vec![
        ("method", false),
        ("median", true),
        ("10 %", true),
        ("90 %", true),
        ("cells", true),
    ]);
    let two = |value: f64| format!("{value:.2}");
    for error in errors {
        table.row(vec![
            Entry::text(&error.algorithm),
            Entry::number(Some(error.median), two),
            Entry::number(Some(error.low), two),
            Entry::number(Some(error.high), two),
            Entry::number(Some(error.cells as f64), count),
        ]);
    }
    let title = "The model against two threads";
    let _ = write!(
        page,
        "<h3 class=\"study\">{title}</h3><p class=\"lead\">Predicted over measured two-thread time, cells of at least {} ms on \
         one thread. A round costs two threads of this machine {:.1} µs beside its work, measured on its own; rounds for which that is \
         too much stay on one thread.</p>{}",
        1e3 * LEAST_SECONDS,
        1e6 * study.exchange_seconds,
        table.html(Some("model-errors"), title, false)
    );
    if let Some(chart) = predicted_against_measured(study) {
        let title = chart.title.clone();
        let section = Section {
            id: "depth-model".to_owned(),
            link: String::new(),
            about: String::new(),
            panels_by: "What is shown",
            panels: vec![("model".to_owned(), Picture::of_chart(chart))],
            command: command.to_owned(),
        };
        section.figure(&title, page);
    }
}

/// One-thread seconds below which a cell says more of the clock than of the model.
const LEAST_SECONDS: f64 = 0.005;

/// Predicted over measured two-thread seconds of one method's cells, or of all.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    algorithm: String,
    median: f64,
    low: f64,
    high: f64,
    cells: usize,
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{}: the model's two-thread times over the measured ones: median {:.2}, 80 % between {:.2} and {:.2}, {} cells",
            self.algorithm, self.median, self.low, self.high, self.cells
        )
    }
}

/// One-thread cells with the same on two threads.
fn on_both(study: &Study) -> Vec<(&Cell, &Cell)> {
    let key = |cell: &Cell| {
        (
            cell.family as u8,
            cell.algorithm.clone(),
            cell.dimension,
            cell.accuracy.to_bits(),
        )
    };
    let on = |threads: usize| {
        let cells = study.cells.iter();
        cells.filter(move |cell| cell.threads == threads && cell.reached)
    };
    on(1)
        .filter(|one| one.seconds >= LEAST_SECONDS)
        .filter_map(|one| on(2).find(|two| key(two) == key(one)).map(|two| (one, two)))
        .collect()
}

/// Errors of the model: over all cells, then method by method.
pub fn model_errors(study: &Study) -> Vec<ModelError> {
    let pairs = on_both(study);
    let error = |algorithm: &str, of: &dyn Fn(&Cell) -> bool| {
        let mut ratios: Vec<f64> = pairs
            .iter()
            .filter(|(one, _)| of(one))
            .map(|(one, two)| modelled_seconds_of_two_threads(one, study.exchange_seconds) / two.seconds)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len().checked_sub(1)?;
        let at = |share: f64| ratios[(share * last as f64).round() as usize];
        Some(ModelError {
            algorithm: algorithm.to_owned(),
            median: at(0.5),
            low: at(0.1),
            high: at(0.9),
            cells: ratios.len(),
        })
    };
    let methods = Method::ALL
        .into_iter()
        .filter_map(|method| error(method.id(), &|cell| cell.algorithm == method.id()));
    error("all methods", &|_| true).into_iter().chain(methods).collect()
}

/// Two-thread seconds: the model's against the measured ones.
fn predicted_against_measured(study: &Study) -> Option<Chart> {
    let pairs = on_both(study);
    let seconds = || pairs.iter().map(|(_, two)| two.seconds);
    let (low, high) = (seconds().min_by(f64::total_cmp)?, seconds().max_by(f64::total_cmp)?);
    let mut series: Vec<Series> = Method::ALL
        .into_iter()
        .enumerate()
        .map(|(colour, method)| Series {
            name: method.id().to_owned(),
            drawing: Drawing::Points,
            colour,
            variant: 0,
            points: pairs
                .iter()
                .filter(|(one, _)| one.algorithm == method.id())
                .map(|(one, two)| {
                    let predicted = modelled_seconds_of_two_threads(one, study.exchange_seconds);
                    let note = format!("{} d = {} ε = {}", method.id(), one.dimension, one.accuracy);
                    point(two.seconds, predicted, note)
                })
                .collect(),
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    series.push(Series {
        name: "as measured".to_owned(),
        drawing: Drawing::Reference,
        colour: 7,
        variant: 0,
        points: [low, high].map(|x| point(x, x, "as measured".to_owned())).into(),
    });
    Some(Chart {
        title: "The model's two-thread times against the measured ones".to_owned(),
        subtitle: "from one-thread times of the same run; the dotted line is equality".to_owned(),
        x: logarithmic("measured seconds"),
        y: logarithmic("predicted seconds"),
        series,
    })
}

/// Time to the target in each place, and from which latency on each method overtakes another.
fn places(study: &Study, family: Kind, dimension: usize, id: &str, page: &mut String) {
    let cells: Vec<&Cell> = study
        .cells
        .iter()
        .filter(|cell| cell.family == family && cell.tells() && cell.threads == 1 && cell.dimension == dimension)
        .collect();
    let accuracy = common_accuracy(&cells);
    let cells: Vec<&Cell> = cells.into_iter().filter(|cell| cell.accuracy == accuracy).collect();
    if cells.is_empty() {
        return;
    }
    let mut table = Table::new(vec![
        ("place", false),
        ("workers", true),
        ("latency", true),
        ("method", false),
        ("time", true),
        ("faster than, from this latency on", false),
    ]);
    let nanoseconds = |seconds: f64| Entry::number(Some(1e9 * seconds), time);
    for place in PLACES {
        let seconds = |cell: &Cell| modelled_seconds(cell, place.workers, place.latency);
        let mut sorted = cells.clone();
        sorted.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        for cell in &sorted {
            let overtaken: Vec<String> = sorted
                .iter()
                .filter_map(|other| {
                    let latency = crossover(cell, other, place.workers)?;
                    // A number stays with its unit where the list is broken.
                    let from = time(1e9 * latency).replace(' ', "\u{a0}");
                    Some(format!("{} {from}", other.algorithm))
                })
                .collect();
            table.row(vec![
                Entry::text(place.name),
                Entry::number(Some(place.workers as f64), count),
                nanoseconds(place.latency),
                Entry::text(&cell.algorithm),
                nanoseconds(seconds(cell)),
                Entry::text(&overtaken.join(", ")),
            ]);
        }
    }
    let title = format!("Time to ε = {accuracy} elsewhere, modelled");
    let _ = write!(
        page,
        "<h3 class=\"study\">{title}</h3>{}",
        table.html(Some(id), &title, true)
    );
}

/// The latency of a round above which a method is faster than SGD, and than accelerated smoothing, against ε.
fn crossover_latency(cells: &[&Cell], dimension: usize) -> Chart {
    let mut series = Vec::new();
    for (variant, other) in [Method::Sgd, Method::RandomizedSmoothing].into_iter().enumerate() {
        let others = of_method(cells, other);
        for (colour, method) in Method::ALL.into_iter().enumerate() {
            let mut own = of_method(cells, method);
            own.sort_by(|a, b| b.accuracy.total_cmp(&a.accuracy));
            let points: Vec<Point> = own
                .iter()
                .filter_map(|cell| {
                    let other = others.iter().find(|other| other.accuracy == cell.accuracy)?;
                    let latency = crossover(cell, other, WORKERS)?;
                    let note = format!("{} over {}: {} s", method.id(), other.algorithm, three_digits(latency));
                    // Below the shortest round there is, a method is faster everywhere.
                    (latency > PLACES[0].latency).then(|| point(1.0 / cell.accuracy, latency, note))
                })
                .collect();
            if !points.is_empty() {
                series.push(Series {
                    name: format!("{} over {}", method.id(), other.id()),
                    drawing: Drawing::Line,
                    colour,
                    variant,
                    points,
                });
            }
        }
    }
    let reach = |fold: fn(f64, f64) -> f64, from: f64| cells.iter().map(|cell| 1.0 / cell.accuracy).fold(from, fold);
    let (low, high) = (reach(f64::min, f64::INFINITY), reach(f64::max, 0.0));
    for place in PLACES {
        series.push(Series {
            name: place.name.to_owned(),
            drawing: Drawing::Reference,
            colour: 7,
            variant: 0,
            points: [low, high]
                .map(|x| {
                    point(
                        x,
                        place.latency,
                        format!("{}: {} s", place.name, three_digits(place.latency)),
                    )
                })
                .into(),
        });
    }
    Chart {
        title: format!("Latency of a round above which a method overtakes, d = {dimension}"),
        subtitle: format!(
            "{WORKERS} workers, modelled; above a line its method is the faster one; dotted, from below: {}",
            PLACES.map(|place| place.name).join(", ")
        ),
        x: logarithmic("1/ε"),
        y: logarithmic("latency of a round in seconds"),
        series,
    }
}

/// The dimension with most cells, the larger one of two; the cutting planes, which have only small ones, aside.
fn shown_dimension(cells: &[&Cell]) -> Option<usize> {
    let count = |dimension: usize| {
        let here = |cell: &&&Cell| cell.dimension == dimension && cell.algorithm != Method::CuttingPlane.id();
        cells.iter().filter(here).count()
    };
    cells
        .iter()
        .map(|cell| cell.dimension)
        .max_by_key(|&dimension| (count(dimension), dimension))
}

fn logarithmic(label: &str) -> Axis {
    Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        format: three_digits,
        ticks: Vec::new(),
        include: Vec::new(),
    }
}

fn of_method(cells: &[&Cell], method: Method) -> Vec<Cell> {
    cells
        .iter()
        .filter(|cell| cell.algorithm == method.id())
        .map(|&cell| cell.clone())
        .collect()
}

fn point(x: f64, y: f64, note: String) -> Point {
    Point {
        x,
        y,
        whisker: None,
        note,
    }
}

fn against_accuracy(
    cells: &[&Cell],
    title: &str,
    quantity: &str,
    value: impl Fn(&Cell) -> f64,
    slope: impl Fn(Method) -> f64,
) -> Chart {
    let mut series = Vec::new();
    for (colour, method) in Method::ALL.into_iter().enumerate() {
        let mut own = of_method(cells, method);
        own.sort_by(|a, b| b.accuracy.total_cmp(&a.accuracy));
        let (Some(first), Some(last)) = (own.first(), own.last()) else {
            continue;
        };
        let points = own
            .iter()
            .map(|cell| {
                point(
                    1.0 / cell.accuracy,
                    value(cell),
                    format!("{}: {}", method.id(), value(cell)),
                )
            })
            .collect();
        let line = |cell: &Cell| {
            let y = value(first) * (first.accuracy / cell.accuracy).powf(slope(method));
            point(
                1.0 / cell.accuracy,
                y,
                format!("{}: slope {:.2}", method.id(), slope(method)),
            )
        };
        let theory = vec![line(first), line(last)];
        series.push(Series {
            name: method.id().to_owned(),
            drawing: Drawing::Line,
            colour,
            variant: 0,
            points,
        });
        series.push(Series {
            name: format!("{} theory", method.id()),
            drawing: Drawing::Reference,
            colour,
            variant: 1,
            points: theory,
        });
    }
    Chart {
        title: title.to_owned(),
        subtitle: "one thread; slopes of Table I dotted".to_owned(),
        x: logarithmic("1/ε"),
        y: logarithmic(quantity),
        series,
    }
}

/// Rounds against d at the smallest ε that most cells have.
fn against_dimension(cells: &[&Cell]) -> Chart {
    let accuracy = common_accuracy(cells);
    let mut series = Vec::new();
    for (colour, method) in Method::ALL.into_iter().enumerate() {
        let mut own = of_method(cells, method);
        own.retain(|cell| cell.accuracy == accuracy);
        own.sort_by_key(|cell| cell.dimension);
        let (Some(first), Some(last)) = (own.first(), own.last()) else {
            continue;
        };
        let slope = method.theory().depth_exponents().0;
        let line = |cell: &Cell| {
            let ratio = cell.dimension as f64 / first.dimension as f64;
            let note = format!("{}: slope {slope:.2}", method.id());
            point(cell.dimension as f64, first.rounds as f64 * ratio.powf(slope), note)
        };
        let theory = vec![line(first), line(last)];
        let note = |cell: &Cell| format!("{}: {}", method.id(), cell.rounds);
        let points = own
            .iter()
            .map(|cell| point(cell.dimension as f64, cell.rounds as f64, note(cell)))
            .collect();
        series.push(Series {
            name: method.id().to_owned(),
            drawing: Drawing::Line,
            colour,
            variant: 0,
            points,
        });
        series.push(Series {
            name: format!("{} theory", method.id()),
            drawing: Drawing::Reference,
            colour,
            variant: 1,
            points: theory,
        });
    }
    Chart {
        title: format!("Adaptive rounds to a gap of ε = {accuracy} against the dimension"),
        subtitle: "one thread; slopes of Table I dotted".to_owned(),
        x: logarithmic("dimension d"),
        y: logarithmic("adaptive rounds"),
        series,
    }
}

/// The smallest ε of those with most cells.
fn common_accuracy(cells: &[&Cell]) -> f64 {
    let mut accuracies: Vec<f64> = cells.iter().map(|cell| cell.accuracy).collect();
    accuracies.sort_by(f64::total_cmp);
    accuracies.dedup();
    let count = |accuracy: f64| cells.iter().filter(|cell| cell.accuracy == accuracy).count();
    let most = accuracies.iter().map(|&accuracy| count(accuracy)).max().unwrap_or(0);
    accuracies
        .into_iter()
        .find(|&accuracy| count(accuracy) == most)
        .unwrap_or(0.1)
}

fn depth_against_queries(cells: &[&Cell], dimension: usize) -> Chart {
    let mut series = Vec::new();
    for (colour, method) in Method::ALL.into_iter().enumerate() {
        let mut own = of_method(cells, method);
        own.sort_by_key(|cell| cell.gradient_queries);
        let (Some(first), Some(last)) = (own.first(), own.last()) else {
            continue;
        };
        let note = |cell: &Cell| format!("{} at ε = {}", method.id(), cell.accuracy);
        let points = own
            .iter()
            .map(|cell| point(cell.gradient_queries as f64, cell.rounds as f64, note(cell)))
            .collect();
        // depth = ε^{−p}, queries = ε^{−q}: depth = queries^{p/q}.
        let (depth, queries) = (method.theory().depth_exponents().1, method.theory().query_exponents().1);
        let theory = (queries > 0.0).then(|| {
            let slope = depth / queries;
            let line = |cell: &Cell| {
                let ratio = cell.gradient_queries as f64 / first.gradient_queries as f64;
                let y = first.rounds as f64 * ratio.powf(slope);
                point(
                    cell.gradient_queries as f64,
                    y,
                    format!("{}: slope {slope:.2}", method.id()),
                )
            };
            vec![line(first), line(last)]
        });
        series.push(Series {
            name: method.id().to_owned(),
            drawing: Drawing::Points,
            colour,
            variant: 0,
            points,
        });
        series.extend(theory.map(|points| Series {
            name: format!("{} theory", method.id()),
            drawing: Drawing::Reference,
            colour,
            variant: 1,
            points,
        }));
    }
    Chart {
        title: format!("Query depth against total work, d = {dimension}"),
        subtitle: "one point for each ε; slopes of Table I dotted".to_owned(),
        x: logarithmic("gradient queries"),
        y: logarithmic("adaptive rounds"),
        series,
    }
}

fn time_against_latency(cells: &[&Cell]) -> Chart {
    let accuracy = common_accuracy(cells);
    let latencies: Vec<f64> = (-12..=4).map(|step| 10f64.powf(f64::from(step) / 2.0)).collect();
    let mut series: Vec<Series> = Method::ALL
        .into_iter()
        .enumerate()
        .filter_map(|(colour, method)| {
            let own = of_method(cells, method);
            let cell = own.iter().find(|cell| cell.accuracy == accuracy)?;
            let points = latencies
                .iter()
                .map(|&latency| {
                    let seconds = modelled_seconds(cell, WORKERS, latency);
                    point(
                        latency,
                        seconds,
                        format!("{}: {} s", method.id(), three_digits(seconds)),
                    )
                })
                .collect();
            Some(Series {
                name: method.id().to_owned(),
                drawing: Drawing::Line,
                colour,
                variant: 0,
                points,
            })
        })
        .collect();
    // Theory's slope far out is 1: rounds·ℓ, drawn where it is more than a hundredth of the time.
    for (colour, method) in Method::ALL.into_iter().enumerate() {
        let own = of_method(cells, method);
        let Some(cell) = own.iter().find(|cell| cell.accuracy == accuracy) else {
            continue;
        };
        let waiting = |latency: f64| cell.rounds as f64 * latency;
        let drawn = |latency: &&f64| waiting(**latency) > 0.01 * modelled_seconds(cell, WORKERS, **latency);
        let (Some(first), Some(last)) = (latencies.iter().find(drawn), latencies.last()) else {
            continue;
        };
        let ends = [*first, *last].map(|latency| {
            let note = format!("{}: {} rounds of waiting", method.id(), cell.rounds);
            point(latency, waiting(latency), note)
        });
        series.push(Series {
            name: format!("{} waiting alone", method.id()),
            drawing: Drawing::Reference,
            colour,
            variant: 1,
            points: ends.into(),
        });
    }
    // Where the fastest method changes.
    let fastest = |latency: f64| {
        let of = |method: &Method| {
            let own = of_method(cells, *method);
            let cell = own.iter().find(|cell| cell.accuracy == accuracy)?;
            Some((modelled_seconds(cell, WORKERS, latency), *method))
        };
        Method::ALL.iter().filter_map(of).min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let steps: Vec<f64> = (-600..=200).map(|step| 10f64.powf(f64::from(step) / 100.0)).collect();
    let mut changes = Vec::new();
    for pair in steps.windows(2) {
        if let (Some((seconds, before)), Some((_, after))) = (fastest(pair[0]), fastest(pair[1]))
            && before != after
        {
            changes.push(format!("{} from {} on", after.id(), time(1e9 * pair[1])));
            let floor = fastest(steps[0]).map_or(seconds, |(least, _)| least);
            series.push(Series {
                name: format!("{} fastest from here", after.id()),
                drawing: Drawing::Reference,
                colour: 0,
                variant: 0,
                points: [floor, 1e4 * seconds]
                    .map(|y| point(pair[1], y, format!("{} is fastest to the right", after.id())))
                    .into(),
            });
        }
    }
    let first = fastest(steps[0]).map_or("none", |(_, method)| method.id());
    Chart {
        title: format!("Time to ε = {accuracy} on {WORKERS} workers"),
        subtitle: format!(
            "modelled from measured one-thread costs, bandwidth not modelled; dotted: rounds·latency, and where the \
             fastest method changes: {first}{}{}",
            if changes.is_empty() { "" } else { ", then " },
            changes.join(", ")
        ),
        x: logarithmic("latency of a round in seconds"),
        y: logarithmic("seconds"),
        series,
    }
}

fn exponents(fits: &[FittedExponent], page: &mut String) {
    let mut table = Table::new(vec![
        ("method", false),
        ("family", false),
        ("quantity", false),
        ("in", false),
        ("theory", true),
        ("measured", true),
        ("95 % interval", true),
        ("cells", true),
    ]);
    let two = |value: f64| format!("{value:.2}");
    for fit in fits {
        let family = serde_json::to_string(&fit.family).unwrap_or_default();
        table.row(vec![
            Entry::text(&fit.algorithm),
            Entry::text(family.trim_matches('"')),
            Entry::text(&fit.quantity.replace('_', " ")),
            Entry::text(&fit.variable.replace('_', " ")),
            Entry::number(Some(fit.theory), two),
            Entry::number(Some(fit.exponent.measured), two),
            Entry::html(
                format!("[{:.2}, {:.2}]", fit.exponent.low, fit.exponent.high),
                Some(fit.exponent.low),
            ),
            Entry::number(Some(fit.cells as f64), count),
        ]);
    }
    let _ = write!(
        page,
        "<h3 class=\"study\">Exponents</h3>{}",
        table.html(Some("exponents"), "Exponents", true)
    );
}
