//! Rényi differential privacy: the divergence curve α ↦ D_α of a mechanism and its conversion to (ε, δ)
//! (specification 2.3, 2.5).
//!
//! Divergences compose by addition at each order. The conversion is minimised over continuous orders; the function it
//! minimises is a convex one over a linear one and therefore has no local minima, so that nothing is lost to a grid.
//!
//! With K(α) = (α − 1)·D_α the curve of every pair of distributions is convex with K(1) = 0, which makes linear interpolation
//! of K between orders an upper bound.

use std::f64::consts::PI;

use super::accountant::Accountant;
use super::error::{self, PrivacyError};
use super::laplace;
use super::mechanism::Mechanism;
use super::sampling::Sampling;
use super::zcdp::Orders;
use crate::normal::LN_SQRT_2_PI;
use crate::problem::adjacency::Adjacency;

/// Orders α are searched over ln(α − 1) in this range, to this tolerance.
pub(super) const ORDERS: Orders = Orders(-12.0, 28.0, 1e-8);
/// Most nodes of one quadrature; beyond, orders are interpolated.
const MOST_NODES: f64 = 50_000.0;
/// Largest integer order whose binomial sum is evaluated.
const MOST_TERMS: f64 = 20_000.0;

/// D_α = αμ²/2 of the Gaussian mechanism with μ = sensitivity / noise standard deviation [002 Prop 5.2].
pub fn gaussian(order: f64, mu: f64) -> f64 {
    0.5 * order * mu * mu
}

/// D_α of the Laplace mechanism with ε₀ = L1 sensitivity / scale (Mironov 2017, Table II):
/// ln(α/(2α−1)·e^{(α−1)ε₀} + (α−1)/(2α−1)·e^{−αε₀}) / (α − 1), without cancellation for small ε₀.
pub fn laplace(order: f64, epsilon: f64) -> f64 {
    let (alpha, x) = (order, order - 1.0);
    if alpha * epsilon < 0.1 {
        // Σ_{k ≥ 2} αx (x^{k−1} − (−α)^{k−1})/(x + α) ε^k/k!, which has no first-order term.
        let (mut term, mut power_x, mut power_alpha) = (epsilon, 1.0, 1.0);
        let mut sum = 0.0;
        for k in 2..16 {
            term *= epsilon / f64::from(k);
            power_x *= x;
            power_alpha *= -alpha;
            sum += term * (power_x - power_alpha);
        }
        return (alpha * x / (x + alpha) * sum).ln_1p() / x;
    }
    let (first, second) = (alpha / (2.0 * alpha - 1.0), x / (2.0 * alpha - 1.0));
    if x * epsilon > 30.0 {
        epsilon + (first + second * (-(x + alpha) * epsilon).exp()).ln() / x
    } else {
        (first * (x * epsilon).exp_m1() + second * (-alpha * epsilon).exp_m1()).ln_1p() / x
    }
}

/// The largest D_α of an ε-DP mechanism, that of randomised response: ln(p e^{(α−1)ε} + (1 − p) e^{−(α−1)ε}) / (α − 1)
/// with p = e^ε/(1 + e^ε) (every ε-DP mechanism post-processes it: Kairouz–Oh–Viswanath 2015).
pub fn randomized_response(order: f64, epsilon: f64) -> f64 {
    let x = order - 1.0;
    let y = x * epsilon;
    if y > 30.0 {
        let keep = 1.0 / (1.0 + (-epsilon).exp());
        epsilon + (keep + (1.0 - keep) * (-2.0 * y).exp()).ln() / x
    } else {
        let half = (0.5 * y).sinh();
        (2.0 * half * half + (0.5 * epsilon).tanh() * y.sinh()).ln_1p() / x
    }
}

