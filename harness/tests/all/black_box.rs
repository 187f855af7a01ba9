//! Many releases of the command itself on two neighbouring files. All that a release prints beside its model is the same, byte
//! for byte; the models bound ε from below, by statistics that know nothing of algorithm, plan or noise.

mod released;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use ndarray::Array2;
use ndarray_npy::ReadNpyExt as _;
use rounds_algorithms::audit;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::Adjacency;
use serde_json::Value;

use released::{ReleasedBound, released_bound};

const DELTA: f64 = 1e-5;

/// Two files and the runs on them.
struct Comparison {
    /// Runs on each file.
    runs: usize,
    relation: Adjacency,
    /// Rows of the file with the canary.
    rows: usize,
    features: usize,
}

/// All that a run prints, and the size of its model.
#[derive(Clone, Debug)]
struct Shown {
    exit_code: Option<i32>,
    stderr: String,
    /// The JSON document without the hash of the model.
    document: Value,
    model_bytes: u64,
    model_shape: [usize; 2],
}

impl Comparison {
    /// The files without and with the canary: the last row, which holds the first 100 columns. Every other row holds one
    /// column of its own.
    fn file(&self, present: bool) -> String {
        let mut text = String::new();
        for row in 0..self.rows - 1 {
            let label = if row % 2 == 0 { "1" } else { "-1" };
            writeln!(text, "{label} {}:1", self.features - row % self.features).expect("a string takes any text");
        }
        let label = match (present, self.relation) {
            (true, _) => "1",
            (false, Adjacency::ReplaceOne) => "-1",
            // No class: the null row.
            (false, Adjacency::ZeroOut) => "9",
            (false, Adjacency::AddRemove) => return text,
        };
        text.push_str(label);
        for column in 1..=self.features.min(100) {
            write!(text, " {column}:1").expect("a string takes any text");
        }
        text + "\n"
    }

    fn schema(&self) -> String {
        let public_rows = match self.relation {
            Adjacency::AddRemove => format!("public-rows = {}\n", self.rows),
            Adjacency::ZeroOut | Adjacency::ReplaceOne => String::new(),
        };
        format!(
            "[rows]\nrelation = \"{}\"\nstorage = \"sparse\"\n{public_rows}[columns]\ncount = {}\nbounds = [-1, 1]\n\
             [label]\nclasses = [\"-1\", \"1\"]\n",
            self.relation, self.features
        )
    }
}

/// One run of `program` on the file in `folder`.
fn train(program: &Path, folder: &Path, number: usize) -> anyhow::Result<(Shown, Vec<f32>)> {
    let model = folder.join(format!("model-{number}.npy"));
    let output = Command::new(program)
        .args(["train", "--secure", "--json", "--threads", "1", "--loss", "logistic"])
        .args(["--clip-norm", "1", "--epsilon", "0.1", "--delta", &DELTA.to_string()])
        .arg("--data")
        .arg(folder.join("rows.svm"))
        .arg("--model")
        .arg(&model)
        .output()
        .with_context(|| format!("{} could not be run", program.display()))?;
    // The path of the data is the caller's choice.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*folder.to_string_lossy(), "");
    let stderr = text(&output.stderr);
    let mut document = serde_json::from_str(&text(&output.stdout)).unwrap_or(Value::Null);
    if let Some(document) = document.as_object_mut() {
        document.remove("model_sha256");
    }
    let (model_bytes, values) = match fs::File::open(&model) {
        Ok(file) => (file.metadata()?.len(), Array2::<f32>::read_npy(file)?),
        Err(_) => (0, Array2::default((0, 0))),
    };
    // The models of all runs would fill a small temporary file system.
    let _ = fs::remove_file(&model);
    let shown = Shown {
        exit_code: output.status.code(),
        stderr,
        document,
        model_bytes,
        model_shape: [values.nrows(), values.ncols()],
    };
    Ok((shown, values.into_raw_vec_and_offset().0))
}

