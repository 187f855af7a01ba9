//! Per-example gradients of general differentiable losses, materialised as a block of rows: norms, clipping and the sum.
//!
//! The path for losses without a closed form, and the reference that the fused kernels of linear models are tested
//! against. Whoever knows the loss fills the block.

use crate::features::Norm;
use crate::linear::{Clip, NonFiniteGradient, Tally};
use crate::vector;

/// `sum += Σ_i g_i·min(1, C/‖g_i‖)` over the rows g_i of `gradients`, row-major `rows × sum.len()`.
///
/// # Guarantee
/// Norms are computed in f64 with a relative error of at most `p·2⁻⁵²` for p parameters, the factor is lowered by
/// 2⁻²⁰, and products are added in f64: what a row adds is never longer than C. A zero gradient adds zero. Each
/// contribution is a function of its row alone, so a sum of n rows moves by at most C·(1 + n·p·2⁻⁵⁰) when one is zeroed.
///
/// # Errors
/// A row with a NaN or infinite entry; the row is counted from `first_row`, and `sum` is then unspecified.
///
/// # Panics
/// If `gradients` is no whole number of rows.
pub fn accumulate_gradients(
    gradients: &[f32],
    first_row: usize,
    clip: Clip,
    sum: &mut [f64],
) -> Result<Tally, NonFiniteGradient> {
    let dimension = sum.len().max(1);
    assert_eq!(
        gradients.len() % dimension,
        0,
        "gradients must be whole rows of {dimension} parameters"
    );
    let mut tally = Tally::default();
    for (row, gradient) in gradients.chunks_exact(dimension).enumerate() {
        add_clipped(gradient, first_row + row, clip, sum, &mut tally)?;
    }
    Ok(tally)
}

/// `sum += Σ_i clip(a·g_i − b·h_i)` over the rows of two blocks, one clip of the difference; `scratch` holds one row.
///
/// # Errors
/// As [`accumulate_gradients`].
///
/// # Panics
/// If the blocks differ in length or are no whole number of rows, or `scratch` is not one row long.
pub fn accumulate_differences(
    (a, gradients): (f32, &[f32]),
    (b, previous): (f32, &[f32]),
    first_row: usize,
    clip: Clip,
    sum: &mut [f64],
    scratch: &mut [f32],
) -> Result<Tally, NonFiniteGradient> {
    let dimension = sum.len().max(1);
    assert_eq!(gradients.len(), previous.len(), "both blocks must have the same rows");
    assert_eq!(
        gradients.len() % dimension,
        0,
        "gradients must be whole rows of {dimension} parameters"
    );
    assert_eq!(scratch.len(), sum.len(), "the scratch is one row");
    let mut tally = Tally::default();
    let pairs = gradients.chunks_exact(dimension).zip(previous.chunks_exact(dimension));
    for (row, (gradient, previous)) in pairs.enumerate() {
        for ((difference, &g), &h) in scratch.iter_mut().zip(gradient).zip(previous) {
            *difference = a.mul_add(g, -(b * h));
        }
        add_clipped(scratch, first_row + row, clip, sum, &mut tally)?;
    }
    Ok(tally)
}

/// Adds one row.
fn add_clipped(
    gradient: &[f32],
    row: usize,
    clip: Clip,
    sum: &mut [f64],
    tally: &mut Tally,
) -> Result<(), NonFiniteGradient> {
    if !vector::is_finite(gradient) {
        return Err(NonFiniteGradient { row });
    }
    tally.rows += 1;
    let factor = factor(gradient, clip);
    tally.clipped += usize::from(factor < 1.0);
    for (sum, &value) in sum.iter_mut().zip(gradient) {
        *sum += factor * f64::from(value);
    }
    Ok(())
}

/// `min(1, C/‖g‖)`, lowered where it is below 1.
fn factor(gradient: &[f32], clip: Clip) -> f64 {
    const MARGIN: f64 = 1.0 / 1_048_576.0;
    match clip {
        Clip::Unbounded => 1.0,
        Clip::Bounded { norm, clip_norm } => {
            let length = vector::norm(gradient, norm) * (1.0 + MARGIN);
            let bound = f64::from(clip_norm);
            if length > bound { bound / length } else { 1.0 }
        }
    }
}

