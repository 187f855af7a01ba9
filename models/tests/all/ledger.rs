//! Ledgers: files that only grow, and what they refuse.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rounds_algorithms::optimizers::SamplingKind;
use rounds_algorithms::privacy::{Accountant, Adjacency, FilterKind, Mechanism, PrivacyStatement, Sampling};
use rounds_algorithms::problem::{Bounds, Columns, Domain, DomainSource, Label, Relation, Storage};
use rounds_models::fit::{
    Execution, FitError, Grid, Observer, PrivacySettings, PublicRows, Training, Tuning, fit, tune,
};
use rounds_models::ledger::{Account, Budget, Ledger, LedgerError, State};
use rounds_models::statement::verify;

fn domain(relation: Relation) -> Domain {
    let columns = Columns::Matrix { count: 2, bounds: Bounds::new(0.0, 1.0).expect("bounds") };
    let label = Label::Classes(["no", "yes"].map(str::to_owned).to_vec());
    Domain { relation, ..Domain::new(columns, Storage::Dense, label, DomainSource::Arguments) }
}

fn budget() -> Budget {
    let spending = (FilterKind::Gaussian, 1.0, 1e-6);
    Budget::new("folder/people.csv", &domain(Relation::ZeroOut), Some(1_000), spending).expect("a budget")
}

fn run(noise_multiplier: f64) -> PrivacyStatement {
    let mechanism = Mechanism::Gaussian { noise_multiplier, sampling: Sampling::FullBatch, participations: 1 };
    PrivacyStatement {
        epsilon: Accountant::Gdp.epsilon(&mechanism, Adjacency::ZeroOut, 1e-6).ok(),
        delta: Some(1e-6),
        adjacency: Some(Adjacency::ZeroOut),
        mechanisms: vec![mechanism],
        ..PrivacyStatement::none("")
    }
}

fn with_two_runs(path: &Path) -> [String; 2] {
    Ledger::create(path, &budget()).expect("a new file");
    let mut ledger = Ledger::open(path).expect("a ledger");
    let first = ledger.book(&run(10.0)).expect("it fits");
    ledger.close(&first, "abc").expect("it is open");
    [first, ledger.book(&run(12.0)).expect("it fits")]
}

#[test]
fn a_ledger_is_no_statement() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("budget");
    Ledger::create(&path, &budget()).expect("a new file");
    let refusal = |path: &Path| verify(path, None).expect_err("no statement").to_string();
    assert!(refusal(&path).contains("it is a ledger"), "{}", refusal(&path));
    fs::remove_file(&path).expect("a file");
    with_two_runs(&path);
    assert!(refusal(&path).contains("it is a ledger"), "{}", refusal(&path));
}

#[test]
fn runs_are_booked_until_the_budget_is_spent_and_then_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("budget");
    let [first, second] = with_two_runs(&path);
    assert_ne!(first, second);
    let mut ledger = Ledger::open(&path).expect("a ledger");
    assert_eq!(ledger.account().budget, budget());
    assert_eq!(ledger.account().budget.data, "people.csv");
    let states: Vec<_> = ledger.account().runs.iter().map(|run| run.state).collect();
    assert_eq!(states, [State::Done, State::Open]);
    // (1/10)² + (1/12)² of what 1/4.3 is of (1, 0.75e-6).
    let [spent, _] = ledger.account().spent();
    assert!((0.2..0.4).contains(&spent), "{spent}");
    let before = fs::read(&path).expect("a file");
    let refused = ledger.book(&run(4.5)).expect_err("it does not fit");
    assert!(matches!(&refused, LedgerError::Exceeded { left, .. } if *left == 1.0 - spent), "{refused}");
    assert!(refused.to_string().contains("% is left, enough for ε = 0."), "{refused}");
    assert!(refused.to_string().contains("at δ = 1e-6 by Gaussian noise. It read no row"), "{refused}");
    assert_eq!(fs::read(&path).expect("a file"), before, "nothing half-spent");
    // All the rest, but for the roundings up.
    let room = ledger.account().room(1e-6).expect("some");
    let mu = rounds_algorithms::privacy::gaussian::mu(room, 1e-6).expect("in range");
    ledger.book(&run(1.000_001 / mu)).expect("it fits");
    assert!(matches!(ledger.book(&run(1e4)), Err(LedgerError::Exceeded { .. })));
    for (run, what) in [
        (PrivacyStatement { adjacency: Some(Adjacency::ReplaceOne), ..run(1e3) }, "relation"),
        (PrivacyStatement { unit: "value of column \"person\"".into(), ..run(1e3) }, "unit"),
    ] {
        let refused = ledger.book(&run).expect_err("other data");
        assert!(matches!(refused, LedgerError::OtherData { what: found, .. } if found == what));
    }
    assert!(matches!(ledger.book(&run(1e3).revoked("no")), Err(LedgerError::Privacy { .. })));
    ledger.check_open(&second).expect("open");
    assert!(ledger.check_open(&first).expect_err("done").to_string().contains("it is done"));
    assert!(ledger.check_open("abc").expect_err("unknown").to_string().contains("never booked"));
    assert!(ledger.close(&first, "abc").is_err());
    drop(ledger);
    Account::read(&path).expect("still whole");
}

