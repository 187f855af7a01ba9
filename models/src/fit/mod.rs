//! A training run from data to model and privacy statement.
//!
//! data × settings × engine × observer → model + outcome. [`fit`] takes five steps: `setup` (all that is decided before a row is read),
//! `load` (rows), `plan`, the rounds, and `publish`. A step is a file, but for the rounds, which stand here; it takes what the one before came to, and
//! refuses what it is the first to know. [`Shown`] is the one rule of what may be told.

mod booking;
mod error;
mod load;
mod observer;
mod outcome;
pub(crate) mod plan;
mod publish;
mod settings;
pub(crate) mod setup;
pub(crate) mod tune;

pub use error::{FitError, names_nothing};
pub use observer::{Execution, Observer, Stage};
pub use outcome::{Diagnostics, Outcome, PrivateFacts, Quality, Shown, Times};
pub use settings::{CheckpointSettings, DataSettings, OptimizerSettings, PrivacySettings, Training};
pub use tune::{Grid, PublicRows, TrialScore, Tuned, Tuning, tune};

use std::ops::ControlFlow;

use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::Prepared;
use rounds_algorithms::problem::PublicProblem;
use rounds_kernels::arithmetic::in_default_mode;
use rounds_kernels::random::StreamKey;

use crate::checkpoint::{Binding, Checkpoint};
use crate::model_file::Model;
use load::Loaded;

/// A run that is finished.
pub struct Fitted {
    /// The model, which predicts, evaluates and is written to a file.
    pub model: Model,
    /// What may be told of the run, with its privacy statement. Of a release nothing else may be.
    pub outcome: Outcome,
}

/// Loads, plans, runs and publishes.
///
/// Every rank of a group takes the same steps; rank 0 alone writes. The same settings, build and data give the same bits for any
/// engine.
///
/// ```
/// use rounds_models::fit::{Execution, Observer, Training, fit};
///
/// /// Counts rounds, and says what a person should know.
/// struct Counting(u64);
///
/// impl Observer for Counting {
///     fn after_round(&mut self, round: u64) {
///         self.0 = round;
///     }
///
///     fn warn(&mut self, warning: &str) {
///         eprintln!("{warning}");
///     }
/// }
///
/// let mut training = Training::on("synthetic-logistic").private(1.0, 1e-5);
/// training.optimizer.epochs = Some(2.0);
/// let mut counting = Counting(0);
/// let fitted = fit(&training, &Execution::default(), &mut counting)?;
/// assert_eq!(counting.0, fitted.outcome.header.rounds);
/// # Ok::<(), rounds_models::fit::FitError>(())
/// ```
///
/// # Errors
/// Anything that the settings, the data or the algorithm refuse, with the way out; [`FitError::Stopped`] if the observer stops it, of a
/// release [`FitError::Interrupted`].
pub fn fit(training: &Training, execution: &Execution, observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    in_default_mode(|| fit_drawn(training, execution, observer, setup::of_system))
}

/// [`fit`] with a generator of the system.
fn fit_drawn(
    training: &Training,
    execution: &Execution,
    observer: &mut dyn Observer,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
) -> Result<Fitted, FitError> {
    let setup = setup::set_up(training, execution, draw)?;
    let stated = |problem: &PublicProblem| Ok(setup.algorithm.prepare(problem, &setup.settings)?.privacy);
    let booking = execution.group.all_ok(booking::book(&setup, stated))?;
    observer.enter(Stage::Loading);
    let mut loaded = load::load(booking, setup)?;
    observer.enter(Stage::Planning);
    let (prepared, plan) = plan::plan(&loaded)?;
    let room = loaded.begin(&prepared.privacy)?;
    plan.warnings.iter().for_each(|warning| observer.warn(warning));
    let mut executor = run(&loaded, (prepared, plan.binding.as_ref()), observer)?;
    let (ledger, weights) = (executor.ledger(), executor.solution().to_vec());
    observer.enter(Stage::Publishing);
    drop(room);
    let (model, outcome) = publish::publish(&mut loaded, plan, (ledger, weights), observer)?;
    Ok(Fitted { model, outcome })
}

