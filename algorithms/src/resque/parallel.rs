//! The whole parallel method of [002 Theorems 1 and 2]: ball acceleration on f̂_ρ with ρ = r, oracles from pools of
//! reweighted queries, every oracle call one adaptive round.
//!
//! | | query depth | computational depth | queries |
//! | --- | --- | --- | --- |
//! | EpochSGD (Theorem 1) | d^{1/3}κ^{2/3} | + κ² | d^{1/3}κ^{2/3} + κ² |
//! | AC-SA (Theorem 2) | d^{1/3}κ^{2/3} | + d^{1/4}κ | the same |
//!
//! up to logarithms. There |f̂_ρ − f| ≤ ε/2, and the other half of ε is left for f̂_ρ. The constants here are practical and not
//! those of the theorems: ball accuracy, variance of the proximal estimate, sample sizes, one solve in a trial of the line
//! search. So a run is judged by its gap.

use rounds_kernels::random::{Purpose, StreamKey, UniformStream};

use super::accelerated_sa::AcceleratedSa;
use super::acceleration::{BallAcceleration, Progress, ProximalOracle};
use super::ball::{BallSolver, Subproblem};
use super::bisection_free::{BallOracle, BisectionFree};
use super::epoch_sgd::EpochSgd;
use super::geometry::{norm, squared_norm, widen};
use super::multilevel;
use super::pool::{GradientPool, PoolMethod};
use super::{Result, positive};
use crate::choices::choices;
use crate::state::StateVisitor;
use crate::theory::ball_acceleration::AccelerationParameters;

/// Streams of the levels of the multilevel estimate.
const LEVELS: Purpose = Purpose(0x4c45_5645);

/// The solver of the balls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    /// [`EpochSgd`]: Theorem 1.
    EpochSgd,
    /// [`AcceleratedSa`]: Theorem 2.
    AcceleratedSa,
}

choices! {
    /// The search for λ in outer steps.
    pub enum Outer {
        /// The line search that the theorems assume.
        LineSearch = "line-search",
        /// [`BisectionFree`], not covered by the theorems.
        BisectionFree = "bisection-free",
    }
}

/// The constant of sample sizes of Algorithms 1 and 2, for T and N_k.
pub const THEOREM_SAMPLES: f64 = 48.0;
/// That in use by default: the practical constants here give up the bounds of the theorems, not their exponents.
pub const PRACTICAL_SAMPLES: f64 = 2.0;
/// C of the ball accuracy φ = λr²/C, practical: the theorems take λr²/(C_ba·log³κ) with a constant that they do not name.
const PRACTICAL_BALL: f64 = 2.0;
/// C of the proximal estimate's standard deviation ε√K/(CR), practical: C_ba in the theorems.
const PRACTICAL_PROXIMAL: f64 = 0.5;

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParallelParameters {
    /// R.
    pub domain_radius: f64,
    /// ε, the error on f; half of it is smoothing bias.
    pub accuracy: f64,
    /// L.
    pub lipschitz: f64,
    /// ρ = r; by default ε/(2L√d), at which |f̂_ρ − f| ≤ ε/2 for any L-Lipschitz function [002 §II-A]. For a loss of one
    /// margin ε/(2L) is enough in any dimension: the bias is at most ρL√(2/π) (specification 1).
    pub smoothing: Option<f64>,
    /// The ball solver.
    pub solver: Solver,
    /// The search for λ.
    pub outer: Outer,
    /// Constant of the sample sizes.
    pub samples: f64,
}

enum Search {
    Line(BallAcceleration),
    BisectionFree(BisectionFree),
}

/// A run; [`ParallelResque::advance`] is one adaptive round.
pub struct ParallelResque {
    search: Search,
    sampler: Sampler,
    rounds: u64,
}

