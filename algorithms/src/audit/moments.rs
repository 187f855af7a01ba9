//! Audit of the release of [moments](crate::moments), which whitened features, principal components and a norm of each feature follow from.
//!
//! **The scene** is a few rows of zeros but for the canary, the longest row of its domain. What it adds to the sums is one direction of noise that is
//! alike in all: the sum along it is the likelihood ratio. It is read off what is released, mean and covariance, times the number of rows that
//! the deviation beside them says. Under replace-one the canary's features change their sign, and no two rows reach the claim: a bound has a quarter
//! of [`POWER`].
//!
//! **Sabotaged copies** are made of honest releases: with half of the noise; of the canary twice; of rows in a wider domain, with the noise of the
//! claim's, as if no row was cut to it; and two of one set of sums, whose entries above and below the diagonal have noise of their own, which a
//! reader averages.

use super::{
    AuditError, AuditReport, AuditSettings, CanaryRows, ClaimedFamily, ERROR, Finding, Part, Runs, Sabotage, Seen,
    Subject, TestErrors, best_threshold, canary::CLAIMED_MU, checked, run_key,
};
use crate::moments::{Form, MomentSums, Moments};
use crate::optimizers::scene::Row;
use crate::parallel::Engine;
use crate::privacy::{Accountant, Adjacency, Mechanism, Sampling, gaussian};
use crate::problem::{Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Relation, Storage};
use crate::vectors::dot;

/// The share of the claimed ε that the bound reaches, at least, with 4,000 runs.
pub const POWER: f64 = 0.5;
/// Rows: the noise of their number is small beside it.
const ROWS: usize = 64;
/// Features.
const WIDTH: usize = 7;
/// The greatest feature of the domain, and that of a copy that cuts no row to it.
const REACH: (f32, f32) = (1.0, 2.0);

/// Coordinates of the sums whose noise has one deviation: on the diagonal, and off it.
type Coordinates = [Vec<f64>; 2];

/// The contribution to the sums of a row whose features all have this value.
fn contribution(form: Form, feature: f64) -> Coordinates {
    let off = |count: usize, entry: f64| vec![std::f64::consts::SQRT_2 * entry; count];
    let pairs = if form == Form::Full { WIDTH * (WIDTH - 1) / 2 } else { 0 };
    let square = feature * feature;
    [[vec![1.0], vec![square; WIDTH]].concat(), [off(WIDTH, feature), off(pairs, square)].concat()]
}

/// The noisy sums that a release tells, whose noise has this deviation.
fn told(form: Form, released: &Moments, deviation: f64) -> Coordinates {
    let (count, mean) = (deviation / released.deviation, &released.mean);
    let square = |i: usize, j: usize| {
        let place = if form == Form::Full { i * WIDTH + j } else { i };
        count * (released.covariance[place] + mean[i] * mean[j])
    };
    let above = (0..WIDTH).flat_map(|i| (i + 1..WIDTH).map(move |j| (i, j))).filter(|_| form == Form::Full);
    let off = mean.iter().map(|mean| count * mean).chain(above.map(|(i, j)| square(i, j)));
    let on = std::iter::once(count).chain((0..WIDTH).map(|i| square(i, i)));
    [on.collect(), off.map(|entry| std::f64::consts::SQRT_2 * entry).collect()]
}

fn length([on, off]: &Coordinates) -> f64 {
    (dot(on, on) + dot(off, off)).sqrt()
}

/// Rows of zeros but for the first ones, which are `row`, or left out.
fn rows(relation: Relation, reach: f32, canaries: usize, row: Option<Row>) -> Dataset {
    let count = if row.is_some() { ROWS } else { ROWS - canaries };
    let mut values = vec![0.0; count * WIDTH];
    match row {
        Some(Row::Canary) => values[..canaries * WIDTH].fill(reach),
        Some(Row::Opposite) => values[..canaries * WIDTH].fill(-reach),
        _ => {}
    }
    let bounds = Bounds::new((-reach).into(), reach.into()).expect("bounds in order");
    let label = Label::Classes(vec!["0".to_owned(), "1".to_owned()]);
    let columns = Columns::Matrix { count: WIDTH, bounds };
    let domain = Domain { relation, ..Domain::new(columns, Storage::Dense, label, DomainSource::Arguments) };
    let rows = Dataset::new("canary", Features::f32(values, WIDTH), Labels::numbered(vec![0; count], 2));
    let rows = rows.and_then(|rows| rows.in_domain(domain.into())).expect("rows of the domain");
    (0..canaries).filter(|_| row == Some(Row::Null)).fold(rows, Dataset::null_row)
}

/// A release of the sums of rows without or with the canary, again and again.
struct Releases<'a> {
    form: Form,
    rows: [Dataset; 2],
    /// The noise multiplier of a release, and the deviation that it comes to.
    noise: (f64, f64),
    direction: Coordinates,
    settings: &'a AuditSettings,
}

