//! The build that a model or a checkpoint names.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
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
    /// Vector extension of the kernels.
    pub isa: String,
    /// Instruction-set extensions built for.
    pub features: Vec<String>,
    /// SHA-256 of the running executable, and of the shared library that holds this code if one does: two builds with the same one
    /// are the same program. Where neither can be read, "unknown" and a random number. No face sets it.
    executable_sha256: String,
}

impl Build {
    /// The running program as far as this library knows it: its executable, the vector extension of its kernels and the version.
    /// The executable is read once, at the first call: that which runs, even where another one has taken its name.
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
            isa: instructions::level().into(),
            features: Vec::new(),
            executable_sha256: code_digest()
                .unwrap_or_else(|_| format!("unknown {:016x}", getrandom::u64().unwrap_or(0))),
        })
    }

    /// The name of this build in keys, checkpoints and results: the digest of its code, which other code of the library or of the program
    /// changes. Where code cannot be read, it is random.
    pub fn identity(&self) -> String {
        if self.executable_sha256.starts_with("unknown") {
            let Self { executable_sha256: unknown, revision, dirty, rustc, rustflags, profile, .. } = self;
            format!("{unknown} {revision} dirty={dirty} {rustc} {rustflags} {profile}")
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

/// SHA-256 of the files that the program and this code were loaded from, which are two if the library is a shared one: an extension of
/// another language, say.
fn code_digest() -> io::Result<String> {
    let executable = "/proc/self/exe";
    let mut digest = Sha256::new_with_prefix(fs::read(executable)?);
    let own = loaded_from(&fs::read("/proc/self/maps")?, code_digest as fn() -> _ as usize);
    if own.as_ref() != Some(&fs::read_link(executable)?) {
        digest.update(fs::read(own.ok_or(io::ErrorKind::NotFound)?)?);
    }
    Ok(hexadecimal(&digest.finalize()))
}

/// The file of the memory at `address`, by the kernel's list of a process's memory: lines of a range, four more fields and a path.
fn loaded_from(maps: &[u8], address: usize) -> Option<PathBuf> {
    let contains = |line: &&[u8]| {
        let range =
            line.split(|&byte| byte == b' ').next().and_then(|range| str::from_utf8(range).ok()?.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16);
        matches!(range.map(|(start, end)| (number(start), number(end))), Some((Ok(start), Ok(end))) if (start..end).contains(&address))
    };
    let line = maps.split(|&byte| byte == b'\n').find(contains)?;
    let path = line.iter().position(|&byte| byte == b'/')?;
    Some(OsStr::from_bytes(&line[path..]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_executable_the_identity_is_revision_and_flags() {
        let of_process = Build::of_process().clone();
        assert_eq!(of_process.executable_sha256.len(), 64);
        assert_eq!(of_process.identity(), of_process.executable_sha256);
        let build = Build { executable_sha256: "unknown 7".into(), revision: "abc".into(), ..of_process };
        assert!(build.identity().starts_with("unknown 7 abc dirty="));
    }

    #[test]
    fn code_is_found_in_the_file_that_it_was_loaded_from() {
        let maps =
            b"5500-5600 r--p 00000000 103:02 17 /opt/a program\n5600-5700 r-xp 00000100 103:02 17 /opt/a program\n\
                     7f00-7f10 rw-p 00000000 00:00 0 \n7f10-8f00 r-xp 00001000 103:02 18 /opt/lib.so (deleted)\n";
        let found = |address| loaded_from(maps, address).map(|path| path.display().to_string());
        assert_eq!(found(0x56ff).as_deref(), Some("/opt/a program"));
        assert_eq!(found(0x7f10).as_deref(), Some("/opt/lib.so (deleted)"));
        assert_eq!((found(0x7f0f), found(0x8f00)), (None, None));
        // Tests are one file.
        let own = loaded_from(&fs::read("/proc/self/maps").unwrap(), code_digest as fn() -> _ as usize);
        assert_eq!(own, std::env::current_exe().ok());
    }

    #[test]
    fn a_dirty_revision_carries_a_star() {
        let build = Build { revision: "0123456789abcdef".into(), dirty: "true".into(), ..Build::of_process().clone() };
        assert_eq!(build.short_revision(), "0123456789ab*");
    }
}
