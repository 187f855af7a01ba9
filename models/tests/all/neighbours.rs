//! Neighbouring files: on a declared domain everything public about a run is the same whatever a row holds: shape, format, plan,
//! statement, messages, and whether rounds succeed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rounds_algorithms::catalog;
use rounds_algorithms::executor::Executor;
use rounds_algorithms::optimizers::{Algorithm, Budget, NoiseKind, SamplingKind, Settings};
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::{Accountant, Adjacency};
use rounds_algorithms::problem::{Dataset, Features, Problem, PublicProblem};
use rounds_kernels::loss::Loss;
use rounds_kernels::random::StreamKey;
use rounds_models::choices::Choices;
use rounds_models::data::{self, Declaration};
use zip::CompressionMethod;

use crate::files::{Folder, MNIST, gzip, idx, npy, npz, xz};

const ROWS: usize = 64;
const COLUMNS: usize = 5;
/// Pairs of neighbours; the variable ROUNDS_PAIRS sets another number.
const PAIRS: u64 = 2_000;

/// One of `options`.
fn of<T: Copy>(choices: &mut Choices, options: &[T]) -> T {
    options[choices.below(options.len())]
}

/// Fields as people and programs write them, in and out of range.
const FIELDS: [&str; 12] =
    ["0.5", "-3", "1e30", "-1e30", "1e-30", "1e300", "-1e300", "NaN", "inf", "-inf", "0", "7.25"];
const ODD_FIELDS: [&str; 4] = ["", "word", "1e-300", "0x10"];

/// The form of a data set.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Csv,
    Libsvm {
        sparse: bool,
    },
    Npy,
    Npz,
    /// A folder of four files.
    Idx,
    /// CIFAR-10's.
    Records,
}

const FORMS: [Form; 7] = [
    Form::Csv,
    Form::Libsvm { sparse: false },
    Form::Libsvm { sparse: true },
    Form::Npy,
    Form::Npz,
    Form::Idx,
    Form::Records,
];

/// The first bytes of other formats, which a row may have.
const MAGICS: [&[u8]; 6] = [&[0, 0, 8, 3], &[0x1f, 0x8b, 8], b"\xfd7zXZ\0", b"PK\x03\x04", b"PAR1", b"\x93NUMPY\x01\0"];

impl Form {
    /// A row whose fields are drawn from `choices`, or a null row.
    fn row(self, choices: &mut Choices, null: bool) -> Vec<u8> {
        let number = |choices: &mut Choices| of(choices, &FIELDS).parse::<f64>().unwrap().to_le_bytes();
        match self {
            Self::Csv => {
                let label = if null { "" } else { of(choices, &["no", "yes", "perhaps", ""]) };
                let mut text = String::new();
                for _ in 0..COLUMNS {
                    let fields = if choices.below(8) == 0 { &ODD_FIELDS[..] } else { &FIELDS };
                    write!(text, "{},", of(choices, fields)).unwrap();
                }
                (text + of(choices, &["red", "blue", "grey", ""]) + "," + label + "\n").into_bytes()
            }
            Self::Libsvm { .. } => {
                // A label that is no class makes the null row.
                let mut text = String::from(if null { "9" } else { of(choices, &["-1", "1", "1", "3"]) });
                for index in 1..=COLUMNS + 2 {
                    if choices.below(2) == 0 {
                        write!(text, " {index}:{}", of(choices, &FIELDS)).unwrap();
                    }
                }
                (text + "\n").into_bytes()
            }
            Self::Npy | Self::Npz => {
                let label: f64 = if null { 9.0 } else { of(choices, &[-1.0, 1.0, 3.0, f64::NAN]) };
                let mut row: Vec<u8> = (0..COLUMNS).flat_map(|_| number(choices)).collect();
                row.extend(label.to_le_bytes());
                row
            }
            // The label comes last, so that the first row of images is the first of its file.
            Self::Idx => {
                let mut row: Vec<u8> = (0..COLUMNS).map(|_| choices.below(256) as u8).collect();
                row.push(if null { 200 } else { of(choices, &[0, 1, 7]) });
                row
            }
            Self::Records => {
                let mut row = vec![choices.below(256) as u8; 3073];
                let magic = of(choices, &MAGICS);
                row[..magic.len()].copy_from_slice(magic);
                if null {
                    row[0] = 200;
                } else if choices.below(3) > 0 {
                    row[0] = of(choices, &[0, 1]);
                }
                row
            }
        }
    }

