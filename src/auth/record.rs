//! A key as recorded on the ledger, and its row in state.db.
//!
//! The ledger's `key.create` and `key.revoke` entries are authoritative. The row is only an index:
//! it must match what its entry makes.

use super::subject::Role;
use super::verifier::Verifier;
use crate::ledger::payload::{KeyCreatePayload, PowerUsed};
use crate::ledger::query::KeyNames;
use crate::ledger::{Draft, Header, Kind, Projection, Row, Stored};
use crate::types::{Ceiling, Digest, KeyId};
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OptionalExtension as _};
use std::collections::BTreeSet;

/// This room's table in state.db: `api_key`.
pub const PROJECTION: Projection =
    Projection { tables: &[("api_key", "id")], kinds: &[Kind::KeyCreate, Kind::KeyRevoke], rows };

/// A key as its `key.create` entry records it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Created {
    pub(super) id: KeyId,
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) user: Option<String>,
    pub(super) expires_us: Option<u64>,
    pub(super) tools: Ceiling,
    pub(super) verifier: Verifier,
    /// The entry's number.
    pub(super) seq: u64,
    /// When it was created, in microseconds since 1970.
    pub(super) wall_us: u64,
}

/// The row of a key in state.db.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeyRow {
    /// The columns that `key.create` fills, in the order of its projection.
    pub(super) cells: Vec<Cell>,
    pub(super) created_seq: u64,
    pub(super) revoked_seq: Option<u64>,
}

impl Created {
    /// Reads a key back from an entry; `None` if the entry has another kind or form.
    pub(super) fn from_stored(stored: &Stored) -> Option<Self> {
        Self::read(&stored.header, stored.body.as_deref()?)
    }

    fn read(header: &Header, body: &[u8]) -> Option<Self> {
        let payload: KeyCreatePayload = header.payload_of(body)?;
        Some(Self {
            id: KeyId::parse(&payload.id)?,
            name: payload.name,
            role: Role::parse(&payload.role)?,
            user: payload.user,
            expires_us: payload.expires_us,
            tools: payload.tools,
            verifier: Verifier { hmac: payload.hmac.0, argon2: payload.argon2 },
            seq: header.seq,
            wall_us: header.u64("wall_us")?,
        })
    }

    /// The entry that creates this key; the ledger adds number and time.
    pub(super) fn draft(&self, by: &str, power: Option<PowerUsed>) -> Draft {
        let payload = KeyCreatePayload {
            id: self.id.as_str().to_owned(),
            name: self.name.clone(),
            role: self.role.as_str().to_owned(),
            hmac: Digest(self.verifier.hmac),
            argon2: self.verifier.argon2.clone(),
            user: self.user.clone(),
            expires_us: self.expires_us,
            tools: self.tools.clone(),
            power,
            before: None,
        };
        Draft { principal: Some(by.to_owned()), ..Draft::new(payload) }
    }

    /// The columns that the projection makes from this key.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let text = |text: &str| Cell::Text(text.to_owned());
        vec![
            text(self.id.as_str()),
            text(&self.name),
            text(self.role.as_str()),
            self.user.as_deref().map_or(Cell::Null, text),
            self.expires_us.map_or(Cell::Null, number),
            number(self.seq),
        ]
    }
}

/// The row of the key `id`.
pub(super) fn state_row(state: &Connection, id: &KeyId) -> Result<Option<KeyRow>, rusqlite::Error> {
    state.prepare_cached(SELECT_ONE)?.query_row([id.as_str()], read_row).optional()
}

/// The row of the key `id` and `true`; if no key has it, the next row in order and `false`;
/// `None` if the table is empty. Both cases take the same steps.
pub(super) fn nearest_row(state: &Connection, id: &KeyId) -> Result<Option<(bool, KeyRow)>, rusqlite::Error> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)? == id.as_str(), read_row(row)?));
    state.prepare_cached(SELECT_NEAREST)?.query_row([id.as_str()], read).optional()
}

/// The row of the live key with this name.
pub(super) fn named_row(state: &Connection, name: &str) -> Result<Option<KeyRow>, rusqlite::Error> {
    state.prepare_cached(SELECT_NAMED)?.query_row([name], read_row).optional()
}

/// Every row, in order of creation.
pub(super) fn state_rows(state: &Connection) -> Result<Vec<KeyRow>, rusqlite::Error> {
    state.prepare_cached(SELECT_ALL)?.query_map([], read_row)?.collect()
}

const SELECT_ONE: &str =
    "SELECT id, name, role, user, expires_us, created_seq, revoked_seq FROM api_key WHERE id = ?1";
const SELECT_NEAREST: &str = "SELECT id, name, role, user, expires_us, created_seq, revoked_seq FROM api_key \
     WHERE id = coalesce((SELECT id FROM api_key WHERE id >= ?1 ORDER BY id LIMIT 1), (SELECT min(id) FROM api_key))";
const SELECT_NAMED: &str = "SELECT id, name, role, user, expires_us, created_seq, revoked_seq FROM api_key \
     WHERE name = ?1 AND revoked_seq IS NULL";
const SELECT_ALL: &str =
    "SELECT id, name, role, user, expires_us, created_seq, revoked_seq FROM api_key ORDER BY created_seq";

fn read_row(row: &rusqlite::Row<'_>) -> Result<KeyRow, rusqlite::Error> {
    let cells = (0..6).map(|column| row.get::<_, Cell>(column)).collect::<Result<_, _>>()?;
    // A number outside the ledger's range finds no entry, which is a mismatch and not an error.
    let seq = |number: i64| u64::try_from(number).unwrap_or(u64::MAX);
    Ok(KeyRow { cells, created_seq: seq(row.get(5)?), revoked_seq: row.get::<_, Option<i64>>(6)?.map(seq) })
}

/// The names of all keys, revoked ones too, from an open state.db. For display only: the rows are
/// not compared with the ledger.
pub fn key_names(state: &Connection) -> Result<KeyNames, rusqlite::Error> {
    let mut keys = state.prepare_cached("SELECT id, name, user FROM api_key ORDER BY created_seq")?;
    let rows = keys.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(KeyNames::new(rows.collect::<Result<Vec<_>, _>>()?))
}

/// The ids of all keys, revoked ones too, and the users that they name.
pub(super) fn key_owners(
    state: &Connection,
) -> Result<(BTreeSet<String>, BTreeSet<String>), rusqlite::Error> {
    let mut keys = state.prepare_cached("SELECT id, user FROM api_key")?;
    let rows = keys.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)))?;
    let (ids, users): (BTreeSet<String>, Vec<Option<String>>) =
        rows.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    Ok((ids, users.into_iter().flatten().collect()))
}

/// INVARIANT: no entry produces a statement that can fail, because a failed projection stops the
/// whole ledger. A second key with the same id or live name leaves no row, and so cannot be used.
fn rows(header: &Header, body: &[u8]) -> Vec<Row> {
    if let Some(created) = Created::read(header, body) {
        let sql = "INSERT INTO api_key(id, name, role, user, expires_us, created_seq) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
        return vec![Row { sql, values: created.cells() }];
    }
    match header.u64("ref").filter(|_| header.is(Kind::KeyRevoke)) {
        Some(created_seq) => {
            let sql = "UPDATE api_key SET revoked_seq = ?1 WHERE created_seq = ?2 AND revoked_seq IS NULL";
            vec![Row { sql, values: vec![number(header.seq), number(created_seq)] }]
        }
        None => Vec::new(),
    }
}

fn number(number: u64) -> Cell {
    Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}
