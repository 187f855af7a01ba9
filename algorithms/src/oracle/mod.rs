//! The only way to the data: executes batches of gradient queries, counts them, and gives bitwise the same sums for
//! any number of threads.
//!
//! A batch is split into leaves by its size alone ([`partition`]); each leaf sums its clipped gradients into its own f64
//! vector, exactly in integers of a public lattice or in f32 within blocks of at most 128 rows; leaves are added along a fixed
//! [`tree`]. The [`Engine`] only decides which thread, or which rank ([`crate::parallel::ranks`]), runs a leaf, and in how many pieces
//! one of integers is summed.

mod drawn;
mod ledger;
mod networks;
mod recorded;
mod shared;
pub mod tree;

use std::ops::Range;
use std::sync::Mutex;

pub use ledger::Ledger;
use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::{
    self, Batch, Clip, Evaluation, LinearModel, LocalSteps, NonFiniteGradient, PackedQuery, Point, Precision,
    SUMMED_ROWS, SumLattice, Tally, Workspace,
};
use rounds_kernels::{network, vector};

use self::shared::Reader;
use crate::parallel::{Engine, lock, partition};
use crate::privacy::Sampling;
use crate::problem::{Problem, PublicProblem};
use crate::sampling::Sampler;

/// The parts of a round whose time is measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Choosing the batch.
    Sample,
    /// Gradient queries: kernels and the sum over leaves.
    Gradient,
    /// The noise mechanism.
    Noise,
    /// Everything else an optimiser does.
    Update,
}

/// Is told when a phase of a round begins. Lives in the harness, where the clock is.
pub trait PhaseObserver {
    /// `phase` begins now; whatever ran before ends.
    fn enter(&mut self, phase: Phase);
}

/// A query without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Parameters beyond [`PublicProblem::most_weight`](crate::problem::PublicProblem::most_weight) or a coefficient beyond
    /// 2⁵⁰: functions of what was released before and of public numbers, not of any row.
    #[error("the iterate or a coefficient has diverged; lower the learning rate")]
    Diverged,
    /// Sums that no lattice holds exactly, by public numbers; or more rows than a data set of the domain has.
    #[error(
        "sums of {rows} rows at most, at this clip norm and these coefficients, are not surely exact: the rows or the clip norm do \
             not suit the declared domain"
    )]
    Lattice {
        /// The most rows of a batch.
        rows: usize,
    },
    /// A batch of chosen rows where rows are drawn from a law, batch by batch.
    #[error("rows that are drawn from a law are read in their order: take sampling=fixed")]
    Order,
    /// A row with a gradient that is not finite. Rows of a declared domain have none at parameters that have not diverged.
    #[error("{0}; lower the learning rate, or check the features")]
    Row(#[from] NonFiniteGradient),
}

/// A partial sum, of a leaf or of a piece of one, and what the kernel said about it.
struct Leaf {
    sum: Vec<f64>,
    range: Range<usize>,
    outcome: Result<Tally, NonFiniteGradient>,
    /// Places of its rows on this rank, for sharded rows.
    slots: Vec<u32>,
}

