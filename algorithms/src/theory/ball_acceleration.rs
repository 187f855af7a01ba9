//! Ball acceleration [002 Proposition 1] and the number of examples from which on the proof of private ReSQue
//! [002 Theorem 3] holds with its explicit constants.
//!
//! ```text
//! ε_opt = C·LR(1/√n + √(d·ln(1/δ))·ln^{1.5}(n/δ)·ln n/(nε_dp)),  κ = LR/ε_opt,  ρ = ε_opt/(L√d),  K = (R/r)^{2/3}
//! T_1 = κ√d/(√K·β·ln²κ) + κ²/(K·ln³κ·ln(n/δ))        line search, Algorithm 7
//! T_2 = κ√d/(√K·β·√ln κ) + κ²/(K·ln κ)               ball optimisation, Algorithm 5
//! T_3 = κ√d/(√K·β) + κ²/K                            proximal estimate, Algorithm 6
//! ```
//!
//! The proof asks for ρ/r in the hundreds of thousands and for T/n ≤ 1/60 in every one of thousands of calls, the deepest
//! level of a proximal estimate included. With the 7,850 parameters of MNIST and ε = 0.9 that is feasible from n = 2.8·10²³ on, so no optimiser runs it:
//! the claims of private ReSQue rest on the accountant alone.

/// Parameters of ball acceleration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AccelerationParameters {
    /// R: the optimum lies within R of the start.
    pub(crate) domain_radius: f64,
    /// r ≤ R.
    pub(crate) ball_radius: f64,
    /// ε.
    pub(crate) accuracy: f64,
    /// L.
    pub(crate) lipschitz: f64,
}

impl AccelerationParameters {
    /// K = (R/r)^{2/3}.
    pub(crate) fn balls(&self) -> f64 {
        (self.domain_radius / self.ball_radius).powf(2.0 / 3.0)
    }

    /// κ = LR/ε.
    pub(crate) fn condition(&self) -> f64 {
        self.lipschitz * self.domain_radius / self.accuracy
    }

    /// Smallest λ of the line search, εK²/(4R²).
    pub(crate) fn smallest_regularization(&self) -> f64 {
        self.accuracy * (self.balls() / self.domain_radius).powi(2) / 4.0
    }

    /// Largest λ: 2L/r, at which the proximal point moves at most r/2 (the paper's upper end CL/ε has wrong units, E17).
    pub(crate) fn largest_regularization(&self) -> f64 {
        2.0 * self.lipschitz / self.ball_radius
    }

    /// Iterations after which a run is given up: 8K·ln κ, at least 8.
    pub(crate) fn most_iterations(&self) -> u64 {
        (8.0 * self.balls() * self.condition().max(std::f64::consts::E).ln()).ceil() as u64
    }
}

