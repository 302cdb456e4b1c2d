//! The logs that a caller knows: for each address, the log's key and the newest checkpoint seen
//! there. It works like the known hosts of ssh.

use crate::cli::exit::Fail;
use crate::config::{Home, known_logs_file};
use crate::ledger::{Checkpoint, Note, VerifierKey};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// A known log; one line of the file, as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Known {
    /// A URL, or the path of a home.
    address: String,
    /// The log's verifier key.
    key: String,
    /// The newest checkpoint seen; none if only the key is known.
    checkpoint: Option<String>,
    /// The newest checkpoint up to which every entry was verified; none if that was never done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verified: Option<String>,
}

/// The address under which a home's log is known.
pub(in crate::cli) fn address(home: &Home) -> String {
    std::path::absolute(&home.data).unwrap_or_else(|_| home.data.clone()).display().to_string()
}

/// A log's key and the newest checkpoint seen.
pub(in crate::cli) type KnownLog = (VerifierKey, Option<Note>);

/// Returns the log known at `address`.
pub(in crate::cli) fn find(address: &str) -> Result<Option<KnownLog>, Fail> {
    let Some(path) = known_logs_file() else { return Ok(None) };
    let known = read(&path).map_err(|e| Fail::usage(format!("{}: {e}", path.display())))?;
    let Some(known) = known.into_iter().find(|known| known.address == address) else { return Ok(None) };
    let broken = |what: &str| Fail::usage(format!("{}: {address}: {what}", path.display()));
    let key = VerifierKey::parse(&known.key).ok_or_else(|| broken("its key is not a verifier key"))?;
    let note =
        known.checkpoint.map(|note| Note::parse(&note)).transpose().map_err(|e| broken(&e.to_string()))?;
    Ok(Some((key, note)))
}

/// Returns the checkpoint up to which the log at `address` was verified completely.
pub(in crate::cli) fn verified(address: &str) -> Result<Option<Note>, Fail> {
    let Some(path) = known_logs_file() else { return Ok(None) };
    let fail = |e: &dyn std::fmt::Display| Fail::usage(format!("{}: {e}", path.display()));
    let known = read(&path).map_err(|e| fail(&e))?.into_iter().find(|known| known.address == address);
    let note = known.and_then(|known| known.verified);
    note.map(|note| Note::parse(&note)).transpose().map_err(|e| fail(&e))
}

/// Remembers a log. A checkpoint with fewer entries than the remembered one changes nothing.
pub(in crate::cli) fn remember(address: &str, key: &VerifierKey, note: Option<&Note>) -> Result<(), Fail> {
    put(address, key, note, None)
}

/// Like [`remember`], and records that every entry up to the checkpoint `verified` was verified.
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

/// Replaces the log at its address atomically, under a lock.
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