/// `sum += worth · Σ` of the terms of some rows, worth 1 but for integers: `kernel(model, rows, (sum, worth), workspace)`.
trait LeafKernel:
    Fn(&LinearModel, &Batch<'_>, (&mut [f64], f64), &mut Scratch) -> Result<Tally, NonFiniteGradient> + Sync
{
}

impl<F> LeafKernel for F where
    F: Fn(&LinearModel, &Batch<'_>, (&mut [f64], f64), &mut Scratch) -> Result<Tally, NonFiniteGradient> + Sync
{
}

/// Scratch memory of a worker, of the kind of the problem's model.
enum Scratch {
    Linear(Box<Workspace>),
    Network(Box<network::Workspace>),
}

impl Scratch {
    fn of(problem: &Problem) -> Self {
        match problem.network() {
            Some(network) => Self::Network(Box::new(network::Workspace::new(network))),
            None => Self::Linear(Box::new(Workspace::new(problem.model()))),
        }
    }

    fn linear(&mut self) -> &mut Workspace {
        match self {
            Self::Linear(workspace) => workspace,
            Self::Network(_) => panic!("a query of linear models on a network"),
        }
    }
}

/// The largest coefficient of a difference on rows of a declared domain, 2⁵⁰: residuals are at most 2⁶¹.
pub(crate) const MOST_COEFFICIENT: f32 = 1_125_899_906_842_624.0;

/// Coordinates of the final sum that one task adds up.
const REDUCTION_CHUNK: usize = 2_048;

/// Executes and counts gradient queries on one [`Problem`].
pub struct Oracle<'a> {
    problem: &'a Problem,
    engine: Engine,
    ledger: Ledger,
    /// Most leaves of a batch, on all ranks together.
    most_leaves: usize,
    leaves: Vec<Leaf>,
    /// Sums are integers of a lattice.
    exact: bool,
    /// Of weights and coefficients that are integers.
    precision: Precision,
    /// One per worker; a worker is exclusive to one task at a time, so these locks are never contended.
    workspaces: Vec<Mutex<Scratch>>,
    /// Parameters of a query as integers, packed once a round: where sums are those of integers.
    packed: Option<PackedQuery>,
    /// Those of a network, likewise.
    networks: Vec<network::PackedParameters>,
    /// Scratch of recorded queries, made when first needed.
    recorded: Vec<Mutex<recorded::RecordedScratch>>,
    /// One per worker: sums under way while leaves are added.
    additions: Vec<Mutex<Vec<f64>>>,
    /// Sums of subtrees that travel between ranks.
    travelling: shared::Travelling,
    observer: Option<&'a mut (dyn PhaseObserver + Send)>,
}

impl<'a> Oracle<'a> {
    /// An oracle for `problem` on `engine`, with all memory that its rounds need.
    pub fn new(problem: &'a Problem, engine: Engine) -> Self {
        problem.prepare(&engine);
        let parameters = problem.parameters();
        let leaves = problem.leaves(problem.rows());
        // A rank never runs more leaves than its share, and always sums into them.
        let (own, needed) = match engine.ranked() {
            Some(ranked) => (leaves.div_ceil(ranked.ranks().count()), true),
            None if leaves > 1 && problem.may_sum_integers() => {
                (leaves.max(partition::most_pieces(engine.threads())), true)
            }
            None => (leaves, leaves > 1),
        };
        Self {
            problem,
            ledger: Ledger::default(),
            most_leaves: leaves,
            leaves: (0..own)
                .map(|_| Leaf {
                    sum: vec![0.0; if needed { parameters } else { 0 }],
                    range: 0..0,
                    outcome: Ok(Tally::default()),
                    slots: Vec::new(),
                })
                .collect(),
            additions: (0..engine.threads())
                .map(|_| Mutex::new(vec![0.0; tree::scratch(leaves, REDUCTION_CHUNK) + leaves * REDUCTION_CHUNK]))
                .collect(),
            travelling: shared::Travelling::default(),
            exact: false,
            precision: Precision::default(),
            workspaces: (0..engine.threads()).map(|_| Mutex::new(Scratch::of(problem))).collect(),
            packed: PackedQuery::new(problem.model()),
            networks: Vec::new(),
            recorded: Vec::new(),
            engine,
            observer: None,
        }
    }

    /// The same oracle, telling `observer` when a phase of a round begins.
    #[must_use]
    pub fn observed_by(mut self, observer: &'a mut (dyn PhaseObserver + Send)) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same oracle, whose clipped sums are integers of a public lattice where the problem has one: what a row adds to them
    /// depends on nothing beside it, and is at most as long as the clip norm, exactly.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        if !self.exact {
            self.exact = self.problem.feature_grid().is_some();
            self.recorded.clear();
        }
        self
    }

    /// The same oracle, with weights and coefficients of this precision where rows are multiplied as integers.
    #[must_use]
    pub fn at_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Brings rows to the ranks that will read them in the first `rounds` batches of `sampler`, as far as that is known
    /// before the first round, so that no row travels in one. Rows that an earlier run brought leave, also where nothing is
    /// known or there is no sampler: a run begins as it would alone. Collective. Where rows are not shared out, batches of all of them
    /// are announced to the problem.
    pub fn place(&self, sampler: Option<&Sampler>, rounds: u64) {
        let (Some(ranked), Some(shard)) = (self.engine.ranked(), self.problem.shard()) else {
            // A copy lies near one memory node, and exact sums do not read it.
            if sampler.is_some_and(|sampler| sampler.sampling() == Sampling::FullBatch)
                && !self.exact
                && !self.problem.is_sharded()
                && self.problem.unit().is_none()
                && self.engine.threads_by_node().len() == 1
            {
                self.problem.announce_full_batches();
            }
            return;
        };
        let ranks = ranked.ranks();
        let expected = (0..ranks.count()).map(|rank| {
            sampler?.expected_rows(rounds, &|length| {
                let leaves = self.problem.leaves(length).min(self.most_leaves);
                partition::rank_positions(length, leaves, ranks.count(), rank)
            })
        });
        match expected.collect::<Option<Vec<_>>>() {
            Some(expected) => shard.place(expected, ranks),
            None => shard.remove_copies(),
        }
    }

    /// The problem that is queried.
    pub fn problem(&self) -> &'a Problem {
        self.problem
    }

    /// The execution engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The counters of all queries so far.
    pub fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Restores the counters of an interrupted run.
    pub fn set_ledger(&mut self, ledger: Ledger) {
        self.ledger = ledger;
    }

    /// Marks the begin of a phase of the round.
    pub fn enter(&mut self, phase: Phase) {
        if let Some(observer) = &mut self.observer {
            observer.enter(phase);
        }
    }

    /// Refuses parameters at which some row of the declared domain could overflow.
    fn check_parameters(&self, parameters: &[f32]) -> Result<(), QueryError> {
        let limit = self.problem.most_weight();
        // Without a branch, and false for NaN.
        let within = parameters.iter().fold(true, |within, x| within & (x.abs() <= limit));
        if within { Ok(()) } else { Err(QueryError::Diverged) }
    }

    /// `sum = Σ_{i ∈ batch} clip(∇f(x; d_i))`: one adaptive round of `batch` queries. An empty batch is a round like any
    /// other, with sum 0.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// # use std::sync::Arc;
    /// # let labels = Labels::Values(vec![1.0, 2.0, 3.0, 4.0]);
    /// # let dataset = Dataset::new("line", Features::f32(vec![0.25, 0.5, 0.75, 1.0], 1), labels)?;
    /// # let problem = Problem::new(Arc::new(dataset), Loss::Squared, false, 0.0)?;
    /// let mut oracle = Oracle::new(&problem, Engine::Sequential);
    /// let mut sampler = Sampler::new(Sampling::FullBatch, 4, 4, StreamKey::Simulation(1))?;
    /// let mut sum = [0.0];
    /// oracle.gradient_sum(&sampler.draw(0, 4), &[4.0], Clip::Unbounded, &mut sum)?;
    /// assert_eq!(sum, [0.0]);
    /// assert_eq!(oracle.ledger().gradient_queries, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Parameters that have diverged; without a declared domain, a row whose gradient is not finite.
    pub fn gradient_sum(
        &mut self,
        batch: &Selection<'_>,
        parameters: &[f32],
        clip: Clip,
        sum: &mut [f64],
    ) -> Result<(), QueryError> {
        let unit = self.sum_in_units(batch, (Point::at(parameters), None), clip, sum)?;
        in_real_numbers(sum, unit);
        Ok(())
    }

    /// Asks for parameters that a round's other threads have read: the caller is about to change them.
    fn take_back(&self, rows: usize, parameters: &[f32]) {
        if self.problem.leaves(rows).min(self.most_leaves) > 1 && self.engine.threads() > 1 {
            vector::prefetch_for_writing(parameters);
        }
    }

    /// `sum = Σ_{i ∈ batch} clip(a·∇f(x; d_i) − b·∇f(x′; d_i))`, one clip of the difference: one adaptive round of two
    /// queries a row, since both points are known before it.
    ///
    /// # Errors
    /// As [`gradient_sum`](Self::gradient_sum).
    pub fn difference_sum(
        &mut self,
        batch: &Selection<'_>,
        current: Point<'_>,
        previous: Point<'_>,
        clip: Clip,
        sum: &mut [f64],
    ) -> Result<(), QueryError> {
        let unit = self.sum_in_units(batch, (current, Some(previous)), clip, sum)?;
        in_real_numbers(sum, unit);
        Ok(())
    }

    /// [`gradient_sum`](Self::gradient_sum) of a·∇f, or [`difference_sum`](Self::difference_sum), before it gets its unit: integers of
    /// a lattice and the value of 1, or real numbers and none.
    ///
    /// # Errors
    /// As [`gradient_sum`](Self::gradient_sum); batches too large for exact sums.
    pub fn sum_in_units(
        &mut self,
        batch: &Selection<'_>,
        (current, previous): (Point<'_>, Option<Point<'_>>),
        clip: Clip,
        sum: &mut [f64],
    ) -> Result<Option<f64>, QueryError> {
        for point in std::iter::once(&current).chain(&previous) {
            self.check_parameters(point.parameters)?;
            // A public number; times a residual it must not overflow either.
            let matters = self.problem.domain().is_some() || clip != Clip::Unbounded;
            if matters && !(point.coefficient.abs() <= MOST_COEFFICIENT) {
                return Err(QueryError::Diverged);
            }
        }
        let unit = self.query(batch, (current, previous), clip, sum)?;
        self.take_back(batch.len(), current.parameters);
        if let Some(previous) = previous {
            self.take_back(batch.len(), previous.parameters);
        }
        Ok(unit)
    }

    /// `sum = Σ_u clip(x − x_u)` over the units of the batch, x_u after local steps from x ([`LocalSteps`]), before it gets its unit: one adaptive
    /// round of as many queries a unit as there are passes.
    ///
    /// # Errors
    /// As [`sum_in_units`](Self::sum_in_units).
    pub fn local_sum_in_units(
        &mut self,
        batch: &Selection<'_>,
        parameters: &[f32],
        local: &LocalSteps,
        clip: Clip,
        sum: &mut [f64],
    ) -> Result<Option<f64>, QueryError> {
        self.check_parameters(parameters)?;
        let lattice = self.lattice(1.0, clip)?;
        let local = LocalSteps { most_weight: self.problem.most_weight(), ..*local };
        let counts = (local.passes as u64, 4 * local.passes as u64);
        let exact_rows = if lattice.is_some() { usize::MAX } else { 0 };
        self.round(batch, clip, counts, (sum, 1.0, exact_rows), &|model, rows, (sum, _), workspace| {
            let steps = (parameters, &local);
            linear::accumulate_local_steps(model, rows, steps, (clip, lattice.as_ref()), sum, workspace.linear())
        })?;
        Ok(lattice.map(|lattice| lattice.unit()))
    }

    /// The lattice of exact sums of clipped terms that are at most `weight` times gradients; none where sums are not exact.
    ///
    /// # Errors
    /// Batches too large for exact sums, by public numbers.
    pub fn lattice(&self, weight: f32, clip: Clip) -> Result<Option<SumLattice>, QueryError> {
        if self.problem.feature_grid().is_none() || !self.exact || clip == Clip::Unbounded {
            return Ok(None);
        }
        let rows = self.problem.most_rows();
        let lattice = lattice(self.problem, self.precision, weight, clip).filter(|_| self.problem.rows() <= rows);
        lattice.map(Some).ok_or(QueryError::Lattice { rows })
    }

    /// Counts a round of `queries` queries a row.
    fn count_round(&mut self, rows: usize, queries: u64) {
        self.ledger.rounds += 1;
        self.ledger.gradient_queries += queries * rows as u64;
    }

    /// Counts the rows of a round whose terms were clipped.
    fn count_clips(&mut self, clip: Clip, rows: usize, clipped: usize) {
        if clip != Clip::Unbounded {
            self.ledger.clipped += clipped as u64;
            self.ledger.clippable += rows as u64;
        }
    }

    /// Counts a pass over `rows` rows.
    fn count_reading(&mut self, rows: usize, flops_per_row: f64, bytes_per_row: f64) {
        self.ledger.flops += (flops_per_row * rows as f64) as u64;
        self.ledger.bytes += (bytes_per_row * rows as f64) as u64;
    }

    /// One adaptive round at one or two points; the unit of the sum, if it is one of integers.
    fn query(
        &mut self,
        batch: &Selection<'_>,
        points: (Point<'_>, Option<Point<'_>>),
        clip: Clip,
        sum: &mut [f64],
    ) -> Result<Option<f64>, QueryError> {
        let (current, previous) = points;
        let (queries, flops) = if previous.is_some() { (2, 6) } else { (1, 4) };
        if let Some(law) = self.problem.law() {
            let (rows, clipped) = drawn::sum(self.problem, law, batch, points, clip, sum)?;
            self.count_round(rows, queries);
            self.count_clips(clip, rows, clipped);
            return Ok(None);
        }
        if let Some(network) = self.problem.network() {
            return self.network_query(network, batch, points, clip, sum);
        }
        let weight = current.coefficient.abs() + previous.map_or(0.0, |point| point.coefficient.abs());
        let (model, exact) = (self.problem.model(), self.lattice(weight, clip)?);
        let of_grid = |grid| SumLattice::new(model, (grid, self.precision), weight, clip, 0);
        let mut packed = self.packed.take();
        let candidate = self.problem.integer_grid().and_then(|grid| exact.or_else(|| of_grid(grid)));
        let in_digits = match &mut packed {
            Some(packed) => candidate.filter(|lattice| linear::pack(model, points, lattice, packed)),
            None => None,
        };
        let counts = (queries, flops);
        let outcome = match (&packed, in_digits, exact) {
            (Some(packed), Some(lattice), _) => {
                // Without a lattice of its own a unit's contribution has no bound.
                let is_exact = self.problem.unit().is_none() && lattice.is_exact_for(SUMMED_ROWS);
                let exact_rows = if is_exact { SUMMED_ROWS } else { 0 };
                let (worth, exact_rows) = exact.map_or_else(|| (lattice.unit(), exact_rows), |_| (1.0, usize::MAX));
                self.round(batch, clip, counts, (sum, worth, exact_rows), &|model, rows, sum, workspace| {
                    linear::accumulate_packed(model, rows, packed, sum, workspace.linear())
                })
            }
            (_, _, Some(lattice)) => {
                self.round(batch, clip, counts, (sum, 1.0, usize::MAX), &|model, rows, (sum, _), workspace| {
                    linear::accumulate_on_lattice(model, rows, points, &lattice, sum, workspace.linear())
                })
            }
            _ => self.round(batch, clip, counts, (sum, 1.0, 0), &|model, rows, (sum, _), workspace| {
                linear::accumulate_differences(model, rows, points, clip, sum, workspace.linear())
            }),
        };
        self.packed = packed;
        outcome?;
        Ok(exact.map(|lattice| lattice.unit()))
    }

    /// One adaptive round: counts it, runs `kernel` on every leaf and adds the leaves in order. Leaves of up to `exact_rows` rows, whose sums
    /// are integers times `worth`, may be split into pieces.
    fn round(
        &mut self,
        batch: &Selection<'_>,
        clip: Clip,
        (queries, flops): (u64, u64),
        (sum, worth, exact_rows): (&mut [f64], f64, usize),
        kernel: &impl LeafKernel,
    ) -> Result<(), NonFiniteGradient> {
        let rows = batch.len();
        let (problem, norm) = (self.problem, clip_norm(clip));
        self.count_round(rows, queries);
        let flops_per_row = problem.flops_per_row() * flops as f64 / 4.0;
        self.count_reading(rows, flops_per_row, problem.bytes_per_row());
        let count = problem.leaves(rows).min(self.most_leaves);
        let tally = if count == 1 && self.engine.ranked().is_none() {
            sum.fill(0.0);
            let mut workspace = lock(&self.workspaces[0]);
            let rows = problem.batch(batch.clone(), norm);
            kernel(problem.model(), &rows, (sum, worth), &mut workspace)?
        } else {
            let may_split = rows.div_ceil(count) <= exact_rows && self.engine.ranked().is_none();
            let pieces = || partition::pieces(rows, count, problem.leaf_rows(), self.engine.threads());
            let pieces = if may_split { pieces() } else { 1 };
            self.round_of_leaves(batch, norm, (count, pieces), (sum, worth), kernel)?
        };
        self.count_clips(clip, rows, tally.clipped);
        Ok(())
    }
}

