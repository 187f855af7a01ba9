//! The two halves of a gradient, for queries whose answers are kept: margins of a block of rows, and the sum of
//! coefficients times rows. A pool of ReSQue queries records K residuals a query in its round and is reweighted later, at
//! points that were not known then.

use super::dense::{self, Ahead, ROW_GROUP, Sink};
use super::{BLOCK_ROWS, Batch, LinearModel, Source, Workspace, check, residuals};
use crate::features::{Rows, Selection};

/// Rows below which packing the weights for the fused kernels costs more than they save.
const FEW_ROWS: usize = 16;

/// Scratch memory: that of the fused kernels, one row and an f32 partial sum.
#[derive(Debug)]
pub struct RecordedWorkspace {
    fused: Workspace,
    row: Vec<f32>,
    partial: Vec<f32>,
}

impl RecordedWorkspace {
    /// Scratch for batches of `model`.
    pub fn new(model: &LinearModel) -> Self {
        let width = model.features + usize::from(model.bias);
        let mut row = vec![0.0; width];
        if model.bias {
            row[model.features] = 1.0;
        }
        Self {
            fused: Workspace::new(model),
            row,
            partial: vec![0.0; model.parameters()],
        }
    }
}

/// Rows whose outer products are summed in f32 before the sum moves to f64.
const PARTIAL_ROWS: usize = 128;

/// `margins[b·K + k] = ⟨W_k, a_b⟩`, bias included. Sixteen f32 lanes a product: relative error about 1e-6·√d.
///
/// # Panics
/// `margins` of another length than rows × K, or parameters that do not fit the model.
pub fn margins(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    margins: &mut [f32],
    workspace: &mut RecordedWorkspace,
) {
    assert_eq!(parameters.len(), model.parameters(), "parameters of another model");
    assert_eq!(
        margins.len(),
        batch.selection.len() * model.outputs,
        "margins of another batch"
    );
    if dense_rows(batch) {
        return fused_margins(model, batch, parameters, margins, &mut workspace.fused);
    }
    let width = model.features + usize::from(model.bias);
    for (position, margins) in margins.chunks_exact_mut(model.outputs).enumerate() {
        let row = row_at(&batch.selection, position);
        if let Rows::Sparse(sparse) = batch.rows {
            let entries = sparse.offsets[row]..sparse.offsets[row + 1];
            for (margin, weights) in margins.iter_mut().zip(parameters.chunks_exact(width)) {
                let mut sum = if model.bias { weights[model.features] } else { 0.0 };
                for (&column, &value) in sparse.indices[entries.clone()]
                    .iter()
                    .zip(&sparse.values[entries.clone()])
                {
                    sum = value.mul_add(weights[column as usize], sum);
                }
                *margin = sum;
            }
        } else {
            let features = load(batch.rows, row, &mut workspace.row, model.features);
            for (margin, weights) in margins.iter_mut().zip(parameters.chunks_exact(width)) {
                let bias = if model.bias { weights[model.features] } else { 0.0 };
                *margin = dot(features, &weights[..model.features]) + bias;
            }
        }
    }
}

