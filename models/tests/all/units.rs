//! Units of privacy in files: where their ids come from, whole units in splits, and what is refused.

use std::path::Path;

use rounds_algorithms::parallel::Engine;
use rounds_algorithms::parallel::ranks::ThreadRanks;
use rounds_algorithms::privacy::Adjacency;
use rounds_algorithms::problem::{Dataset, UnitDeclaration};
use rounds_kernels::linear::Reduction;
use rounds_models::data::{self, ColumnUse, Declaration, Request, Split, TrainTest, draft, load_requested, schema};
use rounds_models::factorization_cache::memory_of_machine;
use rounds_models::fit::{Execution, Observer, Training, fit};
use zip::CompressionMethod;

use crate::files::{Folder, gzip, npy, npz};

/// The ids of 300 rows of 60 units, in no order. Unit 7 has 50 rows, 9 one.
fn ids() -> Vec<usize> {
    let id = |row: usize| match row * 37 % 300 {
        0..50 => 7,
        50 => 9,
        row => [(row * 7) % 60, 3][usize::from(matches!((row * 7) % 60, 7 | 9))],
    };
    (0..300).map(id).collect()
}

const COLUMNS: &str = "[columns.height]\nkind = \"number\"\nbounds = [0, 10]\n[columns.colour]\nkind = \"category\"\n\
    values = [\"red\", \"green\"]\nother = \"null-row\"\n[label]\ncolumn = \"kind\"\nclasses = [\"no\", \"yes\"]\n";

/// A table of 300 visits of people, and its schema with these lines under `[rows]`.
fn visits(rows: &str) -> Folder {
    let folder = Folder::new();
    let line = |(row, id): (usize, usize)| {
        format!("{},{id},{},{}\n", row % 11, ["red", "green"][row % 2], ["no", "yes"][row / 2 % 2])
    };
    let lines: String = ids().into_iter().enumerate().map(line).collect();
    folder.write("visits.csv", format!("height,person,colour,kind\n{lines}"));
    if !rows.is_empty() {
        folder.write("schema.toml", format!("[rows]\n{rows}\n{COLUMNS}"));
    }
    folder
}

fn at(folder: &Folder, file: &str) -> String {
    folder.path().join(file).display().to_string()
}

fn training(folder: &Folder, secure: bool) -> Training {
    let mut training = Training::on(at(folder, "visits.csv")).private(1.0, 1e-4);
    (training.optimizer.epochs, training.optimizer.batch_size) = (Some(2.0), Some(10));
    training.privacy.secure = secure;
    training
}

fn refusal(training: &Training) -> String {
    fit(training, &Execution::default(), &mut ()).err().expect("a refusal").to_string()
}

/// Warnings of a run.
#[derive(Default)]
struct Warned(Vec<String>);

impl Observer for Warned {
    fn warn(&mut self, warning: &str) {
        self.0.push(warning.to_owned());
    }
}

/// Number of rows of each unit.
fn counts(data: &Dataset) -> Vec<usize> {
    let units = data.units().expect("units");
    (0..units.count()).map(|unit| units.rows_of(unit).len()).collect()
}

