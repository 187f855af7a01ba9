//! Runs through the library: what a release refuses whatever its face, what its outcome and its errors hold, and runs that are
//! stopped and go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rounds_algorithms::parallel::Engine;
use rounds_algorithms::parallel::ranks::ThreadRanks;
use rounds_algorithms::privacy::{Adjacency, Claim};
use rounds_algorithms::problem::{
    BYTE_SCALE, Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Storage,
};
use rounds_models::data::{ModelRows, TrainTest, declare, load_declared};
use rounds_models::fit::{Execution, FitError, Fitted, Grid, Observer, Times, Training, Tuning, fit, tune};
use rounds_models::model_file::Model;
use rounds_models::statement;
use serde_json::Value;

use crate::files::Folder;

const SCHEMA: &str =
    "[columns.height]\nkind = \"number\"\nbounds = [0, 10]\n[label]\ncolumn = \"kind\"\nclasses = [\"no\", \"yes\"]\n";

/// Rows of a table, some of which hold 31337.
fn table(rows: usize) -> String {
    let row =
        |row: usize| format!("{},{}\n", if row % 50 == 7 { 31_337 } else { row % 11 }, ["no", "yes"][row / 2 % 2]);
    "height,kind\n".to_owned() + &(0..rows).map(row).collect::<String>()
}

/// A folder with a table and its schema.
fn folder(schema: &str) -> Folder {
    let folder = Folder::new();
    folder.write("table.csv", table(400));
    folder.write("schema.toml", schema);
    folder
}

/// A short release on the table of a folder.
fn release(folder: &Folder) -> Training {
    let mut training = Training::on(folder.path().join("table.csv").to_str().unwrap()).private(1.0, 1e-6);
    training.privacy.secure = true;
    training.optimizer.epochs = Some(2.0);
    training
}

fn run(training: &Training) -> Result<Fitted, FitError> {
    fit(training, &Execution::default(), &mut ())
}

#[track_caller]
fn refused(training: &Training, parts: &str) -> String {
    let error = run(training).err().expect("a refusal");
    let said = error.to_string();
    assert!(error.is_usage(), "{said}");
    parts.split('|').for_each(|part| assert!(said.contains(part), "no '{part}' in {said}"));
    said
}

#[test]
fn a_release_is_refused_here_whatever_its_face() {
    let declared = folder(SCHEMA);
    let with = |change: &dyn Fn(&mut Training)| {
        let mut training = release(&declared);
        change(&mut training);
        training
    };
    refused(&release(&folder(&format!("drafted = true\n{SCHEMA}"))), "`secure`|draft");
    let bare = Folder::new();
    bare.write("table.csv", table(400));
    refused(&release(&bare), "`secure`|declared domain|`bounds LO,HI`");
    let mut guessed = release(&bare);
    guessed.data.declaration.bounds = Some("0,10".into());
    guessed.data.declaration.columns.label = Some("kind".into());
    guessed.data.declaration.classes = Some(vec!["no".into(), "yes".into()]);
    refused(&guessed, "`bounds`|every column of the header");
    let table = declared.path().join("table.csv");
    refused(&with(&|training| training.data.test = Some(table.clone())), "`test`|training rows");
    // In a folder, by a link.
    let both = Folder::new();
    both.write("train.csv", crate::fit::table(400));
    both.write("schema.toml", format!("{SCHEMA}[test]\npublic = true\n"));
    std::fs::hard_link(both.path().join("train.csv"), both.path().join("test.csv")).unwrap();
    let of_folder = with(&|training| training.data.data = both.path().to_str().unwrap().to_owned());
    refused(&of_folder, "`test`|training rows");
    both.write("a9a", "1 1:1\n");
    std::fs::hard_link(both.path().join("a9a"), both.path().join("a9a.t")).unwrap();
    let named = with(&|training| {
        (training.data.data, training.data.data_dir) = ("a9a".to_owned(), Some(both.path().to_owned()));
    });
    refused(&named, "`test`|training rows");
    std::fs::copy(both.path().join("train.csv"), both.path().join("copy")).unwrap();
    std::fs::rename(both.path().join("copy"), both.path().join("test.csv")).unwrap();
    run(&of_folder).expect("a copy is a function of the rows, and not looked for");
    refused(&with(&|training| training.privacy.epsilon = Some(11.0)), "protects next to nothing");
    refused(&with(&|training| training.privacy.delta = 0.1), "`allow-weak-privacy`");
    let weak = with(&|training| (training.privacy.epsilon, training.privacy.allow_weak_privacy) = (Some(11.0), true));
    assert_eq!(run(&weak).unwrap().outcome.header.privacy.claim, Claim::Release);
    refused(&with(&|training| training.algorithm = "sgd".into()), "`secure`|would claim nothing");
    let add_remove = with(&|training| {
        training.privacy.adjacency = Some(Adjacency::AddRemove);
        training.data.declaration.public_rows = Some(400);
        training.data.test_split = Some(0.2);
    });
    refused(&add_remove, "`test-split`|add-remove");
    // A domain that is drafted during the run, too.
    let mut drafted = add_remove.clone();
    (drafted.privacy.secure, drafted.data.data) = (false, bare.path().join("table.csv").to_str().unwrap().to_owned());
    refused(&drafted, "`test-split`|add-remove");
    // Settings that a command line cannot give.
    refused(&with(&|training| training.optimizer.epochs = Some(f64::NAN)), "`epochs`|finite");
    refused(&with(&|training| training.optimizer.clip_norm = Some(f64::INFINITY)), "`clip-norm`|finite");
    refused(&with(&|training| training.privacy.noise_multiplier = Some(1.0)), "`noise-multiplier`|`epsilon`");
    refused(&with(&|training| training.checkpoint.every = Some(0)), "`checkpoint-every`");
}

