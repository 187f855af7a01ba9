//! Risk bounds of papers 000 and 004: of the accelerated recursion with weights η_t = t + 1 and of independent gradients. Orders have constant 1,
//! and 1 for a polylogarithm. Where two readings differ, the function says which one it has.
//!
//! The papers write ‖C‖₂ or R for the domain, and their proofs need its radius in some places and its diameter in others (erratum E26):
//! [`Constants::size`] is either. The step of z in their proofs is at most half of the printed one (E4).

/// Public constants of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// M, the Lipschitz constant of gradients.
    pub smoothness: f64,
    /// L, that of losses.
    pub lipschitz: f64,
    /// ‖C‖₂ or R.
    pub size: f64,
    /// β.
    pub beta: f64,
    /// Rows of a batch, B.
    pub batch: f64,
    /// T.
    pub rounds: f64,
}

/// `Σ_{t < T} summand(t + 1)/η_{0:T−1}`. Summands are smooth beyond 10³: blocks of a thousandth of t + 1 count as their middle.
fn weighted_sum(rounds: f64, summand: impl Fn(f64) -> f64) -> f64 {
    let (mut first, mut sum) = (1.0, 0.0);
    while first <= rounds {
        let width = (first / 1e3).floor().clamp(1.0, rounds.floor() - first + 1.0);
        sum += width * summand(first + 0.5 * (width - 1.0));
        first += width;
    }
    sum / (0.5 * rounds * (rounds + 1.0))
}

/// [000 Theorem 4.7] and [004 Theorem 5.1] with `‖b_t‖ ≤ noise`:
///
/// ```text
/// (1/η_{0:T−1})·Σ_{t < T} η_{0:t}·[ 2q(G + q)/β + (3q + G)·b/η_t + (q·η_t + 3βb)·D/η_{0:t} + β·b²/η_t² ] + 2β·D²/η_{0:T−1}
/// ```
///
/// `q = κ·Q/√(B(t + 1))` bounds ‖g_t − ∇F(x_t)‖, Q the distance of a difference from its mean: κ is 1 for the mean risk (000), and
/// √(3·ln(6T/γ)) with probability 1 − γ (004). G = `gradient(t + 1)` bounds ‖∇F(x_t)‖; L does.
///
/// Prints differ from this: 000 has t + 1 for √(t + 1) in the first q and a second Q in the third (E2), 004 has no G in the second term, and
/// both end with β·D²/η_{0:T}, where the potential starts at 2β‖z_0 − x*‖² and ends with η_{0:T−1} (E3).
pub fn recursion_risk(run: &Constants, spread: f64, kappa: f64, gradient: impl Fn(f64) -> f64, noise: f64) -> f64 {
    let &Constants { size, beta, batch, rounds, .. } = run;
    let summand = |eta: f64| {
        let (q, slope, weights) = (kappa * spread / (batch * eta).sqrt(), gradient(eta), 0.5 * eta * (eta + 1.0));
        let each = 2.0 * q * (slope + q) / beta + (3.0 * q + slope) * noise / eta + beta * (noise / eta).powi(2);
        weights * each + (q * eta + 3.0 * beta * noise) * size
    };
    weighted_sum(rounds, summand) + 4.0 * beta * size * size / (rounds * (rounds + 1.0))
}

/// [000 Theorem 4.1] and [004 Theorem 4.1], `S = Q/√B`, as printed:
/// `(SL + S²)/(β√T) + SR/T^{3/2} + (S + L)·b/T + β·b·R/T² + β·R²/T²`.
///
/// The theorems of which they are simplifications ([`recursion_risk`]) do not give it: all terms but the last are smaller than theirs, by a
/// factor T, or √T where S meets S or b.
pub fn simplified_risk(run: &Constants, deviation: f64, noise: f64) -> f64 {
    let &Constants { lipschitz, size, beta, rounds, .. } = run;
    (deviation * lipschitz + deviation * deviation) / (beta * rounds.sqrt())
        + deviation * size / rounds.powf(1.5)
        + (deviation + lipschitz) * noise / rounds
        + beta * size * (noise + size) / (rounds * rounds)
}

