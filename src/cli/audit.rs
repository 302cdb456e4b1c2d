//! `par audit`: verify and show read the files themselves and need no server; `evidence`, `redact` and `hash` are the rest.

use super::evidence::{self, CheckProof, Prove, Trust};
use super::exit::{self, Fail};
use super::export::{self, Take};
use super::follow::{self, Out};
use super::hash::Hash;
use super::index::IndexOf;
use super::journal;
use super::progress::Progress;
use super::redact::Redact;
use super::remote::Server;
use super::renew::Renew;
use super::{house, known, show};
use crate::config::{Config, Home};
use crate::ledger::{
    self, Checkpoint, Coverage, Files, Filter, Found, Header, Index, Note, Order, Outside, Reader, Report,
    Stored, Verdict, VerifierKey,
};
use crate::types::clock::Wall;
use crate::types::{limits, text};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Check every entry, the chain, the tree, every signature, every payload and state.db
    Verify(Verify),
    /// Show entries: all, those that match a query, or one by its number
    Show(Show),
    /// Write entries into one file, all or those that match a query; the ledger records it
    Export(Take),
    /// Bring the index of queries up to date, and look at all of it
    Index(IndexOf),
    /// Print the log's verifier key
    Key,
    /// Print the newest signed checkpoint
    Checkpoint,
    /// Write a proof of an entry, or of a whole run, that a stranger can check
    Prove(Prove),
    /// Check such a proof: needs the file and the log's key, and nothing else
    CheckProof(CheckProof),
    /// Erase payloads for good: their words leave every file of data/, their place in the chain stays
    Redact(Redact),
    /// Tell by which words a secret value is found in the record, where it is replaced
    Hash(Hash),
    /// Set a damaged log aside as it is, and begin another one behind it
    Renew(Renew),
    /// Take the log at an address as it is now, where it is rightly not the one that was met
    Trust(Trust),
}

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// A checkpoint that was kept elsewhere, or a reply that holds one: the ledger must go on from it
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// The log's verifier key, where it is known: the checkpoint, or the export, must be signed with it
    #[arg(long, value_name = "VKEY")]
    key: Option<String>,
    /// Check this file, which `par audit export` wrote, and no ledger: no home is needed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["checkpoint", "from"])]
    export: Option<PathBuf>,
    /// Read only the entries from this one on: a checkpoint that was kept must be of as many entries or more
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Read only the entries behind those that you verified last, which must be unchanged in the tree
    #[arg(long, conflicts_with = "from")]
    since_last: bool,
    /// Hold it against the launcher's journal too, a folder or one of its files
    #[arg(long, value_name = "PATH", conflicts_with_all = ["before", "export"])]
    launcher: Option<PathBuf>,
    /// A log that was set aside, by its id: the one in data/before/LOG
    #[arg(long, value_name = "LOG", conflicts_with_all = ["from", "since_last"])]
    before: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// A number, or words that all have to hold
    ///
    /// `kind:call.decision`, `decision:deny`, `tool:read_*`, `principal:key:…`, `key:ID`, `run:…`, `seq:7-9`; `since:` and
    /// `until:` a date, a time or a span (`24h`, `7d`); any other word or "quoted phrase" is looked for in the payloads.
    /// Words of one field are "or"; a `-` in front turns a word round.
    query: Vec<String>,
    /// At most this many, the newest
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on with those that come
    #[arg(long, short)]
    follow: bool,
    /// Ask this server, with the key in PAR_KEY, PAR_KEY_FILE or ~/.config/par/key
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

impl Audit {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        match self {
            // What needs no home is asked without one.
            Self::CheckProof(proof) => proof.run(is_json),
            Self::Trust(trust) => trust.run(),
            Self::Verify(Verify { export: Some(path), key, .. }) => {
                export::verify(path, key.as_deref(), is_json)
            }
            Self::Hash(hash) => hash.run(&super::load(home)?, is_json),
            Self::Redact(redact) => redact.run(&super::load(home)?, is_json),
            Self::Renew(renew) => renew.run(&super::load(home)?, is_json),
            Self::Verify(asked) => asked.run(&super::load(home)?, is_json),
            Self::Show(Show { url: Some(url), query, limit, follow, .. }) => {
                let query = super::query(query);
                Filter::parse(&query).map_err(Fail::usage)?;
                follow::server(&Server::at(url)?.met()?, &query, *limit, *follow, &Out { is_json })
            }
            Self::Show(show) => show.run(&super::load(home)?, is_json),
            Self::Export(take) => take.run(&super::load(home)?),
            Self::Index(index) => index.run(&super::load(home)?, is_json),
            Self::Key => evidence::key(&super::load(home)?, is_json),
            Self::Checkpoint => evidence::checkpoint(&super::load(home)?, is_json),
            Self::Prove(prove) => prove.run(&super::load(home)?),
        }
    }
}

