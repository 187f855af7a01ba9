//! Releases through the command line: their needs, their output, and their refusals before any private computation.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::files::{MNIST, gzip, idx, npy, npz, write_mnist, xz};
use crate::support::{assert_ends, assert_refused, assert_succeeds, command, document, rounds, stderr, stdout};

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

/// The line of a release without a budget.
fn unbudgeted(folder: &Path) -> String {
    let table = folder.join("table.csv");
    format!("train --data {} --threads 1 --batch-size 20 --secure", table.display())
}

/// The line of a short release.
fn release(folder: &Path) -> String {
    unbudgeted(folder) + " --epsilon 1 --delta 1e-4 --epochs 1"
}

#[test]
fn a_release_prints_its_domain_and_mechanisms_and_no_statistic_of_the_rows() {
    let folder = folder(SCHEMA);
    let line = release(folder.path());
    let outcome = document(&line);
    let privacy = &outcome["privacy"];
    assert_eq!(privacy["claim"], "release", "{privacy:#}");
    assert_eq!(privacy["adjacency"], "zero-out");
    assert_eq!(privacy["domain"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(privacy["mechanisms"][0]["subsampled-gaussian"]["sampling"]["rate"], 0.1);
    assert!(privacy["replace_one"]["epsilon"].as_f64().unwrap() > 1.0);
    assert_eq!(outcome["n"], 200);
    assert_eq!(outcome["gradient_queries"], 200);
    for private in "seconds load_seconds calibration_seconds diagnostics test_accuracy seed".split(' ') {
        assert!(outcome.get(private).is_none(), "{private} in {outcome:#}");
    }
    let diagnosed = document(&(line + " --diagnostics"));
    let diagnostics = &diagnosed["diagnostics"];
    assert!(diagnostics["train_loss"].is_f64() && diagnostics["times"]["seconds"].is_f64());
    assert!(diagnosed.get("seconds").is_none());
}

#[test]
fn a_statement_is_verified_from_its_file_and_a_forged_one_is_detected() {
    let folder = folder(SCHEMA);
    let [path, key] = ["statement.json", "key"].map(|name| folder.path().join(name));
    assert!(stdout(&format!("keygen {}", key.display())).contains("key.pub"));
    assert_refused(&format!("keygen {}", key.display()), "a key is never replaced");
    std::os::unix::fs::symlink("nowhere", folder.path().join("half.pub")).unwrap();
    let half = folder.path().join("half");
    assert_refused(&format!("keygen {}", half.display()), "a key is never replaced");
    assert!(!half.exists(), "a secret key without its public one");
    for more in ["", " --algorithm dp-ftrl", " --algorithm dp-gd --noise independent"] {
        let mut outcome = document(&format!("{} --sign {}{more}", release(folder.path()), key.display()));
        let check = |outcome: &Value| {
            fs::write(&path, outcome.to_string()).unwrap();
            rounds(&format!("account --statement {} --verify {}.pub --json", path.display(), key.display()))
        };
        let output = check(&outcome);
        let verified: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&verified["holds"], &verified["signer"]), (&true.into(), &outcome["signature"]["key"]));
        assert!(output.status.success());
        outcome["privacy"]["epsilon"] = 0.5.into();
        let forged = check(&outcome);
        assert_eq!(forged.status.code(), Some(1));
        let said = stderr(&forged);
        assert!(said.contains("in 2 fields") && said.contains("\n  privacy.epsilon: 0.5 is stated, "), "{said}");
        outcome.as_object_mut().unwrap().remove("signature");
        let unsigned = check(&outcome);
        assert!(
            unsigned.status.code() == Some(1) && stderr(&unsigned).contains("signature: there is none; `rounds train")
        );
        let line = format!("account --statement {}", path.display());
        assert_ends(&line, 1, "in 1 field|privacy.epsilon");
        for (wrong, reason) in [("key", "no public key of `rounds keygen FILE`"), ("missing.pub", "cannot be read")] {
            assert_refused(&format!("{line} --verify {}", folder.path().join(wrong).display()), reason);
        }
    }
}

