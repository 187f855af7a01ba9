//! The third step of a run: its plan, and the statement of it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use rounds_algorithms::hexadecimal;
use rounds_algorithms::optimizers::{Prepared, Settings};
use rounds_algorithms::privacy::PrivacyStatement;
use rounds_algorithms::problem::{self, Domain, DomainSource, PublicProblem};
use rounds_kernels::instructions;
use rounds_kernels::random::StreamKey;

use super::error::FitError;
use super::load::Loaded;
use super::settings::Training;
use super::setup::{Setup, check_rows, draft_command};
use crate::checkpoint::Binding;
use crate::keyed::KeyedDigest;
use crate::model_file::{Given, NormBound, TrainedOn};
use crate::text::three_digits;

/// The plan of a run: what it claims, and what there is to say of it.
pub(super) struct Plan {
    pub(super) privacy: PrivacyStatement,
    pub(super) rounds: u64,
    /// Gradient queries of all rounds: their exact number if it is public, else the expected one.
    pub(super) expected_queries: u64,
    pub(super) parameters: BTreeMap<&'static str, String>,
    pub(super) warnings: Vec<String>,
    /// The facts that a resumed run must share, of a run that has any.
    pub(super) binding: Option<Binding>,
}

/// Prepares the optimiser, twice of a release: what the first plan says enters its key. Then states it.
pub(super) fn plan(loaded: &Loaded) -> Result<(Prepared, Plan), FitError> {
    let Setup { algorithm, settings, execution, source, .. } = &loaded.setup;
    let group = &execution.group;
    let (prepared, digest) = std::thread::scope(|scope| {
        let digest = loaded.setup.is_bound.then(|| scope.spawn(|| rows_digest(loaded)));
        let prepared = group.all_ok(algorithm.prepare(&loaded.problem, settings))?;
        Ok::<_, FitError>((prepared, digest.map(|digest| digest.join().expect("a digest"))))
    })?;
    let coefficients = settings.strategies.digest().map(|digest| hexadecimal(&digest));
    // Libraries round by the processor that they find. Ranks with other coefficients would draw other noise for one sum.
    group.check_same("factorization", coefficients.as_deref().unwrap_or_default())?;
    let values = (&prepared.mechanism, prepared.rounds, &prepared.parameters);
    let values = serde_json::to_string(&values).expect("names and values");
    let binding = digest.map(|rows| binding(loaded, &rows, coefficients, values));
    let prepared = match source {
        StreamKey::Simulation(_) => prepared,
        StreamKey::Release(_) => {
            let key = binding.as_ref().expect("every release is bound").key(source);
            // What is remembered of the plan makes the second one quick.
            group.all_ok(algorithm.prepare(&loaded.problem, &Settings { key, ..settings.clone() }))?
        }
    };
    group.all_ok(stated(loaded, prepared, binding))
}

/// The facts of a run that a resumed one must share, and that decide its key.
pub(super) fn binding(loaded: &Loaded, rows: &[u8], coefficients: Option<String>, plan: String) -> Binding {
    let setup = &loaded.setup;
    Binding {
        data: KeyedDigest::new(&setup.source, rows),
        build: (setup.execution.build)().identity(),
        isa: instructions::vector_extension().to_owned(),
        coefficients,
        parameters: setup.parameters.clone(),
        plan,
        booking: loaded.booking.as_ref().map(|booking| booking.run.clone()),
    }
}

