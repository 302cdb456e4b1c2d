//! Exports: all entries that a query is met by, as lines that a stranger can check, or as a table.
//!
//! An `export` entry says who took what before the first byte is told: query, format, how many entries there were, how
//! many of them matched, and a digest of which. It is signed at once, and stands in the first line of the export, so that
//! whoever checks one sees that nothing of what was taken is missing.

use super::evidence::Item;
use super::merkle::leaf;
use super::payload::{ExportPayload, PowerUsed};
use super::query::Filter;
use super::{AppendError, Checkpoint, Draft, Files, Header, Ledger, Note, Order, ReadError, Reader};
use crate::store::StoreError;
use crate::types::Digest;
use crate::types::clock::Wall;
use crate::types::json::canonical;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;

/// The format of the first line.
pub(super) const FORMAT: &str = "par/export/1";
/// Bytes of one piece, or little more.
const PIECE_BYTES: usize = 256 << 10;
/// Headers looked at in one go.
const PAGE: usize = 4_096;
/// Roots of subtrees that are remembered from one path to the next.
const ROOTS_MAX: usize = 1 << 16;

/// How an export is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON Lines, with all that a verifier needs.
    Jsonl,
    /// A table (RFC 4180), for people.
    Csv,
}

impl Format {
    /// The format of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Jsonl, Self::Csv].into_iter().find(|format| format.as_str() == name)
    }

    /// Its name, which is also the ending of a file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// Why there is no export.