#[test]
fn releases_from_the_same_rows_cost_together_what_their_mechanisms_do() {
    let folder = folder(SCHEMA);
    let model = |name: &str| folder.path().join(name).display().to_string();
    let names = ["a.st", "b.st", "c.st"].map(model);
    for (name, more) in names.iter().zip([" --algorithm dp-ftrl", " --algorithm dp-ftrl", ""]) {
        stdout(&format!("{}{more} --model {name}", release(folder.path())));
    }
    let [a, b, c] = &names;
    let composed = |files: &[&String]| {
        let files: Vec<&str> = files.iter().map(|file| file.as_str()).collect();
        document(&format!("account --compose {} --delta 1e-4", files.join(" ")))
    };
    let two = composed(&[a, b]);
    let number = |value: &Value| value.as_f64().unwrap();
    let each = number(&two["runs"][0]["statement"]["epsilon"]);
    // Two equal Gaussian mechanisms: √2 times μ.
    let mu = document(&format!("account gaussian --epsilon {each} --delta 1e-4 --adjacency zero-out"));
    let both = document(&format!(
        "account gaussian --noise-multiplier {} --steps 2 --delta 1e-4 --adjacency zero-out",
        number(&mu["noise_multiplier"])
    ));
    assert!((number(&two["epsilon"]) / number(&both["epsilon"]) - 1.0).abs() < 1e-6, "{two} {both}");
    let three = composed(&[a, b, c]);
    assert!(number(&three["epsilon"]) > number(&two["epsilon"]) && three["accountant"] == "pld", "{three}");
    let said = stdout(&format!("account --compose {a} {b}"));
    assert!(said.contains("together") && said.contains("must not follow"), "{said}");
    assert_refused(&format!("account --compose {a} {a}"), "a run counts once");
    assert_refused(&format!("account --compose {a}"), "2 values required|--compose");
    fs::write(folder.path().join("d.json"), "{}").unwrap();
    assert_refused(&format!("account --compose {a} {}", model("d.json")), "it holds no privacy statement");
}

/// The block of the example of docs/TRAINING.md in this language.
fn example(language: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/TRAINING.md")).unwrap();
    let section = page.split("## Several rows a person").nth(1).expect("the example");
    let block = section.split(&format!("```{language}\n")).nth(1).expect("a block");
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn the_example_of_visits_protects_people_and_says_so_in_a_statement_that_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // Beside the rows of the example 390 visits of 78 people.
    let mut table = example("csv");
    for visit in 0..390 {
        let (person, ward) = (100 + visit % 78, ["north", "south"][visit % 2]);
        writeln!(table, "{person},{},{ward},{},{}", 1 + visit % 31, visit % 200, ["no", "yes"][visit / 2 % 2]).unwrap();
    }
    fs::write(path("visits.csv"), table).unwrap();
    fs::write(path("schema.toml"), example("toml")).unwrap();
    let by_row = example("toml").replace("unit = \"person\"\nmax-rows = 50", "drop = [\"person\"]");
    fs::write(path("rows.toml"), by_row).unwrap();
    let line = format!(
        "train --data {} --threads 1 --batch-size 20 --epochs 1 --secure --epsilon 1 --delta 1e-4",
        path("visits.csv")
    );
    let text = stdout(&format!("{line} --model {}", path("visits.st")));
    assert!(text.contains("80 units, 4 features") && text.contains("column \"person\""), "{text}");
    // The hash of a secret model may have any digits.
    let told = text.split("model sha256").next().unwrap();
    assert!(!told.contains("393") && !told.contains("rows,"), "{text}");
    assert_succeeds(&format!("account --statement {}", path("visits.st")));

    // Who the claim protects is part of what is verified.
    let mut forged = document(&line);
    let of = |outcome: &Value, place: &str| outcome.pointer(place).unwrap().as_str().unwrap().to_owned();
    assert_eq!(of(&forged, "/privacy/unit"), "value of column \"person\"");
    let schema = of(&forged, "/data/schema");
    for (place, other) in [
        ("/privacy/unit", "example".to_owned()),
        ("/data/schema", schema.replace("max-rows = 50", "max-rows = 5")),
        ("/data/schema", schema.replace("max-rows = 50", "reduce = \"sum\"\nmax-rows = 50")),
        ("/data/schema", schema.replace("unit = \"person\"\nmax-rows = 50\n", "")),
    ] {
        let stated = std::mem::replace(forged.pointer_mut(place).unwrap(), other.into());
        fs::write(path("forged.json"), forged.to_string()).unwrap();
        let said = assert_ends(&format!("account --statement {}", path("forged.json")), 1, "is stated");
        assert!(said.contains("privacy."), "{said}");
        *forged.pointer_mut(place).unwrap() = stated;
    }

    // Claims for people and for rows do not add up.
    assert_succeeds(&format!("{line} --schema {} --model {}", path("rows.toml"), path("rows.st")));
    assert_refused(&format!("account --compose {} {}", path("visits.st"), path("rows.st")), "of one example");
    // A flag names nothing that the schema does not, and ranks of one process are none.
    assert_refused(
        &format!("{line} --schema {} --unit person", path("rows.toml")),
        "--unit person: a release protects the unit that its schema declares|unit = \"person\" under [rows]",
    );
    let simulated = document(&format!("{} --schema {} --unit person", line.replace("--secure", ""), path("rows.toml")));
    assert_eq!((&simulated["n"], &simulated["privacy"]["claim"]), (&80.into(), &"simulation".into()));
    assert_succeeds(&format!("{line} --unit person"));
    assert!(stdout(&format!("schema {}", path("visits.csv"))).contains("unit = \"person\""));
}

