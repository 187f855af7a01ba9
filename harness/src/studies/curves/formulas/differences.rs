//! Lengths of gradient differences and errors of recursive gradients on drawn rows, against what papers 000 and 004 say of them.
//! Populations are those of the worst case: L = M = R = 1, with finitely many distinct rows, so that maxima and means over all
//! examples are exact. Differences are measured before they are clipped, which lessens their variance; Claim 4.2 only where none is.

use anyhow::Context as _;
use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Budget, Settings};
use rounds_algorithms::oracle::Oracle;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::{Adjacency, gdp};
use rounds_algorithms::problem::population::Population;
use rounds_algorithms::state::StateVisitor;
use rounds_algorithms::theory::recursive;
use rounds_algorithms::theory::recursive_risk::{self, Constants};
use rounds_kernels::features::Selection;
use rounds_kernels::linear::{Clip, Point};
use rounds_kernels::random::StreamKey;

use super::{Curves, horizons, looseness};
use crate::experiment::{Configuration, definition};
use crate::statistics::mean;

const RADIUS: f64 = 1.0;
/// L and M.
const UNIT: f64 = 1.0;
const DELTA: f64 = 1e-6;

/// The risk bound that a cell is about.
fn bound_of(cell: &Configuration) -> &str {
    cell.parameters.get("bound").and_then(|value| value.as_str()).unwrap_or("whole")
}

/// The iterate and the recursion of an optimiser.
#[derive(Default)]
struct Seen {
    iterate: Vec<f32>,
    recursion: Vec<f64>,
}

impl StateVisitor for Seen {
    fn u64(&mut self, _: &str, _: &mut u64) {}

    fn f32s(&mut self, name: &str, values: &mut [f32]) {
        if name == "iterate" {
            self.iterate = values.to_vec();
        }
    }

    fn f64s(&mut self, name: &str, values: &mut [f64]) {
        if name == "recursion" {
            self.recursion = values.to_vec();
        }
    }
}

/// The runs of a point: T rounds of B rows with steps 1/β.
struct Runs {
    algorithm: &'static str,
    population: String,
    dimension: usize,
    batch: usize,
    rounds: usize,
    beta: f64,
    budget: Budget,
}

/// Of a run, with Δ_t(d) the difference of example d.
#[derive(Default)]
struct Outcome {
    /// max ‖Δ_t(d)‖ over its scale.
    largest: f64,
    /// max ‖Δ_t(d) − E_d Δ_t(d)‖.
    spread: f64,
    /// max ‖N_t‖/β, where nothing is clipped.
    noise: f64,
    /// Lemma 4.3's bound on max ‖N_t‖·B.
    tree: f64,
    clipped: u64,
    /// `Σ_t Var_d(Δ_t(d))/(B·η_{T−1}²)`. Its mean over draws is E‖g_{T−1} − ∇F(x_{T−1})‖² without noise, the error being a martingale
    /// over η.
    error: f64,
    /// ‖g_{T−1} − ∇F(x_{T−1})‖² itself, which varies more.
    squared_error: f64,
    /// F(x_T) − F*.
    excess: f64,
}

impl Outcome {
    fn largest(outcomes: &[Self], of: impl Fn(&Self) -> f64) -> f64 {
        outcomes.iter().map(of).fold(0.0, f64::max)
    }
}

fn length(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}

