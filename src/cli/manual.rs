//! `par completion` and `par man`, both generated from the definition of the command line.

use super::exit::{self, Fail};
use super::table::Screen;
use super::{sections, show};
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
    /// Write par.1 and a page for each command (par-serve.1, …) into this folder, which is created
    /// if it is missing, instead of printing par.1
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Manual {
    /// Prints or writes the pages for `whole`, the definition of the command line.
    pub(super) fn run(&self, whole: &clap::Command) -> Result<u8, Fail> {
        let mut whole = visible(whole).disable_help_subcommand(true);
        whole.build();
        let Some(dir) = &self.dir else {
            let code = write(&page(&whole)?)?;
            // What a person sees is the source of the page.
            if Screen::stdout().columns.is_some() {
                show::note("par: this is the source of a manual page. To read it: par man | man -l -");
            }
            return Ok(code);
        };
        let at = |e: std::io::Error| Fail::failed(format!("{}: {e}", dir.display()));
        std::fs::create_dir_all(dir).map_err(at)?;
        pages(&whole, &mut |name, page| std::fs::write(dir.join(name), page).map_err(at))?;
        show::line(&format!("{}: par.1 and one page per command", dir.display()))?;
        Ok(exit::OK)
    }
}

/// Passes the page of each command to `put`, with the name of its file.
fn pages(
    command: &clap::Command,
    put: &mut impl FnMut(String, Vec<u8>) -> Result<(), Fail>,
) -> Result<(), Fail> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages(inner, put)?;
    }
    put(Man::new(command.clone()).get_filename(), page(command)?)
}

/// The page of a command, with the sections that clap does not know.
fn page(command: &clap::Command) -> Result<Vec<u8>, Fail> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).map_err(Fail::failed)?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).replace('-', " ");
    for (section, text) in sections::of(&name) {
        page.extend(section_text(section, text).into_bytes());
    }
    Ok(page)
}

/// A section in roff: lines as they are. A line must not begin with a control character, and a
/// backslash begins an escape.
fn section_text(name: &str, text: &str) -> String {
    let line = |line: &str| match line.replace('\\', "\\e") {
        line if line.starts_with(['.', '\'']) => format!("\\&{line}\n"),
        line => format!("{line}\n"),
    };
    format!(".SH {name}\n.nf\n{}.fi\n", text.lines().map(line).collect::<String>())
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
