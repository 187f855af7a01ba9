//! The objective: the mean loss of a linear model, or of a network, over a data set, plus an optional quadratic regulariser.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use rounds_kernels::features::{Norm, Rows, Selection, Targets};
use rounds_kernels::linear::{self, Batch, FeatureGrid, Planes, RowNorms, RowProducts, Stripes, UnitRows};
use rounds_kernels::loss::Loss;

use super::dataset::Dataset;
use super::domain::Relation;
use super::features::Features;
use super::law::Law;
use super::public::{ProblemError, PublicProblem, flops_per_row};
use super::second_moment::largest_second_moment;
use super::shard::Shard;
use crate::parallel::ranks::Ranks;
use crate::parallel::{Engine, partition};

/// Parts of the products of rows that are computed side by side.
const PRODUCT_PARTS: usize = 64;

/// `F(x) = (1/n) Σ_i φ(W a_i; y_i) + (λ/2)‖x‖²` over a data set, with the row norms that clipping needs: a
/// [`PublicProblem`] with its rows.
///
/// The regulariser is independent of the data: optimisers add `λ·x` after clipping and noise, and it never enters a
/// sensitivity.
pub struct Problem {
    public: PublicProblem,
    dataset: Arc<Dataset>,
    l2_norms: RowNorms,
    l1_norms: OnceLock<RowNorms>,
    /// A copy of rows of few features for batches of all rows, if they were announced.
    stripes: OnceLock<Option<Stripes>>,
    /// Products of the rows of each unit, where there are units.
    products: OnceLock<Option<RowProducts>>,
    /// The rows as integers in planes, where the oracle reads them so and they are not in the shard.
    planes: OnceLock<Option<Planes>>,
    /// This rank's knowledge of all rows, where `dataset` is its part of them.
    shard: Option<Shard>,
    /// The law of the rows, where `dataset` holds the distinct ones.
    law: Option<Law>,
}

/// The public part. `rows` is hidden on purpose: [`Problem::rows`] counts the rows that there are,
/// [`PublicProblem::rows`] is the number that plans may read.
impl Deref for Problem {
    type Target = PublicProblem;

    fn deref(&self) -> &PublicProblem {
        &self.public
    }
}

impl Problem {
    /// The problem of fitting a linear model with `loss` to `dataset`.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    ///
    /// # use std::sync::Arc;
    /// # let labels = Labels::Values(vec![1.0, 2.0, 3.0, 4.0]);
    /// # let dataset = Dataset::new("line", Features::f32(vec![0.25, 0.5, 0.75, 1.0], 1), labels)?;
    /// # let problem = Problem::new(Arc::new(dataset), Loss::Squared, false, 0.0)?;
    /// assert_eq!((problem.rows(), problem.parameters()), (4, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A loss whose kind of target the data set does not have; a regularisation below 0 or not finite.
    pub fn new(dataset: Arc<Dataset>, loss: Loss, bias: bool, regularization: f64) -> Result<Self, ProblemError> {
        let public = PublicProblem::of_dataset(&dataset, loss, bias, regularization)?;
        let l2_norms = linear::row_norms(dataset.rows(), bias, Norm::L2)?;
        Ok(Self {
            public,
            dataset,
            l2_norms,
            l1_norms: OnceLock::new(),
            stripes: OnceLock::new(),
            planes: OnceLock::new(),
            products: OnceLock::new(),
            shard: None,
            law: None,
        })
    }

    /// The problem of as many rows as `law` has, drawn independently from the rows of this one. Its oracle draws the sums of
    /// batches from their exact law, and answers gradient queries alone.
    ///
    /// # Panics
    /// Rows that are not sparse, or not as many as the law has shares.
    #[must_use]
    pub fn drawn_from(mut self, law: Law) -> Self {
        let is_sparse = matches!(self.dataset.features(), Features::Sparse(_));
        assert!(is_sparse && !self.model().bias, "distinct rows are sparse, without a bias");
        assert_eq!(law.categories(), self.dataset.len(), "a share for each distinct row");
        self.public.set_relation(self.relation(), law.rows());
        self.law = Some(law);
        self
    }

    /// The same problem for a network in place of a linear model.
    ///
    /// # Errors
    /// As [`PublicProblem::with_network`]; rows that are drawn from a law or shared out over ranks.
    pub fn with_network(mut self, text: &str) -> Result<Self, ProblemError> {
        if self.is_sharded() || self.law.is_some() {
            return Err(ProblemError::NetworkRows("rows that ranks share out, or that are drawn from a law"));
        }
        self.public = self.public.with_network(text)?;
        Ok(self)
    }

