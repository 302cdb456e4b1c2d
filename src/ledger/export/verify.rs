//! Checks an export with only the log's verifier key, one line at a time, so that memory does not
//! grow with the file. Pure: no disk, no clock.

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

/// The result of checking an export.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The tree that holds every entry, and the log's name.
    pub checkpoint: Checkpoint,
    /// The epoch whose key signed the checkpoint.
    pub epoch: u64,
    /// The log's key, as the export names it.
    pub key: VerifierKey,
    /// The number of the entry that records the export.
    pub record: u64,
    /// The query; empty if all entries were exported.
    pub query: String,
    /// Number of entries in the ledger at the time of the record.
    pub size: u64,
    /// Number of exported entries, all of them checked.
    pub entries: u64,
    /// Number of exported entries whose payload is included and matches the header's commitment.
    pub payloads: u64,
}

/// Checks an export, which must be complete: every line in canonical form, and every entry that its
/// record counts. With `key`, the export must belong to that log; without, the key that the export
/// names is used.
pub fn check(input: &mut impl BufRead, key: Option<&VerifierKey>) -> Result<Exported, ProofError> {
    let head = next(input)?.ok_or_else(|| ProofError::malformed("it is empty: nothing is proven"))?;
    let head = only(&head, &["checkpoint", "epochs", "key", "record", "t"], "the first line")?;
    let text = |name: &str| head.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("t") != FORMAT {
        return Err(ProofError::malformed(format!("not an export: `t` is not `{FORMAT}`")));
    }
    let named = VerifierKey::parse(text("key"))
        .ok_or_else(|| ProofError::malformed("`key` is not a valid verifier key"))?;
    if let Some(other) = key.filter(|key| **key != named) {
        let what = format!("it belongs to `{}`, not to `{}`", named.name(), other.name());
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
            return Err(odd(&format!("entry {} is out of order", header.seq)));
        }
        let body = item.payload.as_ref().map(|(_, body)| body.as_slice());
        // A payload that was erased between the record and its line has no words.
        let has_words = body.is_none() || record.filter.matches_text(&header, body);
        if !record.filter.matches(&header) || !has_words {
            return Err(odd(&format!("entry {} does not match the recorded query", header.seq)));
        }
        payloads += u64::from(body.is_some());
        seqs.push(header.seq);
        last = Some(header.seq);
    }
    if count != record.entries || seqs.digest() != record.seqs {
        let why = format!("it has {count} entries, but its record counts {}", record.entries);
        return Err(ProofError::Malformed(if count == record.entries {
            "its entries are not the ones that its record counts".to_owned()
        } else {
            why
        }));
    }
    if record.filter.is_empty() && count != record.size {
        let what = format!("it must have all {} entries, but has {count}", record.size);
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

/// The content of the `export` entry.
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
            // The recorded query has its times written out.
            filter: Filter::read(&said.query, 0).ok()?,
            size: said.size,
            entries: said.entries,
            seqs: said.seqs,
        })
    }
}

/// The next line without its newline; `None` at the end. A line without a newline, or longer than
/// any that is written, is refused.
fn next(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, ProofError> {
    let mut line = Vec::new();
    input.take(limits::EXPORT_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(ProofError::malformed("the last line is incomplete or too long")),
    }
}
