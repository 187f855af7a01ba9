//! Ball acceleration: an optimiser of radius R from one of balls of radius r, in about (R/r)^{2/3} calls [002 Proposition
//! 1; Asi et al. 2021 Algorithm 4; specification 7.3 and 10.2].
//!
//! ```text
//! K = (R/r)^{2/3}, κ = LR/ε;   A = R/L, x = v = x_0;   λ ∈ [εK²/(4R²), 2L/r]
//! until A ≥ 2R²/ε:
//!   (λ, y) = line search:  a = (1 + √(1 + 4λA))/(2λ),  y = (A·x + a·v)/(A + a),  ‖O(y, λ) − y‖ ∈ [r/2, 13r/16]
//!                          or λ = λ_min
//!   x⁺ = ball oracle(y, λ) to λr²/C
//!   p  = proximal estimate(y, λ),  v⁺ = Π_{x_0,R}(v − (a/2)·λ·(y − p)),  A⁺ = A + a
//! ```
//!
//! **Potential.** `A(F(x) − F*) + ‖v − x*‖²` does not grow with exact oracles: it falls by at least `(3/4)A⁺λ‖y − x̂‖²` a
//! step, hence the gap is at most `2R²/A` at the end. One call of [`BallAcceleration::advance`] is one call of one oracle,
//! so one adaptive round where oracles are: a trial of the line search, or a step (ball oracle and proximal estimate
//! share their centre, thus their round).

use super::geometry::project;
use super::{ResqueError, Result, positive};
use crate::state::StateVisitor;
use crate::theory::ball_acceleration::AccelerationParameters;

/// The oracles of [002 Definitions 3–5]; each call is one round.
pub(crate) trait ProximalOracle {
    /// ‖x̂ − y‖ for an x̂ within r/17 of `argmin_{‖x − y‖ ≤ r} F(x) + (λ/2)‖x − y‖²` [002 Definition 3].
    fn distance(&mut self, centre: &[f64], regularization: f64) -> Result<f64>;

    /// Offsets of a ball solution [002 Definition 4] and of a proximal estimate of small bias [002 Definition 5], both
    /// at `centre`.
    fn step(&mut self, centre: &[f64], regularization: f64, solution: &mut [f64], proximal: &mut [f64]) -> Result<()>;
}

impl AccelerationParameters {
    /// Refuses quantities that are not above 0, and r > R.
    pub(crate) fn check(&self) -> Result<()> {
        positive("domain radius R", self.domain_radius)?;
        positive("ball radius r", self.ball_radius)?;
        positive("accuracy ε", self.accuracy)?;
        positive("Lipschitz constant L", self.lipschitz)?;
        if self.ball_radius > self.domain_radius {
            return Err(ResqueError::BallLargerThanDomain { ball: self.ball_radius, domain: self.domain_radius });
        }
        Ok(())
    }
}

/// A trial λ of the line search, with the bracket known so far and the factor that expands it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    lambda: f64,
    low: Option<f64>,
    high: Option<f64>,
    factor: f64,
}

/// The next call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Search(Trial),
    /// The step at an accepted λ.
    Step(f64),
}

impl Stage {
    fn search_from(lambda: f64) -> Self {
        let (low, high, factor) = (None, None, 2.0);
        Self::Search(Trial { lambda, low, high, factor })
    }
}

/// A run of ball acceleration between two calls, whatever the search for λ.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) parameters: AccelerationParameters,
    /// x_0.
    pub(super) start: Vec<f64>,
    /// x.
    pub(super) iterate: Vec<f64>,
    /// v.
    pub(super) momentum: Vec<f64>,
    /// The centre of a call.
    pub(super) centre: Vec<f64>,
    /// The offset of its ball solution.
    pub(super) solution: Vec<f64>,
    /// The point that v moves to or from: the offset of its proximal estimate, or a gradient.
    pub(super) direction: Vec<f64>,
    /// A.
    pub(super) weight: f64,
    pub(super) iterations: u64,
}

impl Progress {
    pub(super) fn new(parameters: AccelerationParameters, weight: f64, start: Vec<f64>) -> Result<Self> {
        parameters.check()?;
        let zeros = vec![0.0; start.len()];
        Ok(Self {
            parameters,
            iterate: start.clone(),
            momentum: start.clone(),
            start,
            centre: zeros.clone(),
            solution: zeros.clone(),
            direction: zeros,
            weight,
            iterations: 0,
        })
    }

