//! The presentation of rates: risk and rounds against n, the privacy term against d and ε, exponents with intervals.

use super::{Rate, Rates};
use crate::experiment::{Presentation, Results, Sample, Study as _};
use crate::format::{number, three_digits};
use crate::grouping::{by_key, distinct};
use crate::report::{self, Chart, Entry, Figure, Panel, Part, Point, Series, Style, Table};
use crate::statistics::{Choices, Estimate, Interval, mean, of_mean, percentile_interval};
use crate::studies::exponents;

/// Resamples of the draws for the intervals of smallest T.
const RESAMPLES: usize = 400;

/// The risks of a method with each number of rounds, at one value of the axis.
struct Curve<'r> {
    method: &'r str,
    /// In the order of their rounds.
    rates: Vec<&'r Rate>,
}

/// All methods at one value of the axis.
struct Place<'r> {
    x: f64,
    rows: f64,
    dimension: f64,
    epsilon: f64,
    curves: Vec<Curve<'r>>,
}

/// The places of a population along an axis.
struct Family<'r> {
    label: &'r str,
    axis: &'r str,
    places: Vec<Place<'r>>,
}

/// The smallest number of rounds within the factor of the optimum.
#[derive(Clone, Copy)]
enum Smallest {
    /// None of those that were measured.
    None,
    /// As few as were measured, or fewer.
    AtMost(f64),
    /// Between two that were measured, by interpolation in logarithms.
    At(f64),
}

impl Smallest {
    fn value(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::AtMost(rounds) | Self::At(rounds) => Some(rounds),
        }
    }
}

impl Curve<'_> {
    /// The least mean risk over the rounds.
    fn best(&self) -> &Rate {
        let order = |a: &&&Rate, b: &&&Rate| mean(&a.excess).total_cmp(&mean(&b.excess));
        self.rates.iter().min_by(order).expect("a curve has rates")
    }

    /// The first crossing of `level` by means `risk`.
    fn smallest(&self, level: f64, risk: &dyn Fn(&Rate) -> f64) -> Smallest {
        let mut before: Option<(f64, f64)> = None;
        for rate in &self.rates {
            let here = ((rate.adaptive_rounds as f64).ln(), risk(rate).ln());
            if here.1 <= level.ln() {
                return match before {
                    None => Smallest::AtMost(here.0.exp()),
                    Some((rounds, risk)) => {
                        let share = (risk - level.ln()) / (risk - here.1);
                        Smallest::At((rounds + share * (here.0 - rounds)).exp())
                    }
                };
            }
            before = Some(here);
        }
        Smallest::None
    }
}

impl<'r> Place<'r> {
    fn new(x: f64, samples: &[&'r Sample<Rate>]) -> anyhow::Result<Self> {
        let number = |name| samples[0].configuration.number(name);
        let of_method = |sample: &&'r Sample<Rate>| (sample.configuration.label_of_method(), &sample.outcome);
        let curves = by_key(samples.iter().map(of_method)).into_iter().map(|(method, mut rates)| {
            rates.sort_by_key(|rate| rate.adaptive_rounds);
            Curve { method, rates }
        });
        Ok(Self {
            x,
            rows: number("rows")?,
            dimension: number("dimension")?,
            epsilon: number("epsilon")?,
            curves: curves.collect(),
        })
    }

    /// The optimum: the least mean risk of any method and T.
    fn optimum(&self) -> f64 {
        let means = self.curves.iter().map(|curve| mean(&curve.best().excess));
        means.fold(f64::INFINITY, f64::min)
    }

    /// The rate without its constant: 1/√n + √(d·ln(1/δ))/(εn) at δ = 1e-6.
    fn optimal_rate(&self) -> f64 {
        1.0 / self.rows.sqrt() + (self.dimension * 1e6_f64.ln()).sqrt() / (self.epsilon * self.rows)
    }

    /// The smallest T of a curve, with an interval over resampled draws.
    fn smallest(&self, curve: &Curve<'_>, within: f64) -> (Smallest, Interval) {
        let found = curve.smallest(within * self.optimum(), &|rate| mean(&rate.excess));
        let mut choices = Choices::new(1);
        let draws = curve.rates.first().map_or(0, |rate| rate.excess.len());
        let mut values: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                let chosen: Vec<usize> = (0..draws).map(|_| choices.below(draws)).collect();
                let risk = |rate: &Rate| chosen.iter().map(|&draw| rate.excess[draw]).sum::<f64>() / draws as f64;
                let optima = self.curves.iter().map(|curve| risk(curve.best()));
                let optimum = optima.fold(f64::INFINITY, f64::min);
                curve.smallest(within * optimum, &risk).value()
            })
            .collect();
        (found, percentile_interval(&mut values, 0.95))
    }
}