    fn schema(self, relation: Adjacency, choices: &mut Choices) -> String {
        let public = if relation == Adjacency::AddRemove { "public-rows = 60\n" } else { "" };
        let format = match self {
            Self::Csv => "csv",
            Self::Libsvm { .. } => "libsvm",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Idx => "idx",
            Self::Records => "cifar-records",
        };
        let format = if choices.below(2) == 0 { format!("format = \"{format}\"\n") } else { String::new() };
        let rows = format!("[rows]\nrelation = \"{relation}\"\n{public}{format}");
        let (storage, columns, bounds, classes) = match self {
            Self::Csv => {
                let mut text = rows;
                for column in 0..COLUMNS {
                    write!(text, "[columns.x{column}]\nkind = \"number\"\nbounds = [-4, 8]\n").unwrap();
                    if column % 2 == 0 {
                        text.push_str("missing = 1\n");
                    }
                }
                return text
                    + "[columns.colour]\nkind = \"category\"\nvalues = [\"red\", \"blue\"]\nother = \"blue\"\n\
                       [label]\ncolumn = \"kind\"\nclasses = [\"no\", \"yes\"]\n";
            }
            Self::Libsvm { sparse: true } => ("sparse", COLUMNS, "-4, 8", "-1, 1"),
            Self::Libsvm { sparse: false } | Self::Npy | Self::Npz => ("dense", COLUMNS, "-4, 8", "-1, 1"),
            Self::Idx => ("bytes", COLUMNS, "0, 255", "0, 1"),
            Self::Records => ("bytes", 3072, "0, 255", "0, 1"),
        };
        format!(
            "{rows}storage = \"{storage}\"\n[columns]\ncount = {columns}\nbounds = [{bounds}]\n[label]\nclasses = [{classes}]\n"
        )
    }

    /// Writes the rows, packed in this way, into an empty folder; the place of the data set.
    fn write(self, folder: &Folder, rows: &[Vec<u8>], packing: Packing) -> PathBuf {
        let count = rows.len();
        let parts = |at: usize| -> [Vec<u8>; 2] {
            [
                rows.iter().flat_map(|row| &row[..at]).copied().collect(),
                rows.iter().flat_map(|row| &row[at..]).copied().collect(),
            ]
        };
        let file = |name: &str, bytes: Vec<u8>| match packing {
            Packing::Plain => folder.write(name, bytes),
            Packing::Gzip => folder.write(&format!("{name}.gz"), gzip(bytes)),
            Packing::Xz => folder.write(&format!("{name}.xz"), xz(bytes)),
        };
        match self {
            Self::Csv => {
                let header = (0..COLUMNS).map(|column| format!("x{column},")).collect::<String>() + "colour,kind\n";
                file("table.csv", [header.into_bytes(), rows.concat()].concat())
            }
            Self::Libsvm { .. } => file("table.svm", rows.concat()),
            Self::Npy => file("table.npy", npy("<f8", false, &format!("{count}, {}", COLUMNS + 1), &rows.concat())),
            Self::Npz => {
                let [x, y] = parts(8 * COLUMNS);
                let arrays = [
                    ("x", npy("<f8", false, &format!("{count}, {COLUMNS}"), &x)),
                    ("y", npy("<f8", false, &format!("{count},"), &y)),
                ];
                let stored = packing == Packing::Plain;
                let method = if stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
                folder.write("table.npz", npz(&arrays, method))
            }
            Self::Idx => {
                let [images, labels] = parts(COLUMNS);
                let (rows, columns) = (count as u32, COLUMNS as u32);
                let test = [idx(8, &[1, 1, columns], &[7; COLUMNS]), idx(8, &[1], &[1])];
                let [test_images, test_labels] = test;
                let files = [idx(8, &[rows, 1, columns], &images), idx(8, &[rows], &labels), test_images, test_labels];
                for (name, bytes) in MNIST.into_iter().zip(files) {
                    file(name, bytes);
                }
                folder.path().to_owned()
            }
            Self::Records => file("table.bin", rows.concat()),
        }
    }
}