#[test]
fn ids_come_from_a_column_an_array_or_a_file_and_the_units_are_in_their_order() {
    let ids = ids();
    let mut expected = vec![0; 60];
    ids.iter().for_each(|&id| expected[id] += 1);
    assert_eq!((expected[7], expected[9]), (50, 1));
    expected.retain(|&count| count > 0);
    let folder = visits("unit = \"person\"\nmax-rows = 20\nreduce = \"sum\"");
    let loaded = |path: &str| {
        let domain = data::declare(path, None, &Declaration::default()).unwrap();
        data::load_declared(path, None, domain.as_ref()).unwrap().train
    };
    let table = loaded(&at(&folder, "visits.csv"));
    let declared = UnitDeclaration { column: Some("person".into()), reduction: Reduction::Sum, most_rows: Some(20) };
    assert_eq!(table.units().unwrap().declaration(), &declared);
    assert_eq!(counts(&table), expected.iter().map(|&count| count.min(20)).collect::<Vec<_>>());

    let matrix = "[rows]\nunit = true\n[columns]\ncount = 1\nbounds = [0, 300]\n[label]\nclasses = [0, 1]\n";
    let numbers = |values: &mut dyn Iterator<Item = usize>| -> Vec<u8> {
        values.flat_map(|value| (value as f32).to_le_bytes()).collect()
    };
    let x = npy("<f4", false, "300, 1", &numbers(&mut (0..300)));
    let y = npy("<f4", false, "300,", &numbers(&mut (0..300).map(|row| row % 2)));
    let rows = npy("<f4", false, "300, 2", &numbers(&mut (0..300).flat_map(|row| [row, row % 2])));
    let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let big: Vec<u8> = ids.iter().flat_map(|&id| (id as i64).to_be_bytes()).collect();
    let small: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
    let words: Vec<u8> = ids.iter().flat_map(|id| format!("{id:02}").into_bytes()).collect();
    let arrays =
        [npy(">i8", false, "300,", &big), npy("|u1", false, "300, 1", &small), npy("|S2", false, "300,", &words)];
    let lines: String = (0..300).map(|row| format!("{} 1:{row}\n", row % 2)).collect();
    let archive = [("x", x.clone()), ("y", y.clone()), ("units", arrays[0].clone())];
    let cases: [(&str, &[(&str, Vec<u8>)]); 6] = [
        ("rows.npy", &[("rows.npy", rows.clone()), ("rows.npy.units", text.clone().into_bytes())]),
        (
            "rows.svm.gz",
            &[("rows.svm.gz", gzip(lines.into_bytes())), ("rows.svm.units.gz", gzip(text.clone().into_bytes()))],
        ),
        ("rows.npz", &[("rows.npz", npz(&archive, CompressionMethod::Deflated))]),
        ("", &[("x.npy", x.clone()), ("y.npy", y.clone()), ("units.npy", arrays[1].clone())]),
        ("", &[("x.npy", x), ("y.npy", y), ("units.txt", text.trim_end().replace('\n', "\r\n").into_bytes())]),
        ("rows.npy", &[("rows.npy", rows), ("rows.npy.units", text.into_bytes())]),
    ];
    let mut found = Vec::new();
    for (name, files) in cases {
        let folder = Folder::new();
        folder.write("schema.toml", matrix);
        files.iter().for_each(|(name, bytes)| drop(folder.write(name, bytes)));
        let data = loaded(if name.is_empty() { folder.name() } else { Box::leak(at(&folder, name).into_boxed_str()) });
        assert_eq!(counts(&data), expected, "{name}");
        // Rows with their units are the same ones, in one order.
        found.push(data.digest());
    }
    assert!(found.iter().all(|digest| *digest == found[0]));

    // A file that is named wins.
    let folder = Folder::new();
    folder.write("schema.toml", matrix);
    folder.write("rows.npz", npz(&archive, CompressionMethod::Stored));
    let given = folder.write("words.npy", &arrays[2]);
    let path = at(&folder, "rows.npz");
    let domain = data::declare(&path, None, &Declaration::default()).unwrap();
    let request = Request { unit_ids: Some(&given), ..Request::of(domain.as_ref()) };
    let by_words = load_requested(&path, None, request).unwrap().train;
    assert_eq!(by_words.digest(), found[0], "ids of two digits are ordered alike as words");
}

#[test]
fn a_split_keeps_whole_units() {
    let folder = visits("unit = \"person\"");
    let path = at(&folder, "visits.csv");
    let domain = data::declare(&path, None, &Declaration::default()).unwrap();
    let split = Some(Split { fraction: 0.25, seed: 3 });
    let TrainTest { train, test } =
        load_requested(&path, None, Request { split, ..Request::of(domain.as_ref()) }).unwrap();
    let whole = data::load_declared(&path, None, domain.as_ref()).unwrap().train;
    let test = test.unwrap();
    let count = counts(&whole).len();
    assert_eq!((test.records(), train.records()), ((count + 2) / 4, count - (count + 2) / 4));
    let mut all: Vec<usize> = counts(&train).into_iter().chain(counts(&test)).collect();
    let mut expected = counts(&whole);
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected);
}

#[test]
fn a_release_by_unit_counts_units_alone_and_costs_what_it_costs_by_row() {
    let folder = visits("unit = \"person\"");
    let by_unit = fit(&training(&folder, true), &Execution::default(), &mut ()).unwrap();
    let count = counts(by_unit_rows(&folder).as_ref()).len();
    let document = serde_json::to_value(&by_unit.outcome).unwrap();
    assert_eq!((&document["n"], &document["privacy"]["claim"]), (&count.into(), &"release".into()));
    assert_eq!(document["privacy"]["unit"], "value of column \"person\"");
    assert!(!document.to_string().contains("300"), "{document}");

    // The same mechanism over as many rows.
    let rows: String = (0..count).map(|row| format!("{},red,{}\n", row % 11, ["no", "yes"][row % 2])).collect();
    let one_each = Folder::new();
    one_each.write("visits.csv", format!("height,colour,kind\n{rows}"));
    one_each.write("schema.toml", COLUMNS);
    let by_row = fit(&training(&one_each, true), &Execution::default(), &mut ()).unwrap();
    let row_document = serde_json::to_value(&by_row.outcome).unwrap();
    assert_eq!(document["privacy"]["epsilon"], row_document["privacy"]["epsilon"]);
    assert_eq!(document["privacy"]["mechanisms"], row_document["privacy"]["mechanisms"]);
    assert_eq!(row_document["privacy"]["unit"], "example");
}

