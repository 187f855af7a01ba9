//! Selection among a random number of trials: what the best of them costs (Papernot and Steinke 2022, arXiv 2110.03620; Koskela,
//! Redberg and Wang 2024, arXiv 2402.06701).
//!
//! A trial Q draws settings, trains, and scores; its output holds all three, so that **the score is part of the mechanism**. K is
//! drawn from a law that does not depend on the rows, Q is run K times with fresh randomness, and the output with the best score is
//! released: A. Of equal scores the first wins, which has the law of a winner drawn among them, since trials are exchangeable. A trial
//! that fails is an output with the lowest score. K, the losers, and every score stay secret.
//!
//! With f(x) = E[x^K], and q(y) the probability under Q of an output that is worse than y, A has density `Q(y)·f′(q(y))`. Its slope
//!
//! | law | f′(1 − u) = w(u) |
//! | --- | --- |
//! | truncated negative binomial, η > −1, 0 < γ < 1 | `E[K]·(γ/(γ + (1 − γ)u))^{1 + η}`, E\[K\] = η(1 − γ)/(γ(1 − γ^η)), η → 0: (1/γ − 1)/ln(1/γ) |
//! | Poisson of mean m, nothing is released where K = 0 | `m·e^{−mu}` |
//!
//! falls with u. Three bounds follow, each for every mechanism Q with these Rényi divergences ρ(α) and this profile δ(ε), and the least
//! is taken:
//!
//! * **Rényi**, Theorem 2 there: `ρ_A(α) = ρ(α) + (1 + η)(1 − 1/α̂)ρ(α̂) + (1 + η)ln(1/γ)/α̂ + ln E[K]/(α − 1)` for every α > 1, α̂ ≥ 1.
//!   Poisson, Theorem 6: `ρ_A(α) = ρ(α) + m·δ(ε̂) + ln m/(α − 1)` with `e^ε̂ = α/(α − 1)`.
//! * **Profile**: `δ_A(ε₁ + (1 + η)·ln(e^ε̂ + ((1 − γ)/γ)·δ(ε̂))) ≤ E[K]·δ(ε₁)` for every ε̂ ≥ 0. Poisson:
//!   `δ_A(ε₁ + m(e^ε̂ − 1 + δ(ε̂))) ≤ m·δ(ε₁)`.
//! * **Trade-off**, never above the profile's: see [`Envelope`].
//!
//! A trial whose settings are drawn has at most the greatest ρ(α) and δ(ε) of all settings, at each α and ε: its output names them, and
//! δ is a mean over them, e^{(α−1)ρ} likewise.
//!
//! **Numerics.** K is drawn by [`TrialCount::hazards`]. Each is off by a factor of 1 ± 1.1·10⁻⁸ at most (five roundings for each of (90 + 10η)/γ ≤ 1.9·10⁷),
//! so that P\[K = k\] is off by one of 1 ± 1.3·10⁻⁶ while P\[K ≥ k\] ≥ e⁻⁶⁰. A's density is off by that factor, which [`LAW_ERROR`] adds to ε;
//! the tail is [`LAW_TAIL`] of δ.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::accountant::Accountant;
use super::accounting::{self, Precision};
use super::error::{self, PrivacyError};
use super::mechanism::Mechanism;
use super::rdp::{ORDERS, RenyiCurve};
use super::{gaussian, gdp, pld, search};
use crate::problem::adjacency::Adjacency;

/// Most expected trials.
pub const MOST_TRIALS: f64 = 500.0;
/// The least: closer to 1, γ has too few digits.
const LEAST_TRIALS: f64 = 1.001;
/// Least γ: below, the tail of K is longer than what can be run.
const LEAST_GAMMA: f64 = 1e-5;
/// Added to ε for the rounding of the law of K.
const LAW_ERROR: f64 = 3e-6;
/// Taken from δ for the tail of K: more than (1 + e^ε)·e⁻⁶⁰ up to this ε.
const LAW_TAIL: f64 = 1e-17;
/// Beyond, no ε is claimed.
const MOST_EPSILON: f64 = 20.0;
/// Points of a profile.
const POINTS: usize = 768;
/// Intervals of probabilities of an envelope.
const INTERVALS: usize = 6000;

/// A law of the number of trials, by the name that a person gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrialLaw {
    /// Truncated negative binomial with η > −1: 0 is the logarithmic law, 1 the geometric one.
    NegativeBinomial(f64),
    /// Poisson, where no trial may be drawn.
    Poisson,
}

impl TrialLaw {
    /// The names.
    pub const NAMES: &'static str = "geometric, logarithmic, poisson, or η of a truncated negative binomial";
}

impl FromStr for TrialLaw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "logarithmic" => Ok(Self::NegativeBinomial(0.0)),
            "geometric" => Ok(Self::NegativeBinomial(1.0)),
            "poisson" => Ok(Self::Poisson),
            eta => eta.parse().map(Self::NegativeBinomial).map_err(|_| format!("expected one of {}", Self::NAMES)),
        }
    }
}

impl fmt::Display for TrialLaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NegativeBinomial(0.0) => formatter.write_str("logarithmic"),
            Self::NegativeBinomial(1.0) => formatter.write_str("geometric"),
            Self::NegativeBinomial(eta) => formatter.write_str(&error::brief(eta)),
            Self::Poisson => formatter.write_str("poisson"),
        }
    }
}