/// `sum += Σ_b coefficients_b ⊗ a_b`, bias included; f32 within blocks of 128 rows, f64 between them. False if a partial
/// sum is not finite.
///
/// # Panics
/// Coefficients or a sum of another length than the batch and the model have.
pub fn accumulate_outer(
    model: &LinearModel,
    batch: &Batch<'_>,
    coefficients: &[f32],
    sum: &mut [f64],
    workspace: &mut RecordedWorkspace,
) -> bool {
    assert_eq!(
        coefficients.len(),
        batch.selection.len() * model.outputs,
        "coefficients of another batch"
    );
    assert_eq!(sum.len(), model.parameters(), "a sum of another model");
    if dense_rows(batch) {
        return fused_outer(model, batch, coefficients, sum, &mut workspace.fused);
    }
    let width = model.features + usize::from(model.bias);
    let RecordedWorkspace {
        row: buffer, partial, ..
    } = workspace;
    let mut finite = true;
    for (block, coefficients) in coefficients.chunks(PARTIAL_ROWS * model.outputs).enumerate() {
        partial.fill(0.0);
        for (index, coefficients) in coefficients.chunks_exact(model.outputs).enumerate() {
            let row = row_at(&batch.selection, block * PARTIAL_ROWS + index);
            let dense = if matches!(batch.rows, Rows::Sparse(_)) {
                None
            } else {
                Some(load(batch.rows, row, buffer, model.features))
            };
            for (&coefficient, partial) in coefficients.iter().zip(partial.chunks_exact_mut(width)) {
                if coefficient == 0.0 {
                    continue;
                }
                match (dense, batch.rows) {
                    (Some(features), _) => {
                        for (sum, &a) in partial.iter_mut().zip(features) {
                            *sum = coefficient.mul_add(a, *sum);
                        }
                    }
                    (None, Rows::Sparse(sparse)) => {
                        let entries = sparse.offsets[row]..sparse.offsets[row + 1];
                        for (&column, &value) in sparse.indices[entries.clone()].iter().zip(&sparse.values[entries]) {
                            partial[column as usize] = coefficient.mul_add(value, partial[column as usize]);
                        }
                    }
                    (None, _) => unreachable!("dense rows are loaded"),
                }
                if model.bias {
                    partial[model.features] += coefficient;
                }
            }
        }
        for (sum, &partial) in sum.iter_mut().zip(&*partial) {
            finite &= partial.is_finite();
            *sum += f64::from(partial);
        }
    }
    finite
}

/// Whether the fused kernels take the batch: dense rows, and enough of them.
fn dense_rows(batch: &Batch<'_>) -> bool {
    !matches!(batch.rows, Rows::Sparse(_)) && batch.selection.len() >= FEW_ROWS && batch.rows.columns() > 0
}

/// The fused kernels read rows through pointers: no row may lie outside of the matrix.
fn check_rows(batch: &Batch<'_>) {
    let rows = batch.rows.len();
    let inside = match &batch.selection {
        Selection::Range(range) => range.end <= rows,
        Selection::Indices(indices) => indices.iter().all(|&row| (row as usize) < rows),
    };
    assert!(inside, "a row outside of a matrix with {rows} rows");
}

/// [`margins`] by the fused kernels.
fn fused_margins(
    model: &LinearModel,
    batch: &Batch<'_>,
    parameters: &[f32],
    margins: &mut [f32],
    workspace: &mut Workspace,
) {
    check(model, batch, parameters);
    let (outputs, source) = (model.outputs, Source::new(batch.rows, model));
    let Workspace {
        current,
        residuals: out,
        rows: scratch,
        facts,
        blocks,
        ..
    } = workspace;
    current.pack(model, source.layout, parameters);
    let total = batch.selection.len();
    let scattered = source.is_scattered(&batch.selection);
    let part = source.part(*blocks);
    let steps = dense::steps(outputs, source.layout, part, 1) / 2;
    for start in (0..total).step_by(part) {
        let count = (total - start).min(part);
        for (offset, id) in facts.ids[..count].iter_mut().enumerate() {
            *id = row_at(&batch.selection, start + offset);
        }
        let mut starts = [std::ptr::null(); BLOCK_ROWS];
        let next = (start + count)..(start + count + part).min(total);
        let next = source.starts(&batch.selection, next, &mut starts);
        let mut ahead = Ahead::rows(next, source.row_bytes(), source.layout.vectors, steps);
        source.margins(
            &facts.ids[..count],
            scratch,
            [(&*current, &mut out[..])],
            scattered && start == 0,
            &mut ahead,
        );
        for (row, margins) in margins[start * outputs..(start + count) * outputs]
            .chunks_exact_mut(outputs)
            .enumerate()
        {
            for (output, margin) in margins.iter_mut().enumerate() {
                *margin = out[output * BLOCK_ROWS + row];
            }
        }
    }
}

