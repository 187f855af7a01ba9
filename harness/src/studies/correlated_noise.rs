//! Gradient descent on a quadratic with the noise of DP-MF and of DP-MF⁺ (paper 001, Figure 2).
//!
//! Squared gradient norms are exact means, from the covariance of the noise. Runs through the library's noise streams give
//! them with intervals.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rounds_algorithms::factorization::{FactorizationRequest, Method, Participation, Workload, WorkloadSpecification};
use rounds_algorithms::noise::{NoiseMechanism as _, NoisePlan, StrategyMemory};
use rounds_algorithms::optimizers::NoiseKind;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::problem::synthetic::Quadratic;
use rounds_algorithms::theory::QuadraticMode;
use rounds_algorithms::theory::correlated_noise::{quadratic_moments, restart_terms};
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};

use crate::experiment::cache::Memo;
use crate::experiment::{
    Configuration, Context, Definition, Execution, Experiment, Kind, Outcome, Presentation, Results, Run, Sample,
    Study, Trial,
};
use crate::report::{self, Axis, Chart, Entry, Figure, Panel, Part, Point, Style, Table};
use crate::statistics::{Estimate, of_mean};
use rounds_models::factorization_cache;

/// The study. Its methods are `dp-mf`, and `dp-mf-plus` with the parameter `period`.
pub(super) type CorrelatedNoise = Experiment<Options, Memo<Arc<Candidate>>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Options {
    title: String,
    /// Runs of a cell.
    runs: usize,
    /// Step size of the norms over time.
    shown_step_size: f64,
    /// Period of DP-MF⁺ in the norms over time.
    shown_period: usize,
}

/// Squared gradient norms of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Norms {
    /// Exact mean over t of E‖∇f(x_t)‖².
    average: f64,
    /// Exact E‖∇f(x_T)‖².
    last: f64,
    /// Mean over the runs of the average, with the ends of its 95 % interval.
    measured_average: [f64; 3],
    /// The same of the last.
    measured_last: [f64; 3],
    /// The noise term of [001 Theorem 4.7] at τ = 1/(γL), over that of DP-MF.
    theory_ratio: f64,
    /// Exact E‖∇f(x_t)‖² for t = 0 … T, in the cells that are shown over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    over_time: Vec<f64>,
}

/// A factorisation with the rows that the formulas need, at sensitivity 1.
pub(super) struct Candidate {
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

impl Study for CorrelatedNoise {
    const KIND: Kind = Kind::new::<Self>("correlated-noise", Execution::Concurrent);
    type Options = Options;
    type Outcome = Norms;

    fn check(definition: &Definition<Options>) -> anyhow::Result<()> {
        anyhow::ensure!(
            definition.options().runs > 1,
            "runs must be at least 2: the intervals are those of several runs"
        );
        Ok(())
    }

    fn measure(&self, run: &Run<'_, Norms>, context: &Context<'_>) -> anyhow::Result<Outcome<Norms>> {
        let setting = Setting::of(&run.cell.configuration)?;
        let options = self.definition.options();
        let seed = self.definition.seed + run.trial.draw as u64;
        let mut quadratic = Quadratic::random(setting.dimension, setting.smoothness, seed);
        for eigenvalue in &mut quadratic.eigenvalues {
            *eigenvalue = setting.smoothness * (*eigenvalue / setting.smoothness).powf(setting.spectrum_exponent);
        }
        let candidate = |period: Option<usize>| {
            let key = format!("{} {period:?}", setting.rounds);
            self.shared.get(&key, || setting.candidate(period))
        };
        let (own, plain) = (candidate(setting.period)?, candidate(None)?);
        let optimum = quadratic.eigenvalues.iter().zip(&quadratic.optimum);
        let modes: Vec<QuadraticMode> =
            optimum.map(|(&eigenvalue, optimum)| QuadraticMode { eigenvalue, start: -optimum }).collect();
        let variance = setting.noise.powi(2) / setting.dimension as f64;
        let (_, gradient) = quadratic_moments(&modes, setting.step_size, variance, &own.inverse);
        let first = Trial { repeat: run.trial.repeat * options.runs, ..run.trial }.seed(self.definition.seed);
        let runs = (first..first + options.runs as u64)
            .map(|seed| setting.simulate(&quadratic, seed, &context.strategies))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let tau = ((1.0 / (setting.step_size * setting.smoothness)).round() as usize).clamp(1, setting.rounds);
        let term = |candidate: &Candidate| restart_terms(&candidate.prefixes, tau)[1];
        let shown = run.trial.draw == 0
            && setting.step_size == options.shown_step_size
            && setting.period.is_none_or(|period| period == options.shown_period);
        Ok(Outcome::Measured(Norms {
            average: gradient.iter().sum::<f64>() / gradient.len() as f64,
            last: gradient[setting.rounds],
            measured_average: interval(runs.iter().map(|run| run.0)),
            measured_last: interval(runs.iter().map(|run| run.1)),
            theory_ratio: term(&own) / term(&plain),
            over_time: if shown { gradient } else { Vec::new() },
        }))
    }

