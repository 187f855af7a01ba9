//! Private ReSQue on a problem: empirical risk [002 Theorem 3] and population risk by localisation [002 Theorem 4] (specification
//! 7.4). The private ball solvers of the theorems [002 Algorithms 3–6] can claim something from the n of
//! [`crate::theory::ball_acceleration`] on, 2.8·10²³ for MNIST at ε = 0.9. Here ball acceleration has a ball solver of S clipped, noised
//! mini-batch steps instead:
//!
//! ```text
//! round: Poisson batches B_1 … B_S and shifts are drawn, gradients queried at x̄ + ξ (one adaptive round)
//! g_s = (Σ_{i ∈ B_s} clip(min(w_i, w_max)·g_i, C) + C·σ·z_s)/B,  v ← Π_r((v − η_s·g_s)/(1 + η_sλ)),  η_s = 2/(λ(s + 1))
//! the solution is the average of the v weighted by s; it also serves as the proximal estimate
//! ```
//!
//! **Privacy.** A round releases g_1 … g_S, nothing else: centres, line search and momentum are functions
//! of earlier releases. Given those, each summand of Σ is a function of one example and fresh randomness, of norm at
//! most C since the truncated weight enters before the clip. So each of the T·S releases is a Poisson-subsampled Gaussian
//! mechanism of noise multiplier σ, and the run their adaptive composition; the accountant needs no property of the
//! weights or of convexity. Localisation runs on disjoint chunks of fixed rows with the same rate and number of releases,
//! so each spends the whole budget (zero-out adjacency: removing a row would shift the chunks). Its regularisers depend on
//! ε: the target, or what the accountant finds for a given noise multiplier.

use rounds_kernels::features::Selection;
use rounds_kernels::linear::recorded::{ByOutput, RecordedBlock, Reweighting, Shifts};
use rounds_kernels::linear::{BLOCK_ROWS, Clip};
use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};

use super::algorithm::{Algorithm, PrepareError, Prepared, Reads, Run};
use super::optimizer::{Optimizer, StepError};
use super::parameters::{Common, INDEPENDENT_NOISE, PRIVACY, Parameter, Range, parameters};
use super::plan;
use super::scene::{RAW_GRADIENT, Scene};
use super::settings::SettingsError;
use crate::noise::{NoiseMechanism as _, PlannedNoise, PrivateNoise};
use crate::oracle::{Oracle, Phase, QueryError, in_real_numbers};
use crate::privacy::{Adjacency, DISJOINT_CHUNKS, Sampling};
use crate::problem::PublicProblem;
use crate::resque::Result;
use crate::resque::acceleration::{BallAcceleration, ProximalOracle};
use crate::resque::geometry::{add, narrow, norm};
use crate::resque::localization::{self, Phase as Chunk};
use crate::resque::projected;
use crate::sampling::Sampler;
use crate::state::StateVisitor;
use crate::theory::ball_acceleration::{AccelerationParameters, Setting};

/// Streams of the shifts of margins.
const SHIFTS: Purpose = Purpose(0x5250_5348);

parameters! {
    /// Parameters of both variants.
    struct PrivateSettings {
        /// Radius R of the domain around 0
        radius: f64 [Range::POSITIVE] = 10.0,
        /// Target gap ε, which sets ball radius and λ (default: CR/20)
        accuracy: Option<f64> [Range::POSITIVE],
        /// Releases S of a round
        inner: usize [Range::COUNT] = 8,
        /// Largest weight w_max
        weight_cap: f64 [Range::POSITIVE] = std::f64::consts::E,
    }
}

const COMMON: &[&[Parameter]] = &[&[Common::epochs(), Common::batch_size()], PRIVACY, INDEPENDENT_NOISE];

/// One release a round and a ball as large as the domain: every other round is a step, whose release is the iterate's move.
const ALL_ROWS: Scene = Scene {
    name: "all rows",
    rows: 64,
    parameters: &[("epochs", "2"), ("radius", "10"), ("inner", "1")],
    scaled: &[("accuracy", 20.0)],
    // Margins are shifted by up to a few radii: the residual must not change its sign.
    raw: 10.0 * RAW_GRADIENT,
    second: 1,
    rows_with_second: 64,
    needs_f32: true,
    ..Scene::FIXED
};

