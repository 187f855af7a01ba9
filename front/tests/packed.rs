//! A packed release, unpacked in the folder that ROUNDS_DIST names (`make dist` sets it); without it these tests do nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The folder of the unpacked release, or a word on why nothing is tested.
fn release() -> Option<PathBuf> {
    let folder = std::env::var_os("ROUNDS_DIST").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: ROUNDS_DIST is not set (`make dist` sets it)");
    }
    folder
}

/// A folder of this test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("rounds-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("libexec")).unwrap();
        Self(folder)
    }

    fn copy(&self, from: &Path, file: &str) {
        std::fs::copy(from.join(file), self.0.join(file)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const BYTES: [&str; 2] = ["--data", "synthetic-mnist"];

/// The front on a small private model.
fn command(folder: &Path, data: &[&str], isa: Option<&str>) -> Command {
    let mut command = Command::new(folder.join("rounds"));
    command.args(["train", "--json", "--epsilon", "1", "--batch-size", "100"]).args(data);
    command.env_remove("ROUNDS_ISA").env_remove("ROUNDS_DATA");
    command.args(isa.iter().flat_map(|isa| ["--isa", isa]));
    command
}

fn train(folder: &Path, data: &[&str], isa: Option<&str>) -> Output {
    command(folder, data, isa).args(["--set", "rounds=5"]).output().expect("the front starts")
}

/// The SHA-256 of the model that a run printed; `None` where the processor lacks the set.
fn hash(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("lacks") && output.status.code() == Some(2), "{error}");
        return None;
    }
    let (_, rest) = text.split_once("\"model_sha256\":").expect("a model");
    Some(rest.split('"').nth(1).expect("a text").to_owned())
}

#[test]
fn a_model_of_bytes_or_bounded_floats_has_one_hash_on_every_instruction_set_of_both_builds() {
    let Some(folder) = release() else { return };
    let scratch = Scratch::new("front-floats");
    let table = scratch.0.join("table.csv");
    // 70 columns and a label, 500 rows: from 64 columns on rows are summed as integers.
    let rows = (0..500).fold(String::new(), |mut text, row: u32| {
        (0..70).for_each(|column| write!(text, "{:.4},", f64::from(row * 37 + column * 101).sin()).unwrap());
        writeln!(text, "{}", row % 2).unwrap();
        text
    });
    std::fs::write(&table, rows).unwrap();
    let floats = ["--data", table.to_str().unwrap(), "--dimension", "70", "--classes", "0,1", "--bounds=-1,1"];
    for data in [&BYTES[..], &floats] {
        let best = hash(&train(&folder, data, None)).expect("a model");
        for isa in ["scalar", "v3", "v4", "vnni", "amx"] {
            match hash(&train(&folder, data, Some(isa))) {
                Some(found) => assert_eq!(found, best, "{isa} {data:?}"),
                None => eprintln!("skipped: this processor lacks {isa}"),
            }
        }
    }
}

#[test]
fn a_missing_build_and_an_unknown_set_have_one_message_each() {
    let Some(folder) = release() else { return };
    let error = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let unknown = train(&folder, &BYTES, Some("avx9"));
    assert!(unknown.status.code() == Some(2) && error(&unknown).contains("scalar, v3, v4, vnni or amx"));

    let copy = Scratch::new("front-missing");
    copy.copy(&folder, "rounds");
    let empty = train(&copy.0, &BYTES, None);
    assert!(empty.status.code() == Some(1) && error(&empty).contains("is missing beside this program"));
    copy.copy(&folder, "libexec/rounds-v3");
    let other = train(&copy.0, &BYTES, None);
    // Where the processor has AVX-512, the build for AVX2 takes the place of the missing one, with a note.
    let has_v4 = hash(&train(&folder, &BYTES, Some("v4"))).is_some();
    let note = error(&other).contains("note: libexec/rounds-v4 is missing: the build for AVX2 runs in its place");
    assert!(other.status.success() && note == has_v4, "{}", error(&other));
}

#[test]
fn a_checkpoint_of_another_build_is_refused_with_the_way_out() {
    let Some(folder) = release() else { return };
    let copy = Scratch::new("front-checkpoint");
    copy.copy(&folder, "rounds");
    copy.copy(&folder, "libexec/rounds-v3");
    // The other build: that for AVX-512 where it runs, else the same one with a byte more in its file.
    let longer = Scratch::new("front-longer");
    let other = if hash(&train(&folder, &BYTES, Some("v4"))).is_some() {
        &folder
    } else {
        longer.copy(&folder, "rounds");
        longer.copy(&folder, "libexec/rounds-v3");
        let file = longer.0.join("libexec/rounds-v3");
        std::fs::OpenOptions::new().append(true).open(file).and_then(|mut file| file.write_all(&[0])).unwrap();
        &longer.0
    };
    let checkpoint = copy.0.join("run.checkpoint");
    let long = ["--set", "rounds=1000000", "--checkpoint-every", "1"];
    let mut run = command(&copy.0, &BYTES, Some("v3")).args(long).arg("--checkpoint").arg(&checkpoint).spawn().unwrap();
    while !checkpoint.exists() && run.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let resumed = command(other, &BYTES, None).args(long).arg("--resume").arg(&checkpoint).output().unwrap();
    let error = String::from_utf8_lossy(&resumed.stderr);
    let way_out = ["no model is made of two runs", "Resume with the same", "start anew without --resume"];
    assert!(!resumed.status.success() && way_out.iter().all(|part| error.contains(part)), "{error}");
}
