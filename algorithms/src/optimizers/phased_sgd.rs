//! Phased-SGD: private stochastic convex optimisation in one pass [Feldman, Koren and Talwar 2020, Algorithm 2;
//! specification 7.5].
//!
//! ```text
//! phase i: chunk of n_i = n/2^i examples, η_i = 4^{−i}η;  from x_{i−1} one pass of x ← Π_R(x − η_i·ḡ_B), x̄_i its average
//! x_i = x̄_i + N(0, (f·L·η_i/(B·μ))²·I)
//! ```
//!
//! with f = 1 for zero-out and 2 for replace-one.
//!
//! **Privacy.** Per-example losses are convex and M-smooth and η_i ≤ 2/M, so every gradient step is non-expansive, and so
//! are projections. The changed example takes part in one step of one phase, where it moves the iterate by at most
//! f·L·η_i/B; nothing after that grows the distance, so x̄_i moves by at most as much, and the phase's release is
//! μ-GDP. Chunks are disjoint, hence the run is μ-GDP (parallel composition; later phases post-process). Gradients of
//! one-margin losses are clipped to L = C: clamping a monotone residual is the gradient of another convex loss with the
//! same M, so clipping keeps the argument; the softmax residual is not monotone in one margin, and its bound √2·A is used
//! instead. M needs a public bound A on the rows: that of the domain, or of clipped features, which no row exceeds. The argument is about exact arithmetic: the f32 rounding of the steps
//! is not accounted, so a run with a release key carries no claim.

use rounds_kernels::features::Selection;
use rounds_kernels::linear::Clip;
use rounds_kernels::loss::TargetKind;

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::optimizer::{Optimizer, StepError};
use super::parameters::{Common, INDEPENDENT_NOISE, PRIVACY, Range, parameters};
use super::plan;
use super::scene::Scene;
use super::settings::SettingsError;
use super::sgd::project_onto_ball;
use crate::noise::{NoiseMechanism as _, PlannedNoise, PrivateNoise};
use crate::oracle::{Oracle, Phase};
use crate::privacy::{Adjacency, Sampling};
use crate::resque::localization;
use crate::state::StateVisitor;

parameters! {
    /// Parameters of the phases.
    struct PhasedParameters {
        /// Radius R of the ball around 0 that iterates are projected on
        radius: f64 [Range::POSITIVE] = 10.0,
    }
}

pub(super) static PHASED_SGD: Algorithm = Algorithm {
    id: "phased-sgd",
    name: "Phased-SGD",
    source: "Feldman, Koren and Talwar 2020, Algorithm 2; [002 Table II]",
    promise: "(ε, δ)-DP in one pass by contraction, excess risk LR(1/√n + √d/(nε)), for smooth losses",
    private: true,
    release: false,
    common: &[&[Common::batch_size(), Common::learning_rate()], PRIVACY, INDEPENDENT_NOISE],
    scenes: &[Scene {
        name: "one pass",
        rows: 64,
        batch_size: Some(8),
        parameters: &[],
        second: 1,
        rows_with_second: 64,
        needs_f32: true,
        ..Scene::FIXED
    }],
    constructor: &Reads(prepare),
};

/// Terms of a finite sum that are convex, M-smooth and L-Lipschitz by public bounds.
pub(super) struct SmoothLoss {
    /// M, the regulariser included.
    pub(super) smoothness: f64,
    /// L.
    pub(super) clip_norm: f32,
    pub(super) clip: Clip,
    pub(super) adjacency: Adjacency,
}

