//! A release through the command line: what it needs, what it prints, and what it refuses before any private computation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn rounds(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rounds"))
        .args(arguments)
        .env_remove("ROUNDS_DATA")
        .output()
        .expect("the program starts")
}

/// The exit code and the text on stderr.
fn failure(arguments: &[&str]) -> (Option<i32>, String) {
    let output = rounds(arguments);
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

const SCHEMA: &str = r#"
[rows]
relation = "zero-out"
[columns.height]
kind = "number"
bounds = [0, 10]
missing = 5
[columns.colour]
kind = "category"
values = ["red", "green"]
other = "null-row"
[label]
column = "kind"
classes = ["no", "yes"]
[test]
public = false
"#;

/// 200 rows and a schema beside them, in a folder of their own.
fn folder(schema: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("height,colour,kind\n");
    for row in 0..200 {
        let colour = ["red", "green", "blue"][row % 3];
        writeln!(text, "{},{colour},{}", row % 11, ["no", "yes"][(row / 2) % 2]).unwrap();
    }
    fs::write(folder.path().join("table.csv"), text).unwrap();
    if !schema.is_empty() {
        fs::write(folder.path().join("schema.toml"), schema).unwrap();
    }
    folder
}

fn table(folder: &Path) -> String {
    folder.join("table.csv").display().to_string()
}

/// A short release with `more` arguments.
fn release(folder: &Path, more: &[&str]) -> Output {
    let table = table(folder);
    let own = [
        "train",
        "--data",
        &table,
        "--epsilon",
        "1",
        "--delta",
        "1e-4",
        "--threads",
        "1",
        "--batch-size",
        "20",
    ];
    rounds(&[&own[..], &["--epochs", "1", "--secure"], more].concat())
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn a_release_prints_its_domain_and_mechanisms_and_no_statistic_of_the_rows() {
    let folder = folder(SCHEMA);
    let outcome = document(&release(folder.path(), &["--json"]));
    let privacy = &outcome["privacy"];
    assert_eq!(privacy["claim"], "release", "{privacy:#}");
    assert_eq!(privacy["adjacency"], "zero-out");
    assert_eq!(privacy["domain"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(privacy["mechanisms"][0]["subsampled-gaussian"]["sampling"]["rate"], 0.1);
    assert!(privacy["replace_one"]["epsilon"].as_f64().unwrap() > 1.0);
    assert_eq!(outcome["n"], 200);
    assert_eq!(outcome["gradient_queries"], 200);
    for private in [
        "seconds",
        "load_seconds",
        "calibration_seconds",
        "diagnostics",
        "test_accuracy",
        "seed",
    ] {
        assert!(outcome.get(private).is_none(), "{private} in {outcome:#}");
    }
    let asked = document(&release(folder.path(), &["--json", "--diagnostics"]));
    assert!(asked["diagnostics"]["train_loss"].is_f64() && asked["diagnostics"]["times"]["seconds"].is_f64());
    assert!(asked.get("seconds").is_none());
}

#[test]
fn a_statement_is_recomputed_from_its_file_and_a_forged_one_is_found_out() {
    let folder = folder(SCHEMA);
    for more in [
        vec!["--json"],
        vec!["--json", "--algorithm", "dp-ftrl"],
        vec!["--json", "--algorithm", "dp-gd", "--noise", "independent"],
    ] {
        let mut outcome = document(&release(folder.path(), &more));
        let path = folder.path().join("statement.json");
        let check = |outcome: &Value| {
            fs::write(&path, outcome.to_string()).unwrap();
            rounds(&["account", "--statement", &path.display().to_string(), "--json"])
        };
        let output = check(&outcome);
        let recomputed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(recomputed["holds"], true, "{recomputed:#}");
        assert!(output.status.success());
        outcome["privacy"]["epsilon"] = 0.5.into();
        assert_eq!(check(&outcome).status.code(), Some(1));
    }
}

#[test]
fn releases_without_a_confirmed_domain_are_refused_with_the_remedy() {
    let draft = format!("drafted = true\n{SCHEMA}");
    for (schema, remedy) in [("", "rounds schema"), (draft.as_str(), "drafted = false")] {
        let folder = folder(schema);
        let output = release(folder.path(), &[]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(remedy), "{text}");
    }
    // Without --secure such a run claims nothing, and says why.
    let folder = folder(&draft);
    let table = table(folder.path());
    let output = rounds(&["train", "--data", &table, "--epsilon", "1", "--threads", "1", "--json"]);
    let outcome = document(&output);
    assert_eq!(outcome["privacy"]["claim"], "none");
    assert!(outcome["privacy"]["reason"].as_str().unwrap().contains("draft"));
}

#[test]
fn bad_declarations_are_refused_by_name() {
    let with = |from: &str, to: &str| SCHEMA.replace(from, to);
    let cases: [(String, &[&str], &str); 9] = [
        (with("[0, 10]", "[10, 0]"), &[], "height"),
        (with("\"null-row\"", "\"purple\""), &[], "colour"),
        (with("columns.height", "columns.width"), &[], "width"),
        (with("zero-out", "add-remove"), &[], "public-rows"),
        (with("zero-out", "add-one"), &[], "add-one"),
        (SCHEMA.to_owned(), &["--adjacency", "add-remove"], "public-rows"),
        (
            SCHEMA.to_owned(),
            &["--adjacency", "add-remove", "--public-rows", "10"],
            "--batch-size",
        ),
        (
            SCHEMA.to_owned(),
            &[
                "--adjacency",
                "add-remove",
                "--public-rows",
                "200",
                "--algorithm",
                "dp-ftrl",
            ],
            "add-remove",
        ),
        (SCHEMA.to_owned(), &["--delta=0.01"], "--allow-weak-privacy"),
    ];
    for (schema, more, named) in cases {
        let folder = folder(&schema);
        let more: Vec<&str> = more.to_vec();
        let table = table(folder.path());
        let delta = if more.contains(&"--delta=0.01") {
            ""
        } else {
            "--delta=1e-4"
        };
        let own = [
            "train",
            "--data",
            &table,
            "--epsilon",
            "1",
            "--threads",
            "1",
            "--batch-size",
            "20",
            "--secure",
        ];
        let line: Vec<&str> = own
            .iter()
            .copied()
            .chain([delta].into_iter().filter(|text| !text.is_empty()))
            .chain(more)
            .collect();
        let (code, text) = failure(&line);
        assert_eq!(code, Some(2), "{line:?}: {text}");
        assert!(text.contains(named), "{named}: {text}");
    }
    // A budget that protects next to nothing is refused however it is given, and allowed where it is meant.
    let folder = folder(SCHEMA);
    let table = table(folder.path());
    let own = [
        "train",
        "--data",
        &table,
        "--delta",
        "1e-4",
        "--threads",
        "1",
        "--batch-size",
        "20",
        "--epochs",
        "1",
        "--secure",
    ];
    for budget in [["--epsilon", "11"], ["--noise-multiplier", "0.1"]] {
        let line = [&own[..], &budget].concat();
        let (code, text) = failure(&line);
        assert!(code == Some(2) && text.contains("--allow-weak-privacy"), "{text}");
        let allowed = document(&rounds(&[&line[..], &["--allow-weak-privacy", "--json"]].concat()));
        assert!(allowed["privacy"]["epsilon"].as_f64().unwrap() > 10.0);
    }
}

#[test]
fn a_release_is_resumed_on_its_own_domain_only() {
    let folder = folder(SCHEMA);
    let saved = folder.path().join("run.checkpoint").display().to_string();
    let table = table(folder.path());
    let own = [
        "train",
        "--data",
        &table,
        "--noise-multiplier",
        "20",
        "--delta",
        "1e-4",
        "--threads",
        "1",
        "--batch-size",
        "20",
        "--epochs",
        "2000",
        "--secure",
    ];
    let mut running = Command::new(env!("CARGO_BIN_EXE_rounds"))
        .args([&own[..], &["--checkpoint", &saved, "--checkpoint-every", "1"]].concat())
        .env_remove("ROUNDS_DATA")
        .spawn()
        .expect("the program starts");
    while !Path::new(&saved).exists() && running.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    fs::write(
        folder.path().join("schema.toml"),
        SCHEMA.replace("[0, 10]", "[0, 10.5]"),
    )
    .unwrap();
    let (code, text) = failure(&[&own[..], &["--resume", &saved]].concat());
    assert!(code == Some(1) && text.contains("its schema is"), "{text}");
}

#[test]
fn no_public_number_lets_a_row_overflow() {
    let folder = folder(SCHEMA);
    // Scaled beyond f32, and a coefficient beyond it: refused by bounds, naming no row.
    let scaled = release(folder.path(), &["--scale-features", "3e38"]);
    let text = String::from_utf8_lossy(&scaled.stderr).into_owned();
    assert!(
        !scaled.status.success() && text.contains("scale the features less"),
        "{text}"
    );
    let power = [
        "--algorithm",
        "unaccelerated-dp-srg",
        "--set",
        "power=200",
        "--set",
        "beta=1",
    ];
    let raised = release(folder.path(), &power);
    let text = String::from_utf8_lossy(&raised.stderr).into_owned();
    assert!(!raised.status.success() && !text.contains("row "), "{text}");
}

#[test]
fn pure_privacy_is_not_claimed_for_laplace_noise_in_floating_point() {
    let folder = folder(SCHEMA);
    let output = release(folder.path(), &["--json", "--algorithm", "dp-gd", "--noise", "laplace"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("finitely many"), "{text}");
}

#[test]
fn under_add_remove_the_number_of_rows_is_not_printed() {
    let folder = folder(SCHEMA);
    let add = ["--adjacency", "add-remove", "--public-rows", "180", "--json"];
    let outcome = document(&release(folder.path(), &add));
    assert!(outcome.get("n").is_none());
    assert_eq!(outcome["gradient_queries"], 180);
    assert_eq!(
        outcome["privacy"]["mechanisms"][0]["subsampled-gaussian"]["sampling"]["rate"],
        20.0 / 180.0
    );
    let mut printed = outcome;
    printed["model_sha256"] = Value::Null;
    printed["privacy"]["domain"] = Value::Null;
    assert!(!printed.to_string().contains("200"), "{printed:#}");
}

#[test]
fn a_syntax_error_of_a_release_names_no_line() {
    let folder = folder(SCHEMA);
    let path = folder.path().join("table.csv");
    let text = fs::read_to_string(&path).unwrap() + "1,red,no,no\n";
    fs::write(&path, text).unwrap();
    let output = release(folder.path(), &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("rounds schema") && !told.contains("202"), "{told}");
}