    /// True if A ≥ 2R²/ε: the gap is at most ε by the potential.
    fn converged(&self) -> bool {
        self.weight >= 2.0 * self.parameters.domain_radius.powi(2) / self.parameters.accuracy
    }

    /// True if the gap is at most ε by the potential, or the iterations are used up.
    pub(super) fn finished(&self) -> bool {
        self.converged() || self.iterations >= self.parameters.most_iterations()
    }

    /// a(λ), the positive root of λa² = A + a.
    pub(super) fn root(&self, regularization: f64) -> f64 {
        (1.0 + (1.0 + 4.0 * regularization * self.weight).sqrt()) / (2.0 * regularization)
    }

    /// y = (A·x + a·v)/(A + a), the centre of the next call, given a/(A + a).
    pub(super) fn place(&mut self, share: f64) {
        for ((y, x), v) in self.centre.iter_mut().zip(&self.iterate).zip(&self.momentum) {
            *y = x + share * (v - x);
        }
    }

    /// `v ← Π_{x_0,R}(v + factor·direction)`, which ends an iteration.
    pub(super) fn move_momentum(&mut self, factor: f64) {
        for ((v, direction), start) in self.momentum.iter_mut().zip(&self.direction).zip(&self.start) {
            // Relative to the start for the projection.
            *v += factor * direction - start;
        }
        project(&mut self.momentum, self.parameters.domain_radius);
        self.momentum.iter_mut().zip(&self.start).for_each(|(v, start)| *v += start);
        self.iterations += 1;
    }

    pub(super) fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.f64s("resque_start", &mut self.start);
        visitor.f64s("resque_iterate", &mut self.iterate);
        visitor.f64s("resque_momentum", &mut self.momentum);
        visitor.u64("resque_iterations", &mut self.iterations);
    }
}

/// A run with a line search.
#[derive(Clone, Debug)]
pub(crate) struct BallAcceleration {
    pub(super) progress: Progress,
    stage: Stage,
    trials: u64,
}

impl BallAcceleration {
    /// A run from `start`.
    pub(crate) fn new(parameters: AccelerationParameters, start: Vec<f64>) -> Result<Self> {
        let progress = Progress::new(parameters, parameters.domain_radius / parameters.lipschitz, start)?;
        let smallest = parameters.smallest_regularization();
        Ok(Self { progress, stage: Stage::search_from(smallest.min(parameters.largest_regularization())), trials: 0 })
    }

    /// x, the point to use.
    pub(crate) fn iterate(&self) -> &[f64] {
        &self.progress.iterate
    }

    /// R, r, ε and L.
    pub(crate) fn parameters(&self) -> AccelerationParameters {
        self.progress.parameters
    }

    /// Fills the centre y for λ; returns a.
    fn place(&mut self, regularization: f64) -> f64 {
        let a = self.progress.root(regularization);
        self.progress.place(a / (self.progress.weight + a));
        a
    }

    /// One call of one oracle.
    pub(crate) fn advance(&mut self, oracle: &mut dyn ProximalOracle) -> Result<()> {
        match self.stage {
            Stage::Search(trial) => {
                self.place(trial.lambda);
                let distance = oracle.distance(&self.progress.centre, trial.lambda)?;
                self.trials += 1;
                self.stage = self.judge(trial, distance);
            }
            Stage::Step(lambda) => {
                let a = self.place(lambda);
                let run = &mut self.progress;
                oracle.step(&run.centre, lambda, &mut run.solution, &mut run.direction)?;
                for j in 0..run.iterate.len() {
                    run.iterate[j] = run.centre[j] + run.solution[j];
                }
                // v − (a/2)λ(y − p), with p = y + direction.
                run.move_momentum(0.5 * a * lambda);
                run.weight += a;
                self.stage = Stage::search_from(lambda);
            }
        }
        Ok(())
    }

