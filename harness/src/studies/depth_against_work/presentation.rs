//! The presentation of query depth against work: charts with the slopes of Table I of paper 002, exponents, modelled times.

use rounds_algorithms::theory::parallel::Method;

use crate::format::{number, three_digits, time};
use crate::report::{Chart, Entry, Figure, Panel, Part, Point, Presentation, Series, Style, Table};
use crate::statistics::Estimate;
use crate::studies::depth_cell::{Cell, Kind, PLACES};
use crate::studies::exponents::Study;

/// Workers of the figures of time against latency.
const WORKERS: u64 = 1_024;
/// One-thread seconds below which the clock's resolution dominates the error of the model.
const LEAST_SECONDS: f64 = 0.005;

pub(super) fn present(study: &Study) -> Presentation {
    let about = "Every method runs until the gap of its point is at most ε, with L = R = 1; medians over seeds; black-box \
                 queries, practical constants for the ReSQue methods. Dotted lines are the slopes of Table I of paper 002, through each method's \
                 first point.";
    let mut presentation = Presentation::new("Query depth against total work", "Depth and work", about);
    for family in [Kind::MaxOfLinear, Kind::L1Regression, Kind::Hinge] {
        let first = presentation.parts.is_empty();
        presentation.parts.extend(family_parts(study, family, first));
    }
    presentation.parts.push(Part::Heading("Exponents".to_owned()));
    presentation.parts.push(Part::Table(exponents(study)));
    presentation.parts.extend(validation(study));
    presentation
}

/// The charts and the modelled times of a family; the charts of the first have files.
fn family_parts(study: &Study, family: Kind, first: bool) -> Vec<Part> {
    let name = match family {
        Kind::MaxOfLinear => "Maximum of linear functions",
        Kind::L1Regression => "ℓ1 regression",
        Kind::Hinge => "Hinge loss",
    };
    let usable = |cell: &&Cell| cell.family == family && cell.is_typical() && cell.threads == 1;
    let all: Vec<&Cell> = study.cells.iter().filter(usable).collect();
    let Some(dimension) = shown_dimension(&all) else {
        return Vec::new();
    };
    let cells: Vec<&Cell> = all.iter().copied().filter(|cell| cell.dimension == dimension).collect();
    let title = format!("{name}, d = {dimension}");
    let (rounds, queries) = (|cell: &Cell| cell.rounds as f64, |cell: &Cell| cell.gradient_queries as f64);
    let dotted = "one thread; slopes of Table I dotted";
    let chart = |title, x, y, series| Chart::logarithmic(title, dotted, x, y, series);
    let to_gap = |quantity: &str, unit, value: Value, slope: fn(Method) -> f64| {
        let title = format!("{quantity} to a gap of ε: {}, d = {dimension}", name.to_lowercase());
        let inverse = |cell: &Cell| 1.0 / cell.accuracy;
        chart(title, "1/ε", unit, with_slopes(&cells, Style::Line, &inverse, value, &|method| Some(slope(method))))
    };
    let depth = to_gap("Adaptive rounds", "adaptive rounds", &rounds, |method| method.depth_exponents().1);
    let steps = |cell: &Cell| cell.computational_depth as f64;
    let steps = to_gap("Computational depth", "dependent steps", &steps, |method| method.computational_exponents().1);
    let work = to_gap("Gradient queries", "gradient queries", &queries, |method| method.query_exponents().1);
    // Depth = ε^{−p} and queries = ε^{−q}, so depth = queries^{p/q}.
    let ratio = |method: Method| {
        let (p, q) = (method.depth_exponents().1, method.query_exponents().1);
        (q > 0.0).then(|| p / q)
    };
    let against = with_slopes(&cells, Style::Points, &queries, &rounds, &ratio);
    let whole = format!("Query depth against total work, d = {dimension}");
    let mut charts = vec![
        ("depth-against-accuracy", depth),
        ("computational-depth", steps),
        ("work-against-accuracy", work),
        ("depth-against-work", chart(whole, "gradient queries", "adaptive rounds", against)),
        ("time-against-latency", time_against_latency(&cells)),
        ("crossover-latency", crossover_latency(&cells, dimension)),
    ];
    if all.len() > cells.len() {
        let accuracy = common_accuracy(&all);
        let of_accuracy: Vec<&Cell> = all.iter().copied().filter(|cell| cell.accuracy == accuracy).collect();
        let slope = |method: Method| Some(method.depth_exponents().0);
        let series = with_slopes(&of_accuracy, Style::Line, &|cell| cell.dimension as f64, &rounds, &slope);
        let title = format!("Adaptive rounds to a gap of ε = {accuracy} against the dimension");
        charts.insert(1, ("depth-against-dimension", chart(title, "dimension d", "adaptive rounds", series)));
    }
    let panel =
        |(file, chart): (&str, Chart)| Panel::chart(&file.replace('-', " "), if first { file } else { "" }, chart);
    let figure = Figure::new(&title, "Content", charts.into_iter().map(panel).collect());
    let mut parts = vec![Part::Heading(title), Part::Figure(figure)];
    parts.extend(places(&cells));
    parts
}

