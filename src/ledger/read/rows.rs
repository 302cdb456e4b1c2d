//! Rows that several readers need: headers, tiles, and payloads that are checked against their
//! headers.

use super::error::ReadError;
use super::segments::OpenSegments;
use crate::ledger::entry::{Header, commitment};
use crate::ledger::tree::{Frontier, TILE_WIDTH, Tile, leaf, proof};
use crate::types::Digest;
use rusqlite::{Connection, OptionalExtension as _};

/// An entry's number as SQLite stores it.
pub(in crate::ledger) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// The root over the first `size` entries, which must exist. Computed from tiles and headers.
pub(in crate::ledger) fn root_at(segments: &mut OpenSegments, size: u64) -> Result<Digest, ReadError> {
    proof::root(size, &mut |height, index| subtree(segments, height, index))
}

/// Root of the 2^height leaves from index · 2^height on. Read from one tile or, if that tile is not
/// full yet, from the full tiles or the headers below it. Reads at most 256 rows.
pub(in crate::ledger) fn subtree(
    segments: &mut OpenSegments,
    height: u32,
    index: u64,
) -> Result<Digest, ReadError> {
    let (level, above) = (height / 8, height % 8);
    let (from, count) = (index << above, 1_u64 << above);
    let mut frontier = Frontier::default();
    let width = TILE_WIDTH as u64;
    if let Some(hashes) = tile(segments, level, from / width)? {
        let at = usize::try_from(from % width).unwrap_or(usize::MAX);
        let part = hashes.iter().skip(at).take(1 << above);
        part.for_each(|hash| frontier.push(*hash));
    } else {
        for at in from..from + count {
            frontier.push(match level.checked_sub(1) {
                None => leaf(&header_bytes(segments, at)?),
                Some(below) => {
                    let hashes = tile(segments, below, at)?;
                    Tile::root(&hashes.ok_or_else(|| ReadError::missing(at, &format!("tile {below}/{at}")))?)
                }
            });
        }
    }
    if frontier.size() == count { Ok(frontier.root()) } else { Err(ReadError::missing(from, "its tile")) }
}

pub(in crate::ledger) fn header_bytes(segments: &mut OpenSegments, seq: u64) -> Result<Vec<u8>, ReadError> {
    let header = "SELECT header FROM entry WHERE seq = ?1";
    let found = segments.connection(seq)?.prepare_cached(header)?.query_row([number(seq)], |row| row.get(0));
    found.optional()?.ok_or_else(|| ReadError::missing(seq, "the entry"))
}

/// Reads a tile. It is in the segment of the entry that filled it.
pub(in crate::ledger) fn tile(
    segments: &mut OpenSegments,
    level: u32,
    index: u64,
) -> Result<Option<Vec<Digest>>, ReadError> {
    let stored = "SELECT hashes FROM tile WHERE k = ?1";
    let segment = segments.connection(Tile::filled_by(level, index))?;
    let found =
        segment.prepare_cached(stored)?.query_row([Tile::key(level, index)], |row| row.get::<_, Vec<u8>>(0));
    Ok(found.optional()?.map(|bytes| Tile::stored(&bytes)))
}

/// The payload of an entry; `None` if it was erased.
pub(in crate::ledger) fn body(db: &Connection, header: &Header) -> Result<Option<Vec<u8>>, ReadError> {
    let mut payload = db.prepare_cached("SELECT salt, body FROM payload WHERE seq = ?1")?;
    let found = payload.query_row([number(header.seq)], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (salt, body) = found.unwrap_or_default();
    checked(header, salt, body)
}

/// The payload, checked against its header; `None` if it was erased.
pub(super) fn checked(
    header: &Header,
    salt: Option<Vec<u8>>,
    body: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, ReadError> {
    match (salt.as_deref().map(<&[u8; 32]>::try_from), body) {
        (Some(Ok(salt)), Some(body)) if commitment(salt, &body) == header.payload => Ok(Some(body)),
        (None, None) => Ok(None),
        _ => Err(ReadError::Damaged(header.seq, "the payload does not match the header".to_owned())),
    }
}