impl Releases<'_> {
    /// The coordinates of one release; `again` of the same sums, with other noise.
    fn one(&self, (part, run): (Part, u64), present: bool, again: bool) -> Result<Coordinates, AuditError> {
        let sums = MomentSums::of(&self.rows[usize::from(present)], self.form).map_err(AuditError::Moments)?;
        let key = run_key(self.settings, part, 2 * run + u64::from(again));
        let released = sums.released(self.noise.0, &key).map_err(AuditError::Moments)?;
        Ok(told(self.form, &released, self.noise.1))
    }

    /// One release along the canary's direction.
    fn along(&self, run: (Part, u64), present: bool) -> Result<f64, AuditError> {
        let [on, off] = self.one(run, present, false)?;
        let along = dot(&on, &self.direction[0]) + dot(&off, &self.direction[1]);
        if self.settings.sabotage != Some(Sabotage::TwoTriangles) {
            return Ok(along);
        }
        let [_, below] = self.one(run, present, true)?;
        Ok(along + dot(&below, &self.direction[1]))
    }
}

/// Audits the release of moments of this form, as [`audit`](super::audit) does a run.
///
/// # Errors
/// Too few runs, rows or sabotages of other audits.
pub fn audit_moments(
    form: Form,
    settings: &AuditSettings,
    engine: &Engine,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<AuditReport, AuditError> {
    let adjacency = checked(settings)?;
    if settings.rows != CanaryRows::F32 || settings.units || settings.selection || settings.one_run.is_some() {
        let problem =
            "they are audited by many releases, of rows of f32: leave out `rows`, `units`, `selection` and `one-run`";
        return Err(AuditError::Moments(problem));
    }
    let (reach, canaries) = match settings.sabotage {
        None | Some(Sabotage::HalvedNoise | Sabotage::TwoTriangles) => (REACH.0, 1),
        Some(Sabotage::SkippedClip) => (REACH.1, 1),
        Some(Sabotage::IgnoredParticipation) => (REACH.0, 2),
        Some(sabotage) => {
            let problem = "of moments halved-noise, skipped-clip, ignored-participation and two-triangles are audited";
            return Err(AuditError::Sabotage(sabotage.name(), problem));
        }
    };
    let (relation, neighbour) = match adjacency {
        Adjacency::ZeroOut => (Relation::ZeroOut, Some(Row::Null)),
        Adjacency::ReplaceOne => (Relation::ReplaceOne, Some(Row::Opposite)),
        Adjacency::AddRemove => (Relation::AddRemove { public_rows: ROWS }, None),
    };
    let epsilon = settings.epsilon.map_or_else(|| gaussian::epsilon(settings.delta, CLAIMED_MU), Ok)?;
    let noise_multiplier = adjacency.row_change_factor() / gaussian::mu(epsilon, settings.delta)?;
    let mechanism = Mechanism::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations: 1 };
    let family = ClaimedFamily { mechanism, accountant: Accountant::Gdp, adjacency, delta: settings.delta };
    let sensitivity = |reach: f32| length(&contribution(form, reach.into()));
    let share = if settings.sabotage == Some(Sabotage::HalvedNoise) { 0.5 } else { 1.0 };
    let deviation = share * noise_multiplier * sensitivity(REACH.0);
    let mut direction = contribution(form, reach.into());
    if adjacency == Adjacency::ReplaceOne {
        let opposite = contribution(form, (-reach).into());
        let pairs = direction.iter_mut().flatten().zip(opposite.iter().flatten());
        pairs.for_each(|(own, other)| *own -= other);
    }
    let releases = Releases {
        form,
        rows: [neighbour, Some(Row::Canary)].map(|row| rows(relation, reach, canaries, row)),
        noise: (deviation / sensitivity(reach), deviation),
        direction,
        settings,
    };
    let quarter = settings.runs / 4;
    let along = |part, present| -> Result<Vec<f64>, AuditError> {
        let told = Runs::spread(quarter, engine, &|first, last| {
            let told = (first..last).map(|run| releases.along((part, run), present)).collect::<Result<Vec<_>, _>>();
            progress(last - first);
            told
        })?;
        Ok(told.concat())
    };
    let threshold = best_threshold(&family, &along(Part::Learning, false)?, &along(Part::Learning, true)?)?;
    let alarms = |told: Vec<f64>| told.into_iter().filter(|&value| value >= threshold).count() as u64;
    let false_alarms = alarms(along(Part::FalseAlarms, false)?);
    let misses = quarter - alarms(along(Part::Misses, true)?);
    let bound = family.lower_bound(Seen::Errors(TestErrors::from_counts(false_alarms, misses, quarter, ERROR)))?;
    let (algorithm, scene) = Subject::Moments(form).names();
    Ok(AuditReport {
        algorithm,
        scene,
        key: settings.key,
        adjacency,
        sabotage: settings.sabotage,
        rows: settings.rows,
        units: false,
        selection: false,
        finding: Ok(Finding {
            integers: true,
            mechanism: family.mechanism.to_string(),
            delta: family.delta,
            claimed_mu: family.mu(),
            claimed_epsilon: family.epsilon(1.0)?,
            lower_bound_mu: bound.mu,
            lower_bound_epsilon: bound.epsilon,
            shift: 0.0,
            scale: 1.0,
            runs: 4 * quarter,
            rounds: 1,
            trials: quarter,
            false_alarms,
            misses,
            confidence: 1.0 - ERROR,
            guesses: None,
        }),
    })
}
