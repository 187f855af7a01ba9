//! The division of a privacy budget among rounds [003 (3.3)–(3.5), (4.4)–(4.6), Prop. 4.2], and the same for Gaussian noise
//! under zCDP (specification 6.3, 10.4).
//!
//! | noise | least Σ a_t·b_t² (or a_t·s_t²) subject to | allocation |
//! | --- | --- | --- |
//! | Laplace, m = n | Σ S_1/(n·b_t) = ε | ε_t ∝ a_t^{1/3} |
//! | Laplace, m < n | Σ ln(1 + (m/n)(e^{S_1/(m·b_t)} − 1)) = ε | numerical, convex |
//! | Gaussian, m = n | Σ S_2²/(2n²s_t²) = ρ | ρ_t ∝ a_t^{1/2} |

use super::{TheoryError, within};

/// ε/T for every round.
///
/// # Errors
/// No rounds, or an ε that is not above 0.
pub fn uniform(total: f64, rounds: usize) -> Result<Vec<f64>, TheoryError> {
    let valid = total > 0.0 && total.is_finite();
    within("the privacy budget", total, "above 0 and finite", valid)?;
    within("the number of rounds", rounds as f64, "at least 1", rounds > 0)?;
    Ok(within_total(vec![total / rounds as f64; rounds], total))
}

/// `ε_t = ε·a_t^{1/3}/Σ_j a_j^{1/3}` [003 (4.5)]; optimal for Laplace noise when m = n, a guide when m < n
/// [003 Remark 4.2].
///
/// # Errors
/// As [`uniform`]; a round that would get nothing.
pub fn laplace(log_weights: &[f64], total: f64) -> Result<Vec<f64>, TheoryError> {
    proportional(log_weights, 3.0, total)
}

/// `ρ_t = ρ·a_t^{1/2}/Σ_j a_j^{1/2}`: optimal for Gaussian noise, m = n (specification 6.3).
///
/// # Errors
/// As [`laplace`].
pub fn gaussian(log_weights: &[f64], total: f64) -> Result<Vec<f64>, TheoryError> {
    proportional(log_weights, 2.0, total)
}

fn proportional(log_weights: &[f64], root: f64, total: f64) -> Result<Vec<f64>, TheoryError> {
    uniform(total, log_weights.len())?;
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let share = |weight: &f64| ((weight - largest) / root).exp();
    let shares: Vec<f64> = log_weights.iter().map(share).collect();
    let sum: f64 = shares.iter().sum();
    fed(shares.into_iter().map(|share| share / sum * total), total)
}

/// The solution of (4.4) for m < n: minimises `Σ a_t/g(ε_t)²` (b_t ∝ 1/g) subject to Σ ε_t = ε.
///
/// g is concave, so the problem is convex and its optimality condition `a_t·g′(ε_t)/g(ε_t)³ = λ` has a left side that
/// decreases in ε_t: a safeguarded Newton iteration in ln ε_t inside a bisection on ln λ. Equal to [`laplace`] at m = n.
///
/// # Errors
/// As [`laplace`].
pub fn laplace_subsampled(
    log_weights: &[f64],
    total: f64,
    batch: usize,
    population: usize,
) -> Result<Vec<f64>, TheoryError> {
    if batch == population {
        return laplace(log_weights, total);
    }
    uniform(total, log_weights.len())?;
    let amplification = Amplification { ratio: population as f64 / batch as f64 };
    let largest = log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let ceiling = total.ln();
    let mut logs = vec![(total / log_weights.len() as f64).ln(); log_weights.len()];
    let mut spend = |multiplier: f64| -> f64 {
        log_weights
            .iter()
            .zip(&mut logs)
            .map(|(weight, log)| {
                *log = amplification.inverse_slope(multiplier - weight, *log, ceiling);
                log.exp()
            })
            .sum()
    };
    // At `low` the heaviest round alone spends ε; at `high` no round spends more than ε/T.
    let mut low = largest + amplification.log_slope(ceiling).0;
    let mut high = largest + amplification.log_slope((total / log_weights.len() as f64).ln()).0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if spend(middle) > total {
            low = middle;
        } else {
            high = middle;
        }
    }
    spend(high);
    let epsilons: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
    let sum: f64 = epsilons.iter().sum();
    fed(epsilons.into_iter().map(|epsilon| epsilon * (total / sum)), total)
}