#[test]
fn no_face_replaces_a_release() {
    let folder = folder(SCHEMA);
    let mut training = release(&folder);
    let [model, weights] = ["model", "weights.npy"].map(|name| folder.path().join(name));
    for path in [&model, &weights] {
        training.model = Some(path.clone());
        run(&training).unwrap();
        refused(&training, "is spent|name another file");
    }
    let bytes = std::fs::read(&model).unwrap();
    training.privacy.secure = false;
    training.model = Some(model.clone());
    refused(&training, "it holds a release");
    training.model = None;
    let mut simulated = run(&training).unwrap().model;
    assert!(simulated.write(&model).unwrap_err().to_string().contains("it holds a release"));
    assert_eq!(std::fs::read(&model).unwrap(), bytes);
    assert!(statement::verify(&model, None).unwrap().holds);
}

/// Puts a release where a run will write its own.
struct Racing {
    model: Model,
    path: PathBuf,
    warned: Vec<String>,
}

impl Observer for Racing {
    fn after_round(&mut self, round: u64) {
        if round == 1 {
            self.model.write(&self.path).unwrap();
        }
    }

    fn warn(&mut self, warning: &str) {
        self.warned.push(warning.to_owned());
    }
}

#[test]
fn a_release_that_came_during_a_run_stays_and_the_run_keeps_its_own() {
    let folder = folder(SCHEMA);
    let mut training = release(&folder);
    let model = run(&training).unwrap().model;
    let path = folder.path().join("model.safetensors");
    training.model = Some(path.clone());
    let first = model.weights().to_vec();
    let mut racing = Racing { model, path: path.clone(), warned: Vec::new() };
    let Fitted { model: own, outcome } = fit(&training, &Execution::default(), &mut racing).unwrap();
    assert_eq!(outcome.model, Some(folder.path().join("model-1.safetensors")));
    assert!(racing.warned.iter().any(|warning| warning.contains("model-1.safetensors")), "{:?}", racing.warned);
    assert_eq!(Model::read(&path).unwrap().weights(), first);
    assert_eq!(Model::read(&folder.path().join("model-1.safetensors")).unwrap().weights(), own.weights());
}

#[test]
fn an_outcome_of_a_release_holds_no_statistic_of_the_rows() {
    let folder = folder(SCHEMA);
    let times = Times { seconds: 1.0, communication_seconds: None, load_seconds: 1.0, calibration_seconds: 1.0 };
    let document = |training: &Training| {
        let outcome = run(training).unwrap().outcome.with_times(times);
        serde_json::to_value(outcome).unwrap()
    };
    let mut training = release(&folder);
    let names = ["seconds", "diagnostics", "seed", "test_accuracy", "held_out", "load_seconds"];
    let has = |document: &Value| names.map(|name| document.get(name).is_some());
    assert_eq!(has(&document(&training)), [false; 6]);
    training.privacy.diagnostics = true;
    let diagnosed = document(&training);
    assert_eq!(has(&diagnosed), [false, true, false, false, false, false]);
    assert_eq!(diagnosed["diagnostics"]["times"]["seconds"], 1.0);
    training.privacy.secure = false;
    assert_eq!(has(&document(&training)), [true, true, true, false, true, true]);
}

