//! The logs that a caller knows: for each address its key and the newest checkpoint that was seen, as ssh
//! remembers the keys of hosts. A log that does not go on from there is refused.

use super::exit::{self, Fail};
use super::remote::Server;
use super::show;
use crate::config::{Home, known_logs_file};
use crate::ledger::{Checkpoint, Head, Note, VerifierKey, proof};
use crate::types::{Digest, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// A log that was met before; a line of the file, as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// A URL, or the path of a home.
    address: String,
    /// The log's verifier key.
    key: String,
    /// The newest checkpoint that was seen; none where only the key was told.
    checkpoint: Option<String>,
    /// The newest checkpoint up to which every entry was verified; none where that was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verified: Option<String>,
}

/// What a home's log is remembered by.
pub(super) fn address(home: &Home) -> String {
    std::path::absolute(&home.data).unwrap_or_else(|_| home.data.clone()).display().to_string()
}

/// A log's key, and the newest checkpoint of it that was seen.
pub(super) type Met = (VerifierKey, Option<Note>);

/// The log that was met at `address`.
pub(super) fn of(address: &str) -> Result<Option<Met>, Fail> {
    let Some(path) = known_logs_file() else { return Ok(None) };
    let known = read(&path).map_err(|e| Fail::usage(format!("{}: {e}", path.display())))?;
    let Some(known) = known.into_iter().find(|known| known.address == address) else { return Ok(None) };
    let broken = |what: &str| Fail::usage(format!("{}: {address}: {what}", path.display()));
    let key = VerifierKey::parse(&known.key).ok_or_else(|| broken("its key is no verifier key"))?;
    let note =
        known.checkpoint.map(|note| Note::parse(&note)).transpose().map_err(|e| broken(&e.to_string()))?;
    Ok(Some((key, note)))
}

/// The checkpoint up to which the log that was met at `address` was verified whole.
pub(super) fn verified(address: &str) -> Result<Option<Note>, Fail> {
    let Some(path) = known_logs_file() else { return Ok(None) };
    let fail = |e: &dyn std::fmt::Display| Fail::usage(format!("{}: {e}", path.display()));
    let known = read(&path).map_err(|e| fail(&e))?.into_iter().find(|known| known.address == address);
    let note = known.and_then(|known| known.verified);
    note.map(|note| Note::parse(&note)).transpose().map_err(|e| fail(&e))
}

/// Asks a server for its newest checkpoint, which has to go on from the one that was seen last, and remembers
/// it. A log that was not met before is taken at its word, and that is said.
pub(super) fn meet(server: &Server, address: &str) -> Result<(), Fail> {
    if known_logs_file().is_none() {
        return Ok(());
    }
    let met = of(address)?;
    hold(server, address, met, &server.text("/audit/checkpoint")?)
}

/// Holds a server to what was known of its log before it was asked, and remembers `note`, which it then told as
/// its newest checkpoint. What another command has seen meanwhile may be newer, and is no reason to alarm.
pub(super) fn hold(server: &Server, address: &str, met: Option<Met>, note: &str) -> Result<(), Fail> {
    if known_logs_file().is_none() {
        return Ok(());
    }
    let unlike = |what: &str| unlike(address, what);
    let newest = Note::parse(note).map_err(|e| unlike(&e.to_string()))?;
    let now = Checkpoint::parse(newest.text()).map_err(|e| unlike(&e.to_string()))?;
    let (key, seen) = match met {
        Some(met) => met,
        None => {
            let told = server.text("/audit/key")?;
            let key =
                VerifierKey::parse(told.trim_end()).ok_or_else(|| unlike("it tells no verifier key"))?;
            show::note(&format!("{address}: met for the first time; its log is remembered as {key}"));
            (key, None)
        }
    };
    if now.origin != key.name() || !newest.is_signed_by(&key) {
        let shown = text::visible_line(&now.origin);
        return Err(unlike(&format!("its log is `{shown}`, and `{}` was met here", key.name())));
    }
    if let Some(seen) = seen {
        let before = Checkpoint::parse(seen.text()).map_err(|e| unlike(&e.to_string()))?.head;
        extends(server, address, before, now.head)?;
    }
    remember(address, &key, Some(&newest))
}

