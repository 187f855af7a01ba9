//! Input that cannot be: bad usage ends with exit code 2 and the remedy, damaged results are named, and combinations that
//! cannot be measured are skipped with their reason.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rounds::results::{Binding, Mode, Store, read_run};

use crate::support::{assert_ends, assert_refused, assert_succeeds};
use crate::synthetic::{Deviation, cell, environment, write_run};

/// Thirty rows of two features and a label.
fn table(folder: &Path) -> String {
    let path = folder.join("table.csv");
    let rows = (0..30).map(|row| format!("{},{},{}\n", row % 7, (row * 3) % 5, row % 2));
    fs::write(&path, rows.collect::<String>()).unwrap();
    path.display().to_string()
}

/// Lines of `rounds train` that are bad usage, each after the arguments of its group, and a part of the message.
const REFUSED: [(&str, &str); 4] = [
    (
        "--data {} --algorithm dp-sgd",
        "\
--epsilon=1 --batch-size=0 | batch-size 0
--epsilon=1 --batch-size=31 | batch-size 31
--epsilon=1 --clip-norm=-1 | clip-norm -1
--epsilon=1 --momentum=1 | momentum 1
--epsilon=1 --learning-rate=0 | learning-rate 0
--epsilon=1 --epochs=-2 | epochs -2
--epsilon=1 --regularization=-1 | --regularization -1
--epsilon=1 --threads=0 | --threads
--epsilon=-1 --batch-size=10 | epsilon
--epsilon=1 --delta=2 --batch-size=10 | delta
--epsilon=1 --set=no-such-key=1 --batch-size=10 | no-such-key
--epsilon=1 --loss=hnge --batch-size=10 | --loss",
    ),
    (
        "--data {} --epsilon 1 --epochs 1 --batch-size 10 --threads 1 --algorithm",
        "\
dp-sgd --noise tree | noise tree
dp-sgd --noise tree | dp-ftrl
sgd --clip-norm 1 | clip-norm: algorithm 'sgd' has no such parameter",
    ),
    // λ_min falls with ε²: an accuracy of 0 would be λ = 0.
    (
        "--data synthetic-logistic --threads 1 --algorithm",
        "\
resque-ac-sa --set smoothing=0 | above 0
resque-ac-sa --set smoothing=-1 | above 0
resque-ac-sa --set smoothing=nan | above 0
resque-ac-sa --set smoothing=1e-40 | offsets are f32
resque-ac-sa --set smoothing=20 | larger than the domain
resque-epoch-sgd --set radius=0 | above 0
resque-ac-sa --set accuracy=0 | above 0
resque-ac-sa --set accuracy=-0.1 | above 0",
    ),
    // More steps than the data amplify.
    (
        "--data synthetic-logistic --threads 1 --algorithm resque-private-erm --epsilon 0.9 --delta 1e-6",
        "\
--set mode=scaled --set steps-constant=1e6 | n/C_priv
--set mode=faithful | n =
--set radius=-3 | above 0",
    ),
];

#[test]
fn settings_that_cannot_be_are_bad_usage_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = table(folder.path());
    for (common, refused) in REFUSED {
        for line in refused.lines() {
            let (own, reason) = line.split_once(" | ").unwrap();
            assert_refused(&format!("train {} {own}", common.replace("{}", &data)), reason);
        }
    }
    let good = format!("train --data {data} --epsilon 1 --epochs 1 --batch-size 10 --threads 1 --algorithm");
    assert_succeeds(&format!("{good} dp-sgd"));
    assert_succeeds(&format!("{good} dp-sgd --noise independent"));
    // A budget of a run without privacy is a warning.
    let message = assert_succeeds(&format!("{good} sgd"));
    assert!(message.contains("--epsilon"), "{message}");
}

/// The same folder made private serves, and a run that is finished leaves nothing in it.
#[test]
fn a_release_keeps_its_checkpoint_only_where_others_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let set_mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    let path = folder.path().join("run.checkpoint");
    let line = format!(
        "train --data synthetic-logistic --threads 1 --secure --delta 1e-6 --epsilon 1 --epochs 1 --checkpoint-every 2 \
         --checkpoint {}",
        path.display()
    );
    set_mode(0o777);
    assert_refused(&line, "chmod go-w");
    set_mode(0o700);
    assert_succeeds(&line);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