const POISSON: Scene = Scene {
    name: "Poisson, one release a round",
    parameters: &[("epochs", "1"), ("radius", "10"), ("inner", "1")],
    epsilon: Some(4.0),
    // Half of the releases do not show in the iterates.
    power: 0.05,
    ..ALL_ROWS
};

/// The problem of Theorem 3.
pub(super) static RESQUE_PRIVATE_ERM: Algorithm = Algorithm {
    id: "resque-private-erm",
    name: "private ReSQue, empirical risk",
    source: "ball acceleration of [002] with accounted steps",
    promise: "(ε, δ)-DP by clipped, noised and accounted releases in few adaptive rounds, which Theorem 3's bound on the risk does not \
              cover",
    private: true,
    release: true,
    common: COMMON,
    scenes: &[Scene { batch_size: Some(64), ..ALL_ROWS }, Scene { batch_size: Some(48), ..POISSON }],
    constructor: &Reads(|run, own| prepare(run, own, false)),
};

/// The problem of Theorem 4.
pub(super) static RESQUE_PRIVATE_SCO: Algorithm = Algorithm {
    id: "resque-private-sco",
    name: "private ReSQue, population risk",
    source: "ball acceleration of [002] with accounted steps, localised as in [002 Proposition 11]",
    promise: "(ε, δ)-DP by localisation: private empirical risk on disjoint chunks, which Theorem 4's bound on the risk does not cover",
    private: true,
    release: true,
    common: COMMON,
    scenes: &[Scene { batch_size: Some(32), ..ALL_ROWS }, Scene { batch_size: Some(24), ..POISSON }],
    constructor: &Reads(|run, own| prepare(run, own, true)),
};

/// Chunks of a localised run, where Proposition 11 takes log n: rows halve, and below an eighth too few are left for a
/// useful phase. An eighth of the rows is never read.
const MOST_CHUNKS: usize = 3;

fn setting(problem: &PublicProblem, lipschitz: f64, domain_radius: f64, (epsilon, delta): (f64, f64)) -> Setting {
    Setting {
        examples: problem.rows() as f64,
        dimension: problem.parameters() as f64,
        lipschitz,
        domain_radius,
        epsilon,
        delta,
    }
}

/// The phases of localisation, or one chunk of all rows without a regulariser.
fn chunks(setting: &Setting, localized: bool) -> Vec<Chunk> {
    let rows = setting.examples as usize;
    if !localized {
        return vec![Chunk { rows: 0..rows, regularization: 0.0 }];
    }
    let privacy = (setting.dimension * (1.0 / setting.delta).ln()).sqrt() / (rows as f64 * setting.epsilon);
    let first = localization::first_regularization(setting.lipschitz, setting.domain_radius, rows, privacy);
    let mut chunks = localization::phases(rows, first);
    chunks.truncate(MOST_CHUNKS);
    chunks
}

