//! Rounds that ranks answer together: each sums its share of the leaves, and subtrees' sums travel.

use std::ops::Range;
use std::sync::RwLockReadGuard;

use rounds_kernels::features::{Norm, Selection};
use rounds_kernels::linear::{Batch, Evaluation, NonFiniteGradient, Tally};

use super::{Leaf, LeafKernel, Oracle, add_leaves, add_pieces, part, tree};
use crate::parallel::ranks::{Ranks, gather_messages};
use crate::parallel::{RankedEngine, lock, partition};
use crate::problem::{Problem, shard};

/// Numbers that travel behind a sum: rows clipped, first leaf that failed (infinite if none did), its row.
const TRAILER: usize = 3;

/// Sums on their way between ranks.
#[derive(Default)]
pub(super) struct Travelling {
    own: Vec<f64>,
    received: Vec<f64>,
    scratch: Vec<f64>,
}

/// Access to rows by their number, wherever they lie on this rank.
pub(super) struct Reader<'a> {
    problem: &'a Problem,
    store: Option<RwLockReadGuard<'a, shard::Store>>,
}

impl<'a> Reader<'a> {
    /// For the rows of a batch; brings those here that the leaves of this rank need and have not.
    pub(super) fn of(
        problem: &'a Problem,
        batch: &Selection<'_>,
        leaves: usize,
        norm: Option<Norm>,
        ranks: Option<&dyn Ranks>,
    ) -> Self {
        let store = problem.shard().map(|shard| {
            let ranks = ranks.expect("rows that are shared out need the engine of their ranks");
            shard.fetch(batch, leaves, norm, ranks);
            shard.read()
        });
        Self { problem, store }
    }

    /// The rows `rows` for a kernel.
    pub(super) fn batch<'b>(&'b self, rows: Selection<'b>, norm: Option<Norm>, slots: &'b mut Vec<u32>) -> Batch<'b> {
        match &self.store {
            None => self.problem.batch(rows, norm),
            Some(store) => store.batch(store.locate(&rows, slots), norm),
        }
    }

    /// `error` with the number of the row that a kernel names.
    pub(super) fn named(&self, NonFiniteGradient { row }: NonFiniteGradient) -> NonFiniteGradient {
        NonFiniteGradient { row: self.store.as_ref().map_or(row, |store| store.row(row)) }
    }
}

/// The leaves of this rank; without ranks all.
pub(super) fn share(leaves: usize, ranks: Option<&dyn Ranks>) -> Range<usize> {
    ranks.map_or(0..leaves, |ranks| partition::leaf_range(leaves, ranks.count(), ranks.rank()))
}

/// A failure that a rank reports: the leaf and the row.
pub(super) type Failure = Option<(usize, usize)>;

fn trailer(clipped: usize, failure: Failure) -> [f64; TRAILER] {
    let (leaf, row) = failure.map_or((f64::INFINITY, 0.0), |(leaf, row)| (leaf as f64, row as f64));
    [clipped as f64, leaf, row]
}

/// Takes another rank's trailer in.
fn join(own: &mut [f64], other: &[f64]) {
    own[0] += other[0];
    if other[1] < own[1] {
        own[1..TRAILER].copy_from_slice(&other[1..TRAILER]);
    }
}

/// `sum = Σ` over the leaves of all ranks along the tree, of which `own` are those of this rank. One sum is sent in each of
/// log₂ P steps where P is a power of two; else the fewest subtrees of each rank are gathered, and every rank adds them.
/// Returns the rows clipped and the first row that failed, of all ranks.
pub(super) fn combine(
    oracle_parts: (&[Leaf], &[std::sync::Mutex<Vec<f64>>], &mut Travelling),
    ranked: &RankedEngine,
    leaves: usize,
    (clipped, failure): (usize, Failure),
    sum: &mut [f64],
) -> (usize, Option<usize>) {
    let (own, additions, travelling) = oracle_parts;
    let (ranks, engine) = (ranked.ranks(), ranked.local());
    let (rank, count, width) = (ranks.rank(), ranks.count(), sum.len());
    let first = share(leaves, Some(ranks)).start;
    let mut known = trailer(clipped, failure);
    if count.is_power_of_two() && leaves >= count {
        add_leaves(engine, own, first, additions, sum);
        travelling.own.resize(width + TRAILER, 0.0);
        travelling.received.resize(width + TRAILER, 0.0);
        for step in 0..count.ilog2() {
            let (values, behind) = travelling.own.split_at_mut(width);
            values.copy_from_slice(sum);
            behind.copy_from_slice(&known);
            ranks.swap(rank ^ (1 << step), &travelling.own, &mut travelling.received);
            let (values, behind) = travelling.received.split_at(width);
            // Left plus right and right plus left are the same number.
            sum.iter_mut().zip(values).for_each(|(to, &from)| *to += from);
            join(&mut known, behind);
        }
    } else {
        let lengths: Vec<usize> = (0..count)
            .map(|rank| TRAILER + width * tree::subtrees(partition::leaf_range(leaves, count, rank)).count())
            .collect();
        let start: usize = lengths[..rank].iter().sum();
        travelling.own.resize(lengths[rank], 0.0);
        travelling.received.resize(lengths.iter().sum(), 0.0);
        for (number, node) in tree::subtrees(first..first + own.len()).enumerate() {
            let place = TRAILER + number * width;
            let leaves_of_node = &own[node.start - first..node.end - first];
            add_leaves(engine, leaves_of_node, node.start, additions, &mut travelling.own[place..place + width]);
        }
        travelling.own[..TRAILER].copy_from_slice(&known);
        debug_assert!(start + lengths[rank] <= travelling.received.len());
        let bytes: Vec<usize> = lengths.iter().map(|length| 8 * length).collect();
        ranks.all_gather(
            bytemuck::cast_slice(&travelling.own),
            &bytes,
            bytemuck::cast_slice_mut(&mut travelling.received),
        );
        let mut nodes = Vec::new();
        let mut rest = travelling.received.as_slice();
        known = trailer(0, None);
        for other in 0..count {
            let (message, others) = rest.split_at(lengths[other]);
            rest = others;
            join(&mut known, &message[..TRAILER]);
            let subtrees = tree::subtrees(partition::leaf_range(leaves, count, other));
            nodes.extend(subtrees.zip(message[TRAILER..].chunks_exact(width)));
        }
        travelling.scratch.resize(tree::scratch(leaves, width), 0.0);
        tree::add(nodes.into_iter(), sum, &mut travelling.scratch);
    }
    let failed_row = known[1].is_finite().then(|| {
        let leaf = known[1] as usize;
        let culprit = (0..count).find(|&rank| partition::leaf_range(leaves, count, rank).contains(&leaf));
        ranked.fail(culprit.unwrap_or(0));
        known[2] as usize
    });
    (known[0] as usize, failed_row)
}

