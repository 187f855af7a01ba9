//! Gaussian convolutions of losses of one margin: integrals of the normal distribution and a quadrature rule.

use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::sync::OnceLock;

/// Nodes of the Gauss–Hermite rule for losses without a closed form.
const NODES: usize = 32;

/// Φ(z), the standard normal distribution function; error of `libm::erfc`, below 1 ulp.
pub(super) fn normal_distribution(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// The standard normal density.
pub(super) fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// `∫_{−∞}^z Φ = zΦ(z) + φ(z)`.
pub(super) fn first_integral(z: f64) -> f64 {
    z * normal_distribution(z) + normal_density(z)
}

/// `∫∫ Φ = ((z² + 1)Φ(z) + zφ(z))/2`.
pub(super) fn second_integral(z: f64) -> f64 {
    0.5 * ((z * z + 1.0) * normal_distribution(z) + z * normal_density(z))
}

/// Nodes and masses with `Σ m_i·p(z_i) = E p(z)` for polynomials up to degree 2·NODES − 1 and z ~ N(0, 1): Newton
/// iteration on the orthonormal Hermite functions.
pub(super) fn gauss_hermite() -> &'static [(f64, f64); NODES] {
    static RULE: OnceLock<[(f64, f64); NODES]> = OnceLock::new();
    RULE.get_or_init(|| {
        // ψ_n and ψ_{n−1} at z, orthonormal for the standard normal density: √(k+1)·ψ_{k+1} = z·ψ_k − √k·ψ_{k−1}.
        let evaluate = |z: f64| {
            let (mut previous, mut current) = (0.0, 1.0);
            for k in 0..NODES {
                let next = (z * current - (k as f64).sqrt() * previous) / ((k + 1) as f64).sqrt();
                (previous, current) = (current, next);
            }
            (current, previous)
        };
        // Roots by bisection between sign changes on a fine grid (the roots are at least 0.2 apart).
        let mut rule = [(0.0, 0.0); NODES];
        let mut found = 0;
        let limit = 2.0 * (NODES as f64).sqrt() + 1.0;
        let cells = 8_000;
        for cell in 0..cells {
            let at = |cell: i32| -limit + 2.0 * limit * (f64::from(cell) + 0.123) / f64::from(cells);
            let (mut low, mut high) = (at(cell), at(cell + 1));
            let sign = evaluate(low).0.signum();
            if sign == evaluate(high).0.signum() {
                continue;
            }
            for _ in 0..80 {
                let middle = 0.5 * (low + high);
                if evaluate(middle).0.signum() == sign {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            let root = 0.5 * (low + high);
            let previous = evaluate(root).1;
            rule[found] = (root, 1.0 / (NODES as f64 * previous * previous));
            found += 1;
        }
        assert_eq!(found, NODES, "the grid separates all roots");
        rule
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Norm;
    use crate::loss::{Loss, Target};

    fn losses_of_one_margin() -> impl Iterator<Item = Loss> {
        Loss::ALL.into_iter().filter(|&loss| loss != Loss::Softmax)
    }

    /// E h(z) by the trapezoidal rule on [−9, 9], with a node on every multiple of the step: kinks cost O(step²).
    fn expectation(h: impl Fn(f64) -> f64) -> f64 {
        let step = 1e-4;
        (-90_000..=90_000).map(|i| f64::from(i) * step).map(|z| h(z) * normal_density(z) * step).sum()
    }

    #[test]
    fn closed_forms_are_the_convolution() {
        for loss in losses_of_one_margin() {
            for margin in [-2.0, -0.3, 0.0, 0.9, 3.0] {
                for target in [1.0, -1.0] {
                    for deviation in [0.05, 0.5, 2.0] {
                        let (value, slope) = loss.convolved(margin, target, deviation).unwrap();
                        let at = |z: f64| [margin + deviation * z];
                        let expected = expectation(|z| loss.value(&at(z), Target::Value(target)));
                        let residual = expectation(|z| {
                            let mut residual = at(z);
                            loss.residual(&mut residual, Target::Value(target));
                            residual[0]
                        });
                        let case = format!("{loss:?} at {margin}, {target}, s = {deviation}");
                        assert!((value - expected).abs() < 1e-7 * (1.0 + expected), "{case}: {value} for {expected}");
                        assert!((slope - residual).abs() < 2e-4, "{case}: {slope} for {residual}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_slope_is_the_derivative_of_the_value() {
        for loss in losses_of_one_margin() {
            for (margin, deviation) in [(-1.0, 0.2), (0.3, 1.0), (1.1, 0.1)] {
                let h = 1e-5;
                let value = |margin| loss.convolved(margin, 1.0, deviation).unwrap().0;
                let slope = loss.convolved(margin, 1.0, deviation).unwrap().1;
                let difference = (value(margin + h) - value(margin - h)) / (2.0 * h);
                assert!((slope - difference).abs() < 1e-8, "{loss:?}: {slope} {difference}");
            }
        }
    }

    #[test]
    fn the_bias_does_not_depend_on_the_dimension() {
        for loss in losses_of_one_margin() {
            let Some(lipschitz) = loss.lipschitz(Norm::L2) else {
                continue;
            };
            for deviation in [0.01, 0.3, 2.0] {
                for step in -40..40 {
                    let margin = 0.1 * f64::from(step);
                    let smoothed = loss.convolved(margin, 1.0, deviation).unwrap().0;
                    let bias = smoothed - loss.value(&[margin], Target::Value(1.0));
                    let bound = deviation * lipschitz * (2.0 / PI).sqrt();
                    assert!(bias > -1e-12 && bias <= bound + 1e-12, "{loss}: {bias}");
                }
            }
        }
        assert!(Loss::Softmax.convolved(0.0, 1.0, 1.0).is_none());
    }

    #[test]
    fn gauss_hermite_is_exact_on_polynomials() {
        let moment = |power| gauss_hermite().iter().map(|(z, m)| m * z.powi(power)).sum::<f64>();
        for (power, expected) in [(0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0), (10, 945.0), (20, 654_729_075.0)] {
            assert!((moment(power) - expected).abs() <= 1e-11 * (1.0 + expected), "moment {power}: {}", moment(power));
        }
    }
}
