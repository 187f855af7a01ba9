//! Comparing runs as they lie on disk.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rounds::builds::{Builds, measure_in_turn};
use rounds::compare::{CompareError, Comparison, Rules, Verdict, compare};
use rounds::results::{Run, Trial, read_run};
use serde_json::{Deserializer, Value};

use crate::files::xz;
use crate::results::STUDY;
use crate::support::{assert_ends, assert_refused, assert_succeeds, command, rounds, stderr, stdout};
use crate::synthetic::{Plan, write_run};

type Alter = fn(&mut Run);

fn plan(seed: u64, repeats: usize, factor: &dyn Fn(&str, usize) -> f64) -> Plan<'_> {
    Plan {
        algorithms: &["sgd", "dp-sgd"],
        datasets: &["synthetic-mnist"],
        batch_sizes: &[64, 500, 8000],
        repeats,
        noise: 0.01,
        factor,
        seed,
    }
}

fn run(seed: u64, repeats: usize, factor: &dyn Fn(&str, usize) -> f64) -> Run {
    let folder = tempfile::tempdir().unwrap();
    drop(write_run(folder.path(), &plan(seed, repeats, factor).cells()));
    read_run(folder.path()).unwrap()
}

/// True if no configuration changed, nor all together.
fn is_quiet(comparison: &Comparison) -> bool {
    let own = comparison.changes.iter().map(|change| change.verdict);
    let mut all = own.chain(comparison.common.map(|common| common.verdict));
    all.all(|verdict| verdict == Verdict::Unchanged)
}

#[test]
fn a_repetition_shows_no_change_and_a_planted_one_is_named() {
    let same = |_: &str, _: usize| 1.0;
    let first = run(1, 5, &same);
    let repetition = compare(&first, &run(2, 5, &same), Rules::default()).unwrap();
    assert_eq!(repetition.changes.len(), 12);
    assert!(is_quiet(&repetition), "{:?}", repetition.changes);
    assert!((repetition.mean_ratio - 1.0).abs() < 0.01);
    assert!(is_quiet(&compare(&first, &first, Rules::default()).unwrap()));

    let is_planted = |algorithm: &str, batch_size: usize| algorithm == "dp-sgd" && batch_size == 500;
    let factor = |algorithm: &str, batch_size: usize| if is_planted(algorithm, batch_size) { 1.1 } else { 1.0 };
    let comparison = compare(&first, &run(3, 5, &factor), Rules::default()).unwrap();
    for change in &comparison.changes {
        let planted = is_planted(&change.configuration.algorithm, change.configuration.batch_size);
        let expected = if planted { Verdict::Slower } else { Verdict::Unchanged };
        assert_eq!(change.verdict, expected, "{change:?}");
    }
}

#[test]
fn what_all_configurations_share_in_a_virtual_machine_may_be_the_machine() {
    let slower_by = |percent: f64| move |_: &str, _: usize| 1.0 + percent / 100.0;
    let in_machine = |mut run: Run, kind: Option<&str>| {
        run.environment.state.virtualisation = kind.map(String::from).into();
        run
    };
    let verdict = |percent: f64, kinds: [Option<&str>; 2]| {
        let before = in_machine(run(1, 5, &|_, _| 1.0), kinds[0]);
        let after = in_machine(run(2, 5, &slower_by(percent)), kinds[1]);
        let rules = Rules::default().with_noise_of([&before, &after]);
        compare(&before, &after, rules).unwrap().common.unwrap().verdict
    };
    let (bare, unknown, virtual_machine) = (Some("none"), None, Some("virtual machine (KVM)"));
    assert_eq!(verdict(5.0, [bare, bare]), Verdict::Slower);
    assert_eq!(verdict(5.0, [unknown, unknown]), Verdict::Slower);
    assert_eq!(verdict(5.0, [bare, virtual_machine]), Verdict::Unchanged);
    assert_eq!(verdict(5.0, [virtual_machine, virtual_machine]), Verdict::Unchanged);
    assert_eq!(verdict(12.0, [virtual_machine, virtual_machine]), Verdict::Slower);
}

