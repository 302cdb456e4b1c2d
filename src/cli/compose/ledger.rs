//! The ledger of a home, and the first entries of a process.

use super::reading::check_readable;
use crate::cli::exit::{self, Fail};
use crate::cli::show;
use crate::config::{self, Config};
use crate::gate::{self, Rules};
use crate::launcher::Report;
use crate::ledger::payload::{ConfigLoadPayload, ConfigValue, StartPayload};
use crate::ledger::{
    Anchor, AppendError, Draft, Files, Ledger, Lock, LockError, OpenError, Projection, Rotation,
};
use crate::secrets::Secrets;
use crate::types::limits;
use crate::{agent, auth, rules};
use std::time::Duration;

/// The part of state.db that each room owns.
pub(in crate::cli) static PROJECTIONS: [Projection; 3] =
    [auth::PROJECTION, gate::PROJECTION, agent::PROJECTION];

/// The paths and limits of a home's ledger.
pub(in crate::cli) fn files(config: &Config) -> Files {
    Files {
        free_bytes_min: config.free_bytes_min,
        log_key: config::log_key_file(),
        rotation: Rotation {
            segment_bytes_max: config.segments.bytes_max,
            segment_ms_max: config.segments.s_max.map(|s| s.saturating_mul(1_000)),
            payload_ms_max: config.segments.payload_s_max.map(|s| s.saturating_mul(1_000)),
        },
        ..Files::below(&config.home.data)
    }
}

/// Opens the ledger for writing. Waits up to [`limits::LOCK_WAIT_MS_MAX`] for its lock.
pub(in crate::cli) fn open_ledger(config: &Config) -> Result<Ledger, Fail> {
    let files = files(config);
    check_readable(&config.home.data)?;
    let lock = take_lock(&files).map_err(|e| match e {
        LockError::Held(_) => Fail::failed(e),
        LockError::File(..) => Fail::usage(e),
    })?;
    Ledger::open(files, lock, &PROJECTIONS).map_err(not_open)
}

/// As [`open_ledger`], for a command that acts without a server: it verifies the newest entries
/// first, and on a damaged ledger it does nothing.
pub(in crate::cli) fn open_to_act(config: &Config) -> Result<Ledger, Fail> {
    let ledger = open_ledger(config)?;
    ledger.verify_to_act().map_err(not_open)?;
    Ok(ledger)
}

fn not_open(error: OpenError) -> Fail {
    match error {
        OpenError::Append(e @ AppendError::Damaged(_)) => Fail::new(exit::UNVERIFIED, e),
        e @ (OpenError::Incomplete(_) | OpenError::Read(_)) => Fail::new(exit::UNVERIFIED, e),
        other => Fail::usage(other),
    }
}

/// Opens the place where checkpoints are anchored.
pub(in crate::cli) fn open_anchor(config: &Config) -> Result<Anchor, Fail> {
    Anchor::open(&config.anchoring, &files(config)).map_err(|e| Fail::usage(format!("`[ledger]`: {e}")))
}

/// Takes the lock. A command that has just ended, or a server that a restart has just stopped, is
/// waited for; a message says at once which process that is.
fn take_lock(files: &Files) -> Result<Lock, LockError> {
    let wait = Duration::from_millis(limits::LOCK_WAIT_MS_MAX);
    let quiet = Duration::from_millis(limits::LOCK_QUIET_MS);
    match Lock::take(files, quiet) {
        Err(held @ LockError::Held(_)) => {
            show::note(&format!("par: {held}; waiting up to {} s for it to end", wait.as_secs()));
            Lock::take(files, wait.saturating_sub(quiet))
        }
        taken => taken,
    }
}

/// The first entries of a server or of a command with tools, appended in one commit. The bundle
/// that they name is stored before this returns.
pub(in crate::cli) fn start_drafts(
    config: &Config,
    rules: &Rules,
    what: &str,
    report: &Report,
    secrets: &Secrets,
) -> Result<Vec<Draft>, Fail> {
    rules::keep_bundle(&config.home.data, &rules.bundle)
        .map_err(|e| Fail::failed(format!("{}: {e}", config.home.data.join("bundles").display())))?;
    let shown = config.shown.iter().map(|s| ConfigValue {
        key: s.key.clone(),
        value: s.value.clone(),
        from: s.from.clone(),
    });
    let start = StartPayload { command: what.to_owned(), program: crate::types::VERSION.to_owned() };
    let loaded = ConfigLoadPayload { keys: shown.collect(), system: Some(agent::SYSTEM.to_owned()) };
    let mut drafts = vec![Draft::new(start), Draft::new(loaded)];
    drafts.extend(rules::load_drafts(rules, report));
    // A secret that was written in the wrong setting, such as an address, is not recorded either.
    let cleaned = |draft: Draft| Draft {
        body: draft.body.changed(|members| secrets.clean(members).into_inner()),
        ..draft
    };
    Ok(drafts.into_iter().map(cleaned).collect())
}

#[cfg(test)]
mod tests {
    use super::PROJECTIONS;
    use crate::ledger::{Header, Kind};
    use serde_json::Value;
    use std::path::Path;

    /// Rebuilding state.db after a payload is gone gives the same rows: no projection looks into a
    /// payload that can go.
    #[test]
    fn no_row_comes_from_a_payload_that_can_go() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ledger/payload/tests/corpus");
        let mut checked = 0;
        for kind in Kind::ALL.iter().filter(|kind| kind.is_redactable() || kind.is_expirable()) {
            let entries = std::fs::read_to_string(corpus.join(format!("{}.jsonl", kind.as_str())));
            for line in entries.expect("corpus").lines() {
                let entry: Value = serde_json::from_str(line).expect("JSON");
                // The corpus has entries with members that no version of PAR writes.
                let Ok(header) = Header::parse(entry["header"].to_string().as_bytes()) else { continue };
                let body = entry["payload"].to_string();
                for projection in PROJECTIONS.iter().filter(|one| one.kinds.contains(kind)) {
                    let with = (projection.rows)(&header, body.as_bytes());
                    assert_eq!(with, (projection.rows)(&header, b""), "{projection:?}: {line}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 0);
    }
}
