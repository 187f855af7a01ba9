//! The privacy loss distribution of a mechanism: composed numerically, with every error on the safe side.
//!
//! Each step is replaced by a dominating pair (P, Q) on a grid of losses (`grid`); compositions are convolutions, taken by
//! FFT under an exponential tilt (`composition`). The two directions of the subsampled Gaussian, removal and addition, are
//! composed separately and the larger δ counts. Truncated tails, wrap-around and the rounding of the transforms enter the
//! result as mass at +∞ or its equivalent, so that ε is an upper bound; merged buckets give a lower bound beside it.
//!
//! The grid's interval Δ raises ε by about T·Δ²(λ + 1)/12 with λ the tilt. By default it is chosen so that this is 1e-5 of ε.

#![expect(clippy::cast_possible_wrap, reason = "grid indices are at most MOST_CELLS, and cast from usize to i64")]

mod allocation;
mod composition;
mod directions;
mod grid;
mod pair;
mod step;

use std::sync::OnceLock;

use composition::{Bound, Composed, Located, Plan};
use directions::Direction;
pub use grid::MOST_CELLS;
use grid::{GridLoss, Tails};
use pair::{Pair, Sample};
use step::Step;

use super::accountant::Accountant;
use super::accounting::Precision;
use super::error::{self, PrivacyError};
use super::gaussian;
use super::mechanism::Mechanism;
use super::rdp::RenyiCurve;
use super::search;
use super::zcdp::log_conversion;
use crate::problem::adjacency::Adjacency;

/// Most steps that are composed: 2^40, with 12 bits left of a double.
const MOST_STEPS: f64 = 1e12;
/// Widest range of a step's losses: quadrature takes panels of 0.25, which is some minutes.
const WIDEST_STEP: f64 = 1e7;
/// Widest interval Δ that is given: e^Δ is finite.
const WIDEST_INTERVAL: f64 = 700.0;
/// Error of ε by discretisation, relative, that the automatic interval aims at.
pub const RELATIVE_ACCURACY: f64 = 1e-5;
/// Rough grids are so much coarser.
const ROUGHER: f64 = 10.0;
/// Truncated mass, relative to δ.
const TRUNCATION: f64 = 1e-8;
/// The same of laws that are computed, whose widths grow with it.
const LAW_TRUNCATION: f64 = 1e-5;
/// δ that such laws are computed for where δ is what is asked for.
const SMALL_DELTA: f64 = 1e-6;
/// ln of the reciprocal of the tilted mass that a window may leave outside, each side.
const LOG_WINDOW: f64 = 28.0;
/// Most λ·Δ of a given interval Δ: masses of neighbouring cells keep their digits beside each other.
const MOST_TILT: f64 = 30.0;
/// Most λ·Δ of any interval: e^{−λΔ} is above 0, or what lies above a loss vanishes.
const STEEPEST: f64 = 300.0;
/// λ is searched over its logarithm in this range.
const LOG_LAMBDA: (f64, f64) = (-12.0, 28.0);

/// ε from below and above.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// At most the true value of the composed pairs; none where all steps are laws that are computed from above alone.
    pub lower: Option<f64>,
    /// At least the true value.
    pub upper: f64,
}

/// The spacing of the grid of losses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Interval {
    /// From the accuracy, as coarse as [`MOST_CELLS`] makes it.
    Automatic,
    /// From this relative accuracy of ε, or an error.
    Accuracy(f64),
    /// Given.
    Fixed(f64),
}

/// The privacy loss of a whole mechanism under an adjacency.
#[derive(Debug, Clone)]
pub struct PrivacyLoss {
    directions: Vec<Direction>,
    interval: Interval,
    /// The ways of the directions, with their laws, for questions about δ.
    laws: OnceLock<Vec<Vec<Direction>>>,
    /// Of batches that are cut, whose pair is loose where many are.
    renyi: Option<RenyiCurve>,
    /// On coarse grids, for searches.
    is_rough: bool,
}

