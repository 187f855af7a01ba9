//! Accelerated-DP-SRGD ([000 Algorithm 1], [004 Algorithm 1]) and the accelerated method with independent gradients
//! ([000 Theorem 4.11], [004 Theorem 5.13]).
//!
//! ```text
//! D_t     = (Σ_{i ∈ B_t} clip(η_t·∇f(x_t; d_i) − η_{t−1}·∇f(x_{t−1}; d_i), S) + (C⁻¹Z)_t) / B,    η_t = t + 1, η_{−1} = 0
//! g_t     = (Σ_{s ≤ t} D_s) / η_t                    (the sum runs to t; the listing of [000] stops at t − 1)
//! z_{t+1} = Π(z_t − ζ·(η_t/β)·g_t)
//! y_{t+1} = Π(x_t − g_t/β)
//! x_{t+1} = (1 − τ_{t+1})·y_{t+1} + τ_{t+1}·z_{t+1},    τ_t = η_t/η_{0:t} = 2/(t + 2)
//! ```
//! Π projects on the ball of radius R, if there is one; y_T is returned. ζ = 1 as printed, the proof needs ζ ≤ 1/2. With
//! `growth = λ > 0`, η_t = e^{λt}: then the normalised difference D_t/η_t is clipped, and both steps use 1/β, since
//! η_t/β would grow without bound. The independent variant has g_t = (Σ clip(∇f(x_t; d_i), S) + noise)/B instead.
//!
//! `coupling = average` leaves the y-step out, y_{t+1} = x_t: then x_t is the mean of z_0 … z_t with the weights η, and z
//! descends on the linear losses ⟨η_t·g_t, ·⟩, as the private online-to-batch conversion of Zhang, Tran and Cutkosky (2022,
//! arXiv 2210.06593, \[50\] of [004]) has it, with projected gradient descent of a fixed step as its online learner.
//!
//! **Privacy.** One pass over disjoint batches: an example takes part in one D_t, as one clipped difference, so zeroing
//! it changes the sequence (D_t) in one row by at most S/B (2S/B when it is replaced). With Z scaled to sens(C)·S/μ the
//! run is μ-GDP, whatever the loss, the step size and the dimension: clipping is always on, so the assumption
//! "with probability 1 − δ/2 the differences are bounded" of the papers is not needed.

use rounds_kernels::features::Norm;
use rounds_kernels::linear::Point;
use rounds_kernels::loss::TargetKind;

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::matrix_factorization::whole_epochs;
use super::noisy_sums::{Iteration, NoisySums, Release};
use super::optimizer::AssumptionWarning;
use super::parameters::{BATCHES, NOISE, PRIVACY, Range, parameters};
use super::plan::{self, BatchPlan};
use super::scene::Scene;
use super::settings::SettingsError;
use super::sgd::project_onto_ball;
use crate::choices::choices;
use crate::factorization::WorkloadSpecification;
use crate::noise::{NoiseKind, PrivateNoise};
use crate::problem::PublicProblem;
use crate::state::StateVisitor;
use crate::theory;

pub(super) static ACCELERATED_DP_SRG: Algorithm = Algorithm {
    id: "accelerated-dp-srg",
    name: "Accelerated-DP-SRGD",
    source: "[000 Algorithm 1], [004 Algorithm 1]",
    promise: "(ε, δ)-DP in one pass of few, large rounds: n^{1/4} unconstrained, √n constrained",
    private: true,
    release: true,
    common: &[BATCHES, PRIVACY, NOISE],
    scenes: &[Scene::SINGLE_PASS],
    constructor: &Reads(|run, (own, growing): ((Steps, Accelerated), Growing)| prepare(run, own, Some(growing))),
};

