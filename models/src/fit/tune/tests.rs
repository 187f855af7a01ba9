use std::path::PathBuf;
use std::sync::Arc;

use rounds_algorithms::privacy::{Claim, TrialLaw};
use rounds_algorithms::problem::{Bounds, Columns, Dataset, Domain, DomainSource, Features, Label, Labels, Storage};

use super::*;
use crate::data::TrainTest;
use crate::fit::Training;
use sha2::{Digest as _, Sha256};

/// 400 rows of two classes, of which the first is null or not, in a domain.
fn rows(is_null: bool) -> TrainTest {
    let value = |row: usize| if row == 0 { 1.0 } else { (row % 9) as f32 / 4.0 - 1.0 };
    let labels = Labels::numbered((0..400).map(|row| u32::from(row % 9 > 4)).collect(), 2);
    let columns = Columns::Matrix { count: 1, bounds: Bounds::new(-1.0, 1.0).unwrap() };
    let label = Label::Classes(["no", "yes"].map(str::to_owned).to_vec());
    let domain = Domain::new(columns, Storage::Dense, label, DomainSource::Arguments);
    let values: Vec<f32> = (0..400).map(value).collect();
    let rows = Dataset::new("rows", Features::f32(values, 1), labels).unwrap();
    let rows = rows.in_domain(Arc::new(domain)).unwrap();
    TrainTest { train: if is_null { rows.null_row(0) } else { rows }, test: None }
}

fn tuning(is_null: bool) -> Tuning {
    let mut tuning = Tuning::of(Training::on_rows(rows(is_null)).private(1.0, 1e-6));
    (tuning.training.optimizer.epochs, tuning.training.optimizer.batch_size) = (Some(2.0), Some(50));
    tuning.grid = Grid::new([("learning-rate", &["0.5", "1", "2"]), ("clip-norm", &["0.5", "1", "2"])]).unwrap();
    tuning.trials = 4.0;
    tuning
}

fn of_table(folder: &Path) -> Tuning {
    let row = |row: usize| format!("{},{}\n", row % 11, ["no", "yes"][row / 2 % 2]);
    std::fs::write(folder.join("table.csv"), "x,y\n".to_owned() + &(0..400).map(row).collect::<String>()).unwrap();
    let schema =
        "[columns.x]\nkind = \"number\"\nbounds = [0, 10]\n[label]\ncolumn = \"y\"\nclasses = [\"no\", \"yes\"]\n";
    std::fs::write(folder.join("schema.toml"), schema).unwrap();
    let data = Training::on(folder.join("table.csv").to_str().unwrap()).private(1.0, 1e-6);
    Tuning { training: Training { data: data.data, ..tuning(false).training }, ..tuning(false) }
}

fn with_key(tuning: &Tuning, byte: u8, observer: &mut dyn Observer) -> Result<Tuned, FitError> {
    let draw = |key: &mut [u8]| {
        key.fill(byte);
        Ok(())
    };
    tune_drawn(tuning, &Execution::default(), observer, draw)
}

/// Stops after so many questions.
struct Stopping(u32);