impl PrivacyLoss {
    /// The privacy loss of `mechanism`: Gaussian (any kind), Gaussian on Poisson batches, cut or not, and by random allocation, with noise of
    /// few bands too, Laplace, with Poisson batches too, and compositions of them.
    ///
    /// # Errors
    /// [`PrivacyError::RefusedAccountant`] for Gaussian noise on batches without replacement, for which no dominating pair is
    /// used here, and whatever [`Mechanism::check`] finds.
    pub fn new(mechanism: &Mechanism, adjacency: Adjacency) -> Result<Self, PrivacyError> {
        mechanism.check(adjacency)?;
        let directions = directions::directions(mechanism, adjacency).map_err(|step| {
            let reason = "no dominating pair is established for its sampler; use rdp";
            error::refused(Accountant::Pld, step.name(), reason)
        })?;
        let is_cut = directions.iter().flatten().any(|(step, _)| matches!(step, Step::Either { .. }));
        let renyi = is_cut.then(|| RenyiCurve::new(mechanism, adjacency)).transpose()?;
        Ok(Self { directions, interval: Interval::Automatic, laws: OnceLock::new(), renyi, is_rough: false })
    }

    /// The same so closely: roughly on grids that are ten times as coarse.
    pub(super) fn computed_to(self, precision: Precision) -> Self {
        Self { is_rough: self.is_rough || precision == Precision::Rough, ..self }
    }

    /// The same on a grid of the given spacing of losses.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless it is positive, and at most 700: a wider one says nothing, and takes panels without end.
    pub fn with_interval(mut self, interval: f64) -> Result<Self, PrivacyError> {
        let remedy = "it is the spacing of the grid of losses, for instance 1e-4";
        let valid = interval > 0.0 && interval <= WIDEST_INTERVAL;
        error::checked(interval, valid, "the discretization", "above 0 and at most 700", remedy)?;
        self.interval = Interval::Fixed(interval);
        Ok(self)
    }

    /// The same on a grid chosen for a relative accuracy of ε. From a thousandth on laws that are computed are rough.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless it is positive, and at most 1.
    pub fn with_relative_accuracy(mut self, accuracy: f64) -> Result<Self, PrivacyError> {
        let valid = accuracy > 0.0 && accuracy <= 1.0;
        error::checked(accuracy, valid, "the relative accuracy", "above 0 and at most 1", "for instance 1e-4")?;
        self.interval = Interval::Accuracy(accuracy);
        self.is_rough = accuracy >= 1e-3;
        Ok(self)
    }

    /// An upper bound on the ε at δ, at most about 1e-5 relative above the truth by default. Random allocation: 1e-4 from σ = 0.6 on, of whole
    /// epochs; with less noise, or few rounds of an epoch, its transforms lose digits, and a whole epoch, or no amplification, may have less.
    /// Truncated batches: the lesser of this and the Rényi bound.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless δ ∈ (0, 1); [`PrivacyError::TooFineDiscretization`] and
    /// [`PrivacyError::Resolution`] or [`PrivacyError::WideLosses`] if the grid, δ or the noise is out of numerical reach.
    pub fn epsilon(&self, delta: f64) -> Result<f64, PrivacyError> {
        error::delta(delta)?;
        let mut largest = 0.0;
        for ways in &self.with_laws(delta, delta) {
            let of = |way: &Direction| {
                if let Some(mu) = gaussian_mu(way).filter(|_| self.has_laws()) {
                    return gaussian::epsilon(delta, mu);
                }
                let target = Target::for_delta(way, delta, self.interval);
                // The Rényi bound of a direction, and that of pure steps, may show that it cannot matter.
                let most = target.renyi_epsilon(way).min(Target::pure_epsilon(way));
                if most <= largest {
                    return Ok(most);
                }
                if largest > 0.0
                    && let Some(rough) = self.rough_epsilon(way, &target).filter(|&rough| rough <= largest)
                {
                    return Ok(rough);
                }
                Ok(self.direction_epsilon(way, &target, Bound::Upper)?.min(most))
            };
            largest = f64::max(largest, least(ways.iter().map(of), f64::min)?);
        }
        let renyi = self.renyi.as_ref().map(|curve| curve.epsilon(delta)).transpose()?;
        Ok(renyi.map_or(largest, |(most, _)| largest.min(most)))
    }