/// ln g with g = f^a − 1 − a(f − 1) ≥ 0 at f = 1 − q + q·e^`exponent`, for a power a > 1 or a < 0. No cancellation: g keeps
/// its relative precision for f next to 1 and a next to 1.
fn log_convex_gap(power: f64, rate: f64, exponent: f64) -> f64 {
    let x = power - 1.0;
    let u = if exponent < 700.0 { rate * exponent.exp_m1() } else { f64::INFINITY };
    if u.abs() < 0.05 && (power * u).abs() < 0.5 {
        let mut term = 0.5 * power * x * u * u;
        let mut sum = term;
        let mut k = 2.0;
        while term.abs() > 1e-18 * sum.abs() && k < 60.0 {
            term *= (power - k) / (k + 1.0) * u;
            sum += term;
            k += 1.0;
        }
        return sum.ln();
    }
    let log = if exponent > 30.0 {
        exponent + rate.ln() + ((1.0 - rate) / rate * (-exponent).exp()).ln_1p()
    } else {
        u.ln_1p()
    };
    let lifted = x * log;
    if lifted > 600.0 { power * log } else { log + (lifted.exp_m1() + x * (-log).exp_m1()).ln() }
}

/// Spacing and range of the trapezoidal rule for E_{z ~ N(0, s²)}[h(f(z))], f(z) = 1 − q + q·e^{(2z−1)/2s²}.
///
/// The rule converges like e^{−2πd/spacing} with d the distance to which the integrand continues into the complex plane:
/// the Gaussian lets it go anywhere at the price e^{d²/2s²}, f has its zeros at distance πs² (half of which is used for
/// negative powers, which have poles there).
fn trapezoid(power: f64, noise: f64) -> (f64, f64, f64) {
    let distance = if power < 0.0 { 0.5 * PI * noise * noise } else { PI * noise * noise };
    let free = 0.72 * noise;
    let best = 2.0 * PI * noise * noise / free;
    let spacing = if best <= distance {
        free
    } else {
        // 2πd/spacing − d²/2s² ≥ 39.
        2.0 * PI * distance / (39.0 + 0.5 * (distance / noise).powi(2))
    };
    (spacing, -9.6 * noise, power.max(2.0) + 9.6 * noise)
}

/// ln(A) with A = E_{z ~ N(0, s²)}[f(z)^a]; A − 1 is computed by itself, as an integral of a non-negative function.
/// Nothing where that takes too many nodes.
fn log_moment_by_quadrature(power: f64, rate: f64, noise: f64) -> Option<f64> {
    let (spacing, lower, upper) = trapezoid(power, noise);
    let nodes = (upper - lower) / spacing;
    if nodes > MOST_NODES {
        return None;
    }
    let variance = noise * noise;
    let logs: Vec<f64> = (0..=nodes.ceil() as usize)
        .map(|index| {
            let z = lower + spacing * index as f64;
            log_convex_gap(power, rate, (2.0 * z - 1.0) / (2.0 * variance)) - 0.5 * z * z / variance
        })
        .collect();
    let log_excess = log_sum_exp(&logs) + (spacing / noise).ln() - LN_SQRT_2_PI;
    Some(log_one_plus_exp(log_excess))
}

/// ln(A) at an integer order by the binomial sum [Mironov–Talwar–Zhang 2019]; Σ_k C(α,k)(1−q)^{α−k}q^k = 1 is taken out, so
/// that every term is positive and A − 1 keeps its relative precision.
fn log_moment_by_binomials(order: f64, rate: f64, noise: f64) -> f64 {
    let (log_rate, log_rest) = (rate.ln(), (-rate).ln_1p());
    log_one_plus_binomials(order, |k, log_binomial| {
        let exponent = k * (k - 1.0) / (2.0 * noise * noise);
        let log_expm1 = if exponent > 40.0 { exponent + (-(-exponent).exp()).ln_1p() } else { exponent.exp_m1().ln() };
        log_binomial + (order - k) * log_rest + k * log_rate + log_expm1
    })
}

/// ln(1 + Σ_{k=2}^α e^{`log_term`(k, ln C(α, k))}).
fn log_one_plus_binomials(order: f64, log_term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut log_binomial = 0.0;
    let mut logs = Vec::with_capacity(order as usize);
    for step in 1..=order as usize {
        let k = step as f64;
        log_binomial += ((order - k + 1.0) / k).ln();
        if step >= 2 {
            logs.push(log_term(k, log_binomial));
        }
    }
    log_one_plus_exp(log_sum_exp(&logs))
}

