//! Inner products and combinations of f64 vectors, one entry after the other.

/// ⟨a, b⟩, over the entries that both have.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// ⟨a, b⟩ with b read backwards: a term of a convolution.
pub(crate) fn dot_reversed(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b.iter().rev()).map(|(a, b)| a * b).sum()
}

/// ‖v‖.
pub(crate) fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

/// `sum += factor·v`.
pub(crate) fn add_scaled(sum: &mut [f64], factor: f64, v: &[f64]) {
    sum.iter_mut().zip(v).for_each(|(sum, v)| *sum += factor * v);
}

/// `f(a, b)`, entry by entry.
pub(crate) fn map2(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}
