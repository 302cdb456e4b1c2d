//! `par audit show`: entries of the files, in a table, or one entry in full.

use super::card;
use super::follow::{self, Out};
use super::given;
use super::source::EntrySource;
use crate::auth::key_names_of;
use crate::cli::compose::HomeReader;
use crate::cli::exit::{self, Fail};
use crate::cli::remote::Server;
use crate::cli::{compose, query, show};
use crate::config::{Config, Home};
use crate::ledger::{Coverage, Files, Filter, Header, HeaderPage, Index, Order, Reader, Stored, Unverified};
use crate::types::{limits, text};
use clap::Args;
use serde_json::json;

#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// Entry number, or query terms that must all match [default: every entry]
    ///
    /// Terms are `kind:call.decision`, `decision:deny`, `tool:read_*`, `principal:key:…`,
    /// `key:NAME`, `run:…` and `seq:7-9`; `since:` and `until:` take a date, a time or a span
    /// (`24h`, `7d`). Any other word or "quoted phrase" is searched for in the payloads. Terms of
    /// the same field are alternatives. A `-` before a term excludes what matches it.
    pub(super) query: Vec<String>,
    /// Show only the newest entries, at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: usize,
    /// Keep running and show new entries as they are appended
    #[arg(long, short)]
    pub(super) follow: bool,
    /// Read from the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or
    /// ~/.config/par/key; needs no home here [env: PAR_URL]
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// Show entries of the log that was set aside in data/before/LOG instead
    #[arg(long, value_name = "LOG", conflicts_with_all = ["follow", "url"])]
    pub(super) before: Option<String>,
}

impl Show {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        if let Some(log) = &self.before {
            return self.on_log_before(&compose::load(home)?, log, is_json);
        }
        match self.url.clone().or_else(|| home.server_url()) {
            Some(url) => self.on_server(&Server::at(&url)?.checked()?, is_json),
            None => self.on_files(&compose::load(home)?, is_json),
        }
    }

    fn on_server(&self, server: &Server, is_json: bool) -> Result<u8, Fail> {
        if let Some(seq) = self.seq() {
            return one(seq, &EntrySource::server(server), None, is_json);
        }
        let query = query::join(&self.query);
        Filter::parse(&query).map_err(Fail::usage)?;
        follow::server(server, &query, self.limit, self.follow, &Out::stdout(is_json))
    }

    /// Shows a log that a newer one has replaced. What is damaged in it is why it was replaced: no
    /// server has to hear of it.
    fn on_log_before(&self, config: &Config, log: &str, is_json: bool) -> Result<u8, Fail> {
        compose::check_readable(&config.home.data)?;
        let files = given::log_before(config, log)?;
        let reader = Reader::open(&files.ledger()).map_err(|e| Fail::new(exit::UNVERIFIED, e))?;
        let names = key_names_of(&files);
        let filter = Filter::parse(&query::join(&self.query)).map_err(Fail::usage)?.by_ids(&names);
        let source = EntrySource::Files(&reader, names);
        if let Some(seq) = self.seq() {
            return one(seq, &source, Some(log), is_json);
        }
        let (headers, _) = self.newest(&files, &reader, &filter)?;
        Out::stdout(is_json).entries(headers.iter().map(|header| &header.fields), &source, false)?;
        if let Some(seq) = reader.met_damage() {
            show::note(&format!(
                "par: entry {seq} does not verify: `par audit show --before {log} {seq}` shows what is stored"
            ));
        }
        Ok(exit::OK)
    }

    fn on_files(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let files = compose::files(config);
        if self.seq().is_none() && compose::is_new(&files) {
            compose::check_readable(&config.home.data)?;
            show::note(&format!("par: {}", compose::NOTHING));
            return Ok(exit::OK);
        }
        let reader = HomeReader::open(config)?;
        let source = EntrySource::Files(&reader, key_names_of(&files));
        if let Some(seq) = self.seq() {
            return one(seq, &source, None, is_json);
        }
        let filter = Filter::parse(&query::join(&self.query)).map_err(Fail::usage)?;
        query::check_tools(&reader, &filter)?;
        let names = key_names_of(&files);
        query::check_names(&reader, &names, &filter)?;
        let filter = filter.by_ids(&names);
        let seen = reader.size().map_err(Fail::failed)?;
        let (headers, met) = self.newest(&files, &reader, &filter)?;
        let out = Out::stdout(is_json);
        // Entries that arrived in the meantime are shown too, and none is shown twice.
        let from = headers.last().map_or(0, |header| header.seq + 1).max(seen);
        let is_read = out.entries(headers.iter().map(|header| &header.fields), &source, self.follow)?;
        drop(source);
        let own = reader.met_damage();
        if let Some(seq) = own.or(met) {
            show::note(&format!(
                "par: entry {seq} does not verify: `par audit show {seq}` shows what is stored"
            ));
        }
        if let Some(seq) = met.filter(|_| own.is_none()) {
            compose::pass_on(&config.home.data, seq);
        }
        drop(reader);
        if self.follow && is_read {
            return follow::files(config, &filter, from, &out);
        }
        Ok(exit::OK)
    }
}

