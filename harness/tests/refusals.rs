//! What a command line asks for and no theorem or number format allows ends with exit code 2 and the reason.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// The exit code of `rounds train` on a small problem, and what it says.
fn train(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rounds"))
        .args(["train", "--data", "synthetic-logistic", "--threads", "1"])
        .args(arguments)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn resque_refuses_radii_that_are_none_or_larger_than_the_domain() {
    for (smoothing, reason) in [
        ("0", "above 0"),
        ("-1", "above 0"),
        ("nan", "above 0"),
        ("1e-40", "offsets are f32"),
        ("20", "larger than the domain"),
    ] {
        let setting = format!("smoothing={smoothing}");
        let (code, message) = train(&["--algorithm", "resque-ac-sa", "--set", &setting]);
        assert_eq!(code, Some(2), "{smoothing}: {message}");
        assert!(message.contains(reason), "{smoothing}: {message}");
    }
    let (code, message) = train(&["--algorithm", "resque-epoch-sgd", "--set", "radius=0"]);
    assert!(code == Some(2) && message.contains("above 0"), "{message}");
}

#[test]
fn resque_refuses_sample_sizes_that_divide_by_nothing_or_have_no_end() {
    // λ_min falls with ε²: an accuracy of 0 would be λ = 0.
    for (accuracy, reason) in [("0", "above 0"), ("-0.1", "above 0")] {
        let setting = format!("accuracy={accuracy}");
        let (code, message) = train(&["--algorithm", "resque-ac-sa", "--set", &setting]);
        assert!(code == Some(2) && message.contains(reason), "{accuracy}: {message}");
    }
}

#[test]
fn private_resque_refuses_more_steps_than_its_data_amplify() {
    let private = [
        "--algorithm",
        "resque-private-erm",
        "--epsilon",
        "0.9",
        "--delta",
        "1e-6",
    ];
    let with = |settings: &[&'static str]| train(&[&private[..], settings].concat());
    let (code, message) = with(&["--set", "mode=scaled", "--set", "steps-constant=1e6"]);
    assert!(code == Some(2) && message.contains("n/C_priv"), "{message}");
    let (code, message) = with(&["--set", "mode=faithful"]);
    assert!(code == Some(2) && message.contains("n = "), "{message}");
    let (code, message) = with(&["--set", "radius=-3"]);
    assert!(code == Some(2) && message.contains("above 0"), "{message}");
}

/// The same folder made private serves, and a run that is finished leaves nothing in it.
#[test]
fn a_release_keeps_its_checkpoint_only_where_others_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.checkpoint");
    let set_mode = |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    let path = file.to_str().unwrap();
    let secure = [
        "--secure",
        "--delta",
        "1e-6",
        "--epsilon",
        "1",
        "--epochs",
        "1",
        "--checkpoint-every",
        "2",
        "--checkpoint",
        path,
    ];
    set_mode(0o777);
    let (code, message) = train(&secure);
    assert!(code == Some(2) && message.contains("chmod go-w"), "{message}");
    set_mode(0o700);
    let (code, message) = train(&secure);
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