#[test]
fn a_model_holds_its_statement_and_a_release_is_not_overwritten() {
    let folder = folder(SCHEMA);
    let model = folder.path().join("model.st");
    let line = format!("{} --model {}", release(folder.path()), model.display());
    let again = format!("account --statement {}", model.display());
    for (run, is_release) in [(line.replace("--secure", ""), false), (line.clone(), true)] {
        let text = stdout(&run);
        let halves = text.split_whitespace().filter(|word| word.len() == 32).count();
        assert!(text.contains(&format!("`rounds {again}`")) == is_release && halves == 2, "{text}");
        assert_ends(&again, if is_release { 0 } else { 2 }, if is_release { "" } else { "claims no release|--secure" });
    }
    let written = fs::read(&model).unwrap();
    assert_refused(&line, "it holds a release|name another file");
    assert_eq!(fs::read(&model).unwrap(), written);
}

#[test]
fn releases_without_a_confirmed_domain_are_refused_with_the_remedy() {
    let draft = format!("drafted = true\n{SCHEMA}");
    for (schema, remedy) in [("", "rounds schema"), (draft.as_str(), "drafted = false")] {
        assert_refused(&release(folder(schema).path()), remedy);
    }
    // A draft is one without its mark, too, until a person confirms it.
    let drafted = self::folder("");
    let schema = drafted.path().join("schema.toml");
    assert_succeeds(&format!("schema {} -o {}", drafted.path().join("table.csv").display(), schema.display()));
    let text = fs::read_to_string(&schema).unwrap();
    fs::write(&schema, text.replace("drafted = true\n", "")).unwrap();
    assert_refused(&release(drafted.path()), "drafted = false");
    fs::write(&schema, text.replace("drafted = true", "drafted = false")).unwrap();
    let source = document(&release(drafted.path()))["data"]["domain_source"].to_string();
    assert!(source.ends_with("drafted from the rows and confirmed\""), "{source}");
    // Flags that repeat the schema change nothing; others are named.
    for (flags, end) in [
        ("--label kind", "confirmed"),
        ("--bounds height=0:20", "confirmed; changed by arguments: bounds"),
        ("--bounds private:5 --drop colour", "confirmed; changed by arguments: drop"),
    ] {
        let source = document(&format!("{} {flags}", release(drafted.path())))["data"]["domain_source"].to_string();
        assert!(source.ends_with(&format!("{end}\"")), "{source}");
    }
    // Without --secure such a run claims nothing, with the reason.
    let folder = folder(&draft);
    let outcome = document(&release(folder.path()).replace("--secure", ""));
    assert_eq!(outcome["privacy"]["claim"], "none");
    assert!(outcome["privacy"]["reason"].as_str().unwrap().contains("draft"));
}

