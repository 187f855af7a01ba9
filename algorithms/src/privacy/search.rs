//! One-dimensional search: minima of unimodal functions and roots of monotone ones.

/// 1/golden ratio.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// (argmin, min) of a unimodal `function` on [lower, upper] by golden sections, to `tolerance` in the argument.
///
/// +∞ is allowed on a right part of the interval; ties move left. The value is one the function really took, so for
/// an upper bound that holds at every argument the result is itself a valid bound.
pub(super) fn minimize(
    mut function: impl FnMut(f64) -> f64,
    mut lower: f64,
    mut upper: f64,
    tolerance: f64,
) -> (f64, f64) {
    let mut left = upper - GOLDEN * (upper - lower);
    let mut right = lower + GOLDEN * (upper - lower);
    let (mut at_left, mut at_right) = (function(left), function(right));
    while upper - lower > tolerance {
        if at_left <= at_right || at_right.is_nan() {
            upper = right;
            (right, at_right) = (left, at_left);
            left = upper - GOLDEN * (upper - lower);
            at_left = function(left);
        } else {
            lower = left;
            (left, at_left) = (right, at_right);
            right = lower + GOLDEN * (upper - lower);
            at_right = function(right);
        }
    }
    if at_left <= at_right { (left, at_left) } else { (right, at_right) }
}

/// The root of a continuous `function` that changes sign on [lower, upper], by Chandrupatla's method (inverse
/// quadratic interpolation guarded by bisection). Returns a bracket (at, opposite): the two ends have opposite signs
/// (or `at` is a root), |function(at)| is the smaller, and they are at most `tolerance`·|at| or a few ulp apart.
pub(super) fn bracket_root<E>(
    mut function: impl FnMut(f64) -> Result<f64, E>,
    lower: f64,
    upper: f64,
    tolerance: f64,
) -> Result<Bracket, E> {
    let (mut b, mut a) = (lower, upper);
    let (mut at_b, mut at_a) = (function(b)?, function(a)?);
    let (mut c, mut at_c);
    let mut fraction = 0.5;
    loop {
        if at_a == 0.0 || at_b == 0.0 {
            let (root, opposite) = if at_a == 0.0 { (a, b) } else { (b, a) };
            return Ok(Bracket { root, opposite, at_root: 0.0 });
        }
        let x = a + fraction * (b - a);
        let at_x = function(x)?;
        if (at_x > 0.0) == (at_a > 0.0) {
            (c, at_c) = (a, at_a);
        } else {
            (c, at_c) = (b, at_b);
            (b, at_b) = (a, at_a);
        }
        (a, at_a) = (x, at_x);
        let (root, opposite, at_root) = if at_a.abs() <= at_b.abs() { (a, b, at_a) } else { (b, a, at_b) };
        let width = (b - a).abs();
        let smallest = 2.0 * f64::EPSILON * root.abs() + 0.5 * tolerance * root.abs() + f64::MIN_POSITIVE;
        if at_root == 0.0 || width <= 2.0 * smallest {
            return Ok(Bracket { root, opposite, at_root });
        }
        let xi = (a - b) / (c - b);
        let phi = (at_a - at_b) / (at_c - at_b);
        fraction = if phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi {
            at_a / (at_b - at_a) * at_c / (at_b - at_c)
                + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        } else {
            0.5
        };
        let margin = smallest / width;
        fraction = if fraction.is_finite() { fraction.clamp(margin, 1.0 - margin) } else { 0.5 };
    }
}

/// The bracket of a root: `root`, the better end, and `opposite`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bracket {
    /// The end with the smaller |value|.
    pub(super) root: f64,
    /// The other end, of the other sign.
    pub(super) opposite: f64,
    /// The value at `root`.
    pub(super) at_root: f64,
}

/// The root alone, to a few ulp, of a function that cannot fail.
pub(super) fn root(mut function: impl FnMut(f64) -> f64, lower: f64, upper: f64) -> f64 {
    let Ok(bracket) = bracket_root(|x| Ok::<f64, std::convert::Infallible>(function(x)), lower, upper, 0.0);
    bracket.root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minima_are_found_beside_an_infinite_right_part() {
        let parabola = |x: f64| {
            if x > 3.0 { f64::INFINITY } else { (x - 1.25).powi(2) + 2.0 }
        };
        let (x, value) = minimize(parabola, -5.0, 9.0, 1e-9);
        assert!((x - 1.25).abs() < 1e-7 && (value - 2.0).abs() < 1e-14);
    }

    #[test]
    fn roots_are_found_to_the_last_digits_in_few_steps() {
        for target in [1e-9_f64, 0.3, 1.0, 7.5, 500.0] {
            let mut calls = 0;
            let excess = |x: f64| {
                calls += 1;
                x.sqrt() - target.sqrt()
            };
            let found = root(excess, 1e-12, 1e4);
            assert!((found / target - 1.0).abs() < 1e-15, "{found} {target}");
            assert!(calls < 70, "{calls} evaluations for {target}");
        }
        assert_eq!(root(|x| x, -1.0, 0.0), 0.0);
    }

    #[test]
    fn a_bracket_holds_the_root_between_its_ends() {
        let bracket = bracket_root(|x: f64| Ok::<_, ()>(x.ln()), 0.1, 20.0, 1e-6).unwrap();
        let (low, high) = (bracket.root.min(bracket.opposite), bracket.root.max(bracket.opposite));
        assert!(low <= 1.0 && 1.0 <= high && high - low < 2e-6);
    }
}
