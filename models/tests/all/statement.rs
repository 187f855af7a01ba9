//! Statements: what every kind of release writes is verified, and nothing that was changed in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use rayon::prelude::*;
use rounds_algorithms::catalog;
use rounds_algorithms::optimizers::{NoiseKind, SamplingKind};
use rounds_algorithms::privacy::{Accountant, Adjacency};
use rounds_algorithms::problem::{
    BYTE_SCALE, Bounds, Columns, Dataset, DatasetError, Domain, DomainSource, Features, Label, Labels, Storage,
};
use rounds_kernels::features::Norm;
use rounds_kernels::loss::Loss;
use rounds_models::data::TrainTest;
use rounds_models::fit::{Execution, Fitted, Grid, Training, Tuning, fit, tune};
use rounds_models::model_file::Model;
use rounds_models::signature::{self, PublicKey};
use rounds_models::statement::{self, StatementError, Verified, Verifier};
use serde::Serialize;
use serde_json::{Value, json};

use crate::files::Folder;

const SCHEMA: &str = "[columns.height]\nkind = \"number\"\nbounds = [0, 10]\n[columns.colour]\nkind = \"category\"\n\
    values = [\"red\", \"green\"]\nother = \"null-row\"\n[label]\ncolumn = \"kind\"\nclasses = [\"no\", \"yes\"]\n";

/// A folder with 400 rows and their schema.
fn folder() -> Folder {
    let folder = Folder::new();
    let row = |row: usize| format!("{},{},{}\n", row % 11, ["red", "green"][row % 2], ["no", "yes"][row / 2 % 2]);
    folder.write("table.csv", "height,colour,kind\n".to_owned() + &(0..400).map(row).collect::<String>());
    folder.write("schema.toml", SCHEMA);
    // The same rows with a person each, of 80.
    let row = |row: usize| {
        format!("{},{},{},{}\n", row % 80, row % 11, ["red", "green"][row % 2], ["no", "yes"][row / 2 % 2])
    };
    folder.write("visits.csv", "person,height,colour,kind\n".to_owned() + &(0..400).map(row).collect::<String>());
    signature::generate(&folder.path().join("key")).unwrap();
    folder
}

fn release(folder: &Folder, algorithm: &str) -> Training {
    let mut training = Training::on(folder.path().join("table.csv").to_str().unwrap()).private(1.0, 1e-6);
    algorithm.clone_into(&mut training.algorithm);
    training.privacy.secure = true;
    training.optimizer.regularization = 0.01;
    let reads = |parameter| catalog::find(algorithm).unwrap().reads(parameter);
    // The others read every row once, or in batches of their own.
    if reads("batch-size") && reads("momentum") {
        (training.optimizer.epochs, training.optimizer.batch_size) = (Some(2.0), Some(50));
    }
    training.sign = Some(folder.path().join("key"));
    training
}

fn run(training: &Training) -> Fitted {
    let run = fit(training, &Execution::default(), &mut ());
    run.unwrap_or_else(|error| panic!("{}: {error}", training.algorithm))
}

/// 400 rows of a matrix that a program scaled and clipped itself.
fn in_memory() -> TrainTest {
    let domain = Domain::new(
        Columns::Matrix { count: 3, bounds: Bounds::new(-1.0, 1.0).unwrap() },
        Storage::Dense,
        Label::Classes(["no", "yes"].map(str::to_owned).to_vec()),
        DomainSource::Arguments,
    );
    let values: Vec<f32> = (0..1200).map(|place| (place % 7) as f32 / 6.0).collect();
    of_rows(Features::f32(values, 3), domain, |rows| rows.scale_features(0.7)?.clip_features(Norm::L2, 0.6))
}

/// 400 rows of bytes that a program scaled itself.
fn bytes_in_memory() -> TrainTest {
    let domain = Domain::new(
        Columns::Matrix { count: 3, bounds: Bounds::new(0.0, 255.0).unwrap() },
        Storage::Bytes,
        Label::Classes(["no", "yes"].map(str::to_owned).to_vec()),
        DomainSource::Arguments,
    );
    let values: Vec<u8> = (0..1200).map(|place| (place % 251) as u8).collect();
    of_rows(Features::bytes(&values, 3, BYTE_SCALE), domain, |rows| rows.scale_features(0.7))
}

fn of_rows(features: Features, domain: Domain, treat: impl Fn(Dataset) -> Result<Dataset, DatasetError>) -> TrainTest {
    let labels = Labels::Classes { values: (0..400).map(|row| row / 2 % 2).collect(), classes: 2, names: None };
    let rows = Dataset::new("own", features, labels).and_then(|rows| rows.in_domain(Arc::new(domain)));
    TrainTest { train: rows.and_then(treat).unwrap(), test: None }
}

