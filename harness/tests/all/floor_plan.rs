//! The arrows of the floor plan: kernels and numerics → algorithms → models → harness, bench uses kernels and algorithms,
//! nothing points back.

/// A crate, the crates of the workspace that it may use, and others that it may not.
const PLAN: [(&str, &str, &str); 7] = [
    ("rounds-kernels", "", "rayon serde getrandom hwlocality"),
    ("rounds-numerics", "", ""),
    ("rounds-algorithms", "rounds-kernels rounds-numerics", "hwlocality clap flate2 liblzma plotters jiff indicatif"),
    (
        "rounds-models",
        "rounds-kernels rounds-numerics rounds-algorithms",
        "hwlocality clap anyhow indicatif comfy-table maud plotters",
    ),
    ("rounds-bench", "rounds-kernels rounds-algorithms", ""),
    ("rounds-front", "", ""),
    ("rounds", "rounds-kernels rounds-numerics rounds-algorithms rounds-models rounds-bench", ""),
];

#[test]
fn crates_depend_on_what_lies_below_them_and_kernels_and_algorithms_have_no_clock_or_files() {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata of the workspace");
    assert_eq!(metadata.packages.len(), PLAN.len(), "a new crate needs its place in the floor plan");
    for package in &metadata.packages {
        let (name, allowed, forbidden) =
            PLAN.into_iter().find(|(name, ..)| *name == package.name.as_str()).expect("a crate of the floor plan");
        for dependency in &package.dependencies {
            let dependency = dependency.name.as_str();
            let own = dependency.starts_with("rounds");
            assert!(!own || allowed.split(' ').any(|one| one == dependency), "{name} may not depend on {dependency}");
            assert!(forbidden.split(' ').all(|one| one != dependency), "{name} may not use {dependency}");
        }
    }
}