#[test]
fn an_error_of_a_release_shows_no_row() {
    let folder = folder(SCHEMA);
    for (contents, shown) in [(table(20) + "31337,no,1\n", "line 22"), (table(20) + "\"31337", "line")] {
        folder.write("table.csv", contents);
        let mut training = release(&folder);
        let message = run(&training).err().expect("an error").to_string();
        for part in ["31337", "line 2", "row "] {
            assert!(!message.contains(part), "'{part}' in {message}");
        }
        assert!(message.contains("`rounds schema"), "{message}");
        training.privacy.secure = false;
        let message = run(&training).err().expect("an error").to_string();
        assert!(message.contains(shown), "{message}");
    }
}

#[test]
fn rows_in_memory_give_the_model_of_their_file() {
    let folder = folder(SCHEMA);
    let mut of_file = release(&folder);
    of_file.privacy.secure = false;
    let name = of_file.data.data.clone();
    let domain = declare(&name, None, &Default::default()).unwrap();
    let TrainTest { train, test } = load_declared(&name, None, domain.as_ref()).unwrap();
    let mut in_memory = Training::on_rows(TrainTest { train: train.clone(), test }).private(1.0, 1e-6);
    in_memory.optimizer.epochs = Some(2.0);
    let threads = Execution::on(Engine::with_threads(2).unwrap());
    let [file, memory] =
        [(&of_file, Execution::default()), (&in_memory, threads)].map(|(of, on)| fit(of, &on, &mut ()).unwrap());
    assert_eq!(file.outcome.header.model_sha256, memory.outcome.header.model_sha256);
    assert_eq!(memory.outcome.header.privacy.claim, Claim::Simulation);
    in_memory.privacy.secure = true;
    assert_eq!(run(&in_memory).unwrap().outcome.header.privacy.claim, Claim::Release);
    // Nobody can say that test rows in memory are no training rows.
    let public = Arc::new({
        let mut domain = (**train.domain().unwrap()).clone();
        domain.test_is_public = true;
        domain
    });
    let rows = train.clone().in_domain(public).unwrap();
    in_memory.data.rows = Some(TrainTest { train: rows.clone(), test: Some(rows) }.into());
    let outcome = serde_json::to_value(run(&in_memory).unwrap().outcome).unwrap();
    assert!(outcome.get("test_accuracy").is_none() && outcome.get("test_rows").is_none(), "{outcome}");
    assert!(!format!("{in_memory:?}").contains("values"), "settings show rows");
    // Nobody could read the statement, or it would lack the ε of its bounds.
    for change in [&(|domain: &mut Domain| domain.label_column = None) as &dyn Fn(&mut Domain), &|domain| {
        domain.source = DomainSource::PrivateBounds(Box::new(DomainSource::Arguments));
    }] {
        let mut domain = (**train.domain().unwrap()).clone();
        change(&mut domain);
        let train = train.clone().in_domain(Arc::new(domain)).unwrap();
        in_memory.data.rows = Some(TrainTest { train, test: None }.into());
        refused(&in_memory, "`data`|enters no statement");
    }
    in_memory.data.rows = Some(TrainTest { train: train.clone(), test: None }.into());
    for refused in
        ranks(|engine| fit(&in_memory, &Execution::on(engine), &mut ()).err().expect("a refusal").to_string())
    {
        assert!(refused.contains("rows in memory are for one process"), "{refused}");
    }
    // The number of rows would set the batches of a claim under which it is private.
    in_memory.privacy.adjacency = Some(Adjacency::AddRemove);
    refused(&in_memory, "`adjacency`|add-remove");
    in_memory.privacy.adjacency = None;
    in_memory.data.declaration.bounds = Some("0,1".into());
    refused(&in_memory, "`data`|carry their domain");
}

/// Stops a run after some rounds.
struct Stopping(u64);

impl Observer for Stopping {
    fn after_round(&mut self, _round: u64) {
        self.0 -= 1;
    }

