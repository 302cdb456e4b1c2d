//! The definition of the command line, and what each command leads to.

use super::exit::{self, Fail};
use super::{
    approval, audit, backup, compose, config, doctor, init, key, manual, policy, query, quickstart, reload,
    run, serve, show, tool,
};
use crate::config::Home;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

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
    Launcher(serve::Launcher),
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
    let cli = match Cli::try_parse_from(query::arguments()) {
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

fn dispatch(cli: &Cli) -> Result<u8, Fail> {
    let place = &cli.place;
    let home = Home::locate(place.home.as_deref(), place.etc.as_deref())
        .map_err(|e| Fail::usage(format!("the home cannot be named: {e}")))?;
    match &cli.command {
        Command::Init(init) => init.run(&home, place.json),
        Command::Quickstart(quickstart) => quickstart.run(home, place.json),
        Command::Serve(serve) => serve.run(compose::load(home)?),
        Command::Launcher(launcher) => launcher.run(home),
        Command::Reload(reload) => reload.run(&compose::load(home)?, place.json),
        Command::Run(run) => run.run(home, place.json),
        Command::Approval(approval) => approval.run(home, place.json),
        Command::Key(key) => key.run(compose::load(home)?, place.json),
        Command::Audit(audit) => audit.run(home, place.json),
        Command::Backup(backup) => backup.run(&compose::load(home)?, place.json),
        Command::Restore(restore) => restore.run(&home, place.json),
        Command::Policy(policy) => policy.run(&compose::load(home)?, place.json),
        Command::Tool(tool) => tool.run(compose::load(home)?, place.json),
        Command::Config(configuration) => configuration.run(compose::load(home)?, place.json),
        Command::Doctor(doctor) => doctor.run(compose::made(home)?, place.json),
        Command::Completion(completion) => completion.run(&Cli::command()),
        Command::Man(manual) => manual.run(&Cli::command()),
    }
}
