//! The ReSQue estimator's weights: in the log domain, their moments, and where they are valid ([002 Definition 2,
//! Lemmas 1 and 2], specification 7.1).
//!
//! ```text
//! w(v, ξ) = γ_ρ(v − ξ)/γ_ρ(ξ) = exp((2⟨v, ξ⟩ − ‖v‖²)/(2ρ²)),     v = x − x̄,  ξ ~ N(0, ρ²I)
//! E[w(v, ξ)·g(x̄ + ξ)] = ∇f̂_ρ(x),     f̂_ρ(x) = E f(x + ξ)
//! ```
//!
//! A query point x̄ + ξ does not depend on x, so one round of queries serves every x near x̄.
//!
//! **Linear models.** ξ enters `w·g` only through the K scalars `s_k = ⟨a, ξ_k⟩` of the margins and through ⟨v, ξ⟩. Where
//! every ξ serves one point only and g is one example's gradient, these K + 1 scalars may be drawn instead of ξ, with
//! the same law ([`ProjectedDraw`]). Integrating the last one out gives [`conditional_log_weight`]: equal in mean, of
//! smaller variance, not equal in law.

use super::ResqueError;

/// How the gradient queries of a run were made. Results name it: only the first two make the queries that the theory
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OracleMode {
    /// ξ ∈ R^d is drawn and the function is queried at x̄ + ξ: works for any function.
    BlackBox,
    /// Only the scalars that a linear model needs are drawn, one set a query.
    Projected,
    /// The gradient of the convolved loss in closed form: no sampling of ξ, and a query depends on x, so it is no
    /// longer one round a ball.
    ClosedForm,
}

impl std::fmt::Display for OracleMode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::BlackBox => "black-box",
            Self::Projected => "projected",
            Self::ClosedForm => "closed form",
        })
    }
}

/// How the smoothing radius ρ follows from the target accuracy ε, so that |f̂_ρ − f| ≤ ε.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RadiusRule {
    /// ρ = ε/(L√d), for any L-Lipschitz function [002 §II-A].
    WorstCase,
    /// ρ = ε/L: for a loss of one margin the bias is at most ρL√(2/π) in any dimension (specification 1).
    LinearModel,
    /// A given ρ.
    Fixed(f64),
}

impl RadiusRule {
    /// ρ for accuracy `epsilon`, Lipschitz constant `lipschitz` and dimension `dimension`.
    pub fn radius(self, epsilon: f64, lipschitz: f64, dimension: usize) -> f64 {
        match self {
            Self::WorstCase => epsilon / (lipschitz * (dimension as f64).sqrt()),
            Self::LinearModel => epsilon / lipschitz,
            Self::Fixed(radius) => radius,
        }
    }
}

/// `ln w = (2⟨v, ξ⟩ − ‖v‖²)/(2ρ²)` from the two scalars.
pub fn log_weight(inner_product: f64, squared_offset: f64, radius: f64) -> f64 {
    (2.0 * inner_product - squared_offset) / (2.0 * radius * radius)
}

/// `w = e^{log_weight}`.
///
/// # Errors
/// An exponent above 709 (the weight would be infinite) or NaN: the point lies far outside the ball of validity.
pub fn weight(log_weight: f64) -> Result<f64, ResqueError> {
    if log_weight <= 709.0 {
        Ok(log_weight.exp())
    } else {
        Err(ResqueError::WeightOverflow { exponent: log_weight })
    }
}

/// Refuses a point outside ‖x − x̄‖ ≤ ρ, where `E w² = e^{‖v‖²/ρ²} ≤ e` no longer holds (a rounding of 1e-5 is allowed).
///
/// # Errors
/// A distance above ρ or NaN.
pub fn check_validity(squared_offset: f64, radius: f64) -> Result<(), ResqueError> {
    if squared_offset <= radius * radius * (1.0 + 1e-5) {
        Ok(())
    } else {
        Err(ResqueError::OutsideValidity {
            distance: squared_offset.sqrt(),
            radius,
        })
    }
}