/// The families of all finished cells, in the order of the definition.
fn families<'r>(study: &'r Rates, results: &'r Results<Rate>) -> anyhow::Result<Vec<Family<'r>>> {
    let cells = study.measured(results)?.into_iter().filter_map(|(cell, runs)| {
        let problem = &study.definition.problems[cell.problem];
        Some(((&*problem.label, problem.axis.as_deref()?), (cell.axis?, *runs.first()?)))
    });
    let families = by_key(cells).into_iter().map(|((label, axis), samples)| {
        let places = by_key(samples).into_iter().map(|(x, samples)| Place::new(x, &samples));
        let mut places: Vec<Place<'_>> = places.collect::<anyhow::Result<_>>()?;
        places.sort_by(|a, b| a.x.total_cmp(&b.x));
        Ok(Family { label, axis, places })
    });
    families.collect()
}

pub(super) fn present(study: &Rates, results: &Results<Rate>) -> anyhow::Result<Presentation> {
    let families = families(study, results)?;
    let within = study.definition.options().within;
    let panels = families.iter().flat_map(|family| family.panels(within)).collect();
    let mut exponents =
        Table::new("Exponents", "population|method|quantity|against|#exponent (95 %)|#worst case|#points");
    let mut cells = Table::new(
        "Every method at its best T",
        "population|against|#value|method|#excess risk (95 %)|#T|#step|#slope|#smallest T (95 %)|#clipped",
    );
    let mut edges = 0;
    for family in &families {
        family.exponents(within, &mut exponents);
        family.cells(within, &mut cells);
        let curves = family.places.iter().flat_map(|place| &place.curves);
        edges += curves.filter(|curve| curve.best().at_edge).count();
    }
    let about = format!(
        "{}. Risk: exact excess population risk, mean over draws of data and noise, at the best power of 2 as a step, and at the \
         worst power of 2 as a slope. Smallest T: within {within} of the least risk of any method and T, interpolated \
         between measured T.",
        study.definition.about
    );
    let parts =
        vec![Part::Figure(Figure::new("Rates", "What is shown", panels)), Part::Table(exponents), Part::Table(cells)];
    let mut presentation = Presentation::of_parts(("Rates in the worst case", "Rates", &about), parts);
    if edges > 0 {
        presentation.warnings.push(format!(
            "{edges} of the best cells have their step or slope at the end of its grid: leave them out, or widen the grid"
        ));
    }
    Ok(presentation)
}

/// The mean risk of a method with one number of rounds, at `x`.
fn mean_risk(method: &str, x: f64, rate: &Rate) -> Point {
    let mean = of_mean(&rate.excess, 0.95);
    let note = format!("{method}, T = {}: {}", rate.adaptive_rounds, three_digits(mean.value));
    Point::new(x, mean.value, note).interval(mean.low.max(0.5 * mean.value), mean.high)
}

