//! `par audit show`: entries of the files, in a table or one whole.

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
    /// A number, or words that all have to hold
    ///
    /// `kind:call.decision`, `decision:deny`, `tool:read_*`, `principal:key:…`, `key:ID`, `run:…`, `seq:7-9`;
    /// `since:` and `until:` a date, a time or a span (`24h`, `7d`); any other word or "quoted phrase" is
    /// looked for in the payloads. Words of one field are "or"; a `-` in front turns a word round.
    pub(super) query: Vec<String>,
    /// At most this many, the newest
    #[arg(long, default_value_t = 50)]
    pub(super) limit: usize,
    /// Go on with those that come
    #[arg(long, short)]
    pub(super) follow: bool,
    /// Ask this server, with the key in PAR_KEY, PAR_KEY_FILE or ~/.config/par/key
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
            let stored = stored.ok_or_else(|| Fail::failed(format!("there is no entry {seq}")))?;
            show_entry(&stored, is_json)?;
            return Ok(exit::OK);
        }
        let filter = Filter::parse(&query::join(&self.query)).map_err(Fail::usage)?;
        let seen = reader.size().map_err(Fail::failed)?;
        let headers = self.newest(&compose::files(config), &reader, &filter)?;
        if self.follow {
            let out = Out { is_json };
            // Those that came since are told too, and none twice.
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
    /// The newest headers that match, rising: found by the index if there is one, else in the ledger alone.
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
                "index.db: {blocks} blocks do not fit, and the ledger was read instead: `par audit index` makes them anew"
            ));
        }
        headers.reverse();
        Ok(headers)
    }
}

/// The index of a ledger, only to ask it. Where it cannot be used, one line says why each entry is read;
/// without an index only where the ledger `is_long`.
fn index_of(files: &Files, is_long: bool) -> Option<Index> {
    let why = match Index::reading(files) {
        Ok(index) => return Some(index),
        Err(_) if !files.index().exists() && is_long => "there is no index.db".to_owned(),
        Err(_) if !files.index().exists() => return None,
        Err(error) => error.to_string(),
    };
    show::note(&format!("{}: every entry is read: `par audit index` makes one", text::visible_line(&why)));
    None
}

/// One entry whole: header fields, leaf hash, and the payload unless it holds a key's verifiers.
fn show_entry(stored: &Stored, is_json: bool) -> Result<(), Fail> {
    let payload = match &stored.body {
        _ if !stored.header.shows_payload() => json!("not shown: it holds a key's verifiers"),
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
