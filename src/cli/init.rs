//! `par init`: a home with files to edit, from copies embedded in the binary.

use super::exit::{self, Fail};
use super::house::{self, HostUser};
use super::{minimum, show};
use crate::config::Home;
use crate::ledger::{self, Files};
use crate::types::{limits, text};
use crate::{auth, launcher};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Every file of `etc/` as shipped. From then on the files count, and a person edits them.
const SHIPPED: [(&str, &str); 24] = [
    ("par.toml", include_str!("par.toml")),
    ("policies/00-api.cedar", include_str!("../../policies/00-api.cedar")),
    ("policies/10-read.cedar", include_str!("../../policies/10-read.cedar")),
    ("policies/20-deploy.cedar", include_str!("../../policies/20-deploy.cedar")),
    ("policies/30-service.cedar.disabled", include_str!("../../policies/30-service.cedar.disabled")),
    ("policies/40-taint.cedar", include_str!("../../policies/40-taint.cedar")),
    ("policies/90-never.cedar", include_str!("../../policies/90-never.cedar")),
    ("policies/entities.toml", include_str!("../../policies/entities.toml")),
    ("policies/tests/00-api.toml", include_str!("../../policies/tests/00-api.toml")),
    ("policies/tests/10-read.toml", include_str!("../../policies/tests/10-read.toml")),
    ("policies/tests/20-deploy.toml", include_str!("../../policies/tests/20-deploy.toml")),
    ("policies/tests/40-taint.toml", include_str!("../../policies/tests/40-taint.toml")),
    ("policies/tests/90-never.toml", include_str!("../../policies/tests/90-never.toml")),
    ("jobs.d/deploy.sh", include_str!("../../jobs.d/deploy.sh")),
    ("jobs.d/service_restart.pl", include_str!("../../jobs.d/service_restart.pl")),
    ("tools.d/deploy.toml", include_str!("../../tools.d/deploy.toml")),
    ("tools.d/git_clone.toml.disabled", include_str!("../../tools.d/git_clone.toml.disabled")),
    ("tools.d/health_check.toml", include_str!("../../tools.d/health_check.toml")),
    ("tools.d/http_get.toml.disabled", include_str!("../../tools.d/http_get.toml.disabled")),
    ("tools.d/list_dir.toml", include_str!("../../tools.d/list_dir.toml")),
    ("tools.d/read_file.toml", include_str!("../../tools.d/read_file.toml")),
    ("tools.d/search_files.toml", include_str!("../../tools.d/search_files.toml")),
    ("tools.d/service_restart.toml.disabled", include_str!("../../tools.d/service_restart.toml.disabled")),
    ("tools.d/tail_file.toml", include_str!("../../tools.d/tail_file.toml")),
];

/// What is otherwise in `etc/` where one person does all: one's own look at a call, outside the run, is enough.
const FOR_ONE: [(&str, &str); 3] = [
    ("policies/20-deploy.cedar", include_str!("../../policies/one/20-deploy.cedar")),
    ("policies/tests/20-deploy.toml", include_str!("../../policies/one/tests/20-deploy.toml")),
    ("policies/tests/40-taint.toml", include_str!("../../policies/one/tests/40-taint.toml")),
];

/// Who there is to say yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum People {
    /// Whoever asked confirms, outside the run
    One,
    /// Another user of a group approves
    Several,
}

impl People {
    fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Several => "several",
        }
    }

    /// Asked on a terminal. What is no answer makes no home.
    fn ask() -> Result<Self, Fail> {
        eprint!("Will one person use this, or several? With several, another one approves. [one/SEVERAL] ");
        io::stderr().flush().map_err(Fail::failed)?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(Fail::failed)?;
        match answer.trim() {
            "one" | "o" | "1" => Ok(Self::One),
            "several" | "s" | "" => Ok(Self::Several),
            other => {
                let other = text::visible_line(text::prefix(other, limits::SHOWN_BYTES_MAX));
                Err(Fail::usage(format!("`{other}` is neither `one` nor `several`")))
            }
        }
    }
}

/// A project to deploy, so that there is something to see: its files below `workspace/`.
const DEMO: [(&str, &str); 7] = [
    ("demo/incoming/1.0.0/VERSION", include_str!("../../demo/incoming/1.0.0/VERSION")),
    ("demo/incoming/1.0.0/app", include_str!("../../demo/incoming/1.0.0/app")),
    ("demo/incoming/1.0.1/VERSION", include_str!("../../demo/incoming/1.0.1/VERSION")),
    ("demo/incoming/1.0.1/app", include_str!("../../demo/incoming/1.0.1/app")),
    ("demo/incoming/1.0.2-broken/BROKEN", include_str!("../../demo/incoming/1.0.2-broken/BROKEN")),
    ("demo/incoming/1.0.2-broken/VERSION", include_str!("../../demo/incoming/1.0.2-broken/VERSION")),
    ("demo/incoming/1.0.2-broken/app", include_str!("../../demo/incoming/1.0.2-broken/app")),
];

#[derive(Debug, Args)]
pub(super) struct Init {
    /// Whom the server runs as: owns data/. For root alone
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Who there is to say yes to a call that waits [default: asked on a terminal, else several]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "one|several")]
    people: Option<People>,
    /// Whom tools run as: owns workspace/. For root alone
    #[arg(long, value_name = "USER")]
    tool_user: Option<String>,
}

