//! Step sizes by stage [003 §4.2, (4.7)] and the weights a_{T,t} with which the noise of round t enters the error of
//! round T [003 (4.3), (4.8)].
//!
//! One stage is Nesterov's method with a constant step size. Momentum is reset at the start of every stage
//! (x_prev := x): the paper's text does not say so, its code does, and the factor 2 a stage in (4.8) needs it (E25).

use super::{Curvature, QuadraticMode, TheoryError, TransitionMatrix, expected_excess, within};

/// Rounds with one step size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Number of rounds n_k ≥ 1.
    pub rounds: usize,
    /// α^(k) ∈ (0, 1/L].
    pub step_size: f64,
}

/// The step size of every round, for a function of S_{μ,L}.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    curvature: Curvature,
    stages: Vec<Stage>,
    /// Stage (0-based) of every round.
    stage_of: Vec<u32>,
}

impl Schedule {
    /// These stages, empty ones left out.
    ///
    /// # Errors
    /// No rounds at all, or a step size outside (0, 1/L].
    pub fn new(curvature: Curvature, stages: Vec<Stage>) -> Result<Self, TheoryError> {
        let stages: Vec<_> = stages.into_iter().filter(|stage| stage.rounds > 0).collect();
        let rounds: usize = stages.iter().map(|stage| stage.rounds).sum();
        within("the number of rounds", rounds as f64, "at least 1", rounds > 0)?;
        for stage in &stages {
            curvature.step_size(stage.step_size)?;
        }
        let stage_of = (0..).zip(&stages);
        let stage_of = stage_of.flat_map(|(index, stage)| std::iter::repeat_n(index, stage.rounds)).collect();
        Ok(Self { curvature, stages, stage_of })
    }

    /// One stage.
    ///
    /// # Errors
    /// As [`Schedule::new`].
    pub fn constant(curvature: Curvature, step_size: f64, rounds: usize) -> Result<Self, TheoryError> {
        Self::new(curvature, vec![Stage { rounds, step_size }])
    }

    /// `α^(1) = c/L` for n_1 rounds, then `α^(k) = c/(2^{2k}·L)` for `n_k = 2^k·⌈√κ·ln 2^{p+2}⌉` rounds, k ≥ 2, the last
    /// stage cut at T [003 (4.7)]. There is no stage with c/(4L): the step from k = 1 to k = 2 is intended.
    ///
    /// `first` is n_1; `None` takes `max(1, ⌈√κ·ln κ⌉)` as the authors' code does.
    ///
    /// # Errors
    /// c outside (0, 1], p = 0, n_1 = 0, T = 0.
    pub fn multistage(
        curvature: Curvature,
        scale: f64,
        p: u32,
        first: Option<usize>,
        rounds: usize,
    ) -> Result<Self, TheoryError> {
        let quantity = "the exponent p of the stage lengths";
        within(quantity, f64::from(p), "at least 1", p >= 1)?;
        let root = curvature.condition().sqrt();
        let first = first.unwrap_or(((root * curvature.condition().ln()).ceil() as usize).max(1));
        within("the length of the first stage", first as f64, "at least 1", first >= 1)?;
        let step_size = scale / curvature.smoothness();
        let unit = ((root * f64::from(p + 2) * std::f64::consts::LN_2).ceil() as usize).max(1);
        let mut stages = vec![Stage { rounds: first.min(rounds), step_size }];
        let mut left = rounds.saturating_sub(first);
        let mut stage = 2;
        while left > 0 {
            let length = unit.saturating_mul(1_usize.checked_shl(stage).unwrap_or(usize::MAX)).min(left);
            stages.push(Stage { rounds: length, step_size: step_size * 0.25_f64.powi(stage as i32) });
            left -= length;
            stage += 1;
        }
        Self::new(curvature, stages)
    }

