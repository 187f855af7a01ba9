//! The largest eigenvalue of the features' second moment, for studies that set L from the data.

use rounds_kernels::features::{Selection, Targets};
use rounds_kernels::linear::{Batch, Clip, LinearModel, Workspace, accumulate_gradients};
use rounds_kernels::loss::Loss;

use super::dataset::Dataset;

/// `λ_max(AᵀA/n)`, A the rows, with a column of ones if there is a bias: by power iteration from the vector of ones until two iterates agree to
/// `tolerance` (relative), at most 1,000 passes. From below, so L set from it may be too small by that much.
///
/// A statistic of the data: a private run must not use it. The mean loss has L ≤ sup φ″ times it, plus λ.
pub fn largest_second_moment(dataset: &Dataset, bias: bool, tolerance: f64) -> f64 {
    let rows = dataset.len();
    // The gradient of the squared loss with targets 0 is Σ a(a·v): one product with AᵀA a pass.
    let model = LinearModel { features: dataset.columns(), outputs: 1, bias, loss: Loss::Squared };
    let zeros = vec![0.0; rows];
    let mut workspace = Workspace::new(&model);
    let mut vector = vec![1.0_f32; model.parameters()];
    let mut product = vec![0.0_f64; model.parameters()];
    let mut eigenvalue = 0.0;
    for _ in 0..1_000 {
        let length = vector.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        for v in &mut vector {
            *v = (f64::from(*v) / length) as f32;
        }
        product.fill(0.0);
        let batch = Batch {
            rows: dataset.rows(),
            targets: Targets::Values(&zeros),
            norms: None,
            selection: Selection::Range(0..rows),
            units: None,
        };
        let outcome = accumulate_gradients(&model, &batch, &vector, Clip::Unbounded, &mut product, &mut workspace);
        outcome.expect("the rows of a data set are finite, and so are products with a unit vector");
        let next = product.iter().map(|v| v * v).sum::<f64>().sqrt() / rows.max(1) as f64;
        if next == 0.0 {
            return 0.0;
        }
        for (v, &p) in vector.iter_mut().zip(&product) {
            *v = (p / rows as f64) as f32;
        }
        if (next - eigenvalue).abs() <= tolerance * next {
            return next;
        }
        eigenvalue = next;
    }
    eigenvalue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::features::{Features, Labels};

    #[test]
    fn a_diagonal_second_moment_has_its_largest_entry_and_the_bias_is_a_feature() {
        // Rows 2·e_1, 3·e_2, 1·e_3: AᵀA/3 = diag(4, 9, 1)/3. Rows of zeros with a bias: 1.
        let diagonal = Features::f32(vec![2.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 1.0], 3);
        let zeros = Features::f32(vec![0.0; 4], 1);
        for (features, bias, expected, tolerance) in [(diagonal, false, 3.0, 1e-5), (zeros, true, 1.0, 1e-6)] {
            let labels = Labels::Values(vec![1.0; features.len()]);
            let data = Dataset::new("d", features, labels).unwrap();
            let found = largest_second_moment(&data, bias, 1e-9);
            assert!((found - expected).abs() < tolerance, "bias {bias}: {found}");
        }
    }
}