/// Runs `program` on both files: the ε that it claims and the bound from its models, or what it shows besides.
fn compared(comparison: &Comparison, program: &Path, engine: &Engine) -> anyhow::Result<(f64, ReleasedBound)> {
    let folder = tempfile::tempdir()?;
    // Names of equal length, in case that one is printed.
    let folders = [false, true].map(|present| folder.path().join(if present { "1" } else { "0" }));
    for (present, folder) in [false, true].into_iter().zip(&folders) {
        fs::create_dir(folder)?;
        fs::write(folder.join("schema.toml"), comparison.schema())?;
        fs::write(folder.join("rows.svm"), comparison.file(present))?;
    }
    let mut runs: Vec<_> = (0..2 * comparison.runs).map(|number| (number, None)).collect();
    engine.install(|| {
        engine.for_each(&mut runs, &|(number, outcome), _| {
            *outcome = Some(train(program, &folders[*number % 2], *number));
        });
    });
    let mut models = [Vec::new(), Vec::new()];
    let mut first: Option<Shown> = None;
    for (number, outcome) in runs {
        let (shown, model) = outcome.context("not run")??;
        match &first {
            None => first = Some(shown),
            Some(first) => same(first, &shown)?,
        }
        models[number % 2].push(model);
    }
    let shown = first.context("no run")?;
    anyhow::ensure!(shown.exit_code == Some(0), "{}", shown.stderr.trim());
    let claim = &shown.document["privacy"];
    anyhow::ensure!(claim["claim"] == "release", "nothing is claimed: {}", claim["reason"]);
    let claimed_epsilon = claim["epsilon"].as_f64().context("a release without an ε")?;
    Ok((claimed_epsilon, released_bound([&models[0], &models[1]], DELTA, audit::ERROR)))
}

/// Fails where two runs show different things, and says which.
fn same(left: &Shown, right: &Shown) -> anyhow::Result<()> {
    let parts = |shown: &Shown| {
        [
            format!("exit code {:?}", shown.exit_code),
            format!("stderr {:?}", shown.stderr),
            format!("a model of {} bytes, shape {:?}", shown.model_bytes, shown.model_shape),
            format!("the document {}", shown.document),
        ]
    };
    match parts(left).iter().zip(parts(right)).find(|(left, right)| *left != right) {
        Some((left, right)) => anyhow::bail!(
            "runs on neighbouring files differ in more than their models: {left} on one, {right} on the other"
        ),
        None => Ok(()),
    }
}

/// Runs of the command on neighbouring files of 30 rows, with a claim of ε = 0.1.
fn comparison(runs: usize, relation: Adjacency, features: usize) -> Comparison {
    Comparison { runs, relation, rows: 30, features }
}

/// `runs` releases on each of two files under both relations tell them apart by no more than they claim.
fn assert_covered(runs: usize) {
    let engine = Engine::with_threads(2).unwrap();
    for relation in [Adjacency::ZeroOut, Adjacency::AddRemove] {
        let comparison = comparison(runs, relation, 39_999);
        let (claimed, bound) = compared(&comparison, Path::new(env!("CARGO_BIN_EXE_rounds")), &engine).unwrap();
        println!("{relation}: ε claimed {claimed:.3}, at least {:.3} ({})", bound.epsilon, bound.statistic.name());
        assert!(claimed <= 0.1 && bound.epsilon <= claimed, "{relation}: {claimed} {bound:?}");
    }
}

#[test]
fn a_few_releases_on_neighbouring_files_differ_in_their_models_alone() {
    assert_covered(4);
}

#[test]
#[ignore = "minutes: 600 releases"]
fn released_models_tell_neighbours_apart_by_no_more_than_is_claimed() {
    assert_covered(150);
}

/// The verdict on a program: the shell's `script`, which finds the data in `$data`.
fn verdict(script: &str, relation: Adjacency) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let data = "while [ $# -gt 1 ]; do [ \"$1\" = --data ] && data=$2; shift; done";
    fs::write(&program, format!("#!/bin/sh\n{data}\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    compared(&comparison(2, relation, 10), &program, &Engine::Sequential).unwrap_err().to_string()
}

#[test]
fn programs_that_show_more_than_a_model_are_found_out() {
    let rows = r#"echo "{\"n\": $(wc -l < $data)}""#;
    assert!(verdict(rows, Adjacency::AddRemove).contains("\"n\":29"));
    // Under zero-out the number of rows is public: what is missing is the claim.
    assert!(verdict(rows, Adjacency::ZeroOut).contains("nothing is claimed"));
    let named = r#"echo "{}"; grep -n '^9' $data >&2; true"#;
    assert!(verdict(named, Adjacency::ZeroOut).contains("stderr \"30:9"));
    let fails = r"! grep -q '^9' $data";
    assert!(verdict(fails, Adjacency::ZeroOut).contains("exit code"));
    assert!(verdict(rows, Adjacency::ReplaceOne).contains("nothing is claimed"));
}
