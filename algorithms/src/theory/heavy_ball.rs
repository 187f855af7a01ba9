//! Heavy ball with noisy gradients on strongly convex functions [003 §3]: the exact error on quadratics (Theorem 3.5)
//! and the certificate of Proposition 3.4 for every function of S_{μ,L}.
//!
//! Corrections used here (specification 9): B = (−α, 0)ᵀ (E13); the noise is a trace bound, so the dimension enters once,
//! and a Laplace coordinate has variance 2b² (E14).

use faer::{Mat, Side};

use super::{Curvature, QuadraticMode, TheoryError, TransitionMatrix, within};

/// `α = 4/(√μ + √L)²`, `β = ((√κ − 1)/(√κ + 1))²`: the fastest heavy ball on quadratics without noise [003 §3.2].
pub fn fastest_parameters(curvature: Curvature) -> (f64, f64) {
    let (low, high) = (curvature.mu().sqrt(), curvature.smoothness().sqrt());
    let ratio = (high - low) / (high + low);
    (4.0 / ((low + high) * (low + high)), ratio * ratio)
}

/// `ρ = max_{λ ∈ {μ, L}} |a_{λ,±}|`, the rate on quadratics [003 (3.18)].
pub fn spectral_radius(step_size: f64, momentum: f64, curvature: Curvature) -> f64 {
    [curvature.mu(), curvature.smoothness()]
        .into_iter()
        .map(|eigenvalue| TransitionMatrix::heavy_ball(step_size, momentum, eigenvalue).spectral_radius())
        .fold(0.0, f64::max)
}

/// The β in [0, 1) that minimises ρ for a given step size α ≤ 1/L: `(1 − √(αμ))²`, the larger of the critical dampings
/// `(1 − √(αλ))²` (below it the mode of μ is overdamped and slower; above it ρ = √β grows).
pub fn fastest_momentum(step_size: f64, curvature: Curvature) -> f64 {
    let critical = |eigenvalue: f64| (1.0 - (step_size * eigenvalue).sqrt()).powi(2);
    critical(curvature.mu()).max(critical(curvature.smoothness()))
}

/// `Σ_i (s²/2)·α(1+β)/((1−β)(2+2β−αλ_i))`: the exact E F − F* of heavy ball on a quadratic as t → ∞, s² the variance of
/// the gradient noise a coordinate (specification 6.4, derived).
///
/// # Errors
/// Parameters for which the recursion does not converge (αλ_i ≥ 2 + 2β, or β outside [0, 1)).
pub fn stationary_excess(
    step_size: f64,
    momentum: f64,
    eigenvalues: &[f64],
    variance: f64,
) -> Result<f64, TheoryError> {
    stationary_sum(step_size, momentum, eigenvalues, |gap| 0.5 * variance * gap)
}

/// `L·m(α, β)` with `m = (σ²/2)·Σ_i 2α(1+β)/((1−β)λ_i(2+2β−αλ_i))`: the noise term of [003 (3.17)], looser than
/// [`stationary_excess`] by up to 2κ.
///
/// # Errors
/// As [`stationary_excess`].
pub fn published_noise_bound(
    step_size: f64,
    momentum: f64,
    eigenvalues: &[f64],
    variance: f64,
) -> Result<f64, TheoryError> {
    let largest = eigenvalues.iter().copied().fold(0.0, f64::max);
    let mut total = 0.0;
    for &eigenvalue in eigenvalues {
        total += stationary_sum(step_size, momentum, &[eigenvalue], |gap| variance * gap / eigenvalue)?;
    }
    Ok(largest * total)
}

fn stationary_sum(
    step_size: f64,
    momentum: f64,
    eigenvalues: &[f64],
    term: impl Fn(f64) -> f64,
) -> Result<f64, TheoryError> {
    within("momentum", momentum, "in [0, 1)", (0.0..1.0).contains(&momentum))?;
    let mut total = 0.0;
    for &eigenvalue in eigenvalues {
        let gap = 2.0 + 2.0 * momentum - step_size * eigenvalue;
        within(
            "2 + 2·momentum − step size·eigenvalue",
            gap,
            "above 0 (a smaller step size)",
            gap > 0.0,
        )?;
        total += term(step_size * (1.0 + momentum) / ((1.0 - momentum) * gap));
    }
    Ok(total)
}

