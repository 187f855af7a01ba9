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
//! **Privacy.** One pass over disjoint batches: an example takes part in one D_t, as one clipped difference, so zeroing
//! it changes the sequence (D_t) in one row by at most S/B (2S/B when it is replaced). With Z scaled to sens(C)·S/μ the
//! run is μ-GDP, whatever the loss, the step size and the dimension: clipping is always on, so the assumption
//! "with probability 1 − δ/2 the differences are bounded" of the papers is not needed.

use rounds_kernels::features::Norm;
use rounds_kernels::linear::{Clip, Point};

use super::matrix_factorization::{calibrated, whole_epochs};
use super::plan::{self, BatchPlan};
use super::sgd::project_onto_ball;
use super::{NoiseKind, Optimizer, RoundError, Settings, SettingsError};
use crate::catalog::{Algorithm, PrepareError, Prepared};
use crate::factorization::WorkloadSpecification;
use crate::noise::{NoiseMechanism, NoisePlan};
use crate::oracle::{Oracle, Phase};
use crate::privacy::Mechanism;
use crate::problem::Problem;
use crate::sampling::Sampler;
use crate::state::StateVisitor;

/// The catalogue's entry of the recursive variant.
pub static ACCELERATED_DP_SRG: Algorithm = Algorithm {
    id: "accelerated-dp-srg",
    name: "Accelerated-DP-SRGD",
    source: "[000 Algorithm 1], [004 Algorithm 1]",
    promise: "(ε, δ)-DP in one pass of few, large rounds: n^{1/4} unconstrained, √n constrained",
    private: true,
    parameters: PARAMETERS,
    constructor: recursive,
};

/// The catalogue's entry of the variant with independent gradients.
pub static ACCELERATED_INDEPENDENT: Algorithm = Algorithm {
    id: "accelerated-independent",
    name: "accelerated DP gradient method with independent gradients",
    source: "[000 Theorem 4.11], [004 Theorem 5.13]",
    promise: "(ε, δ)-DP in one pass, accelerated, with a fresh mini-batch gradient a round",
    private: true,
    parameters: PARAMETERS,
    constructor: independent,
};

const PARAMETERS: &[(&str, &str)] = &[
    (
        "beta",
        "β of the step 1/β (default: the smoothness, times 2, in the regime `unconstrained`, 2·T in `constrained`)",
    ),
    (
        "smoothness",
        "public smoothness M of the per-example losses (default: from an enforced feature bound, else 20)",
    ),
    (
        "radius",
        "radius R of the ball that iterates are projected on (default: none)",
    ),
    (
        "regime",
        "unconstrained (default; β ≈ M, T ≈ n^{1/4}) or constrained (β ≈ M·T, T ≈ √n)",
    ),
    (
        "zeta",
        "ζ of the z-step, in (0, 1] (default: 1 as printed; the proof needs at most 1/2)",
    ),
    (
        "growth",
        "λ > 0 of η_t = e^{λt} instead of η_t = t + 1 (recursive variant only)",
    ),
    (
        "constants",
        "practical (default) or theory: the papers' constants, refused outside their assumptions",
    ),
    (
        "lipschitz",
        "public Lipschitz constant L of the per-example losses, for constants = theory",
    ),
];

fn recursive(problem: &Problem, settings: &Settings) -> Result<Prepared, PrepareError> {
    prepare(problem, settings, true)
}

fn independent(problem: &Problem, settings: &Settings) -> Result<Prepared, PrepareError> {
    prepare(problem, settings, false)
}

/// β, S and ζ of a run.
struct Constants {
    beta: f64,
    clip_norm: f32,
    zeta: f64,
}

/// The smoothness that a run may use: declared, or from an enforced bound on the features.
pub(super) fn smoothness(problem: &Problem, settings: &Settings) -> Result<f64, SettingsError> {
    let bound = problem
        .dataset()
        .public_bound(Norm::L2)
        .map(|a| a * a + f64::from(u8::from(problem.model().bias)));
    let default = bound.and_then(|squared| problem.model().loss.smoothness_factor().map(|factor| factor * squared));
    settings.number(
        "smoothness",
        default.unwrap_or(20.0),
        "a number above 0 is needed",
        |m| m > 0.0 && m.is_finite(),
    )
}

