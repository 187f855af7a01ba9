//! Limited-memory BFGS with a diagonal preconditioner, for the smooth duals.

use crate::vectors::{add_scaled, dot, map2};

/// A point's value, gradient and the diagonal of an approximate inverse Hessian.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    pub(crate) value: f64,
    pub(crate) gradient: Vec<f64>,
    pub(crate) inverse_curvature: Vec<f64>,
}

impl Evaluation {
    /// gᵀ·H₀·g, twice what a Newton step is expected to gain.
    pub(crate) fn expected_gain(&self) -> f64 {
        self.gradient.iter().zip(&self.inverse_curvature).map(|(g, h)| g * g * h).sum()
    }
}

/// State of a minimisation between calls, so that it can be resumed with a tighter goal. Where the function changes, its
/// evaluation at the current point is replaced; the curvature pairs stay.
pub(crate) struct Minimizer {
    pub(crate) point: Vec<f64>,
    pub(crate) evaluation: Evaluation,
    /// (s, y, 1/sᵀy), oldest first.
    history: Vec<(Vec<f64>, Vec<f64>, f64)>,
    memory: usize,
}

impl Minimizer {
    pub(crate) fn new(point: Vec<f64>, evaluation: Evaluation, memory: usize) -> Self {
        Self { point, evaluation, history: Vec::new(), memory }
    }

    /// One quasi-Newton step with Armijo back-tracking; `false` when no step lowers the value any more.
    ///
    /// `evaluate` returns `None` outside its domain.
    pub(crate) fn step(&mut self, mut evaluate: impl FnMut(&[f64]) -> Option<Evaluation>) -> bool {
        loop {
            let direction = self.direction();
            let slope = dot(&direction, &self.evaluation.gradient);
            if slope < 0.0 && self.search(&direction, slope, &mut evaluate) {
                return true;
            }
            if self.history.is_empty() {
                return false;
            }
            self.history.clear();
        }
    }

    fn search(
        &mut self,
        direction: &[f64],
        slope: f64,
        evaluate: &mut impl FnMut(&[f64]) -> Option<Evaluation>,
    ) -> bool {
        // A step in logarithms beyond e^2 leaves the region in which the curvature means anything.
        let largest = direction.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let mut length = (2.0 / largest).min(1.0);
        // Where the change of the value drowns in its rounding, the gradient decides.
        let magnitude = self.evaluation.value.abs().max(1.0);
        let (noise, resolution) = (1e-12 * magnitude, 1e-15 * magnitude);
        let gain = self.evaluation.expected_gain();
        for _ in 0..40 {
            let candidate = map2(&self.point, direction, |value, step| value + length * step);
            if let Some(found) = evaluate(&candidate)
                && (found.value <= self.evaluation.value + (1e-4 * length * slope).min(-resolution)
                    || (found.value <= self.evaluation.value + noise && found.expected_gain() < 0.9 * gain))
            {
                let step: Vec<f64> = direction.iter().map(|value| length * value).collect();
                let change = map2(&found.gradient, &self.evaluation.gradient, |new, old| new - old);
                let curvature = dot(&step, &change);
                if curvature > 1e-12 * (dot(&step, &step) * dot(&change, &change)).sqrt() {
                    if self.history.len() == self.memory {
                        self.history.remove(0);
                    }
                    self.history.push((step, change, 1.0 / curvature));
                }
                self.point = candidate;
                self.evaluation = found;
                return true;
            }
            length *= 0.5;
            if -length * slope < resolution {
                return false;
            }
        }
        false
    }

    /// −H·g by the two-loop recursion, H₀ the diagonal preconditioner scaled by the newest pair.
    fn direction(&self) -> Vec<f64> {
        let mut direction: Vec<f64> = self.evaluation.gradient.iter().map(|value| -value).collect();
        let mut coefficients = Vec::with_capacity(self.history.len());
        for (step, change, inverse) in self.history.iter().rev() {
            let coefficient = inverse * dot(step, &direction);
            add_scaled(&mut direction, -coefficient, change);
            coefficients.push(coefficient);
        }
        let scale = self.history.last().map_or(1.0, |(_, change, inverse)| {
            let weighted: f64 = change
                .iter()
                .zip(&self.evaluation.inverse_curvature)
                .map(|(value, weight)| value * value * weight)
                .sum();
            1.0 / (inverse * weighted)
        });
        for (value, weight) in direction.iter_mut().zip(&self.evaluation.inverse_curvature) {
            *value *= scale * weight;
        }
        for ((step, change, inverse), coefficient) in self.history.iter().zip(coefficients.iter().rev()) {
            let correction = coefficient - inverse * dot(change, &direction);
            add_scaled(&mut direction, correction, step);
        }
        direction
    }
}

/// Minimises a smooth function of few variables from `start` until no step lowers it any more.
pub(crate) fn minimize(
    start: Vec<f64>,
    most_steps: usize,
    mut evaluate: impl FnMut(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<Vec<f64>> {
    let mut evaluation = |point: &[f64]| {
        let (value, gradient) = evaluate(point)?;
        let inverse_curvature = vec![1.0; gradient.len()];
        (value.is_finite() && gradient.iter().all(|entry| entry.is_finite())).then_some(Evaluation {
            value,
            gradient,
            inverse_curvature,
        })
    };
    let first = evaluation(&start)?;
    let mut minimizer = Minimizer::new(start, first, 40);
    for _ in 0..most_steps {
        if !minimizer.step(&mut evaluation) {
            break;
        }
    }
    Some(minimizer.point)
}

/// The sum of vectors of this size, one after the other.
pub(crate) fn sum_in_order<'a>(size: usize, parts: impl IntoIterator<Item = &'a Vec<f64>>) -> Vec<f64> {
    let mut total = vec![0.0; size];
    for part in parts {
        add_scaled(&mut total, 1.0, part);
    }
    total
}