/// K(α) = ln E_{z ~ N(0, s²)}[(1 − q + q·e^{(2z−1)/2s²})^α] for α > 1: exact by quadrature or by the binomial sum, and where
/// both would be long an upper bound (interpolated between integers, or without amplification).
fn subsampled_log_moment(order: f64, rate: f64, noise: f64) -> f64 {
    let unamplified = 0.5 * order * (order - 1.0) / (noise * noise);
    if rate == 1.0 {
        return unamplified;
    }
    let integer = order.fract() == 0.0;
    if integer && order <= 64.0 {
        return log_moment_by_binomials(order, rate, noise);
    }
    if let Some(exact) = log_moment_by_quadrature(order, rate, noise) {
        return exact;
    }
    if order >= MOST_TERMS {
        return unamplified;
    }
    if integer {
        return log_moment_by_binomials(order, rate, noise);
    }
    between_integers(order, |order| match order {
        ..2.0 => 0.0,
        _ => log_moment_by_binomials(order, rate, noise),
    })
}

/// K(α) from K at the integers around it, an upper bound.
fn between_integers(order: f64, at: impl Fn(f64) -> f64) -> f64 {
    let (below, fraction) = (order.floor(), order.fract());
    let above = if fraction > 0.0 { at(below + 1.0) } else { 0.0 };
    (1.0 - fraction) * at(below) + fraction * above
}

/// D_α of one step of the Poisson-subsampled Gaussian mechanism, add/remove or zero-out adjacency, the larger of the two
/// directions [Mironov–Talwar–Zhang 2019]: ln(E_{z ~ N(0, s²)}[(1 − q + q·e^{(2z−1)/2s²})^α]) / (α − 1).
///
/// Exact to about 1e-12 relative at fractional and integer orders alike, as an integral of a positive function; where that
/// or the binomial sum needs too many terms (noise below about 0.02, huge orders) an upper bound.
///
/// # Errors
/// [`PrivacyError::OutOfRange`] unless α > 1, q ∈ (0, 1] and the noise multiplier is positive, all finite.
pub fn poisson_subsampled_gaussian(order: f64, rate: f64, noise_multiplier: f64) -> Result<f64, PrivacyError> {
    error::order(order)?;
    error::rate(rate)?;
    error::noise_multiplier(noise_multiplier)?;
    Ok(subsampled_log_moment(order, rate, noise_multiplier) / (order - 1.0))
}

/// ln E_P[e^{λℓ}] of the mixture against its centre (removal), λ > 0; an upper bound where it is costly.
pub(super) fn removal_cumulant(lambda: f64, rate: f64, noise: f64) -> f64 {
    subsampled_log_moment(lambda + 1.0, rate, noise)
}

/// ln E_P[e^{λℓ}] of the centre against the mixture (addition), λ > 0, never above [`removal_cumulant`]
/// [Mironov–Talwar–Zhang 2019, Thm 5], which stands in where it is costly.
pub(super) fn addition_cumulant(lambda: f64, rate: f64, noise: f64) -> f64 {
    log_moment_by_quadrature(-lambda, rate, noise).unwrap_or_else(|| removal_cumulant(lambda, rate, noise))
}

/// The Gaussian mechanism on a batch drawn without replacement, replace-one adjacency: the ternary bound of
/// Wang–Balle–Kasiviswanathan 2019, Theorem 27,
///
/// A ≤ 1 + Σ_{j=2}^α C(α,j) γ^j ζ_j,  ζ₂ = min(4(e^{D₂}−1), 2e^{D₂}),
/// ζ_j = min(4√(B_{2⌊j/2⌋}·B_{2⌈j/2⌉}), 2e^{(j−1)D_j}),
///
/// with B_ℓ = E[(dP/dQ − 1)^ℓ] for even ℓ, here integrals of positive functions rather than alternating sums. Integer orders;
/// between them K is interpolated.
#[derive(Debug, Clone)]
pub struct WithoutReplacement {
    rate: f64,
    mu: f64,
    /// ln ζ_j for j = 0, 1, …; entries 0 and 1 are unused.
    log_zeta: Vec<f64>,
}