/// E F(x_t) − F* for t = 0 … T on a quadratic, exactly; `variances[t]` is that of the noise of round t, a coordinate.
pub fn expected_excess(modes: &[QuadraticMode], step_size: f64, momentum: f64, variances: &[f64]) -> Vec<f64> {
    super::expected_excess(
        modes,
        variances.len(),
        |_, eigenvalue| TransitionMatrix::heavy_ball(step_size, momentum, eigenvalue),
        |t| (step_size, variances[t]),
    )
}

/// `log10(C_t²·ρ^{2t}·V(ξ_0) + L·m(α, β))` with C_t = t and `V(ξ_0) = ‖ξ_0 − ξ*‖² + σ²α²/(1 − ρ²)`: the curve that
/// [003 Figure 1] draws, in a form that neither overflows nor underflows.
///
/// # Errors
/// As [`stationary_excess`]; a rate of 1 or more.
pub fn published_bound_log10(
    step_size: f64,
    momentum: f64,
    eigenvalues: &[f64],
    initial_squared_distance: f64,
    variance: f64,
    rounds: usize,
) -> Result<f64, TheoryError> {
    let rate = eigenvalues
        .iter()
        .map(|&eigenvalue| TransitionMatrix::heavy_ball(step_size, momentum, eigenvalue).spectral_radius())
        .fold(0.0, f64::max);
    within("rate", rate, "below 1", rate < 1.0)?;
    let noise = published_noise_bound(step_size, momentum, eigenvalues, variance)?;
    let start = initial_squared_distance + variance * step_size * step_size / (1.0 - rate * rate);
    let time = rounds as f64;
    Ok((time * time * rate.powf(2.0 * time) * start + noise).log10())
}

/// `σ_s²(m, n) = (S_1²/4)·(n − m)/(m(n − 1))`: bounds the trace of the covariance of a subsampled mean [003 (3.13)].
pub fn subsampling_variance(sensitivity: f64, batch: usize, population: usize) -> f64 {
    if batch >= population {
        return 0.0;
    }
    let (m, n) = (batch as f64, population as f64);
    0.25 * sensitivity * sensitivity * (n - m) / (m * (n - 1.0))
}

/// A solution of the matrix inequality (3.14), with c = 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certificate {
    /// ρ: E F − F* shrinks by ρ² a round, up to noise.
    pub rate: f64,
    /// c_0 ≥ 0.
    pub multiplier: f64,
    /// P_11, P_12, P_22 of the positive semidefinite P.
    pub lyapunov: [f64; 3],
    step_size: f64,
    smoothness: f64,
}

impl Certificate {
    /// The smallest ρ (to `tolerance`) for which (3.14) is feasible, with its solution; `None` if there is none below 1.
    ///
    /// For a fixed ρ the inequality is linear in (P, c_0), so feasibility is a convex question in four variables, which
    /// the ellipsoid method settles: every infeasible centre yields a cutting plane by its most negative eigenvector.
    /// ρ is then bisected (the feasible set grows with ρ).
    ///
    /// # Errors
    /// A step size or momentum outside its range.
    pub fn search(
        curvature: Curvature,
        step_size: f64,
        momentum: f64,
        tolerance: f64,
    ) -> Result<Option<Self>, TheoryError> {
        within("momentum", momentum, "in [0, 1)", (0.0..1.0).contains(&momentum))?;
        within(
            "step size",
            step_size,
            "above 0 and finite",
            step_size > 0.0 && step_size.is_finite(),
        )?;
        let inequality = Inequality {
            curvature,
            step_size,
            momentum,
        };
        let (mut low, mut high) = (0.0, 1.0 - 1e-9);
        let Some(mut solution) = inequality.solve(high) else {
            return Ok(None);
        };
        while high - low > tolerance {
            let middle = 0.5 * (low + high);
            match inequality.solve(middle) {
                Some(found) => (high, solution) = (middle, found),
                None => low = middle,
            }
        }
        let [p11, p12, p22, multiplier] = solution;
        Ok(Some(Self {
            rate: high,
            multiplier,
            lyapunov: [p11, p12, p22],
            step_size,
            smoothness: curvature.smoothness(),
        }))
    }