impl SmoothLoss {
    /// The constants of the settings and the problem, for a run with independent noise.
    ///
    /// # Errors
    /// A loss without a curvature, rows without a bound, a clip norm for softmax, a relation or a noise that does not fit.
    pub(super) fn new(run: &Run<'_>) -> Result<Self, PrepareError> {
        let (problem, algorithm, loss) = (run.problem, run.id, run.problem.model().loss);
        plan::independent_noise_only(run)?;
        plan::rows_alone(run)?;
        let Some(curvature) = loss.curvature() else {
            let reason = "needs a smooth loss, whose gradient steps do not expand; use huber or logistic";
            return Err(SettingsError::unsupported("loss", loss, algorithm, reason).into());
        };
        let adjacency = plan::adjacency(run)?;
        Sampling::FixedOrder.check(adjacency)?;
        let Some(squared) = plan::squared_row(problem) else {
            let reason = "needs a public bound on the rows: declare the columns' bounds, or clip the features";
            return Err(SettingsError::unsupported("clip-features", "none", algorithm, reason).into());
        };
        let has_classes = loss.targets() == TargetKind::Classes;
        if has_classes && let Some(asked) = run.common.clip_norm {
            let reason = "bounds softmax gradients by the rows' public bound and clips nothing; leave it out";
            return Err(SettingsError::unsupported("clip-norm", asked, algorithm, reason).into());
        }
        let (clip_norm, clip) = if has_classes {
            ((2.0 * squared).sqrt() as f32, Clip::Unbounded)
        } else {
            let clip_norm = plan::clip_norm(run, 1.0)?;
            (clip_norm, Clip::l2(clip_norm))
        };
        Ok(Self { smoothness: curvature * squared + problem.regularization(), clip_norm, clip, adjacency })
    }
}

fn prepare(run: &Run<'_>, own: PhasedParameters) -> Result<Prepared, PrepareError> {
    let problem = run.problem;
    let SmoothLoss { smoothness, clip_norm, clip, adjacency } = SmoothLoss::new(run)?;
    let factor = adjacency.row_change_factor();
    let calibration = run.calibration(adjacency, clip_norm)?;
    let noise = calibration.for_means(PlannedNoise::gaussian(1), Sampling::FixedOrder)?;
    let batch = run.common.batch_size.unwrap_or(100.min(problem.rows().div_ceil(32))).max(1);
    // Iterates inside a phase are not released: they must not be able to diverge.
    let radius = plan::bounded_radius(problem, own.radius)?;
    let dimension = problem.parameters() as f64;
    let steps = problem.rows() as f64 / batch as f64;
    // μ of the run; the noise multiplier is f/μ for a Gaussian mechanism.
    let mu = factor / noise.noise_multiplier();
    let privacy = 16.0 * dimension / ((batch as f64 * mu).powi(2) * steps);
    let balanced = 2.0 * radius / (f64::from(clip_norm) * (steps * (1.0 / 6.0 + privacy)).sqrt());
    let asked = run.common.learning_rate.unwrap_or(balanced);
    // η_1 = η/4 ≤ 2/M.
    let rate = asked.min(8.0 / smoothness);
    let optimizer = PhasedSgd::new(Rule { clip, batch, rate, radius }, noise, (problem.rows(), problem.parameters()));
    let rounds = optimizer.rounds();
    let mut prepared = Prepared::new(optimizer, rounds)
        .with_note("disjoint chunks: each phase spends the whole budget, none is composed");
    if run.is_release() {
        prepared = prepared
            .revoked("the contraction proof holds in exact arithmetic; f32 rounding of its steps is not accounted");
    }
    Ok(prepared.with("batch-size", batch).with("learning-rate", rate))
}

/// The public constants of all phases.
struct Rule {
    clip: Clip,
    batch: usize,
    /// η.
    rate: f64,
    radius: f64,
}

struct PhasedSgd {
    rule: Rule,
    phases: Vec<std::ops::Range<usize>>,
    phase: u64,
    /// Batches of this phase that are done.
    position: u64,
    noise: PrivateNoise,
    iterate: Vec<f32>,
    /// x_{i−1}: the last release, and the only thing that may be shown.
    released: Vec<f32>,
    iterates: Vec<f64>,
    sum: Vec<f64>,
}