/// The lattice of [`Oracle::lattice`], by public numbers.
fn lattice(problem: &PublicProblem, precision: Precision, weight: f32, clip: Clip) -> Option<SumLattice> {
    let of_terms = if problem.unit().is_some() { SumLattice::of_units } else { SumLattice::new };
    of_terms(problem.model(), (problem.feature_grid()?, precision), weight, clip, problem.most_rows())
}

/// The unit of exact sums of clipped gradients with weights up to `weight`, by public numbers; none where sums are not exact.
///
/// # Errors
/// Sums that no lattice holds, as those of [`Oracle::lattice`].
pub(crate) fn unit_of_sums(
    problem: &PublicProblem,
    precision: Precision,
    weight: f32,
    clip: Clip,
) -> Result<Option<f64>, QueryError> {
    let rows = problem.most_rows();
    let unit = match (problem.network(), clip) {
        (_, Clip::Unbounded) => return Ok(None),
        (None, _) if problem.feature_grid().is_none() => return Ok(None),
        (None, _) => lattice(problem, precision, weight, clip).map(|lattice| lattice.unit()),
        (Some(_), Clip::Bounded { clip_norm, .. }) => {
            network::GradientLattice::new(clip_norm, rows).map(|lattice| lattice.unit())
        }
    };
    unit.map(Some).ok_or(QueryError::Lattice { rows })
}