/// Norms of the rows of a block.
///
/// # Panics
/// If `gradients` is no whole number of rows of `dimension`, or `norms` has another length.
pub fn norms(gradients: &[f32], dimension: usize, norm: Norm, norms: &mut [f64]) {
    assert_eq!(gradients.len(), dimension * norms.len(), "one norm a row");
    for (out, gradient) in norms.iter_mut().zip(gradients.chunks_exact(dimension.max(1))) {
        *out = vector::norm(gradient, norm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{F32Rows, Rows, Selection, Targets};
    use crate::linear::{self, Batch, LinearModel, Point, Workspace, row_norms};
    use crate::loss::Loss;

    const ROWS: usize = 37;
    const COLUMNS: usize = 19;
    const CLASSES: usize = 4;

    fn features() -> Vec<f32> {
        (0..ROWS * COLUMNS)
            .map(|index| ((index * 7_919 % 1_013) as f32 - 506.0) / 200.0)
            .collect()
    }

    /// Per-example softmax gradients, `rows × K·(d + 1)`, bias last.
    fn softmax_gradients(features: &[f32], classes: &[u32], parameters: &[f32]) -> Vec<f32> {
        let mut all = Vec::new();
        for (row, &class) in features.chunks(COLUMNS).zip(classes) {
            let extended: Vec<f64> = row.iter().map(|&x| f64::from(x)).chain([1.0]).collect();
            let margin = |weights: &[f32]| {
                weights
                    .iter()
                    .zip(&extended)
                    .map(|(&w, x)| f64::from(w) * x)
                    .sum::<f64>()
            };
            let margins: Vec<f64> = parameters.chunks(COLUMNS + 1).map(margin).collect();
            let total: f64 = margins.iter().map(|u| u.exp()).sum();
            for (k, u) in margins.iter().enumerate() {
                let residual = u.exp() / total - f64::from(u8::from(k == class as usize));
                all.extend(extended.iter().map(|x| (residual * x) as f32));
            }
        }
        all
    }

    fn parameters(shift: usize) -> Vec<f32> {
        (0..CLASSES * (COLUMNS + 1))
            .map(|j| (((j + shift) * 31 % 17) as f32 - 8.0) / 40.0)
            .collect()
    }

    #[test]
    fn closed_forms_of_linear_models_equal_the_materialised_path_bias_included() {
        let features = features();
        let classes: Vec<u32> = (0..ROWS as u32).map(|row| row % CLASSES as u32).collect();
        let model = LinearModel {
            features: COLUMNS,
            outputs: CLASSES,
            bias: true,
            loss: Loss::Softmax,
        };
        let rows = Rows::F32(F32Rows {
            values: &features,
            columns: COLUMNS,
        });
        let (current, previous) = (parameters(0), parameters(5));
        let (now, before) = (
            softmax_gradients(&features, &classes, &current),
            softmax_gradients(&features, &classes, &previous),
        );
        let mut workspace = Workspace::new(&model);
        for norm in [Norm::L1, Norm::L2] {
            let norms = row_norms(rows, true, norm).unwrap();
            let batch = Batch {
                rows,
                targets: Targets::Classes(&classes),
                norms: Some(&norms),
                selection: Selection::Range(0..ROWS),
            };
            for clip_norm in [0.1, 3.0, 1e4] {
                let clip = Clip::Bounded { norm, clip_norm };
                let mut sums = [vec![0.0; current.len()], vec![0.0; current.len()]];
                let counted = accumulate_gradients(&now, 0, clip, &mut sums[0]).unwrap();
                let fused =
                    linear::accumulate_gradients(&model, &batch, &current, clip, &mut sums[1], &mut workspace).unwrap();
                assert_eq!(counted, fused);
                assert_close(&sums, clip_norm);
                let mut sums = [vec![0.0; current.len()], vec![0.0; current.len()]];
                let mut scratch = vec![0.0; current.len()];
                accumulate_differences((3.0, &now), (2.0, &before), 0, clip, &mut sums[0], &mut scratch).unwrap();
                let points = [(3.0, &current), (2.0, &previous)].map(|(coefficient, parameters)| Point {
                    coefficient,
                    parameters: parameters.as_slice(),
                });
                linear::accumulate_differences(
                    &model,
                    &batch,
                    points[0],
                    points[1],
                    clip,
                    &mut sums[1],
                    &mut workspace,
                )
                .unwrap();
                assert_close(&sums, clip_norm);
            }
        }
    }

    fn assert_close(sums: &[Vec<f64>; 2], clip_norm: f32) {
        let scale = sums[0]
            .iter()
            .fold(f64::from(clip_norm).min(1.0), |most, value| most.max(value.abs()));
        for (a, b) in sums[0].iter().zip(&sums[1]) {
            assert!((a - b).abs() <= 2e-5 * scale, "{a} against {b}");
        }
    }

    #[test]
    fn a_contribution_is_never_longer_than_the_clip_norm() {
        for (norm, clip_norm) in [
            (Norm::L2, 1.0_f32),
            (Norm::L1, 0.3),
            (Norm::L2, 1e-20),
            (Norm::L1, 1e20),
        ] {
            for scale in [1e-38_f32, 1e-20, 1.0, 1e18, 1e37] {
                let gradient: Vec<f32> = (0..77).map(|j| scale * ((j as f32).sin() + 0.01)).collect();
                let mut sum = vec![0.0; gradient.len()];
                accumulate_gradients(&gradient, 0, Clip::Bounded { norm, clip_norm }, &mut sum).unwrap();
                let length = match norm {
                    Norm::L1 => sum.iter().map(|value| value.abs()).sum::<f64>(),
                    Norm::L2 => sum.iter().map(|value| value * value).sum::<f64>().sqrt(),
                };
                assert!(length <= f64::from(clip_norm), "{length} > {clip_norm}");
            }
        }
    }

    #[test]
    fn rows_that_are_not_finite_are_named() {
        let mut gradients = vec![1.0_f32; 12];
        gradients[7] = f32::NAN;
        let outcome = accumulate_gradients(&gradients, 100, Clip::Unbounded, &mut [0.0; 4]);
        assert_eq!(outcome, Err(NonFiniteGradient { row: 101 }));
    }

    #[test]
    fn norms_of_rows_are_those_of_the_rows() {
        let mut out = [0.0; 2];
        norms(&[3.0, 4.0, 0.0, -2.0], 2, Norm::L2, &mut out);
        assert_eq!(out, [5.0, 2.0]);
        norms(&[3.0, 4.0, 0.0, -2.0], 2, Norm::L1, &mut out);
        assert_eq!(out, [7.0, 2.0]);
    }
}
