//! Input that cannot be: bad usage ends with exit code 2 and the remedy, damaged results are named, and combinations that
//! cannot be measured are skipped with their reason.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rounds::results::{Binding, Mode as Begin, Store, read_run};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Pid;

use crate::support::{assert_ends, assert_refused, assert_succeeds, command, document, stderr, stdout};
use crate::synthetic::{Deviation, cell, environment, write_run};

/// Thirty rows of two features and a label.
fn table(folder: &Path) -> String {
    let path = folder.join("table.csv");
    let rows = (0..30).map(|row| format!("{},{},{}\n", row % 7, (row * 3) % 5, row % 2));
    fs::write(&path, rows.collect::<String>()).unwrap();
    path.display().to_string()
}

/// Of audits in one run that are judged together, and of arguments that only their own command has.
#[test]
fn audits_in_one_run_share_an_error_and_name_their_flags() {
    let audit = "audit --algorithm dp-sgd --one-run 100 --threads 1";
    let reports = document("audit --algorithm dp-gd --one-run 100 --threads 1");
    let reports = reports.as_array().unwrap();
    assert!(reports.len() > 1);
    for report in reports {
        let error = 1.0 - report["confidence"].as_f64().unwrap();
        assert!((error * reports.len() as f64 - 0.05).abs() < 1e-9, "{error} of {}", reports.len());
    }
    let text = stdout("audit --algorithm dp-mf --one-run 100 --threads 1").replace('\n', " ");
    assert!(text.contains("holds for noise of another kind than is claimed"));
    assert_refused(&format!("{audit} --sabotage report-the-score"), "audit --selection, which takes many runs");
    assert_refused(&format!("{audit} --sabotage two-triangles"), "audit --algorithm moments");
    assert_refused("audit --algorithm moments --one-run 100", "leave out --rows, --units, --selection and --one-run");
    let of_moments = document("audit --algorithm moments --runs 400 --threads 1");
    assert_eq!(of_moments[1]["scene"], "means and squares");
    assert_refused(
        "tune --data synthetic-logistic --grid bands=2,4 --epsilon 1 --law 1e300",
        "--law 1e300: with --trials 10",
    );
    assert!(!stdout("tune --help").contains("--noise-multiplier"));
    assert!(stdout("tune --help").contains("ε of all trials together"));
    assert_refused("account --compose a", "--compose");
    for line in ["account", "account --verify key.pub"] {
        assert_ends(line, 2, "a mechanism (gaussian, |zcdp|--statement FILE|--compose FILE FILE");
    }
}

