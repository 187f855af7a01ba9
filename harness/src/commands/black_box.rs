//! `rounds audit --black-box`: many releases of the command itself on two neighbouring files. All that a release prints
//! beside its model must be the same, byte for byte; the models bound ε from below ([`audit::released_bound`]).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use ndarray::Array2;
use ndarray_npy::ReadNpyExt as _;
use rounds_algorithms::audit;
use rounds_algorithms::parallel::Engine;
use rounds_algorithms::privacy::Adjacency;
use serde_json::{Value, json};

use super::{Output, UsageError};

/// Two files, the runs on them, and the claim.
pub(super) struct Comparison {
    pub(super) algorithm: String,
    /// Runs on each file.
    pub(super) runs: usize,
    pub(super) relation: Adjacency,
    pub(super) epsilon: f64,
    pub(super) delta: f64,
    /// Rows of the file with the canary.
    pub(super) rows: usize,
    pub(super) features: usize,
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

    /// One run of `program` on the file in `folder`.
    fn train(&self, program: &Path, folder: &Path, number: usize) -> anyhow::Result<(Shown, Vec<f32>)> {
        let model = folder.join(format!("model-{number}.npy"));
        let output = Command::new(program)
            .args(["train", "--secure", "--json", "--threads", "1", "--loss", "logistic"])
            .args(["--clip-norm", "1", "--algorithm", &self.algorithm])
            .args(["--epsilon", &self.epsilon.to_string(), "--delta", &self.delta.to_string()])
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
}

/// Runs `program` on both files, prints the bound beside the claim, and fails where it exceeds the claim or where anything
/// but the models differs.
///
/// # Errors
/// A program that refuses the run, output that differs, a claim that is disproved.
pub(super) fn run(comparison: &Comparison, program: &Path, engine: &Engine, output: Output) -> anyhow::Result<()> {
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
            *outcome = Some(comparison.train(program, &folders[*number % 2], *number));
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
    if shown.exit_code != Some(0) {
        return Err(UsageError::of(shown.stderr.trim()));
    }
    let claim = &shown.document["privacy"];
    anyhow::ensure!(claim["claim"] == "release", "nothing is claimed: {}", claim["reason"]);
    let claimed_epsilon = claim["epsilon"].as_f64().context("a release without an ε")?;
    let bound = audit::released_bound([&models[0], &models[1]], comparison.delta, audit::ERROR);
    let Comparison { algorithm, runs, relation, delta, rows, features, .. } = comparison;
    let (parameters, confidence) = (features + 1, 1.0 - audit::ERROR);
    let document = json!({
        "algorithm": algorithm,
        "adjacency": relation,
        "rows": rows,
        "parameters": parameters,
        "runs": 2 * runs,
        "claimed_epsilon": claimed_epsilon,
        "delta": delta,
        "lower_bound_epsilon": bound.epsilon,
        "statistic": bound.statistic.name(),
        "trials": bound.trials,
        "false_alarms": bound.false_alarms,
        "misses": bound.misses,
        "confidence": confidence,
    });
    let text = format!(
        "{algorithm}: {runs} + {runs} releases on neighbouring files ({relation}, {rows} rows, {parameters} parameters).\n\
         Exit codes, messages, documents and shapes agree.\n\
         ε claimed {claimed_epsilon:.3}, at least {:.3} at δ = {delta:e} (best statistic: {}; {} false alarms and {} misses of {}); \
         the bound holds with probability {confidence}.",
        bound.epsilon,
        bound.statistic.name(),
        bound.false_alarms,
        bound.misses,
        bound.trials,
    );
    output.print(&document, text)?;
    anyhow::ensure!(
        bound.epsilon <= claimed_epsilon,
        "the bound exceeds the claim: except with probability {:e}, the released models tell neighbours apart",
        audit::ERROR
    );
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The verdict on a program: the shell's `script`, which finds the data in `$data`.
    fn verdict(script: &str, relation: Adjacency) -> String {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let data = "while [ $# -gt 1 ]; do [ \"$1\" = --data ] && data=$2; shift; done";
        fs::write(&program, format!("#!/bin/sh\n{data}\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let comparison = Comparison {
            algorithm: "dp-sgd".to_owned(),
            runs: 2,
            relation,
            epsilon: 0.1,
            delta: 1e-5,
            rows: 30,
            features: 10,
        };
        run(&comparison, &program, &Engine::Sequential, Output::Text).unwrap_err().to_string()
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
}