/// g(ε) = ln(1 + r(e^ε − 1)), r = n/m ≥ 1.
struct Amplification {
    ratio: f64,
}

impl Amplification {
    /// `ln(g′(ε)/g(ε)³)` at ε = e^u, and its derivative in u, which is negative.
    fn log_slope(&self, log_epsilon: f64) -> (f64, f64) {
        let epsilon = log_epsilon.exp();
        let value = (self.ratio * epsilon.exp_m1()).ln_1p();
        // g′ = r·e^ε/(1 + r(e^ε − 1)), so ln g′ = ln r + ε − g and g″/g′ = 1 − g′.
        let log_derivative = self.ratio.ln() + epsilon - value;
        let derivative = log_derivative.exp();
        (log_derivative - 3.0 * value.ln(), epsilon * (1.0 - derivative - 3.0 * derivative / value))
    }

    /// The u ≤ `ceiling` with `ln(g′/g³) = wanted`, from the guess `start`.
    fn inverse_slope(&self, wanted: f64, start: f64, ceiling: f64) -> f64 {
        let (mut low, mut high) = (-700.0, ceiling);
        if self.log_slope(high).0 >= wanted {
            return high;
        }
        let mut point = start.clamp(low, high);
        for _ in 0..100 {
            let (value, derivative) = self.log_slope(point);
            let difference = value - wanted;
            if difference > 0.0 {
                low = point;
            } else {
                high = point;
            }
            let newton = point - difference / derivative;
            let inside = newton > low && newton < high;
            let next = if inside { newton } else { 0.5 * (low + high) };
            if (next - point).abs() <= 1e-15 * point.abs().max(1.0) {
                return next;
            }
            point = next;
        }
        point
    }
}

/// The allocation, shrunk so that its sum (rounding included) does not exceed `total`.
fn within_total(mut shares: Vec<f64>, total: f64) -> Vec<f64> {
    let margin = 1.0 - shares.len() as f64 * f64::EPSILON;
    let sum: f64 = shares.iter().sum();
    if sum > total * margin {
        let factor = total * margin / sum;
        for share in &mut shares {
            *share *= factor;
        }
    }
    shares
}

