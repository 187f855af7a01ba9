//! The program `rounds` of a packed release: starts the build in `libexec/` that is best on this processor.
//!
//! A release holds two builds of one program, for x86-64-v3 (AVX2) and for x86-64-v4 (AVX-512). This front is built for any
//! x86-64 processor, so it can say what an older one lacks. It replaces itself by the build that it chose: signals, exit codes
//! and standard streams are that build's own. `--isa` and ROUNDS_ISA lower the choice; the build reads them too, and lowers its
//! integer kernels.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A build of a release, the better one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    V3,
    V4,
}

impl Level {
    /// The build's file in `libexec/`.
    fn file(self) -> &'static str {
        match self {
            Self::V3 => "rounds-v3",
            Self::V4 => "rounds-v4",
        }
    }
}

/// Instruction sets that `--isa` names, with the best build that each allows.
const INSTRUCTION_SETS: [(&str, Level); 5] =
    [("scalar", Level::V3), ("v3", Level::V3), ("v4", Level::V4), ("vnni", Level::V4), ("amx", Level::V4)];

/// A build that is started, with a note for stderr if it is not the best one.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    level: Level,
    note: Option<String>,
}

/// A run that cannot start: the message and the exit code.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    message: String,
    code: u8,
}

/// The best level that this processor runs.
#[cfg(target_arch = "x86_64")]
fn level_of_processor() -> Option<Level> {
    let has_v3 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe");
    let has_v4 = has_v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    [(has_v4, Level::V4), (has_v3, Level::V3)].into_iter().find_map(|(has, level)| has.then_some(level))
}

/// No other processor runs a packed release.
#[cfg(not(target_arch = "x86_64"))]
fn level_of_processor() -> Option<Level> {
    None
}

/// The instruction set that the arguments name, before a `--`, or else the variable.
fn requested(arguments: &[OsString], variable: Option<String>) -> Option<String> {
    let options = arguments.iter().map(|argument| argument.to_string_lossy()).take_while(|argument| argument != "--");
    let options: Vec<_> = options.collect();
    let joined = options.iter().find_map(|option| option.strip_prefix("--isa="));
    let apart = options.iter().position(|option| option == "--isa").and_then(|place| options.get(place + 1));
    let given = joined.map(str::to_owned).or_else(|| apart.map(ToString::to_string));
    given.or(variable).filter(|set| !set.is_empty())
}

/// The build to start: the best one that the processor (`has`), the request and the installation (`is_there`) allow.
fn choose(has: Option<Level>, requested: Option<&str>, is_there: impl Fn(Level) -> bool) -> Result<Choice, Refusal> {
    let refusal = |message: String, code: u8| Err(Refusal { message, code });
    let known = |name: &str| INSTRUCTION_SETS.iter().find_map(|&(own, level)| (own == name).then_some(level));
    let Some(allowed) = requested.map_or(Some(Level::V4), known) else {
        let name = requested.unwrap_or_default();
        return refusal(format!("--isa {name}: it is no set of instructions: give scalar, v3, v4, vnni or amx"), 2);
    };
    let Some(has) = has else {
        return refusal(
            "this processor lacks AVX2 (x86-64-v3), which every build of this package needs; build rounds here from its source \
             with `cargo install --path harness`"
                .to_owned(),
            1,
        );
    };
    if let Some(name) = requested.filter(|_| allowed > has) {
        return refusal(format!("--isa {name}: this processor lacks AVX-512; leave --isa out, or give v3"), 2);
    }
    let wanted = allowed.min(has);
    if is_there(wanted) {
        return Ok(Choice { level: wanted, note: None });
    }
    if wanted == Level::V4 && is_there(Level::V3) {
        let note = format!("libexec/{} is missing: the build for AVX2 runs in its place", wanted.file());
        return Ok(Choice { level: Level::V3, note: Some(note) });
    }
    refusal(format!("libexec/{} is missing beside this program: unpack the whole package again", wanted.file()), 1)
}

/// The folder of the builds: beside this file, links followed.
fn libexec() -> PathBuf {
    let own = std::env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
    own.parent().unwrap_or(Path::new(".")).join("libexec")
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let requested = requested(&arguments, std::env::var("ROUNDS_ISA").ok());
    let folder = libexec();
    let refused = match choose(level_of_processor(), requested.as_deref(), |level| folder.join(level.file()).is_file())
    {
        Ok(Choice { level, note }) => {
            if let Some(note) = note {
                eprintln!("note: {note}");
            }
            let path = folder.join(level.file());
            let failed = Command::new(&path).args(arguments).exec();
            Refusal { message: format!("{}: cannot be started: {failed}", path.display()), code: 1 }
        }
        Err(refused) => refused,
    };
    eprintln!("error: {}", refused.message);
    ExitCode::from(refused.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_best_build_of_the_processor_is_chosen() {
        let all = |_| true;
        assert_eq!(choose(Some(Level::V4), None, all), Ok(Choice { level: Level::V4, note: None }));
        assert_eq!(choose(Some(Level::V3), None, all), Ok(Choice { level: Level::V3, note: None }));
        for (name, level) in INSTRUCTION_SETS {
            assert_eq!(choose(Some(Level::V4), Some(name), all).unwrap().level, level, "{name}");
        }
    }

    #[test]
    fn a_missing_build_falls_back_with_a_note_or_says_so() {
        let only_v3 = |level| level == Level::V3;
        let choice = choose(Some(Level::V4), None, only_v3).unwrap();
        assert!(choice.level == Level::V3 && choice.note.unwrap().contains("rounds-v4 is missing"));
        // A processor without AVX-512 cannot run the other build.
        let refused = choose(Some(Level::V3), None, |level| level == Level::V4).unwrap_err();
        assert!(refused.message.contains("rounds-v3 is missing") && refused.code == 1, "{refused:?}");
    }

    #[test]
    fn sets_that_are_unknown_or_that_the_processor_lacks_are_refused() {
        let refused = |has, name| choose(has, Some(name), |_| true).unwrap_err();
        assert_eq!(refused(Some(Level::V4), "avx9").code, 2);
        assert!(refused(Some(Level::V4), "avx9").message.contains("scalar, v3, v4, vnni or amx"));
        assert!(refused(Some(Level::V3), "vnni").message.contains("lacks AVX-512"));
        let old = choose(None, None, |_| true).unwrap_err();
        assert!(old.message.contains("lacks AVX2") && old.code == 1);
    }

    #[test]
    fn the_option_is_found_before_the_variable_and_not_after_two_hyphens() {
        let variable = || Some("v3".to_owned());
        assert_eq!(requested(&words(&["train", "--isa", "amx"]), variable()).as_deref(), Some("amx"));
        assert_eq!(requested(&words(&["--isa=v4", "run"]), variable()).as_deref(), Some("v4"));
        assert_eq!(requested(&words(&["run", "--", "--isa", "v4"]), variable()).as_deref(), Some("v3"));
        assert_eq!(requested(&words(&["run"]), Some(String::new())), None);
    }
}
