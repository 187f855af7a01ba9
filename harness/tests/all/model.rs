//! Models as files, and what is done with them: predictions and evaluations through the command line.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::files::{Folder, npy, npz};
use crate::support::{assert_ends, assert_refused, assert_succeeds, document, rounds, stderr, stdout};

const SCHEMA: &str = r#"
[rows]
drop = ["id"]
[columns.height]
kind = "number"
bounds = [0, 10]
[columns.colour]
kind = "category"
values = ["red", "green"]
[columns.weight]
kind = "number"
bounds = [-1, 3]
missing = 2
[label]
column = "kind"
classes = ["no", "yes"]
"#;

/// Field `column` of a row of the table.
fn field(row: usize, column: &str) -> String {
    match column {
        "id" => row.to_string(),
        "height" => (row % 11).to_string(),
        "colour" => ["red", "green", "blue", "red"][row % 4].to_owned(),
        "weight" if row.is_multiple_of(5) => String::new(),
        "weight" => format!("{}", (row % 7) as f64 / 2.0 - 0.5),
        "kind" => ["no", "yes"][usize::from(row % 11 > 5)].to_owned(),
        "price" => (100 * (row % 11)).to_string(),
        _ => "1".to_owned(),
    }
}

/// A table of so many rows with these columns.
fn table(rows: usize, columns: &str) -> String {
    let columns: Vec<&str> = columns.split(',').collect();
    let mut text = columns.join(",") + "\n";
    for row in 0..rows {
        let fields: Vec<String> = columns.iter().map(|column| field(row, column)).collect();
        writeln!(text, "{}", fields.join(",")).unwrap();
    }
    text
}

/// A table of 200 rows and its schema; a model of it, and the line that trained it.
fn trained(schema: &str, more: &str) -> (Folder, String, String) {
    let folder = Folder::new();
    let label = if schema.contains("price") { "price" } else { "kind" };
    let data = folder.write("train.csv", table(200, &format!("id,height,colour,weight,{label}")));
    let schema = folder.write("schema.toml", schema);
    let model = folder.path().join("model.safetensors").display().to_string();
    let line = format!(
        "train --data {} --schema {} --threads 1 --batch-size 20 --epochs 2 --model {model} {more}",
        data.display(),
        schema.display()
    );
    assert_succeeds(&line);
    (folder, model, line)
}

/// The lines that `rounds predict` prints.
fn predicted(model: &str, data: &Path, more: &str) -> Vec<String> {
    let output = rounds(&format!("predict {model} {} {more}", data.display()));
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Tensor and header of a model file, by the format's documentation alone.
fn parts(model: &str) -> (Vec<f32>, Value, Value) {
    let bytes = fs::read(model).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: Value = serde_json::from_slice(header).unwrap();
    let (values, _) = data.as_chunks::<4>();
    let weights = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
    let own = serde_json::from_str(header["__metadata__"]["rounds"].as_str().unwrap()).unwrap();
    (weights, header["weights"].clone(), own)
}

/// The features of a row, by the schema's documentation alone; `None` for the null row.
fn features(row: usize) -> Option<[f64; 4]> {
    let number = |column: &str, missing: Option<f64>| field(row, column).parse().ok().or(missing);
    let colour = field(row, "colour");
    (colour != "blue").then_some(())?;
    Some([
        number("height", None)? / 5.0 - 1.0,
        f64::from(u8::from(colour == "red")),
        f64::from(u8::from(colour == "green")),
        0.5 * (number("weight", Some(2.0))? - 1.0),
    ])
}

fn outputs(weights: &[f32], row: usize) -> Option<Vec<f64>> {
    let features = features(row)?;
    let output = |weights: &[f32]| {
        let products = features.iter().chain(&[1.0]).zip(weights);
        products.map(|(feature, &weight)| feature * f64::from(weight)).sum()
    };
    Some(weights.chunks(5).map(output).collect())
}

#[test]
fn predictions_are_those_of_an_independent_computation() {
    for (loss, outputs_of) in [("softmax", 2), ("logistic", 1)] {
        let (folder, model, _) = trained(SCHEMA, &format!("--epsilon 5 --delta 1e-4 --loss {loss}"));
        let (weights, tensor, own) = parts(&model);
        assert_eq!(tensor["shape"], serde_json::json!([outputs_of, 5]));
        assert_eq!((&own["version"], &own["loss"]), (&1.into(), &loss.into()));
        let data = folder.write("new.csv", table(40, "height,colour,weight"));
        let lines = predicted(&model, &data, "--probabilities");
        assert_eq!((lines.len(), lines[0].as_str()), (41, "prediction,probability_no,probability_yes"));
        let mut nulls = 0;
        for (row, line) in lines[1..].iter().enumerate() {
            let Some(outputs) = outputs(&weights, row) else {
                assert_eq!(line, ",,");
                nulls += 1;
                continue;
            };
            let difference = if outputs_of == 1 { outputs[0] } else { outputs[1] - outputs[0] };
            let yes = 1.0 / (1.0 + (-difference).exp());
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields[0], if difference >= 0.0 { "yes" } else { "no" }, "row {row}");
            // Features lie on a grid of 2⁻¹⁴.
            for (found, expected) in [(fields[1], 1.0 - yes), (fields[2], yes)] {
                assert!((found.parse::<f64>().unwrap() - expected).abs() < 1e-3, "{found} for {expected}");
            }
        }
        assert_eq!(nulls, 10);
    }
}

