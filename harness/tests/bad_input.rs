//! What the program does with input that cannot be: bad usage ends with exit code 2 and a way out, damaged results are
//! named, and combinations that cannot be measured are skipped with their reason, never in silence.

#[allow(dead_code, reason = "other tests need whole plans of cells")]
mod synthetic;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rounds::results::{Binding, Mode, Store, read_run};
use synthetic::{cell, environment, write_run};

fn rounds(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rounds"))
        .args(arguments)
        .env_remove("ROUNDS_DATA")
        .output()
        .expect("the program starts")
}

/// The exit code and what was said on stderr.
fn told(arguments: &[&str]) -> (Option<i32>, String) {
    let output = rounds(arguments);
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Thirty rows of two features and a label.
fn table(folder: &Path) -> String {
    let path = folder.join("table.csv");
    let rows = (0..30).map(|row| format!("{},{},{}\n", row % 7, (row * 3) % 5, row % 2));
    fs::write(&path, rows.collect::<String>()).unwrap();
    path.display().to_string()
}

#[test]
fn settings_out_of_range_are_bad_usage_and_name_their_flag() {
    let folder = tempfile::tempdir().unwrap();
    let data = table(folder.path());
    let good = [
        "train",
        "--data",
        &data,
        "--threads",
        "1",
        "--epochs",
        "1",
        "--batch-size",
        "10",
    ];
    let dp = ["--algorithm", "dp-sgd", "--epsilon", "1"];
    let (code, said) = told(&[&good[..], &dp].concat());
    assert_eq!(code, Some(0), "{said}");
    // The flag, its value, and a word of the answer. A later flag of one name does not count, so bases lack it.
    let base = ["train", "--data", &data, "--algorithm", "dp-sgd"];
    let cases: [(&[&str], &str); 12] = [
        (&["--epsilon", "1", "--batch-size", "0"], "batch-size 0"),
        (&["--epsilon", "1", "--batch-size", "31"], "batch-size 31"),
        (&["--epsilon", "1", "--clip-norm", "-1"], "clip-norm -1"),
        (&["--epsilon", "1", "--momentum", "1"], "momentum 1"),
        (&["--epsilon", "1", "--learning-rate", "0"], "learning-rate 0"),
        (&["--epsilon", "1", "--epochs", "-2"], "epochs -2"),
        (&["--epsilon", "1", "--regularization", "-1"], "--regularization -1"),
        (&["--epsilon", "1", "--threads", "0"], "--threads"),
        (&["--epsilon", "-1", "--batch-size", "10"], "epsilon"),
        (&["--epsilon", "1", "--delta", "2", "--batch-size", "10"], "delta"),
        (
            &["--epsilon", "1", "--set", "no-such-key=1", "--batch-size", "10"],
            "no-such-key",
        ),
        (&["--epsilon", "1", "--loss", "hnge", "--batch-size", "10"], "--loss"),
    ];
    for (flags, named) in cases {
        let joined: Vec<String> = flags
            .windows(2)
            .step_by(2)
            .map(|pair| format!("{}={}", pair[0], pair[1]))
            .collect();
        let joined: Vec<&str> = joined.iter().map(String::as_str).collect();
        let (code, said) = told(&[&base[..], &joined].concat());
        assert_eq!(code, Some(2), "{flags:?}: {said}");
        assert!(said.to_lowercase().contains(named), "{flags:?}: {said}");
    }
}

#[test]
fn noise_that_dp_sgd_cannot_add_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let data = table(folder.path());
    let base = [
        "train",
        "--data",
        &data,
        "--epsilon",
        "1",
        "--epochs",
        "1",
        "--batch-size",
        "10",
        "--threads",
        "1",
    ];
    let with = |flags: &[&str]| told(&[&base[..], flags].concat());
    let (code, said) = with(&["--algorithm", "dp-sgd", "--noise", "tree"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("noise tree") && said.contains("dp-ftrl"), "{said}");
    let (code, said) = with(&["--algorithm", "dp-sgd", "--noise", "independent"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = with(&["--algorithm", "sgd", "--clip-norm", "1"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("clip-norm: algorithm 'sgd' has no such parameter"),
        "{said}"
    );
    let (code, said) = with(&["--algorithm", "sgd"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("--epsilon"),
        "a run without privacy says that a budget changes nothing: {said}"
    );
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

#[test]
fn combinations_that_cannot_be_are_skipped_with_their_reason_in_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("impossible.toml");
    fs::write(&suite, SUITE).unwrap();
    let out = folder.path().join("out");
    let (suite, out) = (suite.display().to_string(), out.display().to_string());
    let (code, said) = told(&["run", &suite, "--out", &out, "--threads", "1"]);
    assert_eq!(code, Some(0), "{said}");
    let run = read_run(Path::new(&out)).unwrap();
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
    for word in ["strong convexity", "--data-dir", "--noise tree"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Resumed, nothing is measured or named twice; the report shows the reasons.
    let (code, said) = told(&["run", &suite, "--out", &out, "--threads", "1", "--resume"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(read_run(Path::new(&out)).unwrap().results.skipped.len(), 4);
    let (code, said) = told(&["report", &out]);
    assert_eq!(code, Some(0), "{said}");
    let page = fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    assert!(page.contains("id=\"not-measured\"") && page.contains("strong convexity"));
}

#[test]
fn a_suite_that_cannot_be_is_bad_usage_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("suite.toml");
    let cases = [
        ("at-most = 3", "at-mots = 3", "did you mean 'at-most'?"),
        (
            "algorithm = \"dp-masg\"",
            "algorithm = \"dp-mags\"",
            "did you mean 'dp-masg'?",
        ),
        (
            "{ epsilon = 1.0, noise = \"tree\" }",
            "{ epsilon = 1.0, noise = \"treee\" }",
            "--noise 'treee'",
        ),
        (
            "{ epsilon = 1.0, noise = \"tree\" }",
            "{ epsilon = \"one\" }",
            "epsilon = one",
        ),
    ];
    for (right, wrong, expected) in cases {
        assert!(SUITE.contains(right));
        fs::write(&path, SUITE.replace(right, wrong)).unwrap();
        let out = folder.path().join("out");
        let (code, said) = told(&[
            "run",
            path.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--threads",
            "1",
        ]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
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
    let (code, said) = told(&[
        "run",
        suite.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--threads",
        "1",
    ]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("is being written by another run") && said.contains("--out"),
        "{said}"
    );
}

#[test]
fn a_report_of_damaged_or_older_results_names_the_line_and_one_of_a_cut_line_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    drop(write_run(
        folder.path(),
        &[cell("sgd", "mnist", 64, 1, 0, 1.0, 0.01, 1)],
    ));
    let lines = folder.path().join("measurements.jsonl");
    let good = fs::read_to_string(&lines).unwrap();
    let report = |text: &str| {
        fs::write(&lines, text).unwrap();
        told(&["report", folder.path().to_str().unwrap()])
    };
    let (code, said) = report(&good.replacen("\"schema\":1", "\"schema\":0", 1));
    assert_eq!(code, Some(1));
    assert!(
        said.contains("measurements.jsonl:1") && said.contains("schema 0"),
        "{said}"
    );
    let (code, said) = report(&format!("{good}{{\"schema\":1,,\n"));
    assert_eq!(code, Some(1));
    assert!(
        said.contains("measurements.jsonl:2") && said.contains("damaged"),
        "{said}"
    );
    let (code, said) = report(&format!("{good}{}", &good[..good.len() / 2]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("cut off"), "{said}");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("cut off"), "the page says so too");
    // A study beside the cells that cannot be read is named, and the rest is shown.
    let study = folder.path().join("quick-training");
    fs::create_dir(&study).unwrap();
    fs::write(study.join("study.json"), "{\"name\": \"half").unwrap();
    let (code, said) = report(&good);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("study.json is left out"), "{said}");
}
