//! DP-SGD: its entry, its default steps, and which noise and accountant it takes. The iteration is [`sgd`](super::sgd)'s.

use rounds_kernels::loss::TargetKind;

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::amplified::Samplers;
use super::last_iterate;
use super::parameters::{BANDED_NOISE, BATCHES, PRECISION, PRIVACY, STEPS};
use super::plan::{self, BatchPlan};
use super::scene::{Row, Scene};
use super::schedule::LearningRateSchedule;
use super::settings::Averaging;
use super::sgd::{Iterates, NETWORK_RATE, Sgd, longest_rate, squared_row};
use crate::noise::PrivateNoise;
use crate::privacy::Accountant;
use crate::problem::PublicProblem;

pub(crate) static DP_SGD: Algorithm = Algorithm {
    id: "dp-sgd",
    name: "DP-SGD",
    source: "[000 §2.3], [004 §2.1], [001 (3)]",
    promise: "(ε, δ)-DP by clipped gradients and Gaussian noise, amplified by sampling",
    private: true,
    release: true,
    common: &[BATCHES, STEPS, PRIVACY, PRECISION, BANDED_NOISE],
    scenes: &[
        Scene::POISSON,
        Scene {
            name: "without replacement",
            // Zero-out is claimed at replace-one's ε, twice the shift that there is, and the theorem is loose: least at rates far
            // from ½ and a large ε.
            batch_size: Some(12),
            epsilon: Some(12.0),
            power: 0.05,
            parameters: &[("rounds", "4"), ("sampling", "without-replacement"), ("learning-rate", "4")],
            others: Row::Opposite,
            ..Scene::POISSON
        },
        Scene {
            name: "cyclic Poisson, two bands",
            batch_size: Some(4),
            power: 0.1,
            parameters: &[("rounds", "4"), ("sampling", "cyclic-poisson"), ("bands", "2"), ("learning-rate", "4")],
            ..Scene::POISSON
        },
        Scene {
            name: "truncated Poisson",
            max_batch: Some(14),
            power: 0.15,
            parameters: &[("rounds", "4"), ("sampling", "truncated-poisson"), ("learning-rate", "4")],
            ..Scene::POISSON
        },
        Scene {
            name: "random allocation",
            power: 0.25,
            parameters: &[("rounds", "4"), ("sampling", "random-allocation"), ("learning-rate", "4")],
            ..Scene::POISSON
        },
        Scene {
            name: "Poisson, local steps",
            power: 0.05,
            parameters: &[
                ("rounds", "4"),
                ("sampling", "poisson"),
                ("learning-rate", "4"),
                ("local-steps", "1"),
                ("local-step-size", "1"),
            ],
            needs_units: true,
            ..Scene::POISSON
        },
    ],
    constructor: &Reads(prepare),
};

/// The default clip norm of DP-SGD, step size and schedule, of public numbers alone. For classes, where the last iterate of gradients of rows
/// is returned and no step size is given:
///
/// ```text
/// C = R/20 (1 without a bound R),   η_t = η·(T − t)/T,   η = (1 − β)/(R·C) · min(48·B·min(√(n/4000), 1)/(d^¼·σ·√S), 1500)
/// S = Σ_{t ≤ T} (1 − β^t)²
/// ```
///
/// d is the number of features and R bounds the norm of a row, so that features in other units get the same models. Most gradients are
/// longer than so small a clip norm: nearly all count alike, and no row's length matters (as in automatic clipping, Bu, Wang, Zha
/// and Karypis 2023). The noise of a round that t rounds follow moves the last iterate by `(1 − β^{t+1})/(1 − β)` of its step, and with
/// one step size that of all T rounds moves a margin by at most `R·ησC√S/((1 − β)·B)`, one standard deviation, and the norm of an
/// output's weights by √d/R times that: d^¼ lies between the two. Of few rows n the gradient itself is uncertain. S is near T for many
/// rounds; of the ten of a small table most end before their momentum has built up, and S is 2 at β = 0.9. The second bound limits the
/// steps of a run with little noise.
///
/// The numbers are from grids over eleven data sets and four generated ones at ε = 0.1 to 16 (results/history.md, defaults).
///
/// Otherwise, and over units of several rows, whose mean gradients are shorter and where such steps lose up to 2 points, C = 1 and
/// `η = (1 − β)/(R·C) · min(3·B/(σ·√S), 600)`, constant; for real targets at most `3·(1 + β)/(m·R²)`, 3/2 of the step up to which heavy
/// ball is stable on any rows ([`sgd`](super::sgd)). Clipping bounds every step, so that a run does not diverge, but on squared loss it may
/// oscillate where rows lie close together.
struct PrivateSteps {
    clip_norm: f64,
    /// The factor before B/(σ√S), and the bound on it.
    factors: (f64, f64),
    schedule: LearningRateSchedule,
}

