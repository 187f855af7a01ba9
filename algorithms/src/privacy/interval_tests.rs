//! Accountants against outward-rounded interval arithmetic: what they state is an upper bound with its numerics, for the noise of a
//! release, which exceeds the accounted one. An interval holds the exact value of its formula, provided that `exp`
//! and `ln` of the platform are right to four units in the last place.

use std::f64::consts::TAU;
use std::ops::{Add, Div, Mul, Sub};

use super::examples::poisson;
use super::zcdp::log_conversion;
use super::{Accountant, Adjacency, Mechanism, Sampling, gaussian, pld, rdp, zcdp};

/// An eighth of what a release's noise exceeds the accounted one by (2⁻²⁴); rounding of sensitivities takes at most half.
const MORE_NOISE: f64 = 1.0 + 1.0 / 134_217_728.0;

#[derive(Clone, Copy, Debug)]
struct Interval {
    lo: f64,
    hi: f64,
}

/// The interval of one number.
const fn at(value: f64) -> Interval {
    Interval { lo: value, hi: value }
}

impl Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { lo: (self.lo + other.lo).next_down(), hi: (self.hi + other.hi).next_up() }
    }
}

impl Sub for Interval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { lo: (self.lo - other.hi).next_down(), hi: (self.hi - other.lo).next_up() }
    }
}

impl Mul for Interval {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let corners = [self.lo * other.lo, self.lo * other.hi, self.hi * other.lo, self.hi * other.hi];
        let lo = corners.into_iter().fold(f64::INFINITY, f64::min);
        let hi = corners.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Self { lo: lo.next_down(), hi: hi.next_up() }
    }
}

impl Div for Interval {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        assert!(other.lo > 0.0, "{other:?}");
        self * Self { lo: (1.0 / other.hi).next_down(), hi: (1.0 / other.lo).next_up() }
    }
}

impl Interval {
    /// A monotone function, widened by four units in the last place.
    fn monotone(self, function: impl Fn(f64) -> f64) -> Self {
        let (mut lo, mut hi) = (function(self.lo), function(self.hi));
        for _ in 0..4 {
            (lo, hi) = (lo.next_down(), hi.next_up());
        }
        Self { lo, hi }
    }

    fn exp(self) -> Self {
        self.monotone(f64::exp)
    }

    fn ln(self) -> Self {
        self.monotone(f64::ln)
    }
}

/// √(2π).
fn root_two_pi() -> Interval {
    at(TAU.sqrt()).monotone(|value| value)
}

/// φ(x).
fn density(x: Interval) -> Interval {
    (at(-0.5) * x * x).exp() / root_two_pi()
}

/// R(x) = Φ(−x)/φ(x). Above 1 by Laplace's continued fraction 1/(x + 1/(x + 2/(x + …))), whose convergents bracket it; below as
/// √(π/2)·e^{x²/2} − Σ_k x^{2k+1}/(2k+1)!!.
fn mills_ratio(x: Interval) -> Interval {
    if x.lo > 1.0 {
        let convergent = |terms: u32| {
            let start = x;
            let tail = (1..=terms).rev().fold(start, |tail, k| x + at(f64::from(k)) / tail);
            at(1.0) / tail
        };
        // At most e^{−2x√(2k)} apart.
        let (even, odd) = (convergent(400), convergent(401));
        return Interval { lo: even.lo.min(odd.lo), hi: even.hi.max(odd.hi) };
    }
    assert!(x.lo > -12.0);
    let square = x * x;
    let (mut term, mut sum) = (x, x);
    for k in 1..400 {
        term = term * square / at(f64::from(2 * k + 1));
        sum = sum + term;
    }
    // The next terms fall faster than 1/2^j.
    let rest = 2.0 * term.lo.abs().max(term.hi.abs());
    let sum = sum + Interval { lo: -rest, hi: rest };
    at(0.5) * root_two_pi() * (at(0.5) * square).exp() - sum
}

/// Φ(−x).
fn survival(x: Interval) -> Interval {
    if x.lo < -12.0 { at(1.0) - Interval { lo: 0.0, hi: 1e-32 } } else { density(x) * mills_ratio(x) }
}

/// δ(ε; μ) of the Gaussian mechanism.
fn gaussian_delta(epsilon: f64, mu: Interval) -> Interval {
    let a = at(epsilon) / mu - at(0.5) * mu;
    if a.lo < -12.0 {
        return survival(a) - at(epsilon).exp() * survival(a + mu);
    }
    density(a) * (mills_ratio(a) - mills_ratio(a + mu))
}

/// (1 − 1/α)^α/(α − 1) at α = 1 + x, as a logarithm.
fn conversion(x: f64) -> Interval {
    let order = at(1.0) + at(x);
    at(x) * at(x).ln() - order * order.ln()
}

