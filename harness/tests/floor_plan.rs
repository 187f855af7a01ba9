//! The arrows of the floor plan: kernels and numerics → algorithms → harness, bench uses kernels and algorithms, nothing points back.

use std::collections::BTreeMap;

#[test]
fn no_crate_depends_on_one_above_it() {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata of the workspace");
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("rounds-kernels", &[] as &[&str]),
        ("rounds-numerics", &[]),
        ("rounds-algorithms", &["rounds-kernels", "rounds-numerics"]),
        ("rounds-bench", &["rounds-kernels", "rounds-algorithms"]),
        (
            "rounds",
            &["rounds-kernels", "rounds-numerics", "rounds-algorithms", "rounds-bench"],
        ),
    ]);
    assert_eq!(
        metadata.packages.len(),
        allowed.len(),
        "a new crate needs its place in the floor plan"
    );
    for package in &metadata.packages {
        let may = allowed.get(package.name.as_str()).expect("a crate of the floor plan");
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.name.starts_with("rounds"))
        {
            assert!(
                may.contains(&dependency.name.as_str()),
                "{} may not depend on {}",
                package.name,
                dependency.name
            );
        }
    }
}

#[test]
fn kernels_have_no_threads_and_algorithms_no_clock_or_file_formats() {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata of the workspace");
    let forbidden: BTreeMap<&str, &[&str]> = BTreeMap::from([
        (
            "rounds-kernels",
            &["rayon", "serde", "getrandom", "hwlocality"] as &[&str],
        ),
        (
            "rounds-algorithms",
            &[
                "hwlocality",
                "clap",
                "flate2",
                "liblzma",
                "plotters",
                "jiff",
                "indicatif",
            ],
        ),
    ]);
    for package in &metadata.packages {
        for name in *forbidden.get(package.name.as_str()).unwrap_or(&(&[] as &[&str])) {
            assert!(
                package.dependencies.iter().all(|dependency| dependency.name != *name),
                "{} may not use {name}",
                package.name
            );
        }
    }
}
