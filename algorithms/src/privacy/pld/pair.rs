//! Pairs of distributions (P, Q) that dominate one step, described by their privacy loss ℓ = ln dP/dQ under P.

use super::super::{laplace, rdp};
use crate::normal::{density, gauss_legendre, survival};

/// A dominating pair. The coordinate y orders the outcomes by their loss; for the Gaussian pairs it is in units of the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pair {
    /// N(μ, 1) against N(0, 1): ℓ = μy + μ²/2 for y = outcome − μ ~ N(0, 1) under P.
    Gaussian { mu: f64 },
    /// (1 − q)·N(0, 1) + q·N(1/s, 1) against N(0, 1): ℓ = ln(1 − q + q·e^{y/s − 1/2s²}) > ln(1 − q).
    Remove { rate: f64, noise: f64 },
    /// N(0, 1) against the same mixture mirrored: ℓ = −ln(1 − q + q·e^{−y/s − 1/2s²}) < −ln(1 − q).
    Add { rate: f64, noise: f64 },
    /// (1 − q)·N(0, 1) + q·N(1/s, 1) against (1 − q)·N(0, 1) + q·N(−1/s, 1): ℓ is the loss of the first less that of the second.
    Replace { rate: f64, noise: f64 },
    /// Laplace(1) against Laplace(1) shifted by ε: atoms at ±ε, and y = ℓ in between with density e^{(ℓ−ε)/2}/4.
    Laplace { epsilon: f64 },
    /// (1 − q)·Laplace(1) + q·Laplace(1) shifted by ε against Laplace(1): ℓ = ln(1 − q + q·e^y), y the loss of the shift.
    LaplaceRemove { rate: f64, epsilon: f64 },
    /// Laplace(1) against that mixture, mirrored: ℓ = −ln(1 − q + q·e^{−y}).
    LaplaceAdd { rate: f64, epsilon: f64 },
    /// Randomised response, which dominates every ε-DP step: atoms at ±ε.
    Response { epsilon: f64 },
}

/// ln(1 − q + q·e^t).
fn log_mixture(rate: f64, t: f64) -> f64 {
    if t > 30.0 { t + rate.ln() + ((1.0 - rate) / rate * (-t).exp()).ln_1p() } else { (rate * t.exp_m1()).ln_1p() }
}

/// The t with ln(1 − q + q·e^t) = `loss`; −∞ at and below ln(1 − q).
fn inverse_log_mixture(rate: f64, loss: f64) -> f64 {
    if loss > 30.0 {
        loss - rate.ln() + (-(1.0 - rate) * (-loss).exp()).ln_1p()
    } else {
        let ratio = loss.exp_m1() / rate;
        if ratio <= -1.0 { f64::NEG_INFINITY } else { ratio.ln_1p() }
    }
}

impl Pair {
    /// ℓ(y), increasing.
    pub(super) fn loss(self, y: f64) -> f64 {
        match self {
            Self::Gaussian { mu } => mu * (y + 0.5 * mu),
            Self::Remove { rate, noise } => log_mixture(rate, (y - 0.5 / noise) / noise),
            Self::Add { rate, noise } => -log_mixture(rate, (-y - 0.5 / noise) / noise),
            Self::Replace { rate, noise } => {
                let part = |y: f64| log_mixture(rate, (y - 0.5 / noise) / noise);
                part(y) - part(-y)
            }
            Self::LaplaceRemove { rate, .. } => log_mixture(rate, y),
            Self::LaplaceAdd { rate, .. } => -log_mixture(rate, -y),
            Self::Laplace { .. } | Self::Response { .. } => y,
        }
    }

    /// The y with ℓ(y) = `loss`, ∓∞ beyond the range of ℓ.
    pub(super) fn coordinate(self, loss: f64) -> f64 {
        match self {
            Self::Gaussian { mu } => loss / mu - 0.5 * mu,
            Self::Remove { rate, noise } => noise * inverse_log_mixture(rate, loss) + 0.5 / noise,
            Self::Add { rate, noise } => -(noise * inverse_log_mixture(rate, -loss) + 0.5 / noise),
            // With z = e^{y/s} and c = q·e^{−1/2s²}, e^ℓ = (1 − q + c·z)/(1 − q + c/z): √(e^ℓ)·e^{asinh((1 − q)·sinh(ℓ/2)/c)} = z.
            Self::Replace { rate, noise } => {
                let half = 0.5 * loss.abs();
                let log_ratio = (-rate).ln_1p() - rate.ln() + 0.5 / (noise * noise);
                let log_sinh = if half > 20.0 { half - std::f64::consts::LN_2 } else { half.sinh().ln() };
                let log = log_ratio + log_sinh;
                let asinh = if log > 20.0 { log + std::f64::consts::LN_2 } else { log.exp().asinh() };
                loss.signum() * noise * (half + asinh)
            }
            Self::LaplaceRemove { rate, .. } => inverse_log_mixture(rate, loss),
            Self::LaplaceAdd { rate, .. } => -inverse_log_mixture(rate, -loss),
            Self::Laplace { .. } | Self::Response { .. } => loss,
        }
    }