pub(super) static ACCELERATED_INDEPENDENT: Algorithm = Algorithm {
    id: "accelerated-independent",
    name: "accelerated DP gradient method with independent gradients",
    source: "[000 Theorem 4.11], [004 Theorem 5.13]",
    promise: "(ε, δ)-DP in one pass, accelerated, with a fresh mini-batch gradient a round",
    private: true,
    release: true,
    common: &[BATCHES, PRIVACY, NOISE],
    scenes: &[Scene::SINGLE_PASS],
    constructor: &Reads(|run, own: (Steps, Accelerated)| prepare(run, own, None)),
};

parameters! {
    /// Parameters of steps whose size follows from the smoothness and the noise.
    pub(super) struct Steps {
        /// β of the step 1/β (default: from the smoothness and the noise of the run, see the module)
        beta: Option<f64> [Range::POSITIVE],
        /// Smoothness M that steps are set for (default: a quarter of the loss's curvature at 0 times a public bound on
        /// ‖a‖², else 20)
        smoothness: Option<f64> [Range::POSITIVE],
        /// Radius R of the ball that iterates are projected on, a public bound on the norm of the minimiser (default: none,
        /// with a warning)
        radius: Option<f64> [Range::POSITIVE],
    }
}

choices! {
    /// The two regimes of the theorems.
    enum Regime {
        /// β ≈ M, T ≈ n^{1/4}.
        Unconstrained = "unconstrained",
        /// β ≈ M·T, T ≈ √n.
        Constrained = "constrained",
    }
}

choices! {
    /// The origin of the constants.
    enum Origin {
        /// Constants that work in practice, without the proof.
        Practical = "practical",
        /// The papers' constants, refused outside their assumptions.
        Theory = "theory",
    }
}

parameters! {
    /// Parameters of both accelerated variants.
    struct Accelerated {
        /// Regime: β ≈ M and T ≈ n^{1/4}, or β ≈ M·T and T ≈ √n
        regime: Regime = Regime::Unconstrained,
        /// ζ of the z-step (default: 1 as printed; 1/2 with constants=theory, which needs at most that)
        zeta: Option<f64> [Range::SHARE],
        /// Constants in use, or the papers' ones, which are refused outside their assumptions
        constants: Origin = Origin::Practical,
        /// Public Lipschitz constant L of the per-example losses, for constants=theory
        lipschitz: Option<f64> [Range::POSITIVE],
    }
}

parameters! {
    /// Parameters of the recursive variant.
    struct Growing {
        /// λ of η_t = e^{λt}; 0 gives η_t = t + 1
        growth: f64 [Range::new("a number of at least 0", |growth| growth >= 0.0)] = 0.0,
        /// Acceleration, or the weighted average of an online learner's points
        coupling: Coupling = Coupling::Accelerated,
    }
}

choices! {
    /// The point that the next iterate is mixed with.
    enum Coupling {
        /// y = Π(x − g/β).
        Accelerated = "accelerated",
        /// y = x.
        Average = "average",
    }
}

/// The numbers that the constants of a run depend on.
struct Variant<'a> {
    run: &'a Run<'a>,
    recursive: bool,
    constrained: bool,
    plan: &'a BatchPlan,
    smoothness: f64,
    zeta: f64,
    coupling: Coupling,
}

/// The papers' constants and what they are made of, all public.
#[derive(Clone, Copy)]
struct Proven {
    radius: f64,
    smoothness: f64,
    lipschitz: f64,
}

/// The smoothness M that practical steps are set for: `φ''(0)·A²/4` with the curvature of the loss at 0 (1/K for K classes,
/// 1/4 for logistic) and a public bound A on the rows, else 20.
///
/// A proof needs the worst row at the worst point, φ''_max·A². The mean loss is far below that: rows of bytes are on
/// average a quarter to an eighth of their bound, and models start at 0.
pub(super) fn default_smoothness(problem: &PublicProblem) -> f64 {
    let model = problem.model();
    let at_zero = model.loss.curvature_at_zero(model.outputs);
    plan::squared_row(problem).zip(at_zero).map_or(20.0, |(squared, curvature)| 0.25 * curvature * squared)
}

