//! The plan of a selection: the noise of trials and scores for a total budget, from public facts alone.

use rounds_algorithms::optimizers::{Algorithm, Prepared, SamplingKind, Settings};
use rounds_algorithms::privacy::{
    Adjacency, Budget, CalibrationMemory, Claim, Mechanism, PrivacyError, PrivacyStatement, Sampling,
    SelectionStatement, TrialCount, gaussian, selection,
};
use rounds_algorithms::problem::PublicProblem;
use rounds_algorithms::selection::MOST_SCORE_NOISE;
use rounds_kernels::loss::TargetKind;

use super::Tuning;
use crate::fit::error::FitError;
use crate::fit::setup::with_factorization;

/// ε that a trial's score may take alone, over that of its training. Near the Gaussian mechanism μ² counts, so that a fifth costs training some
/// 2 % more noise, and at ε = 1 a count has a deviation of some tens of rows.
const SCORE_SHARE: f64 = 0.2;

/// The plan of a selection.
pub(crate) struct SelectionPlan {
    /// ε of the selection.
    pub(crate) epsilon: f64,
    /// δ of the selection.
    delta: f64,
    /// The budget of a trial's training.
    pub(crate) budget: Budget,
    /// Noise multiplier of a score; none on public rows.
    pub(crate) score_noise: Option<f64>,
    /// What is stated of it.
    pub(crate) statement: SelectionStatement,
    /// The reason for which some point of the grid claims nothing, and so the selection.
    pub(crate) unclaimed: Option<String>,
    /// The statement of the first point of the grid.
    first: PrivacyStatement,
}

/// The points of a grid to prepare.
struct Points<'a> {
    tuning: &'a Tuning,
    algorithm: &'static Algorithm,
    problem: &'a PublicProblem,
    settings: &'a Settings,
    calibrations: CalibrationMemory,
    /// The ε of a selection among trials of these mechanisms, as closely as `calibrations`.
    cost: fn(TrialCount, &[Mechanism], Adjacency, f64) -> Result<f64, PrivacyError>,
}

/// A selection's ε.
fn cost(count: TrialCount, trials: &[Mechanism], adjacency: Adjacency, delta: f64) -> Result<f64, PrivacyError> {
    Ok(selection::epsilon(count, trials, adjacency, delta)?.0)
}

/// What a search came to: the ε of a trial, the mechanisms of all points at it, and the reason for which some point claims nothing.
type Settled = (f64, Vec<Mechanism>, Option<String>);

