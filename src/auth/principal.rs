//! The principal: what a credential was found to stand for.

use crate::types::KeyId;
use serde::{Deserialize, Serialize};

/// Who asks, as far as the credential proves it. Made only by this room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    subject: Subject,
    /// When the key ends, in microseconds since 1970.
    expires_us: Option<u64>,
}

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

impl Principal {
    pub(super) fn of_key(
        id: KeyId,
        name: String,
        role: Role,
        user: Option<String>,
        expires_us: Option<u64>,
    ) -> Self {
        Self { subject: Subject { source: Source::Key { id, name }, role, user }, expires_us }
    }

    pub(super) fn of_os_user(name: String, role: Role) -> Self {
        let subject = Subject { user: Some(format!("os:{name}")), source: Source::Os { name }, role };
        Self { subject, expires_us: None }
    }

    /// When the key ends, in microseconds since 1970; `None` where it does not.
    #[must_use]
    pub fn expires_us(&self) -> Option<u64> {
        self.expires_us
    }

    /// The principal in words.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The credential.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.subject.source
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.subject.role
    }

    /// The user behind the credential, where one is named.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.subject.user.as_deref()
    }

    /// The name on the ledger: `key:Ab3dEf9h` or `os:root`.
    #[must_use]
    pub fn id(&self) -> String {
        self.subject.id()
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
