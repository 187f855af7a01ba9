//! The figures of paper 003: heavy ball on a quadratic (Figure 1), optimal noise scales (Figure 2), and the errors of the
//! six private methods on synthetic logistic regression (Figures 3 and 4).
//!
//! The errors come from runs of the catalogue's methods. Full-batch runs share their passes over the rows; runs on
//! batches have an oracle each. Every finished setting is a line of JSON in the output folder, and is not run again.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use plotters::prelude::*;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::accelerated_plan::{AcceleratedPlan, Method};
use rounds_algorithms::optimizers::momentum::NoisyMomentum;
use rounds_algorithms::optimizers::{Budget, Settings};
use rounds_algorithms::oracle::{Engine, ReplicatedOracle};
use rounds_algorithms::privacy::Adjacency;
use rounds_algorithms::problem::synthetic::synthetic_logistic;
use rounds_algorithms::problem::{Features, Labels, Problem};
use rounds_algorithms::theory::multistage::Schedule;
use rounds_algorithms::theory::{Curvature, QuadraticMode, allocation, heavy_ball};
use rounds_kernels::features::Norm;
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::accelerated_misspecified::{Misspecified, MisspecifiedFigure};
use rounds_algorithms::hexadecimal;

/// A figure's definition, as TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Definition {
    HeavyBall(HeavyBallFigure),
    Budget(BudgetFigure),
    Errors(ErrorsFigure),
    Misspecified(MisspecifiedFigure),
}

/// Figure 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeavyBallFigure {
    name: String,
    title: String,
    eigenvalues: Vec<f64>,
    initial_squared_distance: f64,
    step_sizes: Vec<f64>,
    momenta: Vec<f64>,
    noise_levels: Vec<f64>,
    rounds: usize,
}

/// Figure 2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetFigure {
    name: String,
    title: String,
    strong_convexity: f64,
    smoothness: f64,
    stage_exponent: u32,
    step_scale: f64,
    rounds: Vec<usize>,
}

/// Figures 3 and 4.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorsFigure {
    name: String,
    title: String,
    rows: usize,
    dimension: usize,
    data_seed: u64,
    regularization: f64,
    batch_size: usize,
    epsilon: f64,
    rounds: Vec<usize>,
    step_scales: Vec<f64>,
    methods: Vec<String>,
    noise: Vec<Noise>,
    runs: usize,
    start: f64,
    initial_gap: f64,
    allocation: String,
    evaluations: usize,
    seed: u64,
}

/// Which Laplace noise is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noise {
    /// Laplace(b_t): what the privacy claim needs.
    Correct,
    /// Laplace of standard deviation b_t, √2 smaller, as in the authors' code; no claim.
    PublishedCode,
}

impl Noise {
    fn factor(self) -> f64 {
        match self {
            Self::Correct => 1.0,
            Self::PublishedCode => std::f64::consts::FRAC_1_SQRT_2,
        }
    }
}

/// A point of a curve, with the interval that it lies in (equal to the point for curves from formulas).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Horizontal axis.
    pub x: f64,
    /// Vertical axis.
    pub y: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is.
    pub label: String,
    /// Index of its colour, the same in all panels.
    pub colour: usize,
    /// Whether it is drawn dashed.
    pub dashed: bool,
    /// Its points by x.
    pub points: Vec<CurvePoint>,
}

/// A drawing of curves with common axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Title.
    pub title: String,
    /// Row of the figure, from the top.
    pub row: usize,
    /// Column of the figure.
    pub column: usize,
    /// What the horizontal axis shows.
    pub x_label: String,
    /// What the vertical axis shows.
    pub y_label: String,
    /// Whether x holds logarithms to base ten of what the axis shows.
    pub x_is_log10: bool,
    /// Whether y does.
    pub y_is_log10: bool,
    /// The curves.
    pub series: Vec<Series>,
}

/// A finished setting of Figures 3 and 4: one method with its parameters, over all runs. A line of `settings.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// SHA-256 of the definition.
    pub definition: String,
    /// Id of the method.
    pub method: String,
    /// Which noise.
    pub noise: Noise,
    /// T as asked.
    pub rounds_asked: usize,
    /// c of α = c/L.
    pub step_scale: f64,
    /// T′: rounds of each run.
    pub rounds: usize,
    /// Batch size m.
    pub batch_size: usize,
    /// Gradient queries of each run, as its oracle counted them.
    pub gradient_queries: u64,
    /// Runs.
    pub runs: usize,
    /// ε that the noise gives by its accountant (for the code's noise: what it truly gives).
    pub epsilon: f64,
    /// release, simulation or none.
    pub claim: String,
    /// Smoothness L and strong convexity μ that the steps were set from.
    pub smoothness: f64,
    /// μ.
    pub strong_convexity: f64,
    /// Iterations at which F was evaluated.
    pub iterations: Vec<usize>,
    /// Mean of F(x_t) − F* over the runs.
    pub gap_mean: Vec<f64>,
    /// Its standard error.
    pub gap_standard_error: Vec<f64>,
    /// Smallest gap of a run.
    pub gap_least: Vec<f64>,
    /// Largest gap of a run.
    pub gap_greatest: Vec<f64>,
}

