//! Composition of the claims of several runs on the same rows.

use serde::Serialize;

use super::error::{self, PrivacyError};
use super::mechanism::Mechanism;
use super::{Accountant, Adjacency, PrivacyStatement};

/// The guarantee of several runs on the same rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Composed {
    /// ε of all runs together, an upper bound.
    pub epsilon: f64,
    /// Its δ.
    pub delta: f64,
    /// The neighbouring relation of every run.
    pub adjacency: Adjacency,
    /// The unit of protection of every run.
    pub unit: String,
    /// The accountant of the mechanisms of all runs, one after the other; `None` where basic composition gives less.
    pub accountant: Option<Accountant>,
    /// `Σ ε` of the runs, at `Σ δ`: basic composition.
    pub basic: (f64, f64),
}

/// Claims that do not compose.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompositionError {
    /// Fewer than two.
    #[error("{0} statements: a composition takes at least two")]
    Few(usize),
    /// Statements without ε, δ, relation or mechanisms.
    #[error("statement {0} claims no (ε, δ) of a mechanism")]
    NoClaim(usize),
    /// A δ outside its range.
    #[error("δ = {0}: a number from 0 up to, but not, 1 is needed")]
    Delta(f64),
    /// Claims for neighbours of other kinds do not add up.
    #[error("statement {number} is about {found}, the first about {first}: such claims do not add up")]
    Relation {
        /// The statement, counted from 1.
        number: usize,
        /// Its relation and unit.
        found: String,
        /// Those of the first one.
        first: String,
    },
    /// A δ that no accountant of these mechanisms reaches, below that of basic composition.
    #[error("{error}; at δ = {delta:e}, the sum of the runs', basic composition gives ε = {epsilon}")]
    Unreached {
        /// The accountant's refusal.
        error: PrivacyError,
        /// Σ ε.
        epsilon: f64,
        /// Σ δ.
        delta: f64,
    },
}