/// Every kind of statement that the library writes: every algorithm that makes releases, and every relation, sampler, accountant
/// and treatment of rows.
fn kinds(folder: &Folder) -> Vec<(String, Training)> {
    let releasing = catalog::ALGORITHMS.iter().filter(|algorithm| algorithm.private && algorithm.release);
    let mut kinds: Vec<_> = releasing.map(|of| (of.id.to_owned(), release(folder, of.id))).collect();
    for (name, rows) in [
        ("unit", "unit = \"person\"\n"),
        ("unit of a sum", "unit = \"person\"\nreduce = \"sum\"\nmax-rows = 5\n"),
        ("unit under add-remove", "unit = \"person\"\nrelation = \"add-remove\"\npublic-rows = 80\n"),
    ] {
        let schema = folder.write(&format!("{name}.toml"), format!("[rows]\n{rows}{SCHEMA}"));
        let mut training = release(folder, "dp-sgd");
        training.data = Training::on(folder.path().join("visits.csv").to_str().unwrap()).data;
        training.data.declaration.schema = Some(schema);
        training.privacy.delta = 1e-3;
        training.optimizer.batch_size = Some(24);
        kinds.push((name.to_owned(), training));
    }
    let mut add = |name: &str, algorithm: &str, change: &dyn Fn(&mut Training)| {
        let mut training = release(folder, algorithm);
        change(&mut training);
        kinds.push((name.to_owned(), training));
    };
    for sampling in SamplingKind::ALL {
        for &adjacency in Adjacency::ALL {
            let is_poisson = matches!(sampling, SamplingKind::Poisson | SamplingKind::RandomAllocation);
            let of_fixed_order =
                matches!(sampling, SamplingKind::Fixed | SamplingKind::Shuffled | SamplingKind::Reshuffled);
            let is_covered = match adjacency {
                Adjacency::ZeroOut => true,
                Adjacency::AddRemove => is_poisson,
                Adjacency::ReplaceOne => of_fixed_order || *sampling == SamplingKind::WithoutReplacement,
            };
            if !is_covered {
                continue;
            }
            add(&format!("{sampling} {adjacency}"), "dp-sgd", &|training| {
                (training.privacy.adjacency, training.optimizer.sampling) = (Some(adjacency), Some(*sampling));
                training.privacy.accountant = (!of_fixed_order).then_some(Accountant::Rdp);
                if adjacency == Adjacency::AddRemove {
                    training.data.declaration.public_rows = Some(400);
                }
            });
        }
    }
    for accountant in [Accountant::Gdp, Accountant::Zcdp, Accountant::ZcdpSimple, Accountant::Rdp, Accountant::Pld] {
        add(&format!("all rows, {accountant}"), "dp-sgd", &|training| {
            training.privacy.accountant = Some(accountant);
            (training.optimizer.sampling, training.optimizer.batch_size) = (Some(SamplingKind::Fixed), Some(400));
        });
    }
    add("Laplace without replacement", "dp-gd", &|training| {
        training.privacy.delta = 0.0;
        training.optimizer.batch_size = Some(50);
        training.optimizer.sampling = Some(SamplingKind::WithoutReplacement);
    });
    add("Laplace, delta", "dp-gd", &|training| training.privacy.accountant = Some(Accountant::Rdp));
    add("Gaussian of dp-gd", "dp-gd", &|training| training.privacy.noise = Some(NoiseKind::Independent));
    add("tree, zcdp", "dp-ftrl", &|training| training.privacy.accountant = Some(Accountant::Zcdp));
    add("private bounds", "dp-ftrl", &|training| training.data.declaration.bounds = Some("private:0.5".into()));
    for (name, id, schedule) in
        [("cooldown", "dp-sgd", "cooldown"), ("factors", "dp-mf", "1,1,1,0.5,1,1,1,0.5,1,1,1,1,1,1,0.5,0.25")]
    {
        add(name, id, &|training| {
            training.parameters.push(("learning-rate-schedule".to_owned(), schedule.to_owned()));
        });
    }
    add("decays", "dp-srg-memf", &|training| {
        let set = [("learning-rate-schedule", "cooldown"), ("decay", "eta-ratio")];
        training.parameters = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    });
    add("treated", "pgd", &|training| {
        (training.data.scale_features, training.data.clip_features) = (Some(0.1), Some((Norm::L2, 0.3)));
        (training.data.test_split, training.optimizer.loss) = (Some(0.2), Some(Loss::Logistic));
    });
    add("network", "dp-mf", &|training| {
        training.data = Training::on_rows(in_memory()).data;
        training.optimizer.model_kind = Some("image 1x3x1, dense 4, tanh".to_owned());
    });
    add("16 bits", "dp-sgd", &|training| training.parameters.push(("precision".to_owned(), "16".to_owned())));
    add("24 bits", "dp-sgd", &|training| training.parameters.push(("precision".to_owned(), "24".to_owned())));
    add("set", "dp-gd", &|training| {
        let set = [("rounds", "40"), ("clip-norm", "0.5"), ("accountant", "rdp"), ("adjacency", "zero-out")];
        training.parameters = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        (training.optimizer.epochs, training.optimizer.batch_size) = (None, None);
    });
    for (name, rows) in [("rows in memory", in_memory()), ("rows in memory, bytes", bytes_in_memory())] {
        add(name, "dp-sgd", &|training| {
            training.data = Training::on_rows(rows.clone()).data;
            training.data.scale_features = Some(0.5);
        });
    }
    add("noise multiplier", "dp-mf", &|training| {
        (training.privacy.epsilon, training.privacy.noise_multiplier) = (None, Some(9.0));
        training.optimizer.clip_norm = Some(0.7);
        training.privacy.allow_weak_privacy = true;
        training.privacy.delta = 0.01;
    });
    kinds
}

