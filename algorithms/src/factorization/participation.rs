//! Participation: in which rounds one example may take part, and what that makes of the sensitivity of C.
//!
//! An example that takes part in the rounds π, with a unit-norm change each time, moves C·G by at most
//! sup ‖Σ_{i∈π} C_{:,i} g_iᵀ‖_F, whose square is at most Σ_{i,i'∈π} |X_{ii'}| with X = Cᵀ·C. Equality holds when one sign
//! vector s makes every s_i s_{i'} X_{ii'} non-negative: then contributions ±g attain it. Every value here says whether
//! it is attained ([`Exactness::Exact`]) or only a bound.

use super::error::FactorizationError;

/// In which rounds (from 0 to T − 1) one example may take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participation {
    /// In one round.
    Single,
    /// (k, b)-fixed-epoch participation: in rounds j, j + b, …, j + (k − 1)·b for one j < b, with b = ⌈T/k⌉ rounds an
    /// epoch [000 Algorithm 2]. Where k does not divide T the last epoch is shorter.
    FixedEpoch {
        /// k.
        epochs: usize,
    },
    /// In at most k rounds, any two of which are at least b apart.
    MinimumSeparation {
        /// k.
        participations: usize,
        /// b ≥ 1: i and i' may both be used when |i − i'| ≥ b.
        separation: usize,
    },
}

/// Whether a sensitivity is attained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// Some change of one example's contributions attains the value.
    Exact,
    /// No change exceeds the value; it may not be attained.
    UpperBound,
}

/// sens(C) under a participation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensitivity {
    /// The largest ‖C·ΔG‖_F.
    pub value: f64,
    /// Whether it is attained.
    pub exactness: Exactness,
    /// Why, in a sentence.
    pub reason: &'static str,
}

impl Participation {
    /// Fixed-epoch participation, or the single one where k = 1.
    pub fn epochs(epochs: usize) -> Self {
        if epochs == 1 {
            Self::Single
        } else {
            Self::FixedEpoch { epochs }
        }
    }

    /// Checks the participation against the number of rounds.
    ///
    /// # Errors
    ///
    /// No rounds, no participation, a separation of 0, or more participations than rounds hold.
    pub fn check(&self, rounds: usize) -> Result<(), FactorizationError> {
        if rounds == 0 {
            return Err(FactorizationError::NoRounds);
        }
        let positive = |name, value| {
            if value == 0 {
                Err(FactorizationError::InvalidParameter {
                    name,
                    value: 0.0,
                    expected: "at least 1",
                })
            } else {
                Ok(())
            }
        };
        match *self {
            Self::Single => Ok(()),
            Self::FixedEpoch { epochs } => {
                positive("epochs", epochs)?;
                if epochs > rounds {
                    return Err(FactorizationError::MoreEpochsThanRounds { epochs, rounds });
                }
                Ok(())
            }
            Self::MinimumSeparation {
                participations,
                separation,
            } => {
                positive("participations", participations)?;
                positive("separation", separation)
            }
        }
    }

    /// k, the most rounds one example takes part in.
    pub fn participations(&self, rounds: usize) -> usize {
        match *self {
            Self::Single => 1,
            Self::FixedEpoch { epochs } => epochs.min(rounds),
            Self::MinimumSeparation {
                participations,
                separation,
            } => participations.min(rounds.saturating_sub(1) / separation.max(1) + 1),
        }
    }

    /// b, the least number of rounds between two participations of one example; T where there is only one.
    pub fn separation(&self, rounds: usize) -> usize {
        match *self {
            Self::Single => rounds,
            Self::FixedEpoch { epochs } => rounds.div_ceil(epochs.max(1)),
            Self::MinimumSeparation { participations: 1, .. } => rounds,
            Self::MinimumSeparation { separation, .. } => separation,
        }
    }

    /// The patterns π of single and fixed-epoch participation, b of them; `None` for the minimum separation, whose
    /// patterns are too many to list.
    pub(crate) fn patterns(&self, rounds: usize) -> Option<Vec<Vec<usize>>> {
        match self {
            Self::Single => Some((0..rounds).map(|round| vec![round]).collect()),
            Self::FixedEpoch { .. } => {
                let separation = self.separation(rounds);
                Some(
                    (0..separation)
                        .map(|start| (start..rounds).step_by(separation).collect())
                        .collect(),
                )
            }
            Self::MinimumSeparation { .. } => None,
        }
    }

