//! Checking an export with nothing but the log's verifier key, line by line: of a file of any length one line is in
//! memory. Pure: no disk, no clock.

use super::entry::{Header, Kind};
use super::evidence::{Evidence, Item, Proven};
use super::export::{FORMAT, Seqs};
use super::payload::ExportPayload;
use super::query::Filter;
use super::{Checkpoint, VerifierKey};
use crate::types::json::{canonical, parse_strict};
use crate::types::{Digest, limits};
use serde::Deserialize as _;
use serde_json::Value;
use std::io::{BufRead, Read as _};

/// How deep a line's JSON may be.
const DEPTH_MAX: usize = 8;

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
pub fn check(input: &mut impl BufRead, key: Option<&VerifierKey>) -> Result<Exported, String> {
    let head = next(input)?.ok_or("it is empty: nothing is proven")?;
    let head = only(&head, &["checkpoint", "epochs", "key", "record", "t"], "the first line")?;
    let text = |name: &str| head.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("t") != FORMAT {
        return Err(format!("no export: `t` is not `{FORMAT}`"));
    }
    let named = VerifierKey::parse(text("key")).ok_or("`key` is no verifier key")?;
    if let Some(other) = key.filter(|key| **key != named) {
        return Err(format!("it is of `{}`, and not of `{}`", named.name(), other.name()));
    }
    let evidence = Evidence::of_export(&head).ok_or("the first line is malformed")?;
    let Proven { checkpoint, epoch, entries } =
        evidence.check(&named).map_err(|e| format!("the first line: {e}"))?;
    let record = entries.first().and_then(|(header, payload)| Record::read(header, payload.as_ref()?));
    let record = record.ok_or("the first line has no `export` entry")?;
    let (mut seqs, mut last, mut count, mut payloads) = (Seqs::default(), None, 0_u64, 0);
    while let Some(line) = next(input)? {
        count += 1;
        let at = |what: String| format!("line {}: {what}", count + 1);
        let item = Item::read_line(&line).ok_or_else(|| at("it is malformed".to_owned()))?;
        let (header, _) = item.check(&checkpoint).map_err(at)?;
        if last.is_some_and(|last| last >= header.seq) || header.seq >= record.size {
            return Err(at(format!("entry {} stands in the wrong place", header.seq)));
        }
        let body = item.payload.as_ref().map(|(_, body)| body.as_slice());
        // What was erased between its record and its line has lost its words.
        let has_words = body.is_none() || record.filter.matches_text(&header, body);
        if !record.filter.matches(&header) || !has_words {
            return Err(at(format!("entry {} is not what was asked for", header.seq)));
        }
        payloads += u64::from(body.is_some());
        seqs.push(header.seq);
        last = Some(header.seq);
    }
    if count != record.entries || seqs.digest() != record.seqs {
        let why = format!("it holds {count} entries, and its record says {}", record.entries);
        return Err(if count == record.entries {
            "its entries are not those of its record".to_owned()
        } else {
            why
        });
    }
    if record.filter.is_empty() && count != record.size {
        return Err(format!("it is to be all {} entries, and holds {count}", record.size));
    }
    let Record { seq, size, filter, entries, .. } = record;
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
struct Record {
    seq: u64,
    filter: Filter,
    size: u64,
    entries: u64,
    seqs: Digest,
}

impl Record {
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
fn next(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    input.take(limits::EXPORT_LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err("the last line is cut, or is too long".to_owned()),
    }
}

/// The object of a line, in canonical form and with exactly these members.
pub(super) fn only(line: &[u8], names: &[&str], what: &str) -> Result<Value, String> {
    let value = parse_strict(line, DEPTH_MAX).map_err(|e| format!("{what} is no JSON: {e}"))?;
    let is_canonical = canonical(&value).is_ok_and(|text| text.as_bytes() == line);
    let has_these =
        value.as_object().is_some_and(|object| object.keys().all(|name| names.contains(&name.as_str())));
    if is_canonical && has_these { Ok(value) } else { Err(format!("{what} is not as it was written")) }
}
