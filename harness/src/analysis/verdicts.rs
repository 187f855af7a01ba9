//! Three verdicts with one rule: **holds** where the 95 % interval lies wholly inside what is said, **fails** where it lies wholly
//! outside, **open** otherwise; and Holm's correction for all that is decided at once.

use serde::Serialize;

use crate::estimates::Estimated;

const LEVEL: f64 = 0.95;

/// Verdict on a number or claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The interval lies wholly outside.
    Fails,
    /// Neither, or a rule leaves it open.
    Open,
    /// The interval lies wholly inside.
    Holds,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::Open => "open",
            Self::Holds => "holds",
        }
    }
}

/// The verdict on the statement that a number lies in [low, high], and the least α at which it stands; 1 where open.
pub(crate) fn decide(found: &Estimated, [low, high]: [f64; 2]) -> (Verdict, f64) {
    let half = found.half(LEVEL);
    let (least, most) = (found.value - half, found.value + half);
    let ends = [low, high].map(|end| if end.is_finite() { found.reaches(end) } else { 0.0 });
    if low <= least && most <= high {
        (Verdict::Holds, ends[0].max(ends[1]))
    } else if most < low || high < least {
        (Verdict::Fails, if found.value < low { ends[0] } else { ends[1] })
    } else {
        (Verdict::Open, 1.0)
    }
}

/// All of several statements: holds where all hold (the largest α), fails where one fails at a level that counts how many could (the smallest
/// α by their number), else open.
pub(crate) fn all(decided: &[(Verdict, f64)]) -> (Verdict, f64) {
    let of = |verdict: Verdict| decided.iter().filter(move |one| one.0 == verdict).map(|one| one.1);
    let verdict = decided.iter().map(|one| one.0).min().unwrap_or(Verdict::Open);
    match verdict {
        Verdict::Fails => {
            let level = of(verdict).fold(1.0, f64::min) * decided.len() as f64;
            if level <= 1.0 - LEVEL { (verdict, level) } else { (Verdict::Open, 1.0) }
        }
        Verdict::Holds => (verdict, of(verdict).fold(0.0, f64::max)),
        Verdict::Open => (verdict, 1.0),
    }
}

/// Holm's adjusted levels: of the k-th smallest of m the largest of (m − j + 1)·p_(j), j ≤ k.
pub(crate) fn holm(levels: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..levels.len()).collect();
    order.sort_by(|&a, &b| levels[a].total_cmp(&levels[b]));
    let (mut adjusted, mut most) = (vec![0.0; levels.len()], 0.0_f64);
    for (place, &index) in order.iter().enumerate() {
        most = most.max((levels.len() - place) as f64 * levels[index]).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimates::{Sample, difference, of_mean};
    use crate::statistics::Choices;

    fn found(value: f64, half: f64) -> Estimated {
        let one = Estimated { value, error: 1.0, freedom: 9.0, count: 10 };
        Estimated { error: half / one.half(LEVEL), ..one }
    }

    #[test]
    fn each_rule_turns_at_its_bound() {
        let inside = 1.0 - 1e-9;
        assert_eq!(decide(&found(0.0, inside), [-1.0, 1.0]).0, Verdict::Holds);
        assert_eq!(decide(&found(0.0, 1.0 + 1e-9), [-1.0, 1.0]).0, Verdict::Open);
        assert_eq!(decide(&found(2.0, inside), [-1.0, 1.0]).0, Verdict::Fails);
        assert_eq!(decide(&found(2.0, 1.0 + 1e-9), [-1.0, 1.0]).0, Verdict::Open);
        // The level of what just stands is 5 %.
        assert!((decide(&found(2.0, inside), [-1.0, 1.0]).1 - 0.05).abs() < 1e-6);
        assert!((decide(&found(1.0, inside), [0.0, f64::INFINITY]).1 - 0.05).abs() < 1e-6);
        // "At most 2, measured 2.46 ± 0.52" is open, not held.
        assert_eq!(decide(&found(2.46, 0.52), [f64::NEG_INFINITY, 2.0]).0, Verdict::Open);
        assert_eq!(decide(&found(1.98, 0.11), [f64::NEG_INFINITY, 2.0]).0, Verdict::Open);
        assert_eq!(decide(&found(1.88, 0.11), [f64::NEG_INFINITY, 2.0]).0, Verdict::Holds);
    }

    #[test]
    fn repeats_that_are_all_the_same_are_one_run() {
        let same: Sample = (0..10).map(|seed| ((0, seed), 120.0)).collect();
        let found = of_mean(&same);
        assert_eq!((found.count, found.error), (1, 0.0));
        assert_eq!(decide(&found, [136.0, 136.0]).0, Verdict::Fails);
        assert_eq!(decide(&found, [120.0, 120.0]).0, Verdict::Holds);
    }

    #[test]
    fn several_hold_together_and_fail_by_their_number() {
        use Verdict::{Fails, Holds, Open};
        assert_eq!(all(&[(Holds, 0.01), (Holds, 0.03)]), (Holds, 0.03));
        assert_eq!(all(&[(Holds, 0.01), (Open, 1.0)]), (Open, 1.0));
        assert_eq!(all(&[(Holds, 0.01), (Fails, 0.01), (Open, 1.0)]), (Fails, 0.03));
        // One of three that fails at 5 % by itself is to be expected of claims that are true at their bounds in one case of seven.
        assert_eq!(all(&[(Holds, 0.01), (Fails, 0.02), (Open, 1.0)]), (Open, 1.0));
    }

    #[test]
    fn holm_is_that_of_a_worked_example() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
    }

    #[test]
    fn pairs_find_what_independent_samples_do_not() {
        // Two methods on the same ten seeds, correlation 0.99, 0.05 apart.
        let mut choices = Choices::new(3);
        let draws: Vec<(f64, f64)> = (0..10).map(|_| (choices.normal(), choices.normal())).collect();
        let sample = |own: f64, shift: f64| -> Sample {
            (0..).zip(&draws).map(|(seed, (a, b))| ((0, seed), shift + 0.2 * (a + own * 0.14 * b))).collect()
        };
        let (one, other) = (sample(1.0, 0.05), sample(0.0, 0.0));
        let moved: Sample = other.iter().map(|((draw, seed), value)| ((*draw, seed + 100), *value)).collect();
        let above = [0.0, f64::INFINITY];
        assert_eq!(decide(&difference(&one, &other), above).0, Verdict::Holds);
        assert_eq!(decide(&difference(&one, &moved), above).0, Verdict::Open);
    }
}
