//! The report of a replay.

use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
pub struct Replayed {
    /// Entries read.
    pub entries: u64,
    /// Decisions among them, within the requested time.
    pub decisions: u64,
    /// Decisions that came out as recorded.
    pub as_recorded: u64,
    /// Entries that record the use of a power of the API.
    pub powers: u64,
    /// Decisions not repeated: the proposed call was invalid.
    pub invalid: u64,
    /// Decisions not repeated: denied before there was a request.
    pub without_request: u64,
    /// Decisions not repeated: the payload was erased or truncated.
    pub without_payload: u64,
    /// Decisions not repeated under their own bundle, which is not stored: digest → decisions.
    pub not_kept: BTreeMap<String, u64>,
    /// Bundles under which decisions were repeated: digest → decisions.
    pub bundles: BTreeMap<String, u64>,
    /// Versions of Cedar, other than this program's, under which bundles were made.
    pub other_engines: BTreeMap<String, u64>,
    /// Number of differences between the record and the rules.
    pub different: u64,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// Decisions that were compared with the other rules.
    pub compared: u64,
    /// Those that an earlier schema recorded, and whose missing members were filled in.
    pub filled: u64,
    /// Those that come out differently, by what decides them there.
    pub flips: Vec<Flips>,
    /// What policies in shadow mode would change: those of the other rules, or else those of each
    /// decision's own bundle.
    pub shadow_flips: Vec<Flips>,
}

/// A decision whose record does not follow from the rules that it names.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Number of the entry.
    pub seq: u64,
    /// The difference, in words.
    pub what: String,
}

/// Decisions that come out differently for one reason.
#[derive(Debug, Serialize)]
pub struct Flips {
    /// The decision on the ledger.
    pub from: String,
    /// The decision under the other rules.
    pub to: String,
    /// The policies that determine the new answer, or else a reason in words.
    pub by: String,
    /// Number of decisions.
    pub count: u64,
    /// The oldest of them.
    pub examples: Vec<Example>,
}

/// One such decision.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// Number of the decision's entry.
    pub seq: u64,
    /// The caller.
    pub principal: String,
    /// Name of the tool.
    pub tool: String,
    /// The object, as the policies saw it.
    pub resource: String,
}

impl Replayed {
    /// Whether every record matches the rules.
    #[must_use]
    pub fn is_as_recorded(&self) -> bool {
        self.different == 0
    }
}
