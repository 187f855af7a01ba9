//! Curves that papers give as formulas; nothing is run. The values come from `rounds_algorithms::theory`.

use std::path::Path;

use rounds_algorithms::theory::multistage::Schedule;
use rounds_algorithms::theory::{Curvature, QuadraticMode, allocation, heavy_ball};
use serde::{Deserialize, Serialize};

use super::panels;
use crate::experiment::{
    Configuration, Context, Definition, Execution, Experiment, Kind, Outcome, Presentation, Results, Run, Study,
    definition,
};
use crate::report::{Axis, Figure, Panel, Part, Point};

/// The study.
pub type Formulas = Experiment<Options>;

/// Keys of the study.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Options {
    /// Title of the figure.
    title: String,
    /// Panels in a row.
    columns: usize,
    /// Eigenvalues of the quadratic.
    #[serde(default)]
    eigenvalues: Vec<f64>,
}

/// Curves of a cell by name, each as points (x, y).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// A formula: the value of `algorithm`.
struct Formula {
    id: &'static str,
    curves: fn(&Configuration, &Options) -> anyhow::Result<Curves>,
    /// The parameter that distinguishes the curves of a panel.
    varied: &'static str,
    x: &'static str,
    y: &'static str,
    logarithmic: bool,
}

const FORMULAS: [Formula; 3] = [
    Formula {
        id: "heavy-ball-error",
        curves: heavy_ball_error,
        varied: "momentum",
        x: "rounds T",
        y: "error after T rounds",
        logarithmic: true,
    },
    Formula {
        id: "heavy-ball-rate",
        curves: heavy_ball_rate,
        varied: "",
        x: "momentum β",
        y: "rate ρ a round",
        logarithmic: false,
    },
    Formula {
        id: "laplace-allocation",
        curves: laplace_allocation,
        varied: "rounds",
        x: "round t",
        y: "b_t in S_1/(nε)",
        logarithmic: true,
    },
];

fn curvature_of(options: &Options) -> anyhow::Result<Curvature> {
    let least = options.eigenvalues.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = options.eigenvalues.iter().copied().fold(0.0, f64::max);
    Ok(Curvature::new(least, greatest)?)
}

/// The bound of Theorem 3.5 and the exact error after T rounds with noise of deviation T·c_w.
fn heavy_ball_error(cell: &Configuration, options: &Options) -> anyhow::Result<Curves> {
    let step_size = curvature_of(options)?.step_size(cell.number("step-size")?)?;
    let (momentum, level) = (cell.number("momentum")?, cell.number("noise-level")?);
    let distance = cell.number("initial-squared-distance")?;
    let start = (distance / (2.0 * options.eigenvalues.len() as f64)).sqrt();
    let modes: Vec<_> = options
        .eigenvalues
        .iter()
        .map(|&eigenvalue| QuadraticMode { eigenvalue, start })
        .collect();
    let (mut bound, mut error) = (Vec::new(), Vec::new());
    for rounds in 1..=cell.whole("rounds")?.unwrap_or(200) {
        let (x, variance) = (rounds as f64, (rounds as f64 * level).powi(2));
        let eigenvalues = &options.eigenvalues;
        let log = heavy_ball::published_bound_log10(step_size, momentum, eigenvalues, distance, variance, rounds)?;
        bound.push((x, 10f64.powf(log)));
        let excess = heavy_ball::expected_excess(&modes, step_size, momentum, &vec![variance; rounds]);
        error.push((x, excess[rounds]));
    }
    Ok(Curves {
        curves: vec![("bound".to_owned(), bound), ("exact".to_owned(), error)],
    })
}

/// The rate against β, and the fastest β.
fn heavy_ball_rate(cell: &Configuration, options: &Options) -> anyhow::Result<Curves> {
    let curvature = curvature_of(options)?;
    let step_size = curvature.step_size(cell.number("step-size")?)?;
    let rate = |momentum: f64| heavy_ball::spectral_radius(step_size, momentum, curvature);
    let momenta = (0..400).map(|index| f64::from(index) / 400.0);
    let best = heavy_ball::fastest_momentum(step_size, curvature);
    Ok(Curves {
        curves: vec![
            ("rate".to_owned(), momenta.map(|beta| (beta, rate(beta))).collect()),
            (format!("fastest, β = {best:.3}"), vec![(best, 0.0), (best, rate(best))]),
        ],
    })
}

