//! Lower bounds from one run: many canaries, each in or out by a fair coin, and guesses of the coins.
//!
//! A guesser who sees all that a private run releases can hardly be right more often than its guarantee allows, whatever the guesses are made
//! from; and he may abstain. Coins are independent, so that one run with m canaries shows what m runs with one would, up to what canaries hide from
//! each other in the theorem (not in these scenes: each has a coordinate of its own). The bounds of all audits that are judged together hold with
//! probability 1 − [`GUESS_ERROR`]: each has its part of that error.
//!
//! | run | canaries | used for |
//! | --- | --- | --- |
//! | rehearsal, twice with one key | none, all | whitening, each canary's shift, the number of guesses |
//! | the run | by coins | guesses |

use sha2::{Digest as _, Sha256};

use super::bound::Seen;
use super::guesses::Guesses;
use super::likelihood::{LikelihoodRatio, Moments};
use super::{AuditError, AuditSettings, Claimed, Finding, Part, Runs, noise_law};
use crate::oracle::Oracle;
use crate::parallel::Engine;
use crate::problem::Problem;

/// Probability that some bound exceeds the truth, of all audits in one run that are judged together.
pub const GUESS_ERROR: f64 = 0.05;
/// Fewest and most canaries: every row has a column for each.
pub const CANARIES: (usize, usize) = (100, 4_096);
/// Parts of the canaries that may be guessed, the rest abstained from; a rehearsal chooses.
const PARTS: [f64; 11] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Fair coins of a run, one a canary.
fn coins(seed: u64, canaries: usize) -> Vec<bool> {
    let coin = |canary: u64| {
        let hash = Sha256::new_with_prefix(b"rounds audit coin").chain_update(seed.to_le_bytes());
        hash.chain_update(canary.to_le_bytes()).finalize()[0] & 1 == 1
    };
    (0..canaries as u64).map(coin).collect()
}

/// Scores of canaries: ln of the ratio of the densities of what the run did to a canary's coordinate, in over out.
struct Scores(Vec<LikelihoodRatio>);

impl Scores {
    fn of(&self, iterates: &[f32]) -> Vec<f64> {
        let canaries = self.0.len();
        let score =
            |(canary, ratio): (usize, &LikelihoodRatio)| ratio.of_shift(&mut transcript(iterates, canary, canaries));
        self.0.iter().enumerate().map(score).collect()
    }
}

/// One canary's coordinate, round by round.
fn transcript(iterates: &[f32], canary: usize, canaries: usize) -> Vec<f64> {
    iterates[canary..].iter().step_by(canaries).map(|&x| f64::from(x)).collect()
}

/// The surest guesses of these scores, and the right ones among them; those that say "in" though it was out, and "out" though it was in.
fn guessed(scores: &[(f64, bool)], guesses: usize) -> [usize; 2] {
    let mut surest: Vec<&(f64, bool)> = scores.iter().collect();
    surest.sort_by(|left, right| right.0.abs().total_cmp(&left.0.abs()));
    let wrong =
        |said: bool| surest[..guesses].iter().filter(|(score, is_in)| (*score > 0.0) == said && *is_in != said).count();
    [wrong(true), wrong(false)]
}

/// Two rehearsals and the run; the bound from its guesses.
pub(super) fn audited(
    claim: &Claimed,
    runs: &Runs<'_>,
    audit: &AuditSettings,
    in_one: impl Fn(&[bool]) -> Problem,
    canaries: usize,
) -> Result<Finding, AuditError> {
    let run = |part, problem: &Problem| {
        let mut iterates = Vec::new();
        runs.transcript_of((part, 0), problem, Oracle::new(problem, Engine::Sequential), (canaries, &mut iterates))?;
        (runs.progress)(1);
        Ok::<_, AuditError>(iterates)
    };
    let [without, with] = [false, true].map(|is_in| run(Part::Learning, &in_one(&vec![is_in; canaries])));
    let (without, with) = (without?, with?);
    let law = noise_law(&claim.family.mechanism, audit.sabotage);
    let rounds = runs.rounds;
    let mut noise = Moments::new(rounds);
    let mut centre = vec![0.0; rounds];
    let mut shift = vec![0.0; rounds];
    for canary in 0..canaries {
        let [out, present] = [&without, &with].map(|iterates| transcript(iterates, canary, canaries));
        noise.add(&out.iter().copied());
        for (round, (out, present)) in out.iter().zip(&present).enumerate() {
            centre[round] += out / canaries as f64;
            shift[round] += (present - out) / canaries as f64;
        }
    }
    // In fixed batches a canary has rounds of its own, and the same noise in both rehearsals shows them; drawn ones are alike.
    let scores = (0..canaries).map(|canary| {
        let own = [&without, &with].map(|iterates| transcript(iterates, canary, canaries));
        let mean = (0..rounds).map(|round| {
            let own = own[1][round] - own[0][round];
            centre[round] + if law.rate < 1.0 { shift[round] } else { own }
        });
        LikelihoodRatio::new(law, [&noise, &noise], [&centre, &mean.collect::<Vec<_>>()])
    });
    let scores = Scores(scores.collect());
    let mut rehearsed: Vec<(f64, bool)> = Vec::new();
    for (iterates, is_in) in [(&without, false), (&with, true)] {
        rehearsed.extend(scores.of(iterates).into_iter().map(|score| (score, is_in)));
    }
    let error = GUESS_ERROR / audit.judged as f64;
    let bound = |part: f64| {
        let wrong: usize = guessed(&rehearsed, (2.0 * part * canaries as f64) as usize).iter().sum();
        let guesses = (part * canaries as f64) as usize;
        Guesses { canaries, guesses, right: guesses - wrong.div_ceil(2).min(guesses), error }.gaussian_mu()
    };
    let part = PARTS.into_iter().max_by(|one, other| bound(*one).total_cmp(&bound(*other))).unwrap_or(1.0);

    let coins = coins(audit.seed, canaries);
    let problem = in_one(&coins);
    let seen: Vec<(f64, bool)> = scores.of(&run(Part::Misses, &problem)?).into_iter().zip(coins).collect();
    let guesses = (part * canaries as f64) as usize;
    let [false_alarms, misses] = guessed(&seen, guesses);
    let found = Guesses { canaries, guesses, right: guesses - false_alarms - misses, error };
    let bound = claim.family.lower_bound(Seen::Guesses(found))?;
    let shifts = scores.0.iter().map(LikelihoodRatio::shift).sum::<f64>() / canaries as f64;
    Ok(Finding {
        integers: problem.is_in_integers(),
        mechanism: claim.family.mechanism.to_string(),
        delta: claim.family.delta,
        claimed_mu: claim.family.mu(),
        claimed_epsilon: claim.epsilon,
        lower_bound_mu: bound.mu,
        lower_bound_epsilon: bound.epsilon,
        shift: shifts,
        scale: 1.0,
        runs: 1,
        rounds: rounds as u64,
        trials: guesses as u64,
        false_alarms: false_alarms as u64,
        misses: misses as u64,
        confidence: 1.0 - error,
        guesses: Some(found),
    })
}