/// A finished figure as plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The suite's name.
    pub name: String,
    /// Title.
    pub title: String,
    /// The drawings.
    pub panels: Vec<Panel>,
    /// The settings behind Figures 3 and 4.
    pub settings: Vec<Setting>,
    /// The runs with wrong constants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misspecified: Vec<Misspecified>,
    /// F* of Figures 3 and 4, and the bound ‖∇F‖²/(2μ) on its error.
    pub optimum: Option<(f64, f64)>,
}

/// Computes the figure that `definition` (TOML) describes, on `engine`, and writes `settings.jsonl` (errors only),
/// `figure.json` and `figure.svg` into `out_dir`. Settings that `settings.jsonl` already holds are not run again.
/// `progress` is told what was finished.
///
/// # Errors
/// A definition that makes no sense, a run that fails, a folder that cannot be written.
pub fn run(
    definition: &str,
    out_dir: &Path,
    engine: &Engine,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Figure> {
    let digest = hexadecimal(&Sha256::digest(definition.as_bytes()));
    let parsed: Definition = toml::from_str(definition).context("the figure's definition")?;
    fs::create_dir_all(out_dir).with_context(|| format!("{}: the folder cannot be made", out_dir.display()))?;
    let figure = match parsed {
        Definition::HeavyBall(figure) => figure.compute()?,
        Definition::Budget(figure) => figure.compute()?,
        Definition::Errors(figure) => figure.compute(&digest, out_dir, engine, progress)?,
        Definition::Misspecified(figure) => figure.compute(engine, progress)?,
    };
    let json = out_dir.join("figure.json");
    fs::write(&json, serde_json::to_string_pretty(&figure)?)
        .with_context(|| format!("{}: cannot be written", json.display()))?;
    let svg = out_dir.join("figure.svg");
    draw(&figure, &svg).with_context(|| format!("{}: cannot be drawn", svg.display()))?;
    Ok(figure)
}

/// A point of a curve from a formula.
fn exact(x: f64, y: f64) -> CurvePoint {
    CurvePoint { x, y, low: y, high: y }
}

impl HeavyBallFigure {
    /// Bounds against T for every noise level, and the rate against β at the bottom; a column a step size.
    fn compute(self) -> anyhow::Result<Figure> {
        let least = self.eigenvalues.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.eigenvalues.iter().copied().fold(0.0, f64::max);
        let curvature = Curvature::new(least, greatest)?;
        let start = (self.initial_squared_distance / (2.0 * self.eigenvalues.len() as f64)).sqrt();
        let modes: Vec<_> = self
            .eigenvalues
            .iter()
            .map(|&eigenvalue| QuadraticMode { eigenvalue, start })
            .collect();
        let mut panels = Vec::new();
        for (column, &step_size) in self.step_sizes.iter().enumerate() {
            curvature.step_size(step_size)?;
            for (row, &level) in self.noise_levels.iter().enumerate() {
                let mut series = Vec::new();
                for (colour, &momentum) in self.momenta.iter().enumerate() {
                    let (mut bound, mut error) = (Vec::new(), Vec::new());
                    for rounds in 1..=self.rounds {
                        let variance = (rounds as f64 * level).powi(2);
                        let value = heavy_ball::published_bound_log10(
                            step_size,
                            momentum,
                            &self.eigenvalues,
                            self.initial_squared_distance,
                            variance,
                            rounds,
                        )?;
                        bound.push(exact(rounds as f64, value));
                        let excess =
                            heavy_ball::expected_excess(&modes, step_size, momentum, &vec![variance; rounds])[rounds];
                        error.push(exact(rounds as f64, excess.log10()));
                    }
                    series.push(Series {
                        label: format!("β = {momentum}"),
                        colour,
                        dashed: false,
                        points: bound,
                    });
                    series.push(Series {
                        label: String::new(),
                        colour,
                        dashed: true,
                        points: error,
                    });
                }
                panels.push(Panel {
                    title: format!("α = {step_size}, c_w = {level}: bound (line), exact (dashed)"),
                    row,
                    column,
                    x_label: "rounds T".to_owned(),
                    y_label: "error after T rounds".to_owned(),
                    x_is_log10: false,
                    y_is_log10: true,
                    series,
                });
            }
            let rate = |momentum: f64| heavy_ball::spectral_radius(step_size, momentum, curvature);
            let points = (0..400)
                .map(|index| f64::from(index) / 400.0)
                .map(|beta| exact(beta, rate(beta)))
                .collect();
            let best = heavy_ball::fastest_momentum(step_size, curvature);
            let marked = vec![exact(best, 0.0), exact(best, rate(best))];
            panels.push(Panel {
                title: format!("α = {step_size}: rate; fastest at β = {best:.3}"),
                row: self.noise_levels.len(),
                column,
                x_label: "momentum β".to_owned(),
                y_label: "rate ρ a round".to_owned(),
                x_is_log10: false,
                y_is_log10: false,
                series: vec![
                    Series {
                        label: String::new(),
                        colour: 5,
                        dashed: false,
                        points,
                    },
                    Series {
                        label: String::new(),
                        colour: 3,
                        dashed: true,
                        points: marked,
                    },
                ],
            });
        }
        Ok(Figure {
            name: self.name,
            title: self.title,
            panels,
            settings: Vec::new(),
            misspecified: Vec::new(),
            optimum: None,
        })
    }
}

impl BudgetFigure {
    /// b_t·n·ε/S_1 = Σ_j a_j^{1/3}/a_t^{1/3} against t, for every T.
    fn compute(self) -> anyhow::Result<Figure> {
        let curvature = Curvature::new(self.strong_convexity, self.smoothness)?;
        let mut panels = Vec::new();
        for (column, title) in ["several stages", "one stage"].into_iter().enumerate() {
            let mut series = Vec::new();
            for (colour, &rounds) in self.rounds.iter().enumerate() {
                let schedule = if column == 0 {
                    Schedule::multistage(curvature, self.step_scale, self.stage_exponent, None, rounds)?
                } else {
                    Schedule::constant(curvature, self.step_scale / self.smoothness, rounds)?
                };
                let shares = allocation::laplace(&schedule.log_weights(), 1.0)?;
                let points = shares
                    .iter()
                    .enumerate()
                    .map(|(t, share)| exact(t as f64 + 1.0, -share.log10()))
                    .collect();
                series.push(Series {
                    label: format!("T = {rounds}"),
                    colour,
                    dashed: false,
                    points,
                });
            }
            panels.push(Panel {
                title: title.to_owned(),
                row: 0,
                column,
                x_label: "round t".to_owned(),
                y_label: format!("b_t in S_1/(nε), {title}"),
                x_is_log10: false,
                y_is_log10: true,
                series,
            });
        }
        Ok(Figure {
            name: self.name,
            title: self.title,
            panels,
            settings: Vec::new(),
            misspecified: Vec::new(),
            optimum: None,
        })
    }
}

/// One setting that is still to be run.
struct Pending {
    method: Method,
    noise: Noise,
    rounds_asked: usize,
    step_scale: f64,
    plan: AcceleratedPlan,
    epsilon: f64,
}

/// One run of a pending setting: where it is and what it passed.
struct Run {
    setting: usize,
    iteration: NoisyMomentum,
    /// Parameters at the iterations to evaluate, one after the other.
    visited: Vec<f32>,
}

impl ErrorsFigure {
    fn compute(
        self,
        digest: &str,
        out_dir: &Path,
        engine: &Engine,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Figure> {
        let problem = self.problem()?;
        let optimum = minimum(&problem)?;
        progress(&format!(
            "optimum {:.12}, at most {:.1e} too high",
            optimum.0, optimum.1
        ));
        let path = out_dir.join("settings.jsonl");
        let mut finished = read_settings(&path, digest)?;
        let mut file = fs::File::create(&path).with_context(|| format!("{}: cannot be written", path.display()))?;
        for setting in &finished {
            writeln!(file, "{}", serde_json::to_string(setting)?)?;
        }
        let study = Study {
            definition: &self,
            digest,
            problem: &problem,
            optimum: optimum.0,
            engine,
        };
        let mut keep = |setting: Setting| -> anyhow::Result<()> {
            writeln!(file, "{}", serde_json::to_string(&setting)?)?;
            file.flush()?;
            progress(&format!(
                "{} T = {} c = {} {:?}: {} rounds, gap {:.3e}",
                setting.method,
                setting.rounds_asked,
                setting.step_scale,
                setting.noise,
                setting.rounds,
                setting.gap_mean.last().copied().unwrap_or(f64::NAN)
            ));
            finished.push(setting);
            Ok(())
        };
        for id in &self.methods {
            let Some(method) = Method::ALL.into_iter().find(|method| method.id() == id) else {
                let known: Vec<_> = Method::ALL.into_iter().map(Method::id).collect();
                bail!("methods: '{id}' is not one of {}", known.join(", "));
            };
            let done = read_settings(&path, digest)?;
            let pending = study.pending(method, &done)?;
            if self.batch_size == self.rows {
                study.full_batches(&pending, &mut keep)?;
            } else {
                study.batches(&pending, &mut keep)?;
            }
        }
        let panels = self.panels(&finished);
        Ok(Figure {
            name: self.name,
            title: self.title,
            panels,
            settings: finished,
            misspecified: Vec::new(),
            optimum: Some(optimum),
        })
    }

    /// Synthetic logistic regression with features in [0, 1]: ‖u‖₂ ≤ √d is public, ‖u‖₁ ≤ d follows.
    fn problem(&self) -> anyhow::Result<Problem> {
        let data = synthetic_logistic(self.rows, self.dimension, self.data_seed)
            .into_binary()?
            .clip_features(Norm::L2, (self.dimension as f64).sqrt())?;
        Ok(Problem::new(
            Arc::new(data),
            Loss::Logistic,
            false,
            self.regularization,
        )?)
    }

    /// A row of panels a step scale and two rows of methods, a block of columns a kind of noise: as the paper lays out.
    fn panels(&self, settings: &[Setting]) -> Vec<Panel> {
        let columns = self.methods.len().div_ceil(2);
        let mut panels = Vec::new();
        for (block, &step_scale) in self.step_scales.iter().enumerate() {
            for (side, &noise) in self.noise.iter().enumerate() {
                for (index, method) in self.methods.iter().enumerate() {
                    let curve = |(colour, &rounds): (usize, &usize)| {
                        let setting = settings.iter().find(|setting| {
                            setting.method == *method
                                && setting.noise == noise
                                && setting.step_scale == step_scale
                                && setting.rounds_asked == rounds
                        })?;
                        Some(Series {
                            label: format!("T = {rounds}"),
                            colour,
                            dashed: false,
                            points: setting.curve(),
                        })
                    };
                    let kind = match noise {
                        Noise::Correct => "Laplace(b_t)",
                        Noise::PublishedCode => "noise of the authors' code",
                    };
                    panels.push(Panel {
                        title: format!("{method}, c = {step_scale}, {kind}"),
                        row: block * 2 + index / columns,
                        column: side * columns + index % columns,
                        x_label: "round t".to_owned(),
                        y_label: "F(x_t) − F*".to_owned(),
                        x_is_log10: false,
                        y_is_log10: true,
                        series: self.rounds.iter().enumerate().filter_map(curve).collect(),
                    });
                }
            }
        }
        panels
    }
}

impl Setting {
    /// log10 of the mean gap, with the 95 % interval of the mean; below 0 the interval ends at the smallest gap.
    fn curve(&self) -> Vec<CurvePoint> {
        let width = t_quantile(self.runs.saturating_sub(1).max(1));
        self.iterations
            .iter()
            .enumerate()
            .map(|(index, &iteration)| {
                let (mean, error) = (self.gap_mean[index], self.gap_standard_error[index]);
                let floor = self.gap_least[index].max(1e-12);
                let log = |gap: f64| gap.max(floor).log10();
                CurvePoint {
                    x: iteration as f64,
                    y: log(mean),
                    low: log(mean - width * error),
                    high: log(mean + width * error),
                }
            })
            .collect()
    }
}

/// The 97.5 % quantile of Student's t, by the Cornish–Fisher expansion (within 0.5 % from 4 degrees of freedom on).
fn t_quantile(degrees: usize) -> f64 {
    let (z, v) = (1.959_963_985_f64, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / v + second / (v * v) + third / (v * v * v)
}

/// The settings of this definition that a file holds; a line that was cut off by an interruption is left out.
fn read_settings(path: &Path, digest: &str) -> anyhow::Result<Vec<Setting>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    let settings = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Setting>(line).ok());
    Ok(settings.filter(|setting| setting.definition == digest).collect())
}

/// The parameters that a run visited, one vector after the other, and its gradient queries.
type Visited = (Vec<f32>, u64);

/// What all settings of a figure share.
struct Study<'a> {
    definition: &'a ErrorsFigure,
    digest: &'a str,
    problem: &'a Problem,
    optimum: f64,
    engine: &'a Engine,
}