    /// The smallest eigenvalue of c_0·X_0 + X_1 + (1 − ρ²)·X_2 − Φ: not below 0 for a valid certificate, up to rounding.
    pub fn slack(&self, curvature: Curvature, momentum: f64) -> f64 {
        let inequality = Inequality {
            curvature,
            step_size: self.step_size,
            momentum,
        };
        let [p11, p12, p22] = self.lyapunov;
        smallest_eigenpair(&inequality.matrix(self.rate, [p11, p12, p22, self.multiplier])).0
    }

    /// `ρ^{2t}·V(ξ_0)/(c + 2·det P/(P_22·L)) + (1 − ρ^{2t})/(1 − ρ²)·(Lα²/2)·E‖w‖²·(1 + 2P_11/L)/(1 + 2·det P/(P_22·L))`,
    /// the bound of [003 (3.15)] with its last factor re-derived (0/0 = 0) and the dimension counted once.
    ///
    /// `initial_gap` = F(x_0) − F*, `initial_squared_distance` = ‖x_0 − x*‖² (x_{−1} = x_0), `noise` ≥ E‖w_t‖².
    pub fn bound(&self, initial_gap: f64, initial_squared_distance: f64, noise: f64, rounds: usize) -> f64 {
        let [p11, p12, p22] = self.lyapunov;
        let determinant = p11 * p22 - p12 * p12;
        let floor = if p22 > 0.0 { (determinant / p22).max(0.0) } else { 0.0 };
        let gain = 1.0 + 2.0 * floor / self.smoothness;
        let squared = self.rate * self.rate;
        let decay = squared.powf(rounds as f64);
        let start = initial_gap + (p11 + 2.0 * p12 + p22) * initial_squared_distance;
        let per_round =
            0.5 * self.smoothness * self.step_size * self.step_size * noise * (1.0 + 2.0 * p11 / self.smoothness);
        (decay * start + (1.0 - decay) / (1.0 - squared) * per_round) / gain
    }
}

/// Inequality (3.14) for one method; its unknowns are (P_11, P_12, P_22, c_0), with c = 1.
struct Inequality {
    curvature: Curvature,
    step_size: f64,
    momentum: f64,
}

/// Rows of a symmetric 3×3 matrix.
type Symmetric = [[f64; 3]; 3];

impl Inequality {
    /// The terms that are free of the unknowns, X_1 + (1 − ρ²)·X_2.
    fn constant(&self, rate: f64) -> Symmetric {
        let (mu, l) = (self.curvature.mu(), self.curvature.smoothness());
        let (alpha, beta) = (self.step_size, self.momentum);
        let curved = 0.5 * l * beta * beta;
        let cross = 0.5 * (1.0 - l * alpha) * beta;
        let gap = 0.5 * (1.0 - rate * rate);
        [
            [-curved + gap * mu, curved, -cross - gap],
            [curved, -curved, cross],
            [-cross - gap, cross, 0.5 * alpha * (2.0 - l * alpha)],
        ]
    }

    /// The factors of P_11, P_12, P_22 (each −Φ of a unit P) and of c_0 (X_0).
    fn factors(&self, rate: f64) -> [Symmetric; 4] {
        let (mu, l) = (self.curvature.mu(), self.curvature.smoothness());
        let (alpha, beta) = (self.step_size, self.momentum);
        let squared = rate * rate;
        // Row vectors of [A B]: the next (x_{t+1}, x_t) as a combination of (x_t, x_{t−1}, ∇F).
        let next = [1.0 + beta, -beta, -alpha];
        let current = [1.0, 0.0, 0.0];
        let previous = [0.0, 1.0, 0.0];
        let outer = |u: [f64; 3], v: [f64; 3]| -> Symmetric {
            std::array::from_fn(|i| std::array::from_fn(|j| 0.5 * (u[i] * v[j] + u[j] * v[i])))
        };
        let minus_phi = |after: Symmetric, before: Symmetric, times: f64| -> Symmetric {
            std::array::from_fn(|i| std::array::from_fn(|j| times * (squared * before[i][j] - after[i][j])))
        };
        [
            minus_phi(outer(next, next), outer(current, current), 1.0),
            minus_phi(outer(next, current), outer(current, previous), 2.0),
            minus_phi(outer(current, current), outer(previous, previous), 1.0),
            [[2.0 * mu * l, 0.0, -(mu + l)], [0.0, 0.0, 0.0], [-(mu + l), 0.0, 2.0]],
        ]
    }

