//! Audit of a selection: the best of a random number of trials of an algorithm, beside what all of them claim together.
//!
//! **The scene** is that of the algorithm, its canary and its neighbour. A trial is a run of it with a score in the one way that hurts
//! most: by its model, a score that favours the canary's presence, as declared public rows could, and the noisy count of the selection
//! itself on the rows. The winner's last iterate along the canary is what is told. So a selection leaks more than a trial, and as much as
//! its theorem allows where that is tight.
//!
//! **Sabotaged copies.** `report-the-score` tells the winner's count, too, as it was before its noise. `deterministic-count` runs as many
//! trials as are expected, each time: the claim holds for a random number alone, and shows where noise is Laplace, whose best of ten runs
//! has ten times a run's loss.

use super::{
    AuditError, AuditReport, AuditSettings, Claimed, Finding, Part, Runs, Sabotage, Scene, TestErrors, bound, run_key,
    threshold,
};
use crate::optimizers::{Algorithm, Settings};
use crate::parallel::Engine;
use crate::privacy::{Adjacency, Mechanism, Sampling, TrialCount, TrialLaw, selection};
use crate::selection::{beats, noisy, number_of_trials, score};
use crate::{executor::Executor, oracle::Oracle};

/// Expected trials of the logarithmic law.
const TRIALS: f64 = 10.0;
/// Noise multiplier of a score.
const SCORE_NOISE: f64 = 100.0;
/// Keys of a run: its trials', and the last one for their number.
const KEYS: u64 = 1 << 14;
/// The share of the ε of a scene's claim that a trial has.
const TRIAL_SHARE: f64 = 0.5;

/// Audits a selection among trials of `algorithm`, as [`audit`](super::audit) does.
pub(super) fn audit(
    algorithm: &'static Algorithm,
    scene: &Scene,
    settings: &AuditSettings,
    (engine, progress): (&Engine, &(dyn Fn(u64) + Sync)),
    report: impl FnOnce(Result<Finding, String>) -> AuditReport,
    adjacency: Adjacency,
) -> Result<AuditReport, AuditError> {
    let epsilon = settings.epsilon.unwrap_or_else(|| TRIAL_SHARE * scene.epsilon(settings.delta));
    let of_trial = AuditSettings { epsilon: Some(epsilon), sabotage: None, ..settings.clone() };
    let problems = scene.problems(adjacency, None, (settings.rows, settings.units));
    let claim = match Claimed::of(algorithm, scene, &of_trial, adjacency, &problems[1])? {
        Ok(claim) => claim,
        Err(reason) => return Ok(report(Err(reason))),
    };
    let count = TrialCount::new(TrialLaw::NegativeBinomial(0.0), TRIALS)?;
    let score = Mechanism::Gaussian { noise_multiplier: SCORE_NOISE, sampling: Sampling::FullBatch, participations: 1 };
    let steps = claim.family.mechanism.steps().into_iter().cloned().chain([score]).collect();
    let (claimed, _) = selection::epsilon(count, &[Mechanism::Composition(steps)], adjacency, settings.delta)?;
    let runs = Runs {
        algorithm,
        settings: &claim.run_settings(algorithm, scene, &of_trial, &problems[1])?,
        problems: Some(&problems),
        audit: settings,
        rounds: claim.rounds,
        progress,
    };
    let quarter = settings.runs / 4;
    let told = |part, present| runs.told(part, present, count, quarter, engine);
    let by_ratio = |errors: TestErrors| errors.log_ratio(settings.delta);
    let [without, with] = [told(Part::Learning, false)?, told(Part::Learning, true)?];
    let threshold = threshold(without, with, &by_ratio);
    let alarms = |told: Vec<f64>| told.into_iter().filter(|&value| value >= threshold).count() as u64;
    let false_alarms = alarms(told(Part::FalseAlarms, false)?);
    let misses = quarter - alarms(told(Part::Misses, true)?);
    let errors = bound::TestErrors::from_counts(false_alarms, misses, quarter, super::ERROR);
    Ok(report(Ok(Finding {
        integers: problems.iter().all(|problem| problem.is_in_integers()),
        mechanism: format!("the best of a random number of trials ({count}), each: {}", claim.family.mechanism),
        delta: settings.delta,
        claimed_mu: None,
        claimed_epsilon: claimed,
        lower_bound_mu: None,
        lower_bound_epsilon: by_ratio(errors),
        shift: 0.0,
        scale: 1.0,
        runs: 4 * quarter,
        rounds: claim.rounds as u64,
        trials: quarter,
        false_alarms,
        misses,
        guesses: None,
        confidence: 1.0 - super::ERROR,
    })))
}

impl Runs<'_> {
    /// What selections without or with the canary tell, a number each.
    fn told(
        &self,
        part: Part,
        present: bool,
        count: TrialCount,
        runs: u64,
        engine: &Engine,
    ) -> Result<Vec<f64>, AuditError> {
        let told = Self::spread(runs, engine, &|first, last| {
            let mut oracle = self.oracle(present);
            let mut told = Vec::new();
            for run in first..last {
                let (next, value) = self.selected((part, run), present, count, oracle)?;
                oracle = next;
                told.push(value);
            }
            (self.progress)(last - first);
            Ok(told)
        })?;
        Ok(told.concat())
    }

    /// One selection: its winner along the canary, against it; of a copy that reports the score, the winner's count.
    fn selected<'p>(
        &self,
        (part, run): (Part, u64),
        present: bool,
        count: TrialCount,
        mut oracle: Oracle<'p>,
    ) -> Result<(Oracle<'p>, f64), AuditError> {
        let problem = &self.problems.expect("of many runs")[usize::from(present)];
        let trials = match self.audit.sabotage {
            Some(Sabotage::DeterministicCount) => count.mean().round() as u64,
            _ => number_of_trials(count, &run_key(self.audit, part, run * KEYS + KEYS - 1)).min(KEYS - 1),
        };
        let mut best: Option<(i64, f64)> = None;
        for trial in 0..trials {
            let key = run_key(self.audit, part, run * KEYS + trial);
            let settings = Settings { key: key.clone(), ..self.settings.clone() };
            let prepared = self.algorithm.prepare(problem, &settings);
            let prepared = prepared.map_err(|source| AuditError::Prepare { algorithm: self.algorithm.id, source })?;
            let mut executor = Executor::on(oracle, prepared).limited_to(self.rounds as u64);
            let round = |source| AuditError::Round { algorithm: self.algorithm.id, source };
            executor.run().map_err(round)?;
            let along =
                self.audit.rows.coordinates(executor.solution(), 1).next().map_or(0.0, |along| -f64::from(along));
            let counted = score(problem, executor.solution());
            // The count is small beside what public rows say.
            let scored = (along * 2_f64.powi(40)) as i64 + noisy(counted, SCORE_NOISE, &key);
            if beats(scored, best.map(|best| best.0)) {
                let is_reported = self.audit.sabotage == Some(Sabotage::ReportTheScore);
                best = Some((scored, if is_reported { -(counted as f64) } else { along }));
            }
            oracle = executor.into_oracle();
        }
        Ok((oracle, best.map_or(f64::NEG_INFINITY, |best| best.1)))
    }
}