    /// (density of P at y, 1 − e^{threshold − ℓ(y)}).
    ///
    /// The ratio form is the cheaper one; it loses digits where 1 − e^{threshold − ℓ} is as small as `span` below 1e-7.
    #[inline]
    fn density_and_excess(self, y: f64, threshold: f64, exp_threshold: f64, span: f64) -> (f64, f64) {
        let direct = span > 1e-7 && threshold.abs() < 300.0;
        match self {
            Self::Gaussian { .. } => (density(y), -(threshold - self.loss(y)).exp_m1()),
            Self::Remove { rate, noise } => {
                let t = (y - 0.5 / noise) / noise;
                // Beyond 37 the density of N(0, 1) underflows, and the shifted part of the mixture may not.
                if direct && t.abs() < 300.0 && y.abs() < 37.0 {
                    let ratio = 1.0 - rate + rate * t.exp();
                    (density(y) * ratio, 1.0 - exp_threshold / ratio)
                } else {
                    let mixture = (1.0 - rate) * density(y) + rate * density(y - 1.0 / noise);
                    (mixture, -(threshold - self.loss(y)).exp_m1())
                }
            }
            Self::Add { rate, noise } => {
                let t = (-y - 0.5 / noise) / noise;
                if direct && t.abs() < 300.0 {
                    (density(y), 1.0 - exp_threshold * (1.0 - rate + rate * t.exp()))
                } else {
                    (density(y), -(threshold - self.loss(y)).exp_m1())
                }
            }
            Self::Replace { rate, noise } => {
                let mixture = (1.0 - rate) * density(y) + rate * density(y - 1.0 / noise);
                (mixture, -(threshold - self.loss(y)).exp_m1())
            }
            Self::Laplace { epsilon } => (0.25 * (0.5 * (y - epsilon)).exp(), -(threshold - y).exp_m1()),
            Self::LaplaceRemove { rate, epsilon } => {
                let mixture = (1.0 - rate) * (-0.5 * (y + epsilon)).exp() + rate * (0.5 * (y - epsilon)).exp();
                (0.25 * mixture, -(threshold - self.loss(y)).exp_m1())
            }
            Self::LaplaceAdd { epsilon, .. } => {
                (0.25 * (0.5 * (y - epsilon)).exp(), -(threshold - self.loss(y)).exp_m1())
            }
            Self::Response { .. } => (0.0, 0.0),
        }
    }

    /// (∫ dP, ∫ (1 − e^{threshold − ℓ}) dP) over from < y ≤ to, where ℓ rises by at most `span`, by Gauss–Legendre panels of at
    /// most 0.05 in y and 0.25 in ℓ (two nodes in very narrow intervals, else three): relative error below 1e-10 within 5
    /// standard deviations, 1e-7 at 10.
    pub(super) fn integrals(self, from: f64, to: f64, threshold: f64, span: f64) -> (f64, f64) {
        /// √(3/5), the outer nodes of the three-point rule.
        const OUTER: f64 = 0.774_596_669_241_483_4;
        /// 1/√3, the nodes of the two-point rule.
        const INNER: f64 = 0.577_350_269_189_625_8;
        let width = to - from;
        if width.is_nan() || width <= 0.0 {
            return (0.0, 0.0);
        }
        let exp_threshold = threshold.exp();
        let node = |y: f64| self.density_and_excess(y, threshold, exp_threshold, span);
        if width < 2e-3 && span < 2e-2 {
            let (middle, half) = (0.5 * (from + to), 0.5 * width);
            let (low, low_excess) = node(middle - INNER * half);
            let (high, high_excess) = node(middle + INNER * half);
            return (half * (low + high), half * (low * low_excess + high * high_excess));
        }
        let panels = (width / 0.05).max(span / 0.25).ceil();
        let half = 0.5 * width / panels;
        let (mut mass, mut excess) = (0.0, 0.0);
        for panel in 0..panels as usize {
            let middle = from + half * (2 * panel + 1) as f64;
            for (offset, weight) in [(-OUTER, 5.0 / 9.0), (0.0, 8.0 / 9.0), (OUTER, 5.0 / 9.0)] {
                let (density, part) = node(middle + offset * half);
                mass += half * weight * density;
                excess += half * weight * density * part;
            }
        }
        (mass, excess)
    }