/// ε of a divergence K(α)/(α − 1) at α = 1 + x.
fn converted(log_moment: Interval, x: f64, delta: f64) -> Interval {
    (log_moment + conversion(x) - at(delta).ln()) / at(x)
}

/// An upper bound on K(α) = ln E_{z ~ N(0, s²)}[f(z)^α], f(z) = 1 − q + q·e^{(2z−1)/2s²}: the trapezoidal rule for the excess
/// f^α − 1 − α(f − 1), whose integrand is at most (f(x)^α + 1 + α(f(x) + 1))·e^{d²/2s²}·φ_s(x) at x ± id for d < πs². Its error is at
/// most the integral of that over both lines, divided by e^{2πd/spacing} − 1.
fn subsampled_log_moment(order: f64, rate: f64, noise: Interval) -> Interval {
    let s = 0.5 * (noise.lo + noise.hi);
    let variance = noise * noise;
    let distance = (3.0 * s * s).min(9.0 * s);
    // 2πd/spacing − d²/2s² ≥ 55.
    let spacing = TAU * distance / (55.0 + 0.5 * (distance / s).powi(2));
    // Beyond α + reach·s the density of N(α, s²) is below e^{−90} of 1 and of e^{−α(α−1)/2s²}.
    let reach = (180.0 + order * (order - 1.0) / (s * s)).sqrt();
    let (from, to) = (-(reach * s / spacing).ceil(), ((order + reach * s) / spacing).ceil());
    let (mut excess, mut whole) = (at(0.0), at(0.0));
    for node in from as i64..=to as i64 {
        let z = at(node as f64) * at(spacing);
        let square = at(-0.5) * z * z / variance;
        let f = at(1.0) - at(rate) + at(rate) * ((z - at(0.5)) / variance).exp();
        let (weight, power) = (square.exp(), (square + at(order) * f.ln()).exp());
        excess = excess + (power - weight - at(order) * weight * (f - at(1.0)));
        whole = whole + power + weight + at(order) * weight * (f + at(1.0));
    }
    let scale = at(spacing) / (noise * root_two_pi());
    let decay = (at(0.5) * at(distance) * at(distance) / variance - at(TAU) * at(distance) / at(spacing)).exp();
    // Twice: two lines; once more, for the nodes stand for the integral.
    let error = at(4.0) * whole * scale * decay + at(4.0 * order) * at(-90.0).exp();
    (at(1.0) + excess * scale + Interval { lo: -error.hi, hi: error.hi }).ln()
}

#[test]
fn intervals_hold_known_values_and_are_narrow() {
    // Φ(−1), Φ(−5), Φ(3) and R(10) from 40-digit arithmetic.
    for (found, expected) in [
        (survival(at(1.0)), 0.158_655_253_931_457_05),
        (survival(at(5.0)), 2.866_515_718_791_939e-7),
        (survival(at(-3.0)), 0.998_650_101_968_369_9),
        (mills_ratio(at(10.0)), 0.099_028_596_471_731_92),
        (gaussian_delta(1.0, at(0.268_051_123_211_294_2)), 1e-5),
    ] {
        assert!(found.lo <= expected && expected <= found.hi, "{found:?} {expected}");
        assert!(found.hi / found.lo - 1.0 < 1e-10, "{found:?}");
    }
}

