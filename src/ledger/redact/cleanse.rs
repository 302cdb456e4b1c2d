//! After an erasure: truncates the write-ahead logs, and searches the raw bytes of every file for
//! traces.

use super::residue::{SearchError, Sighting, Traces};
use crate::ledger::files::name;
use crate::ledger::handle::Ledger;
use crate::ledger::write::ScrubError;
use crate::store;
use crate::types::limits;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Delay between two tries while a reader is active, in milliseconds.
const STEP_MS: u64 = 20;

impl Ledger {
    /// Truncates the write-ahead log and searches the files. Rewrites a file of the ledger if it
    /// holds traces. Returns how many files were searched, and what is left.
    pub(super) fn cleanse(&self, traces: &Traces) -> (usize, Vec<String>) {
        self.settle_sealed();
        let mut is_empty = self.empty_log(false);
        let mut sight = self.search_files(traces);
        let mut left = Vec::new();
        let written = self.files().segment(self.shared().segment());
        let segments: BTreeSet<PathBuf> =
            self.reader().segments().firsts().iter().map(|first| self.files().segment(*first)).collect();
        let found: Vec<PathBuf> =
            sight.found.keys().filter(|path| segments.contains(*path)).cloned().collect();
        let may_rewrite = matches!(is_empty, Ok(true));
        for path in found.iter().filter(|_| may_rewrite) {
            let bytes = std::fs::metadata(path).map_or(u64::MAX, |meta| meta.len());
            if bytes > limits::REDACTION_REWRITE_BYTES_MAX {
                let name = name(self.files(), path);
                left.push(format!("{name}: too large to be rewritten: {bytes} bytes"));
            } else if *path == written {
                is_empty = self.empty_log(true);
            } else if let Err(e) = store::open_sealed(path).map(|db| store::rewrite(&db)) {
                left.push(e.to_string());
            }
        }
        if !found.is_empty() {
            sight = self.search_files(traces);
        }
        match is_empty {
            Ok(true) => {}
            Ok(false) => left.push(
                "ledger.db-wal and ledger.db: a reader holds them; they are cleaned when it ends".to_owned(),
            ),
            Err(why) => left.push(format!("ledger.db-wal and ledger.db: {why}")),
        }
        left.extend(sight.unread);
        let found = sight.found.keys();
        left.extend(found.map(|path| format!("{}: holds pieces of the payload", name(self.files(), path))));
        (sight.files, left)
    }

    /// Removes the write-ahead logs of sealed segments. A segment that was sealed just now may
    /// still have a reader. A log that stays is covered by the search.
    fn settle_sealed(&self) {
        let written = self.shared().segment();
        let firsts = self.reader().segments().firsts().to_vec();
        let has_log = |first: &u64| {
            let mut log = self.files().segment(*first).into_os_string();
            log.push("-wal");
            PathBuf::from(log).exists()
        };
        for first in firsts.into_iter().filter(|first| *first != written && has_log(first)) {
            if let Err(e) = self.reader().settle_within(first, limits::REDACTION_WAIT_MS_MAX) {
                tracing::warn!(error = %e, "cannot remove the write-ahead log of a sealed segment");
            }
        }
    }

    /// Makes the writer truncate the log; with `rewrite`, after rewriting the file. Tries again
    /// while a reader is active.
    fn empty_log(&self, rewrite: bool) -> Result<bool, ScrubError> {
        let mut rewrite = rewrite;
        for _ in 0..limits::REDACTION_WAIT_MS_MAX / STEP_MS {
            if self.queue().scrub(rewrite)? {
                return Ok(true);
            }
            rewrite = false;
            std::thread::sleep(Duration::from_millis(STEP_MS));
        }
        Ok(false)
    }

    /// Searches the files. A piece that existing entries hold too is not a trace of the erased one.
    fn search_files(&self, traces: &Traces) -> Sighting {
        let mut sight = traces.search(self.files(), self.shared().raw());
        let pieces: BTreeSet<usize> =
            sight.found.values().flatten().copied().filter(|needle| !traces.is_salt(*needle)).collect();
        if pieces.is_empty() {
            return sight;
        }
        match self.still_present(traces, &pieces) {
            Ok(present) => {
                sight.found.values_mut().for_each(|found| found.retain(|needle| !present.contains(needle)));
                sight.found.retain(|_, found| !found.is_empty());
            }
            Err(why) => sight.unread.push(format!("cannot compare with the entries of the ledger: {why}")),
        }
        sight
    }

    /// The pieces that an existing entry holds.
    fn still_present(
        &self,
        traces: &Traces,
        pieces: &BTreeSet<usize>,
    ) -> Result<BTreeSet<usize>, SearchError> {
        let wanted = traces.only(pieces)?;
        let mut found = BTreeSet::new();
        let firsts = self.reader().segments().firsts().to_vec();
        for first in firsts {
            let path = self.files().segment(first);
            let db = store::open_reader(&path)?;
            let mut read = || -> Result<(), rusqlite::Error> {
                for sql in ["SELECT header FROM entry", "SELECT body FROM payload WHERE body IS NOT NULL"] {
                    let mut statement = db.prepare(sql)?;
                    let mut rows = statement.query([])?;
                    while let Some(row) = rows.next()? {
                        wanted.in_bytes(row.get_ref(0)?.as_bytes()?, &mut found);
                    }
                }
                Ok(())
            };
            read().map_err(|e| SearchError::Database(name(self.files(), &path), e))?;
        }
        let numbers: Vec<usize> = pieces.iter().copied().collect();
        Ok(found.into_iter().filter_map(|at| numbers.get(at).copied()).collect())
    }
}
