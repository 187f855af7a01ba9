//! Privacy filters: a total budget for runs whose settings are chosen after the results of earlier ones.
//!
//! Accountants of compositions ([`Composed`](super::Composed)) hold for settings that were fixed beforehand. Where a person looks at one
//! result and then decides the noise of the next run, and whether there is one, the sum is a function of what was released, and another
//! theorem is needed. Three are used here.
//!
//! **Gaussian** ([`FilterKind::Gaussian`]). Call a mechanism (μ, s)-Gaussian on neighbours D, D′, given what was released before, if its
//! outputs are a post-processing of this pair: with probability s everything is told, else N(0, 1) for D and N(μ, 1) for D′ is.
//!
//! *Theorem.* Let mechanisms be (μ_i, s_i)-Gaussian, where mechanism i, μ_i and s_i, and whether there is one more, are functions of the
//! outputs before. If always `Σ μ_i² ≤ μ²` and `Σ s_i ≤ S`, all outputs together are `(ε, δ(ε; μ) + S)`-DP for every ε ≥ 0, δ(ε; μ) that of
//! one Gaussian mechanism.
//!
//! *Proof.* Without what is told (s = 0): let X be a Brownian motion on [0, μ²], with drift 1 on D′ and 0 on D. The outputs up to i − 1 decide
//! τ_{i−1} = μ_1² + … + μ_{i−1}² and μ_i, so `(X(τ_{i−1} + μ_i²) − X(τ_{i−1}))/μ_i` is, given them, N(0, 1) on D and N(μ_i, 1) on D′. All outputs
//! are a post-processing of the path of X up to μ². The likelihood ratio of a path depends on its end alone, N(0, μ²) or N(μ², μ²): a
//! Gaussian mechanism with μ (fully adaptive composition; Smith and Thakurta 2022, Koskela, Tobaben and Honkela 2023). With s: let φ be the
//! probability, given the outputs of the Gaussian parts, that nothing is told, Π (1 − s_i): the same function on D and D′. For an
//! event E, `P_D[E, nothing told] = ∫_E φ dP ≤ e^ε·∫_E φ dQ + δ(ε; μ)`, since δ bounds `∫ f (dP − e^ε dQ)` for all 0 ≤ f ≤ 1; and something
//! is told with probability E[Σ s_i] ≤ S at most. ∎
//!
//! A mechanism is (μ, s)-Gaussian exactly if its profile is below that of the pair (Blackwell): for all ε ≥ 0, in both directions,
//! `δ_M(ε) ≤ s + (1 − s)·δ(ε; μ)`; then it holds for ε < 0, too. Gaussian noise without amplification is (μ, 0)-Gaussian. A run that
//! draws batches has the profile of its dominating pairs, which hold for adaptively chosen rounds of fixed noise and sampling, or the one that
//! follows from its Rényi curve. An ε-DP one has `μ = 2Φ⁻¹(e^ε/(1 + e^ε))`, s = 0: its trade-off function consists of two chords of
//! the Gaussian one.
//!
//! S is the share [`SLACK`] of δ, and every run takes of S what it takes of μ²: one number says what part of the budget it costs.
//!
//! **Rényi** ([`FilterKind::Renyi`]). For one order α, fixed with the budget: if always `Σ D_α(i) ≤ B`, all outputs together have Rényi divergence B at
//! most (Feldman and Zrnic 2021, Theorem 3.1; Lécuyer 2021), and ε follows from B as for any mechanism. *Proof.* With L the sum of the privacy
//! losses so far, `exp((α − 1)·(L − Σ D_α(i)))` is a supermartingale under D, as D_α(i) is a function of the past that bounds
//! `ln E[exp((α − 1)·L_i)]/(α − 1)`; so `E[exp((α − 1)·L)] ≤ e^{(α − 1)·B}`. ∎ α is the best one for Gaussian noise alone, which costs a tenth more here.
//! Runs with little noise and small rates cost much less: their rare great losses fit below no Gaussian mechanism. Taking the best of several
//! orders in the end would be no theorem: which one is best depends on what was released.
//!
//! **Basic** ([`FilterKind::Basic`]). `Σ ε_i ≤ ε` and `Σ δ_i ≤ δ` suffice, (ε_i, δ_i) chosen adaptively or not (Rogers, Roth, Ullman and Vadhan
//! 2016, Theorem 3.6). The filter for pure budgets, δ = 0, and for a few pure releases, which cost more beside Gaussian noise. The numbers are
//! what statements say, decimal ones, and are added up as such, without rounding: three runs of ε = 0.1 fill 0.3, though the floats that are
//! nearest to these numbers do not.

