//! `rounds manual DIR`: manual pages of all commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use super::Output;
use rounds_models::files;

/// Arguments of `rounds manual`.
#[derive(clap::Args)]
pub struct ManualArguments {
    /// Folder of the pages, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes `rounds.1`, and `rounds-NAME.1` for each command below `command`, and prints their paths.
///
/// # Errors
/// A page that cannot be written.
pub fn run(arguments: &ManualArguments, command: clap::Command, output: Output) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    let mut commands = vec![command.disable_help_subcommand(true)];
    commands[0].build();
    let mut pages = Vec::new();
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    while let Some(command) = commands.pop() {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let path = folder.join(name).with_added_extension("1");
        commands.extend(command.get_subcommands().cloned());
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        files::replace(&path, &page).with_context(|| format!("cannot write {}", path.display()))?;
        pages.push(path);
    }
    pages.sort();
    let paths: Vec<String> = pages.iter().map(|page| page.display().to_string()).collect();
    output.print(&BTreeMap::from([("pages", &pages)]), paths.join("\n"))
}
