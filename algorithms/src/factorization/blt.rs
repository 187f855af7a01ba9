//! Optimised buffered linear Toeplitz factorisations (BLT): almost optimal error with m vectors of memory.
//!
//! C has the coefficients c_0 = 1, c_i = Σ_{j ≤ m} ω_j θ_j^{i−1} [Dvijotham et al. 2024; McMahan et al. 2024]; so has C⁻¹,
//! with decays θ̂ that interlace: θ_1 > θ̂_1 > θ_2 > θ̂_2 > … The pair (θ, θ̂) determines both:
//! ω_j = ∏_i (θ_j − θ̂_i)/∏_{i≠j} (θ_j − θ_i), and ω̂_j with the roles exchanged. The optimiser works on interlaced pairs,
//! written as cumulative products of logistics, where every point is feasible and error and sensitivity have
//! gradients in O(T·m).

use super::dual::Objective;
use super::error::{FactorizationError, check_range, numerical};
use super::minimizer::minimize;
use super::participation::Participation;
use super::strategy::{Strategy, blt_coefficients};
use super::toeplitz::ToeplitzObjective;
use super::workload::Workload;

/// ω from an interlaced pair: ω_j = ∏_i (θ_j − θ̂_i)/∏_{i≠j} (θ_j − θ_i).
fn scales(theta: &[f64], theta_hat: &[f64]) -> Vec<f64> {
    let scale = |(j, decay): (usize, &f64)| {
        let numerator: f64 = theta_hat.iter().map(|other| decay - other).product();
        let others = theta.iter().enumerate().filter(|&(i, _)| i != j);
        numerator / others.map(|(_, other)| decay - other).product::<f64>()
    };
    theta.iter().enumerate().map(scale).collect()
}

/// The best BLT with `buffers` buffers that the optimiser finds, for the workload (its Toeplitz part, where it is not
/// Toeplitz) and the participation.
pub(crate) fn optimize(
    workload: &Workload,
    participation: &Participation,
    objective: Objective,
    buffers: usize,
) -> Result<Strategy, FactorizationError> {
    const MOST_STEPS: usize = 1000;
    let expected = "1 ≤ m ≤ 16: more buffers no longer lower the error in f64";
    check_range("buffers", buffers as f64, 1.0..17.0, expected)?;
    let rounds = workload.rounds();
    let target = ToeplitzObjective::new(workload, participation, objective);
    let loss = |point: &[f64]| loss(&target, rounds, point);
    let mut best: Option<(f64, Vec<f64>)> = None;
    for start in starts(rounds, &target.roots, buffers) {
        if let Some(found) = minimize(start, MOST_STEPS, loss)
            && let Some((value, _)) = loss(&found)
            && best.as_ref().is_none_or(|(least, _)| value < *least)
        {
            best = Some((value, found));
        }
    }
    let (_, point) = best.ok_or_else(|| numerical("the BLT optimiser", rounds))?;
    let (theta, theta_hat) = interlaced(&point);
    Ok(Strategy::Blt { rounds, omega: scales(&theta, &theta_hat), theta })
}

/// Pairs that place the memories 1/(1 − θ) geometrically between the first and the last round, for two upper ends.
fn starts(rounds: usize, roots: &[f64], buffers: usize) -> Vec<Vec<f64>> {
    let count = 2 * buffers;
    // With momentum or decay the coefficients are larger and fall later: start closer to the workload's own memory.
    let shortest = if roots.len() > 1 { 0.3 } else { 0.7 };
    [0.3, 3.0]
        .iter()
        .map(|reach| {
            let longest = (reach / rounds as f64).clamp(1e-12, 0.5);
            let mut previous = 1.0;
            (0..count)
                .map(|index| {
                    let position = index as f64 / (count - 1) as f64;
                    let decay = 1.0 - longest * (shortest / longest).max(1.0001).powf(position);
                    let ratio: f64 = (decay / previous).clamp(1e-9, 1.0 - 1e-12);
                    previous = decay;
                    (ratio / (1.0 - ratio)).ln()
                })
                .collect()
        })
        .collect()
}