/// That the tree of a server begins with the one that was seen.
fn extends(server: &Server, address: &str, before: Head, here: Head) -> Result<(), Fail> {
    if here.size < before.size {
        let what = format!("it has {} entries, and had {}", here.size, before.size);
        return Err(unlike(address, &what));
    }
    let path = match here.size > before.size {
        true => consistency(server, before.size, here.size)?,
        false => Vec::new(),
    };
    if proof::is_extended(before, here, &path) {
        return Ok(());
    }
    Err(unlike(address, &format!("its first {} entries are not those that were there", before.size)))
}

fn consistency(server: &Server, from: u64, to: u64) -> Result<Vec<Digest>, Fail> {
    let told = server.ask(&format!("/audit/consistency?from={from}&to={to}"), None)?;
    let hashes = told.get("proof").and_then(Value::as_array).into_iter().flatten();
    Ok(hashes.filter_map(|hash| Digest::from_hex(hash.as_str()?)).collect())
}

fn unlike(address: &str, what: &str) -> Fail {
    let trust =
        format!("If that is right, `par audit trust {address} --key KEY` takes the log as it is now.");
    Fail::new(
        exit::UNVERIFIED,
        format!(
            "{address}: the ledger is not the one that was met here: {what}. It was rolled back, rewritten or \
                 exchanged. {trust}"
        ),
    )
}

/// Remembers a log; a checkpoint of fewer entries than the one that is there changes nothing.
pub(super) fn remember(address: &str, key: &VerifierKey, note: Option<&Note>) -> Result<(), Fail> {
    put(address, key, note, None)
}

/// As [`remember`], and that every entry up to the checkpoint `verified` was verified.
pub(super) fn remember_verified(
    address: &str,
    key: &VerifierKey,
    note: Option<&Note>,
    verified: &Note,
) -> Result<(), Fail> {
    put(address, key, note, Some(verified))
}

fn put(address: &str, key: &VerifierKey, note: Option<&Note>, verified: Option<&Note>) -> Result<(), Fail> {
    let Some(path) = known_logs_file() else { return Ok(()) };
    let entry = Known {
        address: address.to_owned(),
        key: key.to_string(),
        checkpoint: note.map(Note::to_string),
        verified: verified.map(Note::to_string),
    };
    write(&path, entry).map_err(|e| Fail::failed(format!("{}: {e}", path.display())))
}

fn read(path: &Path) -> io::Result<Vec<Known>> {
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
}

/// Puts a log in the place of the one at its address, under a lock, in one step.
fn write(path: &Path, entry: Known) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let open = |path: &Path| {
        std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
    };
    let lock = open(&path.with_extension("lock"))?;
    lock.lock()?;
    let mut known = read(path)?;
    match known.iter_mut().find(|known| known.address == entry.address) {
        Some(there) if there.key == entry.key && entry.checkpoint.is_some() => {
            // Another command may have seen more in the meantime.
            if size(&entry.checkpoint) >= size(&there.checkpoint) {
                there.checkpoint = entry.checkpoint;
            }
            there.verified = entry.verified.or(there.verified.take());
        }
        Some(there) => *there = entry,
        None => known.push(entry),
    }
    let fresh = path.with_extension("new");
    let mut file = open(&fresh)?;
    file.set_len(0)?;
    for known in &known {
        writeln!(file, "{}", serde_json::to_string(known).map_err(io::Error::other)?)?;
    }
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

fn size(note: &Option<String>) -> u64 {
    let note = note.as_deref().and_then(|note| Note::parse(note).ok());
    note.and_then(|note| Checkpoint::parse(note.text()).ok()).map_or(0, |checkpoint| checkpoint.head.size)
}