#[test]
fn a_refusal_says_what_another_filter_counts_and_a_basic_budget_is_spent_to_the_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = |filter: FilterKind, delta: f64| {
        let path = folder.path().join(format!("{filter} {delta}"));
        let budget = Budget::new("d", &domain(Relation::ZeroOut), Some(1_000), (filter, 1.0, delta));
        Ledger::create(&path, &budget.expect("a budget")).expect("a new file");
        Ledger::open(&path).expect("a ledger")
    };
    let said = |ledger: &mut Ledger, run: &PrivacyStatement| ledger.book(run).expect_err("refused").to_string();
    // A claim without mechanisms, as of a selection.
    let plain = |epsilon, delta| PrivacyStatement {
        epsilon: Some(epsilon),
        delta: Some(delta),
        mechanisms: Vec::new(),
        ..run(10.0)
    };
    let counted = said(&mut ledger(FilterKind::Renyi, 1e-6), &plain(0.1, 1e-7));
    assert!(
        counted.contains("takes more of it than the renyi filter can count, and 100 % is left; of such a run"),
        "{counted}"
    );
    assert!(counted.contains("which a ledger with the basic filter adds up"), "{counted}");
    let beyond = said(&mut ledger(FilterKind::Gaussian, 1e-6), &plain(50.0, 1e-9));
    assert!(beyond.contains("takes ε = 50, more than all of it, and 100 % is left, enough for ε = 1."), "{beyond}");
    let mut half = ledger(FilterKind::Gaussian, 1.1e-6);
    half.book(&run(6.5)).expect("it fits");
    let loosely = run(4.45);
    let by_rdp = Accountant::Rdp.epsilon(&loosely.mechanisms[0], Adjacency::ZeroOut, 1e-6).expect("finite");
    let loosely = PrivacyStatement { epsilon: Some(by_rdp), accountant: Some(Accountant::Rdp), ..loosely };
    assert!(by_rdp > 1.0 && ledger(FilterKind::Gaussian, 1.5e-6).book(&loosely).is_ok(), "{by_rdp}");
    let refused = said(&mut half, &loosely);
    assert!(refused.contains(" % of it, and ") && !refused.contains("more than all"), "{refused}");
    let mut pure = ledger(FilterKind::Basic, 0.0);
    assert!(said(&mut pure, &plain(0.5, 1e-9)).contains("this run takes a δ, of which it has none"));
    for _ in 0..2 {
        pure.book(&plain(0.5, 0.0)).expect("it fits exactly");
    }
    // 0.56, 0.34 and 0.1 are 1 as decimal numbers, and more as floats.
    let mut decimal = ledger(FilterKind::Basic, 1e-7);
    for (epsilon, left) in
        [(0.56, "enough for ε = 0.44 at"), (0.34, "enough for ε = 0.1 at"), (0.1, "and 0 % is left. It")]
    {
        decimal.book(&plain(epsilon, 0.0)).expect("it fits");
        let refused = said(&mut decimal, &plain(0.6, 0.0));
        assert!(refused.contains(left), "{refused}");
    }
    assert_eq!(decimal.account().spent(), [1.0, 0.0]);
    let mut basic = ledger(FilterKind::Basic, 1e-6);
    basic.book(&plain(0.70009, 1e-7)).expect("it fits");
    let refused = said(&mut basic, &plain(0.29995, 1e-7));
    assert!(
        refused.contains("takes 30 % of it, and 29.9 % is left, enough for ε = 0.299 at δ = 1e-7. It"),
        "{refused}"
    );
}

