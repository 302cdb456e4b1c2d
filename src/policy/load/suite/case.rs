//! What a bundle's own tests expect, not yet checked against a catalog.

use crate::auth::Role;
use crate::policy::power::Power;
use crate::policy::request::groups::Groups;
use crate::policy::request::question::Counts;
use crate::policy::uses::{Door, Ran};
use crate::provenance::ArgumentOrigins;
use crate::types::{Channel, KeyId, ModelSink};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The time of a case that sets none, in microseconds since 1970: 2030-01-01T00:00:00Z.
pub(in crate::policy) const NOW_US: u64 = 1_893_456_000_000_000;

/// One expected decision, not yet checked against a catalog.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Case {
    pub(in crate::policy) place: CasePlace,
    pub(in crate::policy) name: String,
    pub(in crate::policy) who: Who,
    pub(in crate::policy) tool: String,
    pub(in crate::policy) arguments: Map<String, Value>,
    pub(in crate::policy) resource: Option<String>,
    pub(in crate::policy) within: Vec<String>,
    pub(in crate::policy) approved: Yes,
    pub(in crate::policy) approver: Option<String>,
    pub(in crate::policy) now_us: u64,
    pub(in crate::policy) source_ip: Option<IpAddr>,
    pub(in crate::policy) channel: Channel,
    pub(in crate::policy) counts: Counts,
    pub(in crate::policy) origins: ArgumentOrigins,
    pub(in crate::policy) is_chosen: bool,
    pub(in crate::policy) is_halted: bool,
    pub(in crate::policy) expect: Expect,
}

/// One expected list of tools.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Offered {
    pub(in crate::policy) place: CasePlace,
    pub(in crate::policy) who: Who,
    pub(in crate::policy) tools: BTreeSet<String>,
}

/// The caller, its groups, and the state of its session.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Who {
    pub(in crate::policy) role: Role,
    pub(in crate::policy) user: Option<String>,
    /// The id of the key; `None` stands for any key.
    pub(in crate::policy) key: Option<KeyId>,
    pub(in crate::policy) groups: Arc<Groups>,
    /// The tools in the session's ceiling; `None` means all of them.
    pub(in crate::policy) ceiling: Option<BTreeSet<String>>,
    pub(in crate::policy) taint: BTreeSet<String>,
    pub(in crate::policy) seen: BTreeSet<String>,
    pub(in crate::policy) calls_used: i64,
    pub(in crate::policy) budget: i64,
    pub(in crate::policy) risk: i64,
}

/// The expected answer.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Expect {
    pub(in crate::policy) word: &'static str,
    /// All determining policies; `None` if the case does not say.
    pub(in crate::policy) policies: Option<BTreeSet<String>>,
    /// The groups that are asked; `None` if the case does not say.
    pub(in crate::policy) asks: Option<BTreeSet<String>>,
}

/// Whether a person has approved the call.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(in crate::policy) enum Yes {
    #[default]
    No,
    Confirmed,
    Approved,
}

/// The place of a case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CasePlace {
    /// Such as `policies/tests/10-read.toml`.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
}

impl fmt::Display for CasePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One expected answer to the use of a power.
#[derive(Clone, Debug)]
pub(in crate::policy) struct PowerCase {
    pub(in crate::policy) place: CasePlace,
    pub(in crate::policy) name: String,
    pub(in crate::policy) who: Who,
    pub(in crate::policy) power: Power,
    pub(in crate::policy) owner: Option<String>,
    pub(in crate::policy) door: Door,
    pub(in crate::policy) expires_us: Option<u64>,
    pub(in crate::policy) now_us: u64,
    pub(in crate::policy) ran: Ran,
    pub(in crate::policy) expect: Expect,
}

/// One expected answer to a request to a language model.
#[derive(Clone, Debug)]
pub(in crate::policy) struct AskCase {
    pub(in crate::policy) place: CasePlace,
    pub(in crate::policy) name: String,
    pub(in crate::policy) who: Who,
    pub(in crate::policy) sink: ModelSink,
    pub(in crate::policy) input_tokens: u64,
    pub(in crate::policy) fallback_of: Option<String>,
    pub(in crate::policy) now_us: u64,
    pub(in crate::policy) source_ip: Option<IpAddr>,
    pub(in crate::policy) channel: Channel,
    pub(in crate::policy) expect: Expect,
}