impl WithoutReplacement {
    /// Terms with the sharp factor; beyond, ζ_j = 2e^{(j−1)D_j}.
    const SHARP_TERMS: usize = 256;

    /// `rate` = m/n and μ = sensitivity under replace-one / noise standard deviation.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless the rate lies in (0, 1] and μ is positive and finite.
    pub fn new(rate: f64, mu: f64) -> Result<Self, PrivacyError> {
        error::rate(rate)?;
        error::positive(mu, "mu", "it is sensitivity / noise standard deviation")?;
        let even: Vec<f64> = (0..=Self::SHARP_TERMS / 2).map(|half| Self::log_even_moment(2 * half, mu)).collect();
        let log_zeta = (0..=Self::SHARP_TERMS)
            .map(|j| {
                let plain = std::f64::consts::LN_2 + Self::log_ratio_moment(j as f64, mu);
                let sharp = if j == 2 {
                    // 4(e^{D₂} − 1) with D₂ = μ².
                    4.0_f64.ln() + if mu * mu > 40.0 { mu * mu } else { (mu * mu).exp_m1().ln() }
                } else {
                    4.0_f64.ln() + 0.5 * (even[j / 2] + even[j.div_ceil(2)])
                };
                plain.min(sharp)
            })
            .collect();
        Ok(Self { rate, mu, log_zeta })
    }

    /// (j − 1)·D_j = j(j − 1)μ²/2.
    fn log_ratio_moment(j: f64, mu: f64) -> f64 {
        0.5 * j * (j - 1.0) * mu * mu
    }

    /// ln E_{z ~ N(0,1)}[(e^{μz − μ²/2} − 1)^ℓ] for even ℓ, by the trapezoidal rule (an entire integrand: error e^{−π²/h²}).
    fn log_even_moment(exponent: usize, mu: f64) -> f64 {
        const SPACING: f64 = 0.4;
        let power = exponent as f64;
        let reach = power.sqrt() + 10.0;
        let (lower, upper) = (-reach, reach.max(power * mu + 10.0));
        let logs: Vec<f64> = (0..=((upper - lower) / SPACING).ceil() as usize)
            .map(|index| {
                let z = lower + SPACING * index as f64;
                let e = mu * z - 0.5 * mu * mu;
                let log_gap = if e > 40.0 { e } else { e.exp_m1().abs().ln() };
                let gap = if exponent == 0 { 0.0 } else { power * log_gap };
                gap - 0.5 * z * z
            })
            .collect();
        log_sum_exp(&logs) + SPACING.ln() - LN_SQRT_2_PI
    }

    /// K(α) at an integer order, never above that of the unsampled mechanism.
    fn log_moment(&self, order: f64) -> f64 {
        let unamplified = Self::log_ratio_moment(order, self.mu);
        if order < 2.0 {
            return 0.0;
        }
        if order > MOST_TERMS {
            return unamplified;
        }
        let log_rate = self.rate.ln();
        let log_moment = log_one_plus_binomials(order, |j, log_binomial| {
            let plain = || std::f64::consts::LN_2 + Self::log_ratio_moment(j, self.mu);
            log_binomial + j * log_rate + self.log_zeta.get(j as usize).copied().unwrap_or_else(plain)
        });
        log_moment.min(unamplified)
    }

    /// D_α for α > 1.
    pub fn divergence(&self, order: f64) -> f64 {
        if self.rate == 1.0 {
            return gaussian(order, self.mu);
        }
        let log_moment = between_integers(order, |order| self.log_moment(order));
        (log_moment / (order - 1.0)).min(gaussian(order, self.mu))
    }
}