impl Show {
    /// The number of the one entry that is asked for.
    pub(super) fn seq(&self) -> Option<u64> {
        let [one] = self.query.as_slice() else { return None };
        one.trim_start_matches('#').parse().ok()
    }

    /// The newest headers that match, in ascending order: from the index if there is one, otherwise
    /// from the ledger. Also the first entry that the index met and that does not verify.
    fn newest(
        &self,
        files: &Files,
        reader: &Reader,
        filter: &Filter,
    ) -> Result<(Vec<Header>, Option<u64>), Fail> {
        let is_long = reader.size().map_err(Fail::failed)? > limits::PAGE_SCAN_MAX as u64;
        let index = if filter.is_empty() { None } else { index_of(files, is_long) };
        let (mut headers, mut next, mut coverage) = (Vec::new(), Some(u64::MAX), Coverage::default());
        while let Some(from) = next.filter(|_| headers.len() < self.limit) {
            let left = self.limit - headers.len();
            let page = match &index {
                Some(index) => index.headers(filter, from, Order::Descending, left, usize::MAX),
                None => reader
                    .listed(filter, from, Order::Descending, left, usize::MAX)
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
        Ok((headers, index.and_then(|index| index.met_damage())))
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

/// Prints one entry: for a person what it says, as JSON the whole record.
pub(super) fn one(
    seq: u64,
    source: &EntrySource<'_>,
    before: Option<&str>,
    is_json: bool,
) -> Result<u8, Fail> {
    if let Some(unverified) = source.unverified(seq)? {
        return damaged(&unverified, is_json);
    }
    let stored = source.entry(seq)?;
    let stored = stored.ok_or_else(|| Fail::failed(format!("entry {seq} does not exist")))?;
    if is_json {
        record(&stored)?;
    } else {
        card::print(&stored, source, before)?;
    }
    Ok(exit::OK)
}

/// Prints header, leaf hash, and the payload unless it contains a key's verifiers.
fn record(stored: &Stored) -> Result<(), Fail> {
    let payload = match &stored.body {
        _ if !stored.header.shows_payload() => json!("not shown: it contains a key's verifiers"),
        None => json!("erased"),
        Some(body) => serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body))),
    };
    let leaf = stored.leaf().hex();
    show::json(&json!({ "header": stored.header.fields, "leaf": leaf, "payload": payload }))
}

/// Prints what is stored of an entry that does not verify.
fn damaged(entry: &Unverified, is_json: bool) -> Result<u8, Fail> {
    let Unverified { seq, what, header, payload } = entry;
    let as_text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let payload = payload.as_ref().map(|(_, body)| as_text(body));
    if is_json {
        show::json(
            &json!({ "seq": seq, "damaged": what, "header_bytes": as_text(header), "payload": payload }),
        )?;
    } else {
        show::line(&format!("entry {seq}: does not verify: {}", text::visible_line(what)))?;
        show::line("  what is stored, and may not be what was written:")?;
        show::line(&format!("  header   {}", text::visible_line(&as_text(header))))?;
        let payload = payload.as_deref().unwrap_or("erased, or not to be shown");
        show::line(&format!("  payload  {}", text::visible_line(payload)))?;
    }
    Ok(exit::UNVERIFIED)
}