/// The pointers of all leaves, and of all objects and lists.
fn places(value: &Value, place: String, leaves: &mut Vec<String>, groups: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => return leaves.push(place),
    };
    below.into_iter().for_each(|(key, value)| places(value, format!("{place}/{key}"), leaves, groups));
    groups.push(place);
}

/// Words of which each may stand where another does.
const WORDS: [&str; 10] = [
    "release simulation none",
    "zero-out add-remove replace-one",
    "gdp zcdp zcdp-simple rdp pld pure",
    "chacha20 xoshiro",
    "exact idealised",
    "l1 l2",
    "full-batch fixed-order shuffled-once reshuffled-each-epoch",
    "example user",
    "dp-sgd dp-ftrl dp-mf dp-memf dp-gd dp-hb",
    "softmax logistic hinge squared",
];

/// Other values of a leaf.
fn others(leaf: &Value) -> Vec<Value> {
    match leaf {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap();
            let numbers = [number * 1.001, number * 0.999, number + 1.0, -number, 0.0];
            let numbers = numbers.into_iter().filter(|other| *other != number).map(Value::from);
            numbers.chain([Value::Null, json!(number.to_string())]).collect()
        }
        Value::Number(number) => vec![json!(number.as_u64().unwrap() + 1), json!(0), json!(-1), json!("1")],
        Value::String(text) => {
            let others = WORDS.iter().filter(|words| words.split(' ').any(|word| word == text));
            let others = others.flat_map(|words| words.split(' ')).filter(|word| word != text);
            let digit = text.char_indices().find(|(_, letter)| letter.is_ascii_digit());
            let digit = digit.map(|(at, letter)| {
                let other = if letter == '1' { "2" } else { "1" };
                json!([&text[..at], other, &text[at + 1..]].concat())
            });
            others.map(Value::from).chain(digit).chain([json!(format!("{text} ")), json!(""), json!(1)]).collect()
        }
        Value::Bool(value) => vec![json!(!value)],
        _ => vec![json!(1), json!(0.5), json!("arguments")],
    }
}

/// Every change of one leaf, every loss of one, and every field more, with the place of each.
fn mutations(document: &Value) -> Vec<(String, Value)> {
    let (mut leaves, mut groups) = (Vec::new(), Vec::new());
    places(document, String::new(), &mut leaves, &mut groups);
    let mut mutations = Vec::new();
    for leaf in leaves.iter().chain(&groups).filter(|place| !place.is_empty()) {
        let (group, key) = leaf.rsplit_once('/').unwrap();
        let mut without = document.clone();
        match without.pointer_mut(group).unwrap() {
            Value::Object(fields) => drop(fields.remove(key)),
            Value::Array(items) => drop(items.remove(key.parse().unwrap())),
            _ => unreachable!("a group"),
        }
        mutations.push((format!("{leaf} lost"), without));
        let mutable = document.pointer(leaf).filter(|value| !(value.is_object() || value.is_array()));
        for other in mutable.map(others).unwrap_or_default() {
            let mut changed = document.clone();
            *changed.pointer_mut(leaf).unwrap() = other;
            mutations.push((leaf.clone(), changed));
        }
    }
    for group in groups {
        let mut more = document.clone();
        match more.pointer_mut(&group).unwrap() {
            Value::Object(fields) => drop(fields.insert("more".to_owned(), json!("1"))),
            Value::Array(items) => items.push(json!("1")),
            _ => unreachable!("a group"),
        }
        mutations.push((group + "/more", more));
    }
    mutations
}

/// A value as a reader of its text has it.
fn text(value: impl Serialize) -> Value {
    serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap()
}

fn verified(folder: &Path, document: &Value, key: Option<&PublicKey>) -> Result<Verified, StatementError> {
    let file = tempfile::NamedTempFile::new_in(folder).unwrap();
    std::fs::write(file.path(), document.to_string()).unwrap();
    let mut verifier = VERIFIER.clone();
    verifier.signer = key.cloned();
    verifier.verify(file.path())
}

/// Remembers what it planned: the mutations of one document share it.
static VERIFIER: LazyLock<Verifier> = LazyLock::new(Verifier::default);

/// The places of the mutations that pass.
fn passing(folder: &Path, mutations: &[(String, Value)], key: Option<&PublicKey>) -> Vec<String> {
    let holds = |(_, mutated): &&(String, Value)| verified(folder, mutated, key).is_ok_and(|found| found.holds);
    mutations.par_iter().filter(holds).map(|(place, _)| place.clone()).collect()
}

/// Leaves of a document without weights and without a signature whose change describes another run with the same statement, behind the
/// reason.
const TRUSTED: [(&str, &[&str]); 4] = [
    ("names, weights", &["/data/dataset", "/model_sha256"]),
    // Where no default follows from them.
    (
        "rows as given",
        &[
            "/data/given lost",
            "/data/given/unit",
            "/data/given/byte_scale",
            "/data/given/bound/norm",
            "/data/given/bound/bound",
        ],
    ),
    ("objective", &["/parameters/regularization"]),
    ("was the default", &["/parameters/sampling lost", "/parameters/set precision lost"]),
];