/// One kind of step of a curve.
#[derive(Debug, Clone)]
enum Part {
    Gaussian { mu: f64 },
    Poisson { rate: f64, noise: f64, steps: f64 },
    WithoutReplacement { curve: WithoutReplacement, steps: f64 },
    Laplace { epsilon: f64, steps: f64 },
    Pure { epsilon: f64, steps: f64 },
}

/// α ↦ D_α of a whole mechanism.
#[derive(Debug, Clone)]
pub struct RenyiCurve {
    parts: Vec<Part>,
}

impl RenyiCurve {
    /// The curve of `mechanism`; it covers every mechanism there is.
    ///
    /// # Errors
    /// Whatever [`Mechanism::check`] finds.
    pub fn new(mechanism: &Mechanism, adjacency: Adjacency) -> Result<Self, PrivacyError> {
        mechanism.check(adjacency)?;
        let mut parts: Vec<Part> = Vec::new();
        let mut mu_squared = 0.0;
        for step in mechanism.steps() {
            if let Some(mu) = step.gaussian_mu(adjacency) {
                mu_squared += mu * mu;
            } else if let Some((epsilon, count)) = laplace::step_epsilon(step) {
                let steps = count as f64;
                parts.push(if laplace::is_plain(step) {
                    Part::Laplace { epsilon, steps }
                } else {
                    Part::Pure { epsilon, steps }
                });
            } else if let Mechanism::SubsampledGaussian { noise_multiplier, sampling, steps } = *step {
                let steps = steps as f64;
                parts.push(match sampling {
                    Sampling::Poisson { rate } => Part::Poisson { rate, noise: noise_multiplier, steps },
                    Sampling::WithoutReplacement { batch, population } => {
                        let rate = batch as f64 / population as f64;
                        let mu = sampling.row_change_factor(adjacency) / noise_multiplier;
                        Part::WithoutReplacement { curve: WithoutReplacement::new(rate, mu)?, steps }
                    }
                    Sampling::FullBatch
                    | Sampling::FixedOrder
                    | Sampling::ShuffledOnce
                    | Sampling::ReshuffledEachEpoch => {
                        return Err(error::refused(Accountant::Rdp, step.name(), "its sampler does not amplify"));
                    }
                });
            }
        }
        if mu_squared > 0.0 {
            parts.push(Part::Gaussian { mu: f64::sqrt(mu_squared) });
        }
        Ok(Self { parts })
    }

    /// D_α, the sum over all steps.
    pub(super) fn divergence_at(&self, order: f64) -> f64 {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Gaussian { mu } => gaussian(order, *mu),
                Part::Poisson { rate, noise, steps } => {
                    steps * subsampled_log_moment(order, *rate, *noise) / (order - 1.0)
                }
                Part::WithoutReplacement { curve, steps } => steps * curve.divergence(order),
                Part::Laplace { epsilon, steps } => steps * laplace(order, *epsilon),
                Part::Pure { epsilon, steps } => steps * randomized_response(order, *epsilon),
            })
            .sum()
    }

    /// (ε, α): the smallest ε at δ over all orders, and the order that gives it.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless δ ∈ (0, 1).
    pub fn epsilon(&self, delta: f64) -> Result<(f64, f64), PrivacyError> {
        error::delta(delta)?;
        Ok(ORDERS.epsilon(delta, |order| self.divergence_at(order)))
    }

    /// (δ, α): the smallest δ at ε over all orders, at most 1, and the order that gives it.
    ///
    /// # Errors
    /// [`PrivacyError::OutOfRange`] unless ε > 0 is finite.
    pub fn delta(&self, epsilon: f64) -> Result<(f64, f64), PrivacyError> {
        error::target_epsilon(epsilon)?;
        Ok(ORDERS.delta(epsilon, |order| self.divergence_at(order)))
    }
}

/// ln Σ e^{x_i}; −∞ for an empty sum.
fn log_sum_exp(logs: &[f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest.is_infinite() {
        return largest;
    }
    largest + logs.iter().map(|log| (log - largest).exp()).sum::<f64>().ln()
}

/// ln(1 + e^x).
fn log_one_plus_exp(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

#[cfg(test)]
mod tests;