/// M of the proofs, `sup φ″·A²` of a public bound A on the rows; the practical one where the loss or the rows have no such bound.
fn proven_smoothness(problem: &PublicProblem) -> f64 {
    let worst = plan::squared_row(problem).zip(problem.model().loss.curvature());
    worst.map_or_else(|| default_smoothness(problem), |(squared, curvature)| curvature * squared)
}

/// S where none is given: for losses of classes or signs their Lipschitz constant, of a public bound on the rows, at most 4 (the best of 0.5, 1,
/// 2, 4 and 8 on MNIST, for ε = 0.1 and 1).
pub(super) fn default_clip_norm(problem: &PublicProblem) -> f64 {
    let loss = problem.model().loss;
    let slope = loss.lipschitz(Norm::L2).filter(|_| loss.targets() != TargetKind::Reals);
    let lipschitz = plan::squared_row(problem).zip(slope).map(|(squared, slope)| slope * squared.sqrt());
    lipschitz.unwrap_or(f64::INFINITY).min(4.0)
}

/// ‖x* − x_0‖ that practical steps are set for where no radius is given.
pub(super) const PRACTICAL_DISTANCE: f64 = 5.0;

/// `V = S²·T/(2B) + d·σ²·(⌊log₂T⌋ + 1)/2`, the mean over the rounds of E‖η_t·(g_t − ∇F(x_t))‖²: differences spread by about S,
/// and a prefix of the tree holds half of its levels. σ is the noise of a node on a mean of B.
pub(super) fn recursion_variance(plan: &BatchPlan, noise: &PrivateNoise, dimension: usize) -> f64 {
    let (batch, rounds) = (plan.batch_size as f64, plan.rounds as f64);
    let node = noise.standard_deviation() / batch;
    let levels = rounds.log2().floor() + 1.0;
    noise.clip_norm().powi(2) * rounds / (2.0 * batch) + dimension as f64 * node * node * 0.5 * levels
}

/// β of `constants = practical`: what minimises Bound A (specification 4.1) at the noise of the run, which is public.
///
/// | | β |
/// | --- | --- |
/// | recursive, unconstrained | `M + √(ζ·T·V/2)/R`, V the mean variance of η_t·g_t |
/// | recursive, constrained | `M·max(n^{3/2}/B², n/B)` ([000 §1]) |
/// | recursive, average | `ζ·√(T³·S²/3 + T·V)/R`, the best fixed step of the learner at losses of E‖η_t·g_t‖² ≤ (t + 1)²·S² + V |
/// | independent | `M + √(2ζ)·T^{3/2}·√(L²/B + dσ²)/(3·√12·R)` |
///
/// R is the radius, or 5. The third is a third of what the bound asks for: on MNIST at ε = 0.1 and 1, for B from 250 to
/// 2,000, the best β of a grid lies within a factor of 2 of these.
fn practical_beta(run: &Variant<'_>, steps: &Steps, noise: &PrivateNoise) -> f64 {
    let (batch, rounds) = (run.plan.batch_size as f64, run.plan.rounds as f64);
    let clip_norm = noise.clip_norm();
    let distance = steps.radius.unwrap_or(PRACTICAL_DISTANCE);
    let dimension = run.run.problem.parameters();
    if !run.recursive {
        let node = noise.standard_deviation() / batch;
        let variance = clip_norm.powi(2) / batch + dimension as f64 * node * node;
        let asked = theory::recursive::best_beta(0.0, run.plan.rounds, variance, distance);
        return run.smoothness + (2.0 * run.zeta).sqrt() * asked / 3.0;
    }
    let variance = recursion_variance(run.plan, noise, dimension);
    if run.coupling == Coupling::Average {
        let squares = rounds.powi(3) * clip_norm.powi(2) / 3.0 + rounds * variance;
        return run.zeta * squares.sqrt() / distance;
    }
    if run.constrained {
        let rows = run.run.problem.rows() as f64;
        return run.smoothness * (rows.powf(1.5) / (batch * batch)).max(rows / batch);
    }
    run.smoothness + (0.5 * run.zeta * rounds * variance).sqrt() / distance
}