fn constants(
    problem: &Problem,
    settings: &Settings,
    plan: &BatchPlan,
    id: &'static str,
) -> Result<Constants, PrepareError> {
    let rows = problem.rows() as f64;
    let (batch, rounds) = (plan.batch_size as f64, plan.rounds as f64);
    let above_zero = |value: f64| value > 0.0 && value.is_finite();
    let smoothness = smoothness(problem, settings)?;
    let constrained = match settings.parameters.get("regime").map(String::as_str) {
        None | Some("unconstrained") => false,
        Some("constrained") => true,
        Some(other) => {
            return Err(SettingsError::UnknownName {
                flag: "--set regime",
                value: other.to_owned(),
                known: "unconstrained or constrained",
            }
            .into());
        }
    };
    let zeta = settings.number("zeta", 1.0, "a number in (0, 1] is needed", |zeta| {
        zeta > 0.0 && zeta <= 1.0
    })?;
    match settings.parameters.get("constants").map(String::as_str) {
        None | Some("practical") => {
            let default = if constrained {
                2.0 * smoothness * rounds
            } else {
                2.0 * smoothness
            };
            let beta = settings.number("beta", default, "a number above 0 is needed", above_zero)?;
            Ok(Constants {
                beta,
                clip_norm: plan::clip_norm(settings, 1.0)?,
                zeta,
            })
        }
        Some("theory") => {
            let needed =
                "constants = theory needs --set radius, smoothness and lipschitz, each a public number above 0";
            let declared = |key: &'static str| -> Result<f64, SettingsError> {
                let value = settings.number(key, f64::NAN, needed, above_zero)?;
                if value.is_nan() {
                    return Err(SettingsError::OutOfRange {
                        flag: key,
                        value: "none".to_owned(),
                        expected: needed,
                    });
                }
                Ok(value)
            };
            let (radius, smoothness, lipschitz) =
                (declared("radius")?, declared("smoothness")?, declared("lipschitz")?);
            let ratio = smoothness * radius / lipschitz;
            let refuse = |reason: &'static str| SettingsError::Unsupported {
                flag: "--set constants",
                value: "theory".to_owned(),
                algorithm: id,
                reason,
            };
            if !constrained {
                // [004 (5.2)]: T = c_DP·n^{1/4} with c_DP > 10⁴ for any δ in use, so B = n^{3/4}/c_DP < 1 for n < 6·10⁵.
                return Err(refuse(
                    "has constants for the unconstrained regime that leave less than one row a batch below n ≈ 600,000; \
                     take --set regime=constrained, or constants=practical",
                )
                .into());
            }
            if batch > rows.sqrt() {
                return Err(refuse("is proven for batches of at most √n rows in the constrained regime").into());
            }
            // [004 Theorem 5.12]: β = (16·c_M + 8)·L·n^{3/2}/(R·B²); [000 Corollary 4.4]: S = 4L + 8·M·(2R).
            let beta = (16.0 * ratio + 8.0) * lipschitz * rows.powf(1.5) / (radius * batch * batch);
            if beta < 2.0 * smoothness * rounds {
                return Err(refuse("needs β ≥ 2·M·T; take fewer, larger rounds").into());
            }
            let bound = 4.0 * lipschitz + 16.0 * smoothness * radius;
            Ok(Constants {
                beta,
                clip_norm: plan::clip_norm(settings, bound)?,
                zeta: zeta.min(0.5),
            })
        }
        Some(other) => Err(SettingsError::UnknownName {
            flag: "--set constants",
            value: other.to_owned(),
            known: "practical or theory",
        }
        .into()),
    }
}

