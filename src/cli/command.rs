//! Defines the command line and dispatches each command.

use super::exit::{self, Fail};
use super::{
    approval, audit, backup, chat, compose, config, doctor, halt, init, key, login, manual, model, policy,
    query, quickstart, reload, run, runbook, runs, serve, sessions, show, tool,
};
use crate::config::Home;
use crate::types;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use std::io;
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

/// The heading of the options that every command has.
const GLOBAL: &str = "Global options";

#[derive(Debug, Args)]
struct Place {
    /// Home folder with etc/, data/ and workspace/ [default: the folders of the installed service,
    /// else ./par-home] [env: PAR_HOME]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    home: Option<PathBuf>,
    /// Folder of configuration, policies and tools [default: the home's etc/]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    etc: Option<PathBuf>,
    /// Print JSON: one object, or one object per line for a list
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try PAR: create a home if needed, start a server, send two messages and show the result
    Quickstart(quickstart::Quickstart),
    /// Create a home: configuration, policies, tools and the ledger's key
    Init(init::Init),
    /// Run the server in the foreground
    #[command(visible_alias = "start")]
    Serve(serve::Serve),
    /// Start tools for a front at the other end of a socket
    #[command(hide = true)]
    Launcher(serve::Launcher),
    /// Reload tools, scripts, policies, runbooks, groups and secrets in the running server, all or
    /// nothing
    Reload(reload::Reload),
    /// Send a message to the agent, through the running server or, without one, in this process
    Run(run::Run),
    /// List runs, show one, send its message again, or cancel it
    #[command(subcommand)]
    Runs(runs::PastRuns),
    /// Talk with the agent: each message goes on with the same session
    Chat(chat::Chat),
    /// List sessions, show the runs of one, or end it
    #[command(subcommand)]
    Sessions(sessions::SessionCommand),
    /// Halt everything, a key, a tool or a session, and lift a halt
    Halt(halt::HaltCommand),
    /// List, show, approve and deny calls that wait for a person's approval
    Approval(approval::Approvals),
    /// Print a link that opens a login for answering approvals on the dashboard
    Login(login::LoginLink),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(key::Key),
    /// Verify, search and export the ledger, prove entries and erase payloads
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Back up a home to a folder, except the signing keys and workspace/
    Backup(backup::Backup),
    /// Restore a backup into a new home that keeps the old log and begins a new log
    Restore(backup::Restore),
    /// Check, test, explain, replay, compare and format policies
    #[command(subcommand)]
    Policy(policy::Policy),
    /// List runbooks, and check what the rules would decide on their steps
    #[command(subcommand)]
    Runbook(runbook::RunbookCommand),
    /// List, show, add, enable, disable and call tools
    #[command(subcommand)]
    Tool(tool::Tool),
    /// Show or check the effective configuration
    #[command(subcommand)]
    Config(config::Configuration),
    /// List models, show their status, store their keys, and try them
    #[command(subcommand)]
    Model(model::ModelCommand),
    /// Check this host and this home: protections, files, ledger, clock, disk and model
    Doctor(doctor::Doctor),
    /// Print a completion script for a shell
    Completion(manual::Completion),
    /// Print the manual page
    Man(manual::Manual),
}

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main() -> u8 {
    let cli = match Cli::try_parse_from(query::arguments()) {
        Ok(cli) => cli,
        Err(e) => {
            if let Some(message) = usage(&e) {
                show::note(&message);
                return exit::USAGE;
            }
            let code = if e.use_stderr() { exit::USAGE } else { exit::OK };
            return match e.print() {
                // A reader that closes the pipe early has read enough of the help.
                Err(e) if e.kind() != io::ErrorKind::BrokenPipe => exit::FAILED,
                _ => code,
            };
        }
    };
    match dispatch(&cli) {
        Ok(code) => code,
        Err(fail) => {
            show::note(&format!("par: {fail}"));
            let home = || Home::locate(cli.place.home.as_deref(), cli.place.etc.as_deref()).ok();
            if let Some(hint) = fail.is_of_rules.then(home).flatten().as_ref().and_then(init::hint) {
                show::note(&format!("par: {hint}"));
            }
            fail.code
        }
    }
}

