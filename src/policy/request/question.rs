//! A question to the policies: who asks for what, on which object, under which circumstances.

use crate::auth::Subject;
use crate::provenance::ArgumentOrigins;
use crate::tools::{IdKind, Manifest};
use crate::types::{Channel, DataLabels, ModelSink};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::net::IpAddr;

pub use crate::types::UNTRUSTED;

/// One call, as the policies see it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The caller.
    pub subject: &'a Subject,
    /// The conversation that the call is part of.
    pub session: &'a Session,
    /// Manifest of the tool.
    pub manifest: &'a Manifest,
    /// Arguments that match the manifest's schema.
    pub arguments: &'a Json,
    /// The object, in canonical form.
    pub resource: &'a Resource,
    /// Whether a person has approved exactly this call.
    pub approved: Approved<'a>,
    /// Wall clock, in microseconds since 1970.
    pub now_us: u64,
    /// Where the request came from, if over the network.
    pub source_ip: Option<IpAddr>,
    /// Where the run came in.
    pub channel: Channel,
    /// How the tool was used within the last hour.
    pub counts: Counts,
    /// Where the sensitive arguments were found; `None` if that is not known, which is read in the
    /// unsafe way.
    pub origins: Option<&'a ArgumentOrigins>,
    /// Whether a person limited the run to some tools and named this one.
    pub is_chosen: bool,
    /// Whether a stop covers the call.
    pub is_halted: bool,
}

/// One request to a language model, as the policies see it.
#[derive(Clone, Copy, Debug)]
pub struct AskQuestion<'a> {
    /// The caller.
    pub subject: &'a Subject,
    /// The conversation that would be sent.
    pub session: &'a Session,
    /// The model.
    pub sink: &'a ModelSink,
    /// Whether a stop covers the run.
    pub is_halted: bool,
    /// An estimate of the tokens that would be sent.
    pub input_tokens: u64,
    /// The name of the model that did not answer, if this one is asked in its place.
    pub fallback_of: Option<&'a str>,
    /// Wall clock, in microseconds since 1970.
    pub now_us: u64,
    /// Where the request came from, if over the network.
    pub source_ip: Option<IpAddr>,
    /// Where the run came in.
    pub channel: Channel,
}

/// How a tool was used within the last hour, by all callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were allowed, without this one.
    pub calls_hour: i64,
    /// Calls that failed.
    pub failures_hour: i64,
    /// Seconds since the newest of those; `None` without a failure.
    pub failed_ago_s: Option<i64>,
}

/// The state of a session that policies can test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its identifier.
    pub id: String,
    /// The tools in the session's ceiling; all others are denied.
    pub ceiling: BTreeSet<String>,
    /// Labels of the untrusted output that it has seen.
    pub taint: BTreeSet<String>,
    /// Named classes of data that rules gave to what it has seen.
    pub seen: BTreeSet<String>,
    /// Where those labels come from, oldest first, for display. Policies see only the labels.
    pub tainted_by: Vec<TaintSource>,
    /// Tool calls so far in this run.
    pub calls_used: i64,
    /// Tool calls that this run may make.
    pub budget: i64,
    /// A measure that agents may raise; initially 0.
    pub risk: i64,
}

impl Session {
    /// The labels of everything that it has seen.
    #[must_use]
    pub fn labels(&self) -> DataLabels {
        DataLabels { taint: self.taint.clone(), seen: self.seen.clone() }
    }

    /// The same session after it has also seen what `labels` are of.
    #[must_use]
    pub fn after(&self, labels: &DataLabels) -> Self {
        let mut all = self.labels();
        all.add(labels);
        Self { taint: all.taint, seen: all.seen, ..self.clone() }
    }
}

/// An untrusted result that a session has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintSource {
    /// The tool that returned it.
    pub tool: String,
    /// The object that it came from, such as a canonical path.
    pub resource: String,
    /// The result's entry on the ledger.
    pub result: u64,
}

/// The object of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// An entity without ancestors, such as `Host::"localhost"`.
    Fixed {
        /// Entity type, without the namespace.
        kind: String,
        /// Entity id.
        id: String,
    },
    /// An entity that an argument names by its id, such as `Project::"demo"`.
    Id {
        /// Entity type.
        kind: IdKind,
        /// Entity id, as the catalog checked it.
        id: String,
    },
    /// A path inside the tool's roots.
    Path {
        /// Canonical absolute path of what exists, or would be created.
        canonical: String,
        /// Named paths that contain it by device and inode: absolute, or `@name`.
        within: Vec<String>,
    },
    /// A path outside the tool's roots, as the argument spells it.
    Outside {
        /// The path in lexical form: without `.`, `..` or empty names.
        lexical: String,
    },
}

impl Resource {
    /// A host with its port, both in canonical form, such as `Host::"git.example.com:443"`.
    #[must_use]
    pub fn host(id: &str) -> Self {
        Self::Fixed { kind: "Host".to_owned(), id: id.to_owned() }
    }
}

/// Whether a person has approved the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approved<'a> {
    /// No person has answered.
    No,
    /// A person confirmed it, perhaps the user who asked.
    Confirmed {
        /// The user, if the credential names one.
        by: Option<&'a str>,
    },
    /// Another user of the asked group approved.
    Approved {
        /// The user, if the credential names one.
        by: Option<&'a str>,
    },
}

impl Approved<'_> {
    pub(in crate::policy) fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Confirmed { .. } => "confirmed",
            Self::Approved { .. } => "approved",
        }
    }

    pub(in crate::policy) fn by(&self) -> Option<&str> {
        match self {
            Self::No => None,
            Self::Confirmed { by } | Self::Approved { by } => *by,
        }
    }
}
