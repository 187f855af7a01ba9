//! The model of every algorithm, noise mechanism and row format, bit by bit: a change of the code that is not meant to change
//! arithmetic must not change one of these hashes. They hold for the instruction set they were recorded on; another one skips.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use rayon::prelude::*;
use rounds_algorithms::catalog::ALGORITHMS;
use serde_json::Value;

use crate::support::{command, rounds, stderr};

const RECORDED: &str = include_str!("model_hashes.txt");
/// Levels with the same bits: tiles sum the integers that AVX-512 sums without them.
const RECORDED_ON: [&str; 2] = ["avx512+amx", "avx512"];

/// The high bits of Knuth's linear congruential generator.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A number in [−1, 1] with three decimals.
    fn value(&mut self) -> f64 {
        (self.next() % 2001) as f64 / 1000.0 - 1.0
    }
}

fn push_row(text: &mut String, row: &[f64], target: &str) {
    row.iter().for_each(|value| write!(text, "{value:.3},").expect("a string"));
    writeln!(text, "{target}").expect("a string");
}

/// 240 rows of six numbers in three classes.
fn dense() -> String {
    let mut generator = Generator(1);
    let mut text = String::from("a,b,c,d,e,f,y\n");
    for _ in 0..240 {
        let row: [f64; 6] = std::array::from_fn(|_| generator.value());
        let class = if generator.next().is_multiple_of(5) {
            ["a", "b", "c"][(generator.next() % 3) as usize]
        } else if row[0] + row[1] > 0.5 {
            "a"
        } else if row[2] > 0.0 {
            "b"
        } else {
            "c"
        };
        push_row(&mut text, &row, class);
    }
    text
}

/// 200 sparse rows of 40 columns in two classes.
fn sparse() -> String {
    let mut generator = Generator(2);
    let mut text = String::new();
    for _ in 0..200 {
        let columns: std::collections::BTreeSet<u64> = (0..6).map(|_| generator.next() % 40 + 1).collect();
        let row: Vec<(u64, f64)> = columns.into_iter().map(|column| (column, generator.value())).collect();
        let first = row.iter().filter(|(column, _)| *column < 20);
        let sum: f64 = first.map(|(_, value)| value).sum();
        write!(text, "{}", if sum > 0.0 { 1 } else { -1 }).expect("a string");
        row.iter().for_each(|(column, value)| write!(text, " {column}:{value:.3}").expect("a string"));
        text.push('\n');
    }
    text
}

/// 160 rows of four numbers with a real target.
fn real() -> String {
    let mut generator = Generator(3);
    let mut text = String::from("a,b,c,d,y\n");
    for _ in 0..160 {
        let row: [f64; 4] = std::array::from_fn(|_| generator.value());
        let target = 0.5 * row[0] - 0.25 * row[1] + generator.value() * 0.1;
        push_row(&mut text, &row, &format!("{target:.4}"));
    }
    text
}

fn field(output: &Output, name: &str) -> Option<String> {
    let document: Value = serde_json::from_slice(&output.stdout).ok()?;
    document[name].as_str().map(str::to_owned)
}

/// What `line` got instead of its hash, if anything.
fn difference(line: &str, folder: &Path) -> Option<String> {
    let mut words = line.split(' ');
    let (name, recorded) = (words.next()?, words.next()?);
    let argument = |word: &str| match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        Some(file) => folder.join(file).display().to_string(),
        None => word.to_owned(),
    };
    let arguments: Vec<String> = words.map(argument).collect();
    // Factorisations of this build, not those that lie in the user's cache.
    let output = command(&format!("train --json {}", arguments.join(" ")))
        .env("XDG_CACHE_HOME", folder)
        .output()
        .expect("the program starts");
    match field(&output, "model_sha256") {
        Some(digest) if digest.starts_with(recorded) => None,
        Some(digest) => Some(format!("{name}: {recorded} is now {}", &digest[..16])),
        None => Some(format!("{name}: {}", stderr(&output))),
    }
}

/// The lines of the record.
fn recorded() -> impl Iterator<Item = &'static str> {
    RECORDED.lines().filter(|line| !line.starts_with('#'))
}

#[test]
fn the_model_of_every_algorithm_of_the_catalogue_is_recorded() {
    let of = |id: &str| recorded().any(|line| line.starts_with(&format!("{id}/")));
    let missing: Vec<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.id).filter(|id| !of(id)).collect();
    assert!(missing.is_empty(), "model_hashes.txt has no line of {}", missing.join(", "));
}

#[test]
fn models_are_those_that_were_recorded() {
    let isa = field(&rounds("machine --no-measure --json"), "isa").expect("an instruction set");
    if !RECORDED_ON.contains(&isa.as_str()) {
        eprintln!("skipped: the hashes were recorded on {RECORDED_ON:?}, this is {isa}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("dense.csv", dense()), ("sparse.svm", sparse()), ("real.csv", real())] {
        let name = folder.path().join(name);
        fs::write(name, text).expect("a file");
    }
    let lines: Vec<&str> = recorded().collect();
    let differences = lines.par_iter().filter_map(|line| difference(line, folder.path()));
    let differences: Vec<String> = differences.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
