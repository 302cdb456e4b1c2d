//! `par audit key|checkpoint|prove|check-proof`: exports evidence and checks it.

use super::given;
use crate::cli::compose::HomeReader;
use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::config::Config;
use crate::ledger::export::proof_file::{Evidence, Proven};
use crate::ledger::{Filter, Header, Order, ProofError, ReadError, Reader};
use crate::types::clock::Wall;
use crate::types::text;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct Prove {
    /// Number of the entry
    #[arg(required_unless_present = "run", conflicts_with = "run")]
    seq: Option<u64>,
    /// Prove a whole run: its request, every decision and result, and its reply
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckProof {
    /// File that `par audit prove` wrote; `-` reads standard input
    file: PathBuf,
    /// Verifier key of the log, as `par audit key` prints it
    #[arg(long, value_name = "VKEY")]
    key: String,
}

fn reader(config: &Config) -> Result<HomeReader, Fail> {
    HomeReader::open(config)
}

fn damaged(error: ReadError) -> Fail {
    let code = if matches!(error, ReadError::Damaged(..)) { exit::UNVERIFIED } else { exit::FAILED };
    Fail::new(code, error)
}

/// Prints the verifier key of the log, for `--key`.
pub(super) fn key(config: &Config, is_json: bool) -> Result<u8, Fail> {
    let key = reader(config)?.log_key().map_err(damaged)?.to_string();
    if is_json {
        show::json(&json!({ "key": key }))?
    } else {
        show::line(&key)?
    }
    Ok(exit::OK)
}

/// Prints the newest checkpoint, as a signed note.
pub(super) fn checkpoint(config: &Config, is_json: bool) -> Result<u8, Fail> {
    let note = reader(config)?.newest_checkpoint().map_err(damaged)?;
    let note = note.ok_or_else(|| Fail::new(exit::UNVERIFIED, "the ledger has no checkpoint"))?;
    if is_json {
        show::json(&json!({ "checkpoint": note }))?
    } else {
        show::bytes(note.as_bytes())?
    }
    Ok(exit::OK)
}

impl Prove {
    pub(super) fn run(&self, config: &Config) -> Result<u8, Fail> {
        let reader = reader(config)?;
        let seqs = match (&self.run, self.seq) {
            (Some(run), _) => of_run(&reader, run)?,
            (None, seq) => Vec::from_iter(seq),
        };
        let evidence = reader.prove(self.run.clone(), &seqs).map_err(damaged)?;
        let file = evidence.write().map_err(Fail::failed)?;
        // A proof that would not be accepted is not handed out.
        let key = reader.log_key().map_err(damaged)?;
        evidence
            .check(&key)
            .map_err(|e| Fail::new(exit::UNVERIFIED, format!("the proof is not valid: {e}")))?;
        match &self.out {
            None => show::bytes(file.as_bytes())?,
            Some(path) => {
                std::fs::write(path, &file).map_err(|e| Fail::failed(format!("{}: {e}", path.display())))?;
                show::note(&format!(
                    "wrote {}; check it with `par audit check-proof {0} --key '{key}'`",
                    path.display()
                ));
            }
        }
        Ok(exit::OK)
    }
}

/// The numbers of a run's entries.
fn of_run(reader: &Reader, run: &str) -> Result<Vec<u64>, Fail> {
    let filter = Filter::field("run", run);
    let found = reader.headers(&filter, 0, Order::Ascending, usize::MAX, usize::MAX).map_err(damaged)?;
    match found.0.as_slice() {
        [] => Err(Fail::failed(format!("run `{}` is not in the ledger", text::visible_line(run)))),
        headers => Ok(headers.iter().map(|header| header.seq).collect()),
    }
}

impl CheckProof {
    /// Needs no home, no database and no server.
    pub(super) fn run(&self, is_json: bool) -> Result<u8, Fail> {
        let key = given::verifier(&self.key)?;
        let fail = |what: ProofError| Fail::new(exit::UNVERIFIED, format!("✗ nothing is proven: {what}"));
        let evidence = Evidence::read(&given::slurp(&self.file)?).map_err(fail)?;
        let proven = evidence.check(&key).map_err(fail)?;
        if is_json {
            show::json(&report(&evidence, &proven))?;
        } else {
            lines(&evidence, &proven).iter().try_for_each(|line| show::line(line))?;
        }
        Ok(exit::OK)
    }
}

fn report(evidence: &Evidence, proven: &Proven) -> Value {
    let entries =
        proven.entries.iter().map(|(header, payload)| json!({ "header": header.fields, "payload": payload }));
    json!({
        "run": evidence.run,
        "log": proven.checkpoint.origin,
        "size": proven.checkpoint.head.size,
        "root": proven.checkpoint.head.root.hex(),
        "epoch": proven.epoch,
        "entries": entries.collect::<Vec<_>>(),
    })
}

fn lines(evidence: &Evidence, proven: &Proven) -> Vec<String> {
    let count = proven.entries.len();
    let of_run = evidence
        .run
        .as_ref()
        .map_or_else(String::new, |run| format!(", every entry of {}", text::visible_line(run)));
    let mut lines = vec![
        format!(
            "{} {count} {}{of_run}",
            show::paint("32", "✓"),
            if count == 1 { "entry" } else { "entries" }
        ),
        format!(
            "  in {} at {} entries, root {}…, signed by the log key and the key of epoch {}",
            proven.checkpoint.origin,
            proven.checkpoint.head.size,
            text::prefix(&proven.checkpoint.head.root.hex(), 16),
            proven.epoch
        ),
    ];
    for (header, payload) in &proven.entries {
        lines.push(line(header));
        lines.extend(payload.as_ref().and_then(words).map(|words| format!("        {words}")));
    }
    lines.push("  times are from the host's own clock".to_owned());
    lines
}

fn line(header: &Header) -> String {
    let word = |name: &str| text::visible_line(header.str(name).unwrap_or_default());
    let when = header.u64("wall_us").map(|us| Wall(us).rfc3339()).unwrap_or_default();
    let parts = [word("kind"), word("principal"), word("tool"), word("decision"), word("status")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("  #{:<5} {when}  {}", header.seq, parts.join("  "))
}

/// The member of a payload that people most want to read, on one line.
fn words(payload: &Value) -> Option<String> {
    let found =
        ["message", "arguments", "answer", "result", "reason"].iter().find_map(|name| payload.get(name));
    let found = found.filter(|value| !value.is_null())?;
    let words = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    Some(text::visible_line(text::prefix(&words, crate::types::limits::SHOWN_BYTES_MAX)))
}