/// The packing of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Packing {
    Plain,
    Gzip,
    Xz,
}

/// Everything public about a run.
#[derive(Debug, PartialEq)]
struct Behaviour {
    problem: PublicProblem,
    format: String,
    prepared: Result<(String, u64), String>,
    rounds: Vec<Result<(), String>>,
    outputs: usize,
}

/// One run on a data set of `rows`, alone in the folder.
fn behaviour(
    folder: &Folder,
    (form, packing): (Form, Packing),
    schema: &str,
    rows: &[Vec<u8>],
    algorithm: &'static Algorithm,
    settings: &Settings,
) -> Behaviour {
    for file in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    folder.write("schema.toml", schema);
    let path = form.write(folder, rows, packing).display().to_string();
    let domain = data::declare(&path, None, &Declaration::default()).expect("a good schema");
    let domain = domain.expect("a schema beside the file");
    let data = data::load_declared(&path, None, Some(&domain)).expect("rows cannot fail");
    let train = data.train;
    let loss = if algorithm.id == "phased-sgd" { Loss::Huber(1.0) } else { Loss::Logistic };
    let format = format!("{}, {} values", train.features().format(), stored(&train));
    let problem = Problem::new(Arc::new(train.into_binary().expect("two classes")), loss, true, 0.1).unwrap();
    // The public part of a loaded problem is that of its domain, which holds no row.
    let declared = PublicProblem::of_domain(problem.name(), &domain, problem.rows(), loss, 0.1).unwrap();
    assert_eq!(&declared, problem.public());
    let mut rounds = Vec::new();
    let prepared = algorithm.prepare(&problem, settings).map_err(|error| error.to_string());
    let prepared = prepared.map(|prepared| {
        let statement = serde_json::to_string(&prepared.privacy).unwrap();
        let mut executor = Executor::new(&problem, Engine::Sequential, prepared);
        for _ in 0..executor.rounds().min(4) {
            rounds.push(executor.advance().map_err(|error| error.to_string()));
        }
        (statement, executor.rounds())
    });
    Behaviour { format, prepared, rounds, outputs: problem.parameters(), problem: problem.public().clone() }
}

/// Values that a dense format holds; those of sparse rows are private.
fn stored(data: &Dataset) -> String {
    match data.features() {
        Features::Sparse(_) => "private".to_owned(),
        dense => (dense.stored() / data.len()).to_string(),
    }
}

/// Settings that every private algorithm accepts on 64 rows, for the relation and choices at hand.
fn settings(algorithm: &Algorithm, relation: Adjacency, choices: &mut Choices) -> Settings {
    let budget = Budget::NoiseMultiplier { noise_multiplier: 1.5, delta: 1e-4 };
    let key = match choices.below(2) {
        0 => StreamKey::Simulation(choices.below(1_000_000) as u64),
        _ => StreamKey::Release([choices.below(256) as u8; 32]),
    };
    let mut settings = Settings::new(budget, key);
    settings.set("adjacency", relation);
    settings.set("batch-size", 8);
    settings.set("clip-norm", 1.0);
    match algorithm.id {
        "dp-sgd" => {
            settings.set("accountant", Accountant::Rdp);
            let samplings: &[SamplingKind] = match relation {
                Adjacency::ReplaceOne => &[SamplingKind::Fixed, SamplingKind::WithoutReplacement],
                Adjacency::AddRemove => &[SamplingKind::Poisson],
                Adjacency::ZeroOut => {
                    &[SamplingKind::Poisson, SamplingKind::Shuffled, SamplingKind::WithoutReplacement]
                }
            };
            settings.set("sampling", of(choices, samplings));
        }
        id if id.starts_with("resque") => settings.set("accountant", Accountant::Rdp),
        id if ["dp-gd", "dp-hb", "dp-nag", "dp-nag-opt", "dp-masg", "dp-masg-opt"].contains(&id) => {
            settings.set("noise", NoiseKind::Independent);
            settings = settings.without("batch-size");
            settings.set("rounds", 4);
        }
        _ => {}
    }
    if !algorithm.reads("batch-size") {
        settings = settings.without("batch-size");
    }
    settings
}

