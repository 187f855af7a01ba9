//! Queries whose answers are kept: one round records them, later sums reweight them without a query.

use rounds_kernels::linear::recorded::{RecordedWorkspace, accumulate_outer, margins};
use rounds_kernels::linear::{Batch, NonFiniteGradient};
use rounds_kernels::loss::Target;

use super::shared::{Reader, combine, share};
use super::{Oracle, Selection, add_leaves, lock, part};
use crate::oracle::partition;
use crate::oracle::ranks::gather_messages;

/// Rows whose margins, weights and outer products are worked on together, so that they are read from memory once.
const BLOCK: usize = 128;

/// Scratch of one worker.
pub(super) struct RecordedScratch {
    workspace: RecordedWorkspace,
    margins: Vec<f32>,
    coefficients: Vec<f32>,
    scratch: Vec<f64>,
    slots: Vec<u32>,
}

/// One row of a recorded pool as a reweighting sees it.
pub struct RecordedQuery<'r> {
    /// Position in the batch.
    pub position: usize,
    /// `t_k = ⟨a, v_k⟩`, K of them, of the offset v that is asked for.
    pub offset_margins: &'r [f32],
    /// ‖a‖, bias included, rounded up.
    pub row_norm: f32,
}

impl Oracle<'_> {
    /// `residuals[b·K..] = residual(W·a_b + shifts_b)`: one adaptive round of one query a row. The gradient of row b is
    /// `residuals_b ⊗ a_b`.
    ///
    /// # Errors
    /// A row whose residual is not finite.
    ///
    /// # Panics
    /// Shifts or residuals of another length than rows × K.
    pub fn record(
        &mut self,
        batch: &Selection<'_>,
        parameters: &[f32],
        shifts: &[f32],
        residuals: &mut [f32],
    ) -> Result<(), NonFiniteGradient> {
        let (problem, rows) = (self.problem, batch.len());
        let (model, outputs) = (problem.model(), problem.model().outputs);
        assert_eq!(
            (shifts.len(), residuals.len()),
            (rows * outputs, rows * outputs),
            "shifts or residuals of another batch"
        );
        self.ledger.rounds += 1;
        self.ledger.gradient_queries += rows as u64;
        self.ledger.flops += (problem.flops_per_row() / 2.0 * rows as f64) as u64;
        self.ledger.bytes += (problem.bytes_per_row() * rows as f64) as u64;
        self.prepare_recorded();
        let parts = partition::leaves(rows, problem.row_cycles() / 2.0, partition::LEAF_ROWS);
        let ranked = self.engine.ranked().cloned();
        let ranks = ranked.as_ref().map(|ranked| ranked.ranks());
        let own = ranks.map_or(0..parts, |ranks| share(parts, ranks));
        let reader = Reader::of(problem, batch, parts, None, ranks);
        let positions =
            partition::leaf_range(rows, parts, own.start).start..partition::leaf_range(rows, parts, own.end).start;
        let mut tasks = Vec::with_capacity(own.len());
        let mut rest = &mut residuals[positions.start * outputs..positions.end * outputs];
        for leaf in own {
            let range = partition::leaf_range(rows, parts, leaf);
            let (head, tail) = rest.split_at_mut(range.len() * outputs);
            tasks.push((range, head, None));
            rest = tail;
        }
        let scratches = &self.recorded;
        self.engine.for_each(&mut tasks, &|(range, residuals, failed), worker| {
            let mut scratch = lock(&scratches[worker]);
            let RecordedScratch {
                workspace,
                scratch: values,
                slots,
                ..
            } = &mut *scratch;
            let leaf = reader.batch(part(batch, range.clone()), None, slots);
            margins(model, &leaf, parameters, residuals, workspace);
            for (position, residual) in residuals.chunks_exact_mut(outputs).enumerate() {
                let row = row_of(&leaf, position);
                let shifts = &shifts[(range.start + position) * outputs..][..outputs];
                for ((value, &margin), &shift) in values.iter_mut().zip(&*residual).zip(shifts) {
                    *value = f64::from(margin) + f64::from(shift);
                }
                let target = match leaf.targets {
                    rounds_kernels::features::Targets::Classes(classes) => Target::Class(classes[row] as usize),
                    rounds_kernels::features::Targets::Values(targets) => Target::Value(f64::from(targets[row])),
                };
                let finite = values.iter().all(|value| value.is_finite());
                model.loss.residual(values, target);
                if !(finite && values.iter().all(|value| value.is_finite())) && failed.is_none() {
                    *failed = Some(NonFiniteGradient { row: reader.row(row) });
                }
                residual
                    .iter_mut()
                    .zip(&*values)
                    .for_each(|(to, &from)| *to = from as f32);
            }
        });
        let failed = tasks.iter().find_map(|(_, _, failed)| *failed);
        drop(reader);
        let Some(ranked) = ranked else {
            return failed.map_or(Ok(()), Err);
        };
        // Every rank reweights later, so every rank gets all residuals, in the order of the ranks and so of the batch.
        let mut message = failed.map_or(-1.0, |error| error.row as f64).to_le_bytes().to_vec();
        message.extend_from_slice(bytemuck::cast_slice(
            &residuals[positions.start * outputs..positions.end * outputs],
        ));
        let mut place = 0;
        let mut failed = None;
        for (rank, message) in gather_messages(ranked.ranks(), &message).iter().enumerate() {
            let (row, values) = message
                .split_first_chunk::<8>()
                .expect("a message begins with a number");
            let row = f64::from_le_bytes(*row);
            if row >= 0.0 && failed.is_none() {
                failed = Some(NonFiniteGradient { row: row as usize });
                ranked.fail(rank);
            }
            for value in values.as_chunks::<4>().0 {
                residuals[place] = f32::from_ne_bytes(*value);
                place += 1;
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// `sum = Σ_b f_b·residuals_b ⊗ a_b` with a factor for each row from its offset margins: no query, no round. `factor`
    /// sees one row of the batch at a time, so a sum's terms depend on one example each.
    ///
    /// # Errors
    /// The first error of `factor`; a sum that is not finite names the batch's first row.
    ///
    /// # Panics
    /// Residuals of another length than rows × K.
    pub fn recorded_sum<E: Send + From<NonFiniteGradient>>(
        &mut self,
        batch: &Selection<'_>,
        residuals: &[f32],
        offset: &[f32],
        factor: &(impl Fn(&RecordedQuery<'_>) -> Result<f32, E> + Sync),
        sum: &mut [f64],
    ) -> Result<(), E> {
        let (problem, rows) = (self.problem, batch.len());
        let (model, outputs) = (problem.model(), problem.model().outputs);
        assert_eq!(residuals.len(), rows * outputs, "residuals of another batch");
        self.ledger.flops += (problem.flops_per_row() * rows as f64) as u64;
        self.ledger.bytes += (problem.bytes_per_row() * rows as f64) as u64;
        self.prepare_recorded();
        let parts = partition::leaves(rows, problem.row_cycles(), partition::LEAF_ROWS).min(self.most_leaves);
        let ranked = self.engine.ranked().cloned();
        let ranks = ranked.as_ref().map(|ranked| ranked.ranks());
        let own = ranks.map_or(0..parts, |ranks| share(parts, ranks));
        let reader = Reader::of(problem, batch, parts, None, ranks);
        let scratches = &self.recorded;
        // The shares of a leaf, one block of rows after the other.
        let run = |range: std::ops::Range<usize>, sum: &mut [f64], worker: usize| -> Result<(), E> {
            let mut scratch = lock(&scratches[worker]);
            let RecordedScratch {
                workspace,
                margins: offset_margins,
                coefficients,
                slots,
                ..
            } = &mut *scratch;
            sum.fill(0.0);
            for start in range.clone().step_by(BLOCK) {
                let block = start..(start + BLOCK).min(range.end);
                let leaf = reader.batch(part(batch, block.clone()), None, slots);
                let used = block.len() * outputs;
                margins(model, &leaf, offset, &mut offset_margins[..used], workspace);
                for (index, position) in block.clone().enumerate() {
                    let columns = index * outputs..(index + 1) * outputs;
                    let query = RecordedQuery {
                        position,
                        offset_margins: &offset_margins[columns.clone()],
                        row_norm: reader.l2_norm(row_of(&leaf, index)),
                    };
                    let factor = factor(&query)?;
                    let recorded = &residuals[position * outputs..(position + 1) * outputs];
                    coefficients[columns]
                        .iter_mut()
                        .zip(recorded)
                        .for_each(|(to, &r)| *to = factor * r);
                }
                if !accumulate_outer(model, &leaf, &coefficients[..used], sum, workspace) {
                    return Err(NonFiniteGradient {
                        row: reader.row(row_of(&leaf, 0)),
                    }
                    .into());
                }
            }
            Ok(())
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
        let failed = outcomes
            .into_iter()
            .find_map(|(index, _, outcome)| outcome.err().map(|error| (index, error)));
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
        let agreed = combine(parts_of_oracle, &ranked, parts, (0, failure), sum);
        match (agreed.failed_row, failed) {
            (None, _) => Ok(()),
            (Some(_), Some((_, error))) => Err(error),
            // The rank that failed knows why; the others name the row.
            (Some(row), None) => Err(NonFiniteGradient { row }.into()),
        }
    }

    /// Makes the scratch memory when it is first needed.
    fn prepare_recorded(&mut self) {
        let model = self.problem.model();
        while self.recorded.len() < self.engine.threads() {
            self.recorded.push(std::sync::Mutex::new(RecordedScratch {
                workspace: RecordedWorkspace::new(model),
                margins: vec![0.0; BLOCK * model.outputs],
                coefficients: vec![0.0; BLOCK * model.outputs],
                scratch: vec![0.0; model.outputs],
                slots: Vec::new(),
            }));
        }
    }
}

/// The matrix row at a position of a batch.
fn row_of(batch: &Batch<'_>, position: usize) -> usize {
    match &batch.selection {
        Selection::Range(range) => range.start + position,
        Selection::Indices(indices) => indices[position] as usize,
    }
}