impl Observer for Stopping {
    fn stops(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}

#[test]
fn a_selection_that_stops_and_goes_on_ends_with_the_bits_of_one_that_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    for secure in [true, false] {
        let mut tuning = of_table(folder.path());
        tuning.training.privacy.secure = secure;
        // Keys with several trials.
        let whole = |byte: u8, tuning: &Tuning| with_key(tuning, byte, &mut ()).unwrap().model;
        let first = whole(3, &tuning);
        assert_eq!(first.weights(), whole(3, &tuning).weights());
        assert_eq!(secure, first.weights() != whole(4, &tuning).weights(), "the key decides, of a simulation the seed");
        let saved = folder.path().join("saved");
        let mut stopped = 0;
        for after in [1, 5, 17, 40, 60] {
            tuning.training.checkpoint.file = Some(saved.clone());
            tuning.training.checkpoint.resume = None;
            let Err(error) = with_key(&tuning, 3, &mut Stopping(after)) else { continue };
            assert!(matches!(error, FitError::Interrupted { .. }), "{error}");
            let said = error.to_string().replace(&saved.display().to_string(), "");
            assert!(!said.contains(char::is_numeric), "{said}");
            stopped += 1;
            let Err(error) = with_key(&tuning, 3, &mut ()) else { panic!("the checkpoint is replaced") };
            assert!(error.is_usage() && error.to_string().contains("move it away to begin anew"), "{error}");
            // The key of the checkpoint, whatever the system draws now.
            tuning.training.checkpoint.resume = Some(saved.clone());
            let resumed = with_key(&tuning, 9, &mut ()).unwrap().model;
            assert_eq!(resumed.weights(), first.weights(), "after {after}");
            assert_eq!(resumed.header().parameters, first.header().parameters);
            assert!(!saved.exists(), "the key is gone with the checkpoint");
        }
        assert!(stopped > 0);
        // Trials of one round, after which nobody asks.
        let mut short = tuning.clone();
        (short.training.checkpoint, short.training.optimizer.batch_size) = (Default::default(), Some(400));
        short.training.optimizer.epochs = Some(1.0);
        assert!(matches!(with_key(&short, 3, &mut Stopping(1)), Err(FitError::Interrupted { .. })));
        // Another grid is another selection.
        tuning.training.checkpoint.resume = None;
        assert!(with_key(&tuning, 3, &mut Stopping(1)).is_err());
        tuning.training.checkpoint.resume = Some(saved.clone());
        tuning.trials = 5.0;
        let Err(error) = with_key(&tuning, 3, &mut ()) else { panic!("another law") };
        assert!(error.to_string().contains("`trials` was 4, now it is 5"), "{error}");
        std::fs::remove_file(&saved).unwrap();
    }
}

/// Where noise takes long to find, as on allocated batches, it is found roughly first, and the total is spent as elsewhere.
#[test]
fn a_selection_on_allocated_batches_spends_its_total_and_no_more() {
    let mut tuning = tuning(false);
    tuning.grid = Grid::new([("learning-rate", ["0.5", "2"]), ("sampling", ["poisson", "random-allocation"])]).unwrap();
    let plan = |tuning: &Tuning| tune(tuning, &Execution::default(), &mut ()).unwrap().model;
    let model = plan(&tuning);
    let privacy = &model.header().privacy;
    let spent = privacy.epsilon.unwrap();
    assert!(spent <= 1.0 && spent > 1.0 - 5e-4, "{spent}");
    assert_eq!(privacy.selection.as_ref().unwrap().mechanisms.len(), 2);
    assert_eq!(plan(&tuning).header().privacy, *privacy);
}

#[test]
fn the_best_score_wins_and_only_diagnostics_of_simulations_tell_of_trials() {
    let mut tuning = tuning(false);
    tuning.trials = 8.0;
    tuning.training.privacy.diagnostics = true;
    let tuned = tune(&tuning, &Execution::default(), &mut ()).unwrap();
    let trials = tuned.trials.unwrap();
    let best = trials.iter().filter_map(|trial| trial.score).fold(f64::NEG_INFINITY, f64::max);
    let winner = trials.iter().find(|trial| trial.score == Some(best)).unwrap();
    let chosen = |name: &str| tuned.model.header().parameters[&format!("set {name}")].as_str().unwrap().to_owned();
    for (name, value) in &winner.settings {
        assert_eq!(chosen(name), *value);
    }
    tuning.training.privacy.diagnostics = false;
    let tuned = tune(&tuning, &Execution::default(), &mut ()).unwrap();
    assert!(tuned.trials.is_none() && tuned.outcome.times.is_none());
    tuning.training.privacy.secure = true;
    let document = serde_json::to_string(&tune(&tuning, &Execution::default(), &mut ()).unwrap().outcome).unwrap();
    for told in ["\"winner\"", "seconds", "\"scores\"", "diagnostics", "test_accuracy"] {
        assert!(!document.contains(told), "{told} in {document}");
    }
}