#[test]
fn neighbours_have_the_same_shape_plan_statement_and_messages() {
    let pairs = std::env::var("ROUNDS_PAIRS").ok();
    let pairs = pairs.and_then(|text| text.parse().ok()).unwrap_or(PAIRS);
    let private = catalog::ALGORITHMS.iter().copied().filter(|algorithm| algorithm.private);
    let private: Vec<_> = private.collect();
    let (folder, mut ran) = (Folder::new(), BTreeSet::new());
    for pair in 0..pairs {
        let mut choices = Choices::new(pair);
        let algorithm = of(&mut choices, &private);
        let relations = [Adjacency::ZeroOut, Adjacency::ReplaceOne, Adjacency::AddRemove];
        let relation = of(&mut choices, &relations);
        let form = of(&mut choices, &FORMS);
        let packing = of(&mut choices, &[Packing::Plain, Packing::Plain, Packing::Gzip, Packing::Xz]);
        let schema = form.schema(relation, &mut choices);
        let settings = settings(algorithm, relation, &mut choices);
        let rows: Vec<Vec<u8>> = (0..ROWS).map(|_| form.row(&mut choices, false)).collect();
        let changed = choices.below(ROWS);
        let mut other = rows.clone();
        match relation {
            Adjacency::ZeroOut => other[changed] = form.row(&mut choices, true),
            Adjacency::ReplaceOne => other[changed] = form.row(&mut choices, false),
            Adjacency::AddRemove => drop(other.remove(changed)),
        }
        let [first, second] =
            [&rows, &other].map(|rows| behaviour(&folder, (form, packing), &schema, rows, algorithm, &settings));
        let id = algorithm.id;
        assert_eq!(first, second, "pair {pair}: {id} under {relation}, {form:?} {packing:?}");
        assert!(first.rounds.iter().all(Result::is_ok), "pair {pair}: {first:?}");
        if first.prepared.is_ok() {
            ran.insert((id, relation.name()));
        }
    }
    // Every private algorithm ran under zero-out, and the offered relations beside it.
    if pairs >= 1_000 {
        let zero_out = private.iter().map(|algorithm| (algorithm.id, "zero-out"));
        let others = ["dp-sgd", "dp-gd"].map(|id| [(id, "replace-one"), (id, "add-remove")]);
        for case in zero_out.chain(others.into_iter().flatten()) {
            assert!(ran.contains(&case), "{case:?} never ran: {ran:?}");
        }
    }
}

#[test]
fn a_class_that_is_missing_and_a_column_that_is_constant_change_nothing() {
    let (folder, form) = (Folder::new(), Form::Csv);
    let algorithm = catalog::find("dp-sgd").unwrap_or_else(|_| panic!("dp-sgd"));
    let mut choices = Choices::new(7);
    let schema = form.schema(Adjacency::ZeroOut, &mut choices);
    let settings = settings(algorithm, Adjacency::ZeroOut, &mut choices);
    let rows = |label: &str, field: &str| -> Vec<Vec<u8>> {
        (0..ROWS).map(|_| format!("{}red,{label}\n", format!("{field},").repeat(COLUMNS)).into_bytes()).collect()
    };
    let behaviours = [("no", "1"), ("yes", "1e300"), ("", "word"), ("maybe", "")].map(|(label, field)| {
        behaviour(&folder, (form, Packing::Plain), &schema, &rows(label, field), algorithm, &settings)
    });
    assert!(behaviours.iter().all(|behaviour| *behaviour == behaviours[0]));
}