fn prepare(run: &Run<'_>, own: PrivateSettings, localized: bool) -> Result<Prepared, PrepareError> {
    plan::independent_noise_only(run)?;
    projected::check_units(run.problem)?;
    let (problem, key) = (run.problem, run.key());
    let clip_norm = plan::clip_norm(run, 1.0)?;
    let lipschitz = f64::from(clip_norm);
    // A shift of a margin is a normal times radius and row norm: bounded for every row of the domain.
    let domain_radius = plan::bounded_radius(problem, own.radius)?;
    let accuracy = own.accuracy.unwrap_or(lipschitz * domain_radius / 20.0);
    let inner = own.inner;
    let chunks_of = |budget| {
        let setting = setting(problem, lipschitz, domain_radius, budget);
        chunks(&setting, localized)
    };
    let adjacency = plan::adjacency(run)?;
    if adjacency != Adjacency::ZeroOut {
        let reason = "draws Poisson batches whose shifts are addressed by position, of chunks with fixed rows: only \
                      zero-out keeps them";
        return Err(SettingsError::unsupported("adjacency", adjacency, run.id, reason).into());
    }
    // The batch of the first chunk sets the rate; the other chunks take the same rate.
    // The budget sets the regularisers of the chunks alone, not their rows.
    let rows = chunks_of((1.0, 0.5))[0].rows.len();
    let batch = run.common.batch_size.unwrap_or((rows / 20).clamp(1, 4_000)).max(1);
    let rate = (batch as f64 / rows as f64).min(1.0);
    let sampling = Sampling::Poisson { rate };
    sampling.check(adjacency)?;
    let epochs = run.common.epochs.unwrap_or(10.0);
    let per_chunk = (epochs / (rate * inner as f64)).ceil().max(2.0) as u64;
    let noise = PlannedNoise::subsampled_gaussian(per_chunk as usize * inner);
    let noise = run.calibration(adjacency, clip_norm)?.calibrate(noise, sampling)?;
    if localized && noise.budget().0 <= 0.0 {
        let expected = "a smaller one, whose ε is above 0 and sets the regulariser,";
        return Err(SettingsError::out_of_range("noise-multiplier", noise.noise_multiplier(), expected).into());
    }
    let chunks = chunks_of(noise.budget());
    let acceleration = AccelerationParameters {
        domain_radius,
        // r = ρ = ε/(2L): the rule for losses of a linear model.
        ball_radius: (0.5 * accuracy / lipschitz).min(domain_radius),
        accuracy,
        lipschitz,
    };
    let samplers = chunks.iter().map(|chunk| {
        let rows = chunk.rows.len();
        let batch = ((rate * rows as f64).round() as usize).max(1);
        Sampler::new(sampling, rows, batch, key.clone())
    });
    let samplers = samplers.collect::<Result<Vec<_>, _>>()?;
    let rounds = per_chunk * chunks.len() as u64;
    let rule =
        Rule { rate, inner, clip_norm, weight_cap: own.weight_cap, localized, smoothing: acceleration.ball_radius };
    let start = vec![0.0; problem.parameters()];
    let optimizer = PracticalResque {
        per_chunk,
        solution: vec![0.0; start.len()],
        balls: NoisyBalls {
            rule,
            samplers,
            chunks,
            chunk: 0,
            noise,
            key: key.clone(),
            releases: 0,
            anchor: start.clone(),
            buffers: Buffers { sum: vec![0.0; start.len()], point: vec![0.0; start.len()], ..Buffers::default() },
        },
        run: BallAcceleration::new(acceleration, start)?,
    };
    let prepared = Prepared::new(optimizer, rounds);
    if !localized {
        return Ok(prepared);
    }
    Ok(prepared.with_note(DISJOINT_CHUNKS).with("chunks", rounds / per_chunk))
}

/// Ball acceleration over noisy ball solves, chunk after chunk.
struct PracticalResque {
    per_chunk: u64,
    run: BallAcceleration,
    balls: NoisyBalls,
    solution: Vec<f32>,
}

/// The private ball solver: its state between rounds.
struct NoisyBalls {
    rule: Rule,
    samplers: Vec<Sampler>,
    chunks: Vec<Chunk>,
    chunk: usize,
    noise: PrivateNoise,
    key: StreamKey,
    /// Releases so far: the address of the next batch and noise.
    releases: u64,
    /// x_{i−1} of localisation.
    anchor: Vec<f64>,
    buffers: Buffers,
}

/// Constants of a private solve.
#[derive(Clone, Copy)]
struct Rule {
    rate: f64,
    inner: usize,
    clip_norm: f32,
    weight_cap: f64,
    localized: bool,
    smoothing: f64,
}

/// Rows, answers and sums of one round.
#[derive(Default)]
struct Buffers {
    rows: Vec<u32>,
    ends: Vec<usize>,
    /// Of the shifts of margins, output by output.
    normals: Vec<f32>,
    residuals: Vec<f32>,
    sum: Vec<f64>,
    point: Vec<f32>,
}

impl NoisyBalls {
    /// Draws the S batches of a round and the shifts of their margins.
    fn draw(&mut self, outputs: usize) {
        let (buffers, rows) = (&mut self.buffers, &self.chunks[self.chunk].rows);
        let first = rows.start as u32;
        buffers.rows.clear();
        buffers.ends.clear();
        for step in 0..self.rule.inner as u64 {
            match self.samplers[self.chunk].draw(self.releases + step, rows.len()) {
                Selection::Range(range) => buffers.rows.extend(range.map(|row| first + row as u32)),
                Selection::Indices(rows) => buffers.rows.extend(rows.iter().map(|row| first + row)),
            }
            buffers.ends.push(buffers.rows.len());
        }
        let scalars = buffers.rows.len() * outputs;
        buffers.normals.resize(scalars, 0.0);
        buffers.residuals.resize(scalars, 0.0);
        fill_gaussian(&self.key, SHIFTS, self.releases, 1.0, &mut buffers.normals);
    }