use serde::{Deserialize, Serialize};

use super::error::{self, PrivacyError};
use super::pld::PrivacyLoss;
use super::rdp::{self, RenyiCurve};
use super::search;
use super::zcdp::log_conversion;
use super::{Accountant, Adjacency, Mechanism, PrivacyStatement, gaussian, gdp, normal_quantile};
use crate::choices::choices;

/// The part of δ that is kept for what Gaussian mechanisms do not cover.
const SLACK: f64 = 0.25;
/// No run costs less than this part of the budget.
const LEAST_SHARE: f64 = 1e-4;
/// Points at which a profile is computed, and parts of the chord between two of them.
const POINTS: usize = 40;
const PARTS: usize = 16;
/// Relative accuracy of ε of profiles: δ is rounded up.
const ACCURACY: f64 = 1e-3;

choices! {
    /// The theorem by which a filter adds up.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FilterKind {
        /// Squares of μ, for Gaussian noise above all.
        #[default]
        Gaussian = "gaussian",
        /// Rényi divergences at one order, for small batches with little noise.
        Renyi = "renyi",
        /// ε and δ themselves.
        Basic = "basic",
    }
}

/// A total budget (ε, δ) for adaptively chosen runs.
///
/// ```
/// use rounds_algorithms::prelude::*;
/// use rounds_algorithms::privacy::{Filter, FilterKind, PrivacyError};
///
/// let filter = Filter::new(FilterKind::Gaussian, 1.0, 1e-5)?;
/// let run = |noise_multiplier: f64| -> Result<PrivacyStatement, PrivacyError> {
///     let mechanism = Mechanism::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations: 1 };
///     Ok(PrivacyStatement {
///         epsilon: Some(Accountant::Gdp.epsilon(&mechanism, Adjacency::ZeroOut, 1e-5)?),
///         delta: Some(1e-5),
///         adjacency: Some(Adjacency::ZeroOut),
///         mechanisms: vec![mechanism],
///         ..PrivacyStatement::none("")
///     })
/// };
/// // Twice the noise costs a quarter.
/// let ([one, _], [half, _]) = (filter.share(&run(10.0)?)?, filter.share(&run(20.0)?)?);
/// assert!((one / half - 4.0).abs() < 1e-9);
/// # Ok::<(), rounds_algorithms::privacy::PrivacyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    kind: FilterKind,
    epsilon: f64,
    delta: f64,
    /// μ² of the whole budget, or its Rényi divergence.
    whole: f64,
    /// The order of that divergence.
    order: f64,
}

/// A part of a budget: of μ² or ε, and of δ where that is counted by itself.
pub type Share = [f64; 2];

/// What one run costs: its share of the budget, and (ε, δ) as its statement has them.
pub type Taken = (Share, [f64; 2]);

/// The sum of two shares, rounded up where it has no exact value.
fn together(one: Share, other: Share) -> Share {
    [0, 1].map(|part| {
        let (a, b) = (one[part].max(other[part]), one[part].min(other[part]));
        let sum = a + b;
        // What the greater part leaves of the sum is exact (Dekker).
        if b > sum - a { sum.next_up() } else { sum }
    })
}