/// Lines of `rounds train` that are bad usage, each after the arguments of its group, and a part of the message.
const REFUSED: [(&str, &str); 4] = [
    (
        "--data {} --algorithm dp-sgd",
        "\
--epsilon=1 --batch-size=0 | batch-size 0
--epsilon=1 --batch-size=31 | batch-size 31
--epsilon=1 --clip-norm=-1 | clip-norm -1
--epsilon=1 --momentum=1 | momentum 1
--epsilon=1 --learning-rate=0 | learning-rate 0
--epsilon=1 --epochs=-2 | epochs -2
--epsilon=1 --regularization=-1 | --regularization -1
--epsilon=1 --threads=0 | --threads
--epsilon=-1 --batch-size=10 | epsilon
--epsilon=1 --delta=2 --batch-size=10 | delta
--epsilon=1 --set=no-such-key=1 --batch-size=10 | no-such-key
--epsilon=1 --loss=hnge --batch-size=10 | --loss
--epsilon=1 --batch-size=10 --clip-norm=1e-30 | clip-norm 1e-30
--epsilon=1 --batch-size=10 --clip-norm 1e30 | 2^64
--epsilon=1 --set=learning-rate-schedule=quadratic | cooldown
--epsilon=1 --set=learning-rate-schedule=@/no/such/file | /no/such/file cannot be read
--epsilon=1 --epochs=1e9 | epochs 1000000000
--epsilon=1 --set rounds=1000000000000 | rounds 1000000000000
--epsilon=1 --epochs=1e6 --batch-size=1 --set rounds=1e9 | rounds 1e9
--epsilon=1 --threads 100000 | --threads
--epsilon -1 | found -1
--epsilon -1e-3 | found -0.001
--epsilon -inf | found -inf
--epsilon 1 --learning-rate -0.5 | learning-rate -0.5",
    ),
    (
        "--data {} --epsilon 1 --epochs 1 --batch-size 10 --threads 1 --algorithm",
        "\
dp-sgd --noise tree | noise tree
dp-sgd --noise tree | dp-ftrl
sgd --clip-norm 1 | clip-norm: algorithm 'sgd' has no such parameter",
    ),
    // λ_min falls with ε²: an accuracy of 0 would be λ = 0.
    (
        "--data synthetic-logistic --threads 1 --algorithm",
        "\
resque-ac-sa --set smoothing=0 | above 0
resque-ac-sa --set smoothing=-1 | above 0
resque-ac-sa --set smoothing=nan | above 0
resque-ac-sa --set smoothing=1e-40 | offsets are f32
resque-ac-sa --set smoothing=20 | larger than the domain
resque-epoch-sgd --set radius=0 | above 0
resque-ac-sa --set accuracy=0 | above 0
resque-ac-sa --set accuracy=-0.1 | above 0",
    ),
    (
        "--data synthetic-logistic --threads 1 --algorithm resque-private-erm --epsilon 0.9 --delta 1e-6",
        "\
--set mode=scaled | no such parameter
--set radius=-3 | above 0",
    ),
];

#[test]
fn settings_that_cannot_be_are_bad_usage_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = table(folder.path());
    for (common, refused) in REFUSED {
        for line in refused.lines() {
            let (own, reason) = line.split_once(" | ").unwrap();
            assert_refused(&format!("train {} {own}", common.replace("{}", &data)), reason);
        }
    }
    let good = format!("train --data {data} --epsilon 1 --epochs 1 --batch-size 10 --threads 1 --algorithm");
    assert_succeeds(&format!("{good} dp-sgd"));
    assert_succeeds(&format!("{good} dp-sgd --noise independent"));
    // A budget of a run without privacy is a warning.
    let message = assert_succeeds(&format!("{good} sgd"));
    assert!(message.contains("--epsilon") && !message.contains("--noise-multiplier"), "{message}");
}