/// Gives a sum of integers its unit.
pub(crate) fn in_real_numbers(sum: &mut [f64], unit: Option<f64>) {
    if let Some(unit) = unit {
        sum.iter_mut().for_each(|value| *value *= unit);
    }
}

/// `sum = Σ leaves` along the tree, of which they are one complete subtree that begins at leaf `first`.
fn add_leaves(engine: &Engine, leaves: &[Leaf], first: usize, additions: &[Mutex<Vec<f64>>], sum: &mut [f64]) {
    engine.for_each_chunk_with_worker(sum, REDUCTION_CHUNK, &|offset, chunk, worker| {
        let columns = offset..offset + chunk.len();
        let parts = leaves.iter().enumerate().map(|(index, leaf)| {
            let leaf_number = first + index;
            (leaf_number..leaf_number + 1, &leaf.sum[columns.clone()])
        });
        tree::add(parts, chunk, &mut lock(&additions[worker]));
    });
}

/// [`add_leaves`] of leaves in so many pieces: a leaf is `worth` times the sum of its pieces, which is one of integers.
fn add_pieces(
    engine: &Engine,
    own: &[Leaf],
    (pieces, worth): (usize, f64),
    additions: &[Mutex<Vec<f64>>],
    sum: &mut [f64],
) {
    engine.for_each_chunk_with_worker(sum, REDUCTION_CHUNK, &|offset, chunk, worker| {
        let columns = offset..offset + chunk.len();
        let scratch = &mut *lock(&additions[worker]);
        let (leaves, scratch) = scratch.split_at_mut(own.len() / pieces * chunk.len());
        for (leaf, pieces) in leaves.chunks_exact_mut(chunk.len()).zip(own.chunks_exact(pieces)) {
            leaf.copy_from_slice(&pieces[0].sum[columns.clone()]);
            for piece in &pieces[1..] {
                leaf.iter_mut().zip(&piece.sum[columns.clone()]).for_each(|(to, from)| *to += from);
            }
            leaf.iter_mut().for_each(|value| *value *= worth);
        }
        let parts = leaves.chunks_exact(chunk.len()).enumerate().map(|(leaf, values)| (leaf..leaf + 1, values));
        tree::add(parts, chunk, scratch);
    });
}