/// θ and θ̂ from the variables: z_n = ∏_{l ≤ n} logistic(u_l), alternately θ and θ̂.
fn interlaced(point: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut product = 1.0;
    let values: Vec<f64> = point
        .iter()
        .map(|u| {
            product *= 1.0 / (1.0 + (-u).exp());
            product
        })
        .collect();
    let every_other = |first: usize| values.iter().skip(first).step_by(2).copied().collect();
    (every_other(0), every_other(1))
}

/// ln sens² + ln error² and its gradient in the logistic variables.
fn loss(target: &ToeplitzObjective, rounds: usize, point: &[f64]) -> Option<(f64, Vec<f64>)> {
    let (theta, theta_hat) = interlaced(point);
    let (omega, omega_hat) = (scales(&theta, &theta_hat), scales(&theta_hat, &theta));
    if !omega.iter().chain(&omega_hat).all(|value| value.is_finite()) {
        return None;
    }
    let (sensitivity, sensitivity_gradient) = target.squared_sensitivity(&blt_coefficients(rounds, &omega, &theta));
    let (error, error_gradient) = target.squared_error(&blt_coefficients(rounds, &omega_hat, &theta_hat));
    let mut theta_gradient = vec![0.0; theta.len()];
    let mut theta_hat_gradient = vec![0.0; theta.len()];
    let gradients = (&mut theta_gradient[..], &mut theta_hat_gradient[..]);
    add_parameter_gradient((&omega, &theta), &theta_hat, &sensitivity_gradient, 1.0 / sensitivity, gradients);
    let gradients = (&mut theta_hat_gradient[..], &mut theta_gradient[..]);
    add_parameter_gradient((&omega_hat, &theta_hat), &theta, &error_gradient, 1.0 / error, gradients);
    // ∂z_n/∂u_l = z_n·(1 − logistic(u_l)) for l ≤ n: suffix sums.
    let mut gradient = vec![0.0; point.len()];
    let mut suffix = 0.0;
    for index in (0..point.len()).rev() {
        let (value, slope) = if index % 2 == 0 {
            (theta[index / 2], theta_gradient[index / 2])
        } else {
            (theta_hat[index / 2], theta_hat_gradient[index / 2])
        };
        suffix += value * slope;
        gradient[index] = suffix / (1.0 + point[index].exp());
    }
    Some((sensitivity.ln() + error.ln(), gradient))
}