#[test]
fn the_first_row_of_a_file_without_a_header_is_a_row_like_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let release = |name: &str, declared: &str| {
        let line = format!("train --data {} --epsilon 1 --delta 1e-6 --secure {declared}", path(name).display());
        (line + " --batch-size 20 --epochs 1").replace("{}", &folder.path().display().to_string())
    };
    let rows = "0.5,1\n1.5,0\n".repeat(100);
    // A quote that does not close is a syntax error, and the message shows nothing of the row.
    fs::write(path("quote.csv"), format!("\"Alice 1980-01-02,0.5,1\n{rows}")).unwrap();
    for declared in ["--label y --bounds x=0:1 --classes 0,1", "--label y --bounds private:1 --classes 0,1"] {
        let message = assert_ends(&release("quote.csv", declared), 2, "quote.csv");
        assert!(!message.contains("Alice") && !message.contains("1980"), "{message}");
    }
    // Letters that Parquet files begin with, too, are a word: a missing number.
    let declared = "--bounds 0,2 --dimension 1 --classes 0,1";
    for first in ["0.5,1", "PAR1,1"] {
        fs::write(path("text.csv"), format!("{first}\n{rows}")).unwrap();
        assert_eq!(document(&release("text.csv", declared))["n"], 201, "{first}");
    }
    // Words as labels are encoded, however many there are.
    let words: Vec<u8> = (0..66_000).flat_map(|row| format!("{row:05}").into_bytes()).collect();
    let features = npy("|u1", false, "66000, 1", &vec![7; 66_000]);
    let arrays = [("x", features), ("y", npy("|S5", false, "66000,", &words))];
    fs::write(path("words.npz"), npz(&arrays, zip::CompressionMethod::Stored)).unwrap();
    fs::write(path("numbers.toml"), NUMBERS).unwrap();
    for declared in ["--bounds 0,255 --dimension 1 --classes 00001,00002", "--schema {}/numbers.toml"] {
        assert_eq!(document(&release("words.npz", declared))["n"], 66_000, "{declared}");
    }
}

/// Numbers as labels.
const NUMBERS: &str = r#"
[rows]
storage = "bytes"
[columns]
count = 1
bounds = [0, 255]
[label]
bounds = [0, 70000]
"#;

#[test]
fn what_a_release_would_lose_or_reveal_is_refused() {
    let folder = folder(SCHEMA);
    let table = folder.path().join("table.csv");
    let line = release(folder.path());
    for (more, named) in [
        ("--clip-norm inf", "finite"),
        ("--learning-rate nan", "finite"),
        (&format!("--test {}", table.display()), "training rows"),
    ] {
        assert_refused(&format!("{line} {more}"), named);
    }
    // Taken for test rows without a flag, since it is called so.
    let beside = folder.path().join("table.csv.t");
    std::os::unix::fs::symlink(&table, &beside).unwrap();
    assert_refused(&line, "training rows");
    std::fs::remove_file(&beside).unwrap();
    let line = format!("{line} --model {}/model.npy", folder.path().display());
    assert_succeeds(&line);
    assert_refused(&line, "may hold a release");
}

#[test]
fn private_bounds_count_no_row_that_becomes_the_null_row() {
    let folder = tempfile::tempdir().unwrap();
    let model = |null: &str| {
        let path = folder.path().join("table.csv");
        fs::write(&path, format!("x,y\n{}{}", "3,0\n5,1\n".repeat(100), null.repeat(100))).unwrap();
        let declared = "--label y --classes 0,1 --bounds private:2 --epsilon 1 --delta 1e-6 --batch-size 20 --epochs 1";
        document(&format!("train --data {} --threads 1 {declared}", path.display()))["model_sha256"].clone()
    };
    let without = model(",\n");
    // Without a label, with one that is not declared.
    for null in ["1e6,\n", "1000,2\n"] {
        assert_eq!(model(null), without, "{null}");
    }
    assert_ne!(model("1000,1\n"), without);
}