#[test]
fn different_machines_instruction_sets_and_data_are_refused_unless_forced() {
    let first = run(1, 2, &|_, _| 1.0);
    let cases: [(&str, Alter); 3] = [
        ("machine", |run| run.binding.machine = "other".into()),
        ("instruction set", |run| run.binding.isa = "another".into()),
        ("data set mnist", |run| {
            run.binding.data.insert("mnist".into(), "other".into());
        }),
    ];
    for (what, alter) in cases {
        let mut first = first.clone();
        first.binding.data.insert("mnist".into(), "digest".into());
        let mut second = first.clone();
        alter(&mut second);
        let error = compare(&first, &second, Rules::default()).unwrap_err();
        assert!(matches!(&error, CompareError::Different(found) if found.what == what), "{error}");
        assert!(error.to_string().contains("--force"));
        let rules = Rules { force: true, ..Rules::default() };
        let forced = compare(&first, &second, rules).unwrap();
        assert!(forced.remarks[0].contains(what), "{:?}", forced.remarks);
    }
}

#[test]
fn a_slowdown_beyond_the_threshold_ends_with_one_and_builds_are_named_by_revision() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let slower = |algorithm: &str, size: usize| if algorithm == "sgd" && size == 64 { 1.1 } else { 1.0 };
    drop(write_run(&at("a"), &plan(1, 5, &|_, _| 1.0).cells()));
    drop(write_run(&at("b"), &plan(2, 5, &slower).cells()));
    let sheet = at("b/environment.json");
    let mut changed: Value = serde_json::from_str(&std::fs::read_to_string(&sheet).unwrap()).unwrap();
    changed["build"]["revision"] = "feedbeefcafe0123".into();
    changed["binding"]["build"] = "other".into();
    std::fs::write(&sheet, changed.to_string()).unwrap();
    let line = |from: &str, to: &str, own: &str| format!("compare {} {} {own}", at(from).display(), at(to).display());
    assert_ends(&line("a", "b", ""), 1, "error: 2 of 12 configurations are slower by more than 1 %");
    for own in ["--threshold 15%", "--threshold 1.15"] {
        assert_succeeds(&line("a", "b", own));
    }
    let unseen = |own: &str| stdout(&line("a", "b", own)).contains("could not have been seen in");
    assert!(unseen("") && !unseen("--threshold 15%"));
    // Faster is no failure.
    assert_succeeds(&line("b", "a", ""));
    assert_refused(&line("a", "b", "--threshold 0.9"), "ratio from 1 up");
    assert_refused(&line("a", "b", "--threshold -5%"), "--threshold");
    let text = stdout(&line("a", "b", "--all"));
    assert!(text.contains("feedbee") && !text.contains("before"), "{text}");
    let rules = text.lines().filter(|line| line.contains("───")).count();
    assert!(rules == 1 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_run_on_one_and_two_threads_is_predicted_for_more() {
    let folder = tempfile::tempdir().unwrap();
    drop(write_run(folder.path(), &plan(1, 2, &|_, _| 1.0).cells()));
    let predicted = stdout(&format!("simulate {} --json", folder.path().display()));
    let rows: Vec<Value> = predicted.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Two algorithms, three batch sizes.
    assert_eq!(rows.len(), 6, "{predicted}");
    for row in &rows {
        let [one, two, four] =
            [&row["one_ns"], &row["two_ns"], &row["predicted_ns"][0]].map(|time| time.as_f64().unwrap());
        assert!(one > two && 1.001 * one > four && row["binds"][2].is_string(), "{row}");
    }
    let text = stdout(&format!("simulate {}", folder.path().display()));
    assert!(text.contains("binds at 64") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn folders_of_studies_are_reported_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("own studies")).unwrap();
    let definition = at("own studies/twice.toml");
    std::fs::write(&definition, STUDY).unwrap();
    for out in ["a", "b"] {
        let line = format!("run --threads 1 --out {}", at(out).display());
        let output = command(&line).arg(&definition).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    for own in ["a", "a/twice"] {
        assert_succeeds(&format!("report {}", at(own).display()));
        let page = std::fs::read_to_string(at(own).join("report.html")).unwrap();
        assert!(page.contains("<table") && page.contains("small"), "{own}");
        // Its times are those of this machine; the values are equal.
        let output = rounds(&format!("compare {} {}", at(own).display(), at("b").display()));
        let (code, said) = (output.status.code(), String::from_utf8_lossy(&output.stdout));
        assert!(code == Some(0) || code == Some(1), "{}", stderr(&output));
        assert!(said.contains("2 configurations: ") && !stderr(&output).contains("another model"), "{said}");
    }
    // Packed and without what was drawn, the study is made anew from its runs.
    let study = |file: &str| at("a/twice").join(file);
    let packed = xz(std::fs::read(study("measurements.jsonl")).unwrap());
    std::fs::write(study("measurements.jsonl.xz"), packed).unwrap();
    for file in ["measurements.jsonl", "study.html"] {
        std::fs::remove_file(study(file)).unwrap();
    }
    for own in ["a", "a/twice"] {
        let report = format!("report {} --out {}", at(own).display(), at("page.html").display());
        assert_succeeds(&report);
        let page = std::fs::read_to_string(at("page.html")).unwrap();
        assert!(page.contains("<title>rounds: small</title>") && !page.contains("0 configurations"));
        assert!(page.contains("own studies/twice.toml"), "the command that was run");
    }
    std::fs::rename(definition, at("gone")).unwrap();
    for own in ["a", "a/twice"] {
        assert_ends(&format!("report {}", at(own).display()), 1, "nothing to show");
    }
    let lines = at("b/twice/measurements.jsonl");
    let text = std::fs::read_to_string(&lines).unwrap();
    std::fs::write(&lines, text.replacen("\"value\":", "\"value\":1", 1)).unwrap();
    let output = rounds(&format!("compare {} {}", at("a").display(), at("b").display()));
    assert!(stderr(&output).contains("1 of 6 runs end in another model or value"), "{}", stderr(&output));
    assert_ends(&format!("compare {} {}", folder.path().display(), at("a").display()), 1, "several studies");
}

#[test]
fn runs_with_nothing_in_common_and_single_repeats_are_said() {
    let first = run(1, 1, &|_, _| 1.0);
    let mut second = first.clone();
    second.results.samples.retain(|cell| cell.configuration.batch_size == 64);
    let comparison = compare(&first, &second, Rules::default()).unwrap();
    let only = [&comparison.only_before, &comparison.only_after].map(Vec::len);
    assert_eq!((comparison.changes.len(), only), (4, [8, 0]));
    assert!(comparison.remarks[0].contains("--repeats"));
    second.results.samples.clear();
    assert_eq!(compare(&first, &second, Rules::default()).unwrap_err(), CompareError::NothingInCommon);
}

#[test]
fn configurations_that_failed_are_named_beside_those_that_are_compared() {
    let first = run(1, 2, &|_, _| 1.0);
    let mut second = first.clone();
    let keys: BTreeSet<String> = first.results.samples.iter().map(|sample| sample.configuration.key()).collect();
    let [partly, wholly] = [0, 1].map(|place| keys.iter().nth(place).unwrap().clone());
    let trial = |repeat| Trial { repeat, draw: 0 };
    second.results.samples.retain(|sample| {
        let key = sample.configuration.key();
        key != wholly && (key != partly || sample.trial.repeat == 0)
    });
    for (key, repeat) in [(&partly, 1), (&wholly, 0), (&wholly, 1)] {
        second.results.rejected.insert((key.clone(), trial(repeat)), "it diverged".into());
    }
    let comparison = compare(&first, &second, Rules::default()).unwrap();
    let failed = [&partly, &wholly].map(|key| format!("{key}: it diverged"));
    assert_eq!((comparison.failed_before, comparison.failed_after), (vec![], failed.to_vec()));
    assert_eq!((comparison.only_before, comparison.only_after), (vec![], vec![]));
    // One that has a time nowhere was lost from no comparison.
    let comparison = compare(&second, &second, Rules::default()).unwrap();
    assert_eq!(comparison.failed_before, [format!("{partly}: it diverged")]);
    second.results.samples.clear();
    // A failure of what the other never tried is no cause.
    let mut other = first.clone();
    other.results.samples.retain(|sample| ![&partly, &wholly].contains(&&sample.configuration.key()));
    assert_eq!(compare(&other, &second, Rules::default()).unwrap_err(), CompareError::NothingInCommon);
    let error = compare(&first, &second, Rules::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("no configuration has times in both runs: some failed in the second run, for example "),
        "{error}"
    );
}

#[test]
fn builds_are_measured_in_turn_and_finished_pairs_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let measured = RefCell::new(String::new());
    let measure = |limit: usize| {
        let one = |side: usize, out: &std::path::Path| {
            let seed = measured.borrow().len() as u64;
            let factor = |algorithm: &str, _: usize| if side == 1 && algorithm == "sgd" { 1.1 } else { 1.0 };
            drop(write_run(out, &plan(seed, 1, &factor).cells()));
            // A run that is stopped leaves some of its cells behind.
            if seed as usize == limit {
                return Ok(false);
            }
            measured.borrow_mut().push_str(["A", "B"][side]);
            Ok(true)
        };
        measure_in_turn(folder.path(), 4, &one)
    };
    let (pairs, [before, after]) = measure(5).unwrap();
    assert_eq!((pairs, &**measured.borrow()), (2, "ABBAA"));
    assert_eq!([before, after].map(|run| run.results.samples.len()), [24, 24]);
    let (pairs, [before, after]) = measure(8).unwrap();
    assert_eq!((pairs, &**measured.borrow()), (4, "ABBAABBA"));
    for change in compare(&before, &after, Rules::default()).unwrap().changes {
        let is_changed = change.configuration.algorithm == "sgd";
        let expected = if is_changed { Verdict::Slower } else { Verdict::Unchanged };
        assert_eq!(change.verdict, expected, "{change:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(measure_in_turn(empty.path(), 4, &|_, _| Ok(false)).is_err());
}

#[test]
fn a_folder_of_pairs_takes_one_pair_of_builds_and_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, "#!/bin/sh\n").unwrap();
    let builds =
        |program: &std::path::Path, suite: &str| Builds::new([own.clone(), program.into()], vec![suite.into()]);
    builds(&own, "quick").bind(folder.path()).unwrap();
    builds(&own, "quick").bind(folder.path()).unwrap();
    for different in [builds(&other, "quick"), builds(&own, "full")] {
        let refused = different.bind(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("--out"), "{refused}");
    }
}

#[test]
fn results_of_builds_that_knew_no_limits_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    drop(write_run(folder.path(), &plan(1, 3, &|_, _| 1.0).cells()));
    let now = read_run(folder.path()).unwrap();
    for (file, fields) in [("environment.json", 4), ("measurements.jsonl", 36)] {
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut removed = 0;
        let mut remove = |object: &mut Value, key: &str| {
            removed += usize::from(object.as_object_mut().unwrap().remove(key).is_some());
        };
        let lines = Deserializer::from_str(&text).into_iter().map(|value| {
            let mut value: Value = value.unwrap();
            remove(&mut value, "limit");
            for roofline in value.get_mut("rooflines").and_then(Value::as_array_mut).into_iter().flatten() {
                remove(roofline, "int8");
                remove(roofline, "caches");
            }
            format!("{value}\n")
        });
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        assert_eq!(removed, fields, "{file}");
    }
    assert!(is_quiet(&compare(&read_run(folder.path()).unwrap(), &now, Rules::default()).unwrap()));
}