impl Verify {
    fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        if let Some(log) = &self.before {
            return self.run_before(config, log, is_json);
        }
        let key = self.key.as_deref().map(evidence::verifier).transpose()?;
        let mut outside = Vec::new();
        if let Some(path) = &self.checkpoint {
            let from = path.display().to_string();
            outside.push(Outside { from, note: evidence::note(path)?, key: key.clone() });
        }
        let address = known::address(&config.home);
        let met = known::of(&address)?;
        let known_key = met.as_ref().map(|(key, _)| key.clone());
        if let Some((key, Some(note))) = met {
            outside.push(Outside { from: "known-logs".to_owned(), note, key: Some(key) });
        }
        let last = if self.since_last { Some(last_verified(&address)?) } else { None };
        if let Some((_, note)) = &last {
            let from = "the last verification".to_owned();
            outside.push(Outside { from, note: note.clone(), key: known_key.clone() });
        }
        let files = house::files(config);
        let from = last.as_ref().map(|(size, _)| *size).or(self.from).filter(|from| *from > 0);
        if let Some(from) = from {
            may_begin(from, &files, &outside)?;
        }
        let progress = Progress::new();
        let tell = |done, all| progress.tell(done, all);
        let report = match from {
            None => ledger::audit_telling(&files, &house::PROJECTIONS, &outside, &tell),
            Some(from) => ledger::audit_from(&files, from, &outside, &tell),
        };
        drop(progress);
        let mut report = same_key(report, config, key.as_ref().into_iter().chain(&known_key));
        if let Some(path) = self.launcher.as_ref().filter(|_| report.verdict.holds()) {
            let reader = Reader::open(&files.ledger()).map_err(Fail::failed)?;
            let compared = journal::compare(&mut report, &reader, path)?;
            if !is_json {
                show::line(&compared)?;
            }
        }
        // With the entries before the last verification, all were verified, then or now.
        let verified = report.newest.clone().filter(|_| from.is_none() || self.since_last);
        if report.verdict.holds()
            && let Err(fail) = remember(config, &address, verified.as_ref())
        {
            report.warnings.push(format!("what was seen is not remembered: {fail}"));
        }
        told(&report, is_json)
    }

    /// A log that another one has taken the place of.
    fn run_before(&self, config: &Config, log: &str, is_json: bool) -> Result<u8, Fail> {
        let is_name = !log.is_empty() && log.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let data = config.home.data.join("before").join(log);
        if !is_name || !data.is_dir() {
            let what = format!("`{}` is no log that was set aside", text::visible_line(log));
            return Err(Fail::usage(what));
        }
        let key = self.key.as_deref().map(evidence::verifier).transpose()?;
        let mut outside = Vec::new();
        if let Some(path) = &self.checkpoint {
            outside.push(Outside { from: path.display().to_string(), note: evidence::note(path)?, key });
        }
        told(&ledger::audit(&Files::below(&data), &house::PROJECTIONS, &outside), is_json)
    }
}

fn told(report: &Report, is_json: bool) -> Result<u8, Fail> {
    if is_json {
        show::json(report)?;
    } else {
        summary(report).iter().try_for_each(|line| show::line(line))?;
    }
    Ok(if report.verdict.holds() { exit::OK } else { exit::UNVERIFIED })
}

/// Whether a checkpoint is there that vouches for the entries before `from`, and there are as many.
fn may_begin(from: u64, files: &Files, outside: &[Outside]) -> Result<(), Fail> {
    let sizes = outside.iter().filter_map(|one| Checkpoint::parse(one.note.text()).ok());
    let newest = sizes.map(|checkpoint| checkpoint.head.size).max().unwrap_or(0);
    if newest < from {
        let mend = "give a later one by `--checkpoint`, or verify all of it";
        let what =
            format!("`--from {from}`: the newest checkpoint that was kept is of {newest} entries: {mend}");
        return Err(Fail::usage(what));
    }
    let there = Reader::open(&files.ledger()).map_err(Fail::failed)?.size().map_err(Fail::failed)?;
    if there < from {
        let what = format!("`--from {from}`: {there} entries are there, and the checkpoint has {newest}");
        return Err(Fail::new(exit::UNVERIFIED, what));
    }
    Ok(())
}

/// The ledger's log key has to be every one that is known of it.
fn same_key<'a>(mut report: Report, config: &Config, keys: impl Iterator<Item = &'a VerifierKey>) -> Report {
    for key in keys.filter(|_| report.verdict.holds()).collect::<Vec<_>>() {
        let there =
            Reader::open(&house::files(config).ledger()).ok().and_then(|reader| reader.log_key().ok());
        if there.as_ref() != Some(key) {
            report.find(None, Verdict::Diverged, format!("the log key is not that of `{}`", key.name()));
        }
    }
    report
}

/// The checkpoint of the last verification of all entries, or of all behind such a one, and its size.
fn last_verified(address: &str) -> Result<(u64, Note), Fail> {
    let note = known::verified(address)?;
    let size = |note: &Note| Checkpoint::parse(note.text()).map(|checkpoint| checkpoint.head.size);
    let last = note.and_then(|note| Some((size(&note).ok().filter(|size| *size > 0)?, note)));
    last.ok_or_else(|| {
        Fail::usage("`--since-last`: no verification of this ledger is remembered: verify all of it first")
    })
}