impl Study<'_> {
    /// The settings of `method` that are not done, in the order of the definition.
    fn pending(&self, method: Method, done: &[Setting]) -> anyhow::Result<Vec<Pending>> {
        let definition = self.definition;
        let mut pending = Vec::new();
        for &noise in &definition.noise {
            for &step_scale in &definition.step_scales {
                for &rounds_asked in &definition.rounds {
                    if done.iter().any(|setting| {
                        setting.method == method.id()
                            && setting.noise == noise
                            && setting.step_scale == step_scale
                            && setting.rounds_asked == rounds_asked
                    }) {
                        continue;
                    }
                    let plan =
                        AcceleratedPlan::new(method, self.problem, &self.settings(method, rounds_asked, step_scale))?;
                    let claimed = plan.statement.epsilon.context("the plan has no guarantee")?;
                    let (plan, epsilon) = match noise {
                        Noise::Correct => (plan, claimed),
                        Noise::PublishedCode => {
                            let plan = plan.with_noise_scaled(noise.factor());
                            let epsilon = plan.pure_epsilon()?;
                            (plan, epsilon)
                        }
                    };
                    pending.push(Pending {
                        method,
                        noise,
                        rounds_asked,
                        step_scale,
                        plan,
                        epsilon,
                    });
                }
            }
        }
        Ok(pending)
    }

    fn settings(&self, method: Method, rounds: usize, step_scale: f64) -> Settings {
        let definition = self.definition;
        let budget = Budget::Target {
            epsilon: definition.epsilon,
            delta: 0.0,
        };
        let mut settings = Settings::new(budget, StreamKey::Simulation(definition.seed));
        settings.adjacency = Some(Adjacency::ReplaceOne);
        settings.batch_size = Some(definition.batch_size);
        let mut set = |key: &str, value: String| settings.parameters.insert(key.to_owned(), value);
        set("rounds", rounds.to_string());
        set("step-scale", step_scale.to_string());
        set("start", definition.start.to_string());
        if matches!(
            method,
            Method::Nesterov { optimized: true } | Method::Multistage { optimized: true }
        ) {
            set("initial-gap", definition.initial_gap.to_string());
            set("allocation", definition.allocation.clone());
        }
        settings
    }

    /// The key of a run: other for every method, T, c and run, the same for both kinds of noise, so that they differ by
    /// their scale alone.
    fn key(&self, pending: &Pending, run: usize) -> StreamKey {
        let name = format!(
            "{}/{}/{}/{}/{}/{run}",
            self.definition.seed,
            self.definition.batch_size,
            pending.method.id(),
            pending.rounds_asked,
            pending.step_scale
        );
        let hash = Sha256::digest(name.as_bytes());
        StreamKey::Simulation(u64::from_le_bytes(std::array::from_fn(|index| hash[index])))
    }

    /// About `evaluations` + 1 iterations from 0 to `rounds`, evenly.
    fn iterations(&self, rounds: usize) -> Vec<usize> {
        let parts = self.definition.evaluations.clamp(1, rounds);
        (0..=parts).map(|part| (rounds * part + parts / 2) / parts).collect()
    }

    /// All runs of all settings side by side: a pass over the rows answers all of them.
    fn full_batches(
        &self,
        pending: &[Pending],
        keep: &mut impl FnMut(Setting) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(clip) = pending.first().map(|setting| setting.plan.clip) else {
            return Ok(());
        };
        let grids: Vec<_> = pending
            .iter()
            .map(|setting| self.iterations(setting.plan.steps.len()))
            .collect();
        let count = self.definition.runs;
        let mut oracle = ReplicatedOracle::new(self.problem, self.engine.clone(), pending.len() * count, clip)?;
        let mut runs: Vec<(usize, Run)> = Vec::new();
        for (setting, pending) in pending.iter().enumerate() {
            for run in 0..count {
                let iteration = pending.plan.iteration(self.problem, self.key(pending, run));
                let visited = iteration.iterate().to_vec();
                runs.push((
                    setting * count + run,
                    Run {
                        setting,
                        iteration,
                        visited,
                    },
                ));
            }
        }
        let mut sums = vec![vec![0.0; self.problem.parameters()]; runs.len()];
        let mut active: Vec<usize> = Vec::new();
        while !runs.is_empty() {
            active.clear();
            active.extend(runs.iter().map(|(index, _)| *index));
            sums.truncate(runs.len());
            let points: Vec<&[f32]> = runs.iter_mut().filter_map(|(_, run)| run.iteration.query()).collect();
            oracle.gradient_sums(&active, &points, &mut sums)?;
            for ((_, run), sum) in runs.iter_mut().zip(&mut sums) {
                run.iteration.add_noise(sum, &Engine::Sequential)?;
                run.iteration.update(sum);
                let done = run.iteration.completed_rounds();
                if grids[run.setting].binary_search(&done).is_ok() {
                    run.visited.extend_from_slice(run.iteration.iterate());
                }
            }
            for (setting, pending) in pending.iter().enumerate() {
                let ended = |run: &Run| {
                    run.setting == setting && run.iteration.completed_rounds() == run.iteration.planned_rounds()
                };
                if runs.iter().any(|(_, run)| ended(run)) {
                    let visited: Vec<_> = runs
                        .extract_if(.., |(_, run)| ended(run))
                        .map(|(_, run)| run.visited)
                        .collect();
                    let queries = oracle.ledger(setting * count).gradient_queries;
                    keep(self.summarize(pending, &grids[setting], &visited, queries)?)?;
                }
            }
        }
        Ok(())
    }

    /// Every run on its own batches with its own oracle; runs of a setting at the same time.
    fn batches(&self, pending: &[Pending], keep: &mut impl FnMut(Setting) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for pending in pending {
            let grid = self.iterations(pending.plan.steps.len());
            let mut runs: Vec<(usize, anyhow::Result<Visited>)> = (0..self.definition.runs)
                .map(|run| (run, Ok((Vec::new(), 0))))
                .collect();
            self.engine.for_each(&mut runs, &|(run, outcome), _| {
                *outcome = self.run_on_batches(pending, *run, &grid);
            });
            let mut visited = Vec::new();
            let mut queries = 0;
            for (_, outcome) in runs {
                let (points, asked) = outcome?;
                visited.push(points);
                queries = asked;
            }
            keep(self.summarize(pending, &grid, &visited, queries)?)?;
        }
        Ok(())
    }

    /// What one run visits, and its gradient queries.
    fn run_on_batches(&self, pending: &Pending, run: usize, grid: &[usize]) -> anyhow::Result<Visited> {
        let prepared = pending.plan.prepared(self.problem, &self.key(pending, run))?;
        let mut executor = Executor::new(self.problem, Engine::Sequential, prepared);
        let mut visited = executor.solution().to_vec();
        while !executor.is_finished() {
            executor.advance()?;
            if grid.binary_search(&(executor.round() as usize)).is_ok() {
                visited.extend_from_slice(executor.solution());
            }
        }
        Ok((visited, executor.ledger().gradient_queries))
    }

    /// The gaps of all runs at the iterations of `grid`.
    fn summarize(
        &self,
        pending: &Pending,
        grid: &[usize],
        visited: &[Vec<f32>],
        gradient_queries: u64,
    ) -> anyhow::Result<Setting> {
        /// Parameter vectors that are evaluated in one pass: whole tiles of the kernel.
        const TOGETHER: usize = 320;
        let dimension = self.problem.parameters();
        let points: Vec<&[f32]> = visited.iter().flat_map(|run| run.chunks_exact(dimension)).collect();
        let mut oracle = ReplicatedOracle::new(self.problem, self.engine.clone(), 0, Clip::Unbounded)?;
        let mut gaps = Vec::with_capacity(points.len());
        for points in points.chunks(TOGETHER) {
            gaps.extend(oracle.objectives(points)?.into_iter().map(|value| value - self.optimum));
        }
        let at = |index: usize| gaps.iter().skip(index).step_by(grid.len());
        let runs = visited.len() as f64;
        let mean: Vec<f64> = (0..grid.len()).map(|index| at(index).sum::<f64>() / runs).collect();
        let error = |index: usize| {
            let squares: f64 = at(index).map(|gap| (gap - mean[index]).powi(2)).sum();
            (squares / (runs - 1.0).max(1.0) / runs).sqrt()
        };
        let curvature = pending
            .plan
            .curvature
            .context("the figure needs a regularisation above 0")?;
        let claim = serde_json::to_value(pending.plan.statement.claim)?;
        Ok(Setting {
            definition: self.digest.to_owned(),
            method: pending.method.id().to_owned(),
            noise: pending.noise,
            rounds_asked: pending.rounds_asked,
            step_scale: pending.step_scale,
            rounds: pending.plan.steps.len(),
            batch_size: pending.plan.batch,
            gradient_queries,
            runs: visited.len(),
            epsilon: pending.epsilon,
            claim: claim.as_str().unwrap_or("none").to_owned(),
            smoothness: curvature.smoothness(),
            strong_convexity: curvature.mu(),
            iterations: grid.to_vec(),
            gap_standard_error: (0..grid.len()).map(error).collect(),
            gap_least: (0..grid.len())
                .map(|index| at(index).copied().fold(f64::INFINITY, f64::min))
                .collect(),
            gap_greatest: (0..grid.len())
                .map(|index| at(index).copied().fold(f64::NEG_INFINITY, f64::max))
                .collect(),
            gap_mean: mean,
        })
    }
}

