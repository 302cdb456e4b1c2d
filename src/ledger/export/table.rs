//! A table of entries for people (RFC 4180).

use super::error::ExportError;
use super::proof_file::Item;
use crate::ledger::entry::Header;
use crate::ledger::tree::leaf;
use crate::types::clock::Wall;
use serde_json::Value;

/// The columns of a table: fields of the header, the leaf, and the payload if it may be shown.
pub(super) const COLUMNS: [&str; 17] = [
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

pub(super) fn cells(item: &Item) -> Result<[String; COLUMNS.len()], ExportError> {
    let header = Header::parse(&item.header).map_err(|e| ExportError::Failed(e.to_string()))?;
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

pub(super) fn row(cells: [String; COLUMNS.len()]) -> Result<Vec<u8>, ExportError> {
    let failed = |e: String| ExportError::Failed(e);
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(cells.map(harmless)).map_err(|e| failed(e.to_string()))?;
    writer.into_inner().map_err(|e| failed(e.to_string()))
}

/// Keeps spreadsheets from parsing a cell as a formula: such a cell gets a leading `'`.
fn harmless(cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) { format!("'{cell}") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, row};

    #[test]
    fn a_cell_is_quoted_and_is_never_a_formula() {
        let written = |cell: &str| {
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
            assert_eq!(written(cell), expect, "{cell:?}");
        }
    }
}