impl Points<'_> {
    /// The point at these places, prepared for a budget.
    fn prepared(&self, places: &[usize], budget: Budget) -> Result<Prepared, FitError> {
        let training = self.tuning.at(places)?;
        let (mut settings, used) = with_factorization(&training, self.algorithm)?;
        (settings.budget, settings.key) = (budget, self.settings.key.clone());
        settings.calibrations = self.calibrations.clone();
        if used.is_none() {
            settings.strategies = self.settings.strategies.clone();
        }
        let problem = self.problem.clone().with_regularization(training.optimizer.regularization)?;
        Ok(self.algorithm.prepare(&problem, &settings)?)
    }

    /// The mechanism of a trial at these places for a budget, with the noise of its score, and the statement of its training.
    fn mechanism(
        &self,
        places: &[usize],
        budget: Budget,
        score_noise: Option<f64>,
    ) -> Result<(Mechanism, PrivacyStatement), FitError> {
        let Prepared { mechanism, privacy, .. } = self.prepared(places, budget)?;
        let mechanism = mechanism.ok_or_else(|| FitError::argument("grid", "some point of it adds no noise"))?;
        Ok((with_score(&mechanism, score_noise), privacy))
    }

    fn mechanisms(
        &self,
        kinds: &[Vec<usize>],
        budget: Budget,
        score_noise: Option<f64>,
    ) -> Result<Vec<Mechanism>, FitError> {
        kinds.iter().map(|places| Ok(self.mechanism(places, budget, score_noise)?.0)).collect()
    }

    /// Looks at all points at the ε of a trial that `find` gives for those that stand for their mechanisms, with what is `planned` for it.
    ///
    /// One point stands for all of its mechanism. Points of one at one ε may have several at another, as with bands that are chosen by it:
    /// all points are looked at again at the ε that was found, until none of them has a mechanism that was not counted.
    fn settle(
        &self,
        mut trial_epsilon: f64,
        planned: &dyn Fn(f64) -> Result<(Budget, Option<f64>), FitError>,
        find: &dyn Fn(&[Vec<usize>]) -> Result<f64, FitError>,
    ) -> Result<Settled, FitError> {
        let mut kinds: Vec<Vec<usize>> = Vec::new();
        let mut unclaimed: Option<String> = None;
        loop {
            let (budget, noise) = planned(trial_epsilon)?;
            let counted = self.mechanisms(&kinds, budget, noise)?;
            let (mut own, mut own_kinds): (Vec<Mechanism>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
            for places in self.tuning.grid.points() {
                let (mechanism, privacy) = self.mechanism(&places, budget, noise)?;
                if privacy.claim == Claim::None {
                    unclaimed =
                        unclaimed.or(privacy.reason).or(Some("some point of the grid claims nothing".to_owned()));
                }
                if !own.contains(&mechanism) {
                    own.push(mechanism);
                    own_kinds.push(places);
                }
            }
            if own.iter().all(|mechanism| counted.contains(mechanism)) {
                return Ok((trial_epsilon, own, unclaimed));
            }
            kinds.extend(own_kinds.into_iter().zip(&own).filter(|(_, own)| !counted.contains(own)).map(|kind| kind.0));
            trial_epsilon = find(&kinds)?;
        }
    }

    /// True if some point allocates units to rounds: what its noise costs takes long to compute.
    fn are_slow(&self) -> Result<bool, FitError> {
        for places in self.tuning.grid.points() {
            let settings = self.tuning.at(&places)?.settings(self.algorithm)?;
            let sampling = settings.parameters.get("sampling").and_then(|kind| kind.parse().ok());
            if matches!(sampling, Some(SamplingKind::RandomAllocation | SamplingKind::CyclicAllocation)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A trial's mechanism with its score, where that has noise.
fn with_score(mechanism: &Mechanism, score_noise: Option<f64>) -> Mechanism {
    let score = score_noise.map(|noise_multiplier| Mechanism::Gaussian {
        noise_multiplier,
        sampling: Sampling::FullBatch,
        participations: 1,
    });
    Mechanism::Composition(mechanism.steps().into_iter().cloned().chain(score).collect())
}

impl SelectionPlan {
    /// The plan for the public part of a problem. `settings` have the key, and remember what is calibrated. ε of a trial is `given`, as by a
    /// statement, or the greatest for which the selection costs no more than the total.
    ///
    /// # Errors
    /// A point that the algorithm refuses; a total that no noise reaches; a given ε of trials that is not that of the total.
    pub(crate) fn new(
        tuning: &Tuning,
        algorithm: &'static Algorithm,
        problem: &PublicProblem,
        settings: &Settings,
        given: Option<f64>,
    ) -> Result<Self, FitError> {
        let privacy = &tuning.training.privacy;
        let (total, delta) = (privacy.epsilon.unwrap_or_default(), privacy.delta);
        let count = tuning.count()?;
        let trial_delta = delta / count.mean();
        let points = Points { tuning, algorithm, problem, settings, calibrations: settings.calibrations.clone(), cost };
        let (calibrations, cost) = (CalibrationMemory::rough(), selection::rough_epsilon);
        let rough = Points { tuning, algorithm, problem, settings, calibrations, cost };
        let is_slow = points.are_slow()?;
        let budget = |epsilon: f64| Budget::Target { epsilon, delta: trial_delta };
        let first = vec![0; tuning.grid.lengths().count()];
        let first =
            |points: &Points<'_>, epsilon: f64| Ok::<_, FitError>(points.prepared(&first, budget(epsilon))?.privacy);
        let begin = given.unwrap_or(0.5 * total);
        let stated = first(if is_slow { &rough } else { &points }, begin).or_else(|_| first(&points, begin))?;
        let adjacency = stated.adjacency;
        let adjacency = adjacency.unwrap_or_else(|| problem.relation().adjacency());
        let score_noise = |epsilon: f64| -> Result<Option<f64>, FitError> {
            if tuning.score_on.is_some() {
                return Ok(None);
            }
            let mu = gaussian::mu(SCORE_SHARE * epsilon, trial_delta)?;
            let noise = adjacency.row_change_factor() / mu;
            if noise > MOST_SCORE_NOISE {
                return Err(FitError::argument(format!("epsilon {total}"), "too small for a score"));
            }
            Ok(Some(noise))
        };
        let spent = |points: &Points<'_>, kinds: &[Vec<usize>], epsilon: f64| {
            let mechanisms = points.mechanisms(kinds, budget(epsilon), score_noise(epsilon)?)?;
            Ok::<_, FitError>((points.cost)(count, &mechanisms, adjacency, delta)?)
        };
        let planned = |epsilon: f64| Ok((budget(epsilon), score_noise(epsilon)?));
        let searched = |points: &Points<'_>| {
            points.settle(begin, &planned, &|kinds| {
                selection::trial_epsilon(total, delta, |epsilon| spent(points, kinds, epsilon))
            })
        };
        let (trial_epsilon, mechanisms, unclaimed) = match given {
            Some(given) => points.settle(given, &planned, &|_| Ok(given))?,
            None if is_slow => {
                let near = searched(&rough).ok().map(|(near, ..)| near);
                let close = |kinds: &[Vec<usize>]| {
                    selection::trial_epsilon_near((total, delta), near, |epsilon| spent(&points, kinds, epsilon))
                };
                points.settle(near.unwrap_or(begin), &planned, &close)?
            }
            None => searched(&points)?,
        };
        let (epsilon, bound) = selection::epsilon(count, &mechanisms, adjacency, delta)?;
        // Trials of a greater ε cost more than the total, which may be well above what they cost where that jumps, as with the number of bands.
        let is_most = given.is_none()
            || trial_epsilon == total
            || epsilon > total * (1.0 - 5e-4)
            || spent(&points, &tuning.grid.points().collect::<Vec<_>>(), 1.001 * trial_epsilon)? > total;
        if epsilon > total || !is_most {
            let problem = format!("trials of ε = {trial_epsilon} come to {epsilon}");
            return Err(FitError::argument(format!("epsilon {total}"), problem));
        }
        let score_noise = score_noise(trial_epsilon)?;
        let is_number = problem.model().loss.targets() == TargetKind::Reals;
        let score = if is_number { "the sum of 1 − |error|" } else { "right less wrong" };
        let of = match score_noise {
            None => "declared public rows",
            Some(_) => "the training rows, with the noise of the last mechanism of a trial",
        };
        let statement = SelectionStatement {
            trials: count,
            expected_trials: tuning.trials,
            grid_sha256: tuning.grid.digest(),
            score: format!("{score}, of {of}"),
            score_sha256: tuning.score_on.as_ref().map(|rows| rows.sha256.clone()),
            trial_epsilon,
            trial_delta,
            mechanisms,
            bound,
        };
        let (budget, first) = (budget(trial_epsilon), first(&points, trial_epsilon)?);
        Ok(Self { epsilon, delta, budget, score_noise, statement, unclaimed, first })
    }

    /// The mechanism of a trial: that of its training, and its score.
    pub(crate) fn with_score(&self, mechanism: &Mechanism) -> Mechanism {
        with_score(mechanism, self.score_noise)
    }

    /// The statement of the selection before any trial, as if the first point of the grid had won.
    pub(crate) fn booked(&self, problem: &PublicProblem) -> PrivacyStatement {
        self.stated(self.first.clone(), problem)
    }

    /// The statement of the selection whose winner's run has this one.
    pub(crate) fn stated(&self, winner: PrivacyStatement, problem: &PublicProblem) -> PrivacyStatement {
        match &self.unclaimed {
            Some(reason) => winner.revoked(reason),
            None => winner.selected((self.epsilon, self.delta), problem.rows(), self.statement.clone()),
        }
    }
}
