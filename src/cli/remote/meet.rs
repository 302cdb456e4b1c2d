//! Compares a server's log with what the caller has seen of it. A log that does not extend it is
//! refused.

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
    /// Returns the server if its log extends what this caller remembers of it. Blocking.
    pub(in crate::cli) fn met(self) -> Result<Self, Fail> {
        meet(&self, &self.address)?;
        Ok(self)
    }

    /// Sends a run to a server whose log extends what this caller remembers of it, and remembers
    /// the checkpoint in the reply. Blocking.
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

/// Asks a server for its newest checkpoint, which must extend the last one seen, and remembers it.
/// A log seen for the first time is trusted, and a message says so.
fn meet(server: &Server, address: &str) -> Result<(), Fail> {
    if known_logs_file().is_none() {
        return Ok(());
    }
    let met = known::find(address)?;
    hold(server, address, met, &server.text("/audit/checkpoint")?)
}

/// Checks `note`, the newest checkpoint of the server, against what was known before the request,
/// and remembers it. If another command has meanwhile seen a newer one, that is not an alarm.
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
                VerifierKey::parse(told.trim_end()).ok_or_else(|| unlike("it returns no verifier key"))?;
            show::note(&format!("{address}: first contact; its log is remembered as {key}"));
            (key, None)
        }
    };
    if now.origin != key.name() || !newest.is_signed_by(&key) {
        let shown = text::visible_line(&now.origin);
        return Err(unlike(&format!("its log is `{shown}`, but `{}` is remembered", key.name())));
    }
    if let Some(seen) = seen {
        let before = Checkpoint::parse(seen.text()).map_err(|e| unlike(&e.to_string()))?.head;
        extends(server, address, before, now.head)?;
    }
    known::remember(address, &key, Some(&newest))
}

/// Checks that the server's tree begins with the remembered one.
fn extends(server: &Server, address: &str, before: Head, here: Head) -> Result<(), Fail> {
    if here.size < before.size {
        let what = format!("it has {} entries, but had {}", here.size, before.size);
        return Err(unlike(address, &what));
    }
    let path = match here.size > before.size {
        true => consistency(server, before.size, here.size)?,
        false => Vec::new(),
    };
    if proof::is_extended(before, here, &path) {
        return Ok(());
    }
    Err(unlike(address, &format!("its first {} entries have changed", before.size)))
}

fn consistency(server: &Server, from: u64, to: u64) -> Result<Vec<Digest>, Fail> {
    let told = server.ask(&format!("/audit/consistency?from={from}&to={to}"), None)?;
    let hashes = told.get("proof").and_then(Value::as_array).into_iter().flatten();
    Ok(hashes.filter_map(|hash| Digest::from_hex(hash.as_str()?)).collect())
}

fn unlike(address: &str, what: &str) -> Fail {
    let trust =
        format!("If that is expected, `par audit trust {address} --key KEY` accepts the log as it is now.");
    Fail::new(
        exit::UNVERIFIED,
        format!(
            "{address}: the ledger is not the one that is remembered: {what}. It was rolled back, rewritten or \
                 replaced. {trust}"
        ),
    )
}