/// The law of the number of trials with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialCount {
    /// `P[K = k] ∝ (1 − γ)^k·Π_{j<k} (j + η)/(j + 1)`, k ≥ 1.
    NegativeBinomial {
        /// η > −1.
        eta: f64,
        /// 0 < γ < 1.
        gamma: f64,
    },
    /// `P[K = k] = e^{−m}·m^k/k!`, k ≥ 0.
    Poisson {
        /// m.
        mean: f64,
    },
}

impl TrialCount {
    /// The law with this expected number of trials.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless η > −1 and the mean lies in [1.001, 500]; a tail of K that is too long to run.
    pub fn new(law: TrialLaw, mean: f64) -> Result<Self, PrivacyError> {
        let remedy = "take some 10; a single trial is `train`";
        error::checked(
            mean,
            (LEAST_TRIALS..=MOST_TRIALS).contains(&mean),
            "the expected number of trials",
            "at least 1.001 and at most 500",
            remedy,
        )?;
        let TrialLaw::NegativeBinomial(eta) = law else {
            return Ok(Self::Poisson { mean });
        };
        check_eta(eta)?;
        let excess = |log_gamma: f64| (Self::NegativeBinomial { eta, gamma: log_gamma.exp() }.mean() / mean).ln();
        let least = LEAST_GAMMA.ln();
        let gamma = if excess(least) < 0.0 { LEAST_GAMMA / 2.0 } else { search::root(excess, least, -1e-9).exp() };
        let law = Self::NegativeBinomial { eta, gamma };
        law.check().map(|()| law)
    }

    /// Refuses parameters out of range.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`].
    pub fn check(self) -> Result<(), PrivacyError> {
        match self {
            Self::NegativeBinomial { eta, gamma } => {
                check_eta(eta)?;
                let remedy =
                    "the smaller it is, the longer the tail of the number of trials; raise η, or expect fewer trials";
                error::checked(gamma, (LEAST_GAMMA..1.0).contains(&gamma), "γ", "at least 1e-5 and below 1", remedy)?;
            }
            Self::Poisson { mean } => {
                let valid = mean > 0.0 && mean <= MOST_TRIALS;
                error::checked(mean, valid, "the mean of the Poisson law", "above 0 and at most 500", "take some 10")?;
            }
        }
        Ok(())
    }

    /// E\[K\].
    pub fn mean(self) -> f64 {
        match self {
            Self::NegativeBinomial { eta, gamma } => {
                // η/(1 − γ^η), which is 1/ln(1/γ) at η = 0.
                let log = gamma.ln();
                let norm = if eta == 0.0 { -log } else { -(eta * log).exp_m1() / eta };
                (1.0 - gamma) / gamma / norm
            }
            Self::Poisson { mean } => mean,
        }
    }

    /// The probabilities `P[K = k | K ≥ k]`, from the least k on, and that k; the last one is that of all k beyond.
    ///
    /// Masses are products of k factors, and survivals sums of masses from the smallest on, off by their number of roundings each.
    pub fn hazards(self) -> (Vec<f64>, u64) {
        let (mut mass, first, count): (f64, _, f64) = match self {
            Self::NegativeBinomial { eta, gamma } => {
                let log = gamma.ln();
                let norm = if eta == 0.0 { -log } else { (-eta * log).exp_m1() / eta };
                ((1.0 - gamma) / norm, 1, (90.0 + 10.0 * eta.max(0.0)) / gamma)
            }
            Self::Poisson { mean } => ((-mean).exp(), 0, 2.0 * mean + 12.0 * mean.sqrt() + 120.0),
        };
        let mut masses = Vec::with_capacity(count as usize + 1);
        let mut ratio = 0.0;
        for step in 0..count as u64 {
            masses.push(mass);
            let k = (step + first) as f64;
            ratio = match self {
                Self::NegativeBinomial { eta, gamma } => (1.0 - gamma) * (k + eta) / (k + 1.0),
                Self::Poisson { mean } => mean / (k + 1.0),
            };
            mass *= ratio;
        }
        // What is left has about this ratio of neighbours.
        let mut survival = mass / (1.0 - ratio);
        for mass in masses.iter_mut().rev() {
            survival += *mass;
            *mass = if survival > 0.0 { *mass / survival } else { 1.0 };
        }
        (masses, first)
    }

    /// The profile bound's excess over the ε at which E\[K\] trials have δ, for an ε̂ and δ(ε̂).
    fn slack(self, epsilon: f64, delta: f64) -> f64 {
        match self {
            Self::NegativeBinomial { eta, gamma } => (1.0 + eta) * (epsilon.exp() + (1.0 - gamma) / gamma * delta).ln(),
            Self::Poisson { mean } => mean * (epsilon.exp_m1() + delta),
        }
    }

    /// ln w(u).
    fn log_slope(self, u: f64) -> f64 {
        match self {
            Self::NegativeBinomial { eta, gamma } => {
                self.mean().ln() - (1.0 + eta) * ((1.0 - gamma) / gamma * u).ln_1p()
            }
            Self::Poisson { mean } => mean.ln() - mean * u,
        }
    }
}

fn check_eta(eta: f64) -> Result<(), PrivacyError> {
    // Between, η·ln γ has no digits.
    let valid = eta > -1.0 && eta <= 10.0 && (eta == 0.0 || eta.abs() >= 1e-9);
    let remedy = "0 is the logarithmic law, 1 the geometric one";
    error::checked(eta, valid, "η", "above −1, at most 10, and 0 or at least 1e-9 from it", remedy).map(drop)
}