    /// A text for people and for cache keys.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Single => "single participation".to_owned(),
            Self::FixedEpoch { epochs } => format!("fixed-epoch participation, {epochs} epochs"),
            Self::MinimumSeparation {
                participations,
                separation,
            } => {
                format!("at most {participations} participations, at least {separation} rounds apart")
            }
        }
    }
}

/// sens(C) from the Gram matrix X = Cᵀ·C, given entry by entry.
///
/// Single and fixed-epoch: max over patterns of Σ |X_{ii'}|, exact where signs attain it. Minimum separation: the dynamic
/// programme of [specification 3.4], exact where entries b or more apart vanish (banded C), else an upper bound, unless
/// the pattern it finds attains it.
///
/// # Errors
///
/// Those of [`Participation::check`].
pub fn gram_sensitivity(
    rounds: usize,
    gram: impl Fn(usize, usize) -> f64,
    participation: &Participation,
) -> Result<Sensitivity, FactorizationError> {
    participation.check(rounds)?;
    if let Some(patterns) = participation.patterns(rounds) {
        let mut largest = (0.0, 0);
        for (index, pattern) in patterns.iter().enumerate() {
            let bound = pattern_bound(pattern, &gram);
            if bound > largest.0 {
                largest = (bound, index);
            }
        }
        return Ok(if *participation == Participation::Single {
            exact(largest.0, "the largest column norm: an example takes part once")
        } else if patterns[largest.1].iter().map(|&round| gram(round, round)).sum::<f64>() >= largest.0 * (1.0 - 1e-12)
        {
            // The mean over all sign vectors is the sum of the squared norms, so some sign vector attains it.
            exact(largest.0, "columns of the worst pattern are orthogonal to within 1e-12")
        } else if signs_attain(&patterns[largest.1], &gram) {
            exact(
                largest.0,
                "contributions of aligned signs attain the largest pattern sum of |CᵀC|",
            )
        } else {
            bound(largest.0, "the largest pattern sum of |CᵀC|, whose signs conflict")
        });
    }
    let (participations, separation) = (participation.participations(rounds), participation.separation(rounds));
    let diagonal: Vec<f64> = (0..rounds).map(|round| gram(round, round)).collect();
    let orthogonal = (0..rounds).all(|row| (row + separation..rounds).all(|column| gram(row, column) == 0.0));
    if orthogonal {
        let (value, _) = best_separated_sum(&diagonal, participations, separation);
        return Ok(exact(
            value,
            "columns that can be used together are orthogonal: C has at most b bands",
        ));
    }
    let row_largest: Vec<f64> = (0..rounds)
        .map(|row| {
            let magnitudes: Vec<f64> = (0..rounds).map(|column| gram(row, column).abs()).collect();
            magnitudes[row] + best_sum_around(&magnitudes, row, participations - 1, separation)
        })
        .collect();
    let (value, pattern) = best_separated_sum(&row_largest, participations, separation);
    let attained = pattern_bound(&pattern, &gram);
    Ok(if signs_attain(&pattern, &gram) && attained >= value * (1.0 - 1e-12) {
        exact(value, "the pattern found by the dynamic programme attains its bound")
    } else {
        bound(value, "the dynamic programme over row sums of |CᵀC|")
    })
}