/// The constants of `constants = theory`, nothing for `practical`.
fn proven(steps: &Steps, own: &Accelerated) -> Result<Option<Proven>, SettingsError> {
    if own.constants == Origin::Practical {
        return Ok(None);
    }
    let expected = "constants=theory: radius, smoothness and lipschitz, each a public number above 0,";
    let declared =
        |parameter, value: Option<f64>| value.ok_or(SettingsError::out_of_range(parameter, "none", expected));
    Ok(Some(Proven {
        radius: declared("radius", steps.radius)?,
        smoothness: declared("smoothness", steps.smoothness)?,
        lipschitz: declared("lipschitz", own.lipschitz)?,
    }))
}

/// ζ: 1 as printed, at most 1/2 with constants=theory.
fn zeta(own: &Accelerated) -> Result<f64, SettingsError> {
    let most = if own.constants == Origin::Theory { 0.5 } else { 1.0 };
    let zeta = own.zeta.unwrap_or(most);
    if zeta > most {
        return Err(SettingsError::out_of_range("zeta", zeta, "with constants=theory, at most 1/2"));
    }
    Ok(zeta)
}

impl Proven {
    /// S of the recursion, `4L + 8M·D` with the diameter D = 2R ([000 Corollary 4.4], erratum E26), or L of a gradient.
    fn clip_norm(&self, recursive: bool) -> f64 {
        if recursive {
            2.0 * theory::recursive::difference_bound(self.smoothness, self.lipschitz, 2.0 * self.radius, 0.0)
        } else {
            self.lipschitz
        }
    }

    /// β: of a recursion `(16·c_M + 8)·L·n^{3/2}/(R·B²)`, c_M = MR/L, of [004 Theorem 5.12].
    fn beta(&self, run: &Variant<'_>, noise_deviation: f64) -> Result<f64, SettingsError> {
        let (rows, batch) = (run.run.problem.rows() as f64, run.plan.batch_size as f64);
        if !run.recursive {
            // Bound A at its least: V = L²/B + d·σ², σ the noise of a mean.
            let deviation = noise_deviation / batch;
            let variance = self.lipschitz.powi(2) / batch + run.run.problem.parameters() as f64 * deviation * deviation;
            let best = theory::recursive::best_beta(self.smoothness, run.plan.rounds, variance, self.radius);
            return Ok(best);
        }
        let refuse = |reason| SettingsError::unsupported("constants", "theory", run.run.id, reason);
        if run.coupling == Coupling::Average {
            return Err(refuse("has constants for coupling=accelerated alone"));
        }
        if !run.constrained {
            // By theory::recursive_risk::Interior, test `the_interior_constants_prove_nothing_below_ten_trillion_rows`.
            return Err(refuse(
                "is of no use in the unconstrained regime: with its constants the bound is above L·R, the risk of doing \
                 nothing, at every n below 10¹³; take regime=constrained, or constants=practical",
            ));
        }
        if batch > rows.sqrt() {
            return Err(refuse("is proven for batches of at most √n rows in the constrained regime"));
        }
        let ratio = self.smoothness * self.radius / self.lipschitz;
        let beta = (16.0 * ratio + 8.0) * self.lipschitz * rows.powf(1.5) / (self.radius * batch * batch);
        if beta < 2.0 * self.smoothness * run.plan.rounds as f64 {
            return Err(refuse("needs β ≥ 2·M·T; take fewer, larger rounds"));
        }
        Ok(beta)
    }
}

