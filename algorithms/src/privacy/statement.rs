//! The privacy statement of a run: what is guaranteed, for whom, by which argument. Fails closed: what cannot be proven is
//! not called private.

use std::borrow::Cow;

use rounds_kernels::features::Norm;
use serde::{Deserialize, Serialize};

use super::accountant::Accountant;
use super::calibration::CalibrationMemory;
use super::error::{self, PrivacyError};
use super::gdp;
use super::mechanism::Mechanism;
use super::sampling::Sampling;
use super::selection::SelectionStatement;
use crate::plural;
use crate::problem::adjacency::Adjacency;
use crate::problem::{PublicProblem, Relation, UnitDeclaration};

/// The claim of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Noise and sampling come from a secret key of the operating system: the model may be released.
    Release,
    /// Proven for ideal noise, drawn here from a reproducible generator: for measurements only.
    Simulation,
    /// No guarantee.
    #[default]
    None,
}

/// Source of noise and sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseSource {
    /// Seeded, reproducible, not secret.
    Xoshiro,
    /// One ChaCha20 key taken from the operating system for noise and sampling.
    Chacha20,
}

/// Representation of the noise in the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    /// Sums are integers of a public lattice, and the real-valued sum plus noise is rounded to it exactly: what the theorems say
    /// of real numbers holds for what is released.
    Exact,
    /// The same, with margins and row coefficients of 16 bits instead of 24.
    #[serde(rename = "exact, 16-bit")]
    Exact16,
    /// Floating-point sums and noise stand for real ones.
    Idealised,
}

impl Arithmetic {
    /// What is released is exact.
    pub fn is_exact(self) -> bool {
        matches!(self, Arithmetic::Exact | Arithmetic::Exact16)
    }
}

/// The note to a run that spends its whole budget on each of several disjoint chunks of its rows.
pub const DISJOINT_CHUNKS: &str = "disjoint chunks: each spends the whole budget, none is composed";

/// A public choice of every run, but for the winner of a selection.
const HYPER_PARAMETERS: &str = "hyper-parameters, which must be chosen without the rows";

/// The reason against δ = 0 under Laplace noise in floating point.
const FINITE_SUPPORT: &str = "δ = 0 holds for real-valued Laplace noise only: floating-point noise takes finitely many \
                              values, and which ones depends on the sum; take the rdp accountant for δ > 0";

/// Description of a run, the input of its [`PrivacyStatement`].
#[derive(Debug, Clone)]
pub struct PrivateRun<'a> {
    /// Everything the run releases about the data.
    pub mechanism: &'a Mechanism,
    /// Noise multiplier of the [moments](crate::moments) of the rows, if they were released before it.
    pub moments_noise: Option<f64>,
    /// The accountant that turns it into (ε, δ).
    pub accountant: Accountant,
    /// The neighbouring relation.
    pub adjacency: Adjacency,
    /// δ; 0 is allowed for the pure accountant.
    pub delta: f64,
    /// Clip norm of a per-example term.
    pub clip_norm: f64,
    /// The norm in which terms are clipped.
    pub norm: Norm,
    /// The public part of the problem: the domain, and the number of rows for the warning about δ.
    pub problem: &'a PublicProblem,
    /// Source of noise and sampling.
    pub noise_source: NoiseSource,
    /// Representation of the noise.
    pub arithmetic: Arithmetic,
}

impl PrivateRun<'_> {
    /// All mechanisms of the run.
    fn composed(&self) -> Cow<'_, Mechanism> {
        self.moments_noise.map_or(Cow::Borrowed(self.mechanism), |noise| {
            Cow::Owned(Mechanism::after_moments(Some(noise), self.mechanism.clone()))
        })
    }
}