/// The message for a wrong command line, in the form of every other error. `None` for a help text.
fn usage(error: &clap::Error) -> Option<String> {
    let text = error.render().to_string();
    let mut message = format!("par: {}", text.strip_prefix("error: ")?.trim_end());
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(meant) = meant(word, &message)
    {
        let first = message.find("\n\n").unwrap_or(message.len());
        let rest = message.split_off(first);
        // Instead of what clap says, which measures likeness by another rule.
        let rest = match rest.strip_prefix("\n\n  tip: ").map(|tip| tip.find("\n\n")) {
            Some(end) => end.and_then(|end| rest.get("\n\n  tip: ".len() + end..)).unwrap_or_default(),
            None => rest.as_str(),
        };
        message.push_str(&format!("\n\n  tip: did you mean `{meant}`?{rest}"));
    }
    Some(message)
}

/// The command that `word` was likely meant to be: one of the command whose usage `message` shows,
/// or at the top level one of another command, or a call of a tool.
fn meant(word: &str, message: &str) -> Option<String> {
    let cli = Cli::command();
    let usage = message.split("Usage: par").nth(1).unwrap_or_default();
    let path: Vec<&str> =
        usage.split_whitespace().take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    let inner = path.iter().try_fold(&cli, |command, name| command.find_subcommand(name))?;
    let names = |command: &'_ clap::Command| {
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        shown.map(|one| one.get_name().to_owned()).collect::<Vec<_>>()
    };
    let mut known: Vec<String> = names(inner);
    if let Some(meant) = types::nearest(word, known.iter().map(String::as_str)) {
        return Some([&["par"][..], &path, &[meant]].concat().join(" "));
    }
    if !path.is_empty() {
        return None;
    }
    known = inner
        .get_subcommands()
        .flat_map(|command| names(command).into_iter().map(|name| format!("{} {name}", command.get_name())))
        .collect();
    let last = |full: &'_ String| full.rsplit(' ').next().unwrap_or_default().to_owned();
    let lasts: Vec<String> = known.iter().map(last).collect();
    // Such as `par explain`; several commands have a `show`.
    let mut same = known.iter().zip(&lasts).filter(|(_, last)| *last == word);
    if let (Some((full, _)), None) = (same.next(), same.next()) {
        return Some(format!("par {full}"));
    }
    let nested = types::nearest(word, lasts.iter().map(String::as_str));
    let nested = nested.and_then(|name| known.iter().zip(&lasts).find(|(_, last)| *last == name));
    let of_tool = || types::nearest(word, init::tool_names()).map(|tool| format!("par tool call {tool}"));
    nested.map(|(full, _)| format!("par {full}")).or_else(of_tool)
}

fn dispatch(cli: &Cli) -> Result<u8, Fail> {
    let place = &cli.place;
    let home = Home::locate(place.home.as_deref(), place.etc.as_deref())
        .map_err(|e| Fail::usage(format!("the home folder cannot be determined: {e}")))?;
    match &cli.command {
        Command::Init(init) => init.run(&home, place.json),
        Command::Quickstart(quickstart) => quickstart.run(home, place.json),
        Command::Serve(serve) => serve.run(compose::load(home)?),
        Command::Launcher(launcher) => launcher.run(home),
        Command::Reload(reload) => reload.run(&compose::load(home)?, place.json),
        Command::Run(run) => match run.meant(Cli::command().get_subcommands().map(clap::Command::get_name)) {
            Some(meant) => Err(Fail::usage(format!(
                "did you mean `{meant}`? To send the word to the agent, write `par run -- WORD`"
            ))),
            None => run.run(home, place.json),
        },
        Command::Runs(runs) => runs.run(home, place.json),
        Command::Chat(chat) => chat.run(home, place.json),
        Command::Sessions(sessions) => sessions.run(home, place.json),
        Command::Halt(halt) => halt.run(&compose::load(home)?, place.json),
        Command::Approval(approval) => approval.run(home, place.json),
        Command::Login(login) => login.run(&compose::load(home)?, place.json),
        Command::Key(key) => key.run(compose::load(home)?, place.json),
        Command::Audit(audit) => audit.run(home, place.json),
        Command::Backup(backup) => backup.run(&compose::load(home)?, place.json),
        Command::Restore(restore) => restore.run(&home, place.json),
        Command::Policy(policy) => policy.run(&compose::load(home)?, place.json),
        Command::Runbook(runbook) => runbook.run(&compose::load(home)?, place.json),
        Command::Tool(tool) => tool.run(home, place.json),
        Command::Config(configuration) => configuration.run(compose::load(home)?, place.json),
        Command::Model(model) => model.run(&compose::load(home)?, place.json),
        Command::Doctor(doctor) => doctor.run(compose::made(home)?, place.json),
        Command::Completion(completion) => completion.run(&Cli::command()),
        Command::Man(manual) => manual.run(&Cli::command()),
    }
}
