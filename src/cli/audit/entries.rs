//! `par audit show`: entries of the files, in a table, or one entry in full.

use super::follow::{self, Out};
use super::row::row;
use crate::cli::exit::{self, Fail};
use crate::cli::{compose, query, show};
use crate::config::Config;
use crate::ledger::{Coverage, Files, Filter, Header, HeaderPage, Index, Order, Reader, Stored};
use crate::types::{limits, text};
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// Entry number, or query terms that must all match [default: every entry]
    ///
    /// Terms are `kind:call.decision`, `decision:deny`, `tool:read_*`, `principal:key:…`, `key:ID`,
    /// `run:…` and `seq:7-9`; `since:` and `until:` take a date, a time or a span (`24h`, `7d`).
    /// Any other word or "quoted phrase" is searched for in the payloads. Terms of the same field
    /// are alternatives. A `-` before a term excludes what matches it.
    pub(super) query: Vec<String>,
    /// Show only the newest entries, at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: usize,
    /// Keep running and show new entries as they are appended
    #[arg(long, short)]
    pub(super) follow: bool,
    /// Read from the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or
    /// ~/.config/par/key
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
}

impl Show {
    pub(super) fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let path = compose::files(config).ledger();
        let reader = Reader::open(&path).map_err(Fail::failed)?;
        if let [one] = self.query.as_slice()
            && let Ok(seq) = one.trim_start_matches('#').parse()
        {
            let stored = reader.entry(seq).map_err(|e| Fail::new(exit::UNVERIFIED, e))?;
            let stored = stored.ok_or_else(|| Fail::failed(format!("entry {seq} does not exist")))?;
            show_entry(&stored, is_json)?;
            return Ok(exit::OK);
        }
        let filter = Filter::parse(&query::join(&self.query)).map_err(Fail::usage)?;
        let seen = reader.size().map_err(Fail::failed)?;
        let headers = self.newest(&compose::files(config), &reader, &filter)?;
        if self.follow {
            let out = Out { is_json };
            // Entries that arrived in the meantime are shown too, and none is shown twice.
            let from = headers.last().map_or(0, |header| header.seq + 1).max(seen);
            for header in &headers {
                if !out.entry(&header.fields)? {
                    return Ok(exit::OK);
                }
            }
            drop(reader);
            return follow::files(&path, &filter, from, &out);
        }
        if is_json {
            headers.iter().try_for_each(|header| show::json(&header.fields))?;
        } else {
            let rows: Vec<Vec<String>> = headers.iter().map(|header| row(&header.fields)).collect();
            show::table(&["seq", "time", "kind", "who", "what", "outcome"], &rows)?;
        }
        Ok(exit::OK)
    }
}

impl Show {
    /// The newest headers that match, in ascending order: from the index if there is one, otherwise
    /// from the ledger.
    fn newest(&self, files: &Files, reader: &Reader, filter: &Filter) -> Result<Vec<Header>, Fail> {
        let is_long = reader.size().map_err(Fail::failed)? > limits::PAGE_SCAN_MAX as u64;
        let index = if filter.is_empty() { None } else { index_of(files, is_long) };
        let (mut headers, mut next, mut coverage) = (Vec::new(), Some(u64::MAX), Coverage::default());
        while let Some(from) = next.filter(|_| headers.len() < self.limit) {
            let left = self.limit - headers.len();
            let page = match &index {
                Some(index) => index.headers(filter, from, Order::Descending, left, usize::MAX),
                None => reader
                    .headers(filter, from, Order::Descending, left, usize::MAX)
                    .map(|(headers, next)| HeaderPage { headers, next, index: None }),
            };
            let found = page.map_err(|e| Fail::new(exit::UNVERIFIED, e))?;
            headers.extend(found.headers);
            next = found.next;
            if let Some(Coverage { covered, unsound }) = found.index {
                coverage.covered = covered;
                coverage.unsound.extend(unsound);
            }
        }
        if !coverage.unsound.is_empty() {
            let blocks = coverage.unsound.len();
            show::note(&format!(
                "index.db: {blocks} blocks do not match the ledger, which was read instead: `par audit index` rebuilds them"
            ));
        }
        headers.reverse();
        Ok(headers)
    }
}

/// Opens the index of a ledger for reading. If it cannot be used, a message says why every entry is
/// read; without an index, only for a ledger that `is_long`.
fn index_of(files: &Files, is_long: bool) -> Option<Index> {
    let why = match Index::reading(files) {
        Ok(index) => return Some(index),
        Err(_) if !files.index().exists() && is_long => "index.db does not exist".to_owned(),
        Err(_) if !files.index().exists() => return None,
        Err(error) => error.to_string(),
    };
    show::note(&format!(
        "{}: every entry is read; `par audit index` builds an index",
        text::visible_line(&why)
    ));
    None
}

/// Prints one entry in full: header, leaf hash, and the payload unless it contains a key's
/// verifiers.
fn show_entry(stored: &Stored, is_json: bool) -> Result<(), Fail> {
    let payload = match &stored.body {
        _ if !stored.header.shows_payload() => json!("not shown: it contains a key's verifiers"),
        None => json!("erased"),
        Some(body) => serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body))),
    };
    let leaf = stored.leaf().hex();
    if is_json {
        return show::json(&json!({ "header": stored.header.fields, "leaf": leaf, "payload": payload }));
    }
    for (name, value) in &stored.header.fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        show::line(&format!("{name:<12} {}", text::visible_line(&value)))?;
    }
    show::line(&format!("{:<12} {leaf}", "leaf"))?;
    let pretty = serde_json::to_string_pretty(&payload).map_err(Fail::failed)?;
    show::line(&format!("\n{}", text::visible(&pretty)))
}