#[test]
fn bad_declarations_are_refused_by_name() {
    for (from, to, named) in [
        ("[0, 10]", "[10, 0]", "height"),
        ("\"null-row\"", "\"purple\"", "colour"),
        ("columns.height", "columns.width", "declared format and columns"),
        ("zero-out", "add-remove", "public-rows"),
        ("zero-out", "add-one", "add-one"),
    ] {
        assert_refused(&release(folder(&SCHEMA.replace(from, to)).path()), named);
    }
    let folder = folder(SCHEMA);
    let line = release(folder.path());
    for (more, named) in [
        ("", "public-rows"),
        ("--public-rows 10", "batch-size 20"),
        ("--public-rows 200 --algorithm dp-ftrl", "add-remove"),
    ] {
        let more = format!("--adjacency add-remove {more}");
        assert_refused(&format!("{line} {more}"), named);
    }
    // A budget that protects next to nothing is refused, and allowed where it is meant.
    let unbudgeted = unbudgeted(folder.path()) + " --epochs 1";
    assert_refused(&(unbudgeted.clone() + " --epsilon 1 --delta 0.01"), "--allow-weak-privacy");
    for budget in ["--epsilon 11", "--noise-multiplier 0.1"] {
        let line = format!("{unbudgeted} --delta 1e-4 {budget}");
        assert_refused(&line, "--allow-weak-privacy");
        let allowed = document(&(line + " --allow-weak-privacy"));
        assert!(allowed["privacy"]["epsilon"].as_f64().unwrap() > 10.0);
    }
}

/// Starts the line, and kills it when `saved` is there.
fn kill_after_a_checkpoint(line: &str, saved: &Path) {
    let saving = format!("{line} --checkpoint {} --checkpoint-every 1", saved.display());
    let mut running = command(&saving).spawn().expect("the program starts");
    while !saved.exists() && running.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.kill().unwrap();
    running.wait().unwrap();
}

