//! Records what this binary is built from: revision, compiler, flags. Whatever cannot be found out is "unknown".

use std::env;
use std::path::Path;
use std::process::Command;

/// Standard output of a command, trimmed; `None` where it cannot run or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let revision = output("git", &["rev-parse", "HEAD"]);
    let dirty = output("git", &["status", "--porcelain", "--untracked-files=no"]).map(|changes| !changes.is_empty());
    // Cargo separates the flags by the unit separator.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS")
        .unwrap_or_default()
        .replace('\x1f', " ");
    let from_environment = |name: &str| env::var(name).ok();
    let unknown = || "unknown".to_string();

    println!("cargo::rustc-env=ROUNDS_REVISION={}", revision.unwrap_or_else(unknown));
    println!(
        "cargo::rustc-env=ROUNDS_DIRTY={}",
        dirty.map_or_else(unknown, |dirty| dirty.to_string())
    );
    println!(
        "cargo::rustc-env=ROUNDS_RUSTC={}",
        output(&rustc, &["--version"]).unwrap_or_else(unknown)
    );
    println!("cargo::rustc-env=ROUNDS_RUSTFLAGS={flags}");
    println!(
        "cargo::rustc-env=ROUNDS_TARGET={}",
        from_environment("TARGET").unwrap_or_else(unknown)
    );
    println!(
        "cargo::rustc-env=ROUNDS_PROFILE={}",
        from_environment("PROFILE").unwrap_or_else(unknown)
    );
    println!(
        "cargo::rustc-env=ROUNDS_OPT_LEVEL={}",
        from_environment("OPT_LEVEL").unwrap_or_else(unknown)
    );

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
