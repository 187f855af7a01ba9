//! `--engine mpi`: the bits of one process on any number of ranks and threads, an end within seconds with the rank named when
//! one fails, and checkpoints that any number of ranks resumes from. Run by `make mpi`.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use files::{digits, idx, write_mnist};

#[expect(dead_code, reason = "a part of the builders is for other test binaries")]
#[path = "../../models/tests/all/files.rs"]
mod files;

const ROUNDS: &str = env!("CARGO_BIN_EXE_rounds");

/// Longest time of a launch.
const MOST: Duration = Duration::from_mins(2);

/// MNIST's four files with `rows` training rows of 28 × 28 bytes, class by class distinguishable.
fn write_data(folder: &Path, rows: u32, flipped: bool) {
    let mut state = 1_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 24
    };
    let mut images = |rows: u32| {
        let mut pixel = |place: u32| {
            if place % 784 % 10 == place / 784 % 10 { 200 } else { random() as u8 / 2 }
        };
        let pixels: Vec<u8> = (0..784 * rows).map(&mut pixel).collect();
        idx(8, &[rows, 28, 28], &pixels)
    };
    let (mut train, test) = (images(rows), images(50));
    *train.last_mut().unwrap() ^= u8::from(flipped);
    write_mnist(folder, [train, digits(rows), test, digits(50)]);
}

fn mpirun() -> Command {
    let mut command = Command::new("mpirun");
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .args(["--oversubscribe", "--bind-to", "none"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits, but not forever.
fn wait(mut child: Child, most: Duration) -> Output {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > most {
            child.kill().unwrap();
            panic!("still running after {most:?}: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn finish(command: &mut Command) -> Output {
    wait(command.spawn().unwrap(), MOST)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The words of a line.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Arguments of a training run.
fn training(data: &Path, more: &str) -> Vec<String> {
    let data = data.display();
    words(&format!("train --noise-multiplier 1 --batch-size 700 --json --data {data} {more}"))
}

fn alone(arguments: &[String]) -> serde_json::Value {
    let output = Command::new(ROUNDS).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The program on `ranks` ranks.
fn launched(ranks: usize, arguments: &[String]) -> Command {
    let mut command = mpirun();
    command.args(["-n", &ranks.to_string(), ROUNDS]).args(arguments).args(["--engine", "mpi"]);
    command
}

fn on_ranks(ranks: usize, arguments: &[String]) -> serde_json::Value {
    let output = finish(&mut launched(ranks, arguments));
    assert!(output.status.success(), "{}", text(&output.stderr));
    // One document: rank 0 alone prints.
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

/// Errors that rounds itself printed, or the warnings of a run that succeeded.
fn own_lines(output: &Output) -> Vec<String> {
    let all = text(&output.stderr);
    let kind = if output.status.success() { "warning: " } else { "error: " };
    all.lines().filter(|line| line.starts_with(kind)).map(str::to_owned).collect()
}

/// Checks that rounds ended with this exit code and one line that contains `parts`.
#[track_caller]
fn assert_ended(output: &Output, code: i32, parts: &[&str]) {
    let lines = own_lines(output);
    assert_eq!(output.status.code(), Some(code), "{lines:?}");
    assert!(lines.len() == 1 && parts.iter().all(|part| lines[0].contains(part)), "{lines:?}");
}

#[test]
fn the_model_has_the_same_bits_for_any_number_of_ranks_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), 3_001, false);
    for sampling in ["poisson", "shuffled"] {
        let arguments = |threads| {
            let more = format!("--epochs 4 --sampling {sampling} --threads {threads}");
            training(folder.path(), &more)
        };
        let expected = alone(&arguments(1));
        for (ranks, threads) in (1..=4).flat_map(|ranks| [(ranks, 1), (ranks, 2)]) {
            let found = on_ranks(ranks, &arguments(threads));
            let keys = "model_sha256 rounds gradient_queries n test_accuracy diagnostics privacy";
            for key in keys.split(' ') {
                let place = format!("{key}, {ranks} ranks of {threads} threads, {sampling}");
                assert_eq!(found[key], expected[key], "{place}");
            }
            assert_eq!(found["ranks"], ranks);
        }
    }
}

/// 3,000 rows of 100 numbers in eight leaves, in the order `leaves`: by turns huge and small ones, every second huge one the
/// one before with the other sign. How much of the small ones is left depends on what they are added to first.
fn write_data_that_shows_the_order_of_sums(file: &Path, leaves: [u32; 8]) {
    // Without a header: columns of a table with one are scaled.
    let mut text = String::new();
    for leaf in leaves {
        let huge = leaf % 2 == 0;
        let mut state = if huge { leaf / 4 } else { leaf + 100 };
        for _ in 0..375 {
            for _ in 0..100 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(&(i64::from(state >> 24) - 128).to_string());
                text.push_str(if huge { "e15," } else { "e3," });
            }
            text.push_str(if leaf % 4 == 2 { "-1\n" } else { "1\n" });
        }
    }
    std::fs::write(file, text).unwrap();
}

#[test]
fn the_order_of_sums_shows_in_the_model_and_is_the_same_on_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sums.csv");
    // One round over all rows in their order: the gradient is the sum of the rows times their labels.
    let arguments = |threads| {
        let (data, steps) = (file.display(), "--epochs 1 --sampling fixed --learning-rate 1");
        words(&format!(
            "train --algorithm sgd --loss squared --batch-size 3000 {steps} --json --data {data} --threads {threads}"
        ))
    };
    // The same rows in another order: the same sum, but for rounding.
    write_data_that_shows_the_order_of_sums(&file, [0, 2, 1, 3, 4, 6, 5, 7]);
    let other = alone(&arguments(1));
    write_data_that_shows_the_order_of_sums(&file, [0, 1, 2, 3, 4, 5, 6, 7]);
    let expected = alone(&arguments(1));
    assert_eq!(expected["rounds"], 1);
    let hash = |document: &serde_json::Value| document["model_sha256"].clone();
    assert_ne!(hash(&expected), hash(&other), "the order of additions does not show");
    for (ranks, threads) in (1..=4).flat_map(|ranks| [(ranks, 1), (ranks, 2)]) {
        let found = on_ranks(ranks, &arguments(threads));
        assert_eq!(hash(&found), hash(&expected), "{ranks} ranks of {threads} threads");
    }
}

#[test]
fn a_release_has_one_key_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), 1_000, false);
    // Ranks compare their models at the end: with a key each they would differ.
    let folder = folder.path().display();
    let named = format!("--data-dir {folder} --epochs 2 --threads 1 --secure --allow-weak-privacy");
    let found = on_ranks(2, &training(Path::new("mnist"), &named));
    assert_eq!(found["privacy"]["claim"], "release");
}

