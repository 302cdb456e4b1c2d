//! `par audit export` and `par audit verify --export`: writes entries to one file, and checks such
//! a file.

use super::given;
use super::unfinished::{Unfinished, at};
use crate::auth::{self, Role};
use crate::cli::exit::{self, Fail};
use crate::cli::progress::Busy;
use crate::cli::{compose, query, show};
use crate::config::Config;
use crate::http::admin::{self, AdminError, Operation};
use crate::ledger::export::verify::{self as exported, Exported};
use crate::ledger::{Export, ExportError, Filter, Format};
use crate::types::text;
use clap::Args;
use serde_json::{Value, json};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Args)]
pub(in crate::cli) struct Take {
    /// Query terms that must all match, as for `par audit show` [default: every entry]
    query: Vec<String>,
    /// Format: `jsonl`, which `par audit verify --export` checks, or `csv`, for spreadsheets
    #[arg(long, value_name = "FORMAT", value_parser = ["jsonl", "csv"], default_value = "jsonl")]
    format: String,
    /// File to write, which must not exist yet [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Take {
    /// Through the admin socket of the running server, which records it, or directly on the ledger
    /// if none runs.
    pub(super) fn run(&self, config: &Config) -> Result<u8, Fail> {
        let query = query::join(&self.query);
        let query = compose::secrets(config, Some(&compose::model_keys(config)?))?.clean(query).into_inner();
        let filter = Filter::parse(&query).map_err(Fail::usage)?;
        let filter = filter.by_ids(&auth::key_names_of(&compose::files(config)));
        let format =
            Format::parse(&self.format).ok_or_else(|| Fail::usage("`--format` is `jsonl` or `csv`"))?;
        let mut out = self.out.as_deref().map(Unfinished::make).transpose()?;
        let files = compose::files(config);
        let request = json!({ "op": Operation::AuditExport.as_str(), "query": query, "format": self.format });
        // Held to the end: without a server, the entries are read under this process's own lock.
        let (record, _ledger) = match admin::call(&config.home.data, &request) {
            Err(AdminError::NotRunning) => {
                let by = auth::local(&config.home.data, Role::Admin)
                    .map_err(|e| Fail::new(exit::UNAUTHENTICATED, e))?;
                let ledger = compose::open_ledger(config)?;
                (ledger.record_export(&filter, format, by.id(), None).map_err(failed)?, Some(ledger))
            }
            Err(other) => return Err(other.into()),
            Ok(answer) => {
                let record = answer.get("record").and_then(Value::as_u64);
                (record.ok_or_else(|| Fail::failed("the server's response cannot be read"))?, None)
            }
        };
        let written = Arc::new(AtomicU64::new(0));
        let mib = written.clone();
        let busy = Busy::new(move || format!("exporting, {} MiB", mib.load(Ordering::Relaxed) >> 20));
        let mut export = Export::open(&files, record).map_err(failed)?;
        while let Some(piece) = export.piece().map_err(failed)? {
            written.fetch_add(piece.len() as u64, Ordering::Relaxed);
            match &mut out {
                Some(file) => file.write(&piece)?,
                None => show::bytes(&piece)?,
            }
        }
        drop(busy);
        if let Some(file) = out {
            let path = file.finish()?;
            show::note(&format!("wrote {}; recorded in entry {record}", path.display()));
        }
        if let [first, more @ ..] = export.damaged() {
            compose::pass_on(&config.home.data, *first);
            let more = if more.is_empty() { String::new() } else { format!(", nor do {} more", more.len()) };
            return Err(Fail::new(
                exit::UNVERIFIED,
                format!(
                    "entry {first} does not verify{more}: the export has what is stored: `par audit verify`"
                ),
            ));
        }
        Ok(exit::OK)
    }
}

fn failed(error: ExportError) -> Fail {
    let code = if matches!(error, ExportError::Read(_)) { exit::UNVERIFIED } else { exit::FAILED };
    Fail::new(code, error)
}

/// Checks an export. Needs no home, no database and no server.
pub(super) fn verify(path: &Path, key: Option<&str>, is_json: bool) -> Result<u8, Fail> {
    let key = key.map(given::verifier).transpose()?;
    let mut input: Box<dyn std::io::BufRead> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(path).map_err(|e| Fail::usage(at(path, &e)))?)),
    };
    let found = exported::check(&mut input, key.as_ref());
    let found = found.map_err(|what| {
        Fail::new(exit::UNVERIFIED, format!("✗ nothing is proven: {}", text::visible_line(&what.to_string())))
    })?;
    if is_json {
        show::json(&report(&found))?;
    } else {
        lines(&found, key.is_some()).iter().try_for_each(|line| show::line(line))?;
    }
    Ok(exit::OK)
}

fn report(found: &Exported) -> Value {
    json!({
        "log": found.checkpoint.origin,
        "key": found.key.to_string(),
        "query": found.query,
        "size": found.size,
        "entries": found.entries,
        "payloads": found.payloads,
        "is_all": found.query.is_empty(),
        "record": found.record,
        "signed": found.checkpoint.head.size,
        "root": found.checkpoint.head.root.hex(),
        "epoch": found.epoch,
    })
}

fn lines(found: &Exported, is_known: bool) -> Vec<String> {
    let Exported { checkpoint, epoch, record, query, size, entries, payloads, key } = found;
    let mut lines = vec![
        format!("{} {entries} entries, {payloads} payloads: each is in the tree", show::paint("32", "✓")),
        format!(
            "  of {} at {} entries, root {}…, signed by the log key and the key of epoch {epoch}",
            checkpoint.origin,
            checkpoint.head.size,
            text::prefix(&checkpoint.head.root.hex(), 16),
        ),
    ];
    lines.push(if query.is_empty() {
        format!("  complete: all of the first {size} entries; entry {record} records the export")
    } else {
        format!(
            "  complete: everything that entry {record} recorded for `{}` among {size} entries",
            text::visible_line(query)
        )
    });
    if !query.is_empty() {
        lines.push(
            "  that nothing else matched is the server's claim: no proof shows what is left out".to_owned(),
        );
    }
    if !is_known {
        lines.push(format!(
            "  the key comes from the export itself: compare it with the log's key, or \
             pass that with `--key`\n  {key}"
        ));
    }
    lines
}