/// The assumptions that practical constants leave. M is the one that was given, else that of the proofs, not the smaller one that
/// practical steps are set for.
fn left_assumptions(run: &Variant<'_>, steps: &Steps, beta: f64) -> Vec<AssumptionWarning> {
    let &Variant { plan, zeta, .. } = run;
    let mut warnings = Vec::new();
    let smoothness = steps.smoothness.unwrap_or_else(|| proven_smoothness(run.run.problem));
    let needed = 2.0 * smoothness * plan.rounds as f64;
    warnings.extend(steps.radius.is_none().then_some(AssumptionWarning::NoProjection));
    if run.recursive && beta < needed {
        warnings.push(AssumptionWarning::SmallBeta { beta, needed });
    }
    if zeta > 0.5 {
        warnings.push(AssumptionWarning::LargeZeta { zeta });
    }
    let root = (run.run.problem.rows() as f64).sqrt();
    if run.recursive && run.constrained && plan.batch_size as f64 > root {
        warnings.push(AssumptionWarning::LargeBatch { batch_size: plan.batch_size, root });
    }
    warnings
}

fn prepare(
    run: &Run<'_>,
    (steps, own): (Steps, Accelerated),
    growing: Option<Growing>,
) -> Result<Prepared, PrepareError> {
    let (problem, rows, recursive) = (run.problem, run.problem.rows(), growing.is_some());
    let constrained = own.regime == Regime::Constrained;
    // The constrained regime is proven for B ≤ √n: rounded down.
    let batch =
        if constrained { rows.isqrt() } else { rows.div_ceil((4.0 * (rows as f64).powf(0.25)).ceil() as usize) };
    let plan = single_pass(run, batch.max(1))?;
    let smoothness = steps.smoothness.unwrap_or_else(|| default_smoothness(problem));
    let proven = proven(&steps, &own)?;
    let zeta = zeta(&own)?;
    let clip_norm = proven.map_or_else(|| default_clip_norm(problem), |proven| proven.clip_norm(recursive));
    let clip_norm = plan::clip_norm(run, clip_norm)?;
    let Growing { growth, coupling } = growing.unwrap_or_default();
    let default = if recursive { NoiseKind::Tree } else { NoiseKind::Independent };
    let workload = if growth > 0.0 {
        // g_t = e^{−λ}·g_{t−1} + D_t is what the steps add up.
        WorkloadSpecification::prefix().with_decay((-growth).exp())
    } else {
        WorkloadSpecification::prefix()
    };
    let noise = plan.correlated_noise(run, (default, workload), clip_norm)?;
    let variant = Variant { run, recursive, constrained, plan: &plan, smoothness, zeta, coupling };
    let (beta, warnings) = if let Some(proven) = proven {
        (proven.beta(&variant, noise.standard_deviation())?, Vec::new())
    } else {
        let practical = || practical_beta(&variant, &steps, &noise);
        let beta = steps.beta.unwrap_or_else(practical);
        (beta, left_assumptions(&variant, &steps, beta))
    };
    let dimension = problem.parameters();
    let iteration = AcceleratedSrg {
        recursive,
        beta,
        zeta,
        growth,
        coupling,
        radius: steps.radius,
        iterate: vec![0.0; dimension],
        previous: vec![0.0; dimension],
        aggregate: vec![0.0; dimension],
        mirror: vec![0.0; dimension],
        recursion: vec![0.0; if recursive { dimension } else { 0 }],
    };
    let differences = recursive && !(growth > 0.0 && iteration.decay() == 0.0);
    let prepared = NoisySums::new(run, &plan, Some(noise))?.prepared(&plan, iteration, differences);
    Ok(Prepared { warnings, ..prepared }.with("beta", beta).with("zeta", zeta))
}

/// A plan of one pass over disjoint batches.
pub(super) fn single_pass(run: &Run<'_>, batch_size: usize) -> Result<BatchPlan, PrepareError> {
    let plan = whole_epochs(run, batch_size, 1.0)?;
    if plan.rounds > plan.rounds_per_epoch {
        let reason = "reads every example once; take epochs 1, or dp-srg-memf for several epochs";
        return Err(SettingsError::unsupported("epochs", plan.participations(), run.id, reason).into());
    }
    Ok(plan)
}