/// [000 Theorem 4.11] and [004 Theorem 5.13], independent gradients:
/// `(1/η_{0:T−1})·Σ_t η_{0:t}·[ 8L²/(√B·β) + 5L·b/η_t + 3βb·R/η_{0:t} + β·b²/η_t² ] + β·R²/η_{0:T}`. The print has no η_{0:t} under 3βb·R (E8), and
/// η_{0:T} in front.
pub fn independent_risk(run: &Constants, noise: f64) -> f64 {
    let &Constants { lipschitz, size, beta, batch, rounds, .. } = run;
    let summand = |eta: f64| {
        let each = 8.0 * lipschitz * lipschitz / (batch.sqrt() * beta) + 5.0 * lipschitz * noise / eta;
        0.5 * eta * (eta + 1.0) * (each + beta * (noise / eta).powi(2)) + 3.0 * beta * noise * size
    };
    weighted_sum(rounds, summand) + 2.0 * beta * size * size / ((rounds + 1.0) * (rounds + 2.0))
}

/// `4C·log₂^{3/2}(T)·√(d·ln(2T/δ))/μ`, a bound on all errors of T ≥ 2 prefix sums of the binary tree with probability 1 − δ
/// ([000 Lemma 4.3], [004 Lemma 5.6]). C is the sensitivity of a summand. The papers write log; their proof needs 2 as its base, and with e
/// it is below what the proof adds up at T = 3.
pub fn tree_error(sensitivity: f64, rounds: f64, dimension: f64, delta: f64, mu: f64) -> f64 {
    4.0 * sensitivity * rounds.log2().powf(1.5) * (dimension * (2.0 * rounds / delta).ln()).sqrt() / mu
}

/// [000 Theorem 4.10] and [004 Theorem 5.12], batches of at most √n rows:
/// `MR²B²/n² + (L + MR)·R/√n + (L + MR/√B)·R·√d/(εn)`, whose B = √n is [000 Theorem 4.6] up to a factor. 4.6 takes B = √n·min(1, M) though M has a
/// unit (L/R).
pub fn constrained_risk(run: &Constants, rows: f64, dimension: f64, epsilon: f64) -> f64 {
    let &Constants { smoothness, lipschitz, size, batch, .. } = run;
    let curved = smoothness * size;
    curved * size * (batch / rows).powi(2)
        + (lipschitz + curved) * size / rows.sqrt()
        + (lipschitz + curved / batch.sqrt()) * size * dimension.sqrt() / (epsilon * rows)
}

/// The parameters (5.2) of paper 004 for a minimiser inside the ball.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interior {
    /// Parameters of the run; M is not among those of (5.2).
    pub run: Constants,
    /// `c_DP = 4√2·ln^{3/2}(n)·√(ln(2n/δ))·ln(2.5/δ)`; the paper writes log, and base 2 would make it larger.
    pub c_dp: f64,
    /// `b_max = c_DP²·L·√d/(εBβ)` of Lemma 5.4.
    pub noise: f64,
    delta: f64,
    rows: f64,
}

impl Interior {
    /// `β = c_DP²·L·max(1, √d/(ε√n))/R`, `T = c_DP·n^{1/4}`, `B = n/T`.
    pub fn new((smoothness, lipschitz, size): (f64, f64, f64), rows: f64, dimension: f64, budget: (f64, f64)) -> Self {
        let (epsilon, delta) = budget;
        let c_dp = 32.0_f64.sqrt() * rows.ln().powf(1.5) * (2.0 * rows / delta).ln().sqrt() * (2.5 / delta).ln();
        let beta = c_dp * c_dp * lipschitz * (dimension.sqrt() / (epsilon * rows.sqrt())).max(1.0) / size;
        let rounds = c_dp * rows.powf(0.25);
        let batch = rows / rounds;
        let noise = c_dp * c_dp * lipschitz * dimension.sqrt() / (epsilon * batch * beta);
        Self { run: Constants { smoothness, lipschitz, size, beta, batch, rounds }, c_dp, noise, delta, rows }
    }

