//! Keys, checkpoints and files that a person gives to check a log against.

use crate::cli::exit::Fail;
use crate::config::Config;
use crate::ledger::{Files, Note, VerifierKey};
use crate::types::text;
use serde_json::Value;
use std::path::Path;

/// A longer file is not a note or a proof, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The files of the log that was set aside in `data/before/LOG`.
pub(in crate::cli) fn log_before(config: &Config, log: &str) -> Result<Files, Fail> {
    let is_name = !log.is_empty() && log.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let folder = config.home.data.join("before");
    if is_name && folder.join(log).is_dir() {
        return Ok(Files::below(&folder.join(log)));
    }
    let items = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut known: Vec<String> = items.filter_map(|item| item.file_name().into_string().ok()).collect();
    known.sort();
    let known = match known.is_empty() {
        true => "no log was set aside".to_owned(),
        false => format!("it has {}", text::visible_line(&known.join(", "))),
    };
    Err(Fail::usage(format!("log `{}` is not in data/before/: {known}", text::visible_line(log))))
}

/// Parses a verifier key from the command line.
pub(in crate::cli) fn verifier(key: &str) -> Result<VerifierKey, Fail> {
    VerifierKey::parse(key).ok_or_else(|| {
        Fail::usage("not a verifier key, expected `NAME+HASH+KEY` as `par audit key` prints it")
    })
}

/// Reads a file of bounded length, or standard input.
pub(in crate::cli) fn slurp(path: &Path) -> Result<String, Fail> {
    use std::io::Read as _;
    let at = |e| Fail::usage(format!("{}: {e}", path.display()));
    let mut text = String::new();
    let mut input: Box<dyn std::io::Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(at)?),
    };
    input.by_ref().take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(at)?;
    Ok(text)
}

/// Reads a checkpoint from a file: a note, the last of several, a log line, or a run's reply that
/// contains one.
pub(in crate::cli) fn note(path: &Path) -> Result<Note, Fail> {
    let text = slurp(path)?;
    let whole: Option<Value> = serde_json::from_str(&text).ok();
    let inside = whole.as_ref().and_then(|reply| reply.pointer("/ledger/checkpoint")?.as_str());
    let text = inside.unwrap_or(&text);
    let note = Note::last(text).map_or_else(|| Note::parse(text), Ok);
    note.map_err(|e| Fail::usage(format!("{}: {e}", path.display())))
}