    /// An upper bound on the δ at ε.
    ///
    /// # Errors
    /// As [`epsilon`](Self::epsilon), with [`PrivacyError::OutOfRange`] unless ε > 0 is finite.
    pub fn delta(&self, epsilon: f64) -> Result<f64, PrivacyError> {
        error::target_epsilon(epsilon)?;
        let mut largest = 0.0;
        for ways in self.laws.get_or_init(|| self.with_laws(SMALL_DELTA, 1.0)) {
            let of = |way: &Direction| match gaussian_mu(way).filter(|_| self.has_laws()) {
                Some(mu) => gaussian::delta(epsilon, mu),
                None => self.direction_delta(way, &Target::for_epsilon(way, epsilon, self.interval)),
            };
            largest = f64::max(largest, least(ways.iter().map(of), f64::min)?);
        }
        Ok(largest)
    }

    /// Upper bounds on the δ at each of these ascending ε ≥ 0, closest to the truth around the ε at `delta` and around an eighth of the
    /// greatest one.
    ///
    /// # Errors
    /// As [`epsilon`](Self::epsilon).
    pub(super) fn profile(&self, epsilons: &[f64], delta: f64) -> Result<Vec<f64>, PrivacyError> {
        let mut profile = vec![0.0_f64; epsilons.len()];
        let most = epsilons.last().copied().unwrap_or(0.0);
        let of = |direction: &Direction| -> Result<Vec<f64>, PrivacyError> {
            if let Some(mu) = gaussian_mu(direction).filter(|_| self.has_laws()) {
                return epsilons.iter().map(|&epsilon| gaussian::delta(epsilon, mu)).collect();
            }
            // A tilt that suits one part of the curve leaves few digits far to its left.
            let near = Target::for_epsilon(direction, 0.125 * most, self.interval);
            let mut least = vec![1.0_f64; epsilons.len()];
            for target in [Target::for_delta(direction, delta, self.interval), near] {
                let window = (target.window.0.min(0.0), target.window.1.max(most));
                let deltas = self.compose(direction, &target, window, Bound::Upper)?.deltas_at(epsilons);
                least.iter_mut().zip(deltas).for_each(|(least, delta)| *least = least.min(delta));
            }
            Ok(least)
        };
        let less = |mut one: Vec<f64>, other: Vec<f64>| {
            one.iter_mut().zip(other).for_each(|(one, other)| *one = one.min(other));
            one
        };
        for ways in &self.with_laws(delta, 1.0) {
            let least = least(ways.iter().map(of), less)?;
            profile.iter_mut().zip(least).for_each(|(most, delta)| *most = most.max(delta));
        }
        Ok(profile)
    }

    /// Lower and upper bounds on the ε at δ of the composed pairs; their gap is the discretisation.
    ///
    /// # Errors
    /// As [`epsilon`](Self::epsilon).
    pub fn epsilon_bounds(&self, delta: f64) -> Result<Bounds, PrivacyError> {
        let upper = self.epsilon(delta)?;
        let is_known = |direction: &&Direction| direction.iter().any(|(step, _)| !matches!(step, Step::Allocation(_)));
        let known = self.directions.iter().filter(is_known).map(|direction| {
            let target = Target::for_delta(direction, delta, self.interval);
            let most = self.rough_epsilon(direction, &target).unwrap_or(f64::INFINITY);
            (most.min(target.renyi_epsilon(direction)), direction, target)
        });
        let mut known: Vec<_> = known.collect();
        known.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
        let mut lower: Option<f64> = None;
        for (most, direction, target) in known {
            let before = lower.unwrap_or(0.0);
            let own = if most > before { self.direction_epsilon(direction, &target, Bound::Lower)? } else { before };
            lower = Some(before.max(own));
        }
        Ok(Bounds { lower, upper })
    }