    fn stops(&mut self) -> bool {
        self.0 == 0
    }
}

/// The model that the run has when it is stopped after `rounds` rounds and goes on.
fn stopped_and_resumed(training: &Training, checkpoint: &Path, rounds: u64) -> Model {
    let mut training = training.clone();
    training.checkpoint.file = Some(checkpoint.to_owned());
    let stopped = fit(&training, &Execution::default(), &mut Stopping(rounds)).err();
    assert!(matches!(stopped, Some(FitError::Stopped { round, .. }) if round == rounds), "{stopped:?}");
    training.checkpoint.resume = Some(checkpoint.to_owned());
    let model = run(&training).unwrap().model;
    assert!(!checkpoint.exists());
    model
}

#[test]
fn runs_of_one_execution_calibrate_once_and_a_selection_leaves_nothing() {
    let training = Training::on("synthetic-logistic").private(1.0, 1e-5);
    let execution = Execution::default();
    let known = || format!("{:?}", execution.calibrations);
    let nothing = known();
    let tuning = Tuning {
        training: training.clone(),
        grid: Grid::new(vec![("rounds".to_owned(), vec!["2".to_owned(), "3".to_owned()])]).unwrap(),
        trials: 2.0,
        law: "geometric".parse().unwrap(),
        score_on: None,
    };
    tune(&tuning, &execution, &mut ()).unwrap();
    assert_eq!(known(), nothing);
    let first = fit(&training, &execution, &mut ()).unwrap();
    let calibrated = known();
    assert_ne!(calibrated, nothing);
    let second = fit(&training, &execution.clone(), &mut ()).unwrap();
    let alone = run(&training).unwrap();
    for other in [second, alone] {
        assert_eq!(first.outcome.header.model_sha256, other.outcome.header.model_sha256);
    }
}

#[test]
fn a_run_that_is_stopped_goes_on_to_the_same_model_and_on_nothing_else() {
    let folder = folder(SCHEMA);
    let mut training = release(&folder);
    training.privacy.secure = false;
    let whole = run(&training).unwrap().model;
    let checkpoint = folder.path().join("checkpoint");
    for rounds in [1, 3] {
        assert_eq!(stopped_and_resumed(&training, &checkpoint, rounds).weights(), whole.weights());
    }
    let mut other = training.clone();
    other.checkpoint.file = Some(checkpoint.clone());
    assert!(fit(&other, &Execution::default(), &mut Stopping(1)).is_err());
    other.checkpoint.resume = Some(checkpoint);
    other.optimizer.clip_norm = Some(0.5);
    let message = run(&other).err().expect("a refusal").to_string();
    assert!(message.contains("its `clip-norm` was not given, now it is 0.5"), "{message}");
}