impl ParallelResque {
    /// A run from `start`; `key` addresses the levels of the multilevel estimate.
    ///
    /// # Errors
    /// Parameters out of range; a smoothing radius above R.
    pub fn new(parameters: ParallelParameters, start: Vec<f64>, key: StreamKey) -> Result<Self> {
        let (accuracy, lipschitz, samples) = (parameters.accuracy, parameters.lipschitz, parameters.samples);
        let worst_case = 0.5 * accuracy / (lipschitz * (start.len() as f64).sqrt());
        let radius = positive("smoothing radius ρ", parameters.smoothing.unwrap_or(worst_case))?;
        let acceleration = AccelerationParameters {
            domain_radius: parameters.domain_radius,
            ball_radius: radius,
            accuracy: 0.5 * accuracy,
            lipschitz,
        };
        let solver: Box<dyn BallSolver> = match parameters.solver {
            Solver::EpochSgd => Box::new(EpochSgd::new(samples)?),
            Solver::AcceleratedSa => Box::new(AcceleratedSa::new(samples)?),
        };
        let dimension = start.len();
        let search = match parameters.outer {
            Outer::LineSearch => Search::Line(BallAcceleration::new(acceleration, start)?),
            Outer::BisectionFree => Search::BisectionFree(BisectionFree::new(acceleration, start)?),
        };
        let sampler = Sampler { solver, acceleration, key, calls: 0, depth: 0, offset: vec![0.0; dimension] };
        Ok(Self { search, sampler, rounds: 0 })
    }

    /// True if the run has reached its accuracy or its iterations.
    pub fn finished(&self) -> bool {
        self.progress().finished()
    }

    fn progress(&self) -> &Progress {
        match &self.search {
            Search::Line(run) => &run.progress,
            Search::BisectionFree(run) => &run.progress,
        }
    }

    /// Rounds done.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Most rounds a run may take: every iteration with at most nine trials on average.
    pub fn most_rounds(&self) -> u64 {
        10 * self.sampler.acceleration.most_iterations()
    }
}

impl PoolMethod for ParallelResque {
    fn advance(&mut self, pool: &mut dyn GradientPool) -> Result<()> {
        let mut oracle = SampledOracle { sampler: &mut self.sampler, pool };
        match &mut self.search {
            Search::Line(run) => run.advance(&mut oracle)?,
            Search::BisectionFree(run) => run.advance(&mut oracle)?,
        }
        self.rounds += 1;
        Ok(())
    }

    fn iterate(&self) -> &[f64] {
        &self.progress().iterate
    }

    /// The other rounds are trials of the line search; depth counts a mini-batch as one operation (specification 0.1).
    fn steps(&self) -> Option<(u64, u64)> {
        Some((self.progress().iterations, self.sampler.depth))
    }

    fn visit_state(&mut self, visitor: &mut dyn StateVisitor) {
        visitor.u64("resque_rounds", &mut self.rounds);
        visitor.u64("resque_calls", &mut self.sampler.calls);
        visitor.u64("resque_depth", &mut self.sampler.depth);
        match &mut self.search {
            Search::Line(run) => run.visit_state(visitor),
            Search::BisectionFree(run) => run.visit_state(visitor),
        }
    }
}

/// Ball oracles from pools.
struct Sampler {
    solver: Box<dyn BallSolver>,
    acceleration: AccelerationParameters,
    key: StreamKey,
    calls: u64,
    depth: u64,
    offset: Vec<f32>,
}

struct SampledOracle<'s, 'p> {
    sampler: &'s mut Sampler,
    pool: &'p mut dyn GradientPool,
}

impl Sampler {
    fn subproblem(&self, regularization: f64) -> Result<Subproblem> {
        let radius = self.acceleration.ball_radius;
        Subproblem::new(regularization, radius, regularization * radius * radius / PRACTICAL_BALL)
    }

    /// One round at `centre` and a solve of its ball, whose offset is kept; returns its samples.
    fn solve(&mut self, pool: &mut dyn GradientPool, centre: &[f64], regularization: f64) -> Result<usize> {
        let (subproblem, radius) = (self.subproblem(regularization)?, self.acceleration.ball_radius);
        let plan = self.solver.plan(&subproblem, pool.lipschitz(), radius)?;
        pool.fetch(centre, radius, plan.samples)?;
        self.solver.solve(pool, 0, &subproblem, radius, &mut self.offset)?;
        self.depth += plan.depth;
        Ok(plan.samples)
    }
}

impl ProximalOracle for SampledOracle<'_, '_> {
    fn distance(&mut self, centre: &[f64], regularization: f64) -> Result<f64> {
        // Practical: one solve, where the theorems aggregate about ln(1/ζ) of them to hold with probability 1 − ζ.
        self.sampler.solve(self.pool, centre, regularization)?;
        Ok(squared_norm(&self.sampler.offset).sqrt())
    }

