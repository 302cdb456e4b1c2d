//! A question to the policy: who asks for what, on which object, and how things stand.

use crate::auth::Subject;
use crate::tools::{IdKind, Manifest};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The label of a session that has read what nobody vouches for.
pub const UNTRUSTED: &str = "untrusted";

/// One call, as the policy is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Who asks.
    pub subject: &'a Subject,
    /// The conversation that the call is part of.
    pub session: &'a Session,
    /// The tool.
    pub manifest: &'a Manifest,
    /// Arguments that fit the manifest's schema.
    pub arguments: &'a Json,
    /// The object, in canonical form.
    pub resource: &'a Resource,
    /// Whether a person said yes to this exact call.
    pub approved: Approved<'a>,
    /// Wall clock, in microseconds since 1970.
    pub now_us: u64,
    /// Where the request came from, if over the network.
    pub source_ip: Option<IpAddr>,
    /// How the tool was used of late.
    pub counts: Counts,
}

/// How a tool was used within the last hour, by anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were allowed, this one not among them.
    pub calls_hour: i64,
    /// Calls that did not end well.
    pub failures_hour: i64,
    /// Seconds since the newest of those.
    pub failed_ago_s: Option<i64>,
}

/// The state of a session that policies may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its identifier.
    pub id: String,
    /// The tools that are left to it; all others are denied.
    pub ceiling: BTreeSet<String>,
    /// What untrusted output it has seen, as labels.
    pub taint: BTreeSet<String>,
    /// Where the labels come from, oldest first: for people. Policies see the labels alone.
    pub tainted_by: Vec<TaintSource>,
    /// Tool calls so far in this run.
    pub calls_used: i64,
    /// Tool calls that this run may make.
    pub budget: i64,
    /// A measure that agents may raise; 0 to begin with.
    pub risk: i64,
}

/// A result that a session has seen and that nobody vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintSource {
    /// The tool that gave it.
    pub tool: String,
    /// The object that it was read from, such as a canonical path.
    pub resource: String,
    /// The result's number on the ledger.
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
    /// What an argument names by its id, such as `Project::"demo"`.
    Id {
        /// Entity type.
        kind: IdKind,
        /// Entity id, as the catalog checked it.
        id: String,
    },
    /// A path inside the tool's roots.
    Path {
        /// Canonical absolute path, of what is there or would be.
        canonical: String,
        /// Names of paths that hold it by device and inode: absolute, or `@name`.
        within: Vec<String>,
    },
    /// A path outside the tool's roots, in the words of the argument.
    Outside {
        /// The path as words: no `.`, `..` or empty names.
        lexical: String,
    },
}

impl Resource {
    /// A host with its port, in their one spelling, such as `Host::"git.example.com:443"`.
    #[must_use]
    pub fn host(id: &str) -> Self {
        Self::Fixed { kind: "Host".to_owned(), id: id.to_owned() }
    }
}

/// Whether a person said yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approved<'a> {
    /// Nobody was asked.
    No,
    /// Somebody confirmed, perhaps the user who asked.
    Confirmed {
        /// The user, where the credential names one.
        by: Option<&'a str>,
    },
    /// Another user of the asked group approved.
    Approved {
        /// The user, where the credential names one.
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