    /// Some step is a law that is computed.
    fn has_laws(&self) -> bool {
        self.directions.iter().flatten().any(|(step, _)| matches!(step, Step::Allocation(_)))
    }

    /// The directions with the laws that are computed, of which a share of δ is cut, each in every way in which it is known: as it is, unless
    /// as much as `most` of a law came to lie at +∞, with the last epoch finished, and without amplification. Each way dominates.
    fn with_laws(&self, delta: f64, most: f64) -> Vec<Vec<Direction>> {
        let of = |direction: &Direction| {
            if !self.has_laws() {
                return vec![direction.clone()];
            }
            let tail = LAW_TRUNCATION * delta / Target::steps(direction);
            let mut laws: Vec<(Step, Step)> = Vec::new();
            let mut with_laws = |direction: &Direction| -> Direction {
                let law = |(step, count): &(Step, usize)| {
                    let known = laws.iter().find(|(known, _)| known == step).map(|(_, law)| law.clone());
                    let law = known.unwrap_or_else(|| step.with_law(tail, self.is_rough));
                    laws.push((step.clone(), law.clone()));
                    (law, *count)
                };
                direction.iter().map(law).collect()
            };
            let mut ways = vec![with_laws(direction)];
            let finished = directions::finished(direction);
            if finished != *direction {
                ways.push(with_laws(&finished));
            }
            ways.retain(|way| {
                !way.iter().any(|(step, _)| matches!(step, Step::Allocated(_, law) if law.infinity >= most))
            });
            ways.push(unamplified(direction));
            ways
        };
        self.directions.iter().map(of).collect()
    }

    /// An upper bound on a coarse grid, in a tenth of the time, which may show that a direction cannot matter.
    fn rough_epsilon(&self, direction: &Direction, target: &Target) -> Option<f64> {
        let is_asked = !self.is_rough
            && self.interval == Interval::Automatic
            && !direction.iter().any(|(step, _)| matches!(step, Step::Allocation(_)));
        let rough = || Self { is_rough: true, ..self.clone() }.direction_epsilon(direction, target, Bound::Upper).ok();
        is_asked.then(rough).flatten()
    }

    fn direction_epsilon(&self, direction: &Direction, target: &Target, bound: Bound) -> Result<f64, PrivacyError> {
        let mut window = target.window;
        loop {
            let composed = self.compose(direction, target, window, bound)?;
            match composed.epsilon(target.delta) {
                Located::At(epsilon) => return Ok(epsilon.max(0.0)),
                // A window that starts below 0 has shown that δ(0) is small enough.
                Located::Below if window.0 <= 0.0 => return Ok(0.0),
                Located::Below => window.0 = (2.0 * window.0 - window.1).min(0.0),
                Located::Above if bound == Bound::Lower => return Ok(0.0),
                Located::Above => {
                    return Err(PrivacyError::Resolution {
                        accountant: Accountant::Pld,
                        delta: target.delta,
                        resolution: composed.resolution(),
                    });
                }
            }
        }
    }

    fn direction_delta(&self, direction: &Direction, target: &Target) -> Result<f64, PrivacyError> {
        let window = (target.window.0.min(target.epsilon), target.window.1.max(target.epsilon));
        let composed = self.compose(direction, target, window, Bound::Upper)?;
        let found = composed.delta(target.epsilon);
        // Past the largest loss there is only the mass at +∞.
        Ok(found.unwrap_or_else(|| composed.resolution()))
    }