/// sens(C) of a lower-triangular Toeplitz C with the coefficients c_0, c_1, …
///
/// Single participation: ‖first column‖, exact. Non-negative and non-increasing coefficients: every participation is
/// worst when it starts at round 0 and comes back as early as it may, ‖Σ_e C_{:,eb}‖, exact [Kalinin & Lampert 2024,
/// Theorem 2]. Otherwise by the Gram matrix.
///
/// # Errors
///
/// Those of [`Participation::check`].
pub fn toeplitz_sensitivity(
    coefficients: &[f64],
    participation: &Participation,
) -> Result<Sensitivity, FactorizationError> {
    let rounds = coefficients.len();
    participation.check(rounds)?;
    let participations = participation.participations(rounds);
    if participations == 1 {
        return Ok(exact(
            coefficients.iter().map(|value| value * value).sum(),
            "the norm of the first column, the longest of a Toeplitz matrix",
        ));
    }
    let monotone = coefficients.windows(2).all(|pair| pair[0] >= pair[1]) && coefficients[rounds - 1] >= 0.0;
    if monotone {
        let separation = participation.separation(rounds);
        let mut sum = vec![0.0; rounds];
        for start in (0..participations).map(|epoch| epoch * separation) {
            for (value, coefficient) in sum[start.min(rounds)..].iter_mut().zip(coefficients) {
                *value += coefficient;
            }
        }
        return Ok(exact(
            sum.iter().map(|value| value * value).sum(),
            "coefficients are non-negative and non-increasing: the earliest pattern is the worst",
        ));
    }
    let gram = toeplitz_gram(coefficients);
    gram_sensitivity(
        rounds,
        |row, column| gram[row.max(column) * rounds + row.min(column)],
        participation,
    )
}

/// The lower triangle, by rows, of CᵀC for a Toeplitz C: X_{ij} = X_{i+1,j+1} + c_{T−1−i}·c_{T−1−j}.
fn toeplitz_gram(coefficients: &[f64]) -> Vec<f64> {
    let rounds = coefficients.len();
    let mut gram = vec![0.0; rounds * rounds];
    for row in (0..rounds).rev() {
        for column in 0..=row {
            let next = if row + 1 < rounds {
                gram[(row + 1) * rounds + column + 1]
            } else {
                0.0
            };
            gram[row * rounds + column] = next + coefficients[rounds - 1 - row] * coefficients[rounds - 1 - column];
        }
    }
    gram
}

pub(crate) fn exact(squared: f64, reason: &'static str) -> Sensitivity {
    Sensitivity {
        value: squared.sqrt(),
        exactness: Exactness::Exact,
        reason,
    }
}

pub(crate) fn bound(squared: f64, reason: &'static str) -> Sensitivity {
    Sensitivity {
        value: squared.sqrt(),
        exactness: Exactness::UpperBound,
        reason,
    }
}

/// Σ_{i,i'∈π} |X_{ii'}|.
fn pattern_bound(pattern: &[usize], gram: &impl Fn(usize, usize) -> f64) -> f64 {
    let mut sum = 0.0;
    for (index, &row) in pattern.iter().enumerate() {
        sum += gram(row, row);
        for &column in &pattern[..index] {
            sum += 2.0 * gram(row, column).abs();
        }
    }
    sum
}

/// Whether one sign vector makes all s_i s_{i'} X_{ii'} ≥ 0: a two-colouring of the graph of non-zero entries.
fn signs_attain(pattern: &[usize], gram: &impl Fn(usize, usize) -> f64) -> bool {
    let mut signs = vec![0.0_f64; pattern.len()];
    let mut pending = Vec::new();
    for start in 0..pattern.len() {
        if signs[start] != 0.0 {
            continue;
        }
        signs[start] = 1.0;
        pending.push(start);
        while let Some(current) = pending.pop() {
            for other in 0..pattern.len() {
                let entry = if other == current {
                    0.0
                } else {
                    gram(pattern[current], pattern[other])
                };
                if entry == 0.0 {
                    continue;
                }
                let wanted = signs[current] * entry.signum();
                if signs[other] == 0.0 {
                    signs[other] = wanted;
                    pending.push(other);
                } else if signs[other] != wanted {
                    return false;
                }
            }
        }
    }
    true
}

/// max Σ_{i∈π} x_i over at most k indices at least b apart, and one π that attains it:
/// F[i, k] = max(x_i + F[i + b, k − 1], F[i + 1, k]).
fn best_separated_sum(values: &[f64], participations: usize, separation: usize) -> (f64, Vec<usize>) {
    let table = separated_sums(values, participations, separation);
    let at = |start: usize, count: usize| table[count][start.min(values.len())];
    let (mut pattern, mut start, mut left) = (Vec::new(), 0, participations);
    while left > 0 && start < values.len() {
        if values[start] + at(start + separation, left - 1) >= at(start + 1, left) && values[start] > 0.0 {
            pattern.push(start);
            start += separation;
            left -= 1;
        } else {
            start += 1;
        }
    }
    (at(0, participations), pattern)
}

