//! The state of a ledger's anchors, and its warnings.

use crate::ledger::files::Files;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The state of a ledger's anchors, kept in `data/anchor`. It proves nothing and only says where to
/// continue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The place, as configured.
    pub place: String,
    /// Number of entries that the place's newest checkpoint covers.
    pub size: u64,
    /// The same, plus the `anchor` entry if that is the next one. The ledger has grown only beyond
    /// this.
    pub covered: u64,
    /// When the place took the checkpoint, in microseconds since 1970; 0 means never.
    pub at_us: u64,
    /// Number of failed tries since the place was configured.
    pub failures: u64,
    /// Why the last try failed, if it did.
    pub error: Option<String>,
    /// Whether it failed because the place holds another history of this log.
    pub is_conflict: bool,
}

impl Standing {
    /// The state that was kept for `files`, if it can be read.
    #[must_use]
    pub fn read(files: &Files) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(files.anchor()).ok()?).ok()
    }
}

/// What is wrong with the anchors, if anything.
#[must_use]
pub fn warning(standing: &Standing, size: u64, age_us: u64, age_us_max: u64) -> Option<String> {
    let error = standing.error.as_deref().unwrap_or_default();
    if standing.is_conflict {
        return Some(format!("{}: the ledger is not the one that was anchored: {error}", standing.place));
    }
    let is_old = size > standing.covered && age_us > age_us_max;
    is_old.then(|| {
        let (there, minutes) = (standing.size, age_us / 60_000_000);
        let why = if error.is_empty() { String::new() } else { format!(": {error}") };
        format!(
            "{}: has {there} of {size} entries and took no checkpoint for {minutes} minutes{why}",
            standing.place
        )
    })
}

pub(super) fn write(path: &Path, standing: &Standing) -> std::io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(standing).map_err(std::io::Error::other)?)?;
    std::fs::rename(&fresh, path)
}