impl Filter {
    /// The filter of a budget.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless ε > 0 is finite and δ ∈ (0, 1), or 0 for the basic filter.
    pub fn new(kind: FilterKind, epsilon: f64, delta: f64) -> Result<Self, PrivacyError> {
        error::target_epsilon(epsilon)?;
        if !(kind == FilterKind::Basic && delta == 0.0) {
            let remedy = "choose it well below 1/n, for instance 1e-6 for 60,000 examples; 0 needs `filter basic`";
            error::delta_or(delta, remedy)?;
        }
        let (whole, order) = match kind {
            FilterKind::Gaussian => (gaussian::mu(epsilon, (1.0 - SLACK) * delta)?.powi(2), 0.0),
            FilterKind::Basic => (epsilon, 0.0),
            FilterKind::Renyi => {
                let divergence = |lambda: f64| epsilon + (delta.ln() - log_conversion(lambda)) / lambda;
                // μ²/2 of Gaussian noise is D_α/α.
                let against = |log_lambda: f64| -divergence(log_lambda.exp()) / (log_lambda.exp() + 1.0);
                let lambda = search::minimize(against, -4.0, 16.0, 1e-6).0.exp();
                (error::positive(divergence(lambda), "the divergence of the budget", "raise ε or δ")?, lambda + 1.0)
            }
        };
        // Nothing is subtracted from −0.
        Ok(Self { kind, epsilon, delta: delta.abs(), whole, order })
    }

    /// The part of the budget that a run with this statement takes; infinite where it is more than all of it by far.
    ///
    /// # Errors
    /// [`PrivacyError::NoClaim`] of a statement without ε, δ and relation; mechanisms that no accountant covers.
    pub fn share(&self, statement: &PrivacyStatement) -> Result<Share, PrivacyError> {
        let (Some(epsilon), Some(delta), Some(adjacency)) = (statement.epsilon, statement.delta, statement.adjacency)
        else {
            return Err(PrivacyError::NoClaim);
        };
        if self.kind == FilterKind::Basic {
            let of_delta = if delta == 0.0 { 0.0 } else { delta / self.delta };
            return Ok([epsilon / self.epsilon, of_delta]);
        }
        let bounds = statement.bounds_epsilon.unwrap_or(0.0);
        let mechanism = Mechanism::Composition(statement.mechanisms.clone());
        let share = if is_of_its_mechanisms(statement, (epsilon - bounds, delta), (&mechanism, adjacency)) {
            let bounds = if bounds > 0.0 { self.share_of_pure(bounds) } else { 0.0 };
            self.share_of_mechanism(&mechanism, adjacency)? + bounds
        } else if self.kind == FilterKind::Renyi && delta > 0.0 {
            f64::INFINITY
        } else {
            // s = δ_i of what is (ε_i, δ_i)-DP.
            self.share_of_pure(epsilon).max(delta / (SLACK * self.delta))
        };
        Ok([share.max(LEAST_SHARE).next_up(), 0.0])
    }

    /// True if the runs together do not exceed the budget.
    pub fn fits(&self, runs: &[Taken]) -> bool {
        self.left(runs).is_some()
    }

    /// The greatest ε of one more run at `delta`, by Gaussian noise without amplification where that decides; `None` if there is none.
    pub fn room(&self, runs: &[Taken], delta: f64) -> Option<f64> {
        let [left, left_of_delta] = self.left(runs)?;
        let gaussian = |mu_squared: f64| gaussian::epsilon(delta, mu_squared.sqrt()).ok();
        match self.kind {
            _ if left <= 0.0 => None,
            FilterKind::Gaussian => gaussian(left * self.whole),
            FilterKind::Renyi => gaussian(2.0 * left * self.whole / self.order),
            FilterKind::Basic => Some(left).filter(|_| delta <= left_of_delta),
        }
    }

    /// The parts of the budget that the runs take.
    pub fn spent(&self, runs: &[Taken]) -> Share {
        if self.kind != FilterKind::Basic {
            return runs.iter().fold([0.0; 2], |sum, &(share, _)| together(sum, share));
        }
        let Some([epsilon, delta]) = self.left(runs) else { return [1.0; 2] };
        // No δ is taken of none.
        [1.0 - epsilon / self.epsilon, if self.delta == 0.0 { 0.0 } else { 1.0 - delta / self.delta }]
    }

    /// The rest of the budget after these runs: a part of μ² or of the divergence, by the basic filter ε and δ themselves. `None` if they exceed it.
    fn left(&self, runs: &[Taken]) -> Option<[f64; 2]> {
        if self.kind != FilterKind::Basic {
            let left = 1.0 - self.spent(runs)[0];
            return (left >= 0.0).then_some([left, 0.0]);
        }
        let rest = |part: usize, whole| rest_of_decimals(whole, runs.iter().map(|(_, stated)| stated[part]));
        Some([rest(0, self.epsilon)?, rest(1, self.delta)?])
    }

