//! The build that a model or a checkpoint names.

use std::io;
use std::sync::OnceLock;

use rounds_algorithms::hexadecimal;
use rounds_kernels::instructions;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A build of a program; facts that are not known are "unknown".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version of the crates.
    pub version: String,
    /// The commit.
    pub revision: String,
    /// `true` if tracked files differed from the revision, `false` or `unknown`.
    pub dirty: String,
    /// Compiler and version.
    pub rustc: String,
    /// Compiler flags, the target processor among them.
    pub rustflags: String,
    /// The compiler's target.
    pub target: String,
    /// `release` or `debug`.
    pub profile: String,
    /// The optimisation level.
    pub opt_level: String,
    /// Vector extension of the kernels.
    pub isa: String,
    /// Instruction-set extensions built for.
    pub features: Vec<String>,
    /// SHA-256 of the running executable: two builds with the same one are the same program. No face sets it.
    executable_sha256: String,
}

impl Build {
    /// The running program as far as this library knows it: its executable, the vector extension of its kernels and the version.
    /// The executable is read once, at the first call.
    pub fn of_process() -> &'static Self {
        static BUILD: OnceLock<Build> = OnceLock::new();
        let unknown = || "unknown".to_owned();
        BUILD.get_or_init(|| Self {
            version: env!("CARGO_PKG_VERSION").into(),
            revision: unknown(),
            dirty: unknown(),
            rustc: unknown(),
            rustflags: unknown(),
            target: unknown(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
            opt_level: unknown(),
            isa: instructions::level().into(),
            features: Vec::new(),
            executable_sha256: executable_digest().unwrap_or_else(|_| unknown()),
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
    fn without_an_executable_the_identity_is_revision_and_flags() {
        let of_process = Build::of_process().clone();
        assert_eq!(of_process.executable_sha256.len(), 64);
        assert_eq!(of_process.identity(), of_process.executable_sha256);
        let build = Build { executable_sha256: "unknown".into(), revision: "abc".into(), ..of_process };
        assert!(build.identity().starts_with("abc dirty="));
    }

    #[test]
    fn a_dirty_revision_carries_a_star() {
        let build = Build { revision: "0123456789abcdef".into(), dirty: "true".into(), ..Build::of_process().clone() };
        assert_eq!(build.short_revision(), "0123456789ab*");
    }
}