fn prepare(problem: &Problem, settings: &Settings, recursive: bool) -> Result<Prepared, PrepareError> {
    let id = if recursive {
        ACCELERATED_DP_SRG.id
    } else {
        ACCELERATED_INDEPENDENT.id
    };
    let rows = problem.rows();
    let constrained = settings
        .parameters
        .get("regime")
        .is_some_and(|regime| regime == "constrained");
    let defaulted = Settings {
        batch_size: settings.batch_size.or_else(|| {
            let rounds = if constrained {
                (rows as f64).sqrt()
            } else {
                4.0 * (rows as f64).powf(0.25)
            };
            Some(rows.div_ceil(rounds.ceil() as usize).max(1))
        }),
        ..settings.clone()
    };
    let plan = single_pass(&defaulted, rows, id)?;
    let Constants { beta, clip_norm, zeta } = constants(problem, settings, &plan, id)?;
    let radius = settings.number("radius", f64::INFINITY, "a radius above 0 is needed", |radius| {
        radius > 0.0
    })?;
    let growth = settings.number("growth", 0.0, "a number of at least 0 is needed", |growth| {
        growth >= 0.0
    })?;
    if growth > 0.0 && !recursive {
        return Err(SettingsError::Unsupported {
            flag: "--set growth",
            value: growth.to_string(),
            algorithm: id,
            reason: "has no recursion whose weights could grow",
        }
        .into());
    }
    let noise = NoisePlan {
        kind: settings.noise.unwrap_or(if recursive {
            NoiseKind::Tree
        } else {
            NoiseKind::Independent
        }),
        rounds: plan.rounds,
        rounds_per_epoch: plan.rounds_per_epoch,
        workload: WorkloadSpecification::prefix(),
        dimension: problem.parameters(),
    };
    let (privacy, statement) = calibrated(problem, settings, &plan, noise.prepare(&settings.strategies)?, clip_norm)?;
    let sampler = Sampler::new(plan.sampling, rows, plan.batch_size, settings.key.clone())?;
    let dimension = problem.parameters();
    let optimizer = AcceleratedSrg {
        recursive,
        beta,
        zeta,
        growth,
        radius: radius.is_finite().then_some(radius),
        rounds: plan.rounds as u64,
        clip: Clip::Bounded {
            norm: Norm::L2,
            clip_norm,
        },
        sampler,
        noise: privacy.noise,
        mechanism: privacy.mechanism,
        round: 0,
        iterate: vec![0.0; dimension],
        previous: vec![0.0; dimension],
        aggregate: vec![0.0; dimension],
        mirror: vec![0.0; dimension],
        recursion: vec![0.0; if recursive { dimension } else { 0 }],
        sum: vec![0.0; dimension],
    };
    Ok(Prepared {
        optimizer: Box::new(optimizer),
        privacy: statement,
    })
}

/// A plan of one pass over disjoint batches.
pub(super) fn single_pass(
    settings: &Settings,
    rows: usize,
    algorithm: &'static str,
) -> Result<BatchPlan, PrepareError> {
    let plan = whole_epochs(settings, rows, 1.0, algorithm)?;
    if plan.rounds > plan.rounds_per_epoch {
        return Err(SettingsError::Unsupported {
            flag: "--epochs",
            value: plan.rounds.div_ceil(plan.rounds_per_epoch).to_string(),
            algorithm,
            reason: "reads every example once; take --epochs 1, or dp-srg-memf for several epochs",
        }
        .into());
    }
    Ok(plan)
}

/// The iteration above.
struct AcceleratedSrg {
    recursive: bool,
    beta: f64,
    zeta: f64,
    growth: f64,
    radius: Option<f64>,
    rounds: u64,
    clip: Clip,
    sampler: Sampler,
    noise: Box<dyn NoiseMechanism>,
    mechanism: Mechanism,
    round: u64,
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
    sum: Vec<f64>,
}

impl AcceleratedSrg {
    /// η_t/η_{0:t}.
    fn mixing(&self, round: u64) -> f64 {
        if self.growth > 0.0 {
            // η_{0:t}/η_t = Σ_{i ≤ t} e^{−λi}.
            let decay = (-self.growth).exp();
            (1.0 - decay) / (1.0 - decay.powi(round as i32 + 1))
        } else {
            2.0 / (round as f64 + 2.0)
        }
    }
}