impl PhasedSgd {
    fn new(rule: Rule, noise: PrivateNoise, (rows, dimension): (usize, usize)) -> Self {
        let phases = localization::phases(rows, 0.0);
        Self {
            rule,
            phases: phases.into_iter().map(|phase| phase.rows).collect(),
            phase: 0,
            position: 0,
            noise,
            iterate: vec![0.0; dimension],
            released: vec![0.0; dimension],
            iterates: vec![0.0; dimension],
            sum: vec![0.0; dimension],
        }
    }

    /// Rounds of all phases.
    fn rounds(&self) -> u64 {
        let batches = |rows: &std::ops::Range<usize>| rows.len().div_ceil(self.rule.batch) as u64;
        self.phases.iter().map(batches).sum()
    }

    /// η_i of the current phase.
    fn step_size(&self) -> f64 {
        self.rule.rate * f64::powi(0.25, self.phase as i32 + 1)
    }

    /// Releases the phase's average and starts the next phase there.
    fn release(&mut self, oracle: &Oracle<'_>) -> Result<(), StepError> {
        // A changed example moves the average by η_i/B times what it moves a sum.
        let share = (self.step_size(), self.rule.batch as f64);
        self.noise.release_mean(self.phase, (&mut self.iterates, self.position), share, oracle.engine())?;
        for (released, value) in self.released.iter_mut().zip(&self.iterates) {
            *released = *value as f32;
        }
        project_onto_ball(&mut self.released, Some(self.rule.radius));
        self.iterate.copy_from_slice(&self.released);
        self.iterates.fill(0.0);
        self.phase += 1;
        self.position = 0;
        Ok(())
    }
}

impl Optimizer for PhasedSgd {
    fn step(&mut self, _: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        let rows = self.phases[self.phase as usize].clone();
        oracle.enter(Phase::Gradient);
        let start = rows.start + self.position as usize * self.rule.batch;
        let batch = Selection::Range(start..(start + self.rule.batch).min(rows.end));
        oracle.gradient_sum(&batch, &self.iterate, self.rule.clip, &mut self.sum)?;
        oracle.enter(Phase::Update);
        let (step, decay) = (self.step_size(), oracle.problem().regularization());
        // A last partial batch is divided by the nominal size.
        let per_row = step / self.rule.batch as f64;
        for (x, &sum) in self.iterate.iter_mut().zip(&self.sum) {
            *x = (f64::from(*x) * (1.0 - step * decay) - per_row * sum) as f32;
        }
        project_onto_ball(&mut self.iterate, Some(self.rule.radius));
        self.iterates.iter_mut().zip(&self.iterate).for_each(|(sum, &x)| *sum += f64::from(x));
        self.position += 1;
        if start + self.rule.batch >= rows.end {
            oracle.enter(Phase::Noise);
            self.release(oracle)?;
        }
        Ok(())
    }

    fn noise(&self) -> Option<&PrivateNoise> {
        Some(&self.noise)
    }

