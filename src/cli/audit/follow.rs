//! `par audit show --follow` and `--url`: entries as they are appended, from the files or from a
//! server.

use super::row;
use super::source::EntrySource;
use crate::auth::key_names_of;
use crate::cli::compose::{self, HomeReader};
use crate::cli::exit::{self, Fail};
use crate::cli::query::encoded;
use crate::cli::remote::Server;
use crate::cli::show;
use crate::cli::table::Screen;
use crate::config::Config;
use crate::ledger::{Filter, Order};
use crate::types::clock::Wall;
use crate::types::limits;
use serde_json::{Map, Value};
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

/// Writes entries one by one.
pub(super) struct Out {
    pub(super) is_json: bool,
    pub(super) screen: Screen,
}

impl Out {
    pub(super) fn stdout(is_json: bool) -> Self {
        Self { is_json, screen: Screen::stdout() }
    }

    /// Writes an entry immediately. Returns false if the reader is gone.
    fn entry(&self, fields: &Map<String, Value>, source: &EntrySource<'_>) -> Result<bool, Fail> {
        let lines = if self.is_json {
            vec![serde_json::to_string(fields).map_err(Fail::failed)?]
        } else {
            let screen = Screen { now: Wall::now(), ..self.screen };
            row::table().one(&screen, &row::USUAL, &row::row(fields, source, &screen))
        };
        let mut stdout = std::io::stdout().lock();
        match writeln!(stdout, "{}", lines.join("\n")).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(e) => Err(Fail::failed(e)),
        }
    }

    /// Writes entries: one by one if more follow, otherwise as a table with a head. Returns false
    /// if the reader is gone.
    pub(super) fn entries<'e>(
        &self,
        entries: impl Iterator<Item = &'e Map<String, Value>>,
        source: &EntrySource<'_>,
        is_followed: bool,
    ) -> Result<bool, Fail> {
        if self.is_json || is_followed {
            for fields in entries {
                if !self.entry(fields, source)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut table = row::table();
        entries.for_each(|fields| table.push(row::row(fields, source, &self.screen)));
        table.print_or(&self.screen, "par: no entry matches")?;
        Ok(true)
    }
}

/// Writes entries of the files from `from` on, until the reader is gone.
pub(super) fn files(config: &Config, filter: &Filter, mut from: u64, out: &Out) -> Result<u8, Fail> {
    let files = compose::files(config);
    loop {
        // Opened again each time: there may be a new segment, and open files would hold up others.
        let reader = HomeReader::open(config)?;
        // Before the page, so that entries appended meanwhile are read again.
        let size = reader.size().map_err(Fail::failed)?;
        let page = reader.listed(filter, from, Order::Ascending, limits::PAGE_ITEMS, limits::PAGE_SCAN_MAX);
        let (headers, next) = page.map_err(|e| Fail::new(exit::UNVERIFIED, e))?;
        let source = EntrySource::Files(&reader, key_names_of(&files));
        if !out.entries(headers.iter().map(|header| &header.fields), &source, true)? {
            return Ok(exit::OK);
        }
        drop(source);
        let shown = headers.last().map_or(from, |header| header.seq + 1);
        from = next.unwrap_or(shown.max(size));
        if next.is_none() {
            drop(reader);
            std::thread::sleep(Duration::from_millis(limits::TAIL_MS));
        }
    }
}

/// Writes entries of a server: the newest `limit` that match, then with `--follow` new ones as they
/// come.
pub(super) fn server(
    server: &Server,
    query: &str,
    limit: usize,
    is_followed: bool,
    out: &Out,
) -> Result<u8, Fail> {
    let (mut found, mut after) = (Vec::new(), String::new());
    let mut newest = None;
    while found.len() < limit {
        let left = (limit - found.len()).min(limits::PAGE_ITEMS_MAX);
        let path = format!("/audit?order=desc&limit={left}&q={}{after}", encoded(query));
        let mut page = server.ask(&path, None)?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            found.extend(items);
        }
        newest.get_or_insert_with(|| found.first().and_then(|entry| entry.get("seq")?.as_u64()));
        match page.get("next").and_then(Value::as_str) {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let entries = found.iter().rev().filter_map(Value::as_object);
    if !out.entries(entries, &EntrySource::server(server), is_followed)? {
        return Ok(exit::OK);
    }
    if is_followed { tail(server, query, newest.flatten(), out) } else { Ok(exit::OK) }
}

/// Writes entries of a server after `last`, as they come.
fn tail(server: &Server, query: &str, mut last: Option<u64>, out: &Out) -> Result<u8, Fail> {
    let source = EntrySource::server(server);
    loop {
        let after = last.map_or_else(String::new, |seq| format!("&after={seq}"));
        let mut written = Ok(true);
        server.events(&format!("/audit?q={}{after}", encoded(query)), |data| {
            let entry: Map<String, Value> = serde_json::from_str(data).unwrap_or_default();
            last = entry.get("seq").and_then(Value::as_u64).or(last);
            written = out.entry(&entry, &source);
            matches!(written, Ok(true))
        })?;
        if !written? {
            return Ok(exit::OK);
        }
        // The server ended the stream: it stops, or the key is not valid any more, which the next
        // request shows.
        show::note("par: the stream ended; asking again");
        std::thread::sleep(Duration::from_secs(1));
    }
}