#[test]
fn damage_of_any_byte_shows_by_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("budget");
    with_two_runs(&path);
    let whole = fs::read(&path).expect("a file");
    let copy = folder.path().join("copy");
    let refused = |bytes: &[u8]| {
        fs::write(&copy, bytes).expect("a file");
        let message = Ledger::open(&copy).expect_err("damaged").to_string();
        assert_eq!(fs::read(&copy).expect("a file"), bytes, "left as it was");
        message
    };
    for place in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        let line = 1 + whole[..place].iter().filter(|&&byte| byte == b'\n').count();
        let message = refused(&bytes);
        let named = [format!("line {line} is damaged"), format!("line {} is damaged", line + 1)];
        assert!(named.iter().any(|named| message.contains(named)) || message.contains("no text"), "{place}: {message}");
    }
    // Half of a line, as after a crash; a line that is taken out; lines in another order; a forged sum.
    assert!(refused(&whole[..whole.len() - 9]).contains("line 4 is damaged: it is incomplete"));
    let lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
    for kept in [&[0, 2, 3][..], &[0, 1, 3], &[1, 2], &[0, 2, 1, 3], &[0, 1, 1], &[0, 0]] {
        let bytes: Vec<u8> = kept.iter().flat_map(|&line| lines[line]).copied().collect();
        assert!(refused(&bytes).contains("is damaged"), "{kept:?}");
    }
    for other in [&b""[..], b"\n", b"{}\n", b"\xff\n"] {
        assert!(refused(other).contains("line 1 is damaged"));
    }
}

#[test]
fn a_ledger_is_of_one_process_and_no_link_and_is_never_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("budget");
    assert!(matches!(Ledger::open(&path), Err(LedgerError::Absent { .. })));
    Ledger::create(&path, &budget()).expect("a new file");
    assert!(matches!(Ledger::create(&path, &budget()), Err(LedgerError::File { .. })));
    let ledger = Ledger::open(&path).expect("a ledger");
    assert!(matches!(Ledger::open(&path), Err(LedgerError::InUse { .. })));
    Account::read(&path).expect("whoever reads needs no lock");
    drop(ledger);
    let mut ledger = Ledger::open(&path).expect("free again");
    // Another file in its place, in which other runs are booked.
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).expect("a file");
    fs::rename(&copy, &path).expect("a file");
    assert!(matches!(ledger.book(&run(10.0)), Err(LedgerError::Replaced { .. })));
    assert!(Account::read(&path).expect("whole").runs.is_empty());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    assert!(matches!(Ledger::open(&link), Err(LedgerError::Place { .. })));
    assert!(matches!(Ledger::open(folder.path()), Err(LedgerError::Place { .. })));
}

#[test]
fn budgets_need_the_public_number_of_rows() {
    use FilterKind::{Basic, Gaussian};
    let new = |relation, rows, filter, epsilon, delta| {
        Budget::new("d", &domain(relation), rows, (filter, epsilon, delta)).map_err(|error| error.to_string())
    };
    let add_remove = Relation::AddRemove { public_rows: 500 };
    assert_eq!(new(add_remove, None, Gaussian, 1.0, 1e-6).expect("public").rows, 500);
    assert!(new(add_remove, Some(500), Gaussian, 1.0, 1e-6).expect_err("private").contains("public-rows"));
    assert!(new(Relation::ZeroOut, None, Gaussian, 1.0, 1e-6).expect_err("needed").contains("`rows N`"));
    assert!(new(Relation::ZeroOut, Some(0), Gaussian, 1.0, 1e-6).is_err());
    assert!(new(Relation::ZeroOut, Some(9), Gaussian, 1.0, 0.0).is_err());
    assert!(new(Relation::ZeroOut, Some(9), Basic, 1.0, 0.0).is_ok());
    assert!(new(Relation::ZeroOut, Some(9), Gaussian, 1.0, 0.2).expect("said").warning().is_some());
    assert!(budget().warning().is_none());
}

