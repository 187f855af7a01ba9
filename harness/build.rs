//! Records what this binary is built from: revision, compiler, flags. Whatever cannot be found out is "unknown".

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Standard output of a command, trimmed; `None` where it cannot run or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// The TOML files below `folder`, with their path in it and without their extension.
fn definitions(folder: &Path, below: &str, found: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            definitions(&path, &format!("{below}{stem}/"), found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push((format!("{below}{stem}"), path));
        }
    }
}

/// Writes the list of all definitions, so that a new one is one file.
fn embed_definitions() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../bench/definitions");
    let mut found = Vec::new();
    definitions(&root, "", &mut found);
    found.sort();
    let lines: String = found
        .iter()
        .map(|(name, path)| format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string()))
        .collect();
    let list =
        format!("/// The definitions in the binary, by name.\nconst EMBEDDED: &[(&str, &str)] = &[\n{lines}];\n");
    let path = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("definitions.rs");
    fs::write(path, list).expect("the list of definitions can be written");
}

fn main() {
    embed_definitions();
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let revision = output("git", &["rev-parse", "HEAD"]);
    let dirty = output("git", &["status", "--porcelain", "--untracked-files=no"]).map(|changes| !changes.is_empty());
    // Cargo separates the flags by the unit separator.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\x1f', " ");
    let unknown = || "unknown".to_string();

    println!("cargo::rustc-env=ROUNDS_REVISION={}", revision.unwrap_or_else(unknown));
    println!("cargo::rustc-env=ROUNDS_DIRTY={}", dirty.map_or_else(unknown, |dirty| dirty.to_string()));
    println!("cargo::rustc-env=ROUNDS_RUSTC={}", output(&rustc, &["--version"]).unwrap_or_else(unknown));
    println!("cargo::rustc-env=ROUNDS_RUSTFLAGS={flags}");
    for name in ["TARGET", "PROFILE"] {
        println!("cargo::rustc-env=ROUNDS_{name}={}", env::var(name).unwrap_or_else(|_| unknown()));
    }

    // A commit or checkout moves HEAD and its log; an edit touches a source. A path that does not exist would make
    // cargo run this script at every build, so only existing ones are named.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in [
        "build.rs",
        "src",
        "../models/src",
        "../algorithms/src",
        "../kernels/src",
        "../bench/definitions",
        "../Cargo.lock",
    ] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-env-changed=RUSTFLAGS");
}