/// Whole lines with a file in a folder, with their exit code and a part of the message.
const ENDING: &str = "\
train --epsilon 1 --algorithm dpsgd | 2 | did you mean 'dp-sgd'
train --epsilon 1 --algorithm DP-SGD | 2 | did you mean 'dp-sgd'
run --algorithms dpsgd --list | 2 | did you mean 'dp-sgd'
run --threads 4-1 --list | 2 | '4-1'
list suites nosuch | 2 | `rounds list suites` shows all
list datasets minst | 2 | did you mean 'mnist'? `rounds list datasets`
list algorithms nosuch | 2 | `rounds list algorithms` shows all
verdicts --declarations {}/none.toml | 2 | not there|checkout|--declarations FILE
run --threads 1,0 --list | 2 | '0'
machine --threads 1-100000 | 2 | '1-100000'
account gaussian --noise-multiplier -1 --delta 1e-5 | 2 | -1
simulate x.json --workers 2 --latency -1 | 2 | '-1'
simulate {}/run --latency 1 | 2 | without --latency
features wavelets synthetic-mnist --out {}/features | 2 | scattering:shape=3x32x32
features scattering synthetic-logistic --out {}/features | 2 | rows have 20 features; give the shape
features scattering:scales=5 synthetic-mnist --out {}/features | 2 | have no 5 scales
features fourier:count=4,bandwidth=1 {}/dates.csv --out {}/features | 1 | is no feature|--drop
train --data {}/absent.csv --label y --epsilon 1 | 2 | absent.csv: not found
train --data {}/table.csv --test {}/absent.csv --epsilon 1 | 2 | absent.csv: not found
tune --data {}/absent.csv --grid learning-rate=1,2 --epsilon 1 | 2 | absent.csv: not found
schema {}/absent.csv --label y | 2 | absent.csv: not found
schema absent | 2 | no data set or file is called
features fourier {}/absent.csv --out {}/features | 2 | absent.csv: not found
evaluate {}/absent.safetensors {}/table.csv | 2 | absent.safetensors: cannot be read
factorize --rounds 3 --workload lr={}/absent | 2 | cannot be read
report {}/absent | 2 | holds no results
compare {}/run {}/absent | 2 | holds no results
compare --build {}/absent --build {}/absent quick --out {}/pairs | 2 | no program is there
schema {}/packed.csv --label y | 1 | packed.csv: a gzip file whose name does not end in .gz: rename it
train --data {}/packed.csv --label y --epsilon 1 | 1 | packed.csv: a gzip file whose name does not end in .gz: rename it
schema {}/words.csv -o {}/words.csv | 2 | it is there already
train --data synthetic-logistic --epsilon 1 --model {}/absent/model | 2 | its folder
features whiten synthetic-mnist --out {}/features | 2 | `rounds train --features`
train --data synthetic-logistic --features pca --epsilon 1 | 2 | rows have 20 features, and so many components at most
train --data synthetic-logistic --features pca:count=3 --noise-multiplier 1 | 2 | give --epsilon
train --data synthetic-logistic --features scattering --epsilon 1 | 2 | rows have 20 features; give the shape
factorize --rounds 1000000 | 2 | GiB
factorize --rounds 1000000 --method toeplitz --out {}/C.npy | 2 | GiB
factorize --rounds 8 --out {}/missing/C.npy | 2 | missing
train --epsilon 1 --data {}/tested.csv | 1 | tested.csv.t|no rows
train --epsilon 1 --data {}/pipe | 1 | pipe|file
schema {}/pipe | 1 | pipe|file
train --epsilon 1 --data {}/table.csv --model {}/pipe | 1 | pipe|file
train --epsilon 1 --data {}/table.csv --model {} | 1 | folder
report {}/run --out {}/pipe | 1 | pipe|file";

#[test]
fn what_cannot_succeed_ends_with_its_remedy_and_leaves_files_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path());
    let at = |name: &str| folder.path().join(name);
    fs::write(at("tested.csv"), "a,b,y\n1,2,1\n2,1,0\n").unwrap();
    fs::write(at("tested.csv.t"), "a,b,y\n").unwrap();
    fs::write(at("words.csv"), "a,b,y\n1,red,1\n2,blue,0\n").unwrap();
    fs::write(at("packed.csv"), b"\x1f\x8b\x08\0\0\0\0\0\0\x03,\n;").unwrap();
    fs::write(at("dates.csv"), "a,b,y\n1,2020-01-01,1\n2,2021-01-01,0\n").unwrap();
    mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let deviation = Deviation { factor: 1.0, noise: 0.01, seed: 1 };
    drop(write_run(&at("run"), &[cell("sgd", "mnist", 64, 1, 0, deviation)]));
    for line in ENDING.lines() {
        let parts: Vec<&str> = line.splitn(3, " | ").collect();
        let line = parts[0].replace("{}", &folder.path().display().to_string());
        let message = assert_ends(&line, parts[1].parse().unwrap(), parts[2]);
        assert!(message.starts_with("error: ") && !message.contains("panicked"), "{line}: {message}");
        assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo(), "{line}");
    }
}