/// Neighbours are planned alike, to the last digit, and told alike but for the winner and its weights.
#[test]
fn neighbours_have_the_same_plan_and_statement() {
    for (law, trials) in [(TrialLaw::NegativeBinomial(0.0), 3.0), (TrialLaw::Poisson, 4.0)] {
        let statements = [false, true].map(|is_null| {
            let mut tuning = Tuning { trials, law, ..tuning(is_null) };
            tuning.training.privacy.secure = true;
            let tuned = with_key(&tuning, 5, &mut ()).unwrap();
            let mut privacy = tuned.model.privacy().clone();
            // Of the winner's settings.
            privacy.clip_norm = None;
            privacy
        });
        assert_eq!(statements[0], statements[1]);
        let stated = &statements[0];
        assert_eq!((stated.claim, stated.mechanisms.len(), stated.accountant), (Claim::Release, 0, None));
        assert!(stated.epsilon.is_some_and(|epsilon| epsilon <= 1.0 && epsilon > 0.999));
        // The mechanism of a trial and its score, once for all clip norms and step sizes.
        assert_eq!(stated.selection.as_ref().unwrap().mechanisms.len(), 1);
    }
}

#[test]
fn every_kind_of_noise_in_a_grid_is_accounted_for() {
    let mut tuning = tuning(false);
    tuning.training.optimizer.batch_size = None;
    tuning.grid = Grid::new([("batch-size", &["20", "50"]), ("regularization", &["0", "0.01"])]).unwrap();
    let tuned = tune(&tuning, &Execution::default(), &mut ()).unwrap();
    assert_eq!(tuned.model.privacy().selection.as_ref().unwrap().mechanisms.len(), 2);
}

fn refused(change: impl FnOnce(&mut Tuning)) -> String {
    let mut tuning = tuning(false);
    change(&mut tuning);
    match tune(&tuning, &Execution::default(), &mut ()) {
        Ok(_) => panic!("{tuning:?}"),
        Err(error) => {
            assert!(error.is_usage(), "{error}");
            error.to_string()
        }
    }
}

#[test]
fn what_is_no_selection_is_refused_by_name() {
    let grid = |lists: &[(&str, &[&str])]| Grid::new(lists.iter().copied());
    let with = |lists: &[(&str, &[&str])]| refused(|tuning| tuning.grid = grid(lists).unwrap());
    assert!(with(&[]).contains("one point") && with(&[("momentum", &["0.9"])]).contains("rounds train"));
    assert!(with(&[("lerning-rate", &["1", "2"])]).contains("no trial of algorithm 'dp-sgd' draws that; it draws"));
    assert!(with(&[("adjacency", &["zero-out", "replace-one"])]).contains("draws that"));
    assert!(with(&[("epochs", &["1", "2"])]).contains("`epochs` is given too"));
    assert!(
        refused(|tuning| {
            tuning.training.optimizer.epochs = None;
            tuning.training.parameters.push(("rounds".to_owned(), "7".to_owned()));
            tuning.grid = grid(&[("epochs", &["1", "2"])]).unwrap();
        })
        .contains("epochs decide nothing")
    );
    assert!(with(&[("learning-rate", &["1", "-2"])]).contains("learning-rate -2"));
    assert!(with(&[("regularization", &["0", "-1"])]).contains("at least 0"));
    // Refused by public facts once their number is known, before the first round.
    assert!(with(&[("noise", &["independent", "laplace"])]).contains("laplace"));
    let twice = grid(&[("momentum", &["0.5", "0.5"])]).unwrap_err().to_string();
    assert!(twice.contains("stands in it twice"));
    assert!(grid(&[("momentum", &["", ""])]).unwrap_err().to_string().contains("one letter or more"));
    let lists: [(&str, &[&str]); 2] = [("momentum", &["0.9", "0.5"]), ("clip-norm", &["1"])];
    assert_eq!(grid(&lists).unwrap(), grid(&[lists[1], lists[0]]).unwrap(), "whatever the order of a document's keys");
    assert!(grid(&[("momentum", &["0.5"]), ("momentum", &["0.9"])]).unwrap_err().to_string().contains("given twice"));
    assert!(refused(|tuning| tuning.trials = 1.0).contains("expected number of trials must be at least 1.001"));
    assert!(
        refused(|tuning| tuning.law = TrialLaw::NegativeBinomial(-1.0))
            .starts_with("`law -1`: with `trials 4`, η must")
    );
    assert!(
        refused(|tuning| tuning.training.privacy.epsilon = Some(25.0))
            .contains("epsilon of a selection must be at most 20")
    );
    assert!(refused(|tuning| tuning.training.privacy.epsilon = None).contains("`epsilon`"));
    assert!(refused(|tuning| tuning.training.privacy.delta = 0.0).contains("`delta`"));
    assert!(refused(|tuning| tuning.training.algorithm = "sgd".to_owned()).contains("nothing to pay for"));
    assert!(refused(|tuning| tuning.training.checkpoint.every = Some(100)).contains("`checkpoint-every`: a selection"));
    let diagnosed = refused(|tuning| {
        (tuning.training.privacy.secure, tuning.training.privacy.diagnostics) = (true, true);
    });
    assert!(diagnosed.contains("`diagnostics`"));
}