impl Runs {
    /// The runs of a cell with T rounds; none where the unaccelerated step B/√n exceeds 1/M, or for a single round, a full batch,
    /// which the tree of noise does not take.
    fn new(cell: &Configuration, rounds: usize) -> anyhow::Result<Option<Self>> {
        let whole = |name| cell.whole(name)?.with_context(|| format!("{}: {name} is missing", cell.key()));
        let (dimension, batch) = (whole("dimension")?, whole("batch")?);
        definition::known("problem", &cell.dataset, &["slope", "valleys"])?;
        let accelerated =
            if bound_of(cell) == "independent" { "accelerated-independent" } else { "accelerated-dp-srg" };
        let (algorithm, beta) = match cell.optional("beta-scale")? {
            Some(scale) => (accelerated, scale * 2.0 * UNIT * rounds as f64),
            None => ("unaccelerated-dp-srg", (rounds as f64 / batch as f64).sqrt()),
        };
        let delta = DELTA;
        // Without ε the noise is a millionth of a difference.
        let budget = match cell.optional("epsilon")? {
            Some(epsilon) => Budget::Target { epsilon, delta },
            None => Budget::NoiseMultiplier { noise_multiplier: 1e-6, delta },
        };
        let runs = Self { algorithm, population: cell.dataset.clone(), dimension, batch, rounds, beta, budget };
        Ok((beta >= UNIT && rounds > 1).then_some(runs))
    }

    /// One run; `scale(t)` is what ‖Δ_t‖ is divided by.
    fn run(&self, draw: u64, scale: impl Fn(usize) -> f64) -> anyhow::Result<Outcome> {
        let key = StreamKey::Simulation(1_000 * self.rounds as u64 + draw);
        let population = match &*self.population {
            "valleys" => Population::valleys(self.dimension, draw),
            _ => Population::slope(self.dimension, 0.01, false, draw).context("too many dimensions")?,
        };
        let problem = population.materialized(self.batch * self.rounds, key.clone());
        // S of [000 Corollary 4.4].
        let clip_norm = 2.0 * recursive::difference_bound(UNIT, UNIT, 2.0 * RADIUS, 0.0);
        let settings = Settings::new(self.budget, key)
            .with("batch-size", self.batch)
            .with("sampling", "fixed")
            .with("clip-norm", clip_norm)
            .with("radius", RADIUS)
            .with("beta", self.beta);
        let prepared = catalog::find(self.algorithm)?.prepare(&problem, &settings)?;
        let mechanism = prepared.mechanism.as_ref().context("no mechanism")?;
        let mu = gdp::mu(mechanism, Adjacency::ZeroOut)?;
        let tree = recursive_risk::tree_error(clip_norm, self.rounds as f64, self.dimension as f64, DELTA, mu);
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        let mut oracle = Oracle::new(&problem, Engine::Sequential);
        let mut outcome = Outcome { tree, ..Outcome::default() };
        let (mut seen, mut sum) = (Seen::default(), vec![0.0; self.dimension]);
        let (mut clean, mut previous) = (sum.clone(), vec![0.0; self.dimension]);
        for t in 0..self.rounds {
            executor.visit_state(&mut seen);
            let (eta, before) = ((t + 1) as f64, t as f64);
            let point = |coefficient: f64, parameters| Point { coefficient: coefficient as f32, parameters };
            let batch = Selection::Range(t * self.batch..(t + 1) * self.batch);
            let (now, then) = (point(eta, &seen.iterate), point(before, &previous));
            oracle.difference_sum(&batch, now, then, Clip::Unbounded, &mut sum)?;
            clean.iter_mut().zip(&sum).for_each(|(clean, sum)| *clean += sum);
            // Differences lie along one coordinate each.
            let derivatives = population.derivatives(&seen.iterate).zip(population.derivatives(&previous));
            let (mut gradient, mut mean) = (vec![0.0; self.dimension], vec![0.0; self.dimension]);
            let differences: Vec<_> = derivatives
                .map(|((share, j, now), (_, _, then))| {
                    let difference = eta * now - before * then;
                    gradient[j] += share * now;
                    mean[j] += share * difference;
                    (share, j, difference)
                })
                .collect();
            let squared = length(&mean).powi(2);
            for (share, j, difference) in differences {
                outcome.largest = outcome.largest.max(difference.abs() / scale(t));
                let centred = (squared - 2.0 * difference * mean[j] + difference * difference).max(0.0);
                outcome.spread = outcome.spread.max(centred.sqrt());
                outcome.error += share * centred / (self.batch * self.rounds * self.rounds) as f64;
            }
            let per_row = 1.0 / (eta * self.batch as f64);
            let errors = clean.iter().zip(&gradient).map(|(clean, gradient)| clean * per_row - gradient);
            outcome.squared_error = errors.map(|error| error * error).sum();
            previous.clone_from(&seen.iterate);
            executor.advance()?;
            executor.visit_state(&mut seen);
            let noise: Vec<f64> = seen.recursion.iter().zip(&clean).map(|(noisy, clean)| noisy - clean).collect();
            outcome.noise = outcome.noise.max(length(&noise) / (self.batch as f64 * self.beta));
        }
        outcome.clipped = executor.ledger().clipped;
        outcome.excess = population.excess_risk(executor.solution());
        Ok(outcome)
    }

