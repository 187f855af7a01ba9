//! Comparing runs as they lie on disk.

use rounds::compare::{CompareError, Comparison, Rules, Verdict, compare};
use rounds::results::{Run, read_run};

use crate::synthetic::{Plan, write_run};

type Alter = fn(&mut Run);

fn run(seed: u64, repeats: usize, factor: &dyn Fn(&str, usize) -> f64) -> Run {
    let plan = Plan {
        algorithms: &["sgd", "dp-sgd"],
        datasets: &["synthetic-mnist"],
        batch_sizes: &[64, 500, 8000],
        repeats,
        noise: 0.01,
        factor,
        seed,
    };
    let folder = tempfile::tempdir().unwrap();
    drop(write_run(folder.path(), &plan.cells()));
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
fn different_machines_instruction_sets_builds_and_data_are_refused_unless_forced() {
    let first = run(1, 2, &|_, _| 1.0);
    let cases: [(&str, Alter); 4] = [
        ("machine", |run| run.binding.machine = "other".into()),
        ("instruction set", |run| run.binding.isa = "avx2".into()),
        ("build", |run| run.binding.build = "other".into()),
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
        assert!(
            matches!(&error, CompareError::Different(found) if found.what == what),
            "{error}"
        );
        assert!(error.to_string().contains("--force"));
        let rules = Rules {
            force: true,
            ..Rules::default()
        };
        let forced = compare(&first, &second, rules).unwrap();
        assert!(forced.remarks[0].contains(what), "{:?}", forced.remarks);
    }
}

#[test]
fn runs_with_nothing_in_common_and_single_repeats_are_said() {
    let first = run(1, 1, &|_, _| 1.0);
    let mut second = first.clone();
    second
        .results
        .samples
        .retain(|cell| cell.configuration.batch_size == 64);
    let comparison = compare(&first, &second, Rules::default()).unwrap();
    let only = [&comparison.only_before, &comparison.only_after].map(Vec::len);
    assert_eq!((comparison.changes.len(), only), (4, [8, 0]));
    assert!(comparison.remarks[0].contains("--repeats"));
    second.results.samples.clear();
    let error = compare(&first, &second, Rules::default()).unwrap_err();
    assert_eq!(error, CompareError::NothingInCommon);
}