/// (F*, ‖∇F‖²/(2μ)): the minimum of regularised logistic regression by Newton's method with halved steps, in f64, until
/// the bound on its own error is at most 1e-12.
///
/// # Errors
/// A problem of another kind, or no convergence.
pub fn minimum(problem: &Problem) -> anyhow::Result<(f64, f64)> {
    let (Features::F32 { values, columns }, Labels::Values(targets)) =
        (problem.dataset().features(), problem.dataset().labels())
    else {
        bail!("the optimum is computed for dense rows with targets of ±1");
    };
    if problem.model().loss != Loss::Logistic || problem.model().bias {
        bail!("the optimum is computed for logistic regression without a bias");
    }
    let (d, mu, n) = (*columns, problem.regularization(), targets.len() as f64);
    let rows = || values.chunks_exact(d).zip(targets);
    let dot = |row: &[f32], x: &[f64]| row.iter().zip(x).map(|(&a, x)| f64::from(a) * x).sum::<f64>();
    let objective = |x: &[f64]| {
        let losses = rows().map(|(row, &y)| {
            let z = f64::from(y) * dot(row, x);
            (-z).max(0.0) + (-z.abs()).exp().ln_1p()
        });
        losses.sum::<f64>() / n + 0.5 * mu * x.iter().map(|x| x * x).sum::<f64>()
    };
    let mut x = vec![0.0; d];
    let mut value = objective(&x);
    for _ in 0..100 {
        let mut gradient = vec![0.0; d];
        let mut hessian = vec![0.0; d * d];
        for (row, &y) in rows() {
            let z = f64::from(y) * dot(row, &x);
            let probability = 1.0 / (1.0 + z.exp());
            let (slope, curvature) = (-f64::from(y) * probability / n, probability * (1.0 - probability) / n);
            for (i, &a) in row.iter().enumerate() {
                gradient[i] += slope * f64::from(a);
                let weighted = curvature * f64::from(a);
                for (entry, &b) in hessian[i * d..=i * d + i].iter_mut().zip(row) {
                    *entry += weighted * f64::from(b);
                }
            }
        }
        for i in 0..d {
            gradient[i] += mu * x[i];
            hessian[i * d + i] += mu;
        }
        let bound = gradient.iter().map(|g| g * g).sum::<f64>() / (2.0 * mu);
        if bound <= 1e-12 {
            return Ok((value, bound));
        }
        let step = solve_symmetric(hessian, gradient, d);
        let mut length = 1.0;
        loop {
            let next: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x - length * s).collect();
            let reached = objective(&next);
            if reached <= value || length < 1e-10 {
                (x, value) = (next, reached);
                break;
            }
            length *= 0.5;
        }
    }
    bail!("Newton's method did not reach an error of 1e-12 in 100 steps")
}