impl Init {
    pub(super) fn run(&self, home: &Home, is_json: bool) -> Result<u8, Fail> {
        let owner = |name: &Option<String>| name.as_deref().map(house::user).transpose();
        // Looked up first: a home is made whole or not at all.
        let (user, tool_user) = (owner(&self.user)?, owner(&self.tool_user)?);
        if (user.is_some() || tool_user.is_some()) && !rustix::process::geteuid().is_root() {
            return Err(Fail::usage("only root can make a home for other users"));
        }
        if home.is_made() {
            return Err(Fail::usage(format!("there is a home in `{}` already", home.root.display())));
        }
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let people = match self.people {
            Some(people) => people,
            None if is_terminal && !is_json => People::ask()?,
            None => People::Several,
        };
        make(home, people)?;
        let found = minimum::settle(home, tool_user.is_some())?;
        if is_json {
            let people = people.as_str();
            let sandbox = json!({ "minimum": found.level, "lacking": found.lacking });
            let (root, etc, data) = (&home.root, &home.etc, &home.data);
            show::json(
                &json!({ "home": root, "etc": etc, "data": data, "people": people, "sandbox": sandbox }),
            )?;
        } else {
            show::line(&made(home))?;
            found.tell()?;
        }
        if let Some(user) = user {
            let files = Files::below(&home.data);
            for path in [home.data.clone(), files.log_key(), home.data.join("pepper")] {
                give(&path, user)?;
            }
        }
        if let Some(user) = tool_user {
            give(&home.workspace, user)?;
        }
        Ok(exit::OK)
    }
}

pub(super) fn give(path: &Path, to: HostUser) -> Result<(), Fail> {
    // A link is never followed: it would be somebody else's doing.
    std::os::unix::fs::lchown(path, Some(to.uid), Some(to.gid))
        .map_err(|e| Fail::failed(format!("{}: {e}", path.display())))
}

/// What was made, in a line.
pub(super) fn made(home: &Home) -> String {
    format!(
        "Created {}: {} (par.toml, policies/, tools.d/, jobs.d/), data/ (ledger, keys), workspace/ (demo)",
        home.root.display(),
        home.etc.strip_prefix(&home.root).map_or(home.etc.display(), Path::display)
    )
}

/// Makes what is missing; files that are there stay as they are.
pub(super) fn make(home: &Home, people: People) -> Result<(), Fail> {
    let refuse = |path: &Path, e: io::Error| Fail::usage(format!("{}: {e}", path.display()));
    // The shipped cases are about the shipped policies: beside others they would refuse the load.
    let has_policies = home.etc.join("policies").exists();
    for (folder, mode) in [
        (home.root.clone(), 0o755),
        (home.etc.clone(), 0o755),
        (home.etc.join("policies"), 0o755),
        (home.etc.join("policies/tests"), 0o755),
        (home.etc.join("tools.d"), 0o755),
        (home.etc.join("jobs.d"), 0o755),
        (home.data.clone(), 0o700),
    ] {
        make_folder(&folder, mode).map_err(|e| refuse(&folder, e))?;
    }
    make_workspace(&home.workspace).map_err(|e| refuse(&home.workspace, e))?;
    let is_apart = |name: &str| has_policies && name.starts_with("policies/tests/");
    for (name, text) in SHIPPED.into_iter().filter(|(name, _)| !is_apart(name)) {
        let path = home.etc.join(name);
        let for_one = FOR_ONE.into_iter().find(|(other, _)| *other == name && people == People::One);
        let text = for_one.map_or(text, |(_, text)| text);
        make_file(&path, text.as_bytes(), 0o644).map_err(|e| refuse(&path, e))?;
    }
    let files = Files::below(&home.data);
    let (log_key, pepper) = (files.log_key(), home.data.join("pepper"));
    if !log_key.exists() {
        ledger::key::make(&log_key).map_err(|e| refuse(&log_key, e))?;
    }
    if !pepper.exists() {
        auth::make_pepper(&pepper).map_err(|e| refuse(&pepper, e))?;
    }
    Ok(())
}

/// The workspace with the demo in it, owned by whom tools run as.
///
/// One that is there is left alone, whatever it lacks: tools write in it, and may have put a link where
/// this process, which may be root, would follow it.
fn make_workspace(workspace: &Path) -> io::Result<()> {
    if workspace.is_dir() {
        return Ok(());
    }
    let mut made = vec![workspace.to_owned()];
    make_folder(workspace, 0o755)?;
    for (name, text) in DEMO {
        let path = workspace.join(name);
        let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            make_folder(folder, 0o755)?;
            made.push(folder.to_owned());
        }
        make_file(&path, text.as_bytes(), 0o644)?;
        made.push(path);
    }
    let Some((uid, gid)) = launcher::tool_owner() else { return Ok(()) };
    // Nobody else could write there until now, the top folder last.
    made.iter().rev().try_for_each(|path| std::os::unix::fs::lchown(path, Some(uid), Some(gid)))
}

fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

fn make_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(mut file) => {
            file.write_all(bytes)?;
            file.sync_all()
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}
