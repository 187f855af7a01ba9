//! How much of the budget of all rounds the last iterate alone needs.

/// μ over that of one step, of the last of `rounds` iterates whose steps contract by c: shifted interpolation (Bok, Su and Altschuler
/// 2024, 2403.00278), for full batches
///
/// ```text
/// √((1 − c^t)/(1 + c^t)·(1 + c)/(1 − c)),
/// ```
///
/// which a quadratic attains, and for the same `batches` l in each of E passes, an example in one of them,
///
/// ```text
/// √(1 + c^{2l−2}·(1 − c²)/(1 − c^l)²·(1 − c^{l(E−1)})/(1 + c^{l(E−1)})).
/// ```
///
/// Without contraction, c = 1, these are √t and √(1 + (E − 1)/l).
pub(super) fn last_iterate_ratio(contraction: f64, batches: usize, rounds: usize) -> f64 {
    let batches = batches.max(1);
    let (passes, batches) = (rounds.div_ceil(batches) as f64, batches as f64);
    let log = contraction.ln();
    // (1 − c^n)/(1 − c) and (1 − c^n)/(1 + c^n)·(1 + c)/(1 − c).
    let series = |n: f64| if contraction < 1.0 { (n * log).exp_m1() / log.exp_m1() } else { n };
    let whole = |n: f64| series(n) * (1.0 + contraction) / (1.0 + (n * log).exp());
    if batches == 1.0 {
        return whole(passes).sqrt();
    }
    let power = ((2.0 * batches - 2.0) * log).exp();
    (1.0 + power * whole(batches * (passes - 1.0)) / series(batches).powi(2)).sqrt()
}