/// `H⁻¹·g` for a positive definite H given by its lower triangle, by Cholesky's factorisation in place.
fn solve_symmetric(mut h: Vec<f64>, mut g: Vec<f64>, d: usize) -> Vec<f64> {
    for i in 0..d {
        for j in 0..=i {
            let inner: f64 = (0..j).map(|k| h[i * d + k] * h[j * d + k]).sum();
            let rest = h[i * d + j] - inner;
            h[i * d + j] = if i == j { rest.sqrt() } else { rest / h[j * d + j] };
        }
        let inner: f64 = (0..i).map(|k| h[i * d + k] * g[k]).sum();
        g[i] = (g[i] - inner) / h[i * d + i];
    }
    for i in (0..d).rev() {
        let inner: f64 = (i + 1..d).map(|k| h[k * d + i] * g[k]).sum();
        g[i] = (g[i] - inner) / h[i * d + i];
    }
    g
}

/// Colours of curves that are told apart by readers with any colour vision.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(204, 51, 17),
    RGBColor(120, 94, 166),
    RGBColor(90, 90, 90),
];

/// Height of the title and of the row of legends below it.
const HEADER: u32 = 64;

/// The label of a tick: whole numbers without a point, powers of ten for an axis of logarithms.
fn tick(value: f64, logarithms: bool) -> String {
    let near = (value - value.round()).abs() < 1e-9;
    match (logarithms, near) {
        (true, true) => format!("1e{value:.0}").replace("e-0", "e0"),
        (true, false) => format!("{:.1e}", 10f64.powf(value)),
        (false, true) => format!("{value:.0}"),
        (false, false) => format!("{value:.2}").trim_end_matches('0').to_owned(),
    }
}

