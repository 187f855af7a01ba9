//! Figure 2 of paper 001: gradient descent on a quadratic with the noise of DP-MF and of DP-MF⁺.
//!
//! Squared gradient norms are exact means, from the covariance of the noise; runs through the library's noise streams
//! stand beside them with their intervals.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;
use rounds_algorithms::factorization::{
    Factorization, FactorizationRequest, Method, Participation, Workload, WorkloadSpecification,
};
use rounds_algorithms::noise::{NoisePlan, StrategyMemory};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::oracle::Engine;
use rounds_algorithms::problem::synthetic::Quadratic;
use rounds_algorithms::theory::QuadraticMode;
use rounds_algorithms::theory::correlated_noise::{quadratic_moments, restart_term};
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};

use super::intervals;
use crate::factorization_cache;
use crate::format::{number, three_digits};
use crate::report::{Axis, Chart, Point as Mark, Style, grouped};

/// The figure's definition, as TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Definition {
    name: String,
    title: String,
    dimension: usize,
    smoothness: f64,
    rounds: usize,
    noise: f64,
    step_sizes: Vec<f64>,
    periods: Vec<usize>,
    shown_step_size: f64,
    shown_period: usize,
    runs: usize,
    seed: u64,
}

/// One factorisation at one step size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// DP-MF, or DP-MF⁺ with its period.
    pub method: String,
    /// γ.
    pub step_size: f64,
    /// Exact mean over t of E‖∇f(x_t)‖².
    pub average: f64,
    /// Exact E‖∇f(x_T)‖².
    pub last: f64,
    /// Mean over the runs of the average, with the ends of its 95 % interval.
    pub measured_average: [f64; 3],
    /// The same of the last.
    pub measured_last: [f64; 3],
    /// The noise term of [001 Theorem 4.7] at τ = 1/(γL), over that of DP-MF.
    pub theory_ratio: f64,
}

/// The finished figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The suite's name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Figures 2 (a) and (b).
    pub points: Vec<Point>,
    /// Figure 2 (c): method and E‖∇f(x_t)‖² for t = 0 … T.
    pub over_time: Vec<(String, Vec<f64>)>,
}

/// A factorisation with the rows that the formulas need.
struct Candidate {
    label: String,
    period: Option<usize>,
    inverse: Vec<Vec<f64>>,
    prefixes: Vec<Vec<f64>>,
}

