//! One pass over all rows for many independent runs of a study: the same answers as one [`super::Oracle`] a run, counted
//! a run, several times as fast for models of few features.

use std::ops::Range;
use std::sync::Mutex;

use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::replicas::{ReplicaWorkspace, accumulate_replica_gradients, accumulate_replica_losses};
use rounds_kernels::linear::{Batch, Clip, LinearModel, NonFiniteGradient};
use rounds_kernels::loss::TargetKind;

use super::Ledger;
use crate::parallel::{Engine, lock, partition};
use crate::problem::Problem;

/// A problem whose runs cannot share a pass, or an answer that is not finite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// Only models of one output without a bias.
    #[error("runs share a pass over the rows for models of one output without a bias only")]
    Model,
    /// A clip that would act on some row.
    #[error(
        "row {row} has norm {norm}, and gradients are to be clipped to {clip_norm}: runs share a pass only where no \
         gradient is clipped; clip the features to {clip_norm} first"
    )]
    WouldClip {
        /// The row.
        row: usize,
        /// Its norm.
        norm: f32,
        /// The clip norm.
        clip_norm: f32,
    },
    /// A gradient or loss that is not finite.
    #[error(transparent)]
    NotFinite(#[from] NonFiniteGradient),
}

/// Rows of one task and what they add up to.
struct Leaf {
    range: Range<usize>,
    sum: Vec<f64>,
    outcome: Result<(), NonFiniteGradient>,
}

/// Executes full-batch rounds of several runs on one [`Problem`], and counts them.
pub struct ReplicatedOracle<'a> {
    problem: &'a Problem,
    engine: Engine,
    ledgers: Vec<Ledger>,
    leaves: Vec<Leaf>,
    workspaces: Vec<Mutex<ReplicaWorkspace>>,
    /// Runs that leaves and workspaces are made for, padded.
    padded: usize,
    parameters: Vec<f32>,
    /// Sums over all leaves, in their order.
    totals: Vec<f64>,
}

impl<'a> ReplicatedOracle<'a> {
    /// An oracle for `runs` runs, each of which clips its gradients by `clip`.
    ///
    /// # Errors
    /// A model that is not supported, or rows whose gradients the clip could change: bounded losses have a residual of
    /// at most 1 (Huber: h), so a row of norm ≤ C is never clipped.
    pub fn new(problem: &'a Problem, engine: Engine, runs: usize, clip: Clip) -> Result<Self, ReplicaError> {
        let model = problem.model();
        if model.bias || model.loss.targets() == TargetKind::Classes {
            return Err(ReplicaError::Model);
        }
        let residual = model.loss.lipschitz(Norm::L2).unwrap_or(f64::INFINITY);
        if let Clip::Bounded { norm, clip_norm } = clip {
            let norms = &problem.row_norms(norm).values;
            if let Some(row) = norms.iter().position(|&norm| f64::from(norm) * residual > f64::from(clip_norm)) {
                return Err(ReplicaError::WouldClip { row, norm: norms[row], clip_norm });
            }
        }
        Ok(Self {
            problem,
            engine,
            ledgers: vec![Ledger::default(); runs],
            leaves: Vec::new(),
            workspaces: Vec::new(),
            padded: 0,
            parameters: Vec::new(),
            totals: Vec::new(),
        })
    }