/// Adds the gradient in (own, other) of a function of the coefficients 1, Σ_j ω_j own_j^{i−1} with ω = ω(own, other).
fn add_parameter_gradient(
    (omega, own): (&[f64], &[f64]),
    other: &[f64],
    coefficient_gradient: &[f64],
    factor: f64,
    (own_gradient, other_gradient): (&mut [f64], &mut [f64]),
) {
    for (j, (&scale, &decay)) in omega.iter().zip(own).enumerate() {
        // Σ g_i decay^{i−1} and Σ g_i (i−1) decay^{i−2}.
        let (mut power, mut derivative) = (1.0, 0.0);
        let (mut by_scale, mut by_decay) = (0.0, 0.0);
        for value in &coefficient_gradient[1..] {
            by_scale += value * power;
            by_decay += value * derivative;
            derivative = derivative * decay + power;
            power *= decay;
        }
        own_gradient[j] += factor * scale * by_decay;
        // ∂ω_j = ω_j·(Σ_i (∂own_j − ∂other_i)/(own_j − other_i) − Σ_{i≠j} (∂own_j − ∂own_i)/(own_j − own_i)).
        let weight = factor * by_scale * scale;
        for (i, value) in other.iter().enumerate() {
            let share = weight / (decay - value);
            own_gradient[j] += share;
            other_gradient[i] -= share;
        }
        for (i, value) in own.iter().enumerate().filter(|&(i, _)| i != j) {
            let share = weight / (decay - value);
            own_gradient[j] -= share;
            own_gradient[i] += share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_gradient, prefix, sums};
    use super::super::toeplitz::{inverse_coefficients, square_root_coefficients};
    use super::*;
    use crate::vectors::dot;

    /// ω and θ for prefix sums, one participation and the worst row.
    fn best(rounds: usize, buffers: usize) -> (Vec<f64>, Vec<f64>) {
        let found = optimize(&prefix(rounds), &Participation::Single, Objective::Max, buffers).unwrap();
        let Strategy::Blt { omega, theta, .. } = found else { panic!("a BLT") };
        (omega, theta)
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        for (participation, objective, momentum) in [
            (Participation::Single, Objective::Max, 0.0),
            (Participation::FixedEpoch { epochs: 3 }, Objective::Frobenius, 0.9),
        ] {
            let workload = Workload::new(50, sums().with_momentum(momentum)).unwrap();
            let target = ToeplitzObjective::new(&workload, &participation, objective);
            let point = [3.0, 2.0, 1.5, 0.7, 0.3, -0.4];
            let (_, gradient) = loss(&target, 50, &point).unwrap();
            let value = |point: &[f64]| loss(&target, 50, point).unwrap().0;
            assert_gradient(&point, &gradient, (1e-5, 1e-7), value);
        }
    }

    #[test]
    fn buffers_are_the_reference_ones() {
        // ω, θ, and their tolerances: relative for ω and 1 − θ of two buffers, absolute for three.
        let two = ([0.012_285_323_8, 0.187_839_366_5], [0.999_952_889_2, 0.985_706_866_7]);
        let three = ([0.044_441, 0.120_545, 0.311_390], [0.998_973, 0.978_560, 0.743_284]);
        let (two, three) = ((&two.0[..], &two.1[..]), (&three.0[..], &three.1[..]));
        for (rounds, (omega, theta), tolerances) in [(100_000, two, [1e-5, 1e-5]), (1024, three, [2e-4, 2e-4])] {
            let found = best(rounds, omega.len());
            let scales = found.0.iter().copied().zip(omega.iter().copied());
            let memories = found.1.iter().zip(theta);
            let memories = memories.map(|(found, expected)| (1.0 - found, 1.0 - expected));
            for (pairs, tolerance) in [scales.collect::<Vec<_>>(), memories.collect()].iter().zip(tolerances) {
                let scale = |expected: f64| if omega.len() == 2 { expected } else { 1.0 };
                let close = |&(found, expected): &(f64, f64)| (found - expected).abs() < tolerance * scale(expected);
                assert!(pairs.iter().all(close), "{found:?}");
            }
        }
    }

    #[test]
    fn few_buffers_come_within_the_reference_ratios_of_the_square_root() {
        let root = square_root_coefficients(1024, &[1.0]);
        let optimum = dot(&root, &root);
        for (buffers, expected) in [(1, 1.181), (2, 1.0175), (3, 1.0015), (4, 1.0004)] {
            let (omega, theta) = best(1024, buffers);
            let coefficients = blt_coefficients(1024, &omega, &theta);
            let target = ToeplitzObjective::new(&prefix(1024), &Participation::Single, Objective::Max);
            let sensitivity = target.squared_sensitivity(&coefficients).0;
            let error = target.squared_error(&inverse_coefficients(&coefficients).unwrap()).0;
            let ratio = (sensitivity * error).sqrt() / optimum;
            // The reference gives four digits.
            let bounds = expected - 0.01..expected + 0.0006;
            assert!(bounds.contains(&ratio), "m = {buffers}: {ratio}");
        }
    }

    #[test]
    fn parameters_outside_their_range_are_refused() {
        assert!(optimize(&prefix(8), &Participation::Single, Objective::Max, 0).is_err());
    }
}