/// `E w^p = exp((p² − p)‖v‖²/(2ρ²))`, exact for every real p (specification 7.1; the display of [002 (7)] prints twice the
/// exponent at p = 2, its constant 3 ≥ e stands).
pub fn weight_moment(power: f64, distance: f64, radius: f64) -> f64 {
    ((power * power - power) * distance * distance / (2.0 * radius * radius)).exp()
}

/// `E|w(v) − w(v′)|^p ≤ (24p‖x − x′‖/ρ)^p` for ‖v‖, ‖v′‖ ≤ ρ/p and p ≥ 2 [002 Lemma 2].
pub fn difference_moment_bound(power: f64, distance: f64, radius: f64) -> f64 {
    (24.0 * power * distance / radius).powf(power)
}

/// What a query at x̄ + ξ and its weight at x̄ + v need of ξ, for a linear model with K outputs: K + 1 scalars.
///
/// With `t_k = ⟨a, v_k⟩`: `s_k ~ N(0, ρ²‖a‖²)` independent, and
/// `⟨v, ξ⟩ | s ~ N(Σ_k t_k·s_k/‖a‖², ρ²(‖v‖² − Σ_k t_k²/‖a‖²))`: the same law as from ξ ∈ R^{K·p}.
#[derive(Clone, Copy, Debug)]
pub struct ProjectedDraw<'a> {
    /// ‖a‖².
    pub squared_row_norm: f64,
    /// ‖v‖².
    pub squared_offset: f64,
    /// t_k = ⟨a, v_k⟩, K of them.
    pub offset_margins: &'a [f64],
    /// ρ.
    pub radius: f64,
}

impl ProjectedDraw<'_> {
    /// Shift `s_k = ρ‖a‖·z_k` of the margin k.
    pub fn shift(&self, normal: f64) -> f64 {
        self.radius * self.squared_row_norm.sqrt() * normal
    }

    /// ⟨v, ξ⟩ given the K shifts, from one more standard normal.
    pub fn inner_product(&self, shifts: &[f64], normal: f64) -> f64 {
        let Self {
            squared_row_norm,
            squared_offset,
            offset_margins,
            radius,
        } = *self;
        if squared_row_norm == 0.0 {
            return radius * squared_offset.sqrt() * normal;
        }
        let mean: f64 = offset_margins.iter().zip(shifts).map(|(t, s)| t * s).sum::<f64>() / squared_row_norm;
        let explained = offset_margins.iter().map(|t| t * t).sum::<f64>() / squared_row_norm;
        mean + radius * (squared_offset - explained).max(0.0).sqrt() * normal
    }
}

/// `ln E[w | s] = Σ_k (2t_k·s_k − t_k²)/(2ρ²‖a‖²)`: the weight with everything but the margins' shifts integrated out.
///
/// Unbiased like w, with second moment `exp(Σ t_k²/(ρ²‖a‖²)) ≤ exp(‖v‖²/ρ²)`; for a = 0 the weight is 1.
pub fn conditional_log_weight(offset_margins: &[f64], shifts: &[f64], squared_row_norm: f64, radius: f64) -> f64 {
    if squared_row_norm == 0.0 {
        return 0.0;
    }
    let sum: f64 = offset_margins.iter().zip(shifts).map(|(t, s)| (2.0 * s - t) * t).sum();
    sum / (2.0 * radius * radius * squared_row_norm)
}