    fn compose(
        &self,
        direction: &Direction,
        target: &Target,
        mut window: (f64, f64),
        bound: Bound,
    ) -> Result<Composed, PrivacyError> {
        let steps = Target::steps(direction);
        // Every step rounds its spectrum to 53 bits.
        if steps > MOST_STEPS {
            let resolution = (steps * f64::EPSILON).min(1.0);
            return Err(PrivacyError::Resolution { accountant: Accountant::Pld, delta: target.delta, resolution });
        }
        let interval = self.choose_interval(direction, target, window, bound)?;
        // Rounding lifts the largest loss of a pure step by up to an interval: no Chernoff bound excludes what is lifted, so
        // that a window which ends near the largest loss of all covers it.
        let lifted = Target::pure_epsilon(direction) + steps * interval;
        let fits = (lifted - window.0) / interval + 8.0 <= MOST_CELLS as f64;
        if fits && window.1 + 2.0 * steps * interval > lifted {
            window.1 = lifted;
        }
        let tails = Target::tails(direction, target.delta);
        let steps: Vec<(GridLoss, usize)> = direction
            .iter()
            .map(|(step, count)| {
                let loss = match bound {
                    Bound::Upper => step.upper(interval, tails),
                    Bound::Lower => step.lower(interval, tails),
                };
                (loss, *count)
            })
            .collect();
        // Under any tilt the result is a bound.
        let lambda = target.lambda.min(STEEPEST / interval);
        let edges = (target.edges.0.min(lambda), target.edges.1);
        Ok(Composed::new(&Plan { steps: &steps, lambda, window, edges, bound }))
    }

    fn choose_interval(
        &self,
        direction: &Direction,
        target: &Target,
        window: (f64, f64),
        bound: Bound,
    ) -> Result<f64, PrivacyError> {
        let tails = Target::tails(direction, target.delta);
        let widest = |interval: f64| {
            let steps = direction.iter().map(|(step, _)| {
                let (first, last) = step.cells(interval, tails);
                last - first
            });
            steps.fold(0.0, f64::max)
        };
        let continuous = direction.iter().filter(|(step, _)| !matches!(step, Step::Pair(Pair::Response { .. })));
        let ranges = continuous.map(|(step, _)| step.cells(1.0, tails)).map(|(first, last)| last - first);
        if let Some(range) = ranges.reduce(f64::max).filter(|&range| range > WIDEST_STEP) {
            return Err(PrivacyError::WideLosses { range, limit: WIDEST_STEP });
        }
        let needed = |interval: f64| widest(interval).max((window.1 - window.0) / interval) + 8.0;
        let (interval, strict) = match self.interval {
            Interval::Fixed(interval) => (interval, true),
            Interval::Accuracy(accuracy) => (target.interval(direction, accuracy), true),
            Interval::Automatic => {
                // Rounding down is of first order where a bucket cannot be cut; a finer grid makes up for it.
                let share = if bound == Bound::Lower { 0.25 } else { 1.0 };
                let share = if self.is_rough { ROUGHER * share } else { share };
                (share * target.interval(direction, RELATIVE_ACCURACY), false)
            }
        };
        let cells = needed(interval);
        if cells <= MOST_CELLS as f64 {
            return Ok(interval);
        }
        let smallest = interval * cells / MOST_CELLS as f64 * 1.001;
        if strict {
            Err(PrivacyError::TooFineDiscretization { interval, cells, limit: MOST_CELLS, smallest })
        } else {
            Ok(smallest)
        }
    }
}

/// μ of a direction that is one Gaussian pair, whose δ has a formula.
fn gaussian_mu(direction: &Direction) -> Option<f64> {
    if let &[(Step::Pair(Pair::Gaussian { mu }), 1)] = &direction[..] { Some(mu) } else { None }
}