/// The allocation [`within_total`], unless some round got nothing.
fn fed(shares: impl Iterator<Item = f64>, total: f64) -> Result<Vec<f64>, TheoryError> {
    let shares = within_total(shares.collect(), total);
    match shares.iter().position(|share| !share.is_normal()) {
        Some(round) => Err(TheoryError::StarvedRound { round: round + 1, rounds: shares.len() }),
        None => Ok(shares),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::laplace::unamplified_epsilon;
    use crate::theory::Curvature;
    use crate::theory::multistage::Schedule;
    use crate::theory::tests::uniform_numbers;

    /// `Σ_t a_t·b_t²` with `b = 2/(m·ln(1 + (n/m)(e^ε − 1)))`, the scale with which a round spends ε at S_1 = 2, n = 1,000
    /// [003 (3.4)–(3.5)]: the quantity that the allocations minimise for Laplace noise.
    fn laplace_objective(log_weights: &[f64], epsilons: &[f64], batch: usize) -> f64 {
        let scale = |&epsilon: &f64| 2.0 / (batch as f64 * unamplified_epsilon(epsilon, batch as f64 / 1_000.0));
        let terms = log_weights.iter().zip(epsilons.iter().map(scale));
        terms.map(|(weight, scale)| weight.exp() * scale * scale).sum()
    }

    fn golden_weights() -> Vec<f64> {
        // specification 6.2: n = 1000, S = 2, ε = 1, T = 12, μ = 0.1, L = 1, α = 1.
        Schedule::constant(Curvature::new(0.1, 1.0).unwrap(), 1.0, 12).unwrap().log_weights()
    }

    #[test]
    fn the_golden_objectives_are_reproduced() {
        let weights = golden_weights();
        for (batch, exact, guided, equal) in
            [(10, 0.037_559_4, 0.038_469_9, 0.048_533_7), (100, 0.004_348_45, 0.004_364_33, 0.006_399_98)]
        {
            let objective = |epsilons: Vec<f64>| laplace_objective(&weights, &epsilons, batch);
            for (shares, golden) in [
                (laplace_subsampled(&weights, 1.0, batch, 1_000), exact),
                (laplace(&weights, 1.0), guided),
                (uniform(1.0, 12), equal),
            ] {
                let value = objective(shares.unwrap());
                assert!((value / golden - 1.0).abs() < 2e-6, "m = {batch}: {value} for {golden}");
            }
        }
    }

    #[test]
    fn no_feasible_competitor_is_better() {
        let weights = golden_weights();
        let mut uniform = uniform_numbers(7);
        for batch in [1, 10, 100, 500, 1_000] {
            let best = laplace_subsampled(&weights, 1.0, batch, 1_000).unwrap();
            let optimum = laplace_objective(&weights, &best, batch);
            for draw in 0..1_000 {
                // Far competitors (random simplex points) and near ones (small perturbations of the optimum).
                let size = if draw % 2 == 0 { 1.0 } else { 0.05 };
                let mut moved = |&epsilon: &f64| epsilon * (size * -uniform().ln()).exp();
                let raw: Vec<f64> = best.iter().map(&mut moved).collect();
                let sum: f64 = raw.iter().sum();
                let competitor: Vec<f64> = raw.iter().map(|value| value / sum).collect();
                let value = laplace_objective(&weights, &competitor, batch);
                assert!(optimum <= value * (1.0 + 1e-9), "m = {batch}: {value} < {optimum}");
            }
        }
    }

    #[test]
    fn the_closed_form_attains_the_published_optimum() {
        let weights = golden_weights();
        let optimum: f64 =
            weights.iter().map(|weight| (weight / 3.0).exp()).sum::<f64>().powi(3) * (2.0e-3_f64).powi(2);
        let value = laplace_objective(&weights, &laplace(&weights, 1.0).unwrap(), 1_000);
        assert!((value / optimum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn gaussian_shares_attain_their_optimum() {
        let weights = golden_weights();
        // s² = S_2²/(2n²ρ), S_2 = 2, n = 1,000.
        let shares = gaussian(&weights, 0.5).unwrap();
        let best: f64 = weights.iter().zip(&shares).map(|(w, rho)| w.exp() * 2e-6 / rho).sum();
        let optimum = weights.iter().map(|weight| (weight / 2.0).exp()).sum::<f64>().powi(2) * 4.0 / (2.0 * 0.5 * 1e6);
        assert!((best / optimum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn equal_weights_give_equal_shares() {
        for batch in [10, 1_000] {
            let shares = laplace_subsampled(&[0.3; 7], 2.0, batch, 1_000).unwrap();
            assert!(shares.iter().all(|share| (share / (2.0 / 7.0) - 1.0).abs() < 1e-12));
        }
    }

    #[test]
    fn shares_never_sum_to_more_than_the_budget() {
        for rounds in [1, 2, 3, 7, 100, 1_000] {
            let weights: Vec<f64> = (0..rounds).map(|t| f64::from(t) * 0.01).collect();
            for total in [0.1, 1.0, 3.0, 1e-3] {
                for shares in [
                    uniform(total, weights.len()),
                    laplace(&weights, total),
                    gaussian(&weights, total),
                    laplace_subsampled(&weights, total, 10, 1_000),
                ] {
                    let shares = shares.unwrap();
                    let forward: f64 = shares.iter().sum();
                    let backward: f64 = shares.iter().rev().sum();
                    assert!(forward <= total && backward <= total, "{forward} {backward} {total}");
                    assert!(forward > total * (1.0 - 1e-11));
                }
            }
        }
    }

    #[test]
    fn starved_rounds_and_empty_budgets_are_refused() {
        let starved = Err(TheoryError::StarvedRound { round: 1, rounds: 2 });
        assert_eq!(laplace(&[-3_000.0, 0.0], 1.0), starved);
        assert_eq!(laplace(&[f64::NEG_INFINITY, 0.0], 1.0), starved);
        assert!(laplace(&[], 1.0).is_err());
        assert!(uniform(0.0, 3).is_err());
        assert!(gaussian(&[0.0], f64::NAN).is_err());
    }
}
