//! `par backup` and `par restore`: a home without the keys that sign, and another log that begins behind it.

use super::exit::{self, Fail};
use super::init::{self, People};
use super::{audit, evidence, house, known, show};
use crate::auth;
use crate::config::{Config, Home};
use crate::ledger::payload::{KeyBefore, KeyCreatePayload};
use crate::ledger::{self, Before, Draft, Files, Header, Kind, Ledger, Lock, Outside, Reader, Report};
use crate::types::clock::Wall;
use crate::types::text;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const FORMAT: &str = "par/backup/1";
const LIST: &str = "backup.json";

/// What is in a backup, the last file that is written to it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct List {
    t: String,
    log: String,
    size: u64,
    root: String,
    /// Seconds since 1970.
    made_s: u64,
    program: String,
    /// Path in the backup → length and SHA-256.
    files: BTreeMap<String, (u64, String)>,
}

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// A folder that is not there yet
    folder: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// What `par backup` made
    folder: PathBuf,
    /// A checkpoint that was kept elsewhere: the backup must go on from it, or come before it
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Take the API keys over too; one that was revoked after the backup would count again
    #[arg(long)]
    keep_keys: bool,
    /// Whom the server runs as: owns data/. For root alone
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Whom tools run as: owns workspace/. For root alone
    #[arg(long, value_name = "USER")]
    tool_user: Option<String>,
}

impl Backup {
    /// Copies what a home is made of, also beside a running server: etc/, and of data/ the ledger, the bundles and the
    /// pepper. Not what signs, not state.db, which is made again, and not workspace/.
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let at = |e: io::Error| Fail::failed(format!("{}: {e}", self.folder.display()));
        DirBuilder::new().mode(0o700).create(&self.folder).map_err(at)?;
        let (data, to) = (&config.home.data, self.folder.join("data"));
        folder(&to, 0o700).map_err(at)?;
        copy_tree(&config.home.etc, &self.folder.join("etc")).map_err(Fail::failed)?;
        if data.join("bundles").is_dir() {
            copy_tree(&data.join("bundles"), &to.join("bundles")).map_err(Fail::failed)?;
        }
        if data.join("before").is_dir() {
            copy_tree(&data.join("before"), &to.join("before")).map_err(Fail::failed)?;
        }
        copy_file(&data.join("pepper"), &to.join("pepper")).map_err(Fail::failed)?;
        ledger::copy(&house::files(config), &to).map_err(Fail::failed)?;
        let report = ledger::audit(&Files::below(&to), &house::PROJECTIONS, &[]);
        if !report.verdict.holds() {
            audit::summary(&report).iter().try_for_each(|line| show::line(line))?;
            return Err(Fail::new(exit::UNVERIFIED, "the copy does not verify, and is no backup"));
        }
        let reader = Reader::open(&Files::below(&to).ledger()).map_err(Fail::failed)?;
        let log =
            reader.entry(0).map_err(Fail::failed)?.map(|genesis| genesis.header.log).unwrap_or_default();
        let list = List {
            t: FORMAT.to_owned(),
            log,
            size: report.entries,
            root: report.root.clone(),
            made_s: Wall::now().0 / 1_000_000,
            program: crate::types::VERSION.to_owned(),
            files: digests(&self.folder).map_err(at)?,
        };
        write_new(&self.folder.join(LIST), &serde_json::to_vec_pretty(&list).map_err(Fail::failed)?)
            .map_err(at)?;
        if is_json {
            show::json(&list)?;
        } else {
            let (files, root) = (list.files.len(), text::prefix(&list.root, 16));
            show::line(&format!(
                "{}: {} entries of par/{}, root {root}, in {files} files",
                self.folder.display(),
                list.size,
                list.log
            ))?;
            show::line(
                "  without the keys that sign: what is restored from it is another log. workspace/ is not in it.",
            )?;
        }
        Ok(exit::OK)
    }
}