/// A table with a schema, a ledger of it for (1, 1e-4), and a release at ε = 0.3 that names it.
fn release(folder: &Path) -> Training {
    let row = |row: usize| format!("{},{}\n", row % 11, ["no", "yes"][row / 2 % 2]);
    let table = "x,y\n".to_owned() + &(0..200).map(row).collect::<String>();
    fs::write(folder.join("table.csv"), table).expect("a file");
    let schema =
        "[columns.x]\nkind = \"number\"\nbounds = [0, 10]\n[label]\ncolumn = \"y\"\nclasses = [\"no\", \"yes\"]\n";
    fs::write(folder.join("schema.toml"), schema).expect("a file");
    let budget = Budget::new("table.csv", &domain(Relation::ZeroOut), Some(200), (FilterKind::Gaussian, 1.0, 1e-4));
    Ledger::create(&folder.join("budget"), &budget.expect("a budget")).expect("a new file");
    let mut training = Training::on(folder.join("table.csv").to_str().expect("a path")).private(0.3, 1e-4);
    (training.privacy.secure, training.ledger) = (true, Some(folder.join("budget")));
    (training.optimizer.epochs, training.optimizer.batch_size) = (Some(2.0), Some(20));
    training
}

fn state_of_runs(folder: &Path) -> Vec<State> {
    Account::read(&folder.join("budget")).expect("whole").runs.iter().map(|run| run.state).collect()
}

/// Stops a run after so many rounds.
struct Stopping(u64, u64);

impl Observer for Stopping {
    fn after_round(&mut self, round: u64) {
        self.1 = round;
    }

    fn stops(&mut self) -> bool {
        self.0 == self.1
    }
}

fn said(training: &Training) -> String {
    fit(training, &Execution::default(), &mut ()).err().expect("a refusal").to_string()
}

type Change = fn(&mut Training);

#[test]
fn a_run_is_booked_before_its_rows_are_read_and_spends_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, training) = (folder.path(), release(folder.path()));
    let fitted = fit(&training, &Execution::default(), &mut ()).expect("it fits");
    let account = Account::read(&folder.join("budget")).expect("whole");
    let [run] = &account.runs[..] else { panic!("one run") };
    assert_eq!((run.state, run.model_sha256.as_ref()), (State::Done, Some(&fitted.outcome.header.model_sha256)));
    assert_eq!(run.statement.epsilon, fitted.outcome.header.privacy.epsilon);
    assert_eq!(run.statement.mechanisms, fitted.outcome.header.privacy.mechanisms);
    let spent = account.spent();

    // Runs that end before their noise: other numbers of rows, rows that are no table, a plan that is refused.
    let table = fs::read_to_string(folder.join("table.csv")).expect("a file");
    fs::write(folder.join("table.csv"), table.clone() + "3,no\n").expect("a file");
    assert!(said(&training).contains("number of training rows, or of units, is 200, of this run 201"));
    fs::write(folder.join("table.csv"), "x,y\n1,\"no\n").expect("a file");
    let broken = said(&training);
    assert_eq!(state_of_runs(folder), [State::Done, State::Void, State::Void]);
    assert_eq!(Account::read(&folder.join("budget")).expect("whole").spent(), spent);
    // On the same broken file a run that would exceed the budget is refused for that: no row is read.
    let large =
        Training { privacy: PrivacySettings { epsilon: Some(0.99), ..training.privacy.clone() }, ..training.clone() };
    assert!(said(&large).contains("budget would be exceeded") && !broken.contains("budget"), "{broken}");
    fs::write(folder.join("table.csv"), table).expect("a file");
    let split = |training: &mut Training| training.data.test_split = Some(0.2);
    let mut with_test = training.clone();
    split(&mut with_test);
    fit(&with_test, &Execution::default(), &mut ()).expect("160 of 200 rows");

    let changes: [(Change, &str); 5] = [
        (|training| training.privacy.secure = false, "it counts releases"),
        (|training| training.privacy.diagnostics = true, "in no ledger"),
        (
            |training| training.privacy.adjacency = Some(Adjacency::ReplaceOne),
            "its relation is zero-out, of this run replace-one",
        ),
        (|training| training.ledger = training.ledger.as_ref().map(|path| path.with_file_name("none")), "ledger new"),
        (|training| training.privacy.delta = 0.1, "at least 1/n"),
    ];
    let before = state_of_runs(folder);
    for (change, reason) in changes {
        let mut changed = training.clone();
        change(&mut changed);
        if changed.privacy.adjacency.is_some() {
            changed.optimizer.sampling = Some(SamplingKind::Fixed);
        }
        let said = said(&changed);
        assert!(said.contains(reason), "{said}");
    }
    fs::copy(folder.join("table.csv"), folder.join("other.csv")).expect("a file");
    let mut other = training.clone();
    other.data.data = folder.join("other.csv").display().to_string();
    assert!(said(&other).contains("its name is table.csv, of this run other.csv"));
    let ledger = Ledger::open(&folder.join("budget")).expect("free");
    assert!(said(&training).contains("another run has it in use"));
    drop(ledger);
    assert_eq!(state_of_runs(folder), before, "nothing half-spent");
}