impl Composed {
    /// The guarantee of all `statements` together at `delta`, which by default is the sum of theirs.
    ///
    /// The composition of the runs is one mechanism, all of theirs in turn, and the accountant that finds least gives its ε:
    /// exact for Gaussian noise, `μ² = Σ μ_i²`, numerically exact where privacy losses are discretised. To it the ε of private bounds are
    /// added, and the ε of selections, whose δ_i are taken from `delta`. Where `delta` is at least Σ δ_i and Σ ε_i is less, that is taken
    /// (basic composition).
    ///
    /// # Privacy
    /// Each run may depend on all that was released before, as accountants of adaptive composition allow, but for what its mechanism
    /// states: noise, sampling and steps of every run, and the number of runs, must not follow from what was released; where they do, a
    /// [`Filter`](super::Filter) adds up. Runs on parts
    /// of the rows are covered, too: a row that a run never reads costs nothing there.
    ///
    /// ```
    /// use rounds_algorithms::prelude::*;
    /// use rounds_algorithms::privacy::{Composed, PrivacyError};
    ///
    /// let run = |noise_multiplier: f64| -> Result<PrivacyStatement, PrivacyError> {
    ///     let mechanism = Mechanism::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations: 1 };
    ///     Ok(PrivacyStatement {
    ///         epsilon: Some(Accountant::Gdp.epsilon(&mechanism, Adjacency::ZeroOut, 1e-5)?),
    ///         delta: Some(1e-5),
    ///         adjacency: Some(Adjacency::ZeroOut),
    ///         mechanisms: vec![mechanism],
    ///         ..PrivacyStatement::none("")
    ///     })
    /// };
    /// // Two runs with √2 times the noise cost what one costs.
    /// let half = run(2_f64.sqrt())?;
    /// let both = Composed::new(&[&half, &half], Some(1e-5))?;
    /// assert!((both.epsilon / run(1.0)?.epsilon.unwrap() - 1.0).abs() < 1e-9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CompositionError`].
    pub fn new(statements: &[&PrivacyStatement], delta: Option<f64>) -> Result<Self, CompositionError> {
        if statements.len() < 2 {
            return Err(CompositionError::Few(statements.len()));
        }
        if let Some(delta) = delta.filter(|delta| !(0.0..1.0).contains(delta)) {
            return Err(CompositionError::Delta(delta));
        }
        // Rounded up, as all of ε and δ.
        let sum = |a: f64, b: f64| if a == 0.0 || b == 0.0 { a + b } else { (a + b).next_up() };
        let mut about = None;
        let (mut mechanisms, mut basic, mut bounds, mut reserved) = (Vec::new(), (0.0_f64, 0.0_f64), 0.0_f64, 0.0_f64);
        for (number, statement) in (1..).zip(statements) {
            let (Some(epsilon), Some(delta), Some(adjacency)) =
                (statement.epsilon, statement.delta, statement.adjacency)
            else {
                return Err(CompositionError::NoClaim(number));
            };
            if statement.mechanisms.is_empty() && statement.selection.is_none() {
                return Err(CompositionError::NoClaim(number));
            }
            // Ids in a file have no name: their number tells them apart.
            let count = statement.public.iter().find(|fact| fact.starts_with("the number of units"));
            let count = count.map_or("", String::as_str);
            let own = (adjacency, statement.unit.as_str(), count);
            let first = *about.get_or_insert(own);
            if own != first {
                let name = |(adjacency, unit, count): (Adjacency, &str, &str)| {
                    let count = if count.is_empty() { String::new() } else { format!(" ({count})") };
                    format!("{adjacency} of one {unit}{count}")
                };
                let [found, first] = [own, first].map(name);
                return Err(CompositionError::Relation { number, found, first });
            }
            mechanisms.extend(statement.mechanisms.iter().cloned());
            basic = (sum(basic.0, epsilon), sum(basic.1, delta));
            // Of a selection (ε, δ) alone is composed.
            let of_selection = statement.selection.as_ref().map(|_| (epsilon, delta));
            bounds = sum(bounds, of_selection.map_or(statement.bounds_epsilon.unwrap_or(0.0), |(epsilon, _)| epsilon));
            reserved = sum(reserved, of_selection.map_or(0.0, |(_, delta)| delta));
        }
        let (adjacency, unit, _) = about.expect("two statements");
        let delta = delta.unwrap_or(basic.1);
        let mechanism = Mechanism::Composition(mechanisms);
        let with = |accountant: Accountant| {
            let expected = "above the sum of the selections', which counts by itself";
            error::checked(delta, reserved == 0.0 || delta > reserved, "delta", expected, "raise it")?;
            Ok((accountant.epsilon(&mechanism, adjacency, delta - reserved)?, accountant))
        };
        let mut found = with(Accountant::default_for(&mechanism));
        for other in [Accountant::Pld, Accountant::Rdp] {
            let least = found.as_ref().map_or(f64::INFINITY, |(least, _)| *least);
            // Gaussian noise alone is accounted for exactly.
            if !matches!(found, Ok((_, Accountant::Gdp)))
                && let Ok(better) = with(other)
                && better.0 < least
            {
                found = Ok(better);
            }
        }
        // A given δ may be the sum but for its last bits, which were rounded up.
        let is_basic = basic.1 <= delta * (1.0 + 1e-12);
        let delta = if is_basic { delta.max(basic.1) } else { delta };
        let (epsilon, accountant) = match found.map(|(epsilon, accountant)| (sum(epsilon, bounds), accountant)) {
            Ok((epsilon, accountant)) if !is_basic || epsilon <= basic.0 => (epsilon, Some(accountant)),
            Err(error) if !is_basic => {
                return Err(CompositionError::Unreached { error, epsilon: basic.0, delta: basic.1 });
            }
            _ => (basic.0, None),
        };
        Ok(Composed { epsilon, delta, adjacency, unit: unit.to_owned(), accountant, basic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::Sampling;
    use crate::privacy::examples::{assert_relative, gaussian, laplace, poisson};

    fn statement(mechanism: Mechanism, adjacency: Adjacency, delta: f64) -> PrivacyStatement {
        let accountant = Accountant::default_for(&mechanism);
        PrivacyStatement {
            epsilon: Some(accountant.epsilon(&mechanism, adjacency, delta).unwrap()),
            delta: Some(delta),
            adjacency: Some(adjacency),
            mechanisms: vec![mechanism],
            ..PrivacyStatement::none("")
        }
    }

    #[test]
    fn halves_of_a_run_cost_what_the_run_costs() {
        for (whole, half, accountant) in [
            (poisson(1.0, 0.01, 200), poisson(1.0, 0.01, 100), Accountant::Pld),
            (laplace(10.0, 1.0, 200), laplace(10.0, 1.0, 100), Accountant::Pld),
        ] {
            let half = statement(half, Adjacency::AddRemove, 1e-6);
            let both = Composed::new(&[&half, &half], None).unwrap();
            assert_eq!(both.accountant, Some(accountant));
            assert!(both.delta >= 2e-6 && both.delta < 2.000_001e-6);
            let expected = accountant.epsilon(&whole, Adjacency::AddRemove, both.delta).unwrap();
            assert_relative(both.epsilon, expected, 2e-5, "two halves");
            assert!(both.epsilon < both.basic.0);
        }
    }

    #[test]
    fn unlike_runs_cost_at_least_the_greater_and_at_most_both() {
        let runs = [gaussian(2.0), poisson(1.0, 0.05, 50), laplace(3.0, 1.0, 2)];
        let runs = runs.map(|mechanism| statement(mechanism, Adjacency::ZeroOut, 1e-6));
        let all = Composed::new(&runs.each_ref(), None).unwrap();
        assert_eq!(all.accountant, Some(Accountant::Pld));
        let greatest = runs.iter().filter_map(|run| run.epsilon).fold(0.0, f64::max);
        assert!(all.epsilon < all.basic.0 && all.epsilon > greatest, "{all:?}");
    }

    #[test]
    fn private_bounds_add_up_and_the_smaller_bound_is_taken() {
        let mut bounded = statement(gaussian(2.0), Adjacency::ReplaceOne, 1e-6);
        let plain = bounded.clone();
        bounded = bounded.after_private_bounds(0.5);
        let both = Composed::new(&[&bounded, &plain], Some(1e-6)).unwrap();
        let gaussians = Composed::new(&[&plain, &plain], Some(1e-6)).unwrap();
        assert_relative(both.epsilon, gaussians.epsilon + 0.5, 1e-12, "bounds");
        assert_eq!(both.basic.0, (bounded.epsilon.unwrap() + plain.epsilon.unwrap()).next_up());
        // Pure claims stay pure.
        let pure = statement(laplace(10.0, 1.0, 1), Adjacency::ReplaceOne, 0.0);
        let both = Composed::new(&[&pure, &pure], None).unwrap();
        assert_eq!(both.delta, 0.0);
        assert_relative(both.epsilon, 2.0 * pure.epsilon.unwrap(), 1e-12, "pure claims");
        assert!(Composed::new(&[&plain, &plain], Some(2e-6)).unwrap().delta >= both.basic.1);
        // A stated ε that is smaller than what an accountant finds, as of a run with a bound of its own.
        let small = PrivacyStatement { epsilon: Some(0.01), ..plain.clone() };
        let both = Composed::new(&[&small, &small], None).unwrap();
        assert_eq!((both.accountant, both.epsilon), (None, both.basic.0));
        assert!(Composed::new(&[&small, &small], Some(1e-6)).unwrap().epsilon > both.epsilon);
        let refused = Composed::new(&[&plain, &plain], Some(0.0)).unwrap_err();
        assert!(refused.to_string().contains("basic composition gives"), "{refused}");
    }

    /// Values of a reference with discretised losses of its own; the last one of dp-accounting 0.6.0 at a step of 5e-5 (at 1e-4 it has 2.222096, above
    /// what bounds from both sides allow). Never below them by more than 1e-6.
    #[test]
    fn laplace_batches_and_unlike_runs_cost_what_a_reference_says() {
        let within = |found: f64, expected: f64, tolerance: f64, what: &str| {
            let error = found / expected - 1.0;
            assert!((-tolerance..1e-4).contains(&error), "{what}: {found} for {expected}");
        };
        for (scale, rate, steps, delta, expected) in [
            (1.0, 0.01, 1_000, 1e-5, 1.12378),
            (2.0, 0.1, 200, 1e-6, 3.13468),
            (0.5, 0.02, 500, 1e-5, 4.02385),
            (3.0, 1.0, 30, 1e-6, 8.39622),
        ] {
            let sampling = if rate == 1.0 { Sampling::FullBatch } else { Sampling::Poisson { rate } };
            let mechanism = Mechanism::Laplace { scale, l1_sensitivity: 1.0, sampling, steps };
            let found = Accountant::Pld.epsilon(&mechanism, Adjacency::AddRemove, delta).unwrap();
            // The reference is printed with five digits.
            within(found, expected, 1e-5, &format!("Laplace of scale {scale}, rate {rate}"));
        }
        let small = gaussian(20.0);
        for (runs, delta, expected) in [
            (vec![poisson(1.0, 0.01, 1_000), gaussian(5.0)], 1e-5, 1.992_490),
            (
                vec![poisson(2.0, 0.02, 1_500), poisson(1.5, 0.005, 4_000), small.clone(), small.clone(), small],
                1e-6,
                2.222_062,
            ),
        ] {
            let runs: Vec<_> = runs.into_iter().map(|run| statement(run, Adjacency::AddRemove, delta)).collect();
            let all = Composed::new(&runs.iter().collect::<Vec<_>>(), Some(delta)).unwrap();
            assert_eq!(all.accountant, Some(Accountant::Pld));
            within(all.epsilon, expected, 1e-6, "runs");
        }
    }

    #[test]
    fn a_selection_adds_its_epsilon_and_delta_and_never_the_mechanism_of_a_trial() {
        let plain = statement(gaussian(2.0), Adjacency::ZeroOut, 1e-6);
        let selection = crate::privacy::SelectionStatement {
            trials: crate::privacy::TrialCount::Poisson { mean: 2.0 },
            expected_trials: 2.0,
            grid_sha256: String::new(),
            score: String::new(),
            score_sha256: None,
            trial_epsilon: 0.1,
            trial_delta: 1e-6,
            mechanisms: vec![gaussian(20.0)],
            bound: crate::privacy::selection::Bound::Renyi,
        };
        let claimed = PrivacyStatement { claim: crate::privacy::Claim::Simulation, ..plain.clone() };
        let selected = claimed.selected((1.0, 1e-6), 1_000, selection);
        assert!(selected.mechanisms.is_empty() && selected.accountant.is_none());
        let both = Composed::new(&[&selected, &plain], None).unwrap();
        assert_relative(both.epsilon, 1.0 + plain.epsilon.unwrap(), 1e-12, "basic");
        // Of a greater δ the rest is the other mechanism's.
        let both = Composed::new(&[&selected, &plain], Some(1e-4)).unwrap();
        let rest = Accountant::Gdp.epsilon(&gaussian(2.0), Adjacency::ZeroOut, 1e-4 - 1e-6).unwrap();
        assert_relative(both.epsilon, 1.0 + rest, 1e-12, "with the rest of δ");
        let selections = Composed::new(&[&selected, &selected], None).unwrap();
        assert_eq!((selections.accountant, selections.epsilon), (None, 2.0_f64.next_up()));
        assert!(Composed::new(&[&selected, &selected], Some(1e-6)).is_err());
        let refused = Composed::new(&[&selected, &plain], Some(1e-6)).unwrap_err().to_string();
        assert!(refused.starts_with("delta must be above the sum of the selections'"), "{refused}");
    }

    #[test]
    fn claims_of_other_kinds_are_refused() {
        let one = statement(gaussian(2.0), Adjacency::ZeroOut, 1e-6);
        let other = statement(gaussian(2.0), Adjacency::ReplaceOne, 1e-6);
        let people = PrivacyStatement { unit: "user".into(), ..one.clone() };
        let none = one.clone().revoked("no");
        let untold = PrivacyStatement { mechanisms: Vec::new(), ..one.clone() };
        let said = |statements: &[&PrivacyStatement]| Composed::new(statements, None).unwrap_err().to_string();
        assert!(said(&[&one]).contains("at least two"));
        assert!(said(&[&one, &other]).contains("replace-one of one example"));
        assert!(said(&[&one, &people]).contains("zero-out of one user"));
        assert!(said(&[&one, &none]).contains("statement 2 claims no"));
        assert!(said(&[&one, &untold]).contains("of a mechanism"));
        for delta in [-1e-6, 1.0, 7.0, f64::NAN] {
            assert!(matches!(Composed::new(&[&one, &one], Some(delta)), Err(CompositionError::Delta(_))), "{delta}");
        }
    }
}
