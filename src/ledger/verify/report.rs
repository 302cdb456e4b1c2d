//! What a verification found, and the judgement over it.

use crate::ledger::checkpoint::{Note, VerifierKey};
use crate::ledger::files::{Files, strays};
use crate::ledger::tree::Head;
use serde::{Deserialize, Serialize};

/// What a verification found. `Ok` with nothing checked cannot happen: no entry is a finding.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    /// The judgement over all findings.
    pub verdict: Verdict,
    /// The first entry that was read: the ones before were not.
    pub from: u64,
    /// Entries whose header, chain and leaf were checked.
    pub entries: u64,
    /// Payloads whose commitment was checked.
    pub payloads: u64,
    /// Payloads that a redaction erased.
    pub redacted: u64,
    /// Payloads that went with their age.
    pub dropped: u64,
    /// Files that the entries are in.
    pub segments: u64,
    /// Stored tiles that were recomputed.
    pub tiles: u64,
    /// Stored checkpoints whose signatures and root were checked.
    pub checkpoints: u64,
    /// Entries that the newest of them covers.
    pub signed: u64,
    /// The newest of them.
    #[serde(skip)]
    pub newest: Option<Note>,
    /// Epochs whose keys signed them, each named by the seal of the one before.
    pub epochs: u64,
    /// Entries that tell of an anchor, whose checkpoint was checked and compared with the tree.
    pub anchors: u64,
    /// Entries of the newest checkpoint from outside that this ledger was found to extend.
    pub anchored: Option<u64>,
    /// Rows of state.db that were compared, if it is there.
    pub state_rows: Option<u64>,
    /// Merkle root over the entries, in hexadecimal.
    pub root: String,
    /// Size at which the root was compared with the high-water mark, if there is one.
    pub high_water: Option<u64>,
    /// What does not hold.
    pub findings: Vec<Finding>,
    /// What could not be known.
    pub warnings: Vec<String>,
}

/// One thing that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The entry, where one can be named.
    pub seq: Option<u64>,
    /// What is wrong with it.
    pub what: String,
    /// The judgement that it alone leads to.
    pub verdict: Verdict,
}

/// The judgement.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that was checked holds, also against a checkpoint from outside.
    #[default]
    Verified,
    /// Everything that was checked holds. Nothing from outside was there to compare with: a cut tail, a
    /// rollback or a rewrite by who holds the files and keys cannot be excluded.
    VerifiedUnanchored,
    /// Entries that were seen before are missing.
    Incomplete,
    /// A checkpoint from outside is of another history.
    Diverged,
    /// Bytes are not what was hashed.
    Invalid,
    /// The file cannot be read as a ledger.
    Unreadable,
}

impl Verdict {
    /// The word in reports.
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

/// Entries between two words on how far a verification is.
pub(super) const PROGRESS_ENTRIES: u64 = 4_096;

/// Findings beyond this many are counted by the first ones.
const FINDINGS_MAX: usize = 20;

impl Verification {
    /// Adds a finding; the worst verdict stands.
    pub fn find(&mut self, seq: Option<u64>, verdict: Verdict, what: impl Into<String>) {
        self.verdict = self.verdict.max(verdict);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { seq, what: what.into(), verdict });
        }
    }

    /// Files that are named like segments and are none.
    pub(super) fn find_strays(&mut self, files: &Files) {
        for path in strays(&files.data).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.find(
                None,
                Verdict::Invalid,
                format!("`{name}` is named like a segment, and no segment has that name"),
            );
        }
    }
}

/// A mark that the root at some size must meet.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) struct RootMark {
    pub(in crate::ledger) head: Head,
}

/// A checkpoint that a log signed and somebody kept elsewhere, and what is known of who may sign.
#[derive(Clone, Debug)]
pub struct Outside {
    /// Where it comes from, for people.
    pub from: String,
    /// The note.
    pub note: Note,
    /// The log key that it has to be signed with; else that of the ledger itself.
    pub key: Option<VerifierKey>,
}
