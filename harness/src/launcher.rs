//! What mpirun and srun tell the processes that they start, in variables: known before MPI starts, and in a build without it.

use std::process::ExitCode;
use std::time::Duration;

/// Variables with the number of a process among those that were started together.
const NUMBERS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Variables with how many processes were started together. The last one is also that of a batch script, which is one process.
const COUNTS: [&str; 4] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
];

/// How long a process waits for the first to say what is wrong with all of them. Launchers end the others when one fails.
const FIRST_SPEAKS: Duration = Duration::from_secs(2);

/// The first of `names` that `variable` knows as a number.
fn number<'n>(names: &[&'n str], variable: impl Fn(&str) -> Option<String>) -> Option<(&'n str, usize)> {
    names
        .iter()
        .find_map(|&name| Some((name, variable(name)?.parse().ok()?)))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The variable that says how many processes were started together, and their number.
#[cfg(feature = "mpi")]
pub(crate) fn announced() -> Option<(&'static str, usize)> {
    number(&COUNTS, variable)
}

/// Whether this process is the first of those that were started together, or alone.
fn is_first() -> bool {
    number(&NUMBERS, variable).is_none_or(|(_, number)| number == 0)
}

/// Before a failure that processes cannot agree on, but probably share: the first one says it, which ends the others. If it
/// does not, they say it too.
pub(crate) fn let_the_first_speak() {
    if !is_first() {
        std::thread::sleep(FIRST_SPEAKS);
    }
}

/// Ends on a command line that cannot be read, or asks for help: the first of several processes speaks.
pub fn end_unread(error: &clap::Error) -> ExitCode {
    if error.exit_code() != 0 {
        let_the_first_speak();
    } else if !is_first() {
        return ExitCode::SUCCESS;
    }
    // A closed pipe is no failure of its own.
    let _ = error.print();
    ExitCode::from(error.exit_code() as u8)
}

/// Says that processes which were started together will not work together.
pub(crate) fn warn_of_lone_processes() {
    if is_first()
        && let Some(warning) = lone_processes(variable)
    {
        eprintln!("rounds: {warning}");
    }
}

fn lone_processes(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (name, count) = number(&COUNTS[..3], variable)?;
    (count > 1).then(|| {
        format!("{name} says {count} processes: each of them does the whole command; --engine mpi lets them share it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_do_not_share_their_work_are_told_so_and_single_ones_are_not() {
        let said = |variables: &[(&str, &str)]| {
            lone_processes(|name| {
                let own = variables.iter().find(|(own, _)| *own == name);
                own.map(|(_, value)| (*value).to_owned())
            })
        };
        let warning = said(&[("OMPI_COMM_WORLD_SIZE", "4")]).unwrap();
        assert!(
            warning.contains("4 processes") && warning.contains("--engine mpi"),
            "{warning}"
        );
        assert!(said(&[("SLURM_STEP_NUM_TASKS", "2")]).is_some());
        // One process; a batch script of a job of four; nothing; nonsense.
        assert_eq!(said(&[("OMPI_COMM_WORLD_SIZE", "1")]), None);
        assert_eq!(said(&[("SLURM_NTASKS", "4")]), None);
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[("PMI_SIZE", "many")]), None);
    }
}