    /// The problem of all runs.
    pub fn problem(&self) -> &'a Problem {
        self.problem
    }

    /// The counters of run `run`.
    pub fn ledger(&self, run: usize) -> Ledger {
        self.ledgers[run]
    }

    /// `sums[k] = Σ_i ∇f(points[k]; d_i)` over all rows, for the runs `runs[k]`: one adaptive round of n queries each.
    ///
    /// # Errors
    /// A gradient that is not finite.
    ///
    /// # Panics
    /// Points or sums of another length than the parameters', or not as many as runs.
    pub fn gradient_sums(
        &mut self,
        runs: &[usize],
        points: &[&[f32]],
        sums: &mut [Vec<f64>],
    ) -> Result<(), ReplicaError> {
        assert!(points.len() == runs.len() && sums.len() == runs.len(), "one point and one sum a run");
        let features = self.problem.parameters();
        for &run in runs {
            let ledger = &mut self.ledgers[run];
            ledger.rounds += 1;
            ledger.gradient_queries += self.problem.rows() as u64;
            ledger.flops += (self.problem.flops_per_row() * self.problem.rows() as f64) as u64;
            ledger.clippable += self.problem.rows() as u64;
        }
        if let Some(&first) = runs.first() {
            // The rows are read once for all.
            self.ledgers[first].bytes += (self.problem.stored_bytes_per_row() * self.problem.rows() as f64) as u64;
        }
        self.pass(points, features, &accumulate_replica_gradients)?;
        for (run, sum) in sums.iter_mut().enumerate() {
            assert_eq!(sum.len(), features, "a sum has another length than the parameters");
            for (sum, totals) in sum.iter_mut().zip(self.totals.chunks_exact(self.padded)) {
                *sum = totals[run];
            }
        }
        Ok(())
    }

    /// `F(points[k]) = (1/n)Σ_i φ + (λ/2)‖x‖²` over the n rows but null ones, for every point. Not a round: diagnostics, outside any guarantee.
    ///
    /// # Errors
    /// A loss that is not finite.
    pub fn objectives(&mut self, points: &[&[f32]]) -> Result<Vec<f64>, ReplicaError> {
        self.pass(points, 1, &accumulate_replica_losses)?;
        let half = 0.5 * self.problem.regularization();
        let targets = self.problem.targets();
        let rows = (0..targets.len()).filter(|&row| !targets.is_null(row)).count();
        Ok(points
            .iter()
            .enumerate()
            .map(|(run, point)| {
                let squares: f64 = point.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                self.totals[run] / rows as f64 + half * squares
            })
            .collect())
    }

    /// Runs `kernel` on every leaf; each leaf's sum has `width` values a run.
    fn pass<K>(&mut self, points: &[&[f32]], width: usize, kernel: &K) -> Result<(), ReplicaError>
    where
        K: Fn(&LinearModel, &Batch<'_>, &[f32], &mut [f64], &mut ReplicaWorkspace) -> Result<(), NonFiniteGradient>
            + Sync,
    {
        self.fit(points);
        let (problem, parameters, workspaces) = (self.problem, &self.parameters, &self.workspaces);
        let values = width * self.padded;
        self.engine.for_each(&mut self.leaves, &|leaf, worker| {
            leaf.sum.clear();
            leaf.sum.resize(values, 0.0);
            let batch = problem.batch(Selection::Range(leaf.range.clone()), None::<Norm>);
            let mut workspace = lock(&workspaces[worker]);
            leaf.outcome = kernel(problem.model(), &batch, parameters, &mut leaf.sum, &mut workspace);
        });
        self.totals.clear();
        self.totals.resize(values, 0.0);
        for leaf in &self.leaves {
            leaf.outcome?;
            for (total, value) in self.totals.iter_mut().zip(&leaf.sum) {
                *total += value;
            }
        }
        Ok(())
    }

    /// Makes leaves and workspaces for this many runs, and lays their points side by side.
    fn fit(&mut self, points: &[&[f32]]) {
        let problem = self.problem;
        let (features, rows) = (problem.parameters(), problem.rows());
        let padded = ReplicaWorkspace::padded_runs(points.len());
        if padded != self.padded {
            // The partition depends on rows and runs alone.
            let leaves = partition::leaves(rows, problem.row_cycles() * padded as f64, partition::LEAF_ROWS);
            self.leaves = (0..leaves)
                .map(|leaf| Leaf {
                    range: partition::leaf_range(rows, leaves, leaf),
                    sum: Vec::with_capacity(features * padded),
                    outcome: Ok(()),
                })
                .collect();
            let workspace = || Mutex::new(ReplicaWorkspace::new(problem.model(), padded));
            self.workspaces = (0..self.engine.threads()).map(|_| workspace()).collect();
            self.parameters = vec![0.0; features * padded];
            self.padded = padded;
        }
        for (run, point) in points.iter().enumerate() {
            assert_eq!(point.len(), features, "a point has another length than the parameters");
            for (feature, &value) in point.iter().enumerate() {
                self.parameters[feature * padded + run] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Oracle, evaluate};
    use super::*;
    use crate::problem::synthetic::synthetic_logistic;
    use rounds_kernels::loss::Loss;

    fn problem(rows: usize) -> Problem {
        let data = synthetic_logistic(rows, 20, 5).into_binary().unwrap();
        Problem::new(Arc::new(data), Loss::Logistic, false, 0.02).unwrap()
    }

    #[test]
    fn every_run_gets_the_answers_and_counts_of_its_own_oracle_on_any_number_of_threads() {
        let problem = problem(5_003);
        let points: Vec<Vec<f32>> =
            (0..37).map(|run| (0..20).map(|j| ((run * 20 + j) % 13) as f32 * 0.2 - 1.0).collect()).collect();
        let views: Vec<&[f32]> = points.iter().map(Vec::as_slice).collect();
        let runs: Vec<usize> = (0..37).collect();
        let answers = |threads: usize| {
            let engine = Engine::with_threads(threads).unwrap();
            let mut oracle = ReplicatedOracle::new(&problem, engine, 37, Clip::Unbounded).unwrap();
            let mut sums = vec![vec![0.0; 20]; 37];
            oracle.gradient_sums(&runs, &views, &mut sums).unwrap();
            assert!(
                runs.iter().all(|&run| oracle.ledger(run).rounds == 1 && oracle.ledger(run).gradient_queries == 5_003)
            );
            (sums, oracle.objectives(&views).unwrap())
        };
        let (sums, objectives) = answers(1);
        assert!((sums.clone(), objectives.clone()) == answers(2), "bits depend on the number of threads");
        let mut oracle = Oracle::new(&problem, Engine::Sequential);
        for run in 0..37 {
            let mut sum = vec![0.0; 20];
            oracle.gradient_sum(&Selection::Range(0..5_003), &points[run], Clip::Unbounded, &mut sum).unwrap();
            for (found, expected) in sums[run].iter().zip(&sum) {
                assert!((found - expected).abs() < 1e-2, "{found} {expected}");
            }
            let loss = evaluate(&problem, &Engine::Sequential, &points[run]).unwrap().loss / 5_003.0;
            let squares: f64 = points[run].iter().map(|&x| f64::from(x).powi(2)).sum();
            assert!((objectives[run] - loss - 0.01 * squares).abs() < 1e-6);
        }
    }

    #[test]
    fn a_clip_that_would_act_is_refused() {
        let problem = problem(100);
        let clip = |clip_norm| Clip::Bounded { norm: Norm::L1, clip_norm };
        assert!(ReplicatedOracle::new(&problem, Engine::Sequential, 3, clip(20.0)).is_ok());
        let refused = ReplicatedOracle::new(&problem, Engine::Sequential, 3, clip(1.0));
        assert!(matches!(refused.err(), Some(ReplicaError::WouldClip { row: 0, .. })));
        let data = synthetic_logistic(10, 3, 5).into_binary().unwrap();
        let biased = Problem::new(Arc::new(data), Loss::Logistic, true, 0.02).unwrap();
        let refused = ReplicatedOracle::new(&biased, Engine::Sequential, 3, Clip::Unbounded);
        assert_eq!(refused.err(), Some(ReplicaError::Model));
    }
}
