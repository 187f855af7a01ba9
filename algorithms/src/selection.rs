//! The draws of a selection: the number of trials, their settings, and the noise of their scores. What it costs is
//! [`privacy::selection`](crate::privacy::selection).
//!
//! **The score** of a model is the sum of what units of the data contribute to it, each a number in [−1, 1]: of a row 1 if its class is
//! predicted and −1 if not, or `1 − min(|prediction − target|, 2)` of targets in [−1, 1]; of a unit of several rows their mean, 0 without
//! rows, and 0 of a null row. Contributions are integers of 2⁻¹⁶, cut towards 0, so that their sum is exact and the null row in place of
//! one moves it by 1 at most, another row by 2: one Gaussian mechanism of sensitivity 1 in the sense of
//! [`Mechanism::Gaussian`](crate::privacy::Mechanism). A contribution is a function of its unit's rows and of released weights: no other
//! row enters any operation of it ([`outputs`]).

use std::ops::Range;

use rounds_kernels::features::Targets;
use rounds_kernels::loss::TargetKind;
use rounds_kernels::random::exact::fill_rounded_gaussian;
use rounds_kernels::random::{Purpose, StreamKey, UniformStream};

use crate::noise::lattice::EXCESS;
use crate::privacy::TrialCount;
use crate::problem::{Problem, outputs, outputs_of_network};

/// Addresses of the draws, which no other mechanism reads.
const TRIALS: Purpose = Purpose(0x5452_4941);
const SCORES: Purpose = Purpose(0x5343_4f52);
/// Steps of a score of 1.
const STEPS: f64 = 65_536.0;

/// The number of trials, drawn from its law.
///
/// Each step compares 128 bits with a probability, so that none of the law is off by more than [`privacy::selection`](crate::privacy::selection)
/// counts.
pub fn number_of_trials(count: TrialCount, key: &StreamKey) -> u64 {
    let (hazards, first) = count.hazards();
    let mut stream = UniformStream::new(key, TRIALS, 0, 0);
    let ends = |hazard: &f64| {
        let word = u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64());
        word < (hazard * 2_f64.powi(128)) as u128
    };
    first + hazards.iter().position(ends).unwrap_or(hazards.len() - 1) as u64
}

/// A place in each of lists of these lengths, for a trial counted from 0: all uniform and independent.
pub fn draw_settings(key: &StreamKey, trial: u64, lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut stream = UniformStream::new(key, TRIALS, trial + 1, 0);
    lengths.map(|length| stream.below(length as u64) as usize).collect()
}

/// The score of weights on the rows of a problem, in steps of 2⁻¹⁶.
pub fn score(problem: &Problem, weights: &[f32]) -> i64 {
    let (rows, model) = (problem.dataset(), problem.model());
    let outputs = match problem.network() {
        Some(network) => outputs_of_network(network, weights, rows.rows()),
        None => outputs(weights, rows.rows(), model.bias),
    };
    let targets = problem.targets();
    let of_row = |row: usize| -> f64 {
        let outputs = &outputs[row * model.outputs..(row + 1) * model.outputs];
        let is_right = match targets {
            Targets::Classes(classes) => predicted(outputs) == classes[row] as usize,
            Targets::Values(values) if model.loss.targets() == TargetKind::Signs => {
                predicted(outputs) == usize::from(values[row] > 0.0)
            }
            // A model that diverged predicts nothing: NaN gives −1.
            Targets::Values(values) => return 1.0 - (outputs[0] - f64::from(values[row])).abs().min(2.0),
        };
        if is_right { 1.0 } else { -1.0 }
    };
    let of_unit = |unit: Range<usize>| -> i64 {
        let rows = unit.filter(|&row| !targets.is_null(row)).map(of_row);
        let (sum, count) = rows.fold((0.0, 0_u32), |(sum, count), of_row| (sum + of_row, count + 1));
        (sum / f64::from(count.max(1)) * STEPS).clamp(-STEPS, STEPS) as i64
    };
    match rows.units() {
        Some(units) => (0..units.count()).map(|unit| of_unit(units.rows_of(unit))).sum(),
        None => (0..rows.len()).map(|row| of_unit(row..row + 1)).sum(),
    }
}

/// The class that outputs predict: the first of the greatest; of a single output the sign's, 1 for 0.
pub fn predicted(outputs: &[f64]) -> usize {
    match outputs {
        [output] => usize::from(*output >= 0.0),
        _ => (1..outputs.len()).fold(0, |best, class| if outputs[class] > outputs[best] { class } else { best }),
    }
}

/// A score with rounded Gaussian noise of this multiplier, drawn exactly: a function of score plus real-valued noise, since the score is an
/// integer.
pub fn noisy(score: i64, noise_multiplier: f64, key: &StreamKey) -> i64 {
    let mut noise = [0_i64];
    fill_rounded_gaussian(key, SCORES, 0, 0, noise_multiplier * STEPS * EXCESS, &mut noise);
    score + noise[0]
}

/// The greatest noise multiplier of a score.
pub const MOST_SCORE_NOISE: f64 = 8_589_934_592.0;