    fn matrix(&self, rate: f64, unknowns: [f64; 4]) -> Symmetric {
        combine(&self.constant(rate), &self.factors(rate), unknowns)
    }

    /// A feasible point for this ρ by the ellipsoid method, if there is one.
    fn solve(&self, rate: f64) -> Option<[f64; 4]> {
        const DIMENSION: f64 = 4.0;
        const ROUNDS: usize = 3_000;
        let l = self.curvature.smoothness();
        let constant = self.constant(rate);
        let factors = self.factors(rate);
        // P is measured in units of L and c_0 in units of 1/L; solutions beyond the ball are of no use as bounds.
        let scale = [l, l, l, 1.0 / l];
        let mut center = [0.0_f64; 4];
        let mut shape = [[0.0_f64; 4]; 4];
        for (index, row) in shape.iter_mut().enumerate() {
            row[index] = 1e8;
        }
        for _ in 0..ROUNDS {
            let point: [f64; 4] = std::array::from_fn(|i| center[i] * scale[i]);
            let Some(cut) = self.violated(&constant, &factors, point)? else {
                return Some(point);
            };
            let cut: [f64; 4] = std::array::from_fn(|i| cut[i] * scale[i]);
            let image: [f64; 4] = std::array::from_fn(|i| (0..4).map(|j| shape[i][j] * cut[j]).sum());
            let width = (0..4).map(|i| cut[i] * image[i]).sum::<f64>();
            if width <= 0.0 || !width.is_finite() {
                return None;
            }
            let root = width.sqrt();
            if root < 1e-14 {
                return None;
            }
            for i in 0..4 {
                center[i] += image[i] / (root * (DIMENSION + 1.0));
            }
            let grow = DIMENSION * DIMENSION / (DIMENSION * DIMENSION - 1.0);
            for i in 0..4 {
                for j in 0..4 {
                    shape[i][j] = grow * (shape[i][j] - 2.0 / (DIMENSION + 1.0) * image[i] * image[j] / width);
                }
            }
        }
        None
    }

    /// `Some(None)` at a feasible point, else the gradient (in the unknowns) of a violated constraint; `None` if the
    /// point is no number.
    #[allow(
        clippy::option_option,
        reason = "outer: the search is lost; inner: nothing is violated"
    )]
    fn violated(&self, constant: &Symmetric, factors: &[Symmetric; 4], point: [f64; 4]) -> Option<Option<[f64; 4]>> {
        let [p11, p12, p22, multiplier] = point;
        if point.iter().any(|value| !value.is_finite()) {
            return None;
        }
        if multiplier < 0.0 {
            return Some(Some([0.0, 0.0, 0.0, 1.0]));
        }
        // Smallest eigenvalue of P = [[p11, p12], [p12, p22]] and its eigenvector.
        let (half, spread) = (0.5 * (p11 + p22), 0.5 * (p11 - p22));
        if half - spread.hypot(p12) < 0.0 {
            let angle = 0.5 * p12.atan2(spread);
            let (u, v) = (-angle.sin(), angle.cos());
            return Some(Some([u * u, 2.0 * u * v, v * v, 0.0]));
        }
        let (smallest, vector) = smallest_eigenpair(&combine(constant, factors, point));
        // The certificate of β = 0 lies on the boundary: allow the rounding of its entries.
        if smallest >= -1e-12 / self.curvature.smoothness().min(1.0) {
            return Some(None);
        }
        Some(Some(std::array::from_fn(|k| {
            (0..3)
                .flat_map(|i| (0..3).map(move |j| (i, j)))
                .map(|(i, j)| vector[i] * factors[k][i][j] * vector[j])
                .sum()
        })))
    }
}

fn combine(constant: &Symmetric, factors: &[Symmetric; 4], unknowns: [f64; 4]) -> Symmetric {
    std::array::from_fn(|i| {
        std::array::from_fn(|j| constant[i][j] + (0..4).map(|k| unknowns[k] * factors[k][i][j]).sum::<f64>())
    })
}

