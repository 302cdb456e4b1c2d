//! A principal as data, which proves nothing.

use crate::types::KeyId;
use serde::{Deserialize, Serialize};

/// A principal as data, as policies see it. It proves nothing, so any code may make one to ask what
/// a policy would decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The credential.
    pub source: Source,
    /// The role.
    pub role: Role,
    /// The user of the credential, if it names one.
    pub user: Option<String>,
}

/// The credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An API key, by its public part and its name.
    Key {
        /// The public part.
        id: KeyId,
        /// The name given when it was created.
        name: String,
    },
    /// A user of this host, identified by the kernel.
    Os {
        /// The user's name, or the uid if it has none.
        name: String,
    },
}

/// What a principal may do at most. `admin` includes `operator` and `viewer`; the others are
/// separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads the audit.
    Viewer,
    /// Runs the agent.
    Operator,
    /// Approves calls, and cannot run the agent.
    Approver,
    /// Manages keys, reads the audit and runs the agent.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Approver, Self::Admin];

    /// The name in keys and policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }

    /// Parses the name of a role.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl Subject {
    /// The name on the ledger: `key:Ab3dEf9h` or `os:root`.
    #[must_use]
    pub fn id(&self) -> String {
        match &self.source {
            Source::Key { id, .. } => format!("key:{id}"),
            Source::Os { name } => format!("os:{name}"),
        }
    }
}