#[test]
fn pages_replace_pages_and_a_factorisation_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let deviation = Deviation { factor: 1.0, noise: 0.01, seed: 1 };
    drop(write_run(Path::new(&at("run")), &[cell("sgd", "mnist", 64, 1, 0, deviation)]));
    fs::write(at("table.csv"), "a,b\n1,2\n").unwrap();
    for out in [at("page.html"), at("run/report.html")] {
        for _ in 0..2 {
            assert_succeeds(&format!("report {} --out {out}", at("run")));
        }
    }
    assert_succeeds(&format!("report {}", at("run")));
    assert_succeeds(&format!("factorize --rounds 4 --no-cache --out {}", at("C.npy")));
    for (line, out) in [
        (format!("report {}", at("run")), "table.csv"),
        (format!("report {}", at("run")), "run/measurements.jsonl"),
        ("factorize --rounds 4 --no-cache".to_owned(), "table.csv"),
        ("factorize --rounds 5 --no-cache".to_owned(), "C.npy"),
    ] {
        let held = fs::read(at(out)).unwrap();
        assert_refused(&format!("{line} --out {}", at(out)), "holds something else|move this one away");
        assert_eq!(fs::read(at(out)).unwrap(), held, "{out}");
    }
}

#[test]
fn an_epsilon_beyond_any_guarantee_is_told_as_such() {
    let train = "train --data synthetic-logistic --threads 1 --epsilon";
    assert_refused(&format!("{train} 1e9"), "epsilon is too large for the pld accountant");
    let text = stdout(&format!("{train} 12"));
    assert!(text.contains("replacing one") && text.contains("no guarantee") && !text.contains("1e0"), "{text}");
    assert!(stdout(&format!("{train} 3")).contains("ε = 6.0000"));
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = document(&format!("completions {shell}"))["script"].to_string();
        assert!(script.contains("factorize") && script.contains("allow-weak-privacy"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert_succeeds(&format!("manual {}/man1", folder.path().display()));
    let page = |name: &str| fs::read_to_string(folder.path().join("man1").join(name)).unwrap();
    assert!(page("rounds.1").contains("rounds\\-train(1)") && page("rounds-train.1").contains("\\-\\-epsilon"));
    assert!(page("rounds-account-gaussian.1").contains("rounds account gaussian"));
    assert_ends(&format!("manual {}/man1/rounds.1", folder.path().display()), 1, "rounds.1");
}

#[test]
fn names_that_are_no_text_are_refused_in_words() {
    let mut command = command("train --epsilon 1 --data");
    let output = command.arg(OsStr::from_bytes(b"caf\xe9.csv")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("UTF-8: rename"), "{}", stderr(&output));
    // A name to write is bytes.
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join(OsStr::from_bytes(b"k\xff"));
    let mut keygen = crate::support::command("keygen --json");
    let output = keygen.arg(&key).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(key.with_added_extension("pub").is_file());
}

#[test]
fn output_that_cannot_be_printed_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let data = table(folder.path());
    let train = format!("train --data {data} --epsilon 1 --epochs 1 --threads 1");
    for line in ["list algorithms", "train --help", "list datasets --json", &train] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(line).stdout(full).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{line}: {message}");
        assert!(message.contains("error: cannot print"), "{line}: {message}");
        assert!(!message.contains("panicked"), "{line}: {message}");
    }
}

#[test]
fn an_interrupted_run_says_how_to_go_on_and_ends_in_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let data = table(folder.path());
    let checkpoint = folder.path().join("run.checkpoint");
    let line = format!("train --data {data} --epsilon 1 --epochs 20000 --batch-size 30 --threads 1 --seed 7 --json");
    let whole = document(&line.replace(" --json", ""))["model_sha256"].clone();
    let line = format!("{line} --checkpoint {} --checkpoint-every 50", checkpoint.display());
    let child = command(&line).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    while !checkpoint.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let process = Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("stopped after round "), "{message}");
    let again = message.lines().last().unwrap().trim();
    let again = again.strip_prefix("rounds ").unwrap_or_else(|| panic!("{message}"));
    assert_eq!(again, format!("{line} --resume {}", checkpoint.display()));
    assert_eq!(document(&again.replace(" --json", ""))["model_sha256"], whole);
}

