//! The instruction set of the build, and a check that this processor has it.
//!
//! `wide` selects its instructions at compile time, so a binary built for one processor may hold instructions that another
//! lacks. The check reads the kernel's list of processor flags, since `is_x86_feature_detected!` answers from the build for
//! every feature that the build has. The check has the same instructions, so it keeps to code that is not vectorised. A
//! processor without AVX, from before 2011, still ends with an illegal instruction.

use std::fs;

use thiserror::Error;

/// The processor lacks what the binary was built for.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "this binary was built for a processor with {missing}, which this one ({processor}) lacks; rebuild it here \
     (cargo build --release), or with RUSTFLAGS=\"-C target-cpu={level}\" for every processor like it"
)]
pub struct ProcessorError {
    /// Names of the missing features, with commas.
    pub missing: String,
    pub processor: String,
    /// The x86-64 level that this processor does support.
    pub level: &'static str,
}

/// Pairs of a feature as the compiler names it and as the Linux kernel does, kept where the build has it.
macro_rules! features {
    ($($compiler:literal => $kernel:literal),+ $(,)?) => {
        &[$(($compiler, $kernel, cfg!(target_feature = $compiler))),+]
    };
}

/// (compiler's name, kernel's name, whether the binary was built with it).
type Feature = (&'static str, &'static str, bool);

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
const FEATURES: &[Feature] = features! {
    "sse3" => "pni", "ssse3" => "ssse3", "sse4.1" => "sse4_1", "sse4.2" => "sse4_2", "popcnt" => "popcnt",
    "lzcnt" => "abm", "bmi1" => "bmi1", "bmi2" => "bmi2", "movbe" => "movbe", "f16c" => "f16c", "fma" => "fma",
    "avx" => "avx", "avx2" => "avx2", "avx512f" => "avx512f", "avx512cd" => "avx512cd", "avx512bw" => "avx512bw",
    "avx512dq" => "avx512dq", "avx512vl" => "avx512vl", "avx512ifma" => "avx512ifma", "avx512vbmi" => "avx512vbmi",
    "avx512vbmi2" => "avx512_vbmi2", "avx512vnni" => "avx512_vnni", "avx512bitalg" => "avx512_bitalg",
    "avx512vpopcntdq" => "avx512_vpopcntdq", "avx512bf16" => "avx512_bf16", "avx512fp16" => "avx512_fp16",
    "avxvnni" => "avx_vnni", "aes" => "aes", "pclmulqdq" => "pclmulqdq", "vaes" => "vaes",
    "vpclmulqdq" => "vpclmulqdq", "gfni" => "gfni", "sha" => "sha_ni", "adx" => "adx",
    "cmpxchg16b" => "cx16",
};

#[cfg(target_arch = "aarch64")]
const FEATURES: &[Feature] = features! {
    "neon" => "asimd", "aes" => "aes", "sha2" => "sha2", "fp16" => "asimdhp", "dotprod" => "asimddp",
    "lse" => "atomics", "sve" => "sve", "sve2" => "sve2", "bf16" => "bf16", "i8mm" => "i8mm",
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
const FEATURES: &[Feature] = &[];

/// Instruction-set extensions that the binary was built for, as the compiler names them.
pub(crate) fn instruction_set() -> Vec<&'static str> {
    FEATURES.iter().filter(|(_, _, built)| *built).map(|(compiler, _, _)| *compiler).collect()
}

/// Checks that this processor has every feature the binary was built for; call it first in `main`.
///
/// # Errors
/// `ProcessorError` names what is missing and the way out. Where the kernel does not list the processor's flags
/// (other systems than Linux) nothing is known and the check passes.
pub fn check_processor() -> Result<(), ProcessorError> {
    fs::read_to_string("/proc/cpuinfo").map_or(Ok(()), |listing| check_listing(&listing, FEATURES))
}

fn check_listing(listing: &str, features: &[Feature]) -> Result<(), ProcessorError> {
    let value_of = |names: &[&str]| {
        listing
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| names.contains(&name.trim()))
            .map(|(_, value)| value.trim())
    };
    let Some(flags) = value_of(&["flags", "Features"]) else {
        return Ok(());
    };
    // A linear search: the compiler vectorises the probes of a hash table.
    let present = |flag: &str| flags.split_whitespace().any(|listed| listed == flag);
    let missing: Vec<&str> = features
        .iter()
        .filter(|(_, kernel, built)| *built && !present(kernel))
        .map(|(compiler, _, _)| *compiler)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let has = |names: &[&str]| names.iter().all(|name| present(name));
    let level = if has(&["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]) {
        "x86-64-v4"
    } else if has(&["avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"]) {
        "x86-64-v3"
    } else if has(&["sse4_2", "popcnt"]) {
        "x86-64-v2"
    } else if cfg!(target_arch = "aarch64") {
        "generic"
    } else {
        "x86-64"
    };
    let processor = value_of(&["model name"]).unwrap_or("unknown").to_string();
    Err(ProcessorError { missing: missing.join(", "), processor, level })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "processor\t: 0\nmodel name\t: Some Processor\nflags\t\t: fpu pni ssse3 sse4_1 sse4_2 popcnt \
                           abm bmi1 bmi2 movbe f16c fma avx avx2\n";

    #[test]
    fn this_processor_runs_what_was_built_for_it() {
        assert_eq!(check_processor(), Ok(()));
    }

    #[test]
    fn a_processor_without_the_feature_is_named_with_the_way_out() {
        let features: &[Feature] = &[("avx2", "avx2", true), ("avx512f", "avx512f", true), ("sha", "sha_ni", false)];
        let error = check_listing(LISTING, features).unwrap_err();
        assert_eq!(error.missing, "avx512f");
        let message = error.to_string();
        assert!(message.contains("Some Processor") && message.contains("target-cpu=x86-64-v3"), "{message}");
    }

    #[test]
    fn the_way_out_names_a_level_that_the_processor_has() {
        let features: &[Feature] = &[("gfni", "gfni", true)];
        let level = |flags: &str| check_listing(&format!("flags : {flags}"), features).unwrap_err().level;
        assert_eq!(level("sse4_2 popcnt"), "x86-64-v2");
        assert_eq!(level("avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma bmi1 bmi2 f16c movbe abm"), "x86-64-v4");
    }

    #[test]
    fn a_system_that_lists_no_flags_passes() {
        assert_eq!(check_listing("processor : 0\n", &[("avx2", "avx2", true)]), Ok(()));
    }

    #[test]
    fn the_vector_extension_agrees_with_the_feature_list() {
        let features = instruction_set();
        assert_eq!(rounds_kernels::instructions::level().starts_with("avx512"), features.contains(&"avx512f"));
    }
}
