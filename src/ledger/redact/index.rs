//! Removes erased payloads from the index. The index holds their words in another form than the
//! ledger, so it is searched for those words: SQLite may have left some outside its rows. If it
//! has, the index is emptied and rebuilt.

use super::payload::PayloadToErase;
use super::residue::{SearchError, Traces};
use crate::ledger::files::{Files, RawFiles, name};
use crate::ledger::query::{BLOCK_ENTRIES, IndexError, IndexFile, forget_one, seal, text_of};
use crate::ledger::read::Reader;
use crate::store;
use crate::types::limits;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Shorter words could occur anywhere by chance.
const WORD_BYTES_MIN: usize = 8;
const STEP_MS: u64 = 20;

/// Removes the words from the index, if there is one. Returns what may be left. Blocking, like the
/// redaction itself.
pub(super) fn forget(files: &Files, raw: &RawFiles, payloads: &[PayloadToErase]) -> Vec<String> {
    if !files.index().exists() {
        return Vec::new();
    }
    let mend = "delete index.db while no server runs, or run `par audit index --rebuild`";
    match clean(files, raw, payloads) {
        Ok(true) => Vec::new(),
        Ok(false) => vec![format!("index.db and index.db-wal: they may hold pieces of the payload: {mend}")],
        Err(why) => vec![format!("{why}: {mend}")],
    }
}

fn clean(files: &Files, raw: &RawFiles, payloads: &[PayloadToErase]) -> Result<bool, SearchError> {
    let mut inner = IndexFile::open(files)?;
    let ledger = Reader::open(&files.ledger())?;
    take_out(&mut inner, &ledger, payloads)?;
    let words = Traces::from_words(lone_words(&inner, payloads)?)?;
    if empty_log(&inner)? && !is_found(files, raw, &words)? {
        return Ok(true);
    }
    inner.clear().map_err(IndexError::from)?;
    Ok(empty_log(&inner)? && !is_found(files, raw, &words)?)
}

/// Works in one transaction, so that the indexing thread waits for it and then reads no erased
/// payload. A block that did not match before gets no new digest: it is rebuilt.
fn take_out(inner: &mut IndexFile, ledger: &Reader, payloads: &[PayloadToErase]) -> Result<(), IndexError> {
    inner.db.execute_batch("BEGIN IMMEDIATE")?;
    let mut take_all = || -> Result<(), IndexError> {
        let covered = inner.covered(ledger)?;
        let mut blocks = BTreeSet::new();
        for seq in payloads.iter().map(|payload| payload.header.seq).filter(|seq| *seq < covered) {
            let id = seq / BLOCK_ENTRIES;
            if inner.is_sound(ledger, id, covered, true)? {
                blocks.insert(id);
            }
        }
        payloads.iter().try_for_each(|payload| forget_one(&inner.db, payload.header.seq))?;
        Ok(blocks.into_iter().try_for_each(|id| seal(&inner.db, id))?)
    };
    let done = take_all();
    inner.db.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    done
}

/// Words of the payloads that nothing else in the index has: no other text, and none of their own
/// header fields.
fn lone_words(inner: &IndexFile, payloads: &[PayloadToErase]) -> Result<Vec<String>, IndexError> {
    let mut found = BTreeSet::new();
    for PayloadToErase { header, body, .. } in payloads {
        let text = text_of(header, Some(body)).unwrap_or_default();
        let fields: Vec<String> =
            header.fields.values().map(|value| value.to_string().to_lowercase()).collect();
        let words = text.split(' ').filter(|word| word.len() >= WORD_BYTES_MIN);
        let words = words.filter(|word| fields.iter().all(|field| !field.contains(word)));
        found.extend(words.map(str::to_owned));
    }
    let mut alive =
        inner.db.prepare("SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT 1)")?;
    let mut lone = Vec::new();
    for word in found.into_iter().take(limits::REDACTION_PIECES_MAX) {
        if alive.query_row([format!("\"{word}\"")], |row| row.get::<_, i64>(0))? == 0 {
            lone.push(word);
        }
    }
    Ok(lone)
}

fn empty_log(inner: &IndexFile) -> Result<bool, SearchError> {
    for _ in 0..limits::REDACTION_WAIT_MS_MAX / STEP_MS {
        match store::empty_log(&inner.db) {
            Ok(true) => return Ok(true),
            Ok(false) => std::thread::sleep(Duration::from_millis(STEP_MS)),
            Err(e) => return Err(SearchError::Database("index.db".to_owned(), e)),
        }
    }
    Ok(false)
}

fn is_found(files: &Files, raw: &RawFiles, words: &Traces) -> Result<bool, SearchError> {
    let mut log = files.index().into_os_string();
    log.push("-wal");
    for path in [files.index(), PathBuf::from(log)] {
        match words.in_raw(raw, &path) {
            Ok(found) if found.is_empty() => {}
            Ok(_) => return Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(SearchError::File(name(files, &path), e)),
        }
    }
    Ok(false)
}
