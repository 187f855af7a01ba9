//! The source of all randomness of a run: a simulation's seed, the system's key of a release, or the checkpoint's. What is made of it
//! stands in [`keyed`](crate::keyed).

use rounds_kernels::random::StreamKey;
use zeroize::Zeroizing;

use super::error::FitError;
use super::observer::Execution;
use super::settings::Training;
use crate::checkpoint::{self, Binding, Checkpoint};
use crate::keyed::derived;

/// The generator of the system.
pub(super) fn of_system(key: &mut [u8]) -> Result<(), FitError> {
    getrandom::fill(key).map_err(FitError::Key)
}

/// The source of all randomness of a run: the resumed checkpoint's, a simulation's seed, or for a release what `draw` gives on rank
/// 0. With one source all ranks draw the same noise, and no round sends any.
pub(super) fn source(
    training: &Training,
    execution: &Execution,
    resumed: Option<&Checkpoint>,
    draw: impl FnOnce(&mut [u8]) -> Result<(), FitError>,
) -> Result<StreamKey, FitError> {
    if !training.privacy.secure {
        return Ok(StreamKey::Simulation(training.seed));
    }
    let group = &execution.group;
    let kept = training.checkpoint.file.as_deref();
    group.root_only(|| kept.map_or(Ok(()), checkpoint::check_place))?;
    if let Some(key) = resumed.and_then(Checkpoint::key) {
        return Ok(key);
    }
    let mut key = Zeroizing::new(vec![0; if group.is_root() { 32 } else { 0 }]);
    group.root_only(|| draw(&mut key))?;
    let drawn = group.broadcast_secret(key);
    Ok(StreamKey::Release(drawn.as_slice().try_into().expect("32 bytes")))
}

/// The key of a run with this binding.
pub(super) fn of_run(source: &StreamKey, binding: &Binding) -> StreamKey {
    derived(source, "run", &serde_json::to_vec(binding).expect("names and values"))
}

#[cfg(test)]
mod tests {
    use rounds_algorithms::problem::{
        Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Storage,
    };

    use super::super::fit_drawn;
    use super::*;
    use crate::data::TrainTest;
    use crate::fit::{Execution, Observer, Training};
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

    fn release(rows: Dataset, change: impl FnOnce(&mut Training)) -> Vec<f32> {
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
        fit_drawn(&training, &Execution::default(), &mut (), repeats).unwrap().model.weights().to_vec()
    }

    #[test]
    fn a_generator_that_repeats_gives_other_data_other_noise() {
        let same = |_: &mut Training| ();
        let first = release(rows(1.0), same);
        assert_eq!(release(rows(1.0), same), first, "the same release");
        // A row moves the mean of 200 gradients by 2/200 at most; noise at ε = 0.01 moves it by some hundred times as much.
        let far = |other: &[f32]| first.iter().zip(other).any(|(a, b)| (a - b).abs() > 0.1);
        assert!(far(&release(rows(-1.0), same)), "a neighbour");
        assert!(far(&release(rows(1.0), |training| training.privacy.delta = 1.000_001e-6)), "another parameter");
        let correlated = |training: &mut Training| {
            training.algorithm = "dp-mf".to_owned();
            training.optimizer.batch_size = Some(50);
        };
        assert!(far(&release(rows(1.0), correlated)));
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
                assert!(matches!(run(&training, after, 7), Err(FitError::Stopped { .. })), "{algorithm}");
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
        let key = |binding: &Binding| match of_run(&source, binding) {
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