/// The iteration above.
struct AcceleratedSrg {
    recursive: bool,
    beta: f64,
    zeta: f64,
    growth: f64,
    coupling: Coupling,
    radius: Option<f64>,
    /// x_t.
    iterate: Vec<f32>,
    /// x_{t−1}.
    previous: Vec<f32>,
    /// y_t.
    aggregate: Vec<f32>,
    /// z_t.
    mirror: Vec<f32>,
    /// Σ_{s ≤ t} D_s (or g_t where weights grow exponentially), noise included, times B.
    recursion: Vec<f64>,
}

impl AcceleratedSrg {
    /// The factor of g_{t−1} in the normalised recursion, e^{−λ}; 0 for λ = ∞, mini-batch gradients.
    fn decay(&self) -> f64 {
        (-self.growth).exp()
    }

    /// η_t/η_{0:t}.
    fn mixing(&self, round: u64) -> f64 {
        if self.growth > 0.0 {
            // η_{0:t}/η_t = Σ_{i ≤ t} e^{−λi}.
            let decay = self.decay();
            (1.0 - decay) / (1.0 - decay.powi(round as i32 + 1))
        } else {
            2.0 / (round as f64 + 2.0)
        }
    }
}

impl AcceleratedSrg {
    /// Coefficients of the two gradients, the recursion's factor, and the weight that the sum is divided by.
    fn weights(&self, round: u64) -> (f64, f64, f64, f64) {
        let decay = self.decay();
        match (self.recursive, self.growth > 0.0) {
            (false, _) => (1.0, 0.0, 0.0, 1.0),
            (true, false) => (round as f64 + 1.0, round as f64, 1.0, round as f64 + 1.0),
            (true, true) if round == 0 => (1.0, 0.0, 0.0, 1.0),
            (true, true) => (1.0, decay, decay, 1.0),
        }
    }
}

impl Iteration for AcceleratedSrg {
    fn query(&mut self, round: u64) -> (Point<'_>, Option<Point<'_>>) {
        let (current, before, ..) = self.weights(round);
        let point = |coefficient: f64, parameters| Point { coefficient: coefficient as f32, parameters };
        let plain = before == 0.0 && current == 1.0;
        (point(current, &self.iterate), (!plain).then(|| point(before, &self.previous)))
    }

    fn update(&mut self, release: &Release<'_>) {
        let round = release.round;
        let (.., carried, weight) = self.weights(round);
        let mut sums = release.sum;
        if self.recursive {
            self.recursion.iter_mut().zip(sums).for_each(|(total, sum)| *total = carried * *total + sum);
            sums = &self.recursion;
        }
        let per_row = (1.0 / (weight * release.batch_size)) as f32;
        let regularization = release.regularization as f32;
        let step = match self.coupling {
            Coupling::Accelerated => (1.0 / self.beta) as f32,
            Coupling::Average => 0.0,
        };
        let eta = if self.growth > 0.0 { 1.0 } else { round as f64 + 1.0 };
        let mirror_step = (self.zeta * eta / self.beta) as f32;
        let state = self.iterate.iter().zip(&mut self.previous).zip(&mut self.aggregate).zip(&mut self.mirror);
        for ((((&x, previous), y), z), &sum) in state.zip(sums) {
            let gradient = sum as f32 * per_row + regularization * x;
            *z -= mirror_step * gradient;
            *y = x - step * gradient;
            *previous = x;
        }
        project_onto_ball(&mut self.mirror, self.radius);
        project_onto_ball(&mut self.aggregate, self.radius);
        let mixing = self.mixing(round + 1) as f32;
        for ((x, &y), &z) in self.iterate.iter_mut().zip(&self.aggregate).zip(&self.mirror) {
            *x = mixing.mul_add(z - y, y);
        }
    }

    fn solution(&mut self) -> &[f32] {
        &self.aggregate
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("previous", &mut self.previous);
        visitor.f32s("aggregate", &mut self.aggregate);
        visitor.f32s("mirror", &mut self.mirror);
        visitor.f64s("recursion", &mut self.recursion);
    }
}