    /// (1 − e^{threshold − ℓ(y)}) times the density of P at y.
    pub(super) fn balance_slope(self, y: f64, threshold: f64) -> f64 {
        let (density, excess) = self.density_and_excess(y, threshold, threshold.exp(), 0.0);
        density * excess
    }

    /// P(y > bound) of the continuous part.
    pub(super) fn mass_above(self, bound: f64) -> f64 {
        match self {
            Self::Gaussian { .. } | Self::Add { .. } => survival(bound),
            Self::Remove { rate, noise } | Self::Replace { rate, noise } => {
                (1.0 - rate) * survival(bound) + rate * survival(bound - 1.0 / noise)
            }
            Self::Laplace { epsilon } | Self::LaplaceAdd { epsilon, .. } => {
                let bound = bound.clamp(-epsilon, epsilon);
                -0.5 * (0.5 * (bound - epsilon)).exp_m1()
            }
            Self::LaplaceRemove { rate, epsilon } => {
                let shifted = Self::Laplace { epsilon };
                (1.0 - rate) * shifted.mass_below(-bound) + rate * shifted.mass_above(bound)
            }
            Self::Response { .. } => 0.0,
        }
    }

    /// P(y < bound) of the continuous part.
    pub(super) fn mass_below(self, bound: f64) -> f64 {
        match self {
            Self::Gaussian { .. } | Self::Add { .. } => survival(-bound),
            Self::Remove { rate, noise } | Self::Replace { rate, noise } => {
                (1.0 - rate) * survival(-bound) + rate * survival(1.0 / noise - bound)
            }
            Self::LaplaceRemove { rate, epsilon } => {
                let shifted = Self::Laplace { epsilon };
                (1.0 - rate) * shifted.mass_above(-bound) + rate * shifted.mass_below(bound)
            }
            Self::Laplace { epsilon } | Self::LaplaceAdd { epsilon, .. } => {
                let bound = bound.clamp(-epsilon, epsilon);
                0.5 * (-epsilon).exp() * (0.5 * (bound + epsilon)).exp_m1()
            }
            Self::Response { .. } => 0.0,
        }
    }

    /// y-range outside which P has at most `lower` and `upper` mass (the whole range for bounded losses).
    pub(super) fn range(self, lower: f64, upper: f64) -> (f64, f64) {
        // P(N(0,1) > z) ≤ e^{−z²/2}/2.
        let quantile = |tail: f64| (-2.0 * (2.0 * tail).clamp(1e-320, 1.0).ln()).sqrt();
        match self {
            Self::Gaussian { .. } | Self::Add { .. } => (-quantile(lower), quantile(upper)),
            Self::Remove { rate, noise } | Self::Replace { rate, noise } => {
                let far = 1.0 / noise + quantile(0.5 * upper / rate);
                (-quantile(lower), quantile(0.5 * upper).max(far))
            }
            Self::Laplace { epsilon } | Self::LaplaceRemove { epsilon, .. } | Self::LaplaceAdd { epsilon, .. } => {
                (-epsilon, epsilon)
            }
            Self::Response { .. } => (0.0, 0.0),
        }
    }

    /// The largest loss of a pure pair, its ε; it has mass there.
    pub(super) fn largest_atom(self) -> Option<f64> {
        self.atoms().last().map(|&(loss, _)| loss)
    }

    /// (loss, mass) of the atoms, ascending.
    pub(super) fn atoms(self) -> Vec<(f64, f64)> {
        match self {
            Self::Gaussian { .. } | Self::Remove { .. } | Self::Add { .. } | Self::Replace { .. } => Vec::new(),
            Self::Laplace { epsilon } | Self::LaplaceAdd { epsilon, .. } => {
                vec![(self.loss(-epsilon), 0.5 * (-epsilon).exp()), (self.loss(epsilon), 0.5)]
            }
            Self::LaplaceRemove { rate, epsilon } => [-epsilon, epsilon]
                .map(|end| {
                    let (shifted, other) = if end > 0.0 { (rate, 1.0 - rate) } else { (1.0 - rate, rate) };
                    (self.loss(end), 0.5 * (shifted + other * (-epsilon).exp()))
                })
                .to_vec(),
            Self::Response { epsilon } => {
                let keep = 1.0 / (1.0 + (-epsilon).exp());
                vec![(-epsilon, keep * (-epsilon).exp()), (epsilon, keep)]
            }
        }
    }