/// The plan that states what is prepared, or the refusal of a release that must not be.
fn stated(loaded: &Loaded, prepared: Prepared, binding: Option<Binding>) -> Result<(Prepared, Plan), FitError> {
    let Loaded { setup, problem, .. } = loaded;
    let Setup { training, algorithm, .. } = setup;
    if loaded.released.as_ref().map(|released| released.noise) != prepared.privacy.moments_noise {
        let problem = "the plan of these rows is not the one by which their moments were released";
        return Err(FitError::argument("features", problem));
    }
    check_relation(training, problem, &prepared.privacy)?;
    let domain = problem.domain().map(|domain| &**domain);
    let mut privacy = of_run(prepared.privacy.clone(), &loaded.trained_on, domain);
    training.privacy.check_release(problem, &privacy)?;
    let drafted = DomainSource::Draft(training.data.data.clone());
    if problem.domain().is_some_and(|domain| *domain.source.of_columns() == drafted)
        && privacy.reason.as_deref() == problem.unclaimable()
        && let Some(command) = draft_command(training)
    {
        privacy.reason = privacy.reason.map(|reason| format!("{reason} (`{command}` writes it)"));
    }
    check_rows(problem.rows(), problem.public())?;
    let used = setup.factorization_used.as_ref();
    if used.is_some_and(|used| !used.load(Ordering::Relaxed)) {
        let problem = format!(
            "algorithm '{}' adds no correlated noise; take dp-mf, dp-memf, dp-ftrl or another of its family",
            algorithm.id
        );
        return Err(FitError::argument("factorization", problem));
    }
    let given = &training.privacy;
    let budget = [("`epsilon`", given.epsilon), ("`noise-multiplier`", given.noise_multiplier)];
    let budget = budget.into_iter().filter(|(_, value)| value.is_some() && !algorithm.private);
    let unread =
        budget.map(|(name, _)| format!("{name}: algorithm '{}' does not read it, it changes nothing", algorithm.id));
    let assumptions = prepared.warnings.iter().map(ToString::to_string);
    let warnings = setup.warnings.iter().cloned().chain(unread).chain(assumptions).collect();
    let expected_queries = expected_queries(&prepared, problem.public());
    let (rounds, parameters) = (prepared.rounds, prepared.parameters.clone());
    Ok((prepared, Plan { privacy, rounds, expected_queries, parameters, warnings, binding }))
}

/// The statement of a run for that of its noise: with the part that private bounds took, and notes on public treatments of the rows.
pub(crate) fn of_run(mut privacy: PrivacyStatement, data: &TrainedOn, domain: Option<&Domain>) -> PrivacyStatement {
    if let (Some(epsilon), Some(domain)) = (data.private_bounds, domain) {
        let (columns, relation) = (domain.numbers(), domain.relation);
        let note = format!(
            "bounds of numbers: one Laplace release of the counts of {columns} columns in public bins, {epsilon}-DP under {} for \
             all of them together (rounded Laplace noise of scale {}); the SHA-256 of the domain is that of the domain with these bounds",
            relation.adjacency(),
            three_digits(problem::noise_scale(columns, relation, epsilon))
        );
        privacy = privacy.after_private_bounds(epsilon).with_note(note);
    }
    if let Some(Given { unit, bound, .. }) = data.given {
        let clipped = bound.map(|of| format!(", of {:?} norm {} at most", of.norm, of.bound)).unwrap_or_default();
        privacy = privacy.with_note(format!("the run was given features of at most {unit}{clipped}, public constants"));
    }
    if let Some(map) = &data.features {
        let and = if map.moments().is_some() {
            " and of the noisy moments of all rows, whose release is the first mechanism,"
        } else {
            " alone"
        };
        privacy = privacy.with_note(format!("features are {map}, a function of each row{and} with public bounds"));
    }
    if let Some(NormBound { norm, bound }) = data.clip_features {
        let note = format!("every row of features is clipped to {norm:?} norm {bound}, a public constant");
        privacy = privacy.with_note(note);
    }
    if let Some(factor) = data.scale_features {
        privacy = privacy.with_note(format!("features are multiplied by {factor}, a public constant"));
    }
    if let Some(split) = data.test_split {
        let but = if data.private_bounds.is_some() { " but the counts of the private bounds" } else { "" };
        let of = if domain.is_some_and(|domain| domain.unit.is_some()) { "units" } else { "rows" };
        privacy = privacy.with_note(format!(
            "a part of {} of the {of} is kept for testing and enters no sum{but}; their positions follow from the number of \
             {of} and the seed {}, both public",
            split.fraction, split.seed
        ));
    }
    privacy
}