    /// The first `rounds` rounds (all of them if there are fewer; at least 1).
    #[must_use]
    pub fn truncated(&self, rounds: usize) -> Self {
        let stage_of = self.stage_of[..rounds.clamp(1, self.rounds())].to_vec();
        let lengths = stage_of.chunk_by(|left, right| left == right).map(<[u32]>::len);
        let stages = self.stages.iter().zip(lengths);
        Self {
            curvature: self.curvature,
            stages: stages.map(|(stage, rounds)| Stage { rounds, ..*stage }).collect(),
            stage_of,
        }
    }

    /// μ and L.
    pub fn curvature(&self) -> Curvature {
        self.curvature
    }

    /// The stages.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.stage_of.len()
    }

    /// α of round t (0-based).
    pub fn step_size(&self, round: usize) -> f64 {
        self.stages[self.stage_of[round] as usize].step_size
    }

    /// True if round t (0-based) is the first of its stage.
    pub fn starts_stage(&self, round: usize) -> bool {
        round == 0 || self.stage_of[round] != self.stage_of[round - 1]
    }

    /// `ln(2^{s_t − s_{t−1}}·(1 − √(μα_t)))`: what round t (0-based) multiplies the error so far with.
    fn log_contraction(&self, round: usize) -> f64 {
        let is_later = round > 0 && self.starts_stage(round);
        let doubled = if is_later { std::f64::consts::LN_2 } else { 0.0 };
        doubled + (-(self.curvature.mu() * self.step_size(round)).sqrt()).ln_1p()
    }

    /// `ln(α_t(1 + α_t·L))`: what the noise of round t (0-based) is multiplied with at first.
    fn log_gain(&self, round: usize) -> f64 {
        let step_size = self.step_size(round);
        (step_size * (1.0 + step_size * self.curvature.smoothness())).ln()
    }

    /// `ln a_{T,t}`, t = 1 … T: `a = 2^{s_T − s_t}·Π_{i>t}(1 − √(μα_i))·α_t(1 + α_t·L)`.
    pub fn log_weights(&self) -> Vec<f64> {
        let mut later = 0.0;
        let mut weights: Vec<f64> = (0..self.rounds())
            .rev()
            .map(|round| {
                let weight = later + self.log_gain(round);
                later += self.log_contraction(round);
                weight
            })
            .collect();
        weights.reverse();
        weights
    }

    /// `ln a_{T,0} = ln(2^{s_T − 1}·Π_i(1 − √(μα_i)))`: without the factor α(1 + αL) of the other weights.
    pub fn log_initial_weight(&self) -> f64 {
        (0..self.rounds()).map(|round| self.log_contraction(round)).sum()
    }

    /// `E_T ≤ 2·a_{T,0}·E_0 + Σ_t a_{T,t}·half_trace(t)` [003 (4.3), (4.8), repaired: E21]; `half_trace(t)` is half the trace of
    /// the noise of round t (0-based).
    pub fn bound(&self, initial_gap: f64, half_trace: impl Fn(usize) -> f64) -> f64 {
        let weights = self.log_weights().into_iter().enumerate();
        let noise: f64 = weights.map(|(t, weight)| weight.exp() * half_trace(t)).sum();
        2.0 * self.log_initial_weight().exp() * initial_gap + noise
    }

    /// E F(x_t) − F* for t = 0 … T on a quadratic, exactly; `variance(t)` is that of the noise of round t, a coordinate.
    pub fn expected_excess(&self, modes: &[QuadraticMode], variance: impl Fn(usize) -> f64) -> Vec<f64> {
        let nesterov = |t: usize, eigenvalue: f64| {
            let step_size = self.step_size(t);
            // A reset sets x_prev = x, which leaves z = x whatever β is.
            let momentum = f64::from(u8::from(!self.starts_stage(t))) * self.curvature.momentum(step_size);
            let contraction = 1.0 - step_size * eigenvalue;
            TransitionMatrix { current: (1.0 + momentum) * contraction, previous: -momentum * contraction }
        };
        expected_excess(modes, self.rounds(), nesterov, |t| (self.step_size(t), variance(t)))
    }

    /// The T′ ≤ T with the smallest bound `2·a_{T′,0}·E_0 + noise·(Σ_{t ≤ T′} a_{T′,t}^{1/r})^r`, and that bound
    /// [003 (4.6), Remark 4.1, repaired]: r = 3 and noise = d·S_1²/(nε)² for Laplace, r = 2 and noise = d·S_2²/(4ρn²) for
    /// Gaussian noise. E_0 is a public guess.
    pub fn best_rounds(&self, initial_gap: f64, noise: f64, root: u32) -> (usize, f64) {
        let inverse = 1.0 / f64::from(root);
        let (mut initial, mut sum) = (0.0, 0.0_f64);
        let mut best = (1, f64::INFINITY);
        for round in 0..self.rounds() {
            let contraction = self.log_contraction(round);
            initial += contraction;
            sum = sum * (contraction * inverse).exp() + (self.log_gain(round) * inverse).exp();
            let bound = 2.0 * initial.exp() * initial_gap + noise * sum.powi(root as i32);
            if bound < best.1 {
                best = (round + 1, bound);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(mu: f64, smoothness: f64) -> Curvature {
        Curvature::new(mu, smoothness).unwrap()
    }

    /// The bound of [`Schedule::best_rounds`] for the first rounds, by the sum over all weights.
    fn bound_of(schedule: &Schedule, rounds: usize, initial_gap: f64, noise: f64, root: u32) -> f64 {
        let shorter = schedule.truncated(rounds);
        let sum: f64 = shorter.log_weights().iter().map(|weight| (weight / f64::from(root)).exp()).sum();
        2.0 * shorter.log_initial_weight().exp() * initial_gap + noise * sum.powi(root as i32)
    }

    #[test]
    fn stages_follow_the_published_lengths_and_step_sizes() {
        // [003 Figure 2]: μ = 1, L = 20, p = 1, so ⌈√20·ln 8⌉ = 10.
        let schedule = Schedule::multistage(class(1.0, 20.0), 1.0, 1, Some(5), 300).unwrap();
        let expected =
            [(5, 1.0 / 20.0), (40, 1.0 / 320.0), (80, 1.0 / 1_280.0), (160, 1.0 / 5_120.0), (15, 1.0 / 20_480.0)];
        for (stage, (rounds, step_size)) in schedule.stages().iter().zip(expected) {
            assert_eq!(stage.rounds, rounds);
            assert!((stage.step_size - step_size).abs() < 1e-15);
        }
        assert_eq!(schedule.stages().len(), 5);
        // n_1 of the authors' code: ⌈√20·ln 20⌉ = 14.
        let authors = Schedule::multistage(class(1.0, 20.0), 1.0, 1, None, 300).unwrap();
        assert_eq!(authors.stages()[0].rounds, 14);
    }

    #[test]
    fn a_single_stage_has_the_geometric_weights_of_nesterovs_method() {
        let schedule = Schedule::constant(class(0.1, 2.0), 0.25, 12).unwrap();
        let rate = 1.0 - (0.1_f64 * 0.25).sqrt();
        for (index, weight) in schedule.log_weights().iter().enumerate() {
            let expected = rate.powi(11 - index as i32) * 0.25 * 1.5;
            assert!((weight.exp() / expected - 1.0).abs() < 1e-12);
        }
        assert!((schedule.log_initial_weight().exp() / rate.powi(12) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn weights_are_the_printed_products() {
        let schedule = Schedule::multistage(class(0.5, 2.0), 0.8, 1, Some(3), 40).unwrap();
        let alpha = |t: usize| schedule.step_size(t);
        let stage = |t: usize| schedule.stage_of[t] as i32;
        for (t, weight) in schedule.log_weights().iter().enumerate() {
            let product: f64 = (t + 1..40).map(|i| 1.0 - (0.5 * alpha(i)).sqrt()).product();
            let printed = 2.0_f64.powi(stage(39) - stage(t)) * product * alpha(t) * (1.0 + alpha(t) * 2.0);
            assert!((weight.exp() / printed - 1.0).abs() < 1e-12, "{t}");
        }
        let product: f64 = (0..40).map(|i| 1.0 - (0.5 * alpha(i)).sqrt()).product();
        assert!((schedule.log_initial_weight().exp() / (2.0_f64.powi(stage(39)) * product) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_number_of_rounds_is_the_golden_one() {
        // specification 6.2: d = 20, n = 1e5, c = 0.1, μ = 0.02, L = 6, S_1 = 40, ε = 1, E_0 = 10 gives 372; the factor α(1 + αL)
        // left on a_{T,0} would give 128.
        let schedule = Schedule::constant(class(0.02, 6.0), 0.1 / 6.0, 1_000).unwrap();
        let noise = 20.0 * 1_600.0 / 1e10;
        let (rounds, bound) = schedule.best_rounds(10.0, noise, 3);
        assert_eq!(rounds, 372);
        for other in [1, rounds - 1, rounds + 1, 1_000] {
            assert!(bound <= bound_of(&schedule, other, 10.0, noise, 3) * (1.0 + 1e-12), "{other}");
        }
    }

    #[test]
    fn the_recurrence_for_every_number_of_rounds_equals_the_sum_over_stages() {
        let schedule = Schedule::multistage(class(0.5, 2.0), 0.8, 1, Some(3), 40).unwrap();
        for root in [2, 3] {
            let direct = (1..=40).map(|rounds| (rounds, bound_of(&schedule, rounds, 3.0, 0.01, root)));
            let direct = direct.min_by(|left, right| left.1.total_cmp(&right.1)).unwrap();
            let (rounds, bound) = schedule.best_rounds(3.0, 0.01, root);
            assert_eq!(rounds, direct.0);
            assert!((bound / direct.1 - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn exact_errors_of_one_and_of_several_stages_lie_under_their_bound() {
        // E_T ≤ 2·a_{T,0}·E_0 + Σ_t a_{T,t}·(half the trace of the noise of round t) [003 (4.3), (4.8), repaired: E21].
        let class = class(0.01, 1.0);
        let modes = [0.01, 0.07, 0.4, 1.0].map(|eigenvalue| QuadraticMode { eigenvalue, start: 2.0 });
        let gap: f64 = modes.iter().map(|mode| 2.0 * mode.eigenvalue).sum();
        for full in [
            Schedule::constant(class, 1.0, 150).unwrap(),
            Schedule::constant(class, 0.2, 150).unwrap(),
            Schedule::multistage(class, 1.0, 1, None, 150).unwrap(),
            Schedule::multistage(class, 0.5, 1, Some(20), 150).unwrap(),
        ] {
            let variance = |t: usize| 0.02 / (1.0 + t as f64);
            let exact = full.expected_excess(&modes, variance);
            for (rounds, exact) in exact.into_iter().enumerate().skip(1) {
                let bound = full.truncated(rounds).bound(gap, |t| 2.0 * variance(t));
                assert!(exact <= bound * (1.0 + 1e-9), "{rounds}: {exact} > {bound}");
            }
        }
    }

    #[test]
    fn truncation_keeps_the_first_rounds() {
        let schedule = Schedule::multistage(class(0.5, 2.0), 1.0, 1, Some(3), 40).unwrap();
        for rounds in 1..=40 {
            let shorter = schedule.truncated(rounds);
            assert_eq!(shorter.rounds(), rounds);
            let planned = Schedule::multistage(class(0.5, 2.0), 1.0, 1, Some(3), rounds);
            assert_eq!(shorter, planned.unwrap());
        }
    }

    #[test]
    fn impossible_schedules_are_refused() {
        let class = class(0.1, 1.0);
        assert!(Schedule::constant(class, 1.0, 0).is_err());
        assert!(matches!(Schedule::constant(class, 1.1, 5), Err(TheoryError::StepSize { .. })));
        assert!(Schedule::multistage(class, 1.5, 1, None, 10).is_err());
        assert!(Schedule::multistage(class, 1.0, 0, None, 10).is_err());
        assert!(Schedule::multistage(class, 1.0, 1, Some(0), 10).is_err());
    }
}