/// Loss (without regularisation) and accuracy of `parameters` over all rows but null ones. Not a round: diagnostics, outside any
/// privacy guarantee.
///
/// ```
/// use rounds_algorithms::prelude::*;
///
/// # use std::sync::Arc;
/// # let labels = Labels::Values(vec![1.0, 2.0, 3.0, 4.0]);
/// # let dataset = Dataset::new("line", Features::f32(vec![0.25, 0.5, 0.75, 1.0], 1), labels)?;
/// # let problem = Problem::new(Arc::new(dataset), Loss::Squared, false, 0.0)?;
/// let evaluation = evaluate(&problem, &Engine::Sequential, &[4.0])?;
/// assert_eq!((evaluation.rows, evaluation.loss), (4, 0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A row whose margins are not finite.
pub fn evaluate(problem: &Problem, engine: &Engine, parameters: &[f32]) -> Result<Evaluation, NonFiniteGradient> {
    problem.prepare(engine);
    let rows = problem.law().map_or_else(|| problem.stored_rows(), |_| problem.rows());
    let count = problem.leaves(rows);
    let ranks = engine.ranked().map(|ranked| ranked.ranks());
    let reader = Reader::of(problem, &Selection::Range(0..rows), count, None, ranks);
    let mut leaves: Vec<_> = shared::share(count, ranks)
        .map(|leaf| {
            let range = partition::leaf_range(rows, count, leaf);
            (range, Vec::new(), Ok(Evaluation::default()))
        })
        .collect();
    let workspaces: Vec<_> = (0..engine.threads()).map(|_| Mutex::new(Scratch::of(problem))).collect();
    let of_network = networks::packed(problem, parameters);
    engine.for_each(&mut leaves, &|(range, slots, outcome), worker| {
        let batch = Batch { units: None, ..reader.batch(Selection::Range(range.clone()), None, slots) };
        let found = match (&mut *lock(&workspaces[worker]), &of_network) {
            (Scratch::Network(workspace), Some((network, packed))) => {
                network::evaluate(network, &batch, packed, workspace)
            }
            (workspace, _) => linear::evaluate(problem.model(), &batch, parameters, workspace.linear()),
        };
        *outcome = found.map_err(|error| reader.named(error));
    });
    let outcomes = leaves.into_iter().map(|(_, _, outcome)| outcome);
    if let Some(ranked) = engine.ranked() {
        return shared::gather_evaluations(ranked, outcomes);
    }
    let mut total = Evaluation::default();
    for outcome in outcomes {
        let part = outcome?;
        total.loss += part.loss;
        total.correct += part.correct;
        total.rows += part.rows;
    }
    Ok(total)
}

/// The norm whose row norms a clip needs.
fn clip_norm(clip: Clip) -> Option<Norm> {
    match clip {
        Clip::Unbounded => None,
        Clip::Bounded { norm, .. } => Some(norm),
    }
}

/// Positions `range` of a batch.
fn part<'b>(batch: &Selection<'b>, range: Range<usize>) -> Selection<'b> {
    match batch {
        Selection::Range(rows) => Selection::Range(rows.start + range.start..rows.start + range.end),
        Selection::Indices(indices) => Selection::Indices(&indices[range]),
    }
}
