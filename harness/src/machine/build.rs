//! The build of the running command, as recorded at compile time.

use std::sync::OnceLock;

use rounds_models::build::Build;

use super::instruction_set;

/// The running binary. The executable is read once, at the first call.
pub(crate) fn build() -> &'static Build {
    static BUILD: OnceLock<Build> = OnceLock::new();
    BUILD.get_or_init(|| Build {
        revision: env!("ROUNDS_REVISION").into(),
        dirty: env!("ROUNDS_DIRTY").into(),
        rustc: env!("ROUNDS_RUSTC").into(),
        rustflags: env!("ROUNDS_RUSTFLAGS").into(),
        target: env!("ROUNDS_TARGET").into(),
        profile: env!("ROUNDS_PROFILE").into(),
        opt_level: env!("ROUNDS_OPT_LEVEL").into(),
        features: instruction_set().into_iter().map(String::from).collect(),
        ..Build::of_process().clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_knows_its_compiler_and_executable() {
        assert!(build().rustc.starts_with("rustc "), "{}", build().rustc);
        assert_eq!(build().identity(), build().executable_sha256);
    }
}