impl Oracle<'_> {
    /// A round of `count` leaves on all ranks: this rank's, then the sum of all. Without ranks leaves of integers may have several pieces.
    pub(super) fn round_of_leaves(
        &mut self,
        batch: &Selection<'_>,
        norm: Option<Norm>,
        (count, pieces): (usize, usize),
        (sum, worth): (&mut [f64], f64),
        kernel: &impl LeafKernel,
    ) -> Result<Tally, NonFiniteGradient> {
        let (problem, rows) = (self.problem, batch.len());
        let ranked = self.engine.ranked().cloned();
        let ranks = ranked.as_ref().map(|ranked| ranked.ranks());
        let share = share(count, ranks);
        let reader = Reader::of(problem, batch, count, norm, ranks);
        let workspaces = &self.workspaces;
        let own = &mut self.leaves[..share.len() * pieces];
        for (leaf, number) in own.chunks_exact_mut(pieces).zip(share.clone()) {
            let of_leaf = partition::leaf_range(rows, count, number);
            for (number, piece) in leaf.iter_mut().enumerate() {
                let range = partition::leaf_range(of_leaf.len(), pieces, number);
                piece.range = of_leaf.start + range.start..of_leaf.start + range.end;
            }
        }
        // Pieces are integers until they are added up.
        let worth_of_piece = if pieces == 1 { worth } else { 1.0 };
        self.engine.for_each(own, &|piece, worker| {
            piece.sum.fill(0.0);
            let rows = part(batch, piece.range.clone());
            let located = reader.batch(rows, norm, &mut piece.slots);
            let mut workspace = lock(&workspaces[worker]);
            let outcome = kernel(problem.model(), &located, (&mut piece.sum, worth_of_piece), &mut workspace);
            piece.outcome = outcome.map_err(|error| reader.named(error));
        });
        drop(reader);
        let (mut clipped, mut failure) = (0, None);
        for (leaf, number) in own.chunks_exact(pieces).zip(share) {
            for piece in leaf {
                match piece.outcome {
                    Ok(tally) => clipped += tally.clipped,
                    Err(error) => failure = failure.or(Some((number, error.row))),
                }
            }
        }
        let (clipped, failed_row) = if let Some(ranked) = ranked {
            let parts = (&*own, self.additions.as_slice(), &mut self.travelling);
            combine(parts, &ranked, count, (clipped, failure), sum)
        } else {
            if pieces == 1 {
                add_leaves(&self.engine, own, 0, &self.additions, sum);
            } else {
                add_pieces(&self.engine, own, (pieces, worth), &self.additions, sum);
            }
            (clipped, failure.map(|(_, row)| row))
        };
        failed_row.map_or(Ok(Tally { rows, clipped }), |row| Err(NonFiniteGradient { row }))
    }
}

/// The evaluation of all ranks' leaves, added in their order, from the outcomes of this rank's.
pub(super) fn gather_evaluations(
    ranked: &RankedEngine,
    own: impl Iterator<Item = Result<Evaluation, NonFiniteGradient>>,
) -> Result<Evaluation, NonFiniteGradient> {
    let message: Vec<f64> = own
        .flat_map(|outcome| match outcome {
            Ok(found) => [found.loss, found.correct as f64, found.rows as f64, -1.0],
            Err(error) => [0.0, 0.0, 0.0, error.row as f64],
        })
        .collect();
    let mut total = Evaluation::default();
    let mut failed = None;
    for (rank, message) in gather_messages(ranked.ranks(), bytemuck::cast_slice(&message)).iter().enumerate() {
        let (numbers, _) = message.as_chunks::<8>();
        for leaf in numbers.as_chunks::<4>().0 {
            let [loss, correct, rows, row] = leaf.map(f64::from_ne_bytes);
            if row >= 0.0 && failed.is_none() {
                failed = Some(row as usize);
                ranked.fail(rank);
            }
            total.loss += loss;
            total.correct += correct as usize;
            total.rows += rows as usize;
        }
    }
    failed.map_or(Ok(total), |row| Err(NonFiniteGradient { row }))
}
