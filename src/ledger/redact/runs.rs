//! The runs whose entries are to be erased, and which of their payloads must stay.

use crate::ledger::entry::{Header, Kind};
use crate::ledger::read::{ReadError, Reader};
use crate::types::{RunStatus, text};
use std::collections::BTreeMap;

/// The headers of the runs that were asked for. Each run is read once.
pub(super) struct RunHeaders<'a> {
    reader: &'a Reader,
    known: BTreeMap<String, Vec<Header>>,
}

impl<'a> RunHeaders<'a> {
    pub(super) fn new(reader: &'a Reader) -> Self {
        Self { reader, known: BTreeMap::new() }
    }

    /// The headers of every run that was asked for.
    pub(super) fn headers(&self) -> impl Iterator<Item = &Header> {
        self.known.values().flatten()
    }

    pub(super) fn headers_of(&mut self, run: &str) -> Result<&[Header], ReadError> {
        if !self.known.contains_key(run) {
            let headers = self.read(run)?;
            self.known.insert(run.to_owned(), headers);
        }
        Ok(self.known.get(run).map(Vec::as_slice).unwrap_or_default())
    }

    fn read(&self, run: &str) -> Result<Vec<Header>, ReadError> {
        let sql = "SELECT seq, header FROM entry \
                   WHERE instr(header, CAST('\"run\":\"' || ?1 || '\"' AS BLOB)) > 0 ORDER BY seq";
        let mut headers = Vec::new();
        let mut segments = self.reader.segments();
        for first in segments.firsts().to_vec() {
            let mut statement = segments.connection(first)?.prepare_cached(sql)?;
            let rows =
                statement.query_map([run], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
            for row in rows {
                let (seq, bytes) = row?;
                let seq = u64::try_from(seq).unwrap_or(0);
                headers.push(Header::parse(&bytes).map_err(ReadError::damaged(seq))?);
            }
        }
        headers.retain(|header| header.str("run") == Some(run));
        Ok(headers)
    }

    /// Why the payload of this entry must stay, or `None` if it may be erased.
    pub(super) fn why_kept(&mut self, header: &Header) -> Result<Option<String>, ReadError> {
        if !header.is_redactable() {
            return Ok(Some(format!(
                "is a `{}`; its payload is never erased",
                text::visible_line(&header.kind)
            )));
        }
        let Some(run) = header.str("run") else { return Ok(None) };
        let mut replies = self.headers_of(run)?.iter().filter(|of_run| of_run.is(Kind::RunReply));
        // A run that has ended has no entry after its reply, and never gets one.
        let has_ended =
            replies.next_back().is_some_and(|reply| reply.str("status") != Some(RunStatus::Waiting.as_str()));
        Ok((!has_ended).then(|| "belongs to a run that has not ended".to_owned()))
    }
}