/// Computes the figure and writes `figure.json`, `table.md` and three pictures.
///
/// # Errors
/// A definition that makes no sense, a factorisation that fails, a folder that cannot be written.
pub fn run(definition: &str, folder: &Path, threads: usize, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Figure> {
    let definition: Definition = toml::from_str(definition).context("the figure's definition")?;
    let quadratic = Quadratic::random(definition.dimension, definition.smoothness, definition.seed);
    let modes: Vec<QuadraticMode> = quadratic
        .eigenvalues
        .iter()
        .zip(&quadratic.optimum)
        .map(|(&eigenvalue, optimum)| QuadraticMode {
            eigenvalue,
            start: -optimum,
        })
        .collect();
    let mut candidates = Vec::new();
    let memory = memory();
    for period in std::iter::once(None).chain(definition.periods.iter().copied().map(Some)) {
        let candidate = definition.candidate(period)?;
        progress(&format!("{} is factorised", candidate.label));
        candidates.push(candidate);
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build()?;
    let pairs: Vec<(&Candidate, f64)> = candidates
        .iter()
        .flat_map(|candidate| {
            definition
                .step_sizes
                .iter()
                .map(move |&step_size| (candidate, step_size))
        })
        .collect();
    let variance = definition.noise.powi(2) / definition.dimension as f64;
    let points: Vec<Point> = pool.install(|| {
        pairs
            .par_iter()
            .map(|(candidate, step_size)| -> anyhow::Result<Point> {
                let (_, gradient) = quadratic_moments(&modes, *step_size, variance, &candidate.inverse);
                let runs = (0..definition.runs as u64)
                    .map(|run| definition.simulate(&quadratic, candidate, *step_size, run, &memory))
                    .collect::<anyhow::Result<Vec<_>>>()?;
                let tau = ((1.0 / (step_size * definition.smoothness)).round() as usize).clamp(1, definition.rounds);
                let term = |candidate: &Candidate| restart_term(&candidate.prefixes, tau);
                Ok(Point {
                    method: candidate.label.clone(),
                    step_size: *step_size,
                    average: gradient.iter().sum::<f64>() / gradient.len() as f64,
                    last: gradient[definition.rounds],
                    measured_average: measured(runs.iter().map(|run| run.0)),
                    measured_last: measured(runs.iter().map(|run| run.1)),
                    theory_ratio: term(candidate) / term(&candidates[0]),
                })
            })
            .collect::<anyhow::Result<_>>()
    })?;
    let over_time = candidates
        .iter()
        .filter(|candidate| candidate.period.is_none_or(|period| period == definition.shown_period))
        .map(|candidate| {
            let (_, gradient) = quadratic_moments(&modes, definition.shown_step_size, variance, &candidate.inverse);
            (candidate.label.clone(), gradient)
        })
        .collect();
    let figure = Figure {
        name: definition.name.clone(),
        title: definition.title.clone(),
        points,
        over_time,
    };
    fs::create_dir_all(folder).with_context(|| format!("{}: the folder cannot be made", folder.display()))?;
    let mut files = vec![
        ("figure.json".to_owned(), serde_json::to_string_pretty(&figure)?),
        ("table.md".to_owned(), table(&figure)),
    ];
    files.extend(pictures(&figure));
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    progress(&table(&figure));
    Ok(figure)
}

/// Strategies out of the user's cache.
pub(super) fn memory() -> StrategyMemory {
    StrategyMemory::filled_from(factorization_cache::source())
}

/// Mean and ends of its 95 % interval.
fn measured(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let interval = intervals::of_mean(&values.collect::<Vec<_>>(), 0.95);
    [interval.mean, interval.low, interval.high]
}

impl Definition {
    fn workload(&self, period: Option<usize>) -> WorkloadSpecification {
        match period {
            Some(period) => WorkloadSpecification::prefix().with_lambda_tau(Some(period.min(self.rounds))),
            None => WorkloadSpecification::prefix(),
        }
    }

    /// OPT_F of the workload, with C⁻¹ and B = S·C⁻¹.
    fn candidate(&self, period: Option<usize>) -> anyhow::Result<Candidate> {
        let workload = Workload::new(self.rounds, self.workload(period))?;
        let request = FactorizationRequest {
            gap: 1e-4,
            ..FactorizationRequest::new(workload, Participation::Single, Method::Optimal)
        };
        let folder = factorization_cache::default_folder();
        let (factorization, _): (Factorization, _) = factorization_cache::factorize(request, folder.as_deref())?;
        let sensitivity = factorization.sensitivity().value;
        let matrix = factorization.strategy().inverse_matrix()?;
        // Noise is given at sensitivity 1.
        let inverse: Vec<Vec<f64>> = (0..self.rounds)
            .map(|t| (0..=t).map(|s| matrix[(t, s)] * sensitivity).collect())
            .collect();
        let mut prefixes: Vec<Vec<f64>> = Vec::with_capacity(self.rounds);
        for row in &inverse {
            let mut prefix = row.clone();
            if let Some(before) = prefixes.last() {
                prefix.iter_mut().zip(before).for_each(|(sum, value)| *sum += value);
            }
            prefixes.push(prefix);
        }
        Ok(Candidate {
            label: period.map_or_else(|| "DP-MF".to_owned(), |period| format!("DP-MF⁺, τ = {period}")),
            period,
            inverse,
            prefixes,
        })
    }

    /// One run with a noise stream of the library: the mean squared gradient norm, and the last.
    fn simulate(
        &self,
        quadratic: &Quadratic,
        candidate: &Candidate,
        step_size: f64,
        run: u64,
        memory: &StrategyMemory,
    ) -> anyhow::Result<(f64, f64)> {
        let planned = NoisePlan {
            kind: NoiseKind::Optimal,
            rounds: self.rounds,
            rounds_per_epoch: self.rounds,
            workload: self.workload(candidate.period),
            dimension: self.dimension,
        }
        .prepare(memory)?;
        let deviation = self.noise / (self.dimension as f64).sqrt();
        let mut stream = planned.stream(StreamKey::Simulation(self.seed + run), deviation);
        let mut x = vec![0.0_f64; self.dimension];
        let mut noise = vec![0.0_f64; self.dimension];
        let norm = |x: &[f64]| -> f64 {
            let terms = x.iter().zip(&quadratic.optimum).zip(&quadratic.eigenvalues);
            terms
                .map(|((x, optimum), eigenvalue)| (eigenvalue * (x - optimum)).powi(2))
                .sum()
        };
        let mut total = norm(&x);
        for round in 0..self.rounds as u64 {
            noise.fill(0.0);
            stream.add_increment(round, &mut noise, &Engine::Sequential)?;
            for (j, (x, noise)) in x.iter_mut().zip(&noise).enumerate() {
                *x -= step_size * (quadratic.eigenvalues[j] * (*x - quadratic.optimum[j]) + noise);
            }
            total += norm(&x);
        }
        Ok((total / (self.rounds + 1) as f64, norm(&x)))
    }
}

/// Methods down, step sizes across; the best period and DP-MF.
fn table(figure: &Figure) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "## {}\n\nE‖∇f‖², exact; runs with their 95 % interval; the theory's noise term over that of DP-MF.\n\n\
         | γ | method | average | runs | last | runs | theory |\n| --- | --- | --- | --- | --- | --- | --- |\n",
        figure.title
    );
    for point in &figure.points {
        let runs = |[mean, low, high]: [f64; 3]| format!("{mean:.4} ± {:.4}", 0.5 * (high - low));
        let _ = writeln!(
            text,
            "| {} | {} | {:.4} | {} | {:.4} | {} | {:.3} |",
            point.step_size,
            point.method,
            point.average,
            runs(point.measured_average),
            point.last,
            runs(point.measured_last),
            point.theory_ratio
        );
    }
    text
}

