//! Outputs of a model row by row: each is a function of its row and the weights alone.

use rayon::prelude::*;
use rounds_kernels::features::Rows;
use rounds_kernels::network::{self, Network, PackedParameters, Workspace};
use rounds_kernels::vector;

/// Outputs of a network with these weights for every row: K a row, row after row.
///
/// # Panics
/// Rows of another shape, weights of another network.
pub fn outputs_of_network(network: &Network, weights: &[f32], rows: Rows<'_>) -> Vec<f64> {
    let mut packed = PackedParameters::new(network);
    packed.set(network, weights);
    let mut outputs = vec![0.0; rows.len() * network.outputs()];
    let row_outputs = |workspace: &mut Workspace, (row, out): (usize, &mut [f64])| {
        out.copy_from_slice(network::outputs(network, rows, row, &packed, workspace));
    };
    let by_row = outputs.par_chunks_mut(network.outputs()).enumerate();
    by_row.for_each_init(|| Workspace::new(network), row_outputs);
    outputs
}

/// Outputs `W·a` of the model with these weights (row-major, with a bias last if it has one) for every row: K a row, row after row. Sums
/// are f64.
///
/// # Panics
/// Rows with another number of features.
pub fn outputs(weights: &[f32], rows: Rows<'_>, has_bias: bool) -> Vec<f64> {
    let columns = rows.columns();
    let width = columns + usize::from(has_bias);
    assert!(weights.len().is_multiple_of(width), "features a row");
    let weights: Vec<&[f32]> = weights.chunks_exact(width).collect();
    let mut outputs = vec![0.0; rows.len() * weights.len()];
    let row_outputs = |features: &mut Vec<f32>, (row, outputs): (usize, &mut [f64])| {
        let dense = match rows {
            Rows::F32(dense) => &dense.values[row * columns..(row + 1) * columns],
            Rows::U8(bytes) => {
                features.clear();
                features.extend(bytes.row(row).iter().map(|&byte| bytes.scale * f32::from(byte)));
                features.as_slice()
            }
            Rows::Sparse(_) => &[],
        };
        for (output, weights) in outputs.iter_mut().zip(&weights) {
            let (weights, bias) = weights.split_at(columns);
            let product = if let Rows::Sparse(sparse) = rows {
                let stored = sparse.offsets[row]..sparse.offsets[row + 1];
                let entries = sparse.indices[stored.clone()].iter().zip(&sparse.values[stored]);
                let weight = |column: u32| f64::from(weights[column as usize]);
                entries.map(|(&column, &value)| f64::from(value) * weight(column)).sum()
            } else {
                vector::dot(dense, weights)
            };
            *output = product + bias.first().copied().map_or(0.0, f64::from);
        }
    };
    let by_row = outputs.par_chunks_mut(weights.len()).enumerate();
    by_row.for_each_init(Vec::new, row_outputs);
    outputs
}
