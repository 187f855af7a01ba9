//! The arrows of the floor plan: kernels and numerics → algorithms → models → harness, bench uses kernels and algorithms,
//! nothing points back.

use std::process::Command;

use serde_json::Value;

/// A crate, the crates of the workspace that it may use, and others that it may not.
const PLAN: [(&str, &str, &str); 8] = [
    ("rounds-kernels", "", "rayon serde getrandom hwlocality"),
    ("rounds-numerics", "", ""),
    ("rounds-algorithms", "rounds-kernels rounds-numerics", "hwlocality clap flate2 liblzma plotters jiff indicatif"),
    (
        "rounds-models",
        "rounds-kernels rounds-numerics rounds-algorithms",
        "hwlocality clap anyhow indicatif comfy-table maud plotters",
    ),
    (
        "rounds-python",
        "rounds-kernels rounds-algorithms rounds-models",
        "hwlocality clap anyhow indicatif comfy-table maud plotters",
    ),
    ("rounds-bench", "rounds-kernels rounds-algorithms", ""),
    ("rounds-front", "", ""),
    ("rounds", "rounds-kernels rounds-numerics rounds-algorithms rounds-models", ""),
];

#[test]
fn crates_depend_on_what_lies_below_them_and_kernels_and_algorithms_have_no_clock_or_files() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest])
        .output()
        .expect("cargo metadata of the workspace");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("a JSON document");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert_eq!(packages.len(), PLAN.len(), "a new crate needs its place in the floor plan");
    for package in packages {
        let (name, allowed, forbidden) =
            PLAN.into_iter().find(|(name, ..)| package["name"] == *name).expect("a crate of the floor plan");
        for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
            let dependency = dependency["name"].as_str().expect("a name");
            let own = dependency.starts_with("rounds");
            assert!(!own || allowed.split(' ').any(|one| one == dependency), "{name} may not depend on {dependency}");
            assert!(forbidden.split(' ').all(|one| one != dependency), "{name} may not use {dependency}");
        }
    }
}
