//! Models of the time that a method takes elsewhere: on P workers with the latency ℓ, from costs measured on one machine.
//! Nothing here measures or prints.

pub(crate) mod presentation;
pub(crate) mod queries;
pub(crate) mod ranks;

use serde::Serialize;

/// The latency above which a method is faster than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Overtaking {
    pub(crate) against: String,
    /// Seconds; 0 where the method is faster at every latency.
    pub(crate) latency_s: f64,
}

/// The latency ℓ ≥ 0 at which `behind(ℓ)`, the time of a method less that of another, falls to 0; 0 if it is never above.
/// `behind` is a straight line between neighbouring `corners` (ascending from 0), and falls by `slope` > 0 a second after the
/// last one.
fn crossing(behind: impl Fn(f64) -> f64, corners: &[f64], slope: f64) -> f64 {
    let last = corners.last().copied().unwrap_or(0.0);
    if behind(last) > 0.0 {
        return last + behind(last) / slope;
    }
    for pair in corners.windows(2).rev() {
        let (from, to) = (pair[0], pair[1]);
        if behind(from) > 0.0 {
            return from + (to - from) * behind(from) / (behind(from) - behind(to));
        }
    }
    0.0
}
