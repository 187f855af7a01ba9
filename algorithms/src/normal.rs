//! The normal distribution as the accountants need it: tails without cancellation, to the last few digits.
//!
//! Everything rests on integrals with positive integrands, R(x) = ∫₀^∞ e^{−t²/2 − xt} dt (the Mills ratio
//! Φ(−x)/φ(x)), so that neither a small difference nor a far tail loses digits.

use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::sync::OnceLock;

/// ln √(2π).
pub(super) const LN_SQRT_2_PI: f64 = 0.918_938_533_204_672_8;

/// φ(x) = e^{−x²/2} / √(2π).
pub(super) fn density(x: f64) -> f64 {
    (-0.5 * x * x - LN_SQRT_2_PI).exp()
}

/// Φ(−x) = P(N(0, 1) > x), relative error at most (4 + x²)·2⁻⁵² until it underflows near x = 38.
pub(super) fn survival(x: f64) -> f64 {
    0.5 * libm::erfc(x * FRAC_1_SQRT_2)
}

/// Φ⁻¹(p), by bisection on Φ: absolute error about 1e-14; ∓∞ at 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let (mut lower, mut upper) = (-39.0, 39.0);
    for _ in 0..80 {
        let middle: f64 = 0.5 * (lower + upper);
        if survival(-middle) < p {
            lower = middle;
        } else {
            upper = middle;
        }
    }
    0.5 * (lower + upper)
}

/// Nodes and weights of Gauss–Legendre quadrature on [−1, 1], ascending.
pub(crate) fn gauss_legendre<const NODES: usize>() -> [(f64, f64); NODES] {
    let mut rule = [(0.0, 0.0); NODES];
    for (index, slot) in rule.iter_mut().enumerate() {
        let mut x = -(PI * (index as f64 + 0.75) / (NODES as f64 + 0.5)).cos();
        let mut derivative = 0.0;
        for _ in 0..100 {
            let (mut previous, mut value) = (0.0, 1.0);
            for degree in 1..=NODES {
                let k = degree as f64;
                (previous, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * previous) / k);
            }
            derivative = NODES as f64 * (x * value - previous) / (x * x - 1.0);
            let step = value / derivative;
            x -= step;
            if step.abs() <= 1e-16 {
                break;
            }
        }
        *slot = (x, 2.0 / ((1.0 - x * x) * derivative * derivative));
    }
    rule
}

/// ∫₀^∞ e^{−t²/2 − xt} kernel(t) dt for x ≥ −2 and a kernel that is positive, at most of the size of a polynomial and
/// no less smooth than 1 − e^{−40 t/t_max}. Relative error below 1e-15 for the kernels used here (tested through
/// [`mills_ratio`] and the analytic Gaussian mechanism against 40-digit values).
fn laplace_gauss_integral(x: f64, kernel: impl Fn(f64) -> f64) -> f64 {
    const PANELS: usize = 5;
    static RULE: OnceLock<[(f64, f64); 24]> = OnceLock::new();
    let rule = RULE.get_or_init(gauss_legendre::<24>);
    // The exponent reaches −45, a factor of 3e-20, at the end of the last panel.
    let end = 90.0 / (x + (x * x + 90.0).sqrt());
    let half = 0.5 * end / PANELS as f64;
    let mut total = 0.0;
    for panel in (0..PANELS).rev() {
        let middle = half * (2 * panel + 1) as f64;
        let panel_total: f64 = rule
            .iter()
            .map(|&(node, weight)| {
                let t = middle + half * node;
                weight * (-t * (0.5 * t + x)).exp() * kernel(t)
            })
            .sum();
        total += half * panel_total;
    }
    total
}

/// R(x) = Φ(−x)/φ(x), for x ≥ −2. Relative error at most 1e-15.
pub(super) fn mills_ratio(x: f64) -> f64 {
    debug_assert!(x >= -2.0);
    if x > 1e8 { 1.0 / x } else { laplace_gauss_integral(x, |_| 1.0) }
}

/// R(x) − R(x + shift) for x ≥ −2 and shift > 0. Relative error at most 2e-15, however small the shift.
pub(super) fn mills_ratio_drop(x: f64, shift: f64) -> f64 {
    if shift >= x.max(1.0) {
        // R(x + shift) is at most about half of R(x): nothing cancels.
        mills_ratio(x) - mills_ratio(x + shift)
    } else {
        laplace_gauss_integral(x, |t| -(-shift * t).exp_m1())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::assert_relative;

    /// Φ(−x)/φ(x) from 60-digit arithmetic.
    const MILLS: [(f64, f64); 9] = [
        (-2.0, 18.100_247_711_126_15),
        (-0.5, 1.964_017_495_357_993_9),
        (0.0, 1.253_314_137_315_500_3),
        (0.25, 1.037_824_575_853_726_8),
        (1.0, 0.655_679_542_418_798_4),
        (3.5, 0.266_567_768_968_223_76),
        (10.0, 0.099_028_596_471_731_93),
        (40.0, 0.024_984_404_205_720_57),
        (1000.0, 0.000_999_999_000_002_999_9),
    ];

    #[test]
    fn mills_ratio_has_fifteen_digits_from_the_centre_to_the_far_tail() {
        for (x, expected) in MILLS {
            assert_relative(mills_ratio(x), expected, 1e-15, &format!("R({x})"));
        }
    }

    #[test]
    fn a_drop_of_the_mills_ratio_keeps_its_digits_for_tiny_shifts() {
        for (x, shift, expected) in [
            (-1.0, 0.5, 1.513_034_316_345_700_7),
            (-0.5, 1e-06, 1.982_007_270_168_969_3e-06),
            (0.0, 1e-09, 9.999_999_993_733_43e-10),
            (0.0, 0.5, 0.376_949_680_861_807_9),
            (1.0, 0.999, 0.234_152_998_149_436_8),
            (5.0, 0.0001, 3.595_882_589_873_330_4e-06),
            (5.0, 4.9, 0.092_798_571_681_483_28),
            (5.0, 5.1, 0.094_741_560_632_499_36),
            (30.0, 1e-08, 1.107_427_824_715_677e-11),
            (30.0, 29.0, 0.016_352_131_386_872_56),
            (0.3, 20.0, 0.952_694_997_011_839_7),
        ] {
            let what = format!("R({x}) - R({x} + {shift})");
            assert_relative(mills_ratio_drop(x, shift), expected, 2e-15, &what);
        }
    }

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (p, quantile) in
            [(0.5, 0.0), (0.975, 1.959_963_984_540_054), (1e-4, -3.719_016_485_455_709), (1e-9, -5.997_807_015_007_686)]
        {
            assert!((normal_quantile(p) - quantile).abs() < 1e-9, "{p}");
        }
    }

    #[test]
    fn gauss_legendre_is_exact_for_polynomials_up_to_twice_its_nodes() {
        let rule = gauss_legendre::<3>();
        for degree in 0..6 {
            let found: f64 = rule.iter().map(|&(x, weight)| weight * x.powi(degree)).sum();
            let expected = if degree % 2 == 1 { 0.0 } else { 2.0 / f64::from(degree + 1) };
            assert!((found - expected).abs() < 1e-15, "degree {degree}");
        }
    }
}