/// A round is a clock of the rows: those with a unit of many rows are slow.
#[test]
fn an_interrupted_release_tells_no_round() {
    let folder = folder(SCHEMA);
    let saved = folder.path().join("run.checkpoint");
    let line = unbudgeted(folder.path()) + " --noise-multiplier 20 --delta 1e-4 --epochs 20000 --allow-weak-privacy";
    let line = format!("{line} --checkpoint {} --checkpoint-every 1", saved.display());
    let running = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    while !saved.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let process = rustix::process::Pid::from_raw(running.id() as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let said = stderr(&output);
    let (_, said) = said.split_once("error: ").expect("an error");
    assert_eq!(said, format!("stopped; to go on:\n  rounds {line} --resume {}\n", saved.display()));
}

#[test]
fn the_memory_of_a_release_is_in_no_core_file() {
    let folder = folder(SCHEMA);
    let saved = folder.path().join("run.checkpoint");
    let line = unbudgeted(folder.path()) + " --noise-multiplier 20 --delta 1e-4 --epochs 2000";
    let limit = |line: &str| {
        let saving = format!("{line} --checkpoint {} --checkpoint-every 1", saved.display());
        let mut running = command(&saving).spawn().expect("the program starts");
        while !saved.exists() && running.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let limits = fs::read_to_string(format!("/proc/{}/limits", running.id())).unwrap();
        running.kill().unwrap();
        running.wait().unwrap();
        fs::remove_file(&saved).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        line.split_whitespace().nth(5).unwrap().to_owned()
    };
    assert_eq!(limit(&line), "0");
}

#[test]
fn a_release_is_resumed_on_its_own_domain_only() {
    let folder = folder(SCHEMA);
    let saved = folder.path().join("run.checkpoint");
    let line = unbudgeted(folder.path()) + " --noise-multiplier 20 --delta 1e-4 --epochs 2000";
    kill_after_a_checkpoint(&line, &saved);
    let schema = SCHEMA.replace("[0, 10]", "[0, 10.5]");
    fs::write(folder.path().join("schema.toml"), schema).unwrap();
    assert_ends(&format!("{line} --resume {}", saved.display()), 1, "its schema was");
}

#[test]
fn no_public_number_lets_a_row_overflow() {
    let folder = folder(SCHEMA);
    let line = release(folder.path());
    // Scaled beyond f32, and a coefficient beyond it: refused by bounds, naming no row.
    let refusal = |more: &str| {
        let output = rounds(&(line.clone() + more));
        assert!(!output.status.success());
        stderr(&output)
    };
    let message = refusal(" --scale-features 3e38");
    assert!(message.contains("scale the features less"), "{message}");
    let message = refusal(" --algorithm unaccelerated-dp-srg --set power=200 --set beta=1");
    assert!(!message.contains("row "), "{message}");
}

#[test]
fn releases_are_exact_and_pure_for_laplace_noise() {
    let folder = folder(SCHEMA);
    let privacy = |more: &str| document(&(release(folder.path()) + more))["privacy"].clone();
    let gaussian = privacy("");
    assert_eq!((&gaussian["claim"], &gaussian["arithmetic"]), (&"release".into(), &"exact".into()));
    let laplace = privacy(" --algorithm dp-gd --noise laplace");
    assert_eq!((&laplace["claim"], &laplace["arithmetic"]), (&"release".into(), &"exact".into()));
    assert_eq!((&laplace["delta"], &laplace["norm"]), (&0.0.into(), &"l1".into()));
}

#[test]
fn under_add_remove_the_number_of_rows_is_not_printed() {
    let folder = folder(SCHEMA);
    let mut outcome = document(&(release(folder.path()) + " --adjacency add-remove --public-rows 180"));
    assert!(outcome.get("n").is_none());
    assert_eq!(outcome["gradient_queries"], 180);
    let mechanism = &outcome["privacy"]["mechanisms"][0]["subsampled-gaussian"];
    assert_eq!(mechanism["sampling"]["rate"], 20.0 / 180.0);
    outcome["model_sha256"] = Value::Null;
    outcome["privacy"]["domain"] = Value::Null;
    assert!(!outcome.to_string().contains("200"), "{outcome:#}");
}

#[test]
fn a_syntax_error_of_a_release_names_no_line() {
    let folder = folder(SCHEMA);
    let path = folder.path().join("table.csv");
    let text = fs::read_to_string(&path).unwrap() + "1,red,no,no\n";
    fs::write(&path, text).unwrap();
    let message = assert_ends(&release(folder.path()), 2, "rounds schema");
    assert!(!message.contains("202"), "{message}");
}

#[test]
fn no_row_chooses_the_format_of_a_declared_table() {
    let table = tempfile::tempdir().unwrap();
    let (data, schema) = (table.path().join("table"), table.path().join("schema.toml"));
    fs::write(&schema, SCHEMA).unwrap();
    for header in ["height,colour,kind", "#height,colour,kind"] {
        let schema_text =
            SCHEMA.replace("columns.height", &format!("columns.\"{}\"", header.split(',').next().unwrap()));
        fs::write(&schema, schema_text).unwrap();
        // A NUL, a time of day and the null row.
        for first in ["1\0,red,no", "2024-01-01 12:30,red,no", ",,"] {
            fs::write(&data, format!("{header}\n{first}\n{}", "3,green,yes\n".repeat(200))).unwrap();
            let line = format!(
                "train --data {} --threads 1 --batch-size 20 --epsilon 1 --delta 1e-4 --epochs 1",
                data.display()
            );
            let declared = format!("--schema {}", schema.display());
            let flags = "--label kind --classes no,yes --bounds";
            for declaration in [
                declared.clone(),
                declared + " --bounds private:0.5",
                format!("{flags} 0,9"),
                format!("{flags} private:0.5"),
            ] {
                assert_succeeds(&format!("{line} {declaration}"));
            }
        }
    }
}

/// A file's bytes as they are, or packed as its name then says.
fn packings(name: &str, bytes: &[u8]) -> [(String, Vec<u8>); 3] {
    [("", bytes.to_vec()), (".gz", gzip(bytes)), (".xz", xz(bytes))]
        .map(|(ending, bytes)| (name.to_owned() + ending, bytes))
}

/// The declaration of rows of bytes without names.
fn bytes_of(columns: usize, format: &str) -> String {
    format!(
        "[rows]\n{format}storage = \"bytes\"\n[columns]\ncount = {columns}\nbounds = [0, 255]\n[label]\nclasses = [0, 1]\n"
    )
}

/// The line of a release on the data of this name, which lie beside a schema.
fn release_of(folder: &Path, name: &str) -> String {
    release(folder).replace("table.csv", name)
}

#[test]
fn a_row_that_begins_as_another_format_is_a_row() {
    let starts: [&[u8]; 8] = [
        &[0, 0, 8, 1],
        &[0, 0, 14, 8],
        &[0x1f, 0x8b, 8],
        b"\xfd7zXZ\0",
        b"PK\x03\x04",
        b"PAR1",
        b"\x93NUMPY\x01\0",
        b"1 1:1",
    ];
    let folder = tempfile::tempdir().unwrap();
    let schema = |text: String| fs::write(folder.path().join("schema.toml"), text).unwrap();
    for start in starts {
        let records = [start, &vec![1; 200 * 3073 - start.len()]].concat();
        let text = [start, b",1\n", &b"1,0\n".repeat(200)].concat();
        for format in ["", "format = \"cifar-records\"\n"] {
            schema(bytes_of(3072, format));
            for (name, bytes) in packings("x.bin", &records) {
                fs::write(folder.path().join(&name), bytes).unwrap();
                assert_succeeds(&release_of(folder.path(), &name));
            }
        }
        // Without the ending of records: the schema names the format.
        fs::write(folder.path().join("records"), &records).unwrap();
        assert_succeeds(&release_of(folder.path(), "records"));
        schema(bytes_of(1, "").replace("bytes", "dense"));
        for (name, bytes) in packings("x.csv", &text) {
            fs::write(folder.path().join(&name), bytes).unwrap();
            assert_succeeds(&release_of(folder.path(), &name));
        }
    }
}

#[test]
fn a_file_that_is_not_of_its_format_has_one_message_wherever_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let array = npy("|u1", false, "200, 2", &[1; 400]);
    let archive = npz(
        &[("x", npy("|u1", false, "200, 1", &[1; 200])), ("y", npy("|u1", false, "200,", &[1; 200]))],
        zip::CompressionMethod::Deflated,
    );
    let text = "height,colour,kind\n".to_owned() + &"3,green,yes\n".repeat(200);
    let files: [(&str, Vec<u8>, String); 5] = [
        ("x.csv", text.into_bytes(), SCHEMA.to_owned()),
        ("x.svm", b"1 1:3\n0 1:4\n".repeat(100), bytes_of(1, "").replace("bytes", "dense")),
        ("x.npy", array, bytes_of(1, "")),
        ("x.npz", archive, bytes_of(1, "")),
        ("x.bin", vec![1; 3073 * 3], bytes_of(3072, "")),
    ];
    for (name, good, schema) in files {
        fs::write(folder.path().join("schema.toml"), schema).unwrap();
        let mut others: Vec<Vec<u8>> = vec![Vec::new(), b"Alice,55\n".to_vec(), b"\x93NUMPY Alice,55".to_vec()];
        for place in [0, 1, 3, 5, 9, good.len() / 2, good.len() - 1] {
            others.push(good[..place].to_vec());
            others.push([&good[..place], b"Alice\xff\"55:", &good[place..]].concat());
        }
        for packing in 0..3 {
            let mut said = BTreeSet::new();
            for other in &others {
                let (name, mut bytes) = packings(name, other)[packing].clone();
                let run = |bytes: &[u8]| {
                    fs::write(folder.path().join(&name), bytes).unwrap();
                    rounds(&release_of(folder.path(), &name))
                };
                let outputs = [run(&bytes), {
                    bytes.truncate(bytes.len() / 2);
                    run(&bytes)
                }];
                // The number of rows is public.
                let failed = |output: &&Output| !output.status.success() && !stderr(output).contains("batch-size");
                said.extend(outputs.iter().filter(failed).map(|output| (output.status.code(), stderr(output))));
            }
            let said = Vec::from_iter(said);
            let [(Some(2), message)] = &said[..] else { panic!("{name}, packing {packing}: {said:#?}") };
            assert!(message.contains("the declared format") && !message.contains("Alice"), "{message}");
        }
    }
}