    fn outcomes(&self, cell: &Configuration, scale: impl Fn(usize) -> f64) -> anyhow::Result<Vec<Outcome>> {
        let draws = cell.number("draws")? as u64;
        (0..draws).map(|draw| self.run(draw, &scale)).collect()
    }
}

/// Points of a bound and of what it bounds, by the runs of T rounds.
fn curve(cell: &Configuration, point: impl Fn(&Runs) -> anyhow::Result<(f64, f64)>) -> anyhow::Result<Curves> {
    let mut points = Vec::new();
    for rounds in horizons(cell)? {
        if let Some(runs) = Runs::new(cell, rounds)? {
            let (bound, measured) = point(&runs)?;
            points.push((rounds, bound, measured));
        }
    }
    Ok(looseness(points))
}

/// A bound on ‖Δ_t(d)‖ over the largest of all rounds, examples and draws: Claim 4.2 of paper 000, or its sketch for the
/// unaccelerated recursion.
pub(super) fn largest_looseness(cell: &Configuration, _: &[f64]) -> anyhow::Result<Curves> {
    curve(cell, |runs| {
        let is_sketch = runs.algorithm == "unaccelerated-dp-srg";
        let scale = |t| recursive::unaccelerated_difference(1.0 / runs.beta, t);
        let outcomes = runs.outcomes(cell, |t| if is_sketch { scale(t) } else { 1.0 })?;
        let clipped = outcomes.iter().any(|outcome| outcome.clipped > 0);
        anyhow::ensure!(!clipped, "{}: a difference is clipped", cell.key());
        if is_sketch {
            return Ok((1.0, Outcome::largest(&outcomes, |outcome| outcome.largest)));
        }
        // The draw with the least ratio.
        let of_draw = |outcome: &Outcome| {
            let bound = recursive::difference_bound(UNIT, UNIT, 2.0 * RADIUS, outcome.noise);
            (bound, outcome.largest)
        };
        let pairs = outcomes.iter().map(of_draw);
        pairs.min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1))).context("no draws")
    })
}

/// A bound on E‖g_{T−1} − ∇F(x_{T−1})‖² over it, by the draws: that of the proof of Theorem 4.7 of paper 000, with the largest
/// centred difference as Q, or tB/n for the unaccelerated recursion.
pub(super) fn error_looseness(cell: &Configuration, _: &[f64]) -> anyhow::Result<Curves> {
    curve(cell, |runs| {
        let outcomes = runs.outcomes(cell, |_| 1.0)?;
        let errors: Vec<f64> = outcomes.iter().map(|outcome| outcome.error).collect();
        let bound = if runs.algorithm == "unaccelerated-dp-srg" {
            recursive::unaccelerated_variance(1.0 / runs.beta, runs.batch, runs.rounds)
        } else {
            let spread = Outcome::largest(&outcomes, |outcome| outcome.spread);
            recursive::recursion_error_bound(spread, runs.batch, runs.rounds - 1)
        };
        Ok((bound, mean(&errors)))
    })
}

