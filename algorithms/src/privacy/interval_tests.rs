//! Accountants against outward-rounded interval arithmetic: what they state is an upper bound with its numerics, for the noise of a
//! release, which exceeds the accounted one. An interval holds the exact value of its formula, provided that `exp`, `exp_m1`, `ln`,
//! `ln_1p` and `pow` of the platform are right to four units in the last place.

use std::f64::consts::TAU;
use std::ops::{Add, Div, Mul, Sub};

use super::examples::{laplace, poisson, without_replacement};
use super::zcdp::log_conversion;
use super::{Accountant, Adjacency, Mechanism, Sampling, gaussian, laplace as pure, pld, rdp, zcdp};

/// An eighth of what a release's noise exceeds the accounted one by (2⁻²⁴); rounding of sensitivities takes at most half.
const MORE_NOISE: f64 = 1.0 + 1.0 / 134_217_728.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) lo: f64,
    pub(super) hi: f64,
}

/// The interval of one number.
pub(super) const fn at(value: f64) -> Interval {
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

    pub(super) fn exp(self) -> Self {
        self.monotone(f64::exp)
    }

    fn ln(self) -> Self {
        self.monotone(f64::ln)
    }

    pub(super) fn exp_m1(self) -> Self {
        self.monotone(f64::exp_m1)
    }

    fn ln_1p(self) -> Self {
        self.monotone(f64::ln_1p)
    }

    /// |x|^`power`.
    fn power_of_magnitude(self, power: f64) -> Self {
        let (lo, hi) = (self.lo.max(-self.hi).max(0.0), self.hi.max(-self.lo));
        let Self { lo, hi } = Self { lo, hi }.monotone(|value| value.powf(power));
        Self { lo: lo.max(0.0), hi }
    }

    /// The lesser of two numbers.
    fn min(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.min(other.hi) }
    }
}

/// Numbers from a fixed seed, uniform on a logarithmic scale between two ends.
struct Draws(u64);