    /// [004 Lemma 5.4], γ = δ: `c₁√M·(√(c_DP·L·R·ln(T/γ)/√(B(t + 1))) + √(β·b_max·R/(t + 1)) + 2√β·R/(t + 1))` bounds ‖∇F(x_t)‖ for
    /// a constant c₁ ≥ 1/2 that the paper does not name.
    pub fn gradient(&self, c1: f64, t: usize) -> f64 {
        let Constants { smoothness, lipschitz, size, beta, batch, rounds } = self.run;
        let next = (t + 1) as f64;
        let sampled = self.c_dp * lipschitz * size * (rounds / self.delta).ln() / (batch * next).sqrt();
        let noisy = beta * self.noise * size / next;
        c1 * smoothness.sqrt() * (sampled.sqrt() + noisy.sqrt() + 2.0 * beta.sqrt() * size / next)
    }

    /// Theorem 5.1 at these parameters with γ = δ, Q = 2c_DP·L and ‖∇F(x_t)‖ ≤ L: what Theorem 5.8 states without constants.
    pub fn risk(&self) -> f64 {
        let kappa = (3.0 * (6.0 * self.run.rounds / self.delta).ln()).sqrt();
        recursion_risk(&self.run, 2.0 * self.c_dp * self.run.lipschitz, kappa, |_| self.run.lipschitz, self.noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Constants =
        Constants { smoothness: 1.0, lipschitz: 1.0, size: 1.0, beta: 50.0, batch: 100.0, rounds: 100.0 };

    fn of(rounds: f64) -> Constants {
        Constants { rounds, ..RUN }
    }

    #[test]
    fn the_bounds_are_their_sums_by_hand() {
        // T = 2, η_{0:t} = 1, 3; q = 0.2, 0.2/√2.
        let (run, b) = (of(2.0), 0.1);
        let term = |eta: f64, weights: f64| {
            let q = 0.2 / eta.sqrt();
            weights * (2.0 * q * (1.0 + q) / 50.0 + (3.0 * q + 1.0) * b / eta + 50.0 * b * b / (eta * eta))
                + q * eta
                + 150.0 * b
        };
        let expected = (term(1.0, 1.0) + term(2.0, 3.0)) / 3.0 + 100.0 / 3.0;
        assert!((recursion_risk(&run, 2.0, 1.0, |_| 1.0, b) / expected - 1.0).abs() < 1e-12);
        // Without noise (T + 2)/3 of 8L²/(√B·β), and β/η_{0:T}.
        let expected = 34.0 * 8.0 / 500.0 + 2.0 * 50.0 / (101.0 * 102.0);
        assert!((independent_risk(&of(100.0), 0.0) / expected - 1.0).abs() < 1e-12);
    }

    /// Blocks are as good as the sum of all.
    #[test]
    fn sums_in_blocks_are_sums() {
        let all: f64 = (1..=200_000).map(|t| f64::from(t).powf(1.5)).sum();
        let found = weighted_sum(2e5, |eta| eta.powf(1.5)) * 0.5 * 2e5 * 200_001.0;
        assert!((found / all - 1.0).abs() < 1e-6, "{}", found / all - 1.0);
    }

    /// The printed simplification loses a factor T in the term of L·b, and none in the last.
    #[test]
    fn the_simplified_theorem_is_not_the_limit_of_the_whole_one() {
        let ratio = |rounds: f64, beta: f64, noise: f64| {
            let run = Constants { beta, ..of(rounds) };
            recursion_risk(&run, 0.0, 1.0, |_| 1.0, noise) / simplified_risk(&run, 0.0, noise)
        };
        assert!((ratio(1e5, 1.0, 0.0) / 4.0 - 1.0).abs() < 1e-3);
        for rounds in [1e4, 1e6] {
            assert!((ratio(rounds, 1e-30, 1.0) / (0.5 * rounds) - 1.0).abs() < 1e-3, "{rounds}");
        }
    }

    #[test]
    fn the_printed_tree_error_covers_what_its_proof_adds_up_with_base_two() {
        for rounds in (2..200).map(f64::from) {
            let levels = rounds.log2().ceil();
            let proof = levels * (2.0 * (1.0 + levels) * 10.0 * (2e6 * rounds).ln()).sqrt();
            let printed = tree_error(1.0, rounds, 10.0, 1e-6, 1.0);
            assert!(printed >= proof * (1.0 - 1e-12), "{rounds}: {printed} {proof}");
            let natural = printed * std::f64::consts::LN_2.powf(1.5);
            assert!(rounds != 3.0 || natural < proof, "{natural} {proof}");
        }
    }

    #[test]
    fn the_constrained_order_has_the_optimal_rate_up_to_a_batch_of_the_root() {
        let risk = |batch: f64| constrained_risk(&Constants { batch, ..RUN }, 1e6, 100.0, 1.0);
        assert!((risk(1e3) - (1e-6 + 2e-3 + (1.0 + 1e-3_f64.sqrt()) * 1e-5)).abs() < 1e-15);
        assert!(risk(1e3) < 1.01 * risk(1e2) && risk(1e5) > 5.0 * risk(1e3));
    }

    /// The left side over the right one of the condition of [004 Lemma 5.5], γ = δ: where it is at most 1, no difference is longer than c_DP·L.
    fn difference_condition(interior: &Interior, c1: f64) -> f64 {
        let Constants { smoothness, lipschitz, size, rounds, .. } = interior.run;
        let (c, ratio) = (interior.c_dp, smoothness * size / lipschitz);
        let tail = 2.0 * c * c * (6.0 * (6.0 * rounds / interior.delta).ln()).sqrt() / interior.rows.powf(0.25);
        let curved = c1 * ratio * (c.sqrt() * ((rounds / interior.delta).ln().sqrt() + 1.0) + 2.0) + 3.0 * ratio;
        (curved + tail + 1.0) / c
    }

    /// With δ ≤ 1/n, as Theorem 5.8 asks, and no noise at all (ε = ∞) its bound is above L·R at n = 10¹³, and below for some n only. Its lemma on
    /// the length of differences holds from n = 10³⁴ on. (5.2) has a row a batch from n ≈ 6·10⁵ on (δ = 10⁻⁶).
    #[test]
    fn the_interior_constants_prove_nothing_below_ten_trillion_rows() {
        let at = |rows: f64, delta: f64, dimension: f64, epsilon: f64| {
            Interior::new((1.0, 1.0, 1.0), rows, dimension, (epsilon, delta))
        };
        let best = |rows: f64| at(rows, 1.0 / rows, 1.0, f64::INFINITY);
        assert!((0..=13).all(|power| power < 2 || best(10f64.powi(power)).risk() > 1.0));
        assert!(best(1e16).risk() < 1.0);
        // The same with δ = 10⁻⁶, ε = 1 and 100 dimensions: from 7·10¹² on, after 1.5·10⁸ rounds.
        let [before, after] = [6.8e12, 7.2e12].map(|rows| at(rows, 1e-6, 100.0, 1.0));
        assert!(before.risk() > 1.0 && after.risk() < 1.0, "{} {}", before.risk(), after.risk());
        assert!((after.run.rounds / 1.45e8 - 1.0).abs() < 0.01);
        assert!(difference_condition(&best(1e33), 0.5) > 1.0 && difference_condition(&best(1e35), 0.5) < 1.0);
        let batch = |rows: f64| at(rows, 1e-6, 1.0, 1.0).run.batch;
        assert!(batch(5e5) < 1.0 && batch(7e5) > 1.0, "{}", batch(6e5));
        // Lemma 5.4: the gradient bound falls with t, to its first term.
        let run = at(1e14, 1e-6, 100.0, 1.0);
        assert!(
            run.gradient(0.5, 10) > run.gradient(0.5, 1_000_000) && run.gradient(1.0, 3) == 2.0 * run.gradient(0.5, 3)
        );
    }
}