/// True if a trial with this score takes the place of the best one before it: of equal scores the first one wins.
pub fn beats(score: i64, best: Option<i64>) -> bool {
    best.is_none_or(|best| score > best)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rounds_kernels::linear::Reduction;
    use rounds_kernels::loss::Loss;

    use super::*;
    use crate::privacy::TrialLaw;
    use crate::problem::{Dataset, Features, Labels, UnitDeclaration, UnitIds};

    /// Over 20,000 keys, mean and probabilities within five standard errors.
    #[test]
    fn the_number_of_trials_follows_its_law() {
        const KEYS: u64 = 20_000;
        for (law, mean) in [
            (TrialLaw::NegativeBinomial(0.0), 10.0),
            (TrialLaw::NegativeBinomial(1.0), 5.0),
            (TrialLaw::NegativeBinomial(-0.5), 2.0),
            (TrialLaw::Poisson, 3.0),
        ] {
            let count = TrialCount::new(law, mean).unwrap();
            let draws: Vec<u64> = (0..KEYS).map(|seed| number_of_trials(count, &StreamKey::Simulation(seed))).collect();
            let n = KEYS as f64;
            let found = draws.iter().sum::<u64>() as f64 / n;
            let variance = draws.iter().map(|&draw| (draw as f64 - found).powi(2)).sum::<f64>() / n;
            assert!((found - mean).abs() < 5.0 * (variance / n).sqrt(), "{law}: mean {found}");
            let (hazards, first) = count.hazards();
            let mut survival = 1.0;
            for (k, hazard) in (first..first + 6).zip(&hazards) {
                let probability = survival * hazard;
                let share = draws.iter().filter(|&&draw| draw == k).count() as f64 / n;
                let error = (probability * (1.0 - probability) / n).sqrt();
                assert!((share - probability).abs() < 5.0 * error, "{law}, {k}: {share} {probability}");
                survival -= probability;
            }
        }
        // ln 2/ln 4 of the logarithmic law with γ = 1/2 is … one trial with probability (1 − γ)/ln(1/γ).
        let (hazards, _) = TrialCount::NegativeBinomial { eta: 0.0, gamma: 0.5 }.hazards();
        assert!((hazards[0] - 0.5 / 2_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn settings_are_uniform_and_differ_by_trial() {
        let key = StreamKey::Release([3; 32]);
        let mut counts = [[0_u32; 3]; 2];
        for trial in 0..6_000 {
            let [first, second] = draw_settings(&key, trial, [3, 2].into_iter())[..] else { panic!("two settings") };
            counts[second][first] += 1;
        }
        // Six cells of 1,000 each, deviation 29.
        assert!(counts.iter().flatten().all(|count| count.abs_diff(1_000) < 150), "{counts:?}");
    }

    /// Three rows of class 1, one of class 0 and a null row, in units of two, one, none and two rows.
    fn problem(loss: Option<Loss>, units: bool) -> Problem {
        let labels = Labels::numbered(vec![1, 1, 0, 1, 0], 2);
        let rows = Dataset::new("rows", Features::f32(vec![1.0, -1.0, -1.0, 1.0, 1.0], 1), labels).unwrap();
        let mut rows = rows.null_row(4);
        if units {
            let ids = UnitIds { of_rows: vec![0, 0, 1, 3, 3], count: 4 };
            let declaration = UnitDeclaration { column: None, reduction: Reduction::Mean, most_rows: None };
            rows = rows.by_unit(&ids, declaration).unwrap();
        }
        let (rows, loss) = rows.for_loss(loss).unwrap();
        Problem::new(Arc::new(rows), loss, true, 0.0).unwrap()
    }

    #[test]
    fn a_score_is_right_less_wrong_and_a_unit_contributes_at_most_one() {
        for (loss, weights) in [(None, vec![0.0, 0.0, 1.0, 0.0]), (Some(Loss::Logistic), vec![1.0, 0.0])] {
            // Rows 0, 2 and 3 are right, row 1 is wrong, row 4 is null.
            assert_eq!(score(&problem(loss, false), &weights), 2 * 65_536);
            // Unit 0 is half right, units 1 and 3 are right, unit 2 has no rows.
            assert_eq!(score(&problem(loss, true), &weights), 2 * 65_536);
            let wrong: Vec<f32> = weights.iter().map(|weight| -weight).collect();
            assert_eq!(score(&problem(loss, false), &wrong), -2 * 65_536);
            // A model that diverged scores what its rule says, whatever it is: a number.
            let diverged = vec![f32::NAN; weights.len()];
            assert!(score(&problem(loss, true), &diverged).abs() <= 3 * 65_536);
        }
        let numbers = Labels::Values(vec![0.5, -1.0, 1.0]);
        let rows = Dataset::new("rows", Features::f32(vec![1.0, 1.0, 1.0], 1), numbers).unwrap();
        let problem = Problem::new(Arc::new(rows), Loss::Squared, true, 0.0).unwrap();
        // |0.5 − 0.5| = 0, 1.5, and 0.5.
        assert_eq!(score(&problem, &[0.25, 0.25]), 65_536);
        assert_eq!(score(&problem, &[9.0, 9.0]), -3 * 65_536);
        assert_eq!(score(&problem, &[f32::NAN, 0.0]), -3 * 65_536);
    }

    #[test]
    fn noise_of_scores_has_its_deviation_and_differs_by_key() {
        let draws: Vec<f64> =
            (0..4_000).map(|seed| noisy(100, 3.0, &StreamKey::Simulation(seed)) as f64 / 65_536.0).collect();
        let mean = draws.iter().sum::<f64>() / 4_000.0;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / 4_000.0;
        assert!(mean.abs() < 0.25 && (variance / 9.0 - 1.0).abs() < 0.15, "{mean} {variance}");
    }

    #[test]
    fn of_equal_scores_the_first_wins() {
        assert!(beats(i64::MIN, None) && beats(3, Some(2)) && !beats(2, Some(2)) && !beats(1, Some(2)));
    }
}
