//! Gradient descent on a quadratic with the noise of DP-MF and of DP-MF⁺ (paper 001, Figure 2).
//!
//! Squared gradient norms are exact means, from the covariance of the noise. Runs through the library's noise streams give
//! them with intervals.

use std::sync::Arc;

use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::noise::{NoiseMechanism as _, NoisePlan, StrategyMemory};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::synthetic::Quadratic;
use rounds_algorithms::theory::QuadraticMode;
use rounds_algorithms::theory::correlated_noise::{quadratic_moments, restart_terms};
use rounds_kernels::random::StreamKey;
use serde_json::json;

use crate::experiment::{Cell, Configuration, Context, Execution, Measure, Outcome, Run, Selection, Study, Trial};
use crate::statistics::of_mean;
use rounds_models::factorization_cache;

/// The measure. Its methods are `dp-mf`, and `dp-mf-plus` with the parameter `period`. Options: `runs` of a cell, and step size and period of
/// DP-MF⁺ in the norms over time. Runs share factorisations.
pub(crate) const CORRELATED_NOISE: Measure = Measure {
    cells,
    ..Measure::new("correlated-noise", Execution::Concurrent, &["runs", "shown-step-size", "shown-period"], run)
};

/// A factorisation with the rows that the formulas need, at sensitivity 1.
struct Candidate {
    /// C⁻¹.
    inverse: Vec<Vec<f64>>,
    /// S·C⁻¹.
    prefixes: Vec<Vec<f64>>,
}

struct Setting {
    dimension: usize,
    smoothness: f64,
    rounds: usize,
    noise: f64,
    step_size: f64,
    /// Eigenvalues are L·u^exponent, u uniform.
    spectrum_exponent: f64,
    period: Option<usize>,
}

impl Setting {
    fn of(cell: &Configuration) -> anyhow::Result<Self> {
        let period = cell.whole("period")?;
        anyhow::ensure!(
            (cell.algorithm == "dp-mf-plus") == period.is_some() && cell.algorithm.starts_with("dp-mf"),
            "{}: the methods are dp-mf, and dp-mf-plus with the parameter period",
            cell.key()
        );
        Ok(Self {
            dimension: cell.number("dimension")? as usize,
            smoothness: cell.number("smoothness")?,
            rounds: cell.number("rounds")? as usize,
            noise: cell.number("noise")?,
            step_size: cell.number("step-size")?,
            spectrum_exponent: cell.optional("spectrum-exponent")?.unwrap_or(1.0),
            period,
        })
    }

    fn workload(&self, period: Option<usize>) -> WorkloadSpecification {
        WorkloadSpecification::prefix().with_lambda_tau(period.map(|period| period.min(self.rounds)))
    }

    /// OPT_F of the workload of a period, with C⁻¹ and S·C⁻¹.
    fn candidate(&self, period: Option<usize>) -> anyhow::Result<Arc<Candidate>> {
        let workload = Workload::new(self.rounds, self.workload(period))?;
        let request = FactorizationRequest {
            gap: 1e-4,
            ..FactorizationRequest::new(workload, Participation::Single, Method::Optimal)
        };
        let folder = factorization_cache::default_folder();
        let (factorization, _) = factorization_cache::factorize(request, folder.as_deref())?;
        let sensitivity = factorization.sensitivity().value;
        let matrix = factorization.strategy().inverse_matrix()?;
        let inverse: Vec<Vec<f64>> =
            (0..self.rounds).map(|t| (0..=t).map(|s| matrix[(t, s)] * sensitivity).collect()).collect();
        let mut prefixes: Vec<Vec<f64>> = Vec::with_capacity(self.rounds);
        for row in &inverse {
            let mut prefix = row.clone();
            if let Some(before) = prefixes.last() {
                prefix.iter_mut().zip(before).for_each(|(sum, value)| *sum += value);
            }
            prefixes.push(prefix);
        }
        Ok(Arc::new(Candidate { inverse, prefixes }))
    }

    /// One run with a noise stream of the library: the mean squared gradient norm, and the last.
    fn simulate(&self, quadratic: &Quadratic, seed: u64, memory: &StrategyMemory) -> anyhow::Result<(f64, f64)> {
        let plan = NoisePlan {
            rounds: self.rounds,
            rounds_per_epoch: self.rounds,
            workload: self.workload(self.period),
            dimension: self.dimension,
        };
        let deviation = self.noise / (self.dimension as f64).sqrt();
        let planned = NoiseKind::Optimal.prepare(&plan, memory)?;
        let mut stream = planned.unaccounted(StreamKey::Simulation(seed), deviation);
        let mut x = vec![0.0_f64; self.dimension];
        let mut noise = vec![0.0_f64; self.dimension];
        let norm = |x: &[f64]| -> f64 {
            let terms = x.iter().zip(&quadratic.optimum).zip(&quadratic.eigenvalues);
            terms.map(|((x, optimum), eigenvalue)| (eigenvalue * (x - optimum)).powi(2)).sum()
        };
        let mut total = norm(&x);
        for round in 0..self.rounds as u64 {
            noise.fill(0.0);
            stream.add_increment(round, &mut noise, None, &Engine::Sequential)?;
            for (j, (x, noise)) in x.iter_mut().zip(&noise).enumerate() {
                *x -= self.step_size * (quadratic.eigenvalues[j] * (*x - quadratic.optimum[j]) + noise);
            }
            total += norm(&x);
        }
        Ok((total / (self.rounds + 1) as f64, norm(&x)))
    }
}

fn cells(study: &Study, selection: &Selection) -> anyhow::Result<Vec<Cell>> {
    let runs: u64 = study.option("runs")?;
    anyhow::ensure!(runs > 1, "runs must be at least 2: the intervals are those of several runs");
    Ok(study.definition.cells(selection)?)
}

