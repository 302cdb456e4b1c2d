//! `par completion` and `par man`, both generated from the definition of the command line.

use super::exit::{self, Fail};
use super::show;
use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Completion {
    /// Shell to print the completion script for
    shell: Shell,
}

impl Completion {
    /// Prints the script for `whole`, the definition of the command line.
    pub(super) fn run(&self, whole: &clap::Command) -> Result<u8, Fail> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut visible(whole), "par", &mut script);
        write(&script)
    }
}

#[derive(Debug, Args)]
pub(super) struct Manual {
    /// Write par.1 and a page for each command (par-serve.1, …) into this existing folder, instead
    /// of printing par.1
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Manual {
    /// Prints or writes the pages for `whole`, the definition of the command line.
    pub(super) fn run(&self, whole: &clap::Command) -> Result<u8, Fail> {
        let Some(dir) = &self.dir else {
            let mut page = Vec::new();
            Man::new(visible(whole)).render(&mut page).map_err(Fail::failed)?;
            return write(&page);
        };
        clap_mangen::generate_to(visible(whole), dir)
            .map_err(|e| Fail::failed(format!("{}: {e}", dir.display())))?;
        show::line(&format!("{}: par.1 and one page per command", dir.display()))?;
        Ok(exit::OK)
    }
}

/// Leaves out the hidden commands, which only a service manager calls.
fn visible(whole: &clap::Command) -> clap::Command {
    let shown: Vec<clap::Command> =
        whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let mut out = clap::Command::new("par").version(crate::types::VERSION);
    out = out.args(whole.get_arguments().cloned()).subcommands(shown);
    match whole.get_about().cloned() {
        Some(about) => out.about(about),
        None => out,
    }
}

fn write(bytes: &[u8]) -> Result<u8, Fail> {
    show::bytes(bytes)?;
    Ok(exit::OK)
}