    fn share_of_pure(&self, epsilon: f64) -> f64 {
        if self.kind == FilterKind::Renyi {
            return rdp::randomized_response(self.order, epsilon) / self.whole;
        }
        (2.0 * normal_quantile(1.0 / (1.0 + epsilon.exp()))).powi(2) / self.whole
    }

    fn share_of_mechanism(&self, mechanism: &Mechanism, adjacency: Adjacency) -> Result<f64, PrivacyError> {
        let curve = RenyiCurve::new(mechanism, adjacency)?;
        if self.kind == FilterKind::Renyi {
            return Ok(curve.divergence_at(self.order) / self.whole);
        }
        if let Ok(mu) = gdp::mu(mechanism, adjacency) {
            return Ok(mu.powi(2) / self.whole);
        }
        // No pair is known for batches without replacement; and a grid may be too fine for losses as small as here.
        let loss = match PrivacyLoss::new(mechanism, adjacency) {
            Ok(loss) => Some(loss.with_relative_accuracy(ACCURACY)?),
            Err(PrivacyError::RefusedAccountant { .. }) => None,
            Err(error) => return Err(error),
        };
        let coarse = |epsilon: f64| Ok(curve.delta(epsilon)?.0);
        self.share_of_profile(&coarse, &|epsilon| match loss.as_ref().map(|loss| loss.delta(epsilon)) {
            Some(Ok(delta)) => Ok(delta),
            _ => coarse(epsilon),
        })
    }