/// Squared gradient norms of a cell: the exact mean over t of E‖∇f(x_t)‖² (`average`), that of x_T (`last`), both measured over the runs
/// with the ends of their intervals, and the noise term of [001 Theorem 4.7] at τ = 1/(γL), over that of DP-MF.
fn run(run: &Run<'_>, context: &Context<'_>) -> anyhow::Result<Outcome> {
    let (study, Trial { repeat, draw }) = (run.study, run.trial);
    let setting = Setting::of(&run.cell.configuration)?;
    let runs: usize = study.option("runs")?;
    let mut quadratic = Quadratic::random(setting.dimension, setting.smoothness, study.definition.seed + draw as u64);
    for eigenvalue in &mut quadratic.eigenvalues {
        *eigenvalue = setting.smoothness * (*eigenvalue / setting.smoothness).powf(setting.spectrum_exponent);
    }
    let candidate = |period: Option<usize>| {
        let key = format!("{} {period:?}", setting.rounds);
        study.shared(&key, || setting.candidate(period))
    };
    let (own, plain) = (candidate(setting.period)?, candidate(None)?);
    let optimum = quadratic.eigenvalues.iter().zip(&quadratic.optimum);
    let modes: Vec<QuadraticMode> =
        optimum.map(|(&eigenvalue, optimum)| QuadraticMode { eigenvalue, start: -optimum }).collect();
    let variance = setting.noise.powi(2) / setting.dimension as f64;
    let (_, gradient) = quadratic_moments(&modes, setting.step_size, variance, &own.inverse);
    let first = Trial { repeat: repeat * runs, draw }.seed(study.definition.seed);
    let runs = (first..first + runs as u64)
        .map(|seed| setting.simulate(&quadratic, seed, &context.strategies))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let tau = ((1.0 / (setting.step_size * setting.smoothness)).round() as usize).clamp(1, setting.rounds);
    let term = |candidate: &Candidate| restart_terms(&candidate.prefixes, tau)[1];
    let mut values = json!({
        "average": gradient.iter().sum::<f64>() / gradient.len() as f64,
        "last": gradient[setting.rounds],
        "measured_average": interval(runs.iter().map(|run| run.0)),
        "measured_last": interval(runs.iter().map(|run| run.1)),
        "theory_ratio": term(&own) / term(&plain),
    });
    let shown_period: usize = study.option("shown-period")?;
    let shown = draw == 0 && setting.step_size == study.option::<f64>("shown-step-size")?;
    if shown && setting.period.is_none_or(|period| period == shown_period) {
        values["over_time"] = gradient.into();
    }
    Ok(Outcome::of(values))
}

/// Mean and ends of its 95 % interval.
fn interval(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let interval = of_mean(&values.collect::<Vec<_>>(), 0.95);
    [interval.value, interval.low, interval.high]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::{self, number, numbers};

    #[test]
    fn a_study_without_runs_is_refused() {
        let text = "options = { runs = 0, shown-step-size = 0.1, shown-period = 1 }\n\
                    [[problem]]\ndataset = 'quadratic'\n[[method]]\nalgorithm = 'dp-mf'";
        let error = testing::small(&CORRELATED_NOISE, text, 1).err().unwrap();
        assert!(error.to_string().contains("runs must be at least 2"), "{error:#}");
    }

    #[test]
    fn runs_agree_with_the_exact_means_and_the_best_period_is_no_worse_than_dp_mf() {
        let text = r#"
            options = { runs = 30, shown-step-size = 0.04, shown-period = 3 }
            [[problem]]
            dataset = "random-quadratic"
            parameters = { dimension = 20, smoothness = 10.0, rounds = 60, noise = 5.0, step-size = [0.005, 0.04] }
            [[method]]
            algorithm = "dp-mf"
            [[method]]
            algorithm = "dp-mf-plus"
            parameters = { period = [3, 10, 60] }
        "#;
        let like = "show.like = 'paper/correlated-noise-figure-2'";
        let two = testing::small(&CORRELATED_NOISE, &format!("draws = 2\n{like}\n{text}"), 2).unwrap();
        // The curves of four methods over two step sizes, and two over time.
        let charts = testing::charts(&two.0, &two.1);
        let shape = charts.iter().map(|chart| (chart.series.len(), chart.series[0].points.len()));
        assert_eq!(shape.collect::<Vec<_>>(), [(4, 2), (4, 2), (2, 61)]);
        let averages =
            [0, 1].map(|draw| two.1.samples.iter().find(|one| one.trial.draw == draw).unwrap()["average"].clone());
        assert_ne!(averages[0], averages[1], "draws of one quadratic");
        let samples: Vec<_> = two.1.samples.into_iter().filter(|sample| sample.trial.draw == 0).collect();
        assert_eq!(samples.len(), 8);
        assert_eq!(samples.iter().filter(|sample| sample.contains_key("over_time")).count(), 2);
        for sample in &samples {
            for name in ["average", "last"] {
                let (exact, measured) = (number(sample, name), numbers(sample, &format!("measured_{name}")));
                let [mean, low, high] = measured[..] else { panic!("{measured:?}") };
                // Three times the half width of a 95 % interval of 30 runs: about six standard errors.
                assert!((mean - exact).abs() < 1.5 * (high - low), "{} {exact} {mean}", sample.key());
            }
        }
        for rate in [0.005, 0.04] {
            let least = |algorithm: &str| {
                let own = samples.iter().filter(|sample| {
                    sample.configuration.number("step-size").unwrap() == rate
                        && sample.configuration.algorithm == algorithm
                });
                own.map(|sample| number(sample, "last")).fold(f64::INFINITY, f64::min)
            };
            assert!(least("dp-mf-plus") < least("dp-mf"));
        }
    }
}