impl Family<'_> {
    fn methods(&self) -> Vec<&str> {
        distinct(self.places.iter().flat_map(|place| &place.curves).map(|curve| curve.method))
    }

    /// The places of a method with its curve there.
    fn of<'s>(&'s self, method: &'s str) -> impl Iterator<Item = (&'s Place<'s>, &'s Curve<'s>)> {
        let own = move |place: &'s Place<'s>| Some((place, place.curves.iter().find(|curve| curve.method == method)?));
        self.places.iter().filter_map(own)
    }

    /// `(x, T)` of the places where the smallest T of a method lies between measured ones.
    fn smallest(&self, method: &str, within: f64) -> Vec<(f64, f64, Interval)> {
        let found = self.of(method).filter_map(|(place, curve)| match place.smallest(curve, within) {
            (Smallest::At(rounds), interval) => Some((place.x, rounds, interval)),
            _ => None,
        });
        found.collect()
    }

    fn panels(&self, within: f64) -> Vec<Panel> {
        let name = report::slug(self.label);
        let methods = self.methods();
        let of_methods = |points: &dyn Fn(&str) -> Vec<Point>| {
            let all =
                methods.iter().flat_map(|method| points(method).into_iter().map(|point| ((*method).to_owned(), point)));
            report::grouped(Style::Line, all)
        };
        let variable = match self.axis {
            "rows" => "rows n",
            "dimension" => "dimension d",
            _ => "ε",
        };
        let mut series = of_methods(&|method| {
            self.of(method).map(|(place, curve)| mean_risk(method, place.x, curve.best())).collect()
        });
        if let Some(last) = self.places.last() {
            let factor = last.optimum() / last.optimal_rate();
            let rate = self.places.iter().map(|place| (place.x, factor * place.optimal_rate()));
            series.push(Series::reference("c·(1/√n + √(d·ln 1/δ)/(εn))", rate));
        }
        let chart = Chart::logarithmic(self.label, "best T of each method", variable, "excess risk", series);
        let title = format!("{}: risk against {variable}", self.label);
        let mut panels = vec![Panel::chart(&title, &format!("{name}-risk-{}", self.axis), chart)];
        if self.axis != "rows" {
            return panels;
        }
        let rounds = |method: &str| {
            let points = self.smallest(method, within).into_iter().map(|(x, rounds, interval)| {
                let note = format!("{method}, n = {}: T = {}", number(x), number(rounds));
                Point::new(x, rounds, note).interval(interval.low, interval.high)
            });
            points.collect()
        };
        let mut series = of_methods(&rounds);
        for (variant, (name, power)) in [("n¹⁄⁴", 0.25), ("n¹⁄²", 0.5), ("n", 1.0)].into_iter().enumerate() {
            let line = self.places.iter().map(|place| (place.x, place.x.powf(power)));
            series.push(Series::reference(name, line).variant(variant));
        }
        let subtitle = format!("smallest T within {within} of the optimum");
        let chart = Chart::logarithmic(self.label, &subtitle, variable, "rounds T", series);
        panels.push(Panel::chart(&format!("{}: rounds against n", self.label), &format!("{name}-rounds-rows"), chart));
        if let Some(place) = self.places.last() {
            let mut series = of_methods(&|method| {
                let rates = place.curves.iter().filter(|curve| curve.method == method).flat_map(|curve| &curve.rates);
                rates.map(|rate| mean_risk(method, rate.adaptive_rounds as f64, rate)).collect()
            });
            let rounds = place.curves.iter().flat_map(|curve| &curve.rates).map(|rate| rate.adaptive_rounds as f64);
            let most = rounds.fold(1.0, f64::max);
            let level = within * place.optimum();
            series.push(Series::reference(&format!("{within} times the optimum"), [(1.0, level), (most, level)]));
            let subtitle = format!("n = {}", number(place.x));
            let chart = Chart::logarithmic(self.label, &subtitle, "rounds T", "excess risk", series);
            panels.push(Panel::chart(
                &format!("{}: risk against T", self.label),
                &format!("{name}-risk-rounds"),
                chart,
            ));
        }
        panels
    }

    /// Rows of exponents, without risks at the end of a grid; those that cannot be fitted are left out.
    fn exponents(&self, within: f64, table: &mut Table) {
        let theory = match self.axis {
            "rows" => "−1/2",
            "dimension" => "1/2",
            _ => "−1",
        };
        let mut row = |method: &str, quantity: &str, points: Vec<(f64, f64)>, theory: &str| {
            let rows: Vec<_> = points.iter().map(|&(x, y)| (vec![x], y)).collect();
            let fitted = exponents::fit(&rows).and_then(|found| found.first().copied());
            let Some(exponent) = fitted.filter(|exponent: &Estimate| exponent.value.is_finite()) else {
                return;
            };
            table.row([
                Entry::text(self.label),
                Entry::text(method),
                Entry::text(quantity),
                Entry::text(self.axis),
                Entry::sorted(exponent.to_string(), exponent.value),
                Entry::text(theory),
                Entry::count(points.len()),
            ]);
        };
        let optimum = self.places.iter().map(|place| (place.x, place.optimum()));
        row("(best of all)", "risk", optimum.collect(), theory);
        let rate = self.places.iter().map(|place| (place.x, place.optimal_rate()));
        row("(optimal rate)", "risk", rate.collect(), theory);
        for method in self.methods() {
            let inner = self.of(method).filter(|(_, curve)| !curve.best().at_edge);
            let risks = inner.map(|(place, curve)| (place.x, mean(&curve.best().excess)));
            row(method, "risk", risks.collect(), theory);
        }
        if self.axis == "rows" {
            for method in self.methods() {
                let rounds = self.smallest(method, within).into_iter();
                row(method, "smallest T", rounds.map(|(x, rounds, _)| (x, rounds)).collect(), "");
            }
        }
    }

    fn cells(&self, within: f64, table: &mut Table) {
        for place in &self.places {
            for curve in &place.curves {
                let (best, (smallest, interval)) = (curve.best(), place.smallest(curve, within));
                let mean = of_mean(&best.excess, 0.95);
                let between = format!("({} – {})", number(interval.low), number(interval.high));
                let smallest = match smallest {
                    Smallest::None => Entry::text("not reached"),
                    Smallest::AtMost(rounds) => Entry::sorted(format!("≤ {}", number(rounds)), rounds),
                    Smallest::At(rounds) => Entry::sorted(format!("{} {between}", number(rounds)), rounds),
                };
                let digits = |value: f64| format!("{value:.2e}");
                table.row([
                    Entry::text(self.label),
                    Entry::text(self.axis),
                    Entry::number(place.x, number),
                    Entry::text(curve.method),
                    Entry::sorted(
                        format!("{} ({} – {})", digits(mean.value), digits(mean.low), digits(mean.high)),
                        mean.value,
                    ),
                    Entry::count(best.adaptive_rounds as usize),
                    Entry::number(best.step, three_digits),
                    Entry::number(best.slope, digits),
                    smallest,
                    Entry::number(best.clipped, digits),
                ]);
            }
        }
    }
}
