//! Replaces one log by another: after a backup, whose epoch key does not exist any more, or after
//! damage.
//!
//! The previous log is set aside unchanged, in `data/before/ID/`, and never written again. The
//! genesis entry of the new log names it: its id and key, its entries and root, and its files with
//! their digests. This record is durable next to the files before any of them is moved, so that the
//! next log names it even after a crash.

use crate::ledger::files::{Files, path_of};
use crate::ledger::payload::{PreviousLog, SetAsideFile};
use crate::ledger::read::Reader;
use crate::ledger::verify::Verification;
use crate::store::{self, StoreError};
use crate::types::clock::Wall;
use crate::types::{Digest, digest};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

impl PreviousLog {
    /// Describes the log in `files`, whose verification gave `report`.
    #[must_use]
    pub fn new(files: &Files, report: &Verification, why: &str, reason: &str) -> Self {
        let reader = Reader::open(&files.ledger()).ok();
        let genesis = reader.as_ref().and_then(|reader| reader.entry(0).ok()?);
        let checkpoint = reader.as_ref().and_then(|reader| reader.newest_checkpoint().ok()?);
        let key = reader.as_ref().and_then(|reader| reader.log_key().ok()).map(|key| key.to_string());
        Self {
            log: genesis.map(|genesis| genesis.header.log).unwrap_or_default(),
            key,
            size: report.entries,
            root: report.root.clone(),
            checkpoint,
            verdict: report.verdict.as_str().to_owned(),
            why: why.to_owned(),
            reason: reason.to_owned(),
            aside_us: Wall::now().0,
            files: Vec::new(),
        }
    }
}

/// Copies every segment to the folder `to`. May run while a writer appends. The oldest is copied
/// first: the newest records what is erased meanwhile.
pub fn copy(files: &Files, to: &Path) -> Result<(), StoreError> {
    let at = |e| StoreError::File(files.data.clone(), e);
    for first in files.segments().map_err(at)? {
        store::copy(&files.segment(first), &path_of(to, first))?;
    }
    Ok(())
}

/// The length and SHA-256 of a file.
pub fn digest_of(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), 0);
    let mut block = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            return Ok((bytes, digest::hex(&hash.finalize())));
        }
        bytes += read as u64;
        hash.update(block.get(..read).unwrap_or_default());
    }
}

/// The file that describes a log that was set aside, stored next to it.
const RECORD_FILE: &str = "before.json";

/// Moves the files of the log in `data/` to their own folder below `data/before/`, and lists them
/// in `before`. A copy of that list is durable there first. Nothing is deleted. The caller must
/// hold the lock and have no connection open to the files.
///
/// After a crash during the move, some files are in each folder; the next call moves the others to
/// the same place. After a crash that follows the move, the next start begins the new log and names
/// this one from the copy.
pub fn set_aside(files: &Files, before: &mut PreviousLog) -> io::Result<PathBuf> {
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&files.data)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let starts = ["ledger.db", "ledger-", "state.db"].iter().any(|start| name.starts_with(start));
        if starts || ["high-water", "anchor", "erasing"].contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.sort();
    for name in &names {
        let (bytes, sha256) = digest_of(&files.data.join(name))?;
        before.files.push(SetAsideFile { name: name.clone(), bytes, sha256 });
    }
    if before.log.is_empty() {
        let all: String = before.files.iter().map(|file| file.sha256.as_str()).collect();
        before.log = format!("unread-{}", Digest::sha256(all.as_bytes()).short());
    }
    let place = files.data.join("before").join(&before.log);
    std::fs::create_dir_all(&place)?;
    let record = place.join(RECORD_FILE);
    match std::fs::read(&record) {
        // A crash interrupted an earlier call, which wrote the description when all files were
        // still here.
        Ok(bytes) => *before = serde_json::from_slice(&bytes).map_err(io::Error::other)?,
        Err(_) => write(&record, &serde_json::to_vec_pretty(before).map_err(io::Error::other)?)?,
    }
    for name in &names {
        std::fs::rename(files.data.join(name), place.join(name))?;
    }
    for folder in [&place, &files.data.join("before"), &files.data] {
        File::open(folder)?.sync_all()?;
    }
    Ok(place)
}

/// Writes a file completely or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

/// The log that was set aside last, if any. A new log names it as its predecessor.
pub(super) fn newest(files: &Files) -> Option<PreviousLog> {
    let folders = std::fs::read_dir(files.data.join("before")).ok()?;
    let record = folders.filter_map(|folder| std::fs::read(folder.ok()?.path().join(RECORD_FILE)).ok());
    let record = record.filter_map(|bytes| serde_json::from_slice::<PreviousLog>(&bytes).ok());
    record.max_by_key(|before| before.aside_us)
}
