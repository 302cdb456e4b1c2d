//! Holding a server to what the caller has seen of its log. A log that does not go on from there is refused.

use super::known;
use super::server::{self, Server};
use crate::agent::RunReply;
use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::config::known_logs_file;
use crate::ledger::{Checkpoint, Head, Note, VerifierKey, proof};
use crate::types::{Digest, text};
use serde_json::Value;

impl Server {
    /// The server, once its log was found to go on from what this caller remembers of it. Blocking.
    pub(in crate::cli) fn met(self) -> Result<Self, Fail> {
        meet(&self, &self.address)?;
        Ok(self)
    }

    /// Sends a run to a log that goes on from what this caller remembers of it, and remembers what the reply
    /// says. Blocking.
    pub(in crate::cli) fn run(&self, body: &Value) -> Result<RunReply, Fail> {
        meet(self, &self.address)?;
        let met = known::find(&self.address)?;
        let told = self.runtime.block_on(server::post(&self.client, &self.url, &self.key, body))?;
        match told.ledger.as_ref().and_then(|ledger| ledger.checkpoint.as_deref()) {
            Some(note) => hold(self, &self.address, met, note)?,
            None => meet(self, &self.address)?,
        }
        Ok(told)
    }
}

/// Asks a server for its newest checkpoint, which has to go on from the one that was seen last, and remembers
/// it. A log that was not met before is taken at its word, and that is said.
fn meet(server: &Server, address: &str) -> Result<(), Fail> {
    if known_logs_file().is_none() {
        return Ok(());
    }
    let met = known::find(address)?;
    hold(server, address, met, &server.text("/audit/checkpoint")?)
}

/// Holds a server to what was known of its log before it was asked, and remembers `note`, which it then told
/// as its newest checkpoint. What another command has seen meanwhile may be newer, and is no reason to alarm.
fn hold(server: &Server, address: &str, met: Option<known::Met>, note: &str) -> Result<(), Fail> {
    if known_logs_file().is_none() {
        return Ok(());
    }
    let unlike = |what: &str| unlike(address, what);
    let newest = Note::parse(note).map_err(|e| unlike(&e.to_string()))?;
    let now = Checkpoint::parse(newest.text()).map_err(|e| unlike(&e.to_string()))?;
    let (key, seen) = match met {
        Some(met) => met,
        None => {
            let told = server.text("/audit/key")?;
            let key =
                VerifierKey::parse(told.trim_end()).ok_or_else(|| unlike("it tells no verifier key"))?;
            show::note(&format!("{address}: met for the first time; its log is remembered as {key}"));
            (key, None)
        }
    };
    if now.origin != key.name() || !newest.is_signed_by(&key) {
        let shown = text::visible_line(&now.origin);
        return Err(unlike(&format!("its log is `{shown}`, and `{}` was met here", key.name())));
    }
    if let Some(seen) = seen {
        let before = Checkpoint::parse(seen.text()).map_err(|e| unlike(&e.to_string()))?.head;
        extends(server, address, before, now.head)?;
    }
    known::remember(address, &key, Some(&newest))
}

/// That the tree of a server begins with the one that was seen.
fn extends(server: &Server, address: &str, before: Head, here: Head) -> Result<(), Fail> {
    if here.size < before.size {
        let what = format!("it has {} entries, and had {}", here.size, before.size);
        return Err(unlike(address, &what));
    }
    let path = match here.size > before.size {
        true => consistency(server, before.size, here.size)?,
        false => Vec::new(),
    };
    if proof::is_extended(before, here, &path) {
        return Ok(());
    }
    Err(unlike(address, &format!("its first {} entries are not those that were there", before.size)))
}

fn consistency(server: &Server, from: u64, to: u64) -> Result<Vec<Digest>, Fail> {
    let told = server.ask(&format!("/audit/consistency?from={from}&to={to}"), None)?;
    let hashes = told.get("proof").and_then(Value::as_array).into_iter().flatten();
    Ok(hashes.filter_map(|hash| Digest::from_hex(hash.as_str()?)).collect())
}

fn unlike(address: &str, what: &str) -> Fail {
    let trust =
        format!("If that is right, `par audit trust {address} --key KEY` takes the log as it is now.");
    Fail::new(
        exit::UNVERIFIED,
        format!(
            "{address}: the ledger is not the one that was met here: {what}. It was rolled back, rewritten or \
                 exchanged. {trust}"
        ),
    )
}
