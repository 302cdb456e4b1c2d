//! `par init`: creates a home with files to edit, from copies embedded in the binary, and upgrades
//! those of an edited home.
//!
//! # Layout
//!
//! * `ask`: questions on the terminal
//! * `people`: whether one person or several approve calls
//! * `shipped`: the files of a new home
//! * `record`: what was shipped to a home
//! * `earlier`: whether a home was made by another version
//! * `files`: creates folders and files
//! * `unified`: the difference between two texts
//! * `upgrade`: brings shipped files up to date
//! * `minimum`: the sandbox level of the new home
//! * `host`: what this host has, and the reading tools for it

mod ask;
mod people;
mod shipped;
mod record;
mod earlier;
mod files;
mod minimum;
mod host;
mod unified;
mod upgrade;

pub(super) use earlier::hint;
pub(super) use files::{made, make, set_owner};
use minimum::Found;
pub(super) use minimum::set_minimum;
pub(super) use people::People;
pub(super) use shipped::{is_shipped, tool_names};

use crate::cli::exit::{self, Fail};
use crate::cli::new::SwitchedTool;
use crate::cli::{compose, show};
use crate::config::Home;
use crate::ledger::Files;
use clap::Args;
use host::HostTools;
use serde_json::json;
use std::io::{self, IsTerminal as _};

#[derive(Debug, Args)]
pub(super) struct Init {
    /// User that the server runs as and that owns data/; needs root [default: the current user]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// How many people work with this home; with `several`, another user must approve calls
    /// [default: ask on a terminal, else several]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "one|several")]
    people: Option<People>,
    /// User that tools run as and that owns workspace/; needs root [default: the current user]
    #[arg(long, value_name = "USER")]
    tool_user: Option<String>,
    /// Ask nothing: several people, and every reading tool that fits this host is enabled
    #[arg(long)]
    yes: bool,
    /// Instead of creating a home, show which files of its etc/ this version adds or changes;
    /// edited ones are shown as a difference, removed ones stay away
    #[arg(long, conflicts_with_all = ["user", "people", "tool_user", "yes"])]
    upgrade: bool,
    /// With `--upgrade`: write what it shows
    #[arg(long, requires = "upgrade")]
    apply: bool,
    /// With `--upgrade`: take this shipped file, although it was removed or edited
    #[arg(long, requires = "upgrade", value_name = "FILE")]
    restore: Vec<String>,
}

impl Init {
    pub(super) fn run(&self, home: &Home, is_json: bool) -> Result<u8, Fail> {
        if self.upgrade {
            return upgrade::upgrade(home, &self.restore, self.apply, is_json);
        }
        let owner = |name: &Option<String>| name.as_deref().map(compose::user).transpose();
        // Look the users up first, so that a failure leaves no partial home.
        let (user, tool_user) = (owner(&self.user)?, owner(&self.tool_user)?);
        if (user.is_some() || tool_user.is_some()) && !rustix::process::geteuid().is_root() {
            return Err(Fail::usage("only root can create a home for other users"));
        }
        if home.is_made() {
            let root = home.root.display();
            let mend = "`par init --upgrade` shows what this version ships";
            return Err(Fail::usage(format!("a home already exists in `{root}`: {mend}")));
        }
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let people = match self.people {
            Some(people) => people,
            None if is_terminal && !is_json && !self.yes => People::ask()?,
            None => People::Several,
        };
        make(home, people)?;
        let found = set_minimum(home, tool_user.is_some())?;
        let tools = match (self.yes, is_terminal && !is_json) {
            (true, _) => HostTools::All,
            (false, true) => HostTools::Ask,
            (false, false) => HostTools::AsShipped,
        };
        if tools != HostTools::AsShipped && !is_json {
            show::note(&format!("This host has: {}", host::parts().join(", ")));
        }
        let enabled = host::enable_reading(home, tools)?;
        if is_json {
            let people = people.as_str();
            let sandbox = json!({ "minimum": found.level, "lacking": found.missing });
            let (root, etc, data) = (&home.root, &home.etc, &home.data);
            let enabled: Vec<&str> = enabled.iter().map(SwitchedTool::name).collect();
            show::json(
                &json!({ "home": root, "etc": etc, "data": data, "people": people, "sandbox": sandbox,
                         "host": host::parts(), "enabled": enabled }),
            )?;
        } else {
            say(home, tools, &enabled, &found)?;
        }
        if let Some(user) = user {
            let files = Files::below(&home.data);
            for path in [home.data.clone(), files.log_key(), home.data.join("pepper")] {
                set_owner(&path, user)?;
            }
        }
        if let Some(user) = tool_user {
            set_owner(&home.workspace, user)?;
        }
        Ok(exit::OK)
    }
}

/// Tells a person what was made, and what to do next.
fn say(home: &Home, tools: HostTools, enabled: &[SwitchedTool], found: &Found) -> Result<(), Fail> {
    show::line(&made(home))?;
    let names: Vec<&str> = enabled.iter().map(SwitchedTool::name).collect();
    match tools {
        HostTools::AsShipped => show::line(
            "Without a terminal nothing was asked: tools are on and off as shipped, and `par tool enable NAME` \
             enables one",
        )?,
        _ if names.is_empty() => show::line("No further tool was enabled")?,
        _ => show::line(&format!("Enabled, because they only read: {}", names.join(", ")))?,
    }
    found.print()?;
    let par = format!("par --home {}", show::shell_word(&home.root));
    show::line(&format!(
        "Next:\n  {par} run 'how is this server doing?'     # no server and no model needed\n  \
         {par} key create NAME --role operator     # for a program or another person\n  \
         {par} serve"
    ))
}