#[test]
fn the_gaussian_accountant_states_upper_bounds() {
    let mut count = 0;
    for step in 0..60 {
        let mu = (f64::from(step) * 0.2 - 9.0).exp();
        for delta in [1e-15, 1e-12, 1e-9, 1e-6, 1e-5, 1e-3, 0.1, 0.4] {
            let released = at(mu) / at(MORE_NOISE);
            let epsilon = gaussian::epsilon(delta, mu).unwrap();
            if epsilon > 0.0 && epsilon < 200.0 {
                let found = gaussian_delta(epsilon, released);
                assert!(found.hi <= delta, "mu {mu}, delta {delta}: {found:?}");
                count += 1;
            }
        }
        let epsilon = mu;
        for delta in [1e-12, 1e-6, 1e-5, 1e-3] {
            let found = gaussian_delta(epsilon, at(gaussian::mu(epsilon, delta).unwrap()) / at(MORE_NOISE));
            assert!(found.hi <= delta, "epsilon {epsilon}, delta {delta}: {found:?}");
            count += 1;
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn concentrated_privacy_states_upper_bounds() {
    for step in 0..60 {
        let rho = (f64::from(step) * 0.3 - 14.0).exp();
        for delta in [1e-12, 1e-9, 1e-6, 1e-3] {
            let (epsilon, order) = zcdp::ORDERS.epsilon(delta, |order| rho * order);
            let x = order - 1.0;
            let log_moment = at(rho) / (at(MORE_NOISE) * at(MORE_NOISE)) * (at(1.0) + at(x)) * at(x);
            let found = converted(log_moment, x, delta);
            assert!(found.hi <= epsilon, "rho {rho}, delta {delta}: {epsilon} {found:?}");
            assert!(conversion(x).lo <= log_conversion(x) + 1e-12 && log_conversion(x) - 1e-12 <= conversion(x).hi);
        }
    }
}

#[test]
fn renyi_accounting_of_poisson_batches_states_upper_bounds() {
    for (rate, noise) in [(0.5, 2.0), (0.1, 1.0), (0.01, 0.7), (0.01, 1.1), (0.01, 5.0), (0.002, 0.6), (0.3, 20.0)] {
        let mechanism = poisson(noise, rate, 1000);
        for delta in [1e-9, 1e-5] {
            let (epsilon, order) = rdp::ORDERS
                .epsilon(delta, |order| 1000.0 * rdp::poisson_subsampled_gaussian(order, rate, noise).unwrap());
            let stated = Accountant::Rdp.epsilon(&mechanism, Adjacency::AddRemove, delta).unwrap();
            assert!((stated / epsilon - 1.0).abs() < 1e-12, "{stated} {epsilon}");
            let log_moment = subsampled_log_moment(order, rate, at(noise) * at(MORE_NOISE));
            let found = converted(at(1000.0) * log_moment, order - 1.0, delta);
            assert!(found.hi <= stated, "rate {rate}, noise {noise}, order {order}: {stated} {found:?}");
            assert!(found.lo >= stated * (1.0 - 1e-5), "rate {rate}, noise {noise}: {stated} {found:?}");
        }
    }
}

/// δ(ε) of one subsampled step in each direction, at the larger of the two: the mass of P beyond the threshold at which the loss is ε,
/// less e^ε times that of Q.
fn subsampled_delta(epsilon: f64, rate: f64, noise: Interval) -> Interval {
    let (q, rest) = (at(rate), at(1.0) - at(rate));
    let centre = at(1.0) / noise;
    // Removal: 1 − q + q·e^{(y − 1/2s)/s} = e^ε at the threshold y.
    let mixture = (at(epsilon).exp() - rest) / q;
    let y = noise * mixture.ln() + at(0.5) * centre;
    let removal = rest * survival(y) + q * survival(y - centre) - at(epsilon).exp() * survival(y);
    // Addition: the mixture has e^{−ε}; where 1 − q exceeds it no loss is so large.
    let mixture = (at(-epsilon).exp() - rest) / q;
    if mixture.lo <= 0.0 {
        return removal;
    }
    let y = noise * mixture.ln() + at(0.5) * centre;
    let below = |y: Interval| survival(at(0.0) - y);
    let addition = below(y) - at(epsilon).exp() * (rest * below(y) + q * below(y - centre));
    Interval { lo: removal.lo.max(addition.lo), hi: removal.hi.max(addition.hi) }
}

#[test]
fn privacy_loss_distributions_state_upper_bounds() {
    for (rate, noise) in [(0.5, 2.0), (0.1, 1.0), (0.01, 0.7), (0.2, 0.5)] {
        let loss = pld::PrivacyLoss::new(&poisson(noise, rate, 1), Adjacency::AddRemove).unwrap();
        for delta in [1e-8, 1e-5, 1e-3] {
            let epsilon = loss.epsilon(delta).unwrap();
            if epsilon > 0.0 {
                let found = subsampled_delta(epsilon, rate, at(noise) * at(MORE_NOISE));
                assert!(found.hi <= delta, "rate {rate}, noise {noise}, epsilon {epsilon}: {found:?}");
                assert!(found.lo >= delta * (1.0 - 1e-2), "rate {rate}, noise {noise}: {found:?} of {delta}");
            }
        }
    }
    // Compositions of Gaussian releases have a closed form.
    for (noise, participations) in [(2.0, 1), (5.0, 16), (0.7, 4)] {
        let mechanism = Mechanism::Gaussian { noise_multiplier: noise, sampling: Sampling::FullBatch, participations };
        let loss = pld::PrivacyLoss::new(&mechanism, Adjacency::AddRemove).unwrap();
        for delta in [1e-9, 1e-5] {
            let mu = at((participations as f64).sqrt()) / at(noise) / at(MORE_NOISE);
            let found = gaussian_delta(loss.epsilon(delta).unwrap(), mu);
            assert!(found.hi <= delta && found.lo >= delta * (1.0 - 1e-2), "noise {noise}: {found:?} of {delta}");
        }
    }
}
