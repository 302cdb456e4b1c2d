//! Exports: all entries that match a query, as lines that can be checked with the log's key, or as
//! a table.
//!
//! An `export` entry records who exported what before the first byte leaves: query, format, how
//! many entries the ledger had, how many of them matched, and a digest of their numbers. It is
//! signed at once and is part of the first line, so that a verifier detects missing lines.

use super::error::ExportError;
use super::proof_file::Item;
use super::record::{FORMAT, Format, digest_of, select};
use super::table::{COLUMNS, cells, row};
use crate::ledger::checkpoint::{Checkpoint, Note};
use crate::ledger::files::Files;
use crate::ledger::payload::ExportPayload;
use crate::ledger::query::Filter;
use crate::ledger::read::{ReadError, Reader};
use crate::types::Digest;
use crate::types::json::canonical;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Approximate length of a piece, in bytes.
const PIECE_BYTES: usize = 256 << 10;
/// Roots of subtrees that are cached from one path to the next.
const ROOTS_MAX: usize = 1 << 16;

fn size_of(note: &str) -> Option<u64> {
    Some(Checkpoint::parse(Note::parse(note).ok()?.text()).ok()?.head.size)
}

/// An export in progress, made piece by piece.
#[derive(Debug)]
pub struct Export {
    reader: Reader,
    format: Format,
    /// The bytes before the entries.
    head: Vec<u8>,
    seqs: std::vec::IntoIter<u64>,
    /// Number of entries that the checkpoint covers.
    size: u64,
    roots: HashMap<(u32, u64), Digest>,
    /// Entries that do not verify.
    damaged: Vec<u64>,
}

impl Export {
    /// Begins the export that the entry `record` describes. Blocking.
    pub fn open(files: &Files, record: u64) -> Result<Self, ExportError> {
        let reader = Reader::open(&files.ledger()).map_err(ExportError::Store)?;
        let none = || ExportError::Failed(format!("entry {record} is not the record of an export"));
        let recorded = reader.entry(record)?.and_then(|stored| stored.payload());
        let recorded: ExportPayload = recorded.ok_or_else(none)?;
        let format = Format::parse(&recorded.format).ok_or_else(none)?;
        let filter = Filter::parse(&recorded.query).map_err(|_| none())?;
        let seqs = select(&reader, &filter, recorded.size)?;
        if digest_of(seqs.iter().copied()) != recorded.seqs {
            return Err(ExportError::Failed(
                "the matching entries have changed since the record: export again".to_owned(),
            ));
        }
        let evidence = reader.prove(None, &[record])?;
        let head = match (format, evidence.items.first()) {
            (Format::Jsonl, Some(item)) => {
                let head = json!({
                    "t": FORMAT,
                    "key": reader.log_key()?.to_string(),
                    "epochs": { "first": evidence.first, "seals": evidence.seals },
                    "checkpoint": evidence.checkpoint,
                    "record": item.json().map_err(|e| ExportError::Failed(e.to_string()))?,
                });
                line(&head)?
            }
            _ => row(COLUMNS.map(str::to_owned))?,
        };
        let size = size_of(&evidence.checkpoint).ok_or_else(none)?;
        Ok(Self {
            reader,
            format,
            head,
            seqs: seqs.into_iter(),
            size,
            roots: HashMap::new(),
            damaged: Vec::new(),
        })
    }

    /// The file format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The next piece, in whole lines; `None` after the last one. Blocking.
    pub fn piece(&mut self) -> Result<Option<Vec<u8>>, ExportError> {
        let mut piece = std::mem::take(&mut self.head);
        while piece.len() < PIECE_BYTES {
            let Some(seq) = self.seqs.next() else { break };
            if self.roots.len() > ROOTS_MAX {
                self.roots.clear();
            }
            match self.reader.item(seq, self.size, &mut self.roots) {
                Err(ReadError::Damaged(..)) => piece.extend(self.unverified_line(seq)?),
                item => piece.extend(self.line(&item?)?),
            }
        }
        Ok((!piece.is_empty()).then_some(piece))
    }

    /// The entries so far that do not verify. They are written as they are stored, so that a check
    /// of the export finds the same; one that cannot be written in a line is left out.
    #[must_use]
    pub fn damaged(&self) -> &[u64] {
        &self.damaged
    }

    fn unverified_line(&mut self, seq: u64) -> Result<Vec<u8>, ExportError> {
        tracing::error!(seq, "an exported entry does not verify");
        self.damaged.push(seq);
        let item = self.reader.unverified_item(seq, self.size, &mut self.roots)?;
        Ok(item.and_then(|item| self.line(&item).ok()).unwrap_or_default())
    }

    fn line(&self, item: &Item) -> Result<Vec<u8>, ExportError> {
        match self.format {
            Format::Jsonl => line(&item.json().map_err(|e| ExportError::Failed(e.to_string()))?),
            Format::Csv => cells(item).and_then(row),
        }
    }
}

fn line(value: &Value) -> Result<Vec<u8>, ExportError> {
    let text = canonical(value).map_err(|e| ExportError::Failed(e.to_string()))?;
    Ok((text + "\n").into_bytes())
}