    /// The law of the rows, where they are drawn from one.
    pub(crate) fn law(&self) -> Option<&Law> {
        self.law.as_ref()
    }

    /// The same problem under another relation than its domain declares.
    #[must_use]
    pub fn under(mut self, relation: Relation) -> Self {
        self.public.set_relation(relation, self.rows());
        self
    }

    /// Takes another regularisation.
    ///
    /// # Errors
    /// One below 0 or not finite.
    pub fn regularize(&mut self, regularization: f64) -> Result<(), ProblemError> {
        self.public = self.public.clone().with_regularization(regularization)?;
        Ok(())
    }

    /// The same problem with the L2 norm of its longest row as a constant. Plans on it claim nothing.
    #[must_use]
    pub fn with_longest_row(mut self) -> Self {
        let norms = &self.row_norms(Norm::L2).values;
        let longest = norms.iter().copied().fold(0_f32, f32::max);
        self.public.measured.longest_row = Some(f64::from(longest));
        self
    }

    /// The same problem with its [`largest_second_moment`] as a constant. Plans on it claim nothing.
    ///
    /// # Panics
    /// Rows that are shared out over ranks.
    #[must_use]
    pub fn with_second_moment(mut self) -> Self {
        assert!(!self.is_sharded(), "no rank holds all rows");
        let moment = largest_second_moment(&self.dataset, self.model().bias, 1e-6);
        self.public.measured.second_moment = Some(moment);
        self
    }

    /// Leaves of a batch of `records` rows or units. Those of units follow from the number of rows, which is private: sums of a lattice have
    /// the same bits whatever their leaves, and a run without one claims nothing.
    pub fn leaves(&self, records: usize) -> usize {
        let Some(units) = self.dataset.units() else {
            return self.public.leaves(records);
        };
        let rows = records * self.stored_rows() / units.count().max(1);
        self.public.leaves(rows).min(records.next_power_of_two() / 2).max(1)
    }

    /// The public part.
    pub fn public(&self) -> &PublicProblem {
        &self.public
    }

    /// The problem of rows that are shared out over ranks: `part` holds the rows `⌊n·r/P⌋..⌊n·(r+1)/P⌋` of rank r. It asks
    /// for an [`crate::parallel::Engine`] over the same ranks. Collective: every rank calls it, with parts that
    /// [`Self::new`] accepts.
    ///
    /// # Errors
    /// As [`Self::new`], on the rank whose part is at fault, before anything is exchanged: `agree` is told whether this
    /// rank is ready, and says whether all are.
    ///
    /// # Panics
    /// Parts of other lengths.
    pub fn sharded<E>(
        part: Dataset,
        loss: Loss,
        bias: bool,
        regularization: f64,
        ranks: &dyn Ranks,
        agree: impl FnOnce(Result<Self, ProblemError>) -> Result<Self, E>,
    ) -> Result<Self, E> {
        let whole = if part.units().is_some() { Err(ProblemError::SharedUnits) } else { Ok(part) };
        let mut problem = agree(whole.and_then(|part| Self::new(Arc::new(part), loss, bias, regularization)))?;
        let planes = problem.planes_by(&Engine::Sequential);
        // The features move into the shard, where guests join them.
        let mut dataset = Arc::unwrap_or_clone(problem.dataset);
        problem.shard = Some(Shard::new(&mut dataset, planes, &problem.l2_norms, bias, ranks));
        problem.dataset = Arc::new(dataset);
        let relation = problem.relation();
        Ok(problem.under(relation))
    }

    /// The same problem with its rows in the memory of the nodes that read them: where tasks of `engine` are shared out by
    /// memory node, each part of the rows is copied by the threads that answer for it in a batch of all rows, by the same
    /// split ([`partition::leaves`]). Else nothing is copied.
    #[must_use]
    pub fn placed_for(mut self, engine: &Engine) -> Self {
        if engine.threads_by_node().len() > 1 && !self.is_sharded() && self.unit().is_none() {
            let leaves = self.leaves(self.rows());
            Arc::make_mut(&mut self.dataset).touched_by(engine, leaves);
        }
        self
    }

    /// Computes what gradient queries read beside the data set, unless it is there.
    pub(crate) fn prepare(&self, engine: &Engine) {
        if !self.is_sharded() {
            self.planes.get_or_init(|| self.planes_by(engine));
            self.products.get_or_init(|| self.products_by(engine));
        }
    }

