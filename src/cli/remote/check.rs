//! Compares a server's log with what the caller has seen of it. A log that does not extend it is
//! refused.

use super::known;
use super::server::{self, Server};
use crate::agent::RunReply;
use crate::cli::exit::{self, Fail};
use crate::cli::live::LiveRun;
use crate::cli::reply::PrintedRun;
use crate::cli::show;
use crate::config::known_logs_file;
use crate::ledger::{Checkpoint, Head, Note, VerifierKey, proof};
use crate::types::{Digest, text};
use serde_json::Value;

impl Server {
    /// Returns the server if its log extends what this caller remembers of it. Blocking.
    pub(in crate::cli) fn checked(self) -> Result<Self, Fail> {
        check_log(&self, &self.address)?;
        Ok(self)
    }

    /// Sends a run, or one call of a tool, to a server whose log extends what this caller remembers
    /// of it, and remembers the checkpoint in the reply. Blocking.
    pub(in crate::cli) fn run(&self, path: &str, body: &Value) -> Result<RunReply, Fail> {
        self.checking(|| server::reply(&self.url, self.ask_run(path, body)?))
    }

    /// The same for a message, whose run is printed as it happens, unless `is_json`. Blocking.
    pub(in crate::cli) fn run_live(
        &self,
        body: &Value,
        is_json: bool,
    ) -> Result<(RunReply, PrintedRun), Fail> {
        if is_json {
            return Ok((self.run("/agent/run", body)?, PrintedRun::default()));
        }
        let live = LiveRun::start(true)?;
        let made = self.checking(|| self.follow_run(body, &live.watch()));
        let printed = live.end()?;
        Ok((made?, printed))
    }

    fn checking(&self, run: impl FnOnce() -> Result<RunReply, Fail>) -> Result<RunReply, Fail> {
        check_log(self, &self.address)?;
        let known_log = known::find(&self.address)?;
        let reply = run()?;
        match reply.ledger.as_ref().and_then(|ledger| ledger.checkpoint.as_deref()) {
            Some(note) => check_checkpoint(self, &self.address, known_log, note)?,
            None => check_log(self, &self.address)?,
        }
        Ok(reply)
    }
}

/// Asks a server for its newest checkpoint, which must extend the last one seen, and remembers it.
/// A log seen for the first time is trusted, and a message says so.
fn check_log(server: &Server, address: &str) -> Result<(), Fail> {
    if known_logs_file().is_none() {
        return Ok(());
    }
    let known_log = known::find(address)?;
    check_checkpoint(server, address, known_log, &server.text("/audit/checkpoint")?)
}

/// Checks `note`, the newest checkpoint of the server, against what was known before the request,
/// and remembers it. If another command has meanwhile seen a newer one, that is not an alarm.
fn check_checkpoint(
    server: &Server,
    address: &str,
    known_log: Option<known::KnownLog>,
    note: &str,
) -> Result<(), Fail> {
    if known_logs_file().is_none() {
        return Ok(());
    }
    let mismatch = |what: &str| mismatch(address, what);
    let newest = Note::parse(note).map_err(|e| mismatch(&e.to_string()))?;
    let now = Checkpoint::parse(newest.text()).map_err(|e| mismatch(&e.to_string()))?;
    let (key, seen) = match known_log {
        Some(known_log) => known_log,
        None => {
            let text = server.text("/audit/key")?;
            let key =
                VerifierKey::parse(text.trim_end()).ok_or_else(|| mismatch("it returns no verifier key"))?;
            show::note(&format!(
                "{address}: this is the first contact: the key of its log is now remembered: {key}"
            ));
            (key, None)
        }
    };
    if now.origin != key.name() || !newest.is_signed_by(&key) {
        let shown = text::visible_line(&now.origin);
        return Err(mismatch(&format!("its log is `{shown}`, but `{}` is remembered", key.name())));
    }
    if let Some(seen) = seen {
        let before = Checkpoint::parse(seen.text()).map_err(|e| mismatch(&e.to_string()))?.head;
        extends(server, address, before, now.head)?;
    }
    known::remember(address, &key, Some(&newest))
}

/// Checks that the server's tree begins with the remembered one.
fn extends(server: &Server, address: &str, before: Head, here: Head) -> Result<(), Fail> {
    if here.size < before.size {
        let what = format!("it has {} entries, but had {}", here.size, before.size);
        return Err(mismatch(address, &what));
    }
    let path = match here.size > before.size {
        true => consistency(server, before.size, here.size)?,
        false => Vec::new(),
    };
    if proof::is_extended(before, here, &path) {
        return Ok(());
    }
    Err(mismatch(address, &format!("its first {} entries have changed", before.size)))
}

fn consistency(server: &Server, from: u64, to: u64) -> Result<Vec<Digest>, Fail> {
    let answer = server.ask(&format!("/audit/consistency?from={from}&to={to}"), None)?;
    let hashes = answer.get("proof").and_then(Value::as_array).into_iter().flatten();
    Ok(hashes.filter_map(|hash| Digest::from_hex(hash.as_str()?)).collect())
}

fn mismatch(address: &str, what: &str) -> Fail {
    let trust =
        format!("If that is expected, `par audit trust {address} --key KEY` accepts the log as it is now.");
    Fail::new(
        exit::UNVERIFIED,
        format!(
            "{address}: the ledger is not the remembered one: {what}. It was rolled back, rewritten or \
                 replaced. {trust}"
        ),
    )
}