/// The process of rank `rank` under `launcher`.
fn process_of(launcher: u32, rank: usize) -> Option<u32> {
    let wanted = format!("OMPI_COMM_WORLD_RANK={rank}");
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let parent: u32 = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let mut variables = environment.split(|&byte| byte == 0);
        let is_rank = variables.any(|word| word == wanted.as_bytes());
        (parent == launcher && is_rank).then_some(process)
    })
}

#[test]
fn a_killed_rank_ends_all_and_the_checkpoint_resumes_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), 2_000, false);
    let long = "--epochs 2000 --threads 1";
    let checkpoint = folder.path().join("run.checkpoint");
    let saving = format!("{long} --checkpoint {} --checkpoint-every 50", checkpoint.display());
    let running = launched(3, &training(folder.path(), &saving)).spawn().unwrap();
    let started = Instant::now();
    while !checkpoint.exists() {
        assert!(started.elapsed() < MOST, "no checkpoint was written");
        std::thread::sleep(Duration::from_millis(5));
    }
    let victim = process_of(running.id(), 1).expect("rank 1 is running");
    let kill = Command::new("kill").args(["-9", &victim.to_string()]).status();
    assert!(kill.unwrap().success());
    let killed = Instant::now();
    let output = wait(running, Duration::from_secs(20));
    assert!(killed.elapsed() < Duration::from_secs(20) && !output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("rank 1 "), "{said}");
    assert!(output.stdout.is_empty());

    let undisturbed = alone(&training(folder.path(), long));
    let kept = std::fs::read(&checkpoint).unwrap();
    for ranks in [0, 2, 4] {
        std::fs::write(&checkpoint, &kept).unwrap();
        let resuming = format!("{long} --resume {}", checkpoint.display());
        let arguments = training(folder.path(), &resuming);
        let resumed = if ranks == 0 { alone(&arguments) } else { on_ranks(ranks, &arguments) };
        for key in ["model_sha256", "rounds", "gradient_queries"] {
            assert_eq!(resumed[key], undisturbed[key], "{key} on {ranks} ranks");
        }
        assert!(!checkpoint.exists(), "a finished run removes its checkpoint");
    }
}

/// Two ranks with commands of their own.
fn two_ranks(first: (&str, Vec<String>), second: (&str, Vec<String>)) -> Output {
    finish(
        mpirun()
            .args(["-n", "1", first.0])
            .args(first.1)
            .args(["--engine", "mpi", ":", "-n", "1", second.0])
            .args(second.1)
            .args(["--engine", "mpi"]),
    )
}

