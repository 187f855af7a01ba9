//! Tables as people have them: words, missing values and columns in thousands, without a declaration; test rows; columns that are no
//! features. They are read in a domain drafted from their rows, and claim nothing.

use std::fmt::Write as _;

use rounds_algorithms::problem::{ColumnKind, Columns, Dataset, Features, Label, Labels};
use rounds_models::choices::Choices;
use rounds_models::data::{ColumnUse, Declaration, Request, Split, declare, draft, drafted, load_requested, schema};

use crate::declared::{flags, rows};
use crate::files::{Folder, gzip, npy, npz, xz};
use crate::support::{assert_ends, assert_refused, assert_succeeds, document, rounds, stderr, stdout};

#[expect(dead_code, reason = "the example has a main function")]
#[path = "../../examples/practitioner_table.rs"]
mod practitioner_table;

/// The practitioner's table with so many training and test rows, and its schema under another name.
fn practitioner(rows: usize, test_rows: usize) -> Folder {
    let (folder, mut choices) = (Folder::new(), Choices::new(1));
    folder.write("train.csv", practitioner_table::table(rows, &mut choices));
    folder.write("test.csv", practitioner_table::table(test_rows, &mut choices));
    folder.write("declared.toml", practitioner_table::schema());
    folder
}

/// A line of `rounds train` on a file of `folder`.
fn train(folder: &Folder, rest: &str) -> String {
    let name = folder.name();
    let rest = rest.replace("{}", name);
    format!("train --epsilon 3 --threads 1 --data {name}/{rest}")
}

const BOUGHT: &str = "--label bought --drop next_year";