impl PrivateSteps {
    fn new(run: &Run<'_>, own: &Iterates) -> Self {
        let loss = run.problem.model().loss;
        let of_last = own.averaging.is_none_or(|averaging| averaging == Averaging::Last) && own.local_steps.is_none();
        let of_rows = run.problem.unit().is_none_or(|unit| unit.most_rows == Some(1));
        if run.problem.network().is_some()
            || loss.targets() == TargetKind::Reals
            || run.common.learning_rate.is_some()
            || !(of_last && of_rows)
        {
            return Self { clip_norm: 1.0, factors: (3.0, 600.0), schedule: LearningRateSchedule::Constant };
        }
        let bound = plan::squared_row(run.problem).filter(|&square| square > 0.0).map(f64::sqrt);
        let spread = (run.problem.model().features.max(1) as f64).powf(-0.25);
        let few = (run.problem.rows() as f64 / 4_000.0).sqrt().min(1.0);
        Self {
            clip_norm: bound.map_or(1.0, |bound| bound / 20.0),
            factors: (48.0 * spread * few, 1500.0),
            schedule: LearningRateSchedule::Linear,
        }
    }

    /// η.
    fn rate(&self, problem: &PublicProblem, plan: &BatchPlan, momentum: f64, noise: &PrivateNoise) -> f64 {
        if problem.network().is_some() {
            return NETWORK_RATE * (1.0 - momentum);
        }
        let mut power = 1.0;
        let carried = (0..plan.rounds).map(|_| {
            power *= momentum;
            (1.0 - power).powi(2)
        });
        let (factor, most) = self.factors;
        let noisy = factor * plan.batch_size as f64 / (noise.noise_multiplier() * carried.sum::<f64>().sqrt());
        let rate = (1.0 - momentum) / (squared_row(problem).sqrt() * noise.clip_norm()) * noisy.min(most);
        let loss = problem.model().loss;
        match loss.targets() {
            TargetKind::Reals if loss.curvature().is_some() => rate.min(longest_rate(problem, momentum)),
            _ => rate,
        }
    }
}

fn prepare(run: &Run<'_>, (own, samplers): (Iterates, Samplers)) -> Result<Prepared, PrepareError> {
    if run.common.accountant == Some(Accountant::LastIterate) {
        samplers.none_given(run.id)?;
        return last_iterate::prepare(run, own);
    }
    let steps = PrivateSteps::new(run, &own);
    let plan = BatchPlan::described(run, plan::private_batches(run.problem.rows()), |kind, size| {
        samplers.sampling(run, &steps.schedule, (kind, size))
    })?;
    let noise = Samplers::noise(run, &steps.schedule, &plan, plan::clip_norm(run, steps.clip_norm)?)?;
    let momentum = run.common.momentum.unwrap_or(plan::PRIVATE_MOMENTUM);
    let rate = steps.rate(run.problem, &plan, momentum, &noise);
    Sgd::prepared(run, own, &plan, (rate, steps.schedule, momentum), Some(noise))
}
