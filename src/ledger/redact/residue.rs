//! What an erased payload could still be known by: its salt, and pieces of its body. Looked for in the raw bytes of
//! every file of `data/`, whatever SQLite says of them.

use crate::ledger::write::Files;
use super::erasure::Payload;
use crate::types::limits;
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes of a piece, as many as a salt has: what is shorter could stand elsewhere by chance.
const PIECE_BYTES: usize = 32;
/// From one piece of a body to the next: each page that SQLite put a part on holds a whole piece.
const STEP_BYTES: usize = 512;
/// Read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// The databases' files, opened once and kept: to close one of them would take from every connection of this
/// process its POSIX lock, and then a stranger's `sqlite3` could take the write-ahead log away.
#[derive(Debug, Default)]
pub(in crate::ledger) struct Raw {
    open: Mutex<BTreeMap<PathBuf, File>>,
}

/// What is searched for. Salts come first, and are nobody else's.
#[derive(Debug)]
pub(in crate::ledger) struct Traces {
    needles: AhoCorasick,
    pieces: Vec<Vec<u8>>,
    salts: usize,
}

/// What a search of the files saw.
#[derive(Debug, Default)]
pub(in crate::ledger) struct Sight {
    /// Files that were read whole.
    pub(in crate::ledger) files: usize,
    /// By file, what was found in it.
    pub(in crate::ledger) found: BTreeMap<PathBuf, BTreeSet<usize>>,
    /// Files that could not be read, and why.
    pub(in crate::ledger) unread: Vec<String>,
}

impl Traces {
    pub(in crate::ledger) fn of(payloads: &[Payload]) -> Result<Self, String> {
        let mut pieces: Vec<Vec<u8>> = payloads.iter().map(|payload| payload.salt.to_vec()).collect();
        let salts = pieces.len();
        let total: usize = payloads.iter().map(|payload| payload.body.len()).sum();
        let step = STEP_BYTES.max(total / limits::REDACTION_PIECES_MAX);
        let mut bodies = BTreeSet::new();
        for Payload { body, .. } in payloads {
            let last = body.len().saturating_sub(PIECE_BYTES);
            let starts = (0..last).step_by(step).chain([last]);
            bodies.extend(starts.filter_map(|at| body.get(at..body.len().min(at + PIECE_BYTES))));
        }
        pieces.extend(bodies.into_iter().map(<[u8]>::to_vec));
        let needles = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&pieces);
        Ok(Self { needles: needles.map_err(|e| e.to_string())?, pieces, salts })
    }

    /// A search for words.
    pub(in crate::ledger) fn of_words(words: Vec<String>) -> Result<Self, String> {
        let pieces: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
        let needles = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&pieces);
        Ok(Self { needles: needles.map_err(|e| e.to_string())?, pieces, salts: 0 })
    }

    /// Whether it is a salt.
    pub(in crate::ledger) fn is_salt(&self, needle: usize) -> bool {
        needle < self.salts
    }

    /// The same search for these alone.
    pub(in crate::ledger) fn only(&self, wanted: &BTreeSet<usize>) -> Result<Self, String> {
        let pieces: Vec<Vec<u8>> =
            wanted.iter().filter_map(|needle| self.pieces.get(*needle).cloned()).collect();
        let needles = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&pieces);
        Ok(Self { needles: needles.map_err(|e| e.to_string())?, pieces, salts: 0 })
    }

    /// Adds what `bytes` hold to `found`.
    pub(in crate::ledger) fn in_bytes(&self, bytes: &[u8], found: &mut BTreeSet<usize>) {
        found.extend(self.needles.find_overlapping_iter(bytes).map(|hit| hit.pattern().as_usize()));
    }

    /// Searches every file below `data/`.
    pub(in crate::ledger) fn search(&self, files: &Files, raw: &Raw) -> Sight {
        let mut sight = Sight::default();
        let mut databases = vec![files.state(), files.index()];
        match files.segments() {
            Ok(firsts) => databases.extend(firsts.into_iter().map(|first| files.segment(first))),
            Err(e) => sight.unread.push(format!("{}: {e}", name(files, &files.data))),
        }
        let mut folders = vec![files.data.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(e) => {
                    sight.unread.push(format!("{}: {e}", name(files, &folder)));
                    continue;
                }
            };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
                if meta.is_dir() {
                    folders.push(path);
                    continue;
                }
                // The index of a write-ahead log holds page numbers, and locks of ours.
                if !meta.is_file() || path.extension().is_some_and(|end| end == "db-shm") {
                    continue;
                }
                let found = match databases.contains(&path) {
                    true => raw.search(&path, self),
                    false => File::open(&path).and_then(|file| self.in_file(&file)),
                };
                match found {
                    Ok(found) if found.is_empty() => sight.files += 1,
                    Ok(found) => {
                        sight.files += 1;
                        sight.found.insert(path, found);
                    }
                    // A file that went since the list was made holds nothing.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => sight.unread.push(format!("{}: {e}", name(files, &path))),
                }
            }
        }
        sight
    }

    /// Which of them the bytes of `file` hold.
    fn in_file(&self, file: &File) -> io::Result<BTreeSet<usize>> {
        let (mut found, mut at, mut kept) = (BTreeSet::new(), 0_u64, 0);
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let Some(room) = block.get_mut(kept..) else { return Ok(found) };
            let read = file.read_at(room, at)?;
            if read == 0 {
                return Ok(found);
            }
            at += read as u64;
            let end = kept + read;
            self.in_bytes(block.get(..end).unwrap_or_default(), &mut found);
            // What lies across the cut is met in the next block.
            kept = end.min(PIECE_BYTES - 1);
            block.copy_within(end - kept..end, 0);
        }
    }
}

impl Raw {
    pub(in crate::ledger) fn search(&self, path: &Path, traces: &Traces) -> io::Result<BTreeSet<usize>> {
        // A panic elsewhere leaves the map whole: each change is one insertion.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let there = std::fs::metadata(path)?;
        let is_same = |file: &File| {
            file.metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == (there.dev(), there.ino()))
        };
        // Another file under the name: nobody has locks on the one before any more.
        if !open.get(path).is_some_and(is_same) {
            open.insert(path.to_owned(), File::open(path)?);
        }
        open.get(path).map_or_else(|| Err(io::ErrorKind::NotFound.into()), |file| traces.in_file(file))
    }
}

/// A file of `data/` as it is told.
pub(in crate::ledger) fn name(files: &Files, path: &Path) -> String {
    path.strip_prefix(&files.data).unwrap_or(path).display().to_string()
}