#[derive(Debug)]
pub enum ExportError {
    /// The file.
    Store(StoreError),
    /// The ledger cannot be read.
    Read(ReadError),
    /// The ledger cannot be written: nothing is told without a record.
    Append(AppendError),
    /// An entry cannot be told as it is.
    Failed(String),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(e) => e.fmt(f),
            Self::Read(e) => e.fmt(f),
            Self::Append(e) => e.fmt(f),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<AppendError> for ExportError {
    fn from(error: AppendError) -> Self {
        Self::Append(error)
    }
}

impl Ledger {
    /// Records an export of everything that is there and matches, and returns the number of the entry that says so, which
    /// a checkpoint covers. Blocking, for as long as it takes to read every header.
    pub fn record_export(
        &self,
        filter: &Filter,
        format: Format,
        principal: String,
        power: Option<PowerUsed>,
    ) -> Result<u64, ExportError> {
        let size = self.head().size;
        let reader = Reader::open(&self.files().ledger()).map_err(ExportError::Store)?;
        let seqs = select(&reader, filter, size)?;
        let payload = ExportPayload {
            query: filter.to_string(),
            format: format.as_str().to_owned(),
            size,
            entries: seqs.len() as u64,
            seqs: digest_of(seqs.iter().copied()),
            power,
        };
        let draft = Draft { principal: Some(principal), ..Draft::new(payload) };
        let receipt = self.append_blocking(vec![draft])?.pop().ok_or(AppendError::Closed)?;
        Ok(receipt.seq())
    }
}

fn size_of(note: &str) -> Option<u64> {
    Some(Checkpoint::parse(Note::parse(note).ok()?.text()).ok()?.head.size)
}

/// The numbers below `size` whose entries match.
fn select(reader: &Reader, filter: &Filter, size: u64) -> Result<Vec<u64>, ReadError> {
    let (mut seqs, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next.filter(|from| *from < size) {
        let (headers, on) = reader.headers(filter, from, Order::Ascending, PAGE, PAGE)?;
        seqs.extend(headers.iter().map(|header| header.seq).filter(|seq| *seq < size));
        next = on;
    }
    Ok(seqs)
}

/// SHA-256 over the numbers in decimal, a newline behind each.
fn digest_of(seqs: impl Iterator<Item = u64>) -> Digest {
    let mut hash = Seqs::default();
    seqs.for_each(|seq| hash.push(seq));
    hash.digest()
}

/// The digest of numbers that come one by one.
#[derive(Debug, Default)]
pub(super) struct Seqs {
    hash: sha2::Sha256,
}

impl Seqs {
    pub(super) fn push(&mut self, seq: u64) {
        sha2::Digest::update(&mut self.hash, format!("{seq}\n").as_bytes());
    }

    pub(super) fn digest(self) -> Digest {
        Digest(sha2::Digest::finalize(self.hash).into())
    }
}

/// An export that is being told, piece by piece.
#[derive(Debug)]
pub struct Export {
    reader: Reader,
    format: Format,
    /// What comes before the entries.
    head: Vec<u8>,
    seqs: std::vec::IntoIter<u64>,
    /// Entries that the checkpoint covers.
    size: u64,
    roots: HashMap<(u32, u64), Digest>,
}

impl Export {
    /// The export that the entry `record` says of. Blocking.
    pub fn open(files: &Files, record: u64) -> Result<Self, ExportError> {
        let reader = Reader::open(&files.ledger()).map_err(ExportError::Store)?;
        let none = || ExportError::Failed(format!("entry {record} records no export"));
        let recorded = reader.entry(record)?.and_then(|stored| stored.payload());
        let recorded: ExportPayload = recorded.ok_or_else(none)?;
        let format = Format::parse(&recorded.format).ok_or_else(none)?;
        let filter = Filter::parse(&recorded.query).map_err(|_| none())?;
        let seqs = select(&reader, &filter, recorded.size)?;
        if digest_of(seqs.iter().copied()) != recorded.seqs {
            return Err(ExportError::Failed(
                "what matches was changed meanwhile: export it again".to_owned(),
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
                    "record": item.json().map_err(ExportError::Failed)?,
                });
                line(&head)?
            }
            _ => row(COLUMNS.map(str::to_owned))?,
        };
        let size = size_of(&evidence.checkpoint).ok_or_else(none)?;
        Ok(Self { reader, format, head, seqs: seqs.into_iter(), size, roots: HashMap::new() })
    }

    /// How it is written.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The next piece of it, whole lines; `None` behind the last. Blocking.
    pub fn piece(&mut self) -> Result<Option<Vec<u8>>, ExportError> {
        let mut piece = std::mem::take(&mut self.head);
        while piece.len() < PIECE_BYTES {
            let Some(seq) = self.seqs.next() else { break };
            if self.roots.len() > ROOTS_MAX {
                self.roots.clear();
            }
            let item = self.reader.item(seq, self.size, &mut self.roots)?;
            piece.extend(match self.format {
                Format::Jsonl => line(&item.json().map_err(ExportError::Failed)?)?,
                Format::Csv => cells(&item).and_then(row)?,
            });
        }
        Ok((!piece.is_empty()).then_some(piece))
    }
}

fn line(value: &Value) -> Result<Vec<u8>, ExportError> {
    let text = canonical(value).map_err(|e| ExportError::Failed(e.to_string()))?;
    Ok((text + "\n").into_bytes())
}

/// The columns of a table: of the header what has a name there, the leaf, and the payload where it may be told.
const COLUMNS: [&str; 17] = [
    "seq",
    "time",
    "kind",
    "run",
    "session",
    "call",
    "ref",
    "principal",
    "tool",
    "decision",
    "policies",
    "status",
    "policy",
    "manifest",
    "payload_len",
    "leaf",
    "payload",
];

fn cells(item: &Item) -> Result<[String; COLUMNS.len()], ExportError> {
    let header = Header::parse(&item.header).map_err(ExportError::Failed)?;
    Ok(COLUMNS.map(|name| match name {
        "time" => header.u64("wall_us").map(|us| Wall(us).rfc3339()).unwrap_or_default(),
        "leaf" => leaf(&item.header).hex(),
        "payload" => {
            let body = item.payload.as_ref().map(|(_, body)| body.as_slice()).unwrap_or_default();
            String::from_utf8_lossy(body).into_owned()
        }
        name => match header.fields.get(name) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            Some(other) => other.to_string(),
        },
    }))
}

fn row(cells: [String; COLUMNS.len()]) -> Result<Vec<u8>, ExportError> {
    let failed = |e: String| ExportError::Failed(e);
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(cells.map(harmless)).map_err(|e| failed(e.to_string()))?;
    writer.into_inner().map_err(|e| failed(e.to_string()))
}

/// A cell that no spreadsheet takes for a formula: one that begins like one gets a `'` in front.
fn harmless(cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) { format!("'{cell}") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, row};

    #[test]
    fn a_cell_is_quoted_and_is_no_formula() {
        let told = |cell: &str| {
            let mut cells = COLUMNS.map(|_| String::new());
            cells[0] = cell.to_owned();
            let row = String::from_utf8(row(cells).expect("a row")).expect("text");
            row.strip_suffix(&format!("{}\r\n", ",".repeat(COLUMNS.len() - 1))).expect("all cells").to_owned()
        };
        for (cell, expect) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("a\r\nb", "\"a\r\nb\""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@x", "'@x"),
            ("\tx", "'\tx"),
            ("\r=x", "\"'\r=x\""),
            ("=\"x\"", "\"'=\"\"x\"\"\""),
        ] {
            assert_eq!(told(cell), expect, "{cell:?}");
        }
    }
}
