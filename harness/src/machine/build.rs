//! The build of the running command, as recorded at compile time.

use std::sync::OnceLock;

use rounds_models::build::Build;

use super::instruction_set;

/// The running binary. The executable is read once, at the first call.
pub(crate) fn build() -> &'static Build {
    static BUILD: OnceLock<Build> = OnceLock::new();
    BUILD.get_or_init(|| {
        let mut build = Build::of_process().clone();
        build.revision = env!("ROUNDS_REVISION").into();
        build.dirty = env!("ROUNDS_DIRTY").into();
        build.rustc = env!("ROUNDS_RUSTC").into();
        build.rustflags = env!("ROUNDS_RUSTFLAGS").into();
        build.target = env!("ROUNDS_TARGET").into();
        build.profile = env!("ROUNDS_PROFILE").into();
        build.features = instruction_set().into_iter().map(String::from).collect();
        build
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_knows_its_compiler_and_executable() {
        assert!(build().rustc.starts_with("rustc "), "{}", build().rustc);
        assert_eq!(build().identity(), Build::of_process().identity());
    }
}