    /// The least share x for which `δ_M(ε) ≤ s + (1 − s)·δ(ε; μ√x)` at all ε ≥ 0, with s = x·S; infinite if not even 1 is enough.
    ///
    /// `coarse` bounds δ_M, too, and is quick: it shows how far it reaches. δ_M is computed at [`POINTS`] losses; between two, its chord in e^ε lies above it, and is compared, part by part, its left end with the
    /// right end of the Gaussian one.
    fn share_of_profile(&self, coarse: &Profile<'_>, profile: &Profile<'_>) -> Result<f64, PrivacyError> {
        let slack = SLACK * self.delta;
        let least = LEAST_SHARE * slack;
        // An ε beyond which δ_M is below what any run is granted.
        let (mut most, step) = (self.epsilon, 1.1);
        while coarse(most)? > least {
            if most > 1e3 * self.epsilon {
                return Ok(f64::INFINITY);
            }
            most *= step;
        }
        while most > 1e-9 && coarse(most / step)? <= least {
            most /= step;
        }
        let at = |point: usize| most * (point as f64).max(1e-3) / POINTS as f64;
        let values = (0..=POINTS).map(|point| profile(at(point))).collect::<Result<Vec<f64>, _>>()?;
        // (a right end, the chord at the left end of that part).
        let mut parts = vec![(at(0), (values[0] + at(0).exp_m1()).min(1.0))];
        for point in 0..POINTS {
            let (left, right) = (at(point), at(point + 1));
            for part in 0..PARTS {
                let [from, to] = [part, part + 1].map(|part| left + (right - left) * part as f64 / PARTS as f64);
                let along = (from - left).exp_m1() / (right - left).exp_m1();
                parts.push((to, values[point] + along * (values[point + 1] - values[point])));
            }
        }
        let covers = |share: f64| {
            let (s, mu) = (share * slack, (share * self.whole).sqrt());
            let gaussian = |epsilon: f64| gaussian::log_delta(epsilon, mu).exp();
            // Beyond the last part the profile is below LEAST_SHARE of S.
            parts.iter().all(|&(right, value)| value <= s || value <= s + (1.0 - s) * gaussian(right))
        };
        if !covers(1.0) {
            return Ok(f64::INFINITY);
        }
        let (mut low, mut high) = (LEAST_SHARE, 1.0);
        while high > low * (1.0 + 1e-6) {
            let middle = (low * high).sqrt();
            if covers(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(high)
    }
}

/// `whole − Σ parts`, of the shortest decimal numbers that are read as these floats, rounded once; `None` if it is negative.
fn rest_of_decimals(whole: f64, parts: impl Iterator<Item = f64>) -> Option<f64> {
    // Digit i stands for 10^(i − POINT); a float has at most 309 before the point, and 341 behind it.
    const POINT: usize = 350;
    let mut digits = [0_i64; 2 * POINT];
    let mut add = |number: f64, sign: i64| {
        // Without the sign of −0.
        let text = number.abs().to_string();
        let (integer, fraction) = text.split_once('.').unwrap_or((&text, ""));
        for (at, digit) in integer.bytes().rev().enumerate() {
            digits[POINT + at] += sign * i64::from(digit - b'0');
        }
        for (at, digit) in fraction.bytes().enumerate() {
            digits[POINT - 1 - at] += sign * i64::from(digit - b'0');
        }
    };
    add(whole, 1);
    for part in parts {
        if !(0.0..f64::INFINITY).contains(&part) {
            return None;
        }
        add(part, -1);
    }
    let mut carry = 0;
    for digit in &mut digits {
        let sum = *digit + carry;
        (*digit, carry) = (sum.rem_euclid(10), sum.div_euclid(10));
    }
    let mut text: String = digits.iter().rev().map(i64::to_string).collect();
    text.insert(POINT, '.');
    (carry == 0).then(|| text.parse().expect("digits"))
}

/// δ at ε ≥ 0, an upper bound.
type Profile<'a> = dyn Fn(f64) -> Result<f64, PrivacyError> + 'a;

/// True if what the statement claims is not more than what its mechanisms lose: one that repeats or selects them states another ε.
fn is_of_its_mechanisms(
    statement: &PrivacyStatement,
    (epsilon, delta): (f64, f64),
    (mechanism, adjacency): (&Mechanism, Adjacency),
) -> bool {
    let accountant = statement.accountant.unwrap_or_else(|| Accountant::default_for(mechanism));
    !statement.mechanisms.is_empty()
        && accountant.epsilon(mechanism, adjacency, delta).is_ok_and(|own| epsilon <= own * (1.0 + 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::Sampling;
    use crate::privacy::examples::{assert_relative, gaussian, laplace, poisson, without_replacement};

    fn statement(mechanism: Mechanism, delta: f64) -> PrivacyStatement {
        let accountant = Accountant::default_for(&mechanism);
        PrivacyStatement {
            epsilon: Some(accountant.epsilon(&mechanism, Adjacency::ZeroOut, delta).unwrap()),
            delta: Some(delta),
            adjacency: Some(Adjacency::ZeroOut),
            accountant: Some(accountant),
            mechanisms: vec![mechanism],
            ..PrivacyStatement::none("")
        }
    }

    fn filter(epsilon: f64) -> Filter {
        Filter::new(FilterKind::Gaussian, epsilon, 1e-5).unwrap()
    }

    /// The theorems hold for settings that were fixed beforehand, too: as many runs as fit lose no more than the budget by the tight accountant
    /// of compositions. The second number is the part of ε that they reach, at least.
    #[test]
    fn runs_that_fit_lose_no_more_than_the_budget() {
        use FilterKind::{Basic, Gaussian, Renyi};
        for (kind, epsilon, mechanism, reached) in [
            (Gaussian, 1.0, gaussian(60.0), 0.96),
            (Gaussian, 3.0, poisson(1.0, 0.01, 300), 0.7),
            (Gaussian, 1.0, poisson(4.0, 0.1, 20), 0.8),
            (Gaussian, 1.0, laplace(20.0, 1.0, 2), 0.7),
            (Gaussian, 8.0, without_replacement(3.0, 600, 60_000, 500), 0.5),
            (Renyi, 1.0, gaussian(60.0), 0.9),
            (Renyi, 8.0, poisson(0.7, 0.001, 2_000), 0.5),
            (Renyi, 8.0, without_replacement(3.0, 600, 60_000, 500), 0.5),
            (Renyi, 1.0, laplace(20.0, 1.0, 2), 0.5),
            (Basic, 1.0, poisson(4.0, 0.1, 2), 0.2),
        ] {
            let filter = Filter::new(kind, epsilon, 1e-5).unwrap();
            let share = filter.share(&statement(mechanism.clone(), 1e-6)).unwrap();
            let (mut sum, mut runs) = (share, 0);
            while sum[0].max(sum[1]) <= 1.0 {
                (sum, runs) = (together(sum, share), runs + 1);
            }
            let all = Mechanism::Composition(vec![mechanism.clone(); runs]);
            let accountant = if all.steps().iter().all(|step| step.sampling() == Some(Sampling::FullBatch)) {
                Accountant::Pld
            } else {
                Accountant::default_for(&all)
            };
            let found = accountant.epsilon(&all, Adjacency::ZeroOut, 1e-5).unwrap();
            println!("{kind} {mechanism}: {runs} runs of share {share:?} reach {found} of {epsilon}");
            assert!(found <= epsilon * (1.0 + 1e-6), "{kind}, {mechanism}: {runs} runs reach {found}");
            assert!(found >= reached * epsilon, "{kind}, {mechanism}: {runs} runs reach {found}");
        }
    }

    /// Between and beyond the points at which the profile was computed.
    #[test]
    fn the_share_of_a_run_covers_its_whole_profile() {
        let (filter, mechanism) = (filter(3.0), poisson(1.0, 0.01, 300));
        let [share, _] = filter.share(&statement(mechanism.clone(), 1e-6)).unwrap();
        let loss = PrivacyLoss::new(&mechanism, Adjacency::ZeroOut).unwrap();
        let bound = |share: f64, epsilon: f64| {
            let s = share * SLACK * 1e-5;
            s + (1.0 - s) * super::super::gaussian::delta(epsilon, (share * filter.whole).sqrt()).unwrap()
        };
        let points: Vec<f64> = (1..60).map(|point| 0.05 * f64::from(point)).collect();
        let covers = |share: f64| points.iter().all(|&epsilon| loss.delta(epsilon).unwrap() <= bound(share, epsilon));
        assert!(covers(share) && !covers(0.93 * share), "{share}");
    }

    #[test]
    fn pure_releases_and_claims_without_mechanisms_cost_what_their_worst_case_does() {
        let filter = filter(1.0);
        let pure = |epsilon: f64| PrivacyStatement {
            mechanisms: Vec::new(),
            ..statement(laplace(1.0 / epsilon, 1.0, 1), 0.0)
        };
        let [share, _] = filter.share(&pure(0.1)).unwrap();
        // At ε = 0 randomised response and the Gaussian mechanism have one total variation: tanh(ε/4)·… = 2Φ(μ/2) − 1.
        let mu = (share * filter.whole).sqrt();
        let variation = super::super::gaussian::delta(0.0, mu).unwrap();
        assert_relative(variation, 0.1_f64.exp_m1() / (1.0 + 0.1_f64.exp()), 1e-9, "total variation");
        for epsilon in [0.01, 0.05, 0.0999] {
            let profile = (0.1_f64.exp() - f64::exp(epsilon)) / (1.0 + 0.1_f64.exp());
            assert!(profile <= super::super::gaussian::delta(epsilon, mu).unwrap());
        }
        // Private bounds are added; a claim above what its mechanisms lose, as of a selection, is taken as it stands.
        let run = statement(gaussian(10.0), 1e-6);
        let [alone, _] = filter.share(&run).unwrap();
        let [bounded, _] = filter.share(&run.clone().after_private_bounds(0.1)).unwrap();
        assert_relative(bounded, alone + share, 1e-9, "bounds");
        let selected = PrivacyStatement { epsilon: run.epsilon.map(|epsilon| 1.5 * epsilon), ..run.clone() };
        let [selected, _] = filter.share(&selected).unwrap();
        assert!(selected > 2.0 * alone && selected >= 1e-6 / (SLACK * 1e-5), "{selected} {alone}");
        let renyi = Filter::new(FilterKind::Renyi, 1.0, 1e-5).unwrap();
        let by_numbers = PrivacyStatement { mechanisms: Vec::new(), ..run.clone() };
        assert_eq!(renyi.share(&by_numbers).unwrap()[0], f64::INFINITY);
        assert!(renyi.share(&pure(0.1)).unwrap()[0] < 1.0);
        assert!(matches!(filter.share(&run.revoked("no")), Err(PrivacyError::NoClaim)));
    }

    #[test]
    fn basic_budgets_add_up_decimal_numbers() {
        let basic = |epsilon, delta| Filter::new(FilterKind::Basic, epsilon, delta).unwrap();
        let runs =
            |numbers: &[f64]| -> Vec<Taken> { numbers.iter().map(|&number| ([0.0; 2], [number, 1e-7])).collect() };
        // (a budget, runs that fill it): as floats the first is 0.30000000000000004.
        for (epsilon, filled) in [
            (0.3, &[0.1; 3][..]),
            (0.8, &[0.1; 8]),
            (0.3, &[0.1, 0.2]),
            (1.1, &[0.1; 11]),
            (1.0, &[0.7, 0.2, 0.1]),
            (1e300, &[1e300]),
            (5e-324, &[5e-324]),
            (2.5, &[2.0, 0.5]),
        ] {
            let (exact, more) = (runs(filled), runs(&[filled, &[5e-324]].concat()));
            assert!(basic(epsilon, 1e-5).fits(&exact) && !basic(epsilon, 1e-5).fits(&more), "{epsilon}");
            assert_eq!(basic(epsilon, 1e-5).room(&exact, 1e-7), None);
            assert_eq!(basic(epsilon, 1e-5).spent(&exact)[0], 1.0);
        }
        // A thousand deltas of 1e-7 fill 1e-4, and one more does not fit.
        let [all, more] = [1_000, 1_001].map(|many| runs(&vec![1e-3; many]));
        assert!(basic(2.0, 1e-4).fits(&all) && !basic(2.0, 1e-4).fits(&more) && !basic(2.0, 0.0).fits(&more[..1]));
        assert_eq!((basic(2.0, 1e-4).room(&all, 0.0), basic(2.0, 1e-4).room(&all, 1e-9)), (Some(1.0), None));
        assert_eq!(basic(0.3, 1e-5).room(&runs(&[0.1, 0.1]), 0.0), Some(0.1));
        let nothing = basic(0.3, -0.0);
        assert!(nothing.fits(&[([0.0; 2], [0.3, -0.0])]) && !nothing.fits(&[([0.0; 2], [0.1, 1e-5])]));
        assert_eq!(nothing.spent(&[([0.0; 2], [0.3, -0.0])]), [1.0, 0.0]);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(!basic(0.3, 1e-5).fits(&runs(&[bad])), "{bad}");
        }
    }

    #[test]
    fn budgets_out_of_range_are_refused_and_pure_ones_are_basic() {
        let basic = Filter::new(FilterKind::Basic, 1.0, 0.0).unwrap();
        // A budget that fits exactly, alone or in halves, and a sum that has no exact value.
        assert_eq!(together([0.0, 0.25], [1.0, 0.75]), [1.0, 1.0]);
        assert_eq!(together([0.5; 2], [0.5, f64::INFINITY]), [1.0, f64::INFINITY]);
        assert_eq!(together([1e-17, 1.0], [1.0, 1e-17]), [1.0_f64.next_up(); 2]);
        let share = |delta| basic.share(&statement(laplace(2.0, 1.0, 1), delta)).unwrap();
        assert_eq!(share(0.0), [0.5, 0.0]);
        assert_eq!(share(1e-9)[1], f64::INFINITY);
        for kind in FilterKind::ALL {
            for (epsilon, delta) in [(0.0, 1e-5), (f64::INFINITY, 1e-5), (1.0, 1.0), (1.0, -1e-5), (1.0, f64::NAN)] {
                assert!(Filter::new(*kind, epsilon, delta).is_err(), "{kind} {epsilon} {delta}");
            }
            assert_eq!(Filter::new(*kind, 1.0, 0.0).is_ok(), *kind == FilterKind::Basic);
        }
        let taken = |share| [([share, 0.0], [share, 0.0])];
        assert_eq!(basic.room(&taken(0.25), 0.0), Some(0.75));
        assert_eq!(filter(1.0).room(&taken(1.0), 1e-6), None);
        let left = filter(1.0).room(&taken(0.75), 1e-6).unwrap();
        let quarter = statement(gaussian(1.0 / super::super::gaussian::mu(left, 1e-6).unwrap()), 1e-6);
        assert_relative(filter(1.0).share(&quarter).unwrap()[0], 0.25, 1e-9, "the room that is left");
    }
}