#[test]
fn a_folder_has_one_message_whichever_file_of_it_is_wrong() {
    let images = idx(8, &[200, 1, 2], &[1; 400]);
    let labels = idx(8, &[200], &[1; 200]);
    let good = [images.clone(), labels.clone(), images, labels];
    let mut said = BTreeSet::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("schema.toml"), bytes_of(2, "format = \"idx\"\n")).unwrap();
    let line = release_of(folder.path(), "");
    write_mnist(folder.path(), good.clone());
    assert_succeeds(&line);
    for (file, name) in MNIST.iter().enumerate() {
        for place in [0, 2, 3, 7, good[file].len() - 1] {
            let whole = &good[file];
            for bytes in [whole[..place].to_vec(), [&whole[..place], b"Alice", &whole[place..]].concat()] {
                write_mnist(folder.path(), good.clone());
                fs::write(folder.path().join(name), bytes).unwrap();
                said.insert(assert_ends(&line, 2, "the declared format"));
            }
        }
    }
    assert!(said.len() == 1 && !said.first().unwrap().contains("Alice"), "{said:#?}");
}

/// A file-size limit stands in for a full disk: room for the header of a model and not for its weights.
#[test]
fn a_full_disk_is_found_before_private_bounds_are_spent() {
    let folder = folder(SCHEMA);
    let [ledger, model] = ["ledger", "model.safetensors"].map(|name| folder.path().join(name));
    if rounds_models::files::reserve(&model, 1, None).unwrap().is_none() {
        println!("skipped: this file system takes no room");
        return;
    }
    let [ledger, model] = [ledger, model].map(|path| path.display().to_string());
    let table = folder.path().join("table.csv");
    assert_succeeds(&format!("ledger new {ledger} --epsilon 3 --delta 1e-3 --rows 200 --data {}", table.display()));
    let line = format!(
        "{} --bounds private:0.5 --features fourier:count=8000,bandwidth=1 --ledger {ledger}",
        release(folder.path())
    );
    let whole = command(&format!("{line} --model {model}"));
    // In blocks of 512 bytes; the ignored signal is inherited, so that the limit is an error.
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 300; exec \"$0\" \"$@\""])
        .arg(whole.get_program())
        .args(whole.get_args());
    let said = stderr(&limited.output().unwrap());
    assert!(said.contains("model.safetensors: the file cannot be written: File too large"), "{said}");
    assert_refused(&format!("{line} --model /dev/null"), "/dev/null is a device and stores no model");
    let shown = stdout(&format!("ledger show {ledger}"));
    assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains("spent 0 %"), "{shown}");
    assert_succeeds(&format!("{line} --model {model}"));
}

#[test]
fn a_release_with_private_bounds_is_not_resumed_on_rows_that_are_encoded_alike() {
    let folder = folder("");
    let (table, saved) = (folder.path().join("table.csv"), folder.path().join("saved"));
    let schema = folder.path().join("schema.toml");
    fs::write(&schema, SCHEMA).unwrap();
    let constant = |number: u32| format!("height,colour,kind\n{}", format!("{number},red,no\n").repeat(2_000));
    let line = format!(
        "{} --noise-multiplier 20 --delta 1e-4 --epochs 2000 --schema {} --bounds private:5",
        unbudgeted(folder.path()),
        schema.display()
    );
    fs::write(&table, constant(4)).unwrap();
    kill_after_a_checkpoint(&line, &saved);
    fs::write(&table, constant(8)).unwrap();
    assert_ends(&format!("{line} --resume {}", saved.display()), 1, "the data differ");
}
