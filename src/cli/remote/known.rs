//! The logs that a caller knows: for each address its key and the newest checkpoint that was seen, as ssh
//! remembers the keys of hosts.

use crate::cli::exit::Fail;
use crate::config::{Home, known_logs_file};
use crate::ledger::{Checkpoint, Note, VerifierKey};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// A log that was met before; a line of the file, as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Known {
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
pub(in crate::cli) fn address(home: &Home) -> String {
    std::path::absolute(&home.data).unwrap_or_else(|_| home.data.clone()).display().to_string()
}

/// A log's key, and the newest checkpoint of it that was seen.
pub(in crate::cli) type Met = (VerifierKey, Option<Note>);

/// The log that was met at `address`.
pub(in crate::cli) fn find(address: &str) -> Result<Option<Met>, Fail> {
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
pub(in crate::cli) fn verified(address: &str) -> Result<Option<Note>, Fail> {
    let Some(path) = known_logs_file() else { return Ok(None) };
    let fail = |e: &dyn std::fmt::Display| Fail::usage(format!("{}: {e}", path.display()));
    let known = read(&path).map_err(|e| fail(&e))?.into_iter().find(|known| known.address == address);
    let note = known.and_then(|known| known.verified);
    note.map(|note| Note::parse(&note)).transpose().map_err(|e| fail(&e))
}

/// Remembers a log; a checkpoint of fewer entries than the one that is there changes nothing.
pub(in crate::cli) fn remember(address: &str, key: &VerifierKey, note: Option<&Note>) -> Result<(), Fail> {
    put(address, key, note, None)
}

/// As [`remember`], and that every entry up to the checkpoint `verified` was verified.
pub(in crate::cli) fn remember_verified(
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
