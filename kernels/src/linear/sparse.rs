//! Margins and gradients of compressed sparse rows, entry by entry.
//!
//! Gradients go straight to the f64 sum: a product of two f32 is exact in f64, and no call touches parameters that no
//! row of the batch has.

use super::model::LinearModel;
use crate::features::BLOCK_ROWS;
use crate::features::SparseRows;

/// `margins[k·128 + i] = Σ_j W_kj a_ij + bias_k` for the rows `ids`.
pub(super) fn margins(
    rows: SparseRows<'_>,
    ids: &[usize],
    model: &LinearModel,
    parameters: &[f32],
    margins: &mut [f32],
) {
    let width = model.width();
    for output in 0..model.outputs {
        let weights = &parameters[output * width..(output + 1) * width];
        let (weights, bias) = weights.split_at(model.features);
        let bias = bias.first().copied().unwrap_or(0.0);
        for (margin, &id) in margins[output * BLOCK_ROWS..].iter_mut().zip(ids) {
            let (columns, values) = rows.row(id);
            *margin = dot(columns, values, weights) + bias;
        }
    }
}

/// `Σ_e values_e · weights[indices_e]`, four partial sums.
fn dot(indices: &[u32], values: &[f32], weights: &[f32]) -> f32 {
    let (index_groups, index_rest) = indices.as_chunks::<4>();
    let (value_groups, value_rest) = values.as_chunks::<4>();
    let mut sums = [0f32; 4];
    for (indices, values) in index_groups.iter().zip(value_groups) {
        for lane in 0..4 {
            sums[lane] = values[lane].mul_add(weights[indices[lane] as usize], sums[lane]);
        }
    }
    for (&index, &value) in index_rest.iter().zip(value_rest) {
        sums[0] = value.mul_add(weights[index as usize], sums[0]);
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// `sum[k·width + j] += factor · q_ki · a_ij` in f64 for the rows `ids`; `coefficients[k·128 + i]` is q_ki.
pub(super) fn add_gradient(
    rows: SparseRows<'_>,
    ids: &[usize],
    model: &LinearModel,
    (coefficients, factor): (&[f32], f64),
    sum: &mut [f64],
) {
    let width = model.width();
    for output in 0..model.outputs {
        let sum = &mut sum[output * width..][..model.features];
        for (&q, &id) in coefficients[output * BLOCK_ROWS..].iter().zip(ids) {
            let q = f64::from(q) * factor;
            let (columns, values) = rows.row(id);
            for (&index, &value) in columns.iter().zip(values) {
                sum[index as usize] += q * f64::from(value);
            }
        }
    }
}