/// [`accumulate_outer`] by the fused kernels.
fn fused_outer(
    model: &LinearModel,
    batch: &Batch<'_>,
    coefficients: &[f32],
    sum: &mut [f64],
    workspace: &mut Workspace,
) -> bool {
    check_rows(batch);
    assert_eq!(
        batch.rows.columns(),
        model.features,
        "columns of the rows (left) and features of the model (right)"
    );
    let (outputs, source) = (model.outputs, Source::new(batch.rows, model));
    let width = model.features + usize::from(model.bias);
    let Workspace {
        residuals: block,
        rows: scratch,
        facts,
        blocks,
        ..
    } = workspace;
    let part = source.part(*blocks);
    for start in (0..batch.selection.len()).step_by(part) {
        let count = (batch.selection.len() - start).min(part);
        for (offset, id) in facts.ids[..count].iter_mut().enumerate() {
            *id = row_at(&batch.selection, start + offset);
        }
        let mut pointers = [std::ptr::null(); BLOCK_ROWS];
        for first in (0..count).step_by(ROW_GROUP) {
            let group = first..(first + ROW_GROUP).min(count);
            source.place(&facts.ids[..count], group, scratch, &mut pointers);
        }
        for (row, own) in coefficients[start * outputs..(start + count) * outputs]
            .chunks_exact(outputs)
            .enumerate()
        {
            for (output, &coefficient) in own.iter().enumerate() {
                block[output * BLOCK_ROWS + row] = coefficient;
            }
        }
        residuals::clear_beyond(block, outputs, count);
        if model.bias {
            for output in 0..outputs {
                let total = residuals::total(&block[output * BLOCK_ROWS..][..BLOCK_ROWS], count);
                sum[output * width + model.features] += f64::from(total);
            }
        }
        residuals::scale(source.scale, block, outputs, count);
        let sink = Sink::Sum {
            sum: &mut *sum,
            width,
            features: model.features,
        };
        // SAFETY: coefficients beyond the rows were cleared.
        unsafe { source.gradient(&pointers, count, block, outputs, &mut Ahead::nothing(), sink) };
    }
    sum.iter().all(|value| value.is_finite())
}

