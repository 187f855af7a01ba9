//! `rounds ledger` and `train --ledger`.

use std::fs;

use crate::support::{assert_ends, assert_refused, assert_succeeds, document, stdout};

const SCHEMA: &str =
    "[columns.x]\nkind = \"number\"\nbounds = [0, 9]\n[label]\ncolumn = \"y\"\nclasses = [\"no\", \"yes\"]\n";

#[test]
fn releases_share_a_budget_and_what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (data, ledger) = (path("table.csv"), path("budget"));
    let rows: String = (0..300).map(|row| format!("{},{}\n", row % 10, ["no", "yes"][row % 2])).collect();
    fs::write(&data, "x,y\n".to_owned() + &rows).unwrap();
    let new = |more: &str| format!("ledger new {ledger} --data {data} --epsilon 1 {more}");
    // Without a checked schema, a number of rows, a sound budget.
    assert_refused(&new("--delta 1e-4 --rows 300"), "rounds schema");
    fs::write(path("schema.toml"), format!("drafted = true\n{SCHEMA}")).unwrap();
    assert_refused(&new("--delta 1e-4 --rows 300"), "rounds schema");
    fs::write(path("schema.toml"), SCHEMA).unwrap();
    assert_refused(&new("--delta 1e-4"), "--rows n");
    assert_refused(
        &new("--delta 1e-4 --rows 300 --adjacency add-remove --public-rows 300"),
        "--public-rows stands for it",
    );
    assert_refused(&new("--delta 0 --rows 300"), "0 needs --filter basic");
    assert_refused(&new("--delta 1e-4 --rows 300 --filter none"), "gaussian, renyi, basic");
    for of_runs in ["--unit x", "--bounds private:0.1"] {
        assert_refused(&new(&format!("--delta 1e-4 --rows 300 {of_runs}")), "give it to the runs");
    }
    assert_ends(&new("--delta 1e-4 --rows 300").replace("budget", "none/budget"), 2, "cannot make it: no such file");
    let warned = assert_succeeds(&new("--delta 0.01 --rows 300").replace("budget", "weak"));
    assert!(warned.contains("at least 1/n"), "{warned}");
    assert_succeeds(&new("--delta 1e-4 --rows 300"));
    assert_ends(&new("--delta 1e-4 --rows 300"), 2, "a ledger is never replaced");
    let elsewhere = new(&format!("--delta 1e-4 --rows 300 --schema {}", path("schema.toml")));
    let warned = assert_succeeds(&elsewhere.replace("table.csv", "tabel.csv").replace("budget", "other"));
    assert!(warned.contains("tabel.csv: nothing is called so here"), "{warned}");

    let train = |epsilon: f64| {
        format!(
            "train --data {data} --threads 1 --secure --epsilon {epsilon} --delta 1e-4 --epochs 1 --ledger {ledger} \
             --model {}",
            path(&format!("{epsilon}.st"))
        )
    };
    let outcome = document(&train(0.5));
    let without_model = train(0.1).replace(&format!("--model {}", path("0.1.st")), "");
    assert_refused(
        &without_model,
        "--ledger: the run is booked, and its model would be kept nowhere; give --model file",
    );
    let shown = document(&format!("ledger show {ledger}"));
    assert_eq!((shown["runs"].as_array().unwrap().len(), &shown["runs"][0]["state"]), (1, &"done".into()));
    assert_eq!(shown["runs"][0]["model_sha256"], outcome["model_sha256"]);
    assert_eq!(shown["runs"][0]["statement"]["epsilon"], outcome["privacy"]["epsilon"]);
    let spent = shown["spent"].as_f64().unwrap();
    assert!((0.2..0.5).contains(&spent), "{spent}");
    assert_refused(&train(0.95), "budget would be exceeded|by gaussian noise|read no row");
    assert_refused(&train(0.3).replace(" --secure", ""), "--ledger|give --secure");
    assert_refused(&(train(0.3) + " --diagnostics"), "--diagnostics|in no ledger");
    assert_refused(&train(0.3).replace("budget", "none"), "rounds ledger new");
    assert_eq!(document(&format!("ledger show {ledger}"))["spent"], spent);
    assert!(stdout(&format!("ledger show {ledger}")).contains("zero-out, of one example"));
    fs::write(path("broken"), fs::read_to_string(&ledger).unwrap().replace('7', "8")).unwrap();
    assert_ends(&format!("ledger show {}", path("broken")), 1, "is damaged");
    assert_ends(&train(0.3).replace("budget", "broken"), 1, "is damaged");
}
