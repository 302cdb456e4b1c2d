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

/// What a scan looks for.
struct Scan<'a> {
    filter: &'a Filter,
    limit: usize,
    scan_max: usize,
    /// Whether damage does not end it.
    is_listing: bool,
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
        let scan = Scan { filter, limit, scan_max, is_listing: false };
        self.alarm().hear(self.scan(&scan, from, order))
    }

    /// As [`Reader::headers`], for a list that is only shown: damage does not end it. A payload
    /// that does not match its header counts as one that contains what is searched for. For an
    /// entry whose header cannot be read, one that says so stands in the list
    /// ([`Header::is_unreadable`]), if its number matches and no other field is asked for.
    /// [`Reader::met_damage`] names the first of either.
    pub fn listed(
        &self,
        filter: &Filter,
        from: u64,
        order: Order,
        limit: usize,
        scan_max: usize,
    ) -> Result<(Vec<Header>, Option<u64>), ReadError> {
        self.scan(&Scan { filter, limit, scan_max, is_listing: true }, from, order)
    }

    fn scan(
        &self,
        scan: &Scan<'_>,
        from: u64,
        order: Order,
    ) -> Result<(Vec<Header>, Option<u64>), ReadError> {
        let Scan { filter, limit, scan_max, .. } = *scan;
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
                let header = match parsed(seq, &bytes) {
                    Err(ReadError::Damaged(seq, what)) if scan.is_listing => {
                        self.alarm().ring(seq);
                        Header::unreadable(seq, &what)
                    }
                    header => header?,
                };
                if !filter.matches(&header) {
                    continue;
                }
                if header.is_unreadable() {
                    found.push(header);
                    continue;
                }
                if filter.has_text() {
                    let body = self.unless_listed(scan, body(db, &header).map(Some))?;
                    bytes_read += body.iter().flatten().map(Vec::len).sum::<usize>();
                    if body.is_some_and(|body| !filter.matches_text(&header, body.as_deref())) {
                        continue;
                    }
                }
                found.push(header);
            }
        }
        Ok((found, None))
    }

    /// In a list, damage rings the alarm and becomes `None`.
    fn unless_listed<T>(
        &self,
        scan: &Scan<'_>,
        read: Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        match read {
            Err(ReadError::Damaged(seq, _)) if scan.is_listing => {
                self.alarm().ring(seq);
                Ok(None)
            }
            read => read,
        }
    }

    /// The header of entry `seq` if it matches, and how many bytes of payload were read.
    pub(super) fn matching(&self, filter: &Filter, seq: u64) -> Result<(Option<Header>, usize), ReadError> {
        let mut segments = self.segments();
        let bytes = header_bytes(&mut segments, seq)?;
        let header = match parsed(seq, &bytes) {
            Ok(header) => header,
            Err(error) => {
                self.alarm().ring(seq);
                let header = Header::unreadable(seq, &error.to_string());
                return Ok((Some(header).filter(|header| filter.matches(header)), 0));
            }
        };
        if !filter.matches(&header) {
            return Ok((None, 0));
        }
        let body = if filter.has_text() { body(segments.connection(seq)?, &header) } else { Ok(None) };
        // As in a list: what does not verify is shown, and its own page says so.
        let body = match body {
            Err(ReadError::Damaged(seq, _)) => {
                self.alarm().ring(seq);
                return Ok((Some(header), 0));
            }
            body => body?,
        };
        let is_it = filter.matches_text(&header, body.as_deref());
        Ok((is_it.then_some(header), body.map_or(0, |body| body.len())))
    }
}

/// The header that is stored under the number `seq`.
fn parsed(seq: u64, bytes: &[u8]) -> Result<Header, ReadError> {
    let header = Header::parse(bytes).map_err(ReadError::damaged(seq))?;
    match header.seq == seq {
        true => Ok(header),
        false => Err(ReadError::Damaged(seq, format!("its header has number {}", header.seq))),
    }
}