/// The dimension with most cells, the larger one of two. Cutting planes have small dimensions only and do not count.
fn shown_dimension(cells: &[&Cell]) -> Option<usize> {
    let others = |cell: &&&Cell| cell.algorithm != Method::CuttingPlane.id();
    let count = |dimension| cells.iter().filter(others).filter(|cell| cell.dimension == dimension).count();
    let dimensions = cells.iter().map(|cell| cell.dimension);
    dimensions.max_by_key(|&dimension| (count(dimension), dimension))
}

/// The smallest ε of those with most cells.
fn common_accuracy(cells: &[&Cell]) -> f64 {
    let mut accuracies: Vec<f64> = cells.iter().map(|cell| cell.accuracy).collect();
    accuracies.sort_by(f64::total_cmp);
    accuracies.dedup();
    let count = |accuracy: f64| cells.iter().filter(|cell| cell.accuracy == accuracy).count();
    let most = accuracies.iter().map(|&accuracy| count(accuracy)).max();
    let mut common = accuracies.into_iter().filter(|&accuracy| Some(count(accuracy)) == most);
    common.next().unwrap_or(0.1)
}

type Value<'a> = &'a dyn Fn(&Cell) -> f64;
type Slope<'a> = &'a dyn Fn(Method) -> Option<f64>;

/// A series for each method in the order of x, and a reference with the slope of theory through its first point.
fn with_slopes(cells: &[&Cell], style: Style, x: Value, y: Value, slope: Slope) -> Vec<Series> {
    let mut series = Vec::new();
    for (colour, method) in Method::ALL.into_iter().enumerate() {
        let id = method.id();
        let mut own: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.algorithm == id).collect();
        own.sort_by(|a, b| x(a).total_cmp(&x(b)));
        let (Some(first), Some(last)) = (own.first(), own.last()) else {
            continue;
        };
        let point =
            |cell: &&Cell| Point::new(x(cell), y(cell), format!("{id} at ε = {}: {}", cell.accuracy, number(y(cell))));
        series.push(Series::new(id, style, colour, own.iter().map(point).collect()).keys(id, ""));
        if let Some(slope) = slope(method) {
            let line = |cell: &Cell| (x(cell), y(first) * (x(cell) / x(first)).powf(slope));
            series.push(reference(
                &format!("{id}: slope {slope:.2}"),
                method,
                "slope of Table I",
                [line(first), line(last)],
            ));
        }
    }
    series
}

fn colour(method: Method) -> usize {
    Method::ALL.iter().position(|other| *other == method).unwrap_or(0)
}

/// A dotted line in the colour of a method, with a legend entry of its own.
fn reference(name: &str, method: Method, entry: &str, line: [(f64, f64); 2]) -> Series {
    let series = Series::reference(name, line).variant(1).keys(method.id(), entry);
    Series { colour: colour(method), ..series }
}

