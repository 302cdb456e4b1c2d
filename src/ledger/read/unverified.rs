//! An entry that does not verify, as it is stored: for people to look at, and for exports.

use super::error::ReadError;
use super::reader::Reader;
use super::rows::number;
use crate::ledger::entry::Header;
use rusqlite::OptionalExtension as _;

/// An entry that does not verify on its own. Nothing is decided from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unverified {
    /// The number under which it is stored.
    pub seq: u64,
    /// What does not hold.
    pub what: String,
    /// The stored bytes of the header.
    pub header: Vec<u8>,
    /// The stored salt and bytes of the payload, unless it was erased or must not be shown.
    pub payload: Option<(Vec<u8>, Vec<u8>)>,
}

impl Reader {
    /// The entry `seq` if [`Reader::entry`] finds it damaged; `None` if it verifies or does not
    /// exist.
    pub fn unverified(&self, seq: u64) -> Result<Option<Unverified>, ReadError> {
        let what = match self.entry(seq) {
            Err(ReadError::Damaged(_, what)) => what,
            other => return other.map(|_| None),
        };
        let sql =
            "SELECT e.header, p.salt, p.body FROM entry e LEFT JOIN payload p USING (seq) WHERE seq = ?1";
        let mut segments = self.segments();
        let mut statement = segments.connection(seq)?.prepare_cached(sql)?;
        let row = statement.query_row([number(seq)], |row| {
            Ok((
                row.get::<_, Vec<u8>>(0)?,
                row.get::<_, Option<Vec<u8>>>(1)?,
                row.get::<_, Option<Vec<u8>>>(2)?,
            ))
        });
        Ok(row.optional()?.map(|(header, salt, body)| {
            // Which kind it is decides whether the payload may be shown.
            let is_shown = Header::parse(&header).is_ok_and(|header| header.shows_payload());
            let payload = salt.zip(body).filter(|_| is_shown);
            Unverified { seq, what, header, payload }
        }))
    }
}
