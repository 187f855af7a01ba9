//! Runs that are killed, out of disk, or resumed: no finished cell is ever lost.
//!
//! The writer is this test program itself, started again with the folder in an environment variable.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rounds::results::{Binding, Cell, Mode, Record, Store, read_run};
use rounds::statistics::Choices;

use crate::support::{assert_ends, assert_refused, assert_succeeds, command, stderr};
use crate::synthetic::{Deviation, cell, environment};

/// A study of two tiny cells with three runs each.
pub(crate) const STUDY: &str = r#"
name = "twice"
study = "runs"
about = "a test"
repeats = 3
show = { title = "small" }
[[problem]]
dataset = "planted-logistic"
parameters = { rows = 500, dimension = 5, norm = 3.0 }
method-parameters = { epsilon = 1.0, epochs = 1, batch-size = [50, 100] }
[[method]]
algorithm = "dp-sgd"
"#;

#[test]
fn a_repeat_is_the_run_of_its_seed_alone() {
    let folder = tempfile::tempdir().unwrap();
    // Excess of the last run; repeats count up the seed.
    let last = |seed: usize, repeats: usize| {
        let text = format!(
            r#"
            name = "repeats"
            study = "curves"
            measure = "private-queries"
            about = "a test"
            seed = {seed}
            repeats = {repeats}
            parameters = {{ delta = 1e-6, adjacency = "zero-out" }}
            options = {{ radius = 2.0, error-constant = 1.0, rounds-per-ball = 15.0 }}
            [[problem]]
            dataset = "planted-flips"
            parameters = {{ loss = "hinge", rows = 1000, dimension = 5 }}
            method-parameters = {{ epsilon = 0.25, epochs = 1 }}
            [[method]]
            algorithm = "resque-private-sco"
            "#
        );
        let (study, out) = (folder.path().join("repeats.toml"), folder.path().join(repeats.to_string()));
        fs::write(&study, text).unwrap();
        assert_succeeds(&format!("run {} --threads 1 --out {}", study.display(), out.display()));
        let lines = fs::read_to_string(out.join("repeats/measurements.jsonl")).unwrap();
        let line: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(line["repeat"], repeats - 1);
        line["excess"].as_f64().unwrap()
    };
    assert_eq!(last(7, 2).to_bits(), last(8, 1).to_bits());
}

