//! The plain scalar versions of the vector operations.

use crate::features::Norm;

/// `Σ x_i y_i`.
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

/// `‖x‖`.
pub fn norm(x: &[f32], norm: Norm) -> f64 {
    match norm {
        Norm::L1 => x.iter().map(|&x| f64::from(x).abs()).sum(),
        Norm::L2 => dot(x, x).sqrt(),
    }
}

/// `‖x − y‖₂`.
pub fn distance(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum::<f64>().sqrt()
}

/// `y ← y + a·x`.
pub fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = a.mul_add(x, *y);
    }
}

/// `x ← a·x`.
pub fn scale(a: f32, x: &mut [f32]) {
    for x in x {
        *x *= a;
    }
}

/// `x ← c + (x − c)·min(1, r/‖x − c‖₂)`; whether x lay outside.
pub fn project_onto_ball(center: Option<&[f32]>, radius: f64, x: &mut [f32]) -> bool {
    let center = center.map_or_else(|| vec![0.0; x.len()], <[f32]>::to_vec);
    let length = distance(x, &center);
    if length <= radius {
        return false;
    }
    for (x, c) in x.iter_mut().zip(center) {
        *x = (f64::from(c) + (f64::from(*x) - f64::from(c)) * (radius / length)) as f32;
    }
    true
}
