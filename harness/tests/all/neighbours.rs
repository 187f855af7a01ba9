//! Neighbouring files given to the command: all that a release shows is the same whatever a row holds: exit code, text, JSON, messages, and
//! the header and size of the model. So is the refusal of a file that is not whole.

use std::collections::BTreeSet;
use std::fs;

use rounds_algorithms::privacy::Adjacency;
use rounds_models::choices::Choices;
use serde_json::Value;

use crate::files::Folder;
use crate::forms::{FORMS, Form, Packing, of, pairs};
use crate::support::{assert_succeeds, rounds};

const PACKINGS: [Packing; 3] = [Packing::Plain, Packing::Gzip, Packing::Xz];

/// Names of the hexadecimal numbers that follow from the noise: the hashes of the model and of released features, and a signature of both. No
/// other text may differ.
const MASKED: [&str; 4] = ["model sha256", "model_sha256", "features_sha256", "ed25519"];

/// `text` with a star for each digit of what has a masked name.
fn masked(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(start) = MASKED.iter().filter_map(|name| Some(rest.find(name)? + name.len())).min() {
        let is_value = |character: char| character.is_ascii_hexdigit() || "\\\": \n".contains(character);
        let end = rest[start..].find(|character| !is_value(character)).map_or(rest.len(), |length| start + length);
        shown.push_str(&rest[..start]);
        shown.push_str(&rest[start..end].replace(|character: char| character.is_ascii_hexdigit(), "*"));
        rest = &rest[end..];
    }
    shown + rest
}

/// JSON with types in the place of numbers and texts, of a run whose domain is noisy.
fn shape(document: &Value) -> Value {
    match document {
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        other => other.clone(),
    }
}

/// All that a release shows.
#[derive(Debug, PartialEq)]
struct Shown {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// Header and length of the model's file.
    model: Option<(String, usize)>,
}

/// A release of one form and packing, by a schema and more arguments.
struct Case<'a> {
    form: Form,
    packing: Packing,
    schema: String,
    arguments: String,
    folder: &'a Folder,
}

impl Case<'_> {
    /// The release of `rows`, alone in the folder but for a file of the ids of their units, in a file that is whole or not.
    fn shown(&self, rows: &[Vec<u8>], ids: Option<String>, is_whole: bool) -> Shown {
        for file in fs::read_dir(self.folder.path()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let data = self.form.write(self.folder, rows, self.packing);
        if !is_whole {
            let files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
            let last = files.max().unwrap();
            let mut bytes = fs::read(&last).unwrap();
            if self.packing == Packing::Plain && matches!(self.form, Form::Csv | Form::Headless | Form::Libsvm { .. }) {
                bytes.extend(b"\"x:y\n");
            } else {
                bytes.pop();
            }
            fs::write(last, bytes).unwrap();
        }
        self.folder.write("schema.toml", &self.schema);
        if let Some(ids) = ids {
            let name = data.file_name().unwrap().to_str().unwrap();
            let name = name.trim_end_matches(".gz").trim_end_matches(".xz");
            let name = if data.is_dir() { "units.txt".to_owned() } else { format!("{name}.units") };
            self.folder.write(&name, ids);
        }
        let model = self.folder.path().join("model.st");
        let output = rounds(&format!("train --data {} --model {} {}", data.display(), model.display(), self.arguments));
        let is_noisy = self.arguments.contains("private:");
        let text = |bytes: &[u8]| match serde_json::from_slice(bytes) {
            Ok(document) if is_noisy => shape(&document).to_string(),
            _ => masked(std::str::from_utf8(bytes).unwrap()),
        };
        Shown {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            model: fs::read(model).ok().map(|bytes| {
                let (length, rest) = bytes.split_first_chunk().unwrap();
                let header = &rest[..u64::from_le_bytes(*length) as usize];
                let document: Value = serde_json::from_slice(header).unwrap();
                // The statement is a text in the header.
                let statement = document["__metadata__"]["rounds"].as_str().unwrap();
                (text(statement.as_bytes()) + &document["weights"].to_string(), if is_noisy { 0 } else { bytes.len() })
            }),
        }
    }
}

#[test]
fn all_that_the_command_shows_of_neighbours_is_the_same() {
    let (folder, keys) = (Folder::new(), Folder::new());
    let key = keys.path().join("key");
    assert_succeeds(&format!("keygen {}", key.display()));
    let combinations = (FORMS.len() * PACKINGS.len()) as u64;
    let (mut ends, mut has_moments) = (BTreeSet::new(), false);
    for pair in 0..(pairs() / 80).max(combinations) {
        let mut choices = Choices::new(pair);
        let form = FORMS[pair as usize % FORMS.len()];
        let packing = PACKINGS[pair as usize / FORMS.len() % PACKINGS.len()];
        let relation = of(&mut choices, &[Adjacency::ZeroOut, Adjacency::ReplaceOne, Adjacency::AddRemove]);
        let kind = match relation {
            // IDX files come with test rows.
            Adjacency::ZeroOut => match of(&mut choices, &["", " --algorithm dp-ftrl", " --test-split 0.25"]) {
                " --test-split 0.25" if form == Form::Idx => "",
                kind => kind,
            },
            Adjacency::ReplaceOne => " --sampling fixed",
            Adjacency::AddRemove => "",
        };
        let treated = of(
            &mut choices,
            &[
                "",
                " --scale-features 0.5",
                " --clip-features l2=1",
                " --features fourier:count=8",
                " --features normalize",
                " --features whiten:norm=1",
            ],
        );
        let is_noisy = form == Form::Csv && choices.below(3) == 0;
        let output = if is_noisy { " --json --bounds private:1" } else { of(&mut choices, &[" --json", ""]) };
        // Of moments, which take a share of ε.
        let is_shared = treated.contains("normalize") || treated.contains("whiten");
        has_moments |= is_shared;
        let budget = if is_shared { "--epsilon 5" } else { "--noise-multiplier 2" };
        let arguments = format!(
            "--secure --threads 1 --batch-size 8 --epochs 1 {budget} --delta 1e-4 --allow-weak-privacy \
             --sign {}{kind}{treated}{output}",
            key.display()
        );
        let schema = form.schema(relation, &mut choices);
        let case = Case { form, packing, schema, arguments, folder: &folder };
        let data = form.neighbours(relation, &mut choices);
        for is_whole in [true, false] {
            let [first, second] = data.each_ref().map(|rows| case.shown(rows, None, is_whole));
            let of_pair = format!("pair {pair}: {form:?} {packing:?} under {relation}, {}", case.arguments);
            assert_eq!(first, second, "{of_pair}");
            let end = (first.code, first.model.is_some(), first.stderr.contains("the declared format"));
            assert_eq!(
                end,
                if is_whole { (Some(0), true, false) } else { (Some(2), false, true) },
                "{of_pair}: {first:?}"
            );
            ends.insert((format!("{form:?}"), format!("{packing:?}"), is_whole));
        }
    }
    assert!(has_moments && ends.len() as u64 == 2 * combinations);
}