/// A dense row as f32: itself, or widened into `buffer`.
fn load<'a>(rows: Rows<'a>, row: usize, buffer: &'a mut [f32], features: usize) -> &'a [f32] {
    match rows {
        Rows::F32(dense) => &dense.values[row * dense.columns..(row + 1) * dense.columns],
        Rows::U8(dense) => {
            let bytes = &dense.values[row * dense.columns..(row + 1) * dense.columns];
            for (value, &byte) in buffer.iter_mut().zip(bytes) {
                *value = f32::from(byte) * dense.scale;
            }
            &buffer[..features]
        }
        Rows::Sparse(_) => unreachable!("sparse rows are never widened"),
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [[0f32; 16]; 2];
    let (left, right) = (a.chunks_exact(32), b.chunks_exact(32));
    let tail: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in left.zip(right) {
        for half in 0..2 {
            for lane in 0..16 {
                lanes[half][lane] = a[16 * half + lane].mul_add(b[16 * half + lane], lanes[half][lane]);
            }
        }
    }
    (0..16).map(|lane| lanes[0][lane] + lanes[1][lane]).sum::<f32>() + tail
}

fn row_at(selection: &Selection<'_>, position: usize) -> usize {
    match selection {
        Selection::Range(range) => range.start + position,
        Selection::Indices(indices) => indices[position] as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{F32Rows, SparseRows, Targets, U8Rows};
    use crate::loss::Loss;

    #[test]
    fn both_halves_agree_with_scalar_sums_in_every_format() {
        for features in [1usize, 5, 32, 67] {
            for outputs in [1, 3] {
                for bias in [false, true] {
                    let count = 300;
                    let bytes: Vec<u8> = (0..count * features).map(|i| (i * 37 % 11) as u8).collect();
                    let values: Vec<f32> = bytes.iter().map(|&b| f32::from(b) * 0.25).collect();
                    let mut offsets = vec![0];
                    let (mut indices, mut stored) = (Vec::new(), Vec::new());
                    for row in values.chunks_exact(features) {
                        for (column, &value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                            indices.push(column as u32);
                            stored.push(value);
                        }
                        offsets.push(indices.len());
                    }
                    let loss = if outputs == 1 { Loss::Logistic } else { Loss::Softmax };
                    let model = LinearModel {
                        features,
                        outputs,
                        bias,
                        loss,
                    };
                    let width = features + usize::from(bias);
                    let parameters: Vec<f32> = (0..model.parameters()).map(|i| (i as f32 * 0.71).sin()).collect();
                    let selected: Vec<u32> = (0..if bias { 259 } else { 9 })
                        .map(|i| (i * 7 % count) as u32)
                        .collect();
                    let coefficients: Vec<f32> =
                        (0..selected.len() * outputs).map(|i| (i as f32 * 0.37).cos()).collect();
                    let targets = vec![0.0; count];
                    let classes = vec![0; count];
                    let targets = if outputs == 1 {
                        Targets::Values(&targets)
                    } else {
                        Targets::Classes(&classes)
                    };
                    let formats = [
                        Rows::F32(F32Rows {
                            values: &values,
                            columns: features,
                        }),
                        Rows::U8(U8Rows {
                            values: &bytes,
                            columns: features,
                            scale: 0.25,
                        }),
                        Rows::Sparse(SparseRows {
                            offsets: &offsets,
                            indices: &indices,
                            values: &stored,
                            columns: features,
                        }),
                    ];
                    for rows in formats {
                        let selection = Selection::Indices(&selected);
                        let batch = Batch {
                            rows,
                            targets,
                            norms: None,
                            selection,
                        };
                        let mut workspace = RecordedWorkspace::new(&model);
                        let mut found = vec![0.0; coefficients.len()];
                        margins(&model, &batch, &parameters, &mut found, &mut workspace);
                        let mut sum = vec![0.0; model.parameters()];
                        assert!(accumulate_outer(
                            &model,
                            &batch,
                            &coefficients,
                            &mut sum,
                            &mut workspace
                        ));
                        let mut expected_sum = vec![0.0; model.parameters()];
                        for (position, &row) in selected.iter().enumerate() {
                            let mut features_of: Vec<f64> = values
                                [row as usize * features..(row as usize + 1) * features]
                                .iter()
                                .map(|&v| f64::from(v))
                                .collect();
                            if bias {
                                features_of.push(1.0);
                            }
                            for k in 0..outputs {
                                let index = position * outputs + k;
                                let margin: f64 = (0..width)
                                    .map(|j| features_of[j] * f64::from(parameters[k * width + j]))
                                    .sum();
                                assert!((margin - f64::from(found[index])).abs() < 1e-4, "{rows:?}");
                                for j in 0..width {
                                    expected_sum[k * width + j] += features_of[j] * f64::from(coefficients[index]);
                                }
                            }
                        }
                        assert!(
                            sum.iter().zip(&expected_sum).all(|(a, b)| (a - b).abs() < 1e-3),
                            "{features} {outputs}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn overflow_is_reported() {
        let model = LinearModel {
            features: 1,
            outputs: 1,
            bias: false,
            loss: Loss::Hinge,
        };
        let rows = Rows::F32(F32Rows {
            values: &[1e30],
            columns: 1,
        });
        let batch = Batch {
            rows,
            targets: Targets::Values(&[1.0]),
            norms: None,
            selection: Selection::Range(0..1),
        };
        let mut workspace = RecordedWorkspace::new(&model);
        assert!(!accumulate_outer(&model, &batch, &[1e30], &mut [0.0], &mut workspace));
    }
}