impl Optimizer for AcceleratedSrg {
    fn advance(&mut self, oracle: &mut Oracle<'_>) -> Result<(), RoundError> {
        let round = self.round;
        if round >= self.rounds {
            return Err(RoundError::Finished { rounds: self.rounds });
        }
        oracle.enter(Phase::Sample);
        let batch = self.sampler.draw(round);
        oracle.enter(Phase::Gradient);
        // Coefficients of the two gradients, the recursion's factor, and the weight that the sum is divided by.
        let (current, before, carried, weight) = match (self.recursive, self.growth > 0.0) {
            (false, _) => (1.0, 0.0, 0.0, 1.0),
            (true, false) => (round as f64 + 1.0, round as f64, 1.0, round as f64 + 1.0),
            (true, true) if round == 0 => (1.0, 0.0, 0.0, 1.0),
            (true, true) => (1.0, (-self.growth).exp(), (-self.growth).exp(), 1.0),
        };
        let outcome = if before == 0.0 && current == 1.0 {
            oracle.gradient_sum(&batch, &self.iterate, self.clip, &mut self.sum)
        } else {
            let current = Point {
                coefficient: current as f32,
                parameters: &self.iterate,
            };
            let previous = Point {
                coefficient: before as f32,
                parameters: &self.previous,
            };
            oracle.difference_sum(&batch, current, previous, self.clip, &mut self.sum)
        };
        outcome.map_err(|source| RoundError::Gradient { round, source })?;
        oracle.enter(Phase::Noise);
        self.noise
            .add_increment(round, &mut self.sum, oracle.engine())
            .map_err(|source| RoundError::Noise { round, source })?;
        oracle.enter(Phase::Update);
        if self.recursive {
            for (total, sum) in self.recursion.iter_mut().zip(&mut self.sum) {
                *total = carried * *total + *sum;
                *sum = *total;
            }
        }
        let per_row = (1.0 / (weight * self.sampler.batch_size() as f64)) as f32;
        let regularization = oracle.problem().regularization() as f32;
        let step = (1.0 / self.beta) as f32;
        let eta = if self.growth > 0.0 { 1.0 } else { round as f64 + 1.0 };
        let mirror_step = (self.zeta * eta / self.beta) as f32;
        let state = self
            .iterate
            .iter()
            .zip(&mut self.previous)
            .zip(&mut self.aggregate)
            .zip(&mut self.mirror);
        for ((((&x, previous), y), z), &sum) in state.zip(&self.sum) {
            let gradient = sum as f32 * per_row + regularization * x;
            *z -= mirror_step * gradient;
            *y = x - step * gradient;
            *previous = x;
        }
        if let Some(radius) = self.radius {
            project_onto_ball(&mut self.mirror, radius);
            project_onto_ball(&mut self.aggregate, radius);
        }
        let mixing = self.mixing(round + 1) as f32;
        for ((x, &y), &z) in self.iterate.iter_mut().zip(&self.aggregate).zip(&self.mirror) {
            *x = mixing.mul_add(z - y, y);
        }
        self.round += 1;
        Ok(())
    }

    fn planned_rounds(&self) -> u64 {
        self.rounds
    }

    fn planned_queries(&self) -> Option<u64> {
        let rows = self.sampler.planned_rows(self.rounds)?;
        let again = if self.recursive {
            rows - self.sampler.planned_rows(1)?
        } else {
            0
        };
        Some(rows + again)
    }

    fn completed_rounds(&self) -> u64 {
        self.round
    }

    fn solution(&mut self) -> &[f32] {
        &self.aggregate
    }

    fn mechanism(&self) -> Option<Mechanism> {
        Some(self.mechanism.clone())
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("round", &mut self.round);
        visitor.f32s("iterate", &mut self.iterate);
        visitor.f32s("previous", &mut self.previous);
        visitor.f32s("aggregate", &mut self.aggregate);
        visitor.f32s("mirror", &mut self.mirror);
        visitor.f64s("recursion", &mut self.recursion);
        self.noise.visit_state(visitor);
    }
}