#[test]
fn interrupted_features_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (folder.path().join("table.csv"), folder.path().join("out"));
    let rows = (0..20_000).map(|row| format!("{},{},{}\n", row % 7, (row * 3) % 5, row % 2));
    fs::write(&data, rows.collect::<String>()).unwrap();
    let line = format!("features fourier:count=8192 {} --out {}", data.display(), out.display());
    let mut child = command(&line).stderr(Stdio::piped()).spawn().unwrap();
    let files = || fs::read_dir(&out).map_or(0, Iterator::count);
    while files() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "{line}");
        std::thread::sleep(Duration::from_millis(1));
    }
    let process = Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("error: stopped; nothing of it is kept\n"), "{}", stderr(&output));
    assert_eq!(files(), 0, "{line}");
}

/// The options in a text, such as `--data`.
fn options(text: &str) -> BTreeSet<String> {
    let is_option = |word: &&str| word.len() > 2 && word.starts_with(|letter: char| letter.is_ascii_lowercase());
    let parts = text.match_indices("--").map(|(place, _)| &text[place + 2..]);
    let starts_word = |part: &&str| {
        let before = text[..text.len() - part.len() - 2].chars().last();
        before.is_none_or(|letter| " `'\"([".contains(letter) || letter.is_whitespace())
    };
    let parts = parts.filter(starts_word);
    let names = parts.map(|part| {
        let end = part.find(|letter: char| !(letter.is_ascii_lowercase() || letter == '-'));
        &part[..end.unwrap_or(part.len())]
    });
    names.filter(is_option).map(|name| format!("--{name}")).collect()
}

/// Options of other programs that messages name.
const OF_OTHERS: [&str; 6] = ["--bind-to", "--cpu-bind", "--mpi", "--governor", "--release", "--features"];

#[test]
fn messages_help_and_guides_name_no_option_that_does_not_exist() {
    let help = |line: &str| stdout(&format!("{line} --help"));
    let commands = |text: &str| -> Vec<String> {
        let list = text.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next());
        let lines = list.unwrap_or_default().lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        lines.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
    };
    let mut known: BTreeSet<String> = OF_OTHERS.map(str::to_owned).into();
    let mut named = Vec::new();
    for command in commands(&help("")).iter().filter(|command| *command != "help") {
        let own = help(command);
        let below = commands(&own).into_iter().filter(|name| name != "help");
        let texts = below.map(|name| help(&format!("{command} {name}")));
        for text in texts.chain([own.clone()]) {
            let declared = text.lines().filter(|line| line.trim_start().starts_with('-'));
            known.extend(declared.flat_map(options));
            named.push((format!("rounds {command} --help"), text));
        }
    }
    assert!(known.contains("--sampling-rate") && known.contains("--secure"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = ["harness", "models", "algorithms", "kernels"].map(|of| root.join(of).join("src")).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            // Variables of style sheets begin with hyphens, too.
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("drawing/svg.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                named.push((path.display().to_string(), code.to_owned()));
            }
        }
    }
    for (place, text) in named {
        let unknown: Vec<String> = options(&text).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{place} names {unknown:?}");
    }
}

/// The same folder made private serves, and a run that is finished leaves nothing in it.
#[test]
fn a_release_keeps_its_checkpoint_only_where_others_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let set_mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    let path = folder.path().join("run.checkpoint");
    let line = format!(
        "train --data synthetic-logistic --threads 1 --secure --delta 1e-6 --epsilon 1 --epochs 1 --checkpoint-every 2 \
         --checkpoint {}",
        path.display()
    );
    set_mode(0o777);
    assert_refused(&line, "chmod go-w");
    set_mode(0o700);
    assert_succeeds(&line);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