    /// Queries the gradients of the round at the centre.
    fn query(&mut self, oracle: &mut Oracle<'_>, centre: &[f64]) -> Result<()> {
        let outputs = oracle.problem().model().outputs;
        let buffers = &mut self.buffers;
        narrow(&mut buffers.point, centre);
        let shifts = Shifts { normals: ByOutput::new(&buffers.normals, outputs), radius: self.rule.smoothing as f32 };
        oracle.record(&Selection::Indices(&buffers.rows), &buffers.point, Some(shifts), &mut buffers.residuals)?;
        Ok(())
    }

    /// The sum of the clipped, reweighted gradients of the rows `start..end` of the round, in `buffers.sum`, and its unit.
    fn clipped_sum(
        &mut self,
        oracle: &mut Oracle<'_>,
        (start, end): (usize, usize),
        offset: &[f32],
    ) -> Result<Option<f64>> {
        let outputs = oracle.problem().model().outputs;
        let Rule { clip_norm, weight_cap: cap, smoothing, .. } = self.rule;
        let buffers = &mut self.buffers;
        let normals = ByOutput::new(&buffers.normals, outputs).from(start);
        let residuals = ByOutput::new(&buffers.residuals, outputs).from(start);
        let weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
            for (row, (position, weight)) in block.positions.clone().zip(weights).enumerate() {
                let row_norm = f64::from(block.row_norm(row));
                let (mut exponent, mut squared_residual) = (0.0, 0.0);
                for (output, t) in block.offset_margins(row).enumerate() {
                    let one = position..position + 1;
                    if row_norm > 0.0 {
                        let u = f64::from(t) / (smoothing * row_norm);
                        exponent += u * (f64::from(normals.of(output, one.clone())[0]) - 0.5 * u);
                    }
                    squared_residual += f64::from(residuals.of(output, one)[0]).powi(2);
                }
                *weight = clipped_factor(exponent, cap, squared_residual.sqrt() * row_norm, clip_norm);
            }
            Ok::<(), QueryError>(())
        };
        let lattice = oracle.lattice(cap as f32, Clip::l2(clip_norm))?;
        let reweighting = Reweighting { offset, residuals, lattice };
        let selection = Selection::Indices(&buffers.rows[start..end]);
        oracle.recorded_sum(&selection, reweighting, &weigh, &mut buffers.sum)?;
        Ok(lattice.map(|lattice| lattice.unit()))
    }
}

/// [`NoisyBalls`] with the oracle of a round.
struct NoisyOracle<'b, 'o, 'a> {
    balls: &'b mut NoisyBalls,
    oracle: &'o mut Oracle<'a>,
}

/// `min(w, w_max)·min(1, C/(min(w, w_max)·‖g‖))` rounded towards 0: the summand's norm never exceeds C, whatever w is.
fn clipped_factor(log_weight: f64, weight_cap: f64, gradient_norm: f64, clip_norm: f32) -> f32 {
    let weight = log_weight.exp().min(weight_cap);
    let bound = f64::from(clip_norm) * (1.0 - 1e-6);
    let factor = if weight * gradient_norm > bound { bound / gradient_norm } else { weight };
    factor as f32
}

/// A regulariser at the centre and an anchor's (λ_i/2)‖x − x_{i−1}‖², in offsets: their λ and their minimiser.
fn combine(regularizer: Option<&(f64, Vec<f64>)>, centre: &[f64], regularization: f64) -> (f64, Vec<f32>) {
    match regularizer {
        None => (regularization, vec![0.0; centre.len()]),
        Some((extra, anchor)) => {
            let share = extra / (extra + regularization);
            let offset = anchor.iter().zip(centre).map(|(to, from)| (share * (to - from)) as f32);
            (regularization + extra, offset.collect())
        }
    }
}