/// The reason for which a change at this place may pass.
fn trusted(document: &Value, place: &str) -> Option<&'static str> {
    let listed = TRUSTED.iter().find(|(_, places)| places.contains(&place));
    // Pure privacy spends no δ.
    let is_pure = document.pointer("/privacy/delta") == Some(&json!(0.0));
    listed.map(|(reason, _)| *reason).or((is_pure && place == "/parameters/delta").then_some("no part"))
}

/// Counts of changes of the statements about one mechanism.
#[derive(Default)]
struct Counts {
    kinds: usize,
    leaves: usize,
    changes: usize,
    /// By reason.
    trusted: BTreeMap<&'static str, usize>,
}

/// Changes of two leaves, and of all, that hold one number, by one factor, with their places.
fn scalings(document: &Value) -> Vec<(String, Value)> {
    let (mut leaves, mut groups) = (Vec::new(), Vec::new());
    places(document, String::new(), &mut leaves, &mut groups);
    let number = |place: &String| match document.pointer(place)? {
        Value::String(text) => text.parse::<f64>().ok(),
        leaf => leaf.as_f64(),
    };
    let numbers: Vec<_> =
        leaves.iter().filter_map(|place| Some((place, number(place).filter(|of| *of != 0.0)?))).collect();
    let mut scalings = Vec::new();
    for (i, (first, value)) in numbers.iter().enumerate() {
        let equal =
            numbers[i + 1..].iter().filter(|(_, other)| *other as f32 == *value as f32).map(|(place, _)| *place);
        let equal: Vec<_> = equal.collect();
        let pairs = equal.iter().map(|second| vec![*second]);
        for others in pairs.chain((equal.len() > 1).then(|| equal.clone())) {
            let mut scaled = document.clone();
            for place in [*first].into_iter().chain(others.iter().copied()) {
                let leaf = scaled.pointer_mut(place).unwrap();
                *leaf = match &*leaf {
                    Value::String(_) => (2.0 * value).to_string().into(),
                    Value::Number(whole) if whole.is_u64() => (2 * whole.as_u64().unwrap()).into(),
                    _ => (2.0 * value).into(),
                };
            }
            let others = others.iter().map(|place| place.as_str());
            scalings.push(([first.as_str()].into_iter().chain(others).collect::<Vec<_>>().join(" "), scaled));
        }
    }
    scalings
}

/// Equal numbers that are those of another run if all are changed: a clip norm that was given, of noise in its multiples, and the size of
/// batches that each row is in once an epoch.
fn is_another_run(document: &Value, places: &str) -> bool {
    let mechanism = document.pointer("/privacy/mechanisms/0").unwrap();
    let untrusted: Vec<_> = places.split(' ').filter(|place| trusted(document, place).is_none()).collect();
    match untrusted[..] {
        [] => true,
        ["/parameters/clip-norm", "/plan/clip-norm", "/privacy/clip_norm"] => mechanism.get("laplace").is_none(),
        ["/parameters/batch-size"] => places.ends_with(" /plan/batch-size"),
        _ => false,
    }
}

/// Prints a table of its counts, which `--nocapture` shows.
#[test]
fn no_change_of_a_statement_is_verified() {
    let folder = folder();
    let key = PublicKey::read(&folder.path().join("key.pub")).unwrap();
    let (mut counts, mut passed) = (BTreeMap::<String, Counts>::new(), Vec::new());
    let mut count = |mechanism: &str, document: &Value, changes: usize, trusted: Vec<&'static str>| {
        let (mut leaves, mut groups) = (Vec::new(), Vec::new());
        places(document, String::new(), &mut leaves, &mut groups);
        let counts = counts.entry(mechanism.to_owned()).or_default();
        (counts.kinds, counts.leaves, counts.changes) =
            (counts.kinds + 1, counts.leaves + leaves.len(), counts.changes + changes);
        trusted.into_iter().for_each(|reason| *counts.trusted.entry(reason).or_default() += 1);
    };
    for (name, training) in kinds(&folder) {
        let mut document = text(run(&training).outcome.header);
        let found = verified(folder.path(), &document, Some(&key)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(found.holds, "{name}: {:#?}", found.differences);
        // A signature is over all leaves whatever they say: some kinds are enough.
        if ["dp-sgd", "dp-gd", "poisson add-remove", "private bounds", "treated"].contains(&name.as_str()) {
            let changes = mutations(&document);
            assert_eq!(passing(folder.path(), &changes, Some(&key)), [""; 0], "{name}, signed");
            count("signed, of each", &document, changes.len(), Vec::new());
        }
        for key in ["signature", "build"] {
            document.as_object_mut().unwrap().remove(key);
        }
        let mut of_pairs = passing(folder.path(), &scalings(&document), None);
        of_pairs.retain(|places| !is_another_run(&document, places));
        let changes = mutations(&document);
        let (exempt, passing): (Vec<_>, Vec<_>) =
            passing(folder.path(), &changes, None).into_iter().partition(|place| trusted(&document, place).is_some());
        passed.extend(of_pairs.iter().chain(&passing).map(|places| format!("{name}: {places}")));
        let mechanism = document["privacy"]["mechanisms"][0].as_object().and_then(|of| of.keys().next()).unwrap();
        let reasons = exempt.iter().filter_map(|place| trusted(&document, place)).collect();
        count(mechanism, &document, changes.len(), reasons);
    }
    assert_eq!(passed, [""; 0]);
    let reasons = ["names, weights", "rows as given", "objective", "was the default", "no part"];
    println!("| mechanism | kinds | leaves | changes | refused | {} |", reasons.join(" | "));
    for (mechanism, Counts { kinds, leaves, changes, trusted }) in &counts {
        let refused = changes - trusted.values().sum::<usize>();
        let exempt = reasons.map(|reason| trusted.get(reason).copied().unwrap_or(0).to_string()).join(" | ");
        println!("| {mechanism} | {kinds} | {leaves} | {changes} | {refused} | {exempt} |");
    }
    let total = |of: fn(&Counts) -> usize| counts.values().map(of).sum::<usize>();
    let (changes, kinds) = (total(|counts| counts.changes), total(|counts| counts.kinds));
    assert!(changes > 15_000 && kinds >= 45, "{changes} changes of {kinds} kinds, of which five are signed");
}