/// The guarantee of a run: the keys of `privacy{…}` in every result, one a field, hence more fields than elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PrivacyStatement {
    /// Release, simulation or none.
    pub claim: Claim,
    /// ε, an upper bound; nothing without a claim.
    pub epsilon: Option<f64>,
    /// δ; nothing without a claim.
    pub delta: Option<f64>,
    /// The neighbouring relation.
    pub adjacency: Option<Adjacency>,
    /// Unit of protection.
    pub unit: String,
    /// The accountant.
    pub accountant: Option<Accountant>,
    /// The sampler that was assumed and run.
    pub sampling: Option<String>,
    /// The mechanism in words.
    pub mechanism: Option<String>,
    /// Every mechanism of the run, in order and in full: with accountant, relation and δ, ε follows from them.
    pub mechanisms: Vec<Mechanism>,
    /// The best of a random number of trials is released: what ε follows from, in place of `mechanisms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionStatement>,
    /// The norm in which terms are clipped and sensitivities are stated.
    pub norm: Option<String>,
    /// The part of ε that private bounds of the columns took, before the mechanisms (basic composition).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds_epsilon: Option<f64>,
    /// Noise multiplier of the moments of the rows that its features follow from: the first of `mechanisms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments_noise: Option<f64>,
    /// The facts that the guarantee takes for public.
    pub public: Vec<String>,
    /// The declared domain.
    pub domain: Option<DomainStatement>,
    /// The guarantee that follows for replacing one row by any other, labels included.
    pub replace_one: Option<ReplaceOne>,
    /// Noise standard deviation / clip norm.
    pub noise_multiplier: Option<f64>,
    /// Clip norm of a per-example term.
    pub clip_norm: Option<f64>,
    /// Source of noise and sampling.
    pub noise_source: Option<NoiseSource>,
    /// Representation of the noise.
    pub arithmetic: Option<Arithmetic>,
    /// Facts that weaken the statement without voiding it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The reason for the lack of a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The declared domain of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainStatement {
    /// SHA-256 of its canonical form ([`Domain::digest`](crate::problem::Domain::digest)); it says nothing of the rows but
    /// private bounds, if it has them.
    pub sha256: String,
    /// Place of its declaration.
    pub source: String,
}

/// A guarantee for replacing one row by any other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReplaceOne {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

impl ReplaceOne {
    /// Group privacy for two rows of a claim of (ε, δ).
    fn of_two_steps(epsilon: f64, delta: f64) -> Self {
        Self { epsilon: 2.0 * epsilon, delta: (delta * (1.0 + epsilon.exp())).min(1.0) }
    }
}

impl PrivacyStatement {
    /// The statement of `run`: its ε is computed here, by the run's accountant from the run's mechanism, so that nothing can
    /// be claimed that was not proven. Anything wrong gives `claim: none` with the reason.
    pub fn new(run: &PrivateRun<'_>) -> Self {
        Self::remembered(run, &CalibrationMemory::default())
    }

    /// The same with an ε that was computed before.
    pub(crate) fn remembered(run: &PrivateRun<'_>, memory: &CalibrationMemory) -> Self {
        let pure_in_floats = run.arithmetic == Arithmetic::Idealised && run.delta == 0.0;
        let refused = (pure_in_floats && run.noise_source == NoiseSource::Chacha20).then_some(FINITE_SUPPORT);
        let proven = match run.problem.unclaimable().or(refused) {
            Some(reason) => Err(reason.to_owned()),
            None => Self::proven_epsilon(run, memory).map_err(|error| error.to_string()),
        };
        let epsilon = match proven {
            Ok(epsilon) => epsilon,
            Err(reason) => return Self { reason: Some(reason), ..Self::description(run) },
        };
        let weak_delta = PrivacyWarning::for_delta(run.delta, run.problem.rows()).map(|warning| warning.to_string());
        Self {
            claim: match run.noise_source {
                NoiseSource::Chacha20 => Claim::Release,
                NoiseSource::Xoshiro => Claim::Simulation,
            },
            epsilon: Some(epsilon),
            delta: Some(run.delta),
            replace_one: Some(Self::for_replacement(run, epsilon)),
            notes: weak_delta.into_iter().chain(pure_in_floats.then(|| FINITE_SUPPORT.to_owned())).collect(),
            reason: None,
            ..Self::description(run)
        }
    }

    /// The statement of a run that is not private.
    pub fn none(reason: impl Into<String>) -> Self {
        Self { unit: "example".into(), reason: Some(reason.into()), ..Self::default() }
    }

    /// Takes the claim back, for instance because a constant was estimated from the data.
    #[must_use]
    pub fn revoked(self, reason: impl Into<String>) -> Self {
        Self {
            claim: Claim::None,
            epsilon: None,
            delta: None,
            replace_one: None,
            bounds_epsilon: None,
            reason: Some(reason.into()),
            ..self
        }
    }