/// What `run` gives on the engine of each of three ranks.
fn ranks<R: Send>(run: impl Fn(Engine) -> R + Sync) -> Vec<R> {
    let run = &run;
    std::thread::scope(|scope| {
        let running: Vec<_> = ThreadRanks::of(3)
            .into_iter()
            .map(|ranks| scope.spawn(move || run(Engine::over_ranks(Arc::new(ranks), 1).unwrap())))
            .collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// The outcome of a run on each of three ranks; `data` is a rank's.
fn on_ranks(training: &Training, data: impl Fn(usize) -> String + Sync) -> Vec<Result<String, FitError>> {
    ranks(|engine| {
        let mut own = training.clone();
        own.data.data = data(engine.ranked().unwrap().ranks().rank());
        fit(&own, &Execution::on(engine), &mut ()).map(|fitted| fitted.outcome.header.model_sha256)
    })
}

#[test]
fn ranks_have_the_model_of_one_process_or_one_error() {
    let folder = folder(SCHEMA);
    let mut training = release(&folder);
    training.privacy.secure = false;
    let place = training.data.data.clone();
    let alone = run(&training).unwrap().outcome.header.model_sha256;
    for model in on_ranks(&training, |_| place.clone()) {
        assert_eq!(model.unwrap(), alone);
    }
    // One key for all: ranks with keys of their own would have other models, which is an error.
    training.privacy.secure = true;
    assert!(on_ranks(&training, |_| place.clone()).into_iter().all(|model| model.is_ok()));
    let damaged = folder.write("damaged.csv", table(20) + "31337,no,1\n").display().to_string();
    training.data.declaration.schema = Some(folder.path().join("schema.toml"));
    for model in on_ranks(&training, |_| damaged.clone()) {
        let message = model.unwrap_err().to_string();
        assert!(
            message.contains("it holds no data set of the declared format") && !message.contains("31337"),
            "{message}"
        );
    }
    for model in on_ranks(&training, |rank| if rank == 1 { damaged.clone() } else { place.clone() }) {
        let error = model.unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("rank 1 (on "), "{error}");
    }
}

/// Images of 6 × 6 bytes in a declared domain, with a bright spot in the corner of their class.
fn images(rows: usize) -> TrainTest {
    let pixel = |row: usize, place: usize| {
        let (y, x) = (place / 6, place % 6);
        let is_bright = (y / 3, x / 3) == (row % 4 / 2, row % 2);
        (row * 31 + place * 17) % 60 + if is_bright { 150 } else { 0 }
    };
    let bytes: Vec<u8> = (0..rows * 36).map(|place| pixel(place / 36, place % 36) as u8).collect();
    let labels = Labels::Classes { values: (0..rows).map(|row| row as u32 % 4).collect(), classes: 4, names: None };
    let domain = Domain::new(
        Columns::Matrix { count: 36, bounds: Bounds::new(0.0, 255.0).unwrap() },
        Storage::Bytes,
        Label::Classes(["a", "b", "c", "d"].map(str::to_owned).to_vec()),
        DomainSource::Arguments,
    );
    let rows = Dataset::new("images", Features::bytes(&bytes, 36, BYTE_SCALE), labels);
    TrainTest { train: rows.and_then(|rows| rows.in_domain(Arc::new(domain))).unwrap(), test: None }
}

#[test]
fn a_network_is_trained_released_written_read_and_predicts() {
    let folder = Folder::new();
    let mut training = Training::on_rows(images(2_000)).private(8.0, 1e-5);
    training.algorithm = "dp-mf-plus".to_owned();
    training.privacy.secure = true;
    training.optimizer.model_kind = Some("image 6x6x1, conv 4, tanh, pool, dense 6, tanh".to_owned());
    (training.optimizer.batch_size, training.optimizer.epochs) = (Some(200), Some(4.0));
    for name in ["network", "network.npy"] {
        let path = folder.path().join(name);
        training.model = Some(path.clone());
        let Fitted { model, outcome } = run(&training).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.header.privacy.claim, Claim::Release, "{:?}", outcome.header.privacy.reason);
        assert_eq!((outcome.header.plan["initialization"].as_str(), model.weights().len()), ("0", 290));
        let found = model.evaluate(ModelRows { dataset: images(400).train, are_test_rows: false }).unwrap();
        let Value::Object(found) = serde_json::to_value(&found).unwrap() else { panic!("an object") };
        assert!(found["accuracy"].as_f64().unwrap() > 0.8, "{found:?}");
        if name == "network" {
            let read = Model::read(&path).unwrap();
            let rows = images(8).train;
            assert_eq!(read.outputs(rows.rows()), model.outputs(rows.rows()));
            statement::verify(&path, None).unwrap();
        }
    }
    for (network, said) in [
        ("cnn-550k", "`model-kind`|36 columns have no known shape|`image HxWxC`"),
        ("image 6x6x1, convolution 4", "`model-kind`|'convolution 4' is no layer"),
        ("image 8x8x1, conv 4", "rows have 36 columns"),
    ] {
        let mut training = training.clone();
        training.optimizer.model_kind = Some(network.to_owned());
        training.model = None;
        refused(&training, said);
    }
    for (algorithm, parameter) in
        [("dp-nag", ""), ("phased-sgd", ""), ("dp-sgd", "precision=16"), ("dp-sgd", "accountant=last-iterate")]
    {
        let mut training = training.clone();
        (training.algorithm, training.model) = (algorithm.to_owned(), None);
        (training.optimizer.batch_size, training.optimizer.epochs) = (None, None);
        training.parameters.extend(parameter.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
        let way_out = if parameter.starts_with("accountant") { "take another accountant" } else { "leave it out" };
        let parameter = parameter.split_once('=').map_or("model-kind", |(name, _)| name);
        refused(&training, &format!("{parameter}|{way_out}"));
    }
}