    fn present(&self, results: &Results<Norms>, _: &Path, _: &Context<'_>) -> anyhow::Result<Presentation> {
        let title = &self.definition.options().title;
        let about = "E‖∇f‖², exact; runs with their 95 % interval; the theory's noise term over that of DP-MF.";
        let measured = self.measured(results)?;
        let mut parts = Vec::new();
        for (index, problem) in self.definition.problems.iter().enumerate() {
            let own = measured.iter().filter(|(cell, _)| cell.problem == index);
            let mut samples: Vec<&Sample<Norms>> = own.flat_map(|(_, runs)| runs.iter().copied()).collect();
            samples.sort_by(|a, b| step_size(a).total_cmp(&step_size(b)));
            let gains = gains(&problem.label, &samples);
            samples.retain(|sample| sample.trial.draw == 0);
            if index == 0 {
                let figure = Figure::new(title, "What is shown, of the first draw", panels(&samples));
                parts.push(Part::Figure(figure));
            }
            parts.extend([gains, table(&samples)].map(Part::Table));
        }
        Ok(Presentation::of_parts((title, "Papers", about), parts))
    }
}

/// Mean and ends of its 95 % interval.
fn interval(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let interval = of_mean(&values.collect::<Vec<_>>(), 0.95);
    [interval.value, interval.low, interval.high]
}

fn method(sample: &Sample<Norms>) -> String {
    let period = sample.configuration.text("period");
    period.map_or_else(|| "DP-MF".to_owned(), |period| format!("DP-MF⁺, τ = {period}"))
}

fn step_size(sample: &Sample<Norms>) -> f64 {
    sample.configuration.number("step-size").unwrap_or(f64::NAN)
}

fn panels(samples: &[&Sample<Norms>]) -> Vec<Panel> {
    let against = |title: &str, label: &str, value: fn(&Norms) -> (f64, [f64; 3])| {
        let points = samples.iter().map(|sample| {
            let (exact, [mean, low, high]) = value(sample);
            let note = format!("{}, γ = {}: {exact:.4}; runs: {mean:.4}", method(sample), step_size(sample));
            (method(sample), Point::new(step_size(sample), exact, note).interval(low, high))
        });
        let subtitle = "lines: exact means; whiskers: 95 % intervals of simulated runs";
        Chart::logarithmic(title, subtitle, "learning rate", label, report::grouped(Style::Line, points))
    };
    let over_time = samples.iter().flat_map(|sample| {
        let values = sample.over_time.iter().enumerate().step_by(1 + sample.over_time.len() / 250);
        values.map(|(t, &value)| (method(sample), Point::new(t as f64, value, "")))
    });
    let over_time = Chart::new(
        "Squared gradient norm over time",
        "exact",
        Axis::linear("t"),
        Axis::logarithmic("E‖∇f(x_t)‖²"),
        report::grouped(Style::Curve, over_time),
    );
    let average = against("Mean squared gradient norm", "E‖∇f‖², mean over t", |norms| {
        (norms.average, norms.measured_average)
    });
    let last = against("Last squared gradient norm", "E‖∇f(x_T)‖²", |norms| (norms.last, norms.measured_last));
    vec![
        Panel::chart("mean", "average", average),
        Panel::chart("last", "last", last),
        Panel::chart("over time", "over-time", over_time),
    ]
}

/// The best DP-MF⁺ over DP-MF on every draw, for the mean over t and for the last iterate. Samples are in the order of step sizes.
fn gains(problem: &str, samples: &[&Sample<Norms>]) -> Table {
    let mut table = Table::new(
        &format!("The best DP-MF⁺ over DP-MF, by draw of the quadratic: {problem}"),
        "#γ|norm|#DP-MF|#best DP-MF⁺ over it|#largest of a draw|#draws|periods (draws)",
    );
    let values: [(_, fn(&Norms) -> f64); 2] = [("average", |norms| norms.average), ("last", |norms| norms.last)];
    for of_step in samples.chunk_by(|a, b| step_size(a) == step_size(b)) {
        for (name, value) in values {
            let mut periods: BTreeMap<String, usize> = BTreeMap::new();
            let ratio = |plain: &&Sample<Norms>| {
                let same = |other: &&&Sample<Norms>| {
                    other.trial == plain.trial && other.configuration.algorithm != plain.configuration.algorithm
                };
                let rivals = of_step.iter().filter(same);
                let best = rivals.min_by(|a, b| value(&a.outcome).total_cmp(&value(&b.outcome)))?;
                *periods.entry(best.configuration.text("period")?).or_default() += 1;
                Some((value(&plain.outcome), value(&best.outcome) / value(&plain.outcome)))
            };
            let plain = of_step.iter().filter(|sample| sample.configuration.algorithm == "dp-mf");
            let (plain, ratios): (Vec<f64>, Vec<f64>) = plain.filter_map(ratio).unzip();
            let [of_plain, of_ratios] = [&plain, &ratios].map(|values| of_mean(values, 0.95));
            let shown = |estimate: Estimate| {
                let half = estimate.ends().map(|(low, high)| format!(" ± {:.4}", 0.5 * (high - low)));
                Entry::text(format!("{:.4}{}", estimate.value, half.unwrap_or_default()))
            };
            let largest = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let periods: Vec<_> = periods.iter().map(|(period, draws)| format!("{period} ({draws})")).collect();
            table.row([
                Entry::number(of_step.first().map(|sample| step_size(sample)), |value| value.to_string()),
                Entry::text(name),
                shown(of_plain),
                shown(of_ratios),
                Entry::number(largest, |value| format!("{value:.7}")),
                Entry::count(ratios.len()),
                Entry::text(periods.join(", ")),
            ]);
        }
    }
    table
}

/// Methods down, step sizes across.
fn table(samples: &[&Sample<Norms>]) -> Table {
    let mut table = Table::new("Norms", "#γ|method|#average|runs|#last|runs|#theory");
    for sample in samples {
        let runs = |[mean, low, high]: [f64; 3]| Entry::text(format!("{mean:.4} ± {:.4}", 0.5 * (high - low)));
        let four = |value: f64| format!("{value:.4}");
        table.row([
            Entry::number(step_size(sample), |value| value.to_string()),
            Entry::text(method(sample)),
            Entry::number(sample.average, four),
            runs(sample.measured_average),
            Entry::number(sample.last, four),
            runs(sample.measured_last),
            Entry::number(sample.theory_ratio, |value| format!("{value:.3}")),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing;

    #[test]
    fn a_study_without_runs_is_refused() {
        let text = "options = { title = 't', runs = 0, shown-step-size = 0.1, shown-period = 1 }\n\
                    [[problem]]\ndataset = 'quadratic'\n[[method]]\nalgorithm = 'dp-mf'";
        let error = testing::small::<CorrelatedNoise>(text, 1).err().unwrap();
        assert!(error.to_string().contains("runs must be at least 2"), "{error:#}");
    }

    #[test]
    fn runs_agree_with_the_exact_means_and_the_best_period_is_no_worse_than_dp_mf() {
        let text = r#"
            options = { title = "small", runs = 30, shown-step-size = 0.04, shown-period = 3 }
            [[problem]]
            dataset = "random-quadratic"
            parameters = { dimension = 20, smoothness = 10.0, rounds = 60, noise = 5.0, step-size = [0.005, 0.04] }
            [[method]]
            algorithm = "dp-mf"
            [[method]]
            algorithm = "dp-mf-plus"
            parameters = { period = [3, 10, 60] }
        "#;
        let two = testing::small::<CorrelatedNoise>(&format!("draws = 2\n{text}"), 2).unwrap();
        let mut both: Vec<_> = two.1.samples.iter().collect();
        both.sort_by(|a, b| step_size(a).total_cmp(&step_size(b)));
        // Two step sizes, two norms each.
        assert_eq!(gains("small", &both).rows.len(), 4);
        let averages = [0, 1].map(|draw| both.iter().find(|one| one.trial.draw == draw).unwrap().average);
        assert_ne!(averages[0], averages[1], "draws of one quadratic");
        let samples: Vec<_> = two.1.samples.into_iter().filter(|sample| sample.trial.draw == 0).collect();
        assert_eq!(samples.len(), 8);
        assert_eq!(samples.iter().filter(|sample| !sample.over_time.is_empty()).count(), 2);
        for sample in &samples {
            for (exact, [mean, low, high]) in
                [(sample.average, sample.measured_average), (sample.last, sample.measured_last)]
            {
                // Three times the half width of a 95 % interval of 30 runs: about six standard errors.
                assert!((mean - exact).abs() < 1.5 * (high - low), "{} {exact} {mean}", method(sample));
            }
        }
        for rate in [0.005, 0.04] {
            let least = |algorithm: &str| {
                let own = samples
                    .iter()
                    .filter(|sample| step_size(sample) == rate && sample.configuration.algorithm == algorithm);
                own.map(|sample| sample.last).fold(f64::INFINITY, f64::min)
            };
            assert!(least("dp-mf-plus") < least("dp-mf"));
        }
    }
}
