//! Facts that mpirun and srun leave in variables of the processes that they start: known before MPI starts, and in a build
//! without it.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;

use crate::output;

/// Variables with the rank of a process.
const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Variables with the number of processes. A batch script, which is one process, has the last one too.
const COUNTS: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];

/// Time for rank 0 to report an error that all processes have. Launchers end the others when one fails.
const ROOT_REPORTS: Duration = Duration::from_secs(2);

/// The first of `names` that `variable` knows as a number.
fn number<'n>(names: &[&'n str], variable: impl Fn(&str) -> Option<String>) -> Option<(&'n str, usize)> {
    names.iter().find_map(|&name| Some((name, variable(name)?.parse().ok()?)))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The number of processes that were started together, after the variable that holds it.
#[cfg(feature = "mpi")]
pub(crate) fn launched() -> Option<(&'static str, usize)> {
    number(&COUNTS, variable)
}

/// True on rank 0, and in a process that was started alone.
fn is_root() -> bool {
    number(&RANKS, variable).is_none_or(|(_, number)| number == 0)
}

/// Waits, on ranks other than 0, before an error that probably all processes have and no message between them can tell:
/// rank 0 reports it, and the launcher ends the others.
pub(crate) fn wait_for_root() {
    if !is_root() {
        std::thread::sleep(ROOT_REPORTS);
    }
}

/// Prints clap's error or help, on rank 0 of several processes.
pub fn exit_unparsed(error: &clap::Error) -> ExitCode {
    if error.exit_code() != 0 {
        wait_for_root();
    } else if !is_root() {
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::InvalidUtf8 {
        let arguments = std::env::args_os();
        let unreadable = arguments.map(|argument| argument.to_string_lossy().into_owned());
        let unreadable = unreadable.filter(|text| text.contains(char::REPLACEMENT_CHARACTER));
        output::fail(format_args!(
            "{}: names and paths here are UTF-8: rename the file, or name a link to it",
            unreadable.collect::<Vec<_>>().join(", ")
        ));
        return ExitCode::from(2);
    }
    match error.print() {
        // A closed pipe is no failure of its own.
        Err(failed) if failed.kind() != io::ErrorKind::BrokenPipe => {
            output::fail(format_args!("cannot print: {failed}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(error.exit_code() as u8),
    }
}

/// Warns that processes which were started together do not share their work.
pub(crate) fn warn_of_separate_processes() {
    if is_root()
        && let Some(warning) = separate_processes(variable)
    {
        output::warn(warning);
    }
}

fn separate_processes(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (name, count) = number(&COUNTS[..3], variable)?;
    (count > 1).then(|| format!("{name} is {count}: each process runs the whole command; --engine mpi shares the work"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_do_not_share_their_work_are_warned_of() {
        let warning = |variables: &[(&str, &str)]| {
            separate_processes(|name| {
                let own = variables.iter().find(|(own, _)| *own == name);
                own.map(|(_, value)| (*value).to_owned())
            })
        };
        let several = warning(&[("OMPI_COMM_WORLD_SIZE", "4")]).unwrap();
        assert!(several.contains("is 4") && several.contains("--engine mpi"), "{several}");
        assert!(warning(&[("SLURM_STEP_NUM_TASKS", "2")]).is_some());
        // One process; a batch script of a job of four; nothing; nonsense.
        assert_eq!(warning(&[("OMPI_COMM_WORLD_SIZE", "1")]), None);
        assert_eq!(warning(&[("SLURM_NTASKS", "4")]), None);
        assert_eq!(warning(&[]), None);
        assert_eq!(warning(&[("PMI_SIZE", "many")]), None);
    }
}
