//! Queries without an index: reads headers one after the other, and payloads if the query has free
//! text.

use super::filter::Filter;
use crate::ledger::entry::Header;
use crate::ledger::read::{ReadError, Reader, body, header_bytes, number};
use crate::types::limits;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By rising sequence number.
    #[default]
    Ascending,
    /// Newest first.
    Descending,
}

impl Reader {
    /// Up to `limit` headers that match, from `from` on in `order`.
    ///
    /// Reads at most `scan_max` headers, and for free text little more than
    /// [`limits::PAGE_TEXT_BYTES_MAX`] bytes of payloads. The second value is where to continue,
    /// `None` at the end.
    pub fn headers(
        &self,
        filter: &Filter,
        from: u64,
        order: Order,
        limit: usize,
        scan_max: usize,
    ) -> Result<(Vec<Header>, Option<u64>), ReadError> {
        let mut segments = self.segments();
        // No other number can match.
        let asked = filter.seqs();
        let (sql, range) = match order {
            Order::Ascending => (
                "SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq",
                from.max(asked.start)..asked.end,
            ),
            Order::Descending => (
                "SELECT seq, header FROM entry WHERE seq >= ?1 AND seq < ?2 ORDER BY seq DESC",
                asked.start..from.saturating_add(1).min(asked.end),
            ),
        };
        let mut parts = segments.parts(range);
        if order == Order::Descending {
            parts.reverse();
        }
        let (mut found, mut scanned, mut bytes_read) = (Vec::new(), 0, 0);
        for part in parts {
            let db = segments.connection(part.start)?;
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([number(part.start), number(part.end)])?;
            while let Some(row) = rows.next()? {
                let seq = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
                if found.len() == limit || scanned == scan_max || bytes_read >= limits::PAGE_TEXT_BYTES_MAX {
                    return Ok((found, Some(seq)));
                }
                scanned += 1;
                let bytes: Vec<u8> = row.get(1)?;
                let header = Header::parse(&bytes).map_err(ReadError::damaged(seq))?;
                if !filter.matches(&header) {
                    continue;
                }
                if filter.has_text() {
                    let body = body(db, &header)?;
                    bytes_read += body.as_ref().map_or(0, Vec::len);
                    if !filter.matches_text(&header, body.as_deref()) {
                        continue;
                    }
                }
                found.push(header);
            }
        }
        Ok((found, None))
    }

    /// The header of entry `seq` if it matches, and how many bytes of payload were read.
    pub(super) fn matching(&self, filter: &Filter, seq: u64) -> Result<(Option<Header>, usize), ReadError> {
        let mut segments = self.segments();
        let bytes = header_bytes(&mut segments, seq)?;
        let header = Header::parse(&bytes).map_err(ReadError::damaged(seq))?;
        if header.seq != seq || !filter.matches(&header) {
            return Ok((None, 0));
        }
        let body = if filter.has_text() { body(segments.connection(seq)?, &header)? } else { None };
        let is_it = filter.matches_text(&header, body.as_deref());
        Ok((is_it.then_some(header), body.map_or(0, |body| body.len())))
    }
}