/// The same steps with a known round in place of each allocation, by convexity an upper bound: for noise so small that its law is too
/// wide for a grid.
fn unamplified(direction: &Direction) -> Direction {
    let (mut plain, mut mu_squared) = (Vec::new(), 0.0);
    for (step, count) in direction {
        match step {
            Step::Allocation(allocation) => mu_squared += *count as f64 / (allocation.noise * allocation.noise),
            Step::Pair(Pair::Gaussian { mu }) => mu_squared += mu * mu,
            other => plain.push((other.clone(), *count)),
        }
    }
    plain.push((Step::Pair(Pair::Gaussian { mu: f64::sqrt(mu_squared) }), 1));
    plain
}

/// The least of what several ways come to, by `less`; an error where all of them fail.
fn least<T>(found: impl Iterator<Item = Result<T, PrivacyError>>, less: impl Fn(T, T) -> T) -> Result<T, PrivacyError> {
    let least = found.reduce(|one, other| match (one, other) {
        (Ok(one), Ok(other)) => Ok(less(one, other)),
        (Err(_), other) => other,
        (one, Err(_)) => one,
    });
    least.unwrap_or(Err(PrivacyError::EmptyComposition))
}

/// A point of the curve of (ε, δ), found from sampled cumulant functions: the tilt λ, the Rényi values of ε and δ there, and
/// the window of losses. Nothing here is a bound; results computed from it are.
#[derive(Debug)]
struct Target {
    lambda: f64,
    epsilon: f64,
    delta: f64,
    window: (f64, f64),
    edges: (f64, f64),
}

/// The steps of a direction as samples.
type Samples = Vec<(Sample, f64)>;

impl Target {
    fn samples(direction: &Direction, tails: Tails) -> Samples {
        direction.iter().map(|(step, count)| (step.sample(tails), *count as f64)).collect()
    }

    fn cumulant(samples: &Samples, lambda: f64) -> f64 {
        let cumulants = samples.iter().map(|(sample, count)| count * sample.cumulant(lambda));
        cumulants.sum()
    }

    /// Steps in all.
    fn steps(direction: &Direction) -> f64 {
        direction.iter().map(|&(_, count)| count as f64).sum()
    }

    /// Σ ε of pure steps: no loss is larger. Infinite where a step is not pure.
    fn pure_epsilon(direction: &Direction) -> f64 {
        let most =
            |(step, count): &(Step, usize)| step.largest_atom().map_or(f64::INFINITY, |most| most * *count as f64);
        direction.iter().map(most).sum()
    }

    /// True if a law was computed, of which the largest loss is finite but for what was cut.
    fn is_computed(direction: &Direction) -> bool {
        direction.iter().any(|(step, _)| matches!(step, Step::Allocated(..)))
    }

    /// λ, for a given Δ 30/Δ at most; of pure steps and computed laws the largest one that leaves λ·Δ about 1. Below the mass
    /// of the largest loss of pure steps the best λ grows like 1/δ, as ε comes within δ of that loss; there the accuracy of
    /// the grid asks for no more than this one, and e^{−λΔ} must not vanish, or δ vanishes with it.
    fn limited(lambda: f64, direction: &Direction, epsilon: f64, interval: Interval) -> f64 {
        let is_free = Self::pure_epsilon(direction) == f64::INFINITY && !Self::is_computed(direction);
        if is_free && !matches!(interval, Interval::Fixed(_)) {
            return lambda;
        }
        let most = |accuracy: f64| Self::steps(direction) / (12.0 * accuracy * epsilon.max(f64::MIN_POSITIVE));
        lambda.min(match interval {
            Interval::Fixed(interval) => MOST_TILT / interval,
            Interval::Accuracy(accuracy) => most(accuracy).max(1.0),
            Interval::Automatic => most(RELATIVE_ACCURACY).max(1.0),
        })
    }

    fn for_delta(direction: &Direction, delta: f64, interval: Interval) -> Self {
        let samples = Self::samples(direction, Self::tails(direction, delta));
        let log_delta = delta.ln();
        let at = |log_lambda: f64| {
            let lambda = log_lambda.exp();
            (Self::cumulant(&samples, lambda) + log_conversion(lambda) - log_delta) / lambda
        };
        let (log_lambda, epsilon) = search::minimize(at, LOG_LAMBDA.0, LOG_LAMBDA.1, 1e-9);
        let lambda = Self::limited(log_lambda.exp(), direction, epsilon, interval);
        Self::around(&samples, lambda, epsilon, delta)
    }