/// b_t·n·ε/S_1 = Σ_j a_j^{1/3}/a_t^{1/3} against t.
fn laplace_allocation(cell: &Configuration, _: &Options) -> anyhow::Result<Curves> {
    let smoothness = cell.number("smoothness")?;
    let curvature = Curvature::new(cell.number("strong-convexity")?, smoothness)?;
    let (scale, rounds) = (cell.number("step-scale")?, cell.number("rounds")? as usize);
    let schedule = match cell.whole("stage-exponent")? {
        Some(exponent) => Schedule::multistage(curvature, scale, exponent as u32, None, rounds)?,
        None => Schedule::constant(curvature, scale / smoothness, rounds)?,
    };
    let shares = allocation::laplace(&schedule.log_weights(), 1.0)?;
    let points = shares
        .iter()
        .enumerate()
        .map(|(t, share)| (t as f64 + 1.0, 1.0 / share));
    Ok(Curves {
        curves: vec![("scale".to_owned(), points.collect())],
    })
}

/// The formula of a cell; `Formulas::new` has checked its name.
fn formula(id: &str) -> &'static Formula {
    FORMULAS.iter().find(|formula| formula.id == id).unwrap_or(&FORMULAS[0])
}

impl Study for Formulas {
    const KIND: Kind = Kind::new::<Self>("formulas", Execution::Concurrent);
    type Options = Options;
    type Outcome = Curves;

    fn check(definition: &Definition<Options>) -> anyhow::Result<()> {
        for method in definition.all_methods() {
            definition::known("formula", &method.algorithm, &FORMULAS.map(|formula| formula.id))?;
        }
        Ok(())
    }

    fn measure(&self, run: &Run<'_, Curves>, _: &Context<'_>) -> anyhow::Result<Outcome<Curves>> {
        let configuration = &run.cell.configuration;
        let curves = formula(&configuration.algorithm).curves;
        Ok(Outcome::Measured(curves(configuration, self.definition.options())?))
    }

    fn present(&self, results: &Results<Curves>, _: &Path, context: &Context<'_>) -> anyhow::Result<Presentation> {
        let Options { title, columns, .. } = self.definition.options();
        let mut figure = Figure::new(title, "Setting", self.panels(results)?);
        figure.columns = Some(*columns);
        let head = (&**title, "Papers", &*self.definition.about);
        Presentation::of_parts(head, vec![Part::Figure(figure)], context)
    }
}

impl Formulas {
    fn panels(&self, results: &Results<Curves>) -> anyhow::Result<Vec<Panel>> {
        let axes = |cell: &Configuration| {
            let Formula { x, y, logarithmic, .. } = formula(&cell.algorithm);
            let y = if *logarithmic { Axis::logarithmic } else { Axis::linear }(y);
            (Axis::linear(x), y)
        };
        let points = |points: &[(f64, f64)]| points.iter().map(|&(x, y)| Point::new(x, y, "")).collect();
        let curves = |found: &Curves| {
            let curves = found.curves.iter();
            curves.map(|(name, curve)| (name.clone(), points(curve))).collect()
        };
        let varied = |cell: &Configuration| formula(&cell.algorithm).varied;
        Ok(panels::by_setting(&self.measured(results)?, &varied, &axes, &curves))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

    #[test]
    fn the_figures_of_the_paper_have_finite_curves() {
        for (name, panels) in [("paper/accelerated-figure-1", 9), ("paper/accelerated-figure-2", 2)] {
            let text = definition::find(name).unwrap().text;
            let (study, results) = testing::run::<Formulas>(&text, 2).unwrap();
            assert_eq!(study.panels(&results).unwrap().len(), panels);
            for (_, points) in results.samples.iter().flat_map(|sample| &sample.curves) {
                assert!(points.iter().all(|(_, y)| y.is_finite() && *y >= 0.0));
            }
        }
    }
}