/// The rows of [`visits`], by unit.
fn by_unit_rows(folder: &Folder) -> Box<Dataset> {
    let path = at(folder, "visits.csv");
    let domain = data::declare(&path, None, &Declaration::default()).unwrap();
    Box::new(data::load_declared(&path, None, domain.as_ref()).unwrap().train)
}

#[test]
fn rows_without_an_id_are_left_out_and_told_in_a_simulation_alone() {
    let folder = visits("unit = \"person\"");
    let before = by_unit_rows(&folder);
    let table = std::fs::read_to_string(folder.path().join("visits.csv")).unwrap();
    let (header, rows) = table.split_once('\n').unwrap();
    folder.write("visits.csv", format!("{header}\n3,,red,no\n{rows}4,\"\",green,yes\n"));
    assert_eq!(by_unit_rows(&folder).digest(), before.digest(), "they change nothing");
    let warnings = |secure| {
        let mut warned = Warned::default();
        let fitted = fit(&training(&folder, secure), &Execution::default(), &mut warned).unwrap();
        assert_eq!(fitted.outcome.header.n, Some(before.records()));
        warned.0
    };
    let said = warnings(false);
    assert_eq!(said.iter().filter(|said| said.contains("2 rows have no id of a unit")).count(), 1, "{said:?}");
    assert!(warnings(true).is_empty());
}

#[test]
fn the_memory_of_features_is_that_of_the_units_whatever_number_of_rows_one_has() {
    let refused = |more: usize| {
        let folder = visits("unit = \"person\"");
        let table = std::fs::read_to_string(folder.path().join("visits.csv")).unwrap();
        folder.write("visits.csv", table + &"3,7,red,no\n".repeat(more));
        let mut training = training(&folder, true);
        // A fifth of the memory for each row.
        let features = (memory_of_machine() as u64 / (6 * 5)) & !1;
        training.data.features = Some(format!("fourier:count={features}").parse().unwrap());
        refusal(&training)
    };
    let alone = refused(0);
    assert!(alone.contains("GiB, and this machine has "), "{alone}");
    assert_eq!(refused(40), alone);
}

#[test]
fn units_that_cannot_be_are_refused_by_name() {
    let declared = |rows: &str| {
        let folder = visits(rows);
        let refused = refusal(&training(&folder, false));
        assert!(refused.contains("schema.toml") || refused.contains("visits.csv"), "{refused}");
        refused
    };
    for (rows, parts) in [
        ("unit = \"visitor\"", "lacks columns of its domain: visitor"),
        ("unit = \"kind\"\ndrop = [\"person\"]", "unit: also the label"),
        ("unit = \"height\"\ndrop = [\"person\"]", "unit: also a feature column"),
        ("unit = \"person\"\nmax-rows = 0", "max-rows: 0"),
        ("reduce = \"sum\"\ndrop = [\"person\"]", "none is declared: add unit"),
        ("unit = true\ndrop = [\"person\"]", "`unit-ids FILE`"),
    ] {
        let refused = declared(rows);
        assert!(refused.contains(parts), "{rows}: {refused}");
    }
    let matrix = "[rows]\nunit = \"person\"\n[columns]\ncount = 1\nbounds = [0, 1]\n[label]\nclasses = [0, 1]\n";
    assert!(schema::parse("s", matrix).unwrap_err().to_string().contains("write unit = true"));

    // Ids of another number of rows.
    let folder = visits("unit = true\ndrop = [\"person\"]");
    folder.write("visits.csv.units", "1\n2\n");
    assert!(refusal(&training(&folder, false)).contains("300 rows, but"));
    assert!(!refusal(&training(&folder, true)).contains("300"));

    // Flags of a release name nothing that the schema does not; those of a simulation may.
    let folder = visits("drop = [\"person\"]");
    let mut flagged = training(&folder, true);
    flagged.data.declaration.columns.unit = Some("person".into());
    assert!(refusal(&flagged).contains("write unit = \"person\" under [rows]"));
    flagged.privacy.secure = false;
    let outcome = fit(&flagged, &Execution::default(), &mut ()).unwrap().outcome;
    assert!(outcome.unit.unwrap().contains("\"person\"") && outcome.header.n.unwrap() < 100);
    flagged.data.declaration.columns.unit = None;
    flagged.data.declaration.unit_ids = Some("ids".into());
    flagged.privacy.secure = true;
    assert!(refusal(&flagged).contains("write unit = true under [rows]"));

    let folder = visits("unit = \"person\"");
    let mut other = training(&folder, false);
    other.data.declaration.columns.unit = Some("colour".into());
    assert!(refusal(&other).contains("the schema declares another unit"));
    other.data.declaration.columns.unit = Some("person".into());
    other.data.declaration.unit_ids = Some("ids".into());
    assert!(refusal(&other).contains("leave one of them out"));
    for secure in [false, true] {
        let mut private = training(&folder, secure);
        private.data.declaration.bounds = Some("private:1".into());
        assert!(refusal(&private).contains("counts rows, of which a unit may have many"));
    }

    // One unit with all rows; under add-remove the number of units is private.
    let folder = visits("unit = \"person\"");
    let table = std::fs::read_to_string(folder.path().join("visits.csv")).unwrap();
    let of_one = |line: &str| {
        let (height, rest) = line.split_once(',').unwrap();
        let (id, rest) = rest.split_once(',').unwrap();
        format!("{height},{},{rest}\n", if id == "person" { id } else { "one" })
    };
    let single: String = table.lines().map(of_one).collect();
    folder.write("visits.csv", single);
    assert!(refusal(&training(&folder, true)).contains("all rows are of one unit"));
    let mut private = training(&folder, true);
    private.privacy.adjacency = Some(Adjacency::AddRemove);
    private.data.declaration.public_rows = Some(60);
    private.privacy.allow_weak_privacy = true;
    fit(&private, &Execution::default(), &mut ()).unwrap();
}