impl NoisyOracle<'_, '_, '_> {
    /// One round: S batches at one centre, then S noised steps.
    fn solve(&mut self, centre: &[f64], regularization: f64, solution: &mut [f64]) -> Result<()> {
        let Self { balls, oracle } = self;
        let problem = oracle.problem();
        oracle.enter(Phase::Sample);
        balls.draw(problem.model().outputs);
        oracle.enter(Phase::Gradient);
        balls.query(oracle, centre)?;
        let rule = balls.rule;
        let extra = rule.localized.then(|| (balls.chunks[balls.chunk].regularization, balls.anchor.clone()));
        let (curvature, anchor) = combine(extra.as_ref(), centre, regularization + problem.regularization());
        // The problem's own regulariser (λ/2)‖x̄ + v‖² has its minimum at v = −x̄.
        let own = problem.regularization() / curvature;
        let mut offset = vec![0f32; centre.len()];
        solution.fill(0.0);
        let mut total_weight = 0.0;
        let mut start = 0;
        let nominal = rule.rate * balls.chunks[balls.chunk].rows.len() as f64;
        for step in 1..=rule.inner {
            let end = balls.buffers.ends[step - 1];
            oracle.enter(Phase::Gradient);
            let unit = balls.clipped_sum(oracle, (start, end), &offset)?;
            oracle.enter(Phase::Noise);
            balls.noise.add_increment(balls.releases, &mut balls.buffers.sum, unit, oracle.engine())?;
            in_real_numbers(&mut balls.buffers.sum, unit);
            balls.releases += 1;
            oracle.enter(Phase::Update);
            let rate = 2.0 / (curvature * (step + 1) as f64);
            let shrink = 1.0 / (1.0 + rate * curvature);
            for (j, v) in offset.iter_mut().enumerate() {
                let pull = f64::from(anchor[j]) - own * centre[j];
                let moved = f64::from(*v) - rate * balls.buffers.sum[j] / nominal + rate * curvature * pull;
                *v = (moved * shrink) as f32;
            }
            let squared: f64 = offset.iter().map(|&v| f64::from(v).powi(2)).sum();
            if squared > rule.smoothing * rule.smoothing {
                let factor = (rule.smoothing / squared.sqrt()) as f32;
                offset.iter_mut().for_each(|v| *v *= factor);
            }
            let weight = step as f64;
            total_weight += weight;
            add(solution, weight, &offset);
            start = end;
        }
        for v in solution.iter_mut() {
            *v /= total_weight;
        }
        Ok(())
    }
}

impl ProximalOracle for NoisyOracle<'_, '_, '_> {
    fn distance(&mut self, centre: &[f64], regularization: f64) -> Result<f64> {
        let mut solution = vec![0.0; centre.len()];
        self.solve(centre, regularization, &mut solution)?;
        Ok(norm(&solution))
    }

    fn step(&mut self, centre: &[f64], regularization: f64, solution: &mut [f64], proximal: &mut [f64]) -> Result<()> {
        self.solve(centre, regularization, solution)?;
        proximal.copy_from_slice(solution);
        Ok(())
    }
}

impl Optimizer for PracticalResque {
    fn step(&mut self, round: u64, oracle: &mut Oracle<'_>) -> Result<(), StepError> {
        let balls = &mut self.balls;
        self.run.advance(&mut NoisyOracle { balls, oracle })?;
        if (round + 1).is_multiple_of(self.per_chunk) && self.balls.chunk + 1 < self.balls.chunks.len() {
            self.balls.anchor.copy_from_slice(self.run.iterate());
            self.balls.chunk += 1;
            self.run = BallAcceleration::new(self.run.parameters(), self.balls.anchor.clone())?;
        }
        Ok(())
    }

    fn noise(&self) -> Option<&PrivateNoise> {
        Some(&self.balls.noise)
    }

    fn greatest_weight(&self) -> f32 {
        self.balls.rule.weight_cap as f32
    }

