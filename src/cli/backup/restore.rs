//! `par restore`: makes a home from a backup, with a new log after the old one.

use super::copy::{copy_tree, digests, folder, set_owner_of_tree};
use super::list::{FORMAT, LIST, List};
use crate::auth;
use crate::cli::exit::{self, Fail};
use crate::cli::init::{self, People};
use crate::cli::remote::known;
use crate::cli::{audit, compose, show};
use crate::config::Home;
use crate::ledger::payload::{KeyBefore, KeyCreatePayload};
use crate::ledger::{
    self, Draft, Files, Header, Kind, Ledger, Lock, Outside, PreviousLog, Reader, Verification,
};
use crate::types::text;
use clap::Args;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct Restore {
    /// Folder that `par backup` wrote
    folder: PathBuf,
    /// Checkpoint that was kept elsewhere: the backup must extend it or be older
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Restore the API keys too; a key revoked after the backup becomes valid again
    #[arg(long)]
    keep_keys: bool,
    /// User that the server runs as and that owns data/; needs root [default: the current user]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// User that tools run as and that owns workspace/; needs root [default: the current user]
    #[arg(long, value_name = "USER")]
    tool_user: Option<String>,
}

impl Restore {
    /// Makes a home from a backup. The old log is set aside. A new log begins, and its first entry
    /// names the old one.
    pub(in crate::cli) fn run(&self, home: &Home, is_json: bool) -> Result<u8, Fail> {
        if home.is_made() || home.data.exists() {
            return Err(Fail::usage(format!("a home already exists in `{}`", home.root.display())));
        }
        let owner = |name: &Option<String>| name.as_deref().map(compose::user).transpose();
        let (user, tool_user) = (owner(&self.user)?, owner(&self.tool_user)?);
        let list = self.read()?;
        let report = self.verify(&list)?;
        let at = |e: io::Error| Fail::failed(format!("{}: {e}", home.root.display()));
        folder(&home.root, 0o755).map_err(at)?;
        copy_tree(&self.folder.join("etc"), &home.etc).map_err(Fail::failed)?;
        copy_tree(&self.folder.join("data"), &home.data).map_err(Fail::failed)?;
        std::fs::set_permissions(&home.data, std::fs::Permissions::from_mode(0o700)).map_err(at)?;
        init::make(home, People::Several)?;
        let config = compose::load(home.clone())?;
        let files = compose::files(&config);
        let lock = Lock::take(&files, Duration::ZERO).map_err(Fail::failed)?;
        let mut before = PreviousLog::new(&files, &report, "restore", "par restore");
        let keys = if self.keep_keys { live_keys(&files, &before.log)? } else { Vec::new() };
        let place = ledger::set_aside(&files, &mut before).map_err(at)?;
        let log = Ledger::succeed(files, lock, &compose::PROJECTIONS).map_err(Fail::failed)?;
        let kept = keys.len();
        if kept > 0 {
            let by = auth::local(&config.home.data, auth::Role::Admin).map_err(Fail::failed)?.id();
            let drafts = keys.into_iter().map(|draft| Draft { principal: Some(by.clone()), ..draft });
            let _receipts = log.append_blocking(drafts.collect()).map_err(Fail::failed)?;
        }
        let key = log.reader().log_key().map_err(Fail::failed)?;
        // The person who restores knows of the new log. Other users and clients must be informed.
        known::remember(&known::address(&config.home), &key, None)?;
        drop(log);
        // The writer's thread ends with the lock.
        drop(Lock::take(&compose::files(&config), Duration::from_secs(5)).map_err(Fail::failed)?);
        for (folder, owner) in [(&home.data, user), (&home.workspace, tool_user)] {
            owner.map_or(Ok(()), |owner| set_owner_of_tree(folder, owner))?;
        }
        if is_json {
            show::json(
                &serde_json::json!({ "home": home.root, "before": before, "key": key.to_string(), "keys": kept }),
            )?;
            return Ok(exit::OK);
        }
        let lines = [
            format!(
                "{}: restored; {} entries of the old log par/{} are in {}",
                home.root.display(),
                before.size,
                before.log,
                place.display()
            ),
            format!("  a new log begins: {key}"),
            match kept {
                0 => "  no API key was restored: create new ones with `par key create`".to_owned(),
                _ => format!(
                    "  {kept} API keys were restored: revoke again any that was revoked after the backup"
                ),
            },
            "  clients that know the old log refuse this one until they run \
             `par audit trust ADDRESS --key KEY`"
                .to_owned(),
        ];
        lines.iter().try_for_each(|line| show::line(line))?;
        Ok(exit::OK)
    }

    fn read(&self) -> Result<List, Fail> {
        let path = self.folder.join(LIST);
        let bad = |e: &dyn std::fmt::Display| Fail::usage(format!("{}: {e}", path.display()));
        let list: List =
            serde_json::from_slice(&std::fs::read(&path).map_err(|e| bad(&e))?).map_err(|e| bad(&e))?;
        if list.t != FORMAT {
            return Err(bad(&format!("`t` is not {FORMAT}")));
        }
        Ok(list)
    }

    /// Checks that each file is unchanged, that there are no others, and that the ledger among them
    /// verifies.
    fn verify(&self, list: &List) -> Result<Verification, Fail> {
        let mut there = digests(&self.folder).map_err(Fail::failed)?;
        there.remove(LIST);
        if let Some(name) =
            list.files.iter().find(|(name, is)| there.get(*name) != Some(*is)).map(|(name, _)| name)
        {
            return Err(Fail::new(exit::UNVERIFIED, format!("{name} has changed since the backup")));
        }
        if let Some(name) = there.keys().find(|name| !list.files.contains_key(*name)) {
            return Err(Fail::new(
                exit::UNVERIFIED,
                format!("{} was not in the backup", text::visible_line(name)),
            ));
        }
        let outside = match &self.checkpoint {
            Some(path) => {
                let from = path.display().to_string();
                vec![Outside { from, note: audit::note(path)?, key: None }]
            }
            None => Vec::new(),
        };
        let report = ledger::audit(&Files::below(&self.folder.join("data")), &compose::PROJECTIONS, &outside);
        let is_list = (report.entries, &report.root) == (list.size, &list.root);
        if !report.verdict.holds() || !is_list {
            audit::summary(&report).iter().try_for_each(|line| show::line(line))?;
            return Err(Fail::new(
                exit::UNVERIFIED,
                "the ledger of the backup does not verify: nothing was restored",
            ));
        }
        Ok(report)
    }
}

/// Returns the drafts that create the keys which were not revoked, to be appended again.
fn live_keys(files: &Files, log: &str) -> Result<Vec<Draft>, Fail> {
    let reader = Reader::open(&files.ledger()).map_err(Fail::failed)?;
    let size = reader.size().map_err(Fail::failed)?;
    let mut keys: BTreeMap<u64, Draft> = BTreeMap::new();
    let wants = |header: &Header| header.is(Kind::KeyCreate) || header.is(Kind::KeyRevoke);
    reader
        .walk(0..size, wants, |stored| {
            if stored.header.is(Kind::KeyRevoke) {
                keys.retain(|seq, _| Some(*seq) != stored.header.u64("ref"));
                return;
            }
            let Some(made) = stored.payload::<KeyCreatePayload>() else { return };
            let seq = stored.header.seq;
            let before = Some(KeyBefore { log: log.to_owned(), seq });
            keys.insert(seq, Draft::new(KeyCreatePayload { power: None, before, ..made }));
        })
        .map_err(Fail::failed)?;
    Ok(keys.into_values().collect())
}