    /// Visits what a checkpoint must hold.
    pub(crate) fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        self.progress.visit_state(visitor);
        visitor.u64("resque_trials", &mut self.trials);
        // A missing end of the bracket is NaN; a step is a search with factor 0.
        let (lambda, [low, high], factor) = match self.stage {
            Stage::Search(trial) => {
                let ends = [trial.low, trial.high].map(|end| end.unwrap_or(f64::NAN));
                (trial.lambda, ends, trial.factor)
            }
            Stage::Step(lambda) => (lambda, [f64::NAN; 2], 0.0),
        };
        let mut values = [self.progress.weight, lambda, low, high, factor];
        visitor.f64s("resque_stage", &mut values);
        let [weight, lambda, low, high, factor] = values;
        let [low, high] = [low, high].map(|end| (!end.is_nan()).then_some(end));
        self.progress.weight = weight;
        let trial = Trial { lambda, low, high, factor };
        self.stage = if factor == 0.0 { Stage::Step(lambda) } else { Stage::Search(trial) };
    }

    /// The stage after a trial: λ is too small if the solution moved more than 13r/16, too large if less than r/2.
    fn judge(&self, trial: Trial, distance: f64) -> Stage {
        let parameters = &self.progress.parameters;
        let radius = parameters.ball_radius;
        let (smallest, largest) = (parameters.smallest_regularization(), parameters.largest_regularization());
        let Trial { lambda, factor, .. } = trial;
        let trial = if distance > 13.0 / 16.0 * radius && lambda < largest {
            Trial { low: Some(lambda), ..trial }
        } else if distance < 0.5 * radius && lambda > smallest {
            Trial { high: Some(lambda), ..trial }
        } else {
            return Stage::Step(lambda);
        };
        let expanded = Trial { factor: 2.0 * factor, ..trial };
        Stage::Search(match (trial.low, trial.high) {
            (Some(low), Some(high)) if (high / low).ln() < 1e-3 => return Stage::Step(high),
            (Some(low), Some(high)) => Trial { lambda: (low * high).sqrt(), ..trial },
            (_, None) => Trial { lambda: (lambda * factor).min(largest), ..expanded },
            (None, _) => Trial { lambda: (lambda / factor).max(smallest), ..expanded },
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::resque::functions::PlantedRegression;
    use crate::resque::geometry::{distance, norm};
    use crate::vectors::map2;
    use rounds_kernels::loss::Loss;

    /// The convolved least absolute deviation with exact gradients, and an exact proximal oracle: accelerated projected
    /// gradient on the strongly convex subproblem.
    pub(crate) struct ExactOracle {
        planted: PlantedRegression,
        smoothing: f64,
        radius: f64,
        solves: u64,
    }

    impl ExactOracle {
        pub(crate) fn value_and_gradient(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
            gradient.fill(0.0);
            let n = self.planted.targets.len() as f64;
            let mut total = 0.0;
            for (row, &y) in self.planted.features.chunks_exact(x.len()).zip(&self.planted.targets) {
                let margin: f64 = row.iter().zip(x).map(|(&a, x)| f64::from(a) * x).sum();
                let (value, slope) = Loss::Absolute.convolved(margin, y.into(), self.smoothing).unwrap();
                total += value / n;
                gradient.iter_mut().zip(row).for_each(|(g, &a)| *g += slope * f64::from(a) / n);
            }
            total
        }

        pub(crate) fn value(&self, x: &[f64]) -> f64 {
            self.value_and_gradient(x, &mut vec![0.0; x.len()])
        }

        /// Offset of the exact subproblem solution (λ may be 0).
        pub(crate) fn solve(&mut self, centre: &[f64], lambda: f64) -> Vec<f64> {
            self.solves += 1;
            let smoothness = 0.8 / self.smoothing + lambda;
            let ratio = (lambda.max(1e-4) / smoothness).sqrt();
            let momentum = (1.0 - ratio) / (1.0 + ratio);
            let dimension = centre.len();
            let (mut v, mut w, mut gradient) = (vec![0.0; dimension], vec![0.0; dimension], vec![0.0; dimension]);
            for _ in 0..2_000 {
                let x = map2(centre, &w, |c, w| c + w);
                self.value_and_gradient(&x, &mut gradient);
                let mut next = map2(&w, &gradient, |w, g| w - (g + lambda * w) / smoothness);
                project(&mut next, self.radius);
                let change = distance(&next, &v);
                for j in 0..dimension {
                    w[j] = next[j] + momentum * (next[j] - v[j]);
                }
                v = next;
                if change < 1e-10 * self.radius {
                    break;
                }
            }
            v
        }
    }

    impl ProximalOracle for ExactOracle {
        fn distance(&mut self, centre: &[f64], lambda: f64) -> Result<f64> {
            Ok(norm(&self.solve(centre, lambda)))
        }
        fn step(&mut self, centre: &[f64], lambda: f64, solution: &mut [f64], proximal: &mut [f64]) -> Result<()> {
            let v = self.solve(centre, lambda);
            solution.copy_from_slice(&v);
            proximal.copy_from_slice(&v);
            Ok(())
        }
    }

    /// A problem with its oracle, optimum and minimum on the domain of radius 1.
    pub(crate) fn exact(radius: f64, accuracy: f64) -> (AccelerationParameters, ExactOracle, Vec<f64>, f64) {
        let mut oracle = ExactOracle {
            planted: PlantedRegression::new(8, 20, 1.0, 0.1, 3),
            smoothing: 0.05,
            radius: 10.0,
            solves: 0,
        };
        // The minimum of the convolved function, by one solve on a ball that holds it.
        let best = oracle.solve(&[0.0; 8], 0.0);
        oracle.radius = radius;
        let minimum = oracle.value(&best);
        let parameters = AccelerationParameters { domain_radius: 1.0, ball_radius: radius, accuracy, lipschitz: 1.0 };
        (parameters, oracle, best, minimum)
    }

    fn run(radius: f64, accuracy: f64) -> (BallAcceleration, ExactOracle, f64) {
        let (parameters, mut oracle, best, minimum) = exact(radius, accuracy);
        let mut run = BallAcceleration::new(parameters, vec![0.0; 8]).unwrap();
        let potential = |run: &BallAcceleration, oracle: &ExactOracle| {
            let gap = oracle.value(run.iterate()) - minimum;
            run.progress.weight * gap + distance(&run.progress.momentum, &best).powi(2)
        };
        let (mut weight, mut before) = (run.progress.weight, potential(&run, &oracle));
        while !run.progress.finished() {
            run.advance(&mut oracle).unwrap();
            assert!(run.progress.weight >= weight, "A grows");
            weight = run.progress.weight;
            let after = potential(&run, &oracle);
            assert!(after <= before * (1.0 + 1e-9) + 1e-9, "potential {before} → {after}");
            before = after;
        }
        let gap = oracle.value(run.iterate()) - minimum;
        (run, oracle, gap)
    }

    #[test]
    fn exact_oracles_reach_the_accuracy_within_the_iterations() {
        for (radius, accuracy) in [(0.1, 0.01), (0.02, 0.005), (0.5, 0.02)] {
            let (run, oracle, gap) = run(radius, accuracy);
            assert!(run.progress.converged() && gap <= accuracy, "r = {radius}: gap {gap}");
            let (iterations, bound) = (run.progress.iterations, run.progress.parameters.most_iterations());
            assert!(iterations < bound, "{iterations} of {bound}");
            assert_eq!(run.trials + iterations, oracle.solves - 1);
            assert!(run.trials <= 6 * iterations + 8, "{} trials", run.trials);
        }
    }

    #[test]
    fn a_ball_as_large_as_the_domain_is_the_proximal_point_method() {
        // With r = 1 no trial leaves the ball's interior, so λ stays at its smallest value: one trial a step.
        let (run, _, _) = run(1.0, 0.05);
        assert!(run.trials <= run.progress.iterations + 1);
    }

    #[test]
    fn bad_parameters_are_refused() {
        let good = AccelerationParameters { domain_radius: 1.0, ball_radius: 0.5, accuracy: 0.1, lipschitz: 1.0 };
        let refused = |accuracy, ball_radius| {
            let parameters = AccelerationParameters { ball_radius, accuracy, ..good };
            BallAcceleration::new(parameters, vec![0.0]).err()
        };
        assert!(refused(0.1, 0.5).is_none());
        let (ball, domain) = (1.5, 1.0);
        let large = ResqueError::BallLargerThanDomain { ball, domain };
        assert_eq!(refused(0.1, 1.5), Some(large));
        for zero in [refused(0.0, 0.5), refused(0.1, 0.0)] {
            assert!(matches!(zero, Some(ResqueError::NotPositive { .. })));
        }
    }
}