    /// Products of the rows of each unit, computed by the threads of `engine`.
    fn products_by(&self, engine: &Engine) -> Option<RowProducts> {
        let units = self.dataset.units()?;
        let byte_scale = self.dataset.features().byte_scale();
        let step = self.feature_grid().map(|grid| grid.step).or(byte_scale).map_or(1.0, f64::from);
        let parts = units.count().clamp(1, PRODUCT_PARTS);
        let mut products: Vec<_> =
            (0..parts).map(|part| (partition::leaf_range(units.count(), parts, part), None)).collect();
        engine.for_each(&mut products, &|(units_of_part, out), _| {
            *out = Some(RowProducts::new(
                self.dataset.rows(),
                self.model().bias,
                units.offsets(),
                units_of_part.clone(),
                step,
            ));
        });
        products.into_iter().filter_map(|(_, of_part)| of_part).reduce(|mut all, of_part| {
            all.append(&of_part);
            all
        })
    }

    /// The rows in planes, if queries read them so, each part written by the threads of `engine` that answer for it in a batch of all
    /// rows.
    fn planes_by(&self, engine: &Engine) -> Option<Planes> {
        let (Features::F32 { values, columns }, Some(grid)) = (self.dataset.features(), self.feature_grid()) else {
            return None;
        };
        self.is_in_planes().then(|| {
            let rows = self.dataset.len();
            let part = rows.div_ceil(self.leaves(rows));
            let mut planes = Planes::zeroed(rows, *columns, grid);
            let mut parts: Vec<_> = planes.parts(part).zip(values.chunks(part * columns)).collect();
            engine.for_each(&mut parts, &|(write, values), _| write(values));
            drop(parts);
            planes
        })
    }

    /// This rank's knowledge of all rows, where they are sharded.
    pub(crate) fn shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    /// True if this rank holds only a part of the rows.
    pub fn is_sharded(&self) -> bool {
        self.shard.is_some()
    }