/// The problem a plan is made for; all of it public.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// n.
    pub examples: f64,
    /// d.
    pub dimension: f64,
    /// L.
    pub lipschitz: f64,
    /// R.
    pub domain_radius: f64,
    /// ε_dp ∈ (0, 1).
    pub epsilon: f64,
    /// δ ∈ (0, 1/6).
    pub delta: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A precondition of the proof that does not hold.
    #[derive(Clone, Debug, PartialEq, thiserror::Error)]
    #[non_exhaustive]
    enum Infeasible {
        /// ε_dp or δ outside the theorem.
        #[error("the theorem needs ε in (0, 1) and δ in (0, 1/6), found ε = {epsilon} and δ = {delta}")]
        Budget {
            /// ε_dp.
            epsilon: f64,
            /// δ.
            delta: f64,
        },
        /// The error bound is no better than the start's.
        #[error(
            "the error bound is {condition:.3} times below LR at n = {examples:.3e}: vacuous, it must be at least e"
        )]
        Vacuous {
            /// κ.
            condition: f64,
            /// n.
            examples: f64,
        },
        /// Some call would read more than n/60 examples.
        #[error("a call would need {steps:.3e} gradients, and the subsampling proof allows n/60 = {limit:.3e}")]
        TooFewExamples {
            /// T_3.
            steps: f64,
            /// n/60.
            limit: f64,
        },
    }

    /// n/T at least: subsampling amplifies in the proof where T/n ≤ 1/60 [002 Lemma 6].
    const PROVEN_SHARE: f64 = 60.0;

    /// ε_opt of [002 (30)] with C = 1.
    fn optimal_error(setting: &Setting) -> f64 {
        let (n, d, delta) = (setting.examples, setting.dimension, setting.delta);
        let privacy = (d * (1.0 / delta).ln()).sqrt() * (n / delta).ln().powf(1.5) * n.ln() / (n * setting.epsilon);
        setting.lipschitz * setting.domain_radius * (1.0 / n.sqrt() + privacy)
    }

    /// [002 (32)–(34)] with 1 for √C, rounded up to whole numbers of at least 4: two phases of a solve.
    fn call_steps(condition: f64, balls: f64, beta: f64, setting: &Setting) -> [f64; 3] {
        let log = condition.ln().max(1.0);
        let noise = condition * setting.dimension.sqrt() / (balls.sqrt() * beta);
        let statistics = condition * condition / balls;
        let ratio = (setting.examples / setting.delta).ln();
        [
            noise / (log * log) + statistics / (log.powi(3) * ratio),
            noise / log.sqrt() + statistics / log,
            noise + statistics,
        ]
        .map(|steps| steps.ceil().max(4.0))
    }

    /// A plan that the proof covers.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct ProvenPlan {
        /// R, r, ε_opt and L.
        acceleration: AccelerationParameters,
        /// ρ.
        smoothing: f64,
        /// β.
        beta: f64,
        /// T_1, T_2, T_3, whole numbers.
        steps: [f64; 3],
        /// ε that the composition proves.
        epsilon: f64,
    }

    impl ProvenPlan {
        /// The plan with the explicit constants of specification 7.4: the largest β whose composed privacy is at most (ε, δ).
        ///
        /// The utility proof's constants are larger than the 1 used here, so a plan that is refused is infeasible for the
        /// theorem too.
        ///
        /// # Errors
        /// The precondition that does not hold.
        fn new(setting: &Setting) -> Result<Self, Infeasible> {
            let Setting { examples: n, dimension: d, lipschitz, domain_radius, epsilon, delta } = *setting;
            if !(epsilon > 0.0 && epsilon < 1.0 && delta > 0.0 && delta < 1.0 / 6.0) {
                return Err(Infeasible::Budget { epsilon, delta });
            }
            let accuracy = optimal_error(setting);
            let condition = lipschitz * domain_radius / accuracy;
            if condition.is_nan() || condition < std::f64::consts::E {
                return Err(Infeasible::Vacuous { condition, examples: n });
            }
            let smoothing = accuracy / (lipschitz * d.sqrt());
            // δ of each of at most n³ sub-calls; the composed failure probability is counted below through the same number.
            let call_delta = delta / (2.0 * (1.0 + epsilon.exp()) * n.powi(3));
            let radius = smoothing / (1_728.0 * (n.ln() / call_delta).ln().powi(2));
            let acceleration = AccelerationParameters { domain_radius, ball_radius: radius, accuracy, lipschitz };
            let balls = acceleration.balls();
            let iterations = acceleration.most_iterations() as f64;
            let trials =
                (acceleration.largest_regularization() / acceleration.smallest_regularization()).log2().max(1.0);
            let runs = (20.0 * (condition * iterations).ln()).ceil();
            // Algorithm 5's first sub-call has the largest β, by √(2 log2 n) at most.
            let growth = 2.0 * n.log2();
            let log_squared = (2.0 / call_delta).ln().powi(2);
            let largest_beta = (1.0 / (3.0 * 6_000.0 * log_squared * growth)).sqrt();
            let most_levels = n.log2();
            let proven = |beta: f64| {
                let [line_search, ball, proximal] = call_steps(condition, balls, beta, setting);
                let squares = iterations
                    * (trials * runs * line_search.powi(2)
                        + ball.powi(2)
                        + most_levels * (1.0 + 1.5 * most_levels * (n / delta).ln()) * proximal.powi(2));
                let rate = 13.0 * 1.44 / (n * n) * 6_000.0 * beta * beta * log_squared * squares;
                let largest_order = 3.0 / (6_000.0 * beta * beta * growth * log_squared);
                let order = (1.0 + ((2.0 / delta).ln() / rate).sqrt()).min(largest_order);
                rate * order + (2.0 / delta).ln() / (order - 1.0)
            };
            // ε grows with β; the steps fall with it: take the largest β that the budget allows.
            let mut beta = largest_beta;
            while proven(beta) > epsilon && beta > 1e-30 {
                beta *= 0.97;
            }
            let steps = call_steps(condition, balls, beta, setting);
            if proven(beta) > epsilon || 2.0 * steps[2] > (n / PROVEN_SHARE).floor() {
                return Err(Infeasible::TooFewExamples { steps: 2.0 * steps[2], limit: n / PROVEN_SHARE });
            }
            Ok(Self { acceleration, smoothing, beta, steps, epsilon: proven(beta) })
        }
    }

    /// The smallest n (to 1 %) from which on [`ProvenPlan::new`] finds a plan for the other values of `setting`; `None` if
    /// none below 10³⁰ does.
    fn first_feasible_examples(setting: &Setting) -> Option<f64> {
        let feasible = |examples: f64| ProvenPlan::new(&Setting { examples, ..*setting }).is_ok();
        let mut high = 1e3;
        while !feasible(high) {
            high *= 10.0;
            if high > 1e30 {
                return None;
            }
        }
        let mut low = high / 10.0;
        while high / low > 1.01 {
            let middle = (low * high).sqrt();
            if feasible(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    const MNIST: Setting =
        Setting { examples: 6e4, dimension: 7_850.0, lipschitz: 1.0, domain_radius: 1.0, epsilon: 0.9, delta: 1e-6 };

    const SMALL: Setting = Setting { dimension: 20.0, ..MNIST };

    #[test]
    fn the_proof_covers_no_plan_for_mnist_and_one_from_its_first_feasible_n_on() {
        assert!(ProvenPlan::new(&MNIST).is_err());
        let first = first_feasible_examples(&MNIST).unwrap();
        assert!((2.7e23..2.9e23).contains(&first), "{first:e}");
        let plan = ProvenPlan::new(&Setting { examples: first, ..MNIST }).unwrap();
        assert!(plan.epsilon <= MNIST.epsilon);
        assert!(plan.smoothing / plan.acceleration.ball_radius > 1e5);
        // At least one level of a proximal estimate keeps T/n ≤ 1/60.
        assert!(2.0 * plan.steps[2] <= first / 60.0, "{:e} of {first:e}", plan.steps[2]);
        assert!(plan.steps.iter().all(|steps| steps.fract() == 0.0));
        assert!(ProvenPlan::new(&Setting { examples: 0.9 * first, ..MNIST }).is_err());
        let smaller = first_feasible_examples(&SMALL).unwrap();
        assert!(smaller < first, "{smaller:e}");
    }

    #[test]
    fn each_precondition_names_itself() {
        let refused = |setting| ProvenPlan::new(&setting).unwrap_err();
        let (epsilon, delta) = (2.0, 0.2);
        for budget in [Setting { epsilon, ..MNIST }, Setting { delta, ..MNIST }] {
            assert!(matches!(refused(budget), Infeasible::Budget { .. }));
        }
        assert!(matches!(refused(MNIST), Infeasible::Vacuous { .. }));
        let more = Setting { examples: 1e8, ..SMALL };
        assert!(matches!(refused(more), Infeasible::TooFewExamples { .. }));
    }
}
