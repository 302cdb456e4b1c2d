//! `par completion` and `par man`: both from the definition of the command line itself.

use super::exit::{self, Fail};
use super::show;
use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Completion {
    /// The shell
    shell: Shell,
}

impl Completion {
    /// Of the whole command line.
    pub(super) fn run(&self, whole: &clap::Command) -> Result<u8, Fail> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut visible(whole), "par", &mut script);
        write(&script)
    }
}

#[derive(Debug, Args)]
pub(super) struct Manual {
    /// Write par.1, par-serve.1 and so on into this folder, instead of par.1 to standard output
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Manual {
    /// Of the whole command line.
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

/// The commands for people: what a service manager alone calls is left out.
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