/// Digests of the rows and of the counts of private bounds.
fn rows_digest(loaded: &Loaded) -> Vec<u8> {
    let rows = loaded.digest.unwrap_or_else(|| loaded.problem.dataset().digest());
    [&rows[..], loaded.counted.as_ref().map_or(&[], |counts| &counts[..])].concat()
}

/// Refuses private bounds whose noise is drawn for another relation than the run would state.
pub(crate) fn check_relation(
    training: &Training,
    problem: &PublicProblem,
    privacy: &PrivacyStatement,
) -> Result<(), FitError> {
    let drawn_for = problem.relation().adjacency();
    match (training.data.declaration.private_bounds(), privacy.adjacency) {
        (Some(epsilon), Some(stated)) if stated != drawn_for => {
            let problem = format!(
                "the noise of the bounds is drawn for {drawn_for}, the relation of the domain, and the run would \
                 state {stated}; give the relation by `adjacency` or in the schema"
            );
            Err(FitError::argument(format!("bounds private:{epsilon}"), problem))
        }
        _ => Ok(()),
    }
}

/// The exact number of gradient queries if it is public, else the expected one.
fn expected_queries(prepared: &Prepared, problem: &PublicProblem) -> u64 {
    prepared.queries.unwrap_or_else(|| {
        let mechanism = prepared.mechanism.as_ref();
        let rate = mechanism.and_then(|mechanism| mechanism.sampling()?.rate());
        let steps = mechanism.map_or(0, |mechanism| mechanism.rounds());
        (rate.unwrap_or(1.0) * problem.rows() as f64 * steps as f64).round() as u64
    })
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::factorization::{FactorizationSource, Method};
    use rounds_algorithms::noise::StrategyMemory;
    use rounds_algorithms::parallel::Engine;
    use rounds_algorithms::parallel::ranks::ThreadRanks;
    use std::sync::Arc;

    use super::super::load::load;
    use super::super::observer::Execution;
    use super::super::setup::{of_system, set_up};
    use super::*;

    #[test]
    fn ranks_that_compute_other_coefficients_draw_nothing() {
        let mut training = Training::on("synthetic-logistic").private(1.0, 1e-6);
        (training.algorithm, training.privacy.secure) = ("dp-mf".to_owned(), true);
        training.optimizer.epochs = Some(1.0);
        // As of a library that rounds by the processor.
        let toeplitz = |mut request: rounds_algorithms::factorization::FactorizationRequest| {
            request.method = Method::Toeplitz;
            request.factorize()
        };
        let refusal = |rank: ThreadRanks, differs: bool| {
            let execution = Execution::on(Engine::over_ranks(Arc::new(rank), 1).unwrap());
            let setup = set_up(&training, &execution, of_system).unwrap();
            let mut loaded = load(None, setup).unwrap();
            let source = FactorizationSource::new(toeplitz);
            let source = if differs { source } else { FactorizationSource::default() };
            loaded.setup.settings.strategies = StrategyMemory::filled_from(source);
            plan(&loaded).err().map(|error| error.to_string())
        };
        for differs in [false, true] {
            let refusals = std::thread::scope(|scope| {
                let ranks = ThreadRanks::of(2).into_iter().enumerate();
                let running: Vec<_> =
                    ranks.map(|(number, rank)| scope.spawn(move || refusal(rank, differs && number == 1))).collect();
                running.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<_>>()
            });
            for refusal in refusals {
                assert_eq!(refusal.is_some(), differs, "{refusal:?}");
                assert!(refusal.is_none_or(|refusal| refusal.contains("has another factorization than")));
            }
        }
    }
}
