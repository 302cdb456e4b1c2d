//! The command line. Data on standard output, messages on standard error.
//!
//! # Layout
//!
//! One file per command; `house` puts the rooms of one home together; `exit` is the only place that
//! knows exit codes; `show` prints tables and lines.

mod approval;
mod audit;
mod backup;
mod config;
mod doctor;
mod evidence;
mod exit;
mod export;
mod follow;
mod hash;
mod house;
mod index;
mod init;
mod journal;
mod key;
mod known;
mod launcher;
mod logs;
mod manual;
mod minimum;
mod notify;
mod policy;
mod progress;
mod quickstart;
mod redact;
mod reload;
mod remote;
mod renew;
mod run;
mod serve;
mod show;
mod tend;
mod tool;

use crate::config::{Config, Home};
use clap::{Args, Parser, Subcommand};
use exit::Fail;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

/// A policy-driven, secure operations agent with an audit ledger.
#[derive(Debug, Parser)]
#[command(name = "par", version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Place {
    /// The home: etc/, data/, workspace/ [default: the service's folders, else ./par-home; env: PAR_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Configuration, policies and tools, where they are not in the home
    #[arg(long, global = true, value_name = "DIR")]
    etc: Option<PathBuf>,
    /// Print data as JSON: one object, or one a line for lists
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a home if needed, serve, send one real request, and show what happened
    Quickstart(quickstart::Quickstart),
    /// Make a home: configuration, policies, tools, ledger key
    Init(init::Init),
    /// Run the server in the foreground
    #[command(visible_alias = "start")]
    Serve(serve::Serve),
    /// Start tools for a front at the other end of a socket
    #[command(hide = true)]
    Launcher(launcher::Launcher),
    /// Have the running server load tools, scripts, policies, groups and secrets anew, all or nothing
    Reload(reload::Reload),
    /// Send a message to the agent: to the running server, else in this process
    Run(run::Run),
    /// Calls that wait for a person: look at them, approve them, deny them
    Approval(approval::Approvals),
    /// API keys
    #[command(subcommand)]
    Key(key::Key),
    /// The ledger: verify it, read it, prove what is in it
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Copy a home to a folder: all but the keys that sign, and workspace/
    Backup(backup::Backup),
    /// Make a home of such a copy: its log is set aside, and a new one begins behind it
    Restore(backup::Restore),
    /// Policies: check them, ask them
    #[command(subcommand)]
    Policy(policy::Policy),
    /// Tools: list, show, call
    #[command(subcommand)]
    Tool(tool::Tool),
    /// The configuration in force
    #[command(subcommand)]
    Config(config::Configuration),
    /// Check this host and this home: protections, files, ledger, clock, disk, model
    Doctor(doctor::Doctor),
    /// Print completions for a shell
    Completion(manual::Completion),
    /// Print the manual
    Man(manual::Manual),
}

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main() -> u8 {
    let cli = match Cli::try_parse_from(arguments()) {
        Ok(cli) => cli,
        Err(e) => {
            let code = if e.use_stderr() { exit::USAGE } else { exit::OK };
            return match e.print() {
                // Help that nobody reads to its end has helped.
                Err(e) if e.kind() != ErrorKind::BrokenPipe => exit::FAILED,
                _ => code,
            };
        }
    };
    match dispatch(&cli) {
        Ok(code) => code,
        Err(fail) => {
            show::note(&format!("par: {fail}"));
            fail.code
        }
    }
}

/// Stands in front of a word of a query that begins with `-`: no argument of the system can hold it.
const NEGATED: char = '\0';

/// The arguments, with the words of queries that begin with a `-` marked: `-kind:x` is no row of options. Options of
/// these commands have two dashes, or are two characters long.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let takes_query = arguments.windows(2).any(|two| {
        two.first().is_some_and(|one| one == "audit")
            && two.last().is_some_and(|other| other == "show" || other == "export")
    });
    for argument in arguments.iter_mut().filter(|_| takes_query) {
        let word = argument
            .to_str()
            .filter(|word| word.len() > 2 && word.starts_with('-') && !word.starts_with("--"));
        if let Some(marked) = word.map(|word| format!("{NEGATED}{word}")) {
            *argument = marked.into();
        }
    }
    arguments
}

/// The query that these words make.
fn query(words: &[String]) -> String {
    words.iter().map(|word| word.strip_prefix(NEGATED).unwrap_or(word)).collect::<Vec<_>>().join(" ")
}

fn dispatch(cli: &Cli) -> Result<u8, Fail> {
    let place = &cli.place;
    let home = Home::locate(place.home.as_deref(), place.etc.as_deref())
        .map_err(|e| Fail::usage(format!("the home cannot be named: {e}")))?;
    match &cli.command {
        Command::Init(init) => init.run(&home, place.json),
        Command::Quickstart(quickstart) => quickstart.run(home, place.json),
        Command::Serve(serve) => serve.run(load(home)?),
        Command::Launcher(launcher) => launcher.run(home),
        Command::Reload(reload) => reload.run(&load(home)?, place.json),
        Command::Run(run) => run.run(home, place.json),
        Command::Approval(approval) => approval.run(home, place.json),
        Command::Key(key) => key.run(load(home)?, place.json),
        Command::Audit(audit) => audit.run(home, place.json),
        Command::Backup(backup) => backup.run(&load(home)?, place.json),
        Command::Restore(restore) => restore.run(&home, place.json),
        Command::Policy(policy) => policy.run(&load(home)?, place.json),
        Command::Tool(tool) => tool.run(load(home)?, place.json),
        Command::Config(configuration) => configuration.run(load(home)?, place.json),
        Command::Doctor(doctor) => doctor.run(made(home)?, place.json),
        Command::Completion(completion) => completion.run(),
        Command::Man(manual) => manual.run(),
    }
}

fn load(home: Home) -> Result<Config, Fail> {
    Config::load(made(home)?).map_err(Fail::usage)
}

fn made(home: Home) -> Result<Home, Fail> {
    if !home.is_made() {
        let root = home.root.display();
        return Err(Fail::usage(format!(
            "there is no home in `{root}`: make one with `par init --home {root}`"
        )));
    }
    Ok(home)
}