    fn for_epsilon(direction: &Direction, epsilon: f64, interval: Interval) -> Self {
        // The first pass finds the size of δ, the second the tilt with the tails that fit it.
        let mut delta = f64::MIN_POSITIVE;
        let mut lambda = 1.0;
        let mut samples = Samples::new();
        for _ in 0..2 {
            samples = Self::samples(direction, Self::tails(direction, delta));
            let at = |log_lambda: f64| {
                let lambda = log_lambda.exp();
                Self::cumulant(&samples, lambda) - lambda * epsilon + log_conversion(lambda)
            };
            let (log_lambda, log_delta) = search::minimize(at, LOG_LAMBDA.0, LOG_LAMBDA.1, 1e-9);
            (lambda, delta) = (log_lambda.exp(), log_delta.min(0.0).exp().max(f64::MIN_POSITIVE));
        }
        let lambda = Self::limited(lambda, direction, epsilon, interval);
        Self::around(&samples, lambda, epsilon, delta)
    }

    /// The window that holds all but e^{−28} of the tilted law on either side, by Chernoff's inequality.
    fn around(samples: &Samples, lambda: f64, epsilon: f64, delta: f64) -> Self {
        let at_lambda = Self::cumulant(samples, lambda);
        // Below: θ = λ·s with s ∈ (0, 1). Above: θ = λ(1 + s).
        let below = |share: f64| {
            let gap = lambda * (1.0 - share);
            (Self::cumulant(samples, lambda * share) - at_lambda + LOG_WINDOW) / gap
        };
        let above = |log_share: f64| {
            let gap = lambda * log_share.exp();
            (Self::cumulant(samples, lambda + gap) - at_lambda + LOG_WINDOW) / gap
        };
        let (share, low) = search::minimize(below, 0.0, 1.0 - 1e-6, 1e-3);
        let (log_share, high) = search::minimize(above, -12.0, 12.0, 1e-2);
        let edges = (lambda * share, lambda * (1.0 + log_share.exp()));
        Self { lambda, epsilon, delta, window: (-low, high.max(-low)), edges }
    }

    /// The Rényi bound on the ε at δ, of the pairs themselves, at the order λ + 1.
    fn renyi_epsilon(&self, direction: &Direction) -> f64 {
        let cumulants = direction.iter().map(|(step, count)| *count as f64 * step.cumulant(self.lambda));
        let cumulant: f64 = cumulants.sum();
        (cumulant + log_conversion(self.lambda) - self.delta.ln()) / self.lambda
    }

    /// Δ whose error is accuracy·ε: T·Δ²(λ + 1)/12 by splitting mass between neighbours, never more than T·Δ.
    fn interval(&self, direction: &Direction, accuracy: f64) -> f64 {
        let steps = Self::steps(direction);
        let error = accuracy * self.epsilon.max(f64::MIN_POSITIVE);
        // Of heavy tails λ is less than the slope of ln δ, which is that of a Gaussian or more.
        let slope = if Self::is_computed(direction) {
            -4.0 * self.delta.ln() / self.epsilon.max(f64::MIN_POSITIVE)
        } else {
            0.0
        };
        (12.0 * error / (steps * (self.lambda.max(slope) + 1.0))).sqrt().max(error / steps)
    }

    fn tails(direction: &Direction, delta: f64) -> Tails {
        let steps = Self::steps(direction);
        Tails { lower: 1e-13 / steps, upper: (TRUNCATION * delta / steps).max(f64::MIN_POSITIVE) }
    }
}

#[cfg(test)]
mod sampler_tests;
#[cfg(test)]
mod tests;