#[cfg(test)]
mod tests {
    use super::super::guesses::log_binomial;
    use super::*;
    use crate::privacy::examples::assert_relative;

    const fn guesses(canaries: usize, guesses: usize, right: usize) -> Guesses {
        Guesses { canaries, guesses, right, error: GUESS_ERROR }
    }

    /// Values of a reference implementation of both papers.
    #[test]
    fn bounds_of_guesses_are_those_of_the_papers() {
        for (seen, delta, expected) in [
            (guesses(1_000, 100, 90), 0.0, 1.630_823),
            (guesses(1_000, 100, 90), 1e-5, 1.626_143),
            (guesses(1_000, 1_000, 700), 1e-5, 0.731_740),
            (guesses(5_000, 500, 480), 1e-6, 2.793_821),
        ] {
            assert_relative(seen.epsilon(delta), expected, 1e-6, &format!("{seen:?}"));
        }
        for (seen, expected) in [(guesses(1_000, 100, 90), 0.602_504), (guesses(5_000, 500, 480), 0.937_496)] {
            assert_relative(seen.gaussian_mu(), expected, 2e-6, &format!("{seen:?}"));
            // Through the curve of that mechanism, at fewer points.
            let curve = |mu: f64| -> Vec<(f64, f64)> {
                let epsilons = (0..47).map(|point| 0.02 * 1.17_f64.powi(point));
                epsilons.map(|epsilon| (epsilon, crate::privacy::gaussian::delta(epsilon, mu).unwrap())).collect()
            };
            assert!(seen.contradict_curve(&curve(0.97 * expected)) && !seen.contradict_curve(&curve(1.001 * expected)));
        }
        assert!((crate::privacy::gaussian::epsilon(1e-5, 0.602_504).unwrap() - 2.456_405).abs() < 1e-5);
        assert_eq!((guesses(1_000, 100, 50).gaussian_mu(), guesses(1_000, 100, 50).epsilon(1e-5)), (0.0, 0.0));
    }

    /// A guesser who is as right as randomised response allows gets above its ε once in twenty, or less, whatever number of audits is judged.
    #[test]
    fn bounds_exceed_the_truth_with_the_probability_of_an_error_at_most() {
        let (truth, count) = (1.0, 400);
        for audits in [1, 31] {
            let seen = |right| Guesses { error: GUESS_ERROR / f64::from(audits), ..guesses(count, count, right) };
            let above = (0..=count).filter(|&right| seen(right).epsilon(0.0) > truth);
            let probability = |right| log_binomial(right, count, -(-truth).exp().ln_1p(), -truth.exp().ln_1p()).exp();
            let of_some = 1.0 - (1.0 - above.map(probability).sum::<f64>()).powi(audits);
            assert!((0.3 * GUESS_ERROR..=GUESS_ERROR).contains(&of_some), "{audits}: {of_some}");
            assert!(
                seen(330).gaussian_mu() > 0.0
                    && (audits == 1 || seen(330).gaussian_mu() < guesses(count, count, 330).gaussian_mu())
            );
        }
    }

    #[test]
    fn coins_are_fair_and_the_surest_guesses_count() {
        let heads = coins(7, 4_096).into_iter().filter(|&coin| coin).count();
        assert!((1_900..2_200).contains(&heads), "{heads}");
        assert_ne!(coins(7, 100), coins(8, 100));
        assert_eq!(guessed(&[(3.0, true), (-2.0, true), (1.0, false), (-0.5, false)], 3), [1, 1]);
    }
}