/// The smallest eigenvalue of a symmetric 3×3 matrix and a unit eigenvector.
fn smallest_eigenpair(matrix: &Symmetric) -> (f64, [f64; 3]) {
    let dense = Mat::from_fn(3, 3, |i, j| matrix[i][j]);
    match dense.self_adjoint_eigen(Side::Lower) {
        Ok(decomposition) => {
            let vector = decomposition.U().col(0);
            (decomposition.S()[0], std::array::from_fn(|i| vector[i]))
        }
        Err(_) => (f64::NEG_INFINITY, [0.0; 3]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curvature(mu: f64, smoothness: f64) -> Curvature {
        Curvature::new(mu, smoothness).unwrap()
    }

    #[test]
    fn fastest_parameters_reach_the_square_root_of_their_momentum() {
        let class = curvature(0.5, 8.0);
        let (step_size, momentum) = fastest_parameters(class);
        assert!((spectral_radius(step_size, momentum, class) - momentum.sqrt()).abs() < 1e-7);
    }

    #[test]
    fn without_momentum_the_rate_is_that_of_gradient_descent() {
        let class = curvature(0.5, 2.0);
        for step_size in [0.1, 0.3, 0.5] {
            let expected = (1.0 - step_size * 0.5_f64).abs().max((1.0 - step_size * 2.0_f64).abs());
            assert!((spectral_radius(step_size, 0.0, class) - expected).abs() < 1e-15);
        }
    }

    #[test]
    fn fastest_momentum_beats_every_other_on_a_grid() {
        let class = curvature(0.5, 1.0);
        for step_size in [0.01, 0.1, 0.5, 1.0] {
            let best = spectral_radius(step_size, fastest_momentum(step_size, class), class);
            for index in 0..1_000 {
                let momentum = f64::from(index) / 1_000.0;
                assert!(
                    best <= spectral_radius(step_size, momentum, class) + 1e-12,
                    "{step_size} {momentum}"
                );
            }
        }
    }

    #[test]
    fn propagated_moments_approach_the_stationary_excess() {
        let eigenvalues = [0.5, 1.0, 1.7];
        let modes: Vec<_> = eigenvalues
            .iter()
            .map(|&eigenvalue| QuadraticMode { eigenvalue, start: 3.0 })
            .collect();
        for (step_size, momentum) in [(0.5, 0.0), (0.5, 0.4), (0.2, 0.8), (1.0, 0.3)] {
            let exact = expected_excess(&modes, step_size, momentum, &vec![0.04; 2_000]);
            let stationary = stationary_excess(step_size, momentum, &eigenvalues, 0.04).unwrap();
            assert!(
                (exact[2_000] / stationary - 1.0).abs() < 1e-10,
                "{} {stationary}",
                exact[2_000]
            );
            assert!(stationary <= published_noise_bound(step_size, momentum, &eigenvalues, 0.04).unwrap());
        }
    }

    #[test]
    fn simulated_heavy_ball_has_the_exact_excess() {
        // Seeded xorshift noise, uniform with variance s² = 1/12: only second moments matter on a quadratic.
        let (step_size, momentum, eigenvalue, runs, rounds) = (0.4, 0.6, 1.3, 40_000, 25);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let mut squares = 0.0;
        let mut fourths = 0.0;
        for _ in 0..runs {
            let (mut now, mut before) = (0.2_f64, 0.2_f64);
            for _ in 0..rounds {
                (now, before) = (
                    now - step_size * (eigenvalue * now + uniform()) + momentum * (now - before),
                    now,
                );
            }
            squares += now * now;
            fourths += now.powi(4);
        }
        let mean = squares / f64::from(runs);
        let error = ((fourths / f64::from(runs) - mean * mean) / f64::from(runs)).sqrt() * 0.5 * eigenvalue;
        let modes = [QuadraticMode { eigenvalue, start: 0.2 }];
        let exact = expected_excess(&modes, step_size, momentum, &vec![1.0 / 12.0; rounds]);
        // 4.9 standard errors: α = 1e-6.
        assert!(
            (0.5 * eigenvalue * mean - exact[rounds]).abs() < 4.9 * error,
            "{mean} {error} {}",
            exact[rounds]
        );
    }

    #[test]
    fn the_exact_error_lies_under_theorem_3_5_in_every_round() {
        let eigenvalues = [0.5, 0.7, 1.0];
        let modes = eigenvalues.map(|eigenvalue| QuadraticMode { eigenvalue, start: 2.0 });
        // ‖ξ_0 − ξ*‖² of the stacked start (x_0, x_0).
        let distance = 2.0 * 3.0 * 4.0;
        for (step_size, momentum) in [(0.1, 0.0), (0.1, 0.6), (0.5, 0.25), (1.0, 0.08), (1.0, 0.9)] {
            for variance in [0.0, 1e-4, 1.0] {
                let exact = expected_excess(&modes, step_size, momentum, &[variance; 150]);
                for (rounds, &excess) in exact.iter().enumerate().skip(1) {
                    let bound =
                        published_bound_log10(step_size, momentum, &eigenvalues, distance, variance, rounds).unwrap();
                    assert!(
                        excess.log10() <= bound + 1e-9,
                        "α = {step_size}, β = {momentum}, σ² = {variance}, t = {rounds}: {excess} above 10^{bound}"
                    );
                }
            }
        }
    }

    #[test]
    fn divergent_parameters_are_refused() {
        assert!(stationary_excess(5.0, 0.1, &[1.0], 1.0).is_err());
        assert!(stationary_excess(0.1, 1.0, &[1.0], 1.0).is_err());
        assert!(published_bound_log10(5.0, 0.1, &[1.0], 1.0, 1.0, 10).is_err());
        assert!(Certificate::search(curvature(0.1, 1.0), 0.5, 1.5, 1e-3).is_err());
    }

    #[test]
    fn subsampling_adds_no_variance_to_full_batches() {
        assert_eq!(subsampling_variance(40.0, 1_000, 1_000), 0.0);
        assert_eq!(subsampling_variance(2.0, 1, 101), 1.0);
        assert!((subsampling_variance(2.0, 51, 101) - 0.5 / 51.0).abs() < 1e-15);
    }

    #[test]
    fn the_certificate_without_momentum_is_that_of_gradient_descent() {
        // [003 Prop. 3.4] with β = 0, α = 1/L: P = 0, c_0 = 0 is feasible exactly when ρ² ≥ 1 − μ/L, and c_0 > 0 finds the
        // rate of gradient descent, (1 − μ/L)².
        let class = curvature(0.2, 1.0);
        let trivial = Inequality {
            curvature: class,
            step_size: 1.0,
            momentum: 0.0,
        };
        let zero = |squared: f64| smallest_eigenpair(&trivial.matrix(squared.sqrt(), [0.0; 4])).0;
        assert!(zero(0.8 + 1e-9) > -1e-12 && zero(0.8 - 1e-3) < -1e-5);
        let certificate = Certificate::search(class, 1.0, 0.0, 1e-4).unwrap().unwrap();
        assert!(certificate.rate * certificate.rate <= 0.8 + 1e-3, "{certificate:?}");
        assert!(
            certificate.rate >= 0.8 - 1e-3,
            "no method is faster than its worst quadratic: {certificate:?}"
        );
    }

    #[test]
    fn certified_rates_lie_between_the_quadratic_rate_and_one() {
        let class = curvature(0.1, 1.0);
        for (step_size, momentum) in [(1.0, 0.0), (0.5, 0.1), (0.5, 0.3), (0.1, 0.5)] {
            let certificate = Certificate::search(class, step_size, momentum, 1e-3).unwrap().unwrap();
            assert!(
                certificate.rate >= spectral_radius(step_size, momentum, class) - 2e-3,
                "{certificate:?}"
            );
            assert!(certificate.rate < 1.0);
            assert!(certificate.slack(class, momentum) > -1e-9);
        }
    }

    #[test]
    fn the_exact_error_of_quadratics_lies_under_the_certified_bound() {
        let class = curvature(0.1, 1.0);
        let modes = [0.1, 0.4, 1.0].map(|eigenvalue| QuadraticMode { eigenvalue, start: 2.0 });
        let gap: f64 = modes.iter().map(|mode| 0.5 * mode.eigenvalue * 4.0).sum();
        let variance = 0.01;
        for (step_size, momentum) in [(1.0, 0.0), (0.5, 0.1), (0.5, 0.3), (0.1, 0.5)] {
            let certificate = Certificate::search(class, step_size, momentum, 1e-3).unwrap().unwrap();
            let exact = expected_excess(&modes, step_size, momentum, &vec![variance; 300]);
            for (t, &excess) in exact.iter().enumerate() {
                assert!(
                    excess <= certificate.bound(gap, 12.0, 3.0 * variance, t) * (1.0 + 1e-9),
                    "{t}"
                );
            }
        }
    }
}