    /// A pair that this one dominates, whose atoms lie on the grid of spacing `interval`.
    pub(super) fn rounded_down(self, interval: f64) -> Self {
        // A hair of slack keeps an epsilon that is a multiple of the interval where it is.
        let round = |epsilon: f64| (epsilon / interval * (1.0 + 1e-12)).floor() * interval;
        match self {
            Self::Laplace { epsilon } => Self::Laplace { epsilon: round(epsilon).min(epsilon) },
            Self::Response { epsilon } => Self::Response { epsilon: round(epsilon).min(epsilon) },
            other => other,
        }
    }

    /// K(λ) = ln E_P[e^{λℓ}], the cumulant function, for λ ≥ 0; an upper bound where it would be costly.
    pub(super) fn cumulant(self, lambda: f64) -> f64 {
        if lambda == 0.0 {
            return 0.0;
        }
        let order = lambda + 1.0;
        match self {
            Self::Gaussian { mu } => lambda * rdp::gaussian(order, mu),
            Self::Remove { rate, noise } => rdp::removal_cumulant(lambda, rate, noise),
            Self::Add { rate, noise } => rdp::addition_cumulant(lambda, rate, noise),
            // By joint convexity: two parts of one weight are 2/s apart.
            Self::Replace { rate, noise } => {
                let apart = lambda * rdp::gaussian(order, 2.0 / noise);
                if apart > 700.0 { apart + rate.ln() + 1.0 } else { (rate * apart.exp_m1()).ln_1p() }
            }
            Self::Laplace { epsilon } => lambda * rdp::laplace(order, epsilon),
            // Above that of the mixture.
            Self::LaplaceRemove { rate, epsilon } | Self::LaplaceAdd { rate, epsilon } => {
                lambda * rdp::randomized_response(order, laplace::amplified_epsilon(epsilon, rate))
            }
            Self::Response { epsilon } => lambda * rdp::randomized_response(order, epsilon),
        }
    }
}

/// Losses of a pair at quadrature nodes, with their masses: the cumulant function in microseconds, of the pair as truncated.
/// Sizes grids and windows; no bound rests on it.
#[derive(Debug)]
pub(super) struct Sample {
    losses: Vec<f64>,
    log_masses: Vec<f64>,
}

impl Sample {
    /// Nodes over the y-range that leaves `lower` and `upper` mass outside.
    pub(super) fn new(pair: Pair, lower: f64, upper: f64) -> Self {
        const MOST_PANELS: f64 = 2000.0;
        let (low, high) = pair.range(lower, upper);
        let panels = ((high - low) / 0.25).ceil().min(MOST_PANELS);
        let half = 0.5 * (high - low) / panels;
        let mut sample = Self { losses: Vec::new(), log_masses: Vec::new() };
        let rule = gauss_legendre::<4>();
        for panel in 0..panels as usize {
            let middle = low + half * (2 * panel + 1) as f64;
            for (node, weight) in rule {
                let y = middle + half * node;
                let (density, _) = pair.density_and_excess(y, 0.0, 1.0, 0.0);
                sample.push(pair.loss(y), half * weight * density);
            }
        }
        for (loss, mass) in pair.atoms() {
            sample.push(loss, mass);
        }
        sample
    }

    /// These (loss, mass) in the order of their losses, those in one of 4,096 parts of their range put together.
    pub(super) fn of(atoms: &[(f64, f64)]) -> Self {
        let mut sample = Self { losses: Vec::new(), log_masses: Vec::new() };
        let ends = [atoms.first(), atoms.last()].map(|atom| atom.map_or(0.0, |(loss, _)| *loss));
        let width = (ends[1] - ends[0]).abs() / 4096.0;
        for group in atoms.chunk_by(|(left, _), (right, _)| (left / width).floor() == (right / width).floor()) {
            let mass: f64 = group.iter().map(|(_, mass)| mass).sum();
            let moment: f64 = group.iter().map(|(loss, mass)| loss * mass).sum();
            sample.push(moment / mass, mass);
        }
        sample
    }

    /// The nodes of both, those of `other` with this share.
    pub(super) fn mixed(mut self, other: &Self, share: f64) -> Self {
        self.log_masses.iter_mut().for_each(|log_mass| *log_mass += (-share).ln_1p());
        self.losses.extend(&other.losses);
        self.log_masses.extend(other.log_masses.iter().map(|log_mass| log_mass + share.ln()));
        self
    }