#[test]
fn two_processes_on_one_study_pool_no_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (study, out) = (folder.path().join("twice.toml"), folder.path().join("out"));
    fs::write(&study, STUDY).unwrap();
    let line = format!("run {} --threads 1 --out {}", study.display(), out.display());
    let start = || command(&line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let outputs = [start(), start()].map(|child| child.wait_with_output().unwrap());
    let refused = outputs.iter().filter(|output| output.status.code() == Some(1)).map(stderr);
    let refused: Vec<String> = refused.collect();
    // The second found the first at work, or its results.
    let is_named = |message: &String| message.contains("another run") || message.contains("finished runs already");
    assert!(refused.len() == 1 && refused.iter().all(is_named), "{refused:?}");
    let lines = out.join("twice/measurements.jsonl");
    let text = fs::read_to_string(&lines).unwrap();
    assert_eq!(text.lines().count(), 6);
    // Lines of two folders put together hold no more runs than one.
    fs::write(&lines, format!("{text}{text}")).unwrap();
    assert_succeeds(&format!("{line} --resume"));
    let table = fs::read_to_string(out.join("twice/measurements.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 6);
}

const FOLDER: &str = "ROUNDS_TEST_WRITER_FOLDER";
/// How many kills: a few by default.
const KILLS: &str = "ROUNDS_TEST_KILLS";

fn number(repeat: usize) -> Cell {
    let deviation = Deviation { factor: 1.0, noise: 0.02, seed: repeat as u64 };
    cell("dp-sgd", "synthetic-mnist", 64, 1, repeat, deviation)
}

fn open(folder: &Path) -> Store {
    let environment = environment();
    let binding = Binding::new(&environment, []);
    Store::open(folder, environment, binding, Mode::Resume).unwrap()
}

/// Not a test of its own: what the other tests start. Appends the cells that are missing, one by one, and says so.
#[test]
fn writer() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut store = open(Path::new(&folder));
    let start = store.results().samples.len();
    for repeat in start..start + 100_000 {
        if let Err(error) = store.append(Record::Cell(Box::new(number(repeat)))) {
            println!("\nfailed {error}");
            return;
        }
        println!("\nfinished {repeat}");
    }
}

fn start_writer(folder: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["--exact", "results::writer", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_run_killed_at_any_point_loses_no_finished_cell() {
    let kills: usize = std::env::var(KILLS).ok().map_or(8, |kills| kills.parse().unwrap());
    let mut choices = Choices::new(20_260_131);
    let mut finished = 0;
    let mut folder = tempfile::tempdir().unwrap();
    for kill in 0..kills {
        // A long file makes every start slower; a few thousand cells are enough.
        if finished > 2000 {
            (folder, finished) = (tempfile::tempdir().unwrap(), 0);
        }
        let mut writer = start_writer(folder.path());
        let output = BufReader::new(writer.stdout.take().unwrap());
        std::thread::sleep(Duration::from_micros(choices.below(400_000) as u64));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let lines = output.lines().map_while(Result::ok);
        let said = lines.filter_map(|line| Some(line.strip_prefix("finished ")?.parse::<usize>().unwrap() + 1));
        let said = said.last().unwrap_or(finished);

        let cells = open(folder.path()).results().samples.clone();
        let left = cells.len();
        assert!((said..=said + 1).contains(&left), "kill {kill}: {said} were finished, {left} are left");
        for (repeat, cell) in cells.iter().enumerate().skip(finished) {
            assert_eq!(*cell, number(repeat), "kill {kill}");
        }
        finished = cells.len();
    }
}

/// A file-size limit stands in for a full disk: writes beyond it fail the same way, in the middle of a line.
#[cfg(unix)]
#[test]
fn a_full_disk_ends_the_run_with_what_is_finished_intact() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    // In blocks of 512 bytes; the ignored signal is inherited, so that the write itself reports the limit.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact results::writer --nocapture";
    let mut command = Command::new("sh");
    let output = command.args(["-c", script]).arg(program).env(FOLDER, folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let finished = text.lines().filter(|line| line.starts_with("finished ")).count();
    let failed = text.lines().find(|line| line.starts_with("failed "));
    let failed = failed.unwrap_or_else(|| panic!("{text}"));
    assert!(finished > 5);
    for part in [&*format!("the {finished} finished runs are intact"), "--resume"] {
        assert!(failed.contains(part), "{failed}");
    }
    let run = read_run(folder.path()).unwrap();
    assert_eq!(run.messages, [] as [String; 0], "no half line is left");
    assert_eq!(run.results.samples, (0..finished).map(number).collect::<Vec<_>>());
}

#[test]
fn a_study_made_in_pieces_names_what_nobody_made_and_its_files_can_be_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("pieces.toml"), folder.path().join("out"));
    let text = "name = \"pieces\"\nstudy = \"runs\"\nabout = \"a test\"\nrepeats = 2\n[show]\nunfinished = \"It takes a day.\"\n\
                [[problem]]\ndataset = \"planted-logistic\"\naxis = \"epsilon\"\nparameters = { rows = 50, dimension = 3, norm = 3.0 }\n\
                [[method]]\nlabel = \"DP-SGD\"\nalgorithm = \"dp-sgd\"\n\
                parameters = { epsilon = [1, 2], delta = 1e-5, rounds = 2, learning-rate = [0.5, 1] }\n";
    fs::write(&file, text).unwrap();
    let piece = |rest: &str| assert_succeeds(&format!("run {} --out {} {rest}", file.display(), out.display()));
    let table = || fs::read_to_string(out.join("pieces/table.md")).unwrap();
    piece("--where epsilon=1 --where learning-rate=0.5 --repeats 1");
    let missing = "- Not run: DP-SGD: epsilon 1, learning-rate 0.5 (1 of 2 runs made); epsilon 1, learning-rate 1; epsilon 2, \
                   learning-rate 0.5; epsilon 2, learning-rate 1\n- It takes a day.\n";
    assert!(table().contains(missing), "{}", table());
    let before = table();
    fs::remove_file(out.join("pieces/table.md")).unwrap();
    assert_succeeds(&format!("report {} --files", out.join("pieces").display()));
    assert_eq!(table(), before);
    // Without a reason, of cells that can be measured, their number.
    let (short, counted) = (folder.path().join("short.toml"), folder.path().join("counted"));
    let refused = "label = \"Too many\"\nparameters = { rounds = 2, epsilon = 1, delta = 1e-5, batch-size = 51, learning-rate = 1 }\n";
    let text =
        text.replace("unfinished = \"It takes a day.\"\n", "") + "[[method]]\nalgorithm = \"dp-sgd\"\n" + refused;
    fs::write(&short, text).unwrap();
    let piece_of = |rest: &str| assert_succeeds(&format!("run {} --out {} {rest}", short.display(), counted.display()));
    let notes = || fs::read_to_string(counted.join("pieces/table.md")).unwrap();
    piece_of("--where epsilon=1 --where learning-rate=0.5 --repeats 1");
    assert!(notes().contains("\n- 1 of 10 runs were made.\n"), "{}", notes());
    // More of one cell than the definition asks for stand for no others.
    piece_of("--where epsilon=1 --where learning-rate=0.5 --repeats 12 --resume");
    assert!(notes().contains("\n- 2 of 10 runs were made.\n"), "{}", notes());
    piece_of("--resume");
    assert!(notes().contains("- Left out: ") && !notes().contains("runs were made"), "{}", notes());
    piece("--resume");
    assert!(!table().contains("Not run") && !table().contains("It takes a day."), "{}", table());
    assert_refused(
        &format!("run {} --list --where epsilon=3", file.display()),
        "nothing is left to measure with --where epsilon=3",
    );
}

#[test]
fn runs_that_diverge_do_not_end_the_others_and_the_command_says_so_again_when_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("sweep.toml"), folder.path().join("results/day/machine"));
    let text = "name = \"sweep\"\nstudy = \"runs\"\nabout = \"a test\"\nrepeats = 2\n\
                [[problem]]\ndataset = \"planted-logistic\"\nparameters = { rows = 50, dimension = 3, norm = 3.0 }\n\
                [[method]]\nalgorithm = \"dp-sgd\"\n\
                parameters = { epsilon = 1, delta = 1e-5, rounds = 3, learning-rate = [0.1, 1e30, 0.2] }\n";
    fs::write(&file, text).unwrap();
    let run = |rest: &str| format!("run {} --out {} {rest}", file.display(), out.display());
    let said = "warning: 2 not measured: sweep/dp-sgd/|learning-rate=1e+30|diverged; lower the learning rate\nerror: 2 runs failed, as said above; all others";
    assert_ends(&run(""), 1, said);
    let measurements = || fs::read_to_string(out.join("sweep/measurements.jsonl")).unwrap();
    let before = measurements();
    let count = |record: &str| before.matches(&format!("\"record\":\"{record}\"")).count();
    assert_eq!((count("cell"), count("rejected")), (4, 2), "{before}");
    let table = fs::read_to_string(out.join("sweep/table.md")).unwrap();
    assert!(
        table.contains("2 of 2 runs failed: ") && table.contains("runs 2") && !table.contains("runs were made"),
        "{table}"
    );
    assert_ends(&run("--resume"), 1, said);
    assert_eq!(measurements(), before);
    // A claim about them says that there were some.
    let claims = folder.path().join("claims.toml");
    let claim = "[[row]]\npaper = \"p\"\nat = \"f\"\nsays = \"x\"\n\
                 test = { study = \"sweep\", where = { learning-rate = 1e30 }, said = { above = 0.0 } }\n[table]\n[number]\n";
    fs::write(&claims, claim).unwrap();
    let judged =
        format!("verdicts --results {} --declarations {}", folder.path().join("results").display(), claims.display());
    let failed = "sweep has no run with {\"learning-rate\":1e+30}; 2 runs failed, for example sweep/dp-sgd/";
    assert_ends(&judged, 1, failed);
    // Alone they are no result; an error of another kind ends all at once.
    fs::write(&file, text.replace("[0.1, 1e30, 0.2]", "1e30")).unwrap();
    fs::remove_dir_all(&out).unwrap();
    assert_ends(&run(""), 1, "error: no run could be measured: the iterate or a coefficient has diverged");
}