    fn solution(&mut self) -> &[f32] {
        narrow(&mut self.solution, self.run.iterate());
        &self.solution
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("releases", &mut self.balls.releases);
        let mut chunk = self.balls.chunk as u64;
        visitor.u64("chunk", &mut chunk);
        self.balls.chunk = chunk as usize;
        visitor.f64s("anchor", &mut self.balls.anchor);
        self.balls.noise.visit_state(visitor);
        self.run.visit_state(visitor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizers::settings::Settings;
    use crate::optimizers::tests::{mean_loss, run};
    use crate::privacy::{Budget, Claim, Mechanism};
    use crate::problem::Problem;
    use crate::problem::synthetic::synthetic_logistic;
    use rounds_kernels::loss::Loss;
    use std::sync::Arc;

    fn problem(rows: usize) -> Problem {
        Problem::new(Arc::new(synthetic_logistic(rows, 5, 3).into_binary().unwrap()), Loss::Logistic, true, 0.0)
            .unwrap()
    }

    fn settings(epsilon: f64, parameters: &[(&str, &str)]) -> Settings {
        let settings = Settings::new(Budget::Target { epsilon, delta: 1e-6 }, StreamKey::Simulation(5));
        parameters.iter().fold(settings, |settings, (name, value)| settings.with(name, value))
    }

    fn loss_after(algorithm: &'static Algorithm, problem: &Problem, settings: &Settings) -> (f64, Prepared, u64) {
        let prepared = || algorithm.prepare(problem, settings).unwrap();
        let (solution, ledger) = run(problem, prepared());
        assert_eq!(ledger.rounds, prepared().rounds);
        (mean_loss(problem, &solution), prepared(), ledger.rounds)
    }

    #[test]
    fn runs_learn_and_claim_what_they_account_for() {
        let problem = problem(4_000);
        let start = std::f64::consts::LN_2;
        for algorithm in [&RESQUE_PRIVATE_ERM, &RESQUE_PRIVATE_SCO] {
            let (loss, prepared, _) = loss_after(algorithm, &problem, &settings(4.0, &[]));
            assert!(loss < start - 0.01, "{}: {loss}", algorithm.id);
            assert_eq!(prepared.privacy.claim, Claim::Simulation);
            // The Rényi accountant's search over orders is exact to rounding only.
            let epsilon = prepared.privacy.epsilon.unwrap();
            assert!(epsilon <= 4.0 * (1.0 + 1e-6), "{epsilon}");
            let planned = prepared.rounds;
            let Some(Mechanism::SubsampledGaussian { steps, .. }) = prepared.mechanism else { panic!() };
            let chunks = if algorithm.id == "resque-private-sco" { 3 } else { 1 };
            assert_eq!(steps as u64 * chunks, planned * 8, "S releases a round");
        }
    }

    #[test]
    fn a_noise_multiplier_runs_as_the_epsilon_that_it_gives() {
        let problem = problem(1_000);
        let solution = |settings: &Settings| {
            let prepared = RESQUE_PRIVATE_SCO.prepare(&problem, settings).unwrap();
            (prepared.privacy.noise_multiplier.unwrap(), run(&problem, prepared).0)
        };
        let target = settings(0.25, &[]);
        let (noise_multiplier, expected) = solution(&target);
        let given = |noise_multiplier| Settings {
            budget: Budget::NoiseMultiplier { noise_multiplier, delta: 1e-6 },
            ..target.clone()
        };
        let (_, found) = solution(&given(noise_multiplier));
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-4 * expected.abs().max(1e-2), "{found} {expected}");
        }
        let refused = RESQUE_PRIVATE_SCO.prepare(&problem, &given(1e12)).err();
        assert!(refused.as_ref().is_some_and(|error| error.to_string().contains("whose ε is above 0")), "{refused:?}");
    }

    #[test]
    fn summands_never_exceed_the_clip_norm() {
        for log_weight in [-50.0, 0.0, 1.0, 700.0, f64::INFINITY] {
            for gradient_norm in [0.0, 1e-30, 0.5, 1.0, 3.0, 1e30] {
                let factor = clipped_factor(log_weight, 2.72, gradient_norm, 1.0);
                assert!(f64::from(factor) * gradient_norm <= 1.0 && factor <= 2.72, "{log_weight} {gradient_norm}");
            }
        }
        // Short gradients keep their weight.
        assert_eq!(clipped_factor(0.5, 2.72, 0.1, 1.0), 0.5f64.exp() as f32);
    }

    #[test]
    fn localisation_refuses_adjacencies_that_move_its_chunks() {
        let settings = settings(1.0, &[]).with("adjacency", Adjacency::AddRemove);
        assert!(RESQUE_PRIVATE_SCO.prepare(&problem(1_000), &settings).is_err());
        let none = Settings::new(Budget::NonPrivate, StreamKey::Simulation(1));
        assert!(RESQUE_PRIVATE_ERM.prepare(&problem(1_000), &none).is_err());
    }
}