/// The table `[k][i]` of best sums from index i on with at most k indices.
fn separated_sums(values: &[f64], participations: usize, separation: usize) -> Vec<Vec<f64>> {
    let mut table = vec![vec![0.0; values.len() + 1]; participations + 1];
    for count in 1..=participations {
        for start in (0..values.len()).rev() {
            let taken = values[start] + table[count - 1][(start + separation).min(values.len())];
            table[count][start] = taken.max(table[count][start + 1]);
        }
    }
    table
}

/// The largest sum of at most `others` values, at least b apart, none closer than b to `centre`.
fn best_sum_around(values: &[f64], centre: usize, others: usize, separation: usize) -> f64 {
    if others == 0 {
        return 0.0;
    }
    let right = values.get(centre + separation..).unwrap_or(&[]);
    let mut left: Vec<f64> = if centre >= separation {
        values[..=centre - separation].to_vec()
    } else {
        Vec::new()
    };
    left.reverse();
    let after = separated_sums(right, others, separation);
    let before = separated_sums(&left, others, separation);
    (0..=others)
        .map(|count| after[count][0] + before[others - count][0])
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// max over the patterns and all sign vectors of ‖Σ ± C_{:,i}‖².
    fn brute_force(matrix: &[Vec<f64>], patterns: &[Vec<usize>]) -> f64 {
        let mut largest: f64 = 0.0;
        for pattern in patterns {
            for signs in 0..1_u32 << pattern.len() {
                let norm: f64 = matrix
                    .iter()
                    .map(|row| {
                        let sum: f64 = pattern
                            .iter()
                            .enumerate()
                            .map(|(bit, &column)| {
                                if signs >> bit & 1 == 1 {
                                    -row[column]
                                } else {
                                    row[column]
                                }
                            })
                            .sum();
                        sum * sum
                    })
                    .sum();
                largest = largest.max(norm);
            }
        }
        largest.sqrt()
    }

    fn separated_patterns(rounds: usize, participations: usize, separation: usize) -> Vec<Vec<usize>> {
        (0..1_u32 << rounds)
            .map(|mask| (0..rounds).filter(|round| mask >> round & 1 == 1).collect::<Vec<_>>())
            .filter(|pattern| {
                pattern.len() <= participations && pattern.windows(2).all(|pair| pair[1] - pair[0] >= separation)
            })
            .collect()
    }

    fn gram_of(matrix: &[Vec<f64>]) -> impl Fn(usize, usize) -> f64 + '_ {
        |row, column| matrix.iter().map(|line| line[row] * line[column]).sum()
    }

    /// A small linear congruential sequence in [−1, 1], enough to vary test matrices.
    fn sequence(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        }
    }

    #[test]
    fn sensitivities_cover_every_sign_pattern_and_are_attained_where_called_exact() {
        let mut exact_seen = 0;
        for seed in 0..60 {
            let mut next = sequence(seed);
            let rounds = 4 + (seed as usize % 6);
            let shift = if seed % 3 == 0 { 1.0 } else { 0.0 };
            let matrix: Vec<Vec<f64>> = (0..rounds)
                .map(|row| {
                    (0..rounds)
                        .map(|column| if column <= row { next() + shift } else { 0.0 })
                        .collect()
                })
                .collect();
            for participation in [
                Participation::Single,
                Participation::FixedEpoch { epochs: 2 },
                Participation::FixedEpoch { epochs: 3 },
                Participation::MinimumSeparation {
                    participations: 2,
                    separation: 2,
                },
                Participation::MinimumSeparation {
                    participations: 3,
                    separation: 1,
                },
            ] {
                let patterns = participation.patterns(rounds).unwrap_or_else(|| {
                    separated_patterns(
                        rounds,
                        participation.participations(rounds),
                        participation.separation(rounds),
                    )
                });
                let found = gram_sensitivity(rounds, gram_of(&matrix), &participation).unwrap();
                let attained = brute_force(&matrix, &patterns);
                assert!(
                    found.value >= attained * (1.0 - 1e-12),
                    "{participation:?} {seed}: {found:?} < {attained}"
                );
                if found.exactness == Exactness::Exact {
                    exact_seen += 1;
                    assert!(
                        (found.value - attained).abs() < 1e-9 * attained,
                        "{participation:?}: {found:?} {attained}"
                    );
                }
            }
        }
        assert!(exact_seen > 100, "{exact_seen}");
    }

    #[test]
    fn banded_matrix_has_the_reference_sensitivities() {
        let matrix = [
            vec![1.0, 0.0, 0.0, 0.0],
            vec![2.0, 1.0, 0.0, 0.0],
            vec![0.0, 1.0, 1.0, 0.0],
            vec![0.0, 0.0, 1.0, -6.0],
        ];
        let sensitivity = |participation| gram_sensitivity(4, gram_of(&matrix), &participation).unwrap();
        assert_eq!(sensitivity(Participation::Single).value, 6.0);
        for separation in [2, 3] {
            let found = sensitivity(Participation::MinimumSeparation {
                participations: 4,
                separation,
            });
            assert!((found.value - 41.0_f64.sqrt()).abs() < 1e-14, "{found:?}");
            assert_eq!(found.exactness, Exactness::Exact);
        }
    }

    #[test]
    fn toeplitz_closed_form_is_the_worst_of_all_patterns() {
        for rounds in [5_usize, 8, 11] {
            let coefficients: Vec<f64> = (0..rounds).map(|lag| 1.0 / (1.0 + lag as f64).sqrt()).collect();
            let matrix: Vec<Vec<f64>> = (0..rounds)
                .map(|row| {
                    (0..rounds)
                        .map(|column| if column <= row { coefficients[row - column] } else { 0.0 })
                        .collect()
                })
                .collect();
            for (participations, separation) in [(1, 1), (2, 2), (3, 3), (4, 1)] {
                let participation = Participation::MinimumSeparation {
                    participations,
                    separation,
                };
                let found = toeplitz_sensitivity(&coefficients, &participation).unwrap();
                let attained = brute_force(&matrix, &separated_patterns(rounds, participations, separation));
                assert_eq!(found.exactness, Exactness::Exact);
                assert!((found.value - attained).abs() < 1e-12 * attained);
            }
        }
    }

    #[test]
    fn toeplitz_coefficients_that_grow_go_through_the_gram_matrix() {
        let coefficients = [1.0, -2.0, 0.5, 3.0, -1.0, 0.25];
        let matrix: Vec<Vec<f64>> = (0..6)
            .map(|row: usize| {
                (0..6)
                    .map(|column| if column <= row { coefficients[row - column] } else { 0.0 })
                    .collect()
            })
            .collect();
        let participation = Participation::FixedEpoch { epochs: 2 };
        let found = toeplitz_sensitivity(&coefficients, &participation).unwrap();
        let attained = brute_force(&matrix, &participation.patterns(6).unwrap());
        assert!(
            (found.value - attained).abs() < 1e-12 * attained,
            "{found:?} {attained}"
        );
    }

    #[test]
    fn participations_are_checked() {
        assert_eq!(Participation::Single.check(0), Err(FactorizationError::NoRounds));
        assert_eq!(
            Participation::FixedEpoch { epochs: 5 }.check(4),
            Err(FactorizationError::MoreEpochsThanRounds { epochs: 5, rounds: 4 })
        );
        for broken in [
            Participation::FixedEpoch { epochs: 0 },
            Participation::MinimumSeparation {
                participations: 0,
                separation: 1,
            },
            Participation::MinimumSeparation {
                participations: 1,
                separation: 0,
            },
        ] {
            assert!(matches!(
                broken.check(4),
                Err(FactorizationError::InvalidParameter { .. })
            ));
        }
    }

    #[test]
    fn patterns_of_an_uneven_epoch_cover_every_round_once() {
        let patterns = Participation::FixedEpoch { epochs: 3 }.patterns(8).unwrap();
        let mut rounds: Vec<usize> = patterns.concat();
        rounds.sort_unstable();
        assert_eq!(rounds, (0..8).collect::<Vec<_>>());
    }
}
