//! One log in the place of another: behind a backup, whose epoch key nobody has, or behind a log that is damaged.
//!
//! The log before is set aside as it is, in `data/before/ID/`, and never written again. The genesis entry of the new one
//! names it: its id and key, its entries and root, and its files with their digests.

use crate::ledger::files::{Files, path_of};
use crate::ledger::payload::{Aside, Before};
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

impl Before {
    /// What can be said of the log in `files`, whose verification gave `report`.
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

/// Copies every segment to the folder `to`, also beside a running writer. The oldest first: what is erased meanwhile is
/// told by the newest.
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

/// The name of the file beside a log that was set aside, with what is said of it.
const TOLD: &str = "before.json";

/// Moves the files of the log in `data/` to a folder of their own below `data/before/`, and tells them in `before`, of
/// which a copy is durable there first. Nothing is deleted. Call under the lock, with no connection open to them.
///
/// A crash in between leaves some files here and some there: the next call moves the others to the same place. One
/// behind it is ended by the next start, whose new log names the one before from that copy.
pub fn set_aside(files: &Files, before: &mut Before) -> io::Result<PathBuf> {
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
        before.files.push(Aside { name: name.clone(), bytes, sha256 });
    }
    if before.log.is_empty() {
        let all: String = before.files.iter().map(|file| file.sha256.as_str()).collect();
        before.log = format!("unread-{}", Digest::sha256(all.as_bytes()).short());
    }
    let place = files.data.join("before").join(&before.log);
    std::fs::create_dir_all(&place)?;
    let told = place.join(TOLD);
    match std::fs::read(&told) {
        // What a crash interrupted: it was told when all files were here.
        Ok(bytes) => *before = serde_json::from_slice(&bytes).map_err(io::Error::other)?,
        Err(_) => write(&told, &serde_json::to_vec_pretty(before).map_err(io::Error::other)?)?,
    }
    for name in &names {
        std::fs::rename(files.data.join(name), place.join(name))?;
    }
    for folder in [&place, &files.data.join("before"), &files.data] {
        File::open(folder)?.sync_all()?;
    }
    Ok(place)
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

/// The log that was set aside last, if any: what a log that begins now takes the place of.
pub(super) fn newest(files: &Files) -> Option<Before> {
    let folders = std::fs::read_dir(files.data.join("before")).ok()?;
    let told = folders.filter_map(|folder| std::fs::read(folder.ok()?.path().join(TOLD)).ok());
    let told = told.filter_map(|bytes| serde_json::from_slice::<Before>(&bytes).ok());
    told.max_by_key(|before| before.aside_us)
}
