//! Traces of an erased payload: its salt, and pieces of its body. Searches the raw bytes of every
//! file of `data/`, past SQLite.

use super::payload::PayloadToErase;
use crate::ledger::files::{Files, RawFiles, name};
use crate::ledger::query::IndexError;
use crate::ledger::read::ReadError;
use crate::store::StoreError;
use crate::types::limits;
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Length of a piece, the same as that of a salt: a shorter one could occur elsewhere by chance.
const PIECE_BYTES: usize = 32;
/// Distance between two pieces of a body: each page with a part of it holds a whole piece.
const STEP_BYTES: usize = 512;
/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Why a search could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum SearchError {
    #[error(transparent)]
    Needles(#[from] aho_corasick::BuildError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A database failed: its name and the error.
    #[error("{0}: {1}")]
    Database(String, #[source] rusqlite::Error),
    /// A file failed: its name and the error.
    #[error("{0}: {1}")]
    File(String, #[source] io::Error),
}

/// What is searched for. Salts come first; no other payload has them.
#[derive(Debug)]
pub(super) struct Traces {
    needles: AhoCorasick,
    pieces: Vec<Vec<u8>>,
    salts: usize,
}

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct Sighting {
    /// Number of files that were read completely.
    pub(super) files: usize,
    /// For each file, the pieces found in it.
    pub(super) found: BTreeMap<PathBuf, BTreeSet<usize>>,
    /// Files that could not be read, and why.
    pub(super) unread: Vec<String>,
}

impl Traces {
    pub(super) fn from_payloads(payloads: &[PayloadToErase]) -> Result<Self, SearchError> {
        let mut pieces: Vec<Vec<u8>> = payloads.iter().map(|payload| payload.salt.to_vec()).collect();
        let salts = pieces.len();
        let total: usize = payloads.iter().map(|payload| payload.body.len()).sum();
        let step = STEP_BYTES.max(total / limits::REDACTION_PIECES_MAX);
        let mut bodies = BTreeSet::new();
        for PayloadToErase { body, .. } in payloads {
            let last = body.len().saturating_sub(PIECE_BYTES);
            let starts = (0..last).step_by(step).chain([last]);
            bodies.extend(starts.filter_map(|at| body.get(at..body.len().min(at + PIECE_BYTES))));
        }
        pieces.extend(bodies.into_iter().map(<[u8]>::to_vec));
        let needles = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&pieces);
        Ok(Self { needles: needles?, pieces, salts })
    }

    /// A search for words.
    pub(super) fn from_words(words: Vec<String>) -> Result<Self, SearchError> {
        let pieces: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
        let needles = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&pieces);
        Ok(Self { needles: needles?, pieces, salts: 0 })
    }

    /// Whether the piece is a salt.
    pub(super) fn is_salt(&self, needle: usize) -> bool {
        needle < self.salts
    }

    /// The same search for only these pieces.
    pub(super) fn only(&self, wanted: &BTreeSet<usize>) -> Result<Self, SearchError> {
        let pieces: Vec<Vec<u8>> =
            wanted.iter().filter_map(|needle| self.pieces.get(*needle).cloned()).collect();
        let needles = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&pieces);
        Ok(Self { needles: needles?, pieces, salts: 0 })
    }

    /// Adds the pieces in `bytes` to `found`.
    pub(super) fn in_bytes(&self, bytes: &[u8], found: &mut BTreeSet<usize>) {
        found.extend(self.needles.find_overlapping_iter(bytes).map(|hit| hit.pattern().as_usize()));
    }

    /// Searches every file below `data/`.
    pub(super) fn search(&self, files: &Files, raw: &RawFiles) -> Sighting {
        let mut sight = Sighting::default();
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
                // The shared-memory file of a write-ahead log holds page numbers, and this
                // process's locks.
                if !meta.is_file() || path.extension().is_some_and(|end| end == "db-shm") {
                    continue;
                }
                let found = match databases.contains(&path) {
                    true => self.in_raw(raw, &path),
                    false => File::open(&path).and_then(|file| self.in_file(&file)),
                };
                match found {
                    Ok(found) if found.is_empty() => sight.files += 1,
                    Ok(found) => {
                        sight.files += 1;
                        sight.found.insert(path, found);
                    }
                    // A file that was removed since the listing holds nothing.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => sight.unread.push(format!("{}: {e}", name(files, &path))),
                }
            }
        }
        sight
    }

    /// The pieces in the raw bytes of the database at `path`.
    pub(super) fn in_raw(&self, raw: &RawFiles, path: &Path) -> io::Result<BTreeSet<usize>> {
        raw.with(path, |file| self.in_file(file))
    }

    /// The pieces in the bytes of `file`.
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
            // A piece across the boundary is found in the next block.
            kept = end.min(PIECE_BYTES - 1);
            block.copy_within(end - kept..end, 0);
        }
    }
}
