//! Checking an export with nothing but the log's verifier key, line by line: of a file of any length one line is in
//! memory. Pure: no disk, no clock.

use super::error::ProofError;
use super::line::only;
use super::proof_file::{Evidence, Item, Proven};
use super::record::{FORMAT, Seqs};
use crate::ledger::checkpoint::{Checkpoint, VerifierKey};
use crate::ledger::entry::{Header, Kind};
use crate::ledger::payload::ExportPayload;
use crate::ledger::query::Filter;
use crate::types::{Digest, limits};
use serde::Deserialize as _;
use serde_json::Value;
use std::io::{BufRead, Read as _};

/// What an export proves.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The tree that every entry is in, and the log's name.
    pub checkpoint: Checkpoint,
    /// The epoch whose key signed it.
    pub epoch: u64,
    /// The log's key, as the export has it.
    pub key: VerifierKey,
    /// The entry that records the export.
    pub record: u64,
    /// What was asked for; empty where all was.
    pub query: String,
    /// Entries that there were when it was asked.
    pub size: u64,
    /// Entries that it holds, all of them checked.
    pub entries: u64,
    /// Those of them whose payload is told, and is the one that the header commits to.
    pub payloads: u64,
}

/// Checks an export, which must be whole: every line as it was written, and every entry that its record counts. With
/// `key`, of the log that this key is of; without, of the one that the export names itself.
pub fn check(input: &mut impl BufRead, key: Option<&VerifierKey>) -> Result<Exported, ProofError> {
    let head = next(input)?.ok_or_else(|| ProofError::malformed("it is empty: nothing is proven"))?;
    let head = only(&head, &["checkpoint", "epochs", "key", "record", "t"], "the first line")?;
    let text = |name: &str| head.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("t") != FORMAT {
        return Err(ProofError::malformed(format!("no export: `t` is not `{FORMAT}`")));
    }
    let named =
        VerifierKey::parse(text("key")).ok_or_else(|| ProofError::malformed("`key` is no verifier key"))?;
    if let Some(other) = key.filter(|key| **key != named) {
        let what = format!("it is of `{}`, and not of `{}`", named.name(), other.name());
        return Err(ProofError::Malformed(what));
    }
    let evidence =
        Evidence::from_export(&head).ok_or_else(|| ProofError::malformed("the first line is malformed"))?;
    let Proven { checkpoint, epoch, entries } = evidence.check(&named).map_err(|e| e.at("the first line"))?;
    let record = entries.first().and_then(|(header, payload)| ExportRecord::read(header, payload.as_ref()?));
    let record = record.ok_or_else(|| ProofError::malformed("the first line has no `export` entry"))?;
    let (mut seqs, mut last, mut count, mut payloads) = (Seqs::default(), None, 0_u64, 0);
    while let Some(line) = next(input)? {
        count += 1;
        let at = |what: ProofError| what.at(format!("line {}", count + 1));
        let odd = |what: &str| at(ProofError::malformed(what));
        let item = Item::read_line(&line).ok_or_else(|| odd("it is malformed"))?;
        let (header, _) = item.check(&checkpoint).map_err(at)?;
        if last.is_some_and(|last| last >= header.seq) || header.seq >= record.size {
            return Err(odd(&format!("entry {} stands in the wrong place", header.seq)));
        }
        let body = item.payload.as_ref().map(|(_, body)| body.as_slice());
        // What was erased between its record and its line has lost its words.
        let has_words = body.is_none() || record.filter.matches_text(&header, body);
        if !record.filter.matches(&header) || !has_words {
            return Err(odd(&format!("entry {} is not what was asked for", header.seq)));
        }
        payloads += u64::from(body.is_some());
        seqs.push(header.seq);
        last = Some(header.seq);
    }
    if count != record.entries || seqs.digest() != record.seqs {
        let why = format!("it holds {count} entries, and its record says {}", record.entries);
        return Err(ProofError::Malformed(if count == record.entries {
            "its entries are not those of its record".to_owned()
        } else {
            why
        }));
    }
    if record.filter.is_empty() && count != record.size {
        let what = format!("it is to be all {} entries, and holds {count}", record.size);
        return Err(ProofError::Malformed(what));
    }
    let ExportRecord { seq, size, filter, entries, .. } = record;
    Ok(Exported {
        checkpoint,
        epoch,
        key: named,
        record: seq,
        query: filter.to_string(),
        size,
        entries,
        payloads,
    })
}

/// What the `export` entry says.
struct ExportRecord {
    seq: u64,
    filter: Filter,
    size: u64,
    entries: u64,
    seqs: Digest,
}

impl ExportRecord {
    fn read(header: &Header, payload: &Value) -> Option<Self> {
        let said = ExportPayload::deserialize(payload).ok()?;
        let is_one = header.is(Kind::Export) && said.format == "jsonl" && said.size <= header.seq;
        is_one.then_some(())?;
        Some(Self {
            seq: header.seq,
            // Times are written out in it.
            filter: Filter::read(&said.query, 0).ok()?,
            size: said.size,
            entries: said.entries,
            seqs: said.seqs,
        })
    }
}

/// The next line without its newline; `None` at the end. One that is longer than any that is written, or has no
/// newline, is refused.
fn next(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, ProofError> {
    let mut line = Vec::new();
    input.take(limits::EXPORT_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(ProofError::malformed("the last line is cut, or is too long")),
    }
}