/// Draws the title, one legend for all panels and the panels on a grid. Panels that show the same quantity share their
/// vertical axis, so that they can be compared by eye.
fn draw(figure: &Figure, path: &Path) -> anyhow::Result<()> {
    const WIDTH: u32 = 330;
    const HEIGHT: u32 = 240;
    let rows = figure.panels.iter().map(|panel| panel.row + 1).max().unwrap_or(1);
    let columns = figure.panels.iter().map(|panel| panel.column + 1).max().unwrap_or(1);
    let size = (WIDTH * columns as u32, HEIGHT * rows as u32 + HEADER);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (header, body) = root.split_vertically(HEADER);
    draw_header(figure, &header, size.0)?;
    let areas = body.split_evenly((rows, columns));
    for panel in &figure.panels {
        draw_panel(figure, panel, &areas[panel.row * columns + panel.column])?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_header(figure: &Figure, area: &Area<'_>, width: u32) -> anyhow::Result<()> {
    // About half the font's height a letter; long titles shrink to the figure's width.
    let letters = figure.title.chars().count().max(1) as f64;
    let font = (f64::from(width) / (0.56 * letters)).min(19.0);
    area.draw_text(
        &figure.title,
        &("sans-serif", font).into_text_style(area),
        (12, (24.0 - font) as i32),
    )?;
    let mut shown: Vec<&str> = Vec::new();
    let mut x = 14;
    for series in figure.panels.iter().flat_map(|panel| &panel.series) {
        if series.label.is_empty() || shown.contains(&series.label.as_str()) {
            continue;
        }
        shown.push(&series.label);
        let colour = COLOURS[series.colour % COLOURS.len()];
        area.draw(&PathElement::new(vec![(x, 48), (x + 20, 48)], colour.stroke_width(3)))?;
        area.draw_text(&series.label, &("sans-serif", 13).into_text_style(area), (x + 25, 41))?;
        x += 45 + 7 * series.label.chars().count() as i32;
    }
    Ok(())
}

/// The least and the greatest of the finite values, apart.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if low < high {
        (low, high)
    } else {
        (low.min(0.0) - 1.0, high.max(0.0) + 1.0)
    }
}