/// The bytes of a model file with another text before its weights.
fn with_text(model: &[u8], other: impl FnOnce(&str) -> String) -> Vec<u8> {
    let (length, rest) = model.split_first_chunk::<8>().unwrap();
    let (own, weights) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let other = other(std::str::from_utf8(own).unwrap());
    [&(other.len() as u64).to_le_bytes()[..], other.as_bytes(), weights].concat()
}

/// The bytes of a model file with another header.
fn with_header(model: &[u8], header: &Value) -> Vec<u8> {
    with_text(model, |own| {
        let mut own: Value = serde_json::from_str(own).unwrap();
        own["__metadata__"]["rounds"] = header.to_string().into();
        own.to_string()
    })
}

/// Of two texts of one name other readers take the first, and the last is verified.
#[test]
fn a_file_with_a_name_twice_or_with_more_than_the_header_is_no_model() {
    let folder = folder();
    let model = run(&release(&folder, "dp-sgd")).model;
    let bytes = model.to_bytes().unwrap();
    let mut forged = text(model.header());
    forged["privacy"]["epsilon"] = 0.01.into();
    let forged = json!(forged.to_string()).to_string();
    let signer: PublicKey = PublicKey::read(&folder.path().join("key.pub")).unwrap();
    let verified = |bytes: Vec<u8>| statement::verify(&folder.write("model", bytes), Some(&signer));
    assert!(verified(with_text(&bytes, str::to_owned)).unwrap().holds);
    let (metadata, tensor) = ("{\"__metadata__\":{", "\"weights\":{");
    for (place, before, expected) in [
        (metadata, format!("{metadata}\"rounds\":{forged},"), "duplicate field 'rounds'"),
        (metadata, format!("{metadata}\"\\u0072ounds\":{forged},"), "duplicate field 'rounds'"),
        (metadata, format!("{metadata}\"privacy\":\"epsilon = 0.01\","), "its metadata holds more than 'rounds'"),
        (metadata, format!("{{\"__metadata__\":{{\"rounds\":{forged}}},{}", &metadata[1..]), "duplicate field"),
        (
            tensor,
            format!("{tensor}\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}},{tensor}"),
            "duplicate field 'weights'",
        ),
    ] {
        let bytes = with_text(&bytes, |own| own.replacen(place, &before, 1));
        let error = Model::parse(Path::new("model"), &bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{before}: {error}");
        assert!(verified(bytes).is_err(), "{before}");
    }
}

#[test]
fn a_model_holds_the_statement_of_its_document_and_no_changed_one() {
    let folder = folder();
    let path = folder.path().join("model");
    for (name, algorithm) in [("softmax", "dp-sgd"), ("logistic", "dp-mf")] {
        let mut training = release(&folder, algorithm);
        training.sign = None;
        training.optimizer.loss = Some(name.parse().unwrap());
        let header = run(&training).model.header().clone();
        let mut model = run(&training).model;
        assert!(statement::verify(&folder.write("none", header.privacy.epsilon.unwrap().to_string()), None).is_err());
        model.write(&path).unwrap();
        let found = statement::verify(&path, None).unwrap();
        assert!(found.holds && found.weights && found.signer.is_none(), "{found:#?}");
        let bytes = std::fs::read(&path).unwrap();
        let mut document = text(model.header());
        document.as_object_mut().unwrap().remove("build");
        let mut passing = Vec::new();
        for (place, mutated) in mutations(&document) {
            let path = folder.write("changed", with_header(&bytes, &mutated));
            let is_trusted = trusted(&document, &place).is_some() && place != "/model_sha256";
            if !is_trusted && statement::verify(&path, None).is_ok_and(|found| found.holds) {
                passing.push(place);
            }
        }
        assert_eq!(passing, [""; 0]);
        let mut other = bytes.clone();
        *other.last_mut().unwrap() ^= 1;
        let error = statement::verify(&folder.write("other", other), None).unwrap_err().to_string();
        assert!(error.contains("its weights are not those that were written"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// The document of an unsigned release by DP-SGD with a change of its settings.
fn changed(folder: &Folder, change: &dyn Fn(&mut Training)) -> Value {
    let mut training = release(folder, "dp-sgd");
    training.sign = None;
    change(&mut training);
    let mut outcome = run(&training).outcome;
    outcome.model = None;
    text(outcome)
}

#[test]
fn the_arithmetic_and_the_precision_of_integers_say_the_same_or_neither_holds() {
    let folder = folder();
    for [bits, arithmetic, other_bits, other] in
        [["16", "exact, 16-bit", "24", "exact"], ["24", "exact", "16", "exact, 16-bit"]]
    {
        let document =
            changed(&folder, &|training| training.parameters.push(("precision".to_owned(), bits.to_owned())));
        let stated = ["/privacy/arithmetic", "/plan/precision"].map(|place| document.pointer(place).cloned());
        assert_eq!(stated, [Some(json!(arithmetic)), Some(json!(bits))]);
        assert!(verified(folder.path(), &document, None).unwrap().holds);
        for (group, name, forged) in [("privacy", "arithmetic", other), ("plan", "precision", other_bits)] {
            let mut document = document.clone();
            document[group][name] = forged.into();
            let found = verified(folder.path(), &document, None).unwrap();
            let named = found.differences.join("; ");
            assert!(!found.holds && named.contains(&format!("{group}.{name}")), "{bits}, {name}: {named}");
        }
    }
}

#[test]
fn forgeries_are_named_by_their_fields() {
    let folder = folder();
    let with = |change: &dyn Fn(&mut Training)| changed(&folder, change);
    let bounded = with(&|training| training.data.declaration.bounds = Some("private:0.5".into()));
    let diagnosed = with(&|training| training.privacy.diagnostics = true);
    let synthetic = with(&|training| training.data = Training::on("synthetic-logistic").data);
    for document in [&bounded, &diagnosed, &synthetic] {
        let found = verified(folder.path(), document, None).unwrap();
        assert!(found.holds, "{:#?}", found.differences);
    }
    for (place, forged, named) in [
        ("/privacy/bounds_epsilon", Value::Null, "privacy.bounds_epsilon: null is stated, 0.5 follows"),
        ("/privacy/replace_one", json!({"epsilon": 0.0, "delta": 0.0}), "privacy.replace_one.epsilon: 0.0 is stated"),
        (
            "/privacy/mechanisms/0/subsampled-gaussian/steps",
            json!(3),
            "privacy.mechanisms.0.subsampled-gaussian.steps: 3 is stated, 16 follows",
        ),
        (
            "/privacy/mechanisms/0/subsampled-gaussian/sampling/rate",
            json!(0.01),
            "privacy.mechanisms.0.subsampled-gaussian.sampling.rate: 0.01 is stated, 0.125 follows",
        ),
        ("/n", json!(4000), "rounds: 16 is stated, 160 follows"),
        ("/plan/batch-size", json!("5"), "plan.batch-size: \"5\" is stated, \"50\" follows"),
        ("/privacy/delta", json!(0.5), "privacy.delta: 0.5 is stated"),
        (
            "/privacy/noise_source",
            json!("xoshiro"),
            "privacy.noise_source: \"xoshiro\" is stated, \"chacha20\" follows",
        ),
        ("/privacy/arithmetic", json!("idealised"), "privacy.arithmetic: "),
        ("/privacy/adjacency", json!("add-remove"), "privacy.adjacency: "),
        ("/privacy/unit", json!("user"), "privacy.unit: \"user\" is stated, \"example\" follows"),
        ("/privacy/epsilon", json!(0.5), "privacy.epsilon: 0.5 is stated, 1.4"),
        ("/more", json!(0.5), "more: 0.5 is stated, nothing follows"),
    ] {
        let mut document = bounded.clone();
        match document.pointer_mut(place) {
            Some(value) => *value = forged,
            None => drop(document.as_object_mut().unwrap().insert("more".to_owned(), forged)),
        }
        let found = verified(folder.path(), &document, None).unwrap_or_else(|error| panic!("{place}: {error}"));
        let is_named = found.differences.iter().any(|difference| difference.starts_with(named));
        assert!(!found.holds && is_named, "{place}: {:#?}", found.differences);
    }
    // A clip norm is one number in all places, and Laplace noise has its sensitivity.
    let clipped = with(&|training| training.optimizer.clip_norm = Some(0.5));
    let mut pure = release(&folder, "dp-gd");
    (pure.sign, pure.optimizer.clip_norm) = (None, Some(0.5));
    let pure = text(run(&pure).outcome);
    let (at_plan, at_given, at_statement) = ("/plan/clip-norm", "/parameters/clip-norm", "/privacy/clip_norm");
    let step = pure.pointer("/privacy/mechanisms/0/laplace").unwrap();
    let [scale, sensitivity] = ["scale", "l1_sensitivity"].map(|name| json!(2.0 * step[name].as_f64().unwrap()));
    let (at_scale, at_sensitivity) =
        ("/privacy/mechanisms/0/laplace/scale", "/privacy/mechanisms/0/laplace/l1_sensitivity");
    for (document, changes, named) in [
        (
            &clipped,
            vec![(at_plan, json!("1")), (at_given, json!("1"))],
            "privacy.clip_norm: 0.5 is stated, 1.0 follows",
        ),
        (
            &pure,
            vec![(at_plan, json!("1")), (at_given, json!("1")), (at_statement, json!(1.0))],
            "privacy.mechanisms.0.laplace.l1_sensitivity: ",
        ),
        (
            &pure,
            vec![(at_scale, scale), (at_sensitivity, sensitivity)],
            "privacy.mechanisms.0.laplace.l1_sensitivity: ",
        ),
    ] {
        let found = verified(folder.path(), document, None).unwrap();
        assert!(found.holds, "{:#?}", found.differences);
        let mut document = document.clone();
        for (place, forged) in changes {
            *document.pointer_mut(place).unwrap() = forged;
        }
        let found = verified(folder.path(), &document, None).unwrap().differences;
        assert!(found.iter().any(|difference| difference.starts_with(named)), "{named}: {found:#?}");
    }
    let mut document = bounded.clone();
    document["privacy"]["claim"] = "none".into();
    assert!(matches!(verified(folder.path(), &document, None), Err(StatementError::NoClaim { .. })));
    let twice = bounded.to_string().replacen("\"epsilon\":", "\"epsilon\":0.1,\"epsilon\":", 2);
    let error = statement::verify(&folder.write("twice.json", twice), None).unwrap_err().to_string();
    assert!(error.contains("duplicate field"), "{error}");
    // A simulation that is rewritten as a release has a seed, and other arithmetic.
    let mut simulated = with(&|training| training.privacy.secure = false);
    assert!(matches!(verified(folder.path(), &simulated, None), Err(StatementError::NoClaim { .. })));
    simulated["privacy"]["claim"] = "release".into();
    let found = verified(folder.path(), &simulated, None).unwrap().differences.join("; ");
    for named in ["privacy.noise_source", "privacy.arithmetic", "parameters.secure"] {
        assert!(found.contains(named), "{found}");
    }
}

/// The data of a document with rows that a program treated.
fn with_given(document: &Value, given: Value) -> Value {
    let mut data = document["data"].clone();
    data["given"] = given;
    data
}

#[test]
fn settings_that_every_run_refuses_are_refused() {
    let folder = folder();
    let split = changed(&folder, &|training| training.data.test_split = Some(0.2));
    let bounded = changed(&folder, &|training| training.data.declaration.bounds = Some("private:0.5".into()));
    let logistic = changed(&folder, &|training| training.optimizer.loss = Some(Loss::Logistic));
    let schema = |document: &Value, of: &str, by: &str| {
        let text = document.pointer("/data/schema").unwrap().as_str().unwrap();
        assert!(text.contains(of), "{text}");
        ("/data/schema", json!(text.replace(of, by)))
    };
    let fraction = |fraction: f64| {
        vec![("/data/test_split/fraction", json!(fraction)), ("/parameters/test-split", json!(fraction.to_string()))]
    };
    let matrix = "[rows]\nrelation = \"zero-out\"\n[columns]\ncount = 3\nbounds = [0, 10]\n[label]\nclasses = [\"no\", \"yes\"]\n";
    for (document, changes, named) in [
        (
            &split,
            vec![schema(&split, "relation = \"zero-out\"", "relation = \"add-remove\"\npublic-rows = 400")],
            "test-split",
        ),
        (&split, fraction(0.0), "no such split leaves 320 rows"),
        (&split, fraction(1.0), "no such split leaves 320 rows"),
        (&split, fraction(-0.2), "no such split leaves 320 rows"),
        (&split, vec![("/n", json!(0))], "no such split leaves 0 rows"),
        (&logistic, vec![schema(&logistic, "\"yes\"]", "\"yes\", \"perhaps\"]")], "3 classes"),
        (&bounded, vec![("/data/schema", json!(matrix))], "is for tables with a header"),
        (
            &logistic,
            vec![("/data", with_given(&logistic, json!({"unit": 1.0, "byte_scale": null, "bound": null})))],
            "no rows are given as it says",
        ),
        (
            &logistic,
            vec![("/data", with_given(&logistic, json!({"unit": 0.5, "byte_scale": 0.1, "bound": null})))],
            "no rows are given as it says",
        ),
    ] {
        assert!(verified(folder.path(), document, None).unwrap().holds, "{named}");
        let mut document = document.clone();
        for (place, forged) in changes {
            *document.pointer_mut(place).unwrap() = forged;
        }
        let error = verified(folder.path(), &document, None).map(|found| found.differences).unwrap_err();
        assert!(
            matches!(&error, StatementError::Impossible { reason, .. } if reason.contains(named)),
            "{named}: {error}"
        );
    }
    // Test rows of a split are of the private file.
    let mut public = split.clone();
    let (place, forged) = schema(&split, "public = false", "public = true");
    *public.pointer_mut(place).unwrap() = forged;
    let found = verified(folder.path(), &public, None).unwrap().differences;
    assert!(found.iter().any(|difference| difference.starts_with("data.schema: ")), "{found:#?}");
}

#[test]
fn rows_that_a_program_scaled_are_planned_as_it_gave_them() {
    let folder = folder();
    // The default step follows from their bounds.
    let given = changed(&folder, &|training| training.data = Training::on_rows(bytes_in_memory()).data);
    assert!(verified(folder.path(), &given, None).unwrap().holds);
    for (place, forged) in [("/data/given/byte_scale", json!(0.1)), ("/data/given", Value::Null)] {
        let mut document = given.clone();
        *document.pointer_mut(place).unwrap() = forged;
        let found = verified(folder.path(), &document, None).unwrap().differences;
        assert!(found.iter().any(|difference| difference.starts_with("plan.learning-rate: ")), "{place}: {found:#?}");
    }
}

#[test]
fn a_signature_is_of_one_key_and_one_document() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    signature::generate(&at("other")).unwrap();
    let mut training = release(&folder, "dp-sgd");
    let document = text(run(&training).outcome);
    let key = |name: &str| PublicKey::read(&at(name));
    let found = verified(folder.path(), &document, key("key.pub").ok().as_ref()).unwrap();
    assert!(
        found.holds
            && found.signer.is_some_and(|signer| std::fs::read_to_string(at("key.pub")).unwrap().contains(&signer))
    );
    let found = verified(folder.path(), &document, key("other.pub").ok().as_ref()).unwrap();
    assert!(!found.holds && found.differences[0].contains("another signer"), "{:?}", found.differences);
    assert!(found.signer.is_some(), "by whom it is signed is said");
    let mut changed = document.clone();
    changed["data"]["dataset"] = "other".into();
    let found = verified(folder.path(), &changed, None).unwrap();
    assert!(!found.holds && found.differences[0].contains("changed since"), "{:?}", found.differences);
    let mut unsigned = document.clone();
    unsigned.as_object_mut().unwrap().remove("signature");
    let found = verified(folder.path(), &unsigned, key("key.pub").ok().as_ref()).unwrap();
    assert!(!found.holds && found.differences[0].contains("there is none; `rounds train"), "{:?}", found.differences);

    // Keys that are none.
    let secret = std::fs::read_to_string(at("key")).unwrap();
    for (name, text) in
        [("cut", &secret[..40]), ("empty", ""), ("letters", &secret.replace('a', "g")), ("other kind", &secret)]
    {
        folder.write("bad", text);
        let error = key("bad").unwrap_err().to_string();
        assert!(error.contains("it holds no public key of `rounds keygen FILE`"), "{name}: {error}");
        assert!(!error.contains(&secret[20..30]), "{error}");
    }
    assert!(key("missing").unwrap_err().to_string().contains("cannot be read"));
    for name in ["key.pub", "missing"] {
        training.sign = Some(at(name));
        let error = fit(&training, &Execution::default(), &mut ()).err().unwrap();
        assert!(error.is_usage() && error.to_string().contains("`rounds keygen FILE`"), "{error}");
    }
    (training.sign, training.privacy.secure) = (Some(at("key")), false);
    let error = fit(&training, &Execution::default(), &mut ()).err().unwrap().to_string();
    assert!(error.contains("only a release is signed"), "{error}");
    // No key is replaced.
    for taken in ["key", "fresh"] {
        folder.write("fresh.pub", "");
        assert!(signature::generate(&at(taken)).unwrap_err().to_string().contains("a key is never replaced"));
    }
    assert!(!at("fresh").exists() && std::fs::read_to_string(at("key")).unwrap() == secret);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(at("key")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

/// Of a selection: its law, grid, score and the ε of a trial are as firmly bound as the rest.
#[test]
fn no_change_of_a_statement_of_a_selection_is_verified() {
    let folder = folder();
    let mut tuning = Tuning::of(release(&folder, "dp-sgd"));
    tuning.training.sign = None;
    tuning.training.optimizer.regularization = 0.0;
    tuning.training.model = Some(folder.path().join("tuned"));
    tuning.grid = Grid::new([("learning-rate", &["0.5", "1", "2"]), ("clip-norm", &["0.5", "1", "3"])]).unwrap();
    tuning.trials = 3.0;
    let tuned = tune(&tuning, &Execution::default(), &mut ()).unwrap();
    let of_model = VERIFIER.verify(&folder.path().join("tuned")).unwrap();
    assert!(of_model.holds && of_model.weights, "{:#?}", of_model.differences);
    let mut document = text(tuned.outcome.header);
    document.as_object_mut().unwrap().remove("build");
    let found = verified(folder.path(), &document, None).unwrap();
    assert!(found.holds, "{:#?}", found.differences);
    let mut passing = passing(folder.path(), &mutations(&document), None);
    passing.retain(|place| trusted(&document, place).is_none());
    assert_eq!(passing, [""; 0]);
    // The keys of an object have no order.
    let mut sorted = document.clone();
    sorted["parameters"].as_object_mut().unwrap().sort_keys();
    assert!(verified(folder.path(), &sorted, None).unwrap().holds);
    // Without the grid it would be the run of its winner, at the ε of a trial for all.
    let mut alone = document.clone();
    alone["parameters"].as_object_mut().unwrap().retain(|name, _| name != "trials");
    assert!(verified(folder.path(), &alone, None).map_or(true, |found| !found.holds));
    // No winner but one of the grid.
    document["parameters"]["set learning-rate"] = json!("7");
    let refused = verified(folder.path(), &document, None).unwrap_err().to_string();
    assert!(refused.contains("none of the grid"), "{refused}");
}