impl Draws {
    fn between(&mut self, lowest: f64, highest: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (self.0 >> 33) as f64 / (1_u64 << 31) as f64;
        (lowest.ln() + share * (highest / lowest).ln()).exp()
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

/// `stated` is an upper bound on the ε at δ for the noise of a release, and not for a millionth less than the accounted one;
/// `log_moment` is K(α) for noise by this factor.
fn assert_states(stated: f64, (order, delta): (f64, f64), log_moment: impl Fn(f64) -> Interval, what: &str) {
    let found = |factor| converted(log_moment(factor), order - 1.0, delta);
    let (released, less) = (found(MORE_NOISE), found(1.0 - 1e-6));
    assert!(released.hi <= stated && stated < less.lo, "{what} at order {order}: {stated} in {released:?} to {less:?}");
}

#[test]
fn renyi_accounting_of_poisson_batches_states_upper_bounds() {
    let mut draws = Draws(5);
    let drawn = std::iter::repeat_with(|| (draws.between(1e-3, 0.6), draws.between(0.6, 20.0))).take(20);
    for (rate, noise) in [(0.5, 2.0), (0.01, 0.7), (0.002, 0.6), (0.3, 20.0)].into_iter().chain(drawn) {
        let mechanism = poisson(noise, rate, 1000);
        for delta in [1e-9, 1e-5] {
            let (epsilon, order) = rdp::ORDERS
                .epsilon(delta, |order| 1000.0 * rdp::poisson_subsampled_gaussian(order, rate, noise).unwrap());
            let stated = Accountant::Rdp.epsilon(&mechanism, Adjacency::AddRemove, delta).unwrap();
            assert!((stated / epsilon - 1.0).abs() < 1e-12, "{stated} {epsilon}");
            let log_moment = |factor| at(1000.0) * subsampled_log_moment(order, rate, at(noise) * at(factor));
            assert_states(stated, (order, delta), log_moment, &format!("rate {rate}, noise {noise}"));
        }
    }
}

/// E[(e^{μz − μ²/2} − 1)^ℓ] for even ℓ: the trapezoidal rule. On the lines z ± id its integrand is at most
/// (e^{μz − μ²/2} + 1)^ℓ·e^{d²/2}·φ(z), whose integral over both, divided by e^{2πd/spacing} − 1, bounds the error.
fn even_moment(exponent: f64, mu: Interval) -> Interval {
    const DISTANCE: f64 = 6.0;
    // 2πd/spacing − d²/2 ≥ 50 + ℓ·ln(3/μ), since the moment is about μ^ℓ and the bound 2^ℓ.
    let spacing = TAU * DISTANCE / (50.0 + 0.5 * DISTANCE * DISTANCE + exponent * (3.0 / mu.lo).ln().max(1.0));
    let (from, to) = (-14.0 - exponent.sqrt(), 14.0 + exponent.sqrt() + exponent * mu.hi);
    let (mut sum, mut bound) = (at(0.0), at(0.0));
    for node in (from / spacing).floor() as i64..=(to / spacing).ceil() as i64 {
        let z = at(node as f64) * at(spacing);
        let shifted = mu * z - at(0.5) * mu * mu;
        let weight = (at(-0.5) * z * z).exp();
        sum = sum + shifted.exp_m1().power_of_magnitude(exponent) * weight;
        bound = bound + (shifted.exp() + at(1.0)).power_of_magnitude(exponent) * weight;
    }
    let scale = at(spacing) / root_two_pi();
    let decay = (at(0.5 * DISTANCE * DISTANCE) - at(TAU * DISTANCE) / at(spacing)).exp();
    // Twice: two lines; once more, for the nodes stand for the integral, and those beyond the range are below e^{−90} of it.
    let error = (at(4.0) * bound * scale * decay).hi;
    sum * scale + Interval { lo: -error, hi: error }
}

/// [Wang–Balle–Kasiviswanathan 2019, Theorem 27] at an integer order, never above the Gaussian mechanism's.
fn log_moment_without_replacement(order: u32, rate: f64, mu: Interval, even: &[Interval]) -> Interval {
    let square = mu * mu;
    let unsampled = |j: u32| at(0.5 * f64::from(j) * f64::from(j - 1)) * square;
    let (mut sum, mut binomial, mut power) = (at(1.0), at(f64::from(order)), at(rate));
    for j in 2..=order {
        binomial = binomial * at(f64::from(order - j + 1)) / at(f64::from(j));
        power = power * at(rate);
        let sharp = match j {
            2 => square.exp_m1(),
            _ => (even[j as usize / 2] * even[j.div_ceil(2) as usize]).power_of_magnitude(0.5),
        };
        sum = sum + binomial * power * (at(4.0) * sharp).min(at(2.0) * unsampled(j).exp());
    }
    if order < 2 { at(0.0) } else { sum.ln().min(unsampled(order)) }
}

#[test]
fn renyi_accounting_without_replacement_states_upper_bounds() {
    let mut draws = Draws(6);
    let mut count = 0;
    for _ in 0..30 {
        let (batch, noise) = (draws.between(10.0, 6e3) as usize, draws.between(2.0, 40.0));
        let steps = draws.between(1.0, 2e3).floor();
        let mechanism = without_replacement(noise, batch, 60_000, steps as usize);
        let rate = batch as f64 / 60_000.0;
        for (delta, adjacency) in [(1e-9, Adjacency::ReplaceOne), (1e-5, Adjacency::ZeroOut)] {
            let (stated, order) = rdp::RenyiCurve::new(&mechanism, adjacency).unwrap().epsilon(delta).unwrap();
            // Longer sums take the test long.
            if order > 120.0 {
                continue;
            }
            let log_moment = |factor| {
                let mu = at(2.0) / (at(noise) * at(factor));
                let even: Vec<_> =
                    (0..=order as u32 / 2 + 1).map(|half| even_moment(2.0 * f64::from(half), mu)).collect();
                let at_integer = |order: u32| log_moment_without_replacement(order, rate, mu, &even);
                let (below, fraction) = (order.floor() as u32, at(order) - at(order.floor()));
                at(steps) * ((at(1.0) - fraction) * at_integer(below) + fraction * at_integer(below + 1))
            };
            assert_states(stated, (order, delta), log_moment, &format!("batch {batch}, noise {noise}, {steps} steps"));
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}

#[test]
fn accounting_of_laplace_noise_states_upper_bounds() {
    let mut draws = Draws(7);
    let mut count = 0;
    for _ in 0..60 {
        let (scale, rate) = (draws.between(0.5, 60.0), draws.between(1e-3, 1.0));
        let steps = draws.between(1.0, 500.0).floor();
        let plain = laplace(scale, 1.0, steps as usize);
        let sampling = Sampling::Poisson { rate };
        let amplified = Mechanism::Laplace { scale, l1_sensitivity: 1.0, sampling, steps: steps as usize };
        for (mechanism, is_plain) in [(&plain, true), (&amplified, false)] {
            let what = format!("{mechanism:?}");
            let epsilon = |factor| {
                let inner = at(1.0) / (at(scale) * at(factor));
                if is_plain { inner } else { (at(rate) * inner.exp_m1()).ln_1p() }
            };
            let stated = pure::pure_epsilon(mechanism, Adjacency::AddRemove).unwrap();
            let (released, less) = (at(steps) * epsilon(MORE_NOISE), at(steps) * epsilon(1.0 - 1e-6));
            assert!(released.hi <= stated && stated < less.lo, "{what}: {stated} in {released:?} to {less:?}");
            for delta in [1e-9, 1e-5] {
                let curve = rdp::RenyiCurve::new(mechanism, Adjacency::AddRemove).unwrap();
                let (stated, order) = curve.epsilon(delta).unwrap();
                // Great orders are those of the pure ε.
                if order > 1e5 || stated < 1e-3 {
                    continue;
                }
                let log_moment = |factor| {
                    let (epsilon, alpha, x) = (epsilon(factor), at(order), at(order - 1.0));
                    // (weight, power) of the smaller term beside e^{xε}: Mironov 2017, Table II; randomised response.
                    let (ratio, power) =
                        if is_plain { (x / alpha, alpha + x) } else { ((at(0.0) - epsilon).exp(), at(2.0) * x) };
                    let decay = (at(0.0) - power * epsilon).exp();
                    at(steps) * (x * epsilon + ((at(1.0) + ratio * decay) / (at(1.0) + ratio)).ln())
                };
                assert_states(stated, (order, delta), log_moment, &what);
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
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