fn draw_panel(figure: &Figure, panel: &Panel, area: &Area<'_>) -> anyhow::Result<()> {
    let alike = figure.panels.iter().filter(|other| other.y_label == panel.y_label);
    let shared = alike.flat_map(|other| &other.series).flat_map(|series| &series.points);
    let points = panel.series.iter().flat_map(|series| &series.points);
    let (left, right) = range(points.map(|point| point.x));
    let (low, high) = range(shared.map(|point| point.y));
    let margin = 0.05 * (high - low);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 13))
        .margin(6)
        .margin_right(16)
        .x_label_area_size(30)
        .y_label_area_size(52)
        .build_cartesian_2d(left..right, low - margin..high + margin)?;
    let (x_logarithms, y_logarithms) = (panel.x_is_log10, panel.y_is_log10);
    chart
        .configure_mesh()
        .x_desc(&panel.x_label)
        .y_desc(&panel.y_label)
        .x_labels(5)
        .y_labels(6)
        .x_label_formatter(&|value| tick(*value, x_logarithms))
        .y_label_formatter(&|value| tick(*value, y_logarithms))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 11))
        .axis_desc_style(("sans-serif", 12))
        .draw()?;
    for series in &panel.series {
        let colour = COLOURS[series.colour % COLOURS.len()];
        let finite = || series.points.iter().filter(|point| point.y.is_finite());
        if finite().any(|point| point.low < point.high) {
            let upper = finite().map(|point| (point.x, point.high));
            let outline: Vec<_> = upper.chain(finite().rev().map(|point| (point.x, point.low))).collect();
            chart.draw_series(std::iter::once(Polygon::new(outline, colour.mix(0.18))))?;
        }
        let line = finite().map(|point| (point.x, point.y));
        if series.dashed {
            chart.draw_series(DashedLineSeries::new(line, 4, 3, colour.stroke_width(1)))?;
        } else {
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        }
        // Few points are values of their own, not samples of a curve.
        if series.points.len() <= 20 && !series.dashed {
            chart.draw_series(finite().map(|point| Circle::new((point.x, point.y), 2, colour.filled())))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        name = "small"
        kind = "errors"
        title = "small"
        rows = 400
        dimension = 4
        data_seed = 3
        regularization = 0.1
        batch_size = BATCH
        epsilon = 1.0
        rounds = [10, 20]
        step_scales = [1.0]
        methods = ["dp-gd", "dp-nag-opt"]
        noise = ["correct", "published-code"]
        runs = 3
        start = 2.0
        initial_gap = 10.0
        allocation = "guide"
        evaluations = 5
        seed = 1
    "#;

    fn small(batch: usize, out: &Path, threads: usize) -> (Figure, usize) {
        let engine = Engine::with_threads(threads).unwrap();
        let mut lines = 0;
        let text = SMALL.replace("BATCH", &batch.to_string());
        let figure = run(&text, out, &engine, &mut |_| lines += 1).unwrap();
        (figure, lines)
    }

    #[test]
    fn finished_settings_are_kept_and_a_line_cut_off_is_run_again() {
        for batch in [400, 40] {
            let folder = tempfile::tempdir().unwrap();
            let (first, lines) = small(batch, folder.path(), 1);
            // The optimum, and 2 methods × 2 T × 2 kinds of noise.
            assert_eq!((lines, first.settings.len(), first.panels.len()), (9, 8, 4));
            let path = folder.path().join("settings.jsonl");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, &text[..text.len() - 30]).unwrap();
            let (second, lines) = small(batch, folder.path(), 2);
            assert_eq!(lines, 2, "the optimum and the setting whose line was cut");
            // The same bits, whatever the number of threads.
            assert_eq!(second.settings[7], first.settings[7]);
            assert_eq!(second, first);
            assert!(
                fs::read_to_string(folder.path().join("figure.svg"))
                    .unwrap()
                    .contains("<svg")
            );
        }
    }

    #[test]
    fn settings_count_queries_and_name_the_true_budget_of_the_published_code() {
        let folder = tempfile::tempdir().unwrap();
        for setting in small(40, folder.path(), 1).0.settings {
            assert_eq!(setting.gradient_queries, 40 * setting.rounds as u64);
            match setting.noise {
                Noise::Correct => {
                    assert_eq!(setting.claim, "simulation");
                    assert!((setting.epsilon - 1.0).abs() < 1e-6);
                }
                Noise::PublishedCode => {
                    assert_eq!(setting.claim, "none");
                    assert!(setting.epsilon > 1.3);
                }
            }
            assert!(setting.gap_least.iter().all(|&gap| gap > -1e-6), "F below its minimum");
        }
    }

    #[test]
    fn runs_that_share_a_pass_are_the_runs_of_the_optimiser() {
        let text = SMALL.replace("BATCH", "400");
        let Definition::Errors(definition) = toml::from_str(&text).unwrap() else {
            panic!("errors")
        };
        let problem = definition.problem().unwrap();
        let engine = Engine::Sequential;
        let study = Study {
            definition: &definition,
            digest: "",
            problem: &problem,
            optimum: 0.0,
            engine: &engine,
        };
        let collect = |shared: bool| {
            let pending = study.pending(Method::Nesterov { optimized: true }, &[]).unwrap();
            let mut settings = Vec::new();
            let mut keep = |setting: Setting| {
                settings.push(setting);
                anyhow::Ok(())
            };
            if shared {
                study.full_batches(&pending, &mut keep)
            } else {
                study.batches(&pending, &mut keep)
            }
            .unwrap();
            settings.sort_by_key(|setting| (setting.rounds_asked, setting.noise == Noise::Correct));
            settings
        };
        for (shared, alone) in collect(true).iter().zip(&collect(false)) {
            assert_eq!(shared.gradient_queries, alone.gradient_queries);
            for (a, b) in shared.gap_mean.iter().zip(&alone.gap_mean) {
                assert!((a - b).abs() < 1e-4 * a.abs(), "{a} {b}");
            }
        }
    }

    #[test]
    fn the_minimum_is_below_its_neighbourhood_by_what_its_bound_says() {
        let text = SMALL.replace("BATCH", "400");
        let Definition::Errors(definition) = toml::from_str(&text).unwrap() else {
            panic!("errors")
        };
        let problem = definition.problem().unwrap();
        let (value, bound) = minimum(&problem).unwrap();
        assert!(bound <= 1e-12);
        let mut settings = Settings::new(Budget::NonPrivate, StreamKey::Simulation(1));
        settings.parameters.insert("rounds".to_owned(), "2000".to_owned());
        let plan = AcceleratedPlan::new(Method::Nesterov { optimized: false }, &problem, &settings).unwrap();
        let prepared = plan.prepared(&problem, &settings.key).unwrap();
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        executor.run().unwrap();
        let mut replicas = ReplicatedOracle::new(&problem, Engine::Sequential, 1, Clip::Unbounded).unwrap();
        let found = replicas.objectives(&[executor.solution()]).unwrap()[0];
        assert!((found - value).abs() < 1e-6, "{found} {value}");
    }

    #[test]
    fn figures_one_and_two_come_from_their_formulas() {
        for (text, panels) in [
            (
                include_str!("../../../bench/definitions/paper/accelerated-figure-1.toml"),
                9,
            ),
            (
                include_str!("../../../bench/definitions/paper/accelerated-figure-2.toml"),
                2,
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let figure = run(text, folder.path(), &Engine::Sequential, &mut |_| {}).unwrap();
            assert_eq!(figure.panels.len(), panels);
            let finite = |series: &Series| series.points.iter().all(|point| point.y.is_finite());
            assert!(figure.panels.iter().all(|panel| panel.series.iter().all(finite)));
        }
    }

    #[test]
    fn the_quantile_of_students_t_is_that_of_tables() {
        for (degrees, table) in [(4, 2.776), (19, 2.093), (100, 1.984)] {
            assert!(
                (t_quantile(degrees) / table - 1.0).abs() < 5e-3,
                "{}",
                t_quantile(degrees)
            );
        }
    }

    #[test]
    fn unknown_methods_and_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = SMALL.replace("BATCH", "400").replace("dp-gd", "dp-dg");
        let error = run(&wrong, folder.path(), &Engine::Sequential, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("dp-nag-opt"), "{error}");
        assert!(
            run(
                "kind = \"errors\"\nfoo = 1",
                folder.path(),
                &Engine::Sequential,
                &mut |_| {}
            )
            .is_err()
        );
    }
}