impl fmt::Display for TrialCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeBinomial { eta, gamma } => {
                write!(formatter, "truncated negative binomial, η = {eta}, γ = {gamma}")
            }
            Self::Poisson { mean } => write!(formatter, "Poisson, mean {mean}"),
        }
    }
}

/// The bound that gives a selection's ε.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Of Rényi divergences.
    Renyi,
    /// Of the profile.
    Profile,
    /// Of the trade-off that the profile implies.
    TradeOff,
}

/// The statement of a selection: with relation and δ, ε follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelectionStatement {
    /// The law of the number of trials.
    pub trials: TrialCount,
    /// Its mean.
    pub expected_trials: f64,
    /// SHA-256 of the grid that settings are drawn from.
    pub grid_sha256: String,
    /// The score in words.
    pub score: String,
    /// SHA-256 of the file of declared public rows that scores are of; none where they are paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_sha256: Option<String>,
    /// ε of a trial's training at `trial_delta`, to which its noise is calibrated.
    pub trial_epsilon: f64,
    /// δ/E\[K\].
    pub trial_delta: f64,
    /// The mechanisms of a trial, one for each kind of noise and sampling in the grid, score included.
    pub mechanisms: Vec<Mechanism>,
    /// The bound that gives ε.
    pub bound: Bound,
}

/// Upper bounds on δ(ε) of a trial at equal steps of ε; δ is convex in e^ε, so that chords are upper bounds between them.
struct Profile {
    step: f64,
    deltas: Vec<f64>,
}

impl Profile {
    /// The greatest profile of these mechanisms; `None` where one has no profile but that of Rényi divergences.
    fn of(
        precision: Precision,
        trials: &[(Mechanism, RenyiCurve)],
        adjacency: Adjacency,
        delta: f64,
    ) -> Result<Option<Self>, PrivacyError> {
        let mut most = 0.0_f64;
        for (_, curve) in trials {
            most = most.max(curve.epsilon(1e-3 * delta)?.0);
        }
        let step = most.max(1e-9) / (POINTS - 1) as f64;
        let epsilons: Vec<f64> = (0..POINTS).map(|point| point as f64 * step).collect();
        let mut deltas = vec![0.0_f64; POINTS];
        for (mechanism, _) in trials {
            let own = match Accountant::default_for(mechanism) {
                Accountant::Gdp => {
                    let mu = gdp::mu(mechanism, adjacency)?;
                    epsilons.iter().map(|&epsilon| gaussian::delta(epsilon, mu)).collect::<Result<_, _>>()?
                }
                Accountant::Rdp => return Ok(None),
                _ => {
                    let loss = pld::PrivacyLoss::new(mechanism, adjacency)?;
                    loss.computed_to(precision).profile(&epsilons, delta)?
                }
            };
            deltas.iter_mut().zip(own).for_each(|(most, own): (_, f64)| *most = most.max(own));
        }
        Ok(Some(Self { step, deltas }))
    }

    /// ε of a point.
    fn epsilon(&self, point: usize) -> f64 {
        self.step * point as f64
    }

    /// δ(ε), from above; 1 below 0.
    fn delta(&self, epsilon: f64) -> f64 {
        if epsilon < 0.0 {
            return 1.0;
        }
        let point = (epsilon / self.step) as usize;
        let (Some(left), Some(right)) = (self.deltas.get(point), self.deltas.get(point + 1)) else {
            return self.deltas[POINTS - 1];
        };
        let share = (epsilon - self.epsilon(point)).exp_m1() / self.step.exp_m1();
        left + share.clamp(0.0, 1.0) * (right - left)
    }