impl Restore {
    /// Makes a home of a backup. Its log is set aside; a new one begins, whose first entry names it.
    pub(super) fn run(&self, home: &Home, is_json: bool) -> Result<u8, Fail> {
        if home.is_made() || home.data.exists() {
            return Err(Fail::usage(format!("there is a home in `{}` already", home.root.display())));
        }
        let owner = |name: &Option<String>| name.as_deref().map(house::user).transpose();
        let (user, tool_user) = (owner(&self.user)?, owner(&self.tool_user)?);
        let list = self.read()?;
        let report = self.verify(&list)?;
        let at = |e: io::Error| Fail::failed(format!("{}: {e}", home.root.display()));
        folder(&home.root, 0o755).map_err(at)?;
        copy_tree(&self.folder.join("etc"), &home.etc).map_err(Fail::failed)?;
        copy_tree(&self.folder.join("data"), &home.data).map_err(Fail::failed)?;
        std::fs::set_permissions(&home.data, std::fs::Permissions::from_mode(0o700)).map_err(at)?;
        init::make(home, People::Several)?;
        let config = super::load(home.clone())?;
        let files = house::files(&config);
        let lock = Lock::take(&files, Duration::ZERO).map_err(Fail::failed)?;
        let mut before = Before::of(&files, &report, "restore", "par restore");
        let keys = if self.keep_keys { live_keys(&files, &before.log)? } else { Vec::new() };
        let place = ledger::set_aside(&files, &mut before).map_err(at)?;
        let log = Ledger::succeed(files, lock, &house::PROJECTIONS).map_err(Fail::failed)?;
        let kept = keys.len();
        if kept > 0 {
            let by = auth::local(&config.home.data, auth::Role::Admin).map_err(Fail::failed)?.id();
            let drafts = keys.into_iter().map(|draft| Draft { principal: Some(by.clone()), ..draft });
            let _receipts = log.append_blocking(drafts.collect()).map_err(Fail::failed)?;
        }
        let key = log.reader().log_key().map_err(Fail::failed)?;
        // Who restores it knows it: other users and clients have to be told.
        known::remember(&known::address(&config.home), &key, None)?;
        drop(log);
        // The writer's thread ends with the lock.
        drop(Lock::take(&house::files(&config), Duration::from_secs(5)).map_err(Fail::failed)?);
        for (folder, owner) in [(&home.data, user), (&home.workspace, tool_user)] {
            owner.map_or(Ok(()), |owner| give_all(folder, owner))?;
        }
        if is_json {
            show::json(
                &serde_json::json!({ "home": home.root, "before": before, "key": key.to_string(), "keys": kept }),
            )?;
            return Ok(exit::OK);
        }
        let lines = [
            format!(
                "{}: behind {} entries of par/{}, which are in {}",
                home.root.display(),
                before.size,
                before.log,
                place.display()
            ),
            format!("  a new log begins: {key}"),
            match kept {
                0 => "  no API key was taken over: make new ones with `par key create`".to_owned(),
                _ => format!(
                    "  {kept} API keys were taken over: revoke those that were revoked since the backup"
                ),
            },
            "  clients that know the log before refuse this one until `par audit trust ADDRESS --key KEY`"
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

    /// Each file is the one that was written, there is no other, and the ledger among them holds.
    fn verify(&self, list: &List) -> Result<Report, Fail> {
        let mut there = digests(&self.folder).map_err(Fail::failed)?;
        there.remove(LIST);
        if let Some(name) =
            list.files.iter().find(|(name, is)| there.get(*name) != Some(*is)).map(|(name, _)| name)
        {
            return Err(Fail::new(exit::UNVERIFIED, format!("{name} is not as it was backed up")));
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
                vec![Outside { from, note: evidence::note(path)?, key: None }]
            }
            None => Vec::new(),
        };
        let report = ledger::audit(&Files::below(&self.folder.join("data")), &house::PROJECTIONS, &outside);
        let is_list = (report.entries, &report.root) == (list.size, &list.root);
        if !report.verdict.holds() || !is_list {
            audit::summary(&report).iter().try_for_each(|line| show::line(line))?;
            return Err(Fail::new(
                exit::UNVERIFIED,
                "the ledger of the backup does not hold: nothing was restored",
            ));
        }
        Ok(report)
    }
}

/// The entries that make the keys which were not revoked, to be made again.
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

/// Gives a folder and all that is below it to a user.
fn give_all(path: &Path, to: house::HostUser) -> Result<(), Fail> {
    let at = |e: io::Error| Fail::failed(format!("{}: {e}", path.display()));
    if std::fs::symlink_metadata(path).map_err(at)?.is_dir() {
        for entry in std::fs::read_dir(path).map_err(at)? {
            give_all(&entry.map_err(at)?.path(), to)?;
        }
    }
    init::give(path, to)
}

fn folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Copies a file with its mode. A link is not followed.
fn copy_file(from: &Path, to: &Path) -> Result<(), String> {
    let at = |e: io::Error| format!("{}: {e}", from.display());
    let meta = std::fs::symlink_metadata(from).map_err(at)?;
    if !meta.is_file() {
        return Err(format!("{}: is no file", from.display()));
    }
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(meta.permissions().mode() & 0o777)
        .open(to)
        .map_err(at)?;
    io::copy(&mut File::open(from).map_err(at)?, &mut copy).map_err(at)?;
    copy.sync_all().map_err(at)
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let at = |e: io::Error| format!("{}: {e}", from.display());
    let mode = std::fs::symlink_metadata(from).map_err(at)?.permissions().mode() & 0o777;
    folder(to, mode).map_err(at)?;
    for entry in std::fs::read_dir(from).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if std::fs::symlink_metadata(&path).map_err(at)?.is_dir() {
            copy_tree(&path, &copy)?;
        } else {
            copy_file(&path, &copy)?;
        }
    }
    Ok(())
}

/// Every file below a folder, by its path there, with its length and SHA-256.
fn digests(root: &Path) -> io::Result<BTreeMap<String, (u64, String)>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if std::fs::symlink_metadata(&path)?.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            found.insert(name, ledger::digest_of(&path)?);
        }
    }
    Ok(found)
}