fn pictures(figure: &Figure) -> Vec<(String, String)> {
    let mark =
        |method: &str, x: f64, y: f64| Mark::new(x, y, format!("{method} at {}: {}", number(x), three_digits(y)));
    let against_step_size = |value: &dyn Fn(&Point) -> f64, runs: &dyn Fn(&Point) -> [f64; 3]| {
        let points = figure.points.iter().map(|point| {
            let [_, low, high] = runs(point);
            let mark = mark(&point.method, point.step_size, value(point)).interval(low, high);
            (point.method.clone(), mark)
        });
        grouped(Style::Line, points)
    };
    let over_time = figure.over_time.iter().flat_map(|(method, values)| {
        let values = values.iter().enumerate().step_by(1 + values.len() / 250);
        values.map(move |(t, &value)| (method.clone(), mark(method, t as f64, value)))
    });
    let subtitle = "lines: exact means; error bars: 95 % intervals of simulated runs";
    let average = against_step_size(&|point| point.average, &|point| point.measured_average);
    let last = against_step_size(&|point| point.last, &|point| point.measured_last);
    let rate = || Axis::logarithmic("learning rate");
    let chart = |title: &str, subtitle: &str, x: Axis, y: &str, series| {
        Chart::new(title, subtitle, x, Axis::logarithmic(y), series).svg()
    };
    vec![
        (
            "average.svg".to_owned(),
            chart(
                "Mean squared gradient norm",
                subtitle,
                rate(),
                "E‖∇f‖², mean over t",
                average,
            ),
        ),
        (
            "last.svg".to_owned(),
            chart("Last squared gradient norm", subtitle, rate(), "E‖∇f(x_T)‖²", last),
        ),
        (
            "over-time.svg".to_owned(),
            chart(
                "Squared gradient norm over time",
                "exact",
                Axis::linear("t"),
                "E‖∇f(x_t)‖²",
                grouped(Style::Curve, over_time),
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_agree_with_the_exact_means_and_the_best_period_is_no_worse_than_dp_mf() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"
            name = "small"
            title = "small"
            dimension = 20
            smoothness = 10.0
            rounds = 60
            noise = 5.0
            step-sizes = [0.005, 0.04]
            periods = [3, 10, 60]
            shown-step-size = 0.04
            shown-period = 3
            runs = 30
            seed = 1
        "#;
        let figure = run(text, folder.path(), 1, &mut |_| {}).unwrap();
        assert_eq!((figure.points.len(), figure.over_time.len()), (8, 2));
        for point in &figure.points {
            for (exact, [mean, low, high]) in [
                (point.average, point.measured_average),
                (point.last, point.measured_last),
            ] {
                // Three times the half width of a 95 % interval of 30 runs: about six standard errors.
                assert!(
                    (mean - exact).abs() < 1.5 * (high - low),
                    "{} {exact} {mean}",
                    point.method
                );
            }
        }
        for step_size in [0.005, 0.04] {
            let of = |keep: &dyn Fn(&str) -> bool, value: &dyn Fn(&Point) -> f64| {
                let points = figure.points.iter().filter(|point| point.step_size == step_size);
                points
                    .filter(|point| keep(&point.method))
                    .map(value)
                    .fold(f64::INFINITY, f64::min)
            };
            let last = |point: &Point| point.last;
            assert!(of(&|method| method.contains('⁺'), &last) < of(&|method| method == "DP-MF", &last));
        }
        assert!(
            fs::read_to_string(folder.path().join("average.svg"))
                .unwrap()
                .contains("<svg")
        );
    }
}