#[test]
fn a_curve_of_times_outlives_a_repeat_that_was_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("curve.toml"), folder.path().join("out"));
    let text = "name = \"curve\"\nstudy = \"timing\"\nmeasure = \"scaling\"\nabout = \"a test\"\nrepeats = 2\n\
                [options.rounds]\nexamples = 10\nat-least = 2\nat-most = 2\n\
                [[show.table]]\nrows = [{ name = \"threads\", of = \"threads\" }]\n\
                columns = [{ name = \"repeats\", of = \"speedup\", statistic = \"count\" }]\n\
                [[problem]]\ndataset = \"planted-logistic\"\nparameters = { rows = 50, dimension = 3, norm = 3.0 }\n\
                [[method]]\nalgorithm = \"dp-sgd\"\nparameters = { epsilon = 1, delta = 1e-5, batch-size = 20 }\n";
    fs::write(&file, text).unwrap();
    assert_succeeds(&format!("run {} --threads 1,2 --pin none --out {}", file.display(), out.display()));
    let (measurements, table) = (out.join("curve/measurements.jsonl"), out.join("curve/table.md"));
    let kept = |counts: &str| {
        fs::remove_file(&table).unwrap();
        assert_succeeds(&format!("report {} --files", out.join("curve").display()));
        let text = fs::read_to_string(&table).unwrap();
        assert!(text.contains(counts), "{text}");
    };
    kept("| 1 | 2 |\n| 2 | 2 |\n");
    // The second repeat on one thread diverges: the other's curve stays.
    let rejected = |line: &str| match line.split_once(",\"repeat\":1,") {
        Some((cell, _)) if cell.contains("\"threads\":1,") => {
            let rejected = cell.replace("\"cell\",", "\"rejected\",\"configuration\":{");
            rejected + "},\"repeat\":1,\"reason\":\"it diverged\"}\n"
        }
        _ => format!("{line}\n"),
    };
    let text = fs::read_to_string(&measurements).unwrap();
    let whole = folder.path().join("whole");
    fs::create_dir(&whole).unwrap();
    fs::write(whole.join("measurements.jsonl"), &text).unwrap();
    fs::copy(out.join("curve/environment.json"), whole.join("environment.json")).unwrap();
    fs::write(&measurements, text.lines().map(rejected).collect::<String>()).unwrap();
    kept("| 1 | 1 |\n| 2 | 1 |\n");
    let compared = format!("compare {} {} --threshold 900%", whole.display(), out.join("curve").display());
    let said = String::from_utf8(command(&compared).output().unwrap().stdout).unwrap();
    assert!(said.contains("1 configuration failed in the second run, in all repeats or some, for example"), "{said}");
}