    fn push(&mut self, loss: f64, mass: f64) {
        if mass > 0.0 {
            self.losses.push(loss);
            self.log_masses.push(mass.ln());
        }
    }

    /// ln Σ mass·e^{λℓ}.
    pub(super) fn cumulant(&self, lambda: f64) -> f64 {
        let nodes = self.losses.iter().zip(&self.log_masses);
        let exponents = || nodes.clone().map(|(loss, log_mass)| lambda * loss + log_mass);
        let largest = exponents().fold(f64::NEG_INFINITY, f64::max);
        largest + exponents().map(|exponent| (exponent - largest).exp()).sum::<f64>().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: [Pair; 11] = [
        Pair::Gaussian { mu: 0.7 },
        Pair::Gaussian { mu: 30.0 },
        Pair::Remove { rate: 0.01, noise: 1.1 },
        Pair::Remove { rate: 0.5, noise: 0.2 },
        Pair::Add { rate: 0.01, noise: 1.1 },
        Pair::Add { rate: 0.5, noise: 0.2 },
        Pair::Replace { rate: 0.1, noise: 0.7 },
        Pair::Laplace { epsilon: 1.3 },
        Pair::LaplaceRemove { rate: 0.2, epsilon: 1.3 },
        Pair::LaplaceAdd { rate: 0.2, epsilon: 1.3 },
        Pair::Response { epsilon: 0.4 },
    ];

    #[test]
    fn coordinates_invert_losses() {
        for pair in PAIRS {
            for y in [-3.0, -0.4, 0.0, 1.0, 2.5] {
                let loss = pair.loss(y);
                let back = pair.loss(pair.coordinate(loss));
                let close = (back - loss).abs() <= 1e-12 * (1.0 + loss.abs());
                assert!(close, "{pair:?} {y}: {loss} {back}");
            }
        }
        let (rate, noise) = (0.1, 1.0);
        assert_eq!(Pair::Remove { rate, noise }.coordinate(-1.0), f64::NEG_INFINITY);
        assert_eq!(Pair::Add { rate, noise }.coordinate(1.0), f64::INFINITY);
    }

    #[test]
    fn masses_add_up_to_one_and_the_other_side_of_the_pair_is_a_distribution() {
        for pair in PAIRS {
            // Far enough down to hold all of Q as well.
            let (low, high) = pair.range(1e-300, 1e-18);
            let (mass, excess) = pair.integrals(low, high, 0.0, pair.loss(high) - pair.loss(low));
            let atoms: f64 = pair.atoms().iter().map(|(_, mass)| mass).sum();
            let total = mass + atoms + pair.mass_below(low) + pair.mass_above(high);
            assert!((total - 1.0).abs() < 1e-9, "{pair:?}: {total}");
            // E_P[e^{−ℓ}] = Q(everything) = 1: the excess at threshold 0 is E_P[1 − e^{−ℓ}] = 0.
            let atoms: f64 = pair.atoms().iter().map(|(loss, mass)| mass * -(-loss).exp_m1()).sum();
            assert!((excess + atoms).abs() < 1e-8, "{pair:?}: {}", excess + atoms);
        }
    }

    #[test]
    fn cumulants_are_those_of_the_loss() {
        for pair in PAIRS {
            for lambda in [0.3, 1.0, 2.5] {
                let (low, high) = pair.range(1e-30, 1e-30);
                let is_mixed = matches!(pair, Pair::LaplaceRemove { .. } | Pair::LaplaceAdd { .. });
                let is_bounded = is_mixed || matches!(pair, Pair::Laplace { .. });
                let high = if is_bounded { high } else { high + 20.0 };
                let steps = 40_000;
                let width = (high - low) / f64::from(steps);
                let continuous: f64 = (0..steps)
                    .map(|step| {
                        let y = low + width * (f64::from(step) + 0.5);
                        let (density, _) = pair.density_and_excess(y, 0.0, 1.0, 0.0);
                        (density.ln() + lambda * pair.loss(y)).exp() * width
                    })
                    .sum();
                let atoms = pair.atoms();
                let atoms: f64 = atoms.iter().map(|(loss, mass)| mass * (lambda * loss).exp()).sum();
                let expected = (continuous + atoms).ln();
                let found = pair.cumulant(lambda);
                let is_bound = is_mixed || matches!(pair, Pair::Replace { .. });
                let above = if is_bound { f64::INFINITY } else { 1e-6 * (1.0 + expected) };
                let close = !expected.is_finite() || (-1e-6 * (1.0 + expected)..above).contains(&(found - expected));
                assert!(close, "{pair:?} {lambda}: {found} {expected}");
            }
        }
    }
}