const SUITE: &str = r#"
name = "impossible"
about = "a test"
seed = 1
repeats = 1
threads = [1]
parameters = { batch-size = 64 }
[options.rounds]
examples = 640
at-least = 2
at-most = 3
[[problem]]
dataset = "synthetic-logistic"
[[problem]]
dataset = "mnist"
[[method]]
algorithm = "dp-sgd"
datasets = ["synthetic-logistic"]
parameters = { epsilon = 1.0, batch-size = [64, 100000000] }
[[method]]
algorithm = "dp-sgd"
datasets = ["synthetic-logistic"]
parameters = { epsilon = 1.0, noise = "tree" }
[[method]]
algorithm = "dp-masg"
datasets = ["synthetic-logistic"]
parameters = { epsilon = 1.0 }
[[method]]
algorithm = "sgd"
datasets = ["mnist"]
"#;

/// The line that runs a suite.
fn measuring(suite: &Path, out: &Path) -> String {
    format!("run {} --out {} --threads 1", suite.display(), out.display())
}

#[test]
fn combinations_that_cannot_be_are_skipped_with_their_reason_in_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("impossible.toml");
    fs::write(&suite, SUITE).unwrap();
    let out = folder.path().join("out");
    let line = measuring(&suite, &out);
    let said = assert_succeeds(&line);
    let run = read_run(&out).unwrap();
    assert_eq!(run.results.samples.len(), 1, "{said}");
    let reason = |of: &dyn Fn(&rounds::results::Configuration) -> bool| {
        let found = run.results.skipped.iter().find(|(configuration, _)| of(configuration));
        found.unwrap_or_else(|| panic!("{:?}", run.results.skipped)).1.clone()
    };
    assert!(reason(&|one| one.batch_size == 100_000_000).contains("rows"));
    assert!(reason(&|one| one.parameters.contains_key("noise")).contains("noise tree"));
    assert!(reason(&|one| one.algorithm == "dp-masg").contains("strong convexity"));
    assert!(reason(&|one| one.dataset == "mnist").contains("--data-dir"));
    assert_eq!(run.results.skipped.len(), 4);
    for word in ["strong convexity", "--data-dir", "noise tree"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Resumed, nothing is measured or named twice; the report shows the reasons.
    assert_succeeds(&(line + " --resume"));
    assert_eq!(read_run(&out).unwrap().results.skipped.len(), 4);
    assert_succeeds(&format!("report {}", out.display()));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("id=\"not-measured\"") && page.contains("strong convexity"));
}

#[test]
fn a_suite_without_a_run_ends_with_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("impossible.toml");
    fs::write(&suite, SUITE).unwrap();
    // A folder of data sets that has none, then again with nothing left to try.
    let line = measuring(&suite, &folder.path().join("out"));
    let line = format!("{line} --algorithms sgd --data-dir {}", folder.path().display());
    for more in ["", " --resume"] {
        assert_ends(&(line.clone() + more), 1, "no run could be measured: |mnist");
    }
    let said = assert_ends(
        &measuring(&suite, &folder.path().join("none")).replace("run ", "run --algorithms foo "),
        2,
        "'foo'",
    );
    assert_eq!(said.matches("dp-masg").count(), 1, "{said}");
}

#[test]
fn a_suite_that_cannot_be_is_bad_usage_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("suite.toml");
    let out = folder.path().join("out");
    let parameters = "{ epsilon = 1.0, noise = \"tree\" }";
    for (right, wrong, expected) in [
        ("at-most = 3", "at-mots = 3", "did you mean 'at-most'?"),
        ("\"dp-masg\"", "\"dp-mags\"", "did you mean 'dp-masg'?"),
        (parameters, "{ epsilon = 1.0, noise = \"treee\" }", "noise treee: "),
        (parameters, "{ epsilon = \"one\" }", "epsilon = one"),
    ] {
        assert!(SUITE.contains(right));
        fs::write(&path, SUITE.replace(right, wrong)).unwrap();
        assert_refused(&measuring(&path, &out), expected);
        assert!(!out.exists(), "nothing is begun");
    }
}