    fn step(&mut self, centre: &[f64], regularization: f64, solution: &mut [f64], proximal: &mut [f64]) -> Result<()> {
        let Self { sampler, pool } = self;
        let (ball_radius, domain_radius) = (sampler.acceleration.ball_radius, sampler.acceleration.domain_radius);
        let (lipschitz, balls) = (pool.lipschitz(), sampler.acceleration.balls());
        let ball = sampler.subproblem(regularization)?;
        // (λ/2)·E‖x − x̂‖² ≤ φ gives the standard deviation ε√K/(CR)/λ of Definition 5.
        let deviation = sampler.acceleration.accuracy * balls.sqrt() / (PRACTICAL_PROXIMAL * domain_radius);
        let wanted = deviation * deviation / (2.0 * regularization);
        let proximal_problem = Subproblem::new(regularization, ball_radius, wanted.min(ball.accuracy))?;
        let most_levels = balls.log2().ceil().max(1.0) as u32;
        let mut stream = UniformStream::new(&sampler.key, LEVELS, sampler.calls, 0);
        sampler.calls += 1;
        let level = multilevel::draw(&mut stream, most_levels);
        let ball_plan = sampler.solver.plan(&ball, lipschitz, ball_radius)?;
        let deepest = multilevel::at_level(&proximal_problem, level);
        let proximal_plan = sampler.solver.plan(&deepest, lipschitz, ball_radius)?;
        pool.fetch(centre, ball_radius, ball_plan.samples + proximal_plan.samples)?;
        sampler.solver.solve(*pool, 0, &ball, ball_radius, &mut sampler.offset)?;
        widen(solution, &sampler.offset);
        let (solver, first) = (&mut *sampler.solver, ball_plan.samples);
        multilevel::estimate(solver, *pool, first, (&proximal_problem, level), ball_radius, proximal)?;
        sampler.depth += ball_plan.depth.max(proximal_plan.depth);
        Ok(())
    }
}

impl BallOracle for SampledOracle<'_, '_> {
    /// λ = 0 is replaced by λ_min/4, which adds at most ε/32·(K r/R)² to the objective; G is the mean over the whole
    /// pool, from the same round.
    fn minimize(&mut self, centre: &[f64], solution: &mut [f64], gradient: &mut [f64]) -> Result<()> {
        let Self { sampler, pool } = self;
        let radius = sampler.acceleration.ball_radius;
        let samples = sampler.solve(*pool, centre, sampler.acceleration.smallest_regularization())?;
        widen(solution, &sampler.offset);
        let mut mean = vec![0.0; sampler.offset.len()];
        pool.reweighted_mean(0..samples, &sampler.offset, &mut mean)?;
        widen(gradient, &mean);
        sampler.depth += 1;
        debug_assert!(norm(solution) <= radius * 1.001);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Engine;
    use crate::resque::ResqueError;
    use crate::resque::black_box::{BlackBox, BlackBoxOracle};
    use crate::resque::functions::MaxOfLinear;

    fn parameters(accuracy: f64, solver: Solver, outer: Outer) -> ParallelParameters {
        ParallelParameters {
            domain_radius: 1.0,
            accuracy,
            lipschitz: 1.0,
            smoothing: None,
            solver,
            outer,
            samples: PRACTICAL_SAMPLES,
        }
    }

    #[test]
    fn every_variant_reaches_its_accuracy_on_the_hard_family() {
        let function = MaxOfLinear::new(16, 4, 1.0, 1.0).unwrap();
        let accuracy = 0.15;
        for solver in [Solver::EpochSgd, Solver::AcceleratedSa] {
            for outer in [Outer::LineSearch, Outer::BisectionFree] {
                let parameters = parameters(accuracy, solver, outer);
                let mut pool = BlackBoxOracle::new(&function, Engine::default(), StreamKey::Simulation(2));
                let mut run = ParallelResque::new(parameters, vec![0.0; 16], StreamKey::Simulation(2)).unwrap();
                while !run.finished() && run.rounds() < run.most_rounds() {
                    run.advance(&mut pool).unwrap();
                }
                let gap = function.value(run.iterate());
                assert!(run.finished() && gap <= accuracy, "{solver:?} {outer:?}: {gap}");
                assert_eq!(pool.ledger().rounds, run.rounds());
            }
        }
    }

    #[test]
    fn a_radius_of_zero_or_above_the_domain_is_refused() {
        let refused = |smoothing| {
            let parameters = ParallelParameters {
                smoothing: Some(smoothing),
                ..parameters(0.1, Solver::EpochSgd, Outer::LineSearch)
            };
            ParallelResque::new(parameters, vec![0.0; 3], StreamKey::Simulation(1)).err()
        };
        assert!(matches!(refused(0.0), Some(ResqueError::NotPositive { .. })));
        assert!(matches!(refused(2.0), Some(ResqueError::BallLargerThanDomain { .. })));
    }
}
