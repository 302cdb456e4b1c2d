//! What a replay finds, as it is told.

use serde::Serialize;
use std::collections::BTreeMap;

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Replayed {
    /// Entries looked at.
    pub entries: u64,
    /// Decisions among them, of the time that was asked for.
    pub decisions: u64,
    /// Made again, with the recorded answer.
    pub as_recorded: u64,
    /// Uses of powers of the API that entries say they were written by.
    pub powers: u64,
    /// Not asked: proposed calls that were none.
    pub invalid: u64,
    /// Not asked: denied before there was a request.
    pub without_request: u64,
    /// Not asked: the payload was erased, or is cut.
    pub without_payload: u64,
    /// Not made again under their own bundle, which is not kept: digest → decisions.
    pub not_kept: BTreeMap<String, u64>,
    /// Bundles under which decisions were made again: digest → decisions.
    pub bundles: BTreeMap<String, u64>,
    /// Versions of Cedar, other than this program's, that bundles were made by.
    pub other_engines: BTreeMap<String, u64>,
    /// Where the record and the rules differ: how many.
    pub different: u64,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// Decisions put to the other rules.
    pub compared: u64,
    /// Those that come out otherwise, by what decides them there.
    pub flips: Vec<Flips>,
    /// What policies in shadow mode would change besides: those of the other rules, or without such those
    /// of each decision's own bundle.
    pub shadow_flips: Vec<Flips>,
}

/// A decision whose record does not follow from the rules that it names.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// The entry.
    pub seq: u64,
    /// What is wrong.
    pub what: String,
}

/// Decisions that come out otherwise for one reason.
#[derive(Debug, Serialize)]
pub struct Flips {
    /// The word on the ledger.
    pub from: String,
    /// The word under the other rules.
    pub to: String,
    /// What determines the new answer, in words where no policy does.
    pub by: String,
    /// How many.
    pub count: u64,
    /// Some of them, the oldest.
    pub examples: Vec<Example>,
}

/// One of many.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// The decision's entry.
    pub seq: u64,
    /// Who asked.
    pub principal: String,
    /// The tool.
    pub tool: String,
    /// The object, as the policies saw it.
    pub resource: String,
}

impl Replayed {
    /// Whether nothing was found that differs from its record.
    #[must_use]
    pub fn is_as_recorded(&self) -> bool {
        self.different == 0
    }
}
