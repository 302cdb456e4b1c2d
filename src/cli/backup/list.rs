//! The list of the files in a backup.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format of the list that this version writes and reads.
pub(super) const FORMAT: &str = "par/backup/1";

/// The name of the list in a backup.
pub(super) const LIST: &str = "backup.json";

/// The list of the files in a backup. It is written last.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    pub(super) t: String,
    pub(super) log: String,
    pub(super) size: u64,
    pub(super) root: String,
    /// Time of the backup, in seconds since 1970.
    pub(super) made_s: u64,
    pub(super) program: String,
    /// Path in the backup → length in bytes and SHA-256.
    pub(super) files: BTreeMap<String, (u64, String)>,
}
