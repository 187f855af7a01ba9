//! Queries whose answers are kept: one round records them, later sums reweight them without a query.

use std::ops::Range;

use rounds_kernels::features::Norm;
use rounds_kernels::linear::recorded::{self, RecordedBlock, RecordedWorkspace, Reweighting, Shifts};
use rounds_kernels::linear::{BLOCK_ROWS, NonFiniteGradient};

use super::shared::{Reader, combine, share};
use super::{Oracle, QueryError, Selection, add_leaves, part};
use crate::parallel::lock;
use crate::parallel::partition;
use crate::parallel::ranks::gather_messages;

/// Scratch of one worker.
pub(super) struct RecordedScratch {
    workspace: RecordedWorkspace,
    slots: Vec<u32>,
}

impl Oracle<'_> {
    /// `residuals[k·rows + b] = ∂φ/∂u_k` at `u = W·a_b + shifts_b` for row b of the batch, 0 for null rows: one adaptive round of one query
    /// a row. The gradient of row b is `residuals_b ⊗ a_b`.
    ///
    /// # Errors
    /// A row whose residual is not finite.
    ///
    /// # Panics
    /// Residuals or shifts of another batch.
    pub fn record(
        &mut self,
        batch: &Selection<'_>,
        parameters: &[f32],
        shifts: Option<Shifts<'_>>,
        residuals: &mut [f32],
    ) -> Result<(), QueryError> {
        self.check_parameters(parameters)?;
        let (problem, rows) = (self.problem, batch.len());
        let (model, outputs) = (problem.model(), problem.model().outputs);
        assert_eq!(residuals.len(), rows * outputs, "residuals of another batch");
        self.count_round(rows, 1);
        self.count_reading(rows, problem.flops_per_row() / 2.0, problem.stored_bytes_per_row());
        self.prepare_recorded();
        let parts = partition::leaves(rows, problem.row_cycles() / 2.0, problem.leaf_rows());
        let ranked = self.engine.ranked().cloned();
        let ranks = ranked.as_ref().map(|ranked| ranked.ranks());
        let own = share(parts, ranks);
        let norm = shifts.is_some().then_some(Norm::L2);
        let reader = Reader::of(problem, batch, parts, norm, ranks);
        let mut rest: Vec<&mut [f32]> = residuals.chunks_exact_mut(rows.max(1)).collect();
        // Poisson batches may be empty: every output has residuals, if none.
        rest.resize_with(outputs, Default::default);
        let first = partition::leaf_range(rows, parts, own.start).start;
        rest.iter_mut().for_each(|rest| drop(rest.split_off_mut(..first)));
        // A leaf writes its positions of every output.
        let leaf = |leaf: usize| {
            let positions = partition::leaf_range(rows, parts, leaf);
            let residuals: Vec<&mut [f32]> =
                rest.iter_mut().filter_map(|rest| rest.split_off_mut(..positions.len())).collect();
            (positions, residuals, Ok(()))
        };
        let mut leaves: Vec<_> = own.map(leaf).collect();
        // The last leaf first: a reweighting goes through them in order, and finds the first ones still in cache.
        leaves.reverse();
        let scratches = &self.recorded;
        self.engine.for_each(&mut leaves, &|(positions, residuals, outcome), worker| {
            let RecordedScratch { workspace, slots } = &mut *lock(&scratches[worker]);
            let rows = reader.batch(part(batch, positions.clone()), norm, slots);
            let shifts = shifts.map(|shifts| Shifts { normals: shifts.normals.from(positions.start), ..shifts });
            *outcome = recorded::record(model, &rows, parameters, shifts, residuals, workspace);
        });
        let failed = leaves.iter().rev().find_map(|(_, _, outcome)| outcome.err()).map(|error| reader.named(error));
        drop(reader);
        let Some(ranked) = ranked else {
            return failed.map_or(Ok(()), |row| Err(row.into()));
        };
        // Every rank reweights later, so every rank gets all residuals: those of a rank's leaves, output by output.
        let positions_of = |rank| partition::rank_positions(rows, parts, ranked.ranks().count(), rank);
        let mut message = failed.map_or(-1.0, |error| error.row as f64).to_le_bytes().to_vec();
        let own = positions_of(ranked.ranks().rank());
        for output in residuals.chunks_exact(rows.max(1)) {
            message.extend_from_slice(bytemuck::cast_slice(&output[own.clone()]));
        }
        let mut failed = None;
        for (rank, message) in gather_messages(ranked.ranks(), &message).iter().enumerate() {
            let (row, values) = message.split_first_chunk::<8>().expect("a message begins with a number");
            let row = f64::from_le_bytes(*row);
            if row >= 0.0 && failed.is_none() {
                failed = Some(NonFiniteGradient { row: row as usize });
                ranked.fail(rank);
            }
            let mut values = values.as_chunks::<4>().0.iter();
            for output in residuals.chunks_exact_mut(rows.max(1)) {
                for (residual, value) in output[positions_of(rank)].iter_mut().zip(&mut values) {
                    *residual = f32::from_ne_bytes(*value);
                }
            }
        }
        failed.map_or(Ok(()), |row| Err(row.into()))
    }

    /// `sum = Σ_b w_b·residuals_b ⊗ a_b` with a weight for each row from its margins at the offset: no query, no round.
    /// `weigh` gives the weights of a block; positions are those in the batch. Where a sum's terms must depend on one
    /// example each, a weight may read its own row of the block only.
    ///
    /// # Errors
    /// The first error of `weigh`; a sum that is not finite names the batch's first row.
    ///
    /// # Panics
    /// Residuals of another batch.
    pub fn recorded_sum<E: Send + From<NonFiniteGradient>>(
        &mut self,
        batch: &Selection<'_>,
        reweighting: Reweighting<'_>,
        weigh: &(impl Fn(&RecordedBlock<'_>, &mut [f32; BLOCK_ROWS]) -> Result<(), E> + Sync),
        sum: &mut [f64],
    ) -> Result<(), E> {
        let (problem, rows) = (self.problem, batch.len());
        let model = problem.model();
        self.count_reading(rows, problem.flops_per_row(), problem.stored_bytes_per_row());
        self.prepare_recorded();
        let parts = problem.leaves(rows).min(self.most_leaves);
        let ranked = self.engine.ranked().cloned();
        let ranks = ranked.as_ref().map(|ranked| ranked.ranks());
        let own = share(parts, ranks);
        let reader = Reader::of(problem, batch, parts, Some(Norm::L2), ranks);
        let scratches = &self.recorded;
        let run = |positions: Range<usize>, sum: &mut [f64], worker: usize| -> Result<(), E> {
            let RecordedScratch { workspace, slots } = &mut *lock(&scratches[worker]);
            sum.fill(0.0);
            let first = positions.start;
            let leaf = reader.batch(part(batch, positions), Some(Norm::L2), slots);
            let mut weigh = |block: &RecordedBlock<'_>, weights: &mut [f32; BLOCK_ROWS]| {
                weigh(&block.clone().behind(first), weights).map_err(Failure::Weight)
            };
            let of_leaf = Reweighting { residuals: reweighting.residuals.from(first), ..reweighting };
            recorded::accumulate_reweighted(model, &leaf, of_leaf, &mut weigh, sum, workspace).map_err(|failure| {
                match failure {
                    Failure::Weight(error) => error,
                    Failure::Row(error) => reader.named(error).into(),
                }
            })
        };
        if parts == 1 && ranked.is_none() {
            return run(0..rows, sum, 0);
        }
        let first = own.start;
        let mut outcomes: Vec<_> = self.leaves[..own.len()]
            .iter_mut()
            .enumerate()
            .map(|(index, leaf)| (first + index, leaf, Ok(())))
            .collect();
        self.engine.for_each(&mut outcomes, &|(index, leaf, outcome), worker| {
            *outcome = run(partition::leaf_range(rows, parts, *index), &mut leaf.sum, worker);
        });
        let failed = outcomes.into_iter().find_map(|(index, _, outcome)| outcome.err().map(|error| (index, error)));
        drop(reader);
        let leaves = &self.leaves[..own.len()];
        let Some(ranked) = ranked else {
            if let Some((_, error)) = failed {
                return Err(error);
            }
            add_leaves(&self.engine, leaves, 0, &self.additions, sum);
            return Ok(());
        };
        let first_row = |leaf: usize| match batch {
            Selection::Range(range) => range.start + partition::leaf_range(rows, parts, leaf).start,
            Selection::Indices(indices) => indices[partition::leaf_range(rows, parts, leaf).start] as usize,
        };
        let failure = failed.as_ref().map(|&(leaf, _)| (leaf, first_row(leaf)));
        let parts_of_oracle = (leaves, self.additions.as_slice(), &mut self.travelling);
        let (_, failed_row) = combine(parts_of_oracle, &ranked, parts, (0, failure), sum);
        match (failed_row, failed) {
            (None, _) => Ok(()),
            (Some(_), Some((_, error))) => Err(error),
            // The rank that failed knows why; the others name the row.
            (Some(row), None) => Err(NonFiniteGradient { row }.into()),
        }
    }

    /// Makes the scratch memory when it is first needed.
    fn prepare_recorded(&mut self) {
        let (model, exact) = (self.problem.model(), self.exact);
        while self.recorded.len() < self.engine.threads() {
            self.recorded.push(std::sync::Mutex::new(RecordedScratch {
                workspace: if exact { RecordedWorkspace::new(model).exactly() } else { RecordedWorkspace::new(model) },
                slots: Vec::new(),
            }));
        }
    }
}

/// The reason why a leaf has no sum.
enum Failure<E> {
    Weight(E),
    Row(NonFiniteGradient),
}

impl<E> From<NonFiniteGradient> for Failure<E> {
    fn from(error: NonFiniteGradient) -> Self {
        Self::Row(error)
    }
}