#[test]
fn a_table_without_a_declaration_is_encoded_and_claims_nothing_and_its_schema_gives_the_same_model() {
    let folder = practitioner(4_000, 1_000);
    let undeclared = document(&train(&folder, &format!("train.csv {BOUGHT} --test {{}}/test.csv")));
    let privacy = &undeclared["privacy"];
    assert_eq!((&privacy["claim"], undeclared["data"]["dimension"].as_u64()), (&"none".into(), Some(26)));
    let reason = privacy["reason"].as_str().unwrap();
    for part in ["read from the rows", "/train.csv --label bought --drop next_year -o", "drafted = false"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(undeclared["warnings"], serde_json::json!([]));
    // 83.9 % without privacy on 45,000 rows; the majority has 51 %.
    assert!(undeclared["test_accuracy"].as_f64().unwrap() > 0.78, "{undeclared}");

    let mapped = |out: &str, rest: &str| {
        let name = folder.name();
        assert_succeeds(&format!("features fourier:count=8 {name}/train.csv {rest} --out {name}/{out}"));
        let out = folder.path().join(out);
        (std::fs::read(out.join("x_train.npy")).unwrap(), out.join("schema.toml").exists())
    };
    let (drafted_features, is_declared) = mapped("drafted", BOUGHT);
    assert!(!is_declared, "bounds of the rows are in the features");

    // What a person writes down is what was read.
    let text = stdout(&format!("schema {}/train.csv {BOUGHT}", folder.name()));
    assert!(text.contains("drop = [\"next_year\"]\n"), "{text}");
    folder.write("schema.toml", text.replace("drafted = true", "drafted = false"));
    assert_eq!(mapped("declared", ""), (drafted_features, true));
    let declared = document(&train(&folder, "train.csv --test {}/test.csv"));
    assert_eq!(declared["privacy"]["claim"], "simulation");
    for key in ["model_sha256", "test_accuracy", "dimension"] {
        assert_eq!(declared[key], undeclared[key], "{key}");
    }
    let by_hand = document(&train(&folder, "train.csv --schema {}/declared.toml --test {}/test.csv"));
    assert!(by_hand["test_accuracy"].as_f64().unwrap() > 0.78, "{by_hand}");
    // A release reads no row to decide.
    folder.write("schema.toml", text);
    assert_refused(&train(&folder, "train.csv --secure"), "drafted = false");
    std::fs::remove_file(folder.path().join("schema.toml")).unwrap();
    assert_refused(&train(&folder, &format!("train.csv --secure {BOUGHT}")), "declared domain|rounds schema");
}

#[test]
fn missing_numbers_take_the_mean_missing_words_a_value_of_their_own_and_features_keep_the_order_of_the_file() {
    let folder = Folder::new();
    let path = folder.write("t.csv", "b,town,y,a\n1000,x,no,3\nNA,y,yes,\n3000,,no,5\n2000,x,,4\n2000,y,yes,4\n");
    let (domain, warnings) = drafted(path.to_str().unwrap(), &Declaration::default()).unwrap().unwrap();
    let Columns::Named(columns) = &domain.columns else { panic!("names") };
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["b", "town", "a"]);
    let missing = |place: usize| match &columns[place].kind {
        ColumnKind::Number { missing, .. } => *missing,
        ColumnKind::Category { values, .. } => panic!("{values:?}"),
    };
    assert_eq!((missing(0), missing(2)), (Some(2000.0), Some(4.0)));
    assert_eq!(domain.label, Label::Classes(vec!["no".into(), "yes".into()]));
    assert!(
        domain.is_draft() && warnings.len() == 1 && warnings[0].contains("holds no label in 1 row: null rows"),
        "{warnings:?}"
    );
    let data = load_requested(path.to_str().unwrap(), None, Request::of(Some(&domain))).unwrap().train;
    let Features::F32 { values, columns } = data.features() else { panic!("dense") };
    // b in [1000, 3000]; x, y and nothing; a in [3, 5].
    let row = |row: usize| &values[row * columns..(row + 1) * columns];
    assert_eq!(row(0), [-1.0, 1.0, 0.0, 0.0, -1.0]);
    assert_eq!(row(1), [0.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(row(2), [1.0, 0.0, 0.0, 1.0, 1.0]);
    assert!(data.is_null(3) && !data.is_null(4));
    // The draft is the same for any number of blocks of text.
    let long: String = (0..60_000).map(|row| format!("{},{},{}\n", row * 7 % 1000, row % 13, row % 2)).collect();
    let path = folder.write("long.csv", format!("a,b,y\n{long}"));
    let of = || drafted(path.to_str().unwrap(), &Declaration::default()).unwrap().unwrap().0;
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one.install(of).digest(), of().digest());
}

#[test]
fn dates_text_and_labels_without_two_values_are_refused_with_the_way_out() {
    let folder = Folder::new();
    let rows = |row: &dyn Fn(usize) -> String| (0..100).map(|place| row(place) + "\n").collect::<String>();
    let dates = rows(&|row| format!("{row},2024-01-{:02},t{row},{}", row % 28 + 1, row % 2));
    folder.write("dates.csv", format!("a,when,note,y\n{dates}"));
    assert_ends(&train(&folder, "dates.csv"), 1, "\"when\"|dates such as \"2024-01-01\"|--drop when,note");
    let message = assert_ends(&train(&folder, "dates.csv --drop when,note"), 0, "");
    assert!(message.contains("\"a\" counts the rows") && message.contains("--drop"), "{message}");
    assert_ends(&train(&folder, "dates.csv --drop when"), 1, "\"note\"|64 different words|\"t0\"");
    let schema = stdout(&format!("schema {}/dates.csv", folder.name()));
    assert!(schema.contains("drop = [\"when\", \"note\"]") && schema.contains("dates such as"), "{schema}");

    for (name, text, code, parts) in [
        ("one-row.csv", "a,b,y\n1,2,0\n", 1, "\"y\"|nothing but 0|nothing to learn"),
        ("one-class.csv", "a,b,y\n1,2,no\n2,3,no\n", 1, "\"y\"|nothing but no"),
        ("no-label.csv", "a,b,y\n1,2,\n2,3,\n", 1, "\"y\"|is empty"),
        ("header.csv", "a,b,y\n", 1, "a header and no rows"),
        ("row.csv", "1,2,0\n", 2, "one class|another label"),
        ("class.csv", "1,2,0\n1,3,0\n", 2, "one class|another label"),
        ("class.svm", "1 1:1\n1 2:1\n", 2, "one class|another label"),
    ] {
        folder.write(name, text);
        let message = assert_ends(&train(&folder, name), code, parts);
        assert!(message.starts_with("error: ") && !message.contains("panicked"), "{name}: {message}");
    }
}

#[test]
fn a_run_says_how_good_its_model_is_of_numbers_and_without_test_rows_too() {
    let folder = practitioner(4_000, 1_000);
    let target = practitioner_table::schema()
        .replace("drop = [\"next_year\"]", "drop = [\"bought\"]")
        .replace("column = \"bought\"", "column = \"next_year\"")
        .replace("classes = [\"no\", \"yes\"]", "bounds = [-4000, 16000]");
    folder.write("target.toml", target);
    let model = format!("{}/model", folder.name());
    let declared = "train.csv --schema {}/target.toml";
    let tested = document(&train(&folder, &format!("{declared} --test {{}}/test.csv --model {model}")));
    let errors = &tested["test_errors"];
    assert!(errors["r2"].as_f64().unwrap() > 0.5, "{tested}");
    assert_eq!(tested["test_rows"], 1_000);
    assert!(tested["test_file"].as_str().unwrap().ends_with("test.csv"));
    assert!(tested["test_accuracy"].is_null() && tested["held_out"].is_null(), "{tested}");
    assert!(tested["diagnostics"]["train_accuracy"].is_null(), "{tested}");
    let evaluated = document(&format!("evaluate {model} {}/test.csv", folder.name()));
    for error in ["r2", "rmse", "mae"] {
        assert_eq!(errors[error], evaluated[error], "{error}");
    }
    // Without test rows: nearly as good, and no other model.
    let alone = document(&train(&folder, declared));
    let r2 = alone["held_out"]["test_errors"]["r2"].as_f64().unwrap();
    assert!((r2 - errors["r2"].as_f64().unwrap()).abs() < 0.1, "{alone}");
    assert_eq!(alone["model_sha256"], tested["model_sha256"]);
    let classes = document(&train(&folder, "train.csv --schema {}/declared.toml"));
    let accuracy = classes["held_out"]["test_accuracy"].as_f64().unwrap();
    assert!((0.7..0.9).contains(&accuracy), "{classes}");
    // A release says nothing that was read off rows.
    let private = practitioner_table::schema().replace("public = true", "public = false");
    folder.write("target.toml", private);
    let released = document(&train(&folder, &format!("{declared} --test {{}}/test.csv --secure")));
    for statistic in ["held_out", "test_accuracy", "test_rows"] {
        assert!(released[statistic].is_null(), "{released}");
    }
}

#[test]
fn private_bounds_cost_their_epsilon_and_replace_a_declaration() {
    let folder = practitioner(10_000, 2_000);
    let columns = "train.csv --label bought --drop next_year,job,region,plan,device --test {}/test.csv";
    let privately = |rest: &str| train(&folder, &format!("{columns} {rest}"));
    let found = document(&privately("--classes no,yes --bounds private:0.6"));
    let privacy = &found["privacy"];
    assert_eq!((&privacy["claim"], &privacy["bounds_epsilon"]), (&"simulation".into(), &0.6.into()));
    let epsilon = privacy["epsilon"].as_f64().unwrap();
    assert!((3.599..3.600_001).contains(&epsilon), "{privacy}");
    assert_eq!(privacy["delta"], 1e-5);
    // Nearly what the bounds of the generator give.
    let bounds = "income=0:120000,balance=-15000:30000,mortgage=0:400000,mileage=0:150000,steps=0:20000,spent=0:10000";
    let declared = document(&privately(&format!("--classes no,yes --bounds {bounds}")));
    let [private, declared] = [&found, &declared].map(|run| run["test_accuracy"].as_f64().unwrap());
    assert!(private > declared - 0.02, "{private} with private bounds, {declared} with declared ones");
    // A number as label has private bounds, too; of a schema the categories stay as they are.
    let numbers = columns.replace("--label bought --drop next_year,", "--label next_year --drop bought,");
    let numbers = document(&train(&folder, &format!("{numbers} --task regression --bounds private:0.7")));
    assert!(numbers["test_errors"]["r2"].as_f64().unwrap() > 0.5, "{numbers}");
    let schema = "train.csv --schema {}/declared.toml --bounds private:0.6 --secure";
    let released = document(&train(&folder, schema));
    assert_eq!((&released["privacy"]["claim"], &released["data"]["dimension"]), (&"release".into(), &26.into()));
    let path = folder.write("statement.json", released.to_string());
    assert_succeeds(&format!("account --statement {}", path.display()));

    // What is not declared is not claimed.
    for (rest, part) in [
        ("--bounds private:1", "no classes|with categories needs a schema"),
        ("--classes no,yes --bounds private:-1", "above 0"),
        (
            "--classes no,yes --bounds private:1 --sampling fixed --set adjacency=replace-one",
            "drawn for zero-out|would state replace-one|--adjacency",
        ),
    ] {
        assert_ends(&privately(rest), 2, part);
    }
    assert_ends("train --epsilon 1 --data synthetic-mnist --bounds private:1", 2, "generated");
    folder.write(
        "draft.toml",
        format!("drafted = true\n{}", practitioner_table::schema().replace("drafted = false", "")),
    );
    let drafted = document(&train(&folder, "train.csv --schema {}/draft.toml --bounds private:1"));
    assert_eq!((&drafted["privacy"]["claim"], drafted["privacy"]["epsilon"].is_null()), (&"none".into(), true));
}

#[test]
fn columns_that_are_guessed_are_no_release_and_their_null_rows_are_counted() {
    let folder = practitioner(300, 10);
    let guessed = "train.csv --label bought --drop next_year --classes no,yes --bounds";
    for bounds in ["0,400000", "private:0.5", "0,400000 --dimension 10"] {
        let way_out = "takes every column|schema|--label bought --drop next_year -o|--bounds name=lo:hi";
        assert_refused(&train(&folder, &format!("{guessed} {bounds} --secure")), way_out);
    }
    let text = document(&train(&folder, &format!("{guessed} 0,400000"))).to_string();
    for part in ["300 of 300 training rows are null rows", "\"null_rows\":300", "makes its row the null row"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    // Named bounds declare, and so does a schema; a release does not count the rows that its declaration loses.
    folder.write("words.csv", "a,y\n1,no\nx,yes\n,no\n");
    let named = "words.csv --secure --label y --classes no,yes --bounds a=0:9 --diagnostics";
    let schema = "train.csv --secure --schema {}/declared.toml --bounds private:0.5";
    for (release, becomes) in [(named, "makes its row the null row"), (schema, "takes the missing value")] {
        let released = document(&train(&folder, release));
        assert_eq!(released["privacy"]["claim"], "release");
        assert!(released["numbers"].to_string().contains(becomes) && !released.to_string().contains("null_rows"));
    }
}

#[test]
fn a_task_decides_what_integers_mean() {
    let folder = Folder::new();
    let rows: String = (0..300).map(|row| format!("{},{},{}\n", row % 7, row % 5, row % 30)).collect();
    folder.write("named.csv", format!("a,b,y\n{rows}"));
    folder.write("bare.csv", &rows);
    let array: Vec<u8> = (0..300i16).flat_map(|row| [row % 7, row % 30]).flat_map(i16::to_le_bytes).collect();
    folder.write("array.npy", npy("<i2", false, "300, 2", &array));
    for name in ["named.csv", "bare.csv", "array.npy"] {
        let of = |task: &str| document(&train(&folder, &format!("{name} {task}")));
        let classes = |of: &serde_json::Value| of["data"]["target"]["classes"].as_array().map_or(1, Vec::len);
        assert_eq!(classes(&of("")), 30);
        let said = of("")["warnings"].to_string();
        assert!(said.contains("30 different integers") && said.contains("--task regression"), "{said}");
        for (task, expected) in [("classification", 30), ("regression", 1)] {
            let document = of(&format!("--task {task}"));
            assert_eq!(classes(&document), expected, "{name}");
            assert_eq!(document["warnings"], serde_json::json!([]), "{name}");
        }
    }
    folder.write("schema.toml", "[columns.a]\nkind='number'\nbounds=[0,7]\n[columns.b]\nkind='number'\nbounds=[0,5]\n[label]\ncolumn='y'\nclasses=[0,1]\n");
    assert_refused(&train(&folder, "named.csv --task regression"), "declared as classes|--bounds y=LO:HI");
}

#[test]
fn numbers_that_are_not_scaled_are_warned_of_where_nothing_scales_them() {
    let folder = Folder::new();
    let row = |row: usize| format!("{},{},{}\n", row % 9, 100 * (row % 50), row % 2);
    let rows: String = (0..100).map(row).collect();
    folder.write("bare.csv", &rows);
    folder.write("named.csv", format!("a,b,y\n{rows}"));
    folder.write("rows.svm", (0..100).map(|row| format!("{} 1:{}\n", row % 2, row % 50)).collect::<String>());
    let warnings = |rest: &str| document(&train(&folder, rest))["warnings"].to_string();
    let said = warnings("bare.csv");
    for part in ["1 of 2 columns", "column 2, from 1, reaches 4900", "--bounds LO,HI"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(warnings("rows.svm").contains("1 of 1 columns"));
    for quiet in
        ["named.csv", "bare.csv --bounds 0,5000 --dimension 2 --classes 0,1", "bare.csv --scale-features 0.001"]
    {
        assert_eq!(warnings(quiet), "[]", "{quiet}");
    }
    // A release says nothing of the values.
    let release = "bare.csv --secure --allow-weak-privacy --bounds 0,9 --dimension 2 --classes 0,1";
    assert_eq!(stderr(&rounds(&train(&folder, &format!("{release} --model {{}}/m.st")))), "");
    assert!(stderr(&rounds(&train(&folder, release))).contains("is kept nowhere"));
}

#[test]
fn columns_of_a_test_file_are_matched_by_name() {
    let folder = practitioner(600, 300);
    let path = folder.path().join("train.csv");
    let name = path.to_str().unwrap();
    let (domain, _) = drafted(name, &flags(BOUGHT)).unwrap().unwrap();
    let request = Request::of(Some(&domain));
    let test = folder.path().join("test.csv");
    let with_test = Request { test: Some(&test), ..request };
    let expected = load_requested(name, None, with_test).unwrap().test.unwrap();
    assert_eq!(expected.len(), 300);
    // The same columns from the last to the first.
    let text = std::fs::read_to_string(&test).unwrap();
    let reversed: String = text.lines().map(|line| line.rsplit(',').collect::<Vec<_>>().join(",") + "\n").collect();
    let reversed = folder.write("reversed.csv", reversed);
    let found = load_requested(name, None, Request { test: Some(&reversed), ..with_test });
    assert_eq!(found.unwrap().test.unwrap().digest(), expected.digest());
    let other = folder.write("other.csv", text.replacen("income", "salary", 1));
    let refused = load_requested(name, None, Request { test: Some(&other), ..with_test }).unwrap_err();
    assert!(refused.to_string().contains("lacks columns of its domain: income"), "{refused}");
}

#[test]
fn a_split_depends_on_positions_alone() {
    let folder = practitioner(600, 1);
    let path = folder.path().join("train.csv");
    let name = path.to_str().unwrap();
    let (domain, _) = drafted(name, &flags(BOUGHT)).unwrap().unwrap();
    let request = Request::of(Some(&domain));
    let whole = load_requested(name, None, request).unwrap().train;
    let split = |fraction, seed| {
        let split = Some(Split { fraction, seed });
        let data = load_requested(name, None, Request { split, ..request }).unwrap();
        (data.train, data.test.unwrap())
    };
    let (train_rows, test_rows) = split(0.25, 1);
    assert_eq!((train_rows.len(), test_rows.len()), (450, 150));
    assert_eq!(split(0.25, 1).0.digest(), train_rows.digest());
    assert_ne!(split(0.25, 2).0.digest(), train_rows.digest());
    // Every row is in one of the parts, in the order of the file.
    let (all, mut own, mut kept) = (rows(&whole), rows(&train_rows), rows(&test_rows));
    own.reverse();
    kept.reverse();
    for row in &all {
        let part = if own.last() == Some(row) { &mut own } else { &mut kept };
        assert_eq!(part.pop().as_ref(), Some(row));
    }

    // Neighbours keep the same positions: another row elsewhere changes one row of one part.
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[18] = "1,1,1,1,1,1,clerk,north,plus,phone,no,1";
    let changed = folder.write("changed.csv", lines.join("\n"));
    let request = Request { split: Some(Split { fraction: 0.25, seed: 1 }), ..request };
    let neighbour = load_requested(changed.to_str().unwrap(), None, request).unwrap();
    let differ = |one: &Dataset, other: &Dataset| {
        let (one, other) = (rows(one), rows(other));
        one.len().abs_diff(other.len()) + one.iter().zip(&other).filter(|(one, other)| one != other).count()
    };
    assert_eq!(differ(&train_rows, &neighbour.train) + differ(&test_rows, &neighbour.test.unwrap()), 1);

    assert_ends(&train(&folder, &format!("train.csv {BOUGHT} --test-split 0.0001")), 1, "leaves none");
    assert_ends(&train(&folder, "train.csv --test-split 1"), 2, "between 0 and 1");
    assert_ends(&train(&folder, "train.csv --test-split 0.1 --test x.csv"), 2, "cannot be used with");
    let add_remove = "train.csv --schema {}/declared.toml --adjacency add-remove --public-rows 600 --test-split 0.2";
    assert_refused(&train(&folder, add_remove), "--test FILE");
    assert_ends("train --data synthetic-mnist --epsilon 1 --test-split 0.2", 1, "comes with test rows");
    // Rows of the private file are no public test rows, whatever the schema says of those.
    let release = "train.csv --schema {}/declared.toml --secure --allow-weak-privacy";
    let accuracy = |rest: &str| document(&train(&folder, &format!("{release} {rest}")))["test_accuracy"].is_number();
    assert!(accuracy("--test {}/test.csv") && !accuracy("--test-split 0.2"));
}

#[test]
fn columns_are_dropped_from_tables_schemas_and_flags() {
    let folder = practitioner(60, 10);
    let dimension = |rest: &str| document(&train(&folder, rest))["data"]["dimension"].as_u64();
    assert_eq!(dimension("train.csv --label bought --drop next_year,income,job"), Some(18));
    assert_eq!(dimension("train.csv --schema {}/declared.toml --drop income,job"), Some(18));
    assert_refused(&train(&folder, "train.csv --schema {}/declared.toml --drop bought"), "not the label");
    assert_refused(
        &train(&folder, "train.csv --schema {}/declared.toml --drop nothing"),
        "lacks columns that are to be dropped: nothing; name columns",
    );
    folder.write("n.csv", "a,b,c,y\n1,2,3,0\n2,3,4,1\n3,4,5,0\n");
    assert_eq!(dimension("n.csv --label y --bounds 0,9 --classes 0,1 --drop b"), Some(2));
    assert_ends(&train(&folder, "train.csv --drop nothing"), 1, "--drop nothing|found income");
    folder.write("bare.csv", "1,2,0\n3,4,1\n");
    assert_ends(&train(&folder, "bare.csv --drop a"), 1, "--drop|no names");
}

#[test]
fn indices_of_libsvm_files_count_from_0_or_1_and_may_be_declared() {
    let folder = Folder::new();
    folder.write("zero.svm", "1 0:1 2:0.5\n-1 1:1\n1 0:0.25\n");
    folder.write("one.svm", "1 1:1 3:0.5\n-1 2:1\n1 1:0.25\n");
    let model = |rest: &str| document(&train(&folder, rest))["model_sha256"].clone();
    assert_eq!(model("zero.svm --first-index 0"), model("one.svm"));
    let declared = "--bounds 0,1 --dimension 3 --classes=-1,1";
    assert_eq!(model(&format!("zero.svm --first-index 0 {declared}")), model(&format!("one.svm {declared}")));
    assert_ends(&train(&folder, "zero.svm"), 1, "line 1|--first-index 0");
    assert_ends(&train(&folder, "zero.svm --first-index 2"), 2, "--first-index");
    assert_eq!(document(&train(&folder, "one.svm --dimension 7"))["data"]["dimension"], 7);
    assert_ends(&train(&folder, "one.svm --dimension 2"), 1, "line 1|at most 2|index 3");
    folder.write("bare.csv", "1,2,0\n3,4,1\n");
    for flag in ["--first-index 0", "--dimension 2"] {
        assert_ends(&train(&folder, &format!("bare.csv {flag}")), 1, "LIBSVM");
    }
}

#[test]
fn labels_of_arrays_may_be_words() {
    let folder = Folder::new();
    let x = npy("<f4", false, "3, 1", &[0.5f32.to_le_bytes(); 3].concat());
    let words = ["no", "yes", "no"];
    let unicode: Vec<u8> = words
        .iter()
        .flat_map(|word| {
            let mut characters: Vec<u32> = word.chars().map(u32::from).collect();
            characters.resize(3, 0);
            characters.into_iter().flat_map(u32::to_be_bytes)
        })
        .collect();
    let ascii = b"no\0yesno\0";
    for y in [npy(">U3", false, "3,", &unicode), npy("|S3", false, "3,", ascii)] {
        let path = folder.write("a.npz", npz(&[("x", x.clone()), ("y", y)], zip::CompressionMethod::Stored));
        let load = |domain| load_requested(path.to_str().unwrap(), None, Request::of(domain)).unwrap().train;
        let expected =
            Labels::Classes { values: vec![0, 1, 0], classes: 2, names: Some(vec!["no".into(), "yes".into()]) };
        assert_eq!(load(None).labels(), &expected);
        let text = "[columns]\ncount = 1\nbounds = [0, 1]\n[label]\nclasses = [\"yes\", \"maybe\"]\n";
        let domain = std::sync::Arc::new(schema::parse("s", text).unwrap());
        let declared = load(Some(&domain));
        assert_eq!([0, 1, 2].map(|row| declared.is_null(row)), [true, false, true]);
    }
    let path = folder.write("w.npy", npy("|S3", false, "1, 2", b"yesno\0"));
    let message = load_requested(path.to_str().unwrap(), None, Request::default()).unwrap_err().to_string();
    assert!(message.contains("words"), "{message}");
}

#[test]
fn a_packed_file_is_known_by_its_name() {
    let folder = Folder::new();
    // Packed data, the length of its description, and the letters again.
    let parquet = b"PAR1 and more\x02\0\0\0PAR1";
    folder.write("t.parquet", parquet);
    let parts = if cfg!(feature = "parquet") { "t.parquet|damaged" } else { "feature parquet|to_csv" };
    assert_ends(&train(&folder, "t.parquet"), 1, parts);
    assert!(declare(folder.name(), None, &Declaration::default()).unwrap().is_none());
    let message = draft::draft(&folder.path().join("t.parquet"), &ColumnUse::default()).unwrap_err();
    assert!(message.to_string().contains("Parquet"), "{message}");
    for (bytes, ending) in [(parquet.to_vec(), ".parquet"), (gzip("1,2\n"), ".gz"), (xz("1,2\n"), ".xz")] {
        folder.write("t.data", bytes);
        assert_ends(&train(&folder, "t.data"), 1, &format!("does not end in {ending}: rename it"));
    }
    // Of a declared format, too, whether its bytes split as a line or not.
    let text = "[rows]\nformat = \"csv\"\n[columns.a]\nkind = \"number\"\nbounds = [0, 1]\n[label]\ncolumn = \"y\"\nclasses = [\"0\", \"1\"]\n";
    let domain = std::sync::Arc::new(schema::parse("s", text).unwrap());
    for bytes in [gzip("a,y\n1,0\n"), b"\x1f\x8b\x08,\n1,0\n".to_vec()] {
        let path = folder.write("t.csv", bytes);
        let message = load_requested(path.to_str().unwrap(), None, Request::of(Some(&domain))).unwrap_err().to_string();
        assert!(message.ends_with("a gzip file whose name does not end in .gz: rename it"), "{message}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_table_is_the_csv_table_of_the_same_rows() {
    use parquet::data_type::{ByteArrayType, DoubleType, Int32Type, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let schema = "message table { optional double size; optional binary town (utf8); required int64 when (timestamp(nanos,true)); \
                  required int32 y; }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let rows = 3_000;
    let (mut bytes, mut text) = (Vec::new(), "size,town,when,y\n".to_owned());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), Default::default()).unwrap();
    // Every seventh size and town is missing; towns hold commas, quotes and line feeds.
    let is_there = |row: usize| !row.is_multiple_of(7);
    let size = |row: usize| 1000.5 * (row % 90) as f64;
    let town = |row: usize| ["Aix, south", "Ulm \"am\" Fluss", "Rom\nTrastevere"][row % 3];
    let levels: Vec<i16> = (0..rows).map(|row| i16::from(is_there(row))).collect();
    let present = || (0..rows).filter(|&row| is_there(row));
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let sizes: Vec<f64> = present().map(size).collect();
    column.typed::<DoubleType>().write_batch(&sizes, Some(&levels), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let towns: Vec<_> = present().map(|row| town(row).into()).collect();
    column.typed::<ByteArrayType>().write_batch(&towns, Some(&levels), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let times: Vec<i64> = (0..rows).map(|row| row as i64 * 86_400_000_000_000).collect();
    column.typed::<Int64Type>().write_batch(&times, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let labels: Vec<i32> = (0..rows).map(|row| (row % 2) as i32).collect();
    column.typed::<Int32Type>().write_batch(&labels, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    for row in 0..rows {
        let quoted = town(row).replace('"', "\"\"").replace('\n', " ");
        let fields = if is_there(row) { format!("{},\"{quoted}\"", size(row)) } else { ",".to_owned() };
        writeln!(text, "{fields},x,{}", row % 2).unwrap();
    }
    let folder = Folder::new();
    folder.write("t.parquet", &bytes);
    folder.write("t.csv", text);
    let model = |name: &str| document(&train(&folder, &format!("{name} --drop when")))["model_sha256"].clone();
    assert_eq!(model("t.parquet"), model("t.csv"));
    assert_ends(&train(&folder, "t.parquet"), 1, "\"when\"|dates such as \"1970-01-01T00:00:00Z\"");
    for (name, damaged) in [("cut.parquet", &bytes[..bytes.len() / 2]), ("tail.parquet", &bytes[bytes.len() / 2..])] {
        folder.write(name, damaged);
        assert_ends(&train(&folder, name), 1, name);
    }
}

#[test]
fn dp_sgd_learns_a_small_table_whose_columns_lie_far_from_the_middle_of_their_bounds() {
    let (folder, mut choices) = (Folder::new(), Choices::new(1));
    let weights: Vec<[f64; 3]> = (0..12).map(|_| [0; 3].map(|_| choices.normal())).collect();
    let mut table = |rows: usize| {
        let mut text = (0..12).map(|column| format!("x{column},")).collect::<String>() + "class\n";
        for _ in 0..rows {
            let mut scores = [0.0; 3];
            for weights in &weights {
                let value = (0.6 * choices.normal() + 0.5).exp().min(12.0);
                scores.iter_mut().zip(weights).for_each(|(score, weight)| *score += weight * value);
                write!(text, "{value:.4},").unwrap();
            }
            let class = (0..3).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
            writeln!(text, "{}", ["a", "b", "c"][class]).unwrap();
        }
        text
    };
    folder.write("train.csv", table(2_000));
    folder.write("test.csv", table(1_000));
    let accuracy = |plan: &str| {
        let line =
            "train.csv --test {}/test.csv --label class --bounds 0,12 --classes a,b,c --algorithm dp-sgd --delta 1e-5";
        document(&train(&folder, &format!("{line}{plan}")))["test_accuracy"].as_f64().unwrap()
    };
    // Ten rounds of all rows are unstable here.
    let (default, few) = (accuracy(""), accuracy(" --batch-size 2000 --epochs 10"));
    assert!(default > 0.8 && default > few + 0.05, "{default} {few}");
}