    /// The guarantee of this run after private bounds at ε, which it may depend on in every way: both budgets add up, and δ stays.
    /// Replacing a row is two steps of a claim about one.
    #[must_use]
    pub fn after_private_bounds(self, epsilon: f64) -> Self {
        let sum = |a: f64, b: f64| (a + b).next_up();
        let steps = if self.adjacency == Some(Adjacency::ReplaceOne) { 1.0 } else { 2.0 };
        let replaced =
            |replaced: ReplaceOne| ReplaceOne { epsilon: sum(replaced.epsilon, steps * epsilon), ..replaced };
        Self {
            epsilon: self.epsilon.map(|main| sum(main, epsilon)),
            replace_one: self.replace_one.map(replaced),
            bounds_epsilon: self.epsilon.map(|_| epsilon),
            ..self
        }
    }

    /// The guarantee of a selection whose winner this run is, at (ε, δ): it claims what every trial claims. The mechanisms of a trial stand in
    /// `selection` alone, so that no reader adds up the winner's own.
    #[must_use]
    pub fn selected(self, (epsilon, delta): (f64, f64), examples: usize, selection: SelectionStatement) -> Self {
        if self.claim == Claim::None {
            return self;
        }
        let replaced = match self.adjacency {
            Some(Adjacency::ReplaceOne) => ReplaceOne { epsilon, delta },
            _ => ReplaceOne::of_two_steps(epsilon, delta),
        };
        let weak_delta = PrivacyWarning::for_delta(delta, examples).map(|warning| warning.to_string());
        // What is said of δ is said of a trial's.
        let notes = self.notes.into_iter().filter(|note| !note.starts_with("delta = "));
        let fact =
            "the grid of hyper-parameters, the law of the number of trials and the score, chosen without the rows";
        Self {
            epsilon: Some(epsilon),
            delta: Some(delta),
            replace_one: Some(replaced),
            accountant: None,
            mechanism: Some(format!("the best of a random number of trials ({})", selection.trials)),
            mechanisms: Vec::new(),
            // The winner's were chosen by its score.
            public: self.public.into_iter().filter(|of| of != HYPER_PARAMETERS).chain([fact.to_owned()]).collect(),
            notes: weak_delta.into_iter().chain(notes).collect(),
            selection: Some(selection),
            ..self
        }
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The guarantee of zero-out or add/remove at (ε, δ) for replacing one row: a row is replaced by way of the null row (or
    /// of its absence), two steps. For a Gaussian mechanism that is 2μ; in general (2ε, (1 + e^ε)δ), group privacy for two.
    fn for_replacement(run: &PrivateRun<'_>, epsilon: f64) -> ReplaceOne {
        let delta = run.delta;
        // Where batches are drawn without replacement the claim is replace-one's already.
        let analysed_as = |sampling: Sampling| sampling.analysed_as(run.adjacency);
        let mechanism = run.composed();
        if mechanism.sampling().map_or(run.adjacency, analysed_as) == Adjacency::ReplaceOne {
            return ReplaceOne { epsilon, delta };
        }
        match gdp::mu(&mechanism, run.adjacency).and_then(|mu| super::gaussian::epsilon(delta, 2.0 * mu)) {
            Ok(epsilon) => ReplaceOne { epsilon, delta },
            Err(_) => ReplaceOne::of_two_steps(epsilon, delta),
        }
    }

    /// The facts that the guarantee takes for public.
    fn public_facts(problem: &PublicProblem, adjacency: Adjacency) -> Vec<String> {
        let of = if problem.unit().is_some() { "unit" } else { "row" };
        let rows = match problem.relation() {
            Relation::AddRemove { public_rows } => format!(
                "a {of} count of {public_rows} that was chosen without the rows; the true one is private, at most {}",
                problem.most_rows()
            ),
            Relation::ZeroOut | Relation::ReplaceOne => {
                format!("the number of {of}s, {}, and their order", problem.rows())
            }
        };
        let unit = problem.unit().map(|unit| format!("a unit: {unit}; the number of a unit's rows is private"));
        let network = problem
            .network()
            .map(|network| format!("a network ({}), whose initial weights follow from a public seed", network.text()));
        let shape = format!(
            "{} and {}, from the declared domain",
            plural(problem.model().features, "feature"),
            plural(problem.model().outputs, "output")
        );
        let relation = match (adjacency, &unit) {
            (Adjacency::ZeroOut, None) => {
                "compared: any data set with the one that has the null row in place of one row"
            }
            (Adjacency::AddRemove, None) => "compared: any data set with the one that has one row more or less",
            (Adjacency::ReplaceOne, None) => "compared: any two data sets that differ in one row",
            (Adjacency::ZeroOut, _) => "compared: any data set with the one in which one unit contributes nothing",
            (Adjacency::AddRemove, _) => "compared: any data set with the one that has one unit more or less",
            (Adjacency::ReplaceOne, _) => {
                "compared: any two data sets that differ in one unit's rows, their number included"
            }
        };
        [relation.to_owned()]
            .into_iter()
            .chain(unit)
            .chain([rows, shape])
            .chain(network)
            .chain([HYPER_PARAMETERS.to_owned()])
            .collect()
    }

    /// The unit of protection of a domain, as statements name it.
    pub fn name_of_unit(unit: Option<&UnitDeclaration>) -> String {
        match unit {
            None => "example".to_owned(),
            Some(UnitDeclaration { column: Some(column), .. }) => format!("value of column {column:?}"),
            Some(_) => "unit".to_owned(),
        }
    }

    fn proven_epsilon(run: &PrivateRun<'_>, memory: &CalibrationMemory) -> Result<f64, PrivacyError> {
        error::positive(run.clip_norm, "the clip norm", "without a clip norm no sensitivity is bounded")?;
        let epsilon = memory.epsilon(run.accountant, &run.composed(), run.adjacency, run.delta)?;
        // A bound that is not a number proves nothing.
        let finite = epsilon.is_finite();
        error::checked(epsilon, finite, "the proven epsilon", "finite", "raise the noise multiplier")
    }

    fn description(run: &PrivateRun<'_>) -> Self {
        let mechanism = run.composed();
        let before = run.moments_noise.map_or("", |_| "moments of the rows with Gaussian noise, then ");
        Self {
            adjacency: Some(run.adjacency),
            accountant: Some(run.accountant),
            sampling: run.mechanism.sampling().map(|sampling| sampling.name().into()),
            // Mechanisms in a list do not tell a composition of one from that one.
            mechanism: Some(format!("{before}{}", run.mechanism.single().unwrap_or(run.mechanism))),
            mechanisms: mechanism.steps().into_iter().cloned().collect(),
            moments_noise: run.moments_noise,
            norm: Some(if run.norm == Norm::L1 { "l1" } else { "l2" }.to_owned()),
            public: Self::public_facts(run.problem, run.adjacency),
            domain: run.problem.domain().map(|domain| DomainStatement {
                sha256: crate::hexadecimal(&domain.digest()),
                source: domain.source.to_string(),
            }),
            noise_multiplier: run.mechanism.noise_multiplier(),
            clip_norm: Some(run.clip_norm),
            noise_source: Some(run.noise_source),
            arithmetic: Some(run.arithmetic),
            unit: Self::name_of_unit(run.problem.unit()),
            ..Self::none("")
        }
    }
}

/// A warning about a valid δ ≥ 1/n: a mechanism that publishes one random example in full would pass.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "delta = {delta:e} is at least 1/n for n = {examples}: publishing one random example in full would satisfy it; choose \
     delta well below {:.1e}", 1.0 / *.examples as f64
)]
pub struct PrivacyWarning {
    delta: f64,
    examples: usize,
}