#[test]
fn ranks_are_refused_before_they_read_a_row() {
    let folder = visits("unit = \"person\"");
    let training = training(&folder, false);
    std::thread::scope(|scope| {
        let run = |rank: ThreadRanks| {
            let execution = Execution::on(Engine::over_ranks(std::sync::Arc::new(rank), 1).unwrap());
            fit(&training, &execution, &mut ()).err().unwrap().to_string()
        };
        let running: Vec<_> = ThreadRanks::of(2).into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        for refused in running {
            assert!(refused.join().unwrap().contains("rows of units are not shared out over ranks"));
        }
    });
}

#[test]
fn a_draft_proposes_a_unit_and_a_run_on_rows_that_repeat_ids_says_so() {
    let folder = visits("");
    let text = draft::draft(&folder.path().join("visits.csv"), &ColumnUse::default()).unwrap();
    assert!(text.contains("unit = \"person\"  # ") && !text.contains("columns.\"person\""), "{text}");
    let domain = schema::parse("draft", &text).unwrap();
    assert_eq!(domain.unit.as_ref().unwrap().column.as_deref(), Some("person"));
    assert_eq!(schema::parse("draft", &schema::write(&domain, &Default::default())).unwrap().digest(), domain.digest());
    let dropped = ColumnUse { drop: vec!["person".into()], ..ColumnUse::default() };
    assert!(draft::draft(&folder.path().join("visits.csv"), &dropped).unwrap().contains("unit = \"person\""));

    let warned = |unit: Option<&str>, drop: &[&str]| {
        let mut training = training(&folder, false);
        training.data.declaration.columns.unit = unit.map(str::to_owned);
        training.data.declaration.columns.drop = drop.iter().map(|name| (*name).to_owned()).collect();
        let mut warned = Warned::default();
        fit(&training, &Execution::default(), &mut warned).unwrap();
        warned.0.iter().any(|said| said.contains("`unit person` protects all rows of one id together"))
    };
    assert!(warned(None, &[]) && warned(None, &["person"]) && !warned(Some("person"), &[]));

    // Ids of one row each are none.
    let folder = Folder::new();
    let rows: String = (0..200).map(|row| format!("{row},{},{}\n", row % 7, ["no", "yes"][row % 2])).collect();
    folder.write("table.csv", format!("user_id,height,kind\n{rows}"));
    // Nor is an answer about people.
    let rows: String =
        (0..200).map(|row| format!("{},{},{}\n", row % 3 / 2, row % 7, ["no", "yes"][row % 2])).collect();
    folder.write("answers.csv", format!("member,height,kind\n{rows}"));
    for file in ["table.csv", "answers.csv"] {
        let text = draft::draft(Path::new(&at(&folder, file)), &ColumnUse::default()).unwrap();
        assert!(!text.contains("unit ="), "{file}: {text}");
    }
}

#[test]
fn a_model_reads_rows_with_the_column_of_units_and_without() {
    let folder = visits("unit = \"person\"");
    let model = fit(&training(&folder, false), &Execution::default(), &mut ()).unwrap().model;
    folder.write("new.csv", "kind,height,colour\nno,3,red\nyes,4,green\n");
    for (file, rows) in [("visits.csv", 300), ("new.csv", 2)] {
        let loaded = model.load(&at(&folder, file), None, data::LabelUse::Needed).unwrap();
        assert_eq!(loaded.dataset.len(), rows);
        assert!(loaded.dataset.units().is_none());
        assert!(model.evaluate(loaded).unwrap().rows == rows);
    }
}
