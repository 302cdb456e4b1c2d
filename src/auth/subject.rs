//! A principal in words, which proves nothing.

use crate::types::KeyId;
use serde::{Deserialize, Serialize};

/// A principal in words: what policies look at. It proves nothing, and so anybody may make one to ask
/// what would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The credential.
    pub source: Source,
    /// The role.
    pub role: Role,
    /// The user behind the credential, where one is named.
    pub user: Option<String>,
}

/// The credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An API key, by its public part and its name.
    Key {
        /// The public part.
        id: KeyId,
        /// The name given at its making.
        name: String,
    },
    /// A user of this host, known by the kernel.
    Os {
        /// The user's name, or its number where it has none.
        name: String,
    },
}

/// What a principal may do at all. `admin` includes `operator` and `viewer`; the others are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads the audit.
    Viewer,
    /// Runs the agent.
    Operator,
    /// Approves, and cannot run.
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

    /// The role of this name.
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