#[test]
fn a_stopped_run_stays_booked_and_is_resumed_once_at_no_cost() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, mut training) = (folder.path(), release(folder.path()));
    training.data.test_split = Some(0.2);
    let saved = folder.join("saved");
    training.checkpoint.file = Some(saved.clone());
    let stop = |training: &Training| fit(training, &Execution::default(), &mut Stopping(5, 0)).err().expect("stopped");
    assert!(matches!(stop(&training), FitError::Interrupted { .. }));
    let spent = Account::read(&folder.join("budget")).expect("whole").spent();
    assert!(spent[0] > 0.0 && state_of_runs(folder) == [State::Open]);
    let copy = folder.join("copy");
    let keep = || {
        fs::copy(&saved, &copy).expect("a file");
        fs::set_permissions(&copy, Permissions::from_mode(0o600)).expect("ours");
    };
    keep();
    // Its ε is spent: the file that alone makes its model is not replaced by another run.
    assert!(
        said(&training)
            .contains(&format!("unfinished run, which would be lost; go on with `resume {}`", saved.display()))
    );
    assert!(
        state_of_runs(folder) == [State::Open] && fs::read(&saved).expect("kept") == fs::read(&copy).expect("a copy")
    );
    training.checkpoint.resume = Some(copy.clone());
    assert!(said(&training).contains("unfinished run"), "another run's checkpoint");
    training.checkpoint.resume = Some(saved.clone());
    let unbooked = Training { ledger: None, ..training.clone() };
    assert!(said(&unbooked).contains("its entry of `ledger` was "), "{}", said(&unbooked));
    fit(&training, &Execution::default(), &mut ()).expect("it goes on");
    assert_eq!(state_of_runs(folder), [State::Done]);
    assert_eq!(Account::read(&folder.join("budget")).expect("whole").spent(), spent);
    // The copy is of a run that is done.
    training.checkpoint.resume = Some(copy.clone());
    assert!(said(&training).contains("not open in it (it is done)"));
    // The checkpoint of a run that was booked nowhere.
    let mut free = Training { ledger: None, ..training.clone() };
    free.checkpoint.resume = None;
    assert!(matches!(stop(&free), FitError::Interrupted { .. }));
    training.checkpoint.resume = Some(saved.clone());
    assert!(said(&training).contains("was booked in none"));
    assert_eq!(state_of_runs(folder), [State::Done]);
}

/// Bounds are noise that was drawn: from there on nothing is given back.
#[test]
fn moments_are_booked_with_their_run_and_not_drawn_for_other_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, mut training) = (folder.path(), release(folder.path()));
    training.data.features = Some("whiten".parse().expect("a map"));
    let fitted = fit(&training, &Execution::default(), &mut ()).expect("it fits");
    let account = Account::read(&folder.join("budget")).expect("whole");
    let [run] = &account.runs[..] else { panic!("one run") };
    let stated = &fitted.outcome.header.privacy;
    assert_eq!((run.state, &run.statement.mechanisms), (State::Done, &stated.mechanisms));
    assert_eq!(stated.mechanisms[0].noise_multiplier(), stated.moments_noise);
    let table = fs::read_to_string(folder.join("table.csv")).expect("a file");
    fs::write(folder.join("table.csv"), table + "3,no\n").expect("a file");
    assert!(said(&training).contains("of this run 201"));
    assert_eq!(state_of_runs(folder), [State::Done, State::Void]);
}

/// By public numbers: sums that no lattice holds before they are booked, noise of moments and too many rows before it is drawn.
#[test]
fn what_cannot_be_drawn_spends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, training) = (folder.path(), release(folder.path()));
    let with = |features: &str| {
        let mut training = training.clone();
        training.data.features = Some(features.parse().expect("a map"));
        training
    };
    let mut scaled = training.clone();
    scaled.data.scale_features = Some(1e-30);
    assert!(said(&scaled).contains("are not surely exact"), "{}", said(&scaled));
    assert_eq!(state_of_runs(folder), []);
    let mut loud = with("whiten:norm=0.0001");
    loud.privacy.epsilon = Some(1e-4);
    assert!(said(&loud).contains("the noise of its moments is too large"), "{}", said(&loud));
    assert_eq!(state_of_runs(folder), [State::Void]);

    fs::remove_file(folder.join("budget")).expect("a file");
    let few = domain(Relation::AddRemove { public_rows: 40 });
    let budget = Budget::new("table.csv", &few, None, (FilterKind::Gaussian, 1.0, 1e-4));
    Ledger::create(&folder.join("budget"), &budget.expect("a budget")).expect("a new file");
    let mut many = with("whiten");
    many.privacy.adjacency = Some(Adjacency::AddRemove);
    many.data.declaration.public_rows = Some(40);
    assert!(said(&many).contains("more than 4 times as many rows"), "{}", said(&many));
    assert_eq!(state_of_runs(folder), [State::Void]);
}

