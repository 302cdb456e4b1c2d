//! Where entries are read from: the files of a home, or a server.

use crate::cli::exit::{self, Fail};
use crate::cli::query::encoded;
use crate::cli::remote::Server;
use crate::ledger::query::{EntryLine, KeyNames, line_of};
use crate::ledger::{Filter, Header, Order, Reader, Stored, Unverified};
use crate::types::text;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Reads entries, with the names of keys: from the files, or as the server tells them.
pub(super) enum EntrySource<'a> {
    Files(&'a Reader, KeyNames),
    /// A server, and the names of the principals of the entries that were read.
    Server(&'a Server, RefCell<BTreeMap<String, String>>),
}

/// An entry that others are shown with.
pub(super) enum Sound {
    Entry(Box<Stored>),
    Absent,
    /// It does not verify.
    Damaged,
}

impl Sound {
    pub(super) fn entry(self) -> Option<Stored> {
        match self {
            Self::Entry(stored) => Some(*stored),
            Self::Absent | Self::Damaged => None,
        }
    }
}

impl<'a> EntrySource<'a> {
    pub(super) fn server(server: &'a Server) -> Self {
        Self::Server(server, RefCell::default())
    }

    pub(super) fn entry(&self, seq: u64) -> Result<Option<Stored>, Fail> {
        match self {
            Self::Files(reader, _) => reader.entry(seq).map_err(damaged),
            Self::Server(server, names) => {
                let answer = server.ask(&format!("/audit/entries/{seq}"), None)?;
                let stored = told(seq, &answer)?;
                let who = answer.get("who").and_then(Value::as_str).map(text::visible_line);
                if let Some((principal, who)) = stored.header.str("principal").zip(who) {
                    names.borrow_mut().insert(principal.to_owned(), who);
                }
                Ok(Some(stored))
            }
        }
    }

    /// The entry as it is stored, if it is in files and does not verify.
    pub(super) fn unverified(&self, seq: u64) -> Result<Option<Unverified>, Fail> {
        match self {
            Self::Files(reader, _) => reader.unverified(seq).map_err(damaged),
            Self::Server(..) => Ok(None),
        }
    }

    /// The headers that match, at most `limit`, from `from` on. In files, at most `scan_max`
    /// entries are looked at.
    pub(super) fn headers(
        &self,
        filter: &Filter,
        from: u64,
        order: Order,
        limit: usize,
        scan_max: usize,
    ) -> Result<Vec<Header>, Fail> {
        match self {
            Self::Files(reader, _) => {
                Ok(reader.listed(filter, from, order, limit, scan_max).map_err(damaged)?.0)
            }
            Self::Server(server, _) => {
                let (word, after) = match order {
                    Order::Ascending => ("asc", from.checked_sub(1)),
                    Order::Descending => ("desc", from.checked_add(1)),
                };
                let after = after.map_or_else(String::new, |seq| format!("&after={seq}"));
                let q = encoded(&filter.to_string());
                let page = server.ask(&format!("/audit?order={word}&limit={limit}&q={q}{after}"), None)?;
                let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
                items.map(|fields| header(fields.to_string().as_bytes())).collect()
            }
        }
    }

    /// As [`EntrySource::entry`], for a part of what is shown: an entry that does not verify hides
    /// no other.
    pub(super) fn sound(&self, seq: u64) -> Result<Sound, Fail> {
        match self.entry(seq) {
            Ok(found) => Ok(found.map_or(Sound::Absent, |stored| Sound::Entry(Box::new(stored)))),
            Err(fail) if fail.code == exit::UNVERIFIED => Ok(Sound::Damaged),
            Err(fail) => Err(fail),
        }
    }

    /// The line of an entry for people.
    pub(super) fn line(&self, stored: &Stored) -> Result<EntryLine, Fail> {
        let none = KeyNames::default();
        let (names, told) = match self {
            Self::Files(_, names) => (names, None),
            Self::Server(_, told) => (&none, Some(told)),
        };
        // What another entry would add is missing if that one does not verify; its own row says so.
        let line = line_of(stored, names, |seq| self.sound(seq).map(Sound::entry))?;
        let who = stored.header.str("principal").and_then(|by| told?.borrow().get(by).cloned());
        Ok(EntryLine { who: who.unwrap_or(line.who), ..line })
    }
}

fn damaged(error: impl std::fmt::Display) -> Fail {
    Fail::new(exit::UNVERIFIED, error)
}

fn header(bytes: &[u8]) -> Result<Header, Fail> {
    Header::parse(bytes).map_err(|e| Fail::failed(format!("the server's answer is not an entry: {e}")))
}

/// An entry as `GET /audit/entries/{seq}` returns it. A payload that the server withholds is empty,
/// which is not the same as erased.
fn told(seq: u64, answer: &Value) -> Result<Stored, Fail> {
    let word = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    if let Some(what) = answer.get("damaged").and_then(Value::as_str) {
        return Err(damaged(format!("entry {seq} does not verify: {}", text::visible_line(what))));
    }
    let bytes = word("header_bytes").as_bytes().to_vec();
    let header = header(&bytes)?;
    if header.seq != seq {
        return Err(Fail::failed(format!("the server answered with entry {} instead of {seq}", header.seq)));
    }
    let body = match word("payload_state") {
        "erased" => None,
        "withheld" => Some(Vec::new()),
        _ => Some(answer.get("payload").map(|body| body.to_string().into_bytes()).unwrap_or_default()),
    };
    Ok(Stored { header, bytes, body })
}