#[test]
fn columns_are_matched_by_name_in_any_order_with_or_without_a_label() {
    let (folder, model, _) = trained(SCHEMA, "--epsilon 5 --delta 1e-4");
    let plain = predicted(&model, &folder.write("a.csv", table(40, "height,colour,weight")), "");
    for columns in ["weight,height,colour", "kind,colour,id,weight,height", "id,height,colour,weight,kind"] {
        let data = folder.write("b.csv", table(40, columns));
        assert_eq!(predicted(&model, &data, ""), plain, "{columns}");
    }
    // A label that the model does not know is not read.
    let unknown = table(40, "height,colour,weight,kind").replace("yes", "perhaps").replace("no", "");
    assert_eq!(predicted(&model, &folder.write("b.csv", unknown), ""), plain);
    // Into a file, and as JSON.
    let data = folder.path().join("a.csv");
    let out = folder.path().join("out.csv");
    assert!(predicted(&model, &data, &format!("-o {}", out.display())).is_empty());
    let said = assert_succeeds(&format!("predict {model} {} -o {}", data.display(), out.display()));
    assert!(said.contains("wrote 40 predictions to "), "{said}");
    assert_eq!(fs::read_to_string(&out).unwrap().lines().collect::<Vec<_>>(), plain);
    let found = document(&format!("predict {model} {}", data.display()));
    assert_eq!((&found["predictions"][2], found["predictions"][0].as_str()), (&Value::Null, Some(plain[1].as_str())));
}

#[test]
fn predictions_replace_predictions_and_nothing_else() {
    let (folder, model, _) = trained(SCHEMA, "--epsilon 5 --delta 1e-4");
    let data = folder.write("a.csv", table(40, "height,colour,weight"));
    // Data that look like predictions are data.
    let copy = folder.write("b.csv", table(40, "prediction"));
    let other = folder.write("thesis.txt", "a long text");
    let predict = |data: &Path, out: &str, more: &str| format!("predict {model} {} -o {out}{more}", data.display());
    for (data, out, reason) in [
        (&data, &*model, "reads it, and it would be lost"),
        (&data, &data.display().to_string(), "reads it"),
        (&copy, &copy.display().to_string(), "reads it"),
        (&data, &other.display().to_string(), "holds something else|move this one away"),
    ] {
        let held = fs::read(out).unwrap();
        assert_refused(&predict(data, out, ""), reason);
        assert_eq!(fs::read(out).unwrap(), held, "{out}");
    }
    let out = folder.path().join("out.csv");
    for more in ["", " --probabilities", " --json", " --probabilities --json", ""] {
        assert_succeeds(&predict(&data, &out.display().to_string(), more));
    }
    assert_succeeds(&predict(&data, "/dev/null", ""));
}

