//! A line of the index: the columns that queries compare, and the digest over the lines of a block.

use super::filter::Filter;
use crate::ledger::entry::{Header, PlainHeader};
use crate::ledger::read::{Stored, number};
use crate::ledger::tree::{TILE_WIDTH, leaf};
use crate::types::Digest;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Row as RowRef, params, params_from_iter};
use serde_json::Value;
use std::ops::Range;

/// Lines under one digest. A full block has the same leaves as a tile.
pub(in crate::ledger) const BLOCK_ENTRIES: u64 = TILE_WIDTH as u64;

/// A row of the table `line`.
pub(super) struct IndexRow {
    pub(super) seq: u64,
    pub(super) leaf: Digest,
    pub(super) wall_us: i64,
    /// In the order of [`Filter::FIELDS`].
    fields: [Option<String>; Filter::FIELDS.len()],
    text: Option<Digest>,
}

impl IndexRow {
    pub(super) fn from_stored(stored: &Stored, text: Option<&str>) -> Self {
        let header = &stored.header;
        Self {
            seq: header.seq,
            leaf: stored.leaf(),
            wall_us: header.fields.get("wall_us").and_then(Value::as_i64).unwrap_or_default(),
            fields: Filter::FIELDS.map(|name| header.str(name).map(str::to_owned)),
            text: text.map(|text| Digest::sha256(text.as_bytes())),
        }
    }

    /// The value of a field, one of [`Filter::FIELDS`].
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let at = Filter::FIELDS.iter().position(|known| *known == name)?;
        self.fields.get(at)?.as_deref()
    }

    /// Whether this is the line of the entry with this header, apart from its words.
    pub(super) fn is_of(&self, bytes: &[u8]) -> bool {
        if self.leaf != leaf(bytes) {
            return false;
        }
        let is = |seq, wall_us: Option<i64>| self.seq == seq && self.wall_us == wall_us.unwrap_or_default();
        let mut fields = self.fields.iter().zip(Filter::FIELDS);
        match PlainHeader::read(bytes) {
            Some(plain) => {
                is(plain.seq, plain.number("wall_us"))
                    && fields.all(|(field, name)| field.as_deref() == plain.text(name))
            }
            // A header in another form than this version writes.
            None => Header::parse_any(bytes).is_ok_and(|header| {
                is(header.seq, header.fields.get("wall_us").and_then(Value::as_i64))
                    && fields.all(|(field, name)| field.as_deref() == header.str(name))
            }),
        }
    }

    fn read(row: &RowRef<'_>) -> Result<Self, rusqlite::Error> {
        let mut fields = <[Option<String>; Filter::FIELDS.len()]>::default();
        for (at, field) in fields.iter_mut().enumerate() {
            *field = row.get(at + 3)?;
        }
        // A blob of another length becomes a digest that nothing matches.
        let digest = |bytes: Vec<u8>| Digest(bytes.try_into().unwrap_or_default());
        Ok(Self {
            seq: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX),
            leaf: digest(row.get(1)?),
            wall_us: row.get(2)?,
            text: row.get::<_, Option<_>>(3 + Filter::FIELDS.len())?.map(digest),
            fields,
        })
    }

    pub(super) fn insert(&self, db: &Connection) -> Result<(), rusqlite::Error> {
        let blob = |digest: Digest| Cell::Blob(digest.0.to_vec());
        let fields = self.fields.iter().map(|field| field.clone().map_or(Cell::Null, Cell::Text));
        let cells = [Cell::Integer(number(self.seq)), blob(self.leaf), Cell::Integer(self.wall_us)]
            .into_iter()
            .chain(fields)
            .chain([self.text.map_or(Cell::Null, blob)]);
        let sql = "REPLACE INTO line VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        db.prepare_cached(sql)?.execute(params_from_iter(cells)).map(drop)
    }
}

/// SHA-256(`par/index/1` ‖ 0x00 ‖ the lines). Each line has the leaf, the time, every field with
/// its length, and the digest of its words. A missing field is one byte 0x00; a present one has
/// 0x01 in front.
pub(super) fn digest(lines: &[IndexRow]) -> Digest {
    let mut bytes = b"par/index/1\0".to_vec();
    for line in lines {
        bytes.extend(line.leaf.0);
        bytes.extend(line.wall_us.to_be_bytes());
        for field in &line.fields {
            bytes.push(u8::from(field.is_some()));
            if let Some(field) = field {
                bytes.extend((field.len() as u64).to_be_bytes());
                bytes.extend(field.as_bytes());
            }
        }
        bytes.push(u8::from(line.text.is_some()));
        bytes.extend(line.text.iter().flat_map(|text| text.0));
    }
    Digest::sha256(&bytes)
}

pub(super) fn lines(db: &Connection, range: Range<u64>) -> Result<Vec<IndexRow>, rusqlite::Error> {
    let mut statement = db.prepare_cached("SELECT * FROM line WHERE seq >= ?1 AND seq < ?2 ORDER BY seq")?;
    let rows = statement.query_map([number(range.start), number(range.end)], IndexRow::read)?;
    rows.collect()
}

pub(in crate::ledger) fn seal(db: &Connection, id: u64) -> Result<(), rusqlite::Error> {
    let lines = lines(db, id * BLOCK_ENTRIES..(id + 1) * BLOCK_ENTRIES)?;
    db.prepare_cached("REPLACE INTO block VALUES (?1, ?2)")?
        .execute(params![number(id), digest(&lines).0])
        .map(drop)
}