/// Whoever verifies remembers what was seen, and the next time the ledger must go on from there; and up to which
/// checkpoint all entries were verified, if they were.
fn remember(config: &Config, address: &str, verified: Option<&Note>) -> Result<(), Fail> {
    let reader = Reader::open(&house::files(config).ledger()).map_err(Fail::failed)?;
    let key = reader.log_key().map_err(Fail::failed)?;
    let note = reader.newest_checkpoint().map_err(Fail::failed)?;
    let note = note.and_then(|note| Note::parse(&note).ok());
    match verified {
        Some(verified) => known::remember_verified(address, &key, note.as_ref(), verified),
        None => known::remember(address, &key, note.as_ref()),
    }
}

/// The report in lines: what was checked and how many, or what does not hold.
pub(super) fn summary(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if report.verdict.holds() {
        let state = report.state_rows.map_or_else(String::new, |rows| format!(", {rows} rows of state.db"));
        let gone = [(report.redacted, "redacted"), (report.dropped, "dropped by age")];
        let gone: Vec<String> = gone
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, how)| format!("{count} {how}"))
            .collect();
        let gone = if gone.is_empty() { String::new() } else { format!(" ({})", gone.join(", ")) };
        let segments =
            if report.segments > 1 { format!(" in {} segments", report.segments) } else { String::new() };
        let behind = if report.from > 0 { format!(" from {} on", report.from) } else { String::new() };
        lines.push(format!(
            "{} {} entries{behind}{segments}: chain, tree, {} tiles, {} payloads{gone}{state}; root {}",
            show::paint("32", "✓"),
            report.entries,
            report.tiles,
            report.payloads,
            text::prefix(&report.root, 16),
        ));
        let epochs =
            if report.epochs == 1 { "one epoch".to_owned() } else { format!("{} epochs", report.epochs) };
        let of = if report.from > 0 { "all" } else { "them" };
        lines.push(format!(
            "  signed: {} of {of}, by {} checkpoints and the keys of {epochs}",
            report.signed, report.checkpoints
        ));
        if report.anchors > 0 {
            lines.push(format!("  anchored: {} times, with roots that are the tree's", report.anchors));
        }
        lines.push(match report.anchored {
            Some(size) => {
                format!("  it goes on from the checkpoint of {size} entries that was kept elsewhere.")
            }
            None => {
                "  no outside checkpoint was given: a rollback by whoever writes the files, or a rewrite with \
                     the keys as well, cannot be excluded."
                    .to_owned()
            }
        });
    }
    for finding in &report.findings {
        let at = finding.seq.map_or_else(String::new, |seq| format!("seq {seq}: "));
        lines.push(format!("{} {at}{}", show::paint("31", "✗"), text::visible_line(&finding.what)));
    }
    if !report.verdict.holds() {
        lines.push(format!("  chain and tree were followed over {} entries.", report.entries));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("  warning: {}", text::visible_line(warning))));
    lines
}

impl Show {
    fn run(&self, config: &Config, is_json: bool) -> Result<u8, Fail> {
        let path = house::files(config).ledger();
        let reader = Reader::open(&path).map_err(Fail::failed)?;
        if let [one] = self.query.as_slice()
            && let Ok(seq) = one.trim_start_matches('#').parse()
        {
            let stored = reader.entry(seq).map_err(|e| Fail::new(exit::UNVERIFIED, e))?;
            let stored = stored.ok_or_else(|| Fail::failed(format!("there is no entry {seq}")))?;
            show_entry(&stored, is_json)?;
            return Ok(exit::OK);
        }
        let filter = Filter::parse(&super::query(&self.query)).map_err(Fail::usage)?;
        let seen = reader.size().map_err(Fail::failed)?;
        let headers = self.newest(&house::files(config), &reader, &filter)?;
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
                    .map(|(headers, next)| Found { headers, next, index: None }),
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

/// The index of a ledger, only to ask it. Where it cannot be used, one line says why each entry is read; without an index
/// only where the ledger `is_long`.
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

/// What people want to know of an entry, in columns.
pub(super) fn row(fields: &Map<String, Value>) -> Vec<String> {
    let word = |name: &str| text::visible_line(fields.get(name).and_then(Value::as_str).unwrap_or_default());
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let policies = fields.get("policies").and_then(Value::as_array).into_iter().flatten();
    let policies: Vec<&str> = policies.filter_map(Value::as_str).collect();
    let outcome = [word("decision"), word("status"), policies.join(",")];
    let outcome: Vec<String> = outcome.into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        number("seq").unwrap_or_default().to_string(),
        number("wall_us").map(|us| Wall(us).rfc3339()).unwrap_or_default(),
        word("kind"),
        word("principal"),
        word("tool"),
        outcome.join(" "),
    ]
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