#[test]
fn other_columns_are_refused_by_name() {
    let (folder, model, _) = trained(SCHEMA, "--epsilon 5 --delta 1e-4");
    for (command, columns, named) in [
        ("predict", "height,weight,kind", "lacks columns of the model: colour"),
        ("predict", "height,colour,weight,zip,town", "does not know: zip, town"),
        ("predict", "height,color,weight", "model: colour|does not know: color"),
        ("evaluate", "height,colour,weight", "model: kind"),
    ] {
        let data = folder.write("b.csv", table(4, columns));
        assert_ends(&format!("{command} {model} {}", data.display()), 2, named);
    }
    let data = folder.write("b.csv", table(4, "id,height,colour,weight,kind").replace("yes", "x").replace("no", "x"));
    assert_ends(&format!("evaluate {model} {}", data.display()), 1, "no row has a label|no, yes");
    assert_refused(
        &format!("predict {model} synthetic-logistic"),
        "20 feature columns, and the model reads a table with the columns height, colour, weight; give these",
    );
}

#[test]
fn an_evaluation_counts_what_predictions_show() {
    let (folder, model, _) = trained(SCHEMA, "--epsilon 5 --delta 1e-4");
    let data = folder.write("b.csv", table(110, "height,colour,weight,kind"));
    let lines = predicted(&model, &data, "");
    let found = document(&format!("evaluate {model} {}", data.display()));
    let mut confusion = [[0; 2]; 2];
    for (row, line) in lines[1..].iter().enumerate().filter(|(row, _)| features(*row).is_some()) {
        confusion[usize::from(field(row, "kind") == "yes")][usize::from(line == "yes")] += 1;
    }
    assert_eq!(found["confusion"], serde_json::json!(confusion));
    assert_eq!((&found["rows"], &found["left_out"]), (&83.into(), &27.into()));
    let correct = f64::from(confusion[0][0] + confusion[1][1]);
    assert!((found["accuracy"].as_f64().unwrap() - correct / 83.0).abs() < 1e-12);
    assert_eq!(found["calibration"].as_array().unwrap().len(), 10);
    // The same in 80 columns.
    let text = stdout(&format!("evaluate {model} {}", data.display()));
    assert!(text.contains("balanced accuracy") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn named_data_are_evaluated_as_the_training_run_does() {
    let folder = Folder::new();
    let model = folder.path().join("model");
    let both = |data: &str, more: &str| {
        let line = format!("train --data {data} --epsilon 2 --epochs 1 {more} --model {}", model.display());
        let trained = document(&line);
        let found = document(&format!("evaluate {} {data}", model.display()));
        assert_eq!(found["model_sha256"], trained["model_sha256"]);
        (trained, found)
    };
    let near = |a: &Value, b: &Value, tolerance: f64| {
        let difference = a.as_f64().unwrap() - b.as_f64().unwrap();
        assert!(difference.abs() < tolerance, "{a} {b}");
    };
    let (trained, found) = both("synthetic-mnist", "");
    assert_eq!((&found["test_rows"], &found["rows"]), (&true.into(), &10_000.into()));
    // Ties to the rounding of f32.
    near(&found["accuracy"], &trained["test_accuracy"], 2e-4);
    let (trained, found) = both("synthetic-logistic", "--clip-features l2=0.5 --scale-features 0.25");
    assert_eq!((&found["test_rows"], &found["rows"]), (&false.into(), &100_000.into()));
    near(&found["log_loss"], &trained["diagnostics"]["train_loss"], 1e-6);
}

#[test]
fn numbers_are_predicted_in_the_units_of_the_label() {
    let schema = SCHEMA.replace("kind\"\nclasses = [\"no\", \"yes\"]", "price\"\nbounds = [0, 2000]");
    let (folder, model, _) = trained(&schema, "--algorithm sgd --loss squared --learning-rate 0.2");
    let data = folder.write("b.csv", table(40, "height,colour,weight,price"));
    let lines = predicted(&model, &data, "");
    let (weights, ..) = parts(&model);
    let mut squares = Vec::new();
    for (row, line) in lines[1..].iter().enumerate() {
        let Some(outputs) = outputs(&weights, row) else {
            assert_eq!(line, "\"\"");
            continue;
        };
        let found: f64 = line.parse().unwrap();
        assert!((found - (1000.0 + 1000.0 * outputs[0])).abs() < 0.5, "{found}");
        squares.push((found - field(row, "price").parse::<f64>().unwrap()).powi(2));
    }
    let rmse = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
    let evaluated = document(&format!("evaluate {model} {}", data.display()));
    assert!((evaluated["rmse"].as_f64().unwrap() - rmse).abs() < 1e-2, "{evaluated:#}");
    assert!(evaluated["r2"].is_f64() && evaluated.get("accuracy").is_none());
    assert_refused(&format!("predict {model} {} --probabilities", data.display()), "squared loss has none");
}

#[test]
fn undeclared_rows_are_taken_as_they_are_in_every_format() {
    let folder = Folder::new();
    let values: Vec<[f32; 3]> =
        (0..60).map(|row| [(row % 7) as f32 / 7.0, (row % 3) as f32, (row % 2) as f32]).collect();
    let array = |columns: usize| {
        let bytes: Vec<u8> =
            values.iter().flat_map(|row| &row[..columns]).flat_map(|value| value.to_le_bytes()).collect();
        npy("<f4", false, &format!("60, {columns}"), &bytes)
    };
    let svm = |label: &str, rows: usize| {
        let line = |row: &[f32; 3]| format!("{label}{} 1:{} 2:{}\n", row[2], row[0], row[1]);
        values[..rows].iter().map(line).collect::<String>()
    };
    let csv: String = values.iter().map(|[a, b, label]| format!("{a},{b},{label}\n")).collect();
    let bare: String = values.iter().map(|[a, b, _]| format!("{a},{b}\n")).collect();
    let files = [
        folder.write("rows.npy", array(3)),
        folder.write("bare.npy", array(2)),
        folder.write("bare.npz", npz(&[("X_test", array(2))], zip::CompressionMethod::Stored)),
        folder.write("rows.svm", svm("", 60)),
        folder.write("rows.csv", csv),
        folder.write("bare.csv", bare),
    ];
    let model = folder.path().join("model").display().to_string();
    let line = format!("train --algorithm sgd --threads 1 --epochs 5 --batch-size 10 --model {model} --data");
    assert_succeeds(&format!("{line} {}", files[0].display()));
    let expected = predicted(&model, &files[0], "--probabilities");
    assert_eq!((expected.len(), expected[0].as_str()), (61, "prediction,probability_0,probability_1"));
    for file in &files[1..] {
        assert_eq!(predicted(&model, file, "--probabilities"), expected, "{}", file.display());
    }
    let evaluated = |file: &PathBuf| document(&format!("evaluate {model} {}", file.display()))["log_loss"].clone();
    assert_eq!(evaluated(&files[3]), evaluated(&files[0]));
    // One class occurs: the model's classes are still two.
    let part = folder.write("part.svm", svm("", 1));
    assert_eq!(document(&format!("evaluate {model} {}", part.display()))["auc"], Value::Null);
    let other = folder.write("other.svm", svm("1", 60));
    assert_ends(&format!("evaluate {model} {}", other.display()), 1, "row 1|label \"10\"|0, 1");
    let wide = folder.write("wide.csv", "1,2,3,4\n1,2,3,5\n");
    assert_refused(&format!("predict {model} {}", wide.display()), "the model reads 2");
}

#[test]
fn the_file_of_a_release_holds_what_the_outcome_prints_and_no_more() {
    let (_folder, model, line) =
        trained(SCHEMA, "--epsilon 1 --delta 1e-4 --secure --adjacency add-remove --public-rows 180");
    let (.., own) = parts(&model);
    let keys: Vec<&String> = own.as_object().unwrap().keys().collect();
    let expected =
        ["version", "algorithm", "rounds", "loss", "data", "parameters", "plan", "model_sha256", "privacy", "build"];
    assert_eq!(keys, expected);
    assert!(own["parameters"].get("seed").is_none());
    let (_folder, simulated, _) = trained(SCHEMA, "--epsilon 1 --delta 1e-4 --seed 7");
    assert_eq!(parts(&simulated).2["parameters"]["seed"], "7");
    // Beside the key nothing differs from run to run: not the number of rows, no time, no count.
    fs::remove_file(&model).unwrap();
    let printed = document(&line);
    let (_, _, again) = parts(&model);
    assert_eq!(again["privacy"], printed["privacy"]);
    assert_eq!(again["model_sha256"], printed["model_sha256"]);
    for (name, value) in own.as_object().unwrap() {
        assert!(name == "model_sha256" || *value == again[name], "{name}");
    }
    for part in ["data", "parameters", "privacy"] {
        let text = again[part].to_string();
        assert!(!text.replace(again["privacy"]["domain"]["sha256"].as_str().unwrap(), "").contains("200"), "{text}");
    }
}

#[test]
fn files_that_are_no_models_are_refused_with_one_message() {
    let (folder, model, line) = trained(SCHEMA, "--epsilon 5 --delta 1e-4");
    let data = folder.write("new.csv", table(4, "height,colour,weight"));
    let good = fs::read(&model).unwrap();
    let plain = folder.path().join("plain.npy");
    assert_succeeds(&line.replace(&model, plain.to_str().unwrap()));
    assert!(fs::read(&plain).unwrap().starts_with(b"\x93NUMPY"));
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    // The same length, so that the header's stays right.
    let with = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let place = good.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        [&good[..place], to.as_bytes(), &good[place + from.len()..]].concat()
    };
    for (bytes, reason) in [
        (fs::read(&plain).unwrap(), "plain NPY array|--model NAME.safetensors"),
        (table(4, "id,kind").into_bytes(), "no model file"),
        (Vec::new(), "no model file"),
        (good[..good.len() / 2].to_vec(), "damaged"),
        (good[..good.len() - 1].to_vec(), "damaged"),
        (flipped, "weights are not those that were written"),
        (with("\"rounds\"", "\"sdnuor\""), "of another program"),
        (with("version\\\":1", "version\\\":2"), "version 2|up to 1|update"),
        (with("softmax", "softmix"), "softmix"),
        (with("[columns.", "[column!."), "damaged"),
    ] {
        let path = folder.write("other", bytes);
        let message = assert_ends(&format!("predict {} {}", path.display(), data.display()), 1, reason);
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert_ends(&format!("predict {} {}", folder.name(), data.display()), 1, "no regular file");
    assert_ends(&format!("predict absent {}", data.display()), 2, "cannot be read");
}

#[test]
fn a_tuned_model_is_the_best_of_secretly_many_and_its_statement_is_verified() {
    let folder = Folder::new();
    let data = folder.write("train.csv", table(200, "id,height,colour,weight,kind"));
    folder.write("schema.toml", SCHEMA);
    let model = folder.path().join("tuned.st");
    let line = format!(
        "tune --data {} --threads 1 --batch-size 20 --epochs 1 --epsilon 1 --delta 1e-4 --grid learning-rate=0.5,1,2 --grid momentum=0,0.9",
        data.display()
    );
    let output = rounds(&format!("{line} --secure --model {}", model.display()));
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    for told in [" s training", "diagnostics", "score 0", "score -"] {
        assert!(!said.contains(told), "{told}: {said}");
    }
    let verified = stdout(&format!("account --statement {}", model.display()));
    assert!(verified.contains("the best of a random number of trials") && verified.contains("those of the statement"));
    assert_refused(&format!("{line} --secure --model {}", model.display()), "it holds a release");
    let told = document(&format!("{line} --diagnostics"));
    assert!(told["trials"].as_array().is_some_and(|trials| !trials.is_empty()), "{told}");
    assert!(document(&line).get("trials").is_none());
    for (more, reason) in [
        ("--grid no-such=1,2", "--grid no-such=1,2|no trial of algorithm"),
        ("--trials 1", "--trials 1|at least 1.001"),
        ("--law -1", "above −1"),
        ("--law fixed", "logarithmic"),
        ("--secure --diagnostics", "--diagnostics"),
        ("--checkpoint-every 100", "--checkpoint-every|after each trial"),
        ("--noise-multiplier 2 --epsilon 1", "cannot be used"),
    ] {
        assert_refused(&format!("{line} {more}"), reason);
    }
    let public = folder.write("public.csv", table(50, "id,height,colour,weight,kind"));
    let scored = folder.path().join("scored.st");
    assert_succeeds(&format!("{line} --secure --score-on {} --model {}", public.display(), scored.display()));
    let verified = document(&format!("account --statement {}", scored.display()));
    let digest = rounds_algorithms::hexadecimal(&Sha256::digest(fs::read(&public).unwrap()));
    assert_eq!(verified["statement"]["selection"]["score_sha256"], digest);
    assert_eq!(verified["holds"], true);
    let own = format!("{line} --secure --score-on {}", data.display());
    assert_refused(&own, "--score-on|these are the training rows");
}