#[test]
fn a_folder_that_another_run_writes_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("impossible.toml");
    fs::write(&suite, SUITE).unwrap();
    let out = folder.path().join("out");
    let environment = environment();
    let binding = Binding::new(&environment, []);
    let _held = Store::open(&out, environment, binding, Begin::New).unwrap();
    assert_ends(&measuring(&suite, &out), 1, "is being written by another run|--out");
}

#[test]
fn costs_that_a_study_lacks_are_refused_with_those_that_it_has_once_each() {
    let text = r#"
name = "depths"
study = "depth"
about = "a test"
threads = [1]
repeats = 2
options = { most-queries = 100_000, most-queries-again = 9 }
[[problem]]
dataset = "max-of-linear"
parameters = { dimension = [16, 64], accuracy = 0.2 }
[[method]]
algorithm = "sgd"
[[method]]
algorithm = "randomized-smoothing"
"#;
    let folder = tempfile::tempdir().unwrap();
    let (study, out) = (folder.path().join("depths.toml"), folder.path().join("out"));
    fs::write(&study, text).unwrap();
    assert_succeeds(&measuring(&study, &out));
    let simulate = format!("simulate {}/depths", out.display());
    let said = assert_ends(&simulate, 2, "holds no finished cell|--dimension 64");
    assert_eq!(said.matches("--dimension 16 ").count(), 1, "{said}");
    assert_succeeds(&format!("{simulate} --dimension 16 --accuracy 0.2"));
}

const STUDY: &str = r#"
name = "small-study"
study = "curves"
about = "a test"
options = { eigenvalues = [0.5, 1.0] }
show = { title = "small" }
[[problem]]
dataset = "quadratic-formula"
parameters = { rounds = 10, initial-squared-distance = 1.0, noise-level = 0.01 }
[[problem.method]]
algorithm = "heavy-ball-looseness"
parameters = { step-size = 1.0, momentum = 0.5 }
"#;

#[test]
fn a_folder_that_is_not_that_of_one_run_is_refused_and_nothing_is_written_there() {
    let folder = tempfile::tempdir().unwrap();
    let (study, out) = (folder.path().join("study.toml"), folder.path().join("day/machine"));
    fs::write(&study, STUDY).unwrap();
    assert_succeeds(&measuring(&study, &out));
    assert_succeeds(&format!("report {}", out.display()));
    for above in [folder.path().to_owned(), folder.path().join("day")] {
        assert_ends(&format!("report {}", above.display()), 1, "is not the folder of one run|machine");
        assert!(!above.join("report.html").exists());
    }
}

#[test]
fn a_report_of_damaged_or_older_results_names_the_line_and_one_of_a_cut_line_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let deviation = Deviation { factor: 1.0, noise: 0.01, seed: 1 };
    drop(write_run(folder.path(), &[cell("sgd", "mnist", 64, 1, 0, deviation)]));
    let lines = folder.path().join("measurements.jsonl");
    let good = fs::read_to_string(&lines).unwrap();
    let older = good.replacen("\"schema\":1", "\"schema\":0", 1);
    let cut = format!("{good}{}", &good[..good.len() / 2]);
    let report = format!("report {}", folder.path().display());
    for (text, code, parts) in [
        (older, 1, "measurements.jsonl:1|schema 0"),
        (format!("{good}{{\"schema\":1,,\n"), 1, "measurements.jsonl:2|damaged"),
        (cut, 0, "cut off"),
    ] {
        fs::write(&lines, text).unwrap();
        assert_ends(&report, code, parts);
    }
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("cut off"), "the page says so too");
    // A study beside the cells that cannot be read is named, and the rest is shown.
    let study = folder.path().join("quick-training");
    fs::create_dir(&study).unwrap();
    fs::write(study.join("environment.json"), "{\"name\": \"half").unwrap();
    assert_ends(&report, 0, "quick-training is left out");
}