impl PrivacyWarning {
    /// The warning for δ at n examples, if δ ≥ 1/n.
    pub fn for_delta(delta: f64, examples: usize) -> Option<Self> {
        (delta * examples as f64 >= 1.0).then_some(Self { delta, examples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privacy::examples::{gaussian, poisson, without_replacement};
    use crate::problem::{Bounds, Columns, Domain, DomainSource, Label, Storage};
    use rounds_kernels::loss::Loss;
    use std::sync::{Arc, LazyLock};

    static MECHANISM: Mechanism = poisson(1.1, 0.01, 100);

    /// A declared problem of `rows` rows.
    fn problem(rows: usize) -> PublicProblem {
        let domain = Domain {
            relation: Relation::AddRemove { public_rows: rows },
            columns: Columns::Matrix { count: 3, bounds: Bounds::new(0.0, 1.0).unwrap() },
            storage: Storage::Dense,
            label: Label::Classes(vec!["a".into(), "b".into()]),
            label_column: None,
            dropped: Vec::new(),
            test_is_public: true,
            unit: None,
            format: None,
            source: DomainSource::Arguments,
        };
        PublicProblem::of_domain("declared", &Arc::new(domain), 1, Loss::Logistic, 0.0).unwrap()
    }

    static PROBLEM: LazyLock<PublicProblem> = LazyLock::new(|| problem(60_000));

    fn run(mechanism: &Mechanism) -> PrivateRun<'_> {
        PrivateRun {
            mechanism,
            moments_noise: None,
            accountant: Accountant::Rdp,
            adjacency: Adjacency::AddRemove,
            delta: 1e-5,
            clip_norm: 1.0,
            norm: Norm::L2,
            problem: &PROBLEM,
            noise_source: NoiseSource::Xoshiro,
            arithmetic: Arithmetic::Exact,
        }
    }

    #[test]
    fn a_statement_has_exactly_the_designed_keys() {
        let value = serde_json::to_value(PrivacyStatement::new(&run(&MECHANISM))).unwrap();
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        let designed = "accountant adjacency arithmetic claim clip_norm delta domain epsilon mechanism mechanisms \
                        noise_multiplier noise_source norm public replace_one sampling unit";
        assert_eq!(keys, designed.split(' ').collect::<Vec<_>>());
        for (key, expected) in [
            ("claim", "simulation"),
            ("adjacency", "add-remove"),
            ("sampling", "poisson"),
            ("accountant", "rdp"),
            ("unit", "example"),
            ("noise_source", "xoshiro"),
            ("arithmetic", "exact"),
        ] {
            assert_eq!(value[key], expected);
        }
    }

    #[test]
    fn a_statement_is_that_of_the_mechanisms_in_it() {
        let schedule = Mechanism::laplace_schedule(&[10.0, 12.0, 14.0], 1.0, Sampling::FullBatch);
        let laplace =
            PrivateRun { accountant: Accountant::Pure, delta: 0.0, adjacency: Adjacency::ZeroOut, ..run(&schedule) };
        for run in [run(&MECHANISM), laplace] {
            let statement = PrivacyStatement::new(&run);
            let text = serde_json::to_string(&statement).unwrap();
            let read: PrivacyStatement = serde_json::from_str(&text).unwrap();
            let mechanism = Mechanism::Composition(read.mechanisms.clone());
            let mechanism = mechanism.single().unwrap_or(&mechanism);
            assert_eq!(PrivacyStatement::new(&PrivateRun { mechanism, ..run.clone() }), read);
            assert_eq!(read.mechanisms.len(), run.mechanism.steps().len());
        }
    }

    #[test]
    fn replacing_a_row_is_stated_at_two_mu_or_by_group_privacy() {
        let gaussian = gaussian(2.0);
        let statement = |mechanism, accountant, adjacency| {
            PrivacyStatement::new(&PrivateRun { accountant, adjacency, ..run(mechanism) })
        };
        let zeroed = statement(&gaussian, Accountant::Gdp, Adjacency::ZeroOut);
        let replaced = statement(&gaussian, Accountant::Gdp, Adjacency::ReplaceOne);
        assert_eq!(zeroed.replace_one.unwrap().epsilon, replaced.epsilon.unwrap());
        let sampled = statement(&MECHANISM, Accountant::Rdp, Adjacency::ZeroOut);
        let (epsilon, general) = (sampled.epsilon.unwrap(), sampled.replace_one.unwrap());
        assert_eq!((general.epsilon, general.delta), (2.0 * epsilon, 1e-5 * (1.0 + epsilon.exp())));
        // Without replacement zero-out is claimed at replace-one's ε already.
        let drawn = without_replacement(1.1, 10, 1_000, 100);
        let [zeroed, replaced] = [Adjacency::ZeroOut, Adjacency::ReplaceOne].map(|adjacency| {
            let statement = statement(&drawn, Accountant::Rdp, adjacency);
            (statement.epsilon.unwrap(), statement.replace_one.unwrap().epsilon)
        });
        assert_eq!((zeroed, zeroed.0), (replaced, zeroed.1));
    }

    #[test]
    fn only_the_secret_source_is_a_release() {
        let simulated = PrivacyStatement::new(&run(&MECHANISM));
        assert_eq!(simulated.claim, Claim::Simulation);
        let secure = PrivateRun { noise_source: NoiseSource::Chacha20, ..run(&MECHANISM) };
        let released = PrivacyStatement::new(&secure);
        assert_eq!(released.claim, Claim::Release);
        assert_eq!(released.epsilon, simulated.epsilon);
    }

    #[test]
    fn pure_privacy_is_released_in_exact_arithmetic_only() {
        let schedule = Mechanism::laplace_schedule(&[10.0, 12.0, 14.0], 1.0, Sampling::FullBatch);
        let laplace = |arithmetic| {
            PrivacyStatement::new(&PrivateRun {
                accountant: Accountant::Pure,
                delta: 0.0,
                adjacency: Adjacency::ZeroOut,
                norm: Norm::L1,
                noise_source: NoiseSource::Chacha20,
                arithmetic,
                ..run(&schedule)
            })
        };
        assert_eq!(laplace(Arithmetic::Exact).claim, Claim::Release);
        let refused = laplace(Arithmetic::Idealised);
        assert_eq!((refused.claim, refused.epsilon), (Claim::None, None));
    }

    #[test]
    fn what_cannot_be_proven_is_not_called_private() {
        let mut refused = [(); 4].map(|()| run(&MECHANISM));
        refused[0].accountant = Accountant::Gdp;
        refused[1].adjacency = Adjacency::ReplaceOne;
        refused[2].delta = 0.0;
        refused[3].clip_norm = f64::INFINITY;
        for run in refused {
            let statement = PrivacyStatement::new(&run);
            assert_eq!(statement.claim, Claim::None);
            assert_eq!((statement.epsilon, statement.delta), (None, None));
            assert!(statement.reason.is_some_and(|reason| !reason.is_empty()));
        }
        let tiny = gaussian(1e-200);
        let statement = PrivacyStatement::new(&PrivateRun { accountant: Accountant::Zcdp, ..run(&tiny) });
        assert_eq!(statement.claim, Claim::None, "an infinite bound is no bound");
    }

    #[test]
    fn private_bounds_add_their_epsilon_and_twice_as_much_for_a_replaced_row() {
        let main = PrivacyStatement::new(&run(&MECHANISM));
        let both = main.clone().after_private_bounds(0.5);
        assert_eq!(both.epsilon, main.epsilon.map(|epsilon| (epsilon + 0.5).next_up()));
        assert_eq!((both.delta, both.bounds_epsilon), (main.delta, Some(0.5)));
        let replaced = [&main, &both].map(|statement| statement.replace_one.unwrap());
        assert_eq!(replaced[1].epsilon, (replaced[0].epsilon + 1.0).next_up());
        assert_eq!(replaced[1].delta, replaced[0].delta);
        let gaussian = gaussian(2.0);
        let compared = PrivacyStatement::new(&PrivateRun {
            accountant: Accountant::Gdp,
            adjacency: Adjacency::ReplaceOne,
            ..run(&gaussian)
        });
        let steps = compared.clone().after_private_bounds(0.5).replace_one.unwrap().epsilon;
        assert_eq!(steps, (compared.replace_one.unwrap().epsilon + 0.5).next_up());
        let nothing = PrivacyStatement::none("drafted").after_private_bounds(0.5);
        assert_eq!((nothing.epsilon, nothing.bounds_epsilon), (None, None));
    }

    #[test]
    fn a_revoked_claim_keeps_its_description_but_no_numbers() {
        let statement = PrivacyStatement::new(&run(&MECHANISM)).revoked("the smoothness was estimated from the data");
        assert_eq!((statement.claim, statement.epsilon, statement.delta), (Claim::None, None, None));
        assert_eq!(statement.noise_multiplier, Some(1.1));
        let text = serde_json::to_string(&statement).unwrap();
        assert_eq!(serde_json::from_str::<PrivacyStatement>(&text).unwrap(), statement);
    }

    #[test]
    fn a_delta_of_one_over_n_is_noted_with_the_reason() {
        let statement = PrivacyStatement::new(&PrivateRun { problem: &problem(100_000), ..run(&MECHANISM) });
        assert!(statement.notes[0].contains("1/n"));
        assert_eq!(PrivacyWarning::for_delta(1e-6, 60_000), None);
        assert_eq!(PrivacyStatement::none("not private").with_note("a note").notes, ["a note"]);
    }
}
