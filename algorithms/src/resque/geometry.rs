//! Inner products, distances, conversions and ball projections of f64 centres and f32 offsets.

pub(crate) use crate::vectors::norm;

/// ⟨a, b⟩ with sixteen f32 accumulators.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0f32; 16];
    let (left, right) = (a.chunks_exact(16), b.chunks_exact(16));
    let tail: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    for (a, b) in left.zip(right) {
        for lane in 0..16 {
            lanes[lane] = a[lane].mul_add(b[lane], lanes[lane]);
        }
    }
    lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>() + tail
}

/// ‖v‖², with sixteen f64 accumulators.
pub(crate) fn squared_norm(v: &[f32]) -> f64 {
    let mut lanes = [0f64; 16];
    let (whole, rest) = v.as_chunks::<16>();
    for v in whole {
        for (lane, &v) in lanes.iter_mut().zip(v) {
            *lane = f64::from(v).mul_add(f64::from(v), *lane);
        }
    }
    let tail: f64 = rest.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    lanes.iter().sum::<f64>() + tail
}

/// ‖a − b‖.
#[cfg(test)]
pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    norm(&crate::vectors::map2(a, b, |a, b| a - b))
}

/// `v ← v·min(1, r/‖v‖)`.
pub(crate) fn project(v: &mut [f64], radius: f64) {
    let length = norm(v);
    if length > radius {
        let factor = radius / length;
        for v in v.iter_mut() {
            *v *= factor;
        }
    }
}

/// `v ← v·min(1, r/‖v‖)` in f32, rounded so that ‖v‖ ≤ r(1 + 1e-6).
pub(crate) fn project_offset(v: &mut [f32], radius: f64) {
    let squared = squared_norm(v);
    if squared > radius * radius {
        let factor = (radius / squared.sqrt()) as f32;
        for v in v.iter_mut() {
            *v *= factor;
        }
    }
}

/// `to = from`, rounded.
pub(crate) fn narrow(to: &mut [f32], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = from as f32);
}

/// `to = from`.
pub(crate) fn widen(to: &mut [f64], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = f64::from(from));
}

/// `sum += factor·v`.
pub(crate) fn add(sum: &mut [f64], factor: f64, v: &[f32]) {
    sum.iter_mut().zip(v).for_each(|(sum, &v)| *sum += factor * f64::from(v));
}