/// Runs all rounds, from the checkpoint's if one is resumed.
fn run<'p>(
    loaded: &'p Loaded,
    (prepared, binding): (Prepared, Option<&Binding>),
    observer: &mut dyn Observer,
) -> Result<Executor<'p>, FitError> {
    let Loaded { setup, problem, .. } = loaded;
    let (group, kept) = (&setup.execution.group, &setup.training.checkpoint);
    observer.enter(Stage::Placing);
    let mut executor = Executor::new(problem, setup.execution.engine.clone(), prepared);
    if let (Some(checkpoint), Some(path), Some(binding)) = (&setup.resumed, &kept.resume, binding) {
        group.all_ok(checkpoint.restore(path, binding, |visitor| executor.visit_state(visitor)))?;
        executor.set_ledger(checkpoint.ledger());
    }
    // Rows are placed before the timed rounds.
    executor.place();
    observer.enter(Stage::Rounds(executor.rounds()));
    let mut after_round = |executor: &mut Executor<'_>| {
        let round = executor.round();
        observer.after_round(round);
        if executor.is_finished() {
            return Ok(ControlFlow::Continue(()));
        }
        let stopped = group.count().is_none() && observer.stops();
        if let (Some(path), Some(binding)) = (&kept.file, binding)
            && (stopped || round % kept.interval() == 0)
        {
            group.root_only(|| {
                let (ledger, key) = (executor.ledger(), &setup.source);
                Checkpoint::take(binding.clone(), ledger, key, |visitor| executor.visit_state(visitor)).write(path)
            })?;
        }
        if stopped {
            let checkpoint = kept.file.clone();
            return Err(match setup.source {
                StreamKey::Simulation(_) => FitError::Stopped { round, rounds: executor.rounds(), checkpoint },
                StreamKey::Release(_) => FitError::Interrupted { checkpoint },
            });
        }
        Ok(ControlFlow::Continue(()))
    };
    let run = executor.run_observed(&mut [&mut after_round]);
    group.all_ok(run)?;
    Ok(executor)
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::problem::{
        Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Storage,
    };

    use super::*;
    use crate::data::TrainTest;
    use crate::keyed::KeyedDigest;

    /// Rows of one feature, of which the first is `canary`.
    fn rows(canary: f32) -> Dataset {
        let features: Vec<f32> = (0..200).map(|row| if row == 0 { canary } else { 0.25 }).collect();
        let labels = Labels::Classes { values: (0..200).map(|row| row % 2).collect(), classes: 2, names: None };
        let columns = Columns::Matrix { count: 1, bounds: Bounds::new(-1.0, 1.0).unwrap() };
        let label = Label::Classes(["no", "yes"].map(str::to_owned).to_vec());
        let domain = Domain::new(columns, Storage::Dense, label, DomainSource::Arguments);
        Dataset::new("rows", Features::f32(features, 1), labels).unwrap().in_domain(domain.into()).unwrap()
    }

    fn release(rows: Dataset, change: impl FnOnce(&mut Training)) -> Model {
        let mut training = Training::on_rows(TrainTest { train: rows, test: None }).private(0.01, 1e-6);
        training.privacy.secure = true;
        (training.optimizer.epochs, training.optimizer.learning_rate) = (Some(1.0), Some(1.0));
        training.optimizer.batch_size = Some(200);
        change(&mut training);
        // A generator that repeats: that of a cloned machine.
        let repeats = |key: &mut [u8]| {
            key.fill(7);
            Ok(())
        };
        fit_drawn(&training, &Execution::default(), &mut (), repeats).unwrap().model
    }

    #[test]
    fn a_generator_that_repeats_gives_other_data_other_noise() {
        let weights = |rows, change: fn(&mut Training)| release(rows, change).weights().to_vec();
        let same: fn(&mut Training) = |_| ();
        let first = weights(rows(1.0), same);
        assert_eq!(weights(rows(1.0), same), first, "the same release");
        // A row moves the mean of 200 gradients by 2/200 at most; noise at ε = 0.01 moves it by some hundred times as much.
        let far = |other: &[f32]| first.iter().zip(other).any(|(a, b)| (a - b).abs() > 0.1);
        assert!(far(&weights(rows(-1.0), same)), "a neighbour");
        assert!(far(&weights(rows(1.0), |training| training.privacy.delta = 1.000_001e-6)), "another parameter");
        let correlated: fn(&mut Training) = |training| {
            training.algorithm = "dp-mf".to_owned();
            training.optimizer.batch_size = Some(50);
        };
        assert!(far(&weights(rows(1.0), correlated)));
    }

    /// Of moments, which are drawn before the plan, and by a key of their own.
    #[test]
    fn a_generator_that_repeats_gives_other_data_other_noise_of_moments() {
        let folder = tempfile::tempdir().unwrap();
        let offset = |canary| {
            let mut model =
                release(rows(canary), |training| training.data.features = Some("normalize".parse().unwrap()));
            let path = folder.path().join(canary.to_string());
            model.write(&path).unwrap();
            let bytes = std::fs::read(path).unwrap();
            let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            let values = tensors.tensor("features").unwrap().data().to_vec();
            f32::from_le_bytes(*values.last_chunk().unwrap())
        };
        // With the same noise the row moves it by a twentieth.
        let [one, other] = [1.0, -1.0].map(offset);
        assert!((one - other).abs() > 1.0, "{one} {other}");
    }

    /// Stops a run after so many rounds.
    struct Stopping {
        after: u64,
        round: u64,
    }

    impl Observer for Stopping {
        fn after_round(&mut self, round: u64) {
            self.round = round;
        }

        fn stops(&mut self) -> bool {
            self.round == self.after
        }
    }

    #[test]
    fn a_release_that_stops_and_goes_on_ends_with_the_bits_of_one_that_never_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let row = |row: usize| format!("{},{}\n", row % 11, ["no", "yes"][row / 2 % 2]);
        std::fs::write(path("table.csv"), "x,y\n".to_owned() + &(0..200).map(row).collect::<String>()).unwrap();
        let schema =
            "[columns.x]\nkind = \"number\"\nbounds = [0, 10]\n[label]\ncolumn = \"y\"\nclasses = [\"no\", \"yes\"]\n";
        std::fs::write(path("schema.toml"), schema).unwrap();
        for (algorithm, bounds) in
            [("dp-sgd", None), ("dp-mf", None), ("dp-ftrl", None), ("dp-sgd", Some("private:0.5"))]
        {
            let mut training = Training::on(path("table.csv").to_str().unwrap()).private(1.0, 1e-6);
            (training.algorithm, training.privacy.secure) = (algorithm.to_owned(), true);
            (training.optimizer.epochs, training.optimizer.batch_size) = (Some(2.0), Some(20));
            training.data.declaration.bounds = bounds.map(str::to_owned);
            let run = |training: &Training, after, byte: u8| {
                let draw = |key: &mut [u8]| {
                    key.fill(byte);
                    Ok(())
                };
                let fitted = fit_drawn(training, &Execution::default(), &mut Stopping { after, round: 0 }, draw);
                fitted.map(|fitted| fitted.model.weights().to_vec())
            };
            let whole = run(&training, u64::MAX, 7).unwrap();
            assert_ne!(run(&training, u64::MAX, 8).unwrap(), whole, "{algorithm}: the key decides");
            for after in [1, 10, 19] {
                training.checkpoint.file = Some(path("saved"));
                training.checkpoint.resume = None;
                let stopped = run(&training, after, 7).unwrap_err();
                assert!(matches!(stopped, FitError::Interrupted { .. }), "{algorithm}: {stopped}");
                let way_out = format!("stopped before its end; `resume {}` goes on", path("saved").display());
                assert_eq!(stopped.to_string(), way_out, "no round of a release is told");
                // The key of the checkpoint, whatever the system draws now.
                training.checkpoint.resume = Some(path("saved"));
                assert_eq!(run(&training, u64::MAX, 8).unwrap(), whole, "{algorithm} {bounds:?}, from round {after}");
            }
        }
    }

    /// Every fact of a binding, changed alone under one K, gives another key.
    #[test]
    fn each_fact_of_a_binding_decides_the_key() {
        let source = StreamKey::Release([7; 32]);
        let data = |rows: &[u8]| KeyedDigest::new(&source, rows);
        let binding = Binding {
            data: data(b"rows"),
            build: "build".into(),
            isa: "isa".into(),
            coefficients: Some("coefficients".into()),
            parameters: vec![("epsilon".into(), "1".into())],
            plan: r#"[{"gaussian":{"noise_multiplier":1.0}},3,{"rounds":"3"}]"#.into(),
            booking: None,
        };
        // The last digit of a calibrated σ, as another mathematical library rounds it.
        let plan = binding.plan.replace("1.0", "1.0000000000000002");
        let changed = [
            ("nothing", binding.clone()),
            ("rows or counts of private bounds", Binding { data: data(b"rowscounts"), ..binding.clone() }),
            ("build", Binding { build: "other".into(), ..binding.clone() }),
            ("instruction set", Binding { isa: "other".into(), ..binding.clone() }),
            ("coefficients", Binding { coefficients: Some("other".into()), ..binding.clone() }),
            ("no coefficients", Binding { coefficients: None, ..binding.clone() }),
            ("parameters", Binding { parameters: Vec::new(), ..binding.clone() }),
            ("plan", Binding { plan, ..binding.clone() }),
            ("booking", Binding { booking: Some("abc".into()), ..binding.clone() }),
        ];
        let key = |binding: &Binding| match binding.key(&source) {
            StreamKey::Release(key) => key,
            StreamKey::Simulation(_) => panic!("a release's key"),
        };
        let keys: Vec<_> = changed.iter().map(|(_, binding)| key(binding)).collect();
        for (i, (what, _)) in changed.iter().enumerate() {
            assert!(!keys[..i].contains(&keys[i]), "{what}");
        }
        assert_eq!(key(&changed[0].1), keys[0]);
    }
}