    fn solution(&mut self) -> &[f32] {
        &self.released
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("phase", &mut self.phase);
        visitor.u64("position", &mut self.position);
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("released", &mut self.released);
        visitor.f64s("iterates", &mut self.iterates);
        self.noise.visit_state(visitor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizers::settings::Settings;
    use crate::optimizers::tests::{mean_loss, run};
    use crate::parallel::Engine;
    use crate::privacy::Budget;
    use crate::problem::synthetic::synthetic_logistic;
    use crate::problem::{Dataset, Features, Labels, Problem};
    use rounds_kernels::features::Norm;
    use rounds_kernels::loss::Loss;
    use rounds_kernels::random::StreamKey;
    use std::sync::Arc;

    fn problem(loss: Loss) -> Problem {
        Problem::new(Arc::new(data(4_000)), loss, true, 0.0).unwrap()
    }

    fn data(rows: usize) -> Dataset {
        let data = synthetic_logistic(rows, 5, 3).into_binary().unwrap();
        data.clip_features(Norm::L2, 2.0).unwrap()
    }

    fn settings(epsilon: f64) -> Settings {
        Settings::new(Budget::Target { epsilon, delta: 1e-6 }, StreamKey::Simulation(5))
    }

    #[test]
    fn one_pass_learns_and_reads_every_row_at_most_once() {
        let problem = problem(Loss::Logistic);
        let (solution, ledger) = run(&problem, PHASED_SGD.prepare(&problem, &settings(5.0)).unwrap());
        assert!(ledger.gradient_queries <= 4_000);
        let (learnt, zero) = (mean_loss(&problem, &solution), mean_loss(&problem, &[0.0; 6]));
        assert!(learnt < zero - 0.005, "{learnt} {zero}");
    }

    #[test]
    fn a_changed_example_moves_a_phase_average_by_at_most_the_claimed_sensitivity() {
        // Two data sets that differ in one row, the same transcript (first phase, before its release): the distance of the
        // running averages is at most 2Lη_1/B under replace-one.
        let data = data(640);
        for changed in [0usize, 100, 319] {
            let averages: Vec<Vec<f64>> = [false, true]
                .map(|change| {
                    let (mut features, mut labels) = data.clone().into_parts();
                    if let (true, Features::F32 { values, columns }, Labels::Values(targets)) =
                        (change, &mut features, &mut labels)
                    {
                        let row = &mut values[changed * *columns..(changed + 1) * *columns];
                        row.iter_mut().for_each(|a| *a = -*a);
                        row[0] = 1.5;
                        targets[changed] = -targets[changed];
                    }
                    let data = Dataset::new("changed", features, labels).unwrap();
                    let data = data.clip_features(Norm::L2, 2.0).unwrap();
                    let problem = Problem::new(Arc::new(data), Loss::Logistic, true, 0.0).unwrap();
                    let mut oracle = Oracle::new(&problem, Engine::default());
                    let mut optimizer = prepare_direct(&problem);
                    for round in 0..31 {
                        optimizer.step(round, &mut oracle).unwrap();
                    }
                    let step = optimizer.step_size();
                    let bound = 2.0 * step / 10.0;
                    let mut average: Vec<f64> = optimizer.iterates.iter().map(|sum| sum / 31.0).collect();
                    average.push(bound);
                    average
                })
                .into();
            let bound = averages[0][6];
            let distance: f64 = (0..6).map(|j| (averages[0][j] - averages[1][j]).powi(2)).sum::<f64>().sqrt();
            assert!(distance <= bound * 1.000_1, "row {changed}: {distance} for {bound}");
            assert!(distance > 0.0 || changed > 310);
        }
    }

    /// The optimiser itself instead of the boxed trait object.
    fn prepare_direct(problem: &Problem) -> PhasedSgd {
        let rule = Rule { clip: Clip::l2(1.0), batch: 10, rate: 8.0 / (0.25 * 5.0), radius: 10.0 };
        let noise = PlannedNoise::gaussian(1).unaccounted(StreamKey::Simulation(5), 1.0);
        PhasedSgd::new(rule, noise, (problem.rows(), problem.parameters()))
    }

    #[test]
    fn what_the_proof_does_not_cover_is_refused() {
        let refused =
            |problem: &Problem, settings: &Settings| PHASED_SGD.prepare(problem, settings).err().unwrap().to_string();
        assert!(refused(&problem(Loss::Hinge), &settings(1.0)).contains("smooth loss"));
        let (features, labels) = synthetic_logistic(100, 5, 3).into_binary().unwrap().into_parts();
        let data = Dataset::new("unbounded", features, labels).unwrap();
        let unbounded = Problem::new(Arc::new(data), Loss::Logistic, true, 0.0).unwrap();
        let message = refused(&unbounded, &settings(1.0));
        assert!(message.contains("public bound"), "{message}");
        let mut release = settings(1.0);
        release.key = StreamKey::Release([3; 32]);
        let prepared = PHASED_SGD.prepare(&problem(Loss::Logistic), &release).unwrap();
        assert_eq!(prepared.privacy.claim, crate::privacy::Claim::None);
        let added = settings(1.0).with("adjacency", Adjacency::AddRemove);
        assert!(PHASED_SGD.prepare(&problem(Loss::Logistic), &added).is_err());
    }
}