#[test]
fn private_bounds_are_booked_and_not_given_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, mut training) = (folder.path(), release(folder.path()));
    let alone = || Account::read(&folder.join("budget")).expect("whole").runs.last().expect("a run").share[0];
    fit(&training, &Execution::default(), &mut ()).expect("it fits");
    let plain = alone();
    training.data.declaration.bounds = Some("private:0.05".to_owned());
    fit(&training, &Execution::default(), &mut ()).expect("it fits");
    assert!(alone() > 1.02 * plain, "{} {plain}", alone());
    let table = fs::read_to_string(folder.join("table.csv")).expect("a file");
    fs::write(folder.join("table.csv"), table + "3,no\n").expect("a file");
    assert!(said(&training).contains("of this run 201"));
    assert_eq!(state_of_runs(folder), [State::Done, State::Done, State::Open]);
    // Nothing was drawn for a file that is no table, nor is a run booked whose split leaves no rows.
    fs::write(folder.join("table.csv"), "x,y\n1,\"no\n").expect("a file");
    said(&training);
    assert_eq!(state_of_runs(folder)[3..], [State::Void]);
    training.data.test_split = Some(0.9999);
    assert!(said(&training).starts_with("`test-split`: it leaves none of the rows"), "{}", said(&training));
}

#[test]
fn a_selection_is_booked_as_it_runs_and_not_before_its_public_rows_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, training) = (folder.path(), release(folder.path()));
    let budget = Budget::new("table.csv", &domain(Relation::ReplaceOne), Some(200), (FilterKind::Basic, 1.0, 1e-4));
    fs::remove_file(folder.join("budget")).expect("a file");
    Ledger::create(&folder.join("budget"), &budget.expect("a budget")).expect("a new file");
    let mut tuning = Tuning::of(training);
    // The default sampling is none of replace-one.
    tuning.training.privacy.adjacency = Some(Adjacency::ReplaceOne);
    tuning.training.privacy.delta = 5e-5;
    tuning.grid = Grid::new([("sampling", ["fixed", "shuffled"])]).expect("a grid");
    tuning.trials = 2.0;
    // Another filter would count more than ε and δ say.
    let basic = fs::read(folder.join("budget")).expect("a file");
    let gaussian =
        Budget::new("table.csv", &domain(Relation::ReplaceOne), Some(200), (FilterKind::Gaussian, 1.0, 1e-4));
    fs::remove_file(folder.join("budget")).expect("a file");
    Ledger::create(&folder.join("budget"), &gaussian.expect("a budget")).expect("a new file");
    let refused = tune(&tuning, &Execution::default(), &mut ()).err().expect("refused").to_string();
    assert!(refused.contains("ε and δ alone are known") && refused.contains("the basic filter"), "{refused}");
    assert!(state_of_runs(folder).is_empty());
    fs::write(folder.join("budget"), basic).expect("a file");
    let tuned = tune(&tuning, &Execution::default(), &mut ()).expect("it fits");
    let (account, privacy) = (Account::read(&folder.join("budget")).expect("whole"), tuned.model.privacy());
    let booked = &account.runs[0].statement;
    assert_eq!(
        (&booked.selection, booked.epsilon, booked.noise_multiplier),
        (&privacy.selection, privacy.epsilon, privacy.noise_multiplier)
    );
    tuning.training.data.declaration.bounds = Some("private:0.1".to_owned());
    fs::write(folder.join("public.csv"), "x,y\n1,\"no\n").expect("a file");
    tuning.score_on = Some(PublicRows::read(&folder.join("public.csv")).unwrap());
    assert!(tune(&tuning, &Execution::default(), &mut ()).is_err());
    assert_eq!(state_of_runs(folder), [State::Done]);
}