const SUITE: &str = r#"
name = "impossible"
about = "a test"
seed = 1
repeats = 1
threads = [1]
parameters = { batch-size = 64 }
[options.rounds]
examples = 640
at-least = 2
at-most = 3
[[problem]]
dataset = "synthetic-logistic"
[[problem]]
dataset = "mnist"
[[method]]
algorithm = "dp-sgd"
datasets = ["synthetic-logistic"]
parameters = { epsilon = 1.0, batch-size = [64, 100000000] }
[[method]]
algorithm = "dp-sgd"
datasets = ["synthetic-logistic"]
parameters = { epsilon = 1.0, noise = "tree" }
[[method]]
algorithm = "dp-masg"
datasets = ["synthetic-logistic"]
parameters = { epsilon = 1.0 }
[[method]]
algorithm = "sgd"
datasets = ["mnist"]
"#;

/// The line that runs a suite.
fn measuring(suite: &Path, out: &Path) -> String {
    format!("run {} --out {} --threads 1", suite.display(), out.display())
}

#[test]
fn combinations_that_cannot_be_are_skipped_with_their_reason_in_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("impossible.toml");
    fs::write(&suite, SUITE).unwrap();
    let out = folder.path().join("out");
    let line = measuring(&suite, &out);
    let said = assert_succeeds(&line);
    let run = read_run(&out).unwrap();
    assert_eq!(run.results.samples.len(), 1, "{said}");
    let reason = |of: &dyn Fn(&rounds::results::Configuration) -> bool| {
        let found = run.results.skipped.iter().find(|(configuration, _)| of(configuration));
        found.unwrap_or_else(|| panic!("{:?}", run.results.skipped)).1.clone()
    };
    assert!(reason(&|one| one.batch_size == 100_000_000).contains("rows"));
    assert!(reason(&|one| one.parameters.contains_key("noise")).contains("noise tree"));
    assert!(reason(&|one| one.algorithm == "dp-masg").contains("strong convexity"));
    assert!(reason(&|one| one.dataset == "mnist").contains("--data-dir"));
    assert_eq!(run.results.skipped.len(), 4);
    for word in ["strong convexity", "--data-dir", "noise tree"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Resumed, nothing is measured or named twice; the report shows the reasons.
    assert_succeeds(&(line + " --resume"));
    assert_eq!(read_run(&out).unwrap().results.skipped.len(), 4);
    assert_succeeds(&format!("report {}", out.display()));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("id=\"not-measured\"") && page.contains("strong convexity"));
}

#[test]
fn a_suite_that_cannot_be_is_bad_usage_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("suite.toml");
    let out = folder.path().join("out");
    let parameters = "{ epsilon = 1.0, noise = \"tree\" }";
    for (right, wrong, expected) in [
        ("at-most = 3", "at-mots = 3", "did you mean 'at-most'?"),
        ("\"dp-masg\"", "\"dp-mags\"", "did you mean 'dp-masg'?"),
        (parameters, "{ epsilon = 1.0, noise = \"treee\" }", "noise treee: "),
        (parameters, "{ epsilon = \"one\" }", "epsilon = one"),
    ] {
        assert!(SUITE.contains(right));
        fs::write(&path, SUITE.replace(right, wrong)).unwrap();
        assert_refused(&measuring(&path, &out), expected);
        assert!(!out.exists(), "nothing is begun");
    }
}

#[test]
fn a_folder_that_another_run_writes_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("impossible.toml");
    fs::write(&suite, SUITE).unwrap();
    let out = folder.path().join("out");
    let environment = environment();
    let binding = Binding::new(&environment, []);
    let _held = Store::open(&out, environment, binding, Mode::New).unwrap();
    assert_ends(&measuring(&suite, &out), 1, "is being written by another run|--out");
}

#[test]
fn a_report_of_damaged_or_older_results_names_the_line_and_one_of_a_cut_line_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let deviation = Deviation {
        factor: 1.0,
        noise: 0.01,
        seed: 1,
    };
    drop(write_run(folder.path(), &[cell("sgd", "mnist", 64, 1, 0, deviation)]));
    let lines = folder.path().join("measurements.jsonl");
    let good = fs::read_to_string(&lines).unwrap();
    let older = good.replacen("\"schema\":1", "\"schema\":0", 1);
    let cut = format!("{good}{}", &good[..good.len() / 2]);
    let report = format!("report {}", folder.path().display());
    for (text, code, parts) in [
        (older, 1, "measurements.jsonl:1|schema 0"),
        (format!("{good}{{\"schema\":1,,\n"), 1, "measurements.jsonl:2|damaged"),
        (cut, 0, "cut off"),
    ] {
        fs::write(&lines, text).unwrap();
        assert_ends(&report, code, parts);
    }
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("cut off"), "the page says so too");
    // A study beside the cells that cannot be read is named, and the rest is shown.
    let study = folder.path().join("quick-training");
    fs::create_dir(&study).unwrap();
    fs::write(study.join("presentation.json"), "{\"name\": \"half").unwrap();
    assert_ends(&report, 0, "presentation.json is left out");
}