/// A row of a unit, with its number.
type OfUnit = (usize, Vec<u8>);

/// Rows of 16 units, and those of a neighbour: one unit has another number of other rows, or none.
fn neighbouring_units(form: Form, relation: Adjacency, choices: &mut Choices) -> [Vec<OfUnit>; 2] {
    let insert = |rows: &mut Vec<OfUnit>, unit: usize, row: Vec<u8>, choices: &mut Choices| {
        let place = choices.below(rows.len() + 1);
        rows.insert(place, (unit, row));
    };
    let (mut others, changed) = (Vec::new(), choices.below(16));
    for unit in (0..16).filter(|unit| *unit != changed) {
        for _ in 0..=choices.below(4) {
            let row = form.row(choices, false);
            insert(&mut others, unit, row, choices);
        }
    }
    let counts = of(choices, &[[1, 50], [50, 1], [2, 50], [50, 3]]);
    [0, 1].map(|of_pair| {
        let mut rows = others.clone();
        // Null rows keep the place of a unit that contributes nothing.
        let (count, is_null) = match (relation, of_pair) {
            (Adjacency::AddRemove, 1) => (0, false),
            (Adjacency::ZeroOut, 1) => (1 + choices.below(3), true),
            _ => (counts[of_pair], false),
        };
        for _ in 0..count {
            let row = form.row(choices, is_null);
            insert(&mut rows, changed, row, choices);
        }
        rows
    })
}

#[test]
fn all_that_the_command_shows_of_neighbouring_units_is_the_same() {
    let folder = Folder::new();
    let mut ends = BTreeSet::new();
    for pair in 0..(pairs() / 40).max(3 * FORMS.len() as u64) {
        let mut choices = Choices::new(pair);
        let form = FORMS[pair as usize % FORMS.len()];
        let packing = of(&mut choices, &PACKINGS);
        let relation =
            [Adjacency::ZeroOut, Adjacency::ReplaceOne, Adjacency::AddRemove][pair as usize / FORMS.len() % 3];
        let kind = match relation {
            Adjacency::ZeroOut => of(&mut choices, &["", " --algorithm dp-ftrl", " --algorithm dp-mf"]),
            Adjacency::ReplaceOne => " --sampling fixed",
            Adjacency::AddRemove => "",
        };
        let has_split = relation != Adjacency::AddRemove && form != Form::Idx && choices.below(3) == 0;
        let split = if has_split { " --test-split 0.25" } else { "" };
        let treated =
            of(&mut choices, &["", " --scale-features 0.5", " --clip-features l2=1", " --features fourier:count=8"]);
        let output = of(&mut choices, &[" --json", ""]);
        let arguments = format!(
            "--secure --threads 1 --batch-size 4 --epochs 1 --noise-multiplier 2 --delta 1e-4 --allow-weak-privacy\
             {kind}{split}{treated}{output}"
        );
        let is_column = form == Form::Csv && choices.below(2) == 0;
        let unit = if is_column { "unit = \"person\"" } else { "unit = true" };
        let options =
            of(&mut choices, &["", "max-rows = 2\n", "reduce = \"sum\"\n", "max-rows = 40\nreduce = \"sum\"\n"]);
        let schema = form.schema(relation, &mut choices).replacen("[rows]", &format!("[rows]\n{unit}\n{options}"), 1);
        let case = Case { form, packing, schema, arguments, folder: &folder };
        let data = neighbouring_units(form, relation, &mut choices);
        let [first, second] = data.map(|rows| {
            let ids = (!is_column).then(|| rows.iter().map(|(unit, _)| format!("{unit}\n")).collect());
            let line = |(unit, row): (usize, Vec<u8>)| {
                if is_column { [format!("{unit},").into_bytes(), row].concat() } else { row }
            };
            let lines: Vec<_> = rows.into_iter().map(line).collect();
            case.shown(&lines, ids, true)
        });
        let of_pair =
            format!("pair {pair}: {form:?} {packing:?} under {relation}, {}\n{}", case.arguments, case.schema);
        assert_eq!(first, second, "{of_pair}");
        assert_eq!((first.code, first.model.is_some(), &*first.stderr), (Some(0), true, ""), "{of_pair}");
        ends.insert((format!("{form:?}"), relation.name()));
    }
    assert_eq!(ends.len(), 3 * FORMS.len());
}
