//! The result of a verification: its findings and its verdict.

use crate::ledger::checkpoint::{Note, VerifierKey};
use crate::ledger::files::{Files, strays};
use crate::ledger::tree::Head;
use serde::{Deserialize, Serialize};

/// The result of a verification. Checking nothing is never a success: a ledger without an entry is
/// a finding.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    /// The verdict over all findings.
    pub verdict: Verdict,
    /// The first entry that was read. Earlier entries were not.
    pub from: u64,
    /// Number of entries whose header, chain and leaf were checked.
    pub entries: u64,
    /// Number of payloads whose commitment was checked.
    pub payloads: u64,
    /// Number of payloads that a redaction erased.
    pub redacted: u64,
    /// Number of payloads that were dropped for their age.
    pub dropped: u64,
    /// Number of files that hold the entries.
    pub segments: u64,
    /// Number of stored tiles that were recomputed.
    pub tiles: u64,
    /// Number of stored checkpoints whose signatures and root were checked.
    pub checkpoints: u64,
    /// Number of entries that the newest stored checkpoint covers.
    pub signed: u64,
    /// The newest stored checkpoint.
    #[serde(skip)]
    pub newest: Option<Note>,
    /// Number of epochs whose keys signed the checkpoints. Each is named by the seal of the one
    /// before.
    pub epochs: u64,
    /// Number of `anchor` entries whose checkpoint was checked and compared with the tree.
    pub anchors: u64,
    /// Size of the newest checkpoint from outside that this ledger extends.
    pub anchored: Option<u64>,
    /// Number of rows of state.db that were compared, if the file exists.
    pub state_rows: Option<u64>,
    /// Merkle root over the entries, in hexadecimal.
    pub root: String,
    /// Size at which the root was compared with the high-water mark, if there is one.
    pub high_water: Option<u64>,
    /// What does not hold.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub warnings: Vec<String>,
}

/// One check that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The entry, if the finding is about one.
    pub seq: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// The verdict that this finding alone leads to.
    pub verdict: Verdict,
}

/// The verdict. A later variant is worse than an earlier one.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that was checked holds, also against a checkpoint from outside.
    #[default]
    Verified,
    /// Everything that was checked holds, but there was no checkpoint from outside to compare with.
    /// A cut tail, a rollback, or a rewrite by a holder of the files and keys cannot be excluded.
    VerifiedUnanchored,
    /// Entries that were seen before are missing.
    Incomplete,
    /// A checkpoint from outside belongs to another history.
    Diverged,
    /// Bytes are not the ones that were hashed.
    Invalid,
    /// The file cannot be read as a ledger.
    Unreadable,
}

impl Verdict {
    /// The name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::VerifiedUnanchored => "verified_unanchored",
            Self::Incomplete => "incomplete",
            Self::Diverged => "diverged",
            Self::Invalid => "invalid",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether everything that was checked holds.
    #[must_use]
    pub fn holds(self) -> bool {
        matches!(self, Self::Verified | Self::VerifiedUnanchored)
    }
}

/// Number of entries between two reports of progress.
pub(super) const PROGRESS_ENTRIES: u64 = 4_096;

/// Maximum number of findings that are listed. Further ones still count for the verdict.
const FINDINGS_MAX: usize = 20;

impl Verification {
    /// Adds a finding. The worst verdict wins.
    pub fn find(&mut self, seq: Option<u64>, verdict: Verdict, what: impl Into<String>) {
        self.verdict = self.verdict.max(verdict);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { seq, what: what.into(), verdict });
        }
    }

    /// Adds a finding for each file that is named like a segment but is not one.
    pub(super) fn find_strays(&mut self, files: &Files) {
        for path in strays(&files.data).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.find(
                None,
                Verdict::Invalid,
                format!("`{name}` is named like a segment, but no segment has that name"),
            );
        }
    }
}

/// A root that the tree must have at some size.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) struct RootMark {
    pub(in crate::ledger) head: Head,
}

/// A checkpoint that was signed by a log and kept elsewhere, with the key to check it.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Its source, for people.
    pub from: String,
    /// The note.
    pub note: Note,
    /// The log key that must have signed it; `None` means the key of the ledger itself.
    pub key: Option<VerifierKey>,
}