    /// Labels of all rows.
    pub fn targets(&self) -> Targets<'_> {
        self.shard.as_ref().map_or_else(|| self.dataset.labels(), |shard| &shard.labels).targets()
    }

    /// The data. Where rows are shared out: their name, format, columns and bounds, this rank's labels, and no features.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Number of rows n that there are, of units where units are declared. Plans read [`PublicProblem::rows`].
    pub fn rows(&self) -> usize {
        match (&self.law, self.dataset.units()) {
            (Some(law), _) => law.rows(),
            (None, Some(units)) => units.count(),
            (None, None) => self.stored_rows(),
        }
    }

    /// Rows that are held in memory, on all ranks together. Private where there are units.
    pub(crate) fn stored_rows(&self) -> usize {
        self.shard.as_ref().map_or_else(|| self.dataset.len(), |shard| shard.rows)
    }

    /// Stored features of all rows: every one for dense rows.
    fn stored(&self) -> usize {
        self.shard.as_ref().map_or_else(|| self.dataset.features().stored(), |shard| shard.stored)
    }

    /// Floating-point operations of one gradient query: a multiplication and an addition for every parameter that the
    /// row touches, in the margins and again in the gradient.
    pub fn flops_per_row(&self) -> f64 {
        if let Some(network) = self.network() {
            return network.flops();
        }
        flops_per_row(self.model(), self.stored() as f64 / self.stored_rows().max(1) as f64)
    }

    /// Bytes of features that a gradient query reads of one row.
    pub fn bytes_per_row(&self) -> f64 {
        if self.is_in_planes() {
            return 2.0 * self.model().features as f64;
        }
        self.stored_bytes_per_row()
    }

    /// Bytes of features of one row in the data set.
    pub(crate) fn stored_bytes_per_row(&self) -> f64 {
        let rows = self.stored_rows();
        self.dataset.features().bytes_of(rows, self.stored()) as f64 / rows.max(1) as f64
    }

    /// A batch for the kernels, with the norms that a clip in `norm` needs.
    ///
    /// # Panics
    /// Rows that are shared out over ranks: their oracle needs the engine of these ranks.
    pub(crate) fn batch<'b>(&'b self, selection: Selection<'b>, norm: Option<Norm>) -> Batch<'b> {
        assert!(self.shard.is_none(), "rows that are shared out need the engine of their ranks");
        let norms = norm.map(|norm| self.row_norms(norm));
        let planes = self.planes.get().and_then(Option::as_ref);
        let mut rows = self.dataset.rows().with_planes(planes.map(Planes::view));
        if let Rows::F32(dense) = &mut rows {
            dense.stripes = self.stripes.get().and_then(Option::as_ref).map(Stripes::view);
        }
        let units = self.dataset.units().map(|units| UnitRows {
            offsets: units.offsets(),
            reduction: units.declaration().reduction,
            products: self.products.get().and_then(Option::as_ref).expect("an oracle has prepared the products"),
        });
        Batch { rows, targets: self.dataset.targets(), norms, selection, units }
    }

    /// Says that batches of all rows will come: where the kernel of few features reads them, copies the rows, those of each leaf on their
    /// own. Sums have the same bits with the copy and without.
    pub(crate) fn announce_full_batches(&self) {
        let (rows, leaves) = (self.rows(), self.leaves(self.rows()));
        let runs = (0..leaves).map(|leaf| partition::leaf_range(rows, leaves, leaf));
        self.stripes.get_or_init(|| Stripes::for_model(self.model(), self.dataset.rows(), runs));
    }

    /// The grid of rows that gradient queries read as integers.
    pub(crate) fn integer_grid(&self) -> Option<FeatureGrid> {
        let of_bytes = || self.dataset.features().byte_scale().map(FeatureGrid::bytes);
        self.is_in_integers().then(|| self.feature_grid().or_else(of_bytes))?
    }

    /// True if sums of gradients may be those of integers.
    pub(crate) fn may_sum_integers(&self) -> bool {
        self.is_in_integers() || self.feature_grid().is_some()
    }

    /// Row norms (bias included, rounded up) of all rows; the L1 norms are computed when first asked for.
    ///
    /// # Panics
    /// L1 norms of rows that are shared out over ranks.
    pub fn row_norms(&self, norm: Norm) -> &RowNorms {
        match (norm, &self.shard) {
            (Norm::L2, None) => &self.l2_norms,
            (Norm::L2, Some(shard)) => &shard.l2_norms,
            (Norm::L1, Some(_)) => panic!("no rank holds the L1 norms of all rows"),
            (Norm::L1, None) => self.l1_norms.get_or_init(|| {
                linear::row_norms(self.dataset.rows(), self.model().bias, Norm::L1)
                    .expect("the rows were checked when their L2 norms were computed")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use rounds_kernels::linear::Clip;
    use rounds_kernels::random::StreamKey;

    use super::*;
    use crate::oracle::Oracle;
    use crate::privacy::Sampling;
    use crate::problem::synthetic::synthetic_logistic;
    use crate::sampling::Sampler;

    #[test]
    fn announced_batches_of_all_rows_are_read_from_a_copy_and_keep_their_bits() {
        let rows = 9_001;
        let make = || {
            let (dataset, _) = synthetic_logistic(rows, 20, 3).for_loss(Some(Loss::Logistic)).expect("two classes");
            Problem::new(Arc::new(dataset), Loss::Logistic, false, 0.0).expect("signs for the logistic loss")
        };
        let sum = |problem: &Problem, announced: Option<Sampling>, threads| {
            let mut oracle = Oracle::new(problem, Engine::with_threads(threads).expect("threads"));
            let sampler = announced.map(|sampling| Sampler::new(sampling, rows, rows, StreamKey::Simulation(1)));
            oracle.place(sampler.transpose().expect("a batch of all rows").as_ref(), 2);
            let mut sum = vec![0.0; problem.parameters()];
            let batch = Selection::Range(0..rows);
            oracle.gradient_sum(&batch, &[0.25; 20], Clip::l2(0.5), &mut sum).expect("finite rows");
            sum
        };
        let has_copy = |problem: &Problem| {
            let leaf = partition::leaf_range(rows, problem.leaves(rows), 1);
            let rows = problem.batch(Selection::Range(leaf), None).rows;
            matches!(rows, Rows::F32(dense) if dense.stripes.is_some())
        };
        let plain = make();
        let expected = sum(&plain, None, 1);
        assert_eq!(sum(&plain, Some(Sampling::FixedOrder), 1), expected);
        assert!(!has_copy(&plain) && plain.leaves(rows) > 1);
        for threads in [1, 2, 3] {
            let problem = make();
            assert_eq!(sum(&problem, Some(Sampling::FullBatch), threads), expected);
            assert!(has_copy(&problem));
        }
    }
}