#[test]
fn rows_to_score_on_are_public_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut tuning = of_table(folder.path());
    let on = |tuning: &mut Tuning, path: PathBuf| {
        tuning.score_on = Some(PublicRows::read(&path)?);
        tune(tuning, &Execution::default(), &mut ())
    };
    let said = |result: Result<Tuned, FitError>| result.err().expect("refused").to_string();
    let table = folder.path().join("table.csv");
    std::os::unix::fs::symlink(&table, folder.path().join("link.csv")).unwrap();
    std::fs::hard_link(&table, folder.path().join("hard.csv")).unwrap();
    for own in ["table.csv", "link.csv", "hard.csv"] {
        assert!(said(on(&mut tuning, folder.path().join(own))).contains("these are the training rows"), "{own}");
    }
    assert!(said(on(&mut tuning, folder.path().join("none.csv"))).contains("name a file of public rows"));
    // Test rows that the schema keeps private are of the claim's units.
    let test = folder.path().join("test.csv");
    std::fs::copy(&table, &test).unwrap();
    let schema = std::fs::read_to_string(folder.path().join("schema.toml")).unwrap();
    std::fs::write(folder.path().join("schema.toml"), format!("[test]\npublic = false\n{schema}")).unwrap();
    tuning.training.data.test = Some(test.clone());
    std::fs::hard_link(&test, folder.path().join("hard-test.csv")).unwrap();
    for name in ["test.csv", "hard-test.csv"] {
        assert!(said(on(&mut tuning, folder.path().join(name))).contains("not public"), "{name}");
    }
    tuning.training.data.test = None;
    let data = std::mem::replace(&mut tuning.training.data.data, folder.path().join("set").display().to_string());
    std::fs::create_dir_all(folder.path().join("set/part")).unwrap();
    std::fs::hard_link(&table, folder.path().join("set/part/rows.csv")).unwrap();
    assert!(
        said(on(&mut tuning, folder.path().join("hard.csv"))).contains("these are the training rows, or lie where")
    );
    tuning.training.data.data = data;
    let tuned = on(&mut tuning, test.clone()).unwrap();
    // A copy: a simulation says so, and a release is as silent as with a row that differs.
    let says = |tuned: &Tuned| tuned.outcome.warnings.iter().any(|warning| warning.contains("are the training rows"));
    assert!(says(&tuned));
    let mut release = tuning.clone();
    release.training.privacy.secure = true;
    assert!(!says(&on(&mut release, test.clone()).unwrap()));
    let other = folder.path().join("other.csv");
    let rows = std::fs::read_to_string(&table).unwrap();
    std::fs::write(&other, rows.trim_end().rsplit_once('\n').unwrap().0).unwrap();
    assert!(!says(&on(&mut tuning.clone(), other).unwrap()));
    let selection = tuned.model.privacy().selection.clone().unwrap();
    let sha256 = rounds_algorithms::hexadecimal(&Sha256::digest(std::fs::read(&test).unwrap()));
    assert_eq!(selection.score_sha256, Some(sha256.clone()));
    assert_eq!(tuned.model.header().parameters["score"], format!("public rows, sha256 {sha256}"));
    // Rows that change are not those of the statement.
    std::fs::write(&test, std::fs::read_to_string(&table).unwrap() + "3,no\n").unwrap();
    assert!(said(tune(&tuning, &Execution::default(), &mut ())).contains("it changed while it was read"));
    // No noise is paid for.
    assert!(selection.score.contains("public") && selection.mechanisms[0].steps().len() == 1, "{selection:?}");
}