/// The cell of each method at the common accuracy.
fn at_common_accuracy<'a>(cells: &[&'a Cell]) -> (f64, Vec<(Method, &'a Cell)>) {
    let accuracy = common_accuracy(cells);
    let cell = |method: Method| {
        let own = |cell: &&&Cell| cell.algorithm == method.id() && cell.accuracy == accuracy;
        Some((method, *cells.iter().find(own)?))
    };
    (accuracy, Method::ALL.into_iter().filter_map(cell).collect())
}

/// Modelled time against the latency of a round, the waiting alone, and the latencies at which the fastest method changes.
fn time_against_latency(cells: &[&Cell]) -> Chart {
    let (accuracy, cells) = at_common_accuracy(cells);
    let latencies: Vec<f64> = (-12..=4).map(|step| 10f64.powf(f64::from(step) / 2.0)).collect();
    let mut series = Vec::new();
    for &(method, cell) in &cells {
        let point = |&latency: &f64| {
            let seconds = cell.work().time_to_target(WORKERS, latency);
            let note = format!("{}: {} s", method.id(), three_digits(seconds));
            Point::new(latency, seconds, note)
        };
        let points = latencies.iter().map(point).collect();
        series.push(Series::new(method.id(), Style::Line, colour(method), points).keys(method.id(), ""));
    }
    for &(method, cell) in &cells {
        // Rounds · latency, where it is more than a hundredth of the time.
        let waiting = |latency: f64| cell.rounds as f64 * latency;
        let drawn = |latency: &&f64| waiting(**latency) > 0.01 * cell.work().time_to_target(WORKERS, **latency);
        if let (Some(&first), Some(&last)) = (latencies.iter().find(drawn), latencies.last()) {
            let line = [(first, waiting(first)), (last, waiting(last))];
            let name = format!("{}: {} rounds of waiting", method.id(), cell.rounds);
            series.push(reference(&name, method, "waiting for rounds alone", line));
        }
    }
    let fastest = |latency: f64| {
        let of = |&(method, cell): &(Method, &Cell)| (cell.work().time_to_target(WORKERS, latency), method);
        cells.iter().map(of).min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let steps: Vec<f64> = (-600..=200).map(|step| 10f64.powf(f64::from(step) / 100.0)).collect();
    let first = fastest(steps[0]);
    let floor = first.map_or(1.0, |(seconds, _)| seconds);
    let mut order: Vec<String> = first.iter().map(|(_, method)| method.id().to_owned()).collect();
    for pair in steps.windows(2) {
        if let (Some((seconds, before)), Some((_, after))) = (fastest(pair[0]), fastest(pair[1]))
            && before != after
        {
            order.push(format!("{} from {} on", after.id(), time(1e9 * pair[1])));
            let name = format!("{} fastest from here", after.id());
            series.push(Series::reference(&name, [(pair[1], floor), (pair[1], 1e4 * seconds)]));
        }
    }
    let subtitle = format!(
        "modelled from measured one-thread costs, without bandwidth; dotted: rounds · latency, and the latencies at which the \
         fastest method changes: {}",
        order.join(", then ")
    );
    let title = format!("Time to ε = {accuracy} on {WORKERS} workers");
    Chart::logarithmic(title, &subtitle, "latency of a round in seconds", "seconds", series)
}

/// The latency of a round above which a method is faster than SGD, and than accelerated smoothing, against ε.
fn crossover_latency(cells: &[&Cell], dimension: usize) -> Chart {
    let of = |method: Method| cells.iter().filter(move |cell| cell.algorithm == method.id());
    let mut series = Vec::new();
    for (variant, other) in [Method::Sgd, Method::RandomizedSmoothing].into_iter().enumerate() {
        for (colour, method) in Method::ALL.into_iter().enumerate() {
            let name = format!("{} over {}", method.id(), other.id());
            let point = |cell: &&Cell| {
                let latency = {
                    let other = of(other).find(|other| other.accuracy == cell.accuracy)?;
                    cell.work().overtakes_from(&other.work(), WORKERS)?
                };
                let note = format!("{name}: {} s", three_digits(latency));
                // Below the shortest latency of all places the method is faster everywhere.
                (latency > PLACES[0].latency).then(|| Point::new(1.0 / cell.accuracy, latency, note))
            };
            let mut points: Vec<Point> = of(method).filter_map(point).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let own = Series::new(&name, Style::Line, colour, points).variant(variant);
            series.extend((!own.points.is_empty()).then_some(own));
        }
    }
    let inverses = || cells.iter().map(|cell| 1.0 / cell.accuracy);
    let (low, high) = (inverses().fold(f64::INFINITY, f64::min), inverses().fold(0.0, f64::max));
    series.extend(PLACES.iter().map(|place| {
        let line = Series::reference(place.name, [(low, place.latency), (high, place.latency)]);
        Series { colour: 7, ..line }
    }));
    let subtitle = format!(
        "{WORKERS} workers, modelled; above a line its method is the faster one; dotted, from below: {}",
        PLACES.map(|place| place.name).join(", ")
    );
    let title = format!("Latency of a round above which a method overtakes, d = {dimension}");
    Chart::logarithmic(title, &subtitle, "1/ε", "latency of a round in seconds", series)
}

/// Modelled time to the target in each place, and the latencies from which each method overtakes others.
fn places(cells: &[&Cell]) -> Vec<Part> {
    let accuracy = common_accuracy(cells);
    let cells: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.accuracy == accuracy).collect();
    let title = format!("Modelled time to ε = {accuracy} elsewhere");
    let mut table = Table::new(&title, "place|#workers|#latency|method|#time|faster than, from this latency on");
    let nanoseconds = |seconds: f64| Entry::number(1e9 * seconds, time);
    for place in PLACES {
        let seconds = |cell: &Cell| cell.work().time_to_target(place.workers, place.latency);
        let mut sorted = cells.clone();
        sorted.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        for cell in &sorted {
            let overtaken = sorted.iter().filter_map(|other| {
                let latency = cell.work().overtakes_from(&other.work(), place.workers)?;
                // No line break between a number and its unit.
                Some(format!("{} {}", other.algorithm, time(1e9 * latency).replace(' ', "\u{a0}")))
            });
            table.row([
                Entry::text(place.name),
                Entry::count(place.workers as usize),
                nanoseconds(place.latency),
                Entry::text(&cell.algorithm),
                nanoseconds(seconds(cell)),
                Entry::text(overtaken.collect::<Vec<_>>().join(", ")),
            ]);
        }
    }
    vec![Part::Heading(title), Part::Table(table)]
}

fn exponents(study: &Study) -> Table {
    let mut table =
        Table::new("Exponents", "method|family|quantity|in|#theory|#measured|#95 % over seeds|#95 % over cells|#cells");
    let two = |value: f64| format!("{value:.2}");
    let interval = |of: Estimate| Entry::sorted(format!("[{:.2}, {:.2}]", of.low, of.high), of.low);
    for fit in &study.exponents {
        let family = serde_json::to_string(&fit.family).unwrap_or_default();
        table.row([
            Entry::text(&fit.algorithm),
            Entry::text(family.trim_matches('"')),
            Entry::text(fit.quantity.replace('_', " ")),
            Entry::text(fit.variable.replace('_', " ")),
            Entry::number(fit.theory, two),
            Entry::number(fit.over_seeds.unwrap_or(fit.exponent).value, two),
            fit.over_seeds.map_or_else(Entry::default, interval),
            interval(fit.exponent),
            Entry::count(fit.cells),
        ]);
    }
    table
}

/// One-thread cells with the same on two threads, and the two-thread seconds that the model predicts.
fn on_both(study: &Study) -> Vec<(&Cell, &Cell, f64)> {
    let key = |cell: &Cell| (cell.family as u8, cell.algorithm.clone(), cell.dimension, cell.accuracy.to_bits());
    let on = |threads: usize| {
        let cells = study.cells.iter();
        cells.filter(move |cell| cell.threads == threads && cell.reached)
    };
    let pair = |one| {
        let two = on(2).find(|two| key(two) == key(one))?;
        Some((one, two, one.work().time_on_two_threads(study.exchange_seconds)))
    };
    on(1).filter(|one| one.seconds >= LEAST_SECONDS).filter_map(pair).collect()
}

/// Predicted over measured two-thread times: quantiles by method, and a chart.
fn validation(study: &Study) -> Vec<Part> {
    let pairs = on_both(study);
    let measured = || pairs.iter().map(|(_, two, _)| two.seconds);
    let (Some(low), Some(high)) = (measured().min_by(f64::total_cmp), measured().max_by(f64::total_cmp)) else {
        return Vec::new();
    };
    let title = "The model against two threads";
    let mut table = Table::new(title, "method|#median|#10 %|#90 %|#cells");
    let mut row = |name: &str, of: &dyn Fn(&Cell) -> bool| {
        let own = pairs.iter().filter(|(one, ..)| of(one));
        let mut ratios: Vec<f64> = own.map(|(_, two, predicted)| predicted / two.seconds).collect();
        ratios.sort_by(f64::total_cmp);
        if let Some(last) = ratios.len().checked_sub(1) {
            let two = |ratio: f64| format!("{ratio:.2}");
            let at = |share: f64| Entry::number(ratios[(share * last as f64).round() as usize], two);
            table.row([Entry::text(name), at(0.5), at(0.1), at(0.9), Entry::count(ratios.len())]);
        }
    };
    row("all methods", &|_| true);
    let mut series = Vec::new();
    for (colour, method) in Method::ALL.into_iter().enumerate() {
        row(method.id(), &|cell| cell.algorithm == method.id());
        let own = pairs.iter().filter(|(one, ..)| one.algorithm == method.id());
        let points = own.map(|(one, two, predicted)| {
            let note = format!("{} d = {} ε = {}", method.id(), one.dimension, one.accuracy);
            Point::new(two.seconds, *predicted, note)
        });
        let own = Series::new(method.id(), Style::Points, colour, points.collect());
        series.extend((!own.points.is_empty()).then_some(own));
    }
    series.push(Series { colour: 7, ..Series::reference("as measured", [(low, low), (high, high)]) });
    let chart = Chart::logarithmic(
        "The model's two-thread times against the measured ones",
        "from one-thread times of the same run; the dotted line is equality",
        "measured seconds",
        "predicted seconds",
        series,
    );
    let text = format!(
        "Predicted over measured two-thread time, cells of at least {} ms on one thread. A round costs two threads of this \
         machine {:.1} µs beside its work, measured separately; rounds with less work than that stay on one thread.",
        1e3 * LEAST_SECONDS,
        1e6 * study.exchange_seconds
    );
    let panel = Panel::chart("model", "predicted-against-measured", chart);
    vec![
        Part::Heading(title.to_owned()),
        Part::Text(text),
        Part::Table(table),
        Part::Figure(Figure::new(title, "Content", vec![panel])),
    ]
}