/// Arguments of a training run on data in `folder`. Ranks compare the name of the data, not its folder.
fn arguments_in(folder: &Path) -> Vec<String> {
    training(Path::new("mnist"), &format!("--threads 1 --data-dir {}", folder.display()))
}

#[test]
fn a_file_that_one_rank_cannot_read_ends_all_with_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    write_data(&there, 500, false);
    let missing = folder.path().join("missing");
    let output = two_ranks((ROUNDS, arguments_in(&there)), (ROUNDS, arguments_in(&missing)));
    assert_ended(&output, 2, &["error: rank 1 of 2: ", "missing"]);
}

#[test]
fn ranks_that_see_different_data_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folders = ["one", "other"].map(|name| folder.path().join(name));
    for (folder, flipped) in folders.iter().zip([false, true]) {
        write_data(folder, 500, flipped);
    }
    let output = two_ranks((ROUNDS, arguments_in(&folders[0])), (ROUNDS, arguments_in(&folders[1])));
    assert_ended(&output, 2, &["ranks see different data"]);
}

#[test]
fn ranks_of_different_builds_and_command_lines_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), 500, false);
    let other = folder.path().join("other-build");
    let mut executable = std::fs::read(ROUNDS).unwrap();
    executable.push(0);
    std::fs::write(&other, executable).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&other).status().unwrap().success());
    let arguments = || training(folder.path(), "--threads 1");
    let output = two_ranks((ROUNDS, arguments()), (other.to_str().unwrap(), arguments()));
    assert_ended(&output, 2, &["rank 1", "build"]);

    let seeded = training(folder.path(), "--threads 1 --seed 2");
    let output = two_ranks((ROUNDS, arguments()), (ROUNDS, seeded));
    assert_ended(&output, 2, &["command line"]);

    let cells = |threads| words(&format!("run ranks --algorithms dp-sgd --batch-sizes 500 --threads {threads}"));
    let output = two_ranks((ROUNDS, cells(1)), (ROUNDS, cells(2)));
    assert_ended(&output, 2, &["rank 1", "list of cells"]);
}

#[test]
fn what_every_process_refuses_is_said_once() {
    let arguments = words("train --data synthetic-logistic --epsilon 1 --engine gpu");
    let output = finish(mpirun().args(["-n", "3", ROUNDS]).args(arguments));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");

    let output = finish(mpirun().args(["-n", "3", ROUNDS, "--version"]));
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

#[test]
fn processes_that_were_started_together_and_do_not_share_their_work_say_so() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), 1_000, false);
    let arguments = training(folder.path(), "--threads 1");
    let output = finish(mpirun().args(["-n", "2", ROUNDS]).args(arguments));
    assert_ended(&output, 0, &["--engine mpi"]);
}

#[test]
fn without_a_launcher_the_engine_is_bad_usage() {
    let arguments = training(Path::new("synthetic-logistic"), "--threads 1");
    let output = Command::new(ROUNDS).args(&arguments).args(["--engine", "mpi"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("mpirun -n"), "{}", text(&output.stderr));
}

#[test]
fn a_suite_runs_on_ranks_and_its_models_are_those_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("small.toml");
    let definition = "name = \"small\"\nabout = \"two cells\"\nseed = 1\nrepeats = 2\n\
                      [options.rounds]\nexamples = 5000\nat-least = 4\nat-most = 10\n[[problem]]\ndataset = \"synthetic-logistic\"\n\
                      [[method]]\nalgorithm = \"dp-sgd\"\nparameters = { noise-multiplier = 1.0, batch-size = 500 }\n";
    std::fs::write(&suite, definition).unwrap();
    let cells = |command: &mut Command, out: &str, engine: &str| -> Vec<serde_json::Value> {
        let (suite, out) = (suite.display(), folder.path().join(out));
        let line = format!("run {suite} --threads 1 --json --out {} --engine {engine}", out.display());
        let output = finish(command.args(words(&line)));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut one = Command::new(ROUNDS);
    one.stdout(Stdio::piped()).stderr(Stdio::piped());
    let expected = cells(&mut one, "alone", "threads");
    let found = cells(mpirun().args(["-n", "2", ROUNDS]), "ranks", "mpi");
    assert_eq!((found.len(), expected.len()), (2, 2));
    for cell in &found {
        assert_eq!(cell["model_sha256"], expected[0]["model_sha256"]);
        assert!(cell["ranks"] == 2 && cell["communication_ns"].as_u64().unwrap() > 0);
        let rounds = cell["round_ns"]["samples"].as_array().unwrap();
        let slowest = rounds.iter().map(|round| round.as_u64().unwrap()).max().unwrap();
        assert!((1..=slowest).contains(&cell["computing_ns"].as_u64().unwrap()));
    }
}