    /// The least ε up to `most` at which `bound` is at most `delta`; `bound` does not rise.
    fn invert(most: f64, delta: f64, bound: impl Fn(f64) -> f64) -> f64 {
        if bound(most) > delta {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (0.0, most);
        while high - low > 1e-10 * most {
            let middle = 0.5 * (low + high);
            if bound(middle) <= delta {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}

/// The trade-off bound. For neighbours, Q(E) = u gives `Q′(E) ≤ F(u) = min_ε min(e^ε·u + δ(ε), 1 − e^{−ε}(1 − u − δ(ε)))` for every
/// event, that of an output no worse than y among them. With z = Q′(y)/Q(y) and u = 1 − q(y), w falling,
///
/// ```text
/// A(y) − e^ε·A′(y) ≤ Q(y)·(w(u) − e^ε·z·w(F(u))) ≤ Q(y)·φ(e^ε·z),    φ(z) = max(0, max_u w(u) − w(F(u))·z).
/// ```
///
/// φ is convex and piecewise linear; with its corners z_j and the lines a_j − b_j·z between them, `φ(z) = Σ_j (b_j − b_{j+1})(z_j − z)₊`,
/// and the mean of `(z_j − e^ε·z)₊` under Q is z_j·δ(ε − ln z_j). So
///
/// ```text
/// δ_A(ε) ≤ Σ_j (a_j − a_{j+1})·δ(ε − ln z_j),    Σ_j (a_j − a_{j+1}) = E[K].
/// ```
///
/// On an interval of u its line has w at the lower end and w(F) at the upper one, which is above all lines of the interval.
struct Envelope {
    /// (a_j − a_{j+1}, ln z_j).
    corners: Vec<(f64, f64)>,
}

impl Envelope {
    fn new(count: TrialCount, profile: &Profile) -> Self {
        // w changes over u of this size.
        let size = match count {
            TrialCount::NegativeBinomial { gamma, .. } => gamma / (1.0 - gamma),
            TrialCount::Poisson { mean } => 1.0 / mean,
        };
        let grow = 1e6_f64.powf(1.0 / INTERVALS as f64);
        let mut ends = vec![0.0];
        let mut u = 1e-3 * size;
        while u < 1.0 && ends.len() < INTERVALS {
            ends.push(u);
            u *= grow;
        }
        ends.push(1.0);
        let factors: Vec<f64> = (0..POINTS).map(|point| profile.epsilon(point).exp()).collect();
        let above = |point: usize, u: f64| factors[point] * u + profile.deltas[point];
        let below = |point: usize, u: f64| 1.0 - (1.0 - u - profile.deltas[point]) / factors[point];
        // The best ε of both falls, or rises, with u; any is a bound.
        let (mut falling, mut rising) = (POINTS - 1, 0);
        let mut lines: Vec<(f64, f64)> = Vec::new();
        for (&low, &high) in ends.iter().zip(&ends[1..]) {
            while falling > 0 && above(falling - 1, high) <= above(falling, high) {
                falling -= 1;
            }
            while rising < POINTS - 1 && below(rising + 1, high) <= below(rising, high) {
                rising += 1;
            }
            let most = above(falling, high).min(below(rising, high)).clamp(high, 1.0);
            lines.push((count.log_slope(low).exp(), count.log_slope(most).exp()));
        }
        Self { corners: Self::corners(lines) }
    }

    /// Corners of the greatest of the lines a − b·z and 0, z > 0, for lines with falling a and b.
    fn corners(lines: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
        let crossing = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c) / (b - d);
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for line in lines.into_iter().chain([(0.0, 0.0)]) {
            // Of two lines that do not cross the greater one is kept.
            if hull.last().is_some_and(|last| line.1 >= last.1 && line.0 <= last.0) {
                continue;
            }
            while let [.., before, last] = hull[..]
                && crossing(last, line) <= crossing(before, last)
            {
                hull.pop();
            }
            hull.push(line);
        }
        hull.windows(2).map(|pair| (pair[0].0 - pair[1].0, crossing(pair[0], pair[1]).ln())).collect()
    }

    fn delta(&self, profile: &Profile, epsilon: f64) -> f64 {
        self.corners.iter().map(|(share, log)| share * profile.delta(epsilon - log)).sum()
    }
}

/// ε of a selection among trials, each of which is one of these mechanisms, score included: the least of the three bounds, and its name.
/// Infinite above 20.
///
/// ```
/// use rounds_algorithms::privacy::{Adjacency, Mechanism, Sampling, TrialCount, TrialLaw, selection};
///
/// // A release with μ = 0.2, the best of ten: less than ten of them would cost.
/// let trial = Mechanism::Gaussian { noise_multiplier: 5.0, sampling: Sampling::FullBatch, participations: 1 };
/// let count = TrialCount::new(TrialLaw::NegativeBinomial(0.0), 10.0)?;
/// let (epsilon, _) = selection::epsilon(count, &[trial], Adjacency::ZeroOut, 1e-6)?;
/// assert!(epsilon < 1.21);
/// # Ok::<(), rounds_algorithms::privacy::PrivacyError>(())
/// ```
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless δ ∈ (0, 1), and of a law out of range; no mechanism; whatever accountants of a mechanism refuse;
/// a Poisson law where batches are drawn without replacement, whose profile is not known.
pub fn epsilon(
    count: TrialCount,
    trials: &[Mechanism],
    adjacency: Adjacency,
    delta: f64,
) -> Result<(f64, Bound), PrivacyError> {
    epsilon_to(Precision::Exact, count, trials, adjacency, delta)
}

/// [`epsilon`] so closely.
fn epsilon_to(
    precision: Precision,
    count: TrialCount,
    trials: &[Mechanism],
    adjacency: Adjacency,
    delta: f64,
) -> Result<(f64, Bound), PrivacyError> {
    let bounds = bounds(precision, count, trials, adjacency, delta)?;
    let least = bounds.into_iter().min_by(|left, right| left.0.total_cmp(&right.0));
    let (epsilon, bound) = least.ok_or(PrivacyError::EmptyComposition)?;
    Ok((if epsilon <= MOST_EPSILON { epsilon + LAW_ERROR } else { f64::INFINITY }, bound))
}

/// Every bound that there is, for the law as it is written.
fn bounds(
    precision: Precision,
    count: TrialCount,
    trials: &[Mechanism],
    adjacency: Adjacency,
    delta: f64,
) -> Result<Vec<(f64, Bound)>, PrivacyError> {
    error::delta(delta)?;
    count.check()?;
    let delta = delta - LAW_TAIL;
    error::checked(delta, delta > 1e3 * LAW_TAIL, "delta", "at least 1e-14", "δ of a selection covers a tail of K")?;
    let curve = |mechanism: &Mechanism| Ok((mechanism.clone(), RenyiCurve::new(mechanism, adjacency)?));
    let trials = trials.iter().map(curve).collect::<Result<Vec<_>, PrivacyError>>()?;
    if trials.is_empty() {
        return Err(PrivacyError::EmptyComposition);
    }
    let mean = count.mean();
    let profile = Profile::of(precision, &trials, adjacency, delta / mean)?;
    let divergence = |order: f64| trials.iter().map(|(_, curve)| curve.divergence_at(order)).fold(0.0, f64::max);
    let conversion = |extra: &dyn Fn(f64) -> f64| {
        let selected = |order: f64| divergence(order) + extra(order) + mean.ln() / (order - 1.0);
        (ORDERS.epsilon(delta, selected).0, Bound::Renyi)
    };
    let renyi = match (count, &profile) {
        (TrialCount::NegativeBinomial { eta, gamma }, _) => {
            let at = |log: f64| {
                let order = 1.0 + log.exp();
                (1.0 + eta) * ((1.0 - 1.0 / order) * divergence(order) - gamma.ln() / order)
            };
            let extra = search::minimize(at, ORDERS.0, ORDERS.1, ORDERS.2).1;
            conversion(&|_| extra)
        }
        (TrialCount::Poisson { mean }, Some(profile)) => {
            conversion(&|order| mean * profile.delta((order / (order - 1.0)).ln()))
        }
        (TrialCount::Poisson { .. }, None) => {
            let reason = "no profile is known where batches are drawn without replacement; take another law of trials";
            return Err(error::refused(Accountant::Pld, trials[0].0.name(), reason));
        }
    };
    let mut bounds = vec![renyi];
    if let Some(profile) = &profile {
        let last = profile.epsilon(POINTS - 1);
        let slack = (0..POINTS).map(|point| count.slack(profile.epsilon(point), profile.deltas[point]));
        let slack = slack.fold(f64::INFINITY, f64::min);
        let alone = Profile::invert(last, delta, |epsilon| mean * profile.delta(epsilon));
        bounds.push((alone + slack, Bound::Profile));
        let envelope = Envelope::new(count, profile);
        let most = (alone + slack).min(100.0);
        bounds.push((Profile::invert(most, delta, |epsilon| envelope.delta(profile, epsilon)), Bound::TradeOff));
    }
    Ok(bounds)
}

/// [`epsilon`] for a search to begin with: another upper bound, some thousandths above where it takes long.
///
/// # Errors
/// As there.
pub fn rough_epsilon(
    count: TrialCount,
    trials: &[Mechanism],
    adjacency: Adjacency,
    delta: f64,
) -> Result<f64, PrivacyError> {
    Ok(epsilon_to(Precision::Rough, count, trials, adjacency, delta)?.0)
}

/// [`trial_epsilon`] of a cost that takes long to compute, from an ε near it where one is known; what fails from there is searched as without.
///
/// # Errors
/// As there.
pub fn trial_epsilon_near<E: From<PrivacyError>>(
    (epsilon, delta): (f64, f64),
    near: Option<f64>,
    cost: impl Fn(f64) -> Result<f64, E>,
) -> Result<f64, E> {
    let excess = |trial: f64| Ok::<_, E>((cost(trial)? / epsilon).ln().clamp(-100.0, 100.0));
    let from = |mut near: f64| {
        // A selection costs nearly in proportion to its trials: two steps are enough from near.
        for _ in 0..4 {
            let excess = excess(near)?;
            if (-1e-4..=0.0).contains(&excess) || (near == epsilon && excess <= 0.0) {
                return Ok(Some(near));
            }
            near = (near * (-excess - 5e-5).clamp(-1.0, 1.0).exp()).min(epsilon);
        }
        // The least ε of trials that costs too much lies between.
        let bracket = accounting::bracket_target(|trial| Ok::<_, E>(-excess(trial)?), near, 1.0005)?;
        let Ok((lower, upper)) = bracket else { return Ok(None) };
        let bracket = search::bracket_root(excess, lower, upper, 1e-4)?;
        Ok::<_, E>(Some(if bracket.at_root <= 0.0 { bracket.root } else { bracket.opposite }))
    };
    match near.map(|near| from(near.min(epsilon))) {
        Some(Ok(Some(found))) => Ok(found),
        _ => trial_epsilon(epsilon, delta, cost),
    }
}

/// The ε of a trial for which a selection costs at most `epsilon`, to 10⁻⁴ of it: `cost` gives a selection's ε for a trial's.
///
/// # Errors
/// [`PrivacyError::Unreachable`] where trials of ε/4096 cost more, and those of `cost`.
pub fn trial_epsilon<E: From<PrivacyError>>(
    epsilon: f64,
    delta: f64,
    cost: impl Fn(f64) -> Result<f64, E>,
) -> Result<f64, E> {
    error::target_epsilon(epsilon)?;
    let remedy = "beyond it no bound is computed; lower it";
    error::checked(epsilon, epsilon <= MOST_EPSILON, "epsilon of a selection", "at most 20", remedy)?;
    let excess = |log: f64| Ok::<_, E>((cost(log.exp())? / epsilon).ln().clamp(-100.0, 100.0));
    let (mut lower, mut upper) = ((epsilon / 4.0).ln(), epsilon.ln());
    let mut at_lower = excess(lower)?;
    let mut is_beyond = false;
    while at_lower > 0.0 {
        if lower < (epsilon / 4000.0).ln() {
            let closest = epsilon * at_lower.exp();
            return Err(
                PrivacyError::Unreachable { epsilon, delta, lowest: 0.0, highest: f64::INFINITY, closest }.into()
            );
        }
        (upper, lower, is_beyond) = (lower, lower - 4_f64.ln(), true);
        at_lower = excess(lower)?;
    }
    // The upper end is one that was tried, but for the first.
    if !is_beyond && excess(upper)? <= 0.0 {
        return Ok(upper.exp());
    }
    let bracket = search::bracket_root(excess, lower, upper, 1e-4 / lower.abs().max(upper.abs()).max(1.0))?;
    Ok(if bracket.at_root <= 0.0 { bracket.root } else { bracket.opposite }.exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::{gaussian, laplace, poisson, subsampled, without_replacement};
    use crate::privacy::{Sampling, calibrate};

    const ZERO_OUT: Adjacency = Adjacency::ZeroOut;

    fn law(eta: f64, mean: f64) -> TrialCount {
        TrialCount::new(TrialLaw::NegativeBinomial(eta), mean).unwrap()
    }

    fn of(bounds: &[(f64, Bound)], bound: Bound) -> f64 {
        bounds.iter().find(|found| found.1 == bound).unwrap().0
    }

    /// Values of a reference in Python with its own distributions. Those of Rényi divergences are dp-accounting's (0.6.0) on its grid of
    /// orders, below which all orders may lie by as much as the grid costs. Direct integration gives the loss of a selection whose score
    /// is the likelihood ratio itself, below which no bound may lie.
    #[test]
    fn bounds_are_those_of_the_papers_from_above_and_none_is_below_a_worst_selection() {
        for (mu, eta, mean, delta, renyi, profile, exact) in [
            (0.2, 1.0, 10.0, 1e-6, 1.813_567, 1.580_884, 0.931_763),
            (0.2, 0.0, 10.0, 1e-6, 1.513_252, 1.374_113, 0.931_748),
            (0.2, 0.5, 30.0, 1e-6, 1.852_535, 1.678_793, 0.975_314),
            (0.5, 1.0, 20.0, 1e-5, 4.688_217, 4.157_165, 2.327_393),
        ] {
            let trial = [gaussian(1.0 / mu)];
            let found = bounds(Precision::Exact, law(eta, mean), &trial, ZERO_OUT, delta).unwrap();
            for (bound, golden, grid) in [(Bound::Renyi, renyi, 1e-3), (Bound::Profile, profile, 5e-7)] {
                let above = of(&found, bound) / golden - 1.0;
                assert!((-grid..1e-4).contains(&above), "{bound:?} of {mu}, {eta}, {mean}: {above:e}");
            }
            let (epsilon, bound) = epsilon(law(eta, mean), &trial, ZERO_OUT, delta).unwrap();
            println!("{mu}, η {eta}, {mean} trials: {epsilon:.6} by {bound:?}");
            assert!(bound == Bound::TradeOff && epsilon > exact && epsilon < profile - 0.15, "{epsilon}");
        }
    }

    #[test]
    fn a_selection_of_dp_sgd_costs_what_the_reference_finds() {
        let trial = [poisson(4.0, 0.008_333_333_3, 600)];
        let found = bounds(Precision::Exact, law(1.0, 10.0), &trial, Adjacency::AddRemove, 1e-6).unwrap();
        // The reference's grid of losses has 0.200849 for a trial at δ = 1e-6, whose ε is enclosed in [0.2008115, 0.2008137] here; what
        // follows is as much smaller. By direct evaluations:
        let loss = pld::PrivacyLoss::new(&trial[0], Adjacency::AddRemove).unwrap();
        let slack = |step: i32| {
            let epsilon = 5e-4 * f64::from(step);
            2.0 * (epsilon.exp() + 9.0 * loss.delta(epsilon).unwrap()).ln()
        };
        let slack = (80..180).map(slack).fold(f64::INFINITY, f64::min);
        let direct = loss.epsilon(1e-7).unwrap() + slack;
        for (bound, golden, below) in
            [(Bound::Renyi, 0.469_392, 2e-3), (Bound::Profile, 0.404_362, 2e-4), (Bound::Profile, direct, 5e-6)]
        {
            let above = of(&found, bound) / golden - 1.0;
            assert!((-below..1e-4).contains(&above), "{bound:?}: {above:e}");
        }
        assert!(of(&found, Bound::TradeOff) < 0.36);
    }

    /// The noise of a trial over that of one untuned run, at a total of (1, 1e-6), to the two digits after the point.
    #[test]
    fn the_price_of_a_selection_in_noise() {
        let alone = calibrate(Accountant::Gdp, ZERO_OUT, 1.0, 1e-6, gaussian).unwrap();
        let price = |eta: f64, mean: f64, bound: Option<Bound>| {
            let count = law(eta, mean);
            let cost = |noise: f64| {
                let found = bounds(Precision::Exact, count, &[gaussian(noise)], ZERO_OUT, 1e-6).unwrap();
                bound.map_or_else(
                    || found.iter().map(|one| one.0).fold(f64::INFINITY, f64::min),
                    |name| of(&found, name),
                )
            };
            search::root(|log| cost(alone * log.exp()).ln(), 0.0, 2.0).exp()
        };
        for (eta, golden) in [(0.0, [1.37, 1.61, 1.78, 1.93]), (1.0, [1.39, 1.86, 2.14, 2.41])] {
            for (mean, golden) in [3.0, 10.0, 30.0, 100.0].into_iter().zip(golden) {
                let [of_profile, least] = [Some(Bound::Profile), None].map(|bound| price(eta, mean, bound));
                println!("η = {eta}, {mean} trials: {of_profile:.4} by the profile, {least:.4} by the least bound");
                assert!((of_profile - golden).abs() < 0.006, "{eta}, {mean}: {of_profile}");
                assert!(least < of_profile - 0.03, "{eta}, {mean}: {least}");
            }
        }
    }

    #[test]
    fn a_selection_costs_more_than_a_trial_and_more_with_more_trials() {
        let [laplace, drawn] = [laplace(8.0, 1.0, 1), without_replacement(4.0, 10, 1_000, 100)];
        let composed = Mechanism::Composition(vec![laplace.clone(), gaussian(20.0)]);
        let banded = Mechanism::SubsampledBanded {
            noise_multiplier: 4.0,
            sampling: Sampling::RandomAllocation { groups: 2, slots: 10 },
            bands: 2,
            sensitivity: 1.0,
            steps: 40,
        };
        for (trial, accountant) in [
            (gaussian(5.0), Accountant::Gdp),
            (poisson(2.0, 0.01, 200), Accountant::Pld),
            (laplace, Accountant::Pld),
            (composed, Accountant::Pld),
            (drawn, Accountant::Rdp),
            (subsampled(4.0, Sampling::RandomAllocation { groups: 1, slots: 20 }, 50), Accountant::Pld),
            (
                subsampled(4.0, Sampling::TruncatedPoisson { rate: 0.02, most: 30, population: 1_000 }, 50),
                Accountant::Pld,
            ),
            (banded, Accountant::Pld),
        ] {
            let alone = accountant.epsilon(&trial, ZERO_OUT, 1e-6).unwrap();
            let mut last = alone;
            for mean in [1.5, 3.0, 10.0, 50.0] {
                let (found, bound) = epsilon(law(0.0, mean), std::slice::from_ref(&trial), ZERO_OUT, 1e-6).unwrap();
                assert!(found > last, "{trial}, {mean}: {found} by {bound:?} after {last}");
                last = found;
            }
            // Of several mechanisms the greatest counts.
            let mixed = [trial.clone(), gaussian(1.0)];
            assert!(epsilon(law(0.0, 10.0), &mixed, ZERO_OUT, 1e-6).unwrap().0 > last);
            let poisson = TrialCount::new(TrialLaw::Poisson, 4.0).unwrap();
            match epsilon(poisson, &[trial], ZERO_OUT, 1e-6) {
                Ok((found, _)) => assert!(found > alone, "{found}"),
                Err(error) => assert!(error.to_string().contains("without replacement"), "{error}"),
            }
        }
    }

    /// No bound is below the exact one where the loss of a trial is computed on a grid, not even with the rough accuracy of a search.
    #[test]
    fn rough_bounds_of_allocated_trials_are_above_the_exact_ones_and_near_them() {
        for (noise, slots, rounds) in [(4.0, 20, 50), (2.0, 100, 300)] {
            let trial = [subsampled(noise, Sampling::RandomAllocation { groups: 1, slots }, rounds), gaussian(10.0)];
            let exact = epsilon(law(1.0, 10.0), &trial, ZERO_OUT, 1e-6).unwrap().0;
            let rough = rough_epsilon(law(1.0, 10.0), &trial, ZERO_OUT, 1e-6).unwrap();
            assert!((exact * (1.0 - 1e-6)..1.01 * exact).contains(&rough), "{noise}: {rough} {exact}");
        }
    }

    /// The trade-off bound by an envelope over ten times as many lines in place of an integral: φ is the greatest line at every z.
    #[test]
    fn an_envelope_is_above_each_of_its_lines_and_weighs_as_much_as_trials_are_expected() {
        let curve = |mechanism: Mechanism| (mechanism.clone(), RenyiCurve::new(&mechanism, ZERO_OUT).unwrap());
        let profile = Profile::of(Precision::Exact, &[curve(gaussian(5.0))], ZERO_OUT, 1e-7).unwrap().unwrap();
        for count in [law(0.0, 10.0), law(1.0, 10.0), law(-0.5, 3.0), TrialCount::Poisson { mean: 5.0 }] {
            let envelope = Envelope::new(count, &profile);
            let weight: f64 = envelope.corners.iter().map(|corner| corner.0).sum();
            assert!((weight / count.mean() - 1.0).abs() < 1e-9, "{count}: {weight}");
            let lines: Vec<(f64, f64, f64)> = (0..=1000)
                .map(|step| {
                    let u = f64::from(step) * 1e-3;
                    // Gaussian, exactly: F(u) = Φ(Φ⁻¹(u) + μ).
                    let most = crate::normal::survival(-(crate::normal::normal_quantile(u) + 0.2));
                    (u, count.log_slope(u).exp(), count.log_slope(most).exp())
                })
                .collect();
            for step in 1..400 {
                let z = f64::from(step) * 0.01;
                let phi: f64 = envelope.corners.iter().map(|(share, log)| share * (1.0 - z / log.exp()).max(0.0)).sum();
                for (u, height, slope) in &lines {
                    let line = height - slope * z;
                    assert!(phi >= line - 1e-9, "{count}, z = {z}, u = {u}: {phi} {line}");
                }
            }
        }
    }

    #[test]
    fn hazards_are_those_of_the_law() {
        for count in [law(0.0, 10.0), law(1.0, 10.0), law(0.5, 30.0), law(-0.5, 3.0), law(3.0, 100.0), law(0.0, 1.01)] {
            let (hazards, first) = count.hazards();
            let (mut survival, mut mean) = (1.0, 0.0);
            for (k, hazard) in (first..).zip(&hazards) {
                mean += k as f64 * survival * hazard;
                survival *= 1.0 - hazard;
            }
            assert!((mean / count.mean() - 1.0).abs() < 1e-9 && survival < 1e-25, "{count}: {mean} {survival}");
        }
        // Geometric: the same hazard, γ, from each k on.
        let TrialCount::NegativeBinomial { gamma, .. } = law(1.0, 10.0) else { unreachable!() };
        assert!((gamma - 0.1).abs() < 1e-12);
        assert!(law(1.0, 10.0).hazards().0.iter().all(|hazard| (hazard / gamma - 1.0).abs() < 1e-12));
        let (hazards, first) = TrialCount::Poisson { mean: 2.0 }.hazards();
        assert!(first == 0 && (hazards[0] - (-2.0_f64).exp()).abs() < 1e-15);
    }

    #[test]
    fn laws_out_of_range_are_refused_by_name() {
        let refused = |law, mean: f64| TrialCount::new(law, mean).unwrap_err().to_string();
        for eta in [-1.0, -2.0, 11.0, f64::NAN] {
            assert!(refused(TrialLaw::NegativeBinomial(eta), 10.0).contains("η must be above −1"));
        }
        for mean in [1.0, 1.000_000_000_1, 0.3, -1.0, 501.0, f64::NAN, f64::INFINITY] {
            for law in [TrialLaw::NegativeBinomial(0.0), TrialLaw::Poisson] {
                assert!(refused(law, mean).contains("expected number of trials"), "{mean}");
            }
        }
        assert!(refused(TrialLaw::NegativeBinomial(-0.99), 10.0).contains("tail"));
        for gamma in [0.0, 1.0, -0.1, 1.5, f64::NAN] {
            let count = TrialCount::NegativeBinomial { eta: 0.0, gamma };
            let refused = epsilon(count, &[gaussian(5.0)], ZERO_OUT, 1e-6).unwrap_err();
            assert!(refused.to_string().starts_with("γ must be"), "{refused}");
        }
        assert!(epsilon(TrialCount::Poisson { mean: 0.0 }, &[gaussian(5.0)], ZERO_OUT, 1e-6).is_err());
        for delta in [0.0, 1.0, 1e-16] {
            assert!(epsilon(law(0.0, 10.0), &[gaussian(5.0)], ZERO_OUT, delta).is_err());
        }
        assert_eq!(epsilon(law(0.0, 10.0), &[], ZERO_OUT, 1e-6), Err(PrivacyError::EmptyComposition));
        assert_eq!(epsilon(law(1.0, 10.0), &[gaussian(0.1)], ZERO_OUT, 1e-6).unwrap().0, f64::INFINITY);
        for (text, law) in [("logarithmic", 0.0), ("geometric", 1.0), ("0.5", 0.5)] {
            let read: TrialLaw = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (TrialLaw::NegativeBinomial(law), text));
        }
        assert!("fixed".parse::<TrialLaw>().unwrap_err().contains("poisson"));
    }

    #[test]
    fn a_trials_epsilon_is_the_greatest_that_a_total_pays_for() {
        let sampling = Sampling::FullBatch;
        let cost = |epsilon: f64| {
            let noise = 1.0 / gaussian::mu(epsilon, 1e-7)?;
            let trial = Mechanism::Gaussian { noise_multiplier: noise, sampling, participations: 1 };
            Ok::<_, PrivacyError>(self::epsilon(law(0.0, 10.0), &[trial], ZERO_OUT, 1e-6)?.0)
        };
        for total in [0.1, 1.0, 8.0] {
            let found = trial_epsilon(total, 1e-6, cost).unwrap();
            let spent = cost(found).unwrap();
            assert!(spent <= total && spent > total * (1.0 - 2e-4), "{total}: {found} costs {spent}");
        }
        assert!(matches!(trial_epsilon(1.0, 1e-6, |_| Ok(2.0)), Err(PrivacyError::Unreachable { .. })));
        // From wherever a rough search ended, and from far away.
        for total in [0.1, 1.0, 8.0] {
            let expected = trial_epsilon(total, 1e-6, cost).unwrap();
            for near in [0.3, 0.99, 1.0, 1.004, 2.0] {
                let found = trial_epsilon_near((total, 1e-6), Some(near * expected), cost).unwrap();
                let spent = cost(found).unwrap();
                assert!(spent <= total && spent > total * (1.0 - 2e-4), "{total}, {near}: {found} costs {spent}");
                assert!((found / expected - 1.0).abs() < 4e-4, "{total}, {near}: {found} {expected}");
            }
        }
        for near in [None, Some(0.5)] {
            let refused = trial_epsilon_near((1.0, 1e-6), near, |_| Ok(2.0));
            assert!(matches!(refused, Err(PrivacyError::Unreachable { .. })));
        }
        // Without one, and where the cost of it cannot be computed.
        let expected = trial_epsilon(1.0, 1e-6, cost).unwrap();
        let failing = |epsilon: f64| if epsilon == 0.8 { Err(PrivacyError::EmptyComposition) } else { cost(epsilon) };
        assert_eq!(trial_epsilon_near((1.0, 1e-6), Some(0.8), failing).unwrap(), expected);
        assert_eq!(trial_epsilon_near((1.0, 1e-6), None, cost).unwrap(), expected);
    }
}
