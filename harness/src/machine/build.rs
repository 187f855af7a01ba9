//! The build of the running binary.

use std::io;
use std::sync::OnceLock;

use rounds_algorithms::hexadecimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{instruction_set, vector_extension};

/// The build, as recorded at compile time; facts that were not found are "unknown".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub version: String,
    pub revision: String,
    /// `true` if tracked files differed from the revision, `false` or `unknown`.
    pub dirty: String,
    /// Compiler and version.
    pub rustc: String,
    /// Compiler flags, the target processor among them.
    pub rustflags: String,
    pub target: String,
    /// `release` or `debug`.
    pub profile: String,
    pub opt_level: String,
    /// Vector extension of the kernels (`vector_extension`).
    pub isa: String,
    /// Instruction-set extensions built for (`instruction_set`).
    pub features: Vec<String>,
    /// SHA-256 of the running executable: two builds with the same one are the same program.
    pub executable_sha256: String,
}

impl Build {
    /// The running binary. The executable is read once, at the first call.
    pub fn current() -> &'static Self {
        static BUILD: OnceLock<Build> = OnceLock::new();
        BUILD.get_or_init(|| Self {
            version: env!("CARGO_PKG_VERSION").into(),
            revision: env!("ROUNDS_REVISION").into(),
            dirty: env!("ROUNDS_DIRTY").into(),
            rustc: env!("ROUNDS_RUSTC").into(),
            rustflags: env!("ROUNDS_RUSTFLAGS").into(),
            target: env!("ROUNDS_TARGET").into(),
            profile: env!("ROUNDS_PROFILE").into(),
            opt_level: env!("ROUNDS_OPT_LEVEL").into(),
            isa: vector_extension().into(),
            features: instruction_set().into_iter().map(String::from).collect(),
            executable_sha256: executable_digest().unwrap_or_else(|_| "unknown".into()),
        })
    }

    /// The name of this build in checkpoints and results: the executable's digest, or revision and compiler if it cannot be
    /// read.
    pub fn identity(&self) -> String {
        if self.executable_sha256 == "unknown" {
            format!("{} dirty={} {} {} {}", self.revision, self.dirty, self.rustc, self.rustflags, self.profile)
        } else {
            self.executable_sha256.clone()
        }
    }

    /// The revision in twelve letters, with a star where files differed from it.
    pub fn short_revision(&self) -> String {
        let short: String = self.revision.chars().take(12).collect();
        if self.dirty == "true" { format!("{short}*") } else { short }
    }
}

fn executable_digest() -> io::Result<String> {
    Ok(hexadecimal(&Sha256::digest(std::fs::read(std::env::current_exe()?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_knows_its_compiler_and_executable() {
        let build = Build::current();
        assert!(build.rustc.starts_with("rustc "), "{}", build.rustc);
        assert_eq!(build.executable_sha256.len(), 64);
        assert_eq!(build.identity(), build.executable_sha256);
    }

    #[test]
    fn without_an_executable_the_identity_is_revision_and_flags() {
        let build = Build { executable_sha256: "unknown".into(), revision: "abc".into(), ..Build::current().clone() };
        assert!(build.identity().starts_with("abc dirty="));
    }

    #[test]
    fn a_dirty_revision_carries_a_star() {
        let build = Build { revision: "0123456789abcdef".into(), dirty: "true".into(), ..Build::current().clone() };
        assert_eq!(build.short_revision(), "0123456789ab*");
    }
}