/// D = sup|F₁ − F₂| of two samples of equal size; P(D > c·√(2/n)) ≤ 2e^{−2c²}, which is 1e-6 at c = 2.694.
#[cfg(test)]
pub(super) fn kolmogorov_smirnov(mut left: Vec<f64>, mut right: Vec<f64>) -> (f64, f64) {
    left.sort_by(f64::total_cmp);
    right.sort_by(f64::total_cmp);
    let (n, mut i, mut j, mut largest) = (left.len(), 0, 0, 0usize);
    while i < n && j < n {
        if left[i] <= right[j] {
            i += 1;
        } else {
            j += 1;
        }
        largest = largest.max(i.abs_diff(j));
    }
    (largest as f64 / n as f64, 2.694 * (2.0 / n as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds_kernels::random::{Purpose, StreamKey, fill_gaussian};

    const TEST: Purpose = Purpose(0x7e57);

    fn normals(round: u64, count: usize) -> Vec<f64> {
        let mut z = vec![0f32; count];
        fill_gaussian(&StreamKey::Simulation(41), TEST, round, 1.0, &mut z);
        z.into_iter().map(f64::from).collect()
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn weights_have_their_exact_moments() {
        let (radius, count) = (0.3, 400_000);
        for dimension in [1, 4, 17] {
            let direction = normals(90 + dimension as u64, dimension);
            let scale = 0.25 * radius / dot(&direction, &direction).sqrt();
            let v: Vec<f64> = direction.iter().map(|z| z * scale).collect();
            let squared = dot(&v, &v);
            let z = normals(dimension as u64, count / 4 * dimension);
            let weights: Vec<f64> = z
                .chunks_exact(dimension)
                .map(|z| weight(log_weight(radius * dot(z, &v), squared, radius)).unwrap())
                .collect();
            for power in [1.0, 2.0, 3.0] {
                let expected = weight_moment(power, squared.sqrt(), radius);
                let mean = weights.iter().map(|w| w.powf(power)).sum::<f64>() / weights.len() as f64;
                let variance = weight_moment(2.0 * power, squared.sqrt(), radius) - expected * expected;
                let error = (variance / weights.len() as f64).sqrt();
                assert!(
                    (mean - expected).abs() < 4.9 * error,
                    "d = {dimension}, p = {power}: {mean} for {expected}"
                );
            }
        }
    }

    #[test]
    fn the_second_moment_on_the_ball_is_at_most_three_and_lemma_two_holds() {
        assert!(weight_moment(2.0, 1.0, 1.0) < 3.0);
        for power in [2.0, 3.0, 8.0] {
            assert!(weight_moment(power, 1.0 / power, 1.0) <= 2.0, "{power}");
            // E|w(v) − w(v′)|^p by quadrature along the line of v and v′ (the worst case is collinear).
            for (v, other) in [(1.0 / power, -1.0 / power), (1.0 / power, 0.9 / power), (0.0, 0.01)] {
                let step = 1e-3;
                let moment: f64 = (-12_000..12_000)
                    .map(|i| {
                        let z = f64::from(i) * step;
                        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
                        let difference =
                            log_weight(v * z, v * v, 1.0).exp() - log_weight(other * z, other * other, 1.0).exp();
                        difference.abs().powf(power) * density * step
                    })
                    .sum();
                assert!(
                    moment <= difference_moment_bound(power, (v - other).abs(), 1.0),
                    "p = {power}, v = {v}"
                );
            }
        }
    }

    #[test]
    fn projected_scalars_have_the_law_of_the_materialised_estimator() {
        // Two-sample tests over points, dimensions and outputs, of the pair (residual, weight) through the statistics
        // w, s and w·sign(u + s): 36 tests at 1e-6 each.
        let (radius, count) = (0.2, 20_000);
        let mut round = 1_000;
        for dimension in [1, 3, 20] {
            for outputs in [1, 3] {
                for share in [0.3, 1.0] {
                    let a = normals(round, dimension);
                    let direction = normals(round + 1, dimension * outputs);
                    let scale = share * radius / dot(&direction, &direction).sqrt();
                    let v: Vec<f64> = direction.iter().map(|z| z * scale).collect();
                    let margins: Vec<f64> = v.chunks_exact(dimension).map(|v| dot(&a, v)).collect();
                    let draw = ProjectedDraw {
                        squared_row_norm: dot(&a, &a),
                        squared_offset: dot(&v, &v),
                        offset_margins: &margins,
                        radius,
                    };
                    let mut materialised = [Vec::new(), Vec::new(), Vec::new()];
                    let mut projected = materialised.clone();
                    for z in normals(round + 2, count * dimension * outputs).chunks_exact(dimension * outputs) {
                        let xi: Vec<f64> = z.iter().map(|z| radius * z).collect();
                        let w = log_weight(dot(&v, &xi), draw.squared_offset, radius).exp();
                        let s: f64 = dot(&a, &xi[..dimension]);
                        for (values, value) in materialised.iter_mut().zip([w, s, w * (s + 0.1).signum()]) {
                            values.push(value);
                        }
                    }
                    for z in normals(round + 3, count * (outputs + 1)).chunks_exact(outputs + 1) {
                        let shifts: Vec<f64> = z[..outputs].iter().map(|&z| draw.shift(z)).collect();
                        let w = log_weight(draw.inner_product(&shifts, z[outputs]), draw.squared_offset, radius).exp();
                        for (values, value) in projected.iter_mut().zip([w, shifts[0], w * (shifts[0] + 0.1).signum()])
                        {
                            values.push(value);
                        }
                    }
                    for (index, (left, right)) in materialised.into_iter().zip(projected).enumerate() {
                        let (distance, critical) = kolmogorov_smirnov(left, right);
                        assert!(
                            distance < critical,
                            "d {dimension} K {outputs} share {share} statistic {index}: {distance}"
                        );
                    }
                    round += 4;
                }
            }
        }
    }

    #[test]
    fn the_conditional_weight_has_the_same_mean_and_a_smaller_second_moment() {
        // The numbers of specification 7.1: 1.031 against 1.284 at ‖v‖ = ρ/2, ⟨a, v⟩²/(ρ²‖a‖²) = 0.0305.
        let (radius, a_norm_squared, squared_offset) = (1.0, 4.0, 0.25);
        let margins = [(0.0305f64 * a_norm_squared).sqrt()];
        let draw = ProjectedDraw {
            squared_row_norm: a_norm_squared,
            squared_offset,
            offset_margins: &margins,
            radius,
        };
        let count = 400_000;
        let (mut means, mut seconds, mut signed) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        for z in normals(7, 2 * count).chunks_exact(2) {
            let s = [draw.shift(z[0])];
            let full = log_weight(draw.inner_product(&s, z[1]), squared_offset, radius).exp();
            let conditional = conditional_log_weight(&margins, &s, a_norm_squared, radius).exp();
            for (index, w) in [full, conditional].into_iter().enumerate() {
                means[index] += w / count as f64;
                seconds[index] += w * w / count as f64;
                signed[index] += w * (s[0] + 0.4).signum() / count as f64;
            }
        }
        assert!(
            (means[0] - 1.0).abs() < 5e-3 && (means[1] - 1.0).abs() < 2e-3,
            "{means:?}"
        );
        assert!(
            (seconds[0] - 1.284).abs() < 0.02 && (seconds[1] - 1.031).abs() < 0.005,
            "{seconds:?}"
        );
        // Both estimate d/du E|u + s + t| = erf((0.4 + t)/(ρ‖a‖√2)).
        let expected = libm::erf((0.4 + margins[0]) / (2.0 * 2f64.sqrt()));
        assert!(
            (signed[0] - expected).abs() < 1e-2 && (signed[1] - expected).abs() < 1e-2,
            "{signed:?} {expected}"
        );
    }

    #[test]
    fn a_zero_row_has_weight_one() {
        assert_eq!(conditional_log_weight(&[0.0], &[0.0], 0.0, 0.1), 0.0);
    }

    #[test]
    fn overflowing_and_invalid_weights_are_refused() {
        assert!(weight(700.0).is_ok());
        assert!(matches!(weight(710.0), Err(ResqueError::WeightOverflow { .. })));
        assert!(matches!(weight(f64::NAN), Err(ResqueError::WeightOverflow { .. })));
        assert!(check_validity(1.0, 1.0).is_ok());
        assert!(matches!(
            check_validity(1.1, 1.0),
            Err(ResqueError::OutsideValidity { .. })
        ));
        assert!(check_validity(f64::NAN, 1.0).is_err());
    }

    #[test]
    fn the_radius_follows_its_rule() {
        assert_eq!(RadiusRule::WorstCase.radius(0.1, 2.0, 100), 0.1 / 20.0);
        assert_eq!(RadiusRule::LinearModel.radius(0.1, 2.0, 100), 0.05);
        assert_eq!(RadiusRule::Fixed(0.7).radius(0.1, 2.0, 100), 0.7);
    }
}