/// A bound on the mean excess risk of the accelerated recursion over it, by the draws, with the largest centred difference as Q, the largest
/// noise as b and the diameter as the domain's size: Theorem 4.7 of paper 000, Theorem 4.1 with constants of 1 (`bound = "simplified"`), or of
/// independent gradients Theorem 4.11 (`bound = "independent"`, without noise).
pub(super) fn risk_looseness(cell: &Configuration, _: &[f64]) -> anyhow::Result<Curves> {
    curve(cell, |runs| {
        let outcomes = runs.outcomes(cell, |_| 1.0)?;
        anyhow::ensure!(outcomes.iter().all(|outcome| outcome.clipped == 0), "{}: a difference is clipped", cell.key());
        let spread = Outcome::largest(&outcomes, |outcome| outcome.spread);
        let noise = Outcome::largest(&outcomes, |outcome| outcome.noise);
        let (batch, rounds) = (runs.batch as f64, runs.rounds as f64);
        let run = Constants { smoothness: UNIT, lipschitz: UNIT, size: 2.0 * RADIUS, beta: runs.beta, batch, rounds };
        let bound = match bound_of(cell) {
            "simplified" => recursive_risk::simplified_risk(&run, spread / batch.sqrt(), noise),
            "independent" => recursive_risk::independent_risk(&run, 0.0),
            _ => recursive_risk::recursion_risk(&run, spread, 1.0, |_| UNIT, noise),
        };
        Ok((bound, mean(&outcomes.iter().map(|outcome| outcome.excess).collect::<Vec<_>>())))
    })
}

/// Lemma 4.3 of paper 000, a bound on all errors of the tree's prefix sums with probability 1 − δ, over the largest of all rounds and draws.
pub(super) fn tree_looseness(cell: &Configuration, _: &[f64]) -> anyhow::Result<Curves> {
    curve(cell, |runs| {
        let outcomes = runs.outcomes(cell, |_| 1.0)?;
        let scale = runs.batch as f64 * runs.beta;
        Ok((outcomes[0].tree, scale * Outcome::largest(&outcomes, |outcome| outcome.noise)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(algorithm: &'static str, population: &str) -> Runs {
        Runs {
            algorithm,
            population: population.to_owned(),
            dimension: 40,
            batch: 4,
            rounds: 12,
            beta: 24.0,
            budget: Budget::Target { epsilon: 10.0, delta: 1e-6 },
        }
    }

    #[test]
    fn the_variances_of_differences_add_up_to_the_squared_error_of_the_recursion() {
        for algorithm in ["accelerated-dp-srg", "unaccelerated-dp-srg"] {
            for population in ["valleys", "slope"] {
                let runs = runs(algorithm, population);
                let differences = (0..200).map(|draw| {
                    let outcome = runs.run(draw, |_| 1.0).unwrap();
                    outcome.squared_error / outcome.error - 1.0
                });
                let differences: Vec<f64> = differences.collect();
                let mean = mean(&differences);
                let squares = differences.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
                let error = (squares / 199.0 / 200.0).sqrt();
                // 4.9 standard errors: α = 1e-6.
                assert!(mean.abs() < 4.9 * error && error < 0.1, "{algorithm} {population}: {mean} ± {error}");
            }
        }
    }

    #[test]
    fn bounds_are_attained_by_linear_losses_as_far_as_they_can_be() {
        let runs = runs("accelerated-dp-srg", "slope");
        let outcome = runs.run(1, |_| 1.0).unwrap();
        // ‖Δ_t(d)‖ = L, and the variance of differences is nearly L² in every round.
        assert!((outcome.largest - 1.0).abs() < 1e-5 && outcome.noise > 0.0);
        let ratio = recursive::recursion_error_bound(outcome.spread, runs.batch, runs.rounds - 1) / outcome.error;
        assert!((1.0..1.2).contains(&ratio), "{ratio}");
    }
}
